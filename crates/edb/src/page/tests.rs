use super::*;
use crate::checksum;
use proptest::prelude::*;

const SIZES: [usize; 4] = [4096, 8192, 16384, 32768];
const PGNO_HERE: u32 = 77;

fn leaf(bytes: &mut [u8]) -> PageMut<'_> {
    PageMut::format(bytes, PGNO_HERE, 9, page_flags::LEAF, 100)
}

fn contents(page: PageRef) -> Vec<(Vec<u8>, Vec<u8>, u8)> {
    page.nodes().map(|node| (node.key(), node.data.to_vec(), node.flags & !node_flags::COMPRESSED)).collect()
}

/// Keys that share prefixes of all lengths, as index keys do.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u32..400).prop_map(|n| [&b"mailbox/"[..], &n.to_be_bytes()].concat()),
        proptest::collection::vec(0u8..3, 1..9),
    ]
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(Vec<u8>, usize, u8),
    Replace(prop::sample::Index, usize, u8),
    Remove(prop::sample::Index),
    Flags(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Recompress(prop::sample::Index),
    HoldForRollback(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        12 => (key(), 1usize..900, 0u8..4).prop_map(|(key, len, flags)| Edit::Insert(key, len, flags)),
        6 => (at(), 1usize..1500, any::<u8>()).prop_map(|(at, len, fill)| Edit::Replace(at, len, fill)),
        4 => at().prop_map(Edit::Remove),
        2 => (at(), 0u8..4).prop_map(|(at, flags)| Edit::Flags(at, flags)),
        1 => at().prop_map(Edit::Truncate),
        1 => at().prop_map(Edit::Recompress),
        1 => (0usize..300).prop_map(Edit::HoldForRollback),
    ]
}

