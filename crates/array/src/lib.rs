//! Models of storage arrays behind `world::sim`: disks, flash, RAID, caches, links, controllers, stores, faults.
//!
//! [`Array`] is a [`world::sim::StorageModel`]: it says how long reads, writes and syncs of every host take, from the
//! parts that [`Hardware`] lists. What each model does, with which parameters from which source, and what it leaves
//! out, is in `docs/arrays.md`; the values stand in `assumptions.toml` ([`Assumptions`]).
//!
//! Invariants
//! 1. Every request completes once, not before it was submitted, and in order of time.
//! 2. Equal hardware, seed, events and requests give equal times on every machine: times are integers of nanoseconds,
//!    and of floating-point operations only the exact ones (+ - * / sqrt) are used.
//! 3. Background work (destaging, read-ahead, rebuild, patrol) shares drives and links with requests, and never keeps
//!    an idle simulation from ending.
//!
//! Limits: contents, torn writes and bit rot are the world's; this crate only knows when.

mod array;
mod assumptions;
mod cache;
mod centre;
mod coldness;
mod drive;
mod error;
mod hardware;
mod links;
mod lru;
mod measured;
mod plausible;
mod raid;
mod ranges;
mod report;
mod residency;
mod space;
mod streams;
mod throttle;

pub use array::{Array, RebuildStatus, SharedArray};
pub use assumptions::{Assumptions, EVERY_OTHER, Source};
pub use centre::{MeasuredPlace, SharedMeasured};
pub use error::ArrayError;
pub use hardware::{
    CloneReads, Compression, Controller, Deduplication, DestageOrder, Drive, DriveModel, DynamicPool,
    ErasureCoding, Event, FlashDrive, Group, Hardware, HostCosts, Layout, Link, LogStore, MirrorReads, Path,
    ReadCache, Rebuild, RemoteCopy, RemoteCopyCosts, ReplicatedStore, RotatingDisk, Snapshots, StoreNode,
    Target, ThinPool, TieredPool, VolumePlacement, WhenLinkLost, WriteCache,
};
pub use measured::MeasuredStorage;
pub use report::{DeviceReport, PartKind, PartReport};

/// Scatters the bits of a number, equally on every machine; good enough for placement.
pub(crate) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
