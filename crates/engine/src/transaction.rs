//! A transaction as its user sees it.
//!
//! Invariants
//! 1. `commit(Durable)` returns after the log is durable up to the commit, and the commit gate, if there is
//!    one, has let it pass; `commit(Lazy)` waits for nothing.
//! 2. A transaction that is dropped without an end is rolled back in the background.

use std::rc::Rc;

use btree::{Before, EntryName, LogRecord, MiniTransaction, Pager, Tree, tree, update};

use crate::cache::PageReads;
use crate::core::{Core, Course};
use crate::error::{Error, Result};
use crate::transactions::{NO_ID, RowKey};

/// Durability of a commit: whether it waits for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The commit survives a power cut once it returns.
    Durable,
    /// The commit survives a power cut if a later durable commit does.
    Lazy,
}

/// An open transaction.
pub struct Transaction {
    core: Rc<Core>,
    /// Number of the transaction, from its first change on; readers need none.
    id: u32,
    ended: bool,
    course: Course,
}

impl Transaction {
    pub(crate) fn begin(core: &Rc<Core>) -> Transaction {
        Transaction { core: core.clone(), id: NO_ID, ended: false, course: Course::default() }
    }

    /// Runs a reading step over the pages of database `db` (numbered from 1). The step is repeated whenever a missing
    /// page has arrived, and holds the pages that it asked for, so it must be small compared with the cache. It sees
    /// the changes of all transactions so far; see [`Self::visible`].
    ///
    /// # Errors
    /// What the step stops with, or what kept its pages away.
    pub async fn read<T>(&self, db: u8, step: impl FnMut(&dyn Pager) -> btree::Result<T>) -> Result<T> {
        self.core.read_in(db, &self.course, step).await
    }

    /// Runs a changing step. Its changes happen together or not at all; a rollback undoes them as far as the step says
    /// how.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another open transaction has changed the entry; else as [`Self::read`]. The
    /// transaction stays open. [`Error::LogVolumeFull`] if there is no space for more log,
    /// [`Error::NumbersUsedUp`] if a number of the log or the database would begin anew.
    pub async fn change<T>(
        &mut self,
        db: u8,
        step: impl FnMut(&dyn Pager) -> btree::Result<(MiniTransaction, T)>,
    ) -> Result<T> {
        self.core.check_room(db)?;
        if self.id == NO_ID {
            self.id = self.core.transactions.borrow_mut().begin();
        }
        if self.id == NO_ID {
            return Err(Error::NumbersUsedUp {
                what: "transaction numbers",
                of: self.core.log.names().directory.clone(),
                remedy: "close the instance and open it again, and they begin at 1",
            });
        }
        self.core.change_in(db, &self.course, Some(self.id), step).await
    }

    /// Pages that were read for the transaction so far.
    pub fn page_reads(&self) -> PageReads {
        self.course.reads.get()
    }

    /// Inserts an entry into a tree.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if it exists, [`Error::Conflict`] if another open transaction holds it; else as
    /// [`Self::change`].
    pub async fn insert(&mut self, db: u8, tree: Tree, key: &[u8], data: &[u8]) -> Result<()> {
        let done = self.change(db, |pager| Ok((update::insert(pager, tree, key, data)?, ()))).await;
        self.or_conflict(done, db, tree, key)
    }

    /// Replaces the data of an entry.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, [`Error::Conflict`] if another open transaction holds it; else as
    /// [`Self::change`].
    pub async fn replace(&mut self, db: u8, tree: Tree, key: &[u8], data: &[u8]) -> Result<()> {
        let done = self.change(db, |pager| Ok((update::replace(pager, tree, key, data)?, ()))).await;
        self.or_conflict(done, db, tree, key)
    }

