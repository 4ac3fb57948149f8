//! The shape of the load, measured with the real engine in the simulated world, against the published figures
//! (docs/fidelity.md). `cargo run --release -p campaign --example load_shape` measures longer.

use crate::shape::{Bench, Counted, Setup, recover};
use results::IoClass;
use workload::mix::{BatchShape, Mix};
use world::Duration;

const CACHE_BYTES: u64 = 256 << 20;
/// 2,000 times the page cache, which is where the published runs are.
const DATABASE_BYTES: u64 = 2_000 * CACHE_BYTES;

fn setup(warm_up: u64, batches: u64) -> Setup {
    Setup {
        root: "",
        databases: 1,
        bytes: DATABASE_BYTES,
        cache_bytes: CACHE_BYTES,
        mix: Mix::EXCHANGE_2010,
        sessions: 2,
        warm_up,
        batches,
        is_instant: false,
        rest: Duration::ZERO,
        background: true,
        seed: 7,
    }
}

/// What the batches of a setup cost.
fn counted(setup: &Setup) -> Counted {
    let (simulation, world) = setup.simulation();
    let counted = simulation.run_until(async {
        let bench = Bench::warmed_up(&world, setup).await?;
        let counted = bench.count().await?;
        bench.end().await.map(|()| counted)
    });
    counted.unwrap()
}

fn assert_within(what: &str, measured: f64, wanted: f64, tolerance_pct: f64) {
    let off_pct = (measured / wanted - 1.0) * 100.0;
    assert!(off_pct.abs() <= tolerance_pct, "{what}: {measured:.2} instead of {wanted} +- {tolerance_pct} %");
}

#[test]
fn a_batch_costs_what_the_published_runs_show() {
    let setup = setup(1_500, 2_000);
    let counted = counted(&setup);
    assert_within("page reads per batch", counted.per_batch(IoClass::TransactionalRead), 28.3, 10.0);
    assert_within("page writes per batch", counted.per_batch(IoClass::TransactionalWrite), 13.0, 10.0);
    // Neighbours share a write.
    let pages_per_write =
        counted.pages_per_batch(IoClass::TransactionalWrite) / counted.per_batch(IoClass::TransactionalWrite);
    assert!(pages_per_write > 1.02, "{pages_per_write:.3} pages per write");
    assert_within("read share", counted.read_share(), 68.5, 2.2);
    assert_within("log writes per batch", counted.per_batch(IoClass::LogWrite), 3.1, 10.0);
    assert_within("log file KiB per batch", counted.log_file_kib_per_batch(), 30.6, 10.0);
    assert_within("log KiB written per batch", counted.log_kib_written_per_batch(), 62.0, 10.0);
    assert_within("growth per batch", counted.growth_per_batch(), 14_000.0, 5.0);
    assert_within("replication reads per log", counted.replication_reads_per_log(), 9.0, 3.0);
    assert_within("maintenance reads per second", counted.maintenance_reads_per_s(), 9.1, 1.1);
}

/// The published run of ESE 15.00.0516: half as much I/O again at equal growth.
#[test]
fn a_batch_of_the_early_engine_costs_what_its_published_run_shows() {
    let setup =
        Setup { mix: Mix { shape: BatchShape::TwoRows, ..Mix::EXCHANGE_2010 }, ..setup(1_500, 2_000) };
    let counted = counted(&setup);
    assert_within("page reads per batch", counted.per_batch(IoClass::TransactionalRead), 41.5, 10.0);
    assert_within("page writes per batch", counted.per_batch(IoClass::TransactionalWrite), 19.9, 10.0);
    assert_within("growth per batch", counted.growth_per_batch(), 14_000.0, 5.0);
}

#[test]
fn replaying_a_log_costs_what_the_published_recoveries_show() {
    let setup = setup(0, 0);
    let (simulation, world) = setup.simulation();
    let replayed = simulation.run_until(recover(&world, &setup, 40)).unwrap();
    // The published reports count 4.0 database writes per log and no pages written back. These are the writes
    // of the database's header: two copies before and after each log. Pages written back are another class, see
    // docs/fidelity.md.
    assert_within("database header writes per log", replayed.per_log(IoClass::HousekeepingWrite), 4.0, 5.0);
    assert_within("log reads per log", replayed.per_log(IoClass::LogRead), 5.0, 5.0);
    assert_within("page reads per log", replayed.per_full_log(IoClass::TransactionalRead), 480.0, 12.5);
}

/// A database of 60 times the cache costs the same if few logs are replayed. A third of the pages that a log changes
/// are index leaves, and a small index has few of them, so that further logs change the same leaves again.
#[test]
fn replaying_few_logs_of_a_small_database_costs_the_same() {
    let cache_bytes = 384 << 20;
    let setup = Setup { bytes: 60 * cache_bytes, cache_bytes, ..setup(0, 0) };
    let (simulation, world) = setup.simulation();
    let replayed = simulation.run_until(recover(&world, &setup, 3)).unwrap();
    assert_within("page reads per log", replayed.per_full_log(IoClass::TransactionalRead), 480.0, 12.5);
}
