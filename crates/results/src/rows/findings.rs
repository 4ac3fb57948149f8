//! What tests find and how it is judged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Origin;

/// How a run or a verdict came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Within the limit.
    Pass,
    /// Beyond the limit.
    Fail,
    /// The rule could not be judged, because what it needs is missing. It proves nothing, and it blames nobody.
    Unproved,
    /// Not judged, only stated.
    Info,
}

impl Outcome {
    /// The one that counts most among several: a failure, then a rule that is not proved, then a pass.
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
    /// Test.
    pub test: u32,
    /// Place in the search, from 1.
    pub ordinal: u32,
    /// The load of the step, ready to print: `16 sessions`.
    pub load: String,
    /// Transactional I/O per second that it achieved.
    pub iops: f64,
    /// Mean database read latency.
    pub read_latency_ms: f64,
    /// Mean log write latency.
    pub log_write_latency_ms: f64,
    /// Inside all thresholds, or the rule that it broke.
    pub outcome: Outcome,
    /// Why the search went on as it did.
    pub note: String,
}

/// What reading a database or an instance's logs from end to end found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PagesRead {
    /// Log files seen; zero for a database.
    pub files: u64,
    /// Pages of a database, or sectors of logs, seen.
    pub pages: u64,
    /// Pages that were never written.
    pub uninitialised_pages: u64,
    /// Pages with a wrong checksum.
    pub bad_pages: u64,
    /// Pages whose error could be corrected.
    pub correctable_pages: u64,
    /// Pages that carry another page's number.
    pub wrong_number_pages: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the database file, or of all closed logs, when the check began; `None` where nobody recorded them.
    #[serde(default)]
    pub bytes_expected: Option<u64>,
}

impl PagesRead {
    /// Pages that are not as they were written.
    pub fn damaged(&self) -> u64 {
        self.bad_pages + self.correctable_pages + self.wrong_number_pages
    }

    /// Bytes read by bytes expected; `None` if it is not known what was there.
    pub fn share(&self) -> Option<f64> {
        read_share(self.bytes, self.bytes_expected)
    }
}

/// Bytes read by bytes expected.
fn read_share(bytes: u64, expected: Option<u64>) -> Option<f64> {
    expected.filter(|expected| *expected > 0).map(|expected| bytes as f64 / expected as f64)
}

/// A checksum of a database or of an instance's logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Checksum {
    /// Test.
    pub test: u32,
    /// A database, or an instance for its logs.
    pub origin: Origin,
    /// What it read and found.
    pub read: PagesRead,
    /// Time it took.
    pub elapsed_ms: u64,
}

/// A database that was backed up or restored.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    /// Test.
    pub test: u32,
    /// Database.
    pub origin: Origin,
    /// File that was written; `None` if the database was only read.
    pub destination: Option<String>,
    /// Bytes read of the database.
    pub bytes: u64,
    /// Bytes of the file that was read, when the backup began; `None` where nobody recorded them.
    pub bytes_expected: Option<u64>,
    /// Time it took.
    pub elapsed_ms: u64,
}

impl Backup {
    /// Bytes read by bytes expected; `None` if it is not known what was there.
    pub fn share(&self) -> Option<f64> {
        read_share(self.bytes, self.bytes_expected)
    }
}

/// An instance that replayed its log.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// Test.
    pub test: u32,
    /// Instance.
    pub origin: Origin,
    /// Log generations replayed.
    pub logs: u64,
    /// Time it took, opening included.
    pub elapsed_ms: u64,
    /// What it did; not known of imported reports and of files of earlier builds.
    pub work: Option<RecoveryWork>,
}

/// What a recovery did besides replaying logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryWork {
    /// Log segments with a flipped bit that was corrected.
    pub segments_corrected: u64,
    /// Log segments behind the end of the log that held something and were wiped.
    pub segments_given_up: u64,
    /// Those of them that no torn write explains.
    pub segments_unexplained: u64,
    /// Page changes made again.
    pub page_changes: u64,
    /// Pages that had failed their check and were repaired from the log.
    pub pages_repaired: u64,
    /// Open transactions that were undone.
    pub transactions_undone: u64,
    /// What it met: how often, by name.
    pub branches: BTreeMap<String, u64>,
}

/// What one part of modelled storage did while a test was measured. Counts that a part does not have are 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoragePart {
    /// Test.
    pub test: u32,
    /// What it is: `processor`, `link`, `controller`, `store`, `volume` or `drive` of modelled storage; `device`, a
    /// block device of a real host.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Length of the time that was measured.
    pub seconds: f64,
    /// Share of the time with work under way (drive, volume) or of its capacity in use (others), 0 to 1.
    pub busy_share: f64,
    /// Requests under way, on average over time; null where that is not measured.
    #[serde(default)]
    pub queue_mean: Option<f64>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Mean time of a read, of drives and volumes; null where that is not measured.
    #[serde(default)]
    pub read_latency_ms: Option<f64>,
    /// Mean time of a write, likewise; of a drive with its flushes.
    #[serde(default)]
    pub write_latency_ms: Option<f64>,
    /// Reads served from a cache in front of the drives.
    pub cache_hits: u64,
    /// Reads that were not.
    pub cache_misses: u64,
    /// Writes that waited for room in the cache.
    pub cache_waits: u64,
    /// Most bytes in the cache that were not yet on the drives.
    pub cache_dirty_bytes_max: u64,
    /// State in words at the end, if it is not the normal one.
    pub state: String,
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Test; `None` for the run as a whole, and in reports, which keep verdicts under their tests.
    #[serde(skip)]
    pub test: Option<u32>,
    /// What is judged.
    #[serde(flatten)]
    pub origin: Origin,
    /// Stable name of the rule, for example `read_latency_avg`.
    pub rule: String,
    /// The rule in words.
    pub text: String,
    /// What was measured; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// What the rule compares it with.
    pub limit: Option<f64>,
    /// On which side of the limit it must be.
    pub comparison: Comparison,
    /// Unit of both.
    pub unit: String,
    /// The judgement.
    pub outcome: Outcome,
}

impl Verdict {
    /// Whether a scheduled fault broke the limit, which is why it counts for information only.
    pub fn is_excused(&self) -> bool {
        let is_broken = self
            .measured
            .zip(self.limit)
            .is_some_and(|(measured, limit)| !self.comparison.holds(measured, limit));
        self.outcome == Outcome::Info && is_broken
    }
}

/// How a verdict compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Passes at or below the limit.
    AtMost,
    /// Passes below the limit.
    Below,
    /// Passes at or above the limit.
    AtLeast,
}

impl Comparison {
    /// Whether `measured` is on the right side of `limit`.
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