    /// Deletes an entry of a tree whose keys are unique.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub async fn delete(&mut self, db: u8, tree: Tree, key: &[u8]) -> Result<()> {
        let done = self.change(db, |pager| Ok((update::delete(pager, tree, key, &[])?, ()))).await;
        self.or_conflict(done, db, tree, key)
    }

    /// Data of an entry of a tree whose keys are unique, as visible to this transaction.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn get(&self, db: u8, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let step = |pager: &dyn Pager| {
            let node = tree::get(pager, tree, key)?;
            Ok(node.map(|node| (node.is_deleted(), node.data.to_vec())))
        };
        // No wait between the page and the lock table: both tell of the same moment.
        let stored = self.read(db, step).await?;
        Ok(self.visible(db, tree.objid, key, stored))
    }

    /// Data of an entry as visible to this transaction. `stored`: state on its page: whether the node is flagged
    /// deleted, and its data. There must be no wait between reading the page and this call.
    pub fn visible(
        &self,
        db: u8,
        objid: u32,
        entry: &[u8],
        stored: Option<(bool, Vec<u8>)>,
    ) -> Option<Vec<u8>> {
        self.visible_as(db, objid, entry, stored, <[u8]>::to_vec)
    }

    /// As [`Self::visible`] with a value that the caller derived from the stored data; `make` derives it from data
    /// that the page does not have.
    pub fn visible_as<T>(
        &self,
        db: u8,
        objid: u32,
        entry: &[u8],
        stored: Option<(bool, T)>,
        make: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let transactions = self.core.transactions.borrow();
        let row = RowKey { db, objid, entry: EntryName::from_slice(entry) };
        let Some(change) = transactions.change_of_other(self.id, &row) else {
            return stored.filter(|(deleted, _)| !deleted).map(|(_, data)| data);
        };
        match &change.undo.was {
            Before::Absent | Before::Deleted { .. } => None,
            Before::Present => stored.map(|(_, data)| data),
            Before::Data { data } => Some(make(data)),
        }
    }

    /// Turns `Duplicate` and `NotFound` into a conflict while another open transaction holds the entry, since they may
    /// cease to be true.
    fn or_conflict(&self, done: Result<()>, db: u8, tree: Tree, key: &[u8]) -> Result<()> {
        match done {
            Err(Error::Duplicate | Error::NotFound) if self.is_held_by_other(db, tree.objid, key) => {
                Err(Error::Conflict)
            }
            done => done,
        }
    }

    /// Whether another open transaction has changed this entry.
    pub fn is_held_by_other(&self, db: u8, objid: u32, entry: &[u8]) -> bool {
        let row = RowKey { db, objid, entry: EntryName::from_slice(entry) };
        self.core.transactions.borrow().change_of_other(self.id, &row).is_some()
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// If the instance has stopped: then only the next recovery finds out whether the commit survived. If
    /// it is being closed: then the changes are undone.
    pub async fn commit(mut self, durability: Durability) -> Result<()> {
        self.ended = true;
        self.core.poison.check()?;
        self.core.check_open()?;
        if !self.core.transactions.borrow().has_changed(self.id) {
            return Ok(());
        }
        let durable = durability == Durability::Durable;
        let end = self.core.append(&LogRecord::Commit { transaction: self.id, durable });
        {
            let mut transactions = self.core.transactions.borrow_mut();
            transactions.end(self.id, true);
            if !transactions.cleanups.is_empty() {
                self.core.cleanup.notify_all();
            }
        }
        if !durable || planted!(CommitNotFlushed) {
            return Ok(());
        }
        self.core.log.flush_to(end).await?;
        self.core.log.assert_durable(end);
        let gate = self.core.commit_gate.borrow().clone();
        match gate {
            Some(gate) => gate.pass(end).await,
            None => Ok(()),
        }
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// If a change cannot be undone; the instance stops then, and recovery does it.
    pub async fn rollback(mut self) -> Result<()> {
        // Dropped before its end, it goes on in the background.
        let done = roll_back(&self.core, self.id).await;
        self.ended = true;
        done
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.ended
            || planted!(DroppedTransactionStays)
            || !self.core.transactions.borrow().has_changed(self.id)
        {
            return;
        }
        let (core, id) = (self.core.clone(), self.id);
        self.core.world.spawn_detached(async move { drop(roll_back(&core, id).await) });
    }
}

/// Undoes what is left of a transaction, newest change first. The task of a dropped transaction and a closing instance
/// may do it at the same time: the first that reaches a change undoes it.
pub(crate) async fn roll_back(core: &Core, id: u32) -> Result<()> {
    let undone = undo_all(core, id).await;
    core.poison.require(undone)?;
    // It has changed nothing, or another task has ended it.
    if !core.transactions.borrow().has_changed(id) {
        return Ok(());
    }
    core.append(&LogRecord::Rollback { transaction: id });
    core.transactions.borrow_mut().end(id, false);
    Ok(())
}

async fn undo_all(core: &Core, id: u32) -> Result<()> {
    loop {
        let next = core.transactions.borrow().last_change(id);
        let Some(change) = next else { return Ok(()) };
        let step = |pager: &dyn Pager| {
            let last = core.transactions.borrow().last_change(id);
            if last.is_none_or(|last| !Rc::ptr_eq(&last, &change)) {
                return Ok((MiniTransaction::default(), ()));
            }
            if planted!(DeleteNotUndone) && matches!(change.undo.was, Before::Present) {
                return Ok((MiniTransaction { compensates: true, ..MiniTransaction::default() }, ()));
            }
            Ok((update::undo(pager, &change.undo)?, ()))
        };
        core.change(change.row.db, Some(id), step).await?;
    }
}
