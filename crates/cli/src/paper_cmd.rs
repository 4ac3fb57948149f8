//! `proofload paper`: the solution paper.

use std::path::PathBuf;

use evidence::folder;
use review::Source;
use review::paper::{PaperError, file_name, paper};
use solution::Solution;

use crate::failure::{Failure, Status};
use crate::output::write_file;

/// Writes the solution paper (HTML and Markdown) from a solution file and the runs of it.
#[derive(clap::Args)]
pub struct PaperArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    solution: PathBuf,
    /// Folders of the runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Folder to write to: paper.html, paper.md and the reports as appendices.
    #[arg(long, value_name = "DIR", default_value = "paper")]
    out: PathBuf,
    /// The runs are simulated, and the paper says so everywhere.
    #[arg(long)]
    simulated: bool,
    /// Print paper.html to paper.pdf with an installed Chromium.
    #[cfg(feature = "pdf")]
    #[arg(long)]
    pdf: bool,
}

/// Runs the command.
pub fn run(arguments: &PaperArguments) -> Result<Status, Failure> {
    let name = arguments.solution.display();
    let text = std::fs::read_to_string(&arguments.solution)
        .map_err(|error| Failure::wrong_input(format!("cannot read {name}")).because(error))?;
    let solution = Solution::parse(&text, &name.to_string())?;
    let plan = plan::plan(&solution, &[])?;
    let mut reports = Vec::new();
    for path in &arguments.runs {
        match crate::compare_cmd::open(path)? {
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
            _ => "name the solution file that the runs were made with",
        };
        Failure::wrong_input("no paper is written").because(&error).help(help)
    })?;
    let papers = ["paper.html", "paper.md", "paper.pdf"].map(str::to_owned).into_iter();
    let files: Vec<String> = papers.chain((0..reports.len()).map(file_name)).collect();
    folder::claim(&arguments.out, &solution.file.solution.name, &files)
        .map_err(|error| Failure::could_not_run("cannot use the folder").because(error))?;
    write_file(&arguments.out.join("paper.html"), &document.html())?;
    write_file(&arguments.out.join("paper.md"), &document.markdown())?;
    for (n, report) in reports.iter().enumerate() {
        let page = report
            .html()
            .map_err(|error| Failure::could_not_run("cannot write an appendix").because(error))?;
        write_file(&arguments.out.join(file_name(n)), &page)?;
    }
    #[cfg(feature = "pdf")]
    if arguments.pdf {
        crate::pdf::print(&arguments.out.join("paper.html"))?;
    }
    Ok(Status::Pass)
}
