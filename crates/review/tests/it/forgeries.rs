//! Forged runs: what the seals show of each, and what the rows show even without seals.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evidence::report::RunOutcome;
use evidence::{Report, RunStore, SigningKey, load};
use results::{Checksum, DatabaseSize, Ending, Event, Origin, Recorder, Row, Severity, WorldKind};
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

/// Rows of a run that a user stopped in the middle of its stress test.
fn interrupted() -> Vec<Row> {
    let mut rows = rows_of(&Shape { cut: true, ..Shape::default() });
    let Row::Run(mut run) = rows[0].clone() else { panic!("the run comes first") };
    (run.ended_ms, run.ending) = (Some(100_000), Some(Ending::Interrupted));
    rows.push(run.into());
    rows
}

/// Rows of a run in which a checksum found a bad page: in an event, a count and a failed verdict.
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

/// Rows of a run whose process stood still for 5 s in its stress test. What came meanwhile was counted at once, so
/// the window has a gap.
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
    /// Rules that notice the forgery in a file without seals whose reports were rendered again, besides the missing
    /// seals.
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
        let expected = alone.iter().copied().chain(["seal_broken"]).collect();
        assert_eq!(rules(&forged), expected, "{name}: without seals");
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
    let seal = load(&folder.join("run.db")).unwrap().seals.digest.unwrap();
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
        BTreeSet::from(["page_differs", "report_differs", "seal_broken"]),
        "the reports name the seal"
    );
    assert_eq!(signed(&without).map(|finding| finding.rule), Some("signature"));

    // A whole run that is made up agrees with itself. Only the signature is not to be had.
    let made_up = place.path().join("made-up");
    std::fs::create_dir(&made_up).unwrap();
    run_folder(&made_up, rows_of(&Shape::default()), None);
    assert_eq!(rules(&made_up), BTreeSet::new());
    assert_eq!(signed(&made_up).map(|finding| finding.rule), Some("signature"));
    assert_eq!(signed_by(None, &public).map(|finding| finding.rule), Some("signature"));
}

/// Removing the seals is never quieter than changing a row, also after the reports are made again.
#[test]
fn run_without_seals_is_a_finding_that_comes_first() {
    let place = tempfile::tempdir().unwrap();
    run_folder(place.path(), rows_of(&Shape::default()), None);
    let db = place.path().join("run.db");
    let forge = "UPDATE verdict SET outcome = 'fail'; DROP TABLE seal";
    Connection::open(&db).unwrap().execute_batch(forge).unwrap();
    render(place.path());
    let source = review::open(place.path()).unwrap();
    assert_eq!(source.lint().first().map(|finding| finding.rule), Some("seal_broken"));
    assert!(source.misfit().is_some_and(|misfit| misfit.starts_with("seals are missing")));
    let review::Source::Run { report, .. } = source else { panic!("a run") };
    assert_eq!(
        (report.verdict.grade, report.verdict.outcome),
        (results::Grade::Incomplete, RunOutcome::Incomplete)
    );
    assert!(report.verdict.headline.starts_with("The rows differ from their seals"), "{:?}", report.verdict);
}

/// A run that was killed has no ending, and its file is in WAL mode.
#[test]
fn ending_that_is_missing_in_a_closed_file_is_found_though_the_run_was_sealed_again() {
    let place = tempfile::tempdir().unwrap();
    let mut rows = rows_of(&Shape { fails: true, ..Shape::default() });
    for row in &mut rows {
        if let Row::Run(run) = row {
            (run.ending, run.ended_ms) = (None, None);
        }
    }
    run_folder(place.path(), rows, None);
    assert_eq!(rules(place.path()), BTreeSet::from(["ending_missing"]));
    let unsealed = "DELETE FROM seal WHERE test IS NULL";
    Connection::open(place.path().join("run.db")).unwrap().execute_batch(unsealed).unwrap();
    render(place.path());
    assert_eq!(rules(place.path()), BTreeSet::from(["ending_missing"]), "a chain without its end");
}

