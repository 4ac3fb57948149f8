//! What the disks of a volume or a pool can do.

use solution::{Behind, Disk, PoolIo, PoolSpec, Raid, Solution, VolumeKind, gib_of_disks};

use crate::formula;

/// Capacity and I/O of one volume's disks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSet {
    /// Formatted capacity, GiB.
    pub formatted_gib: f64,
    /// Random I/O per second of the disks.
    pub random_iops: Option<f64>,
    /// Sequential I/O per second of the disks.
    pub sequential_iops: Option<f64>,
    /// Back-end writes per front-end write.
    pub write_penalty: f64,
    /// Share of the I/O that is left during a rebuild.
    pub rebuild_share: f64,
}

impl DiskSet {
    /// Capacity and I/O of `disks` disks of a kind under a RAID level.
    pub fn new(disk: &Disk, disks: u32, raid: Raid, group_disks: u32) -> DiskSet {
        DiskSet {
            formatted_gib: gib_of_disks(disk.capacity_gb, disks, raid, group_disks),
            random_iops: disk.random_iops.map(|iops| iops * f64::from(disks)),
            sequential_iops: disk.sequential_iops.map(|iops| iops * f64::from(disks)),
            write_penalty: formula::write_penalty(raid),
            rebuild_share: formula::rebuild_share(raid),
        }
    }

    /// Capacity and I/O of a volume's own disks.
    pub fn of(solution: &Solution, volume: &VolumeKind) -> Option<DiskSet> {
        let Behind::Disks { disk, disks, raid } = volume.behind else { return None };
        let mut set = DiskSet::new(&solution.disks[disk], disks, raid, disks);
        set.formatted_gib = volume.capacity_gib.unwrap_or(set.formatted_gib);
        Some(set)
    }

    /// Capacity and I/O of a pool's disks.
    pub fn of_pool(solution: &Solution, pool: &PoolSpec) -> DiskSet {
        let mut set = DiskSet::new(&solution.disks[pool.disk], pool.disks, pool.raid, pool.group_disks);
        set.formatted_gib = pool.formatted_gib;
        set.write_penalty = pool.write_penalty.unwrap_or(set.write_penalty);
        if pool.io == PoolIo::Array {
            (set.random_iops, set.sequential_iops) = (None, None);
        }
        set
    }

    /// Front-end I/O per second that the disks carry at this share of reads.
    pub fn front_end_iops(&self, read_share: f64) -> Option<f64> {
        self.random_iops.map(|iops| iops / formula::back_end_iops(1.0, read_share, self.write_penalty))
    }
}
