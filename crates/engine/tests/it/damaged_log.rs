//! Damage in the current log is told from the torn end that a crash leaves: each of its segments is damaged in turn.
#![allow(clippy::print_stdout, reason = "says how many cases were tried")]

use crate::common::REDO;
use crate::common::create;
use crate::common::damaged::{CURRENT, Damage, Left, damage_each_segment, open_damaged, open_damaged_copy};
use crate::common::seed::new_simulation;
use crate::common::snapshot::Snapshot;
use edb::log::SEGMENT_BYTES;
use engine::{Error, Instance, InstanceConfig};
use smallvec::smallvec;
use world::{OpenMode, PageBuf};

fn some_left() -> Left {
    (1..9).find_map(Left::by_instance).expect("a seed whose last write has a whole segment")
}

#[test]
fn an_opening_refuses_each_damaged_segment_of_the_current_log_or_loses_no_acknowledged_commit() {
    let left: Vec<_> = (1..9).filter_map(|seed| Some((seed, Left::by_instance(seed)?))).collect();
    assert!(left.len() > 3, "{} seeds", left.len());
    for ((seed, left), redo) in left.iter().flat_map(|left| REDO.map(|redo| (left, redo))) {
        let (cases, refused, failed) =
            damage_each_segment(left, |left, files, segment| open_damaged(left, files, segment, redo));
        println!("seed {seed}, {redo:?}: {cases} damaged segments, {refused} openings refused");
        assert!(failed.is_empty(), "seed {seed}, {redo:?}: {}", failed.join("\n"));
        assert!(cases > 100 && refused > 100, "{refused} of {cases}");
    }
}

#[test]
fn a_copy_refuses_each_damaged_segment_of_its_log_or_has_all_that_it_reported() {
    let left: Vec<_> = (1..17).filter_map(|seed| Some((seed, Left::by_copy(seed)?))).collect();
    assert!(left.len() > 3, "{} seeds", left.len());
    for (seed, left) in &left {
        let (cases, refused, failed) = damage_each_segment(left, open_damaged_copy);
        println!("seed {seed}: {cases} damaged segments, {refused} openings refused");
        assert!(failed.is_empty(), "seed {seed}: {}", failed.join("\n"));
        assert!(cases > 100 && refused > 100, "{refused} of {cases}");
    }
}

/// Segments of record format 0 do not name their write, and this log is shorter than the largest one.
#[test]
fn segments_that_are_given_up_in_a_log_of_format_0_are_counted() {
    let left = some_left().in_format_0();
    let used = left.used();
    for number in [used[0], used[used.len() / 2], used[used.len() - 1]] {
        let files = left.damaged(number, Damage::TwoBitsFlipped);
        let (sim, world) = files.restore();
        let (_, report) = sim.run_until(Instance::open(&world, &left.config)).unwrap();
        let behind = used.iter().filter(|used| **used >= number).count() as u64;
        assert_eq!((report.segments_given_up, report.segments_unexplained), (behind, 0), "segment {number}");
    }
}

/// A recovery that fails later leaves the log as it found it, also what lies behind its end.
#[test]
fn a_recovery_that_fails_does_not_wipe_what_lies_behind_the_end_of_the_log() {
    let left = some_left();
    let (sim, world) = left.files.restore();
    let (instance, _) = sim.run_until(Instance::open(&world, &left.config)).unwrap();
    sim.run_until(instance.leave_for_recovery()).unwrap();
    let left = Left { files: Snapshot::take(&sim), ..left };
    let last = *left.used().last().unwrap();
    let mut files = left.damaged(last, Damage::TwoBitsFlipped);
    let mut found = Vec::new();
    files.change(CURRENT, |log| found = log.clone());
    for redo in REDO {
        let (sim, world) = files.restore();
        let config = InstanceConfig { redo, ..left.config.clone() };
        let refused = sim.run_until(Instance::open(&world, &config)).map(drop).unwrap_err();
        assert!(matches!(refused, Error::LogCutOff { .. }), "{refused}");
        let after = Snapshot::take(&sim);
        let (_, log) = after.files().find(|(path, _)| *path == CURRENT).unwrap();
        assert!(log == found, "{redo:?}: the log has changed");
    }
}

/// Bytes far behind the end of the log, where no write has been, are not the rest of a torn write.
#[test]
fn bytes_that_no_torn_write_explains_are_counted_apart() {
    let left = some_left();
    let config = InstanceConfig { log_bytes: 1 << 20, ..left.config.clone() };
    let (sim, world) = new_simulation(3);
    let report = sim.run_until(async {
        let created = create(&world, 1, 1).await;
        let config = InstanceConfig { databases: created.databases, ..config };
        Instance::open(&world, &config).await.unwrap().0.abandon().await;
        let file = world.open(CURRENT, OpenMode::ReadWrite).await.unwrap();
        let bytes = PageBuf::copy_of(&[7; SEGMENT_BYTES]);
        file.write_at(200 * SEGMENT_BYTES as u64, smallvec![bytes]).await.0.unwrap();
        file.sync().await.unwrap();
        Instance::open(&world, &config).await.unwrap().1
    });
    assert_eq!((report.segments_given_up, report.segments_unexplained), (1, 1), "{report:?}");
}
