//! Equal data of a replicated store, kept once: some time after they were written (`cold_data`), by their
//! fingerprints.
//!
//! * A share of the extents have equals, this many together. Equal ones are taken to follow each other, part for part.
//! * Of equal parts that are cold the first is kept, the others refer to it: they take no room, and a read of
//!   them goes to where it lies. So memory, which holds what was read by the place that it has, holds it once
//!   for all of them.
//! * A write to such a part goes to its own extent: it is kept there for itself until it is cold again, and
//!   then has as many equals as before. What a node has written is found in its memory and its log where it was
//!   written.
//! * All that is written has its fingerprint taken on a core before it is logged. Equal fingerprints are equal
//!   data: nothing is read to compare.
//!
//! Left out: reads of fingerprints and of references, equal data of hosts on different nodes (whose reads would cross
//! the network), that shared data are read more often than others of their region, equal parts smaller than a block.

use super::Array;
use crate::coldness::{Coldness, treated};
use crate::hardware::{BLOCK_BYTES, Deduplication, ReplicatedStore};
use crate::mix;
use crate::residency::of_two_to_32;

/// Contradiction in the deduplication settings of a store, if there is one.
pub(super) fn check(store: &ReplicatedStore) -> Result<(), String> {
    let Some(wished) = store.deduplication else { return Ok(()) };
    let is_share = wished.equal_share > 0.0 && wished.equal_share <= 1.0;
    if !is_share || !(2..=1000).contains(&wished.copies) {
        return Err("deduplication: equal_share lies above 0 and up to 1, copies from 2 to 1000".into());
    }
    let is_positive = |number: f64| number.is_finite() && number > 0.0;
    if !is_positive(wished.delay_s) || !is_positive(store.fingerprint_mb_per_s) {
        return Err("deduplication needs a delay, and fingerprint_mb_per_s above 0".into());
    }
    Ok(())
}

pub(super) struct EqualData {
    settings: Deduplication,
    pub cold: Coldness,
    /// Share of all data that take no space because equal data are kept.
    pub spared_share: f64,
}

impl EqualData {
    pub fn new(settings: Deduplication, cold: Coldness) -> EqualData {
        let mut equal = EqualData { settings, cold, spared_share: 0.0 };
        equal.look(&[], 1);
        equal
    }

    /// Computes the savings of deduplication for these ranges.
    pub fn look(&mut self, data: &[(u64, u64)], parts: u64) {
        let Deduplication { equal_share, copies, .. } = self.settings;
        // Of equal parts that are cold all but one take no room.
        let spared = self.cold.mean(data, |cold| {
            let warm = 1.0 - treated(cold, parts);
            let none_cold: f64 = (0..copies).map(|_| warm).product();
            1.0 - warm - (1.0 - none_cold) / f64::from(copies)
        });
        self.spared_share = equal_share * spared;
    }

    /// Place of the data at a byte: elsewhere in the store if an equal part is kept for them.
    fn kept_at(&self, at: u64, extent_bytes: u64, seed: u64) -> u64 {
        let extent = at / extent_bytes;
        let group = extent - extent % u64::from(self.settings.copies);
        let has_equals =
            mix(mix(group) ^ seed.rotate_left(48)) >> 32 < of_two_to_32(self.settings.equal_share);
        let is_cold = |at: &u64| {
            let hash = mix(mix(at / BLOCK_BYTES) ^ seed.rotate_left(48));
            self.cold.is_treated(*at, hash, extent_bytes / BLOCK_BYTES)
        };
        if !has_equals || !is_cold(&at) {
            return at;
        }
        let mut equals = (group..extent).map(|equal| equal * extent_bytes + at % extent_bytes);
        equals.find(is_cold).unwrap_or(at)
    }
}

impl Array {
    /// Place of the data at a byte of a store: elsewhere in it if an equal part is kept for them.
    pub(super) fn kept_at(&self, store: usize, at: u64) -> u64 {
        let extent_bytes = self.hardware.replicated_stores[store].extent_bytes;
        let equal = self.replicated[store].cold_data.equal.as_ref();
        equal.map_or(at, |equal| equal.kept_at(at, extent_bytes, self.seed))
    }

    /// Processor time for the fingerprints of written data, ns.
    pub(super) fn fingerprint_ns(&self, store: usize, bytes: u64) -> u64 {
        let settings = &self.hardware.replicated_stores[store];
        settings.deduplication.map_or(0, |_| (bytes as f64 * 1e3 / settings.fingerprint_mb_per_s) as u64)
    }
}
