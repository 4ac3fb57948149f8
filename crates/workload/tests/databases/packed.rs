//! Pages that the cache has packed: after every kind of operation, its files have the same bytes as without.

use std::path::Path;
use std::rc::Rc;

use crate::common::{Change, DATABASES, Databases, Load, Witness};
use engine::Instance;
use workload::mix::Random;
use world::sim::{SimConfig, Simulation};
use world::{OpenMode, PageBuf, World};

struct Nobody;

impl Witness for Nobody {
    fn committing(&self, _changes: &[Change]) -> u64 {
        0
    }

    fn acknowledged(&self, _number: u64) {}
}

/// Files after random transactions and a crash, and the trace hash of all operations.
fn loaded(databases: &Databases, packs_pages: bool) -> (Vec<Vec<u8>>, u64) {
    let simulation = Simulation::new(3, SimConfig { packs_pages, ..SimConfig::default() });
    let world = simulation.host("h");
    simulation.volume("h", "/v", 1 << 40);
    let files = simulation.run_until(async {
        databases.create(&world).await;
        let mut random = Random::new(9);
        for ends_well in [false, true] {
            let (instance, _) = Instance::open(&world, &databases.config()).await.expect("it opens");
            let load = Load {
                instance: Rc::new(instance),
                templates: databases.templates.clone(),
                witness: Nobody,
                next_version: (1 + 100_000 * u32::from(ends_well)).into(),
            };
            for _ in 0..400 {
                load.transact(&mut random, 60).await.expect("the transaction ends");
            }
            let instance = Rc::into_inner(load.instance).expect("nobody else has it");
            if ends_well {
                instance.close().await.expect("it closes");
            } else {
                instance.abandon().await;
            }
        }
        let mut files = Vec::new();
        for db in 1..=DATABASES {
            files.push(contents(&world, &databases.path(db)).await);
        }
        files
    });
    (files, simulation.trace_hash())
}

async fn contents(world: &World, path: &str) -> Vec<u8> {
    let file = world.open(path, OpenMode::Read).await.expect("the file exists");
    let bytes = file.size().await.expect("it has a size") as usize;
    let (read, bufs) = file.read_at(0, [PageBuf::empty(bytes)].into_iter().collect()).await;
    read.expect("it is read");
    bufs[0].as_slice().to_vec()
}

#[test]
fn a_database_has_the_same_bytes_whether_its_pages_were_packed_or_not() {
    for page_bytes in [8192, 32768] {
        let databases = Databases::new(Path::new("/v"), page_bytes, 8 << 20);
        let (packed, trace_hash) = loaded(&databases, true);
        let (kept, same_hash) = loaded(&databases, false);
        for (db, bytes) in (1..).zip(&packed) {
            let rows =
                databases.check_bytes(db, bytes.clone()).unwrap_or_else(|error| panic!("{db}: {error}"));
            assert!(rows.values().any(|version| *version > 100_000), "the load has changed rows");
        }
        assert!(packed == kept, "files with pages of {page_bytes} bytes differ");
        assert_eq!(trace_hash, same_hash);
    }
}
