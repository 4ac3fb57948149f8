//! One host of a drill: its copies, its connections, and the users of the databases that are active here.
//!
//! Invariants
//! 1. Users of a database work where its active copy is, and nowhere else; they begin when it takes commits and
//!    end when it does not.
//! 2. What a copy holds of earlier acknowledgements is read before its users begin.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use engine::{Counters, Instance};
use futures_util::future::join_all;
use replica::wire::{Message, Standing};
use replica::{Guard, Links, Network, Replica, ReplicaConfig};
use replication::{
    Boot, DatabaseId, Epoch, Event, FromArbiter, Health, HostId, PeerMessage, Report, ToArbiter,
};
use results::{ClassTotals, IoClass, IoCounters, IoStats, IoTotals};
use serde::{Deserialize, Serialize};
use workload::schema::FOLDERS;
use workload::session::{Mailboxes, SessionError};
use world::{Duration, World};

use super::create::empty;
use super::topology::{ARBITER, IO_PER_BATCH_GUESS, Pace, Topology};
use crate::CampaignError;
use crate::load::{Load, Mode};

/// Interval at which a copy's state machine sees the clock, and users look for their database.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// Interval at which a passive copy writes its pages.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Largest number of batches of one database under way.
const SESSIONS_MAX: u32 = 16;
/// Least number of measured batches before the pace follows them.
const BATCHES_MEASURED_MIN: u64 = 50;

/// Observation on a host that cannot wait for the next sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// Users found a mounted database, whose folders have these versions.
    Opened {
        /// Number of the database.
        database: usize,
        /// Epoch of the database.
        epoch: Epoch,
        /// Versions of its folders.
        found: BTreeMap<u32, u32>,
    },
    /// Durable commits were acknowledged.
    Acknowledged {
        /// Number of the database.
        database: usize,
        /// Epoch of the database.
        epoch: Epoch,
        /// Newest acknowledged versions of folders.
        folders: BTreeMap<u32, u32>,
    },
    /// Users met an error that no failure explains.
    Failed {
        /// Number of the database.
        database: usize,
        /// Description of the error.
        text: String,
    },
}

/// Callback for observations on a host.
pub type Observer = Rc<dyn Fn(HostId, Observed)>;

/// Figures of a copy since the last sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySample {
    /// Number of the database.
    pub database: usize,
    /// Epoch in which the copy is active; `None` if it is passive.
    pub active_in: Option<Epoch>,
    /// Report of the copy to the arbiter.
    pub report: Report,
    /// Reason why the copy has stopped for good.
    pub failure: Option<String>,
    /// Page reads of the copy.
    pub reads: IoTotals,
    /// Log writes of the copy.
    pub log_writes: IoTotals,
    /// Batches of its users, timed from when each was due.
    pub batches: IoTotals,
    /// Events of the copy.
    pub events: Vec<Event>,
}

/// Number of generations by which a complete copy may be behind: the one that is being written.
const QUEUE_FULL_COPY: u32 = 1;

impl CopySample {
    /// Whether the copy counts as complete. A lagged copy need not have replayed its log.
    pub fn is_full(&self, is_lagged: bool) -> bool {
        let report = &self.report;
        let is_passive_full = report.health == Health::Healthy
            && report.mountable
            && report.copy_queue <= QUEUE_FULL_COPY
            && (is_lagged || report.replay_queue() <= QUEUE_FULL_COPY);
        self.failure.is_none() && (self.active_in.is_some() || is_passive_full)
    }
}

/// Figures of a host since the last sample.
pub struct NodeSample {
    /// Copies of the host, by database.
    pub copies: Vec<CopySample>,
    /// I/O on the files of all copies.
    pub io: IoCounters,
    /// I/O on these files that has begun and not completed.
    pub waiting: ClassTotals,
    /// Batches with their times.
    pub batches: IoStats,
}

/// Connections of a host's copies to other hosts and the arbiter.
pub struct Routes {
    /// Listening address of each host, this one included.
    pub addresses: BTreeMap<HostId, String>,
    /// Authentication of connections; `None`: peers are believed.
    pub guard: Option<Rc<dyn Guard>>,
    /// Sends messages to the arbiter; `None`: the arbiter listens at one of the addresses.
    pub arbiter: Option<Rc<dyn Fn(ToArbiter)>>,
}

struct Users {
    epoch: Epoch,
    load: Rc<Load<SessionError>>,
}

struct CopyHere {
    replica: Rc<Replica>,
    users: Option<Users>,
    counters: Counters,
    log_counters: Counters,
}

