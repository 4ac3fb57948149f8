//! Checking whole files: every page of a database, every segment of the closed logs.
//!
//! Limits: the database must not be in use by another process that writes it; a bad file is a result, not an
//! error. Of a database that was not closed, a page that is zero is known to be lost only if the database was
//! made with it.

use std::collections::BTreeSet;

use btree::{FilePages, PageView, PagesInUse, Stop};
use edb::flush_map::ClosedMap;
use edb::header::{DatabaseHeader, DatabaseState};
use edb::log::Records;
use edb::page::PageRef;
use edb::verify::{CutOff, EndSearch, last_page, page_offset};
use futures_util::future::join_all;
use results::IoClass;
use world::{OpenMode, PageBuf, TemplatePages, World};

use crate::config::InstanceConfig;
use crate::error::{Error, Result};
use crate::flush_map;
use crate::header;
use crate::io::{Counters, IoFile};
use crate::judge::{Finding, judge};
use crate::log::LogNames;
use crate::log::reader::{LogContents, LogFiles};
use crate::pieces::{Known, PageCheck, PageFindings, PieceQueue, PieceReader, Progress};
use crate::signal::StopSignal;

/// Stream that reads a file from end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamConfig {
    /// Size of a read, bytes.
    pub read_bytes: u64,
    /// Number of reads at a time.
    pub depth: usize,
}

/// Knowledge of the template from which a database was created: the template, its identity, or nothing.
#[derive(Clone, Copy)]
pub struct MadeOf<'a> {
    template_id: Option<u64>,
    template: Option<&'a dyn TemplatePages>,
    is_sound: Option<&'a PageCheck<'a>>,
}

impl<'a> MadeOf<'a> {
    /// Adds a check of whole pages against the contents that the program wrote. It finds what the page checksum
    /// misses: swapped sectors with equal parities.
    pub fn written(self, is_sound: &'a dyn Fn(u32, PageRef<'_>) -> bool) -> MadeOf<'a> {
        MadeOf { is_sound: Some(is_sound), ..self }
    }
}

impl<'a, I: TemplatePages> From<&'a I> for MadeOf<'a> {
    fn from(template: &'a I) -> MadeOf<'a> {
        MadeOf { template_id: Some(template.id()), template: Some(template), is_sound: None }
    }
}

impl From<Option<u64>> for MadeOf<'_> {
    fn from(template_id: Option<u64>) -> Self {
        MadeOf { template_id, template: None, is_sound: None }
    }
}

/// Result of the check of a database.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChecksumReport {
    /// Findings on the pages.
    pub findings: PageFindings,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the file when the check began.
    pub bytes_there: u64,
    /// Time that the check took, s.
    pub seconds: f64,
}

/// Result of the check of logs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogChecksumReport {
    /// Number of logs that were read.
    pub logs: u32,
    /// Number of closed logs that existed.
    pub logs_there: u32,
    /// Log generations with flipped bits that were corrected, and the number of their segments.
    pub corrected: Vec<(u32, u16)>,
    /// Log generations that are damaged or break the chain, and their damage.
    pub bad: Vec<(u32, String)>,
    /// Bytes read.
    pub bytes: u64,
    /// Time that the check took, s.
    pub seconds: f64,
}

/// Reads and checks every page of the database file at `path`, and whether the file has all pages that the
/// database owns.
///
/// A database that was not closed must be recovered first: till then its file may be shorter, its pages torn or
/// of different ages, and nothing of that is damage.
///
/// # Errors
/// A failed read.
#[expect(clippy::too_many_arguments, reason = "a file, how to read it, and three handles for who watches")]
pub async fn check_database<'a>(
    world: &World,
    path: &str,
    page_bytes: usize,
    made_of: impl Into<MadeOf<'a>>,
    config: StreamConfig,
    counters: &Counters,
    progress: &Progress,
    stop: &StopSignal,
) -> Result<ChecksumReport> {
    let started = world.now();
    let MadeOf { template_id, template, is_sound } = made_of.into();
    let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
    let pieces = PieceReader {
        world,
        file: &file,
        page_bytes,
        template_id,
        class: IoClass::VerifyRead,
        in_use: false,
    };
    let end = pieces.size().await?;
    let last = last_page(end, page_bytes);
    let trees = Trees::ask(&pieces, last).await?;
    let flush_map = match &trees.closed {
        Some(header) => flush_map::of_closed(world, path, header, counters).await?,
        None => ClosedMap::default(),
    };
    let known = Known {
        template,
        used: trees.used.as_ref(),
        lost: Some(&trees.lost),
        unwritten: None,
        is_other: Some(&|pgno, dbtime| flush_map.contradicts(pgno, dbtime)),
        is_named: Some(&|pgno| flush_map.was_written(pgno)),
        is_sound,
    };
    let queue = PieceQueue::new(end, config.read_bytes);
    progress.begin(end);
    let reader = || async {
        let mut report = ChecksumReport::default();
        let judged = |bytes| {
            report.bytes += bytes;
            progress.add(bytes);
        };
        let goes_on = || Ok(!stop.is_stopped());
        pieces.read_through(known, &queue, &mut report.findings, goes_on, judged).await?;
        Ok::<_, Error>(report)
    };
    let mut total = ChecksumReport { bytes_there: end, ..ChecksumReport::default() };
    for report in join_all((0..config.depth.max(1)).map(|_| reader())).await {
        let report = report?;
        total.findings.merge(report.findings);
        total.bytes += report.bytes;
    }
    total.seconds = world.now().since(started).as_secs_f64();
    total.findings.add_map(&flush_map);
    if !stop.is_stopped() {
        trees.settle(&pieces, last, &mut total.findings).await?;
    }
    if !stop.is_stopped()
        && let Err(cut_off) = find_end(&pieces, last).await?
    {
        // Named after the first page that is not there.
        total.findings.add(last.saturating_add(1), Finding::Bad(cut_off.to_string()));
    }
    Ok(total)
}

