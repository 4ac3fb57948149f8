//! How sure a difference of two runs is, when what follows each other in time is alike.
//!
//! Each figure has one estimator: a ratio of sums (I/O per second, mean latency) or a quantile of all operations. Both are
//! cut into five to ten stretches of time, which are nearly independent (*batch means*).
//! * The interval of a ratio follows from how far each stretch is from the ratio of the whole.
//! * What reads files from end to end changes its rate smoothly, as from the outer to the inner tracks of a disk, in each run
//!   alike. So a parabola over the stretches counts as no noise, and costs two degrees of freedom.
//! * The interval of a percentile follows from the share of operations above it in each stretch: the interval of that
//!   share, read off the distribution of all operations (*Woodruff*). It is never narrower than the buckets it is read from.
//! * The interval of a difference comes from the intervals of both runs (*MOVER*), on a scale of logarithms.
//!
//! It covers the noise inside each run. It does not cover what differs from run to run: only more runs do
//! (docs/compare.md has how often equal runs differ by more).
//!
//! Sources: Law, Simulation Modeling and Analysis (batch means); Cochran, Sampling Techniques, 6.3 (ratio of sums);
//! Woodruff, J. Am. Stat. Assoc. 47 (1952), 635; Zou and Donner, Statistics in Medicine 27 (2008), 1693 (MOVER).

use std::collections::BTreeMap;

use evidence::report::Distribution;

/// Fewest samples that give an interval.
const FEWEST_SAMPLES: usize = 20;
/// Fewest stretches, of at least four samples.
const FEWEST: usize = 5;
/// Most stretches: more would be alike again.
const MOST: usize = 10;
/// Samples of a stretch where there are enough.
const SAMPLES: usize = 8;

/// Fewest degrees of freedom: of the fewest stretches around a parabola.
const FREEDOM: usize = FEWEST - 3;

/// Two-sided quantiles of Student's t for 2 to 9 degrees of freedom.
pub type Confidence = [f64; MOST - FREEDOM];

/// 95 %: what is shown.
pub fn shown() -> Confidence {
    confidence(0.95)
}

/// What an alarm needs where so many figures are judged. Of equal runs each of them is worse by so much in one comparison
/// of `20 x figures`, so at most one comparison in twenty raises a false alarm (Bonferroni).
pub fn alarm(figures: usize) -> Confidence {
    confidence(1.0 - 2.0 * 0.05 / figures.max(1) as f64)
}

/// An interval that holds the truth in this share of cases.
fn confidence(share: f64) -> Confidence {
    std::array::from_fn(|n| quantile(share, FREEDOM + n))
}

/// How far from zero this share of Student's t lies, on both sides together.
fn quantile(share: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    // As many halvings as a fraction has bits.
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < share { low = middle } else { high = middle }
    }
    high
}

/// Share of Student's t that lies within `t` of zero, for 2 degrees of freedom or more (Abramowitz and Stegun, 26.7.3 and
/// 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let (sine, cosine) = (t / (freedom as f64).sqrt()).atan().sin_cos();
    let is_odd = freedom % 2 == 1;
    // Factors of odd by even numbers for even degrees, of even by odd ones for odd degrees.
    let mut term = if is_odd { cosine } else { 1.0 };
    let (mut sum, mut n) = (term, if is_odd { 3 } else { 2 });
    while n + 1 < freedom {
        term *= cosine.powi(2) * (n - 1) as f64 / n as f64;
        (sum, n) = (sum + term, n + 2);
    }
    match is_odd {
        true => 2.0 / std::f64::consts::PI * (sine.atan2(cosine) + sine * sum),
        false => sine * sum,
    }
}

/// How far the ends of a figure's interval lie from it, as logarithms of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    below: f64,
    above: f64,
}

/// Stretches for so many samples: long ones, or neighbours stay alike.
fn stretches(samples: usize) -> Option<usize> {
    (samples >= FEWEST_SAMPLES).then(|| (samples / SAMPLES).clamp(FEWEST, MOST))
}

/// What the stretches are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// The ratio of the whole.
    Mean,
    /// A parabola over the stretches.
    Curve,
}

/// Takes out of equally spaced values what a straight line and a parabola explain of them; the mean stays.
fn without_curve(values: &mut [f64]) {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let square = (count * count - 1.0) / 12.0;
    let shapes: [&dyn Fn(f64) -> f64; 2] = [&|place| place, &|place| place * place - square];
    for shape in shapes {
        let at = |n: usize| shape(n as f64 - middle);
        let along: f64 = values.iter().enumerate().map(|(n, value)| at(n) * value).sum();
        let size: f64 = (0..values.len()).map(|n| at(n).powi(2)).sum();
        values.iter_mut().enumerate().for_each(|(n, value)| *value -= at(n) * along / size);
    }
}

