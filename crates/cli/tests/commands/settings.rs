//! `--version`, `--set` and its environment variables: what a run was really made with, as a user and the
//! evidence see it.

use crate::program::{folder_with, output, proofload, small_deployment};

const INIT: &str = "[[test]]\nkind = \"init\"\n";

fn small() -> String {
    small_deployment("Small", 16, 1) + INIT
}

/// Value of the environment row with this area and name, in the newest run.
fn environment(folder: &std::path::Path, area: &str, name: &str) -> String {
    let run = std::fs::read_dir(folder.join("runs")).expect("a run").flatten().map(|run| run.path()).max();
    let run = run.expect("a run").display().to_string();
    let query = format!("SELECT value FROM environment WHERE area = '{area}' AND name = '{name}'");
    let (status, csv, stderr) = output(folder, &["sql", &run, &query]);
    assert_eq!(status, 0, "{stderr}");
    csv.lines().nth(1).unwrap_or_default().trim_matches('"').to_owned()
}

#[test]
fn version_names_commit_features_and_profile_and_the_evidence_keeps_them() {
    let folder = folder_with("s.toml", &small());
    let (status, version, _) = output(folder.path(), &["--version"]);
    let build = version.split_once('(').expect("the build in brackets").1.trim().trim_end_matches(')');
    assert!(status == 0 && version.starts_with(concat!("proofload ", env!("CARGO_PKG_VERSION"), " (")));
    assert!(build.starts_with("commit "), "{build}");
    let features = match (cfg!(feature = "fleet"), cfg!(feature = "pdf")) {
        (true, true) => "fleet+pdf",
        (true, false) => "fleet",
        (false, true) => "pdf",
        (false, false) => "none",
    };
    assert!(build.contains(&format!(", features {features}, ")) && build.contains(" build for "), "{build}");

    for command in [["run", "s.toml"], ["simulate", "s.toml"]] {
        let (status, _, stderr) = output(folder.path(), &command);
        assert_eq!(status, 0, "{stderr}");
        assert_eq!(environment(folder.path(), "Program", "Build"), build, "{command:?}");
    }
}

#[test]
fn evidence_keeps_the_solution_that_was_really_run_and_says_what_was_set() {
    let folder = folder_with("s.toml", &small());
    let mut command = proofload(folder.path(), &["run", "s.toml", "--set", "sizing.database_mib=24"]);
    let variables = [("PROOFLOAD_SET_SIZING__DATABASE_MIB", "20"), ("PROOFLOAD_SET_LOAD__SESSIONS", "3")];
    let ran = command.envs(variables).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let row = |name: &str| environment(folder.path(), "Solution file", name);
    assert_eq!(row("load.sessions"), "3, set by PROOFLOAD_SET_LOAD__SESSIONS");
    let run = std::fs::read_dir(folder.path().join("runs")).expect("a run").flatten().next();
    let run = run.expect("a run").path().display().to_string();
    let (_, text, _) = output(folder.path(), &["sql", &run, "SELECT solution_text FROM run"]);
    assert!(text.contains("database_mib = 24") && text.contains("sessions = 3"), "{text}");
    let page = std::fs::read_to_string(format!("{run}/report.html")).expect("the report");
    assert!(page.contains("24, set by --set"), "the report says what was set");
    assert!(!std::fs::read_to_string(folder.path().join("s.toml")).expect("the file").contains("24"));
    let size = std::fs::metadata(folder.path().join("data/v/DB1/DB1.edb")).expect("a database").len();
    assert!(size >= 24 << 20, "{size}");
}

#[test]
fn every_command_that_reads_a_solution_takes_settings_and_points_to_a_wrong_one() {
    let folder = folder_with("s.toml", &small());
    let commands: [&[&str]; 6] = [
        &["check", "s.toml"],
        &["plan", "s.toml"],
        &["simulate", "s.toml"],
        &["run", "s.toml", "--dry-run"],
        &["paper", "s.toml", "runs"],
        &["clean", "s.toml"],
    ];
    for arguments in commands {
        let wrong = [arguments, &["--set", "load.sesions=5"]].concat();
        let (status, _, stderr) = output(folder.path(), &wrong);
        assert_eq!(status, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains("unknown key `sesions`"), "{arguments:?}: {stderr}");
        assert!(stderr.contains("| --set load.sesions=5"), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("s.toml:"), "the file is right: {stderr}");
        let (status, _, stderr) = output(folder.path(), &[arguments, &["--set", "load.sessions"]].concat());
        assert!(status == 2 && stderr.contains("write KEY=VALUE"), "{arguments:?}: {stderr}");
    }
    let (_, json, _) = output(folder.path(), &["check", "s.toml", "--json", "--set", "load.sesions=5"]);
    let answer: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(answer["mistakes"][0]["setting"], "--set load.sesions=5", "{json}");
    assert_eq!(answer["mistakes"][0]["line"], serde_json::Value::Null, "{json}");
}

#[test]
fn targets_of_settings_are_not_written_into_the_file() {
    let folder = tempfile::tempdir().expect("writable");
    let path = folder.path().join("s.toml");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../solutions/dell-md3260-15000.toml");
    std::fs::copy(shipped, &path).expect("copied");
    let before = std::fs::read(&path).expect("readable");
    let write = ["plan", "s.toml", "--write-targets", "--yes", "--set", "profile.mailboxes=12000"];
    let (status, _, stderr) = output(folder.path(), &write);
    assert!(status == 2 && stderr.contains("profile.mailboxes=12000"), "{stderr}");
    assert_eq!(std::fs::read(&path).expect("readable"), before);
}
