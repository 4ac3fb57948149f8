//! Synchronous copies at another site.

use array::{Event, Hardware, Layout, RebuildStatus, RemoteCopy, WhenLinkLost};
use world::sim::StorageOp;

use super::load::{GIB, KIB, Numbers, Rig, mixed};
use super::parts::{build, link, nearline, one_group, write_cache};

const SPAN: u64 = 8 * GIB;

/// Mirrored pair whose writes are copied to another site over a link with this latency (each way, us) and rate.
pub fn copied(latency_us: f64, mb_per_s: f64, when_link_lost: WhenLinkLost) -> Hardware {
    let mut hardware = one_group(Layout::Raid1, 2, &nearline(), Some(write_cache()), SPAN);
    hardware.links.push(link("sites", latency_us, mb_per_s));
    let copy = RemoteCopy {
        volumes: vec![0],
        link: 0,
        acknowledge_us: 200.0,
        when_link_lost,
        region_bytes: 64 * KIB,
    };
    hardware.remote_copies.push(copy);
    hardware
}

fn rig(hardware: Hardware) -> Rig {
    Rig::new(build(hardware), &["/v"], SPAN)
}

fn writes(seed: u64) -> impl FnMut() -> super::load::Request {
    mixed(seed, SPAN, 32 * KIB, 100)
}

fn behind(rig: &mut Rig) -> String {
    rig.report().parts.into_iter().find(|part| part.name == "sites").expect("listed").state
}

#[test]
fn a_hundred_kilometres_add_a_millisecond_to_a_write_and_nothing_to_a_read() {
    let seen = |km: f64| {
        let of = |writes| {
            rig(copied(5.0 * km, 0.0, WhenLinkLost::Suspend)).run(1, 1.0, mixed(2, SPAN, 32 * KIB, writes))
        };
        (of(100).write_ms(), of(0).read_ms())
    };
    let (near, far) = (seen(0.0), seen(100.0));
    assert!((far.0 - near.0 - 1.0).abs() < 0.01, "{near:?} {far:?}");
    assert!((far.1 / near.1 - 1.0).abs() < 0.05, "{near:?} {far:?}");
}

#[test]
fn a_write_without_a_write_cache_waits_for_both_sites_at_once() {
    let seen = |latency_us| {
        let mut hardware = copied(latency_us, 0.0, WhenLinkLost::Suspend);
        hardware.controllers[0].write_cache = None;
        rig(hardware).run(1, 20.0, writes(1)).write_ms()
    };
    // The disks take longer than 1 ms there and back, and less than 100 ms.
    let (near, far, farther) = (seen(0.0), seen(500.0), seen(50_000.0));
    assert!((far / near - 1.0).abs() < 0.05 && farther > 100.0, "{near} {far} {farther}");
}

#[test]
fn every_written_byte_crosses_the_link_once_and_no_read_does() {
    let mut rig = rig(copied(500.0, 100.0, WhenLinkLost::Suspend));
    rig.run(0, 0.0, || unreachable!("no load"));
    let (mut requests, mut numbers, mut written) = (mixed(4, SPAN, 4 * KIB, 40), Numbers::new(5), 0);
    for _ in 0..500 {
        let (volume, op, offset, _) = requests();
        let bytes = (1 + numbers.below(64)) * 4 * KIB;
        written += if op == StorageOp::Write { bytes } else { 0 };
        rig.submit((volume, op, offset.min(SPAN - bytes), bytes));
    }
    rig.drain();
    let sites = rig.report().parts.into_iter().find(|part| part.name == "sites").expect("listed");
    assert_eq!(sites.write_bytes, written);
}

#[test]
fn the_rate_of_the_link_bounds_writes() {
    let per_s =
        |mb_per_s| rig(copied(0.0, mb_per_s, WhenLinkLost::Suspend)).run(8, 2.0, writes(1)).writes_per_s();
    let (slow, twice) = (per_s(4.0), per_s(8.0));
    assert!((slow * 0.032768 / 4.0 - 1.0).abs() < 0.1 && (twice / slow - 2.0).abs() < 0.2, "{slow} {twice}");
}

#[test]
fn without_its_link_writes_go_on_alone_and_what_changed_is_copied_afterwards() {
    let mut rig = rig(copied(500.0, 100.0, WhenLinkLost::Suspend));
    let before = rig.run(1, 1.0, writes(1));
    rig.run(0, 9.0, || unreachable!("no load"));
    assert_eq!(rig.array.resync(0), None);
    rig.schedule(10.0, Event::LinkLost { link: 0 });
    let mut numbers = Numbers::new(2);
    let alone = rig.run(1, 10.0, || (0, StorageOp::Write, numbers.below(1600) * 32 * KIB, 32 * KIB));
    assert!(alone.write_ms() < before.write_ms() - 0.9, "{} {}", before.write_ms(), alone.write_ms());
    // 1,600 pages of 32 KiB, written over and over, are 50 MiB to copy, once.
    assert_eq!(behind(&mut rig), "lost, 50.0 MiB to copy");
    rig.schedule(20.0, Event::LinkRestored { link: 0 });
    rig.run(0, 0.2, || unreachable!("no load"));
    assert!(behind(&mut rig).ends_with("MiB to copy") && !behind(&mut rig).contains("lost"));
    assert!(matches!(rig.array.resync(0), Some(RebuildStatus::UnderWay(share)) if share < 0.99));
    rig.drain();
    rig.run(0, 60.0, || unreachable!("no load"));
    let report = rig.report();
    let resync = rig.array.resync(0);
    assert!(matches!(resync, Some(RebuildStatus::Ended(at)) if at.ns > 20_500_000_000), "{resync:?}");
    let sent = report.parts.iter().find(|part| part.name == "sites").map_or(0, |part| part.write_bytes);
    assert!(behind(&mut rig).is_empty() && sent <= 50 << 20, "{sent}");
    let after = rig.run(1, 5.0, writes(3));
    assert!(
        (after.write_ms() / before.write_ms() - 1.0).abs() < 0.02,
        "{} {}",
        before.write_ms(),
        after.write_ms()
    );
}

#[test]
fn or_they_wait_until_it_is_back() {
    let mut rig = rig(copied(500.0, 100.0, WhenLinkLost::Stall));
    rig.schedule(1.0, Event::LinkLost { link: 0 });
    rig.run(4, 2.0, writes(1));
    let stalled = rig.run(4, 5.0, writes(1));
    assert_eq!(stalled.writes, 0);
    rig.schedule(7.0, Event::LinkRestored { link: 0 });
    rig.run(4, 1.0, writes(2));
    let back = rig.run(4, 5.0, writes(3));
    assert!(back.writes > 1_000 && back.failed == 0, "{}", back.writes);
    rig.drain();
}
