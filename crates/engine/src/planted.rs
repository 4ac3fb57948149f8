//! Bugs to be planted by a test that proves that the crash test finds them. This module and its hooks exist only with the
//! feature `planted-bugs`, which no other crate switches on.

use std::cell::Cell;

use crate::listed::listed;

listed! {
    /// A bug that somebody could write.
    pub enum Bug {
        /// A durable commit returns without waiting for the log.
        CommitNotFlushed,
        /// A log write counts as durable without a sync.
        LogNotSynced,
        /// A failed log sync is tried again and the second answer believed.
        FailedSyncRetried,
        /// The names after a roll are not synced.
        RollNotSynced,
        /// The checkpoint is the end of the log, whatever is dirty.
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
        /// Deletes are not taken back.
        DeleteNotUndone,
        /// Recovery leaves open transactions as they are.
        LosersKept,
    }
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// All instances of this thread have this bug from now on.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
