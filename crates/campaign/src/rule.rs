//! One rule: what is judged, on which side of which limit.

use results::{Comparison, Origin, Outcome, Verdict};

/// Rule before it is applied.
pub struct Rule<'a> {
    /// Stable name of the rule.
    pub name: &'a str,
    /// Description of the rule.
    pub text: String,
    /// Comparison of the measured value with the limit.
    pub comparison: Comparison,
    /// Unit of value and limit.
    pub unit: &'a str,
}

impl Rule<'_> {
    /// Judges `measured`. A missing value fails.
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

    /// As [`Rule::judge`], for a rule about the run itself: if it does not hold, nothing is proved for or against the
    /// storage.
    pub fn require(&self, test: u32, origin: Origin, measured: f64, limit: f64) -> Verdict {
        unproved_if_failed(self.judge(test, origin, Some(measured), limit))
    }
}

/// Verdict of a window with gaps: a failure becomes unproved.
pub fn unproved_if_failed(verdict: Verdict) -> Verdict {
    let outcome = if verdict.outcome == Outcome::Fail { Outcome::Unproved } else { verdict.outcome };
    Verdict { outcome, ..verdict }
}
