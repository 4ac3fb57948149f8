//! Open transactions: what they did, which rows they hold, what waits to be cleaned up after them.
//!
//! Invariants
//! 1. A row that an open transaction has changed is changed by no other: the first writer wins.
//! 2. Other transactions that read such a row see its committed state.
//! 3. The undo list of a transaction is in the order of the log; compensation takes from its end.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use btree::{Before, EntryName, Undo};
use edb::page::search::key_head;
use world::FixedHashMap;

use crate::error::{Error, Result};
use crate::log::{LogPosition, POSITION_END};

/// Number of a transaction without changes, or one that came when all numbers were used up: it can read. The log's
/// numbers have 32 bits, and a repeated one would claim the changes of another transaction.
pub(crate) const NO_ID: u32 = 0;

/// Usual number of changes of a transaction.
const CHANGES_EXPECTED: usize = 8;

/// Key of a row in the lock table: database, tree, entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowKey {
    pub(crate) db: u8,
    pub(crate) objid: u32,
    pub(crate) entry: EntryName,
}

impl RowKey {
    /// Row that a change is about.
    pub(crate) fn of(db: u8, undo: &Undo) -> RowKey {
        RowKey { db, objid: undo.objid, entry: undo.entry() }
    }
}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Names that differ only in the middle are rare.
        let end = self.entry.last_chunk().map_or(0, |end| u64::from_be_bytes(*end));
        state.write_u64(u64::from(self.db) << 32 | u64::from(self.objid));
        state.write_u64(key_head(&self.entry));
        state.write_u64(end);
    }
}

/// Change of a row that has not been undone.
pub(crate) struct Change {
    pub(crate) row: RowKey,
    pub(crate) undo: Undo,
}

/// Open transaction with changes.
struct OpenTransaction {
    /// Position of its first record.
    begin: LogPosition,
    changes: Vec<Rc<Change>>,
}

/// Deleted entry that may be removed for good.
pub(crate) struct Cleanup {
    pub(crate) begin: LogPosition,
    pub(crate) change: Rc<Change>,
}

struct Lock {
    transaction: u32,
    /// Change with the committed state of the row; usually the transaction's first one of it.
    first: Rc<Change>,
    /// Number of changes of the row that have not been undone.
    changes: u32,
}

/// Locked row of the lock table, as one of its changes, which names it.
struct Locked(Rc<Change>);

impl Borrow<RowKey> for Locked {
    fn borrow(&self) -> &RowKey {
        &self.0.row
    }
}

impl Hash for Locked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.row.hash(state);
    }
}

impl PartialEq for Locked {
    fn eq(&self, other: &Locked) -> bool {
        self.0.row == other.0.row
    }
}

impl Eq for Locked {}

/// Transactions of an instance, with their row locks.
#[derive(Default)]
pub(crate) struct Transactions {
    last_id: u32,
    open: FixedHashMap<u32, OpenTransaction>,
    locks: FixedHashMap<Locked, Lock>,
    pub(crate) cleanups: VecDeque<Cleanup>,
}

impl Transactions {
    /// Number for a new transaction, [`NO_ID`] if all are used up. It appears in the log with its first change.
    pub(crate) fn begin(&mut self) -> u32 {
        match self.last_id.checked_add(1) {
            Some(id) => {
                self.last_id = id;
                id
            }
            None => NO_ID,
        }
    }

    /// Notes a number that recovery has seen.
    pub(crate) fn note_id(&mut self, id: u32) {
        self.last_id = self.last_id.max(id);
    }

    /// Whether `transaction` may change the row.
    pub(crate) fn check_lock(&self, transaction: Option<u32>, row: &RowKey) -> Result<()> {
        match self.locks.get(row) {
            Some(lock) if Some(lock.transaction) != transaction => Err(Error::Conflict),
            _ => Ok(()),
        }
    }

