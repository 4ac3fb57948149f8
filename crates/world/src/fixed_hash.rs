//! Hash maps whose hash is a fixed function, for look-ups on hot paths. Their iteration order is still arbitrary:
//! iterate a `BTreeMap` where order can reach the outside.
#![allow(
    clippy::disallowed_types,
    reason = "this is the one place that wraps the standard maps with a fixed hash"
)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Hash map whose hash is the same in every run.
pub type FixedHashMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// Hash set whose hash is the same in every run.
pub type FixedHashSet<K> = HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiplicative hash function, good enough for page numbers and small keys.
#[derive(Default)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.write_u64(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// Hash map with number keys that stores eight neighbouring keys side by side: a caller that looks neighbours up in
/// turn waits for memory once.
pub(crate) type NeighbourMap<V> = HashMap<u64, V, BuildHasherDefault<NeighbourHasher>>;

/// Number of neighbouring keys that lie side by side in a [`NeighbourMap`].
const NEIGHBOURS: u64 = 8;
/// Bits of a hash that the map stores with each entry; those of neighbours differ.
const TAG: u64 = 0x7F << 57;

/// Hash function for number keys.
#[derive(Default)]
pub(crate) struct NeighbourHasher(u64);

impl Hasher for NeighbourHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a key is a number of 64 bits");
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = |value: u64| value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let first = (mixed(value / NEIGHBOURS) >> 32) & !(NEIGHBOURS - 1);
        self.0 = (mixed(value) & TAG) + first + value % NEIGHBOURS;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn eight_neighbours_lie_side_by_side_and_are_told_apart() {
        for first in [0, 8, 800_000, 1 << 40] {
            let hash = |value: u64| {
                let mut hasher = NeighbourHasher::default();
                hasher.write_u64(value);
                hasher.finish()
            };
            let places = (first..first + NEIGHBOURS).map(|value| hash(value) & !TAG);
            assert!(places.eq((hash(first) & !TAG..).take(NEIGHBOURS as usize)));
            let tags: BTreeSet<u64> = (first..first + NEIGHBOURS).map(|value| hash(value) & TAG).collect();
            assert_eq!(tags.len(), NEIGHBOURS as usize);
        }
    }
}
