//! Databases and their tables: what a new one consists of, and what an existing one says about itself.
//!
//! Invariants
//! 1. MSysObjects and its shadow have the same rows; the indexes Name and RootObjects and MSysObjids agree with them.
//! 2. Creating a table is one mini-transaction: after a crash it is there with all its trees, or not at all.
//!
//! Limits: tables are never altered or dropped; a table has one primary index with unique keys.

use edb::catalog::{
    CODE_PAGE_ASCII, CatalogRow, KeyColumn, ObjectKind, column_flags, index_flags, locale_entries,
    objid_entry, system, system_rows,
};
use edb::column::{ColumnType, FIRST_TAGGED, FIRST_VARIABLE};
use edb::page::page_flags;

use crate::change::MiniTransaction;
use crate::overlay::Overlay;
use crate::pager::{Pager, Result, Stop, damaged};
use crate::space::{self, DATABASE_FDP, Extent};
use crate::tree::{self, Tree};
use crate::update::insert_in;
use crate::view::PageView;

/// Least number of pages of a database: its system tables and a little room.
pub const LEAST_PAGES: u32 = 62;
/// Tree of the database root, which has only space and no entries.
pub const ROOT: Tree = Tree { fdp: DATABASE_FDP, objid: 1, density_pct: 80 };

const OBJECTS: Tree = Tree { fdp: system::OBJECTS_FDP, objid: system::OBJECTS, density_pct: 80 };
const SHADOW: Tree = Tree { fdp: system::SHADOW_FDP, objid: system::SHADOW, density_pct: 80 };
const NAMES: Tree = Tree { fdp: system::NAME_INDEX_FDP, objid: system::NAME_INDEX, density_pct: 80 };
const ROOTS: Tree = Tree { fdp: system::ROOTS_INDEX_FDP, objid: system::ROOTS_INDEX, density_pct: 80 };
const OBJIDS: Tree = Tree { fdp: system::OBJIDS_FDP, objid: system::OBJIDS, density_pct: 100 };
const LOCALES: Tree = Tree { fdp: system::LOCALES_FDP, objid: system::LOCALES, density_pct: 92 };

/// Definition of a table to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDefinition {
    /// Name of the table, ASCII.
    pub name: String,
    /// Columns of the table. Ids follow from the order: columns of fixed size from 1 on, `Binary` and `Text` from 128,
    /// long columns from 256.
    pub columns: Vec<ColumnDefinition>,
    /// Primary index of the table.
    pub primary: IndexDefinition,
    /// Secondary indexes of the table.
    pub indexes: Vec<IndexDefinition>,
    /// Whether the table has a tree of long values.
    pub has_long_values: bool,
    /// Number of pages of the table's first extent, at least 3.
    pub pages: u32,
    /// Density: fill to which appending leaves pages of rows and long values, percent.
    pub density_pct: u8,
}

/// Definition of a column to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Name of the column, ASCII.
    pub name: String,
    /// Type of the column.
    pub kind: ColumnType,
    /// Whether every row has a value.
    pub not_null: bool,
}

/// Definition of an index to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Name of the index, ASCII.
    pub name: String,
    /// Index flags, see [`index_flags`]. The unique and primary flags follow from where the index is named.
    pub flags: u32,
    /// Names of the indexed columns, in order.
    pub columns: Vec<String>,
}

/// Catalog of a database: its tables and trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// All tables, those of the system first.
    pub tables: Vec<Table>,
}

/// Table of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Tree of the rows, by primary key.
    pub tree: Tree,
    /// Secondary indexes of the table.
    pub indexes: Vec<Index>,
    /// Tree of the long values.
    pub long_values: Option<Tree>,
}

/// Secondary index of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name of the index.
    pub name: String,
    /// Tree of the entries: the primary key by index key.
    pub tree: Tree,
}

impl Schema {
    /// Table with this name, regardless of case.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// All trees, the database root first.
    pub fn trees(&self) -> Vec<Tree> {
        let of_table = |table: &Table| {
            let indexes: Vec<Tree> = table.indexes.iter().map(|index| index.tree).collect();
            [table.tree].into_iter().chain(indexes).chain(table.long_values)
        };
        [ROOT].into_iter().chain(self.tables.iter().flat_map(of_table)).collect()
    }
}

impl Table {
    /// Index with this name, regardless of case.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name))
    }
}

/// Pager of a database that does not exist yet.
struct Nothing {
    page_bytes: usize,
}

