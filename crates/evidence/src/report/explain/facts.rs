//! What a load test measured, as the rules of the causes need it.

use results::grade::is_load;
use results::{Direction, Environment, IoClass, IoTotals, Measure, Outcome, StoragePart, Verdict};

use crate::report::model::{Cause, Figures, Proof, TestReport};
use crate::report::samples::Moment;
use crate::report::text::{number, significant};
use crate::run_data::RunData;

use crate::report::window::{Scope, TestView};

/// Longest row, in ms, that still shows single seconds.
const ROW_MS_MAX: u64 = 1_500;
/// Longest window in seconds, some eleven days, that is looked at second by second.
const SECONDS_MAX: f64 = 1e6;
/// Seconds at each end of a window in which a change of the latency level is not looked for.
const SETTLED_S: usize = 4;
/// Share of the time from which on a busy part makes requests wait.
pub const BUSY: f64 = 0.8;
/// Share of a latency from which on the load generator itself explains it: completed operations that it did not get to.
pub const HELD: f64 = 0.2;
pub const READ: Measure = Measure::Io(IoClass::TransactionalRead);
pub const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
pub const LOG: Measure = Measure::Io(IoClass::LogWrite);

/// A cause that the figures fit. Causes with the highest weight come first.
pub struct Found {
    pub weight: f64,
    pub name: &'static str,
    pub what: String,
    pub since: Option<usize>,
    pub part: String,
    pub proofs: Vec<Proof>,
}

impl Found {
    pub fn new(weight: f64, name: &'static str, what: impl Into<String>) -> Found {
        Found { weight, name, what: what.into(), since: None, part: String::new(), proofs: Vec::new() }
    }

    pub fn on(self, part: impl Into<String>) -> Found {
        Found { part: part.into(), ..self }
    }

    pub fn from(self, since: Option<usize>) -> Found {
        Found { since, ..self }
    }

    pub fn proof(mut self, rows: impl Into<String>, figure: impl Into<String>) -> Found {
        self.proofs.push(Proof { rows: rows.into(), figure: figure.into() });
        self
    }

    pub fn cause(self, remedy: &str) -> Cause {
        let since = match self.since {
            None => "the whole window".to_owned(),
            Some(second) => format!("from second {second} of the window on"),
        };
        Cause {
            name: self.name.to_owned(),
            what: self.what,
            since,
            part: self.part,
            proofs: self.proofs,
            remedy: remedy.to_owned(),
        }
    }
}

/// Counts of each second of the window, all hosts together; empty if the rows are longer than a second.
#[derive(Default)]
pub struct Seconds {
    pub reads: Vec<IoTotals>,
    pub writes: Vec<IoTotals>,
    pub logs: Vec<IoTotals>,
    /// Reads of every class.
    pub all_reads: Vec<IoTotals>,
    /// Writes of every class.
    pub all_writes: Vec<IoTotals>,
}

/// Kind, speed and size of the disks, from which the usual time for a request follows.
#[derive(Clone, Copy)]
pub struct DiskClass {
    pub is_flash: bool,
    pub rpm: f64,
    pub capacity_bytes: f64,
}

impl DiskClass {
    /// The disks that the solution file names first, by the values of the storage model; a disk of 7,200 rpm and 4 TB
    /// where there are none.
    fn of(data: &RunData) -> DiskClass {
        let named = |row: &Environment| {
            let model = row.name.strip_prefix("drive.")?.strip_suffix(".capacity_bytes")?.to_owned();
            Some((data.run.solution_text.find(&format!("\"{model}\""))?, model))
        };
        let model =
            data.environment.iter().filter_map(named).min().map(|(_, model)| model).unwrap_or_default();
        let value = |key: &str| {
            let name = format!("drive.{model}.{key}");
            let row = data.environment.iter().find(|row| row.name == name);
            row.map(|row| row.value.trim_matches('"'))
        };
        let number = |key, other: f64| value(key).and_then(|text| text.parse().ok()).unwrap_or(other);
        DiskClass {
            is_flash: value("kind") == Some("flash"),
            rpm: number("rpm", 7_200.0),
            capacity_bytes: number("capacity_bytes", 4e12),
        }
    }
}

