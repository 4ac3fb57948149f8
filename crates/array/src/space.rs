//! Where files lie on a volume: extents, first fit, in the order in which files get their size.
//!
//! Invariants
//! 1. Two files never share a byte; a file's extents cover its size without gaps.
//! 2. Removed files give their room back, and neighbours of free room merge.
//!
//! Left out: metadata of the file system, alignment to clusters above 4 KiB, delayed allocation.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use world::FixedHashMap;

/// Range on the volume.
pub(crate) type VolumeRange = (u64, u64);
pub(crate) type VolumeRanges = SmallVec<[VolumeRange; 1]>;

/// Parts of a range, each within one unit of the space.
#[inline]
pub(crate) fn parts((start, bytes): VolumeRange, unit: u64) -> impl Iterator<Item = VolumeRange> {
    let (mut at, end) = (start, start + bytes);
    std::iter::from_fn(move || {
        let (from, take) = (at, (unit - at % unit).min(end - at));
        at += take;
        (take > 0).then_some((from, take))
    })
}

const CLUSTER_BYTES: u64 = 4096;

#[derive(Default)]
struct File {
    /// Extents of the file: first byte in the file, first byte on the volume, bytes; ascending.
    extents: Vec<(u64, u64, u64)>,
}

impl File {
    fn bytes(&self) -> u64 {
        self.extents.last().map_or(0, |(first, _, bytes)| first + bytes)
    }
}

/// Space of a volume: where its files lie.
pub(crate) struct Space {
    capacity_bytes: u64,
    /// Free ranges: first byte to bytes.
    free: BTreeMap<u64, u64>,
    files: FixedHashMap<u64, File>,
    high_water: u64,
}

impl Space {
    pub fn new(capacity_bytes: u64) -> Space {
        Space {
            capacity_bytes,
            free: BTreeMap::from([(0, capacity_bytes)]),
            files: FixedHashMap::default(),
            high_water: 0,
        }
    }

    /// End of the space that has ever been used.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Sets the size of a file.
    pub fn set_size(&mut self, file: u64, bytes: u64) {
        let bytes = bytes.next_multiple_of(CLUSTER_BYTES);
        let have = self.files.entry(file).or_default().bytes();
        if bytes > have {
            self.extend(file, bytes - have);
        } else {
            self.truncate(file, bytes);
        }
    }

    /// Frees all space of a file.
    pub fn remove(&mut self, file: u64) {
        if let Some(gone) = self.files.remove(&file) {
            for (_, start, bytes) in gone.extents {
                self.release(start, bytes);
            }
        }
    }

    /// Extents of a file, in its order.
    pub fn extents_of(&self, file: u64) -> Vec<VolumeRange> {
        let extents = self.files.get(&file).map(|file| &file.extents);
        extents.into_iter().flatten().map(|(_, start, bytes)| (*start, *bytes)).collect()
    }

    /// Place of a range of a file that has a single extent.
    #[inline]
    pub fn only_piece(&self, file: u64, offset: u64, bytes: u64) -> Option<VolumeRange> {
        match self.files.get(&file)?.extents[..] {
            [(0, start, length)] if offset + bytes <= length => Some((start + offset, bytes)),
            _ => None,
        }
    }

    /// Places of a range of a file, which grows if it is shorter.
    pub fn pieces(&mut self, file: u64, offset: u64, bytes: u64) -> VolumeRanges {
        let end = offset + bytes;
        if self.files.get(&file).is_none_or(|file| file.bytes() < end) {
            self.set_size(file, end);
        }
        let extents = &self.files[&file].extents;
        let mut index = extents.partition_point(|(first, _, _)| *first <= offset).saturating_sub(1);
        let (mut pieces, mut at) = (VolumeRanges::new(), offset);
        while at < end {
            let (first, start, length) = extents[index];
            let into = at - first;
            let take = (length - into).min(end - at);
            pieces.push((start + into, take));
            at += take;
            index += 1;
        }
        pieces
    }

