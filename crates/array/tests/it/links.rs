//! Links and adapters.

use array::{Hardware, Layout, Path};

use super::load::{GIB, KIB, Rig, mixed, random_reads};
use super::parts::{build, flash, link, nearline, one_group, one_group_of};

const SPAN: u64 = 100 * GIB;

/// Reads per second over this many adapters of `mb_per_s`.
fn over_adapters(mut hardware: Hardware, adapters: usize, mb_per_s: f64, depth: usize) -> f64 {
    hardware.links = (0..adapters).map(|k| link(&format!("adapter {k}"), 20.0, mb_per_s)).collect();
    hardware.volumes[0].paths = (0..adapters).map(|k| Path { links: vec![k], controller: 0 }).collect();
    let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
    rig.run(depth, 5.0, random_reads(5, SPAN, 32 * KIB)).per_s()
}

#[test]
fn a_third_adapter_helps_only_where_the_adapters_were_the_limit() {
    let flash_array = || one_group_of(Layout::Raid0, (0..4).map(|_| flash()).collect(), None, SPAN);
    let (two, three) =
        (over_adapters(flash_array(), 2, 300.0, 64), over_adapters(flash_array(), 3, 300.0, 64));
    assert!((three / two - 1.5).abs() < 0.05, "adapters were the limit: {two} then {three}");
    let disk_array = || one_group(Layout::Raid10, 4, &nearline(), None, SPAN);
    let (two, three) = (over_adapters(disk_array(), 2, 300.0, 64), over_adapters(disk_array(), 3, 300.0, 64));
    assert!((three / two - 1.0).abs() < 0.01, "disks were the limit: {two} then {three}");
}

#[test]
fn an_adapter_between_controller_and_drives_can_be_the_limit() {
    let behind = |adapters: usize| {
        let mut hardware = one_group_of(Layout::Raid0, (0..6).map(|_| flash()).collect(), None, SPAN);
        hardware.links = (0..adapters).map(|k| link(&format!("adapter {k}"), 5.0, 200.0)).collect();
        for (index, drive) in hardware.drives.iter_mut().enumerate() {
            drive.link = Some(index % adapters);
        }
        let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
        let per_s = rig.run(64, 5.0, random_reads(5, SPAN, 32 * KIB)).per_s();
        let report = rig.report();
        let limit = report.limit().map(|part| part.name.clone()).unwrap_or_default();
        (per_s, limit)
    };
    let (one, limit) = behind(1);
    let (three, _) = behind(3);
    assert!(limit.starts_with("adapter"), "{limit}");
    assert!((three / one - 3.0).abs() < 0.15, "{one} then {three}");
}

#[test]
fn a_controllers_own_data_rate_caps_reads_and_writes_together() {
    let mb_per_s = |own: f64, writes_pct: u64| {
        let mut hardware = one_group_of(Layout::Raid0, (0..4).map(|_| flash()).collect(), None, SPAN);
        hardware.controllers[0].mb_per_s = own;
        let mut rig = Rig::new(build(hardware), &["/v"], SPAN);
        rig.run(64, 3.0, mixed(5, SPAN, 32 * KIB, writes_pct)).per_s() * (32 * KIB) as f64 / 1e6
    };
    let free = mb_per_s(0.0, 0);
    assert!(free > 1_500.0, "{free} MB/s without a limit");
    for writes_pct in [0, 50] {
        let capped = mb_per_s(300.0, writes_pct);
        assert!((capped / 300.0 - 1.0).abs() < 0.03, "{capped} MB/s with {writes_pct} % writes");
    }
}
