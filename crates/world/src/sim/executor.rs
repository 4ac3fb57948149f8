//! The deterministic executor: one thread, virtual time, tasks in a slab.
//!
//! Invariants
//! 1. Ready tasks run first in, first out; timers fire by (time, order of creation). Nothing else decides an order.
//! 2. No borrow of the executor is held while a future is polled, woken or dropped: each may call back into it.
//! 3. A task that was killed is never polled again, even if it was killed during its own poll.
//!
//! Limits: a task that wakes itself for ever without waiting keeps virtual time from advancing.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::HostId;
use crate::sync::Notify;
use crate::{LocalFuture, Time};

/// Identity of a task; the generation distinguishes a reused slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskKey {
    slot: u32,
    generation: u32,
}

/// Key of the future that the harness runs. It has no slot and no host.
pub(super) const MAIN: TaskKey = TaskKey { slot: u32::MAX, generation: 0 };

/// Keys of tasks to poll. A mutex only because wakers must be `Sync`; it is never contended.
type Woken = Arc<Mutex<Vec<TaskKey>>>;

struct TaskWaker {
    key: TaskKey,
    queued: AtomicBool,
    woken: Woken,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
        }
    }
}

struct Task {
    host: HostId,
    /// Future of the task; `None` while it is being polled.
    run: Option<StoredFuture>,
    waker: Arc<TaskWaker>,
}

/// Future of a task with its waker, which is stored so that no poll changes reference counts.
struct StoredFuture {
    future: LocalFuture<'static, ()>,
    waker: Waker,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<(u32, Option<Task>)>,
    free: Vec<u32>,
}

impl Tasks {
    fn remove(&mut self, slot: u32) -> Option<Task> {
        let entry = &mut self.slots[slot as usize];
        let task = entry.1.take()?;
        entry.0 += 1;
        self.free.push(slot);
        Some(task)
    }

    fn get(&mut self, key: TaskKey) -> Option<&mut Task> {
        let (generation, task) = self.slots.get_mut(key.slot as usize)?;
        if *generation == key.generation { task.as_mut() } else { None }
    }
}

/// Tasks that are polled one after the other; `next` is the index of the next.
#[derive(Default)]
struct Batch {
    keys: Vec<TaskKey>,
    next: usize,
}

enum Alarm {
    /// Wakes a [`Sleep`]; `None` before its first poll.
    Wake(Option<Waker>),
    Notify(Notify),
    Fired,
}

#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// Timers by slot: sequence number, and action.
    slots: Vec<(u64, Option<Alarm>)>,
    free: Vec<u32>,
    next_sequence: u64,
    cancelled: usize,
}

impl Timers {
    fn add(&mut self, at: Time, alarm: Alarm) -> (u32, u64) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = (sequence, Some(alarm));
        self.heap.push(Reverse((at, sequence, slot)));
        (slot, sequence)
    }

    fn is_live(slots: &[(u64, Option<Alarm>)], sequence: u64, slot: u32) -> bool {
        slots.get(slot as usize).is_some_and(|(holder, alarm)| *holder == sequence && alarm.is_some())
    }

    /// Time of the earliest timer that is still needed.
    fn next(&mut self) -> Option<Time> {
        while let Some(Reverse((at, sequence, slot))) = self.heap.peek().copied() {
            if Self::is_live(&self.slots, sequence, slot) {
                return Some(at);
            }
            self.heap.pop();
            self.cancelled = self.cancelled.saturating_sub(1);
        }
        None
    }

    fn cancel(&mut self, slot: u32) -> Option<Alarm> {
        let alarm = self.slots[slot as usize].1.take();
        self.free.push(slot);
        if !matches!(alarm, Some(Alarm::Fired)) {
            self.cancelled += 1;
            // Time-outs that never fire must not pile up until their time comes.
            if self.cancelled > 1024 && self.cancelled > self.heap.len() / 2 {
                let slots = &self.slots;
                self.heap.retain(|Reverse((_, sequence, slot))| Self::is_live(slots, *sequence, *slot));
                self.cancelled = 0;
            }
        }
        alarm
    }
}

