//! A run while it goes on: the newest figures of every host and database, the last minutes, what happened.
//!
//! The rows of a run go in one by one, from the recorder of this process or from the `run.db` of another
//! ([`Follower`]); a [`LiveView`] comes out, for a terminal, a web page or a scraper.
//!
//! Invariants
//! 1. Memory does not grow with the length of the run.
//! 2. Text is passed on as it is: who prints it makes sure that it becomes no markup.
//! 3. A slice shorter than half an interval has no rate of its own: it joins a neighbour, and alone it is not shown.

mod follow;
mod judgement;
mod metrics;

use std::collections::{BTreeMap, VecDeque};

use results::judge::latency_ms;
use results::{
    Counter, CounterSample, Environment, Event, Host, IoClass, IoTotals, Limit, Measure, Origin, Outcome,
    Row, Rule, Run, Sample, Severity, Test, Verdict, WorldKind,
};
use serde::Serialize;

use crate::HOST_INTERVAL_MS;

pub use follow::Follower;
pub use judgement::LiveJudgement;
pub use metrics::open_metrics;

/// Seconds of rates and latencies that are kept for the charts.
const HISTORY: usize = 300;
/// Newest events that are kept.
const EVENTS: usize = 200;

/// The present state of a run, built up from its rows as they come.
#[derive(Debug, Default)]
pub struct LiveRun {
    run: Option<Run>,
    hosts: Vec<Host>,
    tests: BTreeMap<u32, Test>,
    newest: BTreeMap<Origin, Newest>,
    history: VecDeque<Moment>,
    events: VecDeque<Event>,
    /// Number of events that are errors, those no longer kept included.
    errors: u64,
    verdicts: Vec<Verdict>,
    rules: Vec<Rule>,
    /// Environment rows with the severity of an error.
    environment: Vec<Environment>,
    now_ms: u64,
}

/// The newest interval of a host, instance or database.
#[derive(Debug, Default)]
struct Newest {
    test: u32,
    /// Start of its last slice.
    t_ms: u64,
    /// Length of its slices together, in ms.
    interval_ms: u64,
    samples: BTreeMap<Measure, IoTotals>,
    counters: BTreeMap<Counter, u64>,
}

/// What all hosts together did in one second. Hosts report one by one.
#[derive(Debug, Default, Clone)]
struct Moment {
    t_ms: u64,
    /// Start of the last slice and length of all slices, by host.
    slices: BTreeMap<String, (u64, u64)>,
    reads: IoTotals,
    writes: IoTotals,
    log_writes: IoTotals,
    /// Reads still waiting at the end of the second, where counting them raises the mean latency.
    reads_waiting: IoTotals,
    log_writes_waiting: IoTotals,
    batches: IoTotals,
    bytes: u64,
}

/// The figures of a run at one moment, ready to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveView {
    /// Unique name of the run.
    pub id: String,
    /// Name of the solution.
    pub solution: String,
    /// Real or simulated.
    pub world: WorldKind,
    /// What the run proves, or has broken so far.
    pub judgement: LiveJudgement,
    /// Time since the start, up to the newest row.
    pub elapsed_s: f64,
    /// How the run ended: finished, interrupted or failed; null while it runs.
    pub ending: Option<results::Ending>,
    /// Tests that have begun.
    pub tests: Vec<LiveTest>,
    /// Rates of each host over its newest interval of about a second.
    pub hosts: Vec<LiveRates>,
    /// Rates of each database over its newest sample.
    pub databases: Vec<LiveRates>,
    /// Rates of all hosts together in each second of the last five minutes.
    pub history: Vec<LiveSecond>,
    /// Limits of the running test.
    pub limits: Vec<Limit>,
    /// Newest events, oldest first.
    pub events: Vec<LiveEvent>,
    /// Verdicts that passed.
    pub passed: u32,
    /// Verdicts that failed.
    pub failed: u32,
}

/// A test that runs or ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveTest {
    /// Place in the campaign, from 1.
    pub ordinal: u32,
    /// Title of the test.
    pub name: String,
    /// `warming up`, `measuring`, `closing`, `running` or `ended`.
    pub phase: &'static str,
    /// The worst of its verdicts; null if there is none yet.
    pub outcome: Option<Outcome>,
    /// Seconds since it started; once it has ended, its length.
    pub elapsed_s: f64,
    /// Share of the measured window that is over, 0 to 1; null for a test without a window.
    pub window_done: Option<f64>,
    /// Transactional I/O per second that the test is to reach.
    pub target_iops: Option<f64>,
}

