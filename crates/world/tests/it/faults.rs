//! Faults: each is delivered, does what it says, and is counted.

use world::sim::{FaultKind, OpKind};
use world::{ErrorKind, IoTotals};

use super::*;

fn always(fault: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    fault(&mut faults);
    faults
}

#[test]
fn the_nth_operation_of_a_kind_fails_and_only_that() {
    let (sim, world) = with_faults(1, Faults::default());
    let file = sim.run_until(durable_file(&world, "/d/x", 4096, 1));
    for kind in [OpKind::Read, OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Rename, OpKind::SetSize]
    {
        sim.set_faults(Faults { fail_nth: Some((kind, 2)), ..Faults::default() });
        let failed = sim.run_until(async {
            let mut failed = Vec::new();
            for _ in 0..3 {
                let error = match kind {
                    OpKind::Read => file.read_at(0, block(0)).await.0.err(),
                    OpKind::Write => file.write_at(0, block(1)).await.0.err(),
                    OpKind::Sync => file.sync().await.err(),
                    OpKind::SyncDir => world.sync_dir("/d").await.err(),
                    OpKind::Rename => world.rename("/d/x", "/d/x").await.err(),
                    _ => file.set_size(4096).await.err(),
                };
                failed.push(error.map(|error| error.kind));
            }
            failed
        });
        assert_eq!(failed, [None, Some(ErrorKind::Io), None], "{kind:?}");
        assert_eq!(sim.operations().of(kind), 3);
    }
}

#[test]
fn a_full_volume_refuses_growth_and_nothing_else() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.volume("a", "/d", 16384);
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        write(&file, 0, buf(12288, 1)).await;
        assert_eq!(world.free_bytes("/d/x").await.expect("free"), 4096);
        let (result, bufs) = file.write_at(8192, buf(12288, 2)).await;
        assert_eq!(result.expect_err("is full").kind, ErrorKind::NoSpace);
        assert_eq!(bufs[0].len(), 12288, "the buffer comes back");
        assert_eq!(file.set_size(20480).await.expect_err("is full").kind, ErrorKind::NoSpace);
        write(&file, 0, buf(16384, 3)).await;
        write(&file, 0, buf(16384, 4)).await;
        file.set_size(4096).await.expect("cuts");
        assert_eq!(world.free_bytes("/d").await.expect("free"), 12288);
    });
    sim.restart("a");
    let world = sim.host("a");
    assert_eq!(sim.run_until(world.free_bytes("/d")).expect("free"), 16384, "its name was never durable");
}

#[test]
fn reading_past_the_end_is_a_short_read() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        let (result, _) = file.read_at(0, buf(8192, 0)).await;
        assert_eq!(result.expect_err("ends early").kind, ErrorKind::ShortRead);
        assert_eq!(file.read_at(1, block(0)).await.0.expect_err("is refused").kind, ErrorKind::Io);
    });
}

#[test]
fn a_short_write_leaves_a_start_of_the_data() {
    let mut written = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let (sim, world) = with_faults(seed, Faults::default());
        sim.run_until(async {
            let file = durable_file(&world, "/d/x", 16384, 1).await;
            sim.set_faults(always(|faults| faults.short_write = 1.0));
            let error = file.write_at(0, buf(16384, 2)).await.0.expect_err("ends early");
            assert_eq!(error.kind, ErrorKind::ShortWrite);
            let bytes = read(&file, 0, 16384).await;
            let new = bytes.iter().take_while(|byte| **byte == 2).count();
            assert!(bytes[new..].iter().all(|byte| *byte == 1));
            written.insert(new);
        });
    }
    assert_eq!(written.into_iter().collect::<Vec<_>>(), [0, 4096, 8192, 12288]);
}

#[test]
fn a_failed_write_may_have_happened_in_part() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let (sim, world) = with_faults(seed, Faults::default());
        sim.run_until(async {
            let file = durable_file(&world, "/d/x", 8192, 1).await;
            sim.set_faults(always(|faults| faults.write_error = 1.0));
            file.write_at(0, buf(8192, 2)).await.0.expect_err("fails");
            let bytes = read(&file, 0, 8192).await;
            seen.insert((bytes.contains(&1), bytes.contains(&2)));
        });
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(false, true), (true, false), (true, true)]);
}

#[test]
fn a_dropped_sync_reports_success_and_makes_nothing_durable() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        sim.set_faults(Faults { dropped_sync: 1.0, power_cut: PowerCut::lose_all(), ..Faults::default() });
        write(&file, 0, block(2)).await;
        file.sync().await.expect("lies");
        create(&world, "/d/y").await;
        world.sync_dir("/d").await.expect("lies");
    });
    assert_eq!(sim.fault_counts().of(FaultKind::DroppedSync), 2);
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    let world = sim.restart("a");
    sim.run_until(async {
        assert_eq!(read(&reopen(&world, "/d/x").await, 0, 4096).await, [1; 4096]);
        assert_eq!(world.entry("/d/y").await.expect("looks up"), None);
    });
}

