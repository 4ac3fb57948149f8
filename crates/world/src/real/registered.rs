//! Page buffers that the kernel knows: their memory is registered with the ring once, so that an operation need not
//! look up and hold its pages each time.
//!
//! Purpose: reads and writes of one stretch of memory cost the processor 6 to 12 % less (docs/lab/speed.md).
//!
//! Invariants
//! 1. Only whole slabs are registered, and a slab outlives the ring: buffers keep their slabs until their thread ends.
//! 2. What cannot be registered is used as it is: the operation is the same without.
//!
//! Limits: memory that is registered is locked. A process without privilege may lock as much as RLIMIT_MEMLOCK says;
//! slabs beyond that are not registered. At most [`SLABS_MAX`] slabs of a thread are.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::Poll;

use compio::buf::{IntoInner, IoBuf, IoBufMut};
use compio::driver::{Decision, IourOpCode, OpEntry, PollOpCode, SharedFd};
use io_uring::{opcode, types};

use super::modes::Modes;
use super::transfer::{Direction, IoSpan};
use crate::PageBuf;
use crate::fixed_hash::FixedHashMap;
use crate::memory::SLAB_BYTES;

/// Largest number of slabs that a ring can register: 32 GiB.
const SLABS_MAX: u32 = 1 << 14;

/// Opcodes of `io_uring_register`.
const REGISTER_BUFFERS2: u32 = 15;
const REGISTER_BUFFERS_UPDATE: u32 = 16;
const REGISTER_SPARSE: u32 = 1;

/// `struct io_uring_rsrc_register`.
#[repr(C)]
#[derive(Default)]
struct Register {
    count: u32,
    flags: u32,
    reserved: u64,
    data: u64,
    tags: u64,
}

/// `struct io_uring_rsrc_update2`.
#[repr(C)]
#[derive(Default)]
struct Update {
    offset: u32,
    reserved: u32,
    data: u64,
    tags: u64,
    count: u32,
    reserved2: u32,
}

/// Slabs that are registered with a ring.
pub(super) struct Registered {
    /// Ring of the thread, if it takes registered buffers. Older kernels and sandboxes refuse them.
    ring: Option<RawFd>,
    modes: Arc<Modes>,
    /// Registered slots by address; `None` for a slab that the kernel refused.
    slots: RefCell<FixedHashMap<usize, Option<u16>>>,
    used: Cell<u32>,
}

impl Registered {
    /// Reserves slots in this ring, if the kernel has the call (Linux 5.19).
    pub fn new(ring: Option<RawFd>, modes: Arc<Modes>) -> Registered {
        let room = Register { count: SLABS_MAX, flags: REGISTER_SPARSE, ..Register::default() };
        let has_room =
            |ring: &RawFd| register(*ring, REGISTER_BUFFERS2, &room, size_of::<Register>()).is_ok();
        let taking = ring.filter(has_room);
        if ring.is_some() && taking.is_none() {
            modes.rings_without_buffers.add();
        }
        Registered { ring: taking, modes, slots: RefCell::default(), used: Cell::new(0) }
    }

    /// Registered slot of a buffer's memory; registers it if needed.
    pub fn slot(&self, buf: &PageBuf) -> Option<u16> {
        let (ring, slab) = (self.ring?, buf.slab()?);
        *self.slots.borrow_mut().entry(slab).or_insert_with(|| self.add(ring, slab))
    }

    fn add(&self, ring: RawFd, slab: usize) -> Option<u16> {
        self.modes.slabs.add();
        let slot = self.used.get();
        if slot == SLABS_MAX {
            return None;
        }
        let memory = [libc::iovec { iov_base: slab as *mut libc::c_void, iov_len: SLAB_BYTES }];
        let update = Update { offset: slot, data: memory.as_ptr() as u64, count: 1, ..Update::default() };
        register(ring, REGISTER_BUFFERS_UPDATE, &update, size_of::<Update>()).ok()?;
        self.used.set(slot + 1);
        self.modes.slabs_registered.add();
        Some(slot as u16)
    }
}

fn register<T>(ring: RawFd, what: u32, argument: &T, bytes: usize) -> io::Result<()> {
    // SAFETY: the descriptor is that of a ring, and the argument is the structure of as many bytes that this call
    // takes. The memory that it names lives longer than the ring (invariant 1).
    let done = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring, what, std::ptr::from_ref(argument), bytes)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Read or write of buffers whose memory is registered as `slot`.
pub(super) struct InSlot {
    pub direction: Direction,
    pub fd: SharedFd<std::fs::File>,
    pub offset: u64,
    pub stretch: IoSpan,
    pub slot: u16,
}

// SAFETY: the entry names memory of the buffer, which the operation owns until it has completed.
unsafe impl IourOpCode for InSlot {
    type Control = ();

    fn create_entry(&mut self, (): &mut ()) -> OpEntry {
        let fd = types::Fd(self.fd.as_raw_fd());
        match self.direction {
            Direction::Read => {
                let (to, bytes) = (self.stretch.buf_mut_ptr().cast(), self.stretch.buf_capacity() as u32);
                opcode::ReadFixed::new(fd, to, bytes, self.slot).offset(self.offset).build().into()
            }
            Direction::Write => {
                let (from, bytes) = (self.stretch.buf_ptr(), self.stretch.buf_len() as u32);
                opcode::WriteFixed::new(fd, from, bytes, self.slot).offset(self.offset).build().into()
            }
        }
    }
}

// SAFETY: nothing is handed to the system that outlives the call. Only a ring has slots, so this is never called.
unsafe impl PollOpCode for InSlot {
    type Control = ();

    fn pre_submit(&mut self, (): &mut ()) -> io::Result<Decision> {
        Ok(Decision::Blocking)
    }

    fn operate(&mut self, (): &mut ()) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl IntoInner for InSlot {
    type Inner = IoSpan;

    fn into_inner(self) -> IoSpan {
        self.stretch
    }
}
