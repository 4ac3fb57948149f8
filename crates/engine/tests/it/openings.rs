//! Each sync of an opening, aimed at alone. A process ends and leaves writes, sizes and names without a sync. The
//! next process reads them, builds on them, and then the power fails: it takes what is not synced.
//!
//! Each test fails when the one sync that it names is removed, and only then (docs/faults.md, "What happens without
//! each sync"). Only syncs make anything durable, so a process ends, or the power fails, before each of them.

use std::cell::Cell;

use crate::common::seed::new_simulation;
use crate::common::{check_structure, create, scan, tree_number};
use engine::{Durability, Instance, InstanceConfig, LogPosition, LogStore};
use world::World;
use world::sim::{Death, Faults, Outcome, PowerCut, Simulation};

/// Number of trees. Each tree has its own pages, so that each row is the first change of its page: no older record
/// could undo it.
const TREES: u32 = 6;
const ROW_OF_AN_OPEN_TRANSACTION: &[u8] = b"open";
const ROW_OF_A_COMMIT: &[u8] = b"durable";

fn lose_all() -> Faults {
    Faults { power_cut: PowerCut::lose_all(), ..Faults::default() }
}

fn ends_at_sync(nth: u64, crash_ends: Death, power_cut: PowerCut) -> Faults {
    Faults { crash_at_nth_sync: Some(nth), crash_ends, power_cut, ..Faults::default() }
}

/// Opens a new database once. Its directory entries and contents are durable.
fn begun(seed: u64) -> (Simulation, InstanceConfig, Instance) {
    let (sim, world) = new_simulation(seed);
    let config = sim.run_until(create(&world, 1, TREES));
    let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
    sim.set_faults(lose_all());
    (sim, config, instance)
}

/// Leaves one transaction open in each tree, and commits another durably; that commit takes the records of the open
/// one into the log.
async fn commit_beside_open_transactions(instance: Instance, acknowledged: &Cell<u32>) {
    let mut open = Vec::new();
    for tree in (0..TREES).map(tree_number) {
        let mut undecided = instance.begin();
        undecided.insert(1, tree, ROW_OF_AN_OPEN_TRANSACTION, &[7; 100]).await.unwrap();
        open.push(undecided);
        let mut transaction = instance.begin();
        transaction.insert(1, tree, ROW_OF_A_COMMIT, &[8; 100]).await.unwrap();
        transaction.commit(Durability::Durable).await.unwrap();
        acknowledged.set(acknowledged.get() + 1);
    }
}

async fn keys(instance: &Instance) -> engine::Result<Vec<(u32, Vec<u8>)>> {
    let reader = instance.begin();
    let mut keys = Vec::new();
    for number in 0..TREES {
        let rows = scan(&reader, 1, tree_number(number)).await?;
        keys.extend(rows.into_keys().map(|key| (number, key)));
    }
    Ok(keys)
}

async fn open_and_read(world: &World, config: &InstanceConfig) -> engine::Result<Vec<(u32, Vec<u8>)>> {
    let (instance, _) = Instance::open(world, config).await?;
    check_structure(&instance, 1, TREES).await?;
    keys(&instance).await
}

/// Ends the process before its sync number `ends_at`, then cuts the power before sync number `fails_at` of the next
/// recovery. Each result is false if there is no such sync.
fn recover_twice(ends_at: u64, fails_at: u64) -> (bool, bool) {
    let (sim, config, instance) = begun(1);
    sim.set_faults(ends_at_sync(ends_at, Death::Process, PowerCut::lose_all()));
    let acknowledged = Cell::new(0);
    let outcome = sim.run_until_crash_or(commit_beside_open_transactions(instance, &acknowledged));
    if !matches!(outcome, Outcome::Crashed { .. }) {
        return (false, false);
    }
    let world = sim.restart("h");
    sim.set_faults(ends_at_sync(fails_at, Death::Power, PowerCut::lose_all()));
    let outcome = sim.run_until_crash_or(Instance::open(&world, &config));
    let has_failed = matches!(outcome, Outcome::Crashed { .. });
    drop(outcome);
    let world = sim.restart("h");
    sim.set_faults(lose_all());
    let case = format!("the process ended before sync {ends_at}, the power failed before sync {fails_at}");
    let found =
        sim.run_until(open_and_read(&world, &config)).unwrap_or_else(|error| panic!("{case}: {error}"));
    let open: Vec<_> = found.iter().filter(|(_, key)| key == ROW_OF_AN_OPEN_TRANSACTION).collect();
    assert!(open.is_empty(), "{case}: rows of open transactions in the trees {open:?}");
    let committed = found.iter().filter(|(_, key)| key == ROW_OF_A_COMMIT).count();
    assert!(
        committed >= acknowledged.get() as usize,
        "{case}: {committed} of {acknowledged:?} commits are there"
    );
    (true, has_failed)
}

