//! Drives of a replicated store that are not well: copies that are bad, and drives that are slow.
//!
//! * A copy of an extent that fails its checksum when it is read is read from another node: the whole extent, one more
//!   read that the request waits for. The bad copy is then written again.
//! * Each drive is compared with its peers, the drives of its kind in the store, at intervals. If its accesses
//!   took this many times as long as theirs (the median of them), its extents are moved to the other drives of
//!   its node, read from other nodes, and it is left out. One drive at a time.
//!
//! Left out: checksum time, patrols that find bad copies before they are read, writes that put a bad copy right, a
//! slow drive that is well again and comes back.

use std::collections::BTreeMap;

use world::FixedHashSet;

use super::job::Move;
use super::{Array, Happening, JobId, Kind};
use crate::hardware::{StoreNode, Target};
use crate::mix;

/// Least number of accesses in an interval for a drive to be judged.
const ENOUGH_ACCESSES: u64 = 50;

/// Health of the drives of a store.
#[derive(Default)]
pub(super) struct Health {
    /// Drives with bad extents; the value n means one in n.
    rotten: BTreeMap<usize, u64>,
    /// Repaired bad copies: drive and extent.
    repaired: FixedHashSet<(usize, u64)>,
    /// Accesses of each drive and their total time in ns at the last comparison.
    seen: BTreeMap<usize, (u64, u64)>,
    /// Drives that are emptied or left out, with the number of their extents, of 2^32, that have moved.
    emptied: BTreeMap<usize, u64>,
}

impl Health {
    /// Whether an extent with this hash has moved away from a drive.
    pub fn is_elsewhere(&self, drive: usize, hash: u64) -> bool {
        self.emptied.get(&drive).is_some_and(|share| mix(hash) >> 32 < *share)
    }

    /// Whether a drive takes no new data.
    pub fn is_given_up(&self, drive: usize) -> bool {
        self.emptied.contains_key(&drive)
    }

    /// Drive that is being emptied.
    pub fn emptying(&self) -> Option<usize> {
        self.emptied.iter().find(|(_, share)| **share < 1 << 32).map(|(drive, _)| *drive)
    }

    /// Adds a number of extents, of 2^32, that have moved away from a drive.
    pub fn emptied(&mut self, drive: usize, more: u64) {
        if let Some(share) = self.emptied.get_mut(&drive) {
            *share = (*share + more.max(1)).min(1 << 32);
        }
    }

    /// State of a drive for people.
    pub fn words(&self, drive: usize) -> Option<String> {
        let share = *self.emptied.get(&drive)?;
        Some(if share < 1 << 32 {
            format!("slow, {:.1} % of it moved away", share as f64 * 100.0 / (1u64 << 32) as f64)
        } else {
            "slow, left out".into()
        })
    }

    /// Repairs for people.
    pub fn repairs(&self) -> Option<String> {
        let count = self.repaired.len();
        (count > 0).then(|| format!("{count} bad copies put right"))
    }
}

fn has_drive(node: &StoreNode, drive: usize) -> bool {
    node.drives().any(|other| other == drive)
}

impl Array {
    /// Makes one in this many extents of a drive fail its checksum.
    pub(super) fn rot_extents(&mut self, drive: usize, one_in: u64) {
        if let Some(store) = self.store_of_drive(drive) {
            self.replicated[store].health.rotten.insert(drive, one_in.max(1));
        }
    }

    pub(super) fn store_of_drive(&self, drive: usize) -> Option<usize> {
        let stores = &self.hardware.replicated_stores;
        stores.iter().position(|store| store.nodes.iter().any(|node| has_drive(node, drive)))
    }

    fn is_bad_copy(&self, store: usize, drive: usize, extent: u64) -> bool {
        let health = &self.replicated[store].health;
        let is_rotten = |one_in: &u64| mix(extent ^ (drive as u64) << 40).is_multiple_of(*one_in);
        health.rotten.get(&drive).is_some_and(is_rotten) && !health.repaired.contains(&(drive, extent))
    }

    /// Reads a bad copy for a waiting job. `false`, without a read, if the copy is good.
    pub(super) fn read_bad_copy(
        &mut self,
        id: JobId,
        store: usize,
        extent: u64,
        (drive, byte): (usize, u64),
        bytes: u64,
    ) -> bool {
        if !self.is_bad_copy(store, drive, extent) {
            return false;
        }
        self.job(id).remaining += 1;
        let first =
            self.new_job(Kind::BadCopy { store: store as u32, extent, drive: drive as u32, waits: id });
        self.job(first).bytes = bytes;
        self.issue(first, &[(drive, byte, bytes)], false);
        true
    }

