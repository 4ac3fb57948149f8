//! What the live view of a run promises, from the rows of this process and from the file of another.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use evidence::RunStore;
use evidence::listing::{self, Standing};
use evidence::live::{Follower, LiveRun, LiveView, open_metrics};
use results::*;
use testkit::rows::load_test;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn rows(shape: &Shape) -> Vec<Row> {
    let mut rows = Vec::new();
    synthetic::record(shape, &mut rows).unwrap();
    rows
}

fn view_of(rows: &[Row]) -> LiveView {
    let mut live = LiveRun::default();
    rows.iter().for_each(|row| live.apply(row));
    live.view().unwrap()
}

/// A run in the middle of its stress test.
fn cut() -> Shape {
    Shape { cut: true, window_s: 60, databases: 6, databases_per_instance: 3, hosts: 2, ..Shape::default() }
}

#[test]
fn the_view_shows_the_newest_second_of_hosts_and_sample_of_databases() {
    let rows = rows(&cut());
    let view = view_of(&rows);
    let running = view.tests.last().unwrap();
    assert_eq!((running.name.as_str(), running.phase, view.ending), ("Stress", "measuring", None));
    assert_eq!(running.window_done, Some(0.5));
    assert_eq!((view.hosts.len(), view.databases.len()), (2, 6));
    assert_eq!(view.limits.len(), 2);
    let newest = |origin: &Origin, class: IoClass| {
        let all = rows.iter().filter_map(|row| if let Row::Sample(s) = row { Some(s) } else { None });
        all.filter(|s| s.origin == *origin && s.measure == Measure::Io(class)).max_by_key(|s| s.t_ms).unwrap()
    };
    for rates in view.hosts.iter().chain(&view.databases) {
        let (reads, writes) = (
            newest(&rates.origin, IoClass::TransactionalRead),
            newest(&rates.origin, IoClass::TransactionalWrite),
        );
        let seconds = reads.interval_ms as f64 / 1e3;
        assert_eq!(
            rates.iops,
            (reads.totals.count + writes.totals.count) as f64 / seconds,
            "{:?}",
            rates.origin
        );
        assert_eq!(rates.read_ms, Some(reads.totals.latency_ns_sum as f64 / reads.totals.count as f64 / 1e6));
        assert_eq!(rates.read_max_ms, Some(reads.totals.latency_ns_max as f64 / 1e6));
    }
    let last = view.history.last().unwrap();
    let both: f64 = view.hosts.iter().map(|host| host.iops).sum();
    assert_eq!(last.iops, both, "the history adds up the hosts");
}

/// The grade is shown only after the end. Before it, the page names what the rest of the run cannot repair.
#[test]
fn a_run_that_goes_on_is_not_judged_and_names_what_is_broken_and_what_is_missing() {
    let judged = |change: &dyn Fn(&mut Row)| {
        let mut rows = rows(&Shape { fails: true, ..cut() });
        rows.iter_mut().for_each(change);
        view_of(&rows).judgement
    };
    let plain = judged(&|_| ());
    assert_eq!((plain.grade, plain.words), (None, "not yet judged"));
    let broken: Vec<&String> = plain.reasons.iter().filter(|reason| !reason.starts_with("Missing")).collect();
    assert_eq!(broken.len(), 1, "{:?}", plain.reasons);
    assert!(
        broken[0].contains("mean latency of transactional page reads") && broken[0].contains("limit of 20")
    );
    assert!(plain.headline.contains("limits kept so far, 1 broken"), "{}", plain.headline);
    let missing = |change: &dyn Fn(&mut Row), wanted: &str| {
        assert!(!plain.reasons.iter().any(|reason| reason.contains(wanted)), "{:?}", plain.reasons);
        let reasons = judged(change).reasons;
        assert!(reasons.iter().any(|reason| reason.contains(wanted)), "{wanted}: {reasons:?}");
    };
    missing(
        &|row| {
            if let Row::Test(test) = row {
                test.target_iops = None;
            }
        },
        "Missing: Performance has no target. Remedy: set target_iops",
    );
    missing(
        &|row| {
            if let Row::Environment(row) = row
                && row.name == "Storage is memory"
            {
                row.severity = Severity::Error;
            }
        },
        "Missing: Volume data1 is in memory. Remedy",
    );
    missing(
        &|row| {
            if let Row::Event(row) = row {
                row.severity = Severity::Error;
            }
        },
        "errors noted",
    );
    missing(
        &|row| {
            if let Row::Rule(row) = row {
                row.name = "unknown".into();
            }
        },
        "Missing: the rules of the run are not recorded",
    );
    missing(
        &|row| {
            if let Row::Verdict(row) = row {
                row.outcome = Outcome::Unproved;
            }
        },
        "is not proved",
    );
    assert!(plain.reasons.iter().any(|reason| reason.contains("Performance is to measure 1 min of 2 h")));
}

