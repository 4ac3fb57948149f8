//! A page known as its template and edits is the page of bytes that the edits make, for every question.

use std::rc::Rc;

use btree::{NodeFunction, NodeKey, Outline, PageChange, PageOp, PageView, SparsePage};
use edb::page::{Node, PageMut, PageRef, node_flags};
use proptest::prelude::*;
use workload::codec::DatabaseCodec;
use workload::schema::{Entry, Schema, Tree};
use workload::template::TemplateDatabase;
use workload::template::layout::{LARGE_TREES, PageRole};
use world::{PageCodec, TemplatePages};

const PAGE_SIZES: [u32; 4] = [4096, 8192, 16384, 32768];

fn template(page_bytes: u32) -> Rc<TemplateDatabase> {
    Rc::new(TemplateDatabase::of_size(page_bytes, 64 << 20, 64, 21, 20).unwrap())
}

fn sparse(template: &Rc<TemplateDatabase>, pgno: u32) -> Option<SparsePage> {
    SparsePage::of_template(template.clone(), pgno)
}

fn outline(template: &TemplateDatabase, pgno: u32) -> Outline {
    template.outline(template.spot(pgno).unwrap())
}

fn bytes(template: &TemplateDatabase, pgno: u32) -> Vec<u8> {
    let mut page = vec![0xAA; template.page_bytes()];
    template.fill(u64::from(pgno) + 1, &mut page);
    page
}

/// Numbers of the first, second, middle and last page of every level of every tree.
fn kinds(template: &TemplateDatabase) -> Vec<u32> {
    let levels = LARGE_TREES.iter().flat_map(|tree| &template.layout().run(*tree).unwrap().levels);
    let mut pages: Vec<u32> = levels
        .flat_map(|level| {
            let last = level.first + level.pages - 1;
            [level.first, (level.first + 1).min(last), level.first + level.pages / 2, last]
        })
        .collect();
    pages.dedup();
    pages
}

/// Asserts that a sparse page answers all queries like the page of these bytes.
fn assert_same(page: &SparsePage, bytes: &[u8]) {
    let (known, expected) = (PageView::Sparse(page), PageView::of_bytes(bytes));
    let head = |page: PageView| {
        let counts = (page.node_count(), page.free_bytes(), page.uncommitted_free_bytes(), page.page_bytes());
        let kind = (page.is_root(), page.is_leaf(), page.is_space(), page.is_non_unique());
        (page.dbtime(), page.prev(), page.next(), page.objid(), page.flags(), counts, kind)
    };
    assert_eq!(head(known), head(expected));
    assert_eq!(known.external_header(), expected.external_header());
    assert_eq!(known.prefix(), expected.prefix());
    let parts = |node: Node| (node.key(), node.data.to_vec(), node.flags);
    let count = expected.node_count();
    // A few nodes one by one, so that they are not all made at once.
    for slot in [0, count / 3, count / 2, count.saturating_sub(1)] {
        if slot < count {
            let fresh = page.clone();
            assert_eq!(parts(fresh.node(slot)), parts(expected.node(slot)), "slot {slot}");
            assert_eq!(fresh.node_bytes(slot), expected.node_bytes(slot));
            assert_eq!(known.is_deleted(slot), expected.is_deleted(slot));
            assert_eq!(known.data_bytes(slot), expected.data_bytes(slot));
            assert_eq!(known.child(slot), expected.child(slot));
        }
    }
    let picks = (0..count).step_by(count / 17 + 1).chain(count.checked_sub(1));
    for slot in picks.collect::<Vec<_>>() {
        let (key, data, _) = parts(expected.node(slot));
        let mut above = key.clone();
        above.push(0);
        let below = key[..key.len().saturating_sub(1)].to_vec();
        for key in [&key, &above, &below, &vec![], &vec![0xFF; 12]] {
            if known.is_leaf() && !known.is_non_unique() {
                assert_eq!(known.search(key), expected.search(key), "search {key:02x?}");
            }
            for data in [&data[..], &[], &[0xFF; 3]] {
                if !known.is_leaf() {
                    let slots = [known, expected].map(|page| page.child_slot_of_entry(key, data));
                    assert_eq!(slots[0], slots[1], "{key:02x?}");
                } else if known.is_non_unique() {
                    assert_eq!(known.search_entry(key, data), expected.search_entry(key, data), "{key:02x?}");
                }
            }
            assert_eq!(known.bytes_needed(key, 9), expected.bytes_needed(key, 9));
            assert_eq!(known.fits(key, 9), expected.fits(key, 9));
        }
    }
    assert!(known.nodes().map(parts).eq(expected.nodes().map(parts)));
    let mut filled = vec![0x55; bytes.len()];
    page.fill(&mut filled);
    let is_sum = |at: usize| at < 8 || bytes.len() > 8192 && (40..64).contains(&at);
    assert!((0..bytes.len()).all(|at| is_sum(at) || filled[at] == bytes[at]), "other bytes");
}

