//! Measures the shape of the load with the real engine, and how fast one core drives it.
//!
//! `cargo run --release -p campaign --example load_shape` prints the figures of docs/lab/fidelity.md in the
//! simulated world. `... load_shape real FOLDER CACHE_MIB RATIO WARM_UP BATCHES LOGS` prints them on real
//! files: FOLDER exists, and databases of RATIO times the cache are made in it, or used if they are there.
//! `simulated CACHE_MIB RATIO WARM_UP BATCHES LOGS` prints the same of a database of that size in the simulated
//! world. `memory` in the place of `real` leaves out maintenance and replication, uses the page cache of the
//! system, and prints the speed: for FOLDER in /dev/shm.
#![allow(
    clippy::disallowed_methods,
    reason = "it times the simulation itself, with the clock of the machine"
)]
#![allow(clippy::print_stdout, reason = "a program that prints tables")]

#[path = "../tests/it/shape/mod.rs"]
mod shape;

use std::time::Instant;

use results::IoClass;
use shape::{Bench, Counted, Outcome, Replayed, Setup, recover};
use workload::mix::Mix;
use world::Duration;
use world::real::{RealConfig, run};

const GIB: u64 = 1 << 30;

fn main() -> Outcome<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => shapes(12_000, 8_000, 100).and_then(|()| speed(4_000, 8_000)),
        ["shape", warm_up, batches, logs] => shapes(warm_up.parse()?, batches.parse()?, logs.parse()?),
        ["speed", warm_up, batches] => speed(warm_up.parse()?, batches.parse()?),
        ["real", folder, cache_mib, ratio, warm_up, batches, logs] => {
            let setup = setup_of(folder, cache_mib, ratio, warm_up, batches)?;
            real_shape(setup, logs.parse()?)
        }
        ["simulated", cache_mib, ratio, warm_up, batches, logs] => {
            simulated_shape(&setup_of("", cache_mib, ratio, warm_up, batches)?, logs.parse()?)
        }
        ["memory", folder, cache_mib, ratio, warm_up, batches] => {
            memory_speed(setup_of(folder, cache_mib, ratio, warm_up, batches)?)
        }
        _ => Err("usage: load_shape [shape WARM_UP BATCHES LOGS | speed WARM_UP BATCHES | \
                  real FOLDER CACHE_MIB RATIO WARM_UP BATCHES LOGS | \
                  simulated CACHE_MIB RATIO WARM_UP BATCHES LOGS | \
                  memory FOLDER CACHE_MIB RATIO WARM_UP BATCHES]"
            .into()),
    }
}

fn setup_of(folder: &str, cache_mib: &str, ratio: &str, warm_up: &str, batches: &str) -> Outcome<Setup> {
    let cache_bytes = cache_mib.parse::<u64>()? << 20;
    Ok(Setup {
        root: folder.to_owned().leak(),
        databases: 1,
        bytes: cache_bytes * ratio.parse::<u64>()?,
        cache_bytes,
        mix: Mix::EXCHANGE_2010,
        sessions: 2,
        warm_up: warm_up.parse()?,
        batches: batches.parse()?,
        is_instant: false,
        rest: Duration::ZERO,
        background: true,
        seed: 1,
    })
}

fn real_shape(setup: Setup, logs: u64) -> Outcome<()> {
    let (counted, replayed) = run(RealConfig::new("localhost"), |world| async move {
        let bench = Bench::warmed_up(&world, &setup).await?;
        let counted = bench.count().await?;
        bench.end().await?;
        let replayed = recover(&world, &setup, logs).await?;
        Outcome::Ok((counted, replayed))
    })??;
    print_shape(&counted);
    println!("\nsoft recovery of {logs} logs\n");
    print_recovery(&replayed);
    Ok(())
}

