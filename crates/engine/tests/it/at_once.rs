//! Two that work on the same thing at once.

use std::rc::Rc;

use crate::common::{check_structure, create, scan, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig};
use futures_util::future::abortable;
use world::sim::{
    FixedLatency, FixedLatencyTimes, RequestId, SimConfig, Simulation, StorageModel, StorageOp,
    StorageRequest, VolumeId,
};
use world::{Duration, Task, Time, World};

fn simulation(storage: impl StorageModel + 'static) -> (Simulation, World) {
    let sim = Simulation::new(1, SimConfig { storage: Box::new(storage), ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

fn plain() -> (Simulation, World) {
    simulation(FixedLatency::new(1, FixedLatencyTimes::default()))
}

async fn with_rows(world: &World, rows: u32) -> (InstanceConfig, Instance) {
    // One log: a roll waits for the storage of the databases.
    let config = InstanceConfig { log_bytes: 8 << 20, ..create(world, 1, 1).await };
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    for n in 0..rows {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[1; 300]).await.unwrap();
        transaction.commit(Durability::Lazy).await.unwrap();
    }
    (config, instance)
}

/// A passive copy asks for pages that may belong to no tree here, and a tree may take them meanwhile.
#[test]
fn a_page_made_anew_while_its_place_is_read_stays() {
    let (sim, world) = plain();
    sim.run_until(async {
        let (_, instance) = with_rows(&world, 1).await;
        let instance = std::rc::Rc::new(instance);
        let next_free = tree_number(0).fdp + 3;
        let asking = [0, 1, 2].map(|n| {
            let instance = instance.clone();
            world.spawn(async move { instance.copy_page(1, next_free + n).await.map(drop) })
        });
        for n in 1..40u32 {
            let mut transaction = instance.begin();
            transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[1; 300]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        for asking in asking {
            asking.await.unwrap();
        }
        check_structure(&instance, 1, 1).await.unwrap();
        assert_eq!(scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len(), 40);
    });
}

/// Time after which the storage of the databases becomes slow.
const SLOW_AFTER: Duration = Duration::from_secs(600);

/// Page reads or writes take ten seconds, one after the other, from a moment on.
struct SlowDatabase {
    databases: Option<VolumeId>,
    op: StorageOp,
    slow: FixedLatency,
    fast: FixedLatency,
}

impl SlowDatabase {
    fn new(op: StorageOp) -> SlowDatabase {
        let fast = FixedLatencyTimes::default();
        let latency = Duration::from_secs(10);
        let slow = FixedLatencyTimes { read_latency: latency, write_latency: latency, parallel: 1, ..fast };
        let (slow, fast) = (FixedLatency::new(1, slow), FixedLatency::new(2, fast));
        SlowDatabase { databases: None, op, slow, fast }
    }
}

impl StorageModel for SlowDatabase {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        if path == "/db" {
            self.databases = Some(volume);
        }
        self.slow.attach(volume, host, path);
        self.fast.attach(volume, host, path);
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        let is_slow = self.databases == Some(request.volume) && request.op == self.op;
        let storage =
            if is_slow && now.ns > SLOW_AFTER.as_nanos() as u64 { &mut self.slow } else { &mut self.fast };
        storage.submit(now, request);
    }

    fn next_completion(&self) -> Option<Time> {
        self.slow.next_completion().into_iter().chain(self.fast.next_completion()).min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.slow.take_completions(now, completed);
        self.fast.take_completions(now, completed);
    }
}

/// A write of an instance that has ended would put an old page over one that the next instance has written.
#[test]
fn nothing_is_written_behind_an_instance_that_was_abandoned() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Write));
    sim.run_until(async {
        let (_, instance) = with_rows(&world, 3000).await;
        world.sleep(SLOW_AFTER).await;
        // More than the cache has room for, and hardly ever neighbours: several writes are under way.
        for n in (0..1000u32).map(|n| n * 1009 % 3000) {
            let mut transaction = instance.begin();
            transaction.replace(1, tree_number(0), &n.to_be_bytes(), &[2; 300]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
        }
        let began = world.now();
        instance.abandon().await;
        let written = world.io_totals().writes;
        assert!(world.now().since(began) >= Duration::from_secs(1), "a page write was under way");
        world.sleep(Duration::from_secs(30)).await;
        assert_eq!(world.io_totals().writes, written);
    });
}

