//! What a window shows of its figures before its time is over, and how sure that is.
//!
//! Each figure that a load test is judged by is a ratio of sums over samples, with an interval by batch means
//! ([`results::batch_means`]). An estimate is good when every interval is inside the wanted share of its figure.
//!
//! Limits: an interval covers the noise of the window so far. It knows nothing of what happens later: growth, a
//! fault, or the worst sample of the rest. Looks at intervals that grow by a tenth each time keep the error of
//! stopping at a lucky one small.

use results::batch_means::{Spread, shown};
use results::{ClassTotals, IoClass};
use world::Time;

/// Figure of an estimate: name, unit, and the factor from the ratio of its sums to the unit.
const FIGURES: [(&str, &str, f64); 3] =
    [("transactional I/O", "1/s", 1.0), ("reads", "ms", 1e-6), ("log writes", "ms", 1e-6)];
/// Share of the samples after which the estimate is computed again.
const LOOK_SHARE: f64 = 0.1;

/// Pair of sums of each figure.
type Sums = [(f64, f64); FIGURES.len()];

/// Estimate of the figures of an open window.
pub struct Estimate {
    share: f64,
    opened: Time,
    sampled: Time,
    sums: Sums,
    samples: [Vec<(f64, f64)>; FIGURES.len()],
    next_look: usize,
    is_good: bool,
}

impl Estimate {
    /// Starts the estimate of a window that opens at `opened`. It is good when every figure is known to within
    /// `percent` percent.
    pub fn new(percent: f64, opened: Time) -> Estimate {
        Estimate {
            share: percent / 100.0,
            opened,
            sampled: opened,
            sums: Sums::default(),
            samples: Default::default(),
            next_look: 0,
            is_good: false,
        }
    }

    /// Adds what the window has counted by `now`; a sample ends every `sample_ms`. Waiting operations count with the
    /// time that they have waited so far.
    pub fn add(&mut self, seen: &ClassTotals, waiting: &ClassTotals, now: Time, sample_ms: u64) {
        if (now.since(self.sampled).as_millis() as u64) < sample_ms {
            return;
        }
        self.sampled = now;
        let sums = sums(seen, waiting, now.since(self.opened).as_secs_f64());
        for ((samples, sum), before) in self.samples.iter_mut().zip(sums).zip(self.sums) {
            samples.push((sum.0 - before.0, sum.1 - before.1));
        }
        self.sums = sums;
        let count = self.samples[0].len();
        if count >= self.next_look {
            self.next_look = count + (count as f64 * LOOK_SHARE).ceil() as usize;
            self.is_good = self.look();
        }
    }

    fn look(&self) -> bool {
        self.figures().all(|(_, half)| half.is_some_and(|half| half <= self.share))
    }

    /// Whether every figure was known well enough when the estimate was last computed.
    pub fn is_good(&self) -> bool {
        self.is_good
    }

    /// Whether every figure is still known well enough with all samples. If not, the estimate is not good until it is
    /// next computed.
    pub fn is_still_good(&mut self) -> bool {
        self.is_good = self.is_good && self.look();
        self.is_good
    }

    /// Text of each figure with its 95 % interval.
    pub fn told(&self) -> String {
        let told = self.figures().zip(FIGURES).map(|((value, half), (name, unit, worth))| {
            let half = half.map_or("unknown".to_owned(), |half| format!("{:.2}", half * 100.0));
            format!("{name} {:.2} {unit} ± {half} %", value * worth)
        });
        told.collect::<Vec<_>>().join(", ") + " (95 % confidence)"
    }

    /// Ratio of each figure, and half of its interval as a share of it.
    fn figures(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        let confidence = shown();
        self.samples.iter().zip(self.sums).map(move |(samples, (above, below))| {
            let spread = Spread::of_ratio(samples, &confidence);
            (above / below, spread.map(|spread| spread.above.max(spread.below)))
        })
    }
}

fn sums(seen: &ClassTotals, waiting: &ClassTotals, seconds: f64) -> Sums {
    let completed = [IoClass::TransactionalRead, IoClass::TransactionalWrite];
    let completed: u64 = completed.iter().map(|class| seen.class(*class).count).sum();
    let latency = |class| {
        let mut all = seen.class(class);
        all.add(waiting.class(class));
        (all.latency_ns_sum as f64, all.count as f64)
    };
    [(completed as f64, seconds), latency(IoClass::TransactionalRead), latency(IoClass::LogWrite)]
}

#[cfg(test)]
mod tests {
    use world::Duration;

    use results::IoTotals;

    use super::*;

    /// Feeds minutes of 60 reads, 20 writes and 20 log writes. `read_ms`: latency of the reads in each minute.
    fn fed(percent: f64, minutes: u64, read_ms: impl Fn(u64) -> u64) -> Estimate {
        let mut estimate = Estimate::new(percent, Time::default());
        let mut seen = ClassTotals::default();
        for minute in 0..minutes {
            (0..60).for_each(|_| {
                seen.add(IoClass::TransactionalRead, IoTotals::one(32_768, read_ms(minute) * 1_000_000))
            });
            (0..20).for_each(|_| seen.add(IoClass::TransactionalWrite, IoTotals::one(32_768, 5_000_000)));
            (0..20).for_each(|_| seen.add(IoClass::LogWrite, IoTotals::one(4_096, 2_000_000)));
            estimate.add(
                &seen,
                &ClassTotals::default(),
                Time::default() + Duration::from_secs(60 * (minute + 1)),
                60_000,
            );
        }
        estimate
    }

    #[test]
    fn estimate_is_good_once_the_noise_of_every_figure_is_small() {
        assert!(!fed(1.0, 19, |_| 10).is_good(), "too few samples for an interval");
        assert!(fed(1.0, 25, |_| 10).is_good());
        assert!(!fed(1.0, 25, |minute| 10 + minute % 7).is_good(), "reads are noisy");
        assert!(fed(30.0, 25, |minute| 10 + minute % 7).is_good(), "but known to 30 %");
        assert!(!fed(1.0, 200, |minute| 10 + minute / 10).is_good(), "reads become slower and slower");
    }

    #[test]
    fn estimate_that_became_worse_since_the_last_look_ends_no_window() {
        let mut steady = fed(1.0, 27, |_| 10);
        assert!(steady.is_good() && steady.is_still_good());
        // The last look was after 24 minutes, the next one is after 27.
        let mut worse = fed(1.0, 26, |minute| if minute < 24 { 10 } else { 30 });
        assert!(worse.is_good(), "at the last look");
        assert!(!worse.is_still_good());
        assert!(!worse.is_good(), "until the next look");
    }

    #[test]
    fn estimate_tells_its_figures_and_their_intervals() {
        let told = fed(1.0, 40, |_| 10).told();
        let expected =
            "transactional I/O 1.33 1/s ± 0.00 %, reads 10.00 ms ± 0.00 %, log writes 2.00 ms ± 0.00 %";
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn class_that_does_nothing_makes_no_estimate_good() {
        let mut estimate = Estimate::new(50.0, Time::default());
        let mut seen = ClassTotals::default();
        for minute in 1..=100 {
            seen.add(IoClass::TransactionalRead, IoTotals::one(32_768, 1_000_000));
            estimate.add(
                &seen,
                &ClassTotals::default(),
                Time::default() + Duration::from_secs(60 * minute),
                60_000,
            );
        }
        assert!(!estimate.is_good());
    }
}
