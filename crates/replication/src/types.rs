//! Names, positions and the description of a replicated database.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::planted::{Bug, Planted};

/// A host of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u16);

/// A database; its copies share the name, one copy at most per host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatabaseId(pub u16);

/// A site: hosts that fail together when it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u16);

/// One term of activity of one copy. The arbiter gives each number out once, so two copies never write in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// Which start of a host's agent is meant; larger after each restart and after each replaced disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Boot(pub u32);

/// The next byte of a log: everything before it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Log generation, from 1.
    pub generation: u32,
    /// Bytes into the generation.
    pub offset: u32,
}

impl Position {
    /// Where every log begins.
    pub const START: Position = Position { generation: 1, offset: 0 };

    /// The first byte of a generation.
    #[must_use]
    pub fn of_generation(generation: u32) -> Self {
        Position { generation, offset: 0 }
    }

    /// Generations between a holder and a log that ends at `end` in which the holder lacks something.
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

/// Contiguous bytes of one log generation, on their way to another copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Where the bytes belong.
    pub from: Position,
    /// The bytes.
    #[serde(with = "crate::shared_bytes")]
    pub bytes: Rc<[u8]>,
    /// Whether the generation ends with them.
    pub closes: bool,
    /// Names the log stream: copies of one database share it, other databases do not.
    pub signature: u64,
    /// [`checksum`] of the bytes as the source read them from its disk.
    pub checksum: u32,
}

impl Piece {
    /// Where the log ends once this piece is stored.
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

/// A page on its way to another copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCopy {
    /// Page number.
    pub page: u32,
    /// The page.
    #[serde(with = "crate::shared_bytes")]
    pub bytes: Rc<[u8]>,
}

/// How many log generations an activation may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dial {
    /// None: a durable commit is acknowledged only once a passive copy holds it, and a copy mounts only with proof.
    Lossless,
    /// At most 6.
    GoodAvailability,
    /// At most 12.
    BestAvailability,
}

impl Dial {
    /// Missing generations that still let a copy mount.
    #[must_use]
    pub fn generations(self) -> u32 {
        match self {
            Dial::Lossless => 0,
            Dial::GoodAvailability => 6,
            Dial::BestAvailability => 12,
        }
    }
}

/// Whether the arbiter may activate a copy by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivationPolicy {
    /// Always.
    Unrestricted,
    /// Only in the site of the copy that was active last.
    IntrasiteOnly,
    /// Never.
    Blocked,
}

/// One copy of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySpec {
    /// Where it is.
    pub host: HostId,
    /// The host's site.
    pub site: SiteId,
    /// 1 is the copy that should be active.
    pub preference: u32,
    /// Whether it may be activated.
    pub activation: ActivationPolicy,
    /// How long a log waits before it is replayed, ms; 0 for a copy that is not lagged.
    pub replay_lag_ms: u64,
    /// How much longer a lagged copy keeps a log, ms.
    pub truncation_lag_ms: u64,
}

impl CopySpec {
    /// Whether replay lags on purpose.
    #[must_use]
    pub fn is_lagged(&self) -> bool {
        self.replay_lag_ms > 0
    }
}

/// A database and its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSpec {
    /// Which one.
    pub id: DatabaseId,
    /// Loss that an activation may cost.
    pub dial: Dial,
    /// Its copies, one per host.
    pub copies: Vec<CopySpec>,
    /// Generations that the active copy may begin beyond those that the arbiter has recorded. Adds to the loss bound.
    pub run_ahead_generations: u32,
    /// Whether the partner of a lossless database should be in another site than the active copy: its commits then wait
    /// for the link between the sites, and survive the loss of one.
    pub partner_in_other_site: bool,
    /// Names the log stream.
    pub signature: u64,
    /// Whether logs go once no copy needs them. Otherwise they also wait for a backup.
    pub circular_logging: bool,
    /// Timing.
    pub timing: Timing,
    /// A rule switched off by a test.
    pub planted: Planted,
}

impl DatabaseSpec {
    /// The copy on `host`.
    #[must_use]
    pub fn copy_on(&self, host: HostId) -> Option<&CopySpec> {
        self.copies.iter().find(|copy| copy.host == host)
    }

    /// The other hosts with a copy, by preference.
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

/// Times of the protocol, in milliseconds of the clock of the node that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease lasts from the moment at which its holder asked for it.
    pub lease_ms: u64,
    /// How often the holder asks again.
    pub renew_ms: u64,
    /// How far any clock's rate is from true time at most, in millionths (see `docs/copies.md`).
    pub drift_ppm: u64,
    /// How long the arbiter waits for a renewal before it takes the holder for dead.
    pub detect_ms: u64,
    /// How often copies report to the arbiter, and the active copy to silent passives.
    pub report_ms: u64,
    /// How long an election waits for copies that have not answered.
    pub collect_ms: u64,
    /// How long a candidate may fetch missing logs.
    pub catch_up_ms: u64,
    /// How long a candidate may take to mount.
    pub mount_ms: u64,
    /// How long the active copy may take to hand over without loss.
    pub drain_ms: u64,
    /// A request without an answer is sent again after this long; longer than a round trip.
    pub resend_ms: u64,
    /// How long a partner may hold up acknowledgements before another one is asked for.
    pub partner_patience_ms: u64,
    /// How often actives move back to the copy of preference 1; `None`: by order only.
    pub move_back_ms: Option<u64>,
}
