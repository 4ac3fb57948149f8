//! Tests that are run alone: on databases, backups and logs that an earlier run, or one that was broken off, has left.

mod programme;

use campaign::convoy::Alone;
use campaign::progress::{Progress, Watcher};
use campaign::{CampaignError, database_path};
use programme::{
    Silent, deployment, failures, initialised, run_deployment, run_specs, run_tests, simulation_of, specs,
};
use results::{Outcome, Row};
use smallvec::smallvec;
use solution::{LoadMode, TestKind, TestSpec};
use world::sim::Simulation;
use world::{Duration, OpenMode, PageBuf, Time};

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

/// Asks for the end when a phase is seen, and remembers when that was.
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

/// Redo reads and writes as the load does, before it.
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

/// Whoever asks for the end while a recovery goes on hears what it has found.
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
