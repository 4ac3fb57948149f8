//! The agent of a host: keeps [`AgentState`] going over the bus and carries out its actions.
//!
//! Below its own folder it keeps `agent.json` (what it must not forget) and `runs/<run>/` (the evidence, never
//! removed by it, with `ended.json`, which says how the run ended here).
//!
//! Limits: one agent per folder, held by a lock; tests run on threads of their own, so the bus never waits for them.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use world::channel::UnboundedSender;

use crate::agent_state::{Action, AgentState, Memory, state_not_written};
use crate::arbiter::ArbiterLink;
use crate::bus::{Bus, BusError};
use crate::credentials::Credentials;
use crate::files::{describe, is_plain_name, read_json, read_state, replace_json, replace_state};
use crate::message::{
    Assignment, CHUNK_BYTES, Chunk, ChunkAnswer, CopyHead, Ended, EvidenceFile, Look, PROTOCOL, Program,
    format, format_headed, parse, parse_headed, tame,
};
use crate::run_control::{Clock, RunControl};
use crate::subjects::{copy_inbox, subject};

/// Time between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Pause before the next attempt to connect.
const RECONNECT: Duration = Duration::from_secs(1);

/// Work of a host for a run, as the agent calls it on threads of their own. Calls may block.
pub trait HostWork: Send + Sync + 'static {
    /// Checks everything that the run will need on this host, by the same code as the run, and returns what it saw.
    fn prepare(&self, assignment: &Assignment) -> Result<Look, String>;
    /// Carries out the tests, stores the evidence in `folder`, and returns the ending with its cause. Copies on this
    /// host reach their arbiter through `arbiter`.
    fn run(
        &self,
        assignment: &Assignment,
        folder: &Path,
        control: &RunControl,
        arbiter: ArbiterLink,
    ) -> (Ended, Option<String>);
}

/// Reason why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The credentials are those of a controller.
    #[error("these are the controller's credentials; an agent takes those of its host")]
    NotAHost,
    /// A file or folder of the agent's state cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Another agent uses the same folder.
    #[error("another agent works in {}", .0.display())]
    Locked(PathBuf),
    /// The operating system gives no random numbers.
    #[error("no random numbers")]
    Random,
}

impl AgentError {
    /// Remedy for the reason.
    pub fn help(&self) -> &'static str {
        match self {
            AgentError::NotAHost => "name a file below agents/",
            AgentError::File { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => {
                "install the proofload that wrote it, or name another --state folder"
            }
            AgentError::File { .. } => "check the permissions and the space on that disk",
            AgentError::Locked(_) => "run one agent per host, or give each its own --state",
            AgentError::Random => "an agent needs getrandom(2) of the kernel",
        }
    }
}

enum Done {
    Prepared(Result<Look, String>),
    Ended(Ended, Option<String>, Vec<EvidenceFile>),
    /// Result of sending evidence: what existed was sent, or why a file cannot be.
    Sent(Option<String>),
}

/// Name of the file in a run's folder that says how the run ended on this host.
const END: &str = "ended.json";

/// Contents of that file: the ending of a run, for an agent that lost its state.
#[derive(Serialize, Deserialize)]
struct EndRecord {
    how: Ended,
    why: Option<String>,
}

/// Copies of the run that is being carried out.
struct Copies {
    /// Run and epoch of the orders that were obeyed last. Messages with another head are ignored.
    head: CopyHead,
    /// Channel for messages from the arbiter.
    hear: UnboundedSender<Vec<u8>>,
}

/// Connection to the bus, and when to try again.
struct Line {
    bus: Option<Arc<Bus>>,
    next_try: Instant,
    /// Last reported reason why it could not connect.
    told: Option<String>,
    /// Queue for messages of copies, which do not wait for the answers to heartbeats.
    talk: JoinSet<()>,
}

/// Agent with its state folder.
pub struct Agent {
    credentials: Credentials,
    folder: PathBuf,
    _lock: File,
    state: AgentState,
    saved: Option<Memory>,
    /// Reason why the last attempt to store the state failed; `None` if it did not.
    state_error: Option<String>,
    clock: Clock,
    random: SystemRandom,
    work: Arc<dyn HostWork>,
    control: RunControl,
    copies: Rc<RefCell<Option<Copies>>>,
    speaking: (mpsc::UnboundedSender<Vec<u8>>, Option<mpsc::UnboundedReceiver<Vec<u8>>>),
    sending: bool,
    /// Thread that carries out tests, while they run.
    working: bool,
    done: (mpsc::UnboundedSender<Done>, mpsc::UnboundedReceiver<Done>),
}

