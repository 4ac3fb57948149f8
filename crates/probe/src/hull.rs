//! Whether a place is among those that were probed: in their convex hull.

use crate::gaussian::Scaled;
use crate::linear::dot;

/// Largest number of rounds of the search for the nearest hull point. Each round looks at all points.
const ROUNDS: usize = 2000;

/// Whether `place` is no farther than `distance` from the convex hull of `known`: the search for the point of the hull
/// that is nearest (Gilbert, with the pairwise steps of Mitchell, Dem'yanov and Malozemov).
pub fn is_within(known: &[Scaled], place: &Scaled, distance: f64) -> bool {
    let Some(first) = known.first() else { return false };
    let mut shares = vec![0.0; known.len()];
    shares[0] = 1.0;
    let mut nearest = *first;
    for _ in 0..ROUNDS {
        let off: Scaled = std::array::from_fn(|axis| nearest[axis] - place[axis]);
        let square = dot(&off, &off);
        if square <= distance * distance {
            return true;
        }
        let height = |index: usize| dot(&off, &known[index]);
        let all = 0..known.len();
        let by_height = |one: &usize, other: &usize| height(*one).total_cmp(&height(*other));
        let low = all.clone().min_by(by_height).expect("there is one");
        let high = all.filter(|index| shares[*index] > 0.0).max_by(by_height).expect("shares sum to 1");
        // Everything known lies beyond a plane that is farther than `distance`.
        if height(low) - dot(&off, place) > distance * square.sqrt() {
            return false;
        }
        let way: Scaled = std::array::from_fn(|axis| known[low][axis] - known[high][axis]);
        let length = dot(&way, &way);
        if length == 0.0 {
            return false;
        }
        let step = (-dot(&off, &way) / length).clamp(0.0, shares[high]);
        shares[low] += step;
        shares[high] -= step;
        nearest = std::array::from_fn(|axis| nearest[axis] + step * way[axis]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beyond_a_face_or_an_edge_is_outside() {
        let corners: Vec<Scaled> = (0..8)
            .map(|bits: u8| [0, 1, 2].map(|axis| f64::from(bits >> axis & 1)))
            .filter(|corner| *corner != [1.0, 1.0, 1.0])
            .collect();
        for inside in [[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 1.0, 0.6], [0.66, 0.66, 0.66]]
        {
            assert!(is_within(&corners, &inside, 0.01), "{inside:?}");
        }
        for outside in [[1.0, 1.0, 1.0], [0.7, 0.7, 0.7], [0.5, 0.5, 1.05], [-0.1, 0.0, 0.0], [9.0, 0.5, 0.5]]
        {
            assert!(!is_within(&corners, &outside, 0.01), "{outside:?}");
        }
    }
}
