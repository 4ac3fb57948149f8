//! Verification of a database file as a stream of pages: what `esentutl /k` counts, plus page structure and cut-off.
//!
//! Invariants
//! 1. Every page is judged alone, from its number and its bytes, so pages may be checked in any order and on any core;
//!    `Counts` of parts add up to the counts of the whole.
//! 2. Nothing here changes a page: what is correctable is counted, not corrected.
//!
//! Limits: contents of trees are not compared with each other. Pages of newer update levels are accepted if their
//! checksum and structure are right. The flush type is not judged.

use thiserror::Error;

use crate::bytes::{get_u32, get_u64};
use crate::checksum::{self, FlippedBits, Verdict};
use crate::page::{Damage, PageRef};

/// Number of file pages in front of database page 1: header and shadow.
pub const HEADER_PAGES: u64 = 2;

/// Offset of database page `pgno` in the file.
pub const fn page_offset(pgno: u32, page_bytes: usize) -> u64 {
    (pgno as u64 + 1) * page_bytes as u64
}

/// Number of the last whole database page in a file of `file_bytes`, 0 if there is none.
pub const fn last_page(file_bytes: u64, page_bytes: usize) -> u32 {
    let pages = (file_bytes / page_bytes as u64).saturating_sub(HEADER_PAGES);
    if pages > u32::MAX as u64 { u32::MAX } else { pages as u32 }
}

/// Result of the check of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Checksum and structure are right.
    Good {
        /// Dbtime of the page.
        dbtime: u64,
    },
    /// The page was never written: all zero.
    Uninitialised,
    /// The page is all zero although the database uses it: its write was lost. Only space trees, or the template of
    /// the database, can show that, so checks of the page alone do not return it.
    Lost,
    /// The page in header format that a streaming backup leaves behind the last page.
    Trailer,
    /// Single flipped bits; with them flipped back the page is valid.
    Correctable {
        /// Flipped bits.
        bits: FlippedBits,
    },
    /// The bytes belong to another page.
    WrongNumber {
        /// Number of that page.
        claimed: u32,
    },
    /// The checksum is wrong.
    Bad,
    /// The checksum looks like that of single flipped bits, but the corrected page is not valid, so more bits are
    /// wrong. One in ten pages with three flipped bits in a block looks so.
    Miscorrected,
    /// The checksum is right and the page is not valid: it was damaged before it was stamped.
    Damaged(Damage),
    /// Checksum and structure are right, but an entry was never written so, as after swapped sectors. Only a check
    /// that knows the entries can return this.
    Foreign,
    /// Checksum and structure are right, but the page is not of the version that the flush map names. Only a check
    /// with that map can return this.
    Stale,
}

/// Checks database page `pgno`.
///
/// # Panics
/// If the length is no page size.
pub fn check_page(page: &[u8], pgno: u32) -> Finding {
    match checksum::verify(page, pgno) {
        Verdict::Ok => match PageRef::new(page).validate() {
            Ok(()) => Finding::Good { dbtime: PageRef::new(page).dbtime() },
            Err(damage) => Finding::Damaged(damage),
        },
        Verdict::Uninitialised => Finding::Uninitialised,
        Verdict::Correctable { bits } if is_sound_when_corrected(page, pgno) => Finding::Correctable { bits },
        Verdict::Correctable { .. } => Finding::Miscorrected,
        Verdict::WrongNumber { claimed } => Finding::WrongNumber { claimed },
        Verdict::Bad => Finding::Bad,
    }
}

fn is_sound_when_corrected(page: &[u8], pgno: u32) -> bool {
    let mut corrected = page.to_vec();
    let verdict = checksum::correct(&mut corrected, pgno);
    let page = PageRef::new(&corrected);
    matches!(verdict, Verdict::Correctable { .. }) && page.validate().is_ok() && page.check_order().is_ok()
}

/// Checks the last physical page of a file, as `check_page`; it may be a trailer.
///
/// # Panics
/// If the length is no page size.
pub fn check_last_page(page: &[u8], pgno: u32) -> Finding {
    let zero_words = [1, 2, 3, 6].iter().all(|word| get_u32(page, word * 4) == 0);
    let finding = check_page(page, pgno);
    if zero_words && finding != Finding::Uninitialised && checksum::header_is_intact(page) {
        return Finding::Trailer;
    }
    finding
}

