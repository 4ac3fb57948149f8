//! Does it fit on the disks: capacity and I/O of every kind of volume, of shared pools and of enclosures.

use schemars::JsonSchema;
use serde::Serialize;
use solution::{
    Disk, HostSpec, Pool, PoolIo, Raid, Result, Role, Solution, Volume, gib_of_disks, name_matches,
};

use crate::formula;
use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::sizing::Sizing;

const GIB_PER_TIB: f64 = 1024.0;
const GB_PER_GIB: f64 = (1u64 << 30) as f64 / 1e9;

/// What binds a volume or a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Capacity is used more than I/O.
    Capacity,
    /// I/O is used more than capacity.
    Iops,
}

/// Use of one kind of volume, or of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Use {
    /// Name in the file.
    pub name: String,
    /// What it is for, in a word.
    pub role: &'static str,
    /// How many alike there are in one group (volumes), or in the environment (pools).
    pub count: u32,
    /// Disks in each; 0 for a part of a pool.
    pub disks: u32,
    /// Disks of all of them in the environment.
    pub disks_in_all: u32,
    /// Databases on the fullest.
    pub databases: u32,
    /// Formatted capacity of each in GiB, where it is known.
    pub formatted_gib: Option<f64>,
    /// Capacity in GiB after compression and deduplication, where it differs.
    pub effective_gib: Option<f64>,
    /// Space that is needed in GiB, free space included.
    pub needed_gib: f64,
    /// Needed space over (effective) capacity.
    pub capacity_share: Option<f64>,
    /// Database I/O per second, all copies counted.
    pub iops: f64,
    /// The same behind RAID.
    pub back_end_iops: f64,
    /// Random I/O per second that the disks are planned with.
    pub disk_iops: Option<f64>,
    /// Back-end I/O over what the disks give, all copies counted.
    pub iops_share: Option<f64>,
    /// The same while a failed disk is rebuilt; `None` where nothing is rebuilt.
    pub iops_share_rebuilding: Option<f64>,
    /// The same when only active copies of the worst failure are counted.
    pub iops_share_worst_active: Option<f64>,
    /// Log writes per second over the sequential I/O of the disks.
    pub log_share: Option<f64>,
    /// Which of the two is nearer to its limit.
    pub binds: Option<Binding>,
    /// What would have to change, when it does not fit.
    pub advice: Option<String>,
    /// Index of the entry in the file (`[[volume]]` or `[[pool]]`).
    #[serde(skip)]
    pub entry: usize,
}

/// Disks of an enclosure against its bays.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EnclosureUse {
    /// Name.
    pub name: String,
    /// Disks for databases and logs.
    pub database_disks: u32,
    /// Hot spares, restore and AutoReseed disks, and others.
    pub other_disks: u32,
    /// Bays, where given.
    pub bays: Option<u32>,
    /// Needed space of all volumes over their capacity.
    pub capacity_share: Option<f64>,
    /// Back-end I/O over what the disks give.
    pub iops_share: Option<f64>,
}

/// The ratios that papers print, over the database disks of the part under test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ratios {
    /// Raw capacity in TB (10^12 bytes).
    pub raw_tb: f64,
    /// Formatted capacity in TiB.
    pub formatted_tib: f64,
    /// Effective capacity in TiB, where it differs.
    pub effective_tib: Option<f64>,
    /// Planned databases in TiB.
    pub database_tib: f64,
    /// Test databases in TiB, where `[sizing]` gives them.
    pub test_database_tib: Option<f64>,
    /// Formatted over raw, both in bytes.
    pub formatted_of_raw: f64,
    /// Formatted TiB over raw TB, as papers print it.
    pub formatted_of_raw_as_printed: f64,
    /// Test databases (planned ones where there are none) over formatted.
    pub database_of_formatted: f64,
    /// The same over raw, in the mixed units of the papers.
    pub database_of_raw_as_printed: f64,
    /// The same over effective capacity.
    pub database_of_effective: Option<f64>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Storage {
    /// Kinds of volume.
    pub volumes: Vec<Use>,
    /// Shared pools.
    pub pools: Vec<Use>,
    /// Enclosures.
    pub enclosures: Vec<EnclosureUse>,
    /// Ratios; `None` when no disk is described.
    pub ratios: Option<Ratios>,
}

