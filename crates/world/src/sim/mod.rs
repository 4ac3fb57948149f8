//! The simulated world: virtual time, one thread, everything from one seed, repeatable to the byte.
//!
//! A [`Simulation`] has hosts with disks, a storage model that says how long I/O takes, and a fault plan. Hosts
//! lose power ([`Simulation::crash`]) and come back ([`Simulation::restart`]); their disks keep what was
//! durable, and of the rest what the dice of the seed say. A process can also end alone ([`Simulation::kill`]):
//! the machine lives on, so the next process reads everything that was written, and a later power cut still
//! takes what was never synced. And a process or a host can stand still for a while ([`Simulation::stop`],
//! [`Simulation::suspend`]).
//!
//! ```
//! use world::OpenMode;
//! use world::sim::{CrashPoint, Faults, Outcome, SimConfig, Simulation};
//!
//! let sim = Simulation::new(1, SimConfig::default());
//! let world = sim.host("a");
//! sim.volume("a", "/data", 1 << 30);
//! sim.set_faults(Faults { crash_at_nth: Some((2, CrashPoint::Before)), ..Faults::default() });
//! let outcome = sim.run_until_crash_or(async {
//!     world.open("/data/x", OpenMode::CreateNew).await?;
//!     world.sync_dir("/data").await
//! });
//! assert!(matches!(outcome, Outcome::Crashed { .. }));
//! sim.set_faults(Faults::default());
//! let world = sim.restart("a");
//! let entry = sim.run_until(world.entry("/data/x")); // there or not, by the seed
//! # entry.unwrap();
//! ```
//!
//! Invariants
//! 1. Equal seeds, configurations and programs give equal traces ([`Simulation::trace_hash`]).
//! 2. Order is decided by virtual time, then by order of issue: completed I/O first, then timers, then tasks.
//! 3. After a power cut, or the end of its process, nothing of the host runs on, and none of its operations completes.
//! 4. Dropping the simulation frees all tasks, files and requests, also those that hold a `World` of it.
//!
//! Limits: one simulation is one thread; several run [`side_by_side()`]. A host that is dead never answers, so a
//! harness that awaits one of its operations gets [`Outcome::Stuck`].

mod content;
mod death;
mod disk;
mod executor;
mod fault;
mod host;
mod large_pages;
mod net;
mod power_cut;
mod random;
mod requests;
mod runs;
mod side_by_side;
mod standstill;
mod storage;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::hash::Hasher;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use rand_chacha::ChaCha8Rng;

use crate::{Duration, FixedHashMap, IoTotals, Time, WallClock, World};
use death::Life;
use disk::{Disk, Numbers, Refused};
use executor::{Executor, MAIN};
use fault::Injector;
use host::SimHost;
use large_pages::LargePages;
use net::Network;
use power_cut::Dice;
use random::Use;
use requests::Requests;
use side_by_side::Pace;
use standstill::Suspends;

pub use fault::{
    CrashPoint, Death, FaultCounts, FaultKind, Faults, Lie, OpCounts, OpKind, PowerCut, Survival,
};
pub use net::Link;
pub use side_by_side::{Meeting, Side, SideFn, processors, side_by_side};
pub use storage::{
    FileId, FixedLatency, FixedLatencyTimes, RequestId, StorageFailure, StorageModel, StorageOp,
    StorageRequest, VolumeId, ZeroLatency,
};

/// Number of a host, in the order of creation.
type HostId = u32;

/// Configuration of a simulation, besides its seed.
pub struct SimConfig {
    /// Storage model: how long I/O takes.
    pub storage: Box<dyn StorageModel>,
    /// Fault plan.
    pub faults: Faults,
    /// Default network link between two hosts.
    pub link: Link,
    /// Result of `World::shards`.
    pub shards: usize,
    /// Capacity of a volume (top-level directory) when it is created.
    pub volume_bytes: u64,
    /// The calendar at the start of the simulation.
    pub started_unix_ms: i64,
    /// Largest deviation of a host's calendar, drawn from the seed.
    pub clock_offset_max: Duration,
    /// Whether pages in memory may be packed; changes only memory and processor time.
    pub packs_pages: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            storage: Box::new(ZeroLatency::default()),
            faults: Faults::default(),
            link: Link::default(),
            shards: 2,
            volume_bytes: 1 << 50,
            started_unix_ms: 1_767_225_600_000,
            clock_offset_max: Duration::from_millis(500),
            packs_pages: true,
        }
    }
}

