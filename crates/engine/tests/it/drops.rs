#![allow(clippy::print_stdout, reason = "says how often each operation was dropped")]
//! Futures of the public interface are dropped at each of their await points. No lock, task or file stays
//! behind, and the next operation works.

use crate::common::dropping::{ROWS, at_every_await, judge, simulation, with_rows};
use crate::common::letting_go::{Tasks, let_go_of};
use crate::common::operations::Operation;
use crate::common::stage::{Ground, Grounds};
use crate::common::{REDO, polled, scan, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig, Redo};
use world::Duration;
use world::sim::{Faults, OpKind};

/// More than memory holds.
const MANY: u32 = 2000;

#[test]
fn a_rollback_that_is_dropped_goes_on_and_keeps_no_row() {
    let mut drops = 0;
    // Pages that leave memory in between have to be read again, which takes awaits.
    for rows in [1, ROWS] {
        drops += at_every_await(|times| {
            let (sim, world) = simulation();
            sim.run_until(async {
                let (config, instance) = with_rows(&world, ROWS).await;
                instance.close().await.unwrap();
                let config = InstanceConfig { cache_bytes_per_database: 4 * 4096, ..config };
                let (instance, _) = Instance::open(&world, &config).await.unwrap();
                let mut undecided = instance.begin();
                for n in 0..rows {
                    undecided.replace(1, tree_number(0), &n.to_be_bytes(), &[3; 200]).await.unwrap();
                }
                let ended = polled(times, undecided.rollback()).await.is_some();
                world.sleep(Duration::from_secs(2)).await;
                judge(instance).await;
                ended
            })
        });
    }
    assert!(drops > 4, "{drops}");
}

#[test]
fn an_opening_that_is_dropped_leaves_no_task_and_the_next_one_recovers() {
    for redo in REDO {
        let drops = at_every_await(|times| {
            let (sim, world) = simulation();
            let config = sim.run_until(async {
                let (config, instance) = with_rows(&world, ROWS).await;
                instance.abandon().await;
                InstanceConfig { redo, ..config }
            });
            let idle = sim.task_count();
            let ended = sim.run_until(polled(times, Instance::open(&world, &config))).is_some();
            sim.run_until(world.sleep(Duration::from_secs(5)));
            assert_eq!(sim.task_count(), idle, "{redo:?}: dropped after {times} polls");
            sim.run_until(async { judge(Instance::open(&world, &config).await.unwrap().0).await });
            ended
        });
        assert!(drops > 20, "{redo:?}: {drops}");
    }
}

#[test]
fn a_closing_that_is_dropped_leaves_no_task_and_the_next_opening_recovers() {
    let drops = at_every_await(|times| {
        let (sim, world) = simulation();
        let idle = sim.task_count();
        let (config, ended) = sim.run_until(async {
            let (config, instance) = with_rows(&world, ROWS).await;
            (config, polled(times, instance.close()).await.is_some())
        });
        sim.run_until(world.sleep(Duration::from_secs(5)));
        assert_eq!(sim.task_count(), idle, "dropped after {times} polls");
        sim.run_until(async { judge(Instance::open(&world, &config).await.unwrap().0).await });
        ended
    });
    assert!(drops > 10, "{drops}");
}

#[test]
fn a_change_or_commit_that_is_dropped_keeps_no_row() {
    let drops = at_every_await(|times| {
        let (sim, world) = simulation();
        sim.run_until(async {
            let (_, instance) = with_rows(&world, ROWS).await;
            let mut transaction = instance.begin();
            let work = async {
                transaction.replace(1, tree_number(0), &7u32.to_be_bytes(), &[3; 200]).await.unwrap();
                transaction.commit(Durability::Durable).await.unwrap();
            };
            let ended = polled(times, work).await.is_some();
            world.sleep(Duration::from_secs(2)).await;
            judge(instance).await;
            ended
        })
    });
    assert!(drops > 1, "{drops}");
}

fn let_go_everywhere(redo: Redo, operations: impl Iterator<Item = Operation>) {
    let (grounds, mut failed) = (Grounds::make(redo), Vec::new());
    let tasks = Tasks::of(&grounds);
    for operation in operations {
        let (drops, errors) = let_go_of(&grounds, &tasks, operation);
        failed.extend(errors);
        println!("{operation:?}: let go of {drops} times");
    }
    assert!(failed.is_empty(), "{} drops have failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn an_operation_on_an_instance_that_is_dropped_at_any_await_leaves_nothing_behind() {
    let on_instance = Operation::ALL.iter().copied().filter(|operation| operation.ground() == Ground::Open);
    let_go_everywhere(Redo::InLogOrder, on_instance);
}

#[test]
fn an_opening_check_or_passive_copy_that_is_dropped_at_any_await_leaves_nothing_behind() {
    for redo in REDO {
        let others = Operation::ALL.iter().copied().filter(|operation| operation.ground() != Ground::Open);
        let_go_everywhere(redo, others);
    }
}

/// A page that the cleaner cannot read stays as it is: readers do not see the row, and the instance goes on.
#[test]
fn a_page_that_the_cleaner_cannot_read_does_not_stop_the_instance() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let (config, instance) = with_rows(&world, MANY).await;
        instance.close().await.unwrap();
        let config = InstanceConfig { cache_bytes_per_database: 4 * 4096, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let mut deleting = instance.begin();
        deleting.delete(1, tree_number(0), &0u32.to_be_bytes()).await.unwrap();
        // Meanwhile the page of that row leaves memory.
        scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
        sim.set_faults(Faults { read_error: 1.0, ..Faults::default() });
        deleting.commit(Durability::Durable).await.unwrap();
        world.sleep(Duration::from_secs(2)).await;
        assert!(sim.operations().of(OpKind::Read) > 0, "the cleaner has met no page that it had to read");
        assert_eq!(instance.cleanups_given_up(), 1);
        instance.check().unwrap();
        sim.set_faults(Faults::default());
        assert!(matches!(
            instance.begin().replace(1, tree_number(0), &0u32.to_be_bytes(), b"x").await,
            Err(Error::NotFound)
        ));
        let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
        assert_eq!(rows.len(), MANY as usize - 1);
        instance.close().await.unwrap();
    });
}
