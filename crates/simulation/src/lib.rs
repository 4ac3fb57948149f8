//! Simulation: the campaign of one or several hosts on modelled storage, in virtual time.
//!
//! The campaign, the workload and the engine are those of a run on real disks. This crate makes the simulated
//! world that they see: the volumes of each host, the databases at their real size, the storage model, and what
//! several hosts share.
//!
//! Invariants
//! 1. Equal solution, tests, seed and program give equal rows and an equal trace hash, on any machine and on any number
//!    of threads.
//! 2. Hosts stay in step: a test begins, is measured and ends on all of them together, as the published servers did.
//!
//! Limits: a storage domain, the hosts that share hardware, is simulated on one thread ([`Domain`]).

mod barrier;
mod domain;
mod drill;
mod effort;
mod faults;
mod hosts;
mod merge;
mod parts;
mod planned;
mod storage;

use campaign::progress::Watcher;
use campaign::{CampaignError, CampaignOutcome};
use results::Recorder;
use solution::{Deployment, Solution, TestKind, TestSpec, Thresholds};
use world::sim::{SimConfig, Simulation, StorageModel};
use world::{Duration, World};

use domain::{Campaigns, Simulated};

pub use array::Assumptions;
pub use domain::Domain;
pub use drill::{DrillPlan, Drilled, drill};
pub use effort::Effort;
pub use faults::{PlannedFault, planned};
pub use hosts::Hosts;
pub use parts::{Backing, Modelled};
pub use planned::{ChosenDrill, Planned, Played, WishError, Wishes, estimated};
pub use storage::{Storage, StoragePlan, VolumeParts, domains, storage, storage_plan};

/// Plan of a simulation.
pub struct SimulationPlan {
    /// Hosts of the simulation, all of one solution.
    pub deployments: Vec<Deployment>,
    /// Tests of each host, in order.
    pub tests: Vec<TestSpec>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Storage domains; each host is in one of them.
    pub domains: Vec<Domain>,
    /// Planned faults; allowed only if all hosts are in one domain.
    pub faults: Vec<PlannedFault>,
    /// Number of domains that are simulated at a time. It does not change the result.
    pub threads: usize,
}

/// Result of a simulation.
#[derive(Debug)]
pub struct SimulationOutcome {
    /// Verdicts of all hosts in order, and the first error.
    pub outcome: CampaignOutcome,
    /// Hash over every operation of every host. Equal hashes mean equal simulations.
    pub trace_hash: u64,
    /// Virtual time that the simulation took.
    pub elapsed: Duration,
}

/// Tests to carry out: those that were asked for, after the creation of the databases.
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

/// Runs a simulation and passes its rows to `recorder` as they arise; rows of a test are merged over the hosts.
///
/// # Panics
/// If faults are planned for several domains.
pub fn simulate(
    plan: SimulationPlan,
    recorder: &mut dyn Recorder,
    watcher: &mut dyn Watcher,
) -> SimulationOutcome {
    let SimulationPlan { deployments, tests, seed, domains, faults, threads } = plan;
    let campaigns = Campaigns { deployments: &deployments, tests: &tests, seed, faults: &faults };
    let simulated = campaigns.simulate(domains, threads, recorder, watcher);
    let mut hosts: Vec<(usize, CampaignOutcome)> = Vec::new();
    let (mut trace_hash, mut elapsed) = (None, Duration::ZERO);
    for Simulated { outcomes, trace_hash: hash, elapsed: ended } in simulated {
        hosts.extend(outcomes);
        trace_hash = Some(trace_hash.map_or(hash, |before| both(before, hash)));
        elapsed = elapsed.max(ended);
    }
    hosts.sort_by_key(|(host, _)| *host);
    let mut merged = CampaignOutcome { verdicts: Vec::new(), error: None };
    for (_, outcome) in hosts {
        merged.verdicts.extend(outcome.verdicts);
        let keep = matches!(merged.error, None | Some(CampaignError::Interrupted));
        if keep && outcome.error.is_some() {
            merged.error = outcome.error;
        }
    }
    SimulationOutcome { outcome: merged, trace_hash: trace_hash.unwrap_or(seed), elapsed }
}

/// Trace hash of two domains together, in their order.
fn both(first: u64, second: u64) -> u64 {
    (first.rotate_left(23) ^ second).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Calls `main` on the modelled storage of the solution's first server, with its world and volume folders.
///
/// # Errors
/// The solution has storage that cannot be modelled.
pub fn on_first_server<T, F: Future<Output = T>>(
    solution: &Solution,
    assumptions: &Assumptions,
    seed: u64,
    main: impl FnOnce(World, Vec<String>) -> F,
) -> Result<T, WishError> {
    let deployment = planned::servers(solution, "1")?.remove(0);
    let deployments = [deployment];
    let storage = storage(solution, &deployments, assumptions, seed)?;
    let simulation = simulation_with(seed, storage.model);
    let [Deployment { host, volumes, .. }] = &deployments;
    let world = simulation.host(host);
    let mut folders: Vec<String> = Vec::new();
    for volume in volumes {
        simulation.volume(host, &volume.dir, VOLUME_BYTES);
        folders.push(volume.dir.clone());
    }
    Ok(simulation.run_until(main(world, folders)))
}

/// Size of a simulated volume, bytes: large enough that databases never fill it.
const VOLUME_BYTES: u64 = 1 << 50;

fn simulation_with(seed: u64, storage: Box<dyn StorageModel>) -> Simulation {
    Simulation::new(seed, SimConfig { storage, shards: 1, ..SimConfig::default() })
}

/// Seed of a host. The first host has the seed of the run, so that it draws what a run on it alone draws.
fn seed_of_host(seed: u64, index: usize) -> u64 {
    seed.wrapping_add((index as u64) << 32)
}
