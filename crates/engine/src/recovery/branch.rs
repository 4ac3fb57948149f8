//! The ways that a recovery can take, counted: tests ask whether all of them were gone.

use crate::listed::listed;

listed! {
    /// Branch of recovery that only some states of the files take.
    pub enum RecoveryBranch {
        /// There was no log, and a new stream was created.
        NewStream,
        /// No database needed the log.
        NothingToReplay,
        /// A crash came between the two renames of a roll: the last log had its archive name.
        RollUndone,
        /// The first copy of the checkpoint was not intact.
        SecondCheckpoint,
        /// No copy of the checkpoint was there: redo began at the oldest log of the chain.
        NoCheckpoint,
        /// A database header was not intact: its shadow was read.
        ShadowHeader,
        /// Bytes behind the last valid segment were wiped.
        TailWiped,
        /// A segment of the last log passed its checksum, but a record in it did not.
        TailCutByRecord,
        /// A removed log had come back behind a gap.
        LeftoverLogRemoved,
        /// The file was shorter than the log says.
        FileLengthened,
        /// Space that the log adds, or that the trees do not know, existed already and was cleared.
        NewSpaceCleared,
        /// The image of a page that had failed its check came from the log.
        DamagedPageFromImage,
        /// The image of a page that had passed its check came from the log.
        VerifiedPageFromImage,
        /// A change formatted a page that had failed its check.
        DamagedPageMadeAnew,
        /// A change formatted a page that had passed its check.
        VerifiedPageMadeAnew,
        /// Changes of a page came before the base that contains them.
        ChangesBeforeBase,
        /// A page without a base in the range already had its change.
        ChangeAlreadyThere,
        /// A page with a base met a later image of itself.
        LaterImage,
        /// A change that undoes another one was replayed: an earlier recovery or a rollback was cut off or had ended.
        CompensationRepeated,
        /// A transaction without an end was undone.
        TransactionUndone,
    }
}

/// Number of times that each branch of recovery was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchCounts([u32; RecoveryBranch::ALL.len()]);

impl BranchCounts {
    /// Number of times that one branch was taken.
    pub fn of(&self, branch: RecoveryBranch) -> u32 {
        self.0[branch as usize]
    }

    /// Branches that were taken, with their numbers.
    pub fn taken(&self) -> impl Iterator<Item = (RecoveryBranch, u32)> {
        RecoveryBranch::ALL.into_iter().zip(self.0).filter(|(_, times)| *times > 0)
    }

    /// Adds the numbers of another recovery.
    pub fn merge(&mut self, other: &BranchCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    pub(crate) fn count(&mut self, branch: RecoveryBranch) {
        self.0[branch as usize] += 1;
    }
}
