//! Pools of several kinds of disks: slices of the volumes lie on the tier that their reads and writes earn.
//!
//! * A tier is a RAID group. A slice lies in a slot of one tier, whole. At the start slices are spread over the
//!   tiers evenly, as much of the room of each as of the others.
//! * Reads and writes that reach the groups for hosts are counted by slice; the counts fade. At every
//!   relocation slices that hold data are ranked: the busiest belong on the fastest tier until its room is
//!   given away, and so on. Of equals, those that lie on a faster tier stay. What is not where it belongs is
//!   moved, one slice after another, at a set rate at most: the busiest up if there is a free slot for it, else
//!   the least busy down.
//! * A slice is read and written at its old place until all of it has moved. What cannot be read any more, or
//!   has nowhere to go because its tier is lost, stays.
//! * Slices that hold no data are moved without a read.
//!
//! Invariants
//! 1. Every slice has a slot of its own, and no tier has more slices than slots.
//! 2. As long as no tier is lost, relocation ends with every slice where it belongs: the room of all tiers that
//!    is kept free lets some slice move as long as one is to.
//!
//! Left out: limits of a tier's throughput in the ranking, evening out within a tier, writes to a slice while
//! it moves (they go to its old place only), rules for single volumes.

use smallvec::{SmallVec, smallvec};

use super::{Array, Happening, JobId, Kind};
use crate::hardware::TieredPool;
use crate::raid::{Access, Raid};
use crate::residency::exp_minus;
use crate::space::parts;

/// Ranges of groups' own drives: group, first byte, bytes. An untiered group has one.
pub(super) type Places = SmallVec<[Access; 1]>;

struct Tier {
    group: usize,
    /// Size of a slot, bytes: a slice, rounded up to whole rows of the group.
    slot_bytes: u64,
    slots: u64,
    /// Number of slots that may hold a slice permanently.
    room: u64,
    /// First slot that has never been used.
    next: u64,
    free: Vec<u64>,
    slices: u64,
    /// Reads and writes of hosts since the statistics began.
    reads: u64,
    writes: u64,
}

impl Tier {
    fn has_slot(&self) -> bool {
        self.next < self.slots || !self.free.is_empty()
    }

    fn take(&mut self) -> Option<u64> {
        let slot = self.free.pop().or_else(|| (self.next < self.slots).then_some(self.next))?;
        self.next = self.next.max(slot + 1);
        Some(slot)
    }
}

#[derive(Clone, Copy)]
struct Slice {
    tier: usize,
    slot: u64,
    /// Weighted number of reads and writes, halved over time.
    heat: f64,
    /// Tier to which the slice belongs by its weight.
    wanted: usize,
}

/// Slice being moved: its slot on the new tier, and the bytes that are there.
#[derive(Clone, Copy)]
struct Moving {
    slice: usize,
    tier: usize,
    slot: u64,
    into: u64,
}

pub(super) struct TieringState {
    slice_bytes: u64,
    tiers: Vec<Tier>,
    slices: Vec<Slice>,
    /// Slices that hold data.
    in_use: Vec<bool>,
    /// Slices on the wrong tier, busiest first.
    misplaced: Vec<usize>,
    moving: Option<Moving>,
    /// Whether moves are in progress.
    is_active: bool,
    next_step_ns: u64,
    relocations: u64,
    relocated: u64,
}

/// Refuses values that make no pool.
pub(super) fn check(pool: &TieredPool) -> Result<(), String> {
    if pool.tiers.len() < 2 {
        return Err("needs two tiers at least".into());
    }
    if pool.slice_bytes == 0 || !pool.slice_bytes.is_multiple_of(4096) {
        return Err("a slice must be a multiple of 4096 bytes".into());
    }
    if pool.every_s.is_nan() || pool.every_s < 1.0 {
        return Err("slices are relocated every second at most".into());
    }
    let is_good = pool.half_life_h > 0.0
        && pool.moves_mb_per_s > 0.0
        && (0.0..100.0).contains(&pool.free_pct)
        && pool.half_life_h.is_finite()
        && pool.moves_mb_per_s.is_finite();
    if is_good {
        Ok(())
    } else {
        Err("half_life_h and moves_mb_per_s lie above 0, free_pct from 0 to 100".into())
    }
}

