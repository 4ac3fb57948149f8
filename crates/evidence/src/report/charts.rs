//! What charts show: values per step of time, few enough to draw and to keep in `report.json`.

use results::{IoClass, IoTotals, Limit, Measure, Origin, Verdict};

use super::ReportError;
use super::model::*;
use super::samples::Moment;
use super::window::{Scope, TestView, decode};

/// Titles by which the first page of a report finds its charts.
pub mod title {
    /// Titles and measures of the rate lines of a mailbox load's chart.
    pub const RATES: &str = "I/O per second";
    /// Titles and measures of the mean-latency lines of a mailbox load's chart.
    pub const LATENCIES: &str = "Mean latency";
}

/// Every measure, in the order of the report's tables.
pub fn measures() -> impl Iterator<Item = Measure> {
    IoClass::ALL.into_iter().map(Measure::Io).chain([Measure::Batch, Measure::BatchIntended])
}

/// Most points of a chart line.
const STEPS: f64 = 240.0;
/// Seconds between points that give round labels on a time axis.
const STEP_S: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0];

const READ: Measure = Measure::Io(IoClass::TransactionalRead);
const WRITE: Measure = Measure::Io(IoClass::TransactionalWrite);
const LOG_WRITE: Measure = Measure::Io(IoClass::LogWrite);

/// Points at equal distances over the window of a test.
struct Steps {
    step_s: f64,
    count: usize,
    start_ms: u64,
    end_ms: u64,
}

impl Steps {
    fn new(view: &TestView<'_>, at_least_s: f64) -> Steps {
        let duration_s = view.span.seconds();
        let wished = (duration_s / STEPS).max(at_least_s);
        let step_s = STEP_S.into_iter().find(|&step| step >= wished).unwrap_or(duration_s.max(1.0));
        let count = (duration_s / step_s).ceil().max(1.0) as usize;
        Steps { step_s, count, start_ms: view.span.start_ms, end_ms: view.span.end_ms }
    }

    fn of(&self, moment: &impl Moment) -> usize {
        let after_s = moment.middle_ms().saturating_sub(self.start_ms) as f64 / 1e3;
        ((after_s / self.step_s) as usize).min(self.count - 1)
    }

    /// Seconds that a point stands for; the last may stand for less.
    fn length_s(&self, step: usize) -> f64 {
        let duration_s = (self.end_ms - self.start_ms) as f64 / 1e3;
        (duration_s - step as f64 * self.step_s).min(self.step_s)
    }

    fn totals(&self, view: &TestView<'_>, scope: Scope<'_>, measure: Measure) -> Vec<IoTotals> {
        let mut totals = vec![IoTotals::default(); self.count];
        view.points(scope, &[measure]).for_each(|point| totals[self.of(point)].add(point.totals));
        totals
    }

    fn chart(
        &self,
        title: &str,
        unit: &str,
        lines: Vec<ChartLine>,
        limits: Vec<ChartLimit>,
    ) -> Option<Chart> {
        // Fewer than three points are no line: the tables have them.
        let something = lines.iter().any(|line| line.values.iter().flatten().count() > 2);
        let duration_s = (self.end_ms - self.start_ms) as f64 / 1e3;
        something.then(|| Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            duration_s,
            step_s: self.step_s,
            lines,
            limits,
        })
    }

    /// Rates per second at each point. A short rest at the end has no rate: a few operations would look like a peak or
    /// a gap.
    fn rates(&self, totals: &[IoTotals], amount: impl Fn(&IoTotals) -> f64) -> Vec<Option<f64>> {
        let long_enough = |step: usize| self.length_s(step) >= self.step_s / 2.0;
        totals
            .iter()
            .enumerate()
            .map(|(step, totals)| long_enough(step).then(|| amount(totals) / self.length_s(step)))
            .collect()
    }
}

