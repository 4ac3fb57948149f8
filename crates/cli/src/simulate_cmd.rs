//! `proofload simulate`: the tests of a solution on a model of its storage, in virtual time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use campaign::CampaignOutcome;
use campaign::drill::PlannedDrill;
use campaign::progress::{Progress, Watcher};
use evidence::RunStore;
use rehearsal::{DrillPlan, Rehearsal, Rehearsed, Storage};
use results::{Host, Recorder, Row, Run, WorldKind};
use solution::{Solution, TestKind};

use crate::failure::{Failure, Status};
use crate::run_cmd;
use crate::sign::SignArguments;
use crate::simulation::{self, ChosenDrill, Planned, Wishes};
use crate::watch::TerminalWatcher;

/// Runs the tests of a solution on a model of its storage, in virtual time: what the hardware would show.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    solution: PathBuf,
    /// Servers under test that take part: how many, or their names.
    #[arg(long, value_name = "N|NAME,..", default_value = "1")]
    servers: String,
    /// Only these kinds of tests, in the order of the solution file.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = run_cmd::test_kind)]
    tests: Vec<TestKind>,
    /// Sessions on each server, instead of the load of the solution file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    sessions: Option<u32>,
    /// Length of every test in virtual seconds, instead of what the solution file says.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// End each load test early, once the 95 % intervals of I/O per second and latency are inside so many per cent: an estimate
    /// of the full window.
    #[arg(long, value_name = "PERCENT")]
    until: Option<f64>,
    /// Values for the models in place of the shipped ones, and parts of your own; the form of assumptions.toml.
    #[arg(long, value_name = "FILE")]
    assumptions: Option<PathBuf>,
    /// What the run has to prove for exit status 0.
    #[arg(long, value_name = "GRADE", value_enum, default_value_t)]
    require: run_cmd::Require,
    /// Folder of the run folders.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    runs: PathBuf,
    /// Where all randomness comes from; equal seeds give equal results.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sign: SignArguments,
}

/// Runs the command.
pub fn run(arguments: &SimulateArguments) -> Result<Status, Failure> {
    let solution = run_cmd::read_solution(&arguments.solution)?;
    let key = arguments.sign.key()?;
    let assumptions = simulation::assumptions(arguments.assumptions.as_deref())?;
    let wishes = Wishes {
        servers: &arguments.servers,
        tests: &arguments.tests,
        sessions: arguments.sessions,
        duration_s: arguments.duration,
        until_percent: arguments.until,
        seed: arguments.seed,
    };
    let planned = Planned::of(&solution, &wishes, &assumptions)?;
    let folder = run_cmd::new_run_folder(&arguments.runs, &format!("{}-simulated", solution.name))?;
    let started = Instant::now();
    let interrupts = Arc::new(AtomicU32::new(0));
    crate::signals::count_interrupts(&interrupts)?;
    let mut watcher = VirtualTime { watcher: TerminalWatcher::new(interrupts), phase: None };
    let mut store = RunStore::create_signed(&folder.join("run.db"), key).map_err(|error| not_kept(&error))?;
    let mut row = Run {
        world_detail: match &arguments.assumptions {
            None => "simulated storage in virtual time".into(),
            Some(file) => format!("simulated storage in virtual time, with the values of {}", file.display()),
        },
        ..run_cmd::run_row(&folder, &solution, arguments.seed, WorldKind::Simulated)
    };
    let first_rows = first_rows(&row, &solution, &planned);
    first_rows.into_iter().try_for_each(|row| store.record(row)).map_err(|error| not_kept(&error))?;
    let titles = campaign::titles(&planned.all_tests());
    let Played { outcome, traces, elapsed } =
        carry_out(planned, arguments.seed, &titles, &mut store, &mut watcher);
    row.ended_ms = Some(elapsed.as_millis() as u64);
    row.ending = Some(run_cmd::ending(&outcome));
    store.record(row.into()).map_err(|error| not_kept(&error))?;
    store.close().map_err(|error| not_kept(&error))?;
    say!(
        "{} of virtual time in {:.1} s; trace {}",
        crate::watch::short_duration(elapsed),
        started.elapsed().as_secs_f64(),
        traces.join(" ")
    );
    run_cmd::tell(&outcome, &titles, &folder, started.elapsed(), arguments.require)
}

