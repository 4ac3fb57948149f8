//! A host under test: its instances spread over shards, and what the campaign asks of them.
//!
//! Invariants
//! 1. An instance lives on one shard from start to end; only plain values cross.
//! 2. What a database is made of (seed, rows, payload) is stored in its file, so that files made earlier are
//!    used again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::{
    Counters, DatabaseConfig, Instance, InstanceConfig, MaintenanceConfig, Progress, RecoveryReport, Redo,
    StopSignal, maintain_in_recovery,
};
use futures_util::future::join_all;
use results::IoClass;
use smallvec::smallvec;
use solution::{Deployment, EngineSpec, InstanceSpec};
use workload::codec::DatabaseCodec;
use workload::mix::Mix;
use workload::session::{Mailboxes, SessionError};
use workload::shard::Shard;
use workload::template::TemplateDatabase;
use world::{Duration, ErrorKind, HostUsage, OpenMode, PageBuf, Task, TemplatePages, Time, World};

use crate::CampaignError;
use crate::meta_cache::{CacheVolumes, add_meta_caches};
use crate::sampler::{DatabaseCounts, HostCounts, LogCounts, UsageCounts};

/// Share of each payload that a compressor would save, percent: mail compresses to about half.
pub const COMPRESSIBILITY_PCT: u8 = 50;
/// Number of free pages in a new database.
pub const FREE_PAGES: u32 = 256;
/// Largest log buffer of an instance, bytes.
pub const LOG_BUFFER_BYTES: usize = 1 << 20;

/// Options for opening instances in a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenOptions {
    /// Whether logs are removed once recovery no longer needs them.
    pub circular_logging: bool,
    /// Checkpoint depth, bytes: pages are written back when the log has grown by this much since their first change.
    pub checkpoint_depth_bytes: u64,
    /// Whether databases are maintained during a recovery.
    pub maintenance: Option<MaintenanceConfig>,
    /// Order of redo: in log order, or by page.
    pub redo: Redo,
}

impl OpenOptions {
    /// Options of the test `soft_recovery`: reads as in published recoveries, and maintenance if the solution file
    /// asks for it.
    pub fn for_recovery(engine: &EngineSpec) -> OpenOptions {
        let maintenance = engine.recovery_maintenance.then(|| maintenance_config(engine));
        OpenOptions { maintenance, redo: Redo::InLogOrder, ..OpenOptions::normal(engine) }
    }

    /// Options of the solution file. Instances that an earlier run left open are recovered on all cores, because that
    /// is not measured.
    pub fn normal(engine: &EngineSpec) -> OpenOptions {
        let checkpoint_depth_bytes = engine.checkpoint_depth_bytes;
        OpenOptions { circular_logging: true, checkpoint_depth_bytes, maintenance: None, redo: Redo::ByPage }
    }

    /// Options of the solution file, with all logs kept.
    pub fn keep_logs(engine: &EngineSpec) -> OpenOptions {
        OpenOptions { circular_logging: false, ..OpenOptions::normal(engine) }
    }

    /// Options of `log_generation`: keeps every log and writes no page back for the checkpoint.
    pub fn keep_all_logs() -> OpenOptions {
        let checkpoint_depth_bytes = u64::MAX / 2;
        OpenOptions { circular_logging: false, checkpoint_depth_bytes, maintenance: None, redo: Redo::ByPage }
    }
}

/// Path of a database file.
pub fn database_path(dir: &str, name: &str) -> String {
    format!("{}/{name}.edb", dir.trim_end_matches('/'))
}

/// Host under test, as its coordinator sees it: shards and instances.
pub struct Host {
    shards: Vec<Shard<ShardState>>,
    /// Shard of each instance, by number.
    placement: Vec<usize>,
    /// Instance number, and number in the instance (from 1), of each database.
    pub databases: Vec<(usize, u8)>,
    world: World,
    /// Processor times at the last call.
    last_usage: RefCell<Option<UsageMark>>,
}

/// Processor times at one moment.
struct UsageMark {
    at: Time,
    host: HostUsage,
    shards: Vec<Duration>,
}

