//! `junit.xml`: a test suite per test, a test case per judgement; the conditions of a
//! qualification come first.

use results::{Grade, Outcome, Verdict};

use super::model::*;
use super::text::significant;
use crate::markup::escape;

/// Test cases of a JUnit suite, and how many of them failed, had errors or were skipped.
#[derive(Default)]
struct Cases {
    /// Text before the cases.
    head: String,
    text: String,
    tests: u32,
    failures: u32,
    errors: u32,
    skipped: u32,
}

impl Cases {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.tests += 1;
        self.failures += u32::from(text.contains("<failure "));
        self.errors += u32::from(text.contains("<error "));
        self.skipped += u32::from(text.contains("<skipped "));
    }

    fn counts(&self) -> String {
        let Cases { tests, failures, errors, skipped, .. } = self;
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
    }
}

pub fn xml(report: &Report) -> String {
    let mut all = Cases::default();
    let mut suites = suite("qualification", 0.0, &qualification(report), &mut all);
    for test in &report.tests {
        suites.push_str(&suite(&test.name, test.duration_s, &judged(&test.name, &test.verdicts), &mut all));
    }
    let mut run = judged("run", &report.run_verdicts);
    if report.verdict.grade == Grade::Incomplete {
        let why = escape(&report.verdict.reasons.join(" "));
        run.add(&format!(
            "    <testcase classname=\"run\" name=\"complete\"><error message=\"{why}\"/></testcase>\n"
        ));
    }
    suites.push_str(&suite("run", 0.0, &run, &mut all));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {} time=\"{:.3}\">\n\
         {suites}</testsuites>\n",
        escape(&report.run.solution),
        all.counts(),
        report.run.duration_s
    )
}

fn judged(name: &str, verdicts: &[Verdict]) -> Cases {
    let mut cases = Cases::default();
    for verdict in verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Info || verdict.is_excused())
    {
        cases.add(&case(name, verdict));
    }
    cases
}

fn suite(name: &str, time_s: f64, cases: &Cases, all: &mut Cases) -> String {
    all.tests += cases.tests;
    all.failures += cases.failures;
    all.errors += cases.errors;
    all.skipped += cases.skipped;
    format!(
        "  <testsuite name=\"{}\" {} time=\"{time_s:.3}\">\n{}{}  </testsuite>\n",
        escape(name),
        cases.counts(),
        cases.head,
        cases.text
    )
}

/// The suite of the qualification: the grade and its sentence, then a case per condition; one that is not met is
/// skipped, with the reason.
fn qualification(report: &Report) -> Cases {
    let property =
        |name: &str, value: &str| format!("      <property name=\"{name}\" value=\"{}\"/>\n", escape(value));
    let (grade, sentence) = (report.verdict.grade.name(), &report.verdict.headline);
    let (grade, sentence) = (property("grade", grade), property("sentence", sentence));
    let head = format!("    <properties>\n{grade}{sentence}    </properties>\n");
    let mut cases = Cases { head, ..Cases::default() };
    for row in &report.verdict.conditions {
        let head = format!("    <testcase classname=\"qualification\" name=\"{}\"", escape(&row.name));
        cases.add(&match row.met {
            true => format!("{head}/>\n"),
            false => {
                let why = escape(&format!("{}; {}", row.note, row.remedy));
                format!("{head}><skipped message=\"{why}\"/></testcase>\n")
            }
        });
    }
    cases
}

fn case(suite: &str, verdict: &Verdict) -> String {
    let place =
        [Some(&verdict.origin.host), verdict.origin.instance.as_ref(), verdict.origin.database.as_ref()];
    let place = place.into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
    let head = format!(
        "    <testcase classname=\"{}\" name=\"{}\"",
        escape(&format!("{suite}.{place}")),
        escape(&verdict.rule)
    );
    match verdict.outcome {
        Outcome::Pass => return format!("{head}/>\n"),
        Outcome::Info => {
            return format!("{head}><skipped message=\"{}\"/></testcase>\n", escape(&verdict.text));
        }
        Outcome::Unproved => {
            return format!(
                "{head}><skipped message=\"not proved: {}\"/></testcase>\n",
                escape(&verdict.text)
            );
        }
        Outcome::Fail => {}
    }
    let figure = |value: Option<f64>| value.map_or("nothing".to_owned(), significant);
    let message = format!(
        "{}: measured {} {}, limit {}",
        verdict.text,
        figure(verdict.measured),
        verdict.unit,
        figure(verdict.limit)
    );
    format!("{head}><failure message=\"{}\"/></testcase>\n", escape(&message))
}
