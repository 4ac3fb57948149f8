//! What someone who watches a run wants to know, once a second.

use world::Duration;

/// A moment of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Name of the test: `Performance`.
    pub test: String,
    /// Place of the test in the campaign, from 1.
    pub ordinal: u32,
    /// Tests in the campaign.
    pub tests: u32,
    /// What it is doing: `warming up`, `measuring`, `DB3: 41 %`.
    pub phase: String,
    /// Share of the test that is done, 0 to 1, as far as it can be known.
    pub done: f64,
    /// Time left for the test, as far as it can be known.
    pub left: Option<Duration>,
    /// What the last second brought.
    pub rates: Rates,
}

/// What the last second brought.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Batches per second.
    pub batches_per_s: f64,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Mean transactional read latency of the test so far.
    pub read_latency_ms: f64,
    /// Mean latency of durable log writes of the test so far.
    pub log_write_latency_ms: f64,
    /// Bytes moved per second, all classes.
    pub bytes_per_s: f64,
}

/// Watches a run: gets a moment about once a second, and a line whenever something is worth one.
pub trait Watcher {
    /// A moment of the run.
    fn progress(&mut self, progress: &Progress);
    /// Something happened that a person wants to read.
    fn line(&mut self, text: &str);
    /// Whether someone asked for the end of the run.
    fn interrupted(&self) -> bool;
}
