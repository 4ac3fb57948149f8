//! `proofload run --fleet`: a run on the hosts of a fleet, and what came out of it.

mod console;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use evidence::SigningKey;
use evidence::folder::new_run;
use evidence::report::utc_stamp;
use fleet::choice::{FleetTests, drill_of, kinds, number_of};
use fleet::controller::{Controller, ControllerError, Predecessor, PredecessorEnd};
use fleet::credentials::Credentials;
use fleet::membership::{Memory, Plan, WhenLost};
use fleet::merged::{MergeError, Planned, ending, merge};
use fleet::message::{Program, WhenAlone};
use fleet::server::Server;
use results::Ending;
use runner::unix_ms;
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::run_arguments::RunArguments;
use crate::stdout::tell;
use console::Console;

/// A run on the hosts of a fleet, as asked for.
struct FleetRun<'a> {
    arguments: &'a RunArguments,
    /// What is run.
    solution: &'a Solution,
    /// Folder of the credentials.
    fleet: &'a Path,
}

/// Runs `run --fleet`, with the credentials in the folder `fleet`.
pub fn conduct(arguments: &RunArguments, solution: &Solution, fleet: &Path) -> Result<Status, Failure> {
    FleetRun { arguments, solution, fleet }.conduct()
}

/// What `run --fleet` would do with a solution, in words.
pub fn outlook(solution: &Solution) -> Result<String, Failure> {
    let hosts = solution.hosts_under_test();
    hosts.iter().try_for_each(|host| solution.deployment(Some(&host.name)).map(drop))?;
    let chosen = FleetTests::chosen(solution, &[])?;
    let drill = if chosen.drill.is_some() { " and a drill" } else { "" };
    Ok(format!("{} tests{drill} on {} hosts at once", chosen.tests.len(), hosts.len()))
}

/// What this program is, as others see it.
pub fn this_program() -> Result<Program, Failure> {
    Program::running(env!("CARGO_PKG_VERSION")).map_err(|error| {
        Failure::could_not_run("the file of this program cannot be read, so builds cannot be compared")
            .because(error)
            .help("mount /proc")
    })
}

/// Reads credentials, with a warning if others can use them.
pub fn read_credentials(path: &Path) -> Result<Credentials, Failure> {
    let credentials = Credentials::read(path)?;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        say!("warning: other users can use {0}; run chmod 600 {0}", path.display());
    }
    Ok(credentials)
}

