//! The crash test of storage, on storage whose honesty is known: simulated disks that keep their word, and
//! disks that lie.

use std::cell::RefCell;
use std::rc::Rc;

use engine::StopSignal;
use workload::crash_test::{CrashTestError, Findings, ListenerNotes, note_commits, verify, write};
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, PowerCut, SimConfig, Simulation};
use world::{Duration, World};

const FILE_BYTES: u64 = 16 << 20;
const SESSIONS: u32 = 4;

/// Load until the plug is pulled; then what recovery finds, held against the listener.
fn pull_the_plug(seed: u64, faults: Faults) -> (ListenerNotes, Result<Findings, CrashTestError>) {
    let storage = Box::new(FixedLatency::new(seed, FixedLatencyTimes::default()));
    let sim = Simulation::new(seed, SimConfig { storage, ..SimConfig::default() });
    let (host, other) = (sim.host("h"), sim.host("w"));
    sim.volume("h", "/disk", 1 << 40);
    let heard: Rc<RefCell<ListenerNotes>> = Rc::default();
    let (noted, listening) = (heard.clone(), other.clone());
    drop(other.spawn(async move {
        let listener = listening.listen("w:7700").await.unwrap();
        let _ = note_commits(&listener, |notes| *noted.borrow_mut() = notes.clone()).await;
    }));
    sim.run_until(other.sleep(Duration::from_millis(1)));
    let writer = host.clone();
    drop(host.spawn(async move {
        let stop = StopSignal::new();
        let _ = write(&writer, "/disk/test", FILE_BYTES, SESSIONS, "w:7700", &stop, |_| ()).await;
    }));
    // Until the load is under way the disk is honest: what a crash leaves of a half-made database is another question.
    while heard.borrow().sessions.len() < SESSIONS as usize {
        sim.run_until(other.sleep(Duration::from_millis(5)));
    }
    sim.set_faults(faults);
    sim.run_until(other.sleep(Duration::from_millis(200 + seed * 7)));
    sim.crash("h");
    // What had been sent still arrives.
    sim.run_until(other.sleep(Duration::from_secs(1)));
    sim.set_faults(Faults::default());
    let world: World = sim.restart("h");
    let notes = heard.borrow().clone();
    let found = sim.run_until(verify(&world, "/disk/test", &notes));
    (notes, found)
}

#[test]
fn a_disk_that_keeps_its_word_loses_no_acknowledged_commit() {
    let power_cut = PowerCut { lost_write: 0.3, torn_write: 0.5, ..PowerCut::default() };
    for seed in 1..=12 {
        let (notes, found) =
            pull_the_plug(seed, Faults { power_cut: power_cut.clone(), ..Faults::default() });
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(found.is_kept(), "seed {seed}: {found:?}");
        assert!(found.acknowledged > 100, "seed {seed}: {notes:?}");
        assert!(found.recovery.logs_replayed > 0);
    }
}

#[test]
fn a_disk_that_lies_about_syncs_is_caught() {
    let power_cut = PowerCut { lost_write: 0.5, ..PowerCut::default() };
    let mut lost = 0;
    for seed in 1..=12 {
        let (notes, found) = pull_the_plug(
            seed,
            Faults { dropped_sync: 1.0, power_cut: power_cut.clone(), ..Faults::default() },
        );
        match found {
            Ok(found) => {
                for &(session, first, last) in &found.lost {
                    assert_eq!(last, notes.sessions[&session]);
                    assert!(first <= last);
                }
                lost += u32::from(!found.is_kept());
            }
            Err(CrashTestError::Engine(_)) => lost += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(lost >= 11, "only {lost} of 12 lies were noticed");
}

#[test]
fn the_word_about_another_run_is_not_taken() {
    let storage = Box::new(FixedLatency::new(1, FixedLatencyTimes::default()));
    let sim = Simulation::new(1, SimConfig { storage, ..SimConfig::default() });
    let host = sim.host("h");
    sim.volume("h", "/disk", 1 << 40);
    let found = sim.run_until(verify(&host, "/disk", &ListenerNotes::default()));
    assert!(matches!(found, Err(CrashTestError::Foreign { .. })), "{found:?}");
    let heard = sim.run_until(async {
        let listener = host.listen("h:7700").await.unwrap();
        let stop = StopSignal::new();
        let (ended, heard) = futures_util::future::join(
            write(&host, "/disk/test", FILE_BYTES, 2, "h:7700", &stop, |count| {
                if count >= 50 {
                    stop.stop();
                }
            }),
            note_commits(&listener, |_| ()),
        )
        .await;
        assert!(ended.unwrap() >= 50);
        heard.unwrap()
    });
    assert!(sim.run_until(verify(&host, "/disk/test", &heard)).unwrap().is_kept());
    let other = ListenerNotes { run: heard.run ^ 1, ..heard.clone() };
    let found = sim.run_until(verify(&host, "/disk/test", &other));
    assert!(matches!(found, Err(CrashTestError::OtherRun { .. })), "{found:?}");
    let mut claims_more = heard;
    *claims_more.sessions.get_mut(&2).unwrap() += 3;
    let found = sim.run_until(verify(&host, "/disk/test", &claims_more)).unwrap();
    assert!(!found.is_kept());
    assert!(matches!(found.lost[..], [(2, _, last)] if last == claims_more.sessions[&2]), "{:?}", found.lost);
}
