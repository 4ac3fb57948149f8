//! decode(encode(page)) == page for every page whatsoever, and small for pages that a load makes.

use std::rc::Rc;

use edb::page::{PageMut, PageRef, node_flags};
use proptest::prelude::*;
use workload::codec::DatabaseCodec;
use workload::schema::{Entry, Tree};
use workload::template::TemplateDatabase;
use workload::template::layout::{LARGE_TREES, PageRole};
use world::{PageCodec, TemplatePages};

fn template(page_bytes: u32, file_bytes: u64) -> Rc<TemplateDatabase> {
    Rc::new(TemplateDatabase::of_size(page_bytes, file_bytes, 64, 21, 20).unwrap())
}

fn encode(codec: &DatabaseCodec, index: u64, page: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    codec.encode(index, page, &mut encoded);
    let mut decoded = vec![0x55; page.len()];
    assert_eq!(codec.decode(index, &encoded, &mut decoded), Some(()));
    assert!(decoded == page, "page {index} comes back changed");
    check_unsealed(codec, index, page);
    encoded
}

/// Asserts that the codec restores a page whose checksum fields hold no checksum: with right checksums, or with any if
/// none are requested. A page with arbitrary unused bytes must come back equal except for those bytes.
fn check_unsealed(codec: &DatabaseCodec, index: u64, page: &[u8]) {
    for unused in [0..0, PageRef::new(page).unused()] {
        let mut unsealed = page.to_vec();
        let sums: &[usize] = if page.len() <= 8192 { &[0] } else { &[0, 40, 48, 56] };
        let clear = |page: &mut [u8]| sums.iter().for_each(|at| page[*at..at + 8].fill(0x77));
        clear(&mut unsealed);
        let mut encoded = Vec::new();
        if !codec.encode_unsealed(index, &unsealed, unused.clone(), &mut encoded) {
            assert!(encoded.is_empty());
            return;
        }
        let mut decoded = vec![0x55; page.len()];
        assert_eq!(codec.decode(index, &encoded, &mut decoded), Some(()));
        let mut sealed = unsealed.clone();
        sealed[unused.clone()].copy_from_slice(&decoded[unused.clone()]);
        edb::checksum::stamp(&mut sealed, index.wrapping_sub(1) as u32);
        assert!(decoded == sealed, "page {index} comes back changed or without its checksums");
        decoded.fill(0x55);
        assert_eq!(codec.decode_unsealed(index, &encoded, &mut decoded), Some(()));
        clear(&mut decoded);
        decoded[unused.clone()].copy_from_slice(&unsealed[unused]);
        assert!(decoded == unsealed, "page {index} comes back changed");
    }
}

#[test]
fn codec_made_on_another_thread_decodes_what_this_one_encodes() {
    let codec = DatabaseCodec::new(template(4096, 1 << 20));
    let page_index = 9;
    let mut page = vec![0; 4096];
    template(4096, 1 << 20).fill(page_index, &mut page);
    page[3000] ^= 1;
    let encoded = encode(&codec, page_index, &page);
    let (template_id, make) = (codec.template_id(), codec.elsewhere().expect("it can be made on any thread"));
    let decoded = std::thread::scope(|threads| {
        let decode = move || {
            let (codec, mut decoded) = (make(), vec![0; 4096]);
            assert_eq!(codec.template_id(), template_id);
            codec.decode(page_index, &encoded, &mut decoded).map(|()| decoded)
        };
        threads.spawn(decode).join().expect("it does not panic")
    });
    assert!(decoded == Some(page));
}

/// One edit as a load makes it.
#[derive(Debug, Clone)]
enum Edit {
    Insert { id: u32 },
    Flag { slot: prop::sample::Index, flags: u8 },
    Remove { slot: prop::sample::Index },
    NextVersion { slot: prop::sample::Index },
    OtherData { slot: prop::sample::Index, data: Vec<u8> },
    Truncate { slot: prop::sample::Index },
    Recompress,
    Finish,
}

