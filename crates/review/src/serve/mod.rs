//! A folder of runs as web pages, running ones live.
//!
//! Invariants
//! 1. Only GET and HEAD; nothing is ever written or started.
//! 2. A request names a run by the exact name of its folder and a file by one of a few fixed names: no path comes from
//!    outside. Links are not followed.
//! 3. Text from runs goes into JSON and from there into text nodes, never into markup; the pages load no script
//!    but ours.
//! 4. On a loopback address, requests that name another host are refused: a page elsewhere cannot read runs through the
//!    browser of the user who serves them.
//!
//! Limits: no encryption and no login. Bind to another address only in a network where everyone may read the runs.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evidence::listing::{self, RunEntry, SealsSeen, Standing};
use evidence::live::{Follower, LiveJudgement, LiveRun, LiveView, open_metrics};
use evidence::{Report, load};
use percent_encoding::percent_decode_str;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::compare::{Subject, compare};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("app.js");
const STYLE: &str = include_str!("style.css");

/// What our own pages may load.
const OWN: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
/// What a report may load: it carries its style with it and has no script.
const REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Requests that are answered at a time; each page that is open holds one.
const REQUESTS_MAX: usize = 64;
/// Runs that are compared at a time: more columns than this cannot be read.
const COMPARED_MAX: usize = 8;
/// A running run is looked at this often.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// The list of runs is looked at this often.
const LIST_EVERY: Duration = Duration::from_secs(2);
/// An answer that goes on looks this often whether it is to end.
const LOOK_FOR_END_EVERY: Duration = Duration::from_millis(50);

/// Connections that are open may take this long to come to their end.
const ENDING_MAX: Duration = Duration::from_secs(3);

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct ListenError {
    address: SocketAddr,
    cause: String,
}

/// The pages of the runs in a folder, on an address.
pub struct Pages {
    server: Server,
    site: Site,
    address: SocketAddr,
    /// Requests that are being answered.
    busy: AtomicUsize,
    ended: AtomicBool,
}

impl Pages {
    /// Takes the address; nothing is answered yet.
    ///
    /// # Errors
    /// The address is taken, or not one of this machine.
    pub fn new(runs: &Path, listen: SocketAddr) -> Result<Pages, ListenError> {
        let server = Server::http(listen)
            .map_err(|error| ListenError { address: listen, cause: error.to_string() })?;
        let address = server.server_addr().to_ip().unwrap_or(listen);
        let (runs, loopback) = (runs.to_owned(), address.ip().is_loopback());
        let site = Site { runs, loopback, seals: Mutex::default() };
        Ok(Pages { server, site, address, busy: AtomicUsize::new(0), ended: AtomicBool::new(false) })
    }

    /// The address, with the port that was free if any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has [`Pages::serve`] come to its end. May be called from any thread.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.server.unblock();
    }

    /// Answers requests until [`Pages::end`] is called; then answers that are under way come to their end.
    pub fn serve(self: &Arc<Pages>) {
        for request in self.server.incoming_requests() {
            if self.busy.fetch_add(1, Ordering::SeqCst) >= REQUESTS_MAX {
                self.busy.fetch_sub(1, Ordering::SeqCst);
                let _ = request.respond(Answer::error(503, "too many pages are open").response());
                continue;
            }
            let pages = self.clone();
            // A thread per request: live pages hold theirs for as long as they are open, and no run is measured here.
            std::thread::spawn(move || {
                pages.site.serve(request, &pages.ended);
                pages.busy.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let asked = Instant::now();
        while self.busy.load(Ordering::SeqCst) > 0 && asked.elapsed() < ENDING_MAX {
            std::thread::sleep(LOOK_FOR_END_EVERY);
        }
    }
}

/// Waits; `false` if the end was asked for meanwhile.
fn goes_on(ended: &AtomicBool, wait: Duration) -> bool {
    let since = Instant::now();
    while since.elapsed() < wait {
        if ended.load(Ordering::SeqCst) {
            return false;
        }
        std::thread::sleep(LOOK_FOR_END_EVERY.min(wait));
    }
    true
}

struct Site {
    runs: PathBuf,
    loopback: bool,
    seals: Mutex<SealsSeen>,
}

/// What a request asks for.
#[derive(Debug, PartialEq)]
enum Route {
    Answer(Box<Answer>),
    /// The list of runs, as it changes.
    List,
    /// A run, second by second.
    Live(PathBuf),
}

/// A whole answer.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    kind: &'static str,
    policy: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, kind, policy: OWN, body: body.into() }
    }

    fn error(status: u16, text: &str) -> Answer {
        Answer { status, ..Answer::new("text/plain; charset=utf-8", format!("{text}\n")) }
    }

    fn response(self) -> Response<Cursor<Vec<u8>>> {
        let header = |name: &str, value: &str| {
            Header::from_bytes(name.as_bytes(), value.as_bytes()).expect("fixed headers are ASCII")
        };
        Response::from_data(self.body)
            .with_status_code(self.status)
            .with_header(header("Content-Type", self.kind))
            .with_header(header("Content-Security-Policy", self.policy))
            .with_header(header("X-Content-Type-Options", "nosniff"))
            .with_header(header("Referrer-Policy", "no-referrer"))
            .with_header(header("Cache-Control", "no-store"))
    }
}

