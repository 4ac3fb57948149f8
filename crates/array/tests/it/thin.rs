//! Thin pools and their snapshots.

use std::collections::BTreeMap;

use array::{Event, Hardware, Layout, Snapshots, Target, ThinPool, VolumePlacement};
use world::sim::{FileId, StorageModel, StorageOp, VolumeId};

use super::load::{GIB, KIB, MIB, Numbers, Request, Rig, random_reads};
use super::parts::{build, nearline, one_group, write_cache};

/// Volumes of this size in a thin pool over two mirrored disks.
pub fn thin(chunk_bytes: u64, volumes: usize, bytes: u64, snapshots: Option<Snapshots>) -> Hardware {
    let mut hardware = one_group(Layout::Raid1, 2, &nearline(), Some(write_cache()), bytes);
    let name = "group".into();
    hardware.thin_pools = vec![ThinPool { name, group: 0, chunk_bytes, snapshots }];
    let first = VolumePlacement { target: Target::Thin { pool: 0 }, ..hardware.volumes[0].clone() };
    let paths = ["/v", "/w", "/x"];
    hardware.volumes = paths[..volumes]
        .iter()
        .map(|path| VolumePlacement { path: (*path).into(), ..first.clone() })
        .collect();
    hardware
}

/// Writes of `bytes` one after another to the files of some volumes in turn.
fn appends(volumes: u32, bytes: u64) -> impl FnMut() -> Request {
    let mut n = 0;
    move || {
        n += 1;
        let volume = (n - 1) as u32 % volumes;
        (volume, StorageOp::Write, (n - 1) / u64::from(volumes) * bytes, bytes)
    }
}

fn sequential_reads(bytes: u64) -> impl FnMut() -> Request {
    let mut at = 0;
    move || {
        at += bytes;
        (0, StorageOp::Read, at - bytes, bytes)
    }
}

/// MB/s of one reader that reads the file of the first volume from its begin.
fn read_rate(rig: &mut Rig, seconds: f64) -> f64 {
    let seen = rig.run(1, seconds, sequential_reads(256 * KIB));
    seen.reads_per_s() * 0.262144
}

fn pool_state(rig: &mut Rig) -> String {
    rig.report().parts.into_iter().find(|part| part.name == "group").expect("listed").state
}

#[test]
fn volumes_that_grow_side_by_side_lie_interleaved() {
    // A volume that grew alone, and one that grew beside another, chunk by chunk: its reader seeks over the other's.
    let rate = |volumes: u32| {
        let mut rig = Rig::new(build(thin(256 * KIB, 2, 64 * GIB, None)), &["/v", "/w"], 4 * GIB);
        rig.run(1, 60.0, appends(volumes, 256 * KIB));
        rig.drain();
        rig.run(0, 60.0, || unreachable!("no load"));
        read_rate(&mut rig, 2.0)
    };
    let (alone, beside) = (rate(1), rate(2));
    assert!(beside * 1.5 < alone, "{alone} MB/s alone, {beside} beside another");
}

#[test]
fn files_made_before_have_their_chunks_in_their_order_and_unwritten_room_reads_at_once() {
    let filled = |fill: bool| {
        let mut rig = Rig::new(build(thin(MIB, 1, 64 * GIB, None)), &["/v"], 32 * GIB);
        if fill {
            rig.array.fill_file(VolumeId(0), FileId(0));
        }
        let state = pool_state(&mut rig);
        (read_rate(&mut rig, 2.0), rig.run(1, 2.0, random_reads(1, 32 * GIB, 32 * KIB)).read_ms(), state)
    };
    let (rate, random_ms, state) = filled(true);
    assert!(
        (100.0..180.0).contains(&rate) && random_ms > 3.0,
        "a file like any other: {rate} MB/s, {random_ms} ms"
    );
    assert!(state.starts_with("32.0 of ") && state.ends_with("64.0 promised"), "{state}");
    let (_, zeros_ms, state) = filled(false);
    assert!(zeros_ms < 0.1 && state.starts_with("0.0 of "), "{zeros_ms} ms {state}");
}