/// Executor of the tasks and timers of all hosts.
pub(super) struct Executor {
    now: Cell<Time>,
    woken: Woken,
    batch: RefCell<Batch>,
    tasks: RefCell<Tasks>,
    timers: RefCell<Timers>,
    /// Stopped hosts, each with its ready tasks.
    stopped: RefCell<Vec<(HostId, Vec<TaskKey>)>>,
    main: Arc<TaskWaker>,
    main_waker: Waker,
}

impl Executor {
    pub fn new() -> Executor {
        let woken = Woken::default();
        let main = Arc::new(TaskWaker { key: MAIN, queued: AtomicBool::new(false), woken: woken.clone() });
        Executor {
            now: Cell::default(),
            woken,
            batch: RefCell::default(),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            stopped: RefCell::default(),
            main_waker: main.clone().into(),
            main,
        }
    }

    /// Virtual time since the simulation began.
    pub fn now(&self) -> Time {
        self.now.get()
    }

    pub fn advance_to(&self, now: Time) {
        debug_assert!(now >= self.now.get(), "virtual time runs forward");
        self.now.set(now);
    }

    pub fn spawn(&self, host: HostId, future: LocalFuture<'static, ()>) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.free.pop().unwrap_or_else(|| {
            tasks.slots.push((0, None));
            tasks.slots.len() as u32 - 1
        });
        let entry = &mut tasks.slots[slot as usize];
        let key = TaskKey { slot, generation: entry.0 };
        let waker = Arc::new(TaskWaker { key, queued: AtomicBool::new(false), woken: self.woken.clone() });
        waker.wake_by_ref();
        entry.1 = Some(Task { host, run: Some(StoredFuture { future, waker: waker.clone().into() }), waker });
    }

    /// Makes the harness's future ready.
    pub fn wake_main(&self) {
        self.main.wake_by_ref();
    }

    /// Takes the ready tasks as the next batch; false if there are none.
    pub fn start_batch(&self) -> bool {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = &mut *self.batch.borrow_mut();
        if batch.next == batch.keys.len() {
            (batch.keys, batch.next) = (std::mem::replace(&mut *woken, std::mem::take(&mut batch.keys)), 0);
            woken.clear();
        } else {
            batch.keys.append(&mut woken);
        }
        !batch.keys.is_empty()
    }

    /// Next task of the batch.
    pub fn next_in_batch(&self) -> Option<TaskKey> {
        let batch = &mut *self.batch.borrow_mut();
        let key = batch.keys.get(batch.next).copied();
        batch.next += usize::from(key.is_some());
        key
    }

    /// Polls the harness's own future.
    pub fn poll_main<T>(&self, future: Pin<&mut dyn Future<Output = T>>) -> Poll<T> {
        self.main.queued.store(false, Ordering::Release);
        future.poll(&mut Context::from_waker(&self.main_waker))
    }

    /// Stops polling the tasks of a host until [`Self::go_on`].
    pub fn stop(&self, host: HostId) {
        self.stopped.borrow_mut().push((host, Vec::new()));
    }

    /// Resumes a stopped host: makes its woken tasks ready.
    pub fn go_on(&self, host: HostId) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, keys) in self.stopped.borrow_mut().extract_if(.., |(stopped, _)| *stopped == host) {
            woken.extend(keys);
        }
    }

    /// Polls a task once, unless it is gone or its host is stopped.
    pub fn poll_task(&self, key: TaskKey) {
        let mut run = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get(key) else { return };
            let mut stopped = self.stopped.borrow_mut();
            if let Some((_, ready)) = stopped.iter_mut().find(|(host, _)| *host == task.host) {
                ready.push(key);
                return;
            }
            drop(stopped);
            let Some(run) = task.run.take() else { return };
            task.waker.queued.store(false, Ordering::Release);
            run
        };
        let poll = run.future.as_mut().poll(&mut Context::from_waker(&run.waker));
        let mut tasks = self.tasks.borrow_mut();
        match (poll, tasks.get(key)) {
            (Poll::Pending, Some(task)) => task.run = Some(run),
            (poll, _) => {
                if poll.is_ready() && tasks.get(key).is_some() {
                    tasks.remove(key.slot);
                }
                drop(tasks);
                drop(run);
            }
        }
    }

    /// Drops all unfinished tasks for which `doomed` holds.
    pub fn kill_tasks(&self, doomed: impl Fn(HostId) -> bool) {
        let killed: Vec<Task> = {
            let mut tasks = self.tasks.borrow_mut();
            let slots: Vec<u32> = (0..tasks.slots.len() as u32)
                .filter(|slot| tasks.slots[*slot as usize].1.as_ref().is_some_and(|task| doomed(task.host)))
                .collect();
            slots.into_iter().filter_map(|slot| tasks.remove(slot)).collect()
        };
        drop(killed);
    }

    /// Number of unfinished tasks.
    pub fn task_count(&self) -> usize {
        let tasks = self.tasks.borrow();
        tasks.slots.len() - tasks.free.len()
    }

    /// Time of the next timer.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.borrow_mut().next()
    }

    /// Fires every timer whose time has come.
    pub fn fire_timers(&self) {
        let now = self.now();
        loop {
            let alarm = {
                let mut timers = self.timers.borrow_mut();
                if timers.next().is_none_or(|at| at > now) {
                    return;
                }
                let Some(Reverse((_, _, slot))) = timers.heap.pop() else { return };
                let entry = &mut timers.slots[slot as usize].1;
                match entry.take() {
                    Some(Alarm::Notify(notify)) => {
                        timers.free.push(slot);
                        Some(Alarm::Notify(notify))
                    }
                    alarm => {
                        *entry = Some(Alarm::Fired);
                        alarm
                    }
                }
            };
            match alarm {
                Some(Alarm::Wake(Some(waker))) => waker.wake(),
                Some(Alarm::Notify(notify)) => notify.notify_all(),
                _ => {}
            }
        }
    }

    /// Sets a timer that notifies.
    pub fn notify_at(&self, at: Time, notify: &Notify) {
        self.timers.borrow_mut().add(at.max(self.now()), Alarm::Notify(notify.clone()));
    }

    /// Removes all timers (at the end of the simulation).
    pub fn clear_timers(&self) {
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
    }
}

