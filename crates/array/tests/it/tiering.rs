//! Pools of flash and disks whose slices move between them.

use std::collections::BTreeMap;

use array::{
    Assumptions, DestageOrder, Drive, DriveModel, Event, FlashDrive, Group, Hardware, Layout, MirrorReads,
    PartReport, RebuildStatus, RotatingDisk, Snapshots, Target, ThinPool, TieredPool,
};
use world::sim::{FileId, StorageModel, StorageOp, VolumeId};

use super::load::{GIB, KIB, MIB, Numbers, Request, Rig, mixed, random_reads};
use super::parts::{build, flash, nearline, one_group, write_cache};

const SPAN: u64 = 64 * GIB;

/// Tiered pool: four disks of RAID 10 with room for 119 slices of 1 GiB, below two mirrored flash drives with room
/// for ten. Each tier has one free slot more.
fn tiered(every_s: f64, moves_mb_per_s: f64) -> Hardware {
    let disk = RotatingDisk { capacity_bytes: 60 * GIB, ..nearline() };
    let mut hardware = one_group(Layout::Raid10, 4, &disk, Some(write_cache()), SPAN);
    let DriveModel::Flash(drive) = flash() else { panic!("a flash drive") };
    let model = DriveModel::Flash(FlashDrive { capacity_bytes: 11 * GIB, ..drive });
    let drive = |index| Drive { name: format!("flash {index}"), model: model.clone(), link: None };
    hardware.drives.extend((0..2).map(drive));
    hardware.groups.push(Group {
        name: "flash".into(),
        layout: Layout::Raid1,
        drives: vec![4, 5],
        stripe_element_bytes: 512 * KIB,
        mirror_reads: MirrorReads::Alternate,
    });
    let settings = Assumptions::shipped().tiering("2011").expect("known");
    let tiers = vec![1, 0];
    hardware.tiered_pools = vec![TieredPool { tiers, every_s, moves_mb_per_s, free_pct: 0.0, ..settings }];
    hardware
}

fn rig(hardware: Hardware) -> Rig {
    Rig::new(build(hardware), &["/v"], SPAN)
}

fn part(rig: &mut Rig, name: &str) -> PartReport {
    rig.report().parts.into_iter().find(|part| part.name == name).expect("listed")
}

fn state(rig: &mut Rig) -> String {
    part(rig, "group").state
}

/// Nine of ten requests in every eighth GiB.
fn skewed(op: StorageOp) -> impl FnMut() -> Request {
    let mut numbers = Numbers::new(5);
    move || {
        let at = numbers.below(GIB / (32 * KIB)) * 32 * KIB;
        let slice = if numbers.below(10) > 0 { numbers.below(8) * 8 + 5 } else { numbers.below(64) };
        (0, op, slice * GIB + at, 32 * KIB)
    }
}

fn even() -> impl FnMut() -> Request {
    random_reads(5, SPAN, 32 * KIB)
}

#[test]
fn what_is_busy_comes_to_flash_and_an_even_load_gains_nothing() {
    let read_ms = |mut load: Box<dyn FnMut() -> Request>| {
        let mut rig = rig(tiered(30.0, 1000.0));
        let before = rig.run(8, 30.0, &mut load).read_ms();
        assert!(state(&mut rig).starts_with("tiers: 5.0 of 11.0 GiB"), "spread evenly: {}", state(&mut rig));
        rig.run(8, 600.0, &mut load);
        let after = rig.run(8, 29.0, &mut load);
        assert_eq!(after.failed, 0);
        (before, after.read_ms(), state(&mut rig))
    };
    let (before, after, words) = read_ms(Box::new(skewed(StorageOp::Read)));
    assert!(after < 0.4 * before, "{after} after {before} ms: {words}");
    assert!(words.contains(" of 11.0 GiB with 9"), "{words}");
    // Five of 64 slices more lie on flash, and chance makes slices busier than others: moving them costs what
    // that gains.
    let (before, after, words) = read_ms(Box::new(even()));
    assert!((0.8..1.2).contains(&(after / before)), "{after} after {before} ms: {words}");
}

