//! Tables of a storage that was measured, not described (`proofload calibrate --out`): mean latencies over block size,
//! operations under way and read share.
//!
//! Between measured places everything is linear, so the rate rises as the load does. Beyond the last measured load the
//! rate stays as it is. [`MeasuredStorage::is_proved`] says where the tables hold.

use serde::Deserialize;
use world::sim::StorageOp;

use crate::error::ArrayError;
use crate::throttle::Throttle;

/// Form of the tables that this program reads, and `calibrate --out` writes.
const FORM: u32 = 2;
/// Percentiles over the mean: median, 95th, 99th.
type Spread = [f64; 3];

/// Mean latencies over a grid of block size, operations under way and read share, the last running fastest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredStorage {
    pub(crate) form: u32,
    /// Mean error of predictions of points that were left out, percent.
    pub(crate) left_out_percent: f64,
    pub(crate) block_bytes: Vec<f64>,
    pub(crate) outstanding: Vec<f64>,
    pub(crate) read_share: Vec<f64>,
    pub(crate) read_ms: Vec<f64>,
    pub(crate) write_ms: Vec<f64>,
    /// Whether a place is next to what was probed.
    pub(crate) proved: Vec<bool>,
    pub(crate) read_spread: Spread,
    pub(crate) write_spread: Spread,
    /// Limits for which the latencies do not wait.
    pub(crate) read_throttle: Option<Throttle>,
    pub(crate) write_throttle: Option<Throttle>,
    /// Sequential reads without writes, and the reverse; `None`: like random ones.
    pub(crate) sequential_reads: Option<Curve>,
    pub(crate) sequential_writes: Option<Curve>,
    /// Sequential writes, each with a sync; `None`: no sync was probed.
    pub(crate) durable_writes: Option<Curve>,
}

/// Form of the tables of a storage. Other forms have other tables.
#[derive(Deserialize)]
pub(crate) struct Form {
    form: u32,
}

impl Form {
    /// Refuses tables of another form.
    pub(crate) fn check(&self, name: &str) -> Result<(), ArrayError> {
        if self.form == FORM {
            return Ok(());
        }
        let form = self.form;
        Err(ArrayError::BadAssumptions(format!(
            "measured.{name} has form {form}, this program reads form {FORM}: make it again with `calibrate --out`"
        )))
    }
}

/// Mean latencies over a grid of block size and operations under way, the last running fastest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    pub(crate) block_bytes: Vec<f64>,
    pub(crate) outstanding: Vec<f64>,
    pub(crate) ms: Vec<f64>,
}

/// What the storage is asked for at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) bytes: f64,
    /// Mean size of the last random operations, and the share of reads among them.
    pub(crate) mean_bytes: f64,
    pub(crate) reads: f64,
    /// Operations under way, syncs included.
    pub(crate) under_way: f64,
    /// Share of sequential operations among the last operations.
    pub(crate) sequential: f64,
}

impl MeasuredStorage {
    /// Refuses tables that are none.
    pub(crate) fn check(self, name: &str) -> Result<MeasuredStorage, ArrayError> {
        let bad = |reason: &str| Err(ArrayError::BadAssumptions(format!("measured.{name}: {reason}")));
        let axes = [&self.block_bytes, &self.outstanding, &self.read_share];
        if !axes.into_iter().all(|axis| is_axis(axis)) {
            return bad("block_bytes, outstanding and read_share must each have values, in ascending order");
        }
        let places: usize = axes.iter().map(|axis| axis.len()).product();
        if [self.read_ms.len(), self.write_ms.len(), self.proved.len()] != [places; 3] {
            return bad("read_ms, write_ms and proved must each have a value for each place of the grid");
        }
        if !self.read_ms.iter().chain(&self.write_ms).all(is_time) {
            return bad("read_ms and write_ms must be above 0");
        }
        let is_spread = |spread: &Spread| spread[0] > 0.0 && spread.is_sorted() && spread[2].is_finite();
        if !is_spread(&self.read_spread) || !is_spread(&self.write_spread) {
            return bad("read_spread and write_spread must be above 0, in ascending order");
        }
        if ![self.read_throttle, self.write_throttle].iter().flatten().all(Throttle::is_whole) {
            return bad("per_s and slice_ms of a throttle must be above 0, per_sync 0 or more");
        }
        let curves = [&self.sequential_reads, &self.sequential_writes, &self.durable_writes];
        if !curves.into_iter().flatten().all(Curve::is_whole) {
            return bad(
                "a curve must have block_bytes and outstanding in ascending order, and a time in ms for each",
            );
        }
        Ok(self)
    }

