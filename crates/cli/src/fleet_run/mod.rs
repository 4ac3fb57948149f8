//! `proofload fleet run` and `fleet resume`: a run on the hosts of a fleet, and what came out of it.

mod console;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evidence::SigningKey;
use evidence::folder::new_run;
use evidence::report::counted;
use fleet::choice::{FleetTests, drill_of, kinds};
use fleet::controller::{Controller, ControllerError};
use fleet::credentials::Credentials;
use fleet::membership::{Memory, Plan, WhenLost};
use fleet::merged::{MergeError, Planned, ending, merge};
use fleet::message::{Program, WhenAlone};
use fleet::server::Server;
use fleet::subjects::mark_of_run;
use results::Ending;
use runner::{DryRun, unix_ms};
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::inputs::SolutionArguments;
use crate::outcome::{Ended, EndingArguments, INTERRUPTED, tell};
use crate::progress::{Meter, ProgressArguments};
use crate::run_arguments::RunArguments;
use console::Console;

/// Runs the tests of a solution on every host under test at once. `proofload fleet agent` has to run on each of them.
#[derive(clap::Args)]
pub struct FleetRunArguments {
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    access: Access,
    /// Let agents take part that are another build of this version, such as one for another kind of processor.
    #[arg(long)]
    any_build: bool,
}

/// Takes up a run whose controller died or ended before it had all evidence.
#[derive(clap::Args)]
pub struct FleetResumeArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// The folder of the run.
    #[arg(value_name = "RUN")]
    folder: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    progress: ProgressArguments,
    #[command(flatten)]
    ending: EndingArguments,
}

/// How the controller reaches its hosts.
#[derive(clap::Args)]
struct Access {
    /// Credentials: the folder that `proofload fleet init` made.
    #[arg(long, value_name = "FOLDER")]
    fleet: PathBuf,
    /// Start this nats-server, and again when it ends; without it one has to run already.
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "nats-server")]
    nats_server: Option<String>,
}

/// A run on the hosts of a fleet, with all its arguments.
struct FleetRun<'a> {
    solution: &'a Solution,
    access: &'a Access,
    ending: &'a EndingArguments,
    /// The key that signs the evidence; read before anything is started.
    key: Option<SigningKey>,
}

/// Runs `fleet run`.
pub fn run(arguments: &FleetRunArguments) -> Result<Status, Failure> {
    let RunArguments { solution, tests, out, dry_run, progress, ending, .. } = &arguments.run;
    let meter = progress.meter();
    let solution = &solution.read_to_run()?;
    let run = FleetRun { solution, access: &arguments.access, ending, key: ending.sign.key()? };
    let (credentials, hosts) = run.credentials()?;
    let chosen = FleetTests::chosen(solution, tests)?;
    let needs = chosen.needs(solution, &hosts)?;
    if *dry_run {
        let told = DryRun::new(&solution.name, &chosen.all(), needs);
        if ending.json {
            crate::stdout::json(&told)?;
        } else {
            crate::stdout::tell(&told.text())?;
        }
        say!("nothing was written (--dry-run)");
        return Ok(Status::Pass);
    }
    say!("{}: will write on {}", solution.name, counted(hosts.len() as u64, "host"));
    needs.iter().for_each(|needs| say!("  {}", needs.line()));
    let folder = new_run(
        out,
        &format!("{}-{}", solution.name, mark_of_run().ok_or(ControllerError::Random)?),
        unix_ms(),
    )?;
    let plan = plan(arguments, solution, &folder, hosts)?;
    run.conduct(Controller::new(credentials, &folder, plan)?, &folder, meter)
}

/// Runs `fleet resume`.
pub fn resume(arguments: &FleetResumeArguments) -> Result<Status, Failure> {
    let FleetResumeArguments { solution, folder, access, progress, ending } = arguments;
    let meter = progress.meter();
    let solution = &solution.read_to_run()?;
    let run = FleetRun { solution, access, ending, key: ending.sign.key()? };
    let (credentials, _) = run.credentials()?;
    let controller = Controller::resume(credentials, folder)?;
    if controller.memory().plan.solution != solution.text() {
        let message = format!("{} was begun with another solution file, or other settings", folder.display());
        let help = "resume it with the file that it was begun with, and the same --set";
        return Err(Failure::wrong_input(message).help(help));
    }
    run.conduct(controller, folder, meter)
}

/// What `fleet run` would do with a solution, for `check`.
pub fn outlook(solution: &Solution) -> Result<String, Failure> {
    let hosts = solution.hosts_under_test();
    hosts.iter().try_for_each(|host| solution.deployment(Some(&host.name)).map(drop))?;
    let chosen = FleetTests::chosen(solution, &[])?;
    let drill = if chosen.drill.is_some() { " and a drill" } else { "" };
    let (tests, hosts) = (counted(chosen.tests.len() as u64, "test"), counted(hosts.len() as u64, "host"));
    Ok(format!("{tests}{drill} on {hosts} at once"))
}

/// Version and build of this program, which agents compare with theirs.
pub fn this_program() -> Result<Program, Failure> {
    Program::running(env!("CARGO_PKG_VERSION"), crate::BUILD).map_err(|error| {
        Failure::could_not_run("the file of this program cannot be read, so builds cannot be compared")
            .because(error)
            .help("mount /proc")
    })
}

