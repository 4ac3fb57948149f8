//! The tests that go through many cases find bugs at which they do not aim: each planted bug makes a case of one of
//! them fail.
//!
//! `cargo test -p engine --features planted-bugs --test it planted:: -- --nocapture` prints which case finds each one.
//! PROOFLOAD_ALL_FINDERS=1 goes through all tests until one finds the bug, PROOFLOAD_BUG names one bug.
#![allow(clippy::print_stdout, reason = "tests say what they have counted")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::cuts::{cut_each_recovery, cut_everywhere, sequences};
use crate::common::damaged::{Left, damage_each_segment, open_damaged};
use crate::common::failing::fail_each_io;
use crate::common::letting_go::{Tasks, let_go_of};
use crate::common::lying::{Lies, run_lying_seed};
use crate::common::operations::Operation;
use crate::common::pair::run_pair_seed;
use crate::common::seed::{PROVES_TOO_LITTLE, Totals, run_seed};
use crate::common::snapshot::Snapshot;
use crate::common::stage::Grounds;
use crate::common::tampered::{change_each_header_byte, remove_each_subset};
use crate::common::{cuts, failing, pair};
use crate::dropped::change_rows_whose_pages_are_still_written;
use engine::Redo;
use engine::planted::{Bug, plant};

const SEEDS: u64 = 500;
const LYING_SEEDS: u64 = 200;
const PAIR_SEEDS: u64 = 60;

/// The case that finds a bug, and what it says.
type Found = Option<(String, String)>;

/// A test that goes through many cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finder {
    /// `crash.rs`, an honest disk.
    Seeds,
    /// `crash.rs`, a disk that lies.
    LyingSeeds,
    /// `standby.rs`.
    Copies,
    /// `drops.rs`.
    Drops,
    /// `dropped.rs`, a page write that takes a minute.
    LateWrite,
    /// `failures.rs`.
    Failures,
    /// `exhaustive.rs`, sequences.
    Sequences,
    /// `exhaustive.rs`, single operations.
    Operations,
    /// `exhaustive.rs`, power cuts in the recovery.
    Recoveries,
    /// `tampered.rs`, `damaged_log.rs`.
    Tampering,
}

use Finder::*;

const ALL: [Finder; 10] =
    [Tampering, Drops, LateWrite, Operations, Recoveries, Failures, Copies, Sequences, Seeds, LyingSeeds];

/// The test that finds the bug.
fn finder_of(bug: Bug) -> Finder {
    use Bug::*;
    match bug {
        NextLogNotNamed | LogVersionIgnored | DamageTakenForTheEnd => Tampering,
        CompensationNotNoted
        | HoldLeaked
        | DroppedReadKeepsFrames
        | DroppedTransactionStays
        | WrittenNotSynced
        | CopyForgetsTooMuch
        | ReplayTakenUpInTheMiddle
        | CopyRedoneFromCheckpoint => Drops,
        DroppedInstanceNotAwaited => LateWrite,
        CopyNotSynced => Failures,
        FoundNamesNotSynced => Operations,
        TailNotSynced | CheckpointBeforeEnds => Recoveries,
        StretchNotSynced => Copies,
        StalePageTaken => LyingSeeds,
        _ => Seeds,
    }
}

/// The seeds that find the bugs which few seeds find: tried before all others, to save the way there.
fn rare_seed_of(bug: Bug) -> Option<u64> {
    match bug {
        Bug::FailedSyncRetried => Some(149),
        Bug::HeaderCopiesTogether => Some(438),
        Bug::StaleCachePageTaken => Some(34),
        Bug::CacheOfOtherEpochTaken => Some(175),
        _ => None,
    }
}

/// What a panic said, in a line.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("?").split_whitespace().collect::<Vec<_>>().join(" "))
}

fn seed(mut seeds: impl Iterator<Item = u64>, mut run: impl FnMut(u64) -> Result<(), String>) -> Found {
    seeds.find_map(|seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let error = outcome.unwrap_or_else(|panic| Err(said(&*panic))).err()?;
        // A bug that only keeps the seed from its load is not found by that.
        (!error.contains(PROVES_TOO_LITTLE)).then_some((format!("seed {seed}"), error))
    })
}

