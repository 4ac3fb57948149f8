//! How the storage behind the volumes is built, for simulated time. Kinds are names of `assumptions.toml`,
//! which this crate does not know: what a kind cannot do is refused by the simulation.

use crate::error::{Checked, Wrong};
use crate::file::{Raid, ReplicatedStore, Scope, SolutionFile, StorageArray, Store};
use crate::names::DefinedNames;
use crate::source::Mistakes;
use crate::storage::{Behind, PoolSpec, disk_index};

/// Stripe element in KiB of a RAID group for which the file states none: that of midrange arrays.
const STRIPE_ELEMENT_KIB: u64 = 64;

impl StorageArray {
    /// Stripe element of a RAID group, KiB: bytes on one disk before the next disk follows.
    pub fn stripe_element_kib(&self) -> u64 {
        self.stripe_element_kib.unwrap_or(STRIPE_ELEMENT_KIB)
    }

    /// Stripe element of a log-structured store, KiB; `None`: that of its kind.
    pub fn stripe_element_kib_of_store(&self) -> Option<u64> {
        self.stripe_element_kib
    }

    /// Whether pools keep data in a store instead of RAID groups.
    pub fn has_store(&self) -> bool {
        matches!(self.store, Some(Store::LogStructured { .. } | Store::Replicated(_)))
    }

    /// Replicated store of the array, if it has one.
    pub fn replicated(&self) -> Option<&ReplicatedStore> {
        match &self.store {
            Some(Store::Replicated(store)) => Some(store),
            _ => None,
        }
    }

    /// Number of disks of a volume; in a replicated store those of one node; none in a log-structured store.
    pub(crate) fn disks_of(&self, behind: Behind, pools: &[PoolSpec]) -> u32 {
        let pool = match behind {
            Behind::Disks { disks, .. } => return disks,
            Behind::Pool(pool) => &pools[pool],
            Behind::Unknown => return 0,
        };
        let fast = pool.fast.map_or(0, |fast| fast.disks);
        match &self.store {
            Some(Store::LogStructured { .. }) => 0,
            Some(Store::Replicated(spec)) => pool.disks / spec.nodes + fast / spec.nodes,
            Some(Store::DynamicPool { .. }) => pool.disks,
            None => pool.disks + fast,
        }
    }
}

/// Checks parts of an array that do not fit together with its stores and groups.
pub(crate) fn check_array(file: &SolutionFile) -> Checked<()> {
    let Some(array) = &file.array else { return Ok(()) };
    if let Some(Store::LogStructured { cache_disk, .. }) = &array.store {
        disk_index(&file.disk, cache_disk, "array.store.cache_disk")?;
    }
    if let Some(cache) = &array.read_cache {
        disk_index(&file.disk, &cache.disk, "array.read_cache.disk")?;
    }
    if array.remote_copy.is_some() && array.scope == Scope::Host {
        let message = "adapters in a host have no copy at another site";
        return Err(Wrong::new("array.remote_copy", message));
    }
    if array.remote_copy.is_some() && array.has_store() {
        let message = "volumes of a store are not modelled with a copy at another site";
        return Err(Wrong::new("array.remote_copy", message));
    }
    if array.read_cache.is_some() && array.has_store() {
        let message = "a store has flash of its own; a read cache stands in front of RAID groups and pools";
        return Err(Wrong::new("array.read_cache", message));
    }
    Ok(())
}

/// Checks volumes and pools of an array as far as tests and drills use them.
pub(crate) fn check_volumes(array: &StorageArray, named: &DefinedNames, mistakes: &mut Mistakes<'_>) {
    let volumes = named.hosts.iter().flat_map(|host| &host.volumes);
    for volume in volumes.filter(|volume| volume.path.is_some()) {
        let at = format!("volume[{}]", volume.kind);
        match named.volumes[volume.kind].behind {
            Behind::Disks { raid, .. } => {
                mistakes.keep(refuse_nodes(raid, format!("{at}.raid")));
            }
            Behind::Pool(pool) if volume.capacity_gib.is_some() => {
                mistakes.keep(check_pool(array, &named.pools[pool], &format!("pool[{pool}]")));
            }
            _ => {
                let message =
                    format!("volume `{}` has neither disks nor a pool with a capacity", volume.name);
                mistakes.add(Wrong::new(at, message).help("name its disk, or leave [array] out"));
            }
        }
    }
}

/// Refuses protection by copies on nodes in a pool without nodes.
fn refuse_nodes(raid: Raid, path: String) -> Checked<()> {
    match raid {
        Raid::Replica2 | Raid::Replica3 => {
            Err(Wrong::new(path, "copies on other nodes need a pool with a replicated store"))
        }
        _ => Ok(()),
    }
}

fn check_pool(array: &StorageArray, pool: &PoolSpec, at: &str) -> Checked<()> {
    let refuse = |field: &str, message: String, help: &str| {
        Err(Wrong::new(format!("{at}.{field}"), message).help(help))
    };
    let name = &pool.name;
    if array.has_store() && pool.thin_chunk_kib.is_some() {
        let message = format!("pool `{name}` keeps data in a store, which takes room as it is written");
        return refuse("thin_chunk_kib", message, "leave thin_chunk_kib out");
    }
    if array.has_store() && pool.tiering.is_some() {
        let message = format!("pool `{name}` keeps data in a store, which has ways of its own");
        return refuse("tiering", message, "leave tiering out");
    }
    if let Some(ReplicatedStore { nodes, .. }) = array.replicated() {
        let kinds = [Some(pool.disks), pool.fast.map(|fast| fast.disks)];
        return match kinds.into_iter().flatten().find(|disks| disks % nodes != 0) {
            None => Ok(()),
            Some(disks) => {
                let message =
                    format!("{disks} disks of pool `{name}` cannot be the same on each of {nodes} nodes");
                refuse("disks", message, "nodes in [array] are alike")
            }
        };
    }
    let is_dynamic = matches!(array.store, Some(Store::DynamicPool { .. }));
    if !is_dynamic {
        refuse_nodes(pool.raid, format!("{at}.raid"))?;
    }
    if array.has_store() {
        return Ok(());
    }
    if !is_dynamic && pool.group_disks != pool.disks {
        return refuse(
            "group_disks",
            "one pool is modelled as one group".into(),
            "describe each group as a pool",
        );
    }
    match (pool.fast, &pool.tiering) {
        (Some(_), None) => {
            let message = "two kinds of disks are modelled with tiering";
            return refuse("fast_disks", message.into(), "add tiering");
        }
        (None, Some(_)) => {
            return refuse("tiering", "needs a faster tier".into(), "add fast_disk and fast_disks");
        }
        (Some(_), Some(_)) if is_dynamic => {
            return refuse("tiering", "tiers are RAID groups, no dynamic pools".into(), "leave store out");
        }
        (Some(_), Some(tiering)) => refuse_nodes(tiering.raid, format!("{at}.tiering.raid"))?,
        (None, None) => {}
    }
    if pool.snapshots.is_some() && pool.thin_chunk_kib.is_none() {
        return refuse("snapshots", "snapshots are modelled in chunks".into(), "add thin_chunk_kib");
    }
    Ok(())
}
