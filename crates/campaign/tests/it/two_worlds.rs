//! The same engine, sessions and dealer do the same work in the simulated and in the real world.

use std::rc::Rc;

use btree::{Pager, tree};
use campaign::load::{Load, Mode};
use engine::{DatabaseConfig, Instance, InstanceConfig, StopSignal};
use workload::codec::DatabaseCodec;
use workload::mix::Mix;
use workload::schema::{FOLDERS, Tree};
use workload::session::{Mailboxes, SessionError};
use workload::template::TemplateDatabase;
use world::real::RealConfig;
use world::sim::{FixedLatency, FixedLatencyTimes, SimConfig, Simulation};
use world::{Duration, TemplatePages, World};

const PAGE_BYTES: u32 = 4096;
const FILE_BYTES: u64 = 8 << 20;
const DATABASES: u32 = 2;
const SEED: u64 = 11;
const TREES: [Tree; 4] = [Tree::Rows, Tree::Bodies, Tree::Conversations, Tree::Folders];

/// Condition that ends the load.
#[derive(Clone, Copy)]
enum End {
    AfterBatches(u64),
    After(Duration),
}

/// Result of a load.
#[derive(Debug, PartialEq)]
struct LoadResult {
    batches: Vec<u64>,
    rows: u64,
    /// Sum of a hash of every row: independent of their order.
    hash: u64,
}

fn hash(tree: usize, key: &[u8], data: &[u8]) -> u64 {
    let bytes = [tree as u8].into_iter().chain(key.iter().copied()).chain(data.iter().copied());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Number of the rows of a database and the sum of their hashes.
async fn rows(instance: &Instance, template: &TemplateDatabase, db: u8) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0u64);
    for (number, of) in TREES.into_iter().enumerate() {
        let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
        loop {
            let step = |pager: &dyn Pager| {
                let mut at = match &last {
                    None => tree::first(pager, template.tree(of))?,
                    Some((key, _)) => tree::seek(pager, template.tree(of), key, tree::Seek::AtLeast)?,
                };
                let mut some = Vec::new();
                while let (Some(position), true) = (at, some.len() < 50) {
                    let node = position.node(pager)?;
                    let entry = (node.key(), node.data.to_vec());
                    // Where keys repeat, the place of the last key is before the last entry.
                    if last.as_ref().is_none_or(|last| entry > *last) {
                        some.push((entry, node.is_deleted()));
                    }
                    at = tree::next(pager, template.tree(of), position)?;
                }
                Ok(some)
            };
            let some = instance.begin().read(db, step).await.unwrap();
            for ((key, data), _) in some.iter().filter(|(_, deleted)| !deleted) {
                (count, sum) = (count + 1, sum.wrapping_add(hash(number, key, data)));
            }
            let Some((entry, _)) = some.into_iter().next_back() else { break };
            last = Some(entry);
        }
    }
    (count, sum)
}

async fn load(world: &World, root: &str, sessions: u32, end: End) -> LoadResult {
    let templates: Vec<_> = (1..=u64::from(DATABASES))
        .map(|seed| Rc::new(TemplateDatabase::of_size(PAGE_BYTES, FILE_BYTES, 16, seed, 25).unwrap()))
        .collect();
    let mut config = InstanceConfig::new(root, PAGE_BYTES as usize);
    config.log_bytes = 256 << 10;
    config.checkpoint_depth_bytes = 1 << 20;
    config.cache_bytes_per_database = 2 << 20;
    for (number, template) in templates.iter().enumerate() {
        let path = format!("{root}/{number}.edb");
        let codec = Rc::new(DatabaseCodec::new(template.clone()));
        let (progress, stop) = (Default::default(), StopSignal::new());
        let counters = Default::default();
        engine::create_database(world, &path, template.clone(), codec.clone(), &counters, &progress, &stop)
            .await
            .unwrap();
        let database = DatabaseConfig::new(&path);
        config.databases.push(DatabaseConfig {
            codec: Some(codec),
            template_id: Some(template.id()),
            ..database
        });
    }
    let instance = Rc::new(Instance::open(world, &config).await.unwrap().0);
    let mut mailboxes = Vec::new();
    for (db, template) in (1..).zip(&templates) {
        mailboxes.push(Rc::new(Mailboxes::open(instance.clone(), db, template.clone()).await.unwrap()));
    }
    let batches = match end {
        End::AfterBatches(count) => Some(count),
        End::After(_) => None,
    };
    let load = Load::<SessionError>::new(world, DATABASES, 0, batches);
    if let End::After(duration) = end {
        let (load, world2) = (load.clone(), world.clone());
        drop(world.spawn(async move {
            world2.sleep(duration).await;
            load.stop();
        }));
    }
    let running = load.clone().run(Mode::Closed { sessions, idle_factor: 0.0 }, move |database, number| {
        let mailboxes = mailboxes[database as usize].clone();
        let seat = (number / u64::from(DATABASES)) as u32 % FOLDERS;
        async move { mailboxes.batch(&Mix::EXCHANGE_2010, SEED, database, number, seat).await }
    });
    running.await.unwrap();
    let mut left = LoadResult { batches: load.batches(), rows: 0, hash: 0 };
    for (db, template) in (1..).zip(&templates) {
        let (count, sum) = rows(&instance, template, db).await;
        left.rows += count;
        left.hash = left.hash.wrapping_add(sum);
    }
    Rc::into_inner(instance).expect("the load has ended").close().await.unwrap();
    left
}

fn simulated(sessions: u32, end: End) -> LoadResult {
    // With storage that takes no time, a load that is bounded by time would never end.
    let storage = Box::new(FixedLatency::new(SEED, FixedLatencyTimes::default()));
    let simulation = Simulation::new(SEED, SimConfig { storage, ..SimConfig::default() });
    let world = simulation.host("a");
    simulation.volume("a", "/v", 1 << 30);
    simulation.run_until(async { load(&world, "/v", sessions, end).await })
}

fn real(sessions: u32, end: End) -> LoadResult {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = directory.path().to_str().unwrap().to_owned();
    world::real::run(RealConfig::new("a"), |world| async move { load(&world, &root, sessions, end).await })
        .unwrap()
}

#[test]
fn one_session_leaves_the_same_rows_in_both_worlds() {
    let end = End::AfterBatches(24);
    let (simulated, real) = (simulated(1, end), real(1, end));
    assert_eq!(simulated.batches, [12, 12]);
    assert_eq!(simulated, real);
    let other = self::simulated(1, End::AfterBatches(25));
    assert_ne!(simulated.hash, other.hash, "one batch more is other rows");
}

#[test]
fn many_sessions_deal_the_databases_equal_batches_in_both_worlds() {
    for left in [simulated, real].map(|run| run(8, End::AfterBatches(25))) {
        assert_eq!(left.batches, [13, 12]);
    }
    for left in [simulated, real].map(|run| run(8, End::After(Duration::from_millis(300)))) {
        let (least, most) = (left.batches.iter().min().unwrap(), left.batches.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 1, "{:?}", left.batches);
    }
}
