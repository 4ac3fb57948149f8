//! What an agent does for a run: looks at everything the tests will need, then carries them out in step with the others.
//!
//! Invariants
//! 1. Every place of the programme is passed only when the gate says so, or when the run is to end.
//! 2. The look takes the path that the tests take: the same folders, claimed in the same way, the same kind of I/O.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use campaign::convoy::Convoy;
use campaign::drill::PlannedDrill;
use campaign::progress::{Progress, Watcher};
use campaign::{CampaignError, CampaignOutcome};
use fleet::agent::HostWork;
use fleet::arbiter::ArbiterLink;
use fleet::copy_port::Members;
use fleet::drill::HostPart;
use fleet::duty::Doing;
use fleet::gate::Gate;
use fleet::message::{Assignment, Ended, Point};
use results::{Environment, Event, Outcome, Recorder, Row, Severity, Verdict, WorldKind};
use solution::{Deployment, Solution, TestSpec};
use world::real::{self, RealConfig};
use world::{LocalFuture, OpenMode, PageBuf, World};

use super::drill::{FleetTests, kinds, number_of};
use super::read_credentials;
use crate::failure::Failure;
use crate::preflight::{PROBE, Preflight};
use crate::run_cmd::{Measured, run_row};

/// Bytes that are written to and read from every volume before a run.
const PROBE_BYTES: usize = 256 * 1024;
/// How often the gate is asked while its time is not known.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// A request to stop is heard within this time of waiting.
const HEAR_EVERY: Duration = Duration::from_millis(100);

/// The tests of the solution file.
pub struct Tests {
    /// The file with the credentials of this host.
    pub credentials: PathBuf,
    /// Folders below which a run may write; anywhere if there are none.
    pub allowed: Vec<PathBuf>,
}

impl HostWork for Tests {
    fn prepare(&self, assignment: &Assignment) -> Result<Vec<String>, String> {
        let ours = env!("CARGO_PKG_VERSION");
        if assignment.tool_version != ours {
            let theirs = &assignment.tool_version;
            return Err(format!(
                "the controller is proofload {theirs}, this agent {ours}: install the same version on both"
            ));
        }
        look(assignment, self).map_err(|failure| failure.line())
    }

    fn run(
        &self,
        assignment: &Assignment,
        folder: &Path,
        gate: &Gate,
        arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        match carry_out(assignment, folder, gate, self, arbiter) {
            Err(failure) => (Ended::Aborted, Some(failure.line())),
            Ok(outcome) => match outcome.error.as_ref() {
                None => (came_to_the_end(&outcome.verdicts), None),
                Some(CampaignError::Interrupted) => (Ended::Interrupted, gate.stop_asked()),
                Some(error) => (Ended::Aborted, Some(error.to_string())),
            },
        }
    }
}

/// How a host ends that carried out its programme.
fn came_to_the_end(verdicts: &[Verdict]) -> Ended {
    let failed = verdicts.iter().any(|verdict| verdict.outcome == Outcome::Fail);
    if failed { Ended::Failed } else { Ended::Passed }
}

/// What an assignment means on this host.
fn read(assignment: &Assignment) -> Result<(Solution, Deployment, FleetTests), Failure> {
    let solution = Solution::parse(&assignment.solution, "the solution file of the run")?;
    let deployment = solution.deployment(Some(&assignment.host))?;
    let tests = FleetTests::chosen(&solution, &kinds(&assignment.tests)?)?;
    Ok((solution, deployment, tests))
}

/// Looks at what tests and drill need on this host.
fn preflight(
    assignment: &Assignment,
    deployment: &Deployment,
    tests: &FleetTests,
) -> Result<Preflight, Failure> {
    let holdings = match &tests.drill {
        Some(drill) => Some(drill.site.holdings(number_of(drill, &assignment.host)?)),
        None => None,
    };
    let own = Some((deployment, &tests.tests[..])).filter(|(_, tests)| !tests.is_empty());
    let parts: Vec<(&Deployment, &[TestSpec])> =
        own.into_iter().chain(holdings.as_ref().map(|holdings| (holdings, &[][..]))).collect();
    Preflight::new(&parts, assignment.allow_memory)
}

/// Refuses a run that would write outside of the folders that the agent was given. Links are followed first.
fn refuse_beyond<'a>(allowed: &[PathBuf], folders: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    if allowed.is_empty() {
        return Ok(());
    }
    let real = |path: &Path| {
        let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        there.map(|(above, real)| real.join(path.strip_prefix(above).unwrap_or(Path::new(""))))
    };
    let allowed: Vec<PathBuf> = allowed.iter().filter_map(|folder| real(folder)).collect();
    for folder in folders {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        if !real(&absolute).is_some_and(|real| allowed.iter().any(|allowed| real.starts_with(allowed))) {
            let message = format!("this agent may not write below {}", folder.display());
            return Err(Failure::could_not_run(message)
                .help("start the agent with --allow and a folder above it, if the run may write there"));
        }
    }
    Ok(())
}

