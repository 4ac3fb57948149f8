//! `proofload schema`: the forms of the files that the program reads and writes.

use evidence::Report;
use review::answers;
use schemars::schema_for;
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
    /// What `plan --search --json` prints, as JSON Schema.
    Search,
    /// What `capacity --json` prints, as JSON Schema.
    Capacity,
    /// What `check --json` prints, as JSON Schema.
    Check,
    /// What `run --dry-run --json` and `fleet run --dry-run --json` print, as JSON Schema.
    DryRun,
    /// Each line that `--progress json` writes on stderr, as JSON Schema.
    Progress,
    /// What `clean --json` prints, as JSON Schema.
    Clean,
    /// What `verify --json` prints, as JSON Schema.
    Verify,
    /// What `crash-test verify --json` prints, as JSON Schema.
    CrashTest,
    /// What `crash-test listen --json` prints, as JSON Schema.
    CrashTestListen,
    /// What `crash-test write --json` prints, as JSON Schema.
    CrashTestWrite,
    /// What `explain --json` prints, as JSON Schema.
    Explain,
    /// What `compare --json` prints, as JSON Schema.
    Compare,
    /// What `lint --json` prints, as JSON Schema.
    Lint,
    /// What `lint --rules --json` prints, as JSON Schema.
    LintRules,
    /// What `import --json` prints, as JSON Schema.
    Import,
    /// What `paper --json` prints, as JSON Schema.
    Paper,
    /// What `fleet init --json` prints, as JSON Schema.
    FleetInit,
    /// What `examples --json` prints, as JSON Schema.
    Examples,
    /// report.json, which `run`, `simulate`, `fleet run` and `report` print with `--json`, as JSON Schema.
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
        Form::Search => json(&schema_for!(plan::search::Found))?,
        Form::Capacity => json(&schema_for!(capacity::Capacity))?,
        Form::Check => json(&schema_for!(answers::Checked))?,
        Form::DryRun => json(&schema_for!(runner::DryRun))?,
        Form::Progress => json(&schema_for!(review::progress::Event))?,
        Form::Clean => json(&schema_for!(answers::Cleaned))?,
        Form::Verify => json(&schema_for!(answers::Verified))?,
        Form::CrashTest => json(&schema_for!(runner::crash_test::Compared))?,
        Form::CrashTestListen => json(&schema_for!(answers::Heard))?,
        Form::CrashTestWrite => json(&schema_for!(answers::Committed))?,
        Form::Explain => json(&schema_for!(review::explain::Explained))?,
        Form::Compare => json(&schema_for!(review::compare::Comparison))?,
        Form::Lint => json(&schema_for!(answers::Linted))?,
        Form::LintRules => json(&schema_for!(answers::LintRules))?,
        Form::Import => json(&schema_for!(answers::Imported))?,
        Form::Paper => json(&schema_for!(answers::Papered))?,
        Form::FleetInit => json(&schema_for!(answers::FleetMade))?,
        Form::Examples => json(&schema_for!(answers::Examples))?,
        Form::RunDb => data(evidence::SQL_SCHEMA)?,
    }
    Ok(Status::Pass)
}