/// A dropped transaction is undone; closing the instance undoes open ones.
#[test]
fn a_transaction_that_was_dropped_is_taken_back_once_while_the_instance_closes() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Read));
    sim.run_until(async {
        const ROWS: u32 = 3000;
        let (config, instance) = with_rows(&world, ROWS).await;
        let mut undecided = instance.begin();
        for n in (0..7).map(|n| n * 400u32) {
            undecided.replace(1, tree_number(0), &n.to_be_bytes(), &[2; 300]).await.unwrap();
        }
        // The changed pages leave memory, so both have to wait for them.
        for n in (0..ROWS).filter(|n| n % 400 > 50).cycle().take(3 * ROWS as usize) {
            instance.begin().get(1, tree_number(0), &n.to_be_bytes()).await.unwrap();
            world.sleep(Duration::from_millis(10)).await;
        }
        world.sleep(SLOW_AFTER).await;
        let began = world.now();
        drop(undecided);
        instance.close().await.unwrap();
        assert!(world.now().since(began) >= Duration::from_secs(20), "the changed pages were in memory");
        let config = InstanceConfig { cache_bytes_per_database: 16 << 20, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        check_structure(&instance, 1, 1).await.unwrap();
        let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
        assert_eq!(rows.len(), ROWS as usize);
        let changed = rows.iter().filter(|(_, row)| row[..] != [1; 300]);
        assert_eq!(changed.map(|(key, _)| key).collect::<Vec<_>>(), Vec::<&Vec<u8>>::new());
    });
}

/// New pages take room without waiting for it; pages over the limit leave.
#[test]
fn a_cache_that_only_grows_is_brought_back_to_its_size() {
    let (sim, world) = plain();
    sim.run_until(async {
        let (_, instance) = with_rows(&world, 3000).await;
        world.sleep(Duration::from_secs(5)).await;
        let status = instance.cache_status();
        assert!(status.resident_bytes <= status.capacity_bytes, "{status:?}");
    });
}

/// Closing an instance rolls back open transactions; no other commit may come in between.
#[test]
fn a_transaction_that_goes_on_while_the_instance_closes_is_refused_and_taken_back() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Write));
    sim.run_until(async {
        const ROWS: u32 = 3000;
        let (config, instance) = with_rows(&world, ROWS).await;
        let (mut changed, mut begun, key) = (instance.begin(), instance.begin(), 7u32.to_be_bytes());
        changed.replace(1, tree_number(0), &key, &[2; 300]).await.unwrap();
        world.sleep(SLOW_AFTER).await;
        let closing = world.spawn(instance.close());
        world.sleep(Duration::from_secs(5)).await;
        let refused = begun.insert(1, tree_number(0), &ROWS.to_be_bytes(), &[2; 300]).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
        let refused = changed.commit(Durability::Durable).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
        closing.await.unwrap();
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(report.logs_replayed, 0, "it was closed");
        let rows = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
        assert_eq!(rows.len(), ROWS as usize);
        assert!(rows.iter().all(|(_, data)| data[..] == [1; 300]));
    });
}

/// Inserts rows behind the first 300 till that fails.
async fn insert_more(instance: Rc<Instance>) -> Result<(), Error> {
    for n in 300..100_000u32 {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[1; 300]).await?;
        transaction.commit(Durability::Lazy).await?;
    }
    Ok(())
}

/// Starts `user`, and comes back when it is in the middle of making the file longer.
async fn until_it_grows<T: 'static>(
    world: &World,
    config: &InstanceConfig,
    user: impl Future<Output = T> + 'static,
) -> Task<T> {
    let size = || async { world.entry(&config.databases[0].path).await.unwrap().unwrap().bytes };
    let before = size().await;
    let user = world.spawn(user);
    while size().await == before {
        world.sleep(Duration::from_millis(10)).await;
    }
    world.sleep(Duration::from_millis(10)).await;
    user
}

