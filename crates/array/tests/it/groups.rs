//! Groups of disks: what a planner asks, with the physics on its side.

use array::{Layout, PartKind};

use super::load::{GIB, KIB, MIB, Rig, mixed, random_reads};
use super::parts::{build, nearline, one_group, write_cache};

fn pages_per_s(layout: Layout, disks: usize, cached: bool, writes: u64) -> super::load::Seen {
    let span = 400 * GIB;
    let cache = cached.then(write_cache);
    let mut rig = Rig::new(build(one_group(layout, disks, &nearline(), cache, span)), &["/v"], span);
    rig.run(16, 5.0, mixed(3, span, 32 * KIB, writes));
    let seen = rig.run(16, 40.0, mixed(4, span, 32 * KIB, writes));
    rig.drain();
    seen
}

#[test]
fn raid_5_costs_writes_that_raid_10_does_not() {
    let mirrored = pages_per_s(Layout::Raid10, 8, true, 100);
    let parity = pages_per_s(Layout::Raid5, 8, true, 100);
    let double = pages_per_s(Layout::Raid6, 8, true, 100);
    // Two disk writes against two reads and two writes, and a turn between read and write.
    assert!(mirrored.per_s() > 1.7 * parity.per_s(), "{} {}", mirrored.per_s(), parity.per_s());
    assert!(parity.per_s() > 1.3 * double.per_s(), "{} {}", parity.per_s(), double.per_s());
}

#[test]
fn without_its_write_cache_a_write_takes_many_times_as_long() {
    let with = pages_per_s(Layout::Raid10, 8, true, 30);
    let without = pages_per_s(Layout::Raid10, 8, false, 30);
    assert!(without.write_ms() > 5.0 * with.write_ms(), "{} {}", without.write_ms(), with.write_ms());
}

#[test]
fn more_under_way_means_more_done_up_to_the_knee() {
    let span = 400 * GIB;
    let at_depth = |depth: usize| {
        let disk = array::RotatingDisk { queue_depth: 16, ..nearline() };
        let mut rig = Rig::new(build(one_group(Layout::Raid10, 8, &disk, None, span)), &["/v"], span);
        rig.run(depth, 30.0, mixed(3, span, 32 * KIB, 0))
    };
    let seen: Vec<_> = [1, 2, 4, 8, 16, 32, 64].map(|depth| (depth, at_depth(depth))).to_vec();
    for pair in seen.windows(2) {
        let (before, after) = (&pair[0].1, &pair[1].1);
        assert!(after.per_s() > before.per_s() && after.read_ms() > before.read_ms());
        // Little's law holds.
        let under_way = after.per_s() * after.read_ms() / 1e3;
        assert!((under_way / pair[1].0 as f64 - 1.0).abs() < 0.02, "{under_way}");
    }
    let gain = |k: usize| seen[k + 1].1.per_s() / seen[k].1.per_s();
    assert!(gain(0) > 1.7 && gain(5) < 1.4, "{} {}", gain(0), gain(5));
}

#[test]
fn mirrors_share_random_reads_and_a_stream_stays_on_one() {
    let span = 100 * GIB;
    let per_disk = |policy: array::MirrorReads, sequential: bool| {
        let mut hardware = one_group(Layout::Raid1, 2, &nearline(), None, span);
        hardware.groups[0].mirror_reads = policy;
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        let (mut random, mut at) = (mixed(3, span, 64 * KIB, 0), 0);
        let seen = rig.run(2, 10.0, || {
            at += 64 * KIB;
            if sequential { (0, world::sim::StorageOp::Read, at - 64 * KIB, 64 * KIB) } else { random() }
        });
        let reads: Vec<u64> = rig.report().parts[..2].iter().map(|part| part.reads).collect();
        (seen.per_s(), reads)
    };
    use array::MirrorReads::{Alternate, Primary, ShortestQueue};
    let (primary, only) = per_disk(Primary, false);
    let (alternate, both) = per_disk(Alternate, false);
    let (shortest, _) = per_disk(ShortestQueue, false);
    assert_eq!(only[1], 0);
    assert!(both[0].abs_diff(both[1]) <= 2);
    assert!(alternate > 1.3 * primary && shortest > alternate, "{primary} {alternate} {shortest}");
    let (_, stream) = per_disk(Alternate, true);
    assert!(stream[1] <= 2 || stream[0] <= 2, "{stream:?}");
}

#[test]
fn read_ahead_speeds_several_streams_on_one_disk() {
    let span = 400 * GIB;
    let mb_per_s = |read_ahead_bytes: u64| {
        let mut hardware = one_group(Layout::Raid0, 1, &nearline(), None, span);
        hardware.controllers[0].read_ahead_bytes = read_ahead_bytes;
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        let (mut turn, mut at) = (0usize, [0u64, 100 * GIB, 200 * GIB, 300 * GIB]);
        let seen = rig.run(4, 20.0, || {
            turn = (turn + 1) % 4;
            at[turn] += 256 * KIB;
            (0, world::sim::StorageOp::Read, at[turn] - 256 * KIB, 256 * KIB)
        });
        seen.per_s() * 0.262
    };
    let rates = [0, 1 << 20, 4 << 20].map(mb_per_s);
    assert!(rates[1] > 1.3 * rates[0] && rates[2] > 1.2 * rates[1], "{rates:?}");
}

