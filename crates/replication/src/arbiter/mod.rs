//! The arbiter: the only one that gives leases, and so the only one that decides which copy is active.
//!
//! Invariants
//! 1. It gives an epoch to one start of one host, and never again. The number is on disk before a host hears of it.
//! 2. While it has answered a renewal less than [`crate::arbiter_wait_ms`] ago, no other copy gets a lease,
//!    unless the holder has said that it is not active any more, or its host has restarted.
//! 3. An election begins with a fence: what a copy reports afterwards cannot be overtaken by the old active copy.
//! 4. Under the lossless dial it activates a copy only if a fenced *safe* copy holds no more. Safe copies hold
//!    every acknowledged commit: the last active copy and its partner, and before a partner is on record those
//!    of the epoch before.
//! 5. What it answers to a holder is on disk.
//!
//! After a restart it takes every lease on record as given at that moment: its clock may have begun anew.

mod election;
mod interface;
pub mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lease::arbiter_wait_ms;
use crate::message::{FromArbiter, Health, Renewal, Report, ToArbiter};
use crate::planted::Bug;
use crate::types::{ActivationPolicy, DatabaseId, DatabaseSpec, Epoch, HostId};
use election::Election;
pub use interface::{ArbiterEffect, ArbiterEvent, ArbiterInput, Loss, Record, WhyDismounted};

enum MountState {
    Dismounted,
    Mounted {
        answered_ms: u64,
        heard_ms: u64,
        moving: Option<Moving>,
    },
    /// The active copy was lost; the arbiter waits until its lease has certainly expired.
    Deposing {
        until_ms: u64,
    },
    Electing(Election),
    Mounting {
        epoch: Epoch,
        candidate: HostId,
        started_ms: u64,
        sent_ms: u64,
        loss: Option<Loss>,
        failed: BTreeSet<HostId>,
    },
}

#[derive(Clone, Copy)]
struct Moving {
    target: HostId,
    deadline_ms: u64,
    sent_ms: u64,
}

struct Database {
    spec: Rc<DatabaseSpec>,
    record: Record,
    state: MountState,
    latest: BTreeMap<HostId, (Report, u64)>,
    /// Records that are being written to disk, by ticket.
    persisting: BTreeSet<u64>,
    /// Newest renewal whose answer waits for those records.
    unanswered: Option<Renewal>,
    next_move_ms: u64,
    why_dismounted: Option<WhyDismounted>,
}

/// Arbiter of all databases: grants leases and holds elections.
pub struct Arbiter {
    databases: BTreeMap<DatabaseId, Database>,
    next_ticket: u64,
    /// Largest number of active databases on one host; `None`: no limit.
    active_max_per_host: Option<usize>,
}

impl Arbiter {
    /// Restores the arbiter from its durable records at `now_ms` of its clock.
    #[must_use]
    pub fn new(
        databases: impl IntoIterator<Item = (Rc<DatabaseSpec>, Record)>,
        active_max_per_host: Option<usize>,
        now_ms: u64,
    ) -> Self {
        let database = |(spec, record): (Rc<DatabaseSpec>, Record)| {
            let until_ms = if spec.has(Bug::LeaseForgottenByRestart) {
                now_ms
            } else {
                now_ms + arbiter_wait_ms(&spec.timing)
            };
            let state = match record.holder {
                None => MountState::Dismounted,
                Some(_) if record.issued == record.epoch && !spec.has(Bug::LeaseForgottenByRestart) => {
                    MountState::Mounted { answered_ms: now_ms, heard_ms: now_ms, moving: None }
                }
                Some(_) => MountState::Deposing { until_ms },
            };
            let next_move_ms = now_ms + spec.timing.move_back_ms.unwrap_or(0);
            let database = Database {
                spec: spec.clone(),
                record,
                state,
                latest: BTreeMap::new(),
                persisting: BTreeSet::new(),
                unanswered: None,
                next_move_ms,
                why_dismounted: None,
            };
            (spec.id, database)
        };
        let databases = databases.into_iter().map(database).collect();
        Arbiter { databases, next_ticket: 0, active_max_per_host }
    }

    /// Host and epoch in which a database is active, as far as the arbiter knows.
    #[must_use]
    pub fn holder(&self, database: DatabaseId) -> Option<HostId> {
        let database = self.databases.get(&database)?;
        matches!(database.state, MountState::Mounted { .. }).then_some(database.record.holder).flatten()
    }

