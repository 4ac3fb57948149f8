//! Files: positioned reads and writes straight into and out of page buffers.
//!
//! A file in memory (tmpfs) has no device to wait for, and io_uring would hand each of its calls to another
//! thread, which costs more than the call. So these calls are made at once, on the thread that wants them.

use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use compio::BufResult;
use compio::buf::IntoInner;
use compio::driver::op::{AsyncifyFd, ReadAt, ReadVectoredAt, Sync, WriteAt, WriteVectoredAt};
use compio::driver::{OpCode, SharedFd};
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;

use super::failure::failed;
use super::hold::HeldFile;
use super::ops::{Ops, give_way};
use super::shared::Counters;
use super::transfer::{Direction, IoSpan, ScatteredBufs};
use crate::{Bufs, Error, HostFile, LocalFuture, PageBuf, PageCodec, Passage, Result, TemplatePages};

/// Result of a system call: bytes transferred, and its buffers.
type Called<B> = (io::Result<usize>, B);

/// Open file on the real file system.
pub(super) struct RealFile(Rc<OpenFile>);

struct OpenFile {
    fd: SharedFd<HeldFile>,
    path: String,
    in_memory: bool,
    ops: Rc<Ops>,
    counters: Arc<Counters>,
}

impl RealFile {
    pub fn new(file: HeldFile, path: String, ops: Rc<Ops>, counters: Arc<Counters>) -> RealFile {
        let in_memory = is_in_memory(file.file());
        RealFile(Rc::new(OpenFile { fd: SharedFd::new(file), path, in_memory, ops, counters }))
    }

    pub fn is_in_memory(&self) -> bool {
        self.0.in_memory
    }
}

fn is_in_memory(file: &std::fs::File) -> bool {
    // The number has another type with each libc; the magic fits into 32 bits.
    fstatfs(file).is_ok_and(|of| of.f_type as u64 == libc::TMPFS_MAGIC as u64)
}

impl OpenFile {
    /// Transfers all bytes, in several system calls if needed.
    async fn transfer(
        self: Rc<Self>,
        direction: Direction,
        offset: u64,
        mut bufs: Bufs,
    ) -> (Result<Passage>, Bufs) {
        // Before the read and not behind it: what it brings is then used while it is in the processor's own caches.
        if self.in_memory && direction == Direction::Read {
            give_way().await;
        }
        // Bytes are made here, on the thread that owns the buffers: the polling driver looks at them from another one.
        for buf in &mut bufs {
            match direction {
                Direction::Read => _ = buf.as_read_target(),
                Direction::Write => _ = buf.as_slice(),
            }
        }
        let total = bufs.iter().map(PageBuf::len).sum::<usize>();
        let operation = || format!("{} {total} bytes at {offset} of", direction.verb());
        let (mut done, mut held) = (0, Duration::ZERO);
        while done < total {
            let (result, held_in_call);
            ((result, bufs), held_in_call) = self.call(direction, offset, bufs, done).await;
            held += held_in_call;
            match result {
                Ok(0) => {
                    let (kind, path) = (direction.short(), self.path.clone());
                    let reason = format!("only {done} bytes were transferred");
                    return (Err(Error { kind, operation: operation(), path, reason }), bufs);
                }
                Ok(moved) => done += moved,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return (Err(failed(operation(), &self.path, &cause)), bufs),
            }
        }
        match direction {
            Direction::Read => self.counters.read(total as u64),
            Direction::Write => self.counters.wrote(total as u64),
        }
        // A write that has begun is done, also if no task waits for it any more.
        if self.in_memory && direction == Direction::Write {
            give_way().await;
        }
        (Ok(Passage { held: (!self.in_memory).then_some(held) }), bufs)
    }

