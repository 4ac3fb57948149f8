//! The arithmetic of a measured window: totals, samples, percentiles.
//!
//! Invariants
//! 1. A point counts where the middle of its interval lies, so ticks that come a little early or late change nothing.
//! 2. A measure of a host is taken from its host rows if it has any, else from its instances and databases: never
//!    both.
//! 3. A sample without an operation is a sample of zero.
//! 4. A sample ends where the next begins, the last one where it was taken.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::Deserializer;
use results::judge::{self, Fold, Span};
use results::{Counter, IoTotals, Measure, Origin, Test};

use super::ReportError;
use super::model::{Figures, Percentiles};
use super::samples::{Moment, Samples, of_test, samples_of_all, samples_taken, totals_of_samples};
use crate::run_data::{CounterPoint, Point, RunData, SeriesKey, Slice};

const MIB: f64 = (1 << 20) as f64;

/// The hosts, instances or databases whose rows of a test are taken together.
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

impl<'a> Scope<'a> {
    /// The host, if all these rows come from one.
    fn host(self) -> Option<&'a str> {
        match self {
            Scope::All => None,
            Scope::Host(host) | Scope::Instance(host, _) => Some(host),
            Scope::Database(database) => Some(&database.host),
            Scope::Origins(origins) => {
                let host = &origins.first()?.host;
                origins.iter().all(|origin| origin.host == *host).then_some(host)
            }
        }
    }

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

/// The series of a test in `scope`. Where a host has rows of its own, those of its instances and databases are left
/// out, so that nothing counts twice.
fn sources<'a, M: Copy + Ord, P>(
    series: &'a BTreeMap<SeriesKey<M>, Vec<P>>,
    test: u32,
    measure: M,
    scope: Scope<'a>,
) -> impl Iterator<Item = (&'a Origin, &'a Vec<P>)> {
    let host_row = move |host: &str| series.contains_key(&(test, Origin::host(host), measure));
    of_test(series, test).filter_map(move |((_, origin, m), points)| {
        let summed_up = origin.instance.is_some()
            && matches!(scope, Scope::All | Scope::Host(_))
            && host_row(&origin.host);
        (*m == measure && scope.holds(origin) && !summed_up).then_some((origin, points))
    })
}

/// One test with its measured window and its samples.
pub struct TestView<'a> {
    pub data: &'a RunData,
    pub test: &'a Test,
    /// The measured window; the whole test if it has no window.
    pub span: Span,
    /// Whether the run ended before the window or the test did.
    pub cut: bool,
    /// Samples of all hosts together.
    pub samples: Samples,
    /// Samples of each host at the moments it took them, by which the campaign judged them.
    by_host: BTreeMap<&'a str, Samples>,
}

