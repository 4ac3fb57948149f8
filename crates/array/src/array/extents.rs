//! Where the extents of a replicated store lie, and what moves them.
//!
//! * The first copy of an extent is on its home, the node that its volume began on; the others are on nodes that a hash
//!   picks. On a node an extent lies on one drive, which one and where on it is a hash. As many extents as fit lie on
//!   flash, the others on disks; that share is the same on all nodes.
//! * Where the store moves extents between its tiers, flash holds of each region of the volumes the share that
//!   reads give it (`residency`). An extent that comes to flash is read from its disks, all copies of it, and
//!   another one goes back.
//! * A volume that has moved to another node reads its extents over the network where no copy is on the new
//!   one. An extent that was read so a number of times is copied there, and the copy at its old home is given
//!   up.
//! * Moves are made one after another, at a set rate at most.
//!
//! Left out: rewritten data that leave their old home, reads of an extent that forget in time, writes that
//! begin on flash.

use std::collections::VecDeque;

use smallvec::SmallVec;
use world::FixedHashMap;

use super::job::Move;
use super::{Array, Happening, JobId, Kind};
use crate::drive::DriveState;
use crate::hardware::{ReplicatedStore, StoreNode, Target, VolumePlacement};
use crate::mix;
use crate::residency::{Residency, Swap};

/// Extents of a replicated store: their nodes, drives and tiers.
pub(super) struct Extents {
    /// Residency of extents on flash.
    tiers: Residency,
    /// Bytes of all copies without treatment, and the space for them on flash and disks.
    written_bytes: f64,
    flash_bytes: f64,
    disk_bytes: f64,
    /// Used share of each disk, and of the space for extents on flash.
    disk_used_share: f64,
    flash_used_share: f64,
    /// Lost drives.
    pub dead: Vec<bool>,
    /// End of each volume in the store, and the node on which it began.
    first_homes: Vec<(u64, usize)>,
    /// Extents that have another home node now.
    new_homes: FixedHashMap<u64, u32>,
    /// Number of reads of an extent over the network for lack of a local copy, and the reading node.
    read_from_afar: FixedHashMap<u64, (u32, u32)>,
    moves: VecDeque<Move>,
    /// Whether moves of extents are in progress.
    moving: bool,
    next_move_ns: u64,
}

impl Extents {
    /// Creates the extents for data that take this share of their untreated size.
    pub fn new(
        store: &ReplicatedStore,
        drives: &[DriveState],
        volumes: &[&VolumePlacement],
        stored_share: f64,
    ) -> Extents {
        let room = |pick: fn(&StoreNode) -> &Vec<usize>| -> f64 {
            let all = store.nodes.iter().flat_map(pick);
            all.map(|drive| drives[*drive].capacity_bytes() as f64).sum()
        };
        let volume_bytes = volumes.iter().map(|volume| volume.bytes).sum();
        let homes = volumes.iter().scan(0, |end, volume| {
            *end += volume.bytes;
            let Target::ReplicatedStore { node, .. } = volume.target else { return None };
            Some((*end, node))
        });
        let mut extents = Extents {
            tiers: Residency::new(volume_bytes, store.tier_regions, store.extent_bytes, 1.0),
            written_bytes: (store.resident_bytes * u64::from(store.replicas)).max(1) as f64,
            flash_bytes: room(|node| &node.flash) * store.flash_for_extents_pct / 100.0,
            disk_bytes: room(|node| &node.disks),
            disk_used_share: 1.0,
            flash_used_share: 1.0,
            dead: vec![false; drives.len()],
            first_homes: homes.collect(),
            new_homes: FixedHashMap::default(),
            read_from_afar: FixedHashMap::default(),
            moves: VecDeque::new(),
            moving: false,
            next_move_ns: 0,
        };
        extents.fill(stored_share);
        extents
    }

    /// Sets the share of their untreated size that data take now, from which the share on flash follows.
    pub fn fill(&mut self, stored_share: f64) {
        let stored = self.written_bytes * stored_share;
        let has_disks = self.disk_bytes > 0.0;
        let share = if has_disks { (self.flash_bytes / stored).min(1.0) } else { 1.0 };
        self.tiers.set_room(share);
        self.flash_used_share = (stored / self.flash_bytes).min(1.0);
        if has_disks {
            self.disk_used_share = (stored * (1.0 - share) / self.disk_bytes).min(1.0);
        }
    }

    fn home(&self, extent: u64, extent_bytes: u64) -> usize {
        if let Some(node) = self.new_homes.get(&extent) {
            return *node as usize;
        }
        let volume = self.first_homes.partition_point(|(end, _)| *end <= extent * extent_bytes);
        self.first_homes[volume.min(self.first_homes.len() - 1)].1
    }
}

impl Array {
    /// Nodes that hold an extent, its home first if it holds one; a single node for an extent in a strip.
    pub(super) fn holders(&self, store: usize, extent: u64) -> SmallVec<[usize; 3]> {
        let mut holders = self.replica_nodes(store, extent);
        if self.is_in_strip(store, extent) {
            holders.truncate(1);
        }
        holders
    }

