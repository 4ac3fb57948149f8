//! Rebuild of lost drives, rebalancing onto added ones, and patrol reads.
//!
//! A lost slot of a RAID group is rebuilt on a spare, from the outer to the inner tracks; a piece of a dynamic
//! pool on a drive of the pool with room. Only what volumes have used is rebuilt, if the settings say so.
//! A slot is good up to the first byte that cannot be worked out any more: what lies behind needs the same
//! drives.
//!
//! Drives that are added to a dynamic pool are empty. Pieces move to them, each from the drive that holds most,
//! until all hold equally many, with the settings of rebuilds. A piece is read at its new place when all of it
//! is there.
//!
//! Left out: copy-back to a replaced drive, prediction of failures, writes to a piece while it moves (they go
//! to its old place only), room for more data on added drives.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use world::Time;

use super::{Array, Happening, Kind};
use crate::hardware::{Drive, Target};
use crate::raid::{PieceMove, Slot};

const PATROL_BYTES: u64 = 1 << 20;

/// Range to be rebuilt or moved.
#[derive(Debug, Clone, Copy)]
enum WorkRange {
    /// Range of the drive in a lost slot.
    Drive { slot: usize, start: u64, bytes: u64 },
    /// Piece of a pool that moves; its first `into` bytes have been moved already.
    Piece { to: PieceMove, into: u64 },
}

/// Step in progress: its range, its first byte, and its end on the drive.
#[derive(Debug, Clone, Copy)]
struct Step {
    part: WorkRange,
    start: u64,
    end: u64,
}

/// Purpose of the work: rebuild or rebalancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Rebuild of a lost drive.
    Lost { drive: usize, slot: usize },
    /// Rebalancing after drives were added.
    Added,
}

/// Progress of a rebuild or a rebalancing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RebuildStatus {
    /// The drive has not been given up yet.
    Waiting,
    /// No spare drive and no room in the pool is left: the data stay without redundancy.
    NoSpare,
    /// In progress; share of the work that has begun, 0 to 1.
    UnderWay(f64),
    /// Complete since this time.
    Ended(Time),
    /// Ended incompletely, because too many other drives are lost.
    Lost,
}

pub(super) struct RebuildState {
    purpose: Purpose,
    group: usize,
    status: RebuildStatus,
    /// Bytes of all parts, and of those that have begun.
    total_bytes: u64,
    begun_bytes: u64,
    parts: VecDeque<WorkRange>,
    next_step: u32,
    under_way: BTreeMap<u32, Step>,
    next_step_ns: u64,
    /// Whether a timer for the next step is set.
    is_timed: bool,
    /// Whether pieces have no new place, because the pool has no room.
    without_room: bool,
    /// Offset on the drive from which on its data are lost: too many other drives of the group are lost.
    lost_from: Option<u64>,
    /// Spare drive that was lost during the rebuild; the rebuild of the spare replaced this one.
    lost_spare: Option<usize>,
    ended: bool,
    started: bool,
}

impl RebuildState {
    fn is_of(&self, group: usize, slot: usize) -> bool {
        self.group == group && matches!(self.purpose, Purpose::Lost { slot: lost, .. } if lost == slot)
    }
}

impl Array {
    /// Progress of the rebuild of `drive`; in a replicated store, of the new copies of its extents. `None` if the
    /// drive was not lost, or belongs to no group, pool or store.
    pub fn rebuild(&self, drive: usize) -> Option<RebuildStatus> {
        let of_drive = |state: &&RebuildState| matches!(state.purpose, Purpose::Lost { drive: lost, .. } if lost == drive);
        match self.rebuilds.iter().find(of_drive) {
            Some(RebuildState { lost_spare: Some(spare), .. }) => self.rebuild(*spare),
            Some(state) => Some(state.status),
            None => self.replicated.iter().find_map(|state| state.recopies.status(|lost| lost == drive)),
        }
    }

    /// Whether the last rebuild of a slot found data that are lost.
    pub(super) fn is_given_up(&self, group: usize, slot: usize) -> bool {
        let last = self.rebuilds.iter().rfind(|state| state.is_of(group, slot));
        last.is_some_and(|state| state.status == RebuildStatus::Lost)
    }

