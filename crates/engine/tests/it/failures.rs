//! Each operation of the engine's interface, with each of its I/Os failing once, in each way in which it can fail.
//!
//! What was acknowledged is there afterwards, nothing panics or waits for ever, an error names the file, and the instance goes on
//! or has stopped in order.
#![allow(clippy::print_stdout, reason = "says how many failures were delivered")]

use crate::common::operations::Operation;
use crate::common::stage::{Ground, Grounds, Stage, row};
use engine::{Durability, Error, Held};
use world::Duration;
use world::sim::{FaultKind, Faults, OpKind, Outcome, Simulation};

/// Every way in which an I/O can fail.
const FAILURES: [(OpKind, FaultKind); 16] = [
    (OpKind::Read, FaultKind::ReadError),
    (OpKind::Read, FaultKind::ShortRead),
    (OpKind::Write, FaultKind::WriteError),
    (OpKind::Write, FaultKind::ShortWrite),
    (OpKind::Write, FaultKind::NoSpace),
    (OpKind::Sync, FaultKind::SyncError),
    (OpKind::SyncDir, FaultKind::SyncError),
    (OpKind::SetSize, FaultKind::NameError),
    (OpKind::SetSize, FaultKind::NoSpace),
    (OpKind::Size, FaultKind::NameError),
    (OpKind::Open, FaultKind::NameError),
    (OpKind::Rename, FaultKind::NameError),
    (OpKind::Remove, FaultKind::NameError),
    (OpKind::Entry, FaultKind::NameError),
    (OpKind::List, FaultKind::NameError),
    (OpKind::FreeBytes, FaultKind::NameError),
];

/// One failure of one operation.
#[derive(Debug, Clone, Copy)]
struct Failure {
    operation: Operation,
    at: OpKind,
    kind: FaultKind,
    nth: u64,
}

#[derive(Default)]
struct Totals {
    delivered: u64,
    errors: u64,
    stopped: u64,
}

impl Failure {
    fn describe(&self, error: &str) -> String {
        let Failure { operation, at, kind, nth } = self;
        format!("{operation:?}, {at:?} {nth} fails with {kind:?}: {error}")
    }

    /// Whether there was an I/O to fail.
    fn deliver(&self, grounds: &Grounds, totals: &mut Totals) -> Result<bool, String> {
        let ground = self.operation.ground();
        let (sim, mut stage) = grounds.stage(ground);
        let Failure { at, kind, nth, .. } = *self;
        sim.set_faults(Faults { fail_nth: Some((at, nth)), fails_with: Some(kind), ..Faults::default() });
        let world = stage.world.clone();
        let outcome = sim.run_until_crash_or(async {
            let done = self.operation.perform(&mut stage).await;
            world.sleep(Duration::from_secs(3)).await;
            done
        });
        let delivered = FaultKind::ALL.iter().any(|kind| sim.fault_counts().of(*kind) > 0);
        sim.set_faults(Faults::default());
        let done = match outcome {
            Outcome::Done(done) => done,
            other => {
                return Err(format!("the operation never ends: {}", matches!(other, Outcome::Stuck { .. })));
            }
        };
        if !delivered {
            done.map_err(|error| error.to_string())?;
            return Ok(false);
        }
        totals.delivered += 1;
        if let Err(error) = done {
            totals.errors += 1;
            let text = error.to_string();
            if !text.contains("/db") && !text.contains("/log") {
                return Err(format!("the error does not name the file: {text}"));
            }
        }
        let is_odd = nth % 2 == 1;
        let stopped = judge_what_is_open(&sim, &mut stage, is_odd)?;
        totals.stopped += u64::from(stopped);
        sim.crash("h");
        stage.restart(&sim);
        sim.run_until(stage.judge_crashed(ground))?;
        Ok(true)
    }
}

/// The instance goes on, or has stopped for good. Returns whether it has stopped.
fn judge_what_is_open(sim: &Simulation, stage: &mut Stage, closes: bool) -> Result<bool, String> {
    if stage.instance.is_none() {
        // A passive copy may refuse to go on, but not in another way.
        if stage.standby.is_some() && stage.store.is_some() {
            let _ = sim.run_until(stage.take_over());
        }
        return Ok(false);
    }
    if stage.instance().check().is_err() {
        sim.run_until(async {
            let late = stage.transact(vec![row(1, 1)], Durability::Durable).await;
            match late {
                Err(Error::Stopped(why)) if why.contains("/db") || why.contains("/log") => {}
                other => return Err(format!("it has stopped, and a change ends with {other:?}")),
            }
            stage.instance().abandon().await;
            Ok(())
        })?;
        (stage.instance, stage.transaction) = (None, None);
        sim.run_until(stage.world.sleep(Duration::from_secs(1)));
        return no_tasks(sim).map(|()| true);
    }
    let held = stage.instance().held();
    if stage.transaction.is_none() && held != Held::default() {
        return Err(format!("the instance is no longer used, and it holds {held:?}"));
    }
    stage.transaction = None;
    sim.run_until(stage.world.sleep(Duration::from_secs(1)));
    sim.run_until(async {
        stage.judge_rows().await.map_err(|error| format!("while it goes on: {error}"))?;
        match stage.judge_locks().await {
            Err(error) if error.contains("no space for the next log") => Ok(()),
            judged => judged,
        }
    })?;
    if closes {
        let instance = stage.instance.take().expect("it goes on");
        sim.run_until(instance.close()).map_err(|error| format!("it goes on, and close: {error}"))?;
        no_tasks(sim)?;
    }
    Ok(false)
}

fn no_tasks(sim: &Simulation) -> Result<(), String> {
    match sim.task_count() {
        0 => Ok(()),
        tasks => Err(format!("{tasks} tasks are left behind")),
    }
}

fn fail_everywhere(operations: impl Iterator<Item = Operation>) {
    let (grounds, mut failed, mut totals) = (Grounds::make(), Vec::new(), Totals::default());
    for operation in operations {
        for (at, kind) in FAILURES {
            for nth in 1..10_000 {
                let failure = Failure { operation, at, kind, nth };
                match failure.deliver(&grounds, &mut totals) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => failed.push(failure.describe(&error)),
                }
            }
        }
    }
    let Totals { delivered, errors, stopped } = totals;
    println!("{delivered} failures: {errors} operations failed, {stopped} instances stopped");
    assert!(failed.is_empty(), "{} failures did harm\n{}", failed.len(), failed.join("\n"));
    assert!(delivered > 500 && errors > 100 && errors < delivered, "{delivered} {errors} {stopped}");
}

#[test]
fn an_instance_survives_or_stops_in_order_at_the_failure_of_any_io_of_an_operation() {
    fail_everywhere(Operation::ALL.iter().copied().filter(|operation| operation.ground() == Ground::Open));
}

#[test]
fn openings_checks_and_passive_copies_survive_the_failure_of_any_of_their_ios() {
    fail_everywhere(Operation::ALL.iter().copied().filter(|operation| operation.ground() != Ground::Open));
}
