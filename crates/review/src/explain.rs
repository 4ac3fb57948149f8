//! Why the tests of a run failed, and what to do about each rule that failed: what `explain` answers.

use evidence::Report;
use evidence::report::{Cause, TestReport, remedy_of_rule, unsteady};
use results::{Outcome, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Source;

/// The answer of `explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// Version of this answer's form.
    pub schema_version: u32,
    /// Name of the run.
    pub run: String,
    /// Tests that failed or were not steady, and tests with rules that failed.
    pub tests: Vec<ExplainedTest>,
}

/// A test with its causes, or the run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExplainedTest {
    /// Place in the campaign, from 1; null for the run as a whole.
    pub ordinal: Option<u32>,
    /// Title of the test.
    pub name: String,
    /// Its causes, the likeliest first.
    pub causes: Vec<Cause>,
    /// Rules that failed or were not proved, each once.
    pub rules: Vec<FailedRule>,
}

/// A rule that failed or was not proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedRule {
    /// Stable name of the rule.
    pub rule: String,
    /// Whether it failed or was not proved.
    pub outcome: Outcome,
    /// The remedy.
    pub remedy: String,
}

/// Explains why the tests of a run failed; `None` for evidence without test rows, such as published figures.
pub fn explain(source: &Source) -> Option<Explained> {
    match source {
        Source::Run { report, .. } | Source::Report(report) => Some(of_report(report)),
        Source::Printed(_) => None,
    }
}

fn of_report(report: &Report) -> Explained {
    let of_test = |test: &TestReport| ExplainedTest {
        ordinal: Some(test.ordinal),
        name: test.name.clone(),
        causes: match test.causes.is_empty() {
            true => unsteady(test).into_iter().collect(),
            false => test.causes.clone(),
        },
        rules: rules(&test.verdicts),
    };
    let whole = ExplainedTest {
        ordinal: None,
        name: "The run".to_owned(),
        causes: Vec::new(),
        rules: rules(&report.run_verdicts),
    };
    let all = report.tests.iter().map(of_test).chain([whole]);
    let tests = all.filter(|test| !test.causes.is_empty() || !test.rules.is_empty()).collect();
    Explained { schema_version: 1, run: report.run.id.clone(), tests }
}

fn rules(verdicts: &[Verdict]) -> Vec<FailedRule> {
    let mut rules: Vec<FailedRule> = Vec::new();
    let broken = |verdict: &&Verdict| {
        matches!(verdict.outcome, Outcome::Fail | Outcome::Unproved) || verdict.is_excused()
    };
    for verdict in verdicts.iter().filter(broken) {
        if rules.iter().all(|known| known.rule != verdict.rule) {
            let remedy = remedy_of_rule(&verdict.rule).unwrap_or_default().to_owned();
            rules.push(FailedRule { rule: verdict.rule.clone(), outcome: verdict.outcome, remedy });
        }
    }
    rules
}

impl Explained {
    /// The answer as text for the terminal.
    pub fn text(&self) -> String {
        if self.tests.is_empty() {
            return format!(
                "{}: no rule failed and each load was steady, so there is nothing to explain\n",
                self.run
            );
        }
        let mut text = String::new();
        for test in &self.tests {
            text += &format!("{}\n", test.name);
            for (place, cause) in test.causes.iter().enumerate() {
                crate::verdict_table::wrapped(&mut text, &format!("  {}. ", place + 1), &cause.text());
            }
            for rule in &test.rules {
                crate::verdict_table::wrapped(&mut text, &format!("  {}: ", rule.rule), &rule.remedy);
            }
        }
        text
    }
}
