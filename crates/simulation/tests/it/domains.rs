//! Hosts that share no storage: the same outcome on any number of threads, and in step.

use std::cell::Cell;

use campaign::CampaignError;
use campaign::progress::{Progress, Watcher};
use results::{Measure, Outcome, RecordError, Recorder, Row, StoragePart, Test};
use simulation::{
    Assumptions, Domain, SimulationOutcome, SimulationPlan, domains, simulate, storage_plan, with_databases,
};
use solution::{Deployment, Solution, TestKind};

use super::common::TWO_DATABASES;

const SOLUTION: [&str; 3] = [
    r#"
[solution]
name = "Domains"
schema = 1

[[host]]
name = "h{n}"
count = 3

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000

[[volume]]
name = "V{n}"
count = 2
path = "/exchange/v{n}"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"

"#,
    TWO_DATABASES,
    r#"
[array]
scope = "host"
controller = "sas-array-2013"
controllers = 2
link = "sas-6g-x4"
links_per_host = 2

[[test]]
kind = "performance"
duration_s = 30
warmup_limit_s = 60

[[test]]
kind = "database_checksum"
"#,
];

/// Watcher that notes what it is shown, and can ask for the end.
#[derive(Default)]
struct Noting {
    lines: Vec<String>,
    moments: Vec<Progress>,
    interrupted_after: Option<usize>,
    looks: Cell<usize>,
}

impl Watcher for Noting {
    fn progress(&mut self, progress: &Progress) {
        self.moments.push(progress.clone());
    }
    fn line(&mut self, text: &str) {
        self.lines.push(text.to_owned());
    }
    fn interrupted(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.interrupted_after.is_some_and(|moments| self.moments.len() > moments)
    }
}

/// Recorder that fails after this number of rows.
struct Full(usize);

impl Recorder for Full {
    fn record(&mut self, _row: Row) -> Result<(), RecordError> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| RecordError("the disk is full".into()))?;
        Ok(())
    }
    fn flush(&mut self) -> Result<(), RecordError> {
        Ok(())
    }
}

/// Plan with three hosts, each in a storage domain of its own.
fn plan(threads: usize) -> SimulationPlan {
    let solution =
        Solution::parse(&SOLUTION.concat(), "domains.toml").unwrap_or_else(|error| panic!("{error}"));
    let of = |host: &str| solution.deployment(Some(host)).unwrap_or_else(|error| panic!("{error}"));
    let deployments: Vec<Deployment> = ["h1", "h2", "h3"].map(of).into();
    let tests = with_databases(&deployments[0].tests);
    let divided = domains(&solution, &deployments).into_iter().map(|hosts| {
        let seed = 1 + hosts[0] as u64;
        let plan = storage_plan(&solution, &deployments, &hosts, &Assumptions::shipped(), seed);
        Domain::new(hosts, plan.unwrap_or_else(|error| panic!("{error}")))
    });
    let domains: Vec<Domain> = divided.collect();
    assert_eq!(domains.len(), 3, "each host has storage of its own");
    SimulationPlan { deployments, tests, seed: 1, domains, faults: Vec::new(), threads }
}

fn simulated(plan: SimulationPlan) -> (SimulationOutcome, Vec<Row>, Noting) {
    let (mut rows, mut watcher): (Vec<Row>, _) = (Vec::new(), Noting::default());
    let outcome = simulate(plan, &mut rows, &mut watcher);
    assert!(outcome.outcome.error.is_none(), "{:?}", outcome.outcome.error);
    (outcome, rows, watcher)
}

fn tests_of(rows: &[Row], kind: TestKind) -> Vec<&Test> {
    let tests = rows.iter().filter_map(|row| if let Row::Test(test) = row { Some(test) } else { None });
    tests.filter(|test| test.kind == kind.name()).collect()
}