    fn extend(&mut self, file: u64, mut more: u64) {
        while more > 0 {
            // Behind the file if there is room, else the first hole that holds it all, else the largest.
            let last = self.files[&file].extents.last().copied();
            let behind = last.map(|(_, start, bytes)| start + bytes);
            let found = behind
                .and_then(|at| self.free.get(&at).map(|bytes| (at, *bytes)))
                .or_else(|| self.free.iter().find(|(_, bytes)| **bytes >= more).map(|(a, b)| (*a, *b)))
                .or_else(|| self.free.iter().max_by_key(|(_, bytes)| **bytes).map(|(a, b)| (*a, *b)));
            let (start, room) = found.unwrap_or_else(|| {
                // The world enforces capacities; a volume that is modelled smaller than it is goes on at its end.
                let at = self.capacity_bytes;
                self.capacity_bytes += more;
                (at, more)
            });
            self.free.remove(&start);
            let take = room.min(more);
            if room > take {
                self.free.insert(start + take, room - take);
            }
            self.high_water = self.high_water.max(start + take);
            let extents = &mut self.files.entry(file).or_default().extents;
            match extents.last_mut() {
                Some((_, s, bytes)) if *s + *bytes == start => *bytes += take,
                last => {
                    let first = last.map_or(0, |(first, _, bytes)| *first + *bytes);
                    extents.push((first, start, take));
                }
            }
            more -= take;
        }
    }

    fn truncate(&mut self, file: u64, bytes: u64) {
        let Some(entry) = self.files.get_mut(&file) else { return };
        let mut released = Vec::new();
        while let Some((first, start, length)) = entry.extents.last_mut() {
            if *first >= bytes {
                released.push((*start, *length));
                entry.extents.pop();
            } else {
                let keep = (bytes - *first).min(*length);
                if keep < *length {
                    released.push((*start + keep, *length - keep));
                    *length = keep;
                }
                break;
            }
        }
        for (start, length) in released {
            self.release(start, length);
        }
    }

    fn release(&mut self, mut start: u64, mut bytes: u64) {
        if let Some((before, length)) = self.free.range(..start).next_back().map(|(a, b)| (*a, *b))
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
            bytes += length;
        }
        if let Some(length) = self.free.remove(&(start + bytes)) {
            bytes += length;
        }
        self.free.insert(start, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_follow_one_another() {
        let mut space = Space::new(1 << 40);
        space.set_size(1, 100 << 30);
        space.set_size(2, 100 << 30);
        assert_eq!(space.pieces(1, 0, 4096)[..], [(0, 4096)]);
        assert_eq!(space.pieces(2, 4096, 4096)[..], [((100 << 30) + 4096, 4096)]);
        // Growth lies behind what came meanwhile, and a request across the seam has two pieces.
        space.set_size(1, (100 << 30) + 8192);
        assert_eq!(
            space.pieces(1, (100 << 30) - 4096, 8192)[..],
            [((100 << 30) - 4096, 4096), (200 << 30, 4096)]
        );
    }

    #[test]
    fn removed_room_is_used_again() {
        let mut space = Space::new(1 << 40);
        for file in 0..1_000 {
            space.set_size(file, 1 << 20);
            if file >= 10 {
                space.remove(file - 10);
            }
        }
        assert!(space.high_water() <= 12 << 20, "{}", space.high_water());
    }

    proptest! {
        #[test]
        fn no_byte_is_given_twice(steps in proptest::collection::vec((0u64..6, 0u64..40), 1..60)) {
            let mut space = Space::new(200 * CLUSTER_BYTES);
            let mut sizes = [0u64; 6];
            for (file, clusters) in steps {
                if clusters == 0 {
                    space.remove(file);
                } else {
                    space.set_size(file, clusters * CLUSTER_BYTES);
                }
                sizes[file as usize] = clusters * CLUSTER_BYTES;
                let mut taken: Vec<VolumeRange> = space.free.iter().map(|(a, b)| (*a, *b)).collect();
                for (file, bytes) in sizes.iter().enumerate() {
                    if *bytes > 0 {
                        let pieces = space.pieces(file as u64, 0, *bytes);
                        prop_assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), *bytes);
                        taken.extend(pieces);
                    }
                }
                taken.sort_unstable();
                let mut at = 0;
                for (start, bytes) in taken {
                    prop_assert_eq!(start, at);
                    at += bytes;
                }
                prop_assert_eq!(at, space.capacity_bytes);
            }
        }
    }
}
