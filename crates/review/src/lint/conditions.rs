//! The figures of the conditions of a qualification, worked out from the tables of a report.

use std::collections::BTreeSet;

use evidence::Report;
use evidence::environment::{AFTER, KERNEL_LOG, NOT_MEMORY, NOT_READABLE, OVERWRITTEN, STORAGE_IS_MEMORY};
use evidence::report::{CheckOutcome, ConditionRow, Steadiness, TestReport};
use results::grade::{CONDITIONS, TESTS};
use results::{Environment, Origin, Outcome, Severity, Verdict, WorldKind};

/// Whether a qualification is about the load of this test.
pub(super) fn is_load(test: &TestReport) -> bool {
    ["performance", "stress"].contains(&test.kind.as_str()) && test.throughput.is_some()
}

pub(super) fn verdicts(report: &Report) -> impl Iterator<Item = &Verdict> {
    report.tests.iter().flat_map(|test| &test.verdicts).chain(&report.run_verdicts)
}

/// Transactional I/O per second that the test was to reach.
pub(super) fn target(test: &TestReport) -> Option<f64> {
    let row = test.planned.iter().find(|row| row.name == "Transactional I/O")?;
    row.planned.filter(|target| *target > 0.0)
}

/// Conditions whose figure the tables of a report do not give: it needs rows of `run.db`.
const OF_ROWS: [&str; 6] = [
    "rules_percent",
    "worst_failure_percent",
    "latency_limits_percent",
    "cache_filled_percent",
    "maintained_percent",
    "hosts_percent",
];

/// A figure that the tables give.
pub(super) struct Derived {
    /// `None` if the tables lack a part of it.
    pub(super) value: Option<f64>,
    /// By how much the report may differ.
    pub(super) tolerance: f64,
    /// Where its parts stand.
    pub(super) place: String,
}

fn derived(value: Option<f64>, place: impl Into<String>) -> Option<Derived> {
    Some(Derived { value, tolerance: 0.0, place: place.into() })
}

fn count(value: usize, place: impl Into<String>) -> Option<Derived> {
    derived(Some(value as f64), place)
}

/// `part` of `all` in percent; nothing of nothing is no share.
fn percent(part: usize, all: usize) -> Option<f64> {
    (all > 0).then(|| 100.0 * part as f64 / all as f64)
}

fn loads(report: &Report) -> Vec<&TestReport> {
    report.tests.iter().filter(|test| is_load(test)).collect()
}

/// Names of the conditions that apply to the run, as far as the report tells.
pub(super) fn applying(report: &Report) -> Vec<&'static str> {
    let loads = loads(report);
    let has = |kind: &str| loads.iter().any(|test| test.kind == kind);
    let applies = |name: &str| match name {
        "rules_percent" | "load_tests" | "tests" | "verified_percent" | "logs_verified_percent" => true,
        "hosts_percent" | "excused_limits" | "errors" => true,
        "coverage_percent" => database_checksums(report).next().is_some(),
        "unbuffered_percent" | "on_storage_percent" | "kernel_log_percent" => {
            report.run.world == WorldKind::Real
        }
        "target_met_percent" => loads.iter().any(|test| target(test).is_some()),
        // Only a solution with a plan has it, and the report does not say whether there is one.
        "worst_failure_percent" => false,
        "performance_window_s" => has("performance"),
        "stress_window_s" => has("stress"),
        _ => !loads.is_empty(),
    };
    CONDITIONS.iter().map(|condition| condition.name).filter(|name| applies(name)).collect()
}

