//! What tasks of one instance tell each other: "please stop", "the instance has failed", and "I still work on its
//! files".
//!
//! Invariants
//! 1. A failure is final (design invariant 3). The first one is kept; every later operation is refused.
//! 2. An instance that was dropped touches no file once [`Dropped::ended`] has returned.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::World;
use world::sync::Notify;

use crate::error::{Error, Result};

/// Signal that asks background jobs to end. Clones share it.
#[derive(Clone, Default)]
pub struct StopSignal(Rc<(Cell<bool>, Notify)>);

impl StopSignal {
    /// Creates the signal, not set.
    pub fn new() -> StopSignal {
        StopSignal::default()
    }

    /// Sets the signal; jobs end at their next step.
    pub fn stop(&self) {
        self.0.0.set(true);
        self.0.1.notify_all();
    }

    /// Resets the signal after all jobs have ended.
    pub fn clear(&self) {
        self.0.0.set(false);
    }

    /// Whether the stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.0.get()
    }

    /// Waits until the stop is asked for.
    pub async fn stopped(&self) {
        while !self.is_stopped() {
            self.0.1.wait().await;
        }
    }
}

/// Failure state of an instance: whether it has failed, which waiters to wake then, and the number of tasks that use
/// its files.
#[derive(Clone, Default)]
pub(crate) struct Poison(Rc<PoisonInner>);

#[derive(Default)]
struct PoisonInner {
    failure: RefCell<Option<String>>,
    wake: RefCell<Vec<Notify>>,
    working: Cell<u32>,
    idle: Notify,
}

/// Task that uses the files of an instance; it ends when this is dropped.
pub(crate) struct Working(Poison);

impl Drop for Working {
    fn drop(&mut self) {
        let inner = &self.0.0;
        inner.working.set(inner.working.get() - 1);
        if inner.working.get() == 0 {
            inner.idle.notify_all();
        }
    }
}

/// Instances that were dropped, rather than closed or abandoned, while their tasks used the files. Clones share the
/// list.
#[derive(Clone, Default)]
pub struct Dropped(Rc<RefCell<Vec<(World, Poison)>>>);

impl Dropped {
    pub(crate) fn add(&self, world: &World, poison: &Poison) {
        self.0.borrow_mut().push((world.clone(), poison.clone()));
    }

    /// Waits until the last task of each such instance of this world has ended; after that nothing of them reaches the
    /// files.
    pub(crate) async fn ended(&self, world: &World) {
        if planted!(DroppedInstanceNotAwaited) {
            return;
        }
        loop {
            self.0.borrow_mut().retain(|(_, poison)| poison.is_working());
            let is_here = |(other, _): &&(World, Poison)| Rc::ptr_eq(other.host(), world.host());
            let next = self.0.borrow().iter().find(is_here).map(|(_, poison)| poison.clone());
            let Some(poison) = next else { return };
            poison.idle().await;
        }
    }
}

impl Poison {
    /// Makes a failure of the instance wake `notify`, so that its waiters notice.
    pub(crate) fn wake_on_failure(&self, notify: &Notify) {
        self.0.wake.borrow_mut().push(notify.clone());
    }

    /// Stops the instance for good.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failure = self.0.failure.borrow_mut();
        if failure.is_some() {
            return;
        }
        *failure = Some(error.to_string());
        drop(failure);
        for notify in self.0.wake.borrow().iter() {
            notify.notify_all();
        }
    }

    /// Notes that a task uses the files, until the result is dropped.
    pub(crate) fn working(&self) -> Working {
        self.0.working.set(self.0.working.get() + 1);
        Working(self.clone())
    }

    fn is_working(&self) -> bool {
        self.0.working.get() > 0
    }

    async fn idle(&self) {
        while self.is_working() {
            self.0.idle.wait().await;
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.failure.borrow() {
            None => Ok(()),
            Some(reason) => Err(Error::Stopped(reason.clone())),
        }
    }

    /// Passes a result through; an error stops the instance.
    pub(crate) fn require<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }
}