impl Agent {
    /// Starts an agent with the state that an earlier one left in `folder`, if any.
    pub fn new(
        credentials: Credentials,
        folder: &Path,
        program: Program,
        work: Arc<dyn HostWork>,
    ) -> Result<Agent, AgentError> {
        if credentials.are_controllers() {
            return Err(AgentError::NotAHost);
        }
        let failed = |path: &Path, source| AgentError::File { path: path.to_owned(), source };
        let runs = folder.join("runs");
        fs::create_dir_all(&runs).map_err(|source| failed(&runs, source))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(|source| failed(&path, source))?;
        lock.try_lock().map_err(|_| AgentError::Locked(folder.to_owned()))?;
        let path = folder.join("agent.json");
        let memory: Option<Memory> = read_state(&path).map_err(|source| failed(&path, source))?;
        let left = match &memory {
            Some(memory) => {
                let evidence = runs.join(&memory.assignment.run);
                describe(&evidence).map_err(|source| failed(&evidence, source))?
            }
            None => Vec::new(),
        };
        let (random, clock) = (SystemRandom::new(), Clock::new());
        let state = AgentState::new(&credentials.name, program, draw(&random)?, memory, left);
        Ok(Agent {
            credentials,
            folder: folder.to_owned(),
            _lock: lock,
            state,
            saved: None,
            state_error: None,
            clock,
            random,
            work,
            control: RunControl::new(clock),
            copies: Rc::default(),
            speaking: {
                let (speak, spoken) = mpsc::unbounded_channel();
                (speak, Some(spoken))
            },
            sending: false,
            working: false,
            done: mpsc::unbounded_channel(),
        })
    }

    /// Serves until `end_asked` returns true and the tests under way have ended in order. Calls `say` with messages
    /// for people.
    pub async fn serve(
        mut self,
        mut say: impl FnMut(String),
        end_asked: impl Fn() -> bool,
    ) -> Result<(), AgentError> {
        // The controller of a run has no say over the terminal of a host.
        let mut say = |text: String| say(tame(&text));
        let mut told_refusals: Vec<String> = Vec::new();
        let mut heartbeats = interval(HEARTBEAT_INTERVAL);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut line = Line { bus: None, next_try: Instant::now(), told: None, talk: JoinSet::new() };
        loop {
            tokio::select! {
                _ = heartbeats.tick() => {}
                Some(done) = self.done.1.recv() => self.take_in(done),
            }
            if end_asked() {
                if !self.working {
                    return Ok(());
                }
                self.control.stop("the agent was asked to end".into());
            }
            self.connect(&mut line, &mut say).await;
            if let Some(bus) = &line.bus
                && let Some(answer) = self.ask(bus, &mut say).await?
            {
                // What comes again with every heartbeat is said once.
                let refusals = self.state.refusals().to_vec();
                let new = refusals.iter().filter(|refusal| !told_refusals.contains(refusal));
                new.for_each(|refusal| say(format!("did not obey: {refusal}")));
                told_refusals = refusals;
                for action in answer {
                    self.carry_out(action, bus, &mut say);
                }
            }
            if let Some(action) = self.state.alone(self.clock.now_ns()) {
                say("the controller has not been heard of for too long".into());
                match action {
                    Action::Release(point, at_ns) => self.control.release(point, at_ns, true),
                    Action::Stop(why) => self.control.stop(why),
                    _ => {}
                }
            }
        }
    }

    /// Connects to the bus, if it is time for an attempt.
    async fn connect(&mut self, line: &mut Line, say: &mut impl FnMut(String)) {
        if line.bus.is_some() || Instant::now() < line.next_try {
            return;
        }
        let (host, server) = (self.credentials.name.clone(), &self.credentials.server);
        match Bus::connect(&self.credentials).await {
            Ok(bus) => {
                say(format!("connected to {server} (nats-server {})", bus.server_version()));
                let bus = Arc::new(bus);
                line.talk.spawn_local(hear_arbiter(bus.clone(), host.clone(), self.copies.clone()));
                if let Some(spoken) = self.speaking.1.take() {
                    line.talk.spawn_local(speak(bus.clone(), host, self.copies.clone(), spoken));
                }
                (line.bus, line.told) = (Some(bus), None);
            }
            Err(error) => {
                line.next_try = Instant::now() + RECONNECT;
                let text = error.to_string();
                if line.told.as_ref() != Some(&text) {
                    say(format!("{text}; trying again"));
                    line.told = Some(text);
                }
            }
        }
    }