    /// Reason why a database has no active copy, if the arbiter knows one.
    #[must_use]
    pub fn why_dismounted(&self, database: DatabaseId) -> Option<WhyDismounted> {
        self.databases.get(&database)?.why_dismounted
    }

    /// Handles one input at `now_ms` of the arbiter's clock.
    pub fn handle(&mut self, now_ms: u64, input: ArbiterInput, out: &mut Vec<ArbiterEffect>) {
        let full = self.full_hosts();
        let mut turn = Turn { now_ms, next_ticket: &mut self.next_ticket, full: &full, out };
        match input {
            ArbiterInput::Tick => {
                for database in self.databases.values_mut() {
                    database.work(&mut turn);
                }
            }
            ArbiterInput::Message(message) => {
                let id = match &message {
                    ToArbiter::Report(report) => report.database,
                    ToArbiter::Renewal(renewal) => renewal.database,
                    ToArbiter::Released { database, .. } => *database,
                };
                if let Some(database) = self.databases.get_mut(&id) {
                    database.on_message(message, &mut turn);
                    database.work(&mut turn);
                }
            }
            ArbiterInput::Persisted { ticket } => {
                for database in self.databases.values_mut() {
                    if database.persisting.remove(&ticket) {
                        database.answer(&mut turn);
                        database.work(&mut turn);
                    }
                }
            }
            ArbiterInput::Move { database, target } => {
                if let Some(database) = self.databases.get_mut(&database) {
                    database.begin_move(target, &mut turn);
                }
            }
        }
    }

    /// Hosts that have reached the limit of active databases.
    fn full_hosts(&self) -> BTreeSet<HostId> {
        let Some(max) = self.active_max_per_host else { return BTreeSet::new() };
        let mut actives: BTreeMap<HostId, usize> = BTreeMap::new();
        for database in self.databases.values() {
            let host = match &database.state {
                MountState::Mounted { .. } => database.record.holder,
                MountState::Mounting { candidate, .. } => Some(*candidate),
                _ => None,
            };
            if let Some(host) = host {
                *actives.entry(host).or_default() += 1;
            }
        }
        actives.into_iter().filter(|&(_, count)| count >= max).map(|(host, _)| host).collect()
    }
}

/// Clock, limits and outgoing effects that the handling of one input may use.
struct Turn<'a> {
    now_ms: u64,
    next_ticket: &'a mut u64,
    full: &'a BTreeSet<HostId>,
    out: &'a mut Vec<ArbiterEffect>,
}

impl Database {
    fn event(&self, event: ArbiterEvent, turn: &mut Turn<'_>) {
        turn.out.push(ArbiterEffect::Event(self.spec.id, event));
    }

    fn send(&self, host: HostId, message: FromArbiter, turn: &mut Turn<'_>) {
        turn.out.push(ArbiterEffect::ToCopy { host, database: self.spec.id, message });
    }

    fn persist(&mut self, turn: &mut Turn<'_>) {
        let ticket = *turn.next_ticket;
        *turn.next_ticket += 1;
        self.persisting.insert(ticket);
        turn.out.push(ArbiterEffect::Persist { ticket, database: self.spec.id, record: self.record.clone() });
    }

    fn on_message(&mut self, message: ToArbiter, turn: &mut Turn<'_>) {
        match message {
            ToArbiter::Report(report) => self.on_report(report, turn),
            ToArbiter::Renewal(renewal) => self.on_renewal(renewal, turn),
            ToArbiter::Released { host, epoch, drained, .. } => {
                let is_holder = self.record.holder == Some(host) && self.record.epoch == epoch;
                if is_holder && matches!(self.state, MountState::Mounted { .. } | MountState::Deposing { .. })
                {
                    self.event(
                        ArbiterEvent::HolderReleased { holder: host, drained: drained.is_some() },
                        turn,
                    );
                    let target = match &self.state {
                        MountState::Mounted { moving: Some(moving), .. } => Some(moving.target),
                        _ => None,
                    };
                    self.begin_election(BTreeSet::new(), drained, target, turn);
                }
            }
        }
    }

