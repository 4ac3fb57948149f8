//! `--pdf`: only with the cargo feature `pdf`, and where a browser is installed.
#![cfg(feature = "pdf")]
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::path::Path;
use std::process::Command;
use testkit::synthetic;

use results::Recorder;

fn proofload(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_proofload"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// How many pages a PDF says it has.
fn pages(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("a file");
    assert!(bytes.starts_with(b"%PDF-"), "{}", path.display());
    let text = String::from_utf8_lossy(&bytes);
    text.matches("/Type /Page\n").count()
        + text.matches("/Type /Page\r").count()
        + text.matches("/Type /Page/").count()
}

#[test]
fn a_report_and_a_paper_are_printed_with_a_page_for_each_test_at_least() {
    let place = tempfile::tempdir().expect("a folder");
    let run = place.path().join("run # 1");
    std::fs::create_dir(&run).expect("writable");
    let mut store = evidence::RunStore::create(&run.join("run.db")).expect("a store");
    synthetic::record(&synthetic::Shape::default(), &mut store).expect("recorded");
    store.flush().expect("kept");
    store.close().expect("closed");
    if !testkit::has_tool("chromium", &["--version"], "sudo apt-get install -y chromium") {
        let (status, stderr) = proofload(place.path(), &["report", "run # 1", "--pdf"]);
        assert_eq!((status, stderr.contains("install one of")), (3, true), "{stderr}");
        return;
    }
    let (status, stderr) = proofload(place.path(), &["report", "run # 1", "--pdf"]);
    assert_eq!((status, stderr.contains("report.pdf")), (0, true), "{stderr}");
    assert!(pages(&run.join("report.pdf")) >= 10, "ten tests, each from a page of its own on");
    let laptop = include_str!("../../../../solutions/laptop.toml");
    let text = laptop.replacen("name = \"Laptop\"", "name = \"Synthetic run of 4 databases\"", 1);
    std::fs::write(place.path().join("s.toml"), text).expect("writable");
    let (status, stderr) =
        proofload(place.path(), &["paper", "s.toml", "run # 1", "--out", "paper", "--pdf"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(pages(&place.path().join("paper/paper.pdf")) >= 4, "long sections begin a page");
    let (status, stderr) =
        proofload(place.path(), &["paper", "s.toml", "run # 1", "--out", "paper", "--pdf"]);
    assert_eq!(status, 0, "the folder of a paper can be written again: {stderr}");
}
