//! Dynamic pools: rows of pieces over drives picked anew for each row, and pieces that move.
//!
//! Invariants
//! 1. A piece of a drive belongs to one row at most, or to one move under way.
//! 2. A row never has two pieces on one drive, also while pieces move.

use smallvec::SmallVec;

use super::{Accesses, Lost, Raid, Slot};
use crate::mix;

/// Pieces of a row: slot, and piece on it. Its units rotate over them.
type PoolRow = SmallVec<[(u32, u32); 10]>;

/// Move of a row's piece to a piece of another slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceMove {
    pub row: usize,
    pub position: usize,
    pub slot: u32,
    pub piece: u32,
}

pub(crate) struct Pool {
    pub piece_bytes: u64,
    pub(super) rows: Vec<PoolRow>,
    pieces_per_drive: u32,
    /// First piece of each slot that nothing has used yet.
    next_piece: Vec<u32>,
    /// Free pieces of each slot that were used before.
    freed: Vec<Vec<u32>>,
}

impl Pool {
    pub(super) fn new(
        count: u64,
        width: u64,
        piece_bytes: u64,
        drive_bytes: u64,
        spare: u32,
        seed: u64,
    ) -> Pool {
        let pieces_per_drive = (drive_bytes / piece_bytes) as u32;
        let usable = (u64::from(pieces_per_drive) * count.saturating_sub(u64::from(spare))) / width;
        let mut next_piece = vec![0u32; count as usize];
        let mut rows = Vec::with_capacity(usable as usize);
        let mut order: Vec<u32> = (0..count as u32).collect();
        for row in 0..usable {
            // The emptiest slots, ties broken by the seed: even fill, and every pair of drives shares rows.
            order.sort_by_key(|slot| {
                (next_piece[*slot as usize], mix(seed ^ mix(row << 16 | u64::from(*slot))))
            });
            let chosen = &order[..width as usize];
            if chosen.iter().any(|slot| next_piece[*slot as usize] >= pieces_per_drive) {
                break;
            }
            let mut pieces = PoolRow::new();
            for slot in chosen {
                pieces.push((*slot, next_piece[*slot as usize]));
                next_piece[*slot as usize] += 1;
            }
            rows.push(pieces);
        }
        Pool { piece_bytes, rows, pieces_per_drive, freed: vec![Vec::new(); next_piece.len()], next_piece }
    }

    fn free_pieces(&self, slot: usize) -> u32 {
        self.pieces_per_drive - self.next_piece[slot] + self.freed[slot].len() as u32
    }

    fn take_piece(&mut self, slot: usize) -> Option<u32> {
        if self.next_piece[slot] < self.pieces_per_drive {
            self.next_piece[slot] += 1;
            return Some(self.next_piece[slot] - 1);
        }
        self.freed[slot].pop()
    }
}

impl Raid {
    /// Adds an empty drive to a pool.
    pub fn add_slot(&mut self, drive: usize) {
        self.drives.push(drive);
        self.slots.push(Slot::Healthy);
        if let Some(pool) = &mut self.pool {
            pool.next_piece.push(0);
            pool.freed.push(Vec::new());
        }
    }

    /// Rows of a pool with data in these ranges (first byte, bytes).
    fn rows_in_use(&self, used: &[(u64, u64)]) -> Vec<usize> {
        let Some(pool) = &self.pool else { return Vec::new() };
        let per_row = self.data_units * pool.piece_bytes;
        let in_use = |row: &usize| {
            let first = *row as u64 * per_row;
            used.iter().any(|(at, bytes)| *at < first + per_row && first < at + bytes)
        };
        (0..pool.rows.len()).filter(in_use).collect()
    }

