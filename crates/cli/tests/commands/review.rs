//! lint, compare, import and paper, as a user calls them: exit status, stdout, files.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::synthetic;

use evidence::{Report, RunStore, load};
use results::{Recorder, Row};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Exit status, stdout, stderr.
fn proofload(arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_proofload")).args(arguments).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit status"), text(&output.stdout), text(&output.stderr))
}

fn run_folder(folder: &Path, shape: &synthetic::Shape) -> String {
    std::fs::create_dir(folder).expect("a new folder");
    let mut store = RunStore::create(&folder.join("run.db")).expect("a store");
    synthetic::record(shape, &mut store).expect("recorded");
    store.flush().expect("kept");
    store.close().expect("closed");
    Report::new(&load(&folder.join("run.db")).expect("rows"))
        .expect("a report")
        .write(folder)
        .expect("written");
    folder.display().to_string()
}

#[test]
fn lint_says_what_disagrees_and_its_status_says_whether_something_does() {
    let place = tempfile::tempdir().expect("a folder");
    let clean = run_folder(&place.path().join("clean"), &synthetic::Shape::default());
    let (status, stdout, _) = proofload(&["lint", &clean]);
    assert_eq!((status, stdout.contains("nothing found")), (0, true), "{stdout}");
    let paper = project("published/nimble-cs700-100000.toml").display().to_string();
    let (status, stdout, stderr) = proofload(&["lint", &clean, &paper, "--json"]);
    assert_eq!(status, 1, "{stderr}");
    let json: serde_json::Value = serde_json::from_str(&stdout).expect("stdout is data");
    assert_eq!(json["evidence"][0]["findings"].as_array().map(Vec::len), Some(0));
    assert!(
        json["evidence"][1]["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|finding| finding["rule"] == "host_mixup")
    );
    let report = format!("{clean}/report.json");
    let changed =
        std::fs::read_to_string(&report).expect("readable").replacen("\"count\": ", "\"count\": 1", 1);
    std::fs::write(&report, changed).expect("writable");
    let (status, stdout, _) = proofload(&["lint", &clean]);
    assert_eq!((status, stdout.contains("report_differs")), (1, true), "{stdout}");
    let (status, _, stderr) = proofload(&["lint", &project("solutions/laptop.toml").display().to_string()]);
    assert_eq!((status, stderr.contains("schema_version")), (2, true), "{stderr}");
    let (status, stdout, _) = proofload(&["lint", "--rules"]);
    assert_eq!((status, stdout.contains("maintenance_counted")), (0, true));
}

/// A terminal obeys what begins with an escape: nothing that evidence says may reach it as it is.
/// The journals of a drill and the logs of a fleet are evidence, and a seal of run.db says nothing of them.
#[test]
fn lint_names_the_files_of_a_run_that_no_seal_covers() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_folder(&folder.path().join("run"), &synthetic::Shape::default());
    assert!(!proofload(&["lint", &run]).1.contains("no seal covers"));
    let journals = Path::new(&run).join("hosts/h1");
    std::fs::create_dir_all(&journals).unwrap();
    std::fs::write(journals.join("journal.jsonl"), "{}\n").unwrap();
    let (status, stdout, _) = proofload(&["lint", &run]);
    assert_eq!((status, stdout.contains("no seal covers hosts/h1/journal.jsonl")), (0, true), "{stdout}");
}

