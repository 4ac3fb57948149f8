//! Verdicts in the light of expected faults.
//!
//! A threshold that fails is judged again on the samples that no expected fault of the test touches. If it
//! holds there, the fault has broken it, as whoever scheduled it expected: then it is not judged, and its text
//! says what was measured with the fault and without.
//!
//! Limits: latencies and throughput of load tests. A bad page fails its checksum, expected or not.

use results::{IoClass, IoTotals, Measure, Outcome, Sample, Verdict};

use super::fault_log::FaultLog;

impl FaultLog {
    /// The verdict, which the campaign gave without knowing of faults, as it is with them.
    pub fn in_the_light(&self, verdict: Verdict) -> Verdict {
        let (Outcome::Fail, Some(test), Some(limit)) = (verdict.outcome, verdict.test, verdict.limit) else {
            return verdict;
        };
        let faults = self.times(test, &verdict.origin.host);
        let is_touched = |sample: &Sample| {
            let end_ms = sample.t_ms + sample.interval_ms;
            faults.iter().any(|(from_ms, to_ms)| sample.t_ms < *to_ms && end_ms > *from_ms)
        };
        let samples = self.samples_of(&verdict);
        let (with, without): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|sample| is_touched(sample));
        let (Some(with), Some(without)) = (measured(&verdict.rule, &with), measured(&verdict.rule, &without))
        else {
            return verdict;
        };
        if !verdict.comparison.holds(without, limit) {
            return verdict;
        }
        let text = format!(
            "{}: not judged, an expected fault broke it; {without:.2} {unit} without the fault, {with:.2} {unit} with it",
            verdict.text,
            unit = verdict.unit
        );
        Verdict { text, outcome: Outcome::Info, ..verdict }
    }

    /// The samples of the measured window that a verdict was made of.
    fn samples_of(&self, verdict: &Verdict) -> Vec<Sample> {
        let classes = classes(&verdict.rule);
        let matches = |sample: &&Sample| {
            let of_class = matches!(sample.measure, Measure::Io(class) if classes.contains(&class));
            of_class && sample.origin == verdict.origin
        };
        self.window_samples(verdict.test).iter().filter(matches).cloned().collect()
    }
}

/// The I/O that a rule is about.
fn classes(rule: &str) -> &'static [IoClass] {
    match rule {
        "read_latency_avg" | "read_latency_max" => &[IoClass::TransactionalRead],
        "log_write_latency_avg" | "log_write_latency_max" => &[IoClass::LogWrite],
        "achieved_iops" => &[IoClass::TransactionalRead, IoClass::TransactionalWrite],
        _ => &[],
    }
}

/// What a rule measures, of some of the samples.
fn measured(rule: &str, samples: &[&Sample]) -> Option<f64> {
    let mut sum = IoTotals::default();
    samples.iter().for_each(|sample| sum.add(sample.totals));
    if rule == "achieved_iops" {
        let mut intervals: Vec<(u64, u64)> =
            samples.iter().map(|sample| (sample.t_ms, sample.interval_ms)).collect();
        intervals.dedup();
        let ms: u64 = intervals.iter().map(|(_, interval_ms)| interval_ms).sum();
        return (ms > 0).then(|| sum.count as f64 * 1e3 / ms as f64);
    }
    if rule.ends_with("_max") {
        return samples.iter().filter_map(|sample| sample.totals.latency_ms()).reduce(f64::max);
    }
    sum.latency_ms()
}
