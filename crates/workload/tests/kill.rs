//! Durability on real files: a process under load is killed, again and again, also while it recovers. It works behind a
//! layer that keeps what is not synced in its own memory, so the kill loses what a power cut would.
//!
//! Promises
//! 1. What is found afterwards is the outcome of a prefix of the commits, in the order of the log, and every commit that
//!    was acknowledged as durable is in it.
//! 2. Every page has its checksum, every tree and the space are whole, every row has the bytes it should have.
//! 3. A kill during recovery, or while the instance is closed, changes nothing of that.
//!
//! PROOFLOAD_KILLS says how many (50 if it is not set). A failure names its seed; PROOFLOAD_KILL_SEED runs that one alone.
//! The kills themselves come when they come: a seed repeats the load and the disk's unkindness, not the instant.

mod common;

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use common::{Change, Databases, Kind, Load, Name, Rows, Witness, real, scratch_dir};
use engine::{Instance, RecoveryReport};
use futures_util::future::{pending, select};
use workload::mix::Random;
use world::World;
use world::real::durable_shadow::{ShadowHost, ShadowOptions};

const SESSIONS: u64 = 4;
const KILLS_PER_SEED: u64 = 10;
const FILE_BYTES: u64 = 8 << 20;
/// A child that has not been killed by then hangs.
const CHILD_LIFE: Duration = Duration::from_secs(60);
const TASK: &str = "PROOFLOAD_KILL_CHILD";

/// What a child is to do until it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    /// And rest: what recovery has taken back waits for the checkpoint.
    Recover,
    /// Recover and close.
    Close,
    Load,
    /// With pauses: the checkpoint moves by its clock, between two rolls of the log.
    SlowLoad,
}

const MODES: [(Mode, &str); 5] = [
    (Mode::Create, "create"),
    (Mode::Recover, "recover"),
    (Mode::Close, "close"),
    (Mode::Load, "load"),
    (Mode::SlowLoad, "slow-load"),
];

/// What the parent tells its child.
struct ChildTask {
    root: PathBuf,
    mode: Mode,
    page_bytes: u32,
    log_bytes: u32,
    first_version: u32,
    disk: ShadowOptions,
}

impl ChildTask {
    fn encode(&self) -> String {
        let ShadowOptions { seed, torn_sync, early_write_percent } = self.disk;
        let mode = MODES.iter().find(|(mode, _)| *mode == self.mode).expect("a name").1;
        let (page_bytes, log_bytes, first_version) = (self.page_bytes, self.log_bytes, self.first_version);
        let root = self.root.display();
        format!(
            "{mode} {page_bytes} {log_bytes} {first_version} {seed} {torn_sync} {early_write_percent} {root}"
        )
    }

    fn decode(text: &str) -> Option<ChildTask> {
        let mut words = text.splitn(8, ' ');
        let name = words.next()?;
        let mode = MODES.iter().find(|(_, known)| *known == name)?.0;
        Some(ChildTask {
            mode,
            page_bytes: words.next()?.parse().ok()?,
            log_bytes: words.next()?.parse().ok()?,
            first_version: words.next()?.parse().ok()?,
            disk: ShadowOptions {
                seed: words.next()?.parse().ok()?,
                torn_sync: words.next()?.parse().ok()?,
                early_write_percent: words.next()?.parse().ok()?,
            },
            root: words.next()?.into(),
        })
    }

    fn databases(&self) -> Databases {
        let mut databases = Databases::new(&self.root, self.page_bytes, FILE_BYTES);
        databases.log_bytes = self.log_bytes;
        databases
    }
}

/// Tells the parent. The pipe keeps it when this process dies.
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

fn parse_change(text: &str) -> Option<Change> {
    let mut words = text.split(':');
    let db = words.next()?.parse().ok()?;
    let kind = if words.next()? == "message" { Kind::Message } else { Kind::Folder };
    let id = words.next()?.parse().ok()?;
    let version = words.next()?;
    Some(((db, kind, id), if version == "-" { None } else { Some(version.parse().ok()?) }))
}

