//! One test on several hosts: the one rule by which rows of tests become the row of all hosts.

use crate::rows::Test;

impl Test {
    /// The test of all hosts together, from its row on each: it begins with the first host and ends with the
    /// last, its window is the one that all hosts had open, and its sessions and targets are those of all
    /// hosts. What a host does not know yet is not known of all. Everything else is the same on every host.
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