impl FleetRun<'_> {
    /// Conducts the run to its end, and reports.
    pub fn conduct(&self) -> Result<Status, Failure> {
        let key = self.arguments.sign.key()?;
        let hosts: Vec<String> =
            self.solution.hosts_under_test().iter().map(|host| host.name.clone()).collect();
        let credentials = read_credentials(&self.fleet.join("controller.toml"))?;
        let stranger = |host: &&String| {
            let file = format!("agents/{}.toml", fleet::subjects::token(host));
            !self.fleet.join(file).is_file()
        };
        if let Some(host) = hosts.iter().find(stranger) {
            let message = format!("{} has no credentials for host {host}", self.fleet.display());
            return Err(Failure::wrong_input(message)
                .help("make credentials for every host under test with `proofload fleet init`"));
        }
        let folder = match &self.arguments.resume {
            Some(folder) => folder.clone(),
            None => {
                self.announce(&hosts)?;
                if self.arguments.dry_run {
                    say!("nothing was written (--dry-run)");
                    return Ok(Status::Pass);
                }
                new_run(&self.arguments.out, &self.solution.name, unix_ms())?
            }
        };
        let mut controller = match &self.arguments.resume {
            Some(_) => Controller::resume(credentials, &folder),
            None => Controller::new(credentials, &folder, self.plan(&folder, hosts)?),
        }?;
        if controller.memory().plan.solution != self.solution.text() {
            let message = format!("{} was begun with another solution file", folder.display());
            return Err(Failure::wrong_input(message).help("resume it with the file that it was begun with"));
        }
        if let Some(planned) = drill_of(self.solution.text(), &controller.memory().plan.tests)? {
            controller = controller.with_drill(&planned);
        }
        if let Some(before) = controller.predecessor() {
            controller.say(takes_up(&before, controller.memory()));
        }
        let mut console = Console::new()?;
        let started = Instant::now();
        let conducted = fleet::run(async {
            if let Some(program) = &self.arguments.nats_server {
                let server = Server::start(program, self.fleet).map_err(ControllerError::Server)?;
                controller = controller.with_server(server);
            }
            let result = controller.conduct(&mut console).await;
            result.map(|()| controller.memory().clone())
        });
        console.clear();
        let memory = conducted
            .map_err(|error| Failure::could_not_run("the controller cannot start").because(error))??;
        self.report(&folder, &memory, started.elapsed(), key)
    }

    /// What will be written where.
    fn announce(&self, hosts: &[String]) -> Result<(), Failure> {
        let chosen = FleetTests::chosen(self.solution, &self.arguments.tests)?;
        say!("{}: will write on {} hosts", self.solution.name, hosts.len());
        for host in hosts {
            let deployment = match &chosen.drill {
                Some(drill) => drill.topology.holdings(number_of(drill, host)?),
                None => self.solution.deployment(Some(host))?,
            };
            let dirs: Vec<&str> = deployment.volumes.iter().map(|volume| &*volume.dir).collect();
            say!("  {host}: below {}", dirs.join(", "));
        }
        Ok(())
    }

    fn plan(&self, folder: &Path, hosts: Vec<String>) -> Result<Plan, Failure> {
        let policy = self.solution.fleet;
        let finish = solution::WhenLost::Finish;
        let program = this_program()?;
        Ok(Plan {
            run: folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            tool_version: program.version,
            build: (!self.arguments.any_build).then_some(program.build),
            hosts,
            solution: self.solution.text().to_owned(),
            tests: self.arguments.tests.iter().map(|kind| kind.name().to_owned()).collect(),
            seed: self.arguments.seed,
            allow_memory: self.arguments.allow_memory,
            when_lost: if policy.when_host_lost == finish { WhenLost::Finish } else { WhenLost::Stop },
            when_alone: if policy.when_controller_lost == finish {
                WhenAlone::Finish
            } else {
                WhenAlone::Stop
            },
            alone_after_ms: u64::from(policy.controller_lost_after_s) * 1000,
            assemble_limit_ms: u64::from(policy.assemble_limit_s) * 1000,
        })
    }

    /// Makes one run of what the hosts have sent, and says how it came out.
    fn report(
        &self,
        folder: &Path,
        memory: &Memory,
        elapsed: Duration,
        key: Option<SigningKey>,
    ) -> Result<Status, Failure> {
        let chosen = FleetTests::chosen(self.solution, &kinds(&memory.plan.tests)?)?;
        let tests = chosen.all();
        let planned = Planned { solution: self.solution, tests: &tests, drill: chosen.drill.as_ref() };
        let verdicts = merge(folder, memory, &planned, key).map_err(|error| not_merged(error, folder))?;
        let judged = crate::reports::render(folder)?.verdict;
        let why = match (ending(memory), &memory.stop) {
            (Ending::Completed, _) => None,
            (Ending::Interrupted, _) => Some("it was interrupted; what was measured is kept".to_owned()),
            (Ending::Aborted, why) => {
                Some(why.clone().unwrap_or_else(|| "no host came to the end".to_owned()))
            }
        };
        let titles = campaign::titles(&tests);
        tell(&crate::verdict_table::of_verdicts(&verdicts, &titles, &judged, why, elapsed))?;
        let late = memory.fates.values().filter(|fate| !fate.is_kept()).count();
        if late > 0 {
            say!(
                "{late} hosts have not sent their evidence; when they are back: proofload run SOLUTION.toml --fleet {} --resume {}",
                self.fleet.display(),
                folder.display()
            );
        }
        say!(
            "evidence: {0}/report.html, {0}/report.json, {0}/run.db; of each host: {0}/hosts",
            folder.display()
        );
        Ok(match ending(memory) {
            Ending::Interrupted => Status::Interrupted,
            Ending::Completed | Ending::Aborted => self.arguments.require.status(judged.grade),
        })
    }
}

/// That a controller takes up the run of another one: how that one ended, and what it had collected.
fn takes_up(before: &Predecessor, memory: &Memory) -> String {
    let epoch = before.epoch;
    let end = match before.end {
        PredecessorEnd::Ended => format!("controller {epoch} ended in good order"),
        PredecessorEnd::Died(Some(last_ms)) => {
            format!("controller {epoch} died, its last sign of life is of {} UTC", utc_stamp(last_ms))
        }
        PredecessorEnd::Died(None) => format!("controller {epoch} died, it is not known when"),
    };
    let named = |kept: bool| {
        let with = memory.fates.iter().filter(|(_, fate)| fate.is_kept() == kept);
        let hosts: Vec<&str> = with.map(|(host, _)| host.as_str()).collect();
        if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") }
    };
    format!(
        "controller {} takes up the run; {end}. Evidence collected before: {}; still to come: {}",
        memory.epoch,
        named(true),
        named(false)
    )
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
