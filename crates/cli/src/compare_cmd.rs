//! `proofload compare`: runs of any kind side by side.

use std::path::PathBuf;

use review::compare::{Subject, compare};

use crate::failure::{Failure, Status};
use crate::inputs;
use crate::output::printable;
use crate::stdout::{data, tell, write_file};

/// Compares runs: measured, simulated, imported, or published figures.
///
/// The first run is the baseline.
#[derive(clap::Args)]
pub struct CompareArguments {
    /// Run folders, run.db, report.json or published figures (.toml).
    #[arg(value_name = "EVIDENCE", required = true, num_args = 2..)]
    evidence: Vec<PathBuf>,
    /// Take every N runs, in the order given, as one group of equal runs: the spread between them gives the
    /// intervals. `compare A1 A2 A3 B1 B2 B3 --group 3` is one comparison.
    #[arg(long, value_name = "N")]
    group: Option<usize>,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
    /// Write the comparison as a page as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with status 1 if a figure is worse than the baseline by more than this, or if a run lacks one of
    /// the baseline's.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 =
        text.trim_end_matches('%').trim().parse().map_err(|_| "write a number, such as 5".to_owned())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("write a number from 0".to_owned()) }
}

/// Runs the command.
pub fn run(arguments: &CompareArguments) -> Result<Status, Failure> {
    let mut subjects = Vec::new();
    for path in &arguments.evidence {
        let subject = Subject::new(&path.display().to_string(), inputs::evidence(path)?);
        subjects.push(subject.map_err(|error| Failure::wrong_input("cannot compare").because(error))?);
    }
    let mut comparison = compare(&subjects);
    if let Some(size) = arguments.group {
        comparison = comparison.grouped(size).map_err(|error| {
            let help = "name two groups or more, each with the same number of runs, 2 or more";
            Failure::wrong_input("cannot compare groups").because(error).help(help)
        })?;
    }
    if let Some(path) = &arguments.html {
        write_file(path, &comparison.html())?;
    }
    if arguments.json {
        data(&comparison.json())?;
    } else {
        tell(&comparison.text())?;
    }
    let Some(limit) = arguments.fail_above else { return Ok(Status::Pass) };
    if let Some((run, misfit)) = comparison.runs.iter().find_map(|run| Some((run, run.changed.as_ref()?))) {
        let message = format!("{} was changed after it was recorded: nothing is judged", run.name);
        return Err(Failure::not_shown(message).because(misfit));
    }
    if let Some(run) = comparison.runs.iter().find(|run| !run.incomparable.is_empty()) {
        let message = format!("{} cannot be judged against {}", run.name, comparison.runs[0].name);
        return Err(Failure::wrong_input(message).because(run.incomparable.join("; ")));
    }
    for (run, test, row) in comparison.unjudged() {
        let unjudged =
            format!("not judged, too short for an interval: {} in {} of {}", row.name, test.name, run.name);
        say!("{}", printable(&unjudged));
    }
    let regressions = comparison.regressions(limit);
    for (run, test, row) in &regressions {
        let worse = format!("worse by more than {limit} %: {} in {} of {}", row.name, test.name, run.name);
        say!("{}", printable(&worse));
    }
    // A run that did not come to the figure must not pass for having no worse one.
    if let Some((run, lacks)) = comparison.missing().into_iter().next() {
        let message = format!("{} has no {} to judge", run.name, lacks.join(", "));
        let cause = format!("{} has it", comparison.runs[0].name);
        return Err(Failure::not_shown(message).because(cause));
    }
    if let Some(run) = comparison.runs.iter().skip(1).find(|run| !comparison.is_judged(run)) {
        let message = format!("no figure of {} can be judged against {}", run.name, comparison.runs[0].name);
        let help = "compare tests of 20 s or more: an interval needs 20 samples";
        return Err(Failure::not_shown(message).because("their tests are too short").help(help));
    }
    Ok(if regressions.is_empty() { Status::Pass } else { Status::VerdictFail })
}
