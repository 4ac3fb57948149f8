//! Template => valid: what licenses the O(1) verification of pristine pages.

use edb::checksum::{Verdict, verify};
use edb::page::{PageRef, page_flags};
use workload::schema::{DatabaseShape, Entry, Tree};
use workload::template::layout::{LARGE_TREES, PageRole};
use workload::template::{TemplateDatabase, TemplateError};
use world::TemplatePages;

const PAGE_SIZES: [u32; 4] = [4096, 8192, 16384, 32768];

fn page(template: &TemplateDatabase, pgno: u32) -> Vec<u8> {
    // A fill that leaves a byte of its memory as it was shows.
    let (mut page, mut again) = (vec![0xAA; template.page_bytes()], vec![0x55; template.page_bytes()]);
    template.fill(u64::from(pgno) + 1, &mut page);
    template.fill(u64::from(pgno) + 1, &mut again);
    assert!(page == again, "page {pgno} depends on the memory it is filled into");
    page
}

/// Checks one page of a large tree: by itself, against its neighbours, and every entry.
fn check_tree_page(template: &TemplateDatabase, pgno: u32) {
    let bytes = page(template, pgno);
    let view = PageRef::new(&bytes);
    assert_eq!(verify(&bytes, pgno), Verdict::Ok, "page {pgno}");
    assert_eq!(view.validate(), Ok(()), "page {pgno}");
    let PageRole::Tree { run, level, ordinal } = template.layout().place(pgno) else {
        panic!("page {pgno} is in no tree")
    };
    let pages = &run.levels[level];
    assert!(ordinal < pages.pages);
    assert_eq!(template.tree_of(view.objid()), Some(run.tree));
    assert_eq!(view.is_leaf(), level == 0);
    assert_eq!(view.flags() & page_flags::PARENT_OF_LEAF != 0, level == 1);
    let last_key = |bytes: &[u8]| PageRef::new(bytes).nodes().next_back().map(|node| node.key());
    if level == 0 {
        assert_eq!(view.prev(), if ordinal == 0 { 0 } else { pgno - 1 });
        assert_eq!(view.next(), if ordinal + 1 == pages.pages { 0 } else { pgno + 1 });
        let mut before: Option<Vec<u8>> = None;
        for node in view.nodes() {
            let (key, entry) = (node.key(), template.schema().verify(run.tree, &node.key(), node.data));
            assert!(entry.is_some_and(|entry| entry.version().unwrap_or(0) == 0), "page {pgno} key {key:?}");
            assert!(before.is_none_or(|before| before < key), "page {pgno} is out of order");
            before = Some(key);
        }
        if view.prev() != 0 {
            let left = page(template, view.prev());
            assert!(last_key(&left).unwrap() < view.node(0).key());
        }
    } else {
        let mut low: Option<Vec<u8>> = None;
        for (slot, node) in view.nodes().enumerate() {
            let child_pgno = node.child().unwrap();
            let below = &run.levels[level - 1];
            assert_eq!(child_pgno, below.first + pages.entries_of(ordinal).start as u32 + slot as u32);
            // Leaf keys must lie between the separators; inner ones follow by induction.
            let child = page(template, child_pgno);
            let first = PageRef::new(&child).node(0).key();
            let high = node.key();
            if level == 1 {
                assert!(low.as_ref().is_none_or(|low| *low <= first), "page {pgno} slot {slot}");
                assert!(high.is_empty() || last_key(&child).unwrap() < high, "page {pgno} slot {slot}");
            }
            let is_last_of_level = ordinal + 1 == pages.pages && slot + 1 == view.node_count();
            assert_eq!(high.is_empty(), is_last_of_level, "page {pgno} slot {slot}");
            low = Some(high);
        }
    }
}

