//! Causes that lie in the storage: its disks, caches, controllers and links.

use results::{Origin, StoragePart};

use crate::report::model::{Figures, InstanceIo};

use super::facts::{BUSY, DiskClass, Facts, Found, LOG, READ, busy, middle, ms, per_s, step};
use crate::report::text::{bytes, significant};

/// Multiple of the median of its equals from which on a database or log counts as slower.
const SLOWER: f64 = 1.5;
/// Most multiple of the disk's own time that a write takes which waits for a disk alone; more is a queue.
const DISK_TIME: f64 = 2.5;
/// Most bytes that disks read per byte that volumes read, before others must be reading too; the second constant is
/// per byte written, where parity is read and written.
const OWN_READS: f64 = 1.3;
const OWN_PARITY: f64 = 3.0;
/// Reads that this run did not ask for, in MiB per second, from which on another load is assumed.
const FOREIGN_MIB: f64 = 2.0;
/// Multiple of the usual time for a request from which on disks count as slow.
const SLOW_DISK: f64 = 0.95;
/// Bytes that a disk transfers per millisecond.
const TRANSFER_BYTES_PER_MS: f64 = 130_000.0;
/// Longest time in ms that a healthy flash drive works on a page.
const USUAL_FLASH_MS: f64 = 2.0;
const MIB: f64 = 1_048_576.0;

pub fn row(part: &StoragePart) -> String {
    format!("storage_part {}", part.name)
}

fn served(part: &StoragePart) -> f64 {
    (part.reads + part.writes) as f64
}

/// Mean time that a disk works on a request, in ms, without waiting.
fn service_ms(part: &StoragePart) -> f64 {
    part.busy_share * part.seconds * 1e3 / served(part).max(1.0)
}

/// Cause: one disk, or the storage of one database, is slower than its equals.
pub fn one_slow_part(facts: &Facts<'_>) -> Option<Found> {
    let drives = facts.drives();
    let service = |part: &&StoragePart| {
        middle(equals(&drives, part).map(service_ms).collect()).map(|m| service_ms(part) / m)
    };
    let slowest =
        drives.iter().filter(|part| part.reads > 20).filter_map(|part| Some((service(part)?, *part)));
    if let Some((times, slow)) = slowest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(times, _)| *times >= 1.8)
        && (facts.is_slow() || facts.too_little())
    {
        let what =
            format!("{} works {} times as long on a request as its equals", slow.name, significant(times));
        return Some(
            Found::new(0.96, "one_slow_part", what)
                .on(slow.name.clone())
                .proof(row(slow), format!("{} per request, {}", ms(service_ms(slow)), busy(slow))),
        );
    }
    uneven(facts)
}

/// The other disks with a similar number of requests.
fn equals<'a>(drives: &'a [&StoragePart], part: &StoragePart) -> impl Iterator<Item = &'a StoragePart> {
    let (name, least) = (part.name.clone(), served(part) / 3.0);
    drives.iter().copied().filter(move |other| other.name != name && served(other) >= least)
}

/// The slowest of some databases or logs: its latency and the median of the others, in ms.
fn slowest<'a>(rows: &[(&'a Origin, f64)]) -> Option<(&'a Origin, f64, f64)> {
    let (origin, most) = rows.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied()?;
    let others = middle(rows.iter().filter(|(other, _)| *other != origin).map(|(_, ms)| *ms).collect())?;
    (most >= SLOWER * others).then_some((origin, most, others))
}

fn uneven(facts: &Facts<'_>) -> Option<Found> {
    let means = |rows: &'_ [InstanceIo], of: fn(&InstanceIo) -> Option<&Figures>| -> Vec<(Origin, f64)> {
        rows.iter().filter_map(|row| Some((row.origin.clone(), of(row)?.latency_ms_mean?))).collect()
    };
    let reads = means(&facts.report.databases, |row| row.reads.as_ref());
    let logs = means(&facts.report.instances, |row| row.log_writes.as_ref());
    let of = |measure: &'static str, rows: &[(Origin, f64)]| {
        let rows: Vec<(&Origin, f64)> = rows.iter().map(|(origin, ms)| (origin, *ms)).collect();
        slowest(&rows).map(|(origin, most, others)| (measure, origin.to_string(), most, others))
    };
    let reads = if facts.reads_slow() { of(READ.name(), &reads) } else { None };
    let logs = if facts.logs_slow() { of(LOG.name(), &logs) } else { None };
    let (measure, origin, most, others) = reads.or(logs)?;
    let what = format!("{origin} alone is slow: look at what only this one lies on");
    Some(
        Found::new(if facts.has_parts() { 0.7 } else { 0.84 }, "one_slow_part", what)
            .on(origin.to_string())
            .proof(format!("{measure} of {origin}"), format!("mean {}", ms(most)))
            .proof(format!("{measure} of the middle one of the others"), format!("mean {}", ms(others))),
    )
}

