//! Copies on agents: real files, the copy port with the fleet's certificates, the arbiter on the controller
//! over a real nats-server. Copies, hosts and the controller die, a host is cut off: under the lossless dial no
//! acknowledged commit is lost, no two copies acknowledge at once, and in the end all copies of a database say
//! the same.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

mod board;
mod host;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::board::{Acknowledged, Board, assert_never_two_active};
use self::host::{CopyWork, MS, databases, hosts, instance};
use crate::common::{scan, tree_number};
use crate::net;
use crate::net::Net;
use crate::scenario::{Ground, liars_change_nothing};
use engine::Instance;
use fleet::agent::Agent;
use fleet::arbiter::Arbitration;
use fleet::controller::{Controller, Watcher};
use fleet::copy_port::Members;
use fleet::credentials::{Credentials, make};
use fleet::membership::{Fate, Membership, Note, Plan, WhenLost};
use fleet::message::{Ended, Program, WhenAlone};
use fleet::server::Server;
use replica::Guard;
use replication::{DatabaseId, HostId};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use world::real::{self, RealConfig};

/// Console that notes all messages, and ends the run when asked.
#[derive(Default)]
struct Console {
    notes: Rc<RefCell<Vec<String>>>,
    interrupts: Rc<RefCell<u32>>,
}

impl Watcher for Console {
    fn note(&mut self, note: &Note) {
        self.notes.borrow_mut().push(format!("{}: {}", note.host.as_deref().unwrap_or("-"), note.text));
    }
    fn look(&mut self, _roster: &Membership) {}
    fn interrupts(&self) -> u32 {
        *self.interrupts.borrow()
    }
}

struct TestFleet {
    folder: PathBuf,
    hosts: u16,
    /// See [`databases`].
    solution: &'static str,
    /// Address of the bus.
    bus: String,
    board: Board,
    notes: Rc<RefCell<Vec<String>>>,
}

type Conducted = (JoinHandle<BTreeMap<String, Fate>>, Rc<RefCell<u32>>);

impl TestFleet {
    fn new(folder: &Path, hosts: u16, solution: &'static str, bus: &str) -> TestFleet {
        let board = Board::new(&folder.join("board"));
        let fleet = TestFleet {
            folder: folder.to_owned(),
            hosts,
            solution,
            bus: bus.to_owned(),
            board,
            notes: Rc::default(),
        };
        let names: Vec<String> = host::hosts(hosts).into_values().collect();
        make(&fleet.path("fleet"), &names, bus).expect("a fleet");
        std::fs::create_dir(fleet.path("run")).expect("writable");
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts the bus and waits until it accepts connections: a controller that finds no server gives up.
    fn server(&self) -> Server {
        let server = Server::start("nats-server", &self.path("fleet")).expect("it starts");
        testkit::wait_for_listener(&self.bus);
        server
    }

    fn plan(&self) -> Plan {
        Plan {
            run: "run-1".into(),
            tool_version: "1.0".into(),
            build: None,
            hosts: hosts(self.hosts).into_values().collect(),
            solution: self.solution.into(),
            tests: Vec::new(),
            seed: 1,
            allow_memory: false,
            when_lost: WhenLost::Finish,
            when_alone: WhenAlone::Finish,
            alone_after_ms: 60_000,
            assemble_limit_ms: 600_000,
        }
    }

    /// Starts a controller with the arbiter (or resumes the run). Returns its task, and the switch that ends the run.
    fn controller(&self, is_new: bool) -> Conducted {
        let credentials = Credentials::read(&self.path("fleet/controller.toml")).expect("made");
        let controller = match is_new {
            true => Controller::new(credentials, &self.path("run"), self.plan()),
            false => Controller::resume(credentials, &self.path("run")),
        };
        let copies = Arbitration { databases: databases(self.solution), hosts: hosts(self.hosts) };
        let mut controller = controller.expect("a run").with_arbiter(copies);
        let mut console = Console { notes: self.notes.clone(), ..Console::default() };
        let interrupts = console.interrupts.clone();
        let conducted = spawn_local(async move {
            controller.conduct(&mut console).await.expect("it conducts");
            controller.memory().fates.clone()
        });
        (conducted, interrupts)
    }

    fn of(&self, database: u16) -> Vec<Acknowledged> {
        let history = self.board.history().into_iter();
        history.filter(|acknowledged| acknowledged.database == DatabaseId(database)).collect()
    }

    /// Host that acknowledged the newest commit.
    fn active(&self, database: u16) -> HostId {
        self.of(database).last().expect("somebody has").host
    }

    async fn until(&self, what: &str, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            if started.elapsed() > Duration::from_secs(120) {
                let logs = hosts(self.hosts).into_values().map(|host| self.path(&format!("{host}.log")));
                let logs: Vec<String> = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
                panic!("{what}\n{}\n{}", self.notes.borrow().join("\n"), logs.join("\n"));
            }
            sleep(MS * 50).await;
        }
    }

