//! One test on several hosts: the one rule by which rows of tests become the row of all hosts.

use crate::rows::Test;

impl Test {
    /// Merges the rows of a test from all hosts: from the first start to the last end, the window that all hosts had
    /// open, and the sums of sessions and targets. A value that one host does not know yet is unknown. Other values
    /// are equal on all hosts.
    ///
    /// # Panics
    /// Without a row.
    pub fn of_all_hosts(tests: &[&Test]) -> Test {
        fn of_all<T>(
            tests: &[&Test],
            value: impl Fn(&Test) -> Option<T>,
            fold: impl Fn(T, T) -> T,
        ) -> Option<T> {
            let values: Option<Vec<T>> = tests.iter().map(|test| value(test)).collect();
            values?.into_iter().reduce(fold)
        }
        Test {
            started_ms: tests.iter().map(|test| test.started_ms).min().unwrap_or(0),
            ended_ms: of_all(tests, |test| test.ended_ms, u64::max),
            window_start_ms: of_all(tests, |test| test.window_start_ms, u64::max),
            window_end_ms: of_all(tests, |test| test.window_end_ms, u64::min),
            sessions: of_all(tests, |test| test.sessions, |a, b| a + b),
            target_iops: of_all(tests, |test| test.target_iops, |a, b| a + b),
            target_batches_per_s: of_all(tests, |test| test.target_batches_per_s, |a, b| a + b),
            ..tests[0].clone()
        }
    }
}
