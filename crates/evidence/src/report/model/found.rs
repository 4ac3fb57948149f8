//! What tests found besides I/O: sizes, steps of tuning, checksums, backups, recoveries.

use results::{Origin, Outcome, PagesRead, RecoveryWork};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a database before and after the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeRow {
    /// Database.
    #[serde(flatten)]
    pub origin: Origin,
    /// File size before.
    pub bytes_before: u64,
    /// File size after.
    pub bytes_after: Option<u64>,
}

/// One step of tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuningRow {
    /// Place in the search, from 1.
    pub ordinal: u32,
    /// The load, ready to print.
    pub load: String,
    /// Transactional I/O per second.
    pub iops: f64,
    /// The same as a share of the target of the run; null without one.
    pub of_target: Option<f64>,
    /// Mean database read latency.
    pub read_latency_ms: f64,
    /// Mean log write latency.
    pub log_write_latency_ms: f64,
    /// Inside all thresholds or not.
    pub outcome: Outcome,
    /// Why the search went on as it did.
    pub note: String,
}

/// How far the steps of tuning went.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// Transactional I/O per second that the run is to reach.
    pub target_iops: Option<f64>,
    /// Most transactional I/O per second inside all thresholds; null if no step was.
    pub held_iops: Option<f64>,
    /// Least transactional I/O per second that broke a threshold; null if no step did.
    pub broken_iops: Option<f64>,
    /// What was held beyond the target, as a share of the target.
    pub beyond_target: Option<f64>,
}

/// Checksum of one database or of one instance's logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChecksumRow {
    /// Where.
    #[serde(flatten)]
    pub origin: Origin,
    /// What was read and found.
    #[serde(flatten)]
    pub read: PagesRead,
    /// Bytes read by bytes expected.
    #[serde(default)]
    pub read_share: Option<f64>,
    /// Time it took.
    pub elapsed_s: f64,
    /// Bytes by time.
    pub mib_per_s: Option<f64>,
}

/// Backup or restore of one database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackupRow {
    /// Database.
    #[serde(flatten)]
    pub origin: Origin,
    /// File written; null if it was only read.
    pub destination: Option<String>,
    /// Bytes read of the database.
    pub bytes: u64,
    /// Bytes of the file that was read, when the backup began; null if not recorded.
    #[serde(default)]
    pub bytes_expected: Option<u64>,
    /// Bytes read by bytes expected.
    #[serde(default)]
    pub read_share: Option<f64>,
    /// Time it took.
    pub elapsed_s: f64,
    /// Bytes by time.
    pub mib_per_s: Option<f64>,
}

/// Soft recovery of one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRow {
    /// Instance.
    #[serde(flatten)]
    pub origin: Origin,
    /// Log generations replayed.
    pub logs: u64,
    /// Time it took.
    pub elapsed_s: f64,
    /// Time by logs.
    pub s_per_log: Option<f64>,
    /// Database reads per log.
    pub reads_per_log: Option<f64>,
    /// Database writes per log.
    pub writes_per_log: Option<f64>,
    /// Log reads per log.
    pub log_reads_per_log: Option<f64>,
    /// What it did besides; null where it is not known.
    #[serde(default)]
    pub work: Option<RecoveryWork>,
}