/// Whether the copies of this host can be reached by the others: the certificate is good, and the port is free.
fn look_at_port(drill: &PlannedDrill, host: &str, credentials: &Path) -> Result<String, Failure> {
    let credentials = read_credentials(credentials)?;
    Members::new(&credentials, &drill.site.names(), |_| {})
        .map_err(|error| Failure::could_not_run("the copies cannot speak to each other").because(error))?;
    let address = drill.site.hosts[number_of(drill, host)?].copy_address.clone().unwrap_or_default();
    let listener = std::net::TcpListener::bind(&address);
    listener.map(drop).map_err(|error| {
        Failure::could_not_run(format!("the copies cannot listen on {address}"))
            .because(error)
            .help("copy_address of [[host]] is an address of this host with a free port")
    })?;
    Ok(format!("copies: {address} is free"))
}

fn look(assignment: &Assignment, agent: &Tests) -> Result<Vec<String>, Failure> {
    let (_, deployment, tests) = read(assignment)?;
    let preflight = preflight(assignment, &deployment, &tests)?;
    refuse_beyond(&agent.allowed, preflight.folders())?;
    let port = match &tests.drill {
        Some(drill) => Some(look_at_port(drill, &assignment.host, &agent.credentials)?),
        None => None,
    };
    let _claims = preflight.claim()?;
    let config = RealConfig { direct: preflight.direct(), shards: 1, ..RealConfig::new(&deployment.host) };
    let folders: Vec<String> = preflight.folders().map(|dir| dir.display().to_string()).collect();
    let probes = real::run(config, |world| async move {
        let mut lines = vec![format!("I/O: {}", world.describe())];
        for folder in &folders {
            let started = Instant::now();
            probe(&world, folder)
                .await
                .map_err(|error| Failure::could_not_run(format!("{folder} cannot be used")).because(error))?;
            let ms = started.elapsed().as_secs_f64() * 1e3;
            lines.push(format!("{folder}: {} KiB written, synced and read in {ms:.1} ms", PROBE_BYTES >> 10));
        }
        Ok::<_, Failure>(lines)
    });
    let mut checks: Vec<String> = preflight.announcement().lines().map(str::to_owned).collect();
    checks.extend(port);
    checks.extend(probes.map_err(|error| Failure::could_not_run("no I/O is possible").because(error))??);
    Ok(checks)
}

#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    World(#[from] world::Error),
    #[error("it gave back other bytes than were written")]
    OtherBytes,
}

/// Writes a file, makes it durable, reads it back and removes it.
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
    gate: &Gate,
    agent: &Tests,
    link: ArbiterLink,
) -> Result<CampaignOutcome, Failure> {
    let (solution, deployment, chosen) = read(assignment)?;
    let preflight = preflight(assignment, &deployment, &chosen)?;
    refuse_beyond(&agent.allowed, preflight.folders())?;
    let _claims = preflight.claim()?;
    let (direct, titles) = (preflight.direct(), campaign::titles(&chosen.all()));
    let FleetTests { tests, drill } = chosen;
    let finale = async |world: World, convoy: &GateConvoy, recorder: &mut dyn Recorder| match &drill {
        None => CampaignOutcome::default(),
        Some(planned) => {
            let credentials = agent.credentials.clone();
            let part = HostPart { planned, assignment, credentials, direct, folder, gate, link };
            part.carry_out(world, convoy, recorder).await
        }
    };
    let mut row = run_row(folder, &solution, assignment.seed, WorldKind::Real);
    // By the controller's clock, as far as it is known: the hosts' calendars need not agree.
    let ahead_ms = gate.calendar().map_or(0, |calendar| calendar.offset_ns / 1_000_000);
    row.started_unix_ms = row.started_unix_ms.saturating_add_signed(-ahead_ms);
    let host = deployment.host.clone();
    let passed = Rc::new(RefCell::new(Passed::default()));
    let convoy = |world: &World| GateConvoy {
        world: world.clone(),
        gate: gate.clone(),
        last: Cell::new(0),
        passed: passed.clone(),
    };
    let rows = |ended_ms: u64| passed.borrow().rows(&host, gate, ended_ms);
    let mut watcher = GateWatcher { gate: gate.clone(), tests: titles.len() };
    let rules = crate::rules::rows(&solution);
    let measured = Measured { deployment, tests, row, rules, folder, preflight, key: None };
    let outcome = measured.carry_out(&mut watcher, None, convoy, finale, rows);
    passed.borrow().write(folder)?;
    outcome
}

