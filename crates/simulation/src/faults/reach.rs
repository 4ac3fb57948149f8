//! How far a fault reaches: the hosts that feel it, and the volumes that no host can reach any more.
//!
//! Limits: volumes are taken to be owned as at the start; what moves to another controller in the course of a
//! run feels the faults of its first one.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use solution::{Fault, FaultKind};

use crate::storage::VolumeParts;

/// Hosts that a failing part of the array affects: those with volumes on it (on `drive` if one is hit). A controller
/// that takes over does not answer meanwhile.
pub(super) fn felt_by(
    kind: &FaultKind,
    hit: &VolumeParts,
    drive: Option<usize>,
    parts: &[VolumeParts],
) -> BTreeSet<String> {
    let first = &hit.paths[0];
    let has_another = hit.paths[1..].iter().any(|path| path.controller == first.controller);
    let others = |lost: usize| {
        let controllers = hit.paths.iter().map(|path| path.controller);
        controllers.filter(move |controller| *controller != lost).collect::<BTreeSet<usize>>()
    };
    let taking_over = match kind {
        FaultKind::ControllerFails => others(hit.controller),
        FaultKind::PathLost if !has_another => others(first.controller),
        _ => BTreeSet::new(),
    };
    let is_on_it = |other: &&VolumeParts| {
        let shares_store = hit.node.is_some() && store(other) == store(hit);
        match kind {
            FaultKind::DiskFails { .. } | FaultKind::DiskSlow { .. } | FaultKind::ExtentsRot { .. } => {
                shares_store || drive.is_some_and(|drive| other.drives.contains(&drive))
            }
            FaultKind::NodeDies { .. } | FaultKind::HostMoves { .. } => shares_store,
            FaultKind::DisksAdded { .. } => other.pool == hit.pool,
            FaultKind::CloneRead { .. } => other.thin_pool == hit.thin_pool,
            FaultKind::RemoteCopyLost => other.remote_copy == hit.remote_copy,
            FaultKind::CacheUnprotected | FaultKind::ControllerFails => other.controller == hit.controller,
            _ => false,
        }
    };
    let touched = parts
        .iter()
        .filter(|other| other.host == hit.host || is_on_it(other) || taking_over.contains(&other.controller));
    touched.map(|other| other.host.clone()).collect()
}

fn store(parts: &VolumeParts) -> Option<usize> {
    parts.node.map(|node| node.store)
}

/// Whether a volume can be reached without these controllers and, if one is named, this link.
fn is_reached(volume: &VolumeParts, dead: &BTreeSet<usize>, lost_link: Option<usize>) -> bool {
    let is_well = |link: &usize| Some(*link) != lost_link;
    volume.paths.iter().any(|path| !dead.contains(&path.controller) && path.links.iter().all(is_well))
}

/// Returns a volume that its hosts cannot reach once these controllers, `controller` among them, have failed.
pub(super) fn cut_off<'a>(
    parts: &'a [VolumeParts],
    dead: &BTreeSet<usize>,
    controller: usize,
) -> Option<&'a VolumeParts> {
    let leads_there = |volume: &&VolumeParts| volume.paths.iter().any(|path| path.controller == controller);
    parts.iter().filter(leads_there).find(|volume| !is_reached(volume, dead, None))
}

/// Whether a fault without an end would block its test for ever. The I/O of a host then waits for the end of the
/// fault, and the fault waits for the end of the test. The solution file was checked for this with all controllers;
/// controllers in `dead` leave fewer paths.
pub(super) fn holds_its_test(fault: &Fault, hit: &VolumeParts, dead: &BTreeSet<usize>) -> bool {
    fault.kind == FaultKind::PathLost
        && !fault.has_end()
        && !is_reached(hit, dead, hit.paths[0].links.first().copied())
}
