//! Streaming backup of a database in use: read, verified, and copied if asked.
//!
//! Invariants
//! 1. The copy and the logs from [`BackupReport::first_generation`] on restore the database: the copy's header
//!    says where its redo begins, which is at or before the oldest change that the file lacked when the backup
//!    began.
//! 2. The logs that the copy needs are kept until the backup is over; to restore later, keep them longer.
//! 3. The copy is synced, and its header written last: a copy that was cut off has no header and cannot be opened.

use btree::{Pager, PagesInUse};
use futures_util::future::join_all;
use results::IoClass;
use world::{Bufs, OpenMode};

use crate::cache::PageKey;
use crate::checksum::StreamConfig;
use crate::core::Core;
use crate::create::directory_of;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::header;
use crate::instance::Instance;
use crate::io::IoFile;
use crate::judge::Finding;
use crate::log::LogPosition;
use crate::pieces::{Known, PageFindings, PieceQueue, PieceReader, Progress};
use crate::signal::StopSignal;

/// Result of a backup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackupReport {
    /// Findings on the pages.
    pub findings: PageFindings,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the file when the backup began.
    pub bytes_there: u64,
    /// Time that the backup took, s.
    pub seconds: f64,
    /// First log generation that a restore of the copy needs.
    pub first_generation: u32,
    /// Last log generation that a restore of the copy needs.
    pub last_generation: u32,
}

impl Instance {
    /// Reads database `db` from end to end; with `copy_to`, writes what it reads to that new file.
    ///
    /// # Errors
    /// A failed read or write, or the stop of a copy (a cut-off copy is none; mere reading ends early). Bad
    /// pages are no error: they are in the report.
    pub async fn back_up(
        &self,
        db: u8,
        config: StreamConfig,
        copy_to: Option<&str>,
        progress: &Progress,
        stop: &StopSignal,
    ) -> Result<BackupReport> {
        let core = self.core();
        let started = core.world.now();
        let begin = core.checkpoint_position();
        let _hold = core.log.hold(begin.generation());
        let copy = match copy_to {
            None => None,
            Some(path) => Some(new_copy(core, core.database(db)?, path).await?),
        };
        let mut report = read_through(core, db, config, copy.as_ref(), progress, stop).await?;
        // Pages of the copy may hold changes up to here: a restore must come at least this far.
        core.log.flush_to(core.log.tip()).await?;
        (report.first_generation, report.last_generation) = (begin.generation(), core.log.tip().generation());
        if let Some(copy) = copy {
            complete(core, db, &copy, begin, &report).await?;
        }
        report.seconds = core.world.now().since(started).as_secs_f64();
        Ok(report)
    }
}

async fn new_copy(core: &Core, database: &Database, path: &str) -> Result<IoFile> {
    let copy = IoFile::open(&core.world, path, OpenMode::CreateNew, &database.counters).await?;
    copy.file().keep_like(database.file.path());
    Ok(copy)
}

/// Reads the database from end to end, and writes everything but its header to `copy`.
async fn read_through(
    core: &Core,
    db: u8,
    config: StreamConfig,
    copy: Option<&IoFile>,
    progress: &Progress,
    stop: &StopSignal,
) -> Result<BackupReport> {
    let (database, page_bytes) = (core.database(db)?, core.config.page_bytes);
    let pieces = PieceReader {
        world: &core.world,
        file: &database.file,
        page_bytes,
        template_id: database.template_id,
        class: IoClass::BackupRead,
        in_use: true,
    };
    // Pages that are taken into use from now on need not be in the file.
    let used = core.read(db, PagesInUse::read).await?;
    let is_unwritten = |pgno| core.cache.is_unwritten(PageKey { db, pgno });
    let is_other = core.is_other_version(db);
    let known = Known {
        used: used.as_ref(),
        unwritten: Some(&is_unwritten),
        is_other: Some(&is_other),
        ..Known::default()
    };
    let end = pieces.size().await?;
    let queue = PieceQueue::new(end, config.read_bytes);
    progress.begin(end);
    let stream = || async {
        let mut report = BackupReport::default();
        let mut judged = |bytes| {
            report.bytes += bytes;
            progress.add(bytes);
        };
        let Some(copy) = copy else {
            let goes_on = || core.poison.check().map(|()| !stop.is_stopped());
            pieces.read_through(known, &queue, &mut report.findings, goes_on, &mut judged).await?;
            return Ok(report);
        };
        while let Some((offset, bytes)) = queue.take() {
            if stop.is_stopped() {
                return Err(Error::Refused("the backup was stopped".to_owned()));
            }
            core.poison.check()?;
            let mut pages = pieces.read(known, offset, bytes, &mut report.findings).await?;
            write_copy(copy, offset, &mut pages, page_bytes).await?;
            judged(bytes);
        }
        Ok(report)
    };
    let mut total = BackupReport { bytes_there: end, ..BackupReport::default() };
    for report in join_all((0..config.depth.max(1)).map(|_| stream())).await {
        let report = report?;
        total.findings.merge(report.findings);
        total.bytes += report.bytes;
    }
    if let Some(used) = used {
        judge_zero(core, db, &used, &mut total.findings).await?;
    }
    Ok(total)
}

/// Judges the zero pages that were found, and adds damage that keeps the trees from telling more.
async fn judge_zero(core: &Core, db: u8, used: &PagesInUse, findings: &mut PageFindings) -> Result<()> {
    let zero = std::mem::take(&mut findings.zero);
    let mut search = used.search_references(zero);
    while let Some(pgno) = search.next_page() {
        let look = |pager: &dyn Pager| pager.page(pgno).map(|page| search.look(Some(page)));
        match core.read(db, look).await {
            Err(Error::DamagedPage { .. }) => search.look(None),
            looked => looked?,
        }
    }
    findings.settle(search.end());
    for (pgno, reason) in used.hidden_by() {
        let reason = format!("{reason}, so the pages in use are not known");
        findings.add(pgno, Finding::Bad(reason));
    }
    Ok(())
}

/// Completes the copy with its header and its name, durably.
async fn complete(
    core: &Core,
    db: u8,
    copy: &IoFile,
    begin: LogPosition,
    report: &BackupReport,
) -> Result<()> {
    let database = core.database(db)?;
    let mut header = database.header().await;
    header.set_dbtime(database.dbtime.get());
    header.set_backup_position(begin);
    header.set_generations(report.first_generation, report.last_generation, report.last_generation);
    if !planted!(CopyNotSynced) {
        copy.sync().await?;
    }
    header::write(&mut header, copy, IoClass::BackupWrite).await?;
    core.world.sync_dir(directory_of(copy.path())).await?;
    Ok(())
}

/// Writes a piece to its place in the copy, except the header pages.
async fn write_copy(copy: &IoFile, offset: u64, pages: &mut Bufs, page_bytes: usize) -> Result<()> {
    let mut pages = std::mem::take(pages);
    let mut offset = offset;
    if offset == 0 {
        pages.drain(..2.min(pages.len()));
        offset = 2 * page_bytes as u64;
    }
    if pages.is_empty() { Ok(()) } else { copy.write(IoClass::BackupWrite, offset, pages).await }
}
