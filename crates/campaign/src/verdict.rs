//! The rules a test is judged by. Each verdict carries its rule in words, so that the report can print it.
//!
//! The thresholds are those of the published tests; where their sources leave a rule open we chose: a maximum
//! is the highest *sample mean* (15 s, or a twentieth of a shorter window), one sample above it fails; the mean
//! is weighted by operation; page fault stalls are waits for a free buffer, at most one per second on average
//! (2003: none); no tolerance below the target unless the solution file asks for it.

use results::{Comparison, IoClass, Origin, Outcome, Verdict};
use solution::{Generation, LoadSpec, Thresholds};

use crate::lapses::judge_gaps;
use crate::rule::{Rule, unproved_if_failed};
use crate::window::Window;

/// Average waits for a free buffer per second that still pass.
pub fn page_fault_stalls_per_s_max(generation: Generation) -> f64 {
    if generation == Generation::E2003 { 0.0 } else { 1.0 }
}

/// Judges the window of a load test. A window with gaps fails no rule: while the load generator did not run,
/// nobody took the answers of the storage, so latencies and rates are not those of the storage.
pub fn judge_load(
    test: u32,
    host: &str,
    window: &Window,
    thresholds: &Thresholds,
    load: &LoadSpec,
    generation: Generation,
) -> Vec<Verdict> {
    let mut verdicts = vec![achieved(test, host, window, load), complete(test, host, window)];
    verdicts.push(judge_gaps(test, host, window.gaps));
    verdicts.extend(judge_latencies(test, host, window, thresholds));
    let stalls_max = page_fault_stalls_per_s_max(generation);
    let stalls = Rule {
        name: "page_fault_stalls",
        text: match stalls_max {
            0.0 => "page reads never wait for a free buffer".into(),
            _ => "page reads wait for a free buffer at most once per second on average".into(),
        },
        comparison: Comparison::AtMost,
        unit: "1/s",
    };
    let stalls_per_s = window.page_fault_stalls as f64 / window.length.as_secs_f64();
    verdicts.push(stalls.judge(test, Origin::host(host), Some(stalls_per_s), stalls_max));
    let spread =
        window.batches.iter().max().zip(window.batches.iter().min()).map(|(max, min)| (max - min) as f64);
    let even = Rule {
        name: "batches_even",
        text: "every database did the same number of batches, give or take one".into(),
        comparison: Comparison::AtMost,
        unit: "batches",
    };
    verdicts.push(even.judge(test, Origin::host(host), spread, 1.0));
    if window.gaps.is_zero() { verdicts } else { verdicts.into_iter().map(unproved_if_failed).collect() }
}

/// Judges the latencies of each database and each log.
pub fn judge_latencies(test: u32, host: &str, window: &Window, thresholds: &Thresholds) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (instance, database, totals) in &window.databases {
        let reads = totals.io.class(IoClass::TransactionalRead);
        let any = reads.totals.count > 0;
        let origin = || Origin::database(host, instance, database);
        latency(
            &mut verdicts,
            test,
            origin,
            thresholds.read_avg_ms,
            any.then(|| reads.latency_ms_mean()),
            AVG_READ,
        );
        latency(
            &mut verdicts,
            test,
            origin,
            thresholds.read_max_ms,
            any.then_some(totals.worst_read.latency_ms),
            MAX_READ,
        );
    }
    for (instance, totals) in &window.logs {
        let writes = totals.io.class(IoClass::LogWrite);
        let any = writes.totals.count > 0;
        let (avg, max) = (thresholds.log_write_avg_ms, thresholds.log_write_max_ms);
        let origin = || Origin::instance(host, instance);
        latency(&mut verdicts, test, origin, avg, any.then(|| writes.latency_ms_mean()), AVG_LOG);
        latency(&mut verdicts, test, origin, max, any.then_some(totals.worst_log_write.latency_ms), MAX_LOG);
    }
    verdicts
}

fn achieved(test: u32, host: &str, window: &Window, load: &LoadSpec) -> Verdict {
    let measured = window.achieved_iops();
    let Some(target) = load.target_iops else {
        return Verdict {
            test: Some(test),
            origin: Origin::host(host),
            rule: "achieved_iops".into(),
            text: "achieved transactional I/O per second (no target is set)".into(),
            measured: Some(measured),
            limit: None,
            comparison: Comparison::AtLeast,
            unit: "1/s".into(),
            outcome: Outcome::Info,
        };
    };
    let tolerance = match load.tolerance {
        0.0 => String::new(),
        share => format!(" less {} %", share * 100.0),
    };
    let rule = Rule {
        name: "achieved_iops",
        text: format!("achieved transactional I/O per second reach the target of {target}{tolerance}"),
        comparison: Comparison::AtLeast,
        unit: "1/s",
    };
    rule.judge(test, Origin::host(host), Some(measured), target * (1.0 - load.tolerance))
}

