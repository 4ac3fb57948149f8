//! The search for the largest load that breaks no limit, as a state machine: measurements in, the next loads to measure
//! or the answer out.
//!
//! It goes up or down from the start until one load breaks no limit and a higher one does, two steps for a doubling,
//! then narrows that bracket to 2 % by the curves of the limits that break, and measures the load below the limit
//! again with another seed. If that breaks a limit, it looks for a load below. Where equal loads scatter, a line
//! through what was measured near the limit tells how sure the place of the limit is.
//!
//! A limit on the worst of many samples is not reached by the load where a higher load keeps it: a light load has few
//! operations in a sample, so a slow one of them makes the sample. So where nothing but such limits breaks, the search
//! measures the next higher load too, and goes on up as long as the worst sample gets better.
//!
//! Invariants
//! 1. No measurement at the answer broke a limit, and no lower load breaks one on the mean of its measurements, except
//!    one on worst samples that the answer keeps.
//! 2. At most [`PROBES_MAX`] measurements, and none outside the range.
//! 3. Same measurements, same steps.
//!
//! Limits: what lies between two measured loads is not seen. A dip narrower than that distance stays unnoticed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::curve::{Crossing, Curve};

/// Largest number of simulations of a search.
pub const PROBES_MAX: usize = 12;
/// Number of simulations that are kept for repeated loads once there is a bracket.
const REPLICATES: usize = 1;
/// Width of a finished bracket, as a share of the load, where seeds do not scatter.
const NARROW: f64 = 1.02;
/// Scatter of the crossing between seeds, as a share of the load, below which it is ignored.
const QUIET: f64 = 0.004;
/// Percent by which a figure worsens per percent of additional load, from which on the limit counts as a cliff.
const CLIFF: f64 = 10.0;
/// Largest distance, as a factor, between a load that holds and the next lower simulated one.
const WIDE: f64 = 1.6;

/// Student's t for the 90 % interval, for one degree of freedom and more.
const ERRORS: [f64; 4] = [6.31, 2.92, 2.35, 2.13];

/// Load that the search wants simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Number of mailboxes to simulate.
    pub load: u64,
    /// Seed of the simulation.
    pub seed: u64,
}

/// Result of a simulated load.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Load and seed of the simulation.
    pub probe: Probe,
    /// Margin of each limit: the logarithm of limit over figure, negative where the limit is broken. Finite numbers, as
    /// many for each measurement.
    pub margins: Vec<f64>,
}

impl Measured {
    fn holds(&self) -> bool {
        self.margins.iter().all(|&margin| margin >= 0.0)
    }
}

/// Next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Simulate these loads, in any order or side by side.
    Measure(Vec<Probe>),
    /// The search has ended.
    Answer(Answer),
}

/// Outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Largest load that breaks no limit.
    Carried(u64),
    /// No simulated load breaks a limit. This is the highest: the end of the range, unless simulations ran out.
    AtLeast(u64),
    /// Every simulated load breaks a limit. This is the lowest: the beginning of the range, unless simulations ran
    /// out.
    NoneInRange(u64),
}

impl Found {
    /// Load that the solution carries, if there is one.
    pub fn load(self) -> Option<u64> {
        match self {
            Found::Carried(load) | Found::AtLeast(load) => Some(load),
            Found::NoneInRange(_) => None,
        }
    }
}

/// How sharply a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One percent more load makes the figure worse by 10 % or more.
    Cliff,
    /// One percent more load makes the figure worse by less than 10 %.
    Slope,
}

/// Load at which one limit is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Index of the limit in [`Measured::margins`].
    pub index: usize,
    /// Load at which the figure reaches the limit; `None` if the limit held, or was broken, at every load.
    pub at: Option<f64>,
    /// Mean margin of the limit at the answer, or at the lowest simulated load without an answer.
    pub margin: f64,
}

/// Answer of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Outcome of the search.
    pub found: Found,
    /// Interval of loads in which the first limit is reached: the bracket, and the 90 % interval of the crossing where
    /// seeds scatter. `None` without a bracket.
    pub interval: Option<(f64, f64)>,
    /// Cliff or slope, if the first limit is reached inside the bracket.
    pub shape: Option<Shape>,
    /// All limits, the one that is reached first in front.
    pub limits: Vec<Limit>,
}