#[test]
fn the_first_write_of_a_chunk_writes_the_table_too() {
    let drive_writes = |again: bool| {
        let mut hardware = thin(MIB, 1, 64 * GIB, None);
        hardware.controllers[0].write_cache = None;
        let mut rig = Rig::new(build(hardware), &["/v"], 32 * GIB);
        let mut numbers = Numbers::new(1);
        let mut wishes = move || (0, StorageOp::Write, numbers.below(64) * MIB, 32 * KIB);
        if again {
            rig.run(1, 60.0, &mut wishes);
        }
        let seen = rig.run(1, 0.3, &mut wishes);
        let writes = rig.report().parts[0].writes as f64 / seen.writes as f64;
        (writes, seen.write_ms())
    };
    let (first, again) = (drive_writes(false), drive_writes(true));
    assert!(first.0 > 1.5 && (again.0 - 1.0).abs() < 0.2, "{first:?} {again:?}");
    assert!(first.1 > 1.2 * again.1, "{first:?} {again:?}");
}

#[test]
fn a_full_pool_refuses_what_needs_a_chunk_and_nothing_else() {
    let room = nearline().capacity_bytes;
    let mut rig = Rig::new(build(thin(GIB, 3, room, None)), &["/v", "/w", "/x"], 64 * GIB);
    for volume in 0..2u32 {
        // Both are promised all of the room.
        rig.array.set_file_size(VolumeId(volume), FileId(u64::from(volume)), room / 2);
        rig.array.fill_file(VolumeId(volume), FileId(u64::from(volume)));
    }
    let new = rig.run(4, 2.0, appends(3, 4 * KIB));
    assert!(
        new.failed > 0 && new.failed * 2 < new.writes,
        "a third of them fails: {} {}",
        new.failed,
        new.writes
    );
    let mut numbers = Numbers::new(1);
    let old = rig.run(4, 2.0, || (0, StorageOp::Write, numbers.below(GIB / 4096) * 4096, 4 * KIB));
    assert!(
        old.failed <= 4 && old.writes > 100,
        "what has its chunk is written: {} {}",
        old.failed,
        old.writes
    );
    let state = pool_state(&mut rig);
    assert!(state.contains("full: "), "{state}");
    rig.drain();
}

/// Thin volume with a file of 8 GiB and a snapshot every ten seconds, after random writes of whole chunks for
/// `writes_s`.
fn after_writes(snapshots: Option<Snapshots>, writes_s: f64, bytes: u64) -> Rig {
    let mut rig = Rig::new(build(thin(64 * KIB, 1, 64 * GIB, snapshots)), &["/v"], 8 * GIB);
    rig.array.fill_file(VolumeId(0), FileId(0));
    rig.run(0, 15.0, || unreachable!("no load"));
    let mut numbers = Numbers::new(1);
    let seen = rig.run(1, writes_s, || (0, StorageOp::Write, numbers.below(GIB / bytes) * bytes, bytes));
    rig.drain();
    rig.run(0, 300.0, || unreachable!("no load"));
    assert!(seen.writes > 0);
    rig
}

#[test]
fn what_is_written_after_a_snapshot_lies_elsewhere_and_a_later_reader_seeks() {
    let rate = |snapshots| read_rate(&mut after_writes(snapshots, 4.0, 64 * KIB), 5.0);
    let (without, with) = (rate(None), rate(Some(Snapshots { every_s: 10.0, keep: 1 })));
    assert!(with * 1.3 < without, "{without} MB/s without snapshots, {with} with");
}

#[test]
fn a_partly_written_chunk_is_copied_once_per_snapshot() {
    let copied = |snapshots, bytes| {
        let mut rig = Rig::new(build(thin(64 * KIB, 1, 64 * GIB, snapshots)), &["/v"], 8 * GIB);
        rig.array.fill_file(VolumeId(0), FileId(0));
        rig.run(0, 15.0, || unreachable!("no load"));
        for n in 0..256u64 {
            rig.submit((0, StorageOp::Write, n % 64 * 64 * KIB, bytes));
        }
        // Statistics go on: the writes are in the window that began with them.
        rig.drain();
        let parts = rig.report().parts;
        parts[..2].iter().map(|part| part.reads).sum::<u64>()
    };
    let often = Some(Snapshots { every_s: 10.0, keep: 2 });
    assert_eq!(copied(often, 32 * KIB), 64);
    assert_eq!(copied(often, 64 * KIB), 0, "whole chunks need no copy");
    assert_eq!(copied(None, 32 * KIB), 0);
}

