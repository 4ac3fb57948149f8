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

/// Kind of disk event at which the power can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskEvent {
    /// A write to a file, or a change of its size.
    Write,
    /// Start, progress or end of a file's sync, without the first sector, which holds the header.
    Sync,
    /// Start, progress or end of the sync of a file's first sector.
    HeadSync,
    /// Creation, change or removal of a name.
    Name,
    /// Start, progress or end of a directory's sync.
    SyncDir,
}

impl DiskEvent {
    /// All kinds of events.
    pub const ALL: [DiskEvent; 5] =
        [DiskEvent::Write, DiskEvent::Sync, DiskEvent::HeadSync, DiskEvent::Name, DiskEvent::SyncDir];
}

/// Moment of the power cut, counted from [`super::PowerSwitch::arm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// Kind of event at which the power fails.
    pub event: DiskEvent,
    /// Number of that event, from 1.
    pub number: u64,
    /// Number of further events, of any kind, after which the power fails.
    pub later: u64,
    /// Fate of the unsynced writes; drawn at random if not set.
    pub pieces: Option<Pieces>,
}

/// How unsynced writes are torn at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Size of the pieces that survive or are lost as a whole, bytes; a power of two, at least 64.
    pub grain_bytes: u64,
    /// Probability in percent that a piece, or a size, survives.
    pub survives_percent: usize,
}

/// Random choices of one power cut.
pub(super) struct Unkindness {
    pub pieces: Pieces,
    /// Whether only the newest change of names survives, with those on which it depends. Otherwise each survives by
    /// chance.
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
