//! What goes wrong: drives, paths, controllers, batteries.

use array::{
    DestageOrder, Drive, DriveModel, Event, Hardware, Layout, Path, RebuildStatus, Target, VolumePlacement,
    WriteCache,
};
use world::Time;

use super::load::{GIB, KIB, MIB, Rig, mixed, random_reads};
use super::parts::{build, controller, link, nearline, one_group, write_cache};

const SPAN: u64 = 8 * GIB;

/// A group with a spare, rebuilt from one second after the loss on.
fn with_spare(layout: Layout, disks: usize) -> Hardware {
    let mut hardware = one_group(layout, disks, &nearline(), Some(write_cache()), SPAN);
    hardware.drives.push(Drive { name: "spare".into(), model: DriveModel::Rotating(nearline()), link: None });
    hardware.spares = vec![disks];
    hardware.rebuild = array::Rebuild { start_after_ms: 1_000.0, ..hardware.rebuild };
    hardware
}

#[test]
fn a_rebuild_slows_reads_and_then_stops() {
    for (layout, disks) in [
        (Layout::Raid1, 2),
        (Layout::Raid10, 4),
        (Layout::Raid5, 5),
        (Layout::Raid6, 6),
        (Layout::TripleParity, 8),
    ] {
        let mut rig = Rig::new(build(with_spare(layout, disks)), &["/v"], SPAN);
        let mut reads = random_reads(5, SPAN, 32 * KIB);
        let before = rig.run(4, 20.0, &mut reads);
        rig.schedule(20.0, Event::DriveFails { drive: 0 });
        let during = rig.run(4, 20.0, &mut reads);
        assert!(
            during.read_ms() > 1.15 * before.read_ms(),
            "{layout:?}: {} then {} ms",
            before.read_ms(),
            during.read_ms()
        );
        let rebuilding = rig.report().parts.iter().any(|part| part.state == "rebuilding");
        assert!(rebuilding, "{layout:?}: 8 GiB per volume take longer than 20 s under load");
        for _ in 0..200 {
            rig.run(1, 20.0, &mut reads);
            if rig.report().parts.iter().all(|part| part.state.is_empty() || part.state == "lost") {
                break;
            }
        }
        let after = rig.run(4, 20.0, &mut reads);
        let ratio = after.read_ms() / before.read_ms();
        assert!((ratio - 1.0).abs() < 0.05, "{layout:?}: {} then {} ms", before.read_ms(), after.read_ms());
        assert_eq!(before.failed + during.failed + after.failed, 0);
        let lost = rig.report().parts.into_iter().filter(|part| part.state == "lost").count();
        assert_eq!(lost, 1, "{layout:?}: the drive in whose place the spare is");
        let spare = rig.report().parts.into_iter().find(|part| part.name == "spare").expect("listed");
        assert!(spare.reads > 0, "{layout:?}: the spare serves reads after the rebuild");
        rig.drain();
    }
}

#[test]
fn a_drive_without_a_spare_stays_lost() {
    let mut hardware = with_spare(Layout::Raid5, 5);
    hardware.spares.clear();
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    let mut reads = random_reads(5, SPAN, 32 * KIB);
    rig.schedule(1.0, Event::DriveFails { drive: 2 });
    rig.run(1, 5.0, &mut reads);
    let states: Vec<_> = rig.report().parts.into_iter().filter(|part| !part.state.is_empty()).collect();
    assert_eq!(states.iter().map(|part| &*part.state).collect::<Vec<_>>(), ["lost"]);
    rig.drain();
}

#[test]
fn only_what_is_used_is_rebuilt() {
    let written = |used_only: bool, file_bytes: u64| {
        let mut hardware = with_spare(Layout::Raid1, 2);
        hardware.rebuild.used_only = used_only;
        let mut rig = Rig::new(build(hardware), &["/v"], file_bytes);
        rig.schedule(0.0, Event::DriveFails { drive: 1 });
        rig.run(0, 600.0, || unreachable!("no load"));
        let report = rig.report();
        report.parts.into_iter().find(|part| part.name == "spare").expect("listed").write_bytes
    };
    assert_eq!(written(true, 2 * GIB), 2 * GIB);
    assert_eq!(written(false, 2 * GIB), SPAN);
}

