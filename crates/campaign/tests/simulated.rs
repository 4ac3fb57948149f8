//! The whole programme in the simulated world: seconds of virtual time, small databases, storage with latency.

use campaign::progress::{Progress, Watcher};
use campaign::{CampaignOutcome, run};
use results::{Direction, IoClass, Measure, Outcome, Row};
use solution::{Deployment, Solution, TestKind};
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, SimConfig, Simulation};
use world::{Duration, OpenMode, PageBuf};

const SOLUTION: &str = r#"
[solution]
name = "Simulated"
schema = 1

[profile]
exchange = "2016"
mailboxes = 40
messages_per_day = 150
quota_mb = 40

[[host]]
name = "a"

[[volume]]
name = "V{n}"
count = 2
path = "/v{n}"

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
kind = "log_generation"
duration_s = 60
logs = 3

[[test]]
kind = "soft_recovery"

[[test]]
kind = "database_checksum"
"#;

struct Silent;

impl Watcher for Silent {
    fn progress(&mut self, _progress: &Progress) {}
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

fn deployment() -> Deployment {
    let solution = Solution::parse(SOLUTION, "simulated.toml").unwrap_or_else(|error| panic!("{error}"));
    solution.deployment(None).unwrap_or_else(|error| panic!("{error}"))
}

fn simulation(seed: u64) -> Simulation {
    let times = FixedLatencyTimes {
        read_latency: Duration::from_millis(2),
        write_latency: Duration::from_millis(1),
        sync_latency: Duration::from_micros(500),
        ..FixedLatencyTimes::default()
    };
    let storage = Box::new(FixedLatency::new(seed, times));
    let simulation = Simulation::new(seed, SimConfig { storage, ..SimConfig::default() });
    simulation.host("a");
    ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 16 << 30));
    simulation
}

/// Runs the tests of these kinds.
fn run_tests(
    simulation: &Simulation,
    seed: u64,
    chosen: impl Fn(TestKind) -> bool,
) -> (CampaignOutcome, Vec<Row>) {
    let deployment = deployment();
    let tests: Vec<_> = deployment.tests.iter().filter(|test| chosen(test.kind)).cloned().collect();
    let mut rows: Vec<Row> = Vec::new();
    let outcome =
        simulation.run_until(run(simulation.host("a"), &deployment, &tests, seed, &mut rows, &mut Silent));
    (outcome, rows)
}

fn failures(outcome: &CampaignOutcome) -> Vec<String> {
    let failed = outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail);
    failed.map(|verdict| format!("{} of {:?}: {:?}", verdict.rule, verdict.test, verdict.measured)).collect()
}

/// Operations and bytes in one direction, as the host's samples have them, without those of one class.
fn measured_without(dropped: Option<IoClass>, rows: &[Row], direction: Direction) -> (u64, u64) {
    let samples = rows.iter().filter_map(|row| match row {
        Row::Sample(sample) if sample.origin.instance.is_none() => Some(sample),
        _ => None,
    });
    let in_direction = samples.filter(|sample| {
        matches!(sample.measure, Measure::Io(class) if class.direction() == direction && Some(class) != dropped)
    });
    in_direction.fold((0, 0), |sum, sample| (sum.0 + sample.tally.count, sum.1 + sample.tally.bytes))
}

#[test]
fn the_whole_programme_passes_and_what_it_measured_is_what_the_world_did() {
    let simulation = simulation(1);
    let (outcome, rows) = run_tests(&simulation, 1, |_| true);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(failures(&outcome), [""; 0]);
    assert!(outcome.passed());
    let ended = rows.iter().filter(|row| matches!(row, Row::Test(test) if test.ended_ms.is_some())).count();
    assert_eq!(ended, deployment().tests.len(), "every test has ended");
    assert!(
        outcome.verdicts.iter().any(|verdict| verdict.rule == "batches_even"),
        "the databases' batches were compared"
    );
    let totals = simulation.host("a").io_totals();
    let issued = |direction| match direction {
        Direction::Read => (totals.reads, totals.read_bytes),
        Direction::Write => (totals.writes, totals.write_bytes),
    };
    for direction in [Direction::Read, Direction::Write] {
        assert_eq!(measured_without(None, &rows, direction), issued(direction));
    }
    // The simulated storage takes new databases over without a write.
    for class in IoClass::ALL.into_iter().filter(|class| *class != IoClass::InitWrite) {
        let direction = class.direction();
        let without = measured_without(Some(class), &rows, direction);
        assert_ne!(
            without,
            issued(direction),
            "no I/O of class {class:?}: nothing would notice if it were not counted"
        );
    }
    assert_copies_stay_small(&simulation);
}

