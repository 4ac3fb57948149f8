//! Turns counters into rows: every second for the host, every sample for each database and log, and totals for
//! the window.
//!
//! Invariants
//! 1. Every count that arrives is in exactly one host sample, one database or log sample and, if the window is open, in
//!    the window's totals.
//! 2. Samples of databases begin with the window, so that none straddles its edge.
//!
//! Limits: memory is a fixed number of counters per database and log.

use results::judge::{WindowFold, held_up};
use results::{
    ClassTotals, Counter, CounterSample, Histogram, IoClass, IoCounters, IoTotals, Measure, Origin,
    RecordError, Recorder, Sample,
};
use world::{Duration, Time};

use crate::load::LoadSample;
use crate::window::{Window, sample_length};

/// Counts of one database since the last call.
#[derive(Debug, Clone, Default)]
pub struct DatabaseCounts {
    /// Name of the instance.
    pub instance: String,
    /// Name of the database.
    pub database: String,
    /// I/O on the database file.
    pub io: IoCounters,
    /// I/O on the database file that had begun and not completed.
    pub waiting: ClassTotals,
    /// Bytes of pages that came into use.
    pub growth_bytes: u64,
    /// Batches on the database; none outside load tests.
    pub batches: IoTotals,
}

/// Counts of one instance since the last call.
#[derive(Debug, Clone, Default)]
pub struct LogCounts {
    /// Name of the instance.
    pub instance: String,
    /// I/O on log files and checkpoint.
    pub io: IoCounters,
    /// I/O on log files and checkpoint that had begun and not completed.
    pub waiting: ClassTotals,
    /// Number of page fault stalls: waits of page reads for a free buffer.
    pub page_fault_stalls: u64,
    /// Number of page fault stalls that the size of the cache caused.
    pub small_cache_stalls: u64,
    /// Present size of the page cache, bytes.
    pub cache_bytes: u64,
    /// Number of closed log generations.
    pub log_generations: u64,
}

/// Counts of a host since the last call.
#[derive(Debug, Clone, Default)]
pub struct HostCounts {
    /// Counts of its databases, in the order of the solution file.
    pub databases: Vec<DatabaseCounts>,
    /// Counts of its instances, in the order of the solution file.
    pub logs: Vec<LogCounts>,
    /// Batches; empty outside load tests.
    pub load: LoadSample,
    /// Processors and memory; `None` if the world does not know them.
    pub usage: Option<UsageCounts>,
}

/// Processor time and memory of a host since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCounts {
    /// Processor time of the load generator, ns.
    pub cpu_busy_ns: u64,
    /// Processor time that the load generator could have used, ns.
    pub cpu_available_ns: u64,
    /// Processor time of its busiest shard, ns.
    pub cpu_busiest_thread_ns: u64,
    /// Used processor time of the whole host, ns.
    pub host_cpu_busy_ns: u64,
    /// Available processor time of the host, ns.
    pub host_cpu_available_ns: u64,
    /// Processor time that other guests of the machine took from the host, ns.
    pub host_cpu_stolen_ns: u64,
    /// Time in which some task of the host waited for a processor, ns; `None` if the kernel does not measure it.
    pub host_cpu_pressure_ns: Option<u64>,
    /// Time by which the load generator woke late, ns.
    pub late_ns: u64,
    /// Memory that programs could still get, bytes.
    pub host_memory_available_bytes: u64,
}

impl HostCounts {
    /// I/O of each database and log of the host.
    pub fn io(&self) -> impl Iterator<Item = &IoCounters> {
        let databases = self.databases.iter().map(|database| &database.io);
        databases.chain(self.logs.iter().map(|log| &log.io))
    }

    /// Waiting I/O of each database and log of the host.
    pub fn waiting(&self) -> ClassTotals {
        let mut waiting = ClassTotals::default();
        self.databases.iter().for_each(|database| waiting.merge(&database.waiting));
        self.logs.iter().for_each(|log| waiting.merge(&log.waiting));
        waiting
    }

    /// Time for which the load generator held the I/O of the host.
    fn held(&self) -> ClassTotals {
        let mut held = ClassTotals::default();
        self.io().for_each(|io| held.merge(io.held()));
        held
    }

