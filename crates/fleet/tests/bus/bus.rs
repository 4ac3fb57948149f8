//! Controller and agents over a real nats-server with TLS: whole runs with work that only meets at the control
//! and leaves evidence; the bus, the controller and agents die in the middle; strangers are not let in.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::agent::{Agent, HostWork};
use fleet::arbiter::ArbiterLink;
use fleet::bus::Bus;
use fleet::controller::{Controller, Watcher};
use fleet::credentials::{Credentials, make};
use fleet::membership::{Fate, Membership, Note, Plan, WhenLost};
use fleet::message::{Assignment, CopyHead, Ended, Look, PROTOCOL, Point, Program, WhenAlone, format_headed};
use fleet::run_control::RunControl;
use fleet::server::Server;
use fleet::subjects::{copy_inbox, subject};
use replica::wire::{Message, frame};
use replication::{DatabaseId, Epoch, FromArbiter};
use tokio::task::{JoinHandle, LocalSet};

fn program() -> Program {
    Program { version: "1.0".into(), build: "b".into() }
}

pub fn has_server() -> bool {
    testkit::has_tool("nats-server", &["--version"], "sudo apt-get install -y nats-server")
}

/// Work that meets the other hosts at barriers and leaves a file of several chunks.
struct Meeting {
    points: u32,
    began: Mutex<Vec<Instant>>,
}

impl Meeting {
    fn new(points: u32) -> Arc<Meeting> {
        Arc::new(Meeting { points, began: Mutex::default() })
    }
}

impl HostWork for Meeting {
    fn prepare(&self, assignment: &Assignment) -> Result<Look, String> {
        match assignment.solution.contains("impossible") {
            true => Err("the solution asks for the impossible".into()),
            false => Ok(Look { checks: vec!["nothing to check".into()], ..Look::default() }),
        }
    }

    fn run(
        &self,
        assignment: &Assignment,
        folder: &Path,
        control: &RunControl,
        _arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        for point in (1..=self.points).map(Point) {
            loop {
                if let Some(why) = control.stop_asked() {
                    return (Ended::Interrupted, Some(why));
                }
                match control.wait_at(point) {
                    Some(Duration::ZERO) => break,
                    Some(left) => std::thread::sleep(left.min(Duration::from_millis(100))),
                    None => std::thread::sleep(Duration::from_millis(20)),
                }
            }
            self.began.lock().unwrap().push(Instant::now());
        }
        let bytes: Vec<u8> = assignment.host.bytes().cycle().take(1_300_000).collect();
        std::fs::write(folder.join("run.db"), bytes).unwrap();
        std::fs::write(folder.join("empty"), "").unwrap();
        (Ended::Passed, None)
    }
}

#[derive(Default)]
pub struct Listener {
    pub notes: Rc<RefCell<Vec<String>>>,
    pub interrupts: Rc<RefCell<u32>>,
}

impl Watcher for Listener {
    fn note(&mut self, note: &Note) {
        self.notes.borrow_mut().push(format!("{}: {}", note.host.as_deref().unwrap_or("-"), note.text));
    }
    fn look(&mut self, _roster: &Membership) {}
    fn interrupts(&self) -> u32 {
        *self.interrupts.borrow()
    }
}

/// A fleet on this machine.
pub struct Fleet {
    pub root: tempfile::TempDir,
    hosts: Vec<String>,
    port: u16,
}

impl Fleet {
    pub fn new(hosts: usize) -> Fleet {
        let root = tempfile::tempdir().unwrap();
        let hosts: Vec<String> = (0..hosts).map(|host| format!("host.{host}")).collect();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        make(&root.path().join("fleet"), &hosts, &format!("127.0.0.1:{port}")).unwrap();
        Fleet { root, hosts, port }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("fleet")
    }

    pub fn server(&self) -> Server {
        Server::start("nats-server", &self.folder()).unwrap()
    }

    /// Waits until the server accepts connections, because a program that finds no server gives up.
    pub fn wait_for_server(&self) {
        testkit::wait_for_listener(&format!("127.0.0.1:{}", self.port));
    }

    fn credentials(&self, host: &str) -> Credentials {
        let file = format!("agents/{}.toml", fleet::subjects::token(host));
        Credentials::read(&self.folder().join(file)).unwrap()
    }

    pub fn agent(&self, host: &str, work: Arc<dyn HostWork>) -> JoinHandle<()> {
        let folder = self.root.path().join("state").join(fleet::subjects::token(host));
        let agent = Agent::new(self.credentials(host), &folder, program(), work).unwrap();
        tokio::task::spawn_local(async move { agent.serve(|_| {}, || false).await.unwrap() })
    }

