//! The result section against the reports that it sums up.

use super::tables::total_iops;
use super::{Findings, agrees, agrees_within, with};
use crate::printed_figures::{Evidence, InstanceRow, SummaryRow, TestFigures, all_known, known, mean, sum};

type Cell = (&'static str, &'static str, fn(&SummaryRow) -> Option<f64>);

/// Columns of the summary that are summed up over servers.
const RATES: [Cell; 4] = [
    ("achieved_iops", "1/s", |row| row.achieved_iops),
    ("reads_per_s", "1/s", |row| row.reads_per_s),
    ("writes_per_s", "1/s", |row| row.writes_per_s),
    ("log_writes_per_s", "1/s", |row| row.log_writes_per_s),
];

/// Columns of the summary that are averaged over servers.
const LATENCIES: [Cell; 3] = [
    ("read_latency_ms", "ms", |row| row.read_latency_ms),
    ("write_latency_ms", "ms", |row| row.write_latency_ms),
    ("log_write_latency_ms", "ms", |row| row.log_write_latency_ms),
];

pub fn check(evidence: &Evidence, findings: &mut Findings) {
    let summary = &evidence.summary;
    for row in &summary.server {
        row_sum(row, &place(row), findings);
    }
    if let Some(aggregate) = &summary.aggregate {
        row_sum(aggregate, "summary.aggregate", findings);
        sums_of_servers(evidence, aggregate, findings);
        means_of_servers(evidence, aggregate, findings);
    }
    for row in &summary.server {
        against_reports(evidence, row, findings);
    }
    backup(evidence, findings);
    recovery(evidence, findings);
}

fn place(row: &SummaryRow) -> String {
    format!("summary.server[{}]", row.server)
}

fn row_sum(row: &SummaryRow, place: &str, findings: &mut Findings) {
    if let (Some(achieved), Some(parts)) = (known(row.achieved_iops), sum([row.reads_per_s, row.writes_per_s]))
        // Rows print no more digits than reads and writes do, so the sum may be one digit off.
        && !agrees_within(achieved, parts, 1e-3)
    {
        findings.add(
            "iops_sum",
            "achieved I/O per second are not reads plus writes",
            (with(achieved, "1/s"), format!("{place}.achieved_iops")),
            (with(parts, "1/s"), format!("{place}: reads plus writes")),
        );
    }
}

/// Whether every server under test has a row in the summary.
fn complete(evidence: &Evidence) -> bool {
    let tested = known(evidence.solution.servers_tested);
    !evidence.summary.server.is_empty()
        && tested.is_none_or(|tested| evidence.summary.server.len() as f64 == tested)
}

fn sums_of_servers(evidence: &Evidence, aggregate: &SummaryRow, findings: &mut Findings) {
    let servers = &evidence.summary.server;
    // An aggregate whose own sum is wrong has been told already.
    for (name, unit, cell) in RATES {
        if let (Some(printed), Some(parts)) = (known(cell(aggregate)), sum(servers.iter().map(cell)))
            && complete(evidence)
            && !agrees(printed, parts)
            && !(name == "achieved_iops" && findings.has("iops_sum"))
        {
            findings.add(
                "aggregate_sum",
                format!("{name} of the aggregate is not the sum of the servers"),
                (with(printed, unit), format!("summary.aggregate.{name}")),
                (with(parts, unit), format!("sum of summary.server.{name}")),
            );
        }
    }
}

fn means_of_servers(evidence: &Evidence, aggregate: &SummaryRow, findings: &mut Findings) {
    let servers = &evidence.summary.server;
    for (name, unit, cell) in LATENCIES {
        let (Some(printed), Some(values)) = (known(cell(aggregate)), all_known(servers.iter().map(cell)))
        else {
            continue;
        };
        let average = values.iter().sum::<f64>() / values.len() as f64;
        if !complete(evidence) || agrees_within(printed, average, 1e-3) {
            continue;
        }
        // One cell that repeats a neighbour's explains the difference: say what it should have been.
        let twice = (0..values.len())
            .flat_map(|a| (a + 1..values.len()).map(move |b| (a, b)))
            .find(|&(a, b)| values[a] == values[b] && format!("{}", values[a]).len() >= 6);
        if let Some((a, b)) = twice {
            let needed = printed * values.len() as f64 - values.iter().sum::<f64>() + values[a];
            findings.add(
                "repeated_cell",
                format!("{name} is the same to the last digit; the aggregate needs {}", with(needed, unit)),
                (with(values[a], unit), format!("{}.{name}", place(&servers[a]))),
                (with(values[b], unit), format!("{}.{name}", place(&servers[b]))),
            );
            continue;
        }
        let other =
            LATENCIES.iter().find(|(other, _, cell)| *other != name && cell(aggregate) == Some(printed));
        let hint = other.map_or(String::new(), |(other, _, _)| format!("; it repeats {other}"));
        findings.add(
            "aggregate_latency",
            format!("{name} of the aggregate is not the mean of the servers{hint}"),
            (with(printed, unit), format!("summary.aggregate.{name}")),
            (with(average, unit), format!("mean of summary.server.{name}")),
        );
    }
}

