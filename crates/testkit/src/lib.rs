//! What tests say when something they need is not on this machine. For tests only.
//!
//! Invariant: where `PROOFLOAD_NO_SKIP=1` is set nothing is skipped in silence: a missing tool fails the test. Only what
//! lies beside the project and is no part of it may be missing even there.

use std::path::Path;
use std::process::Command;

/// Whether `command` runs (its arguments should make it end at once); says what is skipped if it does not.
///
/// # Panics
/// If it is missing where nothing may be skipped.
pub fn has_tool(command: &str, arguments: &[&str], install_line: &str) -> bool {
    let output = Command::new(command).args(arguments).output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let line = format!("{command} {}; install with: {install_line}", arguments.join(" "));
    let no_skip = std::env::var("PROOFLOAD_NO_SKIP").is_ok_and(|value| value == "1");
    assert!(!no_skip, "missing: {line}");
    eprintln!("SKIPPED: {line}");
    false
}

/// Whether Python runs.
///
/// # Panics
/// As [`has_tool`].
pub fn has_python() -> bool {
    has_tool("python3", &["--version"], "sudo apt-get install -y python3")
}

/// Whether a file beside the project is there; says what is skipped if it is not.
pub fn has_neighbour(path: &Path) -> bool {
    let is_there = path.exists();
    if !is_there {
        eprintln!("SKIPPED: {}; it is no part of the project", path.display());
    }
    is_there
}
