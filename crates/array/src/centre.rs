//! A measured storage in use, as a flow-equivalent centre: all requests under way at one place share it.
//!
//! While `n` are under way, each advances at the pace at which operations of its kind and size take their measured mean
//! latency among `n`; so a closed loop of a measured point has the measured rate and latencies. How much longer or
//! shorter than the mean one operation takes is drawn so that the measured percentiles come out. A sync takes what a
//! durable write was measured to take longer than a sequential write.
//!
//! Limits: shares of reads and of sequential operations, and the mean size, are those of the last some dozen
//! requests; no caches that fill, no place on a disk, no parts that fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use world::Time;
use world::sim::{FileId, RequestId, StorageModel, StorageOp, StorageRequest, VolumeId};

use crate::measured::{MeasuredStorage, Place, drawn};
use crate::mix;

/// Weight of one request in the mix that decides the place.
const MIXED: f64 = 1.0 / 32.0;
/// How many operations of its size a sequential operation may lie before or behind the end of the last one.
const STRIDE: u64 = 8;

/// Handle on a measured storage in use; clones are the same.
#[derive(Clone)]
pub struct SharedMeasured(Rc<RefCell<Centres>>);

struct Centres {
    storage: MeasuredStorage,
    seed: u64,
    /// What holds the storage of each host: the host, or the enclosure or site that hosts share.
    places: BTreeMap<String, String>,
    /// The storage of each place is that which was measured.
    centres: Vec<(String, Centre)>,
    /// The centre of each volume, by index.
    of_volume: BTreeMap<VolumeId, usize>,
    sequence: u64,
    requests: u64,
    unproved: u64,
}

/// What one storage has under way.
#[derive(Default)]
struct Centre {
    kinds: Vec<(KindName, Kind)>,
    files: BTreeMap<(VolumeId, FileId), Touched>,
    under_way: usize,
    /// Share of reads, share of sequential operations, and mean size of the last reads and writes.
    mix: Option<[f64; 3]>,
    since: Time,
}

/// Reads, writes or syncs; sequential or not; their size. A sync has the size of the write before it.
type KindName = (StorageOp, bool, u64);

/// Where the last read and the last write of a file ended, and how large the latter was.
#[derive(Default)]
struct Touched {
    read_end: Option<u64>,
    write_end: Option<u64>,
    written: u64,
}

/// Operations of one kind and size.
struct Kind {
    /// How many mean latencies have passed for those under way.
    passed: f64,
    /// Mean latency at present.
    latency_ns: f64,
    /// Operations by when they are complete, in the bits of `passed`; then in their order.
    due: BTreeMap<(u64, u64), RequestId>,
}

impl Kind {
    fn next(&self, since: Time) -> Option<Time> {
        let ((due, _), _) = self.due.first_key_value()?;
        let left = (f64::from_bits(*due) - self.passed).max(0.0) * self.latency_ns;
        Some(Time { ns: since.ns + left.ceil() as u64 })
    }
}

impl Touched {
    /// Notes an operation. Returns whether it is sequential.
    fn by(&mut self, op: StorageOp, offset: u64, bytes: u64) -> bool {
        let end = if op == StorageOp::Read { &mut self.read_end } else { &mut self.write_end };
        let is_sequential = end.is_some_and(|end| end.abs_diff(offset) <= STRIDE * bytes);
        *end = Some(offset + bytes);
        if op == StorageOp::Write {
            self.written = bytes;
        }
        is_sequential
    }
}

impl Centre {
    /// Lets time pass.
    fn pass(&mut self, now: Time) {
        let ns = (now.ns - self.since.ns) as f64;
        self.since = now;
        for (_, kind) in &mut self.kinds {
            kind.passed += ns / kind.latency_ns;
        }
    }

    fn place(&self, bytes: u64) -> Place {
        let bytes = bytes as f64;
        let [reads, sequential, mean_bytes] = self.mix.unwrap_or([0.0, 1.0, bytes]);
        Place { bytes, mean_bytes, under_way: self.under_way as f64, reads, sequential }
    }

    /// Gives everything under way the pace of the present load.
    fn pace(&mut self, storage: &MeasuredStorage) {
        self.kinds.retain(|(_, kind)| !kind.due.is_empty());
        let place = self.place(0);
        for ((op, is_sequential, bytes), kind) in &mut self.kinds {
            let place = Place { bytes: *bytes as f64, ..place };
            let ms = match op {
                StorageOp::Sync => storage.sync_ms(&place),
                op => storage.latency_ms(*op == StorageOp::Read, *is_sequential, &place),
            };
            kind.latency_ns = (ms * 1e6).max(1.0);
        }
    }

