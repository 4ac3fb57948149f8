//! A measured storage in use, as a flow-equivalent centre: all requests under way at one place share it.
//!
//! While `n` are under way, each advances at the pace at which operations of its kind and size take their measured mean
//! latency among `n`; so a closed loop of a measured point has the measured rate and latencies. How much longer or
//! shorter than the mean one operation takes is drawn so that the measured percentiles come out. A sync takes what a
//! durable write was measured to take longer than a sequential write.
//!
//! A write cache delays writes, so what reads suffer from is not the burst of writes that is under way, but the share
//! that writes had among the last hundred or so random operations. Sequential ones, as of a log, do not count there:
//! they cost an array little. A read waits for other reads: it has the load of the closed loop of this mix with as many
//! reads under way as between the last requests, on the mean of the times with any. So what a limit on reads lets
//! through is used up, however reads gather.
//!
//! A limit that lets operations through in slices of time stands in front of the centre ([`Throttle`]); its probes are
//! those of the storage without it.
//!
//! Limits: no caches that fill, no reading ahead, no place on a disk, no parts that fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use world::Time;
use world::sim::{FileId, RequestId, StorageModel, StorageOp, StorageRequest, VolumeId};

use crate::measured::{MeasuredStorage, Place, drawn};
use crate::mix;
use crate::throttle::{Gate, Throttle};

/// Weight of one request in the mix: a burst of page writes is not the mix.
const MIXED: f64 = 1.0 / 64.0;
/// How many operations of its size a sequential operation may lie before or behind the end of the last one.
const STRIDE: u64 = 8;

/// Handle on a measured storage in use; clones are the same.
#[derive(Clone)]
pub struct SharedMeasured(Rc<RefCell<Centres>>);

struct Centres {
    storages: Vec<MeasuredStorage>,
    seed: u64,
    places: BTreeMap<(String, String), MeasuredPlace>,
    /// The centre of each place.
    centres: Vec<(MeasuredPlace, Centre)>,
    /// The centre of each volume, by index.
    of_volume: BTreeMap<VolumeId, usize>,
    sequence: u64,
    requests: u64,
    unproved: u64,
}

/// Place of a measured storage. Volumes of one place share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredPlace {
    /// Index of the storage.
    pub storage: usize,
    /// Name of what holds it: a volume that was probed alone, or a host, enclosure or site.
    pub name: String,
}

