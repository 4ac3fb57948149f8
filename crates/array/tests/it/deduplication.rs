//! Equal data that replicated stores keep once.

use array::{Array, Deduplication, Hardware};
use world::sim::StorageOp;

use super::cold_data::{drives, rig, share_pct, store, writes};
use super::load::{GIB, KIB, MIB, Request, Rig, random_reads};

/// Deduplication settings in which all data exist four times.
pub fn all(delay_s: f64) -> Option<Deduplication> {
    Some(Deduplication { equal_share: 1.0, copies: 4, delay_s })
}

/// Store with `memory_bytes` of cache, and with flash for `flash_share` of all copies.
fn equal(flash_share: f64, memory_bytes: u64, deduplication: Option<Deduplication>) -> Hardware {
    let mut hardware = store(flash_share, None);
    let store = &mut hardware.replicated_stores[0];
    (store.deduplication, store.ram_cache_bytes) = (deduplication, memory_bytes);
    hardware
}

#[test]
fn equal_data_leave_room_on_flash_for_others() {
    let on_flash = |deduplication| {
        let mut rig = rig(equal(0.4, 0, deduplication));
        rig.run(4, 20.0, random_reads(5, 64 * GIB, 32 * KIB));
        let (flash, disks) = (drives(&mut rig, "flash").0 as f64, drives(&mut rig, "disk").0 as f64);
        flash / (flash + disks)
    };
    // Of six tenths of the data three of four take no room.
    let some = Deduplication { equal_share: 0.6, copies: 4, delay_s: 3600.0 };
    let (without, with) = (on_flash(None), on_flash(Some(some)));
    assert!((without - 0.4).abs() < 0.05 && (with - 0.4 / 0.55).abs() < 0.05, "{without} {with}");
}

/// Drive reads per read in the `bytes` of the file from `from` on, once the memory cache is warm.
fn drive_reads(rig: &mut Rig, from: u64, bytes: u64) -> f64 {
    let mut wishes = random_reads(5, bytes, 32 * KIB);
    let mut reads = || -> Request {
        let (volume, op, at, bytes) = wishes();
        (volume, op, from + at, bytes)
    };
    rig.run(8, 30.0, &mut reads);
    let seen = rig.run(8, 5.0, &mut reads);
    drives(rig, "").0 as f64 / seen.reads as f64
}

#[test]
fn memory_holds_equal_data_once() {
    // Memory for a quarter of what is read.
    let share = |deduplication| drive_reads(&mut rig(equal(1.0, 64 * MIB, deduplication)), 0, 256 * MIB);
    let (without, with) = (share(None), share(all(3600.0)));
    assert!((without - 0.75).abs() < 0.03 && with < 0.01, "{without} {with}");
    let pairs = share(Some(Deduplication { copies: 2, ..all(3600.0).expect("given") }));
    assert!((pairs - 0.5).abs() < 0.03, "{pairs}");
}

#[test]
fn what_is_written_is_data_of_its_own() {
    let span = 64 * GIB;
    let mut warm = rig(equal(1.0, 64 * MIB, all(600.0)));
    assert_eq!(share_pct(&mut warm, "spared"), 75.0);
    // All of an eighth is written within the delay.
    warm.run(4, 60.0, writes(5, 0, span / 8));
    let pct = share_pct(&mut warm, "spared");
    assert!((pct - 75.0 * 7.0 / 8.0).abs() < 1.5, "{pct}");
    warm.drain();
    let (hot, cold) = (drive_reads(&mut warm, 0, 256 * MIB), drive_reads(&mut warm, span / 2, 256 * MIB));
    assert!((hot - 0.75).abs() < 0.05 && cold < 0.01, "{hot} {cold}");
}

#[test]
fn as_much_is_read_as_takes_room() {
    let span = 64 * GIB;
    // After a short delay all are cold again, after a long one hardly any.
    for delay_s in [1.0, 10.0, 20.0] {
        let mut rig = rig(equal(1.0, 64 * MIB, all(delay_s)));
        rig.run(4, 60.0, writes(5, 0, span / 8));
        let kept = 1.0 - (share_pct(&mut rig, "spared") - 75.0 * 7.0 / 8.0) * 8.0 / 100.0;
        // What was written goes out of memory; then each part is read, and is held.
        drive_reads(&mut rig, span / 2, GIB);
        let parts = 32 * MIB / (32 * KIB);
        let mut part = 0;
        rig.run(1, 5.0, || {
            part = (part + 401) % parts;
            (0, StorageOp::Read, part * 32 * KIB, 32 * KIB)
        });
        let read = drives(&mut rig, "").0 as f64 / parts as f64;
        assert!((read - kept).abs() < 0.03, "{kept} {read}");
    }
}

#[test]
fn what_was_just_written_is_in_memory_as_it_was_written() {
    let mut rig = rig(equal(1.0, 64 * MIB, all(3600.0)));
    // A hundred writes in a minute leave almost all cold.
    rig.run(0, 60.0, || (0, StorageOp::Sync, 0, 0));
    for op in [StorageOp::Write, StorageOp::Read] {
        for extent in 0..100 {
            rig.submit((0, op, extent * 7 * MIB, 32 * KIB));
        }
        rig.drain();
    }
    assert_eq!(drives(&mut rig, "").0, 0);
}

#[test]
fn a_fingerprint_takes_time_on_a_core_before_each_write() {
    let write_ms = |deduplication, fingerprint_mb_per_s: f64| {
        let mut hardware = equal(1.0, 0, deduplication);
        hardware.replicated_stores[0].fingerprint_mb_per_s = fingerprint_mb_per_s;
        rig(hardware).run(1, 2.0, writes(5, 0, GIB)).write_ms()
    };
    let (without, fast, slow) =
        (write_ms(None, 16.0), write_ms(all(3600.0), 1e6), write_ms(all(3600.0), 16.0));
    assert!((fast - without).abs() < 0.05, "{without} {fast}");
    assert!((slow - fast - 32.768 / 16.0).abs() < 0.05, "32 KiB at 16 MB/s: {fast} {slow}");
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |deduplication, fingerprint_mb_per_s: f64| {
        let mut hardware = equal(1.0, 0, Some(deduplication));
        hardware.replicated_stores[0].fingerprint_mb_per_s = fingerprint_mb_per_s;
        Array::new(hardware, 1).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let good = Deduplication { equal_share: 1.0, copies: 4, delay_s: 60.0 };
    assert_eq!(refused(good, 365.0), "");
    for equal_share in [0.0, 1.1] {
        assert!(refused(Deduplication { equal_share, ..good }, 365.0).contains("equal_share"));
    }
    for copies in [1, 1001] {
        assert!(refused(Deduplication { copies, ..good }, 365.0).contains("copies"));
    }
    assert!(refused(Deduplication { delay_s: 0.0, ..good }, 365.0).contains("a delay"));
    assert!(refused(good, 0.0).contains("fingerprint_mb_per_s"));
}
