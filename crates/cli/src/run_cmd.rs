//! `proofload run`: the tests of a solution on real storage.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use campaign::convoy::{Alone, Convoy};
use campaign::progress::Watcher;
use campaign::{CampaignError, CampaignOutcome};
use evidence::live::LiveRun;
use evidence::{RunStore, SigningKey};
use results::{Ending, Event, Grade, RecordError, Recorder, Row, Run, Severity, Verdict, WorldKind};
use solution::{Deployment, LoadMode, Solution, TestKind, TestSpec};
use world::real::{self, RealConfig};
use world::{Duration, ErrorKind, Time, World};

use crate::failure::{Failure, Status};
use crate::live::{RunWatcher, Tee};
use crate::preflight::Preflight;
use crate::sign::SignArguments;
use crate::signals::count_interrupts;

/// Runs the tests of a solution on this host's storage.
#[derive(clap::Args)]
pub struct RunArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    solution: PathBuf,
    /// The host of the solution file that this machine is; needed when it describes several.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Only these kinds of tests, in the order of the solution file, on databases that exist: init, tune, performance,
    /// stress, database_checksum, log_checksum, backup, backup_to_disk, restore, log_generation, soft_recovery; and drill with
    /// --fleet, on databases of its own.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = test_kind)]
    pub tests: Vec<TestKind>,
    /// Folder of the run folders.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub out: PathBuf,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Say what would be written and how much disk it takes, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// What the run has to prove for exit status 0.
    #[arg(long, value_name = "GRADE", value_enum, default_value_t)]
    pub require: Require,
    /// Show the run on the whole terminal; plain lines where there is none.
    #[arg(long)]
    live: bool,
    /// Allow databases on a memory file system, with buffered I/O where unbuffered is refused: proves nothing about disks.
    #[arg(long)]
    pub allow_memory: bool,
    /// Run on every host under test at once, with the credentials that `proofload fleet init` made in this folder; on each
    /// host `proofload agent` has to run.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["host", "live"])]
    fleet: Option<PathBuf>,
    /// Start this nats-server for the fleet, and again when it ends; without it one has to run already.
    #[arg(long, value_name = "PROGRAM", requires = "fleet", num_args = 0..=1, default_missing_value = "nats-server")]
    pub nats_server: Option<String>,
    /// Take up the run of a fleet in this folder, whose controller died or ended before it had all evidence.
    #[arg(long, value_name = "RUN", requires = "fleet", conflicts_with_all = ["out", "seed", "tests", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Let agents take part that are another build of this version, such as one for another kind of processor.
    #[arg(long, requires = "fleet", conflicts_with = "resume")]
    pub any_build: bool,
    #[command(flatten)]
    pub sign: SignArguments,
}

/// What a run has to prove for exit status 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Require {
    /// No limit is broken and every condition of a qualification is met.
    Qualified,
    /// No limit is broken and the programme came to its end.
    #[default]
    Held,
}

pub fn test_kind(text: &str) -> Result<TestKind, String> {
    let known = crate::run_cmd::KINDS;
    known.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
        let names = known.map(TestKind::name);
        match solution::did_you_mean(text, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known kinds: {}", names.join(", ")),
        }
    })
}

const KINDS: [TestKind; 12] = [
    TestKind::Init,
    TestKind::Tune,
    TestKind::Performance,
    TestKind::DatabaseChecksum,
    TestKind::LogChecksum,
    TestKind::Stress,
    TestKind::Backup,
    TestKind::BackupToDisk,
    TestKind::Restore,
    TestKind::LogGeneration,
    TestKind::SoftRecovery,
    TestKind::Drill,
];

