//! One rule: what is judged, on which side of which limit.

use results::{Comparison, Origin, Outcome, Verdict};

/// A rule, before it is applied.
pub struct Rule<'a> {
    /// Stable name.
    pub name: &'a str,
    /// In words.
    pub text: String,
    /// On which side of the limit the measured value must be.
    pub comparison: Comparison,
    /// Unit of both.
    pub unit: &'a str,
}

impl Rule<'_> {
    /// Judges `measured`. Nothing measured fails: a rule that could not be applied proves nothing.
    pub fn judge(&self, test: u32, origin: Origin, measured: Option<f64>, limit: f64) -> Verdict {
        let holds = measured.is_some_and(|value| self.comparison.holds(value, limit));
        Verdict {
            test: Some(test),
            origin,
            rule: self.name.to_owned(),
            text: self.text.clone(),
            measured,
            limit: Some(limit),
            comparison: self.comparison,
            unit: self.unit.to_owned(),
            outcome: if holds { Outcome::Pass } else { Outcome::Fail },
        }
    }

    /// As [`Rule::judge`], for a rule about the run itself: where it does not hold nothing is proved, and
    /// it blames neither storage nor load.
    pub fn require(&self, test: u32, origin: Origin, measured: f64, limit: f64) -> Verdict {
        unproved_if_failed(self.judge(test, origin, Some(measured), limit))
    }
}

/// The verdict of a window with gaps: what fails there is unproved.
pub(crate) fn unproved_if_failed(verdict: Verdict) -> Verdict {
    let outcome = if verdict.outcome == Outcome::Fail { Outcome::Unproved } else { verdict.outcome };
    Verdict { outcome, ..verdict }
}
