//! A folder of runs as web pages, running ones live.
//!
//! Invariants
//! 1. Only GET and HEAD; nothing is ever written or started.
//! 2. A request names a run by the exact name of its folder and a file by one of a few fixed names: no path comes from
//!    outside. Links are not followed.
//! 3. On a loopback address, requests that name another host are refused: a page elsewhere cannot read runs through the
//!    browser of the user who serves them.
//!
//! Limits: bind to another address only in a network whose users may all read the runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evidence::listing::{self, RunEntry, SealsSeen, Standing};
use evidence::live::{Follower, LiveJudgement, LiveRun, LiveView, open_metrics};
use evidence::{Report, load};
use review::compare::{Subject, compare};

use crate::answer::{Answer, Asked, Events, Reply, Site, decoded};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("app.js");
const STYLE: &str = include_str!("live.css");

/// Largest number of runs that are compared on one page; more columns are not readable.
const COMPARED_MAX: usize = 8;
/// Interval at which the page of a run that goes on is updated.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the list of runs is updated.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// The pages of `serve`: the runs in a folder.
pub struct Runs {
    folder: PathBuf,
    /// Whether the server listens on a loopback address only.
    loopback: bool,
    seals: Arc<Mutex<SealsSeen>>,
}

/// Content-Type of a file of a run, and the function that renders it from the report.
type Form = (fn(Vec<u8>) -> Answer, fn(&Report) -> Option<String>);

/// Page or stream that a request asks for, by its path.
#[derive(Debug, PartialEq)]
enum Route {
    Answer(Answer),
    /// The list of runs, sent again when it changes.
    List,
    /// The live figures of a run, each second.
    Live(PathBuf),
}

impl Site for Runs {
    fn answer(&self, asked: &Asked) -> Reply {
        if !asked.only_reads() {
            return Answer::error(405, "only GET").into();
        }
        if self.loopback && !asked.is_for_this_machine() {
            return Answer::error(403, "this server answers only to its own address").into();
        }
        match self.route(asked) {
            Route::Answer(answer) => answer.into(),
            Route::List => {
                let (folder, seals) = (self.folder.clone(), self.seals.clone());
                Reply::Events(Box::new(move |events| stream_list(&folder, &seals, events)))
            }
            Route::Live(db) => Reply::Events(Box::new(move |events| stream_run(&db, events))),
        }
    }
}

impl Runs {
    /// Pages of the runs in a folder. `loopback` tells whether the server listens on a loopback address only.
    pub fn new(folder: &Path, loopback: bool) -> Runs {
        Runs { folder: folder.to_owned(), loopback, seals: Arc::default() }
    }

    fn route(&self, asked: &Asked) -> Route {
        let (parts, query) = asked.parts();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let answer = match parts.as_slice() {
            [""] => Answer::page(PAGE),
            ["app.js"] => Answer::new("text/javascript; charset=utf-8", SCRIPT),
            ["style.css"] => Answer::new("text/css; charset=utf-8", evidence::report::STYLE),
            ["live.css"] => Answer::new("text/css; charset=utf-8", STYLE),
            ["favicon.ico"] => Answer { status: 204, ..Answer::new("image/x-icon", "") },
            ["metrics"] => self.metrics(),
            ["compare"] => self.comparison(query),
            ["events"] => return Route::List,
            ["events", id] => match listing::find(&self.folder, id) {
                Some(folder) => return Route::Live(folder.join("run.db")),
                None => Answer::error(404, "no such run"),
            },
            ["runs", id, file] => match listing::find(&self.folder, id) {
                None => Answer::error(404, "no such run"),
                Some(_) if file.is_empty() => Answer::page(PAGE),
                Some(folder) => self.evidence_of(&folder, file),
            },
            _ => Answer::error(404, "no such page"),
        };
        Route::Answer(answer)
    }

    fn metrics(&self) -> Answer {
        let runs = list(&self.folder, &self.seals).unwrap_or_default();
        let views: Vec<LiveView> = runs
            .iter()
            .filter(|run| run.standing == Standing::Running)
            .filter_map(|run| view(&mut Following::open(&self.folder.join(&run.id).join("run.db"))?))
            .collect();
        Answer::new("application/openmetrics-text; version=1.0.0; charset=utf-8", open_metrics(&views))
    }

