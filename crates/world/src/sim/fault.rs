//! The fault plan: what goes wrong, how often, and what was really delivered.

use rand_chacha::ChaCha8Rng;

use super::random::chance;
use super::storage::FileId;

/// Kind of operation, to target faults and to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// Open or create a file.
    Open,
    /// Create a directory.
    CreateDir,
    /// List a directory.
    List,
    /// Look up a path.
    Entry,
    /// Rename a file.
    Rename,
    /// Remove a file or directory.
    Remove,
    /// Sync a directory.
    SyncDir,
    /// Ask for free space.
    FreeBytes,
    /// Read from a file.
    Read,
    /// Write to a file.
    Write,
    /// Sync a file.
    Sync,
    /// Ask for the size of a file.
    Size,
    /// Set the size of a file.
    SetSize,
    /// Offer a template for a file.
    AdoptTemplate,
}

impl OpKind {
    /// All kinds of operations.
    pub const ALL: [OpKind; 14] = [
        OpKind::Open,
        OpKind::CreateDir,
        OpKind::List,
        OpKind::Entry,
        OpKind::Rename,
        OpKind::Remove,
        OpKind::SyncDir,
        OpKind::FreeBytes,
        OpKind::Read,
        OpKind::Write,
        OpKind::Sync,
        OpKind::Size,
        OpKind::SetSize,
        OpKind::AdoptTemplate,
    ];

    fn is_about_names(self) -> bool {
        use OpKind::*;
        matches!(self, Open | CreateDir | List | Entry | Rename | Remove | FreeBytes | Size | SetSize)
    }
}

/// Part of a host that a crash ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Death {
    /// The machine: the plan's [`PowerCut`] decides what survives of unsynced changes.
    #[default]
    Power,
    /// The process alone: the next one can read everything written, and unsynced changes are lost at a later power
    /// cut.
    Process,
}

/// Moment within the Nth operation at which the host crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the operation has any effect.
    Before,
    /// After its effect, before its result is returned.
    After,
}

/// Fault plan. Probabilities are between 0 and 1, drawn for each operation. The Nth operation counts from when the
/// plan was set, from 1. By default nothing fails, and power cuts lose, keep and tear.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// Probability that a read fails.
    pub read_error: f64,
    /// Probability that a write fails; it may have written any part.
    pub write_error: f64,
    /// Probability that a sync (of a file or directory) fails; what it should have made durable is undefined from then
    /// on.
    pub sync_error: f64,
    /// Probability that another operation fails without effect.
    pub name_error: f64,
    /// Probability that a write or size change finds the volume full although it is not.
    pub no_space: f64,
    /// Probability that a read ends early.
    pub short_read: f64,
    /// Probability that a write ends early.
    pub short_write: f64,
    /// Kind and number of an operation that fails.
    pub fail_nth: Option<(OpKind, u64)>,
    /// Fault with which that operation fails, among those that its kind can have; `None`: an error.
    pub fails_with: Option<FaultKind>,
    /// Number of the operation (of any [`OpKind`]) at which the issuing host crashes.
    pub crash_at_nth: Option<(u64, CrashPoint)>,
    /// Number of the sync (of a file or a directory) before which the issuing host crashes. Only syncs make anything
    /// durable, so these are all the states of a disk that loses everything else.
    pub crash_at_nth_sync: Option<u64>,
    /// Part of the host that the crash ends.
    pub crash_ends: Death,
    /// Effect of power cuts.
    pub power_cut: PowerCut,
    /// Lying disk: probability that a sync reports success and does nothing.
    pub dropped_sync: f64,
    /// Lying disk: probability that a write reports success and does not happen.
    pub lost_write: f64,
    /// Lying disk: probability that a write goes to another page of the same file.
    pub misdirected_write: f64,
    /// Lying disk: probability that a bit of the data being read has flipped on the medium.
    pub bit_rot: f64,
}

impl Faults {
    /// Whether no operation can fail, lie or crash.
    fn is_calm(&self) -> bool {
        *self
            == Faults { power_cut: self.power_cut.clone(), crash_ends: self.crash_ends, ..Faults::default() }
    }
}

