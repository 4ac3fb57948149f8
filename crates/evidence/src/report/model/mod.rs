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

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `proofload-report`.
    pub format: String,
    /// Version of the format; grows when the meaning of a field changes, not when a field is added.
    pub version: u32,
    /// Version of the program that made the report; empty in reports of programs that do not say it.
    #[serde(default)]
    pub program: String,
    /// The run.
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
    /// Judgements that belong to no test.
    pub run_verdicts: Vec<Verdict>,
    /// What was looked at on the hosts, and whether it casts doubt on the results.
    pub checks: Vec<CheckRow>,
    /// What is known about the hosts.
    pub environment: Vec<Environment>,
    /// What happened, by time.
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
    /// Length of the run; of what is known of it if it was killed.
    pub duration_s: f64,
    /// Version of the tool that made the run.
    pub tool_version: String,
    /// Real or simulated.
    pub world: WorldKind,
    /// How the world does its I/O.
    pub world_detail: String,
    /// Where all randomness of the run comes from; text, because JSON readers round numbers beyond 2^53.
    pub seed: String,
    /// How it ended; null if it was killed or still runs.
    pub ending: Option<Ending>,
    /// Digest of the last seal of the run.db that this was made from; null if it has none.
    #[serde(default)]
    pub seal: Option<String>,
    /// What the seals of the run.db say otherwise than its rows. Not written if nothing does.
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
    /// The same for readers that do not know grades: `pass` says only that nothing failed.
    pub outcome: RunOutcome,
    /// In one sentence.
    pub headline: String,
    /// Why, one sentence each; of a run that held its limits, what is missing for a qualification.
    pub reasons: Vec<String>,
    /// The causes of the tests, one paragraph each.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What the tests of the run cannot have seen, one sentence each.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// The conditions of a qualification that apply to the run.
    pub conditions: Vec<ConditionRow>,
    /// Judgements that passed.
    pub passed: u32,
    /// Judgements that failed.
    pub failed: u32,
}

impl Overall {
    /// No judgement yet.
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

/// A condition of a qualification and what the run says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionRow {
    /// Stable name.
    pub name: String,
    /// What the figure is.
    pub text: String,
    /// Unit of the figure.
    pub unit: String,
    /// The figure; null if it is not known, which meets no condition.
    pub measured: Option<f64>,
    /// The least that passes.
    pub least: Option<f64>,
    /// The most that passes.
    pub most: Option<f64>,
    /// The least that the published programme asks for.
    pub published_least: Option<f64>,
    /// The most that the published programme allows.
    pub published_most: Option<f64>,
    /// Whether the condition is met.
    pub met: bool,
    /// Whether the solution lets more pass than the published programme.
    pub weaker: bool,
    /// The figure beside what is asked for, in words.
    pub note: String,
    /// Where the range comes from.
    pub source: String,
    /// What to do when it is not met.
    pub remedy: String,
}