    async fn ask(
        &mut self,
        bus: &Arc<Bus>,
        say: &mut impl FnMut(String),
    ) -> Result<Option<Vec<Action>>, AgentError> {
        self.save(Vec::new(), say);
        let nonce = draw(&self.random)?;
        let heartbeat = self.state.heartbeat(self.clock.now_ns(), nonce, &self.control.progress());
        let answer = bus.ask(subject(&self.credentials.name, "beat"), format(&heartbeat)).await;
        let now_ns = self.clock.now_ns();
        let Ok(payload) = answer else { return Ok(None) };
        let orders = match parse(&payload) {
            Ok(orders) => orders,
            Err(error) => {
                self.state.unreadable(&error.to_string());
                return Ok(Some(Vec::new()));
            }
        };
        let calendar =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let actions = self.state.orders(now_ns, calendar, orders);
        self.control.know(self.state.calendar(now_ns));
        Ok(Some(self.save(actions, say)))
    }

    /// Stores the agent's state. Returns those of `actions` that may be carried out then.
    fn save(&mut self, actions: Vec<Action>, say: &mut impl FnMut(String)) -> Vec<Action> {
        let kept = self.replace_memory().map_err(|error| error.to_string());
        let error = kept.as_ref().err();
        if error != self.state_error.as_ref() {
            say(match error {
                Some(error) => format!("{}; trying again", state_not_written(error)),
                None => "its state can be written again".into(),
            });
            self.state_error = error.cloned();
        }
        self.state.kept(kept, actions)
    }

    fn replace_memory(&mut self) -> Result<(), AgentError> {
        let memory = self.state.memory();
        if let (Some(memory), Some(copies)) = (memory, &mut *self.copies.borrow_mut()) {
            copies.head.epoch = memory.epoch;
        }
        if self.saved.as_ref() == memory {
            return Ok(());
        }
        let path = self.folder.join("agent.json");
        let kept = match memory {
            Some(memory) => replace_state(&path, memory),
            None => fs::remove_file(&path),
        };
        kept.map_err(|source| AgentError::File { path, source })?;
        self.saved = memory.cloned();
        Ok(())
    }

    fn take_in(&mut self, done: Done) {
        match done {
            Done::Prepared(outcome) => self.state.prepared(outcome),
            Done::Ended(how, why, files) => {
                self.working = false;
                self.copies.take();
                self.state.ended(how, why, files);
            }
            Done::Sent(problem) => {
                self.sending = false;
                problem.into_iter().for_each(|why| self.state.not_sent(&why));
            }
        }
    }

    /// Folder of a run's evidence. The run's name must be a plain file name.
    fn folder_of(&self, assignment: &Assignment) -> PathBuf {
        self.folder.join("runs").join(&assignment.run)
    }

    /// Starts the tests on a thread of their own.
    fn start(&mut self, assignment: Assignment, done: mpsc::UnboundedSender<Done>) {
        self.working = true;
        let (work, control, folder) = (self.work.clone(), self.control.clone(), self.folder_of(&assignment));
        let (link, hear) = ArbiterLink::new(self.speaking.0.clone());
        let epoch = self.state.memory().map_or(0, |memory| memory.epoch);
        *self.copies.borrow_mut() = Some(Copies { head: CopyHead::new(&assignment.run, epoch), hear });
        std::thread::spawn(move || {
            let (how, why) = match fs::create_dir(&folder) {
                Ok(()) => work.run(&assignment, &folder, &control, link),
                Err(error) => (Ended::Aborted, Some(format!("{}: {error}", folder.display()))),
            };
            // Without it a later agent only does not know how the run ended.
            let _ = replace_json(&folder.join(END), &EndRecord { how, why: why.clone() });
            let (files, why) = match describe(&folder) {
                Ok(files) => (files, why),
                Err(error) => (Vec::new(), why.or(Some(format!("the evidence cannot be read: {error}")))),
            };
            let _ = done.send(Done::Ended(how, why, files));
        });
    }

