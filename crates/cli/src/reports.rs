//! The report of a run: rendered from its `run.db`.

use std::path::Path;

use evidence::{Report, load};

use crate::failure::Failure;

/// Makes the report of the run in `folder`. If there is none, `failure` makes the error, because it depends on the
/// command whose fault that is.
pub fn rendered(folder: &Path, failure: fn(String) -> Failure) -> Result<Report, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| failure(format!("no report of {}", folder.display())).because(error);
    let data = load(&folder.join("run.db")).map_err(|error| failed(&error))?;
    Report::new(&data).map_err(|error| failed(&error))
}

/// Writes the report of a run into its folder.
pub fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::could_not_run(format!("no report of {}", folder.display())).because(error);
    report.write(folder).map_err(failed)
}

/// Writes the report of the run that this command has made in `folder`, and gives it.
pub fn render(folder: &Path) -> Result<Report, Failure> {
    let report = rendered(folder, Failure::could_not_run)?;
    write(&report, folder)?;
    Ok(report)
}

/// Prints a page to a PDF beside it, with an installed Chromium.
#[cfg(feature = "pdf")]
pub fn print(page: &Path) -> Result<(), Failure> {
    let pdf = page.with_extension("pdf");
    review::pdf::print(page, &pdf).map_err(|error| {
        Failure::could_not_run(format!("cannot write {}", pdf.display())).help(error.help()).because(error)
    })?;
    say!("wrote {}", pdf.display());
    Ok(())
}
