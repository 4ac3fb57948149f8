//! What a dropped future or instance has under way when the next operation begins: it neither comes late, nor holds
//! anything back, nor leaves half of something that passes for whole. (drops.rs drops every operation at each of its
//! awaits.)

use std::cell::Cell;
use std::rc::Rc;

use crate::common::dropping::{ROWS, at_every_await, judge, simulation, simulation_on, with_rows};
use crate::common::{PAGE_BYTES, polled, scan, tree_number};
use engine::{
    Counters, Durability, Instance, InstanceConfig, LogPosition, LogStore, Progress, Standby, StopSignal,
    StreamConfig, is_closed,
};
use world::sim::{
    FixedLatency, FixedLatencyTimes, RequestId, StorageModel, StorageOp, StorageRequest, VolumeId,
};
use world::{Duration, Time, World};

/// A model in which one write to the databases takes a minute, from when `is_armed` is set.
struct SlowOnce {
    storage: FixedLatency,
    databases: Option<VolumeId>,
    is_armed: Rc<Cell<bool>>,
    slow: Option<(Time, RequestId)>,
}

impl StorageModel for SlowOnce {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        if path == "/db" {
            self.databases = Some(volume);
        }
        self.storage.attach(volume, host, path);
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let is_page = request.op == StorageOp::Write && Some(request.volume) == self.databases;
        if is_page && self.is_armed.take() {
            self.slow = Some((now + Duration::from_secs(60), request.id));
        } else {
            self.storage.submit(now, request);
        }
    }

    fn next_completion(&self) -> Option<Time> {
        let slow = self.slow.map(|(done, _)| done);
        self.storage.next_completion().into_iter().chain(slow).min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.storage.take_completions(now, completed);
        completed.extend(self.slow.take_if(|(done, _)| *done <= now).map(|(_, id)| id));
    }
}

#[test]
fn page_writes_of_a_dropped_instance_or_standby_end_before_the_next_opening() {
    change_rows_whose_pages_are_still_written();
}

/// Rows whose pages the disk still writes when the instance, or a standby over its files, is dropped. The next
/// instance changes them, and what was under way must not come later.
///
/// # Panics
/// If it does.
pub fn change_rows_whose_pages_are_still_written() {
    for is_standby in [false, true] {
        let is_armed = Rc::new(Cell::new(false));
        let storage = FixedLatency::new(1, FixedLatencyTimes::default());
        let model = SlowOnce { storage, databases: None, is_armed: is_armed.clone(), slow: None };
        let (sim, world) = simulation_on(Box::new(model));
        sim.run_until(async {
            let (config, instance) = with_rows(&world, ROWS).await;
            if is_standby {
                instance.abandon().await;
                let end = LogStore::open(&world, &config).await.unwrap().extent().unwrap().1;
                let mut standby = Standby::open(&world, &config).await.unwrap();
                standby.replay(end).await.unwrap();
                is_armed.set(true);
                assert!(polled(3, standby.save_checkpoint()).await.is_none());
            } else {
                instance.close().await.unwrap();
                let config = InstanceConfig { checkpoint_depth_bytes: 0, ..config.clone() };
                let (instance, _) = Instance::open(&world, &config).await.unwrap();
                world.sleep(Duration::from_secs(2)).await;
                is_armed.set(true);
                let mut transaction = instance.begin();
                transaction.replace(1, tree_number(0), &0u32.to_be_bytes(), &[4; 200]).await.unwrap();
                transaction.commit(Durability::Durable).await.unwrap();
                world.sleep(Duration::from_secs(2)).await;
            }
            assert!(!is_armed.get(), "no page write is under way");
            judge(Instance::open(&world, &config).await.unwrap().0).await;
            world.sleep(Duration::from_secs(100)).await;
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
            assert!(
                rows.values().all(|row| *row == [2; 200]),
                "is_standby {is_standby}: a row is older than its commit"
            );
            instance.close().await.unwrap();
        });
    }
}

/// A standby over the files of an instance that was abandoned, and where its log ends.
async fn standby(world: &World, config: &InstanceConfig) -> (Standby, LogPosition) {
    let end = LogStore::open(world, config).await.unwrap().extent().unwrap().1;
    (Standby::open(world, config).await.unwrap(), end)
}

/// The checkpoint of the instance that the standby becomes moves: a sync that was dropped holds it back only until
/// the next one.
#[test]
fn a_saving_of_the_checkpoint_that_is_dropped_does_not_hold_the_checkpoint_for_ever() {
    let drops = at_every_await(|times| {
        let (sim, world) = simulation();
        sim.run_until(async {
            let (config, instance) = with_rows(&world, ROWS).await;
            instance.abandon().await;
            let (mut standby, end) = standby(&world, &config).await;
            standby.replay(end).await.unwrap();
            let has_ended = polled(times, standby.save_checkpoint()).await.is_some();
            standby.save_checkpoint().await.unwrap();
            let (instance, _) = standby.activate(end).await.unwrap();
            world.sleep(Duration::from_secs(3)).await;
            let at = instance.durable_checkpoint();
            assert!(
                at >= end,
                "dropped after {times} polls: the checkpoint stays at {at:?}, the log began at {end:?}"
            );
            judge(instance).await;
            has_ended
        })
    });
    assert!(drops > 3, "{drops}");
}

/// The instance goes on. A copy that has a header is complete: it restores to all rows.
#[test]
fn a_backup_that_is_dropped_leaves_a_whole_copy_or_none() {
    let mut whole = 0;
    let drops = at_every_await(|times| {
        let (sim, world) = simulation();
        sim.run_until(async {
            let (config, instance) = with_rows(&world, ROWS).await;
            let (stream, progress, stop) =
                (StreamConfig { read_bytes: 64 << 10, depth: 2 }, Progress::default(), StopSignal::new());
            let tasks = sim.task_count();
            let copy = "/db/copy.edb";
            let has_ended =
                polled(times, instance.back_up(1, stream, Some(copy), &progress, &stop)).await.is_some();
            world.sleep(Duration::from_millis(100)).await;
            assert_eq!(sim.task_count(), tasks, "dropped after {times} polls");
            let is_there = world.entry(copy).await.unwrap().is_some();
            if is_there && is_closed(&world, copy, PAGE_BYTES, &Counters::default()).await.is_ok() {
                whole += 1;
                instance.abandon().await;
                world.rename(copy, "/db/0.edb").await.unwrap();
                judge(Instance::open(&world, &config).await.unwrap().0).await;
            } else {
                judge(instance).await;
            }
            has_ended
        })
    });
    assert!(drops > 5 && whole > 1 && whole < drops, "{whole} whole copies of {drops}");
}
