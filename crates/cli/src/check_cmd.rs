//! `proofload check`: is a solution file right, and what would each command make of it? Nothing is written or
//! simulated.

use std::path::PathBuf;

use campaign::choice::tests_but_drills;
use evidence::report::{bytes, counted, duration};
use review::answers::{Checked, Outlook, ToldMistake};
use simulation::{Assumptions, Effort, Planned, Wishes};
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{json, tell};

/// Checks a solution file: all its mistakes at once, or what each command would do.
#[derive(clap::Args)]
pub struct CheckArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Replace values of the storage models by this file, as `simulate` does.
    #[arg(long, value_name = "FILE")]
    assumptions: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &CheckArguments) -> Result<Status, Failure> {
    let file = arguments.solution.file.display().to_string();
    let text = inputs::text(&arguments.solution.file)?;
    let assumptions = inputs::assumptions(arguments.assumptions.as_deref())?;
    let mut answer = Checked { schema_version: 1, file, solution: None, mistakes: vec![], commands: vec![] };
    let parsed = arguments.solution.parse(&text);
    match &parsed {
        Ok(solution) => {
            answer.solution = Some(solution.name.clone());
            answer.commands = outlooks(solution, &assumptions);
        }
        Err(error) => answer.mistakes = ToldMistake::all(error),
    }
    if arguments.json {
        json(&answer)?;
    } else if parsed.is_ok() {
        tell(&answer.text())?;
    }
    parsed?;
    Ok(Status::Pass)
}

/// What each command would make of a solution file without mistakes.
fn outlooks(solution: &Solution, assumptions: &Assumptions) -> Vec<Outlook> {
    let plan = plan::plan(solution, &[]).map_err(Failure::from);
    let solution = &plan::to_run(solution.clone()).unwrap_or_else(|_| solution.clone());
    let paper = match &plan {
        Ok(_) => "the plan and the hardware; the figures come from runs of this file".to_owned(),
        Err(_) => "a paper shows the plan, and `plan` is not ready".to_owned(),
    };
    let (is_planned, plan) = (plan.is_ok(), outlook("plan", plan.map(|plan| plan.verdict)));
    let tested = solution.hosts_under_test().len();
    let mut outlooks = vec![plan, outlook("simulate", simulated(solution, assumptions, 1))];
    if tested > 1 {
        let command = format!("simulate --servers {tested}");
        outlooks.push(outlook(command, simulated(solution, assumptions, tested)));
    }
    let run = if tested > 1 { "run --host NAME" } else { "run" };
    outlooks.push(outlook(run, measured(solution)));
    outlooks.push(outlook("fleet run", crate::fleet_run::outlook(solution)));
    outlooks.push(Outlook { ready: is_planned, ..outlook("paper", Ok(paper)) });
    outlooks
}

/// What `simulate` would do with this number of servers.
fn simulated(solution: &Solution, assumptions: &Assumptions, servers: usize) -> Result<String, Failure> {
    let servers = servers.to_string();
    let wishes = Wishes {
        servers: &servers,
        tests: &[],
        sessions: None,
        duration_s: None,
        until_percent: None,
        seed: 1,
    };
    let planned = Planned::of(solution, &wishes, assumptions)?;
    let effort = planned.effort();
    let Planned { tests, storage, faults, drills, .. } = planned;
    let mut parts = Vec::new();
    if !tests.is_empty() {
        parts.push(format!("{} on {}", counted(tests.len() as u64, "test"), counted_servers(&servers)));
    }
    for (count, what) in [(faults.len(), "fault"), (drills.len(), "drill")] {
        if count > 0 {
            parts.push(counted(count as u64, what));
        }
    }
    let effort = match effort {
        Effort::Known(seconds) => format!("about {} of processor time", duration(seconds)),
        Effort::AsFastAsStorage => {
            "as long as the modelled storage is fast, since the load has no rate: `--until 2` \
                                    ends it once its figures are known to 2 %"
                .to_owned()
        }
    };
    Ok(format!("{}; {storage}; {effort}", parts.join(", ")))
}

fn counted_servers(servers: &str) -> String {
    if servers == "1" { "the first server".into() } else { format!("{servers} servers") }
}

/// What `run` would do on each host under test.
fn measured(solution: &Solution) -> Result<String, Failure> {
    let hosts = solution.hosts_under_test();
    let mut tests = 0;
    for host in &hosts {
        tests = tests_but_drills(&solution.deployment(Some(&host.name))?, &[])?.len();
    }
    let most = hosts.iter().map(|host| host.database_bytes(None)).max().unwrap_or(0);
    let each = if hosts.len() > 1 { " on each host" } else { "" };
    Ok(format!("{}; {} of databases{each}", counted(tests as u64, "test"), bytes(most as f64)))
}

fn outlook(command: impl Into<String>, outcome: Result<String, Failure>) -> Outlook {
    let command = command.into();
    match outcome {
        Ok(message) => Outlook { command, ready: true, message, help: None, line: None },
        Err(failure) => {
            let (message, line) = (failure.to_string(), failure.place_line());
            Outlook { command, ready: false, message, help: failure.remedy().map(str::to_owned), line }
        }
    }
}
