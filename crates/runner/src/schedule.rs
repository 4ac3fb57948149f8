//! What a run will do and how long it will take, as far as that is known before it starts.

use std::fmt::Write;

use evidence::report::{counted, duration};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Deployment, TestKind, TestSpec};

/// A test with its planned times.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedTest {
    /// Name of the test.
    pub name: String,
    /// Kind of the test.
    pub kind: String,
    /// Length of the window, s, if it is fixed.
    pub window_s: Option<f64>,
    /// Longest time without the warm-up, s; `None` if the storage decides.
    pub most_s: Option<f64>,
    /// Longest warm-up, s; 0 for a test without one.
    pub warmup_limit_s: f64,
}

/// Length of a test without its warm-up.
enum Length {
    /// The test has a window of this length, s.
    Fixed(f64),
    /// The test has a time limit, s.
    AtMost(f64),
    /// The test ends when it has read or written everything.
    Open,
}

impl Length {
    fn of(test: &TestSpec) -> Length {
        match test.kind {
            TestKind::Drill => Length::Fixed(test.duration_s),
            kind if TestKind::WINDOWED.contains(&kind) => Length::Fixed(test.duration_s),
            TestKind::Tune | TestKind::LogGeneration => Length::AtMost(test.duration_s),
            _ => test.limit_s.map_or(Length::Open, Length::AtMost),
        }
    }
}

/// Longest warm-up of a test, s; 0 for a test without one.
fn warmup_s(test: &TestSpec) -> f64 {
    let has_one =
        TestKind::WINDOWED.contains(&test.kind) || matches!(test.kind, TestKind::Tune | TestKind::Drill);
    if has_one { test.warmup_limit_s } else { 0.0 }
}

/// Lists the tests with their planned times.
pub fn planned(tests: &[TestSpec]) -> Vec<PlannedTest> {
    let one = |(test, name): (&TestSpec, String)| {
        let (window_s, most_s) = match Length::of(test) {
            Length::Fixed(s) => (Some(s), Some(s)),
            Length::AtMost(s) => (None, Some(s)),
            Length::Open => (None, None),
        };
        PlannedTest {
            name,
            kind: test.kind.name().to_owned(),
            window_s,
            most_s,
            warmup_limit_s: warmup_s(test),
        }
    };
    tests.iter().zip(campaign::titles(tests)).map(one).collect()
}

/// Formats the tests with their times, and the time of all, for people.
pub fn text(tests: &[PlannedTest]) -> String {
    let mut text = counted(tests.len() as u64, "test") + ":\n";
    for PlannedTest { name, window_s, most_s, warmup_limit_s, .. } in tests {
        let time = match (window_s, most_s) {
            (Some(window_s), _) => duration(*window_s),
            (None, Some(most_s)) => format!("at most {}", duration(*most_s)),
            (None, None) => "as long as the storage needs".to_owned(),
        };
        let warmup = match *warmup_limit_s {
            0.0 => String::new(),
            limit_s => format!(", after a warm-up of at most {}", duration(limit_s)),
        };
        let _ = writeln!(text, "  {name:<40} {time}{warmup}");
    }
    let (least_s, most_s) = span(tests);
    let _ = write!(text, "in all at least {}, at most {}", duration(least_s), duration(most_s));
    let is_open = tests.iter().any(|test| test.most_s.is_none());
    text += if is_open { " and the time that the storage needs for the other tests\n" } else { "\n" };
    text
}

/// Least time of all tests, and most time of those with a known length, s.
pub fn span(tests: &[PlannedTest]) -> (f64, f64) {
    let least_s = tests.iter().filter_map(|test| test.window_s).sum();
    let most_s = tests.iter().filter_map(|test| Some(test.most_s? + test.warmup_limit_s)).sum();
    (least_s, most_s)
}

/// Upper bound of the memory of a host's page caches, bytes.
pub fn cache_bytes(deployment: &Deployment) -> u64 {
    deployment.instances.iter().map(|instance| instance.cache_max_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_sums_what_is_known_and_names_what_the_storage_decides() {
        let file = r#"
[solution]
name = "Small"
schema = 1
[[host]]
name = "a"
[[volume]]
name = "V"
path = "/v"
[[instance]]
name = "DB"
databases = 3
[sizing]
database_mib = 64
[engine]
cache_max_mib = 32
[[test]]
kind = "init"
[[test]]
kind = "tune"
duration_s = 60
warmup_limit_s = 30
[[test]]
kind = "performance"
duration_s = 7200
warmup_limit_s = 600
[[test]]
kind = "database_checksum"
duration_s = 20
"#;
        let solution = solution::Solution::parse(file, "small.toml").expect("it is valid");
        let deployment = solution.deployment(None).expect("it can run");
        let told = text(&planned(&deployment.tests));
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        assert_eq!(lines[0], "4 tests:");
        assert!(lines[1].ends_with("as long as the storage needs"), "{told}");
        assert!(lines[2].ends_with("at most 1 min, after a warm-up of at most 30 s"), "{told}");
        assert!(lines[3].ends_with("  2 h, after a warm-up of at most 10 min"), "{told}");
        assert!(lines[4].ends_with("at most 20 s"), "{told}");
        assert!(lines[5].starts_with("in all at least 2 h, at most 2 h 11 min and"), "{told}");
        assert_eq!(cache_bytes(&deployment), 96 << 20);
    }
}
