//! A drill in virtual time: all hosts of the solution, their failures, and what became of it.
//!
//! Invariants
//! 1. Equal solution, test and seed give equal rows and an equal trace hash.
//! 2. All hosts are conducted as one ([`campaign::drill::conduct`]), and they write the journals that real hosts write.
//!
//! Limits: the link between two hosts has a latency and no bandwidth; the arbiter's host never fails.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use campaign::barrier::Alone;
use campaign::drill::{
    ARBITER, ARBITER_NAME, ArbiterNode, DrillHosts, Entry, Happening, JournalContent, Node, Observed,
    Observer, PlannedDrill, ReadJournal, Routes, Topology, conduct, create_copies, review, sample_rows,
};
use campaign::{CampaignError, CampaignOutcome, database_path};
use replication::HostId;
use results::{Recorder, Verdict};
use world::sim::{Simulation, StorageModel};
use world::{Duration, Time, World};

use crate::{SimulationOutcome, VOLUME_BYTES, simulation_with};

const SECOND: Duration = Duration::from_secs(1);
/// Size of the pieces of a file in each of which a test damages one page, bytes.
const ROT_STEP_BYTES: u64 = 256 << 10;
/// Path of the arbiter's only volume, which holds its record.
const RECORD_DIR: &str = "/record";

/// Plan of a drill to simulate.
pub struct DrillPlan {
    /// Events of the drill, and its topology.
    pub planned: PlannedDrill,
    /// Start of the drill, ms of the run.
    pub begins_ms: u64,
    /// Seed of all randomness.
    pub seed: u64,
    /// Storage model of the drill.
    pub storage: Box<dyn StorageModel>,
    /// Time at which pages of the active copies are damaged on disk, s of the drill; only tests set it.
    pub rot_at_s: Option<u64>,
}

/// Result of a simulated drill.
pub struct Drilled {
    /// General result of the simulation.
    pub simulated: SimulationOutcome,
    /// Journals of the hosts, in the order of the topology.
    pub hosts: Vec<ReadJournal>,
    /// Journal of the arbiter.
    pub arbiter: ReadJournal,
}

/// Performs a drill and passes its rows to `recorder` as they arise.
pub fn drill(plan: DrillPlan, recorder: &mut dyn Recorder, line: &mut dyn FnMut(&str)) -> Drilled {
    let DrillPlan { planned, begins_ms, seed, storage, rot_at_s } = plan;
    let simulation = simulation_with(seed, storage);
    let mut drilled = SimulatedHosts::new(&planned, &simulation, begins_ms, seed, line);
    drilled.rot_at = rot_at_s.map(|at_s| Time { ns: at_s * 1_000_000_000 });
    let hosts: Vec<usize> = (0..planned.topology.hosts.len()).collect();
    let conducted = simulation.run_until(conduct(&planned, &hosts, &mut drilled, &Alone, recorder));
    let hosts: Vec<_> = std::mem::take(&mut drilled.hosts_said).into_iter().map(ReadJournal::whole).collect();
    let arbiter = ReadJournal::whole(std::mem::take(&mut drilled.arbiter_said));
    let judged = conducted.and_then(|()| judge(&planned, begins_ms, &hosts, &arbiter, recorder));
    let outcome = match judged {
        Ok(verdicts) => CampaignOutcome { verdicts, error: None },
        Err(error) => CampaignOutcome { verdicts: Vec::new(), error: Some(error) },
    };
    let elapsed = Duration::from_nanos(simulation.now().ns);
    let simulated = SimulationOutcome { outcome, trace_hash: simulation.trace_hash(), elapsed };
    Drilled { simulated, hosts, arbiter }
}

/// Judges a drill by its journals, and records its events and verdicts.
fn judge(
    planned: &PlannedDrill,
    begins_ms: u64,
    hosts: &[ReadJournal],
    arbiter: &ReadJournal,
    recorder: &mut dyn Recorder,
) -> Result<Vec<Verdict>, CampaignError> {
    let reviewed = review(planned, hosts, arbiter);
    let rows = reviewed.rows(planned, |at_ns| begins_ms + at_ns / 1_000_000);
    rows.into_iter().try_for_each(|row| recorder.record(row))?;
    recorder.flush()?;
    Ok(reviewed.verdicts)
}

