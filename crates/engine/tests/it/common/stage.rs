//! Files in a known state, and what is open over them: where each operation of the engine's interface begins,
//! to be let go of, to fail, or to be cut off.

use std::collections::BTreeMap;

use edb::log::{LogHeader, SEGMENT_BYTES};
use engine::{
    Counters, DatabaseConfig, Durability, Error, Instance, InstanceConfig, LogPosition, LogStore, Progress,
    Redo, Result, ShippedLog, Standby, StopSignal, StreamConfig, Transaction, check_database, is_closed,
};
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};
use world::{Duration, World};

use super::model::{Change, DATABASES, Model, Rows, TREES, all_rows};
use super::snapshot::Snapshot;
use super::{PAGE_BYTES, SmallDatabase, check_structure, config_below, create_template, tree_number};

/// Number of rows in the first tree of the first database at the beginning.
pub const ROWS: u32 = 80;
const ROW_BYTES: usize = 200;
/// Path of the copy that [`super::operations::Operation::Copy`] makes.
pub const COPY: &str = "/db/copy.edb";
pub const STREAM: StreamConfig = StreamConfig { read_bytes: 16 * PAGE_BYTES as u64, depth: 2 };

/// State of the files in which an operation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// Databases without a log stream.
    New,
    /// Closed databases.
    Closed,
    /// Closed databases, opened, with an empty cache.
    Open,
    /// Files after a power cut: logs to replay, and a transaction to undo.
    Crashed,
    /// Backup copies in place of the databases, and all logs since the backup.
    Restored,
    /// Open passive copy that was just seeded: it has stored the first log and replayed nothing.
    Passive,
    /// Open passive copy that has replayed all log it has stored.
    Replayed,
}

/// Files of each ground, and the log of the instance that a passive copy follows.
pub struct Grounds {
    config: InstanceConfig,
    new: Snapshot,
    closed: Snapshot,
    crashed: Snapshot,
    restored: Snapshot,
    seeded: Snapshot,
    source: Source,
    rows: BTreeMap<Ground, Rows>,
}

/// Complete log of an instance, from which a passive copy gets its log.
#[derive(Clone)]
pub struct Source {
    logs: BTreeMap<u32, Vec<u8>>,
    /// Durable end of the log.
    end: LogPosition,
    first: u32,
}

impl Source {
    /// The log from `from` to the end of its file, or to the end of the log if that comes first.
    fn stretch(&self, from: LogPosition) -> Option<ShippedLog> {
        let generation = from.generation();
        if from >= self.end {
            return None;
        }
        let closes = self.end.generation() > generation;
        let log = &self.logs[&generation];
        let end = if closes { log.len() } else { usize::from(self.end.segment()) * SEGMENT_BYTES };
        let start = usize::from(from.segment()) * SEGMENT_BYTES + usize::from(from.byte());
        Some(ShippedLog { from, bytes: log[start..end].to_vec(), closes })
    }
}

/// Open objects of a test, and the model of what must survive.
pub struct Stage {
    pub world: World,
    pub config: InstanceConfig,
    pub model: Model,
    pub instance: Option<Instance>,
    pub transaction: Option<Transaction>,
    pub store: Option<LogStore>,
    pub standby: Option<Standby>,
    pub source: Source,
}

fn small_config() -> InstanceConfig {
    let mut config = config_below("", DATABASES.into());
    config.log_bytes = 48 << 10;
    config.log_buffer_bytes = 32 << 10;
    for database in &mut config.databases {
        *database = DatabaseConfig { extension_bytes: 8 * PAGE_BYTES as u64, ..database.clone() };
    }
    config
}

/// Storage whose I/Os take up to `jitter` longer than usual.
fn timed(jitter: Duration) -> SimConfig {
    let times = FixedLatencyTimes { jitter, ..FixedLatencyTimes::default() };
    SimConfig { storage: Box::new(FixedLatency::new(1, times)), ..SimConfig::default() }
}

const JITTER: Duration = Duration::from_micros(100);

pub fn row(number: u32, value: u8) -> Change {
    ((1, 0, number.to_be_bytes().to_vec()), Some(vec![value; ROW_BYTES]))
}

