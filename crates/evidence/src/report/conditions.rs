//! The conditions of a qualification: their figures, worked out from the tables of a report.
//!
//! Some conditions need rows that no table has. A report without its `run.db` says that they apply, not their figure.

mod hosts;

use std::collections::BTreeSet;

use results::figures::percent;
use results::grade::{CONDITIONS, Condition, MAINTENANCE_READS_PER_S_LEAST};
use results::{Claim, Counter, Environment, IoClass, Origin, Rule, Severity, WorldKind};

use super::equal_hosts::most_unequal;
use super::host_system::most_starved;
use super::model::*;
use super::samples::of_test;
use super::text::{bare, bytes, counted, number, significant};
use crate::environment::{AFTER, KERNEL_LOG, NOT_READABLE, OVERWRITTEN, is_about_memory};
use crate::run_data::{Point, RunData};

/// The measured figure of a condition, and the note beside it in the list of missing conditions.
struct Found {
    measured: Option<f64>,
    note: String,
    /// Whether the figure could be worked out: it follows from the tables, or the rows of `run.db` were at hand.
    is_known: bool,
}

fn found(measured: Option<f64>, note: impl Into<String>) -> Option<Found> {
    Some(Found { measured, note: note.into(), is_known: true })
}

/// The result for a condition that applies and whose figure only rows of `run.db` give.
fn of_rows() -> Option<Found> {
    Some(Found { measured: None, note: String::new(), is_known: false })
}

/// A run that is to be graded, with all that its conditions are worked out from.
struct Graded<'a> {
    report: &'a Report,
    /// The rows of its `run.db`, if they are at hand.
    rows: Option<&'a RunData>,
    claim: Claim,
    /// The load tests that a qualification is about: performance and stress.
    loads: Vec<&'a TestReport>,
}

/// Every condition of a qualification that applies to the run, with its figure, in the order of the table of
/// conditions.
pub fn rows(data: &RunData, report: &Report) -> Vec<ConditionRow> {
    let claim = data.claim.clone().unwrap_or_else(|| Claim {
        hosts: data.hosts.iter().map(|host| host.name.clone()).collect(),
        tests: results::grade::TESTS.map(str::to_owned).to_vec(),
        ..Claim::default()
    });
    let graded = Graded { report, rows: Some(data), claim, loads: loads(report) };
    let mut rows = Vec::new();
    for condition in &CONDITIONS {
        let recorded = data.rules.iter().find(|rule| rule.name == condition.name).cloned();
        let rule = recorded.unwrap_or_else(|| Rule::published(condition));
        let Some(Found { measured, note, .. }) = graded.find(condition.name, &rule) else { continue };
        rows.push(ConditionRow {
            name: condition.name.to_owned(),
            text: condition.text.to_owned(),
            unit: condition.unit.to_owned(),
            measured,
            least: rule.least,
            most: rule.most,
            published_least: rule.published_least,
            published_most: rule.published_most,
            met: rule.holds(measured),
            weaker: rule.is_weaker(),
            note,
            source: condition.source.to_owned(),
            remedy: condition.remedy.to_owned(),
        });
    }
    rows
}

/// The conditions that apply according to a report without its `run.db`, each with the figure if the report's tables
/// give it.
pub fn of_tables(report: &Report) -> Vec<(&'static str, Option<Option<f64>>)> {
    let graded = Graded { report, rows: None, claim: Claim::default(), loads: loads(report) };
    let figure = |condition: &'static Condition| {
        let stated = report.verdict.conditions.iter().find(|row| row.name == condition.name);
        let rule = stated.map_or_else(|| Rule::published(condition), ConditionRow::rule);
        let found = graded.find(condition.name, &rule)?;
        Some((condition.name, found.is_known.then_some(found.measured)))
    };
    CONDITIONS.iter().filter_map(figure).collect()
}

fn loads(report: &Report) -> Vec<&TestReport> {
    report.tests.iter().filter(|test| test.is_load()).collect()
}

/// Whether an environment row holds kernel messages of the time of the run.
fn is_kernel_log(row: &Environment) -> bool {
    row.area == AFTER && row.name == KERNEL_LOG
}

/// Whether such a row says that kernel messages could not be read or were overwritten.
fn is_gap(row: &Environment) -> bool {
    row.value == OVERWRITTEN || row.value.starts_with(NOT_READABLE)
}

