//! Groups of equal runs: one figure per group, and the interval of a difference from how far its runs differ.
//!
//! What one run cannot show, several do: other work on the host, the place of files, the state of a flash drive.

use results::batch_means::shown;

use super::statistics::{alarm, group_interval_pct};
use super::{Cell, Comparison, Row, RunHead, TestComparison};

/// The number of runs cannot be split into groups of the size that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{runs} runs are no two groups or more of {size}")]
pub struct GroupError {
    runs: usize,
    size: usize,
}

impl Comparison {
    /// Puts every `size` runs into one group, in the order given; the first group is the baseline.
    ///
    /// # Errors
    /// There are not two whole groups of two runs or more.
    pub fn grouped(self, size: usize) -> Result<Comparison, GroupError> {
        let runs = self.runs.len();
        if size < 2 || !runs.is_multiple_of(size) || runs < 2 * size {
            return Err(GroupError { runs, size });
        }
        let tests = self.tests.into_iter().map(|test| grouped(test, size)).collect();
        let heads = self.runs.chunks(size).map(head).collect();
        let mut groups = Comparison { runs: heads, tests, ..self };
        // A run that cannot be compared with the first of its own group makes no group with it.
        let unlike = std::mem::take(&mut groups.runs[0].incomparable);
        for group in &mut groups.runs[1..] {
            group.incomparable.extend(unlike.iter().cloned());
        }
        groups.judge();
        Ok(groups)
    }

    /// Widens the intervals by which a regression is judged to the number of figures that are judged, so that many
    /// figures give no more false alarms than one.
    fn judge(&mut self) {
        for n in 1..self.runs.len() {
            let has_interval = |row: &&Row| row.better.is_some() && row.cells[n].interval_pct.is_some();
            let judged = self.tests.iter().flat_map(|test| &test.rows).filter(has_interval).count();
            for row in self.tests.iter_mut().flat_map(|test| &mut test.rows) {
                let interval = group_interval_pct(&row.runs[0], &row.runs[n], &alarm(judged));
                let cell = &mut row.cells[n];
                (cell.alarm_interval_pct, cell.judged) =
                    (interval, row.better.is_some() && interval.is_some());
            }
        }
    }
}

/// One head for the runs of a group, with all their cautions.
fn head(runs: &[RunHead]) -> RunHead {
    let all = |list: fn(&RunHead) -> &Vec<String>| {
        let mut all: Vec<String> = Vec::new();
        for text in runs.iter().flat_map(list) {
            if !all.contains(text) {
                all.push(text.clone());
            }
        }
        all
    };
    RunHead {
        name: runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", "),
        changed: runs.iter().find_map(|run| run.changed.clone()),
        incomparable: all(|run| &run.incomparable),
        cautions: all(|run| &run.cautions),
        ..runs[0].clone()
    }
}

fn grouped(test: TestComparison, size: usize) -> TestComparison {
    let rows = test.rows.into_iter().map(|row| row_of(row, size)).collect();
    TestComparison { rows, series: test.series.into_iter().step_by(size).collect(), ..test }
}

fn row_of(row: Row, size: usize) -> Row {
    let values = |cells: &[Cell]| cells.iter().map(|cell| cell.value).collect::<Option<Vec<f64>>>();
    let groups: Vec<Vec<f64>> =
        row.cells.chunks(size).map(|cells| values(cells).unwrap_or_default()).collect();
    let base = mean(&groups[0]);
    let cell = |(n, values): (usize, &Vec<f64>)| {
        let value = mean(values);
        let difference = base.zip(value).filter(|(base, _)| n > 0 && *base != 0.0);
        Cell {
            value,
            spread_pct: spread_pct(values),
            difference_pct: difference.map(|(base, value)| 100.0 * (value - base) / base),
            interval_pct: if n > 0 { group_interval_pct(&groups[0], values, &shown()) } else { None },
            ..Cell::default()
        }
    };
    let cells = groups.iter().enumerate().map(cell).collect();
    Row { cells, runs: groups, ..row }
}

/// The geometric mean, because differences are ratios; the arithmetic one for a group with a figure of zero.
fn mean(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    match values.iter().all(|value| *value > 0.0) {
        _ if values.is_empty() => None,
        true => Some((values.iter().map(|value| value.ln()).sum::<f64>() / count).exp()),
        false => Some(values.iter().sum::<f64>() / count),
    }
}

/// Distance of the lowest and the highest run of a group, in percent of their mean.
fn spread_pct(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    let (low, high) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    Some(100.0 * (high - low) / mean.abs())
}
