//! How sure a mean over time is, when what follows each other in time is alike (*batch means*).
//!
//! A figure that is a ratio of sums (I/O per second, mean latency) is cut into five to ten subwindows,
//! which are nearly independent. Its interval follows from how far each subwindow is from the ratio of the whole.
//!
//! * What reads files from end to end changes its rate smoothly, as from the outer to the inner tracks of a
//!   disk, in each run alike. So a parabola over the subwindows counts as no noise, and costs two degrees of
//!   freedom.
//!
//! It covers the noise inside a run. It does not cover what differs from run to run: only more runs do.
//!
//! Sources: Law, Simulation Modeling and Analysis (batch means); Cochran, Sampling Techniques, 6.3 (ratio of sums).

/// Least number of samples from which an interval is computed.
const FEWEST_SAMPLES: usize = 20;
/// Least number of batches of samples, each of at least four samples.
const FEWEST: usize = 5;
/// Largest number of batches of samples; shorter ones would depend on their neighbours.
const MOST: usize = 10;
/// Number of samples in a batch, if there are enough samples.
const SAMPLES: usize = 8;

/// Least degrees of freedom: those of the least number of batches around a parabola.
const FREEDOM: usize = FEWEST - 3;

/// Two-sided quantiles of Student's t for 2 to 9 degrees of freedom.
pub type Confidence = [f64; MOST - FREEDOM];

/// Level of the intervals that reports show: 95 %.
pub fn shown() -> Confidence {
    confidence(0.95)
}

/// Level of an interval: share of cases in which it contains the true value.
pub fn confidence(share: f64) -> Confidence {
    std::array::from_fn(|n| quantile(share, FREEDOM + n))
}

/// Two-sided quantile of Student's t for a level.
fn quantile(share: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    // As many halvings as a fraction has bits.
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < share { low = middle } else { high = middle }
    }
    high
}

/// Share of Student's t that lies within `t` of zero, for 2 degrees of freedom or more (Abramowitz and Stegun,
/// 26.7.3 and 26.7.4).
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

/// Distances between a figure and the ends of its interval, as logarithms of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Distance to the lower end.
    pub below: f64,
    /// Distance to the upper end.
    pub above: f64,
}

/// Number of batches for a number of samples: few and long, so that neighbours are independent.
pub fn subwindows(samples: usize) -> Option<usize> {
    (samples >= FEWEST_SAMPLES).then(|| (samples / SAMPLES).clamp(FEWEST, MOST))
}

/// Expectation from which the deviation of a batch is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Around {
    /// Ratio of the whole window.
    Mean,
    /// Parabola fitted over the batches.
    Curve,
}

/// Removes line and parabola from equally spaced values and keeps their mean.
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

/// Ratio of the sums of pairs, and half of its interval; `None` if the divisor is zero.
pub fn ratio(subwindows: &[(f64, f64)], around: Around, confidence: &Confidence) -> Option<(f64, f64)> {
    let sum = |part: fn(&(f64, f64)) -> f64| subwindows.iter().map(part).sum::<f64>();
    let (above, below) = (sum(|pair| pair.0), sum(|pair| pair.1));
    let ratio = (below > 0.0).then(|| above / below)?;
    let count = subwindows.len() as f64;
    let mut residuals: Vec<f64> = subwindows.iter().map(|(y, x)| y - ratio * x).collect();
    let explained = match around {
        Around::Mean => 1,
        Around::Curve => {
            without_curve(&mut residuals);
            3
        }
    };
    let freedom = subwindows.len() - explained;
    let squares: f64 = residuals.iter().map(|residual| residual.powi(2)).sum();
    let deviation = (squares * count / freedom as f64).sqrt() / below;
    Some((ratio, confidence[freedom - FREEDOM] * deviation))
}

impl Spread {
    /// Interval of a ratio of sums, from what each sample adds to both sums; `None` with too few samples.
    pub fn of_ratio(samples: &[(f64, f64)], confidence: &Confidence) -> Option<Spread> {
        Spread::of_sums(samples, Around::Mean, confidence)
    }

    /// Interval of a ratio of sums that may rise or fall smoothly over the window, as in a scan of a disk.
    pub fn of_scan(samples: &[(f64, f64)], confidence: &Confidence) -> Option<Spread> {
        Spread::of_sums(samples, Around::Curve, confidence)
    }

    fn of_sums(samples: &[(f64, f64)], around: Around, confidence: &Confidence) -> Option<Spread> {
        let count = subwindows(samples.len())?;
        let mut sums = vec![(0.0, 0.0); count];
        for (n, (above, below)) in samples.iter().enumerate() {
            let sum = &mut sums[n * count / samples.len()];
            *sum = (sum.0 + above, sum.1 + below);
        }
        let (value, half) = ratio(&sums, around, confidence)?;
        (value > 0.0).then_some(Spread { below: half / value, above: half / value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let rounded = |confidence: Confidence| confidence.map(|t| (t * 1e3_f64).round() / 1e3);
        assert_eq!(rounded(shown()), [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]);
        assert_eq!(rounded(confidence(0.98)), [6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821]);
        assert_eq!(rounded(confidence(0.99)), [9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.25]);
    }
}
