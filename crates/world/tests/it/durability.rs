//! What a power cut leaves.

use world::sim::{CrashPoint, Death, FaultKind, OpKind, Outcome};
use world::{Duration, ErrorKind};

use super::*;

const SEEDS: std::ops::Range<u64> = 0..60;

fn torn(sector_bytes: usize) -> PowerCut {
    PowerCut { lost_write: 0.0, torn_write: 1.0, sector_bytes, ..PowerCut::keep_all() }
}

#[test]
fn synced_data_survive_and_unsynced_writes_may_be_lost() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        write(&file, 0, block(2)).await;
        assert_eq!(read(&file, 0, 4096).await, [2; 4096], "reads see completed writes at once");
    });
    let world = sim.restart("a");
    sim.run_until(async {
        let file = reopen(&world, "/d/x").await;
        assert_eq!(read(&file, 0, 4096).await, [1; 4096]);
    });
    assert_eq!(sim.fault_counts().of(FaultKind::LostAtPowerCut), 1);
}

#[test]
fn unsynced_writes_may_survive() {
    let (sim, world) = with_power_cut(1, PowerCut::keep_all());
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        write(&file, 0, block(2)).await;
    });
    let world = sim.restart("a");
    sim.run_until(async {
        assert_eq!(read(&reopen(&world, "/d/x").await, 0, 4096).await, [2; 4096]);
    });
    assert_eq!(sim.fault_counts().of(FaultKind::KeptAtPowerCut), 1);
}

#[test]
fn each_unsynced_write_is_lost_or_kept_on_its_own_in_any_order() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let (sim, world) = with_power_cut(seed, PowerCut { torn_write: 0.0, ..PowerCut::default() });
        sim.run_until(async {
            let file = durable_file(&world, "/d/x", 8192, 1).await;
            write(&file, 0, block(2)).await;
            write(&file, 4096, block(2)).await;
        });
        let world = sim.restart("a");
        let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 8192).await });
        seen.insert((bytes[0], bytes[4096]));
    }
    assert_eq!(seen.len(), 4, "the later write can survive the earlier: {seen:?}");
}

#[test]
fn a_torn_write_is_old_or_new_sector_by_sector() {
    for sector_bytes in [512, 4096] {
        let mut patterns = std::collections::BTreeSet::new();
        for seed in SEEDS {
            let (sim, world) = with_power_cut(seed, torn(sector_bytes));
            sim.run_until(async {
                let file = durable_file(&world, "/d/x", 16384, 1).await;
                write(&file, 0, buf(16384, 2)).await;
            });
            let world = sim.restart("a");
            let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 16384).await });
            let sectors: Vec<u8> = bytes.chunks(sector_bytes).map(|sector| sector[0]).collect();
            for sector in bytes.chunks(sector_bytes) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
            }
            assert!(sectors.contains(&1) && sectors.contains(&2), "torn means some old and some new");
            patterns.insert(sectors);
        }
        assert!(patterns.len() > 4, "many ways to tear: {}", patterns.len());
        let has_hole = patterns.iter().any(|sectors| sectors.windows(2).any(|pair| pair == [1, 2]));
        assert!(has_hole, "later sectors can be new before earlier ones");
    }
}

#[test]
fn a_single_sector_is_never_torn() {
    for seed in SEEDS {
        let (sim, world) = with_power_cut(seed, torn(4096));
        sim.run_until(async {
            let file = durable_file(&world, "/d/x", 4096, 1).await;
            write(&file, 0, block(2)).await;
        });
        let world = sim.restart("a");
        let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4096).await });
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    }
}

#[test]
fn a_write_in_flight_is_lost_kept_or_torn_too() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let faults = Faults { power_cut: PowerCut::default(), ..Faults::default() };
        let config = SimConfig { faults, storage: slow_storage(seed), ..SimConfig::default() };
        let (sim, world) = with_config(seed, config);
        let file = sim.run_until(durable_file(&world, "/d/x", 8192, 1));
        let started = world.clone();
        drop(world.spawn(async move { write(&file, 0, buf(8192, 2)).await }));
        sim.run_until(async { started.sleep(Duration::from_nanos(1)).await });
        let world = sim.restart("a");
        let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 8192).await });
        let (old, new) = (bytes.contains(&1), bytes.contains(&2));
        seen.insert((old, new));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(false, true), (true, false), (true, true)]);
}

