//! The load, measured in either world: what a batch and a replayed log cost in I/O.
//!
//! Every database has an instance (one log stream) of its own and two sessions, as on the published servers: with more
//! sessions on one stream, group commit would join log writes.
#![allow(dead_code, reason = "the test and the example use different parts")]

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::rc::Rc;

use btree::PagesInUse;
use engine::{
    Counters, DatabaseConfig, Instance, InstanceConfig, MaintenanceConfig, Progress, RecoveryReport,
    StopSignal, create_database,
};
use futures_util::future::{join_all, try_join_all};
use results::{IoClass, IoCounters};
use workload::codec::DatabaseCodec;
use workload::mix::Mix;
use workload::session::Mailboxes;
use workload::template::TemplateDatabase;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation, StorageModel, ZeroLatency};
use world::{Duration, SECTOR_BYTES, Task, TemplatePages, World};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

pub const PAGE_BYTES: usize = 32 << 10;
const LOG_BYTES: u64 = 1 << 20;
const FREE_PAGES: u32 = 256;
const EXTRA_COPIES: usize = 1;

/// Databases, cache and load of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// An existing folder; empty for the root of a simulated host.
    pub root: &'static str,
    pub databases: u32,
    pub bytes: u64,
    pub cache_bytes: u64,
    pub mix: Mix,
    pub sessions: u32,
    /// Batches per database before counting begins.
    pub warm_up: u64,
    /// Batches per database that are counted.
    pub batches: u64,
    /// Storage answers at once.
    pub is_instant: bool,
    /// Pause of a session after each batch. The eviction of the page cache needs time to pass, even if storage
    /// answers at once.
    pub rest: Duration,
    /// Background maintenance and log replication to one copy.
    pub background: bool,
    pub seed: u64,
}

impl Setup {
    /// A simulation with a host `a` that has a volume for each database and its logs.
    pub fn simulation(&self) -> (Simulation, World) {
        let times = FixedLatencyTimes {
            read_latency: Duration::from_millis(4),
            write_latency: Duration::from_millis(2),
            sync_latency: Duration::from_micros(500),
            bytes_per_second: 1_000_000_000,
            jitter: Duration::from_millis(4),
            parallel: 64,
        };
        let storage: Box<dyn StorageModel> = match self.is_instant {
            true => Box::new(ZeroLatency::default()),
            false => Box::new(FixedLatency::new(self.seed, times)),
        };
        let config = SimConfig { storage, shards: 1, ..SimConfig::default() };
        let simulation = Simulation::new(self.seed, config);
        let world = simulation.host("a");
        (0..self.databases).for_each(|number| simulation.volume("a", &self.folder(number), 1 << 50));
        (simulation, world)
    }

    fn folder(&self, number: u32) -> String {
        format!("{}/d{number}", self.root)
    }
}

/// Counts over all databases.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub batches: u64,
    pub databases: u32,
    pub seconds: f64,
    pub io: IoCounters,
    pub logs: u64,
    /// Growth of the files from the first extension to the last, including the warm-up: bytes, and batches in that
    /// time.
    pub growth: (u64, u64),
}

impl Counted {
    pub fn count(&self, class: IoClass) -> f64 {
        self.io.class(class).totals.count as f64
    }

    pub fn per_batch(&self, class: IoClass) -> f64 {
        self.count(class) / self.batches as f64
    }

    /// Pages moved per batch: adjacent pages may share an I/O.
    pub fn pages_per_batch(&self, class: IoClass) -> f64 {
        self.io.class(class).totals.bytes as f64 / PAGE_BYTES as f64 / self.batches as f64
    }

    pub fn read_share(&self) -> f64 {
        let (reads, writes) =
            (self.count(IoClass::TransactionalRead), self.count(IoClass::TransactionalWrite));
        100.0 * reads / (reads + writes)
    }

    pub fn log_file_kib_per_batch(&self) -> f64 {
        (self.logs * LOG_BYTES) as f64 / 1024.0 / self.batches as f64
    }

    pub fn log_kib_written_per_batch(&self) -> f64 {
        let bytes = self.io.class(IoClass::LogWrite).totals.bytes
            + self.io.class(IoClass::LogPrepareWrite).totals.bytes;
        bytes as f64 / 1024.0 / self.batches as f64
    }

