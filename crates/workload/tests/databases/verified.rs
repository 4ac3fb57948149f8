//! What `verify` says of zero pages (free, leaked, or lost), of exchanged sectors, and of several flipped bits.

use std::collections::BTreeSet;
use std::io::Cursor;

use edb::page::{PageMut, PageRef, page_flags};
use edb::verify::{Finding, check_page};
use workload::schema::Tree;
use workload::template::TemplateDatabase;
use workload::verify::{Opened, Verified, VerifyError};
use world::TemplatePages;

const PAGE_SIZES: [usize; 4] = [4096, 8192, 16384, 32768];
/// Root of the available extents of a database.
const ROOT_AVAILABLE: u32 = 3;

/// A closed database with pages of this size.
struct File {
    template: TemplateDatabase,
    page_bytes: usize,
    bytes: Vec<u8>,
}

impl File {
    fn new(page_bytes: usize) -> File {
        File::of_pages(page_bytes, 500)
    }

    fn of_pages(page_bytes: usize, pages: u64) -> File {
        let file_bytes = pages * page_bytes as u64;
        let template = TemplateDatabase::of_size(page_bytes as u32, file_bytes, 64, 7, 25).unwrap();
        let mut bytes = vec![0; template.pages() as usize * page_bytes];
        for (index, page) in (0..).zip(bytes.chunks_exact_mut(page_bytes)) {
            template.fill(index, page);
        }
        File { template, page_bytes, bytes }
    }

    fn page(&mut self, pgno: u32) -> &mut [u8] {
        let start = (pgno as usize + 1) * self.page_bytes;
        &mut self.bytes[start..start + self.page_bytes]
    }

    /// Removes the template's shape from the database, as in a database of another program.
    fn forget_template(mut self) -> File {
        let page = self.page(TemplateDatabase::SHAPE_PAGE);
        let flags = PageRef::new(page).flags();
        PageMut::new(page).set_flags(flags | page_flags::SCRUBBED);
        edb::checksum::stamp(page, TemplateDatabase::SHAPE_PAGE);
        self
    }

    /// Removes the first `pages` pages from the largest available extent at `root`, so that they are leaked.
    fn leak(&mut self, root: u32, pages: u32) {
        let page = self.page(root);
        let size = |data: &[u8]| u32::from_le_bytes(data.try_into().unwrap());
        let sizes = PageRef::new(page).nodes().map(|node| size(node.data));
        let (slot, largest) = sizes.enumerate().max_by_key(|(_, pages)| *pages).unwrap();
        assert!(largest > pages, "{largest} pages are available");
        let mut page = PageMut::new(page);
        page.replace_data(slot, &(largest - pages).to_le_bytes()).unwrap();
        page.finish(root);
    }

    /// Root of the available extents of a tree.
    fn available(&mut self, tree: Tree) -> u32 {
        let fdp = self.template.tree(tree).fdp;
        let header = PageRef::new(self.page(fdp)).external_header();
        u32::from_le_bytes(header[12..16].try_into().unwrap()) + 1
    }

    /// Numbers of the lost pages, and the summary of the check.
    fn check(&self) -> (Vec<u32>, Verified) {
        let (findings, verified) = findings(&self.bytes);
        let lost = findings.into_iter().filter(|(_, finding)| *finding == Finding::Lost);
        (lost.map(|(pgno, _)| pgno).collect(), verified)
    }

    /// Pages that are not zero.
    fn written(&self) -> Vec<u32> {
        let pages = (1..).zip(self.bytes.chunks_exact(self.page_bytes).skip(2));
        pages.filter(|(_, page)| !edb::is_zero(page)).map(|(pgno, _)| pgno).collect()
    }
}