fn report_of<'a>(evidence: &'a Evidence, kind: &'a str, server: u32) -> Option<&'a TestFigures> {
    evidence.tests(kind).find(|test| test.server == server)
}

fn achieved(test: Option<&TestFigures>) -> Option<f64> {
    known(test.and_then(|test| test.achieved_iops))
}

/// Rule: a row of the summary fits the performance report of its server.
fn against_reports(evidence: &Evidence, row: &SummaryRow, findings: &mut Findings) {
    let Some(performance) = report_of(evidence, "performance", row.server) else { return };
    let (Some(printed), Some(measured)) = (known(row.achieved_iops), known(performance.achieved_iops)) else {
        return;
    };
    let at = place(row);
    let one = (with(printed, "1/s"), format!("{at}.achieved_iops"));
    let report = (with(measured, "1/s"), format!("{}: achieved_iops", performance.id));
    let stress = report_of(evidence, "stress", row.server);
    if agrees(printed, measured) {
        return cells(row, &[performance], &at, findings);
    }
    if let Some(stress_iops) = achieved(stress).filter(|iops| agrees(printed, *iops)) {
        let text = format!("the performance table shows the stress run ({})", with(stress_iops, "1/s"));
        findings.add("stress_as_performance", text, one, report);
        return cells(row, &stress.into_iter().collect::<Vec<_>>(), &at, findings);
    }
    if total_iops(performance).is_some_and(|total| agrees(printed, total)) {
        let text = "achieved I/O per second include the reads of background maintenance";
        findings.add("maintenance_counted", text, one, report);
        return cells(row, &[performance], &at, findings);
    }
    let servers = &evidence.summary.server;
    let owner = servers.iter().find(|other| other.achieved_iops.is_some_and(|iops| agrees(iops, measured)));
    if let Some(owner) = owner {
        // Other tests of the same appendix may be of the server that they name.
        let backup =
            report_of(evidence, "backup", row.server).and_then(|test| known(test.backup_sum_mb_per_s));
        let own = backup.zip(known(row.backup_mb_per_s)).is_some_and(|(a, b)| agrees(b, a));
        let hint = if own { ", though its backup is its own" } else { "" };
        findings.add(
            "host_mixup",
            format!("the report shown for server {} is that of server {}{hint}", row.server, owner.server),
            report,
            (with(printed, "1/s"), format!("{at}.achieved_iops")),
        );
        return;
    }
    let neither =
        achieved(stress).map_or(String::new(), |iops| format!(", nor in stress ({})", with(iops, "1/s")));
    findings.add("summary_differs", format!("the figure is not that of the report{neither}"), one, report);
    let runs: Vec<&TestFigures> = [Some(performance), stress].into_iter().flatten().collect();
    cells(row, &runs, &at, findings);
}

/// Rule: the other cells of a summary row fit the reports they may come from.
fn cells(row: &SummaryRow, runs: &[&TestFigures], at: &str, findings: &mut Findings) {
    type Measured = fn(&TestFigures) -> Option<f64>;
    // EMC's latencies are those of volumes, in whole milliseconds: half a digit covers them.
    let columns: [(&str, &str, Option<f64>, Measured); 4] = [
        ("read_latency_ms", "ms", row.read_latency_ms, |test| {
            readable_mean(test, |row| row.db_read_latency_ms)
        }),
        ("write_latency_ms", "ms", row.write_latency_ms, |test| {
            readable_mean(test, |row| row.db_write_latency_ms)
        }),
        ("log_write_latency_ms", "ms", row.log_write_latency_ms, |test| {
            readable_mean(test, |row| row.log_write_latency_ms)
        }),
        ("log_writes_per_s", "1/s", row.log_writes_per_s, |test| {
            Some(readable_mean(test, |row| row.log_writes_per_s)? * test.transactional.len() as f64)
        }),
    ];
    for (name, unit, printed, measured) in columns {
        let Some(printed) = known(printed) else { continue };
        let found: Vec<(f64, &str)> =
            runs.iter().filter_map(|test| Some((measured(test)?, test.id.as_str()))).collect();
        // A table that cannot be read leaves its mean unknown; then nothing is said.
        if found.len() == runs.len() && !found.iter().any(|(value, _)| agrees_within(printed, *value, 0.012))
        {
            let Some((value, id)) = found.first() else { continue };
            let values: Vec<String> =
                found.iter().map(|(value, id)| format!("{} in {id}", with(*value, unit))).collect();
            findings.add(
                "summary_differs",
                format!("{name} is in no report of the server: {}", values.join(", ")),
                (with(printed, unit), format!("{at}.{name}")),
                (with(*value, unit), format!("{id}: transactional table")),
            );
        }
    }
}

