//! The rows of a run: what `run.db` holds, one type per table.
//!
//! Invariants
//! 1. There is one clock: every `*_ms` time is milliseconds since the run started, on the clock of the run's world.
//! 2. A row says which host it comes from. The world is a property of the run ([`Run::world`]).
//! 3. An interval covers `t_ms..t_ms + interval_ms`; an operation belongs to the interval in which it completed.
//!    Intervals without an operation need no sample; readers take what is missing as zero.
//! 4. Rows with the same identity (run; test ordinal; origin and test) replace each other, so a row may be recorded
//!    when something starts and again, completed, when it ends. Samples and histograms are never repeated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{IoClass, IoStats, Tally};

/// Which kind of world a run was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorldKind {
    /// Real storage: something was proved.
    Real,
    /// A model of storage in virtual time: something was predicted.
    Simulated,
}

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

/// How a run ended. The verdicts say whether the storage passed; this says whether the programme was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every test was carried out.
    Completed,
    /// Someone stopped it.
    Interrupted,
    /// It could not go on; an event says why.
    Aborted,
}

/// How much attention something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// The results may mean less than they seem to.
    Warning,
    /// The results mean nothing, or something broke.
    Error,
}

/// The run itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unique name of the run.
    pub id: String,
    /// Name of the solution.
    pub solution: String,
    /// The solution file as it was read.
    pub solution_text: String,
    /// Start by the wall clock, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Version of the tool that made the run.
    pub tool_version: String,
    /// Real or simulated.
    pub world: WorldKind,
    /// How the world does its I/O, for example `io_uring, direct`.
    pub world_detail: String,
    /// Where all randomness of the run comes from.
    pub seed: u64,
    /// End; `None` while it runs, and for good if it was killed.
    pub ended_ms: Option<u64>,
    /// How it ended.
    pub ending: Option<Ending>,
}

/// A host that took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Name.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
}

/// Something known about a host before or after the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host.
    pub host: String,
    /// Where it belongs, for example `Kernel` or `Volume data1`.
    pub area: String,
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it casts doubt on the results.
    pub severity: Severity,
    /// Why it does; empty when it does not.
    pub note: String,
}

/// Where a measurement comes from: a host, an instance of it, a database of that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// Host.
    pub host: String,
    /// Instance; `None` for the whole host.
    pub instance: Option<String>,
    /// Database; `None` for the whole instance, as for its log.
    pub database: Option<String>,
}

impl Origin {
    /// A whole host.
    pub fn host(host: &str) -> Origin {
        Origin { host: host.to_owned(), instance: None, database: None }
    }

    /// A whole instance, as for its log.
    pub fn instance(host: &str, instance: &str) -> Origin {
        Origin { instance: Some(instance.to_owned()), ..Origin::host(host) }
    }

    /// One database.
    pub fn database(host: &str, instance: &str, database: &str) -> Origin {
        Origin { database: Some(database.to_owned()), ..Origin::instance(host, instance) }
    }
}

/// A log stream as it was set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Host.
    pub host: String,
    /// Name.
    pub name: String,
    /// Folder of its log.
    pub log_path: String,
    /// Size of one log generation.
    pub log_file_bytes: u64,
    /// Smallest page cache.
    pub cache_min_bytes: u64,
    /// Largest page cache.
    pub cache_max_bytes: u64,
}

/// A database as it was set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Where it belongs; names the instance and the database.
    pub origin: Origin,
    /// Its file.
    pub path: String,
    /// Size of its pages.
    pub page_bytes: u32,
}

/// A folder on the storage under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Host.
    pub host: String,
    /// Name, as in the solution file.
    pub name: String,
    /// Its folder: files below it are on this volume.
    pub path: String,
}

/// Size of a database file before and after a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseSize {
    /// Test.
    pub test: u32,
    /// Names the instance and the database.
    pub origin: Origin,
    /// File size when the test started.
    pub bytes_before: u64,
    /// File size when it ended.
    pub bytes_after: Option<u64>,
}

/// One name and value of a test's settings, ready to print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// What it is.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
}

/// A limit that a test will be judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Stable name of the rule, as in its verdicts.
    pub rule: String,
    /// The limit.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The limit that the published programme has; `None` where it has none, and in files of earlier builds.
    #[serde(default)]
    pub published: Option<f64>,
}