    fn agents(&self, work: &Arc<Meeting>) -> Vec<JoinHandle<()>> {
        self.hosts.iter().map(|host| self.agent(host, work.clone())).collect()
    }

    pub fn run_folder(&self) -> PathBuf {
        let folder = self.root.path().join("run");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub fn plan(&self) -> Plan {
        Plan {
            run: "run-1".into(),
            tool_version: "1.0".into(),
            build: Some(program().build),
            hosts: self.hosts.clone(),
            solution: "[solution]".into(),
            tests: Vec::new(),
            seed: 1,
            allow_memory: false,
            when_lost: WhenLost::Finish,
            when_alone: WhenAlone::Finish,
            alone_after_ms: 60_000,
            assemble_limit_ms: 600_000,
        }
    }

    pub fn controller(&self, plan: Plan) -> Controller {
        let credentials = Credentials::read(&self.folder().join("controller.toml")).unwrap();
        Controller::new(credentials, &self.run_folder(), plan).unwrap()
    }

    pub fn resumed(&self) -> Controller {
        let credentials = Credentials::read(&self.folder().join("controller.toml")).unwrap();
        Controller::resume(credentials, &self.run_folder()).unwrap()
    }

    fn assert_all_evidence(&self, controller: &Controller) {
        for host in &self.hosts {
            let fate = &controller.memory().fates[host];
            assert!(
                matches!(fate, Fate::Ended { how: Ended::Passed, evidence_kept: true, .. }),
                "{host}: {fate:?}"
            );
            let folder = Controller::evidence_of(&self.run_folder(), host);
            let bytes = std::fs::read(folder.join("run.db")).unwrap();
            assert_eq!(bytes.len(), 1_300_000);
            assert!(bytes.starts_with(host.as_bytes()));
            assert!(folder.join("empty").is_file());
        }
    }
}

pub fn in_local<F: Future<Output = ()>>(scenario: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited =
        async { tokio::time::timeout(testkit::PATIENCE, scenario).await.expect("the scenario hangs") };
    runtime.block_on(LocalSet::new().run_until(limited));
}

#[test]
fn four_hosts_meet_and_all_evidence_comes_home() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(4), Meeting::new(3));
    in_local(async {
        let mut controller = fleet.controller(fleet.plan()).with_server(fleet.server());
        let _agents = fleet.agents(&work);
        controller.conduct(&mut Listener::default()).await.unwrap();
        fleet.assert_all_evidence(&controller);
    });
    let began = work.began.lock().unwrap();
    assert_eq!(began.len(), 4 * 3);
    // A point is released when everyone waits there, and two seconds ahead; the clocks are known less exactly
    // on a machine that does much else.
    for next in [4, 8] {
        let lead = began[next] - began[next - 1];
        assert!(
            lead > Duration::from_millis(1500),
            "the last host and the first at the next point: {lead:?}"
        );
    }
}

#[test]
fn bus_and_controller_die_in_the_middle_and_the_run_goes_on() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(3), Meeting::new(6));
    in_local(async {
        let mut server = fleet.server();
        let _agents = fleet.agents(&work);
        // The first controller dies when the tests have begun.
        let mut first = fleet.controller(fleet.plan());
        let begun = async {
            while work.began.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        fleet.wait_for_server();
        tokio::select! {
            result = async { first.conduct(&mut Listener::default()).await } => panic!("ended early: {result:?}"),
            () = begun => {}
        }
        drop(first);
        // So does the bus.
        let process = server.process_id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
        while !server.keep().unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        fleet.wait_for_server();
        let mut second = fleet.resumed();
        second.conduct(&mut Listener::default()).await.unwrap();
        assert_eq!(second.memory().epoch, 2);
        fleet.assert_all_evidence(&second);
    });
    assert_eq!(work.began.lock().unwrap().len(), 3 * 6, "every host passed every point once");
}

#[test]
fn a_bus_that_hangs_for_longer_than_a_host_may_be_silent_loses_nobody() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(2), Meeting::new(3));
    in_local(async {
        let server = fleet.server();
        fleet.wait_for_server();
        let _agents = fleet.agents(&work);
        let mut controller = fleet.controller(fleet.plan());
        let signal = |signal: &str| {
            let process = server.process_id().unwrap().to_string();
            assert!(std::process::Command::new("kill").args([signal, &process]).status().unwrap().success());
        };
        let scenario = async {
            while work.began.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            signal("-STOP");
            tokio::time::sleep(Duration::from_secs(15)).await;
            signal("-CONT");
        };
        let mut listener = Listener::default();
        let (conducted, ()) = tokio::join!(controller.conduct(&mut listener), scenario);
        conducted.unwrap();
        fleet.assert_all_evidence(&controller);
        let notes = listener.notes.borrow();
        assert!(notes.iter().all(|note| !note.contains("lost")), "{notes:?}");
    });
}