fn edit() -> impl Strategy<Value = Edit> {
    let slot = any::<prop::sample::Index>;
    prop_oneof![
        4 => (1u32..2_000_000_000).prop_map(|id| Edit::Insert { id }),
        3 => (slot(), 0u8..4).prop_map(|(slot, flags)| Edit::Flag { slot, flags }),
        3 => slot().prop_map(|slot| Edit::Remove { slot }),
        3 => slot().prop_map(|slot| Edit::NextVersion { slot }),
        1 => (slot(), prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(slot, data)| Edit::OtherData { slot, data }),
        1 => slot().prop_map(|slot| Edit::Truncate { slot }),
        1 => Just(Edit::Recompress),
        2 => Just(Edit::Finish),
    ]
}

fn entries_for(tree: Tree, id: u32) -> Vec<Entry> {
    match tree {
        Tree::Rows => vec![Entry::Row { id, version: 0 }],
        Tree::Bodies => vec![Entry::BodyRoot { id }, Entry::Body { id, version: 0 }],
        Tree::Conversations => vec![Entry::Conversation { id }],
        Tree::Folders => vec![Entry::Folder { id, version: 0 }],
    }
}

/// Applies the edit to the page, as far as it fits.
fn apply(template: &TemplateDatabase, tree: Tree, bytes: &mut [u8], pgno: u32, edit: &Edit) {
    let schema = template.schema();
    let mut page = PageMut::new(bytes);
    let nodes = page.view().node_count();
    page.set_dbtime(page.view().dbtime() + 1);
    match edit {
        Edit::Insert { id } => {
            for entry in entries_for(tree, *id) {
                let (key, data) = (schema.key(entry), schema.data(entry));
                let slot = page.view().search_entry(&key, &data).unwrap_or_else(|slot| slot);
                let _ = page.insert(slot, &key, &data, node_flags::VERSIONED);
            }
        }
        Edit::Finish => page.finish(pgno),
        Edit::Recompress => {
            let prefix = page.view().nodes().next().map(|node| node.key()).unwrap_or_default();
            let _ = page.recompress(&prefix);
        }
        _ if nodes == 0 => {}
        Edit::Flag { slot, flags } => page.set_node_flags(slot.index(nodes), *flags),
        Edit::Remove { slot } => page.remove(slot.index(nodes)),
        Edit::NextVersion { slot } => {
            let slot = slot.index(nodes);
            let node = page.view().node(slot);
            if let Some(entry) = schema.recognise(tree, &node.key(), node.data) {
                let version = entry.version().map_or(0, |version| version + 1);
                let next = Entry::of_kind(entry.kind(), entry.id(), version).unwrap();
                page.replace_data(slot, &schema.data(next)).unwrap();
            }
        }
        Edit::OtherData { slot, data } => {
            let _ = page.replace_data(slot.index(nodes), data);
        }
        Edit::Truncate { slot } => page.truncate(slot.index(nodes).max(nodes.saturating_sub(3))),
    }
}

fn page_bytes() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![4096, 8192, 16384, 32768])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_page_after_any_edits_comes_back_as_it_was(
        page_bytes in page_bytes(),
        place in any::<prop::sample::Index>(),
        fresh in any::<bool>(),
        tree in 0usize..3,
        edits in prop::collection::vec(edit(), 0..25),
    ) {
        let template = template(page_bytes, 12 << 20);
        let codec = DatabaseCodec::new(template.clone());
        let layout = template.layout();
        let run = &layout.runs[tree];
        let mut page = vec![0; page_bytes as usize];
        let pgno = if fresh {
            let pgno = layout.first_free() + place.index(60) as u32;
            template.fill(u64::from(run.first()) + 1, &mut page);
            let (objid, flags) = (PageRef::new(&page).objid(), PageRef::new(&page).flags());
            PageMut::format(&mut page, pgno, objid, flags, 70);
            pgno
        } else {
            let pgno = run.first() + place.index(run.pages() as usize) as u32;
            template.fill(u64::from(pgno) + 1, &mut page);
            pgno
        };
        for edit in &edits {
            apply(&template, run.tree, &mut page, pgno, edit);
        }
        encode(&codec, u64::from(pgno) + 1, &page);
        // The same page at the wrong place is just another page.
        encode(&codec, u64::from(layout.first_free()), &page);
    }

    #[test]
    fn garbage_on_a_page_comes_back_as_it_was(
        page_bytes in page_bytes(),
        place in any::<prop::sample::Index>(),
        scribbles in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..100)), 0..20),
    ) {
        let template = template(page_bytes, 12 << 20);
        let codec = DatabaseCodec::new(template.clone());
        let index = place.index(template.pages() as usize) as u64;
        let mut page = vec![0; page_bytes as usize];
        template.fill(index, &mut page);
        for (at, bytes) in scribbles {
            let at = at.index(page.len());
            let end = (at + bytes.len()).min(page.len());
            page[at..end].copy_from_slice(&bytes[..end - at]);
        }
        encode(&codec, index, &page);
        encode(&codec, template.pages() + index, &page);
    }

    #[test]
    fn an_encoding_that_was_tampered_with_never_panics(
        page_bytes in page_bytes(),
        tree in 0usize..3,
        edits in prop::collection::vec(edit(), 1..10),
        tampered in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let template = template(page_bytes, 12 << 20);
        let codec = DatabaseCodec::new(template.clone());
        let run = &template.layout().runs[tree];
        let pgno = run.first();
        let mut page = vec![0; page_bytes as usize];
        template.fill(u64::from(pgno) + 1, &mut page);
        for edit in &edits {
            apply(&template, run.tree, &mut page, pgno, edit);
        }
        let mut encoded = encode(&codec, u64::from(pgno) + 1, &page);
        for (at, byte) in tampered {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        let _ = codec.decode(u64::from(pgno) + 1, &encoded, &mut page);
        let _ = codec.decode(u64::from(pgno) + 1, &tamper_free_noise(&encoded), &mut page);
    }
}

