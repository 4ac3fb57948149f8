//! Hosts, clocks, disks and a network in virtual time, driven from one seed.

mod faulting;
mod network;
mod observed;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use replication::{
    Arbiter, ArbiterEffect, ArbiterEvent, ArbiterInput, Boot, CopyMachine, DatabaseId, DatabaseSpec, Effect,
    Epoch, Event, FromArbiter, HostId, Input, PeerMessage, Position, Record as ArbiterRecord, SiteId,
    ToArbiter,
};

use crate::faults::{Clock, Fault, MS, Party, Random};
use crate::history::History;
use crate::model::{Disk, Engine, Op, PAGES, Record};

const TICK_US: u64 = 20 * MS;
const CLIENT_US: u64 = 12 * MS;
const STALL_US: u64 = 300 * MS;
/// Largest distance, in generations, of a copy that counts for redundancy. A generation of the model has 6 commits.
const CLOSE_GENERATIONS: u32 = 3;

#[derive(Debug, Clone)]
enum Message {
    ToArbiter(ToArbiter),
    FromArbiter(DatabaseId, FromArbiter),
    Peer(HostId, DatabaseId, PeerMessage),
}

enum Happening {
    Tick(HostId),
    ArbiterTick,
    Client(DatabaseId),
    Deliver { to: Party, message: Message },
    DiskDone { copy: CopyName, life: u64, ticket: u64 },
    Local { copy: CopyName, life: u64, what: Local },
    Flush { copy: CopyName, life: u64 },
    WritePages { copy: CopyName },
    ArbiterPersisted { life: u64, ticket: u64, database: DatabaseId, record: Box<ArbiterRecord> },
    Fault(Fault),
}

enum Local {
    ReadLog { to: HostId, from: Position, until: Position },
    ReadPages { to: HostId, nonce: u64, request: replication::PageRequest },
    ListPages { from: Position },
    Replay { to: Position },
}

type CopyName = (HostId, DatabaseId);

struct Node {
    machine: CopyMachine,
    engine: Engine,
    /// Number of the host's life; a restart begins a new one. Results of work from an earlier life are dropped.
    life: u64,
}

pub struct Host {
    pub site: SiteId,
    clock: Clock,
    pub is_up: bool,
    paused_until_us: u64,
    boot: u32,
    nodes: BTreeMap<DatabaseId, Node>,
    /// Disk contents of each database while the host is down.
    disks: BTreeMap<DatabaseId, Disk>,
    failed: BTreeSet<DatabaseId>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    loss: u64,
    doubling: u64,
    late: u64,
    until_us: u64,
}

/// Service of one database as users and operators see it.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub outage_ms: u64,
    pub longest_outage_ms: u64,
    pub current_outage_ms: u64,
    /// Time for which a copy was active but a commit waited for longer than [`STALL_US`].
    pub stalled_ms: u64,
    pub queue_max: u32,
    pub full_redundancy_at_us: u64,
}

pub struct Cluster {
    pub random: Random,
    pub now_us: u64,
    events: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub specs: BTreeMap<DatabaseId, Rc<DatabaseSpec>>,
    pub hosts: BTreeMap<HostId, Host>,
    arbiter: Option<Arbiter>,
    arbiter_records: BTreeMap<DatabaseId, ArbiterRecord>,
    arbiter_clock: Clock,
    arbiter_life: u64,
    next_life: u64,
    cuts: Vec<(BTreeSet<Party>, BTreeSet<Party>, u64)>,
    weather: Weather,
    pub history: BTreeMap<DatabaseId, History>,
    pub seen: BTreeMap<DatabaseId, Seen>,
    pub counters: Rc<RefCell<BTreeMap<String, u64>>>,
    clients_run: bool,
    damaged: BTreeSet<DatabaseId>,
    next_commit: u32,
    /// Durable commits in progress: record, end in the log, start time.
    commits: BTreeMap<(CopyName, u64), (u32, Position, u64)>,
    trace: bool,
}

