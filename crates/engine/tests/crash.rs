//! Power cuts at any operation, also during recovery: what is there afterwards is a prefix of the commits, and contains
//! every commit that was acknowledged as durable.
//!
//! The number of seeds comes from PROOFLOAD_SEEDS (20 if it is not set); a failure names its seed.

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use common::{check_structure, create, scan, shared, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig, RecoveryReport};
use world::World;
use world::sim::{
    CrashPoint, FaultKind, Faults, FixedLatency, FixedLatencyTimes, OpKind, Outcome, SimConfig, Simulation,
};

const DATABASES: u8 = 2;
const TREES: u32 = 2;
const SESSIONS: u32 = 4;

type RowName = (u8, u32, Vec<u8>);
type Rows = BTreeMap<RowName, Vec<u8>>;
type Change = (RowName, Option<Vec<u8>>);

/// What the sessions asked for, in the order in which they committed.
#[derive(Default)]
struct Model {
    /// The state behind everything that is known to have survived.
    base: Rows,
    /// Commits since then.
    commits: Vec<Vec<Change>>,
    /// How many of them must survive.
    acknowledged: usize,
    transactions: u64,
    rollbacks: u64,
    conflicts: u64,
}

impl Model {
    /// Finds the prefix of commits that gives `found`, and makes it the base.
    fn settle(&mut self, found: &Rows) -> Result<(), String> {
        let mut state = self.base.clone();
        let apply = |state: &mut Rows, commit: &[Change]| {
            for (name, data) in commit {
                match data {
                    Some(data) => drop(state.insert(name.clone(), data.clone())),
                    None => drop(state.remove(name)),
                }
            }
        };
        let commits = std::mem::take(&mut self.commits);
        for commit in &commits[..self.acknowledged] {
            apply(&mut state, commit);
        }
        let mut rest = commits[self.acknowledged..].iter();
        while state != *found {
            let Some(commit) = rest.next() else {
                return Err(format!(
                    "{} rows are no prefix of {} commits, {} of them durable; {}",
                    found.len(),
                    commits.len(),
                    self.acknowledged,
                    difference(&state, found)
                ));
            };
            apply(&mut state, commit);
        }
        self.base = state;
        self.acknowledged = 0;
        Ok(())
    }
}

