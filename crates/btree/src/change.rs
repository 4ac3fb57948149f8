//! Physical changes of single pages, made when an operation runs and again by redo.
//!
//! Invariants
//! 1. Applying a change is a function of the page's bytes and the change: redo gives the bytes that the operation
//!    gave.
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

/// Name of an entry in its tree: its key, and its data where keys repeat.
pub type EntryName = SmallVec<[u8; 16]>;

/// The key of a node.
pub type NodeKey = SmallVec<[u8; 16]>;

/// Data of an entry. The caller, the edit and the page that keeps the edit share the bytes.
pub type EntryData = Arc<[u8]>;

/// One physical edit of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageOp {
    /// Inserts a node at `slot`.
    Insert {
        /// Slot of the node; nodes from there on move up.
        slot: u16,
        /// Node flags.
        flags: u8,
        /// Full key of the node.
        key: NodeKey,
        /// Data of the node.
        data: EntryData,
    },
    /// Removes node `slot`.
    Delete {
        /// Slot of the node.
        slot: u16,
    },
    /// Gives node `slot` new data.
    Replace {
        /// Slot of the node.
        slot: u16,
        /// New data of the node.
        data: EntryData,
    },
    /// Sets the flags of node `slot`.
    SetNodeFlags {
        /// Slot of the node.
        slot: u16,
        /// Node flags, see `edb::page::node_flags`.
        flags: u8,
    },
    /// Sets the left neighbour of the page.
    SetPrevious {
        /// Page number of the neighbour, 0 for none.
        pgno: u32,
    },
    /// Sets the right neighbour of the page.
    SetNext {
        /// Page number of the neighbour, 0 for none.
        pgno: u32,
    },
    /// Replaces tag 0: the space header of a root.
    SetExternalHeader {
        /// New bytes of tag 0.
        header: Vec<u8>,
    },
    /// Sets the page flags. The flush type stays, because it belongs to the writer of pages.
    SetPageFlags {
        /// Page flags, see `edb::page::page_flags`.
        flags: u32,
    },
    /// Removes node `slot` and all behind it.
    Truncate {
        /// First slot that is removed.
        slot: u16,
    },
    /// Formats the page: gives it new contents, independent of its old contents.
    Format {
        /// Whole new page; its checksum and dbtime have no meaning.
        page: Box<[u8]>,
    },
    /// A `Format` as the log holds it. It must be decoded before it is applied ([`PageChange::decode_page`]).
    FormatLogged {
        /// Page in the coding of its database.
        encoded: Box<[u8]>,
    },
}

/// The changes of a mini-transaction to one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageChange {
    /// Number of the page.
    pub pgno: u32,
    /// Dbtime of the page before the change; meaningless for [`PageOp::Format`].
    pub dbtime_before: u64,
    /// Edits in order; a `Format` only as the first.
    pub ops: SmallVec<[PageOp; 1]>,
}

/// Page changes of a mini-transaction; usually there is one.
pub type PageChanges = SmallVec<[PageChange; 1]>;

/// Error: an edit does not fit the page that it was applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the change does not fit page {pgno}: {reason}")]
pub struct Misfit {
    /// Number of the page.
    pub pgno: u32,
    /// Description of what does not fit.
    pub reason: &'static str,
}

/// Result of redo for one page change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// The page was older and has the change now.
    Applied,
    /// The page already has the change, because it was written later.
    AlreadyThere,
    /// The page has neither the version before the change nor a later one: a write was lost or misdirected.
    WrongVersion {
        /// Dbtime that the change expects.
        expected_dbtime: u64,
        /// Dbtime of the page.
        found_dbtime: u64,
    },
    /// The edits do not fit the page.
    Misfit(Misfit),
}

/// Undo information of a change. Undo is logical: it looks the entry up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Root page of the tree.
    pub fdp: u32,
    /// Object id of the tree. With [`Self::entry`] it names the row lock that the transaction holds until it ends.
    pub objid: u32,
    /// Key of the entry.
    pub key: NodeKey,
    /// Data of the entry in trees where keys repeat, to tell equal keys apart. Empty elsewhere.
    pub tail: EntryName,
    /// Kind of the change, and the state of the entry before it.
    pub was: Before,
}

/// The state of an entry before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The entry did not exist.
    Absent,
    /// The entry was flagged deleted and was revived with new data.
    Deleted {
        /// Data of the entry before.
        data: EntryData,
    },
    /// The entry had other data.
    Data {
        /// Data of the entry before.
        data: EntryData,
    },
    /// The entry existed, and was flagged deleted.
    Present,
}

impl Undo {
    /// Name of the entry in its tree: the key, and the data where keys repeat. Row locks are kept under (objid,
    /// entry).
    pub fn entry(&self) -> EntryName {
        let mut entry = EntryName::from_slice(&self.key);
        if !self.tail.is_empty() {
            entry.extend_from_slice(&self.tail);
        }
        entry
    }
}

/// Mini-transaction: page changes that happen together or not at all, as one log record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MiniTransaction {
    /// Transaction of the change; `None` for cleanup and other work that is never undone.
    pub transaction: Option<u32>,
    /// Undo information of the change.
    pub undo: Option<Undo>,
    /// Whether it undoes the transaction's newest change that is not undone. Recovery then drops that change's undo.
    pub compensates: bool,
    /// Page changes, at most one per page, in any order.
    pub changes: PageChanges,
}

impl MiniTransaction {
    /// Mini-transaction that is never undone.
    pub fn system(changes: PageChanges) -> MiniTransaction {
        MiniTransaction { changes, ..MiniTransaction::default() }
    }
}

impl PageChange {
    /// Page change with a single edit.
    pub fn one(pgno: u32, dbtime_before: u64, op: PageOp) -> PageChange {
        let mut ops = SmallVec::new();
        ops.push(op);
        PageChange { pgno, dbtime_before, ops }
    }

    /// Whether the change formats the page, so that the earlier contents need not be known.
    pub fn formats(&self) -> bool {
        matches!(self.ops.first(), Some(PageOp::Format { .. } | PageOp::FormatLogged { .. }))
    }

    /// Decodes the page of a `Format` that came from the log, if there is one. False if its bytes are not a page.
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

    /// Applies the change and stamps the page with `dbtime`.
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

    /// Applies the change if the page has the version that it expects. `page` may be all zero if the change
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
    /// Applies the edit to a page.
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
