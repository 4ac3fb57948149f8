//! The crash test finds bugs: each planted bug makes a seed fail, and soon.
//!
//! `cargo test -p engine --features planted-bugs --test it planted:: -- --nocapture` prints at which seed each one is found.
#![allow(clippy::print_stdout, reason = "tests say what they have counted")]

use crate::common::seed::{PROVES_TOO_LITTLE, Totals, run_seed};
use engine::planted::{Bug, plant};

const SEEDS: u64 = 500;

/// The first seed that finds the bug, and what it says.
fn find(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (1..=SEEDS).find_map(|seed| {
        let run = || run_seed(seed, &mut Totals::default());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let error = outcome.unwrap_or_else(|_| Err("a panic".to_owned())).err()?;
        // A bug that only keeps the seed from its load is not found by that.
        (!error.contains(PROVES_TOO_LITTLE)).then_some((seed, error))
    });
    plant(None);
    found
}

/// Two tests, so that two cores work.
fn find_all(bugs: impl Iterator<Item = Bug>) {
    let mut missed = Vec::new();
    for bug in bugs {
        match find(bug) {
            Some((seed, error)) => println!("{bug:?} | {seed} | {error}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

#[test]
fn the_first_half_of_the_planted_bugs_is_found() {
    find_all(Bug::ALL.into_iter().step_by(2));
}

#[test]
fn the_second_half_of_the_planted_bugs_is_found() {
    find_all(Bug::ALL.into_iter().skip(1).step_by(2));
}