    /// Progress of the last rebalancing of `group`; `None` if no drives were added to it.
    pub fn rebalance(&self, group: usize) -> Option<RebuildStatus> {
        let of_group = |state: &&RebuildState| state.purpose == Purpose::Added && state.group == group;
        self.rebuilds.iter().rfind(of_group).map(|state| state.status)
    }

    pub(super) fn begin_rebuild(&mut self, group: usize, slot: usize, drive: usize) {
        self.drive_slots[drive] = None;
        // A slot that is being rebuilt is lost with its spare: steps under way there do not count for the next one.
        for state in self.rebuilds.iter_mut().filter(|state| !state.ended && state.is_of(group, slot)) {
            (state.ended, state.lost_spare) = (true, Some(drive));
            state.under_way.clear();
        }
        let start_ns = self.now_ns + (self.hardware.rebuild.start_after_ms * 1e6) as u64;
        self.begin(Purpose::Lost { drive, slot }, group, start_ns);
    }

    /// Adds drives like its first one to a dynamic pool, and begins to move pieces to them.
    pub(super) fn add_drives(&mut self, group: usize, count: u32) {
        if self.groups.get_mut(group).is_none_or(|raid| raid.pool().is_none()) {
            return;
        }
        let model = self.hardware.drives[self.groups[group].drives[0]].clone();
        for number in 1..=count {
            let drive = self.drives.len();
            let name = format!("{} added disk {number}", self.hardware.groups[group].name);
            self.add_drive(Drive { name, ..model.clone() });
            self.drive_slots[drive] = Some((group, self.groups[group].drives.len()));
            self.groups[group].add_slot(drive);
        }
        self.begin(Purpose::Added, group, self.now_ns);
    }

    fn begin(&mut self, purpose: Purpose, group: usize, start_ns: u64) {
        self.rebuilds.push(RebuildState {
            purpose,
            group,
            status: RebuildStatus::Waiting,
            total_bytes: 0,
            begun_bytes: 0,
            parts: VecDeque::new(),
            next_step: 0,
            under_way: BTreeMap::new(),
            next_step_ns: 0,
            is_timed: true,
            without_room: false,
            lost_from: None,
            lost_spare: None,
            ended: false,
            started: false,
        });
        let index = self.rebuilds.len() as u32 - 1;
        self.at(start_ns, Happening::Rebuild(index));
    }

    /// Used ranges (first byte, bytes) of a group's own drives; everything, if whole drives are rebuilt.
    fn used_ranges(&self, group: usize) -> Vec<(u64, u64)> {
        let mut pools = self.tiering.iter().flatten();
        match pools.find(|pool| pool.groups().any(|tier| tier == group)) {
            Some(_) if !self.hardware.rebuild.used_only => vec![(0, self.groups[group].capacity_bytes)],
            Some(pool) => pool.used_ranges(group),
            None => self.used_by_volumes(group),
        }
    }

    /// Ranges (first byte, bytes) that volumes use of a group; all of the volumes, if whole drives are rebuilt.
    pub(super) fn used_by_volumes(&self, group: usize) -> Vec<(u64, u64)> {
        let used_only = self.hardware.rebuild.used_only;
        let mut used: Vec<(u64, u64)> = Vec::new();
        for volume in &self.volumes {
            if let Target::Group { group: on, first_byte } = volume.placement.target
                && on == group
            {
                let bytes = if used_only { volume.space.high_water() } else { volume.placement.bytes };
                used.push((first_byte, bytes.min(volume.placement.bytes)));
            }
            if let Target::LogStore { store } = volume.placement.target
                && self.hardware.log_stores[store].group == group
            {
                used.push((0, self.groups[group].capacity_bytes));
            }
        }
        for (pool, state) in self.hardware.thin_pools.iter().zip(&self.thin_pools) {
            if pool.group == group {
                let bytes = if used_only { state.high_water() } else { self.capacity_of(group) };
                used.push((0, bytes));
            }
        }
        used
    }

