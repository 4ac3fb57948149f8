//! Controller and agents over a bad network, in one thread and from one seed: heartbeats and orders are lost,
//! repeated and late, agents and controllers die and come back.
//!
//! What must hold: tests start nowhere before every host is ready; a host passes a point only when every host
//! that still runs has come to it; orders of an older controller are not obeyed; every run ends, with the
//! evidence of every host kept.

use std::collections::BTreeMap;

use fleet::agent_state::{Action, AgentState, Memory};
use fleet::membership::{self, Fate, Membership, Plan, WhenLost};
use fleet::message::{Ended, EvidenceFile, Heartbeat, Look, Orders, Point, Program, WhenAlone};
use fleet::run_control::HostProgress;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const POINTS: u32 = 6;
pub const MS: u64 = 1_000_000;

pub fn program() -> Program {
    Program { version: "1.0".into(), build: "b".into() }
}

pub fn plan(hosts: usize) -> Plan {
    Plan {
        run: "run-1".into(),
        tool_version: "1.0".into(),
        build: Some("b".into()),
        hosts: (0..hosts).map(|host| format!("h{host}")).collect(),
        solution: "[solution]".into(),
        tests: Vec::new(),
        seed: 1,
        allow_memory: false,
        when_lost: WhenLost::Finish,
        when_alone: WhenAlone::Finish,
        alone_after_ms: 600_000,
        assemble_limit_ms: 60_000,
    }
}

pub fn points() -> Vec<Point> {
    (1..=POINTS).map(Point).collect()
}

/// Simulated agent whose tests only meet the other hosts at barriers.
pub struct Host {
    pub name: String,
    pub state: AgentState,
    pub durable: Option<Memory>,
    pub clock_ahead_ns: u64,
    pub released: Option<(Point, u64)>,
    pub passed: usize,
    pub preparing: bool,
    pub running: bool,
    pub died: bool,
    pub got_stop: bool,
}

impl Host {
    pub fn new(number: u64) -> Host {
        let name = format!("h{number}");
        let state = AgentState::new(&name, program(), number, None, Vec::new());
        Host {
            name,
            state,
            durable: None,
            clock_ahead_ns: number * 1_000_000 * MS,
            released: None,
            passed: 0,
            preparing: false,
            running: false,
            died: false,
            got_stop: false,
        }
    }

    pub fn local(&self, now_ns: u64) -> u64 {
        now_ns + self.clock_ahead_ns
    }

    pub fn evidence(&self) -> Vec<EvidenceFile> {
        vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: self.name.clone() }]
    }

    pub fn waiting_at(&self) -> Option<Point> {
        points().get(self.passed).copied().filter(|_| self.running)
    }

    pub fn heartbeat(&mut self, now_ns: u64, nonce: u64) -> Heartbeat {
        let progress = HostProgress { waiting_at: self.waiting_at(), ..HostProgress::default() };
        self.state.heartbeat(self.local(now_ns), nonce, &progress)
    }

    pub fn orders(&mut self, now_ns: u64, orders: Orders) -> bool {
        let actions = self.state.orders(self.local(now_ns), now_ns, orders);
        self.durable = self.state.memory().cloned();
        let mut send = false;
        for action in actions {
            match action {
                Action::Prepare(_) => self.preparing = true,
                Action::Left(_) => {}
                Action::Collect(_) => self.state.ended(Ended::AgentDied, None, self.evidence()),
                Action::Start(_) => self.running = true,
                Action::Stop(_) => self.got_stop = true,
                Action::Release(point, at_ns) => self.released = Some((point, at_ns)),
                Action::SendEvidence(..) => send = true,
            }
        }
        send
    }

    /// Ends the agent's process and starts it again.
    pub fn restart(&mut self, process: u64) {
        let left = self.evidence();
        self.state = AgentState::new(&self.name, program(), process, self.durable.clone(), left);
        self.durable = self.state.memory().cloned();
        self.died |= self.running;
        (self.running, self.preparing, self.released) = (false, false, None);
    }

    pub fn step(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.preparing) {
            self.state.prepared(Ok(Look { checks: vec!["all is well".into()], ..Look::default() }));
        }
        if self.running {
            let local = self.local(now_ns);
            if let (Some(point), Some((released, at_ns))) = (self.waiting_at(), self.released)
                && (released > point || released == point && local >= at_ns)
            {
                self.passed += 1;
            }
            if self.passed == points().len() {
                self.running = false;
                self.state.ended(Ended::Passed, None, self.evidence());
            }
        }
        self.durable = self.state.memory().cloned();
    }
}

