//! Rows of tables: what a record says, which keys a row has, and what a reader may see of it.
//!
//! Invariants
//! 1. A row has one entry in its table and one in each index whose null rules admit it.
//! 2. A long value lies in the record or, if longer than [`MOST_BYTES_IN_RECORD`], in chunks under its id.
//!
//! Limits: one value per column, no compression.

use std::collections::BTreeMap;

use edb::catalog::{KeyColumn, index_flags};
use edb::column::{ColumnType, FIRST_TAGGED, FIRST_VARIABLE};
use edb::key::{push_descending, push_segment};
use edb::page::Node;
use edb::record::{Field, RecordRef, tagged_flags};

use crate::change::Committed;
use crate::database::{Index, Table};
use crate::pager::{Pager, Result, damaged};
use crate::tree::{self, Seek, Tree, keys_repeat, view};

/// Longest value of a long column that is kept in the record.
pub const MOST_BYTES_IN_RECORD: usize = 1023;

/// Values of a row by column id, as stored; columns not there are null.
pub type Values = BTreeMap<u16, Vec<u8>>;

/// A value found in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// The value.
    Here(Vec<u8>),
    /// The id of the long value: see [`long_value`].
    Apart(u32),
}

/// What open transactions have changed.
pub trait View {
    /// The [`crate::committed_state`] of this entry if an open transaction other than the reader's own holds it.
    fn committed(&self, objid: u32, entry: &[u8]) -> Option<Committed<'_>>;
}

/// Sees everything as it is, committed or not: for a transaction alone in its database.
#[derive(Debug, Clone, Copy)]
pub struct Latest;

impl View for Latest {
    fn committed(&self, _objid: u32, _entry: &[u8]) -> Option<Committed<'_>> {
        None
    }
}

/// The data of this entry that a reader sees, `None` if the entry does not exist for it.
pub fn visible<'a>(seen: &'a dyn View, tree: Tree, node: Node<'a>, repeats: bool) -> Option<&'a [u8]> {
    let mut entry = node.key();
    if repeats {
        entry.extend_from_slice(node.data);
    }
    match seen.committed(tree.objid, &entry) {
        None => (!node.is_deleted()).then_some(node.data),
        Some(Committed::Absent) => None,
        Some(Committed::AsStored) => Some(node.data),
        Some(Committed::Data(data)) => Some(data),
    }
}

/// The data of the entry with this key in a tree with unique keys.
///
/// # Errors
/// What pages say.
pub fn get<'a>(pager: &'a dyn Pager, seen: &'a dyn View, tree: Tree, key: &[u8]) -> Result<Option<&'a [u8]>> {
    Ok(tree::get(pager, tree, key)?.and_then(|node| visible(seen, tree, node, false)))
}

/// Up to `most` entries from `from` on, as (key, data).
///
/// # Errors
/// What pages say.
pub fn scan(
    pager: &dyn Pager,
    seen: &dyn View,
    tree: Tree,
    from: &[u8],
    most: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let repeats = keys_repeat(view(pager, tree.fdp)?);
    let mut found = Vec::new();
    let mut at = tree::seek(pager, tree, from, Seek::AtLeast)?;
    while let Some(position) = at.filter(|_| found.len() < most) {
        let node = position.node(pager)?;
        if let Some(data) = visible(seen, tree, node, repeats) {
            found.push((node.key(), data.to_vec()));
        }
        at = tree::next(pager, tree, position)?;
    }
    Ok(found)
}

/// The row with this primary key; values of separated long columns stay apart.
///
/// # Errors
/// What pages say.
pub fn fetch(
    pager: &dyn Pager,
    seen: &dyn View,
    table: &Table,
    key: &[u8],
) -> Result<Option<BTreeMap<u16, Cell>>> {
    let record = get(pager, seen, table.tree, key)?;
    Ok(record.map(|record| cells(table, record, pager.page_bytes())))
}

/// Primary keys of up to `most` rows whose key in `index` is `key` or greater, in index order.
///
/// # Errors
/// What pages say.
pub fn find(
    pager: &dyn Pager,
    seen: &dyn View,
    index: &Index,
    key: &[u8],
    most: usize,
) -> Result<Vec<Vec<u8>>> {
    let entries = scan(pager, seen, index.tree, key, most)?;
    Ok(entries.into_iter().map(|(_, primary)| primary).collect())
}

/// The bytes of a long value.
///
/// # Errors
/// `Damaged` if its chunks do not make up its size, or what pages say.
pub fn long_value(pager: &dyn Pager, seen: &dyn View, tree: Tree, id: u32) -> Result<Vec<u8>> {
    let size = match get(pager, seen, tree, &long_value_key(id))?.and_then(long_value_size) {
        Some(size) => size,
        None => return damaged(tree.fdp, "a long value that a record names is not there"),
    };
    let mut value = Vec::new();
    while value.len() < size {
        match get(pager, seen, tree, &chunk_key(id, value.len()))? {
            Some(chunk) if value.len() + chunk.len() <= size => value.extend_from_slice(chunk),
            _ => return damaged(tree.fdp, "a chunk of a long value is missing or too long"),
        }
    }
    Ok(value)
}

