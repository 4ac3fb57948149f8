//! What replicated stores do with data that have not been written for some time.

use array::{Compression, Hardware, PartKind};
use world::sim::StorageOp;

use super::load::{GIB, KIB, MIB, Request, Rig, mixed, random_reads};
use super::parts::build;
use super::stores::{replicated, state};

const SPAN: u64 = 64 * GIB;

/// Store of three nodes whose flash has room for `flash_share` of all copies.
pub fn store(flash_share: f64, compression: Option<Compression>) -> Hardware {
    let flash_bytes = 3.0 * 800e9 * 0.75;
    let mut hardware = replicated(SPAN, (flash_bytes / flash_share / 2.0) as u64);
    let store = &mut hardware.replicated_stores[0];
    (store.compression, store.tier_regions, store.ram_cache_bytes) = (compression, 64, 0);
    hardware
}

pub fn half(delay_s: f64) -> Option<Compression> {
    Some(Compression { stored_per_written: 0.5, delay_s })
}

pub fn rig(hardware: Hardware) -> Rig {
    Rig::new(build(hardware), &["/v"], SPAN)
}

/// Reads, bytes read and bytes written of the drives whose name begins with `name`.
pub fn drives(rig: &mut Rig, name: &str) -> (u64, u64, u64) {
    let parts = rig.report().parts.into_iter().filter(|part| part.kind == PartKind::Drive);
    parts.filter(|part| part.name.starts_with(name)).fold((0, 0, 0), |(reads, read, written), part| {
        (reads + part.reads, read + part.read_bytes, written + part.write_bytes)
    })
}

/// Random writes of 32 KiB in the `bytes` of the file from `from` on.
pub fn writes(seed: u64, from: u64, bytes: u64) -> impl FnMut() -> Request {
    let mut wishes = mixed(seed, bytes, 32 * KIB, 100);
    move || {
        let (volume, op, at, bytes) = wishes();
        (volume, op, from + at, bytes)
    }
}

#[test]
fn compressed_data_leave_room_on_flash_for_others() {
    let share = |compression| {
        let mut rig = rig(store(0.4, compression));
        let read_ms = rig.run(4, 20.0, random_reads(5, SPAN, 32 * KIB)).read_ms();
        let (flash, disks) = (drives(&mut rig, "flash").0 as f64, drives(&mut rig, "disk").0 as f64);
        (flash / (flash + disks), read_ms)
    };
    let ((without, slow_ms), (with, fast_ms)) = (share(None), share(half(3600.0)));
    assert!((without - 0.4).abs() < 0.05 && (with - 0.8).abs() < 0.05, "{without} {with}");
    assert!(fast_ms < 0.6 * slow_ms, "{slow_ms} {fast_ms}");
}

#[test]
fn a_compressed_read_takes_less_of_the_drive_and_time_on_a_core() {
    let read = |compression, decompress_mb_per_s: f64| {
        let mut hardware = store(1.0, compression);
        hardware.replicated_stores[0].decompress_mb_per_s = decompress_mb_per_s;
        let mut rig = rig(hardware);
        let seen = rig.run(1, 2.0, random_reads(5, SPAN, 32 * KIB));
        (drives(&mut rig, "").1 as f64 / seen.reads as f64, seen.read_ms())
    };
    let (raw, compressed, slow) = (read(None, 16.0), read(half(60.0), 1e6), read(half(60.0), 16.0));
    assert!(
        (raw.0 - 32_768.0).abs() < 100.0 && (compressed.0 - 16_384.0).abs() < 100.0,
        "{raw:?} {compressed:?}"
    );
    let more_ms = slow.1 - compressed.1;
    assert!((more_ms - 32.768 / 16.0).abs() < 0.1, "32 KiB at 16 MB/s: {more_ms} ms");
}

/// Share of the data for which the store's state says `what`, percent.
pub fn share_pct(rig: &mut Rig, what: &str) -> f64 {
    let words = state(rig, "store");
    let share = words.split(&format!(" % of the data {what}")).next().and_then(|share| share.parse().ok());
    share.unwrap_or_else(|| panic!("{words}"))
}

#[test]
fn what_is_written_again_and_again_stays_as_it_is() {
    let mut rig = rig(store(1.0, half(600.0)));
    // All of an eighth is written within the delay.
    rig.run(4, 60.0, writes(5, 0, SPAN / 8));
    let pct = share_pct(&mut rig, "compressed");
    assert!((pct - 87.5).abs() < 2.0, "{pct}");
    rig.drain();
    let mut read_bytes = |from: u64| {
        let mut wishes = random_reads(6, SPAN / 8, 32 * KIB);
        let seen = rig.run(2, 1.0, || {
            let (volume, op, at, bytes) = wishes();
            (volume, op, from + at, bytes)
        });
        drives(&mut rig, "").1 as f64 / seen.reads as f64
    };
    let (hot, cold) = (read_bytes(0), read_bytes(SPAN / 2));
    assert!(hot > 30_000.0 && cold < 18_000.0, "{hot} {cold}");
}

/// Writes 32 KiB four times a second for 400 s. Returns, for the second half, the MiB that drives read and the MiB
/// that they wrote per written MiB.
pub fn trickle(mut rig: Rig) -> (f64, f64, Rig) {
    let (mut read, mut written) = (0, 0);
    let mut wishes = writes(5, 0, SPAN);
    for second in 0..400 {
        (0..4).for_each(|_| rig.submit(wishes()));
        rig.run(0, 1.0, || (0, StorageOp::Sync, 0, 0));
        let (_, bytes_read, bytes_written) = drives(&mut rig, "");
        if second >= 200 {
            (read, written) = (read + bytes_read, written + bytes_written);
        }
    }
    (read as f64 / MIB as f64, written as f64 / (200 * 4 * 32 * KIB) as f64, rig)
}

#[test]
fn compression_reads_and_writes_and_keeps_to_its_rate() {
    let seen = |compression, moves_mb_per_s: f64| {
        let mut hardware = store(1.0, compression);
        hardware.replicated_stores[0].moves_mb_per_s = moves_mb_per_s;
        trickle(rig(hardware))
    };
    let (read, written, _) = seen(None, 100.0);
    assert!(read == 0.0 && (written - 4.0).abs() < 0.1, "to two logs and two extents: {written}");
    // Hardly an extent is written twice in a minute: 800 are compressed again, read once and written twice, by half.
    let (read, written, mut fast) = seen(half(60.0), 100.0);
    assert!((read - 800.0).abs() < 10.0 && (written - 36.0).abs() < 1.0, "{read} {written}");
    assert!(share_pct(&mut fast, "compressed") > 99.9);
    // 200 s at 1 MB/s; parts that were written wait longer.
    let (read, _, mut slow) = seen(half(60.0), 1.0);
    assert!((read - 191.0).abs() < 5.0, "{read}");
    assert!(
        (90.0..98.0).contains(&share_pct(&mut slow, "compressed")),
        "{}",
        share_pct(&mut slow, "compressed")
    );
    // All are written again before they are due.
    let (read, _, mut late) = seen(half(1e6), 100.0);
    assert!(
        read == 0.0 && share_pct(&mut late, "compressed") < 0.1,
        "{read} {}",
        share_pct(&mut late, "compressed")
    );
}
