//! What an agent does: a state machine without clock or sockets. Orders and times come in, heartbeats and
//! actions go out.
//!
//! Invariants
//! 1. Orders are obeyed only if they answer the last heartbeat (nonce), speak this version of the protocol, and
//!    carry an epoch that is not below the highest one obeyed for their run. Others change nothing; the next
//!    heartbeat says why.
//! 2. An agent has one run at a time. It gives up no running test for another run, and nothing that the
//!    controller of its run, as long as that one lives, still wants of it.
//! 3. [`Memory`] is durable before tests are prepared or started: an agent that died in the middle of a run
//!    knows so. An agent that cannot keep it says so in each heartbeat, and sends the evidence that it has.

use serde::{Deserialize, Serialize};

use crate::clock::ControllerClock;
use crate::message::{
    Assignment, Ended, EvidenceFile, Heartbeat, Look, Orders, PROTOCOL, Point, Program, WhenAlone, Work,
};
use crate::run_control::{Calendar, HostProgress};

/// Time after its last message for which a controller counts as alive, ns: it still needs a host that is ready, or its
/// evidence.
const CONTROLLER_LIVES_NS: u64 = 10_000_000_000;

/// Phase of an agent in its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Phase {
    /// The agent checks what the run needs.
    Preparing,
    /// The checks passed.
    Ready(Look),
    /// The host cannot take part.
    Refused {
        /// Reason, with the remedy.
        why: String,
    },
    /// The tests are running.
    Running,
    /// The host's part of the run is over.
    Ended {
        /// Ending of that part.
        how: Ended,
        /// Cause, if the part could not go on.
        why: Option<String>,
        /// Files of the evidence.
        files: Vec<EvidenceFile>,
    },
}

/// Durable state of an agent about its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Assignment of the run.
    pub assignment: Assignment,
    /// Highest epoch whose orders were obeyed.
    pub epoch: u64,
    /// Phase in the run.
    pub phase: Phase,
}

/// Action that the state machine asks the agent to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Check what the run needs, then call [`AgentState::prepared`].
    Prepare(Assignment),
    /// Carry out the tests, then call [`AgentState::ended`].
    Start(Assignment),
    /// End the tests in order.
    Stop(String),
    /// Let the tests pass the barriers up to this one at this time of the agent's clock.
    Release(Point, u64),
    /// Tell the tests which hosts have left the run.
    Left(Vec<String>),
    /// List the evidence in the run's folder, then call [`AgentState::ended`].
    Collect(Assignment),
    /// Send the evidence to the controller.
    SendEvidence(Assignment, Vec<EvidenceFile>),
}

/// State machine of an agent in a run.
#[derive(Debug)]
pub struct AgentState {
    host: String,
    program: Program,
    process: u64,
    memory: Option<Memory>,
    clock: ControllerClock,
    calendar_offset_ns: Option<i64>,
    sent: Option<(u64, u64)>,
    heard_ns: u64,
    is_alone: bool,
    stop: Option<String>,
    released: Option<(Point, u64)>,
    left: Vec<String>,
    refusals: Vec<String>,
    state_error: Option<String>,
}

impl AgentState {
    /// Starts with the stored state. `process`: random number of this agent process.
    pub fn new(
        host: &str,
        program: Program,
        process: u64,
        memory: Option<Memory>,
        left: Vec<EvidenceFile>,
    ) -> AgentState {
        let memory = memory.map(|memory| {
            let phase = match memory.phase {
                Phase::Running => {
                    let why = "the agent was started again in the middle of the tests".to_owned();
                    Phase::Ended { how: Ended::AgentDied, why: Some(why), files: left }
                }
                Phase::Preparing => {
                    Phase::Refused { why: "the agent was started again while it prepared".into() }
                }
                phase => phase,
            };
            Memory { phase, ..memory }
        });
        AgentState {
            host: host.to_owned(),
            program,
            process,
            memory,
            clock: ControllerClock::default(),
            calendar_offset_ns: None,
            sent: None,
            heard_ns: 0,
            is_alone: false,
            stop: None,
            released: None,
            left: Vec::new(),
            refusals: Vec::new(),
            state_error: None,
        }
    }

    /// State that must be durable before an action is carried out.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// Controller's clock, as far as this agent knows it.
    pub fn clock(&self) -> &ControllerClock {
        &self.clock
    }

    /// Difference between the calendar of this host and that of the controller.
    pub fn calendar(&self, now_ns: u64) -> Option<Calendar> {
        let (controller_unix_ns, uncertainty_ns) = self.clock.unix_ns(now_ns)?;
        let offset_ns = self.calendar_offset_ns?;
        Some(Calendar { offset_ns, uncertainty_ns, known_at_ns: now_ns, controller_unix_ns })
    }

