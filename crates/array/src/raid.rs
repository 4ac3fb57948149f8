//! Layouts: which drives hold a byte of a group, and which commands a read or a write of it takes.
//!
//! Invariants
//! 1. Two bytes of a group never share a place on a drive, and a row never has two units on one drive.
//! 2. A command never goes to a lost drive, nor reads what is not rebuilt yet.
//! 3. A small write of a parity row takes the cheaper of read-modify-write and reconstruct-write.
//!
//! Left out: checksums beside data, read errors of single sectors, parity computation time, the write hole (contents
//! are the world's business).

mod pool;

use smallvec::SmallVec;

use crate::hardware::{Group, Layout, MirrorReads};
use crate::mix;
use crate::space::parts;
pub(crate) use pool::PieceMove;
use pool::Pool;

/// Command for a drive: drive, first byte, bytes.
pub(crate) type Access = (usize, u64, u64);
pub(crate) type Accesses = SmallVec<[Access; 4]>;

/// The group has lost more drives than its layout can miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Healthy,
    Lost,
    /// Rebuilt below this byte of the drive.
    Rebuilding(u64),
}

pub(crate) struct Raid {
    /// Drive in each slot.
    pub drives: Vec<usize>,
    pub slots: Vec<Slot>,
    pub element_bytes: u64,
    pub data_units: u64,
    pub parity_units: u64,
    copies: u64,
    pub capacity_bytes: u64,
    pool: Option<Pool>,
    mirror_reads: MirrorReads,
    turn: u64,
    seed: u64,
}

fn named(layout: Layout) -> String {
    match layout {
        Layout::Raid0 => "RAID 0".into(),
        Layout::Raid1 => "RAID 1".into(),
        Layout::Raid10 => "RAID 10, which takes pairs".into(),
        Layout::Raid5 => "RAID 5".into(),
        Layout::Raid6 => "RAID 6".into(),
        Layout::TripleParity => "triple parity".into(),
        Layout::DynamicPool { width, .. } => format!("a dynamic pool with rows over {width} drives"),
    }
}

impl Raid {
    /// Creates a group. `drive_bytes`: capacity of the smallest drive.
    pub fn new(group: &Group, drive_bytes: u64, seed: u64) -> Result<Raid, String> {
        let count = group.drives.len() as u64;
        let (least, data_units, parity_units, copies) = match group.layout {
            Layout::Raid0 => (1, count, 0, 1),
            Layout::Raid1 => (2, 1, 0, count),
            Layout::Raid10 => (2, count / 2, 0, 2),
            Layout::Raid5 => (3, count.saturating_sub(1), 1, 1),
            Layout::Raid6 => (4, count.saturating_sub(2), 2, 1),
            Layout::TripleParity => (5, count.saturating_sub(3), 3, 1),
            Layout::DynamicPool { width, .. } => {
                (u64::from(width).max(4), u64::from(width).saturating_sub(2), 2, 1)
            }
        };
        if count < least || (group.layout == Layout::Raid10 && !count.is_multiple_of(2)) {
            return Err(format!("{count} drives do not make {}", named(group.layout)));
        }
        if group.stripe_element_bytes == 0 || !group.stripe_element_bytes.is_multiple_of(4096) {
            return Err("the stripe element must be a multiple of 4096 bytes".into());
        }
        let striped = data_units > 1;
        let element_bytes = if striped { group.stripe_element_bytes } else { drive_bytes };
        if drive_bytes < element_bytes {
            return Err(format!("a drive of {drive_bytes} bytes holds no stripe element of {element_bytes}"));
        }
        let mut raid = Raid {
            drives: group.drives.clone(),
            slots: vec![Slot::Healthy; group.drives.len()],
            element_bytes,
            data_units,
            parity_units,
            copies,
            capacity_bytes: drive_bytes / element_bytes * element_bytes * data_units,
            pool: None,
            mirror_reads: group.mirror_reads,
            turn: 0,
            seed,
        };
        if let Layout::DynamicPool { width, piece_bytes, spare_drives } = group.layout {
            if piece_bytes == 0 || !piece_bytes.is_multiple_of(element_bytes) {
                return Err("the piece of a pool must be a multiple of the stripe element".into());
            }
            let pool = Pool::new(count, u64::from(width), piece_bytes, drive_bytes, spare_drives, seed);
            raid.capacity_bytes = pool.rows.len() as u64 * piece_bytes * data_units;
            raid.pool = Some(pool);
        }
        Ok(raid)
    }

