//! Large pages for the memory of a simulation.
//!
//! A simulation of days has gigabytes of small objects and looks at them all over, so most looks miss the TLB of the
//! processor. The memory of an allocator grows by little at a time. So the system backs it with small pages, also where
//! it may use large ones. Therefore the simulation asks for large pages from time to time.
//!
//! Invariant: what is simulated does not depend on it. Where the system refuses, nothing happens.

use std::cell::Cell;
use std::ops::Range;

use crate::memory::SLAB_BYTES;
use crate::time::{Duration, Time};

/// Virtual time between two requests for large pages, and before the first. Moving 400 MiB takes a second of real
/// time, too much for a short simulation.
const EACH: Duration = Duration::from_secs(600);

/// Smallest region that is moved, bytes. Smaller ones beside slabs are mostly unused.
const REGION_BYTES_MIN: usize = 16 << 20;

/// Schedule of requests for large pages.
pub(super) struct LargePages(Cell<Time>);

impl Default for LargePages {
    fn default() -> LargePages {
        LargePages(Cell::new(Time::default() + EACH))
    }
}

impl LargePages {
    /// Notes the virtual time, and requests large pages if due.
    #[inline]
    pub fn at(&self, now: Time) {
        if now >= self.0.get() {
            self.0.set(now + EACH);
            // Miri runs nothing of the system's.
            if !cfg!(miri) {
                ask();
            }
        }
    }
}

/// Requests large pages for the large anonymous regions of the process's memory.
#[cold]
fn ask() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for region in maps.lines().filter_map(own_memory).filter(|region| region.len() >= REGION_BYTES_MIN) {
        let (start, end) = (region.start.next_multiple_of(SLAB_BYTES), region.end - region.end % SLAB_BYTES);
        // SAFETY: the advice changes how memory is backed, not what it holds. A region that has gone meanwhile is
        // refused.
        let _ = unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_COLLAPSE) };
    }
}

/// Address range of a line of `/proc/self/maps`, if the allocator's memory may lie there (`proc_pid_maps(5)`).
fn own_memory(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_private = words.next()? == "rw-p";
    let (_offset, _device, inode) = (words.next()?, words.next()?, words.next()?);
    let is_heap = matches!(words.next(), None | Some("[heap]"));
    let at = |digits| usize::from_str_radix(digits, 16).ok();
    (is_private && inode == "0" && is_heap).then_some(at(start)?..at(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_are_asked_for_private_memory_without_a_file_only() {
        let heap = "55d0c8a00000-55d0c8c21000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(own_memory(heap), Some(0x55d0_c8a0_0000..0x55d0_c8c2_1000));
        assert_eq!(
            own_memory("7f0000000000-7f0004000000 rw-p 00000000 00:00 0 "),
            Some(0x7f00_0000_0000..0x7f00_0400_0000)
        );
        for other in [
            "7f0004000000-7f0008000000 ---p 00000000 00:00 0 ",
            "7f1c00000000-7f1c00022000 rw-p 001e0000 fe:00 1234                       /usr/lib/libc.so.6",
            "7ffd3a000000-7ffd3a021000 rw-p 00000000 00:00 0                          [stack]",
            "7f1c10000000-7f1c10400000 rw-s 00000000 00:01 99                         /dev/zero (deleted)",
            "not a line",
        ] {
            assert_eq!(own_memory(other), None, "{other}");
        }
    }
}
