//! What an instance promises while nothing goes wrong.

use crate::common;
use crate::common::dropping::{self, with_rows};
use crate::common::{REDO, check_structure, create, scan, tree_number};
use engine::{Counters, Durability, Error, Instance, InstanceConfig};
use results::{Direction, IoClass};
use world::sim::{FaultKind, Faults, OpKind, PowerCut, SimConfig, Simulation};
use world::{Duration, IoTotals};

fn simulation() -> (Simulation, world::World) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

#[test]
fn committed_rows_are_there_after_close_and_open() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 2, 2).await;
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(report.logs_replayed, 0);
        for n in 0..500u32 {
            let mut transaction = instance.begin();
            let data = vec![n as u8; 100 + (n as usize * 7) % 300];
            transaction.insert(1 + (n % 2) as u8, tree_number(n % 2), &n.to_be_bytes(), &data).await.unwrap();
            let durability = if n % 10 == 0 { Durability::Durable } else { Durability::Lazy };
            transaction.commit(durability).await.unwrap();
        }
        check_structure(&instance, 2, 2).await.unwrap();
        assert!(instance.log_rolls() >= 1);
        instance.close().await.unwrap();

        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(report.logs_replayed, 0, "a closed instance needs no log");
        let reader = instance.begin();
        let rows = scan(&reader, 1, tree_number(0)).await.unwrap();
        assert_eq!(rows.len(), 250);
        assert_eq!(reader.get(2, tree_number(1), &7u32.to_be_bytes()).await.unwrap(), Some(vec![7; 149]));
        instance.close().await.unwrap();
    });
}

#[test]
fn the_first_writer_wins_and_readers_see_committed_rows() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let tree = tree_number(0);
        let mut first = instance.begin();
        first.insert(1, tree, b"a", b"old").await.unwrap();
        first.commit(Durability::Lazy).await.unwrap();

        let (mut writer, mut other) = (instance.begin(), instance.begin());
        writer.replace(1, tree, b"a", b"new").await.unwrap();
        writer.insert(1, tree, b"b", b"1").await.unwrap();
        assert_eq!(other.get(1, tree, b"a").await.unwrap(), Some(b"old".to_vec()));
        assert_eq!(other.get(1, tree, b"b").await.unwrap(), None);
        assert_eq!(writer.get(1, tree, b"a").await.unwrap(), Some(b"new".to_vec()));
        assert!(matches!(other.replace(1, tree, b"a", b"x").await, Err(Error::Conflict)));
        assert!(matches!(other.insert(1, tree, b"b", b"x").await, Err(Error::Conflict)));
        writer.rollback().await.unwrap();
        assert_eq!(other.get(1, tree, b"a").await.unwrap(), Some(b"old".to_vec()));
        other.insert(1, tree, b"b", b"2").await.unwrap();
        other.delete(1, tree, b"a").await.unwrap();
        let reader = instance.begin();
        assert_eq!(reader.get(1, tree, b"a").await.unwrap(), Some(b"old".to_vec()));
        other.insert(1, tree, b"a", b"brought back").await.unwrap();
        assert_eq!(reader.get(1, tree, b"a").await.unwrap(), Some(b"old".to_vec()));
        other.delete(1, tree, b"a").await.unwrap();
        other.commit(Durability::Durable).await.unwrap();
        assert_eq!(reader.get(1, tree, b"a").await.unwrap(), None);
        assert_eq!(reader.get(1, tree, b"b").await.unwrap(), Some(b"2".to_vec()));
        instance.close().await.unwrap();
    });
}

