//! How far each of several simulations has come, which of them may go on, and when they have met.
//!
//! The clock of a simulation is the time of its next event: everything before that has happened. A simulation that has
//! arrived goes on to an event only if the meeting cannot be before that event. The meeting is at the latest arrival,
//! so it is no earlier than the clock of a simulation that has not arrived yet.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Duration, Time};

/// Largest virtual time by which a domain may run ahead of the merged messages; it bounds the number of waiting ones.
const AHEAD_MAX: Duration = Duration::from_secs(10);
/// Virtual time after which a domain reports how far it has come.
const STRIDE: Duration = Duration::from_secs(1);
/// Clock of a domain in which nothing happens any more.
const NEVER: Time = Time { ns: u64::MAX };

/// Clocks of all domains.
pub(super) struct Clocks {
    state: Mutex<ClockState>,
    /// Notified when a domain may go on.
    turn: Condvar,
    /// Notified when a clock has moved.
    news: Condvar,
}

struct ClockState {
    sides: Vec<SideState>,
    idle_threads: usize,
    /// Virtual time before which all messages have been merged.
    merged: Time,
    has_news: bool,
    /// First domain that panicked, or all of them if the merging thread did.
    failed: Option<Failed>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    Side(usize),
    Merging,
}

#[derive(Clone, Default)]
struct SideState {
    clock: Time,
    arrived: Option<Time>,
    /// Meeting that a domain has not learned of yet.
    met: Option<Time>,
    is_over: bool,
}

/// Permission of a domain to go on.
pub(super) struct Step {
    /// Time to go on to.
    pub at: Time,
    /// Time up to which it may process events without asking again.
    pub until: Time,
    /// Whether all domains meet at `at`.
    pub is_meeting: bool,
}

/// Progress of all domains.
pub(super) struct Reached {
    /// No domain sends messages from before this time any more.
    pub all_before: Time,
    /// Whether all domains have ended.
    pub is_end: bool,
}

impl Clocks {
    pub fn new(sides: usize, threads: usize) -> Clocks {
        let state = ClockState {
            sides: vec![SideState::default(); sides],
            idle_threads: threads.max(1),
            merged: Time::default(),
            has_news: false,
            failed: None,
        };
        Clocks { state: Mutex::new(state), turn: Condvar::new(), news: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, ClockState>) -> MutexGuard<'a, ClockState> {
        if state.failed.is_some() {
            drop(state);
            // What failed says why; this only ends the thread.
            resume_unwind(Box::new("another simulation failed"));
        }
        self.turn.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an idle thread and takes it.
    pub fn begin(&self) {
        let mut state = self.lock();
        while state.idle_threads == 0 {
            state = self.wait(state);
        }
        state.idle_threads -= 1;
    }

    /// Waits until a domain may go on, and frees its thread meanwhile. `next`: time of its next event; `None` if it
    /// has none and waits for no meeting.
    pub fn advance(&self, side: usize, next: Option<Time>) -> Option<Step> {
        let mut state = self.lock();
        if next.is_none() && state.sides[side].arrived.is_none() {
            return None;
        }
        let next = next.unwrap_or(NEVER);
        state.sides[side].clock = next;
        self.moved(&mut state);
        let mut works = true;
        loop {
            let step = state.step(side, next).filter(|_| works || state.idle_threads > 0);
            if let Some(step) = step {
                state.idle_threads -= usize::from(!works);
                state.sides[side].met = None;
                return Some(step);
            }
            if works {
                works = false;
                state.idle_threads += 1;
                self.turn.notify_all();
            }
            state = self.wait(state);
        }
    }

    /// Notes that a domain has reached the next meeting point.
    pub fn arrive(&self, side: usize, now: Time) {
        self.lock().sides[side].arrived = Some(now);
        self.turn.notify_all();
    }

    /// Notes that a domain has left that point before the meeting.
    pub fn withdraw(&self, side: usize) {
        self.lock().sides[side].arrived = None;
    }

    /// Notes that a domain ended at `now`; the others no longer wait for it.
    pub fn end(&self, side: usize, now: Time, has_failed: bool) {
        let mut state = self.lock();
        let ended = &mut state.sides[side];
        let arrived = ended.arrived.or(Some(now));
        *ended = SideState { clock: NEVER, arrived, met: None, is_over: true };
        state.idle_threads += 1;
        if has_failed {
            state.failed.get_or_insert(Failed::Side(side));
        }
        self.moved(&mut state);
    }

    /// Ends all domains after a failure; their messages are no longer merged.
    pub fn fail(&self) {
        self.lock().failed.get_or_insert(Failed::Merging);
        self.turn.notify_all();
    }

    /// First domain that panicked.
    pub fn failed(&self) -> Option<usize> {
        match self.lock().failed {
            Some(Failed::Side(side)) => Some(side),
            Some(Failed::Merging) | None => None,
        }
    }

    /// Waits until a clock has moved, and returns the progress.
    pub fn reached(&self) -> Reached {
        let mut state = self.lock();
        while !state.has_news {
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.has_news = false;
        let all_before = state.sides.iter().map(|side| side.clock).min().unwrap_or(NEVER);
        Reached { all_before, is_end: state.sides.iter().all(|side| side.is_over) }
    }

    /// Notes that all messages from before `time` have been merged.
    pub fn merged(&self, time: Time) {
        self.lock().merged = time;
        self.turn.notify_all();
    }

    fn moved(&self, state: &mut ClockState) {
        state.meet();
        state.has_news = true;
        self.news.notify_one();
        self.turn.notify_all();
    }
}

impl ClockState {
    fn step(&self, side: usize, next: Time) -> Option<Step> {
        let own = &self.sides[side];
        if let Some(at) = own.met {
            return Some(Step { at, until: at, is_meeting: true });
        }
        let mut limit = self.merged + AHEAD_MAX;
        if own.arrived.is_some() {
            limit = limit.min(self.earliest_meeting());
        }
        (next <= limit).then(|| Step { at: next, until: limit.min(next + STRIDE), is_meeting: false })
    }

    /// Lower bound of the next meeting's time.
    fn earliest_meeting(&self) -> Time {
        let times = self.sides.iter().map(|side| side.arrived.unwrap_or(side.clock));
        times.max().unwrap_or_default()
    }

    /// Meeting of all domains: at the latest arrival, once each has processed everything up to then and is still at
    /// the point.
    fn meet(&mut self) {
        let mut arrivals = self.sides.iter().map(|side| side.arrived);
        let latest = arrivals.try_fold(Time::default(), |latest, at| at.map(|at| at.max(latest)));
        let Some(at) = latest else { return };
        if self.sides.iter().any(|side| side.clock <= at) {
            return;
        }
        for side in self.sides.iter_mut().filter(|side| !side.is_over) {
            *side = SideState { clock: at, arrived: None, met: Some(at), is_over: false };
        }
    }
}
