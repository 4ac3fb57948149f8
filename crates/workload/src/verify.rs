//! Checks a database file page by page, with what is known of databases that Proofload made; corrects
//! single-bit errors.
//!
//! Beside what a page says of itself ([`edb::verify`]) the trees tell which pages are in use, and what the
//! database was made with tells which pages were written and what their entries hold.
//!
//! Invariant: the file is only read.
//!
//! Limits: without a flush map an older version of a page in its place is not seen.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom, Write};

use btree::{FilePages, PageView, PagesInUse, Stop, ZeroPages, describe_zero_pages};
use edb::checksum;
use edb::flush_map::ClosedMap;
use edb::header::{DatabaseHeader, DatabaseState, HeaderCopy, HeaderDamage, OtherFile};
use edb::page::PageRef;
use edb::verify::{Counts, CutOff, EndSearch, Finding, check_last_page, check_page, last_page, page_offset};
use world::TemplatePages;

use crate::template::TemplateDatabase;

/// Size of a read, bytes.
const READ_BYTES: usize = 1 << 20;
/// Size of the largest page, bytes: header and shadow lie in the first two pages.
const PAGE_BYTES_MAX: usize = 32 << 10;

/// Reason why a file cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(std::io::Error),
    /// Neither header nor shadow can be read.
    #[error("header and shadow are both damaged: {0}")]
    NoDatabase(HeaderDamage),
    /// The file is another kind of ESE file.
    #[error("this is {0}")]
    OtherFile(OtherFile),
    /// The repaired copy cannot be written.
    #[error(transparent)]
    Copy(std::io::Error),
}

/// Database file whose headers and space trees were read.
pub struct Opened {
    header: DatabaseHeader,
    file_bytes: u64,
    has_shadow: bool,
    known: Known,
    /// Which of header and shadow is damaged; the other one is good.
    pub damaged_header: Option<String>,
    /// Reason why the trees do not say of every page whether it is in use.
    pub untold: Vec<String>,
}

/// Result of the check of a file.
pub struct Verified {
    /// Numbers of pages by finding.
    pub counts: Counts,
    /// End of the file, if it is before the last page that the database owns.
    pub cut_off: Option<CutOff>,
    /// Number of bytes behind the last whole page.
    pub tail_bytes: u64,
    /// Damage of the flush map.
    pub damaged_map: Option<String>,
    /// Notes about pages that are no findings.
    pub notes: Vec<String>,
    /// Damage that no check of the file alone can detect.
    pub unseen: &'static str,
}

