//! One copy of a database on one host: passive, about to mount, or active. A pure state machine: time, messages and
//! finished disk work come in as [`Input`]s, everything to be done goes out as [`Effect`]s.
//!
//! What the adapter promises
//! * [`DiskOp`]s are carried out one after the other, each durable when it is reported done. A crash loses
//!   those that were not reported, the newest first; the oldest of them may have happened.
//! * The clock (`now_ms`) never goes back while the machine lives; its rate is within the drift bound. After a
//!   restart the machine is made anew with a larger [`Boot`].
//!
//! Invariants
//! 1. It is active only while its lease lasts on its own clock; every input checks that first.
//! 2. It takes log only from the newest epoch that it has promised itself to, only where its own log ends, and
//!    of an active copy only from the first that has sent some in this epoch. Epochs come from the arbiter
//!    alone.
//! 3. What it says about itself is durable before it says so.
//! 4. It mounts only if no page may hold a change that its log lacks.

mod active;
mod interface;
mod passive;
mod resync;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::message::{FromArbiter, Health, Life, PageRequest, PeerMessage, Renewal, Report, ToArbiter};
use crate::planted::Bug;
use crate::types::{Boot, CopySpec, DatabaseSpec, Epoch, HostId, Position};
use active::Active;
pub use interface::{DiskOp, Effect, Event, Found, Input, LogExtent, Meta, SeedReason, StepDown};
use passive::Following;
use resync::Settling;

enum Role {
    Passive,
    Activating { epoch: Epoch, saved: bool, asked_ms: u64, sequence: u64 },
    Active(Box<Active>),
    Dismounting { epoch: Epoch, drained: Option<Position> },
    Failed,
}

/// Step that follows once a [`DiskOp`] is durable. `Stretch`: pages of the database file while the copy is seeded;
/// `Patch`: pages of another copy that replace its own.
enum Pending {
    Stored { end: Position, from: HostId },
    Saved { promised: Epoch, report: bool, progress: bool, ask_lease: bool },
    Cut { to: Position },
    Erased,
    LogStarted { generation: u32 },
    StretchWritten,
    PatchWritten { pages: Vec<u32>, position: Position },
    Repaired { page: u32 },
    Dropped,
}

/// State machine of one copy of a database on one host.
pub struct CopyMachine {
    spec: Rc<DatabaseSpec>,
    host: HostId,
    boot: Boot,
    erasures: u32,
    meta: Meta,
    /// Highest epoch whose promise is on disk.
    promised_durably: Epoch,
    log: Option<LogExtent>,
    /// End of the log, with the pieces that are still being written to disk.
    accepted: Position,
    replayed: Position,
    checkpoint: Position,
    replaying: bool,
    role: Role,
    following: Option<Following>,
    /// Active host of each epoch, learned from the messages of that epoch.
    reign: Option<(Epoch, HostId)>,
    settling: Option<Settling>,
    /// Time at which each generation arrived, ms; the replay lag counts from it.
    received_ms: BTreeMap<u32, u64>,
    fence_unanswered: bool,
    released: Option<(Epoch, Option<Position>)>,
    catch_up: Option<(HostId, Epoch, u64)>,
    pending: BTreeMap<u64, Pending>,
    next_ticket: u64,
    next_nonce: u64,
    fetching: Option<(u64, u64)>,
    patching: bool,
    host_tier: u8,
    backed_up_below: u32,
    reported_ms: Option<u64>,
}