fn not_kept(error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run("the evidence cannot be kept").because(error)
}

/// The rows that are known before anything happens: the run, its rules, its hosts.
fn first_rows(run: &Run, solution: &Solution, planned: &Planned) -> Vec<Row> {
    let description = &planned.storage.description;
    let host = |name: &str| Host { name: name.to_owned(), description: description.clone() }.into();
    let tested: Vec<&str> = planned.deployments.iter().map(|deployment| deployment.host.as_str()).collect();
    let of_drills = planned.drills.iter().flat_map(|drill| &drill.site.hosts).map(|host| host.name.as_str());
    let further: BTreeSet<&str> = of_drills.filter(|name| !tested.contains(name)).collect();
    let mut rows: Vec<Row> = vec![run.clone().into()];
    rows.extend(crate::rules::rows(solution));
    rows.extend(tested.into_iter().chain(further).map(host));
    rows
}

/// What came of a simulation.
struct Played {
    outcome: CampaignOutcome,
    /// The trace hash of the tests, and of each drill.
    traces: Vec<String>,
    /// Virtual time that passed.
    elapsed: Duration,
}

/// Carries out the tests, then the drills one after the other.
fn carry_out(
    planned: Planned,
    seed: u64,
    titles: &[String],
    recorder: &mut dyn Recorder,
    watcher: &mut VirtualTime,
) -> Played {
    let Planned { deployments, tests, storage, faults, drills } = planned;
    let outcome = CampaignOutcome { verdicts: Vec::new(), error: None };
    let mut played = Played { outcome, traces: Vec::new(), elapsed: Duration::ZERO };
    let mut ordinal = tests.len() as u32;
    if !tests.is_empty() {
        let Storage { model: storage, modelled, .. } = storage;
        let plan = Rehearsal { deployments, tests, seed, storage, modelled, faults };
        let rehearsed = rehearsal::rehearse(plan, recorder, watcher);
        watcher.watcher.close_line();
        played.add(rehearsed);
    }
    for ChosenDrill { test, site, storage } in drills {
        if played.outcome.error.is_some() {
            break;
        }
        let Some(drill) = test.drill.clone() else { continue };
        ordinal += 1;
        let name = titles[ordinal as usize - 1].clone();
        let begins_ms = played.elapsed.as_millis() as u64;
        watcher.line(&format!("{name}: {} databases on {} hosts", site.databases.len(), site.hosts.len()));
        let planned = PlannedDrill { site, test, drill, ordinal, name };
        let plan = DrillPlan { planned, begins_ms, seed, storage: storage.model };
        played.add(rehearsal::drill(plan, recorder, &mut |text| watcher.line(text)).rehearsed);
    }
    played
}

impl Played {
    fn add(&mut self, rehearsed: Rehearsed) {
        let Rehearsed { outcome, trace_hash, elapsed } = rehearsed;
        self.elapsed += elapsed;
        self.traces.push(format!("{trace_hash:016x}"));
        self.outcome.verdicts.extend(outcome.verdicts);
        self.outcome.error = outcome.error;
    }
}

/// Shows the time left by the clock on the wall: virtual time runs faster.
struct VirtualTime {
    watcher: TerminalWatcher,
    /// The phase under way: since when, and the share of it that was done then.
    phase: Option<(String, Instant, f64)>,
}

impl Watcher for VirtualTime {
    fn progress(&mut self, progress: &Progress) {
        let mut shown = progress.clone();
        shown.left = progress.left.and_then(|_| self.wall_time(&progress.phase, progress.done));
        self.watcher.progress(&shown);
    }

    fn line(&mut self, text: &str) {
        self.watcher.line(text);
    }

    fn interrupted(&self) -> bool {
        self.watcher.interrupted()
    }
}

impl VirtualTime {
    /// The time that the rest of a phase takes, if it goes on as since its beginning.
    fn wall_time(&mut self, phase: &str, done: f64) -> Option<Duration> {
        match &self.phase {
            Some((known, since, begun)) if known == phase && done >= *begun => {
                let rest = (1.0 - done) / (done - begun);
                (rest.is_finite() && rest >= 0.0).then(|| since.elapsed().mul_f64(rest.min(1e6)))
            }
            // The share of the phase before may be shown once more.
            _ => {
                self.phase = Some((phase.to_owned(), Instant::now(), done));
                None
            }
        }
    }
}
