//! How often `compare` calls equal runs different (A/A), and how often it finds a difference that is there.
//!
//! 40 pairs of runs; `PROOFLOAD_PAIRS=200` for as many as docs/compare.md gives its rates for.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests face the operating system")]

use evidence::{Report, RunData};
use results::*;
use review::Source;
use review::compare::{Comparison, Subject, compare};
use testkit::rows;

/// splitmix64.
struct Random(u64);

impl Random {
    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON
    }

    fn around_zero(&mut self) -> f64 {
        self.unit() + self.unit() + self.unit() - 1.5
    }
}

/// Subject of a comparison with these rows.
fn subject(seed: u64, rows: Vec<Row>) -> Subject {
    let data = RunData::from_rows(rows).expect("a run");
    let report = Box::new(Report::new(&data).expect("a report"));
    let source = Source::Run { data: Box::new(data), report, beside: Default::default(), printed: None };
    Subject::new(&format!("run {seed}"), source).expect("a subject")
}

/// Run that differs by `seed` only in noise. Seconds close to each other are alike, a few operations take many times
/// as long, and a slow second does fewer operations.
fn run(seed: u64, window_s: u64, slower: f64) -> Subject {
    let mut rows = vec![head()];
    rows.extend(load(seed, window_s, slower, 1));
    subject(seed, rows)
}

/// Run with four loads of a minute each, so that twenty figures are judged.
fn run_of_four_loads(seed: u64) -> Subject {
    let mut rows = vec![head()];
    rows.extend((1..=4).flat_map(|ordinal| load(4 * seed + u64::from(ordinal), 60, 1.0, ordinal)));
    subject(seed, rows)
}

fn load(seed: u64, window_s: u64, slower: f64, ordinal: u32) -> Vec<Row> {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut rows: Vec<Row> = vec![Test { ordinal, ..rows::load_test(window_s * 1_000, 1_000) }.into()];
    let sample = |measure, at, totals| Sample { test: ordinal, ..sample_row(measure, at, totals) }.into();
    let mut level = 0.0;
    for second in 0..window_s {
        level = 0.6 * level + 0.08 * random.around_zero();
        for (class, per_s, mean_ms) in [
            (IoClass::TransactionalRead, 150.0, 12.0 * slower),
            (IoClass::TransactionalWrite, 70.0, 6.0),
            (IoClass::LogWrite, 40.0, 1.5 * slower),
        ] {
            let mut stats = IoStats::default();
            let count = per_s / slower * (1.0 - level) * (1.0 + 0.1 * random.around_zero());
            for _ in 0..count as u64 {
                let tail = if random.unit() < 0.02 { 4.0 } else { 1.0 };
                let ms = mean_ms * (1.0 + level) * tail * (0.4 - 0.6 * random.unit().ln());
                stats.record(8_192, (ms * 1e6) as u64);
            }
            let at = (second * 1_000, 1_000);
            rows.push(sample(class.into(), at, stats.totals));
            rows.extend(
                Histogram::new(ordinal, Origin::host("mbx1"), class, at.0, at.1, &stats).map(Row::from),
            );
        }
        let batches = IoTotals { count: 5, bytes: 0, latency_ns_sum: 1, latency_ns_max: 1 };
        rows.push(sample(Measure::Batch, (second * 1_000, 1_000), batches));
    }
    rows
}

