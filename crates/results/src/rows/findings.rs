//! What tests find and how it is judged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Origin;

/// Outcome of a verdict or a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The measured value is within the limit.
    Pass,
    /// The measured value is beyond the limit.
    Fail,
    /// Not proved: what the rule needs is missing, so it says nothing for or against the storage.
    Unproved,
    /// Stated, not judged.
    Info,
}

impl Outcome {
    /// Worst outcome among several: a failure, then not proved, then a pass.
    pub fn worst(outcomes: impl IntoIterator<Item = Outcome>) -> Option<Outcome> {
        outcomes.into_iter().min_by_key(|outcome| match outcome {
            Outcome::Fail => 0,
            Outcome::Unproved => 1,
            Outcome::Pass => 2,
            Outcome::Info => 3,
        })
    }
}

/// One step of the search for the highest load.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningStep {
    /// Number of the test.
    pub test: u32,
    /// Place of the step in the search, from 1.
    pub ordinal: u32,
    /// The load of the step, ready to print: `16 sessions`.
    pub load: String,
    /// Achieved transactional I/O per second.
    pub iops: f64,
    /// Mean database read latency, ms.
    pub read_latency_ms: f64,
    /// Mean log write latency, ms.
    pub log_write_latency_ms: f64,
    /// Whether the step stayed inside all thresholds, or the rule that it broke.
    pub outcome: Outcome,
    /// Reason for the next step of the search.
    pub note: String,
}

/// Result of reading a database, or an instance's logs, from end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PagesRead {
    /// Number of log files read; zero for a database.
    pub files: u64,
    /// Number of database pages, or of log segments, read.
    pub pages: u64,
    /// Number of pages that were never written.
    pub uninitialised_pages: u64,
    /// Number of pages with a wrong checksum.
    pub bad_pages: u64,
    /// Number of pages whose error could be corrected.
    pub correctable_pages: u64,
    /// Number of pages that carry another page's number.
    pub wrong_number_pages: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the database file, or of all closed logs, when the check began; `None` if not recorded.
    #[serde(default)]
    pub bytes_expected: Option<u64>,
}

impl PagesRead {
    /// Number of damaged pages: all that differ from what was written.
    pub fn damaged(&self) -> u64 {
        self.bad_pages + self.correctable_pages + self.wrong_number_pages
    }

    /// Share of the expected bytes that was read; `None` if the expected number is not known.
    pub fn share(&self) -> Option<f64> {
        read_share(self.bytes, self.bytes_expected)
    }
}

/// Share of the expected bytes that was read.
fn read_share(bytes: u64, expected: Option<u64>) -> Option<f64> {
    expected.filter(|expected| *expected > 0).map(|expected| bytes as f64 / expected as f64)
}

/// Result of a checksum test for a database or an instance's logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Checksum {
    /// Number of the test.
    pub test: u32,
    /// Database, or instance for its logs.
    pub origin: Origin,
    /// Numbers of what was read and found.
    pub read: PagesRead,
    /// Time that the checksum took, ms.
    pub elapsed_ms: u64,
}

/// Result of a backup or restore of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    /// Number of the test.
    pub test: u32,
    /// Database that was backed up or restored.
    pub origin: Origin,
    /// File that was written; `None` if the database was only read.
    pub destination: Option<String>,
    /// Bytes read of the database file.
    pub bytes: u64,
    /// Bytes of the file when the backup began; `None` if not recorded.
    pub bytes_expected: Option<u64>,
    /// Time that the backup took, ms.
    pub elapsed_ms: u64,
}

impl Backup {
    /// Share of the expected bytes that was read; `None` if the expected number is not known.
    pub fn share(&self) -> Option<f64> {
        read_share(self.bytes, self.bytes_expected)
    }
}

/// Result of a soft recovery of an instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// Number of the test.
    pub test: u32,
    /// Instance that replayed its log.
    pub origin: Origin,
    /// Number of log generations replayed.
    pub logs: u64,
    /// Time that the recovery took, opening included, ms.
    pub elapsed_ms: u64,
    /// Counts of the recovery's work; `None` for imported reports and files of earlier builds.
    pub work: Option<RecoveryWork>,
}