/// What the trees of a closed database say about its pages. Trees of an open one say nothing, because its pages may be
/// of different ages.
#[derive(Default)]
struct Trees {
    /// Header of the database, if it was closed.
    closed: Option<DatabaseHeader>,
    /// Pages that trees use; none without a catalog, or if the catalog is damaged.
    used: Option<PagesInUse>,
    /// Zero pages that the catalog or space trees need.
    lost: BTreeSet<u32>,
    /// Pages that pass their check and contradict others, or are not in the file, so that the trees cannot say which
    /// pages are in use.
    contradictions: Vec<(u32, String)>,
    /// Whether the catalog is damaged.
    is_unknown: bool,
}

impl Trees {
    async fn ask(pieces: &PieceReader<'_>, last: u32) -> Result<Trees> {
        let mut trees = Trees::default();
        match header::read(pieces.file, pieces.page_bytes).await {
            Ok((header, _)) if header.state() == DatabaseState::Clean => trees.closed = Some(header),
            // A header that is not intact is a finding of its own.
            Ok(_) | Err(Error::DamagedFile { .. }) => return Ok(trees),
            Err(error) => return Err(error),
        }
        let mut pages = FilePages::new(pieces.page_bytes);
        let mut damaged = BTreeSet::new();
        let mut contradict = |trees: &mut Trees, pgno, reason: &str| {
            if damaged.insert(pgno) {
                trees.contradictions.push((pgno, reason.to_owned()));
            }
        };
        loop {
            let pgno = match PagesInUse::read(&pages) {
                Ok(used) => {
                    trees.used = used;
                    break;
                }
                Err(Stop::Missing(pgno)) if (1..=last).contains(&pgno) => pgno,
                Err(Stop::Missing(pgno)) => {
                    pages.add_damaged(pgno);
                    contradict(&mut trees, pgno, "it is not in the file");
                    continue;
                }
                Err(stop) => {
                    trees.is_unknown = true;
                    if let Stop::Damaged { pgno, reason } = stop
                        && !pages.is_damaged(pgno)
                    {
                        contradict(&mut trees, pgno, reason);
                    }
                    break;
                }
            };
            let page = read_page(pieces, pgno).await?;
            match judge(&page, u64::from(pgno) + 1, pieces.template_id) {
                Finding::Good => pages.add(pgno, page.as_slice()),
                finding => {
                    // Other damage than zeros is found where all pages are judged.
                    pages.add_damaged(pgno);
                    if finding == Finding::Uninitialised {
                        trees.lost.insert(pgno);
                    }
                }
            }
        }
        let hidden: Vec<_> = trees.used.iter().flat_map(PagesInUse::hidden_by).collect();
        for (pgno, reason) in hidden.into_iter().filter(|(pgno, _)| !pages.is_damaged(*pgno)) {
            contradict(&mut trees, pgno, reason);
        }
        Ok(trees)
    }