/// The figure of a condition by the tables; `None` if they do not give it.
pub(super) fn figure(report: &Report, row: &ConditionRow) -> Option<Derived> {
    let loads = loads(report);
    match row.name.as_str() {
        name if OF_ROWS.contains(&name) => None,
        "load_tests" => count(loads.len(), "tests with a mailbox load"),
        "target_set_percent" => {
            let with = loads.iter().filter(|test| target(test).is_some()).count();
            derived(percent(with, loads.len()), "load tests: planned transactional I/O")
        }
        "target_met_percent" => {
            let share = |test: &TestReport| Some(100.0 * test.throughput?.transactional_iops / target(test)?);
            let with = loads.iter().copied().filter(|test| target(test).is_some());
            derived(furthest(with.map(share), row), "load tests: achieved by planned transactional I/O")
        }
        "performance_window_s" => window(&loads, "performance", row),
        "stress_window_s" => window(&loads, "stress", row),
        "window_percent" => {
            let share = |test: &&TestReport| {
                let window = test.window?;
                let planned_s = window.planned_s.filter(|planned_s| *planned_s > 0.0)?;
                let is_whole = planned_s - window.duration_s < 0.5;
                Some(if is_whole { 100.0 } else { 100.0 * window.duration_s / planned_s })
            };
            derived(furthest(loads.iter().map(share), row), "load tests: measured by planned window")
        }
        "cache_ratio" => {
            derived(cache_ratio(report).map(|(ratio, _)| ratio), "database sizes by cache_max_bytes")
        }
        "tests" => kinds(report, row),
        "verified_percent" => derived(verified(report), "checksums behind the last load, by database"),
        "coverage_percent" => derived(coverage(report), "checksums: bytes read by bytes there"),
        "logs_verified_percent" => derived(logs_verified(report), "checksums of logs, by instance"),
        "unbuffered_percent" => derived(unbuffered(report), "checks: Unbuffered I/O"),
        "on_storage_percent" => on_storage(report, row),
        "kernel_log_percent" => derived(kernel_log(report), "environment: kernel log after the tests"),
        "excused_limits" => count(excused(report), "verdicts for information beyond their limit"),
        "errors" => count(errors(report), "environment and events: errors"),
        name => match (shape(name), steady(name)) {
            (Some(shape), _) => {
                let of = |test: &TestReport| {
                    test.load_shape.iter().find(|row| row.name == shape).and_then(|row| row.measured)
                };
                derived(furthest(loads.iter().map(|test| of(test)), row), format!("tests: {shape}"))
            }
            (None, Some(change)) => {
                let of = |test: &TestReport| Some(100.0 * change(test.steadiness.as_ref()?)?);
                derived(furthest(loads.iter().map(|test| of(test)), row), "tests: steadiness")
            }
            (None, None) => None,
        },
    }
}

/// The figure that lies furthest outside the range; one that is not known lies furthest of all.
fn furthest(figures: impl Iterator<Item = Option<f64>>, row: &ConditionRow) -> Option<f64> {
    let outside = |figure: f64| {
        let below = row.least.map_or(f64::NEG_INFINITY, |least| least - figure);
        below.max(row.most.map_or(f64::NEG_INFINITY, |most| figure - most))
    };
    let figures: Option<Vec<f64>> = figures.collect();
    figures?.into_iter().reduce(|worst, next| if outside(next) > outside(worst) { next } else { worst })
}

fn shape(name: &str) -> Option<&'static str> {
    match name {
        "reads_per_batch" => Some("Database page reads per batch"),
        "writes_per_batch" => Some("Database page writes per batch"),
        "log_writes_per_batch" => Some("Log writes per batch"),
        "log_file_kib_per_batch" => Some("Log files per batch"),
        _ => None,
    }
}

fn steady(name: &str) -> Option<fn(&Steadiness) -> Option<f64>> {
    match name {
        "throughput_change_percent" => Some(|steadiness| steadiness.iops_change_max),
        "write_change_percent" => Some(|steadiness| steadiness.writes_change_max),
        "write_start_percent" => Some(|steadiness| steadiness.write_start),
        "latency_change_percent" => Some(|steadiness| steadiness.latency_change_max),
        _ => None,
    }
}

/// The shortest window. One that closed less than half a second too early counts as whole.
fn window(loads: &[&TestReport], kind: &str, row: &ConditionRow) -> Option<Derived> {
    let of_kind = loads.iter().filter(|test| test.kind == kind);
    let value = furthest(of_kind.map(|test| test.window.map(|window| window.duration_s)), row);
    Some(Derived { value, tolerance: 0.5, place: format!("{kind}: measured window") })
}

