//! `proofload verify`: checks an EDB file page by page; repairs single-bit errors into a copy.
//!
//! Invariants
//! 1. The file itself is only read.
//! 2. A copy is made under a name that does not exist yet.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use btree::{FilePages, PagesInUse, Stop};
use edb::checksum;
use edb::header::{Copy, DatabaseHeader, State};
use edb::page::PageRef;
use edb::verify::{Counts, CutOff, EndSearch, Finding, check_last_page, check_page, last_page, page_offset};
use evidence::report::counted;
use workload::image::DatabaseImage;
use world::PageImage;

use crate::failure::{Failure, Status};
use crate::output::tell;

/// Pages that are named one by one; all are counted.
const NAMED_MAX: u64 = 100;
/// Bytes per read.
const READ_BYTES: usize = 1 << 20;
/// Largest page: header and shadow lie in the first two of them.
const PAGE_BYTES_MAX: usize = 32 << 10;

/// Checks a database file page by page.
#[derive(clap::Args)]
pub struct VerifyArguments {
    /// The database file.
    #[arg(value_name = "FILE.edb")]
    file: PathBuf,
    /// Write a copy with single-bit errors corrected to this new file. The checksum cannot locate a flipped bit in itself or in
    /// the flag of its form (65 of the first 640 bits of a page), and takes three flipped bits for a single one in about one
    /// case of ten: a page whose structure or payload then contradicts the correction is not corrected, others may be wrong.
    #[arg(long, value_name = "NEW.edb")]
    repair_to: Option<PathBuf>,
}

/// Runs the command. Findings go to stdout, one per line, then the counts.
pub fn run(arguments: &VerifyArguments) -> Result<Status, Failure> {
    let path = arguments.file.display().to_string();
    let wrong = |error: std::io::Error| Failure::wrong_input(format!("cannot read {path}")).because(error);
    let mut file = File::open(&arguments.file).map_err(wrong)?;
    let file_bytes = file.metadata().map_err(wrong)?.len();
    let mut start = vec![0; (2 * PAGE_BYTES_MAX).min(file_bytes as usize)];
    file.read_exact(&mut start).map_err(wrong)?;
    let (header, from) = DatabaseHeader::read(&start).map_err(|damage| {
        Failure::wrong_input(format!("{path} is no EDB database: header and shadow are both damaged"))
            .because(damage)
    })?;
    let page_bytes = header.page_bytes();
    let is_closed = header.state() == State::Clean;
    if header.state() == State::Dirty {
        tell(
            "the database was not closed, or is in use: what is wrong with it may be what recovery mends\n",
        )?;
    }
    let mut lost_header = matches!(from, Copy::Shadow { .. });
    let (first, second) = (&start[..page_bytes], start.get(page_bytes..2 * page_bytes));
    if lost_header {
        tell("header: damaged; the shadow is good\n")?;
    } else if second.is_none_or(|shadow| DatabaseHeader::parse(shadow).is_err() && first != shadow) {
        lost_header = true;
        tell("shadow header: damaged; the header is good\n")?;
    }
    let mut copy = match &arguments.repair_to {
        None => None,
        Some(to) => Some(create_copy(to)?),
    };
    if let Some(copy) = &mut copy {
        write_headers(copy, header, second.is_some()).map_err(|error| not_written(arguments, error))?;
    }
    let known = Known::of(&mut file, file_bytes, page_bytes, is_closed).map_err(wrong)?;
    if let Some(reason) = &known.untold {
        tell(&format!("which pages are in use cannot be told: {reason}; zero pages may be lost ones\n"))?;
    }
    let counts = check_pages(&mut file, file_bytes, page_bytes, &known, |page| match &mut copy {
        Some(copy) => copy.write_all(page).map_err(|error| not_written(arguments, error)),
        None => Ok(()),
    })
    .map_err(|failure| failure.unwrap_or_else(wrong))?;
    if let Some(copy) = copy {
        copy.sync_all().map_err(|error| not_written(arguments, error))?;
    }
    let cut_off = cut_off_page(&mut file, file_bytes, page_bytes).map_err(wrong)?;
    let tail_bytes = file_bytes % page_bytes as u64;
    if tail_bytes > 0 {
        let tail = counted(tail_bytes, "byte");
        tell(&format!("{tail} behind the last whole page: no page, and not checked\n"))?;
    }
    tell_totals(&counts, cut_off)?;
    tell(&format!("{}\n", known.unseen()))?;
    if let Some(to) = arguments.repair_to.as_ref().filter(|_| counts.correctable > 0) {
        tell(&format!(
            "{} corrected in {}: more than two flipped bits may look like one; compare what you can\n",
            counted(counts.correctable, "page"),
            to.display()
        ))?;
    }
    let damaged_end = cut_off.is_some() || tail_bytes > 0;
    let clean = counts.is_success() && counts.correctable == 0 && !lost_header && !damaged_end;
    Ok(if clean { Status::Pass } else { Status::VerdictFail })
}

fn create_copy(to: &PathBuf) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| {
        Failure::could_not_run(format!("cannot create {}", to.display()))
            .because(error)
            .help("name a file that does not exist yet")
    })
}

fn not_written(arguments: &VerifyArguments, error: std::io::Error) -> Failure {
    let to = arguments.repair_to.as_deref().unwrap_or(&arguments.file);
    Failure::could_not_run(format!("cannot write {}", to.display())).because(error)
}

fn write_headers(copy: &mut File, mut header: DatabaseHeader, shadow: bool) -> std::io::Result<()> {
    let page = header.stamped();
    copy.write_all(page)?;
    if shadow { copy.write_all(page) } else { Ok(()) }
}

