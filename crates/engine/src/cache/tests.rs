//! Which pages leave, and that a task that waits for a free frame gets one.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use btree::{Pager, PlainCoding};
use edb::page::{PageMut, page_flags};
use futures_util::future::{Either, join_all, select};
use smallvec::smallvec;
use world::sim::{SimConfig, Simulation};
use world::{OpenMode, PageBuf, World};

use super::{Cache, CachedDatabase, FRAMES_MIN, PageKey, PageNeed, RedoFor};
use crate::config::InstanceConfig;
use crate::io::{Counters, IoFile};
use crate::log::LogPosition;
use crate::recovery::{NamedPage, Pace, Prereader, runs};
use crate::signal::{Poison, StopSignal};

pub(super) const PAGE_BYTES: usize = 4096;
/// Dbtime of each page in the test file.
pub(super) const FILE_DBTIME: u64 = 1000;
const FILE_PAGES: u32 = 128;
/// Number of pages freed at once when free ones are short.
const FREED_AT_ONCE: usize = 8;

pub(super) fn key(pgno: u32) -> PageKey {
    PageKey { db: 1, pgno }
}

/// Smallest cache, over a file of valid pages.
pub(super) async fn small_cache(world: &World) -> Cache {
    let counters = Counters::default();
    let file = IoFile::open(world, "/v/1.edb", OpenMode::CreateNew, &counters).await.unwrap();
    for pgno in 1..=FILE_PAGES {
        let mut page = PageBuf::empty(PAGE_BYTES);
        PageMut::format(page.as_mut_slice(), pgno, 7, page_flags::LEAF, FILE_DBTIME).finish(pgno);
        let offset = (u64::from(pgno) + 1) * PAGE_BYTES as u64;
        file.write(results::IoClass::InitWrite, offset, smallvec![page]).await.unwrap();
    }
    let mut config = InstanceConfig::new("/v", PAGE_BYTES);
    (config.flush_start, config.flush_stop) = (0.0, FREED_AT_ONCE as f64 / FRAMES_MIN as f64);
    let cache = Cache::new(world, &Poison::default(), &config);
    cache.attach(
        1,
        CachedDatabase::new(file, Rc::new(PlainCoding { page_bytes: PAGE_BYTES }), None, None),
        0,
    );
    cache
}

/// Pages that have served their purpose leave before pages that were read ahead.
#[test]
fn pages_read_ahead_stay_until_they_are_used() {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/v", 1 << 30);
    sim.run_until(async {
        let cache = small_cache(&world).await;
        let (stop, scavenging) = (StopSignal::new(), cache.clone());
        let stopped = stop.clone();
        let scavenger = world.spawn(async move { scavenging.scavenge(&stopped).await });
        let use_twice = async |pages: RangeInclusive<u32>| {
            for _ in 0..2 {
                for pgno in pages.clone() {
                    cache.fetch(key(pgno), &mut cache.pins()).await.unwrap();
                    drop(cache.view(1).page(pgno));
                }
                world.sleep(Duration::from_secs(1)).await;
            }
        };
        // A use at the very beginning looks like none.
        world.sleep(Duration::from_secs(1)).await;
        use_twice(1..=48).await;
        cache.preread(1, &[101, 102, 103, 104], PageNeed::Bytes).await.unwrap();
        world.sleep(Duration::from_secs(1)).await;
        for pgno in 49..=80 {
            use_twice(pgno..=pgno).await;
        }
        let are_here =
            |pages: RangeInclusive<u32>| pages.into_iter().all(|pgno| cache.view(1).page(pgno).is_ok());
        assert!(are_here(101..=104), "a page read ahead has left");
        assert!(!are_here(1..=48), "nothing had to leave");
        stop.stop();
        cache.wake_scavenger();
        scavenger.await;
    });
}