/// Probabilities at a power cut, each from 0 to 1 and drawn for every unsynced change.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerCut {
    /// Probability that an unsynced write is lost.
    pub lost_write: f64,
    /// Probability that an unsynced write is torn: each sector is old or new.
    pub torn_write: f64,
    /// Probability that an unsynced size change is lost.
    pub lost_size: f64,
    /// Probability that an unsynced name change is lost.
    pub lost_name: f64,
    /// Probability that an unwritten block of new space shows stale bytes instead of zeros.
    pub stale_block: f64,
    /// Atomic unit of the device: 512 or 4096 bytes, 64 on persistent memory.
    pub sector_bytes: usize,
    /// Chosen fate of each change in turn, in place of the probabilities except that of stale blocks. Later changes
    /// survive. For tests that go through all cases.
    pub chosen: Option<Vec<Survival>>,
}

/// Fate of an unsynced change at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// The change is lost.
    Lost,
    /// The change survives.
    Kept,
    /// The first half of a write's sectors survives; another change survives completely.
    FirstHalf,
    /// The second half of a write's sectors survives; another change survives completely.
    SecondHalf,
}

impl Default for PowerCut {
    fn default() -> Self {
        PowerCut {
            lost_write: 0.4,
            torn_write: 0.2,
            lost_size: 0.5,
            lost_name: 0.5,
            stale_block: 0.5,
            sector_bytes: 512,
            chosen: None,
        }
    }
}

impl PowerCut {
    /// Power cut at which every completed change survives.
    pub fn keep_all() -> PowerCut {
        PowerCut {
            lost_write: 0.0,
            torn_write: 0.0,
            lost_size: 0.0,
            lost_name: 0.0,
            stale_block: 0.0,
            sector_bytes: 512,
            chosen: None,
        }
    }

    /// Power cut at which no unsynced change survives.
    pub fn lose_all() -> PowerCut {
        PowerCut { lost_write: 1.0, lost_size: 1.0, lost_name: 1.0, ..PowerCut::keep_all() }
    }

    fn check(&self) {
        let sector_bytes = self.sector_bytes;
        assert!([64, 512, 4096].contains(&sector_bytes), "no device has sectors of {sector_bytes} bytes");
    }
}

/// Kinds of fault, to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the fields of Faults and PowerCut")]
pub enum FaultKind {
    ReadError,
    WriteError,
    SyncError,
    NameError,
    NoSpace,
    ShortRead,
    ShortWrite,
    ProcessEnded,
    PowerCut,
    LostAtPowerCut,
    KeptAtPowerCut,
    TornWrite,
    LostSize,
    LostName,
    StaleBlock,
    DroppedSync,
    LostWrite,
    MisdirectedWrite,
    BitRot,
}

impl FaultKind {
    /// All kinds of faults.
    pub const ALL: [FaultKind; 19] = [
        FaultKind::ReadError,
        FaultKind::WriteError,
        FaultKind::SyncError,
        FaultKind::NameError,
        FaultKind::NoSpace,
        FaultKind::ShortRead,
        FaultKind::ShortWrite,
        FaultKind::ProcessEnded,
        FaultKind::PowerCut,
        FaultKind::LostAtPowerCut,
        FaultKind::KeptAtPowerCut,
        FaultKind::TornWrite,
        FaultKind::LostSize,
        FaultKind::LostName,
        FaultKind::StaleBlock,
        FaultKind::DroppedSync,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::BitRot,
    ];
}

/// Number of delivered faults, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::ALL.len()]);

impl FaultCounts {
    /// Number of delivered faults of `kind`.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    pub(super) fn add(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }
}

/// Fault of a lying disk that was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie {
    /// Kind: dropped sync, lost or misdirected write, or bit rot.
    pub kind: FaultKind,
    /// File or directory of the fault.
    pub file: FileId,
    /// Offset at which the write should have gone, or a bit flipped; 0 for a sync.
    pub offset: u64,
    /// Number of bytes written; 0 for a sync and for a flipped bit.
    pub bytes: u64,
}

