//! Threads of a run: the main one and the shards, each with a runtime of its own.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Instant;

use compio::driver::op::OpCodeFlag;
use compio::driver::{DriverType, ProactorBuilder};
use compio::runtime::{Runtime, RuntimeBuilder};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt, StreamExt};

use super::cores::Cores;
use super::failure::failed;
use super::host::{Counters, Driver, RealConfig, RealHost};
use super::ops::Ops;
use super::pulse::{Lapses, Pulse};
use crate::buf::{slab_stock, take_slabs_from};
use crate::stock::Stock;
use crate::{Error, ErrorKind, IoTotals, Lapse, LocalFuture, Result, ShardStart, Time, World};

/// Wake-ups from other threads that fit into a thread's queue; a full one makes the waking thread spin.
const REMOTE_WAKES: usize = 4096;

/// What the threads of one run share.
pub(super) struct Run {
    pub config: RealConfig,
    pub started: Instant,
    counters: Mutex<Vec<Arc<Counters>>>,
    shards: Mutex<Shards>,
    ending: Arc<Ending>,
    /// Holes in the time of the run.
    pub lapses: Lapses,
    /// Those that this process may use; `None` if the system does not say.
    cores: Option<Cores>,
    /// Memory for page buffers.
    slabs: Arc<Stock>,
}

/// Ends the run before its main future does.
#[derive(Default)]
struct Ending {
    failure: Mutex<Option<Failure>>,
    main: AtomicWaker,
}

impl Ending {
    /// Keeps the first failure and wakes the main thread.
    fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.main.wake();
    }
}

/// Why a run cannot go on, whatever its tasks do.
enum Failure {
    /// A thread or a task panicked.
    Panic(Box<dyn Any + Send>),
    /// Timers would not end.
    Clock(Error),
}

/// The shards that have been used so far.
enum Shards {
    Open(BTreeMap<usize, Shard>),
    /// The run has ended.
    Closed,
}

struct Shard {
    starts: UnboundedSender<ShardStart>,
    thread: JoinHandle<()>,
}

/// See [`super::run`].
pub(super) fn run<T, F>(config: RealConfig, main: impl FnOnce(World) -> F) -> Result<T>
where
    F: Future<Output = T>,
{
    let ending = Arc::<Ending>::default();
    let pulse = watch_clock(&ending)?;
    let run = Arc::new(Run {
        config,
        started: Instant::now(),
        counters: Mutex::default(),
        shards: Mutex::new(Shards::Open(BTreeMap::new())),
        lapses: pulse.lapses(),
        ending,
        cores: Cores::allowed(),
        slabs: Arc::new(slab_stock()),
    });
    let thread =
        Thread::new(&run).map_err(|cause| failed("start the I/O driver of", "this process", &cause))?;
    let result = thread.run(|world| run.unless_panicked(main(world)));
    run.join_shards();
    match lock(&run.ending.failure).take() {
        Some(Failure::Panic(panic)) => resume_unwind(panic),
        Some(Failure::Clock(error)) => Err(error),
        None => Ok(result.expect("the main future ends without a result only by a failure")),
    }
}

/// A clock that jumps ends the run: its timers end too early, or wait for that much longer.
fn watch_clock(ending: &Arc<Ending>) -> Result<Pulse> {
    let ending = ending.clone();
    let jumped = move |lapse: Lapse, before: Time| {
        ending.fail(Failure::Clock(Error {
            kind: ErrorKind::ClockJumped { at: before, by: lapse.length },
            operation: "time".into(),
            path: "the run".into(),
            reason: lapse.to_string(),
        }));
    };
    Pulse::start(jumped).map_err(|cause| failed("watch the clock of", "this process", &cause))
}

impl Run {
    /// Counters for one more thread.
    pub fn new_counters(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        lock(&self.counters).push(counters.clone());
        counters
    }

    /// The sum over all threads.
    pub fn io_totals(&self) -> IoTotals {
        let mut totals = IoTotals::default();
        for counters in lock(&self.counters).iter() {
            counters.add_to(&mut totals);
        }
        totals
    }