/// What is known of the pages that the database has written.
#[derive(Default)]
struct Known {
    /// What it was made with, if Proofload made it and the page that tells is as it was.
    image: Option<DatabaseImage>,
    /// The pages that its trees use.
    used: Option<PagesInUse>,
    /// A page that is zero, though the space trees cannot do without it.
    lost: Option<u32>,
    /// Why the space trees do not say which pages are in use.
    untold: Option<String>,
}

impl Known {
    /// Of a database that was not closed its trees tell nothing: its pages may be of different ages.
    fn of(file: &mut File, file_bytes: u64, page_bytes: usize, is_closed: bool) -> std::io::Result<Known> {
        let image = image_of(file, file_bytes, page_bytes)?;
        let mut known = Known { image, ..Known::default() };
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
            self.image.as_ref().is_none_or(|image| image.has_sound_payloads(PageRef::new(page)))
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
        match self.image {
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
            || self.image.as_ref().is_some_and(|image| has_contents(image, pgno))
    }
}

/// What the database was made with, if Proofload made it and the page that tells is as it was.
fn image_of(file: &mut File, file_bytes: u64, page_bytes: usize) -> std::io::Result<Option<DatabaseImage>> {
    let pgno = DatabaseImage::SHAPE_PAGE;
    if pgno > last_page(file_bytes, page_bytes) {
        return Ok(None);
    }
    let page = read_page(file, pgno, page_bytes)?;
    let is_good = matches!(check_page(&page, pgno), Finding::Good { .. });
    Ok(if is_good { DatabaseImage::of_shape_page(&page).ok() } else { None })
}

/// Checks every page behind the headers, names what is wrong, and hands each page on, corrected where that is possible.
/// `Err(Err(_))` is a failed read.
fn check_pages(
    file: &mut File,
    file_bytes: u64,
    page_bytes: usize,
    known: &Known,
    mut keep: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Counts, Result<Failure, std::io::Error>> {
    let mut counts = Counts::default();
    let (mut named, last) = (0, last_page(file_bytes, page_bytes));
    file.seek(SeekFrom::Start(page_offset(1, page_bytes))).map_err(Err)?;
    let mut piece = vec![0; READ_BYTES];
    let mut pgno = 1;
    while pgno <= last {
        let pages = (READ_BYTES / page_bytes).min((last - pgno + 1) as usize);
        let piece = &mut piece[..pages * page_bytes];
        file.read_exact(piece).map_err(Err)?;
        for page in piece.chunks_exact_mut(page_bytes) {
            let found = if pgno == last { check_last_page(page, pgno) } else { check_page(page, pgno) };
            let finding = known.judge(found, page, pgno);
            counts.add(finding);
            if let Some(words) = describe(finding) {
                named += 1;
                if named <= NAMED_MAX {
                    tell(&format!("page {pgno}: {words}\n")).map_err(Ok)?;
                }
            }
            keep(page).map_err(Ok)?;
            pgno += 1;
        }
    }
    if named > NAMED_MAX {
        tell(&format!("... and {} more\n", named - NAMED_MAX)).map_err(Ok)?;
    }
    Ok(counts)
}

/// Whether a new database has anything but zeros on this page: it never has again.
fn has_contents(image: &DatabaseImage, pgno: u32) -> bool {
    let mut page = vec![0; image.page_bytes()];
    image.fill_unsealed(u64::from(pgno) + 1, &mut page);
    !edb::is_zero(&page)
}

/// What is wrong with a page, in words; `None` if nothing is.
fn describe(finding: Finding) -> Option<String> {
    match finding {
        Finding::Good { .. } | Finding::Uninitialised | Finding::Trailer => None,
        Finding::Lost => Some("was lost: it is zero, and the database uses it".into()),
        Finding::Correctable { .. } => Some("a single bit is flipped; it can be corrected".into()),
        Finding::Miscorrected => {
            Some("looks like a single flipped bit, but more are wrong; it cannot be corrected".into())
        }
        Finding::WrongNumber { claimed } => Some(format!("holds the bytes of page {claimed}")),
        Finding::Bad => Some("wrong checksum".into()),
        Finding::Damaged(damage) => Some(format!("right checksum, broken structure: {damage}")),
        Finding::Foreign => Some("right checksum, but an entry is not one that was written".into()),
    }
}

/// Says if the file ends before the last page that the database owns.
fn cut_off_page(file: &mut File, file_bytes: u64, page_bytes: usize) -> std::io::Result<Option<CutOff>> {
    let mut search = EndSearch::new(last_page(file_bytes, page_bytes));
    loop {
        match search.next_page() {
            Ok(Some(pgno)) => search.look(&read_page(file, pgno, page_bytes)?, pgno),
            Ok(None) => return Ok(None),
            Err(cut_off) => return Ok(Some(cut_off)),
        }
    }
}

fn read_page(file: &mut File, pgno: u32, page_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut page = vec![0; page_bytes];
    file.seek(SeekFrom::Start(page_offset(pgno, page_bytes)))?;
    file.read_exact(&mut page)?;
    Ok(page)
}

fn tell_totals(counts: &Counts, cut_off: Option<CutOff>) -> Result<(), Failure> {
    if let Some(cut_off) = cut_off {
        tell(&format!("{cut_off}\n"))?;
    }
    tell(&format!(
        "{} seen, {} bad, {} correctable, {} uninitialised, {} of a wrong number; highest dbtime {}\n",
        counted(counts.seen, "page"),
        counts.bad,
        counts.correctable,
        counts.uninitialised,
        counts.wrong_number,
        counts.dbtime_max
    ))
}
