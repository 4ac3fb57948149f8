//! The controller of a run: keeps [`Membership`] going over the bus, and collects the evidence.
//!
//! Below the folder of the run it keeps `fleet.json` (what it must not forget, replaced durably before orders
//! go out), `fleet.log` (what happened), and `hosts/<host>/` (each host's evidence; a file that is not whole is
//! named `*.part`), and `arbiter/` where there are copies. A controller that died is followed by another one
//! with the same folder: agents obey the newer of the two. While it conducts a run it keeps the time of its
//! last sign of life in `controller-<epoch>.alive`, and removes that file when it ends in good order.
//!
//! Limits: memory does not grow with the length of a run, only with the number of hosts; evidence goes to disk
//! chunk by chunk.

mod bus_watch;
mod error;
mod incoming;
mod predecessor;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use campaign::drill::{ARBITER_NAME, Entry, JournalContent, JournalHead, PlannedDrill, stays_dismounted};
use futures_util::StreamExt;
use replication::{ArbiterEvent, DatabaseId, DatabaseSpec};
use tokio::time::{MissedTickBehavior, interval};

use bus_watch::{BusWatch, LIMIT_S, News};
use incoming::{Change, keep};

pub use error::ControllerError;

use crate::arbiter::{ArbiterOutput, ArbiterThread, Arbitration};
use crate::bus::Bus;
use crate::credentials::Credentials;
use crate::drill::{Journal, arbitration};
use crate::files::{is_plain_name, read_state, replace_state};
use crate::log::{self, EventLog};
use crate::membership::{Membership, Memory, Note, Plan};
use crate::message::{
    Chunk, ChunkAnswer, ControllerHead, CopyHead, EvidenceFile, Heartbeat, Orders, PROTOCOL, Work, format,
    format_headed, parse, parse_headed,
};
use crate::run_control::Clock;
use crate::server::Server;
use crate::subjects::{CONTROLLERS, copy_inbox, token};

/// Ending cause of a run that a user ended.
pub const ASKED: &str = "someone asked for it";
/// Interval between two looks at what is due.
const TICK: Duration = Duration::from_millis(500);
/// Interval at which the controller stores that it is alive, ms.
const ALIVE_EVERY_MS: u64 = 1_000;
/// Time for which agents are told about the end of a run.
const FAREWELL: Duration = Duration::from_millis(1500);

/// View of a run for people.
pub trait Watcher {
    /// Shows an event.
    fn note(&mut self, note: &Note);
    /// Shows the state of all hosts; called about once a second.
    fn look(&mut self, membership: &Membership);
    /// Number of times that the user asked for the end of the run.
    fn interrupts(&self) -> u32;
}

/// Controller of a run.
pub struct Controller {
    credentials: Credentials,
    folder: PathBuf,
    membership: Membership,
    clock: Clock,
    /// Calendar time at which the controller's clock started. Hosts hear that time plus the clock, because setting the
    /// calendar would move agreed moments.
    started_unix_ns: u64,
    saved: Option<Memory>,
    /// Time of the last sign of life, ms since 1970.
    alive_ms: u64,
    server: Option<Server>,
    bus_watch: BusWatch,
    arbiter: Option<ArbiterThread>,
    /// Journal of the arbiter's decisions in a drill.
    journal: Option<Journal>,
    /// Databases of a drill with their names.
    drilled: BTreeMap<DatabaseId, (String, DatabaseSpec)>,
    log: EventLog,
}

impl Controller {
    /// Creates a run in an existing `folder` that holds none.
    pub fn new(credentials: Credentials, folder: &Path, plan: Plan) -> Result<Controller, ControllerError> {
        if folder.join("fleet.json").exists() {
            let what = "there is a run of a fleet already; resume it, or take another folder";
            return Err(ControllerError::Folder { folder: folder.to_owned(), what });
        }
        let clock = Clock::new();
        Controller::with(credentials, folder, clock, Membership::new(plan, clock.now_ns()))
    }

    /// Resumes the run in `folder` after its controller died.
    pub fn resume(credentials: Credentials, folder: &Path) -> Result<Controller, ControllerError> {
        let path = folder.join("fleet.json");
        let memory = read_state(&path).map_err(|source| ControllerError::File { path, source })?;
        let what = "there is no run of a fleet";
        let memory = memory.ok_or(ControllerError::Folder { folder: folder.to_owned(), what })?;
        let clock = Clock::new();
        Controller::with(credentials, folder, clock, Membership::resume(memory, clock.now_ns()))
    }

