//! A full volume is a clear answer, never damage: on simulated volumes of a few logs' size.

use crate::common::{check_structure, create, scan, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig};
use world::sim::{SimConfig, Simulation};
use world::{ErrorKind, World};

const LOG_VOLUME_BYTES: u64 = 1 << 20;
const RESERVE: [&str; 2] = ["E00res00001.jrs", "E00res00002.jrs"];

fn simulation(db_bytes: u64, log_bytes: u64) -> (Simulation, World) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/db", db_bytes);
    sim.volume("h", "/log", log_bytes);
    (sim, world)
}

async fn insert(instance: &Instance, n: u32) -> Result<(), Error> {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[n as u8; 300]).await?;
    transaction.commit(Durability::Durable).await
}

/// Inserts from `first` on until an error comes; returns the number that it came at.
async fn fill(instance: &Instance, first: u32) -> (u32, Error) {
    let mut n = first;
    loop {
        match insert(instance, n).await {
            Ok(()) => n += 1,
            Err(error) => return (n, error),
        }
    }
}

async fn reserve_logs(world: &World) -> usize {
    let entries = world.list("/log").await.unwrap();
    entries.iter().filter(|entry| RESERVE.contains(&entry.name.as_str())).count()
}

async fn rows(instance: &Instance) -> usize {
    check_structure(instance, 1, 1).await.unwrap();
    scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len()
}

async fn open_on_a_small_log_volume(world: &World) -> (Instance, InstanceConfig) {
    let mut config = create(world, 1, 1).await;
    config.circular_logging = false;
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    assert_eq!(reserve_logs(world).await, 2);
    (instance, config)
}

#[test]
fn on_a_full_log_volume_what_is_open_ends_and_the_instance_closes() {
    let (sim, world) = simulation(1 << 40, LOG_VOLUME_BYTES);
    sim.run_until(async {
        let (instance, config) = open_on_a_small_log_volume(&world).await;
        let (mut kept, mut dropped) = (instance.begin(), instance.begin());
        kept.insert(1, tree_number(0), b"kept", b"x").await.unwrap();
        dropped.insert(1, tree_number(0), b"dropped", b"x").await.unwrap();
        let (count, error) = fill(&instance, 0).await;
        assert!(matches!(&error, Error::LogVolumeFull { directory } if directory == "/log"), "{error}");
        assert!(reserve_logs(&world).await < 2 && world.free_bytes("/log").await.unwrap() < 64 << 10);
        assert!(matches!(insert(&instance, count).await, Err(Error::LogVolumeFull { .. })), "it stays so");
        kept.commit(Durability::Durable).await.unwrap();
        dropped.rollback().await.unwrap();
        instance.close().await.unwrap();

        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(report.logs_replayed, 0, "it was closed, not stopped");
        assert_eq!(rows(&instance).await, count as usize + 1);
        instance.close().await.unwrap();
        sim.volume("h", "/log", 1 << 40);
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(reserve_logs(&world).await, 2, "there is space again, and the reserve is whole");
        insert(&instance, count).await.unwrap();
        instance.close().await.unwrap();
    });
}

#[test]
fn what_stops_on_a_full_log_volume_recovers_there() {
    let (sim, world) = simulation(1 << 40, LOG_VOLUME_BYTES);
    sim.run_until(async {
        let (instance, config) = open_on_a_small_log_volume(&world).await;
        let (count, _) = fill(&instance, 0).await;
        instance.abandon().await;
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.logs_replayed > 0);
        assert_eq!(rows(&instance).await, count as usize);
        instance.close().await.unwrap();
    });
}

#[test]
fn a_full_database_volume_refuses_growth_and_nothing_else() {
    let (sim, world) = simulation(1 << 20, 1 << 40);
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        // The check of the trees holds all their pages.
        config.cache_bytes_per_database = 2 << 20;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let (count, error) = fill(&instance, 0).await;
        assert!(matches!(&error, Error::World(error) if error.kind == ErrorKind::NoSpace), "{error}");
        let mut last = instance.begin();
        last.replace(1, tree_number(0), &0u32.to_be_bytes(), &[7; 300]).await.unwrap();
        last.commit(Durability::Durable).await.unwrap();
        instance.abandon().await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(rows(&instance).await, count as usize);
        instance.close().await.unwrap();
    });
}
