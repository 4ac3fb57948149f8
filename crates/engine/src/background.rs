//! What an open instance does beside its transactions: it moves the checkpoint, writes old changes, removes
//! deleted entries.
//!
//! Invariants
//! 1. The checkpoint moves only over changes that are durable in the files, and over transactions whose ends
//!    are durable in the log (design invariant 4).
//! 2. A task that fails ends the instance.

use std::rc::Rc;

use btree::{Pager, Tree, update};
use futures_util::future::select;
use world::{Duration, Task};

use crate::cache::writes_outstanding;
use crate::checkpoint::CheckpointFile;
use crate::core::Core;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::io::Counters;
use crate::log::LogPosition;
use crate::transactions::Change;

/// Starts the background tasks of an instance; they end when it stops or fails.
pub(crate) fn start(core: &Rc<Core>, counters: &Counters) -> Vec<Task<()>> {
    let world = &core.world;
    let (keeper, counters) = (core.clone(), counters.clone());
    let working = core.poison.working();
    let checkpoint = world.spawn(async move {
        let _working = working;
        let result = keep_checkpoint(&keeper, &counters).await;
        let _ = keeper.poison.require(result);
    });
    let keeper = core.clone();
    let flusher = world.spawn(async move { keep_depth(&keeper).await });
    let keeper = core.clone();
    let cleaner = world.spawn(async move {
        let result = keep_clean(&keeper).await;
        let _ = keeper.poison.require(result);
    });
    vec![checkpoint, flusher, cleaner]
}

/// The checkpoint file of an open instance.
pub(crate) async fn open_checkpoint(core: &Core, counters: &Counters) -> Result<CheckpointFile> {
    let names = core.log.names();
    CheckpointFile::open(&core.world, &names.checkpoint(), core.log.signature(), counters).await
}

/// Waits for a log roll, a second, or the stop.
async fn roll_or_second(core: &Core) {
    let rolled = core.rolled.wait();
    let second = core.world.sleep(Duration::from_secs(1));
    select(rolled, Box::pin(second)).await;
}

/// Moves the checkpoint about once a second and at each log roll, and removes logs that it no longer needs.
async fn keep_checkpoint(core: &Core, counters: &Counters) -> Result<()> {
    let mut file = open_checkpoint(core, counters).await?;
    while !core.stop.is_stopped() {
        core.poison.check()?;
        core.cache.sync_written().await?;
        let position = core.checkpoint_position();
        if position > file.written() {
            // A transaction that has ended holds the position no more, so its end must be durable before the position
            // passes its beginning: a crash that lost the end would leave changes that no record says how to undo.
            let tip = core.log.tip();
            let take = |database: &Rc<Database>| database.flush_map.take_frame(tip);
            let frames: Vec<_> = core.databases.iter().map(take).collect();
            if !planted!(CheckpointBeforeEnds) {
                core.log.flush_to(tip).await?;
            }
            // Redo does not meet again what the checkpoint passes.
            for (database, frame) in
                core.databases.iter().zip(frames).filter(|_| !planted!(CheckpointBeforeMap))
            {
                database.flush_map.write_changes(frame, core.log.signature()).await?;
            }
            core.assert_redo_may_begin(position);
            file.write(position).await?;
            core.assert_redo_may_begin(position);
            core.durable_checkpoint.set(position);
            core.log.checkpoint_moved(position.generation()).await?;
        }
        roll_or_second(core).await;
    }
    Ok(())
}

/// Writes pages whose first change is further back in the log than the checkpoint depth.
async fn keep_depth(core: &Core) {
    while !core.stop.is_stopped() {
        let due = |first_change: LogPosition| {
            let distance = core.log.bytes_between(first_change, core.log.tip());
            writes_outstanding(distance, core.config.checkpoint_depth_bytes)
        };
        if core.cache.write_oldest(due).await.is_err() {
            return;
        }
        roll_or_second(core).await;
    }
}

/// Removes deleted entries for good once their transactions have committed.
async fn keep_clean(core: &Core) -> Result<()> {
    while !core.stop.is_stopped() {
        core.poison.check()?;
        let waiting = core.cleanup.wait();
        if !clean_up_one(core).await? {
            waiting.await;
        }
    }
    Ok(())
}

/// Removes one deleted entry for good; false if none waits.
pub(crate) async fn clean_up_one(core: &Core) -> Result<bool> {
    let next = {
        let transactions = core.transactions.borrow();
        transactions.cleanups.front().map(|cleanup| cleanup.change.clone())
    };
    let Some(change) = next else { return Ok(false) };
    let Change { row, undo } = &*change;
    let tree = Tree { fdp: undo.fdp, objid: undo.objid, density_pct: 100 };
    let step = |pager: &dyn Pager| {
        // The transaction that holds the entry now decides about it, and cleans up after itself.
        let held = core.transactions.borrow().is_locked(row);
        let removal = if held { None } else { update::purge(pager, tree, &undo.key, &undo.tail)? };
        Ok((removal.unwrap_or_default(), ()))
    };
    match core.change(row.db, None, step).await {
        // A page that cannot be read: the entry stays flagged as deleted, which every reader knows. The cleaner
        // gives it up, or it would hold the checkpoint for ever; the next reader of the page gets the error, as for
        // any other page.
        Err(Error::World(_) | Error::DamagedPage { .. }) if core.poison.check().is_ok() => {
            core.cleanups_given_up.set(core.cleanups_given_up.get() + 1);
        }
        done => done?,
    }
    let mut transactions = core.transactions.borrow_mut();
    if transactions.cleanups.front().is_some_and(|front| Rc::ptr_eq(&front.change, &change)) {
        transactions.cleanups.pop_front();
    }
    Ok(true)
}