    fn with(
        credentials: Credentials,
        folder: &Path,
        clock: Clock,
        membership: Membership,
    ) -> Result<Controller, ControllerError> {
        if !credentials.are_controllers() {
            return Err(ControllerError::NotTheController(credentials.name));
        }
        let hosts = folder.join("hosts");
        fs::create_dir_all(&hosts).map_err(|source| ControllerError::File { path: hosts, source })?;
        let log = EventLog::open(folder)
            .map_err(|source| ControllerError::File { path: folder.join("fleet.log"), source })?;
        let folder = folder.to_owned();
        let (saved, server, arbiter) = (None, None, None);
        let started_unix_ns = unix_ns() - clock.now_ns();
        let mut controller = Controller {
            credentials,
            folder,
            membership,
            clock,
            started_unix_ns,
            saved,
            alive_ms: 0,
            server,
            bus_watch: BusWatch::default(),
            arbiter,
            journal: None,
            drilled: BTreeMap::new(),
            log,
        };
        controller.save()?;
        Ok(controller)
    }

    /// Starts a NATS server and restarts it if it ends.
    pub fn with_server(self, server: Server) -> Controller {
        Controller { server: Some(server), ..self }
    }

    /// Adds the arbiter for the run's copies. Its record is in `arbiter/` below the folder of the run, where a resumed
    /// controller finds it.
    pub fn with_arbiter(self, copies: Arbitration) -> Controller {
        let arbiter = ArbiterThread::start(self.folder.join("arbiter"), copies);
        Controller { arbiter: Some(arbiter), ..self }
    }

    /// Adds the arbiter of a drill ([`Controller::with_arbiter`]) with its journal. If the journal cannot be
    /// continued, for example because it is ended, the evidence is collected all the same, and the judge reports the
    /// journal.
    pub fn with_drill(mut self, planned: &PlannedDrill) -> Controller {
        let Plan { run, solution, .. } = &self.memory().plan;
        let head = JournalHead::new(run, ARBITER_NAME, solution);
        match Journal::open(&self.folder, &head) {
            Ok(journal) => self.journal = Some(journal),
            Err(error) => {
                self.membership.say(format!("the journal of the arbiter is not continued: {error}"))
            }
        }
        let databases = planned.topology.databases.iter();
        self.drilled = databases.map(|one| (one.spec.id, (one.name.clone(), (*one.spec).clone()))).collect();
        self.with_arbiter(arbitration(&planned.topology))
    }

    /// Durable state of the run.
    pub fn memory(&self) -> &Memory {
        self.membership.memory()
    }

    fn alive_path(&self, epoch: u64) -> PathBuf {
        self.folder.join(format!("controller-{epoch}.alive"))
    }

    /// Stores that the controller is alive. It need not be durable, because a crash is later than it.
    fn give_sign(&mut self) {
        let now_ms = unix_ns() / 1_000_000;
        if now_ms.abs_diff(self.alive_ms) >= ALIVE_EVERY_MS {
            self.alive_ms = now_ms;
            // A run is worth more than this file; one that cannot be written leaves an older time.
            let _ = fs::write(self.alive_path(self.memory().epoch), now_ms.to_string());
        }
    }

    /// Folder with the evidence of a host.
    pub fn evidence_of(folder: &Path, host: &str) -> PathBuf {
        folder.join("hosts").join(token(host))
    }

    /// Conducts the run to its end, or until the user interrupts it a second time.
    pub async fn conduct(&mut self, watcher: &mut dyn Watcher) -> Result<(), ControllerError> {
        let bus = self.connect(watcher).await?;
        self.serve(&bus, watcher).await?;
        let now_ns = self.unix_ns();
        if let Some(Err(error)) = self.journal.take().map(|journal| journal.end(now_ns)) {
            let text = format!("the journal of the arbiter cannot be ended: {error}");
            self.tell(watcher, &Note::new(None, text));
        }
        bus.say_at_last(CONTROLLERS, format(&self.membership.head(self.started_unix_ns, true))).await;
        // If it stays, the next controller takes this one for dead; that costs a sentence.
        let _ = fs::remove_file(self.alive_path(self.memory().epoch));
        Ok(())
    }

