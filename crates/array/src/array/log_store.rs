//! A log-structured store: write memory, inline compression, large writes to a group, flash and memory read caches.
//!
//! * A write is acknowledged when the write memory has it (room for it permitting). Compressed data gather into
//!   segments; a segment goes to the group in whole rows, and to the flash cache.
//! * A read is served from memory (exact LRU over blocks), from flash, or from the group. The flash holds whole
//!   segments: what a cache of its size comes to hold of each region under the reads that memory leaves
//!   (`residency`).
//! * Data of the start lie in the order of their addresses, compressed; the log goes on behind them. When it
//!   has come to the end of the group, segments are cleaned: to win one, u/(1-u) segments of live data are read
//!   and written, u being the share of the group in use (Rosenblum and Ousterhout, "The design and
//!   implementation of a log-structured file system", 1992).
//!
//! Left out: where a rewritten block lies (it is read from its first place), snapshots' hold on old blocks, the index
//! and its reads, checksum time, writes that fill the flash cache, compression that differs from block to block.

use std::collections::VecDeque;

use super::{Array, JobId, Kind};
use crate::hardware::{LogStore, Target};
use crate::lru::Lru;
use crate::mix;
use crate::residency::Residency;

pub(super) struct LogStoreState {
    memory: Lru,
    /// Writes of all controllers that wait for room in the store. While one waits, a segment is being written.
    pub waiting: VecDeque<JobId>,
    /// Written bytes in the write memory.
    held_bytes: u64,
    held_max_bytes: u64,
    /// Bytes in the open segment, before and after compression.
    open_written_bytes: u64,
    open_stored_bytes: u64,
    segment_bytes: u64,
    log_at: u64,
    log_wrapped: bool,
    flash_at: u64,
    /// Residency of the volumes' blocks on flash.
    residency: Residency,
    used_share: f64,
    cleaning_owed: f64,
    pub hits: u64,
    pub misses: u64,
}

impl LogStoreState {
    pub fn new(
        store: &LogStore,
        group_bytes: u64,
        row_bytes: u64,
        volume_bytes: u64,
        flash_bytes: u64,
        held_max_bytes: u64,
    ) -> LogStoreState {
        let stored = store.resident_bytes as f64 * store.stored_per_written;
        let share = if stored > 0.0 { (flash_bytes as f64 / stored).min(1.0) } else { 1.0 };
        let log_at = (stored as u64).min(group_bytes) / row_bytes * row_bytes;
        LogStoreState {
            memory: Lru::new(store.ram_cache_bytes / store.block_bytes),
            waiting: VecDeque::new(),
            held_bytes: 0,
            held_max_bytes,
            open_written_bytes: 0,
            open_stored_bytes: 0,
            segment_bytes: store.segment_bytes.next_multiple_of(row_bytes),
            log_at,
            log_wrapped: false,
            flash_at: 0,
            residency: Residency::new(volume_bytes, store.cache_regions, store.segment_bytes, share),
            used_share: (stored / group_bytes as f64).min(0.95),
            cleaning_owed: 0.0,
            hits: 0,
            misses: 0,
        }
    }

    pub fn memory(&mut self) -> &mut Lru {
        &mut self.memory
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.held_bytes == 0 || self.held_bytes + bytes <= self.held_max_bytes
    }
}

impl Array {
    pub(super) fn read_log_store(&mut self, id: JobId, volume: usize, store: usize) {
        self.read_with_streams(id, volume, |array, job, start, bytes, _| {
            array.read_log_pieces(job, volume, store, start, bytes);
        });
    }

    /// Reads a range of a volume from memory, flash or group; the job waits for it.
    fn read_log_pieces(&mut self, id: JobId, volume: usize, store: usize, start: u64, bytes: u64) {
        let settings = &self.hardware.log_stores[store];
        let (block_bytes, stored) = (settings.block_bytes, settings.stored_per_written);
        let segment_bytes = settings.segment_bytes;
        let (group, flash) = (settings.group, settings.flash.clone());
        let base = self.volumes[volume].store_base;
        let (first, last) = ((base + start) / block_bytes, (base + start + bytes - 1) / block_bytes);
        let mut run: Option<(u64, u64)> = None;
        for block in first..=last + 1 {
            let state = &mut self.log_stores[store];
            let hit = block > last || state.memory.touch(block);
            if block <= last {
                if hit {
                    state.hits += 1;
                } else {
                    state.misses += 1;
                    state.memory.insert(block);
                }
            }
            // A run of missing blocks ends at a hit and at a segment's end: where it lies is decided by segment.
            let starts_segment = block * block_bytes % segment_bytes < block_bytes;
            if let Some((from, count)) = run
                && (hit || starts_segment)
            {
                let at = from * block_bytes;
                let length = ((count * block_bytes) as f64 * stored) as u64;
                let length = length.max(1).next_multiple_of(4096);
                let segment = at / segment_bytes;
                let place = mix(segment ^ self.seed);
                let residency = &mut self.log_stores[store].residency;
                residency.count_read(at, count * block_bytes);
                if !flash.is_empty() && residency.holds(segment * segment_bytes, place) {
                    let drive = flash[(place % flash.len() as u64) as usize];
                    let room = self.drives[drive].capacity_bytes() - length;
                    let byte = (at as f64 * stored) as u64 % room / 4096 * 4096;
                    self.issue(id, &[(drive, byte, length)], false);
                } else {
                    let room = self.groups[group].capacity_bytes - length;
                    let byte = (at as f64 * stored) as u64 % room / 4096 * 4096;
                    self.read_drives(id, group, byte, length, None);
                }
                run = None;
            }
            if !hit {
                run = Some(run.map_or((block, 1), |(from, count)| (from, count + 1)));
            }
        }
        if self.log_stores[store].residency.is_due() {
            let data_bytes = self.data_bytes(|target| *target == Target::LogStore { store });
            self.log_stores[store].residency.settle(data_bytes);
        }
    }