/// The first error of an operation, or of a sequence.
fn operation<C: std::fmt::Debug>(
    cases: impl Iterator<Item = C>,
    mut run: impl FnMut(&C) -> Vec<String>,
) -> Found {
    cases.into_iter().find_map(|case| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&case)));
        let error = outcome.unwrap_or_else(|panic| vec![said(&*panic)]).into_iter().next()?;
        Some((format!("{case:?}"), error))
    })
}

impl Finder {
    fn find(self, bug: Bug) -> Found {
        let operations = || Operation::ALL.iter().copied();
        match self {
            Seeds => {
                let seeds = rare_seed_of(bug).into_iter().chain(1..=SEEDS);
                seed(seeds, |seed| run_seed(seed, &mut Totals::default()))
            }
            LyingSeeds => seed(1..=LYING_SEEDS, |seed| {
                run_lying_seed(seed, &mut Totals::default(), &mut Lies::default())
            }),
            Copies => seed(1..=PAIR_SEEDS, |seed| run_pair_seed(seed, &mut pair::Totals::default())),
            Drops => {
                let grounds = Grounds::make(Redo::InLogOrder);
                let tasks = Tasks::of(&grounds);
                operation(operations(), |operation| let_go_of(&grounds, &tasks, *operation).1)
            }
            // A panic is what `find` takes for found.
            LateWrite => {
                change_rows_whose_pages_are_still_written();
                None
            }
            Failures => {
                let grounds = Grounds::make(Redo::InLogOrder);
                operation(operations(), |operation| {
                    fail_each_io(&grounds, *operation, &mut failing::Totals::default())
                })
            }
            Sequences => {
                let (grounds, totals) = (Grounds::make(Redo::InLogOrder), &mut cuts::Totals::default());
                operation(sequences(2).zip(0..), |(sequence, number)| {
                    cut_everywhere(&grounds, sequence, *number, false, totals)
                })
            }
            Operations => {
                let (grounds, totals) = (Grounds::make(Redo::InLogOrder), &mut cuts::Totals::default());
                operation(operations().zip(0..), |(operation, number)| {
                    cut_everywhere(&grounds, &vec![*operation], *number, false, totals)
                })
            }
            Recoveries => {
                let (grounds, totals) = (Grounds::make(Redo::InLogOrder), &mut cuts::Totals::default());
                operation(operations(), |operation| cut_each_recovery(&grounds, *operation, false, totals))
            }
            Tampering => {
                let grounds = Grounds::make(Redo::InLogOrder);
                let left = (1..9).find_map(Left::by_instance).expect("a write that is torn in part");
                let open = |left: &Left, files: &Snapshot, segment: usize| {
                    open_damaged(left, files, segment, Redo::InLogOrder)
                };
                let failed = [
                    remove_each_subset(&grounds).2,
                    change_each_header_byte(&grounds).1,
                    damage_each_segment(&left, open).2,
                ];
                failed.concat().into_iter().next().map(|error| ("log files".to_owned(), error))
            }
        }
    }
}

/// Plants the bug and lets the test look for it.
fn find(bug: Bug, finder: Finder) -> Found {
    plant(Some(bug));
    let found = catch_unwind(|| finder.find(bug));
    plant(None);
    found.unwrap_or_else(|panic| Some(("the preparation of the test".to_owned(), said(&*panic))))
}

/// Two tests, so that two cores work.
fn find_all(bugs: impl Iterator<Item = Bug>) {
    let wanted = std::env::var("PROOFLOAD_BUG").ok();
    let tries_all = std::env::var("PROOFLOAD_ALL_FINDERS").is_ok();
    let mut missed = Vec::new();
    for bug in bugs.filter(|bug| wanted.as_ref().is_none_or(|wanted| format!("{bug:?}") == *wanted)) {
        let of_bug = [finder_of(bug)];
        let finders = if tries_all { &ALL[..] } else { &of_bug[..] };
        let mut is_found = false;
        for finder in finders {
            let found = find(bug, *finder);
            is_found |= found.is_some();
            let (case, error) = found.unwrap_or_else(|| ("-".to_owned(), "not found".to_owned()));
            println!("{bug:?} | {finder:?} | {case} | {error}");
            if is_found {
                break;
            }
        }
        if !is_found {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn the_first_half_of_the_planted_bugs_is_found() {
    find_all(Bug::ALL.into_iter().step_by(2));
}

#[test]
fn the_second_half_of_the_planted_bugs_is_found() {
    find_all(Bug::ALL.into_iter().skip(1).step_by(2));
}
