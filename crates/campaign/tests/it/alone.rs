//! Tests that are run alone: on databases, backups and logs that an earlier run, or one that was broken off, has left.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::small_campaign::{
    Silent, deployment, failures, initialised, run_deployment, run_specs, run_tests, simulation_of, specs,
};
use campaign::barrier::{Alone, Barrier};
use campaign::progress::{Progress, Watcher};
use campaign::{CampaignError, database_path};
use edb::page::{PageMut, PageRef};
use results::{Outcome, RecoveryWork, Row};
use smallvec::smallvec;
use solution::{LoadMode, TestKind, TestSpec};
use world::sim::Simulation;
use world::{Duration, LocalFuture, OpenMode, PageBuf, Time, World};

/// Runs these tests, which must pass, and counts the databases that were recovered before a checksum.
fn recovered_first(simulation: &Simulation, kinds: &[TestKind]) -> usize {
    let spec = |kind| specs(|other| other == kind).remove(0);
    let tests: Vec<TestSpec> = kinds.iter().copied().map(spec).collect();
    let (outcome, rows) = run_specs(simulation, 19, &tests, &mut Silent, &Alone);
    assert!(outcome.passed(), "{kinds:?}: {:?}, {:?}", failures(&outcome), outcome.error);
    rows.iter()
        .filter(|row| matches!(row, Row::Event(event) if event.text.contains("was not closed")))
        .count()
}

#[test]
fn a_checksum_recovers_what_an_earlier_run_has_not_closed() {
    let simulation = initialised(19);
    assert_eq!(recovered_first(&simulation, &[TestKind::LogGeneration]), 0);
    assert_eq!(recovered_first(&simulation, &[TestKind::DatabaseChecksum]), 2, "both databases");
    assert_eq!(recovered_first(&simulation, &[TestKind::DatabaseChecksum]), 0, "what is recovered is closed");
}

#[test]
fn a_load_says_which_databases_it_recovered_first() {
    let simulation = initialised(19);
    assert_eq!(recovered_first(&simulation, &[TestKind::LogGeneration]), 0);
    assert_eq!(recovered_first(&simulation, &[TestKind::Performance]), 2, "both databases");
    assert_eq!(recovered_first(&simulation, &[TestKind::Performance]), 0, "a load closes its databases");
}

#[test]
fn a_database_without_a_header_is_not_used_again() {
    let simulation = initialised(19);
    let (host, deployment) = (simulation.host("a"), deployment());
    let database = &deployment.instances[0].databases[0];
    let path = database_path(&database.dir, &database.name);
    let page_bytes = deployment.instances[0].page_bytes as usize;
    simulation.run_until(async {
        let file = host.open(&path, OpenMode::ReadWrite).await.unwrap();
        let mut junk = PageBuf::empty(page_bytes);
        junk.as_mut_slice().fill(0x5A);
        file.write_at(0, smallvec![junk.clone(), junk]).await.0.unwrap();
        file.sync().await.unwrap();
    });
    let init = specs(|kind| kind == TestKind::Init);
    let (outcome, _) = run_specs(&simulation, 19, &init, &mut Silent, &Alone);
    assert!(matches!(outcome.error, Some(CampaignError::NoHeader { .. })), "{:?}", outcome.error);
}

#[test]
fn a_checksum_leaves_logs_to_the_soft_recovery_that_they_are_for() {
    let simulation = initialised(19);
    // Soft recovery fails if no log is left to replay.
    let one_run = [TestKind::LogGeneration, TestKind::DatabaseChecksum, TestKind::SoftRecovery];
    assert_eq!(recovered_first(&simulation, &one_run), 0);
    assert_eq!(recovered_first(&simulation, &[TestKind::LogGeneration]), 0);
    let spec = |kind| specs(|other| other == kind).remove(0);
    let tests = [TestKind::DatabaseChecksum, TestKind::SoftRecovery, TestKind::DatabaseChecksum].map(spec);
    let (outcome, rows) = run_specs(&simulation, 19, &tests, &mut Silent, &Alone);
    assert!(outcome.passed(), "{:?}, {:?}", failures(&outcome), outcome.error);
    // What an earlier run has left unclosed may be torn, and is judged when it is recovered.
    let judged = |test| {
        let of_test = outcome.verdicts.iter().filter(|verdict| verdict.test == Some(test));
        of_test
            .filter(|verdict| verdict.rule == "bad_pages")
            .map(|verdict| verdict.outcome)
            .collect::<Vec<_>>()
    };
    assert_eq!((judged(1), judged(3)), (vec![Outcome::Info; 2], vec![Outcome::Pass; 2]));
    let checked = rows.iter().filter(|row| matches!(row, Row::Checksum(checksum) if checksum.test == 1));
    assert_eq!(checked.count(), 0);
}

