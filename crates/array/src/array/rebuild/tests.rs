//! What rebuilds leave to be done later.

use world::Time;

use super::{Array, Happening, RebuildStatus};
use crate::assumptions::Assumptions;
use crate::hardware::{Drive, Event, Group, Hardware, Layout, MirrorReads, Rebuild, Target, VolumePlacement};

const MIB: u64 = 1 << 20;

/// Mirrored pair with a spare, rebuilt in steps of 1 MiB.
fn mirror(steps: u32, mb_per_s: f64) -> Array {
    let assumptions = Assumptions::shipped();
    let drive = |number| Drive {
        name: format!("disk {number}"),
        model: assumptions.drive("ST4000NM0023").expect("known"),
        link: None,
    };
    let hardware = Hardware {
        drives: (0..3).map(drive).collect(),
        groups: vec![Group {
            name: "group".into(),
            layout: Layout::Raid1,
            drives: vec![0, 1],
            stripe_element_bytes: 512 << 10,
            mirror_reads: MirrorReads::Alternate,
        }],
        controllers: vec![assumptions.controller("sas-array-2013").expect("known")],
        volumes: vec![VolumePlacement {
            host: "h".into(),
            path: "/v".into(),
            bytes: 1024 * MIB,
            target: Target::Group { group: 0, first_byte: 0 },
            owner: 0,
            paths: Vec::new(),
        }],
        spares: vec![2],
        rebuild: Rebuild { start_after_ms: 0.0, mb_per_s, steps, step_bytes: MIB, used_only: false },
        ..Hardware::default()
    };
    Array::new(hardware, 1).expect("it fits together")
}

#[test]
fn a_capped_rebuild_waits_for_its_next_step_once() {
    let mut array = mirror(4, 20.0);
    array.schedule(Time::default(), Event::DriveFails { drive: 0 });
    // A MiB takes 52 ms: after 20 s 380 steps have been begun.
    for second in 1..=20 {
        array.report(Time { ns: second * 1_000_000_000 });
        let due = array.queue.iter().filter(|due| matches!(due, Happening::Rebuild(_)));
        assert_eq!(due.count(), 1, "after {second} s");
    }
    let Some(RebuildStatus::UnderWay(share)) = array.rebuild(0) else { panic!("{:?}", array.rebuild(0)) };
    assert!((0.36..0.38).contains(&share), "as fast as the cap lets it: {share}");
}
