//! The ends of numbers that are never given twice: what would begin anew is refused by name, what is open can end,
//! and nothing that was committed is lost. The tests begin near the end, with a log that was made for them
//! (docs/log-format.md).

use crate::common::seed::new_simulation;
use crate::common::{PAGE_BYTES, create, scan, tree_number};
use btree::{LogRecord, MiniTransaction, PlainCoding};
use edb::header::DatabaseHeader;
use edb::log::{
    GENERATION_MAX, LogBuilder, LogHeader, LogPosition, LogTime, RecordChain, SEGMENT_BYTES, Signature,
};
use engine::{Durability, Error, Instance, InstanceConfig};
use smallvec::smallvec;
use world::{OpenMode, PageBuf, World};

const SEGMENTS: u16 = 16;
/// As crates/engine/src/core.rs and log/writer.rs say.
const DBTIMES_KEPT: u64 = 1 << 32;
const GENERATIONS_KEPT: u32 = 256;

/// Last numbers of an instance that was not closed: of a transaction, a log generation and a change.
#[derive(Clone, Copy)]
struct NumbersLeft {
    transaction: u32,
    generation: u32,
    dbtime: u64,
}

const FAR_FROM_THE_END: NumbersLeft = NumbersLeft { transaction: 7, generation: 7, dbtime: 700 };

async fn write(world: &World, path: &str, mode: OpenMode, bytes: &[u8]) {
    let file = world.open(path, mode).await.unwrap();
    file.write_at(0, smallvec![PageBuf::copy_of(bytes)]).await.0.unwrap();
    file.sync().await.unwrap();
}

async fn leave(world: &World, left: NumbersLeft) -> InstanceConfig {
    let config = create(world, 1, 1).await;
    let time = LogTime::from_unix_ms(1_700_000_000_000);
    let signature = Signature::new(3, time);
    let mut header = DatabaseHeader::new(PAGE_BYTES, Signature::new(7, time), time);
    header.attach(1, signature, LogPosition::new(left.generation, 0, 0), time);
    let page = header.stamped();
    write(world, &config.databases[0].path, OpenMode::ReadWrite, &[page, page].concat()).await;

    let mini = MiniTransaction { transaction: Some(left.transaction), ..MiniTransaction::default() };
    let mut record = Vec::new();
    LogRecord::Changes { db: 1, dbtime: left.dbtime, mini }
        .encode(&PlainCoding { page_bytes: PAGE_BYTES }, &mut record);
    let mut builder = LogBuilder::new(left.generation, 1, SEGMENTS, RecordChain::default());
    builder.append(&record, time);
    builder.seal();
    let log = LogHeader {
        generation: left.generation,
        segments: SEGMENTS,
        page_bytes: PAGE_BYTES as u16,
        created: time,
        previous_created: LogTime::default(),
        signature,
        circular: true,
    };
    let mut bytes = log.encode().to_vec();
    let mut segment = builder.take_full().remove(0);
    segment.stamp(1);
    bytes.extend_from_slice(&segment.bytes[..]);
    bytes.resize(usize::from(SEGMENTS) * SEGMENT_BYTES, 0);
    write(world, "/log/E00.log", OpenMode::CreateNew, &bytes).await;
    world.sync_dir("/log").await.unwrap();
    config
}

async fn commit(instance: &Instance, key: &[u8]) -> engine::Result<()> {
    let mut transaction = instance.begin();
    transaction.insert(1, tree_number(0), key, &[1; 100]).await?;
    transaction.commit(Durability::Durable).await
}

async fn keys(instance: &Instance) -> Vec<Vec<u8>> {
    scan(&instance.begin(), 1, tree_number(0)).await.unwrap().into_keys().collect()
}

fn is_used_up(refused: &Error, which: &str) -> bool {
    matches!(refused, Error::NumbersUsedUp { what, .. } if *what == which)
}

#[test]
fn only_transactions_that_change_something_use_up_numbers_and_a_closed_instance_begins_anew() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        let config = leave(&world, NumbersLeft { transaction: u32::MAX - 2, ..FAR_FROM_THE_END }).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        for _ in 0..10 {
            assert!(keys(&instance).await.is_empty());
        }
        commit(&instance, b"last but one").await.unwrap();
        let mut last = instance.begin();
        last.insert(1, tree_number(0), b"last", b"x").await.unwrap();
        let refused = commit(&instance, b"none left").await.unwrap_err();
        assert!(is_used_up(&refused, "transaction numbers"), "{refused}");
        last.replace(1, tree_number(0), b"last", b"y").await.unwrap();
        last.commit(Durability::Durable).await.unwrap();
        assert_eq!(keys(&instance).await.len(), 2);
        instance.close().await.unwrap();

        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        for key in [b"a", b"b", b"c"] {
            commit(&instance, key).await.unwrap();
        }
        instance.abandon().await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(keys(&instance).await.len(), 5);
        instance.close().await.unwrap();
    });
}

