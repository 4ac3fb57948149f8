//! Lint notices a grade that the evidence does not carry, from a `report.json` without its rows.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::BTreeSet;

use evidence::report::{ConditionRow, TestReport};
use evidence::{Report, RunData};
use results::grade::condition;
use results::{Checksum, Comparison, Environment, Grade, Origin, Outcome, PagesRead, Row, Test, WorldKind};
use review::lint::Finding;
use testkit::synthetic;
use testkit::synthetic::Shape;

const LOG_CHECKSUM: u32 = 90;

fn rows(shape: &Shape) -> Vec<Row> {
    let mut rows = Vec::new();
    synthetic::record(shape, &mut rows).expect("memory takes every row");
    rows
}

fn report_of(rows: Vec<Row>) -> Report {
    Report::new(&RunData::from_rows(rows).expect("a run")).expect("a report")
}

/// A short run with every test of the campaign, which is qualified by rules of its own.
fn qualified(world: WorldKind) -> Report {
    let mut rows = rows(&Shape { world, ..Shape::default() });
    let checksum = rows.iter().find_map(|row| match row {
        Row::Test(test) if test.kind == "database_checksum" && test.ended_ms.is_some() => Some(test.clone()),
        _ => None,
    });
    let checksum = checksum.expect("the run has a checksum");
    rows.push(
        Test { ordinal: LOG_CHECKSUM, kind: "log_checksum".into(), name: "Log checksum".into(), ..checksum }
            .into(),
    );
    let logs: Vec<Origin> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Instance(row) => Some(Origin::instance(&row.host, &row.name)),
            _ => None,
        })
        .collect();
    rows.extend(logs.into_iter().map(|origin| {
        let read =
            PagesRead { files: 5, bytes: 5 << 20, bytes_expected: Some(5 << 20), ..PagesRead::default() };
        Row::from(Checksum { test: LOG_CHECKSUM, origin, read, elapsed_ms: 1_000 })
    }));
    for row in &mut rows {
        if let Row::Rule(rule) = row
            && condition(&rule.name).is_some_and(|condition| condition.adjustable)
            && !["tests", "cache_ratio"].contains(&rule.name.as_str())
        {
            rule.least = rule.least.map(|_| 0.0);
            rule.most = rule.most.map(|_| 10_000.0);
        }
    }
    let report = report_of(rows);
    assert_eq!(report.verdict.grade, Grade::Qualified, "{:?}", report.verdict.reasons);
    report
}

/// A run that is judged by the published rules and too short for them.
fn held() -> Report {
    let report = report_of(rows(&Shape::default()));
    assert_eq!(report.verdict.grade, Grade::Held);
    report
}

fn failed() -> Report {
    let report = report_of(rows(&Shape { fails: true, ..Shape::default() }));
    assert_eq!(report.verdict.grade, Grade::Failed);
    report
}

/// Findings of `lint` on a report without its `run.db`.
fn found(report: &Report) -> Vec<Finding> {
    let place = tempfile::tempdir().expect("writable");
    let path = place.path().join("report.json");
    std::fs::write(&path, report.json()).expect("writable");
    review::open(&path).expect("a report").lint()
}

fn row<'a>(report: &'a mut Report, name: &str) -> &'a mut ConditionRow {
    report.verdict.conditions.iter_mut().find(|row| row.name == name).expect("the condition applies")
}

fn memory_row(report: &mut Report) -> &mut Environment {
    let row = report.environment.iter_mut().find(|row| row.name == "Storage is memory");
    row.expect("the run has a volume")
}

fn load<'a>(report: &'a mut Report, kind: &str) -> &'a mut TestReport {
    report.tests.iter_mut().find(|test| test.kind == kind).expect("the run has the test")
}

