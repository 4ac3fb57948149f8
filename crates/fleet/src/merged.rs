//! The evidence of all hosts of a run as one run.
//!
//! Invariants
//! 1. `run.db` of the run is made whole from what the hosts have sent, under another name first, so it can be
//!    made again when more has come.
//! 2. Evidence that belongs to something else is not merged: its host counts as one that has sent none.
//! 3. A host that did not carry out every test proves nothing, and its storage is not blamed for it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use campaign::drill::PlannedDrill;
use evidence::{Expected, HostRuns, SigningKey, StoreError};
use results::{Comparison, Ending, Host, Origin, Outcome, Row, Run, Verdict, WorldKind};
use solution::{Solution, TestSpec};

use crate::controller::{ASKED, Controller};
use crate::drill::judge;
use crate::log;
use crate::membership::{Fate, Memory, Plan};
use crate::message::Ended;
use crate::sharing::is_declared;

/// Reason why the evidence of a run cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No host has sent evidence; with the known causes.
    #[error("no host has carried out a test")]
    NothingRan(Vec<String>),
    /// A file of the run cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The evidence cannot be read or written.
    #[error(transparent)]
    Evidence(#[from] StoreError),
}

/// Planned solution and tests of a run.
pub struct Planned<'a> {
    /// Solution of the run.
    pub solution: &'a Solution,
    /// Tests of each host, the drill among them.
    pub tests: &'a [TestSpec],
    /// Drill that all hosts perform together at the end.
    pub drill: Option<&'a PlannedDrill>,
}

/// Ending of a run. A run that was not stopped counts as carried out if some host finished; the verdicts name the
/// others.
pub fn ending(memory: &Memory) -> Ending {
    let completed = |fate: &Fate| matches!(fate, Fate::Ended { how: Ended::Passed | Ended::Failed, .. });
    match &memory.stop {
        Some(why) if why == ASKED => Ending::Interrupted,
        None if memory.fates.values().any(completed) => Ending::Completed,
        _ => Ending::Aborted,
    }
}

/// Merges the hosts' evidence and the controller's knowledge into `run.db` in the folder of a run. Returns all
/// verdicts.
///
/// # Errors
/// No host has sent evidence of this run, or it cannot be read or written.
pub fn merge(
    folder: &Path,
    memory: &Memory,
    planned: &Planned<'_>,
    key: Option<SigningKey>,
) -> Result<Vec<Verdict>, MergeError> {
    let sent = Sent::find(folder, memory, planned);
    if sent.dbs.is_empty() {
        return Err(MergeError::NothingRan(causes(memory)));
    }
    let runs = HostRuns::open(&sent.dbs)?;
    let started_unix_ms = runs.started_unix_ms().unwrap_or(0);
    let mut verdicts = Vec::new();
    let first = memory.plan.hosts.first().map_or("", String::as_str);
    let mut rows = runner::setting_rows(first, planned.solution);
    for host in &memory.plan.hosts {
        let part = sent.hosts.iter().position(|with| with == host);
        if part.is_none() {
            let description = "no evidence of this host".to_owned();
            rows.push(Host { name: host.clone(), description }.into());
        }
        let carried_out = part.map_or(0, |part| runs.tests_ended(part));
        let fate = sent.in_words(host, memory);
        verdicts.push(took_part(host, &fate, carried_out, planned.tests.len()));
    }
    rows.extend(runs.shared().iter().map(|part| part.row(is_declared(planned.solution, part)).into()));
    verdicts.extend(runs.common_windows(&memory.plan.hosts));
    let entries =
        log::read(folder).map_err(|source| MergeError::File { path: folder.join("fleet.log"), source })?;
    rows.extend(entries.into_iter().map(|entry| entry.event(started_unix_ms).into()));
    rows.extend(verdicts.iter().cloned().map(Row::from));
    let Plan { run, solution, .. } = &memory.plan;
    if let Some(drill) = planned.drill {
        let judged = judge(drill, run, solution, folder, |host| Controller::evidence_of(folder, host));
        rows.extend(judged.rows(drill, |unix_ns| (unix_ns / 1_000_000).saturating_sub(started_unix_ms)));
        verdicts.splice(0..0, judged.verdicts);
    }
    let row = run_row(memory, planned.solution, started_unix_ms);
    let of_hosts = replace(folder, |new| Ok(runs.write(row, rows, new, key)?))?;
    Ok(of_hosts.into_iter().chain(verdicts).collect())
}

