//! Stores that lay data out themselves: log-structured, and replicated over nodes.

use serde::{Deserialize, Serialize};

/// A log-structured store with write memory, inline compression and flash read cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogStore {
    /// Name of the store in reports.
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
    /// Bytes that are written to the group at a time, after compression (rounded up to whole rows).
    pub segment_bytes: u64,
    /// Regions of the volumes whose reads the flash cache tells apart.
    pub cache_regions: u32,
}

/// Unit in which a replicated store keeps data in memory, indexes its write logs and treats cold data.
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;

/// A replicated store over nodes with drives of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicatedStore {
    /// Name of the store in reports.
    #[serde(skip)]
    pub name: String,
    /// Nodes of the store.
    #[serde(skip)]
    pub nodes: Vec<StoreNode>,
    /// Bytes that the volumes hold, one copy, over the store: gives the share that flash holds.
    #[serde(skip)]
    pub resident_bytes: u64,
    /// Number of copies of all data.
    pub replicas: u32,
    /// Time of the storage software per request, on one of its cores, µs.
    pub command_us: f64,
    /// Cores of the storage software per node.
    pub cores: u32,
    /// Size of the read cache in memory per node, bytes.
    pub ram_cache_bytes: u64,
    /// Size of the write log on flash per node, bytes; a full log delays writes.
    pub write_log_bytes: u64,
    /// Contiguous piece of a volume on one drive.
    pub extent_bytes: u64,
    /// Share of each flash drive that holds extents (the rest: write log, metadata, reserve), in per cent.
    pub flash_for_extents_pct: f64,
    /// Share of the extents that have a copy on the node of their volume, in per cent.
    pub local_reads_pct: f64,
    /// Distance of read-ahead, bytes; 0: none.
    pub read_ahead_bytes: u64,
    /// Whether extents move between flash and disks by their reads; otherwise flash holds the same share of all.
    pub tiers_by_reads: bool,
    /// Number of regions of the volumes whose reads are counted apart.
    pub tier_regions: u32,
    /// An extent that a node has read over the network so often, for want of a copy, is copied to it.
    pub local_after_reads: u32,
    /// Factor by which a drive must be slower than its peers to be emptied and left out; 0: never.
    pub slow_drive_factor: f64,
    /// Time for which it must have been so slow, s.
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
    /// Compression rate of a core, MB/s (10^6 bytes).
    pub compress_mb_per_s: f64,
    /// Decompression rate of a core, MB/s.
    pub decompress_mb_per_s: f64,
    /// Fingerprint rate of a core, MB/s, where equal data are kept once.
    pub fingerprint_mb_per_s: f64,
}

impl ReplicatedStore {
    /// Number of parts of an erasure-coded strip, parities included.
    pub(crate) fn strip_parts(&self) -> u32 {
        self.erasure_coding.map_or(0, |coding| coding.data + self.replicas - 1)
    }
}

/// Compression of extents that have not been written for some time, in the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compression {
    /// Stored bytes per written byte.
    pub stored_per_written: f64,
    /// Time without a write before an extent is compressed, s.
    pub delay_s: f64,
}

/// Erasure coding of extents that have not been written for some time, in the background: strips of extents on
/// different nodes, with a parity in place of each copy but the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErasureCoding {
    /// Extents in a strip.
    pub data: u32,
    /// Time without a write before an extent is erasure coded, s.
    pub delay_s: f64,
}

/// Deduplication: equal data are kept once when they have not been written for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deduplication {
    /// Share of the data that exist more than once.
    pub equal_share: f64,
    /// Number of times that each of these data exists.
    pub copies: u32,
    /// Time without a write before data are deduplicated, s.
    pub delay_s: f64,
}

/// A node of a replicated store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreNode {
    /// Flash drives of the node.
    pub flash: Vec<usize>,
    /// Rotating disks of the node.
    pub disks: Vec<usize>,
    /// Link of the node to the other nodes.
    pub link: usize,
}
