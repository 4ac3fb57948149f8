//! How the storage behind the volumes is built, for simulated time. Kinds are names of `assumptions.toml`, which this crate does
//! not know: what a kind cannot do is refused by the simulation.

use crate::error::{Checked, Wrong};
use crate::file::{
    Compression, Deduplication, ErasureCoding, Raid, RemoteCopy, Scope, SolutionFile, StorageArray, Store,
};
use crate::hosts::HostSpec;
use crate::source::Mistakes;
use crate::storage::{Behind, PoolSpec, VolumeKind, disk_index};

/// The parts between hosts and disks.
#[derive(Debug, Clone, PartialEq)]
pub struct ArraySpec {
    /// Whose controllers they are.
    pub scope: Scope,
    /// Kind of controller.
    pub controller: String,
    /// Controllers of the array, or of each host. Several are partners.
    pub controllers: u32,
    /// Cache of one controller for its own volumes in MiB; that of its kind when `None`.
    pub cache_mib: Option<u64>,
    /// Bytes of a RAID group on one disk before the next one's turn, in KiB.
    pub stripe_element_kib: u64,
    /// Kind of link between a host and its storage.
    pub link: String,
    /// Links of one host, to the controllers in turn.
    pub links_per_host: u32,
    /// How pools keep data; as RAID groups, by the protection of each, when `None`.
    pub store: Option<StoreSpec>,
    /// Flash drives that cache reads in front of the RAID groups and pools, for all controllers together.
    pub read_cache: Option<FlashDrives>,
    /// A copy of all volumes on an array alike at another site.
    pub remote_copy: Option<RemoteCopy>,
}

/// Flash drives of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashDrives {
    /// Index of the kind of disk.
    pub disk: usize,
    /// How many.
    pub disks: u32,
}

/// How pools keep data, if not as RAID groups.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreSpec {
    /// Every write appended to a log over all disks, reads cached in flash.
    LogStructured {
        /// Kind of store.
        model: String,
        /// Flash drives of one pool that cache reads.
        cache: FlashDrives,
        /// Bytes on one disk before the next one's turn, in KiB; those of its kind when `None`.
        stripe_element_kib: Option<u64>,
    },
    /// Copies of everything on several nodes, each with a share of the pool's disks.
    Replicated(ReplicatedSpec),
    /// Rows of double parity over disks picked anew for each piece.
    DynamicPool {
        /// Kind of pool.
        model: String,
        /// Disks' worth of room, spread over the pool, that is kept free for reconstruction.
        spare_disks: u32,
    },
}

/// A store of copies on several nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicatedSpec {
    /// Kind of store.
    pub model: String,
    /// Nodes of one pool; hosts run on them in turn.
    pub nodes: u32,
    /// Extents are moved between flash and disks by how often they are read; as for its kind when `None`.
    pub tiers_by_reads: Option<bool>,
    /// Data that were not written for some time are compressed in the background.
    pub compression: Option<Compression>,
    /// Data that were not written for some time are kept as strips with parities instead of copies.
    pub erasure_coding: Option<ErasureCoding>,
    /// Equal data that were not written for some time are kept once.
    pub deduplication: Option<Deduplication>,
}

/// Of groups that the file says nothing of: the element that midrange arrays came with.
const STRIPE_ELEMENT_KIB: u64 = 64;

impl ArraySpec {
    /// Pools keep data in a store with ways of its own, not as groups of disks.
    pub fn has_store(&self) -> bool {
        matches!(self.store, Some(StoreSpec::LogStructured { .. } | StoreSpec::Replicated(_)))
    }

    /// The store of copies on several nodes.
    pub fn replicated(&self) -> Option<&ReplicatedSpec> {
        match &self.store {
            Some(StoreSpec::Replicated(spec)) => Some(spec),
            _ => None,
        }
    }

    /// Disks that a volume lies on, in a replicated store those of one node; none in a log-structured one.
    pub(crate) fn disks_of(&self, behind: Behind, pools: &[PoolSpec]) -> u32 {
        let pool = match behind {
            Behind::Disks { disks, .. } => return disks,
            Behind::Pool(pool) => &pools[pool],
            Behind::Unknown => return 0,
        };
        let fast = pool.fast.map_or(0, |fast| fast.disks);
        match &self.store {
            Some(StoreSpec::LogStructured { .. }) => 0,
            Some(StoreSpec::Replicated(spec)) => pool.disks / spec.nodes + fast / spec.nodes,
            Some(StoreSpec::DynamicPool { .. }) => pool.disks,
            None => pool.disks + fast,
        }
    }
}

