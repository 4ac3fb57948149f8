//! The smallest value of a function of a few numbers, by the simplex method of Nelder and Mead.

/// Minimises `of` from `start` with first steps of `step`, in at most `rounds` rounds. A result that is not a number
/// counts as infinite.
pub fn minimise(start: &[f64], step: f64, rounds: usize, of: impl Fn(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let value = |at: &[f64]| {
        let value = of(at);
        if value.is_nan() { f64::INFINITY } else { value }
    };
    let mut corners: Vec<(Vec<f64>, f64)> = vec![(start.to_vec(), value(start))];
    for axis in 0..start.len() {
        let mut corner = start.to_vec();
        corner[axis] += step;
        let height = value(&corner);
        corners.push((corner, height));
    }
    for _ in 0..rounds {
        corners.sort_by(|one, other| one.1.total_cmp(&other.1));
        let worst = corners.len() - 1;
        if corners[worst].1 - corners[0].1 < 1e-7 * (1.0 + corners[0].1.abs()) {
            break;
        }
        let middle: Vec<f64> = (0..start.len())
            .map(|axis| corners[..worst].iter().map(|corner| corner.0[axis]).sum::<f64>() / worst as f64)
            .collect();
        // The point that is `factor` times as far from the middle as the worst corner, beyond the middle.
        let beyond = |factor: f64| {
            let at = middle
                .iter()
                .zip(&corners[worst].0)
                .map(|(middle, worst)| middle + factor * (middle - worst));
            let at: Vec<f64> = at.collect();
            let height = value(&at);
            (at, height)
        };
        let reflected = beyond(1.0);
        let next = if reflected.1 < corners[0].1 {
            let expanded = beyond(2.0);
            if expanded.1 < reflected.1 { expanded } else { reflected }
        } else if reflected.1 < corners[worst - 1].1 {
            reflected
        } else {
            beyond(if reflected.1 < corners[worst].1 { 0.5 } else { -0.5 })
        };
        if next.1 < corners[worst].1 {
            corners[worst] = next;
            continue;
        }
        let best = corners[0].0.clone();
        for corner in &mut corners[1..] {
            let halfway = corner.0.iter().zip(&best).map(|(at, best)| (at + best) / 2.0);
            corner.0 = halfway.collect();
            corner.1 = value(&corner.0);
        }
    }
    corners.into_iter().min_by(|one, other| one.1.total_cmp(&other.1)).expect("a simplex has corners")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_lowest_point() {
        let valley = |at: &[f64]| (1.0 - at[0]).powi(2) + 100.0 * (at[1] - at[0] * at[0]).powi(2);
        let (at, height) = minimise(&[-1.2, 1.0], 0.5, 1000, valley);
        assert!(height < 1e-6 && (at[0] - 1.0).abs() < 1e-2, "{at:?} {height}");
    }
}
