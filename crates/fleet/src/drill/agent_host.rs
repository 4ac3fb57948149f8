//! One host of a drill as its agent sees it: the process with its copies, and its journal.
//!
//! Invariants
//! 1. Only the process that holds the copies ([`super::process`]) is ever killed or cut off.
//! 2. A process that ends without being told to ends the host's part of the run as one that could not go on.

use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use campaign::CampaignError;
use campaign::drill::{DrillHosts, Entry, Happening, JournalContent, PlannedDrill};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use replication::{DatabaseId, FromArbiter};
use world::World;
use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};

use super::journal::Journal;
use super::process::{FromProcess, Order, Purpose, hear, monotonic_ns, say, unix_ns};
use super::{COMMAND, number_of};
use crate::arbiter::{ArbiterLink, Speaker};
use crate::clock::{Dates, Reading};
use crate::message::Assignment;
use crate::run_control::{HostProgress, RunControl};

/// Interval at which the agent looks for due events and requests.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Smallest step of the calendar against the monotonic clock between two looks that counts as set rather than slewed,
/// ms.
const CALENDAR_STEP_MIN_MS: i64 = 500;

type Done<T = ()> = Result<T, CampaignError>;

/// Event of an agent during a drill.
enum AgentEvent {
    /// Message of the copy process with this start number.
    Process(u32, FromProcess),
    /// The copy process with this start number has ended.
    Gone(u32),
    /// Message of the arbiter.
    Arbiter(DatabaseId, FromArbiter),
}

struct CopiesProcess {
    boot: u32,
    child: Child,
    orders: ChildStdin,
}

impl Drop for CopiesProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Arguments of an agent's part of a drill.
pub(super) struct Given<'a> {
    pub planned: &'a PlannedDrill,
    pub assignment: &'a Assignment,
    pub host: usize,
    pub credentials: PathBuf,
    pub direct: bool,
    pub control: &'a RunControl,
    pub journal: Journal,
    pub world: World,
}

/// Host of an agent in a drill: its copy process, journal and barriers.
pub(super) struct AgentHost<'a> {
    given: Given<'a>,
    speaker: Speaker,
    dates: Dates,
    /// Last difference between this host's calendar and its monotonic clock, ns.
    calendar_ns: Option<i64>,
    events: UnboundedReceiver<AgentEvent>,
    tell: UnboundedSender<AgentEvent>,
    process: Option<CopiesProcess>,
    /// Number of starts of this host's copy process.
    boots: u32,
    /// Numbers of hosts that have left the drill.
    left: Vec<String>,
    is_closed: bool,
    /// Phase of the host in the drill, as text for people.
    phase: String,
    /// Share of the window that is over.
    done: f64,
}

impl<'a> AgentHost<'a> {
    pub fn new(given: Given<'a>, mut link: ArbiterLink) -> AgentHost<'a> {
        let (tell, events) = unbounded();
        let (speaker, from_arbiter) = (link.speaker(), tell.clone());
        drop(given.world.spawn(async move {
            while let Some((database, message)) = link.hear().await {
                if from_arbiter.unbounded_send(AgentEvent::Arbiter(database, message)).is_err() {
                    return;
                }
            }
        }));
        AgentHost {
            given,
            speaker,
            dates: Dates::default(),
            calendar_ns: None,
            events,
            tell,
            process: None,
            boots: 0,
            left: Vec::new(),
            is_closed: false,
            phase: String::new(),
            done: 0.0,
        }
    }

    /// Ends the host's part: closes its journal.
    pub fn end(self) -> Done {
        let ended = self.date(None).unix_ns;
        self.given.journal.end(ended).map_err(|error| not_kept(&error))
    }

    fn order(&self, order: &Order) {
        if let Some(process) = &self.process {
            // If it is gone, its reader says so.
            say(&process.orders, order);
        }
    }

    /// Starts the process that holds the copies.
    fn start_process(&mut self, is_new: bool) -> Done {
        let cannot = |error: std::io::Error| {
            CampaignError::Drill(format!("the process for the copies cannot be started: {error}"))
        };
        self.boots += 1;
        // This very program, even if another file has taken its place since the agent started.
        let mut child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C for the agent is none for the copies, which the agent still has to end in order.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let (Some(orders), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CampaignError::Drill("the process for the copies has no pipes".to_owned()));
        };
        let (boot, tell) = (self.boots, self.tell.clone());
        std::thread::spawn(move || {
            let pass = |said| drop(tell.unbounded_send(AgentEvent::Process(boot, said)));
            hear(BufReader::new(said), pass, || drop(tell.unbounded_send(AgentEvent::Gone(boot))));
        });
        let Given { assignment, host, credentials, direct, .. } = &self.given;
        let purpose = Purpose {
            solution: assignment.solution.clone(),
            tests: assignment.tests.clone(),
            host: *host,
            boot,
            seed: assignment.seed,
            is_new,
            direct: *direct,
            credentials: credentials.clone(),
        };
        say(&orders, &purpose);
        self.process = Some(CopiesProcess { boot, child, orders });
        Ok(())
    }