/// Rates and latencies of a host or database over its newest interval. Null where nothing was counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveRates {
    /// The host, instance or database.
    #[serde(flatten)]
    pub origin: Origin,
    /// Seconds that the interval covers.
    pub interval_s: f64,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Bytes moved per second by reads and writes of every class, in MiB.
    pub mib_per_s: f64,
    /// Mean latency of database reads for transactions.
    pub read_ms: Option<f64>,
    /// Longest of these reads.
    pub read_max_ms: Option<f64>,
    /// Mean latency of database writes.
    pub write_ms: Option<f64>,
    /// Mean latency of log writes; of a database: of its instance's log.
    pub log_write_ms: Option<f64>,
    /// Processor time of the load generator, as a share of what its processors have; hosts only.
    pub generator_busy: Option<f64>,
}

/// Figures of all hosts together in one second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LiveSecond {
    /// Start, seconds since the run began.
    pub t_s: f64,
    /// Transactional I/O per second.
    pub iops: f64,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Bytes moved per second by reads and writes of every class, in MiB.
    pub mib_per_s: f64,
    /// Mean latency of database reads for transactions.
    pub read_ms: Option<f64>,
    /// Mean latency of log writes.
    pub log_write_ms: Option<f64>,
}

/// An event of a run: a fault, a message, an interruption.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveEvent {
    /// Seconds since the run began.
    pub t_s: f64,
    /// Information, warning or error.
    pub severity: results::Severity,
    /// Host that it concerns; none if it concerns the run.
    pub host: String,
    /// The event in words.
    pub text: String,
}

const TRANSACTIONAL: [Measure; 2] =
    [Measure::Io(IoClass::TransactionalRead), Measure::Io(IoClass::TransactionalWrite)];

impl LiveRun {
    /// Updates the state with a row of the run.
    pub fn apply(&mut self, row: &Row) {
        match row {
            Row::Run(run) => {
                self.now_ms = self.now_ms.max(run.ended_ms.unwrap_or(0));
                self.run = Some(run.clone());
            }
            Row::Host(host) => {
                self.hosts.retain(|known| known.name != host.name);
                self.hosts.push(host.clone());
            }
            Row::Test(test) => {
                self.now_ms = self.now_ms.max(test.ended_ms.unwrap_or(test.started_ms));
                if self.tests.insert(test.ordinal, test.clone()).is_none() {
                    // What another test did last is not news of this one.
                    self.newest.clear();
                }
            }
            Row::Sample(sample) => self.sample(sample),
            Row::CounterSample(sample) => self.counter(sample),
            Row::Event(event) => {
                self.now_ms = self.now_ms.max(event.t_ms);
                self.errors += u64::from(event.severity == Severity::Error);
                self.events.push_back(event.clone());
                if self.events.len() > EVENTS {
                    self.events.pop_front();
                }
            }
            Row::Verdict(verdict) => self.verdicts.push(verdict.clone()),
            Row::Rule(rule) => {
                self.rules.retain(|known| known.name != rule.name);
                self.rules.push(rule.clone());
            }
            Row::Environment(row) if row.severity == Severity::Error => self.environment.push(row.clone()),
            _ => {}
        }
    }

    /// The newest interval of `origin`, which the slice at `t_ms` belongs to; `None` for a slice that came late. A
    /// later slice begins a new interval, unless it or the interval so far is too short for a rate of its own.
    fn interval(&mut self, test: u32, origin: &Origin, t_ms: u64, interval_ms: u64) -> Option<&mut Newest> {
        self.now_ms = self.now_ms.max(t_ms + interval_ms);
        let nominal_ms = match origin.instance {
            None => HOST_INTERVAL_MS,
            Some(_) => self.tests.get(&test).map_or(HOST_INTERVAL_MS, |test| test.sample_ms),
        };
        let newest = self.newest.entry(origin.clone()).or_default();
        if test != newest.test || newest.interval_ms == 0 {
            *newest = Newest { test, t_ms, interval_ms, ..Newest::default() };
        } else if t_ms > newest.t_ms {
            let is_short = |ms: u64| ms * 2 < nominal_ms;
            let together_ms = newest.interval_ms + interval_ms;
            if (is_short(interval_ms) || is_short(newest.interval_ms)) && together_ms < 2 * nominal_ms {
                (newest.t_ms, newest.interval_ms) = (t_ms, together_ms);
            } else {
                *newest = Newest { test, t_ms, interval_ms, ..Newest::default() };
            }
        }
        (t_ms == newest.t_ms).then_some(newest)
    }

