//! `proofload probe`: which points of load say most about a storage.

use std::path::PathBuf;

use probe::{Point, Row, csv, farthest, usual_points};

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stdout::data;

/// Chooses the points of load to measure next, those that say most about a storage.
#[derive(clap::Args)]
pub struct ProbeArguments {
    /// How many points.
    #[arg(long, value_name = "N")]
    next: usize,
    /// Points that are measured already: a probe.csv or a result of fio (JSON). Can be repeated.
    #[arg(long, value_name = "FILE")]
    after: Vec<PathBuf>,
    /// Choose among these points instead of random I/O from 4 KiB to 1 MiB, 1 to 64 under way, five read shares.
    #[arg(long, value_name = "POINTS.csv")]
    from: Option<PathBuf>,
}

/// Runs the command: the chosen points on stdout, the most telling first, with what the file says of them.
pub fn run(arguments: &ProbeArguments) -> Result<Status, Failure> {
    let candidates: Vec<Row> = match &arguments.from {
        Some(path) => inputs::points(path)?,
        None => usual_points().into_iter().map(Row::unmeasured).collect(),
    };
    let done = inputs::all_points(&arguments.after)?;
    let of = |rows: &[Row]| rows.iter().map(|row| row.point).collect::<Vec<Point>>();
    let chosen = farthest(&of(&candidates), &of(&done), arguments.next);
    let chosen: Vec<Row> = chosen.into_iter().map(|index| candidates[index]).collect();
    data(&csv::write(&chosen))?;
    Ok(Status::Pass)
}
