//! The conditions of a qualification: their figures, worked out from the rows of a run.

use std::collections::BTreeSet;

use results::grade::CONDITIONS;
use results::{Claim, Counter, Environment, IoClass, Origin, Outcome, Rule, Severity, Verdict, WorldKind};

use super::checks;
use super::model::*;
use super::text::{bare, counted, number, significant};
use super::window::of_test;
use crate::environment::{AFTER, KERNEL_LOG, NOT_MEMORY, NOT_READABLE, OVERWRITTEN, STORAGE_IS_MEMORY};
use crate::run_data::RunData;

/// The figure of a condition and what the list of missing conditions says of it.
struct Found {
    measured: Option<f64>,
    note: String,
}

fn found(measured: Option<f64>, note: impl Into<String>) -> Option<Found> {
    Some(Found { measured, note: note.into() })
}

/// A run that is to be graded.
struct Graded<'a> {
    data: &'a RunData,
    claim: Claim,
    /// Every test, and the tests under load that a qualification is about.
    tests: &'a [TestReport],
    loads: Vec<&'a TestReport>,
}

/// Every condition that applies to the run, in the order of the table.
pub fn rows(data: &RunData, tests: &[TestReport]) -> Vec<ConditionRow> {
    let loads = tests.iter().filter(|test| is_load(test)).collect();
    let claim = data.claim.clone().unwrap_or_else(|| Claim {
        hosts: data.hosts.iter().map(|host| host.name.clone()).collect(),
        tests: results::grade::TESTS.map(str::to_owned).to_vec(),
        ..Claim::default()
    });
    let graded = Graded { data, claim, tests, loads };
    let mut rows = Vec::new();
    for condition in &CONDITIONS {
        let recorded = data.rules.iter().find(|rule| rule.name == condition.name).cloned();
        let rule = recorded.unwrap_or_else(|| Rule::published(condition));
        let Some(Found { measured, note }) = graded.find(condition.name, &rule) else { continue };
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

/// Whether a row of the environment says of a volume whether it is in memory.
fn is_about_memory(row: &Environment) -> bool {
    row.area.starts_with("Volume ") && row.name == STORAGE_IS_MEMORY
}

/// Whether a row says what the kernel logged during the run.
fn is_kernel_log(row: &Environment) -> bool {
    row.area == AFTER && row.name == KERNEL_LOG
}

/// Whether such a row says that nobody knows what the kernel logged.
fn is_gap(row: &Environment) -> bool {
    row.value == OVERWRITTEN || row.value.starts_with(NOT_READABLE)
}

/// Whether a qualification is about the load of this test.
pub fn is_load(test: &TestReport) -> bool {
    ["performance", "stress"].contains(&test.kind.as_str()) && test.throughput.is_some()
}

/// The test whose figure is worst, and the figure. A test without the figure is worst of all.
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

/// `a` of `b` in percent; nothing of nothing is no share.
fn percent(a: usize, b: usize) -> Option<f64> {
    (b > 0).then(|| 100.0 * a as f64 / b as f64)
}

impl Graded<'_> {
    /// Transactional I/O per second that all hosts together were to reach.
    fn target(&self, test: &TestReport) -> Option<f64> {
        self.data.tests.get(&test.ordinal)?.target_iops.filter(|target| *target > 0.0)
    }

    /// The figure of a condition; `None` where the condition does not apply to the run.
    fn find(&self, name: &str, rule: &Rule) -> Option<Found> {
        match name {
            "rules_percent" => {
                let is_recorded = |name: &str| self.data.rules.iter().any(|rule| rule.name == name);
                let count = CONDITIONS.iter().filter(|condition| is_recorded(condition.name)).count();
                let count = if self.data.claim.is_some() { count } else { 0 };
                let note = match count {
                    0 => "the rules of the run are not recorded".to_owned(),
                    _ => format!("{count} of {} rules are recorded", CONDITIONS.len()),
                };
                found(percent(count, CONDITIONS.len()), note)
            }
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
            "hosts_percent" => self.hosts(),
            "unbuffered_percent" | "on_storage_percent" | "kernel_log_percent"
                if self.data.run.world == WorldKind::Simulated =>
            {
                None
            }
            "unbuffered_percent" => self.unbuffered(),
            "on_storage_percent" => self.on_storage(),
            "kernel_log_percent" => self.kernel_log(),
            "excused_limits" => self.excused(),
            "errors" => self.errors(),
            // Without a load, the rest has nothing to be about.
            _ if self.loads.is_empty() => None,
            "target_set_percent" => {
                let (with, all) =
                    (self.loads.iter().filter(|test| self.target(test).is_some()).count(), self.loads.len());
                let note = match with {
                    0 => "no target was set".to_owned(),
                    _ => format!("load tests with a target: {with} of {all}"),
                };
                found(percent(with, all), note)
            }
            "target_met_percent" => self.target_met(rule),
            "worst_failure_percent" => self.worst_failure(rule),
            "latency_limits_percent" => self.latency_limits(rule),
            "performance_window_s" => self.window("performance", rule),
            "stress_window_s" => self.window("stress", rule),
            "window_percent" => self.window_share(rule),
            "cache_ratio" => self.cache_ratio(),
            "cache_filled_percent" => self.cache_filled(rule),
            "maintained_percent" => self.maintained(rule),
            "reads_per_batch" => self.shape("Database page reads per batch", rule),
            "writes_per_batch" => self.shape("Database page writes per batch", rule),
            "log_writes_per_batch" => self.shape("Log writes per batch", rule),
            "log_file_kib_per_batch" => self.shape("Log files per batch", rule),
            "throughput_change_percent" => {
                self.steady(rule, "transactional I/O changes", |s| s.iops_change_max)
            }
            "write_change_percent" => self.steady(rule, "database writes change", |s| s.writes_change_max),
            "latency_change_percent" => self.steady(rule, "a latency changes", |s| s.latency_change_max),
            "write_start_percent" => self.write_start(rule),
            _ => found(None, "this version does not know the condition"),
        }
    }

    fn tests_done(&self) -> Option<Found> {
        let is_done = |kind: &str| self.tests.iter().any(|test| test.ended && test.kind == kind);
        // A backup to disk reads every page as well.
        let is_done = |kind: &str| is_done(kind) || (kind == "backup" && is_done("backup_to_disk"));
        let (done, missing): (Vec<&str>, Vec<&str>) =
            self.claim.tests.iter().map(String::as_str).partition(|kind| is_done(kind));
        found(Some(done.len() as f64), format!("tests that were not done: {}", missing.join(", ")))
    }

    fn target_met(&self, rule: &Rule) -> Option<Found> {
        let with: Vec<_> = self.loads.iter().copied().filter(|test| self.target(test).is_some()).collect();
        let share = |test: &TestReport| {
            Some(100.0 * test.throughput.as_ref()?.transactional_iops / self.target(test)?)
        };
        let (test, measured) = worst(&with, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("{told} of the target achieved in {}", test.name))
    }

    fn worst_failure(&self, rule: &Rule) -> Option<Found> {
        let planned = self.claim.iops_per_server.filter(|iops| *iops > 0.0)?;
        let servers = self.present().len().max(1) as f64;
        let share = |test: &TestReport| Some(100.0 * self.target(test)? / servers / planned);
        let with: Vec<_> = self.loads.iter().copied().filter(|test| self.target(test).is_some()).collect();
        let (test, measured) = worst(&with, rule, share)?;
        let case = self.claim.failure.as_deref().unwrap_or("the worst failure");
        let of = format!(
            "{} transactional I/O per second and server that the plan derives for {case}",
            significant(planned)
        );
        // The plan prints two decimals: less than that is no difference.
        let measured = measured.map(|share| if (share - 100.0).abs() < 0.01 { 100.0 } else { share });
        found(
            measured,
            format!("the target of {} is {} % of the {of}", test.name, bare(measured.unwrap_or(0.0))),
        )
    }

    /// The loosest latency limit of the load tests. A limit that nobody published is one more, not a looser one.
    fn latency_limits(&self, rule: &Rule) -> Option<Found> {
        let loosest = |test: &TestReport| {
            let limits = &self.data.tests.get(&test.ordinal)?.limits;
            let share = |limit: &results::Limit| Some(100.0 * limit.value / limit.published?);
            limits.iter().filter_map(share).reduce(f64::max)
        };
        let (test, measured) = worst(&self.loads, rule, loosest)?;
        let told = measured.map_or("not known".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("latency limits of {}, of the published ones: {told}", test.name))
    }

    /// Databases with maintenance reads in a load test.
    fn maintained(&self, rule: &Rule) -> Option<Found> {
        let share = |test: &TestReport| {
            let read = of_test(&self.data.series, test.ordinal).filter(|((_, _, class), points)| {
                *class == IoClass::MaintenanceRead.into() && points.iter().any(|point| point.totals.count > 0)
            });
            let origins: BTreeSet<&Origin> = read.map(|((_, origin, _), _)| origin).collect();
            let databases = self.data.databases.iter();
            let count = databases.filter(|database| origins.contains(&database.origin)).count();
            percent(count, self.data.databases.len())
        };
        let (test, measured) = worst(&self.loads, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("background maintenance read {told} of the databases in {}", test.name))
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
            Some(if planned_s - duration_s < 0.5 { 100.0 } else { 100.0 * duration_s / planned_s })
        };
        let (test, measured) = worst(&self.loads, rule, share)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("{} measured {told} of its planned window: an estimate of it", test.name))
    }

    fn cache_ratio(&self) -> Option<Found> {
        let loads: BTreeSet<u32> = self.loads.iter().map(|test| test.ordinal).collect();
        let ratio = |instance: &results::Instance| {
            let of_it = |origin: &Origin| {
                origin.host == instance.host && origin.instance.as_deref() == Some(instance.name.as_str())
            };
            let sizes =
                self.data.sizes.iter().filter(|size| loads.contains(&size.test) && of_it(&size.origin));
            let first = sizes.clone().map(|size| size.test).min()?;
            let bytes: u64 = sizes.filter(|size| size.test == first).map(|size| size.bytes_before).sum();
            (instance.cache_max_bytes > 0).then(|| bytes as f64 / instance.cache_max_bytes as f64)
        };
        let ratios: Option<Vec<f64>> = self.data.instances.iter().map(ratio).collect();
        let least = ratios.and_then(|ratios| ratios.into_iter().reduce(f64::min));
        let told = least.map_or("size of the databases against the cache is not known".to_owned(), |least| {
            format!("database {} x its cache", bare(least))
        });
        found(least, format!("{told}; 500 x or more behaves like the published runs"))
    }

    fn cache_filled(&self, rule: &Rule) -> Option<Found> {
        let filled = |test: &TestReport| {
            let row = self.data.tests.get(&test.ordinal)?;
            let opened_ms = row.window_start_ms?;
            let shares: Option<Vec<f64>> = self
                .data
                .instances
                .iter()
                .map(|instance| {
                    let key =
                        (test.ordinal, Origin::instance(&instance.host, &instance.name), Counter::CacheBytes);
                    let points = self.data.counters.get(&key)?;
                    // The level at the end of the interval that ends nearest to the opening.
                    let nearest =
                        points.iter().min_by_key(|p| (p.t_ms + p.interval_ms).abs_diff(opened_ms))?;
                    Some(100.0 * nearest.value as f64 / instance.cache_max_bytes.max(1) as f64)
                })
                .collect();
            shares?.into_iter().reduce(f64::min)
        };
        let (test, measured) = worst(&self.loads, rule, filled)?;
        let told = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("cache filled to {told} when the window of {} opened", test.name))
    }

    fn shape(&self, row: &str, rule: &Rule) -> Option<Found> {
        let shape = |test: &TestReport| test.load_shape.iter().find(|shape| shape.name == row).cloned();
        let (test, measured) = worst(&self.loads, rule, |test| shape(test)?.measured)?;
        let unit = &rule.unit;
        let told =
            measured.map_or(format!("{unit} not known"), |measured| format!("{} {unit}", bare(measured)));
        let wanted = match (rule.least, rule.most, shape(test)) {
            (None, None, _) => "no published reference for this mix".to_owned(),
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

    fn steady(&self, rule: &Rule, what: &str, change: impl Fn(&Steadiness) -> Option<f64>) -> Option<Found> {
        let (test, measured) =
            worst(&self.loads, rule, |test| Some(100.0 * change(test.steadiness.as_ref()?)?))?;
        let by = measured.map_or("an unknown share".to_owned(), |change| format!("{} %", bare(change)));
        let allowed = rule.most.map_or(String::new(), |most| format!(", {} % allowed", bare(most)));
        found(measured, format!("{what} by {by} in a quarter of the window of {}{allowed}", test.name))
    }

    fn write_start(&self, rule: &Rule) -> Option<Found> {
        let start = |test: &TestReport| Some(100.0 * test.steadiness.as_ref()?.write_start?);
        let (test, measured) = worst(&self.loads, rule, start)?;
        let at = measured.map_or("an unknown share".to_owned(), |share| format!("{} %", bare(share)));
        found(measured, format!("database writes begin at {at} of their mean in {}", test.name))
    }

    /// Databases that a checksum behind the last load read without finding a bad page.
    fn verified(&self) -> Option<Found> {
        let after = self.loads.iter().map(|test| test.ordinal).max().unwrap_or(0);
        let is_checksum = |ordinal: u32| {
            self.data
                .tests
                .get(&ordinal)
                .is_some_and(|test| test.kind == "database_checksum" && test.ended_ms.is_some())
        };
        let verified: BTreeSet<&Origin> = self
            .data
            .checksums
            .iter()
            .filter(|row| row.test > after && row.origin.database.is_some() && is_checksum(row.test))
            .map(|row| &row.origin)
            .collect();
        let all = self.data.databases.len();
        let count = self.data.databases.iter().filter(|database| verified.contains(&database.origin)).count();
        found(percent(count, all), format!("databases verified after the last load: {count} of {all}"))
    }

    /// The least share of a database that a checksum read. What was there is not known in files of earlier builds.
    fn coverage(&self) -> Option<Found> {
        let share = |row: &results::Checksum| Some(100.0 * row.read.share()?.min(1.0));
        let mut rows = self.data.checksums.iter().filter(|row| row.origin.database.is_some()).peekable();
        rows.peek()?;
        let shares: Option<Vec<(f64, &Origin)>> = rows.map(|row| Some((share(row)?, &row.origin))).collect();
        let least = shares.and_then(|shares| shares.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)));
        let Some((share, origin)) = least else {
            return found(None, "share of the pages that were verified is not known");
        };
        let name = origin.database.as_deref().unwrap_or_default();
        found(Some(share), format!("{} % of the pages of {name} verified", bare(share)))
    }

    fn logs_verified(&self) -> Option<Found> {
        let all = self.data.instances.len();
        let is_verified = |instance: &&results::Instance| {
            let origin = Origin::instance(&instance.host, &instance.name);
            self.data.checksums.iter().any(|row| row.origin == origin && row.read.files > 0)
        };
        let count = self.data.instances.iter().filter(is_verified).count();
        found(percent(count, all), format!("instances with a verified closed log: {count} of {all}"))
    }

    /// Hosts that put a load on their storage, or did anything where there was no load.
    fn present(&self) -> BTreeSet<&str> {
        let measured = |test: &TestReport| {
            of_test(&self.data.series, test.ordinal).map(|((_, origin, _), _)| origin.host.as_str())
        };
        let loads: Vec<BTreeSet<&str>> = self.loads.iter().map(|test| measured(test).collect()).collect();
        // A host counts that took part in every load.
        let in_all = loads.into_iter().reduce(|a, b| a.intersection(&b).copied().collect());
        in_all.unwrap_or_else(|| self.tests.iter().flat_map(measured).collect())
    }

    fn hosts(&self) -> Option<Found> {
        let present = self.present();
        let missing: Vec<&str> =
            self.claim.hosts.iter().map(String::as_str).filter(|host| !present.contains(host)).collect();
        let (all, count) = (self.claim.hosts.len(), self.claim.hosts.len() - missing.len());
        let note = format!("hosts that took part: {count} of {all}; missing: {}", missing.join(", "));
        found(percent(count, all), note)
    }

    fn unbuffered(&self) -> Option<Found> {
        let checks = checks::rows(self.data);
        let is_good = |host: &&results::Host| {
            checks.iter().any(|row| {
                row.name == checks::UNBUFFERED && row.host == host.name && row.outcome == CheckOutcome::Good
            })
        };
        let (count, all) = (self.data.hosts.iter().filter(is_good).count(), self.data.hosts.len());
        found(percent(count, all), format!("hosts known to bypass the page cache: {count} of {all}"))
    }

    /// Hosts whose kernel log could be read in full, from before the tests to behind them.
    fn kernel_log(&self) -> Option<Found> {
        let is_read = |host: &&results::Host| {
            let rows = self.data.environment.iter().filter(|row| row.host == host.name && is_kernel_log(row));
            let rows: Vec<&Environment> = rows.collect();
            !rows.is_empty() && !rows.into_iter().any(is_gap)
        };
        let all = self.data.hosts.len();
        let count = self.data.hosts.iter().filter(is_read).count();
        found(percent(count, all), format!("hosts whose kernel log was read throughout: {count} of {all}"))
    }

    fn on_storage(&self) -> Option<Found> {
        let is_of_it = |row: &&Environment, host: &str, volume: &str| {
            row.host == host && row.area.strip_prefix("Volume ") == Some(volume) && is_about_memory(row)
        };
        let mut others = Vec::new();
        for volume in &self.data.volumes {
            let row = self.data.environment.iter().find(|row| is_of_it(row, &volume.host, &volume.name));
            match row.map(|row| (row.severity, row.value.as_str())) {
                Some((Severity::Error, _)) => others.push(format!("{} is in memory", volume.name)),
                Some((_, NOT_MEMORY)) => {}
                _ => others.push(format!("whether {} is in memory is not known", volume.name)),
            }
        }
        let all = self.data.volumes.len();
        found(percent(all - others.len(), all), others.join(", "))
    }

    /// Limits that were broken and not judged: a fault that the solution file schedules excuses what it causes.
    fn excused(&self) -> Option<Found> {
        let is_excused = |verdict: &&Verdict| {
            let broken =
                verdict.measured.zip(verdict.limit).is_some_and(|(m, l)| !verdict.comparison.holds(m, l));
            verdict.outcome == Outcome::Info && broken
        };
        let count = self.data.verdicts.iter().filter(is_excused).count();
        found(Some(count as f64), counted(count as u64, "limit") + " broken by a scheduled fault")
    }

    fn errors(&self) -> Option<Found> {
        // Volumes in memory have a condition of their own.
        let environment = self.data.environment.iter().filter(|row| !is_about_memory(row));
        let environment = environment.filter(|row| row.severity == Severity::Error).count();
        let events = self.data.events.iter().filter(|event| event.severity == Severity::Error).count();
        let count = environment + events;
        found(Some(count as f64), counted(count as u64, "error") + " noted")
    }
}
