//! The log writer: one task per instance writes what is there, syncs it, rolls to the next log.
//!
//! Invariants
//! 1. Group commit without a timer: a commit that finds the writer idle starts a write of all records that are there;
//!    one that finds it busy is served by the next write. Lazy commits wait for nothing.
//! 2. `durable` moves only after the sync behind the write (design invariants 1 and 2).
//! 3. A failed write or sync stops the instance for good; nothing is retried (design invariant 3).
//! 4. At a roll the old log has its archive name durably before the new one takes its place, and the new name is
//!    durable before any record in it is promised. No order of lost names loses a closed log.
//! 5. A flush closes the open segment, so no segment is ever rewritten and a torn write can only hit records
//!    that were not acknowledged. (The shadow segments of the format protect rewritten segments; a log written
//!    this way has none.)
//! 6. One write is under way at a time, and each of its segments names the first one. An opening needs that to tell
//!    damage from a torn write (`edb::log`, `ending`).
//!
//! Limits: at most 512 KiB per write.

mod next;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::{Rc, Weak};

use edb::log::{GENERATION_MAX, LogBuilder, LogHeader, RecordChain, Segment, WRITE_SEGMENTS_MAX};
use results::IoClass;
use smallvec::smallvec;
use world::sync::Notify;
use world::{Bufs, LocalFuture, OpenMode, PageBuf, SECTOR_BYTES, Task, World};

use super::{LogNames, LogPosition, LogTime, Signature, data_start, log_time, page_of};
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};
use crate::signal::Poison;

pub use next::LogHold;

/// Largest log write, and the size of the pieces in which the next log is zero-filled, bytes.
const WRITE_BYTES_MAX: usize = WRITE_SEGMENTS_MAX as usize * SECTOR_BYTES;

/// Number of last generations in which no new change begins; they are for ends of open transactions.
const GENERATIONS_KEPT: u32 = 256;

/// Configuration of the log writer.
pub(crate) struct LogConfig {
    pub(crate) names: LogNames,
    pub(crate) signature: Signature,
    /// Number of segments per log file, header included.
    pub(crate) segments: u16,
    pub(crate) buffer_bytes: usize,
    pub(crate) circular: bool,
    pub(crate) page_bytes: usize,
}

impl LogConfig {
    fn half_buffer(&self) -> u64 {
        self.buffer_bytes as u64 / 2
    }

    fn header(&self, generation: u32, created: LogTime, previous_created: LogTime) -> LogHeader {
        LogHeader {
            generation,
            segments: self.segments,
            page_bytes: self.page_bytes as u16,
            created,
            previous_created,
            signature: self.signature,
            circular: self.circular,
        }
    }
}

/// Adjacent segments of one log that are ready to be written.
struct Batch {
    first_segment: u16,
    pages: Bufs,
    /// End of the batch: records that end at or before this position are in this batch or an earlier one.
    end: LogPosition,
}

/// Actions of other parts when the log rolls.
pub(crate) trait RollHook {
    /// Called before any record of `generation` becomes durable: database headers must name it first.
    fn before_roll(&self, generation: u32) -> LocalFuture<'_, Result<()>>;
    /// Called when the new log is in place.
    fn after_roll(&self, generation: u32);
}

/// Current log, and where writing continues.
pub(crate) struct OpenLog {
    pub(crate) file: IoFile,
    pub(crate) generation: u32,
    pub(crate) created: LogTime,
    /// First empty segment.
    pub(crate) next_segment: u16,
    /// Chained checksum of its records so far.
    pub(crate) chain: RecordChain,
    /// Oldest closed log (= `generation` if none).
    pub(crate) oldest: u32,
}

/// Handle on the log stream of an instance.
#[derive(Clone)]
pub(crate) struct Log(Rc<Inner>);

struct Inner {
    world: World,
    config: LogConfig,
    counters: Counters,
    poison: Poison,
    state: RefCell<WriterState>,
    hook: RefCell<Option<Weak<dyn RollHook>>>,
    /// Wakes the writer.
    work: Notify,
    /// Notified when `durable` moved, the file grew, a roll is near, or the instance failed.
    progress: Notify,
    task: RefCell<Option<Task<()>>>,
    rolls: Cell<u64>,
    /// Whether there was no space for the next log.
    out_of_space: Cell<bool>,
}

