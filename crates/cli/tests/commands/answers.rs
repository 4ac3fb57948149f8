//! What commands print for programs: JSON of the published schemas, progress as lines and as events, details.

use std::path::Path;

use serde_json::Value;

use crate::program::{folder_with, output, proofload, small_deployment};

fn small() -> String {
    small_deployment("Small", 16, 1)
        + "[[test]]\nkind = \"init\"\n[[test]]\nkind = \"performance\"\nduration_s = 2\nwarmup_limit_s = 1\n"
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asserts that a document is of the schema that `proofload schema NAME` prints.
fn assert_valid(folder: &Path, schema: &str, document: &Value) {
    let (status, text, stderr) = output(folder, &["schema", schema]);
    assert_eq!(status, 0, "{stderr}");
    let validator = jsonschema::validator_for(&parsed(&text)).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{schema}: {errors:?}: {document}");
}

/// A file of the project.
fn project(file: &str) -> String {
    format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))
}

/// The newest run in a folder.
fn newest_run(folder: &Path) -> String {
    let runs = std::fs::read_dir(folder.join("runs")).expect("a run").flatten();
    runs.map(|run| run.path()).max().expect("a run").display().to_string()
}

#[test]
fn every_answer_in_json_is_of_its_published_schema() {
    let users = "[profile]\nexchange = \"2016\"\nmailboxes = 40\nmessages_per_day = 150\nquota_mb = 40\n";
    let folder = folder_with("s.toml", &(small() + users));
    let at = folder.path();
    let shipped = &project("solutions/nimble-cs700-100000.toml");
    let answer = |schema: &str, arguments: &[&str]| {
        let (_, stdout, stderr) = output(at, &[arguments, &["--json"]].concat());
        assert!(!stdout.is_empty(), "{arguments:?}: {stderr}");
        assert_valid(at, schema, &parsed(&stdout));
    };
    answer("dry-run", &["run", "s.toml", "--dry-run"]);
    answer("check", &["check", "s.toml"]);
    answer("check", &["check", "s.toml", "--set", "load.sesions=1"]);
    answer("plan", &["plan", shipped]);
    answer("capacity", &["capacity", shipped, "--plan-only", "--vary", "copies=[1,1],[2,1]"]);
    answer("report", &["run", "s.toml"]);
    let run = newest_run(at);
    answer("report", &["simulate", "s.toml"]);
    answer("report", &["report", &run]);
    answer("lint", &["lint", &run, &format!("{run}/report.json")]);
    answer("explain", &["explain", &run]);
    answer("compare", &["compare", &run, &newest_run(at)]);
    answer("verify", &["verify", "data/v/DB1/DB1.edb"]);
    answer("clean", &["clean", "s.toml", "--dry-run"]);
    answer("examples", &["examples"]);
    answer("import", &["import", &project("published/dell-md3260-15000.toml"), "--out", "imported"]);
    answer("paper", &["paper", "s.toml", &run]);
    answer("lint-rules", &["lint", "--rules"]);
    let (solution, catalogue) = ("solutions/dell-r740xd-10000.toml", "solutions/catalogue.toml");
    answer("search", &["plan", &project(solution), "--search", &project(catalogue)]);
}

#[cfg(feature = "fleet")]
#[test]
fn answers_of_a_fleet_are_of_their_published_schemas() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    let hosts = ["--hosts", "here,h2", "--address", "127.0.0.1:4222", "--json"];
    let (status, stdout, stderr) = output(at, &[&["fleet", "init", "fleet"][..], &hosts].concat());
    assert_eq!(status, 0, "{stderr}");
    let made = parsed(&stdout);
    assert_valid(at, "fleet-init", &made);
    for agent in made["agents"].as_array().expect("a list") {
        assert!(at.join(agent["credentials"].as_str().expect("a path")).is_file(), "{made}");
    }
    let (status, stdout, stderr) =
        output(at, &["fleet", "run", "s.toml", "--fleet", "fleet", "--dry-run", "--json"]);
    assert_eq!(status, 0, "{stderr}");
    assert_valid(at, "dry-run", &parsed(&stdout));
}

