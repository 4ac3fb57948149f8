//! The rules a test is judged by. Each verdict carries its rule in words, so that the report can print it.
//!
//! The thresholds are those of the published tests; where their sources leave a rule open we chose: a maximum
//! is the highest *sample mean* (15 s, or a twentieth of a shorter window), one sample above it fails; the mean
//! is weighted by operation; page fault stalls are waits for a free buffer, at most one per second on average
//! (2003: none); no tolerance below the target unless the solution file asks for it.

use results::figures::number;
use results::judge::LatencyRule;
use results::{Comparison, Counter, Limit, Origin, Outcome, Verdict};
use solution::{Generation, LoadSpec};
use world::{Duration, LAPSE_MIN};

use crate::rule::{Rule, unproved_if_failed};
use crate::window::Window;

/// Largest mean number of page fault stalls per second that passes.
pub fn page_fault_stalls_per_s_max(generation: Generation) -> f64 {
    if generation == Generation::E2003 { 0.0 } else { 1.0 }
}

/// Judges the window of a load test. A window with gaps fails no rule: while the load generator did not run, answers
/// of the storage were not taken, so latencies and rates are not those of the storage.
pub fn judge_load(
    test: u32,
    host: &str,
    window: &Window,
    limits: &[Limit],
    load: &LoadSpec,
    generation: Generation,
) -> Vec<Verdict> {
    let mut verdicts = vec![achieved(test, host, window, load), complete(test, host, window)];
    verdicts.push(judge_gaps(test, host, window.gaps));
    verdicts.extend(judge_latencies(test, window, limits));
    verdicts.push(judge_stalls(test, host, window, page_fault_stalls_per_s_max(generation)));
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

/// Judges page fault stalls. If the size of the cache alone breaks the limit, the rule is not proved, and its text
/// says what to change.
fn judge_stalls(test: u32, host: &str, window: &Window, stalls_per_s_max: f64) -> Verdict {
    let text = match stalls_per_s_max {
        0.0 => "page reads never wait for a free buffer",
        _ => "page reads wait for a free buffer at most once per second on average",
    };
    let rule =
        Rule { name: "page_fault_stalls", text: text.into(), comparison: Comparison::AtMost, unit: "1/s" };
    let measured = window.per_s(Counter::PageFaultStalls);
    let verdict = rule.judge(test, Origin::host(host), Some(measured), stalls_per_s_max);
    let stalls = |counter| window.fold.counter(counter);
    let of_storage = stalls(Counter::PageFaultStalls).saturating_sub(stalls(Counter::SmallCacheStalls));
    let of_storage = of_storage as f64 / window.length.as_secs_f64();
    if verdict.outcome == Outcome::Fail && of_storage <= stalls_per_s_max {
        let text = format!(
            "{text}: the cache is too small for this load, so storage of any speed would make them wait; \
             raise cache_max_mib or flush_stop_percent in [engine], or pace the load"
        );
        return unproved_if_failed(Verdict { text, ..verdict });
    }
    verdict
}

/// Judges the latencies of each database, then of each log.
pub fn judge_latencies(test: u32, window: &Window, limits: &[Limit]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (origins, are_databases) in [(&window.databases, true), (&window.logs, false)] {
        for origin in origins {
            for limit in limits {
                let Some(rule) = LatencyRule::from_name(&limit.rule) else { continue };
                if rule.is_of_databases() == are_databases {
                    let measured_ms = rule.figure_ms(&window.fold.of(origin, rule.class()));
                    verdicts.push(latency(test, origin, rule, limit, measured_ms));
                }
            }
        }
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
    let mean = window.day.map_or(1.0, |day| day.mean_between(0.0, window.planned.as_secs_f64()));
    let followed = match window.day {
        None => String::new(),
        Some(_) => format!(" in the peak hour, {} in the mean of the day", number(target * mean, 2)),
    };
    let rule = Rule {
        name: "achieved_iops",
        text: format!(
            "achieved transactional I/O per second reach the target of {target}{followed}{tolerance}"
        ),
        comparison: Comparison::AtLeast,
        unit: "1/s",
    };
    rule.judge(test, Origin::host(host), Some(measured), target * mean * (1.0 - load.tolerance))
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

fn latency(
    test: u32,
    origin: &Origin,
    rule: LatencyRule,
    limit: &Limit,
    measured_ms: Option<f64>,
) -> Verdict {
    let what = match rule {
        LatencyRule::ReadAvg => "mean latency of transactional page reads",
        LatencyRule::ReadMax => "highest sample mean of the latency of transactional page reads",
        LatencyRule::LogWriteAvg => "mean latency of durable log writes",
        LatencyRule::LogWriteMax => "highest sample mean of the latency of durable log writes",
    };
    let rule = Rule {
        name: rule.name(),
        text: format!("{what} stays at or below {} ms", limit.value),
        comparison: Comparison::AtMost,
        unit: "ms",
    };
    rule.judge(test, origin.clone(), measured_ms, limit.value)
}

/// Judges gaps in the measured windows of a test.
pub fn judge_gaps(test: u32, host: &str, gaps: Duration) -> Verdict {
    let rule = Rule {
        name: "window_without_gaps",
        text: format!(
            "the load generator runs throughout: no sample comes more than {} s late",
            LAPSE_MIN.as_secs()
        ),
        comparison: Comparison::AtMost,
        unit: "s",
    };
    rule.require(test, Origin::host(host), gaps.as_secs_f64(), 0.0)
}

/// Verdict on a clock that jumped by this much and so ended the run.
pub fn clock_jumped(host: &str, jumped: Duration) -> Verdict {
    let rule = Rule {
        name: "clock_never_jumped",
        text: "the clock that times the run never jumps, so that its times can be trusted".into(),
        comparison: Comparison::AtMost,
        unit: "s",
    };
    let verdict = rule.require(0, Origin::host(host), jumped.as_secs_f64(), 0.0);
    Verdict { test: None, ..verdict }
}

/// Judges that something never happened: `rule_name`, description, number of times.
pub fn judge_none(test: u32, origin: Origin, rule_name: &str, what: &str, seen: u64) -> Verdict {
    let rule = Rule { name: rule_name, text: format!("no {what}"), comparison: Comparison::AtMost, unit: "" };
    rule.judge(test, origin, Some(seen as f64), 0.0)
}

/// Coverage: how much of the existing bytes a test read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes that were read and verified.
    pub read: u64,
    /// Bytes that existed when the test began.
    pub there: u64,
}

impl Coverage {
    /// Adds the coverage of another part.
    pub fn add(&mut self, other: Coverage) {
        self.read += other.read;
        self.there += other.there;
    }

    /// Whether there were bytes, and all were read.
    pub fn is_whole(self) -> bool {
        self.there > 0 && self.read >= self.there
    }

    /// Read share in percent; `None` if there were no bytes.
    pub fn percent(self) -> Option<f64> {
        (self.there > 0).then(|| 100.0 * self.read as f64 / self.there as f64)
    }

    /// Judges whether everything was read: a missing part is not proved and says nothing against the storage.
    pub fn judge(self, test: u32, origin: Origin, rule_name: &str, text: &str) -> Verdict {
        let rule = Rule { name: rule_name, text: text.into(), comparison: Comparison::AtLeast, unit: "%" };
        let outcome = if self.is_whole() { Outcome::Pass } else { Outcome::Unproved };
        Verdict { outcome, ..rule.judge(test, origin, self.percent(), 100.0) }
    }

    /// Limits a verdict that nothing is bad: it passes only if everything was read.
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

/// Whether every judged rule holds.
pub fn all_pass(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| matches!(verdict.outcome, Outcome::Pass | Outcome::Info))
}

#[cfg(test)]
mod tests {
    use results::judge::WindowFold;
    use results::{CounterSample, Day, IoClass, IoTotals, Sample};
    use solution::{EngineGeneration, Generation, LoadMode, Mix};

    use super::*;

    fn load(target_iops: Option<f64>, tolerance: f64) -> LoadSpec {
        LoadSpec {
            mode: LoadMode::Closed { sessions: 1 },
            target_iops,
            hours_percent: None,
            iops_per_mailbox: None,
            tolerance,
            idle_factor: 1.0,
            mix: Mix::of(Generation::E2016),
            classes: None,
            engine: EngineGeneration::default(),
            copies: 1,
        }
    }

    /// Window of 10 s with one database (100 reads) and one log (10 writes) of the given latencies.
    fn window(read_ms: u64, log_ms: u64) -> Window {
        window_with(read_ms, log_ms, 0, 0)
    }

    /// The same window with `stalls` page fault stalls, `of_cache` of which the size of the cache caused.
    fn window_with(read_ms: u64, log_ms: u64, stalls: u64, of_cache: u64) -> Window {
        let (database, log) = (Origin::database("h", "I", "D"), Origin::instance("h", "I"));
        let mut fold = WindowFold::new(1_000);
        let totals = |count: u64, bytes, ms: u64| IoTotals {
            count,
            bytes: count * bytes,
            latency_ns_sum: count * ms * 1_000_000,
            latency_ns_max: ms * 1_000_000,
        };
        let row = |origin: &Origin, class, totals| Sample::new(1, origin.clone(), class, 0, 10_000, totals);
        fold.add(&row(&database, IoClass::TransactionalRead, totals(100, 32_768, read_ms)));
        fold.add(&row(&log, IoClass::LogWrite, totals(10, 4_096, log_ms)));
        for (counter, value) in [(Counter::PageFaultStalls, stalls), (Counter::SmallCacheStalls, of_cache)] {
            let origin = log.clone();
            fold.add_counter(&CounterSample {
                test: 1,
                origin,
                counter,
                t_ms: 0,
                interval_ms: 10_000,
                value,
            });
        }
        fold.finish();
        Window {
            length: Duration::from_secs(10),
            planned: Duration::from_secs(10),
            day: None,
            is_estimate: false,
            gaps: Duration::ZERO,
            databases: vec![database],
            logs: vec![log],
            fold,
            batches: vec![7, 8],
        }
    }

    /// Published limits: mean and worst sample of reads, then of log writes.
    fn limits() -> Vec<Limit> {
        let limit = |(rule, value): (LatencyRule, f64)| Limit {
            rule: rule.name().into(),
            value,
            unit: "ms".into(),
            published: None,
        };
        LatencyRule::ALL.into_iter().zip([20.0, 100.0, 10.0, 100.0]).map(limit).collect()
    }

    fn failed(window: &Window, load: &LoadSpec) -> Vec<String> {
        failed_in(Generation::E2016, window, load)
    }

    fn failed_in(generation: Generation, window: &Window, load: &LoadSpec) -> Vec<String> {
        let verdicts = judge_load(1, "h", window, &limits(), load, generation);
        verdicts.into_iter().filter(|v| v.outcome == Outcome::Fail).map(|v| v.rule).collect()
    }

    fn unproved(window: &Window) -> Vec<String> {
        let verdicts = judge_load(1, "h", window, &limits(), &load(None, 0.0), Generation::E2016);
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
        let stalls = window_with(1, 1, 11, 0);
        assert_eq!(failed(&stalls, &load(None, 0.0)), ["page_fault_stalls"]);
        let one_stall = window_with(1, 1, 1, 0);
        assert!(failed(&one_stall, &load(None, 0.0)).is_empty());
        assert_eq!(failed_in(Generation::E2003, &one_stall, &load(None, 0.0)), ["page_fault_stalls"]);
        // A day with one hour at the peak and 23 at a tenth asks for 33 % of 80 I/O per second: 11 are counted.
        let mut hours_percent = [10.0; 24];
        hours_percent[9] = 100.0;
        let of_day = |iops| {
            let day = Some(Day::of_window(hours_percent, 10.0));
            failed(&Window { day, ..window(20, 10) }, &load(Some(iops), 0.0))
        };
        assert_eq!((of_day(72.7), of_day(73.0)), (vec![], vec!["achieved_iops".to_owned()]));
        let uneven = Window { batches: vec![7, 9], ..window(1, 1) };
        assert_eq!(failed(&uneven, &load(None, 0.0)), ["batches_even"]);
        let cut = Window { planned: Duration::from_secs(11), ..window(1, 1) };
        assert_eq!(
            (failed(&cut, &load(None, 0.0)), unproved(&cut)),
            (vec![], vec!["window_complete".into()])
        );
    }

    #[test]
    fn stalls_of_a_small_cache_blame_the_cache_and_not_the_storage() {
        let stalls = |all, of_cache| window_with(1, 1, all, of_cache);
        assert_eq!(
            (failed(&stalls(30, 20), &load(None, 0.0)), unproved(&stalls(30, 20))),
            (vec![], vec!["page_fault_stalls".into()])
        );
        assert_eq!(
            failed(&stalls(30, 19), &load(None, 0.0)),
            ["page_fault_stalls"],
            "11 waits in 10 s are the storage's"
        );
        assert_eq!(
            unproved(&stalls(10, 10)),
            Vec::<String>::new(),
            "within the limit there is nothing to blame"
        );
        let verdict = judge_stalls(1, "h", &stalls(30, 30), 1.0);
        assert!(verdict.text.contains("raise cache_max_mib"), "{}", verdict.text);
    }

    #[test]
    fn window_that_ended_as_an_estimate_is_not_judged_as_complete() {
        let estimate = Window { planned: Duration::from_secs(86_400), is_estimate: true, ..window(1, 1) };
        let verdicts = judge_load(1, "h", &estimate, &limits(), &load(None, 0.0), Generation::E2016);
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
        idle.databases = vec![Origin::database("h", "I", "idle")];
        assert_eq!(failed(&idle, &load(None, 0.0)), ["read_latency_avg", "read_latency_max"]);
    }
}
