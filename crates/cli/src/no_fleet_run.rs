//! What stands for `fleet run` in a build without fleets: a message that says how to have it.

use solution::Solution;

use crate::failure::Failure;

pub fn outlook(_: &Solution) -> Result<String, Failure> {
    Err(absent())
}

/// The error that this build has no fleets, and where they are.
pub fn absent() -> Failure {
    Failure::wrong_input("this proofload was built without runs on many hosts")
        .help("install a package, which has them, or build them in: cargo build --release --features fleet")
}