/// Numbers of pages by finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of checked pages, without trailer.
    pub seen: u64,
    /// Number of pages with a wrong checksum or a broken structure, and of lost pages.
    pub bad: u64,
    /// Number of bad pages with a right checksum: a broken structure, an entry that no session wrote, or another
    /// version.
    pub damaged: u64,
    /// Number of pages with single flipped bits.
    pub correctable: u64,
    /// Number of pages that were never written.
    pub uninitialised: u64,
    /// Number of pages with the bytes of another page.
    pub wrong_number: u64,
    /// Highest dbtime of a good page.
    pub dbtime_max: u64,
}

impl Counts {
    /// Adds the finding of one page.
    pub fn add(&mut self, finding: Finding) {
        self.seen += u64::from(finding != Finding::Trailer);
        match finding {
            Finding::Good { dbtime } => self.dbtime_max = self.dbtime_max.max(dbtime),
            Finding::Uninitialised => self.uninitialised += 1,
            Finding::Trailer => {}
            Finding::Correctable { .. } => self.correctable += 1,
            Finding::WrongNumber { .. } => self.wrong_number += 1,
            Finding::Bad | Finding::Miscorrected | Finding::Lost => self.bad += 1,
            Finding::Damaged(_) | Finding::Foreign | Finding::Stale => {
                self.bad += 1;
                self.damaged += 1;
            }
        }
    }

    /// Adds the counts of other pages.
    pub fn merge(&mut self, other: &Counts) {
        self.seen += other.seen;
        self.bad += other.bad;
        self.damaged += other.damaged;
        self.correctable += other.correctable;
        self.uninitialised += other.uninitialised;
        self.wrong_number += other.wrong_number;
        self.dbtime_max = self.dbtime_max.max(other.dbtime_max);
    }

    /// Whether the file passes: at least one page, none bad, none of another number.
    pub fn is_success(&self) -> bool {
        self.seen > 0 && self.bad == 0 && self.wrong_number == 0
    }
}

/// Step on the way to the highest page that the database owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedStep {
    /// Page to read next.
    Read(u32),
    /// Number of the last owned page.
    Last(u32),
}

/// Error: a page does not lead to the owned extents of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("page {pgno} does not lead to the owned extents of the database")]
pub struct NoOwnedExtents {
    /// Number of the page.
    pub pgno: u32,
}

/// Follows the owned extents from page 1, the root of the database, to the last owned page, one level down with each
/// step. [`EndSearch`] goes the whole way.
///
/// # Errors
/// If the page is neither page 1 nor one of the tree of owned extents.
/// # Panics
/// If the length is no page size.
pub fn last_owned_page(page: &[u8], pgno: u32) -> Result<OwnedStep, NoOwnedExtents> {
    const MULTIPLE_EXTENTS: u64 = 1;
    let page = PageRef::new(page);
    let lost = NoOwnedExtents { pgno };
    if page.is_space() {
        let last_slot = page.node_count().checked_sub(1).ok_or(lost)?;
        let node = page.node(last_slot);
        if !page.is_leaf() {
            return node.child().map(OwnedStep::Read).ok_or(lost);
        }
        let key = node.key();
        let last = key.last_chunk::<4>().ok_or(lost)?;
        return Ok(OwnedStep::Last(u32::from_be_bytes(*last)));
    }
    let header = page.external_header();
    // A longer external header has a byte of flags in front of the space header.
    let header = if header.len() > 16 { &header[1..] } else { header };
    if !page.is_root() || header.len() < 16 {
        return Err(lost);
    }
    let (pages, extents_flags) = (get_u32(header, 0), get_u64(header, 8));
    if extents_flags & MULTIPLE_EXTENTS != 0 {
        Ok(OwnedStep::Read((extents_flags >> 32) as u32))
    } else {
        Ok(OwnedStep::Last(pgno.saturating_add(pages).saturating_sub(1)))
    }
}

/// Missing end of a file, as far as that can be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CutOff {
    /// A page on the way to the owned extents is not in the file.
    #[error("the file is cut off: page {pgno} is behind its end")]
    BeforePage {
        /// Number of the page.
        pgno: u32,
    },
    /// The database owns more pages than the file has.
    #[error("the file is cut off: the database owns {owned} pages, the file has {last}")]
    BeforeEnd {
        /// Number of the last owned page.
        owned: u32,
        /// Number of the last page in the file.
        last: u32,
    },
    /// A page on the way does not belong to the tree.
    #[error("the end of the database cannot be told: {0}")]
    NoWay(#[from] NoOwnedExtents),
    /// The way has more levels than a tree can have.
    #[error("the end of the database cannot be told: its tree of owned extents is damaged")]
    NoEnd,
}

