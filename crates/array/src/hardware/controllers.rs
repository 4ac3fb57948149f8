//! What is between hosts and drives: controllers and their caches, links, copies at another site, and hosts themselves.

use serde::{Deserialize, Serialize};

/// A synchronous copy of volumes on an array at another site.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCopy {
    /// Volumes that are copied.
    pub volumes: Vec<usize>,
    /// Link to the other site; the distance is part of its latency.
    pub link: usize,
    /// Time from the arrival of a write's data at the other array to its answer, µs.
    pub acknowledge_us: f64,
    /// Behaviour of writes while the link is lost.
    pub when_link_lost: WhenLinkLost,
    /// Size of a region that is noted as changed and copied, bytes.
    pub region_bytes: u64,
}

/// Behaviour of writes while the link to a copy at another site is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenLinkLost {
    /// Writes go on without the copy.
    Suspend,
    /// Writes wait until the link is back.
    Stall,
}

/// Fixed costs of a copy at another site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteCopyCosts {
    /// One-way latency per km of distance, µs.
    pub us_per_km: f64,
    /// Size of a region that is noted as changed and copied, bytes.
    pub region_bytes: u64,
}

/// Order in which a controller destages acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestageOrder {
    /// At once, into the queue of the drive.
    Immediate,
    /// One at a time per drive set: the one nearest to the last one.
    Nearest,
    /// From `start_dirty` extents on (per drive set), in ascending bursts of `burst`.
    Sorted {
        /// Number of writes per burst.
        burst: u32,
        /// Number of dirty extents at which a burst starts.
        start_dirty: u32,
    },
}

/// Write-back cache of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Size for written data, dirty and clean, bytes.
    pub bytes: u64,
    /// Share of the cache that may be dirty, percent; above it a write waits.
    pub dirty_max_pct: f64,
    /// Order of destaging.
    pub destage: DestageOrder,
    /// Sequential writes are gathered up to this before they are destaged.
    pub gather_bytes: u64,
    /// Longest time that gathered data wait for more, ms.
    pub gather_ms: f64,
}

/// Array controller or RAID adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Name of the controller in reports.
    #[serde(skip)]
    pub name: String,
    /// Time that each command takes of the controller, one after another: caps its commands per second.
    pub command_us: f64,
    /// Data of hosts that pass through it, both ways together; 0 = no limit of its own. MB = 10^6 bytes.
    pub mb_per_s: f64,
    /// Time from the arrival of a write's data to its acknowledgement if the cache has room, µs.
    pub acknowledge_us: f64,
    /// Writes that one volume acknowledges at a time (1 = a serial path); 0 = no limit.
    pub acknowledge_lanes: u32,
    /// Number of commands that the controller gives a rotating disk at a time, if the disk takes as many.
    pub disk_queue_depth: u32,
    /// Write cache, protected by battery or flash; `None`: write-through.
    #[serde(skip)]
    pub write_cache: Option<WriteCache>,
    /// How far a sequential stream is read ahead; 0 = not at all.
    pub read_ahead_bytes: u64,
    /// A stream with longer pauses between its reads is not read ahead: what it reads from the drives of a
    /// group is read to the end of the stripe element, and no further. 0 = all streams are read ahead.
    pub read_ahead_pause_ms: f64,
    /// Controller that mirrors the cache and takes over.
    #[serde(skip)]
    pub partner: Option<usize>,
    /// Time that the volumes are silent when the partner takes over.
    pub failover_ms: f64,
    /// Patrol read per drive, in MB/s, on drives that are idle; 0 = off.
    pub patrol_mb_per_s: f64,
}

/// A cable, an adapter or a network, full duplex. MB = 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of the link in reports.
    #[serde(skip)]
    pub name: String,
    /// One-way latency of every message, µs.
    pub latency_us: f64,
    /// Data rate in each direction, MB/s; 0: no limit.
    pub mb_per_s: f64,
    /// Time that each command takes of the link or adapter, one after another: caps its commands per second.
    pub command_us: f64,
}

/// Processor times and queue of a host for its I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Processor time of a request, there and back.
    pub io_us: f64,
    /// Processor time of an operation of the load, its requests apart.
    pub operation_us: f64,
    /// Requests of one volume that its host has under way at most.
    pub queue_depth: u32,
}

/// A flash cache for reads in front of groups, which the controllers of an array share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCache {
    /// Name of the cache in reports.
    #[serde(skip)]
    pub name: String,
    /// Groups that the cache serves.
    #[serde(skip)]
    pub groups: Vec<usize>,
    /// Flash drives of the cache.
    #[serde(skip)]
    pub flash: Vec<usize>,
    /// Bytes that the volumes of the groups hold at the start: gives the share that the flash holds.
    #[serde(skip)]
    pub resident_bytes: u64,
    /// Size of a cache block, bytes.
    pub block_bytes: u64,
    /// Number of regions of the groups whose reads are counted apart.
    pub regions: u32,
}