#[test]
#[ignore = "the body of the process that the other tests start and kill"]
fn child() {
    let task = ChildTask::decode(&std::env::var(TASK).expect("started by another test")).unwrap();
    // The test harness has begun a line of its own.
    std::io::stdout().write_all(b"\n").unwrap();
    real(async |world| {
        let world = World::new(Rc::new(ShadowHost::new(world.host().clone(), task.disk)));
        let work = Box::pin(child_work(&world, &task));
        select(work, Box::pin(world.sleep(CHILD_LIFE))).await;
        panic!("nobody has killed this process");
    });
}

async fn child_work(world: &World, task: &ChildTask) {
    let databases = task.databases();
    if task.mode == Mode::Create {
        databases.create(world).await;
        say("created");
        return pending().await;
    }
    // Both lines begin alike: the first is the beginning of the opening, the second its end.
    say("open begins");
    let mut config = databases.config();
    if task.mode == Mode::SlowLoad {
        config.checkpoint_depth_bytes = 32 << 10;
    }
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    say("open");
    match task.mode {
        Mode::Close => instance.close().await.unwrap(),
        Mode::Load | Mode::SlowLoad => return work(world, task, &databases, instance).await,
        Mode::Create | Mode::Recover => {}
    }
    pending().await
}

async fn work(world: &World, task: &ChildTask, databases: &Databases, instance: Instance) {
    let load = Rc::new(Load {
        instance: Rc::new(instance),
        images: databases.images.clone(),
        witness: Teller(Cell::new(0)),
        next_version: Cell::new(task.first_version),
    });
    let pause_us = if task.mode == Mode::SlowLoad { 200_000 } else { 500 };
    for session in 0..SESSIONS {
        let (load, world2) = (load.clone(), world.clone());
        let mut random = Random::new(task.disk.seed ^ (session << 32));
        drop(world.spawn(async move {
            for number in 0u32.. {
                // Times of growth and of shrinking make pages split and merge.
                let insert_pct = if number / 64 % 2 == 0 { 90 } else { 20 };
                load.transact(&mut random, insert_pct).await.unwrap();
                world2.sleep(Duration::from_micros(random.next_u64() % pause_us)).await;
            }
        }));
    }
    let mut generation = load.instance.log_generation();
    loop {
        let now = load.instance.log_generation();
        if now != generation {
            say("rolled");
            generation = now;
        }
        world.sleep(Duration::from_micros(100)).await;
    }
}

/// What a killed child had said.
#[derive(Default)]
struct Said {
    lines: Vec<String>,
    commits: Vec<Vec<Change>>,
    /// So many of the commits must survive.
    durable: usize,
}

impl Said {
    fn add(&mut self, line: String) {
        if let Some(changes) = line.strip_prefix("commit") {
            let changes = changes.split_whitespace().map(|change| parse_change(change).expect("a change"));
            self.commits.push(changes.collect());
        } else if let Some(number) = line.strip_prefix("durable ") {
            self.durable = self.durable.max(number.parse().expect("a number"));
        } else {
            self.lines.push(line);
        }
    }

    fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|said| said == line)
    }
}

/// When to kill a child.
struct Trigger {
    /// After this line ...
    line: &'static str,
    /// ... has been said so often ...
    count: u64,
    /// ... and this time has passed.
    pause: Duration,
}

