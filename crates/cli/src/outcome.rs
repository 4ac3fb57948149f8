//! How a run came out: its verdicts on the terminal, and the exit status.

use std::path::Path;
use std::time::Duration;

use campaign::{CampaignError, CampaignOutcome};
use results::Grade;

use crate::failure::{Failure, Status};
use crate::reports::render;

/// What a run has to prove for exit status 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Require {
    /// No limit is broken and every condition of a qualification is met.
    Qualified,
    /// No limit is broken and the campaign came to its end.
    #[default]
    Held,
}

/// Renders the report, prints the verdicts, gives the status.
pub fn tell(
    outcome: &CampaignOutcome,
    titles: &[String],
    folder: &Path,
    elapsed: Duration,
    require: Require,
) -> Result<Status, Failure> {
    let judged = render(folder)?.verdict;
    crate::stdout::data(&crate::verdict_table::table(outcome, titles, &judged, elapsed))?;
    say!("evidence: {0}/report.html, {0}/report.json, {0}/run.db", folder.display());
    match &outcome.error {
        Some(CampaignError::Interrupted) => Ok(Status::Interrupted),
        Some(error) if judged.grade != Grade::Failed => {
            Err(Failure::could_not_run("the campaign could not be carried out").because(error))
        }
        _ => Ok(require.status(judged.grade)),
    }
}

impl Require {
    /// The exit status of a run of this grade that came to its end.
    pub fn status(self, grade: Grade) -> Status {
        match (grade, self) {
            (Grade::Qualified, _) | (Grade::Held, Require::Held) => Status::Pass,
            (Grade::Held, Require::Qualified) | (Grade::Failed | Grade::Incomplete, _) => Status::VerdictFail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_0_only_for_the_grades_that_were_asked_for() {
        use Grade::{Failed, Held, Incomplete, Qualified};
        let passing = |require: Require| {
            [Qualified, Held, Failed, Incomplete].map(|grade| require.status(grade) == Status::Pass)
        };
        assert_eq!(passing(Require::Held), [true, true, false, false]);
        assert_eq!(passing(Require::Qualified), [true, false, false, false]);
        assert_eq!(Require::default(), Require::Held);
    }
}
