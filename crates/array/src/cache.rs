//! The write-back cache of a controller: what it holds, what is dirty, and which write goes to the drives next.
//!
//! Invariants
//! 1. An extent that is dirty stays until a write of its newest contents to the group has ended.
//! 2. Extents never overlap. Written again while it waits, an extent is destaged once; written again while it is being
//!    destaged, it is destaged again.
//! 3. `dirty_bytes` is the sum over all extents that are not clean.
//!
//! Left out: cache pages (an extent takes its own length), parity held in the cache, full-stripe gathering beyond
//! sequential writes, room shared with reads (read-ahead has its own).

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use crate::hardware::{DestageOrder, WriteCache};
use crate::ranges::{Key, Ranges};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Clean,
    /// Waits for more data of a sequential stream.
    Gathering,
    /// Waits for its turn in its drive set.
    Pooled {
        column: usize,
        place: u64,
    },
    /// Being written; `again`: changed since.
    Writing {
        again: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct Extent {
    state: BlockState,
    version: u64,
}

/// Dirty extents of one drive set, by place.
#[derive(Default)]
struct Column {
    waiting: BTreeMap<u64, Key>,
    next_place: u64,
    writing: u32,
    left_in_burst: u32,
}

/// Write to the group that the cache decided on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destage {
    pub group: u32,
    pub start: u64,
    pub bytes: u64,
    pub version: u64,
    pub column: usize,
}

pub(crate) struct Cache {
    settings: WriteCache,
    dirty_max_bytes: u64,
    extents: Ranges<Extent>,
    /// Keys in order of writing, for eviction; a key may occur more than once.
    order: VecDeque<(Key, u64)>,
    gathering: VecDeque<(u64, Key, u64)>,
    /// Dirty extents by drive set.
    columns: Vec<Column>,
    held_bytes: u64,
    dirty_bytes: u64,
    next_version: u64,
    /// Destages to be issued.
    pub due: Vec<Destage>,
    /// Drive set of extents whose order does not matter.
    no_column: usize,
}

impl Cache {
    pub fn new(settings: WriteCache) -> Cache {
        let dirty_max_bytes = (settings.bytes as f64 * settings.dirty_max_pct / 100.0) as u64;
        Cache {
            settings,
            dirty_max_bytes,
            extents: Ranges::new(),
            order: VecDeque::new(),
            gathering: VecDeque::new(),
            columns: Vec::new(),
            held_bytes: 0,
            dirty_bytes: 0,
            next_version: 0,
            due: Vec::new(),
            no_column: usize::MAX,
        }
    }