/// The ratio of the sums of pairs, and half of its interval; `None` if nothing was divided by.
fn ratio(stretches: &[(f64, f64)], around: Around, confidence: &Confidence) -> Option<(f64, f64)> {
    let sum = |part: fn(&(f64, f64)) -> f64| stretches.iter().map(part).sum::<f64>();
    let (above, below) = (sum(|pair| pair.0), sum(|pair| pair.1));
    let ratio = (below > 0.0).then(|| above / below)?;
    let count = stretches.len() as f64;
    let mut residuals: Vec<f64> = stretches.iter().map(|(y, x)| y - ratio * x).collect();
    let explained = match around {
        Around::Mean => 1,
        Around::Curve => {
            without_curve(&mut residuals);
            3
        }
    };
    let freedom = stretches.len() - explained;
    let squares: f64 = residuals.iter().map(|residual| residual.powi(2)).sum();
    let deviation = (squares * count / freedom as f64).sqrt() / below;
    Some((ratio, confidence[freedom - FREEDOM] * deviation))
}

impl Spread {
    /// Of a ratio of sums, from what each sample adds to both; `None` if there are too few samples to tell.
    pub fn of_ratio(samples: &[(f64, f64)], confidence: &Confidence) -> Option<Spread> {
        Spread::of_sums(samples, Around::Mean, confidence)
    }

    /// The same where the ratio may rise or fall smoothly.
    pub fn of_scan(samples: &[(f64, f64)], confidence: &Confidence) -> Option<Spread> {
        Spread::of_sums(samples, Around::Curve, confidence)
    }

    fn of_sums(samples: &[(f64, f64)], around: Around, confidence: &Confidence) -> Option<Spread> {
        let count = stretches(samples.len())?;
        let mut sums = vec![(0.0, 0.0); count];
        for (n, (above, below)) in samples.iter().enumerate() {
            let sum = &mut sums[n * count / samples.len()];
            *sum = (sum.0 + above, sum.1 + below);
        }
        let (value, half) = ratio(&sums, around, confidence)?;
        (value > 0.0).then_some(Spread { below: half / value, above: half / value })
    }

    /// Of the percentile that one in `one_in` operations exceeds.
    pub fn of_percentile(
        distributions: &[Distribution],
        seconds: f64,
        one_in: f64,
        confidence: &Confidence,
    ) -> Option<Spread> {
        let mut of_hosts: BTreeMap<&str, usize> = BTreeMap::new();
        distributions.iter().for_each(|slice| *of_hosts.entry(slice.host.as_str()).or_default() += 1);
        let count = stretches(of_hosts.into_values().max()?)?;
        let whole = Whole::of(distributions);
        let (_, highest) = whole.bucket(1.0 / one_in)?;
        let mut sums = vec![(0.0, 0.0); count];
        for slice in distributions {
            let stretch = (slice.middle_s / seconds * count as f64) as usize;
            let (above, all) = &mut sums[stretch.min(count - 1)];
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
}

/// All operations of a window by latency.
struct Whole {
    /// Lowest and highest latency of each bucket, and its count; slowest first.
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

    /// Lowest and highest latency of the bucket that this share of the operations reaches or exceeds.
    fn bucket(&self, share: f64) -> Option<(f64, f64)> {
        let mut left = (share * self.operations).max(0.0);
        let found = self.buckets.iter().find(|(_, _, count)| {
            left -= count;
            left < 0.0
        });
        found.or(self.buckets.last()).map(|(low, high, _)| (*low, *high))
    }
}

/// The interval in percent of a change from `base` to `other`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise around a level, each sample half its neighbour's: what a load on a disk looks like.
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

    /// The interval is honest: of 1,000 pairs from the same source at most 50 exclude zero, though samples are correlated
    /// and weigh differently. An interval over single samples excludes it three times as often.
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

    /// Many slow operations in a second that does little, few in one that does much: operations weigh alike.
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

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let rounded = |confidence: Confidence| confidence.map(|t| (t * 1e3_f64).round() / 1e3);
        assert_eq!(rounded(shown()), [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]);
        assert_eq!(rounded(alarm(5)), [6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821]);
        assert_eq!(rounded(alarm(10)), [9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.25]);
    }

    /// Tracks become shorter: the rate falls by half, and each second is off by a percent or two.
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
