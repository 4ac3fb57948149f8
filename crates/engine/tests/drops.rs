//! Futures of the public interface are dropped at each of their await points. No lock, task or file stays behind, and the next
//! operation works.

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use common::{create, scan, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig};
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, OpKind, SimConfig, Simulation};
use world::{Duration, World};

const ROWS: u32 = 120;
/// More than memory holds.
const MANY: u32 = 2000;

fn simulation() -> (Simulation, World) {
    let storage = Box::new(FixedLatency::new(1, FixedLatencyTimes::default()));
    let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

/// The result of the future, or `None` if it has none after so many polls; then it is dropped.
async fn polled<T>(times: u32, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), times);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            // Without a poll left, the next wake would come for nobody.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Runs `attempt` with 0, 1, 2, ... polls until it comes to its end; returns how often it was dropped before.
fn at_every_await(mut attempt: impl FnMut(u32) -> bool) -> u32 {
    (0..10_000).find(|times| attempt(*times)).expect("the operation comes to its end")
}

async fn with_rows(world: &World, rows: u32) -> (InstanceConfig, Instance) {
    let config = create(world, 1, 1).await;
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    for n in 0..rows {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[1; 200]).await.unwrap();
        transaction.commit(Durability::Durable).await.unwrap();
    }
    (config, instance)
}

/// All rows are there, each can be changed, and the instance closes.
async fn judge(instance: Instance) {
    let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    let mut next = instance.begin();
    for n in 0..ROWS {
        next.replace(1, tree_number(0), &n.to_be_bytes(), &[2; 200]).await.unwrap();
    }
    next.commit(Durability::Durable).await.unwrap();
    instance.close().await.unwrap();
}

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