/// State of one shard.
pub struct ShardState {
    /// World of the shard.
    pub world: World,
    /// Whole deployment; a shard uses the instances placed on it.
    pub deployment: Deployment,
    open: RefCell<BTreeMap<usize, Rc<OpenInstance>>>,
    /// Counters of work beside the engine on each instance's files.
    side: RefCell<BTreeMap<usize, Rc<SideWork>>>,
    /// Volumes of the MetaCaches of each instance that was opened.
    pub(crate) cache_volumes: RefCell<BTreeMap<usize, CacheVolumes>>,
    /// Flag that ends jobs early.
    pub stop: StopSignal,
}

/// Counters of the files of an instance, open or not, and progress of work beside the engine.
pub struct SideWork {
    /// Counters of each database.
    pub databases: Vec<(Counters, Progress)>,
    /// Counters of the logs.
    pub log: Counters,
}

/// Open instance with its databases.
pub struct OpenInstance {
    /// Instance of the engine.
    pub instance: Rc<Instance>,
    /// Databases of the instance, in order.
    pub mailboxes: Vec<Rc<Mailboxes>>,
    /// Flag that ends the background jobs.
    stop: StopSignal,
    /// Background jobs; each returns the number of bad pages that it found.
    jobs: RefCell<Vec<Task<Result<u64, engine::Error>>>>,
    last: Cell<LastCounts>,
    pages: RefCell<Vec<u32>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LastCounts {
    cache: engine::CacheStatus,
    log_rolls: u64,
}

impl Host {
    /// Starts the shards and places the instances on them in turn.
    pub fn start(world: &World, deployment: &Deployment) -> Host {
        let count = world.shards().clamp(1, deployment.instances.len().max(1));
        let shards = (0..count)
            .map(|index| {
                let deployment = deployment.clone();
                Shard::start(world, index, move |world| ShardState {
                    world,
                    deployment,
                    open: RefCell::default(),
                    side: RefCell::default(),
                    cache_volumes: RefCell::default(),
                    stop: StopSignal::new(),
                })
            })
            .collect();
        let placement = (0..deployment.instances.len()).map(|instance| instance % count).collect();
        let databases = deployment.instances.iter().enumerate().flat_map(|(index, instance)| {
            (1..=instance.databases.len() as u8).map(move |database| (index, database))
        });
        Host {
            shards,
            placement,
            databases: databases.collect(),
            world: world.clone(),
            last_usage: RefCell::default(),
        }
    }

    /// Shard of an instance.
    pub fn shard(&self, instance: usize) -> &Shard<ShardState> {
        &self.shards[self.placement[instance]]
    }

    /// Runs `body` for every instance side by side. Returns the results in the order of the solution file.
    pub async fn each_instance<T, F, R>(&self, body: F) -> Result<Vec<T>, CampaignError>
    where
        F: Fn(Rc<ShardState>, usize) -> R + Clone + Send + 'static,
        R: Future<Output = Result<T, CampaignError>> + 'static,
        T: Send + 'static,
    {
        let calls = (0..self.placement.len()).map(|instance| {
            let body = body.clone();
            self.shard(instance).call(move |state| body(state, instance))
        });
        join_all(calls).await.into_iter().collect()
    }

    /// Opens every instance, and recovers those that need it.
    pub async fn open(&self, options: OpenOptions) -> Result<Vec<RecoveryReport>, CampaignError> {
        self.each_instance(move |state, instance| async move { state.open(instance, options).await }).await
    }

    /// Closes every open instance; its databases are clean afterwards. Returns the bad pages that maintenance found.
    pub async fn close(&self) -> Result<u64, CampaignError> {
        let bad = self.each_instance(|state, instance| async move { state.close(instance).await }).await?;
        Ok(bad.into_iter().sum())
    }

    /// Stops every open instance as a crash would, but with a durable log; the database headers say how far it
    /// reaches. Returns the bad pages that maintenance found.
    pub async fn abandon(&self) -> Result<u64, CampaignError> {
        let bad = self.each_instance(|state, instance| async move { state.abandon(instance).await }).await?;
        Ok(bad.into_iter().sum())
    }