    /// Sums of all I/O of the host.
    pub fn totals(&self) -> ClassTotals {
        let mut totals = ClassTotals::default();
        self.io().for_each(|io| totals.merge(&io.totals()));
        totals
    }

    /// Adds the counts of a shard, which has other instances of the host.
    pub fn extend(&mut self, shard: HostCounts) {
        self.databases.extend(shard.databases);
        self.logs.extend(shard.logs);
    }
}

/// Sampler: turns the counts of one test into rows.
pub struct Sampler {
    test: u32,
    host: String,
    sample: Duration,
    heat: Duration,
    /// Counts of the open database sample and of the open heat-map cell.
    pending: HostCounts,
    pending_since: Time,
    heat_pending: HeatCell,
    heat_since: Time,
    window: Option<OpenWindow>,
    gaps: Duration,
}

#[derive(Default)]
struct HeatCell {
    io: IoCounters,
    load: LoadSample,
}

struct OpenWindow {
    opened: Time,
    window: Window,
    /// Latency distributions of the window by database and log.
    distributions: Vec<IoCounters>,
}

impl Sampler {
    /// Creates the sampler of a test whose measured window is to last `planned`.
    pub fn new(test: u32, host: &str, planned: Duration, now: Time) -> Sampler {
        Sampler {
            test,
            host: host.to_owned(),
            sample: sample_length(planned),
            heat: Duration::from_secs_f64((planned.as_secs_f64() / 60.0).ceil().max(1.0)),
            pending: HostCounts::default(),
            pending_since: now,
            heat_pending: HeatCell::default(),
            heat_since: now,
            window: None,
            gaps: Duration::ZERO,
        }
    }

    /// Time within the windows of this test in which nothing was measured.
    pub fn gaps(&self) -> Duration {
        self.gaps
    }

    /// Adds a time in which nothing was measured; counts in an open window.
    pub fn add_gap(&mut self, length: Duration) {
        if let Some(open) = &mut self.window {
            open.window.gaps += length;
            self.gaps += length;
        }
    }

    /// Length of a database sample, ms.
    pub fn sample_ms(&self) -> u64 {
        self.sample.as_millis() as u64
    }

    /// Opens the measured window. Call right after [`Sampler::add`].
    pub fn open_window(
        &mut self,
        planned: Duration,
        now: Time,
        recorder: &mut dyn Recorder,
    ) -> Result<(), RecordError> {
        self.close_sample(now, recorder)?;
        self.close_heat(now, recorder)?;
        let fold = WindowFold::new(self.sample_ms());
        let window = Window { planned, fold, ..Window::default() };
        self.window = Some(OpenWindow { opened: now, window, distributions: Vec::new() });
        Ok(())
    }

    /// Closes the window and records its distributions. Later counts are recorded but not judged.
    pub fn close_window(&mut self, now: Time, recorder: &mut dyn Recorder) -> Result<Window, RecordError> {
        let Some(OpenWindow { opened, window, distributions }) = self.take_window(now, recorder)? else {
            return Ok(Window::default());
        };
        let (t_ms, interval_ms) = (ms(opened), window.length.as_millis() as u64);
        for (origin, io) in window.databases.iter().chain(&window.logs).zip(&distributions) {
            for class in IoClass::ALL {
                let stats = io.class(class);
                if let Some(row) = Histogram::new(self.test, origin.clone(), class, t_ms, interval_ms, stats)
                {
                    recorder.record(row.into())?;
                }
            }
        }
        Ok(window)
    }

    /// Closes a window that is one step of several; its distributions are not recorded.
    pub fn close_step(&mut self, now: Time, recorder: &mut dyn Recorder) -> Result<Window, RecordError> {
        Ok(self.take_window(now, recorder)?.map_or_else(Window::default, |open| open.window))
    }

    fn take_window(
        &mut self,
        now: Time,
        recorder: &mut dyn Recorder,
    ) -> Result<Option<OpenWindow>, RecordError> {
        self.close_sample(now, recorder)?;
        self.close_heat(now, recorder)?;
        Ok(self.window.take().map(|mut open| {
            open.window.fold.finish();
            // As the test's row has it: verdicts and report divide by the same length.
            open.window.length = Duration::from_millis(ms(now) - ms(open.opened));
            open
        }))
    }

