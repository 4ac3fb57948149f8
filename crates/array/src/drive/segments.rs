//! Segments of a disk's buffer: what was read lately, replaced in the order in which they were filled.
//!
//! Every read looks here, and almost none finds anything. So the first look goes over bounds rounded to 64 KiB, of
//! which 16 bits are kept: some instructions for all segments together, without a branch. A segment that is a multiple
//! of 4 GiB away fits, too, so exact bounds decide.

const UNIT_SHIFT: u32 = 16;
/// Number of segments that a processor compares at once.
const LANES: usize = 8;

/// Segment of the disk's buffer: a range of bytes.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub first_byte: u64,
    pub end_byte: u64,
}

const EMPTY: Segment = Segment { first_byte: 0, end_byte: 0 };

/// Rounded bounds of segments: first unit, and number of units behind it.
#[derive(Clone, Copy)]
struct Bounds {
    first: [u16; LANES],
    behind: [u16; LANES],
}

impl Bounds {
    /// Whether a cached segment may overlap the range of units that begins at `from`.
    #[inline]
    fn may_touch(&self, from: u16, behind_from: u16) -> bool {
        let fits = |lane: usize| {
            (from.wrapping_sub(self.first[lane]) <= self.behind[lane])
                | (self.first[lane].wrapping_sub(from) <= behind_from)
        };
        (0..LANES).fold(false, |any, lane| any | fits(lane))
    }

    /// Whether a segment may contain a unit.
    #[inline]
    fn may_have(&self, unit: u16) -> bool {
        let fits = |lane: usize| unit.wrapping_sub(self.first[lane]) <= self.behind[lane];
        (0..LANES).fold(false, |any, lane| any | fits(lane))
    }
}

pub(super) struct Segments {
    bounds: Vec<Bounds>,
    exact: Vec<Segment>,
    next: usize,
}

/// Unit of a byte, without its upper bits.
fn unit(byte: u64) -> u16 {
    (byte >> UNIT_SHIFT) as u16
}

/// Distance in units between the first and the last byte of a range, capped.
fn units_behind(first_byte: u64, last_byte: u64) -> u16 {
    u16::try_from((last_byte >> UNIT_SHIFT) - (first_byte >> UNIT_SHIFT)).unwrap_or(u16::MAX)
}

impl Segments {
    pub fn new(count: usize) -> Segments {
        let none = Bounds { first: [0; LANES], behind: [0; LANES] };
        Segments { bounds: vec![none; count.div_ceil(LANES)], exact: vec![EMPTY; count], next: 0 }
    }

    /// Adds a segment in place of the oldest one.
    pub fn push(&mut self, segment: Segment) {
        if self.exact.is_empty() {
            return;
        }
        self.set(self.next, segment);
        self.next += 1;
        if self.next == self.exact.len() {
            self.next = 0;
        }
    }

    fn set(&mut self, index: usize, segment: Segment) {
        let bounds = &mut self.bounds[index / LANES];
        bounds.first[index % LANES] = unit(segment.first_byte);
        bounds.behind[index % LANES] = units_behind(segment.first_byte, segment.end_byte);
        self.exact[index] = segment;
    }

    /// Whether one segment holds all these bytes.
    #[inline]
    pub fn hold(&self, start: u64, end: u64) -> bool {
        self.bounds.iter().any(|bounds| bounds.may_have(unit(start))) && self.have_exactly(start, end)
    }

    #[inline(never)]
    fn have_exactly(&self, start: u64, end: u64) -> bool {
        self.exact.iter().any(|segment| segment.first_byte <= start && end <= segment.end_byte)
    }

    /// Invalidates segments with some of these bytes, which are written.
    pub fn forget(&mut self, start: u64, end: u64) {
        let (from, behind_from) = (unit(start), units_behind(start, end));
        if self.bounds.iter().any(|bounds| bounds.may_touch(from, behind_from)) {
            for segment in &mut self.exact {
                if segment.first_byte < end && start < segment.end_byte {
                    *segment = EMPTY;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_until_they_are_the_oldest_or_written_over() {
        let mut segments = Segments::new(2);
        let range = |k: u64| (k * 100_000, k * 100_000 + 70_000);
        let segment = |k: u64| Segment { first_byte: range(k).0, end_byte: range(k).1 };
        segments.push(segment(1));
        segments.push(segment(20));
        assert!(segments.hold(range(1).0, range(1).1) && segments.hold(range(20).0 + 512, range(20).1));
        assert!(!segments.hold(range(1).0 - 1, range(1).1) && !segments.hold(range(20).0, range(20).1 + 1));
        segments.push(segment(300));
        assert!(!segments.hold(range(1).0, range(1).1) && segments.hold(range(300).0, range(300).1));
        segments.forget(range(20).1, range(20).1 + 4096);
        assert!(segments.hold(range(20).0, range(20).1), "written beside it");
        segments.forget(range(20).0 + 4096, range(20).0 + 8192);
        assert!(!segments.hold(range(20).0, range(20).0 + 4096));
        assert!(!Segments::new(0).hold(0, 0));
    }

    #[test]
    fn bounds_without_their_upper_bits_neither_find_nor_forget_what_is_elsewhere() {
        const FAR: u64 = 1 << 32;
        let mut segments = Segments::new(1);
        segments.push(Segment { first_byte: 100_000, end_byte: 200_000 });
        assert!(!segments.hold(FAR + 120_000, FAR + 124_096));
        segments.forget(FAR + 120_000, FAR + 124_096);
        assert!(segments.hold(120_000, 124_096));
        segments.forget(0, 3 * FAR);
        assert!(!segments.hold(120_000, 124_096), "longer than the bits that are kept");
        segments.push(Segment { first_byte: 100_000, end_byte: 100_000 + 2 * FAR });
        assert!(segments.hold(FAR, FAR + 4096));
        segments.forget(FAR + 50_000, FAR + 54_096);
        assert!(!segments.hold(120_000, 124_096), "written in the middle");
    }
}
