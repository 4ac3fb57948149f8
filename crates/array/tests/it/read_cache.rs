//! A flash cache for reads in front of RAID groups.

use std::collections::BTreeMap;

use array::{
    Assumptions, Drive, Event, Hardware, Layout, PartKind, PartReport, ReadCache, RemoteCopy, WhenLinkLost,
};
use world::FixedHashMap;
use world::sim::{FileId, StorageModel, StorageOp, VolumeId};

use super::load::{GIB, KIB, MIB, Numbers, Request, Rig, Seen, mixed, random_reads};
use super::parts::{build, flash, link, nearline, one_group, write_cache};
use super::thin;

const SPAN: u64 = 64 * GIB;

/// Puts a cache of two flash drives, with room for a share of the data, in front of the first group.
pub fn put_in_front(hardware: &mut Hardware, room_share: f64) {
    let first = hardware.drives.len();
    let drive = |index| Drive { name: format!("flash {index}"), model: flash(), link: None };
    hardware.drives.extend((0..2).map(drive));
    let flash_bytes = 2.0 * 800_166_076_416.0;
    let settings = Assumptions::shipped().read_cache("default").expect("known");
    hardware.read_caches = vec![ReadCache {
        name: "read cache".into(),
        groups: vec![0],
        flash: vec![first, first + 1],
        resident_bytes: (flash_bytes / room_share) as u64,
        regions: 64,
        ..settings
    }];
}

/// Ten disks of RAID 10 behind a read cache with room for this share of the data.
fn cached(room_share: f64) -> Hardware {
    let mut hardware = one_group(Layout::Raid10, 10, &nearline(), Some(write_cache()), SPAN);
    put_in_front(&mut hardware, room_share);
    hardware
}

fn uncached() -> Hardware {
    Hardware { read_caches: Vec::new(), ..cached(1.0) }
}

/// Results of a load after the read cache has learned which data are read often.
fn seen(hardware: Hardware, mut load: impl FnMut() -> Request) -> (Seen, Rig) {
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.run(8, 10.0, &mut load);
    let seen = rig.run(8, 10.0, &mut load);
    assert_eq!(seen.failed, 0);
    (seen, rig)
}

fn part(rig: &mut Rig, name: &str) -> PartReport {
    rig.report().parts.into_iter().find(|part| part.name == name).expect("listed")
}

/// Reads of which 95 % go to the first tenth of the data.
fn skewed_reads() -> impl FnMut() -> Request {
    let mut numbers = Numbers::new(5);
    move || {
        let span = if numbers.below(20) > 0 { SPAN / 10 } else { SPAN };
        (0, StorageOp::Read, numbers.below(span / (32 * KIB)) * 32 * KIB, 32 * KIB)
    }
}

#[test]
fn a_cache_that_holds_the_hot_set_makes_skewed_reads_several_times_as_fast() {
    let (without, _) = seen(uncached(), skewed_reads());
    let (with, mut rig) = seen(cached(0.15), skewed_reads());
    assert!(with.reads > 4 * without.reads, "{} with, {} without", with.reads, without.reads);
    let cache = part(&mut rig, "read cache");
    assert_eq!(cache.kind, PartKind::ReadCache);
    let share = cache.cache_hits as f64 / (cache.cache_hits + cache.cache_misses) as f64;
    assert!((0.9..0.99).contains(&share), "{share}");
    let flash_reads = part(&mut rig, "flash 0").reads + part(&mut rig, "flash 1").reads;
    assert!(flash_reads.abs_diff(cache.cache_hits) <= 8, "{flash_reads} of {}", cache.cache_hits);
}

/// Share of a load's reads that a cache of this many blocks serves, which holds those that were last read: each read
/// moves its block to the end of a list, and the first of a list that is too long goes. After `warm` reads.
fn hits_of_a_list(blocks: u64, block_bytes: u64, warm: u64, mut load: impl FnMut() -> Request) -> f64 {
    let (mut last, mut list) = (FixedHashMap::<u64, u64>::default(), BTreeMap::<u64, u64>::new());
    let mut hits = 0;
    for now in 0..2 * warm {
        let block = load().2 / block_bytes;
        if let Some(before) = last.insert(block, now) {
            list.remove(&before);
            hits += u64::from(now >= warm);
        }
        list.insert(now, block);
        if list.len() as u64 > blocks {
            let (_, first) = list.pop_first().expect("a full list");
            last.remove(&first);
        }
    }
    hits as f64 / warm as f64
}

#[test]
fn a_cache_has_the_hits_of_a_list_of_the_blocks_that_were_last_read() {
    const FILE: u64 = 4 * GIB;
    let block_bytes = Assumptions::shipped().read_cache("default").expect("known").block_bytes;
    // Of ten reads, those that go to the first part of the data; that part; room of the cache.
    for (hot_of_ten, hot_share, room_share) in [(9, 0.1, 0.05), (9, 0.1, 0.15), (7, 0.25, 0.2), (0, 1.0, 0.5)]
    {
        let reads = |seed| {
            let mut numbers = Numbers::new(seed);
            move || {
                let is_hot = numbers.below(10) < hot_of_ten;
                let span = if is_hot { (FILE as f64 * hot_share) as u64 } else { FILE };
                (0, StorageOp::Read, numbers.below(span / (32 * KIB)) * 32 * KIB, 32 * KIB)
            }
        };
        let mut hardware = one_group(Layout::Raid10, 10, &nearline(), Some(write_cache()), FILE);
        put_in_front(&mut hardware, room_share);
        let mut rig = Rig::new(build(hardware), &["/v"], FILE);
        rig.run(8, 10.0, reads(3));
        rig.run(8, 10.0, reads(4));
        let cache = part(&mut rig, "read cache");
        let share = cache.cache_hits as f64 / (cache.cache_hits + cache.cache_misses) as f64;
        let blocks = (room_share * (FILE / block_bytes) as f64) as u64;
        let listed = hits_of_a_list(blocks, block_bytes, 400_000, reads(5));
        assert!((share - listed).abs() < 0.03, "{hot_of_ten} {room_share}: {share}, in a list {listed}");
    }
}

