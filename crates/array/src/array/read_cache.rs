//! A flash cache for reads in front of groups.
//!
//! * A random read of a request that the controller's memory does not serve is looked up block by block. Blocks
//!   that the flash holds are read from there, the others from the group. Streams and their read-ahead pass by
//!   it, and so does background work.
//! * What the flash holds of each region of the groups is what a cache of its size comes to hold under these reads
//!   (`residency`). Which blocks of a region these are, and on which drive of the cache each lies, a hash says.
//! * Written data are on the group before anything else; of blocks that the flash holds, what is written goes
//!   there, too, in the background. So a lost drive of the cache loses no data: its blocks are read from the
//!   group.
//!
//! Left out: writes that fill the flash, blocks of a lost drive that come to the others, blocks that move with
//! the data of snapshots and are still held.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::{Array, JobId, Kind};
use crate::hardware::ReadCache;
use crate::mix;
use crate::residency::Residency;
use crate::space::{self, VolumeRange};

pub(super) struct ReadCacheState {
    residency: Residency,
    /// Lost drives of the cache.
    lost: BTreeSet<usize>,
    /// Number of reads that flash served alone, and of other lookups.
    pub hits: u64,
    pub misses: u64,
}

impl ReadCacheState {
    pub fn new(cache: &ReadCache, space_bytes: u64, flash_bytes: u64) -> ReadCacheState {
        let share = if cache.resident_bytes > 0 {
            (flash_bytes as f64 / cache.resident_bytes as f64).min(1.0)
        } else {
            1.0
        };
        ReadCacheState {
            residency: Residency::new(space_bytes, cache.regions, cache.block_bytes, share),
            lost: BTreeSet::new(),
            hits: 0,
            misses: 0,
        }
    }
}

pub(super) fn check(cache: &ReadCache) -> Result<(), String> {
    if cache.flash.is_empty() || cache.block_bytes < 4096 || cache.regions == 0 {
        return Err("needs flash drives, block_bytes (4096 at least) and regions".into());
    }
    Ok(())
}

/// Read cache in front of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFront {
    pub cache: usize,
    /// Offset of the group in the address space of the cache.
    pub base: u64,
}

/// Part of a range of a group: in the cache, or not.
struct CachedPart {
    /// Drive and offset of its block, if the cache holds it.
    flash: Option<(usize, u64)>,
    start: u64,
    bytes: u64,
}

impl Array {
    /// Divides a range of a group into blocks in the cache and the parts between them.
    fn parts_in(
        &self,
        InFront { cache, base }: InFront,
        start: u64,
        bytes: u64,
    ) -> SmallVec<[CachedPart; 2]> {
        let block_bytes = self.hardware.read_caches[cache].block_bytes;
        let mut parts = SmallVec::<[CachedPart; 2]>::new();
        for (at, bytes) in space::parts((base + start, bytes), block_bytes) {
            let flash = self.flash_place(cache, at);
            match parts.last_mut().filter(|last| last.flash.is_none() && flash.is_none()) {
                Some(last) => last.bytes += bytes,
                None => parts.push(CachedPart { flash, start: at - base, bytes }),
            }
        }
        parts
    }

    /// Place of a byte in the flash of the cache, if it holds that.
    fn flash_place(&self, cache: usize, at: u64) -> Option<(usize, u64)> {
        let (ReadCache { flash, block_bytes, .. }, state) =
            (&self.hardware.read_caches[cache], &self.read_caches[cache]);
        let block = at / block_bytes;
        let hash = mix(block ^ self.seed);
        let drive = flash[(hash % flash.len() as u64) as usize];
        if !state.residency.holds(block * block_bytes, hash) || state.lost.contains(&drive) {
            return None;
        }
        let room = self.drives[drive].capacity_bytes() / block_bytes;
        Some((drive, block % room.max(1) * block_bytes + at % block_bytes))
    }

    /// Reads a range of a group for a waiting job, from the cache what it holds.
    #[inline]
    pub(super) fn read_cached(&mut self, id: JobId, group: usize, start: u64, bytes: u64, pin: Option<u64>) {
        let is_random = pin.is_none() && matches!(self.job(id).kind, Kind::Read);
        match self.in_front[group] {
            Some(in_front) if is_random => self.read_in_front(in_front, id, group, (start, bytes)),
            _ => self.read_drives(id, group, start, bytes, pin),
        }
    }

    fn read_in_front(&mut self, in_front: InFront, id: JobId, group: usize, (start, bytes): VolumeRange) {
        let parts = self.parts_in(in_front, start, bytes);
        let state = &mut self.read_caches[in_front.cache];
        if parts.iter().all(|part| part.flash.is_some()) {
            state.hits += 1;
        } else {
            state.misses += 1;
        }
        for CachedPart { flash, start, bytes } in parts {
            match flash {
                Some((drive, byte)) => self.issue_read(id, (drive, byte, bytes)),
                None => self.read_drives(id, group, start, bytes, None),
            }
        }
        self.read_caches[in_front.cache].residency.count_read(in_front.base + start, bytes);
        if self.read_caches[in_front.cache].residency.is_due() {
            let data_bytes = self.data_bytes(|target| {
                let group = self.hardware.group_of(*target);
                group.and_then(|group| self.in_front[group]).is_some_and(|on| on.cache == in_front.cache)
            });
            self.read_caches[in_front.cache].residency.settle(data_bytes);
        }
    }

    /// Rewrites the cached blocks of a range of a group that is written.
    pub(super) fn refresh_cached(&mut self, group: usize, start: u64, bytes: u64) {
        let Some(in_front) = self.in_front[group] else { return };
        for part in self.parts_in(in_front, start, bytes) {
            if let Some((drive, byte)) = part.flash {
                let id = self.new_job(Kind::Background);
                self.issue(id, &[(drive, byte, part.bytes)], true);
            }
        }
    }

    /// Handles a lost drive: if it belongs to a cache, its blocks are gone.
    pub(super) fn lose_cached(&mut self, drive: usize) {
        for (cache, state) in self.hardware.read_caches.iter().zip(&mut self.read_caches) {
            if cache.flash.contains(&drive) {
                state.lost.insert(drive);
            }
        }
    }

    /// State of a cache's drives for people.
    pub(super) fn read_cache_state(&self, cache: usize) -> String {
        let (lost, all) = (self.read_caches[cache].lost.len(), self.hardware.read_caches[cache].flash.len());
        if lost == 0 { String::new() } else { format!("{lost} of {all} drives lost") }
    }
}