/// Runs `waiting` against a cache whose pages are all pinned; they are unpinned after one second. Fails if `waiting`
/// has not ended ten seconds later.
fn when_room_comes<F: Future<Output = ()>>(waiting: impl FnOnce(World, Cache) -> F) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/v", 1 << 30);
    sim.run_until(async {
        let cache = small_cache(&world).await;
        let (stop, scavenging) = (StopSignal::new(), cache.clone());
        let stopped = stop.clone();
        let scavenger = world.spawn(async move { scavenging.scavenge(&stopped).await });
        let (mut some, mut others) = (cache.pins(), cache.pins());
        for pgno in 1..=FRAMES_MIN as u32 {
            let pins = if pgno % 2 == 0 { &mut some } else { &mut others };
            cache.fetch(key(pgno), pins).await.unwrap();
        }
        let let_go = async {
            world.sleep(Duration::from_secs(1)).await;
            drop((some, others));
            world.sleep(Duration::from_secs(10)).await;
        };
        match select(Box::pin(waiting(world.clone(), cache.clone())), Box::pin(let_go)).await {
            Either::Left(_) => {}
            Either::Right(_) => panic!("somebody waits although pages are free: {:?}", cache.status()),
        }
        stop.stop();
        cache.wake_scavenger();
        scavenger.await;
    });
}

/// All woken tasks want the same page: they need one frame, and the next waiter must get another.
#[test]
fn a_free_page_that_is_not_used_goes_to_the_next_who_waits() {
    when_room_comes(|_, cache| async move {
        let fetch = async |pgno| {
            let mut pins = cache.pins();
            cache.fetch(key(pgno), &mut pins).await.unwrap();
        };
        join_all((0..=FREED_AT_ONCE).map(|n| fetch(if n < FREED_AT_ONCE { 100 } else { 101 }))).await;
    });
}

#[test]
fn a_free_page_that_reading_ahead_does_not_use_goes_to_the_next_who_waits() {
    when_room_comes(|world, cache| async move {
        let prereader = Prereader::start(&world, &cache, FREED_AT_ONCE + 1, Pace::OfRedo);
        for pgno in [100; FREED_AT_ONCE].into_iter().chain([101]) {
            prereader.add(runs(&[NamedPage {
                at: LogPosition::default(),
                key: key(pgno),
                wanted: PageNeed::Bytes,
            }]));
        }
        // All are under way now, and wait for room.
        world.sleep(Duration::from_millis(500)).await;
        prereader.stop().await;
    });
}

/// The length of a file may be lost; what lies before its end is as it was written.
#[test]
fn redo_finds_the_pages_before_the_end_of_a_file_whole() {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/v", 1 << 30);
    sim.run_until(async {
        let cache = small_cache(&world).await;
        cache.set_redo(Some(RedoFor::Standby));
        let over_the_end = [FILE_PAGES - 1, FILE_PAGES, FILE_PAGES + 1];
        cache.preread(1, &over_the_end, PageNeed::Bytes).await.unwrap();
        assert_eq!(over_the_end.map(|pgno| cache.view(1).page(pgno).is_ok()), [true, true, false]);
        assert_eq!(over_the_end.map(|pgno| cache.is_absent(key(pgno))), [false; 3]);
    });
}

/// Stalls of a cache of 64 pages without a free one, of which it should keep 8 free: operations hold every page, or
/// every page waits to be written. Returns the stalls of one more read: all, and those caused by the size of the
/// cache.
fn stalls(held: bool) -> (u64, u64) {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    sim.volume("h", "/v", 1 << 30);
    sim.run_until(async {
        let cache = small_cache(&world).await;
        let mut operations = Vec::new();
        for pgno in 1..=FRAMES_MIN as u32 {
            let mut pins = cache.pins();
            cache.fetch(key(pgno), &mut pins).await.unwrap();
            if held {
                operations.push(pins);
            } else {
                let mut frames = cache.0.frames.borrow_mut();
                let frame = frames.find(key(pgno)).expect("it is held");
                let position = LogPosition::new(1, 1, 0);
                frames.mark_changed(frame, position, position);
            }
        }
        let (stop, scavenging) = (StopSignal::new(), cache.clone());
        let stopped = stop.clone();
        let scavenger = world.spawn(async move { scavenging.scavenge(&stopped).await });
        let reading = {
            let cache = cache.clone();
            world.spawn(async move { cache.fetch(key(FRAMES_MIN as u32 + 1), &mut cache.pins()).await })
        };
        world.sleep(Duration::from_secs(1)).await;
        drop(operations);
        reading.await.expect("room has come");
        stop.stop();
        cache.wake_scavenger();
        scavenger.await;
        (cache.status().page_fault_stalls, cache.status().small_cache_stalls)
    })
}

#[test]
fn stall_behind_slow_writes_is_told_from_stall_of_a_small_cache() {
    assert_eq!(stalls(false), (1, 0), "pages wait to be written: the storage is the cause");
    assert_eq!(stalls(true), (1, 1), "operations hold more pages than the cache keeps free");
}
