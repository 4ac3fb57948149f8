//! What a report says. `report.json` is this, `report.html` and `junit.xml` are made from nothing else.
//!
//! Units are in the names; times are seconds since the run started unless the name says otherwise. A figure that could
//! not be measured is null, never zero. Rates are counts divided by the length of the measured window.

mod cause;
mod charts;
mod found;
mod load;

use results::{
    Ending, Environment, Grade, Host, Origin, Outcome, Parameter, Rule, Severity, StoragePart, Verdict,
    WorldKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Broken;

pub use cause::*;
pub use charts::*;
pub use found::*;
pub use load::*;

/// The report of a run: `report.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `proofload-report`.
    pub format: String,
    /// Version of the format; grows when the meaning of a field changes, not when a field is added.
    pub version: u32,
    /// Version of the program that made the report; empty in reports of programs that do not say it.
    #[serde(default)]
    pub program: String,
    /// The run: when, with which program, on which world, how it ended.
    pub run: RunSummary,
    /// The judgement of the whole run.
    pub verdict: Overall,
    /// Hosts that took part.
    pub hosts: Vec<Host>,
    /// Instances and how they were set up.
    pub instances: Vec<InstanceSetup>,
    /// Databases and how they were set up.
    pub databases: Vec<DatabaseSetup>,
    /// Tests in their order.
    pub tests: Vec<TestReport>,
    /// Verdicts that belong to no test.
    pub run_verdicts: Vec<Verdict>,
    /// What was looked at on the hosts, and whether it casts doubt on the results.
    pub checks: Vec<CheckRow>,
    /// Environment rows of the hosts: system, volumes, disks.
    pub environment: Vec<Environment>,
    /// Events of the run, by time.
    pub events: Vec<EventRow>,
}

impl Report {
    /// The verdicts of the tests, then those of the run.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.tests.iter().flat_map(|test| &test.verdicts).chain(&self.run_verdicts)
    }
}

/// The run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Unique name.
    pub id: String,
    /// Name of the solution.
    pub solution: String,
    /// The solution file as it was read.
    pub solution_text: String,
    /// Start, UTC, ISO 8601.
    pub started: String,
    /// Length of the run in seconds; of a killed run, up to its last row.
    pub duration_s: f64,
    /// Version of the tool that made the run.
    pub tool_version: String,
    /// Real or simulated.
    pub world: WorldKind,
    /// How the world does its I/O: driver and mode, such as `io_uring, direct`.
    pub world_detail: String,
    /// Where all randomness of the run comes from; text, because JSON readers round numbers beyond 2^53.
    pub seed: String,
    /// How it ended; null if it was killed or still runs.
    pub ending: Option<Ending>,
    /// Digest of the last seal of the `run.db`; null if it has none.
    #[serde(default)]
    pub seal: Option<String>,
    /// What in the `run.db` contradicts its seals. Left out if nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seals_broken: Vec<Broken>,
}

/// How a run as a whole came out, for readers that do not know grades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Grade `qualified` or `held`.
    Pass,
    /// Grade `failed`.
    Fail,
    /// Grade `incomplete`.
    Incomplete,
}

impl From<Grade> for RunOutcome {
    fn from(grade: Grade) -> RunOutcome {
        match grade {
            Grade::Qualified | Grade::Held => RunOutcome::Pass,
            Grade::Failed => RunOutcome::Fail,
            Grade::Incomplete => RunOutcome::Incomplete,
        }
    }
}

/// The judgement of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overall {
    /// What the run proves.
    pub grade: Grade,
    /// The grade for readers that do not know grades: `pass` says only that nothing failed.
    pub outcome: RunOutcome,
    /// The judgement in one sentence.
    pub headline: String,
    /// The reasons, one sentence each; of a run that held its limits, what is missing for a qualification.
    pub reasons: Vec<String>,
    /// The causes of the tests, one paragraph each.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Faults that the tests of the run cannot have seen, one sentence each.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// The conditions of a qualification that apply to the run.
    pub conditions: Vec<ConditionRow>,
    /// Verdicts that passed.
    pub passed: u32,
    /// Verdicts that failed.
    pub failed: u32,
}