    pub fn pool(&mut self) -> Option<&mut Pool> {
        self.pool.as_mut()
    }

    /// Slot and byte of unit `unit` of a row; data units first, then mirrors or parities.
    #[inline]
    fn place(&self, row: u64, unit: u64) -> (usize, u64) {
        let count = self.drives.len() as u64;
        if let Some(pool) = &self.pool {
            let rows_per_piece = pool.piece_bytes / self.element_bytes;
            // Parities move on by one drive with each row of elements.
            let position = (unit + row) % (self.data_units + self.parity_units);
            let (slot, piece) = pool.rows[(row / rows_per_piece) as usize][position as usize];
            let byte = u64::from(piece) * pool.piece_bytes + row % rows_per_piece * self.element_bytes;
            return (slot as usize, byte);
        }
        let byte = row * self.element_bytes;
        let slot = if self.parity_units > 0 {
            // Left-symmetric: the parities move one drive to the left with each row, data follow behind them.
            let first_parity = count - 1 - row % count;
            let behind =
                if unit < self.data_units { self.parity_units + unit } else { unit - self.data_units };
            (first_parity + behind) % count
        } else if self.copies > 1 {
            // Mirrors side by side; `unit` above the data units names the further copies.
            unit % self.data_units * self.copies + unit / self.data_units
        } else {
            unit
        };
        (slot as usize, byte)
    }

    fn readable(&self, slot: usize, byte: u64, bytes: u64) -> bool {
        match self.slots[slot] {
            Slot::Healthy => true,
            Slot::Lost => false,
            Slot::Rebuilding(done) => byte + bytes <= done,
        }
    }

    fn writable(&self, slot: usize) -> bool {
        self.slots[slot] != Slot::Lost
    }

    /// Drive set of a byte, and the place there, by which destages are sorted.
    pub fn column(&self, start: u64) -> (usize, u64) {
        let unit = start / self.element_bytes;
        let (slot, byte) = self.place(unit / self.data_units, unit % self.data_units);
        (self.drives[slot], byte + start % self.element_bytes)
    }

    /// Calls `part(row, unit, first byte in the unit, bytes)` for each element of a range.
    fn for_elements(&self, start: u64, bytes: u64, mut part: impl FnMut(u64, u64, u64, u64)) {
        for (at, take) in parts((start, bytes), self.element_bytes) {
            let (unit, into) = (at / self.element_bytes, at % self.element_bytes);
            part(unit / self.data_units, unit % self.data_units, into, take);
        }
    }

    /// Drive and offset of a range that is read from a single place.
    #[inline]
    pub fn only_place(&self, start: u64, bytes: u64) -> Option<(usize, u64)> {
        let (unit, into) = (start / self.element_bytes, start % self.element_bytes);
        if self.copies > 1 || into + bytes > self.element_bytes {
            return None;
        }
        let (slot, byte) = self.place(unit / self.data_units, unit % self.data_units);
        self.readable(slot, byte + into, bytes).then(|| (self.drives[slot], byte + into))
    }