#[test]
fn memory_does_not_grow_with_the_run() {
    let view = view_of(&rows(&Shape { window_s: 7_200, sample_s: 15, cut: true, ..Shape::default() }));
    assert!(view.history.len() <= 300 && view.events.len() <= 200);
}

#[test]
fn a_follower_of_the_file_sees_what_the_recorder_saw() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("run.db");
    let rows = rows(&cut());
    let mut store = RunStore::create(&path).unwrap();
    let mut followed = LiveRun::default();
    let mut follower: Option<Follower> = None;
    // In pieces that end anywhere, also in the middle of a second.
    for piece in rows.chunks(rows.len() / 23 + 1) {
        piece.iter().for_each(|row| store.record(row.clone()).unwrap());
        store.flush().unwrap();
        let follower = follower.get_or_insert_with(|| Follower::open(&path).unwrap());
        follower.rows().unwrap().iter().for_each(|row| followed.apply(row));
    }
    let (seen, whole) = (followed.view().unwrap(), view_of(&rows));
    assert_eq!((&seen.tests, &seen.events, seen.failed), (&whole.tests, &whole.events, whole.failed));
    assert_eq!((&seen.databases, &seen.limits), (&whole.databases, &whole.limits));
    assert_eq!(seen.history.last(), whole.history.last());
    assert_eq!(listing::list(place.path(), &mut Default::default()).unwrap()[0].standing, Standing::Running);
    let mut late = LiveRun::default();
    Follower::open(&path).unwrap().rows().unwrap().iter().for_each(|row| late.apply(row));
    assert_eq!(late.view().unwrap().databases, whole.databases, "one that looks late sees the same");
}

#[test]
fn metrics_are_well_formed_and_names_cannot_break_a_label() {
    let hostile = "\"} 1\nevil_metric{x=\"\\";
    let view = view_of(&rows(&Shape { hostile, ..cut() }));
    let text = open_metrics(std::slice::from_ref(&view));
    assert!(text.ends_with("# EOF\n") && text.contains("proofload_host_transactional_io_per_second{"));
    for line in text.lines() {
        assert!(line.starts_with("# ") || line.starts_with("proofload_"), "{line}");
        if let Some((_, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) {
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        }
    }
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect::<Vec<_>>();
    let once: std::collections::BTreeSet<_> = types.iter().collect();
    assert_eq!(types.len(), once.len(), "each metric is described once");
    assert_eq!(open_metrics(&[]), "# EOF\n");
}

/// The store is left in WAL mode, as that of a running run, but without an end row and without a WAL file.
#[test]
fn a_run_whose_writer_failed_is_not_running_and_looking_at_it_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("a run # 1?%41");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("run.db");
    let mut store = RunStore::create(&path).unwrap();
    synthetic::record(&cut(), &mut store).unwrap();
    store.flush().unwrap();
    let verdict = rows(&Shape::default()).into_iter().find(|row| matches!(row, Row::Verdict(_))).unwrap();
    let Row::Verdict(verdict) = verdict else { unreachable!() };
    store.record(Verdict { measured: Some(f64::NAN), ..verdict }.into()).unwrap();
    assert!(store.flush().is_err());
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap()[18..20], [2, 2]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let files = || {
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = files();
    assert_eq!(before.len(), 1, "{before:?}");
    let standing = || listing::list(place.path(), &mut Default::default()).unwrap()[0].standing;
    for _ in 0..2 {
        assert_eq!(standing(), Standing::Incomplete);
        let mut live = LiveRun::default();
        Follower::open(&path).unwrap().rows().unwrap().iter().for_each(|row| live.apply(row));
        assert_eq!(live.view().unwrap().hosts.len(), 2);
        assert_eq!(evidence::load(&path).unwrap().hosts.len(), 2);
    }
    assert_eq!(files(), before);
    // What an earlier version of this program left by looking.
    std::fs::write(folder.join("run.db-wal"), "").unwrap();
    assert_eq!(standing(), Standing::Incomplete);
    assert_eq!(files().len(), 2);
}

/// SQLite expects the WAL file beside the database file itself, not beside a link to it.
#[test]
fn a_running_run_is_read_with_its_log_through_a_link_too() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.db");
    let mut store = RunStore::create(&path).unwrap();
    synthetic::record(&cut(), &mut store).unwrap();
    store.flush().unwrap();
    let link = place.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(evidence::load(&link).unwrap(), evidence::load(&path).unwrap());
    store.close().unwrap();
}

