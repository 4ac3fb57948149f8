//! The log of a passive copy: stretches that another host sends, kept in the files that an instance would have
//! written.
//!
//! Invariants
//! 1. A stretch is durable, its file's name included, when [`LogStore::store`] returns.
//! 2. A stretch is taken only where the log ends, and only if every segment of it is what was written, in its
//!    place, and of the same stream, and every record is the one that follows the record before it: no gap,
//!    nothing twice, nothing changed.
//! 3. Behind the end of the last log there are zeros, so what a cut has left can never pass for a continuation. Only
//!    the last segment, which holds no records, has a mark: it names the stretch that is written together with it,
//!    and is never zeroed before that is durable.
//! 4. A crash in the middle of a write may leave segments that pass their checksum and are torn (see
//!    `recovery::pages`): the checksums of whole records are what counts. So after a crash the log ends behind
//!    its last whole record, in the middle of a segment, and no commit that was reported as stored lies behind
//!    that. What comes next completes the segment in a new file that takes the place of the old one: bytes that
//!    hold commits are never overwritten.
//!
//! Limits: a stretch belongs to one log.

use std::ops::Range;

use edb::log::{LogHeader, Records, SegmentState, judge_segment, mark};
use results::IoClass;
use smallvec::smallvec;
use world::{ErrorKind, OpenMode, PageBuf, World};

use super::reader::{LogContents, LogFiles, damaged};
use super::{LogNames, LogPosition, SEGMENT_BYTES};
use crate::config::InstanceConfig;
use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};

/// Largest read or write, bytes.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// Part of a log on its way to another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShippedLog {
    /// Position of its first byte; segment 0 is the log's header.
    pub from: LogPosition,
    /// Bytes up to the end of a segment.
    pub bytes: Vec<u8>,
    /// Whether the log ends with them.
    pub closes: bool,
}

impl ShippedLog {
    /// End of a log that ends with this part.
    pub fn end(&self) -> LogPosition {
        match self.closes {
            true => log_start(self.from.generation() + 1),
            false => {
                let segments = (usize::from(self.from.byte()) + self.bytes.len()) / SEGMENT_BYTES;
                LogPosition::new(self.from.generation(), self.from.segment() + segments as u16, 0)
            }
        }
    }
}

/// The log files of a passive copy.
pub struct LogStore {
    world: World,
    names: LogNames,
    segments: u16,
    counters: Counters,
    /// First log generation that exists.
    start: u32,
    end: LogPosition,
    /// Header of the last existing log.
    last_header: Option<LogHeader>,
    /// Incomplete last log.
    open: Option<IoFile>,
    /// Chains of records before the log that contains the end, and before the end; computed when next needed.
    records: Option<(Records, Records)>,
}

impl LogStore {
    /// Opens the log files of a passive copy. An end that a crash left incomplete is wiped.
    ///
    /// # Errors
    /// Failed I/O, and logs that do not belong together.
    pub async fn open(world: &World, config: &InstanceConfig) -> Result<LogStore> {
        let mut store = LogStore {
            world: world.clone(),
            names: LogNames::new(&config.log_directory, &config.log_base),
            segments: config.segments()?,
            counters: config.log_counters.clone(),
            start: 1,
            end: log_start(1),
            last_header: None,
            open: None,
            records: None,
        };
        // The process before may have ended before it synced them, and what it stored was acknowledged.
        world.sync_dir(&store.names.directory).await?;
        let files = LogFiles::find(world, &store.names).await?;
        let mut records = Records::new();
        if let Some(&last) = files.archives.last() {
            let log = store.read_log(&store.names.archive(last)).await?;
            if !log.is_complete() {
                return Err(damaged(&store.names.archive(last), "a closed log is not complete"));
            }
            log.records(&mut records, |_, _| {})?;
            (store.end, store.last_header) = (log_start(last + 1), Some(*log.header()));
            store.start = first_of_chain(&files.archives);
        }
        if files.current {
            store.open_current(records).await?;
        }
        Ok(store)
    }

