//! The series of a run as CSV, for spreadsheets and notebooks: `series.csv` and `counters.csv`.
//!
//! One line per sample, host and world on each. Fields are quoted as RFC 4180 says. Lines are written as they
//! are read, so memory does not grow with the length of the run.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::store::{Cell, Query, StoreError};

/// Why `series.csv` or `counters.csv` could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The `run.db` could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A CSV file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The query for the CSV rows: series of hosts, instances and databases, ordered by source, then time.
const SERIES: &str =
    "SELECT world, s.test, test.name AS test_name, host, instance, database, measure, t_ms, interval_ms,
    count, bytes, latency_ns_sum, latency_ns_max, per_s, mib_per_s, latency_ms
    FROM sample AS s JOIN (SELECT ordinal, name FROM test) AS test ON test.ordinal = s.test";
const COUNTERS: &str =
    "SELECT world, s.test, test.name AS test_name, host, instance, database, counter, t_ms, interval_ms,
    value FROM counter_sample AS s JOIN (SELECT ordinal, name FROM test) AS test ON test.ordinal = s.test";

/// Writes the series of the `run.db` at `path` into `folder`, which must exist. Gives the files.
pub fn write_series(path: &Path, folder: &Path) -> Result<Vec<PathBuf>, CsvError> {
    let query = Query::open(path)?;
    let mut written = Vec::new();
    for (name, sql) in [("series.csv", SERIES), ("counters.csv", COUNTERS)] {
        let path = folder.join(name);
        let failed = |source| CsvError::Write { path: path.clone(), source };
        let out = std::cell::RefCell::new(BufWriter::new(std::fs::File::create(&path).map_err(failed)?));
        query.run(
            sql,
            |names| line(&mut *out.borrow_mut(), names.iter().map(|name| quoted(name))).map_err(failed),
            |cells| line(&mut *out.borrow_mut(), cells.iter().map(field)).map_err(failed),
        )?;
        out.into_inner().flush().map_err(failed)?;
        written.push(path);
    }
    Ok(written)
}

/// Writes one CSV line, its fields quoted where they need it.
pub fn line(out: &mut impl Write, fields: impl Iterator<Item = String>) -> std::io::Result<()> {
    let fields: Vec<String> = fields.collect();
    out.write_all(fields.join(",").as_bytes())?;
    out.write_all(b"\r\n")
}

/// Text as a CSV field: in quotes if it holds a comma, a quote or a line break.
pub fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A value of SQLite as a CSV field; NULL is an empty one.
pub fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(text),
        other => other.text(),
    }
}
