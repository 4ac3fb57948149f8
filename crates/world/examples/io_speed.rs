//! What one I/O through [`world::World`] costs on this machine: operations per second, CPU time and latency.
//!
//! `io_speed FILE SIZE_MIB DEPTH SECONDS BLOCK_BYTES read|write|seq [uring|polling] [buffered]`
//!
//! `read` and `write` are random, `seq` reads in order. FILE is created if it does not exist; an existing one is
//! overwritten by `write` only. To compare with fio, alternate both on the same file (A B A B ...):
//! `fio --name=x --ioengine=io_uring --direct=1 --bs=32k --rw=randread --iodepth=DEPTH --filename=FILE --size=2G
//! --runtime=5 --time_based`.
#![allow(clippy::disallowed_methods, reason = "an example is a program of its own: it reads its arguments")]

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io::Write;
use std::rc::Rc;

use smallvec::smallvec;
use world::real::{Driver, RealConfig, run};
use world::{Duration, ErrorKind, File, OpenMode, PageBuf, Time, World};

#[derive(Clone)]
struct Job {
    path: String,
    blocks: u64,
    depth: usize,
    duration: Duration,
    block_bytes: usize,
    pattern: Pattern,
}

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    RandomRead,
    RandomWrite,
    SequentialRead,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [path, size_mib, depth, seconds, block_bytes, pattern, options @ ..] = &arguments[..] else {
        return Err("usage: io_speed FILE SIZE_MIB DEPTH SECONDS BLOCK_BYTES read|write|seq \
                    [uring|polling] [buffered]"
            .into());
    };
    let block_bytes = block_bytes.parse::<usize>()?;
    let job = Job {
        path: path.clone(),
        blocks: (size_mib.parse::<u64>()? << 20) / block_bytes as u64,
        depth: depth.parse()?,
        duration: Duration::from_secs_f64(seconds.parse()?),
        block_bytes,
        pattern: match pattern.as_str() {
            "read" => Pattern::RandomRead,
            "write" => Pattern::RandomWrite,
            "seq" => Pattern::SequentialRead,
            other => return Err(format!("unknown pattern {other}").into()),
        },
    };
    let mut config = RealConfig::new("localhost");
    for option in options {
        match option.as_str() {
            "uring" => config.driver = Driver::IoUring,
            "polling" => config.driver = Driver::Polling,
            "buffered" => config.direct = false,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let report = run(config, |world| measure(world, job))??;
    Ok(writeln!(std::io::stdout(), "{report}")?)
}

async fn measure(world: World, job: Job) -> world::Result<String> {
    let file = prepare(&world, &job).await?;
    let latencies_ns = Rc::new(RefCell::new(Vec::with_capacity(1 << 22)));
    let next = Rc::new(Cell::new(0));
    let (cpu_before, started) = (cpu_us(), world.now());
    let until = started + job.duration;
    let mut tasks = Vec::new();
    for _ in 0..job.depth {
        let lane = lane(world.clone(), file.clone(), job.clone(), until, next.clone(), latencies_ns.clone());
        tasks.push(world.spawn(lane));
    }
    for task in tasks {
        task.await?;
    }
    let (seconds, cpu_after) = (world.now().since(started).as_secs_f64(), cpu_us());
    let mut latencies_ns = latencies_ns.take();
    latencies_ns.sort_unstable();
    let count = latencies_ns.len();
    let percentile_us = |part: f64| latencies_ns[((count - 1) as f64 * part) as usize] as f64 / 1e3;
    let per_io = |index: usize| (cpu_after[index] - cpu_before[index]) / count as f64;
    Ok(format!(
        "{}; ios {count}; iops {:.0}; cpu {:.3} us/io (usr {:.3} sys {:.3}); p50 {:.1} us; p99 {:.1} us",
        world.describe(),
        count as f64 / seconds,
        per_io(0) + per_io(1),
        per_io(0),
        per_io(1),
        percentile_us(0.50),
        percentile_us(0.99),
    ))
}

/// Opens the file; writes it first if it does not exist.
async fn prepare(world: &World, job: &Job) -> world::Result<File> {
    match world.open(&job.path, OpenMode::ReadWrite).await {
        Err(error) if error.kind == ErrorKind::NotFound => {}
        opened => return opened,
    }
    let file = world.open(&job.path, OpenMode::CreateNew).await?;
    let chunk_bytes = 1 << 20;
    for offset in (0..job.blocks * job.block_bytes as u64).step_by(chunk_bytes) {
        let mut chunk = PageBuf::empty(chunk_bytes);
        for word in chunk.as_mut_slice().chunks_exact_mut(8) {
            word.copy_from_slice(&world.random_u64().to_le_bytes());
        }
        file.write_at(offset, smallvec![chunk]).await.0?;
    }
    file.sync().await?;
    Ok(file)
}

/// One I/O after the other until the time is up.
async fn lane(
    world: World,
    file: File,
    job: Job,
    until: Time,
    next: Rc<Cell<u64>>,
    latencies_ns: Rc<RefCell<Vec<u64>>>,
) -> world::Result<()> {
    let mut bufs = smallvec![PageBuf::empty(job.block_bytes)];
    loop {
        let started = world.now();
        if started >= until {
            return Ok(());
        }
        let block = match job.pattern {
            Pattern::SequentialRead => next.replace(next.get() + 1) % job.blocks,
            Pattern::RandomRead | Pattern::RandomWrite => world.random_u64() % job.blocks,
        };
        let offset = block * job.block_bytes as u64;
        let result;
        (result, bufs) = match job.pattern {
            Pattern::RandomWrite => file.write_at(offset, bufs).await,
            Pattern::RandomRead | Pattern::SequentialRead => file.read_at(offset, bufs).await,
        };
        result?;
        latencies_ns.borrow_mut().push(world.now().since(started).as_nanos() as u64);
    }
}

/// User and system CPU time of this process so far, in microseconds.
fn cpu_us() -> [f64; 2] {
    // SAFETY: `rusage` is plain data for which all zeros is a value, and the call writes nothing else.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 * 1e6 + time.tv_usec as f64)
}
