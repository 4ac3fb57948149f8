//! A counter log (`relog -f csv`, `typeperf`): samples into hours.
//!
//! Invariants
//! 1. A sample counts for the time since the sample before it; a longer gap counts as one interval and is told.
//! 2. A value that is empty, negative or beyond any server is no value: counters that wrap give such.

use std::collections::BTreeMap;

use super::super::fields::instant;
use super::super::table::{Reason, Row, rows};
use super::columns::{Columns, FIGURES, Figure, Subject, columns};

/// Highest rate or latency that is taken for a measurement; more is damage.
const MOST: f64 = 1e7;
/// Highest rate of bytes per second that is taken for a measurement.
const MOST_BYTES: f64 = 1e11;
/// Number of samples at the beginning from which the interval of a counter log is found.
const FIRST_SAMPLES: usize = 100;
/// Longest gap, in seconds, between two counts of log files over which the files are spread evenly.
const LONGEST_S: i64 = 86_400;
/// Number of values of a 32-bit counter, after which it begins again at zero.
const WRAP: f64 = 4_294_967_296.0;

/// Figures of a database or disk in one hour, each weighted with the seconds it was measured for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hour {
    /// Sums of value times seconds; for log files, the number of files.
    sums: [f64; FIGURES],
    /// Seconds with a value, by figure.
    seconds: [f64; FIGURES],
}

impl Hour {
    /// Mean of a figure in this hour; `None` without a value.
    pub fn mean(&self, figure: Figure) -> Option<f64> {
        let at = figure as usize;
        (self.seconds[at] > 0.0).then(|| self.sums[at] / self.seconds[at])
    }

    /// Log files of a full hour at this hour's rate.
    pub fn logs(&self) -> Option<f64> {
        let files = self.mean(Figure::LogFiles).map(|per_second| per_second * 3600.0);
        files.or_else(|| self.mean(Figure::LogBytes).map(|bytes| bytes * 3600.0 / (1 << 20) as f64))
    }

    /// Share of the hour in which a figure was measured.
    pub fn covered(&self, figure: Figure) -> f64 {
        self.seconds[figure as usize] / 3600.0
    }
}

/// Rate times latency beside the queue length, over the samples with all three, to check them by Little's law.
#[derive(Debug, Clone, Copy, Default)]
pub struct Queue {
    pub rate_times_latency: f64,
    pub queue: f64,
    pub samples: u32,
}

/// All figures of a database or disk over the days of the logs.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Figures by hour since 1970, in the time of the server.
    pub hours: BTreeMap<i64, Hour>,
    /// Checks by Little's law for reads and for writes.
    pub queues: [Queue; 2],
    /// Time and value of the last count of log files.
    files: Option<(i64, f64)>,
}

/// All counter logs that are imported together.
#[derive(Debug, Default)]
pub struct Logs {
    pub series: BTreeMap<Subject, Series>,
    /// Number of samples, of gaps between them, and of values that were empty or damaged.
    pub samples: u64,
    pub gaps: u64,
    pub invalid: u64,
    /// Number of times that a count of log files began again, because its process was restarted.
    pub restarts: u64,
    pub first_s: Option<i64>,
    pub last_s: Option<i64>,
}

impl Logs {
    /// Adds a counter log.
    pub fn add(&mut self, file: &str, text: &str, reasons: &mut Vec<Reason>) {
        let mut add = |line: Option<usize>, text: String| {
            reasons.push(Reason { file: file.to_owned(), line, text });
        };
        let mut rows = rows(text, separator(text)).map_while(Result::ok);
        let Some(header) = rows.next() else { return add(None, "it is empty".into()) };
        let known = columns(&header.fields);
        if known.is_empty() {
            let text =
                "no counter of a database or a disk is in its header; names are known in English and German";
            return add(Some(header.line), text.into());
        }
        let interval = interval(text);
        let mut last = None::<i64>;
        let mut wrong = (0, 0);
        for row in rows {
            // typeperf says goodbye in lines of its own.
            let is_row = row.fields.len() == header.fields.len();
            let Some(now) = row.fields.first().filter(|_| is_row).and_then(|text| seconds(text)) else {
                if row.fields.len() > 1 {
                    wrong = (wrong.0 + 1, if wrong.0 == 0 { row.line } else { wrong.1 });
                }
                continue;
            };
            self.first_s = Some(self.first_s.map_or(now, |first| first.min(now)));
            self.last_s = Some(self.last_s.map_or(now, |last| last.max(now)));
            let passed = last.map_or(0, |last| now - last);
            last = Some(now);
            if passed > 0 {
                let is_gap = passed > 3 * interval;
                self.gaps += u64::from(is_gap);
                self.samples += 1;
                self.sample(&known, &row, now, if is_gap { interval } else { passed });
            } else {
                self.count_files(&known, &row, now);
            }
        }
        if wrong.0 > 0 {
            let text = format!("{} rows are no samples of this header, this one first", wrong.0);
            add(Some(wrong.1), text);
        }
    }

