//! What an array is made of: plain values, units in the names.
//!
//! Indexes (`usize`) point into the lists of [`Hardware`]. Where the numbers come from stands in `assumptions.toml`,
//! what each model does with them in `docs/arrays.md`.

mod controllers;
mod drives;
mod events;
mod groups;
mod pools;
mod stores;

pub use controllers::{
    Controller, DestageOrder, HostCosts, Link, ReadCache, RemoteCopy, RemoteCopyCosts, WhenLinkLost,
    WriteCache,
};
pub use drives::{Drive, DriveModel, FlashDrive, RotatingDisk};
pub use events::Event;
pub use groups::{DynamicPool, Group, Layout, MirrorReads, Rebuild};
pub use pools::{CloneReads, Snapshots, ThinPool, TieredPool};
pub(crate) use stores::BLOCK_BYTES;
pub use stores::{Compression, Deduplication, ErasureCoding, LogStore, ReplicatedStore, StoreNode};

/// All parts of the storage of a simulation, for all of its hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// Every drive, spares included.
    pub drives: Vec<Drive>,
    /// RAID groups.
    pub groups: Vec<Group>,
    /// Array controllers, or RAID adapters in a host.
    pub controllers: Vec<Controller>,
    /// Cables, adapters and networks that data cross.
    pub links: Vec<Link>,
    /// Tiered pools, each over several groups.
    pub tiered_pools: Vec<TieredPool>,
    /// Thin pools (each on a group).
    pub thin_pools: Vec<ThinPool>,
    /// Log-structured stores (each on a group).
    pub log_stores: Vec<LogStore>,
    /// Replicated stores (each on the drives of its nodes).
    pub replicated_stores: Vec<ReplicatedStore>,
    /// Flash caches for reads in front of groups.
    pub read_caches: Vec<ReadCache>,
    /// Copies at other sites.
    pub remote_copies: Vec<RemoteCopy>,
    /// Placement of each volume of each host.
    pub volumes: Vec<VolumePlacement>,
    /// Hot spares for any group.
    pub spares: Vec<usize>,
    /// Settings of rebuilds.
    pub rebuild: Rebuild,
    /// Settings for the reading of clones.
    pub clone_reads: CloneReads,
}

impl Hardware {
    /// Group that holds a volume or its store.
    pub(crate) fn group_of(&self, target: Target) -> Option<usize> {
        match target {
            Target::Group { group, .. } => Some(group),
            Target::Thin { pool } => Some(self.thin_pools[pool].group),
            Target::LogStore { store } => Some(self.log_stores[store].group),
            Target::ReplicatedStore { .. } => None,
        }
    }
}

/// Path from a host to a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Links in order from the host.
    pub links: Vec<usize>,
    /// Controller at the end of the path (not used for a replicated store).
    pub controller: usize,
}

/// Group, pool or store that holds a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A group, from this byte of its capacity on.
    Group {
        /// Index of the group.
        group: usize,
        /// Offset of the volume in the group.
        first_byte: u64,
    },
    /// A thin pool.
    Thin {
        /// Index of the thin pool.
        pool: usize,
    },
    /// A log-structured store.
    LogStore {
        /// Index of the store.
        store: usize,
    },
    /// A replicated store.
    ReplicatedStore {
        /// Index of the store.
        store: usize,
        /// The node that serves the volume.
        node: usize,
    },
}

impl Target {
    /// Whether the target is a store, which handles writes in its own way.
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Target::LogStore { .. } | Target::ReplicatedStore { .. })
    }
}

/// Placement of a volume of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumePlacement {
    /// Name of the host.
    pub host: String,
    /// Path of the volume's top-level directory.
    pub path: String,
    /// Capacity of the volume, bytes.
    pub bytes: u64,
    /// Group, pool or store that holds the volume.
    pub target: Target,
    /// Controller that owns the volume: requests go there while it and a path to it work.
    pub owner: usize,
    /// Paths of the host; those to the owner share the load, the others are for failover. Empty: the way takes no
    /// time.
    pub paths: Vec<Path>,
}