impl Cluster {
    pub fn new(
        seed: u64,
        hosts: Vec<(HostId, SiteId, Clock)>,
        arbiter_clock: Clock,
        specs: Vec<DatabaseSpec>,
        counters: Rc<RefCell<BTreeMap<String, u64>>>,
    ) -> Self {
        let specs: BTreeMap<DatabaseId, Rc<DatabaseSpec>> =
            specs.into_iter().map(|spec| (spec.id, Rc::new(spec))).collect();
        let mut cluster = Cluster {
            random: Random::new(seed),
            now_us: 0,
            events: BTreeMap::new(),
            sequence: 0,
            hosts: BTreeMap::new(),
            arbiter: None,
            arbiter_records: specs.iter().map(|(&id, spec)| (id, ArbiterRecord::first(spec))).collect(),
            arbiter_clock,
            arbiter_life: 0,
            next_life: 0,
            cuts: Vec::new(),
            weather: Weather::default(),
            history: specs.iter().map(|(&id, spec)| (id, History::new(spec.clone()))).collect(),
            seen: specs.keys().map(|&id| (id, Seen::default())).collect(),
            counters,
            clients_run: true,
            damaged: BTreeSet::new(),
            next_commit: 1,
            commits: BTreeMap::new(),
            trace: std::env::var("PROOFLOAD_TRACE").is_ok(),
            specs,
        };
        for (host, site, clock) in hosts {
            let disks = cluster.specs.values().filter(|spec| spec.copy_on(host).is_some());
            let disks = disks.map(|spec| (spec.id, Disk::first())).collect();
            let state = Host {
                site,
                clock,
                is_up: false,
                paused_until_us: 0,
                boot: 0,
                nodes: BTreeMap::new(),
                disks,
                failed: BTreeSet::new(),
            };
            cluster.hosts.insert(host, state);
            cluster.start_host(host);
            let first = cluster.random.below(TICK_US);
            cluster.at(first, Happening::Tick(host));
        }
        cluster.start_arbiter();
        cluster.at(0, Happening::ArbiterTick);
        for id in cluster.specs.keys().copied().collect::<Vec<_>>() {
            cluster.at(CLIENT_US, Happening::Client(id));
        }
        cluster
    }

    fn at(&mut self, delay_us: u64, what: Happening) {
        self.sequence += 1;
        self.events.insert((self.now_us + delay_us, self.sequence), what);
    }

    pub fn schedule(&mut self, at_ms: u64, fault: Fault) {
        self.sequence += 1;
        self.events.insert((at_ms * MS, self.sequence), Happening::Fault(fault));
    }

    /// Starts the counting of [`Seen`] anew.
    pub fn begin_watch(&mut self) {
        self.seen.values_mut().for_each(|seen| *seen = Seen::default());
    }

    pub fn count(&self, name: impl Into<String>) {
        *self.counters.borrow_mut().entry(name.into()).or_default() += 1;
    }