#[test]
fn a_sync_covers_only_writes_that_were_complete_when_it_was_issued() {
    let times = FixedLatencyTimes {
        write_latency: Duration::from_micros(100),
        sync_latency: Duration::from_millis(10),
        jitter: Duration::ZERO,
        ..FixedLatencyTimes::default()
    };
    let config = SimConfig {
        storage: Box::new(FixedLatency::new(1, times)),
        faults: Faults { power_cut: PowerCut::lose_all(), ..Faults::default() },
        ..SimConfig::default()
    };
    let (sim, world) = with_config(1, config);
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 8192, 1).await;
        write(&file, 0, block(2)).await;
        let writer = file.clone();
        let late = world.spawn(async move { write(&writer, 4096, block(2)).await });
        world.sleep(Duration::from_nanos(1)).await;
        file.sync().await.expect("syncs");
        late.await;
        assert_eq!(read(&file, 4096, 4096).await, [2; 4096], "it was complete before the sync was");
    });
    let world = sim.restart("a");
    let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 8192).await });
    assert_eq!((bytes[0], bytes[4096]), (2, 1));
}

#[test]
fn a_new_size_may_be_lost_although_the_data_were_written() {
    let (sim, world) = with_power_cut(1, PowerCut { lost_size: 1.0, ..PowerCut::keep_all() });
    sim.run_until(async {
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        write(&file, 4096, block(2)).await;
        file.set_size(1 << 20).await.expect("grows");
        write(&file, 0, block(3)).await;
    });
    let world = sim.restart("a");
    sim.run_until(async {
        let file = reopen(&world, "/d/x").await;
        assert_eq!(file.size().await.expect("size"), 4096);
        assert_eq!(read(&file, 0, 4096).await, [3; 4096]);
        file.set_size(8192).await.expect("grows");
        assert_eq!(read(&file, 4096, 4096).await, [0; 4096], "what lay behind the end is gone");
    });
    assert_eq!(sim.fault_counts().of(FaultKind::LostSize), 2);
}

#[test]
fn unwritten_new_space_may_show_stale_bytes_after_a_power_cut_but_not_before() {
    let stale = PowerCut { stale_block: 0.5, lost_write: 1.0, ..PowerCut::keep_all() };
    let (sim, world) = with_power_cut(1, stale);
    sim.run_until(async {
        let old = durable_file(&world, "/d/old", 4096, 77).await;
        drop(old);
        world.remove("/d/old").await.expect("removes");
        let file = durable_file(&world, "/d/x", 4096, 1).await;
        file.set_size(64 * 4096).await.expect("grows");
        assert_eq!(read(&file, 4096, 63 * 4096).await, vec![0; 63 * 4096]);
        write(&file, 4096, block(2)).await;
    });
    let world = sim.restart("a");
    sim.run_until(async {
        let file = reopen(&world, "/d/x").await;
        assert_eq!(read(&file, 0, 4096).await, [1; 4096], "what was synced stays");
        let new_space = read(&file, 4096, 63 * 4096).await;
        let blocks: Vec<&[u8]> = new_space.chunks(4096).collect();
        assert!(blocks.iter().any(|block| block.iter().all(|byte| *byte == 77)), "bytes of the removed file");
        assert!(blocks.iter().any(|block| block.iter().all(|byte| *byte == 0)), "zeros");
        let is_noise = |block: &&[u8]| block.windows(2).any(|pair| pair[0] != pair[1]);
        assert!(blocks.iter().any(is_noise), "noise");
        assert_ne!(blocks[0], [2; 4096], "the write was lost");
    });
}

#[test]
fn what_a_failed_sync_covered_may_never_become_durable_although_it_still_shows() {
    let mut survived = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let faults = Faults {
            fail_nth: Some((OpKind::Sync, 2)),
            power_cut: PowerCut::lose_all(),
            ..Faults::default()
        };
        let (sim, world) = with_faults(seed, faults);
        sim.run_until(async {
            let file = durable_file(&world, "/d/x", 4096, 1).await;
            write(&file, 0, block(2)).await;
            assert_eq!(file.sync().await.expect_err("fails").kind, ErrorKind::Io);
            file.sync().await.expect("syncs, and says nothing about what was lost");
            assert_eq!(read(&file, 0, 4096).await, [2; 4096]);
        });
        let world = sim.restart("a");
        survived.insert(sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4096).await[0] }));
    }
    assert_eq!(survived.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_power_cut_at_the_nth_operation_stops_before_or_after_its_effect() {
    for (point, left) in [(CrashPoint::Before, 1), (CrashPoint::After, 2)] {
        let (sim, world) = with_power_cut(1, PowerCut::lose_all());
        let file = sim.run_until(durable_file(&world, "/d/x", 4096, 1));
        sim.set_faults(Faults {
            crash_at_nth: Some((2, point)),
            power_cut: PowerCut::lose_all(),
            ..Faults::default()
        });
        let outcome = sim.run_until_crash_or(async {
            write(&file, 0, block(2)).await;
            let _ = file.sync().await;
        });
        assert_eq!(outcome, Outcome::Crashed { host: "a".into() });
        let world = sim.restart("a");
        let byte = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4096).await[0] });
        assert_eq!(byte, left, "{point:?}");
    }
}

