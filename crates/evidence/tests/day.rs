//! The largest run that is promised: 24 hours of 56 databases. A program of its own, so that its memory is its own.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests face the operating system")]

use std::time::Instant;

use evidence::{Report, RunStore, load};
use results::{RecordError, Recorder, Row};
use testkit::synthetic;
use testkit::synthetic::Shape;

/// A store that notes the memory of this program every this many rows.
struct Watched {
    store: RunStore,
    rows: u64,
    resident_kib: Vec<u64>,
}

const EVERY: u64 = 100_000;

impl Recorder for Watched {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.rows += 1;
        if self.rows.is_multiple_of(EVERY) {
            self.resident_kib.push(resident_kib());
        }
        self.store.record(row)
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.store.flush()
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
}

#[test]
fn a_day_with_56_databases_stays_small() {
    let place = tempfile::tempdir().expect("writable");
    let path = place.path().join("run.db");
    let mut now = Instant::now();
    let mut lap = || std::mem::replace(&mut now, Instant::now()).elapsed();
    let store = RunStore::create(&path).expect("a new store");
    let mut watched = Watched { store, rows: 0, resident_kib: Vec::new() };
    let shape = Shape { databases: 56, window_s: 86_400, sample_s: 15, ..Shape::default() };
    synthetic::record(&shape, &mut watched).expect("recorded");
    watched.store.close().expect("closed");
    let resident = &watched.resident_kib;
    println!(
        "{} rows recorded in {:?}; memory in KiB, every {EVERY} rows: {resident:?}",
        watched.rows,
        lap()
    );
    assert!(resident.len() >= 20, "a run long enough to tell");
    // The first fifth fills the buffers; a recorder that kept its rows would hold half a gigabyte by the end.
    // Where the disk is slow at times, 65,536 rows of some 400 bytes may wait for it, and what held them is not
    // given back to the system.
    let (early, late) = resident.split_at(resident.len() / 5);
    let (early, late) = (early.iter().max().expect("some"), late.iter().max().expect("some"));
    assert!(late - early.min(late) < 64 * 1024, "memory grows from {early} to {late} KiB");
    let data = load(&path).expect("readable");
    println!("loaded in {:?}", lap());
    let report = Report::new(&data).expect("a report");
    println!("analysed in {:?}", lap());
    let (html, json) = (report.html().expect("a page"), report.json());
    println!("rendered in {:?}", lap());
    let db_bytes = std::fs::metadata(&path).expect("there").len();
    println!("run.db {db_bytes} bytes, html {} bytes, json {} bytes", html.len(), json.len());
    assert!(db_bytes < 200_000_000);
    assert!(html.len() < 15_000_000);
}