/// The figures of a load test that the causes are judged by.
pub struct Facts<'a> {
    pub report: &'a TestReport,
    pub seconds: Seconds,
    /// Sessions, if the load is a closed one; none of an open load with a rate.
    pub sessions: Option<u32>,
    pub disk: DiskClass,
}

impl<'a> Facts<'a> {
    pub fn new(view: &TestView<'_>, report: &'a TestReport) -> Facts<'a> {
        let of = |measure| seconds(view, &[measure]);
        let all = |direction| {
            let classes = IoClass::ALL.into_iter().filter(|class| class.direction() == direction);
            seconds(view, &classes.map(Measure::Io).collect::<Vec<_>>())
        };
        let seconds = Seconds {
            reads: of(READ),
            writes: of(WRITE),
            logs: of(LOG),
            all_reads: all(Direction::Read),
            all_writes: all(Direction::Write),
        };
        let disk = DiskClass::of(view.data);
        Facts { report, seconds, sessions: view.test.sessions, disk }
    }

    /// Whether it is a load test, which causes are looked for in.
    pub fn is_load(report: &TestReport) -> bool {
        report.throughput.is_some() && is_load(&report.kind)
    }

    /// The failed verdict that misses its limit furthest, among rules whose names begin like this.
    pub fn broken(&self, rule: &str) -> Option<&Verdict> {
        let is_broken = |verdict: &&Verdict| {
            let figures = verdict.measured.zip(verdict.limit);
            let is_beyond =
                figures.is_some_and(|(measured, limit)| !verdict.comparison.holds(measured, limit));
            verdict.outcome == Outcome::Fail || (verdict.outcome != Outcome::Pass && is_beyond)
        };
        let of_rule = self.report.verdicts.iter().filter(|verdict| verdict.rule.starts_with(rule));
        let broken = of_rule.filter(is_broken);
        broken.max_by(|a, b| a.measured.unwrap_or(0.0).total_cmp(&b.measured.unwrap_or(0.0)))
    }

    pub fn reads_slow(&self) -> bool {
        self.broken("read_latency").is_some()
    }

    pub fn logs_slow(&self) -> bool {
        self.broken("log_write_latency").is_some()
    }

    pub fn too_little(&self) -> bool {
        self.broken("achieved_iops").is_some()
    }

    pub fn is_slow(&self) -> bool {
        self.reads_slow() || self.logs_slow()
    }

    pub fn figures(&self, measure: Measure) -> Option<&Figures> {
        self.report.measures.iter().find(|row| row.measure == measure.name()).map(|row| &row.figures)
    }

    pub fn mean_ms(&self, measure: Measure) -> Option<f64> {
        self.figures(measure)?.latency_ms_mean
    }

    /// Share of the mean latency for which the load generator held completed operations, of the class that broke its
    /// limit and that it held for the larger share; `None` if that was not recorded.
    pub fn held_share(&self) -> Option<f64> {
        let broken = [(READ, self.reads_slow() || !self.is_slow()), (LOG, self.logs_slow())];
        let share = |measure: Measure| {
            let row = self.report.measures.iter().find(|row| row.measure == measure.name())?;
            Some(row.held_ms? / row.figures.latency_ms_mean.filter(|mean| *mean > 0.0)?)
        };
        broken
            .into_iter()
            .filter(|(_, is_broken)| *is_broken)
            .filter_map(|(measure, _)| share(measure))
            .reduce(f64::max)
    }

    pub fn iops(&self) -> f64 {
        self.report.throughput.map_or(0.0, |throughput| throughput.transactional_iops)
    }

    pub fn parts(&self, kind: &'a str) -> impl Iterator<Item = &'a StoragePart> {
        self.report.storage_parts.iter().filter(move |part| part.kind == kind)
    }

    /// The modelled part of a kind with the highest busy share.
    pub fn busiest(&self, kind: &'a str) -> Option<&'a StoragePart> {
        self.parts(kind).max_by(|a, b| a.busy_share.total_cmp(&b.busy_share))
    }

    /// Modelled disks that served requests.
    pub fn drives(&self) -> Vec<&'a StoragePart> {
        self.parts("drive").filter(|part| part.reads + part.writes > 0).collect()
    }

    /// Whether the run recorded parts of modelled storage; real storage has none.
    pub fn has_parts(&self) -> bool {
        self.report.storage_parts.iter().any(|part| part.kind == "drive")
    }
}

