//! Rules that a test may switch off one at a time, to prove that the history checker notices.

/// Bug that a test plants: one rule of the protocol that is not kept.
#[allow(missing_docs, reason = "each name is the rule that is broken; no word could add to it")]
#[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub, reason = "reachable in tests only"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    LeaseNotWaitedFor,
    LeaseForgottenByRestart,
    LeaseCountedFromReceipt,
    AcknowledgedBeforePartner,
    PartnerNotRecorded,
    StaleEpochAccepted,
    MountWithoutProof,
    RunAheadUnlimited,
    TruncatedTooEarly,
    DivergenceUnnoticed,
    DivergentPagesKept,
    SeedMissesLogs,
    ConsistencyPointIgnored,
}

impl Bug {
    /// All planted bugs.
    #[cfg(feature = "planted-bugs")]
    pub const ALL: [Bug; 13] = [
        Bug::LeaseNotWaitedFor,
        Bug::LeaseForgottenByRestart,
        Bug::LeaseCountedFromReceipt,
        Bug::AcknowledgedBeforePartner,
        Bug::PartnerNotRecorded,
        Bug::StaleEpochAccepted,
        Bug::MountWithoutProof,
        Bug::RunAheadUnlimited,
        Bug::TruncatedTooEarly,
        Bug::DivergenceUnnoticed,
        Bug::DivergentPagesKept,
        Bug::SeedMissesLogs,
        Bug::ConsistencyPointIgnored,
    ];
}

/// Rule that a test has switched off; builds for users have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Planted {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Bug>,
}

impl Planted {
    pub(crate) fn is(self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        let planted = self.bug == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        let planted = {
            let _ = bug;
            false
        };
        planted
    }
}

#[cfg(feature = "planted-bugs")]
impl From<Option<Bug>> for Planted {
    fn from(bug: Option<Bug>) -> Planted {
        Planted { bug }
    }
}
