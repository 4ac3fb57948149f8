//! What the background jobs promise: their rhythm, their reads, what they find, what can be restored.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{PAGE_BYTES, SmallDatabase, check_structure, create, scan, tree_number};
use engine::{
    Counters, Durability, Instance, MaintenanceConfig, Progress, RecoveryBranch, StopSignal, StreamConfig,
    check_database, check_logs, create_database, maintain_in_recovery,
};
use results::IoClass;
use smallvec::smallvec;
use world::sim::{
    FixedLatency, FixedLatencyTimes, RequestId, SimConfig, Simulation, StorageModel, StorageOp,
    StorageRequest, VolumeId,
};
use world::{OpenMode, PageBuf, PageCodec, TemplatePages, Time, World};

const STREAM: StreamConfig = StreamConfig { read_bytes: 256 << 10, depth: 2 };

fn simulation() -> (Simulation, World) {
    let storage = Box::new(FixedLatency::new(1, FixedLatencyTimes::default()));
    let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    (sim, world)
}

async fn insert_rows(instance: &Instance, from: u32, count: u32) {
    for n in from..from + count {
        let mut transaction = instance.begin();
        transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[n as u8; 300]).await.unwrap();
        let durability =
            if n % 5 == 0 || n + 1 == from + count { Durability::Durable } else { Durability::Lazy };
        transaction.commit(durability).await.unwrap();
    }
}

#[test]
fn maintenance_reads_nine_times_a_second_whatever_the_load() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let instance = Rc::new(instance);
        insert_rows(&instance, 0, 500).await;
        let stop = StopSignal::new();
        let (maintained, stop2) = (instance.clone(), stop.clone());
        let maintenance =
            MaintenanceConfig { read_bytes: 8 * PAGE_BYTES as u64, ..MaintenanceConfig::default() };
        let job = world.spawn(async move { maintained.maintain(1, &maintenance, &stop2).await });
        let load = world.spawn({
            let (instance, world) = (instance.clone(), world.clone());
            async move {
                for n in 0..50 {
                    insert_rows(&instance, 1000 + n * 20, 20).await;
                    world.sleep(Duration::from_millis(700)).await;
                }
            }
        });
        world.sleep(Duration::from_secs(40)).await;
        load.await;
        stop.stop();
        let report = job.await.unwrap();
        let seconds = world.now().ns as f64 / 1e9;
        let reads =
            instance.database_counters(1).unwrap().take().io.class(IoClass::MaintenanceRead).totals.count;
        let rate = reads as f64 / seconds;
        assert!((8.9..9.25).contains(&rate), "{rate} reads a second");
        assert!(report.findings.is_clean() && report.passes > 0, "{report:?}");
    });
}

/// A page far behind is damaged. Two runs of maintenance, neither of which comes as far from the first page,
/// find it if the second goes on where the first ended.
#[test]
fn maintenance_goes_on_where_the_process_before_has_ended() {
    const SECONDS: u64 = 2;
    for is_closed in [true, false] {
        let (sim, world) = simulation();
        sim.run_until(async {
            let config = create(&world, 1, 1).await;
            let file = world.open(&config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
            // Nine reads a second, of two pages each, come to two thirds of that.
            let pages = SECONDS * 9 * 2 * 3 / 2;
            assert!(
                file.size().await.unwrap() > (pages + 2) * PAGE_BYTES as u64,
                "the database is too small"
            );
            let mut damaged = vec![0; PAGE_BYTES];
            damaged[2000] = 1;
            file.write_at((pages + 1) * PAGE_BYTES as u64, smallvec![PageBuf::copy_of(&damaged)])
                .await
                .0
                .unwrap();
            let maintenance =
                MaintenanceConfig { read_bytes: 2 * PAGE_BYTES as u64, ..MaintenanceConfig::default() };
            let mut found = Vec::new();
            for _ in 0..2 {
                let instance = Rc::new(Instance::open(&world, &config).await.unwrap().0);
                let (stop, maintained) = (StopSignal::new(), instance.clone());
                let job = world.spawn({
                    let stop = stop.clone();
                    async move { maintained.maintain(1, &maintenance, &stop).await }
                });
                world.sleep(Duration::from_secs(SECONDS)).await;
                stop.stop();
                found.push(job.await.unwrap().findings.bad);
                // The next roll of the log writes the header.
                let rolls = instance.log_rolls();
                while !is_closed && instance.log_rolls() == rolls {
                    let _ = instance.begin().insert(1, tree_number(0), b"taken back", &[7; 300]).await;
                    instance.flush_log().await.unwrap();
                }
                let instance = Rc::into_inner(instance).unwrap();
                match is_closed {
                    true => instance.close().await.unwrap(),
                    false => instance.abandon().await,
                }
            }
            assert_eq!(found, [0, 1], "closed: {is_closed}");
        });
    }
}

#[test]
fn every_copy_reads_a_closed_log_nine_times() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        config.log_bytes = 1 << 20;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let instance = Rc::new(instance);
        let stop = StopSignal::new();
        let (shipped, stop2) = (instance.clone(), stop.clone());
        let job = world.spawn(async move { shipped.replicate(2, &stop2).await });
        insert_rows(&instance, 0, 6000).await;
        world.sleep(Duration::from_secs(2)).await;
        stop.stop();
        let report = job.await.unwrap();
        assert!(report.logs >= 4 && report.logs == 2 * instance.log_rolls(), "{report:?}");
        let reads = instance.log_counters().take();
        let reads = reads.io.class(IoClass::ReplicationRead);
        assert_eq!(reads.totals.count, 9 * report.logs);
        assert_eq!(reads.totals.bytes, report.logs * ((2 << 20) + 4096));
    });
}

