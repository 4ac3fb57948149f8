//! Names, positions and the description of a replicated database.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::planted::{Bug, Planted};

/// Number of a host of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u16);

/// Number of a database. All copies share it, and a host has at most one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatabaseId(pub u16);

/// Number of a site: hosts that are lost together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u16);

/// One term of activity of one copy. The arbiter gives each number out once, so two copies never write in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// Number of a start of a host's agent. It rises with each restart and each replaced disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Boot(pub u32);

/// Position in a log: number of the generation, and the next byte in it. A log that ends here holds everything before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Number of the log generation, from 1.
    pub generation: u32,
    /// Offset in the generation, bytes.
    pub offset: u32,
}

impl Position {
    /// Position at which every log begins.
    pub const START: Position = Position { generation: 1, offset: 0 };

    /// Position of the first byte of a generation.
    #[must_use]
    pub fn of_generation(generation: u32) -> Self {
        Position { generation, offset: 0 }
    }

    /// Number of generations of which a log that ends here lacks a part, compared with a log that ends at `end`.
    #[must_use]
    pub fn generations_behind(self, end: Position) -> u32 {
        match end {
            end if end <= self => 0,
            Position { generation, offset: 0 } => generation - self.generation,
            Position { generation, .. } => (generation - self.generation).saturating_add(1),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation, self.offset)
    }
}

/// Piece of one log generation, contiguous bytes, on its way to another copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// Position of the first byte in the log.
    pub from: Position,
    /// Bytes of the log.
    #[serde(with = "crate::shared_bytes")]
    pub bytes: Rc<[u8]>,
    /// Whether the piece ends the generation.
    pub closes: bool,
    /// Signature of the log stream. Copies of one database share it; other databases have others.
    pub signature: u64,
    /// [`checksum`] of the bytes as the sender read them from its disk.
    pub checksum: u32,
}

impl LogPiece {
    /// End of the log once this piece is stored.
    #[must_use]
    pub fn end(&self) -> Position {
        let offset = self.from.offset.saturating_add(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        if self.closes {
            Position::of_generation(self.from.generation.saturating_add(1))
        } else {
            Position { offset, ..self.from }
        }
    }
}

/// Checksum of a piece in transit (CRC-32). It finds damage, not malice: the stream is authenticated below it, and the
/// sectors of a real log carry the engine's own checksums.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Page of a database on its way to another copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCopy {
    /// Number of the page.
    pub page: u32,
    /// Bytes of the page.
    #[serde(with = "crate::shared_bytes")]
    pub bytes: Rc<[u8]>,
}

/// Mount dial: number of log generations that an activation may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dial {
    /// No loss: a durable commit is acknowledged only once a passive copy holds it, and a copy mounts only if it is
    /// known to hold all of them.
    Lossless,
    /// At most 6 generations.
    GoodAvailability,
    /// At most 12 generations.
    BestAvailability,
}

impl Dial {
    /// Largest number of missing generations with which a copy may mount.
    #[must_use]
    pub fn generations(self) -> u32 {
        match self {
            Dial::Lossless => 0,
            Dial::GoodAvailability => 6,
            Dial::BestAvailability => 12,
        }
    }
}

/// Activation policy: whether the arbiter may activate a copy without an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivationPolicy {
    /// The arbiter may always activate the copy.
    Unrestricted,
    /// The arbiter may activate the copy only in the site of the copy that was active last.
    IntrasiteOnly,
    /// The arbiter never activates the copy.
    Blocked,
}

/// Configuration of one copy of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySpec {
    /// Host of the copy.
    pub host: HostId,
    /// Site of the host.
    pub site: SiteId,
    /// Activation preference; 1 is the copy that should be active.
    pub preference: u32,
    /// Policy that says whether the arbiter may activate the copy.
    pub activation: ActivationPolicy,
    /// Replay lag: time for which a received log waits before it is replayed, ms; 0 for a copy that is not lagged.
    pub replay_lag_ms: u64,
    /// Truncation lag: additional time for which a lagged copy keeps a log, ms.
    pub truncation_lag_ms: u64,
}

impl CopySpec {
    /// Whether the copy is lagged: it replays its log with a delay on purpose.
    #[must_use]
    pub fn is_lagged(&self) -> bool {
        self.replay_lag_ms > 0
    }
}

/// Configuration of a database and its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSpec {
    /// Number of the database.
    pub id: DatabaseId,
    /// Mount dial of the database.
    pub dial: Dial,
    /// Copies of the database, one per host.
    pub copies: Vec<CopySpec>,
    /// Number of generations that the active copy may start beyond those on the arbiter's record. It adds to the loss
    /// bound.
    pub run_ahead_generations: u32,
    /// Whether the partner (dial `lossless`) should be in another site than the active copy. Commits then survive the
    /// loss of a site, and wait for the link between the sites.
    pub partner_in_other_site: bool,
    /// Signature of the log stream.
    pub signature: u64,
    /// Whether logs are removed as soon as no copy needs them. Otherwise they also wait for a backup.
    pub circular_logging: bool,
    /// Times of the protocol.
    pub timing: Timing,
    /// Rule that a test has switched off.
    pub planted: Planted,
}

impl DatabaseSpec {
    /// Configuration of the copy on `host`.
    #[must_use]
    pub fn copy_on(&self, host: HostId) -> Option<&CopySpec> {
        self.copies.iter().find(|copy| copy.host == host)
    }

    /// Other hosts with a copy, by activation preference.
    pub fn others(&self, host: HostId) -> impl Iterator<Item = &CopySpec> {
        self.copies.iter().filter(move |copy| copy.host != host)
    }

    /// Loss in log generations that an activation can cost at most: the dial, plus what the active copy may have begun
    /// without the arbiter knowing.
    #[must_use]
    pub fn loss_bound_generations(&self) -> u32 {
        match self.dial {
            Dial::Lossless => 0,
            dial => dial.generations() + self.run_ahead_generations,
        }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.planted.is(bug)
    }
}

/// Times of the protocol, in ms on the clock of the node that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Length of a lease, ms, counted from the moment at which its holder asked for it.
    pub lease_ms: u64,
    /// Time between two renewals of the holder, ms.
    pub renew_ms: u64,
    /// Largest deviation of any clock's rate from true time, in millionths (`docs/copies.md`).
    pub drift_ppm: u64,
    /// Time without a renewal after which the arbiter counts the holder as dead, ms.
    pub detect_ms: u64,
    /// Time between two reports of a copy to the arbiter, and between two messages of the active copy to silent
    /// passive ones, ms.
    pub report_ms: u64,
    /// Time for which an election waits for copies that have not answered, ms.
    pub collect_ms: u64,
    /// Time within which a candidate must have fetched missing log, ms.
    pub catch_up_ms: u64,
    /// Time within which a candidate must have mounted, ms.
    pub mount_ms: u64,
    /// Time within which the active copy must have handed over without loss, ms.
    pub drain_ms: u64,
    /// Time after which a request without an answer is sent again, ms; longer than a round trip.
    pub resend_ms: u64,
    /// Time for which a partner may hold up acknowledgements before another one is proposed, ms.
    pub partner_patience_ms: u64,
    /// Time between two checks whether the active copy should move back to the preferred one, ms; `None`: only on
    /// request.
    pub move_back_ms: Option<u64>,
}
