//! Files that build the planned group: the calculator's own tables, scripts, an inventory, and the solution file with
//! its layout.
//!
//! Invariants
//! 1. Names from the solution file are data in every file: nothing that reads one computes, expands or runs them.
//! 2. Same plan, same files.
//!
//! Limits: one group (a file with several describes one of them); logs beside their databases; the scripts are for
//! Exchange 2013 and later.

mod calculator;
pub mod csv;
mod inventory;
mod limits;
mod place;
mod powershell;
mod with_layout;

pub use limits::{ActiveLimits, active_limits};

use solution::{Result, Solution};

use crate::Plan;

/// Files of an export, by name.
///
/// # Errors
/// The layout cannot be added to the solution file.
pub fn export(solution: &Solution, plan: &Plan) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("Servers.csv", windows(&calculator::servers(solution, plan))),
        ("MailboxDatabases.csv", windows(&calculator::databases(solution, plan)?)),
        ("MailboxDatabaseCopies.csv", windows(&calculator::copies(solution, plan))),
        ("DAGInfo.csv", windows(&calculator::group(solution, plan))),
        ("MountPoints.ps1", windows(&powershell::mount_points(plan))),
        ("Group.ps1", windows(&powershell::group(solution, plan))),
        ("Databases.ps1", windows(&powershell::databases(solution, plan)?)),
        ("Copies.ps1", windows(&powershell::copies(solution, plan))),
        ("inventory.json", inventory::inventory(plan)),
        ("solution.toml", with_layout::with_layout(solution, plan)?),
    ])
}

/// Encodes a text for Windows: with a byte order mark if it is not ASCII, as its tools require.
fn windows(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { format!("\u{feff}{text}") }
}
