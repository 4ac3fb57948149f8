//! A file that grows while its volume is slow to sync: the new length is lost with the power, and redo gives it again.

use std::rc::Rc;
use std::time::Duration;

use crate::common::{PAGE_BYTES, REDO, SmallDatabase, check_structure, create, scan, tree_number};
use engine::{Durability, Error, Instance, InstanceConfig, RecoveryBranch};
use world::sim::{
    Faults, FixedLatency, FixedLatencyTimes, OpKind, PowerCut, RequestId, SimConfig, Simulation,
    StorageModel, StorageRequest, VolumeId,
};
use world::{Time, World};

/// Longer than several rounds of the checkpoint.
const SYNC: Duration = Duration::from_secs(8);

/// The volume of the databases takes its time to sync, that of the logs does not.
struct SlowDatabases {
    databases: Option<VolumeId>,
    slow: FixedLatency,
    fast: FixedLatency,
}

impl SlowDatabases {
    fn new() -> SlowDatabases {
        let times = FixedLatencyTimes::default();
        SlowDatabases {
            databases: None,
            slow: FixedLatency::new(1, FixedLatencyTimes { sync_latency: SYNC, ..times }),
            fast: FixedLatency::new(2, times),
        }
    }

    fn of(&mut self, volume: VolumeId) -> &mut FixedLatency {
        if self.databases == Some(volume) { &mut self.slow } else { &mut self.fast }
    }
}

impl StorageModel for SlowDatabases {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        if path == "/db" {
            self.databases = Some(volume);
        }
        self.of(volume).attach(volume, host, path);
    }

    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.of(request.volume).submit(now, request);
    }

    fn next_completion(&self) -> Option<Time> {
        self.slow.next_completion().into_iter().chain(self.fast.next_completion()).min()
    }

    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.slow.take_completions(now, completed);
        self.fast.take_completions(now, completed);
    }
}

fn simulation() -> (Simulation, World) {
    let sim =
        Simulation::new(1, SimConfig { storage: Box::new(SlowDatabases::new()), ..SimConfig::default() });
    let world = sim.host("h");
    sim.volume("h", "/db", 1 << 40);
    sim.volume("h", "/log", 1 << 40);
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    (sim, world)
}

async fn insert(instance: &Instance, n: u32) {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), &n.to_be_bytes(), &[n as u8; 300]).await.unwrap();
    transaction.commit(Durability::Durable).await.unwrap();
}

/// A closed database with up to `most` rows; stops before a row that makes it grow. Returns the number of rows.
async fn filled(world: &World, most: u32) -> (InstanceConfig, u32) {
    let config = create(world, 1, 1).await;
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    let pages = instance.database_pages(1).unwrap();
    let mut rows = 0;
    while rows < most && instance.database_pages(1).unwrap() == pages {
        insert(&instance, rows).await;
        rows += 1;
    }
    instance.close().await.unwrap();
    (config, rows)
}

#[test]
fn the_checkpoint_does_not_pass_a_length_that_is_not_durable() {
    let (sim, world) = simulation();
    let (_, enough) = sim.run_until(filled(&world, u32::MAX));
    let (sim, world) = simulation();
    let (config, rows) = sim.run_until(filled(&world, enough - 1));
    assert_eq!(rows, enough - 1);
    sim.run_until(async {
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let instance = Rc::new(instance);
        world.sleep(Duration::from_secs(20)).await;
        // Nothing is dirty. This row makes the file grow; the sync of the new length takes longer than we let it.
        let growing = instance.clone();
        drop(world.spawn(async move { insert(&growing, rows).await }));
        world.sleep(Duration::from_secs(1)).await;
        // Another commit makes the record of the new length durable; the checkpoint comes several times then.
        let mut other = instance.begin();
        other.replace(1, tree_number(0), &0u32.to_be_bytes(), &[7; 300]).await.unwrap();
        other.commit(Durability::Durable).await.unwrap();
        world.sleep(Duration::from_secs(4)).await;
        assert!(instance.database_pages(1).unwrap() > SmallDatabase { trees: 1, pages: 64 }.pages);
    });
    sim.crash("h");
    let world = sim.restart("h");
    sim.run_until(async {
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        let pages = u64::from(instance.database_pages(1).unwrap());
        let bytes = world.entry("/db/0.edb").await.unwrap().unwrap().bytes;
        assert_eq!(report.branches.of(RecoveryBranch::FileLengthened), 1, "{report:?}");
        assert!(bytes >= (pages + 2) * PAGE_BYTES as u64, "{pages} pages in a file of {bytes} bytes");
        check_structure(&instance, 1, 1).await.unwrap();
        let found = scan(&instance.begin(), 1, tree_number(0)).await.unwrap().len();
        assert!(found as u32 >= rows, "{found} of {rows} rows");
    });
}

