//! Log-structured and replicated stores.

use array::{
    Assumptions, Controller, DeviceReport, Drive, DriveModel, Event, Group, Hardware, Layout, LogStore,
    MirrorReads, PartKind, Path, RebuildStatus, ReplicatedStore, StoreNode, Target, VolumePlacement,
    WriteCache,
};
use world::Time;
use world::sim::StorageOp;

use super::load::{GIB, KIB, MIB, Numbers, Request, Rig, mixed, random_reads};
use super::parts::{build, controller, flash, link, nearline, one_group, write_cache};

fn drive(name: &str, model: DriveModel) -> Drive {
    Drive { name: name.into(), model, link: None }
}

/// Eight disks with triple parity, two flash drives; a volume of `bytes` over data of `resident` bytes.
pub fn log_store(bytes: u64, resident: u64) -> Hardware {
    let mut hardware = one_group(Layout::TripleParity, 8, &nearline(), Some(write_cache()), bytes);
    hardware.drives.extend([drive("flash 0", flash()), drive("flash 1", flash())]);
    let settings = Assumptions::shipped().log_store("hybrid-array-2014").expect("known");
    hardware.log_stores = vec![LogStore {
        name: "store".into(),
        group: 0,
        flash: vec![8, 9],
        resident_bytes: resident,
        ram_cache_bytes: 64 * MIB,
        ..settings
    }];
    hardware.volumes[0].target = Target::LogStore { store: 0 };
    hardware
}

/// Three nodes with one flash drive and three disks each.
pub fn replicated(bytes: u64, resident: u64) -> Hardware {
    replicated_on(3, bytes, resident)
}

/// As [`replicated`], with this many nodes.
pub fn replicated_on(nodes: usize, bytes: u64, resident: u64) -> Hardware {
    let count = nodes;
    let mut hardware = one_group(Layout::Raid0, 1, &nearline(), None, bytes);
    hardware.groups.clear();
    hardware.drives.clear();
    hardware.controllers = vec![controller(None)];
    let mut nodes = Vec::new();
    for node in 0..count {
        let first = hardware.drives.len();
        hardware.drives.push(drive(&format!("flash {node}"), flash()));
        for disk in 0..3 {
            let model = DriveModel::Rotating(nearline());
            hardware.drives.push(drive(&format!("disk {node}.{disk}"), model));
        }
        hardware.links.push(link(&format!("node {node}"), 50.0, 1_180.0));
        nodes.push(StoreNode { flash: vec![first], disks: (first + 1..first + 4).collect(), link: node });
    }
    let settings = Assumptions::shipped().replicated_store("2016").expect("known");
    hardware.replicated_stores = vec![ReplicatedStore {
        name: "store".into(),
        nodes,
        resident_bytes: resident,
        ram_cache_bytes: 64 * MIB,
        ..settings
    }];
    hardware.volumes[0].target = Target::ReplicatedStore { store: 0, node: 0 };
    hardware
}

#[test]
fn data_beyond_the_flash_cache_cost_disk_reads() {
    // The flash of two drives holds 4.1 TB of written data at 0.388 stored per written.
    let span = 1 << 40;
    let read_ms = |resident: u64| {
        let mut rig = Rig::new(build(log_store(span, resident)), &["/v"], span);
        let seen = rig.run(4, 5.0, random_reads(5, span, 32 * KIB));
        rig.drain();
        seen.read_ms()
    };
    let (inside, twice, eight) = (read_ms(4 << 40), read_ms(8 << 40), read_ms(32 << 40));
    assert!(inside < 0.7, "{inside} ms, 94 of 100 reads from flash");
    assert!(twice > 5.0 * inside && eight > 1.4 * twice, "{inside} {twice} {eight}");
}

/// A log store with little write memory, which holds three segments, and a volume "/v" on it.
fn small_log_store(span: u64) -> Hardware {
    let mut hardware = log_store(span, span);
    let cache = WriteCache { bytes: 64 * MIB, ..write_cache() };
    // Nothing but the drives holds writes up.
    hardware.controllers =
        vec![Controller { acknowledge_us: 0.0, acknowledge_lanes: 0, ..controller(Some(cache)) }];
    hardware
}

/// Writes to two volumes in turn.
fn writes_to_both(span: u64) -> impl FnMut() -> Request {
    let (mut numbers, mut volume) = (Numbers::new(5), 0);
    move || {
        volume = 1 - volume;
        (volume, StorageOp::Write, numbers.below(span / (64 * KIB)) * 64 * KIB, 64 * KIB)
    }
}