impl Grounds {
    /// `redo`: of every opening.
    pub fn make(redo: Redo) -> Grounds {
        let nothing = Snapshot::nothing();
        let (sim, world) = nothing.restore_with(timed(JITTER));
        let template = SmallDatabase { trees: TREES, pages: 40 };
        let config =
            sim.run_until(create_template(&world, InstanceConfig { redo, ..small_config() }, template));
        let new = Snapshot::take(&sim);
        let source = Source { logs: BTreeMap::new(), end: LogPosition::default(), first: 0 };
        let mut grounds = Grounds {
            config,
            closed: new.clone(),
            crashed: new.clone(),
            restored: new.clone(),
            seeded: new.clone(),
            new,
            source,
            rows: BTreeMap::new(),
        };
        grounds.rows.insert(Ground::New, Rows::new());
        let (sim, mut stage) = grounds.stage_over(&grounds.new, Rows::new(), JITTER);
        let rows = sim.run_until(stage.fill()).unwrap();
        grounds.rows.extend([Ground::Closed, Ground::Open].map(|ground| (ground, rows.clone())));
        grounds.closed = Snapshot::take(&sim);
        grounds.make_crashed();
        grounds.make_copies();
        grounds
    }

    fn make_crashed(&mut self) {
        let (sim, mut stage) = self.stage_over(&self.closed, self.rows[&Ground::Closed].clone(), JITTER);
        let rows = sim.run_until(stage.leave_work_behind()).unwrap();
        self.crashed = Snapshot::take(&sim);
        self.rows.insert(Ground::Crashed, rows);
    }

    /// Makes backup copies of the databases under load, and keeps all logs since.
    fn make_copies(&mut self) {
        let (sim, mut stage) = self.stage_over(&self.closed, self.rows[&Ground::Closed].clone(), JITTER);
        stage.config.circular_logging = false;
        // The checkpoint passes where redo of the copies begins.
        stage.config.checkpoint_depth_bytes = 32 << 10;
        let (rows, first, end) = sim.run_until(stage.back_up_and_go_on()).unwrap();
        let files = Snapshot::take(&sim);
        let logs = files.files().filter(|(path, _)| path.starts_with("/log/") && path.ends_with(".log"));
        let with_generation = logs.filter_map(|(_, bytes)| {
            Some((LogHeader::parse(bytes.first_chunk()?).ok()?.generation, bytes.to_vec()))
        });
        self.source = Source { logs: with_generation.collect(), end, first };
        let in_place = |path: &str| match path.strip_suffix(".copy") {
            Some(database) => Some(database.to_owned()),
            None => path.starts_with("/log/").then(|| path.to_owned()),
        };
        self.restored = files.renamed(in_place);
        self.seeded = self.restored.clone().renamed(|path| path.starts_with("/db/").then(|| path.to_owned()));
        self.rows.extend([Ground::Restored, Ground::Passive, Ground::Replayed].map(|g| (g, rows.clone())));
    }

    fn stage_over(&self, files: &Snapshot, rows: Rows, jitter: Duration) -> (Simulation, Stage) {
        let (sim, world) = files.restore_with(timed(jitter));
        let stage = Stage {
            world,
            config: self.config.clone(),
            model: Model::of_rows(rows),
            instance: None,
            transaction: None,
            store: None,
            standby: None,
            source: self.source.clone(),
        };
        (sim, stage)
    }

    /// Files of a ground before anything is opened.
    pub fn files(&self, ground: Ground) -> &Snapshot {
        match ground {
            Ground::New => &self.new,
            Ground::Closed | Ground::Open => &self.closed,
            Ground::Crashed => &self.crashed,
            Ground::Restored => &self.restored,
            Ground::Passive | Ground::Replayed => &self.seeded,
        }
    }

    /// Creates a simulation with `files` in place of those of this ground. Nothing is open.
    pub fn stage_over_files(&self, files: &Snapshot, ground: Ground) -> (Simulation, Stage) {
        self.stage_over(files, self.rows[&ground].clone(), JITTER)
    }

    /// Creates a simulation with this ground.
    pub fn stage(&self, ground: Ground) -> (Simulation, Stage) {
        self.stage_with(ground, JITTER)
    }