impl<'a> TestView<'a> {
    pub fn new(data: &'a RunData, test: &'a Test) -> TestView<'a> {
        let known_until = last_point_ms(data, test.ordinal).unwrap_or(test.started_ms).max(test.started_ms);
        let (start_ms, end_ms) = match test.window_start_ms {
            Some(start) => (start, test.window_end_ms),
            None => (test.started_ms, test.ended_ms),
        };
        let span = Span { start_ms, end_ms: end_ms.unwrap_or(known_until).max(start_ms) };
        let by_host = samples_taken(data, test.ordinal, span, test.sample_ms.max(1));
        let samples = samples_of_all(&by_host, span, test.sample_ms.max(1));
        TestView { data, test, span, cut: end_ms.is_none(), samples, by_host }
    }

    /// Points of any of `measures` inside the window.
    pub fn points<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> impl Iterator<Item = &'s Point>
    where
        'a: 's,
    {
        let (data, ordinal, span) = (self.data, self.test.ordinal, self.span);
        measures
            .iter()
            .copied()
            .flat_map(move |measure| sources(&data.series, ordinal, measure, scope))
            .flat_map(|(_, points)| points.iter())
            .filter(move |point| span.holds(point.middle_ms()))
    }

    pub fn totals(&self, scope: Scope<'a>, measures: &[Measure]) -> IoTotals {
        let mut totals = IoTotals::default();
        self.points(scope, measures).for_each(|point| totals.add(point.totals));
        totals
    }

    /// Points of a counter inside the window.
    pub fn counters(&self, scope: Scope<'a>, counter: Counter) -> impl Iterator<Item = &'a CounterPoint> {
        let span = self.span;
        sources(&self.data.counters, self.test.ordinal, counter, scope)
            .flat_map(|(_, points)| points.iter())
            .filter(move |point| span.holds(point.middle_ms()))
    }

    pub fn counter_sum(&self, scope: Scope<'a>, counter: Counter) -> Option<u64> {
        let mut points = self.counters(scope, counter).peekable();
        points.peek()?;
        Some(points.map(|point| point.value).sum())
    }

    /// Latency distributions inside the window.
    pub fn slices(&self, scope: Scope<'a>, measure: Measure) -> impl Iterator<Item = &'a Slice> {
        self.slices_by_host_of(scope, measure).map(|(_, slice)| slice)
    }

    /// Latency distributions of all hosts inside the window, each with its host.
    pub fn slices_by_host(&self, measure: Measure) -> impl Iterator<Item = (&'a str, &'a Slice)> {
        self.slices_by_host_of(Scope::All, measure)
    }

    fn slices_by_host_of(
        &self,
        scope: Scope<'a>,
        measure: Measure,
    ) -> impl Iterator<Item = (&'a str, &'a Slice)> {
        let span = self.span;
        sources(&self.data.histograms, self.test.ordinal, measure, scope)
            .flat_map(|(origin, slices)| slices.iter().map(move |slice| (origin.host.as_str(), slice)))
            .filter(move |(_, slice)| span.holds(slice.middle_ms()))
    }

    /// The samples that latency maxima of these scopes are taken from: those of their host if they are all of one.
    pub fn samples_of(&self, scopes: impl IntoIterator<Item = Scope<'a>>) -> &Samples {
        let mut hosts = scopes.into_iter().map(|scope| scope.host());
        let first = hosts.next().flatten().filter(|first| hosts.all(|host| host == Some(first)));
        first.and_then(|host| self.by_host.get(host)).unwrap_or(&self.samples)
    }

    /// Figures of `measures` taken together; `None` if no operation was counted.
    pub fn figures<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> Option<Figures>
    where
        'a: 's,
    {
        self.figures_of_parts(&[(scope, measures)])
    }

    /// Figures of several scopes, each with its measures, taken together.
    pub fn figures_of_parts<'s>(&self, parts: &[(Scope<'s>, &[Measure])]) -> Option<Figures>
    where
        'a: 's,
    {
        let mut totals = IoTotals::default();
        parts.iter().for_each(|(scope, measures)| {
            self.points(*scope, measures).for_each(|point| totals.add(point.totals));
        });
        let mut waiting = IoTotals::default();
        let at_the_end = |point: &&Point| point.t_ms + point.interval_ms >= self.span.end_ms;
        self.waiting(parts).filter(at_the_end).for_each(|point| waiting.add(point.totals));
        let any = totals.count + waiting.count > 0;
        any.then(|| Figures {
            latency_ms_mean: judge::latency_ms(totals, waiting),
            latency_ms_max: judge::longest_ms(totals, waiting),
            ..self.figures_of(&totals, parts)
        })
    }

    /// Totals of `measures` in each sample.
    pub fn sample_totals<'s>(&self, scope: Scope<'s>, measures: &[Measure]) -> Vec<IoTotals>
    where
        'a: 's,
    {
        let points = self.points(scope, measures);
        totals_of_samples(self.samples_of([scope]), points)
    }

    /// Mean latency of each sample in ms; `None` where nothing completed and nothing waited.
    pub fn sample_latencies_ms<'s>(&self, parts: &[(Scope<'s>, &[Measure])]) -> Vec<Option<f64>>
    where
        'a: 's,
    {
        let samples = self.samples_of(parts.iter().map(|(scope, _)| *scope));
        let points = parts.iter().flat_map(|(scope, measures)| self.points(*scope, measures));
        let completed = totals_of_samples(samples, points).into_iter();
        let waiting = totals_of_samples(samples, self.waiting(parts));
        completed.zip(waiting).map(|(completed, waiting)| judge::latency_ms(completed, waiting)).collect()
    }

    /// Operations that waited at the ends of the samples of databases and logs. Rows of hosts have them for some
    /// seconds only.
    fn waiting<'s>(&self, parts: &[(Scope<'s>, &[Measure])]) -> impl Iterator<Item = &'s Point>
    where
        'a: 's,
    {
        let (series, ordinal, span) = (&self.data.series, self.test.ordinal, self.span);
        parts
            .iter()
            .flat_map(|(scope, measures)| measures.iter().map(move |measure| (*scope, *measure)))
            .filter_map(|(scope, measure)| match measure {
                Measure::Io(class) => Some((scope, Measure::Waiting(class))),
                _ => None,
            })
            .flat_map(move |(scope, measure)| {
                let wanted = move |((_, origin, of), _): &(&SeriesKey<Measure>, &Vec<Point>)| {
                    *of == measure && origin.instance.is_some() && scope.holds(origin)
                };
                of_test(series, ordinal).filter(wanted).flat_map(|(_, points)| points)
            })
            .filter(move |point| span.holds(point.middle_ms()))
    }

    fn figures_of<'s>(&self, totals: &IoTotals, parts: &[(Scope<'s>, &[Measure])]) -> Figures
    where
        'a: 's,
    {
        let taken = self.samples_of(parts.iter().map(|(scope, _)| *scope));
        let points = parts.iter().flat_map(|(scope, measures)| self.points(*scope, measures));
        let samples = totals_of_samples(taken, points);
        let waiting = totals_of_samples(taken, self.waiting(parts));
        let seconds = self.span.seconds();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let mean = |value: fn(&IoTotals) -> Option<f64>| {
            (!samples.is_empty())
                .then(|| samples.iter().map(|s| value(s).unwrap_or(0.0)).sum::<f64>() / samples.len() as f64)
        };
        let mut fold = Fold::default();
        for (n, (completed, waiting)) in samples.iter().zip(waiting).enumerate() {
            fold.add_sample(taken.start_ms(n), *completed, waiting);
        }
        let worst = fold.worst();
        let after_start_s = |start_ms: u64| start_ms.saturating_sub(self.span.start_ms) as f64 / 1e3;
        Figures {
            count: totals.count,
            per_s: per_second(totals.count as f64),
            mib_per_s: per_second(totals.bytes as f64 / MIB),
            bytes_mean: totals.bytes_mean(),
            bytes_sample_mean: mean(IoTotals::bytes_mean),
            latency_ms_mean: totals.latency_ms(),
            latency_ms_sample_mean: mean(IoTotals::latency_ms),
            latency_ms_sample_max: worst.map(|worst| worst.latency_ms),
            worst_sample_window_s: worst.map(|worst| after_start_s(worst.start_ms)),
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
        // The percentile needs at least one operation beyond it to say anything that the maximum does not. Its
        // rank is the least that leaves no more than one in this many above, in whole numbers: 0.9999 x 30,000 is
        // above 29,997 in f64.
        let at = |one_in: u64| {
            let rank = count - count / one_in;
            (count >= one_in).then(|| (value_at_rank(&all, rank) as f64 / 1e3).min(longest_ms))
        };
        Ok(Percentiles {
            count,
            p50_ms: at(2),
            p90_ms: at(10),
            p95_ms: at(20),
            p99_ms: at(100),
            p99_9_ms: at(1_000),
            p99_99_ms: at(10_000),
            max_ms: (count > 0).then_some(longest_ms),
        })
    }
}