    /// Decides for each zero page whether it is damage: it is, if a tree refers to it. Adds damage that left the
    /// pages in use unknown.
    async fn settle(self, pieces: &PieceReader<'_>, last: u32, findings: &mut PageFindings) -> Result<()> {
        let zero = std::mem::take(&mut findings.zero);
        if let Some(used) = self.used.filter(|_| !zero.is_empty()) {
            let mut search = used.search_references(zero);
            while let Some(pgno) = search.next_page() {
                if pgno > last {
                    search.look(None);
                    continue;
                }
                let page = read_page(pieces, pgno).await?;
                let is_good = judge(&page, u64::from(pgno) + 1, pieces.template_id) == Finding::Good;
                search.look(is_good.then(|| PageView::of_bytes(page.as_slice())));
            }
            findings.settle(search.end());
        }
        if self.is_unknown {
            findings.unjudged = findings.uninitialised;
        }
        for (pgno, reason) in self.contradictions {
            let reason = format!("{reason}, so the pages in use are not known");
            findings.add(pgno, Finding::Bad(reason));
        }
        Ok(())
    }
}

async fn read_page(pieces: &PieceReader<'_>, pgno: u32) -> Result<PageBuf> {
    let offset = page_offset(pgno, pieces.page_bytes);
    pieces.file.read_one(IoClass::HousekeepingRead, offset, pieces.page_bytes).await
}

/// Searches for the end of the database. A damaged page on the way is a finding and ends the search.
async fn find_end(pieces: &PieceReader<'_>, last: u32) -> Result<Result<(), CutOff>> {
    let mut search = EndSearch::new(last);
    loop {
        let pgno = match search.next_page() {
            Ok(Some(pgno)) => pgno,
            Ok(None) => return Ok(Ok(())),
            Err(cut_off) => return Ok(Err(cut_off)),
        };
        let page = read_page(pieces, pgno).await?;
        match judge(&page, u64::from(pgno) + 1, pieces.template_id) {
            Finding::Good | Finding::Uninitialised => search.look(page.as_slice(), pgno),
            _ => return Ok(Ok(())),
        }
    }
}

/// Checks whether the current log has lost durable segments: its generation, and the damage. It does not count among
/// the closed logs, which must be whole. `before`: records of those.
async fn check_current(
    world: &World,
    names: &LogNames,
    segments: u16,
    counters: &Counters,
    before: &Records,
) -> Result<Option<(u32, String)>> {
    let path = names.current();
    let read = LogContents::read(world, &path, segments, counters, IoClass::LogRead).await;
    let judged = read.map(|mut log| (log.header().generation, log.settle_end(Some(before))));
    match judged {
        Ok((_, Ok(_))) => Ok(None),
        Ok((generation, Err(Error::DamagedFile { reason, .. }))) => Ok(Some((generation, reason))),
        // Its header: an opening says what is wrong with it.
        Err(Error::DamagedFile { .. }) => Ok(None),
        Ok((_, Err(error))) | Err(error) => Err(error),
    }
}

/// Reads and checks the newest closed logs of an instance, at most `most` of them, and looks for damage in the current
/// one.
///
/// # Errors
/// A failed read.
pub async fn check_logs(
    world: &World,
    config: &InstanceConfig,
    most: usize,
    counters: &Counters,
    stop: &StopSignal,
) -> Result<LogChecksumReport> {
    let started = world.now();
    let names = LogNames::new(&config.log_directory, &config.log_base);
    let files = LogFiles::find(world, &names).await?;
    let segments = config.segments()?;
    let first = files.archives.len().saturating_sub(most);
    let mut report =
        LogChecksumReport { logs_there: files.archives.len() as u32, ..LogChecksumReport::default() };
    let mut previous = None;
    let mut records = Records::new();
    for &generation in &files.archives[first..] {
        if stop.is_stopped() {
            break;
        }
        let path = names.archive(generation);
        let read = LogContents::read(world, &path, segments, counters, IoClass::LogRead).await;
        report.logs += 1;
        report.bytes += u64::from(config.log_bytes);
        let log = match read {
            Ok(log) => log,
            Err(Error::DamagedFile { reason, .. }) => {
                report.bad.push((generation, reason));
                (previous, records) = (None, Records::new());
                continue;
            }
            Err(error) => return Err(error),
        };
        let header = *log.header();
        if log.corrected() > 0 {
            report.corrected.push((generation, log.corrected()));
        }
        if !log.is_complete() {
            report.bad.push((generation, format!("segment {} is not valid", log.next_segment())));
        } else if header.generation != generation || previous.is_some_and(|before| !header.follows(&before)) {
            report.bad.push((generation, "it does not belong to the chain of logs".to_owned()));
        } else if let Err(damage) = log.records(&mut records, |_, _| {}) {
            report.bad.push((generation, damage.to_string()));
            records = Records::new();
        }
        previous = Some(header);
    }
    if files.current && !stop.is_stopped() {
        report.bad.extend(check_current(world, &names, segments, counters, &records).await?);
    }
    report.seconds = world.now().since(started).as_secs_f64();
    Ok(report)
}