#[test]
fn every_kind_of_page_can_be_had_node_by_node() {
    for page_bytes in PAGE_SIZES {
        let template = template(page_bytes);
        for pgno in kinds(&template) {
            let page = sparse(&template, pgno).unwrap_or_else(|| panic!("page {pgno} has no outline"));
            assert_same(&page, &bytes(&template, pgno));
        }
        for pgno in [1, template.layout().system_pages, template.layout().first_free()] {
            assert!(sparse(&template, pgno).is_none(), "page {pgno} is only to be had as bytes");
        }
    }
}

/// One edit as a load makes it.
#[derive(Debug, Clone)]
enum Edit {
    Insert { id: u32 },
    InsertOther { key: Vec<u8>, data: Vec<u8>, flags: u8 },
    Flag { slot: prop::sample::Index, flags: u8 },
    Remove { slot: prop::sample::Index },
    NextVersion { slot: prop::sample::Index },
    OtherData { slot: prop::sample::Index, data: Vec<u8> },
    Neighbours { prev: u32, next: u32 },
    Write,
}

fn edit() -> impl Strategy<Value = Edit> {
    let slot = any::<prop::sample::Index>;
    let some = || prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        4 => (1u32..2_000_000_000).prop_map(|id| Edit::Insert { id }),
        2 => (some(), some(), 0u8..4).prop_map(|(key, data, flags)| Edit::InsertOther { key, data, flags }),
        4 => (slot(), 0u8..4).prop_map(|(slot, flags)| Edit::Flag { slot, flags }),
        4 => slot().prop_map(|slot| Edit::Remove { slot }),
        3 => slot().prop_map(|slot| Edit::NextVersion { slot }),
        1 => (slot(), prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(slot, data)| Edit::OtherData { slot, data }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(prev, next)| Edit::Neighbours { prev, next }),
        2 => Just(Edit::Write),
    ]
}

