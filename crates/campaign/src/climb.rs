//! A climb: the same load test again and again on the same databases, each step with a load that follows from the
//! verdicts before it.
//!
//! Invariants
//! 1. Each step is a test of the run with an ordinal, a row and verdicts of its own, judged as outside of a climb.
//! 2. A step that did not come to the end of its window is not handed over as judged.

use results::{Severity, Verdict};
use solution::{LoadSpec, TestSpec};

use crate::error::CampaignError;
use crate::running::{Campaign, Logs};

/// Source of the steps of a climb.
pub trait Climb {
    /// Name and load of the next step; `None` ends the climb.
    fn next(&mut self) -> Option<(String, LoadSpec)>;

    /// Takes the verdicts of a step, which is this test of the run. Returns what they mean, as text.
    fn judged(&mut self, test: u32, verdicts: &[Verdict]) -> String;
}

/// Tests of a climb.
pub struct Climbed {
    /// Tests before the first step: the databases are made.
    pub before: Vec<TestSpec>,
    /// Load test of each step.
    pub step: TestSpec,
    /// Largest number of steps.
    pub steps_max: u32,
}

impl Climbed {
    /// All tests that the climb may need.
    pub fn all(&self) -> Vec<TestSpec> {
        let steps = std::iter::repeat_n(&self.step, self.steps_max as usize);
        self.before.iter().chain(steps).cloned().collect()
    }
}

/// Steps of a climb under way: their load test, and where the loads come from.
pub type Steps<'a> = (&'a TestSpec, &'a mut dyn Climb);

impl Campaign<'_> {
    /// Carries out the steps of a climb behind `before` tests.
    pub async fn climb(&mut self, before: u32, (spec, climb): Steps<'_>) -> Result<(), CampaignError> {
        let mut ordinal = before;
        while let Some((name, load)) = climb.next() {
            ordinal += 1;
            self.check_interrupt()?;
            (self.load, self.logs) = (load, Logs::Free);
            let earlier = self.verdicts.len();
            self.run_one(ordinal, spec, &name).await?;
            let meaning = climb.judged(ordinal, &self.verdicts[earlier..]);
            self.event(Severity::Info, Some(ordinal), &meaning)?;
            self.recorder.flush()?;
        }
        Ok(())
    }
}