#[test]
fn every_page_of_a_small_template_is_valid_and_linked_at_every_page_size() {
    for page_bytes in PAGE_SIZES {
        let template = TemplateDatabase::of_size(page_bytes, 12 << 20, 64, 7, 30).unwrap();
        let layout = template.layout();
        for pgno in layout.system_pages + 1..layout.first_free() {
            check_tree_page(&template, pgno);
        }
        assert!(page(&template, layout.first_free()).iter().all(|byte| *byte == 0));
        let mut ids = vec![0u32; template.schema().shape().rows as usize + 1];
        for run in &layout.runs {
            for ordinal in 0..run.levels[0].pages {
                for node in PageRef::new(&page(&template, run.first() + ordinal)).nodes() {
                    let entry = template.schema().recognise(run.tree, &node.key(), node.data).unwrap();
                    ids[entry.id() as usize] += 1;
                }
            }
        }
        for (id, count) in ids.iter().enumerate().skip(1) {
            let places = if template.schema().places().has_place(id as u32) { 4 } else { 3 };
            assert_eq!(
                *count, places,
                "row {id} is in its row, two long-value nodes and its index entry, each once"
            );
        }
    }
}

#[test]
fn any_page_of_a_terabyte_template_is_valid_and_linked() {
    for (page_bytes, bytes) in [(32768, 1u64 << 40), (32768, 4 << 40), (4096, 1 << 40)] {
        let template = TemplateDatabase::of_size(page_bytes, bytes, 256, 9, 0).unwrap();
        let mut pick = 1u64;
        for run in &template.layout().runs {
            for level in &run.levels {
                for edge in [0, level.pages - 1] {
                    check_tree_page(&template, level.first + edge);
                }
                for _ in 0..5 {
                    pick = workload::payload::mix(pick);
                    check_tree_page(&template, level.first + (pick % u64::from(level.pages)) as u32);
                }
            }
        }
    }
}

#[test]
fn a_row_is_where_arithmetic_says() {
    let template = TemplateDatabase::of_size(32768, 1 << 40, 256, 9, 0).unwrap();
    let rows = template.schema().shape().rows;
    for tree in LARGE_TREES {
        let run = template.layout().run(tree).unwrap();
        for pick in 0..50u64 {
            let number = workload::payload::mix(pick) % run.levels[0].entries;
            let pgno = run.levels[0].first + (number / u64::from(run.levels[0].fan_out)) as u32;
            let slot = (number % u64::from(run.levels[0].fan_out)) as usize;
            let bytes = page(&template, pgno);
            let node = PageRef::new(&bytes).node(if tree == Tree::Bodies { 2 * slot } else { slot });
            let entry = template.schema().recognise(tree, &node.key(), node.data).unwrap();
            assert!(entry.id() >= 1 && entry.id() <= rows);
            match entry {
                Entry::Conversation { id } => {
                    assert_eq!(template.schema().places().initial_rank(id), Some(number))
                }
                entry => assert_eq!(u64::from(entry.id()), number + 1),
            }
        }
    }
}

/// Pager over the pages of a template.
struct Pages<'a> {
    template: &'a TemplateDatabase,
    read: std::cell::RefCell<std::collections::BTreeMap<u32, &'static [u8]>>,
}

impl btree::Pager for Pages<'_> {
    fn page(&self, pgno: u32) -> Result<btree::PageView<'_>, btree::Stop> {
        let mut read = self.read.borrow_mut();
        let bytes: &'static [u8] = read.entry(pgno).or_insert_with(|| Vec::leak(page(self.template, pgno)));
        Ok(btree::PageView::of_bytes(bytes))
    }

    fn page_bytes(&self) -> usize {
        self.template.page_bytes()
    }
}

#[test]
fn catalog_trees_and_space_of_an_template_are_whole() {
    for page_bytes in PAGE_SIZES {
        let template = TemplateDatabase::of_size(page_bytes, 20 << 20, 64, 7, 30).unwrap();
        let pages = Pages { template: &template, read: Default::default() };
        let trees = btree::database::schema(&pages).unwrap().trees();
        let usage = btree::check::database(&pages, &trees).unwrap();
        assert_eq!(usage.leaked_pages, 0);
        assert_eq!(usage.used_pages + usage.available_pages, u64::from(template.schema().shape().pages));
        assert!(usage.available_pages >= 64);
    }
}