/// Cause: a disk group is being rebuilt. One disk takes long writes and gives no reads, or left while its equals
/// worked.
pub fn rebuild(facts: &Facts<'_>) -> Option<Found> {
    let drives = facts.drives();
    let size = |part: &StoragePart| part.write_bytes as f64 / part.writes.max(1) as f64;
    let mut spares =
        drives.iter().filter(|part| part.reads * 8 < part.writes && part.writes >= 5 && size(part) > 250e3);
    let is_broken = facts.is_slow() || facts.too_little();
    let spare = spares.next().filter(|_| is_broken)?;
    // Two disks that take the same long writes are a mirror of logs.
    if spares.any(|other| other.writes > spare.writes / 2) {
        return None;
    }
    let rate = spare.write_bytes as f64 / spare.seconds / MIB;
    Some(
        Found::new(0.975, "rebuild", format!("A lost disk is rebuilt on {} beside the load", spare.name))
            .on(spare.name.clone())
            .from(step(&facts.seconds.reads).map(|(at, ..)| at))
            .proof(
                row(spare),
                format!(
                    "{} MiB/s written in pieces of {}, hardly anything read",
                    significant(rate),
                    bytes(size(spare))
                ),
            ),
    )
}

/// Cause: another load uses the same disks, which read far more than the volumes of this run asked for.
pub fn noisy_neighbour(facts: &Facts<'_>) -> Option<Found> {
    let sum = |kind, of: fn(&StoragePart) -> u64| facts.parts(kind).map(of).sum::<u64>() as f64;
    let (read, asked) = (sum("drive", |part| part.read_bytes), sum("volume", |part| part.read_bytes));
    let written = sum("volume", |part| part.write_bytes);
    let seconds = facts.parts("drive").map(|part| part.seconds).fold(0.0, f64::max);
    let foreign = (read - OWN_READS * asked - OWN_PARITY * written) / seconds.max(1.0) / MIB;
    (asked > 0.0 && foreign > FOREIGN_MIB && facts.is_slow()).then(|| {
        let rate = |amount: f64| format!("{} MiB/s read", significant(amount / seconds / MIB));
        Found::new(0.965, "noisy_neighbour", "The disks do work that this load did not ask for")
            .from(step(&facts.seconds.reads).map(|(at, ..)| at))
            .proof("storage_part of all disks", rate(read))
            .proof("storage_part of all volumes", rate(asked))
    })
}

/// Cause: the write cache is off or full, so that log writes wait for disks.
pub fn write_cache(facts: &Facts<'_>) -> Option<Found> {
    if !facts.logs_slow() && facts.broken("page_fault_stalls").is_none() {
        return None;
    }
    let controllers: Vec<_> = facts.parts("controller").filter(|part| part.writes > 0).collect();
    let waits: u64 = controllers.iter().map(|part| part.cache_waits).sum();
    let writes: u64 = controllers.iter().map(|part| part.writes).sum();
    let through = controllers.iter().find(|part| part.cache_dirty_bytes_max == 0);
    let found = |weight, name, what: &str| {
        let mean = facts.mean_ms(LOG).unwrap_or(0.0);
        Found::new(weight, name, what).proof(LOG.name(), format!("mean {}", ms(mean)))
    };
    if let Some(part) = through {
        let what = "Writes go through to the disks: the write cache is off";
        let found = found(0.972, "write_cache_off", what).on(part.name.clone());
        return Some(found.proof(row(part), "no byte in the write cache"));
    }
    if waits * 50 > writes && writes > 0 {
        let what = "Writes waited for room in the write cache: it is full, since the disks take less than is written";
        let found = found(0.9, "write_cache_full", what);
        return Some(
            found.proof("storage_part of the controllers", format!("{waits} of {writes} writes waited")),
        );
    }
    let (at, before, after) =
        step(&facts.seconds.logs).filter(|(_, before, after)| after > &(2.0 * before))?;
    let reads = step(&facts.seconds.reads).map_or(1.0, |(_, before, after)| after / before);
    let holds = after > 1.6 * reads * before && is_disk_time(facts, after) && !more_writes(facts, at);
    holds.then(|| {
        let what = "Log writes take disk time instead of cache time: the write cache went off";
        found(0.955, "write_cache_off", what)
            .from(Some(at))
            .proof(LOG.name(), format!("{} before and {} after", ms(before), ms(after)))
    })
}

/// Whether far more pages are written from a second on: then these are what log writes wait for.
fn more_writes(facts: &Facts<'_>, at: usize) -> bool {
    let (before, after) = facts.seconds.writes.split_at(at.min(facts.seconds.writes.len()));
    per_s(after.iter()) > 2.0 * per_s(before.iter())
}

/// Whether a write latency is that of a disk working on it, not of a queue before the disks.
fn is_disk_time(facts: &Facts<'_>, after_ms: f64) -> bool {
    let slowest = |kind| facts.parts(kind).filter_map(|part| part.write_latency_ms).fold(0.0, f64::max);
    match facts.has_parts() {
        true => slowest("volume") <= DISK_TIME * slowest("drive"),
        false => !facts.reads_slow() && facts.mean_ms(READ).is_some_and(|read| after_ms <= DISK_TIME * read),
    }
}

