//! The first page of `report.html`: what the run proves, target against achieved, the charts that matter, the findings.
//!
//! Everything here is made from the [`Report`], as the rest of the page is.

use minijinja::{Value, context};
use results::{Grade, Outcome, Parameter, WorldKind};

use super::charts::title;
use super::model::*;
use super::verdict::PREDICTED;
use super::{svg, text};
use crate::markup::escape;

/// The values for the template of the report's first page.
pub fn of(report: &Report) -> Value {
    let charted = charted(report);
    context! {
        word => word(report.verdict.grade),
        headline => headline(report),
        proves => proves(report),
        loads => loads(report).map(load).collect::<Vec<_>>(),
        tuning => tuning(report),
        charted => charted.map(|test| context! { name => &test.name, ordinal => test.ordinal }),
        charts => charted.map(charts).unwrap_or_default(),
        findings => findings(report),
    }
}

/// The grade as one word for readers that do not know grades. Only a qualification is a PASS: a run that held its
/// limits may prove nothing about the load that the storage is for.
fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Qualified => "PASS",
        Grade::Held => "LIMITS HELD",
        Grade::Failed => "FAIL",
        Grade::Incomplete => "INCOMPLETE",
    }
}

/// The sentence of the grade as HTML, with a link to the test that it names.
fn headline(report: &Report) -> Value {
    let sentence = report.verdict.headline.as_str();
    let (before, sentence) = match sentence.strip_prefix(PREDICTED) {
        Some(sentence) => (PREDICTED, sentence),
        None => ("", sentence),
    };
    Value::from_safe_string(before.to_owned() + &linked(report, sentence))
}

/// What a run of this grade proves, and what it does not, in a sentence.
fn proves(report: &Report) -> String {
    let judged = &report.verdict;
    let is_open = |row: &&ConditionRow| !row.met;
    let proved = match judged.grade {
        Grade::Qualified => {
            "The run proves it: no limit is broken, and every condition of a qualification is met.".to_owned()
        }
        Grade::Held => format!(
            "No limit is broken. This does not prove that the storage carries a stated load: {} of {} conditions \
             of a qualification are not met.",
            judged.conditions.iter().filter(is_open).count(),
            judged.conditions.len()
        ),
        Grade::Failed => format!(
            "The storage, as it was tested, broke {} of {}.",
            text::number(f64::from(judged.failed), 0),
            text::counted(u64::from(judged.failed + judged.passed), "limit")
        ),
        Grade::Incomplete => {
            "A run proves something only when every test has ended and every limit was judged.".to_owned()
        }
    };
    match report.run.world {
        WorldKind::Real => proved,
        WorldKind::Simulated => format!("A model of the storage made these figures. {proved}"),
    }
}

fn loads(report: &Report) -> impl Iterator<Item = &TestReport> {
    report.tests.iter().filter(|test| test.throughput.is_some())
}

/// A load test as a row of the table of targets: target, achieved, latencies and their limits.
fn load(test: &TestReport) -> Value {
    let achieved = test.throughput.map(|throughput| throughput.transactional_iops);
    let target = test.target_iops();
    context! {
        ordinal => test.ordinal,
        name => &test.name,
        target,
        achieved,
        of_target => achieved.zip(target).map(|(achieved, target)| achieved / target),
        read_ms => mean_ms(test, "transactional_read"),
        read_worst_ms => worst(test, "read_latency_avg"),
        read_limit_ms => limit(test, "read_latency_avg"),
        log_write_ms => mean_ms(test, "log_write"),
        log_write_worst_ms => worst(test, "log_write_latency_avg"),
        log_write_limit_ms => limit(test, "log_write_latency_avg"),
    }
}

fn mean_ms(test: &TestReport, measure: &str) -> Option<f64> {
    test.measures.iter().find(|row| row.measure == measure)?.figures.latency_ms_mean
}

/// The highest mean latency of a database that the rule judged, in ms.
fn worst(test: &TestReport, rule: &str) -> Option<f64> {
    let judged = test.verdicts.iter().filter(|verdict| verdict.rule == rule);
    judged.filter_map(|verdict| verdict.measured).reduce(f64::max)
}

fn limit(test: &TestReport, rule: &str) -> Option<f64> {
    test.verdicts.iter().find(|verdict| verdict.rule == rule)?.limit
}

/// The load that tuning found and the load that the tests ran, in a sentence; `None` without a tuning.
fn tuning(report: &Report) -> Option<String> {
    let test = report.tests.iter().find(|test| !test.tuning.is_empty())?;
    let rule = |verdict: &&results::Verdict| verdict.rule == "tuned_sessions";
    let found = test.verdicts.iter().find(rule).and_then(|verdict| verdict.measured);
    let found = found.map(|sessions| text::counted(sessions as u64, "session"));
    let step = found.as_ref().and_then(|load| test.tuning.iter().find(|step| step.load == *load));
    let tuned = match (&found, step) {
        (Some(load), Some(step)) => format!(
            "{} found a load of {load}: {} transactional I/O per second in a short step.",
            test.name,
            text::number(step.iops, 0)
        ),
        (Some(load), None) => format!("{} found a load of {load}.", test.name),
        (None, _) => format!("{} found no load inside all limits.", test.name),
    };
    let mut ran: Vec<(String, Vec<&str>)> = Vec::new();
    for test in loads(report) {
        let load = load_of(test);
        match ran.iter_mut().find(|(known, _)| *known == load) {
            Some((_, tests)) => tests.push(&test.name),
            None => ran.push((load, vec![&test.name])),
        }
    }
    let ran = ran.into_iter().map(|(load, tests)| {
        let tests = listed(&tests);
        match found.as_ref() == Some(&load) {
            true => format!(" {tests} ran that load."),
            false => format!(" {tests} ran another load, which was set before the run: {load}."),
        }
    });
    Some(tuned + &ran.collect::<String>())
}

