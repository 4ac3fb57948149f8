//! Copies of a database on three agents: real files, the copy port with the fleet's certificates, the arbiter on the controller
//! over a real nats-server. The active copy dies and comes back, the controller dies and is followed by another one: under the
//! lossless dial no acknowledged commit is lost, epochs never go back, and in the end all copies say the same.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{config_below, create_below, scan, tree_number};
use copies::{
    ActivationPolicy, Boot, CopySpec, DatabaseId, DatabaseSpec, Dial, HostId, PeerMessage, Planted, SiteId,
    Timing, ToArbiter,
};
use engine::{Durability, Instance};
use fleet::agent::{Agent, HostWork};
use fleet::arbiter::{ArbiterLink, Arbitration, Speaker};
use fleet::controller::{Controller, Watcher};
use fleet::copy_port::Members;
use fleet::credentials::{Credentials, make};
use fleet::gate::Gate;
use fleet::message::{Assignment, Ended, WhenAlone};
use fleet::roster::{Fate, Note, Plan, Roster, WhenLost};
use fleet::server::Server;
use replica::wire::Message;
use replica::{Links, Network, Replica, ReplicaConfig};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;
use world::World;
use world::real::{self, RealConfig};

const DATABASE: DatabaseId = DatabaseId(0);
const MS: Duration = Duration::from_millis(1);

/// Patient enough for a machine that does much else.
const TIMING: Timing = Timing {
    lease_ms: 2_500,
    renew_ms: 400,
    drift_ppm: 1_000,
    detect_ms: 2_000,
    report_ms: 300,
    collect_ms: 2_000,
    catch_up_ms: 5_000,
    mount_ms: 10_000,
    drain_ms: 3_000,
    resend_ms: 300,
    partner_patience_ms: 1_500,
    move_back_ms: None,
};

fn names() -> Vec<String> {
    ["h1", "h2", "h3"].map(str::to_owned).to_vec()
}

fn numbers() -> BTreeMap<HostId, String> {
    (1..).map(HostId).zip(names()).collect()
}

fn spec() -> DatabaseSpec {
    let copy = |host: HostId| CopySpec {
        host,
        site: SiteId(0),
        preference: host.0.into(),
        activation: ActivationPolicy::Unrestricted,
        replay_lag_ms: 0,
        truncation_lag_ms: 0,
    };
    DatabaseSpec {
        id: DATABASE,
        dial: Dial::Lossless,
        copies: numbers().into_keys().map(copy).collect(),
        run_ahead_generations: 2,
        partner_in_other_site: false,
        signature: 0x5eed,
        circular_logging: true,
        planted: Planted::default(),
        timing: TIMING,
    }
}

/// What the test wants and sees of all hosts.
#[derive(Default)]
struct Board {
    /// Hosts whose copy is to be dead.
    dead: Vec<HostId>,
    /// No more commits.
    is_quiet: bool,
    begun: u32,
    acknowledged: Vec<u32>,
    /// Who was active in an epoch when it acknowledged something, in the order of time.
    reigns: Vec<(u32, HostId)>,
    /// The end of each copy's log, and how far it has replayed.
    ends: BTreeMap<HostId, (copies::Position, copies::Position)>,
}

type Shared = Arc<Mutex<Board>>;

struct CopyWork {
    host: HostId,
    root: String,
    credentials: Credentials,
    addresses: BTreeMap<HostId, String>,
    board: Shared,
}

struct CopyLinks {
    speaker: Speaker,
    network: Rc<RefCell<Option<Rc<Network>>>>,
}

impl Links for CopyLinks {
    fn to_arbiter(&self, message: ToArbiter) {
        self.speaker.say(message);
    }

    fn to_peer(&self, host: HostId, message: PeerMessage) {
        if let Some(network) = &*self.network.borrow() {
            network.send(host, &Message::Peer { database: DATABASE, message });
        }
    }
}

