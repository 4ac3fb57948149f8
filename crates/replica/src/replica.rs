//! One copy, running.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::{CommitGate, Instance, InstanceConfig, LogPosition};
use futures_util::StreamExt;
use replication::{
    Boot, CopyMachine, DatabaseSpec, DiskOp, Effect, Epoch, Event, FromArbiter, HostId, Input, PageCopy,
    PageRequest, PeerMessage, Position, Report, ToArbiter,
};
use world::channel::{UnboundedReceiver, UnboundedSender, oneshot, unbounded};
use world::{Duration, LocalFuture, Time, World};

use crate::files::{DATABASE, Files, PagesRead, SeedFiles, position};
use crate::{Error, Result};

/// Time for which a comparison waits for pages that other copies are to replace.
const DIGESTS_WAIT: Duration = Duration::from_secs(10);

/// Connections of a copy to the arbiter and the other copies. Messages may be lost, and a call must not wait.
pub trait Links {
    /// Sends a message to the arbiter.
    fn to_arbiter(&self, message: ToArbiter);
    /// Sends a message to the copy of the same database on `host`.
    fn to_peer(&self, host: HostId, message: PeerMessage);
}

/// Configuration of a copy on its host, beside that of its database.
#[derive(Clone)]
pub struct ReplicaConfig {
    /// Configuration of the engine instance: folder and one database.
    pub instance: InstanceConfig,
    /// Interval at which the state machine sees the clock.
    pub tick: Duration,
    /// Interval at which a passive copy writes its pages and moves its checkpoint.
    pub checkpoint_every: Duration,
}

/// State of a copy.
#[derive(Debug, Clone)]
pub struct Status {
    /// Newest report of the copy to the arbiter.
    pub report: Report,
    /// Epoch in which the copy is active now; `None` if it is passive.
    pub active_in: Option<Epoch>,
    /// Reason why the copy has stopped for good.
    pub failure: Option<String>,
}

/// Work on disk and engine, carried out one item after the other.
enum DiskJob {
    Disk { ticket: u64, op: DiskOp },
    ReadLog { to: HostId, from: Position, until: Position },
    ReadPages { to: HostId, nonce: u64, request: PageRequest },
    ListPages { from: Position },
    Replay { to: Position },
    Mount { epoch: Epoch },
    Dismount,
    SaveCheckpoint,
    TakenPages { reply: oneshot::Sender<Vec<u32>> },
    Digests { places: Vec<u32>, until: Time, reply: oneshot::Sender<BTreeMap<u32, u32>> },
}

struct Driver {
    world: World,
    config: ReplicaConfig,
    machine: RefCell<CopyMachine>,
    links: Rc<dyn Links>,
    jobs: UnboundedSender<DiskJob>,
    /// Whether the checkpoint is being saved.
    saving: Cell<bool>,
    /// Reads of pages under way. A second request for the same pages gets the answer to the first.
    reading: RefCell<BTreeSet<(HostId, u64)>>,
    /// Instance that is open for users.
    mounted: RefCell<Option<Rc<Instance>>>,
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    next_commit: Cell<u64>,
    events: RefCell<Vec<(u64, Event)>>,
    failure: RefCell<Option<Error>>,
    stopped: Cell<bool>,
}

/// One copy of a database on this host: its state machine, files and engine. Dropping it stops it as a crash would.
pub struct Replica(Rc<Driver>);

