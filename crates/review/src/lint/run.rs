//! A run of ours: its report as facts as printed, its verdicts, its solution, and `report.json` against `run.db`.

use evidence::report::{Figures, InstanceIo, TestReport, counted};
use evidence::{IN_STEP_MS, Report, RunData};
use results::judge::LatencyRule;
use results::{Ending, IoClass, Outcome, Verdict};
use solution::{Solution, TestKind};

use super::judged::latency_of;
use super::seals::Beside;
use super::{
    Finding, Findings, agrees_within, amounts, counts, grade, judged, printed, rows, seals, summary, with,
    written,
};
use crate::printed_figures::*;

const MIB: f64 = (1 << 20) as f64;

/// Checks a `report.json` of Proofload.
pub fn lint_report(report: &Report) -> Vec<Finding> {
    let mut findings = Findings::default();
    // A run whose solution is no solution file of ours (an imported one) has nothing to be compared with.
    let solution = Solution::parse(&report.run.solution_text, "solution file").ok();
    let mut facts = printed_figures(report);
    if let Some(solution) = &solution {
        for test in facts.test.iter_mut().filter(|test| sets_maximum(solution, &test.kind)) {
            // The owner's own maximum, not one of the two of the programme; `solution_threshold` looks after it.
            if let Some(limits) = &mut test.thresholds {
                limits.read_max_ms = None;
            }
        }
    }
    printed(&facts, &mut findings);
    // The summary has one row per server: each further performance test is summed up by itself.
    for test in report.tests.iter().filter(|test| test.kind == "performance").skip(1) {
        summary::check(&facts_of(report, |other| other.ordinal == test.ordinal), &mut findings);
    }
    for test in &report.tests {
        verdicts(test, if solution.is_some() { exact_share(test) } else { ROUNDED }, &mut findings);
        coverage(test, &mut findings);
    }
    counts::check(report, &mut findings);
    judged::check(report, &mut findings);
    grade::check(report, &mut findings);
    if let Some(solution) = &solution {
        against_solution(report, solution, &mut findings);
    }
    findings.into_vec()
}

/// Rules that apply to the rows of a run as well as to its report.
const OF_BOTH: [&str; 3] = ["instance_sum", "distribution_count", "verdict_missing"];

/// Checks a run folder: the rows of its `run.db`, the report `recomputed` from them, and the files beside it.
pub fn lint_run(data: &RunData, recomputed: &Report, beside: &Beside) -> Vec<Finding> {
    // First: what does not fit its seals need not be looked at further.
    let mut sealed = Findings::default();
    seals::chain(&data.seals, &mut sealed);
    seals::ending(data, &mut sealed);
    let mut findings = sealed.into_vec();
    findings.extend(lint_report(recomputed));
    let mut differs = Findings::default();
    rows::check(data, recomputed, &mut differs);
    amounts::check(data, &mut differs);
    if let Some(json) = &beside.json {
        let page_is_ours = beside.html.as_deref().is_some_and(seals::is_ours);
        written::check(recomputed, json, page_is_ours, &mut differs);
    }
    seals::pages(recomputed, beside, &mut differs);
    if let Some(misfit) = &beside.attestation {
        let text =
            "attestation.json does not state this run: `proofload report RUN --sign KEY` makes it again";
        differs.add(
            "attestation",
            text,
            (misfit.as_str(), "attestation.json"),
            ("the files of the run", "run folder"),
        );
    }
    // What the report contradicts itself in, its rows need not say again.
    let told: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    let is_told = |rule: &str| OF_BOTH.contains(&rule) && told.contains(&rule);
    findings.extend(differs.into_vec().into_iter().filter(|finding| !is_told(finding.rule)));
    findings
}

/// Largest relative difference between the figure of a verdict and the tables, which are made by the same arithmetic.
const EXACT: f64 = 1e-9;
/// Largest relative difference for an imported report, whose printed figures are rounded.
const ROUNDED: f64 = 0.01;

/// Largest relative difference for a test. A host of a fleet is judged over its own window, but the tables show only
/// the time that all hosts have in common, so its figures may differ by the share of the window outside it.
fn exact_share(test: &TestReport) -> f64 {
    let in_common = test.verdicts.iter().find(|verdict| verdict.rule == "window_in_common");
    let Some((common_s, _)) = in_common.and_then(|verdict| verdict.measured.zip(verdict.limit)) else {
        return EXACT;
    };
    ROUNDED + IN_STEP_MS as f64 / 1e3 / common_s.max(1.0)
}