/// The next instance may already cut the file, or write its header.
#[test]
fn nobody_makes_a_file_longer_behind_an_instance_that_was_abandoned() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Write));
    sim.run_until(async {
        let (config, instance) = with_rows(&world, 300).await;
        let instance = Rc::new(instance);
        world.sleep(SLOW_AFTER).await;
        let inserting = until_it_grows(&world, &config, insert_more(instance.clone())).await;
        instance.abandon().await;
        let written = world.io_totals().writes;
        world.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.io_totals().writes, written, "header and shadow");
        assert!(inserting.await.is_err());
    });
}

/// The next instance may already have marked its header.
#[test]
fn nobody_makes_a_file_longer_behind_an_instance_that_was_closed() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Write));
    sim.run_until(async {
        let (_, instance) = with_rows(&world, 300).await;
        let mut user = instance.begin();
        world.sleep(SLOW_AFTER).await;
        let closing = world.spawn(instance.close());
        let extending = world.spawn(async move {
            loop {
                let mut asked = false;
                let step = |_: &dyn btree::Pager| match std::mem::replace(&mut asked, true) {
                    false => Err(btree::Stop::NoSpace { pages: 1 }),
                    true => Ok((btree::MiniTransaction::default(), ())),
                };
                if let Err(error) = user.change(1, step).await {
                    return error;
                }
            }
        });
        closing.await.unwrap();
        let written = world.io_totals().writes;
        world.sleep(Duration::from_secs(60)).await;
        assert_eq!(world.io_totals().writes, written, "header and shadow");
        let error = extending.await;
        assert!(matches!(error, Error::Stopped(_) | Error::Refused(_)), "{error:?}");
    });
}

/// The extension changes pages when those of the space trees have come, wherever the closing is by then.
#[test]
fn a_closed_instance_has_written_all_that_an_extension_under_way_has_changed() {
    for read_latency in (1..60).map(|n| Duration::from_micros(n * 50)) {
        let times = FixedLatencyTimes { read_latency, ..FixedLatencyTimes::default() };
        let (sim, world) = simulation(FixedLatency::new(1, times));
        sim.run_until(async {
            let (config, instance) = with_rows(&world, 300).await;
            instance.close().await.unwrap();
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            let mut user = instance.begin();
            let growing = world.spawn(async move {
                let mut asked = false;
                let step = |_: &dyn btree::Pager| match std::mem::replace(&mut asked, true) {
                    false => Err(btree::Stop::NoSpace { pages: 1 }),
                    true => Ok((btree::MiniTransaction::default(), ())),
                };
                user.change(1, step).await
            });
            instance.close().await.unwrap();
            let _ = growing.await;
            let opened = Instance::open(&world, &config).await;
            let (instance, report) =
                opened.unwrap_or_else(|error| panic!("reads take {read_latency:?}: {error}"));
            assert_eq!(report.logs_replayed, 0, "it was closed");
            check_structure(&instance, 1, 1).await.unwrap();
            instance.close().await.unwrap();
        });
    }
}

/// An extension goes on when its caller is dropped: half made it would hold the checkpoint, and the logs with it.
#[test]
fn a_growth_whose_user_has_let_go_of_it_holds_no_checkpoint() {
    let (sim, world) = simulation(SlowDatabase::new(StorageOp::Write));
    sim.run_until(async {
        let (config, instance) = with_rows(&world, 300).await;
        let instance = Rc::new(instance);
        world.sleep(SLOW_AFTER).await;
        let (user, stopped) = abortable(insert_more(instance.clone()));
        let inserting = until_it_grows(&world, &config, user).await;
        let then = instance.log_end();
        stopped.abort();
        assert!(inserting.await.is_err(), "it was let go of");
        world.sleep(Duration::from_secs(3600)).await;
        for n in 0..300u32 {
            let mut transaction = instance.begin();
            transaction.replace(1, tree_number(0), &n.to_be_bytes(), &[2; 300]).await.unwrap();
            transaction.commit(Durability::Durable).await.unwrap();
            world.sleep(Duration::from_secs(60)).await;
        }
        assert!(instance.durable_checkpoint() > then, "{:?}", instance.durable_checkpoint());
    });
}