impl Replica {
    /// Prepares a new database at the place that `config` names as the first copy; once per database.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn create(world: &World, config: &InstanceConfig) -> Result<SeedFiles> {
        Files::create(world, config).await
    }

    /// Prepares a new database with the initial pages of the first copy as a further copy, without a seeding over the
    /// network.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn seed(world: &World, config: &InstanceConfig, seed: &SeedFiles) -> Result<()> {
        Files::seed(world, config, seed).await
    }

    /// Whether a file of this name may be one that copies create in the folders of `config`.
    pub fn makes_file(config: &InstanceConfig, name: &str) -> bool {
        Files::makes(config, name)
    }

    /// Starts the copy from its files on disk.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        spec: Rc<DatabaseSpec>,
        host: HostId,
        boot: Boot,
        config: ReplicaConfig,
        links: Rc<dyn Links>,
    ) -> Result<Replica> {
        let (files, found) = Files::open(world, &config.instance, spec.signature).await?;
        let (jobs, queue) = unbounded();
        let driver = Rc::new(Driver {
            world: world.clone(),
            config,
            machine: RefCell::new(CopyMachine::new(spec, host, boot, found)),
            links,
            jobs,
            saving: Cell::new(false),
            reading: RefCell::default(),
            mounted: RefCell::default(),
            waiting: RefCell::default(),
            next_commit: Cell::new(0),
            events: RefCell::default(),
            failure: RefCell::default(),
            stopped: Cell::new(false),
        });
        let worker = driver.clone();
        drop(world.spawn(async move { worker.work(files, queue).await }));
        let ticker = driver.clone();
        drop(world.spawn(async move { ticker.tick().await }));
        Ok(Replica(driver))
    }

    /// Handles a message from the arbiter.
    pub fn from_arbiter(&self, message: FromArbiter) {
        self.0.input(Input::FromArbiter(message));
    }

    /// Handles a message from the copy on host `from`.
    pub fn from_peer(&self, from: HostId, message: PeerMessage) {
        self.0.input(Input::Peer { from, message });
    }

    /// Engine instance of the database while this copy is active and accepts commits.
    pub fn instance(&self) -> Option<Rc<Instance>> {
        let takes_commits = self.0.machine.borrow().takes_commits(self.0.now_ms());
        self.0.mounted.borrow().clone().filter(|_| takes_commits)
    }

    /// Treats the disk as failed: the copy stops, as after a failed disk operation.
    pub fn fail_disk(&self, why: &str) {
        self.0.fail(engine::Error::Stopped(why.to_owned()).into());
        self.0.jobs.close_channel();
    }

    /// Numbers of the pages that the copy took as a whole from the log or from another copy since it was started;
    /// `None` if it has stopped. All copies together name each page that changed while they ran.
    pub async fn taken_pages(&self) -> Option<Vec<u32>> {
        let (reply, answer) = oneshot::channel();
        self.0.enqueue(DiskJob::TakenPages { reply });
        answer.await.ok()
    }

    /// Digests of the contents of pages. Equal contents give equal digests. `None` if the copy has stopped, or if no
    /// other copy gives a page that is damaged here.
    pub async fn digests(&self, places: Vec<u32>) -> Option<BTreeMap<u32, u32>> {
        let (reply, answer) = oneshot::channel();
        let until = self.0.world.now() + DIGESTS_WAIT;
        self.0.enqueue(DiskJob::Digests { places, until, reply });
        answer.await.ok()
    }

    /// State of the copy.
    pub fn status(&self) -> Status {
        let machine = self.0.machine.borrow();
        Status {
            report: machine.report(),
            active_in: machine.active_epoch(self.0.now_ms()),
            failure: self.0.failure.borrow().as_ref().map(ToString::to_string),
        }
    }

    /// Returns the events since the last call, each with its time in ms.
    pub fn take_events(&self) -> Vec<(u64, Event)> {
        self.0.events.take()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.0.stopped.set(true);
        self.0.jobs.close_channel();
        self.0.dismounted();
    }
}

impl Driver {
    /// Clock of the lease, ms. It goes on while the host is suspended, because the arbiter does not wait for a
    /// suspended host.
    fn now_ms(&self) -> u64 {
        self.world.boot_time().ns / 1_000_000
    }

    fn input(self: &Rc<Self>, input: Input) {
        if self.stopped.get() {
            return;
        }
        let mut effects = Vec::new();
        self.machine.borrow_mut().handle(self.now_ms(), input, &mut effects);
        for effect in effects {
            self.effect(effect);
        }
    }