    /// Ends the test: pending counts become rows.
    pub fn finish(&mut self, now: Time, recorder: &mut dyn Recorder) -> Result<(), RecordError> {
        self.close_sample(now, recorder)?;
        self.close_heat(now, recorder)
    }

    /// Adds the counts from `from` to `to`.
    pub fn add(
        &mut self,
        counts: HostCounts,
        from: Time,
        to: Time,
        recorder: &mut dyn Recorder,
    ) -> Result<(), RecordError> {
        let (t_ms, interval_ms) = (ms(from), interval_ms(from, to));
        let origin = Origin::host(&self.host);
        let (totals, waiting, held) = (counts.totals(), counts.waiting(), counts.held());
        let measures = IoClass::ALL.map(|class| (Measure::Io(class), totals.class(class)));
        let held_up = held_up(|class| totals.class(class), &waiting);
        let held = IoClass::ALL.map(|class| (Measure::Held(class), held.class(class)));
        let batches = [
            (Measure::Batch, counts.load.service.totals),
            (Measure::BatchIntended, counts.load.response.totals),
        ];
        for (measure, totals) in measures.into_iter().chain(held_up).chain(held).chain(batches) {
            self.record_sample(&origin, measure, t_ms, interval_ms, totals, recorder)?;
        }
        if let Some(usage) = counts.usage {
            let pressure = usage.host_cpu_pressure_ns.map(|ns| (Counter::HostCpuPressureNs, ns));
            let counted = [
                (Counter::CpuBusyNs, usage.cpu_busy_ns),
                (Counter::CpuAvailableNs, usage.cpu_available_ns),
                (Counter::CpuBusiestThreadNs, usage.cpu_busiest_thread_ns),
                (Counter::HostCpuBusyNs, usage.host_cpu_busy_ns),
                (Counter::HostCpuAvailableNs, usage.host_cpu_available_ns),
                (Counter::HostMemoryAvailableBytes, usage.host_memory_available_bytes),
                (Counter::HostCpuStolenNs, usage.host_cpu_stolen_ns),
                (Counter::LateNs, usage.late_ns),
            ];
            for (counter, value) in counted.into_iter().chain(pressure) {
                self.record_counter(&origin, counter, t_ms, interval_ms, value, recorder)?;
            }
        }
        counts.io().for_each(|io| self.heat_pending.io.merge(io));
        self.heat_pending.load.service.merge(&counts.load.service);
        self.heat_pending.load.response.merge(&counts.load.response);
        merge(&mut self.pending, counts);
        if to.since(self.heat_since) + TICK_SLACK >= self.heat {
            self.close_heat(to, recorder)?;
        }
        if to.since(self.pending_since) + TICK_SLACK >= self.sample {
            self.close_sample(to, recorder)?;
        }
        Ok(())
    }

    fn record_sample(
        &mut self,
        origin: &Origin,
        measure: Measure,
        t_ms: u64,
        interval_ms: u64,
        totals: IoTotals,
        recorder: &mut dyn Recorder,
    ) -> Result<(), RecordError> {
        if totals.count == 0 {
            return Ok(());
        }
        let row = Sample::new(self.test, origin.clone(), measure, t_ms, interval_ms, totals);
        if let Some(open) = &mut self.window {
            open.window.fold.add(&row);
        }
        recorder.record(row.into())
    }

    fn close_heat(&mut self, now: Time, recorder: &mut dyn Recorder) -> Result<(), RecordError> {
        let cell = std::mem::take(&mut self.heat_pending);
        let (t_ms, interval_ms) = (ms(self.heat_since), interval_ms(self.heat_since, now));
        self.heat_since = now;
        let measures = IoClass::ALL.map(|class| (Measure::Io(class), cell.io.class(class)));
        let batches = [(Measure::Batch, &cell.load.service), (Measure::BatchIntended, &cell.load.response)];
        for (measure, stats) in measures.into_iter().chain(batches) {
            let origin = Origin::host(&self.host);
            if let Some(row) = Histogram::new(self.test, origin, measure, t_ms, interval_ms, stats) {
                recorder.record(row.into())?;
            }
        }
        Ok(())
    }

