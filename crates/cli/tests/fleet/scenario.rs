//! What happens to a fleet during one drill, drawn from a seed: the drill itself, and faults that the drill
//! does not know of.

use crate::drilled::Drilled;
use crate::net::wire::Weather;

/// Seconds of the window. Every fault is over early enough for the copies to serve users again before it closes.
const WINDOW_S: u32 = 24;
/// Time of the window after which only few faults may still act, ms.
const CALM_FROM_MS: u64 = 11_000;
/// Largest deviation of a clock's rate, ppm: two hosts then differ by no more than the protocol allows for.
const DRIFT_PPM_MAX: i64 = 500;

/// Phase of a run in which a fault begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The controller has started.
    Assembling,
    /// Copies are made.
    Making,
    /// Users work, and the window is not open yet.
    WarmingUp,
    /// The window is open.
    Window,
    /// Users have gone home.
    Draining,
    /// Copies are compared, journals end, the controller collects the evidence.
    Comparing,
}

/// A process of the fleet. Hosts count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Process {
    Controller,
    Bus,
    Agent(usize),
    Copies(usize),
}

/// Kind of fault. The controller is host 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Weather for packets between two hosts, in both directions.
    Network(usize, usize, Weather),
    /// All packets from the first host to the second are lost.
    OneWay(usize, usize),
    Pause(Process),
    /// The calendar of a host is moved, and moved back at the end of the fault.
    SetCalendar(usize, i64),
    /// The bus is killed. The controller starts it again.
    KillBus,
}

#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub phase: Phase,
    /// Time from the start of the phase to the fault, ms.
    pub after_ms: u64,
    pub lasts_ms: u64,
    pub kind: Kind,
}

pub struct Scenario {
    pub hosts: usize,
    pub solution: String,
    /// Deviation of the clock's rate of the controller and of each host, ppm.
    pub fast_ppm: Vec<i64>,
    pub faults: Vec<Fault>,
    /// Words about the scenario, to count what all scenarios together have tried.
    pub about: Vec<String>,
}

struct Dice(Box<dyn FnMut() -> u64>);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        (self.0)() % end
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

impl Scenario {
    pub fn draw(seed: u64) -> Scenario {
        let mut number = testkit::numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        (0..8).for_each(|_| _ = number());
        let mut dice = Dice(Box::new(number));
        let hosts = dice.between(2, 3) as usize;
        let copies = dice.between(2, hosts as u64);
        // The last copy may lag behind by its seven days: it has the logs and replays none unless it is activated.
        let has_lagged = copies == 3 && seed.is_multiple_of(2);
        let lagged = if has_lagged { "\nlagged = 1" } else { "" };
        let dial = dice.one_of(&["lossless", "lossless", "lossless", "good_availability"]);
        let kind = dice.one_of(&["host_killed", "host_cut_off", "volume_failed"]);
        let volume = if kind == "volume_failed" { "volume = \"V\"\n" } else { "" };
        let drill = format!(
            "[test.drill]\nmount_dial = \"{dial}\"\n[[test.drill.event]]\nkind = \"{kind}\"\nhost = \"h{}\"\n{volume}\
             at_s = {}\nback_after_s = {}\n",
            dice.between(1, hosts as u64),
            dice.between(2, 5),
            dice.between(2, 6)
        );
        let drilled = Drilled {
            hosts,
            databases: 2,
            per_site: &format!("[{copies}]{lagged}"),
            sites: &[],
            batches_per_s: dice.one_of(&[3, 10]),
            log_file_kib: dice.one_of(&[128, 1024]),
            duration_s: WINDOW_S,
            drill: &drill,
        };
        let drift = DRIFT_PPM_MAX as u64;
        let fast_ppm = (0..=hosts).map(|_| dice.between(0, 2 * drift) as i64 - DRIFT_PPM_MAX).collect();
        let mut faults = Vec::new();
        for _ in 0..dice.between(2, 4) {
            let kind = dice.kind(hosts);
            let (after_ms, lasts_ms) = dice.times(kind);
            faults.push(Fault { phase: Phase::Window, after_ms, lasts_ms, kind });
        }
        let phase = dice.one_of(&[
            Phase::Assembling,
            Phase::Making,
            Phase::WarmingUp,
            Phase::Draining,
            Phase::Comparing,
        ]);
        let (after_ms, lasts_ms) = (dice.between(0, 1_500), dice.between(500, 6_000));
        faults.push(Fault { phase, after_ms, lasts_ms, kind: dice.kind(hosts) });
        let mut about = vec![dial.to_owned(), kind.to_owned(), format!("{copies} copies on {hosts} hosts")];
        about.extend(has_lagged.then(|| "a lagged copy".to_owned()));
        about.extend(faults.iter().map(|fault| format!("{:?}", fault.phase)));
        Scenario { hosts, solution: drilled.text(), fast_ppm, faults, about }
    }
}