#[test]
fn a_backup_taken_under_load_restores_to_the_last_commit() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        config.circular_logging = false;
        config.cache_bytes_per_database = 1000 * PAGE_BYTES as u64;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let instance = Rc::new(instance);
        insert_rows(&instance, 0, 1500).await;
        let load = world.spawn({
            let instance = instance.clone();
            async move { insert_rows(&instance, 5000, 1500).await }
        });
        let small = StreamConfig { read_bytes: 4 * PAGE_BYTES as u64, depth: 2 };
        let (progress, stop) = (Progress::default(), StopSignal::new());
        let report = instance.back_up(1, small, Some("/db/copy.edb"), &progress, &stop).await.unwrap();
        assert!(report.findings.is_clean(), "{report:?}");
        assert_eq!(progress.done_bytes(), progress.total_bytes());
        load.await;
        insert_rows(&instance, 9000, 300).await;
        Rc::into_inner(instance).unwrap().close().await.unwrap();

        world.rename("/db/copy.edb", "/db/0.edb").await.unwrap();
        let (instance, recovery) = Instance::open(&world, &config).await.unwrap();
        assert!(recovery.changes_applied > 0, "the logs have to be replayed over the copy: {recovery:?}");
        assert!(
            recovery.branches.of(RecoveryBranch::FileLengthened) > 0,
            "the database has grown since: {recovery:?}"
        );
        assert_eq!(scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len(), 3300);
        check_structure(&instance, 1, 1).await.unwrap();
        insert_rows(&instance, 20_000, 100).await;
        instance.abandon().await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len(), 3400);
        instance.close().await.unwrap();
    });
}

#[test]
fn a_flipped_bit_is_found_and_named() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        insert_rows(&instance, 0, 2000).await;
        instance.close().await.unwrap();
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        let check =
            || check_database(&world, "/db/0.edb", PAGE_BYTES, None, STREAM, &counters, &progress, &stop);
        assert!(check().await.unwrap().findings.is_clean());
        let logs = check_logs(&world, &config, 100, &counters, &stop).await.unwrap();
        assert!(logs.bad.is_empty() && logs.logs > 1, "{logs:?}");

        let file = world.open("/db/0.edb", OpenMode::ReadWrite).await.unwrap();
        for (pgno, bits) in [(4u64, 1), (2, 2)] {
            let offset = (pgno + 1) * PAGE_BYTES as u64;
            let (read, mut bufs) = file.read_at(offset, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
            read.unwrap();
            (0..bits).for_each(|bit| bufs[0].as_mut_slice()[2000 + bit * 700] ^= 4);
            file.write_at(offset, bufs).await.0.unwrap();
        }
        let findings = check().await.unwrap().findings;
        assert_eq!((findings.correctable, findings.bad), (1, 1), "{findings:?}");
        assert_eq!(findings.list.iter().map(|(pgno, _)| *pgno).collect::<Vec<_>>(), [2, 4]);
        let is_log = |name: &str| name.len() == 15 && name.ends_with(".log");
        let newest = world.list("/log").await.unwrap().into_iter().rfind(|e| is_log(&e.name)).unwrap();
        let log = world.open(&format!("/log/{}", newest.name), OpenMode::ReadWrite).await.unwrap();
        log.write_at(5 * 4096, smallvec![PageBuf::copy_of(&[7; 4096])]).await.0.unwrap();
        let logs = check_logs(&world, &config, 100, &counters, &stop).await.unwrap();
        assert_eq!(logs.bad.len(), 1, "{logs:?}");
    });
}

struct PlainCodec;

