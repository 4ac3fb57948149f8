//! Everything outside the program, behind one handle: files, clock, tasks, randomness, network.
//!
//! The engine, the workload and the campaign touch the outside only through [`World`]. Two implementations exist:
//! [`real`] (io_uring on real disks, through compio) and [`sim`] (virtual time, one seed, repeatable to the byte).
//! No type of either is visible above this crate, and no code above it may ask which one it runs in.
//!
//! Invariants
//! 1. Owned buffers: an operation takes its buffers and gives them back with the result, also on error.
//! 2. A `World` belongs to one thread (it is not `Send`). A shard is a thread with a `World` of its own; shards
//!    exchange messages through [`channel`], nothing else. [`World::compute`] is for work that needs no `World` at all.
//! 3. File contents and sizes are durable only after [`File::sync`]; names only after [`World::sync_dir`].
//! 4. An operation whose future is dropped may still happen, as on a real disk.
//!
//! Limits: paths are UTF-8, offsets and lengths are multiples of [`SECTOR_BYTES`] (files are opened unbuffered).

mod buf;
pub mod channel;
mod error;
mod fixed_hash;
mod memory;
pub mod sim;
pub mod sync;
mod task;
mod time;

#[cfg(not(miri))]
pub mod real;

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;

use futures_channel::oneshot;

pub use buf::{Bufs, CodecMaker, Encoding, PageBuf, PageCodec, TemplatePages};
pub use error::{Error, ErrorKind, Result};
pub use fixed_hash::{FixedHashMap, FixedHashSet};
pub use memory::CONTIGUOUS_BYTES_MAX;
pub use task::Task;
pub use time::{Duration, LAPSE_MIN, Lapse, LapseKind, Time, WallClock};

/// Unit of unbuffered I/O: offsets, lengths and memory addresses are multiples of it.
pub const SECTOR_BYTES: usize = 4096;

/// Boxed future of this thread. It costs one allocation per operation, about 1 % of the processor time of an I/O.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Requirement of [`World::open`] on the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; only reads are allowed.
    Read,
    /// The file must exist.
    ReadWrite,
    /// The file must not exist.
    CreateNew,
}

/// Entry of a directory, or what a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File name without its directory.
    pub name: String,
    /// Size of the file, bytes (0 for a directory).
    pub bytes: u64,
    /// Whether the entry is a directory.
    pub is_dir: bool,
}

/// Numbers of operations as counted by the world, to check measured against issued I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoTotals {
    /// Completed read calls and the bytes they returned.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed write calls.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Completed file syncs.
    pub syncs: u64,
}

/// Share of this program in the time of a completed read, write or sync. The rest is the operating system's and the
/// storage's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    /// Upper bound of the time for which the program held the operation: before the operating system got it, and after
    /// its completion. `None` for files in memory and in simulated time.
    pub held: Option<Duration>,
}

impl Passage {
    /// Combined time of this operation and one that followed it.
    pub fn and(self, next: Passage) -> Passage {
        Passage { held: self.held.zip(next.held).map(|(first, second)| first + second) }
    }
}

/// Processor time and memory of a host. Processor times count from some fixed moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostUsage {
    /// Processor time of this program, all threads.
    pub program_cpu: Duration,
    /// Number of processors that this program may use.
    pub program_cpus: usize,
    /// Used processor time of the whole host.
    pub host_cpu_busy: Duration,
    /// Available processor time of the host, used or not.
    pub host_cpu_total: Duration,
    /// Processor time that other guests of the machine took from the host (steal time).
    pub host_cpu_stolen: Duration,
    /// Time in which some task of the host waited for a processor; `None` if the kernel does not measure it.
    pub host_cpu_pressure: Option<Duration>,
    /// Time by which this program woke later than it had asked to.
    pub program_late: Duration,
    /// Memory that programs could still get, bytes.
    pub memory_available_bytes: u64,
}

/// Counters of a block device since its host started, from the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Kernel name of the device.
    pub name: String,
    /// Number of completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Sum of the times of all reads, in the kernel's queue and in the device, ms.
    pub read_ms: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Sum of the times of all writes, ms.
    pub write_ms: u64,
    /// Time in which the device had requests, ms.
    pub busy_ms: u64,
    /// Sum of the times of all requests, ms.
    pub waited_ms: u64,
}

