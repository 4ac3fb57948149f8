//! A probe from begin to end: which points, in which order, and how often.

use world::World;

use crate::check::check_row;
use crate::choose::{farthest, usual_points};
use crate::measure::Ground;
use crate::point::{Load, Pattern, Point, Row};

/// Number of times that one point is measured, to show how far equal points differ.
const REPEATS: usize = 3;

/// Points of a probe of `count`, the most informative first. One in five is sequential, one in ten waits for syncs,
/// and one point is repeated.
pub fn points(count: usize) -> Vec<Point> {
    let (random, sequential, synced) = (usual_points(), sequential_points(), sync_points());
    let chosen = |from: &[Point], count: usize| {
        farthest(from, &[], count).into_iter().map(|index| from[index]).collect::<Vec<Point>>().into_iter()
    };
    let mut synced = chosen(&synced, count.div_ceil(10));
    let mut sequential = chosen(&sequential, count.div_ceil(5));
    let mut random = chosen(&random, count);
    let often = Point { block_bytes: 16 << 10, read_share: 0.75, ..random_point(8.0) };
    let every = count.div_ceil(REPEATS);
    let next = |number: usize| match number {
        _ if number % every == every / 2 => Some(often),
        _ if number % 10 == 9 => synced.next().or_else(|| random.next()),
        _ if number % 5 == 3 => sequential.next().or_else(|| random.next()),
        _ => random.next(),
    };
    (0..count).map_while(next).collect()
}

fn random_point(outstanding: f64) -> Point {
    Point {
        block_bytes: 4096,
        read_share: 1.0,
        pattern: Pattern::Random,
        load: Load::Outstanding(outstanding),
    }
}

fn sequential_points() -> Vec<Point> {
    let mut points = Vec::new();
    for block_bytes in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        for outstanding in [1.0, 4.0, 16.0] {
            for read_share in [0.0, 1.0] {
                points.push(Point {
                    block_bytes,
                    read_share,
                    pattern: Pattern::Sequential,
                    ..random_point(outstanding)
                });
            }
        }
    }
    points
}

fn sync_points() -> Vec<Point> {
    let mut points = Vec::new();
    for block_bytes in [4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        for outstanding in [1.0, 2.0, 4.0, 8.0] {
            points.push(Point {
                block_bytes,
                read_share: 0.0,
                pattern: Pattern::Sync,
                ..random_point(outstanding)
            });
        }
    }
    points
}

/// Measures points one after the other and passes each row to `row`, until no point is left or `ends` returns true. A
/// point that is not steady or breaks Little's law is measured once more. Removes the files in any case.
///
/// # Errors
/// The storage refuses something.
pub async fn measure_all(
    world: &World,
    ground: Ground,
    points: &[Point],
    row: &mut dyn FnMut(usize, &Row),
    ends: &dyn Fn(&World) -> bool,
) -> world::Result<()> {
    let measured = async {
        for (number, point) in points.iter().enumerate() {
            if ends(world) {
                break;
            }
            ground.rest(world, ends).await?;
            let mut found = ground.measure(world, *point).await?;
            if found.steady == Some(false) || check_row(&found).is_err() {
                ground.rest(world, ends).await?;
                found = ground.measure(world, *point).await?;
            }
            if check_row(&found).is_err() {
                found = Row::unmeasured(*point);
            }
            row(number, &found);
        }
        Ok(())
    };
    let outcome = measured.await;
    outcome.and(ground.remove(world).await)
}

