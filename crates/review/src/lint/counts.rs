//! The counts of a test against each other: operations, batches, latencies and sizes of one report.

use evidence::Report;
use evidence::report::{Figures, InstanceIo, MeasureRow, Percentiles, TestReport, counted};
use results::{Outcome, WorldKind};

use super::{Findings, agrees_within, shown, with};

/// Relative error of a latency that comes from a histogram bucket.
const BUCKET: f64 = 0.01;

/// Rules on counts, rates and shares in the report of each test.
pub(super) fn check(report: &Report, findings: &mut Findings) {
    // What a host that was lost had not yet kept is gone, so its databases and logs lack operations.
    let lost = report.run_verdicts.iter().chain(report.tests.iter().flat_map(|test| &test.verdicts));
    let is_lost =
        lost.into_iter().any(|verdict| verdict.rule == "host_took_part" && verdict.outcome != Outcome::Pass);
    // Real hosts do not tick at the same moment: a second or a sample at the edge of the window is of one count alone.
    let has_one_clock = report.hosts.len() == 1 || report.run.world == WorldKind::Simulated;
    let is_whole = has_one_clock && !is_lost;
    for test in &report.tests {
        for row in &test.measures {
            rate(test, row, findings);
            latencies(test, row, findings);
        }
        per_batch(test, findings);
        shares(test, findings);
        generator(test, findings);
        steadiness(test, findings);
        sizes(test, findings);
        // Of a window that was cut, hosts have more samples than their databases: those of each second.
        if is_whole && test.ended && test.window.is_none_or(|window| !window.cut) {
            sums(test, findings);
            held(test, findings);
        }
    }
}

fn at(test: &TestReport, row: &MeasureRow, what: &str) -> String {
    format!("{}: {what} of {}", test.name, row.measure)
}

/// Rule: operations per second are operations by the length of the window.
fn rate(test: &TestReport, row: &MeasureRow, findings: &mut Findings) {
    let Figures { count, per_s, .. } = row.figures;
    let Some(window) = test.window.filter(|window| window.duration_s > 0.0) else { return };
    let computed = count as f64 / window.duration_s;
    if !agrees_within(per_s, computed, 1e-6) {
        findings.add(
            "rate",
            "operations per second are not the operations by the window",
            (with(per_s, "1/s"), at(test, row, "per_s")),
            (with(computed, "1/s"), at(test, row, "count by window")),
        );
    }
}

/// Rule: percentiles grow up to the longest latency, and the mean is not above it.
fn latencies(test: &TestReport, row: &MeasureRow, findings: &mut Findings) {
    let Figures { latency_ms_mean, latency_ms_max, .. } = row.figures;
    if let (Some(mean), Some(longest)) = (latency_ms_mean, latency_ms_max)
        && mean > longest * (1.0 + 1e-9)
    {
        findings.add(
            "average_outside_range",
            format!("the mean latency of {} is above the longest", row.measure),
            (with(mean, "ms"), at(test, row, "mean latency")),
            (with(longest, "ms"), at(test, row, "longest latency")),
        );
    }
    let Percentiles { p50_ms, p90_ms, p95_ms, p99_ms, p99_9_ms, p99_99_ms, max_ms, .. } = row.percentiles;
    let named = [
        ("p50", p50_ms),
        ("p90", p90_ms),
        ("p95", p95_ms),
        ("p99", p99_ms),
        ("p99.9", p99_9_ms),
        ("p99.99", p99_99_ms),
        ("longest", max_ms),
    ];
    let known: Vec<(&str, f64)> = named.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect();
    let falls = known.iter().zip(known.iter().skip(1)).find(|(low, high)| low.1 > high.1 * (1.0 + BUCKET));
    if let Some(((low, low_ms), (high, high_ms))) = falls {
        findings.add(
            "percentile_order",
            "a percentile is above a higher one, or above the longest latency",
            (with(*low_ms, "ms"), at(test, row, low)),
            (with(*high_ms, "ms"), at(test, row, high)),
        );
    }
}

fn count(test: &TestReport, measure: &str) -> Option<u64> {
    test.measures.iter().find(|row| row.measure == measure).map(|row| row.figures.count)
}

