//! Segments of a disk's buffer: what was read lately, replaced in the order in which they were filled.
//!
//! Every read looks here, and almost none finds anything. So the first look goes over bounds rounded to 64 KiB
//! in 32 bits, all of them, without a branch: some instructions for all segments together. Exact bounds are
//! looked at when one fits.

const UNIT_SHIFT: u32 = 16;

/// Bytes of the disk that lie in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub first_byte: u64,
    pub end_byte: u64,
}

const EMPTY: Segment = Segment { first_byte: 0, end_byte: 0 };

pub(super) struct Segments {
    first_units: Vec<i32>,
    last_units: Vec<i32>,
    exact: Vec<Segment>,
    next: usize,
}

fn unit(byte: u64) -> i32 {
    (byte >> UNIT_SHIFT) as i32
}

impl Segments {
    pub fn new(count: usize) -> Segments {
        Segments {
            first_units: vec![i32::MAX; count],
            last_units: vec![-1; count],
            exact: vec![EMPTY; count],
            next: 0,
        }
    }

    /// Takes the place of the oldest one.
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
        self.first_units[index] = unit(segment.first_byte);
        self.last_units[index] = unit(segment.end_byte);
        self.exact[index] = segment;
    }

    /// Whether a segment may have bytes between these units.
    fn may_touch(&self, first: i32, last: i32) -> bool {
        let bounds = self.first_units.iter().zip(&self.last_units);
        bounds.fold(false, |any, (begins, ends)| any | ((*begins <= last) & (first <= *ends)))
    }

    /// Whether one segment has all these bytes.
    pub fn hold(&self, start: u64, end: u64) -> bool {
        self.may_touch(unit(start), unit(start))
            && self.exact.iter().any(|segment| segment.first_byte <= start && end <= segment.end_byte)
    }

    /// These bytes are written: segments that have some of them are worth nothing any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        if !self.may_touch(unit(start), unit(end)) {
            return;
        }
        for index in 0..self.exact.len() {
            let Segment { first_byte, end_byte } = self.exact[index];
            if first_byte < end && start < end_byte {
                (self.first_units[index], self.last_units[index]) = (i32::MAX, -1);
                self.exact[index] = EMPTY;
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
}