pub(super) struct Inner {
    pub(super) world: World,
    pub(super) topology: Rc<Topology>,
    pub(super) host: usize,
    boot: Cell<u32>,
    seed: u64,
    routes: Routes,
    network: RefCell<Option<Network>>,
    copies: RefCell<BTreeMap<usize, CopyHere>>,
    observer: Observer,
    pub(super) stopped: Cell<bool>,
    /// Whether users work.
    is_open: Cell<bool>,
    /// Last state of each copy that hosts have reported since users stopped, by database and host.
    pub(super) standings: RefCell<BTreeMap<(usize, HostId), Standing>>,
    /// Hosts that have left the drill without a scheduled failure.
    pub(super) left: RefCell<BTreeSet<HostId>>,
    /// Transactional I/O and batches of active copies so far.
    measured: Cell<(u64, u64)>,
}

/// Host of a drill: its copies and users. Dropping it stops it as a crash would.
pub struct Node(pub(super) Rc<Inner>);

struct CopyLinks {
    node: Weak<Inner>,
    database: DatabaseId,
}

impl Links for CopyLinks {
    fn to_arbiter(&self, message: ToArbiter) {
        let Some(node) = self.node.upgrade() else { return };
        match &node.routes.arbiter {
            Some(say) if node.network.borrow().is_some() => say(message),
            Some(_) => {}
            None => node.send(ARBITER, &Message::ToArbiter(message)),
        }
    }

    fn to_peer(&self, host: HostId, message: PeerMessage) {
        if let Some(node) = self.node.upgrade() {
            node.send(host, &Message::Peer { database: self.database, message });
        }
    }
}

impl Node {
    /// Starts host number `host` with the copies on its disks. `boot` rises with each start of a host.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        topology: &Rc<Topology>,
        host: usize,
        boot: u32,
        seed: u64,
        routes: Routes,
        observer: Observer,
    ) -> Result<Node, CampaignError> {
        let inner = Rc::new(Inner {
            // All that a host does in a drill is done by one thread.
            world: world.in_lane(0),
            topology: topology.clone(),
            host,
            boot: Cell::new(boot),
            seed,
            routes,
            network: RefCell::default(),
            copies: RefCell::default(),
            observer,
            stopped: Cell::new(false),
            is_open: Cell::new(true),
            standings: RefCell::default(),
            left: RefCell::default(),
            measured: Cell::default(),
        });
        let node = Node(inner.clone());
        inner.connect().await?;
        let databases =
            (0..topology.databases.len()).filter(|&database| topology.place(database, host).is_some());
        join_all(databases.map(|database| inner.start_copy(database)))
            .await
            .into_iter()
            .collect::<Result<(), CampaignError>>()?;
        let watching = Rc::downgrade(&inner);
        let world = world.clone();
        drop(inner.world.spawn(async move {
            while let Some(inner) = watching.upgrade().filter(|inner| !inner.stopped.get()) {
                inner.look_for_users();
                drop(inner);
                world.sleep(TICK).await;
            }
        }));
        Ok(node)
    }

    /// Figures since the last call.
    pub fn sample(&self) -> NodeSample {
        let inner = &self.0;
        let (mut io_sum, mut batch_sum) = inner.measured.get();
        let (mut all, mut done) = (IoCounters::default(), IoStats::default());
        let (mut copies, mut waiting, now) = (Vec::new(), ClassTotals::default(), inner.world.now());
        for (&database, copy) in inner.copies.borrow().iter() {
            let status = copy.replica.status();
            let mut io = copy.counters.take().io;
            let batches = copy.users.as_ref().map(|users| users.load.take_sample()).unwrap_or_default();
            if copy.users.is_some() {
                let classes = [IoClass::TransactionalRead, IoClass::TransactionalWrite];
                io_sum += classes.iter().map(|class| io.class(*class).totals.count).sum::<u64>();
                batch_sum += batches.service.totals.count;
            }
            io.merge(&copy.log_counters.take().io);
            waiting.merge(&copy.counters.waiting(now));
            waiting.merge(&copy.log_counters.waiting(now));
            copies.push(CopySample {
                database,
                active_in: status.active_in,
                report: status.report,
                failure: status.failure,
                reads: io.class(IoClass::TransactionalRead).totals,
                log_writes: io.class(IoClass::LogWrite).totals,
                batches: batches.response.totals,
                events: copy.replica.take_events().into_iter().map(|(_, event)| event).collect(),
            });
            all.merge(&io);
            done.merge(&batches.service);
        }
        inner.measured.set((io_sum, batch_sum));
        inner.keep_pace();
        NodeSample { copies, io: all, waiting, batches: done }
    }

    /// Handles a message of the arbiter for the copy of a database, if the arbiter does not listen itself.
    pub fn hear_arbiter(&self, database: DatabaseId, message: FromArbiter) {
        if self.0.network.borrow().is_some() {
            self.0.receive(ARBITER, Message::FromArbiter { database, message });
        }
    }

    /// Closes all connections to other hosts and to the arbiter, and accepts none.
    pub fn cut_off(&self) {
        self.0.network.take();
    }

    /// Ends [`Node::cut_off`].
    ///
    /// # Errors
    /// If it cannot listen on this host's address.
    pub async fn reconnect(&self) -> Result<(), CampaignError> {
        self.0.connect().await
    }

    /// Notes that these hosts have left the drill; nothing waits for their copies.
    pub fn leave(&self, hosts: Vec<usize>) {
        *self.0.left.borrow_mut() = hosts.into_iter().map(|host| HostId(host as u16)).collect();
    }

    /// Stops the users: no batch begins any more.
    pub fn close(&self) {
        if !self.0.is_open.replace(false) {
            return;
        }
        for copy in self.0.copies.borrow().values() {
            if let Some(users) = &copy.users {
                users.load.stop_at_once();
            }
        }
        self.0.tell_standings();
    }

    /// Removes the contents of a volume and stops the copies on it.
    pub fn fail_volume(&self, volume: &str) {
        for database in self.0.on_volume(volume) {
            let failed = self.0.copies.borrow_mut().remove(&database);
            if let Some(copy) = failed {
                copy.replica.fail_disk("the volume has failed");
                if let Some(users) = copy.users {
                    users.load.stop_at_once();
                }
            }
        }
    }

    /// Puts an empty volume in place of a failed one; its copies are seeded.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn replace_volume(&self, volume: &str) -> Result<(), CampaignError> {
        self.0.boot.set(self.0.boot.get() + 1);
        for database in self.0.on_volume(volume) {
            let Some(place) = self.0.topology.place(database, self.0.host) else { continue };
            empty(&self.0.world, &self.0.topology, database, place).await?;
            self.0.start_copy(database).await?;
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.stopped.set(true);
        self.0.network.take();
        self.0.copies.take();
    }
}

