//! Figures of a report that can be followed by hand.

use evidence::live::LiveRun;
use evidence::{Report, RunData};
use results::*;
use testkit::rows::{load_test, run};

const MIB: u64 = 1 << 20;

/// A test that is all window, in samples of 10 s.
fn test(window_ms: u64) -> Row {
    load_test(window_ms, 10_000).into()
}

fn totals(count: u64, bytes: u64) -> IoTotals {
    IoTotals { count, bytes, latency_ns_sum: count * 1_000_000, latency_ns_max: 1_000_000 }
}

fn sample(measure: impl Into<Measure>, (t_ms, interval_ms): (u64, u64), totals: IoTotals) -> Row {
    Sample { test: 1, origin: Origin::host("mbx1"), measure: measure.into(), t_ms, interval_ms, totals }
        .into()
}

fn counter(counter: Counter, (t_ms, interval_ms): (u64, u64), value: u64) -> Row {
    CounterSample { test: 1, origin: Origin::host("mbx1"), counter, t_ms, interval_ms, value }.into()
}

fn report(rows: impl IntoIterator<Item = Row>) -> Report {
    let rows = [run().into(), test(10_000)].into_iter().chain(rows);
    Report::new(&RunData::from_rows(rows.collect::<Vec<_>>()).unwrap()).unwrap()
}

/// The published range is that of everything written to log files, the zero-filling of the next log included.
#[test]
fn log_written_per_batch_includes_the_zero_filling_of_log_files() {
    let whole = (0, 10_000);
    let report = report([
        sample(Measure::Batch, whole, totals(32, 0)),
        sample(IoClass::LogWrite, whole, totals(100, MIB)),
        sample(IoClass::LogPrepareWrite, whole, totals(4, MIB)),
    ]);
    let shape = &report.tests[0].load_shape;
    let measured = |name: &str| shape.iter().find(|row| row.name == name).unwrap().measured;
    assert_eq!(measured("Log written per batch"), Some(64.0), "2 MiB of 32 batches");
    assert_eq!(measured("Log writes per batch"), Some(3.125), "only the flushes of commits are counted here");
}

/// Processor rows of 10 s at 10 % load, with slices of 2 ms and 18 ms at 100 % before and after, and a slice of
/// length 0 at the start.
fn usage() -> Vec<Row> {
    let slices = [(0, 0, 0.0), (0, 2, 1.0)]
        .into_iter()
        .chain((0..10).map(|n| (2 + n * 998, 998, 0.1)))
        .chain([(9_982, 18, 1.0)]);
    let mut rows = Vec::new();
    for (t_ms, interval_ms, share) in slices {
        let at = (t_ms, interval_ms);
        let available = interval_ms * 2_000_000;
        let busy = (available as f64 * share) as u64;
        rows.push(counter(Counter::HostCpuBusyNs, at, busy));
        rows.push(counter(Counter::HostCpuAvailableNs, at, available));
        rows.push(counter(Counter::CpuBusyNs, at, busy));
        rows.push(counter(Counter::CpuAvailableNs, at, available));
        rows.push(counter(Counter::CpuBusiestThreadNs, at, busy / 2));
        rows.push(counter(
            Counter::HostMemoryAvailableBytes,
            at,
            if interval_ms < 100 { 0 } else { 100 * MIB },
        ));
    }
    rows
}

#[test]
fn host_counters_weigh_each_slice_by_its_length() {
    let report = report(usage());
    let rows = &report.tests[0].host_system;
    assert_eq!(rows.len(), 4, "{rows:?}");
    let generator = report.tests[0].generator.as_ref().unwrap();
    let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let processors = of("Processors of the host, busy");
    assert!((processors.mean - 10.18).abs() < 1e-9, "(9,980 x 10 % + 20 x 100 %) / 10,000: {processors:?}");
    assert!((processors.mean - 100.0 * generator.host_busy.unwrap()).abs() < 1e-9, "both say the same");
    let thread = of("Busiest thread of the load generator");
    assert!((thread.mean - 100.0 * generator.busiest_thread_busy.unwrap()).abs() < 1e-9, "and of the thread");
    assert!(processors.max < 15.0, "no slice of 2 ms is a sample: {processors:?}");
    assert!(of("Busiest thread of the load generator").max < 15.0);
    let memory = of("Memory available");
    assert!((memory.mean - 99.8).abs() < 1e-9, "{memory:?}");
    assert_eq!(memory.min, 0.0, "a level holds however short its slice is");
}