/// Runs the command.
pub fn run(arguments: &RunArguments) -> Result<Status, Failure> {
    let solution = read_solution(&arguments.solution)?;
    if let Some(fleet) = &arguments.fleet {
        return crate::fleet_cmd::conduct(arguments, &solution, fleet);
    }
    let key = arguments.sign.key()?;
    let deployment = solution.deployment(arguments.host.as_deref())?;
    let tests = chosen_tests(&deployment, &arguments.tests)?;
    let preflight = Preflight::new(&[(&deployment, tests.as_slice())], arguments.allow_memory)?;
    show!("{}", preflight.announcement());
    if arguments.dry_run {
        say!("nothing was written (--dry-run)");
        return Ok(Status::Pass);
    }
    let _claims = preflight.claim()?;
    let folder = new_run_folder(&arguments.out, &deployment.solution)?;
    let started = std::time::Instant::now();
    let interrupts = Arc::new(AtomicU32::new(0));
    count_interrupts(&interrupts)?;
    let mut watcher = RunWatcher::new(arguments.live, interrupts, folder.display().to_string());
    let live = watcher.live();
    let row = run_row(&folder, &solution, arguments.seed, WorldKind::Real);
    let rules = crate::rules::rows(&solution);
    let titles = campaign::titles(&tests);
    let measured = Measured { deployment, tests, row, rules, folder: &folder, preflight, key };
    let nothing_more = async |_: World, _: &Alone, _: &mut dyn Recorder| CampaignOutcome::default();
    let outcome = measured.carry_out(&mut watcher, live, |_| Alone, nothing_more, |_| Vec::new());
    watcher.close();
    tell(&outcome?, &titles, &folder, started.elapsed(), arguments.require)
}

/// Reads and parses a solution file.
pub fn read_solution(path: &Path) -> Result<Solution, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong_input(format!("cannot read {}", path.display())).because(error))?;
    Ok(Solution::parse(&text, &path.display().to_string())?)
}

/// The tests that `run` was asked for on one host: all but drills, which need all hosts.
pub fn chosen_tests(deployment: &Deployment, kinds: &[TestKind]) -> Result<Vec<TestSpec>, Failure> {
    let help = "`proofload run --fleet` and `proofload simulate` perform them";
    if kinds.contains(&TestKind::Drill) {
        let message = "a drill needs every host of the solution at once";
        return Err(Failure::wrong_input(message).help(help));
    }
    if kinds.is_empty() && deployment.tests.iter().any(|test| test.kind == TestKind::Drill) {
        say!("drills are left out on one host; {help}");
    }
    tests_but_drills(deployment, kinds)
}

/// The tests of these kinds, or of all when none is given, without the drills.
pub fn tests_but_drills(deployment: &Deployment, kinds: &[TestKind]) -> Result<Vec<TestSpec>, Failure> {
    let chosen: Vec<TestSpec> = deployment
        .tests
        .iter()
        .filter(|test| test.kind != TestKind::Drill)
        .filter(|test| kinds.is_empty() || kinds.contains(&test.kind))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let message = "the solution file has no such test";
        return Err(Failure::wrong_input(message).help("add a [[test]] with this kind"));
    }
    refuse_untuned(deployment, &chosen)?;
    Ok(chosen)
}

/// A load that only tuning can find has to be found in the same run, which would otherwise end after the databases are written.
fn refuse_untuned(deployment: &Deployment, tests: &[TestSpec]) -> Result<(), Failure> {
    let drives = |kind: &TestKind| {
        matches!(kind, TestKind::Tune | TestKind::Performance | TestKind::Stress | TestKind::LogGeneration)
    };
    match tests.iter().map(|test| test.kind).find(drives) {
        Some(kind) if kind != TestKind::Tune && deployment.load.mode == LoadMode::Tuned => {
            let message =
                format!("[load] names no load, and no test `tune` finds one before {}", kind.name());
            let help =
                "add sessions, iops, batches_per_s or target_iops to [load], or the test tune before it";
            Err(Failure::wrong_input(message).help(help))
        }
        _ => Ok(()),
    }
}

/// The tests asked for that are no drills; none if only drills were asked for.
pub fn tests_beside_drills(
    has_drills: bool,
    deployment: &Deployment,
    kinds: &[TestKind],
) -> Result<Vec<TestSpec>, Failure> {
    let others: Vec<TestKind> = kinds.iter().copied().filter(|kind| *kind != TestKind::Drill).collect();
    let only_drills = match kinds {
        [] => deployment.tests.iter().all(|test| test.kind == TestKind::Drill),
        _ => others.is_empty(),
    };
    if only_drills && has_drills {
        return Ok(Vec::new());
    }
    if only_drills {
        let message = "the solution file has no drill";
        return Err(Failure::wrong_input(message).help("add a [[test]] with kind = \"drill\""));
    }
    tests_but_drills(deployment, &others)
}

