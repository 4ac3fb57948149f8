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
        /// A failed log sync is repeated and the second answer trusted.
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
        /// Redo trusts a page that passes its check and is new enough.
        VerifiedPageTrusted,
        /// Redo applies changes to pages that already have them.
        RedoWithoutDbtime,
        /// A wrong record checksum counts as right.
        RecordSumIgnored,
        /// A change of several pages is logged as two records.
        SplitInTwoRecords,
        /// Deletes are not undone.
        DeleteNotUndone,
        /// Recovery leaves open transactions as they are.
        LosersKept,
        /// Redo writes pages from log that the process before left unsynced.
        TailNotSynced,
        /// An opening relies on names that the process before left unsynced.
        FoundNamesNotSynced,
        /// Recovery undoes changes that were already undone.
        CompensationNotNoted,
        /// A restored or seeded copy is redone from the checkpoint, not from its own position.
        CopyRedoneFromCheckpoint,
        /// The checkpoint passes a transaction whose end is not durable.
        CheckpointBeforeEnds,
        /// A dropped reader still keeps closed logs.
        HoldLeaked,
        /// A dropped read keeps its frames.
        DroppedReadKeepsFrames,
        /// A dropped transaction is not undone.
        DroppedTransactionStays,
        /// An opening does not wait for the writes of an instance that was dropped.
        DroppedInstanceNotAwaited,
        /// No header names the next log before it takes its place.
        NextLogNotNamed,
        /// Written pages count as durable without a sync.
        WrittenNotSynced,
        /// A passive copy forgets log up to where it has replayed.
        CopyForgetsTooMuch,
        /// A dropped replay continues in the middle of a part.
        ReplayTakenUpInTheMiddle,
        /// A passive copy acknowledges log that it has not synced.
        StretchNotSynced,
        /// A header and its shadow are written at the same time.
        HeaderCopiesTogether,
        /// Headers are not synced.
        HeaderNotSynced,
        /// The header of a backup copy is written together with its pages.
        CopyNotSynced,
        /// Redo by page gives some records of a page to another worker.
        PageOfTwoWorkers,
        /// The versions in a log's header are not checked.
        LogVersionIgnored,
        /// A damaged segment of the current log is always taken for its end.
        DamageTakenForTheEnd,
        /// A page that is read is not compared with the flush map.
        StalePageTaken,
        /// The flush map does not note the changes of redo.
        RedoneVersionsNotNoted,
        /// The checkpoint passes changes that the flush map does not contain.
        CheckpointBeforeMap,
        /// A page of the MetaCache is used although a newer one was written.
        StaleCachePageTaken,
        /// A page of the MetaCache is used although it is not whole.
        TornCachePageTaken,
        /// The directory of a MetaCache is used although the database has changed since.
        CacheOfOtherEpochTaken,
    }
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in all instances of this thread.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
    edb::log::ignore_versions(bug == Some(Bug::LogVersionIgnored));
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