fn first_database() -> String {
    let database = &deployment().instances[0].databases[0];
    database_path(&database.dir, &database.name)
}

/// Indexes of the pages of a file that are not all zero.
fn written_pages(simulation: &Simulation, path: &str) -> BTreeSet<u64> {
    let world = simulation.host("a");
    let page_bytes = deployment().instances[0].page_bytes as usize;
    simulation.run_until(async {
        let file = world.open(path, OpenMode::Read).await.expect("it is there");
        let pages = file.size().await.expect("it has a size") as usize / page_bytes;
        let bufs = (0..pages).map(|_| PageBuf::empty(page_bytes)).collect();
        let (read, bufs) = file.read_at(0, bufs).await;
        read.expect("it is readable");
        (0..).zip(&bufs).filter(|(_, page)| !edb::is_zero(page.as_slice())).map(|(index, _)| index).collect()
    })
}

/// Overwrites these pages of a file with zeros.
fn lose_pages(simulation: &Simulation, path: &str, pages: &BTreeSet<u64>) {
    let world = simulation.host("a");
    let page_bytes = deployment().instances[0].page_bytes as usize;
    simulation.run_until(async {
        let file = world.open(path, OpenMode::ReadWrite).await.expect("it is there");
        for index in pages {
            let zero = smallvec![PageBuf::empty(page_bytes)];
            let (written, _) = file.write_at(index * page_bytes as u64, zero).await;
            written.expect("writable");
        }
        file.sync().await.expect("it can be synced");
    });
}

/// The space trees know the pages that a load appended, so the check notices a disk that loses all of them.
#[test]
fn checksum_and_backup_miss_every_page_that_a_load_appended_and_the_disk_lost() {
    let simulation = initialised(24);
    let path = first_database();
    let made = written_pages(&simulation, &path);
    let (outcome, _) = run_tests(&simulation, 24, |kind| kind == TestKind::Performance);
    assert_eq!(failures(&outcome), [""; 0]);
    let appended: BTreeSet<u64> = &written_pages(&simulation, &path) - &made;
    assert!(appended.len() > 10, "{appended:?}");
    // Opening the database for a backup reads some of the newest pages.
    let older = appended.iter().copied().take(appended.len() / 2).collect();
    for (kind, lost) in [(TestKind::Backup, older), (TestKind::DatabaseChecksum, appended)] {
        lose_pages(&simulation, &path, &lost);
        let tests = vec![specs(|other| other == kind).remove(0)];
        let (outcome, rows) = run_specs(&simulation, 24, &tests, &mut Silent, &Alone);
        assert!(outcome.error.is_none(), "{kind:?}: {:?}", outcome.error);
        let bad: u64 = rows
            .iter()
            .map(|row| if let Row::Checksum(checksum) = row { checksum.read.bad_pages } else { 0 })
            .sum();
        assert_eq!(bad, lost.len() as u64, "{kind:?}: {:?}", failures(&outcome));
    }
}

/// Removes nine pages from the largest available extent of a database. The database then owns them, and no tree
/// refers to them. Returns their indexes in the file.
fn leak_pages(simulation: &Simulation, path: &str) -> BTreeSet<u64> {
    const AVAILABLE: u32 = 3;
    let world = simulation.host("a");
    let page_bytes = deployment().instances[0].page_bytes as usize;
    simulation.run_until(async {
        let file = world.open(path, OpenMode::ReadWrite).await.expect("it is there");
        let offset = edb::verify::page_offset(AVAILABLE, page_bytes);
        let (read, mut bufs) = file.read_at(offset, smallvec![PageBuf::empty(page_bytes)]).await;
        read.expect("it is readable");
        let size = |data: &[u8]| u32::from_le_bytes(data.try_into().expect("an extent"));
        let last = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("an extent"));
        let nodes = PageRef::new(bufs[0].as_slice()).nodes();
        let extents: Vec<_> = nodes.map(|node| (size(node.data), last(&node.key()))).collect();
        let (slot, (largest, last)) =
            (0..).zip(extents).max_by_key(|(_, extent)| *extent).expect("free space");
        let mut page = PageMut::new(bufs[0].as_mut_slice());
        page.replace_data(slot, &(largest - 9).to_le_bytes()).expect("it is as long");
        page.finish(AVAILABLE);
        file.write_at(offset, bufs).await.0.expect("writable");
        file.sync().await.expect("it can be synced");
        let first = u64::from(last - largest + 1);
        (first + 1..first + 10).collect()
    })
}

