//! Lets a scenario happen: starts the fleet, begins and ends each fault when its time has come, and waits for
//! the end of the run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::net::wire::Weather;
use crate::scenario::{Fault, Kind, Phase, Process, Scenario};
use crate::test_fleet::TestFleet;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Result of a scenario.
pub struct Performed {
    /// The exit status of the controller.
    pub status: Result<i32, String>,
    /// Names of the faults that took place.
    pub happened: Vec<String>,
}

/// Lets the faults of a scenario happen to a run on its hosts.
pub fn perform(fleet: &TestFleet, scenario: &Scenario) -> Performed {
    let agents = fleet.agents();
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    let ids = Ids { controller: controller.id(), agents: agents.iter().map(|agent| agent.id()).collect() };
    let started = Instant::now();
    let mut performer = Performer {
        fleet,
        ids,
        seen: BTreeMap::from([(Phase::Assembling, started)]),
        faults: scenario.faults.iter().map(|fault| (*fault, FaultState::Waits)).collect(),
        happened: Vec::new(),
        phases: Phases::default(),
    };
    while is_alive(controller.id()) && started.elapsed() < testkit::PATIENCE {
        performer.turn();
        std::thread::sleep(LOOK_EVERY);
    }
    performer.end_all();
    let status = match controller.wait() {
        -2 => Err(format!("the run has not ended after {} s", testkit::PATIENCE.as_secs())),
        status => Ok(status),
    };
    Performed { status, happened: performer.happened }
}

struct Ids {
    controller: u32,
    agents: Vec<u32>,
}

enum FaultState {
    Waits,
    /// The fault has acted since this time; with the id of the process that it paused.
    Acts(Instant, Option<u32>),
    Over,
}

struct Performer<'a> {
    fleet: &'a TestFleet,
    ids: Ids,
    seen: BTreeMap<Phase, Instant>,
    faults: Vec<(Fault, FaultState)>,
    happened: Vec<String>,
    phases: Phases,
}

impl Performer<'_> {
    fn turn(&mut self) {
        for phase in self.phases.reached(self.fleet) {
            self.seen.entry(phase).or_insert_with(Instant::now);
        }
        let mut faults = std::mem::take(&mut self.faults);
        for (fault, state) in &mut faults {
            match state {
                FaultState::Waits => {
                    let begun = self.seen.get(&fault.phase);
                    if begun.is_some_and(|begun| begun.elapsed() >= Duration::from_millis(fault.after_ms)) {
                        *state = self.begin(fault);
                    }
                }
                FaultState::Acts(since, paused)
                    if since.elapsed() >= Duration::from_millis(fault.lasts_ms) =>
                {
                    self.end(fault, *paused);
                    *state = FaultState::Over;
                }
                FaultState::Acts(..) | FaultState::Over => {}
            }
        }
        self.faults = faults;
        self.set_weather();
    }

    fn end_all(&mut self) {
        for (fault, state) in std::mem::take(&mut self.faults) {
            if let FaultState::Acts(_, paused) = state {
                self.end(&fault, paused);
            }
        }
    }

    fn begin(&mut self, fault: &Fault) -> FaultState {
        let paused = match fault.kind {
            Kind::Network(..) | Kind::OneWay(..) => None,
            Kind::SetCalendar(host, ahead_ms) => {
                self.fleet.set_calendar(host, ahead_ms);
                None
            }
            Kind::KillBus => {
                let Some(bus) = self.find(Process::Bus) else { return FaultState::Waits };
                signal(bus, libc::SIGKILL);
                None
            }
            Kind::Pause(process) => {
                // It may be away just now, because the drill has killed it.
                let Some(id) = self.find(process) else { return FaultState::Waits };
                signal(id, libc::SIGSTOP);
                Some(id)
            }
        };
        self.happened.push(fault.kind.name().to_owned());
        FaultState::Acts(Instant::now(), paused)
    }

    fn end(&self, fault: &Fault, paused: Option<u32>) {
        if let Kind::SetCalendar(host, _) = fault.kind {
            self.fleet.set_calendar(host, 0);
        }
        if let Some(id) = paused.filter(|id| is_alive(*id)) {
            signal(id, libc::SIGCONT);
        }
    }

    /// Sets the weather of each direction of each link: that of all faults which act on it now.
    fn set_weather(&self) {
        let mut weather: BTreeMap<(usize, usize), Weather> = BTreeMap::new();
        for (fault, state) in &self.faults {
            let acts = matches!(state, FaultState::Acts(..));
            let mut add = |from, to, more: Weather| {
                let sum = weather.entry((from, to)).or_default();
                if acts {
                    *sum = sum.and(more);
                }
            };
            match fault.kind {
                Kind::Network(a, b, more) => {
                    add(a, b, more);
                    add(b, a, more);
                }
                Kind::OneWay(from, to) => add(from, to, Weather { is_cut: true, ..Weather::default() }),
                Kind::Pause(_) | Kind::SetCalendar(..) | Kind::KillBus => {}
            }
        }
        for ((from, to), weather) in weather {
            self.fleet.net.wire().set(from, to, weather);
        }
    }

    fn find(&self, process: Process) -> Option<u32> {
        match process {
            Process::Controller => Some(self.ids.controller),
            Process::Bus => child_of(self.ids.controller),
            Process::Agent(host) => Some(self.ids.agents[host - 1]),
            Process::Copies(host) => child_of(self.ids.agents[host - 1]),
        }
    }
}

fn signal(id: u32, signal: libc::c_int) {
    // SAFETY: it takes no memory. The process is one that this test has started, or a child of one.
    unsafe { libc::kill(id as libc::pid_t, signal) };
}

/// State and parent of a process, from `/proc`.
fn stat(id: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut words = text[text.rfind(')')? + 1..].split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Whether a process exists and is no zombie.
fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != 'Z')
}

fn child_of(parent: u32) -> Option<u32> {
    let ids =
        fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut living = ids.filter(|id| stat(*id).is_some_and(|(state, of)| of == parent && state != 'Z'));
    living.next()
}

/// Progress of a run, from the journal of the first host.
#[derive(Default)]
struct Phases {
    next: usize,
}

impl Phases {
    fn reached(&mut self, fleet: &TestFleet) -> Vec<Phase> {
        const SIGNS: [(&str, Phase); 5] = [
            ("proofload-drill-journal", Phase::Making),
            ("\"acknowledged\"", Phase::WarmingUp),
            ("\"window_opens\"", Phase::Window),
            ("\"window_closes\"", Phase::Draining),
            ("\"compared\"", Phase::Comparing),
        ];
        let mut reached = Vec::new();
        let Some((sign, phase)) = SIGNS.get(self.next) else { return reached };
        if fleet.first_journal().is_some_and(|journal| journal.contains(sign)) {
            reached.push(*phase);
            self.next += 1;
        }
        reached
    }
}
