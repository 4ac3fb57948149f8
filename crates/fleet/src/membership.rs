//! The controller of a run: which hosts take part, how far each is, what each is to do next. A state machine without
//! clock or sockets: heartbeats and times come in, orders and notes go out.
//!
//! Invariants
//! 1. The tests start on no host before every host has looked at what it needs and found it in order.
//! 2. A point is released once, for all hosts, when every host that still runs waits there; never earlier.
//! 3. Orders are made from [`Memory`] only, which the caller has made durable before they are sent: a
//!    controller that comes back gives the same orders, under a higher epoch.
//! 4. A host's fate, once known, does not change. Only a host that was taken for one whose agent died may say
//!    how it ended.

mod fate;
mod note;
mod others;
mod patience;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use fate::fate_said;
use others::OtherControllers;
use patience::Wait;

use crate::agent_state::state_not_written;
use crate::message::{
    Assignment, ControllerHead, Ended, Heartbeat, Look, Orders, PROTOCOL, Point, WhenAlone, Work, tame,
};

pub use fate::Fate;
pub use note::Note;

/// Silence after which a host or a controller counts as lost, ns.
const LOST_AFTER_NS: u64 = 10_000_000_000;
/// Largest number of processes with the credentials of one host that are told apart.
const DOUBLES_MAX: usize = 8;
/// Largest number of notes about one host that are stored; further ones are counted.
const NOTES_MAX: u32 = 200;
/// Time by which a released barrier lies ahead, ns, so that every agent has heard of it by then.
const LEAD_NS: u64 = 2_000_000_000;

/// Reaction of a run to a lost host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenLost {
    /// The other hosts finish without it.
    #[default]
    Finish,
    /// The other hosts end in order.
    Stop,
}

/// Plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the run.
    pub run: String,
    /// Version of the controller's program.
    pub tool_version: String,
    /// Build of the controller's program, if agents must have the same one ([`Program`](crate::message::Program)).
    #[serde(default)]
    pub build: Option<String>,
    /// Names of the hosts that take part.
    pub hosts: Vec<String>,
    /// Text of the solution file.
    pub solution: String,
    /// Kinds of tests to carry out; empty: all.
    pub tests: Vec<String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether databases on a memory file system are allowed.
    pub allow_memory: bool,
    /// Reaction to a lost host.
    pub when_lost: WhenLost,
    /// Reaction of agents to a lost controller.
    pub when_alone: WhenAlone,
    /// Silence after which agents count the controller as lost, ms.
    pub alone_after_ms: u64,
    /// Time within which hosts must appear and be ready, ms.
    pub assemble_limit_ms: u64,
}

