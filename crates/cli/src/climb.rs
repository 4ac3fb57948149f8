//! `proofload capacity --run`: the climb on the real storage of this host.

use std::path::Path;

use campaign::barrier::Alone;
use campaign::progress::Watcher;
use capacity::{Capacity, Climbing};
use evidence::folder::new_run;
use results::{Ending, Recorder, WorldKind};
use runner::{Measured, Preflight, run_row, unix_ms};
use solution::Solution;
use world::World;

use crate::failure::{Failure, Status};
use crate::live::RunWatcher;
use crate::outcome::Ended;
use crate::progress::ProgressArguments;
use crate::signals::count_interrupts;

/// The climb on real storage.
#[derive(clap::Args)]
pub struct ClimbArguments {
    /// Measure on the real storage of this host: databases are made once, then performance tests follow with more or
    /// fewer mailboxes, each with the load of the worst failure.
    #[arg(long, conflicts_with_all = ["plan_only", "vary", "catalogue", "assumptions", "duration"])]
    pub run: bool,
    /// Name of this machine in the solution file; needed when the file describes several hosts.
    #[arg(long, value_name = "NAME", requires = "run")]
    host: Option<String>,
    /// Allow databases on a memory file system: proves nothing about disks.
    #[arg(long, requires = "run")]
    allow_memory: bool,
}

/// Climbs; gives the answer, if a step came to its end, and how the run ended.
pub fn climb(
    arguments: &ClimbArguments,
    solution: &Solution,
    seed: u64,
    until_percent: f64,
    out: &Path,
) -> Result<(Option<Capacity>, Result<Status, Failure>), Failure> {
    let mut climbing = Climbing::new(solution, arguments.host.as_deref(), seed)?;
    let tests = climbing.tests(until_percent)?;
    let deployment = climbing.deployment()?;
    let preflight = Preflight::new(&[(&deployment, tests.all().as_slice())], arguments.allow_memory)?;
    detail!("{}", preflight.io());
    show!("{}", preflight.announcement());
    let _locks = preflight.lock_folders()?;
    let folder = new_run(out, &deployment.solution, unix_ms())?;
    let (meter, shown) = (ProgressArguments::default().meter(), folder.display().to_string());
    let mut watcher = RunWatcher::new(false, meter, count_interrupts()?, shown);
    let row = run_row(&folder, climbing.first(), seed, WorldKind::Real);
    let mut known = runner::rules(climbing.first(), WorldKind::Real, None);
    known.push(runner::build_row(&deployment.host, crate::BUILD));
    known.extend(runner::setting_rows(&deployment.host, solution));
    let host = deployment.clone();
    let measured =
        Measured { deployment, tests: Vec::new(), row, known, folder: &folder, preflight, key: None };
    let steps = async |world: World, _: &Alone, recorder: &mut dyn Recorder, watcher: &mut dyn Watcher| {
        campaign::climb(world, &host, &tests, seed, (recorder, watcher), &mut climbing).await
    };
    let outcome = measured.carry_out(&mut watcher, None, |_| Alone, steps, |_| Vec::new())?;
    let ended = Ended::of(&outcome);
    crate::reports::render(&folder)?;
    say!("evidence: {0}/report.html, {0}/report.json, {0}/run.db", folder.display());
    let status = match ended.how {
        Ending::Completed => Ok(Status::Pass),
        Ending::Interrupted => Ok(Status::Interrupted),
        Ending::Aborted => {
            let why = ended.why.clone().unwrap_or_default();
            Err(Failure::could_not_run("the climb could not be carried to its end").because(why))
        }
    };
    Ok((climbing.answer(ended.why)?, status))
}
