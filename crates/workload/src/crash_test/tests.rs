//! What a verification takes for a loss, and what not.

use smallvec::smallvec;
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, PowerCut, SimConfig, Simulation};
use world::{Duration, Task};

use super::*;
use crate::schema::Tree;

const FILE_BYTES: u64 = 16 << 20;
const FOLDER: &str = "/disk/test";

/// Load of some sessions in a folder, with a listener.
struct Driven {
    sim: Simulation,
    host: World,
    other: World,
    heard: Rc<RefCell<ListenerNotes>>,
    stop: StopSignal,
    writing: Task<()>,
}

impl Driven {
    /// Starts the load, and waits until each session has committed. Crashes during the creation of the database are
    /// tested elsewhere.
    fn start(seed: u64, folder: &'static str, sessions: u32) -> Driven {
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
        let stop = StopSignal::new();
        let (writer, stopping) = (host.clone(), stop.clone());
        let writing = host.spawn(async move {
            let _ = write(&writer, folder, FILE_BYTES, sessions, "w:7700", &stopping, |_| ()).await;
        });
        while heard.borrow().sessions.len() < sessions as usize {
            sim.run_until(other.sleep(Duration::from_millis(5)));
        }
        Driven { sim, host, other, heard, stop, writing }
    }

    /// Ends the load by a power cut after `delay`, with these faults. Returns what the listener has heard by then.
    fn cut(self, faults: Faults, delay: Duration) -> (World, Simulation, ListenerNotes) {
        let Driven { sim, other, heard, .. } = self;
        sim.set_faults(faults);
        sim.run_until(other.sleep(delay));
        sim.crash("h");
        // What had been sent still arrives.
        sim.run_until(other.sleep(Duration::from_secs(1)));
        sim.set_faults(Faults::default());
        let world = sim.restart("h");
        let notes = heard.borrow().clone();
        (world, sim, notes)
    }
}

/// Commits in `folder`; ends in order, or by a power cut that leaves only what was synced.
fn commits_in(folder: &'static str, cut: bool) -> (World, Simulation, ListenerNotes) {
    let driven = Driven::start(1, folder, 2);
    if cut {
        return driven.cut(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() }, Duration::ZERO);
    }
    let Driven { sim, host, other, heard, stop, writing } = driven;
    stop.stop();
    sim.run_until(writing);
    sim.run_until(other.sleep(Duration::from_secs(1)));
    let notes = heard.borrow().clone();
    (host, sim, notes)
}

/// Runs a load until the power fails; then recovers and compares with the listener.
fn pull_the_plug(seed: u64, faults: Faults) -> (ListenerNotes, Result<Findings, CrashTestError>) {
    let driven = Driven::start(seed, FOLDER, 4);
    let (world, sim, notes) = driven.cut(faults, Duration::from_millis(200 + seed * 7));
    let found = sim.run_until(verify(&world, FOLDER, &notes));
    (notes, found)
}

fn page_at(pgno: u32) -> u64 {
    (u64::from(pgno) + 1) * u64::from(PAGE_BYTES)
}

#[test]
fn pages_that_have_become_zero_are_lost() {
    let (world, sim, notes) = commits_in(FOLDER, false);
    sim.run_until(async {
        assert!(verify(&world, FOLDER, &notes).await.unwrap().is_kept());
        let place = TestFolder::find(&world, FOLDER).await.unwrap();
        let leaves = place.template.layout().run(Tree::Bodies).unwrap().levels[0];
        let file = world.open(&place.database(), OpenMode::ReadWrite).await.unwrap();
        let free = place.template.layout().first_free();
        for pgno in (leaves.first..leaves.first + 7).chain([free]) {
            file.write_at(page_at(pgno), smallvec![PageBuf::empty(PAGE_BYTES as usize)]).await.0.unwrap();
        }
        let found = verify(&world, FOLDER, &notes).await.unwrap();
        assert!(!found.is_kept() && found.lost.is_empty());
        assert_eq!((found.pages.bad, found.pages.uninitialised), (7, 1), "free pages are zero");
        let (pgno, what) = &found.pages.list[0];
        assert!(*pgno == leaves.first && what.contains("was lost: it is zero"), "page {pgno}: {what}");
    });
}

#[test]
fn a_database_that_is_cut_off_is_not_kept() {
    let (world, sim, notes) = commits_in(FOLDER, false);
    sim.run_until(async {
        let place = TestFolder::find(&world, FOLDER).await.unwrap();
        let file = world.open(&place.database(), OpenMode::ReadWrite).await.unwrap();
        let pages = file.size().await.unwrap() / u64::from(PAGE_BYTES) - 2;
        file.set_size(page_at(pages as u32 / 2 + 1)).await.unwrap();
        let found = verify(&world, FOLDER, &notes).await.unwrap();
        assert!(!found.is_kept() && found.lost.is_empty());
        let text = format!(
            "the file is cut off: the database owns {pages} pages, the file has {}",
            pages as u32 / 2
        );
        assert_eq!(found.pages.list, [(pages as u32 / 2 + 1, text)]);
    });
}

