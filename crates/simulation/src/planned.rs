//! A simulation before it begins: which servers take part, in which tests, on what storage, and what goes wrong.

use std::rc::Rc;

use array::Assumptions;
use campaign::CampaignOutcome;
use campaign::choice::{ChoiceError, tests_beside_drills};
use campaign::drill::{PlannedDrill, Topology};
use campaign::progress::Watcher;
use results::figures::{counted, number};
use results::{Recorder, Verdict};
use solution::{Deployment, LoadMode, Solution, SolutionError, TestKind, TestSpec};
use world::Duration;
use world::sim::processors;

use crate::{Domain, DrillPlan, PlannedFault, SimulationOutcome, SimulationPlan, Storage};

/// Reason why a simulation cannot be carried out as asked for.
#[derive(Debug, thiserror::Error)]
pub enum WishError {
    /// The solution file lacks something that the simulation needs.
    #[error(transparent)]
    Solution(#[from] Box<SolutionError>),
    /// The solution has no test of the chosen kinds.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The number of servers is zero or larger than that of the servers under test.
    #[error("{} cannot take part: {} under test", counted(*.count as u64, "server"), number(*.under_test as f64, 0))]
    Servers {
        /// Number of servers that was asked for.
        count: usize,
        /// Number of servers under test.
        under_test: usize,
    },
    /// A server is named twice; it would count double.
    #[error("server `{0}` is named twice")]
    NamedTwice(String),
    /// The duration is not possible for a test.
    #[error("a test cannot last {0} s")]
    Duration(f64),
    /// The precision is not possible for an estimate.
    #[error("figures cannot be estimated to {0} %")]
    Until(f64),
}

impl WishError {
    /// Remedy for the reason.
    pub fn help(&self) -> Option<&str> {
        match self {
            WishError::Solution(error) => error.help.as_deref(),
            WishError::Choice(error) => Some(error.help()),
            WishError::Servers { .. } => None,
            WishError::NamedTwice(_) => Some("name each once"),
            WishError::Duration(_) => Some("from 1 to 31622400"),
            WishError::Until(_) => Some("0.1 to 50"),
        }
    }
}

/// Options of the command line.
pub struct Wishes<'a> {
    /// Servers that take part: their number, or their names.
    pub servers: &'a str,
    /// Kinds of tests to carry out; empty: all.
    pub tests: &'a [TestKind],
    /// Sessions on each server, in place of the load of the solution file.
    pub sessions: Option<u32>,
    /// Length of every test, s, in place of the solution file's.
    pub duration_s: Option<f64>,
    /// Precision in percent at which a load test may end before its time.
    pub until_percent: Option<f64>,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Simulation as planned from the solution file and the options.
pub struct Planned {
    /// Servers that take part.
    pub deployments: Vec<Deployment>,
    /// Tests of the servers, with the creation of the databases; empty if only drills were asked for.
    pub tests: Vec<TestSpec>,
    /// Description of the tests' storage, in one line.
    pub storage: String,
    /// Groups of servers that share no storage with another group; each is simulated on its own.
    pub domains: Vec<Domain>,
    /// Faults of the tests.
    pub faults: Vec<PlannedFault>,
    /// Drills, which follow the tests.
    pub drills: Vec<ChosenDrill>,
}

impl Planned {
    /// Plans the simulation of a solution.
    ///
    /// # Errors
    /// The solution has no such servers, tests or storage.
    pub fn of(
        solution: &Solution,
        wishes: &Wishes<'_>,
        assumptions: &Assumptions,
    ) -> Result<Planned, WishError> {
        let mut deployments = servers(solution, wishes.servers)?;
        if let Some(sessions) = wishes.sessions {
            deployments.iter_mut().for_each(|one| one.load.mode = LoadMode::Closed { sessions });
        }
        let drills = chosen_drills(solution, &deployments[0].tests, wishes, assumptions)?;
        let tests = tests_beside_drills(!drills.is_empty(), &deployments[0], wishes.tests)?;
        let tests = match tests.as_slice() {
            [] => tests,
            _ => {
                crate::with_databases(&estimated(shortened(tests, wishes.duration_s)?, wishes.until_percent)?)
            }
        };
        let all: Vec<usize> = (0..deployments.len()).collect();
        let whole = crate::storage_plan(solution, &deployments, &all, assumptions, wishes.seed)?;
        let faults = crate::planned(solution, &deployments, &whole.parts)?;
        let storage = whole.description.clone();
        let divided = crate::domains(solution, &deployments);
        // What a fault does, and what users see of it, is looked at across all servers: they stay together.
        let domains = if divided.len() == 1 || !faults.is_empty() {
            vec![Domain::new(all, whole)]
        } else {
            let of_hosts = |hosts: Vec<usize>| {
                let seed = crate::seed_of_host(wishes.seed, hosts[0]);
                let plan = crate::storage_plan(solution, &deployments, &hosts, assumptions, seed)?;
                Ok(Domain::new(hosts, plan))
            };
            divided.into_iter().map(of_hosts).collect::<Result<_, Box<SolutionError>>>()?
        };
        Ok(Planned { deployments, tests, storage, domains, faults, drills })
    }

