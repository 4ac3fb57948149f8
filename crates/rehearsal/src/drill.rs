//! A drill in virtual time: all hosts of the solution, their failures, and what became of it.
//!
//! Invariants
//! 1. Equal solution, test and seed give equal rows and an equal trace hash.
//! 2. The copies are compared after the last failure is over, users have gone, and queues are empty.
//!
//! Limits: the link between two hosts has a latency and no bandwidth; the arbiter's host never fails.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use campaign::drill::{
    ARBITER, ARBITER_NAME, ArbiterNode, DRAIN_LIMIT_S, Entry, MOUNT_LIMIT_S, Node, Observed, Observer,
    ReadJournal, Reviewed, Routes, Said, Site, WARMUP_S, copy_rows, found, review, sample_rows, test_row,
};
use campaign::{CampaignError, CampaignOutcome};
use copies::HostId;
use results::{Event, Recorder, Severity};
use solution::{DrillEventKind, DrillSpec, Failure, TestSpec};
use world::sim::{Simulation, StorageModel};
use world::{Duration, World};

use crate::{Rehearsed, VOLUME_BYTES, simulation_with};

const SECOND: Duration = Duration::from_secs(1);
/// All volumes of the arbiter.
const RECORD_DIR: &str = "/record";

/// A drill that is to be rehearsed.
pub struct DrillPlan<'a> {
    /// Where it takes place.
    pub site: Rc<Site>,
    /// The test.
    pub test: &'a TestSpec,
    /// What fails in it.
    pub drill: &'a DrillSpec,
    /// Place in the programme, from 1.
    pub ordinal: u32,
    /// Title.
    pub name: String,
    /// When it begins, in milliseconds of the run.
    pub begins_ms: u64,
    /// Where all randomness comes from.
    pub seed: u64,
    /// How long storage takes.
    pub storage: Box<dyn StorageModel>,
}

struct Stage<'a> {
    plan: DrillPlan<'a>,
    simulation: Simulation,
    clock: World,
    addresses: BTreeMap<HostId, String>,
    nodes: Vec<Option<Node>>,
    boots: Vec<u32>,
    arbiter: ArbiterNode,
    journals: Rc<RefCell<Journals>>,
    observer: Observer,
    recorder: &'a mut dyn Recorder,
}

/// What the hosts and the arbiter write down. In virtual time all have one clock.
struct Journals {
    hosts: Vec<Vec<Entry>>,
    arbiter: Vec<Entry>,
    /// Databases whose users have had a batch acknowledged.
    acknowledged: BTreeSet<usize>,
}

impl Journals {
    fn new(hosts: usize) -> Journals {
        Journals { hosts: vec![Vec::new(); hosts], arbiter: Vec::new(), acknowledged: BTreeSet::new() }
    }

    fn note(&mut self, now_ns: u64, host: usize, said: Said) {
        if let Said::Observed(Observed::Acknowledged { database, .. }) = &said {
            self.acknowledged.insert(*database);
        }
        self.hosts[host].push(Entry { unix_ns: now_ns, error_ns: 0, said });
    }
}

/// Carries out a drill. Rows go to `recorder` as they arise.
pub fn drill(plan: DrillPlan<'_>, recorder: &mut dyn Recorder, line: &mut dyn FnMut(&str)) -> Rehearsed {
    let begins_ms = plan.begins_ms;
    let mut plan = plan;
    let storage = std::mem::replace(&mut plan.storage, Box::new(world::sim::ZeroLatency::default()));
    let simulation = simulation_with(plan.seed, storage);
    let mut stage = match Stage::set(plan, simulation, recorder) {
        Ok(stage) => stage,
        Err((error, simulation)) => {
            return rehearsed(CampaignOutcome { verdicts: Vec::new(), error: Some(error) }, &simulation);
        }
    };
    let outcome = match stage.play(begins_ms, line) {
        Ok(verdicts) => CampaignOutcome { verdicts, error: None },
        Err(error) => CampaignOutcome { verdicts: Vec::new(), error: Some(error) },
    };
    rehearsed(outcome, &stage.simulation)
}