#[test]
fn an_agent_that_dies_in_the_middle_is_reported_with_what_it_kept() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(2), Meeting::new(2));
    in_local(async {
        let mut controller = fleet.controller(fleet.plan()).with_server(fleet.server());
        let _survivor = fleet.agent("host.0", work.clone());
        // This one's work never comes to an end: it is not at its second point when it dies.
        struct Stuck;
        impl HostWork for Stuck {
            fn prepare(&self, _assignment: &Assignment) -> Result<Look, String> {
                Ok(Look::default())
            }
            fn run(
                &self,
                _assignment: &Assignment,
                folder: &Path,
                control: &RunControl,
                _arbiter: ArbiterLink,
            ) -> (Ended, Option<String>) {
                std::fs::write(folder.join("run.db"), "half").unwrap();
                while control.stop_asked().is_none() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                (Ended::Interrupted, None)
            }
        }
        let victim = fleet.agent("host.1", Arc::new(Stuck));
        let scenario = async {
            let half = fleet.root.path().join("state").join(fleet::subjects::token("host.1"));
            while !half.join("runs/run-1/run.db").exists() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            victim.abort();
            tokio::time::sleep(Duration::from_secs(11)).await;
            let _serves_on = fleet.agent("host.1", work.clone());
        };
        let mut listener = Listener::default();
        let (conducted, ()) = tokio::join!(controller.conduct(&mut listener), scenario);
        conducted.unwrap();
        let fates = &controller.memory().fates;
        assert!(
            matches!(fates["host.0"], Fate::Ended { how: Ended::Passed, evidence_kept: true, .. }),
            "{fates:?}"
        );
        assert!(
            matches!(fates["host.1"], Fate::Ended { how: Ended::AgentDied, evidence_kept: true, .. }),
            "{fates:?}"
        );
        let kept = Controller::evidence_of(&fleet.run_folder(), "host.1").join("run.db");
        assert_eq!(std::fs::read(kept).unwrap(), b"half");
    });
}

#[test]
fn an_interrupt_ends_every_host_in_good_order() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(2), Meeting::new(1000));
    in_local(async {
        let mut controller = fleet.controller(fleet.plan()).with_server(fleet.server());
        let _agents = fleet.agents(&work);
        let mut listener = Listener::default();
        let interrupts = listener.interrupts.clone();
        let scenario = async {
            while work.began.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            *interrupts.borrow_mut() = 1;
        };
        let (conducted, ()) = tokio::join!(controller.conduct(&mut listener), scenario);
        conducted.unwrap();
        for fate in controller.memory().fates.values() {
            assert!(
                matches!(fate, Fate::Ended { how: Ended::Interrupted, evidence_kept: true, .. }),
                "{fate:?}"
            );
        }
    });
}

/// Work that notes the messages of the arbiter to its copies.
#[derive(Default)]
struct Hearing(Mutex<Vec<FromArbiter>>);

impl HostWork for Hearing {
    fn prepare(&self, _assignment: &Assignment) -> Result<Look, String> {
        Ok(Look::default())
    }