    /// Counts since the last call, in the order of the solution file.
    pub async fn take_counts(&self) -> Result<HostCounts, CampaignError> {
        let parts =
            self.each_instance(|state, instance| async move { Ok(state.take_counts(instance)) }).await?;
        let mut counts = HostCounts::default();
        parts.into_iter().for_each(|part| counts.extend(part));
        counts.usage = self.take_usage().await;
        Ok(counts)
    }

    /// Processor time since the last call; `None` at the first one, and where the world does not know it.
    async fn take_usage(&self) -> Option<UsageCounts> {
        let shards = join_all(
            self.shards.iter().map(|shard| shard.call(|state| async move { state.world.thread_cpu() })),
        );
        let shards: Vec<Duration> = shards.await.into_iter().collect::<Option<_>>()?;
        let now = UsageMark { at: self.world.now(), host: self.world.host_usage()?, shards };
        let ns = |later: Duration, earlier: Duration| later.saturating_sub(earlier).as_nanos() as u64;
        let busiest =
            |last: &UsageMark| now.shards.iter().zip(&last.shards).map(|(now, last)| ns(*now, *last)).max();
        let pressure = |last: &UsageMark| Some(ns(now.host.host_cpu_pressure?, last.host.host_cpu_pressure?));
        let counts = self.last_usage.borrow().as_ref().map(|last| UsageCounts {
            cpu_busy_ns: ns(now.host.program_cpu, last.host.program_cpu),
            cpu_available_ns: now.at.since(last.at).as_nanos() as u64 * now.host.program_cpus as u64,
            cpu_busiest_thread_ns: busiest(last).unwrap_or(0),
            host_cpu_busy_ns: ns(now.host.host_cpu_busy, last.host.host_cpu_busy),
            host_cpu_available_ns: ns(now.host.host_cpu_total, last.host.host_cpu_total),
            host_cpu_stolen_ns: ns(now.host.host_cpu_stolen, last.host.host_cpu_stolen),
            host_cpu_pressure_ns: pressure(last),
            late_ns: ns(now.host.program_late, last.host.program_late),
            host_memory_available_bytes: now.host.memory_available_bytes,
        });
        self.last_usage.replace(Some(now));
        counts
    }

    /// Resets the progress of work beside the engine for a new test.
    pub async fn forget_progress(&self) -> Result<(), CampaignError> {
        let forget = |state: Rc<ShardState>, instance| async move {
            state.forget_progress(instance);
            Ok(())
        };
        self.each_instance(forget).await.map(drop)
    }

    /// Finished and total bytes of the work beside the engine.
    pub async fn progress_bytes(&self) -> Result<(u64, u64), CampaignError> {
        let parts =
            self.each_instance(|state, instance| async move { Ok(state.progress_bytes(instance)) }).await?;
        Ok(parts.into_iter().fold((0, 0), |(done, total), part| (done + part.0, total + part.1)))
    }

    /// Asks jobs to end early.
    pub async fn stop_jobs(&self) {
        for shard in &self.shards {
            shard.call(|state| async move { state.stop.stop() }).await;
        }
    }

    /// Clears the stop flag, so that new jobs can start. The jobs that it stopped must have ended.
    pub async fn clear_stop(&self) {
        for shard in &self.shards {
            shard.call(|state| async move { state.stop.clear() }).await;
        }
    }

    /// Performs one batch on database `database` (counted over all instances).
    pub fn batch(
        &self,
        mix: Mix,
        run_seed: u64,
        database: u32,
        number: u64,
    ) -> impl Future<Output = Result<(), CampaignError>> + use<> {
        let (instance, in_instance) = self.databases[database as usize];
        let seat = (number / self.databases.len() as u64) as u32;
        self.shard(instance).call(move |state| async move {
            let open = state.open_instance(instance)?;
            let mailboxes = open.mailboxes[usize::from(in_instance) - 1].clone();
            mailboxes.batch(&mix, run_seed, database, number, seat).await.map_err(CampaignError::from)
        })
    }
}

impl ShardState {
    fn spec(&self, instance: usize) -> &InstanceSpec {
        &self.deployment.instances[instance]
    }

    /// Open instance with this number.
    pub fn open_instance(&self, instance: usize) -> Result<Rc<OpenInstance>, CampaignError> {
        let not_open = || CampaignError::NotOpen { instance: self.spec(instance).name.clone() };
        self.open.borrow().get(&instance).cloned().ok_or_else(not_open)
    }

