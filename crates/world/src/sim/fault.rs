//! The fault plan: what goes wrong, how often, and what was really delivered.

use rand_chacha::ChaCha8Rng;

use super::random::chance;
use super::storage::FileId;

/// Kinds of operation, to aim faults at and to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// Opening or creating a file.
    Open,
    /// Creating a directory.
    CreateDir,
    /// Listing a directory.
    List,
    /// Looking up a path.
    Entry,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Syncing a directory.
    SyncDir,
    /// Asking for free space.
    FreeBytes,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Syncing a file.
    Sync,
    /// Asking for a size.
    Size,
    /// Setting a size.
    SetSize,
    /// Offering a template.
    AdoptTemplate,
}

impl OpKind {
    /// Every kind.
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

/// What a crash ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Death {
    /// The machine: what was not synced is resolved by the plan's [`PowerCut`].
    #[default]
    Power,
    /// The process alone: what was written stays to be read, and what was not synced is still lost at a later
    /// power cut.
    Process,
}

/// Where in the Nth operation the host crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before it has any effect.
    Before,
    /// After its effect, before anybody learns of it.
    After,
}

/// What goes wrong. Chances are between 0 and 1, drawn for each operation; the Nth operation is counted from the
/// moment the plan was set, and the first is number 1. By default nothing goes wrong but power cuts lose, keep and
/// tear.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// A read fails.
    pub read_error: f64,
    /// A write fails; what it wrote is unspecified.
    pub write_error: f64,
    /// A sync (of a file or directory) fails; what it should have made durable is unspecified, for good.
    pub sync_error: f64,
    /// Another operation fails without effect.
    pub name_error: f64,
    /// A write or size change finds the volume full although it is not.
    pub no_space: f64,
    /// A read ends early.
    pub short_read: f64,
    /// A write ends early.
    pub short_write: f64,
    /// The Nth operation of a kind fails.
    pub fail_nth: Option<(OpKind, u64)>,
    /// What it fails with, of the faults that its kind can have; `None`: an error.
    pub fails_with: Option<FaultKind>,
    /// The host that issues the Nth operation (of any [`OpKind`]) crashes there.
    pub crash_at_nth: Option<(u64, CrashPoint)>,
    /// The host that issues the Nth sync (of a file or a directory) crashes before it has any effect. Only
    /// syncs make anything durable, so these are all the states that a disk which loses everything else can
    /// have.
    pub crash_at_nth_sync: Option<u64>,
    /// What ends at that operation.
    pub crash_ends: Death,
    /// What power cuts do.
    pub power_cut: PowerCut,
    /// Lying disk: a sync reports success and does nothing.
    pub dropped_sync: f64,
    /// Lying disk: a write reports success and never happens.
    pub lost_write: f64,
    /// Lying disk: a write goes to another page of the same file.
    pub misdirected_write: f64,
    /// Lying disk: a bit of what is being read has flipped on the medium.
    pub bit_rot: f64,
}

impl Faults {
    /// Whether no operation can fail, lie or crash.
    fn is_calm(&self) -> bool {
        *self
            == Faults { power_cut: self.power_cut.clone(), crash_ends: self.crash_ends, ..Faults::default() }
    }
}

/// Chances at a power cut, each between 0 and 1 and drawn for every change on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerCut {
    /// A write that was not synced is gone.
    pub lost_write: f64,
    /// A write that was not synced is there in part: each sector is old or new.
    pub torn_write: f64,
    /// A change of size that was not synced is gone.
    pub lost_size: f64,
    /// A name change that was not synced is gone.
    pub lost_name: f64,
    /// A block of new space that was not written shows stale bytes instead of zeros.
    pub stale_block: f64,
    /// What a device writes all or nothing: 512 or 4096 bytes, 64 on persistent memory.
    pub sector_bytes: usize,
    /// What becomes of each change, one after the other, in the place of all chances but that of a stale block.
    /// The changes behind the end of the list are kept. For tests that go through all that can happen.
    pub chosen: Option<Vec<Survival>>,
}

/// What becomes of a change that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// It is gone.
    Lost,
    /// It is there.
    Kept,
    /// Of a write the first half of its sectors is there; any other change is.
    FirstHalf,
    /// Of a write the second half of its sectors is there; any other change is.
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
    /// Everything that completed survives.
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

    /// Nothing survives that was not synced.
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
    /// Every kind.
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

/// Faults delivered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::ALL.len()]);

impl FaultCounts {
    /// How often `kind` was delivered.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    pub(super) fn add(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }
}

/// A fault of a lying disk, as it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie {
    /// A dropped sync, a lost or misdirected write, or bit rot.
    pub kind: FaultKind,
    /// The file, or the directory, that was lied about.
    pub file: FileId,
    /// Where a write should have gone, or where a bit flipped; 0 for a sync.
    pub offset: u64,
    /// Bytes written; 0 for a sync and for a flipped bit.
    pub bytes: u64,
}

/// Operations issued since the fault plan was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpCounts([u64; OpKind::ALL.len()]);

impl OpCounts {
    /// Of one kind.
    pub fn of(&self, kind: OpKind) -> u64 {
        self.0[kind as usize]
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Syncs, of files and of directories.
    pub fn syncs(&self) -> u64 {
        self.of(OpKind::Sync) + self.of(OpKind::SyncDir)
    }
}

/// What the plan says about one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    Fails(FaultKind),
    Crashes(CrashPoint),
}

/// Draws the faults of a plan.
pub(super) struct Injector {
    pub plan: Faults,
    pub counts: FaultCounts,
    pub operations: OpCounts,
    issued: u64,
    pub random: ChaCha8Rng,
    /// The plan has no faults of operations.
    is_calm: bool,
    /// Changes that the last power cut has decided about.
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

    /// Counts an operation and decides what becomes of it. Faults are counted when they are delivered.
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