impl TieringState {
    /// Creates the tiers over these groups, each with the bytes of its rows. `used_bytes`: end of the volumes in a
    /// space of this many bytes.
    pub fn new(
        pool: &TieredPool,
        groups: &[Raid],
        row_bytes: impl Fn(usize) -> u64,
        used_bytes: impl Fn(u64) -> u64,
    ) -> TieringState {
        let tiers = pool.tiers.iter().map(|group| {
            let slot_bytes = pool.slot_bytes(row_bytes(*group));
            let slots = groups[*group].capacity_bytes / slot_bytes;
            let room = pool.slices(groups[*group].capacity_bytes, row_bytes(*group));
            Tier {
                group: *group,
                slot_bytes,
                slots,
                room,
                next: 0,
                free: Vec::new(),
                slices: 0,
                reads: 0,
                writes: 0,
            }
        });
        let mut state = TieringState {
            slice_bytes: pool.slice_bytes,
            tiers: tiers.collect(),
            slices: Vec::new(),
            in_use: Vec::new(),
            misplaced: Vec::new(),
            moving: None,
            is_active: false,
            next_step_ns: 0,
            relocations: 0,
            relocated: 0,
        };
        let count = used_bytes(state.capacity_bytes()).div_ceil(state.slice_bytes);
        for _ in 0..count {
            // The tier of whose room least is taken; the fastest of equals.
            let with_room =
                (0..state.tiers.len()).filter(|tier| state.tiers[*tier].slices < state.tiers[*tier].room);
            let emptiest = with_room.reduce(|a, b| {
                let [of_a, of_b] = [a, b].map(|tier| &state.tiers[tier]);
                if of_b.slices * of_a.room < of_a.slices * of_b.room { b } else { a }
            });
            let Some((tier, slot)) = emptiest.and_then(|tier| Some((tier, state.tiers[tier].take()?))) else {
                break;
            };
            state.tiers[tier].slices += 1;
            state.slices.push(Slice { tier, slot, heat: 0.0, wanted: tier });
        }
        state
    }

