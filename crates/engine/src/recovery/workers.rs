//! Redo by page: workers on the shards of the world, each with its own pages of all databases, its own cache and
//! its own files. The thread that opens the instance reads the log, hands out what it says of pages, and keeps
//! what it says of transactions and of the length of files.
//!
//! Invariants
//! 1. A page is read, redone and written by one worker only (`divide`).
//! 2. The length of a file changes before anything is handed out that comes behind that in the log: a file is cut
//!    first to what it had before, and what was written there since would go. What comes before names no page
//!    behind the old end, so it may still be in work.
//! 3. No page is written because redo has ended before all workers have ended it and every page is proven; the
//!    opening goes on only when all workers have written and synced theirs.
//! 4. What a worker has read and written is counted with its databases after each part, however it ends, and an
//!    opening that is dropped is over only when its workers have ended (`Poison::working`).
//!
//! Limits: a worker has a part in work and five ahead, of one log each, and a share of the memory of the cache.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;

use btree::PageRecordKind;
use futures_util::StreamExt;
use futures_util::future::{Either, join_all, select};
use world::channel::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, oneshot, unbounded};
use world::{CodecMaker, OpenMode, Task, World};

use super::divide::WorkerRecords;
use super::pages::PageStates;
use super::preread::{Pace, Prereader};
use super::thread_share::ThreadShare;
use super::{Recovery, RecoveryReport, WRITES_OUTSTANDING};
use crate::cache::{Cache, CachedDatabase, RedoFor, Scavenger};
use crate::config::{DatabaseConfig, InstanceConfig};
use crate::database::coding;
use crate::error::{Error, Result};
use crate::io::{Counters, FileCounters, IoFile};
use crate::signal::Poison;

/// Number of parts whose pages a worker reads while it redoes the one before.
const PARTS_AHEAD: usize = 4;
/// Largest number of reads of each worker at a time.
const READS_OUTSTANDING: usize = 32;

/// Order for a worker.
enum Order {
    Redo(WorkerRecords),
    /// Finish: there is no more to redo.
    Finish(oneshot::Sender<(PageStates, RecoveryReport)>),
    /// Write and sync the redone pages.
    Write(oneshot::Sender<()>),
}

/// Counts of a worker since its last report, by database.
type Counted = Vec<FileCounters>;

/// Redo workers of an opening.
pub(super) struct Workers(Vec<Worker>);

struct Worker {
    orders: Sender<Order>,
    ended: Task<Result<()>>,
}

/// Configuration of the instance in a form that can be sent to a worker's thread.
struct Plan {
    log_directory: String,
    page_bytes: usize,
    cache_bytes_per_database: u64,
    flush: (f64, f64),
    databases: Vec<PlannedDatabase>,
    writes_outstanding: usize,
}

struct PlannedDatabase {
    path: String,
    template_id: Option<u64>,
    codec: Option<CodecMaker>,
}

impl Plan {
    /// Builds the configuration; `None` if a database's codec is bound to its thread.
    fn new(config: &InstanceConfig, workers: usize) -> Option<Plan> {
        let planned = |database: &DatabaseConfig| {
            let codec = match &database.codec {
                Some(codec) => Some(codec.elsewhere()?),
                None => None,
            };
            let (path, template_id) = (database.path.clone(), database.template_id);
            Some(PlannedDatabase { path, template_id, codec })
        };
        Some(Plan {
            log_directory: config.log_directory.clone(),
            page_bytes: config.page_bytes,
            cache_bytes_per_database: config.cache_bytes_per_database / workers as u64,
            flush: (config.flush_start, config.flush_stop),
            databases: config.databases.iter().map(planned).collect::<Option<_>>()?,
            writes_outstanding: (WRITES_OUTSTANDING / workers).max(1),
        })
    }

    /// Instance configuration with counters of its own.
    fn config(self) -> InstanceConfig {
        let databases = self.databases.into_iter().map(|database| DatabaseConfig {
            codec: database.codec.map(|make| make()),
            template_id: database.template_id,
            ..DatabaseConfig::new(&database.path)
        });
        InstanceConfig {
            cache_bytes_per_database: self.cache_bytes_per_database,
            flush_start: self.flush.0,
            flush_stop: self.flush.1,
            databases: databases.collect(),
            ..InstanceConfig::new(&self.log_directory, self.page_bytes)
        }
    }
}