    /// Moves for the used pieces of a lost slot, each to the drive with most room that its row does not use yet; and
    /// the number of pieces without a target.
    pub fn plan_evacuation(&mut self, slot: usize, used: &[(u64, u64)]) -> (Vec<PieceMove>, usize) {
        let rows = self.rows_in_use(used);
        let (mut moves, mut without_room) = (Vec::new(), 0);
        let (slots, Some(pool)) = (&self.slots, &mut self.pool) else { return (moves, 0) };
        for row in rows {
            let taken = pool.rows[row].clone();
            let Some(position) = taken.iter().position(|(at, _)| *at as usize == slot) else { continue };
            let free = (0..slots.len())
                .filter(|to| slots[*to] == Slot::Healthy && !taken.iter().any(|(at, _)| *at as usize == *to));
            let emptiest = free.min_by_key(|to| (pool.pieces_per_drive - pool.free_pieces(*to), *to));
            match emptiest.and_then(|to| Some((to, pool.take_piece(to)?))) {
                Some((to, piece)) => {
                    moves.push(PieceMove { row, position, slot: to as u32, piece });
                }
                None => without_room += 1,
            }
        }
        (moves, without_room)
    }

    /// Moves after which all working drives hold equally many used pieces, or one more.
    pub fn plan_evening(&mut self, used: &[(u64, u64)]) -> Vec<PieceMove> {
        let (mut rows, seed) = (self.rows_in_use(used), self.seed);
        // Moved pieces come from everywhere, so that no part of the volumes lies on the added drives alone.
        rows.sort_by_key(|row| mix(seed ^ *row as u64));
        let mut moves = Vec::new();
        let (slots, Some(pool)) = (&self.slots, &mut self.pool) else { return moves };
        let mut held: Vec<Vec<(usize, usize)>> = vec![Vec::new(); slots.len()];
        let mut slots_of: Vec<SmallVec<[u32; 10]>> = vec![SmallVec::new(); pool.rows.len()];
        for row in rows {
            slots_of[row] = pool.rows[row].iter().map(|(slot, _)| *slot).collect();
            for (position, (slot, _)) in pool.rows[row].iter().enumerate() {
                held[*slot as usize].push((row, position));
            }
        }
        let well: Vec<usize> = (0..slots.len()).filter(|slot| slots[*slot] == Slot::Healthy).collect();
        while let Some(to) = well.iter().copied().min_by_key(|slot| held[*slot].len()) {
            let mut donors: Vec<usize> =
                well.iter().copied().filter(|from| held[*from].len() > held[to].len() + 1).collect();
            donors.sort_by_key(|from| std::cmp::Reverse(held[*from].len()));
            let fits = |(row, _): &(usize, usize)| !slots_of[*row].contains(&(to as u32));
            let found = donors.iter().find_map(|from| Some((*from, held[*from].iter().rposition(fits)?)));
            let Some((from, index)) = found else { break };
            let Some(piece) = pool.take_piece(to) else { break };
            let (row, position) = held[from].remove(index);
            slots_of[row][position] = to as u32;
            held[to].push((row, position));
            moves.push(PieceMove { row, position, slot: to as u32, piece });
        }
        moves
    }

    /// Accesses that read the data of a move (first byte in the piece, bytes); lost if it cannot be moved any more.
    pub fn plan_move(&self, to: &PieceMove, into: u64, bytes: u64) -> Result<Accesses, Lost> {
        let Some(pool) = &self.pool else { return Err(Lost) };
        if !self.writable(to.slot as usize) {
            return Err(Lost);
        }
        // The same bytes of every piece of a row belong together.
        let at = |position: usize| {
            let (slot, piece) = pool.rows[to.row][position];
            (slot as usize, u64::from(piece) * pool.piece_bytes + into)
        };
        let read = |(slot, byte): (usize, u64)| (self.drives[slot], byte, bytes);
        let is_readable = |(slot, byte): &(usize, u64)| self.readable(*slot, *byte, bytes);
        if let Some(here) = Some(at(to.position)).filter(is_readable) {
            return Ok(Accesses::from_iter([read(here)]));
        }
        let others = (0..pool.rows[to.row].len()).filter(|other| *other != to.position).map(at);
        let survivors = others.filter(is_readable).take(self.data_units as usize);
        let reads: Accesses = survivors.map(read).collect();
        if (reads.len() as u64) < self.data_units { Err(Lost) } else { Ok(reads) }
    }