    /// One system call for everything after the first `done` bytes; uses plain opcodes for contiguous memory.
    async fn call(
        &self,
        direction: Direction,
        offset: u64,
        mut bufs: Bufs,
        done: usize,
    ) -> (Called<Bufs>, Duration) {
        let offset = offset + done as u64;
        if self.in_memory {
            let result = self.call_at_once(direction, offset, &mut bufs, done);
            return ((result, bufs), Duration::ZERO);
        }
        if let Some(memory) = PageBuf::contiguous(&mut bufs) {
            let span = IoSpan { bufs, memory, done };
            let ((result, span), held) = match direction {
                Direction::Read => self.submit(ReadAt::new(self.fd.clone(), offset, span)).await,
                Direction::Write => self.submit(WriteAt::new(self.fd.clone(), offset, span)).await,
            };
            return ((result, span.bufs), held);
        }
        let many = ScatteredBufs { bufs, done };
        let ((result, many), held) = match direction {
            Direction::Read => self.submit(ReadVectoredAt::new(self.fd.clone(), offset, many)).await,
            Direction::Write => self.submit(WriteVectoredAt::new(self.fd.clone(), offset, many)).await,
        };
        ((result, many.bufs), held)
    }

    /// One blocking system call for the rest of the buffer that contains byte `done`.
    fn call_at_once(
        &self,
        direction: Direction,
        offset: u64,
        bufs: &mut Bufs,
        done: usize,
    ) -> io::Result<usize> {
        let mut skip = done;
        for buf in bufs {
            if skip >= buf.len() {
                skip -= buf.len();
                continue;
            }
            return match direction {
                Direction::Read => self.fd.file().read_at(&mut buf.as_read_target()[skip..], offset),
                Direction::Write => self.fd.file().write_at(&buf.as_slice()[skip..], offset),
            };
        }
        Ok(0)
    }

    async fn submit<B, T: OpCode + IntoInner<Inner = B> + 'static>(&self, op: T) -> (Called<B>, Duration) {
        let (BufResult(result, op), held) = self.ops.submit(op).await;
        ((result, op.into_inner()), held)
    }
}

impl HostFile for RealFile {
    fn read_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        Box::pin(self.0.clone().transfer(Direction::Read, offset, bufs))
    }

    fn write_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        Box::pin(self.0.clone().transfer(Direction::Write, offset, bufs))
    }

    fn sync(&self) -> LocalFuture<'static, Result<Passage>> {
        let file = self.0.clone();
        Box::pin(async move {
            // fdatasync: contents, and the size where it matters for reading them back; not the time stamps.
            let (synced, held) = match file.in_memory {
                true => (file.fd.file().sync_data(), None),
                false => {
                    let (BufResult(synced, _), held) =
                        file.ops.submit(Sync::new(file.fd.clone(), true)).await;
                    (synced.map(drop), Some(held))
                }
            };
            synced.map_err(|cause| failed("sync", &file.path, &cause))?;
            file.counters.synced();
            Ok(Passage { held })
        })
    }

    fn size(&self) -> LocalFuture<'static, Result<u64>> {
        let size = self.0.fd.file().metadata().map(|metadata| metadata.len());
        let size = size.map_err(|cause| failed("ask the size of", &self.0.path, &cause));
        Box::pin(std::future::ready(size))
    }

    fn set_size(&self, bytes: u64) -> LocalFuture<'static, Result<()>> {
        let file = self.0.clone();
        Box::pin(async move {
            let op = AsyncifyFd::new(file.fd.clone(), move |file: &HeldFile| {
                BufResult(Ok(0), resize(file.file(), bytes))
            });
            let (BufResult(_, op), _) = file.ops.submit(op).await;
            let operation = || format!("set the size to {bytes} bytes of");
            op.into_inner().map_err(|cause| failed(operation(), &file.path, &cause))
        })
    }

    fn adopt_template(
        &self,
        _template: Rc<dyn TemplatePages>,
        _codec: Rc<dyn PageCodec>,
    ) -> LocalFuture<'static, Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// Cuts the file, or grows it with allocated space where the file system supports that.
fn resize(file: &std::fs::File, bytes: u64) -> io::Result<()> {
    let size = file.metadata()?.len();
    if bytes <= size {
        return file.set_len(bytes);
    }
    match fallocate(file, FallocateFlags::empty(), size, bytes - size) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes),
        Err(cause) => {
            // A full disk may have left the file half grown.
            file.set_len(size)?;
            Err(cause.into())
        }
    }
}
