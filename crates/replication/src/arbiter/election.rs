//! An election: fence the copies, hear what they hold, let the best one fetch what others hold more, activate it.

use std::collections::{BTreeMap, BTreeSet};

use super::selection::{Candidate, candidates, rank};
use super::{ArbiterEvent, Database, Loss, MountState, Turn, WhyDismounted};
use crate::lineage::Lineage;
use crate::message::{FromArbiter, Report};
use crate::planted::Bug;
use crate::types::{Dial, Epoch, HostId, Position};

pub(super) struct Election {
    pub(super) epoch: Epoch,
    started_ms: u64,
    fenced_ms: Option<u64>,
    /// Reports that copies sent after the fence of this election.
    pub(super) reports: BTreeMap<HostId, Report>,
    /// End of the old active copy's log at the moment when it gave the lease back; `None` if it did not.
    drained: Option<Position>,
    target: Option<HostId>,
    failed: BTreeSet<HostId>,
    catching_up: Option<CatchUp>,
    /// Candidates that did not fetch the log that other copies hold beyond theirs within `catch_up_ms`.
    overdue: BTreeSet<HostId>,
}

#[derive(Clone, Copy)]
struct CatchUp {
    candidate: HostId,
    source: HostId,
    deadline_ms: u64,
    sent_ms: u64,
}

/// Longest log that an answering copy holds on the history that counts: the yardstick for all candidates.
struct Reference {
    lineage: Lineage,
    end: Position,
    /// Host that reported `end`.
    source: HostId,
}

impl Database {
    pub(super) fn begin_election(
        &mut self,
        failed: BTreeSet<HostId>,
        drained: Option<Position>,
        target: Option<HostId>,
        turn: &mut Turn<'_>,
    ) {
        // What copies say that they have promised does not count: every epoch is the arbiter's.
        self.record.issued = Epoch(self.record.issued.0.saturating_add(1));
        let epoch = self.record.issued;
        self.unanswered = None;
        self.persist(turn);
        self.event(ArbiterEvent::ElectionBegun { epoch }, turn);
        self.state = MountState::Electing(Election {
            epoch,
            started_ms: turn.now_ms,
            fenced_ms: None,
            reports: BTreeMap::new(),
            drained,
            target,
            failed,
            catching_up: None,
            overdue: BTreeSet::new(),
        });
    }

    pub(super) fn work_election(&mut self, turn: &mut Turn<'_>) {
        if !self.persisting.is_empty() {
            return;
        }
        let timing = self.spec.timing.clone();
        let hosts: Vec<HostId> = self.spec.copies.iter().map(|copy| copy.host).collect();
        let MountState::Electing(election) = &mut self.state else { return };
        let epoch = election.epoch;
        if election.fenced_ms.is_none_or(|at| turn.now_ms >= at + timing.resend_ms) {
            election.fenced_ms = Some(turn.now_ms);
            for host in hosts.iter().copied() {
                // Those that have answered are asked again: what they hold changes.
                turn.out.push(super::ArbiterEffect::ToCopy {
                    host,
                    database: self.spec.id,
                    message: FromArbiter::Fence { epoch },
                });
            }
        }
        let all_answered = hosts.iter().all(|host| election.reports.contains_key(host));
        let target_answered = election.drained.is_some()
            && election.target.is_some_and(|target| election.reports.contains_key(&target));
        if all_answered || target_answered || turn.now_ms >= election.started_ms + timing.collect_ms {
            self.decide(turn);
        }
    }

    /// Goes through the candidates, best first. Orders the first to fetch log that others hold beyond its own, if there
    /// is time for it; else activates the first whose loss the dial allows. Without one the database stays dismounted.
    fn decide(&mut self, turn: &mut Turn<'_>) {
        if let MountState::Electing(election) = &mut self.state
            && let Some(late) = election.catching_up.take_if(|current| turn.now_ms >= current.deadline_ms)
        {
            election.overdue.insert(late.candidate);
        }
        let MountState::Electing(election) = &self.state else { return };
        let (failed, overdue) = (election.failed.clone(), election.overdue.clone());
        let (catching_up, epoch) = (election.catching_up, election.epoch);
        let reference = match self.reference(election) {
            Ok(reference) => reference,
            Err(why) => return self.stay_dismounted(why, turn),
        };
        let ranked = self.ranked(election, &reference, turn.full);
        let mut why = WhyDismounted::NoCandidate;
        for candidate in ranked.iter().filter(|candidate| !failed.contains(&candidate.host)) {
            // What others hold more is fetched first, if it can be had in time.
            if candidate.end < reference.end && !overdue.contains(&candidate.host) {
                return match catching_up.filter(|current| current.candidate == candidate.host) {
                    None => self.order_catch_up(candidate.host, reference.source, turn),
                    Some(current) => self.repeat_catch_up(current, turn),
                };
            }
            match self.mount_loss(candidate, &reference) {
                Ok(loss) => {
                    self.event(ArbiterEvent::CandidateChosen { candidate: candidate.host }, turn);
                    let host = candidate.host;
                    let (started_ms, sent_ms) = (turn.now_ms, turn.now_ms);
                    self.state =
                        MountState::Mounting { epoch, candidate: host, started_ms, sent_ms, loss, failed };
                    self.send(host, FromArbiter::Activate { epoch }, turn);
                    return;
                }
                Err(reason) => why = reason,
            }
        }
        self.stay_dismounted(why, turn);
    }

