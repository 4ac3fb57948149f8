use std::process::Command;

use edb::catalog::{CatalogRow, ObjectKind, index_flags, system};
use edb::column::ColumnType;

use crate::database::{self, ColumnDefinition, IndexDefinition, LEAST_PAGES, Schema, TableDefinition};
use crate::testing::MemoryDatabase;
use crate::{Pager, PagesInUse, Stop, Tree, check, tree, update};

pub(super) const PAGE_SIZES: [usize; 4] = [4096, 8192, 16384, 32768];

pub(super) fn messages() -> TableDefinition {
    let column = |name: &str, kind, not_null| ColumnDefinition { name: name.to_owned(), kind, not_null };
    let index = |name: &str, flags, column: &str| IndexDefinition {
        name: name.to_owned(),
        flags,
        columns: vec![column.to_owned()],
    };
    TableDefinition {
        name: "Messages".to_owned(),
        columns: vec![
            column("Id", ColumnType::U32, true),
            column("Version", ColumnType::U32, false),
            column("Conversation", ColumnType::I64, false),
            column("Subject", ColumnType::Text, false),
            column("Body", ColumnType::LongBinary, false),
            column("Note", ColumnType::LongText, false),
        ],
        primary: index("Primary", 0, "Id"),
        indexes: vec![
            index("ByConversation", 0, "Conversation"),
            index("BySubject", index_flags::UNIQUE, "Subject"),
        ],
        has_long_values: true,
        pages: 20,
        density_pct: 80,
    }
}

/// Checks the database by this crate's check of every tree, and by the independent checker of the file.
pub(super) fn assert_sound(database: &mut MemoryDatabase) -> Schema {
    let schema = database.ask(database::schema).unwrap();
    let usage = database.ask(|pager| check::database(pager, &schema.trees())).unwrap();
    assert_eq!(usage.leaked_pages, 0);
    let in_use = database.ask(PagesInUse::read).unwrap().expect("it has a catalog");
    let file = database.file();
    let pages = file.chunks_exact(database.coding.page_bytes).skip(2);
    let used: Vec<_> = (1..).zip(pages).filter(|(pgno, _)| in_use.contains(*pgno)).collect();
    assert_eq!(used.len() as u64, usage.used_pages);
    assert!(used.iter().all(|(_, page)| !edb::is_zero(page)), "a page in use has been written");
    run_independent_checker(&database.file());
    schema
}

/// Catalog entries of a table.
fn catalog_of(database: &mut MemoryDatabase, table: u32) -> Vec<CatalogRow> {
    let read = |pager: &dyn Pager| {
        let objects = Tree { fdp: system::OBJECTS_FDP, objid: system::OBJECTS, density_pct: 80 };
        let (mut rows, mut at) = (Vec::new(), tree::first(pager, objects)?);
        while let Some(position) = at {
            rows.push(CatalogRow::decode(position.node(pager)?.data).unwrap());
            at = tree::next(pager, objects, position)?;
        }
        Ok(rows)
    };
    let rows = database.ask(read).unwrap();
    rows.into_iter().filter(|row| row.table == table).collect()
}

/// Runs the project's independent checker, which is written in Python and shares no code with this crate.
#[allow(clippy::disallowed_methods, reason = "hands a file to another program")]
fn run_independent_checker(file: &[u8]) {
    if !testkit::has_python() {
        return;
    }
    let path = tempfile::Builder::new().suffix(".edb").tempfile().unwrap().into_temp_path();
    std::fs::write(&path, file).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/edb_check.py");
    let output = Command::new("python3").arg(script).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" 0 leaked"), "{said}");
}