impl HostWork for CopyWork {
    fn prepare(&self, _assignment: &Assignment) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn run(
        &self,
        _assignment: &Assignment,
        folder: &Path,
        gate: &Gate,
        arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        let config = RealConfig { direct: false, shards: 1, ..RealConfig::new(&self.root) };
        real::run(config, |world| self.serve(world, gate, arbiter)).expect("an event queue");
        std::fs::write(folder.join("over"), "").expect("writable");
        (Ended::Passed, None)
    }
}

impl CopyWork {
    async fn serve(&self, world: World, gate: &Gate, mut arbiter: ArbiterLink) {
        if self.host == HostId(1) {
            let config = create_below(&world, &self.root, 1, 1).await;
            Replica::found(&world, &config).await.expect("a new database");
        }
        let current: Rc<RefCell<Option<Rc<Replica>>>> = Rc::default();
        let (hearing, speaker) = (current.clone(), arbiter.speaker());
        let hears = world.spawn(async move {
            while let Some((_, message)) = arbiter.hear().await {
                let replica = hearing.borrow().clone();
                if let Some(replica) = replica {
                    replica.from_arbiter(message);
                }
            }
        });
        let (mut boot, mut network) = (0, None);
        while gate.stop_asked().is_none() {
            let is_dead = self.board().dead.contains(&self.host);
            if is_dead && current.take().is_some() {
                network = None;
            } else if !is_dead && current.borrow().is_none() {
                boot += 1;
                let (replica, open) = self.start(&world, Boot(boot), speaker.clone()).await;
                self.commit_in_turn(&world, &replica);
                *current.borrow_mut() = Some(replica);
                network = Some(open);
            }
            if let Some(replica) = &*current.borrow() {
                let status = replica.status();
                assert_eq!(status.failure, None, "{:?}", self.host);
                self.board().ends.insert(self.host, (status.report.end, status.report.replayed));
            }
            world.sleep(MS * 50).await;
        }
        current.take();
        drop((network, hears));
        world.sleep(MS * 200).await;
    }

    fn board(&self) -> std::sync::MutexGuard<'_, Board> {
        self.board.lock().expect("no test thread has failed")
    }

    async fn start(&self, world: &World, boot: Boot, speaker: Speaker) -> (Rc<Replica>, Rc<Network>) {
        let slot: Rc<RefCell<Option<Rc<Network>>>> = Rc::default();
        let links = Rc::new(CopyLinks { speaker, network: slot.clone() });
        let mut instance = config_below(&self.root, 1);
        instance.cache_bytes_per_database = 16 << 20;
        let config = ReplicaConfig { instance, tick: MS * 20, checkpoint_every: MS * 700 };
        let replica = Replica::start(world, Rc::new(spec()), self.host, boot, config, links).await;
        let replica = Rc::new(replica.expect("it starts"));
        let to = Rc::downgrade(&replica);
        let receiver = Rc::new(move |from, message| {
            if let (Some(replica), Message::Peer { message, .. }) = (to.upgrade(), message) {
                replica.from_peer(from, message);
            }
        });
        let members = Members::new(&self.credentials, &numbers(), |text| panic!("{text}")).expect("made");
        let addresses = self.addresses.clone();
        let network = Network::start_guarded(world, self.host, addresses, Rc::new(members), receiver).await;
        let network = Rc::new(network.expect("the port is free"));
        *slot.borrow_mut() = Some(network.clone());
        (replica, network)
    }

    /// Durable commits, one after the other, while the copy takes them.
    fn commit_in_turn(&self, world: &World, replica: &Rc<Replica>) {
        let (replica, paused) = (Rc::downgrade(replica), world.clone());
        let (board, host) = (self.board.clone(), self.host);
        drop(world.spawn(async move {
            while let Some(copy) = replica.upgrade() {
                if let Some(instance) = copy.instance() {
                    let number = {
                        let mut board = board.lock().expect("no test thread has failed");
                        board.begun += u32::from(!board.is_quiet);
                        (!board.is_quiet).then_some(board.begun)
                    };
                    if let Some(number) = number
                        && commit(&instance, number).await.is_ok()
                    {
                        let mut board = board.lock().expect("no test thread has failed");
                        board.acknowledged.push(number);
                        let reign = copy.status().active_in.map(|epoch| (epoch.0, host));
                        if let Some(reign) = reign.filter(|reign| board.reigns.last() != Some(reign)) {
                            board.reigns.push(reign);
                        }
                    }
                }
                drop(copy);
                paused.sleep(MS * 3).await;
            }
        }));
    }
}

