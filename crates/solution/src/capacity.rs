//! Databases must fit into the storage that the solution file describes. A simulation would answer faster than
//! the disks could if the databases lay on a small part of disks that are larger than described, or wrapped
//! around on smaller ones.
//!
//! Room is counted as the file states it: disks by data sheet, less what RAID and copies take. A thin pool and
//! a store give room as it is written, so their databases are counted together.
//!
//! Limits: what compression, deduplication and erasure coding of a replicated store save is not known before a
//! test, so such a store is not judged; what a log-structured store saves is known to its kind, so the
//! simulation judges that. Logs and the growth during the tests are not counted.

use std::collections::BTreeMap;

use crate::error::{Checked, Wrong};
use crate::file::{Disk, StorageArray, Store};
use crate::hosts::HostSpec;
use crate::names::DefinedNames;
use crate::source::Mistakes;
use crate::storage::{Behind, PoolSpec, gib_of_disks};

const GIB: f64 = (1u64 << 30) as f64;

/// Whether needed bytes fit. Data sheets round: a drive of 4 TB holds 4,000.787 GB.
pub fn fits(needs_gib: f64, holds_gib: f64) -> bool {
    const ROUNDED: f64 = 1.001;
    needs_gib <= holds_gib * ROUNDED
}

/// Space for databases: a volume, or the pool that contains it.
struct Room<'a> {
    named: &'a DefinedNames,
    array: Option<&'a StorageArray>,
}

/// Refuses databases that are larger than their volume, or than the pool of their volumes.
pub(crate) fn check(named: &DefinedNames, array: Option<&StorageArray>, mistakes: &mut Mistakes<'_>) {
    let room = Room { named, array };
    let mut in_pools = BTreeMap::<(String, usize), u64>::new();
    for host in named.hosts.iter().filter(|host| host.is_under_test) {
        let held = bytes_by_volume(host);
        for volume in host.volumes.iter().filter(|volume| volume.is_under_test && volume.path.is_some()) {
            let bytes = held.get(volume.name.as_str()).copied().unwrap_or(0);
            mistakes.keep(room.check_volume(volume, bytes));
            if let (Some(array), Behind::Pool(pool)) = (array, named.volumes[volume.kind].behind) {
                let place = named.place_of(host, array.scope);
                *in_pools.entry((place, pool)).or_default() += bytes;
            }
        }
    }
    for ((_, pool), bytes) in in_pools {
        mistakes.keep(room.check_pool(pool, bytes));
    }
}

/// Bytes of the databases on each volume of a host, as far as they are described.
fn bytes_by_volume(host: &HostSpec) -> BTreeMap<&str, u64> {
    let mut bytes = BTreeMap::new();
    for database in host.instances.iter().flatten().flat_map(|instance| &instance.databases) {
        *bytes.entry(database.volume.as_str()).or_default() += database.bytes;
    }
    bytes
}

impl Room<'_> {
    fn check_volume(&self, volume: &crate::VolumeInfo, bytes: u64) -> Checked<()> {
        let (holds_gib, made_of) = match self.named.volumes[volume.kind].behind {
            Behind::Disks { disk, disks, raid } => {
                let Disk { name, capacity_gb, .. } = &self.named.disks[disk];
                let of_disks = gib_of_disks(*capacity_gb, disks, raid, disks);
                let stated = volume.capacity_gib.unwrap_or(of_disks);
                (Some(stated.min(of_disks)), format!(" ({disks} x `{name}` of {capacity_gb} GB)"))
            }
            _ => (volume.capacity_gib, String::new()),
        };
        let needs_gib = bytes as f64 / GIB;
        match holds_gib {
            Some(holds_gib) if !fits(needs_gib, holds_gib) => {
                let message = format!(
                    "the databases on volume `{}` need {needs_gib:.1} GiB, and it holds {holds_gib:.1} GiB{made_of}",
                    volume.name
                );
                let wrong = Wrong::new(format!("volume[{}]", volume.kind), message);
                Err(wrong.help("more or larger disks, or smaller databases ([sizing])"))
            }
            _ => Ok(()),
        }
    }

    fn check_pool(&self, pool: usize, bytes: u64) -> Checked<()> {
        let Some(holds_gib) = self.pool_gib(&self.named.pools[pool]) else { return Ok(()) };
        let needs_gib = bytes as f64 / GIB;
        if fits(needs_gib, holds_gib) {
            return Ok(());
        }
        let name = &self.named.pools[pool].name;
        let message =
            format!("databases of {needs_gib:.1} GiB do not fit into pool `{name}` of {holds_gib:.1} GiB");
        let wrong = Wrong::new(format!("pool[{pool}].disks"), message);
        Err(wrong.help("more or larger disks, or smaller databases ([sizing])"))
    }

    /// Capacity of a pool after RAID or copies, GiB; `None` if it is known only after a test.
    fn pool_gib(&self, pool: &PoolSpec) -> Option<f64> {
        let spares = match &self.array?.store {
            Some(Store::LogStructured { .. }) => return None,
            Some(Store::Replicated(spec))
                if spec.compression.is_some()
                    || spec.deduplication.is_some()
                    || spec.erasure_coding.is_some() =>
            {
                return None;
            }
            Some(Store::DynamicPool { spare_disks, .. }) => *spare_disks,
            _ => 0,
        };
        let disks = pool.disks.saturating_sub(spares);
        let group_disks = if pool.group_disks == pool.disks { disks } else { pool.group_disks };
        let slow_gib = gib_of_disks(self.named.disks[pool.disk].capacity_gb, disks, pool.raid, group_disks);
        let raid = pool.tiering.as_ref().map_or(pool.raid, |tiering| tiering.raid);
        let of_fast = |fast: crate::FastTier| {
            gib_of_disks(self.named.disks[fast.disk].capacity_gb, fast.disks, raid, fast.disks)
        };
        Some(slow_gib + pool.fast.map_or(0.0, of_fast))
    }
}