/// Interface of a world implementation. Engine code uses [`World`] instead.
pub trait Host {
    /// Monotonic time since the host started. It stands still while the host is suspended.
    fn now(&self) -> Time;
    /// Time since the host started, with the time in which it was suspended.
    fn boot_time(&self) -> Time;
    /// Calendar clock of the host (UTC). It may jump, so it orders nothing.
    fn wall_clock(&self) -> WallClock;
    /// Completes at the first instant not before `at`.
    fn sleep_until(&self, at: Time) -> LocalFuture<'static, ()>;
    /// Starts a task on this thread.
    fn spawn(&self, task: LocalFuture<'static, ()>);
    /// Runs `start` on shard `index`: a thread pinned to a core, or a task in simulated time.
    fn spawn_shard(&self, index: usize, start: ShardStart);
    /// Runs a computation without I/O on another thread; in simulated time at once.
    fn compute(&self, work: Work) -> LocalFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
    /// This host as a thread of its own sees it, where processors are modelled: operations and requests of a lane take
    /// turns on one processor. A real thread takes turns by itself.
    fn in_lane(&self, _lane: u32) -> Option<World> {
        None
    }
    /// Time that an operation of the load takes of the lane's processor, with what it waits for it.
    fn operation_time(&self) -> Duration {
        Duration::ZERO
    }
    /// Hands begun operations to the storage now, instead of when this thread waits next.
    fn hand_over(&self) {}
    /// Number of shards to use on this host (its cores).
    fn shards(&self) -> usize;
    /// 64 random bits; in simulated time a function of the seed.
    fn random_u64(&self) -> u64;
    /// Name of the host in the solution file.
    fn name(&self) -> &str;
    /// Opens or creates a file.
    fn open(&self, path: &str, mode: OpenMode) -> LocalFuture<'static, Result<Rc<dyn HostFile>>>;
    /// Creates a directory whose parent exists.
    fn create_dir(&self, path: &str) -> LocalFuture<'static, Result<()>>;
    /// Entries of a directory, sorted by name.
    fn list(&self, path: &str) -> LocalFuture<'static, Result<Vec<Entry>>>;
    /// Entry that `path` names, or `None`.
    fn entry(&self, path: &str) -> LocalFuture<'static, Result<Option<Entry>>>;
    /// Renames a file, replacing `to` if it exists.
    fn rename(&self, from: &str, to: &str) -> LocalFuture<'static, Result<()>>;
    /// Removes a file or an empty directory.
    fn remove(&self, path: &str) -> LocalFuture<'static, Result<()>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &str) -> LocalFuture<'static, Result<()>>;
    /// Free bytes of the file system of `path`.
    fn free_bytes(&self, path: &str) -> LocalFuture<'static, Result<u64>>;
    /// Counters of the block device below the file system of `path`; `None` if there is none, or more than one.
    fn device_usage(&self, _path: &str) -> LocalFuture<'static, Result<Option<DeviceUsage>>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Connects to a listening host.
    fn connect(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>>;
    /// Listens on an address.
    fn listen(&self, address: &str) -> LocalFuture<'static, Result<Rc<dyn HostListener>>>;
    /// Operations completed so far, counted by the world.
    fn io_totals(&self) -> IoTotals;
    /// Description of the I/O in one line for the report: driver, direct or buffered.
    fn describe(&self) -> String;
    /// Processor time of this thread; `None` in simulated time.
    fn thread_cpu(&self) -> Option<Duration> {
        None
    }
    /// Processor time and memory of the host; `None` if not known.
    fn host_usage(&self) -> Option<HostUsage> {
        None
    }
    /// Lapses found by any thread since the last call: times in which the program did not run, or clocks jumped.
    /// Simulated time has none.
    fn lapses(&self) -> Vec<Lapse> {
        Vec::new()
    }
}

/// Function that starts a shard; gets the shard's own world.
pub type ShardStart = Box<dyn FnOnce(World) -> LocalFuture<'static, ()> + Send>;

/// Computation for [`Host::compute`].
pub type Work = Box<dyn FnOnce() + Send>;

/// An open file of a [`Host`].
pub trait HostFile {
    /// Fills all of `bufs` from consecutive offsets; past the end of the file is [`ErrorKind::ShortRead`].
    fn read_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)>;
    /// Writes all of `bufs` at consecutive offsets, extending the file if needed.
    fn write_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)>;
    /// Makes contents and size durable.
    fn sync(&self) -> LocalFuture<'static, Result<Passage>>;
    /// Current size in bytes.
    fn size(&self) -> LocalFuture<'static, Result<u64>>;
    /// Grows or cuts the file; new space reads as zeros, or as stale bytes under a fault.
    fn set_size(&self, bytes: u64) -> LocalFuture<'static, Result<()>>;
    /// Offers the initial contents of the file as a pure function. `true`: the storage serves them as if every page
    /// had been written and synced. `false`: the caller has to write them. `codec`: encoding in which later pages may
    /// be stored.
    fn adopt_template(
        &self,
        template: Rc<dyn TemplatePages>,
        codec: Rc<dyn PageCodec>,
    ) -> LocalFuture<'static, Result<bool>>;
    /// Declares that the pages written to this new file will be those of file `path`, so that a storage that encodes
    /// those may encode these.
    fn keep_like(&self, _path: &str) {}
    /// Whether [packing](Self::pack) pages in memory is useful for this file.
    fn packs_pages(&self) -> bool {
        false
    }
    /// Packs page `index`, which is not needed at the moment: it takes less memory, and has the same bytes at the next
    /// access. Checksums need not be right before; they are afterwards.
    fn pack(&self, _index: u64, _page: &mut PageBuf) {}
}

