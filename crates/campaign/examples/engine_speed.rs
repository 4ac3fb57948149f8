//! What the engine makes of this machine's disk; `tools/bench` runs it in turn with fio.
//!
//! `engine_speed init FOLDER MIB` makes `FOLDER/bench.edb`, which the others use: `reads FOLDER DEPTH SECONDS`
//! random pages on a cold cache; `checksum FOLDER READ_KIB DEPTH`; `backup FOLDER READ_KIB DEPTH`; `logs FOLDER
//! BATCHES` writes logs and stops as a crash would, `recovery FOLDER [DEPTH]` times the opening after that, with
//! redo in the order of the log and this many reads ahead, or by page. Each prints one line of `name value` pairs.
#![allow(clippy::disallowed_methods, reason = "an example is a program of its own: it reads its arguments")]

use std::cell::RefCell;
use std::error::Error;
use std::io::Write;
use std::rc::Rc;

use engine::{
    Counters, DatabaseConfig, Instance, InstanceConfig, Progress, RecoveryReport, Redo, StopSignal,
    StreamConfig,
};
use futures_util::future::join_all;
use smallvec::smallvec;
use workload::codec::DatabaseCodec;
use workload::mix::Mix;
use workload::schema::Tree;
use workload::session::Mailboxes;
use workload::template::TemplateDatabase;
use world::real::{RealConfig, run};
use world::{Duration, OpenMode, PageBuf, TemplatePages, World};

const PAGE_BYTES: usize = 32 << 10;
/// Small against the file, so that random reads miss.
const COLD_CACHE_BYTES: u64 = 2 << 20;
/// Pages leave it while logs are generated, as they do in the published tests: recovery finds most of them written.
const GENERATION_CACHE_BYTES: u64 = 64 << 20;
/// Holds every page that the logs change.
const RECOVERY_CACHE_BYTES: u64 = 512 << 20;
/// Batches under way at once while logs are generated.
const SESSIONS: u64 = 16;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [what, folder, numbers @ ..] = &arguments[..] else {
        return Err("usage: engine_speed init|reads|checksum|backup|logs|recovery FOLDER NUMBER ...".into());
    };
    let (what, folder) = (what.clone(), folder.clone());
    let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
    let line = run(RealConfig::new("localhost"), |world| async move {
        match (what.as_str(), &numbers[..]) {
            ("init", [mib]) => init(&world, &folder, mib << 20).await,
            ("reads", [depth, seconds]) => reads(&world, &folder, *depth, *seconds).await,
            ("checksum", [kib, depth]) => checksum(&world, &folder, stream(*kib, *depth)).await,
            ("backup", [kib, depth]) => backup(&world, &folder, stream(*kib, *depth)).await,
            ("logs", [batches]) => logs(&world, &folder, *batches).await,
            ("recovery", [depth]) => recovery(&world, &folder, Redo::InLogOrder, *depth as usize).await,
            ("recovery", []) => recovery(&world, &folder, Redo::ByPage, 0).await,
            _ => Err("unknown measurement, or a wrong number of arguments".into()),
        }
    })??;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn stream(read_kib: u64, depth: u64) -> StreamConfig {
    StreamConfig { read_bytes: read_kib << 10, depth: depth as usize }
}

fn path(folder: &str) -> String {
    format!("{folder}/bench.edb")
}

async fn init(world: &World, folder: &str, bytes: u64) -> Outcome<String> {
    let template = Rc::new(TemplateDatabase::of_size(PAGE_BYTES as u32, bytes, 256, 1, 50)?);
    let bytes = template.pages() * PAGE_BYTES as u64;
    let codec = Rc::new(DatabaseCodec::new(template.clone()));
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let started = world.now();
    engine::create_database(world, &path(folder), template, codec, &counters, &progress, &stop).await?;
    Ok(rate(bytes, world.now().since(started).as_secs_f64()))
}

fn rate(bytes: u64, seconds: f64) -> String {
    format!("mib_per_s {:.1} seconds {seconds:.4}", bytes as f64 / (1 << 20) as f64 / seconds)
}

