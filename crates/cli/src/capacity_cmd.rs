//! `proofload capacity`: how many mailboxes a solution carries, by arithmetic and by simulation.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use capacity::{Simulating, Vary, by_plan, by_simulation, cases};
use plan::search::Catalogue;

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{json, tell, write_new};

/// Finds how many mailboxes a solution carries with its worst failure, and what binds.
#[derive(clap::Args)]
pub struct CapacityArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Only the limits of the plan, at once.
    #[arg(long)]
    plan_only: bool,
    /// Also with each of these values in place of the file's: disk=A,B of the file or of --catalogue, copies=[2],[2,1],
    /// or a path as of --set. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE,..", value_parser = Vary::of_argument)]
    vary: Vec<Vary>,
    /// Disks that --vary may name.
    #[arg(long, value_name = "CATALOGUE.toml")]
    catalogue: Option<PathBuf>,
    /// Simulate each load until its figures are known to PERCENT % (`simulate --until`).
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, conflicts_with = "plan_only")]
    until: f64,
    /// Most virtual seconds of a simulation, instead of the performance test's.
    #[arg(long, value_name = "SECONDS", conflicts_with = "plan_only")]
    duration: Option<f64>,
    /// Replace values of the storage models by this file (`simulate --assumptions`).
    #[arg(long, value_name = "FILE")]
    assumptions: Option<PathBuf>,
    /// First seed of the random choices; equal seeds give equal answers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the solution with the mailboxes that it carries into this new file, ready for `simulate`.
    #[arg(long, value_name = "FILE", conflicts_with = "plan_only")]
    write: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command: exit status 1 when fewer mailboxes are carried than the file asks for.
pub fn run(arguments: &CapacityArguments) -> Result<Status, Failure> {
    let solution = arguments.solution.read()?;
    let disks = match &arguments.catalogue {
        Some(path) => Catalogue::parse(&inputs::text(path)?, &path.display().to_string())?.disk,
        None => Vec::new(),
    };
    let cases = cases(solution, &arguments.vary, &disks)?;
    let answer = if arguments.plan_only {
        by_plan(&cases)?
    } else {
        let assumptions = inputs::assumptions(arguments.assumptions.as_deref())?;
        let interrupts = crate::signals::count_interrupts()?;
        let how = Simulating {
            assumptions: &assumptions,
            until_percent: arguments.until,
            duration_s: arguments.duration,
            interrupted: &|| interrupts.load(Ordering::SeqCst) > 0,
        };
        let found = by_simulation(&cases, how, arguments.seed, &mut |line| say!("{line}"))?;
        let Some(answer) = found else { return Ok(Status::Interrupted) };
        answer
    };
    if let (Some(file), Some(carried)) = (&arguments.write, answer.carried()) {
        write_new(file, capacity::scaled(&cases[0].solution, carried)?.text().as_bytes())?;
    }
    let told = if arguments.json { json(&answer) } else { tell(&answer.text()) };
    told?;
    Ok(if answer.suffices() { Status::Pass } else { Status::VerdictFail })
}
