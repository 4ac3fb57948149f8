//! Forged runs: what the seals show of each, and what the rows show even without seals.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evidence::{Report, RunStore, SigningKey, load};
use results::{Ending, Event, Origin, Recorder, Row, Severity, WorldKind};
use review::lint::signed_by;
use rusqlite::Connection;
use testkit::synthetic;
use testkit::synthetic::Shape;

/// Records `rows` into a run folder, sealed, with its report.
fn run_folder(folder: &Path, rows: Vec<Row>, key: Option<SigningKey>) {
    let mut store = RunStore::create_signed(&folder.join("run.db"), key).unwrap();
    rows.into_iter().for_each(|row| store.record(row).unwrap());
    store.close().unwrap();
    render(folder);
}

fn render(folder: &Path) {
    Report::new(&load(&folder.join("run.db")).unwrap()).unwrap().write(folder).unwrap();
}

fn rows_of(shape: &Shape) -> Vec<Row> {
    let mut rows = Vec::new();
    synthetic::record(shape, &mut rows).unwrap();
    rows
}

/// Someone stopped the run in the middle of its stress test.
fn interrupted() -> Vec<Row> {
    let mut rows = rows_of(&Shape { cut: true, ..Shape::default() });
    let Row::Run(mut run) = rows[0].clone() else { panic!("the run comes first") };
    (run.ended_ms, run.ending) = (Some(100_000), Some(Ending::Interrupted));
    rows.push(run.into());
    rows
}

/// A checksum found a bad page: the event names it, a row counts it and a verdict fails.
fn damaged() -> Vec<Row> {
    let mut rows = rows_of(&Shape::default());
    let bad = Origin::database("mbx1", "db001", "db001");
    for row in &mut rows {
        match row {
            Row::Checksum(row) if row.test == 4 && row.origin == bad => row.read.bad_pages = 1,
            Row::Verdict(row) if row.test == Some(4) => {
                (row.measured, row.outcome) = (Some(1.0), results::Outcome::Fail);
            }
            _ => {}
        }
    }
    let text = "db001: page 17: the checksum is wrong".to_owned();
    let (severity, host) = (Severity::Error, "mbx1".to_owned());
    rows.insert(rows.len() - 1, Event { t_ms: 1, severity, test: Some(4), host, text }.into());
    rows
}

/// The process stood still for 5 s of its stress test: what came then was counted at once, and the window has a gap.
fn stopped() -> Vec<Row> {
    let mut rows = rows_of(&Shape::default());
    let start = rows.iter().find_map(|row| match row {
        Row::Test(test) if test.ordinal == 5 => test.window_start_ms,
        _ => None,
    });
    let stood_still = start.map(|start| start + 10_000..start + 15_000).expect("a window");
    let at_once = |t_ms: &mut u64, interval_ms: &mut u64| {
        if stood_still.contains(t_ms) {
            (*t_ms, *interval_ms) = (stood_still.start, 5_000);
        }
    };
    for row in &mut rows {
        match row {
            Row::Sample(row) if row.test == 5 && row.origin.instance.is_none() => {
                at_once(&mut row.t_ms, &mut row.interval_ms);
            }
            Row::CounterSample(row) if row.test == 5 && row.origin.instance.is_none() => {
                at_once(&mut row.t_ms, &mut row.interval_ms);
            }
            _ => {}
        }
    }
    let origin = Origin::host("mbx1");
    let verdict = results::Verdict {
        test: Some(5),
        origin,
        rule: "window_without_gaps".into(),
        text: "the load generator runs throughout".into(),
        measured: Some(5.0),
        limit: Some(0.0),
        comparison: results::Comparison::AtMost,
        unit: "s".into(),
        outcome: results::Outcome::Unproved,
    };
    rows.insert(rows.len() - 1, verdict.into());
    rows
}

fn rules(folder: &Path) -> BTreeSet<&'static str> {
    review::open(folder).unwrap().lint().iter().map(|finding| finding.rule).collect()
}

fn copy(from: &Path, to: &Path) -> PathBuf {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to.to_owned()
}

struct Forgery {
    name: &'static str,
    rows: fn() -> Vec<Row>,
    sql: &'static str,
    /// What shows in a file without seals, whose reports were made again.
    alone: &'static [&'static str],
}

