//! The whole campaign in the simulated world: seconds of virtual time, small databases, storage with latency.

use std::cell::Cell;

use crate::small_campaign::{
    Impatient, Silent, deployment, failures, initialised, run_deployment, run_specs, run_tests, simulation,
    specs, test_row,
};
use campaign::CampaignError;
use campaign::barrier::{Alone, Barrier};
use campaign::progress::{Progress, Watcher};
use results::{Direction, IoClass, Measure, Outcome, Row};
use solution::{Classes, TestKind};
use world::sim::{Faults, OpKind, Simulation};
use world::{Duration, LocalFuture, OpenMode, PageBuf, World};

/// Number and bytes of the operations in one direction, from the host's samples, without class `dropped`.
fn measured_without(dropped: Option<IoClass>, rows: &[Row], direction: Direction) -> (u64, u64) {
    let samples = rows.iter().filter_map(|row| match row {
        Row::Sample(sample) if sample.origin.instance.is_none() => Some(sample),
        _ => None,
    });
    let in_direction = samples.filter(|sample| {
        matches!(sample.measure, Measure::Io(class) if class.direction() == direction && Some(class) != dropped)
    });
    in_direction.fold((0, 0), |sum, sample| (sum.0 + sample.totals.count, sum.1 + sample.totals.bytes))
}

#[test]
fn the_whole_programme_passes_and_what_it_measured_is_what_the_world_did() {
    let simulation = simulation(1);
    let (outcome, rows) = run_tests(&simulation, 1, |_| true);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(failures(&outcome), [""; 0]);
    assert!(outcome.passed());
    let ended = rows.iter().filter(|row| matches!(row, Row::Test(test) if test.ended_ms.is_some())).count();
    assert_eq!(ended, deployment().tests.len(), "every test has ended");
    assert!(
        outcome.verdicts.iter().any(|verdict| verdict.rule == "batches_even"),
        "the databases' batches were compared"
    );
    let totals = simulation.host("a").io_totals();
    let issued = |direction| match direction {
        Direction::Read => (totals.reads, totals.read_bytes),
        Direction::Write => (totals.writes, totals.write_bytes),
    };
    for direction in [Direction::Read, Direction::Write] {
        assert_eq!(measured_without(None, &rows, direction), issued(direction));
    }
    // The simulated storage takes new databases over without a write.
    for class in IoClass::ALL.into_iter().filter(|class| *class != IoClass::InitWrite) {
        let direction = class.direction();
        let without = measured_without(Some(class), &rows, direction);
        assert_ne!(
            without,
            issued(direction),
            "no I/O of class {class:?}: nothing would notice if it were not counted"
        );
    }
    assert_copies_stay_small(&simulation);
}

/// Asserts that unchanged pages of a copy are held without their bytes, because copies of terabytes must fit into
/// memory.
fn assert_copies_stay_small(simulation: &Simulation) {
    let world = simulation.host("a");
    simulation.run_until(async {
        let mut copies = 0;
        for instance in &deployment().instances {
            for database in &instance.databases {
                let page_bytes = instance.page_bytes as usize;
                let copy = format!("{}/backup/{}.backup.edb", database.dir, database.name);
                let copy = world.open(&copy, OpenMode::Read).await.expect("there is a copy");
                let pages = copy.size().await.expect("it has a size") as usize / page_bytes;
                let bufs = (0..pages).map(|_| PageBuf::empty(page_bytes)).collect();
                let (read, bufs) = copy.read_at(0, bufs).await;
                read.expect("it is readable");
                let pristine = bufs.iter().filter(|page| page.pristine().is_some()).count();
                assert!(pristine > pages / 10, "{pristine} of {pages}");
                copies += 1;
            }
        }
        assert!(copies > 0);
    });
}

#[test]
fn equal_seeds_give_equal_rows_and_others_do_not() {
    let load = |kind| matches!(kind, TestKind::Init | TestKind::Performance | TestKind::DatabaseChecksum);
    let one = |seed| {
        let simulation = simulation(seed);
        let (_, rows) = run_tests(&simulation, seed, load);
        (simulation.trace_hash(), format!("{rows:?}"))
    };
    let first = one(3);
    assert!(first == one(3), "the same seed repeats every operation and every row");
    assert_ne!(first.0, one(4).0, "another seed is another run");
}