#[test]
fn a_new_database_has_its_system_tables_where_readers_expect_them() {
    for page_bytes in PAGE_SIZES {
        let mut database = MemoryDatabase::new(page_bytes, 254);
        let schema = assert_sound(&mut database);
        let roots: Vec<_> = schema.trees().iter().map(|tree| (tree.fdp, tree.objid)).collect();
        assert_eq!(roots, [(1, 1), (4, 2), (7, 4), (10, 5), (24, 3), (29, 6), (30, 7)]);
        database.assert_redo_gives_the_same_pages();
    }
    let too_small = database::create(4096, LEAST_PAGES - 1);
    assert_eq!(too_small.unwrap_err(), Stop::NoSpace { pages: LEAST_PAGES });
}

#[test]
fn a_table_is_found_again_as_it_was_defined() {
    for page_bytes in PAGE_SIZES {
        let mut database = MemoryDatabase::new(page_bytes, LEAST_PAGES);
        database.hide_pages();
        database.run(|pager| database::create_table(pager, &messages())).unwrap();
        let again = database.run(|pager| database::create_table(pager, &messages()));
        assert_eq!(again.unwrap_err(), Stop::Duplicate);
        let schema = assert_sound(&mut database);
        let table = schema.table("messages").unwrap();
        let rows = catalog_of(&mut database, table.tree.objid);
        let column = |row: &CatalogRow| (row.id, row.name.clone(), row.root_or_type, row.record_offset);
        let columns = rows.iter().filter(|row| row.kind == ObjectKind::Column).map(column);
        let expected = [
            (1, "Id", ColumnType::U32, Some(4)),
            (2, "Version", ColumnType::U32, Some(8)),
            (3, "Conversation", ColumnType::I64, Some(12)),
            (128, "Subject", ColumnType::Text, None),
            (256, "Body", ColumnType::LongBinary, None),
            (257, "Note", ColumnType::LongText, None),
        ];
        let expected = expected.map(|(id, name, kind, offset)| (id, name.to_owned(), kind as u32, offset));
        assert_eq!(columns.collect::<Vec<_>>(), expected);
        assert_eq!((table.tree.objid, table.tree.density_pct), (8, 80));
        assert_eq!(table.indexes.iter().map(|index| index.tree.objid).collect::<Vec<_>>(), [9, 10]);
        assert_eq!(table.long_values.unwrap().objid, 11);
        let keys = rows.iter().filter(|row| row.kind == ObjectKind::Index);
        let keys: Vec<_> = keys.map(|row| (&row.name[..], row.key_columns[0].id)).collect();
        assert_eq!(keys, [("Primary", 1), ("ByConversation", 3), ("BySubject", 128)]);
        database.assert_redo_gives_the_same_pages();
    }
}

#[test]
fn many_tables_grow_the_catalog_and_stay_sound() {
    let mut database = MemoryDatabase::new(4096, LEAST_PAGES);
    for n in 0..40 {
        let definition = TableDefinition { name: format!("Table{n}"), pages: 3 + n % 5, ..messages() };
        database.run(|pager| database::create_table(pager, &definition)).unwrap();
    }
    let schema = assert_sound(&mut database);
    assert_eq!(schema.tables.len(), 4 + 40);
    // The next table after the last one's four trees.
    assert_eq!(schema.tables.last().unwrap().tree.objid, 8 + 39 * 4);
    database.assert_redo_gives_the_same_pages();
}

#[test]
fn one_page_trees_get_space_of_their_own_when_they_grow() {
    let mut database = MemoryDatabase::new(8192, LEAST_PAGES);
    database.run(|pager| database::create_table(pager, &messages())).unwrap();
    let schema = database.ask(database::schema).unwrap();
    let table = schema.table("Messages").unwrap();
    let (conversations, bodies) = (table.indexes[0].tree, table.long_values.unwrap());
    for n in 0..2000u32 {
        let spread = n.wrapping_mul(2_654_435_761).to_be_bytes();
        database.run(|pager| update::insert(pager, conversations, &spread, &n.to_be_bytes())).unwrap();
        database.run(|pager| update::insert(pager, bodies, &n.to_be_bytes(), &[0x80; 1000])).unwrap();
    }
    assert_sound(&mut database);
    database.assert_redo_gives_the_same_pages();
}
