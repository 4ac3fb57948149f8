//! Reading pages ahead of redo.
//!
//! Limits: a fixed number of reads under way; each generation's pages are read once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use world::sync::Notify;
use world::{Task, World};

use crate::cache::{Cache, PageKey};

/// Reads pages ahead of redo: a fixed number of tasks share one queue over all generations.
pub(crate) struct Prereader {
    shared: Rc<PrereadQueue>,
    tasks: Vec<Task<()>>,
}

struct PrereadQueue {
    cache: Cache,
    queue: RefCell<VecDeque<(u32, PageKey)>>,
    /// Reads of each generation that are not done.
    open: RefCell<BTreeMap<u32, usize>>,
    added: Notify,
    done: Notify,
    ended: Cell<bool>,
}

impl Prereader {
    pub(crate) fn start(world: &World, cache: &Cache, outstanding: usize) -> Prereader {
        let shared = Rc::new(PrereadQueue {
            cache: cache.clone(),
            queue: RefCell::default(),
            open: RefCell::default(),
            added: Notify::new(),
            done: Notify::new(),
            ended: Cell::new(false),
        });
        let task = |_| {
            let shared = shared.clone();
            world.spawn(async move { shared.work().await })
        };
        let tasks = (0..outstanding.max(1)).map(task).collect();
        Prereader { shared, tasks }
    }

    pub(crate) fn add(&self, generation: u32, pages: &BTreeMap<u8, Vec<u32>>) {
        let mut queue = self.shared.queue.borrow_mut();
        let before = queue.len();
        for (&db, pgnos) in pages {
            queue.extend(pgnos.iter().map(|&pgno| (generation, PageKey { db, pgno })));
        }
        self.shared.open.borrow_mut().insert(generation, queue.len() - before);
        self.shared.added.notify_all();
    }

    /// Waits until nothing of `generation` is on its way any more.
    pub(crate) async fn finished(&self, generation: u32) {
        while self.shared.open.borrow().get(&generation).is_some_and(|open| *open > 0) {
            self.shared.done.wait().await;
        }
    }

    pub(crate) async fn stop(self) {
        self.shared.ended.set(true);
        self.shared.queue.borrow_mut().clear();
        self.shared.added.notify_all();
        for task in self.tasks {
            task.await;
        }
    }
}

impl PrereadQueue {
    async fn work(&self) {
        loop {
            let next = self.queue.borrow_mut().pop_front();
            let Some((generation, key)) = next else {
                if self.ended.get() {
                    return;
                }
                self.added.wait().await;
                continue;
            };
            // Errors are not swallowed: redo fetches the page itself and meets them.
            if self.cache.wait_for_room().await.is_ok() {
                let _ = self.cache.preread(key.db, &[key.pgno]).await;
            }
            // The page may have been there already.
            self.cache.pass_on_room();
            if let Some(open) = self.open.borrow_mut().get_mut(&generation) {
                *open -= 1;
            }
            self.done.notify_all();
        }
    }
}
