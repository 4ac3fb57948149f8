//! Erasure coding of cold extents in replicated stores.

use array::{ErasureCoding, Event, Hardware};

use super::cold_data::{drives, trickle};
use world::sim::StorageOp;

use super::load::{GIB, KIB, MIB, Rig, random_reads};
use super::parts::build;
use super::stores::{replicated_on, state};

/// Store of six nodes with two copies of all data on disks. `coded`: strips of four extents and a parity.
fn store(span: u64, coded: bool) -> Hardware {
    let mut hardware = replicated_on(6, span, span);
    let store = &mut hardware.replicated_stores[0];
    (store.flash_for_extents_pct, store.ram_cache_bytes, store.tier_regions) = (0.0, 0, 64);
    store.erasure_coding = coded.then_some(ErasureCoding { data: 4, delay_s: 3600.0 });
    hardware
}

fn rig(span: u64, hardware: Hardware) -> Rig {
    Rig::new(build(hardware), &["/v"], span)
}

#[test]
fn strips_leave_room_on_flash_for_others() {
    let span = 64 * GIB;
    let on_flash = |coded| {
        let mut hardware = store(span, coded);
        let store = &mut hardware.replicated_stores[0];
        // Two copies of all would take 2.5 times as much as there is.
        store.flash_for_extents_pct = 50.0;
        store.resident_bytes = (6.0 * 800e9 * 0.5 * 2.5 / 2.0) as u64;
        let mut rig = rig(span, hardware);
        let words = {
            rig.run(4, 20.0, random_reads(5, span, 32 * KIB));
            state(&mut rig, "store")
        };
        let (flash, disks) = (drives(&mut rig, "flash").0 as f64, drives(&mut rig, "disk").0 as f64);
        (flash / (flash + disks), words)
    };
    let ((twice, none), (five_quarters, all)) = (on_flash(false), on_flash(true));
    assert!((twice - 0.4).abs() < 0.04 && (five_quarters - 0.64).abs() < 0.04, "{twice} {five_quarters}");
    assert_eq!((none.as_str(), all.as_str()), ("", "100.0 % of the data in strips"));
}

/// Loses disk 0 of node 0. Returns, for the time before, during and after the copying of its extents: disk reads of
/// 32 KiB per read, and network bytes per read byte.
fn lose_a_disk(coded: bool) -> [(f64, f64); 3] {
    let span = 16 * GIB;
    let mut hardware = store(span, coded);
    hardware.rebuild.steps = 1;
    let mut rig = rig(span, hardware);
    let mut reads = random_reads(5, span, 32 * KIB);
    let mut seen = |rig: &mut Rig, seconds| {
        let seen = rig.run(1, seconds, &mut reads);
        assert_eq!(seen.failed, 0);
        let report = rig.report();
        let network =
            report.parts.iter().filter(|part| part.name.starts_with("node")).map(|part| part.write_bytes);
        let network = network.sum::<u64>() as f64 / (seen.reads * 32 * KIB) as f64;
        let (disk_reads, disk_bytes, _) = drives(rig, "disk");
        let copied = (disk_bytes - disk_reads * 32 * KIB) / (MIB - 32 * KIB);
        ((disk_reads - copied) as f64 / seen.reads as f64, network)
    };
    let before = seen(&mut rig, 5.0);
    rig.schedule(5.0, Event::DriveFails { drive: 1 });
    let during = seen(&mut rig, 2.0);
    seen(&mut rig, 60.0);
    [before, during, seen(&mut rig, 5.0)]
}

#[test]
fn a_lost_part_is_read_from_all_others_of_its_strip_until_it_is_copied() {
    // A third of the extents of node 0 are on its disk 0.
    let [before, _, after] = lose_a_disk(false);
    assert!((before.0 - 1.0).abs() < 0.01 && before.1 == 0.0, "{before:?}");
    assert!((after.0 - 1.0).abs() < 0.01 && (after.1 - 0.33).abs() < 0.1, "from the other node: {after:?}");
    let [before, during, after] = lose_a_disk(true);
    assert!((before.0 - 1.0).abs() < 0.01 && before.1 == 0.0, "{before:?}");
    assert!((during.0 - 2.0).abs() < 0.2 && (during.1 - 1.33).abs() < 0.2, "four parts for one: {during:?}");
    assert!((after.0 - 1.0).abs() < 0.01 && (after.1 - 0.33).abs() < 0.1, "the copy elsewhere: {after:?}");
}

#[test]
fn copying_a_lost_part_reads_as_many_as_a_strip_has_extents() {
    let read_for_written = |coded| {
        let mut rig = rig(GIB, store(GIB, coded));
        rig.schedule(1.0, Event::DriveFails { drive: 1 });
        rig.run(0, 60.0, || (0, StorageOp::Sync, 0, 0));
        let (_, read, written) = drives(&mut rig, "disk");
        (read as f64 / written as f64, written / MIB)
    };
    // 1 GiB takes 2 GiB as copies and 1.25 GiB in strips, on 18 disks.
    let (copies, strips) = (read_for_written(false), read_for_written(true));
    assert_eq!((copies, strips), ((1.0, 113), (4.0, 71)));
}

#[test]
fn a_write_to_an_extent_in_a_strip_makes_copies_and_later_another_strip() {
    let span = 64 * GIB;
    let (read, written, _) = trickle(rig(span, store(span, false)));
    assert!(read == 0.0 && (written - 4.0).abs() < 0.1, "to two logs and two extents: {written}");
    // 800 writes of 32 KiB: each reads its extent and a parity, and writes another copy and the parity. When
    // four extents are cold again they are read, and a parity is written.
    let mut hardware = store(span, true);
    hardware.replicated_stores[0].erasure_coding = Some(ErasureCoding { data: 4, delay_s: 60.0 });
    let (read, written, mut coded) = trickle(rig(span, hardware));
    assert!((read - 2400.0).abs() < 30.0, "{read}");
    assert!((written - 4.0 - 32.0 * (1.0 + 1.0 + 0.25)).abs() < 1.0, "{written}");
    // Extents that are written within the delay lie there twice, and cost no more than that.
    assert_eq!(state(&mut coded, "store"), "99.6 % of the data in strips");
    let mut hardware = store(span, true);
    hardware.replicated_stores[0].erasure_coding = Some(ErasureCoding { data: 4, delay_s: 1e6 });
    let (read, written, mut coded) = trickle(rig(span, hardware));
    assert!(read == 0.0 && (written - 4.0).abs() < 0.1, "{read} {written}");
    assert_eq!(state(&mut coded, "store"), "0.0 % of the data in strips");
}

#[test]
fn a_bad_part_is_worked_out_from_the_others_and_written_again() {
    let span = 8 * GIB;
    let mut rig = rig(span, store(span, true));
    rig.schedule(0.0, Event::ExtentsRot { drive: 1, one_in: 2 });
    let seen = rig.run(2, 20.0, random_reads(5, span, 32 * KIB));
    let (_, _, written) = drives(&mut rig, "disk 0.0");
    assert!(seen.failed == 0 && written > 10 * MIB, "{} {written}", seen.failed);
    assert!(state(&mut rig, "store").contains("bad copies put right"));
}
