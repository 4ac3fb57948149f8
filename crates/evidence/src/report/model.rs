//! What a report says. `report.json` is this, `report.html` and `junit.xml` are made from nothing else.
//!
//! Units are in the names; times are seconds since the run started unless the name says otherwise. A figure that could
//! not be measured is null, never zero. Rates are counts divided by the length of the measured window.

use results::{Comparison, Ending, Grade, Host, Origin, Outcome, Parameter, Severity, WorldKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `proofload-report`.
    pub format: String,
    /// Version of the format; grows when the meaning of a field changes, not when a field is added.
    pub version: u32,
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
    pub run_verdicts: Vec<VerdictRow>,
    /// What was looked at on the hosts, and whether it casts doubt on the results.
    pub checks: Vec<CheckRow>,
    /// What is known about the hosts.
    pub environment: Vec<EnvironmentRow>,
    /// What happened, by time.
    pub events: Vec<EventRow>,
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
    /// The conditions of a qualification that apply to the run.
    pub conditions: Vec<ConditionRow>,
    /// Judgements that passed.
    pub passed: u32,
    /// Judgements that failed.
    pub failed: u32,
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
    /// Place in the programme, from 1.
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
    pub verdicts: Vec<VerdictRow>,
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
    pub storage_parts: Vec<results::StoragePart>,
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

/// One judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictRow {
    /// What is judged.
    #[serde(flatten)]
    pub origin: Origin,
    /// Stable name of the rule.
    pub rule: String,
    /// The rule in words.
    pub text: String,
    /// What was measured.
    pub measured: Option<f64>,
    /// What it is compared with.
    pub limit: Option<f64>,
    /// On which side of the limit it must be.
    pub comparison: Comparison,
    /// Unit of both.
    pub unit: String,
    /// The judgement.
    pub outcome: Outcome,
}

/// Throughput of the mailbox load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Database reads for transactions plus database writes: no maintenance, no log.
    pub transactional_iops: f64,
    /// Database reads for transactions per second.
    pub reads_per_s: f64,
    /// Database writes per second.
    pub writes_per_s: f64,
    /// Reads divided by reads plus writes.
    pub read_share: Option<f64>,
    /// Log writes per second.
    pub log_writes_per_s: f64,
    /// Batches in the window.
    pub batches: u64,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Fewest batches of a database.
    pub database_batches_min: Option<u64>,
    /// Most batches of a database.
    pub database_batches_max: Option<u64>,
    /// Size of all databases when the test began.
    pub database_bytes_before: Option<u64>,
    /// Size of all databases when it ended.
    pub database_bytes_after: Option<u64>,
}

/// Figures of I/O or batches in the window.
///
/// The means over samples are those of the published reports: every sample weighs the same and a sample without an
/// operation counts as zero. The plain means weigh every operation the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Operations.
    pub count: u64,
    /// Operations per second.
    pub per_s: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean size of an operation.
    pub bytes_mean: Option<f64>,
    /// Mean size over samples.
    pub bytes_sample_mean: Option<f64>,
    /// Mean latency.
    pub latency_ms_mean: Option<f64>,
    /// Mean latency over samples.
    pub latency_ms_sample_mean: Option<f64>,
    /// Mean latency of the worst sample.
    pub latency_ms_sample_max: Option<f64>,
    /// Start of the worst sample, seconds since the window started.
    pub worst_sample_window_s: Option<f64>,
    /// Longest latency.
    pub latency_ms_max: Option<f64>,
    /// Operations under way at a time, on average: sum of latencies divided by the length of the window (Little's law).
    pub outstanding: f64,
}

/// Latency percentiles. Null where fewer operations were counted than the percentile needs, and where no histogram is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Operations in the histogram.
    pub count: u64,
    /// Half of the operations took at most this.
    pub p50_ms: Option<f64>,
    /// 90 %.
    pub p90_ms: Option<f64>,
    /// 95 %.
    pub p95_ms: Option<f64>,
    /// 99 %.
    pub p99_ms: Option<f64>,
    /// 99.9 %.
    pub p99_9_ms: Option<f64>,
    /// 99.99 %.
    pub p99_99_ms: Option<f64>,
    /// Longest, exact.
    pub max_ms: Option<f64>,
}

/// One measure, all hosts together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureRow {
    /// Stable name.
    pub measure: String,
    /// Figures.
    pub figures: Figures,
    /// Latency percentiles.
    pub percentiles: Percentiles,
}

/// One measure of one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRow {
    /// Host.
    pub host: String,
    /// Stable name of the measure.
    pub measure: String,
    /// Figures.
    pub figures: Figures,
    /// Latency percentiles.
    pub percentiles: Percentiles,
}

/// I/O of one instance or database, in the columns of the published reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceIo {
    /// Where.
    #[serde(flatten)]
    pub origin: Origin,
    /// Batches.
    pub batches: u64,
    /// Database pages read for transactions.
    pub reads: Option<Figures>,
    /// Their percentiles.
    pub read_percentiles: Percentiles,
    /// Database pages written.
    pub writes: Option<Figures>,
    /// Background maintenance.
    pub maintenance: Option<Figures>,
    /// Transactional and maintenance reads together, as the published reports mix them.
    pub all_reads: Option<Figures>,
    /// Log writes.
    pub log_writes: Option<Figures>,
    /// Their percentiles.
    pub log_write_percentiles: Percentiles,
    /// Log reads by recovery or checksum.
    pub log_reads: Option<Figures>,
    /// Log reads for replication.
    pub replication: Option<Figures>,
}

