//! What the rows of a run say about each other, whether or not they are sealed.

use std::collections::BTreeMap;

use evidence::report::{InstanceIo, TestReport};
use evidence::{Report, RunData};
use results::{
    Counter, Ending, Event, IoClass, Measure, Origin, Outcome, Severity, Test, Verdict, WorldKind,
};
use solution::{Solution, TestKind};

use super::{Findings, agrees_within, brief, with};

/// A figure counts as beyond its limit from here on: the judge took its samples on a clock of its own.
const CLEARLY: f64 = 1.01;

/// Checks the rows of `run.db`.
pub(super) fn check(data: &RunData, report: &Report, findings: &mut Findings) {
    stray_rows(data, findings);
    no_host_counters(data, findings);
    for test in data.tests.values().filter(|test| test.ended_ms.is_some()) {
        distributions(data, test, findings);
        sums(data, test, findings);
        limits(data, test, findings);
        if let Some(report) = report.tests.iter().find(|report| report.ordinal == test.ordinal) {
            unjudged_figures(data, test, report, findings);
            unjudged_pages(data, report, findings);
        }
    }
    for event in data.events.iter().filter(|event| event.severity == Severity::Error) {
        unjudged_error(data, event, findings);
    }
    if let Ok(solution) = Solution::parse(&data.run.solution_text, "solution file") {
        against_solution(data, &solution, findings);
    }
}

/// Tests that rows name and that the run does not have.
fn stray_rows(data: &RunData, findings: &mut Findings) {
    let named = data
        .series
        .keys()
        .map(|(test, ..)| ("series", *test))
        .chain(data.counters.keys().map(|(test, ..)| ("series", *test)))
        .chain(data.histograms.keys().map(|(test, ..)| ("histogram", *test)))
        .chain(data.sizes.iter().map(|row| ("database_size", row.test)))
        .chain(data.tuning_steps.iter().map(|row| ("tuning_step", row.test)))
        .chain(data.checksums.iter().map(|row| ("checksum", row.test)))
        .chain(data.backups.iter().map(|row| ("backup", row.test)))
        .chain(data.recoveries.iter().map(|row| ("recovery", row.test)))
        .chain(data.parts.iter().map(|row| ("storage_part", row.test)))
        .chain(data.events.iter().filter_map(|row| Some(("event", row.test?))))
        .chain(data.verdicts.iter().filter_map(|row| Some(("verdict", row.test?))));
    let mut stray: BTreeMap<u32, &str> = BTreeMap::new();
    for (table, test) in named.filter(|(_, test)| !data.tests.contains_key(test)) {
        stray.entry(test).or_insert(table);
    }
    for (test, table) in stray {
        let has = (format!("{} tests", data.tests.len()), "table test");
        let text = "rows belong to a test that the run does not have";
        findings.add("stray_rows", text, (format!("test {test}"), format!("table {table}")), has);
    }
}

/// Only a real host counts its processor time; only modelled storage can do without.
fn no_host_counters(data: &RunData, findings: &mut Findings) {
    let counted = data.counters.keys().any(|(.., counter)| *counter == Counter::CpuAvailableNs);
    let has_window = |test: &u32| data.tests.get(test).is_some_and(|test| test.window_start_ms.is_some());
    let measured = data.series.keys().any(|(test, origin, _)| origin.instance.is_none() && has_window(test));
    if data.run.world == WorldKind::Real && measured && !counted {
        findings.add(
            "world_mixed",
            "a real run counts the processor time of its hosts, a simulated one cannot",
            ("real", "run.world"),
            ("no processor time", "measure cpu_available_ns"),
        );
    }
}

/// Counted operations of hosts that came to the end of their tests: what a lost host had not yet kept is gone.
fn at_host(data: &RunData, test: &Test) -> Vec<(Origin, Measure, u64)> {
    let of_hosts = data
        .series
        .iter()
        .filter(|((of, origin, _), _)| *of == test.ordinal && origin.instance.is_none())
        .filter(|((_, origin, _), _)| {
            !data.verdicts.iter().any(|verdict| {
                verdict.rule == "host_took_part"
                    && verdict.origin.host == origin.host
                    && verdict.outcome != Outcome::Pass
            })
        })
        .map(|((_, origin, measure), points)| {
            (origin.clone(), *measure, points.iter().map(|point| point.tally.count).sum())
        });
    of_hosts.collect()
}

