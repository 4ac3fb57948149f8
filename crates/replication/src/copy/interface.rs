//! What goes into a copy's state machine and what comes out of it.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::message::{FromArbiter, PageRequest, PeerMessage, ToArbiter};
use crate::types::{Epoch, HostId, PageCopy, Piece, Position};

/// What a copy must know after a restart beside its log and its pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// It takes nothing from epochs below this one.
    pub promised: Epoch,
    /// Who wrote its log.
    pub lineage: Lineage,
    /// Pages that must be fetched before the copy can be used.
    pub patch: Option<PageRequest>,
    /// Fetched pages may hold changes up to here.
    pub needed_to: Position,
}

impl Meta {
    /// Of a database that has just been made, the same on every copy.
    #[must_use]
    pub fn first() -> Self {
        Meta { promised: Epoch(0), lineage: Lineage::first(), patch: None, needed_to: Position::START }
    }

    /// Of a copy without contents.
    #[must_use]
    pub fn empty() -> Self {
        Meta { patch: Some(PageRequest::From(0)), ..Meta::first() }
    }
}

/// The durable log of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogExtent {
    /// The first generation that is there.
    pub start: u32,
    /// Where it ends.
    pub end: Position,
}

/// What was found on disk at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its own record.
    pub meta: Meta,
    /// Its log, unless it has none.
    pub log: Option<LogExtent>,
    /// Every change before this position is in the pages on disk.
    pub checkpoint: Position,
}

/// Durable changes on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// Keep this record.
    Save(Meta),
    /// Add this to the end of the log.
    Store(Piece),
    /// Remove the log from `to` on, forget unwritten pages; replay starts at the checkpoint again, or at `to`
    /// if that is earlier.
    Cut {
        /// The new end.
        to: Position,
    },
    /// Remove all log and all pages.
    Erase,
    /// Begin a log at this generation; replay starts there.
    StartLog {
        /// The first generation.
        generation: u32,
    },
    /// Remove generations below this one.
    DropLogs {
        /// The first that stays.
        below: u32,
    },
    /// Put these pages in place of those that are there.
    WritePages(Rc<[PageCopy]>),
}

/// What the copy wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send.
    ToArbiter(ToArbiter),
    /// Send.
    ToPeer(HostId, PeerMessage),
    /// Do, then [`Input::DiskDone`].
    Disk {
        /// Comes back.
        ticket: u64,
        /// What.
        op: DiskOp,
    },
    /// Read durable log from `from` to `until` or the end of the generation, then [`Input::LogRead`].
    ReadLog {
        /// Comes back.
        to: HostId,
        /// First byte.
        from: Position,
        /// Not beyond this position.
        until: Position,
    },
    /// Read pages, then [`Input::PagesRead`]. No page may hold a change that is not in the durable log.
    ReadPages {
        /// Comes back.
        to: HostId,
        /// Comes back.
        nonce: u64,
        /// Which: a stretch as it is on disk, or listed ones with every change up to the end of the durable log.
        request: PageRequest,
    },
    /// Name the pages that the log from `from` on changes and that may have been written since, then
    /// [`Input::PagesListed`]. From then on no page is written until the log has been cut.
    ListPages {
        /// Comes back.
        from: Position,
    },
    /// Apply the stored log up to `to`, then [`Input::Replayed`].
    Replay {
        /// End of the part to apply.
        to: Position,
    },
    /// Open the database for users.
    Mount {
        /// Its epoch.
        epoch: Epoch,
    },
    /// Close it at once; what is not in the durable log is gone. Then [`Input::Dismounted`].
    Dismount,
    /// Tell the user that this commit is durable.
    Acknowledge {
        /// From [`Input::Commit`].
        ticket: u64,
    },
    /// For the record.
    Event(Event),
}

/// What happened, for evidence and counters.
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

/// Why a copy stopped being active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum StepDown {
    LeaseEnded,
    Fenced,
    Drained,
    DiskFailed,
}

/// Why a copy is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SeedReason {
    LogGone,
    ForkOutOfReach,
    SourceChanged,
}

/// What comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// From the arbiter.
    FromArbiter(FromArbiter),
    /// From another copy of the same database.
    Peer {
        /// Who.
        from: HostId,
        /// What.
        message: PeerMessage,
    },
    /// A [`DiskOp`] is durable.
    DiskDone {
        /// Its ticket.
        ticket: u64,
    },
    /// The piece of a [`DiskOp::Store`] is not log that continues the one on disk, or a page of a
    /// [`DiskOp::WritePages`] is damaged, too. Nothing has changed there.
    StoreRefused {
        /// Its ticket.
        ticket: u64,
    },
    /// Answer to [`Effect::ReadLog`]; `None` if the log is not there.
    LogRead {
        /// From the effect.
        to: HostId,
        /// The log.
        piece: Option<Piece>,
    },
    /// Answer to [`Effect::ReadPages`].
    PagesRead {
        /// From the effect.
        to: HostId,
        /// From the effect.
        nonce: u64,
        /// The pages.
        pages: Rc<[PageCopy]>,
        /// The page to go on with, if a stretch was asked for and there are more.
        next: Option<u32>,
        /// No page holds a change behind this position.
        position: Position,
    },
    /// Answer to [`Effect::ListPages`].
    PagesListed {
        /// From the effect.
        from: Position,
        /// Page numbers.
        pages: Vec<u32>,
    },
    /// Answer to [`Effect::Replay`].
    Replayed {
        /// How far.
        to: Position,
    },
    /// The pages on disk hold every change before this position.
    Checkpoint {
        /// The position.
        at: Position,
    },
    /// The active database has added to its log buffer.
    Appended {
        /// The buffer's end.
        end: Position,
    },
    /// The active database's log is durable up to here.
    LogDurable {
        /// The durable end.
        end: Position,
    },
    /// A user waits for a durable commit whose record ends at `position`.
    Commit {
        /// Comes back in [`Effect::Acknowledge`].
        ticket: u64,
        /// Where it ends in the log.
        position: Position,
    },
    /// Answer to [`Effect::Dismount`].
    Dismounted {
        /// The durable end of the log.
        end: Position,
        /// As in [`Input::Checkpoint`].
        checkpoint: Position,
    },
    /// A backup holds every generation below this one.
    BackedUp {
        /// The generation.
        below: u32,
    },
    /// A page on disk fails its check; it is not used until it is replaced.
    PageDamaged {
        /// Its number.
        page: u32,
    },
    /// The disk is gone. The machine does nothing more until it is made anew on another disk.
    DiskFailed,
    /// How healthy the host is: 0 is best.
    HostTier(u8),
}
