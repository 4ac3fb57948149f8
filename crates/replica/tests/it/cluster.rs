//! Copies on real engines in simulated time: hosts lose power, networks split, the arbiter goes and comes. No
//! acknowledged commit is lost under the lossless dial, there are never two active copies, and in the end all
//! copies say the same.
#![allow(clippy::print_stdout, reason = "says what the seeds have reached")]

mod random;
mod repair;
mod standstill;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::common::model::Random;
use crate::common::{PAGE_BYTES, check_structure, create, scan, tree_number};
use crate::liars::scenario::timing;
use engine::{Durability, Instance, InstanceConfig, LogStore, Standby};
use replica::wire::Message;
use replica::{ArbiterHost, Links, Network, Replica, ReplicaConfig};
use replication::{ActivationPolicy, Boot, CopySpec, DatabaseId, DatabaseSpec, Dial, Event, HostId, SiteId};
use smallvec::smallvec;
use world::sim::{Faults, FixedLatency, FixedLatencyTimes, OpKind, PowerCut, SimConfig, Simulation};
use world::{Duration, OpenMode, PageBuf, World};

const ARBITER: HostId = HostId(99);
const DATABASE: DatabaseId = DatabaseId(0);
const MS: Duration = Duration::from_millis(1);

fn name(host: HostId) -> String {
    if host == ARBITER { "ctl".to_owned() } else { format!("h{}", host.0) }
}

fn spec(copies: u16, dial: Dial) -> Rc<DatabaseSpec> {
    let copy = |host: u16| CopySpec {
        host: HostId(host),
        site: SiteId(0),
        preference: u32::from(host) + 1,
        activation: ActivationPolicy::Unrestricted,
        replay_lag_ms: 0,
        truncation_lag_ms: 0,
    };
    Rc::new(DatabaseSpec {
        id: DATABASE,
        dial,
        copies: (0..copies).map(copy).collect(),
        run_ahead_generations: 2,
        partner_in_other_site: false,
        signature: 0x5eed,
        circular_logging: true,
        planted: replication::Planted::default(),
        timing: timing(),
    })
}

/// Running copy of one host.
struct Node {
    replica: Rc<Replica>,
    /// Network of the host; it stays open as long as the node exists.
    _network: Rc<Network>,
}

struct NodeLinks {
    network: Rc<RefCell<Option<Rc<Network>>>>,
}

impl NodeLinks {
    fn send(&self, to: HostId, message: &Message) {
        if let Some(network) = &*self.network.borrow() {
            network.send(to, message);
        }
    }
}

impl Links for NodeLinks {
    fn to_arbiter(&self, message: replication::ToArbiter) {
        self.send(ARBITER, &Message::ToArbiter(message));
    }

    fn to_peer(&self, host: HostId, message: replication::PeerMessage) {
        self.send(host, &Message::Peer { database: DATABASE, message });
    }
}

struct Cluster {
    sim: Simulation,
    spec: Rc<DatabaseSpec>,
    config: InstanceConfig,
    hosts: Vec<HostId>,
    addresses: BTreeMap<HostId, String>,
    worlds: BTreeMap<HostId, World>,
    boots: BTreeMap<HostId, u32>,
    nodes: BTreeMap<HostId, Node>,
    arbiter: Option<(Rc<ArbiterHost>, Rc<Network>)>,
    /// Counts of commits: begun, returned, acknowledged.
    begun: Rc<Cell<u32>>,
    returned: Rc<Cell<u32>>,
    acknowledged: Rc<RefCell<Vec<u32>>>,
    events: BTreeMap<String, u64>,
    clients: Rc<Cell<bool>>,
    checkpoint_every: Duration,
}

