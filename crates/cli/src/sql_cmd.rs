//! `proofload sql`: the tables of a run, asked in SQL. Every query is read-only.

use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use evidence::csv;
use evidence::{Cell, Query, StoreError, check, misfit};

use crate::failure::{Failure, Status};
use crate::inputs::run_db;
use crate::output::printable;
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

/// Why a query stopped: the evidence cannot be read, or the reader of stdout has gone away.
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
    if let Some(misfit) = misfit(&check(&path).map_err(failed)?.broken) {
        say!("{}", printable(&misfit));
    }
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
        // The reader of stdout has seen enough.
        Err(Stop::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Status::Pass),
        Err(Stop::Output(error)) => Err(Failure::could_not_run("stdout").because(error)),
        Err(Stop::Store(error)) => Err(Failure::wrong_input("the query cannot be answered")
            .because(error)
            .help("`proofload sql RUN` lists tables and columns; only SELECT is allowed")),
    }
}

fn print(query: &Query, sql: &str, as_json: bool, out: &mut impl Write) -> Result<(), Stop> {
    if as_json {
        return print_json(query, sql, out);
    }
    let out = RefCell::new(csv::writer(out));
    query.run(
        sql,
        |head| -> Result<(), Stop> { Ok(out.borrow_mut().write_record(head).map_err(csv::io_error)?) },
        |cells| {
            let written = out.borrow_mut().write_record(csv::fields(cells));
            Ok(written.map_err(csv::io_error)?)
        },
    )?;
    Ok(out.into_inner().flush()?)
}

fn print_json(query: &Query, sql: &str, out: &mut impl Write) -> Result<(), Stop> {
    let names = RefCell::new(Vec::new());
    query.run(
        sql,
        |head| -> Result<(), Stop> {
            names.replace(evidence::keys(head));
            Ok(())
        },
        |cells| {
            let object: serde_json::Map<String, serde_json::Value> =
                names.borrow().iter().cloned().zip(cells.iter().map(Cell::json)).collect();
            Ok(writeln!(out, "{}", serde_json::Value::Object(object))?)
        },
    )
}
