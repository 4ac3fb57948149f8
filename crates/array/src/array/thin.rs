//! Thin pools: volumes take chunks of a group when they are first written, and snapshots redirect what is written after them.
//!
//! * A chunk is taken at the first write to it, the next one that was never used, else one that came free. So volumes that
//!   grow side by side lie interleaved. Files that were made before the simulation have taken theirs in the order of the files.
//! * Taking chunks writes 4 KiB of the table of chunks, at the begin of the group, with the data that took them.
//! * What has no chunk reads as zeros, without a drive.
//! * A pool that is full refuses writes that need a chunk: the volume is out of space in the middle of a file.
//! * A snapshot holds all chunks as they are. The first write to a chunk after it takes a new one (redirect-on-write), into
//!   which the rest of the old one is copied if the write does not cover it. A chunk comes free when the last snapshot that
//!   holds it has gone. The chunk is the grain: 64 KiB in StorTrends iTX ("StorTrends 1300 User's Guide", iTX 2.7), which
//!   redirects in this way and copies the rest of partly written chunks.
//!
//! Left out: room given back by removed files, reads of the table (it is in memory), thresholds and warnings, reading from a
//! snapshot, data of the cache that are newer than a snapshot but not destaged yet (they go to the place they were written to).

use std::collections::BTreeMap;

use super::{Array, Happening, JobId, Kind};
use crate::hardware::{Snapshots, Target, ThinPool};
use crate::space::{Piece, Pieces};

/// Of the table of chunks, for one chunk: decides only which block of it a write touches.
const ENTRY_BYTES: u64 = 16;
const TABLE_BLOCK_BYTES: u64 = 4096;

/// Chunks of a volume that lie one behind the other: place of the first, how many, and the snapshots taken before.
#[derive(Debug, Clone, Copy)]
struct Run {
    place: u64,
    count: u64,
    born: u32,
}

/// Where the chunks of a volume are, by number of the first chunk of each run.
#[derive(Default)]
pub(super) struct ThinMap {
    runs: BTreeMap<u64, Run>,
}

impl ThinMap {
    /// Place and age of a chunk, and how many from it on are of its run.
    fn find(&self, chunk: u64) -> Option<Run> {
        let (first, run) = self.runs.range(..=chunk).next_back()?;
        let into = chunk - first;
        (into < run.count).then(|| Run { place: run.place + into, count: run.count - into, ..*run })
    }

    /// Puts a chunk at a place, whatever was there before.
    fn put(&mut self, chunk: u64, place: u64, born: u32) {
        if let Some((first, run)) = self.runs.range(..=chunk).next_back().map(|(first, run)| (*first, *run)) {
            let into = chunk - first;
            if into == run.count && place == run.place + into && born == run.born {
                self.runs.insert(first, Run { count: run.count + 1, ..run });
                return;
            }
            if into < run.count {
                self.runs.remove(&first);
                let behind = Run { place: run.place + into + 1, count: run.count - into - 1, ..run };
                for (at, part) in [(first, Run { count: into, ..run }), (chunk + 1, behind)] {
                    if part.count > 0 {
                        self.runs.insert(at, part);
                    }
                }
            }
        }
        self.runs.insert(chunk, Run { place, count: 1, born });
    }
}

/// A chunk that only snapshots hold.
struct Held {
    place: u64,
    /// Snapshots taken when the volume left it: it is in those up to this one.
    gone: u32,
}

pub(super) struct ThinState {
    chunk_bytes: u64,
    first_byte: u64,
    chunks: u64,
    /// Chunks that have never been used begin here.
    next: u64,
    free: Vec<u64>,
    held: Vec<Held>,
    /// Snapshots ever taken, and of them those that are gone.
    taken: u32,
    expired: u32,
    pub refused: u64,
}

/// Refuses numbers that make no pool.
pub(super) fn check(pool: &ThinPool) -> Result<(), String> {
    if pool.chunk_bytes < TABLE_BLOCK_BYTES || !pool.chunk_bytes.is_multiple_of(TABLE_BLOCK_BYTES) {
        return Err("a chunk must be a multiple of 4096 bytes".into());
    }
    match &pool.snapshots {
        Some(Snapshots { every_s, keep }) if every_s.is_nan() || *every_s < 1.0 || *keep == 0 => {
            Err("snapshots are taken every second at most, and one at least is kept".into())
        }
        _ => Ok(()),
    }
}