#[test]
fn classes_of_a_load_hit_the_meta_cache_in_different_shares() {
    let simulation = initialised(4);
    let classes = Classes { view: 40, body: 30, delivery: 10, search: 10, index_update: 10 };
    let mut deployment = deployment();
    deployment.load.classes = Some(classes);
    let tests = specs(|kind| kind == TestKind::Performance);
    let (outcome, rows) = run_deployment(&simulation, &deployment, 4, &tests, &mut Silent, &Alone);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let shares = ["view and logon", "body", "delivery", "search", "index update"].map(|class| {
        let name = format!("Class {class}");
        let told = test_row(&rows).parameters.iter().find(|parameter| parameter.name == name);
        let told = told.map(|parameter| parameter.value.clone()).expect("each class is told");
        let share = told.rsplit(", ").next().and_then(|hits| hits.split_once(" %")?.0.parse::<f64>().ok());
        (told, share.expect("the share of hits comes last"))
    });
    let hits: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
    let [view, body, delivery, _, index_update] = hits[..] else { unreachable!("there are five") };
    assert!(body < 40.0 && [view, delivery, index_update].iter().all(|hits| *hits > 50.0), "{shares:?}");
}

#[test]
fn a_volume_of_meta_caches_that_is_taken_away_under_load_costs_reads_and_no_test() {
    let simulation = initialised(2);
    let (outcome, rows) = run_tests(&simulation, 2, |kind| kind == TestKind::MetacacheLoss);
    assert!(outcome.passed(), "{:?}, {:?}", outcome.error, failures(&outcome));
    let told = |name: &str| {
        let found = test_row(&rows).parameters.iter().find(|parameter| parameter.name == name);
        found.map(|parameter| parameter.value.as_str())
    };
    assert_eq!(told("Volume taken away"), Some("Flash, 2 databases lost their MetaCache"));
    assert_eq!(told("First broken threshold"), Some("none"));
    let lost_ms = rows.iter().find_map(|row| match row {
        Row::Event(event) if event.text.contains("was taken away") => Some(event.t_ms),
        _ => None,
    });
    let lost_ms = lost_ms.expect("an event says when");
    let hits = |is_after: bool| {
        let of_host = rows.iter().filter_map(|row| match row {
            Row::Sample(sample) if sample.origin.instance.is_none() => Some(sample),
            _ => None,
        });
        let hits = of_host.filter(|sample| sample.measure == Measure::Io(IoClass::MetaCacheRead));
        hits.filter(|sample| (sample.t_ms >= lost_ms) == is_after)
            .map(|sample| sample.totals.count)
            .sum::<u64>()
    };
    assert!(hits(false) > 0 && hits(true) == 0, "{} before, {} after", hits(false), hits(true));
}

/// A stress test whose storage `break_it` damages ends with a failed verdict and its cause. After `mend` has repaired
/// the storage, the databases recover and pass. Returns the message.
fn fails_and_recovers(
    seed: u64,
    break_it: impl FnOnce(&Simulation),
    mend: impl FnOnce(&Simulation),
) -> String {
    let simulation = initialised(seed);
    break_it(&simulation);
    let (outcome, rows) = run_tests(&simulation, seed, |kind| kind == TestKind::Stress);
    let error = outcome.error.as_ref().expect("the storage has failed");
    assert!(!outcome.passed());
    // A volume without room says nothing about the storage.
    let unproved = outcome.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Unproved);
    let judged =
        (failures(&outcome).len(), unproved.map(|verdict| verdict.rule.as_str()).collect::<Vec<_>>());
    match error.is_lack_of_room() {
        false => assert!(error.is_finding() && judged == (1, vec![]), "{error}: {judged:?}"),
        true => {
            assert!(!error.is_finding() && judged == (0, vec!["volumes_have_room"]), "{error}: {judged:?}")
        }
    }
    assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.text == error.to_string())));

    mend(&simulation);
    let again = |kind| matches!(kind, TestKind::Performance | TestKind::DatabaseChecksum);
    let (after, _) = run_tests(&simulation, seed, again);
    assert!(after.error.is_none(), "{:?}", after.error);
    assert_eq!(failures(&after), [""; 0]);
    error.to_string()
}

fn fails_by(seed: u64, faults: Faults) -> String {
    fails_and_recovers(
        seed,
        |simulation| simulation.set_faults(faults),
        |simulation| simulation.set_faults(Faults::default()),
    )
}