async fn commit(instance: &Instance, number: u32) -> engine::Result<()> {
    let mut transaction = instance.begin();
    let data = vec![number as u8; 200];
    transaction.insert(1, tree_number(0), &number.to_be_bytes(), &data).await?;
    transaction.commit(Durability::Durable).await
}

/// Notes what happens, and ends the run when asked.
#[derive(Default)]
struct Desk {
    notes: Rc<RefCell<Vec<String>>>,
    interrupts: Rc<RefCell<u32>>,
}

impl Watcher for Desk {
    fn note(&mut self, note: &Note) {
        self.notes.borrow_mut().push(format!("{}: {}", note.host.as_deref().unwrap_or("-"), note.text));
    }
    fn look(&mut self, _roster: &Roster) {}
    fn interrupts(&self) -> u32 {
        *self.interrupts.borrow()
    }
}

struct Site {
    folder: tempfile::TempDir,
    board: Shared,
    notes: Rc<RefCell<Vec<String>>>,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
        let site = Site { folder, board: Shared::default(), notes: Rc::default() };
        make(&site.path("fleet"), &names(), &format!("127.0.0.1:{}", free_port())).expect("a fleet");
        std::fs::create_dir(site.path("run")).expect("writable");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self, host: &str) -> String {
        self.path(&format!("data-{host}")).to_str().expect("text").to_owned()
    }

    fn agents(&self) -> Vec<JoinHandle<()>> {
        let addresses: BTreeMap<HostId, String> =
            numbers().into_keys().map(|host| (host, format!("127.0.0.1:{}", free_port()))).collect();
        let agent = |(host, name): (HostId, String)| {
            let credentials =
                Credentials::read(&self.path(&format!("fleet/agents/{name}.toml"))).expect("made");
            let root = self.root(&name);
            for part in ["db", "log"] {
                std::fs::create_dir_all(format!("{root}/{part}")).expect("writable");
            }
            let (addresses, board) = (addresses.clone(), self.board.clone());
            let work = CopyWork { host, root, credentials: credentials.clone(), addresses, board };
            let agent = Agent::new(credentials, &self.path(&format!("state-{name}")), "1.0", Arc::new(work));
            let agent = agent.expect("its folder is free");
            spawn_local(async move { agent.serve(|_| {}).await.expect("it serves") })
        };
        numbers().into_iter().map(agent).collect()
    }

    /// A controller with the arbiter, until it is aborted or the run is over; and what ends the run.
    fn controller(&self, is_new: bool) -> (JoinHandle<BTreeMap<String, Fate>>, Rc<RefCell<u32>>) {
        let credentials = Credentials::read(&self.path("fleet/controller.toml")).expect("made");
        let controller = match is_new {
            true => Controller::new(credentials, &self.path("run"), plan()),
            false => Controller::resume(credentials, &self.path("run")),
        };
        let copies = Arbitration { databases: vec![spec()], hosts: numbers() };
        let mut controller = controller.expect("a run").with_arbiter(copies);
        let mut desk = Desk { notes: self.notes.clone(), ..Desk::default() };
        let interrupts = desk.interrupts.clone();
        let conducted = spawn_local(async move {
            controller.conduct(&mut desk).await.expect("it conducts");
            controller.memory().fates.clone()
        });
        (conducted, interrupts)
    }

    fn board(&self) -> std::sync::MutexGuard<'_, Board> {
        self.board.lock().expect("no test thread has failed")
    }

    async fn until(&self, what: &str, done: impl Fn(&Board) -> bool) {
        let started = Instant::now();
        while !done(&self.board()) {
            let board = self.board();
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "{what}: {} acknowledged, {:?}, {:?}\n{}",
                board.acknowledged.len(),
                board.reigns,
                board.ends,
                self.notes.borrow().join("\n")
            );
            drop(board);
            sleep(MS * 20).await;
        }
    }

    /// Waits until that many more commits are acknowledged.
    async fn more(&self, what: &str, commits: usize) {
        let before = self.board().acknowledged.len();
        self.until(what, |board| board.acknowledged.len() >= before + commits).await;
    }

    /// What the copy on a host says, from its files alone.
    fn rows(&self, host: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let config = RealConfig { direct: false, shards: 1, ..RealConfig::new(host) };
        let read = real::run(config, |world| async move {
            let (instance, _) = Instance::open(&world, &config_below(&self.root(host), 1)).await?;
            let rows = scan(&instance.begin(), 1, tree_number(0)).await;
            instance.abandon().await;
            rows
        });
        read.expect("an event queue").expect("readable")
    }
}

