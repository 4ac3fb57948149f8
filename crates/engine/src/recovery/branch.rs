//! The ways that a recovery can take, counted: tests ask whether all of them were gone.

use crate::listed::listed;

listed! {
    /// A way that recovery takes only in some states of the files.
    pub enum RecoveryBranch {
        /// There was no log: a new stream was begun.
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
        /// A segment of the last log was intact by its own checksum, but a record in it was not.
        TailCutByRecord,
        /// A removed log had come back behind a gap.
        LeftoverLogRemoved,
        /// The file was shorter than the log says.
        FileLengthened,
        /// Space that the log adds, or that the trees do not know of, was there already: it was given up,
        /// independent of its old contents.
        NewSpaceCleared,
        /// A page that had failed its check got its image from the log.
        DamagedPageFromImage,
        /// A page that verified got its image from the log.
        VerifiedPageFromImage,
        /// A page that had failed its check was made anew by a change.
        DamagedPageMadeAnew,
        /// A page that verified was made anew by a change.
        VerifiedPageMadeAnew,
        /// Changes came before the base that has them in it.
        ChangesBeforeBase,
        /// A page had its change and no base in the range.
        ChangeAlreadyThere,
        /// A page that had a base came to the next image of itself.
        LaterImage,
        /// A change that undoes another one was repeated: an earlier recovery or a rollback was cut off or had ended.
        CompensationRepeated,
        /// A transaction without an end was undone.
        TransactionUndone,
    }
}

/// How often each branch was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchCounts([u32; RecoveryBranch::ALL.len()]);

impl BranchCounts {
    /// How often this one was.
    pub fn of(&self, branch: RecoveryBranch) -> u32 {
        self.0[branch as usize]
    }

    /// The branches that were taken, and how often.
    pub fn taken(&self) -> impl Iterator<Item = (RecoveryBranch, u32)> {
        RecoveryBranch::ALL.into_iter().zip(self.0).filter(|(_, times)| *times > 0)
    }

    /// Adds what another recovery did.
    pub fn merge(&mut self, other: &BranchCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    pub(crate) fn count(&mut self, branch: RecoveryBranch) {
        self.0[branch as usize] += 1;
    }
}
