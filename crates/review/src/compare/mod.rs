//! Comparing runs of any kind: measured, simulated, imported, published. The first is the baseline.
//!
//! Invariants
//! 1. Tests are paired by kind and place among their kind; what has no partner is named, never dropped.
//! 2. A difference of load, mix, maintenance, page size, database size or cache makes two runs incomparable:
//!    figures are shown, nothing is judged.
//! 3. A regression is worse than the baseline by more than the limit, and its alarm interval excludes zero: the
//!    more figures are judged, the wider it is, so that equal runs raise an alarm in one comparison of twenty
//!    at most. A figure of a test that is too short for an interval is not judged. Printed figures have no
//!    interval and are judged by their values, except percentiles: a few operations decide them.
//! 4. A figure that the baseline has and a run lacks is no regression and no pass: [`Comparison::missing`] names it.

mod figures;
mod group;
mod statistics;
mod view;

use evidence::report::TestReport;
use evidence::{Report, RunData};
use results::{Day, Severity, WorldKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::import::{About, rows};
use crate::printed_figures::Evidence;
use crate::sources::Source;
use figures::{Series, figures};
pub use group::GroupError;

/// Kinds of evidence without series and percentiles: imported and published figures.
const PRINTED: [&str; 2] = ["imported", "published"];

/// A run that is compared.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Name in the tables: the file or folder.
    pub name: String,
    /// Report of the run.
    pub report: Report,
    /// Rows of its run.db; none if only `report.json` is there.
    data: Option<RunData>,
    /// Kind of evidence: `measured`, `simulated`, `imported` or `published`.
    kind: &'static str,
}

/// Why a piece of evidence cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// No report can be made of its figures.
    #[error("{name}: {what}")]
    NoReport {
        /// File or folder of the evidence.
        name: String,
        /// The reason.
        what: String,
    },
}

impl Subject {
    /// Whether the run has no series from which noise can be estimated: imported or published figures, or a report
    /// without its run.db.
    fn is_printed(&self) -> bool {
        self.data.is_none() || PRINTED.contains(&self.kind)
    }

    /// Prepares opened evidence for a comparison.
    pub fn new(name: &str, source: Source) -> Result<Subject, CompareError> {
        let name = name.to_owned();
        match source {
            Source::Run { data, report, printed, .. } => {
                let kind = match (report.run.world, printed.is_some()) {
                    (_, true) => "imported",
                    (WorldKind::Real, _) => "measured",
                    (WorldKind::Simulated, _) => "simulated",
                };
                Ok(Subject { name, report: *report, data: Some(*data), kind })
            }
            Source::Report(report) => {
                let kind = if report.run.world == WorldKind::Real { "measured" } else { "simulated" };
                Ok(Subject { name, report: *report, data: None, kind })
            }
            Source::Printed(evidence) => published(name, &evidence),
        }
    }
}

fn published(name: String, evidence: &Evidence) -> Result<Subject, CompareError> {
    let no_report = |what: String| CompareError::NoReport { name: name.clone(), what };
    let about = About { id: name.clone(), source: name.clone(), solution_text: String::new() };
    let data =
        RunData::from_rows(rows(evidence, &about)).ok_or_else(|| no_report("it holds no test".into()))?;
    let report = Report::new(&data).map_err(|error| no_report(error.to_string()))?;
    Ok(Subject { name, report, data: Some(data), kind: "published" })
}

/// The answer of `compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Always `proofload-comparison`.
    pub format: &'static str,
    /// Version of this answer's form.
    pub version: u32,
    /// The runs; the first is the baseline.
    pub runs: Vec<RunHead>,
    /// Tests that at least one run has, with their figures side by side.
    pub tests: Vec<TestComparison>,
}

/// A compared run, and whether it can be compared with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunHead {
    /// Name in the tables.
    pub name: String,
    /// Kind of evidence: `measured`, `simulated`, `imported` or `published`.
    pub kind: &'static str,
    /// Name of its solution.
    pub solution: String,
    /// What contradicts its seals, if something does: then none of its figures proves anything.
    pub changed: Option<String>,
    /// Reasons why it cannot be compared with the baseline; empty when it can.
    pub incomparable: Vec<String>,
    /// Differences between the setups that may explain differences of figures.
    pub cautions: Vec<String>,
}

