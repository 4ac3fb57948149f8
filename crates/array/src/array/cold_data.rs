//! What a replicated store does with data that have not been written for some time (`coldness`): they are compressed,
//! make strips with parities in place of copies (`strips`), and are kept once if they are equal (`deduplication`).
//!
//! * A cold extent is read where its volume reads it, compressed on a core of that node, and written again on
//!   every node that holds it. This is a move like others, after all of those that have something to wait for
//!   it, at their rate.
//! * Compressed data need less room: so more extents fit on flash, and disks are filled less far in. A read of
//!   them reads less from its drive, and is decompressed on a core of the node that reads.
//! * A write to a compressed extent writes its part as it is.
//! * Where extents are compressed and make strips, too, each has half of the rate of moves.
//!
//! Left out: moves that a change of room makes, what a small write has to read of its compression unit, room that old
//! versions take until they are collected, data that do not compress alike.

use std::collections::VecDeque;

use super::deduplication::{self, EqualData};
use super::job::Move;
use super::{Array, Happening, JobId, NO_DRIVE};
use crate::coldness::{Coldness, treated};
use crate::hardware::{BLOCK_BYTES, ReplicatedStore, Target};
use crate::mix;

/// Contradiction in the cold-data settings of a store, if there is one.
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
    if let Some(coding) = store.erasure_coding {
        if !is_positive(coding.delay_s) || !is_positive(store.moves_mb_per_s) {
            return Err("erasure coding needs a delay, and moves_mb_per_s above 0".into());
        }
        if store.replicas < 2 || coding.data < 2 || store.strip_parts() as usize > store.nodes.len() {
            return Err("erasure coding needs two copies, and a node for each part of a strip of two extents at least".into());
        }
    }
    deduplication::check(store)
}

pub(super) struct ColdData {
    compressed: Option<Coldness>,
    to_compress: VecDeque<u64>,
    compressed_share: f64,
    coded: Option<Coldness>,
    to_code: VecDeque<u64>,
    coded_share: f64,
    pub equal: Option<EqualData>,
}

impl ColdData {
    pub fn new(store: &ReplicatedStore, volume_bytes: u64) -> ColdData {
        let both = store.compression.is_some() && store.erasure_coding.is_some();
        let moves_per_s =
            store.moves_mb_per_s * 1e6 / store.extent_bytes as f64 / if both { 2.0 } else { 1.0 };
        let cold = |delay_s, jobs_per_s| {
            Coldness::new(volume_bytes, store.tier_regions, store.extent_bytes, delay_s, jobs_per_s)
        };
        let parts = f64::from(store.strip_parts());
        ColdData {
            compressed: store.compression.map(|compression| cold(compression.delay_s, moves_per_s)),
            to_compress: VecDeque::new(),
            compressed_share: 1.0,
            coded: store
                .erasure_coding
                .map(|coding| cold(coding.delay_s, moves_per_s * f64::from(coding.data) / parts)),
            to_code: VecDeque::new(),
            coded_share: 1.0,
            equal: store.deduplication.map(|deduplication| {
                EqualData::new(deduplication, cold(deduplication.delay_s, f64::INFINITY))
            }),
        }
    }

    /// Share of their untreated size that data take after compression, coding and deduplication.
    pub fn stored_share(&self, store: &ReplicatedStore) -> f64 {
        let saved = store.compression.map_or(0.0, |compression| 1.0 - compression.stored_per_written);
        let spared = store.erasure_coding.map_or(0.0, |coding| {
            1.0 - f64::from(store.strip_parts()) / f64::from(coding.data * store.replicas)
        });
        let equal = self.equal.as_ref().map_or(0.0, |equal| equal.spared_share);
        (1.0 - self.compressed_share * saved) * (1.0 - self.coded_share * spared) * (1.0 - equal)
    }

