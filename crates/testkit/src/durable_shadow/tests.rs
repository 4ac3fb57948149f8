//! The promises of the shadow, the last of them with a process that is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use smallvec::smallvec;

use super::{ShadowHost, ShadowOptions, turn};
use world::real::{RealConfig, run};
use world::{Bufs, ErrorKind, File, OpenMode, PageBuf, World};

const KIND: ShadowOptions =
    ShadowOptions { seed: 1, torn_sync: false, early_write_percent: 0, ignored_sync: None };

fn scratch_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

fn shadowed(world: &World, options: ShadowOptions) -> World {
    World::new(Rc::new(ShadowHost::new(world.host().clone(), options)))
}

/// Runs a test in an empty directory of a shadowed disk.
fn with_shadow<F: Future<Output = ()>>(options: ShadowOptions, test: impl FnOnce(World, String) -> F) {
    let dir = scratch_dir();
    let path = dir.path().to_str().unwrap().to_owned();
    run(RealConfig::new("test"), |world| test(shadowed(&world, options), path)).unwrap();
}

fn page(fill: u8) -> PageBuf {
    PageBuf::copy_of(&[fill; 4096])
}

async fn write(file: &File, page_index: u64, fills: &[u8]) {
    let bufs = fills.iter().map(|fill| page(*fill)).collect::<Bufs>();
    file.write_at(page_index * 4096, bufs).await.0.unwrap();
}

/// First byte of each page; checks that all bytes of a page are equal.
async fn fills(file: &File) -> Vec<u8> {
    let pages = file.size().await.unwrap() / 4096;
    let (result, bufs) = file.read_at(0, (0..pages).map(|_| PageBuf::empty(4096)).collect()).await;
    result.unwrap();
    let fill = |buf: &PageBuf| {
        assert!(buf.as_slice().iter().all(|byte| *byte == buf.as_slice()[0]));
        buf.as_slice()[0]
    };
    bufs.iter().map(fill).collect()
}

fn real_fills(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap().iter().step_by(4096).copied().collect()
}

#[test]
fn contents_and_size_are_seen_at_once_and_real_after_sync() {
    with_shadow(KIND, async |world, dir| {
        let path = format!("{dir}/f");
        let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
        world.sync_dir(&dir).await.unwrap();
        write(&file, 0, &[1, 2, 3]).await;
        assert_eq!((fills(&file).await, real_fills(&path)), (vec![1, 2, 3], vec![]));
        file.sync().await.unwrap();
        assert_eq!(real_fills(&path), [1, 2, 3]);

        file.set_size(4096).await.unwrap();
        file.set_size(4 * 4096).await.unwrap();
        write(&file, 2, &[9]).await;
        let second_handle = world.open(&path, OpenMode::Read).await.unwrap();
        assert_eq!(fills(&second_handle).await, [1, 0, 9, 0], "what was cut does not come back");
        assert_eq!(real_fills(&path), [1, 2, 3]);
        file.sync().await.unwrap();
        assert_eq!((fills(&file).await, real_fills(&path)), (vec![1, 0, 9, 0], vec![1, 0, 9, 0]));

        let (refused, _) = second_handle.write_at(0, smallvec![page(1)]).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::PermissionDenied);
        let (short, _) = file.read_at(3 * 4096, smallvec![PageBuf::empty(8192)]).await;
        assert_eq!(short.unwrap_err().kind, ErrorKind::ShortRead);
        let totals = world.io_totals();
        assert_eq!((totals.reads, totals.writes, totals.write_bytes, totals.syncs), (3, 2, 4 * 4096, 2));
    });
}