#[test]
fn a_dynamic_pool_spreads_its_rebuild_over_all_drives() {
    let layout = Layout::DynamicPool { width: 6, piece_bytes: 128 * MIB, spare_drives: 1 };
    let mut hardware = one_group(layout, 12, &nearline(), Some(write_cache()), 64 * GIB);
    hardware.rebuild = array::Rebuild { steps: 4, ..hardware.rebuild };
    let mut rig = Rig::new(build(hardware), &["/v"], 64 * GIB);
    let mut reads = random_reads(5, 64 * GIB, 32 * KIB);
    rig.run(8, 5.0, &mut reads);
    rig.schedule(5.0, Event::DriveFails { drive: 3 });
    rig.run(8, 5.0, &mut reads);
    rig.drain();
    rig.run(0, 600.0, || unreachable!("no load"));
    let report = rig.report();
    let writers = report.parts.iter().filter(|part| part.name.starts_with("disk") && part.writes > 0).count();
    assert!(writers >= 10, "{writers} of 11 drives took part");
    // Rebuilt: a read is one drive's read again, and the lost drive has none.
    let after = rig.run(8, 10.0, &mut reads);
    let report = rig.report();
    let drive_reads: u64 = report.parts.iter().filter(|p| p.name.starts_with("disk")).map(|p| p.reads).sum();
    assert!(drive_reads <= after.reads + 8 && report.parts[3].reads == 0, "{drive_reads} {}", after.reads);
}

#[test]
fn more_losses_than_the_layout_can_miss_fail_requests() {
    for (layout, disks, losses) in
        [(Layout::Raid0, 2, 1), (Layout::Raid1, 2, 2), (Layout::Raid5, 4, 2), (Layout::TripleParity, 6, 4)]
    {
        let hardware = one_group(layout, disks, &nearline(), Some(write_cache()), SPAN);
        let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
        for drive in 0..losses - 1 {
            rig.schedule(1.0, Event::DriveFails { drive });
        }
        let before = rig.run(4, 10.0, mixed(9, SPAN, 32 * KIB, 30));
        assert_eq!(before.failed, 0, "{layout:?} misses {} drives", losses - 1);
        rig.schedule(10.0, Event::DriveFails { drive: losses - 1 });
        let after = rig.run(4, 10.0, random_reads(9, SPAN, 32 * KIB));
        assert!(after.failed > 0, "{layout:?} cannot miss {losses} drives");
        rig.drain();
    }
}

/// Group with two spares and a slow rebuild, in which a second drive is lost before the first one is rebuilt.
fn lost_twice(layout: Layout, disks: usize, second: usize, steps: u32) -> Rig {
    let mut hardware = with_spare(layout, disks);
    hardware.drives.push(Drive { name: "second spare".into(), ..hardware.drives[disks].clone() });
    hardware.spares.push(disks + 1);
    hardware.controllers[0].write_cache = None;
    hardware.rebuild =
        array::Rebuild { start_after_ms: 0.0, mb_per_s: 200.0, steps, step_bytes: MIB, used_only: true };
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.schedule(1.0, Event::DriveFails { drive: 0 });
    rig.schedule(2.0, Event::DriveFails { drive: second });
    rig
}

