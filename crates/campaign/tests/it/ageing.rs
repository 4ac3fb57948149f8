//! A database that is used for a day: what a batch, the space and a recovery cost at its end, beside the first hour.
//!
//! Page images grow as pages change, deleted rows leave holes, pages split and merge, the index loses its
//! order. The simulated world keeps a page as template and edits, or as bytes when there are too many; so does
//! the log. `PROOFLOAD_HOURS=24` runs that many virtual hours of the published shape (`make soak`); without it
//! every page of a small database changes about four times.
#![allow(clippy::print_stdout, reason = "prints the table of docs/lab/ageing.md")]

use crate::shape::{Aged, Setup, age};
use results::IoClass;
use workload::mix::Mix;
use world::Duration;

/// Setup with two sessions. With the pause `rest` after each batch they do about as many batches as the sessions of
/// the published servers.
fn setup(bytes: u64, cache_bytes: u64, rest: Duration) -> Setup {
    Setup {
        root: "",
        databases: 1,
        bytes,
        cache_bytes,
        mix: Mix::EXCHANGE_2010,
        sessions: 2,
        warm_up: 0,
        batches: 0,
        is_instant: false,
        rest,
        background: true,
        seed: 1,
    }
}

/// Name of a figure, and the function that computes it for one part of the load.
type Figure = (&'static str, fn(&Aged) -> f64);

const FIGURES: [Figure; 10] = [
    ("batches", |aged| aged.counted.batches as f64),
    ("page reads per batch", |aged| aged.counted.per_batch(IoClass::TransactionalRead)),
    ("page writes per batch", |aged| aged.counted.per_batch(IoClass::TransactionalWrite)),
    ("pages written per batch", |aged| aged.counted.pages_per_batch(IoClass::TransactionalWrite)),
    ("log writes per batch", |aged| aged.counted.per_batch(IoClass::LogWrite)),
    ("log file KiB per batch", |aged| aged.counted.log_file_kib_per_batch()),
    ("log KiB written per batch", |aged| aged.counted.log_kib_written_per_batch()),
    ("growth B per batch", |aged| aged.counted.growth_per_batch()),
    ("pages of the database", |aged| f64::from(aged.pages.0)),
    ("pages in use", |aged| f64::from(aged.pages.1)),
];

const RECOVERY: [Figure; 5] = [
    ("logs replayed", |aged| f64::from(aged.replayed.as_ref().unwrap().report.logs_replayed)),
    ("page reads per full log", |aged| {
        aged.replayed.as_ref().unwrap().per_full_log(IoClass::TransactionalRead)
    }),
    ("page changes per full log", |aged| {
        let replayed = aged.replayed.as_ref().unwrap();
        replayed.report.changes_applied as f64 / replayed.full_logs()
    }),
    ("redo s per full log", |aged| {
        let replayed = aged.replayed.as_ref().unwrap();
        replayed.report.redo_seconds / replayed.full_logs()
    }),
    ("redo, writes and undo s", |aged| {
        let report = &aged.replayed.as_ref().unwrap().report;
        report.redo_seconds + report.write_seconds + report.undo_seconds
    }),
];

fn run(setup: &Setup, part: Duration, parts: u32) -> Vec<Aged> {
    let (simulation, world) = setup.simulation();
    let aged = simulation.run_until(age(&world, setup, part, parts)).unwrap();
    let shown = [0, aged.len() / 4, aged.len() / 2, aged.len() - 1];
    println!("| | {} |", shown.map(|at| format!("part {}", at + 1)).join(" | "));
    for (name, figure) in FIGURES {
        println!("| {name} | {} |", shown.map(|at| format!("{:.2}", figure(&aged[at]))).join(" | "));
    }
    for (name, figure) in RECOVERY {
        let ends = [0, aged.len() - 1].map(|at| format!("{:.2}", figure(&aged[at])));
        println!("| {name} | {} | | {} |", ends[0], ends[1]);
    }
    aged
}

/// Asserts that each named figure of the last part equals that of the first part within a tolerance, percent.
fn assert_as_at_first(aged: &[Aged], figures: &[Figure], names: &[(&str, f64)]) {
    for (wanted, tolerance_percent) in names {
        let (_, figure) = figures.iter().find(|(name, _)| name == wanted).expect("it is a figure");
        let (first, last) = (figure(&aged[0]), figure(&aged[aged.len() - 1]));
        let change_percent = (last / first - 1.0) * 100.0;
        assert!(
            change_percent.abs() <= *tolerance_percent,
            "{wanted}: {first:.2} at first, {last:.2} at last, {change_percent:+.1} %"
        );
    }
}

/// Tolerances, percent. A page image in the log names each entry that has changed since the template, so it grows
/// until most entries have changed. In the small database most have changed at the end.
const PUBLISHED_SHAPE: [(&str, f64); 6] = [
    ("page reads per batch", 3.0),
    ("page writes per batch", 5.0),
    ("log writes per batch", 3.0),
    ("log file KiB per batch", 3.0),
    ("log KiB written per batch", 3.0),
    ("growth B per batch", 15.0),
];
const SMALL_DATABASE: [(&str, f64); 5] = [
    ("page reads per batch", 15.0),
    ("page writes per batch", 15.0),
    ("log writes per batch", 10.0),
    ("log file KiB per batch", 25.0),
    ("growth B per batch", 15.0),
];

#[test]
fn an_aged_database_costs_what_a_new_one_does() {
    let hours = std::env::var("PROOFLOAD_HOURS").ok().map(|hours| hours.parse().expect("a number"));
    let (aged, limits) = match hours {
        Some(hours) => {
            let setup = setup(512 << 30, 256 << 20, Duration::from_secs(1));
            (run(&setup, Duration::from_secs(3600), hours), &PUBLISHED_SHAPE[..])
        }
        None => {
            let setup = setup(256 << 20, 4 << 20, Duration::ZERO);
            (run(&setup, Duration::from_secs(30), 6), &SMALL_DATABASE[..])
        }
    };
    assert_as_at_first(&aged, &FIGURES, limits);
    assert_as_at_first(&aged, &RECOVERY, &[("page reads per full log", 15.0), ("redo s per full log", 20.0)]);
    let unused = |aged: &Aged| f64::from(aged.pages.0 - aged.pages.1) / f64::from(aged.pages.0);
    assert!(unused(&aged[aged.len() - 1]) < 0.05, "pages that were given back are used again");
}