#[test]
fn evidence_cannot_act_on_the_terminal() {
    let place = tempfile::tempdir().expect("a folder");
    let shape = |fails| synthetic::Shape {
        hostile: "\u{1b}]0;mine\u{7}\u{1b}[2J\u{9b}31m",
        window_s: 60,
        fails,
        ..Default::default()
    };
    let base = run_folder(&place.path().join("a"), &shape(false));
    let slow = run_folder(&place.path().join("b"), &shape(true));
    let report = std::path::Path::new(&base).join("report.json");
    let changed =
        std::fs::read_to_string(&report).expect("readable").replacen("\"count\": ", "\"count\": 1", 1);
    std::fs::write(&report, changed).expect("writable");
    let solution = place.path().join("s.toml");
    std::fs::write(&solution, "[solution]\nname = \"x\"\nschema = 1\nno\u{9b}31m = \"\u{1b}[2J\"\n")
        .expect("writable");
    let solution = solution.display().to_string();
    for arguments in [
        vec!["lint", &base, &slow],
        vec!["compare", &base, &slow, "--fail-above", "5"],
        vec!["plan", &solution],
        vec!["paper", &solution, &base],
        vec!["sql", &base],
    ] {
        let (_, stdout, stderr) = proofload(&arguments);
        let told = stdout + &stderr;
        assert!(!told.is_empty() && !told.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{arguments:?}: {told:?}");
    }
    let (status, stdout, _) = proofload(&["lint", &base, "--json"]);
    assert_eq!((status, stdout.contains('\u{1b}')), (1, false), "JSON escapes them");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = tempfile::tempdir().expect("a folder");
    let run = run_folder(&place.path().join("run"), &synthetic::Shape::default());
    for arguments in [
        vec!["report", &run, "--json"],
        vec!["schema", "report"],
        vec!["sql", &run, "SELECT * FROM sample, test"],
        vec!["lint", "--rules"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_proofload"))
            .args(&arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(0) && !told.contains("panicked"), "{arguments:?}: {told}");
    }
}

#[test]
fn published_figures_are_imported_reported_compared_and_linted_like_a_run() {
    let place = tempfile::tempdir().expect("a folder");
    let out = place.path().join("md3260").display().to_string();
    let paper = project("published/dell-md3260-15000.toml").display().to_string();
    let (status, _, stderr) = proofload(&["import", &paper, "--out", &out]);
    assert_eq!(status, 0, "{stderr}");
    for file in ["run.db", "report.html", "report.json", "evidence.toml"] {
        assert!(Path::new(&out).join(file).is_file(), "{file}");
    }
    let (status, _, stderr) = proofload(&["import", &paper, "--out", &out]);
    assert_eq!((status, stderr.contains("exists already")), (2, true), "{stderr}");
    let named = place.path().join("named").display().to_string();
    for (folder, arguments, title) in [
        (&out, vec![], "Dell PowerVault MD3260"),
        (&named, vec!["import", &paper, "--out", &named, "--title", "My title"], "My title"),
    ] {
        assert!(arguments.is_empty() || proofload(&arguments).0 == 0);
        let (status, stdout, _) = proofload(&["sql", folder, "SELECT solution FROM run"]);
        assert!(status == 0 && stdout.contains(title), "{stdout}");
    }
    assert_eq!(proofload(&["report", &out]).0, 0);
    let (status, stdout, _) = proofload(&["lint", &out]);
    assert_eq!((status, stdout.contains("stress_as_performance")), (1, true), "{stdout}");
    let page = place.path().join("c.html").display().to_string();
    let (status, stdout, stderr) =
        proofload(&["compare", &paper, &out, "--html", &page, "--fail-above", "1"]);
    assert_eq!((status, stdout.contains("Transactional I/O")), (0, true), "{stdout}{stderr}");
    assert!(Path::new(&page).is_file());
    let other = project("published/emc-cx3-20c-500.toml").display().to_string();
    let (status, stdout, stderr) = proofload(&["compare", &paper, &other, "--fail-above", "5"]);
    assert_eq!((status, stdout.contains("page sizes")), (2, true), "{stderr}");
}

#[test]
fn a_regression_beyond_the_limit_fails() {
    let place = tempfile::tempdir().expect("a folder");
    let base = run_folder(&place.path().join("a"), &synthetic::Shape { window_s: 60, ..Default::default() });
    let slow = run_folder(
        &place.path().join("b"),
        &synthetic::Shape { window_s: 60, fails: true, ..Default::default() },
    );
    assert_eq!(proofload(&["compare", &base, &base, "--fail-above", "0"]).0, 0);
    let (status, _, stderr) = proofload(&["compare", &base, &slow, "--fail-above", "20"]);
    assert_eq!((status, stderr.contains("Read latency")), (1, true), "{stderr}");
    // No figure is not worse because nothing could be told.
    let shape = synthetic::Shape { window_s: 10, fails: true, ..Default::default() };
    let short = run_folder(&place.path().join("c"), &shape);
    let (status, stdout, stderr) = proofload(&["compare", &base, &short, "--fail-above", "20"]);
    assert_eq!((status, stderr.contains("no figure of")), (1, true), "{stdout}{stderr}");
}

/// The baseline's test without one of the run: an `--tests init`, or a run that came to its end before it.
#[test]
fn a_run_without_a_figure_of_the_baseline_is_not_judged() {
    let place = tempfile::tempdir().expect("a folder");
    let shape = synthetic::Shape { window_s: 60, ..Default::default() };
    let base = run_folder(&place.path().join("a"), &shape);
    let mut rows: Vec<Row> = Vec::new();
    synthetic::record(&shape, &mut rows).expect("recorded");
    let (of_performance, of_p99) = (
        |row: &Row| match row {
            Row::Test(row) => row.ordinal == 3,
            Row::Sample(row) => row.test == 3,
            Row::CounterSample(row) => row.test == 3,
            Row::Histogram(row) => row.test == 3,
            Row::DatabaseSize(row) => row.test == 3,
            Row::Verdict(row) => row.test == Some(3),
            Row::Event(row) => row.test == Some(3),
            _ => false,
        },
        |row: &Row| matches!(row, Row::Histogram(row) if row.test == 3),
    );
    let without = |name: &str, left_out: &dyn Fn(&Row) -> bool| {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).expect("a new folder");
        let mut store = RunStore::create(&folder.join("run.db")).expect("a store");
        let kept = rows.iter().filter(|row| !left_out(row));
        kept.for_each(|row| store.record(row.clone()).expect("recorded"));
        store.close().expect("closed");
        folder.display().to_string()
    };
    let absent = without("absent", &of_performance);
    let (status, stdout, stderr) = proofload(&["compare", &base, &absent, "--fail-above", "5"]);
    assert_eq!((status, stderr.contains("no Performance to judge")), (1, true), "{stderr}");
    assert!(stdout.contains("Transactional I/O"), "the comparison is shown all the same");
    let coarse = without("coarse", &of_p99);
    let (status, _, stderr) = proofload(&["compare", &base, &coarse, "--fail-above", "5"]);
    assert_eq!((status, stderr.contains("no Read latency, p99 of Performance")), (1, true), "{stderr}");
    // What the baseline does not have is not asked for, nor is anything without a limit.
    assert_eq!(proofload(&["compare", &absent, &base, "--fail-above", "5"]).0, 0);
    assert_eq!(proofload(&["compare", &base, &absent]).0, 0);
}

#[test]
fn files_of_others_are_refused_in_words_and_a_configuration_is_imported() {
    let place = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).expect("writable");
        path.display().to_string()
    };
    let out = place.path().join("out").display().to_string();
    let (status, _, stderr) =
        proofload(&["import", &file("a.html", "<html><body>holiday</body></html>"), "--out", &out]);
    assert_eq!((status, stderr.contains("no report")), (2, true), "{stderr}");
    assert!(!Path::new(&out).exists(), "nothing is left of an import that failed");
    let config = "<configuration><TestDesignInfo><Type>Performance</Type></TestDesignInfo><ExchangeProfile><MailboxCount>10\
        </MailboxCount><MailboxQuota>64</MailboxQuota><MailboxIops>0.1</MailboxIops><EseInstances><EseInstance><DatabasePaths><Path>F:\\DB</Path></DatabasePaths>\
        </EseInstance></EseInstances></ExchangeProfile></configuration>";
    let (first, second) = (file("c.xml", config), file("d.xml", &config.replace("10", "20")));
    let (status, _, stderr) = proofload(&["import", &first, &second, "--out", &out]);
    assert_eq!((status, stderr.contains("d.xml is a second configuration")), (2, true), "{stderr}");
    let (status, _, stderr) = proofload(&["import", &first, "--out", &out]);
    assert_eq!((status, Path::new(&out).join("solution.toml").is_file()), (0, true), "{stderr}");
    let (status, stdout, stderr) = proofload(&["plan", &format!("{out}/solution.toml")]);
    assert_eq!((status, stdout.contains("0.1000 I/O per second and mailbox")), (0, true), "{stdout}{stderr}");
}