/// Durable state of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Plan of the run.
    pub plan: Plan,
    /// Number of controllers that this run has had.
    pub epoch: u64,
    /// Whether the tests have started.
    pub go: bool,
    /// Reason why the run ends early; `None` if it does not.
    pub stop: Option<String>,
    /// Newest released barrier, and its time by the controller's calendar.
    pub released: Option<(Point, u64)>,
    /// Fate of each host.
    pub fates: BTreeMap<String, Fate>,
    /// Reason why this controller ends without the rest of a host's evidence. A resumed controller waits for it again.
    #[serde(default)]
    pub given_up: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Member {
    process: Option<u64>,
    seen_ns: Option<u64>,
    /// Time at which another process of the host was last refused, ns. It is accepted once the present one counts as
    /// lost.
    refused_ns: Option<u64>,
    /// Other processes that used the credentials of the host.
    doubles: BTreeSet<u64>,
    /// Run to whose controller the host is left.
    left_to: Option<String>,
    /// Whether the host lost its state of this run, and evidence may lie in its folder.
    collect: bool,
    /// Whether the host works for another run, so that nothing of this run can be had from it now.
    elsewhere: bool,
    notes: u32,
    /// Orders that the host did not obey, from its last heartbeat.
    refusals: Vec<String>,
    /// Reason why the agent cannot store its state, from its last heartbeat.
    state_error: Option<String>,
    ready: bool,
    lost: bool,
    running: bool,
    waiting_at: Option<Point>,
    last: Option<Heartbeat>,
    wait: Wait,
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// Membership: which hosts take part in a run and how far each is; the controller's state machine.
#[derive(Debug)]
pub struct Membership {
    memory: Memory,
    members: BTreeMap<String, Member>,
    started_ns: u64,
    /// Time from which silence counts at the earliest, ns.
    hears_since_ns: u64,
    superseded: bool,
    is_interrupted: bool,
    /// Whether the controller ends without the evidence that is still missing.
    waits_no_longer: bool,
    others: OtherControllers,
    notes: Vec<Note>,
}

impl Membership {
    /// Starts a new run.
    pub fn new(plan: Plan, now_ns: u64) -> Membership {
        let fates = plan.hosts.iter().map(|host| (host.clone(), Fate::Open)).collect();
        let given_up = BTreeMap::new();
        let memory = Memory { plan, epoch: 0, go: false, stop: None, released: None, fates, given_up };
        Membership::resume(memory, now_ns)
    }

    /// Resumes a run that had a controller before, in the next epoch.
    pub fn resume(mut memory: Memory, now_ns: u64) -> Membership {
        memory.epoch += 1;
        memory.given_up.clear();
        let members = memory.plan.hosts.iter().map(|host| (host.clone(), Member::default())).collect();
        let (started_ns, hears_since_ns) = (now_ns, now_ns);
        Membership {
            memory,
            members,
            started_ns,
            hears_since_ns,
            superseded: false,
            is_interrupted: false,
            waits_no_longer: false,
            others: OtherControllers::default(),
            notes: Vec::new(),
        }
    }

    /// State that must be durable before the next orders are sent.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Notes since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Head of this controller's messages to other controllers. It started at this time of its calendar.
    pub fn head(&self, since_unix_ns: u64, ends: bool) -> ControllerHead {
        let Memory { plan: Plan { run, hosts, .. }, epoch, .. } = &self.memory;
        let (run, hosts) = (run.clone(), hosts.clone());
        ControllerHead { protocol: PROTOCOL, run, epoch: *epoch, since_unix_ns, hosts, ends }
    }

    /// Handles a message of another controller.
    pub fn hear_controller(&mut self, now_ns: u64, head: ControllerHead) {
        if head.run == self.memory.plan.run {
            self.superseded |= head.epoch > self.memory.epoch;
        } else {
            self.others.hear(now_ns, head);
        }
    }

    /// Whether a host is left to the controller of another run, for a controller that started at `since_unix_ns` of
    /// its calendar. An answer would compete with the other controller's.
    pub fn leaves_to_another(&mut self, now_ns: u64, since_unix_ns: u64, heartbeat: &Heartbeat) -> bool {
        let Memory { plan: Plan { run: ours, .. }, go, .. } = &self.memory;
        let theirs = heartbeat.run.as_deref().filter(|run| run != ours);
        // The host works for that run or holds its evidence. One that has just started has not had the time to
        // hear the other.
        let has_run = theirs.filter(|run| self.others.lives(now_ns, run, self.started_ns));
        let is_free = !go && heartbeat.run.as_ref() != Some(ours);
        let first = self.others.first(now_ns, (since_unix_ns, ours), &heartbeat.host).filter(|_| is_free);
        let left_to = has_run.or(first).map(tame);
        let Some(member) = self.members.get_mut(&heartbeat.host) else { return false };
        if member.left_to != left_to {
            let text = match &left_to {
                Some(run) => format!("waits for the end of {run}, whose controller lives"),
                None => "does not wait for another run any more".to_owned(),
            };
            member.left_to.clone_from(&left_to);
            self.note(Some(&heartbeat.host), text);
        }
        left_to.is_some()
    }

    /// Whether another controller has taken over this run, so that this one must end.
    pub fn is_superseded(&self) -> bool {
        self.superseded
    }

    /// Newest heartbeat of each host.
    pub fn heartbeats(&self) -> impl Iterator<Item = (&str, &Heartbeat)> {
        self.members.iter().filter_map(|(host, member)| Some((host.as_str(), member.last.as_ref()?)))
    }

    /// Hosts that are silent and whose part is not over.
    pub fn missing(&self) -> Vec<&str> {
        let open = |host: &str| self.memory.fates[host] == Fate::Open;
        let unheard = |member: &Member| member.lost || member.seen_ns.is_none();
        let missing = self.members.iter().filter(|(host, member)| open(host) && unheard(member));
        missing.map(|(host, _)| host.as_str()).collect()
    }

    /// Whether the run is over: the evidence of every host is stored, or the host is lost, or the wait for it has
    /// ended.
    pub fn is_over(&self) -> bool {
        let is_through = |host: &str, member: &Member| match &self.memory.fates[host] {
            Fate::Open => member.lost || (self.memory.stop.is_some() && self.has_nothing(member)),
            Fate::Refused { .. } => true,
            Fate::Ended { evidence_kept, .. } => *evidence_kept || member.lost || member.elsewhere,
        };
        let is_over = |(host, member): (&String, &Member)| {
            self.memory.given_up.contains_key(host) || is_through(host, member)
        };
        self.waits_no_longer || self.members.iter().all(is_over)
    }

    /// Whether a host can have no evidence: before the start, a host that was never heard, or one without the run.
    /// Later each may have evidence, also one that a resumed controller has not heard yet.
    fn has_nothing(&self, member: &Member) -> bool {
        let has_it = |heartbeat: &Heartbeat| heartbeat.run.as_ref() == Some(&self.memory.plan.run);
        !self.memory.go && !member.last.as_ref().is_some_and(has_it)
    }

    /// Ends the run in order.
    pub fn stop(&mut self, why: &str) {
        if self.memory.stop.is_none() {
            self.memory.stop = Some(why.to_owned());
            self.note(None, format!("the run is stopped: {why}"));
        }
    }

    /// Notes that the evidence of a host is stored at the controller.
    pub fn evidence_kept(&mut self, host: &str) {
        if let Some(Fate::Ended { evidence_kept, .. }) = self.memory.fates.get_mut(host)
            && !std::mem::replace(evidence_kept, true)
        {
            self.memory.given_up.remove(host);
            self.note(Some(host), "its evidence has been collected".into());
        }
    }

    /// Handles a heartbeat. [`Memory`] must be durable before the orders are sent.
    pub fn heartbeat(&mut self, now_ns: u64, now_unix_ns: u64, heartbeat: Heartbeat) -> Orders {
        let heartbeat = heartbeat.tamed();
        let refused = self.refusal(now_ns, &heartbeat);
        let host = heartbeat.host.clone();
        let nonce = heartbeat.nonce;
        if refused.is_none() {
            self.take_in(now_ns, heartbeat);
            self.advance(now_unix_ns);
        }
        self.orders(&host, nonce, now_unix_ns, refused)
    }

    /// Advances the clock. `hears`: the bus was connected and this controller read it. Otherwise no host counts as
    /// silent.
    pub fn tick(&mut self, now_ns: u64, now_unix_ns: u64, hears: bool) {
        if !hears {
            self.hears_since_ns = now_ns;
        }
        let assembling = !self.memory.go && self.memory.stop.is_none();
        if assembling && now_ns - self.started_ns > self.memory.plan.assemble_limit_ms * 1_000_000 {
            let absent: Vec<&str> =
                self.members.iter().filter(|(_, member)| !member.ready).map(|(host, _)| &**host).collect();
            let why = format!("not ready in time: {}", absent.join(", "));
            self.stop(&why);
        }
        let (lost, started, mut notes) = (self.memory.plan.when_lost, self.memory.go, Vec::new());
        for (host, member) in &mut self.members {
            // Once the tests have started, one that a new controller has never heard of is as lost as one that
            // fell silent.
            let heard_ns = member.seen_ns.max(member.refused_ns).or(started.then_some(self.started_ns));
            let since_ns = heard_ns.map(|heard| heard.max(self.hears_since_ns));
            let silent = since_ns.is_some_and(|since| now_ns.saturating_sub(since) > LOST_AFTER_NS);
            let through = match &self.memory.fates[host] {
                Fate::Open => false,
                Fate::Refused { .. } => true,
                Fate::Ended { evidence_kept, .. } => *evidence_kept,
            };
            if silent && !through && !member.lost {
                member.lost = true;
                let seconds = LOST_AFTER_NS / 1_000_000_000;
                let last_word = member.state_error.as_deref().map(state_not_written);
                let last_word = last_word.map_or(String::new(), |text| format!("; its last word: {text}"));
                notes.push((host.clone(), format!("lost: nothing heard of it for {seconds} s{last_word}")));
            }
        }
        for (host, text) in notes {
            if lost == WhenLost::Stop || !self.memory.go {
                self.stop(&format!("{host} was lost"));
            }
            self.note(Some(&host), text);
        }
        self.look_at_waits(now_ns);
        self.advance(now_unix_ns);
    }

    /// Adds a note for people.
    pub fn say(&mut self, text: String) {
        self.note(None, text);
    }

    fn note(&mut self, host: Option<&str>, text: String) {
        self.keep(Note::new(host, text));
    }

    fn keep(&mut self, note: Note) {
        let host = note.host.as_deref();
        if let Some(member) = host.and_then(|host| self.members.get_mut(host)) {
            member.notes += 1;
            if member.notes > NOTES_MAX {
                return;
            }
            if member.notes == NOTES_MAX {
                let text =
                    format!("{} (this host has caused {NOTES_MAX} notes; no more are kept)", note.text);
                self.notes.push(Note { text, ..note });
                return;
            }
        }
        self.notes.push(note);
    }

    /// Reason why a heartbeat is refused; `None` if it is not.
    fn refusal(&mut self, now_ns: u64, heartbeat: &Heartbeat) -> Option<String> {
        if heartbeat.protocol != PROTOCOL {
            return Some(format!(
                "the agent ({}) speaks version {} of the protocol, the controller version {PROTOCOL}: \
                 install the same version of proofload on both",
                heartbeat.tool_version, heartbeat.protocol
            ));
        }
        let Memory { plan: Plan { run, tool_version, .. }, epoch, .. } = &self.memory;
        let Some(member) = self.members.get_mut(&heartbeat.host) else {
            return Some(format!("{} takes no part in {run}", heartbeat.host));
        };
        if heartbeat.tool_version != *tool_version {
            return Some(format!(
                "the agent is proofload {}, the controller {tool_version}: install the same version on both",
                heartbeat.tool_version
            ));
        }
        if let Some(build) = self.memory.plan.build.as_ref().filter(|build| **build != heartbeat.build) {
            return Some(format!(
                "the agent is another build of proofload {tool_version} than the controller: install the same file on \
                 both, or start the run with --any-build (agent: {}; controller: {build})",
                heartbeat.build
            ));
        }
        // Only a controller can take over a run; it says so itself (`Membership::hear_controller`).
        if heartbeat.run.as_ref() == Some(run) && heartbeat.epoch > *epoch {
            return Some(format!(
                "this is controller {epoch} of {run}, and the agent obeys controller {}",
                heartbeat.epoch
            ));
        }
        let speaks = member.seen_ns.is_some_and(|seen| now_ns.saturating_sub(seen) <= LOST_AFTER_NS);
        if speaks && member.process.is_some_and(|process| process != heartbeat.process) {
            member.refused_ns = Some(now_ns);
            let is_new = member.doubles.len() < DOUBLES_MAX && member.doubles.insert(heartbeat.process);
            if is_new {
                let text = "two processes speak with the credentials of this host: if the second one is not an \
                            agent of yours, make new credentials";
                self.note(Some(&heartbeat.host), text.to_owned());
            }
            return Some(format!(
                "another agent spoke for {} less than {} s ago: run one agent per host",
                heartbeat.host,
                LOST_AFTER_NS / 1_000_000_000
            ));
        }
        None
    }

    fn take_in(&mut self, now_ns: u64, heartbeat: Heartbeat) {
        let host = heartbeat.host.clone();
        let mine = heartbeat.run.as_deref() == Some(&*self.memory.plan.run);
        let member = self.members.get_mut(&host).expect("refused otherwise");
        let (mut notes, mut ready) = (Vec::new(), None);
        let first = member.seen_ns.is_none();
        let back = std::mem::replace(&mut member.lost, false);
        let reborn = member.process.is_some_and(|process| process != heartbeat.process);
        (member.seen_ns, member.process) = (Some(now_ns), Some(heartbeat.process));
        if let Work::Ready(Look { checks, .. }) = &heartbeat.work
            && mine
            && !member.ready
        {
            let clock = match (heartbeat.calendar_offset_ns, heartbeat.clock_uncertainty_ns) {
                (Some(offset_ns), Some(error_ns)) => {
                    let (offset_ms, error_ms) = (ms(offset_ns as f64), ms(error_ns as f64));
                    format!(" (calendar {offset_ms:+.1} ms, known to ±{error_ms:.2} ms)")
                }
                _ => String::new(),
            };
            let detail = (!checks.is_empty()).then(|| checks.join("; "));
            ready = Some(Note { detail, ..Note::new(Some(&host), format!("ready{clock}")) });
        }
        member.running = mine && matches!(heartbeat.work, Work::Running { .. });
        member.ready = mine && matches!(heartbeat.work, Work::Ready(_) | Work::Running { .. });
        member.waiting_at = match &heartbeat.work {
            Work::Running { waiting_at, .. } if mine => *waiting_at,
            _ => None,
        };
        // What comes again with every heartbeat is said once.
        let new = heartbeat.refusals.iter().filter(|refusal| !member.refusals.contains(refusal));
        notes.extend(new.map(|refusal| format!("did not obey: {refusal}")));
        member.refusals.clone_from(&heartbeat.refusals);
        member.wait.hear(&heartbeat.refusals);
        if member.state_error != heartbeat.state_error {
            member.state_error.clone_from(&heartbeat.state_error);
            let now = heartbeat.state_error.as_deref().map(state_not_written);
            notes.push(now.unwrap_or_else(|| "its state can be written again".to_owned()));
        }
        let fate = fate_said(&heartbeat, mine, self.memory.go);
        member.collect = self.memory.go && (!mine || matches!(heartbeat.work, Work::Idle));
        let works = matches!(heartbeat.work, Work::Ready(_) | Work::Running { .. });
        if std::mem::replace(&mut member.elsewhere, !mine && works) != member.elsewhere && member.elsewhere {
            let other = heartbeat.run.as_deref().unwrap_or_default();
            notes.push(format!("works for another run, {other}; its evidence can be collected later"));
        }
        if first {
            notes.push(format!("agent {} has appeared", heartbeat.tool_version));
        } else if reborn {
            notes.push("its agent was started again".into());
        } else if back {
            notes.push("heard of again".into());
        }
        member.last = Some(heartbeat);
        ready.into_iter().for_each(|note| self.keep(note));
        notes.into_iter().for_each(|text| self.note(Some(&host), text));
        self.settle(&host, fate);
    }

    fn settle(&mut self, host: &str, fate: Fate) {
        let known = self.memory.fates.get_mut(host).expect("every host has a fate");
        if let (
            Fate::Ended { evidence_kept: kept @ false, .. },
            Fate::Ended { how: Ended::AgentDied, why: Some(why), evidence_kept: true },
        ) = (&mut *known, &fate)
        {
            // How it ended is known; what it measured will not be sent any more.
            *kept = true;
            self.note(Some(host), format!("its evidence stays there: {why}"));
            return;
        }
        let may_become_known = match (&*known, &fate) {
            (Fate::Open, _) => true,
            // The agent had forgotten the run, and what lies in its folder says how it ended.
            (Fate::Ended { how: Ended::AgentDied, evidence_kept: false, .. }, Fate::Ended { how, .. }) => {
                *how != Ended::AgentDied
            }
            _ => false,
        };
        if !may_become_known || fate == Fate::Open {
            return;
        }
        *known = fate.clone();
        match fate {
            Fate::Refused { why } => {
                self.note(Some(host), format!("cannot take part: {why}"));
                self.stop(&format!("{host} cannot take part"));
            }
            Fate::Ended { how, why, .. } => {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                let text = match how {
                    Ended::Passed => "has carried out its tests",
                    Ended::Failed => "has carried out its tests, and a verdict failed",
                    Ended::Interrupted => "stopped in good order",
                    Ended::Aborted => "could not go on",
                    Ended::AgentDied => "its agent died",
                };
                self.note(Some(host), format!("{text}{why}"));
                let died = matches!(how, Ended::Aborted | Ended::AgentDied);
                if died && self.memory.plan.when_lost == WhenLost::Stop {
                    self.stop(&format!("{host} could not go on"));
                }
            }
            Fate::Open => {}
        }
    }

    /// Starts the tests when all hosts are ready, and releases the barrier at which all wait.
    fn advance(&mut self, now_unix_ns: u64) {
        if self.memory.stop.is_some() {
            return;
        }
        if !self.memory.go && self.members.values().all(|member| member.ready && !member.lost) {
            self.memory.go = true;
            self.say_what_is_shared();
            self.note(None, "every host is ready: the tests start".into());
        }
        let open = |host: &str| self.memory.fates[host] == Fate::Open;
        let taking_part = || self.members.iter().filter(|(host, member)| open(host) && !member.lost);
        if taking_part().any(|(_, member)| !member.running || member.waiting_at.is_none()) {
            return;
        }
        let Some(point) = taking_part().filter_map(|(_, member)| member.waiting_at).min() else { return };
        if self.memory.released.is_none_or(|(released, _)| point > released) {
            self.memory.released = Some((point, now_unix_ns + LEAD_NS));
        }
    }

    /// Hosts that are lost, or whose part ended before the run did.
    fn left(&self) -> Vec<String> {
        let has_left = |(host, member): (&String, &Member)| {
            let is_over = match &self.memory.fates[host] {
                Fate::Open => member.lost,
                Fate::Refused { .. } => true,
                Fate::Ended { how, .. } => !matches!(how, Ended::Passed | Ended::Failed),
            };
            is_over.then(|| host.clone())
        };
        if self.memory.go { self.members.iter().filter_map(has_left).collect() } else { Vec::new() }
    }

    fn orders(&self, host: &str, nonce: u64, now_unix_ns: u64, refused: Option<String>) -> Orders {
        let Memory { plan, epoch, go, stop, released, fates, given_up } = &self.memory;
        let heartbeat = self.members.get(host).and_then(|member| member.last.as_ref());
        let has_it = heartbeat.is_some_and(|heartbeat| heartbeat.run.as_ref() == Some(&plan.run));
        let is_owed = matches!(fates.get(host), Some(Fate::Ended { evidence_kept: false, .. }));
        let collect = is_owed && self.members.get(host).is_some_and(|member| member.collect);
        let wanted = collect || (!has_it && !go && stop.is_none());
        let assignment = (wanted && refused.is_none()).then(|| Assignment {
            run: plan.run.clone(),
            tool_version: plan.tool_version.clone(),
            host: host.to_owned(),
            solution: plan.solution.clone(),
            tests: plan.tests.clone(),
            seed: plan.seed,
            allow_memory: plan.allow_memory,
            when_alone: plan.when_alone,
            alone_after_ms: plan.alone_after_ms,
        });
        let ended = |wanted: bool| matches!(fates.get(host), Some(Fate::Ended { evidence_kept, .. }) if *evidence_kept == wanted);
        Orders {
            protocol: PROTOCOL,
            nonce,
            now_unix_ns,
            run: plan.run.clone(),
            epoch: *epoch,
            assignment,
            go: *go,
            stop: stop.clone(),
            released: *released,
            left: self.left(),
            send_evidence: ended(false) && !given_up.contains_key(host),
            collect,
            have_evidence: ended(true) || matches!(fates.get(host), Some(Fate::Refused { .. })),
            refused,
        }
    }
}