impl Overall {
    /// A judgement with nothing in it, until the report is judged.
    pub(crate) fn none() -> Overall {
        Overall {
            grade: Grade::Incomplete,
            outcome: Grade::Incomplete.into(),
            headline: String::new(),
            reasons: Vec::new(),
            causes: Vec::new(),
            unseen: Vec::new(),
            conditions: Vec::new(),
            passed: 0,
            failed: 0,
        }
    }
}

/// A condition of a qualification and whether the run meets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionRow {
    /// Stable name.
    pub name: String,
    /// What the figure is, in words.
    pub text: String,
    /// Unit of the figure.
    pub unit: String,
    /// The figure; null if it is not known, which meets no condition.
    pub measured: Option<f64>,
    /// Lowest figure that meets the condition.
    pub least: Option<f64>,
    /// Highest figure that meets the condition.
    pub most: Option<f64>,
    /// Lowest figure that the published programme allows.
    pub published_least: Option<f64>,
    /// Highest figure that the published programme allows.
    pub published_most: Option<f64>,
    /// Whether the condition is met.
    pub met: bool,
    /// Whether the solution file allows more than the published programme.
    pub weaker: bool,
    /// Measured figure and required range in words.
    pub note: String,
    /// Source of the range.
    pub source: String,
    /// What to do when it is not met.
    pub remedy: String,
}

impl ConditionRow {
    /// The range of the condition in the form of a recorded rule.
    pub fn rule(&self) -> Rule {
        Rule {
            name: self.name.clone(),
            unit: self.unit.clone(),
            least: self.least,
            most: self.most,
            published_least: self.published_least,
            published_most: self.published_most,
        }
    }
}

/// The setup of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceSetup {
    /// Host and instance.
    #[serde(flatten)]
    pub origin: Origin,
    /// Folder of its log.
    pub log_path: String,
    /// Size of one log generation.
    pub log_file_bytes: u64,
    /// Smallest page cache, in bytes.
    pub cache_min_bytes: u64,
    /// Largest page cache, in bytes.
    pub cache_max_bytes: u64,
}

/// The setup of a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseSetup {
    /// Host, instance and database.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its file.
    pub path: String,
    /// Size of its pages.
    pub page_bytes: u32,
    /// File size in bytes when it was first measured.
    pub bytes_before: Option<u64>,
    /// File size in bytes when it was last measured.
    pub bytes_after: Option<u64>,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Place in the campaign, from 1.
    pub ordinal: u32,
    /// Kind, by the name it has in the solution file.
    pub kind: String,
    /// Title.
    pub name: String,
    /// The worst of its verdicts; null if it was not judged.
    pub outcome: Option<Outcome>,
    /// Whether it ended by itself, not interrupted or killed.
    pub ended: bool,
    /// What the test did and found, in a sentence or two.
    pub lead: String,
    /// Start, seconds since the run began.
    pub started_s: f64,
    /// Length in seconds, warm-up included.
    pub duration_s: f64,
    /// The measured window; null if nothing was measured.
    pub window: Option<Window>,
    /// Planned figures beside the achieved ones.
    pub planned: Vec<PlannedRow>,
    /// Every setting of the test, by name.
    pub parameters: Vec<Parameter>,
    /// Verdicts of the test.
    pub verdicts: Vec<Verdict>,
    /// Why it failed, the likeliest cause first; empty if it did not.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Throughput of the mailbox load; null for tests without one.
    pub throughput: Option<Throughput>,
    /// All classes of I/O and batches, all hosts together.
    pub measures: Vec<MeasureRow>,
    /// The same by host; empty if there is one host.
    pub hosts: Vec<HostRow>,
    /// I/O of each instance.
    pub instances: Vec<InstanceIo>,
    /// I/O of each database.
    pub databases: Vec<InstanceIo>,
    /// I/O per batch beside that of the published tests.
    pub load_shape: Vec<ShapeRow>,
    /// Hours of the day that the load followed; empty for a load that stayed at its peak.
    #[serde(default)]
    pub hours: Vec<HourRow>,
    /// Whether the load was steady over the window.
    pub steadiness: Option<Steadiness>,
    /// Page reads that waited for a free buffer of the cache.
    pub page_fault_stalls: Option<StallRow>,
    /// Whether the load generator was the limit.
    pub generator: Option<Generator>,
    /// Processors and memory of each host.
    pub host_system: Vec<HostSystemRow>,
    /// I/O by volume; empty for a restore, whose files lie on two volumes at once.
    pub volumes: Vec<VolumeIo>,
    /// Largest sum of the page caches of all instances during the window, in bytes.
    pub cache_bytes_max: Option<u64>,
    /// Line charts.
    pub charts: Vec<Chart>,
    /// Distribution of the read latency over time.
    pub latency_map: Option<LatencyMap>,
    /// Mean read latency of each instance over time.
    pub instance_map: Option<InstanceMap>,
    /// Database sizes before and after.
    pub sizes: Vec<SizeRow>,
    /// Steps of tuning.
    pub tuning: Vec<TuningRow>,
    /// How far the steps of tuning went beyond the target.
    pub headroom: Option<Headroom>,
    /// Results of checking page and log checksums.
    pub checksums: Vec<ChecksumRow>,
    /// Results of backups and restores.
    pub backups: Vec<BackupRow>,
    /// Results of soft recoveries.
    pub recoveries: Vec<RecoveryRow>,
    /// Busy time and requests of each part of modelled storage; empty for real storage.
    #[serde(default)]
    pub storage_parts: Vec<StoragePart>,
}

