//! Causes that lie in the load, the load generator and its settings.

use results::{Measure, Outcome};

use super::facts::{BUSY, Facts, Found, HELD, LOG, READ, busy, ms, percent};
use crate::report::host_system::{most_kept_waiting, was_saturated};
use crate::report::text::{bytes, counted, number, significant};

/// Multiple of its target from which on a load is not the load that was asked for.
const FAR_ABOVE: f64 = 2.0;
/// Multiple of its target from which on that alone explains any latency.
const BEYOND: f64 = 5.0;
/// Fewest page reads per batch at which the database is not held by the cache; the published loads read 28 to 60.
const READS_PER_BATCH_LEAST: f64 = 5.0;
/// Share from which on one component of a latency explains it.
const MOSTLY: f64 = 0.4;
/// Percent of the time from which on a host that keeps the load generator waiting delays its I/O, and from which on
/// that alone explains any latency.
const STARVED_PERCENT: f64 = 10.0;
const MOSTLY_STARVED_PERCENT: f64 = 50.0;

/// Cause: a closed load has too few sessions to reach its target at the latencies that were measured.
pub fn too_few_sessions(facts: &Facts<'_>) -> Option<Found> {
    let (sessions, target) = (facts.sessions?, facts.report.target_iops()?);
    let achieved = facts.iops();
    let is_idle = facts.parts("drive").all(|part| part.busy_share < BUSY);
    let holds = facts.too_little() && !facts.is_slow() && is_idle && achieved > 0.0;
    let needed = (f64::from(sessions) * target / achieved).ceil();
    holds.then(|| {
        let what = format!(
            "The load asked for too little, not the storage: {} at these latencies make {} transactional I/O per \
             second, the target of {} needs about {}",
            counted(sessions.into(), "session"),
            significant(achieved),
            significant(target),
            number(needed, 0)
        );
        let found = Found::new(0.9, "too_few_sessions", what).on("[load] sessions");
        [READ, LOG, Measure::Batch].into_iter().fold(found, |found, measure| match facts.mean_ms(measure) {
            Some(mean) => found.proof(measure.name(), format!("mean {}", ms(mean))),
            None => found,
        })
    })
}

/// Cause: the load did a multiple of its target.
pub fn load_above_target(facts: &Facts<'_>) -> Option<Found> {
    let (achieved, target) = (facts.iops(), facts.report.target_iops()?);
    (achieved >= FAR_ABOVE * target && facts.sessions.is_some()).then(|| {
        let times = significant(achieved / target);
        let what =
            format!("The load was {times} times its target, so more was asked of the storage than planned");
        let weight = if achieved >= BEYOND * target { 0.99 } else { 0.92 };
        Found::new(weight, "load_above_target", what).on("[load] sessions").proof(
            "transactional_read and transactional_write",
            format!("{} per second, target {}", significant(achieved), significant(target)),
        )
    })
}

/// Cause: the page cache is too small, so that page reads waited for a free buffer.
pub fn cache_too_small(facts: &Facts<'_>) -> Option<Found> {
    let judged = facts.report.verdicts.iter().find(|verdict| verdict.rule == "page_fault_stalls")?;
    let is_broken = judged.measured.zip(judged.limit).is_some_and(|(measured, limit)| measured > limit);
    (is_broken && judged.outcome != Outcome::Pass).then(|| {
        let of_cache = judged.outcome == Outcome::Unproved;
        let what = match of_cache {
            true => "Page reads waited for a free buffer, because the page cache is too small for the load",
            false => "Page reads waited for a free buffer: the page cache is too small for the load, or not warm, or the \
                      storage writes changed pages back too slowly",
        };
        let weight = if facts.is_slow() { 0.55 } else { 0.88 };
        let found = Found::new(weight, "cache_too_small", what).on("[engine] cache_max_mib").proof(
            "page_fault_stalls",
            format!("{} per second", significant(judged.measured.unwrap_or(0.0))),
        );
        match facts.report.cache_bytes_max {
            Some(most) => found.proof("cache_bytes", format!("at most {}", bytes(most as f64))),
            None => found,
        }
    })
}

/// Cause: the databases fit into the cache, so that hardly anything is left to read.
pub fn database_fits_cache(facts: &Facts<'_>) -> Option<Found> {
    let load = facts.report.throughput.filter(|load| load.batches_per_s > 0.0)?;
    let per_batch = load.reads_per_s / load.batches_per_s;
    (facts.too_little() && per_batch < READS_PER_BATCH_LEAST).then(|| {
        let what = "The page cache holds most of the databases, so the load has hardly anything to read";
        let size = |amount: Option<u64>| amount.map_or("not known".to_owned(), |amount| bytes(amount as f64));
        Found::new(0.975, "database_fits_cache", what)
            .on("[sizing] database_mib")
            .proof(READ.name(), format!("{} per batch", significant(per_batch)))
            .proof("database_size", size(load.database_bytes_after))
            .proof("cache_bytes", format!("at most {}", size(facts.report.cache_bytes_max)))
    })
}