impl Pager for Nothing {
    fn page(&self, pgno: u32) -> Result<PageView<'_>> {
        damaged(pgno, "read before it was made")
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

/// Creates a database of `pages` pages. Every returned change formats a page; pages that are not named are zero.
///
/// # Errors
/// `NoSpace` if it has less than [`LEAST_PAGES`].
pub fn create(page_bytes: usize, pages: u32) -> Result<MiniTransaction> {
    if pages < LEAST_PAGES {
        return Err(Stop::NoSpace { pages: LEAST_PAGES });
    }
    let nothing = Nothing { page_bytes };
    let mut overlay = Overlay::new(&nothing);
    space::format_multiple(&mut overlay, 0, Extent { first: DATABASE_FDP, pages }, ROOT.objid, 0)?;
    let index = page_flags::INDEX;
    // Space hands out its lowest pages first, which gives each tree the page that readers expect.
    for (parent, pages, tree, kind) in [
        (ROOT, system::OBJECTS_PAGES, OBJECTS, 0),
        (OBJECTS, 3, NAMES, index),
        (OBJECTS, 3, ROOTS, index),
        (ROOT, system::SHADOW_PAGES, SHADOW, 0),
    ] {
        let fdp = space::create_multiple(&mut overlay, parent.fdp, pages, tree.objid, kind)?;
        debug_assert_eq!(fdp, tree.fdp);
    }
    for tree in [OBJIDS, LOCALES] {
        let fdp = space::create_single(&mut overlay, DATABASE_FDP, 1, tree.objid, 0)?;
        debug_assert_eq!(fdp, tree.fdp);
    }
    for row in system_rows() {
        add_row(&mut overlay, &row)?;
    }
    for (key, record) in locale_entries(page_bytes) {
        insert_in(&mut overlay, LOCALES, &key, &record)?;
    }
    Ok(MiniTransaction::system(overlay.finish()))
}

/// Adds a catalog row to all catalog trees.
fn add_row(overlay: &mut Overlay, row: &CatalogRow) -> Result<()> {
    let page_bytes = overlay.page_bytes();
    let (key, record) = (row.key(), row.encode(page_bytes));
    insert_in(overlay, OBJECTS, &key, &record)?;
    insert_in(overlay, SHADOW, &key, &record)?;
    insert_in(overlay, NAMES, &row.name_key(), &key)?;
    if let Some(root_key) = row.root_key() {
        insert_in(overlay, ROOTS, &root_key, &key)?;
    }
    // A primary index is its table's own tree.
    let is_tree = match row.kind {
        ObjectKind::Table | ObjectKind::LongValues => true,
        ObjectKind::Index => row.id != row.table,
        ObjectKind::Column => false,
    };
    if is_tree {
        let (key, record) = objid_entry(row, page_bytes);
        insert_in(overlay, OBJIDS, &key, &record)?;
    }
    Ok(())
}

/// Creates a table with its indexes and its tree of long values, all empty.
///
/// # Errors
/// `Duplicate` if a table has the name, `NotFound` if an index names a column that is not there, or what pages say.
pub fn create_table(pager: &dyn Pager, definition: &TableDefinition) -> Result<MiniTransaction> {
    let mut overlay = Overlay::new(pager);
    let objid = next_objid(&overlay)?;
    let fdp = space::create_multiple(&mut overlay, DATABASE_FDP, definition.pages.max(3), objid, 0)?;
    let density = u32::from(definition.density_pct);
    let mut rows = vec![CatalogRow::table(objid, &definition.name, fdp, density, definition.pages.max(3))];
    let root_key = rows[0].root_key().unwrap_or_default();
    if tree::get(&overlay, ROOTS, &root_key)?.is_some() {
        return Err(Stop::Duplicate);
    }
    let columns = column_rows(objid, &definition.columns);
    let flags = index_flags::USER_PRIMARY;
    let key = key_columns(&columns, &definition.primary.columns)?;
    rows.push(CatalogRow::index(objid, objid, &definition.primary.name, fdp, density, flags, key));
    for (i, index) in (1..).zip(&definition.indexes) {
        let repeats = index.flags & index_flags::UNIQUE == 0;
        let kind = page_flags::INDEX | if repeats { page_flags::NON_UNIQUE } else { 0 };
        let root = space::create_single(&mut overlay, fdp, 1, objid + i, kind)?;
        let flags = index.flags | index_flags::EXTENDED_COLUMNS;
        let key = key_columns(&columns, &index.columns)?;
        rows.push(CatalogRow::index(objid, objid + i, &index.name, root, 80, flags, key));
    }
    if definition.has_long_values {
        let long_objid = objid + 1 + definition.indexes.len() as u32;
        let root = space::create_single(&mut overlay, fdp, 1, long_objid, page_flags::LONG_VALUE)?;
        rows.push(CatalogRow::long_values(objid, long_objid, root));
    }
    for row in rows.iter().chain(&columns) {
        add_row(&mut overlay, row)?;
    }
    Ok(MiniTransaction::system(overlay.finish()))
}

/// Lowest object id above all that are in use.
fn next_objid(pager: &dyn Pager) -> Result<u32> {
    let last = tree::last(pager, OBJIDS)?;
    let key = last.map(|at| Ok(at.node(pager)?.key())).transpose()?.unwrap_or_default();
    match key.get(1..).and_then(|number| number.try_into().ok()) {
        // The key has the sign bit flipped.
        Some(number) => Ok((u32::from_be_bytes(number) ^ 1 << 31) + 1),
        None => damaged(OBJIDS.fdp, "its last key is no object id"),
    }
}

fn column_rows(table: u32, definitions: &[ColumnDefinition]) -> Vec<CatalogRow> {
    let (mut fixed, mut variable, mut tagged) = (1, FIRST_VARIABLE, FIRST_TAGGED);
    let mut offset = 4;
    let mut rows = Vec::new();
    for definition in definitions {
        let kind = definition.kind;
        let next = match kind {
            _ if kind.fixed_bytes().is_some() => &mut fixed,
            ColumnType::Binary | ColumnType::Text => &mut variable,
            _ => &mut tagged,
        };
        let flags = if definition.not_null { column_flags::NOT_NULL } else { 0 };
        let row = CatalogRow::column(table, *next, &definition.name, kind, flags);
        *next += 1;
        rows.push(CatalogRow {
            record_offset: kind.fixed_bytes().map(|_| offset),
            pages_or_code_page: if kind.is_text() { CODE_PAGE_ASCII } else { 0 },
            ..row
        });
        offset += kind.fixed_bytes().unwrap_or(0) as u16;
    }
    rows
}

fn key_columns(columns: &[CatalogRow], names: &[String]) -> Result<Vec<KeyColumn>> {
    let find = |name: &String| {
        let column =
            columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).ok_or(Stop::NotFound)?;
        Ok(KeyColumn::ascending(column.id as u16))
    };
    names.iter().map(find).collect()
}

