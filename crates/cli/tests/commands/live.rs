//! The live views: the whole terminal, and web pages in a real browser.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{lint_newest_run, output, proofload, small_deployment};
use testkit::browser::{Visit, has_browser, shows};
use testkit::synthetic;
use testkit::synthetic::Shape;

fn folder(duration_s: u32) -> tempfile::TempDir {
    let tests = format!(
        "[[test]]\nkind = \"init\"\n[[test]]\nkind = \"performance\"\nwarmup_limit_s = 1\nduration_s = {duration_s}\n"
    );
    let folder = testkit::folder_in_memory();
    let text = small_deployment("Small <b>&", 24, 1) + &tests;
    std::fs::write(folder.path().join("small.toml"), text).expect("writable");
    folder
}

/// Ends a child that a failed assertion leaves behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program on a terminal of 100 columns and 30 rows, and prints what the terminal got.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn the_live_view_takes_the_terminal_and_gives_it_back() {
    if !testkit::has_python() {
        return;
    }
    let folder = folder(6);
    let output = Command::new("python3")
        .args([
            "-c",
            ON_A_TERMINAL,
            env!("CARGO_BIN_EXE_proofload"),
            "run",
            "small.toml",
            "--live",
            "--allow-memory",
        ])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code().is_some_and(|code| code < 2), "{text}");
    lint_newest_run(folder.path());
    let entered = text.find("\x1b[?1049h").expect("it takes the other screen");
    let left = text.rfind("\x1b[?1049l").expect("it gives it back");
    let (frames, after) = (&text[entered..left], &text[left..]);
    assert_eq!(text.matches("\x1b[?1049h").count(), text.matches("\x1b[?1049l").count());
    for shown in
        ["2/2 Performance", "measuring", "Read latency, ms", "limit 20.0", "DB1", "DB2", "Ctrl-C ends"]
    {
        assert!(frames.contains(shown), "{shown}: {frames}");
    }
    assert!(!frames.contains("Verdict") && after.contains("Verdict"), "the verdicts stay on the own screen");
}

/// A GET by hand; the head and the body.
fn get(address: &str, path: &str, host: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("writable");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("readable");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

fn serve(folder: &Path) -> (Running, String) {
    serve_of(folder, "runs")
}

fn serve_of(folder: &Path, served: &str) -> (Running, String) {
    let mut child = proofload(folder, &["serve", served, "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("it says where");
    let address =
        line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect(&line).to_owned();
    (Running(child), address)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < testkit::PATIENCE, "{what} never came");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// State of the page in the browser once `condition` holds. With `then`: runs a script after that, and waits for a
/// second condition.
fn in_browser(url: &str, width: u32, condition: &str, then: Option<(&str, &str)>) -> serde_json::Value {
    Visit { url, width, condition, steps: then.as_slice(), ..Visit::default() }.see()
}

/// First event that the server sends to the page of a run.
fn first_event(address: &str, id: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET /events/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("writable");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("readable"));
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).next();
    serde_json::from_str(&data.expect("an event")).expect("JSON")
}

#[test]
fn page_of_a_run_shows_the_grade_and_the_sentence_of_its_report_first() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    let runs = place.path().join("runs");
    let mut reports = Vec::new();
    for (name, words, shape) in [
        ("held", "LIMITS HELD", Shape::default()),
        ("failed", "FAILED", Shape { fails: true, ..Shape::default() }),
        ("killed", "INCOMPLETE", Shape { cut: true, ..Shape::default() }),
    ] {
        let folder = runs.join(name);
        std::fs::create_dir_all(&folder).expect("writable");
        let db = folder.join("run.db");
        let mut store = evidence::RunStore::create(&db).expect("a store");
        synthetic::record(&shape, &mut store).expect("recorded");
        store.close().expect("closed");
        let old = std::time::SystemTime::now() - Duration::from_secs(120);
        std::fs::File::options().write(true).open(&db).expect("it is there").set_modified(old).expect("ours");
        let report = evidence::Report::new(&evidence::load(&db).expect("rows")).expect("a report");
        reports.push((name, words, report.verdict));
    }
    let (_server, address) = serve(place.path());
    for (name, words, judged) in reports {
        let told = first_event(&address, name)["judgement"].clone();
        assert_eq!(told["grade"], serde_json::to_value(judged.grade).expect("a name"), "{name}");
        assert_eq!(told["outcome"], serde_json::to_value(judged.outcome).expect("a name"), "{name}");
        assert_eq!(told["headline"], judged.headline.as_str(), "{name}");
        if has_browser() {
            let url = format!("http://{address}/runs/{name}/");
            let page = in_browser(&url, 1440, &shows("Tests"), None);
            let text = page["text"].as_str().unwrap_or_default();
            let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
            assert!(at(&format!("{words} – {}", judged.headline)) < at("Synthetic run"), "{text}");
            let plain =
                ["PASS\n", "FAIL\n"].map(|plain| text.find(plain).is_some_and(|place| place < at(words)));
            assert_eq!(plain, [name == "qualified", name == "failed"], "{text}");
            assert_eq!(page["complaints"], serde_json::json!([]), "{name}");
        }
    }
}

