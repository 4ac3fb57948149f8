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

pub use findings::{
    Backup, Checksum, Comparison, Outcome, PagesRead, Recovery, RecoveryWork, StoragePart, TuningStep,
    Verdict,
};
pub use series::{Counter, CounterSample, Histogram, Measure, Sample};

/// Which kind of world a run was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorldKind {
    /// Real storage: something was proved.
    Real,
    /// A model of storage in virtual time: something was predicted.
    Simulated,
}

/// How a run ended. The verdicts say whether the storage passed; this says whether the campaign was carried out.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl Environment {
    /// Name of the row that says which file system a volume has.
    pub const FILE_SYSTEM: &str = "File system";
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

    /// Whether `part` is this host, instance or database, or lies in it.
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

/// A log stream as it was set up.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    /// Where it belongs; names the instance and the database.
    pub origin: Origin,
    /// Its file.
    pub path: String,
    /// Size of its pages.
    pub page_bytes: u32,
}

/// A folder on the storage under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Host.
    pub host: String,
    /// Name, as in the solution file.
    pub name: String,
    /// Its folder: files below it are on this volume.
    pub path: String,
}

/// Size of a database file before and after a test.
#[derive(Debug, Clone, PartialEq)]
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

impl Parameter {
    /// Name of the setting that says how the load of a test is put on.
    pub const LOAD: &str = "Load";
    /// Name of the setting that says what background maintenance reads.
    pub const MAINTENANCE: &str = "Background maintenance";
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

/// One test of the campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Place in the campaign, from 1.
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

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
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