/// Future that is ready at a time; always lets other tasks run first.
pub(super) struct Sleep<E: AsRef<Executor>> {
    executor: E,
    slot: u32,
    sequence: u64,
}

impl<E: AsRef<Executor>> Sleep<E> {
    pub fn new(executor: E, at: Time) -> Sleep<E> {
        let core = executor.as_ref();
        let (slot, sequence) = core.timers.borrow_mut().add(at.max(core.now()), Alarm::Wake(None));
        Sleep { executor, slot, sequence }
    }
}

impl<E: AsRef<Executor> + Unpin> Future for Sleep<E> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.executor.as_ref().timers.borrow_mut();
        match timers.slots.get_mut(self.slot as usize) {
            Some((sequence, Some(Alarm::Wake(waker)))) if *sequence == self.sequence => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl<E: AsRef<Executor>> Drop for Sleep<E> {
    fn drop(&mut self) {
        let mut timers = self.executor.as_ref().timers.borrow_mut();
        let held = timers.slots.get(self.slot as usize).is_some_and(|(holder, _)| *holder == self.sequence);
        let alarm = if held { timers.cancel(self.slot) } else { None };
        drop(timers);
        drop(alarm);
    }
}

impl AsRef<Executor> for Rc<super::Core> {
    fn as_ref(&self) -> &Executor {
        &self.executor
    }
}
