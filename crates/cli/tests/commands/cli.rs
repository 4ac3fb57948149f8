//! The command as a user meets it: exit status, what is on stdout and stderr, what is on disk afterwards.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::program::{
    LATENCIES_NOT_JUDGED, folder_with, lint_newest_run, output, proofload, small_deployment,
};

fn small() -> String {
    small_deployment("Small", 24, 2)
}

/// A folder with `small.toml`, which has these tests.
fn folder(tests: &str) -> tempfile::TempDir {
    folder_with("small.toml", &format!("{}\n{tests}", small()))
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<PathBuf> = std::fs::read_dir(folder.join("runs"))
        .map_or(Vec::new(), |dir| dir.map(|e| e.expect("readable").path()).collect());
    runs.sort();
    runs
}

const ALL: &str = r#"
[[test]]
kind = "init"
[[test]]
kind = "tune"
duration_s = 3
warmup_limit_s = 1
[[test]]
kind = "performance"
duration_s = 2
warmup_limit_s = 1
[[test]]
kind = "database_checksum"
[[test]]
kind = "log_checksum"
[[test]]
kind = "backup"
[[test]]
kind = "backup_to_disk"
[[test]]
kind = "restore"
[[test]]
kind = "log_generation"
duration_s = 300
logs = 2
[[test]]
kind = "soft_recovery"
[[test]]
kind = "database_checksum"
"#;

