use std::collections::BTreeMap;

use proptest::prelude::*;

use super::database::{PAGE_SIZES, assert_sound, messages};
use crate::change::{Before, Committed, Undo, committed_state};
use crate::database::{self, Table};
use crate::row::{self, Cell, Latest, Values, View};
use crate::row_op::{RowOp, Step};
use crate::testing::MemoryDatabase;
use crate::tree::Tree;
use crate::{Pager, Result, Stop, update};

const ID: u16 = 1;
const CONVERSATION: u16 = 3;
const SUBJECT: u16 = 128;
const BODY: u16 = 256;
const NOTE: u16 = 257;

#[derive(Debug, Clone)]
struct Change {
    id: u32,
    what: u8,
    conversation: Option<i64>,
    subject: Option<u8>,
    body: Option<u32>,
    note: Option<u16>,
}

fn change() -> impl Strategy<Value = Change> {
    let body = prop::option::of(prop_oneof![0u32..1500, 1500u32..30_000]);
    (
        1u32..60,
        0u8..4,
        prop::option::of(-5i64..5),
        prop::option::of(0u8..80),
        body,
        prop::option::of(0u16..900),
    )
        .prop_map(|(id, what, conversation, subject, body, note)| Change {
            id,
            what,
            conversation,
            subject,
            body,
            note,
        })
}

fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(seed * 2 + 1) >> 3) as u8 | 0x80).collect()
}

impl Change {
    /// Values of the columns that the change sets; those it leaves are not there.
    fn columns(&self) -> BTreeMap<u16, Option<Vec<u8>>> {
        let mut columns = BTreeMap::new();
        columns.insert(CONVERSATION, self.conversation.map(|c| c.to_le_bytes().to_vec()));
        columns.insert(SUBJECT, self.subject.map(|s| format!("Subject {s}").into_bytes()));
        if !self.id.is_multiple_of(3) || self.what == 0 {
            columns.insert(BODY, self.body.map(|len| bytes(len as usize, self.id + len)));
            columns.insert(NOTE, self.note.map(|len| bytes(len.into(), self.id)));
        }
        columns
    }

    fn row(&self) -> Values {
        let mut row: Values =
            self.columns().into_iter().filter_map(|(id, value)| Some((id, value?))).collect();
        row.insert(ID, self.id.to_le_bytes().to_vec());
        row
    }
}

fn key(id: u32) -> Vec<u8> {
    [&[0x7F][..], &id.to_be_bytes()].concat()
}

/// Runs a row operation to its end; the undos of what it changed, also if it was refused on the way.
fn run(database: &mut MemoryDatabase, mut op: RowOp) -> (Result<()>, Vec<Undo>) {
    let mut undos = Vec::new();
    loop {
        match database.ask(|pager| op.step(pager)) {
            Ok(Step::Change(mini)) => {
                database.apply(&mini);
                undos.extend(mini.undo);
            }
            Ok(Step::Done) => return (Ok(()), undos),
            Err(stop) => return (Err(stop), undos),
        }
    }
}

fn take_back(database: &mut MemoryDatabase, undos: &[Undo]) {
    for undo in undos.iter().rev() {
        database.run(|pager| update::take_back(pager, undo)).unwrap();
    }
}

fn purge(database: &mut MemoryDatabase, undos: &[Undo]) {
    for undo in undos.iter().filter(|undo| undo.was == Before::Present) {
        let tree = Tree { fdp: undo.fdp, objid: undo.objid, density_pct: 80 };
        if let Some(mini) = database.ask(|pager| update::purge(pager, tree, &undo.key, &undo.tail)).unwrap() {
            database.apply(&mini);
        }
    }
}

