//! The MetaCache database of Exchange 2019 and SE: a part of each database copy on SSD, written beside it.
//!
//! Shares and limits are the maker's; how many I/Os the cache saves is not published, so the plan counts none as saved.

use solution::{Behind, Role};

use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::sizing::Sizing;

/// Share of an SSD that MetaCache databases may use.
pub const USABLE: f64 = 0.95;
/// Number of database disks for one SSD.
pub const DISKS_PER_SSD: u32 = 3;
/// Database page size of Exchange 2019 and SE, bytes.
const PAGE_BYTES: f64 = 32_768.0;
const SECONDS_PER_DAY: f64 = 86_400.0;
const BYTES_PER_GIB: f64 = (1u64 << 30) as f64;

/// MetaCache of the server with the fewest SSDs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetaCache {
    /// Number of SSDs of the server.
    pub ssds: u32,
    /// Number of database disks of the server.
    pub disks: u32,
    /// Capacity of the SSDs, GiB.
    pub ssd_gib: f64,
    /// Capacity of the SSDs divided by that of the database disks.
    pub share_of_disks: f64,
    /// MetaCache of one database copy, GiB.
    pub gib_per_copy: f64,
    /// MetaCache of one copy divided by the size of the database.
    pub share_of_database: f64,
    /// Number of copies whose cache one SSD holds; they lose it together.
    pub copies_per_ssd: u32,
    /// Upper bound of the drive writes per day of an SSD.
    pub drive_writes_per_day: f64,
    /// Whether every server has the same number of SSDs of one size.
    pub alike: bool,
}

impl MetaCache {
    /// MetaCache of a copy, GiB, if all copies have the same and those of the fullest SSD fit.
    pub fn gib_of_fullest_ssd(&self) -> f64 {
        self.ssd_gib / f64::from(self.ssds) * USABLE / f64::from(self.copies_per_ssd)
    }
}

/// Drives of a role on a server: number, total capacity, and capacity of one, in bytes.
fn drives(inputs: &Inputs<'_>, host: usize, role: Role) -> (u32, f64, Vec<f64>) {
    let mut found = (0, 0.0, Vec::new());
    for volume in inputs.solution.volumes.iter().filter(|volume| volume.role == role) {
        if let (Behind::Disks { disk, disks, .. }, true) = (volume.behind, volume.hosts.contains(&host)) {
            let (count, bytes) =
                (disks.saturating_mul(volume.count), inputs.solution.disks[disk].capacity_gb * 1e9);
            found.0 += count;
            found.1 += f64::from(count) * bytes;
            found.2.push(bytes);
        }
    }
    found
}

/// MetaCache of the file's SSDs; `None` if it describes none.
pub fn meta_cache(inputs: &Inputs<'_>, sizing: &Sizing, layout: &Layout) -> Option<MetaCache> {
    let of = |host: usize| drives(inputs, host, Role::MetaCache);
    let all: Vec<_> = (0..inputs.servers.len()).map(of).collect();
    let alike = all
        .iter()
        .all(|(count, _, sizes)| *count == all[0].0 && sizes.iter().all(|&size| size == all[0].2[0]));
    let with_ssd = (0..all.len()).filter(|&host| all[host].0 > 0);
    let least = with_ssd.min_by(|&a, &b| all[a].1.total_cmp(&all[b].1))?;
    let (ssds, ssd_bytes, _) = all[least];
    let (disks, disk_bytes, _) = drives(inputs, least, Role::Database);
    let copies = layout.most_copies(inputs.servers.len());
    let gib_per_copy = ssd_bytes * USABLE / BYTES_PER_GIB / f64::from(copies.max(1));
    // Every page that a copy writes is written to its SSD as well, all day at the rate of the busiest hours.
    let writes = sizing.database_iops * (1.0 - sizing.read_share) * f64::from(copies);
    Some(MetaCache {
        ssds,
        disks,
        ssd_gib: ssd_bytes / BYTES_PER_GIB,
        share_of_disks: ssd_bytes / disk_bytes,
        gib_per_copy,
        share_of_database: gib_per_copy / sizing.database_gb,
        copies_per_ssd: copies.div_ceil(ssds),
        drive_writes_per_day: writes * PAGE_BYTES * SECONDS_PER_DAY / ssd_bytes,
        alike,
    })
}
