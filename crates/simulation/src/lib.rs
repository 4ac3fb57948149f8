//! Simulation: the campaign of one or several hosts on modelled storage, in virtual time.
//!
//! The campaign, the workload and the engine are those of a run on real disks. This crate makes the simulated
//! world that they see: the volumes of each host, the databases at their real size, the storage model, and what
//! several hosts share.
//!
//! Invariants
//! 1. Equal solution, tests, seed and program give equal rows and an equal trace hash, on any machine.
//! 2. Hosts stay in step: a test begins, is measured and ends on all of them together, as the published servers did.
//!
//! Limits: one simulation is one thread.

mod barrier;
mod drill;
mod faults;
mod hosts;
mod merge;
mod parts;
mod planned;
mod storage;

use std::cell::RefCell;
use std::pin::pin;

use campaign::progress::Watcher;
use campaign::{CampaignError, CampaignOutcome};
use futures_util::future::{Either, join_all, select};
use results::Recorder;
use solution::{Deployment, TestKind, TestSpec, Thresholds};
use world::sim::{SimConfig, Simulation, StorageModel};
use world::{Duration, World};

use barrier::{HostBarrier, SharedBarrier};
use faults::{FaultLog, FaultWindow};
use merge::{HostRecorder, HostWatcher, Merger};
use parts::PartsWatch;

pub use array::Assumptions;
pub use drill::{DrillPlan, Drilled, drill};
pub use faults::{PlannedFault, planned};
pub use hosts::Hosts;
pub use parts::Modelled;
pub use planned::{ChosenDrill, Planned, Played, WishError, Wishes};
pub use storage::{Storage, VolumeParts, storage};

/// What is to be simulated.
pub struct SimulationPlan {
    /// The hosts, all of one solution.
    pub deployments: Vec<Deployment>,
    /// The tests of each host, in their order.
    pub tests: Vec<TestSpec>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// How long storage takes; one model for all hosts, which may share what it models.
    pub storage: Box<dyn StorageModel>,
    /// The model again, if it is one of an array.
    pub modelled: Option<Modelled>,
    /// What goes wrong on purpose.
    pub faults: Vec<PlannedFault>,
}

/// How a simulation came out.
#[derive(Debug)]
pub struct SimulationOutcome {
    /// The verdicts of all hosts in their order, and the first error.
    pub outcome: CampaignOutcome,
    /// A hash over every operation of every host: two simulations that agree in it did the same.
    pub trace_hash: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
}

/// Tests that a simulation carries out: those asked for, after the databases have been made.
pub fn with_databases(tests: &[TestSpec]) -> Vec<TestSpec> {
    let makes_them = tests.iter().any(|test| test.kind == TestKind::Init);
    let not_judged =
        Thresholds { read_avg_ms: None, read_max_ms: None, log_write_avg_ms: None, log_write_max_ms: None };
    let init = TestSpec {
        kind: TestKind::Init,
        duration_s: 0.0,
        limit_s: None,
        until_percent: None,
        warmup_limit_s: 0.0,
        logs: 0,
        backup_dir: None,
        thresholds: not_judged,
        published: not_judged,
        drill: None,
    };
    let first = (!makes_them).then_some(init);
    first.into_iter().chain(tests.iter().cloned()).collect()
}

/// Carries out a simulation. Rows go to `recorder` as they arise, those of a test merged over the hosts.
pub fn simulate(
    plan: SimulationPlan,
    recorder: &mut dyn Recorder,
    watcher: &mut dyn Watcher,
) -> SimulationOutcome {
    let SimulationPlan { deployments, tests, seed, storage, modelled, faults } = plan;
    let simulation = simulation_with(seed, storage);
    let worlds: Vec<World> = deployments.iter().map(|deployment| simulation.host(&deployment.host)).collect();
    for deployment in &deployments {
        for volume in &deployment.volumes {
            simulation.volume(&deployment.host, &volume.dir, VOLUME_BYTES);
        }
    }
    let fault_log = FaultLog::new(!faults.is_empty());
    let parts = modelled.clone().map(|modelled| PartsWatch {
        modelled,
        now: Box::new(|| simulation.now()),
        seen: None,
    });
    let merger = RefCell::new(Merger::new(recorder, deployments.len(), &fault_log, parts));
    let first = worlds[0].clone();
    let watcher = RefCell::new(watcher);
    let shared = SharedBarrier::of(deployments.len());
    let campaigns = deployments.iter().zip(worlds).enumerate().map(|(index, (deployment, world))| {
        let (tests, merger, watcher) = (&tests, &merger, &watcher);
        let barrier = HostBarrier::of(&shared);
        let several = deployments.len() > 1;
        async move {
            let mut recorder = HostRecorder { merger, host: index };
            let prefix = several.then(|| deployment.host.clone());
            let mut watcher = HostWatcher { watcher, prefix, leads: index == 0 };
            campaign::run_in_step(
                world,
                deployment,
                tests,
                seed_of_host(seed, index),
                &mut recorder,
                &mut watcher,
                &barrier,
            )
            .await
        }
    });
    let faulted = FaultWindow {
        world: &first,
        simulation: &simulation,
        array: modelled.as_ref().map(|modelled| &modelled.array),
        fault_log: &fault_log,
        merger: &merger,
    };
    let happening = faults::happen(&faulted, &faults);
    let outcomes: Vec<CampaignOutcome> = simulation.run_until(async {
        match select(join_all(campaigns), pin!(happening)).await {
            Either::Left((outcomes, _)) => outcomes,
            Either::Right(_) => unreachable!("the faults never end"),
        }
    });
    let mut merged = CampaignOutcome { verdicts: Vec::new(), error: None };
    for outcome in outcomes {
        merged.verdicts.extend(merger.borrow().in_the_light(outcome.verdicts));
        let keep = matches!(merged.error, None | Some(CampaignError::Interrupted));
        if keep && outcome.error.is_some() {
            merged.error = outcome.error;
        }
    }
    let elapsed = Duration::from_nanos(simulation.now().ns);
    SimulationOutcome { outcome: merged, trace_hash: simulation.trace_hash(), elapsed }
}

/// Volumes never fill up before the databases of the solution have grown past any published growth.
const VOLUME_BYTES: u64 = 1 << 50;

fn simulation_with(seed: u64, storage: Box<dyn StorageModel>) -> Simulation {
    Simulation::new(seed, SimConfig { storage, shards: 1, ..SimConfig::default() })
}

/// The first host draws what a run on that host alone draws.
fn seed_of_host(seed: u64, index: usize) -> u64 {
    seed.wrapping_add((index as u64) << 32)
}