/// Mean of a column if at least half of it is readable in the scan: instances of one server differ little.
fn readable_mean(test: &TestFigures, column: fn(&InstanceRow) -> Option<f64>) -> Option<f64> {
    let cells: Vec<f64> = test.transactional.iter().filter_map(|row| known(column(row))).collect();
    let enough = !cells.is_empty() && cells.len() * 2 >= test.transactional.len();
    enough.then(|| cells.iter().sum::<f64>() / cells.len() as f64)
}

fn backup(evidence: &Evidence, findings: &mut Findings) {
    backup_of_all(evidence, findings);
    backup_of_servers(evidence, findings);
    backup_to_disk(evidence, findings);
}

fn backup_of_all(evidence: &Evidence, findings: &mut Findings) {
    let reports: Vec<&TestFigures> = evidence.tests("backup").collect();
    let totals: Vec<(f64, &TestFigures)> =
        reports.iter().filter_map(|test| Some((known(test.backup_sum_mb_per_s)?, *test))).collect();
    if let Some(printed) = evidence.summary.backup_mb_per_s.as_ref().and_then(|b| known(b.per_server))
        && !totals.is_empty()
    {
        let average = totals.iter().map(|(value, _)| value).sum::<f64>() / totals.len() as f64;
        let one = (with(printed, "MB/s"), "summary.backup_mb_per_s.per_server");
        let all = (with(average, "MB/s"), "mean of backup_sum_mb_per_s over the reports");
        let alone = totals.iter().find(|(value, _)| totals.len() > 1 && agrees(printed, *value));
        if agrees(printed, average) {
        } else if let Some((_, test)) = alone {
            let text = format!("the backup rate of all servers is that of {} alone", test.id);
            findings.add("one_server_as_all", text, one, all);
        } else {
            let each = evidence.summary.backup_mb_per_s.as_ref().and_then(|b| known(b.per_database));
            let measured = mean(reports.iter().map(|test| test.backup_avg_mb_per_s));
            let each = each.zip(measured).map_or(String::new(), |(printed, measured)| {
                format!(" (each database: {} against {})", with(printed, "MB/s"), with(measured, "MB/s"))
            });
            findings.add(
                "summary_differs",
                format!("the backup rate is not that of the reports{each}"),
                one,
                all,
            );
        }
    }
}

fn backup_of_servers(evidence: &Evidence, findings: &mut Findings) {
    for row in &evidence.summary.server {
        let report =
            report_of(evidence, "backup", row.server).and_then(|t| Some((known(t.backup_sum_mb_per_s)?, t)));
        if let (Some(printed), Some((measured, test))) = (known(row.backup_mb_per_s), report)
            && !agrees(printed, measured)
        {
            findings.add(
                "summary_differs",
                "the backup rate is not that of the report",
                (with(printed, "MB/s"), format!("{}.backup_mb_per_s", place(row))),
                (with(measured, "MB/s"), format!("{}: backup_sum_mb_per_s", test.id)),
            );
        }
    }
}

fn backup_to_disk(evidence: &Evidence, findings: &mut Findings) {
    let disk = evidence.summary.backup_to_disk.as_ref();
    let size = disk.and_then(|disk| known(disk.storage_group_mb));
    let parts = evidence
        .tests("backup_to_disk")
        .map(|test| test.backup_database_mb.iter().sum::<f64>())
        .find(|total| *total > 0.0);
    if let (Some(printed), Some(parts)) = (size, parts)
        && !agrees(printed, parts)
    {
        findings.add(
            "total_of_parts",
            format!(
                "the size of the group is {} off the sum of its databases",
                with((printed - parts).abs(), "MB")
            ),
            (with(printed, "MB"), "summary.backup_to_disk.storage_group_mb"),
            (with(parts, "MB"), "sum of backup_database_mb"),
        );
    }
    if let Some(disk) = disk
        && let (Some(size), Some(seconds), Some(rate)) =
            (known(disk.storage_group_mb), known(disk.elapsed_s), known(disk.mb_per_s))
        && !["", "MB"].contains(&disk.storage_group_printed_unit.as_str())
        && agrees(rate, size / seconds)
    {
        findings.add(
            "unit",
            "size by time gives the rate only if the size is in MB",
            (
                with(size, &disk.storage_group_printed_unit),
                "summary.backup_to_disk.storage_group_printed_unit",
            ),
            (with(rate, "MB/s"), "summary.backup_to_disk.mb_per_s"),
        );
    }
}

fn recovery(evidence: &Evidence, findings: &mut Findings) {
    let measured = mean(evidence.tests("soft_recovery").map(|test| test.seconds_per_log));
    let printed = evidence.summary.recovery.as_ref().and_then(|recovery| known(recovery.seconds_per_log));
    if let (Some(printed), Some(measured)) = (printed, measured)
        // Printed as a rounded figure: half of its last digit more is no contradiction.
        && !agrees_within(printed, measured, 1e-3)
    {
        findings.add(
            "summary_differs",
            "the replay time of a log is not that of the reports",
            (with(printed, "s"), "summary.recovery.seconds_per_log"),
            (with(measured, "s"), "mean of seconds_per_log over the reports"),
        );
    }
}