    fn kind(&mut self, name: KindName) -> &mut Kind {
        let known = self.kinds.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or_else(|| {
            self.kinds.push((name, Kind { passed: 0.0, latency_ns: 1.0, due: BTreeMap::new() }));
            self.kinds.len() - 1
        });
        &mut self.kinds[index].1
    }

    /// Takes a request. Returns its kind, and whether the storage was probed there.
    fn take(&mut self, storage: &MeasuredStorage, request: &StorageRequest) -> (KindName, bool) {
        let file = self.files.entry((request.volume, request.file)).or_default();
        self.under_way += 1;
        if request.op == StorageOp::Sync {
            return ((StorageOp::Sync, true, file.written), storage.has_syncs());
        }
        let is_read = request.op == StorageOp::Read;
        let is_sequential = file.by(request.op, request.offset, request.bytes);
        let one = |is: bool| if is { 1.0 } else { 0.0 };
        let now = [one(is_read), one(is_sequential), request.bytes as f64];
        let before = self.mix.unwrap_or(now);
        self.mix = Some(std::array::from_fn(|index| before[index] + (now[index] - before[index]) * MIXED));
        let is_proved = storage.is_proved(is_read, is_sequential, &self.place(request.bytes));
        ((request.op, is_sequential, request.bytes), is_proved)
    }
}

impl SharedMeasured {
    /// A storage as measured for each of `places`, by the host that it serves; a host that has none has its own.
    pub fn new(storage: MeasuredStorage, seed: u64, places: BTreeMap<String, String>) -> SharedMeasured {
        SharedMeasured(Rc::new(RefCell::new(Centres {
            storage,
            seed,
            places,
            centres: Vec::new(),
            of_volume: BTreeMap::new(),
            sequence: 0,
            requests: 0,
            unproved: 0,
        })))
    }

    /// Requests since the last reset, and those of them outside of what was probed.
    pub fn unproved(&self) -> (u64, u64) {
        let centres = self.0.borrow();
        (centres.requests, centres.unproved)
    }

    /// Begins to count anew.
    pub fn reset(&self) {
        let mut centres = self.0.borrow_mut();
        (centres.requests, centres.unproved) = (0, 0);
    }
}

impl StorageModel for SharedMeasured {
    fn attach(&mut self, volume: VolumeId, host: &str, _path: &str) {
        let Centres { places, centres, of_volume, .. } = &mut *self.0.borrow_mut();
        let place = places.get(host).map_or(host, String::as_str);
        let known = centres.iter().position(|(name, _)| name == place);
        let index = known.unwrap_or_else(|| {
            centres.push((place.to_owned(), Centre::default()));
            centres.len() - 1
        });
        of_volume.insert(volume, index);
    }

    fn set_file_size(&mut self, volume: VolumeId, file: FileId, bytes: u64) {
        let Centres { centres, of_volume, .. } = &mut *self.0.borrow_mut();
        if bytes == 0 {
            centres[of_volume[&volume]].1.files.remove(&(volume, file));
        }
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let Centres { storage, seed, centres, of_volume, sequence, requests, unproved, .. } =
            &mut *self.0.borrow_mut();
        let centre = &mut centres[of_volume[&request.volume]].1;
        *sequence += 1;
        centre.pass(now);
        let (name, is_proved) = centre.take(storage, &request);
        *requests += 1;
        *unproved += u64::from(!is_proved);
        let dice = (mix(*seed ^ *sequence) >> 11) as f64 / (1_u64 << 53) as f64;
        let work = match request.op {
            StorageOp::Read => drawn(&storage.read_spread, dice),
            StorageOp::Write => drawn(&storage.write_spread, dice),
            StorageOp::Sync => 1.0,
        };
        let kind = centre.kind(name);
        kind.due.insert(((kind.passed + work).to_bits(), *sequence), request.id);
        centre.pace(storage);
    }