/// Reads the catalog.
///
/// # Errors
/// `Damaged` if it contradicts itself, or what pages say.
pub fn schema(pager: &dyn Pager) -> Result<Schema> {
    let mut tables: Vec<Table> = Vec::new();
    let mut at = tree::first(pager, OBJECTS)?;
    while let Some(position) = at {
        let node = position.node(pager)?;
        if !node.is_deleted() {
            let Some(row) = CatalogRow::decode(node.data) else {
                return damaged(position.pgno, "catalog row that cannot be read");
            };
            add_to_schema(&mut tables, row, position.pgno)?;
        }
        at = tree::next(pager, OBJECTS, position)?;
    }
    Ok(Schema { tables })
}

/// Adds a catalog row to the schema. Rows come ordered by table and kind, a table before its parts.
fn add_to_schema(tables: &mut Vec<Table>, row: CatalogRow, pgno: u32) -> Result<()> {
    let density_pct = u8::try_from(row.density_or_bytes).unwrap_or(100).clamp(1, 100);
    let tree = Tree { fdp: row.root_or_type, objid: row.id, density_pct };
    if row.kind == ObjectKind::Table {
        tables.push(Table { name: row.name, tree, indexes: Vec::new(), long_values: None });
        return Ok(());
    }
    let Some(table) = tables.last_mut().filter(|table| table.tree.objid == row.table) else {
        return damaged(pgno, "catalog row of no table");
    };
    match row.kind {
        // The primary index is the table's own tree.
        ObjectKind::Index if row.id == row.table => {}
        ObjectKind::Index => table.indexes.push(Index { name: row.name, tree }),
        ObjectKind::LongValues => {
            // The catalog has no density of its own for them: they are packed like the rows.
            table.long_values = Some(Tree { density_pct: table.tree.density_pct, ..tree });
        }
        ObjectKind::Table | ObjectKind::Column => {}
    }
    Ok(())
}
