//! The arithmetic of a measured window, over rows. The running campaign, tuning, scheduled faults, the report and lint
//! judge by these functions alone.
//!
//! Invariants
//! 1. A sample is what the databases and logs of one host counted between two ticks of that host. Rows that begin
//!    within half a sample of each other belong to the same one.
//! 2. A rest at the end of a window that is shorter than half a sample counts in the sums. It is no sample, unless the
//!    window has no other.
//! 3. The latency of a sample is a mean over operations; the worst sample is the one with the highest mean, of equal
//!    ones the first.
//! 4. An operation that waits at the end of a sample counts in it with the time that it has waited so far, if that
//!    raises the mean: storage that no longer answers is no storage without a load. The same holds at the end of the
//!    window. Operations that have just begun lower no mean.
//!
//! Limits: memory is one [`Fold`] per class of I/O and database or log, independent of the length of the window.

use std::collections::BTreeMap;

use crate::{ClassTotals, Counter, CounterSample, IoClass, IoTotals, Measure, Origin, Sample};

/// Latency limit: an I/O class, and whether its mean or its worst sample is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyRule {
    /// Mean latency of transactional page reads of a database.
    ReadAvg,
    /// Highest sample mean of transactional page reads of a database.
    ReadMax,
    /// Mean latency of log writes of an instance.
    LogWriteAvg,
    /// Highest sample mean of log writes of an instance.
    LogWriteMax,
}

impl LatencyRule {
    /// All latency limits, in the order of the report.
    pub const ALL: [LatencyRule; 4] =
        [LatencyRule::ReadAvg, LatencyRule::ReadMax, LatencyRule::LogWriteAvg, LatencyRule::LogWriteMax];

    /// Stable name of the rule, as in verdicts and limits.
    pub fn name(self) -> &'static str {
        match self {
            LatencyRule::ReadAvg => "read_latency_avg",
            LatencyRule::ReadMax => "read_latency_max",
            LatencyRule::LogWriteAvg => "log_write_latency_avg",
            LatencyRule::LogWriteMax => "log_write_latency_max",
        }
    }

    /// Latency limit with this stable name.
    pub fn from_name(name: &str) -> Option<LatencyRule> {
        LatencyRule::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// I/O class that the rule judges.
    pub fn class(self) -> IoClass {
        match self {
            LatencyRule::ReadAvg | LatencyRule::ReadMax => IoClass::TransactionalRead,
            LatencyRule::LogWriteAvg | LatencyRule::LogWriteMax => IoClass::LogWrite,
        }
    }

    /// Whether the rule judges each database; otherwise it judges each log.
    pub fn is_of_databases(self) -> bool {
        self.class() == IoClass::TransactionalRead
    }

    /// Whether the rule judges the worst sample; otherwise it judges the mean of the window.
    pub fn is_of_worst_sample(self) -> bool {
        matches!(self, LatencyRule::ReadMax | LatencyRule::LogWriteMax)
    }

    /// Figure that the rule judges, ms; `None` if nothing was counted.
    pub fn figure_ms(self, fold: &Fold) -> Option<f64> {
        if self.is_of_worst_sample() { fold.worst().map(|worst| worst.latency_ms) } else { fold.latency_ms() }
    }
}

/// Half-open interval of time, ms since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First ms of the interval.
    pub start_ms: u64,
    /// First ms behind the interval.
    pub end_ms: u64,
}

impl Span {
    /// Length of the interval, s.
    pub fn seconds(self) -> f64 {
        self.end_ms.saturating_sub(self.start_ms) as f64 / 1e3
    }

    /// Whether a moment lies in the interval.
    pub fn holds(self, at_ms: u64) -> bool {
        (self.start_ms..self.end_ms).contains(&at_ms)
    }
}

/// Divides the rows of one host into samples, by their starts and lengths.
#[derive(Debug, Clone, Default)]
pub struct SampleClock {
    sample_ms: u64,
    open: Option<Span>,
    has_whole: bool,
}

impl SampleClock {
    /// Starts with samples of this length.
    pub fn new(sample_ms: u64) -> SampleClock {
        SampleClock { sample_ms, ..SampleClock::default() }
    }

    fn is_short(&self, ms: u64) -> bool {
        ms < self.sample_ms.div_ceil(2)
    }

