//! The storage of a solution as a model for the simulated world: from the solution file and `assumptions.toml` to
//! [`array::Hardware`].
//!
//! * A volume with disks of its own is a group of these disks. Its files lie from the outer tracks inwards, in the order in
//!   which they get their size.
//! * Hosts of one enclosure share its controllers (`scope = "shared"`), or each host has its own. Volumes are owned by the
//!   controllers in turn. Each link of a host leads to one controller, in turn; those to the other controllers are for failover.
//! * A mirror reads from its disks in turn ([`array::MirrorReads::Alternate`]), for every solution.
//! * The hot spares of an enclosure are like the disks of the first volume, or RAID pool, of its first host.
//! * A pool is the store that `[array]` names. Without one it is one RAID group ([`pools`]).
//!
//! Limits: of hosts that take no part nothing lies in a group. A spare stands in for any drive, of any enclosure.

mod capacity;
mod pools;
mod replicated;

use std::collections::{BTreeMap, BTreeSet};

use array::{
    Array, ArrayError, Assumptions, Controller, Drive, DriveModel, Group, Hardware, Layout, Link,
    MirrorReads, Path, RemoteCopy, SharedArray, Target, TieredPool, VolumePlacement, WhenLinkLost,
};
use solution::{Deployment, HostSpec, Raid, Scope, Solution, SolutionError, StorageArray, Store, VolumeInfo};

use crate::hosts::Hosts;
use crate::parts::Modelled;
use world::sim::{FixedLatency, FixedLatencyTimes, StorageModel};

/// Of groups that the solution file and their model say nothing of: the element that midrange arrays came with.
const STRIPE_ELEMENT_BYTES: u64 = 64 << 10;

/// A model of the storage that the hosts of a rehearsal use.
pub struct Storage {
    /// What it is, in one line, for the report.
    pub description: String,
    /// The model.
    pub model: Box<dyn StorageModel>,
    /// The model, to look at and to break; `None` when the solution file describes no array.
    pub modelled: Option<Modelled>,
    /// What each volume with disks of its own is made of.
    pub parts: Vec<VolumeParts>,
}

/// The parts behind a volume, as indexes of the array's hardware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeParts {
    /// Host.
    pub host: String,
    /// Volume.
    pub volume: String,
    /// Its disks in their order, those of its pool if it lies in one, a faster tier last; in a replicated store those of its
    /// node, disks before flash; none in a log-structured one.
    pub drives: Vec<usize>,
    /// The group that is its pool, if disks can be added to that.
    pub pool: Option<usize>,
    /// Its thin pool.
    pub thin_pool: Option<usize>,
    /// The ways of its host to controllers, each over a link of its own.
    pub paths: Vec<Path>,
    /// Its copy at another site, and the link to there.
    pub remote_copy: Option<(usize, usize)>,
    /// The controller that owns it.
    pub controller: usize,
    /// Where it is served, in a replicated store.
    pub node: Option<StoreNode>,
}

/// A node of a replicated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreNode {
    /// The store.
    pub store: usize,
    /// The node.
    pub node: usize,
    /// How many nodes the store has.
    pub nodes: usize,
    /// How many copies it keeps of everything.
    pub replicas: usize,
}

type Outcome<T> = Result<T, Box<SolutionError>>;

/// The storage that `solution` describes, for the hosts of `deployments`, of parts as in `assumptions`.
///
/// # Errors
/// If the description cannot be modelled.
pub fn storage(
    solution: &Solution,
    deployments: &[Deployment],
    assumptions: &Assumptions,
    seed: u64,
) -> Outcome<Storage> {
    capacity::check_volumes(solution, deployments)?;
    let Some(spec) = &solution.file.array else {
        let times = FixedLatencyTimes::default();
        return Ok(Storage {
            description:
                "no [array] in the solution file; every volume alike: 0.2 ms for a read, 0.1 ms for a \
                          write, 500 MB/s"
                    .into(),
            model: Box::new(FixedLatency::new(seed, times)),
            modelled: None,
            parts: Vec::new(),
        });
    };
    let (hardware, parts) = hardware(solution, spec, deployments, assumptions)?;
    let description = format!(
        "modelled storage: {} drives behind {} controllers",
        hardware.drives.len(),
        hardware.controllers.len()
    );
    let array =
        Array::new(hardware, seed).map_err(|error| solution.error("array", error.to_string(), None))?;
    let array = SharedArray::new(array);
    let costs =
        assumptions.host("default").map_err(|error| solution.error("array", error.to_string(), None))?;
    let hosts = Hosts::new(costs, &processors(solution, deployments)?, Box::new(array.clone()));
    let model = Box::new(hosts.clone());
    Ok(Storage { description, model, modelled: Some(Modelled { array, hosts }), parts })
}

