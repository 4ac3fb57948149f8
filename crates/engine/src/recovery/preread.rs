//! Reading pages ahead of redo, in the order of the log, as ESE does it.
//!
//! Each page that a record names is read together with its neighbours that the same stretch of log names. A read counts as
//! ahead until redo has passed the record that asked for it, however early it is done: so redo waits for one page while up to
//! the limit are on their way behind it, and that is the queue that the storage sees in a soft recovery.
//!
//! Limits: a fixed number of reads ahead; each stretch's pages are read once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use world::sync::Notify;
use world::{Task, World};

use crate::cache::{Cache, PageKey};
use crate::log::LogPosition;

/// Reads pages ahead of redo.
pub(crate) struct Prereader {
    shared: Rc<PrereadQueue>,
    tasks: Vec<Task<()>>,
}

/// Neighbouring pages, ascending.
struct Run {
    /// Where the first record that names one of them ends.
    at: LogPosition,
    db: u8,
    pgnos: Vec<u32>,
}

struct PrereadQueue {
    cache: Cache,
    limit: usize,
    queue: RefCell<VecDeque<Run>>,
    /// Of the reads that redo has not passed.
    ahead: RefCell<VecDeque<LogPosition>>,
    wanted: Notify,
    ended: Cell<bool>,
}

impl Prereader {
    pub(crate) fn start(world: &World, cache: &Cache, limit: usize) -> Prereader {
        let limit = limit.max(1);
        let shared = Rc::new(PrereadQueue {
            cache: cache.clone(),
            limit,
            queue: RefCell::default(),
            ahead: RefCell::default(),
            wanted: Notify::new(),
            ended: Cell::new(false),
        });
        let task = |_| {
            let shared = shared.clone();
            world.spawn(async move { shared.work().await })
        };
        let tasks = (0..limit).map(task).collect();
        Prereader { shared, tasks }
    }

    /// The pages that the next stretch of log needs, in its order, with the ends of the records that need them.
    pub(crate) fn add(&self, pages: &[(LogPosition, PageKey)]) {
        self.shared.queue.borrow_mut().extend(runs(pages));
        self.shared.wanted.notify_all();
    }

    /// Redo has come to `position`.
    pub(crate) fn passed(&self, position: LogPosition) {
        let mut ahead = self.shared.ahead.borrow_mut();
        while ahead.pop_front_if(|at| *at <= position).is_some() {
            self.shared.wanted.notify_one();
        }
    }

    pub(crate) async fn stop(self) {
        self.shared.ended.set(true);
        self.shared.queue.borrow_mut().clear();
        self.shared.wanted.notify_all();
        for task in self.tasks {
            task.await;
        }
    }
}

impl PrereadQueue {
    async fn work(&self) {
        loop {
            let Some(run) = self.next() else {
                if self.ended.get() {
                    return;
                }
                self.wanted.wait().await;
                continue;
            };
            // Errors are not swallowed: redo fetches the page itself and meets them.
            if self.cache.wait_for_room().await.is_ok() {
                let _ = self.cache.preread(run.db, &run.pgnos).await;
            }
            // The pages may have been there already.
            self.cache.pass_on_room();
        }
    }

    /// The next run to read, if one more read may be ahead of redo. What is in memory needs none.
    fn next(&self) -> Option<Run> {
        let mut ahead = self.ahead.borrow_mut();
        if ahead.len() >= self.limit {
            return None;
        }
        let mut queue = self.queue.borrow_mut();
        while let Some(run) = queue.pop_front() {
            if run.pgnos.iter().any(|&pgno| self.cache.is_absent(PageKey { db: run.db, pgno })) {
                ahead.push_back(run.at);
                return Some(run);
            }
        }
        None
    }
}

/// The pages in the order in which the log first names them, each once, each with its neighbours.
fn runs(named: &[(LogPosition, PageKey)]) -> Vec<Run> {
    let mut left: BTreeSet<(u8, u32)> = named.iter().map(|(_, key)| (key.db, key.pgno)).collect();
    let mut runs = Vec::new();
    for &(at, PageKey { db, pgno }) in named {
        if !left.remove(&(db, pgno)) {
            continue;
        }
        let before = (0..pgno).rev().take_while(|&before| left.remove(&(db, before))).count() as u32;
        let behind = (pgno + 1..).take_while(|&behind| left.remove(&(db, behind))).count() as u32;
        runs.push(Run { at, db, pgnos: (pgno - before..=pgno + behind).collect() });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_in_the_order_of_the_log_with_their_neighbours() {
        let named = [(1, 70), (2, 9), (3, 8), (3, 70), (4, 3), (5, 10), (6, 11)];
        let named = named.map(|(segment, pgno)| (LogPosition::new(1, segment, 0), PageKey { db: 1, pgno }));
        let found: Vec<_> = runs(&named).into_iter().map(|run| (run.at.segment(), run.pgnos)).collect();
        assert_eq!(found, [(1, vec![70]), (2, vec![8, 9, 10, 11]), (4, vec![3])]);
    }
}