/// Rule: operations per batch are operations by batches.
fn per_batch(test: &TestReport, findings: &mut Findings) {
    let Some(batches) = test.throughput.map(|load| load.batches).filter(|batches| *batches > 0) else {
        return;
    };
    for (name, measure) in [
        ("reads_per_batch", "transactional_read"),
        ("writes_per_batch", "transactional_write"),
        ("log_writes_per_batch", "log_write"),
    ] {
        let shown = test.shape(name).and_then(|row| row.measured);
        let (Some(shown), Some(count)) = (shown, count(test, measure)) else { continue };
        let computed = count as f64 / batches as f64;
        if !agrees_within(shown, computed, 1e-6) {
            findings.add(
                "load_shape",
                "operations per batch are not the operations by the batches",
                (with(shown, ""), format!("{}: {name}", test.name)),
                (with(computed, ""), format!("{}: {measure} by batches", test.name)),
            );
        }
    }
}

/// Rule: the share that was read is bytes read by bytes there.
fn shares(test: &TestReport, findings: &mut Findings) {
    let checksums = test.checksums.iter();
    let rows = checksums.map(|row| (&row.origin, row.read.bytes, row.read.bytes_expected, row.read_share));
    let backups = test.backups.iter().map(|row| (&row.origin, row.bytes, row.bytes_expected, row.read_share));
    for (origin, read, there, shown) in rows.chain(backups) {
        let computed = there.filter(|there| *there > 0).map(|there| read as f64 / there as f64);
        // Versions that did not write the share did not write what was there either.
        let (Some(shown), Some(computed)) = (shown, computed) else { continue };
        if !agrees_within(shown, computed, 1e-6) {
            let place = format!("{}: {}", test.name, origin);
            findings.add(
                "read_share",
                "the share that was read is not the bytes read by the bytes there",
                (with(100.0 * shown, "%"), format!("{place}: read_share")),
                (with(100.0 * computed, "%"), format!("{place}: bytes by bytes_expected")),
            );
        }
    }
}

/// Rule: the processor use of a host is the same in the table of the load generator and in that of the host.
fn generator(test: &TestReport, findings: &mut Findings) {
    let Some(generator) = &test.generator else { return };
    for (name, share) in [
        ("Processors, busy for the load generator", Some(generator.program_busy)),
        ("Processors of the host, busy", generator.host_busy),
        ("Busiest thread of the load generator", generator.busiest_thread_busy),
    ] {
        let row = test.host_system.iter().find(|row| row.host == generator.host && row.name == name);
        let (Some(share), Some(row)) = (share, row) else { continue };
        if !agrees_within(100.0 * share, row.mean, 1e-6) {
            findings.add(
                "host_figures",
                "how busy the host was is stated in two ways",
                (with(100.0 * share, "%"), format!("{}: generator on {}", test.name, row.host)),
                (with(row.mean, "%"), format!("{}: {name} on {}", test.name, row.host)),
            );
            return;
        }
    }
}

/// Lowest and highest possible distance of the furthest quarter from the mean: the mean of the window lies between the
/// quarters.
fn change_range(quarters: &[f64]) -> Option<(f64, f64)> {
    let least = quarters.iter().copied().reduce(f64::min)?;
    let most = quarters.iter().copied().reduce(f64::max)?;
    let spread = most - least;
    (most > 0.0).then(|| (spread / 2.0 / most, if least > 0.0 { spread / least } else { f64::INFINITY }))
}