fn run_row(memory: &Memory, solution: &Solution, started_unix_ms: u64) -> Run {
    Run {
        id: memory.plan.run.clone(),
        solution: solution.name.clone(),
        solution_text: solution.text().to_owned(),
        started_unix_ms,
        tool_version: memory.plan.tool_version.clone(),
        world: WorldKind::Real,
        world_detail: String::new(),
        seed: memory.plan.seed,
        ended_ms: None,
        ending: Some(ending(memory)),
    }
}

/// Replaces `run.db` in a folder atomically by what `write` makes.
fn replace<T>(folder: &Path, write: impl FnOnce(&Path) -> Result<T, MergeError>) -> Result<T, MergeError> {
    let failed = |path: &Path, source| MergeError::File { path: path.to_owned(), source };
    let new = folder.join("run.db.new");
    // What an earlier controller began and did not end.
    for left in [new.clone(), folder.join("run.db.new-wal"), folder.join("run.db.new-shm")] {
        if left.exists() {
            std::fs::remove_file(&left).map_err(|error| failed(&left, error))?;
        }
    }
    let written = write(&new)?;
    std::fs::rename(&new, folder.join("run.db")).map_err(|error| failed(&new, error))?;
    Ok(written)
}

/// Evidence that the hosts have sent.
#[derive(Default)]
struct Sent {
    dbs: Vec<PathBuf>,
    /// Names of the hosts.
    hosts: Vec<String>,
    /// Reasons why the evidence of a host is not merged.
    refused: BTreeMap<String, String>,
}

impl Sent {
    fn find(folder: &Path, memory: &Memory, planned: &Planned<'_>) -> Sent {
        let Plan { run, hosts, solution, tool_version, seed, .. } = &memory.plan;
        let tests: Vec<&'static str> = planned.tests.iter().map(|test| test.kind.name()).collect();
        let mut sent = Sent::default();
        for host in hosts {
            let db = Controller::evidence_of(folder, host).join("run.db");
            let expected =
                Expected { run, host, solution_text: solution, tool_version, seed: *seed, tests: &tests };
            match expected.check(&db) {
                _ if !db.is_file() || memory.given_up.contains_key(host) => {}
                Ok(()) => {
                    sent.dbs.push(db);
                    sent.hosts.push(host.clone());
                }
                Err(why) => drop(sent.refused.insert(host.clone(), why)),
            }
        }
        sent
    }

    /// Fate of a host as text.
    fn in_words(&self, host: &str, memory: &Memory) -> String {
        let given_up = memory.given_up.get(host);
        let how = match &memory.fates[host] {
            Fate::Open if given_up.is_some() => "it worked to the last".to_owned(),
            Fate::Open => "lost: it has not been heard of again".to_owned(),
            Fate::Refused { why } => format!("it could not take part: {why}"),
            Fate::Ended { how, why, .. } => {
                let how = match how {
                    Ended::Passed | Ended::Failed => "it came to the end",
                    Ended::Interrupted => "it was stopped in good order",
                    Ended::Aborted => "it could not go on",
                    Ended::AgentDied => "its agent died",
                };
                let why = why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
                format!("{how}{why}")
            }
        };
        match (given_up, self.refused.get(host), &memory.fates[host]) {
            (Some(why), ..) => format!("{how}; {why}"),
            (None, Some(error), _) => format!("{how}; its evidence is refused: {error}"),
            (None, None, Fate::Ended { evidence_kept: false, .. }) => {
                format!("{how}; its evidence has not arrived")
            }
            (None, None, _) => how,
        }
    }
}

/// Causes why there is nothing to report.
fn causes(memory: &Memory) -> Vec<String> {
    let fates = memory.fates.iter().filter_map(|(host, fate)| match fate {
        Fate::Refused { why } | Fate::Ended { why: Some(why), .. } => Some(format!("{host}: {why}")),
        _ => None,
    });
    let given_up = memory.given_up.iter().map(|(host, why)| format!("{host}: {why}"));
    fates.chain(given_up).chain(memory.stop.clone()).collect()
}

fn took_part(host: &str, fate: &str, carried_out: usize, planned: usize) -> Verdict {
    let (measured, limit) = (carried_out as f64, planned as f64);
    Verdict {
        test: None,
        origin: Origin::host(host),
        rule: "host_took_part".into(),
        text: format!("the host carried out every test of the campaign: {fate}"),
        measured: Some(measured),
        limit: Some(limit),
        comparison: Comparison::AtLeast,
        unit: "tests".into(),
        outcome: if Comparison::AtLeast.holds(measured, limit) { Outcome::Pass } else { Outcome::Unproved },
    }
}
