//! The passive side: inspect, store and replay what the active copy ships; answer copies that need log or pages.

use std::collections::btree_map::Entry;

use super::active::Progress;
use super::{CopyMachine, Effect, Event, Health, Pending, Role, SeedReason};
use crate::copy::DiskOp;
use crate::lineage::Lineage;
use crate::message::{PageRequest, PeerMessage, ToArbiter};
use crate::planted::Bug;
use crate::types::{Epoch, HostId, LogPiece, Position, checksum};

/// Host from which the copy takes log, once its log is known to continue the log here.
#[derive(Debug, Clone)]
pub(super) struct Following {
    pub(super) source: HostId,
    pub(super) epoch: Epoch,
    /// Whether that host is the active copy. In an election it is a copy that holds more log.
    pub(super) is_active: bool,
    pub(super) active_end: Position,
}

/// Description of the sender's log in [`PeerMessage::Ship`].
struct Offer {
    source: HostId,
    epoch: Epoch,
    lineage: Lineage,
    end: Position,
    log_start: u32,
}

impl Offer {
    /// Whether the sender is the active copy: then its log was written in its own epoch. A copy that helps in an
    /// election has no epoch of its own.
    fn is_active(&self) -> bool {
        self.lineage.epoch() == self.epoch
    }
}

impl CopyMachine {
    pub(super) fn on_peer(&mut self, now_ms: u64, from: HostId, message: PeerMessage, out: &mut Vec<Effect>) {
        if self.spec.copy_on(from).is_none() || from == self.host {
            return;
        }
        match message {
            PeerMessage::Ship { epoch, lineage, end, log_start, piece } => {
                let offer = Offer { source: from, epoch, lineage, end, log_start };
                self.on_ship(now_ms, &offer, piece, out);
            }
            PeerMessage::Progress { epoch, life, end, checkpoint, replayed, mountable, resend_from } => {
                let progress = Progress { life, end, checkpoint, replayed, mountable, resend_from };
                self.on_progress(now_ms, from, epoch, &progress);
            }
            // Epochs come from the arbiter. It hears that this copy may have missed the newest one, and says it again.
            PeerMessage::Rejected { promised } if promised > self.meta.promised => {
                out.push(Effect::Event(Event::UnknownEpochRefused { from }));
                out.push(Effect::ToArbiter(ToArbiter::Report(self.report())));
            }
            PeerMessage::Rejected { .. } => {}
            PeerMessage::FetchLog { epoch, from: position } => {
                let is_fenced = epoch == self.promised_durably
                    && epoch == self.meta.promised
                    // Once this copy has log of the epoch there is an active copy to ask.
                    && epoch != self.meta.lineage.epoch();
                let has_it = self.log.is_some_and(|log| log.start <= position.generation);
                if is_fenced && has_it && matches!(self.role, Role::Passive) && self.meta.patch.is_none() {
                    let until = self.end();
                    out.push(Effect::ReadLog { to: from, from: position, until });
                }
            }
            PeerMessage::SeedRequest { epoch, life, nonce } => {
                self.on_seed_request(from, epoch, life, nonce, out);
            }
            PeerMessage::SeedStart { epoch, nonce, lineage, generation } => {
                self.on_seed_start(from, epoch, nonce, lineage, generation, out);
            }
            PeerMessage::FetchPages { epoch, nonce, request, at_least } => {
                let has_them = match &self.role {
                    Role::Active(active) => active.epoch == epoch && active.durable >= at_least,
                    Role::Passive => {
                        let is_list = matches!(request, PageRequest::List(_));
                        is_list && self.is_mountable() && self.replayed >= at_least && !self.replaying
                    }
                    _ => false,
                };
                if has_them && epoch == self.meta.promised {
                    out.push(Effect::ReadPages { to: from, nonce, request });
                }
            }
            PeerMessage::Pages { epoch, nonce, pages, next, position } => {
                if epoch == self.meta.promised {
                    self.on_pages(from, nonce, pages, next, position, out);
                }
            }
        }
    }