/// A test with its figures in all runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestComparison {
    /// Title in the first run that has it.
    pub name: String,
    /// Kind of the test.
    pub kind: String,
    /// Figures side by side.
    pub rows: Vec<Row>,
    /// Series for the charts, one per run.
    #[serde(skip)]
    series: Vec<Series>,
}

/// A figure in all runs, side by side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Name of the figure.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Whether a higher or a lower value is better; none when neither is.
    pub better: Option<Better>,
    /// Whether it is a latency percentile of single operations.
    #[serde(skip)]
    pub is_percentile: bool,
    /// A value per run, or per group of runs.
    pub cells: Vec<Cell>,
    /// Values of the single runs of each group.
    #[serde(skip)]
    runs: Vec<Vec<f64>>,
}

/// Which direction of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A higher value is better.
    Higher,
    /// A lower value is better.
    Lower,
}

/// A figure in one run or group, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Cell {
    /// The value; none if the run does not have the figure.
    pub value: Option<f64>,
    /// Distance of the lowest and the highest run of a group, in percent of their mean; none for a single run.
    pub spread_pct: Option<f64>,
    /// Difference from the baseline, in percent of the baseline.
    pub difference_pct: Option<f64>,
    /// 95 % confidence interval of the difference in percent; none if the series are too short. Of groups it follows
    /// from how far their runs differ.
    pub interval_pct: Option<(f64, f64)>,
    /// Interval by which a regression is judged: a figure is worse only if zero lies outside. It is wider the more
    /// figures are judged; with five it holds the true difference in 98 % of cases.
    pub alarm_interval_pct: Option<(f64, f64)>,
    /// Whether a regression would be noticed: the figure has a better direction, and its interval is known or the
    /// evidence is printed figures, of which only the value is known.
    pub judged: bool,
}

/// Compares runs with the first of them, the baseline.
pub fn compare(subjects: &[Subject]) -> Comparison {
    let runs = subjects
        .iter()
        .enumerate()
        .map(|(n, subject)| RunHead {
            name: subject.name.clone(),
            kind: subject.kind,
            solution: subject.report.run.solution.clone(),
            changed: evidence::misfit(&subject.report.run.seals_broken),
            incomparable: if n == 0 { Vec::new() } else { incomparable(&subjects[0], subject) },
            cautions: if n == 0 { Vec::new() } else { cautions(&subjects[0], subject) },
        })
        .collect();
    Comparison { format: "proofload-comparison", version: 1, runs, tests: tests(subjects) }
}

impl Comparison {
    /// Figures that are worse than the baseline by more than `percent`: run, test and row of each.
    pub fn regressions(&self, percent: f64) -> Vec<(&RunHead, &TestComparison, &Row)> {
        self.cells(|row, cell| is_regression(row, cell, percent))
    }

    /// Figures of the baseline that a run lacks and that a regression could be in: the test's name where all its
    /// figures are missing, else each figure's.
    pub fn missing(&self) -> Vec<(&RunHead, Vec<String>)> {
        let all = self.runs.iter().enumerate().skip(1).map(|(n, run)| {
            let lacks = self.tests.iter().flat_map(|test| lacking(test, n, run)).collect::<Vec<_>>();
            (run, lacks)
        });
        all.filter(|(_, lacks)| !lacks.is_empty()).collect()
    }

    /// Figures with a better direction that could not be judged, because a test was too short for an interval: run,
    /// test and row of each.
    pub fn unjudged(&self) -> Vec<(&RunHead, &TestComparison, &Row)> {
        self.cells(|row, cell| row.better.is_some() && cell.difference_pct.is_some() && !cell.judged)
    }

    /// Whether any figure of a run was judged.
    pub fn is_judged(&self, run: &RunHead) -> bool {
        self.cells(|_, cell| cell.judged).iter().any(|(judged, ..)| judged.name == run.name)
    }

