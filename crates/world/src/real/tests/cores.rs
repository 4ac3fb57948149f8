//! The cores of the threads of a run.

use super::super::cores::Cores;
use super::super::{Driver, RealConfig, run};
use super::config;
use crate::channel::oneshot;

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