    fn sample(&mut self, sample: &Sample) {
        if let Some(newest) = self.interval(sample.test, &sample.origin, sample.t_ms, sample.interval_ms) {
            newest.samples.entry(sample.measure).or_default().add(sample.totals);
        }
        if sample.origin.instance.is_none() {
            self.add_to_history(sample);
        }
    }

    fn counter(&mut self, sample: &CounterSample) {
        let CounterSample { test, origin, counter, t_ms, interval_ms, value } = sample;
        if let Some(newest) = self.interval(*test, origin, *t_ms, *interval_ms) {
            let known = newest.counters.entry(*counter).or_default();
            *known = if counter.is_level() { *value } else { *known + value };
        }
    }

    fn add_to_history(&mut self, sample: &Sample) {
        // Hosts do not tick at the same moment: what begins within half a second is the same second.
        let same = |moment: &&mut Moment| moment.t_ms.abs_diff(sample.t_ms) < 500;
        let moment = match self.history.iter_mut().rev().take(20).find(same) {
            Some(moment) => moment,
            None => {
                self.history.push_back(Moment { t_ms: sample.t_ms, ..Moment::default() });
                if self.history.len() > HISTORY {
                    self.history.pop_front();
                }
                self.history.back_mut().expect("one was added")
            }
        };
        let (since_ms, length_ms) = moment.slices.entry(sample.origin.host.clone()).or_default();
        if *length_ms == 0 || *since_ms != sample.t_ms {
            (*since_ms, *length_ms) = (sample.t_ms, *length_ms + sample.interval_ms);
        }
        match sample.measure {
            Measure::Io(IoClass::TransactionalRead) => moment.reads.add(sample.totals),
            Measure::Io(IoClass::TransactionalWrite) => moment.writes.add(sample.totals),
            Measure::Io(IoClass::LogWrite) => moment.log_writes.add(sample.totals),
            Measure::Waiting(IoClass::TransactionalRead) => moment.reads_waiting.add(sample.totals),
            Measure::Waiting(IoClass::LogWrite) => moment.log_writes_waiting.add(sample.totals),
            Measure::Batch => moment.batches.add(sample.totals),
            _ => {}
        }
        moment.bytes += sample.totals.bytes;
    }

    /// The figures of the run now; `None` before its first row.
    pub fn view(&self) -> Option<LiveView> {
        let run = self.run.as_ref()?;
        let judged = |outcome| self.verdicts.iter().filter(|v| v.outcome == outcome).count() as u32;
        let rates = |wanted: fn(&Origin) -> bool| -> Vec<LiveRates> {
            let shown =
                |(origin, newest): &(&Origin, &Newest)| wanted(origin) && !is_short(newest.interval_ms);
            self.newest.iter().filter(shown).map(|(o, n)| self.rates(o, n)).collect()
        };
        let running = self.tests.values().next_back().filter(|test| test.ended_ms.is_none());
        Some(LiveView {
            id: run.id.clone(),
            solution: run.solution.clone(),
            world: run.world,
            judgement: self.judgement(),
            elapsed_s: self.now_ms as f64 / 1e3,
            ending: run.ending,
            tests: self.tests.values().map(|test| self.test(test)).collect(),
            hosts: rates(|origin| origin.instance.is_none()),
            databases: rates(|origin| origin.database.is_some()),
            history: self.whole_moments().iter().map(second).collect(),
            limits: running.map(|test| test.limits.clone()).unwrap_or_default(),
            events: self.events.iter().map(event).collect(),
            passed: judged(Outcome::Pass),
            failed: judged(Outcome::Fail),
        })
    }

    /// The seconds of the history; each slice too short for a rate has joined a neighbour.
    fn whole_moments(&self) -> Vec<Moment> {
        let mut whole: Vec<Moment> = Vec::new();
        for moment in &self.history {
            match whole.last_mut() {
                Some(last) if is_short(moment.length_ms()) || is_short(last.length_ms()) => last.join(moment),
                _ => whole.push(moment.clone()),
            }
        }
        whole.retain(|moment| !is_short(moment.length_ms()));
        whole
    }