    /// Values of the runs that can be compared with the baseline.
    fn cells(&self, wanted: impl Fn(&Row, &Cell) -> bool) -> Vec<(&RunHead, &TestComparison, &Row)> {
        let mut found = Vec::new();
        for test in &self.tests {
            for row in &test.rows {
                let runs = self.runs.iter().zip(&row.cells).skip(1);
                let wanted = runs.filter(|(run, cell)| run.incomparable.is_empty() && wanted(row, cell));
                found.extend(wanted.map(|(run, _)| (run, test, row)));
            }
        }
        found
    }

    /// The comparison as JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a comparison has only text keys");
        text.push('\n');
        text
    }
}

fn lacking(test: &TestComparison, n: usize, run: &RunHead) -> Vec<String> {
    // No printed report has percentiles.
    let printed = PRINTED.contains(&run.kind);
    let can_have = |row: &&Row| !(printed && row.is_percentile);
    let judged = test.rows.iter().filter(|row| row.better.is_some() && row.cells[0].value.is_some());
    let judged: Vec<&Row> = judged.filter(can_have).collect();
    let lacks: Vec<&&Row> = judged.iter().filter(|row| row.cells[n].value.is_none()).collect();
    match lacks.len() == judged.len() {
        true => lacks.first().map(|_| test.name.clone()).into_iter().collect(),
        false => lacks.iter().map(|row| format!("{} of {}", row.name, test.name)).collect(),
    }
}

fn is_regression(row: &Row, cell: &Cell, percent: f64) -> bool {
    let (Some(better), Some(change)) = (row.better, cell.difference_pct) else { return false };
    let worse = |change: f64| match better {
        Better::Higher => -change,
        Better::Lower => change,
    };
    let is_sure = cell.alarm_interval_pct.is_none_or(|(low, high)| worse(low) > 0.0 && worse(high) > 0.0);
    cell.judged && worse(change) > percent && is_sure
}

/// Pairs the tests of the runs by kind and place among tests of that kind, in the order of the first run that has
/// them.
fn tests(subjects: &[Subject]) -> Vec<TestComparison> {
    let mut keys: Vec<(String, usize, String)> = Vec::new();
    for subject in subjects {
        for (kind, nth, test) in numbered(&subject.report) {
            if !keys.iter().any(|(other, n, _)| *other == kind && *n == nth) {
                keys.push((kind.to_owned(), nth, test.name.clone()));
            }
        }
    }
    let is_printed: Vec<bool> = subjects.iter().map(Subject::is_printed).collect();
    let paired: Vec<Paired<'_>> = keys
        .into_iter()
        .map(|(kind, nth, name)| {
            let is_same = |(k, n, _): &(&str, usize, &TestReport)| *k == kind && *n == nth;
            let tests: Vec<Option<&TestReport>> = subjects
                .iter()
                .map(|subject| numbered(&subject.report).find(is_same).map(|(_, _, test)| test))
                .collect();
            let series = subjects.iter().zip(&tests).map(|(s, test)| Series::of(s, *test)).collect();
            Paired { name, kind, tests, series }
        })
        .collect();
    let rows = |judged: &[usize]| -> Vec<Vec<Row>> {
        paired.iter().map(|pair| figures(&pair.tests, &pair.series, &is_printed, judged)).collect()
    };
    // Which figures have an interval does not depend on how wide it is.
    let all = rows(&vec![1; subjects.len()]);
    let has_interval = |n: usize| {
        let cells = all.iter().flatten().filter(|row| row.better.is_some()).map(|row| &row.cells[n]);
        cells.filter(|cell| cell.alarm_interval_pct.is_some()).count()
    };
    let judged: Vec<usize> = (0..subjects.len()).map(has_interval).collect();
    let compared = rows(&judged);
    paired
        .into_iter()
        .zip(compared)
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(Paired { name, kind, series, .. }, rows)| TestComparison { name, kind, rows, series })
        .collect()
}

/// One test in all runs that have it.
struct Paired<'a> {
    name: String,
    kind: String,
    tests: Vec<Option<&'a TestReport>>,
    series: Vec<Series>,
}