    async fn serve(&mut self, bus: &Bus, watcher: &mut dyn Watcher) -> Result<(), ControllerError> {
        let mut questions = bus.questions().await?;
        let mut controllers = bus.hear(CONTROLLERS.to_owned()).await?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over_since = None;
        loop {
            tokio::select! {
                Some(question) = questions.next() => {
                    let mut parts = question.subject.split('.');
                    let (host, kind) = (parts.nth(1), parts.next());
                    let answer = match (host, kind) {
                        (Some(host), Some("beat")) => self.on_heartbeat(host, &question.payload)?,
                        (Some(host), Some("chunk")) => self.on_chunk(host, &question.payload)?,
                        (Some(host), Some("copy")) => {
                            self.on_copy(host, &question.payload);
                            None
                        }
                        _ => None,
                    };
                    if let (Some(answer), Some(inbox)) = (answer, question.reply) {
                        bus.say(inbox, answer).await;
                    }
                }
                Some(output) = next_output(&mut self.arbiter) => self.on_arbiter(output, bus, watcher).await,
                Some(message) = controllers.next() => {
                    if let Ok(head) = parse::<ControllerHead>(&message.payload)
                        && head.protocol == PROTOCOL
                    {
                        self.membership.hear_controller(self.clock.now_ns(), head);
                    }
                }
                _ = ticks.tick() => {
                    bus.say(CONTROLLERS, format(&self.membership.head(self.started_unix_ns, false))).await;
                    let now_ns = self.clock.now_ns();
                    let hears = self.bus_watch.has_heard(now_ns, bus.is_connected());
                    self.membership.tick(now_ns, self.unix_ns(), hears);
                    self.save()?;
                    self.give_sign();
                    self.look_at_bus(bus, watcher)?;
                    watcher.look(&self.membership);
                }
            }
            let notes = self.membership.take_notes();
            notes.iter().for_each(|note| self.tell(watcher, note));
            if self.membership.is_superseded() {
                return Err(ControllerError::Superseded);
            }
            match watcher.interrupts() {
                0 => {}
                1 => self.interrupt()?,
                _ => return Ok(()),
            }
            if self.membership.is_over() {
                let since = *over_since.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() >= FAREWELL {
                    return Ok(());
                }
            } else {
                over_since = None;
            }
        }
    }

    /// Handles output of the arbiter: messages to hosts, journal entries, texts for the console.
    async fn on_arbiter(&mut self, output: ArbiterOutput, bus: &Bus, watcher: &mut dyn Watcher) {
        match output {
            ArbiterOutput::Tell { host, message } => {
                let head = CopyHead::new(&self.memory().plan.run, self.memory().epoch);
                bus.say(copy_inbox(&host), format_headed(&head, &message)).await;
            }
            ArbiterOutput::Decided { database, event } => {
                if let (ArbiterEvent::Dismounted { why }, Some((name, spec))) =
                    (event, self.drilled.get(&database))
                {
                    let text = stays_dismounted(name, spec, why);
                    self.tell(watcher, &Note::new(None, text));
                }
                let said = JournalContent::Decided { database: database.0.into(), event };
                let entry = Entry { unix_ns: self.unix_ns(), error_ns: 0, said };
                if let Some(Err(error)) = self.journal.as_mut().map(|journal| journal.add(&entry)) {
                    self.membership.say(format!("the journal of the arbiter cannot be written: {error}"));
                }
            }
            ArbiterOutput::Note(text) => self.tell(watcher, &Note::new(None, text)),
        }
    }

    /// Watches the bus: restarts the controller's own server, and reports when the bus is lost or back.
    fn look_at_bus(&mut self, bus: &Bus, watcher: &mut dyn Watcher) -> Result<(), ControllerError> {
        // While another server has its port, this controller's own cannot start and is not needed.
        if self.keep_server()? && !bus.is_connected() {
            self.tell(watcher, &Note::new(None, "the bus was started again".into()));
        }
        let text = match self.bus_watch.look(self.clock.now_ns(), bus.is_connected()) {
            News::None => return Ok(()),
            News::GivenUp => return Err(self.bus_gone(format!("it did not come back in {LIMIT_S} s"))),
            News::Back => "the bus is there again".to_owned(),
            News::Gone => {
                let (server, alone_s) = (&self.credentials.server, self.memory().plan.alone_after_ms / 1_000);
                let remedy = match self.server {
                    Some(_) => "see nats-server.log in the folder of credentials",
                    None => {
                        "start nats-server with the configuration in the folder of credentials; one that another \
                         controller has started ends with that controller"
                    }
                };
                format!("the bus at {server} is gone: {remedy}. Hosts that test are alone after {alone_s} s")
            }
        };
        self.tell(watcher, &Note::new(None, text));
        Ok(())
    }