/// Writes more than the drives can take, to two volumes in turn. All writes must complete, and many wait.
fn assert_all_are_served(hardware: Hardware, span: u64) {
    let mut rig = Rig::new(build(hardware), &["/v", "/w"], span);
    rig.run(64, 20.0, writes_to_both(span));
    let report = rig.report();
    let volumes: Vec<_> = report.parts.iter().filter(|part| part.kind == PartKind::Volume).collect();
    assert!(volumes.iter().all(|volume| volume.writes > 500), "{volumes:?}");
    let waits: u64 = report.parts.iter().map(|part| part.write_waits).sum();
    assert!(waits > 500, "{waits} writes waited for room");
    rig.drain();
}

#[test]
fn writes_of_two_controllers_wait_for_the_room_of_one_store() {
    let span = 64 * GIB;
    let mut hardware = small_log_store(span);
    hardware.controllers.push(hardware.controllers[0].clone());
    hardware.volumes.push(VolumePlacement { path: "/w".into(), owner: 1, ..hardware.volumes[0].clone() });
    assert_all_are_served(hardware, span);
}

#[test]
fn writes_to_a_group_and_to_a_store_behind_one_controller_wait_each_for_its_own_room() {
    let span = 64 * GIB;
    let mut hardware = small_log_store(span);
    let first = hardware.drives.len();
    hardware.drives.extend((0..2).map(|k| drive(&format!("own {k}"), DriveModel::Rotating(nearline()))));
    hardware.groups.push(Group {
        name: "own".into(),
        layout: Layout::Raid1,
        drives: vec![first, first + 1],
        stripe_element_bytes: 512 * KIB,
        mirror_reads: MirrorReads::Alternate,
    });
    let target = Target::Group { group: 1, first_byte: 0 };
    hardware.volumes.push(VolumePlacement { path: "/w".into(), target, ..hardware.volumes[0].clone() });
    assert_all_are_served(hardware, span);
}

#[test]
fn writes_to_a_store_with_room_do_not_wait_for_another_store_behind_their_controller() {
    let span = 64 * GIB;
    let mut hardware = small_log_store(span);
    let other = log_store(span, span);
    let first = hardware.drives.len();
    hardware.drives.extend(other.drives);
    hardware.groups.push(Group {
        name: "other".into(),
        drives: (first..first + 8).collect(),
        ..other.groups[0].clone()
    });
    hardware.log_stores.push(LogStore {
        name: "other".into(),
        group: 1,
        flash: vec![first + 8, first + 9],
        ..other.log_stores[0].clone()
    });
    let target = Target::LogStore { store: 1 };
    hardware.volumes.push(VolumePlacement { path: "/w".into(), target, ..hardware.volumes[0].clone() });
    // Four times as much for the second: only its store is ever full.
    let mut rig = Rig::new(build(hardware), &["/v", "/w"], span);
    let mut writes = writes_to_both(span / 4);
    rig.run(64, 20.0, || {
        let (volume, op, offset, bytes) = writes();
        let times = 1 + 3 * u64::from(volume);
        (volume, op, offset * times, bytes * times)
    });
    rig.drain();
    let report = rig.report();
    let busy = |name: &str| report.parts.iter().find(|part| part.name == name).expect("listed").busy_share;
    assert!(busy("h:/v") < 0.1 && busy("h:/w") > 0.9, "{} {}", busy("h:/v"), busy("h:/w"));
}

#[test]
fn writes_that_wait_at_a_controller_that_fails_go_on_at_its_partner() {
    let span = 64 * GIB;
    let mut hardware = small_log_store(span);
    hardware.controllers.push(hardware.controllers[0].clone());
    (0..2).for_each(|number| hardware.controllers[number].partner = Some(1 - number));
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    let mut writes = mixed(5, span, 64 * KIB, 100);
    rig.run(64, 10.0, &mut writes);
    rig.schedule(10.0, Event::ControllerFails { controller: 0 });
    let after = rig.run(64, 10.0, &mut writes);
    assert!(after.writes > 500 && after.failed == 0, "{after:?}");
    rig.drain();
}

