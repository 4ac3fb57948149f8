//! From points that were measured to a prediction of others, with an interval that is as wide as it has to be.
//!
//! Three regressions are made: of the rates themselves, of what they leave over the formula of the narrowest part, and
//! of the latencies of reads and of writes. A prediction is their mean, each with the weight of its certainty. How far
//! the interval reaches follows from points that were left out (conformal prediction), so it covers what it says it
//! covers.
//!
//! What a limit lets through in slices is learned apart ([`Throttle`]): the regressions are of the storage without it,
//! and no prediction is above it.

use crate::bottleneck::{Bottleneck, MapPoint};
use crate::check::check_set;
use crate::gaussian::{Estimate, Process, Scaled};
use crate::hull::is_within;
use crate::point::{Load, POINTS_MIN, Pattern, Point, ProbeError, Row};
use crate::throttle::{NEAR, Throttle};

/// Largest distance from the convex hull of the measured points, as a share of their range, at which a point is still
/// predicted.
const BESIDE: f64 = 0.1;
/// Number of parts into which the points are divided for cross-validation; each is left out in turn.
const FOLDS: usize = 15;
/// Fewest mixed points from which latencies of reads and of writes are learned apart.
const MIXED_MIN: usize = 6;
/// Share of measurements that the prediction interval must contain.
const COVERED: f64 = 0.9;

/// Prediction for a point of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Predicted operations per second.
    pub iops: f64,
    /// Interval of operations per second that contains nine of ten measurements.
    pub interval: (f64, f64),
    /// Predicted mean latency of an operation, ms.
    pub latency_ms: f64,
}

/// Error of predictions, in percent of the measured values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Number of compared predictions.
    pub points: usize,
    /// Mean error, percent.
    pub mean: f64,
    /// 90th percentile of the error, percent.
    pub p90: f64,
    /// Percent of the measurements that lie in their intervals.
    pub covered: f64,
}

impl Errors {
    /// Compares predictions with measurements; `None` without any.
    pub fn of(pairs: &[(Prediction, f64)]) -> Option<Errors> {
        let mut off: Vec<f64> =
            pairs.iter().map(|(one, iops)| 100.0 * (one.iops / iops - 1.0).abs()).collect();
        off.sort_by(f64::total_cmp);
        let held = pairs.iter().filter(|(one, iops)| (one.interval.0..=one.interval.1).contains(iops));
        let points = off.len();
        let p90 = *off.get((points * 9).div_ceil(10).checked_sub(1)?)?;
        let share = 100.0 / points as f64;
        Some(Errors {
            points,
            mean: off.iter().sum::<f64>() / points as f64,
            p90,
            covered: held.count() as f64 * share,
        })
    }
}

/// What was measured at one point.
#[derive(Clone, Copy)]
struct Known {
    place: MapPoint,
    ln_rate: f64,
    /// Logarithms of the mean latencies of reads and of writes, in milliseconds.
    ln_ms: [Option<f64>; 2],
    /// Most IOPS that the limits let through there, and the measured ones.
    most: f64,
    iops: f64,
}

/// Formula and Gaussian processes, fitted to one set of points.
struct Model {
    ranges: [(f64, f64); 3],
    formula: Bottleneck,
    plain: Process,
    above: Process,
    /// Latencies of reads and of writes, if enough mixed points have both.
    apart: Option<[Process; 2]>,
}