/// Cause: a controller or link is at its maximum rate.
pub fn narrow_part(facts: &Facts<'_>) -> Option<Found> {
    let is_broken = facts.is_slow() || facts.too_little();
    let of = |kind| facts.busiest(kind).filter(|part| part.busy_share >= BUSY && is_broken);
    if let Some(link) = of("link") {
        let what = format!("Requests waited for {}: the link passes no more", link.name);
        return Some(Found::new(0.96, "link_full", what).on(link.name.clone()).proof(row(link), busy(link)));
    }
    let part = of("controller").or_else(|| of("store")).or_else(|| of("pool"))?;
    let rate = (part.read_bytes + part.write_bytes) as f64 / part.seconds / MIB;
    let what = format!("Requests waited for {}: it passes no more than it did", part.name);
    Some(Found::new(0.95, "throttled", what).on(part.name.clone()).proof(row(part), busy(part)).proof(
        row(part),
        format!(
            "{} requests and {} MiB per second",
            significant(served(part) / part.seconds),
            significant(rate)
        ),
    ))
}

/// Cause: the array acknowledges writes late. Log writes take the same long time everywhere, though nothing is busy
/// and the cache takes them.
pub fn slow_acknowledge(facts: &Facts<'_>) -> Option<Found> {
    let mean = facts.mean_ms(LOG)?;
    let is_idle = facts.parts("controller").chain(facts.parts("link")).all(|part| part.busy_share < BUSY);
    let has_cache = facts.parts("controller").any(|part| part.cache_dirty_bytes_max > 0);
    let narrow = facts.report.measures.iter().find(|row| row.measure == LOG.name())?.percentiles;
    let is_even = narrow.p90_ms.zip(narrow.p50_ms).is_some_and(|(most, half)| most < 2.0 * half);
    let is_idle = is_idle && facts.parts("drive").all(|part| part.busy_share < BUSY);
    // Where most are fast, it is not the acknowledgement that is slow.
    let is_usual = narrow.p50_ms.is_none_or(|half| half >= mean / 2.0);
    let is_shown = if facts.has_parts() { has_cache && is_usual } else { is_even };
    let holds = facts.logs_slow() && is_idle && is_shown;
    holds.then(|| {
        let what =
            "Every durable write takes this long, though nothing is busy: the acknowledgement itself is slow";
        Found::new(if facts.has_parts() { 0.9 } else { 0.7 }, "slow_acknowledge", what)
            .proof(LOG.name(), format!("mean {}, p50 {}", ms(mean), narrow.p50_ms.map_or("-".into(), ms)))
    })
}

/// Cause: all disks take longer for a request than disks of their kind do.
pub fn slow_disks(facts: &Facts<'_>) -> Option<Found> {
    let drives: Vec<_> = facts.drives().into_iter().filter(|part| part.reads > 20).collect();
    let service = middle(drives.iter().map(|part| service_ms(part)).collect())?;
    let usual = middle(drives.iter().map(|part| usual_ms(facts, part, drives.len())).collect())?;
    let is_broken = facts.is_slow() || facts.too_little();
    (is_broken && service > SLOW_DISK * usual).then(|| {
        let what = format!(
            "All disks work longer on a request than disks of their kind: each makes at most {} per second",
            significant(1e3 / service)
        );
        let weight = if facts.reads_slow() { 0.93 } else { 0.85 };
        Found::new(weight, "slow_disks", what).proof(
            "storage_part of the middle disk",
            format!("{} per request, usual are up to {}", ms(service), ms(usual)),
        )
    })
}

/// Time in ms that a healthy disk of its kind needs for such requests one by one, on the tracks that mirrored
/// databases take: command, half a turn, seek, settling of writes, transfer. A queue makes it less.
fn usual_ms(facts: &Facts<'_>, part: &StoragePart, disks: usize) -> f64 {
    let DiskClass { is_flash, rpm, capacity_bytes } = facts.disk;
    if is_flash {
        return USUAL_FLASH_MS;
    }
    let bytes = facts.report.throughput.and_then(|load| load.database_bytes_after).unwrap_or(0) as f64;
    let used = (2.0 * bytes / disks.max(1) as f64 / capacity_bytes).min(1.0);
    let average = match rpm {
        12_000.0.. => 3.5,
        8_000.0.. => 4.5,
        _ => 8.5,
    };
    let seek = 0.6 + (average - 0.6) * used.sqrt();
    let transfer =
        (part.read_bytes + part.write_bytes) as f64 / served(part).max(1.0) / TRANSFER_BYTES_PER_MS;
    0.2 + 30_000.0 / rpm + seek + part.writes as f64 / served(part).max(1.0) + transfer
}