    /// Reasons why orders were not obeyed since the last heartbeat.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Notes that an answer could not be parsed.
    pub fn unreadable(&mut self, why: &str) {
        self.refusals.push(format!("an answer that is not of version {PROTOCOL} of the protocol: {why}"));
    }

    /// Notes that a file of the evidence cannot be sent.
    pub fn not_sent(&mut self, why: &str) {
        self.refusals.push(format!("the evidence cannot be sent: {why}"));
    }

    /// Builds the next heartbeat.
    pub fn heartbeat(&mut self, now_ns: u64, nonce: u64, progress: &HostProgress) -> Heartbeat {
        self.sent = Some((nonce, now_ns));
        let work = match self.memory.as_ref().map(|memory| &memory.phase) {
            None | Some(Phase::Preparing) => Work::Idle,
            Some(Phase::Ready(look)) => Work::Ready(look.clone()),
            Some(Phase::Refused { why }) => Work::Refused { why: why.clone() },
            Some(Phase::Ended { how, why, files }) => {
                Work::Ended { how: *how, why: why.clone(), files: files.clone() }
            }
            Some(Phase::Running) => Work::Running {
                waiting_at: progress.waiting_at,
                progress: progress.text.clone(),
                done: progress.done,
                iops: progress.iops,
                read_latency_ms: progress.read_latency_ms,
                log_write_latency_ms: progress.log_write_latency_ms,
            },
        };
        Heartbeat {
            protocol: PROTOCOL,
            tool_version: self.program.version.clone(),
            build: self.program.build.clone(),
            host: self.host.clone(),
            process: self.process,
            nonce,
            run: self.memory.as_ref().map(|memory| memory.assignment.run.clone()),
            epoch: self.memory.as_ref().map_or(0, |memory| memory.epoch),
            work,
            calendar_offset_ns: self.calendar_offset_ns,
            clock_uncertainty_ns: self.clock.unix_ns(now_ns).map(|(_, uncertainty_ns)| uncertainty_ns),
            refusals: std::mem::take(&mut self.refusals),
            state_error: self.state_error.clone(),
        }
    }

    /// Notes whether [`Memory`] was stored. Returns those of `actions` that may be carried out: without a stored state
    /// an agent neither prepares nor starts tests, because after a restart it would not know of them.
    pub fn kept(&mut self, kept: Result<(), String>, actions: Vec<Action>) -> Vec<Action> {
        self.state_error = kept.err();
        let Some(error) = &self.state_error else { return actions };
        let why = state_not_written(error);
        let mut allowed = Vec::new();
        for action in actions {
            match action {
                Action::Prepare(_) => self.prepared(Err(why.clone())),
                Action::Start(_) => self.ended(Ended::Aborted, Some(why.clone()), Vec::new()),
                other => allowed.push(other),
            }
        }
        allowed
    }

    /// Handles orders that arrived at `now_ns`, when the agent's calendar said `calendar_unix_ns`.
    pub fn orders(&mut self, now_ns: u64, calendar_unix_ns: u64, orders: Orders) -> Vec<Action> {
        if let Some(why) = self.why_not(now_ns, &orders) {
            self.refusals.push(why);
            return Vec::new();
        }
        let (_, sent_ns) = self.sent.take().expect("orders without a heartbeat are refused");
        self.clock.exchange(sent_ns, orders.now_unix_ns, now_ns);
        self.calendar_offset_ns = self.clock.unix_ns(now_ns).and_then(|(controller_ns, _)| {
            i64::try_from(i128::from(calendar_unix_ns) - i128::from(controller_ns)).ok()
        });
        let ours = self.memory.as_mut().filter(|memory| memory.assignment.run == orders.run);
        let Some(memory) = ours else { return self.accept(now_ns, orders) };
        (self.heard_ns, self.is_alone) = (now_ns, false);
        memory.epoch = orders.epoch;
        let mut actions = Vec::new();
        match &memory.phase {
            Phase::Ready { .. } if orders.go && orders.stop.is_none() => {
                memory.phase = Phase::Running;
                actions.push(Action::Start(memory.assignment.clone()));
            }
            Phase::Running => {
                if self.left != orders.left {
                    self.left.clone_from(&orders.left);
                    actions.push(Action::Left(orders.left));
                }
                if let Some(released) = orders.released.filter(|released| self.released != Some(*released)) {
                    self.released = Some(released);
                    let (point, unix_ns) = released;
                    let at_ns = self.clock.local_ns(unix_ns, now_ns).unwrap_or(now_ns);
                    actions.push(Action::Release(point, at_ns));
                }
                if let Some(why) = orders.stop.filter(|_| self.stop.is_none()) {
                    self.stop = Some(why.clone());
                    actions.push(Action::Stop(why));
                }
            }
            Phase::Ended { files, .. } if orders.send_evidence => {
                actions.push(Action::SendEvidence(memory.assignment.clone(), files.clone()));
            }
            Phase::Ended { .. } | Phase::Refused { .. } if orders.have_evidence => self.memory = None,
            Phase::Ready { .. } if orders.stop.is_some() => self.memory = None,
            _ => {}
        }
        actions
    }