    /// Adds a row; rows come by start. Returns the sample that ends where this row begins.
    pub fn take(&mut self, start_ms: u64, interval_ms: u64) -> Option<Span> {
        let end_ms = start_ms + interval_ms.max(1);
        match &mut self.open {
            Some(open) if start_ms.saturating_sub(open.start_ms) < self.sample_ms.div_ceil(2) => {
                open.end_ms = open.end_ms.max(end_ms);
                None
            }
            open => {
                let closed = open.replace(Span { start_ms, end_ms });
                self.has_whole |= closed.is_some();
                closed
            }
        }
    }

    /// Returns the last sample; `None` if too little of it was measured.
    pub fn finish(&mut self) -> Option<Span> {
        let last = self.open.take()?;
        let is_rest = self.has_whole && self.is_short(last.end_ms - last.start_ms);
        (!is_rest).then_some(last)
    }
}

/// Worst sample of a window: the one with the highest mean latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Mean latency of the sample's operations, ms.
    pub latency_ms: f64,
    /// Start of the sample, ms.
    pub start_ms: u64,
}

/// Mean latency in ms of the operations that completed in some time, or of these and those that wait at its end,
/// whichever is higher; `None` if there was neither.
pub fn latency_ms(completed: IoTotals, waiting: IoTotals) -> Option<f64> {
    let with_waiting = completed.latency_ms_with(waiting)?;
    Some(completed.latency_ms().map_or(with_waiting, |mean| mean.max(with_waiting)))
}

/// Longest latency of the operations that [`latency_ms`] takes, ms. A waiting operation lasts at least as long as it
/// has waited.
pub fn longest_ms(completed: IoTotals, waiting: IoTotals) -> Option<f64> {
    let waits = latency_ms(completed, waiting) > completed.latency_ms();
    let longest = [completed.latency_ms_max(), waiting.latency_ms_max().filter(|_| waits)];
    longest.into_iter().flatten().reduce(f64::max)
}

/// Returns the waiting operations if they raise the mean of the completed ones. Nearly always some operation has just
/// begun, so rows hold only waits that matter.
pub fn held_up(
    completed: impl Fn(IoClass) -> IoTotals,
    waiting: &ClassTotals,
) -> impl Iterator<Item = (Measure, IoTotals)> {
    IoClass::ALL.into_iter().filter_map(move |class| {
        let (completed, waiting) = (completed(class), waiting.class(class));
        let raises = latency_ms(completed, waiting) > completed.latency_ms();
        raises.then_some((Measure::Waiting(class), waiting))
    })
}

/// Totals of a window, added up sample by sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fold {
    completed: IoTotals,
    waiting: IoTotals,
    worst: Option<Worst>,
}

impl Fold {
    /// Adds a sample: completed operations, and those that wait at its end.
    pub fn add_sample(&mut self, start_ms: u64, completed: IoTotals, waiting: IoTotals) {
        self.add_rest(completed, waiting);
        if let Some(latency_ms) = latency_ms(completed, waiting)
            && self.worst.is_none_or(|worst| latency_ms > worst.latency_ms)
        {
            self.worst = Some(Worst { latency_ms, start_ms });
        }
    }

    /// Adds operations that belong to the window but to no sample.
    pub fn add_rest(&mut self, completed: IoTotals, waiting: IoTotals) {
        self.completed.add(completed);
        self.waiting = waiting;
    }

    /// Totals of the operations that completed in the window.
    pub fn completed(&self) -> IoTotals {
        self.completed
    }

    /// Mean latency of the window's operations, ms; `None` if there was none.
    pub fn latency_ms(&self) -> Option<f64> {
        latency_ms(self.completed, self.waiting)
    }

    /// Worst sample of the window; `None` if no sample has an operation.
    pub fn worst(&self) -> Option<Worst> {
        self.worst
    }
}

/// Totals of a window under construction, with those of the open sample.
#[derive(Debug, Clone, Copy, Default)]
struct Filling {
    fold: Fold,
    completed: IoTotals,
    waiting: IoTotals,
}

/// Measured window of one host, added up row by row.
#[derive(Debug, Clone, Default)]
pub struct WindowFold {
    clock: SampleClock,
    io: BTreeMap<(Origin, IoClass), Filling>,
    counters: BTreeMap<Counter, u64>,
}

impl WindowFold {
    /// Starts an empty window with samples of this length.
    pub fn new(sample_ms: u64) -> WindowFold {
        WindowFold { clock: SampleClock::new(sample_ms), ..WindowFold::default() }
    }

