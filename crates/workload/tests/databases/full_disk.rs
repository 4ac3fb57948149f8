//! A full disk ends in a clear error, not in damage: on small file systems of their own where they can be mounted;
//! else the volume of the databases is full by a limit on the size of files, and a full log volume is left to the
//! simulated world (`crates/engine/tests/it/full_volume.rs`).

#![allow(clippy::disallowed_methods, reason = "the disk under test is made by means of the system")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use crate::common::{Change, Databases, Kind, Load, Witness, real, scratch_dir};
use engine::{Durability, Error, Instance, InstanceConfig};
use workload::mix::Random;
use workload::schema::Entry;
use world::{ErrorKind, World};

const FILE_BYTES: u64 = 8 << 20;
const DISK_BYTES: u64 = 64 << 20;
/// Free bytes when the load begins: less than the load needs.
const FREE_BYTES: u64 = 3 << 20;
const ROOT: &str = "PROOFLOAD_FULL_DISK";
/// Version that no change of the load itself has.
const LAST_VERSION: u32 = 1 << 20;

/// No caller has to know.
struct Nobody;

impl Witness for Nobody {
    fn committing(&self, _changes: &[Change]) -> u64 {
        0
    }

    fn acknowledged(&self, _number: u64) {}
}

/// Small file system that is mounted in the directory of the databases.
struct SmallDisk {
    root: tempfile::TempDir,
    mounted_at: Option<PathBuf>,
}

impl SmallDisk {
    /// Mounts the file system at `name` below the root: "db", "log", or "" for both.
    fn new(name: &str) -> SmallDisk {
        let root = scratch_dir();
        let (template, at) = (root.path().join("template"), root.path().join("data").join(name));
        std::fs::File::create_new(&template).unwrap().set_len(DISK_BYTES).unwrap();
        std::fs::create_dir_all(&at).unwrap();
        let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let mounted = succeeds(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&template))
            && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&template).arg(&at));
        SmallDisk { root, mounted_at: mounted.then_some(at) }
    }

    fn databases(&self) -> Databases {
        Databases::new(&self.root.path().join("data"), 4096, FILE_BYTES)
    }

    /// Fills the disk up to [`FREE_BYTES`].
    fn fill(&self) {
        let Some(at) = &self.mounted_at else { return };
        let path = at.to_str().unwrap();
        let free = real(async |world| world.free_bytes(path).await.unwrap());
        std::fs::write(at.join("filler"), vec![0; free.saturating_sub(FREE_BYTES) as usize]).unwrap();
    }

    /// The command that runs `program` on this disk.
    fn command(&self, program: &Path) -> Command {
        if self.mounted_at.is_some() {
            return Command::new(program);
        }
        // In units of 512 bytes; the signal that goes with the limit is ignored, as an engine that is told would.
        let limit = (FILE_BYTES + FREE_BYTES / 2) / 512;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"")]).arg(program);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted_at {
            let _ = Command::new("umount").arg(at).output();
        }
    }
}

/// Opens an instance and changes rows until an error occurs. Returns both.
async fn run_out_of_space(
    world: &World,
    databases: &Databases,
    config: &InstanceConfig,
) -> (Instance, Error) {
    let (instance, _) = Instance::open(world, config).await.unwrap();
    let load = Load {
        instance: Rc::new(instance),
        templates: databases.templates.clone(),
        witness: Nobody,
        next_version: 1.into(),
    };
    let mut random = Random::new(1);
    let error = loop {
        if let Err(error) = load.transact(&mut random, 100).await {
            break error;
        }
    };
    (Rc::into_inner(load.instance).expect("nobody else has it"), error)
}

async fn recover(world: &World, config: &InstanceConfig) {
    let (instance, report) = Instance::open(world, config).await.unwrap();
    assert!(report.changes_applied > 0);
    instance.close().await.unwrap();
}

#[test]
#[ignore = "the body of the process that the other test starts"]
fn child() {
    let root = PathBuf::from(std::env::var_os(ROOT).expect("started by another test"));
    let databases = Databases::new(&root, 4096, FILE_BYTES);
    let error = real(async |world| {
        let (instance, error) = run_out_of_space(&world, &databases, &databases.config()).await;
        // What needs no space still works.
        let mut last = instance.begin();
        let (template, entry) = (databases.template(1), Entry::Folder { id: 1, version: LAST_VERSION });
        let (key, data) = (template.schema().key(entry), template.schema().data(entry));
        last.replace(1, template.tree(entry.tree()), &key, &data).await.unwrap();
        last.commit(Durability::Durable).await.unwrap();
        instance.abandon().await;
        error
    });
    match error {
        Error::World(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{error}"),
        other => panic!("no space is reported as: {other}"),
    }
}

#[test]
fn a_full_database_volume_refuses_growth_and_the_databases_recover_on_it() {
    let disk = SmallDisk::new("db");
    let databases = disk.databases();
    real(async |world| databases.create(&world).await);
    disk.fill();
    let output = disk
        .command(&std::env::current_exe().unwrap())
        .args(["--exact", "full_disk::child", "--ignored", "--nocapture"])
        .env(ROOT, disk.root.path().join("data"))
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    real(async |world| recover(&world, &databases.config()).await);
    let rows = databases.check_files().unwrap();
    assert_eq!(rows.get(&(1, Kind::Folder, 1)), Some(&LAST_VERSION));
}

/// Runs the load on a full disk that holds the directory `name`; the instance is then closed, or left to recovery.
fn a_full_disk_with_the_log_on_it(name: &str, closed: bool) {
    let disk = SmallDisk::new(name);
    if disk.mounted_at.is_none() {
        return testkit::skip("a small file system cannot be mounted here; run as root");
    }
    let databases = disk.databases();
    let mut config = databases.config();
    config.circular_logging = false;
    real(async |world| {
        databases.create(&world).await;
        disk.fill();
        let (instance, error) = run_out_of_space(&world, &databases, &config).await;
        let is_space = match &error {
            Error::LogVolumeFull { .. } => true,
            Error::World(error) => name.is_empty() && error.kind == ErrorKind::NoSpace,
            _ => false,
        };
        assert!(is_space, "no space is reported as: {error}");
        if closed {
            instance.close().await.unwrap();
        } else {
            instance.abandon().await;
            recover(&world, &config).await;
        }
    });
    databases.check_files().unwrap();
}

#[test]
fn an_instance_on_a_full_log_volume_can_be_closed() {
    a_full_disk_with_the_log_on_it("log", true);
}

#[test]
fn an_instance_that_stops_on_a_full_log_volume_recovers_there() {
    a_full_disk_with_the_log_on_it("log", false);
}

#[test]
fn one_full_volume_for_everything_does_no_harm() {
    a_full_disk_with_the_log_on_it("", true);
    a_full_disk_with_the_log_on_it("", false);
}
