//! Any bytes in a `run.db`: an error or a report and its lint, never a panic.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use evidence::{Report, RunStore, load};
use testkit::synthetic;
use testkit::synthetic::Shape;

#[test]
fn no_run_db_makes_its_readers_panic() {
    let place = tempfile::tempdir().expect("a folder");
    let (whole, damaged) = (place.path().join("whole.db"), place.path().join("run.db"));
    let mut store = RunStore::create(&whole).expect("writable");
    synthetic::record(&Shape { window_s: 4, ..Shape::default() }, &mut store).expect("kept");
    store.close().expect("kept");
    let seed = std::fs::read(&whole).expect("readable");
    testkit::fuzz("run_db", &[seed], |bytes| {
        std::fs::write(&damaged, bytes).expect("writable");
        let Ok(source) = review::open(&damaged) else { return };
        source.lint();
        let data = load(&damaged).expect("it was read before");
        if let Ok(report) = Report::new(&data) {
            report.html().expect("a page");
        }
    });
}