    /// First generation and end of the log; `None` if there is no log.
    pub fn extent(&self) -> Option<(u32, LogPosition)> {
        (self.end > log_start(self.start)).then_some((self.start, self.end))
    }

    /// Appends a part to the log, durably.
    ///
    /// # Errors
    /// A stretch that does not belong there (nothing has changed then), or failed I/O.
    pub async fn store(&mut self, stretch: &ShippedLog) -> Result<()> {
        if stretch.from != self.end {
            return Err(refused(stretch.from, &format!("the log here ends at {:?}", self.end)));
        }
        let generation = self.end.generation();
        let kept = if self.end.byte() > 0 { self.read_kept().await? } else { Vec::new() };
        let first = if self.end.byte() > 0 { 0 } else { self.end.segment() };
        let bytes = [&kept[..], &stretch.bytes].concat();
        let header = self.inspect(stretch, first, &bytes)?;
        let records = self.inspect_records(stretch, first, &bytes).await?;
        match &self.open {
            Some(file) if first > 0 => {
                self.write_segments(file, first, &bytes).await?;
                let behind = first + (bytes.len() / SEGMENT_BYTES) as u16;
                self.mark(file, generation, first..behind).await?;
                if !planted!(StretchNotSynced) {
                    file.sync().await?;
                }
            }
            _ if first == 0 => self.put_log(generation, &bytes).await?,
            _ => return Err(refused(stretch.from, "its log has no beginning here")),
        }
        if stretch.closes {
            self.open = None;
            self.world.rename(&self.names.current(), &self.names.archive(generation)).await?;
            self.world.sync_dir(&self.names.directory).await?;
        }
        if self.extent().is_none() {
            self.start = generation;
        }
        self.last_header = header.or(self.last_header);
        self.end = stretch.end();
        self.records = Some(records);
        Ok(())
    }

    /// Reads from `from` to `until`, at most to the end of the log that contains `from`; `None` if it does not exist.
    ///
    /// # Errors
    /// Failed I/O, or a segment that is not what was written.
    pub async fn read(&self, from: LogPosition, until: LogPosition) -> Result<Option<ShippedLog>> {
        let until = until.min(LogPosition::new(self.end.generation(), self.end.segment(), 0));
        if from.generation() < self.start || from >= until {
            return Ok(None);
        }
        read_stretch(&self.world, &self.names, self.segments, &self.counters, (from, until)).await
    }