    fn on_report(&mut self, report: Report, turn: &mut Turn<'_>) {
        let host = report.host;
        let is_old = self.latest.get(&host).is_some_and(|(known, _)| known.boot > report.boot);
        if is_old || self.spec.copy_on(host).is_none() {
            return;
        }
        let restarted = self.record.holder == Some(host) && report.boot > self.record.boot;
        if restarted && matches!(self.state, MountState::Mounted { .. } | MountState::Deposing { .. }) {
            self.event(ArbiterEvent::HolderRestarted { holder: host }, turn);
            self.begin_election(BTreeSet::new(), None, None, turn);
        }
        if let MountState::Electing(election) = &mut self.state
            && report.promised == election.epoch
        {
            election.reports.insert(host, report.clone());
        }
        if let Some(epoch) = self.epoch_to_know().filter(|epoch| report.promised < *epoch) {
            // It has missed the fence, and takes an epoch from no other node.
            self.send(host, FromArbiter::Fence { epoch }, turn);
        }
        self.latest.insert(host, (report, turn.now_ms));
    }

    /// Epoch that every copy should have promised while no election is under way.
    fn epoch_to_know(&self) -> Option<Epoch> {
        match &self.state {
            MountState::Mounting { epoch, .. } => Some(*epoch),
            MountState::Mounted { .. } | MountState::Deposing { .. } => Some(self.record.epoch),
            MountState::Dismounted | MountState::Electing(_) => None,
        }
    }

    /// Handles a lease renewal. The first one of a candidate that was told to mount makes it the active copy; those of
    /// the active copy extend its lease once the record holds their new generation or partner. All others are dropped.
    fn on_renewal(&mut self, renewal: Renewal, turn: &mut Turn<'_>) {
        match &mut self.state {
            MountState::Mounting { epoch, candidate, loss, .. }
                if (renewal.epoch, renewal.host) == (*epoch, *candidate) =>
            {
                let loss = *loss;
                let lossless_safe = self.record.safe.clone();
                self.record = Record {
                    issued: self.record.issued,
                    holder: Some(renewal.host),
                    boot: renewal.boot,
                    epoch: renewal.epoch,
                    lineage: renewal.lineage.clone(),
                    generation: renewal.generation,
                    partner: None,
                    sequence: renewal.sequence,
                    safe: lossless_safe.into_iter().chain([renewal.host]).collect(),
                };
                let (holder, epoch) = (renewal.host, renewal.epoch);
                self.state =
                    MountState::Mounted { answered_ms: turn.now_ms, heard_ms: turn.now_ms, moving: None };
                self.why_dismounted = None;
                self.next_move_ms = turn.now_ms + self.spec.timing.move_back_ms.unwrap_or(0);
                self.event(ArbiterEvent::Activated { holder, epoch, loss }, turn);
                self.persist(turn);
                self.unanswered = Some(renewal);
            }
            MountState::Mounted { heard_ms, .. }
                if (renewal.epoch, Some(renewal.host), renewal.boot)
                    == (self.record.epoch, self.record.holder, self.record.boot) =>
            {
                *heard_ms = turn.now_ms;
                let is_newer = renewal.sequence > self.record.sequence;
                let new_partner =
                    renewal.partner.filter(|_| is_newer && renewal.partner != self.record.partner);
                let new_generation = renewal.generation > self.record.generation;
                if is_newer {
                    self.record.sequence = renewal.sequence;
                }
                if let Some(partner) = new_partner {
                    self.record.partner = Some(partner);
                    self.record.safe = [renewal.host, partner].into();
                    self.event(ArbiterEvent::PartnerRecorded { partner }, turn);
                }
                if new_generation {
                    self.record.generation = renewal.generation;
                }
                if new_generation || new_partner.is_some() {
                    self.persist(turn);
                }
                if self.unanswered.as_ref().is_none_or(|waiting| waiting.sequence < renewal.sequence) {
                    self.unanswered = Some(renewal);
                }
                self.answer(turn);
            }
            _ => {}
        }
    }

    /// Answers the newest renewal as soon as every record that it depends on is durable.
    fn answer(&mut self, turn: &mut Turn<'_>) {
        if !self.persisting.is_empty() {
            return;
        }
        let MountState::Mounted { answered_ms, .. } = &mut self.state else { return };
        let Some(renewal) = self.unanswered.take() else { return };
        if renewal.epoch != self.record.epoch {
            return;
        }
        *answered_ms = turn.now_ms;
        let message = FromArbiter::Granted {
            epoch: renewal.epoch,
            // A late renewal must not pass for one that the record has not seen.
            sequence: renewal.sequence,
            asked_at_ms: renewal.asked_at_ms,
            lease_ms: self.spec.timing.lease_ms,
            generation: self.record.generation,
            partner: self.record.partner,
        };
        self.send(renewal.host, message, turn);
    }

