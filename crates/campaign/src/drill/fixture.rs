//! A small drill, for the tests of its parts: two hosts with two copies of one database.

use replication::{Boot, DatabaseId, Epoch, Health, HostId, Lineage, Position, Report};
use results::IoTotals;
use solution::Solution;

use super::node::CopySample;
use super::topology::PlannedDrill;

/// Drill of a solution file.
pub fn planned(text: &str) -> PlannedDrill {
    let solution = Solution::parse(text, "drill.toml").expect("it is valid");
    let test = solution.deployment(Some("h1")).expect("it is valid").tests.remove(0);
    let drill = test.drill.as_ref().expect("a drill");
    PlannedDrill::of(&solution, &test, drill, 1, "Drill").expect("it has copies")
}

/// Passive copy that is complete.
pub fn full_copy(host: usize) -> CopySample {
    let report = Report {
        database: DatabaseId(0),
        host: HostId(host as u16),
        boot: Boot(1),
        promised: Epoch(1),
        lineage: Lineage::first(),
        end: Position::START,
        log_start: 1,
        replayed: Position::START,
        health: Health::Healthy,
        mountable: true,
        copy_queue: 0,
        host_tier: 0,
    };
    CopySample {
        database: 0,
        active_in: None,
        report,
        failure: None,
        reads: IoTotals::default(),
        log_writes: IoTotals::default(),
        batches: IoTotals::default(),
        events: Vec::new(),
    }
}