/// Largest deviation of the rate of equal points from their mean, percent; `None` without equal points.
pub fn scatter(rows: &[Row]) -> Option<f64> {
    let mut worst: Option<f64> = None;
    for (index, row) in rows.iter().enumerate() {
        let equal = rows[index..].iter().filter(|other| other.point == row.point);
        let rates: Vec<f64> = equal.filter_map(|row| row.iops).collect();
        if rates.len() >= REPEATS {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let off = rates.iter().map(|rate| 100.0 * (rate / mean - 1.0).abs()).fold(0.0, f64::max);
            worst = Some(worst.unwrap_or_default().max(off));
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};

    use super::*;

    fn probe(points: &[Point]) -> Vec<Row> {
        let times = FixedLatencyTimes { jitter: world::Duration::ZERO, ..FixedLatencyTimes::default() };
        let storage = Box::new(FixedLatency::new(1, times));
        let simulation = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
        let world = simulation.host("h");
        simulation.volume("h", "/v", 1 << 40);
        let mut rows = Vec::new();
        simulation.run_until(async {
            let ground = Ground::make(&world, &["/v".to_owned()], 1 << 30).await.unwrap();
            measure_all(&world, ground, points, &mut |_, row| rows.push(*row), &|_| false).await.unwrap();
            assert!(world.list("/v").await.unwrap().is_empty(), "the file is removed");
        });
        rows
    }

    #[test]
    fn a_probe_finds_the_numbers_of_a_known_storage() {
        let at = |block_bytes, read_share, pattern, outstanding| Point {
            block_bytes,
            read_share,
            pattern,
            load: Load::Outstanding(outstanding),
        };
        // 8 at a time, 0.2 ms for a read, 0.1 ms for a write, 0.5 ms for a sync, 500 MB/s each.
        for (point, wanted) in [
            (at(4096, 1.0, Pattern::Random, 1.0), 1.0 / (200e-6 + 4096.0 / 5e8)),
            (at(65536, 1.0, Pattern::Random, 4.0), 4.0 / (200e-6 + 65536.0 / 5e8)),
            (at(4096, 0.0, Pattern::Random, 64.0), 8.0 / (100e-6 + 4096.0 / 5e8)),
            (at(4096, 0.0, Pattern::Sequential, 1.0), 1.0 / (100e-6 + 4096.0 / 5e8)),
            (at(4096, 0.0, Pattern::Sync, 1.0), 1.0 / (600e-6 + 4096.0 / 5e8)),
        ] {
            let row = probe(&[point])[0];
            let iops = row.iops.unwrap();
            assert!((iops / wanted - 1.0).abs() < 0.01, "{point:?}: {iops}, not {wanted}");
            let side = if point.read_share == 1.0 { row.reads } else { row.writes };
            let Load::Outstanding(outstanding) = point.load else { unreachable!("a closed loop") };
            let mean_s = side.mean_ms.unwrap() / 1e3;
            assert!((iops * mean_s / outstanding - 1.0).abs() < 0.01, "{point:?}: Little's law");
            assert_eq!(row.steady, Some(true));
        }
    }

    #[test]
    fn an_open_loop_is_not_steady_where_the_storage_does_not_keep_up_with_its_arrivals() {
        for (rate, keeps_up) in [(1000.0, true), (45_000.0, false)] {
            let row = probe(&[Point { load: Load::Offered(rate), ..random_point(1.0) }])[0];
            let (iops, mean_ms) = (row.iops.unwrap(), row.reads.mean_ms.unwrap());
            assert_eq!(row.steady, Some(keeps_up), "{}", row.text());
            assert_eq!((iops / rate - 1.0).abs() < 0.05, keeps_up, "{}", row.text());
            assert_eq!(mean_ms < 0.22, keeps_up, "8 at a time, 0.208 ms each: {}", row.text());
        }
    }

    #[test]
    fn caches_are_warmed_by_reading_every_place_once() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("h");
        simulation.volume("h", "/v", 1 << 40);
        simulation.volume("h", "/w", 1 << 40);
        simulation.run_until(async {
            let folders = ["/v".to_owned(), "/w".to_owned()];
            let ground = Ground::make(&world, &folders, 33 << 20).await.unwrap();
            ground.warm(&world, world.now() + world::Duration::from_secs(1)).await.unwrap();
            assert_eq!(world.io_totals().read_bytes, 66 << 20);
            ground.warm(&world, world.now()).await.unwrap();
            assert_eq!(world.io_totals().read_bytes, 66 << 20, "its time was over");
        });
    }

    #[test]
    fn a_probe_has_all_patterns_and_repeats_one_point() {
        for count in [24, 60, 120] {
            let points = points(count);
            assert_eq!(points.len(), count);
            let of = |pattern| points.iter().filter(|point| point.pattern == pattern).count();
            assert!(of(Pattern::Sync) >= 2 && of(Pattern::Sequential) >= count / 10, "{count}");
            let often = points.iter().max_by_key(|one| points.iter().filter(|other| other == one).count());
            let often = often.unwrap();
            assert_eq!(points.iter().filter(|other| *other == often).count(), REPEATS);
        }
        let rate = |point: &Point, iops| Row { iops: Some(iops), ..Row::unmeasured(*point) };
        let [first, second] = [points(24)[0], points(24)[1]];
        let rows = [(first, 90.0), (second, 500.0), (first, 100.0), (first, 110.0)];
        let rows = rows.map(|(point, iops)| rate(&point, iops));
        assert_eq!(scatter(&rows).map(f64::round), Some(10.0));
        assert_eq!(scatter(&rows[..3]), None, "two are too few");
    }
}