/// Largest number of levels of the tree of owned extents, with the database root; more means damage.
const LEVELS_MAX: usize = 8;

/// Search that finds out whether a file ends before the last page that its database owns. The caller reads the pages:
/// while there is a [`next_page`](Self::next_page), pass it to [`look`](Self::look).
#[derive(Clone, Copy, Debug)]
pub struct EndSearch {
    last: u32,
    levels: usize,
    step: Result<OwnedStep, NoOwnedExtents>,
}

impl EndSearch {
    /// Starts the search in a file whose [`last_page`] is `last`.
    pub fn new(last: u32) -> EndSearch {
        EndSearch { last, levels: 0, step: Ok(OwnedStep::Read(1)) }
    }

    /// Next page to read; `None`: the file has all pages of its database.
    ///
    /// # Errors
    /// If it lacks some, or if that cannot be told.
    pub fn next_page(&self) -> Result<Option<u32>, CutOff> {
        match self.step? {
            OwnedStep::Read(_) if self.levels == LEVELS_MAX => Err(CutOff::NoEnd),
            OwnedStep::Read(pgno) if pgno > self.last => Err(CutOff::BeforePage { pgno }),
            OwnedStep::Read(pgno) => Ok(Some(pgno)),
            OwnedStep::Last(owned) if owned > self.last => Err(CutOff::BeforeEnd { owned, last: self.last }),
            OwnedStep::Last(_) => Ok(None),
        }
    }