#[test]
fn runs_that_are_ticked_are_compared_and_hostile_names_are_no_markup() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    for (name, shape) in [
        ("base run", Shape { window_s: 60, ..Shape::default() }),
        ("slow <img src=x onerror=alert(1)>&", Shape { window_s: 60, fails: true, ..Shape::default() }),
        ("other", Shape { window_s: 60, hostile: "</title><script>alert(2)</script>", ..Shape::default() }),
    ] {
        let folder = place.path().join("runs").join(name);
        std::fs::create_dir_all(&folder).expect("writable");
        let mut store = evidence::RunStore::create(&folder.join("run.db")).expect("a store");
        synthetic::record(&shape, &mut store).expect("recorded");
        store.close().expect("closed");
    }
    let (_server, address) = serve(place.path());
    let hostile = "run=slow%20%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%26&run=other";
    let (head, page) = get(&address, &format!("/compare?run=base+run&{hostile}"), "localhost");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("default-src 'none'"), "{head}");
    assert!(page.contains("class=\"line c2\"") && page.contains("slow &lt;img"), "three runs are overlaid");
    assert!(!page.contains("<img") && !page.contains("<script"), "text stays text");
    let (head, told) = get(&address, "/compare?run=other&run=unknown", "localhost");
    assert!(head.starts_with("HTTP/1.1 404") && told.contains("no such run"), "{head}{told}");
    if !has_browser() {
        return;
    }
    let choose = "document.querySelectorAll('input[type=checkbox]').forEach((box) => box.click());
                  document.querySelector('#comparison a').click()";
    let (listed, compared) = (shows("Tick two"), shows("Read latency, mean"));
    for width in [390, 1440] {
        let list = in_browser(&format!("http://{address}/"), width, &listed, None);
        assert!(list["text"].as_str().is_some_and(|text| text.contains("Tick two")), "{list}");
        assert_eq!(list["wider_px"], 0, "{width}");
        let page = in_browser(&format!("http://{address}/"), width, &listed, Some((choose, &compared)));
        let (url, text) =
            (page["url"].as_str().unwrap_or_default(), page["text"].as_str().unwrap_or_default());
        assert!(url.contains("/compare?run=") && text.contains("Read latency, mean"), "{url}: {text}");
        assert!(text.contains("How sure the differences are") && text.contains("slow <img"), "{text}");
        assert_eq!(page["complaints"], serde_json::json!([]), "{width}");
        assert_eq!(page["wider_px"], 0, "{width}: nothing hangs over the edge");
    }
}

#[test]
fn a_solution_file_opens_the_desk_on_a_loopback_address_alone() {
    let folder = folder(2);
    let (_server, address) = serve_of(folder.path(), "small.toml");
    let (head, page) = get(&address, "/", &address);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("script-src 'self'"), "{head}");
    assert!(page.contains("Proofload desk"), "{page}");
    assert!(get(&address, "/api/form", &address).1.contains("\"file\":\"small.toml\""));
    for (served, listen, expected) in [
        ("small.toml", "0.0.0.0:0", "a solution file is not served on 0.0.0.0:0"),
        ("missing.toml", "127.0.0.1:0", "missing.toml"),
    ] {
        let (status, _, stderr) = output(folder.path(), &["serve", served, "--listen", listen]);
        assert!(status == 2 && stderr.contains(expected), "{status} {stderr}");
    }
}