#[test]
fn room_is_held_until_the_snapshot_goes() {
    let held_gib = |keep| {
        let snapshots = Snapshots { every_s: 10.0, keep };
        let mut rig = after_writes(Some(snapshots), 100.0, 64 * KIB);
        let before = pool_state(&mut rig);
        rig.run(0, 300.0, || unreachable!("no load"));
        (before, pool_state(&mut rig))
    };
    let (long, longer) = held_gib(1_000);
    assert!(!long.contains(" 0.0 held") && longer.contains("held by 71 snapshots"), "{long}; {longer}");
    let (_, gone) = held_gib(2);
    assert!(gone.contains(" 0.0 held by 2 snapshots") && gone.starts_with("8.0 of "), "{gone}");
}

/// Thin volume kept by hand: a plain map of its chunks, and the bytes that drives have to read and write for it.
#[derive(Default)]
struct ByHand {
    chunk_bytes: u64,
    /// Number of snapshots and clones that were there when each chunk came to its place.
    born: BTreeMap<u64, u32>,
    taken: u32,
    /// Those that still hold what they found.
    holders: Vec<u32>,
    read: u64,
    written: u64,
}

impl ByHand {
    fn hold(&mut self) {
        self.taken += 1;
        self.holders.push(self.taken);
    }

    fn write(&mut self, offset: u64, bytes: u64) {
        let mut is_new = false;
        for chunk in offset / self.chunk_bytes..=(offset + bytes - 1) / self.chunk_bytes {
            let (start, end) = (chunk * self.chunk_bytes, (chunk + 1) * self.chunk_bytes);
            let covered = end.min(offset + bytes) - start.max(offset);
            self.written += covered;
            match self.born.get(&chunk) {
                Some(born) if self.holders.iter().all(|holder| holder <= born) => continue,
                Some(_) => {
                    self.read += self.chunk_bytes - covered;
                    self.written += self.chunk_bytes - covered;
                }
                None => {}
            }
            is_new = true;
            self.born.insert(chunk, self.taken);
        }
        self.written += if is_new { 4096 } else { 0 };
    }
}

/// Bytes that both disks read, and that each of them wrote, since the last load began.
fn moved(rig: &mut Rig) -> (u64, u64) {
    let parts = rig.report().parts;
    assert_eq!(parts[0].write_bytes, parts[1].write_bytes, "a mirror");
    (parts[0].read_bytes + parts[1].read_bytes, parts[0].write_bytes)
}

#[test]
fn drives_move_the_bytes_that_a_map_of_chunks_kept_by_hand_counts() {
    const SPAN: u64 = 64 * MIB;
    for chunk_bytes in [64 * KIB, MIB] {
        let mut hardware = thin(chunk_bytes, 1, 64 * GIB, Some(Snapshots { every_s: 10.0, keep: 2 }));
        hardware.controllers[0].write_cache = None;
        let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
        // Taken in the third round, and read until it ends.
        rig.schedule(33.0, Event::CloneTaken { pool: 0, mb_per_s: 20.0 });
        let mut by_hand = ByHand { chunk_bytes, ..ByHand::default() };
        let (mut numbers, mut seen) = (Numbers::new(7), (0, 0));
        // Half a second after the begin, after each snapshot, and while the clone is read.
        for at_s in [0.5, 10.5, 20.5, 30.5, 33.5, 40.5, 50.5] {
            rig.run(0, at_s - rig.now().ns as f64 / 1e9, || unreachable!("no load"));
            let before = moved(&mut rig);
            (seen.0, seen.1) = (seen.0 + before.0, seen.1 + before.1);
            if at_s > 10.0 {
                by_hand.hold();
            }
            if at_s == 33.5 {
                by_hand.read += by_hand.born.len() as u64 * chunk_bytes;
            }
            rig.run(0, 0.0, || unreachable!("no load"));
            for _ in 0..40 {
                let bytes = (1 + numbers.below(3 * chunk_bytes / 4096)) * 4096;
                let offset = numbers.below((SPAN - bytes) / 4096) * 4096;
                by_hand.write(offset, bytes);
                rig.submit((0, StorageOp::Write, offset, bytes));
            }
            rig.drain();
            let during = moved(&mut rig);
            (seen.0, seen.1) = (seen.0 + during.0, seen.1 + during.1);
            assert!(rig.now().ns as f64 / 1e9 < at_s + 9.0, "the next snapshot finds all of it written");
        }
        rig.run(0, 30.0, || unreachable!("no load"));
        let rest = moved(&mut rig);
        assert_eq!((seen.0 + rest.0, seen.1 + rest.1), (by_hand.read, by_hand.written), "{chunk_bytes}");
    }
}