impl PageCodec for PlainCodec {
    fn encode(&self, _index: u64, page: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(page);
    }
    fn decode(&self, _index: u64, encoded: &[u8], page: &mut [u8]) -> Option<()> {
        (encoded.len() == page.len()).then(|| page.copy_from_slice(encoded))
    }
}

#[test]
fn a_database_created_from_an_template_can_be_used_and_nothing_is_overwritten() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        let template: Rc<dyn TemplatePages> = Rc::new(SmallDatabase { trees: 1, pages: 600 });
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        let make = |path: &'static str| {
            create_database(&world, path, template.clone(), Rc::new(PlainCodec), &counters, &progress, &stop)
        };
        assert!(make("/db/0.edb").await.is_err(), "the file exists");
        make("/db/new.edb").await.unwrap();
        config.databases[0].path = "/db/new.edb".to_owned();
        config.databases[0].template_id = Some(template.id());
        config.databases[0].codec = Some(Rc::new(PlainCodec));
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        insert_rows(&instance, 0, 700).await;
        instance.abandon().await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len(), 700);
        check_structure(&instance, 1, 1).await.unwrap();
        instance.close().await.unwrap();
        let report = check_database(
            &world,
            "/db/new.edb",
            PAGE_BYTES,
            Some(template.id()),
            STREAM,
            &counters,
            &progress,
            &stop,
        )
        .await
        .unwrap();
        assert!(report.findings.is_clean(), "{report:?}");
    });
}

/// Counts the writes that are under way at a time.
struct MostWrites {
    storage: FixedLatency,
    writing: BTreeSet<RequestId>,
    most: Rc<Cell<usize>>,
}

impl StorageModel for MostWrites {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.storage.attach(volume, host, path);
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        if request.op == StorageOp::Write {
            self.writing.insert(request.id);
            self.most.set(self.most.get().max(self.writing.len()));
        }
        self.storage.submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.storage.next_completion()
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        let before = completed.len();
        self.storage.take_completions(now, completed);
        for id in &completed[before..] {
            self.writing.remove(id);
        }
    }
}

#[test]
fn pages_are_written_four_at_a_time_while_enough_frames_are_free() {
    let most = Rc::new(Cell::new(0));
    let storage = FixedLatency::new(1, FixedLatencyTimes::default());
    let storage = Box::new(MostWrites { storage, writing: BTreeSet::new(), most: most.clone() });
    let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    sim.run_until(async {
        let mut config = create(&world, 1, 1).await;
        config.cache_bytes_per_database = 200 * PAGE_BYTES as u64;
        (config.flush_start, config.flush_stop) = (0.25, 0.5);
        // Only the want of frames makes it write.
        (config.checkpoint_depth_bytes, config.circular_logging) = (1 << 40, false);
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        insert_rows(&instance, 0, 5_000).await;
        instance.close().await.unwrap();
        // From an empty cache on every page has to be read, and others have to leave.
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        most.set(0);
        for n in 0..2_000u32 {
            let mut transaction = instance.begin();
            let key = ((n.wrapping_mul(2_654_435_761) >> 7) % 5_000).to_be_bytes();
            transaction.replace(1, tree_number(0), &key, &[n as u8; 300]).await.unwrap();
            transaction.commit(Durability::Lazy).await.unwrap();
            world.sleep(Duration::from_millis(5)).await;
        }
        // Beside pages there may be a write of the log, of the next log, and of the checkpoint.
        assert!((4..=7).contains(&most.get()), "{} writes were under way", most.get());
        instance.close().await.unwrap();
    });
}

#[test]
fn maintenance_in_recovery_outlives_a_file_that_becomes_shorter() {
    let (sim, world) = simulation();
    sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let database = config.databases[0].clone();
        let file = world.open(&database.path, OpenMode::ReadWrite).await.unwrap();
        let bytes = file.size().await.unwrap();
        let stop = StopSignal::new();
        let (world2, stop2) = (world.clone(), stop.clone());
        let job = world.spawn(async move {
            // All of the file in one read, without a pause, so that some reads meet the cut.
            let config = MaintenanceConfig {
                read_bytes: bytes,
                throttle: Duration::ZERO,
                tick: Duration::from_nanos(1),
            };
            maintain_in_recovery(&world2, &database, PAGE_BYTES, &config, &stop2).await
        });
        for step in 0..40u64 {
            world.sleep(Duration::from_micros(37 + step)).await;
            file.set_size(if step % 2 == 0 { 4 * PAGE_BYTES as u64 } else { bytes }).await.unwrap();
        }
        stop.stop();
        assert!(job.await.unwrap().passes > 0);
    });
}