    /// The limit on an operation, with its number among those of the storage.
    pub(crate) fn throttle(&self, op: StorageOp) -> Option<(usize, &Throttle)> {
        let (index, throttle) = match op {
            StorageOp::Read => (0, &self.read_throttle),
            StorageOp::Write | StorageOp::Sync => (1, &self.write_throttle),
        };
        let is_counted = |one: &&Throttle| op != StorageOp::Sync || one.per_sync > 0.0;
        throttle.as_ref().filter(is_counted).map(|throttle| (index, throttle))
    }

    /// One line that says what it is.
    pub fn description(&self) -> String {
        let ends = |axis: &[f64]| (axis[0], axis[axis.len() - 1]);
        let (blocks, load) = (ends(&self.block_bytes), ends(&self.outstanding));
        format!(
            "measured storage, predicted to {} %: blocks of {} to {} KiB, {} to {} operations under way{}{}",
            self.left_out_percent,
            blocks.0 / 1024.0,
            blocks.1 / 1024.0,
            load.0,
            load.1,
            self.read_throttle.map_or_else(String::new, |one| format!(", reads limited to {}", one.text())),
            self.write_throttle.map_or_else(String::new, |one| format!(", writes limited to {}", one.text())),
        )
    }

    /// Mean latency of a random read or write: its own among operations of its size; else what it takes alone, and what
    /// others of the mean size wait for each other.
    fn random_ms(&self, is_read: bool, place: &Place) -> f64 {
        let others = Place { bytes: place.mean_bytes, ..*place };
        let alone =
            |place: &Place| self.even_ms(is_read, &Place { under_way: self.outstanding[0], ..*place });
        let alone_ms = alone(place);
        (alone_ms + self.even_ms(is_read, &others) - alone(&others)).max(alone_ms / 2.0)
    }

    /// Mean latency of a random read or write among operations of its size.
    fn even_ms(&self, is_read: bool, place: &Place) -> f64 {
        let of = if is_read { &self.read_ms } else { &self.write_ms };
        let within: f64 = self.corners(place).iter().map(|(index, weight)| weight * of[*index]).sum();
        within * beyond(&self.outstanding, place.under_way)
    }

    /// Mean latency of a read or a write. The more random operations lie between sequential ones, the less is left of
    /// what these are faster by.
    pub(crate) fn latency_ms(&self, is_read: bool, is_sequential: bool, place: &Place) -> f64 {
        let random = self.random_ms(is_read, place);
        let curve = if is_read { &self.sequential_reads } else { &self.sequential_writes };
        let Some(curve) = curve.as_ref().filter(|_| is_sequential) else { return random };
        place.sequential * curve.ms(place) + (1.0 - place.sequential) * random
    }

    /// Load of the closed loop of this mix in which as many reads are under way as here, on the mean of the times with
    /// any. Writes that a cache has taken do not count, however large their burst is.
    pub(crate) fn load_of_reads(&self, place: &Place, reads: f64) -> f64 {
        let others = Place { bytes: place.mean_bytes, ..*place };
        let reads = reads.max(1.0);
        let (mut load_before, mut reads_before) = (1.0, 1.0);
        for load in &self.outstanding {
            let at = Place { under_way: *load, ..others };
            let of_reads = place.reads * self.even_ms(true, &at);
            let of_writes = (1.0 - place.reads) * self.even_ms(false, &at);
            let share = of_reads / (of_reads + of_writes);
            let met = load * share / (1.0 - (1.0 - share).powf(*load)).max(f64::MIN_POSITIVE);
            if met >= reads {
                let part = (reads - reads_before) / (met - reads_before).max(f64::MIN_POSITIVE);
                return load_before + part.min(1.0) * (load - load_before);
            }
            (load_before, reads_before) = (*load, met);
        }
        (load_before * reads / reads_before).min(load_before.max(place.under_way))
    }

    /// Latency of a sync after a write: what a write with its sync takes longer than a sequential write.
    pub(crate) fn sync_ms(&self, place: &Place) -> f64 {
        let Some(durable) = &self.durable_writes else { return 0.0 };
        let alone = Place { mean_bytes: place.bytes, reads: 0.0, sequential: 1.0, ..*place };
        (durable.ms(place) - self.latency_ms(false, true, &alone)).max(0.0)
    }

    /// Whether the tables hold for a read or a write at a place: most of what they say there is next to a probe.
    pub(crate) fn is_proved(&self, is_read: bool, is_sequential: bool, place: &Place) -> bool {
        let curve = if is_read { &self.sequential_reads } else { &self.sequential_writes };
        if let Some(curve) = curve.as_ref().filter(|_| is_sequential && place.sequential > 0.5) {
            return is_in(&curve.block_bytes, place.bytes) && is_in(&curve.outstanding, place.under_way);
        }
        is_in(&self.block_bytes, place.bytes)
            && is_in(&self.outstanding, place.under_way)
            && is_in(&self.read_share, place.reads)
            && self
                .corners(place)
                .iter()
                .filter(|(index, _)| self.proved[*index])
                .map(|(_, weight)| weight)
                .sum::<f64>()
                >= 0.5
    }

