//! Several simulations side by side, on several threads, which meet at points in virtual time.
//!
//! Invariants
//! 1. What each simulation does, when they meet and the order of merged messages follow from the simulations alone,
//!    with any number of threads and any scheduling of them.
//! 2. The simulations meet at the latest arrival, after all that happens at that time. Until then virtual time goes on
//!    for those that wait, and none runs past that time. None waits for one that has ended.
//! 3. Messages are merged by (virtual time, side, order of sending).
//! 4. A simulation that waits leaves its thread to another, so fewer threads than simulations are enough.
//!
//! Limits: simulations exchange nothing but meetings. A simulation runs at most ten virtual seconds ahead of
//! what has been merged. Each has a thread of the system; `threads` of them work at a time.

mod clocks;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, ScopedJoinHandle, scope};

use super::Simulation;
use crate::Time;
use clocks::{Clocks, Reached, Step};

/// Stack size of a thread, bytes: that of the main thread.
const STACK_BYTES: usize = 8 << 20;

/// Function that builds and runs one simulation on one thread, from its first to its last step.
pub type SideFn<'a, M, T> = Box<dyn FnOnce(&Side<M>) -> T + Send + 'a>;

/// One of several simulations that run side by side, on its thread.
pub struct Side<M> {
    pace: Rc<Pace>,
    messages: mpsc::Sender<(Time, usize, M)>,
}

/// Meeting point of the simulations. Clones share it.
#[derive(Clone)]
pub struct Meeting(Rc<Pace>);

/// Virtual time of one simulation, as limited by the others.
pub(super) struct Pace {
    clocks: Arc<Clocks>,
    side: usize,
    now: Cell<Time>,
    /// Time up to which events need no check with the others.
    granted: Cell<Time>,
    when_met: RefCell<Option<Box<dyn Fn()>>>,
}

/// Number of processors that this program may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `jobs`, at most `threads` at a time, and returns their results in order.
///
/// `merge` runs on the calling thread. It gets what the jobs send, each message with the number of its job, and is also
/// called without messages, each time that virtual time has gone on.
///
/// # Panics
/// If a job panics: with the panic of the first one. The other jobs end unfinished.
pub fn side_by_side<M: Send, T: Send>(
    threads: usize,
    jobs: Vec<SideFn<'_, M, T>>,
    merge: impl FnMut(Vec<(usize, M)>),
) -> Vec<T> {
    let clocks = Arc::new(Clocks::new(jobs.len(), threads));
    let (sender, messages) = mpsc::channel();
    scope(|scope| {
        let _released = Released(&clocks);
        let running: Vec<ScopedJoinHandle<'_, T>> = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                let (clocks, messages) = (clocks.clone(), sender.clone());
                let builder = Builder::new().name(format!("simulation-{number}")).stack_size(STACK_BYTES);
                let thread = builder.spawn_scoped(scope, move || {
                    let pace = Rc::new(Pace::new(clocks, number));
                    let _ended = Ended(pace.clone());
                    pace.clocks.begin();
                    job(&Side { pace, messages })
                });
                thread.expect("the system has threads left")
            })
            .collect();
        merge_all(&clocks, &messages, merge);
        let mut ended: Vec<_> = running.into_iter().map(ScopedJoinHandle::join).collect();
        if let Some(failed) = clocks.failed()
            && let Err(panic) = ended.swap_remove(failed)
        {
            resume_unwind(panic);
        }
        ended.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Passes the messages of all domains to `merge` in the order of virtual time, until every domain has ended. A message
/// waits until no domain can send an earlier one.
fn merge_all<M>(
    clocks: &Clocks,
    messages: &mpsc::Receiver<(Time, usize, M)>,
    mut merge: impl FnMut(Vec<(usize, M)>),
) {
    let mut waiting: BTreeMap<(Time, usize, u64), M> = BTreeMap::new();
    let mut taken = 0;
    loop {
        let Reached { all_before, is_end } = clocks.reached();
        for (sent, side, message) in messages.try_iter() {
            waiting.insert((sent, side, taken), message);
            taken += 1;
        }
        let later = if is_end { BTreeMap::new() } else { waiting.split_off(&(all_before, 0, 0)) };
        let ready = std::mem::replace(&mut waiting, later);
        merge(ready.into_iter().map(|((_, side, _), message)| (side, message)).collect());
        if is_end {
            return;
        }
        clocks.merged(all_before);
    }
}

impl<M> Side<M> {
    /// Connects the virtual time of `simulation` to the others. Call it once, before anything happens.
    pub fn attach(&self, simulation: &Simulation) {
        assert!(simulation.core.pace.set(self.pace.clone()).is_ok(), "a simulation has one side");
    }

    /// Sends a message to the merging thread.
    pub fn send(&self, message: M) {
        // Messages have no receiver any more if merging has failed; then this thread ends at its next step.
        let _ = self.messages.send((self.pace.now.get(), self.pace.side, message));
    }

    /// Meeting point with the other simulations.
    pub fn meeting(&self) -> Meeting {
        Meeting(self.pace.clone())
    }
}

impl Meeting {
    /// Sets the action of this simulation when all have met.
    pub fn when_met(&self, met: impl Fn() + 'static) {
        *self.0.when_met.borrow_mut() = Some(Box::new(met));
    }

    /// Notes that this simulation has reached the next meeting point.
    pub fn arrive(&self) {
        self.0.ask_again();
        self.0.clocks.arrive(self.0.side, self.0.now.get());
    }

    /// Withdraws from the meeting point; only before the meeting.
    pub fn withdraw(&self) {
        self.0.ask_again();
        self.0.clocks.withdraw(self.0.side);
    }
}

impl Pace {
    fn new(clocks: Arc<Clocks>, side: usize) -> Pace {
        Pace { clocks, side, now: Cell::default(), granted: Cell::default(), when_met: RefCell::default() }
    }

    /// Time up to which no other simulation can influence this one.
    pub fn granted(&self) -> Time {
        self.granted.get()
    }

    /// Time to go on to: that of the next event, or of a meeting before it. `None` if neither comes.
    #[inline]
    pub fn advance(&self, next: Option<Time>) -> Option<Time> {
        let at = next.filter(|at| *at <= self.granted.get()).or_else(|| self.wait(next))?;
        self.now.set(at);
        Some(at)
    }

    #[cold]
    fn wait(&self, next: Option<Time>) -> Option<Time> {
        let Step { at, until, is_meeting } = self.clocks.advance(self.side, next)?;
        self.now.set(at);
        self.granted.set(until);
        if is_meeting && let Some(met) = &*self.when_met.borrow() {
            met();
        }
        Some(at)
    }

    fn ask_again(&self) {
        self.granted.set(self.now.get());
    }
}

/// Reports the end of a job when dropped, also after a panic.
struct Ended(Rc<Pace>);

impl Drop for Ended {
    fn drop(&mut self) {
        let Pace { clocks, side, now, .. } = &*self.0;
        clocks.end(*side, now.get(), std::thread::panicking());
    }
}

/// Ends all jobs when dropped, so that none waits for a merging thread that panicked.
struct Released<'a>(&'a Clocks);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}
