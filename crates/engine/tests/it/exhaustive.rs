//! All short sequences of operations, with a crash at every I/O of the last one, and every state that unsynced
//! changes can leave, up to a bound. All operations of the engine's interface alone, the same way, and with a
//! power cut in the recovery behind the end of their process.
//!
//! `PROOFLOAD_STEPS=3` goes through all sequences of up to three operations (`make soak`); without it all
//! sequences of two are tried at some of their I/Os.
#![allow(clippy::print_stdout, reason = "says how many states were tried")]

use crate::common::REDO;
use crate::common::cuts::{Totals, cut_each_recovery, cut_everywhere, sequences};
use crate::common::operations::Operation;
use crate::common::stage::Grounds;

/// How many operations a sequence has at most, if every I/O of them is to be gone through.
fn steps() -> Option<u32> {
    std::env::var("PROOFLOAD_STEPS").ok().and_then(|steps| steps.parse().ok())
}

fn report(totals: &Totals, failed: &[String]) {
    let Totals { sequences, states, torn, most_undecided } = totals;
    println!(
        "{sequences} sequences, {states} states, {torn} with torn writes, at most {most_undecided} undecided changes"
    );
    assert!(failed.is_empty(), "{} states were harmed\n{}", failed.len(), failed.join("\n"));
}

/// Two tests, so that two cores work.
fn cut_sequences(half: usize) {
    let (mut totals, mut failed) = (Totals::default(), Vec::new());
    for (redo, other) in REDO.into_iter().zip(0..) {
        let grounds = Grounds::make(redo);
        for (number, sequence) in sequences(steps().unwrap_or(2)).enumerate().skip(half).step_by(2) {
            // Of two sequences one is tried in this way of redo, unless all are asked for.
            if steps().is_some() || number / 2 % 2 == other {
                let is_full = steps().is_some();
                failed.extend(cut_everywhere(&grounds, &sequence, number as u64, is_full, &mut totals));
            }
        }
    }
    report(&totals, &failed);
}

#[test]
fn every_short_sequence_survives_a_crash_at_its_ios_in_every_state_first_half() {
    cut_sequences(0);
}

#[test]
fn every_short_sequence_survives_a_crash_at_its_ios_in_every_state_second_half() {
    cut_sequences(1);
}

/// Openings, restores, passive copies and closings, too.
#[test]
fn every_operation_survives_a_crash_at_its_ios_in_every_state() {
    let (mut totals, mut failed) = (Totals::default(), Vec::new());
    for redo in REDO {
        let grounds = Grounds::make(redo);
        for (operation, number) in Operation::ALL.iter().zip(0..) {
            let is_full = steps().is_some();
            failed.extend(cut_everywhere(&grounds, &vec![*operation], number, is_full, &mut totals));
        }
    }
    report(&totals, &failed);
}

#[test]
fn every_operation_survives_a_power_cut_in_the_recovery_from_the_end_of_its_process() {
    let (mut totals, mut failed) = (Totals::default(), Vec::new());
    for redo in REDO {
        let grounds = Grounds::make(redo);
        for operation in Operation::ALL {
            failed.extend(cut_each_recovery(&grounds, *operation, steps().is_some(), &mut totals));
        }
    }
    report(&totals, &failed);
}
