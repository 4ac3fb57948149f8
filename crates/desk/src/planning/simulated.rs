//! One simulation at a time: the performance test at several loads around the one that is wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capacity::{Probe, Probed, Scaling, Simulating, probe, servers};
use serde::Serialize;
use simulation::Assumptions;
use solution::Solution;
use world::sim::{SideFn, processors, side_by_side};

/// Simulated loads, percent of the mailboxes that the file asks for.
const LOADS_PERCENT: [u64; 5] = [50, 75, 100, 125, 150];
/// A window ends once its figures are known to within this share, percent.
const UNTIL_PERCENT: f64 = 2.0;
const SEED: u64 = 1;

/// Progress of a simulation, as the page shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// State of the simulation.
    pub state: SimulationState,
    /// Name of the solution.
    pub solution: String,
    /// Mailboxes that the file asks for.
    pub mailboxes_wanted: u64,
    /// Servers that are simulated together.
    pub servers: Vec<String>,
    /// Number of loads to simulate.
    pub loads: usize,
    /// Results so far, in ascending order of mailboxes.
    pub probed: Vec<Probed>,
    /// Loads that could not be simulated, with the reason.
    pub refused: Vec<String>,
}

/// State of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulationState {
    /// The simulation is running.
    Running,
    /// Every load was simulated or refused.
    Done,
    /// The page stopped the simulation.
    Stopped,
}

/// The running simulation, or the last one.
#[derive(Default)]
pub struct Simulations(Mutex<Option<Arc<Simulation>>>);

struct Simulation {
    stop: AtomicBool,
    progress: Mutex<Progress>,
}

impl Simulations {
    /// Starts a simulation. Returns `false` if one is running.
    ///
    /// # Errors
    /// The solution cannot be planned.
    pub fn start(&self, solution: Solution) -> solution::Result<bool> {
        let mut current = locked(&self.0);
        if current.as_ref().is_some_and(|last| locked(&last.progress).state == SimulationState::Running) {
            return Ok(false);
        }
        let solution = plan::to_run(solution)?;
        let mailboxes_wanted = Scaling::of(&solution)?.mailboxes;
        let progress = Progress {
            state: SimulationState::Running,
            solution: solution.name.clone(),
            mailboxes_wanted,
            servers: servers(&solution),
            loads: LOADS_PERCENT.len(),
            probed: Vec::new(),
            refused: Vec::new(),
        };
        let simulation =
            Arc::new(Simulation { stop: AtomicBool::new(false), progress: Mutex::new(progress) });
        *current = Some(simulation.clone());
        std::thread::spawn(move || simulation.run(&solution));
        Ok(true)
    }

    /// Progress of the running simulation, or of the last one.
    pub fn progress(&self) -> Option<Progress> {
        locked(&self.0).as_ref().map(|last| locked(&last.progress).clone())
    }

    /// Asks the running simulation to end.
    pub fn stop(&self) {
        if let Some(last) = locked(&self.0).as_ref() {
            last.stop.store(true, Ordering::SeqCst);
        }
    }
}

impl Simulation {
    fn run(&self, solution: &Solution) {
        let _ended = Ended(self);
        let assumptions = Assumptions::shipped();
        let stopped = || self.stop.load(Ordering::SeqCst);
        let how = Simulating {
            assumptions: &assumptions,
            until_percent: UNTIL_PERCENT,
            duration_s: None,
            interrupted: &stopped,
        };
        let Ok(scaling) = Scaling::of(solution) else { return };
        let jobs = LOADS_PERCENT.map(|percent| {
            let mailboxes = (scaling.mailboxes * percent).div_ceil(100);
            let scaling = &scaling;
            let job: SideFn<'_, (), _> = Box::new(move |_| self.simulate(scaling, mailboxes, how));
            job
        });
        side_by_side(processors(), jobs.into(), |_| {});
    }

    fn simulate(&self, scaling: &Scaling<'_>, mailboxes: u64, how: Simulating<'_>) {
        let load = Probe { load: mailboxes, seed: SEED };
        let probed = match scaling.solution(mailboxes) {
            _ if (how.interrupted)() => Ok(None),
            Ok(scaled) => probe(&scaled, load, how).map_err(|error| error.to_string()),
            Err(error) => Err(error.message),
        };
        let mut progress = locked(&self.progress);
        match probed {
            Ok(Some(probed)) => {
                progress.probed.push(probed);
                progress.probed.sort_by_key(|probed| probed.mailboxes);
            }
            Ok(None) => {}
            Err(why) => progress.refused.push(format!("{mailboxes} mailboxes: {why}")),
        }
    }
}

/// Guard that marks a simulation as ended when it is dropped, also by a panic.
struct Ended<'a>(&'a Simulation);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut progress = locked(&self.0.progress);
        progress.state =
            if self.0.stop.load(Ordering::SeqCst) { SimulationState::Stopped } else { SimulationState::Done };
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::claims::{HONEST, PERFORMANCE};

    use super::*;

    fn ended(simulations: &Simulations) -> Progress {
        loop {
            let progress = simulations.progress().expect("one was started");
            if progress.state != SimulationState::Running {
                return progress;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn one_simulation_runs_at_a_time_and_stops_when_it_is_told() {
        let text = HONEST.to_owned() + PERFORMANCE;
        let solution = Solution::parse(&text, "s.toml").expect("it is valid");
        let simulations = Simulations::default();
        assert_eq!(simulations.progress(), None);
        assert_eq!(simulations.start(solution.clone()), Ok(true));
        assert_eq!(simulations.start(solution.clone()), Ok(false), "the first one goes on");
        simulations.stop();
        assert_eq!(ended(&simulations).state, SimulationState::Stopped);
        assert_eq!(simulations.start(solution), Ok(true), "then the next one may start");
        simulations.stop();
        ended(&simulations);
    }

    #[test]
    fn loads_that_cannot_be_simulated_say_why() {
        let small = HONEST.replace("capacity_gb = 4000", "capacity_gb = 400");
        let text = small + PERFORMANCE + "duration_s = 60\nwarmup_limit_s = 5\n";
        let solution = Solution::parse(&text, "s.toml").expect("it is valid");
        let simulations = Simulations::default();
        assert_eq!(simulations.start(solution), Ok(true));
        let progress = ended(&simulations);
        assert_eq!(progress.state, SimulationState::Done);
        let loads: Vec<u64> = progress.probed.iter().map(|probed| probed.mailboxes).collect();
        assert_eq!(loads, [200, 300, 400], "{progress:?}");
        assert!(progress.refused.len() == 2 && progress.refused[0].contains(" mailboxes: "), "{progress:?}");
    }
}
