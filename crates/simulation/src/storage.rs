//! The storage of a solution as a model for the simulated world: from the solution file and `assumptions.toml` to
//! [`array::Hardware`], or a measured storage in the place of all that the file describes.
//!
//! * A volume with disks of its own is a group of these disks. Its files lie from the outer tracks inwards, in
//!   the order in which they get their size.
//! * Hosts of one enclosure share its controllers (`scope = "shared"`), or each host has its own. Volumes are
//!   owned by the controllers in turn. Each link of a host leads to one controller, in turn; those to the other
//!   controllers are for failover.
//! * A mirror reads from its disks in turn ([`array::MirrorReads::Alternate`]), for every solution.
//! * The hot spares of an enclosure are like the disks of the first volume, or RAID pool, of its first host.
//! * A pool is the store that `[array]` names. Without one it is one RAID group ([`pools`]).
//!
//! Hosts of one place (host, enclosure or site, by the scope) share storage: they are one storage domain. Nothing but
//! spares leads from one place to another, and these do nothing unless a drive is lost.
//!
//! Limits: of hosts that take no part nothing lies in a group. A spare stands in for any drive, of any enclosure.

mod measured;
mod pools;
mod replicated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use array::{
    Array, ArrayError, Assumptions, Controller, Drive, DriveModel, Group, Hardware, HostCosts, Layout, Link,
    MeasuredPlace, MeasuredStorage, MirrorReads, Path, RemoteCopy, SharedArray, SharedMeasured, Target,
    TieredPool, VolumePlacement, WhenLinkLost,
};
use solution::{Behind, Deployment, Disk, HostSpec, Raid, Solution, SolutionError, StorageArray, VolumeInfo};

use crate::hosts::Hosts;
use crate::parts::{Backing, Modelled};
use world::sim::{FixedLatency, FixedLatencyTimes, StorageModel};

/// Storage model for the hosts of a simulation.
pub struct Storage {
    /// Description of the storage in one line, for the report.
    pub description: String,
    /// Model that answers requests.
    pub model: Box<dyn StorageModel>,
    /// Handle on the model for figures and faults; `None` if nothing describes the storage.
    pub modelled: Option<Modelled>,
    /// Hardware parts behind each volume with disks of its own.
    pub parts: Vec<VolumeParts>,
}

/// Hardware parts behind a volume, as indexes of the array's hardware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeParts {
    /// Name of the host.
    pub host: String,
    /// Name of the volume.
    pub volume: String,
    /// Disks of the volume in order: those of its pool if it lies in one, a faster tier last; in a replicated store
    /// those of its node, disks before flash; empty in a log-structured store.
    pub drives: Vec<usize>,
    /// RAID group that serves as its pool, if disks can be added to it.
    pub pool: Option<usize>,
    /// Thin pool of the volume.
    pub thin_pool: Option<usize>,
    /// Paths of the host to controllers, each over a link of its own.
    pub paths: Vec<Path>,
    /// Copy of the volume at another site, and the link to it.
    pub remote_copy: Option<(usize, usize)>,
    /// Controller that owns the volume.
    pub controller: usize,
    /// Node that serves the volume, in a replicated store.
    pub node: Option<StoreNode>,
}

/// Node of a replicated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreNode {
    /// Index of the store.
    pub store: usize,
    /// Index of the node.
    pub node: usize,
    /// Number of nodes of the store.
    pub nodes: usize,
    /// Number of copies that the store keeps of all data.
    pub replicas: usize,
}

type Outcome<T> = Result<T, Box<SolutionError>>;

/// Plan of a storage model. Unlike the model, it can be sent to another thread.
#[derive(Clone)]
pub struct StoragePlan {
    /// Description of the storage in one line, for the report.
    pub description: String,
    /// Hardware parts behind each volume with disks of its own.
    pub parts: Vec<VolumeParts>,
    known: Option<KnownPlan>,
    seed: u64,
}

#[derive(Clone)]
struct KnownPlan {
    behind: BackingPlan,
    costs: HostCosts,
    processors: Vec<(String, u32)>,
}

/// What is behind the hosts.
#[derive(Clone)]
enum BackingPlan {
    Array(Box<Hardware>),
    /// With the place of each volume by host and path.
    Measured(Vec<MeasuredStorage>, BTreeMap<(String, String), MeasuredPlace>),
}

