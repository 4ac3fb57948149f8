//! Memory for page buffers that a thread of its own makes ready ahead of need.
//!
//! A page of memory that was never used is cleared by the system when it is touched first, and in a virtual
//! machine the host may have to find it before: up to 60 us for a page of a database, as much as all the rest
//! of reading it. So while a cache fills, another core does that.
//!
//! Invariants
//! 1. Nothing is kept ready for those who take nothing: each time that nothing is ready, more is kept from then on.
//! 2. The thread ends, and what is ready is given back, when the stock is dropped.
#![allow(clippy::disallowed_methods, reason = "the thread only makes memory ready: no result depends on it")]

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Largest number of prepared pieces.
const READY_MAX: usize = 4;

/// State of the stock.
pub(crate) struct Stock {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    make: fn() -> NonNull<u8>,
    give_back: fn(NonNull<u8>),
    begin: Box<dyn Fn() + Send + Sync>,
    shelf: Mutex<Shelf>,
    wanted: Condvar,
}

#[derive(Default)]
struct Shelf {
    ready: Vec<PreparedMemory>,
    /// Number of pieces that should be prepared.
    goal: usize,
    ended: bool,
}

struct PreparedMemory(NonNull<u8>);

// SAFETY: no other reference to this memory exists.
unsafe impl Send for PreparedMemory {}

impl Stock {
    /// Creates a stock of pieces from `make`; its thread calls `begin` first.
    pub(crate) fn new(
        make: fn() -> NonNull<u8>,
        give_back: fn(NonNull<u8>),
        begin: impl Fn() + Send + Sync + 'static,
    ) -> Stock {
        let begin = Box::new(begin);
        let shared = Shared { make, give_back, begin, shelf: Mutex::default(), wanted: Condvar::new() };
        Stock { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Takes a prepared piece, or makes one.
    pub(crate) fn take(&self) -> NonNull<u8> {
        let mut shelf = self.shared.shelf();
        let piece = shelf.ready.pop();
        if piece.is_none() {
            shelf.goal = (2 * shelf.goal).clamp(1, READY_MAX);
        }
        drop(shelf);
        self.shared.wanted.notify_one();
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| {
            let shared = self.shared.clone();
            let thread =
                std::thread::Builder::new().name("page-memory".to_owned()).spawn(move || shared.fill());
            thread.expect("the system has threads left")
        });
        piece.map_or_else(self.shared.make, |piece| piece.0)
    }
}

impl Shared {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self) {
        (self.begin)();
        let mut shelf = self.shelf();
        while !shelf.ended {
            if shelf.ready.len() >= shelf.goal {
                shelf = self.wanted.wait(shelf).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(shelf);
            let piece = PreparedMemory((self.make)());
            shelf = self.shelf();
            shelf.ready.push(piece);
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        self.shared.shelf().ended = true;
        self.shared.wanted.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.join().expect("making memory does not panic");
        }
        for piece in self.shared.shelf().ready.drain(..) {
            (self.shared.give_back)(piece.0);
        }
    }
}