/// Every row with its long values, as a reader sees them.
fn rows(database: &mut MemoryDatabase, seen: &dyn View, table: &Table) -> BTreeMap<u32, Values> {
    let read = |pager: &dyn Pager| {
        let mut rows = BTreeMap::new();
        for (key, record) in row::scan(pager, seen, table.tree, &[], usize::MAX)? {
            let mut values = Values::new();
            for (column, cell) in row::cells(table, &record, pager.page_bytes()) {
                let value = match cell {
                    Cell::Here(value) => value,
                    Cell::Apart(id) => row::long_value(pager, seen, table.long_values.unwrap(), id)?,
                };
                values.insert(column, value);
            }
            rows.insert(u32::from_be_bytes(key[1..].try_into().unwrap()), values);
        }
        Ok(rows)
    };
    database.ask(read).unwrap()
}

/// Each index leads to exactly the rows that have a value for it, in order.
fn assert_indexes(database: &mut MemoryDatabase, table: &Table, model: &BTreeMap<u32, Values>) {
    for (index, column) in [("ByConversation", CONVERSATION), ("BySubject", SUBJECT)] {
        let index = table.index(index).unwrap();
        let found = database.ask(|pager| row::find(pager, &Latest, index, &[], usize::MAX)).unwrap();
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = model
            .iter()
            .filter(|(_, values)| values.contains_key(&column))
            .map(|(id, values)| {
                let cells = values.iter().map(|(id, value)| (*id, Cell::Here(value.clone()))).collect();
                (row::index_key(table, index, &cells).unwrap(), key(*id))
            })
            .collect();
        expected.sort();
        assert_eq!(found, expected.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
    }
}

/// Applies a change to the model; what the database must answer.
fn expect(model: &mut BTreeMap<u32, Values>, change: &Change) -> Result<()> {
    let taken = |model: &BTreeMap<u32, Values>, subject: Option<Vec<u8>>| {
        let same =
            |other: (&u32, &Values)| *other.0 != change.id && other.1.get(&SUBJECT) == subject.as_ref();
        subject.is_some() && model.iter().any(same)
    };
    match change.what {
        0 | 1 => {
            let row =
                if change.what == 0 { change.row() } else { Change { what: 0, ..change.clone() }.row() };
            if model.contains_key(&change.id) || taken(model, row.get(&SUBJECT).cloned()) {
                return Err(Stop::Duplicate);
            }
            model.insert(change.id, row);
        }
        2 => {
            if !model.contains_key(&change.id) {
                return Err(Stop::NotFound);
            }
            if taken(model, change.columns()[&SUBJECT].clone()) {
                return Err(Stop::Duplicate);
            }
            let row = model.get_mut(&change.id).unwrap();
            for (column, value) in change.columns() {
                match value {
                    Some(value) => _ = row.insert(column, value),
                    None => _ = row.remove(&column),
                }
            }
        }
        _ => _ = model.remove(&change.id).ok_or(Stop::NotFound)?,
    }
    Ok(())
}

fn op<'t>(table: &'t Table, change: &Change) -> RowOp<'t> {
    match change.what {
        0 | 1 => RowOp::insert(table, Change { what: 0, ..change.clone() }.row()),
        2 => RowOp::replace(table, &key(change.id), change.columns()),
        _ => RowOp::delete(table, &key(change.id)),
    }
}

