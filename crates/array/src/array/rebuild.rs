//! Rebuild of lost drives, and patrol reads.
//!
//! A lost slot of a RAID group is rebuilt on a spare, from the outer to the inner tracks; a row of a dynamic pool on
//! whatever drive of the pool has room. Only what volumes have used is rebuilt, if the settings say so.
//!
//! Left out: copy-back to a replaced drive, prediction of failures.

use std::collections::{BTreeMap, VecDeque};

use world::Time;

use super::{Array, Happening, Kind};
use crate::hardware::{Layout, Target};
use crate::raid::Slot;

const PATROL_BYTES: u64 = 1 << 20;

/// A range that is to be rebuilt.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Of the lost slot's drive.
    Drive { start: u64, bytes: u64 },
    /// Of a unit of a pool's row, onto this piece of this slot.
    Pool { row: usize, unit: u64, to_slot: u32, to_piece: u32 },
}

/// A step under way: its part, its first byte on the drive, its end there, and whether it ends the part.
#[derive(Debug, Clone, Copy)]
struct Step {
    part: Part,
    start: u64,
    end: u64,
    ends_part: bool,
}

/// How far the rebuild of a lost drive is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RebuildStatus {
    /// The drive has not been given up yet.
    Waiting,
    /// No spare is left: its data stay without this copy.
    NoSpare,
    /// This share of what is to be rebuilt has been begun, 0 to 1.
    UnderWay(f64),
    /// Everything is rebuilt, since this time.
    Ended(Time),
}

pub(super) struct RebuildState {
    drive: usize,
    group: usize,
    slot: usize,
    status: RebuildStatus,
    /// Bytes of all parts, and of those that have been begun.
    total_bytes: u64,
    begun_bytes: u64,
    parts: VecDeque<Part>,
    /// Bytes of the first part that have been issued.
    into: u64,
    next_step: u32,
    under_way: BTreeMap<u32, Step>,
    next_step_ns: u64,
    ended: bool,
    started: bool,
}

impl Array {
    /// How far the rebuild of `drive` is; `None` if it was not lost, or belongs to no group.
    pub fn rebuild(&self, drive: usize) -> Option<RebuildStatus> {
        self.rebuilds.iter().find(|state| state.drive == drive).map(|state| state.status)
    }

    pub(super) fn begin_rebuild(&mut self, group: usize, slot: usize, drive: usize) {
        self.drive_slots[drive] = None;
        self.rebuilds.push(RebuildState {
            drive,
            group,
            slot,
            status: RebuildStatus::Waiting,
            total_bytes: 0,
            begun_bytes: 0,
            parts: VecDeque::new(),
            into: 0,
            next_step: 0,
            under_way: BTreeMap::new(),
            next_step_ns: 0,
            ended: false,
            started: false,
        });
        let index = self.rebuilds.len() as u32 - 1;
        let start_ns = self.now_ns + (self.hardware.rebuild.start_after_ms * 1e6) as u64;
        self.at(start_ns, Happening::Rebuild(index));
    }

    /// Finds where to rebuild to, and what.
    fn start_rebuild(&mut self, index: usize) {
        let (group, slot) = (self.rebuilds[index].group, self.rebuilds[index].slot);
        let is_pool = matches!(self.hardware.groups[group].layout, Layout::DynamicPool { .. });
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
        if is_pool {
            self.plan_pool(index, group, slot, &used);
            return;
        }
        let Some(spare) = self.spares.pop_front() else {
            self.rebuilds[index].ended = true;
            self.rebuilds[index].status = RebuildStatus::NoSpare;
            return;
        };
        let raid = &mut self.groups[group];
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
        for (start, end) in ranges {
            let start = start.max(reached);
            if start < end {
                self.rebuilds[index].parts.push_back(Part::Drive { start, bytes: end - start });
                reached = end;
            }
        }
    }

    fn plan_pool(&mut self, index: usize, group: usize, slot: usize, used: &[(u64, u64)]) {
        let row_data_bytes = self.groups[group].data_units;
        let Some(pool) = self.groups[group].pool() else { return };
        let piece_bytes = pool.piece_bytes;
        let per_row = row_data_bytes * piece_bytes;
        let count = pool.next_piece.len();
        for row in 0..pool.rows.len() {
            let first = row as u64 * per_row;
            let in_use = used.iter().any(|(at, bytes)| *at < first + per_row && first < at + bytes);
            let Some(unit) = pool.rows[row].iter().position(|(at, _)| *at as usize == slot) else { continue };
            if !in_use {
                continue;
            }
            // The emptiest slot that the row does not use yet.
            let taken = pool.rows[row].clone();
            let free =
                (0..count).filter(|to| *to != slot && !taken.iter().any(|(at, _)| *at as usize == *to));
            let Some(to) = free.min_by_key(|to| pool.next_piece[*to]) else { continue };
            let to_piece = pool.next_piece[to];
            pool.next_piece[to] += 1;
            let part = Part::Pool { row, unit: unit as u64, to_slot: to as u32, to_piece };
            self.rebuilds[index].parts.push_back(part);
        }
    }