/// Search for the largest load that breaks no limit. It asks for simulations and takes their results.
#[derive(Debug, Clone)]
pub struct Search {
    least: u64,
    most: u64,
    start: u64,
    seed: u64,
    worst: Vec<usize>,
    measured: Vec<Measured>,
}

/// Neighbouring loads: the lower one breaks no limit, the higher one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bracket {
    low: u64,
    high: u64,
}

impl Bracket {
    fn width(self) -> f64 {
        (self.high as f64 / self.low as f64).ln()
    }

    fn is_narrow(self) -> bool {
        self.high - self.low <= 1 || self.high as f64 <= self.low as f64 * NARROW
    }

    /// Load at a share of the bracket, 0 to 1.
    fn inside(self, share: f64) -> u64 {
        let load = (self.low as f64 * (share * self.width()).exp()).round() as u64;
        load.clamp(self.low + 1, self.high - 1)
    }
}

impl Search {
    /// Starts a search from `least` to `most` at `start`. Simulations get `seed` and the numbers after it.
    pub fn new(least: u64, most: u64, start: u64, seed: u64) -> Search {
        let least = least.max(1);
        let most = most.max(least);
        Search { least, most, start: start.clamp(least, most), seed, worst: Vec::new(), measured: Vec::new() }
    }

    /// Names the limits on worst samples, by their index in [`Measured::margins`].
    #[must_use]
    pub fn with_worst(self, worst: Vec<usize>) -> Search {
        Search { worst, ..self }
    }

    /// Adds the result of a simulation.
    pub fn add(&mut self, measured: Measured) {
        self.measured.push(measured);
    }

    /// Results so far.
    pub fn measured(&self) -> &[Measured] {
        &self.measured
    }

    /// Next step, derived from the results.
    pub fn step(&self) -> Step {
        let room = PROBES_MAX.saturating_sub(self.measured.len());
        let mut wanted = self.wanted();
        wanted.truncate(room);
        if wanted.is_empty() { Step::Answer(self.best()) } else { Step::Measure(wanted) }
    }

    /// Lowest load of the next step, where only one load can be measured at a time; `None` when the search has ended.
    pub fn next_alone(&self) -> Option<Probe> {
        match self.step() {
            Step::Measure(probes) => probes.into_iter().min_by_key(|probe| probe.load),
            Step::Answer(_) => None,
        }
    }

    fn wanted(&self) -> Vec<Probe> {
        if let Some(above) = self.above_light() {
            return self.each(&[up(above, self.stride())]);
        }
        match (self.highest_safe(), self.lowest_broken()) {
            (None, None) if self.measured.is_empty() => {
                self.each(&[self.start, down(self.start, self.stride())])
            }
            (None, None) => self.each(&[down(self.lowest(), self.stride())]),
            (Some(low), None) if low == self.most => self.again(low, 2),
            (Some(low), None) => self.each(&[up(low, self.stride())]),
            (None, Some(high)) if high == self.least => Vec::new(),
            (None, Some(high)) => self.each(&[down(high, self.stride())]),
            (Some(low), Some(high)) => {
                let bracket = Bracket { low, high };
                if let Some(below) = self.unknown_below(low) {
                    return self.each(&[below]);
                }
                let has_room = self.measured.len() + REPLICATES < PROBES_MAX;
                match bracket.is_narrow() || !has_room {
                    true => self.again(low, if self.scattering(bracket).is_some() { 3 } else { 2 }),
                    false => self.once(bracket.inside(self.share(bracket))),
                }
            }
        }
    }

    /// Factor of the next step: two steps double the load at first, so that no wide dip is passed over; later each
    /// step doubles it.
    fn stride(&self) -> f64 {
        if self.measured.len() <= 5 { 2.0_f64.sqrt() } else { 2.0 }
    }

    /// Step that simulates these loads, as far as they lie in the range.
    fn each(&self, loads: &[u64]) -> Vec<Probe> {
        let mut loads: Vec<u64> =
            loads.iter().map(|load| load.clamp(&self.least, &self.most)).copied().collect();
        loads.dedup();
        loads.into_iter().flat_map(|load| self.once(load)).collect()
    }