/// The hosts with their processors: those of the solution file, or one if it does not say.
fn processors(solution: &Solution, deployments: &[Deployment]) -> Outcome<Vec<(String, u32)>> {
    let hosts = solution.hosts()?;
    let of = |deployment: &Deployment| {
        let spec = hosts.iter().find(|spec| spec.name == deployment.host);
        let cores = spec.and_then(|spec| solution.file.host[spec.entry].cores);
        (deployment.host.clone(), cores.unwrap_or(1))
    };
    Ok(deployments.iter().map(of).collect())
}

fn hardware(
    solution: &Solution,
    spec: &StorageArray,
    deployments: &[Deployment],
    assumptions: &Assumptions,
) -> Outcome<(Hardware, Vec<VolumeParts>)> {
    let bad = |error: ArrayError| solution.error("array", error.to_string(), None);
    let has_cache = assumptions.names("write_cache").contains(&spec.controller);
    let mut controller = assumptions.controller(&spec.controller).map_err(bad)?;
    if has_cache {
        let mut cache = assumptions.write_cache(&spec.controller).map_err(bad)?;
        cache.bytes = spec.cache_mib.map_or(cache.bytes, |mib| mib << 20);
        controller.write_cache = Some(cache);
    }
    let link = assumptions.link(&spec.link).map_err(bad)?;
    let rebuild = assumptions.rebuild("default").map_err(bad)?;
    let clone_reads = assumptions.clone_reads("default").map_err(bad)?;
    let mut builder = Builder {
        solution,
        spec,
        controller,
        link,
        hosts: solution.hosts()?,
        hardware: Hardware { rebuild, clone_reads, ..Hardware::default() },
        assumptions,
        parts: Vec::new(),
        arrays: BTreeMap::new(),
        spared: BTreeSet::new(),
        pools: BTreeMap::new(),
        taken_bytes: BTreeMap::new(),
    };
    for (number, deployment) in deployments.iter().enumerate() {
        builder.add_host(number, deployment)?;
    }
    builder.check_pools(deployments)?;
    builder.add_read_caches()?;
    builder.add_remote_copies()?;
    Ok((builder.hardware, builder.parts))
}

struct Builder<'a> {
    solution: &'a Solution,
    spec: &'a StorageArray,
    assumptions: &'a Assumptions,
    controller: Controller,
    link: Link,
    hosts: Vec<HostSpec>,
    hardware: Hardware,
    parts: Vec<VolumeParts>,
    /// Enclosure, site or host: its controllers.
    arrays: BTreeMap<String, Vec<usize>>,
    /// Enclosures whose spares are there.
    spared: BTreeSet<String>,
    /// Place and pool: the store, or the group.
    pools: BTreeMap<(String, String), usize>,
    /// End of what volumes take of each group that is a pool.
    taken_bytes: BTreeMap<usize, u64>,
}

