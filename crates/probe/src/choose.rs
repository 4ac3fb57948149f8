//! The choice of points: each next one farthest from all that are there, in logarithm of block size, logarithm of
//! load and read share, each as a share of its range. Which points are probed decides more about the error of a
//! prediction than the method that predicts.

use crate::point::{Load, Pattern, Point};

/// Chooses `count` candidates to measure next, farthest from the points `done` and from each other. Returns their
/// indexes, best first.
pub fn farthest(candidates: &[Point], done: &[Point], count: usize) -> Vec<usize> {
    let places: Vec<[f64; 3]> = candidates.iter().map(place).collect();
    let done: Vec<[f64; 3]> = done.iter().map(place).collect();
    let ranges: [(f64, f64); 3] = std::array::from_fn(|axis| {
        let values = places.iter().chain(&done).map(|place| place[axis]);
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    });
    let distance = |one: &[f64; 3], other: &[f64; 3]| -> f64 {
        let axes = 0..3;
        axes.map(|axis| {
            let (low, high) = ranges[axis];
            ((one[axis] - other[axis]) / (high - low).max(f64::MIN_POSITIVE)).powi(2)
        })
        .sum()
    };
    // The first point of all is a corner: the one that is farthest from the middle.
    let middle = ranges.map(|(low, high)| (low + high) / 2.0);
    let mut nearest: Vec<f64> = places
        .iter()
        .map(|place| {
            let others = done.iter().map(|other| distance(place, other));
            if done.is_empty() { distance(place, &middle) } else { others.fold(f64::INFINITY, f64::min) }
        })
        .collect();
    let mut chosen: Vec<usize> = Vec::new();
    for _ in 0..count.min(candidates.len()) {
        let left = (0..candidates.len()).filter(|index| !chosen.contains(index));
        let next = left.reduce(|best, index| if nearest[index] > nearest[best] { index } else { best });
        let next = next.expect("there are more candidates than were chosen");
        for (index, place) in places.iter().enumerate() {
            let from_next = distance(place, &places[next]);
            nearest[index] =
                if chosen.is_empty() && done.is_empty() { from_next } else { nearest[index].min(from_next) };
        }
        chosen.push(next);
    }
    chosen
}

/// Random I/O from 4 KiB to 1 MiB, 1 to 64 operations under way, in steps of 2, five read shares.
pub fn usual_points() -> Vec<Point> {
    let mut points = Vec::new();
    for block_bytes in (12..=20).map(|power| 1 << power) {
        for outstanding in (0..=6).map(|power| f64::from(1 << power)) {
            for read_share in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let load = Load::Outstanding(outstanding);
                points.push(Point { block_bytes, read_share, pattern: Pattern::Random, load });
            }
        }
    }
    points
}

fn place(point: &Point) -> [f64; 3] {
    let (Load::Outstanding(load) | Load::Offered(load)) = point.load;
    [(point.block_bytes as f64).ln(), load.ln(), point.read_share]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_next_point_is_one_that_is_farthest_from_all_before() {
        let points = usual_points();
        let chosen = farthest(&points, &[], 315);
        assert_eq!(chosen[..2], [0, 314], "opposite corners");
        let ends = chosen[..9].iter().flat_map(|index| place(&points[*index]));
        let edges = [place(&points[0]), place(&points[314])];
        let at_an_end = ends.filter(|value| edges.iter().any(|edge| edge.contains(value))).count();
        assert!(
            at_an_end >= 18,
            "{at_an_end} of 27 values of the first nine points are at an end of their range"
        );
        let mut all = chosen.clone();
        all.sort_unstable();
        assert_eq!(all, (0..315).collect::<Vec<_>>());
    }

    #[test]
    fn a_choice_goes_on_where_an_earlier_one_ended() {
        let points = usual_points();
        let all = farthest(&points, &[], 30);
        let done: Vec<Point> = all[..12].iter().map(|index| points[*index]).collect();
        assert_eq!(farthest(&points, &done, 18), all[12..]);
    }
}
