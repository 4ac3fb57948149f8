//! Back to the active copy's history: cut the log where the histories part, fetch pages that may hold changes
//! of the lost one, or make the whole copy anew. Damaged pages take the same way.
//!
//! Order on disk, so that a crash at any point is harmless: first the list of pages to fetch, then the cut of
//! the log, then the new lineage. For a new copy: first the mark that it has no contents, then the erasure.

use std::rc::Rc;

use super::{CopyMachine, DiskOp, Effect, Event, LogExtent, Pending, Role, SeedReason};
use crate::lineage::Lineage;
use crate::message::{Life, PageRequest, PeerMessage};
use crate::planted::Bug;
use crate::types::{Epoch, HostId, PageCopy, Position};

/// Largest number of pages in one request.
const PAGES_PER_REQUEST: usize = 16;

/// Largest number of fetched stretches of a new copy that wait for its disk while the next one is requested.
const STRETCHES_WAITING_MAX: usize = 4;

/// State between the discovery of a fork and the cut of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    /// The pages that the log behind the fork changes are being listed.
    Listing { fork: Position },
    /// The log is being cut at the fork.
    Cutting,
}

impl CopyMachine {
    /// Resolves the fork between the log here and the active copy's log.
    pub(super) fn settle(&mut self, fork: Position, active_log_start: u32, out: &mut Vec<Effect>) {
        let Some(log) = self.log else { return };
        if self.replaying || !self.pending.is_empty() {
            // The next sign of life of the active copy finds the log at rest.
            return;
        }
        self.following = None;
        if self.meta.needed_to > fork || log.start > fork.generation || active_log_start > fork.generation {
            self.reseed(SeedReason::ForkOutOfReach, out);
            return;
        }
        self.settling = Some(Settling::Listing { fork });
        out.push(Effect::ListPages { from: fork });
    }

    pub(super) fn on_pages_listed(&mut self, from: Position, pages: Vec<u32>, out: &mut Vec<Effect>) {
        if self.settling != Some(Settling::Listing { fork: from }) {
            return;
        }
        out.push(Effect::Event(Event::Diverged { fork: from, discarded_to: self.end() }));
        let keeps_them = self.spec.has(Bug::DivergentPagesKept);
        if !pages.is_empty() && !keeps_them && !matches!(self.meta.patch, Some(PageRequest::From(_))) {
            let mut all = match self.meta.patch.take() {
                Some(PageRequest::List(pages)) => pages,
                _ => Vec::new(),
            };
            all.extend(pages);
            all.sort_unstable();
            all.dedup();
            self.meta.patch = Some(PageRequest::List(all));
            self.save(false, false, false, out);
        }
        self.settling = Some(Settling::Cutting);
        self.disk(DiskOp::Cut { to: from }, Pending::Cut { to: from }, out);
    }

    pub(super) fn on_cut(&mut self, to: Position) {
        if let Some(log) = &mut self.log {
            log.end = to;
        }
        self.accepted = to;
        self.checkpoint = self.checkpoint.min(to);
        self.replayed = self.checkpoint;
        self.received_ms.retain(|&generation, _| generation <= to.generation);
        self.settling = None;
    }

    /// Discards log and pages. The next message of the active copy starts the seeding of a new copy.
    pub(super) fn reseed(&mut self, why: SeedReason, out: &mut Vec<Effect>) {
        if self.replaying || !self.pending.is_empty() {
            return;
        }
        out.push(Effect::Event(Event::SeedingBegun { why }));
        self.following = None;
        self.meta.patch = Some(PageRequest::From(0));
        self.meta.needed_to = Position::START;
        self.save(false, false, false, out);
        self.log = None;
        self.erasures += 1;
        self.disk(DiskOp::Erase, Pending::Erased, out);
    }

    pub(super) fn on_erased(&mut self) {
        self.accepted = Position::START;
        self.checkpoint = Position::START;
        self.replayed = Position::START;
        self.received_ms.clear();
        self.fetching = None;
    }

    /// Answers a seeding request on the active copy: names the log generation that, together with the pages as they
    /// are from now on, gives the whole database.
    pub(super) fn on_seed_request(
        &mut self,
        from: HostId,
        epoch: Epoch,
        life: Life,
        nonce: u64,
        out: &mut Vec<Effect>,
    ) {
        let checkpoint = self.checkpoint;
        let misses_logs = self.spec.has(Bug::SeedMissesLogs);
        if let Role::Active(active) = &mut self.role
            && active.epoch == epoch
            && let Some(peer) = active.peers.get_mut(&from)
            && life >= peer.life
        {
            peer.forget(life);
            let generation = if misses_logs { active.durable.generation } else { checkpoint.generation };
            let lineage = self.meta.lineage.clone();
            out.push(Effect::ToPeer(from, PeerMessage::SeedStart { epoch, nonce, lineage, generation }));
        }
    }

    pub(super) fn on_seed_start(
        &mut self,
        from: HostId,
        epoch: Epoch,
        nonce: u64,
        lineage: Lineage,
        generation: u32,
        out: &mut Vec<Effect>,
    ) {
        let is_expected = self.fetching.is_some_and(|(expected, _)| expected == nonce);
        let is_followed = self.following.as_ref().is_some_and(|f| (f.epoch, f.source) == (epoch, from));
        if epoch != self.meta.promised || !is_followed {
            out.push(Effect::Event(Event::SeedRefused { from }));
            return;
        }
        // An answer that comes twice is no lie.
        if !is_expected || self.log.is_some() {
            return;
        }
        if !self.pending.is_empty() {
            return;
        }
        self.fetching = None;
        self.meta.patch = Some(PageRequest::From(0));
        self.meta.lineage = lineage;
        self.disk(DiskOp::StartLog { generation }, Pending::LogStarted { generation }, out);
    }

