//! What an agent does for a run: looks at everything the tests will need, then carries them out in step with
//! the others.
//!
//! Invariant: the look takes the path that the tests take: the same folders, claimed in the same way, the same
//! kind of I/O.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use campaign::drill::PlannedDrill;
use campaign::progress::Watcher;
use campaign::{CampaignError, CampaignOutcome};
use evidence::folder::FolderError;
use results::{Outcome, Recorder, Verdict, WorldKind};
use runner::{Measured, PROBE, Preflight, PreflightError, RunError, run_row};
use solution::{Deployment, Solution, TestSpec};
use world::real::{self, RealConfig};
use world::{OpenMode, PageBuf, World};

use crate::agent::HostWork;
use crate::allowed::beyond;
use crate::arbiter::ArbiterLink;
use crate::barrier::{FleetBarrier, Passed, ProgressWatcher};
use crate::choice::{FleetTests, FleetTestsError, kinds, number_of};
use crate::copy_port::{CopyPortError, Members};
use crate::credentials::{Credentials, CredentialsError};
use crate::drill::HostPart;
use crate::message::{Assignment, Ended, Look};
use crate::run_control::RunControl;

/// Number of bytes that are written to and read from every volume before a run.
const PROBE_BYTES: usize = 256 * 1024;

/// Host work of an agent: the tests of the solution file on the storage of this host.
pub struct HostTests {
    /// Version of this program.
    pub tool_version: String,
    /// Build of this program, for the evidence.
    pub build: String,
    /// Credentials file of this host.
    pub credentials: PathBuf,
    /// Folders below which a run may write; empty: anywhere.
    pub allowed: Vec<PathBuf>,
    /// Callback for messages for people.
    pub say: fn(&str),
}

/// Reason why a host cannot take part, or go on.
#[derive(Debug, thiserror::Error)]
enum HostError {
    #[error(transparent)]
    Tests(#[from] FleetTestsError),
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("this agent may not write below {}", .0.display())]
    NotAllowed(PathBuf),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the copies cannot speak to each other: {0}")]
    CopyPort(#[from] CopyPortError),
    #[error("the copies cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("{folder} cannot be used: {source}")]
    Probe { folder: String, source: ProbeError },
    #[error("no I/O is possible: {0}")]
    NoIo(world::Error),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("cannot write in {}: {source}", folder.display())]
    NotWritten { folder: PathBuf, source: std::io::Error },
}

impl HostError {
    /// Error with its causes in one line, for a person at another host.
    fn line(&self) -> String {
        let help = match self {
            HostError::Tests(error) => error.help(),
            HostError::Preflight(error) => error.help(),
            HostError::Folder(error) => Some(error.help()),
            HostError::Credentials(error) => Some(error.help()),
            HostError::NotAllowed(_) => {
                Some("start the agent with --allow and a folder above it, if the run may write there")
            }
            HostError::Listen { .. } => {
                Some("copy_address of [[host]] is an address of this host with a free port")
            }
            _ => None,
        };
        match help {
            Some(help) => format!("{self} ({help})"),
            None => self.to_string(),
        }
    }
}

impl HostWork for HostTests {
    fn prepare(&self, assignment: &Assignment) -> Result<Look, String> {
        let ours = &self.tool_version;
        if assignment.tool_version != *ours {
            let theirs = &assignment.tool_version;
            return Err(format!(
                "the controller is proofload {theirs}, this agent {ours}: install the same version on both"
            ));
        }
        look(assignment, self).map_err(|error| error.line())
    }

    fn run(
        &self,
        assignment: &Assignment,
        folder: &Path,
        control: &RunControl,
        arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        match carry_out(assignment, folder, control, self, arbiter) {
            Err(error) => (Ended::Aborted, Some(error.line())),
            Ok(outcome) => match outcome.error.as_ref() {
                None => (came_to_the_end(&outcome.verdicts), None),
                Some(CampaignError::Interrupted) => (Ended::Interrupted, control.stop_asked()),
                Some(error) => (Ended::Aborted, Some(error.to_string())),
            },
        }
    }
}

/// Ending of a host that carried out its campaign.
fn came_to_the_end(verdicts: &[Verdict]) -> Ended {
    let failed = verdicts.iter().any(|verdict| verdict.outcome == Outcome::Fail);
    if failed { Ended::Failed } else { Ended::Passed }
}

/// Parses an assignment for this host.
fn read(assignment: &Assignment) -> Result<(Solution, Deployment, FleetTests), FleetTestsError> {
    let solution = Solution::parse(&assignment.solution, "the solution file of the run")?;
    let deployment = solution.deployment(Some(&assignment.host))?;
    let tests = FleetTests::chosen(&solution, &kinds(&assignment.tests)?)?;
    Ok((solution, deployment, tests))
}

/// Checks the needs of tests and drill on this host.
fn preflight(
    assignment: &Assignment,
    deployment: &Deployment,
    tests: &FleetTests,
) -> Result<Preflight, HostError> {
    let holdings = match &tests.drill {
        Some(drill) => Some(drill.topology.holdings(number_of(drill, &assignment.host)?)),
        None => None,
    };
    let own = Some((deployment, &tests.tests[..])).filter(|(_, tests)| !tests.is_empty());
    let parts: Vec<(&Deployment, &[TestSpec])> =
        own.into_iter().chain(holdings.as_ref().map(|holdings| (holdings, &[][..]))).collect();
    Ok(Preflight::new(&parts, assignment.allow_memory)?)
}