    /// Accepts the assignment of a run. Evidence of an earlier run stays in its folder.
    fn accept(&mut self, now_ns: u64, orders: Orders) -> Vec<Action> {
        let Some(assignment) = orders.assignment else { return Vec::new() };
        (self.heard_ns, self.is_alone) = (now_ns, false);
        (self.stop, self.released, self.left) = (None, None, Vec::new());
        self.memory =
            Some(Memory { assignment: assignment.clone(), epoch: orders.epoch, phase: Phase::Preparing });
        vec![if orders.collect { Action::Collect(assignment) } else { Action::Prepare(assignment) }]
    }

    /// Reason why orders are not obeyed; `None` if they are.
    fn why_not(&self, now_ns: u64, orders: &Orders) -> Option<String> {
        if orders.protocol != PROTOCOL {
            let theirs = orders.protocol;
            return Some(format!(
                "the controller speaks version {theirs} of the protocol, this agent version {PROTOCOL}"
            ));
        }
        if self.sent.is_none_or(|(nonce, _)| nonce != orders.nonce) {
            return Some(format!("orders of {} that answer no question of this agent", orders.run));
        }
        if let Some(refused) = &orders.refused {
            return Some(format!("the controller refused: {refused}"));
        }
        let memory = self.memory.as_ref()?;
        let (run, epoch) = (&memory.assignment.run, memory.epoch);
        if *run == orders.run && orders.epoch < epoch {
            let older = orders.epoch;
            return Some(format!("orders of epoch {older} of {run}, which is at epoch {epoch}"));
        }
        if *run == orders.run || orders.assignment.is_none() {
            return None;
        }
        let is_needed = now_ns.saturating_sub(self.heard_ns) <= CONTROLLER_LIVES_NS;
        let why = match &memory.phase {
            Phase::Preparing | Phase::Running => "is busy with it",
            Phase::Ready { .. } if is_needed => "is ready for it",
            Phase::Ended { files, .. } if is_needed && !files.is_empty() => "owes its evidence",
            Phase::Ready { .. } | Phase::Refused { .. } | Phase::Ended { .. } => return None,
        };
        Some(format!("{} is not taken: the agent has run {run} and {why}", orders.run))
    }

    /// Action to take if the controller was not heard for too long while tests run.
    pub fn alone(&mut self, now_ns: u64) -> Option<Action> {
        let memory = self.memory.as_ref().filter(|memory| memory.phase == Phase::Running)?;
        let limit_ns = memory.assignment.alone_after_ms * 1_000_000;
        if self.is_alone || now_ns.saturating_sub(self.heard_ns) < limit_ns {
            return None;
        }
        self.is_alone = true;
        // When the controller is back, it is asked again how far everyone may go.
        self.released = None;
        match memory.assignment.when_alone {
            WhenAlone::Finish => {
                // Every place there is.
                Some(Action::Release(Point(u32::MAX), now_ns))
            }
            WhenAlone::Stop => {
                self.stop.get_or_insert_with(|| "the controller was not heard of".into());
                self.stop.clone().map(Action::Stop)
            }
        }
    }

    /// Notes the result of the preparation.
    pub fn prepared(&mut self, outcome: Result<Look, String>) {
        if let Some(memory) = &mut self.memory {
            memory.phase = match outcome {
                Ok(look) => Phase::Ready(look),
                Err(why) => Phase::Refused { why },
            };
        }
    }

    /// Notes the ending of the tests.
    pub fn ended(&mut self, how: Ended, why: Option<String>, files: Vec<EvidenceFile>) {
        if let Some(memory) = &mut self.memory {
            memory.phase = Phase::Ended { how, why, files };
        }
    }
}

/// Message about a state that could not be stored.
pub(crate) fn state_not_written(error: &str) -> String {
    format!("it cannot write its state: {error}")
}
