//! A report of the load generator against itself: totals, rates, limits, times.

use super::{Findings, agrees, agrees_within, half_digit, with};
use crate::printed_figures::{Evidence, TestFigures, Text, known, sum};

/// Seconds that a window may close late: it ends with a sample, which a busy host takes late.
const LATE_CLOSE_S: f64 = 1.0;

pub fn check(evidence: &Evidence, findings: &mut Findings) {
    for test in &evidence.test {
        sums(test, findings);
        reads(test, findings);
        rates(test, findings);
        limits(test, findings);
        times(evidence, test, findings);
        for row in &test.host {
            if let (Some(avg), Some(min), Some(max)) = (known(row.avg), known(row.min), known(row.max)) {
                let place = |what: &str| format!("{}: {} {what}", test.id, row.counter);
                // Only rounding may put an average outside: half of its last digit.
                if avg + 1.2 * half_digit(avg) < min {
                    findings.add(
                        "average_outside_range",
                        format!("the average of {} is below its minimum", row.counter),
                        (with(avg, ""), place("average")),
                        (with(min, ""), place("minimum")),
                    );
                } else if avg - 1.2 * half_digit(avg) > max {
                    findings.add(
                        "average_outside_range",
                        format!("the average of {} is above its maximum", row.counter),
                        (with(avg, ""), place("average")),
                        (with(max, ""), place("maximum")),
                    );
                }
            }
        }
    }
}

/// Transactional I/O per second of a report, from its instance table.
pub fn transactional_iops(test: &TestFigures) -> Option<f64> {
    sum(test.transactional.iter().flat_map(|row| [row.db_reads_per_s, row.db_writes_per_s]))
}

/// Database I/O per second of a report, maintenance included.
pub fn total_iops(test: &TestFigures) -> Option<f64> {
    sum(test.total.iter().flat_map(|row| [row.db_reads_per_s, row.db_writes_per_s]))
}

fn sums(test: &TestFigures, findings: &mut Findings) {
    let id = &test.id;
    if let (Some(achieved), Some(parts)) = (known(test.achieved_iops), transactional_iops(test))
        && test.kind != "backup_to_disk"
        && !agrees(achieved, parts)
    {
        let with_maintenance = total_iops(test).is_some_and(|all| agrees(achieved, all));
        let (rule, text) = if with_maintenance {
            ("maintenance_counted", "achieved I/O per second include background maintenance")
        } else {
            ("iops_sum", "achieved I/O per second are not the sum of reads and writes")
        };
        findings.add(
            rule,
            text,
            (with(achieved, "1/s"), format!("{id}: achieved_iops")),
            (with(parts, "1/s"), format!("{id}: sum of the transactional table")),
        );
    }
    if let (Some(initial), Some(last), Some(growth)) =
        (known(test.initial_database_bytes), known(test.final_database_bytes), known(test.growth_bytes))
        && (last - initial - growth).abs() > 0.001 * growth.abs()
    {
        findings.add(
            "growth",
            "the growth is not the final size less the initial size",
            (with(growth, "bytes"), format!("{id}: growth_bytes")),
            (with(last - initial, "bytes"), format!("{id}: final less initial size")),
        );
    }
    if let (Some(printed), Some(parts)) =
        (known(test.backup_sum_mb_per_s), sum(test.backup.iter().map(|row| row.mb_per_s)))
        && !agrees(printed, parts)
    {
        findings.add(
            "total_of_parts",
            "the backup rate of the server is not the sum over its databases",
            (with(printed, "MB/s"), format!("{id}: backup_sum_mb_per_s")),
            (with(parts, "MB/s"), format!("{id}: sum of the backup table")),
        );
    }
    if let (Some(printed), Some(parts)) =
        (known(test.recovery_sum_logs), sum(test.recovery.iter().map(|row| row.logs)))
        && (printed - parts).abs() > 0.5
    {
        findings.add(
            "total_of_parts",
            "the logs replayed are not the sum over the instances",
            (with(printed, "logs"), format!("{id}: recovery_sum_logs")),
            (with(parts, "logs"), format!("{id}: sum of the recovery table")),
        );
    }
    if let Some(total) = &test.checksum_sum
        && let (Some(printed), Some(parts)) =
            (known(total.pages), sum(test.checksum.iter().map(|row| row.pages)))
        && (printed - parts).abs() > 0.5
    {
        findings.add(
            "total_of_parts",
            "the pages checked are not the sum over the databases",
            (with(printed, "pages"), format!("{id}: checksum_sum.pages")),
            (with(parts, "pages"), format!("{id}: sum of the checksum table")),
        );
    }
}

