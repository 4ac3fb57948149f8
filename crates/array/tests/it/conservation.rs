//! What every model owes under every load: each request completes once, in order of time (the rig checks both at
//! every step), never sooner than the least that its way takes; and equal seeds give equal times.

use array::{DestageOrder, ErasureCoding, Event, Hardware, Layout, RemoteCopy, WhenLinkLost, WriteCache};
use proptest::prelude::*;
use world::sim::StorageOp;

use super::load::{GIB, KIB, MIB, Numbers, Rig, Seen};
use super::parts::{build, controller, link, nearline, one_group, write_cache};
use super::{cold_data, deduplication, read_cache, remote_copy, stores, thin};

const SPAN: u64 = 4 * GIB;

fn layouts(index: usize) -> Hardware {
    let pool = Layout::DynamicPool { width: 6, piece_bytes: 128 * MIB, spare_drives: 1 };
    let destage =
        [DestageOrder::Immediate, DestageOrder::Nearest, DestageOrder::Sorted { burst: 8, start_dirty: 20 }]
            [index % 3];
    let cache = WriteCache { bytes: 4 * MIB, destage, gather_ms: 50.0, ..write_cache() };
    let mut hardware = match index % 11 {
        0 => one_group(Layout::Raid0, 1, &nearline(), Some(cache), SPAN),
        1 => one_group(Layout::Raid1, 2, &nearline(), Some(cache), SPAN),
        2 => one_group(Layout::Raid10, 4, &nearline(), Some(cache), SPAN),
        3 => one_group(Layout::Raid5, 4, &nearline(), Some(cache), SPAN),
        4 => one_group(Layout::Raid6, 6, &nearline(), Some(cache), SPAN),
        5 => one_group(Layout::TripleParity, 7, &nearline(), None, SPAN),
        6 => one_group(pool, 8, &nearline(), Some(cache), SPAN),
        7 => stores::log_store(SPAN, SPAN),
        8 => {
            let mut hardware = stores::replicated(SPAN, SPAN);
            if index / 11 % 2 == 1 {
                hardware.replicated_stores[0].compression = cold_data::half(1.0);
                hardware.replicated_stores[0].erasure_coding = Some(ErasureCoding { data: 2, delay_s: 1.0 });
                hardware.replicated_stores[0].deduplication = deduplication::all(1.0);
            }
            hardware
        }
        9 => {
            let snapshots = array::Snapshots { every_s: 1.0, keep: 2 };
            array::Hardware {
                controllers: vec![controller(Some(cache))],
                ..thin::thin(MIB, 1, SPAN, Some(snapshots))
            }
        }
        _ => {
            let disk = array::RotatingDisk { write_cache_bytes: MIB, ..nearline() };
            one_group(Layout::Raid1, 2, &disk, None, SPAN)
        }
    };
    hardware.controllers[0].read_ahead_bytes = if index.is_multiple_of(2) { MIB } else { 0 };
    hardware.controllers[0].patrol_mb_per_s = if index.is_multiple_of(3) { 5.0 } else { 0.0 };
    if index.is_multiple_of(4) && !(7..9).contains(&(index % 11)) {
        let when_link_lost =
            if index.is_multiple_of(8) { WhenLinkLost::Stall } else { WhenLinkLost::Suspend };
        let copied = remote_copy::copied(50.0, 100.0, when_link_lost);
        let sites = hardware.links.len();
        hardware.links.extend(copied.links);
        let copies = copied.remote_copies.into_iter();
        hardware.remote_copies = copies.map(|copy| RemoteCopy { link: sites, ..copy }).collect();
    }
    if index % 5 == 1 && !(7..9).contains(&(index % 11)) {
        read_cache::put_in_front(&mut hardware, 0.5);
    }
    hardware.links.push(link("way", 50.0, 600.0));
    let way = hardware.links.len() - 1;
    hardware.volumes[0].paths = vec![array::Path { links: vec![way], controller: 0 }];
    hardware
}

fn storm(index: usize, seed: u64, events: &[(u64, usize)], runs_ahead: bool) -> (Seen, Seen) {
    let hardware = layouts(index);
    let (drives, way) = (hardware.drives.len(), hardware.links.len() - 1);
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.runs_ahead = runs_ahead;
    for (at_ms, what) in events {
        let at_s = *at_ms as f64 / 1e3;
        match what % 6 {
            0 | 1 => rig.schedule(at_s, Event::DriveFails { drive: what % drives }),
            2 => rig.schedule(at_s, Event::DriveSlow { drive: what % drives, factor: 3.0 }),
            3 => {
                // The way, or the one to the other site, if there is one.
                let link = way - what / 6 % (way + 1).min(2);
                rig.schedule(at_s, Event::LinkLost { link });
                rig.schedule(at_s + 0.3, Event::LinkRestored { link });
            }
            4 => rig.schedule(at_s, Event::CacheUnprotected { controller: 0 }),
            _ => rig.schedule(at_s, Event::CacheProtected { controller: 0 }),
        }
    }
    let mut numbers = Numbers::new(seed);
    let mut stream = 0;
    let during = rig.run(12, 3.0, || match numbers.below(20) {
        0 => (0, StorageOp::Sync, 0, 0),
        1..=4 => {
            stream = (stream + 256 * KIB) % (SPAN - MIB);
            (0, StorageOp::Read, stream, 256 * KIB)
        }
        5..=10 => (0, StorageOp::Read, numbers.below(SPAN / 4096 - 64) * 4096, 4096 << numbers.below(6)),
        11..=13 => (0, StorageOp::Write, numbers.below(64) * 4096, 4096 << numbers.below(4)),
        _ => (0, StorageOp::Write, numbers.below(SPAN / 4096 - 64) * 4096, 4096 << numbers.below(6)),
    });
    (during, rig.drain())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_request_completes_once_whatever_fails(
        index in 0usize..88,
        seed in any::<u64>(),
        events in proptest::collection::vec((0u64..3_000, 0usize..60), 0..8),
    ) {
        let (during, rest) = storm(index, seed, &events, true);
        prop_assert!(during.reads + during.writes + rest.reads + rest.writes > 0);
    }
}

#[test]
fn equal_seeds_give_equal_times_whether_the_array_runs_ahead_or_not() {
    for index in 0..22 {
        let events = [(400, 0), (900, 4), (1_200, 3), (1_500, 5)];
        let storm = |seed, runs_ahead| {
            let (during, rest) = storm(index, seed, &events, runs_ahead);
            (during.trace, rest.trace)
        };
        let trace = storm(7, true);
        assert_eq!(trace, storm(7, false), "model {index}");
        assert_ne!(trace.0, storm(8, true).0, "model {index}: another load is another trace");
    }
}

#[test]
fn nothing_completes_sooner_than_its_way_takes() {
    for index in 0..11 {
        let mut rig = Rig::new(build(layouts(index)), &["/v"], SPAN);
        let mut numbers = Numbers::new(3);
        let seen = rig.run(1, 2.0, || {
            let op = if numbers.below(2) == 0 { StorageOp::Read } else { StorageOp::Write };
            (0, op, numbers.below(SPAN / MIB) * MIB, 32 * KIB)
        });
        // 50 us each way, 32 KiB at 600 MB/s.
        let least_ms = 0.1 + 32.768 / 600.0;
        assert!(seen.read_ms() >= least_ms && seen.write_ms() >= least_ms, "model {index}");
        rig.drain();
    }
}