/// All hosts of a drill, and its arbiter.
struct SimulatedHosts<'a> {
    planned: &'a PlannedDrill,
    simulation: &'a Simulation,
    begins_ms: u64,
    seed: u64,
    line: &'a mut dyn FnMut(&str),
    clock: World,
    worlds: Vec<World>,
    addresses: BTreeMap<HostId, String>,
    nodes: Vec<Option<Node>>,
    boots: Vec<u32>,
    arbiter: Option<ArbiterNode>,
    happened: Rc<RefCell<VecDeque<Happening>>>,
    observer: Observer,
    /// Time of the next look at the hosts.
    second_ends: Option<Time>,
    /// Time at which pages are damaged; `None` once it is done.
    rot_at: Option<Time>,
    /// Journal entries of the hosts and the arbiter. In virtual time all share one clock.
    hosts_said: Vec<Vec<Entry>>,
    arbiter_said: Vec<Entry>,
}

impl<'a> SimulatedHosts<'a> {
    fn new(
        planned: &'a PlannedDrill,
        simulation: &'a Simulation,
        begins_ms: u64,
        seed: u64,
        line: &'a mut dyn FnMut(&str),
    ) -> SimulatedHosts<'a> {
        let hosts = &planned.topology.hosts;
        let clock = simulation.host(ARBITER_NAME);
        simulation.volume(ARBITER_NAME, RECORD_DIR, VOLUME_BYTES);
        let mut worlds = Vec::new();
        for host in hosts {
            worlds.push(simulation.host(&host.name));
            for volume in &host.volumes {
                simulation.volume(&host.name, &volume.dir, VOLUME_BYTES);
            }
        }
        let address = |name: &str| format!("{name}:7000");
        let named = (0..).zip(hosts).map(|(number, host)| (HostId(number), address(&host.name)));
        let addresses = named.chain([(ARBITER, address(ARBITER_NAME))]).collect();
        let happened: Rc<RefCell<VecDeque<Happening>>> = Rc::default();
        let (observed, time) = (happened.clone(), clock.clone());
        let observer: Observer = Rc::new(move |host: HostId, what: Observed| {
            let (host, at_ns) = (host.0.into(), time.now().ns);
            observed.borrow_mut().push_back(Happening::Observed { host, at_ns, observed: what });
        });
        SimulatedHosts {
            planned,
            simulation,
            begins_ms,
            seed,
            line,
            clock,
            worlds,
            addresses,
            nodes: hosts.iter().map(|_| None).collect(),
            boots: vec![0; hosts.len()],
            arbiter: None,
            happened,
            observer,
            second_ends: None,
            rot_at: None,
            hosts_said: vec![Vec::new(); hosts.len()],
            arbiter_said: Vec::new(),
        }
    }

    fn topology(&self) -> &'a Rc<Topology> {
        &self.planned.topology
    }

    async fn start_host(&mut self, host: usize, world: &World) -> Result<(), CampaignError> {
        self.boots[host] += 1;
        let routes = Routes { addresses: self.addresses.clone(), guard: None, arbiter: None };
        let (topology, boot, observer) = (self.topology(), self.boots[host], self.observer.clone());
        self.nodes[host] = Some(Node::start(world, topology, host, boot, self.seed, routes, observer).await?);
        Ok(())
    }

    /// Records the state of all hosts for the last second.
    fn look(&mut self) {
        let now_ns = self.clock.now().ns;
        for (database, event) in self.arbiter.iter().flat_map(ArbiterNode::take_events) {
            let said = JournalContent::Decided { database, event };
            self.arbiter_said.push(Entry { unix_ns: now_ns, error_ns: 0, said });
        }
        let rots = self.rot_at.take_if(|at| self.clock.now() >= *at).is_some();
        for (host, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let sample = node.sample();
            let active = sample.copies.iter().filter(|copy| rots && copy.active_in.is_some());
            active.for_each(|copy| self.rot(host, copy.database));
            let rows = sample_rows(&sample, self.planned.ordinal, &self.topology().hosts[host].name, 0);
            let (copies, is_settled) = (sample.copies, node.is_settled(&self.planned.drill));
            let sampled = Happening::Sampled { host, at_ns: now_ns, copies, rows, is_settled };
            self.happened.borrow_mut().push_back(sampled);
        }
    }

    /// Flips bits on the disk of an active copy, in one page of every [`ROT_STEP_BYTES`].
    fn rot(&self, host: usize, database: usize) {
        let topology = self.topology();
        let Some(place) = topology.place(database, host) else { return };
        let path = database_path(&place.dir, &topology.databases[database].name);
        let flip = |byte| self.simulation.rot(&topology.hosts[host].name, &path, byte, 3);
        let mut pages = (ROT_STEP_BYTES..).step_by(ROT_STEP_BYTES as usize);
        while pages.next().is_some_and(|page| flip(page + 100) && flip(page + 3_000)) {}
    }

    /// Hosts from which a cut-off host is separated: all others and the arbiter.
    fn others(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let names = self.topology().hosts.iter().map(|host| host.name.as_str());
        names.chain([ARBITER_NAME]).filter(move |other| *other != name)
    }
}