#[test]
fn a_database_whose_modification_numbers_are_nearly_used_up_takes_no_change_and_loses_nothing() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        // The last number is given; what is open ends with the numbers that are kept for that.
        let last = u64::MAX - DBTIMES_KEPT;
        let config = leave(&world, NumbersLeft { dbtime: last - 2, ..FAR_FROM_THE_END }).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        commit(&instance, b"committed").await.unwrap();
        let mut open = instance.begin();
        open.insert(1, tree_number(0), b"open", b"x").await.unwrap();
        for key in [b"a", b"b"] {
            let refused = commit(&instance, key).await.unwrap_err();
            assert!(is_used_up(&refused, "modification numbers"), "{refused}");
        }
        open.rollback().await.unwrap();
        instance.close().await.unwrap();
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(keys(&instance).await, [b"committed"]);
        assert!(commit(&instance, b"c").await.is_err());
        instance.close().await.unwrap();
    });
}

/// Numbers never wrap: a change that needs a number beyond the last one stops the instance.
#[test]
fn the_modification_number_behind_the_last_one_is_never_given() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        let config = leave(&world, NumbersLeft { dbtime: u64::MAX, ..FAR_FROM_THE_END }).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert!(is_used_up(&commit(&instance, b"a").await.unwrap_err(), "modification numbers"));
        assert!(keys(&instance).await.is_empty());
        instance.close().await.unwrap();
    });
}

#[test]
fn the_last_log_generations_are_for_ends_and_a_new_stream_begins_at_one() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        let generation = GENERATION_MAX - GENERATIONS_KEPT - 1;
        let config = leave(&world, NumbersLeft { generation, ..FAR_FROM_THE_END }).await;
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        let mut open = instance.begin();
        open.insert(1, tree_number(0), b"open", b"x").await.unwrap();
        let mut committed = 0u32;
        let refused = loop {
            assert!(committed < 1000, "nothing is refused");
            match commit(&instance, &committed.to_be_bytes()).await {
                Ok(()) => committed += 1,
                Err(refused) => break refused,
            }
        };
        assert!(is_used_up(&refused, "log generations"), "{refused}");
        assert!(instance.log_generation() > GENERATION_MAX - GENERATIONS_KEPT);
        open.rollback().await.unwrap();
        instance.close().await.unwrap();

        // The remedy that the refusal names.
        for entry in world.list("/log").await.unwrap() {
            world.remove(&format!("/log/{}", entry.name)).await.unwrap();
        }
        let (instance, _) = Instance::open(&world, &config).await.unwrap();
        assert_eq!(instance.log_generation(), 1);
        commit(&instance, b"in the new stream").await.unwrap();
        assert_eq!(keys(&instance).await.len(), committed as usize + 1);
        instance.close().await.unwrap();
    });
}

#[test]
fn the_generation_behind_the_last_one_is_never_begun() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        let config = leave(&world, NumbersLeft { generation: GENERATION_MAX, ..FAR_FROM_THE_END }).await;
        // What an opening adds fits the last log. Opened and closed again and again, the log is full at last.
        let mut opened = 0;
        let refused = loop {
            assert!(opened < 100, "nothing is refused");
            let closed = match Instance::open(&world, &config).await {
                Ok((instance, _)) => instance.close().await,
                Err(refused) => Err(refused),
            };
            match closed {
                Ok(()) => opened += 1,
                Err(refused) => break refused,
            }
        };
        assert!(opened > 2 && refused.to_string().contains("log generations"), "{opened}: {refused}");
    });
}

#[test]
fn a_log_with_a_number_that_no_log_has_is_refused_by_name() {
    let (sim, world) = new_simulation(1);
    sim.run_until(async {
        let config = leave(&world, NumbersLeft { generation: GENERATION_MAX + 1, ..FAR_FROM_THE_END }).await;
        let refused = Instance::open(&world, &config).await.map(drop).unwrap_err();
        assert!(
            refused.to_string().contains("generation 2147483648 is not between 1 and 2147483647"),
            "{refused}"
        );
        world.rename("/log/E00.log", "/log/E0080000000.log").await.unwrap();
        let refused = Instance::open(&world, &config).await.map(drop).unwrap_err();
        assert!(refused.to_string().contains("no log has such a number"), "{refused}");
    });
}
