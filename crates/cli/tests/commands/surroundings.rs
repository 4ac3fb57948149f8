//! What happens around a run, and where it runs, is seen: the process is stopped, its clocks jump, io_uring is
//! refused, the volumes are memory. None of these runs proves anything about disks, and each says why.
#![allow(clippy::disallowed_methods, reason = "a test that stops the program and moves its clocks")]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{
    LATENCIES_NOT_JUDGED, folder_with, lint_newest_run, output, proofload, small_deployment,
};

/// A window that is long enough for a hole in it.
const TESTS: &str = r#"
[[test]]
kind = "init"
[[test]]
kind = "performance"
duration_s = 6
warmup_limit_s = 1
"#;

fn folder() -> tempfile::TempDir {
    folder_with("lapse.toml", &format!("{}{LATENCIES_NOT_JUDGED}{TESTS}", small_deployment("Lapse", 16, 1)))
}

fn run_folder(folder: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(folder.join("runs")).ok()?;
    runs.map(|run| run.expect("readable").path()).max()
}

/// The program under a shim that moves its clocks by what the file `moved` of the folder says.
fn start(folder: &Path) -> Child {
    let shim = folder.join("clock_shim.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/surroundings/clock_shim.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).status();
    assert!(built.expect("a C compiler").success());
    let mut command = proofload(folder, &["run", "lapse.toml"]);
    command.env("LD_PRELOAD", &shim).env("CLOCK_SHIM_FILE", folder.join("moved"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// The rows of a query, once there are any.
fn query(folder: &Path, sql: &str) -> String {
    let Some(run) = run_folder(folder) else { return String::new() };
    let (_, rows, _) = output(folder, &["sql", &run.display().to_string(), sql]);
    rows
}

fn wait_for_window(folder: &Path, child: &mut Child) {
    let began = Instant::now();
    while !query(folder, "select window_start_ms from test where window_start_ms > 0")
        .contains(char::is_numeric)
    {
        assert!(began.elapsed() < testkit::PATIENCE, "the window does not open");
        assert_eq!(child.try_wait().expect("a child"), None, "the run ended before");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_millis(1500));
}

/// Exit status, stdout and stderr of a run that must end in time.
fn ending(folder: &Path, mut child: Child) -> (i32, String, String) {
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > testkit::PATIENCE {
            child.kill().expect("a child");
            panic!("the run does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().expect("a child");
    lint_newest_run(folder);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn verdict(folder: &Path, rule: &str) -> String {
    query(folder, &format!("select outcome, measured, threshold, unit from verdict where rule = '{rule}'"))
}

fn events(folder: &Path) -> String {
    query(folder, "select severity, text from event")
}

#[test]
fn a_stopped_process_leaves_a_gap_in_the_window_and_the_run_is_no_pass() {
    let folder = folder();
    let mut child = start(folder.path());
    wait_for_window(folder.path(), &mut child);
    let signal = |number| {
        // SAFETY: no pointers; the child is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, number) }, 0);
    };
    signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(3500));
    signal(libc::SIGCONT);
    let (status, stdout, _) = ending(folder.path(), child);
    assert_ne!(status, 0, "{stdout}");
    assert!(!stdout.contains("FAIL"), "the storage is not blamed: {stdout}");
    assert!(verdict(folder.path(), "window_without_gaps").contains("unproved"), "{stdout}");
    assert!(verdict(folder.path(), "window_complete").contains("unproved"), "only what was sampled counts");
    assert!(events(folder.path()).contains("nothing was measured meanwhile"), "{}", events(folder.path()));
}

/// Moves these clocks by `ns` inside the window of a run. Returns its folder and its result.
fn moved(ns: i64, clocks: &str) -> (tempfile::TempDir, (i32, String, String)) {
    let folder = folder();
    let mut child = start(folder.path());
    wait_for_window(folder.path(), &mut child);
    std::fs::write(folder.path().join("moved.new"), format!("{ns} {clocks}")).expect("writable");
    std::fs::rename(folder.path().join("moved.new"), folder.path().join("moved")).expect("writable");
    let ended = ending(folder.path(), child);
    (folder, ended)
}

const HOUR_NS: i64 = 3_600_000_000_000;
/// Less than any host that runs tests is up.
const MINUTE_NS: i64 = 60_000_000_000;
/// The wall clock, the monotonic clock and the clock that counts suspends.
const ALL_CLOCKS: &str = "0 1 7";

/// A run whose clocks jump ends at once, says so, keeps why, and says nothing about the storage.
fn assert_ended_by_its_clock(ns: i64, said: &str) {
    let (folder, (status, stdout, stderr)) = moved(ns, ALL_CLOCKS);
    assert_eq!(status, 3, "{stdout}{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    assert!(!stdout.contains("FAIL"), "the storage is not blamed: {stdout}");
    assert!(events(folder.path()).contains(said), "{stderr}");
    assert!(verdict(folder.path(), "clock_never_jumped").contains("unproved"), "{stdout}");
    assert!(query(folder.path(), "select ending from run").contains("aborted"));
}

#[test]
fn clocks_that_jump_ahead_end_the_run_and_are_named() {
    assert_ended_by_its_clock(HOUR_NS, "clock jumped ahead by 3600");
}

#[test]
fn clocks_that_jump_back_end_the_run_and_are_named() {
    assert_ended_by_its_clock(-MINUTE_NS, "clock went back by 60");
}

#[test]
fn a_step_of_the_wall_clock_alone_is_said_and_fails_nothing() {
    let (folder, (_, stdout, stderr)) = moved(HOUR_NS, "0");
    let events = events(folder.path());
    assert!(events.contains("wall clock was set ahead by 3600"), "{events}");
    assert!(!stdout.contains("not proved") && !stdout.contains("NOT PROVED"), "{stdout}{stderr}");
    assert!(verdict(folder.path(), "window_without_gaps").contains("pass"), "{stdout}");
}

/// Refuses io_uring to the program that is started, as the sandboxes of containers do.
fn refuse_io_uring() -> std::io::Result<()> {
    const LOAD_NUMBER_OF_CALL: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NUMBER_OF_CALL, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter and its steps live until both calls have returned; the kernel copies them.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn io_uring_that_a_sandbox_refuses_is_not_called_working() {
    let folder = folder();
    let said = |sandboxed: bool| {
        let mut command = proofload(folder.path(), &["run", "lapse.toml", "--dry-run"]);
        if sandboxed {
            // SAFETY: the closure calls prctl and reads errno, nothing else.
            unsafe { command.pre_exec(refuse_io_uring) };
        }
        String::from_utf8_lossy(&command.output().expect("the program starts").stdout).into_owned()
    };
    let refused = said(true);
    assert!(refused.contains("io_uring: refused (Operation not permitted"), "{refused}");
    assert!(!said(false).contains("io_uring: refused"), "no sandbox refuses it");
}

#[test]
fn the_growth_of_a_load_with_a_target_is_predicted_and_must_fit() {
    let said = |load: &str, duration_s: u32| {
        let deployment = small_deployment("Growth", 16, 1).replace("sessions = 4", load);
        let test = format!("\n[[test]]\nkind = \"performance\"\nduration_s = {duration_s}\n");
        let folder = folder_with("growth.toml", &format!("{deployment}{test}"));
        output(folder.path(), &["run", "growth.toml", "--dry-run"])
    };
    let (status, stdout, _) = said("batches_per_s = 100", 1_000);
    assert!(status == 0 && stdout.contains("grow by about 1.3 GiB in 16 min 40 s of load"), "{stdout}");
    // The bound holds the longest warm-up of half an hour, too.
    assert!(stdout.contains("in all up to 3.8 GiB"), "it is counted: {stdout}");
    let (status, _, stderr) = said("batches_per_s = 100000", 2_000_000);
    assert!(status == 3 && stderr.contains("of free space"), "{stderr}");
    let (_, stdout, _) = said("sessions = 4", 60);
    assert!(stdout.contains("growth of the databases is not predicted"), "{stdout}");
}

#[test]
fn a_run_in_memory_records_that_each_volume_is_memory() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let deployment =
        small_deployment("Memory", 16, 1).replace("data/v", &memory.path().join("v").display().to_string());
    let folder = folder_with("memory.toml", &format!("{deployment}\n[[test]]\nkind = \"init\"\n"));
    let (status, _, stderr) = output(folder.path(), &["run", "memory.toml"]);
    assert!(status == 3 && stderr.contains("is memory, not storage"), "{stderr}");
    output(folder.path(), &["run", "memory.toml", "--allow-memory"]);
    let rows = query(
        folder.path(),
        "select area, value, severity from environment where name = 'Storage is memory'",
    );
    assert!(rows.contains("Volume V,yes: tmpfs on /dev/shm,error"), "{rows}");
    let run = std::fs::read_dir(folder.path().join("runs")).expect("readable").flatten().next();
    let report = std::fs::read_to_string(run.expect("a run").path().join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let conditions = report["verdict"]["conditions"].as_array().expect("a list");
    let of = |name: &str| conditions.iter().find(|row| row["name"] == name).expect("it applies").clone();
    let on_storage = of("on_storage_percent");
    assert_eq!((&on_storage["measured"], &on_storage["met"]), (&0.0.into(), &false.into()), "{on_storage}");
    assert_eq!(on_storage["note"], "V is in memory");
    assert_eq!(of("errors")["measured"], 0.0, "memory is told once: {}", of("errors"));
}