#[test]
fn a_memory_that_is_full_before_a_segment_is_does_not_wait_for_the_rest_of_it() {
    let span = 64 * GIB;
    let mut hardware = small_log_store(span);
    hardware.controllers[0].write_cache = Some(WriteCache { bytes: 4 * MIB, ..write_cache() });
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    let seen = rig.run(64, 10.0, mixed(5, span, 64 * KIB, 100));
    assert!(seen.writes > 500, "{seen:?}");
    rig.drain();
}

/// Reads of 32 KiB; 90 % of them go to the tenth of the span that begins at `hot`.
fn skewed_reads(seed: u64, span: u64, hot: u64) -> impl FnMut() -> Request {
    let mut numbers = Numbers::new(seed);
    move || {
        let (from, length) = if numbers.below(10) < 9 { (hot, span / 10) } else { (0, span) };
        let at = from + numbers.below(length / (32 * KIB)) * 32 * KIB;
        (0, StorageOp::Read, at, 32 * KIB)
    }
}

#[test]
fn a_flash_cache_holds_what_is_read_often_and_follows_it() {
    // Room for 47 of 100 bytes: under even reads half of them go to the disks.
    let span = 1 << 40;
    let rig = || Rig::new(build(log_store(span, 8 << 40)), &["/v"], span);
    let mut even = rig();
    even.run(4, 30.0, random_reads(5, span, 32 * KIB));
    let even_ms = even.run(4, 10.0, random_reads(6, span, 32 * KIB)).read_ms();
    let mut skewed = rig();
    let unknown_ms = skewed.run(4, 1.0, skewed_reads(5, span, 0)).read_ms();
    skewed.run(4, 30.0, skewed_reads(6, span, 0));
    let known_ms = skewed.run(4, 10.0, skewed_reads(7, span, 0)).read_ms();
    let moved_ms = skewed.run(4, 1.0, skewed_reads(8, span, span / 2)).read_ms();
    skewed.run(4, 60.0, skewed_reads(9, span, span / 2));
    let followed_ms = skewed.run(4, 10.0, skewed_reads(10, span, span / 2)).read_ms();
    assert!(unknown_ms > 0.8 * even_ms, "nothing was counted yet: {unknown_ms} {even_ms}");
    assert!(known_ms < 0.3 * even_ms, "{known_ms} {even_ms}");
    assert!(moved_ms > 2.0 * known_ms && followed_ms < 1.2 * known_ms, "{known_ms} {moved_ms} {followed_ms}");
}

#[test]
fn a_log_store_turns_random_writes_into_whole_rows() {
    let span = 1 << 40;
    let mut rig = Rig::new(build(log_store(span, span)), &["/v"], span);
    let seen = rig.run(8, 10.0, mixed(5, span, 32 * KIB, 100));
    let report = rig.report();
    let disks: Vec<_> = report.parts.iter().filter(|part| part.name.starts_with("disk")).collect();
    let (reads, writes): (u64, u64) = disks.iter().fold((0, 0), |(r, w), d| (r + d.reads, w + d.writes));
    let written: u64 = disks.iter().map(|disk| disk.write_bytes).sum();
    assert_eq!(reads, 0, "no old data and no old parity are read");
    assert!(writes * 20 < seen.writes, "{writes} disk writes for {} writes", seen.writes);
    // Compressed to 38.8 %, times 8 disks for 5 of data.
    let ratio = written as f64 / (seen.writes * 32 * KIB) as f64 / (0.388 * 8.0 / 5.0);
    assert!((0.8..1.1).contains(&ratio), "{ratio}");
    rig.drain();
}

#[test]
fn memory_serves_what_was_read_before() {
    for hardware in [log_store(GIB, 32 << 40), replicated(GIB, 30 << 40)] {
        let mut rig = Rig::new(build(hardware), &["/v"], GIB);
        let first = rig.run(1, 5.0, random_reads(5, 32 * MIB, 32 * KIB));
        let again = rig.run(1, 5.0, random_reads(6, 32 * MIB, 32 * KIB));
        assert!(again.read_ms() < 0.5 * first.read_ms().max(1.0), "{} {}", first.read_ms(), again.read_ms());
        rig.drain();
    }
}