#[test]
fn a_cache_for_a_hundredth_of_even_reads_changes_almost_nothing() {
    let reads = || random_reads(5, SPAN, 32 * KIB);
    let (without, _) = seen(uncached(), reads());
    let (with, mut rig) = seen(cached(0.01), reads());
    let gain = with.reads as f64 / without.reads as f64;
    assert!((0.97..1.05).contains(&gain), "{gain}");
    let cache = part(&mut rig, "read cache");
    let share = cache.cache_hits as f64 / (cache.cache_hits + cache.cache_misses) as f64;
    assert!((0.003..0.03).contains(&share), "{share}");
}

#[test]
fn a_backup_passes_by_the_cache() {
    for read_ahead_bytes in [0, 1 << 20] {
        let run = |mut hardware: Hardware| {
            hardware.controllers[0].read_ahead_bytes = read_ahead_bytes;
            let mut at = 0;
            let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
            let seen = rig.run(1, 5.0, || {
                at += 256 * KIB;
                (0, StorageOp::Read, at - 256 * KIB, 256 * KIB)
            });
            (seen, rig)
        };
        let ((without, _), (with, mut rig)) = (run(uncached()), run(cached(1.0)));
        assert_eq!(part(&mut rig, "flash 0").reads + part(&mut rig, "flash 1").reads, 4, "the first one");
        let gain = with.reads as f64 / without.reads as f64;
        assert!((0.99..1.01).contains(&gain), "{gain}");
    }
}

#[test]
fn what_is_written_is_written_to_the_cache_where_that_holds_it() {
    for (write_cache, room_share) in [(Some(write_cache()), 1.0), (None, 1.0), (Some(write_cache()), 0.25)] {
        let mut hardware = cached(room_share);
        hardware.controllers[0].write_cache = write_cache;
        let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
        let seen = rig.run(1, 10.0, mixed(5, SPAN, 32 * KIB, 100));
        let flash_writes = part(&mut rig, "flash 0").writes + part(&mut rig, "flash 1").writes;
        let share = flash_writes as f64 / seen.writes as f64;
        assert!((share - room_share).abs() < 0.1, "{share} of the writes, room for {room_share}");
    }
}

#[test]
fn what_is_copied_to_another_site_passes_by_the_cache() {
    let mut hardware = thin::thin(MIB, 1, SPAN, None);
    put_in_front(&mut hardware, 1.0);
    hardware.links.push(link("sites", 0.0, 0.0));
    hardware.remote_copies.push(RemoteCopy {
        volumes: vec![0],
        link: 0,
        acknowledge_us: 200.0,
        when_link_lost: WhenLinkLost::Suspend,
        region_bytes: 64 * KIB,
    });
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.array.fill_file(VolumeId(0), FileId(0));
    rig.schedule(0.0, Event::LinkLost { link: 0 });
    rig.run(1, 1.0, mixed(3, SPAN, 32 * KIB, 100));
    rig.schedule(1.5, Event::LinkRestored { link: 0 });
    rig.run(0, 60.0, || unreachable!("no load"));
    let disks = part(&mut rig, "disk 0").reads + part(&mut rig, "disk 1").reads;
    let cache = part(&mut rig, "read cache");
    assert!(disks > 100, "{disks}");
    assert_eq!((cache.cache_hits, cache.cache_misses), (0, 0));
}

#[test]
fn chunks_of_a_thin_pool_are_held_as_well() {
    let mut hardware = thin::thin(MIB, 1, SPAN, None);
    put_in_front(&mut hardware, 1.0);
    // Regions of the whole group, of which the data have a small part.
    hardware.read_caches[0].regions = 4096;
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.array.fill_file(VolumeId(0), FileId(0));
    let seen = rig.run(8, 2.0, random_reads(5, SPAN, 32 * KIB));
    let cache = part(&mut rig, "read cache");
    assert!(cache.cache_hits > 20 * cache.cache_misses, "{} {}", cache.cache_hits, cache.cache_misses);
    assert!(seen.read_ms() < 1.0, "{} ms", seen.read_ms());
}

#[test]
fn a_lost_drive_of_the_cache_loses_no_data() {
    let mut rig = Rig::new(build(cached(1.0)), &["/v"], SPAN);
    // As few writes as the disks can take beside the reads.
    let mut load = mixed(5, SPAN, 32 * KIB, 1);
    let before = rig.run(8, 10.0, &mut load);
    rig.schedule(10.0, Event::DriveFails { drive: 10 });
    let after = rig.run(8, 10.0, &mut load);
    assert_eq!((before.failed, after.failed), (0, 0));
    assert!(after.read_ms() > 2.0 * before.read_ms(), "{} then {} ms", before.read_ms(), after.read_ms());
    let cache = part(&mut rig, "read cache");
    assert_eq!(cache.state, "1 of 2 drives lost");
    let share = cache.cache_hits as f64 / (cache.cache_hits + cache.cache_misses) as f64;
    assert!((0.4..0.6).contains(&share), "{share}");
    assert!(part(&mut rig, "flash 0").reads + part(&mut rig, "flash 0").writes <= 8);
    rig.drain();
}
