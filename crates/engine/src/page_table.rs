//! A number for each of some pages of one database: the frame that a page lies in, or the version that it has.
//!
//! Open addressing: a look-up reads one place in memory, as a rule, where a general map reads two. Looking for
//! pages is what the cache does most.
//!
//! Invariant: between the place where a page belongs and the one where it stands no place is free.

/// Slot of the table: a page and its number.
#[derive(Debug, Clone, Copy)]
struct Slot {
    pgno: u32,
    number: u32,
}

/// Number in a free slot.
const NONE: u32 = u32::MAX;
const FREE: Slot = Slot { pgno: 0, number: NONE };

/// Least number of slots of a table.
const PLACES_MIN: usize = 64;

/// Hash table from pages to numbers below `u32::MAX`.
pub(crate) struct PageTable {
    /// Slots: a power of two, at least half of them free.
    places: Vec<Slot>,
    pages: usize,
}

impl Default for PageTable {
    fn default() -> PageTable {
        PageTable { places: vec![FREE; PLACES_MIN], pages: 0 }
    }
}

impl PageTable {
    /// Preferred slot of a page; those of adjacent pages lie apart.
    fn home(&self, pgno: u32) -> usize {
        let hash = u64::from(pgno.wrapping_mul(0x9E37_79B1));
        ((hash * self.places.len() as u64) >> 32) as usize
    }

    fn behind(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Slot of the page, or the free one where it would be.
    #[inline]
    fn place_of(&self, pgno: u32) -> usize {
        let mut at = self.home(pgno);
        while self.places[at].number != NONE && self.places[at].pgno != pgno {
            at = self.behind(at);
        }
        at
    }

    /// Number of pages in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pages
    }

    /// Memory of the slots, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.places.len() * size_of::<Slot>()
    }

    /// Pages and their numbers, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.places.iter().filter(|place| place.number != NONE).map(|place| (place.pgno, place.number))
    }

    /// Sets the number of a page, new or not.
    pub(crate) fn set(&mut self, pgno: u32, number: u32) {
        if !self.replace(pgno, number) {
            self.insert(pgno, number);
        }
    }

    /// Number of a page.
    #[inline]
    pub(crate) fn find(&self, pgno: u32) -> Option<u32> {
        let number = self.places[self.place_of(pgno)].number;
        (number != NONE).then_some(number)
    }

    /// Changes the number of a page; `false` if it has none.
    #[inline]
    pub(crate) fn replace(&mut self, pgno: u32, number: u32) -> bool {
        debug_assert!(number != NONE);
        let at = self.place_of(pgno);
        let is_there = self.places[at].number != NONE;
        if is_there {
            self.places[at].number = number;
        }
        is_there
    }

    /// Adds a page that is not in the table.
    pub(crate) fn insert(&mut self, pgno: u32, number: u32) {
        debug_assert!(number != NONE);
        if 2 * (self.pages + 1) > self.places.len() {
            let larger = vec![FREE; 2 * self.places.len()];
            let places = std::mem::replace(&mut self.places, larger);
            for place in places.into_iter().filter(|place| place.number != NONE) {
                let at = self.place_of(place.pgno);
                self.places[at] = place;
            }
        }
        let at = self.place_of(pgno);
        assert!(self.places[at].number == NONE, "a page has one number");
        self.places[at] = Slot { pgno, number };
        self.pages += 1;
    }

    /// Removes a page.
    pub(crate) fn remove(&mut self, pgno: u32) {
        let mut hole = self.place_of(pgno);
        if self.places[hole].number == NONE {
            return;
        }
        let mask = self.places.len() - 1;
        let mut at = self.behind(hole);
        while self.places[at].number != NONE {
            let from_home = at.wrapping_sub(self.home(self.places[at].pgno)) & mask;
            // It may stand in the hole if it does not belong behind it.
            if from_home >= at.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.behind(at);
        }
        self.places[hole] = FREE;
        self.pages -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_table_finds_what_a_map_finds_while_pages_come_and_go() {
        let (mut table, mut map) = (PageTable::default(), BTreeMap::new());
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as u32
        };
        for step in 0..30_000 {
            // Grows to some 100 pages and shrinks again; page numbers lie close together, and all over.
            let spread = if step % 2 == 0 { 200 } else { u64::from(u32::MAX) };
            let pgno = next(spread);
            assert_eq!(table.replace(pgno, step), map.contains_key(&pgno));
            map.entry(pgno).and_modify(|number| *number = step);
            if map.contains_key(&pgno) || (step / 1_000) % 2 == 1 {
                let gone = *map.range(pgno..).next().map_or(&pgno, |(pgno, _)| pgno);
                table.remove(gone);
                map.remove(&gone);
            } else {
                table.insert(pgno, step);
                map.insert(pgno, step);
            }
            assert_eq!(table.len(), map.len());
            if step % 97 == 0 {
                assert!(map.iter().all(|(pgno, number)| table.find(*pgno) == Some(*number)), "step {step}");
                assert!((0..200).all(|pgno| table.find(pgno) == map.get(&pgno).copied()), "step {step}");
            }
        }
    }
}