/// I/O per batch, beside the published tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeRow {
    /// What it is.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// As measured.
    pub measured: Option<f64>,
    /// Lowest in published tests of the 2013 mix.
    pub published_min: f64,
    /// Highest in published tests of the 2013 mix.
    pub published_max: f64,
}

/// Whether the load was steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Transactional I/O per second in each quarter of the window.
    pub quarter_iops: Vec<f64>,
    /// Database writes per second in each quarter of the window.
    pub quarter_writes_per_s: Vec<f64>,
    /// Mean database read latency in each quarter of the window.
    pub quarter_read_latency_ms: Vec<Option<f64>>,
    /// Mean database write latency in each quarter of the window.
    pub quarter_write_latency_ms: Vec<Option<f64>>,
    /// Mean log write latency in each quarter of the window.
    pub quarter_log_write_latency_ms: Vec<Option<f64>>,
    /// Last quarter against the first, as a share of the first.
    pub iops_change: Option<f64>,
    /// Transactional I/O: the distance of the furthest quarter from the mean of the window, as a share of the mean.
    pub iops_change_max: Option<f64>,
    /// The same of database writes per second.
    pub writes_change_max: Option<f64>,
    /// The same of read, write and log write latency, whichever is furthest; null if one of them is not known.
    pub latency_change_max: Option<f64>,
    /// Database writes per second in the first sample of the window, as a share of their mean.
    pub write_start: Option<f64>,
    /// Whether all four are within the limits of the published rules ([verdict.md](verdict.md)).
    pub steady: bool,
}

/// How much room the load generator had, as shares of what it could have used. Means over the window, worst host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// The host whose load generator had the least room.
    pub host: String,
    /// Processor time of the load generator, as a share of that of the processors it may run on.
    pub program_busy: f64,
    /// Processor time of its busiest thread, as a share of the time.
    pub busiest_thread_busy: Option<f64>,
    /// Processor time of everything on the host, as a share of what the host has.
    pub host_busy: Option<f64>,
    /// Whether one of these is above its limit: the busiest thread above 0.9, the load generator above 0.9, the host above
    /// 0.95. The storage may be able to do more than was measured then.
    pub was_limit: bool,
}

/// A figure of a host over the seconds of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSystemRow {
    /// Host.
    pub host: String,
    /// What it is.
    pub name: String,
    /// Mean of the seconds.
    pub mean: f64,
    /// Lowest second.
    pub min: f64,
    /// Highest second.
    pub max: f64,
    /// Unit of all three.
    pub unit: String,
}

/// I/O on one volume: of the databases and logs whose files are on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeIo {
    /// Host.
    pub host: String,
    /// Volume.
    pub volume: String,
    /// Its folder.
    pub path: String,
    /// Databases on it.
    pub databases: u32,
    /// Instances whose log is on it.
    pub logs: u32,
    /// Reads of every class.
    pub reads: Option<Figures>,
    /// Writes of every class.
    pub writes: Option<Figures>,
}

/// Page fault stalls per second over the samples, all instances together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallRow {
    /// Mean of the samples.
    pub per_s_mean: f64,
    /// Lowest sample.
    pub per_s_min: f64,
    /// Highest sample.
    pub per_s_max: f64,
    /// Samples with a stall.
    pub samples_with_stalls: u32,
}

/// A line chart. Times are seconds since the window (or the test, without a window) started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Length of the time axis.
    pub duration_s: f64,
    /// Length of time that one value stands for.
    pub step_s: f64,
    /// Lines.
    pub lines: Vec<ChartLine>,
    /// Limits to draw.
    pub limits: Vec<ChartLimit>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartLine {
    /// Name.
    pub name: String,
    /// One value per step; null where there was none.
    pub values: Vec<Option<f64>>,
}

/// A limit in a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartLimit {
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
}

/// Distribution of a latency over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMap {
    /// Stable name of the measure.
    pub measure: String,
    /// Length of the time axis.
    pub duration_s: f64,
    /// Length of time that one column stands for.
    pub step_s: f64,
    /// Bounds of the rows, ascending; one more than there are rows.
    pub bounds_ms: Vec<f64>,
    /// Operations per column and row, lowest latency first.
    pub columns: Vec<Vec<u64>>,
}

/// Mean read latency of each instance over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceMap {
    /// Length of the time axis.
    pub duration_s: f64,
    /// Length of time that one value stands for.
    pub step_s: f64,
    /// One row per instance.
    pub rows: Vec<InstanceMapRow>,
}

/// One instance over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceMapRow {
    /// Host and instance.
    #[serde(flatten)]
    pub origin: Origin,
    /// Mean read latency per step; null where nothing was read.
    pub latency_ms_mean: Vec<Option<f64>>,
}

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
    /// Log files seen.
    pub files: u64,
    /// Pages seen.
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
    /// Bytes of the database file, or of all closed logs, when the check began; null where nobody recorded them.
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
    /// Bytes of the file that was read, when the backup began; null where nobody recorded them.
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

/// Something known about a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentRow {
    /// Host.
    pub host: String,
    /// Where it belongs.
    pub area: String,
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it casts doubt on the results.
    pub severity: Severity,
    /// Why it does.
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
