//! `[[fault]]` of the solution file on the parts of the model.

use std::collections::BTreeSet;

use array::Event;
use campaign::database_path;
use solution::{Deployment, Fault, FaultKind, Solution, SolutionError};

use super::reach::{cut_off, felt_by, holds_its_test};
use crate::storage::{StoreNode, VolumeParts};

/// Fault of the solution file with the parts that it hits.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    pub(super) fault: Fault,
    pub(super) host: String,
    /// Hosts that the fault affects: its own, and those that share the failing part.
    pub(super) felt_by: BTreeSet<String>,
    /// Description of the fault.
    pub(super) what: String,
    pub(super) effect: Effect,
}

/// Effect of a fault on the array or a file.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Part of the array that fails and comes back.
    Passing { begin: Event, end: Event },
    /// Link to a copy at another site that fails and comes back; the copy then has to catch up.
    Cut { link: usize, remote_copy: usize },
    /// Part of the array that is lost; a lost drive may be rebuilt.
    Lost { event: Event, drive: Option<usize> },
    /// Node of a replicated store that is lost; the other nodes copy its data.
    NodeLost { store: usize, node: usize },
    /// Disks that are added to a pool and take their share of the data.
    Added { event: Event, group: usize },
    /// Clone of a thin pool that is taken, read and removed.
    Cloned { event: Event, thin_pool: usize },
    /// Bits of a page that change in its file, at these byte offsets.
    Rot { path: String, bytes: [u64; 2] },
}

/// Offsets of the damaged bytes in a page: two bits, because the checksum can correct one.
const ROTTEN_BYTES: [u64; 2] = [2000, 2700];

/// Resolves the faults of a solution file for the parts that take part.
///
/// # Errors
/// If what is left of the array cannot do without what fails, or a host that takes part would die with it. That
/// there is such a part was checked when the file was read.
pub fn planned(
    solution: &Solution,
    deployments: &[Deployment],
    parts: &[VolumeParts],
) -> Result<Vec<PlannedFault>, Box<SolutionError>> {
    let dead_controllers = dead_controllers(solution, deployments, parts);
    let mut dead_nodes = BTreeSet::new();
    let mut planned = Vec::new();
    for (index, fault) in solution.faults.iter().enumerate() {
        let Some(deployment) = deployment_of(fault, deployments) else { continue };
        let refuse = |Refusal { field, message, help }: Refusal| {
            solution.error(&format!("fault[{index}]{field}"), message, help.map(str::to_owned))
        };
        planned.push(match &fault.kind {
            FaultKind::BitRot { database, page } => rot(fault, database.as_deref(), *page, deployment)
                .ok_or_else(|| {
                    refuse(
                        Refusal::new("", "no database has this page".into())
                            .help("name a database of the host, and a page that it has"),
                    )
                })?,
            _ => {
                let hit = hit_by(fault, &deployment.host, parts).ok_or_else(|| {
                    refuse(
                        Refusal::new("", "no modelled volume is hit by this fault".into())
                            .help("name host and volume, and describe [array]"),
                    )
                })?;
                check_the_rest(fault, hit, parts, &dead_controllers, &mut dead_nodes).map_err(refuse)?;
                on_array(fault, hit, parts)
            }
        });
    }
    Ok(planned)
}

/// Reason why a fault cannot happen to the hosts that take part.
struct Refusal {
    /// Key of the fault to which the reason belongs, with a dot; empty for the fault as a whole.
    field: &'static str,
    message: String,
    help: Option<&'static str>,
}

impl Refusal {
    fn new(field: &'static str, message: String) -> Refusal {
        Refusal { field, message, help: None }
    }

    fn help(self, help: &'static str) -> Refusal {
        Refusal { help: Some(help), ..self }
    }
}

/// Controllers that faults of these hosts remove for good.
fn dead_controllers(
    solution: &Solution,
    deployments: &[Deployment],
    parts: &[VolumeParts],
) -> BTreeSet<usize> {
    let of_controllers = solution.faults.iter().filter(|fault| fault.kind == FaultKind::ControllerFails);
    let hit =
        of_controllers.filter_map(|fault| hit_by(fault, &deployment_of(fault, deployments)?.host, parts));
    hit.map(|hit| hit.controller).collect()
}

/// Refuses a fault that leaves a host without storage, or whose host does not take part.
fn check_the_rest(
    fault: &Fault,
    hit: &VolumeParts,
    parts: &[VolumeParts],
    dead_controllers: &BTreeSet<usize>,
    dead_nodes: &mut BTreeSet<(usize, usize)>,
) -> Result<(), Refusal> {
    match (&fault.kind, hit.node) {
        (FaultKind::NodeDies { node }, Some(own)) => {
            let node = node_of(*node, own);
            let is_on_it = |parts: &&VolumeParts| parts.node == Some(StoreNode { node, ..own });
            if let Some(on_it) = parts.iter().find(is_on_it) {
                let message = format!("{} runs on node {} and would die with it", on_it.host, node + 1);
                let help = "name a node without a host, or let fewer hosts take part";
                return Err(Refusal::new(".node", message).help(help));
            }
            dead_nodes.insert((own.store, node));
            if dead_nodes.iter().filter(|(store, _)| *store == own.store).count() >= own.replicas {
                let message =
                    format!("a store of {} copies may lose {} of its nodes", own.replicas, own.replicas - 1);
                return Err(Refusal::new(".kind", message));
            }
        }
        (FaultKind::ControllerFails, _) => {
            if let Some(volume) = cut_off(parts, dead_controllers, hit.controller) {
                let message = format!("no way is left to volume `{}` of {}", volume.volume, volume.host);
                let help = "controllers and links_per_host in [array]: two of each at least, and one controller that lives";
                return Err(Refusal::new(".kind", message).help(help));
            }
        }
        _ if holds_its_test(fault, hit, dead_controllers) => {
            let (host, kind) = (&hit.host, fault.kind.name());
            let message = format!("I/O of {host} waits until {kind} is over, and its test for the I/O");
            let help = "add duration_s, or a test with a measured window: performance or stress";
            return Err(Refusal::new(".kind", message).help(help));
        }
        _ => {}
    }
    Ok(())
}

