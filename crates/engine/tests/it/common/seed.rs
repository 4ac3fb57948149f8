//! One seed of the crash test on an honest disk: load, power cuts, failures, recoveries that are cut off
//! themselves; after each recovery the rows are a prefix of the commits, and trees, space and pages are whole.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::{
    BranchCounts, Counters, Instance, InstanceConfig, MetaCacheConfig, Progress, RecoveryBranch, StopSignal,
    StreamConfig, check_database,
};
use futures_util::future::join;
use results::IoClass;
use smallvec::smallvec;
use world::sim::{
    CrashPoint, Death, FaultKind, Faults, FixedLatency, FixedLatencyTimes, OpKind, Outcome, PowerCut,
    SimConfig, Simulation,
};
use world::{Duration, OpenMode, PageBuf, World};

use super::model::{DATABASES, Model, Random, Shape, TREES, all_rows, load};
use super::{PAGE_BYTES, REDO, check_structure, create, shared};

/// Number of transactions of a round before its fault; below: the largest number after it.
const BEFORE: u64 = 680;
const AFTER: u64 = 220;
/// Numbers of deletes among ten changes, with which trees grow, stay or shrink.
const DELETES: [u64; 4] = [1, 2, 7, 2];

/// End of the error of a seed whose load was too small.
pub const PROVES_TOO_LITTLE: &str = "the seed proves too little";

/// Counts over all seeds.
#[derive(Default)]
pub struct Totals {
    pub seeds: u64,
    pub transactions: u64,
    pub crashes: u64,
    pub crashes_in_recovery: u64,
    pub failed_openings: u64,
    pub failed_operations: u64,
    pub rolls: u64,
    pub splits: u64,
    pub pages_merged: u64,
    pub branches: BranchCounts,
    pub faults: BTreeMap<FaultKind, u64>,
    /// Reads from MetaCaches.
    pub cache_reads: u64,
}

impl Totals {
    pub fn add_faults(&mut self, sim: &Simulation) {
        for kind in FaultKind::ALL {
            *self.faults.entry(kind).or_default() += sim.fault_counts().of(kind);
        }
    }

    /// Kinds of fault and branches of recovery that no seed has reached.
    pub fn missing(&self, kinds: &[FaultKind], branches: &[RecoveryBranch]) -> Vec<String> {
        let faults = kinds.iter().filter(|kind| self.faults.get(kind).is_none_or(|count| *count == 0));
        let ways = branches.iter().filter(|branch| self.branches.of(**branch) == 0);
        faults.map(|kind| format!("{kind:?}")).chain(ways.map(|branch| format!("{branch:?}"))).collect()
    }
}