    /// Bytes that volumes may use.
    pub fn capacity_bytes(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.room).sum::<u64>() * self.slice_bytes
    }

    pub fn groups(&self) -> impl Iterator<Item = usize> {
        self.tiers.iter().map(|tier| tier.group)
    }

    /// Group and offset of a byte of the pool.
    pub fn place(&self, at: u64) -> (usize, u64) {
        let slice = self.slices[(at / self.slice_bytes) as usize];
        let (group, byte) = self.slot_at(slice.tier, slice.slot);
        (group, byte + at % self.slice_bytes)
    }

    fn slot_at(&self, tier: usize, slot: u64) -> (usize, u64) {
        let tier = &self.tiers[tier];
        (tier.group, slot * tier.slot_bytes)
    }

    /// Slots of a group that hold a slice, or receive one.
    pub fn used_ranges(&self, group: usize) -> Vec<(u64, u64)> {
        let held = self.slices.iter().map(|slice| (slice.tier, slice.slot));
        let coming = self.moving.iter().map(|moving| (moving.tier, moving.slot));
        let slots = held.chain(coming).map(|(tier, slot)| self.slot_at(tier, slot));
        slots.filter(|(on, _)| *on == group).map(|(_, byte)| (byte, self.slice_bytes)).collect()
    }

    fn count(&mut self, start: u64, bytes: u64, is_write: bool) {
        for slice in start / self.slice_bytes..=(start + bytes - 1) / self.slice_bytes {
            let slice = &mut self.slices[slice as usize];
            slice.heat += 1.0;
            let tier = &mut self.tiers[slice.tier];
            *(if is_write { &mut tier.writes } else { &mut tier.reads }) += 1;
        }
    }

    pub fn reset_statistics(&mut self) {
        self.tiers.iter_mut().for_each(|tier| (tier.reads, tier.writes) = (0, 0));
    }

    /// Decides the tier of each slice. `used`: ranges of the pool that hold data; `kept`: share of the weights that is
    /// kept.
    fn rank(&mut self, used: &[(u64, u64)], kept: f64) {
        self.in_use = vec![false; self.slices.len()];
        for (at, bytes) in used.iter().filter(|(_, bytes)| *bytes > 0) {
            let last = ((at + bytes - 1) / self.slice_bytes).min(self.slices.len() as u64 - 1);
            self.in_use[(at / self.slice_bytes) as usize..=last as usize].fill(true);
        }
        let mut order: Vec<usize> = (0..self.slices.len()).collect();
        order.sort_by(|a, b| {
            let (x, y) = (&self.slices[*a], &self.slices[*b]);
            let by_use = self.in_use[*b].cmp(&self.in_use[*a]);
            by_use.then(y.heat.total_cmp(&x.heat)).then(x.tier.cmp(&y.tier)).then(a.cmp(b))
        });
        let rooms = self.tiers.iter().enumerate();
        let wanted = rooms.flat_map(|(tier, of_tier)| std::iter::repeat_n(tier, of_tier.room as usize));
        for (slice, wanted) in order.iter().zip(wanted) {
            self.slices[*slice].wanted = wanted;
            self.slices[*slice].heat *= kept;
        }
        let on_its_way = self.moving.map(|moving| moving.slice);
        let is_misplaced = |slice: &usize| {
            self.slices[*slice].wanted != self.slices[*slice].tier && on_its_way != Some(*slice)
        };
        self.misplaced = order.into_iter().filter(is_misplaced).collect();
    }

    /// Next slice to move, with a slot for it.
    fn next_move(&mut self) -> Option<Moving> {
        let has_slot = |slice: &usize| self.tiers[self.slices[*slice].wanted].has_slot();
        let is_up = |slice: &usize| self.slices[*slice].wanted < self.slices[*slice].tier;
        let up = self.misplaced.iter().position(|slice| is_up(slice) && has_slot(slice));
        let index = up.or_else(|| self.misplaced.iter().rposition(has_slot))?;
        let slice = self.misplaced.remove(index);
        let tier = self.slices[slice].wanted;
        let slot = self.tiers[tier].take()?;
        Some(Moving { slice, tier, slot, into: 0 })
    }

    /// Notes that all of a slice is at its new place.
    fn settle(&mut self, Moving { slice, tier, slot, .. }: Moving) {
        let Slice { tier: old_tier, slot: old_slot, .. } = self.slices[slice];
        self.tiers[old_tier].free.push(old_slot);
        self.tiers[old_tier].slices -= 1;
        self.tiers[tier].slices += 1;
        (self.slices[slice].tier, self.slices[slice].slot) = (tier, slot);
        self.relocated += u64::from(self.in_use[slice]);
        if self.slices[slice].wanted != tier {
            self.misplaced.push(slice);
        }
    }

    /// Cancels the move of a slice, which stays where it is.
    fn drop_move(&mut self, Moving { tier, slot, .. }: Moving) {
        self.tiers[tier].free.push(slot);
    }

    /// Reads and writes of hosts that each tier served.
    pub fn served(&self) -> (u64, u64) {
        let served = self.tiers.iter().map(|tier| (tier.reads, tier.writes));
        served.fold((0, 0), |all, tier| (all.0 + tier.0, all.1 + tier.1))
    }

    /// State of slices and tiers for people.
    pub fn state(&self) -> String {
        let gib = |slices: u64| (slices * self.slice_bytes) as f64 / f64::from(1 << 30);
        let (reads, writes) = self.served();
        let tiers = self.tiers.iter().map(|tier| {
            let share = (tier.reads + tier.writes) as f64 / (reads + writes).max(1) as f64 * 100.0;
            format!("{:.1} of {:.1} GiB with {share:.0} % of the I/O", gib(tier.slices), gib(tier.slots))
        });
        let mut words = format!("tiers: {}", tiers.collect::<Vec<_>>().join(", "));
        if self.relocations > 0 {
            let left = self.misplaced.iter().filter(|slice| self.in_use[**slice]).count() as u64;
            let left = left + u64::from(self.moving.is_some());
            words += &format!(", {:.1} GiB relocated, {:.1} to be", gib(self.relocated), gib(left));
        }
        words
    }
}

