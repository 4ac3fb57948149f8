//! The process that is killed: what it is told, and what it does and says until then.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use edb::checkpoint::{CHECKPOINT_BYTES, Checkpoint};
use engine::{Durability, Instance, InstanceConfig, LogStore, Progress, Standby, StopSignal, StreamConfig};
use futures_util::future::{join, join_all, pending, select};
use results::IoClass;
use testkit::durable_shadow::{DiskEvent, Pieces, PowerCut, PowerSwitch, ShadowHost, ShadowOptions};
use workload::mix::Random;
use workload::schema::Entry;
use world::World;

use super::common::{Change, Databases, Kind, Load, Witness, real};

pub const SESSIONS: u64 = 4;
/// Unit in which processes of the test count time. Time in which they were stopped counts as at most one tick.
pub const TICK: Duration = Duration::from_millis(100);
/// Time after which a child that was not killed counts as stuck, ticks.
const CHILD_LIFE_TICKS: u32 = 600;
/// Transactions of each session before the instance closes.
const TRANSACTIONS_BEFORE_CLOSE: u32 = 12;
/// Rows that the repeated transaction changes. Its log is longer than one segment.
const SAME_CHANGES: u32 = 12;
pub const TASK: &str = "PROOFLOAD_KILL_CHILD";
/// Environment variable: a source line whose syncs do nothing; see `tools/sync-removal`.
const IGNORED_SYNC: &str = "PROOFLOAD_IGNORED_SYNC";
/// Name of the backup copy, in a directory of its own.
pub const COPY: &str = "backup/1.edb";

/// Work of a child until it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Create,
    /// Recover, then wait, so that the checkpoint writes what recovery rolled back.
    Recover,
    /// Recover as a passive copy does: replay, a checkpoint, activation.
    Follow,
    /// Recover and close.
    Close,
    Load,
    /// Load with pauses: the checkpoint moves by its timer, between two rolls of the log.
    SlowLoad,
    /// Load for a short time, then close.
    LoadAndClose,
    /// A backup to disk of database 1 under load.
    Backup,
    /// One transaction that is the same in each process, committed in one log write.
    Commit,
    /// As [`Self::Commit`] without the commit; its log is written as soon as a segment is full.
    Begin,
}

const MODES: [(Mode, &str); 10] = [
    (Mode::Create, "create"),
    (Mode::Recover, "recover"),
    (Mode::Follow, "follow"),
    (Mode::Close, "close"),
    (Mode::Load, "load"),
    (Mode::SlowLoad, "slow-load"),
    (Mode::LoadAndClose, "load-and-close"),
    (Mode::Backup, "backup"),
    (Mode::Commit, "commit"),
    (Mode::Begin, "begin"),
];

/// Start of the counting of disk events for a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the instance is opened.
    Start,
    /// When it is open.
    Open,
    /// When the instance begins to close, or a backup or the repeated transaction begins.
    Job,
    /// When a backup has read everything; the header of the copy is written next.
    Copied,
}

const PHASES: [Phase; 4] = [Phase::Start, Phase::Open, Phase::Job, Phase::Copied];

/// Disk event at which the child loses power.
#[derive(Debug, Clone, Copy)]
pub struct Aim {
    pub phase: Phase,
    pub cut: PowerCut,
    /// Only the process ends. The next process reads everything that was written, with or without a sync.
    pub process_only: bool,
}

impl Aim {
    fn encode(&self) -> String {
        let phase = PHASES.iter().position(|phase| *phase == self.phase).expect("listed");
        let event = DiskEvent::ALL.iter().position(|event| *event == self.cut.event).expect("listed");
        let (grain_bytes, percent) =
            self.cut.pieces.map_or((0, 0), |pieces| (pieces.grain_bytes, pieces.survives_percent));
        let (number, later, process_only) = (self.cut.number, self.cut.later, u8::from(self.process_only));
        format!("{phase}:{event}:{number}:{later}:{grain_bytes}:{percent}:{process_only}")
    }

