//! Two hosts in one simulation: small databases, seconds of virtual time.

use campaign::progress::{Progress, Watcher};
use results::{Outcome, Row, Test};
use simulation::{Domain, SimulationOutcome, SimulationPlan, Storage, simulate, with_databases};
use solution::{Deployment, LoadMode, Solution, TestKind, TestSpec};
use world::Duration;
use world::sim::{FixedLatency, FixedLatencyTimes};

use super::common::TWO_DATABASES;

const ESTIMATE_PERCENT: f64 = 5.0;

const SOLUTION: [&str; 3] = [
    r#"
[solution]
name = "Two hosts"
schema = 1

[[host]]
name = "h{n}"
count = 2

[[volume]]
name = "V{n}"
count = 2
path = "/exchange/v{n}"

"#,
    TWO_DATABASES,
    r#"
[[test]]
kind = "performance"
duration_s = 10
warmup_limit_s = 60

[[test]]
kind = "backup"
duration_s = 1
"#,
];

struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _progress: &Progress) {}
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

fn deployments(hosts: &[&str]) -> Vec<Deployment> {
    let solution = Solution::parse(&SOLUTION.concat(), "two.toml").unwrap_or_else(|error| panic!("{error}"));
    let of = |host: &&str| solution.deployment(Some(host)).unwrap_or_else(|error| panic!("{error}"));
    hosts.iter().map(of).collect()
}

