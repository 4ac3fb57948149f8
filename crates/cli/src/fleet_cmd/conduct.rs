//! `proofload run --fleet`: a run on the hosts of a fleet, and what came out of it.

use std::path::Path;
use std::time::{Duration, Instant};

use evidence::SigningKey;
use fleet::controller::{Controller, ControllerError, Predecessor, PredecessorEnd};
use fleet::merged::{MergeError, Planned, ending, merge};
use fleet::message::WhenAlone;
use fleet::roster::{Memory, Plan, WhenLost};
use fleet::server::Server;
use results::Ending;
use solution::{Solution, TestKind};

use super::console::Console;
use super::drill::{FleetTests, drill_of, kinds, number_of};
use super::{read_credentials, this_program};
use crate::failure::{Failure, Status};
use crate::output::tell;
use crate::run_cmd::{Require, new_run_folder, utc_stamp};
use crate::sign::SignArguments;

/// A run on the hosts of a fleet, as asked for.
pub struct FleetRun<'a> {
    /// What is run.
    pub solution: &'a Solution,
    /// Folder of the credentials.
    pub fleet: &'a Path,
    /// Server to start for the bus.
    pub nats_server: Option<&'a str>,
    /// Folder of a run to be taken up.
    pub resume: Option<&'a Path>,
    /// Kinds of tests; all if empty.
    pub tests: &'a [TestKind],
    /// Folder of the run folders.
    pub out: &'a Path,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Say what would be done only.
    pub dry_run: bool,
    /// Allow databases on a memory file system.
    pub allow_memory: bool,
    /// Agents may be another build of this version.
    pub any_build: bool,
    /// What the run has to prove for exit status 0.
    pub require: Require,
    /// Key that signs the merged evidence.
    pub sign: &'a SignArguments,
}

fn could_not(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run(format!("cannot {what} {}", path.display())).because(error)
}

fn stopped(error: ControllerError) -> Failure {
    let help = match &error {
        ControllerError::NotTheController(_) => "name the folder that `proofload fleet init` made",
        ControllerError::Folder { .. } => "name the folder of a run that `proofload run --fleet` began",
        ControllerError::File { .. } => "check the permissions and the space on that disk",
        ControllerError::Bus(_) => {
            "start nats-server with the configuration in the folder of credentials, or say --nats-server"
        }
        ControllerError::Server(_) => "a server may run there already: then leave --nats-server out",
        ControllerError::Superseded => "the other one goes on; only one of them is needed",
    };
    Failure::could_not_run(error.to_string()).help(help)
}

impl FleetRun<'_> {
    /// Conducts the run to its end, and reports.
    pub fn conduct(&self) -> Result<Status, Failure> {
        let key = self.sign.key()?;
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
        let folder = match self.resume {
            Some(folder) => folder.to_owned(),
            None => {
                self.announce(&hosts)?;
                if self.dry_run {
                    say!("nothing was written (--dry-run)");
                    return Ok(Status::Pass);
                }
                new_run_folder(self.out, &self.solution.name)?
            }
        };
        let mut controller = match self.resume {
            Some(_) => Controller::resume(credentials, &folder),
            None => Controller::new(credentials, &folder, self.plan(&folder, hosts)?),
        }
        .map_err(stopped)?;
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
            if let Some(program) = self.nats_server {
                let server = Server::start(program, self.fleet).map_err(ControllerError::Server)?;
                controller = controller.with_server(server);
            }
            let result = controller.conduct(&mut console).await;
            result.map(|()| controller.memory().clone())
        });
        console.clear();
        let memory = conducted
            .map_err(|error| Failure::could_not_run("the controller cannot start").because(error))?
            .map_err(stopped)?;
        self.report(&folder, &memory, started.elapsed(), key)
    }

    /// What will be written where.
    fn announce(&self, hosts: &[String]) -> Result<(), Failure> {
        let chosen = FleetTests::chosen(self.solution, self.tests)?;
        say!("{}: will write on {} hosts", self.solution.name, hosts.len());
        for host in hosts {
            let deployment = match &chosen.drill {
                Some(drill) => drill.site.holdings(number_of(drill, host)?),
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
            build: (!self.any_build).then_some(program.build),
            hosts,
            solution: self.solution.text().to_owned(),
            tests: self.tests.iter().map(|kind| kind.name().to_owned()).collect(),
            seed: self.seed,
            allow_memory: self.allow_memory,
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
        let judged = crate::report_cmd::render(folder)?.verdict;
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
            Ending::Completed | Ending::Aborted => self.require.status(judged.grade),
        })
    }
}

/// That a controller takes up the run of another one: how that one ended, and what it had collected.
fn takes_up(before: &Predecessor, memory: &Memory) -> String {
    let epoch = before.epoch;
    let end = match before.end {
        PredecessorEnd::Ended => format!("controller {epoch} ended in good order"),
        PredecessorEnd::Died(Some(last_ms)) => {
            format!("controller {epoch} died, its last sign of life is of {} UTC", utc_stamp(last_ms / 1000))
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
        error => could_not("merge the evidence in", folder, &error),
    }
}
