//! What the flush map beside a database finds: older versions of pages, of the database and of itself.

use crate::common::snapshot::Snapshot;
use crate::common::{PAGE_BYTES, create, scan, tree_number};
use engine::{
    Counters, Durability, Error, Instance, InstanceConfig, MaintenanceConfig, PageFindings, Progress,
    StopSignal, StreamConfig, check_database, flush_map_path, is_closed,
};
use smallvec::smallvec;
use std::time::Duration;
use world::sim::{Death, Faults, Outcome, SimConfig, Simulation};
use world::{OpenMode, PageBuf, World};

const PATH: &str = "/db/0.edb";

fn simulation() -> (Simulation, World) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 24);
    sim.volume("h", "/log", 1 << 30);
    (sim, world)
}

/// Gives the rows of some keys this value.
async fn put(instance: &Instance, keys: std::ops::Range<u32>, value: u8) {
    for key in keys {
        let mut transaction = instance.begin();
        let (key, data) = (key.to_be_bytes(), [value; 300]);
        if transaction.insert(1, tree_number(0), &key, &data).await.is_err() {
            transaction.replace(1, tree_number(0), &key, &data).await.unwrap();
        }
        transaction.commit(Durability::Durable).await.unwrap();
    }
}

async fn open(world: &World, config: &InstanceConfig) -> Instance {
    let (instance, report) = Instance::open(world, config).await.unwrap();
    assert_eq!(report.flush_maps_refused, [], "nothing has touched the files");
    instance
}

async fn contents(world: &World, path: &str) -> Vec<u8> {
    let file = world.open(path, OpenMode::Read).await.unwrap();
    let bytes = file.size().await.unwrap() as usize;
    file.read_at(0, smallvec![PageBuf::empty(bytes)]).await.1[0].as_slice().to_vec()
}

async fn overwrite(world: &World, path: &str, offset: u64, bytes: &[u8]) {
    let file = world.open(path, OpenMode::ReadWrite).await.unwrap();
    file.write_at(offset, smallvec![PageBuf::copy_of(bytes)]).await.0.unwrap();
    file.sync().await.unwrap();
}

async fn check(world: &World) -> PageFindings {
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let stream = StreamConfig { read_bytes: 1 << 20, depth: 1 };
    check_database(world, PATH, PAGE_BYTES, None, stream, &counters, &progress, &stop).await.unwrap().findings
}

/// A closed database that was changed by two instances, and its file in between.
async fn closed_twice(world: &World) -> (InstanceConfig, Vec<u8>) {
    let config = create(world, 1, 1).await;
    let instance = open(world, &config).await;
    put(&instance, 0..200, 1).await;
    instance.close().await.unwrap();
    let before = contents(world, PATH).await;
    let instance = open(world, &config).await;
    put(&instance, 50..52, 2).await;
    instance.close().await.unwrap();
    (config, before)
}

/// Pages behind the headers that are not the same in both.
fn changed(before: &[u8], now: &[u8]) -> Vec<u32> {
    let pages = before.chunks(PAGE_BYTES).zip(now.chunks(PAGE_BYTES)).zip(0u32..);
    pages.filter(|((one, other), place)| *place > 1 && one != other).map(|(_, place)| place - 1).collect()
}

#[test]
fn an_older_version_of_each_changed_page_of_a_closed_database_is_found_by_a_later_process() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let (_, before) = closed_twice(&world).await;
        assert_eq!(check(&world).await.list, []);
        let now = contents(&world, PATH).await;
        let pages = changed(&before, &now);
        assert!(!pages.is_empty());
        for pgno in pages {
            let at = (pgno as usize + 1) * PAGE_BYTES;
            overwrite(&world, PATH, at as u64, &before[at..at + PAGE_BYTES]).await;
            let found = check(&world).await;
            assert_eq!((found.bad, found.list[0].0), (1, pgno), "{found:?}");
            assert!(found.list[0].1.contains("flush map"), "{found:?}");
            overwrite(&world, PATH, at as u64, &vec![0; PAGE_BYTES]).await;
            let found = check(&world).await;
            assert!(found.list.iter().any(|(page, _)| *page == pgno), "zero: {found:?}");
            overwrite(&world, PATH, at as u64, &now[at..at + PAGE_BYTES]).await;
        }
    });
}