#[test]
fn a_lost_identity_is_a_loss() {
    let (world, sim, notes) = commits_in(FOLDER, false);
    sim.run_until(async {
        let path = format!("{FOLDER}/{IDENTITY}");
        let found = |reason: &'static str| {
            let (world, notes) = (&world, &notes);
            async move {
                let error = verify(world, FOLDER, notes).await.unwrap_err();
                assert!(matches!(error, CrashTestError::LostIdentity { .. }) && error.is_loss(), "{error}");
                assert!(error.to_string().ends_with(reason), "{error}");
            }
        };
        let file = world.open(&path, OpenMode::ReadWrite).await.unwrap();
        let (read, identity) = file.read_at(0, smallvec![PageBuf::empty(SECTOR_BYTES)]).await;
        read.unwrap();
        let mut sizeless = identity.clone();
        sizeless[0].as_mut_slice()[16..24].fill(0);
        for damaged in [sizeless, smallvec![PageBuf::empty(SECTOR_BYTES)]] {
            file.write_at(0, damaged).await.0.unwrap();
            found("is not intact").await;
        }
        file.set_size(0).await.unwrap();
        found("cannot be read").await;
        world.remove(&path).await.unwrap();
        found("is not there").await;
        // Without database and logs it is any folder.
        let error = verify(&world, "/disk", &notes).await.unwrap_err();
        assert!(matches!(error, CrashTestError::Foreign { .. }) && !error.is_loss(), "{error}");
    });
}

#[test]
fn a_folder_that_was_never_finished_is_no_loss() {
    let sim = Simulation::new(1, SimConfig::default());
    let (host, other) = (sim.host("h"), sim.host("w"));
    // Room for a half of the database.
    sim.volume("h", "/disk", FILE_BYTES / 2);
    let listening = other.clone();
    drop(other.spawn(async move {
        let listener = listening.listen("w:7700").await.unwrap();
        let _ = note_commits(&listener, |_| ()).await;
    }));
    sim.run_until(other.sleep(Duration::from_millis(1)));
    let stop = StopSignal::new();
    sim.run_until(write(&host, FOLDER, FILE_BYTES, 2, "w:7700", &stop, |_| ())).unwrap_err();
    let earlier = ListenerNotes { run: 1, sessions: [(1, 5)].into() };
    let error = sim.run_until(verify(&host, FOLDER, &earlier)).unwrap_err();
    assert!(!error.is_loss(), "{error}");
}

#[test]
fn the_folder_itself_is_durable_wherever_it_lies() {
    for folder in ["/disk/test", "/disk/test/", "/test"] {
        let (world, sim, notes) = commits_in(folder, true);
        let found = sim.run_until(verify(&world, folder, &notes));
        assert!(found.as_ref().is_ok_and(Findings::is_kept), "{folder}: {found:?}");
    }
}

#[test]
fn storage_is_blamed_for_what_is_gone_and_for_nothing_else() {
    let of_kind = |kind| {
        let [operation, path, reason] = ["read", "1.edb", "so it is"].map(str::to_owned);
        CrashTestError::Engine(world::Error { kind, operation, path, reason }.into())
    };
    let [path, directory, reason] = ["1.edb", "log", "so it is"].map(str::to_owned);
    // Met while the folder is looked for, ahead of the engine.
    let damaged_file_system = world::Error {
        kind: ErrorKind::Damaged,
        operation: "look up".to_owned(),
        path: directory.clone(),
        reason: "Structure needs cleaning".to_owned(),
    };
    let lost = [
        engine::Error::DamagedPage { path: path.clone(), pgno: 1, reason: reason.clone() }.into(),
        engine::Error::DamagedFile { path, reason: reason.clone() }.into(),
        engine::Error::MissingLog { directory: directory.clone(), generation: 1 }.into(),
        of_kind(ErrorKind::NotFound),
        of_kind(ErrorKind::ShortRead),
        of_kind(ErrorKind::Damaged),
        damaged_file_system.into(),
    ];
    assert!(lost.iter().all(CrashTestError::is_loss));
    let hindered = [
        engine::Error::LogVolumeFull { directory }.into(),
        engine::Error::Refused(reason.clone()).into(),
        engine::Error::Stopped(reason).into(),
        of_kind(ErrorKind::PermissionDenied),
        of_kind(ErrorKind::NoSpace),
        of_kind(ErrorKind::AlreadyExists),
        // A file system that refuses unbuffered I/O.
        of_kind(ErrorKind::Unsupported),
        // A device whose path has failed.
        of_kind(ErrorKind::Io),
    ];
    assert!(!hindered.iter().any(CrashTestError::is_loss));
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