/// Run of tests that read two databases and their logs from end to end: a backup, a checksum and a replay. They read
/// 200 MiB/s on the outer tracks and half of that on the inner ones.
fn reading_run(seed: u64, slower: f64) -> Subject {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut rows: Vec<Row> = vec![head()];
    let reads = [
        ("backup", IoClass::BackupRead),
        ("database_checksum", IoClass::VerifyRead),
        ("soft_recovery", IoClass::LogRead),
    ];
    let mut start_ms = 0;
    for (ordinal, (kind, class)) in (1u32..).zip(reads) {
        let (mut left, mut level, mut elapsed_ms) = (12_000.0, 0.0, 0);
        while left > 0.0 {
            level = 0.6 * level + 0.02 * random.around_zero();
            let rate = (100.0 + left / 120.0) * (1.0 + level) / slower;
            let read = left.min(rate);
            let length_ms = (1_000.0 * read / rate).ceil() as u64;
            let bytes = (read * f64::from(1 << 20)) as u64;
            let totals = IoTotals { count: bytes >> 18, bytes, latency_ns_sum: 1, latency_ns_max: 1 };
            let at = (start_ms + elapsed_ms, length_ms);
            rows.push(Sample { test: ordinal, ..sample_row(class.into(), at, totals) }.into());
            (left, elapsed_ms) = (left - read, elapsed_ms + length_ms);
        }
        let row = Test { window_start_ms: None, window_end_ms: None, ..rows::load_test(0, 1_000) };
        let ended_ms = Some(start_ms + elapsed_ms);
        rows.push(
            Test { ordinal, kind: kind.into(), name: kind.into(), started_ms: start_ms, ended_ms, ..row }
                .into(),
        );
        rows.extend(found(ordinal, kind, elapsed_ms));
        start_ms += elapsed_ms + 500;
    }
    subject(seed, rows)
}

/// Rows of a test that read two databases of 6,000 MiB, or as much log, at the same time.
fn found(test: u32, kind: &str, elapsed_ms: u64) -> Vec<Row> {
    let of = |n: u32| {
        let origin = Origin::database("mbx1", &format!("DB{n}"), &format!("DB{n}"));
        let bytes = 6_000 << 20;
        let read =
            PagesRead { pages: bytes >> 15, bytes, bytes_expected: Some(bytes), ..PagesRead::default() };
        match kind {
            "backup" => {
                Backup { test, origin, destination: None, bytes, bytes_expected: Some(bytes), elapsed_ms }
                    .into()
            }
            "database_checksum" => Checksum { test, origin, read, elapsed_ms }.into(),
            _ => Recovery { test, origin, logs: 6_000, elapsed_ms, work: None }.into(),
        }
    };
    [1, 2].map(of).into()
}

fn sample_row(measure: Measure, (t_ms, interval_ms): (u64, u64), totals: IoTotals) -> Sample {
    Sample { test: 1, origin: Origin::host("mbx1"), measure, t_ms, interval_ms, totals }
}

fn head() -> Row {
    Run { ended_ms: Some(1), ending: Some(Ending::Completed), ..rows::run() }.into()
}

fn pairs() -> u64 {
    std::env::var("PROOFLOAD_PAIRS").map_or(40, |text| text.parse().expect("a number of pairs"))
}

/// Intervals that exclude zero, and all intervals of judged figures.
fn excluding_zero(comparison: &Comparison) -> (usize, usize) {
    let rows = comparison.tests.iter().flat_map(|test| &test.rows).filter(|row| row.better.is_some());
    let intervals: Vec<_> = rows.filter_map(|row| row.cells[1].interval_pct).collect();
    (intervals.iter().filter(|(low, high)| *low > 0.0 || *high < 0.0).count(), intervals.len())
}

fn pair(n: u64, window_s: u64, slower: f64) -> Comparison {
    compare(&[run(2 * n + 1, window_s, 1.0), run(2 * n + 2, window_s, slower)])
}

#[test]
fn compare_calls_equal_runs_different_at_most_once_in_twenty() {
    for window_s in [20, 60, 240] {
        let (mut wrong, mut all, mut alarms, mut alarms_at_all) = (0, 0, 0, 0);
        for n in 0..pairs() {
            let comparison = pair(n, window_s, 1.0);
            let (excluded, intervals) = excluding_zero(&comparison);
            assert_eq!(intervals, 5, "every judged figure of a load has an interval");
            (wrong, all) = (wrong + excluded, all + intervals);
            alarms += usize::from(!comparison.regressions(5.0).is_empty());
            alarms_at_all += usize::from(!comparison.regressions(0.0).is_empty());
        }
        println!(
            "{window_s} s, {} pairs: {wrong} of {all} intervals exclude zero; --fail-above 5: {alarms} false alarms, \
             --fail-above 0: {alarms_at_all}",
            pairs()
        );
        // 5 %, and two standard deviations of this many pairs.
        let most = |of: f64| 0.05 * of + 2.0 * (0.05 * 0.95 * of).sqrt();
        assert!(wrong as f64 <= most(all as f64), "{window_s} s: {wrong} of {all} intervals exclude zero");
        assert!(alarms as f64 <= most(pairs() as f64), "{window_s} s: {alarms} false alarms");
    }
}