/// The page changed before the checkpoint, so redo does not meet it.
#[test]
fn an_older_version_of_a_page_that_redo_does_not_meet_is_no_row_of_a_reader() {
    let (sim, world) = simulation();
    let (config, before) = sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let instance = open(&world, &config).await;
        put(&instance, 0..200, 1).await;
        instance.close().await.unwrap();
        let before = contents(&world, PATH).await;
        let mut config = config;
        config.checkpoint_depth_bytes = 1;
        let instance = open(&world, &config).await;
        put(&instance, 50..52, 2).await;
        world.sleep(Duration::from_secs(5)).await;
        put(&instance, 199..200, 3).await;
        world.sleep(Duration::from_millis(10)).await;
        instance.abandon().await;
        (config, before)
    });
    let files = Snapshot::take(&sim);
    for is_stale in [false, true] {
        let (sim, world) = files.restore();
        sim.run_until(async {
            let now = contents(&world, PATH).await;
            let with_rows = |pgno: &u32| {
                let at = (*pgno as usize + 1) * PAGE_BYTES;
                now[at..at + PAGE_BYTES].windows(300).any(|bytes| bytes == [2; 300])
            };
            let pgno = changed(&before, &now).into_iter().find(with_rows).expect("it was written");
            let at = (pgno as usize + 1) * PAGE_BYTES;
            if is_stale {
                overwrite(&world, PATH, at as u64, &before[at..at + PAGE_BYTES]).await;
            }
            let (instance, report) = Instance::open(&world, &config).await.unwrap();
            assert!(report.records > 0 && report.flush_maps_refused.is_empty(), "{report:?}");
            let read = scan(&instance.begin(), 1, tree_number(0)).await;
            match read {
                Ok(rows) => assert!(!is_stale && rows.len() == 200),
                Err(Error::DamagedPage { pgno: found, .. }) => assert!(is_stale && found == pgno),
                Err(error) => panic!("{error}"),
            }
            instance.abandon().await;
        });
    }
}

#[test]
fn a_map_that_contradicts_its_database_is_named_and_begun_anew() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let (config, before) = closed_twice(&world).await;
        let (map, now) = (flush_map_path(PATH), contents(&world, PATH).await);
        let good = contents(&world, &map).await;
        let last = good.len() - 4096;
        let zeros = [0; 4096];
        let cases = [
            ("older than the header", [&good[..last], &zeros].concat(), &now),
            ("header is not intact", [&[1; 4096], &good[4096..]].concat(), &now),
            ("whole frames lie behind", [&good[..4096], &zeros, &good[8192..]].concat(), &now),
            ("newer than the database", good.clone(), &before),
        ];
        for (reason, map_bytes, database) in cases {
            overwrite(&world, &map, 0, &map_bytes).await;
            overwrite(&world, PATH, 0, database).await;
            let found = check(&world).await;
            let named = found.list.iter().any(|(page, what)| *page == 0 && what.contains(reason));
            assert!(named && found.unseen.is_some(), "{reason}: {found:?}");
        }
        overwrite(&world, PATH, 0, &now).await;
        overwrite(&world, &map, 4096, &[0; 4096]).await;
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.flush_maps_refused[0].1.contains("whole frames"), "{report:?}");
        put(&instance, 3..4, 9).await;
        instance.close().await.unwrap();
        let found = check(&world).await;
        assert_eq!(found.list, []);
        assert!(found.unseen.is_some_and(|text| text.contains("anew")), "{found:?}");
    });
}