/// The whole campaign, twice: the second run uses the databases of the first and makes a folder of its own.
/// Then clean.
#[test]
fn the_programme_runs_and_leaves_evidence_and_clean_takes_the_databases_away() {
    let folder = folder(&format!("{LATENCIES_NOT_JUDGED}{ALL}"));
    let (status, stdout, stderr) = output(folder.path(), &["run", "small.toml"]);
    // The machine decides how often a small cache stalls, and whether any I/O falls into the short window.
    let is_of_machine = |row: &str| {
        row.contains("page_fault_stalls")
            || (row.contains("_latency_") && row.split_whitespace().nth(1) == Some("-"))
    };
    let failed: Vec<&str> = stdout.lines().filter(|row| row.ends_with("FAIL")).collect();
    assert!(failed.iter().all(|row| is_of_machine(row)), "{stdout}\n{stderr}");
    assert_eq!(status, i32::from(!failed.is_empty()), "{stdout}\n{stderr}");
    assert!(stderr.contains("will write below") && stderr.contains("data/v"), "{stderr}");
    let first = runs(folder.path());
    assert_eq!(first.len(), 1);
    for file in ["run.db", "report.html", "report.json", "junit.xml"] {
        assert!(first[0].join(file).is_file(), "{file}");
    }
    let (_, _, stderr) = output(folder.path(), &["run", "small.toml", "--tests", "init,database_checksum"]);
    assert!(stderr.contains("databases that exist and are used again: 2"), "{stderr}");
    assert_eq!(runs(folder.path()).len(), 2, "every run has a folder of its own");

    let (status, stdout, _) = output(folder.path(), &["verify", "data/v/DB1/DB1.edb"]);
    assert_eq!(status, 0, "{stdout}");
    assert!(stdout.contains(" 0 bad, 0 correctable"), "{stdout}");

    std::fs::write(folder.path().join("data/v/mine.txt"), "keep").expect("writable");
    let (status, _, stderr) = output(folder.path(), &["clean", "small.toml"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("mine.txt") && folder.path().join("data/v/mine.txt").exists(), "{stderr}");
    assert!(!folder.path().join("data/v/DB1/DB1.edb").exists());
    assert_eq!(runs(folder.path()).len(), 2, "evidence stays");
}

/// Only the public key of the key that signed a run verifies it, and only while its rows are as they were recorded.
#[test]
fn signed_run_is_verified_by_its_public_key() {
    let folder = folder("[[test]]\nkind = \"init\"\n");
    let at = folder.path();
    let (status, public, stderr) = output(at, &["lint", "--new-key", "key"]);
    assert_eq!((status, public.trim().len()), (0, 64), "{stderr}");
    assert_eq!(output(at, &["lint", "--new-key", "key"]).0, 2, "a key file is never overwritten");
    let (_, other, _) = output(at, &["lint", "--new-key", "other"]);
    assert_eq!(output(at, &["run", "small.toml", "--sign", "small.toml"]).0, 2, "that is no key");
    assert_eq!(output(at, &["run", "small.toml", "--sign", "key"]).0, 0);
    let run = runs(at).remove(0).display().to_string();
    let verified = |key: &str| output(at, &["lint", &run, "--verify", key.trim()]);
    let (status, stdout, stderr) = verified(&public);
    assert_eq!((status, stdout.contains("sealed to the end of the run")), (0, true), "{stdout}{stderr}");
    assert!(stdout.contains("does not show that the holder of the key ran the tests"), "{stdout}");
    assert_eq!((verified(&other).0, verified("abc").0), (1, 2));
    let db = rusqlite::Connection::open(format!("{run}/run.db")).expect("a database");
    db.execute("UPDATE verdict SET measured = 0, threshold = 1", []).expect("changed");
    let (status, stdout, _) = verified(&public);
    assert_eq!((status, stdout.contains("rows_changed")), (1, true), "{stdout}");
}

/// A flipped bit is found, named, and repaired into a copy; the file itself stays as it is.
#[test]
fn verify_finds_a_flipped_bit_and_repairs_a_copy() {
    let folder = folder("[[test]]\nkind = \"init\"\n");
    assert_eq!(output(folder.path(), &["run", "small.toml"]).0, 0);
    let path = folder.path().join("data/v/DB1/DB1.edb");
    let whole = std::fs::read(&path).expect("readable");
    let mut broken = whole.clone();
    broken[100 * 32768 + 5000] ^= 4;
    let bad = folder.path().join("bad.edb");
    std::fs::write(&bad, &broken).expect("writable");
    let (status, stdout, _) = output(folder.path(), &["verify", "bad.edb", "--repair-to", "good.edb"]);
    assert_eq!(status, 1, "{stdout}");
    assert!(stdout.contains("page 99: a single bit is flipped"), "{stdout}");
    assert_eq!(std::fs::read(&bad).expect("readable"), broken, "never in place");
    assert!(
        std::fs::read(folder.path().join("good.edb")).expect("readable") == whole,
        "the copy is repaired"
    );
    let (status, _, stderr) = output(folder.path(), &["verify", "bad.edb", "--repair-to", "good.edb"]);
    assert_eq!(status, 2, "an existing file is never overwritten: {stderr}");
    std::fs::write(&bad, &whole[..whole.len() / 2 / 32768 * 32768]).expect("writable");
    let (status, stdout, _) = output(folder.path(), &["verify", "bad.edb"]);
    assert_eq!(status, 1);
    assert!(stdout.contains("cut off"), "{stdout}");
    std::fs::write(&bad, vec![7; 100_000]).expect("writable");
    let (status, _, stderr) = output(folder.path(), &["verify", "bad.edb"]);
    assert_eq!(status, 2, "{stderr}");
}

/// Wrong input points at the line; folders that are not ours are refused and left alone.
#[test]
fn wrong_input_and_foreign_folders_are_refused_with_the_reason() {
    let folder = folder(ALL);
    let at = folder.path();
    let (status, _, stderr) = output(at, &["run", "nothing.toml"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("nothing.toml"), "{stderr}");

    std::fs::write(at.join("typo.toml"), small().replace("database_mib", "databas_mib")).expect("writable");
    let (status, _, stderr) = output(at, &["run", "typo.toml"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("databas_mib") && stderr.contains("did you mean"), "{stderr}");

    std::fs::create_dir_all(at.join("data/v")).expect("writable");
    std::fs::write(at.join("data/v/precious"), "x").expect("writable");
    let (status, _, stderr) = output(at, &["run", "small.toml"]);
    assert_eq!(status, 3);
    assert!(stderr.contains("was not made by proofload"), "{stderr}");
    assert_eq!(std::fs::read_dir(at.join("data/v")).expect("readable").count(), 1);
    assert!(runs(at).is_empty(), "nothing was started");

    let (status, _, stderr) = output(at, &["run", "small.toml", "--tests", "preformance"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("a similar value exists: 'performance'"), "{stderr}");

    std::fs::write(at.join("mine.toml"), "[drive.mine]\nrpm = 5400\n").expect("writable");
    let (status, _, stderr) = output(at, &["simulate", "small.toml", "--assumptions", "mine.toml"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("mine.toml") && stderr.contains("drive.mine.rpm must be"), "{stderr}");

    for sessions in ["0", "4097"] {
        let (status, _, stderr) = output(at, &["simulate", "small.toml", "--sessions", sessions]);
        assert_eq!((status, stderr.contains("1..=4096")), (2, true), "{stderr}");
    }
    let (status, _, stderr) =
        output(at, &["plan", "small.toml", "--search", "c.toml", "--scenario", "Site A"]);
    assert_eq!((status, stderr.contains("cannot be used with")), (2, true), "{stderr}");
}

/// A test that needs databases says so instead of making them.
#[test]
fn a_test_alone_needs_databases_that_exist() {
    let folder = folder(ALL);
    let (status, _, stderr) = output(folder.path(), &["run", "small.toml", "--tests", "performance"]);
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("run the test `init` first"), "{stderr}");
}

/// A dry run says everything and writes nothing.
#[test]
fn a_dry_run_writes_nothing() {
    let folder = folder(ALL);
    let (status, stdout, _) = output(folder.path(), &["run", "small.toml", "--dry-run"]);
    assert_eq!(status, 0);
    assert!(stdout.contains("in all at least"), "{stdout}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
}

/// Circular logging leaves as much log as the checkpoint depth needs, but no more than the tests can write.
#[test]
fn the_announced_need_knows_the_checkpoint_depth() {
    let need = |text: &str, tests: &str| {
        let folder = folder_with("small.toml", &format!("{text}\n{ALL}"));
        let (status, stdout, stderr) =
            output(folder.path(), &["run", "small.toml", "--dry-run", "--tests", tests]);
        assert_eq!(status, 0, "{stderr}");
        let whole = stdout.split("in all ").last().unwrap_or_default();
        whole
            .trim_start_matches("up to ")
            .trim_start_matches("at least ")
            .split(" of disk")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let deep = small().replace("[engine]", "[engine]\ncheckpoint_depth_mib = 256");
    // Two databases of 24 MiB with room to grow, and 64 logs each.
    assert_eq!(need(&small(), "init,performance"), "0.2 GiB");
    assert_eq!(need(&deep, "init,performance"), "0.8 GiB");
    assert_eq!(need(&deep, "init,backup"), "0.2 GiB");
    assert_eq!(need(&deep.replace("sessions = 4", "batches_per_s = 5"), "init,performance"), "0.2 GiB");
}

/// Each backup needs space on its target and each restore on its source; a repeated one needs no more.
#[test]
fn the_announced_need_knows_every_backup() {
    let two =
        "[[volume]]\nname = \"B{n}\"\ncount = 2\npath = \"data/b{n}\"\nrole = \"backup\"\n\n[[instance]]";
    let small = small().replace("[[instance]]", two).replace("database_mib = 24", "database_mib = 200");
    let need = |volumes: &[&str]| {
        let backup = |volume: &&str| {
            format!(
                "[[test]]\nkind = \"backup_to_disk\"\nvolume = \"{volume}\"\n[[test]]\nkind = \"restore\"\n"
            )
        };
        let tests: String = volumes.iter().map(backup).collect();
        let folder = folder_with("small.toml", &format!("{small}\n{tests}"));
        let (status, stdout, stderr) = output(folder.path(), &["run", "small.toml", "--dry-run"]);
        assert_eq!(status, 0, "{stderr}");
        ["b1", "b2"].map(|dir| {
            let line = stdout.lines().find(|line| line.contains(&format!("data/{dir}"))).unwrap_or_default();
            !line.contains(" 0.0 GiB")
        })
    };
    assert_eq!(need(&["B1"]), [true, false]);
    assert_eq!(need(&["B1", "B2"]), [true, true]);
    assert_eq!(need(&["B2", "B2"]), [false, true]);
}

/// A load without sessions needs a `tune` test before it. The program says so before it writes anything.
#[test]
fn a_load_that_nothing_finds_is_refused_at_once() {
    let folder = folder_with("small.toml", &format!("{}\n{ALL}", small().replace("sessions = 4", "")));
    for (command, tests, status) in [
        ("run", "performance", 2),
        ("run", "init,log_generation,soft_recovery", 2),
        ("simulate", "stress,performance", 2),
        ("run", "init,tune,performance", 0),
        ("run", "init,backup", 0),
    ] {
        let mut arguments = vec![command, "small.toml", "--tests", tests];
        arguments.extend((command == "run").then_some("--dry-run"));
        let (found, _, stderr) = output(folder.path(), &arguments);
        assert_eq!(found, status, "{tests}: {stderr}");
        assert_eq!(stderr.contains("no test `tune`"), status == 2, "{tests}: {stderr}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
}

/// SIGINT ends the load, closes the databases and keeps the evidence; a SIGKILL keeps it up to the last second.
#[test]
fn an_interrupted_run_keeps_its_evidence_and_leaves_clean_databases() {
    let folder = folder(
        "[[test]]\nkind = \"init\"\n[[test]]\nkind = \"performance\"\nduration_s = 600\nwarmup_limit_s = 1\n",
    );
    for (signal, status) in [(libc::SIGINT, Some(4)), (libc::SIGKILL, None)] {
        let mut child = proofload(folder.path(), &["run", "small.toml"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = stderr.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("[ 2/2] Performance")), "the load has not begun");
        // What is recorded is kept within a second.
        std::thread::sleep(std::time::Duration::from_secs(2));
        // SAFETY: the process is our own child and has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        // What it still says must not block it.
        lines.for_each(drop);
        assert_eq!(child.wait().expect("it ends").code(), status);
        let run = runs(folder.path()).pop().expect("a run folder");
        let (code, _, stderr) = output(folder.path(), &["report", &run.to_string_lossy()]);
        assert_eq!(code, 0, "{stderr}");
        lint_newest_run(folder.path());
        let report = std::fs::read_to_string(run.join("report.html")).expect("rendered");
        assert!(report.contains("Performance"), "the test that was cut short is in the report");
        if signal == libc::SIGINT {
            assert_eq!(output(folder.path(), &["verify", "data/v/DB1/DB1.edb"]).0, 0);
        }
    }
    // After the kill the databases recover.
    let (status, stdout, stderr) = output(folder.path(), &["run", "small.toml", "--tests", "init"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
}

/// Planning is arithmetic: it needs no disk, prints data on stdout, and every published solution plans cleanly.
#[test]
fn every_shipped_solution_plans() {
    let folder = folder("");
    let solutions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../solutions");
    let mut planned = 0;
    for entry in std::fs::read_dir(solutions).expect("solutions are shipped") {
        let path = entry.expect("readable").path();
        if path.file_stem().is_some_and(|stem| stem == "catalogue") {
            continue;
        }
        let (status, stdout, stderr) = output(folder.path(), &["plan", &path.to_string_lossy()]);
        assert_eq!(status, 0, "{}: {stdout}{stderr}", path.display());
        assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{}", path.display());
        let (status, json, _) = output(folder.path(), &["plan", &path.to_string_lossy(), "--json"]);
        assert_eq!(status, 0);
        serde_json::from_str::<serde_json::Value>(&json).expect("stdout is data");
        planned += 1;
    }
    assert_eq!(planned, 7);
}

/// The change to the targets is shown first and made only when asked for.
#[test]
fn targets_are_written_only_with_yes() {
    let folder = folder("");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../solutions/dell-md3260-15000.toml");
    let text = std::fs::read_to_string(shipped).expect("shipped");
    let changed = text.replace("target_iops", "# target_iops");
    std::fs::write(folder.path().join("s.toml"), &changed).expect("writable");
    let (_, stdout, stderr) = output(folder.path(), &["plan", "s.toml", "--write-targets"]);
    assert!(stdout.contains("target_iops"), "{stdout}{stderr}");
    let after = || std::fs::read_to_string(folder.path().join("s.toml")).expect("readable");
    assert_eq!(after(), changed);
    output(folder.path(), &["plan", "s.toml", "--write-targets", "--yes"]);
    assert!(after().lines().any(|line| line.starts_with("target_iops")), "{}", after());
}
