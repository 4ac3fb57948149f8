//! Checks a database file page by page, with what is known of databases that Proofload made; corrects
//! single-bit errors.
//!
//! Beside what a page says of itself ([`edb::verify`]) the space trees tell which pages are in use, and what
//! the database was made with tells which pages were written and what their entries hold.
//!
//! Invariant: the file is only read.
//!
//! Limits: an older version of a page in its place is not seen.

use std::io::{Read, Seek, SeekFrom, Write};

use btree::{FilePages, PagesInUse, Stop};
use edb::checksum;
use edb::header::{Copy, DatabaseHeader, HeaderDamage, State};
use edb::page::PageRef;
use edb::verify::{Counts, CutOff, EndSearch, Finding, check_last_page, check_page, last_page, page_offset};
use world::TemplatePages;

use crate::template::TemplateDatabase;

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;
/// Largest page: header and shadow lie in the first two of them.
const PAGE_BYTES_MAX: usize = 32 << 10;

/// Why a file cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(std::io::Error),
    /// Neither header can be read.
    #[error("header and shadow are both damaged: {0}")]
    NoDatabase(HeaderDamage),
    /// The copy cannot be written.
    #[error(transparent)]
    Copy(std::io::Error),
}

/// The start of a database file.
pub struct Opened {
    header: DatabaseHeader,
    file_bytes: u64,
    has_shadow: bool,
    known: Known,
    /// Which of the two headers is damaged, in words; the other one is good.
    pub damaged_header: Option<&'static str>,
    /// Why the space trees do not say which pages are in use.
    pub untold: Option<String>,
}

/// What was found in a file.
pub struct Verified {
    /// The pages by their findings.
    pub counts: Counts,
    /// Where the file ends, if it is before the last page that the database owns.
    pub cut_off: Option<CutOff>,
    /// Bytes behind the last whole page.
    pub tail_bytes: u64,
    /// What no check of the file alone can see.
    pub unseen: &'static str,
}

impl Opened {
    /// Reads header and shadow of a file of `file_bytes` bytes, and what its trees tell.
    ///
    /// # Errors
    /// It cannot be read, or is no database.
    pub fn new(file: &mut (impl Read + Seek), file_bytes: u64) -> Result<Opened, VerifyError> {
        let mut start = vec![0; (2 * PAGE_BYTES_MAX).min(file_bytes as usize)];
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut start)).map_err(VerifyError::Read)?;
        let (header, from) = DatabaseHeader::read(&start).map_err(VerifyError::NoDatabase)?;
        let page_bytes = header.page_bytes();
        let (first, second) = (&start[..page_bytes], start.get(page_bytes..2 * page_bytes));
        let lacks_shadow =
            || second.is_none_or(|shadow| DatabaseHeader::parse(shadow).is_err() && first != shadow);
        let damaged_header = match from {
            Copy::Shadow { .. } => Some("header: damaged; the shadow is good"),
            _ if lacks_shadow() => Some("shadow header: damaged; the header is good"),
            _ => None,
        };
        let has_shadow = second.is_some();
        let is_closed = header.state() == State::Clean;
        let mut known = Known::of(file, file_bytes, page_bytes, is_closed).map_err(VerifyError::Read)?;
        let untold = known.untold.take();
        Ok(Opened { header, file_bytes, has_shadow, known, damaged_header, untold })
    }

    /// Whether the database was not closed, or is in use.
    pub fn is_dirty(&self) -> bool {
        self.header.state() == State::Dirty
    }

    /// Checks every page behind the headers. `found` gets each page with something wrong, and each page is
    /// written to `copy`, corrected where that is possible.
    ///
    /// # Errors
    /// The file cannot be read, the copy cannot be written, or `found` says so.
    pub fn check<E: From<VerifyError>>(
        &mut self,
        file: &mut (impl Read + Seek),
        mut copy: Option<&mut dyn Write>,
        found: impl FnMut(u32, Finding) -> Result<(), E>,
    ) -> Result<Verified, E> {
        let (file_bytes, page_bytes) = (self.file_bytes, self.header.page_bytes());
        if let Some(copy) = &mut copy {
            write_headers(copy, &mut self.header, self.has_shadow).map_err(VerifyError::Copy)?;
        }
        let counts = check_pages(file, file_bytes, page_bytes, &self.known, copy, found)?;
        let cut_off = cut_off_page(file, file_bytes, page_bytes).map_err(VerifyError::Read)?;
        let (tail_bytes, unseen) = (file_bytes % page_bytes as u64, self.known.unseen());
        Ok(Verified { counts, cut_off, tail_bytes, unseen })
    }
}