    fn bus_gone(&self, reason: String) -> ControllerError {
        ControllerError::BusGone { server: self.credentials.server.clone(), reason }
    }

    /// Handles the user's request for the end. Without the bus no host can be told, so the controller does not wait.
    fn interrupt(&mut self) -> Result<(), ControllerError> {
        self.membership.interrupt(ASKED);
        if !self.bus_watch.is_gone() {
            return Ok(());
        }
        self.save()?;
        Err(self.bus_gone("the run was asked to end, and no host can be told".to_owned()))
    }

    /// Records an event of the run and shows it.
    pub fn say(&mut self, text: String) {
        self.membership.say(text);
    }

    /// Shows an event and stores it for the report.
    fn tell(&mut self, watcher: &mut dyn Watcher, note: &Note) {
        watcher.note(note);
        let host = note.host.clone();
        let text =
            note.detail.as_ref().map_or(note.text.clone(), |detail| format!("{}: {detail}", note.text));
        // The run is worth more than its log; what cannot be written was at least shown.
        if let Err(error) = self.log.add(&log::Entry { unix_ms: self.unix_ns() / 1_000_000, host, text }) {
            watcher.note(&Note::new(None, format!("fleet.log cannot be written: {error}")));
        }
    }

    /// Calendar of the run, ns since 1970.
    fn unix_ns(&self) -> u64 {
        self.started_unix_ns + self.clock.now_ns()
    }

