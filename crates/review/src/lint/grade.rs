//! The grade of a run against its own report: the grade, its sentence, and the conditions of a qualification.
//!
//! Every rule here reads the report alone, so a `report.json` without its `run.db` is checked as well.

use std::collections::BTreeSet;

use evidence::Report;
use evidence::environment::{HOLDS_EVIDENCE, NO, STORAGE_IS_MEMORY};
use evidence::report::{
    ConditionRow, PREDICTED, TestReport, conditions_of_tables, counted as number_of, counts, number,
    significant,
};
use results::grade::{Counts, TESTS, condition};
use results::{Environment, Grade, Outcome, Severity, WorldKind};

use super::{Findings, agrees_within, brief, with};

const OWN_RULES: &str = "By its own rules, ";

/// Rules on the judgement of the run as a whole.
pub(super) fn check(report: &Report, findings: &mut Findings) {
    grade(report, findings);
    counted(report, findings);
    sentence(report, findings);
    for row in &report.verdict.conditions {
        met(row, findings);
        range(report, row, findings);
    }
    figures(report, findings);
    kinds(report, findings);
    volumes_without(report, "on_storage_percent", STORAGE_IS_MEMORY, findings);
    volumes_without(report, "evidence_apart_percent", HOLDS_EVIDENCE, findings);
    if report.verdict.grade == Grade::Qualified {
        qualified(report, findings);
    }
}

/// Rule: the grade follows from the verdicts, the ending and the conditions of the same report.
fn grade(report: &Report, findings: &mut Findings) {
    let judged = &report.verdict;
    let unmet: Vec<&str> =
        judged.conditions.iter().filter(|row| !row.met).map(|row| row.name.as_str()).collect();
    let counts = counts(report);
    let follows = match report.run.seals_broken.is_empty() {
        true => Grade::of(counts, report.run.ending, unmet.is_empty()),
        false => Grade::Incomplete,
    };
    let why = match follows {
        Grade::Failed => format!("failing: {}", number_of(counts.failed, "verdict")),
        Grade::Incomplete => {
            let Counts { passed, unproved, open_tests, .. } = counts;
            let (passed, open) = (number_of(passed, "verdict"), number_of(open_tests, "open test"));
            format!("run.ending; passing: {passed}; not proved: {unproved}; {open}")
        }
        Grade::Held => format!("verdict.conditions: not met: {}", unmet.join(", ")),
        Grade::Qualified => "verdict.conditions: all are met".to_owned(),
    };
    if judged.grade != follows {
        let text = "the grade does not follow from the verdicts, the ending and the conditions of the report";
        findings.add("grade", text, (judged.grade.name(), "verdict.grade"), (follows.name(), why));
    } else if judged.outcome != judged.grade.into() {
        let text = "the outcome for readers that do not know grades is not that of the grade";
        let outcome = format!("{:?}", judged.outcome).to_lowercase();
        findings.add("grade", text, (outcome, "verdict.outcome"), (follows.name(), "verdict.grade"));
    }
}

/// Rule: the judgement states the right numbers of verdicts.
fn counted(report: &Report, findings: &mut Findings) {
    let Counts { passed, failed, .. } = counts(report);
    for (name, stated, found) in
        [("passed", report.verdict.passed, passed), ("failed", report.verdict.failed, failed)]
    {
        if u64::from(stated) != found {
            findings.add(
                "grade",
                format!("the judgement counts another number of verdicts that {}", &name[..4]),
                (stated.to_string(), format!("verdict.{name}")),
                (found.to_string(), "verdicts of the tests and of the run"),
            );
        }
    }
}

/// Rule: the headline names the right world, load and rules.
fn sentence(report: &Report, findings: &mut Findings) {
    let judged = &report.verdict;
    let mut wrong = |text: &str, other: (String, &str)| {
        findings.add("grade_sentence", text, (brief(&judged.headline), "verdict.headline"), other);
    };
    let (predicted, said) = match judged.headline.strip_prefix(PREDICTED) {
        Some(said) => (true, said),
        None => (false, judged.headline.as_str()),
    };
    let is_simulated = report.run.world == WorldKind::Simulated;
    // Where nothing is known nothing is predicted; sentences of older programs say so all the same.
    if predicted != is_simulated && (predicted || judged.grade != Grade::Incomplete) {
        let world = if predicted { "real" } else { "simulated" };
        wrong("the sentence says what the world of the run was not", (world.to_owned(), "run.world"));
    }
    let loads: Vec<&TestReport> = report.tests.iter().filter(|test| test.is_load()).collect();
    let claims_load = said.contains("The storage carries") || said.contains("the storage carries");
    if claims_load != (judged.grade == Grade::Qualified) {
        let grade = (judged.grade.name().to_owned(), "verdict.grade");
        wrong("only the sentence of a qualified run says which load the storage carries", grade);
    } else if (claims_load || said.starts_with("Latency limits held at")) && loads.is_empty() {
        let none = ("no test with a mailbox load".to_owned(), "tests");
        wrong("the sentence tells of a load, and no load test took place", none);
    } else if claims_load {
        carried(report, &loads, said, &mut wrong);
    } else if judged.grade == Grade::Held {
        held(&loads, said, &mut wrong);
    }
    let failed =
        || report.verdicts().any(|verdict| verdict.outcome == Outcome::Fail && said.contains(&verdict.text));
    if judged.grade == Grade::Failed && !failed() {
        wrong(
            "the sentence names no limit that was broken",
            ("no verdict of this text fails".into(), "verdicts"),
        );
    }
}