    fn carry_out(&mut self, action: Action, bus: &Arc<Bus>, say: &mut impl FnMut(String)) {
        let done = self.done.0.clone();
        match action {
            Action::Prepare(assignment) => {
                say(format!("preparing {} as {}", assignment.run, assignment.host));
                self.control = RunControl::new(self.clock);
                let (work, folder) = (self.work.clone(), self.folder_of(&assignment));
                std::thread::spawn(move || {
                    let outcome = if !is_plain_name(&assignment.run) {
                        Err(format!("`{}` cannot be the name of a run", assignment.run.escape_debug()))
                    } else if folder.exists() {
                        Err(format!("this host has evidence of {} already", assignment.run))
                    } else {
                        work.prepare(&assignment)
                    };
                    let _ = done.send(Done::Prepared(outcome));
                });
            }
            Action::Start(assignment) => {
                say(format!("{} has started", assignment.run));
                self.start(assignment, done);
            }
            Action::Left(hosts) => self.control.leave(hosts),
            Action::Collect(assignment) => {
                let folder = self.folder_of(&assignment);
                let (files, end) = match is_plain_name(&assignment.run) {
                    true => (describe(&folder).unwrap_or_default(), read_json(&folder.join(END))),
                    false => (Vec::new(), Ok(None)),
                };
                let EndRecord { how, why } = end.ok().flatten().unwrap_or_else(|| EndRecord {
                    how: Ended::AgentDied,
                    why: Some(format!("the agent had lost its memory of {}", assignment.run)),
                });
                let _ = done.send(Done::Ended(how, why, files));
            }
            Action::Stop(why) => {
                say(format!("asked to stop: {why}"));
                self.control.stop(why);
            }
            Action::Release(point, at_ns) => self.control.release(point, at_ns, false),
            Action::SendEvidence(assignment, files) => {
                if std::mem::replace(&mut self.sending, true) {
                    return;
                }
                let (bus, host) = (bus.clone(), self.credentials.name.clone());
                let folder = self.folder_of(&assignment);
                tokio::task::spawn_local(async move {
                    let mut problem = None;
                    for file in files {
                        let name = file.name.clone();
                        match send(&bus, &host, &assignment.run, &folder, file).await {
                            Ok(()) => {}
                            // The file stays as it is; the controller needs to know why it does not come.
                            Err(SendError::File(error)) => problem = Some(format!("{name}: {error}")),
                            Err(SendError::Short) => problem = Some(format!("{name} has become shorter")),
                            // What does not get through is asked for again.
                            Err(SendError::Bus(_) | SendError::Refused) => break,
                        }
                    }
                    let _ = done.send(Done::Sent(problem));
                });
            }
        }
    }
}

/// Passes messages of the run's arbiter on to the copies.
async fn hear_arbiter(bus: Arc<Bus>, host: String, copies: Rc<RefCell<Option<Copies>>>) {
    loop {
        if let Ok(mut heard) = bus.hear(copy_inbox(&host)).await {
            while let Some(message) = heard.next().await {
                let Ok((head, message)) = parse_headed::<CopyHead>(&message.payload) else { continue };
                if let Some(copies) = copies.borrow().as_ref().filter(|copies| copies.head == head) {
                    // They are gone only with their run.
                    let _ = copies.hear.unbounded_send(message.to_vec());
                }
            }
        }
        sleep(RECONNECT).await;
    }
}

/// Passes messages of the copies on to the arbiter.
async fn speak(
    bus: Arc<Bus>,
    host: String,
    copies: Rc<RefCell<Option<Copies>>>,
    mut spoken: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Some(message) = spoken.recv().await {
        let head = copies.borrow().as_ref().map(|copies| copies.head.clone());
        if let Some(head) = head {
            bus.say(subject(&host, "copy"), format_headed(&head, &message)).await;
        }
    }
}

fn draw(random: &SystemRandom) -> Result<u64, AgentError> {
    let mut bytes = [0; 8];
    random.fill(&mut bytes).map_err(|_| AgentError::Random)?;
    Ok(u64::from_le_bytes(bytes))
}

#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("the controller did not take it")]
    Refused,
    #[error("the file has become shorter")]
    Short,
}

/// Sends a file, from where the controller's copy of it ends.
async fn send(bus: &Bus, host: &str, run: &str, folder: &Path, file: EvidenceFile) -> Result<(), SendError> {
    let mut source = File::open(folder.join(&file.name))?;
    let head = |offset| Chunk {
        protocol: PROTOCOL,
        host: host.to_owned(),
        run: run.to_owned(),
        file: file.clone(),
        offset,
    };
    let mut buffer = vec![0; CHUNK_BYTES];
    // The first question has no bytes: it asks how much is there.
    let (mut offset, mut read) = (u64::MAX, 0);
    loop {
        let payload = format_headed(&head(offset), &buffer[..read]);
        let answer = bus.ask(subject(host, "chunk"), payload).await?;
        let answer: ChunkAnswer = parse(&answer).map_err(|_| SendError::Refused)?;
        if answer.refused.is_some() || answer.kept > file.bytes {
            return Err(SendError::Refused);
        }
        if answer.kept == file.bytes {
            return Ok(());
        }
        offset = answer.kept;
        source.seek(SeekFrom::Start(offset))?;
        read = source.read(&mut buffer)?;
        if read == 0 {
            return Err(SendError::Short);
        }
    }
}