/// Rule: outcome, figure and limit of every verdict fit each other and the tables.
fn verdicts(test: &TestReport, share: f64, findings: &mut Findings) {
    for verdict in &test.verdicts {
        let place = format!("{}: verdict {} of {}", test.name, verdict.rule, verdict.origin);
        if let (Some(measured), Some(limit)) = (verdict.measured, verdict.limit) {
            let holds = verdict.comparison.holds(measured, limit);
            if (verdict.outcome == Outcome::Pass && !holds) || (verdict.outcome == Outcome::Fail && holds) {
                findings.add(
                    "verdict_outcome",
                    format!("the verdict says {}, its figures say otherwise", outcome(verdict.outcome)),
                    (with(measured, &verdict.unit), format!("{place}: measured")),
                    (with(limit, &verdict.unit), format!("{place}: limit")),
                );
                continue;
            }
        }
        if let (Some(measured), Some((shown, table))) = (verdict.measured, shown_figure(test, verdict))
            && !agrees_within(measured, shown, share)
        {
            findings.add(
                "verdict_figure",
                "the verdict judges another figure than the table shows",
                (with(measured, &verdict.unit), format!("{place}: measured")),
                (with(shown, &verdict.unit), format!("{}: {table}", test.name)),
            );
        }
    }
}

/// Rule: a check that left something out does not pass for all pages. For logs, the newest are enough: the verdict
/// says how many.
fn coverage(test: &TestReport, findings: &mut Findings) {
    let checked = test.checksums.iter().filter(|row| row.read.files == 0);
    let rows = checked
        .map(|row| (&row.origin, row.read.bytes, row.read.bytes_expected))
        .chain(test.backups.iter().map(|row| (&row.origin, row.bytes, row.bytes_expected)));
    for (origin, read, there) in rows {
        let Some(there) = there.filter(|there| read < *there) else { continue };
        let passes = |verdict: &&Verdict| {
            let about_pages = ["bad_pages", "pages_verified"].contains(&verdict.rule.as_str());
            about_pages && verdict.outcome == Outcome::Pass && verdict.origin.covers(origin)
        };
        if let Some(verdict) = test.verdicts.iter().find(passes) {
            findings.add(
                "coverage",
                format!("{} passes for all pages, and not all were read", verdict.rule),
                (counted(read, "byte") + " read", format!("{}: {}", test.name, origin)),
                (counted(there, "byte") + " there", format!("{}: {}", test.name, origin)),
            );
            return;
        }
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Unproved => "unproved",
        Outcome::Info => "info",
    }
}

/// The figure that a verdict judges, as the tables show it.
fn shown_figure(test: &TestReport, verdict: &Verdict) -> Option<(f64, String)> {
    let at = &verdict.origin;
    if verdict.rule == "achieved_iops" {
        let of = |class: IoClass| host_rate(test, &at.host, class.name()).unwrap_or(0.0);
        let rate = of(IoClass::TransactionalRead) + of(IoClass::TransactionalWrite);
        return test.throughput.map(|_| (rate, format!("transactional I/O per second of {}", at.host)));
    }
    let rule = LatencyRule::from_name(&verdict.rule)?;
    let rows = || test.databases.iter().chain(&test.instances);
    let of_instance =
        |row: &&InstanceIo| (&row.origin.host, &row.origin.instance) == (&at.host, &at.instance);
    // A database of an instance that has several is in its own table or nowhere.
    let or_instance = || rows().find(of_instance).filter(|_| test.databases.is_empty());
    let row = rows().find(|row| row.origin == *at).or_else(or_instance)?;
    Some((latency_of(row, rule)?, format!("{} of {}", rule.name(), row.origin)))
}

/// Rule: limits and targets are those of the solution file that the run carries.
fn against_solution(report: &Report, solution: &Solution, findings: &mut Findings) {
    let hosts = report.hosts.len().max(1) as f64;
    // A report that says itself that its target is below the plan's contradicts nothing.
    let says_so = report.verdict.conditions.iter().any(|row| row.name == "worst_failure_percent" && !row.met);
    let planned = plan::plan(solution, &[]).ok().filter(|_| !says_so);
    let planned = planned.map(|plan| plan.targets.target_iops * hosts);
    for (at, test) in report.tests.iter().enumerate() {
        let nth = report.tests[..at].iter().filter(|other| other.kind == test.kind).count();
        let target = test.peak_target_iops();
        if let (Some(target), Some(planned)) = (target, planned)
            && target < planned * 0.99
        {
            findings.add(
                "wrong_scenario",
                "the target is below what the worst failure leaves the hosts under test to carry",
                (with(target, "1/s"), format!("{}: planned transactional I/O", test.name)),
                (with(planned, "1/s"), "plan of the solution file: target_iops x hosts"),
            );
        }
        for verdict in &test.verdicts {
            if let (Some(limit), Some(wished)) = (verdict.limit, solution_limit(solution, test, nth, verdict))
                && !agrees_within(limit, wished, 1e-9)
            {
                findings.add(
                    "solution_threshold",
                    "the verdict was judged by another limit than the solution file sets",
                    (with(limit, &verdict.unit), format!("{}: verdict {}", test.name, verdict.rule)),
                    (with(wished, &verdict.unit), format!("solution file: limit of {}", test.kind)),
                );
                break;
            }
        }
    }
}

