//! `proofload capacity`: how many mailboxes a solution carries, by arithmetic, by simulation and on real storage.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use capacity::{Capacity, Case, Share, Simulating, Variant, Vary, by_plan, by_simulation, cases, together};
use plan::search::Catalogue;
use simulation::Assumptions;

use crate::case_files::CaseFiles;
use crate::climb::{ClimbArguments, climb};
use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{json, tell, write_new};

/// Finds how many mailboxes a solution carries with its worst failure, and what binds.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("kept").args(["run", "case"]))]
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
    #[command(flatten)]
    climb: ClimbArguments,
    /// Measure each load until its figures are known to PERCENT % (`simulate --until`).
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
    /// Answer only share K of N of the cases (the solution as described, then each value of --vary), each into a file
    /// in --out. Several machines divide a list that way.
    #[arg(
        long, value_name = "K/N", value_parser = Share::of_argument, requires = "out",
        conflicts_with_all = ["run", "merge", "write", "json"]
    )]
    case: Option<Share>,
    /// Print the answer from the cases that --case has answered into this folder, with the same options.
    #[arg(long, value_name = "FOLDER", conflicts_with = "run")]
    merge: Option<PathBuf>,
    /// Folder for the answers of --case; folder in which each --run has a folder of its own (runs).
    #[arg(long, value_name = "FOLDER", requires = "kept")]
    out: Option<PathBuf>,
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
    let assumptions = inputs::assumptions(arguments.assumptions.as_deref())?;
    if let (Some(share), Some(folder)) = (arguments.case, &arguments.out) {
        let files = CaseFiles::new(folder, &cases, &options(arguments, &assumptions));
        return files.answer(share, |cases| variants(arguments, cases, &assumptions));
    }
    let (answer, status) = answered(arguments, &cases, &assumptions)?;
    let Some(answer) = answer else { return status };
    if let (Some(file), Some(carried)) = (&arguments.write, answer.carried()) {
        write_new(file, capacity::scaled(&cases[0].solution, carried)?.text().as_bytes())?;
    }
    let told = if arguments.json { json(&answer) } else { tell(&answer.text()) };
    told?;
    match status? {
        Status::Pass if !answer.suffices() => Ok(Status::VerdictFail),
        status => Ok(status),
    }
}

/// The answer if there is one, and how the search for it ended.
fn answered(
    arguments: &CapacityArguments,
    cases: &[Case],
    assumptions: &Assumptions,
) -> Result<(Option<Capacity>, Result<Status, Failure>), Failure> {
    let solution = &cases[0].solution;
    if arguments.climb.run {
        let out = arguments.out.as_deref().unwrap_or(Path::new("runs"));
        return climb(&arguments.climb, solution, arguments.seed, arguments.until, out);
    }
    let variants = match &arguments.merge {
        Some(folder) => Some(CaseFiles::new(folder, cases, &options(arguments, assumptions)).merge()?),
        None => variants(arguments, cases, assumptions)?,
    };
    let Some(variants) = variants else { return Ok((None, Ok(Status::Interrupted))) };
    Ok((Some(together(solution, variants)?), Ok(Status::Pass)))
}

/// The answer for each case by plan, and by simulation unless only the plan is asked for; `None` if interrupted.
fn variants(
    arguments: &CapacityArguments,
    cases: &[Case],
    assumptions: &Assumptions,
) -> Result<Option<Vec<Variant>>, Failure> {
    if arguments.plan_only {
        return Ok(Some(by_plan(cases)?));
    }
    let interrupts = crate::signals::count_interrupts()?;
    let how = Simulating {
        assumptions,
        until_percent: arguments.until,
        duration_s: arguments.duration,
        interrupted: &|| interrupts.load(Ordering::SeqCst) > 0,
    };
    Ok(by_simulation(cases, how, arguments.seed, &mut |line| say!("{line}"))?)
}

/// Options that decide the answers of the cases, as text.
fn options(arguments: &CapacityArguments, assumptions: &Assumptions) -> String {
    let CapacityArguments { plan_only, until, duration, seed, .. } = arguments;
    format!("{plan_only} {until} {duration:?} {seed} {:?}", assumptions.sources())
}
