//! A whole run in memory, as reports need it.

use std::collections::BTreeMap;

use results::*;

use crate::store::Chain;

/// What was counted in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Point {
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// Operations, bytes and latencies.
    pub totals: IoTotals,
}

/// A counter in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterPoint {
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// Increase during the interval; of a level such as memory, the value at its end.
    pub value: u64,
}

/// The latency distribution of one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Start of the interval.
    pub t_ms: u64,
    /// Length of the interval.
    pub interval_ms: u64,
    /// Longest latency, exact.
    pub latency_ns_max: u64,
    /// Latencies in microseconds as an HDR histogram, V2 encoding.
    pub hdr_v2: Vec<u8>,
}

/// Names a series: ordinal of the test, where it was counted, what is measured.
pub type SeriesKey<M> = (u32, Origin, M);

/// All rows of a `run.db` in memory. Lists are in the order recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct RunData {
    /// The run.
    pub run: Run,
    /// The rules with their ranges that the run was started with; empty in files of earlier builds.
    pub rules: Vec<Rule>,
    /// What the run sets out to show: hosts, mailboxes, tests.
    pub claim: Option<Claim>,
    /// Hosts that took part.
    pub hosts: Vec<Host>,
    /// Environment rows of the hosts.
    pub environment: Vec<Environment>,
    /// Instances: a log stream and its cache each.
    pub instances: Vec<Instance>,
    /// Databases.
    pub databases: Vec<Database>,
    /// Volumes: folders on the storage under test.
    pub volumes: Vec<Volume>,
    /// Tests by ordinal.
    pub tests: BTreeMap<u32, Test>,
    /// Sizes of databases before and after tests.
    pub sizes: Vec<DatabaseSize>,
    /// Points of I/O and batches, by series, in order of time.
    pub series: BTreeMap<SeriesKey<Measure>, Vec<Point>>,
    /// Points of counters, by series, in order of time.
    pub counters: BTreeMap<SeriesKey<Counter>, Vec<CounterPoint>>,
    /// Latency distributions, by series, in order of time.
    pub histograms: BTreeMap<SeriesKey<Measure>, Vec<Slice>>,
    /// Steps of tuning.
    pub tuning_steps: Vec<TuningStep>,
    /// Results of checking page and log checksums.
    pub checksums: Vec<Checksum>,
    /// Results of backups and restores.
    pub backups: Vec<Backup>,
    /// Results of soft recoveries.
    pub recoveries: Vec<Recovery>,
    /// Busy time and requests of each part of modelled storage.
    pub parts: Vec<StoragePart>,
    /// Events of the run.
    pub events: Vec<Event>,
    /// Verdicts.
    pub verdicts: Vec<Verdict>,
    /// What the seals of the `run.db` say about these rows.
    pub seals: Chain,
}