    fn run(
        &self,
        _assignment: &Assignment,
        folder: &Path,
        _gate: &RunControl,
        mut arbiter: ArbiterLink,
    ) -> (Ended, Option<String>) {
        std::fs::write(folder.join("begun"), "").unwrap();
        let last = FromArbiter::Fence { epoch: Epoch(99) };
        while self.0.lock().unwrap().last() != Some(&last) {
            let heard = futures_util::FutureExt::now_or_never(arbiter.hear()).flatten();
            match heard {
                Some((_, message)) => self.0.lock().unwrap().push(message),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        (Ended::Passed, None)
    }
}

#[test]
fn copies_hear_the_arbiter_of_their_run_and_of_the_controller_that_they_obey_only() {
    if !has_server() {
        return;
    }
    let (fleet, work) = (Fleet::new(1), Arc::new(Hearing::default()));
    in_local(async {
        let mut controller = fleet.controller(fleet.plan()).with_server(fleet.server());
        let _agent = fleet.agent("host.0", work.clone());
        let scenario = async {
            let state = fleet.root.path().join("state").join(fleet::subjects::token("host.0"));
            while !state.join("runs/run-1/begun").exists() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let credentials = Credentials::read(&fleet.folder().join("controller.toml")).unwrap();
            let bus = Bus::connect(&credentials).await.unwrap();
            let head = |protocol, run: &str, epoch| CopyHead { protocol, run: run.to_owned(), epoch };
            let heads = [
                head(PROTOCOL, "run-2", 1),
                head(PROTOCOL, "run-1", 0),
                head(PROTOCOL, "run-1", 2),
                head(PROTOCOL + 1, "run-1", 1),
                head(PROTOCOL, "run-1", 1),
            ];
            for (head, epoch) in heads.iter().zip(95..) {
                let message = FromArbiter::Fence { epoch: Epoch(epoch) };
                let message = frame(&Message::FromArbiter { database: DatabaseId(0), message });
                bus.say(copy_inbox("host.0"), format_headed(head, &message[4..])).await;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        };
        let mut listener = Listener::default();
        let (conducted, ()) = tokio::join!(controller.conduct(&mut listener), scenario);
        conducted.unwrap();
    });
    assert_eq!(*work.0.lock().unwrap(), [FromArbiter::Fence { epoch: Epoch(99) }]);
}

#[test]
fn strangers_are_not_let_in_and_hosts_cannot_speak_for_each_other() {
    if !has_server() {
        return;
    }
    let (fleet, other) = (Fleet::new(2), Fleet::new(1));
    in_local(async {
        let mut server = fleet.server();
        fleet.wait_for_server();
        assert!(!server.keep().unwrap(), "it runs");
        let at_this_server = |credentials: Credentials| Credentials {
            server: format!("tls://127.0.0.1:{}", fleet.port),
            ..credentials
        };
        let stranger = at_this_server(other.credentials("host.0"));
        assert!(Bus::connect(&stranger).await.is_err(), "another fleet's authority");
        let ca_pem = fleet.credentials("host.0").ca_pem;
        assert!(Bus::connect(&Credentials { ca_pem, ..stranger }).await.is_err(), "another fleet's key");

        let credentials = Credentials::read(&fleet.folder().join("controller.toml")).unwrap();
        let controller = Bus::connect(&credentials).await.unwrap();
        let mut heard = controller.questions().await.unwrap();
        let host = Bus::connect(&fleet.credentials("host.0")).await.unwrap();
        let forged = host.ask(subject("host.1", "beat"), b"{}".to_vec()).await;
        assert!(forged.is_err());
        let nothing =
            tokio::time::timeout(Duration::from_millis(500), futures_util::StreamExt::next(&mut heard));
        assert!(nothing.await.is_err(), "the server lets no host speak for another");
    });
}

#[test]
fn an_agent_reconnects_after_the_folder_for_temporary_files_was_cleaned() {
    if !has_server() {
        return;
    }
    let fleet = Fleet::new(1);
    in_local(async {
        let server = fleet.server();
        let bus = loop {
            match Bus::connect(&fleet.credentials("host.0")).await {
                Ok(bus) => break bus,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let ca_pem = fleet.credentials("host.0").ca_pem;
        for file in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            // Others have files there, too, of any size and kind.
            let may_be_it = |entry: std::fs::Metadata| entry.is_file() && entry.len() == ca_pem.len() as u64;
            if file.metadata().is_ok_and(may_be_it)
                && std::fs::read_to_string(file.path()).is_ok_and(|text| text == ca_pem)
            {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
        drop(server);
        while bus.is_connected() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _server = fleet.server();
        while !bus.is_connected() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn the_server_listens_at_the_address_of_the_fleet_and_nowhere_else() {
    if !has_server() {
        return;
    }
    let fleet = Fleet::new(1);
    let runtime = fleet::run(async {
        let _server = fleet.server();
        fleet.wait_for_server();
        // Every address of 127.0.0.0/8 is one of this machine.
        let elsewhere = std::net::TcpStream::connect(("127.0.0.2", fleet.port));
        assert!(elsewhere.is_err(), "it listens on other addresses, too");
    });
    runtime.unwrap();
}

#[test]
fn credentials_are_private_and_never_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let fleet = Fleet::new(1);
    for file in ["controller.toml", "server-key.pem", "agents/host=2e=0.toml"] {
        let mode = std::fs::metadata(fleet.folder().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
    assert!(make(&fleet.folder(), &fleet.hosts, "127.0.0.1:1").is_err());
    let twice = ["a".to_owned(), "a".to_owned()];
    assert!(make(&fleet.root.path().join("new"), &twice, "127.0.0.1:1").is_err());
    assert!(make(&fleet.root.path().join("new"), &fleet.hosts, "127.0.0.1").is_err());
    assert!(!fleet.root.path().join("new").exists());
    assert!(
        Agent::new(
            Credentials::read(&fleet.folder().join("controller.toml")).unwrap(),
            &fleet.root.path().join("state"),
            program(),
            Meeting::new(1)
        )
        .is_err()
    );
}