/// What one volume's disks can do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSet {
    /// Formatted capacity in GiB.
    pub formatted_gib: f64,
    /// Random I/O per second.
    pub random_iops: Option<f64>,
    /// Sequential I/O per second.
    pub sequential_iops: Option<f64>,
    /// Back-end writes per write.
    pub write_penalty: f64,
    /// Share of I/O left while rebuilding.
    pub rebuild_share: f64,
}

impl DiskSet {
    /// `disks` disks of a kind under a RAID level.
    pub fn new(disk: &Disk, disks: u32, raid: Raid, group_disks: u32) -> DiskSet {
        let (random, sequential) = spindle(disk);
        DiskSet {
            formatted_gib: gib_of_disks(disk.capacity_gb, disks, raid, group_disks),
            random_iops: random.map(|iops| iops * f64::from(disks)),
            sequential_iops: sequential.map(|iops| iops * f64::from(disks)),
            write_penalty: formula::write_penalty(raid),
            rebuild_share: formula::rebuild_share(raid),
        }
    }

    /// Front-end I/O per second that the disks carry at this share of reads.
    pub fn front_end_iops(&self, read_share: f64) -> Option<f64> {
        self.random_iops.map(|iops| iops / formula::back_end_iops(1.0, read_share, self.write_penalty))
    }
}

/// Random and sequential I/O per second of a disk: as given, or the planning values of a 7,200 rpm disk.
///
/// Source: the calculator's spindle table as quoted in the MD3260 paper; other kinds have no published value.
fn spindle(disk: &Disk) -> (Option<f64>, Option<f64>) {
    let known = (disk.rpm == Some(7200) && !disk.solid_state).then_some((57.5, 300.0));
    (disk.random_iops.or(known.map(|both| both.0)), disk.sequential_iops.or(known.map(|both| both.1)))
}

/// Whether an entry describes volumes of this host.
pub(crate) fn lies_on(volume: &Volume, host: &str) -> bool {
    volume.host.as_deref().is_none_or(|pattern| name_matches(pattern, host))
}

/// Refuses volumes that a run refuses too, and those of a host or in an enclosure that is not there: not counted at all,
/// they would make the plan look better.
pub fn resolve(inputs: &Inputs<'_>) -> Result<()> {
    let solution = inputs.solution;
    solution.refuse_foreign_hosts()?;
    for (entry, volume) in solution.file.volume.iter().enumerate() {
        // As with hosts, any name will do where no enclosure is described.
        let known = solution.file.enclosure.iter().map(|enclosure| enclosure.name.as_str());
        if let Some(name) = &volume.enclosure
            && known.len() > 0
            && !known.clone().any(|known| known == name)
        {
            let path = format!("volume[{entry}].enclosure");
            return Err(solution.unknown_name("enclosure", name, known, &path));
        }
    }
    for server in &inputs.servers {
        solution.volumes(&server.name)?;
    }
    Ok(())
}

/// The disks of a volume of its own.
pub fn volume_disks(solution: &Solution, entry: usize) -> Result<Option<DiskSet>> {
    let volume = &solution.file.volume[entry];
    let Some(kind) = &volume.disk else { return Ok(None) };
    let disk = solution.disk(kind, &format!("volume[{entry}].disk"))?;
    let disks = volume.disks.unwrap_or(1);
    let mut set = DiskSet::new(disk, disks, volume.raid, disks);
    set.formatted_gib = volume.capacity_gib.unwrap_or(set.formatted_gib);
    Ok(Some(set))
}

/// Fits the layout on the storage of the file.
pub fn fit(
    inputs: &Inputs<'_>,
    sizing: &Sizing,
    layout: &Layout,
    worst_volume_actives: u32,
) -> Result<Storage> {
    let solution = inputs.solution;
    let mut volumes = Vec::new();
    for entry in 0..solution.file.volume.len() {
        volumes.push(volume_use(inputs, sizing, layout, entry, worst_volume_actives)?);
    }
    let mut pools = Vec::new();
    for (entry, pool) in solution.file.pool.iter().enumerate() {
        pools.push(pool_use(inputs, sizing, pool, entry, &volumes)?);
    }
    let enclosures = enclosures(inputs, &volumes);
    Ok(Storage { ratios: ratios(inputs, sizing, &volumes, &pools)?, volumes, pools, enclosures })
}