/// Protects the sync in `redo` (`recovery/mod.rs`). Without it, pages keep changes of an open transaction whose log
/// records the power cut takes.
#[test]
fn no_row_of_an_open_transaction_outlives_the_log_that_a_process_left_without_a_sync() {
    let mut power_cuts = 0;
    for ends_at in 1.. {
        let mut has_ended = true;
        for fails_at in 1.. {
            let has_failed;
            (has_ended, has_failed) = recover_twice(ends_at, fails_at);
            if !has_failed {
                break;
            }
            power_cuts += 1;
        }
        if !has_ended {
            assert!(ends_at > u64::from(TREES), "a commit was not synced");
            break;
        }
    }
    assert!(power_cuts > 50, "{power_cuts}");
}

/// Power cut that tears every write without a sync, in pieces smaller than the fields of a header.
fn tear_all() -> PowerCut {
    PowerCut { lost_write: 0.0, torn_write: 1.0, sector_bytes: 64, ..PowerCut::lose_all() }
}

/// Ends the process before sync number `ends_at` of its closing, then cuts the power before sync number `fails_at` of
/// the next opening. Each result is false if there is no such sync.
fn close_and_open(ends_at: u64, fails_at: u64, seed: u64) -> (bool, bool) {
    let (sim, config, instance) = begun(seed);
    sim.set_faults(ends_at_sync(ends_at, Death::Process, tear_all()));
    if !matches!(sim.run_until_crash_or(instance.close()), Outcome::Crashed { .. }) {
        return (false, false);
    }
    let world = sim.restart("h");
    sim.set_faults(ends_at_sync(fails_at, Death::Power, tear_all()));
    let has_failed =
        matches!(sim.run_until_crash_or(Instance::open(&world, &config)), Outcome::Crashed { .. });
    let world = sim.restart("h");
    sim.set_faults(lose_all());
    let opened = sim.run_until(Instance::open(&world, &config));
    if let Err(error) = opened {
        panic!(
            "the process ended before sync {ends_at}, the power failed before sync {fails_at}, seed {seed}: {error}"
        );
    }
    (true, has_failed)
}

/// Protects the sync in `open` (`database.rs`). Without it, the shadow header from one process and the header from
/// the next could be in flight together, and one power cut could tear both.
#[test]
fn a_header_and_the_shadow_of_the_process_before_are_never_torn_together() {
    let mut power_cuts = 0;
    for ends_at in 1.. {
        let mut has_ended = false;
        // The opening of a closed database writes its header with one of the first syncs.
        for (fails_at, seed) in (1..=12).flat_map(|fails_at| [1, 2, 3].map(|seed| (fails_at, seed))) {
            let has_failed;
            (has_ended, has_failed) = close_and_open(ends_at, fails_at, seed);
            power_cuts += u32::from(has_failed);
        }
        if !has_ended {
            break;
        }
    }
    assert!(power_cuts > 50, "{power_cuts}");
}

/// Commits until the log has rolled; returns where the log ended after each commit.
async fn roll_once(instance: &Instance) -> Vec<LogPosition> {
    let mut ends = Vec::new();
    for n in 0..u32::MAX {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[9; 100]).await.unwrap();
        transaction.commit(Durability::Durable).await.unwrap();
        ends.push(instance.durable_log());
        if ends.iter().filter(|end| end.generation() > 1).count() == 3 {
            break;
        }
    }
    ends
}

/// Brings the log in the store up to `until`.
async fn ship(instance: &Instance, store: &mut LogStore, until: LogPosition) {
    loop {
        let from = store.extent().map_or(LogPosition::new(1, 0, 0), |(_, end)| end);
        let Some(stretch) = instance.read_log(from, until).await.unwrap() else { return };
        store.store(&stretch).await.unwrap();
    }
}

/// Protects the sync in `open` (`log/store.rs`). The next process reports the log that it finds and appends to it.
#[test]
fn log_that_a_store_reports_after_its_process_has_ended_survives_a_power_cut() {
    let (sim, config, instance) = begun(1);
    let hold = instance.hold_log(1);
    let ends = sim.run_until(roll_once(&instance));
    for nth in 1.. {
        let host = format!("copy {nth}");
        let world = sim.host(&host);
        sim.volume(&host, "/log", 1 << 30);
        let acknowledged = Cell::new(LogPosition::default());
        let shipped = async {
            let mut store = LogStore::open(&world, &config).await.unwrap();
            for end in &ends {
                ship(&instance, &mut store, *end).await;
                acknowledged.set(*end);
            }
        };
        sim.set_faults(ends_at_sync(nth, Death::Process, PowerCut::lose_all()));
        if !matches!(sim.run_until_crash_or(shipped), Outcome::Crashed { .. }) {
            assert!(nth > ends.len() as u64, "a stretch was not synced");
            break;
        }
        let mut found = Vec::new();
        for _ in 0..2 {
            let world = sim.restart(&host);
            sim.set_faults(lose_all());
            let store = sim.run_until(LogStore::open(&world, &config));
            let store = store.unwrap_or_else(|error| panic!("the process ended before sync {nth}: {error}"));
            found.push(store.extent().map_or(LogPosition::default(), |(_, end)| end));
            sim.crash(&host);
        }
        assert!(
            found[0] >= acknowledged.get(),
            "the process ended before sync {nth}: {found:?} of {acknowledged:?}"
        );
        assert!(
            found[1] >= found[0],
            "the process ended before sync {nth}, the power failed later: {found:?}"
        );
    }
    drop(hold);
}
