//! What stands for `run --fleet` in a build without fleets: a message that says how to have them.

use std::path::Path;

use solution::Solution;

use crate::failure::{Failure, Status};
use crate::run_arguments::RunArguments;

pub fn conduct(_: &RunArguments, _: &Solution, _: &Path) -> Result<Status, Failure> {
    Err(absent())
}

pub fn outlook(_: &Solution) -> Result<String, Failure> {
    Err(absent())
}

/// That this build has no fleets.
pub fn absent() -> Failure {
    Failure::wrong_input("this proofload was built without runs on many hosts")
        .help("build it with them: cargo build --release --features fleet")
}