impl Array {
    /// Places of a range of a group: on its own drives, or on those of the tiers of its pool.
    pub(super) fn places(&self, group: usize, start: u64, bytes: u64) -> Places {
        let Some(state) = &self.tiering[group] else { return smallvec![(group, start, bytes)] };
        let place = |(at, bytes)| {
            let (group, byte) = state.place(at);
            (group, byte, bytes)
        };
        parts((start, bytes), state.slice_bytes).map(place).collect()
    }

    /// Bytes that volumes may use of a group, or of the pool that it stands for.
    pub(super) fn capacity_of(&self, group: usize) -> u64 {
        capacity_bytes(&self.groups, &self.tiering, group)
    }

    /// Drives of a group, or of all tiers of the pool that it stands for.
    pub(super) fn drives_of(&self, group: usize) -> Vec<usize> {
        match &self.tiering[group] {
            Some(state) => state.groups().flat_map(|tier| self.groups[tier].drives.clone()).collect(),
            None => self.groups[group].drives.clone(),
        }
    }

    /// Counts a host's read or write of a range for the slices of a pool.
    pub(super) fn count_on_slices(&mut self, id: JobId, group: usize, start: u64, bytes: u64) {
        let kind = self.job(id).kind;
        let is_write = matches!(kind, Kind::WriteThrough | Kind::Destage { .. });
        let is_of_hosts = is_write || matches!(kind, Kind::Read | Kind::Ahead { .. });
        if let Some(state) = self.tiering[group].as_mut().filter(|_| is_of_hosts) {
            state.count(start, bytes, is_write);
        }
    }

    pub(super) fn plan_relocation(&mut self, pool: usize) {
        let every_ns = (self.hardware.tiered_pools[pool].every_s * 1e9) as u64;
        self.at(self.now_ns + every_ns, Happening::Relocate(pool as u32));
    }

    /// Relocation: ranks the slices of a pool, and begins to move those on the wrong tier.
    pub(super) fn relocate(&mut self, pool: usize) {
        self.plan_relocation(pool);
        let settings = &self.hardware.tiered_pools[pool];
        let (group, is_settled) = (settings.base(), settings.settled);
        let half_lives = settings.every_s / (settings.half_life_h * 3600.0);
        let used = self.used_by_volumes(group);
        let Some(state) = &mut self.tiering[group] else { return };
        state.relocations += 1;
        state.rank(&used, exp_minus(std::f64::consts::LN_2 * half_lives));
        if is_settled && state.relocations == 1 {
            // The pool is settled: its slices have long been on their tiers, so no data move.
            while let Some(next) = state.next_move() {
                state.settle(next);
            }
            state.relocated = 0;
        } else if !std::mem::replace(&mut state.is_active, true) {
            let at_ns = state.next_step_ns.max(self.now_ns);
            self.at(at_ns, Happening::MoveSlice(pool as u32));
        }
    }