fn numbered(report: &Report) -> impl Iterator<Item = (&str, usize, &TestReport)> {
    report.tests.iter().enumerate().map(|(at, test)| {
        let nth = report.tests[..at].iter().filter(|other| other.kind == test.kind).count();
        (test.kind.as_str(), nth, test)
    })
}

/// Reasons why differences of two runs' figures mean nothing: another world, load or database size.
fn incomparable(base: &Subject, other: &Subject) -> Vec<String> {
    let mut reasons = Vec::new();
    let pages = |subject: &Subject| {
        let mut sizes: Vec<u32> =
            subject.report.databases.iter().map(|database| database.page_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let (a, b) = (pages(base), pages(other));
    if !a.is_empty() && !b.is_empty() && a != b {
        reasons.push(format!("different page sizes: {a:?} and {b:?} bytes"));
    }
    let (a, b) = (cache_bytes(base), cache_bytes(other));
    if a > 0 && b > 0 && a != b {
        reasons.push(format!("different caches: {} and {} of all instances", size(a), size(b)));
    }
    let mut shared = 0;
    for (kind, nth, test) in numbered(&other.report) {
        let Some((_, _, partner)) = numbered(&base.report).find(|(k, n, _)| *k == kind && *n == nth) else {
            continue;
        };
        shared += 1;
        let (a, b) = (load(base, partner), load(other, test));
        for ((what, a), (_, b)) in a.iter().zip(&b) {
            if let (Some(a), Some(b)) = (a, b)
                && a != b
            {
                reasons.push(format!("{}: different {what}: {a} and {b}", test.name));
            }
        }
        let sizes = database_bytes(base, partner).zip(database_bytes(other, test));
        if let Some((a, b)) = sizes.filter(|(a, b)| differ(*a, *b, SIZES_DIFFER)) {
            let (a, b) = (size(a), size(b));
            reasons.push(format!("{}: different sizes of all databases: {a} and {b}", test.name));
        }
    }
    if shared == 0 {
        reasons.push("they have no test in common".to_owned());
    }
    reasons
}

fn size(bytes: u64) -> String {
    evidence::report::bytes(bytes as f64)
}

/// Difference of two sizes of databases, as a share, from which on they count as different; equal runs differ by what
/// the tests before have added.
const SIZES_DIFFER: f64 = 0.05;
/// Difference of sizes from which on the comparison mentions it as a caution.
const SIZES_DOUBTFUL: f64 = 0.01;

fn differ(a: u64, b: u64, share: f64) -> bool {
    a.abs_diff(b) as f64 > share * a.max(b) as f64
}

/// Largest sum of all instances' page caches in bytes; 0 if it is not known.
fn cache_bytes(subject: &Subject) -> u64 {
    subject.report.instances.iter().map(|instance| instance.cache_max_bytes).sum()
}

/// Bytes of all databases when the first load test began; `None` without the rows of its run.
fn database_bytes(subject: &Subject, test: &TestReport) -> Option<u64> {
    let data = subject.data.as_ref().filter(|_| test.throughput.is_some())?;
    let sizes = data.sizes.iter().filter(|size| size.test == test.ordinal).map(|size| size.bytes_before);
    Some(sizes.sum()).filter(|bytes| *bytes > 0)
}

/// The settings that define the load of a test; one that is not known matches any.
fn load(subject: &Subject, test: &TestReport) -> [(&'static str, Option<String>); 8] {
    let row = subject
        .data
        .as_ref()
        .and_then(|data| data.tests.get(&test.ordinal))
        .filter(|_| test.throughput.is_some());
    let own = ["measured", "simulated"].contains(&subject.kind);
    // Reports of others word their parameters in their own way.
    let stated = |name: &str| {
        let parameters = test.parameters.iter().filter(|_| own && row.is_some());
        parameters
            .into_iter()
            .find(|parameter| parameter.name == name)
            .map(|parameter| parameter.value.clone())
    };
    // How long a pause lasts is no other load; it is said.
    let maintenance = stated(MAINTENANCE).map(|text| text.split(',').next().unwrap_or_default().to_owned());
    let databases = subject.report.databases.len();
    [
        ("target", row.and_then(|row| row.target_iops).map(|iops| format!("{iops} I/O per second"))),
        ("day of the load", row.filter(|_| own).map(|row| hours(row.day))),
        ("number of sessions", row.and_then(|row| row.sessions).map(|sessions| sessions.to_string())),
        ("number of copies", row.map(|row| row.copies.to_string())),
        ("operation mix", stated("Operations")),
        ("share of lazy commits", stated("Lazy commits")),
        ("background maintenance", maintenance),
        ("number of databases", row.filter(|_| databases > 0).map(|_| databases.to_string())),
    ]
}

/// The load of each hour; it tells days apart whose mean is equal, so that the target is, too.
fn hours(day: Option<Day>) -> String {
    let Some(day) = day else { return "all hours alike".into() };
    let hours: Vec<String> = day.hours_percent.iter().map(f64::to_string).collect();
    format!("[{}] % of the peak hour", hours.join(", "))
}

/// Name of the parameter of a test that says how background maintenance runs.
const MAINTENANCE: &str = "Background maintenance";

/// Load of other programs on a host before the tests, where it was high enough for a warning.
fn load_before(report: &Report) -> Option<&str> {
    let row = report.environment.iter().find(|row| row.name == evidence::environment::LOAD_BEFORE)?;
    (row.severity != Severity::Info).then_some(row.value.as_str())
}

/// Differences between the setups that may explain differences of figures, though these can be compared.
fn cautions(base: &Subject, other: &Subject) -> Vec<String> {
    let mut cautions = Vec::new();
    if base.kind != other.kind {
        cautions.push(format!("{} against {}", other.kind, base.kind));
    }
    let simulated = |subject: &Subject| subject.report.run.world == WorldKind::Simulated;
    if simulated(base) != simulated(other) {
        cautions.push("a prediction against a measurement: a difference may be the model's".to_owned());
    }
    for (whose, run) in [("the baseline", base), ("this run", other)] {
        if let Some(load) = load_before(&run.report) {
            cautions.push(format!("other work competed with {whose} (load before the tests: {load})"));
        }
    }
    let printed = |subject: &Subject| PRINTED.contains(&subject.kind);
    if printed(base) != printed(other) {
        cautions.push(
            "printed read latencies include background maintenance, ours do not; printed averages weigh samples, not \
             operations"
                .to_owned(),
        );
    }
    for (kind, nth, test) in numbered(&other.report) {
        let partner = numbered(&base.report).find(|(k, n, _)| *k == kind && *n == nth);
        let windows = partner.and_then(|(_, _, partner)| Some((partner.window?, test.window?)));
        if let Some((a, b)) = windows
            && (a.duration_s / b.duration_s.max(1e-9) - 1.0).abs() > 0.1
            && test.throughput.is_some()
        {
            cautions
                .push(format!("{}: windows of {:.0} s and {:.0} s", test.name, a.duration_s, b.duration_s));
        }
        let Some((_, _, partner)) = partner else { continue };
        let sizes = database_bytes(base, partner).zip(database_bytes(other, test));
        let doubtful = |(a, b): &(u64, u64)| differ(*a, *b, SIZES_DOUBTFUL) && !differ(*a, *b, SIZES_DIFFER);
        if let Some((a, b)) = sizes.filter(doubtful) {
            cautions.push(format!("{}: databases of {} and {}", test.name, size(a), size(b)));
        }
        cautions.extend(settings_apart(partner, test));
    }
    cautions
}

/// Settings that differ between two tests of the same load and may change its figures. Only settings that both
/// reports express in the same words are compared.
fn settings_apart(base: &TestReport, other: &TestReport) -> Vec<String> {
    let names = [MAINTENANCE, "Writing back starts and stops", "Checkpoint depth"];
    let value = |test: &TestReport, name: &str| {
        test.parameters
            .iter()
            .find(|parameter| parameter.name == name)
            .map(|parameter| parameter.value.clone())
    };
    let apart = |name: &&str| value(base, name).zip(value(other, name)).filter(|(a, b)| a != b);
    let said = names.iter().filter_map(|name| Some((name, apart(name)?)));
    said.map(|(name, (a, b))| format!("{}: {}: {a}, and {b}", other.name, name.to_lowercase())).collect()
}