fn plan() -> Plan {
    Plan {
        run: "run-1".into(),
        tool_version: "1.0".into(),
        hosts: names(),
        solution: "[solution]".into(),
        tests: Vec::new(),
        seed: 1,
        allow_memory: false,
        when_lost: WhenLost::Finish,
        when_alone: WhenAlone::Finish,
        alone_after_ms: 60_000,
        assemble_limit_ms: 30_000,
    }
}

#[test]
fn no_acknowledged_commit_is_lost_when_the_active_copy_and_then_the_controller_die() {
    if !testkit::has_tool("nats-server", &["--version"], "sudo apt-get install -y nats-server") {
        return;
    }
    let site = Site::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event queue");
    runtime.block_on(LocalSet::new().run_until(async {
        let _server = Server::start("nats-server", &site.path("fleet")).expect("it starts");
        sleep(Duration::from_secs(1)).await;
        let agents = site.agents();
        let (first, _) = site.controller(true);
        site.more("copies are made and one is active", 100).await;

        let (_, active) = *site.board().reigns.last().expect("one was");
        site.board().dead.push(active);
        site.until("another copy takes over", |board| {
            board.reigns.last().is_some_and(|(_, host)| *host != active)
        })
        .await;
        site.more("it goes on", 100).await;
        site.board().dead.clear();
        sleep(Duration::from_secs(2)).await;

        // No controller, no lease: commits end.
        first.abort();
        sleep(MS * 6_000).await;
        let before = site.board().acknowledged.len();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(site.board().acknowledged.len(), before, "without the arbiter nothing is active");
        let (second, interrupts) = site.controller(false);
        site.more("the next controller takes the record up", 100).await;

        site.board().is_quiet = true;
        let drained = |board: &Board| {
            let end = board.ends.values().map(|(end, _)| *end).max();
            let passive = board.ends.values().filter(|(end, replayed)| replayed == end).count();
            board.ends.len() == 3 && board.ends.values().all(|(own, _)| Some(*own) == end) && passive >= 2
        };
        site.until("the queues drain", drained).await;
        *interrupts.borrow_mut() = 1;
        let fates = second.await.expect("it ends");
        let ended = |fate: &Fate| matches!(fate, Fate::Ended { how: Ended::Passed, evidence_kept: true, .. });
        assert!(fates.values().all(ended), "{fates:?}");
        agents.iter().for_each(JoinHandle::abort);
    }));

    let board = site.board();
    let epochs: Vec<u32> = board.reigns.iter().map(|(epoch, _)| *epoch).collect();
    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "one reign each, in turn: {epochs:?}");
    let rows = site.rows("h1");
    for number in &board.acknowledged {
        assert!(rows.contains_key(&number.to_be_bytes()[..]), "commit {number} of {} is gone", rows.len());
    }
    for host in ["h2", "h3"] {
        assert_eq!(site.rows(host), rows, "{host} says something else");
    }
}
