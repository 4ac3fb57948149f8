//! What was counted under load.

use results::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Throughput of the mailbox load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Database reads for transactions plus database writes per second: no maintenance, no log.
    pub transactional_iops: f64,
    /// Database reads for transactions per second.
    pub reads_per_s: f64,
    /// Database writes per second.
    pub writes_per_s: f64,
    /// Reads as a share of reads plus writes.
    pub read_share: Option<f64>,
    /// Log writes per second.
    pub log_writes_per_s: f64,
    /// Batches of transactions in the window.
    pub batches: u64,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Fewest batches that a database had.
    pub database_batches_min: Option<u64>,
    /// Most batches that a database had.
    pub database_batches_max: Option<u64>,
    /// Size of all databases when the test began.
    pub database_bytes_before: Option<u64>,
    /// Size of all databases when it ended.
    pub database_bytes_after: Option<u64>,
}

/// Figures of I/O or batches in the measured window.
///
/// The means over samples are those of the published reports: every sample weighs the same and a sample without an
/// operation counts as zero. The plain means weigh every operation the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Operations.
    pub count: u64,
    /// Operations per second.
    pub per_s: f64,
    /// MiB moved per second.
    pub mib_per_s: f64,
    /// Mean bytes of an operation.
    pub bytes_mean: Option<f64>,
    /// Mean over the samples of the mean bytes of an operation.
    pub bytes_sample_mean: Option<f64>,
    /// Mean latency in ms of all operations.
    pub latency_ms_mean: Option<f64>,
    /// Mean over the samples of their mean latencies, in ms.
    pub latency_ms_sample_mean: Option<f64>,
    /// Highest mean latency of a sample, in ms.
    pub latency_ms_sample_max: Option<f64>,
    /// Start of the worst sample, seconds since the window started.
    pub worst_sample_window_s: Option<f64>,
    /// Longest latency of an operation, in ms.
    pub latency_ms_max: Option<f64>,
    /// Mean number of operations under way: sum of latencies divided by the length of the window (Little's law).
    pub outstanding: f64,
}

/// Latency percentiles. Null where too few operations were counted for the percentile, and where no latency
/// distribution was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Operations in the latency distribution.
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
    /// Longest latency in ms, exact.
    pub max_ms: Option<f64>,
}

/// A measure (a class of I/O, or batches), all hosts together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureRow {
    /// Stable name of the measure.
    pub measure: String,
    /// Figures.
    pub figures: Figures,
    /// Latency percentiles.
    pub percentiles: Percentiles,
    /// Part of the mean latency in ms that the operations spent in the load generator, at most; null where that is not
    /// known. The rest is the operating system's and the storage's.
    #[serde(default)]
    pub held_ms: Option<f64>,
}

/// A measure of one host.
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
    /// The instance or database.
    #[serde(flatten)]
    pub origin: Origin,
    /// Batches of transactions.
    pub batches: u64,
    /// Database pages read for transactions.
    pub reads: Option<Figures>,
    /// Latency percentiles of these reads.
    pub read_percentiles: Percentiles,
    /// Database pages written.
    pub writes: Option<Figures>,
    /// Pages read by background maintenance.
    pub maintenance: Option<Figures>,
    /// Transactional and maintenance reads together, as the published reports mix them.
    pub all_reads: Option<Figures>,
    /// Log writes.
    pub log_writes: Option<Figures>,
    /// Latency percentiles of the log writes.
    pub log_write_percentiles: Percentiles,
    /// Log reads by recovery or checksum.
    pub log_reads: Option<Figures>,
    /// Log reads that feed copies on other hosts.
    pub replication: Option<Figures>,
}

/// A figure of I/O per batch, beside that of the published tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeRow {
    /// What the figure is.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// As measured in this test.
    pub measured: Option<f64>,
    /// Lowest in published tests of the 2013 mix.
    pub published_min: f64,
    /// Highest in published tests of the 2013 mix.
    pub published_max: f64,
}

/// An hour of the day that a load followed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HourRow {
    /// Hour of the day, from 0.
    pub hour: u32,
    /// Load of the hour, in percent of the peak hour.
    pub percent: f64,
    /// Seconds of the window in which it was this hour.
    pub seconds: f64,
    /// Transactional I/O per second that the hour asks for; null without a target.
    pub target_iops: Option<f64>,
    /// Transactional I/O per second that was achieved.
    pub achieved_iops: f64,
    /// Mean latency of database reads, in ms.
    pub read_latency_ms: Option<f64>,
    /// Mean latency of log writes, in ms.
    pub log_write_latency_ms: Option<f64>,
}

