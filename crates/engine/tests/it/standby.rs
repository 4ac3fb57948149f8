//! A passive copy on another host: it follows the log through crashes of its own, and takes over without losing
//! anything that it was sent.
#![allow(clippy::print_stdout, reason = "says what the seeds have reached")]

use std::rc::Rc;

use crate::common::PAGE_BYTES;
use crate::common::check_structure;
use crate::common::model::{DATABASES, TREES, all_rows};
use crate::common::pair::{HOSTS, Pair, Passive, Totals, pair, run_pair_seed};
use crate::common::seed::run_seeds;
use edb::log::SEGMENT_BYTES;
use engine::{Instance, LogPosition, LogStore, ShippedLog, Standby};
use smallvec::smallvec;
use world::{OpenMode, PageBuf, World};

#[test]
fn a_copy_follows_and_takes_over() {
    let mut totals = Totals::default();
    let is_complete = run_seeds("standby", 1, 5, |seed| run_pair_seed(seed, &mut totals));
    let seen = [
        totals.crashes,
        totals.takeovers,
        totals.lossy_takeovers,
        totals.rejoins,
        totals.seedings,
        totals.checkpoints,
        totals.checkpoints_moved,
        totals.mid_log_pieces,
        totals.cut_records,
    ];
    println!(
        "crashes, takeovers, lossy, rejoins, seedings, checkpoints, moved, pieces, cut records: {seen:?}"
    );
    assert!(!is_complete || seen.iter().all(|&count| count >= 20), "something hardly happened: {seen:?}");
}

/// A passive copy that followed the active copy for a while and replayed all its log. Its standby is closed and the
/// active instance is gone. The model holds the rows.
fn left_alone(seed: u64, totals: &mut Totals) -> (Pair<'_>, LogStore, World) {
    let (pair, store, mut standby, world) = left_behind(seed, totals);
    pair.sim.run_until(async {
        standby.replay(store.extent().unwrap().1).await.unwrap();
        standby.save_checkpoint().await.unwrap();
        standby.abandon().await;
    });
    (pair, store, world)
}

/// As [`left_alone`], but the standby is open and has not replayed the end of its log.
fn left_behind(seed: u64, totals: &mut Totals) -> (Pair<'_>, LogStore, Standby, World) {
    let mut pair = pair(seed, totals);
    let instance = Rc::new(pair.sim.run_until(Instance::open(&pair.worlds[0], &pair.config)).unwrap().0);
    let mut passive = pair.sim.run_until(pair.seed_copy(&instance)).unwrap();
    for step in 0..4 {
        passive = pair.step(&instance, passive, step).unwrap();
    }
    pair.sim.crash(HOSTS[0]);
    drop(instance);
    let Passive { store, standby, hold } = passive;
    drop(hold);
    let world = pair.worlds[1].clone();
    (pair, store, standby, world)
}

#[test]
fn a_page_that_nothing_proves_is_named_and_can_be_given() {
    let found = (1..20).any(|seed| {
        let mut totals = Totals::default();
        let (pair, store, world) = left_alone(seed, &mut totals);
        pair.sim.run_until(damage_pages(&pair, &store, &world))
    });
    assert!(found, "the log has every page that it changes as a whole");
}