#[test]
fn replicas_cost_writes_and_the_network() {
    let span = GIB;
    let writes = |replicas: u32, mb_per_s: f64| {
        let mut hardware = replicated(span, span);
        hardware.replicated_stores[0].replicas = replicas;
        hardware.links.iter_mut().for_each(|link| link.mb_per_s = mb_per_s);
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        // Short, so that the flash drives' burst lasts: collection would hide the rest.
        let seen = rig.run(1, 0.5, mixed(5, span, 64 * KIB, 100));
        rig.drain();
        seen.write_ms()
    };
    let (one, two, three) = (writes(1, 1_180.0), writes(2, 1_180.0), writes(3, 1_180.0));
    assert!(one < two && two <= three, "{one} {two} {three}");
    assert!(writes(2, 50.0) > 2.0 * two, "a slow network holds writes up");
}

#[test]
fn reads_without_a_local_copy_cross_the_network() {
    let span = 100 * GIB;
    let remote = |local_pct: f64| {
        let mut hardware = replicated(span, span);
        hardware.replicated_stores[0].local_reads_pct = local_pct;
        hardware.volumes[0].paths = Vec::<Path>::new();
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        rig.run(2, 2.0, random_reads(5, span, 32 * KIB));
        let report = rig.report();
        report
            .parts
            .iter()
            .filter(|part| part.name.starts_with("node"))
            .map(|part| part.write_bytes)
            .sum::<u64>()
    };
    assert_eq!(remote(100.0), 0);
    assert!(remote(0.0) > 0);
}

#[test]
fn tiers_help_a_skewed_load_and_follow_it_at_the_cost_of_moves() {
    // Flash for 20 of 100 extents.
    let span = 64 * GIB;
    let rig = |tiers_by_reads: bool, moves_mb_per_s: f64| {
        let mut hardware = replicated(span, 4 << 40);
        let store = &mut hardware.replicated_stores[0];
        (store.tiers_by_reads, store.moves_mb_per_s, store.tier_regions) =
            (tiers_by_reads, moves_mb_per_s, 256);
        Rig::new(build(hardware), &["/v"], span)
    };
    let even_ms = |tiers| {
        let mut rig = rig(tiers, 400.0);
        rig.run(6, 30.0, random_reads(4, span, 32 * KIB));
        rig.run(6, 30.0, random_reads(5, span, 32 * KIB)).read_ms()
    };
    let (without, with) = (even_ms(false), even_ms(true));
    assert!((0.85..1.15).contains(&(with / without)), "nothing to gain under even reads: {without} {with}");
    let mut fixed = rig(false, 400.0);
    let fixed_ms = fixed.run(6, 30.0, skewed_reads(5, span, 0)).read_ms();
    let seen = |moves_mb_per_s| {
        let mut rig = rig(true, moves_mb_per_s);
        rig.run(6, 60.0, skewed_reads(6, span, 0));
        let known_ms = rig.run(6, 5.0, skewed_reads(7, span, 0)).read_ms();
        let report = rig.report();
        let moved = |report: &DeviceReport| {
            report.parts.iter().filter(|p| p.kind == PartKind::Drive).map(|p| p.write_bytes).sum::<u64>()
        };
        assert_eq!(moved(&report), 0, "a load that stays moves nothing");
        let other_ms = rig.run(6, 5.0, skewed_reads(8, span, span / 2)).read_ms();
        rig.run(6, 400.0, skewed_reads(9, span, span / 2));
        let moved = moved(&rig.report());
        let followed_ms = rig.run(6, 5.0, skewed_reads(10, span, span / 2)).read_ms();
        (known_ms, other_ms, followed_ms, moved)
    };
    let (known, other, followed, moved) = seen(400.0);
    assert!(known < 0.4 * fixed_ms && other > 2.0 * known, "{fixed_ms} {known} {other}");
    // The new hot tenth, less the fifth of it that was there, comes; as much goes; two copies each.
    assert!(
        followed < 1.5 * known && moved > 4 * span / 20 && moved < 8 * span / 10,
        "{known} {followed} {moved}"
    );
    let (known, _, followed, moved) = seen(0.0);
    assert!(followed > 2.0 * known && moved == 0, "nothing moves: {known} {followed} {moved}");
}

/// State of a storage part as text.
pub fn state(rig: &mut Rig, name: &str) -> String {
    rig.report().parts.into_iter().find(|part| part.name == name).expect("listed").state
}