/// A check finds nothing in a database that a process left closed because it ended while it opened it, also where the
/// log is gone and a new one is begun, and where the database is new.
#[test]
fn a_process_that_ends_at_any_sync_of_an_opening_leaves_no_finding_in_a_closed_database() {
    for (is_new, is_log_gone) in [(false, false), (false, true), (true, true)] {
        let (sim, world) = simulation();
        let config = sim.run_until(async {
            let config = if is_new { create(&world, 1, 1).await } else { closed_twice(&world).await.0 };
            for entry in world.list("/log").await.unwrap().iter().filter(|_| is_log_gone) {
                world.remove(&format!("/log/{}", entry.name)).await.unwrap();
            }
            world.sync_dir("/log").await.unwrap();
            config
        });
        let files = Snapshot::take(&sim);
        let mut left_closed = 0;
        for nth in 1.. {
            let (sim, world) = files.restore();
            // A new log stream has its time in its signature.
            sim.run_until(world.sleep(Duration::from_secs(3600)));
            let ends =
                Faults { crash_at_nth_sync: Some(nth), crash_ends: Death::Process, ..Faults::default() };
            sim.set_faults(ends);
            let is_open = matches!(sim.run_until_crash_or(Instance::open(&world, &config)), Outcome::Done(_));
            if is_open {
                assert!(left_closed > 3, "{left_closed} ends before the header, {nth} in all");
                break;
            }
            let world = sim.restart("h");
            sim.set_faults(Faults::default());
            sim.run_until(async {
                if is_closed(&world, PATH, PAGE_BYTES, &Counters::default()).await.unwrap() {
                    assert_eq!(
                        check(&world).await.list,
                        [],
                        "sync {nth}, new: {is_new}, log gone: {is_log_gone}"
                    );
                    left_closed += 1;
                }
                let (instance, report) = Instance::open(&world, &config).await.unwrap();
                assert_eq!(
                    report.flush_maps_refused,
                    [],
                    "sync {nth}, new: {is_new}, log gone: {is_log_gone}"
                );
                instance.close().await.unwrap();
                assert_eq!(check(&world).await.list, []);
            });
        }
    }
}

#[test]
fn a_full_volume_ends_the_map_and_not_the_instance() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let instance = open(&world, &config).await;
        put(&instance, 0..20, 1).await;
        let filler = world.open("/db/filler", OpenMode::CreateNew).await.unwrap();
        filler.set_size(world.free_bytes("/db").await.unwrap()).await.unwrap();
        put(&instance, 0..20, 2).await;
        world.sleep(Duration::from_secs(3)).await;
        put(&instance, 0..20, 3).await;
        let map = flush_map_path(PATH);
        assert!(world.entry(&map).await.unwrap().is_none(), "there was no room for a frame");
        instance.close().await.unwrap();
        let found = check(&world).await;
        assert_eq!(found.list, []);
        assert!(found.unseen.is_some(), "the check says that it has no map");
        drop(filler);
        world.remove("/db/filler").await.unwrap();
        let instance = open(&world, &config).await;
        put(&instance, 0..20, 4).await;
        instance.close().await.unwrap();
        assert!(world.entry(&map).await.unwrap().is_some() && check(&world).await.unseen.is_some());
    });
}

