//! A point of a probe: the load that is offered to a storage, and what the storage did with it.

/// Where the I/O of a point goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// To random places of the file.
    Random,
    /// From one place to the next.
    Sequential,
    /// Sequential writes, each followed by a sync that belongs to its latency.
    Sync,
}

impl Pattern {
    /// All of them, in the order in which files and reports list them.
    pub const ALL: [Pattern; 3] = [Pattern::Random, Pattern::Sequential, Pattern::Sync];

    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Random => "random",
            Pattern::Sequential => "sequential",
            Pattern::Sync => "sync",
        }
    }
}

/// How a point keeps the storage at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: operations that are under way at any time.
    Outstanding(f64),
    /// Open loop: operations that arrive per second, whether the earlier ones have completed or not.
    Offered(f64),
}

/// The load of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Size of an operation.
    pub block_bytes: u64,
    /// Share of the operations that are reads, 0 to 1.
    pub read_share: f64,
    /// Where they go.
    pub pattern: Pattern,
    /// How many there are.
    pub load: Load,
}

/// Latencies of reads or of writes in milliseconds; `None` where they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// Mean.
    pub mean_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
}

/// A row of `probe.csv`: a point, and what was measured there if it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The load.
    pub point: Point,
    /// Reads and writes that completed in a second.
    pub iops: Option<f64>,
    /// Latency of the reads.
    pub reads: Latency,
    /// Latency of the writes.
    pub writes: Latency,
    /// How long was measured.
    pub seconds: Option<f64>,
    /// Whether the second half of the time did as much as the first.
    pub steady: Option<bool>,
}

impl Row {
    /// A point that was not measured.
    pub fn unmeasured(point: Point) -> Row {
        let none = Latency::default();
        Row { point, iops: None, reads: none, writes: none, seconds: None, steady: None }
    }

    /// Mean latency of all operations, where the means that it consists of are known.
    pub fn mean_ms(&self) -> Option<f64> {
        let share = self.point.read_share;
        let reads = if share > 0.0 { self.reads.mean_ms? } else { 0.0 };
        let writes = if share < 1.0 { self.writes.mean_ms? } else { 0.0 };
        Some(share * reads + (1.0 - share) * writes)
    }

    /// What was measured, in one line for people.
    pub fn text(&self) -> String {
        let Point { block_bytes, read_share, pattern, load } = self.point;
        let size = if block_bytes < 1 << 20 {
            format!("{} KiB", block_bytes as f64 / 1024.0)
        } else {
            format!("{} MiB", block_bytes as f64 / f64::from(1 << 20))
        };
        let load = match load {
            Load::Outstanding(outstanding) => format!("{outstanding} under way"),
            Load::Offered(rate) => format!("{rate} a second"),
        };
        let found = match (self.iops, self.mean_ms()) {
            (Some(iops), Some(mean_ms)) => format!("{iops:.0} IOPS, {mean_ms:.2} ms"),
            (Some(iops), None) => format!("{iops:.0} IOPS"),
            (None, _) => "nothing that can be used".into(),
        };
        let unsteady = if self.steady == Some(false) { ", not steady" } else { "" };
        let reads = 100.0 * read_share;
        format!("{} {size}, {reads:.0} % reads, {load}: {found}{unsteady}", pattern.name())
    }

    /// Operations that are under way in the mean: those of a closed loop, or by Little's law.
    pub fn outstanding(&self) -> Option<f64> {
        match self.point.load {
            Load::Outstanding(outstanding) => Some(outstanding),
            Load::Offered(_) => Some(self.iops? * self.mean_ms()? / 1e3),
        }
    }
}

/// Why points cannot be used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProbeError {
    /// What is wrong, and where.
    pub message: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl ProbeError {
    pub(crate) fn new(message: impl Into<String>, remedy: &'static str) -> ProbeError {
        ProbeError { message: message.into(), remedy }
    }
}
