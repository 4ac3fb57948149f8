//! Facts about the solution that are stated more than once, or that follow from each other.

use std::collections::BTreeMap;

use super::{Findings, agrees, agrees_within, with};
use crate::printed_figures::{Evidence, known, mean};

pub fn check(evidence: &Evidence, findings: &mut Findings) {
    twice(evidence, findings);
    targets(evidence, findings);
    mailboxes(evidence, findings);
    per_mailbox(evidence, findings);
    divisor(&evidence.calculator, findings);
}

fn twice(evidence: &Evidence, findings: &mut Findings) {
    let solution = &evidence.solution;
    let recovery = evidence.summary.recovery.clone().unwrap_or_default();
    let figures = [
        (
            "mailbox quota",
            "MB",
            (solution.mailbox_quota_mb, "solution.mailbox_quota_mb"),
            (solution.mailbox_quota_mb_in_conclusion, "solution.mailbox_quota_mb_in_conclusion"),
        ),
        (
            "headroom",
            "%",
            (solution.headroom_pct, "solution.headroom_pct"),
            (solution.stated_headroom_pct, "solution.stated_headroom_pct"),
        ),
        (
            "number of logs replayed",
            "logs",
            (recovery.logs, "summary.recovery.logs"),
            (recovery.logs_stated_elsewhere, "summary.recovery.logs_stated_elsewhere"),
        ),
    ];
    for (what, unit, (one, one_at), (other, other_at)) in figures {
        if let (Some(one), Some(other)) = (known(one), known(other))
            && one != other
        {
            let text = format!("the {what} is stated in two ways");
            findings.add("stated_twice", text, (with(one, unit), one_at), (with(other, unit), other_at));
        }
    }
    let host =
        |key: &str| evidence.hardware.host.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let initiator = host("multipathing");
    let versions = [
        (
            "engine version",
            (solution.ese_version.as_str(), "solution.ese_version"),
            (solution.ese_version_in_software_table.as_str(), "solution.ese_version_in_software_table"),
        ),
        (
            "initiator version",
            (version_after(initiator, "Initiator"), "hardware.host.multipathing"),
            (solution.initiator_version_elsewhere.as_str(), "solution.initiator_version_elsewhere"),
        ),
    ];
    for (what, (one, one_at), (other, other_at)) in versions {
        if !one.is_empty() && !other.is_empty() && one != other {
            findings.add(
                "stated_twice",
                format!("the {what} is stated in two ways"),
                (one, one_at),
                (other, other_at),
            );
        }
    }
}

/// The word after `name` in a text, without a comma.
fn version_after<'a>(text: &'a str, name: &str) -> &'a str {
    let after = text.split_once(name).map_or("", |(_, after)| after);
    after.split_whitespace().next().unwrap_or_default().trim_end_matches(',')
}

fn targets(evidence: &Evidence, findings: &mut Findings) {
    let solution = &evidence.solution;
    let stated = known(solution.target_iops_per_server);
    let load_tests = || evidence.test.iter().filter(|t| results::grade::is_load(&t.kind));
    let in_reports = load_tests().find_map(|test| Some((known(test.target_iops)?, test.id.as_str())));
    if let (Some(stated), Some((report, id))) = (stated, in_reports) {
        let same = agrees_within(stated, report, 2.5e-3);
        if !same {
            findings.add(
                "target_differs",
                "the target is not the one that the reports were run with",
                (with(stated, "1/s"), "solution.target_iops_per_server"),
                (with(report, "1/s"), format!("{id}: target_iops")),
            );
        }
    }
    let per_mailbox = known(solution.iops_per_mailbox);
    let needed = known(solution.mailboxes_per_server_tested).zip(per_mailbox).map(|(m, iops)| m * iops);
    let normal = known(solution.mailboxes_per_server_normal).zip(per_mailbox).map(|(m, iops)| m * iops);
    let target = in_reports.map(|(target, id)| (target, format!("{id}: target_iops")));
    let target = target.or(stated.map(|target| (target, "solution.target_iops_per_server".to_owned())));
    if let (Some(needed), Some((target, at))) = (needed, target)
        && !agrees_within(target, needed, 5e-3)
        && target < needed
    {
        let text = match normal.filter(|normal| agrees_within(target, *normal, 5e-3)) {
            Some(_) => "the target is the load without a failure",
            None => "the target is below the load of the failure under test",
        };
        let computed = (with(needed, "1/s"), "solution: mailboxes_per_server_tested x iops_per_mailbox");
        findings.add("wrong_scenario", text, (with(target, "1/s"), at), computed);
    }
}

