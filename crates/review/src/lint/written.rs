//! `report.json` against the report that the rows of `run.db` give.
//!
//! A report of this version is compared whole. Another version may know other fields: of its report every section has
//! to be there that it cannot do without, and what both versions know has to agree.

use evidence::Report;
use serde_json::Value;

use super::{Findings, brief, with};

/// Rule: `json`, the text of `report.json`, is what this program makes of the rows. It is written together with the
/// page, so a page of this version means a report of this version.
pub(super) fn check(recomputed: &Report, json: &str, page_is_ours: bool, findings: &mut Findings) {
    let place = "report.json";
    let written = match Report::read(json) {
        Ok(written) => written,
        Err(error) => {
            let text = "report.json lacks what every report has, or is none";
            return findings.add(
                "report_differs",
                text,
                (error.to_string(), place),
                ("a whole report", "run.db"),
            );
        }
    };
    let is_whole = page_is_ours || written.program == recomputed.program;
    // What another version says is compared; which one it is, is not.
    let program = if is_whole { &recomputed.program } else { &written.program };
    let mut made = Report { program: program.clone(), ..recomputed.clone() };
    let Ok(mut raw) = serde_json::from_str::<Value>(json) else { return };
    if !is_whole {
        known_to_both(&written, &mut raw, &mut made);
    }
    let Ok(computed) = serde_json::to_value(made) else { return };
    let lost_seal = || {
        let sealed = recomputed.run.seal.clone().filter(|_| written.run.seal.is_none())?;
        Some(("run.seal".to_owned(), MISSING.to_owned(), brief(&sealed)))
    };
    if let Some((path, one, other)) = difference(&raw, &computed, is_whole, String::new()).or_else(lost_seal)
    {
        let text = "report.json does not say what run.db says: it was changed, or run.db was";
        findings.add(
            "report_differs",
            text,
            (one, format!("{place}: {path}")),
            (other, format!("run.db: {path}")),
        );
    }
}

/// Removes conditions that only one of two versions knows, and sentences about them. Which conditions a run records,
/// and which faults stay unseen, depends on the version.
fn known_to_both(written: &Report, raw: &mut Value, made: &mut Report) {
    let names = made.verdict.conditions.iter().map(|row| row.name.clone());
    let of_made: Vec<String> = names.filter(|name| name != "rules_percent").collect();
    made.verdict.conditions.retain(|row| {
        row.name != "rules_percent" && written.verdict.conditions.iter().any(|other| other.name == row.name)
    });
    if let Some(conditions) = raw["verdict"]["conditions"].as_array_mut() {
        conditions
            .retain(|row| row["name"].as_str().is_some_and(|name| of_made.iter().any(|own| own == name)));
    }
    for row in &mut made.verdict.conditions {
        // Words are the version's own; figures and bounds are not.
        if let Some(other) = written.verdict.conditions.iter().find(|other| other.name == row.name) {
            let own = row.clone();
            *row = other.clone();
            (row.measured, row.least, row.most, row.met) = (own.measured, own.least, own.most, own.met);
        }
    }
    made.verdict.reasons.clone_from(&written.verdict.reasons);
    made.verdict.unseen.clone_from(&written.verdict.unseen);
}

const MISSING: &str = "missing";

/// The first place where two documents differ: path, one value, the other. Unless `is_whole`, a field that only one of
/// them has is passed over.
fn difference(
    written: &Value,
    computed: &Value,
    is_whole: bool,
    path: String,
) -> Option<(String, String, String)> {
    match (written, computed) {
        (Value::Object(a), Value::Object(b)) => {
            let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            let lacks = |key: &String| {
                let value = |object: &serde_json::Map<String, Value>| {
                    object.get(key).map_or_else(|| MISSING.to_owned(), |value| brief(&value.to_string()))
                };
                (at(key), value(a), value(b))
            };
            let of_one = |&key: &&String| a.contains_key(key) != b.contains_key(key);
            let lacking = || a.keys().chain(b.keys()).find(of_one).filter(|_| is_whole).map(lacks);
            let both = a.iter().filter_map(|(key, value)| Some((key, value, b.get(key)?)));
            both.into_iter()
                .find_map(|(key, value, other)| difference(value, other, is_whole, at(key)))
                .or_else(lacking)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(n, (a, b))| difference(a, b, is_whole, format!("{path}[{n}]")))
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64()?, b.as_f64()?);
            ((a - b).abs() > 1e-9 * a.abs().max(b.abs())).then(|| (path, with(a, ""), with(b, "")))
        }
        (a, b) if a == b => None,
        (Value::Array(a), Value::Array(b)) => {
            Some((path, format!("{} entries", a.len()), format!("{} entries", b.len())))
        }
        (a, b) => Some((path, brief(&a.to_string()), brief(&b.to_string()))),
    }
}