#[test]
fn progress_is_events_in_json_or_lines_with_the_time_of_day_or_nothing() {
    let folder = folder_with("s.toml", &small());
    let stderr = |arguments: &[&str]| {
        let done = proofload(folder.path(), arguments).output().expect("it starts");
        String::from_utf8(done.stderr).expect("UTF-8")
    };
    let events = stderr(&["run", "s.toml", "--progress", "json"]);
    let events: Vec<Value> = events.lines().map(parsed).collect();
    events.iter().for_each(|event| assert_valid(folder.path(), "progress", event));
    let of_kind = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert!(of_kind("test") >= 2 && of_kind("message") >= 2, "{events:#?}");
    let wrong = stderr(&["run", "s.toml", "--progress", "json", "--set", "load.sesions=1"]);
    let wrong = parsed(wrong.lines().next().expect("an error"));
    assert!(wrong["event"] == "error" && wrong["text"].to_string().contains("sesions"), "{wrong}");

    let is_progress = |line: &&str| line.contains("[ 2/2]") && line.contains(" %");
    let plain = stderr(&["simulate", "s.toml", "--progress", "plain"]);
    let line = plain.lines().find(is_progress).unwrap_or_else(|| panic!("{plain}"));
    assert!(line.as_bytes()[10] == b'T' && line[..22].contains("Z  "), "{line}");
    assert!(plain.lines().filter(is_progress).count() <= 5, "{plain}");
    for silent in [&["--progress", "none"][..], &["-q", "--progress", "json"]] {
        let told = stderr(&[&["simulate", "s.toml", "--duration", "5"], silent].concat());
        assert_eq!(told.lines().find(is_progress), None, "{told}");
    }
}

#[test]
fn verbose_names_files_settings_and_the_kind_of_io() {
    let folder = folder_with("s.toml", &small());
    let run = ["run", "s.toml", "--dry-run", "--set", "load.sessions=2"];
    let (_, _, brief) = output(folder.path(), &run);
    let (status, _, told) = output(folder.path(), &[&run[..], &["-v"]].concat());
    assert_eq!(status, 0, "{told}");
    for words in ["reads s.toml", "setting in force: --set load.sessions=2", "I/O: "] {
        assert!(told.contains(words) && !brief.contains(words), "{words}: {told}");
    }
    assert_eq!(output(folder.path(), &["-q", "-v", "check", "s.toml"]).0, 2);
}

#[test]
fn dry_run_of_a_run_that_does_not_fit_prints_what_it_needs_and_then_what_does_not_fit() {
    let folder = folder_with("s.toml", &small().replace("database_mib = 16", "database_mib = 16000000"));
    let (status, stdout, stderr) = output(folder.path(), &["run", "s.toml", "--dry-run"]);
    assert_eq!(status, 3, "{stdout}{stderr}");
    assert!(stdout.contains("2 tests:") && stdout.contains("in all at least"), "{stdout}");
    assert!(stdout.contains("of memory for page caches") && stderr.contains("needs"), "{stdout}{stderr}");
    let (status, stdout, _) = output(folder.path(), &["run", "s.toml", "--dry-run", "--json"]);
    let told = parsed(&stdout);
    assert!(status == 3 && told["obstacle"].is_string(), "{told}");
    assert_valid(folder.path(), "dry-run", &told);
    assert!(!folder.path().join("data").exists());
}

#[test]
fn report_json_of_an_unknown_version_is_refused_by_name() {
    let folder = folder_with("s.toml", &small());
    assert!(output(folder.path(), &["simulate", "s.toml"]).0 <= 1);
    let written = std::fs::read_to_string(format!("{}/report.json", newest_run(folder.path()))).expect("it");
    let other = written.replacen("\"version\": 1", "\"version\": 2", 1);
    assert_ne!(written, other);
    std::fs::write(folder.path().join("known.json"), &written).expect("writable");
    std::fs::write(folder.path().join("other.json"), &other).expect("writable");
    for arguments in [&["lint", "other.json"][..], &["compare", "known.json", "other.json"]] {
        let (status, _, stderr) = output(folder.path(), arguments);
        let named = stderr.contains("other.json") && stderr.contains("version 2 of report.json");
        assert!(status == 2 && named && stderr.contains("reads version 1"), "{stderr}");
    }
    assert_eq!(output(folder.path(), &["lint", "known.json"]).0, 0);
}