impl Inner {
    async fn connect(self: &Rc<Self>) -> Result<(), CampaignError> {
        let receiving = Rc::downgrade(self);
        let receiver = Rc::new(move |from: HostId, message: Message| {
            if let Some(inner) = receiving.upgrade() {
                inner.receive(from, message);
            }
        });
        let (host, addresses) = (HostId(self.host as u16), self.routes.addresses.clone());
        let network = match &self.routes.guard {
            Some(guard) => {
                Network::start_guarded(&self.world, host, addresses, guard.clone(), receiver).await?
            }
            None => Network::start(&self.world, host, addresses, receiver).await?,
        };
        *self.network.borrow_mut() = Some(network);
        Ok(())
    }

    pub(super) fn send(&self, to: HostId, message: &Message) {
        if let Some(network) = &*self.network.borrow() {
            network.send(to, message);
        }
    }

    /// Copy of a database on this host.
    pub(super) fn replica(&self, database: usize) -> Option<Rc<Replica>> {
        self.copies.borrow().get(&database).map(|copy| copy.replica.clone())
    }

    fn receive(&self, from: HostId, message: Message) {
        let of = |database: DatabaseId| self.replica(usize::from(database.0));
        match message {
            Message::Peer { database, message } => {
                if let Some(replica) = of(database) {
                    replica.from_peer(from, message);
                }
            }
            Message::FromArbiter { database, message } if from == ARBITER => {
                if let Some(replica) = of(database) {
                    replica.from_arbiter(message);
                }
            }
            Message::Standing { database, standing } => {
                self.standings.borrow_mut().insert((database.0.into(), from), standing);
            }
            _ => {}
        }
    }

    fn on_volume(&self, volume: &str) -> Vec<usize> {
        let on_it = |database: &usize| {
            let place = self.topology.place(*database, self.host);
            place.is_some_and(|place| place.volume == volume || place.log_volume == volume)
        };
        (0..self.topology.databases.len()).filter(on_it).collect()
    }