    /// Adds a row of a database or log; rows come by start. Rows of the host are left out, because they are the sums
    /// of the others.
    pub fn add(&mut self, row: &Sample) {
        let (class, is_waiting) = match row.measure {
            Measure::Io(class) => (class, false),
            Measure::Waiting(class) => (class, true),
            Measure::Held(_) | Measure::Batch | Measure::BatchIntended => return,
        };
        if row.origin.instance.is_none() {
            return;
        }
        self.tick(row.t_ms, row.interval_ms);
        let filling = self.io.entry((row.origin.clone(), class)).or_default();
        match is_waiting {
            false => filling.completed.add(row.totals),
            // A later row of the same sample replaces it: each says what waits at its own end.
            true => filling.waiting = row.totals,
        }
    }

    /// Adds a counter of a database or log to the window.
    pub fn add_counter(&mut self, row: &CounterSample) {
        if row.origin.instance.is_none() {
            return;
        }
        self.tick(row.t_ms, row.interval_ms);
        if !row.counter.is_level() {
            *self.counters.entry(row.counter).or_default() += row.value;
        }
    }

    fn tick(&mut self, start_ms: u64, interval_ms: u64) {
        if let Some(closed) = self.clock.take(start_ms, interval_ms) {
            self.close(|fold, completed, waiting| fold.add_sample(closed.start_ms, completed, waiting));
        }
    }

    /// Closes the last sample; nothing may be added afterwards.
    pub fn finish(&mut self) {
        match self.clock.finish() {
            Some(last) => {
                self.close(|fold, completed, waiting| fold.add_sample(last.start_ms, completed, waiting));
            }
            None => self.close(Fold::add_rest),
        }
    }

    fn close(&mut self, add: impl Fn(&mut Fold, IoTotals, IoTotals)) {
        for Filling { fold, completed, waiting } in self.io.values_mut() {
            add(fold, std::mem::take(completed), std::mem::take(waiting));
        }
    }

    /// Totals of one I/O class of a database or log; empty if nothing was counted.
    pub fn of(&self, origin: &Origin, class: IoClass) -> Fold {
        self.io.get(&(origin.clone(), class)).map(|filling| filling.fold).unwrap_or_default()
    }

    /// Totals of one I/O class, all databases and logs together.
    pub fn completed(&self, class: IoClass) -> IoTotals {
        let mut totals = IoTotals::default();
        let of_class = self.io.iter().filter(|((_, of), _)| *of == class);
        of_class.for_each(|(_, filling)| totals.add(filling.fold.completed));
        totals
    }

    /// Totals of transactional I/O: database page reads and writes of transactions, without maintenance, log,
    /// replication and backup.
    pub fn transactional(&self) -> u64 {
        self.completed(IoClass::TransactionalRead).count + self.completed(IoClass::TransactionalWrite).count
    }