    /// All tests, drills included, in order.
    pub fn all_tests(&self) -> Vec<TestSpec> {
        self.tests.iter().chain(self.drills.iter().map(|drill| &drill.test)).cloned().collect()
    }
}

/// Result of tests and drills.
pub struct Played {
    /// Verdicts, and the first error.
    pub outcome: CampaignOutcome,
    /// Trace hashes of the tests and of each drill.
    pub traces: Vec<String>,
    /// Virtual time that the simulation took.
    pub elapsed: Duration,
}

impl Planned {
    /// Carries out the tests, then each drill. Rows go to `recorder` as they arise; `titles` are those of all tests.
    pub fn play(
        self,
        seed: u64,
        titles: &[String],
        recorder: &mut dyn Recorder,
        watcher: &mut dyn Watcher,
    ) -> Played {
        let Planned { deployments, tests, domains, faults, drills, .. } = self;
        let outcome = CampaignOutcome { verdicts: Vec::new(), error: None };
        let mut played = Played { outcome, traces: Vec::new(), elapsed: Duration::ZERO };
        let mut ordinal = tests.len() as u32;
        if !tests.is_empty() {
            let threads = processors();
            let plan = SimulationPlan { deployments, tests, seed, domains, faults, threads };
            played.add(crate::simulate(plan, recorder, watcher));
        }
        for ChosenDrill { test, topology, storage } in drills {
            if played.outcome.error.is_some() {
                break;
            }
            let Some(drill) = test.drill.clone() else { continue };
            ordinal += 1;
            let name = titles[ordinal as usize - 1].clone();
            let begins_ms = played.elapsed.as_millis() as u64;
            watcher.line(&format!(
                "{name}: {} on {}",
                counted(topology.databases.len() as u64, "database"),
                counted(topology.hosts.len() as u64, "host")
            ));
            let host = topology.hosts[0].name.clone();
            let planned = PlannedDrill { topology, test, drill, ordinal, name };
            let plan = DrillPlan { planned, begins_ms, seed, storage: storage.model, rot_at_s: None };
            played.add(crate::drill(plan, recorder, &mut |text| watcher.line(text)).simulated);
            let on_storage = storage.modelled.and_then(|modelled| modelled.probed(ordinal, &host));
            played.on_storage(on_storage, recorder);
        }
        played
    }
}

impl Played {
    fn add(&mut self, simulated: SimulationOutcome) {
        let SimulationOutcome { outcome, trace_hash, elapsed } = simulated;
        self.elapsed += elapsed;
        self.traces.push(format!("{trace_hash:016x}"));
        self.outcome.verdicts.extend(outcome.verdicts);
        self.outcome.error = outcome.error;
    }

