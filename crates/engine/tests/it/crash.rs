//! Power cuts and ends of the process alone, at any operation, also during recovery, in any order; on disks
//! that are honest and on disks that lie.
//!
//! Honest: what is there afterwards is a prefix of the commits, and contains every commit that was acknowledged
//! as durable. Lying: commits may be lost; no wrong row is returned but those that docs/faults.md says no check
//! notices. PROOFLOAD_SEEDS sets the number of seeds (500), PROOFLOAD_SEED runs one alone. A failure prints the
//! line that repeats it.
#![allow(clippy::print_stdout, reason = "tests say what they have counted")]

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use crate::common;
use crate::common::lying::{Lies, judge_a_torn_row, run_lying_seed};
use crate::common::model::{DATABASES, Model, Random, Shape, TREES, all_rows, load};
use crate::common::seed::{
    Totals, create_small, new_simulation, run_seed, run_seeds, shape_of, with_meta_cache,
};
use crate::common::snapshot::Snapshot;
use crate::common::{REDO, check_structure, create, shared, tree_number};
use engine::{BranchCounts, Durability, Error, Instance, InstanceConfig, RecoveryBranch, Redo};
use world::sim::{CrashPoint, Death, FaultKind, Faults, OpKind, Outcome, PowerCut, Simulation};

const HONEST_FAULTS: [FaultKind; 15] = [
    FaultKind::ReadError,
    FaultKind::WriteError,
    FaultKind::SyncError,
    FaultKind::NameError,
    FaultKind::NoSpace,
    FaultKind::ShortRead,
    FaultKind::ShortWrite,
    FaultKind::ProcessEnded,
    FaultKind::PowerCut,
    FaultKind::LostAtPowerCut,
    FaultKind::KeptAtPowerCut,
    FaultKind::TornWrite,
    FaultKind::LostSize,
    FaultKind::LostName,
    FaultKind::StaleBlock,
];

/// Ways that have tests of their own: damaged first copies below, an older copy of a database in tests/jobs.rs,
/// extension shortly before a power cut in tests/power_cuts.rs of `workload`.
const ELSEWHERE: [RecoveryBranch; 4] = [
    RecoveryBranch::SecondCheckpoint,
    RecoveryBranch::ShadowHeader,
    RecoveryBranch::FileLengthened,
    RecoveryBranch::NewSpaceCleared,
];

fn honest_seeds(from: u64) {
    let mut totals = Totals::default();
    let is_complete = run_seeds("crash", from, 2, |seed| run_seed(seed, &mut totals));
    let Totals { seeds, transactions, crashes, crashes_in_recovery, rolls, splits, pages_merged, .. } =
        totals;
    println!(
        "{seeds} seeds: {transactions} transactions, {rolls} log rolls, {splits} splits, {pages_merged} pages merged, \
         {crashes} power cuts, {crashes_in_recovery} in recovery, {} openings failed, {} operations failed, {} reads from MetaCaches; {:?}; {:?}",
        totals.failed_openings, totals.failed_operations, totals.cache_reads, totals.faults, totals.branches
    );
    if is_complete {
        // A tear that a segment's checksum passes needs regular data, which the even seeds have.
        let cuts_by_record = from.is_multiple_of(2);
        let is_due = |branch: &RecoveryBranch| {
            !ELSEWHERE.contains(branch) && (cuts_by_record || *branch != RecoveryBranch::TailCutByRecord)
        };
        let branches: Vec<_> = RecoveryBranch::ALL.into_iter().filter(is_due).collect();
        let missing = totals.missing(&HONEST_FAULTS, &branches);
        assert!(missing.is_empty(), "never came: {missing:?}");
        assert!(totals.cache_reads > 1000, "{} reads from MetaCaches", totals.cache_reads);
        assert!(totals.failed_openings > 0 && totals.failed_operations > 0);
    }
}

#[test]
fn every_recovered_state_is_a_prefix_with_all_durable_commits_odd_seeds() {
    honest_seeds(1);
}

