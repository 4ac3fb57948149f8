//! The file of a measured storage, for `simulate --assumptions`: mean latencies of reads and of writes over a grid of
//! block size, operations under way and read share, and curves for sequential operations and for durable writes.
//!
//! Grid and curves run through the points that were measured. There they hold what was measured. Elsewhere the grid
//! holds what a process of the latencies of reads, and one of those of writes, predict. A curve holds by how much its
//! points differ from random ones, the nearest most. What a limit lets through in slices is apart ([`Throttle`]): grid
//! and curves are those of the storage without it.

use std::fmt::Write as _;

use crate::bottleneck::MapPoint;
use crate::calibrate::{Calibration, Surface, place};
use crate::point::{Latency, Load, Pattern, ProbeError, Row};
use crate::throttle::Throttle;

/// Form of the file; [`array`] reads the same one.
const FORM: u32 = 2;
/// Most values on an axis of the grid.
const AXIS_MOST: usize = 12;

/// The file of a calibrated storage; `origin` names where its points come from, `volume` the volume that has this
/// storage for itself. Without it, all volumes share it.
///
/// # Errors
/// If there are too few random points.
pub fn model(calibration: &Calibration, origin: &str, volume: Option<&str>) -> Result<String, ProbeError> {
    let surface = random_of(calibration)?;
    let measured: Vec<&Row> = calibration.lifted.iter().filter(|row| row.iops.is_some()).collect();
    let random: Vec<&Row> = of(&measured, Pattern::Random);
    let grid = Grid::of(surface, &random).ok_or_else(|| wrong("no random point is of a closed loop"))?;
    let mut text = format!(
        "# A storage as `proofload calibrate` found it, for `proofload simulate --assumptions`.\n\
         # Latencies stand over block_bytes, outstanding and read_share, the last running fastest.\n\
         [measured.{:?}]\n",
        volume.unwrap_or("storage")
    );
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name} = {{ value = {value}, source = {:?} }}", format!("measured: {origin}"))
            .expect("a text can be written to");
    };
    line("form", FORM.to_string());
    line("left_out_percent", format!("{:.1}", surface.left_out.mean));
    line("block_bytes", list(&grid.blocks));
    line("outstanding", list(&grid.loads));
    line("read_share", list(&grid.shares));
    line("read_ms", list(&grid.read_ms));
    line("write_ms", list(&grid.write_ms));
    line("proved", format!("{:?}", grid.proved));
    line("read_spread", list(&spread(random.iter().map(|row| row.reads))));
    line("write_spread", list(&spread(random.iter().map(|row| row.writes))));
    for Throttle { is_of_reads, is_in_bytes, per_s, slice_ms, per_sync } in &calibration.throttles {
        let name = if *is_of_reads { "read_throttle" } else { "write_throttle" };
        let value = format!(
            "{{ is_in_bytes = {is_in_bytes}, per_s = {per_s:.1}, slice_ms = {slice_ms:.1}, per_sync = {per_sync} }}"
        );
        line(name, value);
    }
    let of_kind = |pattern, share| ratios(surface, &of(&measured, pattern), share);
    let durable = of_kind(Pattern::Sync, 0.0);
    let mut writes = of_kind(Pattern::Sequential, 0.0);
    // A write with its sync takes no less than the write.
    for (at, ratio) in &durable {
        if nearest(surface, &writes, at) > *ratio {
            writes.push((*at, *ratio));
        }
    }
    for (name, known) in [
        ("sequential_reads", of_kind(Pattern::Sequential, 1.0)),
        ("sequential_writes", writes),
        ("durable_writes", durable),
    ] {
        if let Some(curve) = Curve::of(surface, &known) {
            line(name, curve.text());
        }
    }
    Ok(text)
}

fn wrong(message: &str) -> ProbeError {
    ProbeError::new(message, "measure random reads, writes and mixes of both")
}

fn random_of(calibration: &Calibration) -> Result<&Surface, ProbeError> {
    let surface = calibration.surfaces.iter().find(|surface| surface.pattern == Pattern::Random);
    surface.ok_or_else(|| wrong("too few random points for the model of a storage"))
}

/// Operations under way of a closed loop.
fn closed(row: &Row) -> Option<f64> {
    match row.point.load {
        Load::Outstanding(outstanding) => Some(outstanding),
        Load::Offered(_) => None,
    }
}

/// Mean latencies over block size, operations under way and read share.
struct Grid {
    blocks: Vec<f64>,
    loads: Vec<f64>,
    shares: Vec<f64>,
    read_ms: Vec<f64>,
    write_ms: Vec<f64>,
    proved: Vec<bool>,
}

impl Grid {
    /// The grid through random points; `None` without one of a closed loop.
    fn of(surface: &Surface, random: &[&Row]) -> Option<Grid> {
        let looped: Vec<&Row> = random.iter().filter(|row| closed(row).is_some()).copied().collect();
        let mut grid = Grid {
            blocks: axis(looped.iter().map(|row| row.point.block_bytes as f64)),
            loads: axis(looped.iter().filter_map(|row| closed(row))),
            shares: with_middles(&axis(looped.iter().map(|row| row.point.read_share))),
            read_ms: Vec::new(),
            write_ms: Vec::new(),
            proved: Vec::new(),
        };
        looped.first()?;
        for block in grid.blocks.clone() {
            for load in grid.loads.clone() {
                for share in grid.shares.clone() {
                    let at = [block.ln(), load.ln(), share];
                    let is_here = |row: &&&Row| {
                        let point = row.point;
                        (point.block_bytes as f64, closed(row), point.read_share)
                            == (block, Some(load), share)
                    };
                    let here: Vec<&Row> = looped.iter().filter(is_here).copied().collect();
                    let (read, write) = latencies(surface, &at, &here);
                    grid.read_ms.push(read);
                    grid.write_ms.push(write);
                    grid.proved.push(surface.is_near(&at));
                }
            }
        }
        Some(grid)
    }
}