    /// Whether any open transaction has changed the row.
    pub(crate) fn is_locked(&self, row: &RowKey) -> bool {
        self.locks.contains_key(row)
    }

    /// Change whose undo contains the committed state of the row, if a transaction other than `reader` has changed it.
    pub(crate) fn change_of_other(&self, reader: u32, row: &RowKey) -> Option<&Change> {
        self.locks.get(row).filter(|lock| lock.transaction != reader).map(|lock| &*lock.first)
    }

    /// Notes a change of `transaction`, logged at `begin`.
    pub(crate) fn changed(&mut self, transaction: u32, change: Option<Change>, begin: LogPosition) {
        let open = self
            .open
            .entry(transaction)
            .or_insert_with(|| OpenTransaction { begin, changes: Vec::with_capacity(CHANGES_EXPECTED) });
        let Some(change) = change.map(Rc::new) else { return };
        open.changes.push(change.clone());
        let lock = self.locks.entry(Locked(change.clone())).or_insert_with(|| Lock {
            transaction,
            first: change.clone(),
            changes: 0,
        });
        assert!(lock.transaction == transaction, "a row is changed by one open transaction at a time");
        lock.changes += 1;
        if let (Before::Present, Before::Deleted { data }) = (&lock.first.undo.was, &change.undo.was) {
            // Deleted and brought back to life: the node has new data now, and the committed data is only here.
            let undo = Undo { was: Before::Data { data: data.clone() }, ..change.undo.clone() };
            lock.first = Rc::new(Change { row: change.row.clone(), undo });
        }
    }

    /// Notes that the last change of `transaction` was undone; after its last change a row is free again.
    pub(crate) fn compensated(&mut self, transaction: u32) {
        let Some(open) = self.open.get_mut(&transaction) else { return };
        let (begin, Some(change)) = (open.begin, open.changes.pop()) else { return };
        if let Some(lock) = self.locks.get_mut(&change.row) {
            assert!(lock.transaction == transaction && lock.changes > 0, "a change is undone once");
            lock.changes -= 1;
            if lock.changes == 0 {
                self.locks.remove(&change.row);
            }
        }
        // An entry that came back to life is flagged deleted again: the cleanup has to remove it for good.
        if matches!(change.undo.was, Before::Deleted { .. }) {
            self.cleanups.push_back(Cleanup { begin, change });
        }
    }

    /// Change to be undone next.
    pub(crate) fn last_change(&self, transaction: u32) -> Option<Rc<Change>> {
        self.open.get(&transaction)?.changes.last().cloned()
    }

    /// Whether the transaction has changed anything.
    pub(crate) fn has_changed(&self, transaction: u32) -> bool {
        self.open.contains_key(&transaction)
    }

    /// Ends the transaction. If it has committed, its deleted entries go to cleanup.
    pub(crate) fn end(&mut self, transaction: u32, committed: bool) {
        let Some(open) = self.open.remove(&transaction) else { return };
        for change in open.changes {
            self.locks.remove(&change.row);
            if committed && matches!(change.undo.was, Before::Present) {
                self.cleanups.push_back(Cleanup { begin: open.begin, change });
            }
        }
        debug_assert!(!self.open.is_empty() || self.locks.is_empty(), "only open transactions hold rows");
    }

    /// Notes from the log that the cleanup of transactions from before `position` is done.
    pub(crate) fn cleaned_up_before(&mut self, position: LogPosition) {
        self.cleanups.retain(|cleanup| cleanup.begin >= position);
    }

    /// Position from which the log must be kept for undo and cleanup.
    pub(crate) fn oldest_needed(&self) -> LogPosition {
        let open = self.open.values().map(|open| open.begin).min();
        let cleanup = self.cleanups.iter().map(|cleanup| cleanup.begin).min();
        open.unwrap_or(POSITION_END).min(cleanup.unwrap_or(POSITION_END))
    }

    /// Numbers of the open transactions, oldest first.
    pub(crate) fn open_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.open.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
