//! `[[fault]]` of the solution file on the parts of the model.

use std::collections::BTreeSet;
use std::path::Path;

use array::Event;
use campaign::database_path;
use solution::{Deployment, Fault, FaultKind, Solution, SolutionError};

use super::reach::{cut_off, felt_by, holds_its_test};
use crate::storage::{StoreNode, VolumeParts};

/// A fault with what it hits.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    pub(super) fault: Fault,
    pub(super) host: String,
    /// The hosts that feel it: this one, and those that share the part that fails.
    pub(super) felt_by: BTreeSet<String>,
    /// What goes wrong, in words.
    pub(super) what: String,
    pub(super) effect: Effect,
}

/// What a fault does.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Something of the array fails and comes back.
    Passing { begin: Event, end: Event },
    /// The link to a copy at another site fails and comes back; then the copy has to catch up.
    Cut { link: usize, remote_copy: usize },
    /// Something of the array is lost; a lost drive may be rebuilt.
    Lost { event: Event, drive: Option<usize> },
    /// A node of a replicated store is lost, and what it held is copied among the others.
    NodeLost { store: usize, node: usize },
    /// Disks come to the pool that this group is, and take their share of the data.
    Added { event: Event, group: usize },
    /// A clone of a thin pool is taken, read and removed.
    Cloned { event: Event, thin_pool: usize },
    /// Bits of a page change in its file, at these bytes.
    Rot { path: String, bytes: [u64; 2] },
}

/// The page that rots when the file names none: in the first 128 MiB of any database.
const ROTTEN_PAGE: u32 = 4096;
/// Inside the page; two bits, since one can be put right by the checksum.
const ROTTEN_BYTES: [u64; 2] = [2000, 2700];

