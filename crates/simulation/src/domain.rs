//! Storage domains: hosts that share hardware of the storage model. Each domain is a simulation of its own.
//!
//! Hosts of two domains influence each other only where they keep in step. So domains are simulated side by side on
//! several threads, and meet where hosts wait for each other. Their rows are merged in the order of virtual time.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use campaign::CampaignOutcome;
use campaign::progress::{Progress, Watcher};
use futures_util::future::{Either, join_all, select};
use results::{RecordError, Recorder, Row};
use solution::{Deployment, TestSpec};
use world::sim::{Meeting, Side, SideFn, Simulation, side_by_side};
use world::{Duration, World};

use crate::barrier::{HostBarrier, SharedBarrier};
use crate::faults::{self, FaultLog, FaultWindow, PlannedFault};
use crate::merge::{HostRecorder, HostWatcher, Merger};
use crate::parts::{Modelled, PartsWatch};
use crate::storage::{Storage, StoragePlan};
use crate::{VOLUME_BYTES, seed_of_host, simulation_with};

/// Storage domain: hosts that share hardware of the storage model, and that model.
pub struct Domain {
    /// Indexes of the hosts, in order.
    pub hosts: Vec<usize>,
    /// Builder of the storage model; runs on the thread that simulates the domain.
    pub storage: Box<dyn FnOnce() -> Storage + Send>,
}

impl Domain {
    /// Creates a domain from hosts and the storage of a plan.
    pub fn new(hosts: Vec<usize>, storage: StoragePlan) -> Domain {
        Domain { hosts, storage: Box::new(move || storage.build()) }
    }
}

/// Campaigns of all domains: what is simulated.
pub(crate) struct Campaigns<'a> {
    pub deployments: &'a [Deployment],
    pub tests: &'a [TestSpec],
    pub seed: u64,
    pub faults: &'a [PlannedFault],
}

/// Result of a simulated domain.
pub(crate) struct Simulated {
    /// Results of its hosts, in order.
    pub outcomes: Vec<(usize, CampaignOutcome)>,
    pub trace_hash: u64,
    pub elapsed: Duration,
}

/// Message of a domain while it is simulated: a row, or progress.
enum Message {
    Row(Box<Row>),
    Flush,
    Progress(Progress),
    Line(String),
}

/// Receiver of the messages of all domains, on the thread that writes the rows.
#[derive(Default)]
struct Heard {
    is_interrupted: AtomicBool,
    not_kept: Mutex<Option<RecordError>>,
}

/// Sender side of a domain among several: its recorder and watcher.
struct Teller<'a> {
    side: &'a Side<Message>,
    heard: &'a Heard,
}