/// A forged report: its description, the honest report that it changes, the rules that notice, the change.
type Bend = (&'static str, fn() -> Report, &'static [&'static str], fn(&mut Report));

fn real() -> Report {
    qualified(WorldKind::Real)
}

const GRADES: &[Bend] = &[
    ("held called qualified", held, &["grade", "grade_sentence"], |report| {
        report.verdict.grade = Grade::Qualified;
    }),
    ("failed called held", failed, &["grade", "grade_sentence"], |report| {
        report.verdict.grade = Grade::Held;
        report.verdict.headline = "Latency limits held at 1 transactional I/O per second.".into();
    }),
    ("incomplete called qualified", real, &["grade"], |report| report.run.ending = None),
    ("a test did not end", real, &["grade"], |report| load(report, "backup").ended = false),
    ("a verdict is not proved", real, &["grade"], |report| {
        let verdict = &mut load(report, "database_checksum").verdicts[0];
        (verdict.measured, verdict.outcome) = (None, Outcome::Unproved);
        load(report, "database_checksum").outcome = Some(Outcome::Unproved);
        report.verdict.passed -= 1;
    }),
    ("verdicts are counted twice", real, &["grade"], |report| report.verdict.passed *= 2),
    ("outcome of another grade", held, &["grade"], |report| {
        report.verdict.outcome = Grade::Failed.into();
    }),
    (
        "predicted called tested",
        || qualified(WorldKind::Simulated),
        &["grade_sentence"],
        |report| {
            let sentence = report.verdict.headline.replace("Predicted, not tested: ", "");
            report.verdict.headline = sentence;
        },
    ),
    ("own rules not said", real, &["grade_sentence"], |report| {
        report.verdict.headline = report.verdict.headline.replace("By its own rules, the", "The");
    }),
    ("more is claimed than was tested", real, &["grade_sentence"], |report| {
        assert!(report.verdict.headline.contains("(160.00 trans"), "{}", report.verdict.headline);
        report.verdict.headline = report.verdict.headline.replace("(160.00", "(1,600.00");
    }),
    ("another load than was reached", held, &["grade_sentence"], |report| {
        report.verdict.headline = "Latency limits held at 9,000 transactional I/O per second.".into();
    }),
    ("a limit that was not broken", failed, &["grade_sentence"], |report| {
        report.verdict.headline = "Stress: “the sun shines” does not hold.".into();
    }),
    (
        "a sentence about a load without a load test",
        real,
        &["condition_figure", "grade_sentence"],
        |report| {
            report.tests.retain(|test| !["performance", "stress"].contains(&test.kind.as_str()));
            let passed = report.tests.iter().flat_map(|test| &test.verdicts).count();
            report.verdict.passed = passed as u32;
        },
    ),
];

const CONDITIONS: &[Bend] = &[
    ("no load", real, &["condition_figure"], |report| row(report, "load_tests").measured = Some(3.0)),
    ("half of a database read", real, &["condition_figure", "coverage"], |report| {
        let check = &mut load(report, "database_checksum").checksums[0];
        let read = &mut check.read;
        (read.bytes, read.pages, check.mib_per_s) = (read.bytes / 2, read.pages / 2, None);
        check.read_share = Some(0.5);
    }),
    ("half of a database read, by the share alone", real, &["read_share"], |report| {
        load(report, "database_checksum").checksums[0].read_share = Some(0.5);
    }),
    ("half of a database backed up beside a pass", real, &["coverage"], |report| {
        let backup = load(report, "backup");
        let origin = backup.backups[0].origin.clone();
        (backup.backups[0].bytes, backup.backups[0].mib_per_s) = (backup.backups[0].bytes / 2, None);
        backup.backups[0].read_share = Some(0.5);
        let mut verdict = load(report, "database_checksum").verdicts[0].clone();
        (verdict.rule, verdict.origin) = ("pages_verified".into(), origin);
        load(report, "backup").verdicts.push(verdict);
        load(report, "backup").outcome = Some(Outcome::Pass);
        report.verdict.passed += 1;
    }),
    ("the last load was not verified", real, &["condition_figure"], |report| {
        let ordinal = load(report, "stress").ordinal;
        report
            .tests
            .iter_mut()
            .filter(|test| test.ordinal > ordinal && test.kind == "database_checksum")
            .for_each(|test| {
                test.checksums.clear();
                test.ended = true;
            });
    }),
    ("logs were not verified", real, &["condition_figure"], |report| {
        load(report, "log_checksum").checksums.clear();
    }),
    ("shape per batch beside the counts", real, &["condition_figure", "load_shape"], |report| {
        load(report, "stress").load_shape[0].measured = Some(50_000.0);
    }),
    ("shape per batch out of range called met", real, &["condition_figure", "condition_met"], |report| {
        row(report, "writes_per_batch").measured = Some(50_000.0);
    }),
    ("a range that was widened without a word", real, &["condition_met"], |report| {
        row(report, "reads_per_batch").weaker = false;
    }),
    ("a published range that nobody published", real, &["condition_range"], |report| {
        let row = row(report, "throughput_change_percent");
        (row.published_most, row.weaker) = (row.most, false);
    }),
    ("a fixed range that was widened", real, &["condition_range"], |report| {
        let row = row(report, "coverage_percent");
        (row.least, row.weaker) = (Some(10.0), true);
    }),
    ("an unmet condition called met", held, &["condition_met"], |report| {
        row(report, "performance_window_s").met = true;
    }),
    ("an unmet condition left out", held, &["condition_missing"], |report| {
        report.verdict.conditions.retain(|row| row.name != "performance_window_s");
    }),
    ("no target", real, &["condition_figure", "qualified_without"], |report| {
        load(report, "performance").planned.clear();
    }),
    ("a database smaller than its cache", real, &["qualified_without"], |report| {
        report.instances.iter_mut().for_each(|instance| instance.cache_max_bytes = 1 << 41);
        let row = row(report, "cache_ratio");
        (row.measured, row.least, row.weaker) = (Some(0.5), Some(0.1), true);
    }),
    ("another ratio of database and cache", real, &["condition_figure"], |report| {
        report.instances[0].cache_max_bytes *= 2;
    }),
    ("a shorter window", real, &["condition_figure"], |report| {
        row(report, "stress_window_s").measured = Some(86_400.0);
    }),
    ("a kind of test that did not end", real, &["condition_figure"], |report| {
        report.tests.retain(|test| test.kind != "soft_recovery");
    }),
    ("buffered I/O", real, &["condition_figure"], |report| {
        report.checks.retain(|check| check.name != "Unbuffered I/O");
    }),
    ("a volume in memory", real, &["condition_figure"], |report| {
        memory_row(report).severity = results::Severity::Error;
    }),
    ("a volume that may be in memory", real, &["condition_figure"], |report| {
        memory_row(report).value = "not known: nfs4 on /srv is not local".into();
    }),
    ("a limit that a fault excused", real, &["condition_figure"], |report| {
        let mut verdict = load(report, "stress").verdicts[1].clone();
        assert_eq!(verdict.comparison, Comparison::AtMost);
        (verdict.rule, verdict.outcome) = ("excused".into(), Outcome::Info);
        verdict.measured = verdict.limit.map(|limit| limit * 2.0);
        load(report, "stress").verdicts.push(verdict);
    }),
    ("an error in the kernel log", real, &["condition_figure", "error_unjudged"], |report| {
        let row = memory_row(report).clone();
        let (area, name) = ("After the tests".to_owned(), "Kernel log".to_owned());
        let value = "blk_update_request: I/O error, dev sda".to_owned();
        let severity = results::Severity::Error;
        report.environment.push(Environment { area, name, value, severity, ..row });
    }),
    ("an error", real, &["condition_figure", "error_unjudged"], |report| {
        report.events[0].severity = results::Severity::Error;
    }),
];

const COUNTS: &[Bend] = &[
    ("operations of all hosts", real, &["instance_sum", "load_shape", "rate"], |report| {
        let test = load(report, "stress");
        let row = test.measures.iter_mut().find(|row| row.measure == "log_write").expect("a log");
        (row.figures.count, row.percentiles.count) = (2 * row.figures.count, 2 * row.percentiles.count);
    }),
    ("quarters that differ by half", real, &["steadiness"], |report| {
        load(report, "stress").steadiness.as_mut().expect("a window").quarter_iops[3] /= 2.0;
    }),
    ("latencies of quarters that differ by half", real, &["steadiness"], |report| {
        let steadiness = load(report, "stress").steadiness.as_mut().expect("a window");
        steadiness.quarter_write_latency_ms[0] = steadiness.quarter_write_latency_ms[0].map(|ms| ms / 4.0);
    }),
    ("a host that polls although io_uring works", real, &["io_driver"], |report| {
        let row = memory_row(report).clone();
        let (area, name, value) = ("System".to_owned(), "io_uring".to_owned(), "works".to_owned());
        report.environment.push(Environment { area, name, value, ..row });
        report.run.world_detail = "polling, direct (O_DIRECT)".to_owned();
    }),
    ("io_uring was refused to a single thread", real, &[], |report| {
        let row = memory_row(report).clone();
        let (area, name, value) = ("System".to_owned(), "io_uring".to_owned(), "works".to_owned());
        report.environment.push(Environment { area, name, value, ..row });
        report.run.world_detail = "polling, direct (O_DIRECT), 1 of 2 threads poll".to_owned();
    }),
    ("batches", real, &["instance_sum", "load_shape"], |report| {
        load(report, "stress").throughput.as_mut().expect("a load").batches *= 2;
    }),
    ("distribution", real, &["distribution_count"], |report| {
        load(report, "stress").measures[0].percentiles.count += 1;
    }),
    ("percentiles", real, &["percentile_order"], |report| {
        let percentiles = &mut load(report, "stress").measures[0].percentiles;
        percentiles.p50_ms = percentiles.max_ms.map(|ms| ms * 2.0);
    }),
    ("mean above the longest", real, &["average_outside_range"], |report| {
        let figures = &mut load(report, "init").measures[0].figures;
        figures.latency_ms_mean = figures.latency_ms_max.map(|ms| ms * 2.0);
    }),
    ("a busier host", real, &["host_figures"], |report| {
        load(report, "stress").host_system[0].mean = 95.0;
    }),
    ("sizes", real, &["total_of_parts"], |report| {
        load(report, "stress").throughput.as_mut().expect("a load").database_bytes_after = Some(1);
    }),
    ("bad pages that no verdict names", real, &["bad_pages"], |report| {
        load(report, "database_checksum").checksums[0].read.bad_pages = 7;
    }),
    ("a latency beyond the limit", real, &["verdict_missing"], |report| {
        let test = load(report, "stress");
        test.verdicts.iter_mut().for_each(|verdict| verdict.origin = Origin::host("mbx1"));
        let reads = test.databases[0].reads.as_mut().expect("it was read");
        reads.latency_ms_mean = Some(25.0);
    }),
];

#[test]
fn lint_finds_nothing_in_an_honest_report_of_any_grade() {
    for report in [real(), qualified(WorldKind::Simulated), held(), failed()] {
        assert_eq!(found(&report), [], "{}", report.verdict.headline);
    }
    let cut = report_of(rows(&Shape { cut: true, ..Shape::default() }));
    assert_eq!((found(&cut), cut.verdict.grade), (Vec::new(), Grade::Incomplete));
}

#[test]
fn lint_notices_every_grade_that_the_report_does_not_carry() {
    for (what, honest, expected, bend) in GRADES.iter().chain(CONDITIONS).chain(COUNTS) {
        let mut report = honest();
        bend(&mut report);
        let findings = found(&report);
        let noticed: BTreeSet<&str> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(noticed, expected.iter().copied().collect(), "{what}: {findings:#?}");
        for finding in &findings {
            assert!(!finding.one.place.is_empty() && !finding.other.place.is_empty(), "{what}");
        }
    }
}