/// Each second has about 1,000 I/Os; slices of 2 ms with 100 of them lie between the tests and at the end.
#[test]
fn live_views_show_no_rate_of_a_slice_of_two_ms() {
    let mut live = LiveRun::default();
    live.apply(&run().into());
    live.apply(&test(10_000));
    for (n, (t_ms, interval_ms)) in
        [(0, 2), (2, 998), (1_000, 1_000), (2_000, 2), (2_002, 998), (3_000, 2)].into_iter().enumerate()
    {
        let at = (t_ms, interval_ms);
        let count = if interval_ms == 2 { 50 } else { 450 };
        live.apply(&sample(IoClass::TransactionalRead, at, totals(count, 0)));
        live.apply(&sample(IoClass::TransactionalWrite, at, totals(count, 0)));
        live.apply(&counter(Counter::CpuBusyNs, at, interval_ms * 1_000_000));
        live.apply(&counter(Counter::CpuAvailableNs, at, interval_ms * 2_000_000));
        let view = live.view().unwrap();
        assert_eq!((view.hosts.len(), view.history.is_empty()), (n.min(1), n == 0), "at {t_ms} ms");
        for (iops, at_s) in view.history.iter().map(|second| (second.iops, second.t_s)) {
            assert!((890.0..1_110.0).contains(&iops), "{iops} at {at_s} s, seen at {t_ms} ms");
        }
        for host in &view.hosts {
            assert!((890.0..1_110.0).contains(&host.iops), "at {t_ms} ms: {host:?}");
            assert!((host.generator_busy.unwrap() - 0.5).abs() < 1e-9, "at {t_ms} ms: {host:?}");
        }
    }
    assert_eq!(live.view().unwrap().history.len(), 3, "the slice at the end belongs to the third second");
}

#[test]
fn how_busy_a_host_was_is_the_same_in_both_places_whatever_slices_begin_in_one_millisecond() {
    let mut rows = usage();
    for (busy, available) in [(400_000, 1_800_000), (100_000, 100_000)] {
        for (part, whole) in [
            (Counter::HostCpuBusyNs, Counter::HostCpuAvailableNs),
            (Counter::CpuBusyNs, Counter::CpuAvailableNs),
        ] {
            rows.push(counter(part, (9_999, 0), busy));
            rows.push(counter(whole, (9_999, 0), available));
        }
    }
    let report = report(rows);
    let (rows, generator) = (&report.tests[0].host_system, report.tests[0].generator.as_ref().unwrap());
    let mean = |name: &str| rows.iter().find(|row| row.name == name).unwrap().mean;
    let share = 100.0 * (0.1 * 19.96e9 + 0.04e9 + 0.5e6) / (20e9 + 1.9e6);
    for (name, stated) in [
        ("Processors of the host, busy", generator.host_busy.unwrap()),
        ("Processors, busy for the load generator", generator.program_busy),
    ] {
        assert!((mean(name) - share).abs() < 1e-9, "{name}: {} in place of {share}", mean(name));
        assert!((100.0 * stated - share).abs() < 1e-9, "{name}: {stated}");
    }
}

#[test]
fn report_shows_a_dash_for_a_latency_that_was_not_measured() {
    let part = StoragePart {
        test: 1,
        kind: "processor".into(),
        name: "mbx1 4 processors".into(),
        seconds: 10.0,
        busy_share: 0.5,
        ..StoragePart::default()
    };
    let report = report([part.into()]);
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let told = &json["tests"][0]["storage_parts"][0];
    assert!(told["write_latency_ms"].is_null() && told["queue_mean"].is_null(), "{told}");
    let html = report.html().unwrap();
    let row = html.lines().find(|line| line.contains("mbx1 4 processors")).unwrap();
    assert_eq!(row.matches(">–<").count(), 3, "{row}");
}