    fn next_completion(&self) -> Option<Time> {
        let centres = self.0.borrow();
        let next =
            |centre: &Centre| centre.kinds.iter().filter_map(|(_, kind)| kind.next(centre.since)).min();
        centres.centres.iter().filter_map(|(_, centre)| next(centre)).min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        let Centres { storage, centres, .. } = &mut *self.0.borrow_mut();
        for (_, centre) in centres {
            let before = centre.under_way;
            for (_, kind) in &mut centre.kinds {
                while kind.next(centre.since).is_some_and(|at| at <= now) {
                    completed.extend(kind.due.pop_first().map(|(_, id)| id));
                    centre.under_way -= 1;
                }
            }
            if centre.under_way < before {
                centre.pass(now);
                centre.pace(storage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::storage;

    /// Operations a second of a closed loop, each followed by a sync if it is durable, and requests that are unproved.
    fn closed_loop(
        storage: MeasuredStorage,
        kind: (StorageOp, bool, bool),
        bytes: u64,
        outstanding: u64,
    ) -> (f64, u64) {
        let (op, is_sequential, is_durable) = kind;
        let mut model = SharedMeasured::new(storage, 7, BTreeMap::new());
        model.attach(VolumeId(1), "h", "/v");
        let request = |id: u64, op| {
            let place = if is_sequential { id } else { mix(id) % 1_000_000 };
            let bytes = if op == StorageOp::Sync { 0 } else { bytes };
            let (volume, file) = (VolumeId(1), FileId(1));
            StorageRequest { id: RequestId(id), volume, file, op, offset: place * bytes, bytes }
        };
        (0..outstanding).for_each(|id| model.submit(Time::default(), request(id, op)));
        let (mut next, mut done) = (outstanding, Vec::new());
        let until = Time { ns: 20_000_000_000 };
        let (mut completed, mut syncs) = (0, std::collections::BTreeSet::new());
        while let Some(at) = model.next_completion().filter(|at| *at < until) {
            model.take_completions(at, &mut done);
            for id in done.drain(..) {
                let to_sync = is_durable && !syncs.remove(&id);
                if to_sync {
                    syncs.insert(RequestId(next));
                } else {
                    completed += 1;
                }
                model.submit(at, request(next, if to_sync { StorageOp::Sync } else { op }));
                next += 1;
            }
        }
        (f64::from(completed) / 20.0, model.unproved().1)
    }

    #[test]
    fn a_closed_loop_of_a_measured_place_has_the_measured_rate() {
        let (read, write) = ((StorageOp::Read, false, false), (StorageOp::Write, false, false));
        for (kind, bytes, outstanding, wanted) in [
            (read, 4096, 1, 1000.0),
            (read, 4096, 8, 2000.0),
            (write, 65536, 8, 2000.0),
            (read, 34816, 1, 1.0 / 1.5e-3),
            ((StorageOp::Read, true, false), 4096, 8, 20_000.0),
            ((StorageOp::Write, true, true), 4096, 1, 4000.0),
            ((StorageOp::Write, true, true), 65536, 8, 8.0 / 6e-4),
        ] {
            let (rate, unproved) = closed_loop(storage(), kind, bytes, outstanding);
            assert!(
                (rate / wanted - 1.0).abs() < 0.02,
                "{kind:?} {bytes} {outstanding}: {rate}, not {wanted}"
            );
            assert!(unproved <= outstanding, "{kind:?}: {unproved}");
        }
    }

    #[test]
    fn requests_outside_of_what_was_probed_are_counted() {
        let random = (StorageOp::Read, false, false);
        for (bytes, outstanding) in [(1024, 1), (1 << 20, 1), (4096, 20)] {
            let (rate, unproved) = closed_loop(storage(), random, bytes, outstanding);
            assert!(unproved as f64 > 19.0 * rate, "{bytes} {outstanding}: {unproved}");
        }
        let without = MeasuredStorage { durable_writes: None, ..storage() };
        let (rate, unproved) = closed_loop(without, (StorageOp::Write, true, true), 4096, 1);
        assert!(unproved as f64 > 19.0 * rate, "no sync was probed: {unproved}");
    }

    #[test]
    fn hosts_that_share_a_place_share_its_storage() {
        let places = [("a", "x"), ("b", "x")].map(|(host, place)| (host.to_owned(), place.to_owned()));
        let mut model = SharedMeasured::new(storage(), 7, places.into_iter().collect());
        for (volume, host) in [(1, "a"), (2, "b"), (3, "c")] {
            model.attach(VolumeId(volume), host, "/v");
        }
        let centres = model.0.borrow();
        let of = |volume| centres.of_volume[&VolumeId(volume)];
        assert!(of(1) == of(2) && of(1) != of(3));
    }
}