async fn template_of(world: &World, folder: &str) -> Outcome<Rc<TemplateDatabase>> {
    let file = world.open(&path(folder), OpenMode::Read).await?;
    let offset = (u64::from(TemplateDatabase::SHAPE_PAGE) + 1) * PAGE_BYTES as u64;
    let (result, bufs) = file.read_at(offset, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
    result?;
    Ok(Rc::new(TemplateDatabase::of_shape_page(bufs[0].as_slice())?))
}

fn config(folder: &str, template: &Rc<TemplateDatabase>, cache_bytes: u64) -> InstanceConfig {
    let mut config = InstanceConfig::new(folder, PAGE_BYTES);
    config.cache_bytes_per_database = cache_bytes;
    config.databases.push(DatabaseConfig {
        codec: Some(Rc::new(DatabaseCodec::new(template.clone()))),
        template_id: Some(template.id()),
        nodes: Some(template.clone()),
        ..DatabaseConfig::new(&path(folder))
    });
    config
}

async fn reads(world: &World, folder: &str, depth: u64, seconds: u64) -> Outcome<String> {
    let template = template_of(world, folder).await?;
    let (instance, _) = Instance::open(world, &config(folder, &template, COLD_CACHE_BYTES)).await?;
    let first = template.layout().run(Tree::Rows).ok_or("the database has no rows")?.first();
    let pages = u64::from(template.layout().first_free() - first);
    let (before, started) = (world.io_totals().reads, world.now());
    let until = started + Duration::from_secs(seconds);
    let reader = || async {
        while world.now() < until {
            let pgno = first + (world.random_u64() % pages) as u32;
            instance.begin().read(1, |pager| pager.page(pgno).map(drop)).await?;
        }
        Ok::<_, engine::Error>(())
    };
    join_all((0..depth).map(|_| reader())).await.into_iter().collect::<Result<(), _>>()?;
    let elapsed_s = world.now().since(started).as_secs_f64();
    let count = world.io_totals().reads - before;
    instance.close().await?;
    Ok(format!("iops {:.0} reads {count}", count as f64 / elapsed_s))
}

async fn checksum(world: &World, folder: &str, stream: StreamConfig) -> Outcome<String> {
    let id = Some(template_of(world, folder).await?.id());
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let path = path(folder);
    let report =
        engine::check_database(world, &path, PAGE_BYTES, id, stream, &counters, &progress, &stop).await?;
    if !report.findings.is_clean() {
        return Err(format!("bad pages: {:?}", report.findings).into());
    }
    Ok(rate(report.bytes, report.seconds))
}

async fn backup(world: &World, folder: &str, stream: StreamConfig) -> Outcome<String> {
    let template = template_of(world, folder).await?;
    let (instance, _) = Instance::open(world, &config(folder, &template, COLD_CACHE_BYTES)).await?;
    let report = instance.back_up(1, stream, None, &Progress::default(), &StopSignal::new()).await?;
    instance.close().await?;
    Ok(rate(report.bytes, report.seconds))
}

fn keeping_logs(folder: &str, template: &Rc<TemplateDatabase>, cache_bytes: u64) -> InstanceConfig {
    let mut config = config(folder, template, cache_bytes);
    config.circular_logging = false;
    config.checkpoint_depth_bytes = u64::MAX / 2;
    config
}

async fn logs(world: &World, folder: &str, batches: u64) -> Outcome<String> {
    let template = template_of(world, folder).await?;
    let config = keeping_logs(folder, &template, GENERATION_CACHE_BYTES);
    let started = world.now();
    let instance = Rc::new(Instance::open(world, &config).await?.0);
    let mailboxes = Mailboxes::open(instance.clone(), 1, template).await?;
    let numbers = RefCell::new(0..batches);
    let seed = world.random_u64();
    let session = || async {
        loop {
            let Some(number) = numbers.borrow_mut().next() else { return Ok::<_, Box<dyn Error>>(()) };
            mailboxes.batch(&Mix::EXCHANGE_2010, seed, 0, number, number as u32).await?;
        }
    };
    join_all((0..SESSIONS).map(|_| session())).await.into_iter().collect::<Outcome<()>>()?;
    drop(mailboxes);
    Rc::try_unwrap(instance).map_err(|_| "the instance is still in use")?.abandon().await;
    Ok(format!("seconds {:.4}", world.now().since(started).as_secs_f64()))
}

async fn recovery(world: &World, folder: &str, redo: Redo, depth: usize) -> Outcome<String> {
    let template = template_of(world, folder).await?;
    let mut config = keeping_logs(folder, &template, RECOVERY_CACHE_BYTES);
    (config.redo, config.recovery_reads_outstanding) = (redo, depth);
    let (before, started) = (world.io_totals(), world.now());
    let (instance, report) = Instance::open(world, &config).await?;
    let seconds = world.now().since(started).as_secs_f64();
    let after = world.io_totals();
    instance.close().await?;
    let RecoveryReport { logs_replayed, redo_seconds, write_seconds, undo_seconds, .. } = report;
    let (reads, writes) = (after.reads - before.reads, after.writes - before.writes);
    Ok(format!(
        "seconds {seconds:.4} reads {reads} writes {writes} logs {logs_replayed} redo_s {redo_seconds:.4} \
         write_s {write_seconds:.4} undo_s {undo_seconds:.4}"
    ))
}