    /// The next lower load to simulate, if none close below `low` has been: a load between two that break limits may
    /// break none.
    fn unknown_below(&self, low: u64) -> Option<u64> {
        let near = low as f64 / WIDE;
        let is_known = loads(&self.measured).any(|load| load < low && load as f64 >= near);
        (low > self.least && !is_known).then(|| down(low, 2.0_f64.sqrt()))
    }

    /// Step that simulates a load once more.
    fn once(&self, load: u64) -> Vec<Probe> {
        self.again(load, self.times(load) + 1)
    }

    /// Step that simulates a load with other seeds until it has this number of results.
    fn again(&self, load: u64, times: usize) -> Vec<Probe> {
        let done = self.times(load);
        (done..times).map(|number| Probe { load, seed: self.seed.wrapping_add(number as u64) }).collect()
    }

    fn times(&self, load: u64) -> usize {
        self.measured.iter().filter(|one| one.probe.load == load).count()
    }

    fn lowest(&self) -> u64 {
        loads(&self.measured).min().unwrap_or(self.start)
    }

    fn lowest_broken(&self) -> Option<u64> {
        self.lowest_broken_of(&self.measured)
    }

    fn highest_safe(&self) -> Option<u64> {
        self.highest_safe_of(&self.measured)
    }

    /// Lowest load whose mean margins break a limit.
    fn lowest_broken_of(&self, measured: &[Measured]) -> Option<u64> {
        loads(measured).filter(|&load| self.is_broken(measured, load)).min()
    }

    /// Highest load below that at which no simulation broke a limit.
    fn highest_safe_of(&self, measured: &[Measured]) -> Option<u64> {
        let broken = self.lowest_broken_of(measured).unwrap_or(u64::MAX);
        loads(measured).filter(|&load| load < broken && is_safe(measured, load)).max()
    }

    fn is_broken(&self, measured: &[Measured], load: u64) -> bool {
        let here = || measured.iter().filter(|one| one.probe.load == load);
        let limits = measured.first().map_or(0, |one| one.margins.len());
        (0..limits)
            .filter(|limit| self.counts(measured, *limit, load))
            .any(|limit| here().map(|one| one.margins[limit]).sum::<f64>() < 0.0)
    }

    /// Whether a limit counts at a load: one on worst samples that breaks does not where a higher load keeps all.
    fn counts(&self, measured: &[Measured], limit: usize, load: u64) -> bool {
        let is_kept_above = || loads(measured).any(|above| above > load && is_safe(measured, above));
        !self.worst.contains(&limit) || is_safe(measured, load) || !is_kept_above()
    }

    /// The highest load, if it may be too light for the limits on worst samples: it breaks nothing else, and is the
    /// first that breaks them or breaks them by less than the next lower load.
    fn above_light(&self) -> Option<u64> {
        let highest = loads(&self.measured).max().filter(|&highest| highest < self.most)?;
        let limits = 0..self.measured.first()?.margins.len();
        let by = |load| limits.clone().map(|limit| self.mean(limit, load).min(0.0)).sum::<f64>();
        let below = loads(&self.measured).filter(|&load| load < highest).max().map_or(0.0, by);
        let is_first = highest <= self.start || below >= 0.0;
        let is_only_worst =
            limits.clone().all(|limit| self.worst.contains(&limit) || self.mean(limit, highest) >= 0.0);
        (is_only_worst && by(highest) < 0.0 && (is_first || by(highest) > below)).then_some(highest)
    }

    /// Mean margin of a limit at a load that was measured.
    fn mean(&self, limit: usize, load: u64) -> f64 {
        let here = self.measured.iter().filter(|one| one.probe.load == load);
        here.map(|one| one.margins[limit]).sum::<f64>() / self.times(load) as f64
    }

    /// Place in the bracket to simulate next: where the line between the margins of the first limit crosses zero, or
    /// the middle if that did not halve the bracket last time.
    fn share(&self, bracket: Bracket) -> f64 {
        let before = &self.measured[..self.measured.len() - 1];
        let last = self
            .highest_safe_of(before)
            .zip(self.lowest_broken_of(before))
            .map(|(low, high)| Bracket { low, high });
        if last.is_some_and(|last| last.width() < 2.0 * bracket.width()) {
            return 0.5;
        }
        let crossing = self.curves().filter_map(|curve| {
            let (low, high) = (curve.mean(bracket.low)?, curve.mean(bracket.high)?);
            (high < 0.0).then(|| low.max(0.0) / (low.max(0.0) - high))
        });
        crossing.fold(1.0, f64::min).clamp(0.25, 0.75)
    }

