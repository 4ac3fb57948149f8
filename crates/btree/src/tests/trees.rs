use std::collections::BTreeMap;

use edb::page::page_flags;
use proptest::prelude::*;

use crate::change::MiniTransaction;
use crate::testing::MemoryDatabase;
use crate::tree::{self, Seek, Tree};
use crate::{Stop, check, space, update};

const PAGE_SIZES: [usize; 4] = [4096, 8192, 16384, 32768];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// All entries that are not flagged deleted, in order.
fn entries(database: &mut MemoryDatabase, tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    database
        .ask(|pager| {
            let mut found = Vec::new();
            let mut at = tree::first(pager, tree)?;
            while let Some(position) = at {
                let node = position.node(pager)?;
                if !node.is_deleted() {
                    found.push((node.key(), node.data.to_vec()));
                }
                at = tree::next(pager, tree, position)?;
            }
            Ok(found)
        })
        .unwrap()
}

fn assert_whole(database: &mut MemoryDatabase, trees: &[Tree]) {
    let mut all = database.ask(crate::database::schema).unwrap().trees();
    all.extend(trees);
    let usage = database.ask(|pager| check::database(pager, &all)).unwrap();
    assert_eq!(usage.leaked_pages, 0);
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u16, u16),
    Append(u16),
    Replace(u16, u16),
    Delete(u16),
    Purge(u16),
    Seek(u16),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u16..600, 1u16..1500).prop_map(|(key, len)| Op::Insert(key, len)),
        2 => (1u16..1500).prop_map(Op::Append),
        2 => (0u16..600, 1u16..1500).prop_map(|(key, len)| Op::Replace(key, len)),
        2 => (0u16..600).prop_map(Op::Delete),
        2 => (0u16..600).prop_map(Op::Purge),
        1 => (0u16..600).prop_map(Op::Seek),
    ]
}

fn key(n: u16) -> Vec<u8> {
    // Lengths vary, so that prefixes of other keys occur.
    let mut key = vec![0x7F, (n >> 8) as u8, n as u8];
    key.resize(3 + usize::from(n % 7) * 9, (n % 5) as u8);
    key
}

fn fill(len: u16, seed: u16) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ seed) as u8).collect()
}