/// Outcome of a run of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The future finished.
    Done(T),
    /// The fault plan cut the power of a host, or ended its process.
    Crashed {
        /// Host that crashed.
        host: String,
    },
    /// Deadlock: no task is ready, no timer runs, and no I/O is in progress.
    Stuck {
        /// Number of waiting tasks, without the main future.
        waiting_tasks: usize,
    },
}

struct HostState {
    name: Rc<str>,
    disk: Rc<Disk>,
    incarnation: u32,
    /// Number of the machine's start; handles of an earlier one are gone.
    boot: u32,
    life: Life,
    started: Time,
    suspends: Rc<Suspends>,
    clock_offset_ms: i64,
    /// Operations since the process start, all shards together.
    totals: Rc<Cell<IoTotals>>,
    /// First shard of the host, for the harness and connections; created when needed.
    first_shard: Option<Rc<SimHost>>,
}

/// State that all hosts of a simulation share.
struct Core {
    executor: Executor,
    hosts: RefCell<Vec<HostState>>,
    volume_hosts: RefCell<FixedHashMap<u32, HostId>>,
    numbers: Numbers,
    requests: RefCell<Requests>,
    completed: Cell<Vec<RequestId>>,
    model: RefCell<Box<dyn StorageModel>>,
    injector: RefCell<Injector>,
    lies: RefCell<Vec<Lie>>,
    power_cut_random: RefCell<ChaCha8Rng>,
    network: RefCell<Network>,
    trace: Cell<u64>,
    /// Host that dies as soon as its task yields.
    dying: Cell<Option<(HostId, Death)>>,
    /// Limit of virtual time set by other simulations, if there are any.
    pace: OnceCell<Rc<Pace>>,
    large_pages: LargePages,
    seed: u64,
    shards: usize,
    packs_pages: bool,
    volume_bytes: u64,
    started_unix_ms: i64,
    clock_offset_max: Duration,
}