    /// Template of an existing database file; reads count as database `number` of the instance.
    pub async fn template_of_file(
        &self,
        instance: usize,
        number: usize,
        path: &str,
    ) -> Result<TemplateDatabase, CampaignError> {
        let page_bytes = self.spec(instance).page_bytes;
        let side = self.side(instance);
        let operation = side.databases[number].0.begin(IoClass::HousekeepingRead, self.world.now());
        let no_database = |error: world::Error| match error.kind {
            ErrorKind::NotFound => CampaignError::NoDatabase { path: path.to_owned() },
            _ => error.into(),
        };
        let file = self.world.open(path, OpenMode::Read).await.map_err(no_database)?;
        let offset = (u64::from(TemplateDatabase::SHAPE_PAGE) + 1) * u64::from(page_bytes);
        let (result, bufs) = file.read_at(offset, smallvec![PageBuf::empty(page_bytes as usize)]).await;
        operation.completed(u64::from(page_bytes), result?, self.world.now());
        TemplateDatabase::of_shape_page(bufs[0].as_slice())
            .map_err(|source| CampaignError::Template { path: path.to_owned(), source })
    }

    /// Template of a new database of this deployment. Payloads differ between databases and solutions.
    pub fn new_template(&self, instance: usize, database: usize) -> Result<TemplateDatabase, CampaignError> {
        let spec = &self.spec(instance).databases[database];
        let seed = fold(&[&self.deployment.solution, &self.deployment.host, &spec.name]);
        TemplateDatabase::of_size(
            self.spec(instance).page_bytes,
            spec.bytes,
            FREE_PAGES,
            seed,
            COMPRESSIBILITY_PCT,
        )
        .map_err(|source| CampaignError::Template { path: database_path(&spec.dir, &spec.name), source })
    }

    /// Engine configuration of an instance whose files are in other folders, such as a restored backup.
    pub async fn config_in(
        &self,
        instance: usize,
        options: OpenOptions,
        log_dir: &str,
        paths: &[String],
    ) -> Result<(InstanceConfig, Vec<Rc<TemplateDatabase>>), CampaignError> {
        let spec = self.spec(instance);
        let mut config = InstanceConfig::new(log_dir, spec.page_bytes as usize);
        config.log_bytes = spec.log_file_bytes as u32;
        config.log_buffer_bytes = LOG_BUFFER_BYTES.min(spec.log_file_bytes as usize / 2);
        config.circular_logging = options.circular_logging;
        config.redo = options.redo;
        config.checkpoint_depth_bytes = options.checkpoint_depth_bytes;
        config.flush_start = self.deployment.engine.flush_start;
        config.flush_stop = self.deployment.engine.flush_stop;
        config.cache_bytes_per_database = spec.cache_max_bytes / spec.databases.len().max(1) as u64;
        let side = self.side(instance);
        config.log_counters = side.log.clone();
        let mut templates = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let template = Rc::new(self.template_of_file(instance, number, path).await?);
            let codec = Rc::new(DatabaseCodec::new(template.clone()));
            config.databases.push(DatabaseConfig {
                codec: Some(codec),
                template_id: Some(template.id()),
                nodes: Some(template.clone()),
                counters: side.databases[number].0.clone(),
                ..DatabaseConfig::new(path)
            });
            templates.push(template);
        }
        Ok((config, templates))
    }

    /// Paths of an instance's databases.
    pub fn paths(&self, instance: usize) -> Vec<String> {
        self.spec(instance).databases.iter().map(|spec| database_path(&spec.dir, &spec.name)).collect()
    }

