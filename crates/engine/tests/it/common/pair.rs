//! One seed of a passive copy on another host: it follows the log through ends of its host, takes over, and the
//! host that was active comes back as the copy.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{
    Instance, InstanceConfig, LogHold, LogPosition, LogStore, Progress, Standby, StopSignal, StreamConfig,
};
use futures_util::future::{Either, select};
use smallvec::smallvec;
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, PowerCut, SimConfig, Simulation};
use world::{Duration, OpenMode, PageBuf, World};

use super::model::{DATABASES, Model, Random, Shape, TREES, all_rows, load};
use super::seed::{create_small, shape_of, with_meta_cache};
use super::{PAGE_BYTES, check_structure, shared};

pub const HOSTS: [&str; 2] = ["a", "b"];
/// Transactions between two events.
pub const STEP: u64 = 70;
pub const STEPS: u64 = 8;
pub const FAILOVERS: usize = 3;

/// Counts of events over all seeds.
#[derive(Default)]
pub struct Totals {
    pub crashes: u64,
    pub takeovers: u64,
    pub lossy_takeovers: u64,
    pub rejoins: u64,
    pub seedings: u64,
    pub checkpoints: u64,
    pub checkpoints_moved: u64,
    pub mid_log_pieces: u64,
    /// Logs that ended in the middle of a record after a crash.
    pub cut_records: u64,
}

/// The passive side.
pub struct Passive {
    pub store: LogStore,
    pub standby: Standby,
    pub hold: LogHold,
}

pub struct Pair<'a> {
    pub sim: Simulation,
    pub worlds: [World; 2],
    pub config: InstanceConfig,
    pub model: Rc<RefCell<Model>>,
    pub random: Random,
    pub shape: Shape,
    pub seed: u64,
    pub active: usize,
    pub totals: &'a mut Totals,
}