impl Cluster {
    fn new(seed: u64, copies: u16, dial: Dial) -> Cluster {
        let storage = Box::new(FixedLatency::new(seed, FixedLatencyTimes::default()));
        let sim = Simulation::new(seed, SimConfig { storage, ..SimConfig::default() });
        let spec = spec(copies, dial);
        let hosts: Vec<HostId> = (0..copies).map(HostId).collect();
        let mut worlds = BTreeMap::new();
        for &host in hosts.iter().chain([&ARBITER]) {
            let world = sim.host(&name(host));
            for volume in ["/db", "/log", "/record"] {
                sim.volume(&name(host), volume, 1 << 40);
            }
            worlds.insert(host, world);
        }
        let addresses = hosts.iter().chain([&ARBITER]).map(|&host| (host, format!("{}:7000", name(host))));
        let addresses = addresses.collect();
        let first = worlds[&HostId(0)].clone();
        let config = sim.run_until(async {
            let mut config = create(&first, 1, 1).await;
            config.cache_bytes_per_database = 4000 * PAGE_BYTES as u64;
            Replica::create(&first, &config).await.unwrap();
            config
        });
        let tearing = PowerCut { lost_write: 0.2, torn_write: 0.5, ..PowerCut::default() };
        sim.set_faults(Faults { power_cut: tearing, ..Faults::default() });
        let mut cluster = Cluster {
            sim,
            spec,
            config,
            hosts: hosts.clone(),
            addresses,
            worlds,
            boots: BTreeMap::new(),
            nodes: BTreeMap::new(),
            arbiter: None,
            begun: Rc::default(),
            returned: Rc::default(),
            acknowledged: Rc::default(),
            events: BTreeMap::new(),
            clients: Rc::new(Cell::new(true)),
            checkpoint_every: MS * 700,
        };
        cluster.start_arbiter();
        for host in hosts {
            cluster.start(host);
        }
        cluster
    }

    fn start(&mut self, host: HostId) {
        let boot = self.boots.entry(host).or_default();
        *boot += 1;
        let boot = Boot(*boot);
        let world = self.worlds[&host].clone();
        let (spec, addresses) = (self.spec.clone(), self.addresses.clone());
        let (instance, checkpoint_every) = (self.config.clone(), self.checkpoint_every);
        let config = ReplicaConfig { instance, tick: MS * 20, checkpoint_every };
        let node = self.sim.run_until(async move {
            let slot = Rc::new(RefCell::new(None));
            let links = Rc::new(NodeLinks { network: slot.clone() });
            let replica = Replica::start(&world, spec, host, boot, config, links).await;
            let replica = Rc::new(replica.unwrap_or_else(|error| panic!("{host:?} does not start: {error}")));
            let to = Rc::downgrade(&replica);
            let receiver = Rc::new(move |from: HostId, message: Message| {
                let Some(replica) = to.upgrade() else { return };
                match message {
                    Message::Peer { message, .. } => replica.from_peer(from, message),
                    Message::FromArbiter { message, .. } if from == ARBITER => replica.from_arbiter(message),
                    _ => {}
                }
            });
            let network = Rc::new(Network::start(&world, host, addresses, receiver).await.unwrap());
            *slot.borrow_mut() = Some(network.clone());
            Node { replica, _network: network }
        });
        self.nodes.insert(host, node);
        self.start_client(host);
    }

    fn start_arbiter(&mut self) {
        let world = self.worlds[&ARBITER].clone();
        let (spec, addresses) = (self.spec.clone(), self.addresses.clone());
        self.arbiter = Some(self.sim.run_until(async move {
            let slot: Rc<RefCell<Option<Rc<Network>>>> = Rc::default();
            let sending = slot.clone();
            let to_copy = Rc::new(move |host: HostId, database: DatabaseId, message| {
                if let Some(network) = &*sending.borrow() {
                    network.send(host, &Message::FromArbiter { database, message });
                }
            });
            let arbiter = ArbiterHost::start(&world, "/record", &[spec], MS * 20, to_copy).await.unwrap();
            let arbiter = Rc::new(arbiter);
            let to = Rc::downgrade(&arbiter);
            let receiver = Rc::new(move |_: HostId, message: Message| {
                if let (Some(arbiter), Message::ToArbiter(message)) = (to.upgrade(), message) {
                    arbiter.receive(message);
                }
            });
            let network = Rc::new(Network::start(&world, ARBITER, addresses, receiver).await.unwrap());
            *slot.borrow_mut() = Some(network.clone());
            (arbiter, network)
        }));
    }