    /// Whether a start number is that of the present copy process.
    fn is_current(&self, boot: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.boot == boot)
    }

    fn hear(&mut self, event: AgentEvent) -> Done<Option<Happening>> {
        match event {
            AgentEvent::Arbiter(database, message) => self.order(&Order::FromArbiter(database, message)),
            AgentEvent::Gone(boot) if self.is_current(boot) => {
                let ended = self.process.as_mut().and_then(|process| process.child.wait().ok());
                let how = ended.map_or(String::new(), |status| format!(" ({status})"));
                return Err(CampaignError::Drill(format!(
                    "the process with the copies of this host has ended{how}; its last words are in the agent's log"
                )));
            }
            AgentEvent::Gone(_) => {}
            AgentEvent::Process(boot, said) => return self.hear_process(boot, said),
        }
        Ok(None)
    }

    fn hear_process(&mut self, boot: u32, said: FromProcess) -> Done<Option<Happening>> {
        let (host, is_current) = (self.given.host, self.is_current(boot));
        match said {
            FromProcess::Failed(why) if is_current => return Err(CampaignError::Drill(why)),
            FromProcess::ToArbiter(message) if is_current => self.speaker.say(message),
            FromProcess::Failed(_) | FromProcess::ToArbiter(_) => {}
            FromProcess::Ready => {
                self.order(&Order::Left(self.numbers_of_left()));
                if self.is_closed {
                    self.order(&Order::Close);
                }
            }
            // What a process said before it was killed counts, whenever it is heard.
            FromProcess::Observed(at_ns, observed) => {
                return Ok(Some(Happening::Observed { host, at_ns, observed }));
            }
            FromProcess::Sample { at_ns, copies, rows, is_settled } => {
                let is_settled = is_settled && is_current;
                return Ok(Some(Happening::Sampled { host, at_ns, copies, rows, is_settled }));
            }
            FromProcess::Compared(compared) => return Ok(Some(Happening::Compared { host, compared })),
        }
        Ok(None)
    }

    /// Controller time at a time of the host's monotonic clock, or now.
    fn date(&self, at_ns: Option<u64>) -> Reading {
        let local_ns = monotonic_ns();
        self.dates.date(at_ns.unwrap_or(local_ns), local_ns, self.given.control.controller_now())
    }

    fn numbers_of_left(&self) -> Vec<usize> {
        self.left.iter().filter_map(|host| number_of(&self.given.planned.topology, host)).collect()
    }

    /// Tells the copies which hosts have left the drill, so that none waits for theirs. Returns new ones.
    fn look_who_left(&mut self) -> Option<String> {
        let left = self.given.control.left();
        if left == self.left {
            return None;
        }
        let before = std::mem::replace(&mut self.left, left);
        self.order(&Order::Left(self.numbers_of_left()));
        let new = self.left.iter().filter(|host| !before.contains(host)).map(String::as_str);
        let new: Vec<&str> = new.collect();
        (!new.is_empty()).then(|| format!("goes on without {}", new.join(", ")))
    }

    /// Reports that this host's calendar was set. Nothing depends on it, but it explains the host's logs.
    fn look_at_calendar(&mut self) -> Option<String> {
        let ahead_ns = unix_ns() as i64 - monotonic_ns() as i64;
        let before_ns = self.calendar_ns.replace(ahead_ns)?;
        let step_ms = (ahead_ns - before_ns) / 1_000_000;
        let direction = if step_ms > 0 { "forward" } else { "back" };
        let step_s = step_ms.abs() as f64 / 1e3;
        let is_step = step_ms.abs() >= CALENDAR_STEP_MIN_MS;
        is_step.then(|| format!("the calendar of this host was set {direction} by {step_s:.1} s"))
    }

    /// Reports the campaign's progress to the controller. The drill is its last test.
    fn report(&self) {
        let ordinal = self.given.planned.ordinal;
        self.given.control.report(HostProgress {
            text: format!("[{ordinal}/{ordinal}] drill: {}", self.phase),
            done: (f64::from(ordinal - 1) + self.done) / f64::from(ordinal),
            ..HostProgress::default()
        });
    }
}

