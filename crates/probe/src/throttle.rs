//! A limit on reads or on writes as Linux sets it for a control group: some operations or bytes in each slice of time.
//! Until they are used up, operations go on as if there were no limit; the others wait for the next slice.
//!
//! It shows in the points: many, of several block sizes, have the same rate, and most of their operations took a small
//! part of the mean. Disks and links that are busy make operations wait alike.
//!
//! Limits: one unit for reads and one for writes; a limit on both together, or one that makes all wait alike, is not
//! told from a slow storage.

use crate::point::{Latency, Load, POINTS_MIN, Pattern, Point, Row};

/// Largest share by which a point at the limit is below the highest rate.
pub(crate) const NEAR: f64 = 0.07;
/// Most that half of the operations took at a point where the others waited, as a share of the mean.
const FREE: f64 = 0.5;
/// Most of a slice that half of the operations took where they did not wait for the next one.
const IN_SLICE: f64 = 0.1;
/// Fewest points, and block sizes among them, that show a limit.
const POINTS: usize = 5;
const BLOCKS: usize = 3;
/// Largest ratio between what syncs of several points seem to count as.
const ALIKE: f64 = 1.2;
/// Part of the points whose 99th percentile is below the length of a slice. Where few operations wait, it says nothing.
const SLICE: f64 = 0.75;

/// Limit on reads, or on writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Whether reads are limited, or writes.
    pub is_of_reads: bool,
    /// Whether the limit counts bytes, or operations.
    pub is_in_bytes: bool,
    /// Operations or bytes per second.
    pub per_s: f64,
    /// Length of a slice, ms; 0 while it is not known.
    pub slice_ms: f64,
    /// Operations that a sync counts as.
    pub per_sync: f64,
}

impl Throttle {
    /// The limits that points show, and each point as it would be if nothing waited for them: `None` where most
    /// operations waited, which says nothing about that. If so few points are left that nothing follows from them,
    /// there are no limits.
    pub fn lifted(rows: &[Row]) -> (Vec<Throttle>, Vec<Option<Row>>) {
        let of_side = |is_of_reads| {
            let shown = [false, true].map(|is_in_bytes| Throttle::shown(rows, is_of_reads, is_in_bytes));
            let most = |one: &(usize, Throttle)| one.0;
            shown.into_iter().flatten().max_by_key(most).map(|(_, throttle)| throttle)
        };
        let all: Vec<Throttle> = [true, false].into_iter().filter_map(of_side).collect();
        let lifted: Vec<Option<Row>> =
            rows.iter().map(|row| all.iter().try_fold(*row, |row, one| one.lift(row))).collect();
        let random = lifted.iter().flatten();
        let random = random.filter(|row| row.point.pattern == Pattern::Random && row.iops.is_some());
        if random.count() < POINTS_MIN {
            (Vec::new(), rows.iter().copied().map(Some).collect())
        } else {
            (all, lifted)
        }
    }

    /// Most reads and writes per second that the limit lets through at a point.
    pub(crate) fn most(&self, point: &Point) -> f64 {
        self.per_s / self.counts(point)
    }