/// Pages of a copy that the load has not changed are known without their bytes: copies of terabytes have to fit into memory.
fn assert_copies_stay_small(simulation: &Simulation) {
    let world = simulation.host("a");
    simulation.run_until(async {
        let mut copies = 0;
        for instance in &deployment().instances {
            for database in &instance.databases {
                let page_bytes = instance.page_bytes as usize;
                let copy = format!("{}/backup/{}.backup.edb", database.dir, database.name);
                let copy = world.open(&copy, OpenMode::Read).await.expect("there is a copy");
                let pages = copy.size().await.expect("it has a size") as usize / page_bytes;
                let bufs = (0..pages).map(|_| PageBuf::empty(page_bytes)).collect();
                let (read, bufs) = copy.read_at(0, bufs).await;
                read.expect("it is readable");
                let pristine = bufs.iter().filter(|page| page.pristine().is_some()).count();
                assert!(pristine > pages / 10, "{pristine} of {pages}");
                copies += 1;
            }
        }
        assert!(copies > 0);
    });
}

#[test]
fn equal_seeds_give_equal_rows_and_others_do_not() {
    let load = |kind| matches!(kind, TestKind::Init | TestKind::Performance | TestKind::DatabaseChecksum);
    let one = |seed| {
        let simulation = simulation(seed);
        let (_, rows) = run_tests(&simulation, seed, load);
        (simulation.trace_hash(), format!("{rows:?}"))
    };
    let first = one(3);
    assert!(first == one(3), "the same seed repeats every operation and every row");
    assert_ne!(first.0, one(4).0, "another seed is another run");
}

/// A stress test that fails by what `break_it` does to the storage is a failed verdict with its cause; once `mend` has
/// put that right the databases recover and pass again. Returns the message.
fn fails_and_recovers(
    seed: u64,
    break_it: impl FnOnce(&Simulation),
    mend: impl FnOnce(&Simulation),
) -> String {
    let simulation = simulation(seed);
    let (outcome, _) = run_tests(&simulation, seed, |kind| kind == TestKind::Init);
    assert!(outcome.passed(), "{:?}", outcome.error);

    break_it(&simulation);
    let (outcome, rows) = run_tests(&simulation, seed, |kind| kind == TestKind::Stress);
    let error = outcome.error.as_ref().expect("the storage has failed");
    assert!(error.is_finding(), "{error}");
    assert!(!outcome.passed());
    assert_eq!(failures(&outcome).len(), 1, "{:?}", failures(&outcome));
    assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.text == error.to_string())));

    mend(&simulation);
    let again = |kind| matches!(kind, TestKind::Performance | TestKind::DatabaseChecksum);
    let (after, _) = run_tests(&simulation, seed, again);
    assert!(after.error.is_none(), "{:?}", after.error);
    assert_eq!(failures(&after), [""; 0]);
    error.to_string()
}

fn fails_by(seed: u64, faults: Faults) -> String {
    fails_and_recovers(
        seed,
        |simulation| simulation.set_faults(faults),
        |simulation| simulation.set_faults(Faults::default()),
    )
}

#[test]
fn a_failed_write_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(5, Faults { write_error: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn a_short_write_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(6, Faults { short_write: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn a_failed_read_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(7, Faults { read_error: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn a_short_read_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(8, Faults { short_read: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn a_full_disk_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(9, Faults { no_space: 0.0005, ..Faults::default() });
    assert!(message.contains("full") || message.contains("no space"), "{message}");
    // What is there may stay, but nothing may grow.
    let full = |simulation: &Simulation| {
        ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 1 << 20));
    };
    let empty = |simulation: &Simulation| {
        ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 16 << 30));
    };
    let message = fails_and_recovers(10, full, empty);
    assert!(message.contains("full") || message.contains("no space"), "{message}");
}
