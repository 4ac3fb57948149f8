//! Bugs to be planted by a test that proves that the crash test finds them. This module and its hooks exist
//! only with the feature `planted-bugs`, which no other crate switches on.

use std::cell::Cell;

use crate::listed::listed;

listed! {
    /// A bug that a developer could write, planted to see a test find it.
    pub enum Bug {
        /// A durable commit returns without waiting for the log.
        CommitNotFlushed,
        /// A log write counts as durable without a sync.
        LogNotSynced,
        /// A failed log sync is tried again and the second answer believed.
        FailedSyncRetried,
        /// The names after a roll are not synced.
        RollNotSynced,
        /// The checkpoint moves to the end of the log although pages are dirty.
        CheckpointTooEarly,
        /// Logs are removed without regard to the checkpoint.
        NeededLogRemoved,
        /// A page is written before its log.
        PageBeforeLog,
        /// Pages become dirty without an image in the log.
        NoPageImage,
        /// Redo takes a page that verifies and is new enough for whole.
        VerifiedPageTrusted,
        /// Redo applies changes to pages that have them.
        RedoWithoutDbtime,
        /// A wrong record checksum is taken for a right one.
        RecordSumIgnored,
        /// A change of several pages is logged as two records.
        SplitInTwoRecords,
        /// Deletes are not undone.
        DeleteNotUndone,
        /// Recovery leaves open transactions as they are.
        LosersKept,
        /// Redo writes pages from log that the process before has left without a sync.
        TailNotSynced,
        /// An opening builds on names that the process before has left without a sync.
        FoundNamesNotSynced,
        /// Recovery undoes what was undone already.
        CompensationNotNoted,
        /// A restored or seeded copy is redone from the checkpoint, not from its own position.
        CopyRedoneFromCheckpoint,
        /// The checkpoint passes a transaction whose end is not durable.
        CheckpointBeforeEnds,
        /// A reader that has gone still keeps closed logs.
        HoldLeaked,
        /// A read that was dropped keeps its frames.
        DroppedReadKeepsFrames,
        /// A transaction that was dropped is not undone.
        DroppedTransactionStays,
        /// An opening does not wait for the writes of an instance that was dropped.
        DroppedInstanceNotAwaited,
        /// No header names the next log before it takes its place.
        NextLogNotNamed,
        /// Written pages count as durable without a sync.
        WrittenNotSynced,
        /// A passive copy forgets log up to where it has replayed.
        CopyForgetsTooMuch,
        /// A replay that was dropped goes on in the middle.
        ReplayTakenUpInTheMiddle,
        /// A passive copy acknowledges log that it has not synced.
        StretchNotSynced,
        /// A header and its shadow are under way together.
        HeaderCopiesTogether,
        /// Headers are not synced.
        HeaderNotSynced,
        /// The header of a backup copy is under way together with its pages.
        CopyNotSynced,
        /// Redo by page gives some records of a page to another worker.
        PageOfTwoWorkers,
        /// The versions in a log's header mean nothing.
        LogVersionIgnored,
        /// A damaged segment of the current log is always taken for its end.
        DamageTakenForTheEnd,
        /// A page that is read is not compared with the flush map.
        StalePageTaken,
        /// The flush map does not learn what redo changes.
        RedoneVersionsNotNoted,
        /// The checkpoint passes changes that the flush map does not have.
        CheckpointBeforeMap,
    }
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// All instances of this thread have this bug from now on.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
    edb::log::ignore_versions(bug == Some(Bug::LogVersionIgnored));
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