/// The latency distributions of a host hold every operation that its samples count. Drills record no distributions.
fn distributions(data: &RunData, test: &Test, findings: &mut Findings) {
    if test.kind == TestKind::Drill.name() {
        return;
    }
    for (origin, measure, counted) in at_host(data, test) {
        let slices = data.histograms.get(&(test.ordinal, origin.clone(), measure));
        let held: Option<u64> = slices.into_iter().flatten().map(evidence::Slice::operations).sum();
        if held != Some(counted) {
            let place =
                |table: &str| format!("{}: {table} of {} on {}", test.name, measure.name(), origin.host);
            findings.add(
                "distribution_count",
                "the latency distributions hold another number of operations than the samples count",
                (held.map_or("unreadable".to_owned(), |held| held.to_string()), place("distributions")),
                (counted.to_string(), place("samples")),
            );
            return;
        }
    }
}

/// What a host did under load is the sum of what its databases and logs did.
fn sums(data: &RunData, test: &Test, findings: &mut Findings) {
    let classes = [IoClass::TransactionalRead, IoClass::TransactionalWrite, IoClass::LogWrite];
    let of_load = |measure: &Measure| classes.iter().any(|class| *measure == Measure::Io(*class));
    for (host, measure, counted) in at_host(data, test).into_iter().filter(|(_, measure, _)| of_load(measure))
    {
        let parts = data.series.iter().filter(|((of, origin, part), _)| {
            *of == test.ordinal && origin.host == host.host && origin.instance.is_some() && *part == measure
        });
        let parts: Vec<u64> =
            parts.map(|(_, points)| points.iter().map(|point| point.tally.count).sum()).collect();
        let sum: u64 = parts.iter().sum();
        if !parts.is_empty() && sum != counted {
            let place = format!("{}: samples of {}", test.name, measure.name());
            findings.add(
                "instance_sum",
                "a host did another number of operations than its databases and logs together",
                (counted.to_string(), format!("{place} on {}", host.host)),
                (sum.to_string(), format!("{place}: sum over {} databases or logs", parts.len())),
            );
            return;
        }
    }
}

fn verdicts_of(data: &RunData, test: u32) -> impl Iterator<Item = &Verdict> {
    data.verdicts.iter().filter(move |verdict| verdict.test == Some(test))
}

/// Verdicts judge by the limits that the test announced before its load began.
fn limits(data: &RunData, test: &Test, findings: &mut Findings) {
    for limit in &test.limits {
        let other = verdicts_of(data, test.ordinal)
            .filter(|verdict| verdict.rule == limit.rule)
            .find(|verdict| verdict.limit.is_some_and(|judged| !agrees_within(judged, limit.value, 1e-9)));
        if let Some(verdict) = other {
            findings.add(
                "limit_announced",
                "the verdict was judged by another limit than the test announced",
                (
                    with(verdict.limit.unwrap_or_default(), &verdict.unit),
                    format!("{}: verdict {}", test.name, limit.rule),
                ),
                (with(limit.value, &limit.unit), format!("{}: limits of the test", test.name)),
            );
            return;
        }
    }
}

/// Whether `wide` is the place of `origin`, or holds it.
pub(super) fn covers(wide: &Origin, origin: &Origin) -> bool {
    wide.host == origin.host
        && (wide.instance.is_none() || wide.instance == origin.instance)
        && (wide.database.is_none() || wide.database == origin.database)
}