    /// Connects to the bus. The controller's own server needs a moment to start. After a request for the end there is
    /// one more attempt.
    async fn connect(&mut self, watcher: &dyn Watcher) -> Result<Bus, ControllerError> {
        let tries = if self.server.is_some() { 50 } else { 1 };
        for _ in 1..tries {
            if watcher.interrupts() > 0 {
                break;
            }
            if let Ok(bus) = Bus::connect(&self.credentials).await {
                return Ok(bus);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            self.keep_server()?;
        }
        Ok(Bus::connect(&self.credentials).await?)
    }

    fn keep_server(&mut self) -> Result<bool, ControllerError> {
        Ok(self.server.as_mut().map_or(Ok(false), Server::keep)?)
    }

    fn save(&mut self) -> Result<(), ControllerError> {
        let memory = self.membership.memory();
        if self.saved.as_ref() != Some(memory) {
            let path = self.folder.join("fleet.json");
            replace_state(&path, memory).map_err(|source| ControllerError::File { path, source })?;
            self.saved = Some(memory.clone());
        }
        Ok(())
    }

    /// Handles a heartbeat. `None` if it does not come from the host whose credentials it came with: it gets no
    /// answer.
    fn on_heartbeat(&mut self, subject: &str, payload: &[u8]) -> Result<Option<Vec<u8>>, ControllerError> {
        let Ok(heartbeat) = parse::<Heartbeat>(payload) else { return Ok(None) };
        if token(&heartbeat.host) != subject {
            return Ok(None);
        }
        if self.membership.leaves_to_another(self.clock.now_ns(), self.started_unix_ns, &heartbeat) {
            return Ok(None);
        }
        let orders: Orders = self.membership.heartbeat(self.clock.now_ns(), self.unix_ns(), heartbeat);
        self.save()?;
        Ok(Some(format(&orders)))
    }

    fn on_chunk(&mut self, subject: &str, payload: &[u8]) -> Result<Option<Vec<u8>>, ControllerError> {
        let Ok((head, bytes)) = parse_headed::<Chunk>(payload) else { return Ok(None) };
        if token(&head.host) != subject {
            return Ok(None);
        }
        let refuse = |why: &str| ChunkAnswer { kept: 0, refused: Some(why.to_owned()) };
        let answer = match self.expected(&head) {
            Err(why) => refuse(why),
            Ok(files) => {
                let folder = Controller::evidence_of(&self.folder, &head.host);
                let failed = |source| ControllerError::File { path: folder.clone(), source };
                let (kept, change) = keep(&folder, &head, bytes).map_err(failed)?;
                match change {
                    Change::None => {}
                    Change::Added => self.membership.evidence_came(self.clock.now_ns(), &head.host),
                    Change::Spoiled => self.membership.evidence_spoiled(&head.host, &head.file.name),
                }
                if kept == head.file.bytes && files.iter().all(|file| folder.join(&file.name).is_file()) {
                    self.membership.evidence_kept(&head.host);
                    self.save()?;
                }
                ChunkAnswer { kept, refused: None }
            }
        };
        Ok(Some(format(&answer)))
    }

    /// Handles a message of copies, which gets no answer.
    fn on_copy(&mut self, subject: &str, payload: &[u8]) {
        let Ok((head, message)) = parse_headed::<CopyHead>(payload) else { return };
        let Memory { plan, epoch, .. } = self.memory();
        let host = plan.hosts.iter().find(|host| token(host) == subject);
        if let (true, Some(host), Some(arbiter)) =
            (head == CopyHead::new(&plan.run, *epoch), host, &self.arbiter)
        {
            arbiter.hear(host, message);
        }
    }

    /// Files that the sender of a chunk has announced, if the chunk belongs to one of them.
    fn expected(&self, head: &Chunk) -> Result<Vec<EvidenceFile>, &'static str> {
        if head.protocol != PROTOCOL || head.run != self.memory().plan.run {
            return Err("it is of another protocol or run");
        }
        if self.membership.given_up(&head.host).is_some() {
            return Err("the run ends without this evidence");
        }
        let heartbeat =
            self.membership.heartbeats().find(|(host, _)| *host == head.host).map(|(_, heartbeat)| heartbeat);
        match heartbeat.map(|heartbeat| &heartbeat.work) {
            Some(Work::Ended { files, .. })
                if files.contains(&head.file) && is_plain_name(&head.file.name) =>
            {
                Ok(files.clone())
            }
            _ => Err("the host has not announced such a file"),
        }
    }
}

async fn next_output(arbiter: &mut Option<ArbiterThread>) -> Option<ArbiterOutput> {
    arbiter.as_mut()?.outputs.recv().await
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use replication::HostId;

    use super::*;
    use crate::arbiter::released_by;

    #[test]
    fn copies_are_heard_in_their_run_and_by_the_controller_that_they_obey_only() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = Credentials {
            version: evidence::FILE_VERSION,
            name: String::new(),
            server: String::new(),
            seed: String::new(),
            ca_pem: String::new(),
            copy_port: None,
        };
        let plan = Plan {
            run: "r".into(),
            tool_version: String::new(),
            build: None,
            hosts: vec!["h1".into()],
            solution: String::new(),
            tests: Vec::new(),
            seed: 1,
            allow_memory: false,
            when_lost: crate::membership::WhenLost::Finish,
            when_alone: crate::message::WhenAlone::Finish,
            alone_after_ms: 1,
            assemble_limit_ms: 1,
        };
        let mut controller = Controller::new(credentials, folder.path(), plan).unwrap();
        let (arbiter, mut hearing) = ArbiterThread::idle([(HostId(1), "h1".to_owned())].into());
        controller.arbiter = Some(arbiter);
        let epoch = controller.memory().epoch;
        let own = CopyHead::new("r", epoch);
        let others = [
            CopyHead::new("s", epoch),
            CopyHead::new("r", epoch + 1),
            CopyHead::new("r", epoch - 1),
            CopyHead { protocol: PROTOCOL + 1, ..own.clone() },
        ];
        for head in &others {
            controller.on_copy("h1", &format_headed(head, &released_by(HostId(1))));
        }
        controller.on_copy("h2", &format_headed(&own, &released_by(HostId(1))));
        assert!(hearing.try_recv().is_err(), "nothing of it is heard");
        controller.on_copy("h1", &format_headed(&own, &released_by(HostId(1))));
        assert_eq!(hearing.try_recv().ok(), Some(released_by(HostId(1))));
    }
}