impl Model {
    /// Fits the models to points; takes the shapes of another model if one is given, which is faster.
    fn fit(known: &[Known], shaped: Option<&Model>) -> Option<Model> {
        let (places, ln_rates): (Vec<MapPoint>, Vec<f64>) =
            known.iter().map(|one| (one.place, one.ln_rate)).unzip();
        let ranges = shaped.map_or_else(|| ranges(&places), |model| model.ranges);
        let scaled: Vec<Scaled> = places.iter().map(|place| scale(&ranges, place)).collect();
        let formula = Bottleneck::fit(&places, &ln_rates);
        let rests: Vec<f64> = known.iter().map(|one| one.ln_rate - formula.ln_rate(&one.place)).collect();
        let plain = Process::fit(&scaled, &ln_rates, shaped.map(|model| &model.plain))?;
        let above = Process::fit(&scaled, &rests, shaped.map(|model| &model.above))?;
        let has_both = |one: &&Known| one.ln_ms.iter().all(Option::is_some);
        let is_apart = match shaped {
            Some(model) => model.apart.is_some(),
            None => known.iter().filter(has_both).count() >= MIXED_MIN,
        };
        let side = |side: usize| {
            let own = known.iter().zip(&scaled).filter_map(|(one, place)| Some((*place, one.ln_ms[side]?)));
            let (places, latencies): (Vec<Scaled>, Vec<f64>) = own.unzip();
            let shaped = shaped.and_then(|model| model.apart.as_ref());
            Process::fit(&places, &latencies, shaped.map(|both| &both[side]))
        };
        let apart = if is_apart { Some([side(0)?, side(1)?]) } else { None };
        Some(Model { ranges, formula, plain, above, apart })
    }

    /// Mean latencies of reads and of writes in milliseconds at a place, and how uncertain the rate is that follows.
    fn apart(&self, place: &MapPoint) -> Option<([f64; 2], Estimate)> {
        let both = self.apart.as_ref()?.each_ref().map(|process| process.at(&scale(&self.ranges, place)));
        let latencies = both.map(|one| one.mean.exp());
        let shares = [place[2] * latencies[0], (1.0 - place[2]) * latencies[1]];
        let mean_ms = shares[0] + shares[1];
        let variance = [0, 1].map(|side| (shares[side] / mean_ms * both[side].deviation).powi(2));
        let rate =
            Estimate { mean: place[1] - (mean_ms / 1e3).ln(), deviation: (variance[0] + variance[1]).sqrt() };
        Some((latencies, rate))
    }

    /// Predicted logarithm of the rate at a place.
    fn at(&self, place: &MapPoint) -> Estimate {
        let scaled = scale(&self.ranges, place);
        let (plain, above) = (self.plain.at(&scaled), self.above.at(&scaled));
        let above = Estimate { mean: above.mean + self.formula.ln_rate(place), ..above };
        let all = [plain, above].into_iter().chain(self.apart(place).map(|(_, rate)| rate));
        let certain = |one: &Estimate| one.deviation.powi(-4);
        let sum: f64 = all.clone().map(|one| certain(&one)).sum();
        let mean_of = |of: &dyn Fn(&Estimate) -> f64| {
            all.clone().map(|one| certain(&one) / sum * of(&one)).sum::<f64>()
        };
        Estimate { mean: mean_of(&|one| one.mean), deviation: mean_of(&|one| one.deviation.powi(2)).sqrt() }
    }
}

fn ranges(places: &[MapPoint]) -> [(f64, f64); 3] {
    std::array::from_fn(|axis| {
        let values = places.iter().map(|place| place[axis]);
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    })
}

/// Scales an axis to -1 to 1 over the range of the measured points.
fn scale(ranges: &[(f64, f64); 3], place: &MapPoint) -> Scaled {
    std::array::from_fn(|axis| {
        let (low, high) = ranges[axis];
        (2.0 * place[axis] - low - high) / (high - low).max(1e-6)
    })
}

/// Fitted prediction for one pattern (random, sequential or sync).
pub struct Surface {
    /// Pattern of the points.
    pub pattern: Pattern,
    /// Error of predictions for points that were left out of the fit.
    pub left_out: Errors,
    model: Model,
    /// Places of the points, scaled, and of those that waited for a limit.
    learned: Vec<Scaled>,
    waiting: Vec<Scaled>,
    /// Half width of the interval, in standard deviations.
    reach: f64,
}

