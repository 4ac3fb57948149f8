//! The arithmetic of a measured window: totals, samples, percentiles.
//!
//! Invariants
//! 1. A point counts where the middle of its interval lies, so ticks that come a little early or late change nothing.
//! 2. A measure of a host is taken from its host rows if it has any, else from its instances and databases: never both.
//! 3. A sample without an operation is a sample of zero.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::Deserializer;
use results::{Counter, Measure, Origin, Tally, Test};

use super::ReportError;
use super::model::{Figures, Percentiles};
use crate::run_data::{CounterPoint, Point, RunData, SeriesKey, Slice};

const MIB: f64 = (1 << 20) as f64;

/// An interval that points are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start_ms: u64,
    pub end_ms: u64,
}

impl Span {
    pub fn seconds(self) -> f64 {
        self.end_ms.saturating_sub(self.start_ms) as f64 / 1e3
    }

    pub fn holds(self, moment: &impl Moment) -> bool {
        (self.start_ms..self.end_ms).contains(&moment.middle_ms())
    }
}

/// Something with a place in time.
pub trait Moment {
    fn middle_ms(&self) -> u64;
}

impl Moment for Point {
    fn middle_ms(&self) -> u64 {
        self.t_ms + self.interval_ms / 2
    }
}

impl Moment for CounterPoint {
    fn middle_ms(&self) -> u64 {
        self.t_ms + self.interval_ms / 2
    }
}

impl Moment for Slice {
    fn middle_ms(&self) -> u64 {
        self.t_ms + self.interval_ms / 2
    }
}

/// Which rows of a test are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All hosts together.
    All,
    /// One host.
    Host(&'a str),
    /// One instance with its databases.
    Instance(&'a str, &'a str),
    /// Exactly this database.
    Database(&'a Origin),
    /// Exactly these databases and logs.
    Origins(&'a [Origin]),
}

impl Scope<'_> {
    fn holds(self, origin: &Origin) -> bool {
        match self {
            Scope::All => true,
            Scope::Host(host) => origin.host == host,
            Scope::Instance(host, instance) => {
                origin.host == host && origin.instance.as_deref() == Some(instance)
            }
            Scope::Database(database) => origin == database,
            Scope::Origins(origins) => origins.contains(origin),
        }
    }
}

/// The series of a test that `scope` means, host rows before the rows they sum up.
fn sources<'a, M: Copy + Ord, P>(
    series: &'a BTreeMap<SeriesKey<M>, Vec<P>>,
    test: u32,
    measure: M,
    scope: Scope<'a>,
) -> impl Iterator<Item = &'a Vec<P>> {
    let host_row = move |host: &str| series.contains_key(&(test, Origin::host(host), measure));
    of_test(series, test).filter_map(move |((_, origin, m), points)| {
        let summed_up = origin.instance.is_some()
            && matches!(scope, Scope::All | Scope::Host(_))
            && host_row(&origin.host);
        (*m == measure && scope.holds(origin) && !summed_up).then_some(points)
    })
}

/// All series of a test.
pub fn of_test<M: Ord, P>(
    series: &BTreeMap<SeriesKey<M>, Vec<P>>,
    test: u32,
) -> impl Iterator<Item = (&SeriesKey<M>, &Vec<P>)> {
    // Keys begin with the test, but a range needs a whole key; the tests of a run are few.
    series.iter().filter(move |((t, _, _), _)| *t == test)
}

/// One test with its window and samples.
pub struct TestView<'a> {
    pub data: &'a RunData,
    pub test: &'a Test,
    /// The measured window; the whole test if it has none.
    pub span: Span,
    /// Whether the run ended before the window or the test did.
    pub cut: bool,
    /// Starts of the whole samples in the window.
    pub samples: Vec<u64>,
    sample_ms: u64,
}

