//! Groups of disks: what a planner asks, with the physics on its side.

use array::Layout;

use super::load::{GIB, KIB, Rig, mixed};
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