/// What one storage has under way.
#[derive(Default)]
struct Centre {
    kinds: Vec<(KindName, Kind)>,
    files: BTreeMap<(VolumeId, FileId), Touched>,
    /// Limits on reads and on writes.
    gates: [Gate; 2],
    under_way: usize,
    /// Reads among them.
    reads: usize,
    /// Between the last requests: nanoseconds times operations and times reads under way, nanoseconds with reads under
    /// way, and all nanoseconds.
    busy: Option<[f64; 4]>,
    /// The same since the last request.
    busy_now: [f64; 4],
    /// Share of reads, and mean size, of the last random operations.
    random: Option<[f64; 2]>,
    /// Share of sequential operations among the last.
    sequential: Option<[f64; 1]>,
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
        let reading_ns = if self.reads > 0 { ns } else { 0.0 };
        let now = [self.under_way as f64 * ns, self.reads as f64 * ns, reading_ns, ns];
        self.busy_now.iter_mut().zip(now).for_each(|(sum, now)| *sum += now);
        for (_, kind) in &mut self.kinds {
            kind.passed += ns / kind.latency_ns;
        }
    }

    /// What random reads are asked for, or all other operations, of the mean size.
    fn place(&self, storage: &MeasuredStorage, is_random_read: bool) -> Place {
        let [reads, mean_bytes] = self.random.unwrap_or([0.5, 4096.0]);
        let [sequential] = self.sequential.unwrap_or([1.0]);
        let place =
            Place { bytes: mean_bytes, mean_bytes, under_way: self.under_way as f64, reads, sequential };
        if !is_random_read {
            return place;
        }
        let [busy_ns, reads_ns, reading_ns, ns] = self.busy.unwrap_or([1.0; 4]);
        let busy = (busy_ns / ns.max(1.0)).min(1.0);
        let reads_under_way = reads_ns / reading_ns.max(1.0);
        // A loop of one never pauses. Where there are pauses, there are fewer writes than in the loop.
        let reads = 1.0 - (1.0 - reads) * busy;
        Place { under_way: storage.load_of_reads(&place, reads_under_way), reads, ..place }
    }

    /// Gives everything under way the pace of the present load.
    fn pace(&mut self, storage: &MeasuredStorage) {
        self.kinds.retain(|(_, kind)| !kind.due.is_empty());
        let [others, reads] = [false, true].map(|is_random_read| self.place(storage, is_random_read));
        for ((op, is_sequential, bytes), kind) in &mut self.kinds {
            let of_kind = |place| Place { bytes: *bytes as f64, ..place };
            let ms = match op {
                StorageOp::Read if !*is_sequential => storage.latency_ms(true, false, &of_kind(reads)),
                StorageOp::Sync => storage.sync_ms(&of_kind(others)),
                op => storage.latency_ms(*op == StorageOp::Read, *is_sequential, &of_kind(others)),
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
        mixed(&mut self.busy, std::mem::take(&mut self.busy_now));
        if request.op == StorageOp::Sync {
            return ((StorageOp::Sync, true, file.written), storage.has_syncs());
        }
        let is_read = request.op == StorageOp::Read;
        if is_read {
            self.reads += 1;
        }
        let is_sequential = file.by(request.op, request.offset, request.bytes);
        let one = |is: bool| if is { 1.0 } else { 0.0 };
        mixed(&mut self.sequential, [one(is_sequential)]);
        if !is_sequential {
            mixed(&mut self.random, [one(is_read), request.bytes as f64]);
        }
        let place = Place { bytes: request.bytes as f64, ..self.place(storage, is_read && !is_sequential) };
        let is_proved = storage.is_proved(is_read, is_sequential, &place);
        ((request.op, is_sequential, request.bytes), is_proved)
    }
}

/// Lets one more value count in a running mean.
fn mixed<const N: usize>(mean: &mut Option<[f64; N]>, now: [f64; N]) {
    let before = mean.unwrap_or(now);
    *mean = Some(std::array::from_fn(|index| before[index] + (now[index] - before[index]) * MIXED));
}

impl SharedMeasured {
    /// Storages as measured, with the place of each volume by host and path. A volume that has none lies on the first
    /// storage, of its host.
    pub fn new(
        storages: Vec<MeasuredStorage>,
        seed: u64,
        places: BTreeMap<(String, String), MeasuredPlace>,
    ) -> SharedMeasured {
        SharedMeasured(Rc::new(RefCell::new(Centres {
            storages,
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
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        let Centres { places, centres, of_volume, .. } = &mut *self.0.borrow_mut();
        let own = || MeasuredPlace { storage: 0, name: host.to_owned() };
        let place = places.get(&(host.to_owned(), path.to_owned())).cloned().unwrap_or_else(own);
        let known = centres.iter().position(|(known, _)| *known == place);
        let index = known.unwrap_or_else(|| {
            centres.push((place, Centre::default()));
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
        let all = &mut *self.0.borrow_mut();
        let index = all.of_volume[&request.volume];
        let (place, centre) = &mut all.centres[index];
        let passed = match all.storages[place.storage].throttle(request.op) {
            Some((side, throttle)) => centre.gates[side].submit(throttle, now, request),
            None => Some(request),
        };
        if let Some(request) = passed {
            all.enter(index, now, &request);
        }
    }

    fn next_completion(&self) -> Option<Time> {
        let centres = self.0.borrow();
        let next = |(place, centre): &(MeasuredPlace, Centre)| {
            let completed = centre.kinds.iter().filter_map(|(_, kind)| kind.next(centre.since));
            let open = throttles(&centres.storages[place.storage])
                .filter_map(|(side, throttle)| centre.gates[side].opens(throttle));
            completed.chain(open).min()
        };
        centres.centres.iter().filter_map(next).min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        let all = &mut *self.0.borrow_mut();
        for index in 0..all.centres.len() {
            all.release(index, now);
            let (place, centre) = &mut all.centres[index];
            let (mut ended, mut reads) = (0, 0);
            for ((op, ..), kind) in &mut centre.kinds {
                while kind.next(centre.since).is_some_and(|at| at <= now) {
                    completed.extend(kind.due.pop_first().map(|(_, id)| id));
                    ended += 1;
                    reads += usize::from(*op == StorageOp::Read);
                }
            }
            if ended > 0 {
                centre.pass(now);
                centre.under_way -= ended;
                centre.reads -= reads;
                centre.pace(&all.storages[place.storage]);
            }
        }
    }
}

impl Centres {
    /// Lets requests that waited for a limit pass.
    fn release(&mut self, index: usize, now: Time) {
        let (place, centre) = &mut self.centres[index];
        let mut passed = Vec::new();
        for (side, throttle) in throttles(&self.storages[place.storage]) {
            passed.extend(std::iter::from_fn(|| centre.gates[side].release(throttle, now)));
        }
        passed.iter().for_each(|request| self.enter(index, now, request));
    }

    /// Puts a request under way.
    fn enter(&mut self, index: usize, now: Time, request: &StorageRequest) {
        let Centres { storages, seed, centres, sequence, requests, unproved, .. } = self;
        let (place, centre) = &mut centres[index];
        let storage = &storages[place.storage];
        *sequence += 1;
        centre.pass(now);
        let (name, is_proved) = centre.take(storage, request);
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
}

/// Limits of a storage with the number of their gate.
fn throttles(storage: &MeasuredStorage) -> impl Iterator<Item = (usize, &Throttle)> {
    [StorageOp::Read, StorageOp::Write].into_iter().filter_map(|op| storage.throttle(op))
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
        let mut model = SharedMeasured::new(vec![storage], 7, BTreeMap::new());
        model.attach(VolumeId(1), "h", "/v");
        let request = |id: u64, op| {
            let place = if is_sequential { id } else { mix(id) % 1_000_000 };
            let bytes = if op == StorageOp::Sync { 0 } else { bytes };
            let (volume, file) = (VolumeId(1), FileId(1));
            StorageRequest { id: RequestId(id), lane: None, volume, file, op, offset: place * bytes, bytes }
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
    fn reads_do_not_wait_for_a_burst_of_writes_and_a_log_is_not_in_the_mix() {
        let mut model = SharedMeasured::new(vec![storage()], 7, BTreeMap::new());
        model.attach(VolumeId(1), "h", "/v");
        let request = |id: u64, op, file, offset| {
            let (volume, bytes) = (VolumeId(1), 4096);
            StorageRequest { id: RequestId(id), lane: None, volume, file: FileId(file), op, offset, bytes }
        };
        let (mut now, mut read_ns, mut done) = (Time::default(), 0, Vec::new());
        for round in 0..1000 {
            let first = round * 20;
            let begun = now;
            model.submit(now, request(first, StorageOp::Read, 1, mix(first) % 1_000_000 * 4096));
            for id in first + 1..first + 8 {
                model.submit(now, request(id, StorageOp::Write, 1, mix(id) % 1_000_000 * 4096));
            }
            for id in first + 8..first + 20 {
                model.submit(now, request(id, StorageOp::Write, 2, id * 4096));
            }
            while let Some(at) = model.next_completion() {
                now = at;
                model.take_completions(at, &mut done);
                read_ns += done.drain(..).filter(|id| id.0 == first).count() as u64 * (at.ns - begun.ns);
            }
        }
        let mean_ms = read_ns as f64 / 1e9;
        assert!((mean_ms - 1.0).abs() < 0.05, "{mean_ms} ms: a read alone takes 1 ms");
        let reads = model.0.borrow().centres[0].1.random.map_or(0.0, |[reads, _]| reads);
        assert!((reads - 1.0 / 8.0).abs() < 0.1, "{reads}");
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
    fn hosts_that_share_a_place_share_its_storage_and_a_volume_that_was_probed_alone_has_its_own() {
        let fast = MeasuredStorage { read_ms: vec![0.1; 8], ..storage() };
        let places = [("a", "/v", 0, "x"), ("b", "/v", 0, "x"), ("a", "/log", 1, "a LOG")];
        let places = places.map(|(host, path, storage, name)| {
            ((host.to_owned(), path.to_owned()), MeasuredPlace { storage, name: name.to_owned() })
        });
        let mut model = SharedMeasured::new(vec![storage(), fast], 7, places.into_iter().collect());
        for (volume, host, path) in [(1, "a", "/v"), (2, "b", "/v"), (3, "c", "/v"), (4, "a", "/log")] {
            model.attach(VolumeId(volume), host, path);
        }
        let of = |model: &SharedMeasured, volume| model.0.borrow().of_volume[&VolumeId(volume)];
        assert!(of(&model, 1) == of(&model, 2) && of(&model, 1) != of(&model, 3));
        for (volume, wanted_ms) in [(1, 1.0), (4, 0.1)] {
            let (id, volume, file) = (RequestId(1), VolumeId(volume), FileId(1));
            let read =
                StorageRequest { id, lane: None, volume, file, op: StorageOp::Read, offset: 0, bytes: 4096 };
            model.submit(Time::default(), read);
            let ms = model.next_completion().expect("it ends").ns as f64 / 1e6;
            assert!((0.4..3.0).contains(&(ms / wanted_ms)), "{volume:?}: {ms} ms");
        }
    }
}
