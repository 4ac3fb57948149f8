//! The measured window of a load test, as the verdicts need it: the rows of its databases and logs, folded.
//!
//! Limits: memory is one fold per database or log and class of I/O, independent of the length of the window.

use results::judge::WindowFold;
use results::{Counter, Day, Origin};
use world::Duration;

/// Length of a sample: 15 s as in the published tests, or less so that at least 20 fit into a short window.
pub fn sample_length(window: Duration) -> Duration {
    let twentieth_s = (window.as_secs_f64() / 20.0).floor().max(1.0);
    Duration::from_secs_f64(twentieth_s.min(15.0))
}

/// Measured window after its end.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Length of the window.
    pub length: Duration,
    /// Planned length of the window.
    pub planned: Duration,
    /// Day that the load followed; `None` if it stayed at its peak.
    pub day: Option<Day>,
    /// Whether it ended early because its figures were known well enough.
    pub is_estimate: bool,
    /// Time in the window in which nothing was measured.
    pub gaps: Duration,
    /// Databases, in the order of the solution file.
    pub databases: Vec<Origin>,
    /// Instances, in the order of the solution file.
    pub logs: Vec<Origin>,
    /// Totals of databases and instances.
    pub fold: WindowFold,
    /// Number of batches of each database since the load began, counted after the load has drained.
    pub batches: Vec<u64>,
}

impl Window {
    /// Achieved transactional I/O per second.
    pub fn achieved_iops(&self) -> f64 {
        self.fold.transactional() as f64 / self.length.as_secs_f64()
    }

    /// Increase of a counter per second.
    pub fn per_s(&self, counter: Counter) -> f64 {
        self.fold.counter(counter) as f64 / self.length.as_secs_f64()
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
}