#[test]
fn every_recovered_state_is_a_prefix_with_all_durable_commits_even_seeds() {
    honest_seeds(2);
}

#[test]
fn a_lying_disk_gives_no_wrong_row_that_is_not_accounted_for() {
    let (mut totals, mut lies) = (Totals::default(), Lies::default());
    let is_complete = run_seeds("crash", 1, 1, |seed| run_lying_seed(seed, &mut totals, &mut lies));
    println!("{lies:?}; {:?}; {:?}", totals.faults, totals.branches);
    if is_complete {
        use FaultKind::*;
        let missing = totals.missing(&[DroppedSync, LostWrite, MisdirectedWrite, BitRot], &[]);
        assert!(missing.is_empty(), "never came: {missing:?}");
        let Lies { noticed, harmless, commits_lost, log_lies_seen_through, wrong_rows: _, torn_rows: _ } =
            lies;
        let least = noticed.min(harmless).min(commits_lost).min(log_lies_seen_through);
        assert!(least > 0, "{lies:?}");
    }
}

/// Seeds tear a row unseen by luck only, so this one is torn by hand.
#[test]
fn a_row_that_was_torn_unseen_is_accounted_for_by_a_dropped_sync_of_its_own_database_only() {
    let [own, other, irregular] = judge_a_torn_row(2).unwrap();
    assert_eq!(own, (Ok(()), 1));
    for (verdict, torn_rows) in [other, irregular] {
        let refused = verdict.unwrap_err();
        assert!(refused.contains("bytes that nobody wrote") && torn_rows == 0, "{refused}");
    }
}

/// Files of an instance that lost power under load, and its configuration.
fn crashed(seed: u64) -> (Snapshot, InstanceConfig) {
    let (sim, world) = new_simulation(seed);
    let mut random = Random::new(seed);
    let shape = shape_of(seed, &mut random);
    let config = with_meta_cache(seed, create_small(&sim, &world, &mut random));
    let model = shared(Model::new(3, 400));
    let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
    sim.run_until(load(&world, Rc::new(instance), &model, shape, seed));
    (Snapshot::take(&sim), config)
}

/// Opens the files and reads every row.
fn recover(files: &Snapshot, config: &InstanceConfig) -> (Simulation, common::model::Rows, BranchCounts) {
    let (sim, world) = files.restore();
    sim.set_faults(Faults::default());
    let (instance, report) = sim.run_until(Instance::open(&world, config)).unwrap();
    let rows = sim.run_until(all_rows(&instance)).unwrap();
    (sim, rows, report.branches)
}

#[test]
fn redo_by_page_finds_the_rows_that_redo_in_log_order_finds_and_repeats_its_trace() {
    let (files, config) = crashed(3);
    let (in_order, expected, _) = recover(&files, &config);
    let config = InstanceConfig { redo: Redo::ByPage, ..config };
    let [(sim, rows, _), (again, ..)] = [recover(&files, &config), recover(&files, &config)];
    assert!(rows == expected && !rows.is_empty());
    assert_eq!(sim.trace_hash(), again.trace_hash());
    assert_ne!(sim.trace_hash(), in_order.trace_hash(), "both ways do the same I/O");
}

