//! The formula below the regression: a storage does what the narrowest of its parts lets it do. Near the crossing of
//! two it does somewhat less than either.
//!
//! The parts are the way of a single operation and a part that reads and writes share (disks, processors), each with a
//! time for an operation and a time for each byte; and four that take a time for one of these: operations or bytes
//! (a cache, one direction of a link), of reads or of writes.

use crate::least_squares::least_squares;

/// Input of a prediction: logarithm of the block size, logarithm of the outstanding operations, read share.
pub type MapPoint = [f64; 3];

/// Parameters of the formula. Numbers 0 to 11 are pairs of natural logarithms: seconds per operation, seconds per
/// byte. Pairs 0 and 2: a single read, a single write. Pairs 4 and 6: a read and a write in the part that both share.
/// Pair 8: the parts for reads only. Pair 10: the parts for writes only. Number 12: logarithm of the sharpness with
/// which the narrowest part decides.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    numbers: [f64; 13],
}

/// Threshold of the Huber loss, as a deviation of the logarithm. Larger deviations count linearly instead of squared,
/// so that one odd point does not bend the fit.
const ODD: f64 = 0.3;
/// Weight of the distance between the parameters and their start values ([`expected`]).
const EXPECTED: f64 = 0.02;
/// Smallest logarithm of a time; smaller values count as this, which is practically zero.
const NONE: f64 = -40.0;
const ROUNDS: usize = 300;

impl Bottleneck {
    /// Fits the formula to measured logarithms of rates.
    pub fn fit(places: &[MapPoint], ln_rates: &[f64]) -> Bottleneck {
        let start = expected(places, ln_rates);
        let deviations = |numbers: &[f64]| {
            let formula = Bottleneck { numbers: numbers.try_into().expect("there are thirteen") };
            let off = places.iter().zip(ln_rates).map(|(place, rate)| damped(formula.ln_rate(place) - rate));
            let drift = numbers.iter().zip(&start).map(|(number, start)| EXPECTED * (number - start) / 2.0);
            off.chain(drift).collect()
        };
        let numbers = least_squares(&start, ROUNDS, deviations);
        Bottleneck { numbers: numbers.try_into().expect("there are thirteen") }
    }

    /// Logarithm of the predicted operations per second.
    pub fn ln_rate(&self, place: &MapPoint) -> f64 {
        let [block, outstanding, reads] = *place;
        let n = &self.numbers;
        let operation = |pair: usize| n[pair].max(NONE).exp();
        let bytes = |pair: usize| (n[pair + 1].max(NONE) + block).exp();
        let time = |pair: usize| operation(pair) + bytes(pair);
        let writes = 1.0 - reads;
        let times = [
            (reads * time(0) + writes * time(2)) * (-outstanding).exp(),
            reads * time(4) + writes * time(6),
            reads * operation(8),
            reads * bytes(8),
            writes * operation(10),
            writes * bytes(10),
        ];
        let sharpness = n[12].exp();
        let longest = times.into_iter().fold(0.0, f64::max);
        let sum: f64 = times.iter().map(|time| (time / longest).powf(sharpness)).sum();
        -longest.ln() - sum.ln() / sharpness
    }
}

/// Start values of the fit: the parameters of the simplest storage that reaches the measured rates.
fn expected(places: &[MapPoint], ln_rates: &[f64]) -> [f64; 13] {
    let least = |of: &dyn Fn(usize) -> f64| (0..places.len()).map(of).fold(f64::INFINITY, f64::min);
    let fewest = least(&|index| places[index][1]);
    let mut alone: Vec<f64> = (0..places.len())
        .filter(|index| places[*index][1] <= fewest + 1.0)
        .map(|index| places[index][1] - ln_rates[index])
        .collect();
    alone.sort_by(f64::total_cmp);
    let alone = alone[alone.len() / 2];
    let operation = least(&|index| -ln_rates[index]);
    let byte = least(&|index| -ln_rates[index] - places[index][0]);
    // The parts of reads alone and of writes alone are wide until points show otherwise.
    let (wide, single) = (4.0_f64.ln(), 2.0_f64.ln());
    let shared = [operation, byte, operation, byte];
    let apart = [operation - wide, byte - wide, operation - wide, byte - wide];
    let alone = [alone, byte + single, alone, byte + single];
    let mut numbers = [1.5; 13];
    for (number, value) in numbers.iter_mut().zip(alone.into_iter().chain(shared).chain(apart)) {
        *number = value;
    }
    numbers
}

/// Deviation for the Huber loss: its square is quadratic for small deviations and linear for large ones.
fn damped(off: f64) -> f64 {
    let size = off.abs();
    if size <= ODD { off } else { off.signum() * (ODD * (2.0 * size - ODD)).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_formula_are_found_from_its_values() {
        let known = Bottleneck {
            numbers: [-7.0, -19.0, -8.0, -20.0, -10.5, -21.5, -9.5, -20.5, -12.0, -20.0, -9.0, -30.0, 1.2],
        };
        let mut places = Vec::new();
        for step in 0..60_u32 {
            let part = |by: u32| f64::from(step % by) / f64::from(by - 1);
            places.push([8.3 + 5.5 * part(5), 4.2 * part(4), part(3)]);
        }
        let rates: Vec<f64> = places.iter().map(|place| known.ln_rate(place)).collect();
        let found = Bottleneck::fit(&places, &rates);
        let worst = places.iter().map(|place| (found.ln_rate(place) - known.ln_rate(place)).abs());
        assert!(worst.clone().fold(0.0, f64::max) < 0.08, "{:?}", worst.collect::<Vec<_>>());
    }
}
