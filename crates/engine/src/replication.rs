//! Log shipping, as the source of the logs sees it. [`Instance::replicate`] reads every log once it is closed,
//! as each extra copy of the published runs did; [`Instance::read_log`] serves copies that really exist, up to
//! the last flush.
//!
//! A copy of the published kind reads a closed log twice in pieces of 256 KiB (once to compare, once to send)
//! and its header once more: nine reads and two log sizes per log of 1 MiB, as published reports show.
//!
//! Invariants
//! 1. A log is not recycled before every copy has read it.
//! 2. A copy takes a log only if every segment and every record in it is what was written.

use std::rc::Rc;

use edb::log::{LogHeader, Records, SEGMENT_BYTES, SegmentState, judge_segment};
use edb::page::PageMut;
use futures_util::future::{join_all, select};
use results::IoClass;
use world::{OpenMode, PageBuf, SECTOR_BYTES};

use crate::cache::{PageKey, PageNeed};
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::io::IoFile;
use crate::judge::{Finding, judge};
use crate::log::reader::damaged;
use crate::log::store::{ShippedLog, read_stretch};
use crate::log::writer::LogHold;
use crate::log::{LogNames, LogPosition};
use crate::pieces::{Known, PageFindings, PieceReader};
use crate::signal::StopSignal;

const READ_BYTES_MAX: usize = 256 << 10;
/// Largest number of pages in one answer to a copy that is being seeded, bytes.
const CONTIGUOUS_BYTES_MAX: usize = 1 << 20;
const PASSES: usize = 2;

/// Result of the reading of logs for passive copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicationReport {
    /// Number of logs read, each copy counted.
    pub logs: u64,
}

impl Instance {
    /// Reads every log that closes from now on for `copies` copies, until the stop.
    ///
    /// # Errors
    /// A failed read, or a closed log that is not intact.
    pub async fn replicate(&self, copies: usize, stop: &StopSignal) -> Result<ReplicationReport> {
        let mut total = ReplicationReport::default();
        for logs in join_all((0..copies).map(|_| self.ship_logs(stop))).await {
            total.logs += logs?;
        }
        Ok(total)
    }

    /// Position before which the log is durable, so that copies may have it; the beginning of a segment.
    pub fn durable_log(&self) -> LogPosition {
        self.core().log.durable_segments()
    }

    /// End of the log, durable or not.
    pub fn log_end(&self) -> LogPosition {
        self.core().log.tip()
    }

    /// Makes everything in the log durable.
    ///
    /// # Errors
    /// The failure that stopped the instance.
    pub async fn flush_log(&self) -> Result<()> {
        let log = &self.core().log;
        log.flush_to(log.tip()).await
    }

    /// Position at which redo would begin after a crash: everything before it is in the files. Unset before the first
    /// checkpoint.
    pub fn durable_checkpoint(&self) -> LogPosition {
        self.core().durable_checkpoint.get()
    }

    /// Present page with checksums, and durable log up to its last change; `None` if it was never written.
    ///
    /// # Errors
    /// A page that is damaged, or failed I/O.
    pub async fn copy_page(&self, db: u8, pgno: u32) -> Result<Option<Vec<u8>>> {
        let (core, key) = (self.core(), PageKey { db, pgno });
        if core.cache.is_absent(key) {
            core.cache.preread(db, &[pgno], PageNeed::Bytes).await?;
            if core.cache.is_absent(key) && self.is_blank(db, pgno).await? {
                return Ok(None);
            }
        }
        // The copy that asked asks again; meanwhile the log has to reach the copies, or none could give the page.
        if core.cache.is_awaited(key) {
            return Err(core.damaged(db, pgno, "it failed its check"));
        }
        let mut bytes = core.read(db, |pager| Ok(pager.page(pgno)?.to_vec())).await?;
        let end = core.log.tip();
        PageMut::new(&mut bytes).finish(pgno);
        core.log.flush_to(end).await?;
        Ok(Some(bytes))
    }

    /// Makes an operation that needs a page which fails its check wait for [`Self::give_page`], up to 10 s. Calls
    /// `on_damage` for each such page: database and number.
    pub fn set_on_damage(&self, on_damage: Rc<dyn Fn(u8, u32)>) {
        self.core().cache.set_on_damage(on_damage);
    }

    /// Replaces a reported page by that of another copy, with checksums; no effect on other pages. The other copy must
    /// have replayed the log up to where it was durable when the page was reported.
    ///
    /// # Errors
    /// A page that is damaged, too, or failed I/O.
    pub async fn give_page(&self, db: u8, pgno: u32, bytes: &[u8]) -> Result<()> {
        self.core().cache.replace(PageKey { db, pgno }, bytes).await
    }

    /// Whether the file has only zeros at the place of this page.
    async fn is_blank(&self, db: u8, pgno: u32) -> Result<bool> {
        let (database, page_bytes) = (self.core().database(db)?, self.core().config.page_bytes);
        let offset = (u64::from(pgno) + 1) * page_bytes as u64;
        if database.file.file().size().await? < offset + page_bytes as u64 {
            return Ok(true);
        }
        let page = database.file.read_one(IoClass::HousekeepingRead, offset, page_bytes).await?;
        Ok(judge(&page, u64::from(pgno) + 1, database.template_id) == Finding::Uninitialised)
    }