impl ConditionRow {
    /// The range of the condition as a rule.
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

/// An instance as it was set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceSetup {
    /// Host and instance.
    #[serde(flatten)]
    pub origin: Origin,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseSetup {
    /// Host, instance and database.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its file.
    pub path: String,
    /// Size of its pages.
    pub page_bytes: u32,
    /// File size when it was first measured.
    pub bytes_before: Option<u64>,
    /// File size when it was last measured.
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
    /// The worst of its judgements; null if it was not judged.
    pub outcome: Option<Outcome>,
    /// Whether it ended by itself.
    pub ended: bool,
    /// What it did and found, in a sentence or two.
    pub lead: String,
    /// Start.
    pub started_s: f64,
    /// Length, warm-up included.
    pub duration_s: f64,
    /// The measured window; null if nothing was measured.
    pub window: Option<Window>,
    /// What was planned beside what was achieved.
    pub planned: Vec<PlannedRow>,
    /// Everything that was set.
    pub parameters: Vec<Parameter>,
    /// Judgements.
    pub verdicts: Vec<Verdict>,
    /// Why it failed, the likeliest cause first; empty if it did not.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Throughput of the mailbox load; null for tests without one.
    pub throughput: Option<Throughput>,
    /// Everything counted, all hosts together, by measure.
    pub measures: Vec<MeasureRow>,
    /// The same by host; empty for one host.
    pub hosts: Vec<HostRow>,
    /// Counted by instance.
    pub instances: Vec<InstanceIo>,
    /// Counted by database.
    pub databases: Vec<InstanceIo>,
    /// I/O per batch beside that of the published tests.
    pub load_shape: Vec<ShapeRow>,
    /// Whether the load was steady over the window.
    pub steadiness: Option<Steadiness>,
    /// Waits for a free buffer.
    pub page_fault_stalls: Option<StallRow>,
    /// Whether the load generator was the limit.
    pub generator: Option<Generator>,
    /// Processors and memory of each host.
    pub host_system: Vec<HostSystemRow>,
    /// I/O by volume; empty for a restore, whose files lie on two volumes at once.
    pub volumes: Vec<VolumeIo>,
    /// Largest page cache of all instances together during the window.
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
    /// Checksum statistics.
    pub checksums: Vec<ChecksumRow>,
    /// Backup and restore statistics.
    pub backups: Vec<BackupRow>,
    /// Recovery statistics.
    pub recoveries: Vec<RecoveryRow>,
    /// What each part of modelled storage did; empty for real storage.
    #[serde(default)]
    pub storage_parts: Vec<StoragePart>,
}

/// Row of [`TestReport::planned`] with the target of a load.
pub const PLANNED_IO: &str = "Transactional I/O";

impl TestReport {
    /// Whether a qualification is about the load of this test.
    pub fn is_load(&self) -> bool {
        results::grade::is_load(&self.kind) && self.throughput.is_some()
    }

    /// Transactional I/O per second that all hosts together were to reach; `None` without a target.
    pub fn target_iops(&self) -> Option<f64> {
        let row = self.planned.iter().find(|row| row.name == PLANNED_IO)?;
        row.planned.filter(|target| *target > 0.0)
    }

    /// The figure of the load's shape that this condition of a qualification is about.
    pub fn shape(&self, condition: &str) -> Option<&ShapeRow> {
        let text = results::grade::condition(condition)?.text;
        self.load_shape.iter().find(|row| row.name.eq_ignore_ascii_case(text))
    }
}

/// The measured window of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start, after the warm-up.
    pub start_s: f64,
    /// Length.
    pub duration_s: f64,
    /// Length that it was to have.
    pub planned_s: Option<f64>,
    /// Length of the samples that maxima are judged by.
    pub sample_s: f64,
    /// Whole samples in the window.
    pub samples: u32,
    /// Whether the run ended before the window did.
    pub cut: bool,
}

/// A planned figure and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedRow {
    /// What it is.
    pub name: String,
    /// As planned.
    pub planned: Option<f64>,
    /// As achieved.
    pub achieved: Option<f64>,
    /// Unit of both.
    pub unit: String,
}

/// What came of looking at one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Nothing casts doubt on the results.
    Good,
    /// It could not be looked at.
    Unknown,
    /// The results may mean less than they seem to.
    Warning,
    /// The results mean nothing, or something broke.
    Error,
}

/// One thing that was looked at before or after the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRow {
    /// Host.
    pub host: String,
    /// What was looked at.
    pub name: String,
    /// What came of it.
    pub outcome: CheckOutcome,
    /// What was found.
    pub found: String,
    /// Why it matters; empty when nothing casts doubt.
    pub note: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// When.
    pub t_s: f64,
    /// How much attention it needs.
    pub severity: Severity,
    /// Test, if it belongs to one.
    pub test: Option<u32>,
    /// Host.
    pub host: String,
    /// What happened.
    pub text: String,
}