fn new_hdr() -> Hdr<u64> {
    let mut hdr = Hdr::new_with_bounds(1, 3_600_000_000, 2).expect("constant bounds are valid");
    hdr.auto(true);
    hdr
}

/// The upper bound of the histogram bucket that holds the operation of this rank, the fastest being the first.
fn value_at_rank(hdr: &Hdr<u64>, rank: u64) -> u64 {
    let mut seen = 0;
    let mut buckets = hdr.iter_recorded();
    let holds = buckets.find(|bucket| {
        seen += bucket.count_at_value();
        seen >= rank
    });
    holds.map_or(0, |bucket| bucket.value_iterated_to())
}

/// A latency distribution from its stored form, HDR V2.
impl Slice {
    /// Number of operations in the distribution; `None` if it is damaged.
    pub fn operations(&self) -> Option<u64> {
        decode(self).ok().map(|histogram| histogram.len())
    }
}

pub fn decode(slice: &Slice) -> Result<Hdr<u64>, ReportError> {
    Deserializer::new().deserialize(&mut slice.hdr_v2.as_slice()).map_err(|_| ReportError::Histogram)
}

fn last_point_ms(data: &RunData, test: u32) -> Option<u64> {
    let points = of_test(&data.series, test).filter_map(|(_, points)| points.last());
    let counters = of_test(&data.counters, test).filter_map(|(_, points)| points.last());
    points.map(|p| p.t_ms + p.interval_ms).chain(counters.map(|p| p.t_ms + p.interval_ms)).max()
}