fn simulated(seed: u64, hosts: &[&str]) -> (SimulationOutcome, Vec<Row>) {
    let deployments = deployments(hosts);
    let tests = with_databases(&deployments[0].tests);
    let times = FixedLatencyTimes {
        read_latency: Duration::from_millis(2),
        bytes_per_second: 10_000_000,
        ..FixedLatencyTimes::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = simulate(on(times, deployments, tests, seed), &mut rows, &mut Silent);
    (outcome, rows)
}

/// Storage with fixed latencies.
fn storage(times: FixedLatencyTimes, seed: u64) -> Box<dyn FnOnce() -> Storage + Send> {
    Box::new(move || Storage {
        description: String::new(),
        model: Box::new(FixedLatency::new(seed, times)),
        modelled: None,
        parts: Vec::new(),
    })
}

/// Plan with all hosts on one storage with fixed latencies.
fn on(
    times: FixedLatencyTimes,
    deployments: Vec<Deployment>,
    tests: Vec<TestSpec>,
    seed: u64,
) -> SimulationPlan {
    let domains = vec![Domain { hosts: (0..deployments.len()).collect(), storage: storage(times, seed) }];
    SimulationPlan { deployments, tests, seed, domains, faults: Vec::new(), threads: 1 }
}

/// Simulates two hosts whose load test of seven minutes may end as soon as its figures are known to `percent`.
/// `apart`: each host on a storage of its own, on this many threads.
fn estimated(percent: f64, apart: Option<usize>) -> (SimulationOutcome, Vec<Row>) {
    let mut deployments = deployments(&["h1", "h2"]);
    deployments.iter_mut().for_each(|host| host.load.mode = LoadMode::Closed { sessions: 1 });
    let engine = deployments.iter_mut().map(|host| &mut host.engine);
    engine.for_each(|engine| engine.checkpoint_depth_bytes = 1 << 20);
    let mut tests = with_databases(&deployments[0].tests[..1]);
    tests[1].duration_s = 420.0;
    tests[1].until_percent = Some(percent);
    let read_latency = Duration::from_millis(30);
    let times = FixedLatencyTimes { read_latency, ..Default::default() };
    let mut plan = on(times, deployments, tests, 1);
    if let Some(threads) = apart {
        plan.threads = threads;
        let of_host = |host: u8| Domain { hosts: vec![host.into()], storage: storage(times, host.into()) };
        plan.domains = [0, 1].map(of_host).into();
    }
    let mut rows: Vec<Row> = Vec::new();
    (simulate(plan, &mut rows, &mut Silent), rows)
}

#[test]
fn windows_of_all_hosts_end_together_once_all_estimates_are_good() {
    for apart in [None, Some(2)] {
        let (simulated, rows) = estimated(ESTIMATE_PERCENT, apart);
        assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
        let verdicts = simulated.outcome.verdicts.iter();
        let lengths: Vec<_> = verdicts.filter(|v| v.rule == "window_estimated").map(|v| v.measured).collect();
        assert_eq!(lengths.len(), 2, "neither window is judged as a whole one");
        assert!(lengths[0] == lengths[1] && lengths[0] < Some(420.0), "{lengths:?}");
        let test = last_test(&rows, TestKind::Performance);
        assert_eq!(test.window_planned_ms, Some(420_000));
        assert!(
            test.parameters.iter().any(|parameter| parameter.name.starts_with("Estimate of the full window"))
        );
    }
}

#[test]
fn estimates_of_hosts_that_share_nothing_are_the_same_on_any_number_of_threads() {
    let (first, rows) = estimated(ESTIMATE_PERCENT, Some(1));
    let (second, same_rows) = estimated(ESTIMATE_PERCENT, Some(2));
    assert_eq!(first.trace_hash, second.trace_hash);
    assert!(format!("{rows:?}") == format!("{same_rows:?}"), "the rows differ");
}

#[test]
fn window_whose_figures_stay_unknown_lasts_as_long_as_planned() {
    let (simulated, _) = estimated(0.1, None);
    let mut verdicts = simulated.outcome.verdicts.iter();
    assert!(verdicts.all(|verdict| verdict.rule != "window_estimated"));
    let complete = simulated.outcome.verdicts.iter().filter(|verdict| verdict.rule == "window_complete");
    assert_eq!(complete.map(|verdict| verdict.outcome).collect::<Vec<_>>(), [Outcome::Pass; 2]);
}

fn last_test(rows: &[Row], kind: TestKind) -> Test {
    let mut tests = rows.iter().filter_map(|row| if let Row::Test(test) = row { Some(test) } else { None });
    tests.rfind(|test| test.kind == kind.name()).expect("the test was carried out").clone()
}

#[test]
fn hosts_are_measured_together_and_every_row_says_whose_it_is() {
    let (simulated, rows) = simulated(1, &["h1", "h2"]);
    assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
    let failed: Vec<_> =
        simulated.outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let test = last_test(&rows, TestKind::Performance);
    assert_eq!((test.sessions, test.target_iops), (Some(8), Some(20.0)), "those of both hosts");
    let window = test.window_start_ms.zip(test.window_end_ms).expect("the window was closed");
    assert_eq!(window.1 - window.0, 10_000, "both hosts were measured for the whole of one window");
    for host in ["h1", "h2"] {
        let judged = simulated.outcome.verdicts.iter().any(|verdict| verdict.origin.host == host);
        let sampled = rows.iter().any(|row| {
            matches!(row, Row::Sample(sample) if sample.origin.host == host && sample.test == test.ordinal
                && sample.t_ms == window.0)
        });
        assert!(judged && sampled, "{host}");
    }
}

#[test]
fn equal_seeds_give_equal_traces_and_rows() {
    let (first, rows) = simulated(7, &["h1", "h2"]);
    let (second, same_rows) = simulated(7, &["h1", "h2"]);
    assert_eq!(first.trace_hash, second.trace_hash);
    assert!(format!("{rows:?}") == format!("{same_rows:?}"), "the rows differ");
    assert_ne!(first.trace_hash, simulated(8, &["h1", "h2"]).0.trace_hash, "another seed is another run");
}

#[test]
fn a_backup_that_its_time_limit_ends_proves_nothing_about_the_pages() {
    let (simulated, rows) = simulated(1, &["h1"]);
    assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
    let backups =
        rows.iter().filter_map(|row| if let Row::Backup(backup) = row { Some(backup) } else { None });
    let read: Vec<_> = backups.map(|backup| (backup.bytes, backup.bytes_expected)).collect();
    assert_eq!(read.len(), 2);
    for (bytes, expected) in &read {
        assert!((1 << 20..100 << 20).contains(bytes) && *expected == Some(128 << 20), "{read:?}");
    }
    let judged = |rule: &str| {
        let of_rule = simulated.outcome.verdicts.iter().filter(|verdict| verdict.rule == rule);
        of_rule.map(|verdict| verdict.outcome).collect::<Vec<_>>()
    };
    assert_eq!(judged("bad_pages"), [Outcome::Unproved; 2]);
    assert_eq!(judged("pages_verified"), [Outcome::Unproved]);
    assert!(!simulated.outcome.passed());
    let said = rows.iter().any(|row| matches!(row, Row::Event(event) if event.text.contains("time limit")));
    assert!(said, "a reader of the report must know");
}