    fn on_ship(&mut self, now_ms: u64, offer: &Offer, piece: Option<LogPiece>, out: &mut Vec<Effect>) {
        if offer.epoch < self.meta.promised && !self.spec.has(Bug::StaleEpochAccepted) {
            out.push(Effect::Event(Event::StaleEpochRefused));
            out.push(Effect::ToPeer(offer.source, PeerMessage::Rejected { promised: self.meta.promised }));
            return;
        }
        if offer.log_start > offer.end.generation {
            out.push(Effect::Event(Event::LogRefused { from: offer.source }));
            return;
        }
        if offer.epoch > self.meta.promised {
            // A copy that has missed the fence hears it again when the arbiter sees what it has promised.
            out.push(Effect::Event(Event::UnknownEpochRefused { from: offer.source }));
            out.push(Effect::ToArbiter(ToArbiter::Report(self.report())));
            return;
        }
        if offer.is_active() && self.is_anothers(offer) {
            out.push(Effect::Event(Event::SecondActiveRefused { from: offer.source }));
            return;
        }
        if !matches!(self.role, Role::Passive) || self.settling.is_some() {
            return;
        }
        if offer.is_active() {
            self.reign = Some((offer.epoch, offer.source));
        }
        let catches_up =
            self.catch_up.is_some_and(|(source, epoch, _)| (source, epoch) == (offer.source, offer.epoch));
        if offer.is_active() {
            // The election is over, another copy has won it.
            self.catch_up = None;
        }
        if !offer.is_active() && !catches_up {
            return;
        }
        if !self.follow(now_ms, offer, out) {
            return;
        }
        if let Some(piece) = piece {
            self.take(now_ms, piece, offer.source, out);
        } else if offer.is_active() {
            self.send_progress(None, out);
        }
        if offer.is_active() {
            self.drop_logs(now_ms, offer.log_start, out);
        }
    }

    /// Whether the offer comes from a second active copy of an epoch. An epoch has one active copy, so such an offer
    /// is refused.
    fn is_anothers(&self, offer: &Offer) -> bool {
        match &self.role {
            Role::Active(active) => active.epoch == offer.epoch,
            _ => self.reign.is_some_and(|(epoch, host)| epoch == offer.epoch && host != offer.source),
        }
    }

    /// Checks that the offered log continues the log here, and starts to resolve the fork if it does not.
    fn follow(&mut self, now_ms: u64, offer: &Offer, out: &mut Vec<Effect>) -> bool {
        let (source, epoch, is_active) = (offer.source, offer.epoch, offer.is_active());
        let is_known = |f: &Following| (f.source, f.epoch, f.is_active) == (source, epoch, is_active);
        if self.log.is_none() {
            let resend_ms = self.spec.timing.resend_ms;
            let is_due = self.fetching.is_none_or(|(_, asked_ms)| now_ms >= asked_ms + resend_ms);
            if is_active && is_due && self.pending.is_empty() {
                let nonce = self.nonce();
                self.fetching = Some((nonce, now_ms));
                let request = PeerMessage::SeedRequest { epoch, life: self.life(), nonce };
                out.push(Effect::ToPeer(source, request));
                self.following = Some(Following { source, epoch, is_active, active_end: offer.end });
            }
            return false;
        }
        if let Some(following) = self.following.as_mut().filter(|f| is_known(f)) {
            following.active_end = following.active_end.max(offer.end);
        } else if matches!(self.meta.patch, Some(PageRequest::From(_))) {
            // Pages of another copy may be older than the log that the first one told us to begin with.
            if is_active {
                self.reseed(SeedReason::SourceChanged, out);
            }
            return false;
        } else {
            // The offer may be old: only where the sender's epochs began counts, not where its log ended then.
            let endless = Position::of_generation(u32::MAX);
            let reach = self.accepted.max(self.meta.needed_to);
            let fork = self.meta.lineage.common(reach, &offer.lineage, endless);
            if fork < reach && !self.spec.has(Bug::DivergenceUnnoticed) {
                if is_active {
                    self.settle(fork, offer.log_start, out);
                }
                return false;
            }
            self.meta.lineage = offer.lineage.clone();
            self.following = Some(Following { source, epoch, is_active, active_end: offer.end });
            self.save(false, is_active, false, out);
        }
        if offer.log_start > self.accepted.generation {
            if is_active {
                self.reseed(SeedReason::LogGone, out);
            }
            return false;
        }
        true
    }