#[test]
fn leaked_pages_are_a_note_of_checksum_backup_and_restore() {
    let simulation = initialised(25);
    let leaked = leak_pages(&simulation, &first_database());
    // A page that was never written is known to be the template's: written as zeros it is a page like any other.
    lose_pages(&simulation, &first_database(), &leaked);
    for kind in [TestKind::DatabaseChecksum, TestKind::Backup, TestKind::BackupToDisk, TestKind::Restore] {
        let tests = vec![specs(|other| other == kind).remove(0)];
        let (outcome, rows) = run_specs(&simulation, 25, &tests, &mut Silent, &Alone);
        assert!(outcome.passed(), "{kind:?}: {:?}, {:?}", failures(&outcome), outcome.error);
        let is_note = |row: &&Row| matches!(row, Row::Event(event) if event.text.contains("leaked pages") && event.text.ends_with(": 9"));
        assert_eq!(rows.iter().filter(is_note).count(), 1, "{kind:?}");
    }
}

fn backup_path(simulation: &Simulation) -> String {
    let database = &deployment().instances[1].databases[0];
    let path = database_path(&format!("{}/backup", database.dir), &format!("{}.backup", database.name));
    let there = simulation.run_until(async { simulation.host("a").entry(&path).await.expect("readable") });
    assert!(there.is_some(), "{path}");
    path
}

#[test]
fn a_backup_that_was_cut_off_is_no_backup_and_no_fault_of_the_storage() {
    let simulation = initialised(20);
    let (outcome, _) = run_tests(&simulation, 20, |kind| kind == TestKind::BackupToDisk);
    assert_eq!(failures(&outcome), [""; 0]);
    let path = backup_path(&simulation);
    let world = simulation.host("a");
    simulation.run_until(async {
        let copy = world.open(&path, OpenMode::ReadWrite).await.expect("it is there");
        // The header and its shadow are written last.
        let (written, _) = copy.write_at(0, smallvec![PageBuf::empty(64 << 10)]).await;
        written.expect("writable");
    });
    let totals = || simulation.host("a").io_totals();
    let before = totals();
    let (outcome, _) = run_tests(&simulation, 20, |kind| kind == TestKind::Restore);
    assert!(matches!(outcome.error, Some(CampaignError::NoBackup { .. })), "{:?}", outcome.error);
    assert_eq!(failures(&outcome), [""; 0]);
    assert_eq!(totals().writes, before.writes, "nothing was changed or copied before that was found");
}

/// Watcher that asks for the end of the run when a phase is first shown, and notes the time.
struct EndsAt<'a> {
    simulation: &'a Simulation,
    phase: &'static str,
    asked: Option<Time>,
}

impl Watcher for EndsAt<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.phase == self.phase {
            self.asked.get_or_insert(self.simulation.now());
        }
    }
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        self.asked.is_some()
    }
}

#[test]
fn an_interrupt_ends_a_restore_that_copies() {
    // A copy takes over ten seconds.
    let simulation = simulation_of(21, Duration::from_millis(100));
    let made = |kind| matches!(kind, TestKind::Init | TestKind::BackupToDisk);
    let (outcome, _) = run_tests(&simulation, 21, made);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let mut ends = EndsAt { simulation: &simulation, phase: "copying back and replaying", asked: None };
    let tests = specs(|kind| kind == TestKind::Restore);
    let (outcome, _) = run_specs(&simulation, 21, &tests, &mut ends, &Alone);
    assert!(matches!(outcome.error, Some(CampaignError::Interrupted)), "{:?}", outcome.error);
    let went_on = simulation.now().since(ends.asked.expect("it was seen"));
    assert!(went_on < Duration::from_secs(1), "{went_on:?}");
}

