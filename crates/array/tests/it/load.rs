//! A closed load on an array: this many requests always under way, as sessions that wait for their I/O.

use std::collections::BTreeMap;

use array::{Array, DeviceReport, Event};
use world::Time;
use world::sim::{FileId, RequestId, StorageModel, StorageOp, StorageRequest, VolumeId};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// Seeded random numbers, the same on every machine.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u64
    }
}

/// One request of a load: volume, operation, offset in its file, bytes.
pub type Request = (u32, StorageOp, u64, u64);

/// What a load saw.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub reads: u64,
    pub writes: u64,
    pub read_ns: u64,
    pub read_max_ns: u64,
    pub write_ns: u64,
    pub failed: u64,
    pub elapsed_ns: u64,
    /// A hash over completions and their times.
    pub trace: u64,
}

impl Seen {
    pub fn read_ms(&self) -> f64 {
        self.read_ns as f64 / self.reads.max(1) as f64 / 1e6
    }
    pub fn write_ms(&self) -> f64 {
        self.write_ns as f64 / self.writes.max(1) as f64 / 1e6
    }
    pub fn reads_per_s(&self) -> f64 {
        self.reads as f64 * 1e9 / self.elapsed_ns as f64
    }
    pub fn writes_per_s(&self) -> f64 {
        self.writes as f64 * 1e9 / self.elapsed_ns as f64
    }
    pub fn per_s(&self) -> f64 {
        self.reads_per_s() + self.writes_per_s()
    }
}

/// Drives an array: one file of `file_bytes` on each volume of host "h" at these paths.
pub struct Rig {
    pub array: Array,
    now: Time,
    next_id: u64,
    under_way: BTreeMap<RequestId, (Time, StorageOp)>,
    completed: Vec<RequestId>,
    /// Whether simulated time jumps to the array's next completion, as a simulated world does; otherwise the array is
    /// polled at each step.
    pub runs_ahead: bool,
}

impl Rig {
    pub fn new(mut array: Array, paths: &[&str], file_bytes: u64) -> Rig {
        for (index, path) in paths.iter().enumerate() {
            let volume = VolumeId(index as u32);
            array.attach(volume, "h", path);
            array.set_file_size(volume, FileId(index as u64), file_bytes);
        }
        let now = Time::default();
        Rig { array, now, next_id: 0, under_way: BTreeMap::new(), completed: Vec::new(), runs_ahead: true }
    }

    pub fn schedule(&mut self, at_s: f64, event: Event) {
        self.array.schedule(Time { ns: (at_s * 1e9) as u64 }, event);
    }

    pub fn submit(&mut self, (volume, op, offset, bytes): Request) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let file = FileId(u64::from(volume));
        self.under_way.insert(id, (self.now, op));
        let request = StorageRequest { id, lane: None, volume: VolumeId(volume), file, op, offset, bytes };
        self.array.submit(self.now, request);
    }

    /// Keeps `depth` requests in flight for `seconds`. Checks two properties of every model: each request completes
    /// once, and time never goes back.
    pub fn run(&mut self, depth: usize, seconds: f64, mut next: impl FnMut() -> Request) -> Seen {
        let (start, mut seen) = (self.now, Seen::default());
        let end = Time { ns: start.ns + (seconds * 1e9) as u64 };
        self.array.reset_statistics(start);
        while self.under_way.len() < depth {
            self.submit(next());
        }
        while let Some(at) = self.next_completion(Some(end)) {
            if at > end {
                break;
            }
            assert!(at >= self.now, "time went back");
            self.now = at;
            self.collect(&mut seen);
            while self.under_way.len() < depth {
                self.submit(next());
            }
        }
        self.now = end;
        seen.elapsed_ns = end.ns - start.ns;
        seen
    }

    /// Lets everything under way complete.
    pub fn drain(&mut self) -> Seen {
        let mut seen = Seen::default();
        while let Some(at) = self.next_completion(None) {
            self.now = at.max(self.now);
            self.collect(&mut seen);
        }
        assert!(self.under_way.is_empty(), "{} requests never completed", self.under_way.len());
        seen
    }

    fn next_completion(&mut self, until: Option<Time>) -> Option<Time> {
        if self.runs_ahead { self.array.run_ahead(until) } else { self.array.next_completion() }
    }

    fn collect(&mut self, seen: &mut Seen) {
        let mut completed = std::mem::take(&mut self.completed);
        self.array.take_completions(self.now, &mut completed);
        for id in completed.drain(..) {
            seen.failed += u64::from(self.array.take_failure(id).is_some());
            let (since, op) =
                self.under_way.remove(&id).expect("completed once, and only what was submitted");
            let took_ns = self.now.since(since).as_nanos() as u64;
            match op {
                StorageOp::Read => {
                    seen.reads += 1;
                    seen.read_ns += took_ns;
                    seen.read_max_ns = seen.read_max_ns.max(took_ns);
                }
                StorageOp::Write => {
                    seen.writes += 1;
                    seen.write_ns += took_ns;
                }
                StorageOp::Sync => {}
            }
            seen.trace = (seen.trace.rotate_left(7) ^ id.0 ^ self.now.ns).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        self.completed = completed;
        if self.array.next_completion().is_some_and(|next| next <= self.now) {
            panic!("the next completion must lie after the ones that were taken");
        }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn report(&mut self) -> DeviceReport {
        self.array.report(self.now)
    }
}

/// Random reads of `bytes` in the first `span` of the file of volume 0.
pub fn random_reads(seed: u64, span: u64, bytes: u64) -> impl FnMut() -> Request {
    let mut numbers = Numbers::new(seed);
    move || (0, StorageOp::Read, numbers.below(span / bytes) * bytes, bytes)
}

/// Random requests in the first `span` bytes: `writes` of 100 are writes, the others are reads.
pub fn mixed(seed: u64, span: u64, bytes: u64, writes: u64) -> impl FnMut() -> Request {
    let mut numbers = Numbers::new(seed);
    move || {
        let op = if numbers.below(100) < writes { StorageOp::Write } else { StorageOp::Read };
        (0, op, numbers.below(span / bytes) * bytes, bytes)
    }
}
