//! The arguments that `run` and `fleet run` have in common.

use std::path::PathBuf;

use solution::TestKind;

use crate::inputs::{SolutionArguments, test_kind};
use crate::outcome::EndingArguments;
use crate::progress::ProgressArguments;

/// What is run, and what comes of it.
#[derive(clap::Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub solution: SolutionArguments,
    /// Only these kinds of tests, in the order of the solution file, on databases that exist; drill only with
    /// `fleet run`, on databases of its own.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = test_kind())]
    pub tests: Vec<TestKind>,
    /// Folder in which each run has a folder of its own.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub out: PathBuf,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// List the tests with their times, and what would be written where; change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Allow databases on a memory file system, with buffered I/O where unbuffered is refused: proves nothing
    /// about disks.
    #[arg(long)]
    pub allow_memory: bool,
    #[command(flatten)]
    pub progress: ProgressArguments,
    #[command(flatten)]
    pub ending: EndingArguments,
}