#[test]
fn a_bad_copy_costs_one_more_read_and_is_written_again() {
    let span = 8 * GIB;
    // Hardly anything on flash; two copies, or one.
    let rig = |replicas| {
        let mut hardware = replicated(span, 100 << 40);
        hardware.replicated_stores[0].replicas = replicas;
        Rig::new(build(hardware), &["/v"], span)
    };
    let mut twice = rig(2);
    let mut reads = random_reads(5, span, 32 * KIB);
    let before = twice.run(2, 20.0, &mut reads).read_ms();
    twice.schedule(20.0, Event::ExtentsRot { drive: 1, one_in: 4 });
    let found = twice.run(2, 20.0, &mut reads);
    let written: u64 =
        twice.report().parts.iter().filter(|p| p.kind == PartKind::Drive).map(|p| p.write_bytes).sum();
    twice.run(2, 600.0, &mut reads);
    let after = twice.run(2, 20.0, &mut reads);
    assert_eq!((found.failed, after.failed), (0, 0));
    assert!(
        found.read_ms() > 1.05 * before && after.read_ms() < 1.03 * before,
        "{before} {} {}",
        found.read_ms(),
        after.read_ms()
    );
    assert!(written >= 10 * MIB, "{written}");
    assert!(state(&mut twice, "store").ends_with("bad copies put right"));
    let mut once = rig(1);
    once.schedule(0.0, Event::ExtentsRot { drive: 1, one_in: 4 });
    let mut reads = random_reads(5, span, 32 * KIB);
    let failed = once.run(2, 20.0, &mut reads).failed;
    once.run(2, 600.0, &mut reads);
    let still = once.run(2, 20.0, &mut reads).failed;
    assert!(failed > 0 && 2 * still > failed, "there is no other copy, also later: {failed} {still}");
    assert!(!state(&mut once, "store").contains("put right"));
}

#[test]
fn each_bad_copy_costs_a_read_of_its_extent_elsewhere_and_one_write() {
    let span = 8 * GIB;
    let mut hardware = replicated(span, 100 << 40);
    hardware.replicated_stores[0].ram_cache_bytes = 0;
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    rig.schedule(0.0, Event::ExtentsRot { drive: 1, one_in: 4 });
    // A read in each of 2,000 extents, none twice.
    let count = 2_000;
    for n in 0..count {
        rig.submit((0, StorageOp::Read, n * 1_237 % (span / MIB) * MIB + 64 * KIB, 32 * KIB));
        assert_eq!(rig.drain().failed, 0);
    }
    let words = state(&mut rig, "store");
    let bad: u64 = words.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    // One in four of those on one of three disks.
    assert!((120..215).contains(&bad), "{bad}");
    let report = rig.array.report(Time { ns: rig.now().ns + 5_000_000_000 });
    let drives = report.parts.iter().filter(|part| part.kind == PartKind::Drive);
    let (read, written) =
        drives.fold((0, 0), |(read, written), part| (read + part.read_bytes, written + part.write_bytes));
    assert_eq!((read, written), (count * 32 * KIB + bad * MIB, bad * MIB));
}

#[test]
fn a_read_that_fails_leaves_nothing_behind() {
    let span = 64 * MIB;
    // Hardly anything on flash, one copy, and none of the node's is good.
    let mut hardware = replicated(span, 100 << 40);
    hardware.replicated_stores[0].replicas = 1;
    let store = build(hardware);
    let mut rotten = Rig::new(store, &["/v"], span);
    (0..4).for_each(|drive| rotten.schedule(0.0, Event::ExtentsRot { drive, one_in: 1 }));
    let mut lost = Rig::new(build(log_store(span, 100 << 40)), &["/v"], span);
    (0..8).for_each(|drive| lost.schedule(0.0, Event::DriveFails { drive }));
    for rig in [&mut rotten, &mut lost] {
        // One read after another: a stream, which is read ahead. Then the same again.
        let mut scan = || {
            let blocks = 0..span / (32 * KIB);
            let reads = blocks.map(|block| (0, StorageOp::Read, block * 32 * KIB, 32 * KIB));
            let seen = reads.map(|read| {
                rig.submit(read);
                rig.drain().failed
            });
            seen.sum::<u64>()
        };
        let (first, again) = (scan(), scan());
        assert!(first > 1_900 && again == first, "{first} and {again} of 2048 reads failed");
    }
}

