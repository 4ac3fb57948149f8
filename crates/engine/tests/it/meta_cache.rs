//! The MetaCache of a database: warm after an orderly end, and never needed.

use std::rc::Rc;

use crate::common::model::{Model, Random, Shape, all_rows, load};
use crate::common::seed::{create_small, new_simulation, with_meta_cache};
use crate::common::shared;
use engine::{Instance, InstanceConfig, MetaCacheState};
use results::{IoClass, IoTotals};
use world::World;
use world::sim::Simulation;

const SEED: u64 = 1;
const SHAPE: Shape = Shape { keys: 60, most_data_bytes: 1000, is_regular: false };

/// Databases with MetaCaches that had a load and were closed.
fn closed() -> (Simulation, World, InstanceConfig) {
    let (sim, world) = new_simulation(SEED);
    let config = with_meta_cache(SEED, create_small(&sim, &world, &mut Random::new(SEED)));
    let model = shared(Model::new(1, 600));
    sim.run_until(async {
        let instance = Rc::new(Instance::open(&world, &config).await.unwrap().0);
        load(&world, instance.clone(), &model, SHAPE, SEED).await;
        Rc::into_inner(instance).expect("all sessions have ended").close().await.unwrap();
    });
    (sim, world, config)
}

/// I/O of a class on all databases since the last call.
fn taken(config: &InstanceConfig, classes: [IoClass; 2]) -> [u64; 2] {
    let counted: Vec<_> = config.databases.iter().map(|database| database.counters.take()).collect();
    classes.map(|class| {
        let totals = counted.iter().map(|counted| counted.io.class(class).totals);
        totals.map(|IoTotals { count, .. }| count).sum()
    })
}

const READS: [IoClass; 2] = [IoClass::MetaCacheRead, IoClass::TransactionalRead];

#[test]
fn databases_that_were_closed_read_from_their_meta_caches_when_they_are_opened_again() {
    let (sim, world, config) = closed();
    let mut reads = Vec::new();
    for has_cache in [true, false] {
        let mut config = config.clone();
        if !has_cache {
            config.databases.iter_mut().for_each(|database| database.meta_cache = None);
        }
        taken(&config, READS);
        let rows = sim.run_until(async {
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            let rows = all_rows(&instance).await.unwrap();
            instance.close().await.unwrap();
            rows
        });
        reads.push((taken(&config, READS), rows));
    }
    let [([hits, misses], with), ([none, all], without)] = &reads[..] else { unreachable!() };
    assert!(*hits > 10 && misses < all && *none == 0, "{hits} + {misses}, {none} + {all}");
    assert!(with == without && !with.is_empty());
}

#[test]
fn a_database_whose_meta_cache_is_taken_away_goes_on_without_it() {
    let (sim, world, config) = closed();
    sim.run_until(async {
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let rows = all_rows(&instance).await.unwrap();
        let states = [1, 2].map(|db| instance.meta_cache_state(db).unwrap());
        let is_in_use = |state| matches!(state, MetaCacheState::Initializing | MetaCacheState::Healthy);
        assert!(states.into_iter().all(is_in_use), "{states:?}");
        let caches = config.databases.iter().filter_map(|database| database.meta_cache.as_ref());
        caches.for_each(|cache| cache.taken_away.stop());
        taken(&config, READS);
        let instance = Rc::new(instance);
        let model = shared(Model::of_rows(rows));
        model.borrow_mut().limit = 300;
        load(&world, instance.clone(), &model, SHAPE, 2).await;
        let rows = all_rows(&instance).await.unwrap();
        model.borrow_mut().rebase_on(&rows).unwrap();
        assert_eq!(instance.meta_cache_state(1).unwrap(), MetaCacheState::StorageOffline);
        let io = taken(&config, [IoClass::MetaCacheRead, IoClass::MetaCacheWrite]);
        assert_eq!(io, [0, 0]);
    });
}
