//! The runs in a folder of runs, without reading them whole.
//!
//! Limits: a run counts as running while its `run.db` has no ending and was written to within [`QUIET`]; one that was
//! killed a moment ago still does. Links are not followed, and folders whose names are not UTF-8 are left out.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use results::Grade;
use results::grade::Counts;
use serde::{Deserialize, Serialize};

use crate::store::{Cell, Query, StoreError, beside, check, misfit};

/// Longest silence of a run that is still considered running: it writes rows more often than that.
const QUIET: Duration = Duration::from_secs(30);

/// State of a run in the list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is still running.
    Running,
    /// It ended without a broken limit, and its report says that every condition of a qualification is met.
    Qualified,
    /// It ended without a broken limit, but it is no qualification.
    Held,
    /// A limit was broken or a check failed.
    Failed,
    /// It was not carried out to its end, or a limit was not judged; no limit was broken.
    Incomplete,
    /// Its `run.db` cannot be read.
    Unreadable,
}

/// A run in the list of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunEntry {
    /// Name of its folder, which is the id in addresses of web pages.
    pub id: String,
    /// Its state.
    pub standing: Standing,
    /// Name of the solution.
    pub solution: String,
    /// `real` or `simulated`.
    pub world: String,
    /// Start, UTC, ISO 8601.
    pub started: String,
    /// Seconds from start to end; none while it runs.
    pub duration_s: Option<f64>,
    /// Title of the newest test.
    pub test: Option<String>,
    /// Verdicts that passed.
    pub passed: i64,
    /// Verdicts that failed.
    pub failed: i64,
    /// Why it cannot be read, or what in it contradicts its seals.
    pub note: String,
}

/// The folder of the run `id` below `runs`; `None` unless a folder has exactly this name, so that an id cannot leave
/// `runs`.
pub fn find(runs: &Path, id: &str) -> Option<PathBuf> {
    folders(runs).ok()?.into_iter().find(|(name, _)| name == id).map(|(_, folder)| folder)
}

/// Results of checking the seals of runs that have ended, kept because a check reads the whole file; a file that has
/// changed is checked again.
#[derive(Debug, Default)]
pub struct SealsSeen(BTreeMap<PathBuf, (Option<SystemTime>, Option<String>)>);

impl SealsSeen {
    /// What in a `run.db` contradicts its seals. A file that cannot be read is reported by [`list`].
    pub fn misfit(&mut self, run_db: &Path) -> Option<String> {
        let written = std::fs::metadata(run_db).and_then(|file| file.modified()).ok();
        match self.0.get(run_db) {
            Some((seen, found)) if *seen == written => found.clone(),
            _ => {
                let found = check(run_db).ok().and_then(|chain| misfit(&chain.broken));
                self.0.insert(run_db.to_owned(), (written, found.clone()));
                found
            }
        }
    }
}

/// Lists the runs below a folder, newest first. Checks the seals of those that have ended.
pub fn list(runs: &Path, seals: &mut SealsSeen) -> std::io::Result<Vec<RunEntry>> {
    let mut entries: Vec<RunEntry> =
        folders(runs)?.into_iter().map(|(id, folder)| entry(id, &folder.join("run.db"), seals)).collect();
    entries.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(entries)
}

/// Folders below `runs` that hold a `run.db`, with their names; symbolic links are left out.
fn folders(runs: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(runs)? {
        let entry = entry?;
        let is_run = entry.file_type()?.is_dir()
            && std::fs::symlink_metadata(entry.path().join("run.db")).is_ok_and(|file| file.is_file());
        if let (true, Ok(name)) = (is_run, entry.file_name().into_string()) {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

fn entry(id: String, path: &Path, seals: &mut SealsSeen) -> RunEntry {
    let sealed = read(&id, path).map(|entry| match entry.standing {
        Standing::Running => entry,
        _ => match seals.misfit(path) {
            Some(misfit) => RunEntry { standing: Standing::Incomplete, note: misfit, ..entry },
            None => entry,
        },
    });
    sealed.unwrap_or_else(|error| RunEntry {
        id,
        standing: Standing::Unreadable,
        solution: String::new(),
        world: String::new(),
        started: String::new(),
        duration_s: None,
        test: None,
        passed: 0,
        failed: 0,
        note: error.to_string(),
    })
}

fn read(id: &str, path: &Path) -> Result<RunEntry, StoreError> {
    const SQL: &str = "SELECT solution, world, started_unix_ms, ended_ms, ending,
        (SELECT name FROM test ORDER BY ordinal DESC LIMIT 1),
        (SELECT count(*) FROM verdict WHERE outcome = 'pass'), (SELECT count(*) FROM verdict WHERE outcome = 'fail'),
        (SELECT count(*) FROM test WHERE ended_ms IS NULL),
        (SELECT count(*) FROM verdict WHERE outcome = 'unproved')
        FROM run";
    let mut found: Vec<Cell> = Vec::new();
    Query::open(path)?.run(
        SQL,
        |_| Ok(()),
        |cells| -> Result<(), StoreError> {
            found = cells.to_vec();
            Ok(())
        },
    )?;
    if found.is_empty() && !is_fresh(path) {
        return Err(StoreError::NoRun(path.to_owned()));
    }
    let text = |n: usize| match found.get(n) {
        Some(Cell::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let number = |n: usize| match found.get(n) {
        Some(Cell::Integer(number)) => Some(*number),
        _ => None,
    };
    let (passed, failed) = (number(6).unwrap_or(0), number(7).unwrap_or(0));
    let ending = text(4);
    let standing = if ending.is_none() && is_fresh(path) {
        Standing::Running
    } else {
        let ending = ending.and_then(|name| serde_json::from_value(name.into()).ok());
        let count = |n: i64| n.unsigned_abs();
        let (open_tests, unproved) = (count(number(8).unwrap_or(0)), count(number(9).unwrap_or(0)));
        let counts = Counts { passed: count(passed), failed: count(failed), unproved, open_tests };
        // The conditions need every row of the run; its report has gone through them.
        match Grade::of(counts, ending, reported_grade(path) == Some(Grade::Qualified)) {
            Grade::Qualified => Standing::Qualified,
            Grade::Held => Standing::Held,
            Grade::Failed => Standing::Failed,
            Grade::Incomplete => Standing::Incomplete,
        }
    };
    Ok(RunEntry {
        id: id.to_owned(),
        standing,
        solution: text(0).unwrap_or_default(),
        world: text(1).unwrap_or_default(),
        started: number(2).map_or(String::new(), |ms| crate::report::iso_8601(ms.unsigned_abs())),
        duration_s: number(3).map(|ms| ms as f64 / 1e3),
        test: text(5),
        passed,
        failed,
        note: String::new(),
    })
}

/// The grade that `report.json` beside the `run.db` states.
fn reported_grade(run_db: &Path) -> Option<Grade> {
    #[derive(Deserialize)]
    struct Verdict {
        grade: Grade,
    }
    #[derive(Deserialize)]
    struct Report {
        verdict: Verdict,
    }
    let text = std::fs::read(run_db.with_file_name("report.json")).ok()?;
    serde_json::from_slice::<Report>(&text).ok().map(|report| report.verdict.grade)
}

/// Whether `run.db` or its write-ahead log was written to a moment ago.
pub fn is_fresh(path: &Path) -> bool {
    let written = |file: Metadata| {
        let at = file.modified();
        at.is_ok_and(|at| SystemTime::now().duration_since(at).map_or(true, |age| age < QUIET))
    };
    std::fs::metadata(path).is_ok_and(written) || beside(path, "-wal").is_some_and(written)
}
