//! Each operation of the engine's interface, with each of its I/Os failing once, in each way in which it can fail.
//!
//! What was acknowledged is there afterwards, nothing panics or waits for ever, an error names the file, and
//! the instance goes on or has stopped in order.
#![allow(clippy::print_stdout, reason = "says how many failures were delivered")]

use crate::common::REDO;
use crate::common::failing::{Totals, fail_each_io};
use crate::common::operations::Operation;
use crate::common::stage::{Ground, Grounds};
use engine::Redo;

fn fail_everywhere(redo: Redo, operations: impl Iterator<Item = Operation>) {
    let (grounds, mut failed, mut totals) = (Grounds::make(redo), Vec::new(), Totals::default());
    for operation in operations {
        failed.extend(fail_each_io(&grounds, operation, &mut totals));
    }
    let Totals { delivered, errors, stopped } = totals;
    println!("{delivered} failures: {errors} operations failed, {stopped} instances stopped");
    assert!(failed.is_empty(), "{} failures did harm\n{}", failed.len(), failed.join("\n"));
    assert!(delivered > 500 && errors > 100 && errors < delivered, "{delivered} {errors} {stopped}");
}

#[test]
fn an_instance_survives_or_stops_in_order_at_the_failure_of_any_io_of_an_operation() {
    let on_instance = Operation::ALL.iter().copied().filter(|operation| operation.ground() == Ground::Open);
    fail_everywhere(Redo::InLogOrder, on_instance);
}

#[test]
fn openings_checks_and_passive_copies_survive_the_failure_of_any_of_their_ios() {
    for redo in REDO {
        let others = Operation::ALL.iter().copied().filter(|operation| operation.ground() != Ground::Open);
        fail_everywhere(redo, others);
    }
}