/// Whether the load stayed steady over the measured window, or followed its day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Transactional I/O per second in each quarter of the window.
    pub quarter_iops: Vec<f64>,
    /// Database writes per second in each quarter of the window.
    pub quarter_writes_per_s: Vec<f64>,
    /// What the hours of the day ask for in each quarter, as a share of the mean of the window; empty for a load that
    /// follows no day.
    #[serde(default)]
    pub quarter_asked: Vec<f64>,
    /// Mean database read latency in each quarter of the window.
    pub quarter_read_latency_ms: Vec<Option<f64>>,
    /// Mean database write latency in each quarter of the window.
    pub quarter_write_latency_ms: Vec<Option<f64>>,
    /// Mean log write latency in each quarter of the window.
    pub quarter_log_write_latency_ms: Vec<Option<f64>>,
    /// Change of transactional I/O from the first quarter to the last, as a share of the first; null for a load that
    /// follows a day.
    pub iops_change: Option<f64>,
    /// Transactional I/O: the distance of the furthest quarter from the mean of the window, or from what its hours ask
    /// for, as a share of the mean.
    pub iops_change_max: Option<f64>,
    /// Database writes per second: the distance of the furthest quarter, likewise.
    pub writes_change_max: Option<f64>,
    /// Read, write and log write latency: the largest distance of a quarter from the mean of the window, as a share of
    /// the mean; null if one of them is not known, and for a load that follows a day: latencies follow it as well.
    pub latency_change_max: Option<f64>,
    /// Database writes per second in the first sample of the window, as a share of their mean; in the first hour with
    /// a load, as a share of what it asks for, if the load follows a day.
    pub write_start: Option<f64>,
    /// Whether all of them are within the limits of the published rules ([verdict.md](verdict.md)).
    pub steady: bool,
}

impl Steadiness {
    /// Rates of the quarters without what the hours of the day ask for above or below the mean.
    pub fn without_day(&self, quarters: &[f64]) -> Vec<f64> {
        let mean = quarters.iter().sum::<f64>() / quarters.len().max(1) as f64;
        let asked = self.quarter_asked.iter().copied().chain(std::iter::repeat(1.0));
        quarters.iter().zip(asked).map(|(rate, asked)| rate - mean * (asked - 1.0)).collect()
    }
}

/// How busy the load generator was, as shares of what it could have used: means over the window, of the busiest host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// The host whose load generator was closest to its limits.
    pub host: String,
    /// Processor time of the load generator, as a share of that of the processors it may run on.
    pub program_busy: f64,
    /// Processor time of its busiest thread, as a share of the time.
    pub busiest_thread_busy: Option<f64>,
    /// Processor time of everything on the host, as a share of what the host has.
    pub host_busy: Option<f64>,
    /// Whether one of these is above its limit: the busiest thread above 0.9, the load generator above 0.9, the
    /// host above 0.95. The storage may be able to do more than was measured then.
    pub was_limit: bool,
}

/// A figure of a host's processors or memory over the seconds of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSystemRow {
    /// Host.
    pub host: String,
    /// What the figure is.
    pub name: String,
    /// Mean of the seconds.
    pub mean: f64,
    /// Lowest second.
    pub min: f64,
    /// Highest second.
    pub max: f64,
    /// Unit of mean, lowest and highest.
    pub unit: String,
}

/// I/O on one volume: of the databases and logs whose files are on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeIo {
    /// Host.
    pub host: String,
    /// Volume.
    pub volume: String,
    /// Folder of the volume.
    pub path: String,
    /// Databases whose file is on it.
    pub databases: u32,
    /// Instances whose log is on it.
    pub logs: u32,
    /// Reads of every class.
    pub reads: Option<Figures>,
    /// Writes of every class.
    pub writes: Option<Figures>,
}

/// Page reads per second that waited for a free buffer of the cache, all instances together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallRow {
    /// Mean of the samples, per second.
    pub per_s_mean: f64,
    /// Lowest sample, per second.
    pub per_s_min: f64,
    /// Highest sample, per second.
    pub per_s_max: f64,
    /// Number of samples with such a wait.
    pub samples_with_stalls: u32,
}
