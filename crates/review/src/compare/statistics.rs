//! How sure a difference of two runs is, when what follows each other in time is alike.
//!
//! Each figure has one estimator: a ratio of sums (`results::batch_means`) or a quantile of all operations, over
//! subwindows of time.
//! * The interval of a percentile follows from the share of operations above it in each subwindow: the interval
//!   of that share, read off the distribution of all operations (*Woodruff*). It is never narrower than the
//!   buckets it is read from.
//! * The interval of a difference comes from the intervals of both runs (*MOVER*), on a scale of logarithms.
//!
//! It covers the noise inside each run. It does not cover what differs from run to run: only more runs do
//! (docs/compare.md has how often equal runs differ by more).
//!
//! Sources: Woodruff, J. Am. Stat. Assoc. 47 (1952), 635; Zou and Donner, Statistics in Medicine 27 (2008),
//! 1693 (MOVER).

use std::collections::BTreeMap;

use evidence::report::Distribution;
use results::batch_means::{Around, Confidence, Spread, confidence, ratio, subwindows};

/// Confidence by which regressions are judged among this many figures: in at most one of twenty comparisons of equal
/// runs any figure raises a false alarm (Bonferroni).
pub fn alarm(figures: usize) -> Confidence {
    confidence(1.0 - 2.0 * 0.05 / figures.max(1) as f64)
}

/// Value and uncertainty of the latency percentile that one in `one_in` operations exceeds.
pub fn percentile_spread(
    distributions: &[Distribution],
    seconds: f64,
    one_in: f64,
    confidence: &Confidence,
) -> Option<Spread> {
    let mut of_hosts: BTreeMap<&str, usize> = BTreeMap::new();
    distributions.iter().for_each(|slice| *of_hosts.entry(slice.host.as_str()).or_default() += 1);
    let count = subwindows(of_hosts.into_values().max()?)?;
    let whole = Whole::of(distributions);
    let (_, highest) = whole.bucket(1.0 / one_in)?;
    let mut sums = vec![(0.0, 0.0); count];
    for slice in distributions {
        let subwindow = (slice.middle_s / seconds * count as f64) as usize;
        let (above, all) = &mut sums[subwindow.min(count - 1)];
        for (_, high, operations) in &slice.buckets {
            *all += *operations as f64;
            *above += if *high > highest { *operations as f64 } else { 0.0 };
        }
    }
    let (_, half) = ratio(&sums, Around::Mean, confidence)?;
    let (low, _) = whole.bucket(1.0 / one_in + half)?;
    let (_, high) = whole.bucket(1.0 / one_in - half)?;
    (low > 0.0).then(|| Spread { below: (highest / low).ln(), above: (high / highest).ln() })
}

/// The latency distribution of a whole window, from which percentiles are taken.
struct Whole {
    /// Lowest and highest latency in ms of each bucket, and its number of operations; slowest first.
    buckets: Vec<(f64, f64, f64)>,
    operations: f64,
}

impl Whole {
    fn of(distributions: &[Distribution]) -> Whole {
        // Latencies are positive, so their bits are in their order.
        let mut sums: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
        for (low, high, count) in distributions.iter().flat_map(|slice| &slice.buckets) {
            sums.entry(high.to_bits()).or_insert((*low, *high, 0.0)).2 += *count as f64;
        }
        let buckets: Vec<_> = sums.into_values().rev().collect();
        let operations = buckets.iter().map(|(_, _, count)| count).sum();
        Whole { buckets, operations }
    }

    /// Lowest and highest latency in ms of the bucket in which the slowest `share` of the operations ends.
    fn bucket(&self, share: f64) -> Option<(f64, f64)> {
        let mut left = (share * self.operations).max(0.0);
        let found = self.buckets.iter().find(|(_, _, count)| {
            left -= count;
            left < 0.0
        });
        found.or(self.buckets.last()).map(|(low, high, _)| (*low, *high))
    }
}

