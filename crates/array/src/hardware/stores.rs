//! Stores that lay data out themselves: log-structured, and replicated over nodes.

use serde::{Deserialize, Serialize};

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

/// Unit in which a replicated store keeps data in memory, indexes its write logs and treats cold data.
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;

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
    /// Extents are moved between flash and disks by how often they are read; otherwise flash holds the same
    /// share of all.
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

/// Erasure coding of extents that have not been written for some time, in the background: strips of extents on
/// different nodes, with a parity in place of each copy but the first.
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
