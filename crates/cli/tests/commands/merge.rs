//! The evidence of several hosts as one run: whose clocks differ, one of whom died, one of whom was out of step.

use std::path::{Path, PathBuf};

use evidence::environment::sharing::{SHARED, Shared, undeclared};
use evidence::{Expected, HostRuns, RunData, RunStore, load};
use results::{
    Comparison, Environment, Event, Host, IoClass, IoTotals, Measure, Origin, Outcome, Recorder, Row, Run,
    Sample, Severity, Test, Verdict,
};
use testkit::rows;

fn run(started_unix_ms: u64) -> Run {
    Run { started_unix_ms, ..rows::run() }
}

fn test(ordinal: u32, started_ms: u64, window: Option<(u64, u64)>, ended_ms: Option<u64>) -> Test {
    Test {
        ordinal,
        name: format!("Test {ordinal}"),
        started_ms,
        ended_ms,
        window_start_ms: window.map(|window| window.0),
        window_end_ms: window.map(|window| window.1),
        window_planned_ms: window.map(|_| 4_000),
        target_iops: Some(100.0),
        ..rows::load_test(0, 1_000)
    }
}

fn sample(host: &str, test: u32, t_ms: u64, count: u64) -> Sample {
    let totals = IoTotals { count, ..IoTotals::default() };
    Sample::new(test, Origin::host(host), IoClass::TransactionalRead, t_ms, 1000, totals)
}

fn event(host: &str, test: Option<u32>, t_ms: u64) -> Event {
    Event { t_ms, severity: Severity::Info, test, host: host.into(), text: "something".into() }
}

/// Evidence of a host. Its clock is `ahead_ms` ahead of that of the first host; its window begins `later_ms` later. A
/// host that `died` has no end of the window.
fn host(folder: &Path, name: &str, ahead_ms: u64, later_ms: u64, died: bool) -> PathBuf {
    host_with(folder, name, ahead_ms, later_ms, died, Vec::new())
}

/// As [`host`], with more rows.
fn host_with(folder: &Path, name: &str, ahead_ms: u64, later_ms: u64, died: bool, more: Vec<Row>) -> PathBuf {
    let path = folder.join(format!("{name}.db"));
    let mut store = RunStore::create(&path).expect("a new file");
    let at = |t_ms: u64| t_ms + ahead_ms;
    let window = (at(5_000 + later_ms), at(9_000 + later_ms));
    let second = if died {
        Test { window_end_ms: None, ..test(2, at(3_000), Some(window), None) }
    } else {
        test(2, at(3_000), Some(window), Some(at(10_000 + later_ms)))
    };
    let rows: Vec<Row> = vec![
        run(1_000_000 - ahead_ms).into(),
        Host { name: name.into(), description: String::new() }.into(),
        test(1, at(1_000), None, Some(at(2_000))).into(),
        second.into(),
        sample(name, 2, window.0 + 1_000, 7).into(),
        event(name, Some(2), window.0).into(),
        event(name, None, at(100)).into(),
    ];
    rows.into_iter().chain(more).for_each(|row| store.record(row).expect("kept"));
    store.close().expect("kept");
    path
}

fn merged(folder: &Path, hosts: &[PathBuf]) -> RunData {
    let into = folder.join("run.db");
    let runs = HostRuns::open(hosts).expect("readable");
    assert_eq!(runs.started_unix_ms(), Some(1_000_000));
    runs.write(run(1_000_000), Vec::new(), &into, None).expect("written");
    load(&into).expect("readable")
}

fn sample_ms(data: &RunData, host: &str) -> u64 {
    data.series[&(2, Origin::host(host), Measure::Io(IoClass::TransactionalRead))][0].t_ms
}