    fn close_sample(&mut self, now: Time, recorder: &mut dyn Recorder) -> Result<(), RecordError> {
        let counts = std::mem::take(&mut self.pending);
        let (since, from) = (ms(self.pending_since), self.pending_since);
        let interval = interval_ms(from, now);
        self.pending_since = now;
        for database in &counts.databases {
            let origin = Origin::database(&self.host, &database.instance, &database.database);
            for class in IoClass::ALL {
                self.record_sample(
                    &origin,
                    class.into(),
                    since,
                    interval,
                    database.io.class(class).totals,
                    recorder,
                )?;
                let waiting = database.waiting.class(class);
                self.record_sample(&origin, Measure::Waiting(class), since, interval, waiting, recorder)?;
            }
            self.record_sample(&origin, Measure::Batch, since, interval, database.batches, recorder)?;
            self.record_counter(
                &origin,
                Counter::GrowthBytes,
                since,
                interval,
                database.growth_bytes,
                recorder,
            )?;
        }
        for log in &counts.logs {
            let origin = Origin::instance(&self.host, &log.instance);
            for class in IoClass::ALL {
                let totals = log.io.class(class).totals;
                self.record_sample(&origin, class.into(), since, interval, totals, recorder)?;
                let waiting = log.waiting.class(class);
                self.record_sample(&origin, Measure::Waiting(class), since, interval, waiting, recorder)?;
            }
            for (counter, value) in [
                (Counter::PageFaultStalls, log.page_fault_stalls),
                (Counter::SmallCacheStalls, log.small_cache_stalls),
                (Counter::CacheBytes, log.cache_bytes),
                (Counter::LogGenerations, log.log_generations),
            ] {
                self.record_counter(&origin, counter, since, interval, value, recorder)?;
            }
        }
        if let Some(open) = &mut self.window {
            open.add(&self.host, &counts);
        }
        Ok(())
    }

    fn record_counter(
        &mut self,
        origin: &Origin,
        counter: Counter,
        t_ms: u64,
        interval_ms: u64,
        value: u64,
        recorder: &mut dyn Recorder,
    ) -> Result<(), RecordError> {
        let origin = origin.clone();
        let row = CounterSample { test: self.test, origin, counter, t_ms, interval_ms, value };
        if let Some(open) = &mut self.window {
            open.window.fold.add_counter(&row);
        }
        recorder.record(row.into())
    }
}

/// Time by which a tick may come early and still close its sample, so that samples do not grow by a tick.
const TICK_SLACK: Duration = Duration::from_millis(100);

fn ms(time: Time) -> u64 {
    time.ns / 1_000_000
}

fn interval_ms(from: Time, to: Time) -> u64 {
    ms(to) - ms(from)
}

fn merge(into: &mut HostCounts, counts: HostCounts) {
    if into.databases.is_empty() && into.logs.is_empty() {
        *into = counts;
        return;
    }
    for (ours, theirs) in into.databases.iter_mut().zip(counts.databases) {
        ours.io.merge(&theirs.io);
        ours.waiting = theirs.waiting;
        ours.growth_bytes += theirs.growth_bytes;
        ours.batches.add(theirs.batches);
    }
    for (ours, theirs) in into.logs.iter_mut().zip(counts.logs) {
        ours.io.merge(&theirs.io);
        ours.waiting = theirs.waiting;
        ours.page_fault_stalls += theirs.page_fault_stalls;
        ours.small_cache_stalls += theirs.small_cache_stalls;
        ours.log_generations += theirs.log_generations;
        ours.cache_bytes = theirs.cache_bytes;
    }
}

impl OpenWindow {
    fn add(&mut self, host: &str, counts: &HostCounts) {
        if self.distributions.is_empty() {
            let database = |d: &DatabaseCounts| Origin::database(host, &d.instance, &d.database);
            self.window.databases = counts.databases.iter().map(database).collect();
            self.window.logs = counts.logs.iter().map(|l| Origin::instance(host, &l.instance)).collect();
            self.distributions.resize(counts.io().count(), IoCounters::default());
        }
        self.distributions.iter_mut().zip(counts.io()).for_each(|(window, sample)| window.merge(sample));
    }
}

#[cfg(test)]
mod tests {
    use results::Row;

    use super::*;

    fn counts(reads: u64) -> HostCounts {
        counts_of(reads, 2)
    }

