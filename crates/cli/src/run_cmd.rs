//! `proofload run`: the tests of a solution on real storage.

use campaign::CampaignOutcome;
use campaign::barrier::Alone;
use campaign::choice::tests_but_drills;
use evidence::folder::new_run;
use results::{Recorder, WorldKind};
use runner::{Measured, Preflight, run_row, unix_ms};
use solution::{Deployment, TestKind, TestSpec};
use world::World;

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::live::RunWatcher;
use crate::outcome::tell;
use crate::run_arguments::RunArguments;
use crate::signals::count_interrupts;

/// Runs the command.
pub fn run(arguments: &RunArguments) -> Result<Status, Failure> {
    let solution = inputs::solution(&arguments.solution)?;
    if let Some(fleet) = &arguments.fleet {
        return crate::fleet_run::conduct(arguments, &solution, fleet);
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
    let _locks = preflight.lock_folders()?;
    let folder = new_run(&arguments.out, &deployment.solution, unix_ms())?;
    let started = std::time::Instant::now();
    let interrupts = count_interrupts()?;
    let mut watcher = RunWatcher::new(arguments.live, interrupts, folder.display().to_string());
    let live = watcher.live();
    let row = run_row(&folder, &solution, arguments.seed, WorldKind::Real);
    let rules = runner::rules(&solution);
    let titles = campaign::titles(&tests);
    let measured = Measured { deployment, tests, row, rules, folder: &folder, preflight, key };
    let nothing_more = async |_: World, _: &Alone, _: &mut dyn Recorder| CampaignOutcome::default();
    let outcome = measured.carry_out(&mut watcher, live, |_| Alone, nothing_more, |_| Vec::new());
    watcher.close();
    tell(&outcome?, &titles, &folder, started.elapsed(), arguments.require)
}

/// The tests that `run` was asked for on one host: all but drills, which need all hosts.
fn chosen_tests(deployment: &Deployment, kinds: &[TestKind]) -> Result<Vec<TestSpec>, Failure> {
    let help = "`proofload run --fleet` and `proofload simulate` perform them";
    if kinds.contains(&TestKind::Drill) {
        let message = "a drill needs every host of the solution at once";
        return Err(Failure::wrong_input(message).help(help));
    }
    if kinds.is_empty() && deployment.tests.iter().any(|test| test.kind == TestKind::Drill) {
        say!("drills are left out on one host; {help}");
    }
    Ok(tests_but_drills(deployment, kinds)?)
}