/// The line charts of a test: rates and latencies of a mailbox load, for other tests the throughput.
pub fn lines(view: &TestView<'_>, load: bool, verdicts: &[Verdict]) -> Vec<Chart> {
    let steps = Steps::new(view, 0.0);
    if !load {
        return throughput(view, &steps).into_iter().collect();
    }
    let of = |measure| steps.totals(view, Scope::All, measure);
    let (reads, writes, log_writes) = (of(READ), of(WRITE), of(LOG_WRITE));
    let line = |name: &str, values| ChartLine { name: name.to_owned(), values };
    let mean = |totals: &[IoTotals]| totals.iter().map(IoTotals::latency_ms).collect();
    let longest =
        |totals: &[IoTotals]| -> Vec<Option<f64>> { totals.iter().map(|t| t.latency_ms_max()).collect() };
    let count = |totals: &[IoTotals]| steps.rates(totals, |totals| totals.count as f64);
    [
        steps.chart(
            title::RATES,
            "1/s",
            vec![
                line("Database reads", count(&reads)),
                line("Database writes", count(&writes)),
                line("Log writes", count(&log_writes)),
            ],
            Vec::new(),
        ),
        steps.chart(
            title::LATENCIES,
            "ms",
            vec![
                line("Database reads", mean(&reads)),
                line("Database writes", mean(&writes)),
                line("Log writes", mean(&log_writes)),
            ],
            limits(&view.test.limits, verdicts),
        ),
        steps.chart(
            "Longest latency of a single I/O",
            "ms",
            vec![
                line("Database reads", longest(&reads)),
                line("Database writes", longest(&writes)),
                line("Log writes", longest(&log_writes)),
            ],
            Vec::new(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The limits on mean latencies as lines of the chart, each once.
fn limits(of_test: &[Limit], verdicts: &[Verdict]) -> Vec<ChartLimit> {
    let named = [("read_latency_avg", "Limit for reads"), ("log_write_latency_avg", "Limit for log writes")];
    named
        .into_iter()
        .filter_map(|(rule, name)| {
            // A test that was cut off has limits, but no verdicts.
            let stated = of_test.iter().find(|limit| limit.rule == rule).map(|limit| limit.value);
            let value = stated.or_else(|| verdicts.iter().find(|verdict| verdict.rule == rule)?.limit)?;
            Some(ChartLimit { name: name.to_owned(), value })
        })
        .collect()
}

fn throughput(view: &TestView<'_>, steps: &Steps) -> Option<Chart> {
    let lines = measures()
        .filter(|measure| view.totals(Scope::All, &[*measure]).bytes > 0)
        .map(|measure| {
            let totals = steps.totals(view, Scope::All, measure);
            let values = steps.rates(&totals, |totals| totals.bytes as f64 / (1 << 20) as f64);
            ChartLine { name: super::text::measure(measure.name()).to_owned(), values }
        })
        .collect();
    steps.chart("Throughput", "MiB/s", lines, Vec::new())
}

/// Heat map of the latencies of `measure` over time, four rows per doubling of the latency.
pub fn latency_map(view: &TestView<'_>, measure: Measure) -> Result<Option<LatencyMap>, ReportError> {
    let longest_slice_ms = view.slices(Scope::All, measure).map(|slice| slice.interval_ms).max();
    let Some(longest_slice_ms) = longest_slice_ms else { return Ok(None) };
    let steps = Steps::new(view, longest_slice_ms as f64 / 1e3);
    let mut rows: Vec<std::collections::BTreeMap<i32, u64>> = vec![Default::default(); steps.count];
    for slice in view.slices(Scope::All, measure) {
        let row = &mut rows[steps.of(slice)];
        for value in decode(slice)?.iter_recorded() {
            let bin = ((value.value_iterated_to().max(1) as f64).log2() * 4.0).floor() as i32;
            *row.entry(bin).or_default() += value.count_at_value();
        }
    }
    let bins = || rows.iter().flat_map(|row| row.keys().copied());
    let (Some(low), Some(high)) = (bins().min(), bins().max()) else { return Ok(None) };
    Ok(Some(LatencyMap {
        measure: measure.name().to_owned(),
        duration_s: view.span.seconds(),
        step_s: steps.step_s,
        bounds_ms: (low..=high + 1).map(|bin| (f64::from(bin) / 4.0).exp2() / 1e3).collect(),
        columns: rows
            .iter()
            .map(|row| (low..=high).map(|bin| row.get(&bin).copied().unwrap_or(0)).collect())
            .collect(),
    }))
}

/// Mean read latency of each instance over time; none for a single instance, which the line chart shows already.
pub fn instance_map(view: &TestView<'_>, measure: Measure, instances: &[Origin]) -> Option<InstanceMap> {
    let steps = Steps::new(view, view.test.sample_ms as f64 / 1e3);
    if instances.len() < 2 || view.test.window_start_ms.is_none() {
        return None;
    }
    let rows: Vec<InstanceMapRow> = instances
        .iter()
        .map(|origin| {
            let scope = Scope::Instance(&origin.host, origin.instance.as_deref().unwrap_or_default());
            let totals = steps.totals(view, scope, measure);
            let latency_ms_mean = totals.iter().map(IoTotals::latency_ms).collect();
            InstanceMapRow { origin: origin.clone(), latency_ms_mean }
        })
        .collect();
    let something = rows.iter().any(|row| row.latency_ms_mean.iter().flatten().count() > 0);
    something.then(|| InstanceMap { duration_s: view.span.seconds(), step_s: steps.step_s, rows })
}