    fn counts_of(reads: u64, read_ms: u64) -> HostCounts {
        let mut database =
            DatabaseCounts { instance: "I".into(), database: "D".into(), ..Default::default() };
        (0..reads).for_each(|_| database.io.record(IoClass::TransactionalRead, 32768, read_ms * 1_000_000));
        let mut log = LogCounts { instance: "I".into(), page_fault_stalls: 1, ..Default::default() };
        log.io.record(IoClass::LogWrite, 4096, 1_000_000);
        HostCounts { databases: vec![database], logs: vec![log], ..HostCounts::default() }
    }

    fn second(n: u64) -> Time {
        Time { ns: n * 1_000_000_000 }
    }

    #[test]
    fn a_window_is_as_long_for_its_verdicts_as_in_its_row() {
        let mut rows: Vec<Row> = Vec::new();
        let (opened, closed) = (Time { ns: 900_000 }, Time { ns: 431_100_000 });
        let mut sampler = Sampler::new(1, "h", Duration::from_secs(4), opened);
        sampler.open_window(Duration::from_secs(4), opened, &mut rows).expect("recorded");
        sampler.add(counts(10), opened, closed, &mut rows).expect("recorded");
        let window = sampler.close_window(closed, &mut rows).expect("recorded");
        assert_eq!(window.length, Duration::from_millis(ms(closed) - ms(opened)));
    }

    #[test]
    fn only_the_window_is_judged_but_everything_is_recorded_once() {
        let mut rows: Vec<Row> = Vec::new();
        let mut sampler = Sampler::new(1, "h", Duration::from_secs(60), second(0));
        assert_eq!(sampler.sample_ms(), 3_000);
        for n in 0..5 {
            sampler.add(counts(1), second(n), second(n + 1), &mut rows).expect("recorded");
        }
        sampler.open_window(Duration::from_secs(60), second(5), &mut rows).expect("recorded");
        for n in 5..12 {
            sampler.add(counts(10), second(n), second(n + 1), &mut rows).expect("recorded");
        }
        let window = sampler.close_window(second(12), &mut rows).expect("recorded");
        sampler.add(counts(100), second(12), second(13), &mut rows).expect("recorded");
        sampler.finish(second(13), &mut rows).expect("recorded");

        assert_eq!(window.length, Duration::from_secs(7));
        assert_eq!(window.fold.completed(IoClass::TransactionalRead).count, 70);
        assert_eq!(window.fold.counter(Counter::PageFaultStalls), 7);
        let total = |is_host: bool| -> u64 {
            rows.iter()
                .filter_map(|row| match row {
                    Row::Sample(s) if s.measure == Measure::Io(IoClass::TransactionalRead) => Some(s),
                    _ => None,
                })
                .filter(|s| s.origin.database.is_none() == is_host)
                .map(|s| s.totals.count)
                .sum()
        };
        assert_eq!((total(true), total(false)), (175, 175));
        let starts: Vec<u64> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Sample(s) if s.origin.database.is_some() => Some(s.t_ms),
                _ => None,
            })
            .collect();
        assert_eq!(starts, [0, 3_000, 5_000, 8_000, 11_000, 12_000], "samples begin anew with the window");
    }

    /// Worst read and number of reads of a window of 70 s that ends after `seconds`, whose last second has reads of
    /// 150 ms.
    fn worst_of(seconds: u64) -> (f64, u64) {
        let mut rows: Vec<Row> = Vec::new();
        let planned = Duration::from_secs(70);
        let mut sampler = Sampler::new(1, "h", planned, second(0));
        sampler.open_window(planned, second(0), &mut rows).expect("recorded");
        for n in 0..seconds {
            let read_ms = if n + 1 == seconds { 150 } else { 2 };
            sampler.add(counts_of(10, read_ms), second(n), second(n + 1), &mut rows).expect("recorded");
        }
        let window = sampler.close_window(second(seconds), &mut rows).expect("recorded");
        let reads = window.fold.of(&window.databases[0], IoClass::TransactionalRead);
        (reads.worst().expect("there were reads").latency_ms, reads.completed().count)
    }

    #[test]
    fn a_rest_of_a_sample_counts_but_is_no_maximum_unless_it_is_all_there_is() {
        assert_eq!(worst_of(70), (2.0, 700), "1 s after 23 samples of 3 s");
        assert_eq!(worst_of(71), (76.0, 710), "2 s are more than half a sample");
        assert_eq!(worst_of(1), (150.0, 10));
    }
}