#[test]
fn a_slow_drive_is_emptied_onto_others_and_left_out() {
    let span = 8 * GIB;
    let seen = |slow_drive_factor: f64| {
        let mut hardware = replicated(span, span);
        for (index, drive) in hardware.drives.iter_mut().enumerate() {
            match &mut drive.model {
                DriveModel::Rotating(disk) => disk.capacity_bytes = 4 * GIB,
                DriveModel::Flash(flash) => flash.capacity_bytes = GIB,
            }
            assert_eq!(index % 4 == 0, drive.name.starts_with("flash"));
        }
        let store = &mut hardware.replicated_stores[0];
        (store.slow_drive_factor, store.slow_drive_s, store.moves_mb_per_s) =
            (slow_drive_factor, 20.0, 1_000.0);
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        let mut reads = random_reads(5, span, 32 * KIB);
        let before = rig.run(6, 60.0, &mut reads).read_ms();
        assert_eq!(state(&mut rig, "disk 0.0"), "", "no drive is slow");
        rig.schedule(60.0, Event::DriveSlow { drive: 1, factor: 10.0 });
        let slow = rig.run(6, 15.0, &mut reads).read_ms();
        rig.run(6, 300.0, &mut reads);
        let disks = rig.report().parts.into_iter().filter(|part| part.name.starts_with("disk 0."));
        let moved = disks.map(|part| part.write_bytes).sum::<u64>();
        let after = rig.run(6, 20.0, &mut reads);
        assert_eq!(after.failed, 0);
        let slow_reads = rig.report().parts[1].reads;
        (before, slow, after.read_ms(), slow_reads, state(&mut rig, "disk 0.0"), moved)
    };
    let (before, slow, after, reads, words, moved) = seen(5.0);
    assert!(slow > 2.0 * before && after < 1.3 * before, "{before} {slow} {after} {words}");
    assert_eq!((reads, words.as_str()), (0, "slow, left out"));
    // Two copies of all, of which three quarters of 3 GiB are on flash; the rest is on nine disks.
    let held = (2 * span - 3 * GIB * 3 / 4) / 9;
    assert!((0.98..1.02).contains(&(moved as f64 / held as f64)), "{moved} of {held} bytes");
    let (_, slow, after, reads, words, moved) = seen(0.0);
    assert!(after > 0.7 * slow && reads > 0 && words.is_empty(), "nobody looks: {slow} {after}");
    assert_eq!(moved, 0);
}

/// Bytes that crossed the network between nodes.
fn network_bytes(rig: &mut Rig) -> u64 {
    let report = rig.report();
    report.parts.iter().filter(|part| part.name.starts_with("node")).map(|part| part.write_bytes).sum()
}

#[test]
fn a_volume_that_moved_reads_from_afar_until_its_extents_have_followed() {
    let span = 2 * GIB;
    let seen = |moves_mb_per_s: f64| {
        let mut hardware = replicated(span, span);
        hardware.replicated_stores[0].moves_mb_per_s = moves_mb_per_s;
        let mut rig = Rig::new(build(hardware), &["/v"], span);
        let mut reads = random_reads(5, span, 32 * KIB);
        let before = rig.run(2, 2.0, &mut reads).read_ms();
        assert_eq!(network_bytes(&mut rig), 0);
        rig.schedule(2.0, Event::HostMoves { host: "h".into(), node: 1 });
        let moved = rig.run(2, 0.2, &mut reads);
        // Two of three extents have their other copy on the new node; those that follow are on the way, too.
        let share = network_bytes(&mut rig) as f64 / (moved.reads * 32 * KIB) as f64;
        assert!((0.3..0.6).contains(&share), "{share}");
        rig.run(2, 60.0, &mut reads);
        let after = rig.run(2, 2.0, &mut reads).read_ms();
        (before, moved.read_ms(), after, network_bytes(&mut rig))
    };
    let (before, moved, after, bytes) = seen(200.0);
    assert!(moved > 1.1 * before && after < 1.03 * before && bytes == 0, "{before} {moved} {after} {bytes}");
    let (before, _, after, bytes) = seen(0.0);
    assert!(after > 1.1 * before && bytes > 0, "nothing moves: {before} {after} {bytes}");
}

#[test]
fn a_lost_drive_of_a_store_is_read_around_and_copied() {
    let span = 100 * GIB;
    let mut hardware = replicated(span, 20 << 40);
    hardware.rebuild.steps = 2;
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    let mut reads = random_reads(5, span, 32 * KIB);
    let before = rig.run(6, 5.0, &mut reads);
    rig.schedule(5.0, Event::DriveFails { drive: 1 });
    let after = rig.run(6, 20.0, &mut reads);
    assert_eq!(before.failed + after.failed, 0);
    let report = rig.report();
    let copied: u64 = report.parts.iter().filter(|p| p.name.starts_with("disk")).map(|p| p.write_bytes).sum();
    assert!(copied > 100 * MIB, "{copied} bytes copied");
    assert!(after.read_ms() > before.read_ms());
}