/// Redo reads and writes pages before the load begins; these are no I/O of batches.
#[test]
fn what_recovery_reads_is_no_io_of_batches() {
    let simulation = initialised(22);
    let (outcome, _) = run_tests(&simulation, 22, |kind| kind == TestKind::LogGeneration);
    assert!(outcome.passed(), "{:?}", failures(&outcome));
    let mut paced = deployment();
    paced.load.mode = LoadMode::PacedIops { iops: 400.0 };
    paced.load.target_iops = Some(300.0);
    let tests = specs(|kind| kind == TestKind::Performance);
    let (outcome, _) = run_deployment(&simulation, &paced, 22, &tests, &mut Silent, &Alone);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(failures(&outcome), [""; 0]);
}

/// If a user asks for the end during a recovery that fails, the failure is still reported.
#[test]
fn a_recovery_that_fails_after_an_interrupt_is_a_finding() {
    // Reading headers takes a second, so that the end is asked for before the loss is seen.
    let simulation = simulation_of(23, Duration::from_millis(400));
    let mut tests = specs(|kind| matches!(kind, TestKind::Init | TestKind::LogGeneration));
    tests[1].duration_s = 3600.0;
    let (outcome, _) = run_specs(&simulation, 23, &tests, &mut Silent, &Alone);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let log = format!("{}/E0000000001.log", deployment().instances[0].log_dir);
    simulation.run_until(async { simulation.host("a").remove(&log).await.expect("it is there") });
    let mut ends = EndsAt { simulation: &simulation, phase: "opening databases", asked: None };
    let tests = specs(|kind| kind == TestKind::Performance);
    let (outcome, _) = run_specs(&simulation, 23, &tests, &mut ends, &Alone);
    assert!(ends.asked.is_some(), "the end was asked for while databases were opened");
    assert!(matches!(outcome.error, Some(CampaignError::Engine(_))), "{:?}", outcome.error);
    assert_eq!(failures(&outcome).len(), 1, "{:?}", failures(&outcome));
}

fn first_log_dir() -> String {
    deployment().instances[0].log_dir.clone()
}

/// Runs one test of this kind. Returns the names of the rules that failed, and the error that ended the run early.
fn failed_rules(simulation: &Simulation, kind: TestKind) -> (Vec<String>, String) {
    let tests = vec![specs(|other| other == kind).remove(0)];
    let (outcome, _) = run_specs(simulation, 25, &tests, &mut Silent, &Alone);
    let failed = outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    let rules = failed.map(|verdict| verdict.rule.clone()).collect();
    (rules, outcome.error.map(|error| error.to_string()).unwrap_or_default())
}

/// The database headers say how far the log reached when the previous test ended, so soft recovery notices a shorter
/// log.
#[test]
fn soft_recovery_fails_when_the_end_of_the_log_is_gone() {
    for zeroed in [false, true] {
        let simulation = initialised(25);
        assert_eq!(failed_rules(&simulation, TestKind::LogGeneration).0, [""; 0]);
        let (world, log) = (simulation.host("a"), format!("{}/E00.log", first_log_dir()));
        simulation.run_until(async {
            if !zeroed {
                return world.remove(&log).await.expect("it is there");
            }
            let file = world.open(&log, OpenMode::ReadWrite).await.expect("it is there");
            let rest = file.size().await.expect("it has a size") as usize - 4096;
            let (written, _) = file.write_at(4096, smallvec![PageBuf::empty(rest)]).await;
            written.expect("writable");
            file.sync().await.expect("it can be synced");
        });
        let (rules, error) = failed_rules(&simulation, TestKind::SoftRecovery);
        assert!(rules == ["log_as_left"] && error.contains(&first_log_dir()), "{rules:?}: {error}");
    }
}

#[test]
fn a_flipped_bit_in_a_closed_log_fails_the_log_checksum_though_it_can_be_corrected() {
    let simulation = initialised(26);
    assert_eq!(failed_rules(&simulation, TestKind::LogGeneration).0, [""; 0]);
    assert_eq!(failed_rules(&simulation, TestKind::LogChecksum).0, [""; 0]);
    let world = simulation.host("a");
    let logs = simulation.run_until(async { world.list(&first_log_dir()).await.expect("readable") });
    let closed = logs
        .iter()
        .map(|entry| &entry.name)
        .filter(|name| name.ends_with(".log") && name.len() == "E0000000001.log".len());
    let newest = closed.max().expect("there is a closed log");
    assert!(simulation.rot("a", &format!("{}/{newest}", first_log_dir()), 6000, 3));
    assert_eq!(failed_rules(&simulation, TestKind::LogChecksum).0, ["corrected_logs"]);
    assert_eq!(failed_rules(&simulation, TestKind::SoftRecovery).0, ["corrected_logs"]);
}

