//! What one call to the kernel moves: a direction, and buffers with what is left of them.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use compio::buf::{IoBuf, IoBufMut, IoVectoredBuf, IoVectoredBufMut, SetLen};

use crate::{Bufs, ErrorKind};

/// Largest number of buffers in one system call (IOV_MAX).
const BUFS_PER_CALL_MAX: usize = 1024;

/// Direction of a transfer: read or write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub fn verb(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }

    pub fn short(self) -> ErrorKind {
        match self {
            Direction::Read => ErrorKind::ShortRead,
            Direction::Write => ErrorKind::ShortWrite,
        }
    }
}

/// Buffers that lie side by side in memory; the first `done` bytes have been transferred.
pub(super) struct IoSpan {
    pub bufs: Bufs,
    pub memory: NonNull<[u8]>,
    pub done: usize,
}

impl IoBuf for IoSpan {
    fn as_init(&self) -> &[u8] {
        // SAFETY: the memory of the buffers, which are ours.
        unsafe { &self.memory.as_ref()[self.done..] }
    }
}

impl SetLen for IoSpan {
    // SAFETY: a page buffer is initialised from the start and its length never changes: there is nothing to do.
    unsafe fn set_len(&mut self, _: usize) {}
}

impl IoBufMut for IoSpan {
    fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as above.
        uninit(unsafe { &mut self.memory.as_mut()[self.done..] })
    }
}

/// Buffers of one operation; the first `done` bytes have been transferred.
pub(super) struct ScatteredBufs {
    pub bufs: Bufs,
    pub done: usize,
}

impl IoVectoredBuf for ScatteredBufs {
    fn iter_slice(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.done;
        let rest = self.bufs.iter().filter_map(move |buf| {
            let skipped = skip.min(buf.len());
            skip -= skipped;
            (skipped < buf.len()).then(|| &buf.as_slice()[skipped..])
        });
        rest.take(BUFS_PER_CALL_MAX)
    }
}

impl SetLen for ScatteredBufs {
    // SAFETY: as for `IoSpan`.
    unsafe fn set_len(&mut self, _: usize) {}
}

impl IoVectoredBufMut for ScatteredBufs {
    fn iter_uninit_slice(&mut self) -> impl Iterator<Item = &mut [MaybeUninit<u8>]> {
        let mut skip = self.done;
        let rest = self.bufs.iter_mut().filter_map(move |buf| {
            let skipped = skip.min(buf.len());
            skip -= skipped;
            (skipped < buf.len()).then(|| uninit(&mut buf.as_read_target()[skipped..]))
        });
        rest.take(BUFS_PER_CALL_MAX)
    }
}

fn uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: same layout; compio's contract for `as_uninit` is that only initialised bytes are ever written to it.
    unsafe { &mut *(bytes as *mut [u8] as *mut [MaybeUninit<u8>]) }
}
