//! What goes into the arbiter, what comes out of it, and what it keeps on disk.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::message::{FromArbiter, ToArbiter};
use crate::types::{Boot, DatabaseId, DatabaseSpec, Epoch, HostId, Position};

/// What the arbiter keeps on disk of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The newest epoch that was given out.
    pub issued: Epoch,
    /// The last active copy.
    pub holder: Option<HostId>,
    /// The start of its agent.
    pub boot: Boot,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its log's lineage.
    pub lineage: Lineage,
    /// The newest generation that it has said to have begun.
    pub generation: u32,
    /// The copy that holds each commit before it is acknowledged.
    pub partner: Option<HostId>,
    /// The newest renewal that was taken into account.
    pub sequence: u64,
    /// Each of them holds every acknowledged commit (lossless).
    pub safe: BTreeSet<HostId>,
}

impl Record {
    /// Of a database that has just been made, the same on every copy.
    #[must_use]
    pub fn first(spec: &DatabaseSpec) -> Self {
        Record {
            issued: Epoch(0),
            holder: None,
            boot: Boot(0),
            epoch: Epoch(0),
            lineage: Lineage::first(),
            generation: 0,
            partner: None,
            sequence: 0,
            safe: spec.copies.iter().map(|copy| copy.host).collect(),
        }
    }
}

/// What comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArbiterInput {
    /// Time has passed.
    Tick,
    /// From a copy.
    Message(ToArbiter),
    /// A record is durable.
    Persisted {
        /// From [`ArbiterEffect::Persist`].
        ticket: u64,
    },
    /// The operator wants the database active on this host, without loss.
    Move {
        /// The database.
        database: DatabaseId,
        /// Where.
        target: HostId,
    },
}

/// What the arbiter wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArbiterEffect {
    /// Send.
    ToCopy {
        /// The host.
        host: HostId,
        /// The database.
        database: DatabaseId,
        /// The message.
        message: FromArbiter,
    },
    /// Make durable, in the order of the tickets, then [`ArbiterInput::Persisted`].
    Persist {
        /// Comes back.
        ticket: u64,
        /// The database.
        database: DatabaseId,
        /// Its record.
        record: Record,
    },
    /// For the record.
    Event(DatabaseId, ArbiterEvent),
}

/// What an activation may have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loss {
    /// Where the new history parts from the old one.
    pub fork: Position,
    /// Generations known to have been begun and not held completely.
    pub missing_generations: u32,
    /// What it can be at most, counting generations that the arbiter had not heard of.
    pub bound_generations: u32,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ArbiterEvent {
    HolderSilent { holder: HostId },
    HolderReleased { holder: HostId, drained: bool },
    HolderRestarted { holder: HostId },
    LeaseWaitedOut { holder: HostId },
    ElectionBegun { epoch: Epoch },
    CatchUpOrdered { candidate: HostId, source: HostId },
    CandidateChosen { candidate: HostId },
    CandidateFailed { candidate: HostId },
    Activated { holder: HostId, epoch: Epoch, loss: Option<Loss> },
    MoveBegun { target: HostId },
    MoveGivenUp { target: HostId },
    Dismounted { why: WhyDismounted },
    PartnerRecorded { partner: HostId },
}

/// Why no copy can be activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
pub enum WhyDismounted {
    /// Lossless: no copy that answers is known to hold every acknowledged commit.
    #[error(
        "no copy that answers is known to hold the last acknowledged commit; bring back the last active copy or its partner"
    )]
    NoProof,
    /// All copies that could be activated lack more than the dial allows.
    #[error(
        "every copy that answers lacks more log generations than the mount dial allows; bring back one that has them"
    )]
    TooMuchLost,
    /// No copy that answers is healthy and may be activated.
    #[error(
        "no copy that answers is healthy and may be activated; repair one, or lift its activation policy"
    )]
    NoCandidate,
}