impl Workers {
    /// Starts one worker for each shard; `None` if a database is bound to its thread.
    pub(super) fn start(recovery: &Recovery<'_>) -> Option<Workers> {
        let shards = recovery.world.shards().max(1);
        let plans: Vec<Plan> =
            (0..shards).map(|_| Plan::new(recovery.config, shards)).collect::<Option<_>>()?;
        let started = plans.into_iter().enumerate().map(|(index, plan)| {
            let (orders, received) = channel(0);
            let (end, ended) = oneshot::channel();
            let (counts, counted) = unbounded();
            recovery.world.spawn_shard(index, move |world| {
                Box::pin(async move {
                    // Without a receiver the host of the opening is gone.
                    let _ = end.send(work(&world, plan, received, counts).await);
                })
            });
            Worker { orders, ended: await_end(recovery, ended, counted) }
        });
        Some(Workers(started.collect()))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Passes the next parts to the workers; waits while one has as many as allowed.
    ///
    /// # Errors
    /// If a worker has ended; [`Workers::end`] says why.
    pub(super) async fn redo(&mut self, parts: Vec<WorkerRecords>) -> Result<()> {
        for (worker, part) in self.0.iter_mut().zip(parts).filter(|(_, part)| part.records.len() > 0) {
            worker.tell(Order::Redo(part)).await?;
        }
        Ok(())
    }

    /// Waits until all is redone, and takes over the workers' knowledge of their pages.
    pub(super) async fn finish(&mut self, pages: &mut PageStates, report: &mut RecoveryReport) -> Result<()> {
        for (found, counted) in self.ask(Order::Finish).await? {
            pages.merge(found);
            report.changes_applied += counted.changes_applied;
            report.pages_repaired += counted.pages_repaired;
            report.branches.merge(&counted.branches);
        }
        Ok(())
    }

    /// Waits until all redone pages are in the files, durably.
    pub(super) async fn write(&mut self) -> Result<()> {
        self.ask(Order::Write).await.map(drop)
    }

    /// Waits until no worker uses the files. The failure of a worker takes precedence over `redone`, which says only
    /// that one is gone.
    pub(super) async fn end(self, redone: Result<()>) -> Result<()> {
        let ended: Vec<_> = self.0.into_iter().map(|worker| worker.ended).collect();
        join_all(ended).await.into_iter().collect::<Result<()>>().and(redone)
    }

    async fn ask<T>(&mut self, order: impl Fn(oneshot::Sender<T>) -> Order) -> Result<Vec<T>> {
        let mut answers = Vec::new();
        for worker in &mut self.0 {
            let (answer, answered) = oneshot::channel();
            worker.tell(order(answer)).await?;
            answers.push(answered);
        }
        join_all(answers).await.into_iter().map(|answer| answer.map_err(|_| gone())).collect()
    }
}

impl Worker {
    async fn tell(&mut self, order: Order) -> Result<()> {
        if send(&mut self.orders, order).await { Ok(()) } else { Err(gone()) }
    }
}

/// Sends a message when there is room; `false` if the receiver is gone.
pub(super) async fn send<T>(to: &mut Sender<T>, message: T) -> bool {
    poll_fn(|cx| to.poll_ready(cx)).await.is_ok() && to.start_send(message).is_ok()
}

fn gone() -> Error {
    Error::Stopped("a worker of redo has ended".to_owned())
}

/// Adds the counts of a worker until it ends; until then the opening uses the files.
fn await_end(
    recovery: &Recovery<'_>,
    ended: oneshot::Receiver<Result<()>>,
    mut counted: UnboundedReceiver<Counted>,
) -> Task<Result<()>> {
    let working = recovery.cache.poison().working();
    let counters: Vec<Counters> =
        recovery.databases.iter().map(|database| database.counters.clone()).collect();
    recovery.world.spawn(async move {
        let _working = working;
        while let Some(counted) = counted.next().await {
            for (counters, counted) in counters.iter().zip(&counted) {
                counters.merge(counted);
            }
        }
        // A run that fails ends its threads, and their workers say nothing any more.
        ended.await.unwrap_or_else(|_| Err(gone()))
    })
}

/// Main loop of a worker. It ends early, without an error, if its channel of orders is closed.
async fn work(
    world: &World,
    plan: Plan,
    orders: Receiver<Order>,
    counts: UnboundedSender<Counted>,
) -> Result<()> {
    let writes_outstanding = plan.writes_outstanding;
    let config = plan.config();
    let tell = || {
        let counted = config.databases.iter().map(|database| database.counters.take()).collect();
        // An opening that was dropped still hears it; without its thread there are no counts.
        let _ = counts.unbounded_send(counted);
    };
    let cache = Cache::new(world, &Poison::default(), &config);
    let scavenger = Scavenger::start(world, &cache, &config.dropped);
    let result = follow_orders((world, &config, &cache), orders, writes_outstanding, &tell).await;
    scavenger.end(&Error::Stopped("redo has ended".to_owned())).await;
    tell();
    result
}

async fn follow_orders(
    (world, config, cache): (&World, &InstanceConfig, &Cache),
    mut orders: Receiver<Order>,
    writes_outstanding: usize,
    tell: &impl Fn(),
) -> Result<()> {
    for (id, database) in (1..=255).zip(&config.databases) {
        let file = IoFile::open(world, &database.path, OpenMode::ReadWrite, &database.counters).await?;
        let coding = coding(database, config.page_bytes);
        let cached = CachedDatabase::new(file, coding, database.template_id, None);
        cache.attach(id, cached, config.cache_bytes_per_database);
    }
    cache.set_redo(Some(RedoFor::Worker));
    let prereader = Prereader::start(world, cache, READS_OUTSTANDING, Pace::OfReads);
    let (mut pages, mut report) = (PageStates::default(), RecoveryReport::default());
    let redone = redo_parts((world, cache), &mut orders, &prereader, (&mut pages, &mut report), tell).await;
    prereader.stop().await;
    cache.set_redo(None);
    let Some(finish) = redone? else { return Ok(()) };
    // An opening that was dropped hears no answer, and gives no order any more.
    let _ = finish.send((pages, report));
    if let Some(Order::Write(written)) = orders.next().await {
        cache.write_all(writes_outstanding).await?;
        cache.assert_all_written();
        let _ = written.send(());
    }
    Ok(())
}

/// Redoes parts up to the final order, which it returns; `None` if the opening was dropped or failed.
async fn redo_parts(
    (world, cache): (&World, &Cache),
    orders: &mut Receiver<Order>,
    prereader: &Prereader,
    (pages, report): (&mut PageStates, &mut RecoveryReport),
    tell: &impl Fn(),
) -> Result<Option<oneshot::Sender<(PageStates, RecoveryReport)>>> {
    let mut waiting = VecDeque::new();
    loop {
        let order = match waiting.pop_front() {
            Some(order) => Some(order),
            None => next_order(orders, prereader).await,
        };
        match order {
            Some(Order::Redo(part)) => {
                let redoing = pin!(redo_part((world, cache), part, prereader, pages, report));
                let receiving = pin!(receive(orders, &mut waiting, prereader));
                match select(redoing, receiving).await {
                    Either::Left((redone, _)) => redone?,
                    Either::Right(((), redoing)) => redoing.await?,
                }
                tell();
            }
            Some(Order::Finish(finish)) => return Ok(Some(finish)),
            Some(Order::Write(_)) | None => return Ok(None),
        }
    }
}

/// Receives orders until as many wait as may; the reads of a part begin when it arrives.
async fn receive(orders: &mut Receiver<Order>, waiting: &mut VecDeque<Order>, prereader: &Prereader) {
    while waiting.len() < PARTS_AHEAD
        && let Some(order) = next_order(orders, prereader).await
    {
        waiting.push_back(order);
    }
}

async fn next_order(orders: &mut Receiver<Order>, prereader: &Prereader) -> Option<Order> {
    let mut order = orders.next().await;
    if let Some(Order::Redo(part)) = &mut order {
        prereader.add(std::mem::take(&mut part.runs));
    }
    order
}

async fn redo_part(
    (world, cache): (&World, &Cache),
    part: WorkerRecords,
    prereader: &Prereader,
    pages: &mut PageStates,
    report: &mut RecoveryReport,
) -> Result<()> {
    let mut share = ThreadShare::new(world);
    for said in part.records.iter() {
        let (end, is_page) = (said.at.1, said.record.kind == PageRecordKind::Image);
        pages.replay(cache, std::iter::once(said), report).await?;
        prereader.passed(end);
        share.replayed(is_page).await;
    }
    Ok(())
}
