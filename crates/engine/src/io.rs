//! Files with counters: every read and write of the engine goes through here and is counted in one class.
//!
//! Invariants
//! 1. Measured I/O = issued I/O (design invariant 7): each completed read or write is recorded exactly once, in the
//!    class it was issued for; the sums over classes equal the world's own count.
//! 2. A failed operation is not counted, and its error is returned, never swallowed.
//! 3. An operation of a class waits from its begin until it completes, fails, or its future is dropped, and no longer.
//!
//! Limits: offsets and lengths are multiples of `world::SECTOR_BYTES`.

use std::cell::RefCell;
use std::rc::Rc;

use results::{ClassTotals, IoClass, IoCounters, IoStats, IoTotals};
use slab::Slab;
use smallvec::smallvec;
use world::{Bufs, File, OpenMode, PageBuf, Passage, Time, World};

use crate::error::Result;

/// I/O counters of one database or one log stream.
#[derive(Debug, Clone, Default)]
pub struct FileCounters {
    /// I/O by class. The latency of a log write includes the sync that makes it durable.
    pub io: IoCounters,
    /// Number of separate file syncs.
    pub syncs: IoStats,
}

/// Shared handle on [`FileCounters`] and on the operations in flight.
#[derive(Debug, Clone, Default)]
pub struct Counters(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    counted: RefCell<FileCounters>,
    /// Class and start of each operation in flight. The slab keeps its slots, so its length is the largest number
    /// that were in flight at once.
    in_flight: RefCell<Slab<(IoClass, Time)>>,
}

impl Counters {
    /// Counts since the last call; counting restarts at zero. Operations in flight stay.
    pub fn take(&self) -> FileCounters {
        self.0.counted.take()
    }

    /// Adds the counts of another thread.
    pub(crate) fn merge(&self, counted: &FileCounters) {
        let mut counters = self.0.counted.borrow_mut();
        counters.io.merge(&counted.io);
        counters.syncs.merge(&counted.syncs);
    }

    /// Begins an operation. It counts as in flight until it is [completed](Operation::completed) or dropped.
    pub fn begin(&self, class: IoClass, now: Time) -> Operation<'_> {
        let slot = self.0.in_flight.borrow_mut().insert((class, now));
        Operation { counters: self, slot }
    }

    /// Operations of this thread that wait at this moment; not those of redo workers on other threads.
    pub fn waiting(&self, now: Time) -> ClassTotals {
        let mut waiting = ClassTotals::default();
        for (_, (class, begun)) in self.0.in_flight.borrow().iter() {
            waiting.add(*class, IoTotals::one(0, now.since(*begun).as_nanos() as u64));
        }
        waiting
    }
}

/// Operation in flight. If it is dropped without completion, it is not counted.
#[must_use = "an operation that is dropped at once was never in flight"]
#[derive(Debug)]
pub struct Operation<'a> {
    counters: &'a Counters,
    slot: usize,
}

impl Operation<'_> {
    /// Counts the completed operation with its bytes, and the time for which the program held it.
    pub fn completed(self, bytes: u64, passage: Passage, now: Time) {
        let (class, begun) = self.counters.0.in_flight.borrow()[self.slot];
        let latency_ns = now.since(begun).as_nanos() as u64;
        let mut counted = self.counters.0.counted.borrow_mut();
        counted.io.record(class, bytes, latency_ns);
        if let Some(held) = passage.held {
            counted.io.record_held(class, held.as_nanos() as u64);
        }
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.counters.0.in_flight.borrow_mut().remove(self.slot);
    }
}

