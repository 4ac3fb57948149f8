//! The judgement of a run as a whole: its grade, the sentence for it, and the reasons.

use results::grade::Counts;
use results::judge::LatencyRule;
use results::{Ending, Grade, Measure, Outcome, Severity, Verdict, WorldKind};

use super::conditions;
use super::model::*;
use super::text::{bare, counted, duration, number, significant};
use super::window::{Scope, TestView};
use crate::run_data::RunData;
use crate::store::misfit;

/// The sentence of a run whose rows contradict its seals.
pub const CHANGED: &str = "The rows differ from their seals: nothing is proved.";

/// Beginning of the sentence of a simulated run.
pub const PREDICTED: &str = "Predicted, not tested: ";

/// The numbers of verdicts and tests that a grade follows from.
pub fn counts(report: &Report) -> Counts {
    let count = |outcome| report.verdicts().filter(|verdict| verdict.outcome == outcome).count() as u64;
    Counts {
        passed: count(Outcome::Pass),
        failed: count(Outcome::Fail),
        unproved: count(Outcome::Unproved),
        open_tests: report.tests.iter().filter(|test| !test.ended).count() as u64,
    }
}

/// Judges a report that is otherwise complete.
pub fn overall(data: &RunData, report: &Report) -> Overall {
    let (tests, run_verdicts) = (report.tests.as_slice(), report.run_verdicts.as_slice());
    let counts = counts(report);
    let conditions = conditions::rows(data, report);
    let misfit = misfit(&data.seals.broken);
    let grade = match misfit {
        Some(_) => Grade::Incomplete,
        None => Grade::of(counts, data.run.ending, conditions.iter().all(|condition| condition.met)),
    };
    let mut reasons: Vec<String> =
        misfit.iter().map(|text| format!("Changed after the run: {text}.")).collect();
    reasons.extend(failures(data, tests, run_verdicts));
    reasons.extend(unproved(tests, run_verdicts));
    reasons.extend(unfinished(data, tests, counts));
    let excused: Vec<(&str, &Verdict)> = excused(tests);
    reasons.extend(
        excused.iter().map(|(test, verdict)| format!("{test}: “{}” on {}.", verdict.text, verdict.origin)),
    );
    let headline = match grade {
        Grade::Qualified => qualified(data, tests, &conditions),
        Grade::Held => held(tests, &conditions, &excused),
        Grade::Failed => reasons.first().cloned().unwrap_or_default(),
        Grade::Incomplete if misfit.is_some() => CHANGED.to_owned(),
        Grade::Incomplete => incomplete(counts),
    };
    let headline = match (data.run.world, grade) {
        (WorldKind::Real, _) | (_, Grade::Incomplete) => headline,
        (WorldKind::Simulated, _) => format!("{PREDICTED}{headline}"),
    };
    if matches!(grade, Grade::Qualified | Grade::Held) {
        if grade == Grade::Qualified {
            reasons.extend(tested(data));
        }
        let limits = counted(counts.passed + excused.len() as u64, "limit");
        let kept = number(counts.passed as f64, 0);
        let tests = counted(tests.len() as u64, "test");
        reasons.push(format!("{tests} carried out, {kept} of {limits} kept."));
        reasons.extend(conditions.iter().filter(|row| !row.met).map(missing));
        reasons.extend(conditions.iter().filter(|row| row.met && row.weaker).map(weaker));
    }
    let doubts = data.environment.iter().filter(|row| row.severity != Severity::Info).count() as u64;
    if doubts > 0 {
        reasons.push(format!("{} about the environment: see “Environment”.", counted(doubts, "warning")));
    }
    let (passed, failed) = (counts.passed as u32, counts.failed as u32);
    let (causes, unseen) = (causes(tests), unseen(tests));
    Overall { grade, outcome: grade.into(), headline, reasons, causes, unseen, conditions, passed, failed }
}

/// The causes of all tests, one paragraph each.
fn causes(tests: &[TestReport]) -> Vec<String> {
    let of_test = |test: &TestReport| -> Vec<String> {
        let paragraphs = test.causes.iter().enumerate();
        paragraphs
            .map(|(place, cause)| {
                format!("{}: {}{}", test.name, if place > 0 { "or: " } else { "" }, cause.text())
            })
            .collect()
    };
    tests.iter().flat_map(of_test).collect()
}

