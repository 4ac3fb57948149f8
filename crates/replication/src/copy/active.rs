//! The active side: keep the lease, ship the log, acknowledge what may be acknowledged, remove logs that no copy
//! needs.
//!
//! Under the lossless dial one passive copy, the *partner*, holds every commit before it is acknowledged. The
//! arbiter knows who that is before anything is acknowledged on its word; while the partner changes, old and
//! new must both hold it. Under the other dials nothing is acknowledged in a generation too far beyond the one
//! that the arbiter has on record.

use std::collections::{BTreeMap, VecDeque};

use super::{CopyMachine, Effect, Event, Role, StepDown};
use crate::message::{Life, PageRequest, PeerMessage, Renewal, ToArbiter};
use crate::planted::Bug;
use crate::types::{Dial, Epoch, HostId, LogPiece, PageCopy, Position};

/// Largest number of unacknowledged log generations on their way to one passive copy.
const WINDOW_GENERATIONS: u32 = 4;

/// Distance in generations from which a passive copy gets closed generations only (file mode), until it has caught up.
const FILE_MODE_GENERATIONS: u32 = 2;

/// State that a passive copy reported in its last [`PeerMessage::Progress`].
pub(super) struct Progress {
    pub(super) life: Life,
    pub(super) end: Option<Position>,
    pub(super) checkpoint: Position,
    pub(super) replayed: Position,
    pub(super) mountable: bool,
    pub(super) resend_from: Option<Position>,
}

/// What the active copy knows about one passive copy.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) life: Life,
    /// Durable end of the passive copy's log; `None` until it is known in this epoch.
    end: Option<Position>,
    checkpoint: Option<Position>,
    replayed: Option<Position>,
    mountable: bool,
    /// Position of the next log to send to the passive copy.
    next: Option<Position>,
    reading: bool,
    sent_ms: u64,
    moved_ms: u64,
    heard_ms: Option<u64>,
    block_mode: bool,
}

impl Peer {
    /// Forgets all knowledge about a passive copy, because it was restarted or erased.
    pub(super) fn forget(&mut self, life: Life) {
        *self = Peer { life, sent_ms: self.sent_ms, ..Peer::default() };
    }

    /// End of the log with which the passive copy could be mounted.
    fn held(&self) -> Option<Position> {
        self.end.filter(|_| self.mountable)
    }
}

/// Damaged page of the active copy that a passive copy is asked to replace.
#[derive(Debug, Clone, Copy)]
struct Repair {
    /// Host that was asked last. All requests carry one nonce, so a late answer counts, too.
    host: HostId,
    nonce: u64,
    asked_ms: u64,
}

pub(super) struct Active {
    pub(super) epoch: Epoch,
    pub(super) lease_end_ms: u64,
    sequence: u64,
    renewed_ms: u64,
    /// Newest log generation on the arbiter's record.
    recorded_generation: u32,
    renewed_generation: u32,
    /// Partner on the arbiter's record.
    partner: Option<HostId>,
    /// Partner that the active copy proposes, and the number of the first renewal that named it.
    wanted: Option<(HostId, u64)>,
    /// Time since which the partner has held up acknowledgements, ms; `None` if it does not.
    stuck_since_ms: Option<u64>,
    pub(super) appended: Position,
    pub(super) durable: Position,
    acknowledged: Position,
    waiting: VecDeque<(Position, u64)>,
    pub(super) peers: BTreeMap<HostId, Peer>,
    pub(super) drain: Option<(HostId, u64)>,
    /// Damaged pages with the log position that a copy must have replayed before it can replace them.
    pub(super) repairs: BTreeMap<u32, Position>,
    repairing: BTreeMap<u32, Repair>,
}

impl Active {
    /// Returns the damaged page that a received page repairs, if one is awaited.
    pub(super) fn repair_answered(&self, nonce: u64, pages: &[PageCopy]) -> Option<u32> {
        let (&page, _) = self.repairing.iter().find(|(_, repair)| repair.nonce == nonce)?;
        (pages.len() == 1 && pages[0].page == page).then_some(page)
    }

    /// Notes that a page was replaced. Returns whether the copy was still waiting for it.
    pub(super) fn repaired(&mut self, page: u32) -> bool {
        self.repairing.remove(&page);
        self.repairs.remove(&page).is_some()
    }

    /// Log position up to which commits may be acknowledged.
    fn acknowledgeable(&self, dial: Dial, run_ahead: u32, skip_partner: bool) -> Position {
        if dial != Dial::Lossless {
            let limit = self.recorded_generation.saturating_add(run_ahead).saturating_add(1);
            return self.durable.min(Position::of_generation(limit));
        }
        if skip_partner {
            return self.durable;
        }
        let Some(partner) = self.partner else { return self.acknowledged };
        let held = |host: HostId| self.peers.get(&host).and_then(Peer::held).unwrap_or(self.acknowledged);
        let wanted = self.wanted.map_or(self.durable, |(host, _)| held(host));
        self.durable.min(held(partner)).min(wanted)
    }
}