impl<'a> TestView<'a> {
    pub fn new(data: &'a RunData, test: &'a Test) -> TestView<'a> {
        let known_until = last_point_ms(data, test.ordinal).unwrap_or(test.started_ms).max(test.started_ms);
        let (start_ms, end_ms) = match test.window_start_ms {
            Some(start) => (start, test.window_end_ms),
            None => (test.started_ms, test.ended_ms),
        };
        let span = Span { start_ms, end_ms: end_ms.unwrap_or(known_until).max(start_ms) };
        let sample_ms = test.sample_ms.max(1);
        let samples = sample_starts(data, test.ordinal, span, sample_ms);
        TestView { data, test, span, cut: end_ms.is_none(), samples, sample_ms }
    }

    /// Points of any of `measures` in the window.
    pub fn points<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> impl Iterator<Item = &'s Point>
    where
        'a: 's,
    {
        let (data, ordinal, span) = (self.data, self.test.ordinal, self.span);
        measures
            .iter()
            .copied()
            .flat_map(move |measure| sources(&data.series, ordinal, measure, scope))
            .flat_map(|points| points.iter())
            .filter(move |point| span.holds(*point))
    }

    pub fn totals(&self, scope: Scope<'a>, measures: &[Measure]) -> Tally {
        let mut totals = Tally::default();
        self.points(scope, measures).for_each(|point| totals.add(point.tally));
        totals
    }

    /// Counter points in the window.
    pub fn counters(&self, scope: Scope<'a>, counter: Counter) -> impl Iterator<Item = &'a CounterPoint> {
        let span = self.span;
        sources(&self.data.counters, self.test.ordinal, counter, scope)
            .flat_map(|points| points.iter())
            .filter(move |point| span.holds(*point))
    }

    pub fn counter_sum(&self, scope: Scope<'a>, counter: Counter) -> Option<u64> {
        let mut points = self.counters(scope, counter).peekable();
        points.peek()?;
        Some(points.map(|point| point.value).sum())
    }

    /// Latency distributions in the window.
    pub fn slices(&self, scope: Scope<'a>, measure: Measure) -> impl Iterator<Item = &'a Slice> {
        let span = self.span;
        sources(&self.data.histograms, self.test.ordinal, measure, scope)
            .flat_map(|slices| slices.iter())
            .filter(move |slice| span.holds(*slice))
    }

    /// The sample that a moment belongs to.
    pub fn sample_of(&self, moment: &impl Moment) -> Option<usize> {
        let middle = moment.middle_ms();
        let index = self.samples.partition_point(|&start| start <= middle).checked_sub(1)?;
        let is_last = index + 1 == self.samples.len();
        (!is_last || middle < self.samples[index] + self.sample_ms + self.sample_ms / 2).then_some(index)
    }

    /// Length of a sample.
    pub fn sample_seconds(&self, index: usize) -> f64 {
        let end = self.samples.get(index + 1).copied().unwrap_or(self.samples[index] + self.sample_ms);
        (end - self.samples[index]) as f64 / 1e3
    }

    /// Figures of `measures` taken together; `None` if nothing was counted.
    pub fn figures<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> Option<Figures>
    where
        'a: 's,
    {
        self.figures_of_parts(&[(scope, measures)])
    }

    /// Figures of several scopes with measures of their own, taken together.
    pub fn figures_of_parts<'s>(&self, parts: &[(Scope<'s>, &[Measure])]) -> Option<Figures>
    where
        'a: 's,
    {
        let mut totals = Tally::default();
        parts.iter().for_each(|(scope, measures)| {
            self.points(*scope, measures).for_each(|point| totals.add(point.tally));
        });
        (totals.count > 0).then(|| self.figures_of(&totals, &self.samples_of_parts(parts)))
    }

    /// What was counted of `measures` in each sample.
    pub fn sample_totals<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> Vec<Tally>
    where
        'a: 's,
    {
        self.samples_of_parts(&[(scope, measures)])
    }

    fn samples_of_parts<'s>(&self, parts: &[(Scope<'s>, &[Measure])]) -> Vec<Tally>
    where
        'a: 's,
    {
        let mut samples = vec![Tally::default(); self.samples.len()];
        for point in parts.iter().flat_map(|(scope, measures)| self.points(*scope, measures)) {
            if let Some(index) = self.sample_of(point) {
                samples[index].add(point.tally);
            }
        }
        samples
    }

    fn figures_of(&self, totals: &Tally, samples: &[Tally]) -> Figures {
        let seconds = self.span.seconds();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let mean = |value: fn(&Tally) -> Option<f64>| {
            (!samples.is_empty())
                .then(|| samples.iter().map(|s| value(s).unwrap_or(0.0)).sum::<f64>() / samples.len() as f64)
        };
        let worst = samples
            .iter()
            .enumerate()
            .filter_map(|(index, sample)| Some((index, sample.latency_ms()?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let after_start_s =
            |index: usize| self.samples[index].saturating_sub(self.span.start_ms) as f64 / 1e3;
        Figures {
            count: totals.count,
            per_s: per_second(totals.count as f64),
            mib_per_s: per_second(totals.bytes as f64 / MIB),
            bytes_mean: totals.bytes_mean(),
            bytes_sample_mean: mean(Tally::bytes_mean),
            latency_ms_mean: totals.latency_ms(),
            latency_ms_sample_mean: mean(Tally::latency_ms),
            latency_ms_sample_max: worst.map(|(_, latency_ms)| latency_ms),
            worst_sample_window_s: worst.map(|(index, _)| after_start_s(index)),
            latency_ms_max: totals.latency_ms_max(),
            outstanding: per_second(totals.latency_ns_sum as f64 / 1e9),
        }
    }

    pub fn percentiles(&self, scope: Scope<'a>, measure: Measure) -> Result<Percentiles, ReportError> {
        let mut all = new_hdr();
        let mut longest_ns = 0;
        for slice in self.slices(scope, measure) {
            let part = decode(slice)?;
            all.add(&part).map_err(|_| ReportError::Histogram)?;
            longest_ns = longest_ns.max(slice.latency_ns_max);
        }
        let count = all.len();
        let longest_ms = longest_ns as f64 / 1e6;
        // The percentile needs at least one operation beyond it to say anything that the maximum does not.
        let at = |quantile: f64, one_in: u64| {
            (count >= one_in).then(|| (all.value_at_quantile(quantile) as f64 / 1e3).min(longest_ms))
        };
        Ok(Percentiles {
            count,
            p50_ms: at(0.5, 2),
            p90_ms: at(0.9, 10),
            p95_ms: at(0.95, 20),
            p99_ms: at(0.99, 100),
            p99_9_ms: at(0.999, 1_000),
            p99_99_ms: at(0.9999, 10_000),
            max_ms: (count > 0).then_some(longest_ms),
        })
    }
}

fn new_hdr() -> Hdr<u64> {
    let mut hdr = Hdr::new_with_bounds(1, 3_600_000_000, 2).expect("constant bounds are valid");
    hdr.auto(true);
    hdr
}

/// A distribution out of its stored form.
pub fn decode(slice: &Slice) -> Result<Hdr<u64>, ReportError> {
    Deserializer::new().deserialize(&mut slice.hdr_v2.as_slice()).map_err(|_| ReportError::Histogram)
}

fn last_point_ms(data: &RunData, test: u32) -> Option<u64> {
    let points = of_test(&data.series, test).filter_map(|(_, points)| points.last());
    let counters = of_test(&data.counters, test).filter_map(|(_, points)| points.last());
    points.map(|p| p.t_ms + p.interval_ms).chain(counters.map(|p| p.t_ms + p.interval_ms)).max()
}

/// The samples as they were taken: where the rows of instances and databases begin, else at even steps.
fn sample_starts(data: &RunData, test: u32, span: Span, sample_ms: u64) -> Vec<u64> {
    let points = of_test(&data.series, test)
        .filter(|((_, origin, _), _)| origin.instance.is_some())
        .flat_map(|(_, points)| points.iter().filter(|p| span.holds(*p)).map(|p| (p.t_ms, p.interval_ms)));
    let counters = of_test(&data.counters, test)
        .filter(|((_, origin, _), _)| origin.instance.is_some())
        .flat_map(|(_, points)| points.iter().filter(|p| span.holds(*p)).map(|p| (p.t_ms, p.interval_ms)));
    let mut taken: Vec<(u64, u64)> = points.chain(counters).collect();
    taken.sort_unstable();
    // Hosts do not tick at the same moment: what begins within half a sample is the same sample.
    taken.dedup_by(|next, first| next.0 - first.0 < sample_ms / 2);
    if taken.is_empty() {
        let whole = (span.end_ms - span.start_ms) / sample_ms;
        return (0..whole).map(|n| span.start_ms + n * sample_ms).collect();
    }
    // The rest of a window that is not a whole number of samples is no sample.
    if taken.len() > 1 && taken.last().is_some_and(|last| last.1 < sample_ms / 2) {
        taken.pop();
    }
    taken.into_iter().map(|(t_ms, _)| t_ms).collect()
}
