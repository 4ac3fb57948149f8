//! Files that earlier builds have left: the released log formats, and databases whose branch pages have an older form.
//! Both are recovered; a later format is refused by name.
//!
//! `released/format-0.txt` is what a build of 24 November 2026 left when its host lost power, and `format-1.txt` what
//! one of 27 November did: one line per 4 KiB, in it bytes in hexadecimal, runs as `byte*count`. The ignored test below
//! wrote them, and only a new format is a reason to write another.

use std::collections::BTreeMap;

use crate::common::seed::new_simulation;
use crate::common::{PAGE_BYTES, SmallDatabase, check_structure, create, scan, tree_number};
use edb::log::RECORD_FORMAT;
use edb::page::{PageMut, PageRef};
use engine::{Durability, Error, Instance, InstanceConfig};
use smallvec::smallvec;
use world::sim::{Faults, PowerCut, Simulation};
use world::{OpenMode, PageBuf, TemplatePages, World};

const RELEASED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/released");
/// Record formats of the files there.
const FORMATS: [u32; 2] = [0, RECORD_FORMAT];
/// File of the database in the stored state: header and shadow only. All other pages come from the template.
const DATABASE: &str = "/db/0.edb";
const BLOCK_BYTES: usize = 4096;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn expected() -> Rows {
    let row = |key: &[u8], byte: u8, len: usize| (key.to_vec(), vec![byte; len]);
    let small = [row(b"a", 1, 10), row(b"b", 5, 20), row(b"z", 8, 10)];
    let large = (0..4).map(|n| row(&[b'm', n], 6, 1500));
    let many = (0..8).map(|n| row(&[b'r', n], 7, 10));
    small.into_iter().chain(large).chain(many).collect()
}

async fn insert(instance: &Instance, key: &[u8], byte: u8, len: usize) {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), key, &vec![byte; len]).await.unwrap();
    transaction.commit(Durability::Durable).await.unwrap();
}

/// Every kind of change: rows that come, change and go, a rollback, splits, a roll of the log, and a transaction that
/// is open at the end.
async fn make_history(instance: &Instance) {
    for (key, byte) in [(b"a", 1), (b"b", 2), (b"c", 3)] {
        insert(instance, key, byte, 10).await;
    }
    let mut transaction = instance.begin();
    transaction.replace(1, tree_number(0), b"b", &[5; 20]).await.unwrap();
    transaction.delete(1, tree_number(0), b"c").await.unwrap();
    transaction.commit(Durability::Durable).await.unwrap();
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), b"d", &[4; 10]).await.unwrap();
    transaction.rollback().await.unwrap();
    for n in 0..4 {
        insert(instance, &[b'm', n], 6, 1500).await;
    }
    for n in 0..8 {
        insert(instance, &[b'r', n], 7, 10).await;
    }
    let mut open = instance.begin();
    open.insert(1, tree_number(0), b"open", b"x").await.unwrap();
    insert(instance, b"z", 8, 10).await;
    instance.abandon().await;
}

async fn read(world: &World, path: &str) -> Vec<u8> {
    let file = world.open(path, OpenMode::Read).await.unwrap();
    let bytes = file.size().await.unwrap() as usize;
    let (done, bufs) = file.read_at(0, smallvec![PageBuf::empty(bytes)]).await;
    done.unwrap();
    bufs[0].as_slice().to_vec()
}

async fn write(world: &World, path: &str, bytes: &[u8]) {
    let file = match world.entry(path).await.unwrap() {
        Some(_) => world.open(path, OpenMode::ReadWrite).await.unwrap(),
        None => world.open(path, OpenMode::CreateNew).await.unwrap(),
    };
    file.write_at(0, smallvec![PageBuf::copy_of(bytes)]).await.0.unwrap();
    file.sync().await.unwrap();
    world.sync_dir(path.rsplit_once('/').unwrap().0).await.unwrap();
}

/// Lines of a file, and the way back.
fn lines_of(path: &str, bytes: &[u8]) -> String {
    let line = |block: &[u8]| {
        let run = |run: &[u8]| match run.len() {
            0..4 => run.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" "),
            many => format!("{:02X}*{many}", run[0]),
        };
        block.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(" ")
    };
    let lines = bytes.chunks(BLOCK_BYTES).map(line).collect::<Vec<_>>();
    format!("{path}\n{}\n", lines.join("\n"))
}