    /// Moves the next part of a slice.
    pub(super) fn move_slice(&mut self, pool: usize) {
        let settings = &self.hardware.tiered_pools[pool];
        let (group, mb_per_s) = (settings.base(), settings.moves_mb_per_s);
        let step_bytes = self.hardware.rebuild.step_bytes.max(4096);
        let Some(state) = &mut self.tiering[group] else { return };
        while state.moving.is_none() {
            let Some(next) = state.next_move() else {
                state.is_active = false;
                return;
            };
            if state.in_use[next.slice] {
                state.moving = Some(next);
            } else {
                state.settle(next);
            }
        }
        let Some(moving) = state.moving else { return };
        let bytes = step_bytes.min(state.slice_bytes - moving.into);
        let old = state.slices[moving.slice];
        let ((source, from), (target, to)) =
            (state.slot_at(old.tier, old.slot), state.slot_at(moving.tier, moving.slot));
        state.next_step_ns = self.now_ns + (bytes as f64 * 1e3 / mb_per_s) as u64;
        let id = self.new_job(Kind::MoveSlice { pool: pool as u32 });
        self.job(id).bytes = bytes;
        self.job(id).remaining = 1;
        self.read_raid(id, source, from + moving.into, bytes, None);
        self.copy_to_raid(id, target, to + moving.into, bytes);
        self.part_done(id);
    }

    /// Handles the end of a moved part of a slice, or its failure.
    pub(super) fn slice_part_moved(&mut self, pool: usize, bytes: u64, is_lost: bool) {
        let Some(state) = &mut self.tiering[self.hardware.tiered_pools[pool].base()] else { return };
        if let Some(mut moving) = state.moving.take() {
            moving.into += bytes;
            if is_lost {
                state.drop_move(moving);
            } else if moving.into >= state.slice_bytes {
                state.settle(moving);
            } else {
                state.moving = Some(moving);
            }
        }
        let at_ns = state.next_step_ns.max(self.now_ns);
        self.at(at_ns, Happening::MoveSlice(pool as u32));
    }
}

/// Bytes that volumes may use of a group, or of the pool that it stands for.
pub(super) fn capacity_bytes(groups: &[Raid], tiering: &[Option<TieringState>], group: usize) -> u64 {
    tiering[group].as_ref().map_or(groups[group].capacity_bytes, TieringState::capacity_bytes)
}

