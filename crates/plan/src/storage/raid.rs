//! The disks that the databases of a server would need under each RAID level, by I/O and by capacity.

use schemars::JsonSchema;
use serde::Serialize;
use solution::{Behind, Disk, Raid, Role, gib_of_disks};

use crate::formula;
use crate::inputs::Inputs;
use crate::sizing::Sizing;

/// Number of disks of one server, databases and logs together, under one RAID level.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RaidChoice {
    /// Name of the RAID level for people.
    pub raid: &'static str,
    /// Kind of disk of the first database volume.
    pub disk: String,
    /// Back-end I/O per second.
    pub back_end_iops: f64,
    /// Number of disks that the I/O needs; `None` if the I/O of a disk is not known.
    pub disks_by_iops: Option<u32>,
    /// The same during a rebuild.
    pub disks_by_iops_rebuilding: Option<u32>,
    /// Number of disks that the space needs, in one parity group.
    pub disks_by_capacity: u32,
}

/// All RAID levels of the calculator; none if the file names no disk for databases.
pub fn choices(inputs: &Inputs<'_>, sizing: &Sizing) -> Vec<RaidChoice> {
    let per_server = |key: &str| sizing.row(key).and_then(|row| row.per_server).unwrap_or_default();
    let gb = per_server("database_volume_gb") + per_server("log_volume_gb");
    let Some(disk) = database_disk(inputs) else { return Vec::new() };
    let choice = |raid: Raid| {
        let penalty = formula::write_penalty(raid);
        let back_end =
            formula::back_end_iops(per_server("database_iops"), inputs.figures.read_share, penalty);
        let for_iops =
            |iops: f64| disk.random_iops.map(|of_one| formable(raid, (iops / of_one).ceil() as u32));
        RaidChoice {
            raid: raid.words(),
            disk: disk.name.clone(),
            back_end_iops: back_end,
            disks_by_iops: for_iops(back_end),
            disks_by_iops_rebuilding: for_iops(back_end / formula::rebuild_share(raid)),
            disks_by_capacity: by_capacity(disk, raid, gb),
        }
    };
    [Raid::Raid0, Raid::Raid1, Raid::Raid10, Raid::Raid5, Raid::Raid6].map(choice).into()
}

/// Kind of disk of the first database volume.
fn database_disk<'a>(inputs: &Inputs<'a>) -> Option<&'a Disk> {
    let solution = inputs.solution;
    let volume = solution.volumes.iter().find(|volume| volume.role == Role::Database)?;
    match volume.behind {
        Behind::Disks { disk, .. } => Some(&solution.disks[disk]),
        Behind::Pool(pool) => Some(&solution.disks[solution.pools[pool].disk]),
        Behind::Unknown => None,
    }
}

/// Least number of disks from `least` on with which the RAID level can be built.
fn formable(raid: Raid, least: u32) -> u32 {
    (least.max(1)..).find(|&disks| raid.lacks(disks).is_none()).unwrap_or(least)
}

fn by_capacity(disk: &Disk, raid: Raid, gb: f64) -> u32 {
    let mirrored = formula::write_penalty(raid) == 2.0;
    let data = (gb / gib_of_disks(disk.capacity_gb, 1, Raid::Jbod, 1)).ceil() as u32;
    let parity = match raid {
        Raid::Raid5 => 1,
        Raid::Raid6 => 2,
        _ => 0,
    };
    formable(raid, if mirrored { data.saturating_mul(2) } else { data.saturating_add(parity) })
}