    /// Starts three sessions that commit on `host` whenever its copy is mounted.
    fn start_client(&self, host: HostId) {
        let (replica, world) = (Rc::downgrade(&self.nodes[&host].replica), self.worlds[&host].clone());
        let (begun, acknowledged, goes_on) =
            (self.begun.clone(), self.acknowledged.clone(), self.clients.clone());
        for session in 0..3u32 {
            let (replica, paused) = (replica.clone(), world.clone());
            let (begun, acknowledged, goes_on) = (begun.clone(), acknowledged.clone(), goes_on.clone());
            let returned = self.returned.clone();
            drop(world.spawn(async move {
                let mut random = Random::new(u64::from(host.0) * 10 + u64::from(session) + 1);
                while let Some(copy) = replica.upgrade() {
                    let instance = copy.instance().filter(|_| goes_on.get());
                    drop(copy);
                    if let Some(instance) = instance {
                        let number = begun.get() + 1;
                        begun.set(number);
                        let committed = commit(&instance, number, &mut random).await;
                        returned.set(returned.get() + 1);
                        if committed.is_ok() {
                            acknowledged.borrow_mut().push(number);
                        }
                    }
                    paused.sleep(Duration::from_micros(500 + random.below(9_000))).await;
                }
            }));
        }
    }

    fn crash(&mut self, host: HostId) {
        self.sim.crash(&name(host));
        self.nodes.remove(&host);
    }

    fn restart(&mut self, host: HostId) {
        self.worlds.insert(host, self.sim.restart(&name(host)));
        self.start(host);
    }

    fn active(&self) -> Vec<HostId> {
        let is_active = |(&host, node): (&HostId, &Node)| node.replica.status().active_in.map(|_| host);
        self.nodes.iter().filter_map(is_active).collect()
    }

    /// Lets time pass, and checks every 10 ms that at most one copy is active.
    fn run(&mut self, ms: u32) -> Result<(), String> {
        let clock = self.worlds[&ARBITER].clone();
        for _ in 0..ms.div_ceil(10) {
            self.sim.run_until(clock.sleep(MS * 10));
            let active = self.active();
            if active.len() > 1 {
                return Err(format!("two active copies: {active:?}"));
            }
        }
        for (host, node) in &self.nodes {
            if let Some(failure) = node.replica.status().failure {
                return Err(format!("{host:?} failed: {failure}"));
            }
            for (at, event) in node.replica.take_events() {
                if std::env::var("PROOFLOAD_TRACE").is_ok() {
                    println!("{at:>7} {host:?} {event:?}");
                }
                let text = format!("{event:?}");
                let kind = text.chars().take_while(|c| c.is_alphanumeric()).collect();
                *self.events.entry(kind).or_default() += 1;
                if event == Event::PieceRefused {
                    return Err(format!("{host:?} refused log of an honest network"));
                }
            }
        }
        if let Some((arbiter, _)) = &self.arbiter {
            for (at, _, event) in arbiter.take_events() {
                if std::env::var("PROOFLOAD_TRACE").is_ok() {
                    println!("{at:>7} arbiter {event:?}");
                }
            }
        }
        Ok(())
    }

    /// Runs until one copy is active, all copies have stored the whole log, and the passive ones have replayed it.
    fn run_until_level(&mut self, within_ms: u32) -> Result<HostId, String> {
        for _ in 0..within_ms / 100 {
            self.run(100)?;
            let reports: Vec<_> = self.nodes.values().map(|node| node.replica.status().report).collect();
            let (active, end) = (self.active(), reports[0].end);
            let is_whole = |report: &replication::Report| report.mountable && report.end == end;
            if active.len() == 1 && reports.len() == self.hosts.len() && reports.iter().all(is_whole) {
                let holder = active[0];
                let caught_up =
                    |report: &replication::Report| report.host == holder || report.replayed == end;
                if reports.iter().all(caught_up) && self.nodes[&holder].replica.instance().is_some() {
                    return Ok(holder);
                }
            }
        }
        let why = self.arbiter.as_ref().and_then(|(arbiter, _)| arbiter.why_dismounted(DATABASE));
        let reports: Vec<_> = self.nodes.values().map(|node| node.replica.status()).collect();
        Err(format!("not level within {within_ms} ms; {why:?}; {reports:?}"))
    }