/// Faults that page checksums cannot show in this run; docs/faults.md lists them.
fn unseen(tests: &[TestReport]) -> Vec<String> {
    let reads = |kinds: &[&str]| tests.iter().any(|test| test.ended && kinds.contains(&test.kind.as_str()));
    let mut sentences = Vec::new();
    if reads(&["database_checksum", "backup", "backup_to_disk", "restore"]) {
        sentences
            .push("No check sees an older version of a page that did not change since its flush map was begun anew.");
        if !reads(&["database_checksum", "backup_to_disk", "restore"]) {
            sentences
                .push("A backup does not see sectors of a page that changed places with equal parities.");
        } else {
            sentences
                .push("No check sees sectors that changed places in bytes of a page that hold no entry.");
        }
    }
    sentences.into_iter().map(str::to_owned).collect()
}

/// A condition of a qualification that is not met, in a sentence with its remedy.
fn missing(row: &ConditionRow) -> String {
    format!("Missing: {}. Remedy: {}.", row.note, row.remedy)
}

/// A rule of the solution file that is more lenient than the published one, in a sentence.
fn weaker(row: &ConditionRow) -> String {
    let bounds = |least: Option<f64>, most: Option<f64>| match (least, most) {
        (Some(least), Some(most)) => format!("{} to {}", bare(least), bare(most)),
        (Some(least), None) => format!("at least {}", bare(least)),
        (None, Some(most)) => format!("at most {}", bare(most)),
        (None, None) => "none".to_owned(),
    };
    let own = bounds(row.least, row.most);
    let published = bounds(row.published_least, row.published_most);
    format!("Own rule: {}: {own} {} (published: {published}).", row.text, row.unit)
}

fn qualified(data: &RunData, tests: &[TestReport], conditions: &[ConditionRow]) -> String {
    let claim = data.claim.as_ref();
    let figure = |iops: f64| format!("{} transactional I/O per second and server", number(iops, 2));
    let of_day = claim.and_then(|claim| claim.day_mean_percent).map_or(String::new(), |mean| {
        format!(", in the peak hour of a day whose mean is {} % of it", bare(mean))
    });
    let plan = claim.and_then(|claim| Some((claim.mailboxes?, claim.iops_per_server?)));
    let carries = match plan {
        Some((mailboxes, iops)) => {
            let each = claim.and_then(|claim| claim.iops_per_mailbox);
            let each = each.map_or(String::new(), |iops| format!(", {} per mailbox", significant(iops)));
            format!("carries {} ({}{each}{of_day})", counted(mailboxes as u64, "mailbox"), figure(iops))
        }
        None => {
            let servers = claim.map_or(1, |claim| claim.hosts.len()).max(1) as f64;
            let targets = tests.iter().filter(|test| test.is_load()).filter_map(TestReport::peak_target_iops);
            let target = targets.reduce(f64::min).unwrap_or(0.0);
            format!("carries the stated load of {}{of_day}", figure(target / servers))
        }
    };
    let failure = claim.and_then(|claim| claim.failure.as_deref());
    let case = failure.map_or(String::new(), |lost| format!(" with {lost} lost"));
    let size = conditions.iter().find(|row| row.name == "database_size_percent").and_then(|row| row.measured);
    let size = size.map_or(String::new(), |percent| {
        format!(", with databases of {} % of the planned size", bare(percent))
    });
    match conditions.iter().any(|row| row.weaker) {
        false => format!("The storage {carries}{case}{size}."),
        true => format!("By its own rules, the storage {carries}{case}{size}."),
    }
}

/// What was tested, in a sentence: the parts of the claim that the headline has no room for.
fn tested(data: &RunData) -> Option<String> {
    let claim = data.claim.as_ref().filter(|claim| !claim.engine.is_empty())?;
    let copies = claim.copies.map_or(String::new(), |copies| {
        let databases = if copies == 1 { "each database" } else { "each database, the active one included" };
        format!(
            "{} of {databases}; ",
            if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }
        )
    });
    let hosts = claim.hosts.join(", ");
    let needed = claim.profile_iops_per_mailbox.map_or(String::new(), |iops| {
        format!("; the profile needs {} transactional I/O per second and mailbox", significant(iops))
    });
    Some(format!("Under test: {hosts} on {}; {copies}{}{needed}.", claim.storage, claim.engine))
}

