//! `proofload schema`: the forms of the files that the program reads and writes.

use evidence::Report;
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::stdout::{data, json};

/// Prints the schema of a file that the program reads or writes.
#[derive(clap::Args)]
pub struct SchemaArguments {
    /// The file.
    #[arg(value_name = "FILE", value_enum)]
    of: Form,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    /// The solution file, as JSON Schema.
    Solution,
    /// What `plan --json` prints, as JSON Schema.
    Plan,
    /// report.json, as JSON Schema.
    Report,
    /// run.db, as SQL.
    RunDb,
}

/// Runs the command.
pub fn run(arguments: &SchemaArguments) -> Result<Status, Failure> {
    match arguments.of {
        Form::Solution => json(&Solution::json_schema())?,
        Form::Plan => json(&plan::Plan::json_schema())?,
        Form::Report => json(&Report::schema())?,
        Form::RunDb => data(evidence::SQL_SCHEMA)?,
    }
    Ok(Status::Pass)
}