fn complete(test: u32, host: &str, window: &Window) -> Verdict {
    let measured = window.length.saturating_sub(window.gaps);
    if window.is_estimate {
        return Verdict {
            test: Some(test),
            origin: Origin::host(host),
            rule: "window_estimated".into(),
            text: "the load was measured for a part of the planned window: an estimate of it".into(),
            measured: Some(measured.as_secs_f64()),
            limit: None,
            comparison: Comparison::AtLeast,
            unit: "s".into(),
            outcome: Outcome::Info,
        };
    }
    let rule = Rule {
        name: "window_complete",
        text: "the load was measured for the whole planned window".into(),
        comparison: Comparison::AtLeast,
        unit: "s",
    };
    rule.require(test, Origin::host(host), measured.as_secs_f64(), window.planned.as_secs_f64())
}

type LatencyRule = (&'static str, &'static str);
const AVG_READ: LatencyRule = ("read_latency_avg", "mean latency of transactional page reads");
const MAX_READ: LatencyRule =
    ("read_latency_max", "highest sample mean of the latency of transactional page reads");
const AVG_LOG: LatencyRule = ("log_write_latency_avg", "mean latency of durable log writes");
const MAX_LOG: LatencyRule =
    ("log_write_latency_max", "highest sample mean of the latency of durable log writes");

fn latency(
    verdicts: &mut Vec<Verdict>,
    test: u32,
    origin: impl Fn() -> Origin,
    limit_ms: Option<f64>,
    measured_ms: Option<f64>,
    (name, what): LatencyRule,
) {
    let Some(limit_ms) = limit_ms else { return };
    let rule = Rule {
        name,
        text: format!("{what} stays at or below {limit_ms} ms"),
        comparison: Comparison::AtMost,
        unit: "ms",
    };
    verdicts.push(rule.judge(test, origin(), measured_ms, limit_ms));
}

/// Judges that something never happened: `rule_name`, what it is, how often it was seen.
pub fn judge_none(test: u32, origin: Origin, rule_name: &str, what: &str, seen: u64) -> Verdict {
    let rule = Rule { name: rule_name, text: format!("no {what}"), comparison: Comparison::AtMost, unit: "" };
    rule.judge(test, origin, Some(seen as f64), 0.0)
}

/// How much a test read of what was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes read and verified.
    pub read: u64,
    /// Bytes that were there when the test began.
    pub there: u64,
}

impl Coverage {
    /// Adds what was read elsewhere.
    pub fn add(&mut self, other: Coverage) {
        self.read += other.read;
        self.there += other.there;
    }

    /// Whether something was there and nothing of it was left out.
    pub fn is_whole(self) -> bool {
        self.there > 0 && self.read >= self.there
    }

    /// Share that was read; `None` if nothing was there.
    pub fn percent(self) -> Option<f64> {
        (self.there > 0).then(|| 100.0 * self.read as f64 / self.there as f64)
    }

    /// Judges a claim about everything that was there: what was left out is not proved, and blames no storage.
    pub fn judge(self, test: u32, origin: Origin, rule_name: &str, text: &str) -> Verdict {
        let rule = Rule { name: rule_name, text: text.into(), comparison: Comparison::AtLeast, unit: "%" };
        let outcome = if self.is_whole() { Outcome::Pass } else { Outcome::Unproved };
        Verdict { outcome, ..rule.judge(test, origin, self.percent(), 100.0) }
    }

    /// What becomes of the verdict that nothing is bad: it holds only if everything was read.
    pub fn limit(self, verdict: Verdict) -> Verdict {
        match self.percent() {
            Some(percent) if !self.is_whole() && verdict.outcome == Outcome::Pass => Verdict {
                text: format!("{} ({percent:.1} % of the file was read)", verdict.text),
                outcome: Outcome::Unproved,
                ..verdict
            },
            _ => verdict,
        }
    }
}

/// Whether every rule that was to be judged holds.
pub fn all_pass(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| matches!(verdict.outcome, Outcome::Pass | Outcome::Info))
}

#[cfg(test)]
mod tests {
    use results::IoCounters;
    use solution::{Generation, LoadMode, Mix};
    use world::Duration;

    use super::*;
    use crate::window::Totals;

    fn load(target_iops: Option<f64>, tolerance: f64) -> LoadSpec {
        LoadSpec {
            mode: LoadMode::Closed { sessions: 1 },
            target_iops,
            iops_per_mailbox: None,
            tolerance,
            idle_factor: 1.0,
            mix: Mix::of(Generation::E2016),
            copies: 1,
        }
    }

