//! Work on shards: a coordinator calls closures on threads that own their state.
//!
//! Invariants
//! 1. The state of a shard is made on the shard and never leaves it; a call brings a closure in and a plain value out.
//! 2. Calls start in the order they were made and run side by side, as tasks of the shard.
//! 3. A shard ends when its last handle is dropped and its calls have ended.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use futures_util::StreamExt;
use world::channel::{UnboundedReceiver, UnboundedSender, oneshot, unbounded};
use world::sync::Notify;
use world::{LocalFuture, World};

type Call<S> = Box<dyn FnOnce(Rc<S>) -> LocalFuture<'static, ()> + Send>;

/// Handle on a shard with state `S`. Cloning is cheap.
pub struct Shard<S> {
    calls: UnboundedSender<Call<S>>,
}

impl<S> Clone for Shard<S> {
    fn clone(&self) -> Shard<S> {
        Shard { calls: self.calls.clone() }
    }
}

impl<S: 'static> Shard<S> {
    /// Starts shard `index`; `make` builds its state on the shard's thread.
    pub fn start(world: &World, index: usize, make: impl FnOnce(World) -> S + Send + 'static) -> Shard<S> {
        let (calls, receiver) = unbounded();
        world.spawn_shard(index, move |world| Box::pin(serve(world, make, receiver)));
        Shard { calls }
    }

    /// Runs `body` on the shard and waits for its result.
    ///
    /// # Panics
    /// If the shard panicked.
    pub fn call<T, F, R>(&self, body: F) -> impl Future<Output = T> + use<S, T, F, R>
    where
        F: FnOnce(Rc<S>) -> R + Send + 'static,
        R: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let call: Call<S> = Box::new(move |state| {
            let future = body(state);
            Box::pin(async move {
                // The caller may have gone; the work is done all the same.
                let _ = reply.send(future.await);
            })
        });
        let sent = self.calls.unbounded_send(call);
        async move {
            assert!(sent.is_ok(), "the shard has stopped");
            result.await.expect("a call on the shard ended without a result")
        }
    }
}

async fn serve<S: 'static>(
    world: World,
    make: impl FnOnce(World) -> S,
    mut calls: UnboundedReceiver<Call<S>>,
) {
    let state = Rc::new(make(world.clone()));
    let running = Rc::new(Cell::new(0usize));
    let ended = Notify::new();
    while let Some(call) = calls.next().await {
        running.set(running.get() + 1);
        let (work, running, ended) = (call(state.clone()), running.clone(), ended.clone());
        world.spawn_detached(async move {
            work.await;
            running.set(running.get() - 1);
            ended.notify_all();
        });
    }
    while running.get() > 0 {
        ended.wait().await;
    }
}
