//! Amounts that a run states against what it read, and its hosts against the solution file: what a run that was
//! sealed again still contradicts.

use evidence::RunData;
use results::{Checksum, IoClass, Measure, Recovery};
use solution::Solution;

use super::{Findings, agrees_within, with};

/// Pages at the beginning of a database file that hold its header and the copy of it; no check counts them.
const HEADER_PAGES: u64 = 2;
/// Least share of the logs' bytes that a recovery must have read: its last log is read as far as it was written, and
/// logs before the checkpoint not at all.
const LOG_SHARE_LEAST: f64 = 0.5;

/// Rules on bytes, pages, logs and hosts of printed figures.
pub(super) fn check(data: &RunData, findings: &mut Findings) {
    if let Some(row) = data.checksums.iter().find(|row| !pages_fit(data, row)) {
        pages(data, row, findings);
    }
    data.checksums.iter().find(|row| is_cut(data, row)).into_iter().for_each(|row| {
        let (size, place) = (size_least(data, row).unwrap_or_default() as f64, name_of(data, row.test));
        findings.add(
            "file_size",
            "a check of a database knows of less than its file holds",
            (
                with(row.read.bytes_expected.unwrap_or_default() as f64, "bytes"),
                format!("{place}: {}", row.origin),
            ),
            (with(size, "bytes"), format!("{place}: size of {}", row.origin)),
        );
    });
    data.recoveries.iter().find_map(|row| Some((row, log_bytes_short(data, row)?))).into_iter().for_each(
        |(row, read)| {
            let place = format!("{}: {}", name_of(data, row.test), row.origin);
            findings.add(
                "logs_read",
                "recovery states more logs than it read",
                (with(row.logs as f64, "logs"), format!("{place}: recovery")),
                (with(read as f64, "bytes"), format!("{place}: log reads")),
            );
        },
    );
    judged_logs(data, findings);
    if let Ok(solution) = Solution::parse(&data.run.solution_text, "solution file") {
        hosts(data, &solution, findings);
    }
}

fn name_of(data: &RunData, test: u32) -> String {
    data.tests.get(&test).map_or_else(|| format!("test {test}"), |test| test.name.clone())
}

fn page_bytes(data: &RunData, row: &Checksum) -> Option<u64> {
    let database = data.databases.iter().find(|database| database.origin == row.origin)?;
    Some(u64::from(database.page_bytes))
}

/// Rule: the pages that were checked make up the bytes that were read.
fn pages_fit(data: &RunData, row: &Checksum) -> bool {
    let Some(page_bytes) = page_bytes(data, row).filter(|_| row.read.files == 0) else { return true };
    let of_bytes = row.read.bytes / page_bytes.max(1);
    (of_bytes.saturating_sub(HEADER_PAGES)..=of_bytes).contains(&row.read.pages)
}

fn pages(data: &RunData, row: &Checksum, findings: &mut Findings) {
    let place = format!("{}: {}", name_of(data, row.test), row.origin);
    let page_bytes = page_bytes(data, row).unwrap_or_default();
    findings.add(
        "file_size",
        format!(
            "the pages that were checked are not the bytes that were read, at {page_bytes} bytes per page"
        ),
        (with(row.read.pages as f64, "pages"), format!("{place}: pages")),
        (with(row.read.bytes as f64, "bytes"), format!("{place}: bytes")),
    );
}

/// The smaller of a database file's sizes before and after a test; it may grow meanwhile.
fn size_least(data: &RunData, row: &Checksum) -> Option<u64> {
    let size = data.sizes.iter().find(|size| size.test == row.test && size.origin == row.origin)?;
    Some(size.bytes_after.map_or(size.bytes_before, |after| after.min(size.bytes_before)))
}

fn is_cut(data: &RunData, row: &Checksum) -> bool {
    let there = row.read.bytes_expected.filter(|_| row.read.files == 0);
    there.zip(size_least(data, row)).is_some_and(|(there, size)| there < size)
}

/// Bytes of logs that a recovery read, if they are too few for the logs it claims to have replayed.
fn log_bytes_short(data: &RunData, row: &Recovery) -> Option<u64> {
    let instance = data
        .instances
        .iter()
        .find(|one| one.host == row.origin.host && Some(&one.name) == row.origin.instance.as_ref())?;
    let points = data.series.get(&(row.test, row.origin.clone(), Measure::Io(IoClass::LogRead)))?;
    let read: u64 = points.iter().map(|point| point.totals.bytes).sum();
    // One log may have been cut off by the crash.
    let whole = row.logs.saturating_sub(1) as f64 * instance.log_file_bytes as f64;
    ((read as f64) < whole * LOG_SHARE_LEAST).then_some(read)
}

/// Rule: the verdict on replayed logs judges the number of logs of the recovery.
fn judged_logs(data: &RunData, findings: &mut Findings) {
    for verdict in data.verdicts.iter().filter(|verdict| verdict.rule == "logs_replayed") {
        let of_verdict = |row: &&Recovery| Some(row.test) == verdict.test && row.origin == verdict.origin;
        if let (Some(judged), Some(row)) = (verdict.measured, data.recoveries.iter().find(of_verdict))
            && !agrees_within(judged, row.logs as f64, 1e-9)
        {
            let place = format!("{}: {}", name_of(data, row.test), row.origin);
            findings.add(
                "logs_read",
                "the verdict judges another number of logs than the recovery states",
                (with(judged, "logs"), format!("{place}: verdict logs_replayed")),
                (with(row.logs as f64, "logs"), format!("{place}: recovery")),
            );
            return;
        }
    }
}

/// Rule: every host of the run is in the solution file.
fn hosts(data: &RunData, solution: &Solution, findings: &mut Findings) {
    let known: Vec<&str> = solution.hosts.iter().map(|host| host.name.as_str()).collect();
    let rows = data.hosts.iter().map(|host| (host.name.as_str(), "table host"));
    let origins = data.series.keys().map(|(_, origin, _)| (origin.host.as_str(), "table source"));
    let foreign = rows.chain(origins).find(|(name, _)| !known.contains(name));
    if let Some((name, table)) = foreign.filter(|_| !known.is_empty()) {
        let text = "a host of the run is none of the solution file";
        findings.add("host_unknown", text, (name, table), (known.join(", "), "solution file: hosts"));
    }
}