impl Campaigns<'_> {
    /// Simulates all domains: a single one on this thread, several on `threads` threads.
    pub fn simulate(
        &self,
        mut domains: Vec<Domain>,
        threads: usize,
        recorder: &mut dyn Recorder,
        watcher: &mut dyn Watcher,
    ) -> Vec<Simulated> {
        if domains.len() > 1 {
            assert!(self.faults.is_empty(), "faults happen in one domain");
            return self.side_by_side(domains, threads, recorder, watcher);
        }
        let one = domains.pop().map(|domain| self.simulate_domain(domain, &alone, recorder, watcher));
        one.into_iter().collect()
    }

    fn side_by_side(
        &self,
        domains: Vec<Domain>,
        threads: usize,
        recorder: &mut dyn Recorder,
        watcher: &mut dyn Watcher,
    ) -> Vec<Simulated> {
        let heard = Heard::default();
        let no_faults = FaultLog::new(false);
        let mut merger = Merger::new(recorder, domains.len(), &no_faults, None);
        let jobs = domains.into_iter().map(|domain| -> SideFn<'_, Message, Simulated> {
            let heard = &heard;
            Box::new(move |side| {
                let join = |simulation: &Simulation| {
                    side.attach(simulation);
                    Some(side.meeting())
                };
                let (mut rows, mut moments) = (Teller { side, heard }, Teller { side, heard });
                self.simulate_domain(domain, &join, &mut rows, &mut moments)
            })
        });
        let mut simulated = side_by_side(threads, jobs.collect(), |messages| {
            for (domain, message) in messages {
                let kept = match message {
                    Message::Row(row) => merger.record(domain, *row),
                    Message::Flush => merger.recorder().flush(),
                    Message::Progress(progress) => {
                        watcher.progress(&progress);
                        continue;
                    }
                    Message::Line(text) => {
                        watcher.line(&text);
                        continue;
                    }
                };
                if let Err(error) = kept {
                    heard.not_kept().get_or_insert(error);
                }
            }
            heard.is_interrupted.store(watcher.interrupted(), Ordering::Relaxed);
        });
        // The last rows may have been lost after their host had ended.
        let last = simulated.last_mut().and_then(|domain| domain.outcomes.last_mut());
        if let (Some((_, outcome)), Some(error)) = (last, heard.not_kept().take()) {
            outcome.error.get_or_insert(error.into());
        }
        simulated
    }

    /// Simulates one domain; `join` connects it to the other domains, if there are any.
    fn simulate_domain(
        &self,
        domain: Domain,
        join: &dyn Fn(&Simulation) -> Option<Meeting>,
        recorder: &mut dyn Recorder,
        watcher: &mut dyn Watcher,
    ) -> Simulated {
        let Domain { hosts, storage } = domain;
        let Storage { model, modelled, .. } = storage();
        let simulation = simulation_with(seed_of_host(self.seed, hosts[0]), model);
        let barrier = SharedBarrier::of(hosts.len(), join(&simulation));
        let worlds: Vec<World> =
            hosts.iter().map(|host| simulation.host(&self.deployments[*host].host)).collect();
        for deployment in hosts.iter().map(|host| &self.deployments[*host]) {
            for volume in &deployment.volumes {
                simulation.volume(&deployment.host, &volume.dir, VOLUME_BYTES);
            }
        }
        let fault_log = FaultLog::new(!self.faults.is_empty());
        let parts = modelled.clone().map(|modelled| PartsWatch {
            modelled,
            host: self.deployments[hosts[0]].host.clone(),
            now: Box::new(|| simulation.now()),
            seen: None,
        });
        let merger = RefCell::new(Merger::new(recorder, hosts.len(), &fault_log, parts));
        let faulted = FaultWindow {
            world: &worlds[0],
            simulation: &simulation,
            array: modelled.as_ref().and_then(Modelled::array),
            fault_log: &fault_log,
            merger: &merger,
        };
        let watcher = RefCell::new(watcher);
        let campaigns = hosts.iter().zip(&worlds).enumerate().map(|(place, (host, world))| {
            self.campaign(*host, world.clone(), HostBarrier::of(&barrier), (&merger, place), &watcher)
        });
        let happening = faults::happen(&faulted, self.faults);
        let outcomes: Vec<CampaignOutcome> = simulation.run_until(async {
            match select(join_all(campaigns), pin!(happening)).await {
                Either::Left((outcomes, _)) => outcomes,
                Either::Right(_) => unreachable!("the faults never end"),
            }
        });
        let merger = merger.borrow();
        let outcomes = hosts.iter().zip(outcomes).map(|(host, CampaignOutcome { verdicts, error })| {
            (*host, CampaignOutcome { verdicts: merger.in_the_light(verdicts).collect(), error })
        });
        let mut outcomes: Vec<(usize, CampaignOutcome)> = outcomes.collect();
        outcomes[0].1.verdicts.extend_from_slice(merger.on_storage());
        let elapsed = Duration::from_nanos(simulation.now().ns);
        Simulated { outcomes, trace_hash: simulation.trace_hash(), elapsed }
    }

    /// Runs the campaign of a host, whose rows go to its place in the merger.
    async fn campaign(
        &self,
        host: usize,
        world: World,
        barrier: HostBarrier,
        (merger, place): (&RefCell<Merger<'_>>, usize),
        watcher: &RefCell<&mut dyn Watcher>,
    ) -> CampaignOutcome {
        let deployment = &self.deployments[host];
        let prefix = (self.deployments.len() > 1).then(|| deployment.host.clone());
        let mut recorder = HostRecorder { merger, host: place };
        let mut watcher = HostWatcher { watcher, prefix, leads: host == 0 };
        let seed = seed_of_host(self.seed, host);
        campaign::run_in_step(world, deployment, self.tests, seed, &mut recorder, &mut watcher, &barrier)
            .await
    }
}

/// Connection for a simulation with a single domain: none, because there is no other domain to exchange messages
/// with.
fn alone(_simulation: &Simulation) -> Option<Meeting> {
    None
}

impl Heard {
    fn not_kept(&self) -> MutexGuard<'_, Option<RecordError>> {
        self.not_kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Teller<'_> {
    fn tell(&self, message: Message) -> Result<(), RecordError> {
        if let Some(error) = self.heard.not_kept().clone() {
            return Err(error);
        }
        self.side.send(message);
        Ok(())
    }
}

impl Recorder for Teller<'_> {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.tell(Message::Row(Box::new(row)))
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.tell(Message::Flush)
    }
}

impl Watcher for Teller<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.side.send(Message::Progress(progress.clone()));
    }

    fn line(&mut self, text: &str) {
        self.side.send(Message::Line(text.to_owned()));
    }

    fn interrupted(&self) -> bool {
        self.heard.is_interrupted.load(Ordering::Relaxed)
    }
}