#[test]
fn runs_are_listed_with_how_they_stand() {
    let place = tempfile::tempdir().unwrap();
    for (id, shape) in [
        ("1-pass", Shape::default()),
        ("2-fail", Shape { fails: true, ..Shape::default() }),
        ("3-killed", Shape { cut: true, ..Shape::default() }),
    ] {
        std::fs::create_dir(place.path().join(id)).unwrap();
        let mut store = RunStore::create(&place.path().join(id).join("run.db")).unwrap();
        synthetic::record(&shape, &mut store).unwrap();
        store.close().unwrap();
    }
    // Completed, but a test of it never ended.
    std::fs::create_dir(place.path().join("0-open")).unwrap();
    let mut store = RunStore::create(&place.path().join("0-open/run.db")).unwrap();
    for mut row in rows(&Shape::default()) {
        if let Row::Test(test) = &mut row
            && test.kind == "stress"
        {
            test.ended_ms = None;
        }
        store.record(row).unwrap();
    }
    store.close().unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    let killed = std::fs::File::options().write(true).open(place.path().join("3-killed/run.db")).unwrap();
    killed.set_modified(old).unwrap();
    std::fs::create_dir(place.path().join("4-broken")).unwrap();
    std::fs::write(place.path().join("4-broken/run.db"), "no database").unwrap();
    std::fs::create_dir(place.path().join("5-no-run")).unwrap();
    let runs = listing::list(place.path(), &mut Default::default()).unwrap();
    let told: Vec<(&str, Standing)> = runs.iter().map(|run| (run.id.as_str(), run.standing)).collect();
    assert_eq!(
        told,
        [
            ("4-broken", Standing::Unreadable),
            ("3-killed", Standing::Incomplete),
            ("2-fail", Standing::Failed),
            ("1-pass", Standing::Held),
            ("0-open", Standing::Incomplete),
        ]
    );
    assert!(runs[3].passed > 0 && runs[3].duration_s.is_some() && runs[3].started.starts_with("2026-11-21T"));
    assert!(
        listing::find(place.path(), "../1-pass").is_none() && listing::find(place.path(), "1-pass").is_some()
    );
}

/// A slice of 200 ms with few operations must not be drawn as a gap or a peak.
#[test]
fn history_and_rates_never_show_a_slice_shorter_than_half_an_interval() {
    let slice = |t_ms: u64, interval_ms: u64, count: u64| {
        let totals = IoTotals { count, bytes: count * 32_768, latency_ns_sum: count, latency_ns_max: 1 };
        let (origin, measure) = (Origin::host("h"), IoClass::TransactionalRead.into());
        Row::from(Sample { test: 1, origin, measure, t_ms, interval_ms, totals })
    };
    let begins = || vec![Row::from(testkit::rows::run()), load_test(60_000, 1_000).into()];
    let alone = view_of(&[begins(), vec![slice(0, 200, 1)]].concat());
    assert_eq!((alone.history.len(), alone.hosts.len()), (0, 0), "a short slice alone is not shown");
    let seconds =
        [(0, 1_000, 100), (1_000, 1_000, 100), (2_000, 200, 20), (2_200, 1_000, 100), (3_200, 300, 30)];
    for newest in 1..=seconds.len() {
        let slices = seconds[..newest].iter().map(|&(t_ms, length_ms, count)| slice(t_ms, length_ms, count));
        let view = view_of(&[begins(), slices.collect()].concat());
        let shown: Vec<f64> = view.history.iter().map(|second| second.iops).collect();
        assert!(!shown.is_empty() && shown.iter().all(|iops| (iops - 100.0).abs() < 1e-9), "{shown:?}");
        assert!((view.hosts[0].iops - 100.0).abs() < 1e-9, "{:?}", view.hosts);
    }
}
