//! The program, started on a small deployment in a folder of its own.
#![allow(dead_code, reason = "not every test that starts it uses all of this")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Two databases of a few MiB on one volume; a test appends what else it needs, the tests above all.
pub fn small_deployment(name: &str, database_mib: u32, copies: u32) -> String {
    format!(
        r#"
[solution]
name = "{name}"
schema = 1

[[host]]
name = "here"

[[volume]]
name = "V"
path = "data/v"

[[instance]]
name = "DB{{n}}"
count = 2
volume = "V"

[sizing]
database_mib = {database_mib}

[load]
sessions = 4
copies = {copies}

[engine]
cache_min_mib = 2
cache_max_mib = 4
"#
    )
}

/// Latencies of a shared test machine prove nothing, so they are not judged.
pub const LATENCIES_NOT_JUDGED: &str = "
[thresholds]
read_avg_ms = 60000
read_max_ms = 60000
log_write_avg_ms = 60000
log_write_max_ms = 60000
";

/// A folder on a disk with a solution file: unbuffered I/O is refused by memory file systems, and so is a run there.
pub fn folder_with(file: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    std::fs::write(folder.path().join(file), text).expect("writable");
    folder
}

/// The program in a folder.
pub fn proofload(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proofload"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program; returns exit status, stdout and stderr. `lint` must find nothing in a run that it made.
pub fn output(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = output_of(folder, arguments);
    if matches!(arguments.first(), Some(&"run" | &"simulate")) {
        lint_newest_run(folder);
    }
    output
}

/// Asserts that `lint` finds nothing in the newest run of a folder, however that run ended.
pub fn lint_newest_run(folder: &Path) {
    let runs = std::fs::read_dir(folder.join("runs")).into_iter().flatten().flatten();
    if let Some(newest) = runs.map(|run| run.path()).max() {
        assert_lint_finds_nothing(folder, &newest);
    }
}

/// Asserts that `lint` finds nothing in the run: the evidence is unchanged and consistent, and `report.json` is
/// consistent without `run.db`.
pub fn assert_lint_finds_nothing(folder: &Path, run: &Path) {
    for (evidence, is_there) in [(run.to_owned(), "run.db"), (run.join("report.json"), "report.json")] {
        if run.join(is_there).is_file() {
            let (status, stdout, stderr) = output_of(folder, &["lint", &evidence.to_string_lossy()]);
            assert_eq!(status, 0, "lint: {stdout}{stderr}");
        }
    }
}

fn output_of(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        proofload(folder, arguments).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}
