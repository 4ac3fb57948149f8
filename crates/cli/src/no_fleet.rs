//! What stands for fleets in a build without them: the same commands, which say how to have them.

use crate::failure::{Failure, Status};
use crate::fleet_run::absent;

/// Prepares runs on many hosts (not in this build: build it with `--features fleet`).
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct FleetArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<String>,
}

/// Serves this host to a controller (not in this build: build it with `--features fleet`).
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct AgentArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<String>,
}

pub fn run(_: &FleetArguments) -> Result<Status, Failure> {
    Err(absent())
}

pub fn agent(_: &AgentArguments) -> Result<Status, Failure> {
    Err(absent())
}