#[test]
fn compare_alarms_at_most_once_in_twenty_however_many_figures_are_judged() {
    let mut alarms = 0;
    for n in 0..pairs() {
        let comparison = compare(&[run_of_four_loads(2 * n + 1), run_of_four_loads(2 * n + 2)]);
        assert_eq!(excluding_zero(&comparison).1, 20);
        alarms += usize::from(!comparison.regressions(0.0).is_empty());
    }
    println!("four loads, {} pairs: --fail-above 0: {alarms} false alarms", pairs());
    let most = 0.05 * pairs() as f64 + 2.0 * (0.05 * 0.95 * pairs() as f64).sqrt();
    assert!(alarms as f64 <= most, "{alarms} false alarms");
}

const READING: [&str; 3] = ["Backup of a database", "Checksum of a database", "Replay of one log"];

#[test]
fn compare_calls_equal_backups_checksums_and_replays_different_at_most_once_in_twenty() {
    let (mut wrong, mut all, mut alarms) = (0, 0, 0);
    for n in 0..pairs() {
        let comparison = compare(&[reading_run(2 * n + 1, 1.0), reading_run(2 * n + 2, 1.0)]);
        let (excluded, intervals) = excluding_zero(&comparison);
        assert_eq!(intervals, READING.len(), "each has an interval: {}", comparison.text());
        (wrong, all) = (wrong + excluded, all + intervals);
        alarms += usize::from(!comparison.regressions(0.0).is_empty());
    }
    println!(
        "reading, {} pairs: {wrong} of {all} intervals exclude zero; --fail-above 0: {alarms} false alarms",
        pairs()
    );
    let most = |of: f64| 0.05 * of + 2.0 * (0.05 * 0.95 * of).sqrt();
    assert!(wrong as f64 <= most(all as f64), "{wrong} of {all} intervals exclude zero");
    assert!(alarms as f64 <= most(pairs() as f64), "{alarms} false alarms");
}

#[test]
fn compare_finds_backups_checksums_and_replays_that_are_slower() {
    for (slower, least) in [(1.02, 0.15), (1.05, 0.9)] {
        let mut found = [0u64; 3];
        for n in 0..pairs() / 2 {
            let comparison = compare(&[reading_run(2 * n + 1, 1.0), reading_run(2 * n + 2, slower)]);
            let regressions = comparison.regressions(0.0);
            for (found, name) in found.iter_mut().zip(READING) {
                *found += u64::from(regressions.iter().any(|(_, _, row)| row.name == name));
            }
        }
        let power = found.map(|found| found as f64 / (pairs() / 2) as f64);
        println!("{:.0} % slower: {power:?} of {READING:?} found", (slower - 1.0) * 100.0);
        assert!(power.iter().all(|power| *power >= least), "{slower}: {power:?}");
    }
}

#[test]
fn compare_finds_planted_differences_of_mean_and_percentile() {
    for (window_s, slower, least) in
        [(240, 1.02, 0.15), (240, 1.05, 0.7), (240, 1.10, 0.95), (60, 1.10, 0.75)]
    {
        let mut found = [0u64; 2];
        for n in 0..pairs() / 2 {
            let comparison = pair(n, window_s, slower);
            let regressions = comparison.regressions(0.0);
            for (found, name) in found.iter_mut().zip(["Read latency, mean", "Read latency, p99"]) {
                *found += u64::from(regressions.iter().any(|(_, _, row)| row.name == name));
            }
        }
        let power = found.map(|found| found as f64 / (pairs() / 2) as f64);
        println!(
            "{window_s} s, {:.0} % slower: mean found {:.2}, p99 found {:.2}",
            (slower - 1.0) * 100.0,
            power[0],
            power[1]
        );
        assert!(power[0] >= least, "{window_s} s, {slower}: {power:?}");
    }
}
