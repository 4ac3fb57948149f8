//! Two things tasks of one instance tell each other: "please stop" and "the instance has failed".
//!
//! Invariant: a failure is final (design invariant 3). The first one is kept; every later operation is refused.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::sync::Notify;

use crate::error::{Error, Result};

/// Asks background jobs to end. Cloning gives another handle on the same signal.
#[derive(Clone, Default)]
pub struct StopSignal(Rc<(Cell<bool>, Notify)>);

impl StopSignal {
    /// Not yet set.
    pub fn new() -> StopSignal {
        StopSignal::default()
    }

    /// Asks for the stop; jobs end at their next step.
    pub fn stop(&self) {
        self.0.0.set(true);
        self.0.1.notify_all();
    }

    /// Takes the request back, when all jobs that it was for have ended.
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

/// Whether the instance still lives, and whom to wake when it dies.
#[derive(Clone, Default)]
pub(crate) struct Fate(Rc<FateInner>);

#[derive(Default)]
struct FateInner {
    failure: RefCell<Option<String>>,
    wake: RefCell<Vec<Notify>>,
}

impl Fate {
    /// `notify` is woken when the instance fails, so that its waiters see it.
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

    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.failure.borrow() {
            None => Ok(()),
            Some(reason) => Err(Error::Stopped(reason.clone())),
        }
    }

    /// Passes a result through; an error is the end of the instance.
    pub(crate) fn require<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }
}
