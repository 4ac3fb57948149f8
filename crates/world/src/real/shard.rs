//! Threads of a run: the main one and the shards, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

use compio::driver::op::OpCodeFlag;
use compio::driver::{DriverType, ProactorBuilder};
use compio::runtime::{Runtime, RuntimeBuilder};
use futures_channel::mpsc::UnboundedReceiver;
use futures_util::StreamExt;

use super::failure::failed;
use super::host::RealHost;
use super::ops::Ops;
use super::pulse::{Clocks, Pulse};
use super::shared::{Driver, Ending, Failure, RealConfig, RealRun};
use crate::{Error, ErrorKind, Lapse, Result, ShardStart, Time, World};

/// Capacity of a thread's queue for wake-ups from other threads; a full queue makes the waking thread spin.
const REMOTE_WAKES: usize = 4096;

/// See [`super::run`].
pub(super) fn run<T, F>(config: RealConfig, main: impl FnOnce(World) -> F) -> Result<T>
where
    F: Future<Output = T>,
{
    let ending = Arc::<Ending>::default();
    let clocks = Arc::new(watched_clocks(&ending));
    let _pulse =
        Pulse::start(clocks.clone()).map_err(|cause| failed("watch the clock of", "this process", &cause))?;
    let run = Arc::new(RealRun::new(config, clocks, ending, serve));
    let thread =
        Thread::new(&run).map_err(|cause| failed("start the I/O driver of", "this process", &cause))?;
    let result = thread.run(|world| run.unless_panicked(main(world)));
    run.join_shards();
    // A jump may have ended the main future before the next beat.
    run.clocks.compare();
    match run.ending.take() {
        Some(Failure::Panic(panic)) => resume_unwind(panic),
        Some(Failure::Clock(error)) => Err(error),
        None => Ok(result.expect("the main future ends without a result only by a failure")),
    }
}

/// Watches the clocks. A jump ends the run, because timers would end too early or too late.
fn watched_clocks(ending: &Arc<Ending>) -> Clocks {
    let ending = ending.clone();
    Clocks::new(move |lapse: Lapse, before: Time| {
        ending.fail(Failure::Clock(Error {
            kind: ErrorKind::ClockJumped { at: before, by: lapse.length },
            operation: "time".into(),
            path: "the run".into(),
            reason: lapse.to_string(),
        }));
    })
}

/// Main loop of a shard: starts what it is sent, until the run ends.
fn serve(run: &Arc<RealRun>, mut queue: UnboundedReceiver<ShardStart>) {
    let thread = Thread::new(run).expect("a shard has an I/O driver, as the main thread has");
    thread.run(|world| async move {
        while let Some(start) = queue.next().await {
            world.host().spawn(start(world.clone()));
        }
    });
}

/// Runtime of the current thread.
struct Thread {
    runtime: Runtime,
    ops: Rc<Ops>,
    world: World,
}

impl Thread {
    fn new(run: &Arc<RealRun>) -> io::Result<Thread> {
        let runtime = runtime(run.config.driver)?;
        let (driver, threads) = match runtime.driver_type().is_iouring() {
            true => ("io_uring", &run.modes.rings),
            false => ("polling", &run.modes.pollers),
        };
        threads.add();
        let ops = Rc::new(Ops::new(run.cores));
        let world = World::new(Rc::new(RealHost::new(run, &ops, driver)?));
        Ok(Thread { runtime, ops, world })
    }

    /// Runs `main`, then waits for operations in flight. Other tasks are dropped.
    fn run<T, F: Future<Output = T>>(self, main: impl FnOnce(World) -> F) -> T {
        let Thread { runtime, ops, world } = self;
        let result = ops.run(&runtime, main(world));
        ops.run(&runtime, ops.close());
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

/// Creates a ring and a runtime on io_uring, and drops both; an error has the kernel's reason.
pub(super) fn try_io_uring() -> io::Result<()> {
    // `struct io_uring_params`, all zero: 120 bytes.
    let mut parameters = [0u64; 15];
    // SAFETY: the pointer is to as many bytes as the kernel reads and writes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(ring as i32) });
    runtime(Driver::IoUring).map(drop)
}
