//! Many hosts, one run: `proofload fleet init`, `proofload agent`, and the `--fleet` of `proofload run`.
//!
//! The crate `fleet` brings controller and agents together; here is what they do with it: a host's tests
//! ([`host_work`]), and the controller's view and merged evidence ([`conduct`]).

mod conduct;
mod console;
mod drill;
mod host_work;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fleet::agent::{Agent, AgentError};
use fleet::credentials::{Credentials, CredentialsError, make};
use fleet::drill::CopyProcess;
use fleet::message::Program;
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::run_cmd::RunArguments;
use conduct::FleetRun;

/// Prepares runs on many hosts.
#[derive(clap::Args)]
pub struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(clap::Subcommand)]
enum FleetCommand {
    Init(InitArguments),
}

/// Makes the credentials of a fleet: one file per host, one for the controller, and the bus's configuration.
#[derive(clap::Args)]
struct InitArguments {
    /// Folder to make; it must not exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Hosts, by their names in the solution file.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    hosts: Vec<String>,
    /// Where the agents reach nats-server.
    #[arg(long, value_name = "HOST:PORT")]
    address: String,
}

/// Serves this host to a controller: waits for runs, carries them out, keeps the evidence until the controller has it.
#[derive(clap::Args)]
pub struct AgentArguments {
    /// Credentials of this host: a file that `proofload fleet init` made.
    #[arg(value_name = "CREDENTIALS")]
    credentials: PathBuf,
    /// Folder of what the agent must not forget, and of its evidence.
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
    /// Runs may write only below this folder; may be given several times. Without it a controller chooses any folder that
    /// this agent's user may create.
    #[arg(long, value_name = "FOLDER")]
    allow: Vec<PathBuf>,
}

/// What `run --fleet` would do with a solution, in words.
pub fn outlook(solution: &Solution) -> Result<String, Failure> {
    let hosts = solution.hosts_under_test();
    hosts.iter().try_for_each(|host| solution.deployment(Some(&host.name)).map(drop))?;
    let chosen = drill::FleetTests::chosen(solution, &[])?;
    let drill = if chosen.drill.is_some() { " and a drill" } else { "" };
    Ok(format!("{} tests{drill} on {} hosts at once", chosen.tests.len(), hosts.len()))
}

/// Holds the copies of a host during a drill. An agent starts it; it is no command for people.
#[derive(clap::Args)]
pub struct WorkArguments {}

/// Runs the command that [`fleet::drill::COMMAND`] names.
pub fn work(_: &WorkArguments) -> Result<Status, Failure> {
    let Some(process) = CopyProcess::started() else {
        return Err(Failure::wrong_input("this command is started by `proofload agent`"));
    };
    let held = hold(process);
    if let Err(failure) = &held {
        CopyProcess::fail(&failure.line());
    }
    held.map(|()| Status::Pass)
}

fn hold(process: CopyProcess) -> Result<(), Failure> {
    let planned = drill::drill_of(&process.purpose.solution, &process.purpose.tests)?;
    let planned = planned.ok_or_else(|| Failure::wrong_input("the solution file has no drill"))?;
    let credentials = read_credentials(&process.purpose.credentials)?;
    process
        .hold(&planned, &credentials, |text| say!("{text}"))
        .map_err(|error| Failure::could_not_run("the copies cannot go on").because(error))
}

/// Runs `run --fleet`, with the credentials in the folder `fleet`.
pub fn conduct(arguments: &RunArguments, solution: &Solution, fleet: &Path) -> Result<Status, Failure> {
    let order = FleetRun {
        solution,
        fleet,
        nats_server: arguments.nats_server.as_deref(),
        resume: arguments.resume.as_deref(),
        tests: &arguments.tests,
        out: &arguments.out,
        seed: arguments.seed,
        dry_run: arguments.dry_run,
        allow_memory: arguments.allow_memory,
        any_build: arguments.any_build,
        require: arguments.require,
        sign: &arguments.sign,
    };
    order.conduct()
}

/// Runs the command `fleet`.
pub fn run(arguments: &FleetArguments) -> Result<Status, Failure> {
    let FleetCommand::Init(InitArguments { folder, hosts, address }) = &arguments.command;
    make(folder, hosts, address).map_err(refused)?;
    say!("made {}:", folder.display());
    for host in hosts {
        say!(
            "  agents/{}.toml  for {host}: proofload agent FILE --state FOLDER",
            fleet::subjects::token(host)
        );
    }
    say!("  controller.toml  stays here: proofload run SOLUTION.toml --fleet {}", folder.display());
    say!(
        "  nats-server.conf  for the bus at {address}: nats-server -c nats-server.conf, started in that folder"
    );
    Ok(Status::Pass)
}

/// Runs the command `agent`, until it is asked to end or cannot go on.
pub fn agent(arguments: &AgentArguments) -> Result<Status, Failure> {
    let credentials = read_credentials(&arguments.credentials)?;
    let host = credentials.name.clone();
    let (credentials_file, allowed) = (arguments.credentials.clone(), arguments.allow.clone());
    let work = Arc::new(host_work::Tests { credentials: credentials_file, allowed });
    let agent = Agent::new(credentials, &arguments.state, this_program()?, work).map_err(|error| {
        let failure = match &error {
            AgentError::NotAHost => Failure::wrong_input(error.to_string()),
            _ => Failure::could_not_run(error.to_string()),
        };
        match &error {
            AgentError::NotAHost => failure.help("name a file below agents/"),
            AgentError::Locked(_) => failure.help("run one agent per host, or give each its own --state"),
            _ => failure,
        }
    })?;
    say!("agent of {host}, proofload {}", env!("CARGO_PKG_VERSION"));
    let interrupts = Arc::new(AtomicU32::new(0));
    crate::signals::count_interrupts(&interrupts)?;
    let end_asked = || interrupts.load(Ordering::SeqCst) > 0;
    let served = fleet::run(agent.serve(|text| say!("{text}"), end_asked));
    served
        .map_err(|error| Failure::could_not_run("the agent cannot start").because(error))?
        .map_err(|error| Failure::could_not_run("the agent cannot go on").because(error))?;
    Ok(Status::Pass)
}

fn this_program() -> Result<Program, Failure> {
    Program::running(env!("CARGO_PKG_VERSION")).map_err(|error| {
        Failure::could_not_run("the file of this program cannot be read, so builds cannot be compared")
            .because(error)
            .help("mount /proc")
    })
}

fn read_credentials(path: &Path) -> Result<Credentials, Failure> {
    let credentials = Credentials::read(path).map_err(refused)?;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        say!("warning: other users can use {0}; run chmod 600 {0}", path.display());
    }
    Ok(credentials)
}

fn refused(error: CredentialsError) -> Failure {
    let help = match &error {
        CredentialsError::File { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            "credentials are never overwritten: name a folder that does not exist"
        }
        CredentialsError::File { .. } => "`proofload fleet init` makes credentials",
        CredentialsError::Foreign { .. } => "name a file that `proofload fleet init` made",
        CredentialsError::Names(_) => "write --hosts a,b,c, each host once",
        CredentialsError::Address(_) => "for example --address 192.0.2.10:4222",
        CredentialsError::Keys(_) => "try again",
    };
    Failure::wrong_input(error.to_string()).help(help)
}