impl Site {
    fn serve(&self, request: Request, ended: &AtomicBool) {
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        let host = host.map(|header| header.value.as_str().to_owned());
        let route = if !matches!(request.method(), Method::Get | Method::Head) {
            Route::Answer(Box::new(Answer::error(405, "only GET")))
        } else if self.loopback && !host.as_deref().is_some_and(is_loopback_name) {
            Route::Answer(Box::new(Answer::error(403, "this server answers only to its own address")))
        } else {
            self.route(request.url())
        };
        // A browser that has gone away is no error.
        let _ = match route {
            Route::Answer(answer) => request.respond(answer.response()),
            Route::List => self.stream_list(request, ended),
            Route::Live(db) => stream_run(request, &db, ended),
        };
    }

    fn route(&self, url: &str) -> Route {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let parts: Vec<String> = path.trim_start_matches('/').split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let html = "text/html; charset=utf-8";
        let answer = match parts.as_slice() {
            [""] => Answer::new(html, PAGE),
            ["app.js"] => Answer::new("text/javascript; charset=utf-8", SCRIPT),
            ["style.css"] => Answer::new("text/css; charset=utf-8", STYLE),
            ["favicon.ico"] => Answer { status: 204, ..Answer::new("image/x-icon", "") },
            ["metrics"] => self.metrics(),
            ["compare"] => self.comparison(query),
            ["events"] => return Route::List,
            ["events", id] => match listing::find(&self.runs, id) {
                Some(folder) => return Route::Live(folder.join("run.db")),
                None => Answer::error(404, "no such run"),
            },
            ["runs", id, file] => match listing::find(&self.runs, id) {
                None => Answer::error(404, "no such run"),
                Some(_) if file.is_empty() => Answer::new(html, PAGE),
                Some(folder) => self.evidence_of(&folder, file),
            },
            _ => Answer::error(404, "no such page"),
        };
        Route::Answer(Box::new(answer))
    }

