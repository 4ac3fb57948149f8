//! An operation of the engine's interface with one of its I/Os failing, and what has to hold afterwards.

use engine::{Durability, Error, Held};
use world::Duration;
use world::sim::{FaultKind, Faults, OpKind, Outcome, Simulation};

use super::operations::Operation;
use super::stage::{Grounds, Stage, row};

/// Every way in which an I/O can fail.
pub const FAILURES: [(OpKind, FaultKind); 16] = [
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
pub struct Failure {
    pub operation: Operation,
    pub at: OpKind,
    pub kind: FaultKind,
    pub nth: u64,
}

#[derive(Default)]
pub struct Totals {
    pub delivered: u64,
    pub errors: u64,
    pub stopped: u64,
}

impl Failure {
    pub fn describe(&self, error: &str) -> String {
        let Failure { operation, at, kind, nth } = self;
        format!("{operation:?}, {at:?} {nth} fails with {kind:?}: {error}")
    }

    /// Delivers the failure and checks its effects. Returns whether there was such an I/O.
    pub fn deliver(&self, grounds: &Grounds, totals: &mut Totals) -> Result<bool, String> {
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

/// Checks that the instance goes on or has stopped for good. Returns whether it has stopped.
pub fn judge_what_is_open(sim: &Simulation, stage: &mut Stage, closes: bool) -> Result<bool, String> {
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

pub fn no_tasks(sim: &Simulation) -> Result<(), String> {
    match sim.task_count() {
        0 => Ok(()),
        tasks => Err(format!("{tasks} tasks are left behind")),
    }
}

/// Fails each I/O of the operation once, in each way in which it can fail. Returns the failures of the test.
pub fn fail_each_io(grounds: &Grounds, operation: Operation, totals: &mut Totals) -> Vec<String> {
    let mut failed = Vec::new();
    for (at, kind) in FAILURES {
        for nth in 1..10_000 {
            let failure = Failure { operation, at, kind, nth };
            match failure.deliver(grounds, totals) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => failed.push(failure.describe(&error)),
            }
        }
    }
    failed
}
