//! `proofload simulate`: the tests of a solution on a model of its storage, in virtual time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use evidence::RunStore;
use evidence::environment::storage_model;
use evidence::folder::new_run;
use evidence::report::duration;
use results::{Doubt, Host, Recorder, Row, Run, WorldKind};
use review::progress::WallTime;
use runner::{build_row, ending, run_row, setting_rows, unix_ms};
use simulation::{Assumptions, Planned, Played, Wishes};
use solution::{Solution, TestKind};

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments, test_kind};
use crate::outcome::{Ended, EndingArguments, tell};
use crate::progress::{LineWatcher, ProgressArguments};

/// Runs the tests of a solution on a model of its storage, in virtual time.
#[derive(clap::Args)]
pub struct SimulateArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Servers under test that take part: how many, or their names.
    #[arg(long, value_name = "N|NAME,..", default_value = "1")]
    servers: String,
    /// Only these kinds of tests, in the order of the solution file.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = test_kind())]
    tests: Vec<TestKind>,
    /// Sessions on each server, instead of the load of the solution file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    sessions: Option<u32>,
    /// Length of every test in virtual seconds, instead of what the solution file says.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// End each load test early, as an estimate of the full window: once the 95 % confidence intervals of I/O per
    /// second and latency are within PERCENT % of the measured figures.
    #[arg(long, value_name = "PERCENT")]
    until: Option<f64>,
    /// Replace values of the storage models, and add parts of your own, by this file: the form of assumptions.toml.
    #[arg(long, value_name = "FILE")]
    assumptions: Option<PathBuf>,
    /// Folder in which each run has a folder of its own.
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    out: PathBuf,
    /// Seed of all random choices; equal seeds give equal results.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    progress: ProgressArguments,
    #[command(flatten)]
    ending: EndingArguments,
}

/// Runs the command.
pub fn run(arguments: &SimulateArguments) -> Result<Status, Failure> {
    let meter = arguments.progress.meter();
    let solution = arguments.solution.read_to_run()?;
    let key = arguments.ending.sign.key()?;
    let assumptions = inputs::assumptions(arguments.assumptions.as_deref())?;
    let wishes = Wishes {
        servers: &arguments.servers,
        tests: &arguments.tests,
        sessions: arguments.sessions,
        duration_s: arguments.duration,
        until_percent: arguments.until,
        seed: arguments.seed,
    };
    let planned = Planned::of(&solution, &wishes, &assumptions)?;
    let folder = new_run(&arguments.out, &format!("{}-simulated", solution.name), unix_ms())?;
    let started = Instant::now();
    let interrupts = crate::signals::count_interrupts()?;
    let mut watcher = WallTime::new(LineWatcher::new(meter, interrupts));
    let mut store = RunStore::create_signed(&folder.join("run.db"), key).map_err(|error| not_kept(&error))?;
    let mut row = Run {
        world_detail: match &arguments.assumptions {
            None => "simulated storage in virtual time".into(),
            Some(file) => format!("simulated storage in virtual time, with the values of {}", file.display()),
        },
        ..run_row(&folder, &solution, arguments.seed, WorldKind::Simulated)
    };
    let first_rows = first_rows(&row, &solution, &planned, &assumptions);
    first_rows.into_iter().try_for_each(|row| store.record(row)).map_err(|error| not_kept(&error))?;
    let titles = campaign::titles(&planned.all_tests());
    let Played { outcome, traces, elapsed } = planned.play(arguments.seed, &titles, &mut store, &mut watcher);
    row.ended_ms = Some(elapsed.as_millis() as u64);
    row.ending = Some(ending(&outcome));
    store.record(row.into()).map_err(|error| not_kept(&error))?;
    store.close().map_err(|error| not_kept(&error))?;
    say!(
        "{} of virtual time in {:.1} s; trace {}",
        duration(elapsed.as_secs_f64().round()),
        started.elapsed().as_secs_f64(),
        traces.join(" ")
    );
    let (ended, taken) = (Ended::of(&outcome), started.elapsed());
    tell(&folder, &ended, &arguments.ending, |judged| {
        review::verdict_table::table(&outcome.verdicts, &titles, judged, ended.why.clone(), taken)
    })
}

fn not_kept(error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run("the evidence cannot be kept").because(error)
}

/// The rows that are known before the simulation begins: the run, its rules, its hosts.
fn first_rows(run: &Run, solution: &Solution, planned: &Planned, assumptions: &Assumptions) -> Vec<Row> {
    let description = &planned.storage;
    let host = |name: &str| Host { name: name.to_owned(), description: description.clone() }.into();
    let tested: Vec<&str> = planned.deployments.iter().map(|deployment| deployment.host.as_str()).collect();
    let of_drills =
        planned.drills.iter().flat_map(|drill| &drill.topology.hosts).map(|host| host.name.as_str());
    let further: BTreeSet<&str> = of_drills.filter(|name| !tested.contains(name)).collect();
    let mut rows: Vec<Row> = vec![run.clone().into()];
    let doubts = assumptions.doubtful();
    let values = assumptions.sources().iter().map(|one| (&*one.key, &*one.value, &*one.source));
    let measured = plan::measured_storage(values.clone());
    rows.extend(runner::rules(solution, WorldKind::Simulated, measured.as_deref()));
    if let Some(Row::Claim(claim)) = rows.iter_mut().find(|row| matches!(row, Row::Claim(_))) {
        let doubt = |text: &String| Doubt { part: "storage".into(), text: text.clone() };
        claim.doubts.extend(doubts.iter().map(doubt));
    }
    rows.extend(tested.iter().copied().chain(further).map(host));
    for host in tested.iter().take(1) {
        rows.push(build_row(host, crate::BUILD));
        rows.extend(setting_rows(host, solution));
        rows.extend(storage_model::rows(host, values.clone(), &doubts));
    }
    rows
}