#[test]
fn reads_pass_writes_that_were_acknowledged_but_not_for_good() {
    let span = nearline().capacity_bytes / MIB * MIB;
    let pages = |seed| mixed(seed, span, 32 * KIB, 100);
    let mut rig =
        Rig::new(build(one_group(Layout::Raid0, 1, &nearline(), Some(write_cache()), span)), &["/v"], span);
    // A burst that takes the disk seconds, and one reader after it: it waits for the disk's queue, not for the burst.
    rig.run(64, 0.1, pages(1));
    rig.drain();
    let one = rig.run(1, 2.0, random_reads(2, span, 4 * KIB));
    assert!(one.reads >= 5 && one.read_max_ns < 500_000_000, "{} reads, {} ns", one.reads, one.read_max_ns);
    // Readers that leave the disk no pause: they wait for what is overdue, and when that is written they have
    // the disk alone.
    let reads = |rig: &mut Rig, seed| rig.run(128, 2.0, random_reads(seed, span, 4 * KIB)).reads;
    let first = reads(&mut rig, 3);
    rig.run(128, 10.0, random_reads(4, span, 4 * KIB));
    let later = reads(&mut rig, 5);
    assert!(first * 10 < later * 9, "{first} and {later} reads in 2 s");
}

#[test]
fn drives_that_are_added_to_a_pool_come_to_serve_as_much_as_the_others() {
    let span = 64 * GIB;
    let layout = Layout::DynamicPool { width: 6, piece_bytes: 128 * MIB, spare_drives: 1 };
    let mut hardware = one_group(layout, 8, &nearline(), Some(write_cache()), span);
    hardware.rebuild = array::Rebuild { steps: 8, ..hardware.rebuild };
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    let before = rig.run(32, 20.0, random_reads(1, span, 32 * KIB));
    rig.schedule(20.0, array::Event::DrivesAdded { group: 0, count: 8 });
    let during = rig.run(32, 20.0, random_reads(2, span, 32 * KIB));
    let state = rig.report().parts.iter().find(|part| part.name == "group").map(|part| part.state.clone());
    assert!(state.as_ref().is_some_and(|state| state.starts_with("rebalancing, ")), "{state:?}");
    assert!(during.per_s() < before.per_s(), "moving costs");
    rig.run(0, 2_000.0, || unreachable!("no load"));
    let state = rig.report().parts.iter().find(|part| part.name == "group").map(|part| part.state.clone());
    assert_eq!(state, Some(String::new()));
    let after = rig.run(32, 20.0, random_reads(3, span, 32 * KIB));
    assert!(after.per_s() > 1.3 * before.per_s(), "{} {}", before.per_s(), after.per_s());
    let report = rig.report();
    let reads: Vec<u64> =
        report.parts.iter().filter(|part| part.name.contains("disk")).map(|part| part.reads).collect();
    let mean = reads.iter().sum::<u64>() as f64 / 16.0;
    assert!(
        reads.len() == 16 && reads.iter().all(|count| (*count as f64 / mean - 1.0).abs() < 0.25),
        "{reads:?}"
    );
    assert_eq!(before.failed + during.failed + after.failed, 0);
}

#[test]
fn every_drive_of_a_pool_holds_parity_as_of_a_group() {
    let span = 32 * GIB;
    let writes = |layout, disks| {
        let mut rig =
            Rig::new(build(one_group(layout, disks, &nearline(), Some(write_cache()), span)), &["/v"], span);
        rig.run(8, 20.0, mixed(1, span, 32 * KIB, 100));
        let report = rig.report();
        let of_drives: Vec<u64> = report.parts[..disks].iter().map(|part| part.writes).collect();
        of_drives
    };
    // Eight rows of ten pieces fill twelve drives: some hold six of them, some seven.
    let pool = Layout::DynamicPool { width: 10, piece_bytes: 512 * MIB, spare_drives: 1 };
    for of_drives in [writes(pool, 12), writes(Layout::Raid6, 10)] {
        let (least, most) = (of_drives.iter().min().copied(), of_drives.iter().max().copied());
        assert!(most < least.map(|least| least * 4 / 3), "{of_drives:?}");
    }
}

/// On a single disk without a write cache, the latency of a volume's request is that of the disk's command.
#[test]
fn a_drive_tells_the_time_of_reads_from_that_of_writes() {
    let span = 400 * GIB;
    let mut rig = Rig::new(build(one_group(Layout::Raid0, 1, &nearline(), None, span)), &["/v"], span);
    let seen = rig.run(4, 60.0, mixed(3, span, 32 * KIB, 50));
    let report = rig.report();
    let drive = report.parts.iter().find(|part| part.kind == PartKind::Drive).unwrap();
    let (read_ms, write_ms) = (drive.read_ms.unwrap(), drive.write_ms.unwrap());
    for (of_drive, of_volume) in [(read_ms, seen.read_ms()), (write_ms, seen.write_ms())] {
        assert!((of_drive / of_volume - 1.0).abs() < 0.03, "{of_drive} ms, the volume saw {of_volume} ms");
    }
    rig.drain();
    rig.run(4, 1.0, random_reads(3, span, 32 * KIB));
    let report = rig.report();
    let drive = report.parts.iter().find(|part| part.kind == PartKind::Drive).unwrap();
    assert!(drive.read_ms.is_some() && drive.write_ms.is_none(), "no write was there to be measured");
}
