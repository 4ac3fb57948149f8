//! The rows of a run: what `run.db` holds, one type per table.
//!
//! Invariants
//! 1. There is one clock: every `*_ms` time is milliseconds since the run started, on the clock of the run's world.
//! 2. A row says which host it comes from. The world is a property of the run ([`Run::world`]).
//! 3. An interval covers `t_ms..t_ms + interval_ms`; an operation belongs to the interval in which it completed.
//!    Intervals without an operation need no sample; readers take what is missing as zero.
//! 4. Rows with the same identity (run; test ordinal; origin and test) replace each other, so a row may be recorded
//!    when something starts and again, completed, when it ends. Samples and histograms are never repeated.

mod findings;
mod series;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Day;
pub use findings::{
    Backup, Checksum, Comparison, Outcome, PagesRead, Recovery, RecoveryWork, StoragePart, TuningStep,
    Verdict,
};
pub use series::{Counter, CounterSample, Histogram, Measure, Sample};

/// World of a run: real storage or a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorldKind {
    /// Real storage: the run proves something.
    Real,
    /// Modelled storage in virtual time: the run predicts something.
    Simulated,
}

/// Ending of a run: whether the campaign was carried out. The verdicts say whether the storage passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every test was carried out.
    Completed,
    /// A user or a signal ended the run.
    Interrupted,
    /// The run could not go on; an event says why.
    Aborted,
}

/// Severity of an event or a fact about the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information; it needs no attention.
    Info,
    /// Warning: the results may mean less than they seem to.
    Warning,
    /// Error: the results mean nothing, or something failed.
    Error,
}

/// Row of the run itself.
#[derive(Debug, Clone, PartialEq)]
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
    /// World of the run: real or simulated.
    pub world: WorldKind,
    /// How the world does its I/O, for example `io_uring, direct`.
    pub world_detail: String,
    /// Seed of all randomness of the run.
    pub seed: u64,
    /// End of the run, ms; `None` while it goes on, and for good if it was killed.
    pub ended_ms: Option<u64>,
    /// Ending of the run.
    pub ending: Option<Ending>,
}

/// Row of a host that took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// Description of the host, in one line.
    pub description: String,
}

/// Fact about a host before or after the tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Name of the host.
    pub host: String,
    /// Area of the fact, for example `Kernel` or `Volume data1`.
    pub area: String,
    /// Name of the fact.
    pub name: String,
    /// Value of the fact.
    pub value: String,
    /// Whether the fact casts doubt on the results.
    pub severity: Severity,
    /// Reason for the doubt; empty without one.
    pub note: String,
}

impl Environment {
    /// Name of the fact that gives the file system of a volume.
    pub const FILE_SYSTEM: &str = "File system";
}

/// Place where something was measured: a host, an instance of it, or a database of that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// Name of the host.
    pub host: String,
    /// Name of the instance; `None` for the whole host.
    pub instance: Option<String>,
    /// Name of the database; `None` for the whole instance, as for its log.
    pub database: Option<String>,
}

impl Origin {
    /// Place that stands for a whole host.
    pub fn host(host: &str) -> Origin {
        Origin { host: host.to_owned(), instance: None, database: None }
    }

    /// Place that stands for a whole instance, as for its log.
    pub fn instance(host: &str, instance: &str) -> Origin {
        Origin { instance: Some(instance.to_owned()), ..Origin::host(host) }
    }

    /// Place that stands for one database.
    pub fn database(host: &str, instance: &str, database: &str) -> Origin {
        Origin { database: Some(database.to_owned()), ..Origin::instance(host, instance) }
    }

    /// Whether `part` is the same place or lies in it.
    pub fn covers(&self, part: &Origin) -> bool {
        self.host == part.host
            && (self.instance.is_none() || self.instance == part.instance)
            && (self.database.is_none() || self.database == part.database)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)?;
        [&self.instance, &self.database].into_iter().flatten().try_for_each(|part| write!(f, "/{part}"))
    }
}

