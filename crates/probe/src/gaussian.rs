//! Regression by a Gaussian process: equal places have equal values, near places similar ones; how near is near on
//! each axis follows from the values themselves (largest marginal likelihood).

use crate::linear::{Cholesky, dot};
use crate::minimise::minimise;

/// Prior variance of constant and slope, as a multiple of the variance of the values: large, so that it hardly
/// matters.
const PRIOR: f64 = 9.0;
const ROUNDS: usize = 250;
/// Largest number of points from which the hyperparameters are fitted.
const SHAPED_BY: usize = 150;

/// Input of a Gaussian process, with each axis scaled to about the same range.
pub type Scaled = [f64; 3];

/// Hyperparameters of a Gaussian process, as logarithms: length scales and variances.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    /// Length scale of each axis: distance over which values change.
    lengths: [f64; 3],
    /// Variance of the part that depends on all axes together.
    joint: f64,
    /// Variance of the part that depends on one axis alone.
    apart: f64,
    /// Noise: variance between measurements of equal points.
    noise: f64,
}

impl Shape {
    fn of(numbers: &[f64]) -> Shape {
        Shape {
            lengths: [numbers[0], numbers[1], numbers[2]],
            joint: numbers[3],
            apart: numbers[4],
            noise: numbers[5],
        }
    }

    /// Covariance of the values at two points.
    fn covariance(&self, one: &Scaled, other: &Scaled) -> f64 {
        let away: [f64; 3] =
            std::array::from_fn(|axis| (one[axis] - other[axis]) * (-self.lengths[axis]).exp());
        let together = matern(dot(&away, &away).sqrt());
        let apart: f64 = away.iter().map(|away| matern(away.abs())).sum();
        PRIOR * (1.0 + dot(one, other)) + self.joint.exp() * together + self.apart.exp() * apart
    }

    fn noise(&self) -> f64 {
        self.noise.exp() + 1e-8
    }

    /// Penalty for hyperparameters that are unusual for a storage, on the scale of log-likelihoods.
    fn oddness(&self) -> f64 {
        let off = |value: f64, expected: f64, spread: f64| ((value - expected) / spread).powi(2) / 2.0;
        let lengths: f64 = self.lengths.iter().map(|length| off(*length, 0.3, 1.0)).sum();
        lengths + off(self.joint, -2.0, 2.0) + off(self.apart, -1.0, 2.0) + off(self.noise, -7.0, 2.0)
    }
}

/// Matérn 3/2 correlation at a distance. A smoother one claims too much certainty where caches end: intervals of nine
/// in ten held 85 % of four arrays' points, these hold 88 %.
fn matern(distance: f64) -> f64 {
    let away = 3.0_f64.sqrt() * distance;
    (1.0 + away) * (-away).exp()
}

/// Gaussian process that was fitted to points.
pub struct Process {
    shape: Shape,
    places: Vec<Scaled>,
    weights: Vec<f64>,
    covariance: Cholesky,
    mean: f64,
    scale: f64,
}

/// Predicted value and its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Expected value.
    pub mean: f64,
    /// Standard deviation of a measurement at that point.
    pub deviation: f64,
}

impl Process {
    /// Fits a Gaussian process to values at points, with given hyperparameters or the likeliest ones. `None` if the
    /// covariance matrix cannot be decomposed.
    pub fn fit(places: &[Scaled], values: &[f64], shaped: Option<&Process>) -> Option<Process> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let (mean, scale) =
            shaped.map_or((mean, variance.sqrt().max(1e-6)), |other| (other.mean, other.scale));
        let values: Vec<f64> = values.iter().map(|value| (value - mean) / scale).collect();
        let shape = match shaped {
            Some(other) => other.shape,
            None => likeliest(places, &values)?,
        };
        let covariance = decompose(places, &shape)?;
        let weights = covariance.solve(&values);
        Some(Process { shape, places: places.to_vec(), weights, covariance, mean, scale })
    }

    /// Predicts the value at a point.
    pub fn at(&self, place: &Scaled) -> Estimate {
        let near: Vec<f64> = self.places.iter().map(|known| self.shape.covariance(known, place)).collect();
        let half = self.covariance.half(&near);
        let variance = self.shape.covariance(place, place) - dot(&half, &half) + self.shape.noise();
        let deviation = self.scale * variance.max(self.shape.noise()).sqrt();
        Estimate { mean: self.mean + self.scale * dot(&near, &self.weights), deviation }
    }
}

/// Finds the hyperparameters with the highest likelihood, from a part of the points if there are many.
fn likeliest(places: &[Scaled], values: &[f64]) -> Option<Shape> {
    let step = places.len().div_ceil(SHAPED_BY);
    let places: Vec<Scaled> = places.iter().copied().step_by(step).collect();
    let values: Vec<f64> = values.iter().copied().step_by(step).collect();
    let unlikely = |numbers: &[f64]| {
        let shape = Shape::of(numbers);
        decompose(&places, &shape).map_or(f64::INFINITY, |covariance| {
            let half = covariance.half(&values);
            0.5 * dot(&half, &half) + 0.5 * covariance.ln_determinant() + shape.oddness()
        })
    };
    let starts = [[0.0, 0.0, 0.0, -2.0, -1.0, -7.0], [0.8, 0.8, 0.8, -1.0, -3.0, -5.0]];
    let found = starts.map(|start| minimise(&start, 0.7, ROUNDS, unlikely));
    let (numbers, height) = found.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    height.is_finite().then(|| Shape::of(&numbers))
}

fn decompose(places: &[Scaled], shape: &Shape) -> Option<Cholesky> {
    Cholesky::new(places.len(), |row, column| {
        let noise = if row == column { shape.noise() } else { 0.0 };
        shape.covariance(&places[row], &places[column]) + noise
    })
}