/// The next line of the child; `None` when it has ended.
fn next_line(out: &mut BufReader<ChildStdout>) -> Option<String> {
    loop {
        let mut line = String::new();
        let bytes = out.read_line(&mut line).expect("a pipe can be read");
        if bytes == 0 {
            return None;
        }
        // A line without an end is one that the kill has cut off: it was never said.
        if let (Some(said), true) = (line.strip_prefix('@'), line.ends_with('\n')) {
            return Some(said.trim_end().to_owned());
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the instant of a kill is outside of every world")]
fn run_and_kill(task: &ChildTask, trigger: &Trigger) -> Result<Said, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(TASK, task.encode())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut said, mut count) = (Said::default(), 0);
    while count < trigger.count {
        let Some(line) = next_line(&mut out) else {
            child.wait().unwrap();
            return Err(format!("the process in mode {:?} died by itself", task.mode));
        };
        count += u64::from(line.starts_with(trigger.line));
        said.add(line);
    }
    std::thread::sleep(trigger.pause);
    child.kill().unwrap();
    child.wait().unwrap();
    while let Some(line) = next_line(&mut out) {
        said.add(line);
    }
    Ok(said)
}

/// What the kills of a test have reached.
#[derive(Debug, Default)]
struct Totals {
    kills: u64,
    kills_in_recovery: u64,
    commits: usize,
    durable_commits: usize,
    /// Commits that survived although nobody had been told so.
    commits_beyond: usize,
    log_generations: u64,
    logs_replayed: u32,
    pages_repaired: u64,
    transactions_rolled_back: u32,
    bytes_grown: u64,
}

/// One set of databases on its way through kills.
struct Campaign {
    root: PathBuf,
    page_bytes: u32,
    log_bytes: u32,
    random: Random,
    databases: Databases,
    /// What the databases hold.
    rows: Rows,
    first_version: u32,
    totals: Totals,
}

impl Campaign {
    fn new(root: &Path, seed: u64) -> Campaign {
        let page_bytes = [4096, 32768, 8192][seed as usize % 3];
        let log_bytes = [256, 64, 1024, 64][seed as usize % 4] << 10;
        let mut databases = Databases::new(root, page_bytes, FILE_BYTES);
        databases.log_bytes = log_bytes;
        Campaign {
            root: root.to_owned(),
            page_bytes,
            log_bytes,
            random: Random::new(seed),
            rows: databases.initial_rows(),
            databases,
            first_version: 1,
            totals: Totals::default(),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn task(&mut self, mode: Mode) -> ChildTask {
        let disk = ShadowOptions {
            seed: self.random.next_u64(),
            torn_sync: self.below(4) > 0,
            early_write_percent: [0, 0, 10, 60][self.below(4) as usize],
        };
        let (page_bytes, log_bytes) = (self.page_bytes, self.log_bytes);
        let (root, first_version) = (self.root.clone(), self.first_version);
        ChildTask { root, mode, page_bytes, log_bytes, first_version, disk }
    }

    fn run(&mut self, kills: u64) -> Result<(), String> {
        real(async |world| self.databases.create(&world).await);
        let bytes_at_first = self.file_bytes();
        while self.totals.kills < kills {
            let round = self.totals.kills + 1;
            self.round().map_err(|error| format!("kill {round}, pages of {}: {error}", self.page_bytes))?;
        }
        self.totals.bytes_grown = self.file_bytes() - bytes_at_first;
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        (1..=common::DATABASES).map(|db| std::fs::metadata(self.databases.path(db)).unwrap().len()).sum()
    }

    fn round(&mut self) -> Result<(), String> {
        let trigger = self.moment();
        let task = self.task(Mode::Load);
        self.round_of(&task, &trigger)
    }

    /// A load that ends with a kill, and what is found then.
    fn round_of(&mut self, task: &ChildTask, trigger: &Trigger) -> Result<(), String> {
        let said = run_and_kill(task, trigger)?;
        self.totals.kills += 1;
        // Versions of commits that are lost are not given again.
        self.first_version += 8 * (said.commits.len() as u32 + 8 * SESSIONS as u32);
        for _ in 0..self.below(3) {
            self.kill_in_recovery()?;
        }
        // Either the recovered files go on, or what the kill has left: the next process recovers it then.
        let left = (self.below(2) == 0).then(|| self.copy_files());
        let report = self.recover()?;
        let found = self.databases.check_files()?;
        let survived = settle(&mut self.rows, &said, &found)?;
        if let Some(left) = left {
            self.put_files(&left);
        }
        let totals = &mut self.totals;
        totals.commits += said.commits.len();
        totals.durable_commits += said.durable;
        totals.commits_beyond += survived - said.durable;
        totals.logs_replayed += report.logs_replayed;
        totals.pages_repaired += report.pages_repaired;
        totals.transactions_rolled_back += report.transactions_rolled_back;
        Ok(())
    }

    /// When the load is to be killed: anywhere, or right behind a roll of the log.
    fn moment(&mut self) -> Trigger {
        let pause = Duration::from_micros(self.below(5000));
        match self.below(4) {
            0 | 1 => {
                let pause = Duration::from_micros(self.below(6000));
                Trigger { line: "rolled", count: 1 + self.below(2), pause }
            }
            _ => {
                let count = 1 + self.below(8) * self.below(60);
                Trigger { line: "commit", count, pause }
            }
        }
    }

    fn kill_in_recovery(&mut self) -> Result<(), String> {
        let mode = if self.below(2) == 0 { Mode::Recover } else { Mode::Close };
        let task = self.task(mode);
        let pause = Duration::from_micros(self.below(200) * self.below(200));
        let said = run_and_kill(&task, &Trigger { line: "open", count: 1, pause })?;
        self.totals.kills += 1;
        self.totals.kills_in_recovery += u64::from(!said.has("open"));
        Ok(())
    }

    /// Recovers on plain real files, and closes.
    fn recover(&mut self) -> Result<RecoveryReport, String> {
        let config = self.databases.config();
        let (report, generation) = real(async |world| {
            let opened = Instance::open(&world, &config).await;
            let (instance, report) = opened.map_err(|error| format!("recovery failed: {error}"))?;
            let generation = instance.log_generation();
            instance.close().await.map_err(|error| format!("close failed: {error}"))?;
            Ok::<_, String>((report, generation))
        })?;
        self.totals.log_generations = self.totals.log_generations.max(generation.into());
        Ok(report)
    }

    fn copy_files(&self) -> tempfile::TempDir {
        let target = scratch_dir();
        for directory in ["db", "log"] {
            copy_directory(&self.root.join(directory), &target.path().join(directory));
        }
        target
    }

    fn put_files(&self, from: &tempfile::TempDir) {
        for directory in ["db", "log"] {
            std::fs::remove_dir_all(self.root.join(directory)).unwrap();
            copy_directory(&from.path().join(directory), &self.root.join(directory));
        }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Finds the prefix of commits that gives `found`, and makes it the state. Returns its length.
fn settle(rows: &mut Rows, said: &Said, found: &Rows) -> Result<usize, String> {
    let apply = |rows: &mut Rows, (name, version): &Change| match version {
        Some(version) => rows.insert(*name, *version),
        None => rows.remove(name),
    };
    for change in said.commits[..said.durable].iter().flatten() {
        apply(rows, change);
    }
    let names = rows.keys().chain(found.keys()).copied();
    let mut different: std::collections::BTreeSet<Name> =
        names.filter(|name| rows.get(name) != found.get(name)).collect();
    let expected = different.first().map(|name| (*name, rows.get(name).copied(), found.get(name).copied()));
    let mut length = said.durable;
    while !different.is_empty() {
        let Some(commit) = said.commits.get(length) else {
            return Err(format!(
                "no prefix of {} commits, {} of them durable, gives what was found; with the durable ones, the first \
                 difference (row, expected version, found version) is {expected:?}",
                said.commits.len(),
                said.durable,
            ));
        };
        for change in commit {
            apply(rows, change);
            let name = change.0;
            if rows.get(&name) == found.get(&name) {
                different.remove(&name);
            } else {
                different.insert(name);
            }
        }
        length += 1;
    }
    Ok(length)
}

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn every_durable_commit_survives_a_kill_and_what_is_found_is_a_prefix() {
    let kills = number_from_environment("PROOFLOAD_KILLS").unwrap_or(50);
    let only = number_from_environment("PROOFLOAD_KILL_SEED");
    let seeds = only.map_or(1..kills.div_ceil(KILLS_PER_SEED) + 1, |seed| seed..seed + 1);
    let mut totals = Totals::default();
    for seed in seeds {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        if let Err(error) = campaign.run(KILLS_PER_SEED) {
            panic!("PROOFLOAD_KILL_SEED={seed}: {error}");
        }
        totals.add(campaign.totals);
    }
    eprintln!("{totals:?}");
    if only.is_none() && kills >= 50 {
        totals.require_variety();
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.kills += other.kills;
        self.kills_in_recovery += other.kills_in_recovery;
        self.commits += other.commits;
        self.durable_commits += other.durable_commits;
        self.commits_beyond += other.commits_beyond;
        self.log_generations += other.log_generations;
        self.logs_replayed += other.logs_replayed;
        self.pages_repaired += other.pages_repaired;
        self.transactions_rolled_back += other.transactions_rolled_back;
        self.bytes_grown += other.bytes_grown;
    }

    /// Kills that hit nothing prove nothing.
    fn require_variety(&self) {
        assert!(self.kills_in_recovery > 0, "no kill came during recovery");
        assert!(self.durable_commits > 0 && self.commits > self.durable_commits);
        assert!(self.log_generations > 0 && self.logs_replayed > 0);
        // Few kills come in the middle of writing a page.
        assert!(self.pages_repaired > 0 || self.kills < 500, "no torn page was repaired");
        assert!(self.transactions_rolled_back > 0, "no transaction was open at a kill");
        assert!(self.bytes_grown > 0, "no file grew");
    }
}

#[test]
fn a_created_database_is_there_after_a_kill() {
    for seed in 1..=3 {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        let mut task = campaign.task(Mode::Create);
        // Nothing but syncs may make it durable.
        (task.disk.early_write_percent, task.disk.torn_sync) = (0, false);
        let trigger = Trigger { line: "created", count: 1, pause: Duration::ZERO };
        run_and_kill(&task, &trigger).unwrap();
        let found = campaign.databases.check_files().unwrap();
        assert!(found == campaign.rows, "seed {seed}: the files are not the image");
    }
}

/// Page writes that only the checkpoint's own sync makes durable: between two rolls no header is written, whose sync
/// would do. The first second's flush writes pages, the second one's checkpoint passes them.
#[test]
fn a_kill_behind_a_checkpoint_between_two_rolls_loses_nothing() {
    for seed in [2, 6, 10] {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        real(async |world| campaign.databases.create(&world).await);
        for round in 1..=2 {
            let mut task = campaign.task(Mode::SlowLoad);
            task.disk.early_write_percent = 0;
            let pause = Duration::from_millis(2040 + campaign.below(100));
            let done = campaign.round_of(&task, &Trigger { line: "open", count: 2, pause });
            done.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        }
    }
}

/// Names, contents and headers of a new log stream, each of which the databases' headers soon rely on.
#[test]
fn a_kill_during_the_first_opening_loses_nothing() {
    for seed in 1..=4 {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        real(async |world| campaign.databases.create(&world).await);
        let new = campaign.copy_files();
        for attempt in 0..6 {
            campaign.put_files(&new);
            let mut task = campaign.task(Mode::Recover);
            (task.disk.early_write_percent, task.disk.torn_sync) = (0, true);
            // A torn sync takes about 3 ms, and there are about ten of them.
            let pause = Duration::from_micros(3000 + 5000 * attempt + campaign.below(5000));
            run_and_kill(&task, &Trigger { line: "open", count: 1, pause }).unwrap();
            let found = campaign.recover().and_then(|_| campaign.databases.check_files());
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, {pause:?}: {error}"));
            assert!(found == campaign.rows, "seed {seed}, {pause:?}: other rows than before");
        }
    }
}
