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

/// All parts of the storage of a simulation, whatever hosts it serves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// Every drive, spares included.
    pub drives: Vec<Drive>,
    /// Sets of drives with redundancy, and what is laid out on them.
    pub groups: Vec<Group>,
    /// Array controllers, or RAID adapters in a host.
    pub controllers: Vec<Controller>,
    /// Cables, adapters and networks that data cross.
    pub links: Vec<Link>,
    /// Pools of several kinds of disks (each over groups).
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
    /// Where each volume of each host lies.
    pub volumes: Vec<VolumePlacement>,
    /// Drives that stand by for any group.
    pub spares: Vec<usize>,
    /// How a lost drive is rebuilt.
    pub rebuild: Rebuild,
    /// How clones are read.
    pub clone_reads: CloneReads,
}

impl Hardware {
    /// The group that a volume, or its store, lies on.
    pub(crate) fn group_of(&self, target: Target) -> Option<usize> {
        match target {
            Target::Group { group, .. } => Some(group),
            Target::Thin { pool } => Some(self.thin_pools[pool].group),
            Target::LogStore { store } => Some(self.log_stores[store].group),
            Target::ReplicatedStore { .. } => None,
        }
    }
}

/// A way from a host to a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Links in order from the host.
    pub links: Vec<usize>,
    /// Controller at the end (not looked at for a replicated store).
    pub controller: usize,
}

/// What holds a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A group, from this byte of its capacity on.
    Group {
        /// The group.
        group: usize,
        /// First byte.
        first_byte: u64,
    },
    /// A thin pool.
    Thin {
        /// The pool.
        pool: usize,
    },
    /// A log-structured store.
    LogStore {
        /// The store.
        store: usize,
    },
    /// A replicated store.
    ReplicatedStore {
        /// The store.
        store: usize,
        /// The node that serves the volume.
        node: usize,
    },
}

impl Target {
    /// Whether writes go to a store, which has its own ways with them.
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Target::LogStore { .. } | Target::ReplicatedStore { .. })
    }
}

/// Where a volume of a host lies.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumePlacement {
    /// The host.
    pub host: String,
    /// Its top-level directory.
    pub path: String,
    /// Capacity.
    pub bytes: u64,
    /// What holds it.
    pub target: Target,
    /// The controller that owns it: requests go there while a path to it and itself are well.
    pub owner: usize,
    /// Ways to it; those to the owner share the load, the others are for failover. None = no time on the way.
    pub paths: Vec<Path>,
}