/// Confidence interval in percent of the change from `base` to `other`.
pub fn interval_pct(base: (f64, Spread), other: (f64, Spread)) -> Option<(f64, f64)> {
    if base.0 <= 0.0 || other.0 <= 0.0 {
        return None;
    }
    let change = (other.0 / base.0).ln();
    let percent = |change: f64| 100.0 * change.exp_m1();
    let down = other.1.below.hypot(base.1.above);
    let up = other.1.above.hypot(base.1.below);
    Some((percent(change - down), percent(change + up)))
}

/// Confidence interval in percent of the change from one group of equal runs to another, from how far the runs of a
/// group are apart: Student's t of the logarithms, with the pooled variance of both groups. `None` for groups of one,
/// and for figures that are not positive.
pub fn group_interval_pct(base: &[f64], other: &[f64], confidence: &Confidence) -> Option<(f64, f64)> {
    if base.len() < 2 || other.len() < 2 || base.iter().chain(other).any(|value| *value <= 0.0) {
        return None;
    }
    let mean = |values: &[f64]| values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value.ln() - mean).powi(2)).sum::<f64>()
    };
    let freedom = base.len() + other.len() - 2;
    let variance = (squares(base) + squares(other)) / freedom as f64;
    let error = (variance * (1.0 / base.len() as f64 + 1.0 / other.len() as f64)).sqrt();
    // Quantiles begin at two degrees of freedom. Those of more than there are here are narrower by little.
    let t = confidence.get(freedom - 2).or(confidence.last())?;
    let (change, percent) = (mean(other) - mean(base), |change: f64| 100.0 * change.exp_m1());
    Some((percent(change - t * error), percent(change + t * error)))
}

#[cfg(test)]
mod tests {
    use results::batch_means::shown;

    use super::*;

    /// A test series: noise around a level in which each sample takes half of its neighbour's noise, as a load on a
    /// disk does.
    fn series(level: f64, seed: u64, samples: usize) -> Vec<(f64, f64)> {
        let mut state = seed;
        let mut noise = 0.0;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        (0..samples)
            .map(|_| {
                noise = 0.5 * noise + next();
                let count = 100.0 * (1.5 + next());
                ((level + noise) * count, count)
            })
            .collect()
    }

    fn mean(series: &[(f64, f64)]) -> (f64, Spread) {
        let sum = |part: fn(&(f64, f64)) -> f64| series.iter().map(part).sum::<f64>();
        (sum(|pair| pair.0) / sum(|pair| pair.1), Spread::of_ratio(series, &shown()).expect("long enough"))
    }

    /// The interval is honest: of 1,000 pairs from the same source at most 50 exclude zero, though samples are
    /// correlated and weigh differently. An interval over single samples excludes it three times as often.
    #[test]
    fn intervals_of_equal_sources_exclude_zero_at_most_once_in_twenty() {
        let wrong = (0..1_000u64)
            .filter(|n| {
                let (a, b) = (series(10.0, 2 * n + 1, 480), series(10.0, 1_000_003 + 7 * n, 480));
                let (low, high) = interval_pct(mean(&a), mean(&b)).unwrap();
                low > 0.0 || high < 0.0
            })
            .count();
        assert!((5..=50).contains(&wrong), "{wrong} of 1000");
    }

    /// Many slow operations in a second with few of them must not weigh more than fast ones: operations weigh alike.
    #[test]
    fn interval_lies_around_the_difference_that_the_figures_have() {
        let burst = |slow: f64| -> Vec<(f64, f64)> {
            (0..40).map(|n| if n % 2 == 0 { (1_000.0 + slow, 1_000.0) } else { (300.0, 3.0) }).collect()
        };
        let (a, b) = (burst(0.0), burst(44.0));
        let change = 100.0 * (mean(&b).0 / mean(&a).0 - 1.0);
        let (low, high) = interval_pct(mean(&a), mean(&b)).unwrap();
        assert!(low <= change && change <= high && high - low < 10.0, "{change} [{low}, {high}]");
    }