/// Rule: the claim in the headline is not above the targets of the tests, and says whether the rules are the published
/// ones.
fn carried(report: &Report, loads: &[&TestReport], said: &str, wrong: &mut impl FnMut(&str, (String, &str))) {
    let weaker = report.verdict.conditions.iter().find(|row| row.weaker);
    if said.starts_with(OWN_RULES) != weaker.is_some() {
        let name = weaker.map_or("none".to_owned(), |row| row.name.clone());
        let text = "the sentence does not say whose rules the run was judged by";
        wrong(text, (name, "verdict.conditions: weaker than published"));
    }
    let least = loads.iter().filter_map(|test| test.peak_target_iops()).reduce(f64::min);
    let per_server = least.map(|target| target / report.hosts.len().max(1) as f64);
    let claimed = said.split_once(" transactional I/O").and_then(|(before, _)| {
        let figure = before.rsplit([' ', '(']).next()?;
        figure.replace(',', "").parse::<f64>().ok()
    });
    if let (Some(claimed), Some(tested)) = (claimed, per_server)
        && claimed > tested
        && !agrees_within(claimed, tested, 5e-4)
    {
        let at = "least target of a load test by hosts";
        wrong("the sentence claims more than was tested", (with(tested, "1/s"), at));
    }
}

/// Rule: the load in the headline of a run that is no qualification is the lowest that a load test reached.
fn held(loads: &[&TestReport], said: &str, wrong: &mut impl FnMut(&str, (String, &str))) {
    let reached = loads.iter().filter_map(|test| Some(test.throughput?.transactional_iops));
    let Some(least) = reached.reduce(f64::min) else { return };
    let shown = if least < 100.0 { significant(least) } else { number(least, 0) };
    if !said.contains(&format!("held at {shown} transactional I/O")) {
        let at = "least transactional I/O of a load test";
        wrong("the sentence states another load than the tests reached", (with(least, "1/s"), at));
    }
}

fn place(row: &ConditionRow, what: &str) -> String {
    format!("verdict.conditions: {} of {}", what, row.name)
}

fn figure_of(row: &ConditionRow) -> String {
    row.measured.map_or("not known".to_owned(), |figure| with(figure, &row.unit))
}

fn bounds(least: Option<f64>, most: Option<f64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{} to {}", with(least, ""), with(most, "")),
        (Some(least), None) => format!("at least {}", with(least, "")),
        (None, Some(most)) => format!("at most {}", with(most, "")),
        (None, None) => "no range".to_owned(),
    }
}

/// Rule: `met` and `weaker` of a condition follow from its figure and range.
fn met(row: &ConditionRow, findings: &mut Findings) {
    let rule = row.rule();
    if rule.holds(row.measured) != row.met {
        let said = if row.met { "the condition counts as met" } else { "the condition counts as not met" };
        let asked = (bounds(row.least, row.most), place(row, "range"));
        findings.add(
            "condition_met",
            format!("{said}, and its figure says otherwise"),
            (figure_of(row), place(row, "figure")),
            asked,
        );
    }
    if rule.is_weaker() != row.weaker {
        findings.add(
            "condition_met",
            "the report does not say whether the range lets more pass than the published one",
            (bounds(row.least, row.most), place(row, "range")),
            (bounds(row.published_least, row.published_most), place(row, "published range")),
        );
    }
}

/// Whether the run was recorded by this version of the program, whose table of conditions is known.
fn is_own_version(report: &Report) -> bool {
    report.run.tool_version == env!("CARGO_PKG_VERSION") && report.program == Report::PROGRAM
}

