//! Arrays for tests, from the shipped assumptions.

use array::{
    Array, Assumptions, Controller, DestageOrder, Drive, DriveModel, Group, Hardware, Layout, Link,
    MirrorReads, RotatingDisk, Target, VolumePlacement, WriteCache,
};

use super::load::{KIB, MIB};

/// Disk behind an external array, which passes it at most eight commands at a time.
pub fn disk(name: &str) -> RotatingDisk {
    match Assumptions::shipped().drive(name).expect("a known drive") {
        DriveModel::Rotating(disk) => RotatingDisk { queue_depth: 8, ..disk },
        DriveModel::Flash(_) => panic!("{name} does not rotate"),
    }
}

pub fn nearline() -> RotatingDisk {
    disk("ST4000NM0023")
}

pub fn write_cache() -> WriteCache {
    WriteCache {
        bytes: 512 * MIB,
        dirty_max_pct: 50.0,
        destage: DestageOrder::Immediate,
        gather_bytes: 256 * KIB,
        gather_ms: 500.0,
    }
}

pub fn controller(write_cache: Option<WriteCache>) -> Controller {
    Controller {
        name: "controller".into(),
        command_us: 5.0,
        acknowledge_us: 200.0,
        mb_per_s: 0.0,
        acknowledge_lanes: 1,
        disk_queue_depth: 8,
        write_cache,
        read_ahead_bytes: 0,
        read_ahead_pause_ms: 0.0,
        partner: None,
        failover_ms: 0.0,
        patrol_mb_per_s: 0.0,
    }
}

/// One group over `count` disks behind one controller, one volume "/v" of host "h" over `bytes` of it.
pub fn one_group(
    layout: Layout,
    count: usize,
    disk: &RotatingDisk,
    write_cache: Option<WriteCache>,
    bytes: u64,
) -> Hardware {
    let drive = |index| Drive {
        name: format!("disk {index}"),
        model: DriveModel::Rotating(disk.clone()),
        link: None,
    };
    Hardware {
        drives: (0..count).map(drive).collect(),
        groups: vec![Group {
            name: "group".into(),
            layout,
            drives: (0..count).collect(),
            stripe_element_bytes: 512 * KIB,
            mirror_reads: MirrorReads::Alternate,
        }],
        controllers: vec![controller(write_cache)],
        volumes: vec![VolumePlacement {
            host: "h".into(),
            path: "/v".into(),
            bytes,
            target: Target::Group { group: 0, first_byte: 0 },
            owner: 0,
            paths: Vec::new(),
        }],
        ..Hardware::default()
    }
}

pub fn build(hardware: Hardware) -> Array {
    match Array::new(hardware, 1) {
        Ok(array) => array,
        Err(error) => panic!("{error}"),
    }
}

pub fn flash() -> DriveModel {
    Assumptions::shipped().drive("SSDSC2BX800G4").expect("a known drive")
}

pub fn link(name: &str, latency_us: f64, mb_per_s: f64) -> Link {
    Link { name: name.into(), latency_us, mb_per_s, command_us: 1.0 }
}

/// As [`one_group`], over drives of any kind.
pub fn one_group_of(
    layout: Layout,
    models: Vec<DriveModel>,
    write_cache: Option<WriteCache>,
    bytes: u64,
) -> Hardware {
    let mut hardware = one_group(layout, models.len(), &nearline(), write_cache, bytes);
    for (drive, model) in hardware.drives.iter_mut().zip(models) {
        drive.model = model;
    }
    hardware
}