    /// Opens an instance, and recovers it if needed.
    pub async fn open(&self, instance: usize, options: OpenOptions) -> Result<RecoveryReport, CampaignError> {
        let paths = self.paths(instance);
        for path in &paths {
            if self.world.entry(path).await?.is_none() {
                return Err(CampaignError::NoDatabase { path: path.clone() });
            }
        }
        let log_dir = self.spec(instance).log_dir.clone();
        let (mut config, templates) = self.config_in(instance, options, &log_dir, &paths).await?;
        let world = self.world.in_lane(instance as u32);
        let volumes = add_meta_caches(&world, self.spec(instance), &mut config).await;
        self.cache_volumes.borrow_mut().insert(instance, volumes);
        let recovered = StopSignal::new();
        let jobs = self.maintain_in_recovery(&config, options, &recovered);
        let opened = Instance::open(&world, &config).await;
        recovered.stop();
        let (opened, report) = match opened {
            Ok((opened, report)) => (Rc::new(opened), report),
            Err(error) => {
                // Why the opening failed is the story, not what maintenance met on the same disk.
                for job in jobs {
                    let _ = job.await;
                }
                return Err(error.into());
            }
        };
        let mut mailboxes = Vec::new();
        let mut pages = Vec::new();
        for (number, template) in (1..).zip(templates) {
            mailboxes.push(Rc::new(Mailboxes::open(opened.clone(), number, template).await?));
            pages.push(opened.database_pages(number)?);
        }
        let open = OpenInstance {
            instance: opened,
            mailboxes,
            stop: StopSignal::new(),
            jobs: RefCell::new(jobs),
            last: Cell::default(),
            pages: RefCell::new(pages),
        };
        self.open.borrow_mut().insert(instance, Rc::new(open));
        Ok(report)
    }

    fn maintain_in_recovery(
        &self,
        config: &InstanceConfig,
        options: OpenOptions,
        recovered: &StopSignal,
    ) -> Vec<Task<engine::Result<u64>>> {
        let Some(maintenance) = options.maintenance else { return Vec::new() };
        let maintain = |database: &DatabaseConfig| {
            let (world, stop, database) = (self.world.clone(), recovered.clone(), database.clone());
            let page_bytes = config.page_bytes;
            self.world.spawn(async move {
                maintain_in_recovery(&world, &database, page_bytes, &maintenance, &stop).await?;
                // Pages that redo had not come to may have been torn: that is no finding.
                Ok(0)
            })
        };
        config.databases.iter().map(maintain).collect()
    }

    /// Takes an instance out of use. Returns the bad pages of its maintenance, or the first error of a background job;
    /// `None` if it is not open.
    async fn take(&self, instance: usize) -> Result<Option<(Instance, engine::Result<u64>)>, CampaignError> {
        let Some(open) = self.open.borrow_mut().remove(&instance) else { return Ok(None) };
        open.stop.stop();
        let mut bad_pages = Ok(0);
        for job in open.jobs.take() {
            let found = job.await;
            bad_pages = bad_pages.and_then(|sum| Ok(sum + found?));
        }
        let busy = || CampaignError::Busy { instance: self.spec(instance).name.clone() };
        let OpenInstance { instance: engine, mailboxes, .. } = Rc::try_unwrap(open).map_err(|_| busy())?;
        drop(mailboxes);
        let engine = Rc::try_unwrap(engine).map_err(|_| busy())?;
        Ok(Some((engine, bad_pages)))
    }

    async fn close(&self, instance: usize) -> Result<u64, CampaignError> {
        let Some((engine, bad_pages)) = self.take(instance).await? else { return Ok(0) };
        // Databases that can be clean are, also if a background job met an error.
        let closed = engine.close().await;
        let bad_pages = bad_pages?;
        closed?;
        Ok(bad_pages)
    }

    async fn abandon(&self, instance: usize) -> Result<u64, CampaignError> {
        let Some((engine, bad_pages)) = self.take(instance).await? else { return Ok(0) };
        engine.leave_for_recovery().await?;
        Ok(bad_pages?)
    }

    /// Counters of an instance's files, and progress of the work beside the engine.
    pub fn side(&self, instance: usize) -> Rc<SideWork> {
        let databases = self.spec(instance).databases.len();
        let new = || SideWork {
            databases: (0..databases).map(|_| Default::default()).collect(),
            log: Counters::default(),
        };
        self.side.borrow_mut().entry(instance).or_insert_with(|| Rc::new(new())).clone()
    }

    fn forget_progress(&self, instance: usize) {
        let side = self.side(instance);
        let anew = |(counters, _): &(Counters, Progress)| (counters.clone(), Progress::default());
        let databases = side.databases.iter().map(anew).collect();
        self.side.borrow_mut().insert(instance, Rc::new(SideWork { databases, log: side.log.clone() }));
    }

