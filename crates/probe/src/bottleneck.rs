//! The formula below the regression: a storage does what the narrowest of three lets it do, a bandwidth, a rate of
//! operations, and the latency of what is under way. Near the crossing of two it does somewhat less than either.

use crate::minimise::minimise;

/// Input of a prediction: logarithm of the block size, logarithm of the outstanding operations, read share.
pub type Place = [f64; 3];

/// Parameters of the bottleneck formula. Logarithms of bandwidth, IOPS ceiling and rate of a single outstanding
/// operation, each for reads and for writes, and how sharply the lowest of them decides.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    numbers: [f64; 7],
}

/// Most deviation in the logarithm that counts with its square; more counts less, so that no odd point bends the rest.
const ODD: f64 = 0.3;
const ROUNDS: usize = 1500;

impl Bottleneck {
    /// Fits the formula to measured logarithms of rates.
    pub fn fit(places: &[Place], ln_rates: &[f64]) -> Bottleneck {
        let most = |of: &dyn Fn(usize) -> f64| (0..places.len()).map(of).fold(f64::NEG_INFINITY, f64::max);
        let bandwidth = most(&|index| ln_rates[index] + places[index][0]);
        let ceiling = most(&|index| ln_rates[index]);
        let single = most(&|index| ln_rates[index] - places[index][1]);
        let start = [bandwidth, bandwidth, ceiling, ceiling, single, single, 1.0];
        let cost = |numbers: &[f64]| {
            let formula = Bottleneck { numbers: numbers.try_into().expect("seven of seven") };
            let off = places.iter().zip(ln_rates).map(|(place, rate)| formula.ln_rate(place) - rate);
            // Far from the start only if that makes it better.
            let drift: f64 = numbers.iter().zip(&start).map(|(number, start)| (number - start).powi(2)).sum();
            let wild = numbers[6].abs().max(3.0) - 3.0;
            off.map(deviation).sum::<f64>() + 1e-4 * drift + wild
        };
        let once = minimise(&start, 0.5, ROUNDS, cost).0;
        let numbers = minimise(&once, 0.3, ROUNDS, cost).0;
        Bottleneck { numbers: numbers.try_into().expect("seven of seven") }
    }

    /// Logarithm of the predicted operations per second.
    pub fn ln_rate(&self, place: &Place) -> f64 {
        let [block, outstanding, share] = *place;
        let mixed =
            |reads: f64, writes: f64| -(share * (-reads).exp() + (1.0 - share) * (-writes).exp()).ln();
        let n = &self.numbers;
        let limits = [mixed(n[0], n[1]) - block, mixed(n[2], n[3]), mixed(n[4], n[5]) + outstanding];
        let sharpness = n[6].exp();
        let lowest = limits.into_iter().fold(f64::INFINITY, f64::min);
        let sum: f64 = limits.iter().map(|limit| (sharpness * (lowest - limit)).exp()).sum();
        lowest - sum.ln() / sharpness
    }
}

/// Huber loss: square of a small deviation, linear for a large one.
fn deviation(off: f64) -> f64 {
    let off = off.abs();
    if off <= ODD { off * off } else { ODD * (2.0 * off - ODD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_formula_are_found_from_its_values() {
        let known = Bottleneck { numbers: [20.0, 19.0, 11.0, 10.0, 8.5, 7.0, 1.0] };
        let mut places = Vec::new();
        for step in 0..60_u32 {
            let part = |by: u32| f64::from(step % by) / f64::from(by - 1);
            places.push([8.3 + 5.5 * part(5), 4.2 * part(4), part(3)]);
        }
        let rates: Vec<f64> = places.iter().map(|place| known.ln_rate(place)).collect();
        let found = Bottleneck::fit(&places, &rates);
        let worst = places.iter().map(|place| (found.ln_rate(place) - known.ln_rate(place)).abs());
        assert!(worst.clone().fold(0.0, f64::max) < 0.03, "{:?}", worst.collect::<Vec<_>>());
    }
}
