//! `junit.xml`: a test suite per test, a test case per judgement; the conditions of a qualification come first.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use results::{Grade, Outcome, Verdict};
use serde::Serialize;

use super::ReportError;
use super::model::*;
use super::text::significant;
use crate::markup::escape;

/// A test suite of the file.
#[derive(Debug, Clone, Serialize)]
struct Suite<'a> {
    name: &'a str,
    time_s: f64,
    cases: Vec<Case>,
}

/// A test case of a suite. `tag` is the element that says that it did not pass: failure, error or skipped.
#[derive(Debug, Clone, Serialize)]
struct Case {
    class: String,
    name: String,
    tag: Option<&'static str>,
    message: String,
}

impl Case {
    fn passed(class: &str, name: &str) -> Case {
        Case { class: class.to_owned(), name: name.to_owned(), tag: None, message: String::new() }
    }

    fn with(self, tag: &'static str, message: String) -> Case {
        Case { tag: Some(tag), message, ..self }
    }
}

pub fn xml(report: &Report) -> Result<String, ReportError> {
    let mut suites = vec![Suite { name: "qualification", time_s: 0.0, cases: conditions(report) }];
    suites.extend(report.tests.iter().map(|test| {
        let cases = judged(&test.name, &test.verdicts);
        Suite { name: &test.name, time_s: test.duration_s, cases }
    }));
    let mut run = judged("run", &report.run_verdicts);
    if report.verdict.grade == Grade::Incomplete {
        run.push(Case::passed("run", "complete").with("error", report.verdict.reasons.join(" ")));
    }
    suites.push(Suite { name: "run", time_s: 0.0, cases: run });
    let count = |tag| suites.iter().flat_map(|suite| &suite.cases).filter(|case| case.tag == tag).count();
    let [passed, failures, errors, skipped] =
        [None, Some("failure"), Some("error"), Some("skipped")].map(count);
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?,
    );
    // The escaper of the template engine keeps control characters, which XML cannot hold.
    environment.add_filter("quoted", |text: String| Value::from_safe_string(escape(&text)));
    environment.add_filter("ms", |seconds: f64| format!("{seconds:.3}"));
    environment.add_template("junit.xml", include_str!("../../templates/junit.xml"))?;
    let page = environment.get_template("junit.xml")?.render(context! {
        solution => &report.run.solution,
        tests => passed + failures + errors + skipped,
        failures,
        errors,
        skipped,
        duration_s => report.run.duration_s,
        grade => report.verdict.grade.name(),
        sentence => &report.verdict.headline,
        suites => Value::from(Serde(&suites)),
    })?;
    Ok(page)
}

fn judged(suite: &str, verdicts: &[Verdict]) -> Vec<Case> {
    let said = verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Info || verdict.is_excused());
    said.map(|verdict| case(suite, verdict)).collect()
}

/// A case per condition of a qualification; one that is not met is skipped, with the reason.
fn conditions(report: &Report) -> Vec<Case> {
    let case = |row: &ConditionRow| {
        let case = Case::passed("qualification", &row.name);
        if row.met { case } else { case.with("skipped", format!("{}; {}", row.note, row.remedy)) }
    };
    report.verdict.conditions.iter().map(case).collect()
}

fn case(suite: &str, verdict: &Verdict) -> Case {
    let place =
        [Some(&verdict.origin.host), verdict.origin.instance.as_ref(), verdict.origin.database.as_ref()];
    let place = place.into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
    let case = Case::passed(&format!("{suite}.{place}"), &verdict.rule);
    let figure = |value: Option<f64>| value.map_or("nothing".to_owned(), significant);
    let (text, unit) = (&verdict.text, &verdict.unit);
    match verdict.outcome {
        Outcome::Pass => case,
        Outcome::Info => case.with("skipped", text.clone()),
        Outcome::Unproved => case.with("skipped", format!("not proved: {text}")),
        Outcome::Fail => {
            let (measured, limit) = (figure(verdict.measured), figure(verdict.limit));
            case.with("failure", format!("{text}: measured {measured} {unit}, limit {limit}"))
        }
    }
}
