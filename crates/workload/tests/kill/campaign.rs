//! The side that kills: it starts children, ends them, and checks what they leave.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use engine::{Instance, InstanceConfig, RecoveryReport, Redo};
use futures_util::future::{Either, select};
use testkit::durable_shadow::{DiskEvent, PowerCut, ShadowHost, ShadowOptions};
use workload::mix::Random;
use world::World;

use super::child::{Aim, COPY, ChildTask, Mode, Phase, SESSIONS, TASK, TICK, ticks};
use super::common::{self, Change, Databases, Kind, Name, Rows, real, scratch_dir};

/// Silence after which a child counts as stuck, ticks.
const SILENCE_TICKS: u32 = 6000;
/// Time after which a recovery counts as stuck, ticks.
const RECOVERY_TICKS: u32 = 6000;
const SIGKILL: i32 = 9;
/// First version of the transaction that every process repeats. No other change has such versions.
const SAME_VERSION: u32 = 1_000_000;

fn parse_change(text: &str) -> Option<Change> {
    let mut words = text.split(':');
    let db = words.next()?.parse().ok()?;
    let kind = if words.next()? == "message" { Kind::Message } else { Kind::Folder };
    let id = words.next()?.parse().ok()?;
    let version = words.next()?;
    Some(((db, kind, id), if version == "-" { None } else { Some(version.parse().ok()?) }))
}

/// Lines that a killed child has printed.
#[derive(Default)]
pub struct Said {
    lines: Vec<String>,
    commits: Vec<Vec<Change>>,
    /// Number of commits that must survive.
    durable: usize,
    cache_reads: u64,
    /// Whether the child reached the trigger and still ran after the pause behind it.
    triggered: bool,
}

impl Said {
    fn add(&mut self, line: String) {
        if let Some(changes) = line.strip_prefix("commit") {
            let changes = changes.split_whitespace().map(|change| parse_change(change).expect("a change"));
            self.commits.push(changes.collect());
        } else if let Some(number) = line.strip_prefix("durable ") {
            self.durable = self.durable.max(number.parse().expect("a number"));
        } else if let Some(reads) = line.strip_prefix("rolled ") {
            self.cache_reads += reads.parse::<u64>().expect("a number");
        } else {
            self.lines.push(line);
        }
    }

    pub fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|said| said == line)
    }
}

/// When to kill a child.
pub struct Trigger {
    /// Line of the child that counts.
    pub line: &'static str,
    /// Number of these lines after which the pause begins.
    pub count: u64,
    /// Pause before the kill. The child may end by itself meanwhile.
    pub pause: Duration,
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

/// Runs a child until its disk loses power, or until the trigger comes and the child is killed.
#[allow(clippy::disallowed_methods, reason = "kills and their watchdog are outside of every world")]
pub fn run_and_kill(task: &ChildTask, trigger: &Trigger) -> Result<Said, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::child", "--ignored", "--nocapture"])
        .env(TASK, task.encode())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        while let Some(line) = next_line(&mut out) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let (mut said, mut count, mut silent_ticks) = (Said::default(), 0, 0);
    while count < trigger.count {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                silent_ticks = 0;
                count += u64::from(line.starts_with(trigger.line));
                said.add(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if silent_ticks < SILENCE_TICKS => silent_ticks += 1,
            Err(RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                child.wait().unwrap();
                let (mode, last) = (task.mode, said.lines.last());
                return Err(format!("the process in mode {mode:?} hangs; the last it said: {last:?}"));
            }
        }
    }
    if count == trigger.count {
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() && began.elapsed() < trigger.pause {
            std::thread::sleep(Duration::from_millis(5));
        }
        said.triggered = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    lines.iter().for_each(|line| said.add(line));
    reader.join().expect("reading lines does not panic");
    if status.signal() == Some(SIGKILL) {
        return Ok(said);
    }
    Err(format!("the process in mode {:?} died by itself: {status}", task.mode))
}

/// Counts over the kills of a test.
#[derive(Debug, Default)]
pub struct Totals {
    pub kills: u64,
    kills_in_recovery: u64,
    /// Kills at exactly the event that they were aimed at.
    pub cuts: u64,
    commits: usize,
    durable_commits: usize,
    /// Commits that survived without having been acknowledged.
    commits_beyond: usize,
    log_generations: u64,
    logs_replayed: u32,
    pages_repaired: u64,
    transactions_rolled_back: u32,
    /// Reads from MetaCaches up to the last roll of the log before each kill.
    cache_reads: u64,
    bytes_grown: u64,
}

/// Set of databases that goes through many kills.
pub struct Campaign {
    root: PathBuf,
    page_bytes: u32,
    log_bytes: u32,
    random: Random,
    pub databases: Databases,
    /// What the databases hold.
    pub rows: Rows,
    first_version: u32,
    /// Whether a passive copy has replayed logs into the databases. It keeps no flush map, so the next instance
    /// starts a new one.
    has_followed: bool,
    pub totals: Totals,
}

impl Campaign {
    pub fn new(root: &Path, seed: u64) -> Campaign {
        let page_bytes = [4096, 32768, 8192][seed as usize % 3];
        let log_bytes = [256, 64, 1024, 64][seed as usize % 4] << 10;
        Campaign::with(root, seed, page_bytes, log_bytes)
    }