    pub fn growth_per_batch(&self) -> f64 {
        self.growth.0 as f64 / self.growth.1.max(1) as f64
    }

    pub fn replication_reads_per_log(&self) -> f64 {
        self.count(IoClass::ReplicationRead) / self.logs as f64 / EXTRA_COPIES as f64
    }

    pub fn maintenance_reads_per_s(&self) -> f64 {
        self.count(IoClass::MaintenanceRead) / self.seconds / f64::from(self.databases)
    }
}

/// Database with its open instance, under load.
pub struct Stand {
    world: World,
    pub instance: Rc<Instance>,
    mailboxes: Rc<Mailboxes>,
    setup: Setup,
    number: u32,
    next: Rc<Cell<u64>>,
    /// Number of batches and pages of the database at each extension of the file.
    growth: Rc<RefCell<Vec<(u64, u32)>>>,
}

async fn config_of(
    world: &World,
    setup: &Setup,
    number: u32,
) -> Outcome<(InstanceConfig, Rc<TemplateDatabase>)> {
    let folder = setup.folder(number);
    if world.entry(&folder).await?.is_none() {
        world.create_dir(&folder).await?;
    }
    let path = format!("{folder}/db.edb");
    let seed = setup.seed ^ (u64::from(number) << 32);
    let template = Rc::new(TemplateDatabase::of_size(PAGE_BYTES as u32, setup.bytes, FREE_PAGES, seed, 50)?);
    let codec = Rc::new(DatabaseCodec::new(template.clone()));
    if world.entry(&path).await?.is_none() {
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        create_database(world, &path, template.clone(), codec.clone(), &counters, &progress, &stop).await?;
    }
    let mut config = InstanceConfig::new(&folder, PAGE_BYTES);
    config.cache_bytes_per_database = setup.cache_bytes;
    config.log_buffer_bytes = LOG_BYTES as usize / 2;
    config.databases.push(DatabaseConfig {
        codec: Some(codec),
        template_id: Some(template.id()),
        nodes: Some(template.clone()),
        ..DatabaseConfig::new(&path)
    });
    Ok((config, template))
}

impl Stand {
    async fn open(world: &World, setup: &Setup, number: u32, keep_logs: bool) -> Outcome<Stand> {
        let (mut config, template) = config_of(world, setup, number).await?;
        if keep_logs {
            config.circular_logging = false;
            config.checkpoint_depth_bytes = u64::MAX / 2;
        }
        let (instance, _) = Instance::open(world, &config).await?;
        Stand::over(world, setup, number, instance, template).await
    }

    async fn over(
        world: &World,
        setup: &Setup,
        number: u32,
        instance: Instance,
        template: Rc<TemplateDatabase>,
    ) -> Outcome<Stand> {
        let instance = Rc::new(instance);
        let mailboxes = Rc::new(Mailboxes::open(instance.clone(), 1, template).await?);
        Ok(Stand {
            world: world.clone(),
            instance,
            mailboxes,
            setup: *setup,
            number,
            next: Rc::default(),
            growth: Rc::default(),
        })
    }

    /// Ends the instance as a crash does and recovers it. Returns the new instance under load, and the counts of the
    /// recovery.
    async fn crash(self) -> Outcome<(Stand, Replayed)> {
        let (world, setup, number, next) = (self.world.clone(), self.setup, self.number, self.next.clone());
        let full_logs = self
            .instance
            .log_end()
            .bytes_since(self.instance.durable_checkpoint(), (LOG_BYTES / SECTOR_BYTES as u64) as u16)
            as f64
            / LOG_BYTES as f64;
        self.take_io()?;
        self.give_up().await?;
        let (config, template) = config_of(&world, &setup, number).await?;
        let (instance, report) = Instance::open(&world, &config).await?;
        let stand = Stand { next, ..Stand::over(&world, &setup, number, instance, template).await? };
        let io = stand.take_io()?;
        Ok((stand, Replayed { report, io, full_logs }))
    }

    /// Pages that trees use.
    async fn pages_used(&self) -> Outcome<u32> {
        let last = self.instance.database_pages(1)?;
        let used =
            self.instance.begin().read(1, PagesInUse::read).await?.ok_or("the database has no catalog")?;
        Ok((1..=last).filter(|pgno| used.contains(*pgno)).count() as u32)
    }