fn hash_of_str(text: &str) -> u64 {
    let mut hasher = crate::fixed_hash::FixedHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Core {
    fn disk(&self, host: HostId) -> Rc<Disk> {
        self.hosts.borrow()[host as usize].disk.clone()
    }

    fn disk_of(&self, volume: VolumeId) -> Rc<Disk> {
        self.disk(self.volume_hosts.borrow()[&volume.0])
    }

    fn is_alive(&self, host: HostId, incarnation: u32) -> bool {
        self.hosts
            .borrow()
            .get(host as usize)
            .is_some_and(|host| host.life == Life::Running && host.incarnation == incarnation)
    }

    fn wall_clock(&self, host: HostId) -> WallClock {
        let elapsed_ms = (self.executor.now().ns / 1_000_000) as i64;
        let offset_ms = self.hosts.borrow()[host as usize].clock_offset_ms;
        WallClock { unix_ms: self.started_unix_ms + elapsed_ms + offset_ms }
    }

    fn host_handle(self: &Rc<Self>, id: HostId, incarnation: u32, shard: u64) -> Rc<SimHost> {
        let (name, boot, started, suspends, totals) = {
            let host = &self.hosts.borrow()[id as usize];
            (host.name.clone(), host.boot, host.started, host.suspends.clone(), host.totals.clone())
        };
        let instance = u64::from(id) << 40 | u64::from(incarnation) << 16 | shard;
        Rc::new_cyclic(|this| SimHost {
            core: self.clone(),
            id,
            incarnation,
            boot,
            name,
            started,
            suspends,
            lane: None,
            random: Rc::new(RefCell::new(random::stream(self.seed, Use::Host, instance))),
            totals,
            this: this.clone(),
        })
    }

    /// First shard of the host: the same until the host restarts.
    fn first_shard(self: &Rc<Self>, id: HostId) -> Rc<SimHost> {
        let (incarnation, made) = {
            let hosts = self.hosts.borrow();
            (hosts[id as usize].incarnation, hosts[id as usize].first_shard.clone())
        };
        made.unwrap_or_else(|| {
            let shard = self.host_handle(id, incarnation, 0);
            self.hosts.borrow_mut()[id as usize].first_shard = Some(shard.clone());
            shard
        })
    }

    fn attach(&self, host: HostId, volume: VolumeId, path: &str) {
        self.volume_hosts.borrow_mut().insert(volume.0, host);
        let name = self.hosts.borrow()[host as usize].name.clone();
        self.model.borrow_mut().attach(volume, &name, path);
    }

    fn create_dir(&self, host: HostId, path: &str, mounted: bool) -> Result<(), Refused> {
        let disk = self.disk(host);
        if let Some(volume) = disk.create_dir(&self.numbers, path, self.volume_bytes, mounted)? {
            self.attach(host, volume.id, path);
        }
        Ok(())
    }

    fn count(&self, kind: FaultKind) {
        self.injector.borrow_mut().counts.add(kind);
    }

    /// Counts a fault of a lying disk and stores its place.
    fn lie(&self, kind: FaultKind, file: FileId, offset: u64, bytes: u64) {
        self.count(kind);
        self.lies.borrow_mut().push(Lie { kind, file, offset, bytes });
    }

    fn random_below(&self, limit: u64) -> u64 {
        random::below(&mut self.injector.borrow_mut().random, limit)
    }

    fn with_dice<T>(&self, roll: impl FnOnce(&mut Dice) -> T) -> T {
        let mut injector = self.injector.borrow_mut();
        let Injector { plan, counts, decisions, .. } = &mut *injector;
        let mut random = self.power_cut_random.borrow_mut();
        roll(&mut Dice { chances: &plan.power_cut, random: &mut random, counts, decisions, leftovers: &[] })
    }

    fn fold_into_trace(&self, value: u64) {
        let product = u128::from(self.trace.get().rotate_left(23) ^ value ^ 0x9E37_79B9_7F4A_7C15)
            * u128::from(0xF39C_C060_5CED_C835u64);
        self.trace.set((product >> 64) as u64 ^ product as u64);
    }

    fn trace_operation(&self, host: HostId, operation: u64, path_hash: u64, offset: u64, bytes: u64) {
        self.fold_into_trace(u64::from(host) << 32 | operation);
        self.fold_into_trace(path_hash);
        self.fold_into_trace(offset);
        self.fold_into_trace(bytes);
        self.fold_into_trace(self.executor.now().ns);
    }

    fn run<T>(&self, mut main: Pin<&mut dyn Future<Output = T>>) -> Outcome<T> {
        self.executor.wake_main();
        loop {
            while let Some(key) = self.executor.next_in_batch() {
                if key == MAIN {
                    if let Poll::Ready(value) = self.executor.poll_main(main.as_mut()) {
                        if let Some(dying) = self.dying.take() {
                            self.die(dying);
                        }
                        return Outcome::Done(value);
                    }
                } else {
                    self.executor.poll_task(key);
                }
                if let Some(dying) = self.dying.take() {
                    self.die(dying);
                    let name = self.hosts.borrow()[dying.0 as usize].name.to_string();
                    return Outcome::Crashed { host: name };
                }
            }
            if self.is_completion_due() {
                self.complete_due_requests();
            }
            if self.executor.start_batch() {
                continue;
            }
            let timer = self.executor.next_timer();
            let quiet_until = match self.pace.get() {
                Some(pace) => Some(timer.map_or(pace.granted(), |timer| timer.min(pace.granted()))),
                None => timer,
            };
            let completion = self.next_completion(quiet_until);
            let next = match (completion, timer) {
                (Some(completion), Some(timer)) => Some(completion.min(timer)),
                (one, other) => one.or(other),
            };
            let next = next.map(|at| at.max(self.executor.now()));
            let next = self.pace.get().map_or(next, |pace| pace.advance(next));
            let Some(next) = next else {
                return Outcome::Stuck { waiting_tasks: self.executor.task_count() };
            };
            self.executor.advance_to(next);
            self.large_pages.at(next);
            if completion.is_some_and(|at| at <= next) {
                self.complete_due_requests();
            }
            self.executor.fire_timers();
            // Nothing more completes at this time before the tasks that it has woken run.
            self.executor.start_batch();
        }
    }
}

/// A simulated world of hosts.
pub struct Simulation {
    core: Rc<Core>,
}

impl Simulation {
    /// Creates a simulation without hosts.
    pub fn new(seed: u64, config: SimConfig) -> Simulation {
        let core = Core {
            executor: Executor::new(),
            hosts: RefCell::default(),
            volume_hosts: RefCell::default(),
            numbers: Numbers::default(),
            requests: RefCell::default(),
            completed: Cell::default(),
            model: RefCell::new(config.storage),
            lies: RefCell::default(),
            injector: RefCell::new(Injector::new(config.faults, random::stream(seed, Use::Faults, 0))),
            power_cut_random: RefCell::new(random::stream(seed, Use::PowerCut, 0)),
            network: RefCell::new(Network::new(config.link, random::stream(seed, Use::Network, 0))),
            trace: Cell::new(seed),
            dying: Cell::new(None),
            pace: OnceCell::new(),
            large_pages: LargePages::default(),
            seed,
            shards: config.shards,
            packs_pages: config.packs_pages,
            volume_bytes: config.volume_bytes,
            started_unix_ms: config.started_unix_ms,
            clock_offset_max: config.clock_offset_max,
        };
        Simulation { core: Rc::new(core) }
    }

    fn host_id(&self, name: &str) -> Option<HostId> {
        self.core.hosts.borrow().iter().position(|host| &*host.name == name).map(|id| id as HostId)
    }

    fn known_host(&self, name: &str) -> HostId {
        self.host_id(name).unwrap_or_else(|| panic!("the simulation has no host {name}"))
    }

    /// World of a host, which is created at the first call.
    pub fn host(&self, name: &str) -> World {
        let id = self.host_id(name).unwrap_or_else(|| self.add_host(name));
        World::new(self.core.first_shard(id))
    }

    fn add_host(&self, name: &str) -> HostId {
        let core = &self.core;
        let id = core.hosts.borrow().len() as HostId;
        let max_ms = core.clock_offset_max.as_millis() as u64;
        let drawn = random::below(&mut random::stream(core.seed, Use::Clock, id.into()), 2 * max_ms + 1);
        let disk = Rc::new(Disk::new(&core.numbers, core.volume_bytes));
        let root_volume = disk.root_volume().id;
        core.hosts.borrow_mut().push(HostState {
            name: name.into(),
            disk,
            incarnation: 0,
            boot: 0,
            life: Life::Running,
            started: core.executor.now(),
            suspends: Rc::default(),
            clock_offset_ms: drawn as i64 - max_ms as i64,
            totals: Rc::default(),
            first_shard: None,
        });
        core.attach(id, root_volume, "/");
        id
    }

    /// Mounts a new durable volume of this capacity at a directory, or sets the capacity of the one there. Creates
    /// directories above it.
    ///
    /// # Panics
    /// If the path cannot be that of a directory.
    pub fn volume(&self, host: &str, path: &str, capacity_bytes: u64) {
        let id = self.known_host(host);
        let disk = self.core.disk(id);
        if disk.dir(path).is_err() {
            let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
            for folder in folders.chain([path]).filter(|folder| disk.dir(folder).is_err()) {
                let made = self.core.create_dir(id, folder, folder == path);
                made.unwrap_or_else(|(_, reason)| panic!("no volume {path}: {reason}"));
                let parent = disk.dir(folder.rsplit_once('/').map_or("", |(parent, _)| parent));
                let parent = parent.unwrap_or_else(|_| unreachable!("it was just used"));
                disk.sync_dir(&parent, disk.sync_mark());
            }
        }
        if let Ok(dir) = disk.dir(path) {
            dir.volume.capacity_bytes.set(capacity_bytes);
        }
    }

    /// Runs the simulation until `main` finishes.
    ///
    /// # Panics
    /// If that cannot happen: everything waits, or the fault plan cut the power of a host.
    pub fn run_until<T>(&self, main: impl Future<Output = T>) -> T {
        match self.run_until_crash_or(main) {
            Outcome::Done(value) => value,
            Outcome::Crashed { host } => panic!("the power of {host} failed before the future finished"),
            Outcome::Stuck { waiting_tasks } => {
                panic!("deadlock: the future and {waiting_tasks} tasks wait, and nothing can happen any more")
            }
        }
    }

    /// Runs the simulation until `main` finishes, the fault plan crashes a host, or everything waits. To continue with
    /// the same future after a crash, pass it pinned by reference.
    pub fn run_until_crash_or<T>(&self, main: impl Future<Output = T>) -> Outcome<T> {
        self.core.run(pin!(main))
    }

    /// Sets the link between two hosts.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set_link(&self, a: &str, b: &str, link: Link) {
        self.core.network.borrow_mut().set_link(self.known_host(a), self.known_host(b), link);
    }

    /// Partitions the network between two hosts: nothing passes from now on.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn partition(&self, a: &str, b: &str) {
        self.core.partition(self.known_host(a), self.known_host(b));
    }

    /// Ends a partition.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn heal(&self, a: &str, b: &str) {
        self.core.heal(self.known_host(a), self.known_host(b));
    }

    /// Virtual time since the start.
    pub fn now(&self) -> Time {
        self.core.executor.now()
    }

    /// Replaces the fault plan; the Nth operation is counted from here.
    pub fn set_faults(&self, faults: Faults) {
        self.core.injector.borrow_mut().set_plan(faults);
    }

    /// Number of delivered faults since the start.
    pub fn fault_counts(&self) -> FaultCounts {
        self.core.injector.borrow().counts
    }

    /// Faults of a lying disk since the start, in order.
    pub fn lies(&self) -> Vec<Lie> {
        self.core.lies.borrow().clone()
    }

    /// Id of the file with this name on a host, as in [`Lie`]; `None` if there is none.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn file_id(&self, host: &str, path: &str) -> Option<FileId> {
        self.core.disk(self.known_host(host)).file_id(path)
    }

    /// Flips a bit of a file on its medium; `false` if the file does not reach that far.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn rot(&self, host: &str, path: &str, byte: u64, bit: u32) -> bool {
        let Some(file) = self.core.disk(self.known_host(host)).file(path) else { return false };
        let mut contents = file.contents.borrow_mut();
        let exists = byte < contents.size();
        if exists {
            contents.flip_bit(byte, bit);
        }
        exists
    }

    /// Number of changes decided at the last power cut.
    pub fn decisions(&self) -> usize {
        self.core.injector.borrow().decisions
    }

    /// Number of operations since the fault plan was set.
    pub fn operations(&self) -> OpCounts {
        self.core.injector.borrow().operations
    }

    /// Hash over every operation so far: host, kind, path, offset, length, time.
    pub fn trace_hash(&self) -> u64 {
        self.core.trace.get()
    }

    /// Number of unfinished tasks.
    pub fn task_count(&self) -> usize {
        self.core.executor.task_count()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        let core = &self.core;
        core.hosts.borrow_mut().iter_mut().for_each(|host| host.life = Life::PoweredOff);
        // Tasks hold worlds, worlds hold the core, the core holds the tasks: break the circle here.
        core.executor.kill_tasks(|_| true);
        core.executor.clear_timers();
        let requests = core.requests.take();
        drop(requests);
        let hosts = core.hosts.take();
        drop(hosts);
    }
}
