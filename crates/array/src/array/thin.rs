//! Thin pools: volumes take chunks of a group when they are first written, and snapshots redirect what is
//! written after them.
//!
//! * A chunk is taken at the first write to it, the next one that was never used, else one that came free. So
//!   volumes that grow side by side lie interleaved. Files that were made before the simulation have taken
//!   theirs in the order of the files.
//! * Taking chunks writes 4 KiB of the table of chunks, at the begin of the group, with the data that took them.
//! * What has no chunk reads as zeros, without a drive.
//! * A pool that is full refuses writes that need a chunk: the volume is out of space in the middle of a file.
//! * A snapshot holds all chunks as they are. The first write to a chunk after it takes a new one
//!   (redirect-on-write), into which the rest of the old one is copied if the write does not cover it. A chunk
//!   comes free when the last snapshot that holds it has gone. The chunk is the grain: 64 KiB in StorTrends iTX
//!   ("StorTrends 1300 User's Guide", iTX 2.7), which redirects in this way and copies the rest of partly
//!   written chunks. Clones (`clones`) hold chunks in the same way.
//!
//! Left out: room given back by removed files, reads of the table (it is in memory), thresholds and warnings,
//! reading from a snapshot, data of the cache that are newer than a snapshot but not destaged yet (they go to
//! the place they were written to).

use std::collections::{BTreeMap, VecDeque};

use super::clones::CloneState;
use super::{Array, Happening, JobId, Kind};
use crate::hardware::{Snapshots, Target, ThinPool};
use crate::space::{VolumeRange, VolumeRanges, parts};

/// Size of an entry in the table of chunks, bytes; it decides only which block of the table a write touches.
const ENTRY_BYTES: u64 = 16;
const TABLE_BLOCK_BYTES: u64 = 4096;

/// Run of a volume's adjacent chunks: place of the first, number, and the number of snapshots and clones taken before.
#[derive(Debug, Clone, Copy)]
struct ChunkRun {
    place: u64,
    count: u64,
    born: u32,
}

/// Map of a volume's chunks, by number of the first chunk of each run.
#[derive(Default)]
pub(super) struct ThinMap {
    runs: BTreeMap<u64, ChunkRun>,
}

impl ThinMap {
    /// Place and age of a chunk, and the number of chunks from it on in its run.
    fn find(&self, chunk: u64) -> Option<ChunkRun> {
        let (first, run) = self.runs.range(..=chunk).next_back()?;
        let into = chunk - first;
        (into < run.count).then(|| ChunkRun { place: run.place + into, count: run.count - into, ..*run })
    }

    /// Ranges (first byte, bytes) of all chunks, by address.
    pub(super) fn places(&self, pool: &ThinState) -> impl Iterator<Item = VolumeRange> {
        let of_run = |run: &ChunkRun| (pool.byte(run.place), run.count * pool.chunk_bytes);
        self.runs.values().map(of_run)
    }

    /// Sets the place of a chunk, replacing an earlier one.
    fn put(&mut self, chunk: u64, place: u64, born: u32) {
        if let Some((first, run)) = self.runs.range(..=chunk).next_back().map(|(first, run)| (*first, *run)) {
            let into = chunk - first;
            if into == run.count && place == run.place + into && born == run.born {
                self.runs.insert(first, ChunkRun { count: run.count + 1, ..run });
                return;
            }
            if into < run.count {
                self.runs.remove(&first);
                let behind = ChunkRun { place: run.place + into + 1, count: run.count - into - 1, ..run };
                for (at, part) in [(first, ChunkRun { count: into, ..run }), (chunk + 1, behind)] {
                    if part.count > 0 {
                        self.runs.insert(at, part);
                    }
                }
            }
        }
        self.runs.insert(chunk, ChunkRun { place, count: 1, born });
    }
}

/// Chunk that only snapshots and clones hold: those taken after it was written, up to the last one when its volume
/// left it.
struct Held {
    place: u64,
    born: u32,
    gone: u32,
}

pub(super) struct ThinState {
    chunk_bytes: u64,
    first_byte: u64,
    chunks: u64,
    /// First chunk that has never been used.
    next: u64,
    free: Vec<u64>,
    held: Vec<Held>,
    /// Number of snapshots and clones ever taken.
    taken: u32,
    /// Numbers of the kept snapshots, oldest first.
    snapshots: VecDeque<u32>,
    /// Clones, oldest first.
    pub clones: Vec<CloneState>,
    pub refused: u64,
}

