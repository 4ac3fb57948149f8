//! The measured window of a load test, as the verdicts need it: the rows of its databases and logs, folded.
//!
//! Limits: memory is one fold per database or log and class of I/O, whatever the length of the window.

use results::judge::WindowFold;
use results::{Counter, Origin};
use world::Duration;

/// Samples last 15 s, as in the published tests, but at least 20 fit into a short window.
pub fn sample_length(window: Duration) -> Duration {
    let twentieth_s = (window.as_secs_f64() / 20.0).floor().max(1.0);
    Duration::from_secs_f64(twentieth_s.min(15.0))
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
    /// Its databases, in the order of the solution file.
    pub databases: Vec<Origin>,
    /// Its instances, in the order of the solution file.
    pub logs: Vec<Origin>,
    /// What they did.
    pub fold: WindowFold,
    /// Batches of each database since the load began, drained.
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
