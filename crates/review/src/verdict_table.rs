//! The verdicts of a run as a table of at most 100 columns.

use std::fmt::Write;
use std::time::Duration;

use evidence::report::{Overall, counted, duration, number};
use results::figures::unit_of;
use results::{Comparison, Grade, Origin, Outcome, Verdict};

/// Most missing conditions that the console names; the report has all of them.
const MISSING_SHOWN: usize = 6;
const COLUMNS: usize = 100;
/// Columns of the terminal for the host and database of a row.
const PLACE_COLUMNS: usize = 16;

/// The table of verdicts as `run` prints it: grade, under each test a row per rule (the worst of all databases), then
/// the grade again with what is missing, because of a long table only the end is on the screen. With several hosts
/// each row names host and database. `unfinished` says why the campaign did not come to its end.
pub fn table(
    verdicts: &[Verdict],
    titles: &[String],
    judged: &Overall,
    unfinished: Option<String>,
    elapsed: Duration,
) -> String {
    let mut text = String::from("\n");
    let words = judged.grade.words().to_uppercase();
    wrapped(&mut text, "", &format!("{words}: {}", judged.headline));
    // Of a qualified run the first reason says what was under test.
    if let (Grade::Qualified, Some(tested)) = (judged.grade, judged.reasons.first()) {
        wrapped(&mut text, "", tested);
    }
    let _ = writeln!(text, "\n{:<38} {:>14} {:>16}  Verdict", "Test and rule", "Measured", "Limit");
    let has_hosts = verdicts.iter().any(|verdict| verdict.origin.host != verdicts[0].origin.host);
    let _ = writeln!(text, "{}", "-".repeat(78));
    let mut under = None;
    for verdict in worst_by_rule(verdicts) {
        if under != Some(verdict.test) {
            under = Some(verdict.test);
            let _ = writeln!(text, "{}", heading(verdict.test, titles));
        }
        let measured = verdict.measured.map_or("-".into(), |value| figure(value, &verdict.unit));
        let limit = verdict.limit.map_or("-".into(), |limit| {
            format!("{} {}", sign(verdict.comparison), figure(limit, &verdict.unit))
        });
        let place = if has_hosts { place(verdict) } else { String::new() };
        let row = format!(
            "  {:<36} {measured:>14} {limit:>16}  {:<10}  {place}",
            verdict.rule,
            word(verdict.outcome)
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    let _ = writeln!(text, "{}", "-".repeat(78));
    let missing: Vec<_> = judged.conditions.iter().filter(|row| !row.met).collect();
    if judged.grade == Grade::Held {
        wrapped(&mut text, "", &judged.headline);
        for row in missing.iter().take(MISSING_SHOWN) {
            wrapped(&mut text, "  missing: ", &row.note);
            wrapped(&mut text, "           ", &row.remedy);
        }
        if missing.len() > MISSING_SHOWN {
            let _ = writeln!(text, "  and {} more, see the report", missing.len() - MISSING_SHOWN);
        }
    }
    judged.causes.iter().for_each(|sentence| wrapped(&mut text, "  why: ", sentence));
    judged.unseen.iter().for_each(|sentence| wrapped(&mut text, "  unseen: ", sentence));
    let said = match judged.grade {
        Grade::Qualified => format!("QUALIFIED: {}", judged.headline),
        Grade::Held => match missing.len() {
            1 => "LIMITS HELD (no qualification: 1 condition is not met)".to_owned(),
            count => format!("LIMITS HELD (no qualification: {count} conditions are not met)"),
        },
        Grade::Failed => format!("FAILED: {}", judged.headline),
        Grade::Incomplete => {
            let why = unfinished.or_else(|| judged.reasons.first().cloned());
            format!("INCOMPLETE: {}", why.unwrap_or_else(|| judged.headline.clone()))
        }
    };
    // The report counts limits; figures without one are in the table as well.
    let told = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Info).count();
    let informs = if told > 0 { format!(", {told} for information") } else { String::new() };
    let limits = verdicts.len() - told;
    let judged = counted(limits as u64, "limit");
    let _ = writeln!(text, "{said}  ({judged} judged{informs}, {})", duration(elapsed.as_secs_f64().round()));
    text
}

/// Host and database of a verdict, cut to the room in the line.
fn place(verdict: &Verdict) -> String {
    let Origin { host, instance, database } = &verdict.origin;
    let part = database.as_ref().or(instance.as_ref());
    let place = part.map_or(host.clone(), |part| format!("{host} {part}"));
    if place.chars().count() <= PLACE_COLUMNS {
        return place;
    }
    place.chars().take(PLACE_COLUMNS - 1).chain(['…']).collect()
}

/// Writes words in lines of at most [`COLUMNS`], the first behind `head`, the others indented as far.
pub(crate) fn wrapped(text: &mut String, head: &str, words: &str) {
    let mut line = head.to_owned();
    for word in words.split(' ') {
        if line.len() > head.len() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(head.len());
        } else if line.len() > head.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

fn heading(test: Option<u32>, titles: &[String]) -> String {
    let Some(number) = test else { return "The run".to_owned() };
    let title = (number as usize).checked_sub(1).and_then(|index| titles.get(index));
    title.map_or_else(|| format!("Test {number}"), |title| format!("{number}. {title}"))
}

/// The worst verdict of each test and rule: a failed one, else the one closest to its limit; in order of appearance.
fn worst_by_rule(verdicts: &[Verdict]) -> Vec<&Verdict> {
    let mut worst: Vec<&Verdict> = Vec::new();
    for verdict in verdicts {
        match worst.iter_mut().find(|other| other.test == verdict.test && other.rule == verdict.rule) {
            Some(other) if is_worse(verdict, other) => *other = verdict,
            Some(_) => {}
            None => worst.push(verdict),
        }
    }
    worst
}

fn is_worse(one: &Verdict, other: &Verdict) -> bool {
    if one.outcome != other.outcome {
        return Outcome::worst([one.outcome, other.outcome]) == Some(one.outcome);
    }
    match one.comparison {
        Comparison::AtLeast => one.measured < other.measured,
        Comparison::AtMost | Comparison::Below => one.measured > other.measured,
    }
}

fn figure(value: f64, unit: &str) -> String {
    let decimals = if value.fract() == 0.0 || value.abs() >= 1000.0 { 0 } else { 2 };
    format!("{} {}", number(value, decimals), unit_of(value, unit)).trim_end().to_owned()
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::AtMost => "<=",
        Comparison::Below => "<",
        Comparison::AtLeast => ">=",
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "FAIL",
        Outcome::Unproved => "not proved",
        Outcome::Info => "-",
    }
}