/// A new folder for the evidence, named after time and solution. Never one that exists.
pub fn new_run_folder(out: &Path, solution: &str) -> Result<PathBuf, Failure> {
    let could_not = |path: &Path, error: std::io::Error| {
        Failure::could_not_run(format!("cannot create {}", path.display())).because(error)
    };
    std::fs::create_dir_all(out).map_err(|error| could_not(out, error))?;
    let name: String = solution
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let stamp = utc_stamp(unix_ms() / 1000);
    for attempt in 1..1000 {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let folder = out.join(format!("{stamp}-{name}{suffix}"));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(could_not(&folder, error)),
        }
    }
    Err(Failure::could_not_run(format!("{} is full of runs of this second", out.display())))
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// `20261121-094500` in UTC (civil-from-days after Howard Hinnant's calendar algorithms).
pub fn utc_stamp(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The row of a run that begins now.
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

/// How a run ended.
pub fn ending(outcome: &CampaignOutcome) -> Ending {
    match &outcome.error {
        None => Ending::Completed,
        Some(CampaignError::Interrupted) => Ending::Interrupted,
        Some(_) => Ending::Aborted,
    }
}

/// The tests of one host on real storage.
pub struct Measured<'a> {
    /// The host.
    pub deployment: Deployment,
    /// What is done.
    pub tests: Vec<TestSpec>,
    /// The run as it begins.
    pub row: Run,
    /// The rules that it is graded by.
    pub rules: Vec<Row>,
    /// Where the evidence goes.
    pub folder: &'a Path,
    /// What was found out before; the folders are claimed.
    pub preflight: Preflight,
    /// Key that signs the evidence.
    pub key: Option<SigningKey>,
}

impl Measured<'_> {
    /// Carries the tests out in step with a convoy, then what `finale` does if none of them was the end, and keeps the evidence in
    /// `run.db`, whose last rows are those that `last_rows` makes at the end (in ms of the run).
    pub fn carry_out<C: Convoy>(
        self,
        watcher: &mut dyn Watcher,
        live: Option<Rc<RefCell<LiveRun>>>,
        convoy: impl FnOnce(&World) -> C,
        finale: impl AsyncFnOnce(World, &C, &mut dyn Recorder) -> CampaignOutcome,
        last_rows: impl FnOnce(u64) -> Vec<Row>,
    ) -> Result<CampaignOutcome, Failure> {
        let not_kept = |error: &dyn std::fmt::Display| {
            Failure::could_not_run("the evidence cannot be kept").because(error)
        };
        let mut store = RunStore::create_signed(&self.folder.join("run.db"), self.key)
            .map_err(|error| not_kept(&error))?;
        let config = RealConfig { direct: self.preflight.direct(), ..RealConfig::new(&self.deployment.host) };
        let mut kept_row = self.row.clone();
        let body = |world: World| async {
            let clock = world.clone();
            kept_row.world_detail = world.describe();
            let mut row = kept_row.clone();
            let seed = row.seed;
            let mut recorder = Tee { store: &mut store, live };
            recorder.record(row.clone().into())?;
            let known = self.rules.into_iter().chain(self.preflight.rows());
            known.into_iter().try_for_each(|row| recorder.record(row))?;
            // From here on a run that is killed can be told from no run at all.
            recorder.flush()?;
            let convoy = convoy(&world);
            let (deployment, tests) = (&self.deployment, &self.tests);
            let mut outcome = CampaignOutcome::default();
            if !tests.is_empty() {
                let (world, recorder) = (world.clone(), &mut recorder);
                outcome =
                    campaign::run_in_convoy(world, deployment, tests, seed, recorder, watcher, &convoy).await;
            }
            if outcome.error.is_none() {
                let last = finale(world, &convoy, &mut recorder).await;
                outcome.verdicts.extend(last.verdicts);
                outcome.error = last.error;
            }
            let ended_ms = clock.now().ns / 1_000_000;
            (row.ended_ms, row.ending) = (Some(ended_ms), Some(ending(&outcome)));
            let after = self.preflight.rows_after();
            outcome.verdicts.extend(after.iter().filter_map(verdict));
            let rest = after.into_iter().chain(last_rows(ended_ms)).chain([row.into()]);
            rest.into_iter().try_for_each(|row| recorder.record(row))?;
            Ok::<_, RecordError>(outcome)
        };
        let outcome = match real::run(config, body) {
            Ok(ended) => ended,
            Err(error) => match error.kind {
                ErrorKind::ClockJumped { at, by } => {
                    cut_off(&mut store, &self.preflight, kept_row, at, by, error)
                }
                _ => {
                    return Err(Failure::could_not_run("the tests could not be started").because(error));
                }
            },
        };
        let outcome = outcome.map_err(|error| not_kept(&error))?;
        store.close().map_err(|error| not_kept(&error))?;
        Ok(outcome)
    }
}

