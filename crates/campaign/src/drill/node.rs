//! One host of a drill: its copies, its connections, and the users of the databases that are active here.
//!
//! Invariants
//! 1. Users of a database work where its active copy is, and nowhere else; they begin when it takes commits and end when
//!    it does not.
//! 2. What a copy holds of earlier acknowledgements is read before its users begin.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use copies::{Boot, DatabaseId, Epoch, Event, HostId, PeerMessage, Report, ToArbiter};
use engine::{Counters, Instance, Progress, StopSignal};
use futures_util::future::join_all;
use replica::wire::Message;
use replica::{ArbiterHost, Founding, Links, Network, Replica, ReplicaConfig};
use results::{IoClass, IoCounters};
use workload::codec::DatabaseCodec;
use workload::schema::FOLDERS;
use workload::session::{Mailboxes, SessionError};
use world::{Duration, World};

use super::site::{ARBITER, Pace, Site};
use crate::CampaignError;
use crate::host::database_path;
use crate::init::make_folders;
use crate::load::{Load, LoadSample, Mode};

/// How often a copy's state machine sees the time, and users look for their database.
const TICK: Duration = Duration::from_millis(200);
/// How often a passive copy writes its pages.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Batches of one database under way at most.
const SESSIONS_MAX: u32 = 16;
/// Transactional I/O per batch until something was measured.
const IO_PER_BATCH_GUESS: f64 = 30.0;
/// Batches that have to be measured before the pace follows them.
const BATCHES_MEASURED_MIN: u64 = 50;

/// What happens between samples, at the moment at which it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// Users have found a database, and the folders have these versions.
    Opened {
        /// Number of the database.
        database: usize,
        /// Its epoch.
        epoch: Epoch,
        /// Versions of its folders.
        found: BTreeMap<u32, u32>,
    },
    /// A batch has ended with durable commits that were acknowledged.
    Acknowledged {
        /// Number of the database.
        database: usize,
        /// Its epoch.
        epoch: Epoch,
        /// Newest acknowledged versions of folders.
        folders: BTreeMap<u32, u32>,
    },
    /// Users met what must never be.
    Failed {
        /// Number of the database.
        database: usize,
        /// What.
        text: String,
    },
}

/// Told at once what happens on a host.
pub type Observer = Rc<dyn Fn(HostId, Observed)>;

/// A copy since the last sample.
pub struct CopySample {
    /// Number of the database.
    pub database: usize,
    /// The epoch in which it is active.
    pub active_in: Option<Epoch>,
    /// What it says to the arbiter.
    pub report: Report,
    /// Why it has stopped for good.
    pub failure: Option<String>,
    /// I/O on its files.
    pub io: IoCounters,
    /// What its users did.
    pub batches: LoadSample,
    /// What happened to it.
    pub events: Vec<Event>,
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

struct Inner {
    world: World,
    site: Rc<Site>,
    host: usize,
    boot: Cell<u32>,
    seed: u64,
    network: RefCell<Option<Network>>,
    copies: RefCell<BTreeMap<usize, CopyHere>>,
    observer: Observer,
    stopped: Cell<bool>,
    /// Users work.
    is_open: Cell<bool>,
    /// Transactional I/O and batches of active copies so far.
    measured: Cell<(u64, u64)>,
}

/// One host of a drill. Dropping it ends it as a crash would.
pub struct Node(Rc<Inner>);

struct CopyLinks {
    node: Weak<Inner>,
    database: DatabaseId,
}

impl CopyLinks {
    fn send(&self, to: HostId, message: &Message) {
        if let Some(node) = self.node.upgrade()
            && let Some(network) = &*node.network.borrow()
        {
            network.send(to, message);
        }
    }
}

impl Links for CopyLinks {
    fn to_arbiter(&self, message: ToArbiter) {
        self.send(ARBITER, &Message::ToArbiter(message));
    }