/// A byte-stream connection.
pub trait HostConnection {
    /// Sends all bytes.
    fn send(&self, bytes: Vec<u8>) -> LocalFuture<'static, Result<()>>;
    /// Receives at least one byte and at most `limit`; an empty vector means the peer closed.
    fn receive(&self, limit: usize) -> LocalFuture<'static, Result<Vec<u8>>>;
    /// Name of the peer, for people.
    fn peer(&self) -> String;
}

/// A listening address.
pub trait HostListener {
    /// Waits for the next connection.
    fn accept(&self) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>>;
}

/// World: the outside of the program as one host sees it: files, clock, tasks, network, randomness. Cloning is cheap.
#[derive(Clone)]
pub struct World(Rc<dyn Host>);

/// An open file. Cloning is cheap; the file closes when the last clone is dropped.
#[derive(Clone)]
pub struct File {
    host: Rc<dyn HostFile>,
    path: Rc<str>,
}

/// A byte-stream connection. Cloning is cheap.
#[derive(Clone)]
pub struct Connection(Rc<dyn HostConnection>);

/// A listening address.
#[derive(Clone)]
pub struct Listener(Rc<dyn HostListener>);

impl World {
    /// Wraps a host. Called by world implementations and by decorators in tests.
    pub fn new(host: Rc<dyn Host>) -> World {
        World(host)
    }

    /// The wrapped host, for decorators.
    pub fn host(&self) -> &Rc<dyn Host> {
        &self.0
    }

    /// Monotonic time since the host started. It stands still while the host is suspended.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// Time since the host started, including suspended time. Other hosts' clocks go on like this one.
    pub fn boot_time(&self) -> Time {
        self.0.boot_time()
    }

    /// Calendar clock of the host (UTC).
    pub fn wall_clock(&self) -> WallClock {
        self.0.wall_clock()
    }

    /// Waits for a duration.
    pub async fn sleep(&self, duration: Duration) {
        self.0.sleep_until(self.now() + duration).await
    }

    /// Waits until a time.
    pub async fn sleep_until(&self, at: Time) {
        self.0.sleep_until(at).await
    }

