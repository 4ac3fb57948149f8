//! What an array is made of: plain values, units in the names.
//!
//! Indexes (`usize`) point into the lists of [`Hardware`]. Where the numbers come from stands in `assumptions.toml`,
//! what each model does with them in `docs/arrays.md`.

use serde::{Deserialize, Serialize};

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

/// A drive in its slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    /// Name in reports.
    pub name: String,
    /// What it is.
    pub model: DriveModel,
    /// The link or host adapter behind the controller that the drive's data cross, if it can be a limit.
    pub link: Option<usize>,
}

/// A kind of drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DriveModel {
    /// Rotating disk.
    Rotating(RotatingDisk),
    /// Flash drive.
    Flash(FlashDrive),
}

/// A rotating disk. MB = 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingDisk {
    /// Usable capacity.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Sustained rate on the outermost tracks.
    pub outer_mb_per_s: f64,
    /// Sustained rate on the innermost tracks.
    pub inner_mb_per_s: f64,
    /// Seek between two random tracks, on average.
    pub seek_average_ms: f64,
    /// Seek to the next track.
    pub seek_track_ms: f64,
    /// Seek from the first track to the last.
    pub seek_full_ms: f64,
    /// Added to the seek before a write.
    pub write_settle_ms: f64,
    /// From a command's arrival at an idle disk to the start of its seek.
    pub command_ms: f64,
    /// From the disk's buffer to the controller.
    pub interface_mb_per_s: f64,
    /// Commands that the disk holds at most and picks from, the shortest access time first.
    pub queue_depth: u32,
    /// A command goes next that has waited so many times as long as a full queue takes when it is served in turn.
    pub age_bound_queues: f64,
    /// How far an idle disk reads on behind the last read, and how long a run of commands may become while others wait;
    /// 0 = not at all.
    pub look_ahead_bytes: u64,
    /// Streams that the buffer keeps apart.
    pub look_ahead_segments: u32,
    /// Writes that the disk acknowledges from its volatile buffer; 0 = cache off.
    pub write_cache_bytes: u64,
    /// 512, or 4096 on 512e and 4Kn drives: smaller or unaligned writes read first.
    pub physical_sector_bytes: u32,
}

/// A flash drive. MB = 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashDrive {
    /// Usable capacity.
    pub capacity_bytes: u64,
    /// A small read, from command to data.
    pub read_us: f64,
    /// A small write, from command to acknowledgement.
    pub write_us: f64,
    /// Share of the reads that take `slow_read_us` instead.
    pub slow_read_share: f64,
    /// A slow read (behind an erase, or with retries).
    pub slow_read_us: f64,
    /// Small (4 KiB) random reads per second with a full queue: gives the number of channels.
    pub read_iops: f64,
    /// Interface rate for reads.
    pub read_mb_per_s: f64,
    /// Interface rate for writes.
    pub write_mb_per_s: f64,
    /// Small (4 KiB) random writes per second in steady state: what collection leaves.
    pub write_iops: f64,
    /// Writes that the drive takes at `write_mb_per_s` before collection holds them to `write_iops`.
    pub write_burst_bytes: u64,
}

/// How data lie on the drives of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Striped, no redundancy; one drive alone is this, too.
    Raid0,
    /// All drives hold the same.
    Raid1,
    /// Striped over mirrored pairs (drives 0 and 1, 2 and 3, ..).
    Raid10,
    /// One rotating parity.
    Raid5,
    /// Two rotating parities.
    Raid6,
    /// Three rotating parities.
    TripleParity,
    /// RAID 6 rows over drives picked at random per piece, with the spare room of `spare_drives` spread over all.
    DynamicPool {
        /// Drives in a row, parities included.
        width: u32,
        /// Bytes of a row on one drive.
        piece_bytes: u64,
        /// Drives' worth of room kept free for reconstruction.
        spare_drives: u32,
    },
}

/// A kind of dynamic pool: what of [`Layout::DynamicPool`] its maker sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicPool {
    /// Drives in a row, parities included.
    pub width: u32,
    /// Bytes of a row on one drive.
    pub piece_bytes: u64,
}

/// Which mirror serves a random read; a sequential stream stays on one mirror whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum MirrorReads {
    /// The first mirror.
    Primary,
    /// In turn.
    #[default]
    Alternate,
    /// Drawn from the seed.
    Random,
    /// The one with fewer commands; the first if equal.
    ShortestQueue,
}

/// Drives with a common layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name in reports.
    pub name: String,
    /// The layout.
    pub layout: Layout,
    /// The drives in the order of the layout.
    pub drives: Vec<usize>,
    /// Bytes on one drive before the next drive's turn.
    pub stripe_element_bytes: u64,
    /// Which mirror reads.
    pub mirror_reads: MirrorReads,
}

/// A group whose volumes take room in chunks when they are first written, and which may promise more than it has.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinPool {
    /// Name in reports.
    pub name: String,
    /// The group that has the room.
    pub group: usize,
    /// What a volume takes at a time.
    pub chunk_bytes: u64,
    /// Snapshots of all its volumes.
    pub snapshots: Option<Snapshots>,
}

