//! What `run.db` promises.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests face the operating system")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use evidence::live::Follower;
use evidence::{Chain, Report, RunData, RunStore, StoreError, load};
use results::*;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn record(shape: &Shape, path: &Path) {
    let mut store = RunStore::create(path).unwrap();
    synthetic::record(shape, &mut store).unwrap();
    store.close().unwrap();
}

#[test]
fn every_row_comes_back_as_it_was_recorded() {
    let place = tempfile::tempdir().unwrap();
    for (n, shape) in [
        Shape { fails: true, hosts: 2, databases: 6, databases_per_instance: 3, ..Shape::default() },
        Shape { cut: true, hostile: "'; DROP TABLE run; --\u{1F4A5}", ..Shape::default() },
    ]
    .iter()
    .enumerate()
    {
        let path = place.path().join(format!("{n}.db"));
        record(shape, &path);
        let mut rows = Vec::new();
        synthetic::record(shape, &mut rows).unwrap();
        let kinds: std::collections::BTreeSet<String> =
            rows.iter().map(|row: &Row| format!("{row:?}").split('(').next().unwrap().to_owned()).collect();
        assert!(n > 0 || kinds.len() == 20, "the fixture has rows of every kind: {kinds:?}");
        let mut kept = load(&path).unwrap();
        let mut recorded = RunData::from_rows(rows).unwrap();
        // A row that replaces another may change its place in the file.
        for data in [&mut kept, &mut recorded] {
            data.sizes.sort_by_key(|size| (size.test, size.origin.clone()));
        }
        assert!(std::mem::take(&mut kept.seals).digest.is_some());
        assert_eq!(kept, recorded);
    }
}

#[test]
fn a_closed_store_is_one_file_and_is_never_recorded_into_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.db");
    record(&Shape::default(), &path);
    let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["run.db"]);
    // File format 1: a reader needs no right to write beside it, as it would in WAL mode (2).
    assert_eq!(std::fs::read(&path).unwrap()[18..20], [1, 1]);
    assert!(matches!(RunStore::create(&path), Err(StoreError::Exists(_))));
}

#[test]
fn a_run_that_somebody_reads_to_its_end_and_beyond_keeps_all_of_it() {
    let place = tempfile::tempdir().unwrap();
    for (name, leaves) in [("stays", false), ("leaves", true)] {
        let path = place.path().join(name);
        let mut store = RunStore::create(&path).unwrap();
        synthetic::record(&Shape::default(), &mut store).unwrap();
        store.flush().unwrap();
        let mut follower = Follower::open(&path).unwrap();
        assert!(!follower.rows().unwrap().is_empty());
        let closing = std::thread::spawn(move || store.close());
        let reader = match leaves {
            true => {
                std::thread::sleep(Duration::from_millis(300));
                drop(follower);
                None
            }
            false => Some(follower),
        };
        closing.join().unwrap().unwrap();
        assert!(load(&path).unwrap().run.ended_ms.is_some(), "{name}");
        // A copy of the file alone is complete.
        let copy = place.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        assert!(load(&copy).unwrap().run.ended_ms.is_some(), "{name}");
        std::fs::remove_file(copy).unwrap();
        drop(reader);
    }
}

#[test]
fn foreign_and_newer_files_are_refused_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    std::fs::write(&path, "this is no database, and it is longer than the header of one ".repeat(8)).unwrap();
    assert!(matches!(load(&path), Err(StoreError::NotARun(_))));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(load(&path), Err(StoreError::NotARun(_))));
    assert!(matches!(load(&place.path().join("none")), Err(StoreError::Sqlite { .. })));
    let path = place.path().join("run.db");
    record(&Shape::default(), &path);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE series SET samples = X'FF' WHERE source = 1", []).unwrap();
    assert!(matches!(load(&path), Err(StoreError::Damaged { .. })), "a damaged block");
    db.pragma_update(None, "user_version", 2).unwrap();
    assert!(matches!(load(&path), Err(StoreError::Version { version: 2, .. })));
}

#[test]
fn what_is_no_number_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut store = RunStore::create(&place.path().join("run.db")).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    synthetic::record(&Shape::default(), &mut rows).unwrap();
    store.record(rows[0].clone()).unwrap();
    let verdict = rows.iter().find_map(|row| if let Row::Verdict(v) = row { Some(v.clone()) } else { None });
    let mut verdict = verdict.unwrap();
    verdict.measured = Some(f64::NAN);
    store.record(verdict.into()).unwrap();
    assert!(store.flush().is_err(), "the error is known at the flush at the latest");
}

/// Child process that the next test kills; it does nothing when run as a test.
#[test]
#[ignore = "run by a_killed_run_keeps_everything_up_to_its_last_second"]
fn child_that_records_until_it_is_killed() {
    let Some(path) = std::env::var_os("PROOFLOAD_TEST_RUN_DB") else { return };
    let mut store = RunStore::create(Path::new(&path)).unwrap();
    synthetic::record(&Shape { cut: true, ..Shape::default() }, &mut Unflushed(&mut store)).unwrap();
    // Nothing else is recorded from here on: the store has to commit by itself.
    println!("recorded");
    std::thread::sleep(Duration::from_secs(60));
}

/// Recorder that does not wait until the store has written its rows, as in a run that is killed.
struct Unflushed<'a>(&'a mut RunStore);

impl Recorder for Unflushed<'_> {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.0.record(row)
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        Ok(())
    }
}

#[test]
fn a_killed_run_keeps_everything_up_to_its_last_second() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "store::child_that_records_until_it_is_killed", "--nocapture"])
        .env("PROOFLOAD_TEST_RUN_DB", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let recorded =
        std::io::BufRead::lines(output).map_while(Result::ok).any(|line| line.contains("recorded"));
    assert!(recorded);
    // The promise is one second; a busy machine may schedule the commit late.
    let mut rows = Vec::new();
    synthetic::record(&Shape { cut: true, ..Shape::default() }, &mut rows).unwrap();
    let expected = RunData::from_rows(rows).unwrap();
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(100));
        if load(&path).is_ok_and(|data| RunData { seals: Chain::default(), ..data } == expected) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let data = load(&path).unwrap();
    assert_eq!(RunData { seals: Chain::default(), ..data.clone() }, expected);
    let report = Report::new(&data).unwrap();
    assert_eq!(report.verdict.grade, Grade::Incomplete);
    let stress = report.tests.last().unwrap();
    assert!(!stress.ended && stress.window.unwrap().cut);
    assert_eq!(stress.window.unwrap().duration_s, 10.0, "half of the window was recorded");
    assert!(stress.throughput.unwrap().transactional_iops > 0.0);
    assert!(stress.measures[0].percentiles.p50_ms.is_some());
    report.write(place.path()).unwrap();
}