    /// Appends the commands for a read to `accesses`. A stream stays on one mirror. `queued` returns the commands
    /// under way on a drive.
    #[inline]
    pub fn plan_read(
        &mut self,
        (start, bytes): (u64, u64),
        pin: Option<u64>,
        queued: impl Fn(usize) -> u32,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Lost> {
        if self.copies > 1 {
            return self.plan_mirrored_read((start, bytes), pin, queued, accesses);
        }
        let mut lost = false;
        self.for_elements(start, bytes, |row, unit, into, take| {
            let (slot, byte) = self.place(row, unit);
            if self.readable(slot, byte + into, take) {
                accesses.push((self.drives[slot], byte + into, take));
                return;
            }
            let before = accesses.len();
            accesses.extend(self.survivors(row, unit, into, take));
            lost |= (accesses.len() - before) as u64 != self.data_units || self.parity_units == 0;
        });
        if lost { Err(Lost) } else { Ok(()) }
    }

    fn plan_mirrored_read(
        &mut self,
        (start, bytes): (u64, u64),
        pin: Option<u64>,
        queued: impl Fn(usize) -> u32,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Lost> {
        let mut lost = false;
        let mut turn = self.turn;
        self.for_elements(start, bytes, |row, unit, into, take| {
            let at = |copy: u64| {
                let (slot, byte) = self.place(row, unit + copy * self.data_units);
                (slot, byte + into)
            };
            let good = |copy: &u64| {
                let (slot, byte) = at(*copy);
                self.readable(slot, byte, take)
            };
            let wished = match (pin, self.mirror_reads) {
                (Some(stream), _) => stream % self.copies,
                (None, MirrorReads::Primary) => 0,
                (None, MirrorReads::Alternate) => turn % self.copies,
                (None, MirrorReads::Random) => mix(self.seed ^ turn) % self.copies,
                (None, MirrorReads::ShortestQueue) => {
                    let length = |copy: &u64| queued(self.drives[at(*copy).0]);
                    (0..self.copies).filter(good).min_by_key(length).unwrap_or(0)
                }
            };
            turn += 1;
            match Some(wished).filter(good).or_else(|| (0..self.copies).find(good)) {
                Some(copy) => accesses.push((self.drives[at(copy).0], at(copy).1, take)),
                None => lost = true,
            }
        });
        self.turn = turn;
        if lost { Err(Lost) } else { Ok(()) }
    }

    /// Units that must be read to reconstruct a unit of a row: as many as there are data units.
    fn survivors(&self, row: u64, unit: u64, into: u64, bytes: u64) -> Accesses {
        let units = self.data_units + self.parity_units;
        let others = (0..units).filter(|other| *other != unit).map(|other| self.place(row, other));
        let readable = others.filter(|(slot, byte)| self.readable(*slot, byte + into, bytes));
        readable
            .take(self.data_units as usize)
            .map(|(slot, byte)| (self.drives[slot], byte + into, bytes))
            .collect()
    }

    /// Commands for a write: first those that read, then those that write.
    pub fn plan_write(&self, start: u64, bytes: u64) -> Result<(Accesses, Accesses), Lost> {
        let (mut reads, mut writes) = (Accesses::new(), Accesses::new());
        let mut lost = false;
        if self.parity_units == 0 {
            self.for_elements(start, bytes, |row, unit, into, take| {
                // A copy that is not rebuilt yet takes writes, but no reads: alone it does not hold them.
                let mut is_held = false;
                for copy in 0..self.copies {
                    let (slot, byte) = self.place(row, unit + copy * self.data_units);
                    if self.writable(slot) {
                        writes.push((self.drives[slot], byte + into, take));
                    }
                    is_held |= self.readable(slot, byte + into, take);
                }
                lost |= !is_held;
            });
            return if lost { Err(Lost) } else { Ok((reads, writes)) };
        }
        let row_bytes = self.data_units * self.element_bytes;
        for (at, take) in parts((start, bytes), row_bytes) {
            lost |= self.plan_row_write(at, take, &mut reads, &mut writes).is_err();
        }
        if lost { Err(Lost) } else { Ok((reads, writes)) }
    }

    fn plan_row_write(
        &self,
        start: u64,
        bytes: u64,
        reads: &mut Accesses,
        writes: &mut Accesses,
    ) -> Result<(), Lost> {
        let mut touched: SmallVec<[(u64, u64, u64); 8]> = SmallVec::new();
        let mut row = 0;
        self.for_elements(start, bytes, |at_row, unit, into, take| {
            row = at_row;
            touched.push((unit, into, take));
        });
        let from = touched.iter().map(|part| part.1).min().unwrap_or(0);
        let to = touched.iter().map(|part| part.1 + part.2).max().unwrap_or(0);
        let hull = to - from;
        let whole = |unit: u64| touched.iter().any(|part| part.0 == unit && part.1 == from && part.2 == hull);
        let readable = |unit: u64, into: u64, bytes: u64| {
            let (slot, byte) = self.place(row, unit);
            self.readable(slot, byte + into, bytes)
        };
        let units = self.data_units + self.parity_units;
        let unreadable = (0..units).filter(|unit| !readable(*unit, from, hull)).count() as u64;
        if unreadable > self.parity_units {
            return Err(Lost);
        }
        // Old data and old parity, or all data of the row that are not written anew.
        let modify_reads = touched.len() as u64 + self.parity_units;
        let rest = (0..self.data_units).filter(|unit| !whole(*unit));
        let rest_reads = rest.clone().count() as u64;
        let can_modify = touched.iter().all(|part| readable(part.0, part.1, part.2));
        let can_reconstruct = rest.clone().all(|unit| readable(unit, from, hull));
        let mut read = |unit: u64, into: u64, bytes: u64| {
            let (slot, byte) = self.place(row, unit);
            if self.readable(slot, byte + into, bytes) {
                reads.push((self.drives[slot], byte + into, bytes));
            }
        };
        if can_reconstruct && (rest_reads <= modify_reads || !can_modify) {
            rest.for_each(|unit| read(unit, from, hull));
        } else if can_modify {
            touched.iter().for_each(|part| read(part.0, part.1, part.2));
            (self.data_units..units).for_each(|unit| read(unit, from, hull));
        } else {
            // Lost units among both: everything that is left.
            (0..units).for_each(|unit| read(unit, from, hull));
        }
        for (unit, into, take) in touched {
            let (slot, byte) = self.place(row, unit);
            if self.writable(slot) {
                writes.push((self.drives[slot], byte + into, take));
            }
        }
        for unit in self.data_units..units {
            let (slot, byte) = self.place(row, unit);
            if self.writable(slot) {
                writes.push((self.drives[slot], byte + from, hull));
            }
        }
        Ok(())
    }

    /// Ranges that must be read to rebuild a range of a lost slot, for a layout without a pool.
    pub fn plan_rebuild(&self, slot: usize, byte: u64, bytes: u64) -> Result<Accesses, Lost> {
        let others = if self.parity_units > 0 {
            (0..self.drives.len()).filter(|other| *other != slot).collect::<SmallVec<[usize; 32]>>()
        } else {
            let first = slot as u64 / self.copies * self.copies;
            (first..first + self.copies).map(|other| other as usize).filter(|other| *other != slot).collect()
        };
        let needed = if self.parity_units > 0 { self.data_units as usize } else { 1 };
        let good = others.into_iter().filter(|other| self.readable(*other, byte, bytes));
        let reads: Accesses = good.take(needed).map(|other| (self.drives[other], byte, bytes)).collect();
        if reads.len() < needed || (self.copies == 1 && self.parity_units == 0) {
            Err(Lost)
        } else {
            Ok(reads)
        }
    }

    /// Range on each drive that contains a range of the group (layouts without a pool).
    pub fn drive_range(&self, start: u64, bytes: u64) -> (u64, u64) {
        let row_bytes = self.data_units * self.element_bytes;
        if self.data_units == 1 {
            return (start, start + bytes);
        }
        (start / row_bytes * self.element_bytes, (start + bytes).div_ceil(row_bytes) * self.element_bytes)
    }
}