impl Opened {
    /// Reads header and shadow of a file of `file_bytes` bytes, and its space trees. `flush_map`: bytes of its flush
    /// map, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or is no database.
    pub fn new(
        file: &mut (impl Read + Seek),
        file_bytes: u64,
        flush_map: Option<&[u8]>,
    ) -> Result<Opened, VerifyError> {
        let mut start = vec![0; (2 * PAGE_BYTES_MAX).min(file_bytes as usize)];
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut start)).map_err(VerifyError::Read)?;
        let damaged = |damage| match OtherFile::of(&start) {
            Some(other) => VerifyError::OtherFile(other),
            None => VerifyError::NoDatabase(damage),
        };
        let (header, from) = DatabaseHeader::read(&start).map_err(damaged)?;
        let page_bytes = header.page_bytes();
        let second = start.get(page_bytes..2 * page_bytes);
        let damaged_header = match from {
            HeaderCopy::Shadow { .. } => Some("header: damaged; the shadow is good".to_owned()),
            HeaderCopy::Header => header
                .check_shadow(second.unwrap_or_default())
                .err()
                .map(|damage| format!("shadow header: {damage}")),
        };
        let has_shadow = second.is_some();
        let is_closed = header.state() == DatabaseState::Clean;
        let mut known = Known::of(file, file_bytes, page_bytes, is_closed).map_err(VerifyError::Read)?;
        // The maps of other programs are of another layout.
        if is_closed && known.template.is_some() {
            known.flush_map = Some(ClosedMap::new(flush_map, &header));
        }
        let untold = std::mem::take(&mut known.untold);
        Ok(Opened { header, file_bytes, has_shadow, known, damaged_header, untold })
    }

    /// Whether the database was not closed, or is in use.
    pub fn is_dirty(&self) -> bool {
        self.header.state() == DatabaseState::Dirty
    }

    /// Checks every page behind the headers. Calls `found` for each damaged page, and writes each page to `copy`,
    /// corrected where that is possible.
    ///
    /// # Errors
    /// The file cannot be read, the copy cannot be written, or `found` says so.
    pub fn check<E: From<VerifyError>>(
        &mut self,
        file: &mut (impl Read + Seek),
        mut copy: Option<&mut dyn Write>,
        mut found: impl FnMut(u32, Finding) -> Result<(), E>,
    ) -> Result<Verified, E> {
        let (file_bytes, page_bytes) = (self.file_bytes, self.header.page_bytes());
        if let Some(copy) = &mut copy {
            write_headers(copy, &mut self.header, self.has_shadow).map_err(VerifyError::Copy)?;
        }
        let (mut counts, zero) = check_pages(file, file_bytes, page_bytes, &self.known, copy, &mut found)?;
        let zero = self.known.judge_zero(file, file_bytes, page_bytes, zero).map_err(VerifyError::Read)?;
        for pgno in zero.lost {
            counts.uninitialised -= 1;
            counts.bad += 1;
            found(pgno, Finding::Lost)?;
        }
        let unjudged = if self.known.is_unknown { counts.uninitialised } else { zero.unjudged };
        let mut notes = describe_zero_pages(zero.leaked, unjudged);
        let map = self.known.flush_map.as_ref();
        let damaged_map = map.and_then(|map| map.damage.clone());
        let of_map = damaged_map.iter().map(String::as_str).chain(map.and_then(|map| map.unseen));
        notes.extend(of_map.map(str::to_owned));
        let cut_off = cut_off_page(file, file_bytes, page_bytes).map_err(VerifyError::Read)?;
        let (tail_bytes, unseen) = (file_bytes % page_bytes as u64, self.known.unseen());
        Ok(Verified { counts, cut_off, tail_bytes, damaged_map, notes, unseen })
    }
}

impl Verified {
    /// Whether the check found nothing wrong behind the headers.
    pub fn is_clean(&self) -> bool {
        self.counts.is_success()
            && self.counts.correctable == 0
            && self.cut_off.is_none()
            && self.tail_bytes == 0
            && self.damaged_map.is_none()
    }
}

fn write_headers(copy: &mut dyn Write, header: &mut DatabaseHeader, shadow: bool) -> std::io::Result<()> {
    let page = header.stamped();
    copy.write_all(page)?;
    if shadow { copy.write_all(page) } else { Ok(()) }
}

/// Knowledge about the pages of a database, against which single pages are judged.
#[derive(Default)]
struct Known {
    /// Template of the database; `None` if Proofload did not create it, or if the page with its shape has changed.
    template: Option<TemplateDatabase>,
    /// Pages that the trees use.
    used: Option<PagesInUse>,
    /// Zero pages that the catalog or the space trees need.
    lost: BTreeSet<u32>,
    /// The versions that the pages have, if Proofload made the database and it was closed.
    flush_map: Option<ClosedMap>,
    /// Reasons why the trees do not tell for every page whether it is in use.
    untold: Vec<String>,
    /// Whether the catalog is damaged, so that no tree is known.
    is_unknown: bool,
}

