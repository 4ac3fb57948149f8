//! The handle of a spawned task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::oneshot;

/// A spawned task. Awaiting gives its result; dropping lets it run on.
///
/// # Panics
/// Awaiting panics if the task itself panicked or its host was torn down.
pub struct Task<T>(oneshot::Receiver<T>);

impl<T> Future for Task<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|result| result.expect("the awaited task ended without a result"))
    }
}

pub(crate) fn pair<T>(future: impl Future<Output = T>) -> (Task<T>, impl Future<Output = ()>) {
    let (sender, receiver) = oneshot::channel();
    let body = async move {
        let _ = sender.send(future.await);
    };
    (Task(receiver), body)
}