    /// Adds one row: its values count for the seconds since the row before.
    fn sample(&mut self, known: &Columns, row: &Row, now: i64, passed: i64) {
        let (weight, hour) = (passed as f64, (now - passed / 2).div_euclid(3600));
        for (subject, places) in known {
            let mut values = [None; FIGURES];
            for (figure, place) in places.iter().enumerate() {
                values[figure] = place.and_then(|at| self.value(&row.fields[at], figure));
            }
            let series = self.series.entry(subject.clone()).or_default();
            let sums = series.hours.entry(hour).or_default();
            for (figure, value) in values.iter().enumerate() {
                if let Some(value) = value.filter(|_| figure != Figure::LogFiles as usize) {
                    sums.sums[figure] += value * weight;
                    sums.seconds[figure] += weight;
                }
            }
            let in_seconds = if matches!(subject, Subject::Disk { .. }) { 1.0 } else { 1e-3 };
            let value = |figure: Figure| values[figure as usize];
            for (queue, [rate, latency, waiting]) in series.queues.iter_mut().zip([
                [Figure::Reads, Figure::ReadLatency, Figure::ReadQueue],
                [Figure::Writes, Figure::WriteLatency, Figure::WriteQueue],
            ]) {
                if let (Some(rate), Some(latency), Some(waiting)) =
                    (value(rate), value(latency), value(waiting))
                {
                    queue.rate_times_latency += rate * latency * in_seconds;
                    queue.queue += waiting;
                    queue.samples += 1;
                }
            }
        }
        self.count_files(known, row, now);
    }

    /// Adds the log files generated since the count before. The counter wraps at 32 bits, and begins again when its
    /// process does.
    fn count_files(&mut self, known: &Columns, row: &Row, now: i64) {
        let at = Figure::LogFiles as usize;
        for (subject, places) in known {
            let Some(value) =
                places[at].and_then(|at| self.value(&row.fields[at], Figure::LogFiles as usize))
            else {
                continue;
            };
            let series = self.series.entry(subject.clone()).or_default();
            let before = series.files;
            if before.is_some_and(|(then, _)| then >= now) {
                continue;
            }
            series.files = Some((now, value));
            let Some((then, old)) = before else { continue };
            let files = match value - old {
                more if more >= 0.0 => more,
                less if old > WRAP / 2.0 && value < WRAP / 2.0 => less + WRAP,
                _ => {
                    self.restarts += 1;
                    value
                }
            };
            spread(&mut series.hours, (then, now), files);
        }
    }

    /// A cell as a number; `None` if it is empty, negative or too high to be a measurement.
    fn value(&mut self, text: &str, figure: usize) -> Option<f64> {
        let text = text.trim();
        let value = number(text);
        let is_count = figure == Figure::LogFiles as usize;
        let most = match figure {
            _ if is_count => WRAP,
            figure if figure == Figure::LogBytes as usize => MOST_BYTES,
            _ => MOST,
        };
        let believed = value.filter(|value| (0.0..=most).contains(value));
        self.invalid += u64::from(believed.is_none() && !text.is_empty());
        believed
    }
}

/// Divides log files evenly over the time in which they were generated, unless that is longer than a day.
fn spread(hours: &mut BTreeMap<i64, Hour>, (then, now): (i64, i64), files: f64) {
    let at = Figure::LogFiles as usize;
    if now - then > LONGEST_S {
        return;
    }
    let mut from = then;
    while from < now {
        let hour = from.div_euclid(3600);
        let to = ((hour + 1) * 3600).min(now);
        let sums = hours.entry(hour).or_default();
        sums.sums[at] += files * (to - from) as f64 / (now - then) as f64;
        sums.seconds[at] += (to - from) as f64;
        from = to;
    }
}

/// Time of the first sample in a file.
pub fn begins(text: &str) -> Option<i64> {
    let mut rows = rows(text, separator(text)).map_while(Result::ok).skip(1);
    rows.find_map(|row| seconds(row.fields.first()?))
}

/// Seconds between samples: the shortest step among the first 100.
fn interval(text: &str) -> i64 {
    let rows = rows(text, separator(text)).map_while(Result::ok).skip(1).take(FIRST_SAMPLES);
    let times: Vec<i64> = rows.filter_map(|row| seconds(row.fields.first()?)).collect();
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0);
    steps.min().unwrap_or(1)
}

/// The character between fields: the one before the first counter.
fn separator(text: &str) -> char {
    let before = text.find(r"\\").map_or("", |at| &text[..at]);
    before.trim_end_matches('"').chars().next_back().filter(|c| matches!(c, ',' | ';' | '\t')).unwrap_or(',')
}

/// A number with a decimal point or comma.
fn number(text: &str) -> Option<f64> {
    let (point, comma) = (text.rfind('.'), text.rfind(','));
    let plain = match (point, comma) {
        (None, Some(_)) => text.replace(',', "."),
        (Some(point), Some(comma)) if comma > point => text.replace('.', "").replace(',', "."),
        (Some(_), Some(_)) => text.replace(',', ""),
        _ => text.to_owned(),
    };
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Seconds since 1970 of `11/24/2026 09:15:00.123`, `24.11.2026 09:15:00` or `2026-11-24 09:15:00`, taken as UTC.
fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(' ')?;
    let parts: Vec<&str> = date.split('.').collect();
    let date = match parts[..] {
        [day, month, year] => format!("{year}-{month}-{day}"),
        _ => date.to_owned(),
    };
    let (time, rest) = time.split_once('.').unwrap_or((time, ""));
    // Thousandths do not matter, half a day does.
    let half = rest.split_whitespace().nth(1).unwrap_or_default();
    instant(&format!("{date} {time} {half}"))?.unix_s()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_read_as_windows_writes_them_in_english_and_german() {
        assert_eq!(
            (number("12.5"), number("12,5"), number("1.234,5"), number("1,234.5")),
            (Some(12.5), Some(12.5), Some(1234.5), Some(1234.5))
        );
        let nine = seconds("11/24/2026 09:15:00.123");
        assert!(nine.is_some());
        assert_eq!(nine, seconds("24.11.2026 09:15:00"));
        assert_eq!(nine, seconds("2026-11-24 09:15:00"));
        assert_eq!(seconds("Exiting, please wait..."), None);
    }
}