/// Reads credentials, with a warning if others can use them.
pub fn read_credentials(path: &Path) -> Result<Credentials, Failure> {
    detail!("reads the credentials in {}", path.display());
    let credentials = Credentials::read(path)?;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        say!("warning: other users can use {0}; run chmod 600 {0}", path.display());
    }
    Ok(credentials)
}

impl FleetRun<'_> {
    /// Reads the controller's credentials, and checks that each host under test has some.
    fn credentials(&self) -> Result<(Credentials, Vec<String>), Failure> {
        let fleet = &self.access.fleet;
        let hosts: Vec<String> =
            self.solution.hosts_under_test().iter().map(|host| host.name.clone()).collect();
        let credentials = read_credentials(&fleet.join("controller.toml"))?;
        let is_stranger = |host: &&String| {
            let file = format!("agents/{}.toml", fleet::subjects::token(host));
            !fleet.join(file).is_file()
        };
        if let Some(host) = hosts.iter().find(is_stranger) {
            let message = format!("{} has no credentials for host {host}", fleet.display());
            return Err(Failure::wrong_input(message)
                .help("make credentials for every host under test with `proofload fleet init`"));
        }
        Ok((credentials, hosts))
    }

    /// Conducts the run to its end, and reports.
    fn conduct(self, mut controller: Controller, folder: &Path, meter: Meter) -> Result<Status, Failure> {
        if let Some(planned) = drill_of(self.solution.text(), &controller.memory().plan.tests)? {
            controller = controller.with_drill(&planned);
        }
        if let Some(text) = controller.takes_up() {
            controller.say(text);
        }
        let mut console = Console::new(meter)?;
        let started = Instant::now();
        let conducted = fleet::run(async {
            if let Some(program) = &self.access.nats_server {
                let server = Server::start(program, &self.access.fleet).map_err(ControllerError::Server)?;
                controller = controller.with_server(server);
            }
            let result = controller.conduct(&mut console).await;
            result.map(|()| controller.memory().clone())
        });
        let memory = conducted
            .map_err(|error| Failure::could_not_run("the controller cannot start").because(error))??;
        self.report(folder, &memory, started.elapsed())
    }

    /// Merges what the hosts have sent into one run, and prints how it came out.
    fn report(self, folder: &Path, memory: &Memory, elapsed: Duration) -> Result<Status, Failure> {
        let chosen = FleetTests::chosen(self.solution, &kinds(&memory.plan.tests)?)?;
        let tests = chosen.all();
        let planned = Planned { solution: self.solution, tests: &tests, drill: chosen.drill.as_ref() };
        let verdicts =
            merge(folder, memory, &planned, self.key).map_err(|error| not_merged(error, folder))?;
        let how = ending(memory);
        let why = match how {
            Ending::Completed => None,
            Ending::Interrupted => Some(INTERRUPTED.to_owned()),
            Ending::Aborted => {
                Some(memory.stop.clone().unwrap_or_else(|| "no host came to the end".to_owned()))
            }
        };
        let ended = Ended { how, why };
        let titles = campaign::titles(&tests);
        let late = memory.fates.values().filter(|fate| !fate.is_kept()).count() as u64;
        if late > 0 {
            say!(
                "the evidence of {} is missing; when they are back: proofload fleet resume {} {} --fleet {}",
                counted(late, "host"),
                self.solution.file_name(),
                folder.display(),
                self.access.fleet.display()
            );
        }
        say!("evidence of each host: {}/hosts", folder.display());
        tell(folder, &ended, self.ending, |judged| {
            review::verdict_table::table(&verdicts, &titles, judged, ended.why.clone(), elapsed)
        })
    }
}

fn plan(
    arguments: &FleetRunArguments,
    solution: &Solution,
    folder: &Path,
    hosts: Vec<String>,
) -> Result<Plan, Failure> {
    let (policy, finish) = (solution.fleet, solution::WhenLost::Finish);
    let program = this_program()?;
    let RunArguments { tests, seed, allow_memory, .. } = &arguments.run;
    Ok(Plan {
        run: folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        tool_version: program.version,
        build: (!arguments.any_build).then_some(program.build),
        hosts,
        solution: solution.text().to_owned(),
        tests: tests.iter().map(|kind| kind.name().to_owned()).collect(),
        seed: *seed,
        allow_memory: *allow_memory,
        when_lost: if policy.when_host_lost == finish { WhenLost::Finish } else { WhenLost::Stop },
        when_alone: if policy.when_controller_lost == finish { WhenAlone::Finish } else { WhenAlone::Stop },
        alone_after_ms: u64::from(policy.controller_lost_after_s) * 1000,
        assemble_limit_ms: u64::from(policy.assemble_limit_s) * 1000,
    })
}

fn not_merged(error: MergeError, folder: &Path) -> Failure {
    match error {
        MergeError::NothingRan(causes) => Failure::could_not_run("no host has carried out a test")
            .because(causes.join("; "))
            .help(format!("what happened is in {}", folder.join("fleet.log").display())),
        error => Failure::could_not_run(format!("cannot merge the evidence in {}", folder.display()))
            .because(error),
    }
}