/// Finding on each page of a file, and the summary of the check.
fn findings(bytes: &[u8]) -> (Vec<(u32, Finding)>, Verified) {
    let (mut file, mut findings) = (Cursor::new(bytes), Vec::new());
    let mut opened = Opened::new(&mut file, bytes.len() as u64, None).unwrap();
    let found = |pgno, finding| {
        findings.push((pgno, finding));
        Ok::<_, VerifyError>(())
    };
    let verified = opened.check(&mut file, None, found).unwrap();
    (findings, verified)
}

fn says(verified: &Verified, what: &str, pages: u64) -> bool {
    verified.notes.iter().any(|note| note.starts_with(what) && note.ends_with(&format!(": {pages}")))
}

#[test]
fn leaked_pages_of_root_and_table_are_a_note_at_every_page_size() {
    for page_bytes in PAGE_SIZES {
        for is_known in [true, false] {
            let mut file = File::new(page_bytes);
            let of_folders = file.available(Tree::Folders);
            file.leak(ROOT_AVAILABLE, 9);
            file.leak(of_folders, 2);
            let file = if is_known { file } else { file.forget_template() };
            let (lost, verified) = file.check();
            assert!(lost.is_empty() && verified.is_clean(), "{page_bytes}: {lost:?}");
            assert!(says(&verified, "leaked pages", 11), "{page_bytes}: {:?}", verified.notes);
        }
    }
}

/// With leaked pages and an unknown template, the trees still tell which zero pages are lost.
#[test]
fn every_used_page_that_became_zero_is_lost_also_beside_leaked_pages() {
    for page_bytes in PAGE_SIZES {
        let mut file = File::new(page_bytes).forget_template();
        file.leak(ROOT_AVAILABLE, 9);
        let written = file.written();
        let step = if page_bytes == 4096 { 1 } else { 7 };
        for pgno in written.into_iter().step_by(step) {
            let before = file.page(pgno).to_vec();
            file.page(pgno).fill(0);
            let (lost, verified) = file.check();
            assert_eq!(lost, [pgno], "{page_bytes}: {:?}", verified.notes);
            assert!(!verified.is_clean() && verified.counts.bad == 1);
            file.page(pgno).copy_from_slice(&before);
        }
        assert!(file.check().1.is_clean());
    }
}

#[test]
fn pages_below_a_lost_page_are_lost_or_said_to_be_unjudged() {
    let mut file = File::of_pages(4096, 6000).forget_template();
    let run = file.template.layout().run(Tree::Bodies).unwrap().clone();
    let branch = run.levels[1].first;
    let below: Vec<u32> = (run.first()..run.first() + 5).chain([branch]).collect();
    below.iter().for_each(|pgno| file.page(*pgno).fill(0));
    let (lost, verified) = file.check();
    assert_eq!(lost, below, "their tree owns them, and what would refer to them is lost");
    assert!(verified.notes.is_empty(), "{:?}", verified.notes);

    let available = file.available(Tree::Folders);
    file.page(available).fill(0);
    let (lost, verified) = file.check();
    assert!(lost.contains(&available) && lost.contains(&branch), "{lost:?}");
    let unjudged = verified.notes.iter().find(|note| note.starts_with("zero pages that could not be judged"));
    assert!(unjudged.is_some(), "{:?}", verified.notes);

    // Without its catalog no tree is known.
    file.page(4).fill(0);
    let (lost, verified) = file.check();
    assert_eq!(lost, [4]);
    assert!(says(&verified, "zero pages that could not be judged", verified.counts.uninitialised));
}