/// A host with a database volume and a log volume.
pub fn new_simulation(seed: u64) -> (Simulation, World) {
    let times = FixedLatencyTimes::default();
    let config = SimConfig { storage: Box::new(FixedLatency::new(seed, times)), ..SimConfig::default() };
    let sim = Simulation::new(seed, config);
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

/// Draws the shape of a seed's rows.
pub fn shape_of(seed: u64, random: &mut Random) -> Shape {
    let is_regular = is_regular(seed);
    // The structure of a database is checked in one step, so its pages have to fit the cache.
    match is_regular {
        true => Shape { keys: 22 + random.below(36), most_data_bytes: 1500 + random.below(800), is_regular },
        false => {
            let (keys, most_data_bytes) = (60 + random.below(120), 100 + random.below(500));
            // Rows for more than one page, or no page is ever split (seed 9,953).
            let keys = keys.max(3 * PAGE_BYTES as u64 / most_data_bytes);
            Shape { keys, most_data_bytes, is_regular }
        }
    }
}

/// Creates the databases of a seed. Returns the configuration of their instance.
pub fn create_small(sim: &Simulation, world: &World, random: &mut Random) -> InstanceConfig {
    let mut config = sim.run_until(create(world, DATABASES.into(), TREES));
    config.cache_bytes_per_database = (10 + random.below(40)) * PAGE_BYTES as u64;
    config.checkpoint_depth_bytes = (1 + random.below(6)) * (32 << 10);
    config
}

/// Gives the databases of every third seed a MetaCache.
pub fn with_meta_cache(seed: u64, mut config: InstanceConfig) -> InstanceConfig {
    for database in config.databases.iter_mut().filter(|_| seed % 3 == 1) {
        let (path, bytes) = (format!("{}.mcdb", database.path), (12 + seed % 40) * PAGE_BYTES as u64);
        database.meta_cache = Some(MetaCacheConfig { path, bytes, taken_away: StopSignal::new() });
    }
    config
}

fn crash_point(random: &mut Random) -> CrashPoint {
    if random.below(2) == 0 { CrashPoint::Before } else { CrashPoint::After }
}

/// Disk whose only faults are power cuts. With regular data it tears more writes, because most tears of such data are
/// noticed.
fn honest(seed: u64) -> Faults {
    let tearing = PowerCut { lost_write: 0.1, torn_write: 0.7, ..PowerCut::default() };
    let power_cut = if is_regular(seed) { tearing } else { PowerCut::default() };
    Faults { power_cut, ..Faults::default() }
}

/// Draws whether the power fails or only the process ends. After a failed sync only a power cut is allowed: the page
/// cache then shows data that the medium lacks, and the next process must not start from them (docs/faults.md).
fn draw_death(random: &mut Random) -> Death {
    if random.below(2) == 0 { Death::Power } else { Death::Process }
}

fn is_regular(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Draws the faults in the second part of a round: failures of some kind, or only a power cut.
fn faults_of_round(seed: u64, round: u64, random: &mut Random) -> Faults {
    let none = honest(seed);
    if round != 1 {
        let crash_at_nth = Some((1 + random.below(300), crash_point(random)));
        return Faults { crash_at_nth, crash_ends: draw_death(random), ..none };
    }
    match seed / 2 % 8 {
        0 => Faults { read_error: 0.1, ..none },
        1 => Faults { write_error: 0.03, ..none },
        2 => Faults { sync_error: 0.03, ..none },
        3 => Faults { name_error: 0.1, ..none },
        4 => Faults { no_space: 0.1, ..none },
        5 => Faults { short_read: 0.1, ..none },
        6 => Faults { short_write: 0.03, ..none },
        _ => Faults { read_error: 0.02, short_read: 0.02, no_space: 0.02, ..none },
    }
}

struct Seed<'a> {
    seed: u64,
    sim: Simulation,
    config: InstanceConfig,
    model: Rc<RefCell<Model>>,
    random: Random,
    older: Older,
    /// Failed syncs before the last power cut.
    failed_syncs: u64,
    totals: &'a mut Totals,
}

impl Seed<'_> {
    /// Ends the process if it is running. The power may fail as well.
    fn end_host(&mut self, is_running: bool) {
        let failed = self.sim.fault_counts().of(FaultKind::SyncError);
        let death = if failed > self.failed_syncs { Death::Power } else { draw_death(&mut self.random) };
        match death {
            Death::Process if is_running => self.sim.kill("h"),
            Death::Process => {}
            Death::Power => {
                self.sim.crash("h");
                self.failed_syncs = failed;
            }
        }
    }

    /// Opens the instance until that succeeds, with power cuts and failures in between. With `must_crash` the first
    /// opening is cut off.
    fn reopen(&mut self, must_crash: bool) -> Result<(World, Rc<Instance>), String> {
        let kinds =
            [OpKind::Read, OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Open, OpKind::SetSize];
        for attempt in 0..6 {
            let world = self.sim.restart("h");
            // The next attempt goes on from what the other way of redo has left.
            self.config.redo = REDO[((self.seed / 2 + attempt) % 2) as usize];
            let mut faults = honest(self.seed);
            if attempt == 0 && must_crash {
                faults.crash_at_nth = Some((1 + self.random.below(40), crash_point(&mut self.random)));
                faults.crash_ends = draw_death(&mut self.random);
            } else if attempt < 3 {
                match self.random.below(4) {
                    2 => faults.short_read = 0.03,
                    0 => {
                        faults.crash_at_nth =
                            Some((1 + self.random.below(200), crash_point(&mut self.random)));
                        faults.crash_ends = draw_death(&mut self.random);
                    }
                    1 => {
                        let kind = kinds[self.random.below(kinds.len() as u64) as usize];
                        faults.fail_nth = Some((kind, 1 + self.random.below(12)));
                    }
                    _ => {}
                }
            }
            let may_fail = faults.fail_nth.is_some() || faults.short_read > 0.0;
            self.sim.set_faults(faults);
            match self.sim.run_until_crash_or(Instance::open(&world, &self.config)) {
                Outcome::Done(Ok((instance, report))) => {
                    self.sim.set_faults(honest(self.seed));
                    // The failure may have come behind the opening, in a background task.
                    self.sim.run_until(world.sleep(Duration::from_millis(100)));
                    if may_fail && instance.check().is_err() {
                        self.totals.failed_openings += 1;
                        drop(instance);
                        self.end_host(true);
                        continue;
                    }
                    self.totals.branches.merge(&report.branches);
                    if !report.flush_maps_refused.is_empty() {
                        return Err(format!("an honest disk, and {:?}", report.flush_maps_refused));
                    }
                    return Ok((world, Rc::new(instance)));
                }
                Outcome::Done(Err(_)) if may_fail => {
                    self.totals.failed_openings += 1;
                    self.end_host(true);
                }
                Outcome::Done(Err(error)) => return Err(format!("recovery failed: {error}")),
                Outcome::Crashed { .. } => {
                    self.totals.crashes_in_recovery += 1;
                    self.end_host(false);
                }
                Outcome::Stuck { waiting_tasks } => {
                    return Err(format!("recovery is stuck, {waiting_tasks} tasks wait"));
                }
            }
        }
        Err("recovery never came to its end".to_owned())
    }

    /// Cuts the power during the first opening or at the first transactions.
    fn first_steps(&mut self, world: &World, shape: Shape) -> Result<(), String> {
        let crash_at_nth = Some((1 + self.random.below(90), crash_point(&mut self.random)));
        let crash_ends = draw_death(&mut self.random);
        self.sim.set_faults(Faults { crash_at_nth, crash_ends, ..honest(self.seed) });
        self.model.borrow_mut().limit = 30;
        let begun = async {
            let (instance, _) = Instance::open(world, &self.config).await?;
            load(world, Rc::new(instance), &self.model, shape, self.seed).await;
            Ok::<_, engine::Error>(())
        };
        let outcome = self.sim.run_until_crash_or(begun);
        match outcome {
            Outcome::Done(Err(error)) => return Err(format!("first opening: {error}")),
            Outcome::Stuck { .. } => return Err("the first steps are stuck".to_owned()),
            Outcome::Done(Ok(())) => self.end_host(true),
            Outcome::Crashed { .. } => self.end_host(false),
        }
        self.totals.crashes += 1;
        Ok(())
    }

    /// Loads the instance until its round ends with a power cut.
    fn round(
        &mut self,
        round: u64,
        world: &World,
        instance: Rc<Instance>,
        shape: Shape,
    ) -> Result<(), String> {
        self.model.borrow_mut().deletes = DELETES[round as usize];
        let (before, mut is_running) = (instance.log_rolls(), true);
        for part in 0..2 {
            let transactions = self.model.borrow().transactions;
            self.model.borrow_mut().limit = transactions + [BEFORE, AFTER][part as usize];
            if part == 1 {
                let faults = faults_of_round(self.seed, round, &mut self.random);
                self.sim.set_faults(faults);
            }
            let seed = self.seed * 10 + round * 2 + part;
            let has_ended = Cell::new(false);
            let loaded = async {
                load(world, instance.clone(), &self.model, shape, seed).await;
                has_ended.set(true);
            };
            let vandalised = vandalise_at_times(world, &self.config, &self.older, seed, &has_ended);
            match self.sim.run_until_crash_or(join(loaded, vandalised)) {
                Outcome::Stuck { waiting_tasks } => {
                    return Err(format!("the load is stuck, {waiting_tasks} tasks wait"));
                }
                Outcome::Crashed { .. } => is_running = false,
                Outcome::Done(_) => {}
            }
        }
        self.totals.rolls += instance.log_rolls() - before;
        self.end_host(is_running);
        self.totals.crashes += 1;
        Ok(())
    }

    /// Checks rows, trees and space after a recovery. Returns the number of pages in use.
    fn judge(&mut self, instance: &Instance) -> Result<u64, String> {
        let rows = self.sim.run_until(all_rows(instance)).map_err(|error| error.to_string())?;
        self.model.borrow_mut().rebase_on(&rows)?;
        let whole = self.sim.run_until(check_structure(instance, DATABASES, TREES));
        whole.map_err(|error| error.to_string())
    }

    /// Databases that are closed and used again take over their MetaCaches, whose volume has changed every other slot.
    /// Then they lose their power: what the caches knew when they were closed is out of date.
    fn use_again(&mut self, world: &World, mut instance: Instance, shape: Shape) -> Result<(), String> {
        for part in 0..2 {
            let transactions = self.model.borrow().transactions;
            self.model.borrow_mut().limit = transactions + AFTER;
            let shared = Rc::new(instance);
            self.sim.run_until(load(world, shared.clone(), &self.model, shape, self.seed * 10 + 8 + part));
            let loaded = Rc::into_inner(shared).expect("all sessions have ended");
            self.sim.run_until(loaded.close()).map_err(|error| error.to_string())?;
            self.sim.run_until(async {
                for (path, bytes) in meta_caches(&self.config) {
                    for at in (0..bytes).step_by(PAGE_BYTES).skip(part as usize).step_by(2) {
                        vandalise(world, path, at, &self.older, &mut self.random).await;
                    }
                }
            });
            let opened = self.sim.run_until(Instance::open(world, &self.config));
            instance = opened.map_err(|error| error.to_string())?.0;
            self.judge(&instance)?;
        }
        self.round(3, world, Rc::new(instance), shape)?;
        let (_, instance) = self.reopen(false)?;
        self.judge(&instance).map(drop)
    }

    /// Checks that every page of a closed instance verifies.
    fn judge_files(&self, world: &World) -> Result<(), String> {
        for database in &self.config.databases {
            let stream = StreamConfig { read_bytes: 256 << 10, depth: 1 };
            let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
            let checked =
                check_database(world, &database.path, PAGE_BYTES, None, stream, &counters, &progress, &stop);
            let findings = self.sim.run_until(checked).map_err(|error| error.to_string())?.findings;
            if !findings.is_clean() {
                return Err(format!("{}: {findings:?}", database.path));
            }
        }
        Ok(())
    }
}