fn seconds(view: &TestView<'_>, measures: &[Measure]) -> Vec<IoTotals> {
    let length = view.span.seconds();
    let mut seconds = Vec::new();
    for point in view.points(Scope::All, measures) {
        if point.interval_ms > ROW_MS_MAX || length > SECONDS_MAX {
            return Vec::new();
        }
        seconds.resize(length as usize, IoTotals::default());
        let second = (point.middle_ms() - view.span.start_ms) / 1_000;
        if let Some(second) = seconds.get_mut(second as usize) {
            second.add(point.totals);
        }
    }
    seconds
}

/// Mean latency of some seconds together, in ms.
pub fn mean_ms(seconds: &[IoTotals]) -> Option<f64> {
    let mut totals = IoTotals::default();
    seconds.iter().for_each(|second| totals.add(*second));
    totals.latency_ms()
}

/// Operations per second in some seconds.
pub fn per_s<'a>(seconds: impl ExactSizeIterator<Item = &'a IoTotals>) -> f64 {
    let length = seconds.len().max(1) as f64;
    seconds.map(|second| second.count).sum::<u64>() as f64 / length
}

/// Finds a lasting change of the latency. Returns the second at which it begins, and the means before and after, ms.
/// The mean after must be at least 1.7 times that before, and 1.5 times in both halves. `None` if there is no such
/// second.
pub fn step(seconds: &[IoTotals]) -> Option<(usize, f64, f64)> {
    let sum = |seconds: &[IoTotals]| {
        let mut totals = IoTotals::default();
        seconds.iter().for_each(|second| totals.add(*second));
        totals
    };
    let whole = sum(seconds);
    let mut before = IoTotals::default();
    let mut found: Option<(usize, f64, f64)> = None;
    for (at, second) in seconds.iter().enumerate() {
        let mean = |count: u64, ns: u64| (count > 0).then(|| ns as f64 / count as f64 / 1e6);
        let behind = (whole.count - before.count, whole.latency_ns_sum - before.latency_ns_sum);
        let levels = mean(before.count, before.latency_ns_sum).zip(mean(behind.0, behind.1));
        let is_inside = at >= SETTLED_S && at + SETTLED_S < seconds.len();
        if let Some((low, high)) = levels.filter(|_| is_inside)
            && found.is_none_or(|(_, before, after)| high / low > after / before)
        {
            found = Some((at, low, high));
        }
        before.add(*second);
    }
    let (at, before, after) = found?;
    let half = (seconds.len() - at) / 2;
    let holds = |part: &[IoTotals]| mean_ms(part).is_some_and(|ms| ms >= 1.5 * before);
    (after >= 1.7 * before && holds(&seconds[at..at + half]) && holds(&seconds[at + half..]))
        .then_some((at, before, after))
}

/// The median of some values.
pub fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

pub fn ms(value: f64) -> String {
    format!("{} ms", significant(value))
}

pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0, 0))
}

pub fn busy(part: &StoragePart) -> String {
    format!("busy {} of the time", percent(part.busy_share))
}
