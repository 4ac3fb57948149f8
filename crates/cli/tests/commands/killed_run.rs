//! A run that is killed, or interrupted, in any of its tests: what it had measured can be shown, the next run
//! recovers the databases and passes, and nothing of it is left in the way.
#![allow(clippy::disallowed_methods, reason = "a test that runs and kills the program on real files")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::program;
use crate::program::{LATENCIES_NOT_JUDGED, folder_with, output, proofload, small_deployment};

const TESTS: &str = r#"
[[test]]
kind = "init"
[[test]]
kind = "tune"
duration_s = 60
warmup_limit_s = 1
[[test]]
kind = "performance"
duration_s = 60
warmup_limit_s = 1
[[test]]
kind = "database_checksum"
[[test]]
kind = "log_checksum"
[[test]]
kind = "stress"
duration_s = 60
warmup_limit_s = 1
[[test]]
kind = "backup"
[[test]]
kind = "backup_to_disk"
[[test]]
kind = "restore"
[[test]]
kind = "log_generation"
duration_s = 60
logs = 40
[[test]]
kind = "soft_recovery"
"#;

/// Time of the signal.
#[derive(Clone, Copy)]
enum Moment {
    /// Milliseconds after the first progress line of the test.
    InTest(u64),
    /// At the first progress line of the test. The test may end before it prints one, or before the signal arrives.
    AtOnce,
    /// For a test that ends before it prints a line: a file name ending, and the milliseconds after the program has
    /// opened such a file.
    Opened(&'static str, u64),
}

/// Each test of the campaign: its name in the report, the tests to run, and the time of the signal.
const PHASES: [(&str, &str, Moment); 11] = [
    ("Initialisation", "init", Moment::Opened(".edb.new", 40)),
    ("Tuning", "tune", Moment::InTest(1500)),
    ("Performance", "performance", Moment::InTest(3500)),
    ("Checksum", "database_checksum", Moment::Opened(".edb", 50)),
    ("Log checksum", "log_checksum", Moment::Opened(".edb", 0)),
    ("Stress", "stress", Moment::InTest(500)),
    ("Backup", "backup", Moment::Opened(".edb", 80)),
    ("Backup to disk", "backup_to_disk", Moment::Opened(".backup.edb", 150)),
    ("Restore", "backup_to_disk,restore", Moment::Opened(".restored.edb", 300)),
    ("Log generation", "log_generation", Moment::InTest(2000)),
    ("Soft recovery", "log_generation,soft_recovery", Moment::AtOnce),
];

fn folder() -> tempfile::TempDir {
    let deployment = small_deployment("Killed", 128, 2);
    folder_with("killed.toml", &format!("{deployment}{LATENCIES_NOT_JUDGED}{TESTS}"))
}

fn newest_run(folder: &Path) -> PathBuf {
    let runs = std::fs::read_dir(folder.join("runs")).expect("a folder of runs");
    runs.map(|run| run.expect("readable").path()).max().expect("a run folder")
}

/// Whether the process has an open file whose name ends in `end`.
fn has_open(process: u32, end: &str) -> bool {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut files = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    files.any(|file| file.to_string_lossy().ends_with(end))
}

/// Starts the tests and sends the signal. Returns the exit status.
fn strike(folder: &Path, tests: &str, name: &str, moment: Moment, signal: i32) -> Option<i32> {
    let mut child = proofload(folder, &["run", "killed.toml", "--tests", tests, "--progress", "json"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let is_of_test = |line: &String| line.contains(&format!("\"test\":\"{name}"));
    let is_over = |child: &mut Child| child.try_wait().expect("a child").is_some();
    let pause_ms = match moment {
        Moment::InTest(pause_ms) => {
            assert!(lines.any(|line| is_of_test(&line)), "{name} has not begun");
            pause_ms
        }
        Moment::AtOnce => {
            lines.any(|line| is_of_test(&line));
            0
        }
        Moment::Opened(end, pause_ms) => {
            while !has_open(child.id(), end) && !is_over(&mut child) {
                std::thread::sleep(Duration::from_millis(1));
            }
            pause_ms
        }
    };
    std::thread::sleep(Duration::from_millis(pause_ms));
    if !is_over(&mut child) {
        // SAFETY: the process is our own child and has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
    }
    // What it still says must not block it.
    lines.for_each(drop);
    child.wait().expect("it ends").code()
}

/// Asserts that the newest run can be reported, and that its report shows the test.
fn check_report(folder: &Path, name: &str) {
    let run = newest_run(folder);
    let (status, _, stderr) = output(folder, &["report", &run.to_string_lossy()]);
    assert_eq!(status, 0, "{name}: {stderr}");
    program::assert_lint_finds_nothing(folder, &run);
    let report = std::fs::read_to_string(run.join("report.json")).expect("rendered");
    assert!(report.contains(&format!("\"{name}")), "{name} is not in the report");
}

/// Milliseconds of load that the series of the newest run covers.
fn measured_ms(folder: &Path) -> u64 {
    let run = newest_run(folder);
    let query = "SELECT max(t_ms + interval_ms) - min(t_ms) FROM sample";
    let (status, stdout, stderr) = output(folder, &["sql", &run.to_string_lossy(), query]);
    assert_eq!(status, 0, "{stderr}");
    stdout.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or_else(|| panic!("{stdout}"))
}

fn expect_pass(folder: &Path, tests: &str, after: &str) {
    let (status, stdout, stderr) = output(folder, &["run", "killed.toml", "--tests", tests]);
    assert_eq!(status, 0, "after {after}: {stdout}{stderr}");
}

fn databases_are_whole(folder: &Path, after: &str) {
    for db in ["DB1", "DB2"] {
        let (status, stdout, _) = output(folder, &["verify", &format!("data/v/{db}/{db}.edb")]);
        assert_eq!(status, 0, "after {after}: {stdout}");
        assert!(!stdout.contains("was not closed"), "after {after}: {stdout}");
    }
}

#[test]
fn a_run_killed_in_any_test_can_be_reported_and_the_next_one_recovers() {
    let folder = folder();
    let at = folder.path();
    let mut killed = 0;
    for (name, tests, moment) in PHASES {
        let status = strike(at, tests, name, moment, libc::SIGKILL);
        killed += u32::from(status.is_none());
        match moment {
            // Killed so early it may have had nothing to tell of yet.
            Moment::Opened(..) => {}
            // Nor of this test, but of the one before it.
            Moment::AtOnce => check_report(at, "Log generation"),
            Moment::InTest(pause_ms) => {
                assert_eq!(status, None, "{name}: it ended by itself");
                check_report(at, name);
                if tests == "performance" {
                    let measured_ms = measured_ms(at);
                    assert!(measured_ms + 2000 > pause_ms, "{measured_ms} ms of {pause_ms} are there");
                }
            }
        }
        expect_pass(at, "init,database_checksum", name);
        databases_are_whole(at, name);
    }
    assert!(killed >= 7, "only {killed} runs were killed before they ended");
}

#[test]
fn an_interrupted_run_closes_its_databases_and_says_so_by_its_status() {
    let folder = folder();
    let at = folder.path();
    expect_pass(at, "init", "nothing");
    for (name, tests, moment) in PHASES {
        if let Moment::Opened(..) = moment {
            continue;
        }
        let status = strike(at, tests, name, moment, libc::SIGINT);
        let was_over = matches!(moment, Moment::AtOnce) && status == Some(0);
        assert!(status == Some(4) || was_over, "{name}: {status:?}");
        check_report(at, name);
        databases_are_whole(at, name);
    }
}