impl Known {
    /// Of a database that was not closed its trees tell nothing: its pages may be of different ages.
    fn of(
        file: &mut (impl Read + Seek),
        file_bytes: u64,
        page_bytes: usize,
        is_closed: bool,
    ) -> std::io::Result<Known> {
        let template = template_of(file, file_bytes, page_bytes)?;
        let mut known = Known { template, ..Known::default() };
        let last = last_page(file_bytes, page_bytes);
        if !is_closed {
            return Ok(known);
        }
        let mut pages = FilePages::new(page_bytes);
        loop {
            let pgno = match PagesInUse::read(&pages) {
                Err(Stop::Missing(pgno)) => pgno,
                Err(stop) => {
                    known.is_unknown = true;
                    known.untold.push(untold(stop));
                    break;
                }
                Ok(used) => {
                    let hidden = used.iter().flat_map(PagesInUse::hidden_by);
                    known.untold =
                        hidden.map(|(pgno, reason)| untold(format!("page {pgno}: {reason}"))).collect();
                    known.used = used;
                    break;
                }
            };
            // That the file ends too early is said elsewhere, and so is the damage of a page alone.
            let page = (1..=last).contains(&pgno).then(|| read_page(file, pgno, page_bytes)).transpose()?;
            match page.map(|page| (check_page(&page, pgno), page)) {
                Some((Finding::Good { .. }, page)) => pages.add(pgno, &page),
                found => {
                    pages.add_damaged(pgno);
                    if found.is_some_and(|(finding, _)| finding == Finding::Uninitialised) {
                        known.lost.insert(pgno);
                    }
                }
            }
        }
        Ok(known)
    }

    /// Decides for zero pages that are not available according to the space trees whether they are lost.
    fn judge_zero(
        &self,
        file: &mut (impl Read + Seek),
        file_bytes: u64,
        page_bytes: usize,
        zero: Vec<u32>,
    ) -> std::io::Result<ZeroPages> {
        let Some(used) = self.used.as_ref() else { return Ok(ZeroPages::default()) };
        let mut search = used.search_references(zero);
        while let Some(pgno) = search.next_page() {
            let page = (pgno <= last_page(file_bytes, page_bytes))
                .then(|| read_page(file, pgno, page_bytes))
                .transpose()?
                .filter(|page| matches!(check_page(page, pgno), Finding::Good { .. }));
            search.look(page.as_deref().map(PageView::of_bytes));
        }
        Ok(search.end())
    }

    /// Final finding on a page, from the finding on its bytes alone and this knowledge. Corrects a single flipped
    /// bit.
    fn judge(&self, found: Finding, page: &mut [u8], pgno: u32) -> Finding {
        let is_sound = |page: &[u8]| {
            self.template.as_ref().is_none_or(|template| template.is_as_written(pgno, PageRef::new(page)))
        };
        match found {
            Finding::Uninitialised if self.was_written(pgno) => Finding::Lost,
            Finding::Good { dbtime } if self.is_stale(pgno, dbtime) => Finding::Stale,
            Finding::Good { .. } if !is_sound(page) => Finding::Foreign,
            Finding::Good { .. } if self.template.is_none() => {
                PageRef::new(page).check_order().map_or_else(Finding::Damaged, |()| found)
            }
            Finding::Correctable { .. } => {
                let mut corrected = page.to_vec();
                checksum::correct(&mut corrected, pgno);
                if !is_sound(&corrected) {
                    return Finding::Miscorrected;
                }
                page.copy_from_slice(&corrected);
                found
            }
            _ => found,
        }
    }

    fn is_stale(&self, pgno: u32, dbtime: u64) -> bool {
        self.flush_map.as_ref().is_some_and(|map| map.contradicts(pgno, dbtime))
    }

    /// Sentence about damage that no check of the file alone can find.
    fn unseen(&self) -> &'static str {
        match self.template {
            Some(_) if self.flush_map.as_ref().is_some_and(|map| map.unseen.is_none()) => {
                "not seen: exchanged sectors of a changed page in bytes that hold no entry"
            }
            Some(_) => {
                "not seen: an older version of a page in its place, and exchanged sectors of a changed page in bytes \
                 that hold no entry"
            }
            None => {
                "not seen: an older version of a page in its place, and exchanged sectors of a page that have equal \
                 parities and leave its keys in order"
            }
        }
    }

    /// Whether the page cannot be zero.
    fn was_written(&self, pgno: u32) -> bool {
        self.lost.contains(&pgno)
            || self.flush_map.as_ref().is_some_and(|map| map.was_written(pgno))
            || self.template.as_ref().is_some_and(|template| has_contents(template, pgno))
    }
}