impl StoragePlan {
    /// Builds the storage model.
    pub fn build(self) -> Storage {
        let StoragePlan { description, parts, known, seed } = self;
        let Some(KnownPlan { behind, costs, processors }) = known else {
            let model = Box::new(FixedLatency::new(seed, FixedLatencyTimes::default()));
            return Storage { description, model, modelled: None, parts };
        };
        let (behind, model): (_, Box<dyn StorageModel>) = match behind {
            BackingPlan::Array(hardware) => {
                let array = Array::new(*hardware, seed).expect("it could be made when it was planned");
                let array = SharedArray::new(array);
                (Backing::Array(array.clone()), Box::new(array))
            }
            BackingPlan::Measured(storages, places) => {
                let measured = SharedMeasured::new(storages, seed, places);
                (Backing::Measured(measured.clone()), Box::new(measured))
            }
        };
        let hosts = Hosts::new(costs, &processors, model);
        let model = Box::new(hosts.clone());
        Storage { description, model, modelled: Some(Modelled { behind, hosts }), parts }
    }
}

/// Divides hosts into storage domains, as indexes of `deployments`. Hosts of two domains share no hardware. Domains
/// are in the order of their first hosts.
///
/// Without an `[array]` the solution does not say what hosts share: they are one domain.
pub fn domains(solution: &Solution, deployments: &[Deployment]) -> Vec<Vec<usize>> {
    let mut domains: Vec<(String, Vec<usize>)> = Vec::new();
    for (number, deployment) in deployments.iter().enumerate() {
        let place = match solution.array {
            Some(_) => solution.place_of(host_of(solution, deployment)),
            None => String::new(),
        };
        match domains.iter_mut().find(|(known, _)| *known == place) {
            Some((_, hosts)) => hosts.push(number),
            None => domains.push((place, vec![number])),
        }
    }
    domains.into_iter().map(|(_, hosts)| hosts).collect()
}

/// Storage model for the hosts of `deployments` that `solution` describes, with parts from `assumptions`.
///
/// # Errors
/// If the description cannot be modelled.
pub fn storage(
    solution: &Solution,
    deployments: &[Deployment],
    assumptions: &Assumptions,
    seed: u64,
) -> Outcome<Storage> {
    let all: Vec<usize> = (0..deployments.len()).collect();
    Ok(storage_plan(solution, deployments, &all, assumptions, seed)?.build())
}

/// Storage plan for the `hosts` among `deployments`: all hosts, or one of the [`domains`].
///
/// # Errors
/// If the description cannot be modelled.
pub fn storage_plan(
    solution: &Solution,
    deployments: &[Deployment],
    hosts: &[usize],
    assumptions: &Assumptions,
    seed: u64,
) -> Outcome<StoragePlan> {
    let bad = |error: ArrayError| solution.error("array", error.to_string(), None);
    let known = |behind: BackingPlan| -> Outcome<Option<KnownPlan>> {
        let costs = assumptions.host("default").map_err(bad)?;
        let processors = hosts.iter().map(|host| processors(solution, &deployments[*host])).collect();
        Ok(Some(KnownPlan { behind, costs, processors }))
    };
    let (names, measured): (Vec<String>, Vec<MeasuredStorage>) =
        assumptions.measured().map_err(bad)?.into_iter().unzip();
    if !measured.is_empty() {
        measured::has_no_parts(solution)?;
        let told: Vec<String> = measured.iter().map(MeasuredStorage::description).collect();
        let (description, parts) = (told.join("; "), Vec::new());
        let places = measured::places(solution, deployments, &names)?;
        let known = known(BackingPlan::Measured(measured, places))?;
        return Ok(StoragePlan { description, parts, known, seed });
    }
    let Some(spec) = &solution.array else {
        let description = "no [array] in the solution file; every volume alike: 0.2 ms for a read, 0.1 ms for a \
                           write, 500 MB/s";
        return Ok(StoragePlan { description: description.into(), parts: Vec::new(), known: None, seed });
    };
    let (hardware, parts) = hardware(solution, spec, deployments, hosts, assumptions)?;
    let description = format!(
        "modelled storage: {} drives behind {} controllers",
        hardware.drives.len(),
        hardware.controllers.len()
    );
    Array::new(hardware.clone(), seed).map_err(bad)?;
    Ok(StoragePlan { description, parts, known: known(BackingPlan::Array(Box::new(hardware)))?, seed })
}