#[cfg(test)]
mod tests {
    use results::{CounterSample, IoClass, Row, Run, Sample};

    use super::*;
    use crate::report::{Measured, Report};

    const READ: Measure = Measure::Io(IoClass::TransactionalRead);

    /// A run with one test that is all window, with these rows.
    fn run_of(window_s: u64, sample_s: u64, rows: impl IntoIterator<Item = Row>) -> RunData {
        let run = Run { ended_ms: Some(window_s * 1_000), ..testkit::rows::run() };
        let test = testkit::rows::load_test(window_s * 1_000, sample_s * 1_000);
        let test = Test { sessions: None, target_iops: Some(100.0), ..test };
        RunData::from_rows([Row::from(run), Row::from(test)].into_iter().chain(rows)).unwrap()
    }

    /// Rows of 100 reads a second of 32 KiB and 10 ms.
    fn reads(origin: &Origin, from_s: u64, seconds: u64) -> Row {
        let count = 100 * seconds;
        let totals = IoTotals {
            count,
            bytes: count * 32_768,
            latency_ns_sum: count * 10_000_000,
            latency_ns_max: 10_000_000,
        };
        Sample::new(1, origin.clone(), READ, from_s * 1_000, seconds * 1_000, totals).into()
    }

    /// Rows of 10 page fault stalls a second.
    fn stalls(origin: &Origin, from_s: u64, seconds: u64) -> Row {
        CounterSample {
            test: 1,
            origin: origin.clone(),
            counter: Counter::PageFaultStalls,
            t_ms: from_s * 1_000,
            interval_ms: seconds * 1_000,
            value: 10 * seconds,
        }
        .into()
    }

