//! A run on the real storage of this host: the campaign in the real world, its rows kept as they arise.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use campaign::barrier::Barrier;
use campaign::progress::Watcher;
use campaign::{CampaignError, CampaignOutcome};
use evidence::live::LiveRun;
use evidence::{RunStore, SigningKey, StoreError};
use results::{Ending, Event, RecordError, Recorder, Row, Run, Severity, Verdict, WorldKind};
use solution::{Deployment, Solution, TestSpec};
use world::real::{self, RealConfig};
use world::{Duration, ErrorKind, Time, World};

use crate::preflight::Preflight;

/// Reason why a run was not carried out, or left no evidence.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The evidence file `run.db` cannot be written.
    #[error("the evidence cannot be kept: {0}")]
    NotKept(#[from] StoreError),
    /// A row cannot be stored in the evidence.
    #[error("the evidence cannot be kept: {0}")]
    NotRecorded(#[from] RecordError),
    /// The operating system gives the process no threads or no I/O queue.
    #[error("the tests could not be started: {0}")]
    NotStarted(world::Error),
}

/// Calendar time of this host, ms since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Builds the `run` row for a run that begins now.
pub fn run_row(folder: &Path, solution: &Solution, seed: u64, world: WorldKind) -> Run {
    Run {
        id: folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        solution: solution.name.clone(),
        solution_text: solution.text().to_owned(),
        started_unix_ms: unix_ms(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        world,
        world_detail: String::new(),
        seed,
        ended_ms: None,
        ending: None,
    }
}

/// Decides how a run ended: completed, interrupted or aborted.
pub fn ending(outcome: &CampaignOutcome) -> Ending {
    match &outcome.error {
        None => Ending::Completed,
        Some(CampaignError::Interrupted) => Ending::Interrupted,
        Some(_) => Ending::Aborted,
    }
}

/// A run of one host on real storage, ready to start.
pub struct Measured<'a> {
    /// Deployment of the host: volumes, instances and databases.
    pub deployment: Deployment,
    /// Tests to carry out.
    pub tests: Vec<TestSpec>,
    /// Row of the run at its start.
    pub row: Run,
    /// Rows that are recorded before the first test: rules of the grade, build, settings.
    pub known: Vec<Row>,
    /// Folder of the evidence.
    pub folder: &'a Path,
    /// Result of the preflight, with locked folders.
    pub preflight: Preflight,
    /// Key that signs the evidence.
    pub key: Option<SigningKey>,
}

impl Measured<'_> {
    /// Carries out the tests in step with a barrier and stores the evidence in `run.db`. Then calls `finale`, unless a
    /// test ended the run, and stores the rows that `last_rows` makes at the end (given the run's time in ms). `live`
    /// receives every row as well.
    ///
    /// # Errors
    /// The evidence cannot be kept, or the tests cannot be started.
    pub fn carry_out<C: Barrier>(
        self,
        watcher: &mut dyn Watcher,
        live: Option<Rc<RefCell<LiveRun>>>,
        barrier: impl FnOnce(&World) -> C,
        finale: impl AsyncFnOnce(World, &C, &mut dyn Recorder, &mut dyn Watcher) -> CampaignOutcome,
        last_rows: impl FnOnce(u64) -> Vec<Row>,
    ) -> Result<CampaignOutcome, RunError> {
        let mut store = RunStore::create_signed(&self.folder.join("run.db"), self.key)?;
        let kernel_log = self.preflight.kernel_log();
        let config = RealConfig { direct: self.preflight.direct(), ..RealConfig::new(&self.deployment.host) };
        let mut recorder = Tee { store: &mut store, live };
        let mut row = self.row;
        let body = |world: World| async {
            let clock = world.clone();
            row.world_detail = world.describe();
            recorder.record(row.clone().into())?;
            let known = self.known.into_iter().chain(self.preflight.rows(self.folder));
            known.into_iter().try_for_each(|row| recorder.record(row))?;
            // From here on a run that is killed can be told from no run at all.
            recorder.flush()?;
            let barrier = barrier(&world);
            let (deployment, tests) = (&self.deployment, &self.tests);
            let mut outcome = CampaignOutcome::default();
            if !tests.is_empty() {
                let (world, recorder, watcher) = (world.clone(), &mut recorder, &mut *watcher);
                outcome =
                    campaign::run_in_step(world, deployment, tests, row.seed, recorder, watcher, &barrier)
                        .await;
            }
            if outcome.error.is_none() {
                let last = finale(world, &barrier, &mut recorder, watcher).await;
                outcome.verdicts.extend(last.verdicts);
                outcome.error = last.error;
            }
            // What was asked for may have been refused in the meantime: modes are told from use.
            row.world_detail = clock.describe();
            Ok::<_, RecordError>((outcome, clock.now()))
        };
        let (mut outcome, ended) = match real::run(config, body) {
            Ok(ended) => ended?,
            Err(error) => match error.kind {
                ErrorKind::ClockJumped { at, by } => {
                    (record_clock_jump(&mut recorder, self.preflight.host(), at, by, error)?, at)
                }
                _ => return Err(RunError::NotStarted(error)),
            },
        };
        let ended_ms = ended.ns / 1_000_000;
        let after = self.preflight.rows_after(kernel_log);
        outcome.verdicts.extend(after.iter().filter_map(verdict));
        let row = Run { ended_ms: Some(ended_ms), ending: Some(ending(&outcome)), ..row };
        let rest = after.into_iter().chain(last_rows(ended_ms)).chain([row.into()]);
        rest.into_iter().try_for_each(|row| recorder.record(row))?;
        store.close()?;
        Ok(outcome)
    }
}

fn verdict(row: &Row) -> Option<Verdict> {
    match row {
        Row::Verdict(verdict) => Some(verdict.clone()),
        _ => None,
    }
}

/// Records that the run was ended because its clock jumped by `by` at time `at` of the run.
fn record_clock_jump(
    recorder: &mut dyn Recorder,
    host: &str,
    at: Time,
    by: Duration,
    error: world::Error,
) -> Result<CampaignOutcome, RecordError> {
    let (host, t_ms) = (host.to_owned(), at.ns / 1_000_000);
    let clock = campaign::verdict::clock_jumped(&host, by);
    let event = Event { t_ms, severity: Severity::Error, test: None, host, text: error.to_string() };
    recorder.record(event.into())?;
    recorder.record(clock.clone().into())?;
    Ok(CampaignOutcome { verdicts: vec![clock], error: Some(CampaignError::World(error)) })
}

/// Recorder that stores each row in `run.db` and passes it to the live view.
struct Tee<'a> {
    /// Recorder of `run.db`.
    store: &'a mut dyn Recorder,
    /// State of the live view.
    live: Option<Rc<RefCell<LiveRun>>>,
}

impl Recorder for Tee<'_> {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        if let Some(live) = &self.live {
            live.borrow_mut().apply(&row);
        }
        self.store.record(row)
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.store.flush()
    }
}
