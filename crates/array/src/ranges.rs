//! Ranges of bytes of several groups that never overlap, found by their first byte or by any other.
//!
//! A search tree would take several steps through memory that no processor cache holds; two look-ups by hash take one
//! each, and most of what is asked for is in no range.

use smallvec::SmallVec;
use world::FixedHashMap;

/// Place in a group: group, first byte.
pub(crate) type Key = (u32, u64);

/// Size of a block by which ranges are looked up, bytes: twice a database page.
const BLOCK_BYTES: u64 = 64 << 10;

struct Range<T> {
    end: u64,
    value: T,
}

/// Set of ranges, each with a value.
pub(crate) struct Ranges<T> {
    ranges: FixedHashMap<Key, Range<T>>,
    /// First bytes of the ranges in each block.
    blocks: FixedHashMap<Key, SmallVec<[u64; 3]>>,
}

/// Blocks that a range touches.
fn blocks(group: u32, start: u64, end: u64) -> impl Iterator<Item = Key> {
    (start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| (group, block))
}

impl<T> Ranges<T> {
    pub fn new() -> Ranges<T> {
        Ranges { ranges: FixedHashMap::default(), blocks: FixedHashMap::default() }
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// End and value of the range that begins here.
    pub fn get(&self, key: Key) -> Option<(u64, &T)> {
        self.ranges.get(&key).map(|range| (range.end, &range.value))
    }

    /// End and value of the range that begins here, for changes.
    pub fn get_mut(&mut self, key: Key) -> Option<(u64, &mut T)> {
        self.ranges.get_mut(&key).map(|range| (range.end, &mut range.value))
    }

    /// Key and end of the range that contains a byte of a group.
    pub fn at(&self, group: u32, byte: u64) -> Option<(Key, u64)> {
        let starts = self.blocks.get(&(group, byte / BLOCK_BYTES))?;
        let key = (group, starts.iter().copied().filter(|start| *start <= byte).max()?);
        let (end, _) = self.get(key)?;
        (end > byte).then_some((key, end))
    }

    /// Ranges that overlap another one, ascending.
    pub fn touching(&self, group: u32, start: u64, end: u64) -> SmallVec<[Key; 4]> {
        let starts = blocks(group, start, end).filter_map(|block| self.blocks.get(&block)).flatten();
        let keys = starts.filter(|first| **first < end).map(|first| (group, *first));
        let mut keys: SmallVec<[Key; 4]> =
            keys.filter(|key| self.get(*key).is_some_and(|(end, _)| end > start)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Inserts a range that touches no other.
    pub fn insert(&mut self, key: Key, end: u64, value: T) {
        self.ranges.insert(key, Range { end, value });
        self.list(key, key.1, end);
    }

    /// Extends a range to `end`. No other range may begin before that.
    pub fn grow(&mut self, key: Key, end: u64) {
        if let Some(range) = self.ranges.get_mut(&key) {
            let listed = std::mem::replace(&mut range.end, end).next_multiple_of(BLOCK_BYTES);
            self.list(key, listed, end);
        }
    }

    fn list(&mut self, key: Key, start: u64, end: u64) {
        blocks(key.0, start, end).for_each(|block| self.blocks.entry(block).or_default().push(key.1));
    }

    /// Removes the range that begins here. Returns its end and value.
    pub fn remove(&mut self, key: Key) -> Option<(u64, T)> {
        let Range { end, value } = self.ranges.remove(&key)?;
        for block in blocks(key.0, key.1, end) {
            if let Some(starts) = self.blocks.get_mut(&block) {
                starts.retain(|start| *start != key.1);
                if starts.is_empty() {
                    self.blocks.remove(&block);
                }
            }
        }
        Some((end, value))
    }

    /// All ranges, ascending: key, end and value.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        let mut all: Vec<_> =
            self.ranges.iter().map(|(key, range)| (*key, range.end, &range.value)).collect();
        all.sort_unstable_by_key(|(key, ..)| *key);
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: u64 = 20 << 10;

    proptest! {
        #[test]
        fn ranges_are_found_as_in_a_list_of_all(
            steps in proptest::collection::vec((0u32..2, 0u64..40, 1u64..9, 0u8..4), 1..120),
        ) {
            let mut ranges = Ranges::new();
            let mut model: Vec<(Key, u64, usize)> = Vec::new();
            for (number, (group, start, units, step)) in steps.into_iter().enumerate() {
                let (start, end) = (start * UNIT, (start + units) * UNIT);
                let touches = |(key, to, _): &&(Key, u64, usize)| key.0 == group && key.1 < end && *to > start;
                let mut touching: Vec<Key> = model.iter().filter(touches).map(|range| range.0).collect();
                touching.sort_unstable();
                prop_assert_eq!(&ranges.touching(group, start, end)[..], &touching[..]);
                let at = model.iter().find(|(key, to, _)| key.0 == group && (key.1..*to).contains(&start));
                prop_assert_eq!(ranges.at(group, start), at.map(|range| (range.0, range.1)));
                let behind = model.iter_mut().find(|(key, to, _)| key.0 == group && *to == start);
                match (&touching[..], behind) {
                    ([], Some(behind)) if step == 0 => {
                        behind.1 = end;
                        ranges.grow(behind.0, end);
                    }
                    ([], _) => {
                        model.push(((group, start), end, number));
                        ranges.insert((group, start), end, number);
                    }
                    _ if step < 3 => {
                        touching.iter().for_each(|key| assert!(ranges.remove(*key).is_some()));
                        model.retain(|range| !touching.contains(&range.0));
                    }
                    _ => {}
                }
                model.sort_unstable();
                let all: Vec<_> = ranges.iter().map(|(key, end, value)| (key, end, *value)).collect();
                prop_assert_eq!(&all, &model);
                prop_assert_eq!(ranges.len(), model.len());
                prop_assert!(model.iter().all(|(key, end, value)| ranges.get(*key) == Some((*end, value))));
            }
            model.iter().for_each(|(key, ..)| assert!(ranges.remove(*key).is_some()));
            prop_assert!(ranges.blocks.is_empty());
        }
    }
}