#[test]
fn data_that_are_lost_before_a_rebuild_is_over_stay_lost() {
    for (layout, disks) in [(Layout::Raid5, 4), (Layout::Raid1, 2), (Layout::Raid10, 4)] {
        for steps in [1, 4] {
            let mut rig = lost_twice(layout, disks, 1, steps);
            let mut reads = random_reads(3, SPAN, 32 * KIB);
            rig.run(4, 52.0, &mut reads);
            let seen = rig.run(4, 10.0, &mut reads);
            assert!(seen.failed > 0, "{layout:?}, {steps} steps: lost data come back");
            assert!(seen.failed < seen.reads, "{layout:?}, {steps} steps: what was rebuilt can be read");
            for drive in 0..2 {
                let status = rig.array.rebuild(drive);
                assert_eq!(status, Some(RebuildStatus::Lost), "{layout:?}, {steps} steps: drive {drive}");
            }
            let writes = rig.run(4, 10.0, mixed(4, SPAN, 32 * KIB, 100));
            assert!(writes.failed > 0, "{layout:?}, {steps} steps: a write that could not be read again");
            rig.drain();
        }
    }
}

#[test]
fn two_losses_that_the_layout_can_miss_are_both_rebuilt() {
    for (layout, disks, second, data) in [(Layout::Raid6, 5, 1, 3), (Layout::Raid10, 4, 2, 2)] {
        for steps in [1, 4] {
            let mut rig = lost_twice(layout, disks, second, steps);
            let seen = rig.run(2, 200.0, random_reads(3, SPAN, 32 * KIB));
            assert_eq!(seen.failed, 0, "{layout:?}");
            for drive in [0, second] {
                let status = rig.array.rebuild(drive);
                assert!(matches!(status, Some(RebuildStatus::Ended(_))), "{layout:?}: {status:?}");
            }
            // What was being read from the second drive when it died is read again from the others.
            let spares = rig.report().parts.into_iter().filter(|part| part.name.contains("spare"));
            assert!(spares.map(|part| part.write_bytes).min() >= Some(SPAN / data), "{layout:?}");
            rig.drain();
        }
    }
}

#[test]
fn a_pool_that_misses_three_drives_says_that_data_are_lost() {
    let layout = Layout::DynamicPool { width: 6, piece_bytes: 128 * MIB, spare_drives: 3 };
    let mut hardware = one_group(layout, 12, &nearline(), None, 4 * SPAN);
    hardware.rebuild.steps = 8;
    let mut rig = Rig::new(build(hardware), &["/v"], 4 * SPAN);
    (0..3).for_each(|drive| rig.schedule(1.0, Event::DriveFails { drive }));
    rig.run(0, 600.0, || unreachable!("no load"));
    let seen = rig.run(4, 10.0, random_reads(3, 4 * SPAN, 32 * KIB));
    assert!(seen.failed > 0 && seen.failed < seen.reads, "{} of {}", seen.failed, seen.reads);
    for drive in 0..3 {
        assert_eq!(rig.array.rebuild(drive), Some(RebuildStatus::Lost));
    }
    rig.drain();
}

#[test]
fn the_rebuild_on_a_spare_that_is_lost_begins_again_on_the_next() {
    // Drive 4 is the first spare.
    let mut rig = lost_twice(Layout::Raid5, 4, 4, 4);
    let report = rig.array.report(Time { ns: 200_000_000_000 });
    let spare = report.parts.iter().find(|part| part.name == "second spare").expect("listed");
    let (least, most) = (SPAN / 3, SPAN / 3 + 8 * MIB);
    assert!((least..most).contains(&spare.write_bytes), "{} B rebuilt", spare.write_bytes);
    assert!(matches!(rig.array.rebuild(0), Some(RebuildStatus::Ended(_))));
    let mut rig = lost_twice(Layout::Raid5, 4, 4, 4);
    rig.schedule(3.0, Event::DriveFails { drive: 5 });
    rig.array.report(Time { ns: 200_000_000_000 });
    assert_eq!(rig.array.rebuild(0), Some(RebuildStatus::NoSpare));
}