/// The recovery row of an instance holds corrected bits, redone changes and the branches taken.
#[test]
fn what_a_soft_recovery_did_is_in_the_rows_of_the_run() {
    let simulation = initialised(27);
    assert_eq!(failed_rules(&simulation, TestKind::LogGeneration).0, [""; 0]);
    let world = simulation.host("a");
    let logs = simulation.run_until(async { world.list(&first_log_dir()).await.expect("readable") });
    let is_closed = |name: &&String| name.ends_with(".log") && name.len() == "E0000000001.log".len();
    let newest = logs.iter().map(|entry| &entry.name).filter(is_closed).max().expect("there is a closed log");
    assert!(simulation.rot("a", &format!("{}/{newest}", first_log_dir()), 6000, 3));
    let (_, rows) = run_tests(&simulation, 25, |kind| kind == TestKind::SoftRecovery);
    let recoveries =
        rows.iter().filter_map(|row| if let Row::Recovery(row) = row { Some(row) } else { None });
    let work: Vec<&RecoveryWork> = recoveries.map(|row| row.work.as_ref().expect("it is known")).collect();
    assert_eq!(work.len(), deployment().instances.len());
    assert_eq!(work.iter().map(|work| work.segments_corrected).collect::<Vec<_>>()[0], 1, "{:?}", work[0]);
    assert!(work[1..].iter().all(|work| work.segments_corrected == 0), "only the first log was damaged");
    for work in work {
        assert!(work.page_changes > 0 && !work.branches.is_empty(), "{work:?}");
    }
}

fn copy(simulation: &Simulation, from: &str, to: &str) {
    let (world, page_bytes) = (simulation.host("a"), deployment().instances[0].page_bytes as usize);
    simulation.run_until(async {
        if world.entry(to).await.expect("readable").is_some() {
            world.remove(to).await.expect("removable");
        }
        let source = world.open(from, OpenMode::Read).await.expect("it is there");
        let target = world.open(to, OpenMode::CreateNew).await.expect("it can be made");
        target.keep_like(from);
        let pages = source.size().await.expect("it has a size") as usize / page_bytes;
        let (read, bufs) = source.read_at(0, (0..pages).map(|_| PageBuf::empty(page_bytes)).collect()).await;
        read.expect("it is readable");
        let (written, _) = target.write_at(0, bufs).await;
        written.expect("writable");
        target.sync().await.expect("it can be synced");
    });
}

/// The log stream records which databases it closed last, and when.
#[test]
fn a_closed_database_that_was_replaced_is_refused_by_name() {
    let other = &deployment().instances[1].databases[0];
    let other = database_path(&other.dir, &other.name);
    for by_own_copy in [true, false] {
        let simulation = initialised(27);
        let path = first_database();
        copy(&simulation, &path, "/v1/as-made.edb");
        assert_eq!(failed_rules(&simulation, TestKind::Performance).0, [""; 0]);
        assert_eq!(failed_rules(&simulation, TestKind::DatabaseChecksum).0, [""; 0]);
        copy(&simulation, if by_own_copy { "/v1/as-made.edb" } else { &other }, &path);
        for kind in [TestKind::DatabaseChecksum, TestKind::Performance] {
            let (rules, error) = failed_rules(&simulation, kind);
            assert!(rules == ["database_as_left"] && error.contains(&path), "{kind:?}: {rules:?}: {error}");
        }
    }
}

/// Barrier whose last meeting before the checksum test lets the disk return an older version of a file's pages.
struct OldPagesReturn {
    world: World,
    path: String,
    /// Number of barriers that this host has reached. The barrier number `last` comes before the checksum test.
    places: Cell<u32>,
    last: u32,
    old: Rc<RefCell<Vec<Vec<u8>>>>,
    /// Number of pages whose older version came back.
    returned: Rc<Cell<u64>>,
}

