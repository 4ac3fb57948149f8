//! What goes into a copy's state machine and what comes out of it.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::message::{FromArbiter, PageRequest, PeerMessage, ToArbiter};
use crate::types::{Epoch, HostId, LogPiece, PageCopy, Position};

/// Durable record of a copy, beside its log and its pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Promised epoch: the copy accepts nothing from lower ones.
    pub promised: Epoch,
    /// Lineage of the copy's log: which epoch wrote which part.
    pub lineage: Lineage,
    /// Numbers of pages that must be fetched from the active copy before this copy can be used.
    pub patch: Option<PageRequest>,
    /// Log position that the copy must hold before it mounts, because fetched pages may contain changes up to there.
    pub needed_to: Position,
}

impl Meta {
    /// Record of a newly created database, which is the same on every copy.
    #[must_use]
    pub fn first() -> Self {
        Meta { promised: Epoch(0), lineage: Lineage::first(), patch: None, needed_to: Position::START }
    }

    /// Record of a copy without contents.
    #[must_use]
    pub fn empty() -> Self {
        Meta { patch: Some(PageRequest::From(0)), ..Meta::first() }
    }
}

/// Durable log of a copy: first generation and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogExtent {
    /// First generation that the copy still has.
    pub start: u32,
    /// End of the durable log.
    pub end: Position,
}

/// State of a copy as found on disk at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Durable record of the copy.
    pub meta: Meta,
    /// Extent of the durable log; `None` if the copy has no log.
    pub log: Option<LogExtent>,
    /// Log position before which every change is in the pages on disk.
    pub checkpoint: Position,
}

/// Durable operation on the disk of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// Save the copy's record.
    Save(Meta),
    /// Append a piece to the log.
    Store(LogPiece),
    /// Cut the log at `to` and discard unwritten pages. Replay starts again at the checkpoint, or at `to` if that is
    /// earlier.
    Cut {
        /// New end of the log.
        to: Position,
    },
    /// Remove the whole log and all pages.
    Erase,
    /// Start a new log at a generation; replay begins there.
    StartLog {
        /// First generation of the new log.
        generation: u32,
    },
    /// Remove the log generations below one.
    DropLogs {
        /// First generation that stays.
        below: u32,
    },
    /// Overwrite pages with those of another copy.
    WritePages(Rc<[PageCopy]>),
}

/// Action that the copy asks its driver to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to the arbiter.
    ToArbiter(ToArbiter),
    /// Send a message to another copy.
    ToPeer(HostId, PeerMessage),
    /// Carry out a disk operation, then answer with [`Input::DiskDone`].
    Disk {
        /// Number that comes back in the answer.
        ticket: u64,
        /// Disk operation to carry out.
        op: DiskOp,
    },
    /// Read durable log from `from` up to `until` or the end of the generation, then answer with [`Input::LogRead`].
    ReadLog {
        /// Host for which the log is read; comes back in the answer.
        to: HostId,
        /// Position of the first byte to read.
        from: Position,
        /// Position at which the read ends at the latest.
        until: Position,
    },
    /// Read pages, then answer with [`Input::PagesRead`]. No returned page may hold a change that is not in the
    /// durable log.
    ReadPages {
        /// Host for which the pages are read; comes back in the answer.
        to: HostId,
        /// Number of the request; comes back in the answer.
        nonce: u64,
        /// Pages to read: a stretch as it is on disk, or listed pages with every change up to the end of the durable
        /// log.
        request: PageRequest,
    },
    /// List the pages that the log from `from` on changes and that may have been written since, then answer with
    /// [`Input::PagesListed`]. From then on no page is written until the log has been cut.
    ListPages {
        /// Start of the log to search; comes back in the answer.
        from: Position,
    },
    /// Replay the stored log up to `to`, then answer with [`Input::Replayed`].
    Replay {
        /// End of the part of the log to replay.
        to: Position,
    },
    /// Open the database for users.
    Mount {
        /// Epoch in which the copy is active.
        epoch: Epoch,
    },
    /// Close the database at once and discard what is not in the durable log, then answer with [`Input::Dismounted`].
    Dismount,
    /// Tell the user that this commit is durable.
    Acknowledge {
        /// Ticket of the [`Input::Commit`] that is durable.
        ticket: u64,
    },
    /// An event for the evidence.
    Event(Event),
}