pub async fn copy_file(from: (&World, &str), to: (&World, &str)) -> Result<(), world::Error> {
    let source = from.0.open(from.1, OpenMode::Read).await?;
    if to.0.entry(to.1).await?.is_some() {
        to.0.remove(to.1).await?;
    }
    let target = to.0.open(to.1, OpenMode::CreateNew).await?;
    for index in 0..source.size().await? / PAGE_BYTES as u64 {
        let at = index * PAGE_BYTES as u64;
        let (read, pages) = source.read_at(at, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        read?;
        target.write_at(at, pages).await.0?;
    }
    target.sync().await?;
    to.0.sync_dir("/db").await
}

impl Pair<'_> {
    /// Seeds a new passive copy from the active one, under load.
    pub async fn seed_copy(&self, instance: &Rc<Instance>) -> engine::Result<Passive> {
        let (from, to) = (&self.worlds[self.active], &self.worlds[1 - self.active]);
        let loaded = load(from, instance.clone(), &self.model, self.shape, self.seed * 31 + 1);
        let copied = async {
            let mut first = u32::MAX;
            let hold = instance.hold_log(0);
            for (db, database) in (1..).zip(&self.config.databases) {
                let (stream, progress) =
                    (StreamConfig { read_bytes: 64 << 10, depth: 2 }, Progress::default());
                let copy = format!("{}.copy", database.path);
                let stop = StopSignal::new();
                let report = instance.back_up(db, stream, Some(&copy), &progress, &stop).await?;
                first = first.min(report.first_generation);
                copy_file((from, &copy), (to, &database.path)).await?;
                from.remove(&copy).await?;
                from.sync_dir("/db").await?;
            }
            hold.advance(first);
            let mut store = LogStore::open(to, &self.config).await?;
            store.begin_at(first).await?;
            // Replay begins where the first log does, so that must be there.
            let start = LogPosition::new(first, 0, 0);
            let stretch = instance.read_log(start, instance.durable_log()).await?.expect("the log is held");
            store.store(&stretch).await?;
            let standby = Standby::open(to, &self.config).await?;
            Ok(Passive { store, standby, hold })
        };
        futures_util::future::join(loaded, copied).await.1
    }

    /// Ships and replays until the load of this step has ended and the copy has everything that may be shipped.
    pub async fn follow(
        &self,
        instance: &Instance,
        passive: &mut Passive,
        random: &mut Random,
        has_ended: &Cell<bool>,
        totals: &mut Totals,
    ) -> engine::Result<()> {
        loop {
            let ended = has_ended.get();
            let (from, until) = (passive.store.extent().expect("it has log").1, instance.durable_log());
            if let Some(stretch) = instance.read_log(from, until).await? {
                totals.mid_log_pieces += u64::from(!stretch.closes);
                passive.store.store(&stretch).await?;
            } else if ended && from == until {
                return Ok(());
            }
            let stored = passive.store.extent().expect("it has log").1;
            if random.below(3) > 0 {
                passive.standby.replay(stored).await?;
            }
            if random.below(12) == 0 {
                let before = passive.store.extent().expect("it has log").0;
                let at = passive.standby.save_checkpoint().await?;
                totals.checkpoints += 1;
                totals.checkpoints_moved += u64::from(at.generation() > before);
                passive.hold.advance(stored.generation().min(instance.log_generation()));
                passive.store.drop_below(at.generation()).await?;
            }
            self.worlds[self.active].sleep(Duration::from_nanos(1 + random.below(40_000))).await;
        }
    }

    /// One step: load on the active host while the copy follows. The passive host may lose power at some point.
    pub fn step(
        &mut self,
        instance: &Rc<Instance>,
        passive: Passive,
        number: u64,
    ) -> Result<Passive, String> {
        let transactions = self.model.borrow().transactions;
        self.model.borrow_mut().limit = transactions + STEP;
        let crashes = self.random.below(3) == 0;
        let mut random = Random::new(self.seed * 1000 + number);
        let has_ended = Cell::new(false);
        let mut passive = passive;
        let mut totals = std::mem::take(self.totals);
        let passive_world = self.worlds[1 - self.active].clone();
        let outcome = self.sim.run_until(async {
            let loaded = async {
                let world = &self.worlds[self.active];
                load(world, instance.clone(), &self.model, self.shape, self.seed * 100 + number).await;
                has_ended.set(true);
            };
            let followed = async {
                let pause = Duration::from_nanos(1 + random.below(3_000_000));
                let mut draws = Random::new(random.below(1 << 40));
                let follow =
                    std::pin::pin!(self.follow(instance, &mut passive, &mut draws, &has_ended, &mut totals));
                if !crashes {
                    return follow.await.map(|()| false);
                }
                let power_cut = std::pin::pin!(passive_world.sleep(pause));
                match select(follow, power_cut).await {
                    Either::Left((done, _)) => done.map(|()| false),
                    Either::Right(_) => Ok(true),
                }
            };
            futures_util::future::join(loaded, followed).await.1
        });
        *self.totals = totals;
        match outcome {
            Err(error) => Err(format!("step {number}: {error}")),
            Ok(false) => Ok(passive),
            Ok(true) => {
                let back = self.crash_passive(passive).and_then(|passive| self.catch_up(instance, passive));
                back.map_err(|error| format!("step {number}: {error}"))
            }
        }
    }

    /// Ships all existing log to the copy.
    pub fn catch_up(&self, instance: &Rc<Instance>, mut passive: Passive) -> Result<Passive, String> {
        let (mut random, all) = (Random::new(self.seed), Cell::new(true));
        let mut totals = Totals::default();
        let followed = self.follow(instance, &mut passive, &mut random, &all, &mut totals);
        self.sim.run_until(followed).map_err(|error| format!("after its crash: {error}"))?;
        Ok(passive)
    }

    /// Ends a host: it loses power, or only its process ends. After the latter, a later power cut takes all writes
    /// without a sync.
    fn end_host(&mut self, host: usize) {
        match self.random.below(3) {
            0 => self.sim.kill(HOSTS[host]),
            _ => self.sim.crash(HOSTS[host]),
        }
    }

    /// Ends the passive host and reopens its copy.
    pub fn crash_passive(&mut self, passive: Passive) -> Result<Passive, String> {
        let host = 1 - self.active;
        let Passive { store, standby, hold } = passive;
        let stored = store.extent().expect("it has log").1;
        self.end_host(host);
        drop((store, standby));
        self.totals.crashes += 1;
        self.worlds[host] = self.sim.restart(HOSTS[host]);
        let world = self.worlds[host].clone();
        let cut_records = &mut self.totals.cut_records;
        self.sim.run_until(async {
            let store =
                LogStore::open(&world, &self.config).await.map_err(|error| format!("its log: {error}"))?;
            let end = store.extent().map(|(_, end)| end);
            *cut_records += u64::from(end.is_some_and(|end| end.byte() > 0));
            if end.is_none_or(|end| end.generation() < stored.generation()) {
                return Err(format!("log to {stored:?} was stored, {end:?} is there"));
            }
            let standby = Standby::open(&world, &self.config).await.map_err(|error| error.to_string())?;
            Ok(Passive { store, standby, hold })
        })
    }

    /// Ends the active host and activates the copy. Returns the new active instance, and the log position where it
    /// began.
    pub fn take_over(
        &mut self,
        instance: Rc<Instance>,
        passive: Passive,
    ) -> Result<(Rc<Instance>, LogPosition), String> {
        let old = self.active;
        self.end_host(old);
        drop(instance);
        let Passive { store, standby, hold } = passive;
        drop(hold);
        let (_, end) = store.extent().expect("it has log");
        let activated = self.sim.run_until(standby.activate(end));
        let (instance, _) = activated.map_err(|error| format!("takeover: {error}"))?;
        self.active = 1 - old;
        self.totals.takeovers += 1;
        let rows = self.sim.run_until(all_rows(&instance)).map_err(|error| error.to_string())?;
        self.model.borrow_mut().rebase_on(&rows).map_err(|error| format!("takeover: {error}"))?;
        let whole = self.sim.run_until(check_structure(&instance, DATABASES, TREES));
        whole.map_err(|error| format!("takeover: {error}"))?;
        Ok((Rc::new(instance), end))
    }

    /// Reopens the formerly active host as a passive copy. `None` if its log goes beyond `end`.
    pub fn rejoin(&mut self, instance: &Rc<Instance>, end: LogPosition) -> Result<Option<Passive>, String> {
        let host = 1 - self.active;
        self.worlds[host] = self.sim.restart(HOSTS[host]);
        let world = self.worlds[host].clone();
        self.sim
            .run_until(async {
                let store = LogStore::open(&world, &self.config).await?;
                if store.extent().is_none_or(|(_, own)| own > end) {
                    return Ok(None);
                }
                let hold = instance.hold_log(store.extent().map_or(1, |(_, own)| own.generation()));
                let standby = Standby::open(&world, &self.config).await?;
                Ok(Some(Passive { store, standby, hold }))
            })
            .map_err(|error: engine::Error| format!("rejoin: {error}"))
    }
}

