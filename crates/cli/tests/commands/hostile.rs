//! The command in hostile hands: output that cannot be written, signals, the wrong folder, a run that never began.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::program::{
    LATENCIES_NOT_JUDGED, folder_with, lint_newest_run, output, proofload, small_deployment,
};

const TESTS: &str = r#"
[[test]]
kind = "init"
[[test]]
kind = "performance"
duration_s = 600
warmup_limit_s = 1
"#;

fn folder() -> tempfile::TempDir {
    folder_with("small.toml", &format!("{}{LATENCIES_NOT_JUDGED}{TESTS}", small_deployment("Small", 24, 2)))
}

fn only_run(folder: &Path) -> PathBuf {
    let mut runs = std::fs::read_dir(folder.join("runs")).expect("a folder of runs");
    runs.next().expect("one run").expect("readable").path()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("Linux has it").into()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: the process is our own child and has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// Starts a run and waits until its load is measured.
fn measuring(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("[ 2/2] Performance")), "the load has not begun");
    (child, lines)
}

fn assert_ended_in_order(folder: &Path, status: ExitStatus) {
    assert_eq!((status.code(), status.signal()), (Some(4), None));
    assert!(only_run(folder).join("report.html").is_file(), "the evidence is kept");
    lint_newest_run(folder);
    for database in ["DB1", "DB2"] {
        let path = format!("data/v/{database}/{database}.edb");
        let (status, stdout, _) = output(folder, &["verify", &path]);
        assert!(status == 0 && !stdout.contains("was not closed"), "{stdout}");
    }
}

#[test]
fn a_run_whose_stderr_cannot_be_written_goes_on_and_keeps_its_evidence() {
    let run = |stderr: Stdio| {
        let folder = folder();
        let mut child = proofload(folder.path(), &["run", "small.toml", "--tests", "init"]);
        let status = child.stdout(Stdio::null()).stderr(stderr).status().expect("it starts");
        assert_eq!((status.code(), status.signal()), (Some(0), None));
        assert!(only_run(folder.path()).join("report.html").is_file());
        lint_newest_run(folder.path());
        folder
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    run(writer.into());
    let folder = run(full());
    let at = folder.path();
    let evidence = only_run(at).display().to_string();
    for arguments in
        [&["lint", &evidence][..], &["verify", "nothing.edb"], &["run", "small.toml", "--dry-run"]]
    {
        let (expected, _, _) = output(at, arguments);
        let found =
            proofload(at, arguments).stdout(Stdio::null()).stderr(full()).status().expect("it starts");
        assert_eq!(found.code(), Some(expected), "{arguments:?}");
    }
}

/// Sets how the program handles SIGHUP when it starts: default or ignored.
fn on_hangup(command: &mut Command, what: libc::sighandler_t) {
    // SAFETY: setting how a signal is taken is allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGHUP, what);
            Ok(())
        })
    };
}

#[test]
fn sigterm_and_sighup_end_a_run_in_order() {
    for what in [libc::SIGTERM, libc::SIGHUP] {
        let folder = folder();
        let mut command = proofload(folder.path(), &["run", "small.toml"]);
        // The test itself may have been started by nohup.
        on_hangup(&mut command, libc::SIG_DFL);
        let (mut child, mut lines) = measuring(&mut command);
        signal(&child, what);
        assert!(lines.any(|line| line.starts_with("ending in order")), "it says that it has heard");
        lines.for_each(drop);
        assert_ended_in_order(folder.path(), child.wait().expect("it ends"));
    }
}

#[test]
fn a_run_started_by_nohup_goes_on_when_the_terminal_is_gone() {
    let folder = folder();
    let mut command = proofload(folder.path(), &["run", "small.toml"]);
    on_hangup(&mut command, libc::SIG_IGN);
    let (mut child, lines) = measuring(&mut command);
    signal(&child, libc::SIGHUP);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(child.try_wait().expect("a child").is_none(), "it goes on");
    signal(&child, libc::SIGTERM);
    lines.for_each(drop);
    assert_ended_in_order(folder.path(), child.wait().expect("it ends"));
}

#[test]
fn serve_ends_in_order() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("runs")).expect("writable");
    for what in [libc::SIGINT, libc::SIGTERM] {
        let mut command = proofload(folder.path(), &["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("at http://")));
        signal(&child, what);
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn clean_says_where_it_looked_when_nothing_is_there() {
    let folder = folder();
    let (status, _, stderr) = output(folder.path(), &["clean", "small.toml"]);
    let looked = folder.path().join("data/v").display().to_string();
    assert!(
        status == 2 && stderr.contains(&looked) && stderr.contains("relative paths"),
        "{status}: {stderr}"
    );
}

/// Only a run that is killed in its first moments leaves a folder like this.
#[test]
fn a_run_that_was_killed_before_it_began_is_named_as_that() {
    let folder = folder();
    let run = folder.path().join("runs/killed");
    std::fs::create_dir_all(&run).expect("writable");
    evidence::RunStore::create(&run.join("run.db")).expect("writable").close().expect("no row");
    for arguments in [["report", "runs/killed"], ["lint", "runs/killed"]] {
        let (status, _, stderr) = output(folder.path(), &arguments);
        assert!(
            status != 0 && stderr.contains("ended before it had begun"),
            "{arguments:?} {status}: {stderr}"
        );
    }
    let minute_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let file = OpenOptions::new().write(true).open(run.join("run.db")).expect("it is there");
    file.set_modified(minute_ago).expect("our own file");
    let listed =
        evidence::listing::list(&folder.path().join("runs"), &mut Default::default()).expect("readable");
    assert!(listed[0].note.contains("ended before it had begun"), "{listed:?}");
}
