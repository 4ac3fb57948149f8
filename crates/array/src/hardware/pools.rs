//! What lies on groups: thin pools with snapshots and clones, and pools of several kinds of disks.

use serde::{Deserialize, Serialize};

/// A group whose volumes take room in chunks when they are first written, and which may promise more than it has.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinPool {
    /// Name of the pool in reports.
    pub name: String,
    /// Group that provides the space.
    pub group: usize,
    /// Size of a chunk, bytes.
    pub chunk_bytes: u64,
    /// Snapshots of all its volumes.
    pub snapshots: Option<Snapshots>,
}

/// Tiered pool: groups of different disks. Slices of its volumes lie on the tier that fits their reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TieredPool {
    /// Groups of the tiers, fastest first. Volumes, thin pools and caches refer to the last one, which stands for all.
    #[serde(skip)]
    pub tiers: Vec<usize>,
    /// Time between two relocations, s; the first comes after this time.
    #[serde(skip)]
    pub every_s: f64,
    /// Whether the result of the first relocation is in place from the start.
    #[serde(skip)]
    pub settled: bool,
    /// Size of a slice, which lies on one tier and moves as a whole, bytes.
    pub slice_bytes: u64,
    /// Share of each tier that is kept free, percent; at least one slice.
    pub free_pct: f64,
    /// Time in which the weight of a read or write falls to half.
    pub half_life_h: f64,
    /// Rate at which slices are moved, one after another. MB = 10^6 bytes.
    pub moves_mb_per_s: f64,
}

impl TieredPool {
    /// Group that stands for all tiers.
    pub fn base(&self) -> usize {
        self.tiers.last().copied().unwrap_or_default()
    }

    /// Bytes of a tier that a slice takes, with rows of this many bytes.
    pub(crate) fn slot_bytes(&self, row_bytes: u64) -> u64 {
        self.slice_bytes.next_multiple_of(row_bytes.max(1)).max(1)
    }

    /// Number of slices for which a tier of this many bytes has room, with rows of this many bytes.
    pub fn slices(&self, tier_bytes: u64, row_bytes: u64) -> u64 {
        let slots = tier_bytes / self.slot_bytes(row_bytes);
        let kept_free = (slots as f64 * self.free_pct / 100.0) as u64;
        slots.saturating_sub(kept_free.max(1))
    }
}

/// Snapshots at equal intervals: the first write of a chunk after a snapshot goes to a new place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshots {
    /// Time between two snapshots, s; the first comes after this time.
    pub every_s: f64,
    /// Number of kept snapshots, the newest ones.
    pub keep: u32,
}

/// Settings for the reading of a clone by another host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneReads {
    /// Size of a read, bytes.
    pub read_bytes: u64,
    /// Number of reads at a time.
    pub reads: u32,
}

impl Default for CloneReads {
    fn default() -> Self {
        CloneReads { read_bytes: 1 << 20, reads: 1 }
    }
}