/// Applies one operation to tree and model and compares their results.
fn step(database: &mut MemoryDatabase, tree: Tree, model: &mut Model, next_key: &mut u16, op: &Op) {
    let expect = |done: crate::Result<MiniTransaction>, refused: Option<Stop>| match (done, refused) {
        (Ok(_), None) => {}
        (Err(stop), Some(refused)) => assert_eq!(stop, refused),
        (done, refused) => panic!("{done:?} instead of {refused:?}"),
    };
    match *op {
        Op::Insert(n, len) => {
            let done = database.run(|pager| update::insert(pager, tree, &key(n), &fill(len, n)));
            expect(done, model.contains_key(&key(n)).then_some(Stop::Duplicate));
            model.entry(key(n)).or_insert_with(|| fill(len, n));
        }
        Op::Append(len) => {
            *next_key += 1;
            let (n, data) = (1000 + *next_key, fill(len, *next_key));
            expect(database.run(|pager| update::insert(pager, tree, &key(n), &data)), None);
            model.insert(key(n), data);
        }
        Op::Replace(n, len) => {
            let data = fill(len, n ^ 0x5555);
            let done = database.run(|pager| update::replace(pager, tree, &key(n), &data));
            expect(done, (!model.contains_key(&key(n))).then_some(Stop::NotFound));
            model.entry(key(n)).and_modify(|old| *old = data);
        }
        Op::Delete(n) => {
            let done = database.run(|pager| update::delete(pager, tree, &key(n), &[]));
            expect(done, model.remove(&key(n)).is_none().then_some(Stop::NotFound));
        }
        Op::Purge(n) => {
            // Everything near n, so that pages become small and empty.
            for n in n.saturating_sub(40)..n + 40 {
                model.remove(&key(n));
                let _ = database.run(|pager| update::delete(pager, tree, &key(n), &[]));
                if let Some(mini) = database.ask(|pager| update::purge(pager, tree, &key(n), &[])).unwrap() {
                    database.apply(&mini);
                }
            }
        }
        Op::Seek(n) => {
            let living = |what| {
                move |pager: &dyn crate::Pager| {
                    let mut at = tree::seek(pager, tree, &key(n), what)?;
                    while let Some(position) = at {
                        let node = position.node(pager)?;
                        if !node.is_deleted() {
                            return Ok(Some(node.key()));
                        }
                        at = match what {
                            Seek::AtMost => tree::previous(pager, tree, position)?,
                            _ => tree::next(pager, tree, position)?,
                        };
                    }
                    Ok(None)
                }
            };
            let above = model.range(key(n)..).next().map(|(key, _)| key.clone());
            assert_eq!(database.ask(living(Seek::AtLeast)).unwrap(), above);
            let below = model.range(..=key(n)).next_back().map(|(key, _)| key.clone());
            assert_eq!(database.ask(living(Seek::AtMost)).unwrap(), below);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_tree_is_an_ordered_map_and_redo_repeats_it(
        page_bytes in prop::sample::select(PAGE_SIZES.to_vec()),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let mut database = MemoryDatabase::new(page_bytes, 64);
        let tree = database.create_tree(8, 0, 20);
        let (mut model, mut next_key) = (Model::new(), 0);
        for (i, op) in ops.iter().enumerate() {
            step(&mut database, tree, &mut model, &mut next_key, op);
            if i % 50 == 0 {
                assert_whole(&mut database, &[tree]);
            }
        }
        assert_whole(&mut database, &[tree]);
        prop_assert_eq!(entries(&mut database, tree), model.into_iter().collect::<Vec<_>>());
        database.assert_redo_gives_the_same_pages();
    }

    #[test]
    fn missing_pages_change_nothing_but_the_number_of_tries(ops in prop::collection::vec(op(), 1..150)) {
        let mut whole = MemoryDatabase::new(4096, 64);
        let tree = whole.create_tree(8, 0, 20);
        let mut hidden = MemoryDatabase::new(4096, 64);
        prop_assert_eq!(hidden.create_tree(8, 0, 20), tree);
        hidden.hide_pages();
        for database in [&mut whole, &mut hidden] {
            let (mut model, mut next_key) = (Model::new(), 0);
            for op in &ops {
                step(database, tree, &mut model, &mut next_key, op);
            }
        }
        prop_assert!(hidden.misses >= ops.len() && whole.misses == 0);
        prop_assert!(whole.pages() == hidden.pages());
    }

    #[test]
    fn taking_back_restores_what_was_there(
        before in prop::collection::vec(op(), 0..150),
        after in prop::collection::vec((0u16..600, 0u8..3, 1u16..1500), 1..100),
    ) {
        let mut database = MemoryDatabase::new(4096, 64);
        let tree = database.create_tree(8, 0, 20);
        let (mut model, mut next_key) = (Model::new(), 0);
        for op in &before {
            step(&mut database, tree, &mut model, &mut next_key, op);
        }
        let mut undos = Vec::new();
        for (n, what, len) in after {
            let data = fill(len, n ^ 0x0F0F);
            let done = database.run(|pager| match what {
                0 => update::insert(pager, tree, &key(n), &data),
                1 => update::replace(pager, tree, &key(n), &data),
                _ => update::delete(pager, tree, &key(n), &[]),
            });
            undos.extend(done.ok().and_then(|mini| mini.undo));
        }
        for undo in undos.iter().rev() {
            let mini = database.run(|pager| update::undo(pager, undo)).unwrap();
            prop_assert!(mini.compensates && mini.undo.is_none());
        }
        assert_whole(&mut database, &[tree]);
        prop_assert_eq!(entries(&mut database, tree), model.into_iter().collect::<Vec<_>>());
        database.assert_redo_gives_the_same_pages();
    }

    #[test]
    fn reading_damaged_pages_ends_without_a_panic(
        page_bytes in prop::sample::select(PAGE_SIZES.to_vec()),
        damage in prop::collection::vec((0u32..1000, any::<usize>(), 1u8..), 1..6),
    ) {
        let mut database = MemoryDatabase::new(page_bytes, 64);
        let tree = database.create_tree(8, 0, 20);
        for n in 0..300 {
            database.run(|pager| update::insert(pager, tree, &key(n), &fill(200, n))).unwrap();
        }
        for (pgno, at, mask) in damage {
            // The header and the tags are where damage does most.
            let at = match at % 3 {
                0 => at / 3 % 90,
                1 => page_bytes - 1 - at / 3 % 90,
                _ => at / 3,
            };
            database.damage(1 + pgno % (database.pages().len() as u32 - 1), at, mask);
        }
        for n in (0..300).step_by(7) {
            for what in [Seek::Exact, Seek::AtLeast, Seek::AtMost] {
                if let Ok(Some(at)) = tree::seek(&database, tree, &key(n), what) {
                    let _ = (tree::next(&database, tree, at), tree::previous(&database, tree, at));
                }
            }
        }
        let _ = (tree::first(&database, tree), tree::last(&database, tree), check::tree(&database, tree));
    }

    #[test]
    fn equal_keys_are_told_apart_by_their_data(
        page_bytes in prop::sample::select(PAGE_SIZES.to_vec()),
        ops in prop::collection::vec((0u8..12, 0u32..3000, 0u8..4), 1..1500),
    ) {
        let mut database = MemoryDatabase::new(page_bytes, 64);
        let tree = database.create_tree(9, page_flags::INDEX | page_flags::NON_UNIQUE, 3);
        let mut model = std::collections::BTreeSet::new();
        for (n, row, what) in ops {
            let (key, data) = ([0x7F, n], row.to_be_bytes());
            if what < 3 {
                let done = database.run(|pager| update::insert(pager, tree, &key, &data));
                prop_assert_eq!(done.is_ok(), model.insert((key, data)));
            } else if let Some((key, data)) = model.range((key, data)..).next().copied() {
                let mini = database.run(|pager| update::delete(pager, tree, &key, &data)).unwrap();
                let undo = mini.undo.unwrap();
                prop_assert_eq!(&undo.entry()[..], [&key[..], &data].concat());
                let purged = database.ask(|pager| update::purge(pager, tree, &undo.key, &undo.tail)).unwrap();
                database.apply(&purged.unwrap());
                model.remove(&(key, data));
            }
        }
        assert_whole(&mut database, &[tree]);
        let expected: Vec<_> = model.iter().map(|(key, data)| (key.to_vec(), data.to_vec())).collect();
        prop_assert_eq!(entries(&mut database, tree), expected);
        for n in 0..12 {
            let key = [0x7F, n];
            let ask = |database: &mut MemoryDatabase, what| {
                let node = move |pager: &dyn crate::Pager| {
                    let at = tree::seek(pager, tree, &key, what)?;
                    at.map(|at| Ok((at.node(pager)?.key(), at.node(pager)?.data.to_vec()))).transpose()
                };
                database.ask(node).unwrap()
            };
            let equal = |entry: &&([u8; 2], [u8; 4])| entry.0 == key;
            let entry = |entry: &([u8; 2], [u8; 4])| (entry.0.to_vec(), entry.1.to_vec());
            prop_assert_eq!(ask(&mut database, Seek::Exact), model.iter().find(equal).map(entry));
            let at_most = model.iter().rev().find(|entry| entry.0 <= key).map(entry);
            prop_assert_eq!(ask(&mut database, Seek::AtMost), at_most);
        }
    }
}

#[test]
fn appending_fills_pages_to_the_density_and_branches_grow_levels() {
    let mut database = MemoryDatabase::new(4096, 64);
    let tree = database.create_tree(8, 0, 20);
    for n in 0..20_000u32 {
        let key = [&[0x7F][..], &n.to_be_bytes(), &[7; 40]].concat();
        database.run(|pager| update::insert(pager, tree, &key, &[1; 60])).unwrap();
    }
    let pages = database.ask(|pager| check::tree(pager, tree)).unwrap();
    // 111 bytes per entry: 80 % of 4052 bytes take 29.
    assert_eq!(pages.entries, 20_000);
    assert!(pages.pages.len() >= 20_000 / 29 && pages.pages.len() < 20_000 / 28, "{}", pages.pages.len());
    let levels = database.ask(|pager| Ok(tree::descend(pager, tree, &[0x7F], &[])?.path.len())).unwrap();
    assert!(levels >= 3, "{levels} levels");
    assert_whole(&mut database, &[tree]);
    database.assert_redo_gives_the_same_pages();
}

#[test]
fn purging_everything_gives_every_page_back() {
    let mut database = MemoryDatabase::new(4096, 64);
    let tree = database.create_tree(8, 0, 20);
    let keys: Vec<_> = (0..4000u32).map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
    for key in &keys {
        database.run(|pager| update::insert(pager, tree, key, &[1; 200])).unwrap();
    }
    assert_whole(&mut database, &[tree]);
    for key in &keys {
        database.run(|pager| update::delete(pager, tree, key, &[])).unwrap();
        let mini = database.ask(|pager| update::purge(pager, tree, key, &[])).unwrap().unwrap();
        database.apply(&mini);
    }
    assert_whole(&mut database, &[tree]);
    let pages = database.ask(|pager| check::tree(pager, tree)).unwrap();
    assert_eq!((pages.entries, pages.pages), (0, vec![tree.fdp]));
    database.assert_redo_gives_the_same_pages();
}

#[test]
fn fragmented_space_splits_its_own_trees() {
    let mut database = MemoryDatabase::new(4096, 64);
    let tree = database.create_tree(8, 0, 20);
    let taken: Vec<u32> =
        (0..3000).map(|_| database.plan(|overlay| space::allocate(overlay, tree)).unwrap()).collect();
    // Every other page, so that no two extents join: some 300 entries fit a page.
    let (kept, freed): (Vec<_>, Vec<_>) = taken.into_iter().partition(|pgno| pgno % 2 == 0);
    for pgno in &freed {
        database.plan(|overlay| space::free(overlay, tree, *pgno)).unwrap();
    }
    let space_pages = database.ask(|pager| {
        let available = Tree { fdp: tree.fdp + 2, ..tree };
        check::tree(pager, available)
    });
    assert!(space_pages.unwrap().pages.len() > 3);
    for pgno in &kept {
        database.plan(|overlay| space::free(overlay, tree, *pgno)).unwrap();
    }
    assert_whole(&mut database, &[tree]);
    database.assert_redo_gives_the_same_pages();
}

#[test]
fn entries_too_large_for_a_page_or_without_data_are_refused() {
    let mut database = MemoryDatabase::new(4096, 64);
    let tree = database.create_tree(8, 0, 20);
    let most = update::most_entry_bytes(4096);
    for n in 0..3u8 {
        database.run(|pager| update::insert(pager, tree, &[n], &vec![n; most - 1])).unwrap();
    }
    let refused = database.run(|pager| update::insert(pager, tree, &[9], &vec![9; most]));
    assert_eq!(refused.unwrap_err(), Stop::TooLarge { bytes: most + 1, most_bytes: most });
    let refused = database.run(|pager| update::insert(pager, tree, &[9], &[]));
    assert_eq!(refused.unwrap_err(), Stop::NoData);
    let refused = database.run(|pager| update::replace(pager, tree, &[1], &[]));
    assert_eq!(refused.unwrap_err(), Stop::NoData);
    assert_whole(&mut database, &[tree]);
}

#[test]
fn branch_pages_split_wherever_entries_arrive() {
    let mut database = MemoryDatabase::new(4096, 64);
    let tree = database.create_tree(8, 0, 20);
    let keys: Vec<Vec<u8>> = (0..8000u32)
        .map(|n| [&[0x7F; 200][..], &n.wrapping_mul(2_654_435_761).to_be_bytes()].concat())
        .collect();
    for (i, key) in keys.iter().enumerate() {
        database.run(|pager| update::insert(pager, tree, key, &[1; 20])).unwrap();
        if i % 1000 == 0 {
            assert_whole(&mut database, &[tree]);
        }
    }
    assert_whole(&mut database, &[tree]);
    // Long separators: some 19 children per branch page.
    let levels = database.ask(|pager| Ok(tree::descend(pager, tree, &keys[0], &[])?.path.len())).unwrap();
    assert!(levels >= 4, "{levels} levels");
    assert_eq!(entries(&mut database, tree).len(), keys.len());
    database.assert_redo_gives_the_same_pages();
    // As ESE has it, one branch page per level is open, the rightmost one, also while pages leave the tree.
    assert_one_open_page_per_level(&mut database, tree);
    for (i, key) in keys.iter().enumerate() {
        database.run(|pager| update::delete(pager, tree, key, &[])).unwrap();
        let purge = database.ask(|pager| update::purge(pager, tree, key, &[])).unwrap();
        database.apply(&purge.expect("it is deleted"));
        if i % 500 == 0 {
            assert_whole(&mut database, &[tree]);
            assert_one_open_page_per_level(&mut database, tree);
        }
    }
    database.assert_redo_gives_the_same_pages();
}

fn assert_one_open_page_per_level(database: &mut MemoryDatabase, tree: Tree) {
    let pages = database.ask(|pager| check::tree(pager, tree)).unwrap().pages;
    let levels = database.ask(|pager| Ok(tree::descend(pager, tree, &[], &[])?.path.len())).unwrap();
    let page = |pgno: &u32| edb::page::PageRef::new(&database.pages()[*pgno as usize]);
    let branches = pages.iter().map(page).filter(|page| !page.is_leaf());
    let open = branches.filter(|page| page.nodes().next_back().is_some_and(|node| node.key_len() == 0));
    assert_eq!(open.count(), levels - 1);
}