#[test]
fn rows_and_traces_are_the_same_on_any_number_of_threads() {
    let (first, rows, watcher) = simulated(plan(1));
    for threads in [4, 4, 2] {
        let (again, rows_again, watcher_again) = simulated(plan(threads));
        assert_eq!((again.trace_hash, again.elapsed), (first.trace_hash, first.elapsed));
        assert!(again.outcome.verdicts == first.outcome.verdicts);
        assert!(format!("{rows:?}") == format!("{rows_again:?}"), "the rows differ on {threads} threads");
        assert!((watcher.lines == watcher_again.lines) && (watcher.moments == watcher_again.moments));
    }
}

#[test]
fn hosts_that_share_no_storage_are_measured_together() {
    let (simulated, rows, watcher) = simulated(plan(4));
    let test = *tests_of(&rows, TestKind::Performance).last().expect("it was carried out");
    assert_eq!((test.sessions, test.target_iops), (Some(12), Some(30.0)), "those of all hosts");
    let (start_ms, end_ms) = test.window_start_ms.zip(test.window_end_ms).expect("the window was closed");
    assert_eq!(end_ms - start_ms, 30_000, "all hosts were measured for the whole of one window");
    let samples_at = |at_ms: u64, host: &str| {
        let samples = rows.iter().filter(|row| {
            matches!(row, Row::Sample(sample) if sample.origin.host == host && sample.test == test.ordinal
                && sample.t_ms == at_ms && sample.measure == Measure::Batch)
        });
        samples.count()
    };
    for host in ["h1", "h2", "h3"] {
        assert!(samples_at(start_ms, host) > 0, "{host}");
        assert!(simulated.outcome.verdicts.iter().any(|verdict| verdict.origin.host == host));
        assert!(watcher.lines.iter().any(|line| line.starts_with(&format!("{host}: "))), "{host}");
    }
    let next = tests_of(&rows, TestKind::DatabaseChecksum)[0].started_ms;
    assert!(next >= test.ended_ms.expect("it ended"), "no host goes on before all have ended");
}

#[test]
fn every_storage_part_of_every_host_is_reported_once_for_each_test() {
    let (_, rows, _) = simulated(plan(2));
    let parts =
        rows.iter().filter_map(|row| if let Row::StoragePart(part) = row { Some(part) } else { None });
    let mut parts: Vec<(u32, &str, &str)> =
        parts.map(|StoragePart { test, kind, name, .. }| (*test, kind.as_str(), name.as_str())).collect();
    let all = parts.len();
    parts.sort();
    parts.dedup();
    assert_eq!(parts.len(), all);
    let drives = parts.iter().filter(|(test, kind, _)| *test == 2 && *kind == "drive");
    assert_eq!(drives.count(), 3 * 4);
}

#[test]
fn interrupt_ends_the_hosts_of_all_domains() {
    let mut watcher = Noting { interrupted_after: Some(20), ..Noting::default() };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = simulate(plan(2), &mut rows, &mut watcher).outcome;
    assert!(matches!(outcome.error, Some(CampaignError::Interrupted)), "{:?}", outcome.error);
    let said = |host: &str| {
        rows.iter().any(|row| {
            matches!(row, Row::Event(event) if event.host == host
            && event.text == CampaignError::Interrupted.to_string())
        })
    };
    assert!(["h1", "h2", "h3"].into_iter().all(said), "each host ends in order");
    assert!(outcome.verdicts.iter().all(|verdict| verdict.outcome != Outcome::Fail));
}

#[test]
fn results_that_cannot_be_kept_end_the_simulation() {
    for kept in [40, usize::MAX] {
        let outcome = simulate(plan(2), &mut Full(kept), &mut Noting::default()).outcome;
        let not_kept = matches!(outcome.error, Some(CampaignError::Record(_)));
        assert_eq!(not_kept, kept < usize::MAX, "{:?}", outcome.error);
    }
    // Even if only the very last row is lost.
    let (_, rows, _) = simulated(plan(2));
    let outcome = simulate(plan(2), &mut Full(rows.len() - 1), &mut Noting::default()).outcome;
    assert!(matches!(outcome.error, Some(CampaignError::Record(_))), "{:?}", outcome.error);
}