/// The load test that is furthest from the condition's range, and its figure. A test without the figure is furthest.
fn worst<'a>(
    loads: &[&'a TestReport],
    rule: &Rule,
    figure: impl Fn(&TestReport) -> Option<f64>,
) -> Option<(&'a TestReport, Option<f64>)> {
    let mut all = loads.iter().map(|test| (*test, figure(test)));
    let first = all.next()?;
    let distance = |value: f64| {
        let below = rule.least.map_or(f64::NEG_INFINITY, |least| least - value);
        let above = rule.most.map_or(f64::NEG_INFINITY, |most| value - most);
        below.max(above)
    };
    let is_worse = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (None, Some(_)) => true,
        (Some(a), Some(b)) => distance(a) > distance(b),
        _ => false,
    };
    Some(all.fold(first, |worst, next| if is_worse(next.1, worst.1) { next } else { worst }))
}

/// `a` of `b` in percent; `None` of nothing.
fn of_all(a: usize, b: usize) -> Option<f64> {
    (b > 0).then(|| percent(a as f64, b as f64))
}

/// The largest change between the quarters of the window of a load test.
fn steady(
    loads: &[&TestReport],
    rule: &Rule,
    what: &str,
    change: impl Fn(&Steadiness) -> Option<f64>,
) -> Option<Found> {
    let (test, measured) = worst(loads, rule, |test| Some(100.0 * change(test.steadiness.as_ref()?)?))?;
    let by = measured.map_or("an unknown share".to_owned(), |change| format!("{} %", bare(change)));
    let allowed = rule.most.map_or(String::new(), |most| format!(", {} % allowed", bare(most)));
    found(measured, format!("{what} by {by} in a quarter of the window of {}{allowed}", test.name))
}