    fn rows(&self, host: HostId) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let instance = self.nodes[&host].replica.instance().ok_or("it is not mounted")?;
        self.sim
            .run_until(async {
                check_structure(&instance, 1, 1).await?;
                scan(&instance.begin(), 1, tree_number(0)).await
            })
            .map_err(|error: engine::Error| error.to_string())
    }

    /// Activates each copy in turn. Each must return the same rows, with every acknowledged commit among them.
    fn check_all(&mut self) -> Result<(), String> {
        self.clients.set(false);
        let holder = self.run_until_level(20_000)?;
        let rows = self.rows(holder)?;
        for number in self.acknowledged.borrow().iter() {
            if !rows.contains_key(&number.to_be_bytes()[..]) {
                return Err(format!(
                    "commit {number} was acknowledged and is gone; {} rows are there",
                    rows.len()
                ));
            }
        }
        for host in self.hosts.clone() {
            if self.active() == [host] {
                continue;
            }
            for attempt in 0..200 {
                // A message to a host that has just started may be lost, and the move with it: operators try again.
                if attempt % 40 == 0 {
                    let (arbiter, _) = self.arbiter.as_ref().expect("it is back");
                    arbiter.move_to(DATABASE, host);
                }
                self.run(100)?;
                if self.active() == [host] && self.nodes[&host].replica.instance().is_some() {
                    break;
                }
            }
            if self.rows(host).map_err(|error| format!("move to {host:?}: {error}"))? != rows {
                return Err(format!("{host:?} says something else"));
            }
            self.run_until_level(10_000)?;
        }
        Ok(())
    }
}

async fn commit(instance: &Instance, number: u32, random: &mut Random) -> engine::Result<()> {
    let mut transaction = instance.begin();
    let data: Vec<u8> = (0..100 + random.below(400)).map(|_| random.below(256) as u8).collect();
    transaction.insert(1, tree_number(0), &number.to_be_bytes(), &data).await?;
    transaction.commit(Durability::Durable).await
}

#[test]
fn copies_are_seeded_and_take_over() {
    let mut cluster = Cluster::new(1, 3, Dial::Lossless);
    cluster.run_until_level(20_000).unwrap();
    let before = cluster.acknowledged.borrow().len();
    cluster.run(2_000).unwrap();
    assert!(cluster.acknowledged.borrow().len() > before + 50, "commits are acknowledged");
    cluster.crash(HostId(0));
    cluster.run(5_000).unwrap();
    assert_ne!(cluster.active(), [], "another copy has taken over");
    let before = cluster.acknowledged.borrow().len();
    cluster.run(1_000).unwrap();
    assert!(cluster.acknowledged.borrow().len() > before + 20, "it acknowledges commits");
    cluster.restart(HostId(0));
    cluster.run(1_000).unwrap();
    cluster.check_all().unwrap();
}

#[test]
fn every_commit_returns_where_the_active_copy_loses_its_lease() {
    let mut cluster = Cluster::new(2, 3, Dial::Lossless);
    for _ in 0..10 {
        let holder = cluster.run_until_level(20_000).unwrap();
        cluster.sim.partition(&name(holder), &name(ARBITER));
        cluster.run(3_000).unwrap();
        cluster.sim.heal(&name(holder), &name(ARBITER));
    }
    cluster.clients.set(false);
    cluster.run(5_000).unwrap();
    assert_eq!(cluster.returned.get(), cluster.begun.get());
}

#[test]
fn a_write_that_fails_under_the_active_copy_ends_it_and_another_one_takes_over() {
    let mut cluster = Cluster::new(3, 3, Dial::Lossless);
    cluster.run_until_level(20_000).unwrap();
    cluster.clients.set(false);
    cluster.run(3_000).unwrap();
    let holder = cluster.run_until_level(20_000).unwrap();
    // Nothing else is written by now: the first write is the log of the next commit.
    let instance = cluster.nodes[&holder].replica.instance().unwrap();
    let faults = Faults { fail_nth: Some((OpKind::Write, 1)), ..Faults::default() };
    cluster.sim.set_faults(faults);
    cluster.sim.run_until(commit(&instance, 1_000_000, &mut Random::new(3))).unwrap_err();
    drop(instance);
    let clock = cluster.worlds[&ARBITER].clone();
    cluster.sim.run_until(clock.sleep(MS * 100));
    let status = cluster.nodes[&holder].replica.status();
    assert_eq!(status.active_in, None);
    assert!(status.failure.is_some(), "it says why");
    cluster.sim.run_until(clock.sleep(MS * 2_000));
    assert_ne!(cluster.active(), [], "another copy has taken over");
    cluster.crash(holder);
    cluster.restart(holder);
    cluster.check_all().unwrap();
}

/// Counts the pages messages that a copy sends.
#[derive(Default)]
struct Answers(Cell<u32>);