/// Applies the edit to the page and to the model; a refused edit must leave the page unchanged.
fn apply(bytes: &mut [u8], model: &mut Vec<(Vec<u8>, Vec<u8>, u8)>, edit: &Edit) {
    let before = bytes.to_vec();
    let mut page = PageMut::new(bytes);
    let slot_of = |at: &prop::sample::Index, len: usize| (len > 0).then(|| at.index(len));
    let outcome = match edit {
        Edit::Insert(key, len, flags) => {
            let data = vec![key[0]; *len];
            let fits = page.view().fits(key, *len);
            match page.view().search(key) {
                Ok(_) => Ok(()),
                Err(slot) => {
                    let done = page.insert(slot, key, &data, *flags);
                    assert_eq!(done.is_ok(), fits);
                    done.map(|()| model.insert(slot, (key.clone(), data, *flags)))
                }
            }
        }
        Edit::Replace(at, len, fill) => match slot_of(at, model.len()) {
            Some(slot) => {
                page.replace_data(slot, &vec![*fill; *len]).map(|()| model[slot].1 = vec![*fill; *len])
            }
            None => Ok(()),
        },
        Edit::Remove(at) => {
            if let Some(slot) = slot_of(at, model.len()) {
                page.remove(slot);
                model.remove(slot);
            }
            Ok(())
        }
        Edit::Flags(at, flags) => {
            if let Some(slot) = slot_of(at, model.len()) {
                page.set_node_flags(slot, *flags);
                model[slot].2 = *flags;
            }
            Ok(())
        }
        Edit::Truncate(at) => {
            if let Some(slot) = slot_of(at, model.len()) {
                page.truncate(slot);
                model.truncate(slot);
            }
            Ok(())
        }
        Edit::Recompress(at) => {
            let prefix = match slot_of(at, model.len()) {
                Some(slot) => best_prefix(page.view(), slot..model.len()),
                None => Vec::new(),
            };
            page.recompress(&prefix)
        }
        Edit::HoldForRollback(held) => {
            let held = (*held).min(page.view().free_bytes());
            crate::bytes::put_u16(&mut bytes[..], UNCOMMITTED_FREE, held as u16);
            Ok(())
        }
    };
    if outcome.is_err() {
        assert_eq!(before, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn edits_keep_the_page_valid_and_equal_to_a_sorted_list(
        size in prop::sample::select(&SIZES[..]),
        edits in proptest::collection::vec(edit(), 1..250),
    ) {
        let mut bytes = vec![0; size];
        leaf(&mut bytes);
        let mut model = Vec::new();
        for edit in &edits {
            apply(&mut bytes, &mut model, edit);
            let page = PageRef::new(&bytes);
            prop_assert_eq!(page.validate(), Ok(()));
            prop_assert_eq!(page.check_order(), Ok(()));
        }
        let page = PageRef::new(&bytes);
        prop_assert_eq!(contents(page), model.clone());
        for (slot, (key, ..)) in model.iter().enumerate() {
            prop_assert_eq!(page.search(key), Ok(slot));
            prop_assert_eq!(page.node(slot).compare_key(key), Ordering::Equal);
            prop_assert_eq!(page.child(slot), page.node(slot).child());
        }
    }

    #[test]
    fn a_tidy_page_has_the_bytes_of_one_whose_nodes_are_written_anew(
        size in prop::sample::select(&SIZES[..]),
        edits in proptest::collection::vec(edit(), 1..40),
    ) {
        let mut bytes = vec![0; size];
        leaf(&mut bytes);
        let mut model = Vec::new();
        for edit in edits.iter().filter(|edit| !matches!(edit, Edit::HoldForRollback(_))) {
            apply(&mut bytes, &mut model, edit);
            let mut anew = bytes.clone();
            let prefix = PageRef::new(&bytes).prefix().to_vec();
            PageMut::new(&mut anew).recompress(&prefix).unwrap();
            let unused = PageRef::new(&anew).unused();
            anew[unused].fill(0);
            PageMut::new(&mut bytes).tidy();
            prop_assert!(bytes == anew);
        }
    }

    /// Validation passes most pages by sums over all tags and by lengths; it must agree with a look at each tag and
    /// node.
    #[test]
    fn a_page_is_valid_if_each_tag_and_each_node_is(
        size in prop::sample::select(&SIZES[..]),
        edits in proptest::collection::vec(edit(), 1..60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, 0usize..8, any::<bool>()), 1..4),
    ) {
        let mut bytes = vec![0; size];
        leaf(&mut bytes);
        let mut model = Vec::new();
        for edit in &edits {
            apply(&mut bytes, &mut model, edit);
        }
        for (at, byte, bit, in_tag) in damage {
            let page = PageRef::new(&bytes);
            let index = at.index(page.tag_count());
            let node = page.data_start() + page.tag(index).start;
            let place = if in_tag { size - TAG_BYTES * (index + 1) } else { node };
            bytes[(place + byte).min(size - 1)] ^= 1 << bit;
        }
        let page = PageRef::new(&bytes);
        let (tags, reserved) = (page.tag_count(), page.reserved_tags());
        let room = size - page.data_start() - TAG_BYTES * tags;
        let used: usize = (0..tags).map(|index| page.tag(index).len).sum();
        let is_inside = |index: usize| {
            let tag = page.tag(index);
            if tag.len == 0 { index < reserved } else { tag.start + tag.len <= page.free_mark() }
        };
        let is_valid = page.free_mark() <= room
            && page.uncommitted_free_bytes() <= page.free_bytes()
            && (0..tags).all(is_inside)
            && page.check_overlaps(tags).is_ok()
            && used + page.free_bytes() == room
            && page.check_each_node().is_ok();
        prop_assert_eq!(page.validate().is_ok(), is_valid, "{:?}", page.validate());
    }

    #[test]
    fn search_agrees_with_a_sorted_list_for_keys_that_are_not_there(
        keys in proptest::collection::btree_set(key(), 1..60), wanted in key(), cut in 0usize..12,
    ) {
        let mut bytes = vec![0; 16384];
        let mut page = leaf(&mut bytes);
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        page.set_external_header(&keys[keys.len() / 2]).unwrap();
        for (slot, key) in keys.iter().enumerate() {
            page.insert(slot, key, b"x", 0).unwrap();
        }
        for wanted in [&wanted[..], &wanted[..cut.min(wanted.len())]] {
            let expected = keys.binary_search_by(|key| key[..].cmp(wanted));
            prop_assert_eq!(page.view().search(wanted), expected);
        }
    }

    #[test]
    fn entries_with_equal_keys_are_found_by_their_data(
        entries in proptest::collection::btree_set(proptest::collection::vec(0u8..3, 6), 1..60),
        wanted in proptest::collection::vec(0u8..3, 6), cut in 1usize..6,
    ) {
        let mut bytes = vec![0; 8192];
        let mut page = leaf(&mut bytes);
        let entries: Vec<Vec<u8>> = entries.into_iter().collect();
        page.set_external_header(&entries[0][..cut]).unwrap();
        for (slot, entry) in entries.iter().enumerate() {
            page.insert(slot, &entry[..cut], &entry[cut..], 0).unwrap();
        }
        prop_assert_eq!(page.view().search_entry(&wanted[..cut], &wanted[cut..]), entries.binary_search(&wanted));
        let second = wanted.len().min(cut + 1);
        let expected = entries.binary_search_by(|entry| entry[..].cmp(&wanted[..second]));
        prop_assert_eq!(page.view().search_entry(&wanted[..cut], &wanted[cut..second]), expected);
    }

    #[test]
    fn a_range_copied_to_a_page_with_another_prefix_keeps_keys_data_and_flags(
        keys in proptest::collection::btree_set(key(), 2..80), cut in any::<prop::sample::Index>(), flags in 0u8..4,
    ) {
        let (mut left, mut right) = (vec![0; 8192], vec![0; 8192]);
        let mut from = leaf(&mut left);
        for (slot, key) in keys.iter().enumerate() {
            from.insert(slot, key, key, flags).unwrap();
        }
        let count = from.view().node_count();
        let cut = cut.index(count);
        let prefix = best_prefix(from.view(), cut..count);
        let mut to = leaf(&mut right);
        to.set_external_header(&prefix).unwrap();
        to.append_from(from.view(), cut..count).unwrap();
        let all = contents(from.view());
        from.truncate(cut);
        prop_assert_eq!([contents(from.view()), contents(to.view())].concat(), all);
        prop_assert_eq!(to.view().validate(), Ok(()));
        prop_assert_eq!(from.view().validate(), Ok(()));
    }

    #[test]
    fn no_reader_panics_on_random_bytes(
        size in prop::sample::select(&SIZES[..]), seed in proptest::collection::vec(any::<u8>(), 1..400),
        header in proptest::collection::vec(any::<u8>(), 40), wanted in key(),
    ) {
        let mut bytes: Vec<u8> = seed.iter().copied().cycle().take(size).collect();
        bytes[..40].copy_from_slice(&header);
        let page = PageRef::new(&bytes);
        let _ = (page.validate(), page.check_order(), page.search(&wanted), page.search_entry(&wanted, &wanted));
        let _ = (page.child_slot_of_entry(&wanted, &[]), page.fits(&wanted, 5), page.external_header());
        for slot in 0..page.node_count() {
            let _ = (page.node(slot).key(), page.child(slot), page.node_bytes(slot));
        }
    }
}

#[test]
fn a_branch_sends_an_exact_match_to_the_next_child_and_what_is_above_all_to_the_last() {
    for size in SIZES {
        let mut bytes = vec![0; size];
        let mut page = PageMut::format(&mut bytes, 5, 9, page_flags::PARENT_OF_LEAF, 100);
        for (slot, separator) in [&b"dd"[..], b"gg", b""].iter().enumerate() {
            page.insert(slot, separator, &(slot as u32 + 40).to_le_bytes(), 0).unwrap();
        }
        assert_eq!(page.view().validate(), Ok(()));
        let child = |key: &[u8]| page.view().node(page.view().child_slot_of_entry(key, &[])).child();
        assert_eq!([&b"a"[..], b"dc", b"d"].map(child), [Some(40); 3]);
        assert_eq!([&b"dd"[..], b"dda", b"gf"].map(child), [Some(41); 3]);
        assert_eq!([&b"gg"[..], b"zz"].map(child), [Some(42); 2]);
        assert_eq!(page.view().child_slot_of_entry(b"g", b"g"), 2);
        assert_eq!(page.view().child_slot_of_entry(b"g", b"f"), 1);
    }
}

/// Only the last page of a level may lack its last separator; the root is the last page of its level. Old databases of
/// Proofload left it out on each page.
#[test]
fn a_branch_page_may_keep_its_last_separator_unless_it_is_the_root() {
    for size in SIZES {
        for (last, flags, expected) in [
            (&b"kk"[..], page_flags::PARENT_OF_LEAF, Ok(())),
            (b"kk", 0, Ok(())),
            (b"", 0, Ok(())),
            (b"kk", page_flags::ROOT, Err(Damage::BranchEntry { slot: 2 })),
            (b"", page_flags::ROOT, Ok(())),
        ] {
            let mut bytes = vec![0; size];
            let mut page = PageMut::format(&mut bytes, 5, 9, flags, 100);
            page.set_external_header(
                &[0; SPLIT_BUFFER_BYTES][..if flags == page_flags::ROOT { 16 } else { 0 }],
            )
            .unwrap();
            for (slot, separator) in [&b"dd"[..], b"gg", last].iter().enumerate() {
                page.insert(slot, separator, &(slot as u32 + 40).to_le_bytes(), 0).unwrap();
            }
            let page = page.view();
            assert_eq!(page.validate(), expected, "{last:?} {flags}");
            assert_eq!(page.check_order(), Ok(()));
            assert_eq!(page.child_slot_of_entry(b"zz", &[]), 2, "what is above all goes to the last child");
        }
    }
    let mut bytes = vec![0; 4096];
    let mut page = PageMut::format(&mut bytes, 5, 9, page_flags::PARENT_OF_LEAF, 100);
    for (slot, separator) in [&b"dd"[..], b"", b"gg"].iter().enumerate() {
        page.insert(slot, separator, &[0; 4], 0).unwrap();
    }
    assert_eq!(page.view().validate(), Err(Damage::BranchEntry { slot: 1 }), "open in the middle");
    let mut page = PageMut::format(&mut bytes, 5, 9, page_flags::PARENT_OF_LEAF, 100);
    for (slot, separator) in [&b"dd"[..], b"cc"].iter().enumerate() {
        page.insert(slot, separator, &[0; 4], 0).unwrap();
    }
    assert_eq!(page.view().check_order(), Err(Damage::Order { slot: 1 }), "the last separator falls");
}

#[test]
fn a_prefix_saves_space_and_recompress_undoes_the_holes() {
    let mut bytes = vec![0; 32768];
    let mut page = leaf(&mut bytes);
    for n in 0..300u32 {
        page.insert(n as usize, &[&b"a long common beginning "[..], &n.to_be_bytes()].concat(), b"data", 0)
            .unwrap();
    }
    let before = page.view().free_bytes();
    let prefix = best_prefix(page.view(), 0..300);
    assert!(prefix.starts_with(b"a long common beginning "));
    page.recompress(&prefix).unwrap();
    assert!(page.view().free_bytes() > before + 300 * 20);
    assert_eq!(page.view().prefix(), prefix);
    assert_eq!(page.view().validate(), Ok(()));
}

#[test]
fn the_root_of_a_space_tree_keeps_its_split_buffer_when_recompressed() {
    let mut bytes = vec![0; 4096];
    let flags = page_flags::ROOT | page_flags::LEAF | page_flags::SPACE;
    let mut page = PageMut::format(&mut bytes, 2, 1, flags, 100);
    page.set_external_header(&[7; SPLIT_BUFFER_BYTES]).unwrap();
    page.insert(0, b"prefix one", b"1234", 0).unwrap();
    page.insert(1, b"prefix two", b"1234", 0).unwrap();
    page.recompress(b"prefix ").unwrap();
    assert_eq!(page.view().external_header(), [&[7; 16][..], b"prefix "].concat());
    assert_eq!(page.view().node(1).key(), b"prefix two");
    assert_eq!(page.view().node(1).suffix, b"two");
    assert_eq!(page.view().validate(), Ok(()));
}

#[test]
fn finish_stamps_number_and_checksum_and_cycles_the_flush_type() {
    for size in SIZES {
        let mut bytes = vec![0; size];
        let mut page = leaf(&mut bytes);
        page.insert(0, b"key", b"data", 0).unwrap();
        let types = [1, 2, 3, 1].map(|expected| {
            page.finish(PGNO_HERE);
            assert_eq!(checksum::verify(page.view().bytes(), PGNO_HERE), checksum::Verdict::Ok);
            (expected, (page.view().flags() & page_flags::FLUSH_TYPE) >> 15)
        });
        assert!(types.iter().all(|(expected, found)| expected == found), "{types:?}");
        assert_eq!(page.view().flags() & !page_flags::FLUSH_TYPE, 0x2802);
    }
}

/// Page with two nodes that `break_it` damages, with the result of `validate`.
fn damaged(size: usize, break_it: impl Fn(&mut [u8])) -> Result<(), Damage> {
    let mut bytes = vec![0; size];
    let mut page = leaf(&mut bytes);
    page.set_external_header(b"prefix").unwrap();
    page.insert(0, b"prefix a", b"data", 0).unwrap();
    page.insert(1, b"prefix b", b"data", 0).unwrap();
    assert_eq!(page.view().validate(), Ok(()));
    break_it(&mut bytes);
    PageRef::new(&bytes).validate()
}

#[test]
fn validate_names_each_broken_rule() {
    use crate::bytes::put_u16;
    for size in SIZES {
        let tag = |index: usize| size - 4 * (index + 1);
        let data = header_bytes(size);
        let check = |expected: fn(&Damage) -> bool, break_it: &dyn Fn(&mut [u8])| {
            let found = damaged(size, break_it).expect_err("damage must be found");
            assert!(expected(&found), "{found:?} at {size}");
        };
        check(|d| matches!(d, Damage::TagCount { tags: 0, .. }), &|b| put_u16(b, TAGS, 0));
        check(|d| matches!(d, Damage::TagCount { .. }), &|b| put_u16(b, TAGS, 0x7002));
        check(|d| matches!(d, Damage::FreeMark { .. }), &|b| put_u16(b, FREE_MARK, size as u16 - 1));
        check(|d| matches!(d, Damage::UncommittedFree { .. }), &|b| put_u16(b, UNCOMMITTED_FREE, u16::MAX));
        check(|d| matches!(d, Damage::Accounting { .. }), &|b| put_u16(b, FREE, 17));
        check(|d| matches!(d, Damage::EmptyNode { tag: 1 }), &|b| put_u16(b, tag(1), 0));
        check(|d| matches!(d, Damage::OutOfArea { tag: 2 }), &|b| put_u16(b, tag(2), 400));
        check(|d| matches!(d, Damage::Overlap { tag: 2 }), &|b| b.copy_within(tag(1)..tag(1) + 4, tag(2)));
        check(|d| matches!(d, Damage::Node { slot: 0 }), &|b| b[data + 8] = 200);
        check(|d| matches!(d, Damage::Node { slot: 0 }), &|b| b[data + 6] = 2);
        check(|d| matches!(d, Damage::Node { slot: 0 }), &|b| b[data + 6] = 7);
        check(|d| matches!(d, Damage::ExternalHeader { bytes: 6 }), &|b| b[FLAGS] |= 1);
    }
}

#[test]
fn check_order_finds_equal_and_falling_keys() {
    let mut bytes = vec![0; 4096];
    let mut page = leaf(&mut bytes);
    page.insert(0, b"b", b"2", 0).unwrap();
    page.insert(1, b"b", b"3", 0).unwrap();
    assert_eq!(page.view().check_order(), Err(Damage::Order { slot: 1 }));
    page.set_flags(page_flags::LEAF | page_flags::NON_UNIQUE);
    assert_eq!(page.view().check_order(), Ok(()));
    page.insert(2, b"a", b"9", 0).unwrap();
    assert_eq!(page.view().check_order(), Err(Damage::Order { slot: 2 }));
}

#[test]
fn an_edit_that_does_not_fit_says_how_much_is_missing() {
    let mut bytes = vec![0; 4096];
    let mut page = leaf(&mut bytes);
    let free = page.view().free_bytes();
    assert_eq!(free, usable_bytes(4096));
    assert_eq!(
        page.insert(0, b"k", &vec![1; 4096], 0),
        Err(Full { needed_bytes: 4096 + 1 + 2 + 4, free_bytes: free })
    );
    page.insert(0, b"k", &vec![1; free - 7], 0).unwrap();
    assert_eq!(page.view().free_bytes(), 0);
    assert!(page.replace_data(0, &vec![1; free - 6]).is_err());
}

/// Comparisons use digests in place of pages.
#[test]
fn pages_with_the_same_digest_say_the_same_and_what_means_nothing_does_not_count() {
    for size in [4096, 32768] {
        let mut bytes = vec![0; size];
        let mut page = leaf(&mut bytes);
        for slot in 0..5 {
            page.insert(slot, &[slot as u8], &[slot as u8; 300], 0).unwrap();
        }
        page.finish(PGNO_HERE);
        let (whole, unused) = (bytes.clone(), PageRef::new(&bytes).unused());
        let whole = PageRef::new(&whole);
        let mut changed = 0;
        for at in 0..size {
            for bit in [1, 0x80] {
                bytes[at] ^= bit;
                let page = PageRef::new(&bytes);
                let is_same = page.digest() == whole.digest();
                assert!(!is_same || page.says_the_same(whole), "byte {at}");
                assert!(is_same || !unused.contains(&at) && at >= DBTIME, "byte {at} means nothing");
                changed += usize::from(!is_same);
                bytes[at] ^= bit;
            }
        }
        // Nodes, tags, and most of the head.
        assert!(changed > 2 * (5 * 300 + 6 * TAG_BYTES), "{changed} changes were noticed");
    }
}
