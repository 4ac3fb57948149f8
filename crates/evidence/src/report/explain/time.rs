//! Causes that show in the course of the seconds: stalls, bursts.

use results::{IoTotals, Measure};

use crate::report::text::significant;

use super::facts::{Facts, Found, LOG, READ, Seconds, mean_ms, middle, ms, per_s};

/// Milliseconds from which on a request has waited for something that stood still.
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

/// Multiple of its mean that the rate of page writes has in a burst, and the seconds before a silence that are looked
/// at.
const BURST: f64 = 3.0;
const BEFORE_SILENCE_S: usize = 3;
/// Page writes per second that count as none.
const FEW_WRITES: f64 = 0.2;

/// Spread of rates, as a share of the root of the number of operations, below which a rate is limited by a setting:
/// rates by chance spread by that root.
const FLAT: f64 = 0.15;
/// Operations per second below which a steady rate says nothing.
const FLAT_OPERATIONS: f64 = 20.0;

/// Seconds in a row without a completion, the first of them, and the usual reads per second.
struct Silence {
    at: usize,
    seconds: usize,
    usual: f64,
}

/// The longest silence of all I/O; `None` if it is no longer than chance or a long queue makes it.
fn silence(seconds: &Seconds) -> Option<Silence> {
    let Seconds { all_reads, all_writes, reads, .. } = seconds;
    let usual = middle(all_reads.iter().map(|second| second.count as f64).collect())?;
    let is_silent =
        |at: usize| all_reads[at].count == 0 && all_writes.get(at).is_none_or(|second| second.count == 0);
    let (mut longest_s, mut at, mut begun) = (0, 0, 0);
    for second in 0..all_reads.len() {
        if !is_silent(second) {
            begun = second + 1;
        } else if second + 1 - begun > longest_s {
            (longest_s, at) = (second + 1 - begun, begun);
        }
    }
    let (longest_ms, _) = longest(reads)?;
    let is_queue = longest_s as f64 * 1e3 < SILENCE_LATENCIES * usual_ms(reads)?;
    let holds = longest_s >= SILENT_S && usual >= USUAL_PER_S && longest_ms >= SILENCE_MS && !is_queue;
    holds.then_some(Silence { at, seconds: longest_s, usual })
}

/// Cause: a path or controller was lost. All I/O stood still, then went on over another way from host to disks.
pub fn lost_path(facts: &Facts<'_>) -> Option<Found> {
    let silence = silence(&facts.seconds)?;
    let Silence { at, seconds, usual } = silence;
    let is_alone = burst_before(&facts.seconds.writes, &silence).is_none();
    let holds = is_alone && (facts.is_slow() || facts.too_little());
    let (longest_ms, _) = longest(&facts.seconds.reads)?;
    holds.then(|| {
        let what = format!(
            "All reads and writes stood still together for {seconds} s and then went on, as after the loss of a path or \
             controller"
        );
        Found::new(0.985, "lost_path", what)
            .from(Some(at))
            .proof("reads and writes of every class", format!("none for {seconds} s, usually {usual:.0} reads per second"))
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

/// Page writes per second before a silence, and in all seconds outside of it, if the silence ends a burst of them:
/// then the disks still work on these.
fn burst_before(writes: &[IoTotals], silence: &Silence) -> Option<(f64, f64)> {
    let (sounding, behind) = (writes.get(..silence.at)?, writes.get(silence.at + silence.seconds..)?);
    let outside: Vec<IoTotals> = [sounding, behind].concat();
    let before = &sounding[sounding.len().saturating_sub(BEFORE_SILENCE_S)..];
    let (before, mean) = (per_s(before.iter()), per_s(outside.iter()));
    (mean > 0.0 && before >= BURST * mean).then_some((before, mean))
}

/// Cause: page writes come in bursts, and other I/O waits behind them.
pub fn write_bursts(facts: &Facts<'_>) -> Option<Found> {
    let found = |waited: &str| {
        let what = format!("Changed pages were written back in bursts, and {waited} waited behind them");
        Found::new(0.86, "write_bursts", what)
            .on("[engine] checkpoint_depth_mib, flush_start_percent, flush_stop_percent")
    };
    let with_burst = |found: Found, most: f64, other: f64| {
        found.proof("transactional_write", format!("{most:.0} and {other:.0} per second"))
    };
    let silent = silence(&facts.seconds)
        .and_then(|silence| Some((silence.seconds, burst_before(&facts.seconds.writes, &silence)?)));
    if let Some((seconds, (before, mean))) = silent.filter(|_| facts.is_slow() || facts.too_little()) {
        let silence = format!("none for {seconds} s behind a burst");
        return Some(
            with_burst(found("all I/O"), before, mean).proof("reads and writes of every class", silence),
        );
    }
    let (measure, [calm_ms, busy_ms], [calm, busy]) = slow_in_bursts(facts)?;
    let waited = if measure == LOG { "log writes" } else { "reads" };
    Some(
        with_burst(found(waited), busy, calm).proof(
            measure.name(),
            format!("{} in these seconds and {} in the others", ms(busy_ms), ms(calm_ms)),
        ),
    )
}

/// Reads or log writes that are slow in the third of the seconds with most page writes, and fast in that with fewest:
/// their mean latencies in ms, and page writes per second, in the calm and in the busy third.
fn slow_in_bursts(facts: &Facts<'_>) -> Option<(Measure, [f64; 2], [f64; 2])> {
    let Seconds { reads, writes, logs, .. } = &facts.seconds;
    if reads.len() < 12 || writes.len() != reads.len() || logs.len() != reads.len() {
        return None;
    }
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_by_key(|second| writes[*second].count);
    let third = reads.len() / 3;
    let thirds = [&order[..third], &order[order.len() - third..]];
    let rates = thirds.map(|seconds| per_s(seconds.iter().map(|second| &writes[*second])));
    let slow = [(facts.reads_slow(), READ, reads), (facts.logs_slow(), LOG, logs)];
    let broken = slow.into_iter().filter(|(is_slow, ..)| *is_slow);
    broken.filter(|_| rates[1] >= 5.0 * rates[0].max(FEW_WRITES)).find_map(|(_, measure, all)| {
        let of = |seconds: &[usize]| mean_ms(&seconds.iter().map(|n| all[*n]).collect::<Vec<_>>());
        let means = [of(thirds[0])?, of(thirds[1])?];
        (means[1] >= 2.0 * means[0]).then_some((measure, means, rates))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_behind_steady_writes_ends_no_burst() {
        let of = |counts: &[(usize, u64)]| -> Vec<IoTotals> {
            let seconds = counts.iter().flat_map(|&(seconds, count)| std::iter::repeat_n(count, seconds));
            seconds.map(|count| IoTotals { count, ..IoTotals::default() }).collect()
        };
        let silence = Silence { at: 10, seconds: 25, usual: 100.0 };
        assert_eq!(burst_before(&of(&[(10, 20), (25, 0), (5, 20)]), &silence), None);
        assert_eq!(burst_before(&of(&[(10, 20), (30, 0)]), &silence), None, "silent for most of the time");
        assert!(burst_before(&of(&[(7, 0), (3, 400), (25, 0), (5, 0)]), &silence).is_some());
    }
}
