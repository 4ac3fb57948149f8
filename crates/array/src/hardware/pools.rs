//! What lies on groups: thin pools with snapshots and clones, and pools of several kinds of disks.

use serde::{Deserialize, Serialize};

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