fn untold(reason: impl std::fmt::Display) -> String {
    format!("the trees do not tell of every page whether it is in use: {reason}")
}

/// Parameters that the template database was made with; `None` if Proofload did not make it, or if the page that
/// records them has changed.
fn template_of(
    file: &mut (impl Read + Seek),
    file_bytes: u64,
    page_bytes: usize,
) -> std::io::Result<Option<TemplateDatabase>> {
    let pgno = TemplateDatabase::SHAPE_PAGE;
    if pgno > last_page(file_bytes, page_bytes) {
        return Ok(None);
    }
    let page = read_page(file, pgno, page_bytes)?;
    let is_good = matches!(check_page(&page, pgno), Finding::Good { .. });
    Ok(if is_good { TemplateDatabase::of_shape_page(&page).ok() } else { None })
}

/// Checks every page behind the headers; gives the zero pages that were lost unless they are leaked.
fn check_pages<E: From<VerifyError>>(
    file: &mut (impl Read + Seek),
    file_bytes: u64,
    page_bytes: usize,
    known: &Known,
    mut copy: Option<&mut dyn Write>,
    mut found: impl FnMut(u32, Finding) -> Result<(), E>,
) -> Result<(Counts, Vec<u32>), E> {
    let (mut counts, mut zero) = (Counts::default(), Vec::new());
    let last = last_page(file_bytes, page_bytes);
    file.seek(SeekFrom::Start(page_offset(1, page_bytes))).map_err(VerifyError::Read)?;
    let mut piece = vec![0; READ_BYTES];
    let mut pgno = 1;
    while pgno <= last {
        let pages = (READ_BYTES / page_bytes).min((last - pgno + 1) as usize);
        let piece = &mut piece[..pages * page_bytes];
        file.read_exact(piece).map_err(VerifyError::Read)?;
        for page in piece.chunks_exact_mut(page_bytes) {
            let alone = if pgno == last { check_last_page(page, pgno) } else { check_page(page, pgno) };
            let finding = known.judge(alone, page, pgno);
            counts.add(finding);
            if finding == Finding::Uninitialised
                && known.used.as_ref().is_some_and(|used| used.contains(pgno))
            {
                zero.push(pgno);
            }
            found(pgno, finding)?;
            if let Some(copy) = &mut copy {
                copy.write_all(page).map_err(VerifyError::Copy)?;
            }
            pgno += 1;
        }
    }
    Ok((counts, zero))
}

/// Whether a new database has anything but zeros on this page: it never has again.
fn has_contents(template: &TemplateDatabase, pgno: u32) -> bool {
    let mut page = vec![0; template.page_bytes()];
    template.fill_unsealed(u64::from(pgno) + 1, &mut page);
    !edb::is_zero(&page)
}

/// Says if the file ends before the last page that the database owns.
fn cut_off_page(
    file: &mut (impl Read + Seek),
    file_bytes: u64,
    page_bytes: usize,
) -> std::io::Result<Option<CutOff>> {
    let mut search = EndSearch::new(last_page(file_bytes, page_bytes));
    loop {
        match search.next_page() {
            Ok(Some(pgno)) => search.look(&read_page(file, pgno, page_bytes)?, pgno),
            Ok(None) => return Ok(None),
            Err(cut_off) => return Ok(Some(cut_off)),
        }
    }
}

fn read_page(file: &mut (impl Read + Seek), pgno: u32, page_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut page = vec![0; page_bytes];
    file.seek(SeekFrom::Start(page_offset(pgno, page_bytes)))?;
    file.read_exact(&mut page)?;
    Ok(page)
}
