//! The cores of the threads of a run.

use super::super::cores::Cores;
use super::super::{Driver, RealConfig, run};
use super::config;
use crate::channel::oneshot;
use crate::{Duration, PageBuf, SECTOR_BYTES};

fn allowed_cores() -> usize {
    Cores::allowed().expect("the system says").numbers().count()
}

#[test]
fn a_shard_stays_on_one_core_and_its_work_may_use_all() {
    let all = allowed_cores();
    for driver in [Driver::Auto, Driver::Polling] {
        let seen = run(RealConfig { shards: all, ..config(driver) }, async |world| {
            let (tell, told) = oneshot::channel();
            world.spawn_shard(0, move |world| {
                Box::pin(async move {
                    let of_work = world.compute(allowed_cores).await;
                    tell.send((allowed_cores(), of_work)).unwrap();
                })
            });
            told.await.unwrap()
        });
        assert_eq!(seen.unwrap(), (1, all), "{driver:?}");
    }
}

#[test]
fn shards_are_bound_only_if_each_allowed_core_has_one() {
    let allowed = Cores::from([2, 3, 7]);
    let core = |index, shards| allowed.of_shard(index, shards).map(|core| core.numbers().collect::<Vec<_>>());
    assert_eq!([0, 1, 2].map(|index| core(index, 3)), [Some(vec![2]), Some(vec![3]), Some(vec![7])]);
    assert_eq!(core(0, 1), None, "a quota of one processor beside three allowed cores");
    assert_eq!(core(3, 4), None, "more shards than cores");
}

/// Cores that each thread for page memory of this process may use.
fn cores_of_page_memory() -> Vec<String> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let of_stock = tasks.filter(|task| read(task.join("comm")) == "page-memory\n");
    of_stock.filter_map(|task| allowed_list(&read(task.join("status")))).collect()
}

fn allowed_list(status: &str) -> Option<String> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

#[test]
fn the_thread_for_page_memory_may_use_all_cores() {
    let all = allowed_list(&std::fs::read_to_string("/proc/thread-self/status").unwrap()).unwrap();
    let config = RealConfig { shards: allowed_cores(), ..config(Driver::Auto) };
    let seen = run(config, async |world| {
        let (tell, told) = oneshot::channel();
        world.spawn_shard(0, move |_| {
            drop(PageBuf::copy_of(&[0; SECTOR_BYTES]));
            Box::pin(async move { tell.send(()).unwrap() })
        });
        told.await.unwrap();
        // The new thread releases itself once it runs.
        for _ in 0..1000 {
            let seen = cores_of_page_memory();
            if !seen.is_empty() && seen.iter().all(|cores| *cores == all) {
                return seen;
            }
            world.sleep(Duration::from_millis(10)).await;
        }
        cores_of_page_memory()
    })
    .unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|cores| *cores == all), "{seen:?} of {all}");
}
