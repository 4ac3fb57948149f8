//! A full disk ends in a clear error, not in damage: on a small file system of its own where one can be mounted, else
//! behind a limit on the size of files.

#![allow(clippy::disallowed_methods, reason = "the disk under test is made by means of the system")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use common::{Change, Databases, Kind, Load, Witness, real, scratch_dir};
use engine::{Durability, Error, Instance};
use workload::mix::Random;
use workload::schema::Entry;
use world::ErrorKind;

const FILE_BYTES: u64 = 8 << 20;
const DISK_BYTES: u64 = 64 << 20;
/// What is free when the load begins: less than it asks for.
const FREE_BYTES: u64 = 3 << 20;
const ROOT: &str = "PROOFLOAD_FULL_DISK";
/// A version that the load itself never gives.
const LAST_VERSION: u32 = 1 << 20;

/// Nobody has to know.
struct Nobody;

impl Witness for Nobody {
    fn committing(&self, _changes: &[Change]) -> u64 {
        0
    }

    fn acknowledged(&self, _number: u64) {}
}

/// Where the databases lie.
struct Disk {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl Disk {
    fn new() -> Disk {
        let directory = scratch_dir();
        let image = directory.path().join("image");
        std::fs::File::create_new(&image).unwrap().set_len(DISK_BYTES).unwrap();
        std::fs::create_dir(directory.path().join("disk")).unwrap();
        let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let mounted = succeeds(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))
            && succeeds(
                Command::new("mount").args(["-o", "loop"]).arg(&image).arg(directory.path().join("disk")),
            );
        Disk { directory, mounted }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// Leaves so little space that the load runs out of it.
    fn fill(&self) -> PathBuf {
        let filler = self.root().join("filler");
        let root = self.root();
        let free = real(async |world| world.free_bytes(root.to_str().unwrap()).await.unwrap());
        let zeros = vec![0; free.saturating_sub(FREE_BYTES) as usize];
        std::fs::write(&filler, zeros).unwrap();
        filler
    }

    /// The command that runs `program` on this disk.
    fn command(&self, program: &Path) -> Command {
        if self.mounted {
            return Command::new(program);
        }
        // In units of 512 bytes; the signal that goes with the limit is ignored, as an engine that is told would.
        let limit = (FILE_BYTES + FREE_BYTES / 2) / 512;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"")]).arg(program);
        command
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(self.root()).output();
        }
    }
}

#[test]
#[ignore = "the body of the process that the other test starts"]
fn child() {
    let root = PathBuf::from(std::env::var_os(ROOT).expect("started by another test"));
    let databases = Databases::new(&root, 4096, FILE_BYTES);
    let error = real(async |world| {
        let (instance, _) = Instance::open(&world, &databases.config()).await.unwrap();
        let load = Load {
            instance: Rc::new(instance),
            images: databases.images.clone(),
            witness: Nobody,
            next_version: 1.into(),
        };
        let mut random = Random::new(1);
        let error = loop {
            if let Err(error) = load.transact(&mut random, 100).await {
                break error;
            }
        };
        // The volume of the databases being full, what needs no space still works.
        let mut last = load.instance.begin();
        let (image, entry) = (databases.image(1), Entry::Folder { id: 1, version: LAST_VERSION });
        let (key, data) = (image.schema().key(entry), image.schema().data(entry));
        last.replace(1, image.tree(entry.tree()), &key, &data).await.unwrap();
        last.commit(Durability::Durable).await.unwrap();
        Rc::into_inner(load.instance).expect("nobody else has it").abandon().await;
        error
    });
    match error {
        Error::World(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{error}"),
        other => panic!("no space is reported as: {other}"),
    }
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_databases_recover() {
    let disk = Disk::new();
    let databases = Databases::new(&disk.root(), 4096, FILE_BYTES);
    real(async |world| databases.create(&world).await);
    let filler = disk.mounted.then(|| disk.fill());
    let output = disk
        .command(&std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(ROOT, disk.root())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    // Recovery makes a log of its own: it is given space, as an operator would.
    if let Some(filler) = filler {
        std::fs::remove_file(filler).unwrap();
    }
    real(async |world| {
        let (instance, report) = Instance::open(&world, &databases.config()).await.unwrap();
        assert!(report.changes_applied > 0);
        instance.close().await.unwrap();
    });
    let rows = databases.check_files().unwrap();
    assert_eq!(rows.get(&(1, Kind::Folder, 1)), Some(&LAST_VERSION));
}
