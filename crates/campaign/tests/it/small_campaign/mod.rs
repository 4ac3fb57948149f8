//! The whole campaign of a small deployment in the simulated world: two databases on storage with latency.
#![allow(dead_code, reason = "not every test of the campaign uses all of this")]

use campaign::barrier::{Alone, Barrier};
use campaign::progress::{Progress, Watcher};
use campaign::{CampaignOutcome, run_in_step};
use results::{Outcome, Row, Test};
use solution::{Deployment, Solution, TestKind, TestSpec};
use world::Duration;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};

const SOLUTION: &str = r#"
[solution]
name = "Simulated"
schema = 1

[profile]
exchange = "2019"
mailboxes = 40
messages_per_day = 150
quota_mb = 40

[[host]]
name = "a"

[[volume]]
name = "V{n}"
count = 2
path = "/v{n}"

[[volume]]
name = "Flash"
role = "meta_cache"
path = "/flash"

[[instance]]
name = "DB{n}"
count = 2
volume = "V{n}"

[sizing]
database_mib = 128

[load]
sessions = 4
copies = 2

[engine]
cache_min_mib = 4
cache_max_mib = 8
flush_start_percent = 4
flush_stop_percent = 8
meta_cache_mib = 24

[[test]]
kind = "init"

[[test]]
kind = "tune"
duration_s = 6
warmup_limit_s = 2

[[test]]
kind = "performance"
duration_s = 10
warmup_limit_s = 3

[[test]]
kind = "database_checksum"

[[test]]
kind = "log_checksum"
logs = 4

[[test]]
kind = "stress"
duration_s = 10
warmup_limit_s = 3

[[test]]
kind = "database_checksum"

[[test]]
kind = "backup"

[[test]]
kind = "backup_to_disk"

[[test]]
kind = "restore"

[[test]]
kind = "metacache_loss"
duration_s = 10
warmup_limit_s = 3

[[test]]
kind = "log_generation"
duration_s = 60
logs = 3

[[test]]
kind = "soft_recovery"

[[test]]
kind = "database_checksum"
"#;

/// Watcher that ignores all progress and never asks for the end.
pub struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _progress: &Progress) {}
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

pub fn deployment() -> Deployment {
    let solution = Solution::parse(SOLUTION, "simulated.toml").unwrap_or_else(|error| panic!("{error}"));
    solution.deployment(None).unwrap_or_else(|error| panic!("{error}"))
}

pub fn simulation(seed: u64) -> Simulation {
    simulation_of(seed, Duration::from_millis(2))
}

pub fn simulation_of(seed: u64, read_latency: Duration) -> Simulation {
    let times = FixedLatencyTimes {
        read_latency,
        write_latency: Duration::from_millis(1),
        sync_latency: Duration::from_micros(500),
        ..FixedLatencyTimes::default()
    };
    let storage = Box::new(FixedLatency::new(seed, times));
    let simulation = Simulation::new(seed, SimConfig { storage, ..SimConfig::default() });
    simulation.host("a");
    ["/v1", "/v2", "/flash"].into_iter().for_each(|volume| simulation.volume("a", volume, 16 << 30));
    simulation
}

/// Runs the tests of these kinds.
pub fn run_tests(
    simulation: &Simulation,
    seed: u64,
    chosen: impl Fn(TestKind) -> bool,
) -> (CampaignOutcome, Vec<Row>) {
    run_specs(simulation, seed, &specs(chosen), &mut Silent, &Alone)
}

pub fn run_specs(
    simulation: &Simulation,
    seed: u64,
    tests: &[TestSpec],
    watcher: &mut dyn Watcher,
    barrier: &dyn Barrier,
) -> (CampaignOutcome, Vec<Row>) {
    run_deployment(simulation, &deployment(), seed, tests, watcher, barrier)
}

pub fn specs(chosen: impl Fn(TestKind) -> bool) -> Vec<TestSpec> {
    deployment().tests.into_iter().filter(|test| chosen(test.kind)).collect()
}

pub fn run_deployment(
    simulation: &Simulation,
    deployment: &Deployment,
    seed: u64,
    tests: &[TestSpec],
    watcher: &mut dyn Watcher,
    barrier: &dyn Barrier,
) -> (CampaignOutcome, Vec<Row>) {
    let mut rows: Vec<Row> = Vec::new();
    let world = simulation.host("a");
    let outcome =
        simulation.run_until(run_in_step(world, deployment, tests, seed, &mut rows, watcher, barrier));
    (outcome, rows)
}

/// A simulation with databases.
pub fn initialised(seed: u64) -> Simulation {
    let simulation = simulation(seed);
    let (outcome, _) = run_tests(&simulation, seed, |kind| kind == TestKind::Init);
    assert!(outcome.passed(), "{:?}", outcome.error);
    simulation
}

/// The newest row of the only test of a run.
pub fn test_row(rows: &[Row]) -> &Test {
    let newest = rows.iter().rev().find_map(|row| match row {
        Row::Test(test) => Some(test),
        _ => None,
    });
    newest.expect("there was a test")
}

pub fn failures(outcome: &CampaignOutcome) -> Vec<String> {
    let failed = outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    failed.map(|verdict| format!("{} of {:?}: {:?}", verdict.rule, verdict.test, verdict.measured)).collect()
}

/// Watcher that asks for the end of the run once it has seen a phase this many times.
pub struct Impatient(pub &'static str, pub u32);

impl Watcher for Impatient {
    fn progress(&mut self, progress: &Progress) {
        self.1 -= u32::from(self.1 > 0 && progress.phase == self.0);
    }
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        self.1 == 0
    }
}