    /// Does batches up to number `until`, or until `enough` returns true.
    pub async fn drive(&self, until: u64, enough: impl Fn() -> bool) -> Outcome<()> {
        let session = || async {
            while self.next.get() < until && !enough() {
                let batch = self.next.replace(self.next.get() + 1);
                let seed = self.setup.seed;
                self.mailboxes.batch(&self.setup.mix, seed, self.number, batch, batch as u32).await?;
                self.note_growth(batch)?;
                if !self.setup.rest.is_zero() {
                    self.world.sleep(self.setup.rest).await;
                }
            }
            Ok::<_, Box<dyn Error>>(())
        };
        join_all((0..self.setup.sessions).map(|_| session())).await.into_iter().collect()
    }

    fn note_growth(&self, batch: u64) -> Outcome<()> {
        let pages = self.instance.database_pages(1)?;
        let mut growth = self.growth.borrow_mut();
        if growth.last().is_none_or(|(_, last)| *last != pages) {
            growth.push((batch, pages));
        }
        Ok(())
    }

    fn take_io(&self) -> Outcome<IoCounters> {
        let mut io = self.instance.database_counters(1)?.take().io;
        io.merge(&self.instance.log_counters().take().io);
        Ok(io)
    }

    fn into_instance(self) -> Outcome<Instance> {
        let Stand { instance, mailboxes, .. } = self;
        drop(mailboxes);
        Ok(Rc::try_unwrap(instance).map_err(|_| "the instance is still in use")?)
    }

    async fn give_up(self) -> Outcome<()> {
        self.into_instance()?.abandon().await;
        Ok(())
    }
}

struct Background {
    stop: StopSignal,
    tasks: Vec<Task<Result<(), engine::Error>>>,
}

impl Background {
    fn start(stands: &[Stand]) -> Background {
        let stop = StopSignal::new();
        let mut tasks = Vec::new();
        for stand in stands {
            let (instance, stopped) = (stand.instance.clone(), stop.clone());
            let maintenance =
                async move { instance.maintain(1, &MaintenanceConfig::default(), &stopped).await.map(drop) };
            tasks.push(stand.world.spawn(maintenance));
            let (instance, stopped) = (stand.instance.clone(), stop.clone());
            let replication = async move { instance.replicate(EXTRA_COPIES, &stopped).await.map(drop) };
            tasks.push(stand.world.spawn(replication));
        }
        Background { stop, tasks }
    }

    async fn end(self) -> Outcome<()> {
        self.stop.stop();
        for task in self.tasks {
            task.await?;
        }
        Ok(())
    }
}

/// Databases under load.
pub struct Bench {
    world: World,
    setup: Setup,
    stands: Vec<Stand>,
    background: Background,
}

impl Bench {
    /// Opens the databases and lets them reach a steady state.
    pub async fn warmed_up(world: &World, setup: &Setup) -> Outcome<Bench> {
        let stands = (0..setup.databases).map(|number| Stand::open(world, setup, number, false));
        let stands: Vec<Stand> = try_join_all(stands).await?;
        let background = Background::start(if setup.background { &stands } else { &[] });
        let bench = Bench { world: world.clone(), setup: *setup, stands, background };
        bench.drive(setup.warm_up).await?;
        Ok(bench)
    }

    async fn drive(&self, until: u64) -> Outcome<()> {
        try_join_all(self.stands.iter().map(|stand| stand.drive(until, || false))).await.map(drop)
    }

    /// Does the counted batches.
    pub async fn count(&self) -> Outcome<Counted> {
        let rolls = || self.stands.iter().map(|stand| stand.instance.log_rolls()).sum::<u64>();
        for stand in &self.stands {
            stand.take_io()?;
        }
        let (started, rolls_before) = (self.world.now(), rolls());
        self.drive(self.setup.warm_up + self.setup.batches).await?;
        let mut counted = Counted {
            batches: self.setup.batches * u64::from(self.setup.databases),
            databases: self.setup.databases,
            seconds: self.world.now().since(started).as_secs_f64(),
            logs: rolls() - rolls_before,
            ..Counted::default()
        };
        for stand in &self.stands {
            counted.io.merge(&stand.take_io()?);
            // The first entry is the size at the start, in the middle of a step.
            if let [_, (first, before), .., (last, after)] = stand.growth.borrow()[..] {
                counted.growth.0 += u64::from(after - before) * PAGE_BYTES as u64;
                counted.growth.1 += last - first;
            }
        }
        Ok(counted)
    }

