//! What the host and the files of a shadow share: options, random choices, and the power cut that is due.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;

use futures_channel::oneshot;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng;

use super::power_cut::PowerCut;
use world::{Duration, Host, IoTotals, LocalFuture, Result};

/// Options of the shadowed disk: how much it loses.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShadowOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// A sync hands over single sectors in random order, with pauses: a kill in the middle leaves torn writes.
    pub torn_sync: bool,
    /// Percentage of writes that reach the real file at once, before a sync.
    pub early_write_percent: u8,
    /// Source lines ("log/writer.rs:12") whose syncs do nothing, to show that a test fails without them. Needs line
    /// numbers in the binary, and is slow.
    pub ignored_sync: Option<&'static str>,
}

/// State that the host and its files share.
pub(super) struct Shared {
    pub inner: Rc<dyn Host>,
    pub options: ShadowOptions,
    pub random: RefCell<ChaCha12Rng>,
    pub totals: Cell<IoTotals>,
    pub cut: Cell<Option<PowerCut>>,
    /// File for what is not durable when a process ends alone.
    pub leaves: RefCell<Option<PathBuf>>,
}

/// Pause between the pieces of a torn sync.
const PAUSE: Duration = Duration::from_micros(200);

impl Shared {
    pub fn count(&self, count: impl FnOnce(&mut IoTotals)) {
        let mut totals = self.totals.get();
        count(&mut totals);
        self.totals.set(totals);
    }

    /// Draws a random number below `limit`.
    pub fn below(&self, limit: usize) -> usize {
        (self.random.borrow_mut().next_u64() % limit as u64) as usize
    }

    pub fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Pauses if syncs are torn, so that a kill can hit the middle of one.
    pub async fn pause(&self) {
        if self.options.torn_sync {
            self.inner.sleep_until(self.inner.now() + PAUSE).await;
        }
    }

    /// Whether the current sync is one of those that tests switch off.
    pub fn ignores_sync(&self) -> bool {
        self.options.ignored_sync.is_some_and(|line| {
            let line = format!("{line}:");
            std::backtrace::Backtrace::force_capture().to_string().contains(&line)
        })
    }

    /// Runs `work` to its end even if its caller is dropped.
    pub fn finish<T: 'static>(
        self: &Rc<Self>,
        work: impl Future<Output = Result<T>> + 'static,
    ) -> LocalFuture<'static, Result<T>> {
        let shared = self.clone();
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            shared.inner.spawn(Box::pin(async move {
                let _ = sender.send(work.await);
            }));
            receiver.await.expect("the host runs its tasks")
        })
    }
}

/// Future that is ready at its second poll, so that other tasks get a turn as with a real disk.
pub(super) async fn turn() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
