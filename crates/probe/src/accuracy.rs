//! How far predictions are off on whole maps of modelled arrays: some points are chosen and learned from, all others
//! are judged. The maps are made by the command in `docs/lab/probe.md`.

#![allow(clippy::print_stdout, reason = "prints the table of docs/lab/probe.md")]

use crate::calibrate::{Calibration, Errors};
use crate::choose::farthest;
use crate::gaussian::Process;
use crate::point::{Point, Row};

/// Maps, with the mean and the 90th percentile of the errors in percent that [`FEW`] points may leave.
const MAPS: [(&str, &str, f64, f64); 4] = [
    ("nimble-cs700-100000", include_str!("../maps/nimble-cs700-100000.csv"), 7.0, 15.0),
    ("dell-md3260-15000", include_str!("../maps/dell-md3260-15000.csv"), 12.0, 26.0),
    ("emc-cx3-20c-500", include_str!("../maps/emc-cx3-20c-500.csv"), 15.0, 32.0),
    ("lenovo-hx7510-30000", include_str!("../maps/lenovo-hx7510-30000.csv"), 30.0, 75.0),
];
const FEW: usize = 30;

struct Judged {
    product: Errors,
    /// A Gaussian process alone, on points that are farthest apart.
    plain: (f64, f64),
}

/// Learns from `count` points of a map, of which `seed` hides a tenth from the choice, and judges all others.
fn judge(map: &str, count: usize, seed: u64) -> Judged {
    let rows: Vec<Row> = crate::read(map).unwrap().into_iter().filter(|row| row.iops.is_some()).collect();
    let mut dice = seed;
    let mut is_shown = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        dice >> 33 >= (1 << 31) / 10
    };
    for _ in 0..8 {
        is_shown();
    }
    let shown: Vec<usize> = (0..rows.len()).filter(|_| is_shown()).collect();
    let candidates: Vec<Row> = shown.iter().map(|index| rows[*index]).collect();
    let others = |chosen: &[usize]| {
        let chosen: Vec<usize> = chosen.iter().map(|index| shown[*index]).collect();
        (0..rows.len()).filter(move |index| !chosen.contains(index)).map(|index| rows[index])
    };

    let points: Vec<Point> = candidates.iter().map(|row| row.point).collect();
    let chosen = farthest(&points, &[], count);
    let known: Vec<Row> = chosen.iter().map(|index| candidates[*index]).collect();
    let calibration = Calibration::new(&known).unwrap();
    let predicted = others(&chosen).map(|row| (calibration.predict(&row).unwrap(), row.iops.unwrap()));
    let pairs: Vec<_> = predicted.filter_map(|(one, iops)| Some((one?, iops))).collect();

    let scaled = |row: &Row| {
        let Point { block_bytes, read_share, .. } = row.point;
        let outstanding = row.outstanding().unwrap();
        [(block_bytes as f64).log2() / 4.0 - 4.0, outstanding.log2() / 3.0 - 1.0, 2.0 * read_share - 1.0]
    };
    let known = || chosen.iter().map(|index| &candidates[*index]);
    let (places, rates): (Vec<_>, Vec<_>) = known().map(|row| (scaled(row), row.iops.unwrap().ln())).unzip();
    let process = Process::fit(&places, &rates, None).unwrap();
    let off =
        others(&chosen).map(|row| (process.at(&scaled(&row)).mean.exp() / row.iops.unwrap() - 1.0).abs());
    let mut off: Vec<f64> = off.map(|off| 100.0 * off).collect();
    off.sort_by(f64::total_cmp);
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    Judged { product: Errors::of(&pairs).unwrap(), plain: (mean, off[off.len() * 9 / 10]) }
}

#[test]
fn others_of_a_whole_map_are_predicted_within_the_bars() {
    const SEEDS: u64 = 3;
    for (name, map, mean, p90) in MAPS {
        let all: Vec<Judged> = (1..=SEEDS).map(|seed| judge(map, FEW, seed)).collect();
        for Judged { product, plain } in &all {
            assert!(product.mean <= mean && product.p90 <= p90, "{name}: {product:?}");
            assert!(product.mean < plain.0, "{name}: {product:?}, a process alone {plain:?}");
        }
        let covered = all.iter().map(|one| one.product.covered).sum::<f64>() / SEEDS as f64;
        assert!((82.0..=98.0).contains(&covered), "{name}: {covered} % in their intervals");
    }
}

/// Prints the table of `docs/lab/probe.md`.
#[test]
#[ignore = "takes minutes"]
fn table_of_errors() {
    const SEEDS: u64 = 20;
    for (name, map, ..) in MAPS {
        for count in [FEW, 60, 100] {
            let all: Vec<Judged> = (1..=SEEDS).map(|seed| judge(map, count, seed)).collect();
            let mean = |of: &dyn Fn(&Judged) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
            let better = all.iter().filter(|one| one.product.mean < one.plain.0).count();
            println!(
                "{name} {count:3} points: {:.1} / {:.1} %, {:.0} % covered; process alone {:.1} / {:.1} %, worse in \
                 {better} of {SEEDS}",
                mean(&|one| one.product.mean),
                mean(&|one| one.product.p90),
                mean(&|one| one.product.covered),
                mean(&|one| one.plain.0),
                mean(&|one| one.plain.1),
            );
        }
    }
}
