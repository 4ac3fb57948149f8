//! Reading pages ahead of redo, in the order of the log.
//!
//! Each page that a record names is read together with its neighbours that the same stretch of log names. How many
//! reads are under way is a matter of [`Pace`].
//!
//! Limits: a fixed number of reads under way, and a few times as many pages that are there before redo needs
//! them, an eighth of the cache at most; each stretch's pages are read once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use world::sync::Notify;
use world::{Task, World};

use crate::cache::{Cache, PageKey, PageNeed};
use crate::log::LogPosition;

/// Number of pages that may be in memory before redo reaches them, for each read in the window.
const PAGES_WAITING_PER_READ: usize = 8;

/// Pace of the reads ahead: when the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As in ESE: whenever redo goes on, it requests reads until the limit is reached. While it waits for the oldest
    /// of them, it requests no more, so the storage sees fewer, as in most published soft recoveries (5.5 to 7).
    /// Storage that is faster than redo does not wait for it: reads that came in order count as used.
    OfRedo,
    /// Whenever a read ends, so that the limit is reached as long as there is something to read.
    OfReads,
}

/// Reader that brings pages in ahead of redo.
pub(crate) struct Prereader {
    shared: Rc<PrereadQueue>,
    tasks: Vec<Task<()>>,
}

/// Neighbouring pages, ascending, for one read.
pub(crate) struct PageRun {
    /// End of the first record that names one of them.
    at: LogPosition,
    db: u8,
    pgnos: Vec<u32>,
    wanted: PageNeed,
}

/// Page that a record names.
pub(crate) struct NamedPage {
    /// End of the record.
    pub(crate) at: LogPosition,
    pub(crate) key: PageKey,
    /// Part of the present page that redo of the record needs.
    pub(crate) wanted: PageNeed,
}

/// Read in progress, with the end of the first record that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Read {
    at: LogPosition,
    pages: usize,
    is_done: bool,
}

/// Reads from the oldest one in progress on.
struct Window {
    pace: Pace,
    /// Largest number of reads at a time.
    limit: usize,
    under_way: usize,
    /// Number of reads that may begin before redo goes on.
    may_begin: usize,
    /// Number of reads that have left the window.
    left: u64,
    reads: VecDeque<Read>,
}

impl Window {
    fn new(limit: usize, pace: Pace) -> Window {
        Window { pace, limit, under_way: 0, may_begin: limit, left: 0, reads: VecDeque::new() }
    }

    /// Notes the begin of a read and returns its number.
    fn begin(&mut self, run: &PageRun) -> u64 {
        self.under_way += 1;
        self.may_begin -= 1;
        self.reads.push_back(Read { at: run.at, pages: run.pgnos.len(), is_done: false });
        self.left + self.reads.len() as u64 - 1
    }

    /// Notes the end of a read. Returns the reads that leave the window now, for which redo may have waited.
    fn end(&mut self, number: u64) -> Vec<Read> {
        self.under_way -= 1;
        self.reads[(number - self.left) as usize].is_done = true;
        let leaving = self.reads.iter().take_while(|read| read.is_done).count();
        self.left += leaving as u64;
        if leaving > 0 || self.pace == Pace::OfReads {
            self.may_begin = self.limit - self.under_way;
        }
        self.reads.drain(..leaving).collect()
    }
}

struct PrereadQueue {
    cache: Cache,
    queue: RefCell<VecDeque<PageRun>>,
    window: RefCell<Window>,
    /// Reads that have left the window and that redo has not passed.
    waiting: RefCell<VecDeque<Read>>,
    waiting_pages: Cell<usize>,
    waiting_pages_max: usize,
    wanted: Notify,
    ended: Cell<bool>,
}

