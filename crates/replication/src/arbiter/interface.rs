//! What goes into the arbiter, what comes out of it, and what it keeps on disk.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::message::{FromArbiter, ToArbiter};
use crate::types::{Boot, DatabaseId, DatabaseSpec, Epoch, HostId, Position};

/// Durable record of the arbiter for one database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Newest epoch that the arbiter has given out.
    pub issued: Epoch,
    /// Host of the last active copy.
    pub holder: Option<HostId>,
    /// Start of the last active copy's agent.
    pub boot: Boot,
    /// Epoch of the last active copy.
    pub epoch: Epoch,
    /// Lineage of the last active copy's log.
    pub lineage: Lineage,
    /// Highest log generation that the active copy announced as started.
    pub generation: u32,
    /// Host of the passive copy that stores each commit before users get the acknowledgement.
    pub partner: Option<HostId>,
    /// Number of the newest renewal that is part of this record.
    pub sequence: u64,
    /// Hosts whose copies hold every acknowledged commit (dial `lossless`).
    pub safe: BTreeSet<HostId>,
}

impl Record {
    /// Record of a newly created database, which is the same on every copy.
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

/// Input of the arbiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArbiterInput {
    /// Time has passed; timers may be due.
    Tick,
    /// A message from a copy.
    Message(ToArbiter),
    /// A record is durable on the arbiter's disk.
    Persisted {
        /// Ticket of the [`ArbiterEffect::Persist`] that is done.
        ticket: u64,
    },
    /// The operator asks to move the active copy to another host without loss.
    Move {
        /// Database to move.
        database: DatabaseId,
        /// Host that is to become active.
        target: HostId,
    },
}

/// Action that the arbiter asks its driver to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArbiterEffect {
    /// Send a message to a copy.
    ToCopy {
        /// Host of the copy that gets the message.
        host: HostId,
        /// Database that the message is about.
        database: DatabaseId,
        /// Message to send.
        message: FromArbiter,
    },
    /// Make a record durable, in the order of the tickets, then answer with [`ArbiterInput::Persisted`].
    Persist {
        /// Number that comes back in the answer.
        ticket: u64,
        /// Database of the record.
        database: DatabaseId,
        /// Record to store.
        record: Record,
    },
    /// An event for the evidence.
    Event(DatabaseId, ArbiterEvent),
}

/// Loss that an activation may have caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loss {
    /// Position at which the new history leaves the old one.
    pub fork: Position,
    /// Generations that the old active copy had started and the new one does not hold completely.
    pub missing_generations: u32,
    /// Upper bound of the lost generations, with those that the arbiter may not have heard of.
    pub bound_generations: u32,
}

/// Event of the arbiter, for evidence and counters.
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

/// Reason why no copy of a database can be activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
pub enum WhyDismounted {
    /// `NoProof`: with the dial `lossless`, no answering copy is known to hold every acknowledged commit.
    #[error(
        "no copy that answers is known to hold the last acknowledged commit; bring back the last active copy or its partner"
    )]
    NoProof,
    /// `TooMuchLost`: all copies that could be activated lack more generations than the dial allows.
    #[error(
        "every copy that answers lacks more log generations than the mount dial allows; bring back one that has them"
    )]
    TooMuchLost,
    /// `NoCandidate`: no answering copy is healthy and may be activated.
    #[error(
        "no copy that answers is healthy and may be activated; repair one, or lift its activation policy"
    )]
    NoCandidate,
}