/// Bytes per chunk of a long value.
pub fn chunk_bytes(page_bytes: usize) -> usize {
    match page_bytes {
        32768 => 8150,
        16384 => 4050,
        small => small - 82,
    }
}

/// Key of a long value's root node.
pub fn long_value_key(id: u32) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Key of the chunk at `offset`.
pub fn chunk_key(id: u32, offset: usize) -> Vec<u8> {
    [id.to_be_bytes(), (offset as u32).to_be_bytes()].concat()
}

/// Data of a long value's root node: one reference, and the size.
pub(crate) fn long_value_root(size: usize) -> Vec<u8> {
    [1, size as u32].iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

pub(crate) fn long_value_size(root: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(root.get(4..)?.try_into().ok()?) as usize)
}

/// What a record says, by column id; columns that are null are left out.
pub fn cells(table: &Table, record: &[u8], page_bytes: usize) -> BTreeMap<u16, Cell> {
    let record = RecordRef::new(record, page_bytes);
    let cell = |column: &crate::database::Column| {
        let here = |value: &[u8]| Cell::Here(value.to_vec());
        let value = match column.id {
            0..FIRST_VARIABLE => {
                here(record.fixed(column.id, column.record_offset, column.kind.fixed_bytes().unwrap_or(0))?)
            }
            FIRST_VARIABLE..FIRST_TAGGED => here(record.variable(column.id)?),
            FIRST_TAGGED.. => {
                let tagged = record.tagged(column.id)?;
                match <[u8; 4]>::try_from(tagged.value) {
                    Ok(id) if tagged.flags & tagged_flags::SEPARATED != 0 => {
                        Cell::Apart(u32::from_le_bytes(id))
                    }
                    _ => here(tagged.value),
                }
            }
        };
        Some((column.id, value))
    };
    table.columns.iter().filter_map(cell).collect()
}

/// The record that has these cells. Columns the table does not have are left out.
pub fn record(table: &Table, cells: &BTreeMap<u16, Cell>, page_bytes: usize) -> Vec<u8> {
    let mut fixed: Vec<(u16, ColumnType)> =
        table.columns.iter().filter(|c| c.id < FIRST_VARIABLE).map(|c| (c.id, c.kind)).collect();
    fixed.sort_by_key(|(id, _)| *id);
    let fixed: Vec<ColumnType> = fixed.into_iter().map(|(_, kind)| kind).collect();
    let stored: Vec<(u16, u8, Vec<u8>)> = cells
        .iter()
        .filter_map(|(id, cell)| {
            let column = table.columns.iter().find(|column| column.id == *id)?;
            let long = if column.kind.is_long() { tagged_flags::LONG } else { 0 };
            Some(match cell {
                Cell::Here(value) => (*id, long, value.clone()),
                Cell::Apart(lid) => (*id, long | tagged_flags::SEPARATED, lid.to_le_bytes().to_vec()),
            })
        })
        .collect();
    let fields: Vec<Field> =
        stored.iter().map(|(id, flags, value)| Field { id: *id, value, flags: *flags }).collect();
    edb::record::encode(&fixed, &fields, page_bytes)
}

/// The primary key of a row.
pub fn primary_key(table: &Table, cells: &BTreeMap<u16, Cell>) -> Vec<u8> {
    key_of(table, &table.primary, cells).0
}

/// The key of a row in `index`; `None` if its nulls keep it out.
pub fn index_key(table: &Table, index: &Index, cells: &BTreeMap<u16, Cell>) -> Option<Vec<u8>> {
    let (key, nulls) = key_of(table, &index.columns, cells);
    let all = nulls.iter().all(|null| *null);
    let first = nulls.first().is_some_and(|null| *null);
    let some = nulls.iter().any(|null| *null);
    let lacks = |flag: u32| index.flags & flag == 0;
    let kept_out = all && lacks(index_flags::ALLOW_ALL_NULLS)
        || !all && first && lacks(index_flags::ALLOW_FIRST_NULL)
        || !all && some && lacks(index_flags::ALLOW_SOME_NULLS);
    (!kept_out).then_some(key)
}

/// A key, and which of its columns are null.
fn key_of(table: &Table, columns: &[KeyColumn], cells: &BTreeMap<u16, Cell>) -> (Vec<u8>, Vec<bool>) {
    let (mut key, mut nulls) = (Vec::new(), Vec::new());
    for part in columns {
        let kind =
            table.columns.iter().find(|column| column.id == part.id).map_or(ColumnType::Binary, |c| c.kind);
        let value = match cells.get(&part.id) {
            Some(Cell::Here(value)) => Some(&value[..]),
            Some(Cell::Apart(_)) | None => None,
        };
        let push = if part.descending { push_descending } else { push_segment };
        push(&mut key, kind, value);
        nulls.push(value.is_none());
    }
    (key, nulls)
}