/// Databases on the fullest volume, and volumes with databases, of the hosts in `hosts`.
fn most_databases(layout: &Layout, hosts: &[usize]) -> (u32, u32) {
    let mut counts = std::collections::BTreeMap::<(u8, u16), u32>::new();
    for copy in layout.databases.iter().flat_map(|database| &database.copies) {
        if hosts.contains(&usize::from(copy.server)) {
            *counts.entry((copy.server, copy.volume)).or_default() += 1;
        }
    }
    let fullest = counts.values().copied().max().unwrap_or(0);
    let volumes = counts.keys().map(|&(_, volume)| u32::from(volume)).max().unwrap_or(0);
    (fullest, volumes)
}

fn volume_use(
    inputs: &Inputs<'_>,
    sizing: &Sizing,
    layout: &Layout,
    entry: usize,
    worst_volume_actives: u32,
) -> Result<Use> {
    let solution = inputs.solution;
    let volume = &solution.file.volume[entry];
    let path = format!("volume[{entry}]");
    let hosts: Vec<usize> =
        (0..inputs.servers.len()).filter(|&host| lies_on(volume, &inputs.servers[host].name)).collect();
    let per_host = volume.count.unwrap_or(1);
    let profile = &inputs.profile;
    let separate_logs = crate::inputs::has_role(solution, Role::Log);
    let free = |gb: f64| formula::with_free_space(gb, profile.free_percent);
    let (fullest, _) = most_databases(layout, &hosts);
    let copies_on = |host: usize| {
        let copies = layout.databases.iter().flat_map(|database| &database.copies);
        copies.filter(|copy| usize::from(copy.server) == host).count() as f64
    };
    // Several entries may describe volumes of one host for one purpose; they share its databases.
    let alike = |host: usize| {
        let on_host = move |(_, other): &(usize, &Volume)| lies_on(other, &inputs.servers[host].name);
        solution.file.volume.iter().enumerate().filter(|(_, other)| other.role == volume.role).filter(on_host)
    };
    let all_alike =
        |host: usize| alike(host).map(|(_, other)| other.count.unwrap_or(1)).fold(0, u32::saturating_add);
    let copies = hosts.iter().map(|&host| copies_on(host) / f64::from(all_alike(host))).fold(0.0, f64::max);
    let v = f64::from(fullest);
    let row = |key: &str| sizing.row(key).and_then(|row| row.per_server).unwrap_or(0.0);
    let (role, databases, needed_gib, iops, log_writes) = match volume.role {
        Role::Database => {
            let factor = formula::index_factor(profile.index_percent, profile.merge_percent, v.max(1.0));
            let logs = if separate_logs { 0.0 } else { sizing.log_gb };
            let needed = v * free(sizing.database_gb * factor + logs);
            let log_writes = if separate_logs { 0.0 } else { v * sizing.log_writes_per_s };
            ("database", fullest, needed, v * sizing.database_iops, log_writes)
        }
        Role::Log => {
            let each = copies.ceil();
            ("log", each as u32, each * free(sizing.log_gb), 0.0, each * sizing.log_writes_per_s)
        }
        Role::Restore => {
            ("restore", 0, f64::from(fullest) * free(sizing.database_gb + sizing.log_gb), 0.0, 0.0)
        }
        Role::AutoReseed => {
            let factor = formula::index_factor(profile.index_percent, profile.merge_percent, v.max(1.0));
            ("auto reseed", 0, v * free(sizing.database_gb * factor + sizing.log_gb), 0.0, 0.0)
        }
        Role::Transport => ("transport", 0, row("transport_gb"), 0.0, 0.0),
        Role::Backup => ("backup", 0, copies * sizing.database_gb, 0.0, 0.0),
        Role::System => ("system", 0, 0.0, 0.0, 0.0),
    };
    let set = volume_disks(solution, entry)?;
    let formatted_gib = set.map(|set| set.formatted_gib).or(volume.capacity_gib);
    if let (Role::Database, Some(gib)) = (volume.role, formatted_gib)
        && sizing.database_gb > gib
    {
        let message = format!(
            "a database of {:.0} GB does not fit on volume `{}` of {gib:.0} GB",
            sizing.database_gb, volume.name
        );
        let help = Some("more databases, smaller mailboxes, or a larger volume".into());
        return Err(solution.error(&path, message, help));
    }
    // Said once for each host, with the last of its entries.
    let crowded = hosts
        .iter()
        .filter(|&&host| volume.role == Role::Database && alike(host).all(|(other, _)| other <= entry))
        .map(|&host| (most_databases(layout, &[host]).1, all_alike(host)))
        .filter(|(needed, there)| needed > there)
        .max();
    let advice =
        crowded.map(|(needed, there)| format!("{needed} volumes per host are needed, there are {there}"));
    let demand = Demand {
        needed_gib,
        iops,
        log_writes,
        worst_active_iops: f64::from(worst_volume_actives.min(fullest)) * sizing.database_iops,
        databases: v,
    };
    let name = volume.name.clone();
    let disks = if volume.disk.is_some() { volume.disks.unwrap_or(1) } else { 0 };
    let base =
        Use { advice, ..used(name, entry, role, demand, profile.read_share, set, formatted_gib, None) };
    let count = per_host * hosts.len() as u32;
    let disks_in_all = count.saturating_mul(disks).saturating_mul(inputs.dags);
    Ok(Use { count, disks, disks_in_all, databases, ..base })
}