impl Builder<'_> {
    fn add_host(&mut self, number: usize, deployment: &Deployment) -> Outcome<()> {
        let host = deployment.host.as_str();
        let place = self.place_of(host);
        let controllers = self.controllers_at(&place);
        let links = self.spec.links_per_host.unwrap_or(1) as usize;
        let paths: Vec<Path> = (0..links)
            .map(|index| {
                let name = format!("{host} link {}", index + 1);
                self.hardware.links.push(Link { name, ..self.link.clone() });
                let link = self.hardware.links.len() - 1;
                Path { links: vec![link], controller: controllers[index % controllers.len()] }
            })
            .collect();
        let reached = controllers.len().min(links);
        let volumes = self.solution.volumes(host)?;
        self.add_spares(host, &volumes)?;
        for (index, tested) in deployment.volumes.iter().enumerate() {
            let Some(info) = volumes.iter().find(|volume| volume.name == tested.name) else { continue };
            let owner = controllers[index % reached];
            let (target, bytes) = self.target(host, number, &place, info)?;
            let group = match target {
                Target::Group { group, .. } => Some(group),
                Target::Thin { pool } => Some(self.hardware.thin_pools[pool].group),
                _ => None,
            };
            let (drives, node) = match (target, group) {
                (Target::ReplicatedStore { store, node }, _) => {
                    let spec = &self.hardware.replicated_stores[store];
                    let (nodes, replicas) = (spec.nodes.len(), spec.replicas as usize);
                    let parts = &spec.nodes[node];
                    let drives = parts.disks.iter().chain(&parts.flash).copied().collect();
                    (drives, Some(StoreNode { store, node, nodes, replicas }))
                }
                (_, Some(group)) => (self.drives_of(group), None),
                _ => (Vec::new(), None),
            };
            let is_pool =
                |group: &usize| matches!(self.hardware.groups[*group].layout, Layout::DynamicPool { .. });
            self.parts.push(VolumeParts {
                host: host.to_owned(),
                volume: info.name.clone(),
                drives,
                pool: group.filter(is_pool),
                thin_pool: match target {
                    Target::Thin { pool } => Some(pool),
                    _ => None,
                },
                paths: paths.clone(),
                remote_copy: None,
                controller: owner,
                node,
            });
            self.hardware.volumes.push(VolumePlacement {
                host: host.to_owned(),
                path: tested.dir.clone(),
                bytes,
                target,
                owner,
                paths: paths.clone(),
            });
        }
        Ok(())
    }

    /// The copies of all volumes at another site, one for each array.
    fn add_remote_copies(&mut self) -> Outcome<()> {
        let Some(spec) = &self.spec.remote_copy else { return Ok(()) };
        let at = "array.remote_copy";
        let refuse = |field: &str, message: &str| {
            Err(self.solution.error(&format!("{at}{field}"), message.to_owned(), None))
        };
        if self.spec.scope == Scope::Host {
            return refuse("", "adapters in a host have no copy at another site");
        }
        if matches!(self.spec.store, Some(Store::LogStructured { .. } | Store::Replicated(_))) {
            return refuse("", "volumes of a store are not modelled with a copy at another site");
        }
        let costs = self.assumptions.remote_copy("default").map_err(|error| self.bad(at, error))?;
        let link =
            self.assumptions.link(&spec.link).map_err(|error| self.bad(&format!("{at}.link"), error))?;
        let latency_us = link.latency_us + spec.distance_km * costs.us_per_km;
        for (place, controllers) in &self.arrays {
            let is_here = |number: &usize| controllers.contains(&self.hardware.volumes[*number].owner);
            let volumes: Vec<usize> = (0..self.hardware.volumes.len()).filter(is_here).collect();
            self.hardware.links.push(Link {
                name: format!("{place} to the other site"),
                latency_us,
                ..link.clone()
            });
            let link = self.hardware.links.len() - 1;
            for number in &volumes {
                self.parts[*number].remote_copy = Some((self.hardware.remote_copies.len(), link));
            }
            self.hardware.remote_copies.push(RemoteCopy {
                volumes,
                link,
                acknowledge_us: self.controller.acknowledge_us,
                when_link_lost: match spec.when_link_lost {
                    solution::WhenLinkLost::Suspend => WhenLinkLost::Suspend,
                    solution::WhenLinkLost::Stall => WhenLinkLost::Stall,
                },
                region_bytes: costs.region_bytes,
            });
        }
        Ok(())
    }

    /// The hot spares of the host's enclosure, like the disks of its first volume that a spare can help.
    fn add_spares(&mut self, host: &str, volumes: &[VolumeInfo]) -> Outcome<()> {
        let enclosure =
            self.hosts.iter().find(|spec| spec.name == host).and_then(|spec| spec.enclosure.clone());
        let described =
            self.solution.file.enclosure.iter().find(|known| Some(&known.name) == enclosure.as_ref());
        let Some(described) = described.filter(|known| !self.spared.contains(&known.name)) else {
            return Ok(());
        };
        let with_disk = volumes.iter().find_map(|volume| {
            let described = &self.solution.file.volume[volume.entry];
            let pool = described.pool.as_ref().filter(|_| self.spec.store.is_none());
            let pool = pool.and_then(|name| self.solution.file.pool.iter().find(|pool| pool.name == *name));
            let disk = described.disk.as_ref().or(pool.map(|pool| &pool.disk))?;
            Some((volume.entry, disk.clone()))
        });
        if let (Some((entry, disk)), Some(count @ 1..)) = (with_disk, described.hot_spares) {
            let name = format!("{} spare", described.name);
            let spares = self.add_drives(&disk, count, &name, &format!("volume[{entry}]"))?;
            self.hardware.spares.extend(spares);
        }
        self.spared.insert(described.name.clone());
        Ok(())
    }

    /// What the host's controllers are named by: itself, or what it shares them in.
    fn place_of(&self, host: &str) -> String {
        let spec = self.hosts.iter().find(|spec| spec.name == host);
        let shared = spec.and_then(|spec| {
            let site = self.solution.file.site.get(spec.site).map(|site| site.name.clone());
            spec.enclosure.clone().or(site)
        });
        match self.spec.scope {
            Scope::Host => host.to_owned(),
            Scope::Shared => shared.unwrap_or_default(),
        }
    }

    fn controllers_at(&mut self, place: &str) -> Vec<usize> {
        if let Some(known) = self.arrays.get(place) {
            return known.clone();
        }
        let (first, count) = (self.hardware.controllers.len(), self.spec.controllers.unwrap_or(1) as usize);
        for number in 0..count {
            self.hardware.controllers.push(Controller {
                name: format!("{place} controller {}", number + 1),
                partner: (count > 1).then_some(first + (number + 1) % count),
                ..self.controller.clone()
            });
        }
        let made: Vec<usize> = (first..first + count).collect();
        self.arrays.insert(place.to_owned(), made.clone());
        made
    }

    /// What holds a volume, and its capacity.
    fn target(
        &mut self,
        host: &str,
        number: usize,
        place: &str,
        info: &VolumeInfo,
    ) -> Outcome<(Target, u64)> {
        let volume = &self.solution.file.volume[info.entry];
        let at = format!("volume[{}]", info.entry);
        let asked = info.capacity_gib.map(|gib| (gib * f64::from(1 << 30)) as u64 / 4096 * 4096);
        if let Some(disk) = &volume.disk {
            let drives =
                self.add_drives(disk, volume.disks.unwrap_or(1), &format!("{host} {}", info.name), &at)?;
            let layout = self.layout(volume.raid, &at)?;
            let group =
                self.add_group(&format!("{host} {}", info.name), layout, drives, STRIPE_ELEMENT_BYTES);
            let capacity = self.group_bytes(group);
            return Ok((Target::Group { group, first_byte: 0 }, asked.unwrap_or(capacity).min(capacity)));
        }
        let (Some(pool_name), Some(bytes)) = (&volume.pool, asked) else {
            let message = format!("volume `{}` has neither disks nor a pool with a capacity", info.name);
            return Err(self.solution.error(
                &at,
                message,
                Some("name its disk, or leave [array] out".into()),
            ));
        };
        let is_store = matches!(self.spec.store, Some(Store::LogStructured { .. } | Store::Replicated(_)));
        let described = self.solution.pool(pool_name, &at)?;
        if is_store && described.thin_chunk_kib.is_some() {
            let message =
                format!("pool `{pool_name}` keeps data in a store, which takes room as it is written");
            return Err(self.solution.error(&at, message, Some("leave thin_chunk_kib out".into())));
        }
        if is_store && described.tiering.is_some() {
            let message = format!("pool `{pool_name}` keeps data in a store, which has ways of its own");
            return Err(self.solution.error(&at, message, Some("leave tiering out".into())));
        }
        let target = match self.spec.store.clone() {
            Some(Store::LogStructured { model, cache_disk, cache_disks }) => {
                let flash = (cache_disk.as_str(), cache_disks);
                let store = self.shared(place, pool_name, |builder| {
                    builder.log_store(place, pool_name, &model, flash, &at)
                })?;
                Target::LogStore { store }
            }
            Some(Store::Replicated(spec)) => {
                let store = self.shared(place, pool_name, |builder| {
                    builder.replicated_store(place, pool_name, &spec, &at)
                })?;
                Target::ReplicatedStore { store, node: number % spec.nodes as usize }
            }
            Some(Store::DynamicPool { model, spare_disks }) => {
                let pool = self.assumptions.dynamic_pool(&model);
                let pool = pool.map_err(|error| self.bad("array.store.model", error))?;
                let layout = Layout::DynamicPool {
                    width: pool.width,
                    piece_bytes: pool.piece_bytes,
                    spare_drives: spare_disks,
                };
                self.in_pool(place, pool_name, Some(layout), (info, bytes), &at)?
            }
            None => self.in_pool(place, pool_name, None, (info, bytes), &at)?,
        };
        Ok((target, bytes))
    }

    fn bad(&self, at: &str, error: ArrayError) -> Box<SolutionError> {
        self.solution.error(at, error.to_string(), None)
    }

    fn layout(&self, raid: Raid, at: &str) -> Outcome<Layout> {
        Ok(match raid {
            Raid::Jbod | Raid::Raid0 => Layout::Raid0,
            Raid::Raid1 => Layout::Raid1,
            Raid::Raid10 => Layout::Raid10,
            Raid::Raid5 => Layout::Raid5,
            Raid::Raid6 => Layout::Raid6,
            Raid::TripleParity => Layout::TripleParity,
            Raid::Replica2 | Raid::Replica3 => {
                let message = "copies on other nodes need a pool with a replicated store";
                return Err(self.solution.error(&format!("{at}.raid"), message, None));
            }
        })
    }

    fn add_drives(&mut self, disk: &str, count: u32, name: &str, at: &str) -> Outcome<Vec<usize>> {
        let described = self.solution.disk(disk, at)?;
        let model = described.model.as_deref().unwrap_or(disk);
        let mut model =
            self.assumptions.drive(model).map_err(|error| self.bad(&format!("{at}.disk"), error))?;
        if let DriveModel::Rotating(disk) = &mut model {
            disk.queue_depth = disk.queue_depth.min(self.controller.disk_queue_depth);
        }
        let first = self.hardware.drives.len();
        self.hardware.drives.extend((1..=count).map(|number| Drive {
            name: format!("{name} disk {number}"),
            model: model.clone(),
            link: None,
        }));
        Ok((first..first + count as usize).collect())
    }

    /// A group with the stripe element that `[array]` names, or `usual_element_bytes`.
    fn add_group(
        &mut self,
        name: &str,
        layout: Layout,
        drives: Vec<usize>,
        usual_element_bytes: u64,
    ) -> usize {
        let stated_bytes = self.spec.stripe_element_kib.map(|kib| kib << 10);
        self.hardware.groups.push(Group {
            name: name.to_owned(),
            layout,
            drives,
            stripe_element_bytes: stated_bytes.unwrap_or(usual_element_bytes),
            mirror_reads: MirrorReads::Alternate,
        });
        self.hardware.groups.len() - 1
    }

    /// The drives of a group; of a pool with a faster tier those of that behind its own.
    fn drives_of(&self, group: usize) -> Vec<usize> {
        let tiers = self.tiers_of(group).map_or(vec![group], |pool| pool.tiers.clone());
        tiers.iter().rev().flat_map(|tier| self.hardware.groups[*tier].drives.clone()).collect()
    }

    fn tiers_of(&self, group: usize) -> Option<&TieredPool> {
        self.hardware.tiered_pools.iter().find(|pool| pool.base() == group)
    }

    /// What volumes may take of a group, or of the pool with tiers that it stands for.
    fn group_bytes(&self, group: usize) -> u64 {
        let Some(pool) = self.tiers_of(group) else { return self.raid_bytes(group) };
        let slices = pool.tiers.iter().map(|tier| pool.slices(self.raid_bytes(*tier), self.row_bytes(*tier)));
        slices.sum::<u64>() * pool.slice_bytes
    }

    /// What a group holds, as its disks' data sheets say; whole stripe elements, or rows of pieces.
    fn raid_bytes(&self, group: usize) -> u64 {
        let Group { layout, drives, stripe_element_bytes, .. } = &self.hardware.groups[group];
        let one = drives.iter().map(|drive| drive_bytes(&self.hardware.drives[*drive].model)).min();
        let (one, count) = (one.unwrap_or(0), drives.len() as u64);
        if let Layout::DynamicPool { width, piece_bytes, spare_drives } = *layout {
            let pieces = one / piece_bytes.max(1) * count.saturating_sub(u64::from(spare_drives));
            return pieces / u64::from(width).max(1) * self.row_bytes(group);
        }
        let element = *stripe_element_bytes;
        one / element.max(1) * element * self.data_disks(group)
    }

    /// Disks' worth of data in a row. Too few disks for a layout are the array's to refuse.
    fn data_disks(&self, group: usize) -> u64 {
        let Group { layout, drives, .. } = &self.hardware.groups[group];
        let count = drives.len() as u64;
        let data = match layout {
            Layout::Raid0 => count,
            Layout::Raid1 => 1,
            Layout::Raid10 => count / 2,
            Layout::Raid5 => count.saturating_sub(1),
            Layout::Raid6 => count.saturating_sub(2),
            Layout::TripleParity => count.saturating_sub(3),
            Layout::DynamicPool { width, .. } => u64::from(*width).saturating_sub(2),
        };
        data.max(1)
    }

    /// Data of a row of stripe elements, or of pieces.
    fn row_bytes(&self, group: usize) -> u64 {
        let Group { layout, stripe_element_bytes, .. } = &self.hardware.groups[group];
        let one = match layout {
            Layout::DynamicPool { piece_bytes, .. } => *piece_bytes,
            _ => *stripe_element_bytes,
        };
        one.max(1) * self.data_disks(group)
    }
}

fn drive_bytes(model: &DriveModel) -> u64 {
    match model {
        DriveModel::Rotating(disk) => disk.capacity_bytes,
        DriveModel::Flash(drive) => drive.capacity_bytes,
    }
}
