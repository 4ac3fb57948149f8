//! The series of a run as CSV, for spreadsheets and notebooks: `series.csv` and `counters.csv`.
//!
//! One line per sample, host and world on each. Fields are quoted as RFC 4180 says. Lines are written as they
//! are read, so memory does not grow with the length of the run.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};

use csv::{Terminator, Writer, WriterBuilder};

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
        let out = RefCell::new(writer(std::fs::File::create(&path).map_err(failed)?));
        let unwritten = |error| failed(io_error(error));
        query.run(
            sql,
            |names| out.borrow_mut().write_record(names).map_err(unwritten),
            |cells| out.borrow_mut().write_record(fields(cells)).map_err(unwritten),
        )?;
        out.into_inner().flush().map_err(failed)?;
        written.push(path);
    }
    Ok(written)
}

/// Writer of CSV lines as RFC 4180 has them.
pub fn writer<W: Write>(out: W) -> Writer<W> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out)
}

/// Converts an error of the CSV writer to an I/O error of the same kind.
pub fn io_error(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// The values of a row as CSV fields; NULL is an empty one.
pub fn fields(cells: &[Cell]) -> impl Iterator<Item = String> {
    cells.iter().map(Cell::text)
}
