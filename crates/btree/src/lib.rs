//! Trees, space and undo as pure functions over pages; the records that redo them. No I/O, no async, no threads.
//!
//! An operation reads pages through a [`Pager`] and either returns a [`MiniTransaction`], which the engine logs
//! and then applies page by page, or a [`Stop`] that says what it needs first. It never changes a page itself
//! (docs/decisions/001-mini-transactions.md).
//!
//! # Transactions and readers
//!
//! The engine keeps, for each open transaction, the [`Undo`]s of its mini-transactions in order, and a map from
//! (objid, [`Undo::entry`]) to the transaction that holds the entry.
//! * A writer that is about to log a mini-transaction whose undo names an entry that another open transaction
//!   holds stops with [`Stop::Conflict`]: the first writer wins. `Duplicate` and `NotFound` are conflicts too
//!   if another open transaction holds that entry, because they may cease to be true.
//! * A reader that meets an entry held by another transaction takes its committed state from that transaction's
//!   first undo of the entry ([`Undo::was`]) instead of what the page says. For an entry that no transaction holds the
//!   page is right, and a node flagged deleted does not exist. If the holder deleted the entry and brought it
//!   back to life, the committed data is in its second undo of the entry.
//! * When a transaction has committed, each entry it flagged deleted ([`Before::Present`]) is [purged](update::purge)
//!   by a mini-transaction of its own, once no open transaction holds it.

pub mod change;
pub mod check;
pub mod database;
pub mod descents;
mod in_use;
pub mod log_record;
mod merge;
mod overlay;
mod page_coding;
pub mod pager;
pub mod space;
pub mod sparse;
mod split;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod update;
pub mod view;
mod wire;

pub use change::{
    Before, EntryData, EntryName, MiniTransaction, Misfit, NodeKey, PageChange, PageChanges, PageOp, Redo,
    Undo,
};
pub use descents::Descents;
pub use in_use::{PagesInUse, ReferenceSearch, ZeroPages, describe_zero_pages};
pub use log_record::{LogRecord, PageRecord, PageRecordKind};
pub use page_coding::{PageCoding, PlainCoding};
pub use pager::{FilePages, Pager, Result, Stop};
pub use sparse::{NodeFunction, Outline, SparsePage, Spot};
pub use tree::{Position, Seek, Tree};
pub use view::PageView;
pub use wire::{put_int, take_int};