impl Barrier for OldPagesReturn {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let (world, path, old) = (self.world.clone(), self.path.clone(), self.old.clone());
        let (place, last, returned) = (self.places.get(), self.last, self.returned.clone());
        self.places.set(place + 1);
        Box::pin(async move {
            if place != 0 && place != last {
                return;
            }
            let page_bytes = deployment().instances[0].page_bytes as usize;
            let file = world.open(&path, OpenMode::ReadWrite).await.expect("it is there");
            let pages = file.size().await.expect("it has a size") as usize / page_bytes;
            let (read, bufs) =
                file.read_at(0, (0..pages).map(|_| PageBuf::empty(page_bytes)).collect()).await;
            read.expect("it is readable");
            if place == 0 {
                *old.borrow_mut() = bufs.iter().map(|page| page.as_slice().to_vec()).collect();
                return;
            }
            let is_leaf = |page: &[u8]| !edb::is_zero(page) && page[36] == 2;
            let old = old.borrow().clone();
            for (index, (old, new)) in old.iter().zip(&bufs).enumerate().skip(2) {
                if is_leaf(old) && old != new.as_slice() {
                    let (written, _) =
                        file.write_at((index * page_bytes) as u64, smallvec![PageBuf::copy_of(old)]).await;
                    written.expect("writable");
                    returned.set(returned.get() + 1);
                }
            }
            file.sync().await.expect("it can be synced");
        })
    }
}

/// Exchanges two sectors of a leaf page and writes a valid checksum, as if their parities were equal. Returns the
/// page number.
fn exchange_sectors(simulation: &Simulation) -> u32 {
    let (world, page_bytes) = (simulation.host("a"), deployment().instances[0].page_bytes as usize);
    simulation.run_until(async {
        let file = world.open(&first_database(), OpenMode::ReadWrite).await.expect("it is there");
        let pages = file.size().await.expect("it has a size") as usize / page_bytes;
        // The first pages hold the catalog, which has no payloads.
        for index in 64..pages {
            let at = (index * page_bytes) as u64;
            let (read, mut bufs) = file.read_at(at, smallvec![PageBuf::empty(page_bytes)]).await;
            read.expect("readable");
            let page = bufs[0].as_mut_slice();
            if edb::is_zero(page) {
                continue;
            }
            let before = page.to_vec();
            let (one, other) = page.split_at_mut(2 * 512);
            one[512..].swap_with_slice(&mut other[..512]);
            edb::checksum::stamp(page, index as u32 - 1);
            let changed = edb::page::PageRef::new(page);
            if changed.is_leaf() && changed.validate().is_ok() && page != &before[..] {
                let (written, _) = file.write_at(at, smallvec![PageBuf::copy_of(page)]).await;
                written.expect("writable");
                file.sync().await.expect("it can be synced");
                return index as u32 - 1;
            }
        }
        panic!("no leaf stands it");
    })
}

/// The checksum and the structure of the page are right; only a comparison with the written contents finds the
/// exchange.
#[test]
fn a_checksum_finds_sectors_of_a_page_that_changed_places() {
    let simulation = initialised(29);
    assert_eq!(failed_rules(&simulation, TestKind::DatabaseChecksum).0, [""; 0]);
    let page = exchange_sectors(&simulation);
    let tests = vec![specs(|kind| kind == TestKind::DatabaseChecksum).remove(0)];
    let (outcome, rows) = run_specs(&simulation, 29, &tests, &mut Silent, &Alone);
    assert_eq!(failures(&outcome).len(), 1, "{:?}", failures(&outcome));
    let named =
        |row: &Row| matches!(row, Row::Event(event) if event.text.contains(&format!("page {page}: ")));
    assert!(rows.iter().any(named), "page {page} is named");
}

/// The page checksum accepts an older version of a page; the flush map does not.
#[test]
fn the_checksum_of_a_run_finds_pages_that_lost_the_writes_of_its_load() {
    let run = |last| {
        let simulation = initialised(28);
        let barrier = OldPagesReturn {
            world: simulation.host("a"),
            path: first_database(),
            places: Cell::new(0),
            last,
            old: Rc::default(),
            returned: Rc::default(),
        };
        let of = |kind| specs(|other| other == kind).remove(0);
        let tests = [TestKind::Performance, TestKind::DatabaseChecksum].map(of);
        let (outcome, rows) = run_specs(&simulation, 28, &tests, &mut Silent, &barrier);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let bad = rows.iter().map(|row| if let Row::Checksum(row) = row { row.read.bad_pages } else { 0 });
        (bad.sum::<u64>(), barrier.returned.get(), barrier.places.get())
    };
    let (bad, _, places) = run(u32::MAX);
    assert_eq!(bad, 0, "nothing is wrong with what the load left");
    let (bad, returned, _) = run(places - 1);
    assert!(returned > 10 && bad == returned, "{bad} of {returned}");
}