    /// One database with 100 reads and one log with 10 writes in 10 s, of the given latencies.
    fn window(read_ms: u64, log_ms: u64) -> Window {
        let (mut database, mut log) = (Totals::default(), Totals::default());
        let mut io = IoCounters::default();
        (0..100).for_each(|_| io.record(IoClass::TransactionalRead, 32768, read_ms * 1_000_000));
        database.add_sample(&io, Duration::ZERO);
        let mut io = IoCounters::default();
        (0..10).for_each(|_| io.record(IoClass::LogWrite, 4096, log_ms * 1_000_000));
        log.add_sample(&io, Duration::ZERO);
        Window {
            length: Duration::from_secs(10),
            planned: Duration::from_secs(10),
            is_estimate: false,
            gaps: Duration::ZERO,
            databases: vec![("I".into(), "D".into(), database)],
            logs: vec![("I".into(), log)],
            page_fault_stalls: 0,
            batches: vec![7, 8],
        }
    }

    fn failed(window: &Window, load: &LoadSpec) -> Vec<String> {
        failed_in(Generation::E2016, window, load)
    }

    fn failed_in(generation: Generation, window: &Window, load: &LoadSpec) -> Vec<String> {
        let thresholds = Thresholds::published(generation, false);
        let verdicts = judge_load(1, "h", window, &thresholds, load, generation);
        verdicts.into_iter().filter(|v| v.outcome == Outcome::Fail).map(|v| v.rule).collect()
    }

    fn unproved(window: &Window) -> Vec<String> {
        let thresholds = Thresholds::published(Generation::E2016, false);
        let verdicts = judge_load(1, "h", window, &thresholds, &load(None, 0.0), Generation::E2016);
        verdicts.into_iter().filter(|v| v.outcome == Outcome::Unproved).map(|v| v.rule).collect()
    }

    #[test]
    fn a_window_inside_every_limit_passes_and_each_limit_fails_alone() {
        assert!(failed(&window(20, 10), &load(Some(10.0), 0.0)).is_empty(), "the limit itself passes");
        assert_eq!(failed(&window(21, 10), &load(None, 0.0)), ["read_latency_avg"]);
        assert_eq!(failed(&window(101, 10), &load(None, 0.0)), ["read_latency_avg", "read_latency_max"]);
        assert_eq!(failed(&window(20, 11), &load(None, 0.0)), ["log_write_latency_avg"]);
        assert_eq!(failed(&window(20, 10), &load(Some(10.1), 0.0)), ["achieved_iops"]);
        assert!(failed(&window(20, 10), &load(Some(10.1), 0.05)).is_empty());
        let stalls = Window { page_fault_stalls: 11, ..window(1, 1) };
        assert_eq!(failed(&stalls, &load(None, 0.0)), ["page_fault_stalls"]);
        let one_stall = Window { page_fault_stalls: 1, ..window(1, 1) };
        assert!(failed(&one_stall, &load(None, 0.0)).is_empty());
        assert_eq!(failed_in(Generation::E2003, &one_stall, &load(None, 0.0)), ["page_fault_stalls"]);
        let uneven = Window { batches: vec![7, 9], ..window(1, 1) };
        assert_eq!(failed(&uneven, &load(None, 0.0)), ["batches_even"]);
        let cut = Window { planned: Duration::from_secs(11), ..window(1, 1) };
        assert_eq!(
            (failed(&cut, &load(None, 0.0)), unproved(&cut)),
            (vec![], vec!["window_complete".into()])
        );
    }

    #[test]
    fn window_that_ended_as_an_estimate_is_not_judged_as_complete() {
        let estimate = Window { planned: Duration::from_secs(86_400), is_estimate: true, ..window(1, 1) };
        let thresholds = Thresholds::published(Generation::E2016, false);
        let verdicts = judge_load(1, "h", &estimate, &thresholds, &load(None, 0.0), Generation::E2016);
        assert!(verdicts.iter().all(|verdict| verdict.rule != "window_complete"));
        let told = verdicts.iter().find(|verdict| verdict.rule == "window_estimated").expect("it is told");
        assert_eq!((told.outcome, told.measured), (Outcome::Info, Some(10.0)));
    }

    #[test]
    fn a_window_with_gaps_proves_nothing_and_blames_nobody() {
        let held_up = |read_ms| Window { gaps: Duration::from_secs(3), ..window(read_ms, 1) };
        let run = ["window_complete", "window_without_gaps"];
        assert_eq!(unproved(&held_up(1)), run);
        assert_eq!(unproved(&held_up(101)), [&run[..], &["read_latency_avg", "read_latency_max"]].concat());
        assert!(failed(&held_up(101), &load(None, 0.0)).is_empty());
    }

    #[test]
    fn nothing_measured_is_a_failure_not_a_pass() {
        let mut idle = window(1, 1);
        idle.databases[0].2 = Totals::default();
        assert_eq!(failed(&idle, &load(None, 0.0)), ["read_latency_avg", "read_latency_max"]);
    }
}
