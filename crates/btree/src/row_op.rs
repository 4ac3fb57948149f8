//! Inserting, replacing and deleting rows: sequences of small mini-transactions, one per tree and entry touched.
//!
//! Invariants
//! 1. A step that stops has changed nothing, neither pages nor the operation: it is simply called again.
//! 2. An operation that is refused for its row (`Duplicate`, `NotFound`) has not changed any entry yet. If it is refused
//!    later (a unique index, a conflict) the transaction has to be rolled back.
//!
//! Limits: the primary key of a row never changes; long values are below 4 GiB.

use std::collections::{BTreeMap, VecDeque};

use crate::change::MiniTransaction;
use crate::database::Table;
use crate::pager::{Pager, Result, Stop, damaged};
use crate::row::{
    Cell, Latest, MOST_BYTES_IN_RECORD, Values, cells, chunk_bytes, chunk_key, get, index_key,
    long_value_key, long_value_root, long_value_size, primary_key, record,
};
use crate::tree::{self, Tree};
use crate::update;

/// What a step of a row operation asks of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Log and apply this, then call again.
    Change(MiniTransaction),
    /// The row is done.
    Done,
}

/// A row operation under way.
#[derive(Debug, Clone)]
pub struct RowOp<'t> {
    table: &'t Table,
    key: Vec<u8>,
    /// The row as it is to be.
    row: BTreeMap<u16, Cell>,
    todo: VecDeque<Action>,
}

#[derive(Debug, Clone)]
enum Action {
    /// Refuses a row whose key is taken, before anything is written.
    ExpectAbsent,
    /// Reads the row and plans its deletion.
    PlanDelete,
    /// Reads the row and plans giving these columns new values.
    PlanReplace(BTreeMap<u16, Option<Vec<u8>>>),
    /// Gives a column's value the next long-value id.
    NewLongValue {
        column: u16,
        value: Vec<u8>,
    },
    /// Gives a long value new bytes, chunk by chunk.
    ReplaceLongValue {
        id: u32,
        value: Vec<u8>,
    },
    /// Plans removing a long value.
    PlanDropLongValue {
        id: u32,
    },
    InsertRecord,
    ReplaceRecord,
    Insert {
        tree: Tree,
        key: Vec<u8>,
        data: Vec<u8>,
    },
    Replace {
        tree: Tree,
        key: Vec<u8>,
        data: Vec<u8>,
    },
    Delete {
        tree: Tree,
        key: Vec<u8>,
        data: Vec<u8>,
    },
}

/// What an action comes to: perhaps a change, and what is to be done next.
#[derive(Default)]
struct Outcome {
    change: Option<MiniTransaction>,
    next: Vec<Action>,
    /// The column whose value got this long-value id.
    apart: Option<(u16, u32)>,
    /// The row that was read.
    row: Option<BTreeMap<u16, Cell>>,
}

impl Outcome {
    fn change(mini: MiniTransaction) -> Outcome {
        Outcome { change: Some(mini), ..Outcome::default() }
    }

    fn next(actions: Vec<Action>) -> Outcome {
        Outcome { next: actions, ..Outcome::default() }
    }
}