#[test]
fn the_fast_tier_serves_the_reads_of_the_slices_that_a_count_by_hand_finds_busiest() {
    let mut hardware = tiered(30.0, 1000.0);
    hardware.tiered_pools[0].settled = true;
    let mut rig = rig(hardware);
    // Ten slices are read more often, which lie among the others.
    let mut numbers = Numbers::new(11);
    let mut counts = BTreeMap::<u64, u64>::new();
    let mut read = |counts: &mut BTreeMap<u64, u64>| {
        let rank = if numbers.below(3) > 0 { numbers.below(10) } else { numbers.below(64) };
        let slice = rank * 37 % 64;
        *counts.entry(slice).or_default() += 1;
        (0, StorageOp::Read, slice * GIB + numbers.below(GIB / (32 * KIB)) * 32 * KIB, 32 * KIB)
    };
    rig.run(8, 30.0, || read(&mut counts));
    let mut busiest: Vec<(u64, u64)> = counts.iter().map(|(slice, count)| (*count, *slice)).collect();
    busiest.sort_unstable();
    busiest.reverse();
    assert!(busiest[9].0 > busiest[10].0 + 8, "no tie at the last of the ten: {:?}", &busiest[8..12]);
    let mut later = BTreeMap::new();
    rig.run(8, 29.0, || read(&mut later));
    let expected: u64 = busiest[..10].iter().map(|(_, slice)| later[slice]).sum();
    let served = part(&mut rig, "flash 0").reads + part(&mut rig, "flash 1").reads;
    // Those under way when a window begins or ends are in one count and not in the other.
    assert!(served.abs_diff(expected) <= 8, "{served} {expected}: {}", state(&mut rig));
}

#[test]
fn writes_earn_flash_as_reads_do() {
    let mut rig = rig(tiered(20.0, 1000.0));
    rig.run(4, 120.0, skewed(StorageOp::Write));
    let mut reads = skewed(StorageOp::Read);
    let seen = rig.run(4, 10.0, &mut reads);
    let words = state(&mut rig);
    assert!(seen.read_ms() < 3.0 && words.contains("GiB with 9"), "{} ms: {words}", seen.read_ms());
}

#[test]
fn moves_cost_while_they_are_made_and_keep_their_rate() {
    let read_ms = |moves_mb_per_s| {
        let mut rig = rig(tiered(10.0, moves_mb_per_s));
        rig.run(4, 10.0, even());
        let seen = rig.run(4, 8.0, even());
        let reads = part(&mut rig, "disk 0").read_bytes + part(&mut rig, "disk 1").read_bytes;
        (seen.read_ms(), (2 * reads) as f64 / 1e6 - seen.reads as f64 * 0.032768)
    };
    let ((without, none), (with, _)) = (read_ms(0.001), read_ms(1000.0));
    assert!(with > 1.2 * without && none < 60.0, "{with} ms, {without} without moves; {none} MB");
    let mut rig = rig(tiered(10.0, 20.0));
    rig.run(4, 10.0, even());
    rig.run(0, 9.0, || unreachable!("no load"));
    let written = part(&mut rig, "flash 0").write_bytes as f64 / 1e6;
    assert!((150.0..190.0).contains(&written), "{written} MB in nine seconds at 20 MB/s");
}

#[test]
fn what_was_so_for_long_costs_nothing() {
    let moved_bytes = |settled| {
        let mut hardware = tiered(20.0, 1000.0);
        hardware.tiered_pools[0].settled = settled;
        let mut rig = rig(hardware);
        rig.run(4, 19.9, skewed(StorageOp::Read));
        rig.run(4, 3.0, skewed(StorageOp::Read));
        (part(&mut rig, "flash 0").write_bytes, state(&mut rig))
    };
    let (written, words) = moved_bytes(true);
    assert!(written == 0 && words.starts_with("tiers: 10.0 of 11.0 GiB"), "{written} {words}");
    let (written, words) = moved_bytes(false);
    assert!(written > 50 * MIB && !words.starts_with("tiers: 10.0 of 11.0 GiB"), "{written} {words}");
}

#[test]
fn room_without_data_moves_at_no_cost_and_data_without_reads_fill_the_fast_tier() {
    let mut rig = Rig::new(build(tiered(10.0, 1000.0)), &["/v"], 20 * GIB);
    rig.run(0, 600.0, || unreachable!("no load"));
    let [first, second] = ["flash 0", "flash 1"].map(|name| part(&mut rig, name));
    assert_eq!((first.read_bytes, second.read_bytes), (0, 0), "what leaves flash holds no data");
    assert_eq!(first.write_bytes / GIB, 8, "{}", state(&mut rig));
}

#[test]
fn a_patrol_reads_the_drives_of_all_tiers() {
    let mut hardware = tiered(3600.0, 50.0);
    hardware.controllers[0].patrol_mb_per_s = 10.0;
    let mut rig = rig(hardware);
    rig.run(0, 10.0, || unreachable!("no load"));
    let parts = rig.report().parts;
    assert!(parts[..6].iter().all(|part| part.read_bytes > 50 * MIB));
}

#[test]
fn a_hot_set_that_moves_is_followed() {
    let mut hardware = tiered(20.0, 1000.0);
    hardware.tiered_pools[0].half_life_h = 10.0 / 3600.0;
    let mut rig = rig(hardware);
    let hot = |first: u64| {
        let mut numbers = Numbers::new(first);
        move || {
            let at = numbers.below(GIB / (32 * KIB)) * 32 * KIB;
            (0, StorageOp::Read, (first + numbers.below(6)) * GIB + at, 32 * KIB)
        }
    };
    for first in [10, 40] {
        rig.run(4, 300.0, hot(first));
        let seen = rig.run(4, 10.0, hot(first));
        assert!(seen.read_ms() < 1.0, "{first}: {} ms {}", seen.read_ms(), state(&mut rig));
    }
}

