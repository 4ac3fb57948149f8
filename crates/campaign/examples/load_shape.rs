//! Measures the shape of the load in the simulated world, with the real engine, and how fast one core drives it.
//!
//! `cargo run --release -p campaign --example load_shape` prints the tables of
//! docs/fidelity.md.
#![allow(
    clippy::disallowed_methods,
    reason = "it times the simulation itself, with the clock of the machine"
)]
#![allow(clippy::print_stdout, reason = "a program that prints tables")]

#[path = "../tests/shape/mod.rs"]
mod shape;

use std::time::Instant;

use results::IoClass;
use shape::{Bench, Counted, Outcome, Replayed, Setup, recover};
use world::Duration;

const GIB: u64 = 1 << 30;

fn main() -> Outcome<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => shapes(12_000, 8_000, 100).and_then(|()| speed(4_000, 8_000)),
        ["shape", warm_up, batches, logs] => shapes(warm_up.parse()?, batches.parse()?, logs.parse()?),
        ["speed", warm_up, batches] => speed(warm_up.parse()?, batches.parse()?),
        _ => Err("usage: load_shape [shape WARM_UP BATCHES LOGS | speed WARM_UP BATCHES]".into()),
    }
}

fn shapes(warm_up: u64, batches: u64, logs: u64) -> Outcome<()> {
    for gib in [512, 1024] {
        let setup = Setup {
            databases: 2,
            bytes: gib * GIB,
            sessions: 2,
            warm_up,
            batches,
            zero_latency_rest: None,
            background: true,
            seed: 1,
        };
        println!(
            "2 databases of {gib} GiB, {warm_up} batches each before counting, {batches} each counted\n"
        );
        print_shape(&counted(&setup)?.0);
        println!("\nsoft recovery of {logs} logs, one database of {gib} GiB\n");
        let (simulation, world) = setup.simulation();
        print_recovery(&simulation.run_until(recover(&world, &setup, logs))?);
        println!();
    }
    Ok(())
}

/// Storage answers at once, nothing runs beside the load.
fn speed(warm_up: u64, batches: u64) -> Outcome<()> {
    let setup = Setup {
        databases: 1,
        bytes: 1024 * GIB,
        sessions: 2,
        warm_up,
        batches,
        zero_latency_rest: Some(Duration::from_millis(250)),
        background: false,
        seed: 1,
    };
    let (counted, seconds) = counted(&setup)?;
    let io = counted.count(IoClass::TransactionalRead) + counted.count(IoClass::TransactionalWrite);
    println!("{:.0} transactional I/O per second on one core ({io} in {seconds:.2} s)", io / seconds);
    Ok(())
}

/// What was counted, and the time of the machine that the counted part took.
fn counted(setup: &Setup) -> Outcome<(Counted, f64)> {
    let (simulation, world) = setup.simulation();
    simulation.run_until(async {
        let bench = Bench::warmed_up(&world, setup).await?;
        let started = Instant::now();
        let counted = bench.count().await?;
        let seconds = started.elapsed().as_secs_f64();
        bench.end().await?;
        Ok((counted, seconds))
    })
}

fn print_shape(counted: &Counted) {
    println!("| quantity | wanted | measured |\n|---|---|---|");
    let row = |name: &str, wanted: &str, value: f64| println!("| {name} | {wanted} | {value:.2} |");
    row("page reads per batch", "28.3 +- 10 %", counted.per_batch(IoClass::TransactionalRead));
    row("page writes per batch", "13.0 +- 10 %", counted.per_batch(IoClass::TransactionalWrite));
    row("pages written per batch", "-", counted.pages_per_batch(IoClass::TransactionalWrite));
    row("read share, %", "67 to 70", counted.read_share());
    row("log writes per batch", "3.1 +- 10 %", counted.per_batch(IoClass::LogWrite));
    row("log file per batch, KiB", "30.6 +- 10 %", counted.log_file_kib_per_batch());
    row("log written per batch, KiB", "62 +- 10 %", counted.log_kib_written_per_batch());
    row("growth per batch, B", "14,000 +- 5 %", counted.growth_per_batch());
    row("replication reads per log and copy", "9.0 +- 3 %", counted.replication_reads_per_log());
    row("maintenance reads/s per database", "9.0 to 9.2", counted.maintenance_reads_per_s());
}

fn print_recovery(replayed: &Replayed) {
    println!("| quantity per log | wanted | measured |\n|---|---|---|");
    let row = |name: &str, wanted: &str, class| {
        println!("| {name} | {wanted} | {:.2} |", replayed.per_log(class));
    };
    row("database header writes", "4.0", IoClass::HousekeepingWrite);
    row("pages written back", "-", IoClass::TransactionalWrite);
    row("log reads", "5.0", IoClass::LogRead);
    row("page reads", "420 to 540", IoClass::TransactionalRead);
}