/// The places that this host has passed.
#[derive(Default)]
struct Passed {
    /// Number of the place, and when by this host's calendar.
    places: Vec<(u32, u64)>,
    /// Since when it has not waited for the others any more.
    alone_ms: Option<u64>,
}

impl Passed {
    /// What the evidence says of it.
    fn rows(&self, host: &str, gate: &Gate, ended_ms: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(calendar) = gate.calendar() {
            let (offset_ms, error_ms) =
                (calendar.offset_ns as f64 / 1e6, calendar.uncertainty_ns as f64 / 1e6);
            rows.push(
                Environment {
                    host: host.to_owned(),
                    area: "Fleet".into(),
                    name: "Calendar against the controller's".into(),
                    value: format!("{offset_ms:+.1} ms, known to ±{error_ms:.2} ms"),
                    severity: Severity::Info,
                    note: String::new(),
                }
                .into(),
            );
        }
        let mut event = |t_ms: u64, text: String| {
            let (severity, host) = (Severity::Warning, host.to_owned());
            rows.push(Event { t_ms, severity, test: None, host, text }.into());
        };
        if let Some(t_ms) = self.alone_ms {
            event(
                t_ms,
                "the controller was not heard of: went on without waiting for the other hosts".into(),
            );
        }
        if let Some(why) = gate.stop_asked() {
            event(ended_ms, format!("asked to end: {why}"));
        }
        rows
    }

    /// Keeps when each place was passed, to be compared between hosts.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut text = "place,unix_ns\n".to_owned();
        for (place, unix_ns) in &self.places {
            let _ = writeln!(text, "{place},{unix_ns}");
        }
        let path = folder.join("places.csv");
        std::fs::write(&path, text).map_err(|error| {
            Failure::could_not_run(format!("cannot write {}", path.display())).because(error)
        })
    }
}

/// Waits at the gate.
struct GateConvoy {
    world: World,
    gate: Gate,
    last: Cell<u32>,
    passed: Rc<RefCell<Passed>>,
}

impl Convoy for GateConvoy {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        self.last.set(self.last.get() + 1);
        let point = Point(self.last.get());
        let (world, gate, passed) = (self.world.clone(), self.gate.clone(), self.passed.clone());
        Box::pin(async move {
            while gate.stop_asked().is_none() {
                match gate.wait_at(point) {
                    Some(Duration::ZERO) => break,
                    Some(left) => world.sleep(left.min(HEAR_EVERY)).await,
                    None => world.sleep(ASK_EVERY).await,
                }
            }
            let unix_ns =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
            let mut passed = passed.borrow_mut();
            passed.places.push((point.0, unix_ns));
            if gate.is_alone() {
                passed.alone_ms.get_or_insert(world.now().ns / 1_000_000);
            }
        })
    }
}

/// Tells the gate what the tests are doing.
struct GateWatcher {
    gate: Gate,
    /// In the programme, a drill included.
    tests: usize,
}

impl Watcher for GateWatcher {
    fn progress(&mut self, progress: &Progress) {
        let Progress { test, ordinal, phase, done, rates, .. } = progress;
        let tests = self.tests;
        self.gate.report(Doing {
            text: format!("[{ordinal}/{tests}] {test}: {phase}"),
            done: (f64::from(ordinal - 1) + done) / tests as f64,
            iops: rates.iops,
            read_latency_ms: rates.read_latency_ms,
            log_write_latency_ms: rates.log_write_latency_ms,
            waiting_at: None,
        });
    }

    fn line(&mut self, text: &str) {
        say!("{text}");
    }

    fn interrupted(&self) -> bool {
        self.gate.stop_asked().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_writes_only_below_the_folders_that_it_was_given() {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name);
        for name in ["allowed", "other"] {
            std::fs::create_dir(path(name)).expect("a new folder");
        }
        std::os::unix::fs::symlink(path("other"), path("allowed/link")).expect("a link");
        let allows = |folder: &str| {
            let folder = path(folder);
            refuse_beyond(&[path("allowed")], [folder.as_path()].into_iter()).is_ok()
        };
        assert!(allows("allowed") && allows("allowed/new/v1"));
        for folder in ["other", "allowed2", "allowed/link/v1", "."] {
            assert!(!allows(folder), "{folder}");
        }
        assert!(refuse_beyond(&[], [path("other").as_path()].into_iter()).is_ok());
    }
}
