//! Promise: causes that show in the rows of block devices, as real hosts have them, are named from these rows alone.

use evidence::RunData;
use evidence::report::{Report, unsteady};
use results::{Counter, IoClass, IoTotals, Measure, Outcome, StoragePart, WorldKind};

use crate::qualification::honest::{Honest, SAMPLE_MS};
use crate::qualification::{READ, change, counter, scaled};

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
    first_cause_on_host(devices, |_| ())
}

/// The same on a host that `spoil` changed.
fn first_cause_on_host(devices: Vec<StoragePart>, spoil: impl Fn(&mut RunData)) -> (String, String) {
    let mut data = Honest::run(WorldKind::Real);
    data.parts = devices;
    spoil(&mut data);
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

/// All processors of the host are busy. The load generator woke late for a share of the time, and held completed reads
/// for a share of their latency.
fn busy_host(late: f64, held: f64) -> impl Fn(&mut RunData) {
    move |data| {
        let ns = SAMPLE_MS as f64 * 1e6;
        counter(data, Counter::LateNs, (ns * late) as u64);
        counter(data, Counter::HostCpuPressureNs, (ns * 0.94) as u64);
        let busy: Vec<_> =
            data.counters.iter().filter(|(key, _)| key.2 == Counter::HostCpuAvailableNs).collect();
        let busy: Vec<_> = busy.into_iter().map(|(key, points)| (key.clone(), points.clone())).collect();
        for ((test, origin, _), points) in busy {
            data.counters.insert((test, origin, Counter::HostCpuBusyNs), points);
        }
        let reads: Vec<_> = data.series.iter().filter(|(key, _)| key.2 == READ.into()).collect();
        let reads: Vec<_> = reads.into_iter().map(|(key, points)| (key.clone(), points.clone())).collect();
        for ((test, origin, _), mut points) in reads {
            points.iter_mut().for_each(|point| point.totals = scaled(point.totals, 1.0, held));
            data.series.insert((test, origin, Measure::Held(READ)), points);
        }
    }
}

#[test]
fn a_busy_host_is_the_cause_where_the_reads_waited_for_it() {
    let cause = |device, late, held| first_cause_on_host(vec![device], busy_host(late, held)).0;
    assert_eq!(cause(device("sda", 6.6, 0.3), 0.6, 0.36), "processors");
    assert_eq!(cause(device("sda", 6.6, 0.3), 0.21, 0.36), "processors");
    assert_eq!(cause(device("sda", 6.6, 0.3), 0.21, 0.01), "throttled");
    assert_eq!(cause(device("sda", 38.0, 13.5), 0.22, 0.1), "noisy_neighbour");
    assert_eq!(cause(device("sda", 6.6, 13.5), 0.05, 0.01), "too_much_load");
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

/// Cause that `unsteady` finds after `spoil` has changed an honest run: its name, and the time at which it is
/// strongest.
fn unsteady_cause(spoil: impl Fn(&mut RunData)) -> Option<(String, String)> {
    let mut data = Honest::run(WorldKind::Real);
    spoil(&mut data);
    let report = Report::new(&data).expect("a report");
    let test = report.tests.iter().find(|test| test.ordinal == PERFORMANCE).expect("it is there");
    assert!(test.causes.is_empty(), "it broke no limit");
    unsteady(test).map(|cause| (cause.name, cause.since))
}

#[test]
fn a_test_that_was_not_steady_says_what_moved_and_when() {
    let expected = |name: &str, since: &str| Some((name.to_owned(), since.to_owned()));
    assert_eq!(unsteady_cause(|_| ()), None, "a steady test");
    let cold = unsteady_cause(|data| {
        change(data, PERFORMANCE, IoClass::TransactionalWrite, |phase, io| {
            if phase == 0.0 { IoTotals::default() } else { io }
        });
    });
    assert_eq!(cold, expected("cache_not_warm", "the first sample of the window"));
    let slower = unsteady_cause(|data| {
        let last_quarter = |phase, io| scaled(io, 1.0, if phase < 0.75 { 1.0 } else { 1.6 });
        change(data, PERFORMANCE, IoClass::TransactionalRead, last_quarter);
    });
    assert_eq!(slower, expected("storage_drifts", "most in quarter 4 of the window"));
    let fades = unsteady_cause(|data| {
        for class in [IoClass::TransactionalRead, IoClass::TransactionalWrite] {
            change(data, PERFORMANCE, class, |phase, io| {
                scaled(io, if phase < 0.25 { 1.5 } else { 1.0 }, 1.0)
            });
        }
    });
    assert_eq!(fades, expected("load_drifts", "most in quarter 1 of the window"));
}