/// Creates two hosts, with the databases on the first, and a configuration that serves both.
pub fn pair(seed: u64, totals: &mut Totals) -> Pair<'_> {
    let storage = Box::new(FixedLatency::new(seed, FixedLatencyTimes::default()));
    let sim = Simulation::new(seed, SimConfig { storage, ..SimConfig::default() });
    let worlds = HOSTS.map(|host| {
        let world = sim.host(host);
        sim.volume(host, "/db", 1 << 40);
        sim.volume(host, "/log", 1 << 40);
        world
    });
    let mut random = Random::new(seed);
    let shape = shape_of(seed, &mut random);
    let mut config = with_meta_cache(seed, create_small(&sim, &worlds[0], &mut random));
    config.circular_logging = true;
    let tearing = PowerCut { lost_write: 0.1, torn_write: 0.7, ..PowerCut::default() };
    sim.set_faults(Faults { power_cut: tearing, ..Faults::default() });
    let model = shared(Model::new(2, STEP));
    Pair { sim, worlds, config, model, random, shape, seed, active: 0, totals }
}

pub fn run_pair_seed(seed: u64, totals: &mut Totals) -> Result<(), String> {
    let mut pair = pair(seed, totals);
    let opened = pair.sim.run_until(Instance::open(&pair.worlds[0], &pair.config));
    let mut instance = Rc::new(opened.map_err(|error| error.to_string())?.0);
    let mut passive = None;
    for failover in 0..FAILOVERS {
        let mut copy = match passive.take() {
            Some(copy) => copy,
            None => {
                pair.totals.seedings += 1;
                let transactions = pair.model.borrow().transactions;
                pair.model.borrow_mut().limit = transactions + STEP;
                let seeded = pair.sim.run_until(pair.seed_copy(&instance));
                seeded.map_err(|error| format!("seeding: {error}"))?
            }
        };
        for step in 0..STEPS {
            copy = pair.step(&instance, copy, failover as u64 * STEPS + step)?;
        }
        if pair.random.below(3) == 0 {
            // More load that nothing is shipped of: what is lost is a suffix.
            let transactions = pair.model.borrow().transactions;
            pair.model.borrow_mut().limit = transactions + 20;
            let world = pair.worlds[pair.active].clone();
            pair.sim.run_until(load(&world, instance.clone(), &pair.model, pair.shape, seed));
            pair.model.borrow_mut().forget_promises();
            pair.totals.lossy_takeovers += 1;
        }
        if pair.random.below(2) == 0 {
            // The active host dies while the passive one is away: all that is left is what it had stored.
            copy = pair.crash_passive(copy)?;
        }
        let end;
        (instance, end) = pair.take_over(instance, copy)?;
        passive = pair.rejoin(&instance, end)?;
        pair.totals.rejoins += u64::from(passive.is_some());
    }
    Ok(())
}