    /// Computes the history that counts and how much of it the answering copies hold.
    fn reference(&self, election: &Election) -> Result<Reference, WhyDismounted> {
        let reports = election.reports.values();
        let of = |report: &Report| Reference {
            lineage: report.lineage.clone(),
            end: report.end,
            source: report.host,
        };
        if self.spec.dial == Dial::Lossless && !self.spec.has(Bug::MountWithoutProof) {
            let safe = reports.filter(|report| self.record.safe.contains(&report.host) && report.mountable);
            let best = safe.max_by_key(|report| (report.lineage.epoch(), report.end));
            return best.map(of).ok_or(WhyDismounted::NoProof);
        }
        let endless = Position::of_generation(u32::MAX);
        let on_lineage =
            |report: &&Report| report.lineage.common(report.end, &self.record.lineage, endless) == report.end;
        let best =
            reports.filter(|report| report.mountable).filter(on_lineage).max_by_key(|report| report.end);
        let best = best.ok_or(WhyDismounted::NoCandidate)?;
        Ok(Reference { lineage: self.record.lineage.clone(), ..of(best) })
    }

    /// Sorts the candidates, best first. The target of a requested move comes before all others.
    fn ranked(&self, election: &Election, reference: &Reference, full: &BTreeSet<HostId>) -> Vec<Candidate> {
        let reports: Vec<&Report> =
            election.reports.values().filter(|report| !full.contains(&report.host)).collect();
        let site = self.record.holder.and_then(|host| self.spec.copy_on(host)).map(|copy| copy.site);
        let candidates = candidates(&self.spec, &reports, &reference.lineage, reference.end, site);
        let mut ranked = rank(self.spec.dial, candidates);
        if election.drained.is_some() {
            ranked.sort_by_key(|candidate| Some(candidate.host) != election.target);
        }
        ranked
    }

    /// Decides whether the candidate may mount under the dial, and returns the loss that this would cost.
    fn mount_loss(
        &self,
        candidate: &Candidate,
        reference: &Reference,
    ) -> Result<Option<Loss>, WhyDismounted> {
        let MountState::Electing(election) = &self.state else { return Err(WhyDismounted::NoCandidate) };
        let is_mountable = election.reports.get(&candidate.host).is_some_and(|report| report.mountable);
        if !is_mountable {
            return Err(WhyDismounted::NoCandidate);
        }
        if self.spec.has(Bug::MountWithoutProof) {
            return Ok(None);
        }
        if self.spec.dial == Dial::Lossless {
            return if candidate.end >= reference.end { Ok(None) } else { Err(WhyDismounted::NoProof) };
        }
        let old_active = self.record.holder.and_then(|host| election.reports.get(&host));
        let old_end = old_active
            .filter(|report| report.mountable && report.lineage == self.record.lineage)
            .map(|report| report.end);
        let known_end = election.drained.or(old_end);
        if known_end.is_some_and(|end| candidate.end >= end) || self.record.holder.is_none() {
            return Ok(None);
        }
        // Without the old active copy's word the generation on record counts as begun and not complete.
        let recorded = Position { generation: self.record.generation, offset: 1 };
        let missing_generations = candidate.end.generations_behind(known_end.unwrap_or(recorded));
        let missing_generations = missing_generations.max(u32::from(known_end.is_none()));
        if missing_generations > self.spec.dial.generations() {
            return Err(WhyDismounted::TooMuchLost);
        }
        let ahead = if known_end.is_some() { 0 } else { self.spec.run_ahead_generations };
        let bound_generations = missing_generations.saturating_add(ahead);
        Ok(Some(Loss { fork: candidate.end, missing_generations, bound_generations }))
    }

    fn order_catch_up(&mut self, candidate: HostId, source: HostId, turn: &mut Turn<'_>) {
        let deadline_ms = turn.now_ms + self.spec.timing.catch_up_ms;
        self.event(ArbiterEvent::CatchUpOrdered { candidate, source }, turn);
        self.repeat_catch_up(CatchUp { candidate, source, deadline_ms, sent_ms: 0 }, turn);
    }

    fn repeat_catch_up(&mut self, mut current: CatchUp, turn: &mut Turn<'_>) {
        let resend_ms = self.spec.timing.resend_ms;
        let MountState::Electing(election) = &mut self.state else { return };
        let epoch = election.epoch;
        if turn.now_ms >= current.sent_ms + resend_ms {
            current.sent_ms = turn.now_ms;
            election.catching_up = Some(current);
            self.send(current.candidate, FromArbiter::CatchUp { epoch, source: current.source }, turn);
        }
    }

    fn stay_dismounted(&mut self, why: WhyDismounted, turn: &mut Turn<'_>) {
        if let MountState::Electing(election) = &mut self.state {
            // Those that failed are tried again when no other is left, and so is fetching what they lack.
            election.failed.clear();
            election.overdue.clear();
        }
        if self.why_dismounted != Some(why) {
            self.why_dismounted = Some(why);
            self.event(ArbiterEvent::Dismounted { why }, turn);
        }
    }
}