/// Cause: the load generator or the processors of its host were busy.
pub fn processors(facts: &Facts<'_>) -> Option<Found> {
    let is_broken = facts.is_slow() || facts.too_little();
    if let Some(generator) = facts.report.generator.as_ref().filter(|generator| was_saturated(generator)) {
        let busiest = generator.busiest_thread_busy.unwrap_or(generator.program_busy);
        let what = format!(
            "The load generator itself had no processor time left on {}: the storage may be faster than measured",
            generator.host
        );
        return is_broken.then(|| {
            Found::new(0.97, "processors", what)
                .on(generator.host.clone())
                .proof("cpu_busiest_thread_ns", percent(busiest))
                .proof("host_cpu_busy_ns", percent(generator.host_busy.unwrap_or(0.0)))
        });
    }
    let waiting = most_kept_waiting(&facts.report.host_system);
    if let Some(row) = waiting.filter(|row| row.mean >= STARVED_PERCENT) {
        let what = format!("The load generator had to wait for a processor on {}", row.host);
        // A busy host is not the cause where operations hardly waited for it.
        let held = facts.held_share();
        let explains = row.mean >= MOSTLY_STARVED_PERCENT || held.is_none_or(|share| share >= HELD);
        return is_broken.then(|| {
            let figure = format!("{} {} on average", significant(row.mean), row.unit);
            let found = Found::new(if explains { 0.97 } else { 0.6 }, "processors", what);
            let found = found.on(row.host.clone()).proof(row.name.clone(), figure);
            match held {
                Some(share) => {
                    found.proof("held", format!("{} of the slow operations' latency", percent(share)))
                }
                None => found,
            }
        });
    }
    let part = facts.busiest("processor")?;
    let before = before_volumes(facts).filter(|_| part.busy_share >= BUSY / 2.0);
    (is_broken && (part.busy_share >= BUSY || before.is_some_and(|share| share >= MOSTLY))).then(|| {
        let what = format!("Requests waited for the processors of a host: {}", part.name);
        let found = Found::new(0.97, "processors", what)
            .on(part.name.clone())
            .proof(format!("storage_part {}", part.name), busy(part));
        match before {
            Some(share) => {
                found.proof(READ.name(), format!("{} of the mean before the volume", percent(share)))
            }
            None => found,
        }
    })
}

/// Share of the mean read latency that had passed before the modelled volumes saw the reads: time in the host.
fn before_volumes(facts: &Facts<'_>) -> Option<f64> {
    let read = facts.mean_ms(READ).filter(|mean| *mean > 0.0)?;
    let slowest = facts.parts("volume").filter_map(|part| part.read_latency_ms).reduce(f64::max)?;
    Some((1.0 - slowest / read).max(0.0))
}

/// Cause: the load is more than the storage carries. It is what is left when every part works as it should and
/// latencies are high.
pub fn too_much_load(facts: &Facts<'_>) -> Option<Found> {
    let disks = facts.drives();
    let busiest = facts.busiest("drive");
    let is_busy = busiest.is_some_and(|part| part.busy_share >= BUSY);
    let is_broken = facts.reads_slow() || (facts.too_little() && is_busy) || (facts.logs_slow() && is_busy);
    let weight = match (facts.has_parts(), is_busy) {
        (true, true) => 0.8,
        (false, _) if facts.reads_slow() => 0.5,
        _ => return None,
    };
    is_broken.then(|| {
        let what = match is_busy {
            true => format!("More load than the {} disks carry within the limits: requests waited for them", disks.len()),
            false => "Reads were slow everywhere and all the time: more load than the storage carries within the limits"
                .to_owned(),
        };
        let found = Found::new(weight, "too_much_load", what);
        let found = match facts.figures(READ) {
            Some(reads) => found.proof(
                READ.name(),
                format!(
                    "mean {}, {} outstanding",
                    ms(reads.latency_ms_mean.unwrap_or(0.0)),
                    significant(reads.outstanding)
                ),
            ),
            None => found,
        };
        match busiest {
            Some(part) => found.proof(format!("storage_part {}", part.name), busy(part)),
            None => found,
        }
    })
}
