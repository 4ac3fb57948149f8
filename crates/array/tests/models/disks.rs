//! One disk alone, against what is published about such disks.

use array::Layout;
use world::sim::StorageOp;

use super::load::{KIB, MIB, Rig, random_reads};
use super::parts::{build, nearline, one_group};

fn random_iops(disk: &array::RotatingDisk, depth: u32, bytes: u64) -> f64 {
    let disk = array::RotatingDisk { queue_depth: depth, age_bound_ms: 2_000.0, ..disk.clone() };
    let span = disk.capacity_bytes / MIB * MIB;
    let mut rig = Rig::new(build(one_group(Layout::Raid0, 1, &disk, None, span)), &["/v"], span);
    rig.run(depth as usize, 60.0, random_reads(7, span, bytes)).per_s()
}

#[test]
fn a_nearline_disk_serves_random_reads_as_published() {
    // One access = average seek + half a turn + overhead: 8.5 + 4.17 + 0.2 ms and 4 KiB, 77 per second.
    let one = random_iops(&nearline(), 1, 4 * KIB);
    assert!((one - 77.0).abs() < 3.0, "{one} reads per second at depth 1");
    // Deeper queues give a choice; with two there is none yet, only the overhead hides behind the access before.
    let deeper: Vec<f64> = [2, 4, 8, 16, 32].map(|depth| random_iops(&nearline(), depth, 4 * KIB)).to_vec();
    let mut before = one;
    for iops in &deeper {
        assert!(*iops > before * 1.01 && *iops < before * 1.5, "{one} {deeper:?}");
        before = *iops;
    }
}

#[test]
fn sequential_reads_run_at_the_rate_of_their_zone() {
    let disk = nearline();
    let span = disk.capacity_bytes / MIB * MIB;
    for (start, rate) in [(0, disk.outer_mb_per_s), (span - (8 << 30), disk.inner_mb_per_s)] {
        let mut rig = Rig::new(build(one_group(Layout::Raid0, 1, &disk, None, span)), &["/v"], span);
        let mut at = start;
        let seen = rig.run(2, 20.0, || {
            at += 256 * KIB;
            (0, StorageOp::Read, at - 256 * KIB, 256 * KIB)
        });
        let mb_per_s = seen.reads_per_s() * (256 * KIB) as f64 / 1e6;
        assert!((mb_per_s / rate - 1.0).abs() < 0.03, "{mb_per_s} MB/s at {start}, expected {rate}");
    }
}