/// Host with its number of processors: that of the solution file, or one.
fn processors(solution: &Solution, deployment: &Deployment) -> (String, u32) {
    (deployment.host.clone(), host_of(solution, deployment).cores.unwrap_or(1))
}

/// Name of the host of a deployment.
fn host_of<'a>(solution: &'a Solution, deployment: &Deployment) -> &'a HostSpec {
    let host = solution.hosts.iter().find(|host| host.name == deployment.host);
    host.expect("a deployment is of a host of its solution")
}

fn hardware(
    solution: &Solution,
    spec: &StorageArray,
    deployments: &[Deployment],
    hosts: &[usize],
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
        hardware: Hardware { rebuild, clone_reads, ..Hardware::default() },
        assumptions,
        parts: Vec::new(),
        arrays: BTreeMap::new(),
        spared: BTreeSet::new(),
        pools: BTreeMap::new(),
        taken_bytes: BTreeMap::new(),
    };
    for (number, deployment) in deployments.iter().enumerate() {
        if hosts.contains(&number) {
            builder.add_host(number, deployment)?;
        } else if let Some(enclosure) = host_of(solution, deployment).enclosure {
            // The spares of an enclosure are in the domain of its first host.
            builder.spared.insert(enclosure);
        }
    }
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
    hardware: Hardware,
    parts: Vec<VolumeParts>,
    /// Controllers of each array, by enclosure, site or host.
    arrays: BTreeMap<String, Vec<usize>>,
    /// Enclosures whose hot spares have been added.
    spared: BTreeSet<usize>,
    /// Store or RAID group of each pool, by place.
    pools: BTreeMap<(String, usize), usize>,
    /// End of the space that volumes use in each RAID group that serves as a pool, bytes.
    taken_bytes: BTreeMap<usize, u64>,
}