struct Demand {
    needed_gib: f64,
    iops: f64,
    log_writes: f64,
    worst_active_iops: f64,
    databases: f64,
}

#[expect(clippy::too_many_arguments, reason = "one place that builds a Use for volumes and pools")]
fn used(
    name: String,
    entry: usize,
    role: &'static str,
    demand: Demand,
    read_share: f64,
    set: Option<DiskSet>,
    formatted_gib: Option<f64>,
    effective_gib: Option<f64>,
) -> Use {
    let penalty = set.map_or(1.0, |set| set.write_penalty);
    let back_end_iops = formula::back_end_iops(demand.iops, read_share, penalty);
    let worst = formula::back_end_iops(demand.worst_active_iops, read_share, penalty);
    let disk_iops = set.and_then(|set| set.random_iops);
    let share = |iops: f64| disk_iops.filter(|_| demand.iops > 0.0).map(|capacity| iops / capacity);
    let capacity_share = effective_gib.or(formatted_gib).map(|gib| demand.needed_gib / gib);
    let iops_share = share(back_end_iops);
    let rebuild = set.map_or(1.0, |set| set.rebuild_share);
    Use {
        name,
        role,
        count: 1,
        disks: 0,
        disks_in_all: 0,
        databases: demand.databases as u32,
        formatted_gib,
        effective_gib,
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
        entry,
    }
}

impl Storage {
    /// Sentences about what does not fit; empty when all does.
    pub fn misfits(&self) -> Vec<String> {
        self.volumes.iter().chain(&self.pools).flat_map(Use::misfits).collect()
    }

    /// Sentences about what cannot be judged because the file does not say it; empty when it says everything.
    pub fn unknowns(&self, solution: &Solution) -> Vec<String> {
        // Parts of a pool are judged with it.
        let own = self.volumes.iter().filter(|used| solution.file.volume[used.entry].pool.is_none());
        own.filter_map(|used| used.unknown("capacity_gib, or disk"))
            .chain(self.pools.iter().filter_map(|used| used.unknown("random_iops of its disk")))
            .collect()
    }
}

impl Use {
    /// What is not known of it although the plan needs it, and the keys that would say so.
    fn unknown(&self, keys: &str) -> Option<String> {
        let space = self.needed_gib > 0.0 && self.capacity_share.is_none();
        let logs_alone = self.role == "log" && self.log_share.is_none();
        let io = (self.iops > 0.0 && self.iops_share.is_none()) || logs_alone;
        let what = match (space, io) {
            (true, true) => "its space and its I/O are",
            (true, false) => "its space is",
            (false, true) => "its I/O is",
            (false, false) => return None,
        };
        let keys = if space { keys } else { "random_iops and sequential_iops of its disk" };
        Some(format!("{}: {what} not known ({keys})", self.name))
    }

