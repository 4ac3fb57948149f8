//! What the console and the exit status say of a run's grade.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use crate::program::{LATENCIES_NOT_JUDGED, folder_with, output, small_deployment};

/// A load that a disk of 200 I/O per second carries beside those of the other tests.
const TARGET: &str = "batches_per_s = 2\ntarget_iops = 2\n";

const SHORT: &str = r#"
[[test]]
kind = "init"
[[test]]
kind = "performance"
duration_s = 20
warmup_limit_s = 15
[[test]]
kind = "database_checksum"
[[test]]
kind = "stress"
duration_s = 20
warmup_limit_s = 15
[[test]]
kind = "database_checksum"
[[test]]
kind = "backup"
[[test]]
kind = "log_generation"
duration_s = 300
logs = 2
[[test]]
kind = "log_checksum"
[[test]]
kind = "soft_recovery"
"#;

/// Cache settings that keep half of the cache free, so that no operation waits for a buffer while other tests use the
/// disk.
const CACHE: &str =
    "cache_max_mib = 2\ncheckpoint_depth_mib = 1\nflush_start_percent = 25\nflush_stop_percent = 50\n";

const OWN_RULES: &str = r#"
[qualification]
performance_window_s = 20
stress_window_s = 20
latency_limits_percent = 1000000
cache_ratio = 2
cache_filled_percent = 1
maintained_percent = 0
verified_logs = 1
recovered_logs = 1
kernel_log_percent = 0
starved_percent = 100
evidence_apart_percent = 0
reads_per_batch = [0, 1000]
writes_per_batch = [0, 1000]
log_writes_per_batch = [0, 1000]
log_file_kib_per_batch = [0, 100000]
throughput_change_percent = 1000
write_change_percent = 1000
write_start_percent = 0
latency_change_percent = 100000
"#;

fn deployment(more: &str) -> String {
    let paced = small_deployment("Small", 96, 1).replace("sessions = 4\n", TARGET);
    let paced = paced.replace("volume = \"V\"\n", "volume = \"V\"\nlog_file_kib = 128\n");
    let paced = paced.replace("cache_max_mib = 4\n", CACHE);
    format!("{paced}{LATENCIES_NOT_JUDGED}{more}")
}

/// The exit status, and the last line and all of the console.
fn ran(folder: &tempfile::TempDir, arguments: &[&str]) -> (i32, String, String) {
    let (status, stdout, stderr) = output(folder.path(), &[&["run", "small.toml"], arguments].concat());
    let last = stdout.lines().last().unwrap_or_default().to_owned();
    assert!(!last.is_empty(), "{stderr}");
    (status, last, stdout)
}

#[test]
fn a_small_run_by_its_own_stated_rules_is_qualified_and_says_so() {
    let folder = folder_with("small.toml", &deployment(&format!("{SHORT}{OWN_RULES}")));
    let (status, last, stdout) = ran(&folder, &["--require", "qualified"]);
    assert_eq!(status, 0, "{stdout}");
    assert!(
        last.starts_with("QUALIFIED: By its own rules, the storage carries the stated load of 2.00"),
        "{last}"
    );
}

#[test]
fn a_short_run_holds_its_limits_and_names_what_is_missing() {
    let folder = folder_with("small.toml", &deployment(SHORT));
    let (status, last, stdout) = ran(&folder, &["--tests", "init,performance", "--require", "qualified"]);
    assert_eq!(status, 1, "{stdout}");
    assert!(
        last.starts_with("LIMITS HELD (no qualification: ") && last.contains("conditions are not met)"),
        "{last}"
    );
    let missing = ["missing: performance window 20", "missing: database "];
    assert!(missing.iter().all(|line| stdout.contains(line)), "{stdout}");
    assert!(
        stdout.contains("more, see the report") && stdout.matches("  missing: ").count() == 6,
        "{stdout}"
    );
    assert!(!stdout.contains("PASS") && !stdout.contains("carries"), "{stdout}");

    let (status, last, stdout) = ran(&folder, &["--tests", "database_checksum,backup"]);
    assert_eq!(status, 0, "`held` is asked for by default: {stdout}");
    assert!(last.starts_with("LIMITS HELD"), "{last}");
    assert!(stdout.contains("no load test took place") && !stdout.contains("carries"), "{stdout}");
}

