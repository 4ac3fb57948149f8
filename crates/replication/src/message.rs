//! What the arbiter and the copies say to each other. Any message may be lost, late, doubled or out of order.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::types::{Boot, DatabaseId, Epoch, HostId, PageCopy, Piece, Position};

/// Why a copy cannot be read from, or that it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Health {
    /// Log and pages belong together.
    Healthy,
    /// Pages that hold changes of a lost history are being fetched, or damaged ones.
    Resyncing,
    /// It is being made anew from another copy.
    Seeding,
    /// Its disk has failed.
    Failed,
}

/// What a copy says about itself to the arbiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The database.
    pub database: DatabaseId,
    /// The host.
    pub host: HostId,
    /// The start of its agent.
    pub boot: Boot,
    /// It takes nothing from epochs below this one; durable.
    pub promised: Epoch,
    /// Who wrote its log.
    pub lineage: Lineage,
    /// Where its durable log ends.
    pub end: Position,
    /// The first generation that it still has.
    pub log_start: u32,
    /// How far it has replayed.
    pub replayed: Position,
    /// Its state.
    pub health: Health,
    /// Whether pages and log together give a consistent database.
    pub mountable: bool,
    /// Generations that the active copy has and this one lacks, as far as it knows.
    pub copy_queue: u32,
    /// Health of the host: 0 is best.
    pub host_tier: u8,
}

impl Report {
    /// Generations stored and not replayed.
    #[must_use]
    pub fn replay_queue(&self) -> u32 {
        self.replayed.generations_behind(self.end)
    }
}

/// The holder asks for its lease, and says what the arbiter must know before it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// The database.
    pub database: DatabaseId,
    /// The host that asks.
    pub host: HostId,
    /// The start of its agent.
    pub boot: Boot,
    /// The epoch that it was chosen for.
    pub epoch: Epoch,
    /// Rises with each renewal of an epoch.
    pub sequence: u64,
    /// The holder's clock when it asked; comes back in the answer.
    pub asked_at_ms: u64,
    /// The newest generation that it has begun.
    pub generation: u32,
    /// The copy that holds each commit before it is acknowledged (lossless only).
    pub partner: Option<HostId>,
    /// The log of this epoch; its end when the epoch began is in there.
    pub lineage: Lineage,
}

/// Which contents of a copy are meant: a restart or an erasure makes later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Life {
    /// The start of its agent.
    pub boot: Boot,
    /// How often it has been erased since then.
    pub erasures: u32,
}

/// To the arbiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToArbiter {
    /// How a copy is.
    Report(Report),
    /// The holder wants its lease.
    Renewal(Renewal),
    /// The holder is not active any more and never will be in that epoch.
    Released {
        /// The database.
        database: DatabaseId,
        /// The host.
        host: HostId,
        /// The epoch that is over.
        epoch: Epoch,
        /// Where its log ends if a passive copy was seen to hold all of it (a move without loss).
        drained: Option<Position>,
    },
}

/// From the arbiter to a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromArbiter {
    /// Take nothing any more from epochs below this one, and report.
    Fence {
        /// The new epoch.
        epoch: Epoch,
    },
    /// Fetch the log that `source` holds, for the epoch that you are fenced for.
    CatchUp {
        /// The epoch.
        epoch: Epoch,
        /// Who has more.
        source: HostId,
    },
    /// Mount in this epoch: replay, then ask for the lease.
    Activate {
        /// The epoch.
        epoch: Epoch,
    },
    /// The lease is given.
    Granted {
        /// The epoch.
        epoch: Epoch,
        /// Of the renewal that this answers.
        sequence: u64,
        /// From the renewal.
        asked_at_ms: u64,
        /// Counted by the holder from `asked_at_ms`.
        lease_ms: u64,
        /// The newest generation that is on record.
        generation: u32,
        /// The partner on record.
        partner: Option<HostId>,
    },
    /// Hand over to `target`: take no new commits, let it have everything, release.
    Drain {
        /// The epoch that ends.
        epoch: Epoch,
        /// Who is next.
        target: HostId,
    },
}

/// From one copy to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Log of the active copy (or, in an election, of a copy that holds more), or only a sign of life.
    Ship {
        /// The epoch in which the sender may send.
        epoch: Epoch,
        /// Who wrote the sender's log.
        lineage: Lineage,
        /// Where the sender's durable log ends.
        end: Position,
        /// The first generation that the sender still has.
        log_start: u32,
        /// Log, if there is some to send.
        piece: Option<Piece>,
    },
    /// How far a passive copy is in the active one's lineage.
    Progress {
        /// The active copy's epoch.
        epoch: Epoch,
        /// The sender's contents.
        life: Life,
        /// Durable end of its log, on the active copy's lineage; `None` while that is being settled.
        end: Option<Position>,
        /// What it has replayed and written to its pages.
        checkpoint: Position,
        /// How far it has replayed.
        replayed: Position,
        /// Whether it could be mounted with its log up to `end`.
        mountable: bool,
        /// Something before the piece that has just come is missing: send from here.
        resend_from: Option<Position>,
    },
    /// The sender has promised a newer epoch.
    Rejected {
        /// That epoch.
        promised: Epoch,
    },
    /// A candidate wants log from `from` on.
    FetchLog {
        /// The epoch that both are fenced for.
        epoch: Epoch,
        /// Where its log ends.
        from: Position,
    },
    /// A copy without contents wants to be seeded.
    SeedRequest {
        /// The active copy's epoch.
        epoch: Epoch,
        /// The contents that are being made.
        life: Life,
        /// Comes back in the answer.
        nonce: u64,
    },
    /// The log from here on, with the pages as they are now or later, gives the database.
    SeedStart {
        /// The active copy's epoch.
        epoch: Epoch,
        /// From the request.
        nonce: u64,
        /// Who wrote the log.
        lineage: Lineage,
        /// The first generation to be shipped.
        generation: u32,
    },
    /// Pages are wanted.
    FetchPages {
        /// The active copy's epoch.
        epoch: Epoch,
        /// Comes back in the answer.
        nonce: u64,
        /// Which.
        request: PageRequest,
        /// Send them only once they hold every change up to here.
        at_least: Position,
    },
    /// Pages.
    Pages {
        /// From the request.
        epoch: Epoch,
        /// From the request.
        nonce: u64,
        /// The pages.
        pages: Rc<[PageCopy]>,
        /// For [`PageRequest::From`]: the page to go on with, if there are more.
        next: Option<u32>,
        /// No page holds a change behind this position.
        position: Position,
    },
}

/// Which pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageRequest {
    /// A stretch of the file that starts at this page, as it is on disk.
    From(u32),
    /// These pages, as they are now.
    List(Vec<u32>),
}
