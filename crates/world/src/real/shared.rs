//! What the threads of one run share: how it works, what they have counted, how it ends.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use rustix::time::ClockId;

use super::cores::Cores;
use super::lock::lock;
use super::modes::Modes;
use super::pulse::Clocks;
use super::usage::clock;
use crate::{Error, IoTotals, LocalFuture, ShardStart};

/// Configuration of a real world.
#[derive(Debug, Clone)]
pub struct RealConfig {
    /// Name of the host in the solution file.
    pub host_name: String,
    /// Unbuffered I/O (`O_DIRECT`). Buffered I/O measures the operating system's page cache too.
    pub direct: bool,
    /// Driver for I/O.
    pub driver: Driver,
    /// Number of shards; by default the number of cores for this process.
    pub shards: usize,
}

/// Driver: how operations reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring, or polling where io_uring is refused.
    Auto,
    /// io_uring only.
    IoUring,
    /// A thread pool: latencies include its hand-over.
    Polling,
}

impl RealConfig {
    /// Default configuration: unbuffered, best driver, all cores.
    pub fn new(host_name: impl Into<String>) -> RealConfig {
        let shards = std::thread::available_parallelism().map_or(1, usize::from);
        RealConfig { host_name: host_name.into(), direct: true, driver: Driver::Auto, shards }
    }
}

/// Counters of completed operations of one thread; only that thread writes them.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Counters {
    pub fn read(&self, bytes: u64) {
        Self::add(&self.reads, 1);
        Self::add(&self.read_bytes, bytes);
    }

    pub fn wrote(&self, bytes: u64) {
        Self::add(&self.writes, 1);
        Self::add(&self.write_bytes, bytes);
    }

    pub fn synced(&self) {
        Self::add(&self.syncs, 1);
    }

    fn add(counter: &AtomicU64, by: u64) {
        // One writer: a plain load and store, not a locked instruction.
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    pub fn add_to(&self, totals: &mut IoTotals) {
        totals.reads += self.reads.load(Ordering::Relaxed);
        totals.read_bytes += self.read_bytes.load(Ordering::Relaxed);
        totals.writes += self.writes.load(Ordering::Relaxed);
        totals.write_bytes += self.write_bytes.load(Ordering::Relaxed);
        totals.syncs += self.syncs.load(Ordering::Relaxed);
    }
}

/// State that the threads of one run share.
pub(super) struct RealRun {
    pub config: RealConfig,
    pub started: Instant,
    /// Value of `CLOCK_BOOTTIME` at the start.
    pub started_boot_time: Duration,
    counters: Mutex<Vec<Arc<Counters>>>,
    shards: Mutex<Shards>,
    pub ending: Arc<Ending>,
    /// Watch over the clocks.
    pub clocks: Arc<Clocks>,
    /// Cores that this process may use; `None` if the system does not say.
    pub cores: Option<Cores>,
    /// Counters of how the threads do their I/O.
    pub modes: Modes,
    /// Main loop of a shard.
    serve: Serve,
}

/// Main loop of a shard: starts on its own thread what it is sent, until the run ends.
pub(super) type Serve = fn(&Arc<RealRun>, UnboundedReceiver<ShardStart>);

/// Failure that ends the run before its main future does.
#[derive(Default)]
pub(super) struct Ending {
    failure: Mutex<Option<Failure>>,
    main: AtomicWaker,
}

impl Ending {
    /// Stores the first failure and wakes the main thread.
    pub fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.main.wake();
    }

    /// Failure that ended the run, if there was one.
    pub fn take(&self) -> Option<Failure> {
        lock(&self.failure).take()
    }
}

/// Failure that ends a run.
pub(super) enum Failure {
    /// A thread or a task panicked.
    Panic(Box<dyn Any + Send>),
    /// The clock jumped, so timers would not end.
    Clock(Error),
}

/// Shards that have been used so far.
enum Shards {
    Open(BTreeMap<usize, Shard>),
    /// The run has ended.
    Closed,
}

struct Shard {
    starts: UnboundedSender<ShardStart>,
    thread: JoinHandle<()>,
}

impl RealRun {
    pub fn new(config: RealConfig, clocks: Arc<Clocks>, ending: Arc<Ending>, serve: Serve) -> RealRun {
        RealRun {
            config,
            started: Instant::now(),
            started_boot_time: clock(ClockId::Boottime),
            counters: Mutex::default(),
            shards: Mutex::new(Shards::Open(BTreeMap::new())),
            clocks,
            ending,
            cores: Cores::allowed(),
            modes: Modes::default(),
            serve,
        }
    }

    /// Counters for a new thread.
    pub fn new_counters(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        lock(&self.counters).push(counters.clone());
        counters
    }

    /// Sum of the counters of all threads.
    pub fn io_totals(&self) -> IoTotals {
        let mut totals = IoTotals::default();
        for counters in lock(&self.counters).iter() {
            counters.add_to(&mut totals);
        }
        totals
    }

    /// Starts a task on the current thread. Its panic ends the run.
    pub fn spawn_watched(self: &Arc<Self>, task: LocalFuture<'static, ()>) {
        let run = self.clone();
        let watched = async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                run.ending.fail(Failure::Panic(panic));
            }
        };
        compio::runtime::spawn(watched).detach();
    }

    /// Runs `start` on shard `index`, whose thread is created at its first use.
    pub fn start_on_shard(self: &Arc<Self>, index: usize, start: ShardStart) {
        let mut shards = lock(&self.shards);
        let Shards::Open(shards) = &mut *shards else { return };
        let shard = shards.entry(index).or_insert_with(|| {
            let (starts, queue) = unbounded();
            let run = self.clone();
            let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
                run.modes.shards.add();
                let core = run.cores.and_then(|cores| cores.of_shard(index, run.config.shards));
                if core.is_some_and(|core| core.bind_thread()) {
                    run.modes.shards_bound.add();
                }
                let body = AssertUnwindSafe(|| (run.serve)(&run, queue));
                if let Err(panic) = std::panic::catch_unwind(body) {
                    run.ending.fail(Failure::Panic(panic));
                }
            });
            Shard { starts, thread: thread.expect("the system has threads left") }
        });
        // A shard that has failed no longer listens; its panic is on its way to `run`.
        let _ = shard.starts.unbounded_send(start);
    }

    /// Runs `main` until it ends, or a failure ends the run.
    pub async fn unless_panicked<T>(&self, main: impl Future<Output = T>) -> Option<T> {
        let mut main = pin!(AssertUnwindSafe(main).catch_unwind());
        std::future::poll_fn(|cx| {
            self.ending.main.register(cx.waker());
            if lock(&self.ending.failure).is_some() {
                return Poll::Ready(None);
            }
            let failed = |panic| self.ending.fail(Failure::Panic(panic));
            main.as_mut().poll(cx).map(|result| result.map_err(failed).ok())
        })
        .await
    }

    pub fn join_shards(&self) {
        let Shards::Open(shards) = std::mem::replace(&mut *lock(&self.shards), Shards::Closed) else {
            return;
        };
        // All are told to end before the first is waited for: they may be waiting for each other.
        let threads = shards.into_values().map(|shard| shard.thread).collect::<Vec<_>>();
        for thread in threads {
            thread.join().expect("a shard catches its panics");
        }
    }
}