    fn decode(text: &str) -> Option<Aim> {
        let mut numbers = text.split(':').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let phase = *PHASES.get(next()? as usize)?;
        let event = *DiskEvent::ALL.get(next()? as usize)?;
        let (number, later) = (next()?, next()?);
        let pieces = Pieces { grain_bytes: next()?, survives_percent: next()? as usize };
        let pieces = (pieces.grain_bytes > 0).then_some(pieces);
        let process_only = next()? != 0;
        Some(Aim { phase, cut: PowerCut { event, number, later, pieces }, process_only })
    }
}

/// Task that the parent passes to its child.
#[derive(Clone)]
pub struct ChildTask {
    pub root: PathBuf,
    pub mode: Mode,
    pub page_bytes: u32,
    pub log_bytes: u32,
    pub has_meta_caches: bool,
    pub first_version: u32,
    pub disk: ShadowOptions,
    pub aim: Option<Aim>,
}

impl ChildTask {
    pub fn encode(&self) -> String {
        let ShadowOptions { seed, torn_sync, early_write_percent, ignored_sync: _ } = self.disk;
        let mode = MODES.iter().find(|(mode, _)| *mode == self.mode).expect("a name").1;
        let ChildTask { page_bytes, log_bytes, has_meta_caches, first_version, .. } = self;
        let aim = self.aim.map_or("-".to_owned(), |aim| aim.encode());
        let root = self.root.display();
        format!(
            "{mode} {page_bytes} {log_bytes} {has_meta_caches} {first_version} {seed} {torn_sync} {early_write_percent} {aim} {root}"
        )
    }

    fn decode(text: &str) -> Option<ChildTask> {
        let mut words = text.splitn(10, ' ');
        let name = words.next()?;
        let mode = MODES.iter().find(|(_, known)| *known == name)?.0;
        // It lives as long as the process.
        let ignored_sync = std::env::var(IGNORED_SYNC).ok().map(|line| &*line.leak());
        Some(ChildTask {
            mode,
            page_bytes: words.next()?.parse().ok()?,
            log_bytes: words.next()?.parse().ok()?,
            has_meta_caches: words.next()?.parse().ok()?,
            first_version: words.next()?.parse().ok()?,
            disk: ShadowOptions {
                seed: words.next()?.parse().ok()?,
                torn_sync: words.next()?.parse().ok()?,
                early_write_percent: words.next()?.parse().ok()?,
                ignored_sync,
            },
            aim: match words.next()? {
                "-" => None,
                aim => Some(Aim::decode(aim)?),
            },
            root: words.next()?.into(),
        })
    }

    /// File in which a process that ends alone leaves everything that is not durable.
    fn left(&self) -> PathBuf {
        self.root.join("left")
    }

    fn databases(&self) -> Databases {
        let mut databases = Databases::new(&self.root, self.page_bytes, super::FILE_BYTES);
        (databases.log_bytes, databases.has_meta_caches) = (self.log_bytes, self.has_meta_caches);
        databases
    }
}

/// Prints a line for the parent. The pipe keeps it when this process dies.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("@{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

struct Teller(Cell<u64>);