/// The only run in the folder: its `report.json`, and the texts of `report.html` and `junit.xml`.
fn evidence(folder: &tempfile::TempDir) -> (serde_json::Value, String, String) {
    let mut runs = std::fs::read_dir(folder.path().join("runs")).expect("there are runs");
    let run = runs.next().expect("there is one").expect("readable").path();
    let text = |name: &str| std::fs::read_to_string(run.join(name)).expect(name);
    (serde_json::from_str(&text("report.json")).expect("JSON"), text("report.html"), text("junit.xml"))
}

#[test]
fn console_page_json_and_junit_say_the_same_grade_first() {
    let missed = deployment(SHORT).replace("target_iops = 2", "target_iops = 100000");
    for (text, tests, grade, words) in [
        (deployment(SHORT), "init,performance", "held", "LIMITS HELD: "),
        (missed, "init,performance", "failed", "FAILED: "),
        (deployment(SHORT), "init", "held", "LIMITS HELD: "),
    ] {
        let folder = folder_with("small.toml", &text);
        let (_, _, stdout) = ran(&folder, &["--tests", tests]);
        let (json, html, junit) = evidence(&folder);
        let judged = &json["verdict"];
        let sentence = judged["headline"].as_str().expect("a sentence");
        assert_eq!(judged["grade"], grade, "{stdout}");
        let first = stdout.lines().find(|line| !line.is_empty()).expect("the console says something");
        assert!(first.starts_with(words), "{stdout}");
        let (said, _) = stdout.split_once("Test and rule").expect("a table");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said, format!("{words}{sentence}"), "{stdout}");
        let place = |text: &str, what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(place(&html, &format!("<div class=\"verdict {grade}\">")) < place(&html, "The campaign"));
        let first = junit.find("<property").expect("JUnit has properties");
        assert!(junit[first..].contains(&format!("name=\"grade\" value=\"{grade}\"")), "{junit}");
        assert!(first < place(&junit, "<testcase"), "{junit}");
    }
}

/// Two copies of a database on two hosts, and an array with two disks: everything is modelled.
const MODELLED: &str = r#"
[solution]
name = "Small"
schema = 1

[profile]
exchange = "2016"
mailboxes = 30
messages_per_day = 150
quota_mb = 64

[dag]
databases = 1
databases_per_volume = 1

[copies]
per_site = [2]

[[host]]
name = "h{n}"
count = 2

[[volume]]
name = "V"
path = "/v"
capacity_gib = 100

[[instance]]
name = "DB{n}"
volume = "V"

[sizing]
database_mib = 64

[engine]
cache_min_mib = 8
cache_max_mib = 16

[load]
batches_per_s = 12
copies = 1
"#;

const DRILL: &str = r#"
[[test]]
kind = "drill"
duration_s = 40
[test.drill]
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 5
back_after_s = 10
"#;

/// `output` lints what it leaves.
#[test]
fn simulated_runs_and_drills_are_predicted_and_lint_finds_nothing_in_them() {
    for (more, arguments) in [(SHORT, &["--servers", "2"][..]), (DRILL, &[])] {
        let folder = folder_with("small.toml", &format!("{MODELLED}{more}"));
        let (_, stdout, stderr) = output(folder.path(), &[&["simulate", "small.toml"], arguments].concat());
        let (json, _, _) = evidence(&folder);
        assert_eq!(json["run"]["world"], "simulated");
        let sentence = json["verdict"]["headline"].as_str().expect("a sentence");
        assert!(sentence.starts_with("Predicted, not tested: "), "{stdout}{stderr}");
    }
}

#[test]
fn a_missed_target_fails_whatever_is_required() {
    let text = deployment(SHORT).replace("target_iops = 2", "target_iops = 100000");
    let folder = folder_with("small.toml", &text);
    for require in ["held", "qualified"] {
        let (status, last, stdout) = ran(&folder, &["--tests", "init,performance", "--require", require]);
        assert_eq!(status, 1, "{stdout}");
        assert!(last.starts_with("FAILED: Performance: "), "{last}");
    }
}