    /// Begins steps while the settings allow more under way.
    pub(super) fn rebuild_step(&mut self, index: usize) {
        if !self.rebuilds[index].started {
            self.rebuilds[index].started = true;
            self.start_rebuild(index);
            let piece_bytes =
                self.groups[self.rebuilds[index].group].pool().map_or(0, |pool| pool.piece_bytes);
            let parts = self.rebuilds[index].parts.iter().map(|part| match part {
                Part::Drive { bytes, .. } => *bytes,
                Part::Pool { .. } => piece_bytes,
            });
            self.rebuilds[index].total_bytes = parts.sum();
        }
        let settings = self.hardware.rebuild.clone();
        while !self.rebuilds[index].ended
            && self.rebuilds[index].under_way.len() < settings.steps.max(1) as usize
        {
            let state = &mut self.rebuilds[index];
            if settings.mb_per_s > 0.0 && self.now_ns < state.next_step_ns {
                let at_ns = state.next_step_ns;
                self.at(at_ns, Happening::Rebuild(index as u32));
                return;
            }
            let Some(part) = state.parts.front().copied() else {
                self.end_rebuild(index);
                return;
            };
            let group = state.group;
            let (length, into) = match part {
                Part::Drive { bytes, .. } => (bytes, state.into),
                Part::Pool { .. } => {
                    (self.groups[group].pool().map_or(0, |pool| pool.piece_bytes), state.into)
                }
            };
            let state = &mut self.rebuilds[index];
            let mut take = settings.step_bytes.max(4096).min(length - into);
            let raid = &self.groups[group];
            let (reads, to) = match part {
                Part::Drive { start, .. } => {
                    let to = (raid.drives[state.slot], start + into, take);
                    (raid.plan_rebuild(state.slot, start + into, take), to)
                }
                Part::Pool { row, unit, to_slot, to_piece } => {
                    take = take.min(raid.element_bytes - into % raid.element_bytes);
                    let byte = u64::from(to_piece) * length + into;
                    let to = (raid.drives[to_slot as usize], byte, take);
                    (raid.plan_pool_rebuild(row, unit, into, take), to)
                }
            };
            state.begun_bytes += take;
            state.status = RebuildStatus::UnderWay(state.begun_bytes as f64 / state.total_bytes as f64);
            state.into += take;
            if state.into >= length {
                state.parts.pop_front();
                state.into = 0;
            }
            let Ok(reads) = reads else { continue };
            let ends_part = into + take >= length;
            let step = state.next_step;
            state.next_step += 1;
            state.under_way.insert(step, Step { part, start: to.1, end: to.1 + take, ends_part });
            if settings.mb_per_s > 0.0 {
                let pause_ns = (take as f64 * 1e3 / settings.mb_per_s) as u64;
                state.next_step_ns = self.now_ns.max(state.next_step_ns) + pause_ns;
            }
            let id = self.new_job(Kind::Rebuild { rebuild: index as u32, step });
            self.job(id).bytes = take * reads.len() as u64;
            self.job(id).then_write.push(to);
            self.job(id).remaining = 1;
            self.issue(id, &reads, false);
            self.part_done(id);
        }
    }

    /// A step is on the drive: what it rebuilt can be read, up to the first step that still is under way.
    pub(super) fn rebuilt(&mut self, index: usize, step: u32) {
        let state = &mut self.rebuilds[index];
        let (group, slot) = (state.group, state.slot);
        if let Some(Step { part, end, ends_part, .. }) = state.under_way.remove(&step) {
            let first_open = state.under_way.values().map(|step| step.start).min();
            match part {
                Part::Drive { .. } => {
                    let done_to = first_open.map_or(end, |open| open.min(end));
                    self.groups[group].slots[slot] = Slot::Rebuilding(done_to);
                }
                Part::Pool { row, unit, to_slot, to_piece } if ends_part => {
                    if let Some(pool) = self.groups[group].pool() {
                        pool.rows[row][unit as usize] = (to_slot, to_piece);
                    }
                }
                Part::Pool { .. } => {}
            }
        }
        self.rebuild_step(index);
    }

    fn end_rebuild(&mut self, index: usize) {
        let (group, slot) = (self.rebuilds[index].group, self.rebuilds[index].slot);
        if !self.rebuilds[index].under_way.is_empty() {
            return;
        }
        self.rebuilds[index].ended = true;
        self.rebuilds[index].status = RebuildStatus::Ended(Time { ns: self.now_ns });
        if matches!(self.groups[group].slots[slot], Slot::Rebuilding(_)) {
            self.groups[group].slots[slot] = Slot::Healthy;
        }
    }

    /// Reads a piece of every idle drive, and comes back when the rate allows the next.
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