#[test]
fn every_operation_can_be_the_one_at_which_the_power_fails() {
    let faults = |crash_at_nth| Faults { crash_at_nth, ..Faults::default() };
    let program = |world: World| async move {
        let file = create(&world, "/d/x").await;
        write(&file, 0, block(1)).await;
        file.sync().await.expect("syncs");
        world.rename("/d/x", "/d/y").await.expect("renames");
        world.sync_dir("/d").await.expect("syncs");
    };
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(program(world));
    let operations = sim.operations().total();
    assert_eq!(operations, 5);
    for nth in 1..=operations {
        for point in [CrashPoint::Before, CrashPoint::After] {
            let (sim, world) = with_faults(nth, faults(Some((nth, point))));
            let outcome = sim.run_until_crash_or(program(world));
            assert_eq!(outcome, Outcome::Crashed { host: "a".into() }, "at {nth} {point:?}");
            assert_eq!(sim.operations().total(), nth, "nothing runs on");
        }
    }
}

#[test]
fn the_power_can_fail_before_each_sync_of_a_file_or_directory() {
    let program = |world: World| async move {
        let file = create(&world, "/d/x").await;
        world.sync_dir("/d").await.expect("syncs");
        write(&file, 0, block(1)).await;
        file.sync().await.expect("syncs");
        write(&file, 0, block(2)).await;
    };
    for (nth, operations) in [(1, Some(2)), (2, Some(4)), (3, None)] {
        let faults = Faults { crash_at_nth_sync: Some(nth), ..Faults::default() };
        let (sim, world) = with_faults(nth, faults);
        let outcome = sim.run_until_crash_or(program(world));
        match operations {
            Some(operations) => {
                assert_eq!(outcome, Outcome::Crashed { host: "a".into() }, "at sync {nth}");
                assert_eq!(sim.operations().total(), operations, "at sync {nth}");
            }
            None => assert_eq!(outcome, Outcome::Done(()), "there are two syncs"),
        }
    }
}

#[test]
fn a_dead_host_does_nothing_more_even_in_the_poll_in_which_it_died() {
    let (sim, world) = with_power_cut(1, PowerCut::keep_all());
    let file = sim.run_until(durable_file(&world, "/d/x", 8192, 1));
    let crash_at_nth = Some((1, CrashPoint::Before));
    sim.set_faults(Faults { crash_at_nth, power_cut: PowerCut::keep_all(), ..Faults::default() });
    let both = futures_util::future::join(file.write_at(0, block(2)), file.write_at(4096, block(2)));
    assert!(matches!(sim.run_until_crash_or(both), Outcome::Crashed { .. }));
    let world = sim.restart("a");
    let bytes = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 8192).await });
    assert_eq!(bytes, [1; 8192]);
}

#[test]
fn a_killed_process_leaves_what_it_wrote_to_the_next_one_until_the_power_fails() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    let file = sim.run_until(durable_file(&world, "/d/x", 4096, 1));
    sim.run_until(async {
        write(&file, 0, block(2)).await;
        world.rename("/d/x", "/d/y").await.expect("renames");
    });
    sim.kill("a");
    let world = sim.restart("a");
    assert_eq!(sim.run_until(async { read(&reopen(&world, "/d/y").await, 0, 4096).await[0] }), 2);
    sim.kill("a");
    sim.crash("a");
    let world = sim.restart("a");
    let byte = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4096).await[0] });
    assert_eq!(byte, 1, "the first process wrote it and nobody has synced it");
}

#[test]
fn a_sync_by_the_next_process_covers_what_a_killed_one_wrote() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    let file = sim.run_until(durable_file(&world, "/d/x", 4096, 1));
    let process_ends = Faults {
        crash_at_nth: Some((2, CrashPoint::Before)),
        crash_ends: Death::Process,
        power_cut: PowerCut::lose_all(),
        ..Faults::default()
    };
    sim.set_faults(process_ends);
    let outcome = sim.run_until_crash_or(async {
        write(&file, 0, block(2)).await;
        let _ = file.sync().await;
    });
    assert_eq!(outcome, Outcome::Crashed { host: "a".into() });
    assert_eq!(sim.fault_counts().of(FaultKind::ProcessEnded), 1);
    let world = sim.restart("a");
    sim.run_until(async { reopen(&world, "/d/x").await.sync().await.expect("syncs") });
    let world = sim.restart("a");
    let byte = sim.run_until(async { read(&reopen(&world, "/d/x").await, 0, 4096).await[0] });
    assert_eq!(byte, 2);
}

#[test]
fn a_removed_file_that_a_killed_process_held_open_gives_its_room_back() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.volume("a", "/d", 1 << 20);
    let file = sim.run_until(durable_file(&world, "/d/x", 4096, 1));
    sim.run_until(async { world.remove("/d/x").await.expect("removes") });
    sim.kill("a");
    drop(file);
    let world = sim.restart("a");
    assert_eq!(sim.run_until(world.free_bytes("/d")).expect("is there"), 1 << 20);
}
