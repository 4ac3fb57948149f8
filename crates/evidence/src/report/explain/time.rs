//! Causes that show in the course of the seconds: stalls, bursts.

use results::IoTotals;

use crate::report::text::significant;

use super::facts::{Facts, Found, LOG, READ, Seconds, mean_ms, middle, ms};

/// Milliseconds from which on a request has waited for something that failed.
const SILENCE_MS: f64 = 1_500.0;
/// Smallest silence as a multiple of the usual latency, because behind a long queue nothing completes for a while.
const SILENCE_LATENCIES: f64 = 5.0;
/// Seconds in a row without a completion that are no chance, where at least [`USUAL_PER_S`] operations complete in
/// one.
const SILENT_S: usize = 2;
const USUAL_PER_S: f64 = 10.0;
/// Milliseconds from which on a log write has waited for a stalled sync.
const STALL_MS: f64 = 800.0;
/// Multiple of the usual latency that such a log write takes at least.
const UNUSUAL: f64 = 15.0;

/// Spread of rates, as a share of the root of the number of operations, below which a rate is limited by a setting:
/// rates by chance spread by that root.
const FLAT: f64 = 0.15;
/// Operations per second below which a steady rate says nothing.
const FLAT_OPERATIONS: f64 = 20.0;

/// Cause: a path or controller was lost. All I/O stood still, then went on over another way from host to disks.
pub fn lost_path(facts: &Facts<'_>) -> Option<Found> {
    let Seconds { all_reads, all_writes, reads, .. } = &facts.seconds;
    let usual = middle(all_reads.iter().map(|second| second.count as f64).collect())?;
    let is_silent =
        |at: usize| all_reads[at].count == 0 && all_writes.get(at).is_none_or(|second| second.count == 0);
    let (mut silent_s, mut at, mut begun) = (0, 0, 0);
    for second in 0..all_reads.len() {
        if !is_silent(second) {
            begun = second + 1;
        } else if second + 1 - begun > silent_s {
            (silent_s, at) = (second + 1 - begun, begun);
        }
    }
    let (longest_ms, _) = longest(reads)?;
    let is_queue = silent_s as f64 * 1e3 < SILENCE_LATENCIES * usual_ms(reads)?;
    let holds = silent_s >= SILENT_S && usual >= USUAL_PER_S && longest_ms >= SILENCE_MS && !is_queue;
    (holds && (facts.is_slow() || facts.too_little())).then(|| {
        let what = format!(
            "All reads and writes stood still together for {silent_s} s and then went on, as after the loss of a path or \
             controller"
        );
        Found::new(0.985, "lost_path", what)
            .from(Some(at))
            .proof("reads and writes of every class", format!("none for {silent_s} s, usually {usual:.0} reads per second"))
            .proof(READ.name(), format!("longest {}", ms(longest_ms)))
    })
}

/// Cause: durable writes stalled. Log writes stood still while reads went on.
pub fn stalled_sync(facts: &Facts<'_>) -> Option<Found> {
    let ((log_ms, at), (read_ms, _)) = (longest(&facts.seconds.logs)?, longest(&facts.seconds.reads)?);
    let is_unusual = log_ms >= UNUSUAL * usual_ms(&facts.seconds.logs)?;
    let is_stall = log_ms >= STALL_MS && is_unusual && read_ms < log_ms / 3.0;
    (is_stall && (facts.is_slow() || facts.too_little())).then(|| {
        let what = format!("Durable log writes stood still for {} while reads went on", ms(log_ms));
        let begun = at.saturating_sub((log_ms / 1e3) as usize);
        Found::new(0.98, "stalled_sync", what)
            .from(Some(begun))
            .proof(LOG.name(), format!("longest {}", ms(log_ms)))
            .proof(READ.name(), format!("longest {}", ms(read_ms)))
    })
}