impl CopyMachine {
    /// Creates the state machine of the copy of `spec` on `host` from what was found on disk.
    ///
    /// # Panics
    /// If the database has no copy on the host.
    #[must_use]
    pub fn new(spec: Rc<DatabaseSpec>, host: HostId, boot: Boot, found: Found) -> Self {
        assert!(spec.copy_on(host).is_some(), "{:?} has no copy on {host:?}", spec.id);
        let accepted = found.log.map_or(Position::START, |log| log.end);
        CopyMachine {
            spec,
            host,
            boot,
            erasures: 0,
            promised_durably: found.meta.promised,
            meta: found.meta,
            log: found.log,
            accepted,
            replayed: found.checkpoint,
            checkpoint: found.checkpoint,
            replaying: false,
            role: Role::Passive,
            following: None,
            reign: None,
            settling: None,
            received_ms: BTreeMap::new(),
            fence_unanswered: false,
            released: None,
            catch_up: None,
            pending: BTreeMap::new(),
            next_ticket: 0,
            next_nonce: 0,
            fetching: None,
            patching: false,
            host_tier: 0,
            backed_up_below: 0,
            reported_ms: None,
        }
    }

    /// Epoch in which this copy is active at `now_ms` of its own clock; `None` if it is passive or its lease is over.
    #[must_use]
    pub fn active_epoch(&self, now_ms: u64) -> Option<Epoch> {
        match &self.role {
            Role::Active(active) if now_ms < active.lease_end_ms => Some(active.epoch),
            _ => None,
        }
    }

    /// Whether the copy is active and accepts commits at `now_ms`.
    #[must_use]
    pub fn takes_commits(&self, now_ms: u64) -> bool {
        matches!(&self.role, Role::Active(active) if now_ms < active.lease_end_ms && active.drain.is_none())
    }

    /// Report of this copy to the arbiter.
    #[must_use]
    pub fn report(&self) -> Report {
        let end = self.end();
        Report {
            database: self.spec.id,
            host: self.host,
            boot: self.boot,
            promised: self.promised_durably,
            lineage: self.meta.lineage.clone(),
            end,
            log_start: self.log.map_or(1, |log| log.start),
            replayed: self.replayed,
            health: self.health(),
            mountable: self.is_mountable(),
            copy_queue: self.following.as_ref().map_or(0, |f| end.generations_behind(f.active_end)),
            host_tier: self.host_tier,
        }
    }

    /// Handles one input at `now_ms` of the host's clock.
    pub fn handle(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        if matches!(self.role, Role::Failed) {
            return;
        }
        if matches!(&self.role, Role::Active(active) if now_ms >= active.lease_end_ms) {
            self.step_down(StepDown::LeaseEnded, None, out);
        }
        match input {
            Input::Tick => {}
            Input::FromArbiter(message) => self.on_arbiter(now_ms, message, out),
            Input::Peer { from, message } => self.on_peer(now_ms, from, message, out),
            Input::DiskDone { ticket } => self.on_disk(now_ms, ticket, out),
            Input::StoreRefused { ticket } => self.on_store_refused(ticket, out),
            Input::LogRead { to, piece } => self.on_log_read(now_ms, to, piece, out),
            Input::PagesRead { to, nonce, pages, next, position } => {
                let epoch = self.meta.promised;
                let message = PeerMessage::Pages { epoch, nonce, pages, next, position };
                out.push(Effect::ToPeer(to, message));
            }
            Input::PagesListed { from, pages } => self.on_pages_listed(from, pages, out),
            Input::Replayed { to } => {
                self.replaying = false;
                self.replayed = self.replayed.max(to);
            }
            Input::Checkpoint { at } => self.checkpoint = self.checkpoint.max(at),
            Input::Appended { end } => self.on_appended(end),
            Input::LogDurable { end } => self.on_log_durable(end),
            Input::Commit { ticket, position } => self.on_commit(ticket, position),
            Input::Dismounted { end, checkpoint } => self.on_dismounted(end, checkpoint, out),
            Input::BackedUp { below } => self.backed_up_below = self.backed_up_below.max(below),
            Input::PageDamaged { page } => self.on_page_damaged(page, out),
            Input::DiskFailed => {
                if matches!(self.role, Role::Active(_)) {
                    self.step_down(StepDown::DiskFailed, None, out);
                    self.leave(None, out);
                }
                self.role = Role::Failed;
                return;
            }
            Input::HostTier(tier) => self.host_tier = tier,
        }
        self.work(now_ms, out);
    }

