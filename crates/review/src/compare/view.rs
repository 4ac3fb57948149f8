//! A comparison as text and as a page.

use std::fmt::Write;

use evidence::report::{Chart, ChartLine, SampleFigures, line_chart, significant};

use super::{Cell, Comparison, Row, Series, TestComparison};
use crate::markup::{page, table};
use evidence::markup::escape;

/// Points of a chart that lays runs over each other.
const STEPS: usize = 240;

impl Comparison {
    /// The comparison as text for the terminal.
    pub fn text(&self) -> String {
        let mut text: String = self.changes().map(|line| format!("{line}\n")).collect();
        for (n, run) in self.runs.iter().enumerate() {
            let _ = writeln!(text, "{}  {} ({}: {})", letter(n), run.name, run.kind, run.solution);
            for reason in &run.incomparable {
                let _ = writeln!(text, "   cannot be compared with A: {reason}");
            }
            for caution in &run.cautions {
                let _ = writeln!(text, "   note: {caution}");
            }
        }
        text.push_str(&self.tables());
        for line in self.alone() {
            let _ = writeln!(text, "\n{line}");
        }
        let is_known = |row: &Row| row.cells.iter().any(|cell| cell.interval_pct.is_some());
        if self.tests.iter().flat_map(|test| &test.rows).any(is_known) {
            let _ = match self.has_groups() {
                true => writeln!(text, "\n{BRACKETS}\n{GROUPS}"),
                false => writeln!(text, "\n{BRACKETS}\n{}", LIMIT.join("\n")),
            };
        }
        text
    }

    fn has_groups(&self) -> bool {
        let cells = self.tests.iter().flat_map(|test| &test.rows).flat_map(|row| &row.cells);
        cells.into_iter().any(|cell| cell.spread_pct.is_some())
    }

    /// The figures of each test as text tables, in columns as wide as their widest figure.
    fn tables(&self) -> String {
        let head = |test: &TestComparison| {
            let of_run = |n: usize| match n {
                0 => vec![letter(n)],
                _ => vec![letter(n), "against A".to_owned()],
            };
            [vec![test.name.clone()], (0..self.runs.len()).flat_map(of_run).collect()].concat()
        };
        let indented = |mut cells: Vec<String>| {
            cells[0].insert_str(0, "  ");
            cells
        };
        let lines_of = |test: &TestComparison| {
            let rows = test.rows.iter().map(|one| indented(row(one)));
            [head(test)].into_iter().chain(rows).collect::<Vec<_>>()
        };
        let tables: Vec<Vec<Vec<String>>> = self.common().map(lines_of).collect();
        let columns = tables.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = tables.iter().flatten().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for line in tables.iter().flat_map(|table| [Vec::new()].into_iter().chain(table.iter().cloned())) {
            let cells = line.iter().zip(&widths).enumerate().map(|(n, (cell, width))| match n {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
        }
        text
    }

    /// The comparison as a page.
    pub fn html(&self) -> String {
        let mut body = String::new();
        for line in self.changes() {
            let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&line));
        }
        for (n, run) in self.runs.iter().enumerate() {
            let _ = writeln!(
                body,
                "<p><b>{}</b> {} ({}: {})</p>",
                letter(n),
                escape(&run.name),
                run.kind,
                escape(&run.solution)
            );
            let reasons =
                run.incomparable.iter().map(|reason| format!("Cannot be compared with A: {reason}."));
            let cautions = run.cautions.iter().map(|caution| format!("Mind: {caution}."));
            for note in reasons.chain(cautions) {
                let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&note));
            }
        }
        for test in self.common() {
            let _ = writeln!(body, "<section><header><h2>{}</h2></header>", escape(&test.name));
            body.push_str(&self.figures(test));
            for chart in charts(test) {
                let _ = writeln!(body, "<figure>{}</figure>", line_chart(&chart));
            }
            body.push_str("</section>\n");
        }
        for line in self.alone() {
            let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&line));
        }
        let _ = writeln!(
            body,
            "<section><h2>How sure the differences are</h2>\n<p>{BRACKETS} {}</p></section>",
            match self.has_groups() {
                true => GROUPS.to_owned(),
                false => format!("{}</p>\n<p>{METHOD}", LIMIT.join(" ")),
            }
        );
        let names: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        page("Comparison of storage evidence", &names.join(" against "), &body)
    }

    /// The runs whose rows contradict their seals, a line each.
    fn changes(&self) -> impl Iterator<Item = String> {
        let changed = self.runs.iter().enumerate().filter_map(|(n, run)| Some((n, run.changed.as_ref()?)));
        changed.map(|(n, misfit)| format!("{}: {misfit}", letter(n)))
    }

    /// Tests that at least two runs have figures of.
    fn common(&self) -> impl Iterator<Item = &TestComparison> {
        self.tests.iter().filter(|test| !test.rows.is_empty() && only_run(test).is_none())
    }

    /// Tests that only one run has, in a line per run: there is nothing to compare them with.
    fn alone(&self) -> Vec<String> {
        let of_run = |n: usize| {
            let tests = self.tests.iter().filter(|test| only_run(test) == Some(n));
            let names: Vec<&str> = tests.map(|test| test.name.as_str()).collect();
            (!names.is_empty()).then(|| format!("Only {} has: {}.", letter(n), names.join(", ")))
        };
        (0..self.runs.len()).filter_map(of_run).collect()
    }

    fn figures(&self, test: &TestComparison) -> String {
        let mut head = vec!["Figure".to_owned()];
        for n in 0..self.runs.len() {
            head.push(letter(n));
            if n > 0 {
                head.push("against A".to_owned());
            }
        }
        let rows: Vec<Vec<String>> = test.rows.iter().map(row).collect();
        table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    }
}