    fn list(&self) -> std::io::Result<Vec<RunEntry>> {
        listing::list(&self.runs, &mut self.seals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn metrics(&self) -> Answer {
        let runs = self.list().unwrap_or_default();
        let views: Vec<LiveView> = runs
            .iter()
            .filter(|run| run.standing == Standing::Running)
            .filter_map(|run| view(&mut Following::open(&self.runs.join(&run.id).join("run.db"))?))
            .collect();
        Answer::new("application/openmetrics-text; version=1.0.0; charset=utf-8", open_metrics(&views))
    }

    /// The runs that a query names (`run=A&run=B`), side by side; the first is the baseline.
    fn comparison(&self, query: &str) -> Answer {
        let named = query.split('&').filter_map(|pair| pair.strip_prefix("run="));
        let ids: Vec<String> = named.map(|id| decoded(&id.replace('+', " "))).collect();
        if !(2..=COMPARED_MAX).contains(&ids.len()) {
            return Answer::error(400, &format!("name two to {COMPARED_MAX} runs: /compare?run=A&run=B"));
        }
        let folders: Option<Vec<PathBuf>> = ids.iter().map(|id| listing::find(&self.runs, id)).collect();
        let Some(folders) = folders else { return Answer::error(404, "no such run") };
        let mut subjects = Vec::new();
        for (id, folder) in ids.iter().zip(&folders) {
            let opened = crate::open(folder).map_err(|error| error.to_string());
            match opened.and_then(|source| Subject::new(id, source).map_err(|error| error.to_string())) {
                Ok(subject) => subjects.push(subject),
                Err(error) => return Answer::error(500, &format!("{id} cannot be compared: {error}")),
            }
        }
        let page = compare(&subjects).html();
        Answer { policy: REPORT, ..Answer::new("text/html; charset=utf-8", page) }
    }

    fn stream_list(&self, request: Request, ended: &AtomicBool) -> std::io::Result<()> {
        let mut out = event_stream(request)?;
        let mut last = String::new();
        loop {
            let runs = self.list()?;
            let text = serde_json::to_string(&runs).expect("entries have only text keys");
            send(&mut out, (text != last).then_some(text.as_str()))?;
            last = text;
            if !goes_on(ended, LIST_EVERY) {
                return Ok(());
            }
        }
    }

    /// The file of a run that is asked for. A report that was never written, or whose run does not fit its seals,
    /// is rendered from `run.db`: then it says so first.
    fn evidence_of(&self, folder: &Path, file: &str) -> Answer {
        let (kind, policy, render): (_, _, fn(&Report) -> Option<String>) = match file {
            "report.html" => ("text/html; charset=utf-8", REPORT, |report| report.html().ok()),
            "report.json" => ("application/json", OWN, |report| Some(report.json())),
            "junit.xml" => ("application/xml", OWN, |report| Some(report.junit())),
            _ => return Answer::error(404, "no such file of a run"),
        };
        let (path, db) = (folder.join(file), folder.join("run.db"));
        let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        let fits = || self.seals.lock().unwrap_or_else(PoisonError::into_inner).misfit(&db).is_none();
        let body = match std::fs::read(&path) {
            Ok(body) if is_file && fits() => Some(body),
            _ => load(&db).ok().and_then(|data| render(&Report::new(&data).ok()?)).map(String::into_bytes),
        };
        match body {
            Some(body) => Answer { policy, ..Answer::new(kind, body) },
            None => Answer::error(500, "the evidence of this run cannot be read"),
        }
    }
}

/// Whether a Host header names this machine itself.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A part of a path with its percent signs resolved; what is no UTF-8 then names nothing.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// A run that is followed.
struct Following {
    follower: Follower,
    live: LiveRun,
    /// What the run proves, once its writer has ended.
    judged: Option<LiveJudgement>,
}

impl Following {
    fn open(db: &Path) -> Option<Following> {
        Some(Following { follower: Follower::open(db).ok()?, live: LiveRun::default(), judged: None })
    }

    /// Judges a run that has ended or was killed, as its report does: that takes every row, so it is done once.
    fn judge(&mut self, db: &Path, view: &mut LiveView) {
        if view.ending.is_none() && listing::is_fresh(db) {
            self.judged = None;
            return;
        }
        if self.judged.is_none() {
            let report = load(db).ok().and_then(|data| Report::new(&data).ok());
            self.judged = report.map(|report| LiveJudgement::from(&report.verdict));
        }
        if let Some(judged) = &self.judged {
            view.judgement = judged.clone();
        }
    }
}

/// The run as it is now; `None` if it cannot be read.
fn view(following: &mut Following) -> Option<LiveView> {
    following.follower.rows().ok()?.iter().for_each(|row| following.live.apply(row));
    following.live.view()
}

fn stream_run(request: Request, db: &Path, ended: &AtomicBool) -> std::io::Result<()> {
    let mut out = event_stream(request)?;
    let Some(mut following) = Following::open(db) else { return send(&mut out, None) };
    loop {
        let Some(mut view) = view(&mut following) else { return send(&mut out, None) };
        following.judge(db, &mut view);
        let text = serde_json::to_string(&view).expect("a view has only text keys");
        send(&mut out, Some(&text))?;
        if view.ending.is_some() {
            write!(out, "event: end\ndata: {{}}\n\n")?;
            return out.flush();
        }
        if !goes_on(ended, LIVE_EVERY) {
            return Ok(());
        }
    }
}

/// Begins a stream of server-sent events. Written by hand: the library would hold them back until 8 KiB are full.
fn event_stream(request: Request) -> std::io::Result<Box<dyn Write + Send>> {
    let mut out = request.into_writer();
    let headers = BTreeMap::from([
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
        ("X-Content-Type-Options", "nosniff"),
    ]);
    write!(out, "HTTP/1.1 200 OK\r\n")?;
    for (name, value) in headers {
        write!(out, "{name}: {value}\r\n")?;
    }
    write!(out, "\r\n")?;
    out.flush()?;
    Ok(out)
}

/// One event; without data a comment, which finds out whether anyone still listens.
fn send(out: &mut impl Write, data: Option<&str>) -> std::io::Result<()> {
    match data {
        Some(data) => write!(out, "data: {data}\n\n")?,
        None => write!(out, ": nothing new\n\n")?,
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(runs: &Path) -> Site {
        Site { runs: runs.to_owned(), loopback: true, seals: Mutex::default() }
    }

    fn status(site: &Site, url: &str) -> u16 {
        match site.route(url) {
            Route::Answer(answer) => answer.status,
            Route::List | Route::Live(_) => 200,
        }
    }

    #[test]
    fn only_runs_in_the_folder_and_files_of_fixed_names_are_served() {
        let root = tempfile::tempdir().expect("writable");
        let runs = root.path().join("runs");
        for folder in ["runs/one", "outside"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("writable");
            std::fs::write(root.path().join(folder).join("run.db"), "x").expect("writable");
            std::fs::write(root.path().join(folder).join("report.html"), "<p>").expect("writable");
            std::fs::write(root.path().join(folder).join("secret"), "x").expect("writable");
        }
        std::os::unix::fs::symlink(root.path().join("outside"), runs.join("link")).expect("writable");
        std::os::unix::fs::symlink(root.path().join("outside/secret"), runs.join("one/junit.xml"))
            .expect("writable");
        let site = site(&runs);
        for url in
            ["/", "/app.js", "/style.css", "/metrics", "/events", "/runs/one/", "/runs/one/report.html"]
        {
            assert_eq!(status(&site, url), 200, "{url}");
        }
        for url in [
            "/runs/one/run.db",
            "/runs/one/secret",
            "/runs/../outside/report.html",
            "/runs/..%2Foutside/report.html",
            "/runs/%2e%2e/report.html",
            "/runs/link/report.html",
            "/runs/one/..%2F..%2Foutside%2Freport.html",
            "/events/..%2Foutside",
            "/../../etc/passwd",
            "/runs/one",
        ] {
            assert_eq!(status(&site, url), 404, "{url}");
        }
        for (url, expected) in [
            ("/compare", 400),
            ("/compare?run=one", 400),
            ("/compare?run=one&run=..%2Foutside", 404),
            ("/compare?run=one&run=link", 404),
            ("/compare?run=one&run=one", 500),
        ] {
            assert_eq!(status(&site, url), expected, "{url}");
        }
        assert_eq!(
            status(&site, "/runs/one/junit.xml"),
            500,
            "a link is not followed, and this run.db is none"
        );
    }

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for own in ["localhost", "LOCALHOST:8600", "127.0.0.1:80", "127.9.9.9", "[::1]:8600", "[::1]"] {
            assert!(is_loopback_name(own), "{own}");
        }
        for other in ["example.org", "localhost.example.org", "10.0.0.1:8600", "", "127.0.0.1.example.org"] {
            assert!(!is_loopback_name(other), "{other}");
        }
    }

    #[test]
    fn percent_signs_are_resolved_once() {
        assert_eq!(decoded("a%20b%2Fc"), "a b/c");
        assert_eq!(decoded("%252e"), "%2e");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%C3%A4"), "%zzä");
    }
}
