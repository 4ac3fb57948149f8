//! How long storage takes. A model sees every read, write and sync of every host, and says when each completes.
//!
//! One model serves the whole simulation, so that volumes of several hosts can share an array. It may complete
//! requests out of order and decide late: it is asked for its next completion whenever time is about to move.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use rand_chacha::ChaCha8Rng;

use super::random;
use crate::{Duration, Time};

/// Id of a request; unique within a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Id of a volume (top-level directory) of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub u32);

/// Id of a file or directory of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// Operation of a storage request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageOp {
    /// Read of `bytes` at `offset`.
    Read,
    /// Write of `bytes` at `offset`.
    Write,
    /// Sync: makes earlier writes of the file durable.
    Sync,
}

/// Request to the storage model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageRequest {
    /// Id of the request, returned at its completion.
    pub id: RequestId,
    /// Processor of the host that issued it, as in [`StorageModel::operation_time`]; any, if it is `None`.
    pub lane: Option<u32>,
    /// Volume of the request.
    pub volume: VolumeId,
    /// File of the request (the directory, for the sync of one).
    pub file: FileId,
    /// Operation of the request.
    pub op: StorageOp,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes; 0 for a sync.
    pub bytes: u64,
}

/// Storage model in virtual time, which counts from the start of the simulation, not of a host.
pub trait StorageModel {
    /// Adds a volume, before the first request to it.
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str);
    /// Sets the size of a file (0: it is gone), before the next request. A model without geometry ignores it.
    fn set_file_size(&mut self, _volume: VolumeId, _file: FileId, _bytes: u64) {}
    /// Notes that all of a file has contents that no write made; follows its size.
    fn fill_file(&mut self, _volume: VolumeId, _file: FileId) {}
    /// Submits a request.
    fn submit(&mut self, now: Time, request: StorageRequest);
    /// Earliest time at which a request may complete, if any is in progress. May be early, never late; after
    /// [`Self::take_completions`] it is later than the time given there.
    fn next_completion(&self) -> Option<Time>;
    /// As [`Self::next_completion`], for a model that simulates ahead: nothing is submitted before `until`, nor before
    /// the returned time, so the model may advance up to its next completion or `until`.
    fn run_ahead(&mut self, _until: Option<Time>) -> Option<Time> {
        self.next_completion()
    }
    /// Appends the requests that are complete at `now`, in order.
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>);
    /// Failure of a request that was just taken, if it failed.
    fn take_failure(&mut self, _id: RequestId) -> Option<StorageFailure> {
        None
    }
    /// Time that an operation of the load takes of a processor of a host, with what it waits for it. Operations and
    /// requests of one lane take turns. A model without processors takes none.
    fn operation_time(&mut self, _now: Time, _host: &str, _lane: u32) -> Duration {
        Duration::ZERO
    }
}

/// Reason why the storage model failed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFailure {
    /// The data, or the path to them, are lost.
    Lost,
    /// There is no room left behind the volume for what was written.
    NoSpace,
}

/// Storage model in which everything completes immediately.
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

/// Parameters of [`FixedLatency`].
#[derive(Debug, Clone, Copy)]
pub struct FixedLatencyTimes {
    /// Latency of a read, without its bytes.
    pub read_latency: Duration,
    /// Latency of a write, without its bytes.
    pub write_latency: Duration,
    /// Latency of a sync.
    pub sync_latency: Duration,
    /// Transfer rate of a volume, bytes per second.
    pub bytes_per_second: u64,
    /// Largest random addition to each request, evenly distributed.
    pub jitter: Duration,
    /// Number of requests that a volume serves at a time; others queue.
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

/// Storage model with a latency plus a time per byte, jitter, and a queue (first in, first out) per volume.
pub struct FixedLatency {
    times: FixedLatencyTimes,
    random: ChaCha8Rng,
    /// Time at which each server of a volume is free.
    servers: BTreeMap<VolumeId, BinaryHeap<Reverse<Time>>>,
    under_way: BinaryHeap<Reverse<(Time, RequestId)>>,
}

impl FixedLatency {
    /// Creates the model; equal seeds give equal jitter.
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