/// Open file whose I/O is counted.
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

    /// File without counting, for other uses (size, template).
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) async fn read(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<Bufs> {
        let (operation, bytes) = (self.begin(class), total_bytes(&bufs));
        let (result, bufs) = self.file.read_at(offset, bufs).await;
        let passage = result?;
        assert!(total_bytes(&bufs) == bytes, "what is counted is what was asked for");
        operation.completed(bytes, passage, self.world.now());
        Ok(bufs)
    }

    /// Reads one buffer of `bytes` bytes.
    pub(crate) async fn read_one(&self, class: IoClass, offset: u64, bytes: usize) -> Result<PageBuf> {
        let mut bufs = self.read(class, offset, smallvec![PageBuf::empty(bytes)]).await?;
        Ok(bufs.pop().expect("a read gives its buffers back"))
    }

    pub(crate) async fn write(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<()> {
        self.write_and_keep(class, offset, bufs).await.map(drop)
    }

    /// Writes, and gives the buffers back.
    pub(crate) async fn write_and_keep(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<Bufs> {
        let (operation, bytes) = (self.begin(class), total_bytes(&bufs));
        let (result, bufs) = self.file.write_at(offset, bufs).await;
        operation.completed(bytes, result?, self.world.now());
        Ok(bufs)
    }

    /// Writes and syncs; the recorded latency is the time until the bytes were durable.
    pub(crate) async fn write_durable(&self, class: IoClass, offset: u64, bufs: Bufs) -> Result<()> {
        let (operation, bytes) = (self.begin(class), total_bytes(&bufs));
        let (result, _) = self.file.write_at(offset, bufs).await;
        let written = result?;
        let synced = self.sync_passage().await;
        // The write itself completed, so it counts even if the sync failed.
        let passage = synced.as_ref().map_or(written, |synced| written.and(*synced));
        operation.completed(bytes, passage, self.world.now());
        synced.map(|_| ())
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        self.sync_passage().await.map(|_| ())
    }

    async fn sync_passage(&self) -> Result<Passage> {
        let start = self.world.now();
        let passage = self.file.sync().await?;
        let latency_ns = self.world.now().since(start).as_nanos() as u64;
        self.counters.0.counted.borrow_mut().syncs.record(0, latency_ns);
        Ok(passage)
    }

    fn begin(&self, class: IoClass) -> Operation<'_> {
        self.counters.begin(class, self.world.now())
    }
}

fn total_bytes(bufs: &Bufs) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use world::Duration;
    use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};

    use super::*;

    const CLASS: IoClass = IoClass::TransactionalRead;
    const ONE: usize = 4096;

    /// File of 4 KiB on simulated storage whose reads take an hour.
    async fn file_of_slow_reads(world: &World) -> IoFile {
        let file = IoFile::open(world, "/v/1.edb", OpenMode::CreateNew, &Counters::default()).await.unwrap();
        file.write(IoClass::InitWrite, 0, smallvec![PageBuf::empty(ONE)]).await.unwrap();
        file.counters.take();
        file
    }

    fn simulation() -> (Simulation, World) {
        let times = FixedLatencyTimes {
            read_latency: Duration::from_secs(3_600),
            bytes_per_second: u64::MAX,
            jitter: Duration::ZERO,
            ..FixedLatencyTimes::default()
        };
        let storage = Box::new(FixedLatency::new(1, times));
        let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
        let world = sim.host("h");
        sim.volume("h", "/v", 1 << 30);
        (sim, world)
    }

    #[test]
    fn an_operation_that_does_not_return_is_seen_with_the_time_that_it_has_waited() {
        let (sim, world) = simulation();
        sim.run_until(async {
            let file = file_of_slow_reads(&world).await;
            let (reader, counters) = (file.clone(), file.counters.clone());
            let read = world.spawn(async move { reader.read_one(CLASS, 0, ONE).await });
            world.sleep(Duration::from_secs(60)).await;
            assert_eq!(counters.take().io.class(CLASS).totals.count, 0, "nothing has completed");
            let minute = IoTotals::one(0, 60_000_000_000);
            assert_eq!(counters.waiting(world.now()).class(CLASS), minute, "taking counts leaves it waiting");

            read.await.unwrap();
            assert_eq!(counters.waiting(world.now()), ClassTotals::default());
            let hour = IoTotals::one(ONE as u64, 3_600_000_000_000);
            assert_eq!(counters.take().io.class(CLASS).totals, hour, "from its begin to its completion");
        });
    }

    #[test]
    fn an_operation_whose_future_is_dropped_or_that_fails_waits_no_longer() {
        let (sim, world) = simulation();
        sim.run_until(async {
            let file = file_of_slow_reads(&world).await;
            {
                let mut reads = pin!(file.read_one(CLASS, 0, ONE));
                assert!(poll!(&mut reads).is_pending());
                assert_eq!(file.counters.waiting(world.now()).class(CLASS).count, 1);
            }
            assert_eq!(file.counters.waiting(world.now()), ClassTotals::default());
            assert!(file.read_one(CLASS, ONE as u64, ONE).await.is_err(), "nothing lies behind the end");
            assert_eq!(file.counters.waiting(world.now()), ClassTotals::default());
            assert_eq!(file.counters.take().io.class(CLASS).totals.count, 0);
        });
    }
}
