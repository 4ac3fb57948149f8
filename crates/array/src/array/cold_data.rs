//! What a replicated store does with data that have not been written for some time (`coldness`): they are compressed.
//!
//! * A cold extent is read where its volume reads it, compressed on a core of that node, and written again on every node that
//!   holds it. This is a move like others, after all of those that have something to wait for it, at their rate.
//! * Compressed data need less room: so more extents fit on flash, and disks are filled less far in. A read of them reads
//!   less from its drive, and is decompressed on a core of the node that reads.
//! * A write to a compressed extent writes its part as it is.
//!
//! Left out: moves that a change of room makes, what a small write has to read of its compression unit, room that old
//! versions take until they are collected, data that do not compress alike.

use std::collections::VecDeque;

use super::extents::Move;
use super::replicated::BLOCK_BYTES;
use super::{Array, Happening, JobId, NO_DRIVE};
use crate::coldness::Coldness;
use crate::hardware::{ReplicatedStore, Target};
use crate::mix;

/// What cannot be of the settings of a store, if anything.
pub(super) fn check(store: &ReplicatedStore) -> Result<(), String> {
    let is_positive = |number: f64| number.is_finite() && number > 0.0;
    if let Some(compression) = store.compression {
        if !is_positive(compression.stored_per_written) || compression.stored_per_written > 1.0 {
            return Err("compression: stored_per_written lies above 0 and up to 1".into());
        }
        if !is_positive(compression.delay_s) || !is_positive(store.moves_mb_per_s) {
            return Err("compression needs a delay, and moves_mb_per_s above 0".into());
        }
        if !is_positive(store.compress_mb_per_s) || !is_positive(store.decompress_mb_per_s) {
            return Err("compress_mb_per_s and decompress_mb_per_s lie above 0".into());
        }
    }
    Ok(())
}

pub(super) struct ColdData {
    compressed: Option<Coldness>,
    to_compress: VecDeque<u64>,
    compressed_share: f64,
}

impl ColdData {
    pub fn new(store: &ReplicatedStore, volume_bytes: u64) -> ColdData {
        let jobs_per_s = store.moves_mb_per_s * 1e6 / store.extent_bytes as f64;
        let cold = |delay_s| {
            Coldness::new(volume_bytes, store.tier_regions, store.extent_bytes, delay_s, jobs_per_s)
        };
        ColdData {
            compressed: store.compression.map(|compression| cold(compression.delay_s)),
            to_compress: VecDeque::new(),
            compressed_share: 1.0,
        }
    }

    /// Room that data take, as a share of what they would take untreated.
    pub fn stored_share(&self, store: &ReplicatedStore) -> f64 {
        let saved = store.compression.map_or(0.0, |compression| 1.0 - compression.stored_per_written);
        1.0 - self.compressed_share * saved
    }

    /// What is treated, in words.
    pub fn words(&self) -> Option<String> {
        let share = self.compressed.as_ref().map(|_| self.compressed_share)?;
        Some(format!("{:.1} % of the data compressed", share * 100.0))
    }

    /// The extent that is to be treated next.
    pub fn next_move(&mut self) -> Option<Move> {
        self.to_compress.pop_front().map(|extent| Move::Compress { extent })
    }
}

impl Array {
    /// A write goes to its extent.
    pub(super) fn count_extent_write(&mut self, store: usize, at: u64) {
        let settings = &self.hardware.replicated_stores[store];
        let extent_bytes = settings.extent_bytes;
        let state = &mut self.replicated[store].cold_data;
        let Some(compressed) = &mut state.compressed else { return };
        if compressed.count_write(at) {
            // It will be cold again after the delay. Until then others come to be, like it: one of them now.
            state.to_compress.push_back(at / extent_bytes);
            self.begin_moves(store);
        }
        self.look_at_cold_data(store);
    }

    fn look_at_cold_data(&mut self, store: usize) {
        let state = &mut self.replicated[store].cold_data;
        if !state.compressed.as_mut().is_some_and(|compressed| compressed.look(self.now_ns)) {
            return;
        }
        let on_store = self.volumes.iter().filter(
            |volume| matches!(volume.placement.target, Target::ReplicatedStore { store: on, .. } if on == store),
        );
        let data: Vec<(u64, u64)> = on_store
            .map(|volume| (volume.store_base, volume.store_base + volume.space.high_water()))
            .collect();
        let settings = &self.hardware.replicated_stores[store];
        if let Some(compressed) = &state.compressed {
            state.compressed_share = compressed.shares(&data, settings.extent_bytes / BLOCK_BYTES).1;
        }
        let stored_share = state.stored_share(settings);
        self.replicated[store].extents.fill(stored_share);
    }

    /// Where in the place of its extent a range lies that a job reads, and how long it is there.
    pub(super) fn stored_range(&mut self, id: JobId, store: usize, at: u64, bytes: u64) -> (u64, u64) {
        let settings = &self.hardware.replicated_stores[store];
        let into = at % settings.extent_bytes;
        let parts = settings.extent_bytes / BLOCK_BYTES;
        let hash = mix((at / BLOCK_BYTES) ^ self.seed.rotate_left(32));
        let cold_data = &self.replicated[store].cold_data;
        let is_compressed =
            cold_data.compressed.as_ref().is_some_and(|compressed| compressed.is_treated(at, hash, parts));
        let Some(compression) = settings.compression.filter(|_| is_compressed) else { return (into, bytes) };
        let stored = |bytes: u64| (bytes as f64 * compression.stored_per_written) as u64;
        self.job(id).compressed_bytes += bytes;
        (stored(into) / 4096 * 4096, stored(bytes).max(1).next_multiple_of(4096))
    }

    /// When what a job has read is decompressed.
    pub(super) fn decompress(&mut self, id: JobId) -> u64 {
        let bytes = std::mem::take(&mut self.job(id).compressed_bytes);
        let volume = self.job(id).volume as usize;
        match self.volumes[volume].placement.target {
            Target::ReplicatedStore { store, node } if bytes > 0 => {
                let mb_per_s = self.hardware.replicated_stores[store].decompress_mb_per_s;
                self.use_core(store, node, (bytes as f64 * 1e3 / mb_per_s) as u64)
            }
            _ => self.now_ns,
        }
    }

    /// Reads an extent for a job that compresses it, and is to write it.
    pub(super) fn compress_extent(&mut self, id: JobId, store: usize, extent: u64) {
        let settings = &self.hardware.replicated_stores[store];
        let Some(compression) = settings.compression else { return };
        let bytes = settings.extent_bytes;
        let stored_bytes = (bytes as f64 * compression.stored_per_written) as u64;
        let work_ns = (bytes as f64 * 1e3 / settings.compress_mb_per_s) as u64;
        let holders = self.holders(store, extent);
        let place = |holder: &usize| Some((*holder, self.extent_place(store, *holder, extent)?));
        let places: Vec<(usize, (usize, u64))> = holders.iter().filter_map(place).collect();
        let Some((source, (drive, byte))) = places.first().copied() else { return };
        self.issue(id, &[(drive, byte, bytes)], false);
        let at_ns = self.use_core(store, source, work_ns);
        self.job(id).remaining += 1;
        self.at(at_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
        for (holder, (drive, byte)) in places {
            if holder != source {
                self.send_between(id, store, source, holder, stored_bytes);
            }
            self.job(id).then_write.push((drive, byte, stored_bytes));
        }
    }
}
