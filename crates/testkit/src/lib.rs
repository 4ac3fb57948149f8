//! What tests share: what they say when something they need is not on this machine, genuine databases, numbers
//! to roll dice with, and the wait for a server that has been started. For tests only.
//!
//! Invariant: where `PROOFLOAD_NO_SKIP=1` is set nothing is skipped in silence: what is missing fails the test.
//! Only what lies beside the project and is no part of it may be missing even there.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

pub mod browser;
pub mod claims;
#[cfg(feature = "kill-test")]
pub mod durable_shadow;
mod fuzz;
pub mod rows;
pub mod solutions;
pub mod synthetic;

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub use fuzz::fuzz;

/// Prints what a test skips because this machine cannot do it, and why.
///
/// # Panics
/// Where nothing may be skipped.
pub fn skip(what: &str) {
    let no_skip = std::env::var("PROOFLOAD_NO_SKIP").is_ok_and(|value| value == "1");
    assert!(!no_skip, "missing: {what}");
    eprintln!("SKIPPED: {what}");
}

/// A folder whose files are in memory, where the machine has such a file system: what hosts and processes do to one
/// another must not hang on a disk that is slow or busy. It goes with the value.
///
/// # Panics
/// If no folder can be made.
pub fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder can be made")
}

/// Whether `command` runs (its arguments should make it end at once). Prints what is skipped if it does not.
///
/// # Panics
/// If it is missing where nothing may be skipped.
pub fn has_tool(command: &str, arguments: &[&str], install_line: &str) -> bool {
    let output = Command::new(command).args(arguments).output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    skip(&format!("{command} {}; install with: {install_line}", arguments.join(" ")));
    false
}

/// Whether Python runs.
///
/// # Panics
/// As [`has_tool`].
pub fn has_python() -> bool {
    has_tool("python3", &["--version"], "sudo apt-get install -y python3")
}

/// Whether a file beside the project exists. Prints what is skipped if it does not.
pub fn has_neighbour(path: &Path) -> bool {
    let is_there = path.exists();
    if !is_there {
        eprintln!("SKIPPED: {}; it is no part of the project", path.display());
    }
    is_there
}

/// File name and number of initialised pages of each genuine database beside the project.
const GENUINE: [(&str, u64); 5] = [("basic", 23), ("index", 47), ("large", 381), ("multi", 34), ("text", 32)];

/// Genuine databases (written by the genuine engine) that exist beside the project: name, initialised pages, bytes.
pub fn genuine_databases() -> Vec<(&'static str, u64, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/edb-samples");
    let mut found = Vec::new();
    for (name, initialised) in GENUINE {
        let path = folder.join(format!("{name}.edb.gz"));
        if has_neighbour(&path) {
            let output = Command::new("gzip").arg("-dc").arg(&path).output().expect("gzip runs");
            assert!(output.status.success(), "{name} unpacks");
            found.push((name, initialised, output.stdout));
        }
    }
    found
}

/// Time after which a test gives up waiting for something. It only ends tests that hang, so it is far longer than the
/// slowest machine needs.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// Waits until a server listens at `address`, since a server takes a moment to start.
///
/// # Panics
/// If none does for half a minute.
pub fn wait_for_listener(address: &str) {
    let started = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        assert!(started.elapsed() < PATIENCE, "no program listens at {address}: {error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Pseudo-random numbers that depend on the seed only (xorshift, 64 bits).
pub fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut x = 88_172_645_463_325_252 ^ seed;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}