    pub(super) fn write_log_store(&mut self, id: JobId, controller: usize, store: usize) {
        let bytes = self.job(id).bytes;
        let state = &mut self.log_stores[store];
        if state.waiting.is_empty() && state.has_room(bytes) {
            self.admit_to_log(id, store);
        } else {
            state.waiting.push_back(id);
            self.controllers[controller].waits += 1;
            self.admit_waiting(store);
        }
    }

    fn admit_to_log(&mut self, id: JobId, store: usize) {
        let (controller, volume) = (self.job(id).controller as usize, self.job(id).volume as usize);
        let base = self.volumes[volume].store_base;
        let settings = &self.hardware.log_stores[store];
        let (block_bytes, stored) = (settings.block_bytes, settings.stored_per_written);
        for (start, bytes) in self.job(id).pieces.clone() {
            let state = &mut self.log_stores[store];
            for block in (base + start) / block_bytes..=(base + start + bytes - 1) / block_bytes {
                state.memory.insert(block);
            }
            state.held_bytes += bytes;
            state.open_written_bytes += bytes;
            state.open_stored_bytes += (bytes as f64 * stored) as u64;
            let held_bytes = state.held_bytes;
            let most = &mut self.controllers[controller].dirty_max_bytes;
            *most = (*most).max(held_bytes);
        }
        self.acknowledge(id, controller, volume);
        if self.log_stores[store].open_stored_bytes >= self.log_stores[store].segment_bytes {
            self.write_segment(store);
        }
    }

    fn write_segment(&mut self, store: usize) {
        let (group, flash) =
            (self.hardware.log_stores[store].group, self.hardware.log_stores[store].flash.clone());
        let capacity = self.groups[group].capacity_bytes;
        let state = &mut self.log_stores[store];
        let (written, length) = (state.open_written_bytes, state.segment_bytes);
        (state.open_written_bytes, state.open_stored_bytes) = (0, 0);
        if state.log_at + length > capacity {
            state.log_at = 0;
            state.log_wrapped = true;
        }
        let log_at = state.log_at;
        state.log_at += length;
        if state.log_wrapped {
            state.cleaning_owed += length as f64 * state.used_share / (1.0 - state.used_share);
        }
        let flash_at = state.flash_at;
        state.flash_at += length;
        let id = self.new_job(Kind::Segment { store: store as u32, written });
        self.job(id).bytes = length;
        self.job(id).remaining = 1;
        self.write_drives(id, group, log_at, length);
        if !flash.is_empty() {
            let drive = flash[(flash_at / length % flash.len() as u64) as usize];
            let room = self.drives[drive].capacity_bytes() - length;
            self.issue(id, &[(drive, flash_at % room / 4096 * 4096, length)], true);
        }
        self.part_done(id);
        self.clean(store, group, length, capacity);
    }

    /// Reads live data of old segments and writes them again, as far as cleaning is due.
    fn clean(&mut self, store: usize, group: usize, length: u64, capacity: u64) {
        while self.log_stores[store].cleaning_owed >= length as f64 {
            let state = &mut self.log_stores[store];
            state.cleaning_owed -= length as f64;
            let from = mix(state.log_at) % (capacity / length) * length;
            if state.log_at + length > capacity {
                state.log_at = 0;
            }
            let to = state.log_at;
            state.log_at += length;
            let id = self.new_job(Kind::Background);
            self.job(id).bytes = length;
            self.job(id).remaining = 1;
            self.read_drives(id, group, from, length, None);
            if let Ok((_, writes)) = self.groups[group].plan_write(to, length) {
                self.job(id).then_write = writes;
            }
            self.part_done(id);
        }
    }

    /// Handles a written segment, which makes room for waiting writes.
    pub(super) fn segment_written(&mut self, store: usize, written: u64) {
        self.log_stores[store].held_bytes -= written;
        self.admit_waiting(store);
    }

    /// Admits waiting writes in order, as far as there is room.
    fn admit_waiting(&mut self, store: usize) {
        while let Some(id) = self.log_stores[store].waiting.front().copied() {
            let bytes = self.job(id).bytes;
            let state = &mut self.log_stores[store];
            if !state.has_room(bytes) {
                // A memory that is full before a segment is: nothing would come of waiting for the rest of it.
                if state.held_bytes == state.open_written_bytes {
                    self.write_segment(store);
                }
                return;
            }
            state.waiting.pop_front();
            self.admit_to_log(id, store);
        }
    }
}