    /// Cancels a move and frees its space.
    pub fn drop_move(&mut self, to: &PieceMove) {
        if let Some(pool) = &mut self.pool {
            pool.freed[to.slot as usize].push(to.piece);
        }
    }

    /// Completes a move: the piece is read at its new place, unless another piece of the row has come to that drive.
    pub fn settle_move(&mut self, to: &PieceMove) {
        let Some(pool) = &mut self.pool else { return };
        let row = &mut pool.rows[to.row];
        let is_other = |position: usize, slot: u32| position != to.position && slot == to.slot;
        if row.iter().enumerate().any(|(position, (slot, _))| is_other(position, *slot)) {
            self.drop_move(to);
            return;
        }
        let (slot, piece) = std::mem::replace(&mut row[to.position], (to.slot, to.piece));
        pool.freed[slot as usize].push(piece);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hardware::{Group, Layout, MirrorReads};

    const PIECE_BYTES: u64 = 1 << 20;

    fn pool(drives: usize, pieces: u64, spare_drives: u32) -> Raid {
        let group = Group {
            name: "pool".into(),
            layout: Layout::DynamicPool { width: 5, piece_bytes: PIECE_BYTES, spare_drives },
            drives: (0..drives).collect(),
            stripe_element_bytes: 1 << 16,
            mirror_reads: MirrorReads::Alternate,
        };
        Raid::new(&group, pieces * PIECE_BYTES, 1).expect("a pool")
    }

    /// Number of pieces on each slot; checks that each is used once and no row has two pieces on one drive.
    fn held(raid: &Raid) -> Vec<usize> {
        let pool = raid.pool.as_ref().expect("a pool");
        let mut pieces: Vec<(u32, u32)> = pool.rows.iter().flatten().copied().collect();
        let freed = pool.freed.iter().enumerate();
        pieces.extend(freed.flat_map(|(slot, free)| free.iter().map(move |piece| (slot as u32, *piece))));
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|pair| pair[0] != pair[1]), "a piece is used twice");
        for row in &pool.rows {
            let mut slots: Vec<u32> = row.iter().map(|(slot, _)| *slot).collect();
            slots.sort_unstable();
            assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "two pieces on one drive: {row:?}");
        }
        let on = |slot: usize| pool.rows.iter().flatten().filter(|(at, _)| *at as usize == slot).count();
        (0..raid.drives.len()).map(on).collect()
    }

    #[test]
    fn added_drives_take_an_even_share_with_the_fewest_moves() {
        let mut raid = pool(8, 40, 1);
        let all = [(0, raid.capacity_bytes)];
        let before = held(&raid);
        (8..12).for_each(|drive| raid.add_slot(drive));
        let moves = raid.plan_evening(&all);
        moves.iter().for_each(|to| raid.settle_move(to));
        let after = held(&raid);
        assert!(after.iter().max() <= after.iter().min().map(|least| least + 1).as_ref(), "{after:?}");
        let share: usize = after[8..].iter().sum();
        assert_eq!(moves.len(), share, "{before:?} {after:?}");
    }

    proptest! {
        #[test]
        fn whatever_moves_at_once_no_row_comes_to_lie_twice_on_a_drive(
            lost in proptest::collection::vec(0usize..10, 0..3),
            added in 0usize..4,
            order in any::<u64>(),
        ) {
            let mut raid = pool(10, 30, 2);
            let all = [(0, raid.capacity_bytes)];
            let mut moves = Vec::new();
            for slot in lost {
                raid.slots[slot] = Slot::Lost;
                moves.extend(raid.plan_evacuation(slot, &all).0);
            }
            (0..added).for_each(|drive| raid.add_slot(10 + drive));
            moves.extend(raid.plan_evening(&all));
            moves.sort_by_key(|to| mix(order ^ mix(to.row as u64) ^ to.position as u64));
            for to in moves {
                if mix(order ^ to.row as u64).is_multiple_of(5) {
                    raid.drop_move(&to);
                } else {
                    raid.settle_move(&to);
                }
            }
            held(&raid);
        }
    }
}
