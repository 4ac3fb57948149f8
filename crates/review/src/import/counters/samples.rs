//! Counter samples of PowerShell, one to a row, into the wide form of `relog`: one row for each time, one column for
//! each counter.
//!
//! The rows are those of `Get-Counter ... | Select-Object -ExpandProperty CounterSamples | Export-Csv`. Of their
//! columns `Path`, `CookedValue` and `Timestamp` count.
//!
//! Limits: all samples of one call of `Get-Counter` have one time; a sample of another time begins another row.

use std::collections::BTreeMap;

use super::super::table::{Reason, Row, rows};

/// Columns that make a table one of samples.
const COLUMNS: [&str; 3] = ["Timestamp", "Path", "CookedValue"];

/// Whether a text is a table of counter samples, by its beginning.
pub fn is_samples(text: &str) -> bool {
    header(text).is_some()
}

/// The separator of the table, the line of its header, and where `COLUMNS` stand in it.
fn header(text: &str) -> Option<(char, usize, [usize; 3])> {
    [',', ';', '\t'].into_iter().find_map(|separator| {
        // Windows PowerShell writes the type of the objects before the header.
        let row = rows(text, separator).map_while(Result::ok).find(|row| !row.fields[0].starts_with('#'))?;
        let place = |name: &str| row.fields.iter().position(|field| field.eq_ignore_ascii_case(name));
        let [time, path, value] = COLUMNS.map(place);
        Some((separator, row.line, [time?, path?, value?]))
    })
}

/// The samples in the wide form. Rows that are no samples are left out and are one reason.
pub fn wide(file: &str, text: &str, reasons: &mut Vec<Reason>) -> String {
    let Some((separator, first_line, places)) = header(text) else { return String::new() };
    let (mut columns, mut times) = (BTreeMap::<String, usize>::new(), Vec::<(String, Vec<String>)>::new());
    let mut wrong = (0, 0);
    for row in rows(text, separator).map_while(Result::ok).filter(|row| row.line > first_line) {
        let Some([time, path, value]) = sample(&row, places) else {
            wrong = (wrong.0 + 1, if wrong.0 == 0 { row.line } else { wrong.1 });
            continue;
        };
        let count = columns.len();
        let column = *columns.entry(path.to_owned()).or_insert(count);
        if times.last().is_none_or(|(last, _)| last != time) {
            times.push((time.to_owned(), Vec::new()));
        }
        let (_, values) = times.last_mut().expect("there is a row for this time");
        values.resize(values.len().max(column + 1), String::new());
        values[column] = value.to_owned();
    }
    if wrong.0 > 0 {
        let text = format!("{} rows are no samples of this header, this one first", wrong.0);
        reasons.push(Reason { file: file.to_owned(), line: Some(wrong.1), text });
    }
    let mut paths = vec![String::new(); columns.len()];
    columns.into_iter().for_each(|(path, column)| paths[column] = path);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |first: &str, rest: &[String]| {
        let rest = (0..paths.len()).map(|at| rest.get(at).map_or("", String::as_str));
        writer.write_record(std::iter::once(first).chain(rest)).expect("memory takes every record");
    };
    write("(PDH-CSV 4.0)", &paths);
    times.iter().for_each(|(time, values)| write(time, values));
    String::from_utf8(writer.into_inner().expect("memory takes every record")).expect("it was text")
}

/// Time, counter and value of a row; `None` if one is missing.
fn sample(row: &Row, places: [usize; 3]) -> Option<[&str; 3]> {
    let [time, path, value] = places.map(|at| row.fields.get(at).map(String::as_str));
    let path = path?;
    path.starts_with(r"\\").then_some([time?, path, value?])
}