/// The limits that a scheduled fault broke, each with its tests; the one that was missed furthest comes first.
fn excused(tests: &[TestReport]) -> Vec<(&str, &Verdict)> {
    let all = tests.iter().flat_map(|test| test.verdicts.iter().map(|verdict| (test.name.as_str(), verdict)));
    let mut broken: Vec<(&str, &Verdict)> = all.filter(|(_, verdict)| verdict.is_excused()).collect();
    let times = |verdict: &Verdict| {
        verdict.measured.zip(verdict.limit).map_or(1.0, |(measured, limit)| (measured / limit).ln().abs())
    };
    broken.sort_by(|(_, a), (_, b)| times(b).total_cmp(&times(a)));
    broken
}

/// What the report says about limits that a scheduled fault broke.
fn outside(excused: &[(&str, &Verdict)]) -> String {
    let Some((_, worst)) = excused.first() else { return String::new() };
    let what = match LatencyRule::from_name(&worst.rule) {
        Some(LatencyRule::ReadAvg) => "mean read",
        Some(LatencyRule::ReadMax) => "read sample",
        Some(LatencyRule::LogWriteAvg) => "mean log write",
        Some(LatencyRule::LogWriteMax) => "log write sample",
        None => "rate",
    };
    let broke = counted(excused.len() as u64, "limit");
    let figure = worst.measured.map_or(String::new(), significant);
    format!(" outside the scheduled fault; during it {broke} broke, worst {what} {figure} {}", worst.unit)
}

fn held(tests: &[TestReport], conditions: &[ConditionRow], excused: &[(&str, &Verdict)]) -> String {
    let loads = || tests.iter().filter(|test| test.is_load());
    let iops = loads().filter_map(|test| Some(test.throughput?.transactional_iops)).reduce(f64::min);
    let Some(iops) = iops else {
        return "No limit was broken, but no load test took place: nothing is known of the storage under load."
            .to_owned();
    };
    let iops = if iops < 100.0 { significant(iops) } else { number(iops, 0) };
    let is_met = |name: &str| conditions.iter().any(|row| row.name == name && row.met);
    let target = match (is_met("target_set_percent"), is_met("target_met_percent")) {
        (false, _) => "no target was set",
        (true, true) => "the target was reached, but this is no qualification",
        (true, false) => "the target was not reached",
    };
    let estimate = if is_met("window_percent") { "" } else { " in an estimate of the full window" };
    let of_day = if loads().any(|test| !test.hours.is_empty()) { " in the mean of a day" } else { "" };
    let outside = outside(excused);
    format!(
        "Latency limits held at {iops} transactional I/O per second{of_day}{estimate}{outside}; {target}."
    )
}

fn incomplete(counts: Counts) -> String {
    let seen = match counts.passed {
        0 => "no limit was judged",
        passed => {
            let limits = passed + counts.unproved;
            let were = if limits == 1 { "was" } else { "were" };
            &format!("until then {} of {} {were} kept", number(passed as f64, 0), counted(limits, "limit"))
        }
    };
    format!("The run is not complete: nothing is proved; {seen}.")
}

/// Why the campaign did not come to its end, a sentence each.
fn unfinished(data: &RunData, tests: &[TestReport], counts: Counts) -> Vec<String> {
    let mut reasons = Vec::new();
    let until = duration(data.last_ms() as f64 / 1e3);
    match data.run.ending {
        Some(Ending::Completed) => {}
        Some(Ending::Interrupted) => reasons.push(format!("The run was interrupted after {until}.")),
        Some(Ending::Aborted) => {
            reasons.push(format!("The run could not go on after {until}: see “Events”."))
        }
        None => reasons.push(format!("The run did not end by itself; what is known ends after {until}.")),
    }
    reasons.extend(tests.iter().filter(|test| !test.ended).map(|test| format!("{} did not end.", test.name)));
    if counts.passed + counts.failed == 0 {
        reasons.push("Nothing was judged.".to_owned());
    }
    reasons
}