/// Rule: the stated steadiness of a load follows from its quarters.
fn steadiness(test: &TestReport, findings: &mut Findings) {
    let Some(steadiness) = &test.steadiness else { return };
    let known = |quarters: &[Option<f64>]| quarters.iter().copied().collect::<Option<Vec<f64>>>();
    let latencies = [
        &steadiness.quarter_read_latency_ms,
        &steadiness.quarter_write_latency_ms,
        &steadiness.quarter_log_write_latency_ms,
    ];
    let latencies: Option<Vec<(f64, f64)>> =
        latencies.into_iter().map(|quarters| change_range(&known(quarters)?)).collect();
    let latency = latencies.and_then(|ranges| {
        ranges
            .into_iter()
            .reduce(|(low, high), (other_low, other_high)| (low.max(other_low), high.max(other_high)))
    });
    for (what, stated, range) in [
        (
            "quarter_iops",
            steadiness.iops_change_max,
            change_range(&steadiness.without_day(&steadiness.quarter_iops)),
        ),
        (
            "quarter_writes_per_s",
            steadiness.writes_change_max,
            change_range(&steadiness.without_day(&steadiness.quarter_writes_per_s)),
        ),
        ("quarters of the latencies", steadiness.latency_change_max, latency),
    ] {
        let (Some(stated), Some((low, high))) = (stated, range) else { continue };
        if stated < low - 1e-6 || stated > high + 1e-6 {
            findings.add(
                "steadiness",
                "the quarters of the window differ by more or by less than the report says",
                (with(100.0 * stated, "%"), format!("{}: change of {what}", test.name)),
                (
                    format!("{} to {}", with(100.0 * low, "%"), with(100.0 * high, "%")),
                    format!("{}: {what}", test.name),
                ),
            );
        }
    }
}

/// Rule: the size of all databases is the sum of their sizes.
fn sizes(test: &TestReport, findings: &mut Findings) {
    let Some(load) = test.throughput else { return };
    let before = test.sizes.iter().map(|size| size.bytes_before).sum();
    let after: Option<u64> = test.sizes.iter().map(|size| size.bytes_after).sum();
    for (when, printed, parts) in
        [("before", load.database_bytes_before, Some(before)), ("after", load.database_bytes_after, after)]
    {
        if let (Some(printed), Some(parts)) = (printed, parts)
            && !test.sizes.is_empty()
            && printed != parts
        {
            findings.add(
                "total_of_parts",
                format!("the databases {when} the test are not the sum over the databases"),
                (counted(printed, "byte"), format!("{}: database_bytes_{when}", test.name)),
                (counted(parts, "byte"), format!("{}: sum of the database sizes", test.name)),
            );
        }
    }
}

/// Rule: the I/O of all hosts is the sum of the I/O of their databases and logs.
fn sums(test: &TestReport, findings: &mut Findings) {
    if test.throughput.is_none() || test.instances.is_empty() {
        return;
    }
    let batches =
        count(test, "batch").map(|all| ("batch", all, test.instances.iter().map(|row| row.batches).sum()));
    type Column = fn(&InstanceIo) -> Option<Figures>;
    let figures: [(&str, Column); 3] = [
        ("transactional_read", |row| row.reads),
        ("transactional_write", |row| row.writes),
        ("log_write", |row| row.log_writes),
    ];
    let operations = figures.into_iter().filter_map(|(measure, of)| {
        let parts = test.instances.iter().filter_map(of).map(|figures| figures.count).sum();
        Some((measure, count(test, measure)?, parts))
    });
    let differs = |(_, all, parts): &(&str, u64, u64)| !agrees_within(*all as f64, *parts as f64, 5e-4);
    if let Some((measure, all, parts)) = batches.into_iter().chain(operations).find(differs) {
        let sum = format!(
            "{}: {measure}: sum over {}",
            test.name,
            counted(test.instances.len() as u64, "instance")
        );
        findings.add(
            "instance_sum",
            "the hosts did another number of operations than their databases and logs together",
            (shown(all as f64), format!("{}: {measure} of all hosts", test.name)),
            (shown(parts as f64), sum),
        );
    } else if let (Some(load), Some(all)) = (test.throughput, count(test, "batch"))
        && load.batches != all
    {
        findings.add(
            "instance_sum",
            "the load states another number of batches than the hosts did",
            (load.batches.to_string(), format!("{}: throughput.batches", test.name)),
            (all.to_string(), format!("{}: batch of all hosts", test.name)),
        );
    }
}

/// Rule: a latency distribution holds as many operations as the samples count.
fn held(test: &TestReport, findings: &mut Findings) {
    // Imported runs have no distributions, and drills keep none.
    let differs = |row: &&MeasureRow| row.percentiles.count > 0 && row.percentiles.count != row.figures.count;
    if let Some(row) = test.measures.iter().filter(|_| test.kind != "drill").find(differs) {
        findings.add(
            "distribution_count",
            "the latency distribution holds another number of operations than the samples count",
            (row.percentiles.count.to_string(), at(test, row, "distribution")),
            (row.figures.count.to_string(), at(test, row, "samples")),
        );
    }
}
