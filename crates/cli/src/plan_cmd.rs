//! `proofload plan`: sizing, copy layout, failures, targets and search, without touching a disk under test.

use std::path::{Path, PathBuf};

use plan::search::{Catalogue, search};
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{data, write_file, write_new};

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
    #[arg(long, group = "writes", conflicts_with_all = ["json", "search"])]
    write_targets: bool,
    /// Write down the instances that `run` and `simulate` take from the plan where the file has none.
    #[arg(long, group = "writes", conflicts_with_all = ["json", "search"])]
    write_instances: bool,
    /// Write what builds the planned group into an empty or new folder: tables of the calculator, scripts, inventory.
    #[arg(long, value_name = "FOLDER", conflicts_with = "search")]
    export: Option<PathBuf>,
    /// Make the change that --write-targets or --write-instances shows.
    #[arg(long, requires = "writes")]
    yes: bool,
    /// Look for the designs with the fewest disks and servers in a catalogue; in the shipped one (`examples catalogue`)
    /// where no file follows.
    #[arg(long, value_name = "CATALOGUE.toml", num_args = 0..=1, conflicts_with_all = ["html", "scenario"])]
    search: Option<Option<PathBuf>>,
}

/// Runs the command.
pub fn run(arguments: &PlanArguments) -> Result<Status, Failure> {
    let solution = arguments.solution.read()?;
    if let Some(catalogue) = &arguments.search {
        return find(&solution, catalogue.as_deref(), arguments.json);
    }
    // What the command line got wrong is told without a place in the file.
    let named = plan::named(&solution, &arguments.scenario)
        .map_err(|(message, help)| Failure::wrong_input(message).help(help))?;
    let planned = plan::plan(&solution, &named)?;
    let status = if planned.passed { Status::Pass } else { Status::VerdictFail };
    if let Some(page) = &arguments.html {
        write_file(page, &plan::html(&planned, evidence::report::STYLE))?;
    }
    if let Some(folder) = &arguments.export {
        export(folder, &solution, &planned)?;
    }
    if arguments.write_targets || arguments.write_instances {
        write(arguments, &solution, &planned)?;
    } else if arguments.json {
        data(&format!("{}\n", planned.json()))?;
    } else {
        data(&plan::terminal(&planned))?;
    }
    Ok(status)
}

fn find(solution: &Solution, path: Option<&Path>, json: bool) -> Result<Status, Failure> {
    let catalogue = match path {
        Some(path) => Catalogue::parse(&inputs::text(path)?, &path.display().to_string())?,
        None => Catalogue::shipped()?,
    };
    let found = search(solution, &catalogue)?;
    data(&if json { format!("{}\n", found.json()) } else { found.terminal() })?;
    Ok(if found.front.is_empty() { Status::VerdictFail } else { Status::Pass })
}

fn export(folder: &Path, solution: &Solution, planned: &plan::Plan) -> Result<(), Failure> {
    refuse_settings(solution)?;
    let shown = folder.display();
    let failed = |error| Failure::could_not_run(format!("cannot make {shown}")).because(error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    if std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
        let help = "name a folder that is empty or does not exist yet";
        return Err(Failure::wrong_input(format!("{shown} is not empty")).help(help));
    }
    for (name, text) in plan::export(solution, planned)? {
        write_new(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Refuses `--set` where something is written into or beside the file: it must follow from the file alone.
fn refuse_settings(solution: &Solution) -> Result<(), Failure> {
    let Some(setting) = solution.settings().next() else { return Ok(()) };
    let message = format!("a plan with other values than the file's is not written: {}", setting.text());
    Err(Failure::wrong_input(message).help("write the value into the file, or leave the setting out"))
}

fn write(arguments: &PlanArguments, solution: &Solution, planned: &plan::Plan) -> Result<(), Failure> {
    let path = arguments.solution.file.display();
    refuse_settings(solution)?;
    let edit = if arguments.write_targets { plan::write_targets } else { plan::write_instances };
    let edit = edit(solution, planned)?;
    if edit.diff.is_empty() {
        say!("{path} says so already");
        return Ok(());
    }
    data(&edit.diff)?;
    if !arguments.yes {
        say!("not written; add --yes to write {path}");
        return Ok(());
    }
    evidence::folder::replace(&arguments.solution.file, &edit.text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {path}")).because(error))?;
    say!("wrote {path}");
    Ok(())
}