/// Fails each operation of the recovery of these files once, and cuts the power at each once. Returns their number,
/// and the branches that were seen.
fn fail_everywhere(files: &Snapshot, config: &InstanceConfig) -> (u64, BranchCounts) {
    let (sim, world) = files.restore();
    sim.set_faults(Faults::default());
    sim.run_until(Instance::open(&world, config)).map(drop).unwrap();
    let operations = sim.operations();
    let (_, expected, branches) = recover(files, config);
    assert!(!expected.is_empty());

    let crashes = (1..=operations.total()).flat_map(|nth| {
        [CrashPoint::Before, CrashPoint::After]
            .map(|point| Faults { crash_at_nth: Some((nth, point)), ..Faults::default() })
    });
    let failures = OpKind::ALL.into_iter().flat_map(|kind| {
        (1..=operations.of(kind)).map(move |nth| Faults { fail_nth: Some((kind, nth)), ..Faults::default() })
    });
    let mut delivered = 0;
    for faults in crashes.chain(failures) {
        let (sim, world) = files.restore();
        sim.set_faults(faults.clone());
        let outcome = sim.run_until_crash_or(Instance::open(&world, config));
        assert!(!matches!(outcome, Outcome::Stuck { .. }), "{faults:?}");
        if faults.crash_at_nth.is_some() {
            assert!(matches!(outcome, Outcome::Crashed { .. }), "{faults:?}");
        }
        delivered += u64::from(!matches!(outcome, Outcome::Done(Ok(_))));
        drop(outcome);
        let world = sim.restart("h");
        sim.set_faults(Faults::default());
        let (instance, _) = sim
            .run_until(Instance::open(&world, config))
            .unwrap_or_else(|error| panic!("after {faults:?} the next recovery fails: {error}"));
        let rows = sim.run_until(all_rows(&instance)).unwrap();
        assert!(rows == expected, "after {faults:?} the rows are others");
        sim.run_until(check_structure(&instance, DATABASES, TREES)).unwrap();
    }
    (delivered, branches)
}

/// Commits durable transactions until the log has rolled twice.
async fn roll_twice(instance: Instance) {
    for n in 0..u32::MAX {
        if instance.log_rolls() == 2 {
            break;
        }
        let mut transaction = instance.begin();
        let data = [n as u8; 1500];
        let key = (n % 40).to_be_bytes();
        let done = match transaction.insert(1, tree_number(0), &key, &data).await {
            Err(Error::Duplicate) => transaction.replace(1, tree_number(0), &key, &data).await,
            done => done,
        };
        done.unwrap();
        transaction.commit(Durability::Durable).await.unwrap();
    }
}

/// The process ends at each operation, including between a write and its sync. The next process must make durable
/// what it finds before it builds on it, because a power cut then loses everything without a sync.
#[test]
fn what_a_recovery_finds_survives_a_power_cut_wherever_the_process_before_has_ended() {
    let lose_all = || Faults { power_cut: PowerCut::lose_all(), ..Faults::default() };
    let begun = || {
        let (sim, world) = new_simulation(1);
        let config = sim.run_until(create(&world, DATABASES.into(), TREES));
        let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
        sim.set_faults(lose_all());
        (sim, config, instance)
    };
    let (sim, _, instance) = begun();
    sim.run_until(roll_twice(instance));
    let operations = sim.operations().total();
    for nth in 1..=operations {
        let (sim, config, instance) = begun();
        let config = InstanceConfig { redo: REDO[(nth % 2) as usize], ..config };
        let crash_at_nth = Some((nth, CrashPoint::Before));
        sim.set_faults(Faults { crash_at_nth, crash_ends: Death::Process, ..lose_all() });
        assert!(matches!(sim.run_until_crash_or(roll_twice(instance)), Outcome::Crashed { .. }), "at {nth}");
        let mut found = Vec::new();
        for key in [b"after the process", b"after the power  "] {
            let world = sim.restart("h");
            sim.set_faults(lose_all());
            let rows = sim.run_until(async {
                let (instance, _) = Instance::open(&world, &config).await?;
                let rows = all_rows(&instance).await?;
                check_structure(&instance, DATABASES, TREES).await?;
                let mut transaction = instance.begin();
                transaction.insert(1, tree_number(1), key, b"durable").await?;
                transaction.commit(Durability::Durable).await?;
                Ok::<_, Error>(rows)
            });
            found.push(rows.unwrap_or_else(|error| panic!("the process ended at {nth}: {error}")));
        }
        let mut expected = found[0].clone();
        expected.insert((1, 1, b"after the process".to_vec()), b"durable".to_vec());
        assert!(
            found[1] == expected,
            "the process ended at {nth} of {operations}: rows that were found are gone"
        );
    }
}