    fn work(&mut self, turn: &mut Turn<'_>) {
        let timing = self.spec.timing.clone();
        let now_ms = turn.now_ms;
        match &mut self.state {
            MountState::Dismounted => self.begin_election(BTreeSet::new(), None, None, turn),
            MountState::Mounted { answered_ms, heard_ms, moving } => {
                let (answered_ms, heard_ms) = (*answered_ms, *heard_ms);
                if now_ms >= heard_ms + timing.detect_ms {
                    let holder = self.record.holder.expect("a mounted database has a holder");
                    let wait_ms =
                        if self.spec.has(Bug::LeaseNotWaitedFor) { 0 } else { arbiter_wait_ms(&timing) };
                    self.state = MountState::Deposing { until_ms: answered_ms + wait_ms };
                    self.unanswered = None;
                    self.event(ArbiterEvent::HolderSilent { holder }, turn);
                    return self.work(turn);
                }
                if let Some(moving) = moving {
                    let current = *moving;
                    if now_ms >= current.deadline_ms {
                        self.end_move();
                        self.event(ArbiterEvent::MoveGivenUp { target: current.target }, turn);
                    } else if now_ms >= current.sent_ms + timing.resend_ms {
                        moving.sent_ms = now_ms;
                        let holder = self.record.holder.expect("a mounted database has a holder");
                        let message = FromArbiter::Drain { epoch: self.record.epoch, target: current.target };
                        self.send(holder, message, turn);
                    }
                } else if timing.move_back_ms.is_some_and(|_| now_ms >= self.next_move_ms) {
                    self.next_move_ms = now_ms + timing.move_back_ms.unwrap_or(0);
                    if let Some(target) = self.better_placed(turn) {
                        self.begin_move(target, turn);
                    }
                }
            }
            MountState::Deposing { until_ms } => {
                if now_ms >= *until_ms {
                    let holder = self.record.holder.expect("only a holder is deposed");
                    self.event(ArbiterEvent::LeaseWaitedOut { holder }, turn);
                    self.begin_election(BTreeSet::new(), None, None, turn);
                }
            }
            MountState::Electing(_) => self.work_election(turn),
            MountState::Mounting { epoch, candidate, started_ms, sent_ms, failed, .. } => {
                let (epoch, candidate) = (*epoch, *candidate);
                if now_ms >= *started_ms + timing.mount_ms {
                    let mut failed = std::mem::take(failed);
                    failed.insert(candidate);
                    self.event(ArbiterEvent::CandidateFailed { candidate }, turn);
                    self.begin_election(failed, None, None, turn);
                } else if now_ms >= *sent_ms + timing.resend_ms {
                    *sent_ms = now_ms;
                    self.send(candidate, FromArbiter::Activate { epoch }, turn);
                }
            }
        }
    }

    fn end_move(&mut self) {
        if let MountState::Mounted { moving, .. } = &mut self.state {
            *moving = None;
        }
    }

    fn begin_move(&mut self, target: HostId, turn: &mut Turn<'_>) {
        let (epoch, drain_ms) = (self.record.epoch, self.spec.timing.drain_ms);
        let Some(holder) = self.record.holder.filter(|&holder| holder != target) else { return };
        if self.spec.copy_on(target).is_none() {
            return;
        }
        if let MountState::Mounted { moving: moving @ None, .. } = &mut self.state {
            *moving = Some(Moving { target, deadline_ms: turn.now_ms + 2 * drain_ms, sent_ms: turn.now_ms });
            self.event(ArbiterEvent::MoveBegun { target }, turn);
            self.send(holder, FromArbiter::Drain { epoch, target }, turn);
        }
    }

    /// Returns a healthy copy with short queues that has a smaller preference number than the active copy.
    fn better_placed(&self, turn: &Turn<'_>) -> Option<HostId> {
        let active = self.spec.copy_on(self.record.holder?)?;
        let fresh_ms = self.spec.timing.report_ms * 3;
        let is_ready = |host: &HostId| {
            self.latest.get(host).is_some_and(|(report, at_ms)| {
                let is_fresh = turn.now_ms <= at_ms + fresh_ms && report.promised == self.record.epoch;
                is_fresh && report.health == Health::Healthy && report.mountable && report.copy_queue <= 1
            })
        };
        let may = |copy: &&crate::types::CopySpec| {
            copy.activation != ActivationPolicy::Blocked
                && !copy.is_lagged()
                && copy.preference < active.preference
                && !turn.full.contains(&copy.host)
                && is_ready(&copy.host)
        };
        self.spec.copies.iter().filter(may).min_by_key(|copy| copy.preference).map(|copy| copy.host)
    }
}