impl Witness for Teller {
    fn committing(&self, changes: &[Change]) -> u64 {
        let mut line = "commit".to_owned();
        for ((db, kind, id), version) in changes {
            let kind = if *kind == Kind::Message { "message" } else { "folder" };
            let version = version.map_or("-".to_owned(), |version| version.to_string());
            line.push_str(&format!(" {db}:{kind}:{id}:{version}"));
        }
        say(&line);
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn acknowledged(&self, number: u64) {
        say(&format!("durable {number}"));
    }
}

#[test]
#[ignore = "the body of the process that the other tests start and kill"]
fn child() {
    let task = ChildTask::decode(&std::env::var(TASK).expect("started by another test")).unwrap();
    // The test harness has begun a line of its own.
    std::io::stdout().write_all(b"\n").unwrap();
    real(async |world| {
        let (left, host) = (task.left(), world.host().clone());
        let shadow = match left.exists() {
            true => ShadowHost::take_up(&left, host, task.disk).unwrap(),
            false => ShadowHost::new(host, task.disk),
        };
        let power = shadow.power_switch();
        let world = World::new(Rc::new(shadow));
        let child = Child { world: &world, task: &task, power };
        let work = Box::pin(child.work());
        select(work, Box::pin(ticks(&world, CHILD_LIFE_TICKS))).await;
        panic!("nobody has killed this process");
    });
}

/// Waits this many ticks.
pub async fn ticks(world: &World, count: u32) {
    for _ in 0..count {
        world.sleep(TICK).await;
    }
}

struct Child<'a> {
    world: &'a World,
    task: &'a ChildTask,
    power: PowerSwitch,
}

