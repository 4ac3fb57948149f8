//! `proofload crash-test` at the command line: what a killed writer leaves is held against what the listener heard.
#![allow(clippy::disallowed_methods, reason = "drives the binary from outside")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn proofload() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proofload"));
    command.arg("crash-test");
    command
}

/// Waits for a line on stderr that contains `text`.
fn wait_for(child: &mut Child, text: &str) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without saying {text:?}");
    }
    lines
}

fn verify(folder: &Path, notes: &Path) -> Output {
    let mut command = proofload();
    command.arg("verify").arg(folder).arg("--notes").arg(notes).output().unwrap()
}

fn verify_buffered(folder: &Path, notes: &Path) -> Output {
    let mut command = proofload();
    command.args(["verify", "--buffered"]).arg(folder).arg("--notes").arg(notes).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// JSON answer of a command, checked against the schema that `proofload schema NAME` prints.
fn answer_of(schema: &str, output: &Output) -> serde_json::Value {
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    let schema = Command::new(env!("CARGO_BIN_EXE_proofload")).args(["schema", schema]).output().unwrap();
    let schema = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(jsonschema::is_valid(&schema, &answer), "{answer}");
    answer
}

#[test]
fn a_writer_that_ends_without_a_crash_says_so_as_json() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut listener = proofload()
        .args(["listen", "--address", &address, "--out"])
        .arg(dir.path().join("notes.json"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listener_lines = wait_for(&mut listener, "listening on");
    let mut writer = proofload()
        .args(["write", "--json", "--listener", &address, "--sessions", "4", "--size-mib", "16"])
        .arg(dir.path().join("disk"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writer_lines = wait_for(&mut writer, "durable commits");
    let interrupt = Command::new("kill").args(["-INT", &writer.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let ended = writer.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended.stdout));
    assert!(answer_of("crash-test-write", &ended)["durable_commits"].as_u64() > Some(0));
    drop(writer_lines);
    assert!(listener.wait().unwrap().success());
    drop(listener_lines);
}

#[test]
fn a_killed_writer_is_held_to_what_the_witness_heard() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (folder, notes) = (dir.path().join("disk"), dir.path().join("notes.json"));
    // A free port: taken and given back.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut listener = proofload()
        .args(["listen", "--json", "--address", &address, "--out"])
        .arg(&notes)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listener_lines = wait_for(&mut listener, "listening on");
    let mut writer = proofload()
        .arg("write")
        .arg(&folder)
        .args(["--listener", &address, "--sessions", "4", "--size-mib", "16"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writer_lines = wait_for(&mut writer, "durable commits");
    writer.kill().unwrap();
    writer.wait().unwrap();
    drop(writer_lines);
    let heard = listener.wait_with_output().unwrap();
    assert!(heard.status.success(), "the listener ends when the writer is gone");
    assert!(answer_of("crash-test-listen", &heard)["durable_commits"].as_u64() > Some(0));
    drop(listener_lines);

    let kept = verify(&folder, &notes);
    assert_eq!(kept.status.code(), Some(0), "{}{}", text(&kept.stdout), text(&kept.stderr));
    assert!(text(&kept.stdout).contains("KEPT: everything"), "{}", text(&kept.stdout));

    let mut as_json = proofload();
    as_json.args(["verify", "--json"]).arg(&folder).arg("--notes").arg(&notes);
    let answer = answer_of("crash-test", &as_json.output().unwrap());
    assert_eq!(answer["kept"], true, "{answer}");

    let kept = verify_buffered(&folder, &notes);
    assert_eq!(kept.status.code(), Some(0), "through the page cache: {}", text(&kept.stderr));

    // A listener that heard of commits which no disk has.
    let heard = std::fs::read_to_string(&notes).unwrap();
    let mut claims: serde_json::Value = serde_json::from_str(&heard).unwrap();
    // Any session that it has heard of: the writer may have died behind its first commit.
    let (session, last) = claims["sessions"].as_object_mut().unwrap().iter_mut().next().unwrap();
    let session = session.clone();
    *last = (last.as_u64().unwrap() + 1_000_000).into();
    let claimed = dir.path().join("claimed.json");
    std::fs::write(&claimed, claims.to_string()).unwrap();
    let lost = verify(&folder, &claimed);
    assert_eq!(lost.status.code(), Some(1), "{}{}", text(&lost.stdout), text(&lost.stderr));
    assert!(text(&lost.stdout).contains(&format!("session {session}: commits")), "{}", text(&lost.stdout));
    assert!(text(&lost.stdout).contains("NOT KEPT"), "{}", text(&lost.stdout));

    claims["run"] = "00000000deadbeef".into();
    std::fs::write(&claimed, claims.to_string()).unwrap();
    assert_eq!(verify(&folder, &claimed).status.code(), Some(2), "notes of another run");
    std::fs::write(&claimed, "{").unwrap();
    assert_eq!(verify(&folder, &claimed).status.code(), Some(2), "no notes at all");
    assert_eq!(verify(dir.path(), &notes).status.code(), Some(2), "no folder of a crash test");

    let again = proofload().arg("write").arg(&folder).args(["--listener", &address]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "a folder that exists is left alone: {}", text(&again.stderr));
    let again = proofload().args(["listen", "--address", &address, "--out"]).arg(&notes).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "notes that exist are left alone: {}", text(&again.stderr));
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), heard);
}

#[test]
fn notes_of_another_version_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes.json");
    // What the next version keeps is not known here: it need not have these fields.
    for fields in [r#""run": "01", "sessions": {"0": 1}"#, r#""commits": 1"#] {
        std::fs::write(&notes, format!(r#"{{"version": 2, {fields}}}"#)).unwrap();
        let refused = verify(&dir.path().join("disk"), &notes);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains("notes.json: it has version 2; this program reads version 1"), "{told}");
        assert!(told.contains("verify with the proofload that wrote the notes"), "{told}");
    }
}