#[allow(clippy::disallowed_methods, reason = "reads the source")]
fn released_files(format: u32) -> Vec<(String, Vec<u8>)> {
    let released =
        std::fs::read_to_string(format!("{RELEASED}/format-{format}.txt")).expect("the file exists");
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in released.lines() {
        if line.starts_with('/') {
            files.push((line.to_owned(), Vec::new()));
            continue;
        }
        let (_, bytes) = files.last_mut().expect("a path comes first");
        for word in line.split(' ') {
            let (byte, count) = word.split_once('*').unwrap_or((word, "1"));
            let byte = u8::from_str_radix(byte, 16).expect("hexadecimal");
            bytes.extend(std::iter::repeat_n(byte, count.parse().expect("a count")));
        }
    }
    files
}

fn config_of(config: InstanceConfig) -> InstanceConfig {
    // Nothing is written back before the power fails.
    InstanceConfig { checkpoint_depth_bytes: 1 << 30, ..config }
}

#[test]
#[ignore = "writes the files that the other tests read: for a new format only"]
#[allow(clippy::disallowed_methods, reason = "writes into the source")]
fn write_the_released_files() {
    let (sim, world) = new_simulation(1);
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    let config = sim.run_until(create(&world, 1, 1));
    let (instance, _) = sim.run_until(Instance::open(&world, &config_of(config))).unwrap();
    sim.run_until(make_history(&instance));
    drop(instance);
    sim.crash("h");
    let world = sim.restart("h");
    let text = sim.run_until(async {
        let mut text = String::new();
        for entry in world.list("/log").await.unwrap() {
            if entry.name.ends_with(".log") && !entry.name.contains("tmp") || entry.name.ends_with(".chk") {
                let path = format!("/log/{}", entry.name);
                text += &lines_of(&path, &read(&world, &path).await);
            }
        }
        let database = read(&world, DATABASE).await;
        assert!(database[2 * PAGE_BYTES..] == template()[2 * PAGE_BYTES..], "a page was written back");
        text + &lines_of(DATABASE, &database[..2 * PAGE_BYTES])
    });
    std::fs::write(format!("{RELEASED}/format-{RECORD_FORMAT}.txt"), text).unwrap();
}

/// The database that the history begins with.
fn template() -> Vec<u8> {
    let template = SmallDatabase { trees: 1, pages: 64 };
    let mut bytes = vec![0; template.pages() as usize * PAGE_BYTES];
    bytes.chunks_mut(PAGE_BYTES).zip(0..).for_each(|(page, index)| template.fill(index, page));
    bytes
}

/// A host with the released files of a format; `change` is made to each of them.
fn with_released(format: u32, change: impl Fn(&str, &mut Vec<u8>)) -> (Simulation, World, InstanceConfig) {
    let (sim, world) = new_simulation(1);
    let config = sim.run_until(async {
        let config = create(&world, 1, 1).await;
        for (path, mut bytes) in released_files(format) {
            change(&path, &mut bytes);
            write(&world, &path, &bytes).await;
        }
        config
    });
    (sim, world, config)
}

async fn rows(instance: &Instance) -> Rows {
    scan(&instance.begin(), 1, tree_number(0)).await.unwrap()
}

#[test]
fn logs_of_the_released_format_are_recovered() {
    for (format, without_checkpoint) in
        FORMATS.into_iter().flat_map(|format| [(format, false), (format, true)])
    {
        let (sim, world, config) = with_released(format, |_, _| ());
        sim.run_until(async {
            if without_checkpoint {
                world.remove("/log/E00.chk").await.unwrap();
            }
            let (instance, report) = Instance::open(&world, &config).await.unwrap();
            assert!(report.logs_replayed >= 2 && report.transactions_rolled_back == 1, "{report:?}");
            assert_eq!(rows(&instance).await, expected());
            check_structure(&instance, 1, 1).await.unwrap();
            instance.close().await.unwrap();
        });
    }
}

