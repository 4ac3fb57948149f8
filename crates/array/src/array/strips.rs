//! Erasure coding of cold extents in a replicated store (`cold_data` says which).
//!
//! * This many extents on as many nodes make a strip with a parity for each copy but the first, on further nodes.
//!   Of an extent in a strip one copy is left, the one that its volume reads.
//! * A read whose copy is lost, or bad, reads as many other parts of its strip as the strip has extents, over
//!   the network.
//! * A write to an extent in a strip makes it a replicated one again: its copies are made from the one that is
//!   left, and the parities of its strip are read and written without it. When as many such extents as a strip
//!   has are cold again, they are read and make the next strip: a move like others, after those that have
//!   something to wait for it.
//!
//! Which other extents make a strip with one a hash says, as it says where an extent lies; all lie on the same tier.
//!
//! Left out: processor time of parities, parities of extents that are compressed or moved while in a strip, a
//! drive that is emptied with extents that have no other copy.

use smallvec::SmallVec;

use super::{Array, JobId, Kind};
use crate::mix;

/// Place of a part of a strip: node, drive, offset.
pub(super) type StripPart = (usize, (usize, u64));

impl Array {
    /// Whether an extent belongs to a strip.
    pub(super) fn is_in_strip(&self, store: usize, extent: u64) -> bool {
        let settings = &self.hardware.replicated_stores[store];
        let hash = mix(mix(extent) ^ self.seed.rotate_left(16));
        self.replicated[store].cold_data.is_coded(extent * settings.extent_bytes, hash)
    }

    /// Other extents and parities of an extent's strip, as far as their drives work.
    fn strip_of(&self, store: usize, extent: u64) -> (SmallVec<[StripPart; 4]>, SmallVec<[StripPart; 2]>) {
        let settings = &self.hardware.replicated_stores[store];
        let Some(coding) = settings.erasure_coding else { return Default::default() };
        let home = self.replica_nodes(store, extent)[0];
        let on_flash = self.is_on_flash(store, extent);
        let part = |number: u32| {
            let node = (home + number as usize) % settings.nodes.len();
            Some((node, self.place_in_tier(store, node, mix(extent ^ u64::from(number) << 48), on_flash)?))
        };
        let parities = settings.replicas - 1;
        let others = (1..coding.data).filter_map(part).collect();
        (others, (coding.data..coding.data + parities).filter_map(part).collect())
    }

    /// Reads for a job the parts from which an extent without a good copy can be computed, sent to `node`: as many as
    /// its strip has extents. `false`, without a read, if there are too few.
    pub(super) fn read_strip(
        &mut self,
        id: JobId,
        store: usize,
        node: usize,
        extent: u64,
        (into, bytes): (u64, u64),
    ) -> bool {
        let needed = match self.hardware.replicated_stores[store].erasure_coding {
            Some(coding) if self.is_in_strip(store, extent) => coding.data as usize,
            _ => return false,
        };
        let (others, parities) = self.strip_of(store, extent);
        if others.len() + parities.len() < needed {
            return false;
        }
        for (holder, (drive, byte)) in others.into_iter().chain(parities).take(needed) {
            self.issue(id, &[(drive, byte + into, bytes)], false);
            if holder != node {
                self.send_between(id, store, holder, node, bytes);
            }
        }
        true
    }

    /// Removes a written extent from its strip; it is replicated again.
    pub(super) fn leave_strip(&mut self, store: usize, extent: u64) {
        let bytes = self.hardware.replicated_stores[store].extent_bytes;
        let nodes = self.replica_nodes(store, extent);
        let Some((source, from)) = self.extent_place(store, nodes[0], extent) else { return };
        let copies =
            nodes[1..].iter().filter_map(|node| Some((*node, self.extent_place(store, *node, extent)?)));
        let copies: SmallVec<[StripPart; 2]> = copies.collect();
        let (_, parities) = self.strip_of(store, extent);
        let id = self.new_job(Kind::Background);
        self.job(id).bytes = bytes;
        self.job(id).remaining = 1;
        self.issue(id, &[(source, from, bytes)], false);
        for (_, (drive, byte)) in &parities {
            self.issue(id, &[(*drive, *byte, bytes)], false);
        }
        for (node, (drive, byte)) in copies.into_iter().chain(parities) {
            self.send_between(id, store, nodes[0], node, bytes);
            self.job(id).then_write.push((drive, byte, bytes));
        }
        self.part_done(id);
    }

    /// Makes a strip of extents: a job reads them and writes their parities.
    pub(super) fn make_strip(&mut self, id: JobId, store: usize, extent: u64) {
        let bytes = self.hardware.replicated_stores[store].extent_bytes;
        let home = self.replica_nodes(store, extent)[0];
        let own = self.extent_place(store, home, extent).map(|place| (home, place));
        let (others, parities) = self.strip_of(store, extent);
        for (node, (drive, byte)) in own.into_iter().chain(others) {
            self.issue(id, &[(drive, byte, bytes)], false);
            for (parity, _) in &parities {
                self.send_between(id, store, node, *parity, bytes);
            }
        }
        for (_, (drive, byte)) in parities {
            self.job(id).then_write.push((drive, byte, bytes));
        }
    }
}
