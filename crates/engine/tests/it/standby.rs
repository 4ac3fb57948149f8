//! A passive copy on another host: it follows the log through crashes of its own, and takes over without losing anything
//! that it was sent.
#![allow(clippy::print_stdout, reason = "says what the seeds have reached")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::model::{DATABASES, Model, Random, Shape, TREES, all_rows, load};
use crate::common::seed::{create_small, run_seeds, shape_of};
use crate::common::{PAGE_BYTES, check_structure, shared};
use edb::log::SEGMENT_BYTES;
use engine::{
    Instance, InstanceConfig, LogHold, LogPosition, LogStore, LogStretch, Progress, Standby, StopSignal,
    StreamConfig,
};
use futures_util::future::{Either, select};
use smallvec::smallvec;
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, PowerCut, SimConfig, Simulation};
use world::{Duration, OpenMode, PageBuf, World};

const HOSTS: [&str; 2] = ["a", "b"];
/// Transactions between two events.
const STEP: u64 = 70;
const STEPS: u64 = 8;
const FAILOVERS: usize = 3;

/// What happened over all seeds.
#[derive(Default)]
struct Totals {
    crashes: u64,
    takeovers: u64,
    lossy_takeovers: u64,
    rejoins: u64,
    seedings: u64,
    checkpoints: u64,
    checkpoints_moved: u64,
    mid_log_pieces: u64,
    /// Logs that ended in the middle of a record after a crash.
    cut_records: u64,
}

/// The passive side.
struct Passive {
    store: LogStore,
    standby: Standby,
    hold: LogHold,
}

struct Pair<'a> {
    sim: Simulation,
    worlds: [World; 2],
    config: InstanceConfig,
    model: Rc<RefCell<Model>>,
    random: Random,
    shape: Shape,
    seed: u64,
    active: usize,
    totals: &'a mut Totals,
}