fn rehearsed(outcome: CampaignOutcome, simulation: &Simulation) -> Rehearsed {
    let elapsed = Duration::from_nanos(simulation.now().ns);
    Rehearsed { outcome, trace_hash: simulation.trace_hash(), elapsed }
}

impl<'a> Stage<'a> {
    /// Makes all copies and starts all hosts.
    fn set(
        plan: DrillPlan<'a>,
        simulation: Simulation,
        recorder: &'a mut dyn Recorder,
    ) -> Result<Stage<'a>, (CampaignError, Simulation)> {
        let site = plan.site.clone();
        let clock = simulation.host(ARBITER_NAME);
        simulation.volume(ARBITER_NAME, RECORD_DIR, VOLUME_BYTES);
        let worlds: Vec<World> = site
            .hosts
            .iter()
            .map(|host| {
                let world = simulation.host(&host.name);
                for volume in &host.volumes {
                    simulation.volume(&host.name, &volume.dir, VOLUME_BYTES);
                }
                world
            })
            .collect();
        let named = site.hosts.iter().enumerate().map(|(number, host)| (HostId(number as u16), &host.name));
        let mut addresses: BTreeMap<HostId, String> =
            named.map(|(id, name)| (id, format!("{name}:7000"))).collect();
        addresses.insert(ARBITER, format!("{ARBITER_NAME}:7000"));
        let journals = Rc::new(RefCell::new(Journals::new(site.hosts.len())));
        let (observed, time) = (journals.clone(), clock.clone());
        let observer: Observer = Rc::new(move |host: HostId, what: Observed| {
            observed.borrow_mut().note(time.now().ns, host.0.into(), Said::Observed(what));
        });
        let started = simulation.run_until(async {
            for database in 0..site.databases.len() {
                found(&site, database, &worlds).await?;
            }
            let arbiter = ArbiterNode::start(&clock, &site, RECORD_DIR, addresses.clone()).await?;
            let mut nodes = Vec::new();
            for (number, world) in worlds.iter().enumerate() {
                let (routes, observer) = (routes(&addresses), observer.clone());
                nodes.push(Some(Node::start(world, &site, number, 1, plan.seed, routes, observer).await?));
            }
            Ok::<_, CampaignError>((arbiter, nodes))
        });
        let boots = vec![1; site.hosts.len()];
        match started {
            Ok((arbiter, nodes)) => Ok(Stage {
                plan,
                simulation,
                clock,
                addresses,
                nodes,
                boots,
                arbiter,
                journals,
                observer,
                recorder,
            }),
            Err(error) => Err((error, simulation)),
        }
    }

    fn play(
        &mut self,
        begins_ms: u64,
        line: &mut dyn FnMut(&str),
    ) -> Result<Vec<results::Verdict>, CampaignError> {
        for number in 0..self.plan.site.hosts.len() {
            let rows = copy_rows(&self.plan.site, number);
            rows.into_iter().try_for_each(|row| self.recorder.record(row))?;
        }
        let plan = &self.plan;
        let mut row = test_row(&plan.site, plan.test, plan.drill, plan.ordinal, &plan.name, begins_ms);
        self.recorder.record(row.clone().into())?;
        for _ in 0..MOUNT_LIMIT_S {
            self.second(begins_ms)?;
            if self.journals.borrow().acknowledged.len() == self.plan.site.databases.len() {
                break;
            }
        }
        for _ in 0..self.plan.test.warmup_limit_s.min(WARMUP_S).ceil() as u32 {
            self.second(begins_ms)?;
        }
        self.note_all(Said::WindowOpens);
        let window_ms = self.now_ms();
        row.window_start_ms = Some(begins_ms + window_ms);
        self.recorder.record(row.clone().into())?;
        let seconds = |s: f64| window_ms + (s * 1e3) as u64;
        let mut due: Vec<(u64, bool, usize, Failure)> = Vec::new();
        for (number, failure) in self.plan.drill.failures.iter().enumerate() {
            due.push((seconds(failure.at_s), true, number, failure.clone()));
            if let Some(back_s) = failure.back_at_s {
                due.push((seconds(back_s), false, number, failure.clone()));
            }
        }
        due.sort_by_key(|(at_ms, begins, ..)| (*at_ms, *begins));
        let end_ms = seconds(self.plan.test.duration_s);
        let mut due = due.into_iter().peekable();
        loop {
            while let Some((_, begins, number, failure)) = due.next_if(|(at_ms, ..)| *at_ms <= self.now_ms())
            {
                let text = if begins { failure.what.clone() } else { format!("over: {}", failure.what) };
                line(&format!("{:.0} s: {text}", (self.now_ms() - window_ms) as f64 / 1e3));
                self.event(begins_ms, failure.hosts.first(), Severity::Warning, &text)?;
                let said = if begins { Said::Fails(number) } else { Said::IsOver(number) };
                let now_ns = self.clock.now().ns;
                for host in self.numbers(&failure) {
                    self.journals.borrow_mut().note(now_ns, host, said.clone());
                }
                if begins { self.fail(&failure) } else { self.bring_back(&failure)? }
            }
            // Not before: a host that is back at the very end is compared.
            if self.now_ms() >= end_ms {
                break;
            }
            self.second(begins_ms)?;
        }
        // A host takes time to come back, and seconds are whole: the last failure may come after the planned end.
        let ended_ms = self.now_ms();
        row.window_end_ms = Some(begins_ms + ended_ms);
        self.recorder.record(row.clone().into())?;
        self.note_all(Said::WindowCloses);
        self.settle(begins_ms)?;
        self.compare();
        let verdicts = self.judge(begins_ms)?;
        for verdict in &verdicts {
            self.recorder.record(verdict.clone().into())?;
        }
        row.ended_ms = Some(begins_ms + self.now_ms());
        self.recorder.record(row.into())?;
        self.recorder.flush()?;
        Ok(verdicts)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().ns / 1_000_000
    }

    /// Lets a second pass, and looks at everything.
    fn second(&mut self, begins_ms: u64) -> Result<(), CampaignError> {
        let from_ms = self.now_ms();
        self.simulation.run_until(self.clock.sleep(SECOND));
        let now_ns = self.clock.now().ns;
        let mut journals = self.journals.borrow_mut();
        for (database, event) in self.arbiter.take_events() {
            let said = Said::Decided { database, event };
            journals.arbiter.push(Entry { unix_ns: now_ns, error_ns: 0, said });
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let sample = node.sample();
            let name = &self.plan.site.hosts[number].name;
            for row in sample_rows(&sample, self.plan.ordinal, name, begins_ms + from_ms) {
                self.recorder.record(row.into())?;
            }
            journals.note(now_ns, number, Said::Sample(sample.copies));
        }
        Ok(())
    }

    /// Every host writes this down.
    fn note_all(&mut self, said: Said) {
        let now_ns = self.clock.now().ns;
        let mut journals = self.journals.borrow_mut();
        (0..self.plan.site.hosts.len()).for_each(|host| journals.note(now_ns, host, said.clone()));
    }

    /// Judges the drill by its journals, and records what happened in it.
    fn judge(&mut self, begins_ms: u64) -> Result<Vec<results::Verdict>, CampaignError> {
        let Journals { hosts, arbiter, .. } =
            self.journals.replace(Journals::new(self.plan.site.hosts.len()));
        let DrillPlan { site, test, drill, ordinal, .. } = &self.plan;
        let hosts = hosts.into_iter().map(ReadJournal::whole).collect();
        let arbiter = ReadJournal::whole(arbiter);
        let Reviewed { verdicts, notes } = review(site, test, drill, *ordinal, hosts, arbiter);
        for (at_ns, host, text) in notes {
            let host = self.plan.site.hosts[host].name.clone();
            let (t_ms, test) = (begins_ms + at_ns / 1_000_000, Some(self.plan.ordinal));
            self.recorder.record(Event { t_ms, severity: Severity::Info, test, host, text }.into())?;
        }
        Ok(verdicts)
    }

    fn event(
        &mut self,
        begins_ms: u64,
        host: Option<&String>,
        severity: Severity,
        text: &str,
    ) -> Result<(), CampaignError> {
        let t_ms = begins_ms + self.now_ms();
        let host = host.map_or(ARBITER_NAME, String::as_str).to_owned();
        let event = Event { t_ms, severity, test: Some(self.plan.ordinal), host, text: text.to_owned() };
        Ok(self.recorder.record(event.into())?)
    }

    fn numbers(&self, failure: &Failure) -> Vec<usize> {
        let hosts = self.plan.site.hosts.iter().enumerate();
        hosts.filter(|(_, host)| failure.hosts.contains(&host.name)).map(|(number, _)| number).collect()
    }

    /// A host is cut off from all others, and from the arbiter.
    fn others(&self, name: &str) -> Vec<String> {
        let names = self.plan.site.hosts.iter().map(|host| host.name.clone());
        names.chain([ARBITER_NAME.to_owned()]).filter(|other| other != name).collect()
    }

    fn fail(&mut self, failure: &Failure) {
        for number in self.numbers(failure) {
            let name = self.plan.site.hosts[number].name.clone();
            match failure.kind {
                DrillEventKind::HostKilled | DrillEventKind::SiteLost => {
                    self.simulation.crash(&name);
                    self.nodes[number] = None;
                }
                DrillEventKind::HostCutOff => {
                    self.others(&name).iter().for_each(|other| self.simulation.partition(&name, other));
                }
                DrillEventKind::VolumeFailed => {
                    if let (Some(node), Some(volume)) = (&self.nodes[number], &failure.volume) {
                        node.fail_volume(volume);
                    }
                }
            }
        }
    }

    fn bring_back(&mut self, failure: &Failure) -> Result<(), CampaignError> {
        for number in self.numbers(failure) {
            let name = self.plan.site.hosts[number].name.clone();
            match failure.kind {
                DrillEventKind::HostKilled | DrillEventKind::SiteLost => {
                    let world = self.simulation.restart(&name);
                    self.boots[number] += 1;
                    let (site, boot) = (&self.plan.site, self.boots[number]);
                    let (routes, observer) = (routes(&self.addresses), self.observer.clone());
                    let started = Node::start(&world, site, number, boot, self.plan.seed, routes, observer);
                    self.nodes[number] = Some(self.simulation.run_until(started)?);
                }
                DrillEventKind::HostCutOff => {
                    self.others(&name).iter().for_each(|other| self.simulation.heal(&name, other));
                }
                DrillEventKind::VolumeFailed => {
                    if let (Some(node), Some(volume)) = (&self.nodes[number], &failure.volume) {
                        // Its copies count as started again, by the host's own count, too.
                        self.boots[number] += 1;
                        self.simulation.run_until(node.replace_volume(volume))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Users go home, and the queues drain.
    fn settle(&mut self, begins_ms: u64) -> Result<(), CampaignError> {
        self.nodes.iter().flatten().for_each(Node::close);
        for _ in 0..DRAIN_LIMIT_S {
            self.second(begins_ms)?;
            if self.nodes.iter().flatten().all(|node| node.is_settled(self.plan.drill)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Holds the changed pages of all copies that are there against each other.
    fn compare(&mut self) {
        let (nodes, drill) = (&self.nodes, self.plan.drill);
        let said = self.simulation.run_until(async {
            let mut said = Vec::new();
            for (host, node) in nodes.iter().enumerate() {
                let Some(node) = node else { continue };
                said.push((host, node.compare(drill).await));
            }
            said
        });
        let now_ns = self.clock.now().ns;
        for (host, compared) in said {
            self.journals.borrow_mut().note(now_ns, host, Said::Compared(compared));
        }
    }
}

fn routes(addresses: &BTreeMap<HostId, String>) -> Routes {
    Routes { addresses: addresses.clone(), guard: None, arbiter: None }
}