    /// Does everything that time and state require after an input.
    fn work(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        match self.role {
            Role::Active(_) => self.work_active(now_ms, out),
            Role::Passive => self.work_passive(now_ms, out),
            Role::Activating { .. } => self.work_activating(now_ms, out),
            Role::Dismounting { .. } | Role::Failed => {}
        }
        let due = self.reported_ms.is_none_or(|at| now_ms >= at + self.spec.timing.report_ms);
        if due && !matches!(self.role, Role::Dismounting { .. }) {
            self.reported_ms = Some(now_ms);
            out.push(Effect::ToArbiter(ToArbiter::Report(self.report())));
            self.send_released(out);
        }
    }

    fn on_arbiter(&mut self, now_ms: u64, message: FromArbiter, out: &mut Vec<Effect>) {
        match message {
            FromArbiter::Fence { epoch } => {
                if epoch < self.meta.promised {
                    return;
                }
                self.promise(epoch, out);
                self.released = self.released.filter(|&(old, _)| old >= epoch);
                self.fence_unanswered = true;
                self.answer_fence(out);
            }
            FromArbiter::CatchUp { epoch, source } => {
                if epoch == self.meta.promised && matches!(self.role, Role::Passive) {
                    self.catch_up = Some((source, epoch, 0));
                }
            }
            FromArbiter::Activate { epoch } => {
                let is_new = epoch == self.meta.promised && self.meta.lineage.epoch() < epoch;
                if is_new && matches!(self.role, Role::Passive) && self.may_mount() {
                    self.catch_up = None;
                    self.role = Role::Activating { epoch, saved: false, asked_ms: 0, sequence: 0 };
                    out.push(Effect::Event(Event::Activating { epoch }));
                }
            }
            FromArbiter::Granted { epoch, sequence, asked_at_ms, lease_ms, generation, partner } => {
                let asked_at_ms =
                    if self.spec.has(Bug::LeaseCountedFromReceipt) { now_ms } else { asked_at_ms };
                let end_ms = crate::lease::holder_end_ms(asked_at_ms, lease_ms);
                self.on_granted(now_ms, epoch, sequence, end_ms, generation, partner, out);
            }
            FromArbiter::Drain { epoch, target } => {
                if let Role::Active(active) = &mut self.role
                    && active.epoch == epoch
                    && active.drain.is_none()
                {
                    active.drain = Some((target, now_ms + self.spec.timing.drain_ms));
                }
            }
        }
    }

    /// Promises `epoch`: from now on the copy accepts nothing from lower ones.
    fn promise(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        if epoch <= self.meta.promised {
            return;
        }
        self.meta.promised = epoch;
        self.catch_up = None;
        self.fetching = None;
        match &self.role {
            Role::Active(_) => self.step_down(StepDown::Fenced, None, out),
            Role::Activating { .. } => self.role = Role::Passive,
            _ => {}
        }
    }

    /// Answers a fence once the promise is durable and the database is closed.
    fn answer_fence(&mut self, out: &mut Vec<Effect>) {
        if self.fence_unanswered && matches!(self.role, Role::Passive | Role::Activating { .. }) {
            self.fence_unanswered = false;
            self.save(true, false, false, out);
        }
    }

    fn save(&mut self, report: bool, progress: bool, ask_lease: bool, out: &mut Vec<Effect>) {
        let pending = Pending::Saved { promised: self.meta.promised, report, progress, ask_lease };
        self.disk(DiskOp::Save(self.meta.clone()), pending, out);
    }