/// Each reader checks the seals itself: with rows changed from failed to passed, and with the seals removed as well.
#[test]
fn every_reader_says_first_that_rows_differ_from_their_seals() {
    let place = tempfile::tempdir().expect("a folder");
    let solution = synthetic_solution(place.path());
    let base = run_folder(&place.path().join("base"), &synthetic::Shape::default());
    let shape = synthetic::Shape { fails: true, ..Default::default() };
    for (name, sql, says) in [
        ("changed", "UPDATE verdict SET outcome = 'pass'", "rows differ from their seals"),
        ("dropped", "UPDATE verdict SET outcome = 'pass'; DROP TABLE seal", "seals are missing or changed"),
    ] {
        let run = run_folder(&place.path().join(name), &shape);
        let db = rusqlite::Connection::open(Path::new(&run).join("run.db")).expect("a file");
        db.execute_batch(sql).expect("changed");
        drop(db);
        let out = place.path().join("paper").display().to_string();
        for (arguments, status) in [
            (vec!["paper", &solution, &run, "--out", &out], 2),
            (vec!["compare", &base, &run], 0),
            (vec!["compare", &base, &run, "--fail-above", "5"], 1),
            (vec!["report", &run], 1),
            (vec!["report", &run, "--json"], 1),
            (vec!["sql", &run, "SELECT count(*) FROM verdict"], 0),
            (vec!["lint", &run], 1),
        ] {
            let (ended, stdout, stderr) = proofload(&arguments);
            let told = format!("{stderr}{stdout}");
            assert_eq!(ended, status, "{arguments:?}: {told}");
            assert!(told.contains(says) || arguments[0] == "lint", "{arguments:?}: {told}");
        }
        assert!(!Path::new(&out).exists(), "no paper of {name}");
        let page = std::fs::read_to_string(Path::new(&run).join("report.html")).expect("written");
        assert!(page.contains("The rows differ from their seals"), "{name}");
        let listed = evidence::listing::list(place.path(), &mut Default::default()).expect("readable");
        let entry = listed.into_iter().find(|entry| entry.id == name).expect("listed");
        assert_eq!(entry.standing, evidence::listing::Standing::Incomplete, "{entry:?}");
        assert!(entry.note.starts_with(says), "{entry:?}");
    }
}