/// Drive set of a byte of a group, and the place there.
pub(super) fn column(
    groups: &[Raid],
    tiering: &[Option<TieringState>],
    group: usize,
    at: u64,
) -> (usize, u64) {
    match &tiering[group] {
        Some(state) => {
            let (group, byte) = state.place(at);
            groups[group].column(byte)
        }
        None => groups[group].column(at),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::hardware::{Group, Layout, MirrorReads};

    const SLICE_BYTES: u64 = 1 << 20;

    /// Tiers with this many slots, fastest first, and one slice less than there is room for.
    fn state(slots: &[u64]) -> (Vec<Raid>, TieringState) {
        let group = |drive| Group {
            name: "tier".into(),
            layout: Layout::Raid0,
            drives: vec![drive],
            stripe_element_bytes: 4096,
            mirror_reads: MirrorReads::Alternate,
        };
        let raid = |(drive, slots): (usize, &u64)| {
            Raid::new(&group(drive), slots * SLICE_BYTES, 1).expect("a group")
        };
        let pool = TieredPool {
            tiers: (0..slots.len()).collect(),
            every_s: 60.0,
            settled: false,
            slice_bytes: SLICE_BYTES,
            free_pct: 10.0,
            half_life_h: 24.0,
            moves_mb_per_s: 50.0,
        };
        check(&pool).expect("a pool");
        let raids: Vec<Raid> = slots.iter().enumerate().map(raid).collect();
        let state = TieringState::new(&pool, &raids, |_| 4096, |capacity_bytes| capacity_bytes - SLICE_BYTES);
        (raids, state)
    }

    /// Checks that every slice has a slot of its own that its tier has.
    fn look(state: &TieringState) {
        let mut taken: BTreeSet<(usize, u64)> = BTreeSet::new();
        let coming = state.moving.iter().map(|moving| (moving.tier, moving.slot));
        for (tier, slot) in state.slices.iter().map(|slice| (slice.tier, slice.slot)).chain(coming) {
            assert!(
                slot < state.tiers[tier].slots && taken.insert((tier, slot)),
                "slot {slot} of tier {tier}"
            );
        }
        for (index, tier) in state.tiers.iter().enumerate() {
            let on_it = state.slices.iter().filter(|slice| slice.tier == index).count() as u64;
            let coming = state.moving.iter().filter(|moving| moving.tier == index).count() as u64;
            let free = tier.free.len() as u64 + tier.slots - tier.next;
            assert_eq!((tier.slices, on_it + coming + free), (on_it, tier.slots));
        }
    }

    proptest! {
        #[test]
        fn no_tier_is_overfilled_and_all_slices_come_to_where_they_belong(
            slots in proptest::collection::vec(2u64..40, 2..5),
            busy in proptest::collection::vec((0u64..100, 1u64..9), 0..60),
            interrupted in 0usize..20,
        ) {
            let (_, mut state) = state(&slots);
            let all = [(0, state.slices.len() as u64 * SLICE_BYTES)];
            look(&state);
            for round in 0..2 {
                for (slice, count) in &busy {
                    let at = (slice + round * 7) % state.slices.len() as u64 * SLICE_BYTES;
                    (0..*count).for_each(|_| state.count(at, 4096, false));
                }
                state.rank(&all, 0.5);
                // The second ranking finds a slice on its way.
                let mut moves = if round == 0 { interrupted } else { usize::MAX };
                while moves > 0 {
                    match state.moving.take() {
                        // As if its tier were lost.
                        Some(moving) if round == 0 && moves % 3 == 0 => state.drop_move(moving),
                        Some(moving) => state.settle(moving),
                        None => {}
                    }
                    let Some(next) = state.next_move() else { break };
                    state.moving = Some(next);
                    look(&state);
                    moves -= 1;
                }
            }
            prop_assert!(state.moving.is_none() && state.misplaced.is_empty());
            prop_assert!(state.slices.iter().all(|slice| slice.tier == slice.wanted));
            let coldest = |tier| {
                let on_it = state.slices.iter().filter(|slice| slice.tier == tier);
                on_it.map(|slice| slice.heat).fold(f64::INFINITY, f64::min)
            };
            let hottest = |tier| {
                let on_it = state.slices.iter().filter(|slice| slice.tier == tier);
                on_it.map(|slice| slice.heat).fold(0.0, f64::max)
            };
            for tier in 1..slots.len() {
                prop_assert!(hottest(tier) <= coldest(tier - 1), "tier {}", tier);
            }
        }
    }

    #[test]
    fn a_place_of_the_pool_is_destaged_to_the_drives_of_its_tier() {
        let (groups, pool) = state(&[4, 12]);
        let tiers: Vec<usize> = pool.slices.iter().map(|slice| slice.tier).collect();
        let tiering = [None, Some(pool)];
        let drives =
            (0..tiers.len() as u64).map(|slice| column(&groups, &tiering, 1, slice * SLICE_BYTES + 4096).0);
        assert_eq!(drives.collect::<Vec<_>>(), tiers);
        assert_eq!(column(&groups, &[None, None], 1, 4096), (1, 4096));
    }

    #[test]
    fn the_weight_of_what_was_read_halves_in_its_time() {
        let (_, mut state) = state(&[10, 20]);
        state.count(0, 2 * SLICE_BYTES, false);
        assert_eq!((state.slices[0].heat, state.slices[1].heat, state.slices[2].heat), (1.0, 1.0, 0.0));
        for _ in 0..24 {
            state.rank(&[], exp_minus(std::f64::consts::LN_2 / 24.0));
        }
        assert!((state.slices[0].heat - 0.5).abs() < 1e-3, "{}", state.slices[0].heat);
    }
}