/// The host that a fault names, if it takes part; the first one if it names none.
fn deployment_of<'a>(fault: &Fault, deployments: &'a [Deployment]) -> Option<&'a Deployment> {
    match &fault.host {
        Some(name) => deployments.iter().find(|deployment| deployment.host == *name),
        None => deployments.first(),
    }
}

/// Index of the node that a fault names, or of the one after the host's, from 0.
fn node_of(named: Option<u32>, own: StoreNode) -> usize {
    named.map_or((own.node + 1) % own.nodes, |node| node as usize - 1)
}

/// Volume that a fault names, or the first one of its host.
fn hit_by<'a>(fault: &Fault, host: &str, parts: &'a [VolumeParts]) -> Option<&'a VolumeParts> {
    parts.iter().find(|parts| {
        parts.host == host && fault.volume.as_ref().is_none_or(|volume| *volume == parts.volume)
    })
}

/// Fault on the array, with its effect on the part that it hits.
fn on_array(fault: &Fault, hit: &VolumeParts, parts: &[VolumeParts]) -> PlannedFault {
    let drive = fault.kind.disk().and_then(|disk| hit.drives.get(disk as usize - 1).copied());
    let (what, effect) = effect(fault, hit, drive.unwrap_or(0));
    let felt_by = felt_by(&fault.kind, hit, drive, parts);
    PlannedFault { fault: fault.clone(), host: hit.host.clone(), felt_by, what, effect }
}

/// Description of a fault, and the reaction of the array. `drive`: the disk that is hit.
fn effect(fault: &Fault, hit: &VolumeParts, drive: usize) -> (String, Effect) {
    let VolumeParts { host, volume, controller, .. } = hit;
    let (controller, link) = (*controller, hit.paths[0].links[0]);
    let lost = |event| Effect::Lost { event, drive: None };
    match &fault.kind {
        FaultKind::DiskFails { disk } => {
            let effect = Effect::Lost { event: Event::DriveFails { drive }, drive: Some(drive) };
            (format!("disk {disk} of {volume} fails"), effect)
        }
        FaultKind::DiskSlow { disk, factor } => {
            let begin = Event::DriveSlow { drive, factor: *factor };
            let end = Event::DriveSlow { drive, factor: 1.0 };
            (format!("disk {disk} of {volume} is {factor} times as slow"), Effect::Passing { begin, end })
        }
        FaultKind::DisksAdded { disks } => {
            let group = hit.pool.unwrap_or(0);
            let event = Event::DrivesAdded { group, count: *disks };
            (format!("disks added to the pool of {volume}: {disks}"), Effect::Added { event, group })
        }
        FaultKind::CloneRead { mib_per_s } => {
            let thin_pool = hit.thin_pool.unwrap_or(0);
            // 0 = no cap.
            let mb_per_s = mib_per_s.unwrap_or(0.0) * f64::from(1 << 20) / 1e6;
            let event = Event::CloneTaken { pool: thin_pool, mb_per_s };
            (format!("a clone of the pool of {volume} is read"), Effect::Cloned { event, thin_pool })
        }
        FaultKind::ExtentsRot { disk, one_in } => {
            let what = format!("one in {one_in} extents on disk {disk} of {volume} is bad");
            (what, lost(Event::ExtentsRot { drive, one_in: *one_in }))
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
        FaultKind::ControllerFails => {
            (format!("the controller of {volume} fails"), lost(Event::ControllerFails { controller }))
        }
        FaultKind::HostMoves { node } => {
            let node = hit.node.map_or(0, |own| node_of(*node, own));
            (
                format!("{host} moves to another node of its store"),
                lost(Event::HostMoves { host: host.clone(), node }),
            )
        }
        FaultKind::NodeDies { node } => {
            let (store, node) = hit.node.map_or((0, 0), |own| (own.store, node_of(*node, own)));
            (format!("node {} of the store of {host} dies", node + 1), Effect::NodeLost { store, node })
        }
        FaultKind::BitRot { .. } => unreachable!("bits rot in a file, on any storage"),
    }
}

fn rot(fault: &Fault, database: Option<&str>, page: u32, deployment: &Deployment) -> Option<PlannedFault> {
    let databases = deployment.instances.iter().flat_map(|instance| {
        instance.databases.iter().map(move |database| (u64::from(instance.page_bytes), database))
    });
    let mut hit = databases.filter(|(_, one)| {
        database.is_none_or(|name| one.name == name)
            && fault.volume.as_ref().is_none_or(|volume| one.volume == *volume)
    });
    let (page_bytes, database) = hit.next()?;
    // Two pages of header come first.
    let start = (u64::from(page) + 1) * page_bytes;
    (start + page_bytes <= database.bytes).then(|| PlannedFault {
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