/// The faults of a solution file on the parts that take part.
///
/// # Errors
/// If a fault is of no known kind, names no part, or there is no model of the storage.
pub fn planned(
    solution: &Solution,
    deployments: &[Deployment],
    parts: &[VolumeParts],
) -> Result<Vec<PlannedFault>, Box<SolutionError>> {
    let mut planned = Vec::new();
    let mut dead_nodes = BTreeSet::new();
    let of_controllers = solution.file.fault.iter().filter(|fault| fault.kind == FaultKind::ControllerFails);
    let hit_by_them = of_controllers.filter_map(|fault| hit_by(fault, &host_of(fault, deployments), parts));
    let dead_controllers: BTreeSet<usize> = hit_by_them.map(|hit| hit.controller).collect();
    for (index, fault) in solution.file.fault.iter().enumerate() {
        let at = format!("fault[{index}]");
        let refuse = |field: &str, message: String, help: &str| {
            let help = (!help.is_empty()).then(|| help.to_owned());
            Err(solution.error(&format!("{at}{field}"), message, help))
        };
        let host = host_of(fault, deployments);
        let Some(deployment) = deployments.iter().find(|deployment| deployment.host == host) else {
            continue;
        };
        if fault.kind == FaultKind::BitRot {
            let Some(rot) = rot(fault, deployment) else {
                let help = "name a database of the host, and a page that it has";
                return refuse("", "no database has this page".into(), help);
            };
            planned.push(rot);
            continue;
        }
        let Some(hit) = hit_by(fault, &host, parts) else {
            let help = "name host and volume, and describe [array]";
            return refuse("", "no modelled volume is hit by this fault".into(), help);
        };
        let disk = fault.disk.unwrap_or(1);
        let drive = hit.drives.get(disk.saturating_sub(1) as usize).copied();
        let planned_on = |(what, effect): (String, Effect)| {
            let felt_by = felt_by(fault.kind, hit, drive, parts);
            PlannedFault { fault: fault.clone(), host: host.clone(), felt_by, what, effect }
        };
        if matches!(fault.kind, FaultKind::HostMoves | FaultKind::NodeDies) {
            let Some(own) = hit.node else {
                let help = "describe a replicated store, or leave this fault out";
                return refuse("", format!("{host} is on no node of a replicated store"), help);
            };
            if fault.kind == FaultKind::HostMoves {
                planned.push(planned_on(host_moves(fault, &host, own.node)));
                continue;
            }
            let node = fault.node.map_or((own.node + 1) % own.nodes, |node| node.wrapping_sub(1) as usize);
            if node >= own.nodes {
                return refuse(".node", format!("the store has nodes 1 to {}", own.nodes), "");
            }
            let is_on_it = |parts: &&VolumeParts| parts.node == Some(StoreNode { node, ..own });
            if let Some(on_it) = parts.iter().find(is_on_it) {
                let message = format!("{} runs on node {} and would die with it", on_it.host, node + 1);
                return refuse(".node", message, "name a node without a host, or let fewer hosts take part");
            }
            dead_nodes.insert((own.store, node));
            if dead_nodes.iter().filter(|(store, _)| *store == own.store).count() >= own.replicas {
                let message =
                    format!("a store of {} copies may lose {} of its nodes", own.replicas, own.replicas - 1);
                return refuse(".kind", message, "");
            }
            planned.push(planned_on(node_dies(&host, own, node)));
            continue;
        }
        if drive.is_none()
            && matches!(fault.kind, FaultKind::DiskFails | FaultKind::DiskSlow | FaultKind::ExtentsRot)
        {
            return refuse(".disk", format!("volume `{}` has {} disks", hit.volume, hit.drives.len()), "");
        }
        if fault.kind == FaultKind::ExtentsRot && hit.node.is_none() {
            let help = "describe a replicated store";
            return refuse("", format!("no copies on `{}` can be bad so", hit.volume), help);
        }
        if fault.kind == FaultKind::DisksAdded && hit.pool.is_none() {
            let help = "store = { kind = \"dynamic_pool\", .. } in [array]";
            return refuse("", format!("volume `{}` lies in no dynamic pool", hit.volume), help);
        }
        if fault.kind == FaultKind::CloneRead && hit.thin_pool.is_none() {
            let message = format!("volume `{}` lies in no thin pool", hit.volume);
            return refuse("", message, "thin_chunk_kib in its [[pool]]");
        }
        if fault.kind == FaultKind::RemoteCopyLost && hit.remote_copy.is_none() {
            let message = format!("volume `{}` has no copy at another site", hit.volume);
            return refuse("", message, "add [array.remote_copy]");
        }
        if fault.kind == FaultKind::ControllerFails
            && let Some(volume) = cut_off(parts, &dead_controllers, hit.controller)
        {
            let message = format!("no way is left to volume `{}` of {}", volume.volume, volume.host);
            let help = "controllers and links_per_host in [array]: two of each at least, and one controller that lives";
            return refuse(".kind", message, help);
        }
        if holds_its_test(solution, fault, hit, &dead_controllers) {
            let message =
                format!("I/O of {host} waits until {} is over, and its test for the I/O", fault.kind.name());
            let help = "add duration_s, or a test with a measured window: performance or stress";
            return refuse(".kind", message, help);
        }
        planned.push(planned_on(of_array(fault, hit, drive.unwrap_or(0), disk)));
    }
    Ok(planned)
}

/// The host that a fault names; the first one if it names none.
fn host_of(fault: &Fault, deployments: &[Deployment]) -> String {
    fault.host.clone().unwrap_or_else(|| deployments[0].host.clone())
}

/// The volume that a fault names, or the first one of its host.
fn hit_by<'a>(fault: &Fault, host: &str, parts: &'a [VolumeParts]) -> Option<&'a VolumeParts> {
    parts.iter().find(|parts| {
        parts.host == host && fault.volume.as_ref().is_none_or(|volume| *volume == parts.volume)
    })
}