/// A pool of groups of different disks, its tiers. Slices of volumes lie on the tier that their reads and writes earn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TieredPool {
    /// The groups, the fastest first. Volumes, thin pools and caches name the last one, which stands for all.
    #[serde(skip)]
    pub tiers: Vec<usize>,
    /// From one relocation to the next; the first one comes after this time.
    #[serde(skip)]
    pub every_s: f64,
    /// What the first relocation moves has been there for long, and costs nothing.
    #[serde(skip)]
    pub settled: bool,
    /// What lies on one tier, and moves, as a whole.
    pub slice_bytes: u64,
    /// Room of each tier that is kept free, in per cent: one slice at least.
    pub free_pct: f64,
    /// Time in which the weight of a read or write falls to half.
    pub half_life_h: f64,
    /// Rate at which slices are moved, one after another. MB = 10^6 bytes.
    pub moves_mb_per_s: f64,
}

impl TieredPool {
    /// The group that stands for all.
    pub fn base(&self) -> usize {
        self.tiers.last().copied().unwrap_or_default()
    }

    /// What a slice takes of a tier with rows of so many bytes.
    pub(crate) fn slot_bytes(&self, row_bytes: u64) -> u64 {
        self.slice_bytes.next_multiple_of(row_bytes.max(1)).max(1)
    }

    /// Slices for which a tier of so many bytes has room, in rows of so many.
    pub fn slices(&self, tier_bytes: u64, row_bytes: u64) -> u64 {
        let slots = tier_bytes / self.slot_bytes(row_bytes);
        let kept_free = (slots as f64 * self.free_pct / 100.0) as u64;
        slots.saturating_sub(kept_free.max(1))
    }
}

/// Snapshots at a steady pace: what is written for the first time since the last one goes to a new place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshots {
    /// From one to the next; the first one comes after this time.
    pub every_s: f64,
    /// How many are kept, the newest.
    pub keep: u32,
}

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
    /// A stream with longer pauses between its reads is not read ahead: what it reads from the drives of a group is read to
    /// the end of the stripe element, and no further. 0 = all streams are read ahead.
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

/// How a lost drive is rebuilt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebuild {
    /// From the failure to the first read.
    pub start_after_ms: f64,
    /// Bytes of the lost drive rebuilt at a time.
    pub step_bytes: u64,
    /// Steps under way at a time.
    pub steps: u32,
    /// Cap of the rebuild, in MB/s of the lost drive; 0 = none.
    pub mb_per_s: f64,
    /// Only what volumes have in use; otherwise the whole drive.
    pub used_only: bool,
}

impl Default for Rebuild {
    fn default() -> Self {
        Rebuild { start_after_ms: 0.0, step_bytes: 1 << 20, steps: 1, mb_per_s: 0.0, used_only: true }
    }
}

/// How another host reads a clone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneReads {
    /// Bytes of a read.
    pub read_bytes: u64,
    /// Reads under way at a time.
    pub reads: u32,
}

impl Default for CloneReads {
    fn default() -> Self {
        CloneReads { read_bytes: 1 << 20, reads: 1 }
    }
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

/// A log-structured store with write memory, inline compression and flash read cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogStore {
    /// Name in reports.
    #[serde(skip)]
    pub name: String,
    /// The group that holds the log.
    #[serde(skip)]
    pub group: usize,
    /// Drives of the flash read cache.
    #[serde(skip)]
    pub flash: Vec<usize>,
    /// Bytes (before compression) that the volumes hold at the start: gives the share that the flash holds.
    #[serde(skip)]
    pub resident_bytes: u64,
    /// Stored bytes per written byte.
    pub stored_per_written: f64,
    /// Size of the read cache in memory.
    pub ram_cache_bytes: u64,
    /// Compression unit: what is read at least, before compression.
    pub block_bytes: u64,
    /// Stripe element of the group, for those who make one for this store.
    pub stripe_element_bytes: u64,
    /// What is written to the group at a time, after compression (rounded up to whole rows of the group).
    pub segment_bytes: u64,
    /// Regions of the volumes whose reads the flash cache tells apart.
    pub cache_regions: u32,
}