    /// As [`Self::stage`], on storage whose I/Os take up to `jitter` longer than usual.
    pub fn stage_with(&self, ground: Ground, jitter: Duration) -> (Simulation, Stage) {
        let files = self.files(ground);
        let (sim, mut stage) = self.stage_over(files, self.rows[&ground].clone(), jitter);
        let prepared = sim.run_until(async {
            match ground {
                Ground::Open => stage.open().await,
                Ground::Passive => stage.seed().await,
                Ground::Replayed => {
                    stage.seed().await?;
                    stage.follow().await
                }
                _ => Ok(()),
            }
        });
        prepared.unwrap();
        (sim, stage)
    }
}

impl Stage {
    /// Restarts the host after the end of its process or a power cut. Nothing is open any more.
    pub fn restart(&mut self, sim: &Simulation) {
        (self.instance, self.standby, self.store, self.transaction) = (None, None, None, None);
        self.world = sim.restart("h");
    }

    /// Opens the files after the end of the process, and checks the rows.
    pub async fn judge_crashed(&mut self, ground: Ground) -> Result<(), String> {
        self.judge_copy().await?;
        self.reopen(ground).await.map_err(|error| format!("next opening: {error}"))?;
        self.judge_rows().await.map_err(|error| format!("after the next opening: {error}"))
    }

    /// Checks that a backup copy with a header has all its pages.
    async fn judge_copy(&self) -> Result<(), String> {
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        let there = self.world.entry(COPY).await.map_err(|error| error.to_string())?;
        if there.is_none() || is_closed(&self.world, COPY, PAGE_BYTES, &counters).await.is_err() {
            return Ok(());
        }
        let checked =
            check_database(&self.world, COPY, PAGE_BYTES, None, STREAM, &counters, &progress, &stop);
        let findings = checked.await.map_err(|error| format!("the copy: {error}"))?.findings;
        // Of the two copies of the header one is whole.
        match findings.list.iter().find(|(pgno, _)| *pgno > 0) {
            None => Ok(()),
            Some(bad) => Err(format!("the copy has a header and not all pages: {bad:?}")),
        }
    }

    pub async fn open(&mut self) -> Result<()> {
        self.instance = Some(Instance::open(&self.world, &self.config).await?.0);
        Ok(())
    }

