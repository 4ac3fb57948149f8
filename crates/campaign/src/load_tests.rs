//! Tests that drive batches: performance, stress, and the generation of logs for soft recovery.

use std::rc::Rc;

use results::figures::{counted, number};
use results::{Day, IoClass, Origin, Parameter, Severity};
use solution::{EngineGeneration, EngineSpec, InstanceSpec, LoadMode, LoadSpec, TestKind, TestSpec};
use workload::mix::{BatchShape, CLASSES, Mix};
use world::{Duration, Task, Time};

use crate::cache_loss::CacheLoss;
use crate::devices::Devices;
use crate::error::CampaignError;
use crate::estimate::Estimate;
use crate::host::{Host, LOG_BUFFER_BYTES, OpenOptions, maintenance_config, ms};
use crate::load::{Load, Mode};
use crate::rule::Rule;
use crate::running::{Campaign, Running};
use crate::verdict::{judge_load, judge_none};
use crate::window::Window;

/// Least filled share of a warm cache.
const CACHE_FILLED: f64 = 0.9;
/// Largest number of batches of a paced load under way: enough for the rate at any sensible latency.
const PACED_SESSIONS_MAX: u32 = 256;
/// Time within which a paced load makes up for a shortfall, s.
const PACE_HORIZON_S: f64 = 5.0;
/// Share by which a paced load aims above its target, so that noise does not end just below it.
const PACE_AIM: f64 = 1.005;
/// Additional number of batches that a paced load aims for: in a short window the last ones weigh more, and their
/// pages are written later.
const PACE_AHEAD_BATCHES: f64 = 3.0;
/// Additional time that a paced load runs ahead, s, if that is more: page writes come in bursts, and a shortfall in
/// the last seconds of a window cannot be made up. It is as long in a short window, where [`PACE_AIM`] covers less of
/// it.
const PACE_AHEAD_S: f64 = 0.5;
/// I/O per batch of a paced load until it has measured its own.
const IO_PER_BATCH_GUESS: f64 = 41.0;

/// Number of checkpoint depths that each instance must have logged before a window may end early, because pages that
/// change now are written one depth later.
const DEPTHS_LOGGED: f64 = 2.0;

/// Load under way with its sessions.
pub struct Driving {
    /// Load, which counts and can be steered.
    pub load: Rc<Load<CampaignError>>,
    task: Task<Result<(), CampaignError>>,
}

/// Progress of an instance's warm-up, as shares.
#[derive(Debug, Clone, Copy)]
struct Warmth {
    cache_filled: f64,
    depth_logged: f64,
}

impl Warmth {
    /// Whether the cache is full and pages are written back as fast as they change. Before the cache is nearly full or
    /// the log has grown by the checkpoint depth, no page is written back, so an earlier window would show the storage
    /// too few writes.
    fn is_warm(&self, engine: &EngineSpec) -> bool {
        let makes_room = 1.0 - (engine.flush_start + engine.flush_stop) / 2.0;
        let writes = self.cache_filled >= makes_room || self.depth_logged >= 1.0;
        self.cache_filled >= CACHE_FILLED.min(makes_room) && writes
    }
}

