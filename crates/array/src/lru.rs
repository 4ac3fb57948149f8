//! Which blocks a cache in memory holds: least recently used out first. Exact, with a fixed capacity.

use world::FixedHashMap;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    newer: u32,
    older: u32,
}

pub(crate) struct Lru {
    capacity: usize,
    index: FixedHashMap<u64, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
}

impl Lru {
    pub fn new(capacity: u64) -> Lru {
        let capacity = (capacity as usize).min(NONE as usize - 1);
        Lru { capacity, index: FixedHashMap::default(), entries: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// Whether a block is in the cache; if so, it becomes the newest.
    pub fn touch(&mut self, key: u64) -> bool {
        let Some(at) = self.index.get(&key).copied() else { return false };
        self.unlink(at);
        self.link_newest(at);
        true
    }

    /// Inserts a block as the newest.
    pub fn insert(&mut self, key: u64) {
        if self.capacity == 0 || self.touch(key) {
            return;
        }
        let at = if self.entries.len() < self.capacity {
            self.entries.push(Entry { key, newer: NONE, older: NONE });
            self.entries.len() as u32 - 1
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.index.remove(&self.entries[at as usize].key);
            self.entries[at as usize].key = key;
            at
        };
        self.index.insert(key, at);
        self.link_newest(at);
    }

    /// Removes a block, if it is there.
    pub fn remove(&mut self, key: u64) {
        let Some(at) = self.index.remove(&key) else { return };
        self.unlink(at);
        // The last entry takes its place.
        let last = self.entries.len() as u32 - 1;
        if at != last {
            let Entry { key: moved, newer, older } = self.entries[last as usize];
            self.unlink(last);
            self.entries[at as usize] = Entry { key: moved, newer, older };
            match newer {
                NONE => self.newest = at,
                newer => self.entries[newer as usize].older = at,
            }
            match older {
                NONE => self.oldest = at,
                older => self.entries[older as usize].newer = at,
            }
            self.index.insert(moved, at);
        }
        self.entries.pop();
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        self.entries[at as usize].newer = NONE;
        self.entries[at as usize].older = self.newest;
        match self.newest {
            NONE => self.oldest = at,
            newest => self.entries[newest as usize].newer = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_the_most_recently_used(keys in proptest::collection::vec(0u64..12, 0..200), capacity in 1u64..8) {
            let mut lru = Lru::new(capacity);
            let mut model: Vec<u64> = Vec::new();
            for (turn, key) in keys.into_iter().enumerate() {
                prop_assert_eq!(lru.touch(key), model.contains(&key));
                if turn % 5 == 4 {
                    lru.remove(key);
                    model.retain(|other| *other != key);
                    continue;
                }
                lru.insert(key);
                model.retain(|other| *other != key);
                model.push(key);
                if model.len() > capacity as usize {
                    model.remove(0);
                }
            }
        }
    }
}
