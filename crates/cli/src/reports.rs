//! The report of a run: rendered from its `run.db`.

use std::path::Path;

use evidence::{Report, load};

use crate::failure::Failure;

fn no_report(folder: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run(format!("no report of {}", folder.display())).because(error)
}

/// The report of the run in `folder`.
pub fn rendered(folder: &Path) -> Result<Report, Failure> {
    let data = load(&folder.join("run.db")).map_err(|error| no_report(folder, &error))?;
    Report::new(&data).map_err(|error| no_report(folder, &error))
}

/// Writes the report of the run in `folder` from its `run.db`, and gives it.
pub fn render(folder: &Path) -> Result<Report, Failure> {
    let report = rendered(folder)?;
    report.write(folder).map_err(|error| no_report(folder, &error))?;
    Ok(report)
}