/// Row of an instance (log stream) with its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Name of the host.
    pub host: String,
    /// Name of the instance.
    pub name: String,
    /// Folder of the instance's log.
    pub log_path: String,
    /// Size of one log generation, bytes.
    pub log_file_bytes: u64,
    /// Configured least size of the page cache, bytes.
    pub cache_min_bytes: u64,
    /// Largest size of the page cache, bytes.
    pub cache_max_bytes: u64,
}

/// Row of a database with its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    /// Host, instance and name of the database.
    pub origin: Origin,
    /// Path of the database file.
    pub path: String,
    /// Size of a database page, bytes.
    pub page_bytes: u32,
}

/// Row of a volume: a folder on the storage under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Name of the host.
    pub host: String,
    /// Name of the volume, as in the solution file.
    pub name: String,
    /// Path of the folder; files below it are on this volume.
    pub path: String,
}

/// Size of a database file before and after a test.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseSize {
    /// Number of the test.
    pub test: u32,
    /// Host, instance and name of the database.
    pub origin: Origin,
    /// File size at the start of the test, bytes.
    pub bytes_before: u64,
    /// File size at the end of the test, bytes.
    pub bytes_after: Option<u64>,
}

/// One name and value of a test's settings, ready to print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Name of the setting.
    pub name: String,
    /// Value of the setting, with its unit.
    pub value: String,
}

impl Parameter {
    /// Name of the setting that says how the load of a test is generated.
    pub const LOAD: &str = "Load";
    /// Name of the setting that says what background maintenance reads.
    pub const MAINTENANCE: &str = "Background maintenance";
}

/// Limit by which a test is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Stable name of the rule, as in its verdicts.
    pub rule: String,
    /// Value of the limit.
    pub value: f64,
    /// Unit of the limit.
    pub unit: String,
    /// Limit of the published programme; `None` where it has none, and in files of earlier builds.
    #[serde(default)]
    pub published: Option<f64>,
}

/// Row of a test of the campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Place of the test in the campaign, from 1.
    pub ordinal: u32,
    /// Kind of the test, as named in the solution file.
    pub kind: String,
    /// Title of the test, unique in the run: `Performance`, `Checksum after stress`.
    pub name: String,
    /// Start of the test, ms.
    pub started_ms: u64,
    /// End of the test, ms; `None` while it runs, and for good if the run was killed.
    pub ended_ms: Option<u64>,
    /// Start of the measured window, after the warm-up, ms.
    pub window_start_ms: Option<u64>,
    /// End of the measured window, ms.
    pub window_end_ms: Option<u64>,
    /// Planned length of the measured window, ms.
    pub window_planned_ms: Option<u64>,
    /// Length of the samples on which worst values are judged, ms. Samples start with the window.
    pub sample_ms: u64,
    /// Number of sessions of a closed load.
    pub sessions: Option<u32>,
    /// Target: transactional I/O per second, all databases of all hosts together; the mean of a day if the load follows
    /// one.
    pub target_iops: Option<f64>,
    /// Rate of a paced load, batches per second; the mean of a day if the load follows one.
    pub target_batches_per_s: Option<f64>,
    /// Day that the load follows; `None` if it stays at its peak.
    pub day: Option<Day>,
    /// Transactional I/O per second of one mailbox in the planned profile, headroom included.
    pub iops_per_mailbox: Option<f64>,
    /// Number of copies whose log reading is imitated, the active one included.
    pub copies: u32,
    /// All other settings of the test.
    pub parameters: Vec<Parameter>,
    /// Latency limits by which the test is judged, by the names of their rules.
    pub limits: Vec<Limit>,
}

/// Row of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Time of the event, ms since the start of the run.
    pub t_ms: u64,
    /// Severity of the event.
    pub severity: Severity,
    /// Number of the test; `None` if the event belongs to none.
    pub test: Option<u32>,
    /// Name of the host; `None` if the event belongs to none.
    pub host: String,
    /// Text of the event.
    pub text: String,
}