impl Builder<'_> {
    fn add_host(&mut self, number: usize, deployment: &Deployment) -> Outcome<()> {
        let solution = self.solution;
        let spec = host_of(solution, deployment);
        let host = spec.name.as_str();
        let place = solution.place_of(spec);
        let controllers = self.controllers_at(&place);
        let links = self.spec.links_per_host as usize;
        let paths: Vec<Path> = (0..links)
            .map(|index| {
                let name = format!("{host} link {}", index + 1);
                self.hardware.links.push(Link { name, ..self.link.clone() });
                let link = self.hardware.links.len() - 1;
                Path { links: vec![link], controller: controllers[index % controllers.len()] }
            })
            .collect();
        let reached = controllers.len().min(links);
        self.add_spares(spec)?;
        for (index, tested) in deployment.volumes.iter().enumerate() {
            let Some(info) = spec.volumes.iter().find(|volume| volume.name == tested.name) else { continue };
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

    /// Adds the copies of all volumes at another site, one for each array.
    fn add_remote_copies(&mut self) -> Outcome<()> {
        let Some(spec) = &self.spec.remote_copy else { return Ok(()) };
        let at = "array.remote_copy";
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

    /// Adds the hot spares of the host's enclosure, with the kind of disk of the first volume that can use a spare.
    fn add_spares(&mut self, host: &HostSpec) -> Outcome<()> {
        let solution = self.solution;
        let Some(enclosure) = host.enclosure.filter(|enclosure| self.spared.insert(*enclosure)) else {
            return Ok(());
        };
        let with_disk = host.volumes.iter().find_map(|volume| match solution.volumes[volume.kind].behind {
            Behind::Disks { disk, .. } => Some((volume.kind, disk)),
            Behind::Pool(pool) if self.spec.store.is_none() => Some((volume.kind, solution.pools[pool].disk)),
            _ => None,
        });
        let described = &solution.enclosures[enclosure];
        if let (Some((kind, disk)), count @ 1..) = (with_disk, described.hot_spares) {
            let name = format!("{} spare", described.name);
            let spares = self.add_drives(&solution.disks[disk], count, &name, &format!("volume[{kind}]"))?;
            self.hardware.spares.extend(spares);
        }
        Ok(())
    }

    fn controllers_at(&mut self, place: &str) -> Vec<usize> {
        if let Some(known) = self.arrays.get(place) {
            return known.clone();
        }
        let (first, count) = (self.hardware.controllers.len(), self.spec.controllers as usize);
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

    /// Group, pool or store that holds a volume, and its capacity.
    fn target(
        &mut self,
        host: &str,
        number: usize,
        place: &str,
        info: &VolumeInfo,
    ) -> Outcome<(Target, u64)> {
        let at = format!("volume[{}]", info.kind);
        let asked = info.capacity_gib.map(|gib| (gib * f64::from(1 << 30)) as u64 / 4096 * 4096);
        match self.solution.volumes[info.kind].behind {
            Behind::Disks { disk, disks, raid } => {
                let name = format!("{host} {}", info.name);
                let drives = self.add_drives(&self.solution.disks[disk], disks, &name, &at)?;
                let group = self.add_group(&name, layout(raid), drives, self.stripe_element_bytes());
                let capacity = self.group_bytes(group);
                Ok((Target::Group { group, first_byte: 0 }, asked.unwrap_or(capacity).min(capacity)))
            }
            Behind::Pool(pool) => {
                let bytes = asked.unwrap_or(0);
                Ok((self.in_pool(number, place, pool, (info, bytes), &at)?, bytes))
            }
            // Refused when the file was read: nothing with a path is behind an array and lies on nothing.
            Behind::Unknown => unreachable!("volume {} lies on nothing", info.name),
        }
    }

    fn bad(&self, at: &str, error: ArrayError) -> Box<SolutionError> {
        self.solution.error(at, error.to_string(), None)
    }

    /// Bytes of a RAID group on one disk before the next disk follows.
    fn stripe_element_bytes(&self) -> u64 {
        self.spec.stripe_element_kib() << 10
    }

    fn add_drives(&mut self, disk: &Disk, count: u32, name: &str, at: &str) -> Outcome<Vec<usize>> {
        let mut model =
            self.assumptions.drive(&disk.model).map_err(|error| self.bad(&format!("{at}.disk"), error))?;
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

    fn add_group(
        &mut self,
        name: &str,
        layout: Layout,
        drives: Vec<usize>,
        stripe_element_bytes: u64,
    ) -> usize {
        self.hardware.groups.push(Group {
            name: name.to_owned(),
            layout,
            drives,
            stripe_element_bytes,
            mirror_reads: MirrorReads::Alternate,
        });
        self.hardware.groups.len() - 1
    }

    /// Drives of a group; those of a faster tier come last.
    fn drives_of(&self, group: usize) -> Vec<usize> {
        let tiers = self.tiers_of(group).map_or(vec![group], |pool| pool.tiers.clone());
        tiers.iter().rev().flat_map(|tier| self.hardware.groups[*tier].drives.clone()).collect()
    }

    fn tiers_of(&self, group: usize) -> Option<&TieredPool> {
        self.hardware.tiered_pools.iter().find(|pool| pool.base() == group)
    }

    /// Bytes that volumes may use in a group, or in the tiered pool that it stands for.
    fn group_bytes(&self, group: usize) -> u64 {
        let Some(pool) = self.tiers_of(group) else { return self.raid_bytes(group) };
        let slices = pool.tiers.iter().map(|tier| pool.slices(self.raid_bytes(*tier), self.row_bytes(*tier)));
        slices.sum::<u64>() * pool.slice_bytes
    }

    /// Capacity of a group by the data sheets of its disks, in whole stripe elements or rows, bytes.
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

    /// Number of disks in a row that hold data. The array refuses a layout with too few disks.
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

    /// Data bytes of a row of stripe elements or pieces.
    fn row_bytes(&self, group: usize) -> u64 {
        let Group { layout, stripe_element_bytes, .. } = &self.hardware.groups[group];
        let one = match layout {
            Layout::DynamicPool { piece_bytes, .. } => *piece_bytes,
            _ => *stripe_element_bytes,
        };
        one.max(1) * self.data_disks(group)
    }
}

/// RAID layout of a group of disks.
fn layout(raid: Raid) -> Layout {
    match raid {
        Raid::Jbod | Raid::Raid0 => Layout::Raid0,
        Raid::Raid1 => Layout::Raid1,
        Raid::Raid10 => Layout::Raid10,
        Raid::Raid5 => Layout::Raid5,
        Raid::Raid6 => Layout::Raid6,
        Raid::TripleParity => Layout::TripleParity,
        // Refused when the file was read, but in a store of nodes.
        Raid::Replica2 | Raid::Replica3 => unreachable!("copies on nodes are no group of disks"),
    }
}

fn drive_bytes(model: &DriveModel) -> u64 {
    match model {
        DriveModel::Rotating(disk) => disk.capacity_bytes,
        DriveModel::Flash(drive) => drive.capacity_bytes,
    }
}