impl Surface {
    /// Fits a surface to points. Those that waited for a limit say nothing of the storage without it: their predictions
    /// are only judged.
    fn fit(pattern: Pattern, known: &[Known], waiting: &[Known]) -> Result<Surface, ProbeError> {
        let none = || {
            let message = format!("no regression of the {} points can be found", pattern.name());
            ProbeError::new(message, "look for points whose IOPS differ wildly from those next to them")
        };
        let model = Model::fit(known, None).ok_or_else(none)?;
        let mut estimates = Vec::new();
        for fold in 0..FOLDS {
            let is_left = |index: usize| index % FOLDS == fold;
            let kept: Vec<Known> =
                (0..known.len()).filter(|index| !is_left(*index)).map(|index| known[index]).collect();
            let part = Model::fit(&kept, Some(&model)).ok_or_else(none)?;
            let left = (0..known.len()).filter(|index| is_left(*index)).map(|index| known[index]);
            estimates.extend(left.map(|one| (part.at(&one.place), one)));
        }
        let scores = estimates.iter().map(|(one, known)| (one.mean - known.ln_rate).abs() / one.deviation);
        let mut scores: Vec<f64> = scores.collect();
        scores.sort_by(f64::total_cmp);
        let rank = (COVERED * (scores.len() + 1) as f64).ceil() as usize;
        let reach = scores[rank.min(scores.len()) - 1];
        estimates.extend(waiting.iter().map(|one| (model.at(&one.place), *one)));
        let pairs = estimates.iter().map(|(one, known)| {
            let prediction = prediction(one, reach, known.place[1].exp(), known.most);
            (prediction, known.iops)
        });
        let left_out = Errors::of(&pairs.collect::<Vec<_>>()).ok_or_else(none)?;
        let [learned, waiting] = [known, waiting]
            .map(|points| points.iter().map(|one| scale(&model.ranges, &one.place)).collect());
        Ok(Surface { pattern, left_out, model, learned, waiting, reach })
    }

    /// Mean latencies of reads and of writes at a place, ms; the same for both if they were not measured apart.
    pub(crate) fn latencies(&self, place: &MapPoint) -> [f64; 2] {
        let of_all = || [1e3 * (place[1] - self.model.at(place).mean).exp(); 2];
        self.model.apart(place).map_or_else(of_all, |(latencies, _)| latencies)
    }

    /// The place with each axis scaled to the range of the points.
    pub(crate) fn scaled(&self, place: &MapPoint) -> Scaled {
        scale(&self.model.ranges, place)
    }

    /// Whether the place is in the hull of the points or next to it.
    pub(crate) fn is_near(&self, place: &MapPoint) -> bool {
        is_within(&self.learned, &self.scaled(place), 2.0 * BESIDE)
    }

    /// Prediction where limits let at most `most` IOPS through; `None` where no measured point is near. Points that
    /// waited say what a limit lets through, and nothing of the storage without it.
    fn predict(&self, place: &MapPoint, most: f64) -> Option<Prediction> {
        let estimate = self.model.at(place);
        let of_limit = || {
            let all = [&self.learned[..], &self.waiting].concat();
            estimate.mean.exp() >= most && is_within(&all, &self.scaled(place), 2.0 * BESIDE)
        };
        let is_near = self.is_near(place) || of_limit();
        is_near.then(|| prediction(&estimate, self.reach, place[1].exp(), most))
    }
}

/// Prediction where limits let at most `most` IOPS through, which itself is known to [`NEAR`].
fn prediction(estimate: &Estimate, reach: f64, outstanding: f64, most: f64) -> Prediction {
    let half = reach * estimate.deviation;
    let iops = estimate.mean.exp().min(most);
    let [low, high] =
        [-1.0, 1.0].map(|side| (estimate.mean + side * half).exp().min(most * (1.0 + side * NEAR)));
    let interval = (low, high);
    Prediction { iops, interval, latency_ms: 1e3 * outstanding / iops }
}

pub(crate) fn place(row: &Row, outstanding: f64) -> MapPoint {
    [(row.point.block_bytes as f64).ln(), outstanding.ln(), row.point.read_share]
}