    fn disk(&mut self, op: DiskOp, pending: Pending, out: &mut Vec<Effect>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, pending);
        out.push(Effect::Disk { ticket, op });
    }

    /// Handles the end of a disk operation, which is durable now. Unknown tickets are dropped.
    fn on_disk(&mut self, now_ms: u64, ticket: u64, out: &mut Vec<Effect>) {
        let Some(pending) = self.pending.remove(&ticket) else { return };
        match pending {
            Pending::Saved { promised, report, progress, ask_lease } => {
                self.promised_durably = promised;
                if report {
                    out.push(Effect::ToArbiter(ToArbiter::Report(self.report())));
                }
                if progress {
                    self.send_progress(None, out);
                }
                if let (true, Role::Activating { saved, epoch, .. }) = (ask_lease, &mut self.role)
                    && *epoch == promised
                {
                    *saved = true;
                }
            }
            Pending::Stored { end, from } => self.on_stored(now_ms, end, from, out),
            Pending::Cut { to } => self.on_cut(to),
            Pending::Erased => self.on_erased(),
            Pending::LogStarted { generation } => self.on_log_started(generation, out),
            Pending::PatchWritten { pages, position } => self.on_patch_written(&pages, position, out),
            Pending::Repaired { page } => {
                if let Role::Active(active) = &mut self.role
                    && active.repaired(page)
                {
                    out.push(Effect::Event(Event::PageRepaired { page }));
                }
            }
            Pending::StretchWritten | Pending::Dropped => {}
        }
    }

    /// Activates the copy in steps: replays the whole log, saves the new epoch in its lineage, then asks for the lease
    /// until the arbiter grants it.
    fn work_activating(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let end = self.end();
        if self.replayed < end {
            if !self.replaying {
                self.replaying = true;
                out.push(Effect::Replay { to: end });
            }
            return;
        }
        let Role::Activating { epoch, saved, asked_ms, sequence } = &mut self.role else { return };
        let epoch = *epoch;
        if self.meta.lineage.epoch() < epoch {
            self.meta.lineage = self.meta.lineage.continued(epoch, end);
            self.save(false, false, true, out);
        } else if *saved && (*sequence == 0 || now_ms >= *asked_ms + self.spec.timing.resend_ms) {
            *sequence += 1;
            *asked_ms = now_ms;
            let sequence = *sequence;
            out.push(Effect::ToArbiter(ToArbiter::Renewal(Renewal {
                database: self.spec.id,
                host: self.host,
                boot: self.boot,
                epoch,
                sequence,
                asked_at_ms: now_ms,
                generation: end.generation,
                partner: None,
                lineage: self.meta.lineage.clone(),
            })));
        }
    }

    fn spec_here(&self) -> &CopySpec {
        self.spec.copy_on(self.host).expect("checked when the copy was made")
    }

    fn life(&self) -> Life {
        Life { boot: self.boot, erasures: self.erasures }
    }

    fn end(&self) -> Position {
        self.log.map_or(Position::START, |log| log.end)
    }

    fn health(&self) -> Health {
        match (&self.role, &self.meta.patch) {
            (Role::Failed, _) => Health::Failed,
            (_, Some(PageRequest::From(_))) => Health::Seeding,
            (_, Some(PageRequest::List(_))) => Health::Resyncing,
            (_, None) if self.log.is_none() => Health::Seeding,
            (_, None) => Health::Healthy,
        }
    }

    fn is_mountable(&self) -> bool {
        let is_consistent = self.end() >= self.meta.needed_to || self.spec.has(Bug::ConsistencyPointIgnored);
        self.health() == Health::Healthy && is_consistent && self.settling.is_none()
    }

    /// Whether the copy is mountable and no operation under way could change that.
    fn may_mount(&self) -> bool {
        self.is_mountable() && self.accepted == self.end() && !self.replaying
    }

    /// Whether this start of the copy sent a request with this nonce that is still open.
    fn has_asked(&self, nonce: u64) -> bool {
        let boot = u64::from(self.boot.0) << 32;
        (boot + 1..=boot | self.next_nonce).contains(&nonce)
    }

    fn nonce(&mut self) -> u64 {
        self.next_nonce += 1;
        u64::from(self.boot.0) << 32 | self.next_nonce
    }
}