#[test]
fn recovery_survives_the_failure_of_any_of_its_operations() {
    for (seed, redo) in [(3, REDO[0]), (4, REDO[0]), (3, REDO[1]), (4, REDO[1])] {
        let (files, config) = crashed(seed);
        let (delivered, branches) = fail_everywhere(&files, &InstanceConfig { redo, ..config });
        assert!(delivered > 200, "{delivered} failures were delivered");
        assert!(branches.of(RecoveryBranch::VerifiedPageFromImage) > 0, "{branches:?}");
        println!("seed {seed}, {redo:?}: {delivered} failures and crashes in recovery; {branches:?}");
    }
}

#[test]
fn recovery_of_a_roll_that_was_cut_off_survives_the_failure_of_any_of_its_operations() {
    let (mut files, config) = crashed(5);
    files.take_roll_back("/log");
    let (delivered, branches) = fail_everywhere(&files, &config);
    assert!(delivered > 200 && branches.of(RecoveryBranch::RollUndone) == 1, "{delivered}, {branches:?}");
}

#[test]
fn a_roll_that_was_cut_off_is_taken_back_without_a_checkpoint() {
    let (whole, config) = crashed(5);
    let (_, expected, _) = recover(&whole, &config);
    let (mut files, config) = crashed(5);
    files.take_roll_back("/log");
    files.remove("/log/E00.chk");
    let (_, rows, branches) = recover(&files, &config);
    let gone = [RecoveryBranch::NoCheckpoint, RecoveryBranch::RollUndone];
    assert!(rows == expected && gone.iter().all(|branch| branches.of(*branch) == 1), "{branches:?}");
}

#[test]
fn damaged_first_copies_of_header_and_checkpoint_are_read_from_the_second() {
    let (whole, config) = crashed(3);
    let (_, expected, _) = recover(&whole, &config);
    for (path, branch) in
        [("/log/E00.chk", RecoveryBranch::SecondCheckpoint), ("/db/0.edb", RecoveryBranch::ShadowHeader)]
    {
        let (mut files, config) = crashed(3);
        files.damage(path, 100);
        let (_, rows, branches) = recover(&files, &config);
        assert!(rows == expected && branches.of(branch) == 1, "{path}: {branches:?}");
    }
}

#[test]
fn a_failed_write_or_sync_stops_the_instance_for_good() {
    for kind in [OpKind::Write, OpKind::Sync] {
        for nth in [1, 7, 40, 150] {
            let (sim, world) = new_simulation(nth);
            let config = sim.run_until(create(&world, DATABASES.into(), TREES));
            let model = shared(Model::new(2, 2000));
            let shape = Shape { keys: 400, most_data_bytes: 600, is_regular: false };
            let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
            let instance = Rc::new(instance);
            sim.set_faults(Faults { fail_nth: Some((kind, nth)), ..Faults::default() });
            sim.run_until(load(&world, instance.clone(), &model, shape, nth));
            assert!(matches!(instance.check(), Err(Error::Stopped(_))), "{kind:?} {nth}");
            let mut late = instance.begin();
            assert!(matches!(
                late.insert(1, tree_number(0), b"late", b"x").await_in(&sim),
                Err(Error::Stopped(_))
            ));
            drop((late, instance));
            recovers_to_a_prefix(&sim, &config, &model)
                .unwrap_or_else(|error| panic!("{kind:?} {nth}: {error}"));
        }
    }
}

fn recovers_to_a_prefix(
    sim: &Simulation,
    config: &InstanceConfig,
    model: &RefCell<Model>,
) -> Result<(), String> {
    let world = sim.restart("h");
    sim.set_faults(Faults::default());
    let (instance, _) = sim.run_until(Instance::open(&world, config)).map_err(|error| error.to_string())?;
    let rows = sim.run_until(all_rows(&instance)).map_err(|error| error.to_string())?;
    model.borrow_mut().rebase_on(&rows)
}

trait AwaitIn: Future + Sized {
    fn await_in(self, sim: &Simulation) -> Self::Output {
        sim.run_until(self)
    }
}
impl<F: Future> AwaitIn for F {}
