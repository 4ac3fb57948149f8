//! `junit.xml`: a test suite per test, a test case per judgement.

use results::Outcome;

use super::model::*;
use super::text::significant;

pub fn xml(report: &Report) -> String {
    let mut suites = String::new();
    let (mut tests, mut failures, mut errors) = (0, 0, 0);
    let run = [("run", 0.0, report.run_verdicts.as_slice())];
    let named =
        report.tests.iter().map(|test| (test.name.as_str(), test.duration_s, test.verdicts.as_slice()));
    for (name, time_s, verdicts) in named.chain(run) {
        let mut cases = String::new();
        let (mut suite_tests, mut suite_failures, mut suite_errors) = (0, 0, 0);
        for verdict in verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Info) {
            suite_tests += 1;
            suite_failures += u32::from(verdict.outcome == Outcome::Fail);
            cases.push_str(&case(name, verdict));
        }
        if name == "run" && report.verdict.outcome == RunOutcome::Incomplete {
            suite_tests += 1;
            suite_errors += 1;
            let why = escape(&report.verdict.reasons.join(" "));
            cases.push_str(&format!(
                "    <testcase classname=\"run\" name=\"complete\"><error message=\"{why}\"/></testcase>\n"
            ));
        }
        suites.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{suite_tests}\" failures=\"{suite_failures}\" \
             errors=\"{suite_errors}\" time=\"{time_s:.3}\">\n{cases}  </testsuite>\n",
            escape(name)
        ));
        tests += suite_tests;
        failures += suite_failures;
        errors += suite_errors;
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\" time=\"{:.3}\">\n{suites}</testsuites>\n",
        escape(&report.run.solution),
        report.run.duration_s
    )
}

fn case(suite: &str, verdict: &VerdictRow) -> String {
    let place =
        [Some(&verdict.origin.host), verdict.origin.instance.as_ref(), verdict.origin.database.as_ref()];
    let place = place.into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
    let head = format!(
        "    <testcase classname=\"{}\" name=\"{}\"",
        escape(&format!("{suite}.{place}")),
        escape(&verdict.rule)
    );
    match verdict.outcome {
        Outcome::Pass | Outcome::Info => return format!("{head}/>\n"),
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

/// Text as an attribute. Characters that XML cannot hold at all become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