    /// Cuts the log at `to`. The first part of the segment that contains `to` is kept.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn truncate(&mut self, to: LogPosition) -> Result<()> {
        if to >= self.end {
            return Ok(());
        }
        (self.open, self.records) = (None, None);
        let current = self.names.current();
        // From the end backwards: what a crash leaves is then a log with a later end.
        let is_open = |end: LogPosition| end > log_start(end.generation());
        let last = if is_open(self.end) { self.end.generation() } else { self.end.generation() - 1 };
        for generation in (to.generation()..=last).rev() {
            let is_kept = generation == to.generation() && is_open(to);
            let is_current = generation == last && is_open(self.end);
            let path = if is_current { current.clone() } else { self.names.archive(generation) };
            if !is_kept {
                self.world.remove(&path).await?;
                self.world.sync_dir(&self.names.directory).await?;
            } else if !is_current {
                self.world.rename(&path, &current).await?;
                self.world.sync_dir(&self.names.directory).await?;
            }
        }
        self.end = to;
        if is_open(to) {
            let file = IoFile::open(&self.world, &current, OpenMode::ReadWrite, &self.counters).await?;
            self.wipe(&file, to.generation(), first_free(to)).await?;
            self.open = Some(file);
        }
        self.last_header = match last_generation(to) {
            Some(generation) if generation >= self.start => {
                Some(*self.read_log(&self.path_of(generation)).await?.header())
            }
            _ => None,
        };
        Ok(())
    }

    /// Removes the whole log and the checkpoint; the next log to be stored is `next`.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn begin_at(&mut self, next: u32) -> Result<()> {
        (self.open, self.records) = (None, None);
        for entry in self.world.list(&self.names.directory).await? {
            let is_log = self.names.archive_generation(&entry.name).is_some();
            let path = format!("{}/{}", self.names.directory, entry.name);
            if is_log
                || path == self.names.current()
                || path == self.names.next()
                || path == self.names.checkpoint()
            {
                self.world.remove(&path).await?;
            }
        }
        self.world.sync_dir(&self.names.directory).await?;
        (self.start, self.end, self.last_header) = (next, log_start(next), None);
        Ok(())
    }

    /// Removes closed logs below `generation`.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn drop_below(&mut self, generation: u32) -> Result<()> {
        while self.start < generation.min(self.end.generation()) {
            self.world.remove(&self.names.archive(self.start)).await?;
            self.start += 1;
        }
        Ok(())
    }

    fn path_of(&self, generation: u32) -> String {
        let is_open = generation == self.end.generation() && self.open.is_some();
        if is_open { self.names.current() } else { self.names.archive(generation) }
    }

    /// Log up to its end, which lies in the middle of a segment.
    async fn read_kept(&self) -> Result<Vec<u8>> {
        let mut bytes = self.read_log(&self.names.current()).await?.into_bytes();
        bytes.truncate(usize::from(self.end.segment()) * SEGMENT_BYTES + usize::from(self.end.byte()));
        Ok(bytes)
    }

    async fn read_log(&self, path: &str) -> Result<LogContents> {
        LogContents::read(&self.world, path, self.segments, &self.counters, IoClass::LogRead).await
    }

    /// Incomplete last log after a crash: it ends between two records.
    async fn open_current(&mut self, mut records: Records) -> Result<()> {
        let current = self.names.current();
        let mut log = self.read_log(&current).await?;
        let header = *log.header();
        let generation = header.generation;
        match &self.last_header {
            Some(before) if !header.follows(before) => {
                return Err(damaged(&current, "it does not belong to the chain of logs"));
            }
            Some(_) => {}
            None => self.start = generation,
        }
        log.settle_end(Some(&records))?;
        let mut end = LogPosition::new(generation, 1, 0);
        for (segment, behind) in log.segments().zip(2..) {
            let pushed = records.push(segment, |record_end, _| end = record_end);
            pushed.map_err(|damage| damaged(&current, &damage.to_string()))?;
            if records.is_between_records() {
                end = LogPosition::new(generation, behind, 0);
            }
        }
        let file = IoFile::open(&self.world, &current, OpenMode::ReadWrite, &self.counters).await?;
        self.wipe(&file, generation, first_free(end)).await?;
        (self.end, self.last_header) = (end, Some(header));
        self.open = Some(file);
        Ok(())
    }

    /// Zeroes the log from `segment` on, durably, and marks what is before it.
    async fn wipe(&self, file: &IoFile, generation: u32, segment: u16) -> Result<()> {
        let mut offset = usize::from(segment) * SEGMENT_BYTES;
        let end = usize::from(self.segments - 1) * SEGMENT_BYTES;
        while offset < end {
            let bytes = PIECE_BYTES_MAX.min(end - offset);
            file.write(IoClass::LogPrepareWrite, offset as u64, smallvec![PageBuf::empty(bytes)]).await?;
            offset += bytes;
        }
        self.mark(file, generation, segment..segment).await?;
        file.sync().await
    }

    /// Mark that names the segments written together with it: everything before them is durable.
    async fn mark(&self, file: &IoFile, generation: u32, stretch: Range<u16>) -> Result<()> {
        let bytes = mark(generation, self.segments, stretch);
        let offset = u64::from(self.segments - 1) * SEGMENT_BYTES as u64;
        file.write(IoClass::LogPrepareWrite, offset, smallvec![PageBuf::copy_of(&bytes)]).await
    }

    /// Writes the segments from `first` on, except the last one of a log, which is this copy's own.
    async fn write_segments(&self, file: &IoFile, first: u16, bytes: &[u8]) -> Result<()> {
        let room = usize::from(self.segments - 1 - first) * SEGMENT_BYTES;
        let mut offset = u64::from(first) * SEGMENT_BYTES as u64;
        for piece in bytes[..room.min(bytes.len())].chunks(PIECE_BYTES_MAX) {
            file.write(IoClass::LogWrite, offset, smallvec![PageBuf::copy_of(piece)]).await?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Checks `bytes`, the segments from `first` on that end with the part, by their checksums. Returns their header.
    fn inspect(&self, stretch: &ShippedLog, first: u16, bytes: &[u8]) -> Result<Option<LogHeader>> {
        let generation = stretch.from.generation();
        let (segments, rest) = bytes.as_chunks::<SEGMENT_BYTES>();
        let behind = usize::from(first) + segments.len();
        let is_whole = behind == usize::from(self.segments);
        if !rest.is_empty()
            || stretch.bytes.is_empty()
            || behind > self.segments.into()
            || is_whole != stretch.closes
        {
            return Err(refused(stretch.from, "it does not end with a segment of its log"));
        }
        let mut header = None;
        for (number, segment) in (first..).zip(segments) {
            if number == 0 {
                let parsed = LogHeader::parse(segment)
                    .map_err(|damage| refused(stretch.from, &format!("its header: {damage}")))?;
                // The log that is being completed is its own last one.
                let before = self.last_header.filter(|last| last.generation < generation);
                if parsed.generation != generation
                    || parsed.segments != self.segments
                    || before.is_some_and(|before| !parsed.follows(&before))
                {
                    return Err(refused(
                        stretch.from,
                        "its header is not that of the next log of this stream",
                    ));
                }
                header = Some(parsed);
            } else if !is_good(segment, generation, number, self.segments) {
                return Err(refused(stretch.from, &format!("segment {number} is not what was written")));
            }
        }
        Ok(header)
    }

    /// Checks that the records in `bytes`, the segments from `first` on that end with the part, continue the records
    /// here. Returns the chains before the log that contains the new end, and before that end.
    async fn inspect_records(
        &mut self,
        stretch: &ShippedLog,
        first: u16,
        bytes: &[u8],
    ) -> Result<(Records, Records)> {
        let (before_log, before_end) = match self.records.take() {
            Some(known) => known,
            None => self.read_records().await?,
        };
        let mut records = if first == 0 { before_log.clone() } else { before_end.clone() };
        let (segments, _) = bytes.as_chunks::<SEGMENT_BYTES>();
        let mut damage = None;
        for (number, segment) in (first..).zip(segments) {
            if number > 0 && number < self.segments - 1 && damage.is_none() {
                damage = records.push(segment, |_, _| {}).err();
            }
        }
        if let Some(damage) = damage {
            self.records = Some((before_log, before_end));
            return Err(refused(stretch.from, &damage.to_string()));
        }
        Ok(if stretch.closes { (records.clone(), records) } else { (before_log, records) })
    }

    /// Reads from the files the chains before the log that contains the end, and before the end.
    async fn read_records(&self) -> Result<(Records, Records)> {
        let (generation, mut before_log) = (self.end.generation(), Records::new());
        if generation > self.start {
            let before = self.read_log(&self.names.archive(generation - 1)).await?;
            before.records(&mut before_log, |_, _| {})?;
        }
        let mut before_end = before_log.clone();
        if self.end > log_start(generation) && self.end.byte() == 0 {
            let current = self.names.current();
            let log = self.read_log(&current).await?;
            for segment in log.segments().take(usize::from(self.end.segment()) - 1) {
                let pushed = before_end.push(segment, |_, _| {});
                pushed.map_err(|damage| damaged(&current, &damage.to_string()))?;
            }
        }
        Ok((before_log, before_end))
    }

    /// Replaces a log file by one with the first segments of a log.
    async fn put_log(&mut self, generation: u32, bytes: &[u8]) -> Result<()> {
        let (next, current) = (self.names.next(), self.names.current());
        if self.world.entry(&next).await?.is_some() {
            self.world.remove(&next).await?;
        }
        self.open = None;
        let file = IoFile::open(&self.world, &next, OpenMode::CreateNew, &self.counters).await?;
        self.write_segments(&file, 0, bytes).await?;
        // Syncs what was written before, too.
        self.wipe(&file, generation, (bytes.len() / SEGMENT_BYTES) as u16).await?;
        self.world.rename(&next, &current).await?;
        self.world.sync_dir(&self.names.directory).await?;
        self.open = Some(IoFile::open(&self.world, &current, OpenMode::ReadWrite, &self.counters).await?);
        Ok(())
    }
}

fn refused(at: LogPosition, why: &str) -> Error {
    Error::Refused(format!("log at {at:?}: {why}"))
}

/// Whether a segment is in order. The last segment of a log is reserved and holds nothing.
fn is_good(segment: &[u8; SEGMENT_BYTES], generation: u32, number: u16, segments: u16) -> bool {
    number == segments - 1 || judge_segment(segment, generation, number) == SegmentState::Good
}

/// First empty segment of a log that ends at `end`.
fn first_free(end: LogPosition) -> u16 {
    end.segment() + u16::from(end.byte() > 0)
}

/// Position at which a log begins.
fn log_start(generation: u32) -> LogPosition {
    LogPosition::new(generation, 0, 0)
}

/// Log generation that contains the byte before `end`.
fn last_generation(end: LogPosition) -> Option<u32> {
    if end > log_start(end.generation()) { Some(end.generation()) } else { end.generation().checked_sub(1) }
}

/// First of the generations, ascending, that lead without a gap to the last.
fn first_of_chain(generations: &[u32]) -> u32 {
    let mut first = *generations.last().expect("there is a last one");
    for &generation in generations.iter().rev().skip(1) {
        if generation + 1 != first {
            break;
        }
        first = generation;
    }
    first
}

/// Reads the log between two positions, at most to the end of the log that contains the first, and checks it segment
/// by segment. `until` is the beginning of a segment. `None` if that log does not exist (any more).
pub(crate) async fn read_stretch(
    world: &World,
    names: &LogNames,
    segments: u16,
    counters: &Counters,
    (from, until): (LogPosition, LogPosition),
) -> Result<Option<ShippedLog>> {
    let generation = from.generation();
    let closes = until.generation() > generation;
    let behind = if closes { segments } else { until.segment() };
    let archive = names.archive(generation);
    let is_closed = world.entry(&archive).await?.is_some();
    let path = if is_closed { archive } else { names.current() };
    let file = match IoFile::open(world, &path, OpenMode::Read, counters).await {
        // While a log rolls there is none by the name of the current one for a moment.
        Err(Error::World(error)) if error.kind == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::with_capacity(usize::from(behind - from.segment()) * SEGMENT_BYTES);
    let start = usize::from(from.segment()) * SEGMENT_BYTES;
    let end = usize::from(behind) * SEGMENT_BYTES;
    while start + bytes.len() < end {
        let at = start + bytes.len();
        let piece = file.read_one(IoClass::ReplicationRead, at as u64, PIECE_BYTES_MAX.min(end - at)).await?;
        bytes.extend_from_slice(piece.as_slice());
    }
    for (number, segment) in (from.segment()..).zip(bytes.as_chunks::<SEGMENT_BYTES>().0) {
        let is_right = match number {
            0 => LogHeader::parse(segment).is_ok_and(|header| header.generation == generation),
            _ => is_good(segment, generation, number, segments),
        };
        // Between the look for the closed log and the opening of the current one the log may have rolled.
        if !is_right && !is_closed && world.entry(&names.archive(generation)).await?.is_some() {
            return Ok(None);
        }
        if !is_right {
            return Err(damaged(&path, &format!("segment {number} is not what was written")));
        }
    }
    bytes.drain(..usize::from(from.byte()));
    Ok(Some(ShippedLog { from, bytes, closes }))
}