    /// Starts a task on this thread. Dropping the [`Task`] lets it run on; awaiting it gives its result.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let (task, body) = task::pair(future);
        self.0.spawn(Box::pin(body));
        task
    }

    /// Starts a task on this thread without waiting for its end.
    pub fn spawn_detached(&self, future: impl Future<Output = ()> + 'static) {
        self.0.spawn(Box::pin(future));
    }

    /// Starts `start` on shard `index`.
    pub fn spawn_shard(
        &self,
        index: usize,
        start: impl FnOnce(World) -> LocalFuture<'static, ()> + Send + 'static,
    ) {
        self.0.spawn_shard(index, Box::new(start))
    }

    /// This host with one modelled processor for what a real thread would do, by the number of that thread.
    #[must_use]
    pub fn in_lane(&self, lane: u32) -> World {
        self.0.in_lane(lane).unwrap_or_else(|| self.clone())
    }

    /// Lets an operation of the load take its time of a modelled processor. On a real one it takes it by itself.
    pub async fn operation(&self) {
        let time = self.0.operation_time();
        if time > Duration::ZERO {
            self.sleep(time).await;
        }
    }

    /// Hands begun operations to the storage now. For callers that are going to keep this thread busy.
    pub fn hand_over(&self) {
        self.0.hand_over();
    }

    /// Runs a computation of a millisecond or more on another thread, while this thread goes on. Its panic becomes the
    /// caller's.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = oneshot::channel();
        let work = move || {
            // If it cannot be sent, no task waits for the result any more.
            let _ = done.send(std::panic::catch_unwind(AssertUnwindSafe(work)));
        };
        self.0.compute(Box::new(work)).await;
        let result = result.await.expect("work that has been done has sent its result");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Number of shards to use on this host.
    pub fn shards(&self) -> usize {
        self.0.shards()
    }

    /// 64 random bits.
    pub fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }

    /// Name of the host in the solution file.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Opens or creates a file.
    pub async fn open(&self, path: &str, mode: OpenMode) -> Result<File> {
        Ok(File { host: self.0.open(path, mode).await?, path: path.into() })
    }

    /// Creates a directory whose parent exists.
    pub async fn create_dir(&self, path: &str) -> Result<()> {
        self.0.create_dir(path).await
    }

    /// Entries of a directory, sorted by name.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>> {
        self.0.list(path).await
    }

    /// Entry that `path` names, or `None`.
    pub async fn entry(&self, path: &str) -> Result<Option<Entry>> {
        self.0.entry(path).await
    }

    /// Renames a file, replacing `to` if it exists.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to).await
    }

    /// Removes a file or an empty directory.
    pub async fn remove(&self, path: &str) -> Result<()> {
        self.0.remove(path).await
    }

    /// Makes the names in a directory durable.
    pub async fn sync_dir(&self, path: &str) -> Result<()> {
        self.0.sync_dir(path).await
    }

    /// Free bytes of the file system of `path`.
    pub async fn free_bytes(&self, path: &str) -> Result<u64> {
        self.0.free_bytes(path).await
    }

    /// The block device below the file system of `path`; `None` if there is none, or more than one.
    pub async fn device_usage(&self, path: &str) -> Result<Option<DeviceUsage>> {
        self.0.device_usage(path).await
    }

    /// Connects to a listening host.
    pub async fn connect(&self, address: &str) -> Result<Connection> {
        self.0.connect(address).await.map(Connection)
    }

    /// Listens on an address.
    pub async fn listen(&self, address: &str) -> Result<Listener> {
        self.0.listen(address).await.map(Listener)
    }

    /// Operations completed so far, counted by the world.
    pub fn io_totals(&self) -> IoTotals {
        self.0.io_totals()
    }

    /// Description of the I/O in one line for the report.
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// Processor time of this thread; `None` in simulated time.
    pub fn thread_cpu(&self) -> Option<Duration> {
        self.0.thread_cpu()
    }

    /// Processor time and memory of the host; `None` where they are not known.
    pub fn host_usage(&self) -> Option<HostUsage> {
        self.0.host_usage()
    }

    /// Lapses since the last call: times in which the program did not run, or clocks jumped.
    pub fn lapses(&self) -> Vec<Lapse> {
        self.0.lapses()
    }
}

impl File {
    /// Path by which the file was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Fills all of `bufs` from consecutive offsets.
    pub fn read_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        self.host.read_at(offset, bufs)
    }

    /// Writes all of `bufs` at consecutive offsets.
    pub fn write_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        self.host.write_at(offset, bufs)
    }

    /// Makes contents and size durable.
    pub fn sync(&self) -> LocalFuture<'static, Result<Passage>> {
        self.host.sync()
    }

    /// Current size in bytes.
    pub async fn size(&self) -> Result<u64> {
        self.host.size().await
    }

    /// Grows or cuts the file.
    pub async fn set_size(&self, bytes: u64) -> Result<()> {
        self.host.set_size(bytes).await
    }

    /// See [`HostFile::adopt_template`].
    pub async fn adopt_template(
        &self,
        template: Rc<dyn TemplatePages>,
        codec: Rc<dyn PageCodec>,
    ) -> Result<bool> {
        self.host.adopt_template(template, codec).await
    }

    /// See [`HostFile::keep_like`].
    pub fn keep_like(&self, path: &str) {
        self.host.keep_like(path);
    }

    /// See [`HostFile::packs_pages`].
    pub fn packs_pages(&self) -> bool {
        self.host.packs_pages()
    }

    /// See [`HostFile::pack`].
    pub fn pack(&self, index: u64, page: &mut PageBuf) {
        self.host.pack(index, page);
    }
}

impl Connection {
    /// Wraps a connection, for decorators such as encryption.
    pub fn new(host: Rc<dyn HostConnection>) -> Connection {
        Connection(host)
    }

    /// Sends all bytes.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<()> {
        self.0.send(bytes).await
    }

    /// Receives at least one byte and at most `limit`; empty when the peer closed.
    pub async fn receive(&self, limit: usize) -> Result<Vec<u8>> {
        self.0.receive(limit).await
    }

    /// Name of the peer, for people.
    pub fn peer(&self) -> String {
        self.0.peer()
    }
}

impl Listener {
    /// Waits for the next connection.
    pub async fn accept(&self) -> Result<Connection> {
        self.0.accept().await.map(Connection)
    }
}