impl Campaign<'_> {
    /// Test `performance` or `stress`: warm-up, window, drain, verdicts.
    pub async fn load_test(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let mode = self.mode()?;
        let hours = self.load.hours_percent.filter(|_| spec.follows_hours());
        let day = hours.map(|hours| Day::of_window(hours, spec.duration_s));
        let mut test = self.begin(ordinal, name, spec, self.load_parameters(mode, day)).await?;
        test.row.limits = plan::limits(spec);
        test.row.day = day;
        self.note_load(&mut test, mode, spec)?;
        self.open(&mut test, OpenOptions::normal(&self.deployment.engine)).await?;
        self.start_background().await?;
        let driving = self.drive(mode);
        let measured = self.measure(&mut test, spec, &driving).await;
        // A window that is complete is judged, also if an error follows.
        let mut held = Ok(());
        if measured.is_ok() {
            test.phase = "waiting for the other hosts".into();
            held = self.hold(&mut test, &driving.load).await;
        }
        let (window, batches) = self.stop_load(&mut test, driving, measured).await?;
        let closed = self.host.close().await;
        let window = Window { batches, day: test.row.day, ..window };
        let (load, generation) = (&self.load, self.deployment.generation);
        let verdicts = judge_load(ordinal, self.host_name(), &window, &test.row.limits, load, generation);
        self.judge_all(verdicts)?;
        let maintained = closed.and_then(|bad_pages| self.judge_maintenance(ordinal, bad_pages));
        self.report_batches(ordinal, &window)?;
        let ended = self.end(test).await;
        maintained.and(held).and(ended)
    }

    /// Test `log_generation`: load with every log kept until each instance has enough logs, then a stop as by a crash.
    pub async fn log_generation(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let mode = self.mode()?;
        let mut parameters = self.load_parameters(mode, None);
        parameters.push(Parameter { name: "Logs per instance".into(), value: spec.logs.to_string() });
        let mut test = self.begin(ordinal, name, spec, parameters).await?;
        self.note_load(&mut test, mode, spec)?;
        self.open(&mut test, OpenOptions::keep_all_logs()).await?;
        self.start_background().await?;
        let driving = self.drive(mode);
        let mut generated = self.generate(&mut test, spec, &driving).await;
        if generated.is_ok()
            && let Err(error) = self.hold(&mut test, &driving.load).await
        {
            generated = Err(error);
        }
        let (logs, _) = self.stop_load(&mut test, driving, generated).await?;
        // The logs are to be replayed, so nothing may be written back now.
        let abandoned = self.host.abandon().await;
        let rule = Rule {
            name: "logs_generated",
            text: "every instance generated at least one log to replay within the time".into(),
            comparison: results::Comparison::AtLeast,
            unit: "logs",
        };
        let fewest = logs.iter().min().map(|logs| *logs as f64);
        let verdict = rule.judge(ordinal, Origin::host(self.host_name()), fewest, 1.0);
        self.judge(verdict)?;
        let text = format!("logs generated per instance: {}", range(&logs));
        self.event(Severity::Info, Some(ordinal), &text)?;
        self.judge_maintenance(ordinal, abandoned?)?;
        self.end(test).await
    }

    /// Load mode of the solution file; if it names none, sessions as found by `tune`.
    pub fn mode(&self) -> Result<Mode, CampaignError> {
        let idle_factor = self.load.idle_factor;
        Ok(match self.load.mode {
            LoadMode::Closed { sessions } => Mode::Closed { sessions, idle_factor },
            LoadMode::Tuned => {
                let sessions = self.tuned_sessions.ok_or(CampaignError::NotTuned)?;
                Mode::Closed { sessions, idle_factor }
            }
            LoadMode::PacedIops { iops } => {
                Mode::Paced { batches_per_s: iops / IO_PER_BATCH_GUESS, sessions_max: PACED_SESSIONS_MAX }
            }
            LoadMode::PacedBatches { batches_per_s } => {
                Mode::Paced { batches_per_s, sessions_max: PACED_SESSIONS_MAX }
            }
        })
    }

    fn load_parameters(&self, mode: Mode, day: Option<Day>) -> Vec<Parameter> {
        let load = &self.load;
        let parameter = |name: &str, value: String| Parameter { name: name.into(), value };
        let how = match mode {
            Mode::Closed { sessions, idle_factor } => {
                let sessions = counted(sessions.into(), "session");
                format!("closed: {sessions}, each rests {idle_factor} times as long as its batch took")
            }
            Mode::Paced { .. } => "paced: batches are due at fixed times".into(),
        };
        let followed = day.map(|day| {
            let mean = number(100.0 * day.mean(), 1);
            let value = format!("its mean is {mean} % of the peak hour; it passes in {} s", day.length_s);
            parameter("Day that the load follows", value)
        });
        vec![
            parameter(Parameter::LOAD, how),
            parameter("Operations", operations_of(load)),
            parameter("Lazy commits", format!("{} %", load.mix.lazy)),
        ]
        .into_iter()
        .chain(followed)
        .chain(self.system_parameters())
        .collect()
    }

    /// Settings of the engine, in the order of the published system parameters.
    fn system_parameters(&self) -> Vec<Parameter> {
        let engine = &self.deployment.engine;
        let mib = |bytes: u64| format!("{} MiB", bytes as f64 / f64::from(1 << 20));
        let all = |bytes: fn(&InstanceSpec) -> u64| mib(self.deployment.instances.iter().map(bytes).sum());
        let maintenance = match engine.maintenance {
            true => format!(
                "on, a read {} ms after the last one ended, at the next tick of {} ms",
                engine.maintenance_pause_ms, engine.maintenance_tick_ms
            ),
            false => "off".into(),
        };
        [
            ("Page cache, all instances", all(|instance| instance.cache_max_bytes)),
            ("Writing back starts and stops", {
                format!(
                    "below {} % and at {} % of clean cache",
                    engine.flush_start * 100.0,
                    engine.flush_stop * 100.0
                )
            }),
            ("Checkpoint depth", mib(engine.checkpoint_depth_bytes)),
            ("Log buffer per instance, at most", mib(LOG_BUFFER_BYTES as u64)),
            (Parameter::MAINTENANCE, maintenance),
            ("Copies of each database", self.load.copies.to_string()),
        ]
        .into_iter()
        .map(|(name, value)| Parameter { name: name.into(), value })
        .collect()
    }

    fn note_load(&mut self, test: &mut Running, mode: Mode, spec: &TestSpec) -> Result<(), CampaignError> {
        let mean = test.row.day.map_or(1.0, |day| day.mean_between(0.0, spec.duration_s));
        test.row.target_iops = self.load.target_iops.map(|iops| iops * mean);
        test.row.iops_per_mailbox = self.load.iops_per_mailbox;
        match mode {
            Mode::Closed { sessions, .. } => test.row.sessions = Some(sessions),
            Mode::Paced { batches_per_s, .. } => test.row.target_batches_per_s = Some(batches_per_s * mean),
        }
        self.record(test.row.clone())
    }

    /// Starts maintenance and the reading of logs for passive copies, as in the solution file.
    pub async fn start_background(&self) -> Result<(), CampaignError> {
        let engine = self.deployment.engine;
        let extra_copies = self.load.copies.saturating_sub(1) as usize;
        let maintenance = maintenance_config(&engine);
        let start = move |state: Rc<crate::host::ShardState>, instance: usize| async move {
            let open = state.open_instance(instance)?;
            let databases = if engine.maintenance { open.instance.databases() } else { 0 };
            for database in 1..=databases {
                open.start_maintenance(&state.world, database, maintenance);
            }
            if extra_copies > 0 {
                open.start_replication(&state.world, extra_copies);
            }
            Ok(())
        };
        self.host.each_instance(start).await.map(drop)
    }

    /// Starts the load.
    pub fn drive(&self, mode: Mode) -> Driving {
        let load = Load::new(&self.world, self.host.databases.len() as u32, self.next_batch, None);
        let (host, seed): (Rc<Host>, u64) = (self.host.clone(), self.seed);
        let mix = mix_of(&self.load);
        let batch = move |database, number| host.batch(mix, seed, database, number);
        let task = self.world.spawn(load.clone().run(mode, batch));
        Driving { load, task }
    }

    /// Ends the load, drained unless interrupted. Returns the measured window with the batches of each database.
    pub async fn stop_load<T>(
        &mut self,
        test: &mut Running,
        driving: Driving,
        measured: Result<T, CampaignError>,
    ) -> Result<(T, Vec<u64>), CampaignError> {
        match &measured {
            Ok(_) => driving.load.stop(),
            Err(_) => driving.load.stop_at_once(),
        }
        test.phase = "draining".into();
        let drained = driving.task.await;
        self.next_batch = driving.load.next_batch();
        match drained.and(measured) {
            Ok(measured) => Ok((measured, driving.load.batches())),
            Err(error) => {
                // Why the test cannot go on is the story, not that its last counts could not be kept.
                let _ = self.give_up(test, Some(&driving.load)).await;
                Err(error)
            }
        }
    }

    /// Measures a load: warm-up, then the window. The part of an interrupted window is kept.
    async fn measure(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        driving: &Driving,
    ) -> Result<Window, CampaignError> {
        self.warm_up(test, spec, driving).await?;
        self.hold(test, &driving.load).await?;
        if driving.load.failed() {
            // The end of the load says why.
            return Ok(Window::default());
        }
        let planned = Duration::from_secs_f64(spec.duration_s);
        test.phase = "measuring".into();
        // I/O from before belongs to no sample of the window. Rows know milliseconds only: a window that opens in the
        // millisecond of the last tick begins with that tick, or its rows would count what came in between as well.
        if ms(self.world.now()) > ms(test.last_tick) {
            self.collect(test, Some(&driving.load)).await?;
        }
        (test.seen, test.batches) = Default::default();
        let opened = test.last_tick;
        // What the warm-up could not do is no part of the load that is judged.
        driving.load.make_up_for_at_most(Duration::ZERO);
        if let Some(day) = test.row.day {
            driving.load.follow(opened, day);
        }
        let devices = Devices::look(&self.world, self.deployment).await;
        test.sampler.open_window(planned, opened, self.recorder)?;
        self.take_class_reads().await?;
        test.row.window_start_ms = Some(ms(opened));
        test.row.window_planned_ms = Some(planned.as_millis() as u64);
        self.record(test.row.clone())?;
        let mut estimate = spec.until_percent.map(|percent| Estimate::new(percent, opened));
        let mut loss = (spec.kind == TestKind::MetacacheLoss).then(|| CacheLoss::new(spec, opened));
        let passed = self.pass_window(test, planned, (estimate.as_mut(), loss.as_mut()), driving).await;
        if let Some(loss) = loss {
            self.tell_loss(test, &loss)?;
        }
        self.note_caches(test).await?;
        self.note_classes(test).await?;
        let closed = test.last_tick;
        test.row.window_end_ms = Some(ms(closed));
        let mut window = test.sampler.close_window(closed, self.recorder)?;
        let parts = Devices::look(&self.world, self.deployment).await.since(&devices, test.row.ordinal);
        parts.into_iter().try_for_each(|part| self.record(part))?;
        if let Some(estimate) = estimate.filter(|_| passed.is_ok() && closed < opened + planned) {
            window.is_estimate = true;
            self.tell_estimate(test, &estimate, &window)?;
        }
        self.record(test.row.clone())?;
        match passed {
            // Nothing is missing: a user who asked for the end asks again after this test.
            Err(CampaignError::Interrupted) if closed >= opened + planned => Ok(window),
            passed => passed.map(|()| window),
        }
    }

    /// Waits for the end of the window, a failure of the load, or the first tick after every host has found its
    /// estimate good enough, so that windows end together.
    async fn pass_window(
        &mut self,
        test: &mut Running,
        planned: Duration,
        (mut estimate, mut loss): (Option<&mut Estimate>, Option<&mut CacheLoss>),
        driving: &Driving,
    ) -> Result<(), CampaignError> {
        let opened = test.last_tick;
        let end = opened + planned;
        let is_agreed = |test: &Running| test.agreed.is_some_and(|agreed| agreed < test.last_tick);
        while test.last_tick < end && !driving.load.failed() && !is_agreed(test) {
            let elapsed = test.last_tick.since(opened).as_secs_f64();
            self.tick(test, &driving.load, end, elapsed / planned.as_secs_f64()).await?;
            self.keep_pace(test, Some(opened), &driving.load);
            if let Some(loss) = loss.as_deref_mut() {
                self.watch_loss(test, loss).await?;
            }
            let Some(estimate) = estimate.as_deref_mut() else { continue };
            estimate.add(&test.seen, &test.waiting, test.last_tick, test.sampler.sample_ms());
            let has_arrived = test.all_here.is_some() || test.agreed.is_some();
            if has_arrived || !estimate.is_good() {
                continue;
            }
            if self.depths_logged().await? >= DEPTHS_LOGGED && estimate.is_still_good() {
                test.all_here = Some(self.barrier.arrive());
            }
        }
        Ok(())
    }

    /// Reports that a window ended early, when, and the estimated figures.
    fn tell_estimate(
        &mut self,
        test: &mut Running,
        estimate: &Estimate,
        window: &Window,
    ) -> Result<(), CampaignError> {
        let text = format!(
            "{} s of the planned {} s: {}",
            window.length.as_secs_f64().round(),
            window.planned.as_secs_f64(),
            estimate.told()
        );
        self.event(
            Severity::Info,
            Some(test.row.ordinal),
            &format!("an estimate of the full window, from {text}"),
        )?;
        test.row.parameters.push(Parameter { name: "Estimate of the full window, from".into(), value: text });
        Ok(())
    }

    /// Waits until every instance is warm, or until the limit of the solution file.
    pub async fn warm_up(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        driving: &Driving,
    ) -> Result<(), CampaignError> {
        test.phase = "warming up".into();
        let engine = self.deployment.engine;
        let limit = self.world.now() + Duration::from_secs_f64(spec.warmup_limit_s);
        let mut warmth = self.warmth().await?;
        while !warmth.is_warm(&engine) && self.world.now() < limit && !driving.load.failed() {
            self.tick(test, &driving.load, limit, 0.0).await?;
            self.keep_pace(test, None, &driving.load);
            warmth = self.warmth().await?;
        }
        if !warmth.is_warm(&engine) && !driving.load.failed() {
            let text = format!(
                "the window opened before the warm-up was over: the caches were {:.0} % full, and {:.0} % of the \
                 checkpoint depth had been logged",
                warmth.cache_filled * 100.0,
                warmth.depth_logged * 100.0
            );
            self.event(Severity::Warning, Some(test.row.ordinal), &text)?;
        }
        Ok(())
    }

    /// Progress of an instance that is not warm; of any one if all are.
    async fn warmth(&self) -> Result<Warmth, CampaignError> {
        let of_instance = |state: Rc<crate::host::ShardState>, instance: usize| async move {
            let open = &state.open_instance(instance)?.instance;
            Ok((open.cache_status().resident_bytes, open.log_rolls()))
        };
        let counts = self.host.each_instance(of_instance).await?;
        let depth = self.deployment.engine.checkpoint_depth_bytes.max(1) as f64;
        let all = counts.iter().zip(&self.deployment.instances).map(|((resident, rolls), spec)| Warmth {
            cache_filled: *resident as f64 / spec.cache_max_bytes.max(1) as f64,
            depth_logged: (rolls * spec.log_file_bytes) as f64 / depth,
        });
        let engine = &self.deployment.engine;
        let cold = all.reduce(|a, b| if a.is_warm(engine) { b } else { a });
        Ok(cold.unwrap_or(Warmth { cache_filled: 1.0, depth_logged: 1.0 }))
    }

    /// Adjusts a paced load to its target, by the measured I/O per batch. In the window, which began at `opened`, it
    /// aims at the target for the whole window.
    fn keep_pace(&self, test: &Running, opened: Option<Time>, load: &Load<CampaignError>) {
        let LoadMode::PacedIops { iops } = self.load.mode else { return };
        let done = [IoClass::TransactionalRead, IoClass::TransactionalWrite]
            .iter()
            .map(|class| test.seen.class(*class).count)
            .sum::<u64>() as f64;
        if test.batches < 10 {
            return;
        }
        let io_per_batch = (done / test.batches as f64).max(1.0);
        let even = iops * PACE_AIM / io_per_batch;
        let Some(opened) = opened else { return load.set_rate(even) };
        let elapsed_s = self.world.now().since(opened).as_secs_f64();
        let ahead = (PACE_AHEAD_BATCHES * io_per_batch).max(PACE_AHEAD_S * iops);
        // Seconds at the full rate that make the load until the horizon, and those of them that are to come.
        let (until_s, to_come_s) = match test.row.day {
            None => (elapsed_s + PACE_HORIZON_S, PACE_HORIZON_S),
            Some(day) => {
                let until_s = day.peak_s(elapsed_s + PACE_HORIZON_S);
                (until_s, until_s - day.peak_s(elapsed_s))
            }
        };
        let wanted = iops * PACE_AIM * until_s + ahead - done;
        // A load that fell behind does not come back as a burst, and one that is ahead does not stop.
        load.set_rate((wanted / to_come_s / io_per_batch).clamp(even * 0.5, even * 2.0));
        load.make_up_for_at_most(Duration::from_secs_f64(PACE_HORIZON_S));
    }

    async fn generate(
        &mut self,
        test: &mut Running,
        spec: &TestSpec,
        driving: &Driving,
    ) -> Result<Vec<u64>, CampaignError> {
        test.phase = "generating logs".into();
        let (started, limit) = (self.world.now(), Duration::from_secs_f64(spec.duration_s));
        loop {
            let logs = self.log_rolls().await?;
            let fewest = logs.iter().min().copied().unwrap_or(0);
            let enough = fewest >= u64::from(spec.logs);
            if enough || self.world.now().since(started) >= limit || driving.load.failed() {
                return Ok(logs);
            }
            let done = fewest as f64 / f64::from(spec.logs.max(1));
            self.tick(test, &driving.load, started + limit, done).await?;
        }
    }

    /// Least number of checkpoint depths that an instance has logged since it was opened.
    async fn depths_logged(&self) -> Result<f64, CampaignError> {
        let rolls = self.log_rolls().await?;
        let bytes =
            rolls.iter().zip(&self.deployment.instances).map(|(rolls, spec)| rolls * spec.log_file_bytes);
        let depth = self.deployment.engine.checkpoint_depth_bytes.max(1) as f64;
        Ok(bytes.min().map_or(f64::INFINITY, |bytes| bytes as f64 / depth))
    }

    async fn log_rolls(&self) -> Result<Vec<u64>, CampaignError> {
        let rolls = |state: Rc<crate::host::ShardState>, instance: usize| async move {
            Ok(state.open_instance(instance)?.instance.log_rolls())
        };
        self.host.each_instance(rolls).await
    }

    /// Judges what maintenance found during the load.
    pub fn judge_maintenance(&mut self, test: u32, bad_pages: u64) -> Result<(), CampaignError> {
        if !self.deployment.engine.maintenance {
            return Ok(());
        }
        let origin = Origin::host(self.host_name());
        let what = "bad page was found by background maintenance";
        self.judge(judge_none(test, origin, "maintenance_bad_pages", what, bad_pages))
    }

    fn report_batches(&mut self, test: u32, window: &Window) -> Result<(), CampaignError> {
        let total: u64 = window.batches.iter().sum();
        let text = format!(
            "{} IOPS achieved; batches with warm-up and drain: {}, per database: {}",
            number(window.achieved_iops(), 0),
            number(total as f64, 0),
            range(&window.batches),
        );
        self.event(Severity::Info, Some(test), &text)
    }
}