    /// Whether syncs were probed.
    pub(crate) fn has_syncs(&self) -> bool {
        self.durable_writes.is_some()
    }

    /// The corners around a place, each with its weight.
    fn corners(&self, place: &Place) -> [(usize, f64); 8] {
        let block = sides(&self.block_bytes, place.bytes);
        let load = sides(&self.outstanding, place.under_way);
        let reads = sides(&self.read_share, place.reads);
        std::array::from_fn(|corner| {
            let (block, load, reads) = (block[corner >> 2], load[corner >> 1 & 1], reads[corner & 1]);
            let index = (block.0 * self.outstanding.len() + load.0) * self.read_share.len() + reads.0;
            (index, block.1 * load.1 * reads.1)
        })
    }
}

impl Curve {
    fn is_whole(&self) -> bool {
        is_axis(&self.block_bytes)
            && is_axis(&self.outstanding)
            && self.ms.len() == self.block_bytes.len() * self.outstanding.len()
            && self.ms.iter().all(is_time)
    }

    fn ms(&self, place: &Place) -> f64 {
        let (blocks, loads) =
            (sides(&self.block_bytes, place.bytes), sides(&self.outstanding, place.under_way));
        let of_block = |block: usize| -> f64 {
            loads.iter().map(|(load, weight)| weight * self.ms[block * self.outstanding.len() + load]).sum()
        };
        let within: f64 = blocks.iter().map(|(block, weight)| weight * of_block(*block)).sum();
        within * beyond(&self.outstanding, place.under_way)
    }
}

fn is_axis(axis: &[f64]) -> bool {
    !axis.is_empty() && axis[0] >= 0.0 && axis.is_sorted_by(|one, next| one < next)
}

fn is_time(ms: &f64) -> bool {
    ms.is_finite() && *ms > 0.0
}

fn is_in(axis: &[f64], value: f64) -> bool {
    axis[0] <= value && value <= axis[axis.len() - 1]
}

/// How often the last load of the axis is under way, at least once: latencies grow by that.
fn beyond(axis: &[f64], under_way: f64) -> f64 {
    (under_way / axis[axis.len() - 1]).max(1.0)
}

/// The values on both sides of one, by index, each with its weight. A value beyond an end lies at that end.
fn sides(axis: &[f64], value: f64) -> [(usize, f64); 2] {
    let next = axis.partition_point(|known| *known <= value);
    if next == 0 || next == axis.len() {
        let end = next.saturating_sub(1);
        return [(end, 1.0), (end, 0.0)];
    }
    let part = (value - axis[next - 1]) / (axis[next] - axis[next - 1]);
    [(next - 1, 1.0 - part), (next, part)]
}