pub(super) fn not_kept(error: &dyn std::fmt::Display) -> CampaignError {
    CampaignError::Drill(format!("the journal of the drill cannot be kept: {error}"))
}

impl DrillHosts for AgentHost<'_> {
    fn now_ms(&self) -> u64 {
        self.given.world.now().ns / 1_000_000
    }

    async fn start(&mut self) -> Done {
        self.start_process(true)
    }

    fn kill(&mut self, _: usize) {
        self.process = None;
    }

    async fn restart(&mut self, _: usize) -> Done {
        self.start_process(false)
    }

    fn cut_off(&mut self, _: usize) {
        self.order(&Order::CutOff(true));
    }

    fn heal(&mut self, _: usize) {
        self.order(&Order::CutOff(false));
    }

    fn fail_volume(&mut self, _: usize, volume: &str) {
        self.order(&Order::FailVolume(volume.to_owned()));
    }

    async fn replace_volume(&mut self, _: usize, volume: &str) -> Done {
        // Its copies count as started again.
        self.boots += 1;
        self.order(&Order::ReplaceVolume(volume.to_owned()));
        Ok(())
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.order(&Order::Close);
    }

    async fn compare(&mut self) -> Done {
        self.order(&Order::Compare);
        Ok(())
    }

    async fn next(&mut self, until_ms: u64) -> Done<Option<Happening>> {
        if self.given.control.stop_asked().is_some() {
            return Err(CampaignError::Interrupted);
        }
        if let Some(text) = self.look_at_calendar().or_else(|| self.look_who_left()) {
            return Ok(Some(Happening::Noticed { host: self.given.host, text }));
        }
        // Most events mean nothing to the conductor.
        while let Ok(event) = self.events.try_recv() {
            if let Some(happening) = self.hear(event)? {
                return Ok(Some(happening));
            }
        }
        let left = Duration::from_millis(until_ms.saturating_sub(self.now_ms()));
        if left.is_zero() {
            return Ok(None);
        }
        let world = self.given.world.clone();
        let pause = pin!(world.sleep(left.min(LOOK_EVERY)));
        match select(self.events.next(), pause).await {
            Either::Left((Some(event), _)) => self.hear(event),
            Either::Left((None, _)) | Either::Right(_) => Ok(None),
        }
    }

    fn write(&mut self, _: usize, at_ns: Option<u64>, said: JournalContent) -> Done {
        if let (JournalContent::WindowOpens, Some(now)) = (&said, self.given.control.controller_now()) {
            self.dates.begin(monotonic_ns(), now);
        }
        let Reading { unix_ns, error_ns } = self.date(at_ns);
        self.given.journal.add(&Entry { unix_ns, error_ns, said }).map_err(|error| not_kept(&error))
    }

    fn phase(&mut self, text: &str) {
        self.phase = text.to_owned();
        self.report();
    }

    fn failing(&mut self, _: f64, text: &str) {
        self.phase(text);
    }

    fn progress(&mut self, done: f64) {
        self.done = done;
        self.report();
    }
}
