//! Measured storages in the place of what the solution file describes.

use std::collections::BTreeMap;

use array::{EVERY_OTHER, MeasuredPlace};
use solution::{Deployment, Fault, FaultKind, Solution};

use super::{Outcome, host_of};

/// The measured storage of each volume by host and path: its own, by its name, or that of all others, which hosts of
/// one place share.
pub(super) fn places(
    solution: &Solution,
    deployments: &[Deployment],
    names: &[String],
) -> Outcome<BTreeMap<(String, String), MeasuredPlace>> {
    let refuse = |message: String| {
        let help = "measure it, too, or name a volume of the solution in `calibrate --volume`";
        solution.error("volume", message, Some(help.into()))
    };
    let storage_of = |wanted: &str| names.iter().position(|name| name == wanted);
    let is_known = |name: &&String| {
        let mut volumes = solution.hosts.iter().flat_map(|host| &host.volumes);
        *name == EVERY_OTHER || volumes.any(|volume| volume.name == **name)
    };
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(refuse(format!("no volume is called {name}, as a measured storage is")));
    }
    let mut places = BTreeMap::new();
    for deployment in deployments {
        for volume in &deployment.volumes {
            let (own, other) = (storage_of(&volume.name), storage_of(EVERY_OTHER));
            let name = match own {
                Some(_) => format!("{} of {}", volume.name, deployment.host),
                None => solution.place_of(host_of(solution, deployment)),
            };
            let storage = own.or(other);
            let storage =
                storage.ok_or_else(|| refuse(format!("no measured storage is that of {}", volume.name)))?;
            places.insert((deployment.host.clone(), volume.dir.clone()), MeasuredPlace { storage, name });
        }
    }
    Ok(places)
}

/// Refuses faults of parts, which a measured storage does not have.
pub(super) fn has_no_parts(solution: &Solution) -> Outcome<()> {
    let of_part = |fault: &Fault| !matches!(fault.kind, FaultKind::BitRot { .. });
    let Some(index) = solution.faults.iter().position(of_part) else { return Ok(()) };
    let message = "a measured storage has no parts that can fail, and was not probed in this state";
    let help =
        "take the fault out, or simulate the [array] of the solution file without the measured storage";
    Err(solution.error(&format!("fault[{index}]"), message, Some(help.into())))
}