#[test]
fn a_full_write_log_holds_writes_to_the_pace_of_the_drain() {
    let span = 100 * GIB;
    let mut hardware = replicated(span, 30 << 40);
    hardware.replicated_stores[0].write_log_bytes = 16 * MIB;
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    let first = rig.run(16, 0.1, mixed(5, span, 32 * KIB, 100));
    rig.run(16, 5.0, mixed(6, span, 32 * KIB, 100));
    let held = rig.run(16, 5.0, mixed(7, span, 32 * KIB, 100));
    assert!(held.write_ms() > 5.0 * first.write_ms(), "{} {}", first.write_ms(), held.write_ms());
    rig.drain();
    let sync = rig.run(1, 0.1, || (0, StorageOp::Sync, 0, 0));
    assert_eq!(sync.failed, 0);
}

#[test]
fn a_store_takes_the_writes_of_a_volume_one_after_another() {
    let span = GIB;
    let write_ms = |depth: usize| {
        let mut hardware = replicated(span, span);
        hardware.controllers[0].acknowledge_us = 2_000.0;
        Rig::new(build(hardware), &["/v"], span).run(depth, 1.0, mixed(5, span, 32 * KIB, 100)).write_ms()
    };
    let (alone, four) = (write_ms(1), write_ms(4));
    assert!(alone < 3.5 && four > 7.5, "{alone} ms, four at a time {four} ms");
}

#[test]
fn a_node_that_dies_costs_a_copy_of_everything_until_others_have_it() {
    let span = 16 * GIB;
    let mut hardware = replicated_on(4, span, span);
    let store = &mut hardware.replicated_stores[0];
    (store.flash_for_extents_pct, store.ram_cache_bytes) = (0.0, 0);
    hardware.rebuild.steps = 1;
    let nodes = hardware.replicated_stores[0].nodes.clone();
    let mut rig = Rig::new(build(hardware), &["/v"], span);
    // Bytes that drives are written for each byte; a write at a time, so that all is drained.
    let mut wishes = mixed(5, span, 32 * KIB, 100);
    let mut written = |rig: &mut Rig, seconds: u32| {
        let (mut bytes, mut count) = (0, 0);
        for _ in 0..seconds * 10 {
            rig.submit(wishes());
            count += rig.run(0, 0.1, || (0, StorageOp::Sync, 0, 0)).writes;
            let report = rig.report();
            let drives = report.parts.iter().filter(|part| part.kind == PartKind::Drive);
            // What is copied meanwhile is written by the MiB.
            bytes += drives.map(|drive| drive.write_bytes % MIB).sum::<u64>();
        }
        bytes as f64 / (count * 32 * KIB) as f64
    };
    let before = written(&mut rig, 20);
    assert_eq!(rig.array.rebuild(nodes[3].disks[0]), None);
    rig.schedule(20.0, Event::NodeDies { store: 0, node: 3 });
    let short = written(&mut rig, 2);
    assert!(matches!(rig.array.rebuild(nodes[3].disks[2]), Some(RebuildStatus::UnderWay(_))));
    written(&mut rig, 300);
    assert!(matches!(rig.array.rebuild(nodes[3].disks[2]), Some(RebuildStatus::Ended(_))));
    let after = written(&mut rig, 20);
    // Two logs all the time, and one copy of three on the node.
    assert!((before - 4.0).abs() < 0.02 && (after - 4.0).abs() < 0.02, "{before} {after}");
    assert!((3.5..3.85).contains(&short), "{short}");
    // The volume goes on on the next node, without a copy of most extents, and then its old one dies, and one more.
    let mut reads = random_reads(6, span, 32 * KIB);
    rig.drain();
    for (node, from_s) in [(0, 400.0), (2, 900.0)] {
        rig.schedule(from_s, Event::HostMoves { host: "h".into(), node: 1 });
        rig.schedule(from_s, Event::NodeDies { store: 0, node });
        let before_s = from_s - rig.now().ns as f64 / 1e9;
        assert_eq!(rig.run(1, before_s + 5.0, &mut reads).failed, 0, "node {node}");
        rig.run(0, 480.0, || (0, StorageOp::Sync, 0, 0));
    }
}