/// Page operations of an edit on this page; empty if the edit does not apply to it.
fn ops(schema: &Schema, tree: Tree, view: PageRef, edit: &Edit) -> Vec<PageOp> {
    let count = view.node_count();
    // Where a tree puts an entry that it does not have.
    let place = |key: &[u8], data: &[u8]| {
        let found = match (view.is_leaf(), view.is_non_unique()) {
            (false, _) => Err(view.child_slot_of_entry(key, data)),
            (true, false) => view.search(key),
            (true, true) => view.search_entry(key, data),
        };
        found.err().filter(|_| view.fits(key, data.len())).map(|slot| slot as u16)
    };
    let mut ops = Vec::new();
    match edit {
        Edit::Insert { id } => {
            let entry = match tree {
                Tree::Rows | Tree::Folders => Entry::Row { id: *id, version: 3 },
                Tree::Bodies => Entry::Body { id: *id, version: 3 },
                Tree::Conversations => Entry::Conversation { id: *id },
            };
            let (key, data) = (NodeKey::from(schema.key(entry)), schema.data(entry));
            if let Some(slot) = place(&key, &data) {
                ops.push(PageOp::Insert { slot, flags: 0, key, data });
            }
        }
        Edit::InsertOther { key, data, flags } => {
            if let Some(slot) = place(key, data) {
                let (key, data) = (key[..].into(), data[..].into());
                ops.push(PageOp::Insert { slot, flags: *flags, key, data });
            }
        }
        Edit::Flag { slot, flags } if count > 0 => {
            ops.push(PageOp::SetNodeFlags { slot: slot.index(count) as u16, flags: *flags });
        }
        Edit::Remove { slot } if count > 1 => ops.push(PageOp::Delete { slot: slot.index(count) as u16 }),
        Edit::NextVersion { slot } if count > 0 => {
            let slot = slot.index(count);
            let node = view.node(slot);
            if let Some(entry) = schema.recognise(tree, &node.key(), node.data) {
                let next =
                    Entry::of_kind(entry.kind(), entry.id(), entry.version().unwrap_or(0) + 1).unwrap();
                let slot = slot as u16;
                ops.push(PageOp::Replace { slot, data: schema.data(next) });
                ops.push(PageOp::SetNodeFlags { slot, flags: node_flags::VERSIONED });
            }
        }
        Edit::OtherData { slot, data } if count > 0 => {
            let slot = slot.index(count);
            if data.len() <= view.node(slot).data.len() + view.free_bytes() {
                ops.push(PageOp::Replace { slot: slot as u16, data: data[..].into() });
            }
        }
        Edit::Neighbours { prev, next } => {
            ops.push(PageOp::SetPrevious { pgno: *prev });
            ops.push(PageOp::SetNext { pgno: *next });
        }
        _ => {}
    }
    ops
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn edits_make_of_a_sparse_page_what_they_make_of_its_bytes(
        page_bytes in prop::sample::select(PAGE_SIZES.to_vec()),
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 0..16),
    ) {
        let template = template(page_bytes);
        let pages = kinds(&template);
        let pgno = pages[which.index(pages.len())];
        let PageRole::Tree { run, .. } = template.layout().place(pgno) else { unreachable!("pages of trees") };
        let tree = run.tree;
        let (mut page, mut expected) = (sparse(&template, pgno).unwrap(), bytes(&template, pgno));
        let mut dbtime = 1000;
        for edit in edits {
            if matches!(edit, Edit::Write) {
                PageMut::new(&mut expected).finish(pgno);
                page.prepare_write();
                continue;
            }
            let ops = ops(template.schema(), tree, PageRef::new(&expected), &edit);
            if ops.is_empty() {
                continue;
            }
            dbtime += 1;
            let change = PageChange { pgno, dbtime_before: dbtime - 1, ops: ops.into() };
            let made_before = page.clone();
            if !page.apply(&change, dbtime).unwrap() {
                prop_assert_eq!(made_before.ops().len(), page.ops().len());
                break;
            }
            change.apply(&mut expected, dbtime).unwrap();
        }
        assert_same(&page, &expected);
        // As storage keeps it: with checksums, and as few bytes.
        PageMut::new(&mut expected).finish(pgno);
        page.prepare_write();
        let edits = page.ops().len();
        let codec = DatabaseCodec::new(template.clone());
        let mut encoded = Vec::new();
        template.encode(&page, &mut encoded);
        prop_assert!(encoded.len() < 16 + edits * 260, "{} bytes for {edits} edits", encoded.len());
        let index = u64::from(pgno) + 1;
        let mut decoded = vec![0x55; expected.len()];
        prop_assert_eq!(codec.decode(index, &encoded, &mut decoded), Some(()));
        prop_assert!(decoded == expected, "decoded bytes differ");
        // An unchanged page is encoded as the template page.
        let is_edited = page.outline() != &outline(&template, pgno) || edits > 0;
        prop_assert_eq!(codec.edited_version(&encoded), is_edited.then_some(page.outline().dbtime));
        let back = template.clone().decode(pgno, &encoded);
        prop_assert_eq!(back.is_some(), is_edited);
        if let Some(back) = back {
            assert_same(&back, &expected);
        }
    }

    #[test]
    fn garbage_is_no_sparse_page_but_no_panic_either(
        index in 0u64..3000,
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let template = template(4096);
        let codec = DatabaseCodec::new(template.clone());
        let encoded: Vec<u8> = std::iter::once(3).chain(garbage).collect();
        let mut page = vec![0; 4096];
        let _ = (codec.decode(index, &encoded, &mut page), codec.edited_version(&encoded));
        let _ = template.decode(index as u32, &encoded);
    }
}

#[test]
fn too_many_edits_are_refused_and_change_nothing() {
    let template = template(32768);
    let pgno = template.layout().run(Tree::Rows).unwrap().first();
    let mut page = sparse(&template, pgno).unwrap();
    let flag = PageOp::SetNodeFlags { slot: 0, flags: node_flags::DELETED };
    let mut taken = 0;
    while page.apply(&PageChange::one(pgno, 0, flag.clone()), 100 + taken).unwrap() {
        taken += 1;
        assert!(taken < 1000, "no limit");
    }
    assert_eq!(page.outline().dbtime, 99 + taken);
    let truncate = PageOp::Truncate { slot: 1 };
    let mut page = sparse(&template, pgno).unwrap();
    assert_eq!(page.apply(&PageChange::one(pgno, 0, truncate), 100), Ok(false));
    assert_eq!(page.outline(), &outline(&template, pgno));
}

#[test]
fn an_edit_that_does_not_fit_is_a_misfit_as_on_bytes() {
    let template = template(4096);
    let pgno = template.layout().run(Tree::Bodies).unwrap().first();
    let large = PageOp::Insert { slot: 0, flags: 0, key: [0; 4][..].into(), data: [1; 2000].into() };
    for op in [large, PageOp::Delete { slot: 99 }, PageOp::Replace { slot: 99, data: [1].into() }] {
        let change = PageChange::one(pgno, 0, op);
        let on_bytes = change.apply(&mut bytes(&template, pgno), 100);
        let known = sparse(&template, pgno).unwrap().apply(&change, 100);
        assert_eq!(known.map(drop), on_bytes);
        assert!(on_bytes.is_err());
    }
}