/// `[array]`, if the file has it.
pub(crate) fn array(file: &SolutionFile, mistakes: &mut Mistakes<'_>) -> Option<ArraySpec> {
    let array = file.array.as_ref()?;
    let store = mistakes.keep(store(file, array)).flatten();
    let read_cache = mistakes.keep(read_cache(file, array)).flatten();
    let spec = ArraySpec {
        scope: array.scope,
        controller: array.controller.clone(),
        controllers: array.controllers.unwrap_or(1),
        cache_mib: array.cache_mib,
        stripe_element_kib: array.stripe_element_kib.unwrap_or(STRIPE_ELEMENT_KIB),
        link: array.link.clone(),
        links_per_host: array.links_per_host.unwrap_or(1),
        store,
        read_cache,
        remote_copy: array.remote_copy.clone(),
    };
    mistakes.keep(check_additions(&spec));
    Some(spec)
}

fn store(file: &SolutionFile, array: &StorageArray) -> Checked<Option<StoreSpec>> {
    Ok(match array.store.clone() {
        None => None,
        Some(Store::LogStructured { model, cache_disk, cache_disks }) => Some(StoreSpec::LogStructured {
            model,
            cache: FlashDrives {
                disk: disk_index(&file.disk, &cache_disk, "array.store.cache_disk")?,
                disks: cache_disks,
            },
            stripe_element_kib: array.stripe_element_kib,
        }),
        Some(Store::Replicated(store)) => Some(StoreSpec::Replicated(ReplicatedSpec {
            model: store.model,
            nodes: store.nodes,
            tiers_by_reads: store.tiers_by_reads,
            compression: store.compression,
            erasure_coding: store.erasure_coding,
            deduplication: store.deduplication,
        })),
        Some(Store::DynamicPool { model, spare_disks }) => {
            Some(StoreSpec::DynamicPool { model, spare_disks })
        }
    })
}

fn read_cache(file: &SolutionFile, array: &StorageArray) -> Checked<Option<FlashDrives>> {
    let Some(cache) = &array.read_cache else { return Ok(None) };
    let disk = disk_index(&file.disk, &cache.disk, "array.read_cache.disk")?;
    Ok(Some(FlashDrives { disk, disks: cache.disks }))
}

/// What stands beside the stores and groups of an array, and does not go with all of them.
fn check_additions(array: &ArraySpec) -> Checked<()> {
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

/// Volumes and pools as the array has them: checked for what tests and drills may use.
pub(crate) fn check_volumes(
    array: &ArraySpec,
    hosts: &[HostSpec],
    kinds: &[VolumeKind],
    pools: &[PoolSpec],
    mistakes: &mut Mistakes<'_>,
) {
    let volumes = hosts.iter().flat_map(|host| &host.volumes);
    for volume in volumes.filter(|volume| volume.path.is_some()) {
        let at = format!("volume[{}]", volume.kind);
        match kinds[volume.kind].behind {
            Behind::Disks { raid, .. } => {
                mistakes.keep(refuse_nodes(raid, format!("{at}.raid")));
            }
            Behind::Pool(pool) if volume.capacity_gib.is_some() => {
                mistakes.keep(check_pool(array, &pools[pool], &format!("pool[{pool}]")));
            }
            _ => {
                let message =
                    format!("volume `{}` has neither disks nor a pool with a capacity", volume.name);
                mistakes.add(Wrong::new(at, message).help("name its disk, or leave [array] out"));
            }
        }
    }
}

/// Copies on other nodes need nodes.
fn refuse_nodes(raid: Raid, path: String) -> Checked<()> {
    match raid {
        Raid::Replica2 | Raid::Replica3 => {
            Err(Wrong::new(path, "copies on other nodes need a pool with a replicated store"))
        }
        _ => Ok(()),
    }
}

fn check_pool(array: &ArraySpec, pool: &PoolSpec, at: &str) -> Checked<()> {
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
    if let Some(ReplicatedSpec { nodes, .. }) = array.replicated() {
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
    let is_dynamic = matches!(array.store, Some(StoreSpec::DynamicPool { .. }));
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