/// A journal that is written anew holds what its frames held, and a load writes a frame per checkpoint at most.
#[test]
fn a_long_journal_is_written_anew_and_loses_nothing() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        config.checkpoint_depth_bytes = 1;
        let instance = open(&world, &config).await;
        let map = flush_map_path(PATH);
        let mut longest = 0;
        for second in 0..300 {
            put(&instance, second % 20..second % 20 + 1, second as u8).await;
            world.sleep(Duration::from_secs(1)).await;
            longest = longest.max(world.entry(&map).await.unwrap().unwrap().bytes);
        }
        let now = world.entry(&map).await.unwrap().unwrap().bytes;
        assert!(now < longest && longest <= (1 << 20) + 4096, "{now} of {longest}");
        instance.close().await.unwrap();
        let found = check(&world).await;
        assert!(found.is_clean() && found.unseen.is_none(), "{found:?}");
        let idle = world.entry(&map).await.unwrap().unwrap().bytes;
        let instance = open(&world, &config).await;
        world.sleep(Duration::from_secs(10)).await;
        instance.close().await.unwrap();
        let frames = (world.entry(&map).await.unwrap().unwrap().bytes - idle) / 4096;
        assert_eq!(frames, 2, "at the opening and at the close");
    });
}

/// The storage puts an older version of a page in its place while the database is in use.
#[test]
fn backup_and_maintenance_find_an_older_version_of_a_page_in_use() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        config.checkpoint_depth_bytes = 1;
        let instance = open(&world, &config).await;
        put(&instance, 0..200, 1).await;
        world.sleep(Duration::from_secs(5)).await;
        let before = contents(&world, PATH).await;
        put(&instance, 50..52, 2).await;
        world.sleep(Duration::from_secs(5)).await;
        let (stream, progress) = (StreamConfig { read_bytes: 1 << 16, depth: 2 }, Progress::default());
        let stop = StopSignal::new();
        let report = instance.back_up(1, stream, None, &progress, &stop).await.unwrap();
        assert_eq!(report.findings.list, []);
        let pgno = changed(&before, &contents(&world, PATH).await)[0];
        let at = (pgno as usize + 1) * PAGE_BYTES;
        overwrite(&world, PATH, at as u64, &before[at..at + PAGE_BYTES]).await;
        let report = instance.back_up(1, stream, None, &progress, &stop).await.unwrap();
        assert_eq!((report.findings.bad, report.findings.list[0].0), (1, pgno), "{report:?}");
        let instance = std::rc::Rc::new(instance);
        let (maintained, stopped) = (instance.clone(), stop.clone());
        let job =
            world.spawn(async move { maintained.maintain(1, &MaintenanceConfig::default(), &stopped).await });
        world.sleep(Duration::from_secs(20)).await;
        stop.stop();
        let report = job.await.unwrap();
        assert!(report.findings.list.iter().any(|(page, _)| *page == pgno), "{report:?}");
        instance.abandon().await;
    });
}

/// Without the sync behind its removal the map comes back without its last frames.
#[test]
fn a_map_that_was_given_up_does_not_come_back_after_a_power_cut() {
    for seed in 1..=10 {
        let sim = Simulation::new(seed, SimConfig::default());
        let world = sim.host("h");
        sim.volume("h", "/db", 1 << 20);
        sim.volume("h", "/log", 1 << 30);
        let config = sim.run_until(async {
            let mut config = create(&world, 1, 1).await;
            config.checkpoint_depth_bytes = 1;
            let instance = open(&world, &config).await;
            put(&instance, 0..20, 1).await;
            world.sleep(Duration::from_secs(3)).await;
            let filler = world.open("/db/filler", OpenMode::CreateNew).await.unwrap();
            filler.set_size(world.free_bytes("/db").await.unwrap()).await.unwrap();
            put(&instance, 0..20, 2).await;
            world.sleep(Duration::from_secs(3)).await;
            assert!(world.entry(&flush_map_path(PATH)).await.unwrap().is_none(), "there was no room");
            put(&instance, 19..20, 3).await;
            instance.abandon().await;
            config
        });
        let (sim, world) = Snapshot::take(&sim).restore();
        sim.run_until(async {
            let instance = open(&world, &config).await;
            let rows = scan(&instance.begin(), 1, tree_number(0)).await;
            assert_eq!(rows.map_err(|error| error.to_string()).map(|rows| rows.len()), Ok(20), "seed {seed}");
            instance.close().await.unwrap();
        });
    }
}
