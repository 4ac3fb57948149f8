//! The layout on the storage of the file.

use std::collections::BTreeMap;

use results::figures::counted;
use solution::{Behind, PoolSpec, Role, VolumeKind};

use super::ratios::ratios;
use super::{Binding, DiskSet, EnclosureUse, Storage, Use};
use crate::formula;
use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::sizing::Sizing;

/// Computes how the layout uses the storage of the file. `worst_volume_actives`: active databases on the fullest
/// volume in the worst failure.
pub fn fit(inputs: &Inputs<'_>, sizing: &Sizing, layout: &Layout, worst_volume_actives: u32) -> Storage {
    let fitting = Fitting { inputs, sizing, layout, worst_volume_actives };
    let volumes = &inputs.solution.volumes;
    let volumes: Vec<Use> = volumes.iter().enumerate().map(|(n, volume)| fitting.volume(n, volume)).collect();
    let pools = inputs.solution.pools.iter().enumerate();
    let pools: Vec<Use> = pools.map(|(n, pool)| fitting.pool(n, pool, &volumes)).collect();
    let enclosures = fitting.enclosures(&volumes);
    Storage { ratios: ratios(inputs, sizing, &volumes, &pools), volumes, pools, enclosures }
}

/// Input of that computation.
struct Fitting<'a> {
    inputs: &'a Inputs<'a>,
    sizing: &'a Sizing,
    layout: &'a Layout,
    worst_volume_actives: u32,
}

/// Space and I/O that a volume or pool must provide.
#[derive(Default)]
struct Demand {
    needed_gib: f64,
    iops: f64,
    log_writes: f64,
    worst_active_iops: f64,
    databases: f64,
}