    /// Nodes of a replicated extent, its home first if it holds a copy.
    pub(super) fn replica_nodes(&self, store: usize, extent: u64) -> SmallVec<[usize; 3]> {
        let settings = &self.hardware.replicated_stores[store];
        let home = self.replicated[store].extents.home(extent, settings.extent_bytes);
        let count = settings.nodes.len() as u64;
        let hash = mix(extent ^ self.seed);
        let mut holders = SmallVec::new();
        if self.has_local_copy(store, extent) {
            holders.push(home);
        }
        // A change of home leaves the others where they are: the new one is none of them.
        let mut next = hash >> 32;
        while (holders.len() as u64) < u64::from(settings.replicas).min(count) {
            let candidate = (next % count) as usize;
            if !holders.contains(&candidate) && (candidate != home || count <= u64::from(settings.replicas)) {
                holders.push(candidate);
            }
            next += 1;
        }
        holders
    }

    /// Whether the home node of an extent holds a copy of it.
    fn has_local_copy(&self, store: usize, extent: u64) -> bool {
        let local_pct = self.hardware.replicated_stores[store].local_reads_pct;
        mix(extent ^ self.seed) % 10_000 < (local_pct * 100.0) as u64
    }

    /// Drive and offset of an extent on a node; `None` if the drive is lost.
    pub(super) fn extent_place(&self, store: usize, node: usize, extent: u64) -> Option<(usize, u64)> {
        self.place_in_tier(store, node, extent, self.is_on_flash(store, extent))
    }

    pub(super) fn is_on_flash(&self, store: usize, extent: u64) -> bool {
        let at = extent * self.hardware.replicated_stores[store].extent_bytes;
        self.replicated[store].extents.tiers.holds(at, mix(mix(extent) ^ self.seed))
    }

    pub(super) fn place_in_tier(
        &self,
        store: usize,
        node: usize,
        extent: u64,
        on_flash: bool,
    ) -> Option<(usize, u64)> {
        let (drive, byte) = self.spot(store, node, extent, on_flash);
        (!self.replicated[store].extents.dead[drive]).then_some((drive, byte))
    }

    /// Drive and offset of an extent on a node, also on a lost drive.
    pub(super) fn spot(&self, store: usize, node: usize, extent: u64, on_flash: bool) -> (usize, u64) {
        let settings = &self.hardware.replicated_stores[store];
        let state = &self.replicated[store].extents;
        let node = &settings.nodes[node];
        let hash = mix(mix(extent) ^ self.seed);
        let (drives, share) = if node.disks.is_empty() || (on_flash && !node.flash.is_empty()) {
            (&node.flash, settings.flash_for_extents_pct / 100.0)
        } else {
            (&node.disks, state.disk_used_share)
        };
        let index = (hash % drives.len() as u64) as usize;
        let mut drive = drives[index];
        if self.replicated[store].health.is_elsewhere(drive, hash) && drives.len() > 1 {
            let further = 1 + (hash >> 16) as usize % (drives.len() - 1);
            drive = drives[(index + further) % drives.len()];
        }
        let extents = (self.drives[drive].capacity_bytes() as f64 * share) as u64 / settings.extent_bytes;
        let byte = mix(hash) % extents.max(1) * settings.extent_bytes;
        (drive, byte)
    }

    /// Number of extents on a drive, taking drives of a kind as equally full.
    pub(super) fn extents_on(&self, store: usize, drive: usize) -> u64 {
        let settings = &self.hardware.replicated_stores[store];
        let on_flash = settings.nodes.iter().any(|node| node.flash.contains(&drive));
        let state = &self.replicated[store].extents;
        let share = if on_flash {
            settings.flash_for_extents_pct / 100.0 * state.flash_used_share
        } else {
            state.disk_used_share
        };
        ((self.drives[drive].capacity_bytes() as f64 * share) as u64 / settings.extent_bytes).max(1)
    }

    /// Copy of an extent that a node reads, with its place: its own if that is good.
    pub(super) fn nearest_copy(
        &self,
        store: usize,
        node: usize,
        extent: u64,
    ) -> Option<(usize, (usize, u64))> {
        let mut holders = self.holders(store, extent);
        holders.sort_by_key(|holder| *holder != node);
        holders
            .iter()
            .find_map(|holder| self.extent_place(store, *holder, extent).map(|place| (*holder, place)))
            .or_else(|| self.recopied_part(store, extent))
    }

    /// Counts a read of an extent over the network; after enough of them the node gets a copy.
    pub(super) fn read_from_afar(&mut self, store: usize, node: usize, extent: u64) {
        if !self.has_local_copy(store, extent) || self.holders(store, extent).contains(&node) {
            return;
        }
        let settings = &self.hardware.replicated_stores[store];
        let enough = settings.local_after_reads;
        let state = &mut self.replicated[store].extents;
        let (by, count) = state.read_from_afar.entry(extent).or_default();
        *count = if *by == node as u32 { *count + 1 } else { 1 };
        *by = node as u32;
        if *count == enough && settings.moves_mb_per_s > 0.0 {
            state.moves.push_back(Move::Home { extent, node: node as u32 });
            self.begin_moves(store);
        }
    }