const FORGERIES: &[Forgery] = &[
    Forgery {
        name: "rows of failed verdicts deleted",
        rows: || rows_of(&Shape { fails: true, ..Shape::default() }),
        sql: "DELETE FROM verdict WHERE outcome = 'fail'",
        alone: &["verdict_missing"],
    },
    Forgery {
        name: "interrupted made completed, unfinished test deleted",
        rows: interrupted,
        sql: "UPDATE run SET ending = 'completed'; DELETE FROM test WHERE ended_ms IS NULL",
        alone: &["stray_rows"],
    },
    Forgery {
        name: "the same with every row of the unfinished test",
        rows: interrupted,
        sql: "UPDATE run SET ending = 'completed'; DELETE FROM test WHERE ordinal = 5;
              DELETE FROM series WHERE source IN (SELECT id FROM source WHERE test = 5);
              DELETE FROM histogram WHERE source IN (SELECT id FROM source WHERE test = 5);
              DELETE FROM source WHERE test = 5; DELETE FROM database_size WHERE test = 5;
              DELETE FROM event WHERE test = 5",
        alone: &[],
    },
    Forgery {
        name: "checksum and verdict zeroed while the event names the page",
        rows: damaged,
        sql: "UPDATE checksum SET bad_pages = 0; UPDATE verdict SET measured = 0, outcome = 'pass' WHERE test = 4",
        alone: &["error_unjudged"],
    },
    Forgery {
        name: "verdict zeroed while the checksum counts the page",
        rows: damaged,
        sql: "UPDATE verdict SET measured = 0, outcome = 'pass' WHERE test = 4",
        alone: &["bad_pages", "error_unjudged"],
    },
    Forgery {
        name: "event deleted, checksum and verdict zeroed",
        rows: damaged,
        sql: "UPDATE checksum SET bad_pages = 0; UPDATE verdict SET measured = 0, outcome = 'pass' WHERE test = 4;
              DELETE FROM event WHERE severity = 'error'",
        alone: &[],
    },
    Forgery {
        name: "limits, verdict and solution text changed together",
        rows: || rows_of(&Shape { fails: true, ..Shape::default() }),
        sql: "UPDATE test SET limits = replace(limits, '20.0', '40.0');
              UPDATE verdict SET threshold = 40, outcome = 'pass' WHERE rule = 'read_latency_avg';
              UPDATE run SET solution_text = solution_text || '[thresholds]'",
        alone: &[],
    },
    Forgery {
        name: "limit of a verdict changed",
        rows: || rows_of(&Shape { fails: true, ..Shape::default() }),
        sql: "UPDATE verdict SET threshold = 40, outcome = 'pass' WHERE rule = 'read_latency_avg'",
        alone: &["limit_announced", "verdict_missing"],
    },
    Forgery {
        name: "durations, sizes and a target put into the solution text",
        rows: || rows_of(&Shape::default()),
        sql: "UPDATE run SET solution_text = solution_text || '[load] target_iops = 9000'",
        alone: &[],
    },
    Forgery {
        name: "simulated run relabelled real",
        rows: || rows_of(&Shape { world: WorldKind::Simulated, ..Shape::default() }),
        sql: "UPDATE run SET world = 'real', world_detail = 'io_uring, direct'",
        alone: &["world_mixed"],
    },
    Forgery {
        name: "histograms deleted",
        rows: || rows_of(&Shape::default()),
        sql: "DELETE FROM histogram",
        alone: &["distribution_count"],
    },
    Forgery {
        name: "samples of one database put in the place of another's",
        rows: || rows_of(&Shape { fails: true, ..Shape::default() }),
        sql: "UPDATE series SET samples = (SELECT samples FROM series JOIN source ON id = source
                  WHERE test = 5 AND measure = 'transactional_write' AND database = 'db001')
              WHERE source IN (SELECT id FROM source
                  WHERE test = 5 AND measure = 'transactional_read' AND database IS NOT NULL)",
        alone: &["instance_sum", "iops_sum"],
    },
    Forgery {
        name: "gap in a window passed",
        rows: stopped,
        sql: "UPDATE verdict SET measured = 0, outcome = 'pass' WHERE rule = 'window_without_gaps'",
        alone: &["window_gap"],
    },
    Forgery {
        name: "warning deleted",
        rows: || rows_of(&Shape::default()),
        sql: "DELETE FROM environment WHERE severity = 'warning'; DELETE FROM event WHERE severity = 'warning'",
        alone: &[],
    },
];

