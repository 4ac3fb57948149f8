//! `proofload report`: the evidence of a run, rendered again or handed on as data.

use std::path::PathBuf;

use evidence::{check, misfit};

use crate::failure::{Failure, Status};
use crate::inputs::run_db;
use crate::output::printable;
use crate::reports::{rendered, write};
use crate::sign::SignArguments;
use crate::stdout::data;

/// Renders the evidence of a run again, also of one that was killed.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// The folder of a run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Write the series as series.csv and counters.csv into this folder, and nothing else.
    #[arg(long, value_name = "FOLDER", conflicts_with = "json")]
    csv: Option<PathBuf>,
    /// Print report.json on stdout, and write nothing.
    #[arg(long)]
    json: bool,
    /// Sign attestation.json, an in-toto statement of the result, with the key in this file.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["json", "csv"])]
    sign: Option<PathBuf>,
    /// Print report.html to report.pdf with an installed Chromium.
    #[cfg(feature = "pdf")]
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pdf: bool,
}

/// Runs the command.
pub fn report(arguments: &ReportArguments) -> Result<Status, Failure> {
    let run = &arguments.run;
    let db = run_db(run)?;
    let unread = |error| Failure::wrong_input(format!("no report of {}", run.display())).because(error);
    let changed = misfit(&check(&db).map_err(unread)?.broken);
    changed.iter().for_each(|misfit| say!("{}", printable(misfit)));
    if let Some(folder) = &arguments.csv {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not_run(format!("no series of {}", run.display())).because(error)
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        for path in evidence::csv::write_series(&db, folder).map_err(|error| failed(&error))? {
            say!("wrote {}", path.display());
        }
        return Ok(Status::Pass);
    }
    let sign = SignArguments { sign: arguments.sign.clone() };
    sign.key()?;
    let report = rendered(run, Failure::wrong_input)?;
    if arguments.json {
        data(&report.json())?;
    } else {
        write(&report, run)?;
        say!("wrote {0}/report.html, {0}/report.json, {0}/junit.xml", run.display());
        if changed.is_none() {
            sign.attest(&report, run)?;
        }
        #[cfg(feature = "pdf")]
        if arguments.pdf {
            crate::reports::print(&run.join("report.html"))?;
        }
    }
    Ok(if changed.is_some() { Status::VerdictFail } else { Status::Pass })
}