/// A branch page could hold this many entries, but the root page holds the space header too.
#[test]
fn trees_whose_top_level_just_fills_a_page_are_whole() {
    for (page_bytes, rows) in [(4096, 270 * 27), (8192, 543 * 55), (16384, 1086 * 110), (32768, 2178 * 222)] {
        for rows in [rows, rows - 110] {
            let shape = DatabaseShape { page_bytes, pages: 100_000, rows, seed: 1, compressibility_pct: 0 };
            let template = TemplateDatabase::new(shape).unwrap();
            if page_bytes > 8192 {
                continue;
            }
            let pages = Pages { template: &template, read: Default::default() };
            let trees = btree::database::schema(&pages).unwrap().trees();
            assert_eq!(btree::check::database(&pages, &trees).unwrap().leaked_pages, 0);
        }
    }
}

#[test]
fn the_template_of_a_file_is_found_again_from_the_file_alone() {
    for page_bytes in PAGE_SIZES {
        let template =
            TemplateDatabase::of_size(page_bytes, 20 << 20, 64, 0xDEAD_BEEF_0BAD_CAFE, 30).unwrap();
        let shape_page = page(&template, TemplateDatabase::SHAPE_PAGE);
        let again = TemplateDatabase::of_shape_page(&shape_page).unwrap();
        assert_eq!((again.id(), again.schema().shape()), (template.id(), template.schema().shape()));

        let other = page(&template, TemplateDatabase::SHAPE_PAGE + 1);
        assert_eq!(TemplateDatabase::of_shape_page(&other).err(), Some(TemplateError::Foreign));
        let mut torn = shape_page;
        torn[200] ^= 1;
        assert_eq!(TemplateDatabase::of_shape_page(&torn).err(), Some(TemplateError::Foreign));
    }
}

#[test]
fn templates_of_other_shapes_have_other_ids_and_other_payloads() {
    let template = |seed, share| TemplateDatabase::of_size(32768, 20 << 20, 64, seed, share).unwrap();
    let (first, second, third) = (template(1, 30), template(2, 30), template(1, 40));
    assert!(first.id() != second.id() && first.id() != third.id());
    let leaf = first.layout().run(Tree::Bodies).unwrap().first();
    let (a, b) = (page(&first, leaf), page(&second, leaf));
    let same =
        a.chunks_exact(8).zip(b.chunks_exact(8)).filter(|(a, b)| a == b && a.iter().any(|byte| *byte != 0));
    // Keys, sizes and headers of 16 long values; no payload.
    assert!(same.count() < 16 * 6);
}

#[test]
fn the_header_of_an_template_is_intact_and_its_counter_is_above_every_page() {
    for page_bytes in PAGE_SIZES {
        let template = TemplateDatabase::of_size(page_bytes, 12 << 20, 64, 7, 30).unwrap();
        let mut header = vec![0xAA; page_bytes as usize];
        for copy in 0..2 {
            template.fill(copy, &mut header);
            assert!(edb::checksum::header_is_intact(&header));
            assert!(header[671..].iter().all(|byte| *byte == 0));
        }
        let counter = u64::from_le_bytes(*header[16..].first_chunk().unwrap());
        for pgno in 1..=template.layout().system_pages + 2 {
            let bytes = page(&template, pgno);
            assert!(PageRef::new(&bytes).dbtime() < counter);
            assert!(matches!(verify(&bytes, pgno), Verdict::Ok | Verdict::Uninitialised), "page {pgno}");
            if verify(&bytes, pgno) == Verdict::Ok {
                assert_eq!(PageRef::new(&bytes).validate(), Ok(()), "page {pgno}");
            }
        }
    }
}