#[test]
fn a_tier_that_is_lost_fails_what_lies_there_and_nothing_else() {
    let mut rig = rig(tiered(20.0, 1000.0));
    rig.run(4, 100.0, skewed(StorageOp::Read));
    let at_s = rig.now().ns as f64 / 1e9;
    for drive in [4, 5] {
        rig.schedule(at_s, Event::DriveFails { drive });
    }
    let seen = rig.run(4, 20.0, even());
    let share = seen.failed as f64 / seen.reads as f64;
    assert!((0.1..0.2).contains(&share), "10 of 64 slices: {share}");
    // Nothing can leave the lost tier, or come to it.
    let before = state(&mut rig);
    rig.run(4, 60.0, even());
    let relocated =
        |words: &str| words.split("I/O, ").last().map(|words| words.split(',').next().map(str::to_owned));
    assert_eq!(relocated(&before), relocated(&state(&mut rig)));
    assert!(before.contains("relocated"), "{before}");
    rig.drain();
}

#[test]
fn a_lost_drive_of_a_tier_is_rebuilt_as_far_as_slices_use_it() {
    let mut hardware = tiered(20.0, 1000.0);
    hardware.tiered_pools[0].settled = true;
    hardware.drives.push(Drive { name: "spare".into(), ..hardware.drives[4].clone() });
    hardware.spares = vec![6];
    let mut rig = rig(hardware);
    rig.run(4, 30.0, skewed(StorageOp::Read));
    rig.schedule(30.0, Event::DriveFails { drive: 4 });
    rig.run(0, 200.0, || unreachable!("no load"));
    let gib = part(&mut rig, "spare").write_bytes as f64 / GIB as f64;
    assert!(matches!(rig.array.rebuild(4), Some(RebuildStatus::Ended(_))));
    assert!((10.0..=11.0).contains(&gib), "{gib} GiB");
}

#[test]
fn thin_volumes_lie_on_tiers_and_copies_for_their_snapshots_do_not_count() {
    let mut hardware = tiered(20.0, 1000.0);
    let snapshots = Some(Snapshots { every_s: 5.0, keep: 2 });
    let (name, chunk_bytes) = ("thin".into(), MIB);
    hardware.thin_pools = vec![ThinPool { name, group: 0, chunk_bytes, snapshots }];
    hardware.volumes[0].target = Target::Thin { pool: 0 };
    if let Some(cache) = &mut hardware.controllers[0].write_cache {
        cache.destage = DestageOrder::Nearest;
    }
    let mut rig = rig(hardware);
    rig.array.fill_file(VolumeId(0), FileId(0));
    rig.run(0, 6.0, || unreachable!("no load"));
    // The rest of the chunk is read and copied.
    rig.run(1, 2.0, || (0, StorageOp::Write, 0, 4 * KIB));
    let copied: u64 = rig.report().parts[..6].iter().map(|part| part.reads).sum();
    let pool = part(&mut rig, "group");
    assert!(copied > 0 && pool.reads == 0 && pool.writes > 0, "{copied} {} {}", pool.reads, pool.writes);
    let seen = rig.run(4, 60.0, mixed(4, SPAN, 32 * KIB, 30));
    assert_eq!(seen.failed, 0);
    let words = state(&mut rig);
    assert!(words.contains("held by 2 snapshots, tiers: 10.0 of 11.0 GiB"), "{words}");
    rig.drain();
}

#[test]
fn tiers_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut Hardware)| {
        let mut hardware = tiered(60.0, 50.0);
        change(&mut hardware);
        array::Array::new(hardware, 1).err().expect("it cannot be").to_string()
    };
    assert!(refused(&|hardware| hardware.tiered_pools[0].tiers = vec![0]).contains("two tiers"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].tiers = vec![0, 1]).contains("the last one"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].tiers = vec![0, 0]).contains("one pool"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].tiers = vec![1, 7]).contains("no group 7"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].slice_bytes = 1000).contains("4096"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].every_s = 0.5).contains("every second"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].free_pct = 100.0).contains("free_pct"));
    assert!(refused(&|hardware| hardware.tiered_pools[0].half_life_h = 0.0).contains("half_life_h"));
    assert!(refused(&|hardware| hardware.volumes[0].bytes = 130 * GIB).contains("make it smaller"));
    let fits = |free_pct, bytes| {
        let mut hardware = tiered(60.0, 50.0);
        (hardware.tiered_pools[0].free_pct, hardware.volumes[0].bytes) = (free_pct, bytes);
        array::Array::new(hardware, 1).is_ok()
    };
    assert!(fits(0.0, 129 * GIB) && !fits(0.0, 130 * GIB));
    assert!(fits(10.0, 118 * GIB) && !fits(10.0, 119 * GIB));
}