/// Exchanges two sectors of each page, except the one with the page header; the pages pass their checksums, as where
/// the parities of both sectors are equal. Returns the pages that differ now, and how many of them are whole by
/// themselves.
fn exchange_sectors(file: &mut File, pages: &[u32], next: &mut impl FnMut() -> u64) -> (Vec<u32>, usize) {
    const SECTOR_BYTES: usize = 512;
    let sectors = (file.page_bytes / SECTOR_BYTES) as u64;
    let (mut differing, mut whole) = (Vec::new(), 0);
    for pgno in pages {
        let page = file.page(*pgno);
        let before = page.to_vec();
        let [one, other] = [(); 2].map(|()| (1 + next() % (sectors - 1)) as usize * SECTOR_BYTES);
        for (to, from) in [(one, other), (other, one)] {
            page[to..to + SECTOR_BYTES].copy_from_slice(&before[from..from + SECTOR_BYTES]);
        }
        edb::checksum::stamp(page, *pgno);
        if page[..] != before[..] {
            differing.push(*pgno);
            whole += usize::from(matches!(check_page(page, *pgno), Finding::Good { .. }));
        }
    }
    (differing, whole)
}

/// Every byte of an unchanged page is known, also those that hold no entry.
#[test]
fn every_pair_of_exchanged_sectors_of_an_unchanged_page_is_found() {
    for page_bytes in PAGE_SIZES {
        let mut file = File::new(page_bytes);
        let runs = &file.template.layout().runs;
        let pages: Vec<u32> = runs.iter().flat_map(|run| run.first()..run.first() + run.pages()).collect();
        let (unchanged, mut next) = (file.bytes.clone(), testkit::numbers(page_bytes as u64));
        let (mut exchanged, mut whole) = (0, 0);
        for _ in 0..10 {
            file.bytes.copy_from_slice(&unchanged);
            let (differing, whole_alone) = exchange_sectors(&mut file, &pages, &mut next);
            let (findings, _) = findings(&file.bytes);
            let good = findings.iter().filter(|(_, finding)| matches!(finding, Finding::Good { .. }));
            let good: BTreeSet<u32> = good.map(|(pgno, _)| *pgno).collect();
            assert_eq!(differing.iter().find(|pgno| good.contains(pgno)), None, "{page_bytes}");
            (exchanged, whole) = (exchanged + differing.len(), whole + whole_alone);
        }
        assert!(
            exchanged > 1000 && whole > 100,
            "{page_bytes}: {whole} of {exchanged} are whole by themselves"
        );
    }
}

/// The shares that the help of `--repair-to` names: of pages with three flipped bits in one block of a checksum some
/// look like pages with a single flipped bit, and some of those pass every check when that bit is flipped back.
#[test]
fn three_flipped_bits_are_repaired_wrongly_as_seldom_as_the_help_says() {
    const PAGES: usize = 4_000;
    let of_others = |page_bytes| (File::new(page_bytes).forget_template(), 100);
    let ours = PAGE_SIZES.into_iter().map(|page_bytes| (File::new(page_bytes), 10));
    for (file, most_of_1000) in ours.chain(PAGE_SIZES.into_iter().map(of_others)) {
        let page_bytes = file.page_bytes;
        let block_bits = (if page_bytes > 8192 { page_bytes / 4 } else { page_bytes }) as u64 * 8;
        let mut next = testkit::numbers(page_bytes as u64);
        let (mut damaged, mut repaired) = (0, 0);
        while damaged < PAGES {
            let mut bytes = file.bytes.clone();
            for (pgno, page) in (1..).zip(bytes.chunks_exact_mut(page_bytes).skip(2)) {
                if edb::is_zero(page) || pgno == TemplateDatabase::SHAPE_PAGE {
                    continue;
                }
                let block = next() % (page_bytes as u64 * 8 / block_bits);
                for _ in 0..3 {
                    let bit = (block * block_bits + next() % block_bits) as usize;
                    page[bit / 8] ^= 1 << (bit % 8);
                }
                damaged += 1;
            }
            let (findings, _) = findings(&bytes);
            let is_repaired = |finding: &Finding| matches!(finding, Finding::Correctable { .. });
            repaired += findings.iter().filter(|(_, finding)| is_repaired(finding)).count();
        }
        assert!(repaired * 1000 <= damaged * most_of_1000, "{page_bytes}: {repaired} of {damaged}");
    }
}