    /// Sum of a counter over all databases and logs.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Origin {
        Origin::database("h", "I", "D")
    }

    /// Row of this many seconds with one read of each latency, for tests.
    fn reads(from_s: u64, seconds: u64, latencies_ms: &[u64]) -> Sample {
        let mut totals = IoTotals::default();
        latencies_ms.iter().for_each(|ms| totals.add(IoTotals::one(4096, ms * 1_000_000)));
        Sample::new(1, database(), IoClass::TransactionalRead, from_s * 1_000, seconds * 1_000, totals)
    }

    fn folded(rows: &[Sample]) -> Fold {
        let mut window = WindowFold::new(15_000);
        rows.iter().for_each(|row| window.add(row));
        window.finish();
        window.of(&database(), IoClass::TransactionalRead)
    }

    #[test]
    fn the_worst_sample_is_a_mean_and_says_when() {
        let fold = folded(&[reads(0, 15, &[1, 1]), reads(15, 15, &[2, 90]), reads(30, 15, &[40, 40])]);
        assert_eq!(fold.worst(), Some(Worst { latency_ms: 46.0, start_ms: 15_000 }));
        assert_eq!(fold.latency_ms(), Some(29.0), "the mean is weighted by operation");
    }

    #[test]
    fn no_mean_is_above_the_longest_latency_whatever_waits() {
        let of = |count, sum_ms: u64, max_ms: u64| IoTotals {
            count,
            bytes: 0,
            latency_ns_sum: sum_ms * 1_000_000,
            latency_ns_max: max_ms * 1_000_000,
        };
        let (few, waits, begun) = (of(2, 300, 224), of(1, 480, 480), of(1, 1, 1));
        assert_eq!((latency_ms(few, waits), longest_ms(few, waits)), (Some(260.0), Some(480.0)));
        assert_eq!((latency_ms(few, begun), longest_ms(few, begun)), (Some(150.0), Some(224.0)));
        assert_eq!(longest_ms(IoTotals::default(), waits), Some(480.0));
    }

    #[test]
    fn of_equal_worst_samples_the_first_is_told() {
        let fold = folded(&[reads(0, 15, &[7]), reads(15, 15, &[7])]);
        assert_eq!(fold.worst(), Some(Worst { latency_ms: 7.0, start_ms: 0 }));
    }

    #[test]
    fn a_rest_counts_but_is_no_maximum_unless_it_is_all_there_is() {
        let fold = folded(&[reads(0, 15, &[2]), reads(15, 7, &[150])]);
        assert_eq!((fold.worst().map(|worst| worst.latency_ms), fold.latency_ms()), (Some(2.0), Some(76.0)));
        let fold = folded(&[reads(0, 15, &[2]), reads(15, 8, &[150])]);
        assert_eq!(fold.worst().map(|worst| worst.latency_ms), Some(150.0), "8 s are more than half of 15 s");
        let fold = folded(&[reads(0, 7, &[150])]);
        assert_eq!(fold.worst().map(|worst| worst.latency_ms), Some(150.0));
    }

    /// Operations that wait at the end of a row of `seconds`, each for its number of ms, for tests.
    fn waiting(from_s: u64, seconds: u64, waited_ms: &[u64]) -> Sample {
        let mut totals = IoTotals::default();
        waited_ms.iter().for_each(|ms| totals.add(IoTotals::one(0, ms * 1_000_000)));
        let measure = Measure::Waiting(IoClass::TransactionalRead);
        Sample::new(1, database(), measure, from_s * 1_000, seconds * 1_000, totals)
    }

    #[test]
    fn operations_that_never_return_count_with_the_time_that_they_have_waited() {
        let lost = [reads(0, 15, &[2, 2]), waiting(15, 15, &[15_000]), waiting(30, 15, &[30_000])];
        let fold = folded(&lost);
        assert_eq!(fold.worst(), Some(Worst { latency_ms: 30_000.0, start_ms: 30_000 }));
        assert_eq!(fold.latency_ms(), Some(10_001.333_333_333_334), "(2 + 2 + 30,000) / 3");
        assert_eq!(fold.completed().count, 2, "they have not completed");
        let fold = folded(&[lost[0].clone(), lost[1].clone(), reads(30, 15, &[30_000])]);
        assert_eq!(fold.latency_ms(), Some(10_001.333_333_333_334), "the operation counts once");
    }

    #[test]
    fn operations_that_have_just_begun_hide_no_slow_ones() {
        let fold = folded(&[reads(0, 15, &[40]), waiting(0, 15, &[1, 1, 1])]);
        assert_eq!((fold.latency_ms(), fold.worst().map(|worst| worst.latency_ms)), (Some(40.0), Some(40.0)));
    }

    #[test]
    fn rows_that_begin_within_half_a_sample_are_one_sample() {
        let fold = folded(&[reads(0, 15, &[10]), reads(7, 8, &[30]), reads(15, 15, &[5])]);
        assert_eq!(fold.worst(), Some(Worst { latency_ms: 20.0, start_ms: 0 }));
    }

    #[test]
    fn maintenance_log_and_host_rows_are_no_transactional_io() {
        let mut window = WindowFold::new(15_000);
        for class in IoClass::ALL {
            window.add(&Sample::new(1, database(), class, 0, 15_000, IoTotals::one(4096, 1_000_000)));
            window.add(&Sample::new(1, Origin::host("h"), class, 0, 1_000, IoTotals::one(4096, 1_000_000)));
        }
        window.finish();
        assert_eq!(window.transactional(), 2);
    }

    #[test]
    fn every_rule_is_found_by_its_name() {
        for rule in LatencyRule::ALL {
            assert_eq!(LatencyRule::from_name(rule.name()), Some(rule));
        }
        assert_eq!(LatencyRule::from_name("achieved_iops"), None);
    }
}