#[test]
fn a_row_deleted_and_brought_back_is_free_after_the_rollback() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let tree = tree_number(0);
        let mut first = instance.begin();
        first.insert(1, tree, b"a", b"old").await.unwrap();
        first.commit(Durability::Lazy).await.unwrap();

        let mut undecided = instance.begin();
        undecided.delete(1, tree, b"a").await.unwrap();
        undecided.insert(1, tree, b"a", b"brought back").await.unwrap();
        undecided.rollback().await.unwrap();

        let mut next = instance.begin();
        assert_eq!(next.get(1, tree, b"a").await.unwrap(), Some(b"old".to_vec()));
        next.replace(1, tree, b"a", b"new").await.unwrap();
        next.commit(Durability::Lazy).await.unwrap();
        assert_eq!(instance.begin().get(1, tree, b"a").await.unwrap(), Some(b"new".to_vec()));
        instance.close().await.unwrap();
    });
}

#[test]
fn an_abandoned_instance_recovers_what_was_committed() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let tree = tree_number(0);
        for n in 0..300u32 {
            let mut transaction = instance.begin();
            transaction.insert(1, tree, &n.to_be_bytes(), &[1; 200]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        let mut last = instance.begin();
        last.insert(1, tree, b"open", b"x").await.unwrap();
        let mut durable = instance.begin();
        durable.insert(1, tree, b"durable", b"x").await.unwrap();
        durable.commit(Durability::Durable).await.unwrap();
        instance.abandon().await;

        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.logs_replayed >= 1 && report.transactions_rolled_back == 1, "{report:?}");
        let rows = scan(&instance.begin(), 1, tree).await.unwrap();
        assert_eq!(rows.len(), 301);
        assert!(!rows.contains_key(&b"open"[..]));
        check_structure(&instance, 1, 1).await.unwrap();
        instance.close().await.unwrap();
    });
}

/// Most pages that redo makes again were written before the crash: they are read and not written.
#[test]
fn recovery_does_not_write_what_the_file_holds() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        // Pages are written when they leave memory.
        let config = engine::InstanceConfig { checkpoint_depth_bytes: 1 << 30, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let tree = tree_number(0);
        for n in 0..8000u32 {
            let mut transaction = instance.begin();
            transaction.insert(1, tree, &n.to_be_bytes(), &[1; 200]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        instance.close().await.unwrap();

        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        for n in (0..8000u32).step_by(10) {
            let mut transaction = instance.begin();
            transaction.replace(1, tree, &n.to_be_bytes(), &[2; 200]).await.unwrap();
            transaction.commit(Durability::Durable).await.unwrap();
        }
        instance.database_counters(1).unwrap().take();
        instance.abandon().await;

        let config =
            engine::InstanceConfig { cache_bytes_per_database: 4096 * common::PAGE_BYTES as u64, ..config };
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.changes_applied > 300, "{report:?}");
        let io = instance.database_counters(1).unwrap().take().io;
        let pages = |class| io.class(class).totals.bytes / common::PAGE_BYTES as u64;
        let (read, written) =
            (pages(results::IoClass::TransactionalRead), pages(results::IoClass::TransactionalWrite));
        assert!(read > 200, "every changed page is read: {read}");
        assert!(written < 100, "no more is written than memory held: {written} of {read}");
        let rows = scan(&instance.begin(), 1, tree).await.unwrap();
        let changed = rows.values().filter(|data| data[0] == 2).count();
        assert_eq!((rows.len(), changed), (8000, 800));
        instance.close().await.unwrap();
    });
}

/// A page that leaves memory while redo goes on has changes behind it for which the log has no other image:
/// they go on what was written.
#[test]
fn recovery_goes_on_with_pages_that_have_left_its_memory() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let small = create(&world, 1, 1).await;
        let large = engine::InstanceConfig {
            cache_bytes_per_database: 4096 * common::PAGE_BYTES as u64,
            checkpoint_depth_bytes: 1 << 30,
            circular_logging: false,
            ..small.clone()
        };
        let (instance, _) = Instance::open(&world, &large).await.unwrap();
        let tree = tree_number(0);
        for n in 0..4000u32 {
            let mut transaction = instance.begin();
            transaction.insert(1, tree, &n.to_be_bytes(), &[1; 200]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        instance.close().await.unwrap();

        let (instance, _) = Instance::open(&world, &large).await.unwrap();
        for round in 2..5 {
            for n in (0..4000u32).step_by(10) {
                let mut transaction = instance.begin();
                transaction.replace(1, tree, &n.to_be_bytes(), &[round; 200]).await.unwrap();
                transaction.commit(Durability::Durable).await.unwrap();
            }
        }
        instance.abandon().await;

        let (instance, report) = Instance::open(&world, &small).await.unwrap();
        assert!(report.changes_applied > 1000, "{report:?}");
        let rows = scan(&instance.begin(), 1, tree).await.unwrap();
        let changed = rows.values().filter(|data| data[0] == 4).count();
        assert_eq!((rows.len(), changed), (4000, 400));
        instance.close().await.unwrap();
    });
}