impl DrillHosts for SimulatedHosts<'_> {
    fn now_ms(&self) -> u64 {
        self.begins_ms + self.clock.now().ns / 1_000_000
    }

    async fn start(&mut self) -> Result<(), CampaignError> {
        let topology = self.topology();
        for database in 0..topology.databases.len() {
            create_copies(topology, database, &self.worlds).await?;
        }
        let arbiter = ArbiterNode::start(&self.clock, topology, RECORD_DIR, self.addresses.clone()).await?;
        self.arbiter = Some(arbiter);
        for (host, world) in self.worlds.clone().iter().enumerate() {
            self.start_host(host, world).await?;
        }
        Ok(())
    }

    fn kill(&mut self, host: usize) {
        self.simulation.crash(&self.topology().hosts[host].name);
        self.nodes[host] = None;
    }

    async fn restart(&mut self, host: usize) -> Result<(), CampaignError> {
        let world = self.simulation.restart(&self.topology().hosts[host].name);
        self.start_host(host, &world).await
    }

    fn cut_off(&mut self, host: usize) {
        let name = &self.topology().hosts[host].name;
        self.others(name).for_each(|other| self.simulation.partition(name, other));
    }

    fn heal(&mut self, host: usize) {
        let name = &self.topology().hosts[host].name;
        self.others(name).for_each(|other| self.simulation.heal(name, other));
    }

    fn fail_volume(&mut self, host: usize, volume: &str) {
        if let Some(node) = &self.nodes[host] {
            node.fail_volume(volume);
        }
    }

    async fn replace_volume(&mut self, host: usize, volume: &str) -> Result<(), CampaignError> {
        let Some(node) = &self.nodes[host] else { return Ok(()) };
        // Its copies count as started again, by the host's own count, too.
        self.boots[host] += 1;
        node.replace_volume(volume).await
    }

    fn close(&mut self) {
        self.nodes.iter().flatten().for_each(Node::close);
    }

    async fn compare(&mut self) -> Result<(), CampaignError> {
        for (host, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let compared = node.compare(&self.planned.drill).await;
            self.happened.borrow_mut().push_back(Happening::Compared { host, compared });
        }
        Ok(())
    }

    async fn next(&mut self, until_ms: u64) -> Result<Option<Happening>, CampaignError> {
        if let Some(happening) = self.happened.borrow_mut().pop_front() {
            return Ok(Some(happening));
        }
        if until_ms <= self.now_ms() {
            return Ok(None);
        }
        let until = Time { ns: until_ms.saturating_sub(self.begins_ms).saturating_mul(1_000_000) };
        let ends = *self.second_ends.get_or_insert_with(|| self.clock.now() + SECOND);
        self.clock.sleep_until(ends.min(until)).await;
        if until < ends {
            return Ok(None);
        }
        self.second_ends = None;
        self.look();
        Ok(self.happened.borrow_mut().pop_front())
    }

    fn write(&mut self, host: usize, at_ns: Option<u64>, said: JournalContent) -> Result<(), CampaignError> {
        let unix_ns = at_ns.unwrap_or_else(|| self.clock.now().ns);
        self.hosts_said[host].push(Entry { unix_ns, error_ns: 0, said });
        Ok(())
    }

    fn failing(&mut self, at_s: f64, text: &str) {
        (self.line)(&format!("{at_s:.0} s: {text}"));
    }
}