impl CopyMachine {
    #[allow(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_granted(
        &mut self,
        now_ms: u64,
        epoch: Epoch,
        sequence: u64,
        end_ms: u64,
        generation: u32,
        partner: Option<HostId>,
        out: &mut Vec<Effect>,
    ) {
        match &mut self.role {
            Role::Activating { epoch: asked, saved: true, sequence: sent, .. } if *asked == epoch => {
                if now_ms >= end_ms || sequence > *sent {
                    return;
                }
                let sent = *sent;
                self.mount(now_ms, epoch, sent, end_ms, generation, out);
            }
            Role::Active(active) if active.epoch == epoch => {
                active.lease_end_ms = active.lease_end_ms.max(end_ms);
                active.recorded_generation = active.recorded_generation.max(generation);
                if let Some((wanted, since)) = active.wanted
                    && sequence >= since
                    && partner == Some(wanted)
                {
                    active.partner = partner;
                    active.wanted = None;
                    active.stuck_since_ms = None;
                    out.push(Effect::Event(Event::PartnerChosen { partner: wanted }));
                }
            }
            _ => {}
        }
    }

    fn mount(
        &mut self,
        now_ms: u64,
        epoch: Epoch,
        sequence: u64,
        lease_end_ms: u64,
        recorded_generation: u32,
        out: &mut Vec<Effect>,
    ) {
        let end = self.end();
        let peers = self.spec.others(self.host).map(|copy| (copy.host, Peer::default())).collect();
        self.following = None;
        self.received_ms.clear();
        self.role = Role::Active(Box::new(Active {
            epoch,
            lease_end_ms,
            sequence,
            renewed_ms: now_ms,
            recorded_generation,
            renewed_generation: end.generation,
            partner: None,
            wanted: None,
            stuck_since_ms: None,
            appended: end,
            durable: end,
            acknowledged: end,
            waiting: VecDeque::new(),
            peers,
            drain: None,
            repairs: BTreeMap::new(),
            repairing: BTreeMap::new(),
        }));
        out.push(Effect::Event(Event::Mounted { epoch, at: end }));
        out.push(Effect::Mount { epoch });
    }

    /// Ends the active role: dismounts the database. `drained`: end of the log, after a handover without loss.
    pub(super) fn step_down(&mut self, why: StepDown, drained: Option<Position>, out: &mut Vec<Effect>) {
        if let Role::Active(active) = &self.role {
            let epoch = active.epoch;
            // Pages that could not be repaired in time are fetched as a passive copy.
            let damaged: Vec<u32> = active.repairs.keys().copied().collect();
            self.role = Role::Dismounting { epoch, drained };
            out.push(Effect::Event(Event::SteppedDown { epoch, why }));
            out.push(Effect::Dismount);
            for page in damaged {
                self.on_page_damaged(page, out);
            }
        }
    }

    pub(super) fn on_appended(&mut self, end: Position) {
        if let Role::Active(active) = &mut self.role {
            active.appended = active.appended.max(end);
        }
    }

    pub(super) fn on_log_durable(&mut self, end: Position) {
        if let Role::Active(active) = &mut self.role {
            active.durable = active.durable.max(end);
            active.appended = active.appended.max(end);
            self.accepted = active.durable;
            if let Some(log) = &mut self.log {
                log.end = active.durable;
            }
        }
    }

    pub(super) fn on_commit(&mut self, ticket: u64, position: Position) {
        if let Role::Active(active) = &mut self.role {
            active.waiting.push_back((position, ticket));
        }
    }

    pub(super) fn on_progress(&mut self, now_ms: u64, from: HostId, epoch: Epoch, progress: &Progress) {
        let Role::Active(active) = &mut self.role else { return };
        let durable = active.durable;
        let is_ours = active.epoch == epoch;
        let peer = active.peers.get_mut(&from).filter(|peer| is_ours && progress.life >= peer.life);
        let Some(peer) = peer else { return };
        // A copy that claims more than we have is not in our history.
        if progress.end.is_some_and(|end| end > durable) {
            return;
        }
        if progress.life > peer.life {
            peer.forget(progress.life);
        }
        peer.heard_ms = Some(now_ms);
        let Some(end) = progress.end else { return };
        if peer.end.is_none_or(|known| end > known) {
            peer.moved_ms = now_ms;
            peer.end = Some(end);
        }
        if peer.next.is_none_or(|next| next < end) {
            peer.next = Some(end);
        }
        if let Some(from) = progress.resend_from.filter(|&from| from >= end && Some(from) < peer.next) {
            peer.next = Some(from);
        }
        peer.checkpoint = peer.checkpoint.max(Some(progress.checkpoint));
        peer.replayed = peer.replayed.max(Some(progress.replayed));
        peer.mountable = progress.mountable;
    }

    pub(super) fn work_active(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        self.choose_partner(now_ms);
        self.acknowledge(now_ms, out);
        self.renew(now_ms, out);
        self.ship(now_ms, out);
        self.repair_pages(now_ms, out);
        self.truncate(out);
        self.hand_over(now_ms, out);
    }

    fn acknowledge(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let (dial, skip) = (self.spec.dial, self.spec.has(Bug::AcknowledgedBeforePartner));
        let run_ahead =
            if self.spec.has(Bug::RunAheadUnlimited) { 1000 } else { self.spec.run_ahead_generations };
        let patience = self.spec.timing.partner_patience_ms;
        let Role::Active(active) = &mut self.role else { return };
        active.acknowledged = active.acknowledged.max(active.acknowledgeable(dial, run_ahead, skip));
        while let Some(&(position, ticket)) = active.waiting.front()
            && position <= active.acknowledged
        {
            active.waiting.pop_front();
            out.push(Effect::Acknowledge { ticket });
        }
        if active.acknowledged >= active.durable {
            active.stuck_since_ms = None;
        } else {
            active.stuck_since_ms.get_or_insert(now_ms + patience);
        }
    }

    /// Proposes another partner if there is none, if the partner holds commits up, or if a better placed copy has
    /// caught up.
    fn choose_partner(&mut self, now_ms: u64) {
        if self.spec.dial != Dial::Lossless {
            return;
        }
        let spec = self.spec.clone();
        let site = self.spec_here().site;
        let Role::Active(active) = &mut self.role else { return };
        if active.wanted.is_some() {
            return;
        }
        let fresh_ms = spec.timing.report_ms * 3;
        let is_far = |host: HostId| spec.copy_on(host).is_some_and(|copy| copy.site != site);
        let class = |host: HostId| {
            (is_far(host) != spec.partner_in_other_site, spec.copy_on(host).map(|c| c.preference))
        };
        let ready = |host: &HostId| {
            active.peers.get(host).is_some_and(|peer| {
                let is_fresh = peer.heard_ms.is_some_and(|heard| now_ms <= heard + fresh_ms);
                is_fresh && peer.held().is_some_and(|held| held >= active.acknowledged)
            })
        };
        let best = active.peers.keys().copied().filter(ready).min_by_key(|&host| class(host));
        let is_stuck = active.stuck_since_ms.is_some_and(|deadline| now_ms >= deadline);
        let wanted = match (active.partner, best) {
            (_, None) => None,
            (None, best) => best,
            (Some(partner), Some(_)) if is_stuck => active
                .peers
                .keys()
                .copied()
                .filter(|host| *host != partner && ready(host))
                .min_by_key(|&host| class(host)),
            (Some(partner), Some(best)) => (class(partner).0 && !class(best).0).then_some(best),
        };
        if let Some(host) = wanted {
            if spec.has(Bug::PartnerNotRecorded) && active.partner.is_some() {
                active.partner = Some(host);
                return;
            }
            active.wanted = Some((host, active.sequence + 1));
            active.renewed_ms = 0;
        }
    }

    fn renew(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let (database, host, boot) = (self.spec.id, self.host, self.boot);
        let timing = self.spec.timing.clone();
        let lineage = self.meta.lineage.clone();
        let Role::Active(active) = &mut self.role else { return };
        let begins_generation = active.appended.generation > active.renewed_generation;
        if !begins_generation && now_ms < active.renewed_ms + timing.renew_ms {
            return;
        }
        active.renewed_ms = now_ms;
        active.renewed_generation = active.appended.generation;
        active.sequence += 1;
        let renewal = Renewal {
            database,
            host,
            boot,
            epoch: active.epoch,
            sequence: active.sequence,
            asked_at_ms: now_ms,
            generation: active.appended.generation,
            partner: active.wanted.map(|(host, _)| host).or(active.partner),
            lineage,
        };
        out.push(Effect::ToArbiter(ToArbiter::Renewal(renewal)));
    }

    fn ship(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let timing = self.spec.timing.clone();
        let log_start = self.log.map_or(1, |log| log.start);
        let lineage = self.meta.lineage.clone();
        let Role::Active(active) = &mut self.role else { return };
        let (epoch, durable) = (active.epoch, active.durable);
        for (&host, peer) in &mut active.peers {
            if let (Some(end), Some(next)) = (peer.end, peer.next)
                && next > end
                && now_ms >= peer.moved_ms.max(peer.sent_ms) + timing.resend_ms
            {
                peer.next = Some(end);
                peer.reading = false;
            }
            let silent_ms = if peer.end.is_none() { timing.resend_ms } else { timing.report_ms };
            if let (Some(end), Some(next), false) = (peer.end, peer.next, peer.reading)
                && next < durable
                && next.generation >= log_start
                && next.generation <= end.generation + WINDOW_GENERATIONS
            {
                let behind = durable.generation - next.generation;
                let block_mode = behind == 0 || peer.block_mode && behind <= FILE_MODE_GENERATIONS;
                if block_mode != peer.block_mode {
                    peer.block_mode = block_mode;
                    out.push(Effect::Event(Event::BlockMode { peer: host, on: block_mode }));
                }
                peer.reading = true;
                out.push(Effect::ReadLog { to: host, from: next, until: durable });
            } else if now_ms >= peer.sent_ms + silent_ms {
                peer.sent_ms = now_ms;
                let ship = PeerMessage::Ship {
                    epoch,
                    lineage: lineage.clone(),
                    end: durable,
                    log_start,
                    piece: None,
                };
                out.push(Effect::ToPeer(host, ship));
            }
        }
    }

    /// Notes that a piece of log was read and is about to be sent. Returns whether the receiver still needs it.
    pub(super) fn note_log_read(&mut self, now_ms: u64, to: HostId, piece: Option<&LogPiece>) -> bool {
        let Role::Active(active) = &mut self.role else { return false };
        let Some(peer) = active.peers.get_mut(&to) else { return false };
        peer.reading = false;
        let is_next = piece.is_some_and(|piece| peer.next == Some(piece.from));
        if let (true, Some(piece)) = (is_next, piece) {
            peer.next = Some(piece.end());
            peer.sent_ms = now_ms;
        }
        is_next
    }

    fn repair_pages(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let resend_ms = self.spec.timing.resend_ms;
        let first_nonce = self.next_nonce + 1;
        let boot = u64::from(self.boot.0) << 32;
        let Role::Active(active) = &mut self.role else { return };
        let Active { repairs, repairing, peers, epoch, .. } = active.as_mut();
        let mut nonces = first_nonce..;
        for (&page, &at_least) in repairs.iter() {
            if repairing.get(&page).is_some_and(|repair| now_ms < repair.asked_ms + resend_ms) {
                continue;
            }
            let asked = repairing.get(&page).copied();
            let replayed = |peer: &Peer| peer.mountable && peer.replayed.is_some_and(|at| at >= at_least);
            let mut able = peers.iter().filter(|(_, peer)| replayed(peer)).map(|(&host, _)| host);
            let next = able.clone().find(|host| asked.is_none_or(|repair| *host > repair.host));
            let Some(host) = next.or_else(|| able.next()) else { continue };
            let nonce =
                asked.map_or_else(|| boot | nonces.next().unwrap_or(first_nonce), |repair| repair.nonce);
            repairing.insert(page, Repair { host, nonce, asked_ms: now_ms });
            let request = PageRequest::List(vec![page]);
            out.push(Effect::ToPeer(
                host,
                PeerMessage::FetchPages { epoch: *epoch, nonce, request, at_least },
            ));
        }
        self.next_nonce = nonces.start - 1;
    }

    /// Truncates the log by the published rule: below the checkpoint; backed up, or circular; replayed and written by
    /// every copy that is not lagged; inspected by every lagged one. A copy that was not heard in this epoch keeps
    /// everything.
    fn truncate(&mut self, out: &mut Vec<Effect>) {
        let Some(log) = self.log else { return };
        let Role::Active(active) = &self.role else { return };
        let mut below = self.checkpoint.generation.min(active.durable.generation);
        if !self.spec.circular_logging {
            below = below.min(self.backed_up_below);
        }
        for (host, peer) in &active.peers {
            if self.spec.has(Bug::TruncatedTooEarly) {
                break;
            }
            let is_lagged = self.spec.copy_on(*host).is_some_and(crate::types::CopySpec::is_lagged);
            let agreed = if is_lagged { peer.end } else { peer.checkpoint.min(peer.end) };
            let Some(agreed) = agreed.filter(|_| peer.end.is_some()) else { return };
            below = below.min(agreed.generation);
        }
        if below > log.start {
            self.drop_logs_below(below, out);
        }
    }

    /// Performs a move without loss: gives the lease back once the target holds the whole log.
    fn hand_over(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let Role::Active(active) = &mut self.role else { return };
        let Some((target, deadline_ms)) = active.drain else { return };
        let (appended, durable) = (active.appended, active.durable);
        if now_ms >= deadline_ms {
            active.drain = None;
            out.push(Effect::Event(Event::DrainCancelled));
        } else if appended == durable && active.peers.get(&target).and_then(Peer::held) == Some(durable) {
            self.step_down(StepDown::Drained, Some(durable), out);
        }
    }
}