#[test]
fn edited_junit_file_is_found() {
    let place = tempfile::tempdir().unwrap();
    run_folder(place.path(), rows_of(&Shape { fails: true, ..Shape::default() }), None);
    let file = place.path().join("junit.xml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("<failure ", "<skipped ", 1)).unwrap();
    assert_eq!(rules(place.path()), BTreeSet::from(["page_differs"]));
}

/// A report of this version is made again and compared whole, so that no section can be left out.
#[test]
fn report_that_lost_a_section_is_found() {
    let place = tempfile::tempdir().unwrap();
    run_folder(place.path(), rows_of(&Shape::default()), None);
    let file = place.path().join("report.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let without = |pointer: &str, key: &str, other_program: bool| {
        let mut document = whole.clone();
        if other_program {
            document["program"] = "0.1.9".into();
        }
        let section = document.pointer_mut(pointer).and_then(serde_json::Value::as_object_mut).unwrap();
        assert!(section.remove(key).is_some(), "{pointer}/{key}");
        std::fs::write(&file, document.to_string()).unwrap();
        rules(place.path())
    };
    let found = BTreeSet::from(["report_differs"]);
    for (pointer, key) in [
        ("", "environment"),
        ("", "events"),
        ("", "checks"),
        ("", "program"),
        ("/run", "seal"),
        ("/verdict", "conditions"),
        ("/verdict", "unseen"),
        ("/tests/0", "verdicts"),
    ] {
        assert_eq!(without(pointer, key, false), found, "{pointer}/{key}");
    }
    // Of another version only the fields that came later may be missing. Its page is of that version as well.
    std::fs::remove_file(place.path().join("report.html")).unwrap();
    for (pointer, key) in [("", "environment"), ("", "events"), ("/run", "seal"), ("/verdict", "conditions")]
    {
        assert_eq!(without(pointer, key, true), found, "{pointer}/{key} of another version");
    }
}

/// A run that was sealed again still contradicts its file sizes, its log reads and its solution file.
#[test]
fn amounts_and_hosts_that_were_changed_before_the_seal_are_found() {
    let place = tempfile::tempdir().unwrap();
    let forged = |name: &str, change: &dyn Fn(&mut Row)| {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut rows = rows_of(&Shape::default());
        let sizes = rows.iter().filter_map(|row| match row {
            Row::Checksum(Checksum { test, origin, read, .. }) => {
                let (test, origin, bytes_before) = (*test, origin.clone(), read.bytes);
                Some(DatabaseSize { test, origin, bytes_before, bytes_after: Some(bytes_before) }.into())
            }
            _ => None,
        });
        let sizes: Vec<Row> = sizes.collect();
        let end = rows.len() - 1;
        rows.splice(end..end, sizes);
        rows.iter_mut().for_each(change);
        run_folder(&folder, rows, None);
        rules(&folder)
    };
    assert_eq!(forged("honest", &|_| ()), BTreeSet::new());
    let halved = forged("halved", &|row| {
        if let Row::Checksum(row) = row {
            row.read.pages /= 2;
        }
    });
    assert!(halved.contains("file_size"), "{halved:?}");
    let shorter = forged("shorter", &|row| {
        if let Row::Checksum(Checksum { read, .. }) = row {
            (read.pages, read.bytes) = (read.pages / 2, read.bytes / 2);
            read.bytes_expected = read.bytes_expected.map(|bytes| bytes / 2);
        }
    });
    assert!(shorter.contains("file_size"), "{shorter:?}");
    let more_logs = forged("logs", &|row| match row {
        Row::Recovery(row) => row.logs *= 4,
        Row::Verdict(row) if row.rule == "logs_replayed" => {
            row.measured = row.measured.map(|logs| logs * 4.0)
        }
        _ => {}
    });
    assert!(more_logs.contains("logs_read"), "{more_logs:?}");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../solutions/lenovo-hx7510-30000.toml");
    let solution = std::fs::read_to_string(shipped).unwrap();
    let renamed = forged("renamed", &|row| {
        if let Row::Run(run) = row {
            run.solution_text.clone_from(&solution);
        }
    });
    assert!(renamed.contains("host_unknown"), "mbx1 is no host of that file: {renamed:?}");
}