async fn copy_file(from: (&World, &str), to: (&World, &str)) -> Result<(), world::Error> {
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
    /// Makes the passive copy anew from the active one, while the load goes on.
    async fn seed_copy(&self, instance: &Rc<Instance>) -> engine::Result<Passive> {
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
    async fn follow(
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

    /// One step: load on the active side; the copy follows, and its host may lose power somewhere in between.
    fn step(&mut self, instance: &Rc<Instance>, passive: Passive, number: u64) -> Result<Passive, String> {
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

    /// The copy gets all log that there is.
    fn catch_up(&self, instance: &Rc<Instance>, mut passive: Passive) -> Result<Passive, String> {
        let (mut random, all) = (Random::new(self.seed), Cell::new(true));
        let mut totals = Totals::default();
        let followed = self.follow(instance, &mut passive, &mut random, &all, &mut totals);
        self.sim.run_until(followed).map_err(|error| format!("after its crash: {error}"))?;
        Ok(passive)
    }

    /// The passive host loses power and comes back.
    fn crash_passive(&mut self, passive: Passive) -> Result<Passive, String> {
        let host = 1 - self.active;
        let Passive { store, standby, hold } = passive;
        let stored = store.extent().expect("it has log").1;
        self.sim.crash(HOSTS[host]);
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

    /// The active host loses power and the copy takes over. Returns the new active instance, and where it began.
    fn take_over(
        &mut self,
        instance: Rc<Instance>,
        passive: Passive,
    ) -> Result<(Rc<Instance>, LogPosition), String> {
        let old = self.active;
        self.sim.crash(HOSTS[old]);
        drop(instance);
        let Passive { store, standby, hold } = passive;
        drop(hold);
        let (_, end) = store.extent().expect("it has log");
        let activated = self.sim.run_until(standby.activate(end));
        let (instance, _) = activated.map_err(|error| format!("takeover: {error}"))?;
        self.active = 1 - old;
        self.totals.takeovers += 1;
        let rows = self.sim.run_until(all_rows(&instance)).map_err(|error| error.to_string())?;
        self.model.borrow_mut().settle(&rows).map_err(|error| format!("takeover: {error}"))?;
        let whole = self.sim.run_until(check_structure(&instance, DATABASES, TREES));
        whole.map_err(|error| format!("takeover: {error}"))?;
        Ok((Rc::new(instance), end))
    }

    /// The host that was active comes back with what it has. `None` if its log holds more than `end`.
    fn rejoin(&mut self, instance: &Rc<Instance>, end: LogPosition) -> Result<Option<Passive>, String> {
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

/// Two hosts, and a configuration that serves both; the databases are on the first one.
fn pair(seed: u64, totals: &mut Totals) -> Pair<'_> {
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
    let mut config = create_small(&sim, &worlds[0], &mut random);
    config.circular_logging = true;
    let tearing = PowerCut { lost_write: 0.1, torn_write: 0.7, ..PowerCut::default() };
    sim.set_faults(Faults { power_cut: tearing, ..Faults::default() });
    let model = shared(Model::new(2, STEP));
    Pair { sim, worlds, config, model, random, shape, seed, active: 0, totals }
}

fn run_seed(seed: u64, totals: &mut Totals) -> Result<(), String> {
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

#[test]
fn a_copy_follows_and_takes_over() {
    let mut totals = Totals::default();
    let is_complete = run_seeds("standby", 1, 5, |seed| run_seed(seed, &mut totals));
    let seen = [
        totals.crashes,
        totals.takeovers,
        totals.lossy_takeovers,
        totals.rejoins,
        totals.seedings,
        totals.checkpoints,
        totals.checkpoints_moved,
        totals.mid_log_pieces,
        totals.cut_records,
    ];
    println!(
        "crashes, takeovers, lossy, rejoins, seedings, checkpoints, moved, pieces, cut records: {seen:?}"
    );
    assert!(!is_complete || seen.iter().all(|&count| count >= 20), "something hardly happened: {seen:?}");
}

/// A copy that has followed for a while and replayed all its log, its standby closed; the active instance is gone. The rows
/// are the model's.
fn left_alone(seed: u64, totals: &mut Totals) -> (Pair<'_>, LogStore, World) {
    let (pair, store, mut standby, world) = left_behind(seed, totals);
    pair.sim.run_until(async {
        standby.replay(store.extent().unwrap().1).await.unwrap();
        standby.save_checkpoint().await.unwrap();
        standby.abandon().await;
    });
    (pair, store, world)
}

/// The same before the copy has replayed the end of its log.
fn left_behind(seed: u64, totals: &mut Totals) -> (Pair<'_>, LogStore, Standby, World) {
    let mut pair = pair(seed, totals);
    let instance = Rc::new(pair.sim.run_until(Instance::open(&pair.worlds[0], &pair.config)).unwrap().0);
    let mut passive = pair.sim.run_until(pair.seed_copy(&instance)).unwrap();
    for step in 0..4 {
        passive = pair.step(&instance, passive, step).unwrap();
    }
    pair.sim.crash(HOSTS[0]);
    drop(instance);
    let Passive { store, standby, hold } = passive;
    drop(hold);
    let world = pair.worlds[1].clone();
    (pair, store, standby, world)
}

#[test]
fn a_page_that_nothing_proves_is_named_and_can_be_given() {
    let found = (1..20).any(|seed| {
        let mut totals = Totals::default();
        let (pair, store, world) = left_alone(seed, &mut totals);
        pair.sim.run_until(damage_pages(&pair, &store, &world))
    });
    assert!(found, "the log has every page that it changes as a whole");
}

/// Damages one page after the other, until one is found that the log changes and does not have as a whole.
async fn damage_pages(pair: &Pair<'_>, store: &LogStore, world: &World) -> bool {
    let end = store.extent().unwrap().1;
    let file = world.open(&pair.config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
    for index in 5..file.size().await.unwrap() / PAGE_BYTES as u64 {
        let at = index * PAGE_BYTES as u64;
        let (read, bufs) = file.read_at(at, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        read.unwrap();
        let whole = bufs[0].as_slice().to_vec();
        let mut bad = whole.clone();
        bad[100] ^= 0xFF;
        bad[3000] ^= 0x5A;
        file.write_at(at, smallvec![PageBuf::copy_of(&bad)]).await.0.unwrap();
        let mut standby = Standby::open(world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        let unproven = standby.unproven_pages();
        if unproven.is_empty() {
            standby.abandon().await;
            file.write_at(at, smallvec![PageBuf::copy_of(&whole)]).await.0.unwrap();
            continue;
        }
        let pgno = index as u32 - 1;
        assert_eq!(unproven, [(1, pgno)]);
        let refused = standby.activate(end).await.map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, engine::Error::DamagedPage { pgno: named, .. } if named == pgno),
            "{refused}"
        );

        let mut standby = Standby::open(world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        standby.give_pages(1, &[(pgno, &whole)]).await.unwrap();
        assert!(standby.unproven_pages().is_empty());
        let (instance, _) = standby.activate(end).await.unwrap();
        let rows = all_rows(&instance).await.unwrap();
        pair.model.borrow_mut().settle(&rows).unwrap();
        return true;
    }
    false
}

#[test]
fn a_page_that_was_never_used_stays_so_when_another_copy_gives_it() {
    let mut totals = Totals::default();
    let (pair, store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let end = store.extent().unwrap().1;
        let mut standby = Standby::open(&world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        let file = world.open(&pair.config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
        let last = file.size().await.unwrap() / PAGE_BYTES as u64 - 1;
        // Something else has to be there, or nothing is written.
        let stale = PageBuf::copy_of(&[0x5A; PAGE_BYTES]);
        file.write_at(last * PAGE_BYTES as u64, smallvec![stale]).await.0.unwrap();
        let zeros = vec![0; PAGE_BYTES];
        standby.give_pages(1, &[(last as u32 - 1, &zeros)]).await.unwrap();
        let (read, bufs) =
            file.read_at(last * PAGE_BYTES as u64, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        read.unwrap();
        assert!(bufs[0].as_slice() == zeros, "it was stamped");
        standby.abandon().await;
    });
}

/// A power cut can tear a segment so that its own check does not see it: the log ends before it, and what is left takes over.
/// Such a segment was not durable yet, so the copy had not replayed it.
#[test]
fn a_segment_that_was_torn_unseen_does_not_keep_a_copy_from_taking_over() {
    let mut tried = 0;
    for seed in 1..8 {
        let mut totals = Totals::default();
        let (pair, store, standby, world) = left_behind(seed, &mut totals);
        pair.sim.run_until(standby.abandon());
        let end = store.extent().unwrap().1;
        drop(store);
        let number = end.segment() - u16::from(end.byte() == 0);
        if number == 0 {
            continue;
        }
        tried += 1;
        pair.sim.run_until(async {
            let file = world.open("/log/E00.log", OpenMode::ReadWrite).await.unwrap();
            let offset = u64::from(number) * SEGMENT_BYTES as u64;
            let (read, mut bufs) = file.read_at(offset, smallvec![PageBuf::empty(SEGMENT_BYTES)]).await;
            read.unwrap();
            let mut segment = bufs.remove(0).as_slice().to_vec();
            let last = segment.iter().rposition(|byte| *byte != 0).unwrap();
            segment[last] ^= 0x55;
            edb::checksum::stamp(&mut segment, number.into());
            file.write_at(offset, smallvec![PageBuf::copy_of(&segment)]).await.0.unwrap();
            let left = LogStore::open(&world, &pair.config).await.unwrap().extent().unwrap().1;
            assert!(left < end, "seed {seed}: {left:?} of {end:?}");
            let standby = Standby::open(&world, &pair.config).await.unwrap();
            let activated = standby.activate(left).await;
            let (instance, _) = activated.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check_structure(&instance, DATABASES, TREES).await.unwrap();
        });
    }
    assert!(tried > 0);
}

#[test]
fn log_that_is_gone_is_missed() {
    let mut totals = Totals::default();
    let (pair, mut store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let (start, end) = store.extent().unwrap();
        let cut = LogPosition::new(end.generation() - 1, 0, 0);
        assert!(start < cut.generation());
        store.cut(cut).await.unwrap();
        let standby = Standby::open(&world, &pair.config).await.unwrap();
        let refused = standby.activate(cut).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, engine::Error::MissingLog { .. }), "{refused}");
    });
}

#[test]
fn a_cut_log_ends_there_and_leaves_nothing_behind() {
    let mut totals = Totals::default();
    let (pair, mut store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let (_, end) = store.extent().unwrap();
        for to in [
            LogPosition::new(end.generation() - 1, 7, 300),
            LogPosition::new(end.generation() - 1, 5, 0),
            LogPosition::new(end.generation() - 2, 0, 0),
        ] {
            let from = LogPosition::new(to.generation() - 1, 0, 0);
            let kept = store.read(from, LogPosition::new(to.generation(), 0, 0)).await.unwrap().unwrap();
            assert!(kept.closes);
            store.cut(to).await.unwrap();
            assert_eq!(store.extent().unwrap().1, to);
            let reopened = LogStore::open(&world, &pair.config).await.unwrap().extent().unwrap().1;
            // Whole records decide: those of the segment that was cut in its middle, and no more.
            let segment = LogPosition::new(to.generation(), to.segment(), 0);
            let behind = LogPosition::new(to.generation(), to.segment() + u16::from(to.byte() > 0), 0);
            assert!(
                segment <= to.max(reopened) && reopened <= behind,
                "cut at {to:?}, it ends at {reopened:?}"
            );
            if to.segment() > 0 {
                let file = world.open("/log/E00.log", OpenMode::Read).await.unwrap();
                let first = u64::from(behind.segment()) * 4096;
                let bytes = (file.size().await.unwrap() - first) as usize;
                let (read, bufs) = file.read_at(first, smallvec![PageBuf::empty(bytes)]).await;
                read.unwrap();
                assert!(bufs[0].as_slice().iter().all(|&byte| byte == 0), "something is left behind {to:?}");
            }
        }
        let refused =
            store.store(&LogStretch { from: end, bytes: vec![0; 4096], closes: false }).await.unwrap_err();
        assert!(matches!(refused, engine::Error::Refused(_)), "{refused}");
        let from = store.extent().unwrap().1;
        for bytes in [vec![0; 4096], vec![7; 100], Vec::new()] {
            let stretch = LogStretch { from, bytes, closes: false };
            assert!(matches!(store.store(&stretch).await, Err(engine::Error::Refused(_))));
        }
    });
}
