//! Drives with redundancy: layouts, and how a lost drive is rebuilt.

use serde::{Deserialize, Serialize};

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