    fn curves(&self) -> impl Iterator<Item = Curve> + '_ {
        let limits = self.measured.first().map_or(0, |one| one.margins.len());
        (0..limits).map(|index| {
            let mut curve = Curve::default();
            let counting =
                self.measured.iter().filter(|one| self.counts(&self.measured, index, one.probe.load));
            counting.for_each(|one| curve.add(one.probe.load, one.margins[index]));
            curve
        })
    }

    /// The lowest load near the bracket at which the margin of a limit crosses zero.
    fn crossing(&self, bracket: Bracket) -> Option<Crossing> {
        let broken = self.curves().filter(|curve| curve.mean(bracket.high).is_some_and(|mean| mean < 0.0));
        let near = broken.filter_map(|curve| curve.crossing(curve.falls_through_zero_at()?));
        near.min_by(|a, b| a.ln_load.total_cmp(&b.ln_load))
    }

    /// The load at which the first limit is reached, if seeds make it differ by more than [`QUIET`].
    fn scattering(&self, bracket: Bracket) -> Option<Crossing> {
        self.crossing(bracket).filter(|crossing| crossing.scatter > QUIET)
    }

    /// Answer that the results so far allow. It is the answer of the search once [`Search::step`] says so.
    pub fn best(&self) -> Answer {
        let lowest = self.lowest();
        let bracket = self.highest_safe().zip(self.lowest_broken()).map(|(low, high)| Bracket { low, high });
        let found = match (self.highest_safe(), bracket) {
            (Some(load), None) => Found::AtLeast(load),
            (Some(load), Some(_)) => Found::Carried(load),
            (None, _) => Found::NoneInRange(lowest),
        };
        let at = found.load().unwrap_or(lowest);
        let mut limits: Vec<Limit> = self
            .curves()
            .enumerate()
            .map(|(index, curve)| Limit {
                index,
                at: curve.falls_through_zero_at().map(f64::exp),
                margin: curve.mean(at).unwrap_or(0.0),
            })
            .collect();
        let key = |limit: &Limit| limit.at.unwrap_or(if limit.margin < 0.0 { 0.0 } else { f64::INFINITY });
        limits.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.margin.total_cmp(&b.margin)));
        Answer {
            found,
            interval: bracket.map(|bracket| self.interval(bracket)),
            shape: bracket.map(|bracket| self.shape(bracket)),
            limits,
        }
    }

    fn interval(&self, bracket: Bracket) -> (f64, f64) {
        let (low, high) = (bracket.low as f64, bracket.high as f64);
        let Some(crossing) = self.crossing(bracket) else {
            return (low, high);
        };
        let at = |errors: f64| (crossing.ln_load + errors * crossing.error).exp();
        let errors = ERRORS[crossing.freedom.clamp(1, ERRORS.len()) - 1];
        (at(-errors).min(low), at(errors).max(high))
    }

    /// Change of the limit's margin per percent of additional load, percent; negative.
    fn slope(&self, bracket: Bracket) -> f64 {
        let across = |curve: Curve| {
            let (low, high) = (curve.mean(bracket.low)?, curve.mean(bracket.high)?);
            (high < 0.0).then(|| (high - low) / bracket.width())
        };
        self.scattering(bracket)
            .map(|crossing| crossing.slope)
            .or_else(|| self.curves().filter_map(across).reduce(f64::min))
            .unwrap_or(0.0)
    }

    fn shape(&self, bracket: Bracket) -> Shape {
        if self.slope(bracket) <= -CLIFF { Shape::Cliff } else { Shape::Slope }
    }
}

fn up(load: u64, stride: f64) -> u64 {
    (load as f64 * stride).ceil() as u64
}

fn down(load: u64, stride: f64) -> u64 {
    (load as f64 / stride).floor() as u64
}

fn loads(measured: &[Measured]) -> impl Iterator<Item = u64> + '_ {
    measured.iter().map(|one| one.probe.load)
}

fn is_safe(measured: &[Measured], load: u64) -> bool {
    measured.iter().filter(|one| one.probe.load == load).all(Measured::holds)
}