/// Prediction of a storage's rates and latencies under closed loops, learned from a probe.
pub struct Calibration {
    /// Fitted predictions, one for each pattern with enough points.
    pub surfaces: Vec<Surface>,
    /// Limits that the points show.
    pub throttles: Vec<Throttle>,
    /// Points as they would be without the limits, but for those that say nothing about that.
    pub(crate) lifted: Vec<Row>,
}

/// Most IOPS that limits let through at a point.
fn most(throttles: &[Throttle], point: &Point) -> f64 {
    throttles.iter().map(|throttle| throttle.most(point)).fold(f64::INFINITY, f64::min)
}

impl Calibration {
    /// Fits the predictions to measured points. Unsteady points count like others: the interval must contain their
    /// noise.
    ///
    /// # Errors
    /// If they cannot have been measured, or are too few.
    pub fn new(rows: &[Row]) -> Result<Calibration, ProbeError> {
        check_set(rows)?;
        let (throttles, lifted) = Throttle::lifted(rows);
        let mut surfaces = Vec::new();
        for pattern in Pattern::ALL {
            let known = |(row, measured): (&Row, &Row)| {
                let place = place(row, row.outstanding()?);
                let ln_ms = [row.reads, row.writes].map(|side| side.mean_ms.map(f64::ln));
                let most = most(&throttles, &row.point);
                Some(Known { place, ln_rate: row.iops?.ln(), ln_ms, most, iops: measured.iops? })
            };
            let of_pattern = rows.iter().zip(&lifted).filter(|(row, _)| row.point.pattern == pattern);
            let (mut learned, mut waiting) = (Vec::new(), Vec::new());
            for (row, lifted) in of_pattern {
                match lifted {
                    Some(lifted) => learned.extend(known((lifted, row))),
                    None => waiting.extend(known((row, row))),
                }
            }
            if learned.len() >= POINTS_MIN {
                surfaces.push(Surface::fit(pattern, &learned, &waiting)?);
            }
        }
        if surfaces.is_empty() {
            let measured = rows.iter().filter(|row| row.iops.is_some()).count();
            let message = format!("{measured} measured points, and no pattern has {POINTS_MIN}: too few");
            return Err(ProbeError::new(
                message,
                "measure more: `proofload probe --next N --after FILE` chooses them",
            ));
        }
        Ok(Calibration { surfaces, throttles, lifted: lifted.into_iter().flatten().collect() })
    }

    /// Predicts a point of a closed loop; `None` where no measured point is near.
    ///
    /// # Errors
    /// If the point is of an open loop.
    pub fn predict(&self, row: &Row) -> Result<Option<Prediction>, ProbeError> {
        let Load::Outstanding(outstanding) = row.point.load else {
            let message = "a point of an open loop cannot be predicted";
            return Err(ProbeError::new(message, "give `outstanding` in place of `offered_iops`"));
        };
        let surface = self.surfaces.iter().find(|surface| surface.pattern == row.point.pattern);
        let Some(surface) = surface else { return Ok(None) };
        Ok(surface.predict(&place(row, outstanding), most(&self.throttles, &row.point)))
    }
}

#[cfg(test)]
mod tests {
    use crate::choose::{farthest, usual_points};
    use crate::point::Latency;

    use super::*;

    /// Rates of a made-up storage with a cache. Blocks above 128 KiB take two accesses, and writes cost more than
    /// reads.
    fn measured(seed: u64) -> Vec<Row> {
        let mut dice = seed;
        let rows = usual_points().into_iter().map(|point| {
            let Load::Outstanding(outstanding) = point.load else { unreachable!("a closed loop") };
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = ((dice >> 33) as f64 / f64::from(1_u32 << 31) - 0.5) * 0.04;
            let (block, share) = (point.block_bytes as f64, point.read_share);
            let split = (block / 131_072.0).ceil();
            let disks = split * (0.4 * share + 1.5 * (1.0 - share)) * (2e-3 + block / split / 2e8) / 24.0;
            let narrowest = disks.max(block / 9e8).max(2e-5);
            let alone = 2e-4 + 1.5e-3 * share + block / 4e8;
            let iops = outstanding / (alone + narrowest * outstanding.powf(0.95)) * f64::exp(noise);
            Row { iops: Some(iops), ..Row::unmeasured(point) }
        });
        rows.collect()
    }

