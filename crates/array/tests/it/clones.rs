//! Clones of thin pools that another host reads beside the load.

use array::{CloneReads, Event, Hardware, RebuildStatus};
use world::sim::{FileId, StorageModel, StorageOp, VolumeId};

use super::load::{GIB, KIB, MIB, Numbers, Rig, random_reads};
use super::parts::build;
use super::thin::thin;

const FILE: u64 = 4 * GIB;

/// A file of 4 GiB in a thin pool over two mirrored disks.
fn rig(change: impl Fn(&mut Hardware)) -> Rig {
    let mut hardware = thin(64 * KIB, 1, 64 * GIB, None);
    hardware.clone_reads = CloneReads { read_bytes: MIB, reads: 4 };
    change(&mut hardware);
    let mut rig = Rig::new(build(hardware), &["/v"], FILE);
    rig.array.fill_file(VolumeId(0), FileId(0));
    rig
}

fn clone_at(rig: &mut Rig, at_s: f64, mb_per_s: f64) {
    rig.schedule(at_s, Event::CloneTaken { pool: 0, mb_per_s });
}

fn state(rig: &mut Rig) -> String {
    rig.report().parts.into_iter().find(|part| part.name == "group").expect("listed").state
}

/// Time until the background read of the clone, which was taken at 0, has ended, s.
fn read_s(rig: &mut Rig) -> f64 {
    rig.run(0, 600.0, || unreachable!("no load"));
    rig.report();
    match rig.array.clone_read(0) {
        Some((RebuildStatus::Ended(at), _)) => at.ns as f64 / 1e9,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_are_slower_while_a_clone_is_read_and_then_as_before() {
    let mut rig = rig(|_| {});
    clone_at(&mut rig, 20.0, 0.0);
    let reads = || random_reads(5, FILE, 32 * KIB);
    let before = rig.run(2, 20.0, reads()).read_ms();
    let during = rig.run(2, 20.0, reads()).read_ms();
    rig.run(2, 400.0, reads());
    assert!(matches!(rig.array.clone_read(0), Some((RebuildStatus::Ended(_), 0))));
    let after = rig.run(2, 20.0, reads()).read_ms();
    assert!(
        during > 1.3 * before && (0.95..1.05).contains(&(after / before)),
        "{before} {during} {after} ms"
    );
}

#[test]
fn a_clone_holds_what_is_overwritten_until_it_has_been_read() {
    let mut rig = rig(|_| {});
    clone_at(&mut rig, 10.5, 20.0);
    let mut numbers = Numbers::new(1);
    let mut writes = || {
        let op = if numbers.below(2) == 0 { StorageOp::Write } else { StorageOp::Read };
        (0, op, numbers.below(GIB / (64 * KIB)) * 64 * KIB, 64 * KIB)
    };
    rig.run(1, 10.0, &mut writes);
    assert!(state(&mut rig).starts_with("4.0 of ") && rig.array.clone_read(0).is_none());
    rig.run(1, 60.0, &mut writes);
    let words = state(&mut rig);
    let held_gib = match rig.array.clone_read(0) {
        Some((RebuildStatus::UnderWay(share), held)) if (0.2..0.3).contains(&share) => {
            held as f64 / GIB as f64
        }
        other => panic!("{other:?}"),
    };
    assert!((0.05..=1.0).contains(&held_gib), "at most what was overwritten: {held_gib}");
    assert!(words.ends_with(&format!(", {held_gib:.1} held by 1 clones")), "{words}");
    assert!(words.starts_with(&format!("{:.1} of ", 4.0 + held_gib)), "{words}");
    rig.run(1, 200.0, &mut writes);
    let words = state(&mut rig);
    assert!(words.starts_with("4.0 of ") && !words.contains("held"), "{words}");
}

#[test]
fn a_clone_is_read_as_it_was_at_its_time() {
    let mut rig = rig(|_| {});
    clone_at(&mut rig, 0.0, 100.0);
    // All of its first GiB is written anew before it comes there, and the file grows.
    rig.run(0, 0.001, || unreachable!("no load"));
    for n in 0..(GIB / MIB) {
        rig.submit((0, StorageOp::Write, n * MIB, MIB));
        rig.submit((0, StorageOp::Write, FILE + n * MIB, MIB));
    }
    rig.drain();
    rig.run(0, 100.0, || unreachable!("no load"));
    let read: u64 = rig.report().parts[..2].iter().map(|part| part.read_bytes).sum();
    assert!(read <= FILE && read > FILE * 9 / 10, "{read}");
}

#[test]
fn a_clone_is_read_no_faster_than_its_rate_the_disks_and_the_controller_allow() {
    let mb = FILE as f64 / 1e6;
    let seconds = |mb_per_s, controller_mb_per_s, reads| {
        let mut rig = rig(|hardware| {
            hardware.controllers[0].mb_per_s = controller_mb_per_s;
            hardware.clone_reads.reads = reads;
        });
        clone_at(&mut rig, 0.0, mb_per_s);
        read_s(&mut rig)
    };
    let capped = seconds(20.0, 0.0, 4);
    assert!((0.99..1.02).contains(&(capped * 20.0 / mb)), "{capped} s");
    let narrow = seconds(0.0, 50.0, 4);
    assert!((0.99..1.05).contains(&(narrow * 50.0 / mb)), "{narrow} s");
    let [one, four] = [1, 4].map(|reads| seconds(0.0, 0.0, reads));
    assert!(mb / four < 2.0 * 175.0 && four < one, "{four} s with four reads under way, {one} s with one");
}