    /// Selects the target and the ranges of a rebuild.
    fn start_rebuild(&mut self, index: usize) {
        let (group, purpose) = (self.rebuilds[index].group, self.rebuilds[index].purpose);
        let used = self.used_ranges(group);
        let raid = &mut self.groups[group];
        if raid.pool().is_some() {
            let (moves, without_room) = match purpose {
                Purpose::Lost { slot, .. } => raid.plan_evacuation(slot, &used),
                Purpose::Added => (raid.plan_evening(&used), 0),
            };
            let total_bytes = moves.len() as u64 * self.piece_bytes(group);
            let state = &mut self.rebuilds[index];
            state.parts = moves.into_iter().map(|to| WorkRange::Piece { to, into: 0 }).collect();
            (state.total_bytes, state.without_room) = (total_bytes, without_room > 0);
            return;
        }
        let Purpose::Lost { slot, .. } = purpose else { return };
        let Some(spare) = self.spares.pop_front() else {
            self.rebuilds[index].ended = true;
            self.rebuilds[index].status = RebuildStatus::NoSpare;
            return;
        };
        raid.drives[slot] = spare;
        raid.slots[slot] = Slot::Rebuilding(0);
        self.drive_slots[spare] = Some((group, slot));
        let mut ranges: Vec<(u64, u64)> = used
            .iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(at, bytes)| raid.drive_range(*at, *bytes))
            .collect();
        ranges.sort_unstable();
        let mut reached = 0;
        let state = &mut self.rebuilds[index];
        for (start, end) in ranges {
            let start = start.max(reached);
            if start < end {
                state.parts.push_back(WorkRange::Drive { slot, start, bytes: end - start });
                state.total_bytes += end - start;
                reached = end;
            }
        }
    }

    fn piece_bytes(&mut self, group: usize) -> u64 {
        self.groups[group].pool().map_or(0, |pool| pool.piece_bytes)
    }

    /// Handles the timer for the start or the next step of a rebuild.
    pub(super) fn rebuild_due(&mut self, index: usize) {
        self.rebuilds[index].is_timed = false;
        self.rebuild_step(index);
    }

    /// Starts rebuild steps up to the allowed number.
    fn rebuild_step(&mut self, index: usize) {
        if !self.rebuilds[index].started {
            self.rebuilds[index].started = true;
            self.start_rebuild(index);
        }
        let settings = self.hardware.rebuild.clone();
        let group = self.rebuilds[index].group;
        let piece_bytes = self.piece_bytes(group);
        while !self.rebuilds[index].ended
            && self.rebuilds[index].under_way.len() < settings.steps.max(1) as usize
        {
            let state = &mut self.rebuilds[index];
            if settings.mb_per_s > 0.0 && self.now_ns < state.next_step_ns {
                if !std::mem::replace(&mut state.is_timed, true) {
                    let at_ns = state.next_step_ns;
                    self.at(at_ns, Happening::Rebuild(index as u32));
                }
                return;
            }
            let Some(part) = state.parts.pop_front() else {
                self.end_rebuild(index);
                return;
            };
            let mut take = settings.step_bytes.max(4096);
            let start = match part {
                WorkRange::Drive { slot, start, bytes } => {
                    take = take.min(bytes);
                    if take < bytes {
                        let rest = WorkRange::Drive { slot, start: start + take, bytes: bytes - take };
                        state.parts.push_front(rest);
                    }
                    start
                }
                WorkRange::Piece { to, into } => {
                    // The rest of the piece comes when this step is over, so steps under way are of as many pieces.
                    take = take.min(piece_bytes - into);
                    u64::from(to.piece) * piece_bytes + into
                }
            };
            state.begun_bytes += take;
            state.status = RebuildStatus::UnderWay(state.begun_bytes as f64 / state.total_bytes as f64);
            let step = state.next_step;
            state.next_step += 1;
            state.under_way.insert(step, Step { part, start, end: start + take });
            self.issue_step(index, step);
        }
    }

    /// Issues the reads and the write of a step; a step whose data are lost is given up.
    fn issue_step(&mut self, index: usize, step: u32) {
        let state = &mut self.rebuilds[index];
        let Some(Step { part, start, end }) = state.under_way.get(&step).copied() else { return };
        let (raid, take) = (&mut self.groups[state.group], end - start);
        let (slot, reads) = match part {
            WorkRange::Drive { slot, .. } => (slot, raid.plan_rebuild(slot, start, take)),
            WorkRange::Piece { to, into } => (to.slot as usize, raid.plan_move(&to, into, take)),
        };
        let Ok(reads) = reads else {
            // What cannot be read any more, or has nowhere to go, stays as it is.
            state.under_way.remove(&step);
            match part {
                WorkRange::Drive { .. } => {
                    state.parts.clear();
                    state.lost_from = Some(state.lost_from.map_or(start, |from| from.min(start)));
                }
                WorkRange::Piece { to, .. } => {
                    raid.drop_move(&to);
                    if state.purpose != Purpose::Added {
                        match raid.slots[slot] {
                            Slot::Lost => state.without_room = true,
                            _ => state.lost_from = Some(start),
                        }
                    }
                }
            }
            return;
        };
        let mb_per_s = self.hardware.rebuild.mb_per_s;
        if mb_per_s > 0.0 {
            let pause_ns = (take as f64 * 1e3 / mb_per_s) as u64;
            state.next_step_ns = self.now_ns.max(state.next_step_ns) + pause_ns;
        }
        let to = (raid.drives[slot], start, take);
        let id = self.new_job(Kind::Rebuild { rebuild: index as u32, step });
        self.job(id).bytes = take * reads.len() as u64;
        self.job(id).then_write.push(to);
        self.job(id).remaining = 1;
        self.issue(id, &reads, false);
        self.part_done(id);
    }

    /// Handles the end of a step. What the rebuild has restored can be read, up to the first step in progress. A step
    /// that lost a drive is repeated with the drives that are left.
    pub(super) fn rebuilt(&mut self, index: usize, step: u32, is_lost: bool) {
        if is_lost {
            self.issue_step(index, step);
            self.rebuild_step(index);
            return;
        }
        let state = &mut self.rebuilds[index];
        let group = state.group;
        if let Some(Step { part, start, end }) = state.under_way.remove(&step) {
            match part {
                WorkRange::Drive { slot, .. } => {
                    let open = state.under_way.values().map(|step| step.start).chain(state.lost_from);
                    let done_to = open.fold(end, u64::min);
                    self.groups[group].slots[slot] = Slot::Rebuilding(done_to);
                }
                WorkRange::Piece { to, into } => {
                    let into = into + (end - start);
                    if into < self.piece_bytes(group) {
                        self.rebuilds[index].parts.push_front(WorkRange::Piece { to, into });
                    } else {
                        self.groups[group].settle_move(&to);
                    }
                }
            }
        }
        self.rebuild_step(index);
    }

    fn end_rebuild(&mut self, index: usize) {
        let state = &mut self.rebuilds[index];
        if !state.under_way.is_empty() {
            return;
        }
        state.ended = true;
        state.status = match (state.lost_from, state.without_room) {
            (Some(_), _) => RebuildStatus::Lost,
            (None, true) => RebuildStatus::NoSpare,
            (None, false) => RebuildStatus::Ended(Time { ns: self.now_ns }),
        };
        if let Purpose::Lost { slot, .. } = state.purpose
            && state.lost_from.is_none()
        {
            let place = &mut self.groups[state.group].slots[slot];
            if matches!(place, Slot::Rebuilding(_)) {
                *place = Slot::Healthy;
            }
        }
    }

    /// Patrol read: reads a piece of every idle drive, and repeats at the allowed rate.
    pub(super) fn patrol(&mut self, controller: usize) {
        let rate = self.hardware.controllers[controller].patrol_mb_per_s;
        let mut places = std::mem::take(&mut self.controllers[controller].patrol_next);
        for (drive, at) in &mut places {
            if self.drives[*drive].is_idle(self.now_ns) && self.drive_slots[*drive].is_some() {
                let id = self.new_job(Kind::Background);
                self.job(id).bytes = PATROL_BYTES;
                if *at + PATROL_BYTES > self.drives[*drive].capacity_bytes() {
                    *at = 0;
                }
                self.issue(id, &[(*drive, *at, PATROL_BYTES)], false);
                *at += PATROL_BYTES;
            }
        }
        self.controllers[controller].patrol_next = places;
        let pause_ns = (PATROL_BYTES as f64 * 1e3 / rate) as u64;
        self.at(self.now_ns + pause_ns.max(1), Happening::Patrol(controller as u32));
    }
}