/// One test of the programme.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Place in the programme, from 1.
    pub ordinal: u32,
    /// Kind, by the name it has in the solution file.
    pub kind: String,
    /// Title, unique in the run: `Performance`, `Checksum after stress`.
    pub name: String,
    /// Start.
    pub started_ms: u64,
    /// End; `None` while it runs, and for good if the run was killed.
    pub ended_ms: Option<u64>,
    /// Start of the measured window, after the warm-up.
    pub window_start_ms: Option<u64>,
    /// End of the measured window.
    pub window_end_ms: Option<u64>,
    /// Length that the measured window was to have.
    pub window_planned_ms: Option<u64>,
    /// Length of the samples that maxima are judged by. Samples start with the window.
    pub sample_ms: u64,
    /// Sessions of a closed load.
    pub sessions: Option<u32>,
    /// Transactional I/O per second to be reached, all databases of all hosts together.
    pub target_iops: Option<f64>,
    /// Batches per second that a paced load was to hold.
    pub target_batches_per_s: Option<f64>,
    /// Transactional I/O per second of one mailbox, headroom included, as the planned profile has it.
    pub iops_per_mailbox: Option<f64>,
    /// Copies whose log reading is imitated, the active one included.
    pub copies: u32,
    /// Everything else that was set.
    pub parameters: Vec<Parameter>,
    /// Limits that the latencies will be judged by, by the names of their rules.
    pub limits: Vec<Limit>,
}

/// What a sample or histogram counts: an I/O class, or whole batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Measure {
    /// I/O of one class.
    Io(IoClass),
    /// Batches, latency from their actual start; `bytes` is zero.
    Batch,
    /// Batches, latency from the start that a paced load intended; `bytes` is zero.
    BatchIntended,
}

impl Measure {
    /// Stable name, as stored in `run.db` and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Io(class) => class.name(),
            Measure::Batch => "batch",
            Measure::BatchIntended => "batch_intended",
        }
    }

    /// The measure with this stable name.
    pub fn from_name(name: &str) -> Option<Measure> {
        match name {
            "batch" => Some(Measure::Batch),
            "batch_intended" => Some(Measure::BatchIntended),
            _ => IoClass::from_name(name).map(Measure::Io),
        }
    }
}

impl From<IoClass> for Measure {
    fn from(class: IoClass) -> Measure {
        Measure::Io(class)
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> String {
        measure.name().to_owned()
    }
}

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Measure, String> {
        Measure::from_name(&name).ok_or_else(|| format!("`{name}` is not a measure"))
    }
}

/// Counts of one interval: 1 s for a host, [`Test::sample_ms`] for instances and databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Test.
    pub test: u32,
    /// Where it was counted.
    pub origin: Origin,
    /// What was counted.
    pub measure: Measure,
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// The counts.
    pub tally: Tally,
}

impl Sample {
    /// A tally as a row.
    pub fn new(
        test: u32,
        origin: Origin,
        measure: impl Into<Measure>,
        t_ms: u64,
        interval_ms: u64,
        tally: Tally,
    ) -> Sample {
        Sample { test, origin, measure: measure.into(), t_ms, interval_ms, tally }
    }
}

/// Latency distribution of one interval.
///
/// Record host-level histograms about sixty times per window but not more often than each second (they make the heat
/// map, and what a killed run has), and one per instance and database for the whole window. Readers merge what lies in
/// the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Test.
    pub test: u32,
    /// Where it was measured.
    pub origin: Origin,
    /// What was measured.
    pub measure: Measure,
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// Longest latency, exact.
    pub latency_ns_max: u64,
    /// Latencies in microseconds as an HDR histogram, V2 encoding.
    pub hdr_v2: Vec<u8>,
}

impl Histogram {
    /// The distribution of `stats` as a row; `None` if nothing was counted.
    pub fn new(
        test: u32,
        origin: Origin,
        measure: impl Into<Measure>,
        t_ms: u64,
        interval_ms: u64,
        stats: &IoStats,
    ) -> Option<Histogram> {
        let hdr_v2 = stats.hdr_v2()?;
        let latency_ns_max = stats.tally.latency_ns_max;
        Some(Histogram { test, origin, measure: measure.into(), t_ms, interval_ms, latency_ns_max, hdr_v2 })
    }
}