impl Fitting<'_> {
    /// Number of databases on the fullest volume of these hosts, and number of volumes with databases.
    fn most_databases(&self, hosts: &[usize]) -> (u32, u32) {
        let mut counts = BTreeMap::<(u8, u16), u32>::new();
        for copy in self.layout.databases.iter().flat_map(|database| &database.copies) {
            if hosts.contains(&usize::from(copy.server)) {
                *counts.entry((copy.server, copy.volume)).or_default() += 1;
            }
        }
        let fullest = counts.values().copied().max().unwrap_or(0);
        let volumes = counts.keys().map(|&(_, volume)| u32::from(volume)).max().unwrap_or(0);
        (fullest, volumes)
    }

    /// Entries of the file that describe volumes of one role on a host, and the number of these volumes. The host's
    /// databases are spread over all of them.
    fn alike(&self, host: usize, role: Role) -> (Vec<usize>, u32) {
        let volumes = self.inputs.solution.volumes.iter().enumerate();
        let alike = volumes.filter(|(_, other)| other.role == role && other.hosts.contains(&host));
        let count = alike.clone().map(|(_, other)| other.count).fold(0, u32::saturating_add);
        (alike.map(|(entry, _)| entry).collect(), count)
    }

    /// Use of the kind of volume with this number.
    fn volume(&self, entry: usize, volume: &VolumeKind) -> Use {
        let solution = self.inputs.solution;
        let (fullest, _) = self.most_databases(&volume.hosts);
        let demand = self.demand_on(volume, fullest);
        let disks = match volume.behind {
            Behind::Disks { disks, .. } => disks,
            _ => 0,
        };
        let databases = match volume.role {
            Role::Database => fullest,
            Role::Log => self.copies_on(volume).ceil() as u32,
            _ => 0,
        };
        let count = volume.count * volume.hosts.len() as u32;
        let disks_in_all = count.saturating_mul(disks).saturating_mul(solution.dag.count);
        let base = Use {
            name: volume.name.clone(),
            role: role_word(volume.role),
            entry,
            formatted_gib: volume.capacity_gib,
            ..self.used(&demand, DiskSet::of(solution, volume), volume.capacity_gib)
        };
        Use { count, disks, disks_in_all, databases, advice: self.crowded(entry, volume), ..base }
    }

    /// Number of copies on each volume of a kind, on the fullest host.
    fn copies_on(&self, volume: &VolumeKind) -> f64 {
        let on_host = |host: usize| {
            let copies = self.layout.databases.iter().flat_map(|database| &database.copies);
            copies.filter(|copy| usize::from(copy.server) == host).count() as f64
        };
        let shares =
            volume.hosts.iter().map(|&host| on_host(host) / f64::from(self.alike(host, volume.role).1));
        shares.fold(0.0, f64::max)
    }

    fn demand_on(&self, volume: &VolumeKind, fullest: u32) -> Demand {
        let Fitting { inputs, sizing, .. } = *self;
        let users = inputs.users;
        let v = f64::from(fullest);
        let free = |gb: f64| formula::with_free_space(gb, users.free_percent);
        let factor =
            formula::index_factor(users.content_index_percent(), users.index_merge_percent(), v.max(1.0));
        let with_logs = !inputs.has_log_volumes();
        let base = Demand {
            worst_active_iops: f64::from(self.worst_volume_actives.min(fullest)) * sizing.database_iops,
            databases: v,
            ..Demand::default()
        };
        match volume.role {
            Role::Database => Demand {
                needed_gib: v * free(
                    sizing.database_gb * factor + if with_logs { sizing.log_gb } else { 0.0 },
                ),
                iops: v * sizing.database_iops,
                log_writes: if with_logs { v * sizing.log_writes_per_s } else { 0.0 },
                ..base
            },
            Role::Log => {
                let each = self.copies_on(volume).ceil();
                Demand {
                    needed_gib: each * free(sizing.log_gb),
                    log_writes: each * sizing.log_writes_per_s,
                    ..base
                }
            }
            Role::Restore => Demand { needed_gib: v * free(sizing.database_gb + sizing.log_gb), ..base },
            Role::AutoReseed => {
                Demand { needed_gib: v * free(sizing.database_gb * factor + sizing.log_gb), ..base }
            }
            Role::Transport => {
                let row = sizing.row("transport_gb").and_then(|row| row.per_server);
                Demand { needed_gib: row.unwrap_or(0.0), ..base }
            }
            Role::Backup => Demand { needed_gib: self.copies_on(volume) * sizing.database_gb, ..base },
            Role::System | Role::MetaCache => base,
        }
    }

    /// Sentence about a host without room for its databases, with the last of its entries.
    fn crowded(&self, entry: usize, volume: &VolumeKind) -> Option<String> {
        if volume.role != Role::Database {
            return None;
        }
        let hosts = volume.hosts.iter().map(|&host| (host, self.alike(host, volume.role)));
        let last = hosts.filter(|(_, (alike, _))| alike.iter().all(|&other| other <= entry));
        let most = last
            .map(|(host, (_, there))| (self.most_databases(&[host]).1, there))
            .filter(|(needed, there)| needed > there)
            .max();
        most.map(|(needed, there)| {
            format!("each host needs {} and has {there}", counted(needed as u64, "volume"))
        })
    }

    /// Use of disks and capacity by a demand.
    fn used(&self, demand: &Demand, set: Option<DiskSet>, capacity_gib: Option<f64>) -> Use {
        let read_share = self.inputs.figures.read_share;
        let penalty = set.map_or(1.0, |set| set.write_penalty);
        let back_end_iops = formula::back_end_iops(demand.iops, read_share, penalty);
        let worst = formula::back_end_iops(demand.worst_active_iops, read_share, penalty);
        let disk_iops = set.and_then(|set| set.random_iops);
        let share = |iops: f64| disk_iops.filter(|_| demand.iops > 0.0).map(|capacity| iops / capacity);
        let capacity_share = capacity_gib.map(|gib| demand.needed_gib / gib);
        let iops_share = share(back_end_iops);
        let rebuild = set.map_or(1.0, |set| set.rebuild_share);
        Use {
            name: String::new(),
            role: "",
            count: 1,
            disks: 0,
            disks_in_all: 0,
            databases: demand.databases as u32,
            formatted_gib: None,
            effective_gib: None,
            needed_gib: demand.needed_gib,
            capacity_share,
            iops: demand.iops,
            back_end_iops,
            disk_iops,
            iops_share,
            iops_share_rebuilding: iops_share.filter(|_| rebuild < 1.0).map(|share| share / rebuild),
            iops_share_worst_active: share(worst),
            log_share: set
                .and_then(|set| set.sequential_iops)
                .filter(|_| demand.log_writes > 0.0)
                .map(|iops| demand.log_writes * penalty / iops),
            binds: match (capacity_share, iops_share) {
                (Some(capacity), Some(iops)) if iops > capacity => Some(Binding::Iops),
                (Some(_), Some(_)) => Some(Binding::Capacity),
                _ => None,
            },
            advice: None,
            entry: 0,
        }
    }

    /// Use of the pool with this number, which carries its volumes.
    fn pool(&self, entry: usize, pool: &PoolSpec, volumes: &[Use]) -> Use {
        let solution = self.inputs.solution;
        let set = DiskSet::of_pool(solution, pool);
        let shared = f64::from(solution.dag.count) / f64::from(pool.count);
        let is_in_it = |used: &&Use| solution.volumes[used.entry].behind == Behind::Pool(entry);
        let parts: Vec<&Use> = volumes.iter().filter(is_in_it).collect();
        let sum = |value: &dyn Fn(&Use) -> f64| {
            parts.iter().map(|part| value(part) * f64::from(part.count)).sum::<f64>()
        };
        // A database whose logs lie in the same pool is one database.
        let has_databases = parts.iter().any(|part| part.role == "database");
        let counted = |part: &Use| (part.role == "database") == has_databases;
        let databases = sum(&|part| if counted(part) { f64::from(part.databases) } else { 0.0 }) * shared;
        let demand = Demand {
            needed_gib: sum(&|part| part.needed_gib) * shared,
            iops: sum(&|part| part.iops) * shared,
            log_writes: sum(&|part| if part.role == "database" { f64::from(part.databases) } else { 0.0 })
                * self.sizing.log_writes_per_s
                * shared,
            worst_active_iops: sum(&|part| part.iops) * shared,
            databases,
        };
        Use {
            name: pool.name.clone(),
            role: "pool",
            entry,
            count: pool.count,
            disks: pool.disks,
            disks_in_all: pool.count.saturating_mul(pool.disks),
            formatted_gib: Some(pool.formatted_gib),
            effective_gib: pool.effective_gib,
            ..self.used(&demand, Some(set), pool.effective_gib.or(Some(pool.formatted_gib)))
        }
    }

    fn enclosures(&self, volumes: &[Use]) -> Vec<EnclosureUse> {
        let enclosures = self.inputs.solution.enclosures.iter().enumerate();
        enclosures.map(|(number, _)| self.enclosure(number, volumes)).collect()
    }

    fn enclosure(&self, number: usize, volumes: &[Use]) -> EnclosureUse {
        let solution = self.inputs.solution;
        let described = &solution.enclosures[number];
        let mut sums = EnclosureUse {
            name: described.name.clone(),
            database_disks: 0,
            other_disks: described.hot_spares + described.restore_disks,
            bays: described.bays,
            capacity_share: None,
            iops_share: None,
        };
        let (mut needed, mut capacity, mut back_end, mut disk_iops) = (0.0, 0.0, 0.0, 0.0);
        for used in volumes {
            let volume = &solution.volumes[used.entry];
            let is_here = |host: &&usize| match &volume.enclosure {
                Some(enclosure) => *enclosure == described.name,
                None => solution.hosts[**host].enclosure == Some(number),
            };
            let here = volume.hosts.iter().filter(is_here).count() as u32 * volume.count;
            let share = f64::from(here);
            match used.role {
                "database" | "log" => {
                    sums.database_disks += here * used.disks;
                    needed += share * used.needed_gib;
                    capacity += share * used.formatted_gib.unwrap_or(0.0);
                    back_end += share * used.back_end_iops;
                    disk_iops += share * used.disk_iops.unwrap_or(0.0);
                }
                "system" | "transport" => {}
                _ => sums.other_disks += here * used.disks,
            }
        }
        sums.capacity_share = (capacity > 0.0).then(|| needed / capacity);
        sums.iops_share = (disk_iops > 0.0).then(|| back_end / disk_iops);
        sums
    }
}

/// Name of a role for people.
fn role_word(role: Role) -> &'static str {
    match role {
        Role::Database => "database",
        Role::Log => "log",
        Role::Restore => "restore",
        Role::AutoReseed => "auto reseed",
        Role::Transport => "transport",
        Role::System => "system",
        Role::Backup => "backup",
        Role::MetaCache => "metacache",
    }
}