#[test]
fn samples_of_hosts_with_different_clocks_cover_the_same_interval() {
    let folder = tempfile::tempdir().expect("a folder");
    // b opened its window 3 ms later than a did.
    let hosts = [host(folder.path(), "a", 0, 0, false), host(folder.path(), "b", 500_000, 3, false)];
    let data = merged(folder.path(), &hosts);
    assert_eq!((sample_ms(&data, "a"), sample_ms(&data, "b")), (6_000, 6_000));
    let test = &data.tests[&2];
    assert_eq!((test.window_start_ms, test.window_end_ms), (Some(5_000), Some(9_000)));
    assert_eq!((test.sessions, test.target_iops), (Some(4), Some(200.0)));
    let events: Vec<(u64, &str)> = data.events.iter().map(|e| (e.t_ms, e.host.as_str())).collect();
    assert_eq!(events, [(5_000, "a"), (100, "a"), (5_000, "b"), (100, "b")]);
    assert_eq!(data.run.ended_ms, Some(10_003));
}

#[test]
fn a_host_that_died_leaves_the_window_of_the_others_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = [host(folder.path(), "a", 0, 0, true), host(folder.path(), "b", 70, 0, false)];
    let test = &merged(folder.path(), &hosts).tests[&2];
    assert_eq!((test.window_end_ms, test.ended_ms), (Some(9_000), Some(10_000)));
    assert_eq!(test.target_iops, Some(200.0), "what it was to carry still counts");
}

#[test]
fn a_host_that_was_out_of_step_is_not_moved_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = [
        host(folder.path(), "a", 0, 0, false),
        host(folder.path(), "b", 40, 0, false),
        host(folder.path(), "c", 0, 4_000, false),
    ];
    let data = merged(folder.path(), &hosts);
    let samples = ["a", "b", "c"].map(|host| sample_ms(&data, host));
    assert_eq!(samples, [6_000, 6_000, 10_000]);
    let named: Vec<&Event> = data.events.iter().filter(|e| e.text.contains("out of step")).collect();
    assert_eq!(named.len(), 1);
    assert_eq!((named[0].host.as_str(), named[0].test), ("c", Some(2)));
    assert!(named[0].text.contains("4.0 s"), "{}", named[0].text);
}

#[test]
fn rows_of_a_run_make_the_same_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut data = load(&host(folder.path(), "a", 9, 0, false)).expect("readable");
    assert!(
        std::mem::take(&mut data.seals).digest.is_some(),
        "rows do not carry the seal of the file that they come from"
    );
    let rows: Vec<Row> = std::iter::once(data.run.clone().into()).chain(data.clone().into_rows()).collect();
    assert_eq!(RunData::from_rows(rows), Some(data));
}

/// Verdict `window_in_common` of these hosts: the host that it names, the measured time in s, the outcome.
fn in_common(dbs: &[PathBuf], hosts: &[&str]) -> (String, Option<f64>, Outcome) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let verdicts = HostRuns::open(dbs).expect("readable").common_windows(&hosts);
    let [verdict] = &verdicts[..] else { panic!("one test has a window: {verdicts:?}") };
    assert_eq!(verdict.rule, "window_in_common");
    (verdict.origin.host.clone(), verdict.measured, verdict.outcome)
}

#[test]
fn a_host_that_was_killed_stopped_or_never_heard_of_holds_no_load_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = host(folder.path(), "a", 0, 0, false);
    let killed = host(folder.path(), "killed", 40, 0, true);
    let judged = in_common(&[a.clone(), killed], &["a", "killed"]);
    assert_eq!(judged, ("killed".to_owned(), Some(2.0), Outcome::Unproved), "its last sample ends after 2 s");
    let gap = Verdict {
        test: Some(2),
        origin: Origin::host("stopped"),
        rule: "window_without_gaps".into(),
        text: String::new(),
        measured: Some(2.5),
        limit: Some(0.0),
        comparison: Comparison::AtMost,
        unit: "s".into(),
        outcome: Outcome::Unproved,
    };
    let stopped = host_with(folder.path(), "stopped", 40, 0, false, vec![gap.into()]);
    let judged = in_common(&[a.clone(), stopped], &["a", "stopped"]);
    assert_eq!(judged, ("stopped".to_owned(), Some(1.5), Outcome::Unproved), "a gap of 2.5 s");
    let b = host(folder.path(), "b", 40, 0, false);
    let judged = in_common(&[a.clone(), b.clone()], &["a", "b", "away"]);
    assert_eq!(judged, ("away".to_owned(), Some(0.0), Outcome::Unproved), "nothing has come of it");
    assert_eq!(in_common(&[a, b], &["a", "b"]).1, Some(4.0));
}