/// The limits that were broken, a sentence per test and rule, in the order of the tests.
fn failures(data: &RunData, tests: &[TestReport], run_verdicts: &[Verdict]) -> Vec<String> {
    let of_tests = tests.iter().flat_map(|test| {
        broken(&test.name, &test.verdicts.iter().collect::<Vec<_>>(), |row| first_broken_s(data, test, row))
    });
    let of_run = broken("The run", &run_verdicts.iter().collect::<Vec<_>>(), |_| None);
    of_tests.chain(of_run).collect()
}

/// The limits that a test broke, a sentence per rule. `since` says how far into the window a limit was broken first.
pub fn broken(name: &str, verdicts: &[&Verdict], since: impl Fn(&Verdict) -> Option<f64>) -> Vec<String> {
    let mut told: Vec<&str> = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail) {
        if !told.contains(&verdict.rule.as_str()) {
            told.push(&verdict.rule);
        }
    }
    told.into_iter().map(|rule| failure(name, rule, verdicts, &since)).collect()
}

/// The rules that could not be judged, a sentence each. Those of the run come first: a missing host explains what its
/// tests lack.
fn unproved(tests: &[TestReport], run_verdicts: &[Verdict]) -> Vec<String> {
    let named = tests.iter().map(|test| (test.name.as_str(), test.verdicts.as_slice()));
    let rows = [("The run", run_verdicts)].into_iter().chain(named).flat_map(|(name, verdicts)| {
        verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Unproved).map(move |row| (name, row))
    });
    rows.map(|(name, row)| format!("{name}: “{}” is not proved on {}.", row.text, row.origin)).collect()
}

fn failure(
    name: &str,
    rule: &str,
    verdicts: &[&Verdict],
    since: &impl Fn(&Verdict) -> Option<f64>,
) -> String {
    let judged: Vec<_> = verdicts.iter().filter(|verdict| verdict.rule == rule).collect();
    let failed: Vec<_> = judged.iter().filter(|verdict| verdict.outcome == Outcome::Fail).collect();
    let distance = |verdict: &Verdict| match (verdict.measured, verdict.limit) {
        (Some(measured), Some(limit)) => (measured - limit).abs(),
        _ => f64::INFINITY,
    };
    let Some(worst) = failed.iter().max_by(|a, b| distance(a).total_cmp(&distance(b))) else {
        return String::new();
    };
    let unit = if worst.unit == "1/s" { " per second" } else { &format!(" {}", worst.unit) };
    let measured = match (worst.measured, worst.limit) {
        (Some(measured), Some(limit)) => {
            format!("{}{unit} against a limit of {}", significant(measured), significant(limit))
        }
        (Some(measured), None) => format!("{}{unit}", significant(measured)),
        (None, _) => "nothing was measured".to_owned(),
    };
    let share =
        if judged.len() > 1 { format!(", in {} of {}", failed.len(), judged.len()) } else { String::new() };
    let since = since(worst).map_or(String::new(), |s| format!(", first {} into the window", duration(s)));
    format!("{name}: “{}” does not hold: {measured} on {}{since}{share}.", worst.text, worst.origin)
}

/// Seconds from the start of the window to the first sample that broke a latency limit.
fn first_broken_s(data: &RunData, test: &TestReport, verdict: &Verdict) -> Option<f64> {
    let measure: Measure = LatencyRule::from_name(&verdict.rule)?.class().into();
    let (limit, origin) = (verdict.limit?, &verdict.origin);
    let view = TestView::new(data, data.tests.get(&test.ordinal)?);
    let scope = match (&origin.instance, &origin.database) {
        (Some(_), Some(_)) => Scope::Database(origin),
        (Some(instance), None) => Scope::Instance(&origin.host, instance),
        _ => Scope::Host(&origin.host),
    };
    let samples = view.sample_latencies_ms(&[(scope, &[measure])]);
    let first = samples.iter().position(|latency_ms| latency_ms.is_some_and(|ms| ms > limit))?;
    Some(view.samples_of([scope]).start_ms(first).saturating_sub(view.span.start_ms) as f64 / 1e3)
}
