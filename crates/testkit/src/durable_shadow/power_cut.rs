//! The death of the process as a power cut would make it: aimed at one event of the disk, and with a chance for
//! everything that was not synced.
//!
//! Invariants
//! 1. What was synced stays; everything else is there or not, in pieces of a size that is drawn for each cut.
//! 2. Any part of the changes of names that were not synced may survive, also a later one without an earlier one: POSIX
//!    orders nothing without a sync of the directory, and not every file system keeps an order of its own. A rename is
//!    there as a whole or not at all.
//!
//! Limits: what a file system does to its own structures is not modelled.

/// Kinds of event at which the power can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskEvent {
    /// A file was written, or its size changed.
    Write,
    /// A sync of a file began, came further, or ended; its first sector, where headers are, is not in it.
    Sync,
    /// The same with the first sector.
    HeadSync,
    /// A name was made, changed or removed.
    Name,
    /// A sync of a directory began, came further, or ended.
    SyncDir,
}

impl DiskEvent {
    /// Every kind.
    pub const ALL: [DiskEvent; 5] =
        [DiskEvent::Write, DiskEvent::Sync, DiskEvent::HeadSync, DiskEvent::Name, DiskEvent::SyncDir];
}

/// When the power fails, counted from [`super::PowerSwitch::arm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// At the event of this kind ...
    pub event: DiskEvent,
    /// ... with this number, from 1 ...
    pub number: u64,
    /// ... or so many events of any kind later.
    pub later: u64,
    /// What becomes of the writes that were not synced; drawn if not set.
    pub pieces: Option<Pieces>,
}

/// How the writes that were not synced fall apart at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Bytes that are there or not as a whole; a power of two of at least 64.
    pub grain_bytes: u64,
    /// Chance of such a piece, or of a size, to be there.
    pub survives_percent: usize,
}

/// What one power cut is like.
pub(super) struct Unkindness {
    pub pieces: Pieces,
    /// Whether of the names only the newest change is there, with those it builds upon; else each by the chance.
    pub newest_name_only: bool,
}

impl Unkindness {
    pub fn draw(below: impl Fn(usize) -> usize, pieces: Option<Pieces>) -> Unkindness {
        let drawn = Pieces {
            grain_bytes: [64, 64, 512, 4096, 64 << 10][below(5)],
            survives_percent: [0, 50, 50, 90][below(4)],
        };
        Unkindness { pieces: pieces.unwrap_or(drawn), newest_name_only: below(2) == 0 }
    }
}