impl Verified {
    /// Whether nothing is wrong behind the headers.
    pub fn is_clean(&self) -> bool {
        self.counts.is_success()
            && self.counts.correctable == 0
            && self.cut_off.is_none()
            && self.tail_bytes == 0
    }
}

fn write_headers(copy: &mut dyn Write, header: &mut DatabaseHeader, shadow: bool) -> std::io::Result<()> {
    let page = header.stamped();
    copy.write_all(page)?;
    if shadow { copy.write_all(page) } else { Ok(()) }
}

/// What is known of the pages that the database has written.
#[derive(Default)]
struct Known {
    /// What it was made with, if Proofload made it and the page that tells is as it was.
    template: Option<TemplateDatabase>,
    /// The pages that its trees use.
    used: Option<PagesInUse>,
    /// A page that is zero, though the space trees cannot do without it.
    lost: Option<u32>,
    /// Why the space trees do not say which pages are in use.
    untold: Option<String>,
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
                Err(Stop::Missing(pgno)) if (1..=last).contains(&pgno) => pgno,
                // That the file ends too early is said elsewhere.
                Err(Stop::Missing(_)) => break,
                Err(stop) => {
                    known.untold = Some(stop.to_string());
                    break;
                }
                Ok(used) => {
                    known.used = used;
                    break;
                }
            };
            let page = read_page(file, pgno, page_bytes)?;
            match check_page(&page, pgno) {
                Finding::Good { .. } => pages.add(pgno, &page),
                finding => {
                    // Any other damage is named with that of the other pages.
                    known.lost = (finding == Finding::Uninitialised).then_some(pgno);
                    break;
                }
            }
        }
        Ok(known)
    }

    /// What a page is, given what was found on it alone; puts a single flipped bit right.
    fn judge(&self, found: Finding, page: &mut [u8], pgno: u32) -> Finding {
        let is_sound = |page: &[u8]| {
            self.template.as_ref().is_none_or(|template| template.has_sound_payloads(PageRef::new(page)))
        };
        match found {
            Finding::Uninitialised if self.was_written(pgno) => Finding::Lost,
            Finding::Good { .. } if !is_sound(page) => Finding::Foreign,
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

    /// What no check of the file alone can see.
    fn unseen(&self) -> &'static str {
        match self.template {
            Some(_) => "not seen: an older version of a page in its place",
            None => {
                "not seen: an older version of a page in its place, and sectors of a page that changed places with equal \
                 parities"
            }
        }
    }

    /// Whether the page cannot be zero.
    fn was_written(&self, pgno: u32) -> bool {
        self.lost == Some(pgno)
            || self.used.as_ref().is_some_and(|used| used.contains(pgno))
            || self.template.as_ref().is_some_and(|template| has_contents(template, pgno))
    }
}

/// What the database was made with, if Proofload made it and the page that tells is as it was.
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

/// Checks every page behind the headers.
fn check_pages<E: From<VerifyError>>(
    file: &mut (impl Read + Seek),
    file_bytes: u64,
    page_bytes: usize,
    known: &Known,
    mut copy: Option<&mut dyn Write>,
    mut found: impl FnMut(u32, Finding) -> Result<(), E>,
) -> Result<Counts, E> {
    let mut counts = Counts::default();
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
            found(pgno, finding)?;
            if let Some(copy) = &mut copy {
                copy.write_all(page).map_err(VerifyError::Copy)?;
            }
            pgno += 1;
        }
    }
    Ok(counts)
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
