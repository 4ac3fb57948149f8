//! What someone who watches a run wants to know, once a second.

use world::Duration;

/// Progress of a run at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Title of the test: `Performance`.
    pub test: String,
    /// Place of the test in the campaign, from 1.
    pub ordinal: u32,
    /// Number of tests in the campaign.
    pub tests: u32,
    /// Current activity: `warming up`, `measuring`, `DB3: 41 %`.
    pub phase: String,
    /// Finished share of the test, 0 to 1, if known.
    pub done: f64,
    /// Remaining time of the test, if known.
    pub left: Option<Duration>,
    /// Rates of the last second.
    pub rates: Rates,
}

/// Rates of the last second, and mean latencies of the test so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Batches per second.
    pub batches_per_s: f64,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Mean transactional read latency of the test so far, ms.
    pub read_latency_ms: f64,
    /// Mean latency of durable log writes of the test so far, ms.
    pub log_write_latency_ms: f64,
    /// Bytes transferred per second, all classes.
    pub bytes_per_s: f64,
}

/// View of a run for people: gets its progress about once a second, and lines of text.
pub trait Watcher {
    /// Shows the progress.
    fn progress(&mut self, progress: &Progress);
    /// Shows a line of text.
    fn line(&mut self, text: &str);
    /// Whether the user asked for the end of the run.
    fn interrupted(&self) -> bool;
}
