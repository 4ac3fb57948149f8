//! Figures that no storage can have: figures whose unit slipped, and latencies below those of the
//! drives.

use super::{Findings, with};
use crate::printed_figures::{DiskFigures, Evidence, TestFigures};

/// Bounds on the share of a closed load's sessions that wait for reads. In the published papers it is 0.43 to 1.02. A
/// session has one read at a time, so no more than all can wait; the rest allows for rounded and missing cells.
const WAITING_LEAST: f64 = 0.02;
const WAITING_MOST: f64 = 1.5;
/// Lowest plausible mean latency in ms of random disk reads. Half a turn at 15,000 rpm takes 2 ms; a cache of the
/// array may answer half of the reads.
const DISK_READ_MS_LEAST: f64 = 1.0;
/// Lowest plausible mean latency in ms of random flash reads: the fastest drives take some 10 us, and the host adds as
/// much.
const FLASH_READ_MS_LEAST: f64 = 0.02;

/// Rules of physics on every load test: Little's law, and latencies that drives can reach.
pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let floor = floor_ms(&evidence.hardware.disks);
    for test in evidence.test.iter().filter(|test| is_load(test)) {
        let Some(reads) = reads(test) else { continue };
        if let Some(threads) = test.threads.filter(|threads| *threads >= 1.0) {
            littles_law(test, &reads, threads, findings);
        }
        read_floor(reads.latency_ms, &format!("{}: mean read latency", test.id), floor, findings);
    }
    let rows = evidence.summary.server.iter().chain(&evidence.summary.aggregate);
    if let Some(ms) = rows.filter_map(|row| row.read_latency_ms).reduce(f64::min)
        && !findings.has("read_floor")
    {
        read_floor(ms, "summary: read latency", floor, findings);
    }
}

fn read_floor(latency_ms: f64, place: &str, floor: Option<(f64, &str)>, findings: &mut Findings) {
    let Some((floor, what)) = floor.filter(|(floor, _)| latency_ms < *floor) else { return };
    findings.add(
        "read_floor",
        format!("random reads of {what} cannot be that fast: a unit that slipped by 1,000?"),
        (with(latency_ms, "ms"), place),
        (with(floor, "ms"), "hardware.disks: the least that such drives take"),
    );
}

fn is_load(test: &TestFigures) -> bool {
    ["performance", "stress", "max_throughput", "log_generation"].contains(&test.kind.as_str())
}

/// The database reads of a test, all instances together.
struct Reads {
    per_s: f64,
    latency_ms: f64,
}

/// The database reads of a test; `None` where no rate or no latency was printed. Rows with an unreadable cell are left
/// out.
fn reads(test: &TestFigures) -> Option<Reads> {
    let rows = test.transactional.iter().map(|row| (row.db_reads_per_s, row.db_read_latency_ms));
    let all = rows.chain([(test.reads_per_s, test.read_latency_ms)]);
    let (per_s, waiting_ms) = all
        .filter_map(|(per_s, latency_ms)| Some((per_s?, latency_ms?)))
        .filter(|(per_s, latency_ms)| per_s * latency_ms > 0.0)
        .fold((0.0, 0.0), |(rate, waiting), (per_s, latency_ms)| {
            (rate + per_s, waiting + per_s * latency_ms)
        });
    (per_s > 0.0).then(|| Reads { per_s, latency_ms: waiting_ms / per_s })
}

/// Rule: reads under way are rate times latency (Little's law), and the sessions of a closed load are what waits for
/// them.
fn littles_law(test: &TestFigures, reads: &Reads, threads: f64, findings: &mut Findings) {
    let waiting = reads.per_s * reads.latency_ms / 1e3;
    if (WAITING_LEAST * threads..=WAITING_MOST * threads).contains(&waiting) {
        return;
    }
    let text = match waiting < threads {
        true => {
            "so few reads are under way at a time that the sessions of a closed load would do more of them"
        }
        false => "more reads are under way at a time than the sessions can wait for",
    };
    findings.add(
        "littles_law",
        format!("{text}: a unit that slipped by 1,000?"),
        (with(waiting, "reads"), format!("{}: reads per second x read latency", test.id)),
        (with(threads, "sessions"), format!("{}: threads", test.id)),
    );
}

/// Lowest plausible mean read latency in ms of the drives that hold databases, and the kind of these drives.
fn floor_ms(disks: &[DiskFigures]) -> Option<(f64, &'static str)> {
    // Every part that serves reads counts: a tier and a read cache as well.
    let others = ["log", "restore", "spare", "reseed", "operating system", "transport", "backup"];
    let serves = |disk: &&DiskFigures| {
        let role = disk.role.to_lowercase();
        role.contains("database") || !others.iter().any(|other| role.contains(other))
    };
    let is_flash = |disk: &DiskFigures| {
        let kind = disk.drive_type.to_lowercase();
        ["ssd", "flash", "nvme", "solid"].iter().any(|word| kind.contains(word))
    };
    let mut serving = disks.iter().filter(serves).peekable();
    serving.peek()?;
    let disks: Vec<&DiskFigures> = serving.collect();
    if disks.iter().any(|disk| is_flash(disk)) {
        return Some((FLASH_READ_MS_LEAST, "flash"));
    }
    disks.iter().all(|disk| disk.rpm.is_some()).then_some((DISK_READ_MS_LEAST, "disks"))
}