    fn take_counts(&self, instance: usize) -> HostCounts {
        let (spec, side, now) = (self.spec(instance), self.side(instance), self.world.now());
        let mut log = LogCounts {
            instance: spec.name.clone(),
            io: side.log.take().io,
            waiting: side.log.waiting(now),
            ..LogCounts::default()
        };
        let mut databases: Vec<DatabaseCounts> = spec
            .databases
            .iter()
            .zip(&side.databases)
            .map(|(database, (counters, _))| DatabaseCounts {
                instance: spec.name.clone(),
                database: database.name.clone(),
                io: counters.take().io,
                waiting: counters.waiting(now),
                ..DatabaseCounts::default()
            })
            .collect();
        if let Some(open) = self.open.borrow().get(&instance) {
            open.add_counts(spec.page_bytes, &mut log, &mut databases);
        }
        HostCounts { databases, logs: vec![log], ..HostCounts::default() }
    }

    fn progress_bytes(&self, instance: usize) -> (u64, u64) {
        let side = self.side(instance);
        let add = |(done, total): (u64, u64), (_, progress): &(Counters, Progress)| {
            (done + progress.done_bytes(), total + progress.total_bytes())
        };
        side.databases.iter().fold((0, 0), add)
    }
}

impl OpenInstance {
    /// Starts background maintenance of a database.
    pub fn start_maintenance(&self, world: &World, database: u8, config: MaintenanceConfig) {
        let (instance, stop) = (self.instance.clone(), self.stop.clone());
        self.jobs.borrow_mut().push(world.spawn(async move {
            let findings = instance.maintain(database, &config, &stop).await?.findings;
            Ok(findings.bad + findings.correctable + findings.wrong_number)
        }));
    }

    /// Starts a background job that reads closed logs as passive copies would. `copies`: number of passive copies.
    pub fn start_replication(&self, world: &World, copies: usize) {
        let (instance, stop) = (self.instance.clone(), self.stop.clone());
        self.jobs.borrow_mut().push(world.spawn(async move {
            instance.replicate(copies, &stop).await?;
            Ok(0)
        }));
    }

    /// Adds what the instance has counted since the last call: stalls, closed logs, growth of its databases.
    fn add_counts(&self, page_bytes: u32, log: &mut LogCounts, databases: &mut [DatabaseCounts]) {
        let now = LastCounts { cache: self.instance.cache_status(), log_rolls: self.instance.log_rolls() };
        let last = self.last.replace(now);
        log.page_fault_stalls += now.cache.page_fault_stalls - last.cache.page_fault_stalls;
        log.small_cache_stalls += now.cache.small_cache_stalls - last.cache.small_cache_stalls;
        log.cache_bytes = now.cache.resident_bytes;
        log.log_generations += now.log_rolls - last.log_rolls;
        let mut pages = self.pages.borrow_mut();
        for ((number, database), pages) in (1..).zip(databases).zip(pages.iter_mut()) {
            if let Ok(now) = self.instance.database_pages(number) {
                let grown = u64::from(now.saturating_sub(std::mem::replace(pages, now)));
                database.growth_bytes += grown * u64::from(page_bytes);
            }
        }
    }
}

/// Number that identifies these texts (FNV-1a, 64 bits).
pub fn fold(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

impl From<SessionError> for CampaignError {
    fn from(error: SessionError) -> CampaignError {
        match error {
            SessionError::Engine(error) => error.into(),
            other => CampaignError::WrongData(other.to_string()),
        }
    }
}

/// Maintenance configuration of the solution file.
pub fn maintenance_config(engine: &EngineSpec) -> MaintenanceConfig {
    MaintenanceConfig {
        throttle: Duration::from_secs_f64(engine.maintenance_pause_ms / 1e3),
        tick: Duration::from_secs_f64(engine.maintenance_tick_ms / 1e3),
        ..MaintenanceConfig::default()
    }
}

/// Time of the host, ms since its start.
pub fn ms(time: Time) -> u64 {
    time.ns / 1_000_000
}