/// Rule: transactional and maintenance reads make up all reads, for every instance that a scan did not damage.
fn reads(test: &TestFigures, findings: &mut Findings) {
    for total in &test.total {
        let part = test.transactional.iter().find(|row| row.n == total.n).and_then(|row| row.db_reads_per_s);
        let maintenance = test.bdm.iter().find(|row| row.n == total.n).and_then(|row| row.reads_per_s);
        let (Some(part), Some(maintenance), Some(all)) =
            (known(part), known(maintenance), known(total.db_reads_per_s))
        else {
            continue;
        };
        let doubtful = is_suspect(test, "bdm", total.n, "reads_per_s")
            || is_suspect(test, "transactional", total.n, "db_reads_per_s")
            || is_suspect(test, "total", total.n, "db_reads_per_s");
        // Scans were repaired to 0.25 %.
        if !doubtful && !agrees_within(all, part + maintenance, 3e-3) {
            findings.add(
                "read_sum",
                format!("reads of instance {} do not add up", total.n),
                (with(all, "1/s"), format!("{}: total[{}].db_reads_per_s", test.id, total.n)),
                (
                    with(part + maintenance, "1/s"),
                    format!("{}: transactional[{1}] + bdm[{1}]", test.id, total.n),
                ),
            );
        }
    }
}

fn is_suspect(test: &TestFigures, table: &str, row: u32, column: &str) -> bool {
    let (one, all) = (format!("{table}[{row}].{column}"), format!("{table}[*].{column}"));
    test.ocr_suspect.iter().any(|mark| {
        mark.cell == one || (mark.cell == all && (mark.rows.is_empty() || mark.rows.contains(&row)))
    })
}

fn rates(test: &TestFigures, findings: &mut Findings) {
    let id = &test.id;
    let mut rate = |size: Option<f64>, seconds: Option<f64>, printed: Option<f64>, place: String| {
        if let (Some(size), Some(seconds), Some(printed)) = (known(size), known(seconds), known(printed))
            && seconds > 0.0
            // Half of the last digit of the time moves the rate as well.
            && !agrees_within(printed, size / seconds, 1e-3 + 2.0 * half_digit(seconds) / seconds)
        {
            findings.add(
                "rate",
                "the rate is not the size by the time",
                (with(printed, "MB/s"), place.clone()),
                (with(size / seconds, "MB/s"), format!("{place}: size by time")),
            );
        }
    };
    for row in &test.backup {
        rate(row.size_mb, row.elapsed_s, row.mb_per_s, format!("{id}: backup[{}].mb_per_s", row.n));
    }
    for row in &test.checksum {
        rate(row.size_mb, row.seconds, row.mb_per_s, format!("{id}: checksum[{}].mb_per_s", row.n));
    }
    if let Some(row) = &test.checksum_sum {
        // A repaired cell was printed as it was read: the page says the wrong figure.
        let read = test.ocr_repaired.iter().find(|mark| mark.cell == "checksum_sum.mb_per_s");
        let as_read = read.and_then(|mark| match &mark.read {
            Text::One(text) => text.parse().ok(),
            Text::Many(_) => None,
        });
        let rows_at_once = test.checksum.len() > 1
            && sum(test.checksum.iter().map(|row| row.seconds))
                .is_some_and(|seconds| !agrees_within(row.seconds.unwrap_or(0.0), seconds, 0.01));
        if !rows_at_once {
            rate(row.size_mb, row.seconds, as_read.or(row.mb_per_s), format!("{id}: checksum_sum.mb_per_s"));
        }
    }
    let logs = sum(test.recovery.iter().map(|row| row.logs));
    let seconds = sum(test.recovery.iter().map(|row| row.seconds));
    if let (Some(printed), Some(logs), Some(seconds)) = (known(test.seconds_per_log), logs, seconds)
        && logs > 0.0
        && !agrees_within(printed, seconds / logs, 2e-3)
    {
        findings.add(
            "rate",
            "the replay time of a log is not the time by the logs",
            (with(printed, "s"), format!("{id}: seconds_per_log")),
            (with(seconds / logs, "s"), format!("{id}: seconds by logs of the recovery table")),
        );
    }
    let bad = sum(test.checksum.iter().flat_map(|row| [row.bad, row.wrong_page_number]));
    if let Some(bad) = bad
        && bad > 0.0
        && test.result == "Pass"
    {
        findings.add(
            "bad_pages",
            "the checksum passed with bad pages",
            (with(bad, "bad pages"), format!("{id}: checksum table")),
            ("Pass", format!("{id}: result")),
        );
    }
}