    /// Starts and lengths of samples from the beginning of a window to its end.
    fn steps(window_s: u64, sample_s: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..window_s.div_ceil(sample_s)).map(move |n| (n * sample_s, sample_s.min(window_s - n * sample_s)))
    }

    #[test]
    fn a_rest_at_the_end_of_a_window_counts_over_its_own_length_or_in_no_sample() {
        let (host, instance) = (Origin::host("h"), Origin::instance("h", "I"));
        let database = Origin::database("h", "I", "D");
        // A rest of 1 s after 23 samples is none, one of 2 s after 22 samples is one.
        for (window_s, sample_s, number) in [(60, 3, 20), (70, 3, 23), (90, 4, 23)] {
            let seconds = steps(window_s, 1).map(|(from, length)| reads(&host, from, length));
            let of_database = steps(window_s, sample_s).map(|(from, length)| reads(&database, from, length));
            let of_log = steps(window_s, sample_s).map(|(from, length)| stalls(&instance, from, length));
            let data = run_of(window_s, sample_s, seconds.chain(of_database).chain(of_log));
            let figures = Measured::new(&data, &data.tests[&1]).samples(&[READ]);
            assert_eq!(figures.len(), number);
            assert!(figures.iter().all(|sample| sample.per_s() == 100.0), "{window_s} s: {figures:?}");
            let report = Report::new(&data).unwrap();
            let steadiness = report.tests[0].steadiness.as_ref().unwrap();
            assert_eq!(steadiness.iops_change_max, Some(0.0), "{window_s} s");
            assert_eq!(steadiness.quarter_iops, [100.0; 4], "{window_s} s");
            let stalls = report.tests[0].page_fault_stalls.as_ref().unwrap();
            assert_eq!((stalls.per_s_min, stalls.per_s_max), (10.0, 10.0), "{window_s} s");
            assert_eq!(report.tests[0].measures[0].figures.count, window_s * 100, "the window has all");
        }
    }

    #[test]
    fn samples_at_even_steps_leave_the_rest_out_as_well() {
        let host = Origin::host("h");
        let data = run_of(70, 3, steps(70, 1).map(|(from, length)| reads(&host, from, length)));
        let figures = Measured::new(&data, &data.tests[&1]).samples(&[READ]);
        assert_eq!(figures.len(), 23);
        assert!(figures.iter().all(|sample| sample.per_s() == 100.0), "{figures:?}");
    }

    #[test]
    fn a_rest_that_is_all_there_is_is_a_sample_of_its_own_length() {
        let data = run_of(1, 3, [reads(&Origin::database("h", "I", "D"), 0, 1)]);
        let figures = Measured::new(&data, &data.tests[&1]).samples(&[READ]);
        assert_eq!((figures.len(), figures[0].per_s()), (1, 100.0));
    }

    #[test]
    fn samples_of_hosts_that_are_shifted_against_each_other_do_not_cut_each_other_to_pieces() {
        let hosts = [("a", 0), ("b", 4), ("c", 8)];
        let rows = hosts.into_iter().flat_map(|(host, shift_s)| {
            let database = Origin::database(host, "I", "D");
            (0..20).map(move |n| reads(&database, shift_s + n * 15, 15))
        });
        let data = run_of(300, 15, rows);
        let view = TestView::new(&data, &data.tests[&1]);
        let starts_ms: Vec<u64> = (0..view.samples.len()).map(|n| view.samples.start_ms(n)).collect();
        assert_eq!(starts_ms, (0..20).map(|n| n * 15_000).collect::<Vec<u64>>(), "those of a");
        for scope in [Scope::All, Scope::Host("a"), Scope::Host("b")] {
            let figures = view.figures(scope, &[READ]).unwrap();
            assert_eq!(figures.latency_ms_sample_mean, Some(10.0), "{scope:?}");
            assert_eq!(figures.bytes_sample_mean, Some(32_768.0), "{scope:?}");
        }
    }

    /// A verdict is made by the samples of its host; the report of a fleet must not mix two of them into one.
    #[test]
    fn the_worst_sample_of_a_host_is_one_that_it_took_whatever_other_hosts_do() {
        let (first, second) = (Origin::database("a", "I", "D"), Origin::database("b", "I", "D"));
        let even = (0..20).map(|n| reads(&first, n * 15, 15));
        // Late ticks: the middles of two samples of b lie in one of a.
        let late = [(8, 16), (24, 11), (35, 15)].map(|(from_s, seconds)| {
            let Row::Sample(mut row) = reads(&second, from_s, seconds) else { unreachable!() };
            row.totals.latency_ns_sum *= if from_s == 24 { 4 } else { 1 };
            Row::from(row)
        });
        let data = run_of(300, 15, even.chain(late));
        let view = TestView::new(&data, &data.tests[&1]);
        for scope in [Scope::Database(&second), Scope::Host("b"), Scope::Instance("b", "I")] {
            let figures = view.figures(scope, &[READ]).unwrap();
            assert_eq!(figures.latency_ms_sample_max, Some(40.0), "{scope:?}");
            assert_eq!(figures.worst_sample_window_s, Some(24.0), "{scope:?}");
        }
    }

    #[test]
    fn of_equal_worst_samples_the_first_is_told() {
        let database = Origin::database("h", "I", "D");
        let data = run_of(300, 15, (0..20).map(|n| reads(&database, n * 15, 15)));
        let view = TestView::new(&data, &data.tests[&1]);
        let figures = view.figures(Scope::Database(&database), &[READ]).unwrap();
        assert_eq!(figures.worst_sample_window_s, Some(0.0));
    }

    #[test]
    fn the_host_with_the_most_samples_sets_them() {
        // The first by name died after three samples.
        let hosts = [("a", 0, 3), ("b", 4, 19), ("c", 2, 19)];
        let rows = hosts.into_iter().flat_map(|(host, shift_s, number)| {
            let database = Origin::database(host, "I", "D");
            (0..number).map(move |n| reads(&database, shift_s + n * 15, 15))
        });
        let data = run_of(300, 15, rows);
        let view = TestView::new(&data, &data.tests[&1]);
        assert_eq!((view.samples.len(), view.samples.start_ms(0)), (19, 4_000), "b comes before c");
        let figures = view.figures(Scope::All, &[READ]).unwrap();
        assert_eq!(figures.latency_ms_sample_mean, Some(10.0));
    }
}
