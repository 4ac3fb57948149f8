//! Physical changes of single pages, made when an operation runs and again by redo.
//!
//! Invariants
//! 1. Applying a change is a function of the page's bytes and the change: redo gives the bytes that the operation gave.
//! 2. A mini-transaction has at most one `PageChange` per page, so the page's dbtime says whether redo has
//!    anything to do.
//! 3. A change that does not fit the page it meets (wrong slot, no room) is `Misfit`, never a panic; the page is then
//!    undefined and must be dropped.
//!
//! Limits: slots are 16 bits; a page is at most 32 KiB.

use std::sync::Arc;

use edb::page::{PageMut, PageRef, is_page_size, page_flags};
use smallvec::SmallVec;
use thiserror::Error;

use crate::page_coding::PageCoding;

/// What tells an entry apart in its tree.
pub type EntryName = SmallVec<[u8; 16]>;

/// The key of a node.
pub type NodeKey = SmallVec<[u8; 16]>;

/// The data of an entry. Who made it, the edit, and the page that keeps the edit share the bytes.
pub type EntryData = Arc<[u8]>;

/// One physical edit of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageOp {
    /// Puts a node at `slot`.
    Insert {
        /// Its place; nodes from there on move up.
        slot: u16,
        /// Node flags.
        flags: u8,
        /// Full key.
        key: NodeKey,
        /// Data.
        data: EntryData,
    },
    /// Removes node `slot`.
    Delete {
        /// Its place.
        slot: u16,
    },
    /// Gives node `slot` new data.
    Replace {
        /// Its place.
        slot: u16,
        /// The new data.
        data: EntryData,
    },
    /// Sets the flags of node `slot`.
    SetNodeFlags {
        /// Its place.
        slot: u16,
        /// See `edb::page::node_flags`.
        flags: u8,
    },
    /// Sets the left neighbour.
    SetPrevious {
        /// Its page number, 0 for none.
        pgno: u32,
    },
    /// Sets the right neighbour.
    SetNext {
        /// Its page number, 0 for none.
        pgno: u32,
    },
    /// Replaces tag 0: the space header of a root.
    SetExternalHeader {
        /// The new bytes.
        header: Vec<u8>,
    },
    /// Sets the page flags; the flush type stays, it belongs to the writer of pages.
    SetPageFlags {
        /// See `edb::page::page_flags`.
        flags: u32,
    },
    /// Removes node `slot` and all behind it.
    Truncate {
        /// The first to go.
        slot: u16,
    },
    /// Makes the page anew, whatever it was.
    Format {
        /// The whole new page; checksum and dbtime in it mean nothing.
        page: Box<[u8]>,
    },
    /// The same as the log holds it. It fits no page before it is decoded ([`PageChange::decode_page`]).
    FormatLogged {
        /// What the coding of its database has made of the page.
        encoded: Box<[u8]>,
    },
}

/// The changes of a mini-transaction to one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageChange {
    /// The page.
    pub pgno: u32,
    /// Its dbtime before the change; meaningless for [`PageOp::Format`].
    pub dbtime_before: u64,
    /// The edits in order; a `Format` only as the first.
    pub ops: SmallVec<[PageOp; 1]>,
}

/// The changes of a mini-transaction, of one page as a rule.
pub type PageChanges = SmallVec<[PageChange; 1]>;

/// An edit met a page that it was not made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the change does not fit page {pgno}: {reason}")]
pub struct Misfit {
    /// The page.
    pub pgno: u32,
    /// What does not fit.
    pub reason: &'static str,
}

/// What redo did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// The page was old and has the change now.
    Applied,
    /// The page was written after the change.
    AlreadyThere,
    /// The page is neither the one before the change nor a later one: a write was lost or went astray.
    WrongVersion {
        /// What the change expects.
        expected_dbtime: u64,
        /// What the page has.
        found_dbtime: u64,
    },
    /// The edits do not fit the page.
    Misfit(Misfit),
}

/// What undoing a change of a transaction needs. Undo is logical: the entry is sought again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Root of the tree.
    pub fdp: u32,
    /// Object id of the tree. With [`Self::entry`] it names the entry that the transaction holds until it ends.
    pub objid: u32,
    /// Key of the entry.
    pub key: NodeKey,
    /// Its data in trees where keys repeat: tells equal keys apart. Empty elsewhere.
    pub tail: EntryName,
    /// What was done, and what was there before.
    pub was: Before,
}

/// The state of an entry before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// There was none.
    Absent,
    /// There was one, flagged deleted, that came back to life with new data.
    Deleted {
        /// Its old data.
        data: EntryData,
    },
    /// It had this data.
    Data {
        /// Its old data.
        data: EntryData,
    },
    /// It was there, and was flagged deleted.
    Present,
}

impl Undo {
    /// What tells the entry apart in its tree: the key, and the data where keys repeat. Row locks are kept under
    /// (objid, entry).
    pub fn entry(&self) -> EntryName {
        let mut entry = EntryName::from_slice(&self.key);
        if !self.tail.is_empty() {
            entry.extend_from_slice(&self.tail);
        }
        entry
    }
}