    pub(super) fn begin_moves(&mut self, store: usize) {
        let state = &mut self.replicated[store].extents;
        if !std::mem::replace(&mut state.moving, true) {
            let at_ns = state.next_move_ns.max(self.now_ns);
            self.at(at_ns, Happening::MoveExtent(store as u32));
        }
    }

    /// Starts the next move of an extent.
    pub(super) fn move_extent(&mut self, store: usize) {
        let settings = &self.hardware.replicated_stores[store];
        let (bytes, mb_per_s) = (settings.extent_bytes, settings.moves_mb_per_s);
        let emptied = self.next_emptying(store);
        let replicated = &mut self.replicated[store];
        let state = &mut replicated.extents;
        let followed = state.moves.pop_front().or(emptied);
        let wanted = followed.or_else(|| state.tiers.next_swap().map(Move::Tier));
        let Some(next) = wanted.or_else(|| replicated.cold_data.next_move(settings)) else {
            state.moving = false;
            return;
        };
        // A swap is two extents, each with all its copies.
        let moved = match next {
            Move::Home { .. } | Move::Empty { .. } | Move::Compress { .. } => bytes,
            Move::Tier(_) => 2 * u64::from(settings.replicas) * bytes,
            Move::Code { .. } => u64::from(settings.strip_parts()) * bytes,
        };
        state.next_move_ns = self.now_ns + (moved as f64 * 1e3 / mb_per_s) as u64;
        let id = self.new_job(Kind::MoveExtent { store: store as u32, made: next });
        self.job(id).bytes = bytes;
        self.job(id).remaining = 1;
        match next {
            Move::Home { extent, node } => {
                let node = node as usize;
                let from = self.nearest_copy(store, node, extent);
                if let (Some((holder, (source, from))), Some((target, to))) =
                    (from, self.extent_place(store, node, extent))
                {
                    self.send_between(id, store, holder, node, bytes);
                    self.job(id).then_write.push((target, to, bytes));
                    self.issue(id, &[(source, from, bytes)], false);
                }
            }
            Move::Tier(Swap { comes, leaves }) => {
                self.change_tier(id, store, comes, true);
                self.change_tier(id, store, leaves, false);
            }
            Move::Empty { drive } => self.empty_drive(id, store, drive as usize),
            Move::Compress { extent } => self.compress_extent(id, store, extent),
            Move::Code { extent } => self.make_strip(id, store, extent),
        }
        self.part_done(id);
    }

    /// Moves an extent of a region to flash, or back, on each node that holds it. Extents of a region are alike, so
    /// any will do.
    fn change_tier(&mut self, id: JobId, store: usize, region_at: u64, to_flash: bool) {
        let bytes = self.hardware.replicated_stores[store].extent_bytes;
        let state = &self.replicated[store].extents;
        let any = mix(u64::from(id) ^ self.now_ns) % state.tiers.pieces();
        let extent = region_at / bytes + any;
        for holder in self.holders(store, extent) {
            let place = |on_flash| self.place_in_tier(store, holder, extent, on_flash);
            if let (Some((source, from)), Some((target, to))) = (place(!to_flash), place(to_flash)) {
                self.job(id).then_write.push((target, to, bytes));
                self.issue(id, &[(source, from, bytes)], false);
            }
        }
    }

    /// Counts a read of an extent, if the store moves extents between tiers.
    pub(super) fn count_extent_read(&mut self, store: usize, at: u64, bytes: u64) {
        if !self.hardware.replicated_stores[store].tiers_by_reads {
            return;
        }
        self.replicated[store].extents.tiers.count_read(at, bytes);
        if self.replicated[store].extents.tiers.is_due() {
            let data_bytes = self.data_bytes(
                |target| matches!(target, Target::ReplicatedStore { store: on, .. } if *on == store),
            );
            self.replicated[store].extents.tiers.aim(data_bytes);
            if self.hardware.replicated_stores[store].moves_mb_per_s > 0.0 {
                self.begin_moves(store);
            }
        }
    }

    pub(super) fn extent_moved(&mut self, store: usize, made: Move) {
        let state = &mut self.replicated[store].extents;
        match made {
            Move::Home { extent, node } => {
                state.new_homes.insert(extent, node);
                state.read_from_afar.remove(&extent);
            }
            Move::Tier(swap) => state.tiers.swapped(swap),
            Move::Empty { drive } => self.drive_emptied(store, drive as usize),
            Move::Compress { .. } | Move::Code { .. } => {}
        }
        let at_ns = self.replicated[store].extents.next_move_ns.max(self.now_ns);
        self.at(at_ns, Happening::MoveExtent(store as u32));
    }

    /// Moves the volumes of a host to another node of their replicated store.
    pub(super) fn move_volumes(&mut self, host: &str, to: usize) {
        for volume in self.volumes.iter_mut().filter(|volume| volume.placement.host == host) {
            if let Target::ReplicatedStore { store, node } = &mut volume.placement.target {
                *node = to % self.hardware.replicated_stores[*store].nodes.len();
            }
        }
    }
}