    /// Stops as a crash would.
    pub async fn end(self) -> Outcome<()> {
        self.background.end().await?;
        for stand in self.stands {
            stand.give_up().await?;
        }
        Ok(())
    }
}

/// One part of a long load, and the state of the database after it.
#[derive(Debug, Clone)]
pub struct Aged {
    pub counted: Counted,
    /// Number of pages of the database, and of those that trees use.
    pub pages: (u32, u32),
    /// Recovery from a crash after this part; `None` except for the first and the last part.
    pub replayed: Option<Replayed>,
}

/// Loads one database in `parts` parts of length `part`. A crash and a recovery follow the first and the last part.
pub async fn age(world: &World, setup: &Setup, part: Duration, parts: u32) -> Outcome<Vec<Aged>> {
    let mut stand = Stand::open(world, setup, 0, false).await?;
    stand.drive(setup.warm_up, || false).await?;
    let mut aged = Vec::new();
    for number in 1..=parts {
        let background = Background::start(if setup.background { std::slice::from_ref(&stand) } else { &[] });
        stand.take_io()?;
        let (started, rolls, first, pages) =
            (world.now(), stand.instance.log_rolls(), stand.next.get(), stand.instance.database_pages(1)?);
        stand.drive(u64::MAX, || world.now().since(started) >= part).await?;
        let batches = stand.next.get() - first;
        let grown = u64::from(stand.instance.database_pages(1)? - pages) * PAGE_BYTES as u64;
        let counted = Counted {
            batches,
            databases: 1,
            seconds: world.now().since(started).as_secs_f64(),
            io: stand.take_io()?,
            logs: stand.instance.log_rolls() - rolls,
            growth: (grown, batches),
        };
        background.end().await?;
        let pages = (stand.instance.database_pages(1)?, stand.pages_used().await?);
        let mut replayed = None;
        if number == 1 || number == parts {
            let recovered;
            (stand, recovered) = stand.crash().await?;
            replayed = Some(recovered);
        }
        aged.push(Aged { counted, pages, replayed });
    }
    stand.give_up().await?;
    Ok(aged)
}

/// Cost of a replay of logs.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub report: RecoveryReport,
    pub io: IoCounters,
    /// Replayed log in multiples of a full log file.
    full_logs: f64,
}

impl Replayed {
    /// I/O operations of a class per replayed log file, full or not.
    pub fn per_log(&self, class: IoClass) -> f64 {
        self.io.class(class).totals.count as f64 / f64::from(self.report.logs_replayed)
    }

    /// Replayed log in multiples of a full log file.
    pub fn full_logs(&self) -> f64 {
        self.full_logs
    }

    /// I/O operations of a class per full log: the first and the last replayed log hold changes only in part.
    pub fn per_full_log(&self, class: IoClass) -> f64 {
        self.io.class(class).totals.count as f64 / self.full_logs
    }

    /// Pages that these operations moved, per full log.
    pub fn pages_per_full_log(&self, class: IoClass) -> f64 {
        self.io.class(class).totals.bytes as f64 / PAGE_BYTES as f64 / self.full_logs
    }
}

/// Generates `logs` log files, keeps all of them and writes no page for the checkpoint. Then stops as a crash does,
/// and replays them.
pub async fn recover(world: &World, setup: &Setup, logs: u64) -> Outcome<Replayed> {
    // What an earlier load has left in the log is not to be replayed once more.
    Stand::open(world, setup, 0, false).await?.into_instance()?.close().await?;
    let stand = Stand::open(world, setup, 0, true).await?;
    stand.take_io()?;
    let instance = stand.instance.clone();
    stand.drive(u64::MAX, || instance.log_rolls() >= logs).await?;
    drop(instance);
    let full_logs = stand.take_io()?.class(IoClass::LogWrite).totals.bytes as f64 / LOG_BYTES as f64;
    stand.give_up().await?;
    let (config, _) = config_of(world, setup, 0).await?;
    let (instance, report) = Instance::open(world, &config).await?;
    let mut io = instance.database_counters(1)?.take().io;
    io.merge(&instance.log_counters().take().io);
    instance.abandon().await;
    Ok(Replayed { report, io, full_logs })
}