    /// The comparison of the runs that a query names (`run=A&run=B`); the first is the baseline.
    fn comparison(&self, query: &str) -> Answer {
        let named = query.split('&').filter_map(|pair| pair.strip_prefix("run="));
        let ids: Vec<String> = named.map(|id| decoded(&id.replace('+', " "))).collect();
        if !(2..=COMPARED_MAX).contains(&ids.len()) {
            return Answer::error(400, &format!("name two to {COMPARED_MAX} runs: /compare?run=A&run=B"));
        }
        let folders: Option<Vec<PathBuf>> = ids.iter().map(|id| listing::find(&self.folder, id)).collect();
        let Some(folders) = folders else { return Answer::error(404, "no such run") };
        let mut subjects = Vec::new();
        for (id, folder) in ids.iter().zip(&folders) {
            let opened = review::open(folder).map_err(|error| error.to_string());
            match opened.and_then(|source| Subject::new(id, source).map_err(|error| error.to_string())) {
                Ok(subject) => subjects.push(subject),
                Err(error) => return Answer::error(500, &format!("{id} cannot be compared: {error}")),
            }
        }
        let page = compare(&subjects).html();
        Answer::report(page)
    }

    /// A file of a run's evidence. A report that was never written, or whose run contradicts its seals, is rendered
    /// from `run.db`; then it says so first.
    fn evidence_of(&self, folder: &Path, file: &str) -> Answer {
        let (answer, render): Form = match file {
            "report.html" => (Answer::report, |report| report.html().ok()),
            "report.json" => (|body| Answer::new("application/json", body), |report| Some(report.json())),
            "junit.xml" => (|body| Answer::new("application/xml", body), |report| report.junit().ok()),
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
            Some(body) => answer(body),
            None => Answer::error(500, "the evidence of this run cannot be read"),
        }
    }
}

fn list(folder: &Path, seals: &Mutex<SealsSeen>) -> io::Result<Vec<RunEntry>> {
    listing::list(folder, &mut seals.lock().unwrap_or_else(PoisonError::into_inner))
}

fn stream_list(folder: &Path, seals: &Mutex<SealsSeen>, events: &mut Events) -> io::Result<()> {
    let mut last = String::new();
    loop {
        let runs = list(folder, seals)?;
        let text = serde_json::to_string(&runs).expect("entries have only text keys");
        events.send((text != last).then_some(text.as_str()))?;
        last = text;
        if !events.goes_on(LIST_EVERY) {
            return Ok(());
        }
    }
}

/// The state of a run that a browser follows.
struct Following {
    follower: Follower,
    live: LiveRun,
    /// Judgement of the run; `None` until it has ended.
    judged: Option<LiveJudgement>,
}

impl Following {
    fn open(db: &Path) -> Option<Following> {
        Some(Following { follower: Follower::open(db).ok()?, live: LiveRun::default(), judged: None })
    }

    /// Judges a run that has ended or was killed, as its report does. That reads every row, so it is done once.
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

/// The live figures of the run now; `None` if it cannot be read.
fn view(following: &mut Following) -> Option<LiveView> {
    following.follower.rows().ok()?.iter().for_each(|row| following.live.apply(row));
    following.live.view()
}

fn stream_run(db: &Path, events: &mut Events) -> io::Result<()> {
    let Some(mut following) = Following::open(db) else { return events.send(None) };
    loop {
        let Some(mut view) = view(&mut following) else { return events.send(None) };
        following.judge(db, &mut view);
        let text = serde_json::to_string(&view).expect("a view has only text keys");
        events.send(Some(&text))?;
        if view.ending.is_some() {
            return events.end();
        }
        if !events.goes_on(LIVE_EVERY) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(runs: &Runs, target: &str) -> u16 {
        let asked = Asked {
            method: hyper::Method::GET,
            target: target.to_owned(),
            headers: hyper::HeaderMap::new(),
            body: hyper::body::Bytes::new(),
        };
        match runs.route(&asked) {
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
        let site = Runs::new(&runs, true);
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
}
