#![allow(clippy::print_stdout, reason = "says how often each operation was dropped")]
//! Futures of the public interface are dropped at each of their await points. No lock, task or file stays behind, and the next
//! operation works.

use crate::common::dropping::{ROWS, at_every_await, judge, simulation, with_rows};
use crate::common::operations::Operation;
use crate::common::stage::{Ground, Grounds, Stage};
use crate::common::{polled, scan, tree_number};
use engine::{Durability, Error, Held, Instance, InstanceConfig};
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
    let drops = at_every_await(|times| {
        let (sim, world) = simulation();
        let config = sim.run_until(async {
            let (config, instance) = with_rows(&world, ROWS).await;
            instance.abandon().await;
            config
        });
        let idle = sim.task_count();
        let ended = sim.run_until(polled(times, Instance::open(&world, &config))).is_some();
        sim.run_until(world.sleep(Duration::from_secs(5)));
        assert_eq!(sim.task_count(), idle, "dropped after {times} polls");
        sim.run_until(async { judge(Instance::open(&world, &config).await.unwrap().0).await });
        ended
    });
    assert!(drops > 20, "{drops}");
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

/// Tasks that an open instance and an open passive copy have at most while nobody asks for anything.
struct Tasks {
    instance: usize,
    standby: usize,
}

impl Tasks {
    fn of(grounds: &Grounds) -> Tasks {
        let idle = |ground| {
            let (sim, stage) = grounds.stage(ground);
            let count = sim.task_count();
            drop(stage);
            count
        };
        Tasks { instance: idle(Ground::Open), standby: idle(Ground::Replayed) }
    }

    fn due(&self, stage: &Stage) -> usize {
        match (&stage.instance, &stage.standby) {
            (Some(_), _) => self.instance,
            (None, Some(_)) => self.standby,
            (None, None) => 0,
        }
    }
}

/// What was begun ends by itself and holds nothing, and the next operations work, on what is open or on the files.
async fn judge_next(stage: &mut Stage, ground: Ground) -> Result<(), String> {
    if let Some(instance) = &stage.instance {
        instance.check().map_err(|error| error.to_string())?;
        let held = instance.held();
        if held != Held::default() {
            return Err(format!("the instance is no longer used, and it holds {held:?}"));
        }
    } else if stage.standby.is_some() && stage.store.is_some() {
        match stage.take_over().await {
            // Opened again, it takes over.
            Err(Error::Refused(why)) if why.contains("open the passive copy again") => {
                stage.reopen(ground).await.map_err(|error| format!("opening after {why}: {error}"))?;
            }
            taken_over => taken_over.map_err(|error| format!("takeover: {error}"))?,
        }
    } else {
        stage.reopen(ground).await.map_err(|error| format!("next opening: {error}"))?;
    }
    stage.judge_rows().await?;
    stage.judge_locks().await
}

/// The operation is let go of after `times` polls. Returns whether it had come to its end.
fn let_go(grounds: &Grounds, tasks: &Tasks, operation: Operation, times: u32) -> Result<bool, String> {
    let ground = operation.ground();
    let (sim, mut stage) = grounds.stage(ground);
    let done = sim.run_until(polled(times, operation.perform(&mut stage)));
    let ended = done.is_some();
    done.transpose().map_err(|error| error.to_string())?;
    stage.transaction = None;
    sim.run_until(stage.world.sleep(Duration::from_secs(3)));
    let (found, due) = (sim.task_count(), tasks.due(&stage));
    if found > due {
        return Err(format!("{found} tasks are left, {due} are due"));
    }
    sim.run_until(judge_next(&mut stage, ground))?;
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(Ground::Closed))?;
    let instance = stage.instance.take().expect("it was opened");
    sim.run_until(instance.close()).map_err(|error| format!("close: {error}"))?;
    Ok(ended)
}

/// The power fails at the moment when the operation is let go of.
fn let_go_at_power_cut(grounds: &Grounds, operation: Operation, times: u32) -> Result<(), String> {
    let (sim, mut stage) = grounds.stage(operation.ground());
    let _ = sim.run_until(polled(times, operation.perform(&mut stage)));
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(operation.ground()))
}

/// The next operations of a passive copy come at once, when what was begun is still under way, and may be for long.
fn let_go_and_go_on(grounds: &Grounds, operation: Operation, times: u32) -> Result<(), String> {
    let ground = operation.ground();
    let (sim, mut stage) = grounds.stage_with(ground, Duration::from_millis(20));
    let _ = sim.run_until(polled(times, operation.perform(&mut stage)));
    let went_on: engine::Result<()> = sim.run_until(async {
        if stage.standby.is_some() && stage.store.is_some() {
            for _ in 0..2 {
                stage.store_next().await?;
                stage.follow().await?;
                let (store, standby) = (stage.store.as_mut(), stage.standby.as_mut());
                let at = standby.expect("it is there").save_checkpoint().await?;
                store.expect("it is there").drop_below(at.generation()).await?;
            }
        }
        Ok(())
    });
    match went_on {
        Err(Error::Refused(why)) if why.contains("open the passive copy again") => {}
        went_on => went_on.map_err(|error| format!("going on at once: {error}"))?,
    }
    sim.run_until(stage.world.sleep(Duration::from_millis(50)));
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(ground))
}

fn let_go_everywhere(operations: impl Iterator<Item = Operation>) {
    let (grounds, mut failed) = (Grounds::make(), Vec::new());
    let tasks = Tasks::of(&grounds);
    for operation in operations {
        let drops = at_every_await(|times| {
            let gone = let_go_at_power_cut(&grounds, operation, times);
            let went_on = match operation.ground() {
                Ground::Passive | Ground::Replayed => let_go_and_go_on(&grounds, operation, times),
                _ => Ok(()),
            };
            let ended = gone.and(went_on).and_then(|()| let_go(&grounds, &tasks, operation, times));
            ended.unwrap_or_else(|error| {
                failed.push(format!("{operation:?} let go of after {times} polls: {error}"));
                false
            })
        });
        println!("{operation:?}: let go of {drops} times");
    }
    assert!(failed.is_empty(), "{} drops have failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn an_operation_on_an_instance_that_is_dropped_at_any_await_leaves_nothing_behind() {
    let_go_everywhere(Operation::ALL.iter().copied().filter(|operation| operation.ground() == Ground::Open));
}

#[test]
fn an_opening_check_or_passive_copy_that_is_dropped_at_any_await_leaves_nothing_behind() {
    let_go_everywhere(Operation::ALL.iter().copied().filter(|operation| operation.ground() != Ground::Open));
}

/// What the cleaner cannot read stays as it is: the row is gone for every reader, and the instance goes on.
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