/// Bytes whose start looks like an encoding and whose rest does not.
fn tamper_free_noise(encoded: &[u8]) -> Vec<u8> {
    encoded
        .iter()
        .enumerate()
        .map(|(i, byte)| if i < 2 { *byte } else { byte.wrapping_mul(31).wrapping_add(i as u8) })
        .collect()
}

#[test]
fn untouched_pages_cost_one_byte_and_typical_dirty_ones_a_few_dozen() {
    for page_bytes in [4096, 32768] {
        let template = template(page_bytes, 64 << 20);
        let codec = DatabaseCodec::new(template.clone());
        for tree in LARGE_TREES {
            let run = template.layout().run(tree).unwrap();
            let pgno = run.first() + run.levels[0].pages / 2;
            let mut page = vec![0; page_bytes as usize];
            template.fill(u64::from(pgno) + 1, &mut page);
            assert_eq!(encode(&codec, u64::from(pgno) + 1, &page).len(), 1);
            let edits = match tree {
                Tree::Conversations => vec![Edit::Insert { id: 1_000_000 }, Edit::Insert { id: 1_000_007 }],
                _ => vec![],
            };
            for edit in &edits {
                apply(&template, tree, &mut page, pgno, edit);
            }
            let mut edited = PageMut::new(&mut page);
            edited.set_node_flags(1, node_flags::DELETED);
            edited.remove(0);
            edited.set_dbtime(1_234_567);
            edited.finish(pgno);
            let encoded = encode(&codec, u64::from(pgno) + 1, &page);
            assert!(encoded.len() < 100, "{tree:?} at {page_bytes}: {} bytes", encoded.len());
        }
    }
}

#[test]
fn an_appended_page_costs_less_than_a_hundred_bytes() {
    let template = template(32768, 64 << 20);
    let codec = DatabaseCodec::new(template.clone());
    for tree in [Tree::Rows, Tree::Bodies] {
        let run = template.layout().run(tree).unwrap();
        let mut page = vec![0; 32768];
        template.fill(u64::from(run.first()) + 1, &mut page);
        let (objid, flags) = (PageRef::new(&page).objid(), PageRef::new(&page).flags());
        let pgno = template.layout().first_free() + 3;
        let mut fresh = PageMut::format(&mut page, pgno, objid, flags, 70);
        fresh.set_prev(pgno - 1);
        let schema = template.schema();
        let first = schema.shape().rows + 40;
        'full: for id in first.. {
            for entry in entries_for(tree, id) {
                let slot = fresh.view().node_count();
                if fresh.insert(slot, &schema.key(entry), &schema.data(entry), 0).is_err() {
                    break 'full;
                }
            }
        }
        fresh.finish(pgno);
        let encoded = encode(&codec, u64::from(pgno) + 1, &page);
        assert!(encoded.len() < 100, "{tree:?}: {} bytes", encoded.len());
    }
}

