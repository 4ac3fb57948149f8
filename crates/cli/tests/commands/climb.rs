//! `capacity --run`: a climb on real files, whose answer is what its run folder holds.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{LATENCIES_NOT_JUDGED, assert_lint_finds_nothing, folder_with, output};

/// Two databases of 16 MiB whose 1,000 mailboxes ask for about 100 I/O per second. The plan has room for about a tenth
/// more, and a window of 5 s wants four fifths of them at least.
const SMALL: &str = r#"
[solution]
name = "Small climb"
schema = 1

[profile]
exchange = "2016"
mailboxes = 1000
messages_per_day = 150
quota_mb = 20
test_iops_per_mailbox = 0.1

[dag]
databases = 2

[[host]]
name = "here"

[[volume]]
name = "V"
path = "data/v"
capacity_gib = 200

[[instance]]
name = "DB{n}"
count = 2
volume = "V"

[sizing]
database_mib = 16

[engine]
cache_min_mib = 2
cache_max_mib = 4

[[test]]
kind = "performance"
duration_s = 5
warmup_limit_s = 6
"#;

fn run_folder(folder: &Path) -> PathBuf {
    let runs = std::fs::read_dir(folder.join("runs")).expect("there are runs").flatten();
    runs.map(|run| run.path()).max().expect("there is a run")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asserts that the steps of the answer are the performance tests of the run, and that each holds exactly if the report
/// has no broken verdict of it. Returns the answer.
fn consistent(folder: &Path, stdout: &str) -> Value {
    let run = run_folder(folder);
    assert_lint_finds_nothing(folder, &run);
    let report = json(&std::fs::read_to_string(run.join("report.json")).expect("it is written"));
    let tests = report["tests"].as_array().expect("a list");
    let found = json(stdout)["variants"][0]["measured"].clone();
    let steps = found["probes"].as_array().expect("a list");
    let loads = tests.iter().filter(|test| test["kind"] == "performance").count();
    assert_eq!((steps.len(), tests[0]["kind"].as_str()), (loads, Some("init")), "{found:#}");
    for step in steps {
        let test = tests.iter().find(|test| test["ordinal"] == step["test"]).expect("the test is there");
        let verdicts = test["verdicts"].as_array().expect("a list");
        let outcomes: Vec<&str> = verdicts.iter().filter_map(|verdict| verdict["outcome"].as_str()).collect();
        let holds = outcomes.iter().all(|outcome| ["pass", "info"].contains(outcome));
        assert!(outcomes.len() > 4 && step["holds"] == holds, "{step:#} {outcomes:?}");
    }
    found
}

#[test]
fn a_climb_whose_limit_no_storage_keeps_ends_with_none_in_range_and_evidence_that_explains_it() {
    let folder = folder_with("s.toml", &format!("{SMALL}[thresholds]\nread_avg_ms = 0.001\n"));
    let at = folder.path();
    let (status, stdout, stderr) = output(at, &["capacity", "s.toml", "--run", "--json"]);
    assert_eq!(status, 1, "{stdout}{stderr}");
    let found = consistent(at, &stdout);
    assert_eq!((found["found"].as_str(), &found["mailboxes"]), (Some("none_in_range"), &Value::Null));
    let limits = found["probes"][0]["limits"].as_array().expect("a list");
    let binds = &found["binds"];
    let is_it = |limit: &&Value| limit["limit"] == binds["limit"] && limit["place"] == binds["place"];
    let figure = limits.iter().find(is_it).expect("what binds is a figure of the step");
    assert!(figure["margin"].as_f64() < Some(0.0), "{found:#}");
    let (_, told, stderr) = output(at, &["explain", &run_folder(at).display().to_string()]);
    assert!(told.contains("Performance with "), "{told}{stderr}");
    // The databases exist now: a second climb uses them, and has a folder of its own.
    let (status, stdout, stderr) = output(at, &["capacity", "s.toml", "--run"]);
    assert_eq!(status, 1, "{stdout}{stderr}");
    for line in ["measured on the storage of: here", "carries no number", "binds first", "not backed"] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    assert_eq!(std::fs::read_dir(at.join("runs")).expect("there are runs").count(), 2);
}

/// Whether the machine carries the load is its own matter: the answer is held against the evidence.
#[test]
fn the_answer_of_a_climb_says_what_its_tests_say_and_ends_where_the_plan_does() {
    let folder = folder_with("s.toml", &format!("{SMALL}{LATENCIES_NOT_JUDGED}"));
    let (status, stdout, stderr) = output(folder.path(), &["capacity", "s.toml", "--run", "--json"]);
    let found = consistent(folder.path(), &stdout);
    let steps = found["probes"].as_array().expect("a list");
    let held =
        steps.iter().filter(|step| step["holds"] == true).filter_map(|step| step["mailboxes"].as_u64());
    match found["mailboxes"].as_u64() {
        Some(carried) => assert!(held.clone().any(|mailboxes| mailboxes == carried), "{found:#}"),
        None => assert_ne!(steps.iter().filter(|step| step["holds"] == false).count(), 0, "{found:#}"),
    }
    if steps.iter().all(|step| step["holds"] == true) {
        assert_eq!(
            (found["found"].as_str(), held.max()),
            (Some("carried_by_plan"), found["mailboxes"].as_u64())
        );
        assert_eq!(status, 0, "{stderr}");
    }
}

#[test]
fn a_climb_without_room_for_its_databases_writes_nothing() {
    let text =
        SMALL.replace("database_mib = 16", "database_mib = 16000000").replace("capacity_gib = 200\n", "");
    let folder = folder_with("s.toml", &text);
    let (status, stdout, stderr) = output(folder.path(), &["capacity", "s.toml", "--run"]);
    assert!(status == 3 && stderr.contains("space"), "{status} {stdout}{stderr}");
    assert!(!folder.path().join("data").exists() && !folder.path().join("runs").exists());
}
