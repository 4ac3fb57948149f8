//! The calculator's files of a group (`Servers.csv`, `MailboxDatabases.csv`, `MailboxDatabaseCopies.csv`,
//! `DAGInfo.csv`) into a solution file with the group's layout.
//!
//! Invariants
//! 1. Files that are damaged or contradict each other are refused with every reason, each with file and line.
//! 2. Nothing is guessed: what the files do not say is left out, and the solution file names it.

mod model;
mod rows;
mod text;

use super::table::Reason;
use super::{ImportError, decode};
use rows::{Reasons, Sheet};

/// Names of the files of Microsoft's calculator, and the columns that each must have.
const FILES: [(&str, &[&str]); 4] = [
    ("Servers.csv", &["ServerName", "DbPerVolume", "DbMap"]),
    ("MailboxDatabases.csv", &["Name", "Server"]),
    ("MailboxDatabaseCopies.csv", &["Name", "Server", "ActivationPreference", "ReplayLagTime"]),
    ("DAGInfo.csv", &["DAGName", "Site1Servers"]),
];

/// Names of the calculator's files that describe a group (DAG).
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|&(name, _)| name)
}

/// Makes the solution file of the group (DAG) in these files, each given with its name.
///
/// # Errors
/// Every reason why they describe no group.
pub fn group(files: &[(String, Vec<u8>)]) -> Result<String, ImportError> {
    let mut reasons = Reasons::default();
    let sheets = FILES.map(|(name, columns)| {
        let Some((_, bytes)) = files.iter().find(|(file, _)| file.eq_ignore_ascii_case(name)) else {
            reasons.add(name, None, "the file is missing".into());
            return None;
        };
        match decode(bytes) {
            Ok(text) => Sheet::read(name, &text, columns, &mut reasons),
            Err(error) => {
                reasons.add(name, None, error.to_string());
                None
            }
        }
    });
    let refused = |reasons: Reasons| ImportError::Tables(reasons.0);
    let [Some(servers), Some(databases), Some(copies), Some(group)] = &sheets else {
        return Err(refused(reasons));
    };
    let group = model::Group::of([servers, databases, copies, group], &mut reasons);
    match group {
        Some(group) if reasons.0.is_empty() => checked(text::text(&group)),
        _ => Err(refused(reasons)),
    }
}

/// The solution text, if it is a valid solution file.
fn checked(text: String) -> Result<String, ImportError> {
    match solution::Solution::parse(&text, "solution.toml") {
        Ok(_) => Ok(text),
        Err(error) => {
            let mistakes = error.mistakes().map(|mistake| Reason {
                file: "the group".into(),
                line: None,
                text: mistake.message,
            });
            Err(ImportError::Tables(mistakes.collect()))
        }
    }
}