/// Checks an attestation with a program that others wrote: securesystemslib of PyPI. Prints its statement.
const VERIFY: &str = "
import hashlib, json, pathlib, sys
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
folder, public = pathlib.Path(sys.argv[1]), sys.argv[2]
envelope = Envelope.from_dict(json.loads((folder / 'attestation.json').read_text()))
envelope.verify([SSlibKey(public, 'ed25519', 'ed25519', {'public': public})], 1)
assert envelope.payload_type == 'application/vnd.in-toto+json'
statement = json.loads(envelope.payload)
for subject in statement['subject']:
    digest = hashlib.sha256((folder / subject['name']).read_bytes()).hexdigest()
    assert subject['digest']['sha256'] == digest, subject
json.dump(statement, sys.stdout)
";

#[test]
fn attestation_is_verified_by_a_program_of_others_and_states_the_claim_word_for_word() {
    let install = "python3 -m pip install 'securesystemslib[crypto]'";
    if !testkit::has_tool("python3", &["-c", "import cryptography, securesystemslib"], install) {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let key = place.path().join("key").display().to_string();
    let (status, public, stderr) = proofload(&["lint", "--new-key", &key]);
    assert_eq!(status, 0, "{stderr}");
    let public = public.trim().to_owned();
    let shape = synthetic::Shape { fails: true, ..Default::default() };
    let run = run_folder(&place.path().join("run"), &shape);
    let (status, _, stderr) = proofload(&["report", &run, "--sign", &key]);
    assert!(status == 0 && !stderr.contains("warning"), "{stderr}");
    let verify = |public: &str| {
        let output =
            Command::new("python3").args(["-c", VERIFY, &run, public]).output().expect("python3 runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_verified, statement) = verify(&public);
    assert!(is_verified, "{statement}");
    let statement: serde_json::Value = serde_json::from_str(&statement).expect("JSON");
    let report = std::fs::read_to_string(Path::new(&run).join("report.json")).expect("written");
    let report = Report::read(&report).expect("a report");
    assert_eq!(statement["predicate"]["claim"], report.verdict.headline.as_str());
    assert_eq!(statement["predicate"]["result"], "FAILED");
    let failed = &statement["predicate"]["failedTests"];
    assert!(failed.as_array().is_some_and(|tests| tests.contains(&"Stress".into())), "{statement}");
    let names: Vec<&str> = statement["subject"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["run.db", "report.json", "report.html"]);
    assert_eq!(proofload(&["lint", &run]).0, 0);

    // Another key, a changed file and a changed statement are refused.
    assert!(!verify(&"0".repeat(64)).0);
    let page = Path::new(&run).join("report.html");
    let text = std::fs::read_to_string(&page).expect("written");
    std::fs::write(&page, format!("{text} ")).expect("writable");
    assert!(!verify(&public).0, "another page");
    assert!(proofload(&["lint", &run]).1.contains("attestation"), "lint finds it, too");
    std::fs::write(&page, text).expect("writable");
    let file = Path::new(&run).join("attestation.json");
    let text = std::fs::read_to_string(&file).expect("written");
    let mut envelope: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let payload = envelope["payload"].as_str().expect("text").to_owned();
    let other = if &payload[400..401] == "A" { "B" } else { "A" };
    envelope["payload"] = format!("{}{other}{}", &payload[..400], &payload[401..]).into();
    std::fs::write(&file, envelope.to_string()).expect("writable");
    assert!(!verify(&public).0, "another statement");
    assert!(proofload(&["lint", &run]).1.contains("its signature does not fit"));

    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("ours");
    let (_, _, stderr) = proofload(&["report", &run, "--sign", &key]);
    assert!(stderr.contains("other users can read the key"), "{stderr}");
}

/// A solution file that names the synthetic runs.
fn synthetic_solution(folder: &Path) -> String {
    let solution = folder.join("s.toml");
    let text = std::fs::read_to_string(project("solutions/lenovo-hx7510-30000.toml")).expect("shipped");
    let line = text.lines().find(|line| line.starts_with("name = ")).expect("a name");
    std::fs::write(&solution, text.replacen(line, "name = \"Synthetic run of 4 databases\"", 1))
        .expect("writable");
    solution.display().to_string()
}

#[test]
fn the_paper_is_written_once_for_measured_runs_and_refuses_simulated_ones() {
    let place = tempfile::tempdir().expect("a folder");
    let solution = synthetic_solution(place.path());
    let run = run_folder(&place.path().join("run"), &synthetic::Shape::default());
    let out = place.path().join("paper").display().to_string();
    let (status, _, stderr) = proofload(&["paper", &solution, &run, "--out", &out]);
    assert_eq!(status, 0, "{stderr}");
    let files = ["paper.html", "paper.md", "appendix-1.html"].map(|file| Path::new(&out).join(file));
    let read = || files.each_ref().map(|file| std::fs::read_to_string(file).expect("written"));
    let written = read();
    assert_eq!(proofload(&["paper", &solution, &run, "--out", &out]).0, 0, "what is there already");
    for (file, text) in files.iter().zip(&written) {
        let by_hand = format!("{text}\nWritten by the author.\n");
        std::fs::write(file, &by_hand).expect("writable");
        let changed = read();
        let (status, _, stderr) = proofload(&["paper", &solution, &run, "--out", &out]);
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(status == 2 && stderr.contains(&name) && stderr.contains("--overwrite"), "{status} {stderr}");
        assert_eq!(read(), changed, "nothing is written then");
        let (status, _, stderr) = proofload(&["paper", &solution, &run, "--out", &out, "--overwrite"]);
        assert_eq!((status, read() == written), (0, true), "{stderr}");
    }
    let world = results::WorldKind::Simulated;
    let simulated = run_folder(&place.path().join("sim"), &synthetic::Shape { world, ..Default::default() });
    let (status, _, stderr) = proofload(&["paper", &solution, &simulated, "--out", &out]);
    assert_eq!((status, stderr.contains("--simulated")), (2, true), "{stderr}");
    let other = place.path().join("predicted").display().to_string();
    assert_eq!(proofload(&["paper", &solution, &simulated, "--out", &other, "--simulated"]).0, 0);
}