#[test]
fn a_log_with_records_of_a_later_format_is_refused_by_name_and_nothing_is_changed() {
    for newer in ["/log/E00.log", "/log/E0000000001.log"] {
        let (sim, world, config) = with_released(RECORD_FORMAT, |path, bytes| {
            if path == newer {
                bytes[4092] = 2;
                edb::checksum::stamp_header(&mut bytes[..4096]);
            }
        });
        sim.run_until(async {
            let refused = Instance::open(&world, &config).await.map(drop).unwrap_err();
            assert!(refused.to_string().contains("its records have format 2"), "{newer}: {refused}");
            for (path, bytes) in released_files(RECORD_FORMAT)
                .into_iter()
                .filter(|(path, _)| path != newer && path != DATABASE)
            {
                assert!(read(&world, &path).await == bytes, "{newer}: {path} has changed");
            }
        });
    }
}

/// Gives every branch page of a closed database the form of builds before 23 November 2026: its last entry has an
/// empty key, also where the page is not the rightmost of its level. Returns how many pages have changed.
async fn give_the_older_form(world: &World) -> u32 {
    let file = world.open(DATABASE, OpenMode::ReadWrite).await.unwrap();
    let mut changed = 0;
    for index in 2..file.size().await.unwrap() / PAGE_BYTES as u64 {
        let (done, bufs) =
            file.read_at(index * PAGE_BYTES as u64, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        done.unwrap();
        let mut bytes = bufs[0].as_slice().to_vec();
        let page = PageRef::new(&bytes);
        if page.is_blank() || page.is_leaf() || page.is_space() {
            continue;
        }
        let (last, child) = (page.node_count() - 1, page.node(page.node_count() - 1).child().unwrap());
        // The rightmost page of a level has the same form in either.
        if page.node(last).key_len() == 0 {
            continue;
        }
        let mut page = PageMut::new(&mut bytes);
        page.remove(last);
        page.insert(last, b"", &child.to_le_bytes(), 0).unwrap();
        page.finish(index as u32 - 1);
        file.write_at(index * PAGE_BYTES as u64, smallvec![PageBuf::copy_of(&bytes)]).await.0.unwrap();
        changed += 1;
    }
    file.sync().await.unwrap();
    changed
}

/// A long key, of which even the shortest separator of two leaves is long.
fn long_key(n: u32) -> Vec<u8> {
    let group = (n / 200).wrapping_mul(0x9E37_79B9);
    let mut key: Vec<u8> = (0..40).flat_map(|word: u32| group.rotate_left(word).to_be_bytes()).collect();
    key.extend_from_slice(&n.to_be_bytes());
    key
}

async fn put_all(instance: &Instance, numbers: impl Iterator<Item = u32>, byte: u8) {
    let mut transaction = instance.begin();
    for n in numbers {
        match transaction.insert(1, tree_number(0), &long_key(n), &[byte; 60]).await {
            Err(Error::Duplicate) => {
                transaction.replace(1, tree_number(0), &long_key(n), &[byte; 60]).await.unwrap();
            }
            done => done.unwrap(),
        }
    }
    transaction.commit(Durability::Durable).await.unwrap();
}

/// The log of such a database holds pages of the older form, too, and changes and splits of them.
#[test]
fn a_dirty_database_whose_branch_pages_have_the_older_form_is_recovered() {
    const ROWS: u32 = 12_000;
    let (sim, world) = new_simulation(1);
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    let config = sim.run_until(async {
        let config = create(&world, 1, 1).await;
        let config =
            InstanceConfig { cache_bytes_per_database: 8 << 20, log_buffer_bytes: 1 << 20, ..config };
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        put_all(&instance, (0..ROWS).filter(|n| n % 2 == 0), 1).await;
        instance.close().await.unwrap();
        let changed = give_the_older_form(&world).await;
        assert!(changed >= 2, "{changed} branch pages are not the rightmost of their level");
        let (instance, _) = Instance::open(&world, &config_of(config.clone())).await.unwrap();
        check_structure(&instance, 1, 1).await.unwrap();
        put_all(&instance, 0..ROWS, 2).await;
        instance.abandon().await;
        config
    });
    sim.crash("h");
    let world = sim.restart("h");
    sim.run_until(async {
        let (instance, report) = Instance::open(&world, &config).await.unwrap();
        assert!(report.changes_applied > u64::from(ROWS), "{report:?}");
        check_structure(&instance, 1, 1).await.unwrap();
        let found = rows(&instance).await;
        assert_eq!(found.len(), ROWS as usize);
        assert!(found.values().all(|row| *row == [2; 60]));
        instance.close().await.unwrap();
    });
}
