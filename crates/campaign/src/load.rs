//! Drives batches over the databases: closed sessions or a held rate.
//!
//! Invariants
//! 1. Batches are dealt round robin from one counter, so the counts of two databases never differ by more than the
//!    batches in flight, and by at most 1 once the load has drained.
//! 2. Closed: a session starts its next batch after the last one ended and it has rested `idle_factor` times as long.
//! 3. Paced: a batch is due so long after the one before it as the rate says; its latency counts from that
//!    time, so a stall cannot hide by delaying the batches behind it. One session waits for the next time that
//!    is due, so a new rate holds from the batch after that one on.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use futures_util::future::join_all;
use futures_util::lock::Mutex;
use results::{Day, IoStats, IoTotals};
use world::{Duration, Time, World};

/// Mode of a load: closed or paced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// A number of sessions, each as fast as it can.
    Closed {
        /// Number of sessions over all databases.
        sessions: u32,
        /// Rest after a batch, as a multiple of its time.
        idle_factor: f64,
    },
    /// Batches at a rate that may be changed while the load runs.
    Paced {
        /// Initial rate, batches per second.
        batches_per_s: f64,
        /// Largest number of batches under way.
        sessions_max: u32,
    },
}

/// Figures of a load since the last call.
#[derive(Debug, Clone, Default)]
pub struct LoadSample {
    /// Batches that ended, each with its service time.
    pub service: IoStats,
    /// Batches with the time from when each was due; equal to `service` under a closed load.
    pub response: IoStats,
    /// Service times by database, without distribution; may end before the last databases if those had no batch.
    pub databases: Vec<IoTotals>,
}

/// Load that runs until it is stopped or a batch fails.
pub struct Load<E> {
    world: World,
    databases: u32,
    next: Cell<u64>,
    last: Cell<Option<u64>>,
    stopping: Cell<bool>,
    /// Whether the load is draining: databases are brought to the same count, without a pace.
    draining: Cell<bool>,
    /// Rate of a paced load, batches per second; that of the peak hour if the load follows a day.
    rate: Cell<f64>,
    /// Day that a paced load follows, and when it begins.
    day: Cell<Option<(Time, Day)>>,
    due: Cell<Time>,
    /// Held by the session that waits for the next due time.
    turn: Mutex<()>,
    done: RefCell<Vec<u64>>,
    sample: RefCell<LoadSample>,
    error: RefCell<Option<E>>,
    failed: Cell<bool>,
}