fn database(page_bytes: usize) -> (MemoryDatabase, Table) {
    let mut database = MemoryDatabase::new(page_bytes, database::LEAST_PAGES);
    database.run(|pager| database::create_table(pager, &messages())).unwrap();
    let schema = database.ask(database::schema).unwrap();
    let table = schema.table("Messages").unwrap().clone();
    (database, table)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_table_is_a_map_of_rows_under_transactions(
        page_bytes in prop::sample::select(PAGE_SIZES.to_vec()),
        transactions in prop::collection::vec((prop::collection::vec(change(), 1..6), any::<bool>()), 1..40),
        hide: bool,
    ) {
        let (mut database, table) = database(page_bytes);
        if hide {
            database.hide_pages();
        }
        let mut model = BTreeMap::new();
        for (changes, commit) in transactions {
            let before = model.clone();
            let mut undos = Vec::new();
            for change in &changes {
                let refused_first = (change.what < 2) == model.contains_key(&change.id);
                let expected = expect(&mut model, change);
                let (done, changed) = run(&mut database, op(&table, change));
                prop_assert_eq!(&done, &expected);
                if done.is_err() {
                    prop_assert!(!refused_first || changed.is_empty(), "refused after writing");
                    // A statement that is refused is taken back alone.
                    take_back(&mut database, &changed);
                } else {
                    undos.extend(changed);
                }
            }
            prop_assert_eq!(&rows(&mut database, &Latest, &table), &model);
            let others = Others(&undos);
            prop_assert_eq!(&rows(&mut database, &others, &table), &before, "what other transactions see");
            if commit {
                purge(&mut database, &undos);
            } else {
                take_back(&mut database, &undos);
                model = before;
            }
        }
        prop_assert_eq!(&rows(&mut database, &Latest, &table), &model);
        assert_indexes(&mut database, &table, &model);
        assert_sound(&mut database);
        database.assert_redo_gives_the_same_pages();
    }
}

/// The view of transactions other than the one with these undos.
struct Others<'a>(&'a [Undo]);

impl View for Others<'_> {
    fn committed(&self, objid: u32, entry: &[u8]) -> Option<Committed<'_>> {
        committed_state(self.0.iter().filter(|undo| undo.objid == objid && undo.entry()[..] == *entry))
    }
}

#[test]
fn a_row_deleted_and_inserted_again_looks_unchanged_to_others_until_the_commit() {
    let (mut database, table) = database(4096);
    let row = |len| Values::from([(ID, 7u32.to_le_bytes().to_vec()), (BODY, bytes(len, 3))]);
    run(&mut database, RowOp::insert(&table, row(100))).0.unwrap();
    let (_, mut undos) = run(&mut database, RowOp::delete(&table, &key(7)));
    undos.extend(run(&mut database, RowOp::insert(&table, row(200))).1);
    assert_eq!(rows(&mut database, &Others(&undos), &table)[&7], row(100));
    assert_eq!(rows(&mut database, &Latest, &table)[&7], row(200));
}

#[test]
fn rows_with_nulls_stay_out_of_indexes_that_say_so() {
    let (mut database, table) = database(4096);
    let row = Values::from([(ID, 7u32.to_le_bytes().to_vec())]);
    let (done, undos) = run(&mut database, RowOp::insert(&table, row));
    assert_eq!((done, undos.len()), (Ok(()), 1));
}

#[test]
fn the_primary_key_of_a_row_cannot_change() {
    let (mut database, table) = database(4096);
    let row = Values::from([(ID, 7u32.to_le_bytes().to_vec())]);
    run(&mut database, RowOp::insert(&table, row)).0.unwrap();
    let changes = BTreeMap::from([(ID, Some(8u32.to_le_bytes().to_vec()))]);
    assert_eq!(
        run(&mut database, RowOp::replace(&table, &key(7), changes)),
        (Err(Stop::KeyChanged), Vec::new())
    );
}

#[test]
fn a_long_value_of_many_chunks_is_replaced_in_place() {
    for page_bytes in PAGE_SIZES {
        let (mut database, table) = database(page_bytes);
        let row = |len| Values::from([(ID, 1u32.to_le_bytes().to_vec()), (BODY, bytes(len, 3))]);
        run(&mut database, RowOp::insert(&table, row(200_000))).0.unwrap();
        for len in [200_000, 10_000, 90_000, 5] {
            let change = BTreeMap::from([(BODY, Some(bytes(len, 5)))]);
            let (done, undos) = run(&mut database, RowOp::replace(&table, &key(1), change));
            done.unwrap();
            let found = rows(&mut database, &Latest, &table);
            assert_eq!(found[&1][&BODY], bytes(len, 5));
            purge(&mut database, &undos);
            assert_sound(&mut database);
        }
    }
}
