//! The way that the last descent took, for the next one with the same key: an operation that stopped at a missing page
//! is called again, and an entry that was read is often changed next.
//!
//! Invariants
//! 1. A step is taken again only on the same page at the same dbtime: then the page has the same nodes.

use std::cell::{Cell, RefCell, RefMut};

use edb::page::search::compare_keys;

use crate::change::{EntryName, NodeKey};

/// Largest number of pages of a descent that are remembered; a deeper tree is searched from there on.
const STEPS_MAX: usize = 6;

/// Page that a descent passed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Step {
    pub pgno: u32,
    pub slot: u16,
    pub dbtime: u64,
    /// Whether the entry exists; leaves only.
    pub exact: bool,
    /// Child under the slot; branch pages only.
    pub child: Option<u32>,
}

/// Last descent from a root to a leaf.
#[derive(Default)]
pub(crate) struct Way {
    fdp: u32,
    key: NodeKey,
    /// Data of the entry where keys repeat, to tell equal keys apart.
    tail: EntryName,
    steps: [Step; STEPS_MAX],
    /// Number of steps that are known.
    known: usize,
}

/// Memory of the last descent of one user in one database.
#[derive(Default)]
pub struct Descents {
    database: Cell<u8>,
    way: RefCell<Way>,
}

impl Descents {
    /// Last descent in this database; a descent in another database is forgotten.
    pub fn of(&self, database: u8) -> &Descents {
        if self.database.replace(database) != database {
            self.way.borrow_mut().known = 0;
        }
        self
    }

    /// Known steps of the descent to `key` in the tree, with room for new ones.
    pub(crate) fn way_to(&self, fdp: u32, key: &[u8]) -> RefMut<'_, Way> {
        let mut way = self.way.borrow_mut();
        if way.fdp != fdp || compare_keys(&way.key, key).is_ne() {
            way.known = 0;
            (way.fdp, way.key) = (fdp, NodeKey::from_slice(key));
        }
        way
    }
}

impl Way {
    /// Step on this page, if the last descent to the same entry passed the page in its present version. Otherwise the
    /// steps from here on are forgotten.
    #[inline]
    pub fn step(&mut self, level: usize, pgno: u32, dbtime: u64, tail: &[u8]) -> Option<Step> {
        if level == 0 && compare_keys(&self.tail, tail).is_ne() {
            self.known = 0;
            self.tail = EntryName::from_slice(tail);
        }
        let step = *self.steps[..self.known].get(level)?;
        if step.pgno == pgno && step.dbtime == dbtime {
            return Some(step);
        }
        self.known = level;
        None
    }

    /// Remembers a step behind those that are known.
    pub fn remember(&mut self, level: usize, step: Step) {
        if level == self.known && level < STEPS_MAX {
            self.steps[level] = step;
            self.known += 1;
        }
    }
}
