//! Operations in flight: submitted to the driver, and accounted for until they complete.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use compio::BufResult;
use compio::buf::IntoInner;
use compio::driver::OpCode;
use compio::driver::op::Asyncify;
use compio::runtime::{Runtime, Submit};

use super::cores::Cores;
use super::passage::Passages;
use crate::LocalFuture;

/// Longest time that begun operations wait for the kernel. They go to it at the end of an executor turn, or earlier if
/// the turn takes this long. Completions come in bursts: if a whole burst were handled first, device and program would
/// wait for each other in turn. The device of a virtual machine suffers most, because waking it costs an exit.
const HELD_BACK_MAX: Duration = Duration::from_micros(3);

/// I/O operations of one thread.
pub(super) struct Ops {
    /// Cores for the thread pool.
    cores: Option<Cores>,
    /// Time of the last hand-over to the kernel.
    handed_over: Cell<Instant>,
    passages: Passages,
    in_flight: Cell<usize>,
    /// Whether the thread is ending: submitted operations complete, and nothing new starts.
    closing: Cell<bool>,
    /// Operations whose futures were dropped before completion. The main future polls them.
    orphans: RefCell<Vec<LocalFuture<'static, ()>>>,
    /// Waker of the main future.
    main: RefCell<Waker>,
    /// Waker that waits for the last operation, which may belong to a task: the executor sleeps once that task has
    /// run.
    closer: RefCell<Option<Waker>>,
}

impl Ops {
    pub fn new(cores: Option<Cores>) -> Ops {
        Ops {
            cores,
            handed_over: Cell::new(Instant::now()),
            passages: Passages::new(Instant::now()),
            in_flight: Cell::default(),
            closing: Cell::default(),
            orphans: RefCell::default(),
            main: RefCell::new(Waker::noop().clone()),
            closer: RefCell::default(),
        }
    }

    /// Runs `main` and the tasks of this thread, turn by turn.
    pub fn run<T>(&self, runtime: &Runtime, main: impl Future<Output = T>) -> T {
        runtime.enter(|| {
            self.main.replace(runtime.waker());
            let waker = runtime.waker();
            let mut cx = Context::from_waker(&waker);
            let mut main = std::pin::pin!(main);
            loop {
                let now = Instant::now();
                self.handed_over.set(now);
                self.passages.turn(now);
                if !self.orphans.borrow().is_empty() {
                    self.poll_orphans(&mut cx);
                }
                if let Poll::Ready(result) = main.as_mut().poll(&mut cx) {
                    runtime.run();
                    return result;
                }
                let goes_on = runtime.run();
                self.passages.look(Instant::now());
                if goes_on { runtime.poll_with(Some(Duration::ZERO)) } else { runtime.poll() }
            }
        })
    }

    /// Notes that an operation waits for the end of the turn.
    fn pushed(&self) -> usize {
        let now = Instant::now();
        let slot = self.passages.begin(now);
        if now.saturating_duration_since(self.handed_over.get()) >= HELD_BACK_MAX {
            self.hand_over_at(now);
        }
        slot
    }

    /// Hands operations to the kernel before the end of the turn.
    pub fn hand_over(&self) {
        self.hand_over_at(Instant::now());
    }

    fn hand_over_at(&self, now: Instant) {
        self.handed_over.set(now);
        self.passages.leave(now);
        Runtime::with_current(hand_over);
    }

    /// Future that submits `op` when it is first polled.
    pub fn submit<T: OpCode + 'static>(self: &Rc<Self>, op: T) -> InFlight<T> {
        InFlight { ops: self.clone(), submit: Some(compio::runtime::submit(op)), passage: None }
    }

    /// Runs a blocking call on the driver's thread pool.
    pub async fn blocking<T, F>(self: &Rc<Self>, call: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let cores = self.cores;
        let work = move || {
            if let Some(cores) = cores {
                cores.release_thread();
            }
            BufResult(Ok(0), call())
        };
        let (BufResult(_, op), _) = self.submit(Asyncify::new(work)).await;
        op.into_inner()
    }

    /// Prevents new operations, and waits until none is in flight.
    pub async fn close(self: &Rc<Self>) {
        self.closing.set(true);
        std::future::poll_fn(|cx| {
            *self.closer.borrow_mut() = Some(cx.waker().clone());
            self.poll_orphans(cx);
            if self.in_flight.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }

    fn completed(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if let Some(closer) = self.closer.borrow_mut().take() {
            closer.wake();
        }
    }

    fn poll_orphans(&self, cx: &mut Context<'_>) {
        // Taken out while polled, since dropping a future may add an orphan.
        let mut orphans = self.orphans.take();
        orphans.retain_mut(|orphan| orphan.as_mut().poll(cx).is_pending());
        self.orphans.borrow_mut().append(&mut orphans);
    }
}

/// Submits what is queued to the kernel. The runtime's own `flush` would forget that this thread is awake, so the next
/// wake-up would cost four system calls.
fn hand_over(runtime: &Runtime) {
    if !runtime.driver_type().is_iouring() {
        return;
    }
    let all = libc::c_uint::MAX;
    // SAFETY: the descriptor is that of the runtime's ring; the kernel takes the entries that the driver has
    // published, and nothing is waited for. What it does not take now goes with the next call of the driver, so
    // the result does not matter.
    unsafe {
        libc::syscall(
            libc::SYS_io_uring_enter,
            runtime.as_raw_fd(),
            all,
            0,
            0,
            std::ptr::null::<libc::c_void>(),
            0,
        )
    };
}

/// Lets other tasks of the thread run first, as waiting for a device would.
pub(super) async fn give_way() {
    let mut has_waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Operation in flight. Once polled, it completes even if this future is dropped. Returns how long this program held
/// it.
pub(super) struct InFlight<T: OpCode + 'static> {
    ops: Rc<Ops>,
    submit: Option<Submit<T>>,
    /// Slot of its times; `None` before the first poll.
    passage: Option<usize>,
}

impl<T: OpCode + 'static> Future for InFlight<T> {
    type Output = (BufResult<usize, T>, Duration);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.passage.is_none() {
            if self.ops.closing.get() {
                return Poll::Pending;
            }
            self.ops.in_flight.set(self.ops.in_flight.get() + 1);
        }
        let submit = self.submit.as_mut().expect("not polled after completion");
        let polled = Pin::new(submit).poll(cx);
        let passage = self.passage.unwrap_or_else(|| self.ops.pushed());
        self.passage = Some(passage);
        let result = std::task::ready!(polled);
        self.submit = None;
        self.ops.completed();
        Poll::Ready((result, self.ops.passages.end(passage, Instant::now())))
    }
}

impl<T: OpCode + 'static> Drop for InFlight<T> {
    fn drop(&mut self) {
        let Some(submit) = self.submit.take() else { return };
        let Some(passage) = self.passage else { return };
        self.ops.passages.forget(passage);
        // Dropping `submit` would cancel the operation and let the driver end before the kernel is done with it.
        let ops = self.ops.clone();
        // The next turn polls it, and each turn from then on that one of its events causes.
        self.ops.main.borrow().wake_by_ref();
        self.ops.orphans.borrow_mut().push(Box::pin(async move {
            let _ = submit.await;
            ops.completed();
        }));
    }
}
