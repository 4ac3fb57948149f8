//! How a run came out: its verdicts on the terminal, and the exit status.

use std::path::Path;

use campaign::{CampaignError, CampaignOutcome};
use evidence::report::Overall;
use results::{Ending, Grade};

use crate::failure::{Failure, Status};
use crate::reports::render;
use crate::sign::SignArguments;

/// What a run has to prove for exit status 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Require {
    /// No limit is broken and every condition of a qualification is met.
    Qualified,
    /// No limit is broken and the campaign came to its end.
    #[default]
    Held,
}

/// What comes of a run.
#[derive(clap::Args)]
pub struct EndingArguments {
    /// What the run has to prove for exit status 0.
    #[arg(long, value_name = "GRADE", value_enum, default_value_t)]
    pub require: Require,
    /// Print report.json on stdout in place of the table of verdicts.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub sign: SignArguments,
}

/// End of a run, on one host or on many.
pub struct Ended {
    pub how: Ending,
    /// Reason why the run ended early; `None` if it did not.
    pub why: Option<String>,
}

impl Ended {
    /// End of the tests on this host, or in virtual time.
    pub fn of(outcome: &CampaignOutcome) -> Ended {
        let why = outcome.error.as_ref().map(|error| match error {
            CampaignError::Interrupted => INTERRUPTED.to_owned(),
            error => error.to_string(),
        });
        Ended { how: runner::ending(outcome), why }
    }
}

/// Why an interrupted run did not come to its end.
pub const INTERRUPTED: &str = "it was interrupted; what was measured is kept";

/// Writes the reports, prints the verdicts (as `table` makes them of the judgement) or `report.json`, and gives the
/// status.
pub fn tell(
    folder: &Path,
    ended: &Ended,
    arguments: &EndingArguments,
    table: impl FnOnce(&Overall) -> String,
) -> Result<Status, Failure> {
    let report = render(folder)?;
    arguments.sign.attest(&report, folder)?;
    if arguments.json {
        crate::stdout::data(&report.json())?;
    } else {
        crate::stdout::tell(&table(&report.verdict))?;
    }
    say!("evidence: {0}/report.html, {0}/report.json, {0}/run.db", folder.display());
    arguments.require.status(ended, report.verdict.grade)
}

impl Require {
    /// The exit status of a run of this grade, which ended like this.
    fn status(self, ended: &Ended, grade: Grade) -> Result<Status, Failure> {
        match (ended.how, grade, self) {
            (Ending::Interrupted, ..) => Ok(Status::Interrupted),
            (Ending::Aborted, Grade::Qualified | Grade::Held | Grade::Incomplete, _) => {
                let why = ended.why.as_deref().unwrap_or("no host came to the end");
                Err(Failure::could_not_run("the campaign could not be carried out").because(why))
            }
            (_, Grade::Qualified, _) | (_, Grade::Held, Require::Held) => Ok(Status::Pass),
            (_, Grade::Held, Require::Qualified) | (_, Grade::Failed | Grade::Incomplete, _) => {
                Ok(Status::VerdictFail)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Grade::{Failed, Held, Incomplete, Qualified};

    /// Exit statuses of runs of each grade that ended like this, with `--require`.
    fn statuses(how: Ending, require: Require) -> [u8; 4] {
        let ended = Ended { how, why: None };
        [Qualified, Held, Failed, Incomplete].map(|grade| match require.status(&ended, grade) {
            Ok(status) => status as u8,
            Err(failure) => failure.exit(),
        })
    }

    #[test]
    fn exit_status_follows_from_ending_grade_and_demand_alone() {
        assert_eq!(statuses(Ending::Completed, Require::Held), [0, 0, 1, 1]);
        assert_eq!(statuses(Ending::Completed, Require::Qualified), [0, 1, 1, 1]);
        for require in [Require::Held, Require::Qualified] {
            assert_eq!(statuses(Ending::Aborted, require), [3, 3, 1, 3]);
            assert_eq!(statuses(Ending::Interrupted, require), [4; 4]);
        }
        assert_eq!(Require::default(), Require::Held);
    }
}
