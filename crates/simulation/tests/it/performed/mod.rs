//! A drill that was performed, for tests.

use campaign::drill::PlannedDrill;
use results::{Row, Verdict};
use simulation::{Assumptions, DrillPlan, Drilled, SimulationOutcome, drill, storage};
use solution::Solution;

/// Performs the only test of a solution.
pub fn perform(solution: &Solution, seed: u64) -> (SimulationOutcome, Vec<Row>) {
    perform_with(solution, &Assumptions::shipped(), seed)
}

/// As [`perform`], with these assumptions.
pub fn perform_with(
    solution: &Solution,
    assumptions: &Assumptions,
    seed: u64,
) -> (SimulationOutcome, Vec<Row>) {
    let (drilled, rows) = performed(solution, assumptions, seed, None, |_| {});
    (drilled.simulated, rows)
}

/// Performs the only test of a solution with a drill that `change` has altered. Bits flip in pages of the active
/// copies at `rot_at_s`.
pub fn perform_changed(
    solution: &Solution,
    seed: u64,
    rot_at_s: Option<u64>,
    change: impl FnOnce(&mut PlannedDrill),
) -> (Drilled, Vec<Row>) {
    performed(solution, &Assumptions::shipped(), seed, rot_at_s, change)
}

fn performed(
    solution: &Solution,
    assumptions: &Assumptions,
    seed: u64,
    rot_at_s: Option<u64>,
    change: impl FnOnce(&mut PlannedDrill),
) -> (Drilled, Vec<Row>) {
    let host = &solution.hosts[0].name;
    let test = solution.deployment(Some(host)).expect("it is valid").tests.remove(0);
    let spec = test.drill.as_ref().expect("it is a drill");
    let mut planned = PlannedDrill::of(solution, &test, spec, 1, "Drill").expect("it has copies");
    change(&mut planned);
    let storage = storage(solution, &planned.topology.deployments(), assumptions, seed)
        .expect("it can be modelled")
        .model;
    let plan = DrillPlan { planned, begins_ms: 0, seed, storage, rot_at_s };
    let mut rows = Vec::new();
    let drilled = drill(plan, &mut rows, &mut |_| {});
    (drilled, rows)
}

/// Verdicts that failed.
pub fn failed(simulated: &SimulationOutcome) -> Vec<&Verdict> {
    let verdicts = &simulated.outcome.verdicts;
    verdicts.iter().filter(|verdict| verdict.outcome == results::Outcome::Fail).collect()
}

/// Measured values of a rule, one for each database.
pub fn measured(simulated: &SimulationOutcome, rule: &str) -> Vec<Option<f64>> {
    let verdicts = simulated.outcome.verdicts.iter();
    verdicts.filter(|verdict| verdict.rule == rule).map(|verdict| verdict.measured).collect()
}
