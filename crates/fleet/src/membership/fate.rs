//! How it went with a host of a run.

use serde::{Deserialize, Serialize};

use crate::agent_state::state_not_written;
use crate::message::{Ended, Heartbeat, Work};

/// Fate of a host in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// The host's part is not over.
    Open,
    /// The host could not take part.
    Refused {
        /// Reason.
        why: String,
    },
    /// The host's part is over.
    Ended {
        /// Ending of that part.
        how: Ended,
        /// Cause, if the part could not go on.
        why: Option<String>,
        /// Whether the controller has the host's evidence.
        evidence_kept: bool,
    },
}

impl Fate {
    /// Whether nothing more is expected from the host.
    pub fn is_kept(&self) -> bool {
        matches!(self, Fate::Refused { .. } | Fate::Ended { evidence_kept: true, .. })
    }
}

/// Cause of a host's ending together with the failure of its state file; only once if both are the same.
fn both_causes(why: Option<&str>, of_state: Option<&str>) -> Option<String> {
    match (why, of_state) {
        (Some(why), Some(of_state)) if !why.contains(of_state) => Some(format!("{why}; {of_state}")),
        (why, of_state) => why.or(of_state).map(str::to_owned),
    }
}

/// Fate of a host according to its heartbeat. `mine`: the heartbeat is about this run, whose tests have started if
/// `has_started`.
pub(super) fn fate_said(heartbeat: &Heartbeat, mine: bool, has_started: bool) -> Fate {
    match &heartbeat.work {
        Work::Refused { why } if mine => Fate::Refused { why: why.clone() },
        Work::Ended { how, why, files } if mine => {
            let of_state = heartbeat.state_error.as_deref().map(state_not_written);
            let why = both_causes(why.as_deref(), of_state.as_deref());
            Fate::Ended { how: *how, why, evidence_kept: files.is_empty() }
        }
        // Its memory of the run is gone. What it had written down by then still lies in its folder.
        work if has_started && (!mine || matches!(work, Work::Idle)) => {
            let why = match &heartbeat.run {
                Some(other) if !mine => format!("the agent has taken up another run, {other}"),
                _ => "the agent came back without its part of the run".to_owned(),
            };
            Fate::Ended { how: Ended::AgentDied, why: Some(why), evidence_kept: false }
        }
        _ => Fate::Open,
    }
}