struct WriterState {
    builder: LogBuilder,
    /// Full segments that wait to be written, in order.
    full: VecDeque<Segment>,
    /// Calendar at the last write, precise enough for segments.
    time: LogTime,
    durable: LogPosition,
    wanted: LogPosition,
    file: IoFile,
    generation: u32,
    created: LogTime,
    /// Number of segments of the current log on disk.
    written: u16,
    preparing: Option<Task<Result<Option<IoFile>>>>,
    hurry: bool,
    closing: bool,
    oldest: u32,
    checkpoint_generation: u32,
    holds: BTreeMap<u64, u32>,
    next_hold: u64,
}

impl Inner {
    /// Bytes of log that are not durable yet.
    fn pending_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.builder.position().bytes_since(state.durable, self.config.segments)
    }
}

impl Log {
    /// Creates the first log of a new stream.
    pub(crate) async fn create(world: &World, config: &LogConfig, counters: &Counters) -> Result<OpenLog> {
        let (next, current) = (config.names.next(), config.names.current());
        if world.entry(&next).await?.is_some() {
            world.remove(&next).await?;
        }
        let file = IoFile::open(world, &next, OpenMode::CreateNew, counters).await?;
        let bytes = usize::from(config.segments) * SECTOR_BYTES;
        let mut offset = 0;
        while offset < bytes {
            let piece = WRITE_BYTES_MAX.min(bytes - offset);
            file.write(IoClass::LogPrepareWrite, offset as u64, smallvec![PageBuf::empty(piece)]).await?;
            offset += piece;
        }
        let created = log_time(world);
        let header = page_of(&config.header(1, created, LogTime::default()).encode());
        file.write_durable(IoClass::LogWrite, 0, smallvec![header]).await?;
        world.rename(&next, &current).await?;
        world.sync_dir(&config.names.directory).await?;
        let file = IoFile::open(world, &current, OpenMode::ReadWrite, counters).await?;
        let chain = RecordChain::default();
        Ok(OpenLog { file, generation: 1, created, next_segment: 1, chain, oldest: 1 })
    }

    /// Continues writing behind the durable part of `open`.
    pub(crate) fn start(
        world: &World,
        config: LogConfig,
        counters: &Counters,
        poison: &Poison,
        open: OpenLog,
    ) -> Log {
        let builder = LogBuilder::new(open.generation, open.next_segment, config.segments, open.chain);
        let durable = builder.position();
        let state = WriterState {
            durable,
            wanted: durable,
            builder,
            full: VecDeque::new(),
            time: log_time(world),
            file: open.file,
            generation: open.generation,
            created: open.created,
            written: open.next_segment,
            preparing: None,
            hurry: false,
            closing: false,
            oldest: open.oldest,
            checkpoint_generation: 0,
            holds: BTreeMap::new(),
            next_hold: 0,
        };
        let inner = Inner {
            world: world.clone(),
            config,
            counters: counters.clone(),
            poison: poison.clone(),
            state: RefCell::new(state),
            hook: RefCell::new(None),
            work: Notify::new(),
            progress: Notify::new(),
            task: RefCell::new(None),
            rolls: Cell::new(0),
            out_of_space: Cell::new(false),
        };
        let log = Log(Rc::new(inner));
        poison.wake_on_failure(&log.0.work);
        poison.wake_on_failure(&log.0.progress);
        log.spawn_preparation();
        let writer = log.clone();
        *log.0.task.borrow_mut() = Some(world.spawn(async move { writer.run().await }));
        log
    }

    /// Sets the actions for log rolls.
    pub(crate) fn set_hook(&self, hook: Weak<dyn RollHook>) {
        *self.0.hook.borrow_mut() = Some(hook);
    }

    /// Appends a record, which is durable once `durable` has passed its end. The returned range begins behind the
    /// record before, at or before this record's first byte.
    pub(crate) fn append(&self, record: &[u8]) -> Range<LogPosition> {
        let mut state = self.0.state.borrow_mut();
        let (start, time) = (state.builder.position(), state.time);
        let end = state.builder.append(record, time);
        assert!(start < end, "the log grows with each record");
        if end.bytes_since(state.durable, self.0.config.segments) >= self.0.config.half_buffer() {
            self.0.work.notify_all();
        }
        start..end
    }