    /// Pages of the file of database `db` as they are on disk, from the page at place `first` of the file on
    /// (the header is at 0, its shadow at 1, page 1 at 2), at most 1 MiB of them, each verified; and the place
    /// to go on at, if there are more. The header is that of a copy whose redo begins at `begin`. No page holds
    /// a change behind the durable log.
    ///
    /// # Errors
    /// A page that is damaged, or failed I/O.
    pub async fn copy_stretch(
        &self,
        db: u8,
        first: u64,
        begin: LogPosition,
    ) -> Result<(Vec<(u64, Rc<[u8]>)>, Option<u64>)> {
        let core = self.core();
        let (database, page_bytes) = (core.database(db)?, core.config.page_bytes as u64);
        let pieces = PieceReader {
            world: &core.world,
            file: &database.file,
            page_bytes: page_bytes as usize,
            template_id: database.template_id,
            class: IoClass::BackupRead,
            in_use: true,
        };
        let end = pieces.size().await? / page_bytes;
        let behind = end.min(first + (CONTIGUOUS_BYTES_MAX as u64 / page_bytes).max(1));
        let mut findings = PageFindings::default();
        let mut pages = pieces
            .read(Known::default(), first * page_bytes, (behind - first) * page_bytes, &mut findings)
            .await?;
        for (pgno, reason) in findings.list {
            // Memory may hold it; if not, this reports it.
            let held = if pgno > 0 { self.copy_page(db, pgno).await? } else { None };
            let held = held.ok_or_else(|| core.damaged(db, pgno, &reason))?;
            pages[(u64::from(pgno) + 1 - first) as usize] = PageBuf::copy_of(&held);
        }
        let mut copies: Vec<_> =
            (first..).zip(pages).map(|(at, page)| (at, Rc::from(page.as_slice()))).collect();
        if first < 2 {
            let mut header = database.header().await;
            header.set_dbtime(database.dbtime.get());
            header.set_backup_position(begin);
            let last = core.log.generation();
            header.set_generations(begin.generation(), last, last);
            for (_, page) in copies.iter_mut().filter(|(at, _)| *at < 2) {
                *page = Rc::from(header.stamped());
            }
        }
        Ok((copies, (behind < end).then_some(behind)))
    }

    /// Waits for the next progress of the log: a finished write, a roll, the end of the instance.
    ///
    /// # Errors
    /// The failure that stopped the instance.
    pub async fn log_moved(&self) -> Result<()> {
        self.core().log.moved().await;
        self.check()
    }

    /// Reads the log between two positions up to [`Instance::durable_log`], at most to the end of the log in
    /// which `from` lies; `None` if it is not there any more.
    ///
    /// # Errors
    /// Failed I/O, or a segment that is not what was written.
    pub async fn read_log(&self, from: LogPosition, until: LogPosition) -> Result<Option<ShippedLog>> {
        let (core, counters) = (self.core(), self.log_counters());
        let until = until.min(self.durable_log());
        if from >= until {
            return Ok(None);
        }
        let segments = core.config.segments()?;
        read_stretch(&core.world, core.log.names(), segments, &counters, (from, until)).await
    }

    /// Keeps the log from `generation` on until the hold is dropped or advanced.
    pub fn hold_log(&self, generation: u32) -> LogHold {
        self.core().log.hold(generation)
    }

    async fn ship_logs(&self, stop: &StopSignal) -> Result<u64> {
        let core = self.core();
        let mut next = core.log.generation();
        let hold = core.log.hold(next);
        let (mut logs, mut records) = (0, Records::new());
        while !stop.is_stopped() {
            core.poison.check()?;
            if core.log.generation() > next {
                self.read_closed_log(core.log.names(), next, &mut records).await?;
                (next, logs) = (next + 1, logs + 1);
                hold.advance(next);
                continue;
            }
            let moved = std::pin::pin!(core.log.moved());
            let stopped = std::pin::pin!(stop.stopped());
            select(moved, stopped).await;
        }
        Ok(logs)
    }

    async fn read_closed_log(&self, names: &LogNames, generation: u32, records: &mut Records) -> Result<()> {
        let core = self.core();
        let path = names.archive(generation);
        let counters = self.log_counters();
        let file = IoFile::open(&core.world, &path, OpenMode::Read, &counters).await?;
        let header = file.read_one(IoClass::ReplicationRead, 0, SECTOR_BYTES).await?;
        let header = header.as_slice().first_chunk().and_then(|bytes| LogHeader::parse(bytes).ok());
        if header.is_none_or(|header| header.generation != generation) {
            return Err(damaged(&path, "its header is not that of a closed log"));
        }
        let end = core.config.log_bytes as usize;
        for pass in 0..PASSES {
            let mut offset = 0;
            while offset < end {
                let bytes = READ_BYTES_MAX.min(end - offset);
                let piece = file.read_one(IoClass::ReplicationRead, offset as u64, bytes).await?;
                if pass == 0 {
                    check_piece(&path, generation, offset, end, piece.as_slice(), records)?;
                }
                offset += bytes;
            }
        }
        Ok(())
    }
}

/// Checks that every segment with data in a closed log is valid, and every record in it.
fn check_piece(
    path: &str,
    generation: u32,
    offset: usize,
    end: usize,
    piece: &[u8],
    records: &mut Records,
) -> Result<(), Error> {
    let last = end / SEGMENT_BYTES - 1;
    let (segments, _) = piece.as_chunks::<SEGMENT_BYTES>();
    for (number, bytes) in (offset / SEGMENT_BYTES..).zip(segments) {
        let carries_data = number > 0 && number < last;
        if carries_data && judge_segment(bytes, generation, number as u16) != SegmentState::Good {
            return Err(damaged(path, &format!("segment {number} is not valid")));
        }
        if carries_data {
            records.push(bytes, |_, _| {}).map_err(|damage| damaged(path, &damage.to_string()))?;
        }
    }
    Ok(())
}