    pub fn has_room(&self, bytes: u64) -> bool {
        self.dirty_bytes == 0 || self.dirty_bytes + bytes <= self.dirty_max_bytes
    }

    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Whether a range is completely in the cache.
    pub fn holds(&self, group: u32, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.extents.at(group, at) {
                Some((_, extent_end)) => at = extent_end,
                None => return false,
            }
        }
        true
    }

    /// Adds written data. `column` returns the drive set of a place. Resulting destages go to `due`.
    pub fn write(
        &mut self,
        now_ns: u64,
        group: u32,
        start: u64,
        end: u64,
        column: impl Fn(u64) -> (usize, u64),
    ) {
        let key = (group, start);
        if let Some((until, extent)) = self.extents.get_mut(key)
            && until == end
            && extent.state != BlockState::Clean
        {
            if let BlockState::Writing { again } = &mut extent.state {
                *again = true;
            }
            return;
        }
        self.make_way(group, start, end);
        let before = start.checked_sub(1).and_then(|byte| self.extents.at(group, byte));
        self.dirty_bytes += end - start;
        self.held_bytes += end - start;
        match before {
            Some((before, _)) if self.is_gathering(before) => {
                self.extents.grow(before, end);
                if end - before.1 >= self.settings.gather_bytes {
                    self.schedule(before, &column);
                }
            }
            Some(_) if self.settings.gather_bytes > end - start => {
                let version = self.insert(key, end, BlockState::Gathering);
                let due_ns = now_ns + (self.settings.gather_ms * 1e6) as u64;
                self.gathering.push_back((due_ns, key, version));
            }
            _ => {
                self.insert(key, end, BlockState::Gathering);
                self.schedule(key, &column);
            }
        }
        self.evict();
    }

    fn is_gathering(&self, key: Key) -> bool {
        self.extents.get(key).is_some_and(|(_, extent)| extent.state == BlockState::Gathering)
    }

    fn insert(&mut self, key: Key, end: u64, state: BlockState) -> u64 {
        let version = self.next_version;
        self.next_version += 1;
        self.extents.insert(key, end, Extent { state, version });
        self.order.push_back((key, version));
        version
    }

    /// Removes or trims extents that a write replaces.
    fn make_way(&mut self, group: u32, start: u64, end: u64) {
        for key in self.extents.touching(group, start, end) {
            let Some((extent_end, extent)) = self.remove(key) else { continue };
            for (from, to) in [(key.1, start.min(extent_end)), (end.max(key.1), extent_end)] {
                if from >= to {
                    continue;
                }
                self.held_bytes += to - from;
                if extent.state == BlockState::Clean {
                    self.insert((group, from), to, BlockState::Clean);
                } else {
                    let version = self.insert((group, from), to, BlockState::Gathering);
                    self.dirty_bytes += to - from;
                    // Overdue: leaves with the next timer or write.
                    self.gathering.push_front((0, (group, from), version));
                }
            }
        }
    }

    fn remove(&mut self, key: Key) -> Option<(u64, Extent)> {
        let (end, extent) = self.extents.remove(key)?;
        let bytes = end - key.1;
        self.held_bytes -= bytes;
        if extent.state != BlockState::Clean {
            self.dirty_bytes -= bytes;
        }
        if let BlockState::Pooled { column, place } = extent.state {
            self.columns[column].waiting.remove(&place);
        }
        Some((end, extent))
    }

    /// Queues an extent for destaging, in the configured order.
    fn schedule(&mut self, key: Key, column: &impl Fn(u64) -> (usize, u64)) {
        let Some((end, extent)) = self.extents.get_mut(key) else { return };
        if self.settings.destage == DestageOrder::Immediate {
            extent.state = BlockState::Writing { again: false };
            self.due.push(Destage {
                group: key.0,
                start: key.1,
                bytes: end - key.1,
                version: extent.version,
                column: self.no_column,
            });
            return;
        }
        let (drive, place) = column(key.1);
        extent.state = BlockState::Pooled { column: drive, place };
        if drive >= self.columns.len() {
            self.columns.resize_with(drive + 1, Column::default);
        }
        self.columns[drive].waiting.insert(place, key);
        self.fill(drive, false);
    }

    /// Issues destages of a drive set that the configured order allows; all kinds if `forced`, because writes wait for
    /// room.
    fn fill(&mut self, drive: usize, forced: bool) {
        let Some(column) = self.columns.get_mut(drive) else { return };
        let mut issued: SmallVec<[Key; 4]> = SmallVec::new();
        match self.settings.destage {
            DestageOrder::Immediate => {}
            DestageOrder::Nearest => {
                while column.writing == 0 && !column.waiting.is_empty() {
                    let at = column.next_place;
                    let above = column.waiting.range(at..).next().map(|(place, _)| *place);
                    let below = column.waiting.range(..at).next_back().map(|(place, _)| *place);
                    let nearest = match (above, below) {
                        (Some(above), Some(below)) if above - at > at - below => below,
                        (Some(above), _) => above,
                        (None, Some(below)) => below,
                        (None, None) => break,
                    };
                    issued.extend(column.waiting.remove(&nearest));
                    column.writing += 1;
                    column.next_place = nearest;
                }
            }
            DestageOrder::Sorted { burst, start_dirty } => {
                let enough = column.waiting.len() >= start_dirty as usize || forced;
                if column.writing == 0 && column.left_in_burst == 0 && enough {
                    column.left_in_burst = burst.max(1);
                }
                while column.left_in_burst > 0 && !column.waiting.is_empty() {
                    let above = column.waiting.range(column.next_place..).next();
                    let Some((place, key)) =
                        above.or_else(|| column.waiting.iter().next()).map(|(p, k)| (*p, *k))
                    else {
                        break;
                    };
                    column.waiting.remove(&place);
                    issued.push(key);
                    column.next_place = place + 1;
                    column.writing += 1;
                    column.left_in_burst -= 1;
                }
                column.left_in_burst = 0;
            }
        }
        for key in issued {
            if let Some((end, extent)) = self.extents.get_mut(key) {
                extent.state = BlockState::Writing { again: false };
                let (bytes, version) = (end - key.1, extent.version);
                self.due.push(Destage { group: key.0, start: key.1, bytes, version, column: drive });
            }
        }
    }

    /// Handles the end of a destage.
    pub fn written(&mut self, destage: Destage, column: impl Fn(u64) -> (usize, u64)) {
        let key = (destage.group, destage.start);
        if let Some((end, extent)) = self.extents.get_mut(key)
            && extent.version == destage.version
            && let BlockState::Writing { again } = extent.state
        {
            if again {
                self.schedule(key, &column);
            } else {
                extent.state = BlockState::Clean;
                self.dirty_bytes -= end - key.1;
            }
        }
        if let Some(drives) = self.columns.get_mut(destage.column) {
            drives.writing -= 1;
            self.fill(destage.column, false);
        }
        self.evict();
    }

    /// Releases gathered extents whose time is up. Returns the time of the next.
    pub fn release_gathered(&mut self, now_ns: u64, column: impl Fn(Key) -> (usize, u64)) -> Option<u64> {
        while let Some((due_ns, key, version)) = self.gathering.front().copied() {
            let waits = self.extents.get(key).is_some_and(|(_, extent)| {
                extent.version == version && extent.state == BlockState::Gathering
            });
            if !waits {
                self.gathering.pop_front();
            } else if due_ns <= now_ns {
                self.gathering.pop_front();
                self.schedule(key, &|_| column(key));
            } else {
                return Some(due_ns);
            }
        }
        None
    }

    /// Makes every drive set destage, however little it holds, because writes wait for room.
    pub fn press(&mut self, column: impl Fn(Key) -> (usize, u64)) {
        self.release_gathered(u64::MAX, column);
        (0..self.columns.len()).for_each(|drive| self.fill(drive, true));
    }

    fn evict(&mut self) {
        let mut tries = self.order.len();
        while self.held_bytes > self.settings.bytes && tries > 0 {
            tries -= 1;
            let Some((key, version)) = self.order.pop_front() else { return };
            match self.extents.get(key) {
                Some((_, extent)) if extent.version != version => {}
                Some((_, extent)) if extent.state != BlockState::Clean => {
                    self.order.push_back((key, version))
                }
                Some(_) => _ = self.remove(key),
                None => {}
            }
        }
        // Keys of extents that are gone.
        if self.order.len() > 64 + 4 * self.extents.len() {
            let extents = &self.extents;
            self.order.retain(|(key, version)| {
                extents.get(*key).is_some_and(|(_, extent)| extent.version == *version)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(destage: DestageOrder, bytes: u64) -> Cache {
        let settings =
            WriteCache { bytes, dirty_max_pct: 80.0, destage, gather_bytes: 64 << 10, gather_ms: 100.0 };
        Cache::new(settings)
    }

    fn places(start: u64) -> (usize, u64) {
        ((start >> 20) as usize % 3, start)
    }

    #[test]
    fn sequential_writes_leave_in_large_pieces() {
        let mut cache = cache(DestageOrder::Immediate, 1 << 20);
        for k in 0..9u64 {
            cache.write(k, 0, k * 16_384, (k + 1) * 16_384, places);
        }
        // The first is not known to be sequential; the next four fill the gathering size, twice.
        let sizes: Vec<u64> = cache.due.iter().map(|destage| destage.bytes).collect();
        assert_eq!(sizes, [16_384, 65_536, 65_536]);
        assert!(cache.holds(0, 4_096, 140_000));
    }

    #[test]
    fn gathered_data_leave_after_their_time() {
        let mut cache = cache(DestageOrder::Immediate, 1 << 20);
        cache.write(0, 0, 0, 4_096, places);
        cache.write(0, 0, 4_096, 8_192, places);
        assert_eq!(cache.due.len(), 1);
        assert_eq!(cache.release_gathered(1, |key| places(key.1)), Some(100_000_000));
        assert_eq!(cache.release_gathered(100_000_000, |key| places(key.1)), None);
        assert_eq!(cache.due.len(), 2);
    }

    #[test]
    fn written_twice_is_destaged_once_or_again() {
        let mut cache = cache(DestageOrder::Nearest, 1 << 20);
        cache.write(0, 0, 0, 4_096, places);
        cache.write(0, 0, 8_192, 12_288, places);
        cache.write(0, 0, 8_192, 12_288, places);
        let first = cache.due.pop().expect("the column is free");
        assert_eq!((first.start, cache.due.len()), (0, 0));
        cache.write(0, 0, 0, 4_096, places); // while it is being written
        let mut count = 0;
        let mut next = Some(first);
        while let Some(destage) = next {
            cache.written(destage, places);
            next = cache.due.pop();
            count += 1;
        }
        assert_eq!((count, cache.dirty_bytes()), (3, 0));
    }

    #[test]
    fn what_is_left_of_clean_data_stays_readable() {
        let mut cache = cache(DestageOrder::Immediate, 1 << 20);
        cache.write(0, 0, 0, 65_536, places);
        let first = cache.due.pop().expect("at once");
        cache.written(first, places);
        cache.write(0, 0, 16_384, 20_480, places);
        assert!(cache.holds(0, 0, 65_536));
        assert_eq!((cache.held_bytes, cache.dirty_bytes()), (65_536, 4_096));
    }

    proptest! {
        #[test]
        fn everything_written_becomes_clean(
            writes in proptest::collection::vec((0u64..64, 1u64..9), 1..120),
            order in 0..3,
        ) {
            let order = match order {
                0 => DestageOrder::Immediate,
                1 => DestageOrder::Nearest,
                _ => DestageOrder::Sorted { burst: 4, start_dirty: 6 },
            };
            let mut cache = cache(order, 256 << 10);
            let mut under_way = Vec::new();
            for (n, (page, pages)) in writes.into_iter().enumerate() {
                let (start, end) = (page * 4096, (page + pages) * 4096);
                cache.write(n as u64, 0, start, end, places);
                prop_assert!(cache.holds(0, start, end));
                let mut covered = 0;
                let mut dirty = 0;
                let mut held = 0;
                for ((_, first), end, extent) in cache.extents.iter() {
                    prop_assert!(first >= covered, "extents overlap");
                    covered = end;
                    held += end - first;
                    dirty += if extent.state == BlockState::Clean { 0 } else { end - first };
                }
                prop_assert_eq!((held, dirty), (cache.held_bytes, cache.dirty_bytes));
                under_way.append(&mut cache.due);
                if n % 3 == 0 && !under_way.is_empty() {
                    cache.written(under_way.remove(0), places);
                }
            }
            for _ in 0..10_000 {
                cache.press(|key| places(key.1));
                under_way.append(&mut cache.due);
                if under_way.is_empty() {
                    break;
                }
                cache.written(under_way.remove(0), places);
            }
            prop_assert_eq!(cache.dirty_bytes(), 0);
        }
    }
}
