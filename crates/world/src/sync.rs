//! Waiting between tasks of one thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Condition variable for tasks, which check their condition again after waking. Wakes in the order of waiting.
#[derive(Clone, Default)]
pub struct Notify(Rc<RefCell<Waiters>>);

#[derive(Default)]
struct Waiters {
    next_ticket: u64,
    waiting: VecDeque<(u64, Waker)>,
    /// Woken tickets; they grow in both queues, so both are searched by bisection.
    woken: VecDeque<u64>,
}

impl Notify {
    /// Creates one without waiting tasks.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes all waiting tasks.
    pub fn notify_all(&self) {
        let mut waiters = self.0.borrow_mut();
        while let Some((ticket, waker)) = waiters.waiting.pop_front() {
            waiters.woken.push_back(ticket);
            waker.wake();
        }
    }

    /// Wakes the task that has waited longest; returns whether there was one.
    pub fn notify_one(&self) -> bool {
        let mut waiters = self.0.borrow_mut();
        let Some((ticket, waker)) = waiters.waiting.pop_front() else { return false };
        waiters.woken.push_back(ticket);
        waker.wake();
        true
    }

    /// Number of waiting tasks.
    pub fn waiting(&self) -> usize {
        self.0.borrow().waiting.len()
    }

    /// Waits for the next notification after this call.
    pub fn wait(&self) -> Wait {
        let mut waiters = self.0.borrow_mut();
        let ticket = waiters.next_ticket;
        waiters.next_ticket += 1;
        waiters.waiting.push_back((ticket, Waker::noop().clone()));
        Wait { notify: self.clone(), ticket, done: false }
    }
}

/// Future of [`Notify::wait`]; registered from its creation, so nothing is missed before the first poll.
pub struct Wait {
    notify: Notify,
    ticket: u64,
    done: bool,
}

impl Future for Wait {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ticket = self.ticket;
        let mut waiters = self.notify.0.borrow_mut();
        if let Ok(at) = waiters.woken.binary_search(&ticket) {
            waiters.woken.remove(at);
            drop(waiters);
            self.done = true;
            return Poll::Ready(());
        }
        if let Ok(at) = waiters.waiting.binary_search_by_key(&ticket, |(waiting, _)| *waiting) {
            waiters.waiting[at].1.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let ticket = self.ticket;
        let mut waiters = self.notify.0.borrow_mut();
        if let Ok(at) = waiters.waiting.binary_search_by_key(&ticket, |(waiting, _)| *waiting) {
            waiters.waiting.remove(at);
        }
        if let Ok(at) = waiters.woken.binary_search(&ticket) {
            // A wake-up that was given to this task is passed on, not lost.
            waiters.woken.remove(at);
            drop(waiters);
            self.notify.notify_one();
        }
    }
}