/// A counter or level that is not an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Waits of a page read for a free buffer during the interval.
    PageFaultStalls,
    /// Size of the page cache at the end of the interval.
    CacheBytes,
    /// Log generations closed during the interval.
    LogGenerations,
    /// Bytes of pages that a database took into use during the interval.
    GrowthBytes,
    /// Processor time that the load generator used during the interval, all its threads, in ns.
    CpuBusyNs,
    /// Processor time that it could have used: processors it may run on x interval, in ns.
    CpuAvailableNs,
    /// Processor time of its busiest thread during the interval, in ns: a thread that is always busy is a limit even on a
    /// host with processors to spare.
    CpuBusiestThreadNs,
    /// Processor time that everything on the host used during the interval, in ns.
    HostCpuBusyNs,
    /// Processor time that the host had: processors x interval, in ns.
    HostCpuAvailableNs,
    /// Memory that the host could have given to programs at the end of the interval.
    HostMemoryAvailableBytes,
}

impl Counter {
    /// All counters.
    pub const ALL: [Counter; 10] = [
        Counter::PageFaultStalls,
        Counter::CacheBytes,
        Counter::LogGenerations,
        Counter::GrowthBytes,
        Counter::CpuBusyNs,
        Counter::CpuAvailableNs,
        Counter::CpuBusiestThreadNs,
        Counter::HostCpuBusyNs,
        Counter::HostCpuAvailableNs,
        Counter::HostMemoryAvailableBytes,
    ];

    /// Stable name, as stored in `run.db` and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Counter::PageFaultStalls => "page_fault_stalls",
            Counter::CacheBytes => "cache_bytes",
            Counter::LogGenerations => "log_generations",
            Counter::GrowthBytes => "growth_bytes",
            Counter::CpuBusyNs => "cpu_busy_ns",
            Counter::CpuAvailableNs => "cpu_available_ns",
            Counter::CpuBusiestThreadNs => "cpu_busiest_thread_ns",
            Counter::HostCpuBusyNs => "host_cpu_busy_ns",
            Counter::HostCpuAvailableNs => "host_cpu_available_ns",
            Counter::HostMemoryAvailableBytes => "host_memory_available_bytes",
        }
    }

    /// Whether its value is a level at the end of the interval, not an increase during it.
    pub fn is_level(self) -> bool {
        matches!(self, Counter::CacheBytes | Counter::HostMemoryAvailableBytes)
    }

    /// The counter with this stable name.
    pub fn from_name(name: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|counter| counter.name() == name)
    }
}

/// A counter over one interval; the intervals are those of [`Sample`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterSample {
    /// Test.
    pub test: u32,
    /// Where it was counted.
    pub origin: Origin,
    /// What was counted.
    pub counter: Counter,
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// Increase during the interval, or level at its end, as the counter says.
    pub value: u64,
}

/// One step of the search for the highest load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// What a checksum of a database or of an instance's logs found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    /// Test.
    pub test: u32,
    /// A database, or an instance for its logs.
    pub origin: Origin,
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
    pub bytes_expected: Option<u64>,
    /// Time it took.
    pub elapsed_ms: u64,
}

/// A database that was backed up or restored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// An instance that replayed its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Test.
    pub test: u32,
    /// Instance.
    pub origin: Origin,
    /// Log generations replayed.
    pub logs: u64,
    /// Time it took, opening included.
    pub elapsed_ms: u64,
}

/// What one part of modelled storage did while a test was measured. Counts that a part does not have are 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoragePart {
    /// Test.
    pub test: u32,
    /// What it is: `processor`, `link`, `controller`, `store`, `volume` or `drive`.
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

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub t_ms: u64,
    /// How much attention it needs.
    pub severity: Severity,
    /// Test, if it belongs to one.
    pub test: Option<u32>,
    /// Host.
    pub host: String,
    /// What happened.
    pub text: String,
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Test; `None` for the run as a whole.
    pub test: Option<u32>,
    /// What is judged.
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
    fn every_measure_and_counter_is_found_by_its_stable_name() {
        let measures =
            IoClass::ALL.map(Measure::Io).into_iter().chain([Measure::Batch, Measure::BatchIntended]);
        for measure in measures {
            assert_eq!(Measure::from_name(measure.name()), Some(measure));
        }
        for counter in Counter::ALL {
            assert_eq!(Counter::from_name(counter.name()), Some(counter));
        }
        assert_eq!(Measure::try_from("reads".to_owned()), Err("`reads` is not a measure".to_owned()));
    }

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