    /// The same behind a limit of 500 writes a second in slices, for which all writes wait where 64 are under way.
    fn limited(seed: u64) -> Vec<Row> {
        let limited = measured(seed).into_iter().map(|row| {
            let (free, outstanding) = (row.iops.unwrap(), row.outstanding().unwrap());
            let (free_ms, writes) = (1e3 * outstanding / free, 1.0 - row.point.read_share);
            let iops = free.min(500.0 / writes);
            let mean_ms =
                if writes > 0.0 { free_ms + (1e3 * outstanding / iops - free_ms) / writes } else { free_ms };
            let p50_ms = if outstanding < 64.0 { free_ms } else { mean_ms };
            let reads = Latency { mean_ms: Some(free_ms), p50_ms: Some(free_ms), ..Latency::default() };
            let p99_ms = Some(if iops < free { 95.0_f64.max(p50_ms) } else { mean_ms });
            let writes = Latency { mean_ms: Some(mean_ms), p50_ms: Some(p50_ms), p95_ms: None, p99_ms };
            Row { iops: Some(iops), reads, writes, ..row }
        });
        limited.collect()
    }

    fn errors(measured: fn(u64) -> Vec<Row>, chosen: usize) -> Errors {
        let mut pairs = Vec::new();
        for seed in 0..2 {
            let rows = measured(seed);
            let points: Vec<_> = rows.iter().map(|row| row.point).collect();
            let chosen = farthest(&points, &[], chosen);
            let known: Vec<Row> = chosen.iter().map(|index| rows[*index]).collect();
            let calibration = Calibration::new(&known).unwrap();
            for (index, row) in rows.iter().enumerate().filter(|(index, _)| !chosen.contains(index)) {
                let predicted = calibration.predict(row).unwrap();
                pairs.extend(predicted.map(|one| (one, rows[index].iops.unwrap())));
            }
        }
        Errors::of(&pairs).unwrap()
    }

    #[test]
    fn more_points_predict_the_others_better_and_the_interval_holds_what_it_says() {
        for (chosen, mean, p90) in [(30, 7.0, 15.0), (60, 4.0, 9.0)] {
            let errors = errors(measured, chosen);
            assert!(errors.mean <= mean && errors.p90 <= p90, "{chosen}: {errors:?}");
            assert!((84.0..=99.0).contains(&errors.covered), "{chosen}: {errors:?}");
        }
    }

    #[test]
    fn a_limit_is_learned_apart_and_no_prediction_is_above_it() {
        let errors = errors(limited, 60);
        assert!(errors.points > 400, "points that wait for a limit show what it lets through: {errors:?}");
        assert!(errors.mean <= 3.0 && errors.p90 <= 6.0 && errors.covered >= 84.0, "{errors:?}");
    }

    #[test]
    fn nothing_is_predicted_far_from_what_was_probed() {
        let rows = measured(1);
        let calibration = Calibration::new(&rows[..200]).unwrap();
        assert!(calibration.predict(&rows[3]).unwrap().is_some());
        assert_eq!(calibration.predict(&rows[314]).unwrap(), None);
        let sequential = crate::Point { pattern: Pattern::Sequential, ..rows[3].point };
        assert_eq!(calibration.predict(&Row::unmeasured(sequential)).unwrap(), None);
    }

    #[test]
    fn too_few_points_and_a_collapsed_probe_are_refused() {
        let mut rows = measured(1);
        let error = Calibration::new(&rows[..11]).err().unwrap();
        assert!(error.message.starts_with("11 measured points"), "{error}");
        for row in &mut rows {
            row.iops = Some(4e8 / row.point.block_bytes as f64);
        }
        let error = Calibration::new(&rows).err().unwrap();
        assert!(error.message.contains("collapsed"), "{error}");
    }
}