/// The log says which deleted entries had been removed: no search looks for them again.
#[test]
fn after_a_crash_nothing_is_cleaned_up_twice() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        // So that redo begins before everything.
        let config = engine::InstanceConfig { checkpoint_depth_bytes: 1 << 30, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let tree = tree_number(0);
        let rows: Vec<_> = (0..300u32).map(u32::to_be_bytes).collect();
        for key in &rows {
            let mut transaction = instance.begin();
            transaction.insert(1, tree, key, &[1; 200]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        for key in &rows[..200] {
            let mut transaction = instance.begin();
            transaction.delete(1, tree, key).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        while instance.cleanups_waiting() > 0 {
            world.sleep(world::Duration::from_secs(1)).await;
        }
        let rolls = instance.log_rolls();
        while instance.log_rolls() == rolls {
            let mut transaction = instance.begin();
            transaction.replace(1, tree, &rows[250], &[2; 200]).await.unwrap();
            transaction.commit(Durability::Durable).await.unwrap();
        }
        let mut last = instance.begin();
        last.delete(1, tree, &rows[299]).await.unwrap();
        last.commit(Durability::Durable).await.unwrap();
        instance.abandon().await;

        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.changes_applied > 500, "all of it is replayed: {report:?}");
        assert_eq!(instance.cleanups_waiting(), 1, "what was deleted last");
        assert_eq!(scan(&instance.begin(), 1, tree).await.unwrap().len(), 99);
        check_structure(&instance, 1, 1).await.unwrap();
        instance.close().await.unwrap();
    });
}

/// Redo does not write what the file holds, and a process that stopped may not have synced that.
#[test]
fn what_redo_finds_in_the_file_is_durable_before_the_checkpoint_passes_it() {
    let (sim, world) = simulation();
    // The name of the checkpoint file is not durable before the log rolls.
    let no_write_survives =
        PowerCut { lost_write: 1.0, torn_write: 0.0, lost_name: 0.0, ..PowerCut::default() };
    sim.set_faults(Faults { power_cut: no_write_survives, ..Faults::default() });
    let tree = tree_number(0);
    let config = sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let config = engine::InstanceConfig { checkpoint_depth_bytes: 0, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        // Few enough for one page: one that is split off is always written.
        for n in 0..8u32 {
            let mut transaction = instance.begin();
            transaction.insert(1, tree, &n.to_be_bytes(), &[1; 200]).await.unwrap();
            transaction.commit(Durability::Durable).await.unwrap();
        }
        // The pages are written about once a second, and synced a second later.
        while instance.cache_status().dirty_pages > 0 {
            world.sleep(Duration::from_millis(1)).await;
        }
        world.sleep(Duration::from_millis(5)).await;
        instance.database_counters(1).unwrap().take();
        instance.abandon().await;

        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        let io = instance.database_counters(1).unwrap().take().io;
        let written = io.class(results::IoClass::TransactionalWrite).totals.count;
        assert!(report.logs_replayed > 0 && written == 0, "{written} pages were not in the file");
        // The checkpoint moves; nothing is written that a sync would have to follow.
        world.sleep(Duration::from_secs(3)).await;
        config
    });
    sim.crash("h");
    let world = sim.restart("h");
    sim.run_until(async {
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(report.changes_applied, 0, "the checkpoint has not passed the changes");
        assert_eq!(scan(&instance.begin(), 1, tree).await.unwrap().len(), 8);
    });
}

