//! The samples of a measured window, as its hosts took them ([`SampleClock`]).

use std::collections::BTreeMap;

use results::IoTotals;
use results::judge::{SampleClock, Span};

use crate::run_data::{CounterPoint, Point, RunData, SeriesKey, Slice};

/// An entry of a series with a time: a point, a counter or a latency distribution. It belongs to the sample in which
/// its middle lies.
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

/// The series of one test.
pub fn of_test<M: Ord, P>(
    series: &BTreeMap<SeriesKey<M>, Vec<P>>,
    test: u32,
) -> impl Iterator<Item = (&SeriesKey<M>, &Vec<P>)> {
    // Keys begin with the test, but a range needs a whole key; the tests of a run are few.
    series.iter().filter(move |((t, _, _), _)| *t == test)
}

/// The samples of a measured window, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    starts_ms: Vec<u64>,
    /// End of the last sample, in ms since the run began.
    end_ms: u64,
}

impl Samples {
    pub fn len(&self) -> usize {
        self.starts_ms.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts_ms.is_empty()
    }

    /// Start of a sample, in ms since the run began.
    pub fn start_ms(&self, index: usize) -> u64 {
        self.starts_ms[index]
    }

    /// Index of the sample that an entry belongs to.
    pub fn of(&self, moment: &impl Moment) -> Option<usize> {
        let middle = moment.middle_ms();
        let index = self.starts_ms.partition_point(|&start| start <= middle).checked_sub(1)?;
        (middle < self.end_of(index)).then_some(index)
    }

    /// Length of a sample in seconds.
    pub fn seconds(&self, index: usize) -> f64 {
        (self.end_of(index) - self.starts_ms[index]) as f64 / 1e3
    }

    fn end_of(&self, index: usize) -> u64 {
        self.starts_ms.get(index + 1).copied().unwrap_or(self.end_ms)
    }
}

/// Totals of each sample: the sum of its points.
pub fn totals_of_samples<'s>(samples: &Samples, points: impl Iterator<Item = &'s Point>) -> Vec<IoTotals> {
    let mut totals = vec![IoTotals::default(); samples.len()];
    for point in points {
        if let Some(index) = samples.of(point) {
            totals[index].add(point.totals);
        }
    }
    totals
}

/// The samples of each host at the moments it took them, by its rows of instances and databases.
pub fn samples_taken(data: &RunData, test: u32, span: Span, sample_ms: u64) -> BTreeMap<&str, Samples> {
    let mut by_host: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    let points = of_test(&data.series, test).flat_map(|((_, origin, _), points)| {
        points.iter().filter(|p| span.holds(p.middle_ms())).map(move |p| (origin, (p.t_ms, p.interval_ms)))
    });
    let counters = of_test(&data.counters, test).flat_map(|((_, origin, _), points)| {
        points.iter().filter(|p| span.holds(p.middle_ms())).map(move |p| (origin, (p.t_ms, p.interval_ms)))
    });
    for (origin, row) in points.chain(counters).filter(|(origin, _)| origin.instance.is_some()) {
        by_host.entry(origin.host.as_str()).or_default().push(row);
    }
    let of_hosts = by_host.into_iter().map(|(host, rows)| (host, samples_of_host(rows, sample_ms)));
    of_hosts.filter(|(_, samples)| !samples.is_empty()).collect()
}

/// The samples that all hosts together are counted in; even steps if no host has rows of instances or databases.
///
/// Hosts do not tick at the same moment. Starts of several hosts would cut each other's samples into pieces in which a
/// host has no row, so the host with the most samples sets them, among equals the first by name.
pub fn samples_of_all(by_host: &BTreeMap<&str, Samples>, span: Span, sample_ms: u64) -> Samples {
    // The last of equals is taken: the first by name, from behind.
    let most = by_host.values().rev().max_by_key(|samples| samples.len());
    most.cloned().unwrap_or_else(|| {
        let whole = (span.end_ms - span.start_ms) / sample_ms;
        let starts_ms = (0..whole).map(|n| span.start_ms + n * sample_ms).collect();
        Samples { starts_ms, end_ms: span.start_ms + whole * sample_ms }
    })
}

/// The samples of one host, from starts and lengths (ms) of its rows.
fn samples_of_host(mut rows: Vec<(u64, u64)>, sample_ms: u64) -> Samples {
    rows.sort_unstable();
    let mut clock = SampleClock::new(sample_ms);
    let mut samples: Vec<Span> = Vec::new();
    rows.into_iter().for_each(|(start_ms, interval_ms)| samples.extend(clock.take(start_ms, interval_ms)));
    samples.extend(clock.finish());
    let end_ms = samples.last().map_or(0, |last| last.end_ms);
    Samples { starts_ms: samples.into_iter().map(|sample| sample.start_ms).collect(), end_ms }
}
