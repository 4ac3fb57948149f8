//! What the space trees of databases say that the genuine engine wrote.

use btree::{FilePages, PagesInUse};
use edb::header::DatabaseHeader;

/// No page in use is zero, and in the database that the tests of `verify` damage every page that was written is in use.
#[test]
fn space_trees_of_genuine_databases_tell_pages_in_use_from_free_ones() {
    for (name, initialised, file) in testkit::genuine_databases() {
        let (header, _) = DatabaseHeader::read(&file).expect("it has a header");
        let mut pages = FilePages::new(header.page_bytes());
        let mut written = Vec::new();
        for (pgno, page) in (1..).zip(file.chunks_exact(header.page_bytes()).skip(2)) {
            pages.add(pgno, page);
            if !edb::is_zero(page) {
                written.push(pgno);
            }
        }
        let in_use = PagesInUse::read(&pages).expect("its space can be read").expect("it has a catalog");
        let last = (file.len() / header.page_bytes() - 2) as u32;
        let zero = (1..=last).find(|pgno| in_use.contains(*pgno) && !written.contains(pgno));
        assert_eq!(zero, None, "{name}");
        assert_eq!(written.len() as u64, initialised, "{name}");
        let used = written.iter().filter(|pgno| in_use.contains(**pgno)).count();
        assert!(used > 0 && (name != "large" || used == written.len()), "{name}: {used} of {initialised}");
    }
}