/// Counts of a recovery's work besides the replayed logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryWork {
    /// Number of log segments whose flipped bit was corrected.
    pub segments_corrected: u64,
    /// Number of log segments behind the end of the log that held something and were wiped.
    pub segments_given_up: u64,
    /// Number of these segments that no torn write explains.
    pub segments_unexplained: u64,
    /// Number of page changes that were applied again.
    pub page_changes: u64,
    /// Number of pages that failed their check and were repaired from the log.
    pub pages_repaired: u64,
    /// Number of open transactions that were rolled back.
    pub transactions_undone: u64,
    /// Number of times that each named branch of recovery was taken.
    pub branches: BTreeMap<String, u64>,
}

/// Figures of one part of the storage during a measured test. Counts that a part does not have are 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoragePart {
    /// Number of the test.
    pub test: u32,
    /// Kind of the part: `processor`, `link`, `controller`, `store`, `volume` or `drive` of modelled storage;
    /// `device`, a block device of a real host.
    pub kind: String,
    /// Name of the part.
    pub name: String,
    /// Length of the measurement, s.
    pub seconds: f64,
    /// Share of the time with work under way (drive, volume) or of its capacity in use (others), 0 to 1.
    pub busy_share: f64,
    /// Mean number of requests under way; null where that is not measured.
    #[serde(default)]
    pub queue_mean: Option<f64>,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Mean time of a read, of drives and volumes; null where that is not measured.
    #[serde(default)]
    pub read_latency_ms: Option<f64>,
    /// Mean time of a write, of drives and volumes; of a drive with its flushes; null where that is not measured.
    #[serde(default)]
    pub write_latency_ms: Option<f64>,
    /// Number of reads that a cache in front of the drives served.
    pub cache_hits: u64,
    /// Number of reads that missed the cache in front of the drives.
    pub cache_misses: u64,
    /// Number of writes that waited for room in the write cache.
    pub cache_waits: u64,
    /// Largest number of bytes in the write cache that were not on the drives yet.
    pub cache_dirty_bytes_max: u64,
    /// State at the end in words; empty if it is the normal one.
    pub state: String,
}

/// Judgement of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Number of the test; `None` for the run as a whole, and in reports, which keep verdicts under their tests.
    #[serde(skip)]
    pub test: Option<u32>,
    /// Host, instance or database that is judged.
    #[serde(flatten)]
    pub origin: Origin,
    /// Stable name of the rule, for example `read_latency_avg`.
    pub rule: String,
    /// The rule in words.
    pub text: String,
    /// Measured value; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// Limit with which the rule compares the value.
    pub limit: Option<f64>,
    /// How value and limit are compared.
    pub comparison: Comparison,
    /// Unit of value and limit.
    pub unit: String,
    /// Outcome of the judgement.
    pub outcome: Outcome,
}

impl Verdict {
    /// Whether a scheduled fault broke the limit, so that the verdict is for information only.
    pub fn is_excused(&self) -> bool {
        let is_broken = self
            .measured
            .zip(self.limit)
            .is_some_and(|(measured, limit)| !self.comparison.holds(measured, limit));
        self.outcome == Outcome::Info && is_broken
    }
}

/// Comparison of a measured value with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The value passes at or below the limit.
    AtMost,
    /// The value passes below the limit.
    Below,
    /// The value passes at or above the limit.
    AtLeast,
}

impl Comparison {
    /// Whether `measured` is on the passing side of `limit`.
    pub fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Comparison::AtMost => measured <= limit,
            Comparison::Below => measured < limit,
            Comparison::AtLeast => measured >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_more_than_an_unproved_rule_and_that_more_than_a_pass() {
        use Outcome::*;
        assert_eq!(Outcome::worst([Info, Pass, Unproved, Fail]), Some(Fail));
        assert_eq!(Outcome::worst([Pass, Unproved, Info]), Some(Unproved));
        assert_eq!(Outcome::worst([Info, Pass]), Some(Pass));
        assert_eq!(Outcome::worst([]), None);
    }

    #[test]
    fn the_limit_itself_passes_except_below() {
        assert!(Comparison::AtMost.holds(20.0, 20.0) && Comparison::AtLeast.holds(20.0, 20.0));
        assert!(!Comparison::Below.holds(20.0, 20.0) && Comparison::Below.holds(19.9, 20.0));
        assert!(!Comparison::AtMost.holds(20.1, 20.0) && !Comparison::AtLeast.holds(19.9, 20.0));
    }
}
