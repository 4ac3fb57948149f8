//! Tells the program which build it is: version, commit, features, profile, target.
//!
//! Git is asked where it can answer. A source archive has no commit, and the program says so.
#![allow(clippy::disallowed_methods, reason = "a build script asks git and the file system")]
#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::path::Path;
use std::process::Command;

/// Sources of the program, relative to the root of the workspace.
const SOURCES: [&str; 5] =
    [":(glob)crates/*/src/**", ":(glob)solutions/*.toml", "assumptions.toml", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new("../..");
    let mut watched = vec!["build.rs".into(), root.join("Cargo.lock"), root.join("solutions")];
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    watched.extend(crates.map(|entry| entry.path().join("src")));
    // The head changes with the branch, its log with each commit.
    watched.extend(
        ["HEAD", "logs/HEAD"]
            .iter()
            .filter_map(|name| git(&["rev-parse", "--git-path", name]))
            .map(Into::into),
    );
    // Cargo would run this script each time for a file that is not there.
    for path in watched.iter().filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let features: Vec<&str> = [("CARGO_FEATURE_FLEET", "fleet"), ("CARGO_FEATURE_PDF", "pdf")]
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_some())
        .map(|(_, feature)| feature)
        .collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join("+") };
    let build = format!(
        "{}, features {features}, {} build for {}",
        commit().unwrap_or_else(|| "commit unknown: built without git".to_owned()),
        variable("PROFILE"),
        variable("TARGET"),
    );
    println!("cargo:rustc-env=PROOFLOAD_BUILD={build}");
    println!("cargo:rustc-env=PROOFLOAD_VERSION={} ({build})", variable("CARGO_PKG_VERSION"));
}

/// The commit that the sources are of, and whether they differ from it. None where the sources are in no repository of
/// their own: an archive that was unpacked below another repository is not of its commit.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let root = std::fs::canonicalize("../..").ok()?;
    if Path::new(&top) != root {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&[&["-C", &top, "status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(format!("commit {commit}{}", if changed.is_empty() { "" } else { " with changes" }))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
