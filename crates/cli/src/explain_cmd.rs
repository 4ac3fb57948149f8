//! `proofload explain`: why the tests of a run failed.

use std::path::PathBuf;

use review::explain::explain;

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stdout::{json, tell};

/// Says why the tests of a run failed, with the rows that prove it, and what to try.
#[derive(clap::Args)]
pub struct ExplainArguments {
    /// A run folder, also of an import; run.db or report.json.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command: exit status 0 for every answer.
pub fn run(arguments: &ExplainArguments) -> Result<Status, Failure> {
    let source = inputs::evidence(&arguments.run)?;
    if let Some(misfit) = source.misfit() {
        say!("warning: {misfit}");
    }
    let answer = explain(&source).ok_or_else(|| {
        Failure::wrong_input(format!("{} holds no tests", arguments.run.display()))
            .help("name a run folder, run.db or report.json")
    })?;
    let told = if arguments.json { json(&answer) } else { tell(&answer.text()) };
    told.map(|()| Status::Pass)
}