    /// Sentences about what does not fit; empty when all does.
    pub fn misfits(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.advice.iter().cloned().collect();
        let name = &self.name;
        if let (Some(share), Some(gib)) = (self.capacity_share, self.effective_gib.or(self.formatted_gib))
            && share > 1.0
        {
            let fewer = f64::from(self.databases) / share;
            let hint = if self.databases > 1 && fewer >= 1.0 {
                format!(", or {} instead of {} databases on each", fewer.floor(), self.databases)
            } else {
                String::new()
            };
            sentences.push(format!(
                "{name}: {:.0} GiB are needed and {gib:.0} GiB there: {:.2} times the capacity{hint}",
                self.needed_gib, share
            ));
        }
        if let (Some(share), Some(iops)) = (self.iops_share, self.disk_iops)
            && share > 1.0
        {
            let disks = (f64::from(self.disks.max(1)) * share).ceil();
            sentences.push(format!(
                "{name}: {:.1} back-end I/O per second are needed and the disks give {iops:.1}: {disks:.0} disks instead of {}",
                self.back_end_iops,
                self.disks.max(1)
            ));
        }
        if let Some(share) = self.log_share.filter(|&share| self.role == "log" && share > 1.0) {
            sentences.push(format!("{name}: log writes are {share:.2} times what the disks give"));
        }
        sentences
    }
}

fn pool_use(inputs: &Inputs<'_>, sizing: &Sizing, pool: &Pool, entry: usize, volumes: &[Use]) -> Result<Use> {
    let solution = inputs.solution;
    let path = format!("pool[{entry}]");
    let disk = solution.disk(&pool.disk, &format!("{path}.disk"))?;
    let mut set = DiskSet::new(disk, pool.disks, pool.raid, pool.group_disks.unwrap_or(pool.disks));
    set.formatted_gib = pool.formatted_gib.unwrap_or(set.formatted_gib);
    set.write_penalty = pool.write_penalty.unwrap_or(set.write_penalty);
    if pool.io == PoolIo::Array {
        (set.random_iops, set.sequential_iops) = (None, None);
    }
    if set.formatted_gib <= 0.0 {
        let message = format!("pool `{}` has no disk left for data", pool.name);
        return Err(solution.error(&format!("{path}.disks"), message, None));
    }
    let saving = pool.saving_percent.unwrap_or(0.0);
    let effective =
        pool.effective_gib.or((saving > 0.0).then_some(set.formatted_gib / (1.0 - saving / 100.0)));
    let count = pool.count.unwrap_or(1);
    let shared = f64::from(inputs.dags) / f64::from(count.max(1));
    let parts: Vec<&Use> = volumes
        .iter()
        .filter(|used| solution.file.volume[used.entry].pool.as_deref() == Some(&pool.name))
        .collect();
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
            * sizing.log_writes_per_s
            * shared,
        worst_active_iops: sum(&|part| part.iops) * shared,
        databases,
    };
    let read_share = inputs.profile.read_share;
    let formatted = Some(set.formatted_gib);
    let base = used(pool.name.clone(), entry, "pool", demand, read_share, Some(set), formatted, effective);
    Ok(Use { count, disks: pool.disks, disks_in_all: count.saturating_mul(pool.disks), ..base })
}