    /// Counts an event by its name and its reason, without other values.
    fn count_event(&self, owner: &str, event: &dyn std::fmt::Debug) {
        let text = format!("{event:?}");
        let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
        let detail = [" why: ", " on: ", " drained: ", " loss: "].iter().find_map(|key| {
            let key = Some(key).filter(|_| owner != "fault")?;
            let rest = &text[text.find(key)? + key.len()..];
            Some(rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>())
        });
        self.count(match detail {
            Some(detail) => format!("{owner}.{name}.{detail}"),
            None => format!("{owner}.{name}"),
        });
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>9.3} {}", self.now_us as f64 / 1e3, text());
        }
    }

    pub fn run_until(&mut self, until_ms: u64) -> Result<(), String> {
        while let Some((&(at, sequence), _)) = self.events.first_key_value()
            && at <= until_ms * MS
        {
            let what = self.events.remove(&(at, sequence)).expect("just seen");
            self.now_us = self.now_us.max(at);
            self.happen(what).map_err(|error| format!("at {} ms: {error}", self.now_us / MS))?;
        }
        self.now_us = until_ms * MS;
        Ok(())
    }

    fn happen(&mut self, what: Happening) -> Result<(), String> {
        if let Happening::DiskDone { copy, .. }
        | Happening::Local { copy, .. }
        | Happening::Flush { copy, .. } = &what
        {
            // A host that hangs learns later what its disks have done.
            let resumes_us = self.hosts[&copy.0].paused_until_us;
            if resumes_us > self.now_us {
                self.at(resumes_us - self.now_us, what);
                return Ok(());
            }
        }
        match what {
            Happening::Tick(host) => {
                self.at(TICK_US, Happening::Tick(host));
                let databases: Vec<DatabaseId> = self.hosts[&host].nodes.keys().copied().collect();
                for database in databases {
                    self.input((host, database), Input::Tick)?;
                    if self.random.chance(60) {
                        self.at(0, Happening::WritePages { copy: (host, database) });
                    }
                }
                Ok(())
            }
            Happening::ArbiterTick => {
                self.at(TICK_US, Happening::ArbiterTick);
                self.arbiter_input(ArbiterInput::Tick)
            }
            Happening::Client(database) => self.client(database),
            Happening::Deliver { to, message } => self.deliver(to, message),
            Happening::DiskDone { copy, life, ticket } => self.disk_done(copy, life, ticket),
            Happening::Local { copy, life, what } => self.local(copy, life, what),
            Happening::Flush { copy, life } => self.flush(copy, life),
            Happening::WritePages { copy } => {
                let only = self.random.chance(600).then(|| self.random.below(u64::from(PAGES)) as u32);
                let Some(node) = self.node(copy) else { return Ok(()) };
                match node.engine.write_pages(only) {
                    Some(at) => self.input(copy, Input::Checkpoint { at }),
                    None => Ok(()),
                }
            }
            Happening::ArbiterPersisted { life, ticket, database, record } => {
                if life != self.arbiter_life || self.arbiter.is_none() {
                    return Ok(());
                }
                self.arbiter_records.insert(database, *record);
                self.arbiter_input(ArbiterInput::Persisted { ticket })
            }
            Happening::Fault(fault) => self.fault(fault),
        }
    }

    fn node(&mut self, (host, database): CopyName) -> Option<&mut Node> {
        self.hosts.get_mut(&host)?.nodes.get_mut(&database)
    }

    fn life(&self, (host, database): CopyName) -> u64 {
        self.hosts[&host].nodes.get(&database).map_or(0, |node| node.life)
    }

    fn start_node(&mut self, (host, database): CopyName, disk: Disk) {
        self.next_life += 1;
        let life = self.next_life;
        let spec = self.specs[&database].clone();
        let state = self.hosts.get_mut(&host).expect("known");
        let machine = CopyMachine::new(spec, host, Boot(state.boot), disk.found());
        state.nodes.insert(database, Node { machine, engine: Engine::new(disk), life });
    }

    fn local_ms(&self, host: HostId) -> u64 {
        self.hosts[&host].clock.at_ms(self.now_us)
    }

    /// Hosts that are active for a database on their own clocks, at this instant.
    fn active(&self, database: DatabaseId) -> Vec<HostId> {
        let is_active = |(&host, state): (&HostId, &Host)| {
            let now_ms = state.clock.at_ms(self.now_us);
            state.nodes.get(&database)?.machine.active_epoch(now_ms).map(|_| host)
        };
        self.hosts.iter().filter_map(is_active).collect()
    }

    fn check_active(&self, database: DatabaseId) -> Result<(), String> {
        let active = self.active(database);
        if active.len() > 1 {
            return Err(format!("two active copies of {database:?}: {active:?}"));
        }
        Ok(())
    }

    fn input(&mut self, copy: CopyName, input: Input) -> Result<(), String> {
        let (host, database) = copy;
        let now_ms = self.local_ms(host);
        if self.hosts[&host].paused_until_us > self.now_us {
            return Ok(());
        }
        let Some(node) = self.node(copy) else { return Ok(()) };
        let mut effects = Vec::new();
        let epoch = node.machine.active_epoch(now_ms);
        node.machine.handle(now_ms, input, &mut effects);
        for effect in effects {
            self.effect(copy, epoch, effect)?;
        }
        self.check_active(database)
    }

    fn effect(&mut self, copy: CopyName, active_in: Option<Epoch>, effect: Effect) -> Result<(), String> {
        let (host, database) = copy;
        match effect {
            Effect::ToArbiter(message) => {
                self.send(Party::Host(host), Party::Arbiter, Message::ToArbiter(message));
            }
            Effect::ToPeer(peer, message) => {
                self.send(Party::Host(host), Party::Host(peer), Message::Peer(host, database, message));
            }
            Effect::Disk { ticket, op } => {
                self.check_drop(copy, &op)?;
                self.queue_op(copy, Op::Machine { ticket, op });
            }
            Effect::ReadLog { to, from, until } => self.locally(copy, Local::ReadLog { to, from, until }),
            Effect::ReadPages { to, nonce, request } => {
                self.locally(copy, Local::ReadPages { to, nonce, request });
            }
            Effect::ListPages { from } => self.locally(copy, Local::ListPages { from }),
            Effect::Replay { to } => self.locally(copy, Local::Replay { to }),
            Effect::Mount { epoch } => {
                let node = self.node(copy).expect("it has just spoken");
                node.engine.open();
                let report = node.machine.report();
                let pages = node.engine.cache.clone();
                let history = self.history.get_mut(&database).expect("known");
                history.mounted(host, epoch, report.end, &report.lineage, &pages)?;
                self.check_active(database)?;
            }
            Effect::Dismount => {
                let node = self.node(copy).expect("it has just spoken");
                node.engine.close();
                self.queue_op(copy, Op::Dismount);
            }
            Effect::Acknowledge { ticket } => {
                if let Some((id, position, _)) = self.commits.remove(&(copy, ticket)) {
                    let epoch = active_in.ok_or("a copy that is not active acknowledges a commit")?;
                    self.history.get_mut(&database).expect("known").acknowledged(id, epoch, position);
                }
            }
            Effect::Event(event) => {
                self.say(|| format!("{host:?} {database:?} {event:?}"));
                self.count_event("copy", &event);
                if matches!(event, Event::SeedingBegun { why: replication::SeedReason::LogGone }) {
                    self.count("copy.log_gone");
                }
            }
        }
        Ok(())
    }

    /// Checks that the active copy removes no log that another copy with contents may still need.
    fn check_drop(&mut self, (host, database): CopyName, op: &replication::DiskOp) -> Result<(), String> {
        let replication::DiskOp::DropLogs { below } = op else { return Ok(()) };
        if self.active(database) != [host] {
            return Ok(());
        }
        for (&other, state) in &self.hosts {
            let disk =
                state.nodes.get(&database).map(|node| &node.engine.disk).or(state.disks.get(&database));
            let Some(disk) = disk.filter(|disk| disk.log_start.is_some()) else { continue };
            if other != host && disk.end().generation < *below {
                let end = disk.end();
                return Err(format!(
                    "{host:?} drops log below {below} that {other:?} needs, which ends at {end}"
                ));
            }
        }
        Ok(())
    }

    fn queue_op(&mut self, copy: CopyName, op: Op) {
        let life = self.life(copy);
        let latency = self.random.between(200, 3 * MS);
        let Some(node) = self.node(copy) else { return };
        let ticket = match &op {
            Op::Machine { ticket, .. } => *ticket,
            Op::Flush(_) | Op::Dismount => u64::MAX,
        };
        let is_idle = node.engine.queue.is_empty();
        node.engine.queue.push_back((ticket, op));
        if is_idle {
            self.at(latency, Happening::DiskDone { copy, life, ticket });
        }
    }

    fn disk_done(&mut self, copy: CopyName, life: u64, ticket: u64) -> Result<(), String> {
        if life != self.life(copy) {
            return Ok(());
        }
        let latency = self.random.between(200, 3 * MS);
        let Some(node) = self.node(copy) else { return Ok(()) };
        let Some((expected, op)) = node.engine.queue.pop_front() else { return Ok(()) };
        assert_eq!(expected, ticket, "operations are done in order");
        node.engine.carry_out(&op);
        let end = node.engine.disk.end();
        let checkpoint = node.engine.disk.checkpoint;
        if let Some(&(next, _)) = node.engine.queue.front() {
            self.at(latency, Happening::DiskDone { copy, life, ticket: next });
        }
        match op {
            Op::Machine { ticket, .. } => self.input(copy, Input::DiskDone { ticket }),
            Op::Flush(_) => {
                let node = self.node(copy).expect("seen");
                node.engine.flushing = false;
                if node.engine.is_open && !node.engine.buffer.is_empty() {
                    self.at(MS / 2, Happening::Flush { copy, life });
                }
                self.input(copy, Input::LogDurable { end })
            }
            Op::Dismount => {
                self.commits.retain(|(name, _), _| *name != copy);
                self.input(copy, Input::Dismounted { end, checkpoint })
            }
        }
    }

    fn flush(&mut self, copy: CopyName, life: u64) -> Result<(), String> {
        if life != self.life(copy) {
            return Ok(());
        }
        let Some(node) = self.node(copy) else { return Ok(()) };
        if !node.engine.is_open || node.engine.flushing || node.engine.buffer.is_empty() {
            return Ok(());
        }
        let records = node.engine.take_flush();
        node.engine.flushing = true;
        self.queue_op(copy, Op::Flush(records));
        Ok(())
    }

    fn locally(&mut self, copy: CopyName, what: Local) {
        let (life, delay) = (self.life(copy), self.random.between(100, 4 * MS));
        self.at(delay, Happening::Local { copy, life, what });
    }

    fn local(&mut self, copy: CopyName, life: u64, what: Local) -> Result<(), String> {
        if life != self.life(copy) {
            return Ok(());
        }
        let signature = self.specs[&copy.1].signature;
        let Some(node) = self.node(copy) else { return Ok(()) };
        let input = match what {
            Local::ReadLog { to, from, until } => {
                let piece = node.engine.read_log(from, until, signature);
                Input::LogRead { to, piece }
            }
            Local::ReadPages { to, nonce, request } => {
                let is_busy = node.engine.flushing || !node.engine.buffer.is_empty();
                if is_busy && node.engine.is_open {
                    // Only what the durable log covers may leave the host.
                    self.at(MS, Happening::Flush { copy, life });
                    self.locally(copy, Local::ReadPages { to, nonce, request });
                    return Ok(());
                }
                if let replication::PageRequest::List(pages) = &request
                    && pages.iter().any(|page| node.engine.disk.damaged.contains(page))
                {
                    return Ok(());
                }
                let (pages, next, position) = node.engine.read_pages(&request);
                Input::PagesRead { to, nonce, pages, next, position }
            }
            Local::ListPages { from } => Input::PagesListed { from, pages: node.engine.list_pages(from) },
            Local::Replay { to } => {
                node.engine.replay(to)?;
                Input::Replayed { to }
            }
        };
        self.input(copy, input)
    }

    fn client(&mut self, database: DatabaseId) -> Result<(), String> {
        let spread = self.random.between(CLIENT_US / 2, CLIENT_US * 3 / 2);
        self.at(spread, Happening::Client(database));
        self.observe(database, spread);
        if !self.clients_run {
            return Ok(());
        }
        self.check_active(database)?;
        for host in self.active(database) {
            let copy = (host, database);
            let now_ms = self.local_ms(host);
            if self.hosts[&host].paused_until_us > self.now_us {
                continue;
            }
            let count = self.random.between(1, 3);
            for _ in 0..count {
                let record =
                    Record { id: self.next_commit, page: self.random.below(u64::from(PAGES)) as u32 };
                self.next_commit += 1;
                let is_durable = self.random.chance(600);
                let Some(node) = self.node(copy) else { break };
                let damaged = node.engine.disk.damaged.contains(&record.page);
                if !node.engine.is_open || !node.machine.takes_commits(now_ms) || damaged {
                    continue;
                }
                let epoch = node.machine.active_epoch(now_ms).expect("it takes commits");
                let end = node.engine.commit(record);
                self.history.get_mut(&database).expect("known").appended(epoch, end, record);
                self.input(copy, Input::Appended { end })?;
                if is_durable {
                    let ticket = u64::from(record.id);
                    self.commits.insert((copy, ticket), (record.id, end, self.now_us));
                    self.input(copy, Input::Commit { ticket, position: end })?;
                }
            }
            let (life, delay) = (self.life(copy), self.random.between(0, 3 * MS));
            self.at(delay, Happening::Flush { copy, life });
        }
        Ok(())
    }

    fn arbiter_input(&mut self, input: ArbiterInput) -> Result<(), String> {
        let now_ms = self.arbiter_clock.at_ms(self.now_us);
        let Some(arbiter) = &mut self.arbiter else { return Ok(()) };
        let mut effects = Vec::new();
        arbiter.handle(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                ArbiterEffect::ToCopy { host, database, message } => {
                    let message = Message::FromArbiter(database, message);
                    self.send(Party::Arbiter, Party::Host(host), message);
                }
                ArbiterEffect::Persist { ticket, database, record } => {
                    let life = self.arbiter_life;
                    let what =
                        Happening::ArbiterPersisted { life, ticket, database, record: Box::new(record) };
                    // One time for all keeps the order of the tickets.
                    self.at(2 * MS, what);
                }
                ArbiterEffect::Event(database, event) => {
                    self.say(|| format!("arbiter {database:?} {event:?}"));
                    self.count_event("arbiter", &event);
                    if let ArbiterEvent::Activated { epoch, loss, .. } = event {
                        self.history.get_mut(&database).expect("known").activated(epoch, loss);
                    }
                }
            }
        }
        Ok(())
    }
}
