//! Files with counters: every read and write of the engine goes through here and is counted in one class.
//!
//! Invariants
//! 1. Measured I/O = issued I/O (design invariant 7): each completed read or write is recorded exactly once, in the
//!    class it was issued for; the sums over classes equal the world's own count.
//! 2. A failed operation is not counted, and its error is returned, never swallowed.
//!
//! Limits: offsets and lengths are multiples of `world::SECTOR_BYTES`.

use std::cell::RefCell;
use std::rc::Rc;

use results::{IoClass, IoCounters, IoStats};
use smallvec::smallvec;
use world::{Bufs, File, OpenMode, PageBuf, Time, World};

use crate::error::Result;

/// Counters of one database or one log stream.
#[derive(Debug, Clone, Default)]
pub struct FileCounters {
    /// Reads and writes by class. The latency of a log write includes the sync that makes it durable.
    pub io: IoCounters,
    /// File syncs on their own.
    pub syncs: IoStats,
}

/// A shared handle on [`FileCounters`].
#[derive(Debug, Clone, Default)]
pub struct Counters(Rc<RefCell<FileCounters>>);

impl Counters {
    /// The counts since the last call; counting starts again from zero.
    pub fn take(&self) -> FileCounters {
        self.0.take()
    }

    /// Adds what another thread has counted.
    pub(crate) fn merge(&self, counted: &FileCounters) {
        let mut counters = self.0.borrow_mut();
        counters.io.merge(&counted.io);
        counters.syncs.merge(&counted.syncs);
    }

    /// Counts one completed operation that was made beside the engine.
    pub fn record(&self, class: IoClass, bytes: u64, latency_ns: u64) {
        self.0.borrow_mut().io.record(class, bytes, latency_ns);
    }
}

/// An open file whose I/O is counted.
#[derive(Clone)]
pub(crate) struct IoFile {
    world: World,
    file: File,
    counters: Counters,
}

impl IoFile {
    pub(crate) async fn open(
        world: &World,
        path: &str,
        mode: OpenMode,
        counters: &Counters,
    ) -> Result<IoFile> {
        let file = world.open(path, mode).await?;
        Ok(IoFile { world: world.clone(), file, counters: counters.clone() })
    }

    pub(crate) fn path(&self) -> &str {
        self.file.path()
    }

    /// The file itself, for what is not counted (size, template).
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) async fn read(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<Bufs> {
        let (start, bytes) = (self.world.now(), total_bytes(&bufs));
        let (result, bufs) = self.file.read_at(offset, bufs).await;
        result?;
        assert!(total_bytes(&bufs) == bytes, "what is counted is what was asked for");
        self.counters.record(class, bytes, self.elapsed_ns(start));
        Ok(bufs)
    }

    /// One buffer of `bytes` bytes.
    pub(crate) async fn read_one(&self, class: IoClass, offset: u64, bytes: usize) -> Result<PageBuf> {
        let mut bufs = self.read(class, offset, smallvec![PageBuf::empty(bytes)]).await?;
        Ok(bufs.pop().expect("a read gives its buffers back"))
    }

    pub(crate) async fn write(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<()> {
        let (start, bytes) = (self.world.now(), total_bytes(&bufs));
        let (result, _) = self.file.write_at(offset, bufs).await;
        result?;
        self.counters.record(class, bytes, self.elapsed_ns(start));
        Ok(())
    }

    /// Writes and syncs; the recorded latency is the time until the bytes were durable.
    pub(crate) async fn write_durable(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<()> {
        let (start, bytes) = (self.world.now(), total_bytes(&bufs));
        let (result, _) = self.file.write_at(offset, bufs).await;
        result?;
        let synced = self.sync().await;
        // The write itself completed, so it counts whatever became of the sync.
        self.counters.record(class, bytes, self.elapsed_ns(start));
        synced
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        let start = self.world.now();
        self.file.sync().await?;
        let latency_ns = self.elapsed_ns(start);
        self.counters.0.borrow_mut().syncs.record(0, latency_ns);
        Ok(())
    }

    fn elapsed_ns(&self, start: Time) -> u64 {
        self.world.now().ns.saturating_sub(start.ns)
    }
}

fn total_bytes(bufs: &Bufs) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}