#[test]
fn losing_the_battery_multiplies_write_latency_until_it_is_back() {
    let hardware = one_group(Layout::Raid10, 4, &nearline(), Some(write_cache()), SPAN);
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    let mut load = mixed(5, SPAN, 32 * KIB, 30);
    let before = rig.run(4, 20.0, &mut load);
    rig.schedule(20.0, Event::CacheUnprotected { controller: 0 });
    let without = rig.run(4, 20.0, &mut load);
    rig.schedule(40.0, Event::CacheProtected { controller: 0 });
    rig.run(4, 5.0, &mut load);
    let after = rig.run(4, 20.0, &mut load);
    assert!(without.write_ms() > 5.0 * before.write_ms(), "{} {}", before.write_ms(), without.write_ms());
    assert!(after.write_ms() < 1.5 * before.write_ms(), "{} {}", before.write_ms(), after.write_ms());
    rig.drain();
}

#[test]
fn a_slow_disk_shows_and_recovers() {
    let hardware = one_group(Layout::Raid1, 2, &nearline(), None, SPAN);
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    let mut load = random_reads(5, SPAN, 32 * KIB);
    let before = rig.run(2, 20.0, &mut load);
    rig.schedule(20.0, Event::DriveSlow { drive: 0, factor: 5.0 });
    let slow = rig.run(2, 20.0, &mut load);
    rig.schedule(40.0, Event::DriveSlow { drive: 0, factor: 1.0 });
    rig.run(2, 1.0, &mut load);
    let after = rig.run(2, 20.0, &mut load);
    assert!(slow.read_ms() > 2.0 * before.read_ms());
    assert!((after.read_ms() / before.read_ms() - 1.0).abs() < 0.05);
}

/// Two controllers, two links, a volume owned by the first.
fn dual(cache: Option<WriteCache>) -> Hardware {
    let mut hardware = one_group(Layout::Raid10, 4, &nearline(), cache.clone(), SPAN);
    let mut second = controller(cache);
    second.name = "second".into();
    hardware.controllers.push(second);
    for (index, controller) in hardware.controllers.iter_mut().enumerate() {
        controller.partner = Some(1 - index);
        controller.failover_ms = 2_000.0;
    }
    hardware.links = vec![link("a", 100.0, 600.0), link("b", 100.0, 600.0)];
    hardware.volumes[0].paths =
        vec![Path { links: vec![0], controller: 0 }, Path { links: vec![1], controller: 1 }];
    hardware
}

#[test]
fn the_partner_takes_over_and_writes_through() {
    let mut rig = Rig::new(build(dual(Some(write_cache()))), &["/v"], SPAN);
    let mut load = mixed(5, SPAN, 32 * KIB, 30);
    let before = rig.run(4, 20.0, &mut load);
    rig.schedule(20.0, Event::ControllerFails { controller: 0 });
    let gap = rig.run(4, 2.0, &mut load);
    assert!(gap.reads + gap.writes < 40, "the volume is silent while it moves: {} reads", gap.reads);
    let after = rig.run(4, 20.0, &mut load);
    assert!(after.write_ms() > 5.0 * before.write_ms(), "nobody mirrors the cache of the one that is left");
    assert_eq!(before.failed + gap.failed + after.failed, 0);
    rig.drain();
}

#[test]
fn a_controller_that_is_dead_fails_no_second_time() {
    let mut rig = Rig::new(build(dual(Some(write_cache()))), &["/v"], SPAN);
    let mut load = mixed(5, SPAN, 32 * KIB, 30);
    for at_s in [5.0, 15.0] {
        rig.schedule(at_s, Event::ControllerFails { controller: 0 });
    }
    rig.run(4, 12.0, &mut load);
    let before = rig.run(4, 3.0, &mut load);
    let second = rig.run(4, 3.0, &mut load);
    let (before, second) = (before.reads + before.writes, second.reads + second.writes);
    assert!(second * 10 > before * 8, "its partner is silent again: {second} after {before}");
    rig.drain();
}