/// Event of a copy, for evidence and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it; fields are positions in the log")]
pub enum Event {
    Activating { epoch: Epoch },
    Mounted { epoch: Epoch, at: Position },
    SteppedDown { epoch: Epoch, why: StepDown },
    PartnerChosen { partner: HostId },
    BlockMode { peer: HostId, on: bool },
    PieceRefused,
    StaleEpochRefused,
    UnknownEpochRefused { from: HostId },
    ForeignPieceRefused { from: HostId },
    LogRefused { from: HostId },
    SecondActiveRefused { from: HostId },
    PagesRefused { from: HostId },
    SeedRefused { from: HostId },
    Diverged { fork: Position, discarded_to: Position },
    Resynced { pages: u32 },
    SeedingBegun { why: SeedReason },
    Seeded,
    PageDamaged { page: u32 },
    PageRepaired { page: u32 },
    LogsDropped { below: u32 },
    DrainCancelled,
}

/// Reason why an active copy stepped down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum StepDown {
    LeaseEnded,
    Fenced,
    Drained,
    DiskFailed,
}

/// Reason why a copy is seeded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SeedReason {
    LogGone,
    ForkOutOfReach,
    SourceChanged,
}

/// Input of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed; timers may be due.
    Tick,
    /// A message from the arbiter.
    FromArbiter(FromArbiter),
    /// A message from another copy of the same database.
    Peer {
        /// Host that sent the message.
        from: HostId,
        /// Message that arrived.
        message: PeerMessage,
    },
    /// A disk operation ([`DiskOp`]) is durable.
    DiskDone {
        /// Ticket of the operation.
        ticket: u64,
    },
    /// The driver refused a [`DiskOp::Store`] because the piece does not continue the log on disk, or a
    /// [`DiskOp::WritePages`] because a page is damaged. The disk is unchanged.
    StoreRefused {
        /// Ticket of the refused operation.
        ticket: u64,
    },
    /// Answer to [`Effect::ReadLog`].
    LogRead {
        /// Host for which the log was read, from the effect.
        to: HostId,
        /// Log that was read; `None` if the copy does not have it any more.
        piece: Option<LogPiece>,
    },
    /// Answer to [`Effect::ReadPages`].
    PagesRead {
        /// Host for which the pages were read, from the effect.
        to: HostId,
        /// Number of the request, from the effect.
        nonce: u64,
        /// Pages that were read.
        pages: Rc<[PageCopy]>,
        /// First page of the next stretch, if a stretch was asked for and the file goes on.
        next: Option<u32>,
        /// Log position behind which no returned page holds a change.
        position: Position,
    },
    /// Answer to [`Effect::ListPages`].
    PagesListed {
        /// Log position from which pages were looked for, as the effect asked.
        from: Position,
        /// Numbers of the pages that the log changes.
        pages: Vec<u32>,
    },
    /// Answer to [`Effect::Replay`].
    Replayed {
        /// Log position up to which the copy has replayed.
        to: Position,
    },
    /// The checkpoint moved: the pages on disk hold every change before a position.
    Checkpoint {
        /// Log position of the checkpoint.
        at: Position,
    },
    /// The active database appended to its log buffer.
    Appended {
        /// Log position at the end of the buffer.
        end: Position,
    },
    /// More of the active database's log is durable.
    LogDurable {
        /// End of the durable log.
        end: Position,
    },
    /// A user waits for a durable commit.
    Commit {
        /// Number that comes back in [`Effect::Acknowledge`].
        ticket: u64,
        /// Log position at which the commit's record ends.
        position: Position,
    },
    /// Answer to [`Effect::Dismount`].
    Dismounted {
        /// End of the durable log.
        end: Position,
        /// Log position of the checkpoint, as in [`Input::Checkpoint`].
        checkpoint: Position,
    },
    /// A backup holds every log generation below one.
    BackedUp {
        /// First generation that is not backed up.
        below: u32,
    },
    /// A page on disk failed its check. The copy does not use it until it is replaced.
    PageDamaged {
        /// Number of the damaged page.
        page: u32,
    },
    /// The disk is lost. The state machine does nothing more until it is created anew on another disk.
    DiskFailed,
    /// Health of the host changed; 0 is best.
    HostTier(u8),
}