impl Child<'_> {
    fn begin(&self, phase: Phase) {
        if let Some(aim) = self.task.aim
            && aim.phase == phase
        {
            match aim.process_only {
                true => self.power.arm_process_end(aim.cut, self.task.left()),
                false => self.power.arm(aim.cut),
            }
        }
    }

    async fn work(&self) {
        let databases = self.task.databases();
        if self.task.mode == Mode::Create {
            self.begin(Phase::Start);
            databases.create(self.world).await;
            say("created");
            return pending().await;
        }
        // Both lines begin alike: the first is the beginning of the opening, the second its end.
        say("open begins");
        self.begin(Phase::Start);
        let mut config = databases.config();
        if self.task.mode == Mode::SlowLoad {
            config.checkpoint_depth_bytes = 32 << 10;
        }
        if self.task.mode == Mode::Commit {
            config.log_buffer_bytes = 256 << 10;
        }
        if self.task.mode == Mode::Begin {
            config.log_buffer_bytes = 8 << 10;
        }
        // A later restore keeps the logs since the backup.
        config.circular_logging = self.task.mode != Mode::Backup;
        let instance = match self.task.mode {
            Mode::Follow => self.follow(&config).await,
            _ => Instance::open(self.world, &config).await.unwrap().0,
        };
        say("open");
        self.begin(Phase::Open);
        match self.task.mode {
            Mode::Close => instance.close().await.unwrap(),
            Mode::Load | Mode::SlowLoad | Mode::LoadAndClose | Mode::Backup => {
                self.load(&databases, instance, &config).await;
            }
            Mode::Commit | Mode::Begin => self.same_transaction(&databases, instance).await,
            Mode::Create | Mode::Recover | Mode::Follow => {}
        }
        pending().await
    }

    async fn follow(&self, config: &InstanceConfig) -> Instance {
        let store = LogStore::open(self.world, config).await.unwrap();
        let end = store.extent().expect("it has log").1;
        let mut standby = Standby::open(self.world, config).await.unwrap();
        standby.replay(end).await.unwrap();
        standby.save_checkpoint().await.unwrap();
        standby.activate(end).await.unwrap().0
    }

    async fn same_transaction(&self, databases: &Databases, instance: Instance) {
        // The first checkpoint is behind us then, and nothing but this writes to the log.
        self.world.sleep(Duration::from_millis(200)).await;
        let load = self.new_load(databases, instance);
        let mut transaction = load.instance.begin();
        self.begin(Phase::Job);
        let mut changes = Vec::new();
        for id in 1..=SAME_CHANGES {
            let version = self.task.first_version + id;
            load.put(&mut transaction, 1, Entry::Folder { id, version }, false).await.unwrap();
            changes.push(((1, Kind::Folder, id), Some(version)));
        }
        if self.task.mode == Mode::Commit {
            let number = load.witness.committing(&changes);
            transaction.commit(Durability::Durable).await.unwrap();
            load.witness.acknowledged(number);
        } else {
            // Dropped, it would be rolled back.
            pending().await
        }
    }

    fn new_load(&self, databases: &Databases, instance: Instance) -> Load<Teller> {
        Load {
            instance: Rc::new(instance),
            templates: databases.templates.clone(),
            witness: Teller(Cell::new(0)),
            next_version: Cell::new(self.task.first_version),
        }
    }

    async fn load(&self, databases: &Databases, instance: Instance, config: &InstanceConfig) {
        let load = Rc::new(self.new_load(databases, instance));
        let pause_us = if self.task.mode == Mode::SlowLoad { 200_000 } else { 500 };
        let ends = self.task.mode == Mode::LoadAndClose;
        let transactions = if ends { TRANSACTIONS_BEFORE_CLOSE } else { u32::MAX };
        let sessions = (0..SESSIONS).map(|session| {
            let (load, world) = (load.clone(), self.world.clone());
            let mut random = Random::new(self.task.disk.seed ^ (session << 32));
            self.world.spawn(async move {
                for number in 0..transactions {
                    // Times of growth and of shrinking make pages split and merge.
                    let insert_pct = if number / 64 % 2 == 0 { 90 } else { 20 };
                    load.transact(&mut random, insert_pct).await.unwrap();
                    world.sleep(Duration::from_micros(random.next_u64() % pause_us)).await;
                }
            })
        });
        let sessions: Vec<_> = sessions.collect();
        match self.task.mode {
            Mode::LoadAndClose => {
                join_all(sessions).await;
                let load = Rc::into_inner(load).expect("the sessions have ended");
                let instance = Rc::into_inner(load.instance).expect("nobody else has it");
                self.begin(Phase::Job);
                instance.close().await.unwrap();
                say("closed");
            }
            Mode::Backup => self.back_up(&load.instance).await,
            Mode::SlowLoad => self.report_checkpoints().await,
            _ => report_rolls(self.world, &load.instance, config).await,
        }
    }

    /// Prints a line when the checkpoint has moved. The real file holds it, so it is durable.
    #[allow(clippy::disallowed_methods, reason = "looks behind the world of the instance")]
    async fn report_checkpoints(&self) {
        let path = self.task.root.join("log/E00.chk");
        let position = || Checkpoint::read(std::fs::read(&path).ok()?.get(..CHECKPOINT_BYTES)?);
        let mut known = position();
        loop {
            let now = position();
            if now.is_some() && now != known {
                say("checkpoint");
                known = now;
            }
            self.world.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn begin_when_copied(&self, progress: &Progress) {
        while progress.total_bytes() == 0 || progress.done_bytes() < progress.total_bytes() {
            self.world.sleep(Duration::from_micros(50)).await;
        }
        self.begin(Phase::Copied);
    }

    async fn back_up(&self, instance: &Instance) {
        let path = self.task.root.join(COPY);
        let config = StreamConfig { read_bytes: 256 << 10, depth: 2 };
        // Something of the load is in the file and something in memory.
        self.world.sleep(Duration::from_millis(50)).await;
        say("backup begins");
        self.begin(Phase::Job);
        let copy = Some(path.to_str().expect("a path in text"));
        let (progress, stop) = (Progress::default(), StopSignal::new());
        let back_up = instance.back_up(1, config, copy, &progress, &stop);
        let (done, ()) = join(back_up, self.begin_when_copied(&progress)).await;
        done.unwrap();
        say("backed up");
    }
}

/// Prints a line at each roll of the log, with the number of reads from MetaCaches since the last one.
async fn report_rolls(world: &World, instance: &Instance, config: &InstanceConfig) {
    let counters = || config.databases.iter().map(|database| database.counters.take());
    let mut generation = instance.log_generation();
    loop {
        let now = instance.log_generation();
        if now != generation {
            let reads: u64 =
                counters().map(|taken| taken.io.class(IoClass::MetaCacheRead).totals.count).sum();
            say(&format!("rolled {reads}"));
            generation = now;
        }
        world.sleep(Duration::from_micros(100)).await;
    }
}
