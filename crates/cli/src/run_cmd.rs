//! `proofload run`: the tests of a solution on real storage.

use campaign::CampaignOutcome;
use campaign::barrier::Alone;
use campaign::choice::tests_but_drills;
use campaign::progress::Watcher;
use evidence::folder::new_run;
use results::{Recorder, WorldKind};
use runner::{DryRun, HostNeeds, Measured, Preflight, PreflightError, run_row, unix_ms};
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
    /// Name of this machine in the solution file; needed when the file describes several hosts.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Show the run on the whole terminal; plain lines where there is none.
    #[arg(long, conflicts_with = "progress")]
    live: bool,
}

/// Runs the command.
pub fn run(HostRunArguments { run: arguments, host, live }: &HostRunArguments) -> Result<Status, Failure> {
    let meter = arguments.progress.meter();
    let solution = arguments.solution.read_to_run()?;
    let key = arguments.ending.sign.key()?;
    let deployment = solution.deployment(host.as_deref())?;
    let tests = chosen_tests(&deployment, &arguments.tests)?;
    let parts = [(&deployment, tests.as_slice())];
    let preflight = Preflight::new(&parts, arguments.allow_memory);
    if arguments.dry_run {
        let needs = HostNeeds::of(&parts, true);
        let dry_run = DryRun::new(&deployment.solution, &tests, vec![needs]);
        return tell_dry_run(dry_run, preflight, arguments.ending.json);
    }
    let preflight = preflight?;
    detail!("{}", preflight.io());
    show!("{}", preflight.announcement());
    let _locks = preflight.lock_folders()?;
    let folder = new_run(&arguments.out, &deployment.solution, unix_ms())?;
    let started = std::time::Instant::now();
    let interrupts = count_interrupts()?;
    let mut watcher = RunWatcher::new(*live, meter, interrupts, folder.display().to_string());
    let live = watcher.live();
    let row = run_row(&folder, &solution, arguments.seed, WorldKind::Real);
    let mut known = runner::rules(&solution, results::WorldKind::Real, None);
    known.push(runner::build_row(&deployment.host, crate::BUILD));
    known.extend(runner::setting_rows(&deployment.host, &solution));
    let titles = campaign::titles(&tests);
    let measured = Measured { deployment, tests, row, known, folder: &folder, preflight, key };
    let nothing_more =
        async |_: World, _: &Alone, _: &mut dyn Recorder, _: &mut dyn Watcher| CampaignOutcome::default();
    let outcome = measured.carry_out(&mut watcher, live, |_| Alone, nothing_more, |_| Vec::new());
    crate::live::leave();
    let (outcome, elapsed) = (outcome?, started.elapsed());
    let ended = Ended::of(&outcome);
    tell(&folder, &ended, &arguments.ending, |judged| {
        review::verdict_table::table(&outcome.verdicts, &titles, judged, ended.why.clone(), elapsed)
    })
}

/// Prints what a run would do; the reasons why it could not begin come last.
fn tell_dry_run(
    mut told: DryRun,
    preflight: Result<Preflight, PreflightError>,
    as_json: bool,
) -> Result<Status, Failure> {
    told.obstacle = preflight.as_ref().err().map(ToString::to_string);
    if as_json {
        crate::stdout::json(&told)?;
    } else {
        let warnings = preflight.as_ref().map_or_else(|_| String::new(), Preflight::warnings);
        crate::stdout::tell(&format!("{}{warnings}", told.text()))?;
    }
    let preflight = preflight?;
    detail!("{}", preflight.io());
    say!("nothing was written (--dry-run)");
    Ok(Status::Pass)
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
