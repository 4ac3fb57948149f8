//! Drives with redundancy: layouts, and how a lost drive is rebuilt.

use serde::{Deserialize, Serialize};

/// Layout of data on the drives of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Striped, no redundancy; one drive alone is this, too.
    Raid0,
    /// Mirror: all drives hold the same data.
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
        /// Number of drives in a row, parities included.
        width: u32,
        /// Bytes of a row on one drive.
        piece_bytes: u64,
        /// Spare space for reconstruction, in drives.
        spare_drives: u32,
    },
}

/// Kind of dynamic pool: the parameters of [`Layout::DynamicPool`] that its maker sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicPool {
    /// Number of drives in a row, parities included.
    pub width: u32,
    /// Bytes of a row on one drive.
    pub piece_bytes: u64,
}

/// Choice of the mirror for a random read; a sequential stream stays on one mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum MirrorReads {
    /// Always the first mirror.
    Primary,
    /// The mirrors in turn.
    #[default]
    Alternate,
    /// A random mirror, drawn from the seed.
    Random,
    /// The mirror with fewer commands; the first if equal.
    ShortestQueue,
}

/// Group: drives with a common layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name of the group in reports.
    pub name: String,
    /// Layout of the group.
    pub layout: Layout,
    /// Drives in the order of the layout.
    pub drives: Vec<usize>,
    /// Stripe element: bytes on one drive before the next drive follows.
    pub stripe_element_bytes: u64,
    /// Choice of the mirror for reads.
    pub mirror_reads: MirrorReads,
}

/// Settings of rebuilds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebuild {
    /// Time from the failure to the first read, ms.
    pub start_after_ms: f64,
    /// Bytes of the lost drive that one step rebuilds.
    pub step_bytes: u64,
    /// Number of steps at a time.
    pub steps: u32,
    /// Limit of the rebuild rate, MB/s of the lost drive; 0: none.
    pub mb_per_s: f64,
    /// Whether only used space is rebuilt, rather than the whole drive.
    pub used_only: bool,
}

impl Default for Rebuild {
    fn default() -> Self {
        Rebuild { start_after_ms: 0.0, step_bytes: 1 << 20, steps: 1, mb_per_s: 0.0, used_only: true }
    }
}
