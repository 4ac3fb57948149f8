//! `proofload plan`: sizing, copy layout, failures, targets and search, without touching a disk under test.

use std::path::{Path, PathBuf};

use plan::search::{Catalogue, search};
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{data, write_file};

/// Sizes a solution, lays out its copies and finds the worst failure.
#[derive(clap::Args)]
pub struct PlanArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
    /// Write the plan as a page as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also look at the loss of these hosts, enclosures and sites together: "Site A + SERVER1". Can be repeated.
    #[arg(long, value_name = "NAMES")]
    scenario: Vec<String>,
    /// Write the planned targets of the tests into the solution file; shows the change, and makes it only with --yes.
    #[arg(long, conflicts_with_all = ["json", "search"])]
    write_targets: bool,
    /// Make the change that --write-targets shows.
    #[arg(long, requires = "write_targets")]
    yes: bool,
    /// Look for the designs with the fewest disks and servers in a catalogue.
    #[arg(long, value_name = "CATALOGUE.toml", conflicts_with_all = ["html", "scenario"])]
    search: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &PlanArguments) -> Result<Status, Failure> {
    let solution = arguments.solution.read()?;
    if let Some(catalogue) = &arguments.search {
        return find(&solution, catalogue, arguments.json);
    }
    // What the command line got wrong is told without a place in the file.
    let named = plan::named(&solution, &arguments.scenario)
        .map_err(|(message, help)| Failure::wrong_input(message).help(help))?;
    let planned = plan::plan(&solution, &named)?;
    let status = if planned.passed { Status::Pass } else { Status::VerdictFail };
    if let Some(page) = &arguments.html {
        write_file(page, &plan::html(&planned))?;
    }
    if arguments.write_targets {
        write_targets(&arguments.solution.file, &solution, &planned, arguments.yes)?;
    } else if arguments.json {
        data(&format!("{}\n", planned.json()))?;
    } else {
        data(&plan::terminal(&planned))?;
    }
    Ok(status)
}

fn find(solution: &Solution, path: &Path, json: bool) -> Result<Status, Failure> {
    let catalogue = Catalogue::parse(&inputs::text(path)?, &path.display().to_string())?;
    let found = search(solution, &catalogue)?;
    data(&if json { format!("{}\n", found.json()) } else { found.terminal() })?;
    Ok(if found.front.is_empty() { Status::VerdictFail } else { Status::Pass })
}

fn write_targets(path: &Path, solution: &Solution, planned: &plan::Plan, yes: bool) -> Result<(), Failure> {
    if let Some(setting) = solution.settings().next() {
        let message = format!("targets of other values than the file's are not written: {}", setting.text());
        return Err(
            Failure::wrong_input(message).help("write the value into the file, or leave the setting out")
        );
    }
    let edit = plan::write_targets(solution, &planned.targets)?;
    if edit.diff.is_empty() {
        say!("{} says so already", path.display());
        return Ok(());
    }
    data(&edit.diff)?;
    if !yes {
        say!("not written; add --yes to write {}", path.display());
        return Ok(());
    }
    evidence::folder::replace(path, &edit.text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    say!("wrote {}", path.display());
    Ok(())
}