fn enclosures(inputs: &Inputs<'_>, volumes: &[Use]) -> Vec<EnclosureUse> {
    let solution = inputs.solution;
    let mut out = Vec::new();
    for (index, name) in inputs.enclosures.iter().enumerate() {
        let described = solution.file.enclosure.iter().find(|enclosure| enclosure.name == *name);
        let mut sums = EnclosureUse {
            name: name.clone(),
            database_disks: 0,
            other_disks: described.map_or(0, |e| e.hot_spares.unwrap_or(0) + e.restore_disks.unwrap_or(0)),
            bays: described.and_then(|enclosure| enclosure.bays),
            capacity_share: None,
            iops_share: None,
        };
        let (mut needed, mut capacity, mut back_end, mut disk_iops) = (0.0, 0.0, 0.0, 0.0);
        for used in volumes {
            let volume = &solution.file.volume[used.entry];
            let here = inputs
                .servers
                .iter()
                .filter(|host| lies_on(volume, &host.name))
                .filter(|host| match &volume.enclosure {
                    Some(enclosure) => enclosure == name,
                    None => host.enclosure == Some(index),
                })
                .count() as u32
                * volume.count.unwrap_or(1);
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
        out.push(sums);
    }
    out
}

/// Database volumes under test, by host and by entry of the file: as in a run, the first volumes of each host, whatever
/// entry they are from.
fn volumes_under_test(solution: &Solution, hosts: &[HostSpec]) -> Vec<Vec<u32>> {
    let limit = solution.file.under_test.as_ref().and_then(|part| part.volumes_per_host);
    let of_host = |host: &HostSpec| {
        let mut left = limit.unwrap_or(u32::MAX);
        let taken = solution.file.volume.iter().map(|volume| {
            let is_used = volume.role == Role::Database && lies_on(volume, &host.name);
            let count = if is_used { volume.count.unwrap_or(1).min(left) } else { 0 };
            left -= count;
            count
        });
        taken.collect()
    };
    hosts.iter().map(of_host).collect()
}

fn ratios(inputs: &Inputs<'_>, sizing: &Sizing, volumes: &[Use], pools: &[Use]) -> Result<Option<Ratios>> {
    let solution = inputs.solution;
    let hosts = solution.hosts_under_test()?;
    let under_test = volumes_under_test(solution, &hosts);
    let (mut raw_gb, mut formatted, mut effective, mut databases) = (0.0, 0.0, 0.0, 0.0);
    let mut test_databases = 0.0;
    let test_mib = solution.file.sizing.as_ref().and_then(|sizing| sizing.database_mib);
    for used in volumes.iter().filter(|used| used.role == "database") {
        let entry = used.entry;
        let volume = &solution.file.volume[entry];
        let in_group: u32 = under_test.iter().map(|of_host| of_host[entry]).sum();
        let count = f64::from(inputs.dags) * f64::from(in_group);
        databases += count * f64::from(used.databases) * sizing.database_gb;
        test_databases += count * f64::from(used.databases) * test_mib.unwrap_or(0) as f64 / 1024.0;
        if let Some(kind) = &volume.disk {
            let disk = solution.disk(kind, &format!("volume[{entry}].disk"))?;
            raw_gb += count * f64::from(volume.disks.unwrap_or(1)) * disk.capacity_gb;
            formatted += count * used.formatted_gib.unwrap_or(0.0);
        }
    }
    for (pool, used) in solution.file.pool.iter().zip(pools) {
        let in_pool = |volume: &Volume| volume.pool.as_deref() == Some(&pool.name);
        let on_pool = |host: &str| {
            let mut volumes = solution.file.volume.iter().filter(|volume| volume.role == Role::Database);
            volumes.any(|volume| in_pool(volume) && lies_on(volume, host))
        };
        let all = inputs.servers.iter().filter(|server| on_pool(&server.name)).count();
        let is_tested = |of_host: &&Vec<u32>| {
            of_host.iter().zip(&solution.file.volume).any(|(&count, volume)| count > 0 && in_pool(volume))
        };
        let tested = under_test.iter().filter(is_tested).count();
        // Pools alike share the hosts evenly: as many as the hosts under test need.
        let count = (f64::from(used.count) * tested as f64 / all.max(1) as f64).ceil();
        let disk = solution.disk(&pool.disk, "pool")?;
        raw_gb += count * f64::from(pool.disks) * disk.capacity_gb;
        if let Some(fast) = &pool.fast_disk {
            let disks = count * f64::from(pool.fast_disks.unwrap_or(0));
            let path = format!("pool[{}].fast_disk", used.entry);
            raw_gb += disks * solution.disk(fast, &path)?.capacity_gb;
        }
        formatted += count * used.formatted_gib.unwrap_or(0.0);
        effective += count * used.effective_gib.unwrap_or(0.0);
    }
    if raw_gb <= 0.0 || formatted <= 0.0 {
        return Ok(None);
    }
    let (raw_tb, formatted_tib) = (raw_gb / 1000.0, formatted / GIB_PER_TIB);
    let effective_tib = (effective > 0.0).then_some(effective / GIB_PER_TIB);
    let database_tib = databases / GIB_PER_TIB;
    let test_database_tib = test_mib.map(|_| test_databases / GIB_PER_TIB);
    let shown = test_database_tib.unwrap_or(database_tib);
    Ok(Some(Ratios {
        raw_tb,
        formatted_tib,
        effective_tib,
        database_tib,
        test_database_tib,
        formatted_of_raw: formatted * GB_PER_GIB / raw_gb,
        formatted_of_raw_as_printed: formatted_tib / raw_tb,
        database_of_formatted: shown / formatted_tib,
        database_of_raw_as_printed: shown / raw_tb,
        database_of_effective: effective_tib.map(|tib| shown / tib),
    }))
}
