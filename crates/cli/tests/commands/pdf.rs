//! `--pdf`: only with the cargo feature `pdf`, and where a browser is installed.
#![cfg(feature = "pdf")]
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::path::Path;
use std::process::Command;
use testkit::synthetic;
use testkit::synthetic::Shape;

use results::Recorder;

fn proofload(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_proofload"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Number of pages of a PDF.
fn pages(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("a file");
    assert!(bytes.starts_with(b"%PDF-"), "{}", path.display());
    let text = String::from_utf8_lossy(&bytes);
    text.matches("/Type /Page\n").count()
        + text.matches("/Type /Page\r").count()
        + text.matches("/Type /Page/").count()
}

/// Records a synthetic run in a new folder.
fn recorded(run: &Path, shape: &Shape) {
    std::fs::create_dir(run).expect("writable");
    let mut store = evidence::RunStore::create(&run.join("run.db")).expect("a store");
    synthetic::record(shape, &mut store).expect("recorded");
    store.flush().expect("kept");
    store.close().expect("closed");
}

fn has_browser() -> bool {
    testkit::has_tool("chromium", &["--version"], "sudo apt-get install -y chromium")
}

#[test]
fn report_of_a_run_that_passed_prints_on_eight_pages_and_of_one_that_failed_with_what_failed() {
    let place = tempfile::tempdir().expect("a folder");
    recorded(&place.path().join("run # 1"), &Shape::default());
    recorded(&place.path().join("failed"), &Shape { fails: true, ..Shape::default() });
    let print = |run: &str| proofload(place.path(), &["report", run, "--pdf"]);
    if !has_browser() {
        let (status, stderr) = print("run # 1");
        assert_eq!((status, stderr.contains("install one of")), (3, true), "{stderr}");
        return;
    }
    for run in ["run # 1", "failed"] {
        let (status, stderr) = print(run);
        assert_eq!((status, stderr.contains("report.pdf")), (0, true), "{stderr}");
    }
    let [passed, failed] = ["run # 1", "failed"].map(|run| pages(&place.path().join(run).join("report.pdf")));
    assert!((3..=8).contains(&passed), "{passed} pages");
    assert!(failed > passed, "what failed is open: {failed} pages");
}

#[test]
fn paper_is_printed_and_its_folder_can_be_written_again() {
    let place = tempfile::tempdir().expect("a folder");
    recorded(&place.path().join("run # 1"), &Shape::default());
    if !has_browser() {
        return;
    }
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