#[test]
fn a_lost_path_moves_the_volume_and_no_path_holds_it() {
    let mut rig = Rig::new(build(dual(None)), &["/v"], SPAN);
    let mut load = random_reads(5, SPAN, 32 * KIB);
    rig.schedule(5.0, Event::LinkLost { link: 0 });
    rig.run(4, 10.0, &mut load);
    let moved = rig.run(4, 10.0, &mut load);
    assert!(moved.reads > 500, "{}", moved.reads);
    rig.schedule(20.0, Event::LinkLost { link: 1 });
    rig.run(4, 5.0, &mut load);
    let held = rig.run(4, 5.0, &mut load);
    assert_eq!(held.reads, 0, "no way is left");
    rig.schedule(30.0, Event::LinkRestored { link: 0 });
    rig.run(4, 5.0, &mut load);
    let back = rig.run(4, 10.0, &mut load);
    assert!(back.reads > 500, "{}", back.reads);
    rig.drain();
}

#[test]
fn a_full_cache_holds_writes_to_the_pace_of_the_disks() {
    for destage in
        [DestageOrder::Immediate, DestageOrder::Nearest, DestageOrder::Sorted { burst: 16, start_dirty: 200 }]
    {
        let cache = WriteCache { bytes: 16 * MIB, destage, ..write_cache() };
        let hardware = one_group(Layout::Raid10, 4, &nearline(), Some(cache), 400 * GIB);
        let mut rig = Rig::new(build(hardware), &["/v"], 400 * GIB);
        rig.run(32, 10.0, mixed(5, 400 * GIB, 32 * KIB, 100));
        let seen = rig.run(32, 20.0, mixed(6, 400 * GIB, 32 * KIB, 100));
        let report = rig.report();
        let disk_writes: u64 =
            report.parts.iter().filter(|p| p.name.starts_with("disk")).map(|p| p.writes).sum();
        let ratio = disk_writes as f64 / (2 * seen.writes) as f64;
        assert!((ratio - 1.0).abs() < 0.1, "{destage:?}: {ratio} disk writes per mirrored write");
        assert!(seen.writes_per_s() < 600.0, "{destage:?}: four arms cannot do {}", seen.writes_per_s());
        let controller = report.parts.iter().find(|part| part.name == "controller").expect("listed");
        assert!(controller.write_waits > 0 && controller.dirty_max_bytes <= 8 * MIB);
        rig.drain();
    }
}

#[test]
fn what_does_not_fit_together_is_refused_in_words() {
    let good = one_group(Layout::Raid1, 2, &nearline(), None, SPAN);
    let refuse = |change: &dyn Fn(&mut Hardware), words: &str| {
        let mut hardware = good.clone();
        change(&mut hardware);
        let error = array::Array::new(hardware, 1).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{words}: {error}");
    };
    refuse(&|h| h.groups[0].drives = vec![0, 7], "no drive 7");
    refuse(&|h| h.groups[0].drives = vec![0, 0], "belongs to group");
    refuse(&|h| h.groups[0].drives = vec![0], "1 drives do not make RAID 1");
    refuse(&|h| h.volumes[0].bytes = 1 << 50, "make it smaller");
    refuse(&|h| h.volumes[0].bytes = 0, "it must hold 4096 at least");
    refuse(
        &|h| (h.groups[0].layout, h.groups[0].stripe_element_bytes) = (Layout::Raid0, 1 << 50),
        "holds no stripe element",
    );
    refuse(&|h| h.volumes[0].owner = 3, "no controller 3");
    refuse(
        &|h| {
            let second = VolumePlacement {
                path: "/w".into(),
                target: Target::Group { group: 0, first_byte: GIB },
                ..h.volumes[0].clone()
            };
            h.volumes.push(second);
        },
        "overlaps h:/v",
    );
    refuse(
        &|h| {
            if let DriveModel::Rotating(disk) = &mut h.drives[0].model {
                disk.seek_full_ms = 3.0;
            }
        },
        "no rising curve",
    );
}