#[test]
fn a_lost_write_reports_success_and_leaves_the_old_bytes() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        sim.set_faults(always(|faults| faults.lost_write = 1.0));
        write(&file, 0, buf(8192, 2)).await;
        file.sync().await.expect("syncs");
        let bytes = read(&file, 0, 8192).await;
        assert_eq!((bytes[0], bytes[4096]), (1, 0), "the file grew, the data are old");
    });
    assert_eq!(sim.fault_counts().of(FaultKind::LostWrite), 1);
}

#[test]
fn a_misdirected_write_lands_on_another_page_of_the_file() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = adopted_file(&world, "/d/x", 50).await;
        sim.set_faults(always(|faults| faults.misdirected_write = 1.0));
        write(&file, 7 * PAGE as u64, buf(PAGE, 255)).await;
        let bytes = read(&file, 0, 50 * PAGE).await;
        let hit: Vec<_> = bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.contains(&255)).collect();
        assert_eq!(hit.len(), 1);
        assert_ne!(hit[0].0, 7);
        assert_eq!(hit[0].1, [255; PAGE]);
    });
    assert_eq!(sim.fault_counts().of(FaultKind::MisdirectedWrite), 1);
}

#[test]
fn bit_rot_flips_one_bit_on_the_medium_for_good() {
    let (sim, world) = with_faults(1, Faults::default());
    let file = sim.run_until(adopted_file(&world, "/d/x", 50));
    sim.set_faults(always(|faults| faults.bit_rot = 1.0));
    let rotten = sim.run_until(read(&file, 7 * PAGE as u64, PAGE));
    let flipped: u32 = rotten.iter().map(|byte| (byte ^ template_byte(7)).count_ones()).sum();
    assert_eq!(flipped, 1);
    sim.set_faults(Faults::default());
    let world = sim.restart("a");
    assert_eq!(
        sim.run_until(async { read(&reopen(&world, "/d/x").await, 7 * PAGE as u64, PAGE).await }),
        rotten
    );
    assert_eq!(sim.fault_counts().of(FaultKind::BitRot), 1);
}

#[test]
fn bit_rot_also_hits_what_was_not_synced_yet() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        write(&file, 0, block(2)).await;
        sim.set_faults(always(|faults| faults.bit_rot = 1.0));
        assert_eq!(read(&file, 0, 4096).await.iter().filter(|byte| **byte != 2).count(), 1);
    });
}

#[test]
fn the_world_counts_what_completed_and_not_what_failed() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 8192, 1).await;
        read(&file, 0, 4096).await;
        let before = world.io_totals();
        assert_eq!(before, IoTotals { reads: 1, read_bytes: 4096, writes: 1, write_bytes: 8192, syncs: 1 });
        sim.set_faults(always(|faults| {
            (faults.read_error, faults.write_error, faults.sync_error) = (1.0, 1.0, 1.0);
        }));
        file.read_at(0, block(0)).await.0.expect_err("fails");
        file.write_at(0, block(0)).await.0.expect_err("fails");
        file.sync().await.expect_err("fails");
        assert_eq!(world.io_totals(), before);
    });
}

/// Does a bit of everything; errors are expected.
async fn torture(world: World) {
    for round in 0..30u64 {
        let (from, to) = (format!("/d/{}", round % 3), format!("/d/{}", (round + 1) % 3));
        let mode = if round < 3 { OpenMode::CreateNew } else { OpenMode::ReadWrite };
        if let Ok(file) = world.open(&from, mode).await {
            let _ = file.write_at(round % 4 * 4096, buf(16384, round as u8)).await;
            let _ = file.write_at(round % 7 * 4096, buf(8192, round as u8)).await;
            let _ = file.read_at(0, buf(8192, 0)).await;
            let _ = file.sync().await;
            let _ = file.set_size((round % 9 + 6) * 4096).await;
            let _ = file.write_at(0, buf(16384, round as u8)).await;
        }
        let _ = world.rename(&from, &to).await;
        if round % 4 == 0 {
            let _ = world.sync_dir("/d").await;
        }
    }
}

#[test]
fn every_kind_of_fault_is_reached() {
    let mut reached = std::collections::BTreeMap::<FaultKind, u64>::new();
    for seed in 0..20 {
        let faults = Faults {
            read_error: 0.05,
            write_error: 0.05,
            sync_error: 0.05,
            name_error: 0.02,
            no_space: 0.05,
            short_read: 0.05,
            short_write: 0.05,
            dropped_sync: 0.1,
            lost_write: 0.1,
            misdirected_write: 0.1,
            bit_rot: 0.1,
            ..Faults::default()
        };
        let (sim, world) = with_faults(seed, faults);
        sim.run_until(torture(world));
        sim.kill("a");
        sim.crash("a");
        for kind in FaultKind::ALL {
            *reached.entry(kind).or_default() += sim.fault_counts().of(kind);
        }
    }
    for kind in FaultKind::ALL {
        assert!(reached[&kind] > 0, "{kind:?} was never delivered: {reached:?}");
    }
}

#[test]
fn without_a_plan_nothing_goes_wrong() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(torture(world));
    for kind in FaultKind::ALL {
        assert_eq!(sim.fault_counts().of(kind), 0, "{kind:?}");
    }
}