impl ThinState {
    pub fn new(pool: &ThinPool, group_bytes: u64, row_bytes: u64) -> Option<ThinState> {
        let table_bytes = group_bytes / pool.chunk_bytes * ENTRY_BYTES;
        let first_byte = table_bytes.next_multiple_of(row_bytes.max(TABLE_BLOCK_BYTES));
        let chunks = group_bytes.checked_sub(first_byte)? / pool.chunk_bytes;
        (chunks > 0).then(|| ThinState {
            chunk_bytes: pool.chunk_bytes,
            first_byte,
            chunks,
            next: 0,
            free: Vec::new(),
            held: Vec::new(),
            taken: 0,
            expired: 0,
            refused: 0,
        })
    }

    /// End of the room that has ever been used.
    pub fn high_water(&self) -> u64 {
        self.first_byte + self.next * self.chunk_bytes
    }

    fn take(&mut self) -> Option<u64> {
        if self.next < self.chunks {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.free.pop()
    }

    fn byte(&self, place: u64) -> u64 {
        self.first_byte + place * self.chunk_bytes
    }

    /// Whether a snapshot that is kept holds chunks of this age.
    fn is_held(&self, born: u32) -> bool {
        self.taken > born.max(self.expired)
    }
}

impl Array {
    pub(super) fn begin_snapshots(&mut self) {
        for pool in 0..self.hardware.thin_pools.len() {
            self.plan_snapshot(pool);
        }
    }

    fn plan_snapshot(&mut self, pool: usize) {
        if let Some(snapshots) = self.hardware.thin_pools[pool].snapshots {
            let at_ns = self.now_ns + (snapshots.every_s * 1e9) as u64;
            self.at(at_ns, Happening::Snapshot(pool as u32));
        }
    }

    /// All chunks are held as they are; what only the oldest snapshot held comes free.
    pub(super) fn take_snapshot(&mut self, pool: usize) {
        let keep = self.hardware.thin_pools[pool].snapshots.map_or(0, |snapshots| snapshots.keep);
        let state = &mut self.thin_pools[pool];
        state.taken += 1;
        state.expired = state.taken.saturating_sub(keep);
        let expired = state.expired;
        let free = &mut state.free;
        state.held.retain(|held| {
            let is_gone = held.gone <= expired;
            if is_gone {
                free.push(held.place);
            }
            !is_gone
        });
        self.plan_snapshot(pool);
    }

    /// A file that was made before takes its chunks in its order, without a write.
    pub(super) fn fill_chunks(&mut self, volume: usize, file: u64) {
        let Target::Thin { pool } = self.volumes[volume].placement.target else { return };
        let (state, volume) = (&mut self.thin_pools[pool], &mut self.volumes[volume]);
        for (start, bytes) in volume.space.extents_of(file) {
            for chunk in start / state.chunk_bytes..=(start + bytes - 1) / state.chunk_bytes {
                if volume.thin.find(chunk).is_none()
                    && let Some(place) = state.take()
                {
                    volume.thin.put(chunk, place, state.taken);
                }
            }
        }
    }

    /// Where a range of a volume lies; what has no chunk is left out.
    fn chunk_places(&self, volume: usize, pool: usize, (start, bytes): Piece) -> Pieces {
        let state = &self.thin_pools[pool];
        let (mut places, mut at, end) = (Pieces::new(), start, start + bytes);
        while at < end {
            let into = at % state.chunk_bytes;
            match self.volumes[volume].thin.find(at / state.chunk_bytes) {
                Some(run) => {
                    let take = (run.count * state.chunk_bytes - into).min(end - at);
                    places.push((state.byte(run.place) + into, take));
                    at += take;
                }
                None => at += (state.chunk_bytes - into).min(end - at),
            }
        }
        places
    }

    pub(super) fn read_thin(&mut self, id: JobId, controller: usize, volume: usize, pool: usize) {
        let group = self.hardware.thin_pools[pool].group;
        let pieces = self.job(id).pieces.clone();
        let mut places = pieces.iter().flat_map(|piece| self.chunk_places(volume, pool, *piece));
        let state = &self.controllers[controller];
        let is_cached = state.cache.as_ref().is_some_and(|cache| {
            places.all(|(start, bytes)| cache.holds(group as u32, start, start + bytes))
        });
        if is_cached {
            self.controllers[controller].hits += 1;
            self.served(id);
            return;
        }
        self.read_with_streams(id, volume, |array, job, start, bytes, pin| {
            array.read_chunks(job, volume, pool, (start, bytes), pin);
        });
    }