    /// The limit in one unit with the number of points that show it, if there are enough.
    fn shown(rows: &[Row], is_of_reads: bool, is_in_bytes: bool) -> Option<(usize, Throttle)> {
        let throttle = Throttle { is_of_reads, is_in_bytes, per_s: 0.0, slice_ms: 0.0, per_sync: 0.0 };
        let most = rows.iter().filter_map(|row| throttle.rate(row)).fold(0.0, f64::max);
        let throttle = Throttle { per_s: most, ..throttle };
        let near: Vec<&Row> = rows.iter().filter(|row| throttle.binds(row)).collect();
        let free: Vec<&Row> = near.iter().filter(|row| throttle.is_free(row)).copied().collect();
        let mut blocks: Vec<u64> = free.iter().map(|row| row.point.block_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        if free.len() < POINTS || blocks.len() < BLOCKS {
            return None;
        }
        let at = |mut values: Vec<f64>, part: f64| {
            values.sort_by(f64::total_cmp);
            let last = values.len().checked_sub(1)?;
            Some(values[(part * last as f64).round() as usize])
        };
        let per_s = at(near.iter().filter_map(|row| throttle.rate(row)).collect(), 0.5)?;
        let slice_ms = at(free.iter().filter_map(|row| throttle.side(row).p99_ms).collect(), SLICE)?;
        let throttle = Throttle { per_s, slice_ms, ..throttle };
        let syncs = rows.iter().filter(|row| row.point.pattern == Pattern::Sync && throttle.is_free(row));
        let counted: Vec<f64> = syncs.filter_map(|row| Some(per_s / throttle.rate(row)?)).collect();
        let quarters = [0.25, 0.5, 0.75].map(|part| at(counted.clone(), part));
        let per_sync = match quarters {
            [Some(low), Some(all), Some(high)] if !is_of_reads && !is_in_bytes && high < ALIKE * low => {
                all.round() - 1.0
            }
            _ => 0.0,
        };
        Some((free.len(), Throttle { per_sync, ..throttle }))
    }

    /// The point without what operations waited for this limit.
    fn lift(&self, row: Row) -> Option<Row> {
        if !self.binds(&row) {
            return Some(row);
        }
        let Load::Outstanding(outstanding) = row.point.load else { return None };
        if !self.is_free(&row) {
            return None;
        }
        let side = self.side(&row);
        let side = Latency { mean_ms: side.p50_ms, ..side };
        let row = if self.is_of_reads { Row { reads: side, ..row } } else { Row { writes: side, ..row } };
        Some(Row { iops: Some(1e3 * outstanding / row.mean_ms()?), ..row })
    }

    fn side(&self, row: &Row) -> Latency {
        if self.is_of_reads { row.reads } else { row.writes }
    }

    /// What the limit counts, per second.
    fn rate(&self, row: &Row) -> Option<f64> {
        Some(row.iops? * self.counts(&row.point))
    }

    /// What the mean operation of a point counts as.
    fn counts(&self, point: &Point) -> f64 {
        let share = if self.is_of_reads { point.read_share } else { 1.0 - point.read_share };
        share
            * match point.pattern {
                _ if self.is_in_bytes => point.block_bytes as f64,
                Pattern::Sync => 1.0 + self.per_sync,
                Pattern::Random | Pattern::Sequential => 1.0,
            }
    }

    fn binds(&self, row: &Row) -> bool {
        self.rate(row).is_some_and(|rate| rate >= (1.0 - NEAR) * self.per_s)
    }

    /// Whether most operations of a point did not wait for the limit.
    fn is_free(&self, row: &Row) -> bool {
        let side = self.side(row);
        let is_in_slice = |p50: f64| self.slice_ms == 0.0 || p50 <= IN_SLICE * self.slice_ms;
        side.p50_ms.zip(side.mean_ms).is_some_and(|(p50, mean)| p50 <= FREE * mean && is_in_slice(p50))
    }

    /// What it limits, for people.
    pub fn text(&self) -> String {
        let Throttle { is_of_reads, is_in_bytes, per_s, slice_ms, .. } = self;
        let what = if *is_of_reads { "reads" } else { "writes" };
        let rate = match is_in_bytes {
            true => format!("{:.1} MiB", per_s / f64::from(1 << 20)),
            false => format!("{per_s:.0}"),
        };
        format!("{what} are limited to {rate} a second, in slices of {slice_ms:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a storage whose operations take 0.2 ms each, alike, with a limit on writes.
    fn points(per_s: f64, is_in_bytes: bool) -> Vec<Row> {
        let mut rows = Vec::new();
        for block_bytes in [4096, 16_384, 65_536] {
            for outstanding in [1.0, 8.0, 64.0] {
                for read_share in [0.0, 0.5, 1.0] {
                    let free: f64 = 1e3 * outstanding / 0.2;
                    let most =
                        per_s / (1.0 - read_share) / if is_in_bytes { block_bytes as f64 } else { 1.0 };
                    let (iops, is_bound) = (free.min(most), free > most);
                    let waited = (1e3 * outstanding / iops - 0.2) / (1.0 - read_share);
                    let writes = Latency {
                        mean_ms: Some(if is_bound { 0.2 + waited } else { 0.2 }),
                        p50_ms: Some(if outstanding < 64.0 || !is_bound { 0.2 } else { 50.0 }),
                        p95_ms: None,
                        p99_ms: Some(if is_bound { 95.0 } else { 0.2 }),
                    };
                    let reads = Latency { mean_ms: Some(0.2), p50_ms: Some(0.2), ..Latency::default() };
                    let load = Load::Outstanding(outstanding);
                    let point = Point { block_bytes, read_share, pattern: Pattern::Random, load };
                    rows.push(Row { iops: Some(iops), reads, writes, ..Row::unmeasured(point) });
                }
            }
        }
        rows
    }

    #[test]
    fn a_limit_is_found_with_its_unit_and_slice_and_lifted_from_the_points() {
        for (per_s, is_in_bytes, told) in [
            (500.0, false, "writes are limited to 500 a second, in slices of 95 ms"),
            (4e6, true, "writes are limited to 3.8 MiB a second, in slices of 95 ms"),
        ] {
            let rows = points(per_s, is_in_bytes);
            let (found, lifted) = Throttle::lifted(&rows);
            assert_eq!(found.iter().map(Throttle::text).collect::<Vec<_>>(), [told]);
            let lifted: Vec<Row> = lifted.into_iter().flatten().collect();
            assert_eq!(rows.len() - lifted.len(), 6, "those of 64 under way with writes");
            for row in lifted {
                let alike = (row.mean_ms().unwrap() / 0.2 - 1.0).abs();
                let rate = row.iops.unwrap() * 0.2 / 1e3 / row.outstanding().unwrap() - 1.0;
                assert!(alike < 1e-9 && rate.abs() < 1e-9, "{}", row.text());
            }
        }
    }

    #[test]
    fn what_waits_alike_is_no_limit_and_without_enough_points_nothing_is_lifted() {
        let mut rows = points(500.0, false);
        let none_of = |rows: &[Row]| (Vec::new(), rows.iter().copied().map(Some).collect());
        assert_eq!(Throttle::lifted(&rows[..14]), none_of(&rows[..14]));
        for row in &mut rows {
            row.writes.p50_ms = row.writes.mean_ms;
        }
        for rows in [rows, points(f64::INFINITY, false)] {
            assert_eq!(Throttle::lifted(&rows), none_of(&rows));
        }
    }
}