/// Number of operations since the fault plan was set, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpCounts([u64; OpKind::ALL.len()]);

impl OpCounts {
    /// Number of operations of one kind.
    pub fn of(&self, kind: OpKind) -> u64 {
        self.0[kind as usize]
    }

    /// Number of operations of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Number of syncs, of files and directories.
    pub fn syncs(&self) -> u64 {
        self.of(OpKind::Sync) + self.of(OpKind::SyncDir)
    }
}

/// Decision of the fault plan about one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    Fails(FaultKind),
    Crashes(CrashPoint),
}

/// Source of faults, drawn from a plan.
pub(super) struct Injector {
    pub plan: Faults,
    pub counts: FaultCounts,
    pub operations: OpCounts,
    issued: u64,
    pub random: ChaCha8Rng,
    /// Whether the plan has no faults of operations.
    is_calm: bool,
    /// Number of changes decided at the last power cut.
    pub decisions: usize,
}

impl Injector {
    pub fn new(plan: Faults, random: ChaCha8Rng) -> Injector {
        plan.power_cut.check();
        Injector {
            is_calm: plan.is_calm(),
            plan,
            counts: FaultCounts::default(),
            operations: OpCounts::default(),
            issued: 0,
            random,
            decisions: 0,
        }
    }

    pub fn set_plan(&mut self, plan: Faults) {
        plan.power_cut.check();
        self.is_calm = plan.is_calm();
        self.plan = plan;
        self.operations = OpCounts::default();
        self.issued = 0;
    }

    /// Counts an operation and decides its fate. Faults are counted when they are delivered.
    pub fn judge(&mut self, kind: OpKind) -> Verdict {
        self.issued += 1;
        self.operations.0[kind as usize] += 1;
        if self.is_calm {
            return Verdict::Fine;
        }
        let nth_of_kind = self.operations.of(kind);
        if let Some((nth, point)) = self.plan.crash_at_nth
            && nth == self.issued
        {
            return Verdict::Crashes(point);
        }
        let is_sync = matches!(kind, OpKind::Sync | OpKind::SyncDir);
        if is_sync && self.plan.crash_at_nth_sync == Some(self.operations.syncs()) {
            return Verdict::Crashes(CrashPoint::Before);
        }
        if self.plan.fail_nth == Some((kind, nth_of_kind)) {
            return Verdict::Fails(self.plan.fails_with.unwrap_or(match kind {
                OpKind::Read => FaultKind::ReadError,
                OpKind::Write => FaultKind::WriteError,
                OpKind::Sync | OpKind::SyncDir => FaultKind::SyncError,
                _ => FaultKind::NameError,
            }));
        }
        let Faults { read_error, write_error, sync_error, name_error, .. } = self.plan;
        let Faults { no_space, short_read, short_write, .. } = self.plan;
        let Faults { dropped_sync, lost_write, misdirected_write, bit_rot, .. } = self.plan;
        use FaultKind::*;
        match kind {
            OpKind::Read => self.draw([(read_error, ReadError), (short_read, ShortRead), (bit_rot, BitRot)]),
            OpKind::Write => self.draw([
                (write_error, WriteError),
                (short_write, ShortWrite),
                (no_space, NoSpace),
                (lost_write, LostWrite),
                (misdirected_write, MisdirectedWrite),
            ]),
            OpKind::Sync | OpKind::SyncDir => {
                self.draw([(sync_error, SyncError), (dropped_sync, DroppedSync)])
            }
            OpKind::SetSize => self.draw([(name_error, NameError), (no_space, NoSpace)]),
            kind if kind.is_about_names() => self.draw([(name_error, NameError)]),
            _ => Verdict::Fine,
        }
    }

    fn draw<const N: usize>(&mut self, chances: [(f64, FaultKind); N]) -> Verdict {
        for (probability, kind) in chances {
            if chance(&mut self.random, probability) {
                return Verdict::Fails(kind);
            }
        }
        Verdict::Fine
    }
}