impl RunData {
    /// Collects the rows of a run; `None` if the [`Run`] is not among them.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Option<RunData> {
        let mut rows = rows.into_iter();
        let run = rows.find_map(|row| if let Row::Run(run) = row { Some(run) } else { None })?;
        let mut data = RunData::new(run);
        rows.for_each(|row| data.add(row));
        data.sort();
        Some(data)
    }

    pub(crate) fn new(run: Run) -> RunData {
        RunData {
            run,
            rules: Vec::new(),
            claim: None,
            hosts: Vec::new(),
            environment: Vec::new(),
            instances: Vec::new(),
            databases: Vec::new(),
            volumes: Vec::new(),
            tests: BTreeMap::new(),
            sizes: Vec::new(),
            series: BTreeMap::new(),
            counters: BTreeMap::new(),
            histograms: BTreeMap::new(),
            tuning_steps: Vec::new(),
            checksums: Vec::new(),
            backups: Vec::new(),
            recoveries: Vec::new(),
            parts: Vec::new(),
            events: Vec::new(),
            verdicts: Vec::new(),
            seals: Chain::default(),
        }
    }

    fn add(&mut self, row: Row) {
        match row {
            Row::Run(row) => self.run = row,
            Row::Rule(row) => replace(&mut self.rules, row, |a, b| a.name == b.name),
            Row::Claim(row) => self.claim = Some(row),
            Row::Host(row) => replace(&mut self.hosts, row, |a, b| a.name == b.name),
            Row::Environment(row) => self.environment.push(row),
            Row::Instance(row) => {
                replace(&mut self.instances, row, |a, b| (&a.host, &a.name) == (&b.host, &b.name));
            }
            Row::Database(row) => replace(&mut self.databases, row, |a, b| a.origin == b.origin),
            Row::Volume(row) => {
                replace(&mut self.volumes, row, |a, b| (&a.host, &a.name) == (&b.host, &b.name));
            }
            Row::Test(row) => {
                self.tests.insert(row.ordinal, row);
            }
            Row::DatabaseSize(row) => {
                replace(&mut self.sizes, row, |a, b| (a.test, &a.origin) == (b.test, &b.origin));
            }
            Row::Sample(Sample { test, origin, measure, t_ms, interval_ms, totals }) => {
                let point = Point { t_ms, interval_ms, totals };
                self.series.entry((test, origin, measure)).or_default().push(point);
            }
            Row::CounterSample(CounterSample { test, origin, counter, t_ms, interval_ms, value }) => {
                let point = CounterPoint { t_ms, interval_ms, value };
                self.counters.entry((test, origin, counter)).or_default().push(point);
            }
            Row::Histogram(Histogram {
                test,
                origin,
                measure,
                t_ms,
                interval_ms,
                latency_ns_max,
                hdr_v2,
            }) => {
                let slice = Slice { t_ms, interval_ms, latency_ns_max, hdr_v2 };
                self.histograms.entry((test, origin, measure)).or_default().push(slice);
            }
            Row::TuningStep(row) => self.tuning_steps.push(row),
            Row::Checksum(row) => self.checksums.push(row),
            Row::Backup(row) => self.backups.push(row),
            Row::Recovery(row) => self.recoveries.push(row),
            Row::StoragePart(row) => self.parts.push(row),
            Row::Event(row) => self.events.push(row),
            Row::Verdict(row) => self.verdicts.push(row),
        }
    }

    pub(crate) fn sort(&mut self) {
        self.series.values_mut().for_each(|points| points.sort_by_key(|point| point.t_ms));
        self.counters.values_mut().for_each(|points| points.sort_by_key(|point| point.t_ms));
        self.histograms.values_mut().for_each(|slices| slices.sort_by_key(|slice| slice.t_ms));
    }

    /// All rows except the [`Run`]; [`RunData::from_rows`] makes the same data of them.
    pub fn into_rows(self) -> impl Iterator<Item = Row> {
        let samples = self.series.into_iter().flat_map(|((test, origin, measure), points)| {
            points.into_iter().map(move |Point { t_ms, interval_ms, totals }| Sample {
                test,
                origin: origin.clone(),
                measure,
                t_ms,
                interval_ms,
                totals,
            })
        });
        let counters = self.counters.into_iter().flat_map(|((test, origin, counter), points)| {
            points.into_iter().map(move |CounterPoint { t_ms, interval_ms, value }| CounterSample {
                test,
                origin: origin.clone(),
                counter,
                t_ms,
                interval_ms,
                value,
            })
        });
        let histograms = self.histograms.into_iter().flat_map(|((test, origin, measure), slices)| {
            slices.into_iter().map(move |Slice { t_ms, interval_ms, latency_ns_max, hdr_v2 }| Histogram {
                test,
                origin: origin.clone(),
                measure,
                t_ms,
                interval_ms,
                latency_ns_max,
                hdr_v2,
            })
        });
        fn rows<T: Into<Row>>(list: Vec<T>) -> impl Iterator<Item = Row> {
            list.into_iter().map(T::into)
        }
        rows(self.rules)
            .chain(self.claim.map(Row::from))
            .chain(rows(self.hosts))
            .chain(rows(self.environment))
            .chain(rows(self.instances))
            .chain(rows(self.databases))
            .chain(rows(self.volumes))
            .chain(self.tests.into_values().map(Row::from))
            .chain(rows(self.sizes))
            .chain(samples.map(Row::from))
            .chain(counters.map(Row::from))
            .chain(histograms.map(Row::from))
            .chain(rows(self.tuning_steps))
            .chain(rows(self.checksums))
            .chain(rows(self.backups))
            .chain(rows(self.recoveries))
            .chain(rows(self.parts))
            .chain(rows(self.events))
            .chain(rows(self.verdicts))
    }

    /// Time of the newest row, in ms since the run began.
    pub fn last_ms(&self) -> u64 {
        let points = self.series.values().filter_map(|points| points.last()).map(|p| p.t_ms + p.interval_ms);
        let tests = self.tests.values().flat_map(|test| [Some(test.started_ms), test.ended_ms]).flatten();
        let events = self.events.iter().map(|event| event.t_ms);
        points.chain(tests).chain(events).chain(self.run.ended_ms).max().unwrap_or(0)
    }
}

/// Puts `row` in place of the one with the same key, or at the end.
fn replace<T>(rows: &mut Vec<T>, row: T, same: impl Fn(&T, &T) -> bool) {
    match rows.iter_mut().find(|old| same(old, &row)) {
        Some(old) => *old = row,
        None => rows.push(row),
    }
}
