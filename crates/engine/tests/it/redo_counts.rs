//! Promise: a live view shows the reads of redo while redo works, not only at its end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{REDO, create, tree_number};
use engine::{Durability, Instance};
use results::IoClass;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};

fn slow_reads() -> SimConfig {
    let times = FixedLatencyTimes { read_latency: Duration::from_millis(10), ..FixedLatencyTimes::default() };
    SimConfig { storage: Box::new(FixedLatency::new(1, times)), ..SimConfig::default() }
}

#[test]
fn reads_of_redo_are_counted_while_it_works() {
    for redo in REDO {
        let sim = Simulation::new(1, slow_reads());
        let world = sim.host("h");
        sim.volume("h", "/db", 1 << 40);
        sim.volume("h", "/log", 1 << 40);
        let config = sim.run_until(async {
            let mut config = create(&world, 1, 1).await;
            (config.redo, config.circular_logging) = (redo, false);
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            for row in 0..1500u32 {
                let mut transaction = instance.begin();
                // Each row lies on another page than the row before.
                let key = row.reverse_bits().to_be_bytes();
                transaction.insert(1, tree_number(0), &key, &[7; 300]).await.unwrap();
                transaction.commit(Durability::Durable).await.unwrap();
            }
            config
        });
        sim.crash("h");
        let world = sim.restart("h");
        let times_seen = sim.run_until(async {
            // All logs are redone.
            world.remove("/log/E00.chk").await.unwrap();
            let has_ended = Rc::new(Cell::new(false));
            let opening = world.spawn({
                let (world, config, has_ended) = (world.clone(), config.clone(), has_ended.clone());
                async move {
                    let (_instance, report) = Instance::open(&world, &config).await.unwrap();
                    has_ended.set(true);
                    report
                }
            });
            let mut times_seen = 0;
            while !has_ended.get() {
                world.sleep(Duration::from_millis(20)).await;
                let counted = config.databases[0].counters.take();
                let reads = counted.io.class(IoClass::TransactionalRead).totals.count;
                times_seen += u32::from(reads > 0 && !has_ended.get());
            }
            let report = opening.await;
            assert!(report.logs_replayed > 4, "{redo:?}: {report:?}");
            times_seen
        });
        assert!(times_seen > 6, "{redo:?}: reads were seen {times_seen} times before the opening ended");
    }
}
