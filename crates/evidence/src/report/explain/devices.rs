//! Causes that show in the block devices below the volumes, as the kernels of real hosts count them in the window.
//!
//! Limits: a kernel counts what reaches its device, from every program. What a hypervisor or an array does behind that,
//! it does not see.

use results::{Direction, IoClass, StoragePart};

use super::facts::{Facts, Found, HELD, READ, busy, middle, ms};
use super::parts::row;
use crate::report::text::significant;

/// MiB per second beside our own from which on others use a device, and share of our own that file systems and
/// evidence add to it.
const FOREIGN_MIB: f64 = 4.0;
const OWN_ADDS: f64 = 0.3;
/// Smallest share of a mean latency that the time above the device must have to count as the cause.
const MOSTLY: f64 = 0.5;
/// A shorter wait before a device explains no broken limit.
const WAIT_LEAST_MS: f64 = 2.0;
/// A device counts as slower than its equals from this multiple of their median latency on.
const SLOWER: f64 = 1.8;
const MIB: f64 = 1_048_576.0;

/// Reads waited in the kernel before the device got them: for a limit of a cgroup, or behind a lock of a file system.
pub fn throttled_above_devices(facts: &Facts<'_>) -> Option<Found> {
    let devices: Vec<_> = facts.parts("device").filter(|part| part.reads > 0).collect();
    let total_ms: f64 =
        devices.iter().filter_map(|part| Some(part.read_latency_ms? * part.reads as f64)).sum();
    let device_ms = total_ms / devices.iter().map(|part| part.reads as f64).sum::<f64>();
    let measured = facts.report.measures.iter().find(|row| row.measure == READ.name())?;
    let read_ms = measured.figures.latency_ms_mean?;
    let wait_ms = read_ms - device_ms - measured.held_ms.unwrap_or(0.0);
    // A load generator that gets to its completions late also submits late.
    let is_starved = measured.held_ms.is_some_and(|held| held >= HELD * read_ms);
    let holds = wait_ms >= WAIT_LEAST_MS && wait_ms >= MOSTLY * read_ms && !is_starved;
    (holds && (facts.is_slow() || facts.too_little())).then(|| {
        let what = format!(
            "Reads waited for {} above the block devices, which need {} for one: a limit is set on this host",
            ms(wait_ms),
            ms(device_ms)
        );
        Found::new(0.935, "throttled", what)
            .proof(READ.name(), format!("mean {}", ms(read_ms)))
            .proof("storage_part of all devices", format!("{} per read", ms(device_ms)))
    })
}

/// The devices do more than the load and its file systems ask of them.
pub fn neighbour_on_devices(facts: &Facts<'_>) -> Option<Found> {
    let own = |direction| -> f64 {
        let is_of = |name: &str| IoClass::from_name(name).is_some_and(|class| class.direction() == direction);
        let measures = facts.report.measures.iter().filter(|row| is_of(&row.measure));
        measures.map(|row| row.figures.mib_per_s).sum()
    };
    let of_devices = |of: fn(&StoragePart) -> u64| -> f64 {
        facts
            .parts("device")
            .filter(|part| part.seconds > 0.0)
            .map(|part| of(part) as f64 / part.seconds / MIB)
            .sum()
    };
    let rates = [
        ("read", of_devices(|part| part.read_bytes), own(Direction::Read)),
        ("written", of_devices(|part| part.write_bytes), own(Direction::Write)),
    ];
    let foreign = |(_, all, own): &(&str, f64, f64)| all - (1.0 + OWN_ADDS) * own;
    let (what, all, own) = rates.into_iter().max_by(|a, b| foreign(a).total_cmp(&foreign(b)))?;
    let is_foreign = foreign(&(what, all, own)) > FOREIGN_MIB.max(OWN_ADDS * own);
    (is_foreign && facts.is_slow()).then(|| {
        let rate = |amount: f64| format!("{} MiB/s {what}", significant(amount));
        Found::new(0.965, "noisy_neighbour", "The devices do work that this load did not ask for")
            .proof("storage_part of all devices", rate(all))
            .proof(format!("all bytes {what} by the load"), rate(own))
    })
}

/// One device takes longer for a read than its equals.
pub fn one_slow_device(facts: &Facts<'_>) -> Option<Found> {
    let devices: Vec<_> = facts.parts("device").filter(|part| part.reads > 20).collect();
    let latency = |part: &&StoragePart| part.read_latency_ms.unwrap_or(0.0);
    let slow = *devices.iter().max_by(|a, b| latency(a).total_cmp(&latency(b)))?;
    let others = devices.iter().filter(|part| part.name != slow.name).map(latency).collect();
    let usual = middle(others).filter(|usual| *usual > 0.0 && devices.len() > 2)?;
    let times = latency(&slow) / usual;
    (times >= SLOWER && (facts.is_slow() || facts.too_little())).then(|| {
        let what =
            format!("{} takes {} times as long for a read as its equals", slow.name, significant(times));
        Found::new(0.955, "one_slow_part", what).on(slow.name.clone()).proof(
            row(slow),
            format!(
                "{} per read, the middle one of the others {}, {}",
                ms(latency(&slow)),
                ms(usual),
                busy(slow)
            ),
        )
    })
}
