//! The rows of the calculator's four files, each field read or refused with its line.

use plan::csv::plain;

use super::super::table::{Reason, Row, rows};

/// A table (CSV file) of the calculator.
pub struct Sheet {
    file: String,
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// Reasons why the tables are refused, in the order in which they were read.
#[derive(Default)]
pub struct Reasons(pub Vec<Reason>);

impl Reasons {
    pub fn add(&mut self, file: &str, line: impl Into<Option<usize>>, text: String) {
        self.0.push(Reason { file: file.to_owned(), line: line.into(), text });
    }
}

/// A row of a table, read by column names.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    sheet: &'a Sheet,
    row: &'a Row,
}

impl Sheet {
    /// Reads a CSV file as a table; `None` if it is none. Adds a reason for each missing column of `needed`.
    pub fn read(file: &str, text: &str, needed: &[&str], reasons: &mut Reasons) -> Option<Sheet> {
        let mut rows = match rows(text, ',').collect::<Result<Vec<_>, _>>() {
            Ok(rows) if !rows.is_empty() => rows.into_iter(),
            Ok(_) => {
                reasons.add(file, None, "it is empty".into());
                return None;
            }
            Err(line) => {
                let text = "a quote opens here that nothing closes: the file was cut off or damaged";
                reasons.add(file, line, text.into());
                return None;
            }
        };
        let header = rows.next()?;
        let missing: Vec<&str> = needed
            .iter()
            .filter(|column| !header.fields.iter().any(|field| field.eq_ignore_ascii_case(column)))
            .copied()
            .collect();
        if !missing.is_empty() {
            let text = format!("the header has no column {}", missing.join(", "));
            reasons.add(file, header.line, text);
            return None;
        }
        let count = header.fields.len();
        let rows = rows.filter(|row| {
            let is_version =
                row.fields.iter().any(|field| field.ends_with("Version") || field == "VersionNumber");
            if !is_version && row.fields.len() != count {
                let found = row.fields.len();
                reasons.add(file, row.line, format!("the row has {found} fields, the header {count}"));
            }
            !is_version && row.fields.len() == count
        });
        Some(Sheet { file: file.to_owned(), columns: header.fields, rows: rows.collect() })
    }

    pub fn cells(&self) -> impl Iterator<Item = Cells<'_>> {
        self.rows.iter().map(move |row| Cells { sheet: self, row })
    }

    /// Index of each column by name.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

impl<'a> Cells<'a> {
    pub fn line(self) -> usize {
        self.row.line
    }

    pub fn file(self) -> &'a str {
        &self.sheet.file
    }

    /// Text in a column; empty if the table has no such column.
    pub fn text(self, column: &str) -> &'a str {
        let at = self.sheet.columns.iter().position(|name| name.eq_ignore_ascii_case(column));
        at.map_or("", |at| plain(&self.row.fields[at]))
    }

    /// Text in a column that must not be empty.
    pub fn name(self, column: &str, reasons: &mut Reasons) -> Option<String> {
        let text = self.text(column);
        if text.is_empty() {
            reasons.add(self.file(), self.line(), format!("{column} is empty"));
            return None;
        }
        Some(text.to_owned())
    }

    /// A whole number in a column; adds a reason if it is outside of the range.
    pub fn number(
        self,
        column: &str,
        range: std::ops::RangeInclusive<u32>,
        reasons: &mut Reasons,
    ) -> Option<u32> {
        let text = self.text(column);
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (first, last) = (range.start(), range.end());
            let message = format!("{column} is `{}`, not a number from {first} to {last}", brief(text));
            reasons.add(self.file(), self.line(), message);
        }
        number
    }

    /// The names in a column that holds a list.
    pub fn list(self, column: &str, reasons: &mut Reasons) -> Vec<String> {
        let text = self.text(column);
        if text.trim().is_empty() {
            return Vec::new();
        }
        match rows(&text.replace('\n', "\u{0}"), ',').collect::<Result<Vec<_>, _>>() {
            Ok(list) if list.len() == 1 => {
                list[0].fields.iter().map(|name| name.replace('\u{0}', "\n")).collect()
            }
            _ => {
                reasons.add(self.file(), self.line(), format!("{column} is no list of names"));
                Vec::new()
            }
        }
    }

    /// Days of a time span `days.hours:minutes:seconds`; 0 where the column is empty.
    pub fn days(self, column: &str, reasons: &mut Reasons) -> Option<f64> {
        let text = self.text(column);
        let days = if text.trim().is_empty() { Some(0.0) } else { days_of(text.trim()) };
        if days.is_none() {
            let message = format!("{column} is `{}`, not a time such as 7.00:00:00", brief(text));
            reasons.add(self.file(), self.line(), message);
        }
        days
    }
}

/// Days of a time span.
fn days_of(text: &str) -> Option<f64> {
    let (days, time) = text.split_once('.').unwrap_or(("0", text));
    let parts: Vec<u32> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    let whole: u32 = days.parse().ok()?;
    let is_time = hours < 24 && minutes < 60 && seconds < 60;
    let seconds = f64::from(hours * 3600 + minutes * 60 + seconds);
    is_time.then_some(f64::from(whole) + seconds / 86_400.0)
}

/// Megabytes of `51200 MB`, `51200MB` or `50 GB`; none for "unlimited" and any other form.
pub fn megabytes(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_uppercase();
    let (number, factor) = match (text.strip_suffix("MB"), text.strip_suffix("GB")) {
        (Some(number), _) => (number, 1.0),
        (_, Some(number)) => (number, 1024.0),
        _ => return None,
    };
    number.trim().parse::<f64>().ok().filter(|mb| mb.is_finite() && *mb > 0.0).map(|mb| mb * factor)
}

pub fn brief(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_quotas_are_read_as_the_calculator_writes_them() {
        assert_eq!((days_of("14.0:00:00"), days_of("0.12:00:00")), (Some(14.0), Some(0.5)));
        assert_eq!(
            (days_of("00:15:00"), days_of("7"), days_of("1.25:00:00")),
            (Some(900.0 / 86_400.0), None, None)
        );
        assert_eq!(
            (megabytes("51200 MB"), megabytes("50GB"), megabytes("unlimited")),
            (Some(51_200.0), Some(51_200.0), None)
        );
    }
}