    /// Waits until `commits` more commits have been acknowledged.
    async fn more(&self, what: &str, database: u16, commits: usize) {
        let before = self.of(database).len();
        self.until(what, || self.of(database).len() >= before + commits).await;
    }

    /// Waits until the copies on these hosts have stored the whole log and the passive ones have replayed it. No
    /// user may commit meanwhile.
    async fn drain(&self, database: u16, on: &[u16]) {
        let is_drained = || {
            let copies = self.board.copies(DatabaseId(database));
            let copies: Vec<_> = on.iter().filter_map(|host| copies.get(&HostId(*host))).collect();
            let end = copies.iter().map(|(end, _)| *end).max();
            let has_replayed = copies.iter().filter(|(end, replayed)| replayed == end).count();
            let have_all = copies.iter().all(|(own, _)| Some(*own) == end);
            copies.len() == on.len() && have_all && has_replayed >= on.len() - 1
        };
        self.until("the queues drain", is_drained).await;
    }

    /// Rows of a copy, read from its files.
    fn rows(&self, host: u16, database: u16) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let root = self.path(&format!("data-h{host}")).to_str().expect("text").to_owned();
        let config = RealConfig { direct: false, shards: 1, ..RealConfig::new("reader") };
        let read = real::run(config, |world| async move {
            let (opened, _) = Instance::open(&world, &instance(&root, DatabaseId(database))).await?;
            let rows = scan(&opened.begin(), 1, tree_number(0)).await;
            opened.abandon().await;
            rows
        });
        read.expect("an event queue").expect("readable")
    }

    /// Asserts that these hosts hold the same rows, with every acknowledged commit among them.
    fn assert_equal(&self, database: u16, on: &[u16]) {
        let history = self.of(database);
        assert_never_two_active(&history);
        let rows = self.rows(on[0], database);
        for Acknowledged { row, host, .. } in &history {
            assert!(rows.contains_key(&row.to_be_bytes()[..]), "row {row} of {host:?} is gone");
        }
        for host in on {
            assert!(self.rows(*host, database) == rows, "database {database}: h{host} says something else");
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}

fn agent(folder: &Path, host: HostId, addresses: BTreeMap<HostId, String>) -> Agent {
    let credentials = folder.join(format!("fleet/agents/h{}.toml", host.0));
    let credentials = Credentials::read(&credentials).expect("made");
    let root = folder.join(format!("data-h{}", host.0)).to_str().expect("text").to_owned();
    let board = Board::new(&folder.join("board"));
    let work = CopyWork { host, root, credentials: credentials.clone(), addresses, board };
    let state = folder.join(format!("state-h{}", host.0));
    Agent::new(
        credentials,
        &state,
        Program::running("1.0", "a test").expect("it can be read"),
        Arc::new(work),
    )
    .expect("its folder is free")
}

fn in_local<F: Future<Output = ()>>(scenario: F) {
    fleet::run(scenario).expect("an event queue");
}

#[test]
fn no_acknowledged_commit_is_lost_when_the_active_copy_and_then_the_controller_die() {
    if !testkit::has_tool("nats-server", &["--version"], "sudo apt-get install -y nats-server") {
        return;
    }
    let folder = testkit::folder_in_memory();
    let fleet = TestFleet::new(folder.path(), 3, "1 2 3", &format!("127.0.0.1:{}", free_port()));
    in_local(async {
        let _server = fleet.server();
        let addresses = hosts(3).into_keys().map(|host| (host, format!("127.0.0.1:{}", free_port())));
        let addresses: BTreeMap<HostId, String> = addresses.collect();
        for host in hosts(3).into_keys() {
            let agent = agent(&fleet.folder, host, addresses.clone());
            drop(spawn_local(async move { agent.serve(|_| {}, || false).await.expect("it serves") }));
        }
        let (first, _) = fleet.controller(true);
        fleet.more("copies are made and one is active", 0, 100).await;

        let active = fleet.active(0);
        let dead = format!("dead-{}", active.0);
        fleet.board.want(&dead, true);
        fleet.until("another copy takes over", || fleet.active(0) != active).await;
        fleet.more("it goes on", 0, 100).await;
        fleet.board.want(&dead, false);
        sleep(MS * 2_000).await;

        // No controller, no lease: commits end.
        first.abort();
        sleep(MS * 6_000).await;
        let before = fleet.of(0).len();
        sleep(MS * 1_000).await;
        assert_eq!(fleet.of(0).len(), before, "without the arbiter nothing is active");
        let (second, interrupts) = fleet.controller(false);
        fleet.more("the next controller takes the record up", 0, 100).await;

        fleet.board.want("quiet", true);
        fleet.drain(0, &[1, 2, 3]).await;
        *interrupts.borrow_mut() = 1;
        let fates = second.await.expect("it ends");
        let ended = |fate: &Fate| matches!(fate, Fate::Ended { how: Ended::Passed, evidence_kept: true, .. });
        assert!(fates.values().all(ended), "{fates:?}");
    });
    fleet.assert_equal(0, &[1, 2, 3]);
}

#[test]
fn members_that_lie_over_the_copy_port_never_change_a_healthy_copy() {
    let folder = testkit::folder_in_memory();
    let fleet = folder.path().join("fleet");
    let names: Vec<String> = hosts(3).into_values().collect();
    make(&fleet, &names, "127.0.0.1:4222").expect("a fleet");
    let roots: BTreeMap<HostId, String> = hosts(3)
        .into_iter()
        .map(|(host, name)| {
            let root = folder.path().join(name);
            for part in ["db", "log"] {
                std::fs::create_dir_all(root.join(part)).expect("writable");
            }
            (host, root.to_str().expect("text").to_owned())
        })
        .collect();
    let addresses = roots.keys().map(|host| (*host, format!("127.0.0.1:{}", free_port()))).collect();
    let guard = Rc::new(move |host: HostId| {
        let credentials = Credentials::read(&fleet.join(format!("agents/h{}.toml", host.0))).expect("made");
        let members = Members::new(&credentials, &hosts(3), drop).expect("it has a certificate");
        Some(Rc::new(members) as Rc<dyn Guard>)
    });
    let config = RealConfig { direct: false, shards: 1, ..RealConfig::new("h") };
    let told = real::run(config, |world| async move {
        let hosts = roots.into_iter().map(|(host, root)| (host, (world.clone(), root))).collect();
        liars_change_nothing(&Ground { hosts, addresses, guard }).await;
    });
    told.expect("an event queue");
}

/// Environment variable of an agent process: its host and its folder.
const AGENT: &str = "PROOFLOAD_COPIES_AGENT";

fn addresses_on_the_net(hosts: u16) -> BTreeMap<HostId, String> {
    (1..=hosts).map(|host| (HostId(host), format!("10.77.0.{}:7400", host + 1))).collect()
}

/// Agent of a host in the test below: a process in a network namespace. It does nothing when run as a test.
#[test]
fn agent_process() {
    let Ok(agents) = std::env::var(AGENT) else { return };
    let (host, folder) = agents.split_once(' ').expect("two words");
    let agent = agent(Path::new(folder), HostId(host.parse().expect("a number")), addresses_on_the_net(4));
    in_local(async { agent.serve(|text| eprintln!("{text}"), || false).await.expect("it serves") });
}

#[test]
fn four_hosts_lose_one_and_cut_one_off_and_no_acknowledged_commit_is_lost() {
    if !net::can_run() {
        return;
    }
    let folder = testkit::folder_in_memory();
    let net = Net::new(4);
    let program = std::env::current_exe().expect("this test");
    let start = |host: usize| {
        let which = format!("{AGENT}={host} {}", folder.path().display());
        let words =
            [&which, program.to_str().expect("text"), "--exact", "copies::agent_process", "--nocapture"];
        net.start(host, folder.path(), "env", &words, &folder.path().join(format!("h{host}.log")))
    };
    net.enter(0, || {
        let bus = format!("{}:4222", net.controller_address());
        // Two copies, two copies, and four of which the one on the host that will die is preferred.
        let fleet = TestFleet::new(folder.path(), 4, "1 2\n2 3\n4 1 2 3", &bus);
        in_local(async {
            let _server = fleet.server();
            let (_others, victim) = ([1, 2, 3].map(start), start(4));
            let (conducted, interrupts) = fleet.controller(true);
            for database in 0..3 {
                fleet.more("copies are made and one is active", database, 50).await;
            }
            if fleet.active(2) != HostId(4) {
                // No place to be asked for: a lease ends when its holder stands still for longer.
                eprintln!("the host that dies has lost its copy before: this death shows no takeover");
            }
            victim.kill();
            fleet
                .until("another copy takes over from a host that died", || fleet.active(2) != HostId(4))
                .await;
            fleet.more("it goes on", 2, 50).await;

            let cut_off = fleet.active(0);
            net.plug(usize::from(cut_off.0), false);
            sleep(MS * 8_000).await;
            if cut_off == HostId(1) {
                fleet.more("a database without a copy there goes on", 1, 50).await;
            }
            net.plug(usize::from(cut_off.0), true);
            fleet.until("the other copy takes over", || fleet.active(0) != cut_off).await;
            for database in 0..3 {
                fleet.more("all go on", database, 50).await;
            }
            fleet.board.want("quiet", true);
            for (database, on) in [(0, &[1, 2][..]), (1, &[2, 3]), (2, &[1, 2, 3])] {
                fleet.drain(database, on).await;
            }
            *interrupts.borrow_mut() = 1;
            let fates = conducted.await.expect("it ends");
            let ended = |host: &&str| {
                matches!(fates[*host], Fate::Ended { how: Ended::Passed, evidence_kept: true, .. })
            };
            assert_eq!(["h1", "h2", "h3"].iter().filter(|host| ended(host)).count(), 3, "{fates:?}");
        });
        for (database, on) in [(0, &[1, 2][..]), (1, &[2, 3]), (2, &[1, 2, 3])] {
            fleet.assert_equal(database, on);
        }
    });
}