    /// Adds the verdict on a measured storage, if it is one.
    fn on_storage(&mut self, verdict: Option<Verdict>, recorder: &mut dyn Recorder) {
        let Some(verdict) = verdict else { return };
        if let Err(error) = recorder.record(verdict.clone().into()) {
            self.outcome.error.get_or_insert(error.into());
        }
        self.outcome.verdicts.push(verdict);
    }
}

/// Drill that was asked for, with its hosts and storage.
pub struct ChosenDrill {
    /// Test of kind `drill`.
    pub test: TestSpec,
    /// Hosts, copies and databases of the drill.
    pub topology: Rc<Topology>,
    /// Storage model of the drill.
    pub storage: Storage,
}

fn chosen_drills(
    solution: &Solution,
    tests: &[TestSpec],
    wishes: &Wishes<'_>,
    assumptions: &Assumptions,
) -> Result<Vec<ChosenDrill>, WishError> {
    let are_wanted = wishes.tests.is_empty() || wishes.tests.contains(&TestKind::Drill);
    let mut chosen = Vec::new();
    for test in tests.iter().filter(|_| are_wanted) {
        let Some(drill) = &test.drill else { continue };
        let topology = Rc::new(Topology::of(solution, test, drill)?);
        let storage = crate::storage(solution, &topology.deployments(), assumptions, wishes.seed)?;
        chosen.push(ChosenDrill { test: test.clone(), topology, storage });
    }
    Ok(chosen)
}

/// Deployments of the chosen servers: the first `n`, or those named.
pub(crate) fn servers(solution: &Solution, wanted: &str) -> Result<Vec<Deployment>, WishError> {
    let hosts = solution.hosts_under_test();
    let names: Vec<&str> = match wanted.parse::<usize>() {
        Ok(count) if count == 0 || count > hosts.len() => {
            return Err(WishError::Servers { count, under_test: hosts.len() });
        }
        Ok(count) => hosts[..count].iter().map(|host| host.name.as_str()).collect(),
        Err(_) => wanted.split(',').map(str::trim).collect(),
    };
    if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(WishError::NamedTwice((*twice).to_owned()));
    }
    names.into_iter().map(|name| Ok(solution.deployment(Some(name))?)).collect()
}

/// Tests with the same length. For tests that read databases to the end, the length is a limit.
fn shortened(tests: Vec<TestSpec>, duration_s: Option<f64>) -> Result<Vec<TestSpec>, WishError> {
    let Some(duration_s) = duration_s else { return Ok(tests) };
    if !(1.0..=366.0 * 86_400.0).contains(&duration_s) {
        return Err(WishError::Duration(duration_s));
    }
    let reads = |kind| matches!(kind, TestKind::DatabaseChecksum | TestKind::Backup);
    let shorten =
        |test: TestSpec| TestSpec { duration_s, limit_s: reads(test.kind).then_some(duration_s), ..test };
    Ok(tests.into_iter().map(shorten).collect())
}

/// Tests whose load tests end once their figures are known to `until_percent`.
///
/// # Errors
/// The precision is out of range.
pub fn estimated(tests: Vec<TestSpec>, until_percent: Option<f64>) -> Result<Vec<TestSpec>, WishError> {
    if let Some(percent) = until_percent.filter(|percent| !(0.1..=50.0).contains(percent)) {
        return Err(WishError::Until(percent));
    }
    Ok(tests.into_iter().map(|test| TestSpec { until_percent, ..test }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_HOSTS: &str = r#"
[solution]
name = "Two"
schema = 1

[[host]]
name = "a{n}"
count = 2

[[volume]]
name = "V"
path = "/v"

[[instance]]
name = "DB"
volume = "V"

[sizing]
database_mib = 64

[[test]]
kind = "performance"

[[test]]
kind = "backup"
"#;

    #[test]
    fn servers_are_chosen_by_number_or_by_name() {
        let solution = Solution::parse(TWO_HOSTS, "two.toml").expect("it is valid");
        let names = |wanted: &str| -> Option<Vec<String>> {
            let chosen = servers(&solution, wanted).ok()?;
            Some(chosen.into_iter().map(|deployment| deployment.host).collect())
        };
        assert_eq!(names("1"), Some(vec!["a1".to_owned()]));
        assert_eq!(names("a2, a1"), Some(vec!["a2".to_owned(), "a1".to_owned()]));
        assert_eq!((names("3"), names("0"), names("a9")), (None, None, None));
        assert_eq!(names("a1, a2, a1"), None, "one server does not take part twice");
    }

    #[test]
    fn a_duration_is_the_length_of_a_load_and_the_limit_of_a_reading() {
        let solution = Solution::parse(TWO_HOSTS, "two.toml").expect("it is valid");
        let tests = servers(&solution, "1").expect("a1 exists").remove(0).tests;
        let short = shortened(tests.clone(), Some(600.0)).expect("ten minutes are possible");
        let lengths: Vec<_> = short.iter().map(|test| (test.duration_s, test.limit_s)).collect();
        assert_eq!(lengths, [(600.0, None), (600.0, Some(600.0))]);
        assert_eq!(shortened(tests.clone(), None).expect("nothing was asked"), tests);
        assert!(shortened(tests, Some(0.0)).is_err());
    }
}