/// The sync of the new length is one of the whole file: what it lost no later one brings.
#[test]
fn a_sync_of_a_new_length_that_fails_stops_the_instance() {
    let (sim, world) = simulation();
    let (_, enough) = sim.run_until(filled(&world, u32::MAX));
    let (sim, world) = simulation();
    let (config, rows) = sim.run_until(filled(&world, enough - 1));
    sim.run_until(async {
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        world.sleep(Duration::from_secs(20)).await;
        sim.set_faults(Faults { fail_nth: Some((OpKind::Sync, 1)), ..Faults::default() });
        let mut growing = instance.begin();
        let inserted = growing.insert(1, tree_number(0), &rows.to_be_bytes(), &[1; 300]).await;
        assert!(inserted.is_err(), "it grew, and the sync failed");
        assert!(matches!(instance.check(), Err(Error::Stopped(_))), "{:?}", instance.check());
    });
}

/// Redo of the whole log gives the database a length that its file has had since before the crash, and clears what
/// lies behind the old one. Pages there were read ahead of that, with all that they were given later: they look as if
/// redo had nothing to do, and the file has lost them.
#[test]
fn pages_that_were_read_before_redo_gave_the_file_its_length_are_written_again() {
    for redo in REDO {
        let sim = Simulation::new(1, SimConfig::default());
        let world = sim.host("h");
        sim.volume("h", "/db", 1 << 40);
        sim.volume("h", "/log", 1 << 40);
        let (config, rows) = sim.run_until(async {
            let mut config = create(&world, 1, 1).await;
            // One log holds everything since the database was created.
            config.log_bytes = 4 << 20;
            config.redo = redo;
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            let pages = instance.database_pages(1).unwrap();
            let mut rows = 0;
            // Some forty pages of rows in the new space.
            let mut more = 400;
            while more > 0 {
                insert(&instance, rows).await;
                rows += 1;
                more -= u32::from(instance.database_pages(1).unwrap() > pages);
            }
            world.sleep(Duration::from_secs(30)).await;
            // The pages were written. Each is in the log as an image now, behind the change that made it.
            for row in 0..rows {
                let mut transaction = instance.begin();
                let key = row.to_be_bytes();
                transaction.replace(1, tree_number(0), &key, &[!row as u8; 300]).await.unwrap();
                transaction.commit(Durability::Durable).await.unwrap();
            }
            world.sleep(Duration::from_secs(30)).await;
            (config, rows)
        });
        sim.crash("h");
        let world = sim.restart("h");
        sim.run_until(async {
            world.remove("/log/E00.chk").await.unwrap();
            let (instance, report) = Instance::open(&world, &config).await.unwrap();
            instance.close().await.unwrap();
            // From the file, without what redo has in memory.
            let (instance, _) = Instance::open(&world, &config).await.unwrap();
            check_structure(&instance, 1, 1).await.unwrap();
            let found = scan(&instance.begin(), 1, tree_number(0)).await.unwrap();
            let of = |row: u32| (row.to_be_bytes().to_vec(), vec![!row as u8; 300]);
            assert!(found.into_iter().eq((0..rows).map(of)), "{redo:?}: rows are missing or are old");
            use RecoveryBranch::{LaterImage, NewSpaceCleared, NoCheckpoint, VerifiedPageMadeAnew};
            for branch in [NoCheckpoint, NewSpaceCleared, VerifiedPageMadeAnew, LaterImage] {
                assert!(report.branches.of(branch) > 0, "{redo:?}: {branch:?} was not taken: {report:?}");
            }
        });
    }
}