    /// Description of the treatment of cold data.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let compressed = self.compressed.as_ref().map(|_| ("compressed", self.compressed_share));
        let coded = self.coded.as_ref().map(|_| ("in strips", self.coded_share));
        let equal = self.equal.as_ref().map(|equal| ("spared as equal to others", equal.spared_share));
        let all = compressed.into_iter().chain(coded).chain(equal);
        all.map(|(what, share)| format!("{:.1} % of the data {what}", share * 100.0))
    }

    /// Next extents to be treated as cold data.
    pub fn next_move(&mut self, store: &ReplicatedStore) -> Option<Move> {
        let compress = self.to_compress.pop_front().map(|extent| Move::Compress { extent });
        compress.or_else(|| {
            let data = store.erasure_coding?.data as usize;
            let extent = *self.to_code.get(data - 1)?;
            self.to_code.drain(..data);
            Some(Move::Code { extent })
        })
    }

    /// Whether the extent at a byte, with this hash, is part of a strip (erasure coded).
    pub fn is_coded(&self, at: u64, hash: u64) -> bool {
        self.coded.as_ref().is_some_and(|coded| coded.is_cold(at, hash))
    }

    /// Share of all stored bytes that belongs to strips.
    pub fn stored_in_strips(&self, store: &ReplicatedStore) -> f64 {
        let Some(coding) = store.erasure_coding else { return 0.0 };
        let in_strips = self.coded_share * f64::from(store.strip_parts()) / f64::from(coding.data);
        in_strips / (in_strips + (1.0 - self.coded_share) * f64::from(store.replicas))
    }
}

impl Array {
    /// Counts a write to its extent, which becomes warm.
    pub(super) fn count_extent_write(&mut self, store: usize, at: u64) {
        let settings = &self.hardware.replicated_stores[store];
        let extent_bytes = settings.extent_bytes;
        let extent = at / extent_bytes;
        let state = &mut self.replicated[store].cold_data;
        // It will be cold again after the delay. Until then others come to be, like it: one of them now.
        if state.compressed.as_mut().is_some_and(|compressed| compressed.count_write(at)) {
            state.to_compress.push_back(extent);
            self.begin_moves(store);
        }
        let state = &mut self.replicated[store].cold_data;
        if state.coded.as_mut().is_some_and(|coded| coded.count_write(at)) {
            state.to_code.push_back(extent);
            self.leave_strip(store, extent);
            self.begin_moves(store);
        }
        if let Some(equal) = &mut self.replicated[store].cold_data.equal {
            equal.cold.count_write(at);
        }
        self.look_at_cold_data(store);
    }

    fn look_at_cold_data(&mut self, store: usize) {
        let state = &mut self.replicated[store].cold_data;
        let equal = state.equal.as_mut().map(|equal| &mut equal.cold);
        let kinds = [state.compressed.as_mut(), state.coded.as_mut(), equal].into_iter().flatten();
        let looked = kinds.map(|cold| cold.look(self.now_ns)).fold(false, |any, looked| any | looked);
        if !looked {
            return;
        }
        let on_store = self.volumes.iter().filter(
            |volume| matches!(volume.placement.target, Target::ReplicatedStore { store: on, .. } if on == store),
        );
        let data: Vec<(u64, u64)> = on_store
            .map(|volume| (volume.store_base, volume.store_base + volume.space.high_water()))
            .collect();
        let settings = &self.hardware.replicated_stores[store];
        let parts = settings.extent_bytes / BLOCK_BYTES;
        if let Some(compressed) = &state.compressed {
            state.compressed_share = compressed.mean(&data, |cold| treated(cold, parts));
        }
        if let Some(coded) = &state.coded {
            state.coded_share = coded.mean(&data, |cold| cold);
        }
        if let Some(equal) = &mut state.equal {
            equal.look(&data, parts);
        }
        let stored_share = state.stored_share(settings);
        self.replicated[store].extents.fill(stored_share);
    }

    /// Range within the place of an extent that a job must read, after compression.
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

    /// Adds the time for decompression of what a job has read.
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

    /// Reads an extent for a job that compresses it and writes it back.
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
