//! A small instance whose operations are dropped, and what has to hold of it afterwards.

use engine::{Durability, Instance, InstanceConfig};
use world::World;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation, StorageModel};

use super::{create, scan, tree_number};

/// Rows that [`judge`] expects.
pub const ROWS: u32 = 120;

pub fn simulation() -> (Simulation, World) {
    simulation_on(Box::new(FixedLatency::new(1, FixedLatencyTimes::default())))
}

pub fn simulation_on(storage: Box<dyn StorageModel>) -> (Simulation, World) {
    let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

/// Runs `attempt` with 0, 1, 2, ... polls until it completes. Returns the number of attempts that were dropped
/// before.
pub fn at_every_await(mut attempt: impl FnMut(u32) -> bool) -> u32 {
    (0..10_000).find(|times| attempt(*times)).expect("the operation comes to its end")
}

pub async fn with_rows(world: &World, rows: u32) -> (InstanceConfig, Instance) {
    let config = create(world, 1, 1).await;
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    for n in 0..rows {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[1; 200]).await.unwrap();
        transaction.commit(Durability::Durable).await.unwrap();
    }
    (config, instance)
}

/// Asserts that all rows exist, that each can be changed, and that the instance closes.
pub async fn judge(instance: Instance) {
    let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    let mut next = instance.begin();
    for n in 0..ROWS {
        next.replace(1, tree_number(0), &n.to_be_bytes(), &[2; 200]).await.unwrap();
    }
    next.commit(Durability::Durable).await.unwrap();
    instance.close().await.unwrap();
}
