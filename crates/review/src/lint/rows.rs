//! What the rows of a run say about each other, whether or not they are sealed.

use std::collections::BTreeMap;

use evidence::environment::storage_model;
use evidence::{Report, RunData};
use results::{Counter, Day, Doubt, IoClass, Measure, Origin, Outcome, Test, Verdict, WorldKind};
use solution::{LoadSpec, Solution, TestKind, TestSpec};

use super::{Findings, agrees_within, brief, judged, shown, with};

/// Rules on the rows of `run.db`.
pub(super) fn check(data: &RunData, report: &Report, findings: &mut Findings) {
    stray_rows(data, findings);
    no_host_counters(data, findings);
    for test in data.tests.values().filter(|test| test.ended_ms.is_some()) {
        distributions(data, test, findings);
        sums(data, test, findings);
        gaps(data, test, findings);
        limits(data, test, findings);
        if let Some(report) = report.tests.iter().find(|report| report.ordinal == test.ordinal) {
            judged::figures(report, &test.limits, findings);
        }
    }
    if let Ok(solution) = Solution::parse(&data.run.solution_text, "solution file") {
        against_solution(data, &solution, findings);
        claim(data, &solution, findings);
    }
}

/// Rule: no row names a test that the run does not have.
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
        let has = (results::figures::counted(data.tests.len() as u64, "test"), "table test");
        let text = "rows belong to a test that the run does not have";
        findings.add("stray_rows", text, (format!("test {test}"), format!("table {table}")), has);
    }
}

/// Rule: a real host that did I/O counted its processor time. Only modelled storage has no such counters, and drills,
/// whose databases are in processes of their own.
fn no_host_counters(data: &RunData, findings: &mut Findings) {
    let counted = data.counters.keys().any(|(.., counter)| *counter == Counter::CpuAvailableNs);
    let is_loaded = |test: &Test| test.window_start_ms.is_some() && test.kind != "drill";
    let has_window = |test: &u32| data.tests.get(test).is_some_and(is_loaded);
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

/// Operations of hosts that came to the end of their tests. Rows that a lost host had not yet sent are missing.
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
            (origin.clone(), *measure, points.iter().map(|point| point.totals.count).sum())
        });
    of_hosts.collect()
}