#[test]
fn a_page_split_off_the_index_costs_little_though_it_has_no_template() {
    let template = template(32768, 64 << 20);
    let codec = DatabaseCodec::new(template.clone());
    let run = template.layout().run(Tree::Conversations).unwrap();
    let mut left = vec![0; 32768];
    template.fill(u64::from(run.first()) + 2, &mut left);
    for id in 0..20 {
        apply(
            &template,
            Tree::Conversations,
            &mut left,
            run.first() + 1,
            &Edit::Insert { id: 1_000_000 + 16 * id },
        );
    }
    let left = PageRef::new(&left);
    let pgno = template.layout().first_free() + 3;
    let mut page = vec![0; 32768];
    let mut right = PageMut::format(&mut page, pgno, left.objid(), left.flags(), 70);
    right.append_from(left, left.node_count() / 2..left.node_count()).unwrap();
    right.finish(pgno);
    let encoded = encode(&codec, u64::from(pgno) + 1, &page);
    assert!(encoded.len() < 500, "{} bytes", encoded.len());
}

#[test]
fn a_page_of_noise_falls_back_to_its_bytes_and_an_empty_middle_is_squeezed() {
    let template = template(32768, 12 << 20);
    let codec = DatabaseCodec::new(template.clone());
    let PageRole::Tree { .. } = template.layout().place(200) else { panic!("page 200 is in a tree") };
    let mut pick = 3u64;
    let mut noise = || {
        pick = workload::payload::mix(pick);
        pick as u8
    };
    let mut page: Vec<u8> = (0..32768).map(|_| noise()).collect();
    let full = encode(&codec, 201, &page).len();
    // Three bytes for each stretch of 4 KiB, and two.
    assert!(full <= 32768 + 8 * 3 + 2, "{full}");
    page[1000..31000].fill(0);
    let squeezed = encode(&codec, 201, &page).len();
    assert!(squeezed < 2900, "{squeezed}");
}

/// A node names its entry and overlaps the next node, which equals the template's. The codec must not draw the
/// contents of that entry over a part that it takes from the template.
#[test]
fn bodies_that_overlap_come_back_as_they_were() {
    let template = template(32768, 64 << 20);
    let codec = DatabaseCodec::new(template.clone());
    let run = template.layout().run(Tree::Bodies).unwrap();
    for pgno in run.first()..run.first() + 20 {
        let mut page = vec![0; 32768];
        template.fill(u64::from(pgno) + 1, &mut page);
        let nodes = PageRef::new(&page).node_count();
        let entry = Entry::Body { id: 77, version: 3 };
        let (key, data) = (template.schema().key(entry), template.schema().data(entry));
        let node = [&(key.len() as u16).to_le_bytes()[..], &*key, &*data].concat();
        let word = |page: &[u8], tag: usize| page.len() - 4 * (tag + 1);
        for under in 3..nodes - 2 {
            let mut page = page.clone();
            let at = word(&page, under);
            let start = u16::from_le_bytes([page[at + 2], page[at + 3]]) - 64;
            let place = 80 + usize::from(start);
            page[place..place + 64].copy_from_slice(&node[..64]);
            let last = word(&page, nodes);
            page[last..last + 2].copy_from_slice(&(node.len() as u16).to_le_bytes());
            page[last + 2..last + 4].copy_from_slice(&start.to_le_bytes());
            encode(&codec, u64::from(pgno) + 1, &page);
        }
    }
}

/// The nodes of the template at their places, but with the tags in another order.
#[test]
fn nodes_in_another_order_come_back_as_they_were() {
    for page_bytes in [4096, 32768] {
        let template = template(page_bytes, 64 << 20);
        let codec = DatabaseCodec::new(template.clone());
        for tree in LARGE_TREES {
            let pgno = template.layout().run(tree).unwrap().first();
            let mut page = vec![0; page_bytes as usize];
            template.fill(u64::from(pgno) + 1, &mut page);
            let nodes = PageRef::new(&page).node_count();
            for distance in 1..nodes {
                let mut page = page.clone();
                let tags = page.len() - 4 * (nodes + 1);
                // The last tag comes first in the file.
                page[tags..].as_chunks_mut::<4>().0.swap(0, distance);
                encode(&codec, u64::from(pgno) + 1, &page);
            }
        }
    }
}