    /// Inspects a piece and stores it if it is the next one.
    fn take(&mut self, now_ms: u64, piece: LogPiece, source: HostId, out: &mut Vec<Effect>) {
        if piece.signature != self.spec.signature {
            out.push(Effect::Event(Event::ForeignPieceRefused { from: source }));
            return;
        }
        if piece.checksum != checksum(&piece.bytes) {
            out.push(Effect::Event(Event::PieceRefused));
            return;
        }
        if piece.from != self.accepted {
            let resend_from = (piece.from > self.accepted).then_some(self.accepted);
            self.send_progress(resend_from, out);
            return;
        }
        let end = piece.end();
        self.accepted = end;
        self.received_ms.insert(piece.from.generation, now_ms);
        self.disk(DiskOp::Store(piece), Pending::Stored { end, from: source }, out);
    }

    /// Handles a refused store: the piece does not continue the log here, so it is treated as never received.
    pub(super) fn on_store_refused(&mut self, ticket: u64, out: &mut Vec<Effect>) {
        if let Some(Pending::Stored { from, .. }) = self.pending.remove(&ticket) {
            out.push(Effect::Event(Event::LogRefused { from }));
            self.accepted = self.end();
        }
    }

    pub(super) fn on_stored(&mut self, now_ms: u64, end: Position, source: HostId, out: &mut Vec<Effect>) {
        if let Some(log) = &mut self.log {
            log.end = log.end.max(end);
        }
        self.send_progress(None, out);
        if let Some((from, epoch, asked_ms)) = &mut self.catch_up
            && *from == source
        {
            *asked_ms = now_ms;
            let request = PeerMessage::FetchLog { epoch: *epoch, from: end };
            out.push(Effect::ToPeer(source, request));
            out.push(Effect::ToArbiter(ToArbiter::Report(self.report())));
        }
    }

    /// Reports to the active copy which log is durable here. Log whose lineage is not settled is left out.
    pub(super) fn send_progress(&mut self, resend_from: Option<Position>, out: &mut Vec<Effect>) {
        let Some(following) =
            self.following.as_ref().filter(|f| f.is_active && f.epoch == self.meta.promised)
        else {
            return;
        };
        let progress = PeerMessage::Progress {
            epoch: following.epoch,
            life: self.life(),
            end: (self.settling.is_none() && self.log.is_some()).then(|| self.end()),
            checkpoint: self.checkpoint,
            replayed: self.replayed,
            mountable: self.is_mountable(),
            resend_from,
        };
        out.push(Effect::ToPeer(following.source, progress));
    }

    pub(super) fn work_passive(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        self.answer_fence(out);
        let end = self.end();
        if let Some((source, epoch, asked_ms)) = &mut self.catch_up
            && now_ms >= *asked_ms + self.spec.timing.resend_ms
        {
            *asked_ms = now_ms;
            out.push(Effect::ToPeer(source.to_owned(), PeerMessage::FetchLog { epoch: *epoch, from: end }));
        }
        self.fetch_patch(now_ms, out);
        let may_replay = self.log.is_some() && self.meta.patch.is_none() && self.settling.is_none();
        let to = self.replay_limit(now_ms);
        if may_replay && !self.replaying && to > self.replayed {
            self.replaying = true;
            out.push(Effect::Replay { to });
        }
    }

    /// Position up to which the log may be replayed: its end, or on a lagged copy what is old enough.
    fn replay_limit(&mut self, now_ms: u64) -> Position {
        let lag_ms = self.spec_here().replay_lag_ms;
        let end = self.end();
        if lag_ms == 0 {
            return end;
        }
        for generation in self.replayed.generation..=end.generation {
            // After a restart the age of a log is not known: it counts as new.
            self.received_ms.entry(generation).or_insert(now_ms);
        }
        let young = self.received_ms.range(self.replayed.generation..).find(|&(_, at)| now_ms < at + lag_ms);
        young.map_or(end, |(&generation, _)| Position::of_generation(generation).min(end))
    }

