//! What a run proves, while it goes on: nothing yet, but what it has broken, and what a qualification lacks for
//! certain.

use results::grade::{self, CONDITIONS, Condition, condition};
use results::{Grade, Outcome, Rule, Test, Verdict};
use serde::Serialize;

use super::LiveRun;
use crate::environment::is_about_memory;
use crate::report::{Overall, RunOutcome, broken, counted, duration, verdict_row};

/// What a run proves: its grade once it has ended, before that the limits that are broken so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveJudgement {
    /// What the run proves; null while it goes on.
    pub grade: Option<Grade>,
    /// The same for readers that do not know grades; null while the run goes on.
    pub outcome: Option<RunOutcome>,
    /// The grade in words.
    pub words: &'static str,
    /// The judgement in one sentence.
    pub headline: String,
    /// The reasons; before the end, limits that are broken and conditions that are missed for certain. A sentence
    /// each.
    pub reasons: Vec<String>,
}

impl From<&Overall> for LiveJudgement {
    fn from(judged: &Overall) -> LiveJudgement {
        LiveJudgement {
            grade: Some(judged.grade),
            outcome: Some(judged.outcome),
            words: judged.grade.words(),
            headline: judged.headline.clone(),
            reasons: judged.reasons.iter().filter(|reason| **reason != judged.headline).cloned().collect(),
        }
    }
}

impl LiveRun {
    /// The judgement before the end, from the rows so far.
    pub(super) fn judgement(&self) -> LiveJudgement {
        let mut reasons = self.broken();
        reasons.extend(self.unproved());
        reasons.extend(
            self.missing()
                .into_iter()
                .map(|(note, condition)| format!("Missing: {note}. Remedy: {}.", condition.remedy)),
        );
        let count = |outcome| self.verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
        let kept = counted(count(Outcome::Pass) as u64, "limit");
        let excused = self.verdicts.iter().filter(|verdict| verdict.is_excused()).count() as u64;
        let excused = match excused {
            0 => String::new(),
            _ => format!("; {} broken by a scheduled fault", counted(excused, "limit")),
        };
        LiveJudgement {
            grade: None,
            outcome: None,
            words: "not yet judged",
            headline: format!(
                "The run goes on: {kept} kept so far, {} broken{excused}.",
                count(Outcome::Fail)
            ),
            reasons,
        }
    }

    /// Titles of tests, and of the run itself, each with their verdicts so far.
    fn judged(&self) -> Vec<(&str, Vec<Verdict>)> {
        let of = |test: Option<u32>| {
            self.verdicts.iter().filter(|verdict| verdict.test == test).map(verdict_row).collect()
        };
        let tests = self.tests.values().map(|test| (test.name.as_str(), of(Some(test.ordinal))));
        tests.chain([("The run", of(None))]).collect()
    }

    fn broken(&self) -> Vec<String> {
        let judged = self.judged();
        let sentences =
            judged.iter().flat_map(|(name, rows)| broken(name, &rows.iter().collect::<Vec<_>>(), |_| None));
        sentences.collect()
    }

    fn unproved(&self) -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        for (name, rows) in self.judged() {
            for row in rows.iter().filter(|row| row.outcome == Outcome::Unproved) {
                let sentence = format!("{name}: “{}” is not proved on {}.", row.text, row.origin);
                if !sentences.contains(&sentence) {
                    sentences.push(sentence);
                }
            }
        }
        sentences
    }

    /// The conditions of a qualification that the rest of the run can no longer meet.
    fn missing(&self) -> Vec<(String, &'static Condition)> {
        let mut missing = Vec::new();
        let mut note = |name: &str, text: String| missing.extend(condition(name).map(|found| (text, found)));
        if CONDITIONS.iter().any(|condition| self.rule(condition.name).is_none()) {
            note("rules_percent", "the rules of the run are not recorded".to_owned());
        }
        let is_load = |test: &&Test| grade::is_load(&test.kind) && test.window_start_ms.is_some();
        let loads = self.tests.values().filter(is_load);
        for test in loads {
            if test.target_iops.is_none_or(|target| target <= 0.0) {
                note("target_set_percent", format!("{} has no target", test.name));
            }
            let name = if test.kind == "stress" { "stress_window_s" } else { "performance_window_s" };
            let planned_s = test.window_planned_ms.map(|ms| ms as f64 / 1e3);
            if let (Some(rule), Some(planned)) = (self.rule(name), planned_s)
                && !rule.holds(Some(planned))
            {
                let asked = duration(rule.least.unwrap_or(0.0));
                note(name, format!("{} is to measure {} of {asked}", test.name, duration(planned)));
            }
        }
        let (memory, errors): (Vec<_>, Vec<_>) =
            self.environment.iter().partition(|row| is_about_memory(row));
        for row in memory {
            note("on_storage_percent", format!("{} is in memory", row.area));
        }
        let errors = errors.len() as u64 + self.errors;
        if errors > 0 {
            note("errors", counted(errors, "error") + " noted");
        }
        missing
    }

    fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }
}