/// Rule: the latency distributions of a host hold every operation that its samples count. Drills record no
/// distributions.
fn distributions(data: &RunData, test: &Test, findings: &mut Findings) {
    if test.kind == TestKind::Drill.name() {
        return;
    }
    let has_none = |measure: &Measure| matches!(measure, Measure::Waiting(_) | Measure::Held(_));
    for (origin, measure, counted) in at_host(data, test).into_iter().filter(|(_, of, _)| !has_none(of)) {
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

/// Rule: the I/O of a host under load is the sum of the I/O of its databases and logs.
fn sums(data: &RunData, test: &Test, findings: &mut Findings) {
    let classes = [IoClass::TransactionalRead, IoClass::TransactionalWrite, IoClass::LogWrite];
    let of_load = |measure: &Measure| classes.iter().any(|class| *measure == Measure::Io(*class));
    for (host, measure, counted) in at_host(data, test).into_iter().filter(|(_, measure, _)| of_load(measure))
    {
        let parts = data.series.iter().filter(|((of, origin, part), _)| {
            *of == test.ordinal && origin.host == host.host && origin.instance.is_some() && *part == measure
        });
        let parts: Vec<u64> =
            parts.map(|(_, points)| points.iter().map(|point| point.totals.count).sum()).collect();
        let sum: u64 = parts.iter().sum();
        if !parts.is_empty() && sum != counted {
            let place = format!("{}: samples of {}", test.name, measure.name());
            findings.add(
                "instance_sum",
                "a host did another number of operations than its databases and logs together",
                (shown(counted as f64), format!("{place} on {}", host.host)),
                (shown(sum as f64), format!("{place}: sum over {} databases or logs", parts.len())),
            );
            return;
        }
    }
}

/// Milliseconds without a sample of a real host from which on a window has a gap; real hosts record one each second.
const LONGEST_SAMPLE_MS: u64 = 3_500;

/// Rule: a window whose verdict says that it has no gap has none.
fn gaps(data: &RunData, test: &Test, findings: &mut Findings) {
    let (Some(start), Some(end)) = (test.window_start_ms, test.window_end_ms) else { return };
    if data.run.world == WorldKind::Simulated {
        return;
    }
    for passed in verdicts_of(data, test.ordinal)
        .filter(|verdict| verdict.rule == "window_without_gaps" && verdict.outcome == Outcome::Pass)
    {
        let host = Origin::host(&passed.origin.host);
        let counted =
            data.series.iter().filter(|((of, origin, _), _)| (*of, origin) == (test.ordinal, &host));
        let counted =
            counted.flat_map(|(_, points)| points.iter().map(|point| (point.t_ms, point.interval_ms)));
        let levels =
            data.counters.iter().filter(|((of, origin, _), _)| (*of, origin) == (test.ordinal, &host));
        let levels =
            levels.flat_map(|(_, points)| points.iter().map(|point| (point.t_ms, point.interval_ms)));
        let mut ticks: Vec<u64> = counted.chain(levels).flat_map(|(t, length)| [t, t + length]).collect();
        ticks.retain(|tick| (start..=end).contains(tick));
        ticks.extend([start, end]);
        ticks.sort_unstable();
        let longest = ticks.iter().zip(&ticks[1..]).map(|(from, to)| (to - from, *from)).max();
        if let Some((length, from)) = longest.filter(|(length, _)| *length > LONGEST_SAMPLE_MS) {
            findings.add(
                "window_gap",
                "the window passes for one without gaps, and nothing was sampled for seconds",
                ("pass", format!("{}: window_without_gaps of {}", test.name, host.host)),
                (format!("{length} ms"), format!("{}: between samples, from {from} ms on", test.name)),
            );
            return;
        }
    }
}

fn verdicts_of(data: &RunData, test: u32) -> impl Iterator<Item = &Verdict> {
    data.verdicts.iter().filter(move |verdict| verdict.test == Some(test))
}

/// Rule: verdicts use the limits that the test recorded before its load began.
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

/// Rule: what the run sets out to show follows from its solution file. Only for runs of this version, because another
/// may derive it differently.
fn claim(data: &RunData, solution: &Solution, findings: &mut Findings) {
    let Some(recorded) = &data.claim else { return };
    if data.run.tool_version != env!("CARGO_PKG_VERSION") {
        return;
    }
    // What the storage model states is no part of the solution file.
    let of_model = data.environment.iter().filter(|row| row.area == storage_model::AREA);
    let measured = plan::measured_storage(of_model.map(|row| (&*row.name, &*row.value, &*row.note)));
    let mut derived = plan::claim(solution, data.run.world, measured.as_deref(), recorded.tests.clone());
    let doubtful = data
        .environment
        .iter()
        .filter(|row| (&*row.area, &*row.name) == (storage_model::AREA, storage_model::DOUBT));
    derived.doubts.extend(doubtful.map(|row| Doubt { part: "storage".into(), text: row.value.clone() }));
    for test in data.tests.values() {
        let planned_s = test.window_planned_ms.map_or(0.0, |ms| ms as f64 / 1e3);
        let stated = solution.load.hours_percent.map(|hours| Day::of_window(hours, planned_s));
        if test.window_start_ms.is_some() && test.day.is_some() && test.day != stated {
            let told = |day: Option<Day>| brief(&format!("{day:?}"));
            let text = "the load followed another day than its solution file says";
            let one = (told(test.day), format!("{}: day", test.name));
            findings.add("claim", text, one, (told(stated), "solution file: hours_percent"));
        }
    }
    if derived != *recorded {
        let told = |claim: &results::Claim| brief(&format!("{claim:?}"));
        let text = "what the run set out to show is not what its solution file says";
        findings.add("claim", text, (told(recorded), "run.db: claim"), (told(&derived), "solution file"));
    }
}

/// Mean transactional I/O per second that a test has to reach by its solution file.
fn mean_target(load: &LoadSpec, spec: &TestSpec) -> Option<f64> {
    let hours = load.hours_percent.filter(|_| spec.follows_hours());
    let day = hours.map(|hours| Day::of_window(hours, spec.duration_s));
    Some(load.target_iops? * day.map_or(1.0, |day| day.mean_between(0.0, spec.duration_s)))
}

/// Rule: lengths, targets and sizes of a run on one real host are those of the solution file that it carries.
/// `simulate` may have been given others, and the hosts of a fleet have shares of them.
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
            && let Some(target) = mean_target(&deployment.load, spec)
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