impl<'t> RowOp<'t> {
    /// Inserts a row.
    pub fn insert(table: &'t Table, values: Values) -> RowOp<'t> {
        let mut todo = VecDeque::from([Action::ExpectAbsent]);
        let mut row = BTreeMap::new();
        for (column, value) in values {
            if lies_apart(table, column, &value) {
                todo.push_back(Action::NewLongValue { column, value });
            } else {
                row.insert(column, Cell::Here(value));
            }
        }
        let key = primary_key(table, &row);
        todo.push_back(Action::InsertRecord);
        for index in &table.indexes {
            if let Some(index_key) = index_key(table, index, &row) {
                todo.push_back(Action::Insert { tree: index.tree, key: index_key, data: key.clone() });
            }
        }
        RowOp { table, key, row, todo }
    }

    /// Deletes the row with this primary key.
    pub fn delete(table: &'t Table, key: &[u8]) -> RowOp<'t> {
        RowOp { table, key: key.to_vec(), row: BTreeMap::new(), todo: VecDeque::from([Action::PlanDelete]) }
    }

    /// Gives columns of the row with this primary key new values, `None` for null.
    pub fn replace(table: &'t Table, key: &[u8], changes: BTreeMap<u16, Option<Vec<u8>>>) -> RowOp<'t> {
        let todo = VecDeque::from([Action::PlanReplace(changes)]);
        RowOp { table, key: key.to_vec(), row: BTreeMap::new(), todo }
    }

    /// The primary key of the row: together with the table's object id what a transaction holds of it.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Does the next thing.
    ///
    /// # Errors
    /// `Duplicate` or `NotFound` for the row, or what pages say.
    pub fn step(&mut self, pager: &dyn Pager) -> Result<Step> {
        while let Some(action) = self.todo.front() {
            let outcome = self.plan(pager, action)?;
            self.todo.pop_front();
            outcome.next.into_iter().rev().for_each(|action| self.todo.push_front(action));
            if let Some(row) = outcome.row {
                self.row = row;
            }
            if let Some((column, id)) = outcome.apart {
                self.row.insert(column, Cell::Apart(id));
            }
            if let Some(mini) = outcome.change {
                return Ok(Step::Change(mini));
            }
        }
        Ok(Step::Done)
    }

    fn plan(&self, pager: &dyn Pager, action: &Action) -> Result<Outcome> {
        let table = self.table;
        Ok(match action {
            Action::ExpectAbsent => match get(pager, &Latest, table.tree, &self.key)? {
                Some(_) => return Err(Stop::Duplicate),
                None => Outcome::default(),
            },
            Action::PlanDelete => self.plan_delete(pager)?,
            Action::PlanReplace(changes) => self.plan_replace(pager, changes)?,
            Action::NewLongValue { column, value } => self.new_long_value(pager, *column, value)?,
            Action::ReplaceLongValue { id, value } => {
                let tree = long_values(table)?;
                let (old_size, chunk) = (size_of(pager, tree, *id)?, chunk_bytes(pager.page_bytes()));
                let mut next = chunk_actions(tree, *id, chunk, value, old_size);
                if old_size != value.len() {
                    let (key, data) = (long_value_key(*id), long_value_root(value.len()));
                    next.push(Action::Replace { tree, key, data });
                }
                Outcome::next(next)
            }
            Action::PlanDropLongValue { id } => {
                let tree = long_values(table)?;
                let (old_size, chunk) = (size_of(pager, tree, *id)?, chunk_bytes(pager.page_bytes()));
                let mut next = chunk_actions(tree, *id, chunk, &[], old_size);
                next.push(Action::Delete { tree, key: long_value_key(*id), data: Vec::new() });
                Outcome::next(next)
            }
            Action::InsertRecord => {
                let record = record(table, &self.row, pager.page_bytes());
                Outcome::change(update::insert(pager, table.tree, &self.key, &record)?)
            }
            Action::ReplaceRecord => {
                let record = record(table, &self.row, pager.page_bytes());
                Outcome::change(update::replace(pager, table.tree, &self.key, &record)?)
            }
            Action::Insert { tree, key, data } => Outcome::change(update::insert(pager, *tree, key, data)?),
            Action::Replace { tree, key, data } => Outcome::change(update::replace(pager, *tree, key, data)?),
            Action::Delete { tree, key, data } => Outcome::change(update::delete(pager, *tree, key, data)?),
        })
    }

    fn read(&self, pager: &dyn Pager) -> Result<BTreeMap<u16, Cell>> {
        let record = get(pager, &Latest, self.table.tree, &self.key)?.ok_or(Stop::NotFound)?;
        Ok(cells(self.table, record, pager.page_bytes()))
    }

    fn plan_delete(&self, pager: &dyn Pager) -> Result<Outcome> {
        let row = self.read(pager)?;
        let mut next =
            vec![Action::Delete { tree: self.table.tree, key: self.key.clone(), data: Vec::new() }];
        for index in &self.table.indexes {
            if let Some(key) = index_key(self.table, index, &row) {
                next.push(Action::Delete { tree: index.tree, key, data: self.key.clone() });
            }
        }
        next.extend(row.values().filter_map(|cell| match cell {
            Cell::Apart(id) => Some(Action::PlanDropLongValue { id: *id }),
            Cell::Here(_) => None,
        }));
        Ok(Outcome::next(next))
    }

    fn plan_replace(&self, pager: &dyn Pager, changes: &BTreeMap<u16, Option<Vec<u8>>>) -> Result<Outcome> {
        let old = self.read(pager)?;
        let mut row = old.clone();
        let mut next = Vec::new();
        for (column, value) in changes {
            let old_id = match old.get(column) {
                Some(Cell::Apart(id)) => Some(*id),
                _ => None,
            };
            let apart = value.as_ref().filter(|value| lies_apart(self.table, *column, value));
            match (old_id, apart) {
                (Some(id), Some(value)) => next.push(Action::ReplaceLongValue { id, value: value.clone() }),
                (Some(id), None) => next.push(Action::PlanDropLongValue { id }),
                (None, Some(value)) => {
                    next.push(Action::NewLongValue { column: *column, value: value.clone() })
                }
                (None, None) => {}
            }
            match value {
                Some(_) if apart.is_some() => {}
                Some(value) => _ = row.insert(*column, Cell::Here(value.clone())),
                None => _ = row.remove(column),
            }
        }
        if primary_key(self.table, &row) != self.key {
            return Err(Stop::KeyChanged);
        }
        next.push(Action::ReplaceRecord);
        for index in &self.table.indexes {
            let (before, after) = (index_key(self.table, index, &old), index_key(self.table, index, &row));
            if before != after {
                let data = &self.key;
                let delete = before.map(|key| Action::Delete { tree: index.tree, key, data: data.clone() });
                let insert = after.map(|key| Action::Insert { tree: index.tree, key, data: data.clone() });
                next.extend(delete.into_iter().chain(insert));
            }
        }
        Ok(Outcome { row: Some(row), next, ..Outcome::default() })
    }

    /// The root node comes first: it takes the id.
    fn new_long_value(&self, pager: &dyn Pager, column: u16, value: &[u8]) -> Result<Outcome> {
        let tree = long_values(self.table)?;
        let id = match tree::last(pager, tree)? {
            None => 1,
            Some(last) => match last.node(pager)?.key().first_chunk() {
                Some(id) => u32::from_be_bytes(*id) + 1,
                None => return damaged(last.pgno, "long value without an id"),
            },
        };
        let next = chunk_actions(tree, id, chunk_bytes(pager.page_bytes()), value, 0);
        let root = update::insert(pager, tree, &long_value_key(id), &long_value_root(value.len()))?;
        Ok(Outcome { change: Some(root), next, apart: Some((column, id)), row: None })
    }
}

fn lies_apart(table: &Table, column: u16, value: &[u8]) -> bool {
    let is_long = table.columns.iter().any(|one| one.id == column && one.kind.is_long());
    is_long && table.long_values.is_some() && value.len() > MOST_BYTES_IN_RECORD
}

fn long_values(table: &Table) -> Result<Tree> {
    let reason = "a record names a long value, but its table has none";
    table.long_values.ok_or(Stop::Damaged { pgno: table.tree.fdp, reason })
}

fn size_of(pager: &dyn Pager, tree: Tree, id: u32) -> Result<usize> {
    let root = get(pager, &Latest, tree, &long_value_key(id))?;
    match root.and_then(long_value_size) {
        Some(size) => Ok(size),
        None => damaged(tree.fdp, "a long value that a record names is not there"),
    }
}

/// Turns the chunks of a value of `old_size` bytes into those of `value`.
fn chunk_actions(tree: Tree, id: u32, chunk_bytes: usize, value: &[u8], old_size: usize) -> Vec<Action> {
    let offsets = (0..value.len().max(old_size)).step_by(chunk_bytes);
    offsets
        .map(|offset| {
            let key = chunk_key(id, offset);
            let end = value.len().min(offset + chunk_bytes);
            if offset >= value.len() {
                return Action::Delete { tree, key, data: Vec::new() };
            }
            let data = value[offset..end].to_vec();
            if offset < old_size {
                Action::Replace { tree, key, data }
            } else {
                Action::Insert { tree, key, data }
            }
        })
        .collect()
}
