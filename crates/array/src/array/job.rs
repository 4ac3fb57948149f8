//! What an array is doing, and what happens to it when.

use world::sim::RequestId;

use super::JobId;
use crate::cache::Destage;
use crate::raid::Accesses;
use crate::residency::Swap;
use crate::space::VolumeRanges;

/// Event of the array's queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Happening {
    /// A rotating disk finishes a command.
    DriveReady(u32),
    /// One of the things that a job waits for is done, on this drive if it was a command.
    Done { job: JobId, drive: u32, read_bytes: u32 },
    /// The storage software of a node has handled a request.
    InNode(JobId),
    /// A request reaches its controller.
    Arrive(JobId),
    /// A request completes at its host.
    Complete(JobId),
    /// A command reaches its drive over the drive's link.
    Issue(u32),
    /// The gathering time of a controller's writes is over.
    Gather(u32),
    /// The next move of an extent of a replicated store is due.
    MoveExtent(u32),
    /// The comparison of a replicated store's drives is due.
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

/// Kind of an extent's move within a replicated store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    /// To a new home node.
    Home { extent: u64, node: u32 },
    /// To another tier, in exchange for an extent that comes back.
    Tier(Swap),
    /// From a slow drive to another one of its node.
    Empty { drive: u32 },
    /// Compression in place.
    Compress { extent: u64 },
    /// Into a strip with other extents.
    Code { extent: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Read,
    Write,
    /// Write that goes to the drives before it is acknowledged.
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
    /// Segment of a log-structured store that is written to its group.
    Segment {
        store: u32,
        written: u64,
    },
    /// Write that leaves the write log of a node.
    Drain {
        store: u32,
        node: u32,
        at: u64,
        bytes: u64,
    },
    /// Copy of an extent of a lost drive.
    Recopy {
        store: u32,
    },
    /// Read of a bad copy of an extent, for which a request waits.
    BadCopy {
        store: u32,
        extent: u64,
        drive: u32,
        waits: JobId,
    },
    /// Read of another copy in place of a bad one.
    GoodCopy {
        store: u32,
        extent: u64,
        drive: u32,
        waits: JobId,
    },
    /// Move of an extent.
    MoveExtent {
        store: u32,
        made: Move,
    },
    /// Read of a changed region for the partner at another site.
    ReadChanged {
        remote_copy: u32,
    },
    /// Transfer of a changed region to the partner at another site.
    SendChanged {
        remote_copy: u32,
    },
    /// Move of a part of a slice to another tier.
    MoveSlice {
        pool: u32,
    },
    /// Read of a part of a thin pool's clone for another host.
    ReadClone {
        pool: u32,
        index: u32,
    },
    /// Transfer of a part of a clone to that host.
    PassClone {
        pool: u32,
        index: u32,
    },
    /// Work for which no request waits.
    Background,
}

pub(super) struct Job {
    pub(super) kind: Kind,
    /// Number of things that the job waits for.
    pub(super) remaining: u32,
    /// Whether a drive died with a command of the job, so that it must be repeated.
    pub(super) retry: bool,
    pub(super) lost: bool,
    /// Whether the thin pool has no room for the job's write.
    pub(super) no_room: bool,
    /// Whether the pieces are places of the group rather than of a thin volume.
    pub(super) is_placed: bool,
    pub(super) request: RequestId,
    pub(super) volume: u32,
    pub(super) submitted_ns: u64,
    /// Offset on the volume.
    pub(super) volume_byte: u64,
    /// Ranges on the target.
    pub(super) pieces: VolumeRanges,
    pub(super) bytes: u64,
    pub(super) controller: u32,
    pub(super) path: u32,
    /// Node from which data come over the network.
    pub(super) remote: Option<u32>,
    /// Compressed bytes that the job has read.
    pub(super) compressed_bytes: u64,
    /// Accesses to write once the reads are done.
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
            pieces: VolumeRanges::new(),
            bytes: 0,
            controller: 0,
            path: 0,
            remote: None,
            compressed_bytes: 0,
            then_write: Accesses::new(),
        }
    }

    /// Resets the job for new work in place; creating and moving one took a tenth of a simulation's time.
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