/// Whether the solution file sets a maximum of the read latency for this kind of test that is not the published one.
fn sets_maximum(solution: &Solution, kind: &str) -> bool {
    let mut of_kind = solution.tests().filter(|test| test.kind.name() == kind);
    of_kind.any(|test| test.thresholds.read_max_ms != test.published.read_max_ms)
}

/// The limit in the solution file for the `nth` test of a kind, from 0: tests run in the order of the file.
fn solution_limit(solution: &Solution, test: &TestReport, nth: usize, verdict: &Verdict) -> Option<f64> {
    let deployment = solution.deployment(Some(&verdict.origin.host)).ok()?;
    let kind = [TestKind::Performance, TestKind::Stress].into_iter().find(|kind| kind.name() == test.kind)?;
    let spec = deployment.tests.iter().filter(|spec| spec.kind == kind).nth(nth)?;
    plan::limits(spec).into_iter().find(|limit| limit.rule == verdict.rule).map(|limit| limit.value)
}

/// A `report.json` in the form of printed figures, so that their rules can check it.
pub fn printed_figures(report: &Report) -> Evidence {
    facts_of(report, |_| true)
}

/// Some of its tests as printed figures; the first performance test among them makes the summary.
fn facts_of(report: &Report, wanted: impl Fn(&TestReport) -> bool) -> Evidence {
    let mut evidence = Evidence { schema_version: 1, ..Evidence::default() };
    evidence.solution.title = report.run.solution.clone();
    evidence.solution.servers_tested = Some(report.hosts.len() as f64);
    let tests = || report.tests.iter().filter(|test| wanted(test));
    // A run that did not come to its end was cut off in its last test.
    let stopped = report.tests.last().filter(|_| report.run.ending != Some(Ending::Completed));
    for test in tests() {
        for (n, host) in report.hosts.iter().enumerate() {
            let mut figures = test_figures(test, &host.name, n as u32 + 1);
            if stopped.is_some_and(|stopped| stopped.ordinal == test.ordinal) {
                figures.title_hours = None;
            }
            evidence.test.push(figures);
        }
        evidence.test.extend(recoveries(test));
    }
    if let Some(test) = tests().find(|test| test.kind == "performance") {
        summarise(report, test, &mut evidence.summary);
    }
    evidence
}

/// I/O per second of a host: from its own rows, or from the totals if it is the only one.
fn host_rate(test: &TestReport, host: &str, measure: &str) -> Option<f64> {
    if test.hosts.is_empty() {
        return test.measures.iter().find(|row| row.measure == measure).map(|row| row.figures.per_s);
    }
    test.hosts.iter().find(|row| row.host == host && row.measure == measure).map(|row| row.figures.per_s)
}

fn summarise(report: &Report, test: &TestReport, summary: &mut Summary) {
    let Some(all) = test.throughput else { return };
    summary.aggregate = Some(SummaryRow {
        achieved_iops: Some(all.transactional_iops),
        reads_per_s: Some(all.reads_per_s),
        writes_per_s: Some(all.writes_per_s),
        log_writes_per_s: Some(all.log_writes_per_s),
        ..SummaryRow::default()
    });
    if test.hosts.is_empty() {
        return;
    }
    for (n, host) in report.hosts.iter().enumerate() {
        let (reads, writes) = (
            host_rate(test, &host.name, "transactional_read"),
            host_rate(test, &host.name, "transactional_write"),
        );
        summary.server.push(SummaryRow {
            server: n as u32 + 1,
            achieved_iops: sum([reads, writes]),
            reads_per_s: reads,
            writes_per_s: writes,
            log_writes_per_s: host_rate(test, &host.name, "log_write"),
            ..SummaryRow::default()
        });
    }
}

/// Hours that a window was planned for and so must have had. A window that was cut short, or closed late by a process
/// that stood still, is reported as such and need not have them.
fn planned_hours(test: &TestReport) -> Option<f64> {
    let has_gaps = test
        .verdicts
        .iter()
        .any(|verdict| verdict.rule == "window_without_gaps" && verdict.outcome != Outcome::Pass);
    let window = test.window.filter(|window| !window.cut && !has_gaps)?;
    window.planned_s.map(|s| s / 3600.0)
}