    /// Position behind the last record.
    pub(crate) fn tip(&self) -> LogPosition {
        self.0.state.borrow().builder.position()
    }

    /// Beginning of a segment before which everything is durable.
    pub(crate) fn durable_segments(&self) -> LogPosition {
        let state = self.0.state.borrow();
        let durable = LogPosition::new(state.durable.generation(), state.durable.segment(), 0);
        // The log may be full and the next one not there yet.
        let end_of_log = LogPosition::new(state.generation + 1, 0, 0);
        durable.max(LogPosition::new(state.generation, 0, 0)).min(end_of_log)
    }

    /// Number of the log file that is being written.
    pub(crate) fn generation(&self) -> u32 {
        self.0.state.borrow().generation
    }

    /// Asserts that the log is durable up to `position`, for callers that rely on it.
    pub(crate) fn assert_durable(&self, position: LogPosition) {
        let durable = self.0.state.borrow().durable;
        assert!(position <= durable, "the log is durable to {durable:?} only, {position:?} was promised");
    }

    /// Number of log rolls since the start.
    pub(crate) fn rolls(&self) -> u64 {
        self.0.rolls.get()
    }

    pub(crate) fn names(&self) -> &LogNames {
        &self.0.config.names
    }

    pub(crate) fn signature(&self) -> Signature {
        self.0.config.signature
    }

    /// Bytes of log between two positions.
    pub(crate) fn bytes_between(&self, from: LogPosition, to: LogPosition) -> u64 {
        to.bytes_since(from, self.0.config.segments)
    }

    /// Waits until everything before `position` is durable.
    pub(crate) async fn flush_to(&self, position: LogPosition) -> Result<()> {
        loop {
            self.0.poison.check()?;
            {
                let mut state = self.0.state.borrow_mut();
                if state.durable >= position {
                    return Ok(());
                }
                if state.wanted < position {
                    state.wanted = position;
                    self.0.work.notify_all();
                }
            }
            self.0.progress.wait().await;
        }
    }

    /// Waits while the log buffer is full.
    pub(crate) async fn room(&self) -> Result<()> {
        while self.0.pending_bytes() > self.0.config.buffer_bytes as u64 {
            self.0.poison.check()?;
            self.0.progress.wait().await;
        }
        self.0.poison.check()
    }

    /// Fails if the space for log, or the number of generations, is down to what closing the instance may need.
    pub(crate) fn check_space(&self) -> Result<()> {
        if self.0.out_of_space.get() {
            return Err(Error::LogVolumeFull { directory: self.0.config.names.directory.clone() });
        }
        if self.generation() > GENERATION_MAX - GENERATIONS_KEPT {
            return Err(Error::generations_used_up(&self.0.config.names.directory));
        }
        Ok(())
    }

    /// Waits for the next progress of the log (a finished write, a roll).
    pub(crate) async fn moved(&self) {
        self.0.progress.wait().await;
    }

    /// Writes the rest of the log and ends the writer.
    pub(crate) async fn close(&self) -> Result<()> {
        let flushed = self.flush_to(self.tip()).await;
        let (task, preparing) = {
            let mut state = self.0.state.borrow_mut();
            state.closing = true;
            (self.0.task.take(), state.preparing.take())
        };
        self.0.work.notify_all();
        self.0.progress.notify_all();
        if let Some(task) = task {
            task.await;
        }
        if let Some(task) = preparing {
            task.await?;
        }
        flushed
    }

    async fn run(&self) {
        let _working = self.0.poison.working();
        loop {
            let work = self.0.work.wait();
            if self.0.poison.check().is_err() {
                return;
            }
            if self.needs_roll() {
                let rolled = self.roll().await;
                if self.0.poison.require(rolled).is_err() {
                    return;
                }
            } else if let Some(batch) = self.next_batch() {
                let end = batch.end;
                let written = self.write(batch).await;
                if self.0.poison.require(written).is_err() {
                    return;
                }
                let durable = std::mem::replace(&mut self.0.state.borrow_mut().durable, end);
                assert!(durable < end, "what was durable stays so");
                self.0.progress.notify_all();
            } else if self.0.state.borrow().closing {
                return;
            } else {
                work.await;
            }
        }
    }