    /// Starts a task on the current thread; its panic ends the run.
    pub fn spawn_watched(self: &Arc<Self>, task: LocalFuture<'static, ()>) {
        let run = self.clone();
        let watched = async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                run.ending.fail(Failure::Panic(panic));
            }
        };
        compio::runtime::spawn(watched).detach();
    }

    /// Starts `start` on shard `index`, whose thread is made when it is first used.
    pub fn start_on_shard(self: &Arc<Self>, index: usize, start: ShardStart) {
        let mut shards = lock(&self.shards);
        let Shards::Open(shards) = &mut *shards else { return };
        let shard = shards.entry(index).or_insert_with(|| {
            let (starts, queue) = unbounded();
            let run = self.clone();
            let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
                if let Some(core) = run.cores.and_then(|cores| cores.one(index)) {
                    core.bind_thread();
                }
                let body = AssertUnwindSafe(|| serve(&run, queue));
                if let Err(panic) = std::panic::catch_unwind(body) {
                    run.ending.fail(Failure::Panic(panic));
                }
            });
            Shard { starts, thread: thread.expect("the system has threads left") }
        });
        // A shard that has failed no longer listens; its panic is on its way to `run`.
        let _ = shard.starts.unbounded_send(start);
    }

    /// Runs `main` until it ends or something else ends the run.
    async fn unless_panicked<T>(&self, main: impl Future<Output = T>) -> Option<T> {
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

    fn join_shards(&self) {
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

/// The life of a shard: starts what it is sent, until the run ends.
fn serve(run: &Arc<Run>, mut queue: futures_channel::mpsc::UnboundedReceiver<ShardStart>) {
    let thread = Thread::new(run).expect("a shard has an I/O driver, as the main thread has");
    thread.run(|world| async move {
        while let Some(start) = queue.next().await {
            world.host().spawn(start(world.clone()));
        }
    });
}

/// The runtime of the current thread.
struct Thread {
    runtime: Runtime,
    ops: Rc<Ops>,
    world: World,
}

impl Thread {
    fn new(run: &Arc<Run>) -> io::Result<Thread> {
        take_slabs_from(Some(run.slabs.clone()));
        let runtime = runtime(run.config.driver)?;
        let driver = if runtime.driver_type().is_iouring() { "io_uring" } else { "polling" };
        let ops = Rc::new(Ops::new(run.cores));
        let world = World::new(Rc::new(RealHost::new(run, &ops, driver)?));
        Ok(Thread { runtime, ops, world })
    }

    /// Runs `main`, then waits for the operations that are in flight; every other task is dropped.
    fn run<T, F: Future<Output = T>>(self, main: impl FnOnce(World) -> F) -> T {
        let Thread { runtime, ops, world } = self;
        let result = runtime.block_on(async { ops.watch_turns(main(world)).await });
        runtime.block_on(ops.close());
        take_slabs_from(None);
        result
    }
}

fn runtime(driver: Driver) -> io::Result<Runtime> {
    let build = |proactor: &ProactorBuilder| {
        RuntimeBuilder::new().with_proactor(proactor.clone()).sync_queue_size(REMOTE_WAKES).build()
    };
    let uring = || {
        let mut proactor = ProactorBuilder::new();
        proactor.driver_type(DriverType::IoUring).detect_opcode_support(OpCodeFlag::basic());
        // Completions are reaped when this thread asks for them, not by interrupting it: 5 to 13 % more operations
        // per second below depth 32. Needs Linux 6.1. The flag lets a busy thread see that there is something to reap.
        let mut deferred = proactor.clone();
        deferred.single_issuer(true).defer_taskrun(true).taskrun_flag(true);
        build(&deferred).or_else(|_| build(&proactor))
    };
    let polling = || build(ProactorBuilder::new().driver_type(DriverType::Poll));
    match driver {
        Driver::Auto => uring().or_else(|_| polling()),
        Driver::IoUring => uring(),
        Driver::Polling => polling(),
    }
}

/// Asks the kernel for a ring, whose refusal says why, then makes a runtime on io_uring and drops both.
pub(super) fn try_io_uring() -> io::Result<()> {
    // `struct io_uring_params`, all zero: 120 bytes.
    let mut parameters = [0u64; 15];
    // SAFETY: the pointer is to as many bytes as the kernel reads and writes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    runtime(Driver::IoUring).map(drop)
}

/// The data behind our locks is whole after every statement, so a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
