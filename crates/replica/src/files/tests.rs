use edb::page::PageMut;
use engine::DatabaseConfig;
use world::sim::{Faults, PowerCut, SimConfig, Simulation};

use super::*;
use crate::common::{create, tree_number};
use crate::wire::{Frames, Message, frame};

/// Builds a leaf page with these rows that was written `writes` times.
fn leaf(dbtime: u64, rows: &[(&[u8], &[u8])], writes: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut page = PageMut::format(&mut bytes, 7, 3, page_flags::LEAF, dbtime);
    for (slot, (key, data)) in rows.iter().enumerate() {
        page.insert(slot, key, data, 0).expect("it has room");
    }
    (0..writes).for_each(|_| page.finish(7));
    bytes
}

#[test]
fn a_digest_is_of_what_the_page_says_and_not_of_how_often_it_was_written() {
    let rows: [(&[u8], &[u8]); 2] = [(b"a", b"one"), (b"b", b"two")];
    let (once, twice) = (leaf(5, &rows, 1), leaf(5, &rows, 2));
    assert_ne!(once, twice);
    assert_eq!(digest(&once), digest(&twice));
    let others: [&[(&[u8], &[u8])]; 4] = [
        &[(b"a", b"one"), (b"b", b"tw0")],
        &[(b"a", b"one"), (b"c", b"two")],
        &[(b"a", b"one")],
        &[(b"a", b"on"), (b"b", b"etwo")],
    ];
    for other in others {
        assert_ne!(digest(&once), digest(&leaf(5, other, 1)), "{other:?}");
    }
    assert_ne!(digest(&once), digest(&leaf(6, &rows, 1)));
}

/// Encodes a message as a frame and parses it again, as the receiver would.
fn sent(piece: LogPiece) -> LogPiece {
    let lineage = replication::Lineage::first();
    let (epoch, end, log_start) = (replication::Epoch(1), piece.end(), 1);
    let message = replication::PeerMessage::Ship { epoch, lineage, end, log_start, piece: Some(piece) };
    let mut frames = Frames::default();
    frames.push(&frame(&Message::Peer { database: replication::DatabaseId(0), message }));
    match frames.take().expect("it fits into a frame") {
        Some(Message::Peer {
            message: replication::PeerMessage::Ship { piece: Some(piece), .. }, ..
        }) => piece,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_file_that_is_longer_than_a_message_comes_over_in_pieces() {
    let simulation = Simulation::new(1, SimConfig::default());
    let [source, target] = ["a", "b"].map(|name| {
        let world = simulation.host(name);
        ["/db", "/log"].iter().for_each(|volume| simulation.volume(name, volume, 1 << 30));
        world
    });
    simulation.run_until(async {
        let mut config = create(&source, 1, 1).await;
        config.log_bytes = 9 << 20;
        Files::create(&source, &config).await.expect("it is new");
        let (mut files, _) = Files::open(&source, &config, 7).await.expect("it is there");
        files.standby().await.expect("it is passive");
        let instance = files.mount().await.expect("it is whole");
        let (data, mut number) = (vec![7; 1500], 0u32);
        while instance.durable_log().generation() == 1 {
            let mut transaction = instance.begin();
            for _ in 0..50 {
                number += 1;
                transaction
                    .insert(1, tree_number(0), &number.to_be_bytes(), &data)
                    .await
                    .expect("there is room");
            }
            transaction.commit(engine::Durability::Durable).await.expect("it is open");
        }
        let (mut copy, _) = Files::open(&target, &config, 7).await.expect("it is empty");
        let end = position(instance.durable_log());
        let mut pieces = Vec::new();
        while pieces.last().is_none_or(|(_, closes)| !closes) {
            let from = position(copy.end());
            let piece = files.read_log(from, end).await.expect("it can be read").expect("it is there");
            let piece = sent(piece);
            pieces.push((piece.bytes.len(), piece.closes));
            copy.carry_out(DiskOp::Store(piece)).await.expect("it is what was written");
        }
        assert_eq!(pieces, [(4 << 20, false), (4 << 20, false), (1 << 20, true)]);
    });
}

#[test]
fn a_standby_that_was_never_mounted_is_given_up_with_what_it_has_taken() {
    let simulation = Simulation::new(1, SimConfig::default());
    let world = simulation.host("h");
    ["/db", "/log"].iter().for_each(|volume| simulation.volume("h", volume, 1 << 30));
    simulation.run_until(async {
        let config = create(&world, 1, 1).await;
        Files::create(&world, &config).await.expect("it is new");
        let (mut files, _) = Files::open(&world, &config, 7).await.expect("it is there");
        let standby = files.standby().await.expect("it is passive");
        let bytes = standby.copy_page(DATABASE, 4).await.expect("it is whole").into();
        let given = DiskOp::WritePages([PageCopy { page: 5, bytes }].into());
        files.carry_out(given).await.expect("it is written");
        assert_eq!(files.taken_pages(), [5]);
        files.dismount().await.expect("it is closed");
        assert!(matches!(files.mode, Mode::Closed));
        assert_eq!(files.taken_pages(), [5]);
    });
}

#[test]
fn a_new_copy_whose_record_says_that_it_is_whole_has_its_pages_after_a_power_cut() {
    let simulation = Simulation::new(1, SimConfig::default());
    let world = simulation.host("h");
    ["/db", "/log"].iter().for_each(|volume| simulation.volume("h", volume, 1 << 30));
    let mut config = InstanceConfig::new("/log", 4096);
    config.databases.push(DatabaseConfig::new("/db/a.edb"));
    let page = |page: u32| PageCopy { page, bytes: vec![page as u8 + 1; 4096].into() };
    simulation.run_until(async {
        let (mut files, _) = Files::open(&world, &config, 7).await.expect("it is empty");
        files.carry_out(DiskOp::WritePages([page(0), page(1)].into())).await.expect("it is written");
        files.carry_out(DiskOp::WritePages([page(2)].into())).await.expect("it is written");
        files.carry_out(DiskOp::Save(Meta::first())).await.expect("it is saved");
    });
    let lost = PowerCut { lost_write: 1.0, lost_size: 1.0, lost_name: 1.0, ..PowerCut::default() };
    simulation.set_faults(Faults { power_cut: lost, ..Faults::default() });
    simulation.crash("h");
    let world = simulation.restart("h");
    let read = simulation.run_until(async {
        let file = world.open("/db/a.edb", OpenMode::Read).await.expect("it is there");
        let (read, bufs) = file.read_at(0, smallvec![PageBuf::empty(3 * 4096)]).await;
        read.map(|_| bufs[0].as_slice().to_vec())
    });
    let written = (0..3).flat_map(|number| page(number).bytes.to_vec()).collect::<Vec<u8>>();
    assert!(read.expect("it can be read") == written);
}