/// Rule: the published range of a condition is that of the table, and so is its own range where no solution file may
/// change it.
fn range(report: &Report, row: &ConditionRow, findings: &mut Findings) {
    let Some(known) = condition(&row.name).filter(|_| is_own_version(report)) else { return };
    let table = (known.least, known.most);
    let published = (row.published_least, row.published_most);
    // No mix but the published one has a reference for its shape; own kinds of tests change how many there are.
    let has_none = known.adjustable && published == (None, None);
    let is_longer = row.name == "tests" && published.0 >= known.least;
    // What a solution states as `test_iops_per_mailbox` is its own rule, of which the sentence speaks.
    let is_stated = row.name == "iops_per_mailbox_percent" && row.least <= known.least;
    if published != table && !has_none && !is_longer {
        let text = "the published range of the condition is not the published one";
        let other = (bounds(known.least, known.most), "table of conditions");
        findings.add(
            "condition_range",
            text,
            (bounds(published.0, published.1), place(row, "published range")),
            other,
        );
    } else if !known.adjustable && !is_stated && (row.least, row.most) != table {
        findings.add(
            "condition_range",
            "no solution may change the range of this condition",
            (bounds(row.least, row.most), place(row, "range")),
            (bounds(known.least, known.most), "table of conditions"),
        );
    }
}

/// Rule: every condition that applies is in the report, with the figure that the tables give.
fn figures(report: &Report, findings: &mut Findings) {
    for (name, derived) in conditions_of_tables(report) {
        match (report.verdict.conditions.iter().find(|row| row.name == name), derived) {
            (Some(row), Some(derived)) => figure(row, derived, findings),
            (None, _) if is_own_version(report) => findings.add(
                "condition_missing",
                "a condition applies to the run, and the report does not have it",
                (name, "table of conditions"),
                (number_of(report.verdict.conditions.len() as u64, "condition"), "verdict.conditions"),
            ),
            _ => {}
        }
    }
}

/// Rule: no more kinds of tests count as done than have ended. (Which kinds the run's rules ask for is not in the
/// report.)
fn kinds(report: &Report, findings: &mut Findings) {
    let Some(row) = report.verdict.conditions.iter().find(|row| row.name == "tests") else { return };
    let ended = report.tests.iter().filter(|test| test.ended).map(|test| test.kind.as_str());
    let mut done: BTreeSet<&str> = ended.collect();
    if done.contains("backup_to_disk") {
        done.insert("backup");
    }
    if row.least == Some(TESTS.len() as f64) {
        done.retain(|kind| TESTS.contains(kind));
    }
    let most = done.len() as f64;
    if row.measured.is_some_and(|told| told > most) {
        figure(row, Some(most), findings);
    }
}

/// Rule: a condition on volumes is not met more often than environment rows confirm. The report does not list the
/// volumes, so one that lacks its row is enough.
fn volumes_without(report: &Report, condition: &str, name: &str, findings: &mut Findings) {
    let is_stated =
        |row: &&ConditionRow| row.name == condition && row.measured.is_some_and(|share| share >= 100.0);
    let volumes = || report.environment.iter().filter(|row| row.area.starts_with("Volume "));
    let is_known = |volume: &Environment| {
        volumes().any(|row| {
            (&row.host, &row.area) == (&volume.host, &volume.area)
                && (row.name == name && row.severity == Severity::Info && row.value == NO)
        })
    };
    if let Some(row) = report.verdict.conditions.iter().find(is_stated)
        && volumes().any(|volume| !is_known(volume))
    {
        figure(row, Some(0.0), findings);
    }
}

fn figure(row: &ConditionRow, derived: Option<f64>, findings: &mut Findings) {
    let same = match (row.measured, derived) {
        (Some(told), Some(found)) => agrees_within(told, found, 1e-6),
        (told, found) => told == found,
    };
    if !same {
        let found = derived.map_or("not known".to_owned(), |value| with(value, &row.unit));
        findings.add(
            "condition_figure",
            "the figure of a condition is not the one that the tables give",
            (figure_of(row), place(row, "figure")),
            (found, "tables of the report"),
        );
    }
}

/// Rule: what every qualified run must have under any rules of its solution file, such as targets.
fn qualified(report: &Report, findings: &mut Findings) {
    let mut lacks = |text: &str, one: (String, String)| {
        findings.add("qualified_without", text, one, ("qualified", "verdict.grade"));
    };
    for test in report.tests.iter().filter(|test| test.is_load()) {
        if test.target_iops().is_none() {
            let at = format!("{}: planned transactional I/O", test.name);
            lacks("a load test of a qualified run had no target", ("no target".into(), at));
        }
    }
    let ratio = conditions_of_tables(report).into_iter().find(|(name, _)| *name == "cache_ratio");
    if let Some((_, Some(Some(ratio)))) = ratio
        && ratio <= 1.0
    {
        let at = "databases by cache_max_bytes".to_owned();
        lacks("the cache of a qualified run holds its whole database", (with(ratio, "x its cache"), at));
    }
}