    pub fn with(root: &Path, seed: u64, page_bytes: u32, log_bytes: u32) -> Campaign {
        let mut databases = Databases::new(root, page_bytes, super::FILE_BYTES);
        (databases.log_bytes, databases.has_meta_caches) = (log_bytes, seed % 2 == 1);
        Campaign {
            root: root.to_owned(),
            page_bytes,
            log_bytes,
            random: Random::new(seed),
            rows: databases.initial_rows(),
            databases,
            first_version: 1,
            has_followed: false,
            totals: Totals::default(),
        }
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    pub fn task(&mut self, mode: Mode) -> ChildTask {
        self.has_followed |= mode == Mode::Follow;
        let disk = ShadowOptions {
            seed: self.random.next_u64(),
            torn_sync: self.below(4) > 0,
            early_write_percent: [0, 0, 10, 60][self.below(4) as usize],
            ignored_sync: None,
        };
        let (page_bytes, log_bytes) = (self.page_bytes, self.log_bytes);
        let (root, first_version) = (self.root.clone(), self.first_version);
        let has_meta_caches = self.databases.has_meta_caches;
        ChildTask { root, mode, page_bytes, log_bytes, has_meta_caches, first_version, disk, aim: None }
    }

    pub fn create(&self) {
        real(async |world| self.databases.create(&world).await);
    }

    pub fn run(&mut self, kills: u64) -> Result<(), String> {
        self.create();
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
        let said = self.kill(&task, &trigger)?;
        for _ in 0..self.below(3) {
            self.kill_in_recovery()?;
        }
        // Either the recovered files go on, or what the kill has left: the next process recovers it then.
        let left = (self.below(2) == 0).then(|| self.copy_files());
        self.recover_and_settle(&said)?;
        if let Some(left) = left {
            self.put_files(&left);
        }
        Ok(())
    }

    /// Runs a child until it is killed, then recovers and checks the databases.
    pub fn round_of(&mut self, task: &ChildTask, trigger: &Trigger) -> Result<(), String> {
        let said = self.kill(task, trigger)?;
        self.recover_and_settle(&said).map(drop)
    }

    /// Runs a child until the power cut at `aim`, or until its trigger; then recovers and checks the databases.
    pub fn cut(&mut self, mode: Mode, aim: Aim) -> Result<(), String> {
        let (task, trigger) = self.aimed(mode, aim);
        self.round_of(&task, &trigger).map_err(|error| format!("{mode:?}, {aim:?}: {error}"))
    }

    pub fn aimed(&mut self, mode: Mode, aim: Aim) -> (ChildTask, Trigger) {
        let mut task = self.task(mode);
        task.aim = Some(aim);
        let (line, count) = match mode {
            Mode::Create => ("created", 1),
            Mode::Recover | Mode::Follow | Mode::Close => ("open", 2),
            Mode::Load | Mode::SlowLoad => ("commit", 400),
            Mode::LoadAndClose => ("closed", 1),
            Mode::Backup => ("backed up", 1),
            Mode::Commit => ("durable", 1),
            Mode::Begin => ("no line", 1),
        };
        (task, Trigger { line, count, pause: Duration::ZERO })
    }

    pub fn kill(&mut self, task: &ChildTask, trigger: &Trigger) -> Result<Said, String> {
        let said = run_and_kill(task, trigger)?;
        self.totals.kills += 1;
        self.totals.cuts += u64::from(!said.triggered);
        // Versions of commits that are lost are not given again.
        self.first_version += 8 * (said.commits.len() as u32 + 8 * SESSIONS as u32);
        Ok(said)
    }

    pub fn recover_and_settle(&mut self, said: &Said) -> Result<(), String> {
        let report = self.recover()?;
        let found = self.databases.check_files()?;
        let survived = settle(&mut self.rows, said, &found)?;
        let totals = &mut self.totals;
        totals.commits += said.commits.len();
        totals.durable_commits += said.durable;
        totals.cache_reads += said.cache_reads;
        totals.commits_beyond += survived - said.durable;
        totals.logs_replayed += report.logs_replayed;
        totals.pages_repaired += report.pages_repaired;
        totals.transactions_rolled_back += report.transactions_rolled_back;
        Ok(())
    }

    /// Ends a load with its process alone, then up to three recoveries or replays of a passive copy, and one more
    /// with a power cut.
    pub fn ends_before_a_power_cut(&mut self) -> Result<(), String> {
        let said = self.end(Mode::Load, Phase::Open, true)?;
        for _ in 0..self.below(4) {
            let mode = [Mode::Recover, Mode::Follow][self.below(2) as usize];
            self.end(mode, Phase::Start, true)?;
        }
        let mode = [Mode::Recover, Mode::Follow, Mode::Close][self.below(3) as usize];
        self.end(mode, Phase::Start, false)?;
        self.recover_and_settle(&said)
    }

    fn end(&mut self, mode: Mode, phase: Phase, process_only: bool) -> Result<Said, String> {
        let event = DiskEvent::ALL[self.below(DiskEvent::ALL.len() as u64) as usize];
        let (number, later) = (1 + self.below(30), self.below(3));
        let cut = PowerCut { event, number, later, pieces: None };
        let (task, trigger) = self.aimed(mode, Aim { phase, cut, process_only });
        self.kill(&task, &trigger).map_err(|error| format!("{mode:?} until {cut:?}: {error}"))
    }

    /// Draws the time at which the load is killed: anywhere, or right after a roll of the log.
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

    /// Recovers and closes the instance. One recovery in four uses plain real files, so it takes the time of real
    /// syncs.
    pub fn recover(&mut self) -> Result<RecoveryReport, String> {
        let plain = self.below(4) == 0;
        let (report, generation) = open_and_close(&self.databases, plain)?;
        self.totals.log_generations = self.totals.log_generations.max(generation.into());
        for database in self.databases.config().databases {
            check_map(Path::new(&database.path), self.page_bytes, self.has_followed)?;
        }
        Ok(report)
    }

    /// Repeats the same transaction until the power cut.
    pub fn make_same_transaction(&mut self, mode: Mode, aim: Aim) -> Result<Said, String> {
        let (mut task, trigger) = self.aimed(mode, aim);
        (task.first_version, task.disk.early_write_percent) = (SAME_VERSION, 0);
        self.kill(&task, &trigger)
    }

    /// Number of segments of the current log that are used, behind the first unused one.
    #[allow(clippy::disallowed_methods, reason = "reads the log without any of the code under test")]
    pub fn segments_behind_the_end(&self) -> usize {
        let bytes = std::fs::read(self.root.join("log/E00.log")).unwrap();
        let is_used = |segment: &[u8]| segment.iter().any(|byte| *byte != 0);
        bytes
            .chunks_exact(4096)
            .skip_while(|segment| is_used(segment))
            .filter(|segment| is_used(segment))
            .count()
    }

    pub fn copy_files(&self) -> tempfile::TempDir {
        let target = scratch_dir();
        copy_directories(&self.root, target.path());
        target
    }

    pub fn put_files(&self, from: &tempfile::TempDir) {
        for directory in ["db", "log"] {
            std::fs::remove_dir_all(self.root.join(directory)).unwrap();
        }
        copy_directories(from.path(), &self.root);
    }

    /// Starts again with these files, which hold these rows.
    pub fn start_over(&mut self, files: &tempfile::TempDir, rows: &Rows) {
        self.put_files(files);
        self.rows.clone_from(rows);
    }

    /// Restores the backup copy over a copy of the directories in `left`, and recovers it. The copy must be refused, or
    /// give exactly the rows that were found. `cut`: power cut during the restore. Returns whether the copy could be
    /// opened.
    pub fn restore(&mut self, left: &Path, cut: Option<Aim>) -> Result<bool, String> {
        let copy = left.join(COPY);
        if !copy.exists() {
            return Ok(false);
        }
        let place = scratch_dir();
        copy_directories(left, place.path());
        std::fs::copy(&copy, place.path().join("db/1.edb")).unwrap();
        let mut databases = Databases::new(place.path(), self.page_bytes, super::FILE_BYTES);
        databases.log_bytes = self.log_bytes;
        if edb_header(&copy, self.page_bytes).is_none() {
            return match open_and_close(&databases, false) {
                Err(_) => Ok(false),
                Ok(_) => Err("a copy without a header was taken for a backup".to_owned()),
            };
        }
        if let Some(aim) = cut {
            let (mut task, trigger) = self.aimed(Mode::Recover, aim);
            task.root = place.path().to_owned();
            run_and_kill(&task, &trigger)?;
            self.totals.kills += 1;
        }
        open_and_close(&databases, false).map_err(|error| format!("restore: {error}"))?;
        let found = databases.check_files().map_err(|error| format!("restored {error}"))?;
        if found != self.rows {
            return Err("the restored databases hold other rows than their source".to_owned());
        }
        Ok(true)
    }
}

/// The header of a database file, or its shadow.
#[allow(clippy::disallowed_methods, reason = "reads the copy without any of the code under test")]
fn edb_header(path: &Path, page_bytes: u32) -> Option<edb::header::DatabaseHeader> {
    let bytes = std::fs::read(path).unwrap();
    let mut copies = bytes.chunks_exact(page_bytes as usize).take(2);
    copies.find_map(|page| edb::header::DatabaseHeader::parse(page).ok())
}

/// Checks that the flush map of a closed database exists and fits it. Only after a passive copy may it be a new one.
#[allow(clippy::disallowed_methods, reason = "reads the map without the engine")]
fn check_map(path: &Path, page_bytes: u32, has_followed: bool) -> Result<(), String> {
    let header = edb_header(path, page_bytes).expect("a closed database has a header");
    let file = std::fs::read(path.with_extension("jfm")).ok();
    let map = edb::flush_map::ClosedMap::new(file.as_deref(), &header);
    let lost = map.damage.as_deref().or(map.unseen.filter(|_| file.is_none() || !has_followed));
    lost.map_or(Ok(()), |what| Err(format!("{}: {what}", path.display())))
}

fn open_and_close(databases: &Databases, plain: bool) -> Result<(RecoveryReport, u32), String> {
    real(async |world| {
        let shadow = || World::new(Rc::new(ShadowHost::new(world.host().clone(), ShadowOptions::default())));
        let world = if plain { world.clone() } else { shadow() };
        // The shards of a shadow do not see what the others have not made durable.
        let redo = if plain { Redo::ByPage } else { Redo::InLogOrder };
        let config = InstanceConfig { redo, ..databases.config() };
        let work = async {
            let opened = Instance::open(&world, &config).await;
            let (instance, report) = opened.map_err(|error| format!("recovery failed: {error}"))?;
            let generation = instance.log_generation();
            instance.close().await.map_err(|error| format!("close failed: {error}"))?;
            Ok((report, generation))
        };
        match select(Box::pin(work), Box::pin(ticks(&world, RECOVERY_TICKS))).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err("recovery hangs".to_owned()),
        }
    })
}

fn copy_directories(from: &Path, to: &Path) {
    for directory in ["db", "log", "backup"] {
        let (from, to) = (from.join(directory), to.join(directory));
        if !from.exists() {
            continue;
        }
        if !to.exists() {
            std::fs::create_dir(&to).unwrap();
        }
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Finds the prefix of commits that gives `found`, and applies it to `rows`. Returns its length.
fn settle(rows: &mut Rows, said: &Said, found: &Rows) -> Result<usize, String> {
    let apply = |rows: &mut Rows, (name, version): &Change| match version {
        Some(version) => rows.insert(*name, *version),
        None => rows.remove(name),
    };
    for change in said.commits[..said.durable].iter().flatten() {
        apply(rows, change);
    }
    let names = rows.keys().chain(found.keys()).copied();
    let mut different: BTreeSet<Name> = names.filter(|name| rows.get(name) != found.get(name)).collect();
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

impl Totals {
    pub fn add(&mut self, other: Totals) {
        self.kills += other.kills;
        self.kills_in_recovery += other.kills_in_recovery;
        self.cuts += other.cuts;
        self.commits += other.commits;
        self.durable_commits += other.durable_commits;
        self.commits_beyond += other.commits_beyond;
        self.log_generations += other.log_generations;
        self.logs_replayed += other.logs_replayed;
        self.pages_repaired += other.pages_repaired;
        self.transactions_rolled_back += other.transactions_rolled_back;
        self.cache_reads += other.cache_reads;
        self.bytes_grown += other.bytes_grown;
    }

    /// Asserts that the kills hit all that they must hit.
    pub fn require_variety(&self) {
        assert!(self.kills_in_recovery > 0, "no kill came during recovery");
        assert!(self.durable_commits > 0 && self.commits > self.durable_commits);
        assert!(self.log_generations > 0 && self.logs_replayed > 0);
        // Few kills come in the middle of writing a page.
        assert!(self.pages_repaired > 0 || self.kills < 500, "no torn page was repaired");
        assert!(self.transactions_rolled_back > 0, "no transaction was open at a kill");
        assert!(self.cache_reads > 0, "no page was read from a MetaCache");
        assert!(self.bytes_grown > 0, "no file grew");
    }
}
