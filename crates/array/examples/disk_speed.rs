//! How fast disks are modelled: random reads of 4 KiB, eight under way on each of 14 disks, shortest access time first.
//!
//! `cargo run --release -p array --example disk_speed`; every request goes through volume, controller and
//! group, with their statistics.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement: prints, and reads the clock and its own processor time"
)]

use std::time::Instant;

use array::{
    Array, Assumptions, Controller, Drive, DriveModel, Group, Hardware, Layout, MirrorReads, Target,
    VolumePlacement,
};
use world::Time;
use world::sim::{FileId, RequestId, StorageModel, StorageOp, StorageRequest, VolumeId};

const DISKS: usize = 14;
const DEPTH: u64 = 8;
const VIRTUAL_SECONDS: u64 = 1_200;

fn hardware(model: &DriveModel, bytes: u64, controller: Controller) -> Hardware {
    let drives = (0..DISKS).map(|k| Drive { name: format!("disk {k}"), model: model.clone(), link: None });
    let groups = (0..DISKS).map(|k| Group {
        name: format!("group {k}"),
        layout: Layout::Raid0,
        drives: vec![k],
        stripe_element_bytes: 512 << 10,
        mirror_reads: MirrorReads::Alternate,
    });
    let volumes = (0..DISKS).map(|k| VolumePlacement {
        host: "h".into(),
        path: format!("/{k}"),
        bytes,
        target: Target::Group { group: k, first_byte: 0 },
        owner: 0,
        paths: Vec::new(),
    });
    Hardware {
        drives: drives.collect(),
        groups: groups.collect(),
        volumes: volumes.collect(),
        controllers: vec![controller],
        ..Hardware::default()
    }
}

fn main() {
    let assumptions = Assumptions::shipped();
    let (Ok(DriveModel::Rotating(mut disk)), Ok(controller)) =
        (assumptions.drive("ST4000NM0023"), assumptions.controller("raid-adapter-2017"))
    else {
        panic!("assumptions.toml has the disk and the controller");
    };
    disk.queue_depth = DEPTH as u32;
    let span = disk.capacity_bytes >> 20 << 20;
    let hardware = hardware(&DriveModel::Rotating(disk), span, controller);
    let mut array = Array::new(hardware, 1).unwrap_or_else(|error| panic!("{error}"));
    for k in 0..DISKS as u32 {
        array.attach(VolumeId(k), "h", &format!("/{k}"));
        array.set_file_size(VolumeId(k), FileId(k.into()), span);
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut submit = |array: &mut Array, now: Time, id: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = ((u128::from(state) * u128::from(span >> 12)) >> 64) as u64 * 4096;
        let disk = (id >> 32) as u32;
        let (volume, file) = (VolumeId(disk), FileId(disk.into()));
        let request = StorageRequest {
            id: RequestId(id),
            lane: None,
            volume,
            file,
            op: StorageOp::Read,
            offset,
            bytes: 4096,
        };
        array.submit(now, request);
    };
    for disk in 0..DISKS as u64 {
        for k in 0..DEPTH {
            submit(&mut array, Time::default(), disk << 32 | k);
        }
    }
    let (mut served, mut completed) = (0u64, Vec::new());
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let end = Time { ns: VIRTUAL_SECONDS * 1_000_000_000 };
    while let Some(now) = array.run_ahead(Some(end)).filter(|now| *now < end) {
        array.take_completions(now, &mut completed);
        for id in completed.drain(..) {
            served += 1;
            submit(&mut array, now, id.0);
        }
    }
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    println!(
        "disk_ios {served} seconds {seconds:.3} cpu_seconds {cpu:.3} per_second {:.0} per_cpu_second {:.0} \
         virtual_reads_per_disk_second {:.0}",
        served as f64 / seconds,
        served as f64 / cpu,
        served as f64 / VIRTUAL_SECONDS as f64 / DISKS as f64,
    );
}

/// Processor time of this process, in ticks of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(11) + ticks(12)) / 100.0
}