impl Links for Answers {
    fn to_arbiter(&self, _message: replication::ToArbiter) {}

    fn to_peer(&self, _host: HostId, message: replication::PeerMessage) {
        self.0.set(self.0.get() + u32::from(matches!(message, replication::PeerMessage::Pages { .. })));
    }
}

#[test]
fn a_question_that_is_repeated_before_it_is_answered_is_answered_once() {
    let sim = Simulation::new(1, SimConfig::default());
    let world = sim.host("h");
    ["/db", "/log"].iter().for_each(|volume| sim.volume("h", volume, 1 << 30));
    let answers = Rc::new(Answers::default());
    sim.run_until(async {
        let instance = create(&world, 1, 1).await;
        Replica::create(&world, &instance).await.unwrap();
        let config = ReplicaConfig { instance, tick: MS * 20, checkpoint_every: MS * 700 };
        let (spec, links) = (spec(2, Dial::Lossless), answers.clone());
        let copy = Replica::start(&world, spec, HostId(0), Boot(1), config, links).await.unwrap();
        world.sleep(MS * 1_000).await;
        let ask = || {
            let message = replication::PeerMessage::FetchPages {
                epoch: replication::Epoch(0),
                nonce: 1,
                request: replication::PageRequest::List(vec![5]),
                at_least: replication::Position::START,
            };
            copy.from_peer(HostId(1), message);
        };
        (0..5).for_each(|_| ask());
        world.sleep(MS * 1_000).await;
        assert_eq!(answers.0.get(), 1);
        ask();
        world.sleep(MS * 1_000).await;
        assert_eq!(answers.0.get(), 2, "that answer may have been lost");
    });
}

/// Damages a page of the copy on `host`, which is down: a page that its log changes and holds no image of. Returns
/// `false` if there is none.
fn damage_unproven(cluster: &Cluster, world: &World) -> bool {
    let page_bytes = PAGE_BYTES as u64;
    cluster.sim.run_until(async {
        let file = world.open(&cluster.config.databases[0].path, OpenMode::ReadWrite).await.unwrap();
        let mut whole = Vec::new();
        for place in 5..file.size().await.unwrap() / page_bytes {
            let (read, bufs) = file.read_at(place * page_bytes, smallvec![PageBuf::empty(PAGE_BYTES)]).await;
            read.unwrap();
            let page = bufs[0].as_slice().to_vec();
            let mut bad = page.clone();
            bad[100] ^= 0xFF;
            bad[3000] ^= 0x5A;
            file.write_at(place * page_bytes, smallvec![PageBuf::copy_of(&bad)]).await.0.unwrap();
            whole.push((place, page));
        }
        let store = LogStore::open(world, &cluster.config).await.unwrap();
        let mut standby = Standby::open(world, &cluster.config).await.unwrap();
        standby.replay(store.extent().unwrap().1).await.unwrap();
        let unproven = standby.unproven_pages().first().map(|(_, pgno)| u64::from(*pgno) + 1);
        standby.abandon().await;
        for (place, page) in whole.iter().filter(|(place, _)| Some(*place) != unproven) {
            file.write_at(place * page_bytes, smallvec![PageBuf::copy_of(page)]).await.0.unwrap();
        }
        file.sync().await.unwrap();
        unproven.is_some()
    })
}

#[test]
fn a_copy_with_a_page_that_nothing_proves_does_not_become_active_right_after_its_start() {
    let (holder, damaged) = (HostId(0), HostId(1));
    let found = (1..=20).any(|seed| {
        let mut cluster = Cluster::new(seed, 3, Dial::Lossless);
        cluster.run_until_level(20_000).unwrap();
        cluster.run(3_000).unwrap();
        assert_eq!(cluster.active(), [holder]);
        cluster.crash(damaged);
        let world = cluster.sim.restart(&name(damaged));
        if !damage_unproven(&cluster, &world) {
            return false;
        }
        cluster.worlds.insert(damaged, world);
        // It says nothing of its pages when it saves its checkpoint: it does not come to that.
        cluster.checkpoint_every = MS * 60_000;
        cluster.clients.set(false);
        cluster.crash(holder);
        cluster.start(damaged);
        cluster.run(10_000).unwrap();
        cluster.restart(holder);
        cluster.check_all().unwrap();
        true
    });
    assert!(found, "the log has every page that it changes as a whole");
}
