//! A point of a probe: the load that is offered to a storage, and what the storage did with it.

/// Least number of measured points of a pattern; with fewer nothing is predicted.
pub(crate) const POINTS_MIN: usize = 12;

/// Access pattern of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Operations at random places of the file.
    Random,
    /// Operations one behind the other.
    Sequential,
    /// Sequential writes, each followed by a sync that belongs to its latency.
    Sync,
}

impl Pattern {
    /// All patterns, in the order of files and reports.
    pub const ALL: [Pattern; 3] = [Pattern::Random, Pattern::Sequential, Pattern::Sync];

    /// Name of the pattern in files.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Random => "random",
            Pattern::Sequential => "sequential",
            Pattern::Sync => "sync",
        }
    }
}

/// Kind of load of a point: closed loop or open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: number of outstanding operations.
    Outstanding(f64),
    /// Open loop: operations that arrive per second, independent of completions.
    Offered(f64),
}

/// Point of load: block size, read share, pattern, and how many operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Size of an operation, bytes.
    pub block_bytes: u64,
    /// Share of the operations that are reads, 0 to 1.
    pub read_share: f64,
    /// Access pattern.
    pub pattern: Pattern,
    /// Number of outstanding or offered operations.
    pub load: Load,
}

/// Latencies of reads or of writes, ms; `None` if not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// Mean latency, ms.
    pub mean_ms: Option<f64>,
    /// Median latency, ms.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the latency, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the latency, ms.
    pub p99_ms: Option<f64>,
}

/// Row of a `probe.csv`: a point of load, with its measured figures if there are any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Point of load of the row.
    pub point: Point,
    /// Completed reads and writes per second; `None` if not measured.
    pub iops: Option<f64>,
    /// Latency of the reads.
    pub reads: Latency,
    /// Latency of the writes.
    pub writes: Latency,
    /// Length of the measurement, s.
    pub seconds: Option<f64>,
    /// Whether the second half of the measurement did as much as the first.
    pub steady: Option<bool>,
}

impl Row {
    /// Row of a point without measured figures.
    pub fn unmeasured(point: Point) -> Row {
        let none = Latency::default();
        Row { point, iops: None, reads: none, writes: none, seconds: None, steady: None }
    }

    /// Mean latency of reads and writes together, ms; `None` if one of the means is missing.
    pub fn mean_ms(&self) -> Option<f64> {
        let share = self.point.read_share;
        let reads = if share > 0.0 { self.reads.mean_ms? } else { 0.0 };
        let writes = if share < 1.0 { self.writes.mean_ms? } else { 0.0 };
        Some(share * reads + (1.0 - share) * writes)
    }

    /// Formats the measured figures as one line for people.
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

    /// Mean number of outstanding operations: given in a closed loop, else by Little's law.
    pub fn outstanding(&self) -> Option<f64> {
        match self.point.load {
            Load::Outstanding(outstanding) => Some(outstanding),
            Load::Offered(_) => Some(self.iops? * self.mean_ms()? / 1e3),
        }
    }
}

/// Reason why points cannot be used, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProbeError {
    /// What is wrong, and in which file and line.
    pub message: String,
    /// Remedy.
    pub remedy: &'static str,
}

impl ProbeError {
    pub(crate) fn new(message: impl Into<String>, remedy: &'static str) -> ProbeError {
        ProbeError { message: message.into(), remedy }
    }
}