    /// A test series of a full scan: outer tracks first, so that the rate falls by half, and each second is off by a
    /// percent or two.
    fn scan(rate: f64, seed: u64) -> Vec<(f64, f64)> {
        let falling = |(n, (noise, _)): (usize, (f64, f64))| {
            (rate * (-0.7 * n as f64 / 120.0).exp() * (1.0 + 0.02 * noise), 1.0)
        };
        let noise = series(0.0, seed, 120).into_iter().map(|(sum, count)| (sum / count, count));
        noise.enumerate().map(falling).collect()
    }

    #[test]
    fn rate_that_falls_smoothly_in_both_runs_hides_no_difference() {
        type Estimator = fn(&[(f64, f64)], &Confidence) -> Option<Spread>;
        let with = |rate, seed, of: Estimator| {
            let samples = scan(rate, seed);
            (samples.iter().map(|pair| pair.0).sum::<f64>(), of(&samples, &shown()).expect("long enough"))
        };
        let of = |of| interval_pct(with(100.0, 1, of), with(97.0, 2, of)).unwrap();
        let ((low, high), (low_without, high_without)) = (of(Spread::of_scan), of(Spread::of_ratio));
        assert!(low > -5.0 && high < -1.0, "{low} {high}");
        assert!(low_without < -10.0 && high_without > 10.0, "{low_without} {high_without}");
        let wrong = (0..1_000u64).filter(|n| {
            let (a, b) =
                (with(100.0, 2 * n + 1, Spread::of_scan), with(100.0, 1_000_003 + 7 * n, Spread::of_scan));
            let (low, high) = interval_pct(a, b).unwrap();
            low > 0.0 || high < 0.0
        });
        let wrong = wrong.count();
        assert!((5..=50).contains(&wrong), "{wrong} of 1000");
    }

    /// Runs of a group differ by 10 %, apart from the noise inside each.
    #[test]
    fn groups_of_equal_runs_exclude_zero_at_most_once_in_twenty_and_find_a_real_difference() {
        let ratio = |samples: &[(f64, f64)]| {
            samples.iter().map(|pair| pair.0).sum::<f64>() / samples.iter().map(|pair| pair.1).sum::<f64>()
        };
        // Every run has noise of its own: neighbours in one series are alike.
        let group = |level: f64, seed: u64, runs: u64| -> Vec<f64> {
            let noise = |run: u64| ratio(&series(0.0, seed + 104_729 * run, 30));
            (0..runs).map(|run| level * noise(run).exp()).collect()
        };
        for runs in [2, 3, 5] {
            let wrong = (0..1_000u64).filter(|n| {
                let (a, b) = (group(10.0, 2 * n + 1, runs), group(10.0, 1_000_003 + 7 * n, runs));
                let (low, high) = group_interval_pct(&a, &b, &shown()).unwrap();
                low > 0.0 || high < 0.0
            });
            let wrong = wrong.count();
            assert!((20..=80).contains(&wrong), "{runs} runs: {wrong} of 1000");
        }
        let (low, high) = group_interval_pct(&[10.0, 10.1, 9.9], &[12.0, 12.1, 11.9], &shown()).unwrap();
        assert!(low > 15.0 && high < 25.0, "{low} {high}");
        assert_eq!(group_interval_pct(&[10.0], &[12.0, 11.0], &shown()), None, "one run has no spread");
    }

    #[test]
    fn real_difference_is_found_and_a_short_series_says_nothing() {
        let (a, b) = (series(10.0, 1, 480), series(11.0, 2, 480));
        let (low, high) = interval_pct(mean(&a), mean(&b)).unwrap();
        assert!(low > 5.0 && high < 15.0, "{low} {high}");
        assert_eq!(Spread::of_ratio(&a[..19], &shown()), None);
        let flat = mean(&[(5.0, 1.0); 40]);
        assert_eq!(interval_pct(flat, flat), Some((0.0, 0.0)));
        assert_eq!(interval_pct((0.0, flat.1), flat), None);
    }
}
