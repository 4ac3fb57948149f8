//! Why a test failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cause of a failed or unsteady test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable name, for example `too_much_load`; `cannot_tell` if the rows name none.
    pub name: String,
    /// What happened, as a sentence without its full stop.
    pub what: String,
    /// Time in the window from which on it shows: the whole window, or from a second on.
    pub since: String,
    /// The part, database or setting that it concerns; empty if it concerns all of them.
    pub part: String,
    /// Figures of `run.db` that prove it.
    pub proofs: Vec<Proof>,
    /// What to try.
    pub remedy: String,
}

impl Cause {
    /// Name of the answer that the rows name no cause.
    pub const UNKNOWN: &str = "cannot_tell";

    /// The cause as one paragraph.
    pub fn text(&self) -> String {
        let proofs: Vec<String> =
            self.proofs.iter().map(|proof| format!("{} {}", proof.rows, proof.figure)).collect();
        let proofs = if proofs.is_empty() { String::new() } else { format!(" Rows: {}.", proofs.join("; ")) };
        format!("{} ({}, {}).{proofs} Try: {}.", self.what, self.name, self.since, self.remedy)
    }
}

/// A figure of rows of `run.db`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Which rows: measure, counter, part or setting, and where it was counted.
    pub rows: String,
    /// The figure, with its unit.
    pub figure: String,
}
