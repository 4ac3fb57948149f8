//! What stands for fleets in a build without them: the same command, which says how to have it.

use crate::failure::{Failure, Status};
use crate::fleet_run::absent;

/// Runs a solution on many hosts at once (not in this build; in the packages, and with `--features fleet`).
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct FleetArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<String>,
}

pub fn run(_: &FleetArguments) -> Result<Status, Failure> {
    Err(absent())
}
