//! The measured window of a load test, as the verdicts need it: totals and worst samples per database and per log.
//!
//! Limits: memory is one set of counters per database and instance, whatever the length of the window.

use results::{IoClass, IoCounters};
use world::Duration;

/// Samples last 15 s, as in the published tests, but at least 20 fit into a short window.
pub fn sample_length(window: Duration) -> Duration {
    let twentieth_s = (window.as_secs_f64() / 20.0).floor().max(1.0);
    Duration::from_secs_f64(twentieth_s.min(15.0))
}

/// Counts of one source (a database, or an instance's log) over a window, and over its worst sample.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Counts of the whole window.
    pub io: IoCounters,
    /// The highest sample mean of the transactional read latency in ms, and when that sample began (seconds
    /// into the window).
    pub worst_read: Worst,
    /// The same for log writes.
    pub worst_log_write: Worst,
}

/// A worst sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worst {
    /// Mean latency of the sample.
    pub latency_ms: f64,
    /// When it began, in seconds from the start of the window.
    pub at_s: f64,
}

impl Worst {
    fn offer(&mut self, latency_ms: f64, at_s: f64) {
        if latency_ms > self.latency_ms {
            *self = Worst { latency_ms, at_s };
        }
    }
}

impl Totals {
    /// Adds the sample that began `at` into the window.
    pub fn add_sample(&mut self, sample: &IoCounters, at: Duration) {
        self.worst_read.offer(sample.class(IoClass::TransactionalRead).latency_ms_mean(), at.as_secs_f64());
        self.worst_log_write.offer(sample.class(IoClass::LogWrite).latency_ms_mean(), at.as_secs_f64());
        self.io.merge(sample);
    }

    /// Adds what came after the last sample: too short for its mean to be judged, unless there is nothing else.
    pub fn add_rest(&mut self, rest: &IoCounters, at: Duration) {
        let (read, log_write) = (self.worst_read, self.worst_log_write);
        self.add_sample(rest, at);
        if read != Worst::default() {
            self.worst_read = read;
        }
        if log_write != Worst::default() {
            self.worst_log_write = log_write;
        }
    }
}

/// A closed window.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Its length.
    pub length: Duration,
    /// The length it was to have.
    pub planned: Duration,
    /// Ended before its time because its figures were known well enough.
    pub is_estimate: bool,
    /// Time in it in which nothing was measured.
    pub gaps: Duration,
    /// Per database: instance name, database name, counts.
    pub databases: Vec<(String, String, Totals)>,
    /// Per instance: name, counts of its log.
    pub logs: Vec<(String, Totals)>,
    /// Waits of page reads for a free buffer.
    pub page_fault_stalls: u64,
    /// Batches of each database since the load began, drained.
    pub batches: Vec<u64>,
}

impl Window {
    /// Counts of all databases and logs.
    pub fn io(&self) -> IoCounters {
        let mut all = IoCounters::default();
        for (_, _, totals) in &self.databases {
            all.merge(&totals.io);
        }
        for (_, totals) in &self.logs {
            all.merge(&totals.io);
        }
        all
    }

    /// Achieved transactional I/O per second: database page reads and writes of transactions. Maintenance, log,
    /// replication and backup are not in it.
    pub fn achieved_iops(&self) -> f64 {
        let io = self.io();
        let count = io.class(IoClass::TransactionalRead).totals.count
            + io.class(IoClass::TransactionalWrite).totals.count;
        count as f64 / self.length.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_15_s_or_a_twentieth_of_the_window_but_never_below_a_second() {
        let length = |window_s| sample_length(Duration::from_secs(window_s)).as_secs();
        assert_eq!(
            (length(86_400), length(7_200), length(300), length(60), length(20), length(5)),
            (15, 15, 15, 3, 1, 1)
        );
    }

    #[test]
    fn maintenance_and_log_are_not_transactional_io() {
        let mut window = Window { length: Duration::from_secs(10), ..Window::default() };
        let mut io = IoCounters::default();
        for class in IoClass::ALL {
            io.record(class, 4096, 1_000_000);
        }
        let mut totals = Totals::default();
        totals.add_sample(&io, Duration::ZERO);
        window.databases.push(("I".into(), "D".into(), totals));
        assert_eq!(window.achieved_iops(), 0.2);
    }

    #[test]
    fn the_worst_sample_is_a_mean_and_says_when() {
        let mut totals = Totals::default();
        for (second, latencies_ms) in [(0, [1, 1]), (15, [2, 90]), (30, [40, 40])] {
            let mut sample = IoCounters::default();
            for ms in latencies_ms {
                sample.record(IoClass::TransactionalRead, 4096, ms * 1_000_000);
            }
            totals.add_sample(&sample, Duration::from_secs(second));
        }
        assert_eq!(totals.worst_read, Worst { latency_ms: 46.0, at_s: 15.0 });
    }
}
