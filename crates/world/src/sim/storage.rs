//! How long storage takes. A model sees every read, write and sync of every host, and says when each completes.
//!
//! One model serves the whole simulation, so that volumes of several hosts can share an array. It may complete
//! requests out of order and decide late: it is asked for its next completion whenever time is about to move.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use rand_chacha::ChaCha8Rng;

use super::random;
use crate::{Duration, Time};

/// Names one request; never used twice in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names one volume (top-level directory) of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// Names one file or directory of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageOp {
    /// Reads `bytes` at `offset`.
    Read,
    /// Writes `bytes` at `offset`.
    Write,
    /// Makes earlier writes of the file durable.
    Sync,
}

/// One request to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageRequest {
    /// Given back at completion.
    pub id: RequestId,
    /// The volume.
    pub volume: VolumeId,
    /// The file on it (the directory, for the sync of one).
    pub file: FileId,
    /// What to do.
    pub op: StorageOp,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes; 0 for a sync.
    pub bytes: u64,
}

/// A model of storage in virtual time (since the start of the simulation, not of a host).
pub trait StorageModel {
    /// A volume appeared, before the first request to it.
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str);
    /// A file has this size now (0: it is gone). Told before the next request, in order; a model without geometry
    /// does not care.
    fn set_file_size(&mut self, _volume: VolumeId, _file: FileId, _bytes: u64) {}
    /// All of a file, as long as it is, has contents that no write made. Told right after its size.
    fn fill_file(&mut self, _volume: VolumeId, _file: FileId) {}
    /// Takes a request.
    fn submit(&mut self, now: Time, request: StorageRequest);
    /// The earliest time at which something may complete, if anything is under way. May be early, never late; right
    /// after [`Self::take_completions`] it is later than the time given there.
    fn next_completion(&self) -> Option<Time>;
    /// As [`Self::next_completion`], by a model that may find out: nothing is submitted before `until`, nor before the
    /// time that is returned. So time may pass inside the model up to its next completion, or `until`.
    fn run_ahead(&mut self, _until: Option<Time>) -> Option<Time> {
        self.next_completion()
    }
    /// Appends the requests that are complete at `now`, in order of completion.
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>);
    /// Why a request that has completed failed, if it did; asked once, right after it was taken.
    fn take_failure(&mut self, _id: RequestId) -> Option<StorageFailure> {
        None
    }
}

/// Why storage did not do what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFailure {
    /// The data are lost, or the way to them.
    Lost,
    /// There is no room left behind the volume for what was written.
    NoSpace,
}

/// Everything completes at the instant it was issued.
#[derive(Debug, Default)]
pub struct ZeroLatency {
    due: VecDeque<RequestId>,
    now: Time,
}

impl StorageModel for ZeroLatency {
    fn attach(&mut self, _volume: VolumeId, _host: &str, _path: &str) {}
    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.now = now;
        self.due.push_back(request.id);
    }
    fn next_completion(&self) -> Option<Time> {
        if self.due.is_empty() { None } else { Some(self.now) }
    }
    fn take_completions(&mut self, _now: Time, completed: &mut Vec<RequestId>) {
        completed.extend(self.due.drain(..));
    }
}

/// Times of [`FixedLatency`].
#[derive(Debug, Clone, Copy)]
pub struct FixedLatencyTimes {
    /// A read, before its bytes.
    pub read_latency: Duration,
    /// A write, before its bytes.
    pub write_latency: Duration,
    /// A sync.
    pub sync_latency: Duration,
    /// Transfer rate of a volume.
    pub bytes_per_second: u64,
    /// Up to this much is added to each request, evenly distributed.
    pub jitter: Duration,
    /// Requests that a volume works on at once; others queue.
    pub parallel: usize,
}

impl Default for FixedLatencyTimes {
    fn default() -> Self {
        FixedLatencyTimes {
            read_latency: Duration::from_micros(200),
            write_latency: Duration::from_micros(100),
            sync_latency: Duration::from_micros(500),
            bytes_per_second: 500_000_000,
            jitter: Duration::from_micros(100),
            parallel: 8,
        }
    }
}

/// A latency plus a time per byte, with jitter, and a first-in-first-out queue per volume.
pub struct FixedLatency {
    times: FixedLatencyTimes,
    random: ChaCha8Rng,
    /// Per volume: when each of its servers is free.
    servers: BTreeMap<VolumeId, BinaryHeap<Reverse<Time>>>,
    under_way: BinaryHeap<Reverse<(Time, RequestId)>>,
}

impl FixedLatency {
    /// A model with these times; equal seeds give equal jitter.
    pub fn new(seed: u64, times: FixedLatencyTimes) -> FixedLatency {
        FixedLatency {
            times,
            random: random::stream(seed, random::Use::Storage, 0),
            servers: BTreeMap::new(),
            under_way: BinaryHeap::new(),
        }
    }
}

impl StorageModel for FixedLatency {
    fn attach(&mut self, volume: VolumeId, _host: &str, _path: &str) {
        let servers = self.times.parallel.max(1);
        self.servers.insert(volume, (0..servers).map(|_| Reverse(Time::default())).collect());
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let latency = match request.op {
            StorageOp::Read => self.times.read_latency,
            StorageOp::Write => self.times.write_latency,
            StorageOp::Sync => self.times.sync_latency,
        };
        let transfer_ns =
            u128::from(request.bytes) * 1_000_000_000 / u128::from(self.times.bytes_per_second.max(1));
        let jitter_ns = random::below(&mut self.random, self.times.jitter.as_nanos() as u64 + 1);
        let service = latency + Duration::from_nanos(transfer_ns as u64 + jitter_ns);
        let servers = self.servers.entry(request.volume).or_default();
        let free = servers.pop().map_or(now, |Reverse(free)| free);
        let done = free.max(now) + service;
        servers.push(Reverse(done));
        self.under_way.push(Reverse((done, request.id)));
    }

    fn next_completion(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse((done, _))| *done)
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        while let Some(Reverse((done, id))) = self.under_way.peek().copied() {
            if done > now {
                return;
            }
            self.under_way.pop();
            completed.push(id);
        }
    }
}
