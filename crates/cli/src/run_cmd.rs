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
use crate::live::RunWatcher;
use crate::outcome::{Ended, tell};
use crate::run_arguments::RunArguments;
use crate::signals::count_interrupts;

/// Runs the tests of a solution on this host's storage.
#[derive(clap::Args)]
pub struct HostRunArguments {
    #[command(flatten)]
    run: RunArguments,
    /// The host of the solution file that this machine is; needed when it describes several.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Show the run on the whole terminal; plain lines where there is none.
    #[arg(long, conflicts_with = "progress")]
    live: bool,
}

/// Runs the command.
pub fn run(HostRunArguments { run: arguments, host, live }: &HostRunArguments) -> Result<Status, Failure> {
    let meter = arguments.progress.meter();
    let solution = arguments.solution.read()?;
    let key = arguments.ending.sign.key()?;
    let deployment = solution.deployment(host.as_deref())?;
    let tests = chosen_tests(&deployment, &arguments.tests)?;
    let preflight = Preflight::new(&[(&deployment, tests.as_slice())], arguments.allow_memory)?;
    detail!("{}", preflight.io());
    if arguments.dry_run {
        let (schedule, memory) = (runner::schedule(&tests), runner::cache_memory(&deployment));
        crate::stdout::tell(&format!("{schedule}{}{memory}\n", preflight.announcement()))?;
        say!("nothing was written (--dry-run)");
        return Ok(Status::Pass);
    }
    show!("{}", preflight.announcement());
    let _locks = preflight.lock_folders()?;
    let folder = new_run(&arguments.out, &deployment.solution, unix_ms())?;
    let started = std::time::Instant::now();
    let interrupts = count_interrupts()?;
    let mut watcher = RunWatcher::new(*live, meter, interrupts, folder.display().to_string());
    let live = watcher.live();
    let row = run_row(&folder, &solution, arguments.seed, WorldKind::Real);
    let mut known = runner::rules(&solution);
    known.push(runner::build_row(&deployment.host, crate::BUILD));
    known.extend(runner::setting_rows(&deployment.host, &solution));
    let titles = campaign::titles(&tests);
    let measured = Measured { deployment, tests, row, known, folder: &folder, preflight, key };
    let nothing_more = async |_: World, _: &Alone, _: &mut dyn Recorder| CampaignOutcome::default();
    let outcome = measured.carry_out(&mut watcher, live, |_| Alone, nothing_more, |_| Vec::new());
    crate::live::leave();
    let (outcome, elapsed) = (outcome?, started.elapsed());
    let ended = Ended::of(&outcome);
    tell(&folder, &ended, &arguments.ending, |judged| {
        review::verdict_table::table(&outcome.verdicts, &titles, judged, ended.why.clone(), elapsed)
    })
}

/// The tests that `run` was asked for on one host: all but drills, which need all hosts.
fn chosen_tests(deployment: &Deployment, kinds: &[TestKind]) -> Result<Vec<TestSpec>, Failure> {
    let help = "`proofload fleet run` and `proofload simulate` perform them";
    if kinds.contains(&TestKind::Drill) {
        let message = "a drill needs every host of the solution at once";
        return Err(Failure::wrong_input(message).help(help));
    }
    if kinds.is_empty() && deployment.tests.iter().any(|test| test.kind == TestKind::Drill) {
        say!("drills are left out on one host; {help}");
    }
    Ok(tests_but_drills(deployment, kinds)?)
}
