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

/// How unkind the disk is.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShadowOptions {
    /// Of all random choices.
    pub seed: u64,
    /// A sync hands over single sectors in random order, with pauses: a kill in the middle leaves torn writes.
    pub torn_sync: bool,
    /// Percentage of writes that reach the real file at once, without waiting for a sync.
    pub early_write_percent: u8,
    /// Syncs that are asked for in this line of the source ("log/writer.rs:12") do nothing: to show that a test fails
    /// without them. Needs line numbers in the binary, and is slow.
    pub ignored_sync: Option<&'static str>,
}

/// What host and files share.
pub(super) struct Shared {
    pub inner: Rc<dyn Host>,
    pub options: ShadowOptions,
    pub random: RefCell<ChaCha12Rng>,
    pub totals: Cell<IoTotals>,
    pub cut: Cell<Option<PowerCut>>,
    /// Where a process that ends alone leaves what is not durable.
    pub leaves: RefCell<Option<PathBuf>>,
}

/// How long a torn sync waits between its pieces.
const PAUSE: Duration = Duration::from_micros(200);

impl Shared {
    pub fn count(&self, count: impl FnOnce(&mut IoTotals)) {
        let mut totals = self.totals.get();
        count(&mut totals);
        self.totals.set(totals);
    }

    /// A random number below `limit`.
    pub fn below(&self, limit: usize) -> usize {
        (self.random.borrow_mut().next_u64() % limit as u64) as usize
    }

    pub fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A chance to be killed, if syncs are torn.
    pub async fn pause(&self) {
        if self.options.torn_sync {
            self.inner.sleep_until(self.inner.now() + PAUSE).await;
        }
    }

    /// Whether the sync that is being asked for is one of those that do nothing.
    pub fn ignores_sync(&self) -> bool {
        self.options.ignored_sync.is_some_and(|line| {
            let line = format!("{line}:");
            std::backtrace::Backtrace::force_capture().to_string().contains(&line)
        })
    }

    /// Runs `work` to its end even if its caller no longer waits for it.
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

/// Completes when first polled again: an operation gives other tasks a turn, as a disk would.
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