fn test_figures(test: &TestReport, host: &str, server: u32) -> TestFigures {
    let rows = || test.instances.iter().filter(|row| row.origin.host == host).zip(1u32..);
    let limit = |rule: &str| {
        test.verdicts.iter().find(|verdict| verdict.rule == rule).and_then(|verdict| verdict.limit)
    };
    // Of a window that was cut, hosts have more samples than their databases: those of each second.
    let whole = test.throughput.filter(|_| test.window.is_none_or(|window| !window.cut));
    let achieved = whole.and_then(|all| match test.hosts.is_empty() {
        true => Some(all.transactional_iops),
        false => {
            sum([host_rate(test, host, "transactional_read"), host_rate(test, host, "transactional_write")])
        }
    });
    TestFigures {
        id: format!("{} on {host}", test.name),
        kind: test.kind.clone(),
        server,
        machine: host.to_owned(),
        // A limit that a scheduled fault broke is not judged, so the test does not pass by it.
        result: match test.outcome {
            Some(Outcome::Pass) if !test.verdicts.iter().any(|verdict| verdict.is_excused()) => "Pass".into(),
            _ => String::new(),
        },
        collection_s: test.window.map(|window| window.duration_s),
        title_hours: planned_hours(test),
        thresholds: Some(ThresholdClaims {
            read_avg_ms: limit("read_latency_avg"),
            read_max_ms: limit("read_latency_max"),
            log_write_avg_ms: limit("log_write_latency_avg"),
            log_write_max_ms: limit("log_write_latency_max"),
        }),
        achieved_iops: achieved,
        transactional: match achieved {
            Some(_) => rows().map(|(row, n)| transactional(row, row.reads, n)).collect(),
            None => Vec::new(),
        },
        bdm: rows().map(|(row, n)| maintenance(row, n)).collect(),
        total: match achieved {
            Some(_) => rows().map(|(row, n)| transactional(row, row.all_reads, n)).collect(),
            None => Vec::new(),
        },
        checksum: checksums(test, host),
        backup: backups(test, host),
        ..TestFigures::default()
    }
}

fn transactional(row: &InstanceIo, reads: Option<Figures>, n: u32) -> InstanceRow {
    let rate = |figures: Option<Figures>| Some(figures.map_or(0.0, |figures| figures.per_s));
    let latency = |figures: Option<Figures>| figures.and_then(|figures| figures.latency_ms_mean);
    InstanceRow {
        n,
        db_reads_per_s: rate(reads),
        db_writes_per_s: rate(row.writes),
        db_read_latency_ms: latency(reads),
        db_write_latency_ms: latency(row.writes),
        log_writes_per_s: rate(row.log_writes),
        log_write_latency_ms: latency(row.log_writes),
        ..InstanceRow::default()
    }
}

fn maintenance(row: &InstanceIo, n: u32) -> MaintenanceRow {
    let figures = row.maintenance;
    MaintenanceRow {
        n,
        reads_per_s: Some(figures.map_or(0.0, |figures| figures.per_s)),
        read_avg_bytes: figures.and_then(|figures| figures.bytes_mean),
    }
}

fn checksums(test: &TestReport, host: &str) -> Vec<ChecksumFigures> {
    let rows = test.checksums.iter().filter(|row| row.origin.host == host).zip(1u32..);
    rows.map(|(row, n)| ChecksumFigures {
        n,
        pages: Some(row.read.pages as f64),
        bad: Some(row.read.bad_pages as f64),
        wrong_page_number: Some(row.read.wrong_number_pages as f64),
        size_mb: Some(row.read.bytes as f64 / MIB),
        seconds: Some(row.elapsed_s),
        mb_per_s: row.mib_per_s,
        ..ChecksumFigures::default()
    })
    .collect()
}

fn backups(test: &TestReport, host: &str) -> Vec<BackupClaims> {
    let rows = test.backups.iter().filter(|row| row.origin.host == host).zip(1u32..);
    rows.map(|(row, n)| BackupClaims {
        n,
        size_mb: Some(row.bytes as f64 / MIB),
        elapsed_s: Some(row.elapsed_s),
        mb_per_s: row.mib_per_s,
    })
    .collect()
}

/// Soft recoveries as printed figures: tables give the replay time of each instance, so each makes a report of its
/// own.
fn recoveries(test: &TestReport) -> impl Iterator<Item = TestFigures> + '_ {
    test.recoveries.iter().map(|row| TestFigures {
        id: format!("{} of {}", test.name, row.origin.instance.as_deref().unwrap_or(&row.origin.host)),
        kind: "replay".into(),
        recovery: vec![RecoveryClaims { n: 1, logs: Some(row.logs as f64), seconds: Some(row.elapsed_s) }],
        seconds_per_log: row.s_per_log,
        ..TestFigures::default()
    })
}