fn difference(expected: &Rows, found: &Rows) -> String {
    let lost = expected.iter().find(|(name, data)| found.get(*name) != Some(data));
    let extra = found.iter().find(|(name, data)| expected.get(*name) != Some(data));
    let name = |row: Option<(&RowName, &Vec<u8>)>| row.map(|(name, data)| (name.clone(), data.len()));
    format!("with all of them: first lost {:?}, first unexpected {:?}", name(lost), name(extra))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// One transaction of a session; returns whether the session may go on.
async fn transact(instance: &Instance, model: &RefCell<Model>, random: &mut Random, phase: u64) -> bool {
    let mut transaction = instance.begin();
    let mut changes: Vec<Change> = Vec::new();
    for _ in 0..1 + random.below(4) {
        let db = 1 + random.below(DATABASES.into()) as u8;
        let number = random.below(TREES.into()) as u32;
        let tree = tree_number(number);
        let key = (random.below(1500) as u32).to_be_bytes().to_vec();
        // The page checksum is a parity code: it does not see a tear through data that repeats itself, so these do not.
        let data: Vec<u8> = (0..1 + random.below(600)).map(|_| random.below(256) as u8).collect();
        // Phases of growth and of shrinking make pages split and merge.
        let deletes = if phase.is_multiple_of(2) { 2 } else { 7 };
        let done = match random.below(10) {
            n if n < deletes => transaction.delete(db, tree, &key).await.map(|()| Some(None)),
            n if n < 9 => match transaction.insert(db, tree, &key, &data).await {
                Err(Error::Duplicate) => {
                    transaction.replace(db, tree, &key, &data).await.map(|()| Some(Some(data)))
                }
                other => other.map(|()| Some(Some(data))),
            },
            _ => transaction.get(db, tree, &key).await.map(|_| None),
        };
        match done {
            Ok(Some(data)) => changes.push(((db, number, key), data)),
            Ok(None) => {}
            Err(Error::NotFound) => {}
            Err(Error::Conflict) => {
                model.borrow_mut().conflicts += 1;
                return transaction.rollback().await.is_ok();
            }
            Err(_) => return false,
        }
    }
    if random.below(12) == 0 {
        model.borrow_mut().rollbacks += 1;
        return transaction.rollback().await.is_ok();
    }
    let durability = if random.below(10) < 3 { Durability::Durable } else { Durability::Lazy };
    // A transaction that has changed nothing promises nothing about others.
    let promises = durability == Durability::Durable && !changes.is_empty();
    let number = {
        let mut model = model.borrow_mut();
        model.transactions += 1;
        model.commits.push(changes);
        model.commits.len()
    };
    let committed = transaction.commit(durability).await.is_ok();
    if committed && promises {
        let mut model = model.borrow_mut();
        model.acknowledged = model.acknowledged.max(number);
    }
    committed
}

async fn load(world: &World, instance: Rc<Instance>, model: &Rc<RefCell<Model>>, count: u64, seed: u64) {
    let mut sessions = Vec::new();
    for session in 0..SESSIONS {
        let (instance, model, world2) = (instance.clone(), model.clone(), world.clone());
        let mut random = Random(seed * 1000 + u64::from(session) + 1);
        sessions.push(world.spawn(async move {
            for n in 0..count / u64::from(SESSIONS) {
                if !transact(&instance, &model, &mut random, n / 100).await {
                    return;
                }
                // Sessions come and go in each other's way, also where I/O takes no time.
                world2.sleep(world::Duration::from_nanos(random.below(1000))).await;
            }
        }));
    }
    for session in sessions {
        session.await;
    }
}

async fn all_rows(instance: &Instance) -> engine::Result<Rows> {
    let reader = instance.begin();
    let mut rows = Rows::new();
    for db in 1..=DATABASES {
        for number in 0..TREES {
            let found = scan(&reader, db, tree_number(number)).await?;
            rows.extend(found.into_iter().map(|(key, data)| ((db, number, key), data)));
        }
    }
    Ok(rows)
}

fn new_simulation(seed: u64) -> (Simulation, World) {
    let times = FixedLatencyTimes::default();
    let config = SimConfig { storage: Box::new(FixedLatency::new(seed, times)), ..SimConfig::default() };
    let sim = Simulation::new(seed, config);
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

#[derive(Default)]
struct Totals {
    crashes: u64,
    crashes_in_recovery: u64,
    reports: Vec<RecoveryReport>,
    rolls: u64,
    torn_writes: u64,
}

/// Opens until it succeeds, with crashes on the way.
fn reopen(
    sim: &Simulation,
    config: &InstanceConfig,
    random: &mut Random,
    totals: &mut Totals,
) -> Result<(World, Rc<Instance>), String> {
    for attempt in 0..6 {
        let world = sim.restart("h");
        let crash = (attempt < 3 && random.below(2) == 0).then(|| {
            (1 + random.below(120), if random.below(2) == 0 { CrashPoint::Before } else { CrashPoint::After })
        });
        sim.set_faults(Faults { crash_at_nth: crash, ..Faults::default() });
        match sim.run_until_crash_or(Instance::open(&world, config)) {
            Outcome::Done(Ok((instance, report))) => {
                totals.reports.push(report);
                return Ok((world, Rc::new(instance)));
            }
            Outcome::Done(Err(error)) => return Err(format!("recovery failed: {error}")),
            Outcome::Crashed { .. } => totals.crashes_in_recovery += 1,
            Outcome::Stuck { waiting_tasks } => {
                return Err(format!("recovery is stuck, {waiting_tasks} tasks wait"));
            }
        }
    }
    Err("recovery never came to its end".to_owned())
}

fn run_seed(seed: u64, totals: &mut Totals) -> Result<(), String> {
    let (sim, world) = new_simulation(seed);
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let config = sim.run_until(create(&world, DATABASES.into(), TREES));
    let model = shared(Model::default());
    let opened = sim.run_until(Instance::open(&world, &config)).map_err(|error| error.to_string())?;
    let (mut world, mut instance) = (world, Rc::new(opened.0));
    for round in 0..3 {
        let crash = 500 + random.below(6000);
        let point = if random.below(2) == 0 { CrashPoint::Before } else { CrashPoint::After };
        sim.set_faults(Faults { crash_at_nth: Some((crash, point)), ..Faults::default() });
        let before = instance.log_rolls();
        let outcome = sim.run_until_crash_or(load(&world, instance.clone(), &model, 1600, seed * 10 + round));
        if let Outcome::Stuck { waiting_tasks } = outcome {
            return Err(format!("round {round} is stuck, {waiting_tasks} tasks wait"));
        }
        totals.rolls += instance.log_rolls() - before;
        totals.crashes += 1;
        drop(instance);
        (world, instance) =
            reopen(&sim, &config, &mut random, totals).map_err(|e| format!("round {round}: {e}"))?;
        sim.set_faults(Faults::default());
        let rows = sim.run_until(all_rows(&instance)).map_err(|error| error.to_string())?;
        model.borrow_mut().settle(&rows).map_err(|error| format!("round {round}: {error}"))?;
        sim.run_until(check_structure(&instance, DATABASES, TREES)).map_err(|error| error.to_string())?;
    }
    totals.torn_writes += sim.fault_counts().of(FaultKind::TornWrite);
    let instance = Rc::into_inner(instance).expect("all sessions have ended");
    sim.run_until(instance.close()).map_err(|error| format!("close: {error}"))?;
    let (instance, report) = sim
        .run_until(Instance::open(&world, &config))
        .map_err(|error| format!("open after close: {error}"))?;
    if report.logs_replayed != 0 {
        return Err("a closed instance was replayed".to_owned());
    }
    let rows = sim.run_until(all_rows(&instance)).map_err(|error| error.to_string())?;
    model.borrow_mut().settle(&rows)
}

fn seeds() -> u64 {
    std::env::var("PROOFLOAD_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

#[test]
fn every_recovered_state_is_a_prefix_with_all_durable_commits() {
    let mut totals = Totals::default();
    for seed in 1..=seeds() {
        if let Err(error) = run_seed(seed, &mut totals) {
            panic!("seed {seed}: {error}");
        }
    }
    let sum = |of: fn(&RecoveryReport) -> u64| totals.reports.iter().map(of).sum::<u64>();
    assert!(totals.crashes_in_recovery > 0 && totals.rolls > 0 && totals.torn_writes > 0);
    assert!(sum(|report| report.pages_repaired) > 0, "no torn page was ever repaired");
    assert!(sum(|report| report.transactions_rolled_back.into()) > 0, "no transaction was ever taken back");
}

/// A database that was loaded and lost its power, ready to be recovered.
fn crashed(seed: u64) -> (Simulation, InstanceConfig, Rc<RefCell<Model>>) {
    let (sim, world) = new_simulation(seed);
    let config = sim.run_until(create(&world, DATABASES.into(), TREES));
    let model = shared(Model::default());
    let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
    sim.set_faults(Faults { crash_at_nth: Some((1500, CrashPoint::After)), ..Faults::default() });
    let outcome = sim.run_until_crash_or(load(&world, Rc::new(instance), &model, 4000, seed));
    assert!(matches!(outcome, Outcome::Crashed { .. }), "{outcome:?}");
    (sim, config, model)
}

#[test]
fn recovery_survives_the_failure_of_any_of_its_operations() {
    let mut failures = 0;
    for kind in [OpKind::Read, OpKind::Write, OpKind::Sync, OpKind::Rename, OpKind::SyncDir, OpKind::Open] {
        for nth in 1.. {
            // Failures that come late are far apart: the loop is quadratic otherwise.
            let nth = if nth <= 8 { nth } else { 8 + (nth - 8) * 9 };
            let (sim, config, model) = crashed(3);
            let world = sim.restart("h");
            sim.set_faults(Faults { fail_nth: Some((kind, nth)), ..Faults::default() });
            let opened = sim.run_until(Instance::open(&world, &config));
            let reached = sim.operations().of(kind) >= nth;
            let failed = opened.is_err();
            drop(opened);
            failures += u64::from(failed);
            let world = sim.restart("h");
            sim.set_faults(Faults::default());
            let (instance, _) =
                sim.run_until(Instance::open(&world, &config)).expect("the next recovery succeeds");
            let rows = sim.run_until(all_rows(&instance)).unwrap();
            model.borrow_mut().settle(&rows).unwrap_or_else(|error| panic!("{kind:?} {nth}: {error}"));
            if !reached {
                break;
            }
        }
    }
    assert!(failures > 20, "{failures} failures were delivered");
}

#[test]
fn a_failed_write_or_sync_stops_the_instance_for_good() {
    for kind in [OpKind::Write, OpKind::Sync] {
        for nth in [1, 7, 40, 150] {
            let (sim, world) = new_simulation(nth);
            let config = sim.run_until(create(&world, DATABASES.into(), TREES));
            let model = shared(Model::default());
            let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
            let instance = Rc::new(instance);
            sim.set_faults(Faults { fail_nth: Some((kind, nth)), ..Faults::default() });
            sim.run_until(load(&world, instance.clone(), &model, 4000, nth));
            assert!(matches!(instance.check(), Err(Error::Stopped(_))), "{kind:?} {nth}");
            let mut late = instance.begin();
            assert!(matches!(
                late.insert(1, tree_number(0), b"late", b"x").await_in(&sim),
                Err(Error::Stopped(_))
            ));
            drop((late, instance));
            let world = sim.restart("h");
            sim.set_faults(Faults::default());
            let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
            let rows = sim.run_until(all_rows(&instance)).unwrap();
            model.borrow_mut().settle(&rows).unwrap_or_else(|error| panic!("{kind:?} {nth}: {error}"));
        }
    }
}

trait AwaitIn: Future + Sized {
    fn await_in(self, sim: &Simulation) -> Self::Output {
        sim.run_until(self)
    }
}
impl<F: Future> AwaitIn for F {}

#[test]
fn rotten_bits_are_reported_and_never_returned_as_rows() {
    let mut reported = 0;
    for seed in 1..=seeds() {
        let (sim, config, model) = crashed(seed);
        let world = sim.restart("h");
        sim.set_faults(Faults { bit_rot: 0.01, ..Faults::default() });
        let found = sim.run_until(async {
            let (instance, _) = Instance::open(&world, &config).await?;
            all_rows(&instance).await
        });
        match found {
            // A rotten log tail may cost commits; what is there is still a prefix.
            Ok(rows) => {
                model.borrow_mut().acknowledged = 0;
                model.borrow_mut().settle(&rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            Err(_) => reported += 1,
        }
    }
    assert!(reported > 0, "no rotten bit was ever met");
}