/// A replicated store over nodes with drives of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicatedStore {
    /// Name in reports.
    #[serde(skip)]
    pub name: String,
    /// The nodes.
    #[serde(skip)]
    pub nodes: Vec<StoreNode>,
    /// Bytes that the volumes hold, one copy, over the store: gives the share that flash holds.
    #[serde(skip)]
    pub resident_bytes: u64,
    /// Copies of everything.
    pub replicas: u32,
    /// Time of the storage software per request, on one of its cores.
    pub command_us: f64,
    /// Cores of the storage software per node.
    pub cores: u32,
    /// Read cache in memory per node.
    pub ram_cache_bytes: u64,
    /// Write log on flash per node; a full log holds writes up.
    pub write_log_bytes: u64,
    /// Contiguous piece of a volume on one drive.
    pub extent_bytes: u64,
    /// Share of each flash drive that holds extents (the rest: write log, metadata, reserve), in per cent.
    pub flash_for_extents_pct: f64,
    /// Share of the extents that have a copy on the node of their volume, in per cent.
    pub local_reads_pct: f64,
    /// A stream reads so far ahead; 0 = not at all.
    pub read_ahead_bytes: u64,
    /// Extents are moved between flash and disks by how often they are read; otherwise flash holds the same share of all.
    pub tiers_by_reads: bool,
    /// Regions of the volumes whose reads are told apart.
    pub tier_regions: u32,
    /// An extent that a node has read over the network so often, for want of a copy, is copied to it.
    pub local_after_reads: u32,
    /// A drive whose accesses take so many times as long as those of its peers is emptied and left out; 0 = never.
    pub slow_drive_factor: f64,
    /// How long they must have taken so.
    pub slow_drive_s: f64,
    /// Rate at which extents are moved, one after another; 0 = they stay where they are. MB = 10^6 bytes.
    pub moves_mb_per_s: f64,
    /// Compression of extents that have not been written for some time.
    #[serde(skip)]
    pub compression: Option<Compression>,
    /// Erasure coding of extents that have not been written for some time.
    #[serde(skip)]
    pub erasure_coding: Option<ErasureCoding>,
    /// Equal data are kept once when they have not been written for some time.
    #[serde(skip)]
    pub deduplication: Option<Deduplication>,
    /// What a core compresses. MB = 10^6 bytes.
    pub compress_mb_per_s: f64,
    /// What a core makes of compressed data.
    pub decompress_mb_per_s: f64,
    /// What a core takes fingerprints of, where equal data are kept once.
    pub fingerprint_mb_per_s: f64,
}

impl ReplicatedStore {
    /// Parts of a strip of erasure coding, parities included.
    pub(crate) fn strip_parts(&self) -> u32 {
        self.erasure_coding.map_or(0, |coding| coding.data + self.replicas - 1)
    }
}

/// Compression of extents that have not been written for some time, in the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compression {
    /// Stored bytes per written byte.
    pub stored_per_written: f64,
    /// How long an extent must not have been written.
    pub delay_s: f64,
}

/// Erasure coding of extents that have not been written for some time, in the background: strips of extents on different
/// nodes, with a parity in place of each copy but the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErasureCoding {
    /// Extents in a strip.
    pub data: u32,
    /// How long an extent must not have been written.
    pub delay_s: f64,
}

/// Data of which there are equals, and which are kept once when they have not been written for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deduplication {
    /// Share of the data that have equals.
    pub equal_share: f64,
    /// So many are equal, each time.
    pub copies: u32,
    /// How long they must not have been written.
    pub delay_s: f64,
}

/// A node of a replicated store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreNode {
    /// Flash drives.
    pub flash: Vec<usize>,
    /// Rotating disks.
    pub disks: Vec<usize>,
    /// Its link to the other nodes.
    pub link: usize,
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

/// Something that happens at a given time.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A drive dies: its group works degraded, and a spare takes over.
    DriveFails {
        /// The drive.
        drive: usize,
    },
    /// Drives like those of a dynamic pool are added to it, and pieces move to them until all are equally full.
    DrivesAdded {
        /// The group that is the pool.
        group: usize,
        /// How many.
        count: u32,
    },
    /// A clone of all volumes of a thin pool is taken, read from end to end by another host, and removed.
    CloneTaken {
        /// The pool.
        pool: usize,
        /// Cap of the reads; 0 = none. MB = 10^6 bytes.
        mb_per_s: f64,
    },
    /// Every access of a drive takes `factor` times as long from now on (1 = as before).
    DriveSlow {
        /// The drive.
        drive: usize,
        /// Multiple of the normal time.
        factor: f64,
    },
    /// A link is lost: the paths over it are not used.
    LinkLost {
        /// The link.
        link: usize,
    },
    /// A link is back.
    LinkRestored {
        /// The link.
        link: usize,
    },
    /// A controller dies: its partner takes over.
    ControllerFails {
        /// The controller.
        controller: usize,
    },
    /// Copies on a drive of a replicated store are bad: one in so many extents, until each is written again.
    ExtentsRot {
        /// The drive.
        drive: usize,
        /// One in so many.
        one_in: u64,
    },
    /// A host goes on on another node of its replicated store, and its volumes with it.
    HostMoves {
        /// The host.
        host: String,
        /// The node, from 0; beyond the last one they begin anew.
        node: usize,
    },
    /// A node of a replicated store dies, with all its drives and their copies. Hosts on it are not looked at.
    NodeDies {
        /// The store.
        store: usize,
        /// The node.
        node: usize,
    },
    /// The cache is no longer protected: writes go through to the drives.
    CacheUnprotected {
        /// The controller.
        controller: usize,
    },
    /// The cache is protected again.
    CacheProtected {
        /// The controller.
        controller: usize,
    },
}
