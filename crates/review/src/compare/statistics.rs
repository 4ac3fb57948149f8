//! How sure a difference of two means is, when samples follow each other in time.
//!
//! Neighbouring samples are alike, so the usual interval over single samples would be too narrow. The series is cut into
//! ten to twenty stretches; their means are nearly independent (*batch means*), and the interval of the difference is
//! Welch's t over them. It covers the noise inside each run. It does not cover what differs from run to run: only more
//! runs do.
//!
//! Source: Law, Simulation Modeling and Analysis (batch means); Welch, Biometrika 34 (1947).

/// Fewest stretches that give an interval.
const FEWEST: usize = 10;
/// Most stretches: more would be alike again.
const MOST: usize = 20;

/// Mean of a series, and what its stretches say about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean of the stretches.
    pub mean: f64,
    /// Variance of the mean.
    variance_of_mean: f64,
    /// Stretches.
    batches: usize,
}

impl Spread {
    /// Batch means of a series; `None` if it is too short to tell.
    pub fn of(series: &[f64]) -> Option<Spread> {
        // At least two samples in a stretch, or neighbours stay alike.
        let batches = (series.len() / 2).min(MOST);
        if batches < FEWEST {
            return None;
        }
        let size = series.len() / batches;
        let means: Vec<f64> = (0..batches)
            .map(|n| series[n * size..(n + 1) * size].iter().sum::<f64>() / size as f64)
            .collect();
        let mean = means.iter().sum::<f64>() / batches as f64;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (batches - 1) as f64;
        Some(Spread { mean, variance_of_mean: variance / batches as f64, batches })
    }
}

/// The 95 % interval of `other` less `base`.
pub fn difference(base: &Spread, other: &Spread) -> (f64, f64) {
    let (a, b) = (base.variance_of_mean, other.variance_of_mean);
    let difference = other.mean - base.mean;
    if a + b == 0.0 {
        return (difference, difference);
    }
    let freedom = (a + b).powi(2) / (a * a / (base.batches - 1) as f64 + b * b / (other.batches - 1) as f64);
    let half = student_t(freedom) * (a + b).sqrt();
    (difference - half, difference + half)
}

/// Two-sided 95 % quantile of Student's t, for the next lower tabled number of degrees of freedom: never too narrow.
fn student_t(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 12] = [
        (9.0, 2.262),
        (10.0, 2.228),
        (12.0, 2.179),
        (14.0, 2.145),
        (16.0, 2.120),
        (18.0, 2.101),
        (20.0, 2.086),
        (24.0, 2.064),
        (28.0, 2.048),
        (32.0, 2.037),
        (36.0, 2.028),
        (38.0, 2.024),
    ];
    TABLE.iter().rev().find(|(tabled, _)| *tabled <= freedom + 1e-9).map_or(2.262, |(_, t)| *t)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise around a level, each sample half its neighbour's: what a load on a disk looks like.
    fn series(level: f64, seed: u64, samples: usize) -> Vec<f64> {
        let mut state = seed;
        let mut noise = 0.0;
        (0..samples)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                noise = 0.5 * noise + (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5;
                level + noise
            })
            .collect()
    }

    /// The interval is honest: of 1,000 pairs from the same source about 50 exclude zero, though samples are correlated.
    /// An interval over single samples excludes it three times as often.
    #[test]
    fn equal_sources_are_called_different_about_once_in_twenty() {
        let spread = |seed: u64| Spread::of(&series(10.0, seed, 480)).expect("long enough");
        let wrong = (0..1_000u64)
            .filter(|n| {
                let (low, high) = difference(&spread(2 * n + 1), &spread(1_000_003 + 7 * n));
                low > 0.0 || high < 0.0
            })
            .count();
        assert!((20..=90).contains(&wrong), "{wrong} of 1000");
    }

    #[test]
    fn a_real_difference_is_found_and_a_short_series_says_nothing() {
        let (a, b) = (series(10.0, 1, 480), series(11.0, 2, 480));
        let (low, high) = difference(&Spread::of(&a).unwrap(), &Spread::of(&b).unwrap());
        assert!(low > 0.5 && high < 1.5, "{low} {high}");
        assert_eq!(Spread::of(&a[..19]), None);
        let flat = Spread::of(&[5.0; 40]).unwrap();
        assert_eq!(difference(&flat, &flat), (0.0, 0.0));
    }
}
