//! What tests found besides I/O: sizes, steps of tuning, checksums, backups, recoveries.

use results::{Origin, Outcome, PagesRead, RecoveryWork};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a database before and after the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeRow {
    /// The database.
    #[serde(flatten)]
    pub origin: Origin,
    /// File size before.
    pub bytes_before: u64,
    /// File size after.
    pub bytes_after: Option<u64>,
}

/// One step of tuning: a load that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuningRow {
    /// Place in the search, from 1.
    pub ordinal: u32,
    /// The load in words, such as `8 sessions`.
    pub load: String,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Transactional I/O as a share of the target of the run; null without a target.
    pub of_target: Option<f64>,
    /// Mean database read latency in ms.
    pub read_latency_ms: f64,
    /// Mean log write latency in ms.
    pub log_write_latency_ms: f64,
    /// Whether all latencies were inside their limits.
    pub outcome: Outcome,
    /// Why tuning went up, went down or stopped after this step.
    pub note: String,
}

/// How much more load than the target the storage held in tuning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// Transactional I/O per second that the run is to reach.
    pub target_iops: Option<f64>,
    /// Highest transactional I/O per second inside all limits; null if no step was.
    pub held_iops: Option<f64>,
    /// Lowest transactional I/O per second that broke a limit; null if no step did.
    pub broken_iops: Option<f64>,
    /// What was held above the target, as a share of the target.
    pub beyond_target: Option<f64>,
}

/// Checksum of one database or of one instance's logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChecksumRow {
    /// The database, or the instance whose logs were read.
    #[serde(flatten)]
    pub origin: Origin,
    /// Pages or log blocks that were read, and what was wrong with them.
    #[serde(flatten)]
    pub read: PagesRead,
    /// Bytes that were read, as a share of the bytes there.
    #[serde(default)]
    pub read_share: Option<f64>,
    /// Seconds that it took.
    pub elapsed_s: f64,
    /// Bytes read per second, in MiB.
    pub mib_per_s: Option<f64>,
}

/// Backup or restore of one database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackupRow {
    /// The database.
    #[serde(flatten)]
    pub origin: Origin,
    /// File that was written; null if the database was only read.
    pub destination: Option<String>,
    /// Bytes read of the database.
    pub bytes: u64,
    /// Bytes of the file that was read, when the backup began; null if not recorded.
    #[serde(default)]
    pub bytes_expected: Option<u64>,
    /// Bytes that were read, as a share of the bytes there.
    #[serde(default)]
    pub read_share: Option<f64>,
    /// Seconds that it took.
    pub elapsed_s: f64,
    /// Bytes read per second, in MiB.
    pub mib_per_s: Option<f64>,
}

/// Soft recovery of one instance: replay of its logs after a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRow {
    /// The instance.
    #[serde(flatten)]
    pub origin: Origin,
    /// Log generations that were replayed.
    pub logs: u64,
    /// Seconds that it took.
    pub elapsed_s: f64,
    /// Seconds per log generation.
    pub s_per_log: Option<f64>,
    /// Database reads per log generation.
    pub reads_per_log: Option<f64>,
    /// Database writes per log generation.
    pub writes_per_log: Option<f64>,
    /// Log reads per log generation.
    pub log_reads_per_log: Option<f64>,
    /// Redo and undo work that it did; null where it is not known.
    #[serde(default)]
    pub work: Option<RecoveryWork>,
}
