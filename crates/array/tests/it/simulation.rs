//! The array as the storage of a simulated world.

use array::{Array, Event, Layout, SharedArray};
use world::sim::{SimConfig, Simulation};
use world::{Bufs, OpenMode, PageBuf, Time};

use super::load::GIB;
use super::parts::{build, nearline, one_group, write_cache};

fn simulation(array: Array) -> (Simulation, SharedArray) {
    let shared = SharedArray::new(array);
    let config = SimConfig { storage: Box::new(shared.clone()), ..SimConfig::default() };
    let simulation = Simulation::new(1, config);
    simulation.host("h");
    simulation.volume("h", "/v", 8 * GIB);
    (simulation, shared)
}

fn one_page() -> Bufs {
    Bufs::from_iter([PageBuf::empty(4096)])
}

#[test]
fn files_take_the_time_of_the_modelled_disks() {
    let (simulation, shared) =
        simulation(build(one_group(Layout::Raid1, 2, &nearline(), Some(write_cache()), 8 * GIB)));
    let world = simulation.host("h");
    simulation.run_until(async {
        let file = world.open("/v/file", OpenMode::CreateNew).await.expect("creates");
        file.set_size(4 * GIB).await.expect("sizes");
        let mut sum_ns = 0;
        for k in 0..50u64 {
            let before = world.now();
            file.read_at(k * 7_919 * 8_192 % (4 * GIB), one_page()).await.0.expect("reads");
            sum_ns += (world.now() - before).as_nanos() as u64;
        }
        // Short seeks over 4 GiB, half a turn, overhead.
        let mean_ms = sum_ns as f64 / 50.0 / 1e6;
        assert!((3.0..9.0).contains(&mean_ms), "{mean_ms} ms");
        let before = world.now();
        file.write_at(0, one_page()).await.0.expect("writes");
        assert!((world.now() - before).as_micros() < 300, "acknowledged from the cache");
    });
    let report = shared.report(simulation.now());
    let volume = report.parts.iter().find(|part| part.name == "h:/v").expect("listed");
    assert_eq!((volume.reads, volume.writes, report.unplaced_requests), (50, 1, 0));
}

#[test]
fn lost_data_are_an_error_and_room_comes_back() {
    let (simulation, shared) = simulation(build(one_group(Layout::Raid1, 2, &nearline(), None, 8 * GIB)));
    let world = simulation.host("h");
    for drive in 0..2 {
        shared.schedule(Time { ns: 5_000_000_000 }, Event::DriveFails { drive });
    }
    simulation.run_until(async {
        // Twenty times the room of the volume, one file at a time.
        for k in 0..40 {
            let name = format!("/v/{k}");
            let file = world.open(&name, OpenMode::CreateNew).await.expect("creates");
            file.set_size(4 * GIB).await.expect("sizes");
            file.write_at(4 * GIB - 4096, one_page()).await.0.expect("writes");
            drop(file);
            world.remove(&name).await.expect("removes");
        }
        let file = world.open("/v/file", OpenMode::CreateNew).await.expect("creates");
        file.write_at(0, one_page()).await.0.expect("writes");
        world.sleep_until(Time { ns: 6_000_000_000 }).await;
        let error = file.read_at(0, one_page()).await.0.expect_err("both mirrors are lost");
        assert!(error.to_string().contains("lost the data"), "{error}");
    });
    assert_eq!(shared.report(simulation.now()).failed_requests, 1);
}
