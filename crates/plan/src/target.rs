//! The target of the tests: what the worst failure leaves one server to carry.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use solution::{Result, Solution};

use crate::Plan;
use crate::bound::Bound;
use crate::failure::{Failures, Kind, Scenario};
use crate::inputs::Inputs;
use crate::sizing::Sizing;

/// Target: the load on one server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Target {
    /// Number of databases that count.
    pub databases: f64,
    /// Number of mailboxes, whole.
    pub mailboxes: f64,
    /// I/O per second, unrounded.
    pub iops: f64,
    /// Whole mailboxes times the I/O per mailbox that tests print (0.121 for 0.1206).
    pub iops_as_tested: f64,
}

/// Targets of a plan, by different ways of counting.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Targets {
    /// Target if every copy on a server loads its disks, active or not: the calculator's view.
    pub all_copies: Target,
    /// Target if only the active databases of the worst failure count, by the calculator's bound: what papers test.
    pub worst_active_bound: Target,
    /// Target if only the active databases of the worst failure count, by the layout.
    pub worst_active_layout: Target,
    /// Failure of `worst_active_layout`.
    pub worst_case: String,
    /// What `--write-targets` writes: the larger of bound and layout, for the failure under test if one is named.
    pub target_iops: f64,
    /// Failure for which `target_iops` is: the one under test if named, else the worst.
    pub target_case: String,
    /// Mailboxes of that target.
    pub target_mailboxes: f64,
}

/// Computes the targets; `tested` is the failure under test.
pub fn targets(
    inputs: &Inputs<'_>,
    sizing: &Sizing,
    bound: &Bound,
    failures: &Failures,
    tested: Option<&Scenario>,
) -> Targets {
    let per_server = |databases: f64| {
        let mailboxes = databases * sizing.mailboxes_per_database;
        let whole = crate::formula::round_half_up(mailboxes);
        Target {
            databases,
            mailboxes: whole,
            iops: mailboxes * inputs.figures.iops_with_headroom + inputs.users.extra_iops_per_server,
            iops_as_tested: whole * inputs.figures.test_iops + inputs.users.extra_iops_per_server,
        }
    };
    let worst = failures.worst();
    let (in_bound, in_layout) = match tested {
        None => (bound.worst, worst.worst_active),
        Some(named) => {
            let same = failures.scenarios.iter().find(|one| one.lost_servers == named.lost_servers);
            let of_kind = match same.map(|one| one.kind) {
                Some(Kind::Normal) => Some(bound.normal),
                Some(Kind::Server) => bound.server,
                Some(Kind::TwoServers) => bound.two_servers,
                Some(Kind::Site) => bound.site,
                Some(Kind::SiteAndServer) => bound.site_and_server,
                _ => None,
            };
            (of_kind.unwrap_or(0.0), named.worst_active)
        }
    };
    let chosen = per_server(in_bound.max(f64::from(in_layout)));
    Targets {
        all_copies: per_server(sizing.copies_per_server),
        worst_active_bound: per_server(bound.worst),
        worst_active_layout: per_server(f64::from(worst.worst_active)),
        worst_case: worst.label.clone(),
        target_iops: (chosen.iops_as_tested * 100.0).round() / 100.0,
        target_case: tested.unwrap_or(worst).label.clone(),
        target_mailboxes: chosen.mailboxes,
    }
}

/// Edit of the solution file that fills in the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// New text of the file.
    pub text: String,
    /// Changed lines, `-` before the old and `+` before the new; empty if nothing changes.
    pub diff: String,
}

/// Sets `target_iops` in `[load]`, and `mailboxes` in `[sizing]` if that key exists. Everything else, comments
/// included, stays.
///
/// # Errors
/// A `load` to which no key can be added.
pub fn write_targets(solution: &Solution, planned: &Plan) -> Result<Edit> {
    let text = edited(solution, target_keys(solution, planned)?);
    let diff = line_diff(solution.text(), &text);
    Ok(Edit { text, diff })
}

/// Text to put in place of a range of a file.
type Replacement = (Range<usize>, String);

/// Keys of [`write_targets`].
pub(crate) fn target_keys(solution: &Solution, planned: &Plan) -> Result<Vec<Replacement>> {
    let targets = &planned.targets;
    let mut edits = Vec::new();
    if let Some(span) = solution.span("sizing.mailboxes") {
        edits.push((span, format!("{}", targets.target_mailboxes)));
    }
    edits.push(set_key(solution, "load", "target_iops", number(targets.target_iops))?);
    Ok(edits)
}

/// Sets a key of a table, which is added to the file if it is missing.
///
/// # Errors
/// A table to which no key can be added.
pub(crate) fn set_key(solution: &Solution, table: &str, key: &str, value: String) -> Result<Replacement> {
    let text = solution.text();
    match (solution.span(&format!("{table}.{key}")), solution.span(table)) {
        (Some(span), _) => Ok((span, value)),
        (None, Some(found)) if text[found.clone()].starts_with('[') => {
            let end = text[found.start..].find('\n').map_or(text.len(), |at| found.start + at);
            Ok((end..end, format!("\n{key} = {value}")))
        }
        (None, Some(found)) if !is_in_header(text, found.start) => {
            let message = format!("{key} cannot be added to a `{table}` that is no table of its own");
            let help = format!("write [{table}] on a line, and its keys on lines below");
            Err(solution.error(table, message, Some(help)))
        }
        // Of [load.mix] alone, [load] may come behind.
        (None, _) => {
            let gap = if text.ends_with('\n') { "" } else { "\n" };
            Ok((text.len()..text.len(), format!("{gap}\n[{table}]\n{key} = {value}\n")))
        }
    }
}

/// Text of the file after these replacements.
pub(crate) fn edited(solution: &Solution, mut edits: Vec<Replacement>) -> String {
    let mut text = solution.text().to_owned();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, new) in edits {
        text.replace_range(span, &new);
    }
    text
}

/// Whether a name occurs in the header of a table.
fn is_in_header(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[line..at].trim_start().starts_with('[')
}

/// Formats a TOML float.
fn number(value: f64) -> String {
    if value == value.trunc() { format!("{value:.1}") } else { format!("{value}") }
}

/// Lines that differ, with their numbers. Lines are only changed in place or added, so one pass suffices.
pub(crate) fn line_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    let added = new.len() - old.len().min(new.len());
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => (i, j) = (i + 1, j + 1),
            // With lines added, the old line comes again below.
            (Some(a), Some(b)) if added > 0 && new.get(j + added) == Some(a) => {
                out += &format!("{:>5} + {b}\n", j + 1);
                j += 1;
            }
            (Some(a), Some(b)) => {
                out += &format!("{:>5} - {a}\n{:>5} + {b}\n", i + 1, j + 1);
                (i, j) = (i + 1, j + 1);
            }
            (None, Some(b)) => {
                out += &format!("{:>5} + {b}\n", j + 1);
                j += 1;
            }
            (Some(a), None) => {
                out += &format!("{:>5} - {a}\n", i + 1);
                i += 1;
            }
            (None, None) => break,
        }
    }
    out
}
