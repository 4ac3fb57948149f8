//! The numbers of a formula for which its deviations have the smallest sum of squares (Levenberg and Marquardt).

use crate::linear::{Cholesky, dot};

/// Step of the slopes.
const STEP: f64 = 1e-6;
/// Convergence limit: a round that reduces the sum of squares by a smaller share is the last one.
const ENOUGH: f64 = 1e-9;
/// Largest damping. Beyond it a step would have practically no length, so the search ends.
const DAMPED: f64 = 1e12;

/// Levenberg-Marquardt search from `start` for the minimum of the sum of squares of `deviations`, in at most `rounds`
/// rounds.
pub fn least_squares(start: &[f64], rounds: usize, deviations: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let mut at = start.to_vec();
    let mut off = deviations(&at);
    let mut damping = 1e-2;
    for _ in 0..rounds {
        let slopes: Vec<Vec<f64>> = (0..at.len())
            .map(|axis| {
                let mut beside = at.clone();
                beside[axis] += STEP;
                deviations(&beside).iter().zip(&off).map(|(beside, off)| (beside - off) / STEP).collect()
            })
            .collect();
        let down: Vec<f64> = slopes.iter().map(|slope| dot(slope, &off)).collect();
        let sum = dot(&off, &off);
        let better = loop {
            if damping > DAMPED {
                return at;
            }
            let normal = Cholesky::new(at.len(), |row, column| {
                let product = dot(&slopes[row], &slopes[column]);
                if row == column { product * (1.0 + damping) + f64::MIN_POSITIVE } else { product }
            });
            let next = normal.map(|normal| {
                let step = normal.solve(&down);
                let next: Vec<f64> = at.iter().zip(step).map(|(at, step)| at - step).collect();
                (deviations(&next), next)
            });
            match next {
                Some((left, next)) if dot(&left, &left) < sum => break (left, next),
                _ => damping *= 4.0,
            }
        };
        damping = (damping / 8.0).max(1e-9);
        let gained = sum - dot(&better.0, &better.0);
        (off, at) = better;
        if gained < ENOUGH * sum {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_lowest_point() {
        let valley = |at: &[f64]| vec![1.0 - at[0], 10.0 * (at[1] - at[0] * at[0])];
        let at = least_squares(&[-1.2, 1.0], 100, valley);
        assert!((at[0] - 1.0).abs() < 1e-4 && (at[1] - 1.0).abs() < 1e-4, "{at:?}");
    }
}