impl Dice {
    /// Draws the start of a fault in the window, and its length, ms.
    fn times(&mut self, kind: Kind) -> (u64, u64) {
        // Copies that are paused for longer than a lease and an election have been followed by others when they go on.
        if let (Kind::Pause(Process::Copies(_)), 0) = (kind, self.below(2)) {
            return (self.between(500, 4_000), self.between(8_500, 11_000));
        }
        let after_ms = self.between(500, 7_000);
        (after_ms, self.between(800, CALM_FROM_MS - after_ms))
    }

    fn pair(&mut self, hosts: usize) -> (usize, usize) {
        let from = self.below(hosts as u64 + 1) as usize;
        let to = (from + self.between(1, hosts as u64) as usize) % (hosts + 1);
        (from, to)
    }

    fn kind(&mut self, hosts: usize) -> Kind {
        let host = self.between(1, hosts as u64) as usize;
        match self.below(10) {
            0 | 1 => {
                let (a, b) = self.pair(hosts);
                let weather = Weather {
                    lost_pct: self.between(2, 20),
                    late_pct: self.between(5, 40),
                    late_ms: self.between(5, 60),
                    delay_ms: self.between(0, 15),
                    ..Weather::default()
                };
                Kind::Network(a, b, weather)
            }
            2 => {
                let (a, b) = self.pair(hosts);
                Kind::Network(a, b, Weather { is_torn: true, ..Weather::default() })
            }
            3 => {
                let (a, b) = self.pair(hosts);
                Kind::Network(a, b, Weather { is_cut: true, ..Weather::default() })
            }
            4 | 5 => {
                let (from, to) = self.pair(hosts);
                Kind::OneWay(from, to)
            }
            6 => {
                let ahead_ms = self.between(2_000, 600_000) as i64;
                Kind::SetCalendar(self.below(hosts as u64 + 1) as usize, self.one_of(&[ahead_ms, -ahead_ms]))
            }
            7 => self.one_of(&[Kind::KillBus, Kind::Pause(Process::Bus), Kind::Pause(Process::Controller)]),
            _ => Kind::Pause(self.one_of(&[Process::Agent(host), Process::Copies(host)])),
        }
    }
}

impl Kind {
    /// Name of the fault in the counts.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Network(_, _, weather) if weather.is_torn => "connections torn",
            Kind::Network(_, _, weather) if weather.is_cut => "cut in both directions",
            Kind::Network(..) => "packets lost and late",
            Kind::OneWay(..) => "cut in one direction",
            Kind::Pause(Process::Controller) => "controller paused",
            Kind::Pause(Process::Bus) => "bus paused",
            Kind::Pause(Process::Agent(_)) => "agent paused",
            Kind::Pause(Process::Copies(_)) => "copies paused",
            Kind::SetCalendar(0, _) => "controller's calendar set",
            Kind::SetCalendar(..) => "host's calendar set",
            Kind::KillBus => "bus killed",
        }
    }
}