    /// Reads a range of a volume for a job, which waits for it.
    pub(super) fn read_chunks(
        &mut self,
        id: JobId,
        volume: usize,
        pool: usize,
        range: Piece,
        pin: Option<u64>,
    ) {
        let group = self.hardware.thin_pools[pool].group;
        for (start, bytes) in self.chunk_places(volume, pool, range) {
            self.read_cached(id, group, start, bytes, pin);
        }
    }

    pub(super) fn write_thin(&mut self, id: JobId, controller: usize, volume: usize, pool: usize) {
        if !self.job(id).is_placed {
            let pieces = self.job(id).pieces.clone();
            let Some(places) = self.take_chunks(volume, pool, &pieces) else {
                self.thin_pools[pool].refused += 1;
                self.job(id).no_room = true;
                self.served(id);
                return;
            };
            self.job(id).pieces = places;
            self.job(id).is_placed = true;
        }
        self.write_group(id, controller, self.hardware.thin_pools[pool].group);
    }

    /// Places for what is written, the table of chunks included; `None` if the pool is full.
    fn take_chunks(&mut self, volume: usize, pool: usize, pieces: &Pieces) -> Option<Pieces> {
        let mut table_block = None;
        let mut places = Pieces::new();
        for (start, bytes) in pieces {
            let (mut at, end) = (*start, start + bytes);
            while at < end {
                let state = &mut self.thin_pools[pool];
                let chunk_bytes = state.chunk_bytes;
                let (chunk, into) = (at / chunk_bytes, at % chunk_bytes);
                let take = (chunk_bytes - into).min(end - at);
                let known = self.volumes[volume].thin.find(chunk);
                let place = match known {
                    Some(run) if !state.is_held(run.born) => run.place,
                    _ => {
                        let place = state.take()?;
                        self.volumes[volume].thin.put(chunk, place, state.taken);
                        table_block = Some(place * ENTRY_BYTES / TABLE_BLOCK_BYTES * TABLE_BLOCK_BYTES);
                        if let Some(old) = known {
                            state.held.push(Held { place: old.place, gone: state.taken });
                            self.copy_rest(pool, old.place, place, into, into + take);
                        }
                        place
                    }
                };
                let byte = self.thin_pools[pool].byte(place) + into;
                match places.last_mut() {
                    Some((last, length)) if *last + *length == byte => *length += take,
                    _ => places.push((byte, take)),
                }
                at += take;
            }
        }
        places.extend(table_block.map(|block| (block, TABLE_BLOCK_BYTES)));
        Some(places)
    }

    /// Copies what a write does not cover of a chunk to its new place, in the background.
    fn copy_rest(&mut self, pool: usize, from: u64, to: u64, written_from: u64, written_to: u64) {
        let (group, state) = (self.hardware.thin_pools[pool].group, &self.thin_pools[pool]);
        let (from_byte, to_byte) = (state.byte(from), state.byte(to));
        for (start, end) in [(0, written_from), (written_to, state.chunk_bytes)] {
            if start == end {
                continue;
            }
            let id = self.new_job(Kind::Background);
            self.job(id).remaining = 1;
            self.read_drives(id, group, from_byte + start, end - start, None);
            self.copy_to(id, group, to_byte + start, end - start);
            self.part_done(id);
        }
    }

    /// How full a pool is, in words.
    pub(super) fn thin_state(&self, pool: usize) -> String {
        let state = &self.thin_pools[pool];
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let is_of_pool = |target| matches!(target, Target::Thin { pool: of } if of == pool);
        let volumes = self.volumes.iter().filter(|volume| is_of_pool(volume.placement.target));
        let promised: u64 = volumes.map(|volume| volume.placement.bytes).sum();
        let in_use = (state.next - state.free.len() as u64) * state.chunk_bytes;
        let mut words = format!(
            "{:.1} of {:.1} GiB taken, {:.1} promised",
            gib(in_use),
            gib(state.chunks * state.chunk_bytes),
            gib(promised)
        );
        if state.taken > 0 {
            let held = gib(state.held.len() as u64 * state.chunk_bytes);
            words += &format!(", {held:.1} held by {} snapshots", state.taken - state.expired);
        }
        if state.refused > 0 {
            words += &format!(", full: {} writes refused", state.refused);
        }
        words
    }
}
