//! An operation of the engine's interface that its caller drops, and what has to hold afterwards.

use std::pin::pin;

use engine::{Error, Held};
use futures_util::future::{Either, select};
use world::sim::Simulation;
use world::{Duration, World};

use super::dropping::at_every_await;
use super::operations::Operation;
use super::polled;
use super::stage::{Ground, Grounds, Stage};

/// Number of failed drops of one operation after which it is tried no more.
const FAILURES_MAX: usize = 10;

/// Largest number of tasks of an idle instance and of an idle passive copy.
pub struct Tasks {
    instance: usize,
    standby: usize,
}

impl Tasks {
    pub fn of(grounds: &Grounds) -> Tasks {
        let idle = |ground| {
            let (sim, stage) = grounds.stage(ground);
            let count = sim.task_count();
            drop(stage);
            count
        };
        Tasks { instance: idle(Ground::Open), standby: idle(Ground::Replayed) }
    }

    pub fn due(&self, stage: &Stage) -> usize {
        match (&stage.instance, &stage.standby) {
            (Some(_), _) => self.instance,
            (None, Some(_)) => self.standby,
            (None, None) => 0,
        }
    }
}

/// Checks that the dropped work ends by itself and holds nothing, and that the next operations succeed, on the open
/// instance or on its files.
pub async fn judge_next(stage: &mut Stage, ground: Ground) -> Result<(), String> {
    if let Some(instance) = &stage.instance {
        instance.check().map_err(|error| error.to_string())?;
        let held = instance.held();
        if held != Held::default() {
            return Err(format!("the instance is no longer used, and it holds {held:?}"));
        }
    } else if stage.standby.is_some() && stage.store.is_some() {
        match stage.take_over().await {
            // Opened again, it takes over.
            Err(Error::Refused(why)) if why.contains("open the passive copy again") => {
                stage.reopen(ground).await.map_err(|error| format!("opening after {why}: {error}"))?;
            }
            taken_over => taken_over.map_err(|error| format!("takeover: {error}"))?,
        }
    } else {
        stage.reopen(ground).await.map_err(|error| format!("next opening: {error}"))?;
    }
    stage.judge_rows().await?;
    stage.judge_locks().await
}

/// Drops the operation after `times` polls and checks the effects. Returns whether it had completed.
pub fn let_go(grounds: &Grounds, tasks: &Tasks, operation: Operation, times: u32) -> Result<bool, String> {
    let ground = operation.ground();
    let (sim, mut stage) = grounds.stage(ground);
    let done = sim.run_until(polled(times, operation.perform(&mut stage)));
    let ended = done.is_some();
    done.transpose().map_err(|error| error.to_string())?;
    stage.transaction = None;
    sim.run_until(stage.world.sleep(Duration::from_secs(3)));
    let (found, due) = (sim.task_count(), tasks.due(&stage));
    if found > due {
        return Err(format!("{found} tasks are left, {due} are due"));
    }
    let world = stage.world.clone();
    run_within_an_hour(&sim, &world, judge_next(&mut stage, ground))?;
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(Ground::Closed))?;
    let instance = stage.instance.take().expect("it was opened");
    sim.run_until(instance.close()).map_err(|error| format!("close: {error}"))?;
    Ok(ended)
}

/// Cuts the power at the moment when the operation is dropped.
pub fn let_go_at_power_cut(grounds: &Grounds, operation: Operation, times: u32) -> Result<(), String> {
    let (sim, mut stage) = grounds.stage(operation.ground());
    let _ = sim.run_until(polled(times, operation.perform(&mut stage)));
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(operation.ground()))
}

/// Closes what is open at once, while the dropped work is still in progress; the files then need no log. If nothing
/// is open, opens at once.
pub fn let_go_and_close(grounds: &Grounds, operation: Operation, times: u32) -> Result<(), String> {
    let ground = operation.ground();
    let (sim, mut stage) = grounds.stage_with(ground, Duration::from_millis(20));
    let _ = sim.run_until(polled(times, operation.perform(&mut stage)));
    stage.transaction = None;
    let world = stage.world.clone();
    run_within_an_hour(&sim, &world, async {
        if let Some(instance) = stage.instance.take() {
            instance.close().await.map_err(|error| format!("closing at once: {error}"))?;
        }
        stage.open().await.map_err(|error| format!("opening behind that: {error}"))?;
        stage.judge_rows().await.map_err(|error| format!("opened at once: {error}"))?;
        stage.judge_locks().await?;
        stage.world.sleep(Duration::from_millis(50)).await;
        Ok(())
    })?;
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(Ground::Closed))
}

/// Runs `work` for at most an hour of virtual time. Without that limit, background tasks would keep a stuck test
/// running for ever.
fn run_within_an_hour<T>(
    sim: &Simulation,
    world: &World,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    sim.run_until(async {
        match select(pin!(work), pin!(world.sleep(Duration::from_secs(3600)))).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err("it does not end within an hour".to_owned()),
        }
    })
}

/// Starts the next operations of a passive copy at once, while the dropped work is still in progress.
pub fn let_go_and_go_on(grounds: &Grounds, operation: Operation, times: u32) -> Result<(), String> {
    let ground = operation.ground();
    let (sim, mut stage) = grounds.stage_with(ground, Duration::from_millis(20));
    let _ = sim.run_until(polled(times, operation.perform(&mut stage)));
    let went_on: engine::Result<()> = sim.run_until(async {
        if stage.standby.is_some() && stage.store.is_some() {
            for _ in 0..2 {
                stage.store_next().await?;
                stage.follow().await?;
                let (store, standby) = (stage.store.as_mut(), stage.standby.as_mut());
                let at = standby.expect("it is there").save_checkpoint().await?;
                store.expect("it is there").drop_below(at.generation()).await?;
            }
        }
        Ok(())
    });
    match went_on {
        Err(Error::Refused(why)) if why.contains("open the passive copy again") => {}
        went_on => went_on.map_err(|error| format!("going on at once: {error}"))?,
    }
    sim.run_until(stage.world.sleep(Duration::from_millis(50)));
    sim.crash("h");
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(ground))
}

/// Drops the operation after 0, 1, 2, ... polls, until it completes. Returns the number of drops, and the failures.
pub fn let_go_of(grounds: &Grounds, tasks: &Tasks, operation: Operation) -> (u32, Vec<String>) {
    let mut failed = Vec::new();
    let drops = at_every_await(|times| {
        let gone = let_go_at_power_cut(grounds, operation, times);
        let went_on = match operation.ground() {
            Ground::Passive | Ground::Replayed => let_go_and_go_on(grounds, operation, times),
            _ => let_go_and_close(grounds, operation, times),
        };
        let ended = gone.and(went_on).and_then(|()| let_go(grounds, tasks, operation, times));
        ended.unwrap_or_else(|error| {
            failed.push(format!("{operation:?} let go of after {times} polls: {error}"));
            failed.len() >= FAILURES_MAX
        })
    });
    (drops, failed)
}