#[test]
fn every_forgery_is_shown_by_the_seals_and_those_that_contradict_rows_without_them() {
    let place = tempfile::tempdir().unwrap();
    for (n, Forgery { name, rows, sql, alone }) in FORGERIES.iter().enumerate() {
        let folder = place.path().join(n.to_string());
        std::fs::create_dir(&folder).unwrap();
        run_folder(&folder, rows(), None);
        assert_eq!(rules(&folder), BTreeSet::new(), "{name}: the run agrees with itself before");

        let forged = copy(&folder, &place.path().join(format!("{n}-forged")));
        let db = Connection::open(forged.join("run.db")).unwrap();
        db.execute_batch(&format!("PRAGMA synchronous = OFF; {sql}")).unwrap();
        render(&forged);
        let found = rules(&forged);
        assert!(found.contains("rows_changed"), "{name}: {found:?}");

        db.execute_batch("DROP TABLE seal").unwrap();
        render(&forged);
        assert_eq!(rules(&forged), alone.iter().copied().collect(), "{name}: without seals");
    }
}

#[test]
fn edited_page_and_edited_report_are_found() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    run_folder(&folder, rows_of(&Shape { fails: true, ..Shape::default() }), None);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let with_page = |page: &str| {
        std::fs::write(folder.join("report.html"), page).unwrap();
        rules(&folder)
    };
    assert_eq!(with_page(&page.replacen("fail", "pass", 1)), BTreeSet::from(["page_differs"]));
    assert_eq!(
        with_page(&page[..page.len() - 9]),
        BTreeSet::from(["page_differs"]),
        "a page that is cut off"
    );
    // Another version prints other pages: only the report that it was made from is compared.
    let (start, rest) = page.split_once("content=\"Proofload ").unwrap();
    let (_, rest) = rest.split_once('"').unwrap();
    let other = format!("{start}content=\"Proofload 9.9.9\"{rest}");
    assert_eq!(with_page(&other), BTreeSet::new());
    let (before, digest) = other.split_once("name=\"proofload-report\" content=\"").unwrap();
    let elsewhere =
        format!("{before}name=\"proofload-report\" content=\"{}{}", "0".repeat(64), &digest[64..]);
    assert_eq!(with_page(&elsewhere), BTreeSet::from(["page_differs"]));
    with_page(&page);
    // The report of another run, made by the same program.
    let json = std::fs::read_to_string(folder.join("report.json")).unwrap();
    let seal = load(&folder.join("run.db")).unwrap().seal.unwrap();
    std::fs::write(folder.join("report.json"), json.replace(&seal, &"0".repeat(64))).unwrap();
    assert_eq!(rules(&folder), BTreeSet::from(["report_differs"]));
}

#[test]
fn deleted_seals_are_found_and_a_run_that_was_sealed_again_is_not_signed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    let key = SigningKey::create(&place.path().join("key")).unwrap();
    let public = key.public();
    run_folder(&folder, damaged(), Some(key));
    let signed = |folder: &Path| signed_by(review::open(folder).unwrap().seals(), &public);
    assert_eq!((rules(&folder), signed(&folder)), (BTreeSet::new(), None));

    let without = copy(&folder, &place.path().join("without"));
    Connection::open(without.join("run.db")).unwrap().execute_batch("DELETE FROM seal").unwrap();
    assert!(rules(&without).contains("seal_broken"));
    Connection::open(without.join("run.db")).unwrap().execute_batch("DROP TABLE seal").unwrap();
    assert_eq!(
        rules(&without),
        BTreeSet::from(["page_differs", "report_differs"]),
        "the reports name the seal"
    );
    assert_eq!(signed(&without).map(|finding| finding.rule), Some("signature"));

    // A whole run that somebody makes up agrees with itself. Only the signature is not to be had.
    let made_up = place.path().join("made-up");
    std::fs::create_dir(&made_up).unwrap();
    run_folder(&made_up, rows_of(&Shape::default()), None);
    assert_eq!(rules(&made_up), BTreeSet::new());
    assert_eq!(signed(&made_up).map(|finding| finding.rule), Some("signature"));
    assert_eq!(signed_by(None, &public).map(|finding| finding.rule), Some("signature"));
}

/// An older file has neither seals nor host counters of this form, and is read as ever.
#[test]
fn run_of_a_build_without_seals_is_not_sealed_and_contradicts_nothing() {
    let place = tempfile::tempdir().unwrap();
    run_folder(place.path(), rows_of(&Shape::default()), None);
    Connection::open(place.path().join("run.db")).unwrap().execute_batch("DROP TABLE seal").unwrap();
    render(place.path());
    let source = review::open(place.path()).unwrap();
    assert_eq!(source.lint(), []);
    assert_eq!(source.seals().unwrap().digest, None);
}