    /// Removes generations that the active copy has removed, whose changes are in the pages here, and that the
    /// truncation lag has released.
    fn drop_logs(&mut self, now_ms: u64, active_start: u32, out: &mut Vec<Effect>) {
        let copy = self.spec_here();
        let lag_ms = if copy.is_lagged() { copy.replay_lag_ms + copy.truncation_lag_ms } else { 0 };
        let Some(log) = self.log.filter(|_| self.health() == Health::Healthy && self.settling.is_none())
        else {
            return;
        };
        let mut below = active_start.min(self.checkpoint.generation).min(log.end.generation);
        if let Some((&young, _)) = self.received_ms.iter().find(|&(_, at)| now_ms < at + lag_ms) {
            below = below.min(young);
        }
        if below > log.start {
            self.drop_logs_below(below, out);
        }
    }

    pub(super) fn drop_logs_below(&mut self, below: u32, out: &mut Vec<Effect>) {
        if let Some(log) = &mut self.log {
            log.start = below;
        }
        self.received_ms.retain(|&generation, _| generation >= below);
        out.push(Effect::Event(Event::LogsDropped { below }));
        self.disk(DiskOp::DropLogs { below }, Pending::Dropped, out);
    }

    pub(super) fn on_log_read(
        &mut self,
        now_ms: u64,
        to: HostId,
        piece: Option<LogPiece>,
        out: &mut Vec<Effect>,
    ) {
        let (end, log_start) = (self.end(), self.log.map_or(1, |log| log.start));
        let is_active = matches!(self.role, Role::Active(_));
        if is_active && !self.note_log_read(now_ms, to, piece.as_ref()) {
            return;
        }
        if is_active || matches!(self.role, Role::Passive) && piece.is_some() {
            let epoch = self.meta.promised;
            let lineage = self.meta.lineage.clone();
            out.push(Effect::ToPeer(to, PeerMessage::Ship { epoch, lineage, end, log_start, piece }));
        }
    }

    pub(super) fn on_dismounted(&mut self, end: Position, checkpoint: Position, out: &mut Vec<Effect>) {
        if let Role::Dismounting { drained, .. } = self.role {
            if let Some(log) = &mut self.log {
                log.end = end;
            }
            self.accepted = end;
            self.checkpoint = checkpoint;
            self.replayed = checkpoint;
            self.leave(drained, out);
        }
    }

    /// Ends the time as active copy.
    pub(super) fn leave(&mut self, drained: Option<Position>, out: &mut Vec<Effect>) {
        if let Role::Dismounting { epoch, .. } = self.role {
            self.released = Some((epoch, drained));
            self.role = Role::Passive;
            self.send_released(out);
            self.answer_fence(out);
        }
    }

    pub(super) fn send_released(&self, out: &mut Vec<Effect>) {
        if let Some((epoch, drained)) = self.released {
            let (database, host) = (self.spec.id, self.host);
            out.push(Effect::ToArbiter(ToArbiter::Released { database, host, epoch, drained }));
        }
    }

    pub(super) fn on_page_damaged(&mut self, page: u32, out: &mut Vec<Effect>) {
        match (&mut self.role, &mut self.meta.patch) {
            (Role::Active(active), _) => {
                // The page was on disk, so the log is durable up to its last change.
                if let Entry::Vacant(repair) = active.repairs.entry(page) {
                    repair.insert(active.durable);
                    out.push(Effect::Event(Event::PageDamaged { page }));
                }
            }
            (_, Some(PageRequest::From(_))) => {}
            (_, Some(PageRequest::List(pages))) if pages.contains(&page) => {}
            (_, patch) => {
                let mut pages = match patch.take() {
                    Some(PageRequest::List(pages)) => pages,
                    _ => Vec::new(),
                };
                pages.push(page);
                *patch = Some(PageRequest::List(pages));
                if matches!(self.role, Role::Activating { .. }) {
                    self.role = Role::Passive;
                }
                self.save(false, false, false, out);
            }
        }
    }
}