/// How often the mean an operation takes, for a number from 0 to 1: through the percentiles, of mean 1.
pub(crate) fn drawn(spread: &Spread, at: f64) -> f64 {
    let [p50, p95, p99] = *spread;
    let least = (2.0 * p50 - p95).max(p50 / 4.0);
    let knots = [(0.0, least), (0.5, p50), (0.95, p95), (0.99, p99), (1.0, 2.0 * p99 - p95)];
    let area = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (pair[1].1 + pair[0].1) / 2.0;
    let mean: f64 = knots.windows(2).map(area).sum();
    let next = knots.iter().position(|knot| at < knot.0).unwrap_or(knots.len() - 1);
    let (from, to) = (knots[next - 1], knots[next]);
    (from.1 + (to.1 - from.1) * (at - from.0) / (to.0 - from.0)) / mean
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads take 1 ms alone and 4 ms among eight, writes half of it; sequential ones a tenth; a sync takes 0.2 ms.
    pub(crate) fn storage() -> MeasuredStorage {
        let curve = |ms: [f64; 4]| {
            Some(Curve { block_bytes: vec![4096.0, 65536.0], outstanding: vec![1.0, 8.0], ms: ms.to_vec() })
        };
        MeasuredStorage {
            form: FORM,
            left_out_percent: 5.0,
            block_bytes: vec![4096.0, 65536.0],
            outstanding: vec![1.0, 8.0],
            read_share: vec![0.0, 1.0],
            read_ms: vec![1.0, 1.0, 4.0, 4.0, 2.0, 2.0, 8.0, 8.0],
            write_ms: vec![0.5, 0.5, 2.0, 2.0, 1.0, 1.0, 4.0, 4.0],
            proved: vec![true; 8],
            read_spread: [0.9, 1.5, 2.5],
            write_spread: [1.0, 1.0, 1.0],
            read_throttle: None,
            write_throttle: None,
            sequential_reads: curve([0.1, 0.4, 0.2, 0.8]),
            sequential_writes: curve([0.05, 0.2, 0.1, 0.4]),
            durable_writes: curve([0.25, 0.4, 0.3, 0.6]),
        }
    }

    #[test]
    fn drawn_latencies_have_the_measured_percentiles_and_mean() {
        let spread = [0.9, 1.5, 2.5];
        let all: Vec<f64> = (0..100_000).map(|at| drawn(&spread, f64::from(at) / 1e5)).collect();
        let mean = all.iter().sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 1e-3 && all.is_sorted(), "{mean}");
        assert!((all[95_000] / all[50_000] - 1.5 / 0.9).abs() < 1e-3);
    }

    #[test]
    fn a_place_is_proved_where_the_nearer_places_of_the_grid_are() {
        let half = MeasuredStorage { proved: (0..8).map(|index| index < 4).collect(), ..storage() };
        let is_proved = |bytes| {
            let place = Place { bytes, mean_bytes: bytes, under_way: 2.0, reads: 0.7, sequential: 0.0 };
            half.is_proved(true, false, &place)
        };
        assert!(is_proved(4096.0) && is_proved(30_000.0));
        assert!(!is_proved(40_000.0) && !is_proved(65_536.0) && !is_proved(1024.0));
    }

    #[test]
    fn small_operations_wait_for_large_ones() {
        let place =
            |mean_bytes| Place { bytes: 4096.0, mean_bytes, under_way: 8.0, reads: 1.0, sequential: 0.0 };
        let ms = [4096.0, 65536.0].map(|mean_bytes| storage().latency_ms(true, false, &place(mean_bytes)));
        assert_eq!(ms, [4.0, 1.0 + 6.0]);
    }

    #[test]
    fn a_read_has_the_load_of_the_loop_with_as_many_reads_under_way() {
        let load = |share, reads| {
            let place =
                Place { bytes: 4096.0, mean_bytes: 4096.0, under_way: 20.0, reads: share, sequential: 0.0 };
            storage().load_of_reads(&place, reads)
        };
        assert_eq!([load(1.0, 1.0), load(1.0, 5.0), load(1.0, 8.0), load(0.5, 1.0)], [1.0, 5.0, 8.0, 1.0]);
        // Reads take twice as long as writes, so in a loop of half reads 16/3 of eight are reads; there are none at
        // 3^-8 of the times.
        let reads = 1.0 + (16.0 / 3.0 / (1.0 - 3.0_f64.powi(-8)) - 1.0) / 2.0;
        assert!((load(0.5, reads) - 4.5).abs() < 1e-9, "{}", load(0.5, reads));
        assert!((load(1.0, 16.0) - 16.0).abs() < 1e-9, "beyond the axis");
    }

    #[test]
    fn sequential_operations_lose_their_advantage_among_random_ones() {
        let place =
            |sequential| Place { bytes: 4096.0, mean_bytes: 4096.0, under_way: 1.0, reads: 1.0, sequential };
        let ms = [1.0, 0.5, 0.0].map(|share| storage().latency_ms(true, true, &place(share)));
        assert!((ms[0] - 0.1).abs() < 1e-9 && ms[1] > 0.2 && (ms[2] - 1.0).abs() < 1e-9, "{ms:?}");
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        let whole = storage();
        let half = Curve { ms: vec![1.0], ..whole.durable_writes.clone().unwrap() };
        let shut = Throttle { is_in_bytes: false, per_s: 0.0, slice_ms: 100.0, per_sync: 0.0 };
        for (broken, wanted) in [
            (MeasuredStorage { read_ms: vec![1.0], ..storage() }, "a value for each place"),
            (MeasuredStorage { outstanding: vec![8.0, 1.0], ..storage() }, "ascending"),
            (MeasuredStorage { write_ms: vec![0.0; 8], ..storage() }, "above 0"),
            (MeasuredStorage { durable_writes: Some(half), ..storage() }, "a curve"),
            (MeasuredStorage { read_throttle: Some(shut), ..storage() }, "of a throttle"),
        ] {
            let error = broken.check("x").unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        assert_eq!(storage().check("x").unwrap(), storage());
        let other = Form { form: 1 }.check("x").unwrap_err().to_string();
        assert!(other.contains("has form 1, this program reads form 2"), "{other}");
    }
}