/// Databases in their first load test by the cache of their instance, where they are least, and the instance.
pub(super) fn cache_ratio(report: &Report) -> Option<(f64, String)> {
    let loads = loads(report);
    let ratios: Option<Vec<(f64, String)>> = report
        .instances
        .iter()
        .map(|instance| {
            let own = |origin: &Origin| {
                (&origin.host, &origin.instance) == (&instance.origin.host, &instance.origin.instance)
            };
            let sizes = |test: &&TestReport| {
                test.sizes.iter().filter(|size| own(&size.origin)).map(|size| size.bytes_before).collect()
            };
            let first: Vec<u64> = loads.iter().map(sizes).find(|sizes: &Vec<u64>| !sizes.is_empty())?;
            let bytes = first.iter().sum::<u64>() as f64;
            let at = format!("{}: databases by cache_max_bytes", instance.origin);
            (instance.cache_max_bytes > 0).then(|| (bytes / instance.cache_max_bytes as f64, at))
        })
        .collect();
    ratios?.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The report does not say which kinds the rules of the run ask for: no more can be done than have ended.
fn kinds(report: &Report, row: &ConditionRow) -> Option<Derived> {
    let mut done: BTreeSet<&str> =
        report.tests.iter().filter(|test| test.ended).map(|test| test.kind.as_str()).collect();
    if done.contains("backup_to_disk") {
        done.insert("backup");
    }
    let most = done.len() as f64;
    let least = TESTS.iter().filter(|kind| done.contains(*kind)).count() as f64;
    // By the published rules exactly the kinds of the programme are asked for.
    let published = row.least == row.published_least && row.least == Some(TESTS.len() as f64);
    let value = match row.measured {
        Some(told) if !published && told <= most => told,
        _ if published => least,
        _ => most,
    };
    derived(Some(value), "kinds of the tests that ended")
}

fn database_checksums(report: &Report) -> impl Iterator<Item = &evidence::report::ChecksumRow> {
    report.tests.iter().flat_map(|test| &test.checksums).filter(|row| row.origin.database.is_some())
}

fn verified(report: &Report) -> Option<f64> {
    let after = loads(report).iter().map(|test| test.ordinal).max().unwrap_or(0);
    let checks = report.tests.iter().filter(|test| test.kind == "database_checksum" && test.ended);
    let rows = checks.filter(|test| test.ordinal > after).flat_map(|test| &test.checksums);
    let verified: BTreeSet<&Origin> = rows.map(|row| &row.origin).collect();
    let count = report.databases.iter().filter(|database| verified.contains(&database.origin)).count();
    percent(count, report.databases.len())
}

fn coverage(report: &Report) -> Option<f64> {
    let shares: Option<Vec<f64>> =
        database_checksums(report).map(|row| Some(100.0 * row.read.share()?.min(1.0))).collect();
    shares?.into_iter().reduce(f64::min)
}

fn logs_verified(report: &Report) -> Option<f64> {
    let rows = || report.tests.iter().flat_map(|test| &test.checksums).filter(|row| row.read.files > 0);
    let is_verified = |instance: &&evidence::report::InstanceSetup| {
        rows().any(|row| row.origin.database.is_none() && row.origin == instance.origin)
    };
    percent(report.instances.iter().filter(is_verified).count(), report.instances.len())
}

fn unbuffered(report: &Report) -> Option<f64> {
    let is_good = |host: &&results::Host| {
        report.checks.iter().any(|row| {
            row.name == "Unbuffered I/O" && row.host == host.name && row.outcome == CheckOutcome::Good
        })
    };
    percent(report.hosts.iter().filter(is_good).count(), report.hosts.len())
}

/// Whether a row of the environment says of a volume whether it is in memory.
fn is_about_memory(row: &Environment) -> bool {
    row.area.starts_with("Volume ") && row.name == STORAGE_IS_MEMORY
}

/// The report does not list the volumes, but those that the environment names must all be known not to be in memory.
fn on_storage(report: &Report, row: &ConditionRow) -> Option<Derived> {
    let is_stated = row.measured.is_some_and(|share| share >= 100.0);
    let rows = || report.environment.iter().filter(|row| row.area.starts_with("Volume "));
    let is_known = |volume: &Environment| {
        rows().any(|row| {
            (&row.host, &row.area) == (&volume.host, &volume.area)
                && is_about_memory(row)
                && row.value == NOT_MEMORY
                && row.severity == Severity::Info
        })
    };
    let other = rows().find(|volume| !is_known(volume)).filter(|_| is_stated)?;
    derived(Some(0.0), format!("environment: {} of {} may be in memory", other.area, other.host))
}

/// Hosts with rows of their kernel log, none of which says that something is missing.
fn kernel_log(report: &Report) -> Option<f64> {
    let rows = || report.environment.iter().filter(|row| row.area == AFTER && row.name == KERNEL_LOG);
    let has_gap = |row: &Environment| row.value == OVERWRITTEN || row.value.starts_with(NOT_READABLE);
    let hosts_of = |wanted: &dyn Fn(&Environment) -> bool| -> BTreeSet<&str> {
        rows().filter(|row| wanted(row)).map(|row| row.host.as_str()).collect()
    };
    let (read, gaps) = (hosts_of(&|row| !has_gap(row)), hosts_of(&has_gap));
    let is_whole =
        |host: &&results::Host| read.contains(host.name.as_str()) && !gaps.contains(host.name.as_str());
    percent(report.hosts.iter().filter(is_whole).count(), report.hosts.len())
}

fn excused(report: &Report) -> usize {
    let broken = verdicts(report).filter(|verdict| verdict.outcome == Outcome::Info).filter(|verdict| {
        verdict.measured.zip(verdict.limit).is_some_and(|(m, l)| !verdict.comparison.holds(m, l))
    });
    broken.count()
}

fn errors(report: &Report) -> usize {
    let of_hosts = report.environment.iter().filter(|row| row.severity == Severity::Error);
    let events = report.events.iter().filter(|event| event.severity == Severity::Error);
    of_hosts.filter(|row| !is_about_memory(row)).count() + events.count()
}
