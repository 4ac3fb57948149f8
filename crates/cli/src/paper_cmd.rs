//! `proofload paper`: the solution paper.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evidence::folder;
use review::Source;
use review::answers::{Made, Papered};
use review::paper::{PaperError, file_name, paper};

use crate::failure::{Failure, Status};
use crate::inputs::{self, SolutionArguments};
use crate::stdout::{json, write_file};

/// Writes the solution paper (HTML and Markdown) from a solution file and the runs of it.
#[derive(clap::Args)]
pub struct PaperArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Folders of the runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Folder to write to: paper.html, paper.md and the reports as appendices.
    #[arg(long, value_name = "DIR", default_value = "paper")]
    out: PathBuf,
    /// The runs are simulated, and the paper says so everywhere.
    #[arg(long)]
    simulated: bool,
    /// Replace what lies in the folder, also where it was changed by hand.
    #[arg(long)]
    overwrite: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
    /// Print paper.html to paper.pdf with an installed Chromium.
    #[cfg(feature = "pdf")]
    #[arg(long)]
    pdf: bool,
}

/// Runs the command.
pub fn run(arguments: &PaperArguments) -> Result<Status, Failure> {
    let solution = arguments.solution.read()?;
    let plan = plan::plan(&solution, &[])?;
    let mut reports = Vec::new();
    for path in &arguments.runs {
        match inputs::evidence(path)? {
            Source::Run { report, .. } | Source::Report(report) => reports.push(*report),
            Source::Printed(_) => {
                let message = format!("{} holds printed figures, not a run", path.display());
                return Err(Failure::wrong_input(message).help("first `proofload import` them"));
            }
        }
    }
    let document = paper(&solution, &plan, &reports, arguments.simulated).map_err(|error| {
        let help = match &error {
            PaperError::Simulated(_) => "add --simulated for a paper that says so everywhere",
            PaperError::Mixed { .. } => "write one paper for each",
            PaperError::Changed { .. } => {
                "publish the run as it was recorded; `proofload lint RUN` names each change"
            }
            _ => "name the solution file that the runs were made with",
        };
        Failure::wrong_input("no paper is written").because(&error).help(help)
    })?;
    let mut pages =
        vec![("paper.html".to_owned(), document.html()), ("paper.md".to_owned(), document.markdown())];
    for (n, report) in reports.iter().enumerate() {
        let page = report
            .html()
            .map_err(|error| Failure::could_not_run("cannot write an appendix").because(error))?;
        pages.push((file_name(n), page));
    }
    let unusable = |error| Failure::could_not_run("cannot use the folder").because(error);
    folder::check(&arguments.out).map_err(unusable)?;
    if !arguments.overwrite {
        keep_changes(&arguments.out, &pages)?;
    }
    let names = pages.iter().map(|(name, _)| name.clone());
    let files: Vec<String> = names.chain(["paper.pdf".to_owned()]).collect();
    let _claim = folder::take(&arguments.out, &solution.name, &files).map_err(unusable)?;
    for (name, page) in &pages {
        write_file(&arguments.out.join(name), page)?;
    }
    #[cfg(feature = "pdf")]
    if arguments.pdf {
        crate::reports::print(&arguments.out.join("paper.html"))?;
    }
    if arguments.json {
        json(&Papered { schema_version: 1, made: Made::of(&arguments.out, &files) })?;
    }
    Ok(Status::Pass)
}

/// Refuses to replace a paper that its author has changed: its text is no longer what its page says.
fn keep_changes(folder: &Path, pages: &[(String, String)]) -> Result<(), Failure> {
    let mut changed: Vec<&str> = Vec::new();
    for (name, page) in pages {
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) if bytes == page.as_bytes() => {}
            Ok(_) => changed.push(name),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let message = format!("cannot read {}", path.display());
                return Err(Failure::could_not_run(message).because(error));
            }
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let message = format!("no paper is written into {}", folder.display());
    let cause =
        format!("what was written there by hand would be lost: other text is in {}", changed.join(", "));
    let help = "write into another folder with --out and take your text over, or replace it with --overwrite";
    Err(Failure::wrong_input(message).because(cause).help(help))
}