#[test]
fn measured_io_is_issued_io() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 2, 1).await;
        let before = world.io_totals();
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let mut counters: Vec<_> = (1..=2).map(|db| instance.database_counters(db).unwrap()).collect();
        counters.push(instance.log_counters());
        for n in 0..800u32 {
            let mut transaction = instance.begin();
            transaction.insert(1 + (n % 2) as u8, tree_number(0), &n.to_be_bytes(), &[3; 400]).await.unwrap();
            let durability = if n % 3 == 0 { Durability::Durable } else { Durability::Lazy };
            transaction.commit(durability).await.unwrap();
        }
        instance.close().await.unwrap();
        let after = world.io_totals();
        assert_eq!(counted(counters), issued(before, after));
    });
}

#[test]
fn an_opening_counts_what_redo_reads_and_writes_and_leaves_no_page_to_be_written() {
    for redo in REDO {
        let (sim, world) = dropping::simulation();
        sim.run_until(async {
            let (config, instance) = with_rows(&world, 300).await;
            instance.abandon().await;
            let counters = || [config.log_counters.clone(), config.databases[0].counters.clone()].into_iter();
            counters().for_each(|counters| drop(counters.take()));
            let before = world.io_totals();
            let config = InstanceConfig { redo, ..config.clone() };
            let (instance, report) = Instance::open(&world, &config).await.unwrap();
            assert!(report.changes_applied > 20 && report.logs_replayed > 1, "{report:?}");
            let opened = counted(counters());
            assert_eq!(opened, issued(before, world.io_totals()), "{redo:?}");
            world.sleep(Duration::from_secs(3)).await;
            let later = counters().map(|counters| counters.take().io);
            let pages: u64 = later.map(|io| io.class(IoClass::TransactionalWrite).totals.count).sum();
            assert_eq!(pages, 0, "{redo:?}: pages are written behind the opening");
            drop(instance);
        });
    }
}

#[test]
fn an_opening_fails_with_any_write_of_its_redo() {
    for redo in REDO {
        let mut failed = 0;
        for nth in 1..u64::MAX {
            let (sim, world) = dropping::simulation();
            let config = sim.run_until(async {
                let (config, instance) = with_rows(&world, 300).await;
                instance.abandon().await;
                InstanceConfig { redo, ..config }
            });
            sim.set_faults(Faults { fail_nth: Some((OpKind::Write, nth)), ..Faults::default() });
            let opened = sim.run_until(Instance::open(&world, &config));
            if sim.fault_counts().of(FaultKind::WriteError) == 0 {
                break;
            }
            assert!(opened.is_err(), "{redo:?}: write {nth} has failed, and the instance is open");
            failed += 1;
        }
        assert!(failed > 4, "{redo:?}: {failed}");
    }
}

/// Sum of the counts since the counters were last read.
fn counted(counters: impl IntoIterator<Item = Counters>) -> IoTotals {
    let mut sum = IoTotals::default();
    for counters in counters {
        let taken = counters.take();
        sum.syncs += taken.syncs.totals.count;
        for class in IoClass::ALL {
            let totals = taken.io.class(class).totals;
            let (count, bytes) = match class.direction() {
                Direction::Read => (&mut sum.reads, &mut sum.read_bytes),
                Direction::Write => (&mut sum.writes, &mut sum.write_bytes),
            };
            (*count, *bytes) = (*count + totals.count, *bytes + totals.bytes);
        }
    }
    sum
}

/// I/O of the world between two readings of its own counters.
fn issued(before: IoTotals, after: IoTotals) -> IoTotals {
    IoTotals {
        reads: after.reads - before.reads,
        read_bytes: after.read_bytes - before.read_bytes,
        writes: after.writes - before.writes,
        write_bytes: after.write_bytes - before.write_bytes,
        syncs: after.syncs - before.syncs,
    }
}