    /// Examines page `pgno`, the [`next_page`](Self::next_page).
    ///
    /// # Panics
    /// If the length is no page size.
    pub fn look(&mut self, page: &[u8], pgno: u32) {
        self.levels += 1;
        self.step = last_owned_page(page, pgno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::put_u32;
    use crate::page::{PageMut, page_flags};

    fn leaf(pgno: u32) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        let mut page = PageMut::format(&mut bytes, pgno, 9, page_flags::LEAF, 500 + u64::from(pgno));
        page.insert(0, b"key", b"data", 0).expect("room");
        page.finish(pgno);
        bytes
    }

    #[test]
    fn each_kind_of_page_is_counted_as_what_it_is() {
        let mut flipped = leaf(3);
        flipped[4000] ^= 1;
        let mut broken = leaf(4);
        broken[4000] ^= 3;
        let mut damaged = leaf(5);
        damaged[28] ^= 4;
        checksum::stamp(&mut damaged, 5);
        let pages = [(1, leaf(1)), (2, vec![0; 8192]), (3, flipped), (4, broken), (5, damaged), (6, leaf(1))];
        let (mut all, mut odd, mut even) = (Counts::default(), Counts::default(), Counts::default());
        for (pgno, page) in &pages {
            let finding = check_page(page, *pgno);
            assert_eq!(check_last_page(page, *pgno), finding);
            all.add(finding);
            if pgno % 2 == 0 { even.add(finding) } else { odd.add(finding) }
        }
        let expected = Counts {
            seen: 6,
            bad: 2,
            damaged: 1,
            correctable: 1,
            uninitialised: 1,
            wrong_number: 1,
            dbtime_max: 501,
        };
        assert_eq!(all, expected);
        assert!(!all.is_success() && !Counts::default().is_success());
        odd.merge(&even);
        assert_eq!(odd, expected);
    }

    /// Bits 1 of two words cancel out in the checksum's XOR part, so three flipped bits look like a single fourth one.
    #[test]
    fn three_flipped_bits_that_look_like_one_are_not_offered_for_repair_where_the_page_contradicts_it() {
        let good = leaf(3);
        let flip = |bits: [usize; 3]| {
            let mut page = good.clone();
            bits.iter().for_each(|bit| page[bit / 8] ^= 1 << (bit % 8));
            page
        };
        let free_bytes = 28 * 8;
        let page = flip([free_bytes + 1, 4000 * 8 + 1, 5000 * 8]);
        assert!(matches!(checksum::verify(&page, 3), checksum::Verdict::Correctable { .. }));
        assert_eq!(check_page(&page, 3), Finding::Miscorrected);
        let mut counts = Counts::default();
        counts.add(check_page(&page, 3));
        assert_eq!((counts.bad, counts.correctable), (1, 0));
        assert!(matches!(
            check_page(&flip([free_bytes, free_bytes, free_bytes + 1]), 3),
            Finding::Correctable { .. }
        ));
    }

    #[test]
    fn a_trailer_is_known_only_as_last_page_and_with_its_checksum() {
        let mut trailer = vec![0; 8192];
        put_u32(&mut trailer, 52, 3);
        checksum::stamp_header(&mut trailer);
        assert_eq!(check_last_page(&trailer, 9), Finding::Trailer);
        assert_eq!(check_page(&trailer, 9), Finding::WrongNumber { claimed: 0 });
        let mut other = trailer.clone();
        put_u32(&mut other, 8, 0x620);
        checksum::stamp_header(&mut other);
        assert_eq!(check_last_page(&other, 9), Finding::WrongNumber { claimed: 0 }, "a header is no trailer");
        trailer[700] ^= 1;
        assert_eq!(check_last_page(&trailer, 9), Finding::Bad);
        assert_eq!(check_last_page(&[0; 8192], 9), Finding::Uninitialised);
    }

    #[test]
    fn the_last_owned_page_is_found_through_both_kinds_of_space_header() {
        let root = |header: &[u8], flags: u32| {
            let mut bytes = vec![0; 4096];
            let mut page = PageMut::format(&mut bytes, 1, 1, page_flags::ROOT | page_flags::LEAF | flags, 64);
            page.set_external_header(header).expect("room");
            bytes
        };
        let words = |words: [u32; 4]| words.map(u32::to_le_bytes).concat();
        assert_eq!(last_owned_page(&root(&words([20, 0, 0, 0]), 0), 7), Ok(OwnedStep::Last(26)));
        assert_eq!(last_owned_page(&root(&words([20, 0, 1, 2]), 0), 1), Ok(OwnedStep::Read(2)));
        let longer = [&[1][..], &words([20, 0, 1, 2])].concat();
        assert_eq!(last_owned_page(&root(&longer, 0), 1), Ok(OwnedStep::Read(2)));
        let mut owned = root(&[0; 16], page_flags::SPACE);
        assert_eq!(last_owned_page(&owned, 2), Err(NoOwnedExtents { pgno: 2 }));
        let mut page = PageMut::new(&mut owned);
        page.insert(0, &254u32.to_be_bytes(), &254u32.to_le_bytes(), 0).expect("room");
        page.insert(1, &510u32.to_be_bytes(), &256u32.to_le_bytes(), 0).expect("room");
        assert_eq!(last_owned_page(&owned, 2), Ok(OwnedStep::Last(510)));
        assert_eq!(last_owned_page(&leaf(3), 3), Err(NoOwnedExtents { pgno: 3 }));
    }

    #[test]
    fn a_file_that_ends_before_its_last_owned_page_is_cut_off() {
        let root = |words: [u32; 4], flags: u32| {
            let mut bytes = vec![0; 4096];
            let mut page = PageMut::format(&mut bytes, 1, 1, page_flags::ROOT | page_flags::LEAF | flags, 64);
            page.set_external_header(&words.map(u32::to_le_bytes).concat()).expect("room");
            bytes
        };
        let mut owned = root([0; 4], page_flags::SPACE);
        PageMut::new(&mut owned).insert(0, &9u32.to_be_bytes(), &9u32.to_le_bytes(), 0).expect("room");
        let pages = [root([9, 0, 1, 2], 0), owned, leaf(3), root([9, 0, 1, 4], 0)];
        let search = |first: u32, last: u32| {
            let mut search = EndSearch { step: Ok(OwnedStep::Read(first)), ..EndSearch::new(last) };
            while let Some(pgno) = search.next_page()? {
                search.look(&pages[pgno as usize - 1], pgno);
            }
            Ok(())
        };
        assert_eq!(search(1, 9), Ok(()));
        assert_eq!(search(1, 8), Err(CutOff::BeforeEnd { owned: 9, last: 8 }));
        assert_eq!(search(1, 1), Err(CutOff::BeforePage { pgno: 2 }));
        assert_eq!(search(1, 0), Err(CutOff::BeforePage { pgno: 1 }));
        assert_eq!(search(3, 9), Err(CutOff::NoWay(NoOwnedExtents { pgno: 3 })));
        assert_eq!(search(4, 9), Err(CutOff::NoEnd), "page 4 leads to itself");
    }

    #[test]
    fn pages_lie_behind_header_and_shadow() {
        assert_eq!(page_offset(1, 8192), 16384);
        assert_eq!([0, 8192, 16384, 24575, 24576].map(|bytes| last_page(bytes, 8192)), [0, 0, 0, 0, 1]);
    }
}