pub(super) fn place_of(origin: &Origin) -> String {
    [Some(&origin.host), origin.instance.as_ref(), origin.database.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("/")
}

/// A latency beyond its limit needs a verdict that does not pass, and what one database is judged by, all are.
fn unjudged_figures(data: &RunData, test: &Test, report: &TestReport, findings: &mut Findings) {
    for limit in &test.limits {
        let rows = if limit.rule.starts_with("read_") && !report.databases.is_empty() {
            &report.databases
        } else {
            &report.instances
        };
        for row in rows {
            let judged: Vec<&Verdict> = verdicts_of(data, test.ordinal)
                .filter(|verdict| verdict.rule == limit.rule && covers(&verdict.origin, &row.origin))
                .collect();
            let Some(figure) = latency_of(row, &limit.rule) else { continue };
            let beyond = figure > limit.value * CLEARLY;
            let peers = || {
                verdicts_of(data, test.ordinal).any(|verdict| {
                    verdict.rule == limit.rule
                        && verdict.origin.host == row.origin.host
                        && verdict.origin.instance.is_some()
                })
            };
            let place = format!("{}: verdict {} of {}", test.name, limit.rule, place_of(&row.origin));
            let measured = (with(figure, &limit.unit), format!("{}: {}", test.name, place_of(&row.origin)));
            if beyond && judged.iter().all(|verdict| verdict.outcome == Outcome::Pass) {
                let said = if judged.is_empty() { "none" } else { "pass" };
                let text = "a latency is beyond its limit, and no verdict says so";
                findings.add("verdict_missing", text, measured, (said, place));
                return;
            }
            if judged.is_empty() && peers() {
                let text = "a database or log was not judged by a rule that its neighbours were judged by";
                findings.add("verdict_missing", text, measured, ("none", place));
                return;
            }
        }
    }
}

fn latency_of(row: &InstanceIo, rule: &str) -> Option<f64> {
    match rule {
        "read_latency_avg" => row.reads?.latency_ms_mean,
        "read_latency_max" => row.reads?.latency_ms_sample_max,
        "log_write_latency_avg" => row.log_writes?.latency_ms_mean,
        "log_write_latency_max" => row.log_writes?.latency_ms_sample_max,
        _ => None,
    }
}

/// Bad pages that a check counted need a verdict that does not pass.
fn unjudged_pages(data: &RunData, report: &TestReport, findings: &mut Findings) {
    for row in &report.checksums {
        let bad = row.bad_pages + row.correctable_pages + row.wrong_number_pages;
        let passes = || {
            verdicts_of(data, report.ordinal)
                .filter(|verdict| covers(&verdict.origin, &row.origin))
                .all(|verdict| verdict.outcome == Outcome::Pass)
        };
        if bad > 0 && passes() {
            let place = format!("{}: {}", report.name, place_of(&row.origin));
            let verdict = ("none that does not pass", format!("{}: verdicts", report.name));
            findings.add(
                "verdict_missing",
                "a check counted bad pages, and no verdict says so",
                (bad.to_string(), place),
                verdict,
            );
            return;
        }
    }
}

/// Damage that an event names needs a verdict that does not pass: of the database, where the event names one.
fn unjudged_error(data: &RunData, event: &Event, findings: &mut Findings) {
    let database = event.text.split_once(": page ").map(|(database, _)| database);
    let judged = data.verdicts.iter().any(|verdict| {
        let about_it = match (database, &verdict.origin.database) {
            (Some(named), Some(judged)) => verdict.test == event.test && judged == named,
            (Some(_), None) => verdict.test == event.test,
            (None, _) => verdict.test.is_none() || verdict.test == event.test,
        };
        about_it && verdict.origin.host == event.host && verdict.outcome != Outcome::Pass
    });
    // What stopped a run is judged by its ending.
    let stopped = database.is_none() && data.run.ending != Some(Ending::Completed);
    if !judged && !stopped {
        findings.add(
            "error_unjudged",
            "an error was reported, and no verdict says so",
            (brief(&event.text), format!("event at {} s", event.t_ms as f64 / 1e3)),
            ("all pass", format!("verdicts of {}", event.host)),
        );
    }
}

/// Lengths, targets and sizes of a run on one real host against the solution file that it carries. `simulate` may have been
/// given others, and the hosts of a fleet have shares of them.
fn against_solution(data: &RunData, solution: &Solution, findings: &mut Findings) {
    let [host] = data.hosts.as_slice() else { return };
    if data.run.world != WorldKind::Real {
        return;
    }
    let Ok(deployment) = solution.deployment(Some(&host.name)) else { return };
    let mut differs = |text: &str, at: String, unit: &str, measured: f64, stated: f64| {
        let solution = (with(stated, unit), "solution file");
        findings.add("solution_test", text, (with(measured, unit), at), solution);
    };
    for (at, test) in data.tests.values().enumerate() {
        let nth = data.tests.values().take(at).filter(|other| other.kind == test.kind).count();
        let Some(spec) = deployment.tests.iter().filter(|spec| spec.kind.name() == test.kind).nth(nth) else {
            continue;
        };
        if let Some(planned_ms) = test.window_planned_ms
            && !agrees_within(planned_ms as f64 / 1e3, spec.duration_s, 1e-3)
        {
            let text = "the window was planned for another length than the solution file says";
            differs(
                text,
                format!("{}: planned window", test.name),
                "s",
                planned_ms as f64 / 1e3,
                spec.duration_s,
            );
        }
        if test.window_start_ms.is_some()
            && let Some(target) = deployment.load.target_iops
            && test.target_iops != Some(target)
        {
            let text = "the test had another target than the solution file says";
            differs(text, format!("{}: target", test.name), "1/s", test.target_iops.unwrap_or(0.0), target);
        }
    }
    for instance in &deployment.instances {
        for database in &instance.databases {
            let origin = Origin::database(&host.name, &instance.name, &database.name);
            // Before its load: tests that make the database find none.
            let loaded = |test: u32| data.tests.get(&test).is_some_and(|test| test.window_start_ms.is_some());
            let sizes = data.sizes.iter().filter(|size| size.origin == origin && loaded(size.test));
            if let Some(size) = sizes.min_by_key(|size| size.test)
                && (size.bytes_before as f64) < 0.99 * database.bytes as f64
            {
                let text = "a database was smaller than the solution file says";
                let at = format!("size of {} before test {}", database.name, size.test);
                differs(text, at, "bytes", size.bytes_before as f64, database.bytes as f64);
                return;
            }
        }
    }
}