fn environment(host: &str, area: &str, name: &str, value: &str) -> Row {
    let [host, area, name, value] = [host, area, name, value].map(str::to_owned);
    Environment { host, area, name, value, severity: Severity::Info, note: String::new() }.into()
}

#[test]
fn hosts_of_one_machine_and_file_system_are_told_and_none_of_them_can_declare_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = |name: &str, boot_id: &str| {
        let rows = vec![
            environment(name, "System", "Boot id", boot_id),
            environment(name, "Volume V", "Identity", "file system on device 259:2"),
            environment(name, SHARED, "Storage", "a and b share the file system on device 259:2"),
        ];
        host_with(folder.path(), name, 0, 0, false, rows)
    };
    let runs = HostRuns::open(&[part("a", "1"), part("b", "1"), part("c", "2")]).expect("readable");
    let texts: Vec<String> = runs.shared().iter().map(Shared::text).collect();
    assert_eq!(texts, ["a and b run on one machine", "a and b share the file system on device 259:2"]);
    let into = folder.path().join("run.db");
    runs.write(run(1_000_000), Vec::new(), &into, None).expect("written");
    let environment = load(&into).expect("readable").environment;
    assert_eq!(undeclared(&environment).len(), 2, "what hosts declare themselves does not count");
    assert!(environment.iter().all(|row| row.area != SHARED), "{environment:?}");
}

#[test]
fn a_window_that_hosts_did_not_hold_together_is_not_proved() {
    let folder = tempfile::tempdir().expect("a folder");
    let common = |later_ms: u64| {
        let folder = folder.path().join(later_ms.to_string());
        std::fs::create_dir(&folder).expect("a new folder");
        let hosts = [host(&folder, "a", 0, 0, false), host(&folder, "b", 40, later_ms, false)];
        let (_, measured, outcome) = in_common(&hosts, &["a", "b"]);
        (measured, outcome)
    };
    assert_eq!(common(3), (Some(4.0), Outcome::Pass), "they are moved onto each other");
    assert_eq!(common(3_500), (Some(0.5), Outcome::Unproved));
    assert_eq!(common(60_000), (Some(0.0), Outcome::Unproved));
}

/// Checks the evidence of host a after the SQL statement `change`. `Err`: the reason for which it is refused.
fn refused(change: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let db = host(folder.path(), "a", 0, 0, false);
    if !change.is_empty() {
        let changed = std::process::Command::new("python3")
            .args([
                "-c",
                "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()",
            ])
            .arg(&db)
            .arg(change)
            .status();
        assert!(changed.expect("python3 runs").success());
    }
    let tests = ["performance", "performance"];
    let expected =
        Expected { run: "run", host: "a", solution_text: "", tool_version: "1", seed: 1, tests: &tests };
    expected.check(&db)
}

#[test]
fn evidence_of_another_run_host_solution_or_program_is_refused_by_name() {
    assert_eq!(refused(""), Ok(()));
    for (change, why) in [
        ("UPDATE run SET id = 'other'", "another run"),
        ("UPDATE run SET solution_text = 'x'", "another solution file"),
        ("UPDATE run SET seed = '2'", "another seed"),
        ("UPDATE run SET tool_version = '2'", "another version"),
        ("UPDATE run SET world = 'simulated'", "another kind of world"),
        ("UPDATE source SET host = 'b'", "source holds rows of b"),
        ("UPDATE event SET host = 'b'", "event holds rows of b"),
        ("UPDATE test SET kind = 'backup' WHERE ordinal = 2", "test 2 is none of this run"),
        ("UPDATE test SET ordinal = 9 WHERE ordinal = 2", "test 9 is none of this run"),
        ("UPDATE test SET window_start_ms = 1 WHERE ordinal = 2", "test 2 lies outside"),
        ("DROP TABLE verdict", "cannot be read"),
        ("UPDATE event SET text = 'all is well'", "rows differ from their seals: table event"),
        ("DELETE FROM seal", "seals are missing or changed"),
        ("DROP TABLE seal", "seals are missing or changed"),
    ] {
        let refused = refused(change).expect_err(change);
        assert!(refused.contains(why), "{change}: {refused}");
    }
}