    fn to_peer(&self, host: HostId, message: PeerMessage) {
        self.send(host, &Message::Peer { database: self.database, message });
    }
}

/// Makes all copies of a database: the first one on its host, the others from what it began with. `worlds` are those of the
/// site's hosts.
///
/// # Errors
/// Failed I/O.
pub async fn found(site: &Site, database: usize, worlds: &[World]) -> Result<(), CampaignError> {
    let mut founding: Option<Founding> = None;
    for place in &site.databases[database].places {
        let world = &worlds[place.host];
        make_folders(world, &place.dir).await?;
        make_folders(world, &place.log_dir).await?;
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        let image = site.databases[database].image.clone();
        let codec = Rc::new(DatabaseCodec::new(image.clone()));
        let path = database_path(&place.dir, &site.databases[database].name);
        engine::create_database(world, &path, image, codec, &counters, &progress, &stop).await?;
        let config = site.instance_config(database, place, &counters, &Counters::default());
        match &founding {
            None => founding = Some(Replica::found(world, &config).await?),
            Some(founding) => Replica::join(world, &config, founding).await?,
        }
    }
    Ok(())
}

impl Node {
    /// Starts host number `host` with the copies that it has on disk. `boot` rises with each start of a host.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        site: &Rc<Site>,
        host: usize,
        boot: u32,
        seed: u64,
        addresses: BTreeMap<HostId, String>,
        observer: Observer,
    ) -> Result<Node, CampaignError> {
        let inner = Rc::new(Inner {
            world: world.clone(),
            site: site.clone(),
            host,
            boot: Cell::new(boot),
            seed,
            network: RefCell::default(),
            copies: RefCell::default(),
            observer,
            stopped: Cell::new(false),
            is_open: Cell::new(true),
            measured: Cell::default(),
        });
        let node = Node(inner.clone());
        let receiving = Rc::downgrade(&inner);
        let receiver = Rc::new(move |from: HostId, message: Message| {
            if let Some(inner) = receiving.upgrade() {
                inner.receive(from, message);
            }
        });
        let network = Network::start(world, HostId(host as u16), addresses, receiver).await?;
        *inner.network.borrow_mut() = Some(network);
        let databases = (0..site.databases.len()).filter(|&database| site.place(database, host).is_some());
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

    /// Everything since the last call, by database.
    pub fn sample(&self) -> Vec<CopySample> {
        let inner = &self.0;
        let (mut io_sum, mut batch_sum) = inner.measured.get();
        let samples: Vec<CopySample> = inner
            .copies
            .borrow()
            .iter()
            .map(|(&database, copy)| {
                let status = copy.replica.status();
                let mut io = copy.counters.take().io;
                let batches = copy.users.as_ref().map(|users| users.load.take_sample()).unwrap_or_default();
                if copy.users.is_some() {
                    let classes = [IoClass::TransactionalRead, IoClass::TransactionalWrite];
                    io_sum += classes.iter().map(|class| io.class(*class).tally.count).sum::<u64>();
                    batch_sum += batches.service.tally.count;
                }
                io.merge(&copy.log_counters.take().io);
                CopySample {
                    database,
                    active_in: status.active_in,
                    report: status.report,
                    failure: status.failure,
                    io,
                    batches,
                    events: copy.replica.take_events().into_iter().map(|(_, event)| event).collect(),
                }
            })
            .collect();
        inner.measured.set((io_sum, batch_sum));
        inner.keep_pace();
        samples
    }

    /// Users go home: no batch begins any more.
    pub fn close(&self) {
        self.0.is_open.set(false);
        for copy in self.0.copies.borrow().values() {
            if let Some(users) = &copy.users {
                users.load.stop_at_once();
            }
        }
    }

    /// A volume loses its contents: the copies on it are at their end.
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

    /// An empty volume takes the place of one that has failed: its copies are made anew from the others.
    ///
    /// # Errors
    /// Failed I/O.
    pub async fn replace_volume(&self, volume: &str) -> Result<(), CampaignError> {
        self.0.boot.set(self.0.boot.get() + 1);
        for database in self.0.on_volume(volume) {
            let Some(place) = self.0.site.place(database, self.0.host) else { continue };
            for folder in [&place.dir, &place.log_dir] {
                for entry in self.0.world.list(folder).await? {
                    self.0.world.remove(&format!("{folder}/{}", entry.name)).await?;
                }
                self.0.world.sync_dir(folder).await?;
            }
            self.0.start_copy(database).await?;
        }
        Ok(())
    }

    /// The copy of a database here.
    pub fn replica(&self, database: usize) -> Option<Rc<Replica>> {
        self.0.copies.borrow().get(&database).map(|copy| copy.replica.clone())
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
    fn receive(&self, from: HostId, message: Message) {
        let of = |database: DatabaseId| {
            self.copies.borrow().get(&usize::from(database.0)).map(|copy| copy.replica.clone())
        };
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
            _ => {}
        }
    }

    fn on_volume(&self, volume: &str) -> Vec<usize> {
        let on_it = |database: &usize| {
            let place = self.site.place(*database, self.host);
            place.is_some_and(|place| place.volume == volume || place.log_volume == volume)
        };
        (0..self.site.databases.len()).filter(on_it).collect()
    }

    async fn start_copy(self: &Rc<Self>, database: usize) -> Result<(), CampaignError> {
        let place = self.site.place(database, self.host).expect("only copies of this host are started");
        let (counters, log_counters) = (Counters::default(), Counters::default());
        let config = ReplicaConfig {
            instance: self.site.instance_config(database, place, &counters, &log_counters),
            tick: TICK,
            checkpoint_every: CHECKPOINT_EVERY,
        };
        let spec = self.site.databases[database].spec.clone();
        let links = Rc::new(CopyLinks { node: Rc::downgrade(self), database: spec.id });
        let (host, boot) = (HostId(self.host as u16), Boot(self.boot.get()));
        let replica = Rc::new(Replica::start(&self.world, spec, host, boot, config, links).await?);
        let copy = CopyHere { replica, users: None, counters, log_counters };
        self.copies.borrow_mut().insert(database, copy);
        Ok(())
    }

    /// Users begin where a copy takes commits, and end where it does not any more.
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

    /// Users work on a mounted database until it is dismounted or they go home.
    async fn serve(
        self: &Rc<Self>,
        database: usize,
        epoch: Epoch,
        instance: &Rc<Instance>,
        load: Rc<Load<SessionError>>,
    ) -> Result<(), SessionError> {
        let image = self.site.databases[database].image.clone();
        let mailboxes = Rc::new(Mailboxes::open(instance.clone(), 1, image).await?);
        let found = mailboxes.folder_versions(1..=FOLDERS).await?;
        self.observe(Observed::Opened { database, epoch, found });
        let mode = Mode::Paced { batches_per_s: self.batches_per_s(), sessions_max: SESSIONS_MAX };
        let inner = self.clone();
        let run = load.run(mode, move |_, number| {
            let (inner, mailboxes) = (inner.clone(), mailboxes.clone());
            async move {
                let (mix, seat) = (inner.site.mix, number as u32);
                let done = mailboxes.batch(&mix, inner.seed, database as u32, number, seat).await;
                let folders = mailboxes.take_acknowledged();
                if !folders.is_empty() {
                    inner.observe(Observed::Acknowledged { database, epoch, folders });
                }
                done
            }
        });
        run.await?;
        // Lazy commits of users who have gone home would wait for the next user, and the other copies for them.
        Ok(instance.flush_log().await?)
    }

    fn batches_per_s(&self) -> f64 {
        match self.site.pace {
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

/// The arbiter of a drill with its connections. Dropping it ends it as a crash would.
pub struct ArbiterNode {
    arbiter: Rc<ArbiterHost>,
    /// Open as long as the arbiter is there.
    _network: Rc<Network>,
}

impl ArbiterNode {
    /// Starts with the records in `folder`.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        site: &Site,
        folder: &str,
        addresses: BTreeMap<HostId, String>,
    ) -> Result<ArbiterNode, CampaignError> {
        make_folders(world, folder).await?;
        let slot: Rc<RefCell<Weak<Network>>> = Rc::default();
        let sending = slot.clone();
        let to_copy = Rc::new(move |host: HostId, database: DatabaseId, message| {
            if let Some(network) = sending.borrow().upgrade() {
                network.send(host, &Message::FromArbiter { database, message });
            }
        });
        let specs: Vec<_> = site.databases.iter().map(|database| database.spec.clone()).collect();
        let arbiter = Rc::new(ArbiterHost::start(world, folder, &specs, TICK, to_copy).await?);
        let to = Rc::downgrade(&arbiter);
        let receiver = Rc::new(move |_: HostId, message: Message| {
            if let (Some(arbiter), Message::ToArbiter(message)) = (to.upgrade(), message) {
                arbiter.receive(message);
            }
        });
        let network = Rc::new(Network::start(world, ARBITER, addresses, receiver).await?);
        *slot.borrow_mut() = Rc::downgrade(&network);
        Ok(ArbiterNode { arbiter, _network: network })
    }

    /// What has happened since the last call, by number of the database.
    pub fn take_events(&self) -> Vec<(usize, copies::ArbiterEvent)> {
        let events = self.arbiter.take_events();
        events.into_iter().map(|(_, database, event)| (usize::from(database.0), event)).collect()
    }

    /// Why a database is not mounted.
    pub fn why_dismounted(&self, database: usize) -> Option<copies::WhyDismounted> {
        self.arbiter.why_dismounted(DatabaseId(database as u16))
    }
}
