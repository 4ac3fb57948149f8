//! Promise: causes that show in the rows of block devices, as real hosts have them, are named from these rows alone.

use evidence::report::Report;
use results::{Outcome, StoragePart, WorldKind};

use crate::qualification::honest::Honest;

const PERFORMANCE: u32 = 2;
const SECONDS: f64 = 7_200.0;

/// A device with a mean read latency, in a window in which the load reads 6.4 MiB/s with a mean of 14 ms for a page.
fn device(name: &str, read_mib_per_s: f64, read_latency_ms: f64) -> StoragePart {
    StoragePart {
        test: PERFORMANCE,
        kind: "device".into(),
        name: format!("mbx1: {name}"),
        seconds: SECONDS,
        busy_share: 0.9,
        reads: 500_000,
        writes: 100_000,
        read_bytes: (read_mib_per_s * SECONDS * 1_048_576.0) as u64,
        write_bytes: (SECONDS * 1_048_576.0) as u64,
        read_latency_ms: Some(read_latency_ms),
        write_latency_ms: Some(5.0),
        ..StoragePart::default()
    }
}

/// The first cause of a broken limit of the mean read latency, and the part that it names.
fn first_cause(devices: Vec<StoragePart>) -> (String, String) {
    let mut data = Honest::run(WorldKind::Real);
    data.parts = devices;
    let of_reads = |test, rule: &str| test == Some(PERFORMANCE) && rule.starts_with("read_latency");
    let verdict = data.verdicts.iter_mut().find(|verdict| of_reads(verdict.test, &verdict.rule));
    let verdict = verdict.expect("the honest run judges it");
    (verdict.measured, verdict.limit, verdict.outcome) = (Some(14.0), Some(10.0), Outcome::Fail);
    let report = Report::new(&data).expect("a report");
    let test = report.tests.iter().find(|test| test.ordinal == PERFORMANCE).expect("it is there");
    let cause = test.causes.first().expect("a broken limit has a cause");
    (cause.name.clone(), cause.part.clone())
}

#[test]
fn a_device_that_does_what_the_load_asks_and_takes_the_time_is_overloaded() {
    assert_eq!(first_cause(vec![device("sda", 6.6, 13.5)]).0, "too_much_load");
    assert_eq!(first_cause(vec![]).0, "too_much_load");
}

#[test]
fn reads_that_wait_before_a_fast_device_are_throttled() {
    assert_eq!(first_cause(vec![device("sda", 6.6, 0.3)]).0, "throttled");
}

#[test]
fn a_device_that_reads_more_than_the_load_asked_for_has_a_neighbour() {
    assert_eq!(first_cause(vec![device("sda", 38.0, 13.5)]).0, "noisy_neighbour");
}

#[test]
fn a_device_that_is_slower_than_its_equals_is_named() {
    let fast = ["sda", "sdb", "sdc"].map(|name| device(name, 1.6, 8.0));
    let devices = fast.into_iter().chain([device("sdd", 1.6, 31.0)]).collect();
    assert_eq!(first_cause(devices), ("one_slow_part".into(), "mbx1: sdd".into()));
}

#[test]
fn a_test_that_broke_no_limit_has_no_cause() {
    let mut data = Honest::run(WorldKind::Real);
    data.parts = vec![device("sda", 38.0, 0.3)];
    let report = Report::new(&data).expect("a report");
    assert!(report.tests.iter().all(|test| test.causes.is_empty()));
}