impl<E: 'static> Load<E> {
    /// Prepares a load over `databases` databases. `first_batch`: number of the first batch, after those of an earlier
    /// load; `batches`: number of batches after which it ends.
    pub fn new(world: &World, databases: u32, first_batch: u64, batches: Option<u64>) -> Rc<Load<E>> {
        Rc::new(Load {
            world: world.clone(),
            databases,
            next: Cell::new(first_batch),
            last: Cell::new(batches.map(|count| first_batch + count)),
            stopping: Cell::new(false),
            draining: Cell::new(false),
            rate: Cell::new(0.0),
            day: Cell::new(None),
            due: Cell::new(world.now()),
            turn: Mutex::new(()),
            done: RefCell::new(vec![0; databases as usize]),
            sample: RefCell::default(),
            error: RefCell::new(None),
            failed: Cell::new(false),
        })
    }

    /// Runs until [`Load::stop`], the last batch, or the first error. Returns when nothing is in flight.
    /// `batch(database, number)` performs one batch.
    pub async fn run<F>(self: Rc<Self>, mode: Mode, batch: impl Fn(u32, u64) -> F + 'static) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>> + 'static,
    {
        let batch = Rc::new(batch);
        self.due.set(self.world.now());
        let sessions = match mode {
            Mode::Closed { sessions, .. } => sessions,
            Mode::Paced { batches_per_s, sessions_max } => {
                self.rate.set(batches_per_s);
                sessions_max
            }
        };
        let tasks: Vec<_> = (0..sessions)
            .map(|_| {
                let (load, batch) = (self.clone(), batch.clone());
                self.world.spawn(async move { load.session(mode, batch.as_ref()).await })
            })
            .collect();
        join_all(tasks).await;
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    async fn session<F>(&self, mode: Mode, batch: &impl Fn(u32, u64) -> F)
    where
        F: Future<Output = Result<(), E>>,
    {
        while let Some((number, due)) = self.next_batch_of(mode).await {
            let started = self.world.now();
            let database = (number % u64::from(self.databases)) as u32;
            let outcome = batch(database, number).await;
            if let Err(error) = outcome {
                self.stopping.set(true);
                self.failed.set(true);
                self.error.borrow_mut().get_or_insert(error);
                return;
            }
            let took = self.count(database, started, due);
            if let Mode::Closed { idle_factor, .. } = mode
                && idle_factor > 0.0
                && !self.stopping.get()
            {
                self.world.sleep(took.mul_f64(idle_factor)).await;
            }
        }
    }

    /// Next batch to begin, and when it was due.
    async fn next_batch_of(&self, mode: Mode) -> Option<(u64, Time)> {
        if matches!(mode, Mode::Closed { .. }) {
            return Some((self.take_number()?, self.world.now()));
        }
        let _turn = self.turn.lock().await;
        if self.is_over() {
            return None;
        }
        let due = || if self.draining.get() { self.world.now() } else { self.due.get() };
        self.world.sleep_until(due()).await;
        // Meanwhile another task may have cut what is to be made up for.
        let due = due();
        let number = self.take_number()?;
        self.due.set(self.due_after(due));
        Some((number, due))
    }

    /// When the batch after the one that is due at `due` is due itself.
    fn due_after(&self, due: Time) -> Time {
        let at_peak_s = 1.0 / self.rate.get();
        let Some((begins, day)) = self.day.get() else { return due + Duration::from_secs_f64(at_peak_s) };
        let asked_s = day.peak_s(due.since(begins).as_secs_f64());
        begins + Duration::from_secs_f64(day.moment_s(asked_s + at_peak_s))
    }

    fn is_over(&self) -> bool {
        self.stopping.get() || self.last.get().is_some_and(|last| self.next.get() >= last)
    }

    fn take_number(&self) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let number = self.next.get();
        self.next.set(number + 1);
        Some(number)
    }

    fn count(&self, database: u32, started: Time, due: Time) -> Duration {
        let now = self.world.now();
        self.done.borrow_mut()[database as usize] += 1;
        let mut sample = self.sample.borrow_mut();
        let took_ns = now.since(started).as_nanos() as u64;
        sample.service.record(0, took_ns);
        if sample.databases.len() <= database as usize {
            sample.databases.resize(database as usize + 1, IoTotals::default());
        }
        sample.databases[database as usize].add(IoTotals::one(0, took_ns));
        sample.response.record(0, now.since(due).as_nanos() as u64);
        now.since(started)
    }

    /// Lets a paced load follow a day that begins at `begins`, from the batch after the next one on.
    pub fn follow(&self, begins: Time, day: Day) {
        self.day.set(Some((begins, day)));
    }

    /// Changes the rate of a paced load, from the batch after the next one on.
    pub fn set_rate(&self, batches_per_s: f64) {
        self.rate.set(batches_per_s.max(0.001));
    }

    /// Limits the backlog of a paced load: batches that were due more than `backlog` ago and have not begun become due
    /// now.
    pub fn make_up_for_at_most(&self, backlog: Duration) {
        let now = self.world.now();
        if now.since(self.due.get()) > backlog {
            self.due.set(Time { ns: now.ns - backlog.as_nanos() as u64 });
        }
    }

    /// Stops the load; only batches that bring every database to the same count still begin.
    pub fn stop(&self) {
        self.draining.set(true);
        let next = self.next.get();
        let round_up = next.next_multiple_of(u64::from(self.databases));
        match self.last.get() {
            Some(last) if last <= round_up => {}
            _ => self.last.set(Some(round_up)),
        }
    }

    /// Stops the load without bringing databases to the same count, for an interrupted run.
    pub fn stop_at_once(&self) {
        self.stopping.set(true);
    }

    /// Whether a batch has failed, also after [`Load::run`] has returned the error.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    /// Number of finished batches of each database.
    pub fn batches(&self) -> Vec<u64> {
        self.done.borrow().clone()
    }

    /// Number of the next batch.
    pub fn next_batch(&self) -> u64 {
        self.next.get()
    }

    /// Figures since the last call.
    pub fn take_sample(&self) -> LoadSample {
        self.sample.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use world::Task;
    use world::sim::{SimConfig, Simulation};

    use super::*;

    /// Load whose batches take the time that `takes` returns for their number, for tests.
    fn driven(
        world: &World,
        databases: u32,
        mode: Mode,
        takes: impl Fn(u64) -> Duration + 'static,
    ) -> (Rc<Load<()>>, Task<Result<(), ()>>) {
        let load = Load::new(world, databases, 0, None);
        let sleeper = world.clone();
        let batch = move |_, number| {
            let (world, takes) = (sleeper.clone(), takes(number));
            async move {
                world.sleep(takes).await;
                Ok(())
            }
        };
        (load.clone(), world.spawn(load.run(mode, batch)))
    }

    #[test]
    fn a_load_that_has_failed_says_so_for_good() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("a");
        simulation.run_until(async {
            let load: Rc<Load<u64>> = Load::new(&world, 1, 0, None);
            let mode = Mode::Closed { sessions: 2, idle_factor: 0.0 };
            let run = load
                .clone()
                .run(mode, |_, number| async move { if number < 5 { Ok(()) } else { Err(number) } });
            assert!(!load.failed());
            assert_eq!(run.await, Err(5));
            assert!(load.failed());
        });
    }

    #[test]
    fn a_held_rate_follows_its_setting_at_once_and_drains_without_it() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("a");
        simulation.run_until(async {
            let mode = Mode::Paced { batches_per_s: 0.2, sessions_max: 50 };
            let (load, task) = driven(&world, 7, mode, |_| Duration::from_millis(30));
            let in_ten_seconds = || async {
                load.take_sample();
                world.sleep(Duration::from_secs(10)).await;
                load.take_sample().service.totals.count
            };
            assert!((1..=3).contains(&in_ten_seconds().await));
            load.set_rate(100.0);
            world.sleep(Duration::from_secs(6)).await;
            let fast = in_ten_seconds().await;
            assert!((995..=1005).contains(&fast), "{fast}");
            load.set_rate(0.01);
            world.sleep(Duration::from_secs(2)).await;
            let stopped = world.now();
            load.stop();
            assert_eq!(task.await, Ok(()));
            let counts = load.batches();
            assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
            let drained = world.now().since(stopped);
            assert!(drained < Duration::from_secs(100), "{drained:?}");
        });
    }

    #[test]
    fn a_load_that_follows_a_day_does_each_hour_what_it_asks_for() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("a");
        simulation.run_until(async {
            let mode = Mode::Paced { batches_per_s: 10.0, sessions_max: 50 };
            let (load, task) = driven(&world, 1, mode, |_| Duration::from_millis(1));
            let mut hours_percent: [f64; 24] = std::array::from_fn(|hour| 4.0 * hour as f64);
            hours_percent[12] = 100.0;
            load.follow(world.now(), Day::of_window(hours_percent, 480.0));
            for hour in 0..30 {
                load.take_sample();
                world.sleep(Duration::from_secs(20)).await;
                let batches = load.take_sample().service.totals.count as f64;
                let asked = 20.0 * 10.0 * hours_percent[hour % 24] / 100.0;
                assert!((batches - asked).abs() <= 2.0, "hour {hour}: {batches}, not {asked}");
            }
            load.stop();
            assert_eq!(task.await, Ok(()));
        });
    }

    #[test]
    fn a_session_whose_turn_it_is_brings_no_backlog_back() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("a");
        simulation.run_until(async {
            let mode = Mode::Paced { batches_per_s: 10.0, sessions_max: 1 };
            let takes = |number| Duration::from_secs(if number == 0 { 10 } else { 0 });
            let (load, task) = driven(&world, 1, mode, takes);
            // The alarm of the first batch comes before this one, at the same time.
            world.sleep(Duration::from_secs(1)).await;
            world.sleep(Duration::from_secs(9)).await;
            load.make_up_for_at_most(Duration::ZERO);
            load.take_sample();
            world.sleep(Duration::from_secs(1)).await;
            let batches = load.take_sample().service.totals.count;
            assert!((8..=13).contains(&batches), "what is due in 1 s, not in 11: {batches}");
            load.stop();
            assert_eq!(task.await, Ok(()));
        });
    }

    #[test]
    fn a_held_rate_makes_up_for_no_more_than_it_is_asked_to() {
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("a");
        simulation.run_until(async {
            // The first batches take ten seconds, so that a hundred are due behind them.
            let mode = Mode::Paced { batches_per_s: 10.0, sessions_max: 2 };
            let takes = |number| Duration::from_secs(if number < 2 { 10 } else { 0 });
            let (load, task) = driven(&world, 1, mode, takes);
            world.sleep(Duration::from_millis(9_950)).await;
            load.make_up_for_at_most(Duration::from_secs(2));
            load.take_sample();
            world.sleep(Duration::from_secs(1)).await;
            let sample = load.take_sample();
            let batches = sample.service.totals.count;
            assert!((25..=35).contains(&batches), "2 s of backlog and 1 s, not 10: {batches}");
            load.stop();
            assert_eq!(task.await, Ok(()));
        });
    }
}