fn limits(test: &TestFigures, findings: &mut Findings) {
    let Some(limits) = &test.thresholds else { return };
    let judged = ["performance", "stress", "log_generation", "max_throughput"].contains(&test.kind.as_str());
    if judged && test.result == "Pass" {
        for row in &test.transactional {
            for (measured, limit, column) in [
                (row.db_read_latency_ms, limits.read_avg_ms, "db_read_latency_ms"),
                (row.log_write_latency_ms, limits.log_write_avg_ms, "log_write_latency_ms"),
            ] {
                if let (Some(measured), Some(limit)) = (known(measured), known(limit))
                    && measured > limit
                {
                    findings.add(
                        "threshold_exceeded",
                        "the test passed above its limit",
                        (with(measured, "ms"), format!("{}: transactional[{}].{column}", test.id, row.n)),
                        (with(limit, "ms"), format!("{}: thresholds", test.id)),
                    );
                }
            }
        }
    }
    let window_s = known(test.collection_s).or(known(test.run_s)).or(known(test.duration_s));
    if let (Some(window_s), Some(limit)) = (window_s, known(limits.read_max_ms))
        && test.kind == "performance"
        && window_s <= 6.0 * 3600.0
        && limit > 100.0
    {
        findings.add(
            "lenient_threshold",
            "a run of at most 6 h is judged by the laxer maxima of a stress run",
            (with(limit, "ms"), format!("{}: thresholds.read_max_ms", test.id)),
            (with(window_s / 3600.0, "h"), format!("{}: measured window", test.id)),
        );
    }
}

fn times(evidence: &Evidence, test: &TestFigures, findings: &mut Findings) {
    let id = &test.id;
    let event = |name: &str| test.events.get(name).and_then(crate::Instant::unix_s);
    if let (Some(closed), Some(ended)) = (event("logging_end"), event("dispatch_end"))
        && ended - closed > 120
        && results::grade::is_load(&test.kind)
    {
        let minutes = (ended - closed) as f64 / 60.0;
        findings.add(
            "load_after_window",
            format!(
                "the load went on for {} min after the window; batch counts include it",
                with(minutes, "")
            ),
            (with((ended - closed) as f64, "s"), format!("{id}: events.dispatch_end less logging_end")),
            ("0 s", "what a batch count by the window assumes"),
        );
    }
    let window_s = known(test.collection_s).or(known(test.run_s));
    if let (Some(window_s), Some(hours)) = (window_s, known(test.title_hours))
        && !agrees_within(window_s, hours * 3600.0, 0.02)
        && (window_s - hours * 3600.0).abs() > LATE_CLOSE_S
    {
        findings.add(
            "duration_title",
            "the test did not last as long as its title says",
            (with(hours, "h"), format!("{id}: title_hours")),
            (with(window_s / 3600.0, "h"), format!("{id}: measured window")),
        );
    }
    let stated = match test.kind.as_str() {
        "performance" => evidence.summary.performance_hours,
        "stress" => evidence.summary.stress_hours,
        _ => None,
    };
    if let (Some(window_s), Some(hours)) = (window_s, known(stated))
        && window_s < hours * 3600.0 * 0.99
    {
        findings.add(
            "short_window",
            "the measured window is shorter than the summary says",
            (with(window_s / 3600.0, "h"), format!("{id}: measured window")),
            (with(hours, "h"), format!("summary.{}_hours", test.kind)),
        );
    }
}
