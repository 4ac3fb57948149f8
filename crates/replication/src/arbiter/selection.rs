//! Best-copy selection: which copy is tried next when a database has no active one.
//!
//! The published order: drop what may not be activated; sort by copy queue, then activation preference (under
//! the lossless dial by preference alone); take the first that passes the strictest set of criteria that anyone
//! passes, and relax the host's health only when all sets are exhausted. The published sets that differ only in
//! the state of a content index are one here: there is no such index.

use crate::lineage::Lineage;
use crate::message::{Health, Report};
use crate::types::{ActivationPolicy, CopySpec, DatabaseSpec, Dial, HostId, Position, SiteId};

const COPY_QUEUE_MAX: u32 = 10;
const REPLAY_QUEUE_MAX: u32 = 50;
/// Worst health of a host; 0 is the best.
const TIERS: u8 = 4;

/// Copy that an election could activate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Host of the candidate.
    pub host: HostId,
    /// Activation preference of the candidate; 1 is preferred.
    pub preference: u32,
    /// End of the candidate's log on the lineage of the database.
    pub end: Position,
    /// Generations of which the candidate may lack a part (copy queue).
    pub copy_queue: u32,
    /// Generations that the candidate has stored and not replayed (replay queue).
    pub replay_queue: u32,
    /// Health of the candidate's host; 0 is best.
    pub host_tier: u8,
}

/// Orders candidates of an election, best first.
#[must_use]
pub fn rank(dial: Dial, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let rule = |c: &Candidate| (c.copy_queue < COPY_QUEUE_MAX, c.replay_queue < REPLAY_QUEUE_MAX);
    let set = |c: &Candidate| match rule(c) {
        (true, true) => 0u8,
        (false, true) => 1,
        (true, false) => 2,
        (false, false) => 3,
    };
    let queue = |c: &Candidate| if dial == Dial::Lossless { 0 } else { c.copy_queue };
    candidates.sort_by_key(|c| (c.host_tier.min(TIERS), set(c), queue(c), c.preference));
    candidates
}

/// Whether the activation policy lets the arbiter activate this copy.
#[must_use]
pub fn may_activate(copy: &CopySpec, report: &Report, last_active_site: Option<SiteId>) -> bool {
    let is_allowed = match copy.activation {
        ActivationPolicy::Unrestricted => true,
        ActivationPolicy::IntrasiteOnly => last_active_site.is_none_or(|site| site == copy.site),
        ActivationPolicy::Blocked => false,
    };
    is_allowed && report.health == Health::Healthy
}

/// Selects candidates from the reports: copies whose log is a prefix of `lineage` up to `end`.
#[must_use]
pub fn candidates(
    spec: &DatabaseSpec,
    reports: &[&Report],
    lineage: &Lineage,
    end: Position,
    last_active_site: Option<SiteId>,
) -> Vec<Candidate> {
    let candidate = |report: &&Report| {
        let copy = spec.copy_on(report.host)?;
        let is_prefix = report.lineage.common(report.end, lineage, end) == report.end;
        (is_prefix && may_activate(copy, report, last_active_site)).then(|| Candidate {
            host: report.host,
            preference: copy.preference,
            end: report.end,
            copy_queue: report.end.generations_behind(end).max(report.copy_queue),
            replay_queue: report.replay_queue(),
            host_tier: report.host_tier,
        })
    };
    reports.iter().filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(host: u16, preference: u32, copy_queue: u32, replay_queue: u32, host_tier: u8) -> Candidate {
        let end = Position::of_generation(100 - copy_queue);
        Candidate { host: HostId(host), preference, end, copy_queue, replay_queue, host_tier }
    }

    fn order(dial: Dial, candidates: &[Candidate]) -> Vec<u16> {
        rank(dial, candidates.to_vec()).iter().map(|c| c.host.0).collect()
    }

    #[test]
    fn equal_queues_fall_back_to_preference() {
        let copies = [candidate(1, 3, 0, 0, 0), candidate(2, 2, 0, 0, 0), candidate(3, 1, 0, 0, 0)];
        assert_eq!(order(Dial::GoodAvailability, &copies), [3, 2, 1]);
    }

    #[test]
    fn the_shorter_copy_queue_beats_preference_unless_the_dial_is_lossless() {
        let copies = [candidate(1, 1, 4, 0, 0), candidate(2, 2, 1, 0, 0)];
        assert_eq!(order(Dial::GoodAvailability, &copies), [2, 1]);
        assert_eq!(order(Dial::Lossless, &copies), [1, 2]);
    }

    #[test]
    fn a_long_copy_queue_with_a_short_replay_queue_comes_before_the_reverse() {
        let copies = [candidate(1, 1, 3, 80, 0), candidate(2, 2, 20, 10, 0), candidate(3, 3, 20, 80, 0)];
        assert_eq!(order(Dial::BestAvailability, &copies), [2, 1, 3]);
    }

    #[test]
    fn health_of_the_host_is_relaxed_last() {
        let copies = [candidate(1, 1, 0, 0, 1), candidate(2, 2, 20, 80, 0)];
        assert_eq!(order(Dial::GoodAvailability, &copies), [2, 1]);
    }
}
