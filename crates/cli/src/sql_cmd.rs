//! `proofload sql`: the tables of a run, asked in SQL. Read-only, whatever the query says.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use evidence::csv;
use evidence::{Cell, Query, StoreError};

use crate::failure::{Failure, Status};
use crate::inputs::run_db;
use crate::stdout::data;

/// Asks the evidence of a run in SQL; without a query it lists the tables.
#[derive(clap::Args)]
pub struct SqlArguments {
    /// The folder of a run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// One SELECT statement. Views beside the tables: `sample` and `counter_sample` (the series, a row per interval),
    /// `distribution` (latency histograms, with the aggregate percentile_ms(hdr_v2, share)).
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// Print a JSON object per line in place of CSV; a column whose name came before gets a number: `a`, `a_2`.
    #[arg(long)]
    json: bool,
}

/// What stops a query: the evidence, or whoever reads stdout.
enum Stop {
    Store(StoreError),
    Output(std::io::Error),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Output(error)
    }
}

/// Runs the command.
pub fn run(arguments: &SqlArguments) -> Result<Status, Failure> {
    let path = run_db(&arguments.run)?;
    let failed = |error: StoreError| Failure::wrong_input("the run cannot be read").because(error);
    let query = Query::open(&path).map_err(failed)?;
    let Some(sql) = &arguments.query else {
        let tables = query.tables().map_err(failed)?;
        let lines = tables.iter().map(|(table, columns)| format!("{table}({})\n", columns.join(", ")));
        data(&lines.collect::<String>())?;
        say!("what they mean: docs/run-db.md");
        return Ok(Status::Pass);
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match print(&query, sql, arguments.json, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => Ok(Status::Pass),
        // Whoever reads has seen enough.
        Err(Stop::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Status::Pass),
        Err(Stop::Output(error)) => Err(Failure::could_not_run("stdout").because(error)),
        Err(Stop::Store(error)) => Err(Failure::wrong_input("the query cannot be answered")
            .because(error)
            .help("`proofload sql RUN` lists tables and columns; only SELECT is allowed")),
    }
}

fn print(query: &Query, sql: &str, as_json: bool, out: &mut impl Write) -> Result<(), Stop> {
    let out = std::cell::RefCell::new(out);
    let names = std::cell::RefCell::new(Vec::new());
    query.run(
        sql,
        |head| -> Result<(), Stop> {
            names.replace(keys(head));
            if !as_json {
                csv::line(&mut **out.borrow_mut(), head.iter().map(|name| csv::quoted(name)))?;
            }
            Ok(())
        },
        |cells| -> Result<(), Stop> {
            let mut out = out.borrow_mut();
            if !as_json {
                return Ok(csv::line(&mut **out, cells.iter().map(csv::text))?);
            }
            let object: serde_json::Map<String, serde_json::Value> =
                names.borrow().iter().cloned().zip(cells.iter().map(json)).collect();
            Ok(writeln!(out, "{}", serde_json::Value::Object(object))?)
        },
    )
}

/// The columns as keys of one object: none takes the place of another.
fn keys(columns: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(columns.len());
    for name in columns {
        let is_free = |key: &String| !keys.contains(key) && (key == name || !columns.contains(key));
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let key = std::iter::once(name.clone()).chain(numbered).find(is_free);
        keys.extend(key);
    }
    keys
}

fn json(cell: &Cell) -> serde_json::Value {
    match cell {
        Cell::Null => serde_json::Value::Null,
        Cell::Integer(number) => (*number).into(),
        Cell::Real(number) => (*number).into(),
        Cell::Text(text) => text.as_str().into(),
        Cell::Blob(_) => csv::text(cell).into(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_repeated_column_gets_a_number_that_is_free() {
        let keys =
            |names: &[&str]| super::keys(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(keys(&["a", "b", "a", "a"]), ["a", "b", "a_2", "a_3"]);
        assert_eq!(keys(&["a", "a", "a_2"]), ["a", "a_3", "a_2"]);
    }
}
