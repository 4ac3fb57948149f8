//! Memory for buffers: aligned for unbuffered I/O, kept by each thread for the next buffer, cut from slabs that the
//! system can back with large pages.
//!
//! Invariants
//! 1. All of it is initialised; what it held before is arbitrary.
//! 2. A slab goes back to the system when its thread ends, and only if no buffer of it is in use.
//! 3. A thread takes a new slab only if a buffer of each of its slabs is in use. It cuts a free slab anew, also for
//!    buffers of another length.
//!
//! Limits: lengths are multiples of [`SECTOR_BYTES`]; lengths that do not divide a slab are allocated one by one.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

use crate::SECTOR_BYTES;
use crate::fixed_hash::FixedHashMap;

/// Sector-aligned memory from a per-thread pool.
pub(crate) struct Aligned {
    pub memory: NonNull<u8>,
    pub len: usize,
}

/// Size of a slab, bytes. Small buffers are cut from slabs, each of which one large page can back: fewer page faults,
/// and a database page is contiguous memory for the device instead of eight.
pub(crate) const SLAB_BYTES: usize = 2 << 20;
/// Largest buffer that is cut from a slab, bytes, and so surely contiguous. Larger ones are allocated
/// singly, since slabs are kept, each for one length.
pub const CONTIGUOUS_BYTES_MAX: usize = 256 << 10;
/// Largest amount of freed large buffers that a thread keeps for each size, bytes; more go back to the allocator.
/// Small ones are always kept.
const POOL_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
struct Pool {
    free: Vec<(usize, Vec<NonNull<u8>>)>,
    /// Bytes of large buffers in the pool.
    large_bytes: usize,
    slabs: Vec<NonNull<u8>>,
    /// Slabs of the pool that are not cut yet.
    uncut: Vec<NonNull<u8>>,
    /// Number of buffers cut from slabs and in use.
    cut: usize,
}

