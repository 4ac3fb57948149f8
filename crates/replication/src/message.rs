//! What the arbiter and the copies say to each other. Any message may be lost, late, doubled or out of order.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::types::{Boot, DatabaseId, Epoch, HostId, LogPiece, PageCopy, Position};

/// Health of a copy: whether other copies can read from it, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Health {
    /// Log and pages fit together; the copy can be read from.
    Healthy,
    /// The copy fetches pages: they hold changes of a discarded history, or are damaged.
    Resyncing,
    /// The copy is being seeded from another copy.
    Seeding,
    /// The copy's disk has failed.
    Failed,
}

/// Report of a copy to the arbiter about its own state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Database of the copy.
    pub database: DatabaseId,
    /// Host of the copy.
    pub host: HostId,
    /// Start of the host's agent.
    pub boot: Boot,
    /// Durable promise: the copy accepts nothing from lower epochs.
    pub promised: Epoch,
    /// Lineage of the copy's log.
    pub lineage: Lineage,
    /// End of the copy's durable log.
    pub end: Position,
    /// First log generation that the copy still has.
    pub log_start: u32,
    /// Log position up to which the copy has replayed.
    pub replayed: Position,
    /// Health of the copy.
    pub health: Health,
    /// Whether pages and log of the copy together give a consistent database.
    pub mountable: bool,
    /// Copy queue: generations that the active copy has and this copy lacks, as far as this copy knows.
    pub copy_queue: u32,
    /// Health of the host; 0 is best.
    pub host_tier: u8,
}

impl Report {
    /// Replay queue: generations that the copy has stored and not replayed.
    #[must_use]
    pub fn replay_queue(&self) -> u32 {
        self.replayed.generations_behind(self.end)
    }
}

/// Request of the active copy for its lease, with the facts that the arbiter must record first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// Database of the lease.
    pub database: DatabaseId,
    /// Host that requests the lease.
    pub host: HostId,
    /// Start of the host's agent.
    pub boot: Boot,
    /// Epoch for which the host was elected.
    pub epoch: Epoch,
    /// Number of the renewal; it rises within an epoch.
    pub sequence: u64,
    /// Time of the request on the holder's clock, ms; comes back in the answer.
    pub asked_at_ms: u64,
    /// Newest log generation that the holder has started.
    pub generation: u32,
    /// Partner: host of the copy that stores each commit before users get the acknowledgement (dial `lossless` only).
    pub partner: Option<HostId>,
    /// Lineage of the holder's log; it contains the position at which this epoch began.
    pub lineage: Lineage,
}

/// Identity of a copy's contents. A restart or an erasure gives the copy a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Life {
    /// Start of the host's agent.
    pub boot: Boot,
    /// Number of erasures since that start.
    pub erasures: u32,
}

/// Message from a copy to the arbiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToArbiter {
    /// Report of a copy's state.
    Report(Report),
    /// Request of the active copy for its lease.
    Renewal(Renewal),
    /// The active copy gave its lease back and never will be active in that epoch again.
    Released {
        /// Database of the lease.
        database: DatabaseId,
        /// Host that was active.
        host: HostId,
        /// Epoch that is over.
        epoch: Epoch,
        /// End of its log, if a passive copy was seen to hold all of it (a move without loss).
        drained: Option<Position>,
    },
}

/// Message from the arbiter to a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromArbiter {
    /// Accept nothing from epochs below a new one, and report (begin of an election).
    Fence {
        /// New epoch.
        epoch: Epoch,
    },
    /// Fetch the log that another copy holds beyond yours.
    CatchUp {
        /// Epoch of the election.
        epoch: Epoch,
        /// Host that holds more log.
        source: HostId,
    },
    /// Mount in a new epoch: replay, then ask for the lease.
    Activate {
        /// Epoch for which the copy was elected.
        epoch: Epoch,
    },
    /// The lease is granted.
    Granted {
        /// Epoch of the lease.
        epoch: Epoch,
        /// Number of the renewal that this answers.
        sequence: u64,
        /// Time of the renewal on the holder's clock, ms.
        asked_at_ms: u64,
        /// Length of the lease, ms; the holder counts it from `asked_at_ms`.
        lease_ms: u64,
        /// Newest log generation on the arbiter's record.
        generation: u32,
        /// Partner on the arbiter's record.
        partner: Option<HostId>,
    },
    /// Hand the database over to another host: accept no new commits, ship the whole log, release the lease.
    Drain {
        /// Epoch that ends.
        epoch: Epoch,
        /// Host that is to become active.
        target: HostId,
    },
}

/// Message from one copy to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Log from the active copy (in an election, from a copy that holds more); without log only a sign of life.
    Ship {
        /// Epoch in which the sender may send.
        epoch: Epoch,
        /// Lineage of the sender's log.
        lineage: Lineage,
        /// End of the sender's durable log.
        end: Position,
        /// First log generation that the sender still has.
        log_start: u32,
        /// Piece of log; `None` if there is none to send.
        piece: Option<LogPiece>,
    },
    /// Report of a passive copy to the active one about its log.
    Progress {
        /// Epoch of the active copy.
        epoch: Epoch,
        /// Identity of the passive copy's contents.
        life: Life,
        /// Durable end of the passive copy's log on the active copy's lineage; `None` while a fork is being resolved.
        end: Option<Position>,
        /// Log position up to which the passive copy has written its pages.
        checkpoint: Position,
        /// Log position up to which the passive copy has replayed.
        replayed: Position,
        /// Whether the passive copy could be mounted with its log up to `end`.
        mountable: bool,
        /// Position from which the active copy must send again, because something before the last piece is missing.
        resend_from: Option<Position>,
    },
    /// The sender refused a message because it has promised a newer epoch.
    Rejected {
        /// Epoch that the sender has promised.
        promised: Epoch,
    },
    /// A candidate asks for log.
    FetchLog {
        /// Epoch for which both copies are fenced.
        epoch: Epoch,
        /// End of the candidate's log; it needs what follows.
        from: Position,
    },
    /// A copy without contents asks to be seeded.
    SeedRequest {
        /// Epoch of the active copy.
        epoch: Epoch,
        /// Identity of the contents that are being created.
        life: Life,
        /// Number of the request; comes back in the answer.
        nonce: u64,
    },
    /// Answer to a seeding request: log from a generation on, which together with the pages as they are now or later
    /// gives the database.
    SeedStart {
        /// Epoch of the active copy.
        epoch: Epoch,
        /// Number of the request.
        nonce: u64,
        /// Lineage of the log.
        lineage: Lineage,
        /// First generation that will be shipped.
        generation: u32,
    },
    /// A copy asks for pages.
    FetchPages {
        /// Epoch of the active copy.
        epoch: Epoch,
        /// Number of the request; comes back in the answer.
        nonce: u64,
        /// Pages that are needed.
        request: PageRequest,
        /// Log position that the sender must have replayed before it answers.
        at_least: Position,
    },
    /// Answer with pages.
    Pages {
        /// Epoch, from the request.
        epoch: Epoch,
        /// Number of the request.
        nonce: u64,
        /// Pages that were asked for.
        pages: Rc<[PageCopy]>,
        /// First page of the next stretch, if a stretch was asked for ([`PageRequest::From`]) and the file goes on.
        next: Option<u32>,
        /// Log position behind which no page of the answer holds a change.
        position: Position,
    },
}

/// Pages that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageRequest {
    /// Stretch of the file that starts at this page, as it is on disk.
    From(u32),
    /// Listed pages, as they are now.
    List(Vec<u32>),
}