    pub(super) fn on_log_started(&mut self, generation: u32, out: &mut Vec<Effect>) {
        let start = Position::of_generation(generation);
        self.log = Some(LogExtent { start: generation, end: start });
        self.accepted = start;
        self.checkpoint = start;
        self.replayed = start;
        self.save(false, true, false, out);
    }

    /// Requests the next pages of the patch; repeats the request if no answer has come.
    pub(super) fn fetch_patch(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let Some(following) =
            self.following.as_ref().filter(|f| f.is_active && f.epoch == self.meta.promised)
        else {
            return;
        };
        if self.patching || self.settling.is_some() || self.log.is_none() {
            return;
        }
        let is_waiting = |pending: &&Pending| matches!(pending, Pending::StretchWritten);
        if self.pending.values().filter(is_waiting).count() >= STRETCHES_WAITING_MAX {
            return;
        }
        if self.fetching.is_some_and(|(_, asked_ms)| now_ms < asked_ms + self.spec.timing.resend_ms) {
            return;
        }
        let (source, epoch) = (following.source, following.epoch);
        let request = match &self.meta.patch {
            None => return,
            Some(PageRequest::From(page)) => PageRequest::From(*page),
            Some(PageRequest::List(pages)) => {
                PageRequest::List(pages[..pages.len().min(PAGES_PER_REQUEST)].to_vec())
            }
        };
        // What is asked again is the same question: an answer that takes longer than the patience is good, too.
        let nonce = match self.fetching {
            Some((unanswered, _)) => unanswered,
            None => self.nonce(),
        };
        self.fetching = Some((nonce, now_ms));
        let message = PeerMessage::FetchPages { epoch, nonce, request, at_least: self.end() };
        out.push(Effect::ToPeer(source, message));
    }

    pub(super) fn on_pages(
        &mut self,
        from: HostId,
        nonce: u64,
        pages: Rc<[PageCopy]>,
        next: Option<u32>,
        position: Position,
        out: &mut Vec<Effect>,
    ) {
        if let Role::Active(active) = &mut self.role {
            match active.repair_answered(nonce, &pages) {
                Some(page) => self.disk(DiskOp::WritePages(pages), Pending::Repaired { page }, out),
                // Another copy's answer may have come before.
                None if self.has_asked(nonce) => {}
                None => out.push(Effect::Event(Event::PagesRefused { from })),
            }
            return;
        }
        let is_expected = self.fetching.is_some_and(|(expected, _)| expected == nonce);
        let from_active = self.following.as_ref().is_some_and(|f| f.source == from);
        let is_asked_for = self.meta.patch.as_ref().is_some_and(|patch| answers(patch, &pages, next));
        if !from_active || is_expected && !is_asked_for {
            out.push(Effect::Event(Event::PagesRefused { from }));
            return;
        }
        // An answer that comes twice is no lie.
        if !is_expected || self.patching || self.settling.is_some() || self.log.is_none() {
            return;
        }
        let Some(patch) = &mut self.meta.patch else { return };
        self.meta.needed_to = self.meta.needed_to.max(position);
        self.fetching = None;
        if let (PageRequest::From(first), Some(next)) = (patch, next) {
            // A seeding that is interrupted starts over, so how far it is need not be on disk.
            *first = next;
            self.disk(DiskOp::WritePages(pages), Pending::StretchWritten, out);
            return;
        }
        // The point up to which the log must reach is on disk before the first page that needs it.
        self.save(false, false, false, out);
        self.patching = true;
        let pending = Pending::PatchWritten { pages: pages.iter().map(|copy| copy.page).collect(), position };
        self.disk(DiskOp::WritePages(pages), pending, out);
    }

    pub(super) fn on_patch_written(&mut self, written: &[u32], position: Position, out: &mut Vec<Effect>) {
        self.patching = false;
        self.meta.needed_to = self.meta.needed_to.max(position);
        // More pages may have been found damaged since these were asked for.
        let (rest, event) = match self.meta.patch.take() {
            Some(PageRequest::List(mut pages)) => {
                pages.retain(|page| !written.contains(page));
                (pages, Event::Resynced { pages: written.len() as u32 })
            }
            _ => (Vec::new(), Event::Seeded),
        };
        if rest.is_empty() {
            out.push(Effect::Event(event));
        } else {
            self.meta.patch = Some(PageRequest::List(rest));
        }
        self.save(false, true, false, out);
    }
}

/// Whether received pages answer the open request: a part of the requested list, or a stretch that begins at the
/// requested page and goes on behind it.
fn answers(asked: &PageRequest, pages: &[PageCopy], next: Option<u32>) -> bool {
    let ascend = pages.windows(2).all(|two| two[0].page < two[1].page);
    match asked {
        PageRequest::List(wanted) => next.is_none() && pages.iter().all(|copy| wanted.contains(&copy.page)),
        PageRequest::From(first) => {
            let last = pages.last().map_or(*first, |copy| copy.page);
            ascend
                && pages.first().is_none_or(|copy| copy.page >= *first)
                && next.is_none_or(|next| next > last)
        }
    }
}