/// Cause: page writes come in bursts. Reads are slow in the seconds with most page writes, and fast in the others.
pub fn write_bursts(facts: &Facts<'_>) -> Option<Found> {
    let (reads, writes) = (&facts.seconds.reads, &facts.seconds.writes);
    if reads.len() < 12 || writes.len() != reads.len() || !facts.reads_slow() {
        return None;
    }
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_by_key(|second| writes[*second].count);
    let of =
        |seconds: &[usize], all: &[IoTotals]| -> Vec<IoTotals> { seconds.iter().map(|n| all[*n]).collect() };
    let third = reads.len() / 3;
    let (calm, busy) = (&order[..third], &order[order.len() - third..]);
    let count =
        |seconds: &[usize]| seconds.iter().map(|n| writes[*n].count).sum::<u64>() as f64 / third as f64;
    let (calm_ms, busy_ms) = (mean_ms(&of(calm, reads))?, mean_ms(&of(busy, reads))?);
    let is_burst = count(busy) >= 5.0 * count(calm).max(0.2) && busy_ms >= 2.0 * calm_ms;
    is_burst.then(|| {
        Found::new(
            0.86,
            "write_bursts",
            "Changed pages were written back in bursts, and reads waited behind them",
        )
        .on("[engine] checkpoint_depth_mib, flush_start_percent, flush_stop_percent")
        .proof("transactional_write", format!("{:.0} and {:.0} per second", count(busy), count(calm)))
        .proof(READ.name(), format!("{} in these seconds and {} in the others", ms(busy_ms), ms(calm_ms)))
    })
}

/// Cause: a set limit (QoS, throttling) holds the rate. It hardly varies between seconds, while what a disk carries
/// varies by chance.
pub fn flat_ceiling(facts: &Facts<'_>) -> Option<Found> {
    let Seconds { all_reads, all_writes, .. } = &facts.seconds;
    let count: fn(&IoTotals) -> f64 = |second| second.count as f64;
    let mib: fn(&IoTotals) -> f64 = |second| second.bytes as f64 / 1_048_576.0;
    let rates = [
        ("reads of every class", all_reads, count, "per second"),
        ("writes of every class", all_writes, count, "per second"),
        ("reads of every class", all_reads, mib, "MiB per second"),
        ("writes of every class", all_writes, mib, "MiB per second"),
    ];
    // Modelled parts say themselves which of them passed no more.
    if facts.has_parts() || (!facts.is_slow() && !facts.too_little()) {
        return None;
    }
    let flat = rates.into_iter().filter_map(|(rows, seconds, of, unit)| {
        let operations = seconds.iter().map(count).sum::<f64>() / seconds.len().max(1) as f64;
        let (mean, spread) = spread(&seconds.iter().map(of).collect::<Vec<_>>())?;
        let of_load = match rows.starts_with("reads") {
            true => &facts.seconds.reads,
            false => &facts.seconds.writes,
        };
        let part = of_load.iter().map(of).sum::<f64>() / seconds.iter().map(of).sum::<f64>().max(1e-9);
        (part >= 0.5 && operations >= FLAT_OPERATIONS && spread < FLAT / operations.sqrt())
            .then_some((rows, mean, spread, unit))
    });
    let (rows, mean, spread, unit) = flat.min_by(|a, b| a.2.total_cmp(&b.2))?;
    let what = format!(
        "Storage passed the same {} {unit} in every second: a limit is set on them",
        significant(mean)
    );
    Some(Found::new(0.945, "throttled", what).on(rows).proof(
        rows,
        format!("{} {unit}, spread {} % between seconds", significant(mean), significant(spread * 100.0)),
    ))
}

/// Mean and coefficient of variation without the lowest and highest tenth, where a stall or a rest would count.
fn spread(rates: &[f64]) -> Option<(f64, f64)> {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    let tenth = rates.len() / 10;
    let kept = rates.get(tenth..rates.len() - tenth).filter(|kept| kept.len() >= 8)?;
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let variance = kept.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / kept.len() as f64;
    (mean > 0.0).then(|| (mean, variance.sqrt() / mean))
}

/// The longest latency in ms, and the second of the window in which it occurred.
fn longest(seconds: &[IoTotals]) -> Option<(f64, usize)> {
    let of = |(at, second): (usize, &IoTotals)| Some((second.latency_ms_max()?, at));
    seconds.iter().enumerate().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The median over the seconds of their mean latency, in ms.
fn usual_ms(seconds: &[IoTotals]) -> Option<f64> {
    middle(seconds.iter().filter_map(IoTotals::latency_ms).collect())
}