    fn effect(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::ToArbiter(message) => self.links.to_arbiter(message),
            Effect::ToPeer(host, message) => self.links.to_peer(host, message),
            Effect::Disk { ticket, op: DiskOp::WritePages(pages) } if self.mounted.borrow().is_some() => {
                self.repair(ticket, pages);
            }
            Effect::Disk { ticket, op } => self.enqueue(DiskJob::Disk { ticket, op }),
            Effect::ReadLog { to, from, until } => self.enqueue(DiskJob::ReadLog { to, from, until }),
            Effect::ReadPages { to, nonce, request } => {
                if self.reading.borrow_mut().insert((to, nonce)) {
                    self.enqueue(DiskJob::ReadPages { to, nonce, request });
                }
            }
            Effect::ListPages { from } => self.enqueue(DiskJob::ListPages { from }),
            Effect::Replay { to } => self.enqueue(DiskJob::Replay { to }),
            Effect::Mount { epoch } => self.enqueue(DiskJob::Mount { epoch }),
            Effect::Dismount => {
                self.dismounted();
                self.enqueue(DiskJob::Dismount);
            }
            Effect::Acknowledge { ticket } => {
                if let Some(waiter) = self.waiting.borrow_mut().remove(&ticket) {
                    // The task that waited may be gone.
                    let _ = waiter.send(());
                }
            }
            Effect::Event(event) => self.events.borrow_mut().push((self.now_ms(), event)),
        }
    }

    fn enqueue(&self, job: DiskJob) {
        // After the end no task listens any more.
        let _ = self.jobs.unbounded_send(job);
    }

    /// Handles the end of users' access; the result of commits that wait is unknown.
    fn dismounted(&self) {
        self.mounted.take();
        self.waiting.take();
    }

    async fn tick(self: Rc<Self>) {
        let mut save_at = self.world.now() + self.config.checkpoint_every;
        while !self.stopped.get() {
            self.input(Input::Tick);
            if self.world.now() >= save_at && !self.saving.replace(true) {
                save_at = self.world.now() + self.config.checkpoint_every;
                self.enqueue(DiskJob::SaveCheckpoint);
            }
            self.finish_log().await;
            self.world.sleep(self.config.tick).await;
        }
    }

    /// Makes the end of the log durable. A copy that hands over accepts no commits that would do so, and the next
    /// active copy needs that log.
    async fn finish_log(&self) {
        let mounted = self.mounted.borrow().clone();
        if let Some(instance) = mounted.filter(|_| !self.machine.borrow().takes_commits(self.now_ms())) {
            // The next user finds its failure.
            let _ = instance.flush_log().await;
        }
    }

    async fn work(self: Rc<Self>, mut files: Files, mut queue: UnboundedReceiver<DiskJob>) {
        while let Some(job) = queue.next().await {
            if self.stopped.get() {
                break;
            }
            let done = self.carry_out(&mut files, job).await;
            if self.stopped.get() {
                break;
            }
            match done {
                Ok(Some(input)) => self.input(input),
                Ok(None) => {}
                Err(error) => self.fail(error),
            }
        }
        // What the instance still had in memory is gone, as in a crash.
        let _ = files.dismount().await;
    }

    fn fail(self: &Rc<Self>, error: Error) {
        self.dismounted();
        *self.failure.borrow_mut() = Some(error);
        self.input(Input::DiskFailed);
        self.stopped.set(true);
    }

    /// Carries out a job of the disk task. Returns the input that tells the state machine about it, if there is one.
    async fn carry_out(self: &Rc<Self>, files: &mut Files, job: DiskJob) -> Result<Option<Input>> {
        Ok(Some(match job {
            DiskJob::Disk { ticket, op } => {
                let is_log = matches!(op, DiskOp::Store(_));
                match files.carry_out(op).await {
                    // It looks at all of a piece before it writes any of it.
                    Err(Error::Engine(engine::Error::Refused(_))) if is_log => Input::StoreRefused { ticket },
                    done => done.map(|()| Input::DiskDone { ticket })?,
                }
            }
            DiskJob::ReadLog { to, from, until } => {
                let piece = files.read_log(from, until).await?;
                Input::LogRead { to, piece }
            }
            DiskJob::ReadPages { to, nonce, request } => {
                let read = files.read_pages(&request).await;
                self.reading.borrow_mut().remove(&(to, nonce));
                let PagesRead { pages, next, position } = match read {
                    Ok(read) => read,
                    // The other copy asks again; the damage itself is found by those who use the page.
                    Err(Error::Engine(engine::Error::DamagedPage { .. } | engine::Error::Refused(_))) => {
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                };
                Input::PagesRead { to, nonce, pages, next, position }
            }
            DiskJob::ListPages { from } => Input::PagesListed { from, pages: files.list_pages(from).await? },
            DiskJob::Replay { to } => {
                if !files.replay(to).await? {
                    self.enqueue(DiskJob::Replay { to });
                    return Ok(None);
                }
                // Before it counts as replayed: as the active copy it would fail over them.
                self.name_damage(files);
                Input::Replayed { to }
            }
            DiskJob::Mount { epoch } => {
                self.mount(files, epoch).await?;
                return Ok(None);
            }
            DiskJob::Dismount => {
                let (end, checkpoint) = files.dismount().await?;
                Input::Dismounted { end, checkpoint }
            }
            DiskJob::TakenPages { reply } => {
                // The task that asked may be gone.
                let _ = reply.send(files.taken_pages());
                return Ok(None);
            }
            DiskJob::Digests { places, until, reply } => {
                return self.read_digests(files, places, until, reply).await;
            }
            DiskJob::SaveCheckpoint => {
                self.saving.set(false);
                let Some(at) = files.save_checkpoint().await? else { return Ok(None) };
                self.name_damage(files);
                Input::Checkpoint { at }
            }
        }))
    }

    /// Mounts the copy if it is active in this epoch.
    async fn mount(self: &Rc<Self>, files: &mut Files, epoch: Epoch) -> Result<()> {
        let is_active = || self.machine.borrow().active_epoch(self.now_ms()) == Some(epoch);
        if !is_active() {
            return Ok(());
        }
        let instance = files.mount().await?;
        instance.set_commit_gate(Rc::new(Gate(self.clone())));
        self.follow_damage(&instance);
        self.follow_log(&instance);
        // The lease may have ended meanwhile; the order to dismount is in the queue then.
        if is_active() {
            *self.mounted.borrow_mut() = Some(instance);
        }
        Ok(())
    }

    /// Tells the state machine which pages another copy must replace.
    fn name_damage(self: &Rc<Self>, files: &Files) {
        files.unproven_pages().into_iter().for_each(|page| self.input(Input::PageDamaged { page }));
    }

    /// Answers with digests of pages; tries again later while another copy is to replace a page that is damaged here.
    async fn read_digests(
        self: &Rc<Self>,
        files: &mut Files,
        places: Vec<u32>,
        until: Time,
        reply: oneshot::Sender<BTreeMap<u32, u32>>,
    ) -> Result<Option<Input>> {
        match files.digests(&places).await {
            Ok(digests) => {
                let _ = reply.send(digests);
                Ok(None)
            }
            Err(Error::Engine(engine::Error::DamagedPage { pgno, .. })) => {
                if self.world.now() < until {
                    let driver = self.clone();
                    drop(self.world.spawn(async move {
                        driver.world.sleep(driver.config.tick).await;
                        driver.enqueue(DiskJob::Digests { places, until, reply });
                    }));
                }
                Ok(Some(Input::PageDamaged { page: pgno + 1 }))
            }
            Err(error) => Err(error),
        }
    }

    /// Tells the state machine of each page of the active copy that fails its check.
    fn follow_damage(self: &Rc<Self>, instance: &Rc<Instance>) {
        let (driver, active) = (Rc::downgrade(self), Rc::downgrade(instance));
        instance.set_on_damage(Rc::new(move |_, pgno| {
            if let (Some(driver), Some(active)) = (driver.upgrade(), active.upgrade()) {
                driver.input(Input::LogDurable { end: position(active.durable_log()) });
                driver.input(Input::PageDamaged { page: pgno + 1 });
            }
        }));
    }

    /// Replaces damaged pages of the active copy by those of another. Operations of users wait for these pages, so the
    /// replacement does not queue behind other work.
    fn repair(self: &Rc<Self>, ticket: u64, pages: Rc<[PageCopy]>) {
        let (driver, Some(active)) = (self.clone(), self.mounted.borrow().clone()) else { return };
        drop(self.world.spawn(async move {
            let mut given = Ok(());
            for page in pages.iter().filter(|page| page.page >= 2) {
                given = given.and(active.give_page(DATABASE, page.page - 1, &page.bytes).await);
            }
            driver.input(match given {
                Ok(()) => Input::DiskDone { ticket },
                // The next copy is asked. If this instance has failed, the copy that follows its log finds that.
                Err(_) => Input::StoreRefused { ticket },
            });
        }));
    }

    /// Tells the state machine how far the log of the active copy has grown, and when it cannot grow any more: an
    /// instance whose files failed ends this copy, which must not keep its lease.
    fn follow_log(self: &Rc<Self>, instance: &Rc<Instance>) {
        let (driver, instance) = (self.clone(), Rc::downgrade(instance));
        drop(self.world.spawn(async move {
            while let Some(instance) = instance.upgrade() {
                if driver.stopped.get() {
                    return;
                }
                driver.input(Input::Appended { end: position(instance.log_end()) });
                driver.input(Input::LogDurable { end: position(instance.durable_log()) });
                // It may have failed before a task waited for it.
                let moved = match instance.check() {
                    Ok(()) => instance.log_moved().await,
                    failed => failed,
                };
                if let Err(error) = moved {
                    // One that is being closed has stopped, too.
                    let is_open = |open: &Rc<Instance>| Rc::ptr_eq(open, &instance);
                    if driver.mounted.borrow().as_ref().is_some_and(is_open) {
                        driver.fail(error.into());
                    }
                    return;
                }
            }
        }));
    }
}

/// Commit gate: holds durable commits until the state machine lets them pass.
struct Gate(Rc<Driver>);

impl CommitGate for Gate {
    fn pass(&self, end: LogPosition) -> LocalFuture<'static, engine::Result<()>> {
        let driver = self.0.clone();
        Box::pin(async move {
            let lost = || {
                engine::Error::Stopped("the copy is not active any more; the commit is in doubt".to_owned())
            };
            let is_active = driver.machine.borrow().active_epoch(driver.now_ms()).is_some();
            // No answer would ever come.
            if !is_active || driver.stopped.get() {
                return Err(lost());
            }
            let ticket = driver.next_commit.get();
            driver.next_commit.set(ticket + 1);
            let (sender, receiver) = oneshot::channel();
            driver.waiting.borrow_mut().insert(ticket, sender);
            driver.input(Input::Appended { end: position(end) });
            driver.input(Input::Commit { ticket, position: position(end) });
            driver.input(Input::Tick);
            receiver.await.map_err(|_| lost())
        })
    }
}