/// Mix of operations of a load.
pub fn mix_of(load: &LoadSpec) -> Mix {
    let mix = load.mix;
    Mix {
        insert_pct: f64::from(mix.insert),
        delete_pct: f64::from(mix.delete),
        replace_pct: f64::from(mix.replace),
        classes: load.classes.map(|classes| classes.shares().map(f64::from)),
        lazy_pct: f64::from(mix.lazy),
        shape: match load.engine {
            EngineGeneration::E2013 => BatchShape::OneRow,
            EngineGeneration::E2013Early => BatchShape::TwoRows,
        },
    }
}

/// Operations of a load in words, with their shares.
fn operations_of(load: &LoadSpec) -> String {
    let share = |(name, percent): (&str, u32)| format!("{percent} % {name}");
    let mix = load.mix;
    let shares: Vec<String> = match load.classes {
        Some(classes) => CLASSES.iter().map(|(_, name)| *name).zip(classes.shares()).map(share).collect(),
        None => ["insert", "delete", "replace", "read"]
            .into_iter()
            .zip([mix.insert, mix.delete, mix.replace, mix.read])
            .map(share)
            .collect(),
    };
    shares.join(", ")
}

/// Smallest and largest of some counts as text; one number if they are equal.
fn range(counts: &[u64]) -> String {
    let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
    let [least, most] = [least, most].map(|count| number(*count as f64, 0));
    if least == most { least } else { format!("{least} to {most}") }
}