    async fn start_copy(self: &Rc<Self>, database: usize) -> Result<(), CampaignError> {
        let place = self.topology.place(database, self.host).expect("only copies of this host are started");
        let (counters, log_counters) = (Counters::default(), Counters::default());
        let config = ReplicaConfig {
            instance: self.topology.instance_config(database, place, &counters, &log_counters),
            tick: TICK,
            checkpoint_every: CHECKPOINT_EVERY,
        };
        let spec = self.topology.databases[database].spec.clone();
        let links = Rc::new(CopyLinks { node: Rc::downgrade(self), database: spec.id });
        let (host, boot) = (HostId(self.host as u16), Boot(self.boot.get()));
        let replica = Rc::new(Replica::start(&self.world, spec, host, boot, config, links).await?);
        let copy = CopyHere { replica, users: None, counters, log_counters };
        self.copies.borrow_mut().insert(database, copy);
        Ok(())
    }

    /// Starts users where a copy accepts commits, and stops them where it does not.
    fn look_for_users(self: &Rc<Self>) {
        for (&database, copy) in self.copies.borrow_mut().iter_mut() {
            let instance = copy.replica.instance().filter(|_| self.is_open.get());
            let Some(instance) = instance else {
                if let Some(users) = copy.users.take() {
                    users.load.stop_at_once();
                }
                continue;
            };
            let Some(epoch) = copy.replica.status().active_in else { continue };
            if copy.users.as_ref().is_some_and(|users| users.epoch == epoch) {
                continue;
            }
            // I/O of the passive copy that it was is not that of users.
            copy.counters.take();
            let load = Load::new(&self.world, 1, u64::from(epoch.0) << 32, None);
            copy.users = Some(Users { epoch, load: load.clone() });
            let (inner, replica) = (self.clone(), Rc::downgrade(&copy.replica));
            drop(self.world.spawn(async move {
                let ended = inner.serve(database, epoch, &instance, load).await;
                let is_active = replica.upgrade().and_then(|replica| replica.instance());
                let is_same = is_active.is_some_and(|active| Rc::ptr_eq(&active, &instance));
                if let Err(error) = ended
                    && (is_same || !matches!(error, SessionError::Engine(_)))
                {
                    inner.observe(Observed::Failed { database, text: error.to_string() });
                }
            }));
        }
    }

    fn observe(&self, observed: Observed) {
        if !self.stopped.get() {
            (self.observer)(HostId(self.host as u16), observed);
        }
    }

    /// Runs the users of a mounted database until it is dismounted or they stop.
    async fn serve(
        self: &Rc<Self>,
        database: usize,
        epoch: Epoch,
        instance: &Rc<Instance>,
        load: Rc<Load<SessionError>>,
    ) -> Result<(), SessionError> {
        let template = self.topology.databases[database].template.clone();
        let mailboxes = Rc::new(Mailboxes::open(instance.clone(), 1, template).await?);
        let found = mailboxes.folder_versions(1..=FOLDERS).await?;
        self.observe(Observed::Opened { database, epoch, found });
        // A batch may be cut off, or go on only after the copy has lost its lease; what it had acknowledged
        // until then counts.
        let watching = Rc::downgrade(self);
        mailboxes.on_acknowledged(move |folder, version| {
            let folders = BTreeMap::from([(folder, version)]);
            if let Some(inner) = watching.upgrade() {
                inner.observe(Observed::Acknowledged { database, epoch, folders });
            }
        });
        let mode = Mode::Paced { batches_per_s: self.batches_per_s(), sessions_max: SESSIONS_MAX };
        let inner = self.clone();
        let run = load.run(mode, move |_, number| {
            let (inner, mailboxes) = (inner.clone(), mailboxes.clone());
            async move {
                let (mix, seat) = (inner.topology.mix, number as u32);
                mailboxes.batch(&mix, inner.seed, database as u32, number, seat).await
            }
        });
        run.await?;
        // Lazy commits of users who have gone home would wait for the next user, and the other copies for them.
        Ok(instance.flush_log().await?)
    }

    fn batches_per_s(&self) -> f64 {
        match self.topology.pace {
            Pace::Batches(batches_per_s) => batches_per_s,
            Pace::Iops(iops) => {
                let (io, batches) = self.measured.get();
                let is_known = batches >= BATCHES_MEASURED_MIN && io > 0;
                iops / if is_known { io as f64 / batches as f64 } else { IO_PER_BATCH_GUESS }
            }
        }
    }

    fn keep_pace(&self) {
        let batches_per_s = self.batches_per_s();
        for copy in self.copies.borrow().values() {
            if let Some(users) = &copy.users {
                users.load.set_rate(batches_per_s);
            }
        }
    }
}