impl Prereader {
    pub(crate) fn start(world: &World, cache: &Cache, limit: usize, pace: Pace) -> Prereader {
        let limit = limit.max(1);
        let shared = Rc::new(PrereadQueue {
            cache: cache.clone(),
            queue: RefCell::default(),
            window: RefCell::new(Window::new(limit, pace)),
            waiting: RefCell::default(),
            waiting_pages: Cell::new(0),
            waiting_pages_max: (PAGES_WAITING_PER_READ * limit).min(cache.capacity() / 8),
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

    /// Adds the pages that the next part of the log needs.
    pub(crate) fn add(&self, runs: Vec<PageRun>) {
        self.shared.queue.borrow_mut().extend(runs);
        self.shared.wanted.notify_all();
    }

    /// Notes that redo has reached `position`.
    pub(crate) fn passed(&self, position: LogPosition) {
        let mut waiting = self.shared.waiting.borrow_mut();
        while let Some(read) = waiting.pop_front_if(|read| read.at <= position) {
            self.shared.waiting_pages.update(|pages| pages - read.pages);
            self.shared.wanted.notify_one();
        }
    }

    pub(crate) async fn stop(mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        drop(self);
        for task in tasks {
            task.await;
        }
    }
}

/// Ends its tasks, also when a dropped recovery does not wait for them.
impl Drop for Prereader {
    fn drop(&mut self) {
        self.shared.ended.set(true);
        self.shared.queue.borrow_mut().clear();
        self.shared.wanted.notify_all();
    }
}

impl PrereadQueue {
    async fn work(&self) {
        loop {
            let Some((number, run)) = self.next() else {
                if self.ended.get() {
                    return;
                }
                self.wanted.wait().await;
                continue;
            };
            // Errors are not swallowed: redo fetches the page itself and meets them.
            if self.cache.wait_for_room().await.is_ok() {
                let _ = self.cache.preread(run.db, &run.pgnos, run.wanted).await;
            }
            // The pages may have been there already.
            self.cache.pass_on_room();
            let left = self.window.borrow_mut().end(number);
            // More reads may begin than have left: those that were done before their turn.
            if !left.is_empty() {
                self.wanted.notify_all();
            }
            for read in left {
                self.waiting_pages.update(|pages| pages + read.pages);
                self.waiting.borrow_mut().push_back(read);
            }
        }
    }

    /// Next run to read with its number, if one more may begin. Pages in memory need none.
    fn next(&self) -> Option<(u64, PageRun)> {
        let mut window = self.window.borrow_mut();
        if window.may_begin == 0 || self.waiting_pages.get() > self.waiting_pages_max {
            return None;
        }
        let mut queue = self.queue.borrow_mut();
        while let Some(run) = queue.pop_front() {
            if run.pgnos.iter().any(|&pgno| self.cache.is_absent(PageKey { db: run.db, pgno })) {
                return Some((window.begin(&run), run));
            }
        }
        None
    }
}

/// Groups pages with their neighbours, each page once, by the first record that names one of them. `named`: pages in
/// log order. The bytes of a run are needed if those of one of its pages are.
pub(crate) fn runs(named: &[NamedPage]) -> Vec<PageRun> {
    // By page, with the first record that names it.
    let mut pages: Vec<(PageKey, usize)> = named.iter().map(|named| named.key).zip(0..).collect();
    pages.sort_unstable();
    pages.dedup_by_key(|(key, _)| *key);
    let mut by_record: Vec<usize> = (0..pages.len()).collect();
    by_record.sort_unstable_by_key(|&page| pages[page].1);
    let follows = |page: usize| {
        let (before, key) = (pages[page - 1].0, pages[page].0);
        PageKey { pgno: before.pgno + 1, ..before } == key
    };
    let (mut is_taken, mut runs) = (vec![false; pages.len()], Vec::new());
    for page in by_record {
        if is_taken[page] {
            continue;
        }
        let before = (1..=page).rev().take_while(|&at| follows(at) && !is_taken[at - 1]).count();
        let behind = (page + 1..pages.len()).take_while(|&at| follows(at) && !is_taken[at]).count();
        let run = page - before..page + behind + 1;
        is_taken[run.clone()].fill(true);
        let wants_bytes = pages[run.clone()].iter().any(|(_, first)| named[*first].wanted == PageNeed::Bytes);
        let (key, first) = pages[page];
        runs.push(PageRun {
            at: named[first].at,
            db: key.db,
            pgnos: pages[run].iter().map(|(key, _)| key.pgno).collect(),
            wanted: if wants_bytes { PageNeed::Bytes } else { PageNeed::Version },
        });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_in_the_order_of_the_log_with_their_neighbours() {
        let named = [(1, 70), (2, 9), (3, 8), (3, 70), (4, 3), (5, 10), (6, 11)];
        let named = named.map(|(segment, pgno)| {
            // Of page 70 the log has changes after it has had it as a whole, of page 10 only changes.
            let wanted = if [(3, 70), (5, 10)].contains(&(segment, pgno)) {
                PageNeed::Bytes
            } else {
                PageNeed::Version
            };
            NamedPage { at: LogPosition::new(1, segment, 0), key: PageKey { db: 1, pgno }, wanted }
        });
        let found: Vec<_> =
            runs(&named).into_iter().map(|run| (run.at.segment(), run.pgnos, run.wanted)).collect();
        let expected = [
            (1, vec![70], PageNeed::Version),
            (2, vec![8, 9, 10, 11], PageNeed::Bytes),
            (4, vec![3], PageNeed::Version),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn reads_begin_when_redo_goes_on() {
        let mut window = Window::new(3, Pace::OfRedo);
        let at = |segment| LogPosition::new(1, segment, 0);
        let run = |segment| PageRun { at: at(segment), db: 1, pgnos: vec![1], wanted: PageNeed::Version };
        let numbers = [1, 2, 3].map(|segment| window.begin(&run(segment)));
        let ends =
            |window: &mut Window, number| window.end(number).iter().map(|read| read.at).collect::<Vec<_>>();
        assert_eq!(window.may_begin, 0);
        // Redo waits for the first: the end of the second changes nothing for it.
        assert_eq!(ends(&mut window, numbers[1]), []);
        assert_eq!(window.may_begin, 0);
        assert_eq!(ends(&mut window, numbers[0]), [at(1), at(2)]);
        assert_eq!((window.may_begin, window.under_way), (2, 1));
        assert_eq!([4, 5].map(|segment| window.begin(&run(segment))), [3, 4]);
        assert_eq!(ends(&mut window, numbers[2]), [at(3)]);
        assert_eq!(window.may_begin, 1);

        // At the pace of the reads, the end of any read lets the next one begin.
        let mut window = Window::new(3, Pace::OfReads);
        let numbers = [1, 2, 3].map(|segment| window.begin(&run(segment)));
        assert_eq!((ends(&mut window, numbers[1]), window.may_begin), (vec![], 1));
    }
}