#[test]
fn names_are_seen_at_once_and_real_after_sync_dir() {
    with_shadow(KIND, async |world, dir| {
        let at = |name: &str| format!("{dir}/{name}");
        let seen = async || {
            let entries = world.list(&dir).await.unwrap();
            entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        let real = || {
            let entries = std::fs::read_dir(&dir).unwrap();
            let mut names = entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
            names.sort();
            names
        };
        for (name, fill) in [("a", 1), ("b", 2)] {
            let file = world.open(&at(name), OpenMode::CreateNew).await.unwrap();
            write(&file, 0, &[fill]).await;
            file.sync().await.unwrap();
        }
        assert_eq!((seen().await, real().len()), (vec!["a".to_owned(), "b".to_owned()], 0));
        let taken = world.open(&at("a"), OpenMode::CreateNew).await.err().unwrap();
        assert_eq!(taken.kind, ErrorKind::AlreadyExists);
        world.sync_dir(&dir).await.unwrap();
        assert_eq!(real(), ["a", "b"]);

        world.rename(&at("a"), &at("b")).await.unwrap();
        world.open(&at("c"), OpenMode::CreateNew).await.unwrap();
        world.remove(&at("c")).await.unwrap();
        assert_eq!(world.entry(&at("a")).await.unwrap(), None);
        assert_eq!((seen().await, real_fills(&at("b"))), (vec!["b".to_owned()], vec![2]));
        world.sync_dir(&dir).await.unwrap();
        assert_eq!((real(), real_fills(&at("b"))), (vec!["b".into()], vec![1]));

        world.remove(&at("b")).await.unwrap();
        assert!(seen().await.is_empty() && Path::new(&at("b")).exists());
        world.sync_dir(&dir).await.unwrap();
        assert!(real().is_empty());
        assert_eq!(world.open(&at("b"), OpenMode::Read).await.err().unwrap().kind, ErrorKind::NotFound);
    });
}

#[test]
fn a_new_directory_and_what_is_in_it_wait_for_its_own_name() {
    with_shadow(KIND, async |world, dir| {
        let inner = format!("{dir}/inner");
        world.create_dir(&inner).await.unwrap();
        let file = world.open(&format!("{inner}/f"), OpenMode::CreateNew).await.unwrap();
        write(&file, 0, &[1]).await;
        file.sync().await.unwrap();
        world.sync_dir(&inner).await.unwrap();
        assert!(!Path::new(&inner).exists());
        assert_eq!(world.list(&inner).await.unwrap().len(), 1);
        world.sync_dir(&dir).await.unwrap();
        assert_eq!(real_fills(&format!("{inner}/f")), [1]);
    });
}

#[test]
fn syncing_the_directory_that_a_file_moved_into_makes_its_new_name_durable() {
    with_shadow(KIND, async |world, dir| {
        let [from, to] = ["from", "to"].map(|name| format!("{dir}/{name}"));
        for path in [&from, &to] {
            world.create_dir(path).await.unwrap();
        }
        world.sync_dir(&dir).await.unwrap();
        for name in ["moved", "stays"] {
            world.open(&format!("{from}/{name}"), OpenMode::CreateNew).await.unwrap();
        }
        world.rename(&format!("{from}/moved"), &format!("{to}/moved")).await.unwrap();
        world.sync_dir(&to).await.unwrap();
        assert!(Path::new(&format!("{to}/moved")).exists());
        assert!(!Path::new(&format!("{from}/stays")).exists(), "nobody synced the other directory");
    });
}

#[test]
fn a_file_written_aside_and_renamed_over_is_whole_after_one_sync_dir() {
    with_shadow(ShadowOptions { torn_sync: true, ..KIND }, async |world, dir| {
        let (aside, path) = (format!("{dir}/aside"), format!("{dir}/f"));
        std::fs::write(&path, [1; 4096]).unwrap();
        let file = world.open(&aside, OpenMode::CreateNew).await.unwrap();
        write(&file, 0, &[2, 3]).await;
        file.sync().await.unwrap();
        world.rename(&aside, &path).await.unwrap();
        write(&file, 0, &[4]).await;
        world.sync_dir(&dir).await.unwrap();
        assert_eq!(real_fills(&path), [2, 3], "the write after the sync is not durable");
        assert_eq!(fills(&world.open(&path, OpenMode::Read).await.unwrap()).await, [4, 3]);
        assert!(!Path::new(&aside).exists());
    });
}

#[test]
fn a_sync_cut_short_leaves_torn_sectors_and_a_finished_one_does_not() {
    with_shadow(ShadowOptions { torn_sync: true, ..KIND }, async |world, dir| {
        let path = format!("{dir}/f");
        let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
        world.sync_dir(&dir).await.unwrap();
        write(&file, 0, &[1; 8]).await;
        file.sync().await.unwrap();
        write(&file, 0, &[2; 8]).await;
        let syncing = world.spawn({
            let file = file.clone();
            async move { file.sync().await.unwrap() }
        });
        loop {
            turn().await;
            let real = std::fs::read(&path).unwrap();
            let atoms = |page: &[u8]| page.chunks(512).map(|atom| atom[0]).collect::<Vec<_>>();
            assert!(real.chunks(512).all(|atom| atom.iter().all(|byte| *byte == atom[0])));
            // A page that is partly old and partly new is what only a torn write leaves.
            if real.chunks(4096).any(|page| atoms(page).contains(&1) && atoms(page).contains(&2)) {
                break;
            }
        }
        assert_eq!(fills(&file).await, [2; 8], "the running sync is invisible");
        write(&file, 0, &[3]).await;
        syncing.await;
        assert_eq!(real_fills(&path), [2; 8], "what is written during a sync waits for the next");
        assert_eq!(fills(&file).await[0], 3);
    });
}

#[test]
fn early_writes_reach_the_real_file_without_a_sync() {
    with_shadow(ShadowOptions { early_write_percent: 100, ..KIND }, async |world, dir| {
        let path = format!("{dir}/f");
        let file = world.open(&path, OpenMode::CreateNew).await.unwrap();
        world.sync_dir(&dir).await.unwrap();
        write(&file, 1, &[5]).await;
        assert_eq!(real_fills(&path), [0, 5]);
        file.set_size(4096).await.unwrap();
        file.sync().await.unwrap();
        assert_eq!((fills(&file).await, real_fills(&path)), (vec![0], vec![0]));
    });
}

/// All names of a directory, each with the first byte of every page.
async fn everything(world: &World, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in world.list(dir).await.unwrap() {
        let file = world.open(&format!("{dir}/{}", entry.name), OpenMode::Read).await.unwrap();
        assert_eq!(entry.bytes, file.size().await.unwrap());
        all.push((entry.name, fills(&file).await));
    }
    all
}

/// Makes one random change to the file `name` in `dir`. Equal choices make equal changes.
async fn change(world: &World, dir: &str, choices: [u64; 4]) -> world::Result<()> {
    let [what, name, value, more] = choices;
    let path = format!("{dir}/{}", name % 3);
    let open = async || world.open(&path, OpenMode::ReadWrite).await;
    match what % 8 {
        0 => drop(world.open(&path, OpenMode::CreateNew).await?),
        1 => world.rename(&path, &format!("{dir}/{}", (name + 1) % 3)).await?,
        2 => world.remove(&path).await?,
        3 => open().await?.set_size(value % 6 * 4096).await?,
        4 => _ = open().await?.sync().await?,
        5 if more.is_multiple_of(4) => world.sync_dir(dir).await?,
        _ => {
            let pages = (0..=more % 3).map(|_| page(value as u8)).collect::<Bufs>();
            open().await?.write_at(value % 5 * 4096, pages).await.0?;
        }
    }
    Ok(())
}

#[test]
fn what_is_seen_is_always_what_an_undecorated_world_shows_and_real_once_all_is_synced() {
    for seed in 0..8 {
        let options =
            ShadowOptions { seed, torn_sync: seed % 4 == 3, early_write_percent: 30, ignored_sync: None };
        let dir = scratch_dir();
        let test = async |plain: World| {
            let dir = dir.path().to_str().unwrap();
            let [plain_dir, shadow_dir] = ["plain", "shadow"].map(|name| format!("{dir}/{name}"));
            for path in [&plain_dir, &shadow_dir] {
                std::fs::create_dir(path).unwrap();
            }
            let shadow = shadowed(&plain, options);
            let mut random = ChaCha12Rng::seed_from_u64(seed);
            for _ in 0..200 {
                let choices = [(); 4].map(|()| random.next_u64());
                let outcomes = (
                    change(&plain, &plain_dir, choices).await.map_err(|error| error.kind),
                    change(&shadow, &shadow_dir, choices).await.map_err(|error| error.kind),
                );
                assert_eq!(outcomes.0, outcomes.1, "{choices:?}");
                assert_eq!(everything(&plain, &plain_dir).await, everything(&shadow, &shadow_dir).await);
            }
            for (name, _) in everything(&shadow, &shadow_dir).await {
                let path = format!("{shadow_dir}/{name}");
                shadow.open(&path, OpenMode::ReadWrite).await.unwrap().sync().await.unwrap();
            }
            shadow.sync_dir(&shadow_dir).await.unwrap();
            assert_eq!(everything(&plain, &plain_dir).await, everything(&plain, &shadow_dir).await);
        };
        run(RealConfig { direct: false, ..RealConfig::new("test") }, test).unwrap();
    }
}

/// Environment variable with the directory of the child process.
const DIR_VARIABLE: &str = "SHADOW_TEST_DIR";

#[test]
#[ignore = "the body of the process that the next test starts and kills"]
fn child() {
    let dir = std::env::var(DIR_VARIABLE).unwrap();
    run(RealConfig::new("test"), async |world| {
        let world = shadowed(&world, KIND);
        let at = |name: &str| format!("{dir}/{name}");
        for name in ["kept", "old", "removed"] {
            let file = world.open(&at(name), OpenMode::CreateNew).await.unwrap();
            write(&file, 0, &[1, 1]).await;
            file.sync().await.unwrap();
        }
        world.sync_dir(&dir).await.unwrap();

        let kept = world.open(&at("kept"), OpenMode::ReadWrite).await.unwrap();
        write(&kept, 0, &[2]).await;
        kept.sync().await.unwrap();
        write(&kept, 1, &[3, 3, 3]).await;
        let nameless = world.open(&at("nameless"), OpenMode::CreateNew).await.unwrap();
        write(&nameless, 0, &[4]).await;
        nameless.sync().await.unwrap();
        world.rename(&at("old"), &at("new")).await.unwrap();
        world.remove(&at("removed")).await.unwrap();
        // Told on the error stream, which the test harness of the child leaves alone.
        eprintln!("ready");
        std::future::pending::<()>().await
    })
    .unwrap();
}

#[test]
fn sigkill_loses_what_was_not_synced_and_keeps_what_was() {
    let dir = scratch_dir();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable_shadow::tests::child", "--ignored", "--nocapture"])
        .env(DIR_VARIABLE, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let ready = said.any(|line| line.ends_with("ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready, "the child did its part");

    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(real_fills(&at("kept")), [2, 1], "synced contents, old size");
    assert!(!Path::new(&at("nameless")).exists(), "a name without sync_dir is lost");
    assert_eq!(real_fills(&at("old")), [1, 1], "so is a rename");
    assert!(!Path::new(&at("new")).exists());
    assert_eq!(real_fills(&at("removed")), [1, 1], "and a removal");
}
