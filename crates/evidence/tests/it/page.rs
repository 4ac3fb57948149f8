//! What `report.html` promises its readers.

use evidence::{Report, RunData};
use results::*;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn report_of(shape: &Shape, change: impl FnOnce(&mut Vec<Row>)) -> Report {
    let mut rows = Vec::new();
    synthetic::record(shape, &mut rows).unwrap();
    change(&mut rows);
    Report::new(&RunData::from_rows(rows).unwrap()).unwrap()
}

fn report(shape: &Shape) -> Report {
    report_of(shape, |_| ())
}

/// Reports and pages of a run that holds its limits, one that fails, and a simulated one with two hosts.
fn pages() -> Vec<(Report, String)> {
    let shapes = [
        Shape::default(),
        Shape { fails: true, ..Shape::default() },
        Shape { world: WorldKind::Simulated, hosts: 2, databases: 4, window_s: 60, ..Shape::default() },
    ];
    let reports = shapes.iter().map(report);
    reports.map(|report| (report.clone(), report.html().unwrap())).collect()
}

/// Texts between each `start` and the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

#[test]
fn every_link_of_the_page_leads_to_one_part_of_it_and_the_contents_name_every_test() {
    for (report, html) in pages() {
        let links = between(&html, "href=\"#", "\"");
        assert!(links.len() > report.tests.len());
        for link in links {
            assert_eq!(html.matches(&format!(" id=\"{link}\"")).count(), 1, "{link}");
        }
        let contents = between(&html, "<nav", "</nav>")[0];
        for test in &report.tests {
            assert!(contents.contains(&format!("href=\"#test-{}\"", test.ordinal)), "{}", test.name);
        }
        for part in
            ["campaign", "conditions", "configuration", "environment", "events", "reading", "solution"]
        {
            assert!(contents.contains(&format!("href=\"#{part}\"")), "{part}");
        }
    }
}

#[test]
fn every_header_cell_of_a_table_says_what_it_heads() {
    for (_, html) in pages() {
        let cells = between(&html, "<th", ">");
        let heads = cells.iter().filter(|cell| !cell.starts_with("ead"));
        assert!(heads.clone().count() > 50);
        assert!(heads.clone().all(|cell| cell.starts_with(" scope=\"")), "{cells:?}");
        assert!(!html.contains("scope=\"col\"></th>"), "no header is empty");
    }
}

#[test]
fn first_page_says_verdict_proof_target_charts_and_findings_in_this_order() {
    for (report, html) in pages() {
        let judged = &report.verdict;
        let word = if judged.grade == Grade::Failed { "FAIL" } else { "LIMITS HELD" };
        let found = match judged.grade {
            Grade::Failed => &judged.unseen[0],
            _ => &judged.reasons[0],
        };
        let found = found.split('“').next().unwrap();
        let shown = format!("<div class=\"word\">{word}");
        let parts = [
            shown.as_str(),
            "<h2>",
            if word == "LIMITS HELD" { "No limit is broken" } else { "The storage, as it was tested, broke" },
            "Target and achieved",
            "aria-label=\"Transactional I&#x2f;O\"",
            "aria-label=\"Read latency\"",
            "aria-label=\"Log write latency\"",
            "<h3>Findings</h3>",
            found,
            "<nav class=\"contents\"",
            "<h3 id=\"campaign\">",
        ];
        let main = html.split("<main>").nth(1).unwrap();
        let places: Vec<_> =
            parts.iter().map(|part| main.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}

#[test]
fn tests_that_passed_are_closed_and_tests_that_failed_or_did_not_end_are_open() {
    let cut = report(&Shape { cut: true, ..Shape::default() });
    let cut_html = cut.html().unwrap();
    for (report, html) in pages().into_iter().chain([(cut, cut_html)]) {
        let shown = between(&html, "<details class=\"test\"", ">");
        assert_eq!(shown.len(), report.tests.len());
        for (test, open) in report.tests.iter().zip(shown) {
            let passed = test.ended && test.outcome != Some(Outcome::Fail);
            assert_eq!(open, if passed { "" } else { " open" }, "{}", test.name);
        }
    }
}

#[test]
fn findings_link_to_the_tests_and_parts_that_they_name() {
    let html = report(&Shape { fails: true, ..Shape::default() }).html().unwrap();
    let findings = between(&html, "<h3>Findings</h3>", "</ul>")[0];
    let headline = between(&html, "<h2>", "</h2>")[0];
    assert!(headline.starts_with("<a href=\"#test-5\">Stress</a>: “"), "{headline}");
    assert!(findings.contains("<a href=\"#environment\">“Environment”</a>"), "{findings}");
}

#[test]
fn load_that_tuning_found_stands_beside_the_load_that_the_tests_ran() {
    let told = |sessions: u32| {
        let report = report_of(&Shape::default(), |rows| {
            let tune = rows.iter().find_map(|row| match row {
                Row::Test(test) if test.kind == "tune" => Some(test.ordinal),
                _ => None,
            });
            let tune = tune.expect("the synthetic run tunes");
            for row in rows.iter_mut() {
                if let Row::TuningStep(step) = row {
                    step.load = format!("{} sessions", 16 * step.ordinal);
                    step.iops = 1_234.0;
                }
                if let Row::Test(test) = row
                    && ["performance", "stress"].contains(&test.kind.as_str())
                {
                    let value =
                        format!("closed: {sessions} sessions, each rests 1 times as long as its batch took");
                    test.parameters.push(Parameter { name: "Load".into(), value });
                }
            }
            let verdict = Verdict {
                test: Some(tune),
                origin: Origin::host("mbx1"),
                rule: "tuned_sessions".into(),
                text: "some number of sessions stays inside the thresholds".into(),
                measured: Some(32.0),
                limit: Some(1.0),
                comparison: Comparison::AtLeast,
                unit: "sessions".into(),
                outcome: Outcome::Pass,
            };
            rows.push(verdict.into());
        });
        report.html().unwrap()
    };
    let found = "found a load of 32 sessions: 1,234 transactional I&#x2f;O per second in a short step. \
                 Performance and Stress ran";
    for (sessions, end) in
        [(32, "that load."), (8, "another load, which was set before the run: 8 sessions.")]
    {
        let html = told(sessions);
        let caption = between(&html, "<p class=\"caption\">Tuning", "</p>")[0];
        assert!(caption.contains(&format!("{found} {end}")), "{caption}");
    }
}