#[test]
fn a_running_run_is_served_live_and_hostile_names_are_no_markup() {
    let folder = folder(600);
    let mut run = proofload(folder.path(), &["run", "small.toml", "--live", "--allow-memory"]);
    run.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Running(run.spawn().expect("the program starts"));
    let runs = folder.path().join("runs");
    until("the folder of runs", || runs.is_dir().then_some(()));
    let (_server, address) = serve(folder.path());
    let metrics = until("the metrics of the load", || {
        let (head, body) = get(&address, "/metrics", "localhost");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
        body.contains("proofload_database_read_latency_seconds{").then_some(body)
    });
    assert!(metrics.contains("host=\"here\"") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(get(&address, "/", "evil.example").0.starts_with("HTTP/1.1 403"), "another name is refused");
    let id =
        std::fs::read_dir(&runs).expect("readable").next().expect("a run").expect("readable").file_name();
    let id = id.to_string_lossy().into_owned();
    let (head, report) = get(&address, &format!("/runs/{id}/report.html"), "127.0.0.1");
    assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    assert!(report.contains("Small &lt;b&gt;&amp;"), "a report is made although the run goes on");
    let judged = first_event(&address, &id)["judgement"].clone();
    assert_eq!((&judged["grade"], &judged["words"]), (&serde_json::Value::Null, &"not yet judged".into()));
    let reasons = judged["reasons"].to_string();
    assert!(reasons.contains("Missing: Performance has no target. Remedy: set target_iops"), "{reasons}");
    assert!(reasons.contains("Performance is to measure 10 min of 2 h"), "{reasons}");
    if has_browser() {
        for (path, shown) in [("/".to_owned(), "running"), (format!("/runs/{id}/"), "Read latency, ms")] {
            for width in [390, 1440] {
                let mut condition = shows(shown);
                if path != "/" {
                    condition += " && document.getElementById('link').dataset.updates > 1";
                }
                let page = in_browser(&format!("http://{address}{path}"), width, &condition, None);
                let text = page["text"].as_str().unwrap_or_default();
                assert!(text.contains(shown) && text.contains("Small <b>&"), "{path} {width}: {text}");
                assert_eq!(page["complaints"], serde_json::json!([]), "{path} {width}");
                assert_eq!(page["wider_px"], 0, "{path} {width}: nothing hangs over the edge");
                if path != "/" {
                    assert!(text.contains("NOT YET JUDGED – The run goes on: 1 limit kept"), "{text}");
                    let updates = page["updates"].as_u64();
                    assert!(updates > Some(1), "updates arrive without loading the page again: {updates:?}");
                }
            }
        }
    }
    run.0.kill().expect("it runs");
    let mut told = String::new();
    run.0.stderr.take().expect("piped").read_to_string(&mut told).expect("readable");
    assert!(told.contains("--live needs a terminal") && !told.contains("\x1b["), "{told}");
}

#[test]
fn a_run_gives_csv_json_and_answers_in_sql() {
    let folder = folder(2);
    let program = |arguments: &[&str]| output(folder.path(), arguments);
    let (status, stdout, stderr) = program(&["run", "small.toml", "--allow-memory"]);
    assert!((0..2).contains(&status), "{stdout}{stderr}");
    let id = std::fs::read_dir(folder.path().join("runs")).expect("readable").next().expect("a run");
    let run = id.expect("readable").path().to_string_lossy().into_owned();
    let (status, tables, _) = program(&["sql", &run]);
    assert!(status == 0 && tables.contains("sample(test, host, world,"), "{tables}");
    let by_second = "SELECT count(*) AS seconds, sum(count) > 0 AS reads FROM sample WHERE instance IS NULL
                     AND measure = 'transactional_read'";
    let (status, rows, stderr) = program(&["sql", &run, by_second, "--json"]);
    assert_eq!(status, 0, "{stderr}");
    let row: serde_json::Value = serde_json::from_str(&rows).expect("one object per line");
    assert!(row["seconds"].as_u64() >= Some(2) && row["reads"] == 1, "{row}");
    let (_, twice, _) = program(&["sql", &run, "SELECT 1 AS a, 2 AS a", "--json"]);
    assert_eq!(twice, "{\"a\":1,\"a_2\":2}\n");
    // What makes the report's new figures exists in a real run.
    let known = "SELECT (SELECT count(*) FROM volume) AS volumes,
                        (SELECT count(DISTINCT counter) FROM counter_sample WHERE instance IS NULL) AS counters,
                        (SELECT count(DISTINCT database) FROM sample WHERE measure = 'batch') AS databases";
    assert_eq!(program(&["sql", &run, known]).1.lines().nth(1).map(str::trim), Some("1,9,2"));
    let (status, stdout, stderr) = program(&["sql", &run, "DELETE FROM run"]);
    assert!(status == 2 && stdout.is_empty() && stderr.contains("only SELECT"), "{status} {stdout}{stderr}");
    let (status, json, _) = program(&["report", &run, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("stdout is data");
    assert!(status == 0 && report["tests"][1]["generator"]["program_busy"].as_f64() > Some(0.0), "{report}");
    assert!(program(&["schema", "report"]).1.contains("\"$schema\""));
    let (status, stdout, _) = program(&["report", &run, "--csv", "series"]);
    assert!(status == 0 && stdout.is_empty());
    assert!(
        folder.path().join("series/series.csv").is_file()
            && folder.path().join("series/counters.csv").is_file()
    );
}