    /// Handles a bad copy that was read: reads another copy.
    pub(super) fn found_bad_copy(&mut self, store: usize, extent: u64, drive: usize, waits: JobId) {
        let good = self.holders(store, extent).into_iter().find_map(|holder| {
            let (other, byte) = self.extent_place(store, holder, extent)?;
            (other != drive && !self.is_bad_copy(store, other, extent)).then_some((holder, other, byte))
        });
        let bytes = self.hardware.replicated_stores[store].extent_bytes;
        let second = self.new_job(Kind::GoodCopy { store: store as u32, extent, drive: drive as u32, waits });
        self.job(second).bytes = bytes;
        let volume = self.job(waits).volume as usize;
        let Target::ReplicatedStore { node, .. } = self.volumes[volume].placement.target else { return };
        if let Some((holder, other, byte)) = good {
            self.job(waits).remote = (holder != node).then_some(holder as u32).or(self.job(waits).remote);
            self.issue(second, &[(other, byte, bytes)], false);
        } else if !self.read_strip(second, store, node, extent, (0, bytes)) {
            self.free_jobs.push(second);
            self.job(waits).lost = true;
            self.part_done(waits);
            return;
        }
        self.replicated[store].health.repaired.insert((drive, extent));
    }

    /// Handles a good copy that was read in place of a bad one: the request goes on, and the bad copy is rewritten.
    pub(super) fn found_good_copy(&mut self, store: usize, extent: u64, drive: usize, waits: JobId) {
        self.part_done(waits);
        let bytes = self.hardware.replicated_stores[store].extent_bytes;
        let holders = self.holders(store, extent);
        let places = holders.iter().filter_map(|holder| self.extent_place(store, *holder, extent));
        if let Some((_, byte)) = places.into_iter().find(|(place, _)| *place == drive) {
            let id = self.new_job(Kind::Background);
            self.job(id).bytes = bytes;
            self.issue(id, &[(drive, byte, bytes)], true);
        }
    }

    /// Compares the drives of a store with each other, and starts to empty a slow one.
    pub(super) fn look_at_drives(&mut self, store: usize) {
        let settings = self.hardware.replicated_stores[store].clone();
        let kinds: [fn(&StoreNode) -> &Vec<usize>; 2] = [|node| &node.flash, |node| &node.disks];
        for pick in kinds {
            let drives = settings.nodes.iter().flat_map(pick).copied();
            let mut times: Vec<(usize, u64)> =
                drives.filter_map(|drive| Some((drive, self.access_ns(store, drive)?))).collect();
            times.sort_by_key(|(_, ns)| *ns);
            let median_ns = times.get(times.len().saturating_sub(1) / 2).map_or(0, |(_, ns)| *ns);
            if let Some((drive, ns)) = times.last().copied()
                && ns as f64 >= median_ns as f64 * settings.slow_drive_factor
                && self.replicated[store].health.emptying().is_none()
            {
                self.replicated[store].health.emptied.insert(drive, 0);
                self.begin_moves(store);
            }
        }
        self.look_later(store);
    }

    /// Sets the timer for the next comparison of a store's drives.
    pub(super) fn look_later(&mut self, store: usize) {
        let settings = &self.hardware.replicated_stores[store];
        if settings.slow_drive_factor > 0.0 && settings.moves_mb_per_s > 0.0 {
            let at_ns = self.now_ns + (settings.slow_drive_s * 1e9) as u64;
            self.at(at_ns, Happening::LookAtDrives(store as u32));
        }
    }

    /// Mean time of an access of a busy drive since the last comparison, ns.
    fn access_ns(&mut self, store: usize, drive: usize) -> Option<u64> {
        let now = self.drive_statistics[drive].work(self.now_ns);
        let health = &mut self.replicated[store].health;
        let before = health.seen.insert(drive, now).unwrap_or_default();
        // Less than before: the statistics began anew meanwhile.
        let (accesses, busy_ns) = (now.0.checked_sub(before.0)?, now.1.checked_sub(before.1)?);
        (accesses >= ENOUGH_ACCESSES && !health.is_given_up(drive)).then(|| busy_ns / accesses)
    }

    /// Moves an extent of a drive to another drive of its node, reading it from another node.
    pub(super) fn empty_drive(&mut self, id: JobId, store: usize, drive: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let bytes = settings.extent_bytes;
        let Some(node) = settings.nodes.iter().position(|node| has_drive(node, drive)) else { return };
        let on_flash = settings.nodes[node].flash.contains(&drive);
        let count = settings.nodes.len();
        let hash = mix(u64::from(id) ^ self.now_ns);
        let place = |k| self.place_in_tier(store, node, mix(hash + k) >> 20, on_flash);
        let target = (0..64).filter_map(place).find(|(target, _)| *target != drive);
        let source = (0..64).find_map(|k| {
            let other = (node + 1 + k as usize % (count - 1).max(1)) % count;
            self.place_in_tier(store, other, mix(hash ^ k) >> 20, on_flash)
        });
        let (Some((source, from)), Some((target, to))) = (source, target) else { return };
        self.job(id).then_write.push((target, to, bytes));
        self.issue(id, &[(source, from, bytes)], false);
    }

    pub(super) fn drive_emptied(&mut self, store: usize, drive: usize) {
        let extents = self.extents_on(store, drive);
        self.replicated[store].health.emptied(drive, (1 << 32) / extents);
    }

    /// Next move that empties a slow drive.
    pub(super) fn next_emptying(&self, store: usize) -> Option<Move> {
        self.replicated[store].health.emptying().map(|drive| Move::Empty { drive: drive as u32 })
    }
}
