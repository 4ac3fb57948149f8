//! `proofload fleet`: credentials, a run on many hosts, the agent of a host, and the process of a drill.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fleet::agent::Agent;
use fleet::choice::drill_of;
use fleet::credentials::make;
use fleet::drill::CopyProcess;
use fleet::host_work::HostTests;
use review::answers::FleetMade;

use crate::failure::{Failure, Status};
use crate::fleet_run::{self, FleetResumeArguments, FleetRunArguments, read_credentials, this_program};

/// Runs a solution on many hosts at once, in step.
#[derive(clap::Args)]
pub struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(clap::Subcommand)]
enum FleetCommand {
    Init(InitArguments),
    Run(FleetRunArguments),
    Resume(FleetResumeArguments),
    Agent(AgentArguments),
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
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

/// Serves this host to a controller: waits for runs, carries them out, keeps the evidence until the controller has it.
#[derive(clap::Args)]
struct AgentArguments {
    /// Credentials of this host: a file that `proofload fleet init` made.
    #[arg(value_name = "CREDENTIALS")]
    credentials: PathBuf,
    /// Folder in which the agent keeps its state and its evidence.
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
    /// Runs may write only below this folder; may be given several times. Without it a controller chooses any
    /// folder that this agent's user may create.
    #[arg(long, value_name = "FOLDER")]
    allow: Vec<PathBuf>,
}

/// Holds the copies of a host during a drill. Only an agent starts it.
#[derive(clap::Args)]
pub struct WorkArguments {}

/// Runs the command that [`fleet::drill::COMMAND`] names.
pub fn work(_: &WorkArguments) -> Result<Status, Failure> {
    let Some(process) = CopyProcess::started() else {
        return Err(Failure::wrong_input("this command is started by `proofload fleet agent`"));
    };
    let held = hold(process);
    if let Err(failure) = &held {
        let help = failure.remedy().map_or(String::new(), |help| format!(" ({help})"));
        CopyProcess::fail(&format!("{failure}{help}"));
    }
    held.map(|()| Status::Pass)
}

fn hold(process: CopyProcess) -> Result<(), Failure> {
    let planned = drill_of(&process.purpose.solution, &process.purpose.tests)?;
    let planned = planned.ok_or_else(|| Failure::wrong_input("the solution file has no drill"))?;
    let credentials = read_credentials(&process.purpose.credentials)?;
    process
        .hold(&planned, &credentials, |text| say!("{text}"))
        .map_err(|error| Failure::could_not_run("the copies cannot go on").because(error))
}

/// Runs the command `fleet`.
pub fn run(arguments: &FleetArguments) -> Result<Status, Failure> {
    match &arguments.command {
        FleetCommand::Init(arguments) => init(arguments),
        FleetCommand::Run(arguments) => fleet_run::run(arguments),
        FleetCommand::Resume(arguments) => fleet_run::resume(arguments),
        FleetCommand::Agent(arguments) => agent(arguments),
    }
}

fn init(InitArguments { folder, hosts, address, json }: &InitArguments) -> Result<Status, Failure> {
    make(folder, hosts, address)?;
    let file = |host: &String| format!("agents/{}.toml", fleet::subjects::token(host));
    if *json {
        crate::stdout::json(&FleetMade::of(folder, hosts.iter().map(|host| (host.clone(), file(host)))))?;
    }
    say!("made {}:", folder.display());
    for host in hosts {
        say!("  {}  for {host}: proofload fleet agent FILE --state FOLDER", file(host));
    }
    say!("  controller.toml  stays here: proofload fleet run SOLUTION.toml --fleet {}", folder.display());
    say!(
        "  nats-server.conf  for the bus at {address}: nats-server -c nats-server.conf, started in that folder"
    );
    Ok(Status::Pass)
}

/// Runs `fleet agent`, until it is asked to end or cannot go on.
fn agent(arguments: &AgentArguments) -> Result<Status, Failure> {
    let credentials = read_credentials(&arguments.credentials)?;
    let host = credentials.name.clone();
    let program = this_program()?;
    let work = Arc::new(HostTests {
        tool_version: program.version.clone(),
        build: crate::BUILD.to_owned(),
        credentials: arguments.credentials.clone(),
        allowed: arguments.allow.clone(),
        say: |text| say!("{text}"),
    });
    let agent = Agent::new(credentials, &arguments.state, program, work)?;
    say!("agent of {host}, proofload {}", crate::VERSION);
    let interrupts = crate::signals::count_interrupts()?;
    let end_asked = || interrupts.load(Ordering::SeqCst) > 0;
    let served = fleet::run(agent.serve(|text| say!("{text}"), end_asked));
    served
        .map_err(|error| Failure::could_not_run("the agent cannot start").because(error))?
        .map_err(|error| Failure::could_not_run("the agent cannot go on").because(error))?;
    Ok(Status::Pass)
}