    pub fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("the ground has an instance")
    }

    /// Performs one transaction with these changes.
    pub async fn transact(&mut self, changes: Vec<Change>, durability: Durability) -> Result<()> {
        let instance = self.instance.as_ref().expect("the ground has an instance");
        let mut transaction = instance.begin();
        for (name, data) in &changes {
            match change(&mut transaction, name.0, name.1, &name.2, data.as_deref()).await {
                Err(Error::NotFound) if data.is_none() => {}
                done => done?,
            }
        }
        let number = self.model.begin_commit(changes, instance.log_end());
        transaction.commit(durability).await?;
        if durability == Durability::Durable {
            self.model.acknowledge(number);
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<Rows> {
        self.open().await?;
        for n in 0..ROWS / 10 {
            let rows = (0..10).map(|m| row(n * 10 + m, 1)).collect();
            self.transact(rows, Durability::Durable).await?;
        }
        let rows = all_rows(self.instance()).await?;
        self.instance.take().expect("it was opened").close().await?;
        Ok(rows)
    }

    /// Commits durable transactions, each with an old row and a new one, until the log has rolled `rolls` times.
    pub async fn commit_until(&mut self, rolls: u64, first_new: u32, value: u8) -> Result<()> {
        let mut n = 0;
        while self.instance().log_rolls() < rolls {
            self.transact(vec![row(n % ROWS, value), row(first_new + n % 20, value)], Durability::Durable)
                .await?;
            n += 1;
        }
        Ok(())
    }

    /// Commits over several logs, and leaves a transaction open.
    async fn leave_work_behind(&mut self) -> Result<Rows> {
        self.open().await?;
        self.commit_until(2, 200, 2).await?;
        let rows = all_rows(self.instance()).await?;
        let mut open = self.instance().begin();
        for m in 0..8 {
            change(&mut open, 1, 0, &(m * 3u32).to_be_bytes(), Some(&[9; ROW_BYTES])).await?;
        }
        self.instance().flush_log().await?;
        self.transaction = Some(open);
        Ok(rows)
    }

    async fn back_up_and_go_on(&mut self) -> Result<(Rows, u32, LogPosition)> {
        self.open().await?;
        self.transact(vec![row(7, 3)], Durability::Durable).await?;
        let mut first = u32::MAX;
        for (db, database) in (1..).zip(&self.config.databases) {
            let copy = format!("{}.copy", database.path);
            let (progress, stop) = (Progress::default(), StopSignal::new());
            let report = self.instance().back_up(db, STREAM, Some(&copy), &progress, &stop).await?;
            first = first.min(report.first_generation);
        }
        self.commit_until(3, 300, 4).await?;
        self.world.sleep(Duration::from_secs(3)).await;
        Ok((all_rows(self.instance()).await?, first, self.instance().durable_log()))
    }

    /// Opens the passive copy with the first log file stored.
    async fn seed(&mut self) -> Result<()> {
        let mut store = LogStore::open(&self.world, &self.config).await?;
        store.begin_at(self.source.first).await?;
        let first = self.source.stretch(LogPosition::new(self.source.first, 0, 0)).expect("there is log");
        store.store(&first).await?;
        self.standby = Some(Standby::open(&self.world, &self.config).await?);
        self.store = Some(store);
        Ok(())
    }

    /// Stores the next piece of log. Returns `false` if there is none.
    pub async fn store_next(&mut self) -> Result<bool> {
        let store = self.store.as_mut().expect("the ground has a log store");
        let end = store.extent().map_or(LogPosition::new(self.source.first, 0, 0), |(_, end)| end);
        let Some(stretch) = self.source.stretch(end) else { return Ok(false) };
        store.store(&stretch).await?;
        Ok(true)
    }

    /// Replays what is stored.
    pub async fn follow(&mut self) -> Result<()> {
        let end = self.store.as_ref().and_then(LogStore::extent).expect("there is log").1;
        self.standby.as_mut().expect("the ground has a standby").replay(end).await
    }

    /// Stores and replays all log, and activates the copy.
    pub async fn take_over(&mut self) -> Result<()> {
        while self.store_next().await? {}
        self.follow().await?;
        let standby = self.standby.take().expect("the ground has a standby");
        self.instance = Some(standby.activate(self.source.end).await?.0);
        self.store = None;
        Ok(())
    }

    /// Opens the files after the end of a process, as a passive copy if they were one.
    pub async fn reopen(&mut self, ground: Ground) -> Result<()> {
        if !matches!(ground, Ground::Passive | Ground::Replayed) {
            return self.open().await;
        }
        let store = LogStore::open(&self.world, &self.config).await?;
        match store.extent() {
            Some((_, end)) if end <= self.source.end => {
                self.store = Some(store);
                self.standby = Some(Standby::open(&self.world, &self.config).await?);
                self.take_over().await
            }
            Some(_) => self.open().await,
            None => {
                drop(store);
                self.seed().await?;
                self.take_over().await
            }
        }
    }

    /// Checks that the rows are those of a prefix of the commits, with all acknowledged ones, and that trees and
    /// space are consistent.
    pub async fn judge_rows(&mut self) -> Result<(), String> {
        let rows = all_rows(self.instance()).await.map_err(|error| error.to_string())?;
        self.model.rebase_on(&rows)?;
        check_structure(self.instance(), DATABASES, TREES).await.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Checks that every row can be changed durably, so that no lock is left.
    pub async fn judge_locks(&mut self) -> Result<(), String> {
        let rows = all_rows(self.instance()).await.map_err(|error| error.to_string())?;
        let changes = rows.into_keys().map(|name| (name, Some(vec![77; 50]))).collect();
        self.transact(changes, Durability::Durable).await.map_err(|error| format!("next operation: {error}"))
    }
}

/// Gives a row these data, or takes it away.
pub async fn change(
    transaction: &mut Transaction,
    db: u8,
    number: u32,
    key: &[u8],
    data: Option<&[u8]>,
) -> Result<()> {
    let tree = tree_number(number);
    let Some(data) = data else { return transaction.delete(db, tree, key).await };
    match transaction.insert(db, tree, key, data).await {
        Err(Error::Duplicate) => transaction.replace(db, tree, key, data).await,
        done => done,
    }
}