/// Mean latencies over block size and operations under way.
struct Curve {
    blocks: Vec<f64>,
    loads: Vec<f64>,
    ms: Vec<f64>,
}

impl Curve {
    /// The curve through points of one kind, each with its latency over a random one; `None` without any.
    fn of(surface: &Surface, known: &[(MapPoint, f64)]) -> Option<Curve> {
        let share = known.first()?.0[2];
        let values = |of: usize| axis(known.iter().map(|(at, _)| at[of].exp()));
        let (blocks, loads) = (values(0), values(1));
        let mut ms = Vec::new();
        for block in &blocks {
            for load in &loads {
                let at = [block.ln(), load.ln(), share];
                ms.push(alone(surface, &at) * nearest(surface, known, &at).exp());
            }
        }
        Some(Curve { blocks, loads, ms })
    }

    fn text(&self) -> String {
        let Curve { blocks, loads, ms } = self;
        format!("{{ block_bytes = {}, outstanding = {}, ms = {} }}", list(blocks), list(loads), list(ms))
    }
}

fn of<'a>(rows: &[&'a Row], pattern: Pattern) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.point.pattern == pattern).copied().collect()
}

/// Logarithm of the latency of points of one kind over that of random ones, by place.
fn ratios(surface: &Surface, rows: &[&Row], share: f64) -> Vec<(MapPoint, f64)> {
    let of_kind = rows.iter().filter(|row| row.point.read_share == share);
    let ratios = of_kind.filter_map(|row| {
        let outstanding = closed(row)?;
        let at = place(row, outstanding);
        let ms = row.mean_ms().or_else(|| Some(1e3 * outstanding / row.iops?))?;
        Some((at, (ms / alone(surface, &at)).ln()))
    });
    ratios.collect()
}

/// Mean latency of a random read or write without the other, by the read share of the place.
fn alone(surface: &Surface, at: &MapPoint) -> f64 {
    let (read, write) = latencies(surface, at, &[]);
    if at[2] == 1.0 { read } else { write }
}

/// Mean latencies of a read and of a write in milliseconds at a place, at which `here` was measured.
fn latencies(surface: &Surface, at: &MapPoint, here: &[&Row]) -> (f64, f64) {
    let mean = |of: &dyn Fn(&Row) -> Option<f64>| {
        let known: Vec<f64> = here.iter().filter_map(|row| of(row)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let [read, write] = surface.latencies(at);
    let share = at[2];
    let of_all = mean(&|row| row.iops).map(|rate| 1e3 * at[1].exp() / rate);
    let measured = |side: fn(&Row) -> Latency, own: f64, otherwise: f64| match mean(&|row| side(row).mean_ms)
    {
        _ if own == 0.0 => otherwise,
        Some(ms) => ms,
        None => of_all.unwrap_or(otherwise),
    };
    (measured(|row| row.reads, share, read), measured(|row| row.writes, 1.0 - share, write))
}

/// Mean of the values of known places, the nearest with by far the most weight; at a known place its value, without any
/// 0.
fn nearest(surface: &Surface, known: &[(MapPoint, f64)], at: &MapPoint) -> f64 {
    if known.is_empty() {
        return 0.0;
    }
    let here = surface.scaled(at);
    let weighted = known.iter().map(|(place, value)| {
        let far = surface.scaled(place).into_iter().zip(here).map(|(one, other)| (one - other).powi(2));
        let weight = 1.0 / (far.sum::<f64>() + 1e-12);
        (weight, weight * value)
    });
    let (weights, values) = weighted.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    values / weights
}

/// Different values in order; if they are many, some of them from the least to the most.
fn axis(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let last = values.len().saturating_sub(1);
    if last < AXIS_MOST {
        return values;
    }
    (0..AXIS_MOST).map(|index| values[index * last / (AXIS_MOST - 1)]).collect()
}

/// The values, and the middle between each two: latencies bend most over the read share.
fn with_middles(values: &[f64]) -> Vec<f64> {
    let middles = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let mut all: Vec<f64> = values.iter().copied().chain(middles).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Median, 95th and 99th percentile over the mean, in the median of the points.
fn spread(latencies: impl Iterator<Item = Latency> + Clone) -> [f64; 3] {
    let of = |quantile: fn(&Latency) -> Option<f64>| {
        let shares = latencies.clone().filter_map(|one| Some(quantile(&one)? / one.mean_ms?));
        median(shares.collect()).unwrap_or(1.0)
    };
    let p50 = of(|one| one.p50_ms);
    let p95 = of(|one| one.p95_ms).max(p50);
    [p50, p95, of(|one| one.p99_ms).max(p95)]
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn list(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
    format!("[{}]", values.join(", "))
}

/// To six decimals: nanoseconds, of milliseconds.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