impl Pool {
    fn of(&mut self, len: usize) -> &mut Vec<NonNull<u8>> {
        let at = self.free.iter().position(|(l, _)| *l == len).unwrap_or_else(|| {
            self.free.push((len, Vec::new()));
            self.free.len() - 1
        });
        &mut self.free[at].1
    }

    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        let is_cut = Aligned::is_cut(len);
        if is_cut && self.of(len).is_empty() {
            let slab = self.slab();
            let list = self.of(len);
            // The first to be taken is the first in memory.
            let starts = (0..SLAB_BYTES / len).rev();
            // SAFETY: each offset lies inside the slab.
            list.extend(starts.map(|at| unsafe { slab.add(at * len) }));
        }
        let memory = self.of(len).pop();
        match memory {
            Some(_) if is_cut => self.cut += 1,
            Some(_) => self.large_bytes -= len,
            None => {}
        }
        memory
    }

    /// Takes a slab to cut.
    fn slab(&mut self) -> NonNull<u8> {
        if self.uncut.is_empty() {
            self.collect_uncut();
        }
        self.uncut.pop().unwrap_or_else(|| {
            let slab = Aligned::slab();
            self.slabs.push(slab);
            slab
        })
    }

    /// Removes buffers of free slabs from the lists. Creating a database needs large buffers and ends before the load,
    /// whose page caches then use the same memory.
    fn collect_uncut(&mut self) {
        let mut free_bytes = FixedHashMap::<usize, usize>::default();
        // A shorter list has no whole slab.
        let long = |(len, list): &&mut (usize, Vec<NonNull<u8>>)| {
            Aligned::is_cut(*len) && *len * list.len() >= SLAB_BYTES
        };
        for (len, list) in self.free.iter_mut().filter(long) {
            for memory in &*list {
                *free_bytes.entry(Aligned::slab_of(*memory)).or_default() += *len;
            }
            list.retain(|memory| free_bytes[&Aligned::slab_of(*memory)] < SLAB_BYTES);
        }
        let is_free = |slab: &&NonNull<u8>| free_bytes.get(&slab.as_ptr().addr()) == Some(&SLAB_BYTES);
        self.uncut.extend(self.slabs.iter().filter(is_free));
    }

    /// Returns a buffer to the pool. False if it is not kept.
    fn give(&mut self, memory: NonNull<u8>, len: usize) -> bool {
        if Aligned::is_cut(len) {
            self.cut -= 1;
        } else if self.large_bytes + len > POOL_BYTES_MAX {
            return false;
        } else {
            self.large_bytes += len;
        }
        self.of(len).push(memory);
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (len, list) in self.free.drain(..).filter(|(len, _)| !Aligned::is_cut(*len)) {
            for memory in list {
                // SAFETY: allocated by `Aligned` with the same layout, and owned by the pool since.
                unsafe { dealloc(memory.as_ptr(), Aligned::layout(len, SECTOR_BYTES)) }
            }
        }
        // A buffer that outlives the pool of its thread keeps the slabs.
        for slab in self.slabs.drain(..).filter(|_| self.cut == 0) {
            Aligned::free_slab(slab);
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl Aligned {
    fn layout(len: usize, align: usize) -> Layout {
        Layout::from_size_align(len, align).expect("buffer sizes are far below the limit")
    }

    /// Whether buffers of this length are cut from slabs.
    pub fn is_cut(len: usize) -> bool {
        len <= CONTIGUOUS_BYTES_MAX && SLAB_BYTES.is_multiple_of(len)
    }

    /// Address of the slab that contains this memory.
    pub fn slab_of(memory: NonNull<u8>) -> usize {
        memory.as_ptr().addr() & !(SLAB_BYTES - 1)
    }

    fn allocate(len: usize, align: usize) -> NonNull<u8> {
        let layout = Self::layout(len, align);
        // SAFETY: the layout has a non-zero size (PageBuf::empty asserts it). The advice concerns whole pages
        // of memory that is ours, and whether it is taken makes no difference to what the memory holds. All of
        // it is initialised.
        unsafe {
            let Some(memory) = NonNull::new(alloc(layout)) else { handle_alloc_error(layout) };
            // Miri knows no advice.
            if align == SLAB_BYTES && !cfg!(miri) {
                let _ = madvise(memory.as_ptr().cast(), len, Advice::LinuxHugepage);
            }
            memory.write_bytes(0, len);
            memory
        }
    }

    fn slab() -> NonNull<u8> {
        Self::allocate(SLAB_BYTES, SLAB_BYTES)
    }

    /// Returns a slab none of whose buffers is in use.
    fn free_slab(slab: NonNull<u8>) {
        // SAFETY: made by `slab`, with this layout; no other pointer to it is left.
        unsafe { dealloc(slab.as_ptr(), Self::layout(SLAB_BYTES, SLAB_BYTES)) }
    }

    /// Memory with arbitrary, initialised contents.
    pub fn uncleared(len: usize) -> Aligned {
        let pooled = POOL.try_with(|pool| pool.borrow_mut().take(len)).ok().flatten();
        Aligned { memory: pooled.unwrap_or_else(|| Self::allocate(len, SECTOR_BYTES)), len }
    }

    /// Memory with a copy of bytes; nothing is cleared first.
    pub fn copy_of(bytes: &[u8]) -> Aligned {
        let mut memory = Aligned::uncleared(bytes.len());
        memory.as_mut_slice().copy_from_slice(bytes);
        memory
    }

    pub fn zeroed(len: usize) -> Aligned {
        let mut memory = Aligned::uncleared(len);
        memory.as_mut_slice().fill(0);
        memory
    }

    /// Address range of `len` bytes from this place on.
    pub fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= self.len, "a part lies inside its piece");
        // SAFETY: inside the memory, see above.
        unsafe { self.memory.as_ptr().add(at) }
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `memory` points to `len` initialised bytes owned by `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let (memory, len) = (self.memory, self.len);
        match POOL.try_with(|pool| pool.borrow_mut().give(memory, len)) {
            Ok(true) => {}
            // The thread is ending; the slab that it was cut from stays with it.
            Err(_) if Self::is_cut(len) => {}
            // SAFETY: allocated in `uncleared` with this layout; no other pointer to it is left.
            Ok(false) | Err(_) => unsafe { dealloc(memory.as_ptr(), Self::layout(len, SECTOR_BYTES)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn slabs() -> usize {
        POOL.with_borrow(|pool| pool.slabs.len())
    }

    fn fill(slabs: usize, len: usize) -> Vec<Aligned> {
        (0..slabs * SLAB_BYTES / len).map(|_| Aligned::uncleared(len)).collect()
    }

    #[test]
    fn a_free_slab_serves_buffers_of_another_length() {
        drop(fill(3, CONTIGUOUS_BYTES_MAX));
        assert_eq!(slabs(), 3);
        let mut pages = fill(3, 2 * SECTOR_BYTES);
        assert_eq!(slabs(), 3, "no more memory than before");
        let addresses = pages.iter().map(|page| page.memory.as_ptr().addr()).collect::<BTreeSet<_>>();
        assert_eq!(addresses.len(), pages.len(), "each has memory of its own");

        // A page of each slab stays, so no slab is free.
        pages.retain(|page| page.memory.as_ptr().addr().is_multiple_of(SLAB_BYTES));
        let contiguous = fill(1, CONTIGUOUS_BYTES_MAX);
        assert_eq!(slabs(), 4);
        drop((pages, contiguous));
        drop(fill(4, SECTOR_BYTES));
        assert_eq!(slabs(), 4, "every slab is free again");
    }
}