/// Name of the row of [`TestReport::planned`] with the target I/O of a load.
pub const PLANNED_IO: &str = "Transactional I/O";
/// Name of the row of [`TestReport::planned`] with the target I/O of the peak hour, for a load that follows a day.
pub const PLANNED_PEAK: &str = "Transactional I/O in the peak hour";

impl TestReport {
    /// Whether it is a load test that a qualification is about.
    pub fn is_load(&self) -> bool {
        results::grade::is_load(&self.kind) && self.throughput.is_some()
    }

    /// Transactional I/O per second that all hosts together were to reach, in the mean of the window; `None` without a
    /// target.
    pub fn target_iops(&self) -> Option<f64> {
        self.planned_figure(PLANNED_IO)
    }

    /// The same in the peak hour, if the load followed a day.
    pub fn peak_target_iops(&self) -> Option<f64> {
        self.planned_figure(PLANNED_PEAK).or_else(|| self.target_iops())
    }

    fn planned_figure(&self, name: &str) -> Option<f64> {
        let row = self.planned.iter().find(|row| row.name == name)?;
        row.planned.filter(|target| *target > 0.0)
    }

    /// The figure of I/O per batch that this condition of a qualification is about.
    pub fn shape(&self, condition: &str) -> Option<&ShapeRow> {
        let text = results::grade::condition(condition)?.text;
        self.load_shape.iter().find(|row| row.name.eq_ignore_ascii_case(text))
    }
}

/// The measured window of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start, after the warm-up, seconds since the run began.
    pub start_s: f64,
    /// Length in seconds.
    pub duration_s: f64,
    /// Planned length in seconds.
    pub planned_s: Option<f64>,
    /// Length in seconds of the samples that latency maxima are judged by.
    pub sample_s: f64,
    /// Whole samples in the window.
    pub samples: u32,
    /// Whether the run ended before the window did, so that it is shorter than planned.
    pub cut: bool,
}

/// A planned figure and the achieved one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedRow {
    /// What the figure is.
    pub name: String,
    /// As planned.
    pub planned: Option<f64>,
    /// As achieved.
    pub achieved: Option<f64>,
    /// Unit of both.
    pub unit: String,
}

/// Result of looking at one thing on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Nothing there casts doubt on the results.
    Good,
    /// It could not be read.
    Unknown,
    /// The results may mean less than they seem to.
    Warning,
    /// The results mean nothing, or something broke.
    Error,
}

/// A thing on a host that was looked at before or after the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRow {
    /// Host.
    pub host: String,
    /// What was looked at.
    pub name: String,
    /// Whether it casts doubt on the results.
    pub outcome: CheckOutcome,
    /// The value that was found.
    pub found: String,
    /// Why it matters; empty when nothing casts doubt.
    pub note: String,
}

/// An event of the run: a fault, a message, an interruption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// Seconds since the run began.
    pub t_s: f64,
    /// Information, warning or error.
    pub severity: Severity,
    /// Ordinal of the test it occurred in; null outside of tests.
    pub test: Option<u32>,
    /// Host that it concerns; null if it concerns the run.
    pub host: String,
    /// The event in words.
    pub text: String,
}