    /// Whether the current log is full. (A log that is being closed rolls when it is opened again.)
    fn needs_roll(&self) -> bool {
        let state = self.0.state.borrow();
        state.durable.generation() > state.generation && !state.closing
    }

    fn next_batch(&self) -> Option<Batch> {
        let half_full = self.0.pending_bytes() >= self.0.config.half_buffer();
        let state = &mut *self.0.state.borrow_mut();
        if state.wanted > state.durable {
            // What is wanted may lie in the open segment. It is closed, not written twice: see the invariants.
            if state.wanted > data_start(state.builder.position()) {
                state.builder.seal();
            }
        } else if !half_full {
            return None;
        }
        let full = state.builder.take_full();
        state.full.extend(full);
        let first = state.full.front()?.position;
        let same_log = |segment: &&Segment| segment.position.generation() == first.generation();
        let count = state.full.iter().take(WRITE_SEGMENTS_MAX.into()).take_while(same_log).count();
        let WriterState { full, builder, .. } = state;
        let pages = full.drain(..count).map(|mut segment| {
            segment.stamp(first.segment());
            let page = page_of(&segment.bytes);
            builder.reuse(segment);
            page
        });
        let pages = pages.collect();
        let next = state.full.front().map_or(state.builder.position(), |segment| segment.position);
        Some(Batch { first_segment: first.segment(), pages, end: data_start(next) })
    }

    async fn write(&self, batch: Batch) -> Result<()> {
        let file = {
            let mut state = self.0.state.borrow_mut();
            assert!(batch.first_segment == state.written, "the log is written in order, each segment once");
            state.time = log_time(&self.0.world);
            state.file.clone()
        };
        let offset = u64::from(batch.first_segment) * SECTOR_BYTES as u64;
        let segments = batch.pages.len() as u16;
        let (unsynced, retried) = (planted!(LogNotSynced), planted!(FailedSyncRetried));
        if unsynced || retried {
            file.write(IoClass::LogWrite, offset, batch.pages).await?;
            if retried && file.sync().await.is_err() {
                file.sync().await?;
            }
        } else {
            file.write_durable(IoClass::LogWrite, offset, batch.pages).await?;
        }
        self.0.state.borrow_mut().written = batch.first_segment + segments;
        Ok(())
    }

    async fn roll(&self) -> Result<()> {
        if self.generation() >= GENERATION_MAX {
            return Err(Error::generations_used_up(&self.0.config.names.directory));
        }
        let (preparing, generation) = {
            let mut state = self.0.state.borrow_mut();
            state.hurry = true;
            (state.preparing.take(), state.generation + 1)
        };
        self.0.progress.notify_all();
        let prepared = match preparing {
            Some(task) => task.await?,
            None => None,
        };
        // The preparation ends empty-handed only when the log is being closed.
        let Some(next) = prepared else { return Ok(()) };

        let config = &self.0.config;
        let created = log_time(&self.0.world);
        let previous = self.0.state.borrow().created;
        let header = page_of(&config.header(generation, created, previous).encode());
        next.write_durable(IoClass::LogWrite, 0, smallvec![header]).await?;
        let hook = self.0.hook.borrow().as_ref().and_then(Weak::upgrade);
        if let Some(hook) = &hook {
            hook.before_roll(generation).await?;
        }

        let (world, names) = (&self.0.world, &config.names);
        world.rename(&names.current(), &names.archive(generation - 1)).await?;
        world.sync_dir(&names.directory).await?;
        world.rename(&names.next(), &names.current()).await?;
        if !planted!(RollNotSynced) {
            world.sync_dir(&names.directory).await?;
        }
        let file = IoFile::open(world, &names.current(), OpenMode::ReadWrite, &self.0.counters).await?;
        {
            let mut state = self.0.state.borrow_mut();
            (state.file, state.generation, state.created, state.written) = (file, generation, created, 1);
            state.hurry = false;
        }
        self.0.rolls.set(self.0.rolls.get() + 1);
        self.spawn_preparation();
        self.0.progress.notify_all();
        if let Some(hook) = hook {
            hook.after_roll(generation);
        }
        Ok(())
    }
}
