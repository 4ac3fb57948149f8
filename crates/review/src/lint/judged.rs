//! What a report shows and no verdict says: latencies beyond a limit, bad pages, errors.

use evidence::Report;
use evidence::environment::{AFTER, KERNEL_LOG};
use evidence::report::{EventRow, InstanceIo, TestReport};
use results::judge::LatencyRule;
use results::{Ending, Environment, Limit, Origin, Outcome, Severity, Verdict};

use super::{Findings, brief, with};

/// Rules: every test and every error of the run was judged.
pub(super) fn check(report: &Report, findings: &mut Findings) {
    // A verdict that contradicts its own figures is told already, and so is a check that passed with bad pages.
    let (has_outcome, has_pages) = (findings.has("verdict_outcome"), findings.has("bad_pages"));
    for test in report.tests.iter().filter(|test| test.ended) {
        if !has_outcome {
            figures(test, &stated(test), findings);
        }
        if !has_pages {
            pages(test, findings);
        }
    }
    for event in report.events.iter().filter(|event| event.severity == Severity::Error) {
        error(report, event, findings);
    }
    kernel_log(report, findings);
    io_driver(report, findings);
}

/// Rule: a kernel error about storage during the run needs a verdict that is not a pass.
fn kernel_log(report: &Report, findings: &mut Findings) {
    let is_error = |row: &&Environment| {
        (row.area.as_str(), row.name.as_str(), row.severity) == (AFTER, KERNEL_LOG, Severity::Error)
    };
    let is_judged = |row: &Environment| {
        let mut verdicts = report.run_verdicts.iter().filter(|verdict| verdict.origin.host == row.host);
        verdicts
            .any(|verdict| verdict.rule == "kernel_log_storage_errors" && verdict.outcome != Outcome::Pass)
    };
    if let Some(row) = report.environment.iter().filter(is_error).find(|row| !is_judged(row)) {
        findings.add(
            "error_unjudged",
            "the kernel logged an error of the storage, and no verdict says so",
            (brief(&row.value), format!("environment: {KERNEL_LOG} of {}", row.host)),
            ("none that does not pass", format!("verdict kernel_log_storage_errors of {}", row.host)),
        );
    }
}

/// Rule: a host uses polling only where io_uring is refused. It may be refused to single threads: the I/O row counts
/// them.
fn io_driver(report: &Report, findings: &mut Findings) {
    let value = |host: &str, name: &str| {
        let mut rows = report.environment.iter().filter(|row| row.host == host && row.area == "System");
        rows.find(|row| row.name == name).map(|row| row.value.as_str())
    };
    for host in report.hosts.iter().map(|host| host.name.as_str()) {
        let driver = value(host, "I/O").unwrap_or(&report.run.world_detail);
        let all_poll = driver.starts_with("polling") && !driver.contains("threads poll");
        if all_poll && value(host, "io_uring") == Some("works") {
            findings.add(
                "io_driver",
                "the host polls, and io_uring is said to work there",
                (brief(driver), format!("I/O of {host}")),
                ("works", format!("environment: io_uring of {host}")),
            );
        }
    }
}

/// The limits that the verdicts of a test state, each rule once.
fn stated(test: &TestReport) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    for verdict in &test.verdicts {
        let is_known = limits.iter().any(|limit| limit.rule == verdict.rule);
        if let Some(value) = verdict.limit.filter(|_| !is_known) {
            limits.push(Limit {
                rule: verdict.rule.clone(),
                value,
                unit: verdict.unit.clone(),
                published: None,
            });
        }
    }
    limits
}

/// Rule: a latency beyond its limit needs a verdict that is not a pass, and a rule that judges one database judges
/// all.
pub(super) fn figures(test: &TestReport, limits: &[Limit], findings: &mut Findings) {
    for limit in limits {
        let Some(rule) = LatencyRule::from_name(&limit.rule) else { continue };
        let by_database = rule.is_of_databases() && !test.databases.is_empty();
        for row in if by_database { &test.databases } else { &test.instances } {
            let of_rule = || test.verdicts.iter().filter(|verdict| verdict.rule == limit.rule);
            let judged: Vec<&Verdict> =
                of_rule().filter(|verdict| verdict.origin.covers(&row.origin)).collect();
            let Some(figure) = latency_of(row, rule) else { continue };
            let has_peers = of_rule()
                .any(|other| other.origin.host == row.origin.host && other.origin.instance.is_some());
            let place = format!("{}: verdict {} of {}", test.name, limit.rule, row.origin);
            let measured = (with(figure, &limit.unit), format!("{}: {}", test.name, row.origin));
            let passes = judged.iter().all(|verdict| verdict.outcome == Outcome::Pass);
            if figure > limit.value && passes {
                let said = if judged.is_empty() { "none" } else { "pass" };
                let text = "a latency is beyond its limit, and no verdict says so";
                findings.add("verdict_missing", text, measured, (said, place));
                return;
            }
            if judged.is_empty() && has_peers {
                let text = "a database or log was not judged by a rule that its neighbours were judged by";
                findings.add("verdict_missing", text, measured, ("none", place));
                return;
            }
        }
    }
}

/// The latency that a rule judges, from the tables, worked out by the same arithmetic as the verdict.
pub(super) fn latency_of(row: &InstanceIo, rule: LatencyRule) -> Option<f64> {
    let figures = if rule.is_of_databases() { row.reads } else { row.log_writes }?;
    if rule.is_of_worst_sample() { figures.latency_ms_sample_max } else { figures.latency_ms_mean }
}

/// Rule: bad pages that a check counted need a verdict that is not a pass.
fn pages(test: &TestReport, findings: &mut Findings) {
    let passes = |origin: &Origin| {
        let mut about_it = test.verdicts.iter().filter(|verdict| verdict.origin.covers(origin));
        about_it.all(|verdict| verdict.outcome == Outcome::Pass)
    };
    let mut bad = test.checksums.iter().map(|row| (&row.origin, row.read.damaged()));
    if let Some((origin, bad)) = bad.find(|(origin, bad)| *bad > 0 && passes(origin)) {
        findings.add(
            "verdict_missing",
            "a check counted bad pages, and no verdict says so",
            (bad.to_string(), format!("{}: {}", test.name, origin)),
            ("none that does not pass", format!("{}: verdicts", test.name)),
        );
    }
}

/// Rule: damage that an event reports needs a verdict that is not a pass: on the database, where the event names one.
fn error(report: &Report, event: &EventRow, findings: &mut Findings) {
    let database = event.text.split_once(": page ").map(|(database, _)| database);
    let verdicts = report
        .tests
        .iter()
        .flat_map(|test| test.verdicts.iter().map(|verdict| (Some(test.ordinal), verdict)))
        .chain(report.run_verdicts.iter().map(|verdict| (None, verdict)));
    let judged = verdicts.into_iter().any(|(test, verdict)| {
        let about_it = match (database, &verdict.origin.database) {
            (Some(named), Some(judged)) => test == event.test && judged == named,
            (Some(_), None) => test == event.test,
            (None, _) => test.is_none() || test == event.test,
        };
        about_it && verdict.origin.host == event.host && verdict.outcome != Outcome::Pass
    });
    // What stopped a run is judged by its ending.
    let stopped = database.is_none() && report.run.ending != Some(Ending::Completed);
    if !judged && !stopped {
        findings.add(
            "error_unjudged",
            "an error was reported, and no verdict says so",
            (brief(&event.text), format!("event at {} s", event.t_s)),
            ("all pass", format!("verdicts of {}", event.host)),
        );
    }
}
