//! `proofload report`: the evidence of a run, rendered again or handed on as data.

use std::path::{Path, PathBuf};

use evidence::{Report, load};

use crate::failure::{Failure, Status};
use crate::output::data;

/// Renders the evidence of a run again, also of one that was killed.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// The folder of a run.
    #[arg(value_name = "RUN", required_unless_present = "schema")]
    run: Option<PathBuf>,
    /// Write the series as series.csv and counters.csv into this folder, and nothing else.
    #[arg(long, value_name = "FOLDER", conflicts_with = "json")]
    csv: Option<PathBuf>,
    /// Print report.json on stdout, and write nothing.
    #[arg(long)]
    json: bool,
    /// Print report.html to report.pdf with an installed Chromium.
    #[cfg(feature = "pdf")]
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pdf: bool,
    /// Print the JSON schema of report.json on stdout.
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Runs the command.
pub fn report(arguments: &ReportArguments) -> Result<Status, Failure> {
    let Some(run) = &arguments.run else {
        let schema = serde_json::to_string_pretty(&Report::schema()).expect("a schema has only text keys");
        return data(&format!("{schema}\n")).map(|()| Status::Pass);
    };
    let db = run_db(run)?;
    if let Some(folder) = &arguments.csv {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not_run(format!("no series of {}", run.display())).because(error)
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        for path in evidence::csv::write_series(&db, folder).map_err(|error| failed(&error))? {
            say!("wrote {}", path.display());
        }
    } else if arguments.json {
        data(&rendered(run)?.json())?;
    } else {
        render(run)?;
        say!("wrote {0}/report.html, {0}/report.json, {0}/junit.xml", run.display());
        #[cfg(feature = "pdf")]
        if arguments.pdf {
            crate::pdf::print(&run.join("report.html"))?;
        }
    }
    Ok(Status::Pass)
}

/// The `run.db` of a run folder.
pub fn run_db(run: &Path) -> Result<PathBuf, Failure> {
    let path = run.join("run.db");
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("{} holds no run.db", run.display());
    Err(Failure::wrong_input(message).help("name a folder that `proofload run` made"))
}

fn no_report(folder: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run(format!("no report of {}", folder.display())).because(error)
}

fn rendered(folder: &Path) -> Result<Report, Failure> {
    let data = load(&folder.join("run.db")).map_err(|error| no_report(folder, &error))?;
    Report::new(&data).map_err(|error| no_report(folder, &error))
}

/// Writes the report of the run in `folder` from its `run.db`, and gives it.
pub fn render(folder: &Path) -> Result<Report, Failure> {
    let report = rendered(folder)?;
    report.write(folder).map_err(|error| no_report(folder, &error))?;
    Ok(report)
}