fn mailboxes(evidence: &Evidence, findings: &mut Findings) {
    let solution = &evidence.solution;
    let all = known(solution.mailboxes);
    if let (Some(all), Some(databases), Some(each)) =
        (all, known(solution.databases), known(solution.mailboxes_per_database))
        && databases * each != all
    {
        findings.add(
            "mailbox_arithmetic",
            format!("{} of {} are not all mailboxes", with(databases, "databases"), with(each, "mailboxes")),
            (with(all, "mailboxes"), "solution.mailboxes"),
            (with(databases * each, "mailboxes"), "solution: databases x mailboxes_per_database"),
        );
    }
    let active =
        solution.databases_per_server_tested.as_ref().and_then(|per_server| known(per_server.active));
    if let (Some(servers), Some(active), Some(databases)) =
        (known(solution.servers_tested), active, known(solution.databases))
        && servers * active != databases
    {
        findings.add(
            "failure_arithmetic",
            format!(
                "{} with {} are not all databases",
                with(servers, "servers"),
                with(active, "active databases")
            ),
            (with(databases, "databases"), "solution.databases"),
            (
                with(servers * active, "databases"),
                "solution: servers_tested x databases_per_server_tested.active",
            ),
        );
    }
    if let (Some(servers), Some(each), Some(all)) =
        (known(solution.servers_tested), known(solution.mailboxes_per_server_tested), all)
        && servers * each != all
    {
        findings.add(
            "failure_arithmetic",
            format!("{} with {} are not all mailboxes", with(servers, "servers"), with(each, "mailboxes")),
            (with(all, "mailboxes"), "solution.mailboxes"),
            (with(servers * each, "mailboxes"), "solution: servers_tested x mailboxes_per_server_tested"),
        );
    }
}

/// Rule: stated I/O per second and mailbox follow from the tables.
fn per_mailbox(evidence: &Evidence, findings: &mut Findings) {
    let (solution, summary) = (&evidence.solution, &evidence.summary);
    let all = known(solution.mailboxes);
    let achieved = summary.aggregate.as_ref().and_then(|row| known(row.achieved_iops));
    if let (Some(stated), Some(achieved), Some(all)) =
        (known(solution.stated_achieved_iops_per_mailbox), achieved, all)
        && !agrees(stated, achieved / all)
    {
        findings.add(
            "iops_per_mailbox",
            "the I/O per second and mailbox do not follow from the aggregate",
            (with(stated, "1/s"), "solution.stated_achieved_iops_per_mailbox"),
            (with(achieved / all, "1/s"), "summary.aggregate.achieved_iops by solution.mailboxes"),
        );
    }
    let stress =
        known(summary.stated_stress_iops).or(mean(evidence.tests("stress").map(|t| t.achieved_iops)));
    if let (Some(stated), Some(stress), Some(each)) =
        (known(summary.stated_stress_iops_per_mailbox), stress, known(solution.mailboxes_per_server_tested))
        && !agrees(stated, stress / each)
    {
        findings.add(
            "iops_per_mailbox",
            "the I/O per second and mailbox do not follow from the stress run",
            (with(stated, "1/s"), "summary.stated_stress_iops_per_mailbox"),
            (with(stress / each, "1/s"), "stress I/O per second by mailboxes_per_server_tested"),
        );
    }
}

/// Rule: figures per group by figures per server are the number of servers, in every row of the sizing table.
fn divisor(calculator: &BTreeMap<String, toml::Value>, findings: &mut Findings) {
    let number = |value: &toml::Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    let mut rows: Vec<(&str, f64)> = Vec::new();
    for (name, row) in calculator {
        let Some(cells) = row.as_array() else { continue };
        let (Some(server), Some(group)) = (cells.get(1).and_then(number), cells.get(2).and_then(number))
        else {
            continue;
        };
        // Small cells are rounded too far to tell the divisor.
        if server >= 50.0 && group.is_finite() {
            rows.push((name, (group / server).round()));
        }
    }
    let Some(&(first, divisor)) = rows.iter().find(|(name, _)| name.contains("database")).or(rows.first())
    else {
        return;
    };
    let odd: Vec<&(&str, f64)> = rows.iter().filter(|(_, other)| *other != divisor).collect();
    if let Some((name, other)) = odd.first() {
        let names: Vec<&str> = odd.iter().map(|(name, _)| *name).collect();
        findings.add(
            "calculator_divisor",
            format!("rows of one table divide by different numbers of servers: {}", names.join(", ")),
            (with(*other, "servers"), format!("calculator.{name}: per group by per server")),
            (with(divisor, "servers"), format!("calculator.{first}: per group by per server")),
        );
    }
}