/// Pages that were in the slots of MetaCaches before, by file and offset.
type Older = RefCell<BTreeMap<(String, u64), Vec<u8>>>;

/// Does to a slot of a MetaCache what a volume could do: flips a bit, tears a page, puts back an older one.
async fn vandalise(world: &World, path: &str, at: u64, older: &Older, random: &mut Random) {
    let Ok(file) = world.open(path, OpenMode::ReadWrite).await else { return };
    let (read, bufs) = file.read_at(at, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
    if read.is_err() {
        return;
    }
    let mut page = bufs[0].as_slice().to_vec();
    let old = older.borrow_mut().entry((path.to_owned(), at)).or_insert_with(|| page.clone()).clone();
    match random.below(3) {
        0 => page[random.below(PAGE_BYTES as u64) as usize] ^= 1,
        1 => page[PAGE_BYTES / 2..].copy_from_slice(&old[PAGE_BYTES / 2..]),
        _ => page.copy_from_slice(&old),
    }
    let _ = file.write_at(at, smallvec![PageBuf::copy_of(&page)]).await;
}

/// Files of MetaCaches, with their sizes.
fn meta_caches(config: &InstanceConfig) -> Vec<(&str, u64)> {
    let caches = config.databases.iter().filter_map(|database| database.meta_cache.as_ref());
    caches.map(|cache| (&cache.path[..], cache.bytes)).collect()
}

/// Vandalises slots at random times until the load has ended.
async fn vandalise_at_times(
    world: &World,
    config: &InstanceConfig,
    older: &Older,
    seed: u64,
    has_ended: &Cell<bool>,
) {
    let (caches, mut random) = (meta_caches(config), Random::new(seed));
    while !has_ended.get() && !caches.is_empty() {
        world.sleep(Duration::from_micros(300 + random.below(3000))).await;
        let (path, bytes) = caches[random.below(caches.len() as u64) as usize];
        let at = random.below(bytes / PAGE_BYTES as u64) * PAGE_BYTES as u64;
        vandalise(world, path, at, older, &mut random).await;
    }
}

/// Runs one seed, and checks that it has tested enough.
pub fn run_seed(seed: u64, totals: &mut Totals) -> Result<(), String> {
    let (sim, mut world) = new_simulation(seed);
    let mut random = Random::new(seed);
    let shape = shape_of(seed, &mut random);
    let config = with_meta_cache(seed, create_small(&sim, &world, &mut random));
    let model = shared(Model::default());
    let before = (totals.crashes, totals.crashes_in_recovery, totals.rolls);
    let older = Older::default();
    let mut run = Seed { seed, sim, config, model, random, older, failed_syncs: 0, totals };
    if seed % 5 < 2 {
        run.first_steps(&world, shape)?;
    }
    let mut instance;
    (world, instance) = run.reopen(false)?;
    run.judge(&instance)?;
    let mut pages = [0; 3];
    for round in 0..3 {
        let explain = |error: String| format!("round {round}: {error}");
        run.round(round, &world, instance, shape).map_err(explain)?;
        (world, instance) = run.reopen(round == 0).map_err(explain)?;
        pages[round as usize] = run.judge(&instance).map_err(explain)?;
    }
    let instance = Rc::into_inner(instance).expect("all sessions have ended");
    run.sim.run_until(instance.close()).map_err(|error| format!("close: {error}"))?;
    run.judge_files(&world)?;
    let opened = run.sim.run_until(Instance::open(&world, &run.config));
    let (instance, report) = opened.map_err(|error| format!("open after close: {error}"))?;
    if report.logs_replayed != 0 {
        return Err("a closed instance was replayed".to_owned());
    }
    run.judge(&instance).map_err(|error| format!("after close: {error}"))?;
    run.totals.branches.merge(&report.branches);
    if run.config.databases[0].meta_cache.is_some() {
        run.use_again(&world, instance, shape).map_err(|error| format!("used again: {error}"))?;
    }

    let Seed { sim, config, model, totals, .. } = run;
    for database in &config.databases {
        totals.cache_reads += database.counters.take().io.class(IoClass::MetaCacheRead).totals.count;
    }
    totals.add_faults(&sim);
    let model = model.borrow();
    totals.seeds += 1;
    totals.transactions += model.transactions;
    totals.splits += model.splits;
    totals.failed_operations += model.failed_operations;
    let merged = pages[1].saturating_sub(pages[2]);
    totals.pages_merged += merged;
    let (crashes, in_recovery) = (totals.crashes - before.0, totals.crashes_in_recovery - before.1);
    let rolls = totals.rolls - before.2;
    let enough = [
        (model.transactions >= 2000, "transactions", model.transactions),
        (rolls >= 3, "log rolls", rolls),
        (model.splits > 0, "splits", model.splits),
        (merged > 0, "pages merged", merged),
        (crashes + in_recovery >= 2, "crashes", crashes + in_recovery),
        (in_recovery >= 1, "crashes in recovery", in_recovery),
    ];
    match enough.into_iter().find(|(holds, ..)| !holds) {
        Some((_, what, count)) => Err(format!("{count} {what}: {PROVES_TOO_LITTLE}")),
        None => Ok(()),
    }
}

/// Runs seeds `from`, `from + step`, ... up to PROOFLOAD_SEEDS (500), or only PROOFLOAD_SEED. Continues after a
/// failed seed, so that a long run finds all failures.
pub fn run_seeds(test: &str, from: u64, step: u64, mut run: impl FnMut(u64) -> Result<(), String>) -> bool {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (seeds, is_complete) = match number("PROOFLOAD_SEED") {
        Some(seed) => (seed..=seed, false),
        None => (from..=number("PROOFLOAD_SEEDS").unwrap_or(500), true),
    };
    let last = *seeds.end();
    let mut failed = Vec::new();
    for seed in seeds.step_by(step as usize) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        let error = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(_) => "panicked".to_owned(),
        };
        failed.push(format!(
            "seed {seed}: {error}\nrepeat: PROOFLOAD_SEED={seed} cargo test -p engine --test it {test}::"
        ));
    }
    assert!(failed.is_empty(), "{} seeds failed\n{}", failed.len(), failed.join("\n"));
    is_complete && last >= 500
}