fn verdict(row: &Row) -> Option<Verdict> {
    match row {
        Row::Verdict(verdict) => Some(verdict.clone()),
        _ => None,
    }
}

/// Keeps why a run was cut off by its clock, which jumped `by` so much at a time `at` of the run.
fn cut_off(
    store: &mut RunStore,
    preflight: &Preflight,
    row: Run,
    at: Time,
    by: Duration,
    error: world::Error,
) -> Result<CampaignOutcome, RecordError> {
    let (host, t_ms) = (preflight.host().to_owned(), at.ns / 1_000_000);
    let clock = campaign::lapses::clock_jumped(&host, by);
    let event = Event { t_ms, severity: Severity::Error, test: None, host, text: error.to_string() };
    let ended = Run { ended_ms: Some(t_ms), ending: Some(Ending::Aborted), ..row };
    let rows: Vec<Row> = [event.into(), clock.into()]
        .into_iter()
        .chain(preflight.rows_after())
        .chain([ended.into()])
        .collect();
    let verdicts = rows.iter().filter_map(verdict).collect();
    rows.into_iter().try_for_each(|row| store.record(row))?;
    Ok(CampaignOutcome { verdicts, error: Some(CampaignError::World(error)) })
}

/// Renders the report, prints the verdicts, gives the status.
pub fn tell(
    outcome: &CampaignOutcome,
    titles: &[String],
    folder: &Path,
    elapsed: std::time::Duration,
    require: Require,
) -> Result<Status, Failure> {
    let judged = crate::report_cmd::render(folder)?.verdict;
    crate::output::data(&crate::verdict_table::table(outcome, titles, &judged, elapsed))?;
    say!("evidence: {0}/report.html, {0}/report.json, {0}/run.db", folder.display());
    match &outcome.error {
        Some(CampaignError::Interrupted) => Ok(Status::Interrupted),
        Some(error) if judged.grade != Grade::Failed => {
            Err(Failure::could_not_run("the programme could not be carried out").because(error))
        }
        _ => Ok(require.status(judged.grade)),
    }
}

impl Require {
    /// The exit status of a run of this grade that came to its end.
    pub fn status(self, grade: Grade) -> Status {
        match (grade, self) {
            (Grade::Qualified, _) | (Grade::Held, Require::Held) => Status::Pass,
            (Grade::Held, Require::Qualified) | (Grade::Failed | Grade::Incomplete, _) => Status::VerdictFail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_calendar_dates() {
        assert_eq!(utc_stamp(0), "19700101-000000");
        assert_eq!(utc_stamp(951_782_399), "20000228-235959");
        assert_eq!(utc_stamp(951_868_800), "20000301-000000");
        assert_eq!(utc_stamp(1_795_254_300), "20261121-094500");
    }

    #[test]
    fn status_is_0_only_for_the_grades_that_were_asked_for() {
        use Grade::{Failed, Held, Incomplete, Qualified};
        let passing = |require: Require| {
            [Qualified, Held, Failed, Incomplete].map(|grade| require.status(grade) == Status::Pass)
        };
        assert_eq!(passing(Require::Held), [true, true, false, false]);
        assert_eq!(passing(Require::Qualified), [true, false, false, false]);
        assert_eq!(Require::default(), Require::Held);
    }

    #[test]
    fn a_misspelt_kind_gets_a_suggestion() {
        assert_eq!(test_kind("stress"), Ok(TestKind::Stress));
        assert_eq!(test_kind("preformance"), Err("did you mean `performance`?".into()));
    }
}
