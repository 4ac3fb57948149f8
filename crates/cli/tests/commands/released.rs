//! Files of every released version are read by today's program (docs/stability.md). A release is a folder of
//! `crates/cli/tests/released`; its README says how its files were made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::program::output;

fn released() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released")
}

/// Versions that have a folder.
fn versions() -> BTreeSet<String> {
    let folders = std::fs::read_dir(released()).expect("the folder of releases").flatten();
    folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_released_version_has_a_folder_of_its_files() {
    let changes = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md"));
    let changes = changes.expect("the change log");
    let headings = changes.lines().filter_map(|line| line.strip_prefix("## "));
    let released = headings.filter(|heading| !heading.to_lowercase().contains("released"));
    let named: BTreeSet<String> =
        released.filter_map(|heading| heading.split(',').next()).map(str::to_owned).collect();
    assert!(!named.is_empty(), "{changes}");
    assert_eq!(named, versions(), "versions of CHANGELOG.md, and folders below tests/released");
}

#[test]
fn files_of_every_released_version_are_read() {
    for version in versions() {
        let folder = tempfile::tempdir().expect("writable");
        let at = folder.path();
        let from = released().join(&version);
        std::fs::create_dir(at.join("run")).expect("writable");
        for file in ["solution.toml", "run.db", "report.json"] {
            let to = if file == "solution.toml" { at.join(file) } else { at.join("run").join(file) };
            std::fs::copy(from.join(file), to).unwrap_or_else(|error| panic!("{version}/{file}: {error}"));
        }
        let read = |arguments: &[&str]| {
            let (status, stdout, stderr) = output(at, arguments);
            assert_eq!(status, 0, "{version}: {arguments:?}: {stdout}{stderr}");
            stdout
        };
        read(&["check", "solution.toml"]);
        let linted = read(&["lint", "run", "run/report.json"]);
        assert!(linted.contains("sealed to the end of the run"), "{version}: {linted}");
        read(&["compare", "run", "run/report.json"]);
        assert!(read(&["sql", "run", "SELECT tool_version FROM run"]).contains(&version), "{version}");
        read(&["report", "run", "--json"]);
        read(&["report", "run"]);

        let head = std::fs::read(from.join("database-head.edb")).expect("the first pages of a database");
        let header = edb::header::DatabaseHeader::parse(&head);
        assert!(header.is_ok(), "{version}: {:?}", header.err());
        let log = std::fs::read(from.join("log-head.log")).expect("the first segment of a log");
        let log = log.first_chunk().expect("a whole segment");
        assert!(edb::log::LogHeader::parse(log).is_ok(), "{version}");
    }
}