/// One step of work that happens as a whole or not at all: one log record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MiniTransaction {
    /// The transaction it belongs to; `None` for cleanup and other work that is never undone.
    pub transaction: Option<u32>,
    /// How to undo it.
    pub undo: Option<Undo>,
    /// It undoes the transaction's last change that has not been undone: recovery drops that change's undo.
    pub compensates: bool,
    /// At most one per page; their order has no meaning.
    pub changes: PageChanges,
}

impl MiniTransaction {
    /// A step that is never undone.
    pub fn system(changes: PageChanges) -> MiniTransaction {
        MiniTransaction { changes, ..MiniTransaction::default() }
    }
}

impl PageChange {
    /// A change of one edit.
    pub fn one(pgno: u32, dbtime_before: u64, op: PageOp) -> PageChange {
        let mut ops = SmallVec::new();
        ops.push(op);
        PageChange { pgno, dbtime_before, ops }
    }

    /// Whether it makes the page anew, so that what the page was need not be known.
    pub fn formats(&self) -> bool {
        matches!(self.ops.first(), Some(PageOp::Format { .. } | PageOp::FormatLogged { .. }))
    }

    /// Decodes the page that it makes anew, if it makes one and came from the log. False if that is no page.
    pub fn decode_page(&mut self, coding: &dyn PageCoding) -> bool {
        for op in &mut self.ops {
            let PageOp::FormatLogged { encoded } = op else { continue };
            let mut page = vec![0; coding.page_bytes()].into_boxed_slice();
            // Later edits rely on a page that keeps its rules.
            if !coding.decode(self.pgno, encoded, &mut page) || PageRef::new(&page).validate().is_err() {
                return false;
            }
            *op = PageOp::Format { page };
        }
        true
    }

    /// Makes the change and stamps the page with `dbtime`.
    ///
    /// # Errors
    /// If an edit does not fit; the page is then undefined.
    pub fn apply(&self, page: &mut [u8], dbtime: u64) -> Result<(), Misfit> {
        for op in &self.ops {
            op.apply(self.pgno, page)?;
        }
        PageMut::new(page).set_dbtime(dbtime);
        Ok(())
    }

    /// Makes the change if the page is the one it was made for. `page` may be all zero if the change
    /// [formats](Self::formats) it.
    pub fn redo(&self, page: &mut [u8], dbtime: u64) -> Redo {
        let found_dbtime = PageRef::new(page).dbtime();
        if found_dbtime >= dbtime {
            return Redo::AlreadyThere;
        }
        if !self.formats() && found_dbtime != self.dbtime_before {
            return Redo::WrongVersion { expected_dbtime: self.dbtime_before, found_dbtime };
        }
        match self.apply(page, dbtime) {
            Ok(()) => Redo::Applied,
            Err(misfit) => Redo::Misfit(misfit),
        }
    }
}

impl PageOp {
    /// Makes the edit.
    ///
    /// # Errors
    /// If it does not fit the page.
    pub fn apply(&self, pgno: u32, bytes: &mut [u8]) -> Result<(), Misfit> {
        let misfit = |reason| Err(Misfit { pgno, reason });
        if !is_page_size(bytes.len()) {
            return misfit("not of a page's size");
        }
        if let PageOp::Format { page } = self {
            if page.len() != bytes.len() {
                return misfit("made for another page size");
            }
            bytes.copy_from_slice(page);
            return Ok(());
        }
        let mut page = PageMut::new(bytes);
        if page.view().is_blank() {
            return misfit("no record has created it yet");
        }
        let nodes = page.view().node_count();
        let no_room = |_| Misfit { pgno, reason: "no room" };
        match self {
            PageOp::Insert { slot, .. } | PageOp::Truncate { slot } if usize::from(*slot) > nodes => {
                return misfit("no such slot");
            }
            PageOp::Delete { slot } | PageOp::Replace { slot, .. } | PageOp::SetNodeFlags { slot, .. }
                if usize::from(*slot) >= nodes =>
            {
                return misfit("no such slot");
            }
            PageOp::Insert { slot, flags, key, data } => {
                page.insert(usize::from(*slot), key, data, *flags).map_err(no_room)?;
            }
            PageOp::Delete { slot } => page.remove(usize::from(*slot)),
            PageOp::Replace { slot, data } => page.replace_data(usize::from(*slot), data).map_err(no_room)?,
            PageOp::SetNodeFlags { slot, flags } => page.set_node_flags(usize::from(*slot), *flags),
            PageOp::SetPrevious { pgno } => page.set_prev(*pgno),
            PageOp::SetNext { pgno } => page.set_next(*pgno),
            PageOp::SetExternalHeader { header } => page.set_external_header(header).map_err(no_room)?,
            PageOp::SetPageFlags { flags } => {
                let flush_type = page.view().flags() & page_flags::FLUSH_TYPE;
                page.set_flags(flags & !page_flags::FLUSH_TYPE | flush_type);
            }
            PageOp::Truncate { slot } => page.truncate(usize::from(*slot)),
            PageOp::FormatLogged { .. } => return misfit("its page is not decoded"),
            PageOp::Format { .. } => {}
        }
        Ok(())
    }
}