#[test]
fn a_failed_write_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(5, Faults { write_error: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn a_short_write_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(6, Faults { short_write: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn a_failed_read_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(7, Faults { read_error: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn a_short_read_is_a_failed_verdict_and_the_databases_recover() {
    let message = fails_by(8, Faults { short_read: 0.0005, ..Faults::default() });
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn a_full_disk_proves_nothing_blames_nobody_and_the_databases_recover() {
    let message = fails_by(9, Faults { no_space: 0.0005, ..Faults::default() });
    assert!(message.contains("full") || message.contains("no space"), "{message}");
    // What is there may stay, but nothing may grow.
    let full = |simulation: &Simulation| {
        ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 1 << 20));
    };
    let empty = |simulation: &Simulation| {
        ["/v1", "/v2"].into_iter().for_each(|volume| simulation.volume("a", volume, 16 << 30));
    };
    let message = fails_and_recovers(10, full, empty);
    assert!(message.contains("full") || message.contains("no space"), "{message}");
}

#[test]
fn a_load_ends_in_order_before_a_volume_is_full() {
    let simulation = initialised(11);
    for volume in ["/v1", "/v2"] {
        let free = simulation.run_until(simulation.host("a").free_bytes(volume)).expect("free");
        // Enough for a growth and some logs, less than an end in order may need.
        simulation.volume("a", volume, (16 << 30) - free + (20 << 20));
    }
    let (outcome, _) = run_tests(&simulation, 11, |kind| kind == TestKind::Stress);
    let error = outcome.error.as_ref().expect("there is no room");
    assert!(matches!(error, CampaignError::NearlyFull { .. }), "{error}");
    assert_eq!(failures(&outcome), [""; 0], "a full volume is no slow one");
    let (checked, rows) = run_tests(&simulation, 11, |kind| kind == TestKind::DatabaseChecksum);
    assert!(checked.passed(), "{:?}", failures(&checked));
    let recovered = |row: &&Row| matches!(row, Row::Event(event) if event.text.contains("was not closed"));
    assert_eq!(rows.iter().filter(recovered).count(), 0, "the databases were closed");
}

/// Barrier whose other hosts always arrive later by this duration.
struct Late(World, Duration);

impl Barrier for Late {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let (world, late) = (self.0.clone(), self.1);
        Box::pin(async move { world.sleep(late).await })
    }
}

#[test]
fn what_was_counted_before_the_window_is_in_no_sample_of_it() {
    let straddling = |warmup_limit_s: f64, barrier: fn(&Simulation) -> Box<dyn Barrier>| {
        let simulation = initialised(11);
        let mut tests = specs(|kind| kind == TestKind::Performance);
        tests[0].warmup_limit_s = warmup_limit_s;
        let (outcome, rows) = run_specs(&simulation, 11, &tests, &mut Silent, &*barrier(&simulation));
        assert_eq!(failures(&outcome), [""; 0]);
        let start_ms = test_row(&rows).window_start_ms.expect("the window opened");
        let straddles = |row: &&Row| match row {
            Row::Sample(sample) => sample.t_ms < start_ms && start_ms < sample.t_ms + sample.interval_ms,
            _ => false,
        };
        rows.iter().filter(straddles).count()
    };
    let late = |simulation: &Simulation| -> Box<dyn Barrier> {
        Box::new(Late(simulation.host("a"), Duration::from_millis(500)))
    };
    assert_eq!(straddling(3.0, late), 0);
    assert_eq!(straddling(0.0, |_| Box::new(Alone)), 0);
}

/// Sum of a measure in the rows of a host that lie in the window by their times.
fn counted_in_window(rows: &[Row], measure: Measure) -> u64 {
    let test = test_row(rows);
    let window = test.window_start_ms.expect("it opened")..test.window_end_ms.expect("it closed");
    let in_window = |row: &Row| match row {
        Row::Sample(sample) if sample.origin.instance.is_none() && sample.measure == measure => {
            window.contains(&sample.t_ms).then_some(sample.totals.count)
        }
        _ => None,
    };
    rows.iter().filter_map(in_window).sum()
}

#[test]
fn rows_of_a_window_count_what_its_verdicts_count_though_times_of_rows_are_whole_milliseconds() {
    for late_us in [300, 999, 1_700] {
        let simulation = initialised(14);
        let mut tests = specs(|kind| kind == TestKind::Performance);
        // The last tick is less than a millisecond before the end of the window.
        tests[0].duration_s = 20.0004;
        let late = Late(simulation.host("a"), Duration::from_micros(late_us));
        let (outcome, rows) = run_specs(&simulation, 14, &tests, &mut Silent, &late);
        assert_eq!(failures(&outcome), [""; 0]);
        let judged = outcome.verdicts.iter().find(|verdict| verdict.rule == "achieved_iops");
        let seconds = test_row(&rows).window_end_ms.zip(test_row(&rows).window_start_ms);
        let seconds = seconds.map(|(end, start)| (end - start) as f64 / 1e3).expect("a window");
        let judged = judged.and_then(|verdict| verdict.measured).expect("it was measured") * seconds;
        let counted: u64 = [IoClass::TransactionalRead, IoClass::TransactionalWrite]
            .map(|class| counted_in_window(&rows, Measure::Io(class)))
            .iter()
            .sum();
        assert_eq!(counted, judged.round() as u64, "{late_us} µs late");
        // Of what came in the millisecond before the window, the virtual disks have seldom done any.
        let start_ms = test_row(&rows).window_start_ms;
        let of_no_length = |row: &&Row| match row {
            Row::CounterSample(row) => Some(row.t_ms) == start_ms && row.interval_ms == 0,
            _ => false,
        };
        assert_eq!(rows.iter().filter(of_no_length).count(), 0, "{late_us} µs late");
    }
}

#[test]
fn an_interrupted_window_keeps_its_distributions_and_its_end() {
    let simulation = initialised(12);
    let mut tests = specs(|kind| kind == TestKind::Performance);
    tests[0].duration_s = 120.0;
    let (outcome, rows) = run_specs(&simulation, 12, &tests, &mut Impatient("measuring", 30), &Alone);
    assert!(matches!(outcome.error, Some(CampaignError::Interrupted)), "{:?}", outcome.error);
    assert_eq!(outcome.verdicts, [], "half a window is not judged");
    let test = test_row(&rows);
    let window_ms = test.window_end_ms.expect("it ended") - test.window_start_ms.expect("it opened");
    assert_eq!(window_ms, 30_000);
    let reads = |is_database: bool| {
        let of_class = |row: &Row| match row {
            Row::Histogram(histogram) if histogram.measure == Measure::Io(IoClass::TransactionalRead) => {
                let whole = histogram.t_ms == test.window_start_ms? && histogram.interval_ms == window_ms;
                (histogram.origin.database.is_some() == is_database && whole == is_database).then_some(())
            }
            _ => None,
        };
        rows.iter().filter_map(of_class).count()
    };
    assert_eq!(reads(true), 2, "one of each database");
    assert!(reads(false) >= 15, "cells of 2 s");
}

#[test]
fn a_complete_window_is_judged_although_waiting_for_the_others_was_interrupted() {
    let simulation = initialised(13);
    let tests = specs(|kind| kind == TestKind::Performance);
    let late = Late(simulation.host("a"), Duration::from_secs(5));
    let mut impatient = Impatient("waiting for the other hosts", 3);
    let (outcome, rows) = run_specs(&simulation, 13, &tests, &mut impatient, &late);
    assert!(matches!(outcome.error, Some(CampaignError::Interrupted)), "{:?}", outcome.error);
    assert_eq!(failures(&outcome), [""; 0]);
    assert!(outcome.verdicts.iter().any(|verdict| verdict.rule == "window_complete"));
    assert!(test_row(&rows).ended_ms.is_some());
}

/// Barrier whose other hosts arrive after a long time. The faults begin when this host waits at the barrier under
/// load.
struct FaultsMeanwhile<'a> {
    simulation: &'a Simulation,
    late: Duration,
    faults: Faults,
    /// Number of barriers that this host has reached.
    places: Cell<u32>,
}

impl Barrier for FaultsMeanwhile<'_> {
    fn arrive(&self) -> LocalFuture<'static, ()> {
        let (world, late, place) = (self.simulation.host("a"), self.late, self.places.get());
        self.places.set(place + 1);
        if place == 1 {
            self.simulation.set_faults(self.faults.clone());
        }
        Box::pin(async move {
            if place > 0 {
                world.sleep(late).await;
            }
        })
    }
}

#[test]
fn a_load_that_fails_waits_for_nobody() {
    for kind in [TestKind::Performance, TestKind::LogGeneration] {
        let simulation = initialised(14);
        let barrier = FaultsMeanwhile {
            simulation: &simulation,
            late: Duration::from_secs(5_000),
            faults: Faults { read_error: 0.01, ..Faults::default() },
            places: Cell::new(0),
        };
        let tests = specs(|other| other == kind);
        let (outcome, _) = run_specs(&simulation, 14, &tests, &mut Silent, &barrier);
        assert!(outcome.error.as_ref().is_some_and(CampaignError::is_finding), "{:?}", outcome.error);
        assert!(simulation.now().ns < 300_000_000_000, "{kind:?} waited");
    }
}

#[test]
fn a_background_job_that_fails_costs_neither_the_verdicts_nor_clean_databases() {
    let simulation = initialised(15);
    // Under load only maintenance asks for the size of a file.
    let faults = Faults { fail_nth: Some((OpKind::Size, 1)), ..Faults::default() };
    let late = Duration::from_millis(10);
    let barrier = FaultsMeanwhile { simulation: &simulation, late, faults, places: Cell::new(0) };
    let tests = specs(|kind| kind == TestKind::Performance);
    let (outcome, rows) = run_specs(&simulation, 15, &tests, &mut Silent, &barrier);
    assert!(outcome.error.as_ref().is_some_and(CampaignError::is_finding), "{:?}", outcome.error);
    assert_eq!(failures(&outcome).len(), 1, "{:?}", failures(&outcome));
    assert!(outcome.verdicts.iter().any(|verdict| verdict.rule == "window_complete"));
    let test = test_row(&rows);
    assert!(test.window_end_ms.is_some() && test.ended_ms.is_some());

    simulation.set_faults(Faults::default());
    let (outcome, _) = run_tests(&simulation, 15, |kind| kind == TestKind::SoftRecovery);
    let replayed = outcome.verdicts.iter().filter(|verdict| verdict.rule == "logs_replayed");
    let replayed: Vec<_> = replayed.map(|verdict| verdict.measured).collect();
    assert_eq!(replayed, [Some(0.0), Some(0.0)], "the databases were clean");
}

fn file_bytes(simulation: &Simulation, path: &str) -> u64 {
    let world = simulation.host("a");
    simulation
        .run_until(async { world.entry(path).await.expect("it is readable").expect("it is there").bytes })
}

#[test]
fn what_maintenance_finds_is_judged_whatever_the_load_is_for() {
    for kind in [TestKind::Tune, TestKind::LogGeneration] {
        let simulation = initialised(16);
        let mut deployment = deployment();
        // Once around in a few seconds.
        (deployment.engine.maintenance_pause_ms, deployment.engine.maintenance_tick_ms) = (1.0, 1.0);
        let database = &deployment.instances[0].databases[0];
        let path = campaign::database_path(&database.dir, &database.name);
        // The last page is free, so only maintenance looks at it for some time.
        assert!(simulation.rot("a", &path, file_bytes(&simulation, &path) - 1000, 3));
        let tests = specs(|other| other == kind);
        let (outcome, _) = run_deployment(&simulation, &deployment, 16, &tests, &mut Silent, &Alone);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let failed = failures(&outcome);
        assert!(
            failed.iter().any(|failed| failed.starts_with("maintenance_bad_pages")),
            "{kind:?}: {failed:?}"
        );
    }
}

#[test]
fn a_test_without_databases_says_so_and_blames_no_storage() {
    for kind in [TestKind::LogChecksum, TestKind::DatabaseChecksum, TestKind::Performance] {
        let (outcome, _) = run_tests(&simulation(17), 17, |other| other == kind);
        assert!(matches!(outcome.error, Some(CampaignError::NoDatabase { .. })), "{:?}", outcome.error);
        assert_eq!(outcome.verdicts, [], "{kind:?}");
    }
}

/// Watcher that collects the shown progress of one phase.
struct Shown(&'static str, Vec<f64>);

impl Watcher for Shown {
    fn progress(&mut self, progress: &Progress) {
        if progress.phase == self.0 {
            self.1.push(progress.done);
        }
    }
    fn line(&mut self, _text: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

#[test]
fn the_progress_of_a_test_is_not_that_of_the_one_before() {
    let simulation = simulation(18);
    let tests = specs(|kind| matches!(kind, TestKind::Init | TestKind::BackupToDisk | TestKind::Restore));
    let mut shown = Shown("changing databases", Vec::new());
    let (outcome, _) = run_specs(&simulation, 18, &tests, &mut shown, &Alone);
    assert_eq!(failures(&outcome), [""; 0]);
    assert!(!shown.1.is_empty() && shown.1.iter().all(|done| *done == 0.0), "{:?}", shown.1);
}