const BRACKETS: &str = "Brackets give the 95 % interval of a difference.";

/// The sentence that says how the intervals of groups are made.
const GROUPS: &str = "They follow from how far the runs of a group differ; ± is half of that spread.";

/// The sentence that says what the intervals do not cover.
const LIMIT: [&str; 4] = [
    "They cover the noise inside each run. They do not cover what differs from run to run, such as",
    "other work on the host. Of equal runs that were made minutes apart on a busy disk, one pair in",
    "three differed by more (docs/compare.md).",
    "Repeat both runs, in turn, before you trust a difference.",
];

const METHOD: &str = "Samples next to each other in time are alike, so each window is cut into five to ten stretches, which are \
    nearly independent; the interval follows from how far they differ. It is taken from the operations that the figure is \
    taken from: a mean weighs operations, a percentile has its interval from the latency distributions. A figure of a test \
    that is too short for an interval is not judged; printed figures are judged by their values.";

fn letter(n: usize) -> String {
    match u8::try_from(n).ok().filter(|n| *n < 26) {
        Some(n) => char::from(b'A' + n).to_string(),
        None => format!("#{}", n + 1),
    }
}

/// The run that has figures of the test, if it is the only one.
fn only_run(test: &TestComparison) -> Option<usize> {
    let cells = test.rows.iter().flat_map(|row| row.cells.iter().enumerate());
    let mut runs = cells.filter(|(_, cell)| cell.value.is_some()).map(|(n, _)| n);
    let first = runs.next()?;
    runs.all(|n| n == first).then_some(first)
}

fn row(row: &Row) -> Vec<String> {
    let mut cells = vec![format!("{} ({})", row.name, row.unit)];
    for (n, cell) in row.cells.iter().enumerate() {
        cells.push(value(cell));
        if n > 0 {
            cells.push(change(row, cell));
        }
    }
    cells
}

fn value(cell: &Cell) -> String {
    let value = cell.value.map_or("–".to_owned(), significant);
    match cell.spread_pct {
        Some(spread) => format!("{value} ±{:.1} %", spread / 2.0),
        None => value,
    }
}

fn change(row: &Row, cell: &Cell) -> String {
    let signed = |percent: f64| format!("{percent:+.1}").replace('-', "−");
    match (cell.difference_pct, cell.interval_pct) {
        (None, _) => String::new(),
        (Some(change), None) if row.better.is_some() && !cell.judged => {
            format!("{} % (not judged)", signed(change))
        }
        (Some(change), None) => format!("{} %", signed(change)),
        (Some(change), Some((low, high))) => {
            format!("{} % [{}, {}]", signed(change), signed(low), signed(high))
        }
    }
}

fn charts(test: &TestComparison) -> Vec<Chart> {
    type Pick = (fn(&Series) -> &Vec<SampleFigures>, fn(&SampleFigures) -> Option<f64>);
    let kinds: [(&str, &str, Pick); 3] = [
        ("Transactional I/O", "1/s", (|s| &s.iops, |sample| Some(sample.per_s()))),
        (
            "Database read latency, mean of each step",
            "ms",
            (|s| &s.reads, |sample| sample.totals.latency_ms()),
        ),
        (
            "Log write latency, mean of each step",
            "ms",
            (|s| &s.log_writes, |sample| sample.totals.latency_ms()),
        ),
    ];
    let duration_s = test.series.iter().map(|series| series.duration_s).fold(0.0, f64::max);
    let longest = test.series.iter().map(|series| series.iops.len()).max().unwrap_or(0);
    // A single sample is a figure of the table, not a line.
    if longest < 2 || duration_s <= 0.0 {
        return Vec::new();
    }
    let steps = longest.min(STEPS);
    let step_s = duration_s / steps as f64;
    kinds
        .into_iter()
        .map(|(title, unit, (list, value))| Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            duration_s,
            step_s,
            lines: test
                .series
                .iter()
                .enumerate()
                .map(|(n, series)| ChartLine {
                    name: letter(n),
                    values: binned(list(series), value, step_s, steps),
                })
                .collect(),
            limits: Vec::new(),
        })
        .collect()
}

/// Means of the samples that begin in each step of a chart; a run with one sample is a level line.
fn binned(
    samples: &[SampleFigures],
    value: fn(&SampleFigures) -> Option<f64>,
    step_s: f64,
    steps: usize,
) -> Vec<Option<f64>> {
    if let [only] = samples {
        return vec![value(only); steps];
    }
    let mut sums = vec![(0.0, 0u32); steps];
    for sample in samples {
        if let Some(value) = value(sample) {
            let (sum, count) = &mut sums[((sample.start_s / step_s) as usize).min(steps - 1)];
            *sum += value;
            *count += 1;
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
}
