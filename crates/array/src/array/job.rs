//! What an array is doing, and what happens to it when.

use world::sim::RequestId;

use super::JobId;
use crate::cache::Destage;
use crate::raid::Accesses;
use crate::residency::Swap;
use crate::space::Pieces;

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Happening {
    /// A rotating disk ends a command.
    DriveReady(u32),
    /// One of the things that a job waits for is over; on this drive, if it was a drive's.
    Done { job: JobId, drive: u32, read_bytes: u32 },
    /// The storage software of a node has looked at a request.
    InNode(JobId),
    /// A request reaches its controller.
    Arrive(JobId),
    /// A request completes at its host.
    Complete(JobId),
    /// A command reaches its drive over the drive's link.
    Issue(u32),
    /// Gathered writes of a controller have waited long enough.
    Gather(u32),
    /// The next move of an extent of a replicated store is due.
    MoveExtent(u32),
    /// The drives of a replicated store are compared.
    LookAtDrives(u32),
    /// The next step of a rebuild is due.
    Rebuild(u32),
    /// A controller's patrol reads on.
    Patrol(u32),
    /// A thin pool takes a snapshot of its volumes.
    Snapshot(u32),
    /// A pool with tiers relocates its slices.
    Relocate(u32),
    /// The next part of a slice is due to move.
    MoveSlice(u32),
    /// The next read of a clone is due.
    ReadClone { pool: u32, index: u32 },
    /// An event of the schedule.
    Scheduled(u32),
}

/// A move of an extent of a replicated store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    /// To a new home.
    Home { extent: u64, node: u32 },
    /// To another tier, and one back.
    Tier(Swap),
    /// From a slow drive to another one of its node.
    Empty { drive: u32 },
    /// To where it is, compressed.
    Compress { extent: u64 },
    /// Into a strip, with others.
    Code { extent: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Read,
    Write,
    /// Written to the drives before it is acknowledged.
    WriteThrough,
    Sync,
    Destage {
        controller: u32,
        destage: Destage,
    },
    Ahead {
        volume: u32,
        stream: u64,
        id: u64,
    },
    Rebuild {
        rebuild: u32,
        step: u32,
    },
    /// A segment of a log store goes to its group.
    Segment {
        store: u32,
        written: u64,
    },
    /// A write leaves the write log of a node.
    Drain {
        store: u32,
        node: u32,
        at: u64,
        bytes: u64,
    },
    /// An extent of a lost drive is copied.
    Recopy {
        store: u32,
    },
    /// A copy of an extent is read that is bad; a request waits.
    BadCopy {
        store: u32,
        extent: u64,
        drive: u32,
        waits: JobId,
    },
    /// Another copy is read in its place.
    GoodCopy {
        store: u32,
        extent: u64,
        drive: u32,
        waits: JobId,
    },
    /// An extent is moved.
    MoveExtent {
        store: u32,
        made: Move,
    },
    /// A region is read that the partner at the other site does not have.
    ReadChanged {
        remote_copy: u32,
    },
    /// It is on its way there.
    SendChanged {
        remote_copy: u32,
    },
    /// A part of a slice moves to another tier.
    MoveSlice {
        pool: u32,
    },
    /// A part of a clone of a thin pool is read for another host.
    ReadClone {
        pool: u32,
        index: u32,
    },
    /// It is on its way there.
    PassClone {
        pool: u32,
        index: u32,
    },
    /// No request waits for it.
    Background,
}

pub(super) struct Job {
    pub(super) kind: Kind,
    /// Things it waits for.
    pub(super) remaining: u32,
    /// A drive died with a command of it.
    pub(super) retry: bool,
    pub(super) lost: bool,
    /// The thin pool has no room for what it writes.
    pub(super) no_room: bool,
    /// Its pieces are places of the group, not of a thin volume.
    pub(super) is_placed: bool,
    pub(super) request: RequestId,
    pub(super) volume: u32,
    pub(super) submitted_ns: u64,
    /// First byte on the volume.
    pub(super) volume_byte: u64,
    /// On the target.
    pub(super) pieces: Pieces,
    pub(super) bytes: u64,
    pub(super) controller: u32,
    pub(super) path: u32,
    /// The node that data come from over the network.
    pub(super) remote: Option<u32>,
    /// What it has read that is to be decompressed.
    pub(super) compressed_bytes: u64,
    /// What is written when the reads are over.
    pub(super) then_write: Accesses,
}

impl Job {
    pub(super) fn free() -> Job {
        Job {
            kind: Kind::Background,
            remaining: 0,
            retry: false,
            lost: false,
            no_room: false,
            is_placed: false,
            request: RequestId(0),
            volume: 0,
            submitted_ns: 0,
            volume_byte: 0,
            pieces: Pieces::new(),
            bytes: 0,
            controller: 0,
            path: 0,
            remote: None,
            compressed_bytes: 0,
            then_write: Accesses::new(),
        }
    }

    /// In its place: building a job elsewhere and moving it here took a tenth of a simulation.
    pub(super) fn begin(&mut self, kind: Kind, now_ns: u64) {
        self.kind = kind;
        (self.remaining, self.retry, self.lost) = (0, false, false);
        (self.no_room, self.is_placed) = (false, false);
        (self.request, self.submitted_ns) = (RequestId(0), now_ns);
        (self.volume, self.bytes, self.controller, self.path, self.remote) = (0, 0, 0, 0, None);
        self.compressed_bytes = 0;
        self.pieces.clear();
        self.then_write.clear();
    }
}
