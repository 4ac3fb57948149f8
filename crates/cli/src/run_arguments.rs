//! The arguments of `proofload run`, on this host or on a fleet.

use std::path::PathBuf;

use solution::TestKind;

use crate::inputs::test_kind;
use crate::outcome::Require;
use crate::sign::SignArguments;

/// Runs the tests of a solution on this host's storage.
#[derive(clap::Args)]
pub struct RunArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    pub solution: PathBuf,
    /// The host of the solution file that this machine is; needed when it describes several.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Only these kinds of tests, in the order of the solution file, on databases that exist; drill only with
    /// --fleet, on databases of its own.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = test_kind())]
    pub tests: Vec<TestKind>,
    /// Folder of the run folders.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub out: PathBuf,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Say what would be written and how much disk it takes, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// What the run has to prove for exit status 0.
    #[arg(long, value_name = "GRADE", value_enum, default_value_t)]
    pub require: Require,
    /// Show the run on the whole terminal; plain lines where there is none.
    #[arg(long)]
    pub live: bool,
    /// Allow databases on a memory file system, with buffered I/O where unbuffered is refused: proves nothing
    /// about disks.
    #[arg(long)]
    pub allow_memory: bool,
    /// Run on every host under test at once, with the credentials that `proofload fleet init` made in this
    /// folder; on each host `proofload agent` has to run.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["host", "live"])]
    pub fleet: Option<PathBuf>,
    /// Start this nats-server for the fleet, and again when it ends; without it one has to run already.
    #[arg(long, value_name = "PROGRAM", requires = "fleet", num_args = 0..=1, default_missing_value = "nats-server")]
    pub nats_server: Option<String>,
    /// Take up the run of a fleet in this folder, whose controller died or ended before it had all evidence.
    #[arg(long, value_name = "RUN", requires = "fleet", conflicts_with_all = ["out", "seed", "tests", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Let agents take part that are another build of this version, such as one for another kind of processor.
    #[arg(long, requires = "fleet", conflicts_with = "resume")]
    pub any_build: bool,
    /// Whether the evidence is signed.
    #[command(flatten)]
    pub sign: SignArguments,
}