/// The load of a test in short, from its settings: `8 sessions` of `closed: 8 sessions, each rests ...`.
fn load_of(test: &TestReport) -> String {
    let setting = test
        .parameters
        .iter()
        .find(|row| row.name == Parameter::LOAD)
        .map_or("not recorded", |row| &row.value);
    let setting = setting.strip_prefix("closed: ").and_then(|load| load.split(',').next()).unwrap_or(setting);
    setting.strip_prefix("paced: ").unwrap_or(setting).to_owned()
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}

/// The test whose charts stand on the first page: the first load test that failed, else the performance test.
fn charted(report: &Report) -> Option<&TestReport> {
    let drawn = || loads(report).filter(|test| !test.charts.is_empty());
    let failed = drawn().find(|test| test.outcome == Some(Outcome::Fail));
    failed.or_else(|| drawn().find(|test| test.kind == "performance")).or_else(|| drawn().next())
}

/// The three charts of the first page: transactional I/O, read latency, log write latency.
fn charts(test: &TestReport) -> Vec<Value> {
    let achieved = test.throughput.map(|throughput| throughput.transactional_iops);
    let name = if test.hours.is_empty() { "Target" } else { "Target of the mean" };
    let goal = test.target_iops().map(|value| ChartLimit { name: name.to_owned(), value });
    let drawn = [
        small(
            test,
            title::RATES,
            &["Database reads", "Database writes"],
            "Transactional I/O",
            goal,
            achieved,
            0,
        ),
        small(
            test,
            title::LATENCIES,
            &["Database reads"],
            "Read latency",
            chart_limit(test, "Limit for reads"),
            mean_ms(test, "transactional_read"),
            2,
        ),
        small(
            test,
            title::LATENCIES,
            &["Log writes"],
            "Log write latency",
            chart_limit(test, "Limit for log writes"),
            mean_ms(test, "log_write"),
            2,
        ),
    ];
    drawn.into_iter().flatten().collect()
}

fn chart_limit(test: &TestReport, name: &str) -> Option<ChartLimit> {
    let chart = test.charts.iter().find(|chart| chart.title == title::LATENCIES)?;
    let limit = chart.limits.iter().find(|limit| limit.name == name)?;
    Some(ChartLimit { name: "Limit".to_owned(), value: limit.value })
}

/// A small chart of a sum of lines of a test's chart, and its caption.
fn small(
    test: &TestReport,
    from: &str,
    lines: &[&str],
    name: &str,
    limit: Option<ChartLimit>,
    mean: Option<f64>,
    decimals: usize,
) -> Option<Value> {
    let chart = test.charts.iter().find(|chart| chart.title == from)?;
    let added: Vec<&ChartLine> =
        chart.lines.iter().filter(|line| lines.contains(&line.name.as_str())).collect();
    let value = |step: usize| {
        let values = added.iter().filter_map(|line| *line.values.get(step)?);
        values.reduce(|sum, value| sum + value)
    };
    let steps = added.iter().map(|line| line.values.len()).max()?;
    let unit = if chart.unit == "1/s" { "per s" } else { &chart.unit };
    let stated = limit.as_ref().map_or("no target was set".to_owned(), |limit| {
        format!("{} {} {unit}", limit.name.to_lowercase(), text::bare(limit.value))
    });
    let mean = mean.map_or("–".to_owned(), |mean| text::number(mean, decimals));
    let caption = match (&limit, chart.unit.as_str()) {
        (None, "ms") => format!("Mean {mean} {unit}."),
        _ => format!("Mean {mean} {unit}; {stated}."),
    };
    let small = Chart {
        title: name.to_owned(),
        unit: chart.unit.clone(),
        duration_s: chart.duration_s,
        step_s: chart.step_s,
        lines: vec![ChartLine { name: "Measured".to_owned(), values: (0..steps).map(value).collect() }],
        limits: limit.into_iter().collect(),
    };
    Some(context! { picture => Value::from_safe_string(svg::small_chart(&small)), caption })
}

/// The reasons of the grade, the causes, and what the run cannot have seen, with links to the parts of the page that
/// they name.
fn findings(report: &Report) -> Vec<Value> {
    let judged = &report.verdict;
    let told = |reason: &&String| !judged.headline.ends_with(reason.as_str());
    let all = judged.reasons.iter().filter(told).chain(&judged.causes).chain(&judged.unseen);
    all.map(|finding| Value::from_safe_string(linked(report, finding))).collect()
}

fn linked(report: &Report, finding: &str) -> String {
    let named = report.tests.iter().find_map(|test| {
        let rest = finding.strip_prefix(test.name.as_str())?;
        rest.starts_with([':', ' ']).then_some((test, rest))
    });
    let (start, rest) = match named {
        Some((test, rest)) => {
            (format!("<a href=\"#test-{}\">{}</a>", test.ordinal, escape(&test.name)), escape(rest))
        }
        None => (String::new(), escape(finding)),
    };
    let link = |text: String, part: &str, anchor: &str| {
        text.replacen(part, &format!("<a href=\"#{anchor}\">{part}</a>"), 1)
    };
    start + &link(link(rest, "“Environment”", "environment"), "“Events”", "events")
}
