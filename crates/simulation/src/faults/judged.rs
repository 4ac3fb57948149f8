//! Verdicts in the light of expected faults.
//!
//! A threshold that fails is judged again on the samples that no expected fault of the test touches. If it
//! holds there, the scheduled fault has broken it: then it is not judged, and its text
//! says what was measured with the fault and without.
//!
//! Limits: latencies and throughput of load tests. A bad page fails its checksum, expected or not.

use results::judge::{LatencyRule, WindowFold};
use results::{IoClass, Measure, Outcome, Sample, Verdict};

use super::fault_log::FaultLog;

impl FaultLog {
    /// Adjusts a verdict for the expected faults, of which the campaign did not know.
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
        let asked_ms = self.asked_ms(test);
        let measured = |samples: &[&Sample]| measured(&verdict, samples, &asked_ms);
        let (Some(with), Some(without)) = (measured(&with), measured(&without)) else {
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

    /// Samples of the measured window on which a verdict is based.
    fn samples_of(&self, verdict: &Verdict) -> Vec<Sample> {
        let classes = classes(&verdict.rule);
        let matches = |sample: &&Sample| {
            let of_class = match sample.measure {
                Measure::Io(class) => classes.contains(&class),
                Measure::Waiting(class) => verdict.rule != "achieved_iops" && classes.contains(&class),
                _ => false,
            };
            of_class && sample.origin == verdict.origin
        };
        self.window_samples(verdict.test).iter().filter(matches).cloned().collect()
    }
}

/// I/O classes that a rule judges.
fn classes(rule: &str) -> Vec<IoClass> {
    match (rule, LatencyRule::from_name(rule).map(LatencyRule::class)) {
        (_, Some(class)) => vec![class],
        ("achieved_iops", None) => vec![IoClass::TransactionalRead, IoClass::TransactionalWrite],
        _ => Vec::new(),
    }
}

/// Figure that a rule measures, from some of the samples. `asked_ms`: time at the mean load of the window that asks for
/// as much as an interval does, by its start and length.
fn measured(verdict: &Verdict, samples: &[&Sample], asked_ms: impl Fn(u64, u64) -> f64) -> Option<f64> {
    if let Some(rule) = LatencyRule::from_name(&verdict.rule) {
        let sample_ms = samples.iter().map(|sample| sample.interval_ms).max()?;
        let mut window = WindowFold::new(sample_ms);
        samples.iter().for_each(|sample| window.add(sample));
        window.finish();
        return rule.figure_ms(&window.of(&verdict.origin, rule.class()));
    }
    let mut intervals: Vec<(u64, u64)> = samples.iter().map(|row| (row.t_ms, row.interval_ms)).collect();
    intervals.dedup();
    let ms: f64 = intervals.iter().map(|(start_ms, interval_ms)| asked_ms(*start_ms, *interval_ms)).sum();
    let count: u64 = samples.iter().map(|row| row.totals.count).sum();
    (ms > 0.0).then(|| count as f64 * 1e3 / ms)
}
