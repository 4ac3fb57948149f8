//! What a replicated store does about lost drives, and nodes with all of theirs: it reads around them, and
//! copies what they held from other nodes.
//!
//! * As many extents are copied at a time as the settings of rebuilds allow steps, drive by drive in the order
//!   of their loss.
//! * What was part of a strip is worked out from as many other parts as the strip has extents, on as many nodes.
//! * Extents that have been copied lie on another node: they can be read there if no other copy is left.
//!
//! Left out: the network between the nodes, a lost drive that is replaced, room that is left for the copies.

use smallvec::SmallVec;
use world::Time;

use super::strips::StripPart;
use super::{Array, Kind, RebuildStatus};
use crate::hardware::StoreNode;
use crate::mix;
use crate::residency::of_two_to_32;

/// Bytes of a lost drive, those still to be copied, and the time when all were copied.
struct Lost {
    drive: usize,
    bytes: u64,
    left: u64,
    ended: Option<Time>,
}

impl Lost {
    fn left_share(&self) -> f64 {
        self.left as f64 / self.bytes.max(1) as f64
    }
}

/// Lost drives of a store, in the order of their loss.
#[derive(Default)]
pub(super) struct Recopies {
    lost: Vec<Lost>,
    begun: u64,
    under_way: u32,
}

impl Recopies {
    /// Whether an extent with this hash was on a lost drive and has been copied.
    fn has_copied(&self, drive: usize, hash: u64) -> bool {
        let lost = self.lost.iter().find(|lost| lost.drive == drive);
        lost.is_some_and(|lost| hash >> 32 >= of_two_to_32(lost.left_share()))
    }

    /// Progress of copying for these lost drives; `None` if none of them is lost.
    pub fn status(&self, is_asked_for: impl Fn(usize) -> bool) -> Option<RebuildStatus> {
        let lost: Vec<&Lost> = self.lost.iter().filter(|lost| is_asked_for(lost.drive)).collect();
        let ended: Option<Vec<Time>> = lost.iter().map(|lost| lost.ended).collect();
        if let Some(ended) = ended {
            return ended.into_iter().max().map(RebuildStatus::Ended);
        }
        let (left, bytes) =
            lost.iter().fold((0, 0), |(left, bytes), lost| (left + lost.left, bytes + lost.bytes));
        Some(RebuildStatus::UnderWay(1.0 - left as f64 / bytes as f64))
    }
}

impl StoreNode {
    /// All drives of the node.
    pub(super) fn drives(&self) -> impl Iterator<Item = usize> {
        self.disks.iter().chain(&self.flash).copied()
    }
}

impl Array {
    /// Progress of copying the data of a lost node; `None` if the node is not lost.
    pub fn recopying(&self, store: usize, node: usize) -> Option<RebuildStatus> {
        let node = &self.hardware.replicated_stores[store].nodes[node];
        self.replicated[store].recopies.status(|drive| node.drives().any(|other| other == drive))
    }

    /// Handles a lost drive of a store: its extents are read elsewhere, and copied from there.
    pub(super) fn lose_extents(&mut self, drive: usize) {
        let Some(store) = self.store_of_drive(drive) else { return };
        let bytes = self.extents_on(store, drive) * self.hardware.replicated_stores[store].extent_bytes;
        let state = &mut self.replicated[store];
        if !std::mem::replace(&mut state.extents.dead[drive], true) {
            state.recopies.lost.push(Lost { drive, bytes, left: bytes, ended: None });
            self.recopy(store);
        }
    }

    pub(super) fn recopied(&mut self, store: usize) {
        let ended = Time { ns: self.now_ns };
        let state = &mut self.replicated[store].recopies;
        state.under_way -= 1;
        for lost in state.lost.iter_mut().filter(|lost| lost.left == 0) {
            lost.ended.get_or_insert(ended);
        }
        self.recopy(store);
    }

    /// Copies extents, each from a drive of one node to a drive of another, up to the allowed number at a time.
    fn recopy(&mut self, store: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let bytes = settings.extent_bytes;
        let dead = &self.replicated[store].extents.dead;
        let nodes = settings.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, node)| node.drives().any(|drive| !dead[drive]));
        let nodes: SmallVec<[usize; 16]> = nodes.map(|(node, _)| node).collect();
        let data = settings.erasure_coding.map_or(1, |coding| coding.data as usize);
        while nodes.len() > data
            && self.replicated[store].recopies.under_way < self.hardware.rebuild.steps.max(1)
        {
            let state = &mut self.replicated[store].recopies;
            let Some(lost) = state.lost.iter_mut().find(|lost| lost.left > 0) else { return };
            lost.left = lost.left.saturating_sub(bytes);
            state.begun += 1;
            let hash = mix(self.seed ^ state.begun << 20);
            let from = (hash % nodes.len() as u64) as usize;
            let to = from + 1 + (hash >> 40) as usize % (nodes.len() - 1);
            // Another extent if the hash hits a lost drive: at most a few tries, for the loss is the exception.
            let find = |node: usize| {
                (0..64).find_map(|k| self.extent_place(store, nodes[node % nodes.len()], mix(hash + k) >> 20))
            };
            let settings = &self.hardware.replicated_stores[store];
            let stored_in_strips = self.replicated[store].cold_data.stored_in_strips(settings);
            let in_strip = mix(hash) >> 32 < of_two_to_32(stored_in_strips);
            let reads: SmallVec<[_; 4]> = if in_strip {
                (1..=data).filter_map(|k| find(to + k)).collect()
            } else {
                find(from).into_iter().collect()
            };
            if let Some((target, to)) = find(to) {
                let id = self.new_job(Kind::Recopy { store: store as u32 });
                self.job(id).bytes = bytes;
                self.job(id).remaining = 1;
                self.job(id).then_write.push((target, to, bytes));
                self.replicated[store].recopies.under_way += 1;
                let reads: SmallVec<[_; 4]> =
                    reads.into_iter().map(|(drive, byte)| (drive, byte, bytes)).collect();
                self.issue(id, &reads, false);
                self.part_done(id);
            }
        }
    }

    /// Place of an extent whose copies were on lost drives, if it has been copied since.
    pub(super) fn recopied_part(&self, store: usize, extent: u64) -> Option<StripPart> {
        let settings = &self.hardware.replicated_stores[store];
        let state = &self.replicated[store];
        if state.recopies.lost.is_empty() {
            return None;
        }
        let (holders, on_flash) = (self.holders(store, extent), self.is_on_flash(store, extent));
        let copied = holders.iter().any(|node| {
            let (drive, _) = self.spot(store, *node, extent, on_flash);
            state.recopies.has_copied(drive, mix(extent ^ self.seed.rotate_left(48)))
        });
        if !copied {
            return None;
        }
        let (first, count) = (holders[0] + (settings.strip_parts() as usize).max(1), settings.nodes.len());
        let mut others = (0..count).map(|k| (first + k) % count).filter(|node| !holders.contains(node));
        others.find_map(|node| Some((node, self.place_in_tier(store, node, extent, on_flash)?)))
    }
}