/// Refuses values that make no pool.
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
            snapshots: VecDeque::new(),
            clones: Vec::new(),
            refused: 0,
        })
    }

    /// End of the part of the pool that has ever been used, bytes.
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

    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Counts a new snapshot or clone, which from now on shares all chunks. Returns its number.
    pub fn mark(&mut self) -> u32 {
        self.taken += 1;
        self.taken
    }

    /// Takes a snapshot of all chunks, and removes the oldest if there are too many.
    fn take_snapshot(&mut self, keep: usize) {
        let mark = self.mark();
        self.snapshots.push_back(mark);
        if self.snapshots.len() > keep {
            self.snapshots.pop_front();
        }
        self.release();
    }

    /// Numbers of the existing clones.
    fn alive_clones(&self) -> impl Iterator<Item = u32> {
        self.clones.iter().filter(|clone| clone.is_alive()).map(|clone| clone.mark)
    }

    /// Whether a kept snapshot or a clone shares the chunks that were written when `born` snapshots and clones had
    /// been taken. A write to a shared chunk must go to a new place.
    fn is_held(&self, born: u32) -> bool {
        self.snapshots.back().copied().max(self.alive_clones().last()) > Some(born)
    }

    /// Finds the place for a write to a chunk. Returns the place, whether it was newly allocated, and the old place
    /// that stays with snapshots and clones. `None` if the pool is full.
    fn place_to_write(&mut self, volume: &mut ThinMap, chunk: u64) -> Option<(u64, bool, Option<u64>)> {
        let known = volume.find(chunk);
        if let Some(run) = known.filter(|run| !self.is_held(run.born)) {
            return Some((run.place, false, None));
        }
        let place = self.take()?;
        volume.put(chunk, place, self.taken);
        if let Some(old) = known {
            self.leave(old.place, old.born);
        }
        Some((place, true, known.map(|old| old.place)))
    }

    /// Notes that a volume no longer uses a chunk that a snapshot or clone shares.
    fn leave(&mut self, place: u64, born: u32) {
        self.held.push(Held { place, born, gone: self.taken });
        let holders = self.clones.iter_mut().filter(|clone| clone.is_alive() && clone.mark > born);
        holders.for_each(|clone| clone.held_chunks += 1);
    }

    /// Frees the chunks that no snapshot or clone shares any more, after one was removed.
    pub fn release(&mut self) {
        let mut marks: Vec<u32> = self.snapshots.iter().copied().chain(self.alive_clones()).collect();
        marks.sort_unstable();
        let free = &mut self.free;
        self.held.retain(|held| {
            let next = marks.get(marks.partition_point(|mark| *mark <= held.born));
            let is_held = next.is_some_and(|mark| *mark <= held.gone);
            if !is_held {
                free.push(held.place);
            }
            is_held
        });
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

    /// Takes a snapshot; frees what only the removed oldest one held.
    pub(super) fn take_snapshot(&mut self, pool: usize) {
        let keep = self.hardware.thin_pools[pool].snapshots.map_or(0, |snapshots| snapshots.keep);
        let state = &mut self.thin_pools[pool];
        state.take_snapshot(keep as usize);
        self.plan_snapshot(pool);
    }

    /// Assigns chunks, in order, to a file whose contents no write made.
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

    /// Places of a range of a volume, without parts that have no chunk.
    fn chunk_places(&self, volume: usize, pool: usize, (start, bytes): VolumeRange) -> VolumeRanges {
        let state = &self.thin_pools[pool];
        let (mut places, mut at, end) = (VolumeRanges::new(), start, start + bytes);
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
        range: VolumeRange,
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

    /// Allocates the places of a write and of its entries in the table of chunks; `None` if the pool is full.
    fn take_chunks(&mut self, volume: usize, pool: usize, pieces: &VolumeRanges) -> Option<VolumeRanges> {
        let mut table_block = None;
        let mut places = VolumeRanges::new();
        let chunk_bytes = self.thin_pools[pool].chunk_bytes;
        for (at, take) in pieces.iter().flat_map(|piece| parts(*piece, chunk_bytes)) {
            let state = &mut self.thin_pools[pool];
            let (chunk, into) = (at / chunk_bytes, at % chunk_bytes);
            let (place, is_new, old) = state.place_to_write(&mut self.volumes[volume].thin, chunk)?;
            if is_new {
                table_block = Some(place * ENTRY_BYTES / TABLE_BLOCK_BYTES * TABLE_BLOCK_BYTES);
            }
            if let Some(old) = old {
                self.copy_rest(pool, old, place, into, into + take);
            }
            let byte = self.thin_pools[pool].byte(place) + into;
            match places.last_mut() {
                Some((last, length)) if *last + *length == byte => *length += take,
                _ => places.push((byte, take)),
            }
        }
        places.extend(table_block.map(|block| (block, TABLE_BLOCK_BYTES)));
        Some(places)
    }

    /// Copies the parts of a chunk that a write does not cover to its new place, in the background.
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

    /// State of a pool as text for users: how full it is.
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
        let snapshots = Some(state.snapshots.len()).filter(|count| *count > 0);
        let clones = Some(state.alive_clones().count()).filter(|count| *count > 0);
        let holders = [(snapshots, "snapshots"), (clones, "clones")];
        let holders = holders.iter().filter_map(|(count, what)| count.map(|count| format!("{count} {what}")));
        let holders: Vec<String> = holders.collect();
        if !holders.is_empty() {
            let held = gib(state.held.len() as u64 * state.chunk_bytes);
            words += &format!(", {held:.1} held by {}", holders.join(" and "));
        }
        if state.refused > 0 {
            words += &format!(", full: {} writes refused", state.refused);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64),
        Snapshot,
        Clone,
        CloneGoes,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            12 => (0u64..16).prop_map(Step::Write),
            3 => Just(Step::Snapshot),
            1 => Just(Step::Clone),
            1 => Just(Step::CloneGoes),
        ];
        proptest::collection::vec(step, 0..120)
    }

    /// Places of a volume's chunks.
    fn places(volume: &ThinMap) -> BTreeSet<u64> {
        volume.runs.values().flat_map(|run| run.place..run.place + run.count).collect()
    }

    proptest! {
        #[test]
        fn what_volume_snapshots_and_clones_hold_is_kept_and_nothing_else(steps in steps()) {
            const KEEP: usize = 3;
            let pool = ThinPool { name: "pool".into(), group: 0, chunk_bytes: 4096, snapshots: None };
            let mut state = ThinState::new(&pool, 4096 * 1024, 4096).expect("a pool");
            let mut volume = ThinMap::default();
            let mut by_hand = BTreeMap::new();
            let (mut snapshots, mut clones) = (VecDeque::new(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Write(chunk) => {
                        let (place, ..) = state.place_to_write(&mut volume, chunk).expect("room");
                        let others = snapshots.iter().chain(&clones);
                        prop_assert!(others.into_iter().all(|held: &BTreeSet<u64>| !held.contains(&place)));
                        by_hand.insert(chunk, place);
                    }
                    Step::Snapshot => {
                        state.take_snapshot(KEEP);
                        snapshots.push_back(places(&volume));
                        while snapshots.len() > KEEP {
                            snapshots.pop_front();
                        }
                    }
                    Step::Clone => {
                        let clone = CloneState::new(state.mark(), Vec::new(), 0.0, 0);
                        state.clones.push(clone);
                        clones.push_back(places(&volume));
                    }
                    Step::CloneGoes => {
                        if clones.pop_front().is_some() {
                            let oldest = state.clones.iter_mut().find(|clone| clone.is_alive());
                            oldest.expect("as many as there").goes(1);
                            state.release();
                        }
                    }
                }
                for chunk in 0..16 {
                    prop_assert_eq!(volume.find(chunk).map(|run| run.place), by_hand.get(&chunk).copied());
                }
                let all = snapshots.iter().chain(&clones).flatten().copied();
                let used: BTreeSet<u64> = all.chain(places(&volume)).collect();
                prop_assert_eq!(state.next - state.free.len() as u64, used.len() as u64);
                prop_assert_eq!(state.held.len(), used.len() - places(&volume).len());
            }
        }
    }
}
