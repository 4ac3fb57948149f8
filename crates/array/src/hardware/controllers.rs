//! What is between hosts and drives: controllers and their caches, links, copies at another site, and hosts themselves.

use serde::{Deserialize, Serialize};

/// A synchronous copy of volumes on an array at another site.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCopy {
    /// The volumes.
    pub volumes: Vec<usize>,
    /// The link to the other site; the distance is in its latency.
    pub link: usize,
    /// From the arrival of a write's data at the other array to its answer.
    pub acknowledge_us: f64,
    /// What writes do while the link is lost.
    pub when_link_lost: WhenLinkLost,
    /// What is noted as changed, and copied, at a time.
    pub region_bytes: u64,
}

/// What writes do while the link to the copy is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenLinkLost {
    /// They go on without the copy.
    Suspend,
    /// They wait until the link is back.
    Stall,
}

/// What no array sets of a copy at another site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteCopyCosts {
    /// One way, for each km of distance.
    pub us_per_km: f64,
    /// What is noted as changed, and copied, at a time.
    pub region_bytes: u64,
}

/// What a controller does with writes that its cache has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestageOrder {
    /// At once, into the queue of the drive.
    Immediate,
    /// One at a time per drive set: the one nearest to the last one.
    Nearest,
    /// From `start_dirty` on (per drive set), ascending bursts of `burst`.
    Sorted {
        /// Writes per burst.
        burst: u32,
        /// Dirty extents at which sweeping starts.
        start_dirty: u32,
    },
}

/// Write-back cache of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Room for written data, dirty and clean.
    pub bytes: u64,
    /// Share of it that may be dirty, in per cent; above it a write waits.
    pub dirty_max_pct: f64,
    /// Which dirty data go to the drives when.
    pub destage: DestageOrder,
    /// Sequential writes are gathered up to this before they are destaged.
    pub gather_bytes: u64,
    /// The longest that gathered data wait for more.
    pub gather_ms: f64,
}

/// An array controller or a RAID adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Name in reports.
    #[serde(skip)]
    pub name: String,
    /// Time that each command takes of the controller, one after another: caps its commands per second.
    pub command_us: f64,
    /// Data of hosts that pass through it, both ways together; 0 = no limit of its own. MB = 10^6 bytes.
    pub mb_per_s: f64,
    /// From the arrival of a write's data to its acknowledgement, when the cache has room.
    pub acknowledge_us: f64,
    /// Writes that one volume acknowledges at a time (1 = a serial path); 0 = no limit.
    pub acknowledge_lanes: u32,
    /// Commands that it leaves at a rotating disk, if the disk holds as many.
    pub disk_queue_depth: u32,
    /// Protected (battery or flash backed) write cache; `None` = write-through.
    #[serde(skip)]
    pub write_cache: Option<WriteCache>,
    /// How far a sequential stream is read ahead; 0 = not at all.
    pub read_ahead_bytes: u64,
    /// A stream with longer pauses between its reads is not read ahead: what it reads from the drives of a
    /// group is read to the end of the stripe element, and no further. 0 = all streams are read ahead.
    pub read_ahead_pause_ms: f64,
    /// The controller that mirrors the cache and takes over.
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
    /// Name in reports.
    #[serde(skip)]
    pub name: String,
    /// One way, for every message.
    pub latency_us: f64,
    /// Data rate each way; 0 = no limit.
    pub mb_per_s: f64,
    /// Time that each command takes of the link or adapter, one after another: caps its commands per second.
    pub command_us: f64,
}

/// What a host takes for its I/O.
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
    /// Name in reports.
    #[serde(skip)]
    pub name: String,
    /// The groups.
    #[serde(skip)]
    pub groups: Vec<usize>,
    /// Its drives.
    #[serde(skip)]
    pub flash: Vec<usize>,
    /// Bytes that the volumes of the groups hold at the start: gives the share that the flash holds.
    #[serde(skip)]
    pub resident_bytes: u64,
    /// What is held, or not, as a whole.
    pub block_bytes: u64,
    /// Regions of the groups whose reads are told apart.
    pub regions: u32,
}