impl Graded<'_> {
    /// Works out the figure of a condition; `None` where the condition does not apply to the run.
    fn find(&self, name: &str, rule: &Rule) -> Option<Found> {
        match name {
            "rules_percent" => self.rules(),
            "load_tests" => {
                let count = self.loads.len();
                let none = "no load test took place".to_owned();
                found(
                    Some(count as f64),
                    if count == 0 { none } else { counted(count as u64, "load test") + " took place" },
                )
            }
            "tests" => self.tests_done(),
            "verified_percent" => self.verified(),
            "coverage_percent" => self.coverage(),
            "logs_verified_percent" => self.logs_verified(),
            "verified_logs" => self.verified_logs(),
            "recovered_logs" => self.recovered_logs(),
            "hosts_percent" => self.hosts(),
            "undeclared_sharing"
            | "unbuffered_percent"
            | "on_storage_percent"
            | "kernel_log_percent"
            | "starved_percent"
            | "evidence_apart_percent"
                if self.report.run.world == WorldKind::Simulated =>
            {
                None
            }
            "undeclared_sharing" => self.undeclared_sharing(),
            "unbuffered_percent" => self.unbuffered(),
            "on_storage_percent" => self.on_storage(),
            "evidence_apart_percent" => self.evidence_apart(),
            "kernel_log_percent" => self.kernel_log(),
            "excused_limits" => self.excused(),
            "errors" => self.errors(),
            // Without a load, the rest has nothing to be about.
            _ if self.loads.is_empty() => None,
            "target_set_percent" => self.targets_set(),
            "target_met_percent" => self.target_met(rule),
            "worst_failure_percent" => self.worst_failure(rule),
            "claim_doubts" => self.doubts(),
            "iops_per_mailbox_percent" => self.iops_per_mailbox(),
            "latency_limits_percent" => self.latency_limits(rule),
            "performance_window_s" => self.window("performance", rule),
            "stress_window_s" => self.window("stress", rule),
            "window_percent" => self.window_share(rule),
            "cache_ratio" => self.cache_ratio(),
            "database_size_percent" => self.database_size(),
            "cache_filled_percent" => self.cache_filled(rule),
            "maintained_percent" => self.maintained(rule),
            "reads_per_batch" | "writes_per_batch" | "log_writes_per_batch" | "log_file_kib_per_batch" => {
                self.shape(name, rule)
            }
            "throughput_change_percent" => {
                steady(&self.loads, rule, "transactional I/O changes", |s| s.iops_change_max)
            }
            "write_change_percent" => {
                steady(&self.loads, rule, "database writes change", |s| s.writes_change_max)
            }
            "latency_change_percent" => self.steady_latency(rule),
            "write_start_percent" => self.write_start(rule),
            "equal_hosts_percent" => self.equal_hosts(rule),
            "starved_percent" => self.starved(rule),
            _ => found(None, "this version does not know the condition"),
        }
    }

    fn rules(&self) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let is_recorded = |name: &str| data.rules.iter().any(|rule| rule.name == name);
        let count = CONDITIONS.iter().filter(|condition| is_recorded(condition.name)).count();
        let count = if data.claim.is_some() { count } else { 0 };
        let note = match count {
            0 => "the rules of the run are not recorded".to_owned(),
            _ => format!("{count} of {} rules are recorded", CONDITIONS.len()),
        };
        found(of_all(count, CONDITIONS.len()), note)
    }

    fn targets_set(&self) -> Option<Found> {
        let (with, all) =
            (self.loads.iter().filter(|test| test.target_iops().is_some()).count(), self.loads.len());
        let note = match with {
            0 => "no target was set".to_owned(),
            _ => format!("load tests with a target: {with} of {all}"),
        };
        found(of_all(with, all), note)
    }

    fn tests_done(&self) -> Option<Found> {
        if self.rows.is_none() {
            return of_rows();
        }
        let is_done = |kind: &str| self.report.tests.iter().any(|test| test.ended && test.kind == kind);
        // A backup to disk reads every page as well.
        let is_done = |kind: &str| is_done(kind) || (kind == "backup" && is_done("backup_to_disk"));
        let (done, missing): (Vec<&str>, Vec<&str>) =
            self.claim.tests.iter().map(String::as_str).partition(|kind| is_done(kind));
        found(Some(done.len() as f64), format!("tests that were not done: {}", missing.join(", ")))
    }

    fn target_met(&self, rule: &Rule) -> Option<Found> {
        let with: Vec<_> = self.loads.iter().copied().filter(|test| test.target_iops().is_some()).collect();
        let share = |test: &TestReport| {
            Some(percent(test.throughput.as_ref()?.transactional_iops, test.target_iops()?))
        };
        let (test, measured) = worst(&with, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("{told} of the target achieved in {}", test.name))
    }

    fn worst_failure(&self, rule: &Rule) -> Option<Found> {
        let planned = self.claim.iops_per_server.filter(|iops| *iops > 0.0)?;
        let servers = self.present(self.rows?).len().max(1) as f64;
        let share = |test: &TestReport| Some(percent(test.peak_target_iops()?, servers * planned));
        let with: Vec<_> = self.loads.iter().copied().filter(|test| test.target_iops().is_some()).collect();
        let (test, measured) = worst(&with, rule, share)?;
        let case = self.claim.failure.as_deref().unwrap_or("the worst failure");
        let of = format!(
            "{} transactional I/O per second and server that the plan derives for {case}",
            significant(planned)
        );
        // Papers round their targets: within 1 % of the plan's figure it is the plan's figure.
        let measured = measured.map(|share| if (99.0..100.0).contains(&share) { 100.0 } else { share });
        found(
            measured,
            format!("the target of {} is {} % of the {of}", test.name, bare(measured.unwrap_or(0.0))),
        )
    }

    /// The most lenient latency limit of the load tests, as a share of the published one. A limit on something that
    /// has no published one is stricter, not more lenient.
    fn latency_limits(&self, rule: &Rule) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let loosest = |test: &TestReport| {
            let limits = &data.tests.get(&test.ordinal)?.limits;
            let share = |limit: &results::Limit| Some(percent(limit.value, limit.published?));
            limits.iter().filter_map(share).reduce(f64::max)
        };
        let (test, measured) = worst(&self.loads, rule, loosest)?;
        let told = measured.map_or("not known".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("latency limits of {}, of the published ones: {told}", test.name))
    }

    /// Parts of the claim (what the run sets out to show) that no measurement backs. A run that recorded no claim has
    /// none.
    fn doubts(&self) -> Option<Found> {
        if self.rows.is_none() {
            return of_rows();
        }
        let texts: Vec<&str> = self.claim.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
        let count = texts.len();
        found(Some(count as f64), format!("{}: {}", counted(count as u64, "doubt"), texts.join("; ")))
    }

    /// The least I/O per mailbox that a load test put on the storage, in percent of what its profile needs.
    fn iops_per_mailbox(&self) -> Option<Found> {
        let (tested, needed) = self.claim.iops_per_mailbox.zip(self.claim.profile_iops_per_mailbox)?;
        let percent = percent(tested, needed);
        let (told, of) = (significant(tested), significant(needed));
        let note = format!("{told} I/O per mailbox tested, {} % of the {of} of its profile", bare(percent));
        found(Some(percent), note)
    }

    /// The smallest database in a load test, in percent of the planned size.
    fn database_size(&self) -> Option<Found> {
        let planned = self.claim.database_bytes.filter(|bytes| *bytes > 0.0)?;
        let sizes = self.loads.iter().flat_map(|test| &test.sizes);
        let least = sizes.map(|size| size.bytes_before).min();
        let percent = least.map(|bytes| percent(bytes as f64, planned));
        let told = percent.map_or("an unknown share".to_owned(), |percent| format!("{} %", bare(percent)));
        found(percent, format!("the smallest database has {told} of the planned {}", bytes(planned)))
    }

    fn verified_logs(&self) -> Option<Found> {
        let files = |instance: &InstanceSetup| {
            let rows = self.checksums().filter(|row| row.origin == instance.origin);
            rows.map(|row| row.read.files).max().unwrap_or(0)
        };
        let least = self.report.instances.iter().map(files).min()?;
        found(
            Some(least as f64),
            format!("{} verified in the instance with the fewest", counted(least, "closed log")),
        )
    }

    fn recovered_logs(&self) -> Option<Found> {
        let least = self.report.tests.iter().flat_map(|test| &test.recoveries).map(|row| row.logs).min()?;
        found(
            Some(least as f64),
            format!("{} replayed in the instance with the fewest", counted(least, "log")),
        )
    }

    /// Databases that background maintenance read in the window of a load test at the published rate, in percent.
    fn maintained(&self, rule: &Rule) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let share = |test: &TestReport| {
            let row = data.tests.get(&test.ordinal)?;
            let (start, end) = row.window_start_ms.zip(row.window_end_ms)?;
            let reads = |points: &[Point]| {
                let inside = points.iter().filter(|point| point.t_ms >= start && point.t_ms < end);
                inside.map(|point| point.totals.count).sum::<u64>() as f64
            };
            let needed = MAINTENANCE_READS_PER_S_LEAST * (end - start) as f64 / 1e3;
            let read = of_test(&data.series, test.ordinal).filter(|((_, _, class), points)| {
                *class == IoClass::MaintenanceRead.into() && reads(points) >= needed
            });
            let origins: BTreeSet<&Origin> = read.map(|((_, origin, _), _)| origin).collect();
            let databases = data.databases.iter();
            let count = databases.filter(|database| origins.contains(&database.origin)).count();
            of_all(count, data.databases.len())
        };
        let (test, measured) = worst(&self.loads, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(
            measured,
            format!(
                "background maintenance read {told} of the databases at its published rate in {}",
                test.name
            ),
        )
    }

    fn window(&self, kind: &str, rule: &Rule) -> Option<Found> {
        let of_kind: Vec<_> = self.loads.iter().copied().filter(|test| test.kind == kind).collect();
        let (_, measured) = worst(&of_kind, rule, |test| test.window.map(|window| window.duration_s))?;
        // Windows close at the tick after their end, or a little before it.
        let measured =
            measured.map(|s| if rule.least.is_some_and(|l| s < l && l - s < 0.5) { s.round() } else { s });
        let wanted = number(rule.least.unwrap_or(0.0), 0);
        found(measured, format!("{kind} window {} s of {wanted} s", bare(measured.unwrap_or(0.0))))
    }

    fn window_share(&self, rule: &Rule) -> Option<Found> {
        let share = |test: &TestReport| {
            let Window { duration_s, planned_s, .. } = test.window?;
            let planned_s = planned_s.filter(|planned_s| *planned_s > 0.0)?;
            // Windows close at the tick after their end, or a little before it.
            Some(if planned_s - duration_s < 0.5 { 100.0 } else { percent(duration_s, planned_s) })
        };
        let (test, measured) = worst(&self.loads, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("{} measured {told} of its planned window: an estimate of it", test.name))
    }

    fn cache_ratio(&self) -> Option<Found> {
        let ratio = |instance: &InstanceSetup| {
            let of_it = |size: &&SizeRow| {
                let (one, other) = (&size.origin, &instance.origin);
                (&one.host, &one.instance) == (&other.host, &other.instance)
            };
            let sizes = |test: &&TestReport| -> Vec<u64> {
                test.sizes.iter().filter(of_it).map(|size| size.bytes_before).collect()
            };
            let first = self.loads.iter().map(sizes).find(|sizes| !sizes.is_empty())?;
            let bytes: u64 = first.iter().sum();
            (instance.cache_max_bytes > 0).then(|| bytes as f64 / instance.cache_max_bytes as f64)
        };
        let ratios: Option<Vec<f64>> = self.report.instances.iter().map(ratio).collect();
        let least = ratios.and_then(|ratios| ratios.into_iter().reduce(f64::min));
        let told = least.map_or("size of the databases against the cache is not known".to_owned(), |least| {
            format!("database {} x its cache", bare(least))
        });
        found(least, format!("{told}; 500 x or more behaves like the published runs"))
    }

    fn cache_filled(&self, rule: &Rule) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let filled = |test: &TestReport| {
            let row = data.tests.get(&test.ordinal)?;
            let opened_ms = row.window_start_ms?;
            let shares: Option<Vec<f64>> = data
                .instances
                .iter()
                .map(|instance| {
                    let key =
                        (test.ordinal, Origin::instance(&instance.host, &instance.name), Counter::CacheBytes);
                    let points = data.counters.get(&key)?;
                    // The level at the end of the interval that ends nearest to the opening.
                    let nearest =
                        points.iter().min_by_key(|p| (p.t_ms + p.interval_ms).abs_diff(opened_ms))?;
                    Some(percent(nearest.value as f64, instance.cache_max_bytes.max(1) as f64))
                })
                .collect();
            shares?.into_iter().reduce(f64::min)
        };
        let (test, measured) = worst(&self.loads, rule, filled)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("cache filled to {told} when the window of {} opened", test.name))
    }

    fn shape(&self, condition: &str, rule: &Rule) -> Option<Found> {
        let (test, measured) = worst(&self.loads, rule, |test| test.shape(condition)?.measured)?;
        let unit = &rule.unit;
        let told =
            measured.map_or(format!("{unit} not known"), |measured| format!("{} {unit}", bare(measured)));
        let wanted = match (rule.least, rule.most, test.shape(condition)) {
            (None, None, _) => "no published reference for this generation, mix, page or log size".to_owned(),
            (_, _, Some(shape)) if !rule.is_weaker() => {
                format!(
                    "published {} to {}, 10 % more or less passes",
                    bare(shape.published_min),
                    bare(shape.published_max)
                )
            }
            (least, most, _) => {
                format!("{} to {} needed", bare(least.unwrap_or(0.0)), most.map_or("any".to_owned(), bare))
            }
        };
        found(measured, format!("{told} in {}, {wanted}", test.name))
    }

    /// The latencies of a load that follows a day follow it as well.
    fn steady_latency(&self, rule: &Rule) -> Option<Found> {
        let constant: Vec<_> = self.loads.iter().copied().filter(|test| test.hours.is_empty()).collect();
        steady(&constant, rule, "a latency changes", |s| s.latency_change_max)
    }

    fn write_start(&self, rule: &Rule) -> Option<Found> {
        let start = |test: &TestReport| Some(100.0 * test.steadiness.as_ref()?.write_start?);
        let (test, measured) = worst(&self.loads, rule, start)?;
        let at = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("database writes begin at {at} of their mean in {}", test.name))
    }

    /// The largest share of the time for which a host kept the load generator from running.
    fn starved(&self, rule: &Rule) -> Option<Found> {
        let most = |test: &TestReport| Some(most_starved(&test.host_system)?.mean);
        let (test, measured) = worst(&self.loads, rule, most)?;
        let told = match most_starved(&test.host_system) {
            Some(row) => {
                format!("{}: {} of {}, {} % of the time", row.host, row.name, test.name, bare(row.mean))
            }
            None => format!("whether the load generator got to run in {} is not known", test.name),
        };
        found(measured, told)
    }

    /// I/O of the slowest of hosts that are described alike, in percent of the fastest. A host that did not take part
    /// is missed by a condition of its own.
    fn equal_hosts(&self, rule: &Rule) -> Option<Found> {
        let data = self.rows?;
        let alike = |test: &&&TestReport| most_unequal(data, test).is_some();
        let loads: Vec<&TestReport> = self.loads.iter().filter(alike).copied().collect();
        let (test, measured) = worst(&loads, rule, |test| Some(most_unequal(data, test)?.percent()))?;
        found(measured, most_unequal(data, test)?.text(&test.name))
    }

    /// Databases that a checksum after the last load test read without finding a bad page, in percent.
    fn verified(&self) -> Option<Found> {
        let after = self.loads.iter().map(|test| test.ordinal).max().unwrap_or(0);
        let checks = self.report.tests.iter().filter(|test| test.kind == "database_checksum" && test.ended);
        let rows = checks.filter(|test| test.ordinal > after).flat_map(|test| &test.checksums);
        let verified: BTreeSet<&Origin> = rows.map(|row| &row.origin).collect();
        let all = self.report.databases.len();
        let is_verified = |database: &&DatabaseSetup| verified.contains(&database.origin);
        let count = self.report.databases.iter().filter(is_verified).count();
        found(of_all(count, all), format!("databases verified after the last load: {count} of {all}"))
    }

    /// The least share of a database that a checksum read, in percent. Files of earlier builds do not say how much
    /// there was.
    fn coverage(&self) -> Option<Found> {
        let share = |row: &ChecksumRow| Some(100.0 * row.read.share()?.min(1.0));
        let mut rows = self.checksums().filter(|row| row.origin.database.is_some()).peekable();
        rows.peek()?;
        let shares: Option<Vec<(f64, &Origin)>> = rows.map(|row| Some((share(row)?, &row.origin))).collect();
        let least = shares.and_then(|shares| shares.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)));
        let Some((share, origin)) = least else {
            return found(None, "share of the pages that were verified is not known");
        };
        let name = origin.database.as_deref().unwrap_or_default();
        found(Some(share), format!("{} % of the pages of {name} verified", bare(share)))
    }

    fn checksums(&self) -> impl Iterator<Item = &ChecksumRow> {
        self.report.tests.iter().flat_map(|test| &test.checksums)
    }

    fn logs_verified(&self) -> Option<Found> {
        let all = self.report.instances.len();
        let is_verified = |instance: &&InstanceSetup| {
            self.checksums().any(|row| row.origin == instance.origin && row.read.files > 0)
        };
        let count = self.report.instances.iter().filter(is_verified).count();
        found(of_all(count, all), format!("instances with a verified closed log: {count} of {all}"))
    }

    /// Hosts with samples in every load test; without load tests, hosts with samples in any test.
    fn present<'d>(&self, data: &'d RunData) -> BTreeSet<&'d str> {
        let measured = |test: &TestReport| {
            of_test(&data.series, test.ordinal).map(|((_, origin, _), _)| origin.host.as_str())
        };
        let loads: Vec<BTreeSet<&str>> = self.loads.iter().map(|test| measured(test).collect()).collect();
        // A host counts that took part in every load.
        let in_all = loads.into_iter().reduce(|a, b| a.intersection(&b).copied().collect());
        in_all.unwrap_or_else(|| self.report.tests.iter().flat_map(measured).collect())
    }

    fn hosts(&self) -> Option<Found> {
        let Some(data) = self.rows else { return of_rows() };
        let present = self.present(data);
        let missing: Vec<&str> =
            self.claim.hosts.iter().map(String::as_str).filter(|host| !present.contains(host)).collect();
        let (all, count) = (self.claim.hosts.len(), self.claim.hosts.len() - missing.len());
        let note = format!("hosts that took part: {count} of {all}; missing: {}", missing.join(", "));
        found(of_all(count, all), note)
    }

    /// Number of limits that were broken and not judged, because a fault that the solution file schedules excuses what
    /// it causes.
    fn excused(&self) -> Option<Found> {
        let count = self.report.verdicts().filter(|verdict| verdict.is_excused()).count();
        found(Some(count as f64), counted(count as u64, "limit") + " broken by a scheduled fault")
    }

    fn errors(&self) -> Option<Found> {
        // Volumes in memory have a condition of their own.
        let environment = self.report.environment.iter().filter(|row| !is_about_memory(row));
        let environment = environment.filter(|row| row.severity == Severity::Error).count();
        let events = self.report.events.iter().filter(|event| event.severity == Severity::Error).count();
        let count = environment + events;
        found(Some(count as f64), counted(count as u64, "error") + " noted")
    }
}