/// Refuses a run that would write outside of the folders that `--allow` names.
fn refuse_beyond(agent: &HostTests, preflight: &Preflight) -> Result<(), HostError> {
    match beyond(&agent.allowed, preflight.folders()) {
        Some(folder) => Err(HostError::NotAllowed(folder.to_owned())),
        None => Ok(()),
    }
}

/// Checks that other hosts can reach the copies of this host: valid certificate, free port.
fn look_at_port(drill: &PlannedDrill, host: &str, credentials: &Path) -> Result<String, HostError> {
    let credentials = Credentials::read(credentials)?;
    Members::new(&credentials, &drill.topology.names(), |_| {})?;
    let address = drill.topology.hosts[number_of(drill, host)?].copy_address.clone().unwrap_or_default();
    match std::net::TcpListener::bind(&address) {
        Ok(_) => Ok(format!("copies: {address} is free")),
        Err(source) => Err(HostError::Listen { address, source }),
    }
}

fn look(assignment: &Assignment, agent: &HostTests) -> Result<Look, HostError> {
    let (_, deployment, tests) = read(assignment)?;
    let preflight = preflight(assignment, &deployment, &tests)?;
    refuse_beyond(agent, &preflight)?;
    let port = match &tests.drill {
        Some(drill) => Some(look_at_port(drill, &assignment.host, &agent.credentials)?),
        None => None,
    };
    let _locks = preflight.lock_folders()?;
    let config = RealConfig { direct: preflight.direct(), shards: 1, ..RealConfig::new(&deployment.host) };
    let folders: Vec<String> = preflight.folders().map(|dir| dir.display().to_string()).collect();
    let probes = real::run(config, |world| async move {
        let mut lines = Vec::new();
        for folder in &folders {
            let started = Instant::now();
            let probed = probe(&world, folder).await;
            probed.map_err(|source| HostError::Probe { folder: folder.clone(), source })?;
            let ms = started.elapsed().as_secs_f64() * 1e3;
            lines.push(format!("{folder}: {} KiB written, synced and read in {ms:.1} ms", PROBE_BYTES >> 10));
        }
        lines.insert(0, format!("I/O: {}", world.describe()));
        Ok::<_, HostError>(lines)
    });
    let mut checks: Vec<String> = preflight.announcement().lines().map(str::to_owned).collect();
    checks.extend(port);
    checks.extend(probes.map_err(HostError::NoIo)??);
    Ok(Look { checks, identity: preflight.identity() })
}

#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    World(#[from] world::Error),
    #[error("it gave back other bytes than were written")]
    OtherBytes,
}

/// Writes a file, syncs it, reads it back and removes it.
async fn probe(world: &World, folder: &str) -> Result<(), ProbeError> {
    let path = format!("{folder}/{PROBE}");
    // One that a killed agent has left.
    if world.entry(&path).await?.is_some() {
        world.remove(&path).await?;
    }
    let bytes: Vec<u8> = (0..PROBE_BYTES).map(|at| (at / 7 + at / 4096) as u8).collect();
    let file = world.open(&path, OpenMode::CreateNew).await?;
    file.write_at(0, [PageBuf::copy_of(&bytes)].into_iter().collect()).await.0?;
    file.sync().await?;
    world.sync_dir(folder).await?;
    let (read, bufs) = file.read_at(0, [PageBuf::empty(PROBE_BYTES)].into_iter().collect()).await;
    read?;
    let same = bufs[0].as_slice() == bytes;
    drop(file);
    world.remove(&path).await?;
    world.sync_dir(folder).await?;
    if same { Ok(()) } else { Err(ProbeError::OtherBytes) }
}

fn carry_out(
    assignment: &Assignment,
    folder: &Path,
    control: &RunControl,
    agent: &HostTests,
    link: ArbiterLink,
) -> Result<CampaignOutcome, HostError> {
    let (solution, deployment, chosen) = read(assignment)?;
    let preflight = preflight(assignment, &deployment, &chosen)?;
    refuse_beyond(agent, &preflight)?;
    let _locks = preflight.lock_folders()?;
    let (direct, titles) = (preflight.direct(), campaign::titles(&chosen.all()));
    let FleetTests { tests, drill } = chosen;
    let finale = async |world: World,
                        barrier: &FleetBarrier,
                        recorder: &mut dyn Recorder,
                        _: &mut dyn Watcher| match &drill {
        None => CampaignOutcome::default(),
        Some(planned) => {
            let credentials = agent.credentials.clone();
            let part = HostPart { planned, assignment, credentials, direct, folder, control, link };
            part.carry_out(world, barrier, recorder).await
        }
    };
    let mut row = run_row(folder, &solution, assignment.seed, WorldKind::Real);
    // By the controller's clock, as far as it is known: the hosts' calendars need not agree.
    let ahead_ms = control.calendar().map_or(0, |calendar| calendar.offset_ns / 1_000_000);
    row.started_unix_ms = row.started_unix_ms.saturating_add_signed(-ahead_ms);
    let host = deployment.host.clone();
    let passed = Rc::new(RefCell::new(Passed::default()));
    let barrier = |world: &World| FleetBarrier::new(world, control, &passed);
    let rows = |ended_ms: u64| passed.borrow().rows(&host, control, ended_ms);
    let mut watcher = ProgressWatcher { control: control.clone(), tests: titles.len(), say: agent.say };
    let mut known = runner::rules(&solution, results::WorldKind::Real, None);
    known.push(runner::build_row(&host, &agent.build));
    let measured = Measured { deployment, tests, row, known, folder, preflight, key: None };
    let outcome = measured.carry_out(&mut watcher, None, barrier, finale, rows);
    let written = passed.borrow().write(folder);
    written.map_err(|source| HostError::NotWritten { folder: folder.to_owned(), source })?;
    Ok(outcome?)
}