struct Scenario {
    random: ChaCha8Rng,
    hosts: Vec<Host>,
    membership: Membership,
    durable: membership::Memory,
    /// Last orders of each host, to be delivered a second time.
    old_orders: BTreeMap<String, Orders>,
    now_ns: u64,
    restarts: u32,
}

impl Scenario {
    fn chance(&mut self, one_in: u32) -> bool {
        self.random.next_u32().is_multiple_of(one_in)
    }

    fn exchange(&mut self, host: usize) {
        if self.chance(20)
            && let Some(orders) = self.old_orders.get(&self.hosts[host].name).cloned()
        {
            let before = (self.hosts[host].durable.clone(), self.hosts[host].released);
            self.hosts[host].orders(self.now_ns, orders);
            assert_eq!(
                (self.hosts[host].durable.clone(), self.hosts[host].released),
                before,
                "a replayed order"
            );
        }
        let nonce = self.random.next_u64();
        let heartbeat = self.hosts[host].heartbeat(self.now_ns, nonce);
        if self.chance(5) {
            return;
        }
        if self.chance(10) {
            let _ = self.membership.heartbeat(self.now_ns, self.now_ns, heartbeat.clone());
        }
        let orders = self.membership.heartbeat(self.now_ns, self.now_ns, heartbeat);
        self.durable = self.membership.memory().clone();
        if self.chance(5) {
            return;
        }
        let name = self.hosts[host].name.clone();
        self.old_orders.insert(name.clone(), orders.clone());
        if self.hosts[host].orders(self.now_ns, orders) && !self.chance(3) {
            self.membership.evidence_kept(&name);
        }
    }

    fn check(&self) {
        if self.hosts.iter().any(|host| host.running || host.passed > 0) {
            assert!(self.durable.go, "tests started before everyone was ready");
        }
        // A host that passed point n did so after every host that still runs had come to it.
        let ahead = self.hosts.iter().map(|host| host.passed).max().unwrap_or(0);
        for host in self.hosts.iter().filter(|host| host.running) {
            assert!(
                host.passed + 1 >= ahead,
                "{} is at {} while another is at {ahead}",
                host.name,
                host.passed
            );
        }
    }
}

fn scenario(seed: u64) -> (u32, usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = 2 + random.next_u32() as usize % 5;
    let membership = Membership::new(plan(count), 0);
    let mut scenario = Scenario {
        random,
        hosts: (0..count as u64).map(Host::new).collect(),
        durable: membership.memory().clone(),
        membership,
        old_orders: BTreeMap::new(),
        now_ns: 0,
        restarts: 0,
    };
    let agents_die = seed.is_multiple_of(3);
    for _ in 0..2_000 {
        scenario.now_ns += 250 * MS;
        for host in 0..count {
            scenario.exchange(host);
            scenario.hosts[host].step(scenario.now_ns);
            scenario.check();
        }
        scenario.membership.tick(scenario.now_ns, scenario.now_ns, true);
        scenario.durable = scenario.membership.memory().clone();
        if scenario.chance(60) {
            let now_ns = scenario.now_ns;
            scenario.membership = Membership::resume(scenario.durable.clone(), now_ns);
            scenario.durable = scenario.membership.memory().clone();
            scenario.restarts += 1;
        }
        if agents_die && scenario.durable.go && scenario.chance(80) {
            let host = scenario.random.next_u32() as usize % count;
            let process = scenario.random.next_u64();
            scenario.hosts[host].restart(process);
        }
        if scenario.membership.is_over() {
            let died = scenario.hosts.iter().filter(|host| host.died).count();
            for host in &scenario.hosts {
                let fate = &scenario.durable.fates[&host.name];
                let Fate::Ended { how, evidence_kept, .. } = fate else { panic!("{}: {fate:?}", host.name) };
                assert!(evidence_kept, "the evidence of {} is lost", host.name);
                assert_eq!(*how == Ended::AgentDied, host.died, "{}: {how:?}", host.name);
                assert!(host.died || host.passed == points().len());
            }
            return (scenario.restarts, died);
        }
    }
    panic!("seed {seed}: the run does not end: {:?}", scenario.durable);
}

#[test]
fn every_run_ends_in_step_and_with_all_evidence() {
    let scenarios: Vec<(u32, usize)> = (0..300).map(scenario).collect();
    assert!(scenarios.iter().any(|(restarts, _)| *restarts > 0), "no controller ever died");
    assert!(scenarios.iter().any(|(_, died)| *died > 0), "no agent ever died");
}