    fn test(&self, test: &Test) -> LiveTest {
        let phase = match (test.ended_ms, test.window_start_ms, test.window_end_ms) {
            (Some(_), _, _) => "ended",
            (None, None, _) if test.sessions.or(test.target_batches_per_s.map(|_| 0)).is_some() => {
                "warming up"
            }
            (None, None, _) => "running",
            (None, Some(_), None) => "measuring",
            (None, Some(_), Some(_)) => "closing",
        };
        let window_done = test.window_start_ms.zip(test.window_planned_ms).map(|(start, planned)| {
            let until = test.window_end_ms.or(test.ended_ms).unwrap_or(self.now_ms);
            (until.saturating_sub(start) as f64 / planned.max(1) as f64).min(1.0)
        });
        let verdicts = self.verdicts.iter().filter(|verdict| verdict.test == Some(test.ordinal));
        LiveTest {
            ordinal: test.ordinal,
            name: test.name.clone(),
            phase,
            outcome: Outcome::worst(verdicts.map(|verdict| verdict.outcome)),
            elapsed_s: test.ended_ms.unwrap_or(self.now_ms).saturating_sub(test.started_ms) as f64 / 1e3,
            window_done,
            target_iops: test.target_iops,
        }
    }

    fn rates(&self, origin: &Origin, newest: &Newest) -> LiveRates {
        let interval_s = newest.interval_ms.max(1) as f64 / 1e3;
        let of = |measure: Measure| newest.samples.get(&measure).copied().unwrap_or_default();
        let io = |class| of(Measure::Io(class));
        let bytes: u64 = newest.samples.values().map(|counts| counts.bytes).sum();
        let mean_ms = |newest: &Newest, class| {
            let of = |measure| newest.samples.get(&measure).copied().unwrap_or_default();
            latency_ms(of(Measure::Io(class)), of(Measure::Waiting(class)))
        };
        // A database's log is that of its instance.
        let log = match origin.database {
            Some(_) => self.newest.get(&Origin { database: None, ..origin.clone() }),
            None => Some(newest),
        };
        let counter = |counter| newest.counters.get(&counter).copied();
        LiveRates {
            origin: origin.clone(),
            interval_s,
            batches_per_s: of(Measure::Batch).count as f64 / interval_s,
            iops: TRANSACTIONAL.map(|measure| of(measure).count).iter().sum::<u64>() as f64 / interval_s,
            mib_per_s: bytes as f64 / f64::from(1 << 20) / interval_s,
            read_ms: mean_ms(newest, IoClass::TransactionalRead),
            read_max_ms: io(IoClass::TransactionalRead).latency_ms_max(),
            write_ms: io(IoClass::TransactionalWrite).latency_ms(),
            log_write_ms: log.and_then(|log| mean_ms(log, IoClass::LogWrite)),
            generator_busy: counter(Counter::CpuBusyNs)
                .zip(counter(Counter::CpuAvailableNs).filter(|&ns| ns > 0))
                .map(|(busy, available)| busy as f64 / available as f64),
        }
    }
}

/// Whether a slice of a host, in ms, is too short for a rate.
fn is_short(ms: u64) -> bool {
    ms * 2 < HOST_INTERVAL_MS
}

impl Moment {
    /// Milliseconds that the slices of the longest-measured host cover in this second.
    fn length_ms(&self) -> u64 {
        self.slices.values().map(|(_, length_ms)| *length_ms).max().unwrap_or(0)
    }

    fn join(&mut self, other: &Moment) {
        for (host, (since_ms, length_ms)) in &other.slices {
            let known = self.slices.entry(host.clone()).or_default();
            *known = (*since_ms, known.1 + length_ms);
        }
        self.reads.add(other.reads);
        self.writes.add(other.writes);
        self.log_writes.add(other.log_writes);
        // What waits at the end of the longer moment: the later of the two.
        (self.reads_waiting, self.log_writes_waiting) = (other.reads_waiting, other.log_writes_waiting);
        self.batches.add(other.batches);
        self.bytes += other.bytes;
    }
}

fn second(moment: &Moment) -> LiveSecond {
    let seconds = moment.length_ms().max(1) as f64 / 1e3;
    LiveSecond {
        t_s: moment.t_ms as f64 / 1e3,
        iops: (moment.reads.count + moment.writes.count) as f64 / seconds,
        batches_per_s: moment.batches.count as f64 / seconds,
        mib_per_s: moment.bytes as f64 / f64::from(1 << 20) / seconds,
        read_ms: latency_ms(moment.reads, moment.reads_waiting),
        log_write_ms: latency_ms(moment.log_writes, moment.log_writes_waiting),
    }
}

fn event(event: &Event) -> LiveEvent {
    LiveEvent {
        t_s: event.t_ms as f64 / 1e3,
        severity: event.severity,
        host: event.host.clone(),
        text: event.text.clone(),
    }
}