fn memory_speed(setup: Setup) -> Outcome<()> {
    let setup = Setup { background: false, sessions: 16, ..setup };
    let config = RealConfig { direct: false, ..RealConfig::new("localhost") };
    let (counted, cpu_seconds) = run(config, |world| async move {
        let bench = Bench::warmed_up(&world, &setup).await?;
        let before = cpu_seconds();
        let counted = bench.count().await?;
        let spent = cpu_seconds() - before;
        bench.end().await?;
        Outcome::Ok((counted, spent))
    })??;
    print_speed(&counted, counted.seconds, cpu_seconds);
    Ok(())
}

fn shapes(warm_up: u64, batches: u64, logs: u64) -> Outcome<()> {
    for gib in [512, 1024] {
        let setup = Setup {
            root: "",
            databases: 2,
            bytes: gib * GIB,
            cache_bytes: GIB / 4,
            mix: Mix::EXCHANGE_2010,
            sessions: 2,
            warm_up,
            batches,
            is_instant: false,
            rest: Duration::ZERO,
            background: true,
            seed: 1,
        };
        println!(
            "2 databases of {gib} GiB, {warm_up} batches each before counting, {batches} each counted\n"
        );
        simulated_shape(&setup, logs)?;
        println!();
    }
    Ok(())
}

fn simulated_shape(setup: &Setup, logs: u64) -> Outcome<()> {
    print_shape(&counted(setup)?.counted);
    println!("\nsoft recovery of {logs} logs of one database\n");
    let (simulation, world) = setup.simulation();
    print_recovery(&simulation.run_until(recover(&world, setup, logs))?);
    Ok(())
}

/// Storage answers at once, nothing runs beside the load.
fn speed(warm_up: u64, batches: u64) -> Outcome<()> {
    let setup = Setup {
        root: "",
        databases: 1,
        bytes: 1024 * GIB,
        cache_bytes: GIB / 4,
        mix: Mix::EXCHANGE_2010,
        sessions: 2,
        warm_up,
        batches,
        is_instant: true,
        rest: Duration::from_millis(250),
        background: false,
        seed: 1,
    };
    let Timed { counted, seconds, cpu_seconds } = counted(&setup)?;
    print_speed(&counted, seconds, cpu_seconds);
    Ok(())
}

fn print_speed(counted: &Counted, seconds: f64, cpu_seconds: f64) {
    let io = counted.count(IoClass::TransactionalRead) + counted.count(IoClass::TransactionalWrite);
    println!(
        "transactional_io {io} seconds {seconds:.3} cpu_seconds {cpu_seconds:.3} per_second {:.0} \
         per_cpu_second {:.0}",
        io / seconds,
        io / cpu_seconds
    );
}

/// Counts of a load, with the elapsed time and the processor time of the counted part.
struct Timed {
    counted: Counted,
    seconds: f64,
    cpu_seconds: f64,
}

fn counted(setup: &Setup) -> Outcome<Timed> {
    let (simulation, world) = setup.simulation();
    simulation.run_until(async {
        let bench = Bench::warmed_up(&world, setup).await?;
        let (started, cpu_before) = (Instant::now(), cpu_seconds());
        let counted = bench.count().await?;
        let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
        bench.end().await?;
        Ok(Timed { counted, seconds, cpu_seconds })
    })
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    // SAFETY: `rusage` is plain data for which all zeros is a value, and the call writes nothing else.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6).sum()
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
    let row = |name: &str, wanted: &str, measured: f64| println!("| {name} | {wanted} | {measured:.2} |");
    row("database header writes", "4.0", replayed.per_log(IoClass::HousekeepingWrite));
    row("pages written back", "-", replayed.per_full_log(IoClass::TransactionalWrite));
    row("log reads", "5.0", replayed.per_log(IoClass::LogRead));
    row("page reads", "420 to 540", replayed.per_full_log(IoClass::TransactionalRead));
    row("pages read", "-", replayed.pages_per_full_log(IoClass::TransactionalRead));
}
