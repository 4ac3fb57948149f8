//! Any numbers in a solution file: it is planned and simulated, or refused with a reason, and never panics.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{proofload, small_deployment};

const TESTS: &str = r#"
[thresholds]
read_avg_ms = 20
log_write_avg_ms = 10

[[test]]
kind = "init"
[[test]]
kind = "performance"
duration_s = 1
warmup_limit_s = 1
"#;

const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "0.5",
    "1e-9",
    "100",
    "65535",
    "4294967295",
    "4294967296",
    "1e18",
    "9223372036854775807",
    "inf",
    "nan",
];
/// Longest time for a command. A year of load is accepted, and only the exit status matters here.
const PATIENCE: Duration = Duration::from_secs(10);
/// Memory limit of the program, bytes: it must refuse a solution that is too large before it allocates its memory.
const MEMORY_BYTES: u64 = 4 << 30;

/// The text with up to three of its numbers replaced, as the bytes say.
fn changed(text: &str, choices: &[u8]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let has_number = |line: &String| line.split_once(" = ").is_some_and(|(_, v)| v.parse::<f64>().is_ok());
    let places: Vec<usize> = (0..lines.len()).filter(|at| has_number(&lines[*at])).collect();
    for choice in choices.as_chunks::<2>().0.iter().take(3) {
        let line = &mut lines[places[usize::from(choice[0]) % places.len()]];
        let name = line.split(" = ").next().unwrap_or_default();
        *line = format!("{name} = {}", NUMBERS[usize::from(choice[1]) % NUMBERS.len()]);
    }
    lines.join("\n")
}

/// Runs the command and checks how it ends, unless it takes too long.
fn check(folder: &Path, arguments: &[&str], text: &str) {
    let mut command = proofload(folder, arguments);
    // SAFETY: setting a limit is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: MEMORY_BYTES, rlim_max: MEMORY_BYTES };
            libc::setrlimit(libc::RLIMIT_AS, &limit);
            Ok(())
        })
    };
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let started = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if started.elapsed() > PATIENCE => {
                child.kill().expect("a child");
                child.wait().expect("a child");
                return;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    let ended = status.code().is_some_and(|code| (0..=4).contains(&code));
    assert!(ended, "{arguments:?}: {:?} {:?}\n{said}\n{text}", status.code(), status.signal());
}

#[test]
fn any_numbers_in_a_solution_file_are_planned_and_simulated_or_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    let solution = format!("{}{TESTS}", small_deployment("Any", 24, 2));
    let seed: Vec<u8> = (0..=255).collect();
    testkit::fuzz("solution", &[seed], |choices| {
        let text = changed(&solution, choices);
        std::fs::write(folder.path().join("any.toml"), &text).expect("writable");
        check(folder.path(), &["plan", "any.toml"], &text);
        check(folder.path(), &["simulate", "any.toml"], &text);
    });
}