fn of_array(fault: &Fault, hit: &VolumeParts, drive: usize, disk: u32) -> (String, Effect) {
    let (volume, controller, link) = (&hit.volume, hit.controller, hit.paths[0].links[0]);
    match fault.kind {
        FaultKind::DiskFails => {
            let event = Event::DriveFails { drive };
            (format!("disk {disk} of {volume} fails"), Effect::Lost { event, drive: Some(drive) })
        }
        FaultKind::DiskSlow => {
            let factor = fault.factor.unwrap_or(10.0);
            let begin = Event::DriveSlow { drive, factor };
            let end = Event::DriveSlow { drive, factor: 1.0 };
            (format!("disk {disk} of {volume} is {factor} times as slow"), Effect::Passing { begin, end })
        }
        FaultKind::DisksAdded => {
            let (count, group) = (fault.disks.unwrap_or(1), hit.pool.unwrap_or(0));
            let event = Event::DrivesAdded { group, count };
            (format!("disks added to the pool of {volume}: {count}"), Effect::Added { event, group })
        }
        FaultKind::CloneRead => {
            let pool = hit.thin_pool.unwrap_or(0);
            // 0 = no cap.
            let mb_per_s = fault.mib_per_s.unwrap_or(0.0) * f64::from(1 << 20) / 1e6;
            let event = Event::CloneTaken { pool, mb_per_s };
            (format!("a clone of the pool of {volume} is read"), Effect::Cloned { event, thin_pool: pool })
        }
        FaultKind::ExtentsRot => {
            let one_in = fault.one_in.unwrap_or(1000);
            let what = format!("one in {one_in} extents on disk {disk} of {volume} is bad");
            (what, Effect::Lost { event: Event::ExtentsRot { drive, one_in }, drive: None })
        }
        FaultKind::PathLost => {
            let (begin, end) = (Event::LinkLost { link }, Event::LinkRestored { link });
            (format!("a path to {volume} is lost"), Effect::Passing { begin, end })
        }
        FaultKind::RemoteCopyLost => {
            let (remote_copy, link) = hit.remote_copy.unwrap_or_default();
            (format!("the link to the copy of {volume} is lost"), Effect::Cut { link, remote_copy })
        }
        FaultKind::CacheUnprotected => {
            let begin = Event::CacheUnprotected { controller };
            let end = Event::CacheProtected { controller };
            let what = format!("the write cache in front of {volume} is not protected");
            (what, Effect::Passing { begin, end })
        }
        _ => {
            let event = Event::ControllerFails { controller };
            (format!("the controller of {volume} fails"), Effect::Lost { event, drive: None })
        }
    }
}

fn host_moves(fault: &Fault, host: &str, from: usize) -> (String, Effect) {
    let node = fault.node.map_or(from + 1, |node| node.saturating_sub(1) as usize);
    let event = Event::HostMoves { host: host.to_owned(), node };
    (format!("{host} moves to another node of its store"), Effect::Lost { event, drive: None })
}

fn node_dies(host: &str, own: StoreNode, node: usize) -> (String, Effect) {
    let what = format!("node {} of the store of {host} dies", node + 1);
    (what, Effect::NodeLost { store: own.store, node })
}

fn rot(fault: &Fault, deployment: &Deployment) -> Option<PlannedFault> {
    let volume = match &fault.volume {
        Some(name) => Some(deployment.volumes.iter().find(|volume| volume.name == *name)?),
        None => None,
    };
    let page = u64::from(fault.page.unwrap_or(ROTTEN_PAGE));
    let databases = deployment.instances.iter().flat_map(|instance| {
        instance.databases.iter().map(move |database| (u64::from(instance.page_bytes), database))
    });
    let mut hit = databases.filter(|(_, database)| {
        fault.database.as_ref().is_none_or(|name| *name == database.name)
            && volume.is_none_or(|volume| Path::new(&database.dir).starts_with(&volume.dir))
    });
    let (page_bytes, database) = hit.next()?;
    // Two pages of header come first.
    let start = (page + 1) * page_bytes;
    (page > 0 && start + page_bytes <= database.bytes).then(|| PlannedFault {
        fault: fault.clone(),
        host: deployment.host.clone(),
        felt_by: BTreeSet::from([deployment.host.clone()]),
        what: format!("page {page} of database {} rots", database.name),
        effect: Effect::Rot {
            path: database_path(&database.dir, &database.name),
            bytes: ROTTEN_BYTES.map(|byte| start + byte),
        },
    })
}