/// Damages one page after the other until replay reports it as unproven: the log changes the page and holds no image
/// of it. Checks that activation is refused, and that another copy's page repairs it. Returns whether there was such
/// a page.
async fn damage_pages(pair: &Pair<'_>, store: &LogStore, world: &World) -> bool {
    let end = store.extent().unwrap().1;
    let file = world.open(&pair.config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
    for index in 5..file.size().await.unwrap() / PAGE_BYTES as u64 {
        let at = index * PAGE_BYTES as u64;
        let (read, bufs) = file.read_at(at, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        read.unwrap();
        let whole = bufs[0].as_slice().to_vec();
        let mut bad = whole.clone();
        bad[100] ^= 0xFF;
        bad[3000] ^= 0x5A;
        file.write_at(at, smallvec![PageBuf::copy_of(&bad)]).await.0.unwrap();
        let mut standby = Standby::open(world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        let unproven = standby.unproven_pages();
        if unproven.is_empty() {
            standby.abandon().await;
            file.write_at(at, smallvec![PageBuf::copy_of(&whole)]).await.0.unwrap();
            continue;
        }
        let pgno = index as u32 - 1;
        assert_eq!(unproven, [(1, pgno)]);
        let refused = standby.activate(end).await.map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, engine::Error::DamagedPage { pgno: named, .. } if named == pgno),
            "{refused}"
        );

        let mut standby = Standby::open(world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        standby.give_pages(1, &[(pgno, &whole)]).await.unwrap();
        assert!(standby.unproven_pages().is_empty());
        let (instance, _) = standby.activate(end).await.unwrap();
        let rows = all_rows(&instance).await.unwrap();
        pair.model.borrow_mut().rebase_on(&rows).unwrap();
        return true;
    }
    false
}

#[test]
fn a_page_that_was_never_used_stays_so_when_another_copy_gives_it() {
    let mut totals = Totals::default();
    let (pair, store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let end = store.extent().unwrap().1;
        let mut standby = Standby::open(&world, &pair.config).await.unwrap();
        standby.replay(end).await.unwrap();
        let file = world.open(&pair.config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
        let last = file.size().await.unwrap() / PAGE_BYTES as u64 - 1;
        // Something else has to be there, or nothing is written.
        let stale = PageBuf::copy_of(&[0x5A; PAGE_BYTES]);
        file.write_at(last * PAGE_BYTES as u64, smallvec![stale]).await.0.unwrap();
        let zeros = vec![0; PAGE_BYTES];
        standby.give_pages(1, &[(last as u32 - 1, &zeros)]).await.unwrap();
        let (read, bufs) =
            file.read_at(last * PAGE_BYTES as u64, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
        read.unwrap();
        assert!(bufs[0].as_slice() == zeros, "it was stamped");
        standby.abandon().await;
    });
}

/// A power cut can tear a segment so that its own checksum still holds. The log then ends before that segment, and
/// the copy can be activated. The segment was not durable, so the copy had not replayed it.
#[test]
fn a_segment_that_was_torn_unseen_does_not_keep_a_copy_from_taking_over() {
    let mut tried = 0;
    for seed in 1..8 {
        let mut totals = Totals::default();
        let (pair, store, standby, world) = left_behind(seed, &mut totals);
        pair.sim.run_until(standby.abandon());
        let end = store.extent().unwrap().1;
        drop(store);
        let number = end.segment().saturating_sub(u16::from(end.byte() == 0));
        if number == 0 {
            continue;
        }
        tried += 1;
        pair.sim.run_until(async {
            let file = world.open("/log/E00.log", OpenMode::ReadWrite).await.unwrap();
            let offset = u64::from(number) * SEGMENT_BYTES as u64;
            let (read, mut bufs) = file.read_at(offset, smallvec![PageBuf::empty(SEGMENT_BYTES)]).await;
            read.unwrap();
            let mut segment = bufs.remove(0).as_slice().to_vec();
            let last = segment.iter().rposition(|byte| *byte != 0).unwrap();
            segment[last] ^= 0x55;
            edb::checksum::stamp(&mut segment, number.into());
            file.write_at(offset, smallvec![PageBuf::copy_of(&segment)]).await.0.unwrap();
            // The stretch with the segment is the one that was under way.
            let segments = (file.size().await.unwrap() / SEGMENT_BYTES as u64) as u16;
            let mark = edb::log::mark(end.generation(), segments, number..number + 1);
            let last = u64::from(segments - 1) * SEGMENT_BYTES as u64;
            file.write_at(last, smallvec![PageBuf::copy_of(&mark)]).await.0.unwrap();
            let left = LogStore::open(&world, &pair.config).await.unwrap().extent().unwrap().1;
            assert!(left < end, "seed {seed}: {left:?} of {end:?}");
            let standby = Standby::open(&world, &pair.config).await.unwrap();
            let activated = standby.activate(left).await;
            let (instance, _) = activated.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            check_structure(&instance, DATABASES, TREES).await.unwrap();
        });
    }
    assert!(tried > 0);
}

#[test]
fn log_that_is_gone_is_missed() {
    let mut totals = Totals::default();
    let (pair, mut store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let (start, end) = store.extent().unwrap();
        let cut = LogPosition::new(end.generation() - 1, 0, 0);
        assert!(start < cut.generation());
        store.truncate(cut).await.unwrap();
        let standby = Standby::open(&world, &pair.config).await.unwrap();
        let refused = standby.activate(cut).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, engine::Error::MissingLog { .. }), "{refused}");
    });
}

#[test]
fn a_cut_log_ends_there_and_leaves_nothing_behind() {
    let mut totals = Totals::default();
    let (pair, mut store, world) = left_alone(3, &mut totals);
    pair.sim.run_until(async {
        let (_, end) = store.extent().unwrap();
        for to in [
            LogPosition::new(end.generation() - 1, 7, 300),
            LogPosition::new(end.generation() - 1, 5, 0),
            LogPosition::new(end.generation() - 2, 0, 0),
        ] {
            let from = LogPosition::new(to.generation() - 1, 0, 0);
            let kept = store.read(from, LogPosition::new(to.generation(), 0, 0)).await.unwrap().unwrap();
            assert!(kept.closes);
            store.truncate(to).await.unwrap();
            assert_eq!(store.extent().unwrap().1, to);
            let reopened = LogStore::open(&world, &pair.config).await.unwrap().extent().unwrap().1;
            // Whole records decide: those of the segment that was cut in its middle, and no more.
            let segment = LogPosition::new(to.generation(), to.segment(), 0);
            let behind = LogPosition::new(to.generation(), to.segment() + u16::from(to.byte() > 0), 0);
            assert!(
                segment <= to.max(reopened) && reopened <= behind,
                "cut at {to:?}, it ends at {reopened:?}"
            );
            if to.segment() > 0 {
                let file = world.open("/log/E00.log", OpenMode::Read).await.unwrap();
                let first = u64::from(behind.segment()) * 4096;
                // The last segment has the mark of the copy.
                let bytes = (file.size().await.unwrap() - first - SEGMENT_BYTES as u64) as usize;
                let (read, bufs) = file.read_at(first, smallvec![PageBuf::empty(bytes)]).await;
                read.unwrap();
                assert!(bufs[0].as_slice().iter().all(|&byte| byte == 0), "something is left behind {to:?}");
            }
        }
        let refused =
            store.store(&ShippedLog { from: end, bytes: vec![0; 4096], closes: false }).await.unwrap_err();
        assert!(matches!(refused, engine::Error::Refused(_)), "{refused}");
        let from = store.extent().unwrap().1;
        for bytes in [vec![0; 4096], vec![7; 100], Vec::new()] {
            let stretch = ShippedLog { from, bytes, closes: false };
            assert!(matches!(store.store(&stretch).await, Err(engine::Error::Refused(_))));
        }
    });
}
