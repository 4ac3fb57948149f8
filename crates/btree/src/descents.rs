//! The way that the last descent took, for the next one with the same key: an operation that stopped at a missing page
//! is called again, and an entry that was read is often changed next.
//!
//! Invariants
//! 1. A step is taken again only on the same page at the same dbtime: then the page has the same nodes.

use std::cell::{Cell, RefCell, RefMut};

use edb::page::search::compare_keys;

use crate::change::{EntryName, NodeKey};

/// Pages of a way that are remembered: those of a deeper tree are sought again from there on.
const STEPS_MAX: usize = 6;

/// A page that was passed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Step {
    pub pgno: u32,
    pub slot: u16,
    pub dbtime: u64,
    /// The entry is there; of leaves only.
    pub exact: bool,
    /// Where the slot leads; of branch pages only.
    pub child: Option<u32>,
}

/// The last descent.
#[derive(Default)]
pub(crate) struct Way {
    fdp: u32,
    key: NodeKey,
    /// What tells equal keys apart, where keys repeat.
    tail: EntryName,
    steps: [Step; STEPS_MAX],
    /// The number of steps that are known.
    known: usize,
}

/// Remembers the last descent of one user in one database.
#[derive(Default)]
pub struct Descents {
    database: Cell<u8>,
    way: RefCell<Way>,
}

impl Descents {
    /// What is remembered of this database; the way in another one is forgotten.
    pub fn of(&self, database: u8) -> &Descents {
        if self.database.replace(database) != database {
            self.way.borrow_mut().known = 0;
        }
        self
    }

    /// The way so far to `key` in the tree, and room for what is found now.
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
    /// The step on this page, if the last descent to the same entry passed it as it is now. Else steps from here on are
    /// forgotten.
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

    /// Adds a step on this level to the steps that are known so far.
    pub fn remember(&mut self, level: usize, step: Step) {
        if level == self.known && level < STEPS_MAX {
            self.steps[level] = step;
            self.known += 1;
        }
    }
}
