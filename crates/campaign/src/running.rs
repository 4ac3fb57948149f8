//! A test while it runs: its row, its sampler, the tick of a second, and what the watcher sees.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use engine::RecoveryReport;
use futures_util::future::{Either, select};
use results::figures::counted;
use results::judge::latency_ms;
use results::{
    ClassTotals, Database, DatabaseSize, Event, Instance, IoClass, Origin, Parameter, Recorder, Row,
    Severity, Test, Verdict, Volume,
};
use solution::{Deployment, LoadSpec, TestSpec};
use world::{Duration, LocalFuture, Time, World};

use crate::barrier::Barrier;
use crate::error::CampaignError;
use crate::host::{Host, OpenOptions, database_path, ms};
use crate::load::Load;
use crate::progress::{Progress, Rates, Watcher};
use crate::recovery_report::told;
use crate::room::Room;
use crate::sampler::Sampler;

/// Interval at which counters are collected.
pub const TICK: Duration = Duration::from_secs(1);

/// Campaign under way.
pub struct Campaign<'a> {
    /// World of the coordinator.
    pub world: World,
    /// Deployment under test.
    pub deployment: &'a Deployment,
    /// Host under test.
    pub host: Rc<Host>,
    /// Recorder of the rows.
    pub recorder: &'a mut dyn Recorder,
    /// View of the run for people.
    pub watcher: &'a mut dyn Watcher,
    /// Barrier with the other hosts.
    pub barrier: &'a dyn Barrier,
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of the next batch.
    pub next_batch: u64,
    /// Load of the next test: that of the deployment, or of a step of a climb.
    pub load: LoadSpec,
    /// Number of sessions that the test `tune` chose.
    pub tuned_sessions: Option<u32>,
    /// Origin of the logs that the next test may find.
    pub logs: Logs,
    /// Number of tests in the campaign.
    pub tests: u32,
    /// Verdicts so far.
    pub verdicts: Vec<Verdict>,
}

/// Test under way.
pub struct Running {
    /// Row of the test so far.
    pub row: Test,
    /// Sampler, which turns counts into rows.
    pub sampler: Sampler,
    /// Counts since the test began, or since the window opened.
    pub seen: ClassTotals,
    /// I/O that waited at the last tick.
    pub waiting: ClassTotals,
    /// Batches in the same time.
    pub batches: u64,
    /// Current activity.
    pub phase: String,
    /// Time of the last tick.
    pub last_tick: Time,
    /// Barrier that this host has reached while its window is open.
    pub all_here: Option<LocalFuture<'static, ()>>,
    /// Time at which all hosts had reached it.
    pub agreed: Option<Time>,
    /// Sizes of the database files at the start of the test.
    sizes: Vec<u64>,
    /// Watch over the free space of the volumes.
    room: Room,
}

/// Origin of the logs of databases that were not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// No test needs them, so the next test may recover the databases first.
    Free,
    /// `log_generation` of this campaign made them for `soft_recovery`. No write was cut off, so no page is torn.
    Generated,
    /// An earlier run left them. `soft_recovery` is the first test that replays them, so it is measured on them.
    Left,
}

impl Campaign<'_> {
    /// Name of the host under test.
    pub fn host_name(&self) -> &str {
        &self.deployment.host
    }

    /// Records a row.
    pub fn record(&mut self, row: impl Into<Row>) -> Result<(), CampaignError> {
        Ok(self.recorder.record(row.into())?)
    }

    /// Records an event and shows it.
    pub fn event(&mut self, severity: Severity, test: Option<u32>, text: &str) -> Result<(), CampaignError> {
        self.watcher.line(text);
        let (t_ms, host) = (ms(self.world.now()), self.host_name().to_owned());
        self.record(Event { t_ms, severity, test, host, text: text.to_owned() })
    }

    /// Records a verdict.
    pub fn judge(&mut self, verdict: Verdict) -> Result<(), CampaignError> {
        self.verdicts.push(verdict.clone());
        self.record(verdict)
    }

    /// Records verdicts.
    pub fn judge_all(&mut self, verdicts: Vec<Verdict>) -> Result<(), CampaignError> {
        verdicts.into_iter().try_for_each(|verdict| self.judge(verdict))
    }

    /// Records volumes, instances and databases of the deployment.
    pub fn record_deployment(&mut self) -> Result<(), CampaignError> {
        let host = self.host_name().to_owned();
        for volume in &self.deployment.volumes {
            let (name, path) = (volume.name.clone(), volume.dir.clone());
            self.recorder.record(Volume { host: host.clone(), name, path }.into())?;
        }
        for instance in &self.deployment.instances {
            self.recorder.record(
                Instance {
                    host: host.clone(),
                    name: instance.name.clone(),
                    log_path: instance.log_dir.clone(),
                    log_file_bytes: instance.log_file_bytes,
                    cache_min_bytes: instance.cache_min_bytes,
                    cache_max_bytes: instance.cache_max_bytes,
                }
                .into(),
            )?;
            for database in &instance.databases {
                self.recorder.record(
                    Database {
                        origin: Origin::database(&host, &instance.name, &database.name),
                        path: database_path(&database.dir, &database.name),
                        page_bytes: instance.page_bytes,
                    }
                    .into(),
                )?;
            }
        }
        Ok(())
    }

    /// Begins a test: records its row.
    pub async fn begin(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
        parameters: Vec<Parameter>,
    ) -> Result<Running, CampaignError> {
        let now = self.world.now();
        let planned = Duration::from_secs_f64(spec.duration_s);
        let sampler = Sampler::new(ordinal, self.host_name(), planned, now);
        let row = Test {
            ordinal,
            kind: spec.kind.name().to_owned(),
            name: name.to_owned(),
            started_ms: ms(now),
            ended_ms: None,
            window_start_ms: None,
            window_end_ms: None,
            window_planned_ms: None,
            sample_ms: sampler.sample_ms(),
            sessions: None,
            target_iops: None,
            target_batches_per_s: None,
            day: None,
            iops_per_mailbox: None,
            copies: self.load.copies,
            parameters,
            limits: Vec::new(),
        };
        self.record(row.clone())?;
        // What was counted between tests belongs to none.
        self.host.take_counts().await?;
        self.host.forget_progress().await?;
        let sizes = self.record_sizes(ordinal, None).await?;
        Ok(Running {
            row,
            sampler,
            seen: ClassTotals::default(),
            waiting: ClassTotals::default(),
            batches: 0,
            phase: String::new(),
            last_tick: now,
            all_here: None,
            agreed: None,
            sizes,
            room: Room::new(&self.world, self.deployment),
        })
    }

    /// Ends a test: pending counts become rows, and its row is completed.
    pub async fn end(&mut self, mut test: Running) -> Result<(), CampaignError> {
        self.collect::<()>(&mut test, None).await?;
        let now = self.world.now();
        test.sampler.finish(now, self.recorder)?;
        test.row.ended_ms = Some(ms(now));
        self.record_sizes(test.row.ordinal, Some(&test.sizes)).await?;
        self.record(test.row)
    }

    /// Records what was counted so far, for a test that cannot go on.
    pub async fn give_up<E: 'static>(
        &mut self,
        test: &mut Running,
        load: Option<&Load<E>>,
    ) -> Result<(), CampaignError> {
        self.collect(test, load).await?;
        Ok(test.sampler.finish(test.last_tick, self.recorder)?)
    }

    /// Records the size of every database file, with the sizes at the start of the test if it has ended.
    async fn record_sizes(&mut self, test: u32, before: Option<&[u64]>) -> Result<Vec<u64>, CampaignError> {
        let deployment = self.deployment;
        let mut now = Vec::new();
        for instance in &deployment.instances {
            for database in &instance.databases {
                let path = database_path(&database.dir, &database.name);
                let bytes = self.world.entry(&path).await?.map_or(0, |entry| entry.bytes);
                let origin = Origin::database(self.host_name(), &instance.name, &database.name);
                let bytes_before = before.map_or(bytes, |before| before[now.len()]);
                let bytes_after = before.map(|_| bytes);
                now.push(bytes);
                self.record(DatabaseSize { test, origin, bytes_before, bytes_after })?;
            }
        }
        Ok(now)
    }

    /// Collects the counts since the last tick and shows them.
    pub async fn collect<E: 'static>(
        &mut self,
        test: &mut Running,
        load: Option<&Load<E>>,
    ) -> Result<Rates, CampaignError> {
        let mut counts = self.host.take_counts().await?;
        if let Some(load) = load {
            counts.load = load.take_sample();
            for (database, batches) in counts.databases.iter_mut().zip(&counts.load.databases) {
                database.batches = *batches;
            }
        }
        let (from, to) = (test.last_tick, self.world.now());
        test.last_tick = to;
        let totals = counts.totals();
        test.waiting = counts.waiting();
        let batches = counts.load.service.totals.count;
        test.batches += batches;
        test.sampler.add(counts, from, to, self.recorder)?;
        self.note_lapses(test)?;
        test.seen.merge(&totals);
        let seconds = to.since(from).as_secs_f64().max(1e-9);
        let transactional = [IoClass::TransactionalRead, IoClass::TransactionalWrite];
        let latency_ms = |class| latency_ms(test.seen.class(class), test.waiting.class(class)).unwrap_or(0.0);
        Ok(Rates {
            batches_per_s: batches as f64 / seconds,
            iops: transactional.iter().map(|class| totals.class(*class).count).sum::<u64>() as f64 / seconds,
            read_latency_ms: latency_ms(IoClass::TransactionalRead),
            log_write_latency_ms: latency_ms(IoClass::LogWrite),
            bytes_per_s: IoClass::ALL.iter().map(|class| totals.class(*class).bytes).sum::<u64>() as f64
                / seconds,
        })
    }

    /// One tick of a load test: waits for a second, or less if `until` comes first.
    pub async fn tick<E: 'static>(
        &mut self,
        test: &mut Running,
        load: &Load<E>,
        until: Time,
        done: f64,
    ) -> Result<Rates, CampaignError> {
        let next = test.last_tick + TICK;
        // Rows know milliseconds only: a last tick that is shorter would have none in the window that it ends.
        let due = if next + Duration::from_millis(1) < until { next } else { until };
        let due = due.max(self.world.now());
        self.sleep(test, due).await;
        let rates = self.collect(test, Some(load)).await?;
        self.note_late_sample(test, test.last_tick.since(due))?;
        let left = Some(until.since(self.world.now()));
        self.show(test, done, left, rates);
        self.check_interrupt()?;
        test.room.check()?;
        Ok(rates)
    }

    /// Sleeps, and notes meanwhile when every host has reached the barrier `all_here`.
    async fn sleep(&self, test: &mut Running, until: Time) {
        let mut alarm = pin!(self.world.sleep_until(until));
        if let Some(all_here) = &mut test.all_here {
            match select(all_here.as_mut(), alarm.as_mut()).await {
                Either::Left(_) => (test.all_here, test.agreed) = (None, Some(self.world.now())),
                Either::Right(_) => return,
            }
        }
        alarm.await;
    }

    /// Continues the load until every host has reached this barrier; not for a load that failed.
    pub async fn hold<E: 'static>(
        &mut self,
        test: &mut Running,
        load: &Load<E>,
    ) -> Result<(), CampaignError> {
        if load.failed() || test.agreed.take().is_some() {
            return Ok(());
        }
        let mut all_here = test.all_here.take().unwrap_or_else(|| self.barrier.arrive());
        loop {
            let world = self.world.clone();
            let second = pin!(world.sleep_until(test.last_tick + TICK));
            match select(all_here.as_mut(), second).await {
                Either::Left(_) => return Ok(()),
                Either::Right(_) => {}
            }
            self.tick(test, load, self.world.now(), 1.0).await?;
            if load.failed() {
                return Ok(());
            }
        }
    }

    fn show(&mut self, test: &Running, done: f64, left: Option<Duration>, rates: Rates) {
        self.watcher.progress(&Progress {
            test: test.row.name.clone(),
            ordinal: test.row.ordinal,
            tests: self.tests,
            phase: test.phase.clone(),
            done,
            left,
            rates,
        });
    }

    /// Opens every instance, and recovers those that need it.
    pub async fn open(&mut self, test: &mut Running, options: OpenOptions) -> Result<(), CampaignError> {
        test.phase = "opening databases".into();
        let host = self.host.clone();
        let reports = self.watch(test, async move { host.open(options).await }).await?;
        let replayed = |report: &RecoveryReport| report.logs_replayed > 0;
        let recovered = reports.into_iter().map(|report| Some(report).filter(replayed)).collect();
        self.tell_recovered(test.row.ordinal, recovered)?;
        // What recovery read and wrote is no I/O of batches.
        (test.seen, test.batches) = Default::default();
        Ok(())
    }

    /// Reports which instances an earlier run had left open, from the reports of their recoveries.
    pub fn tell_recovered(
        &mut self,
        test: u32,
        reports: Vec<Option<RecoveryReport>>,
    ) -> Result<(), CampaignError> {
        for ((number, instance), report) in self.deployment.instances.iter().enumerate().zip(reports) {
            let Some(report) = report else { continue };
            self.tell_refused_maps(test, number, &report)?;
            let (name, logs) = (&instance.name, counted(report.logs_replayed.into(), "log"));
            let text = format!(
                "{name}: was not closed, so it was recovered first: {logs} replayed, {}",
                told(&report)
            );
            let severity = if report.segments_unexplained > 0 { Severity::Error } else { Severity::Info };
            self.event(severity, Some(test), &text)?;
        }
        Ok(())
    }

    /// Reports each flush map that contradicts its database: the storage lost a write of one of them.
    pub fn tell_refused_maps(
        &mut self,
        test: u32,
        instance: usize,
        report: &RecoveryReport,
    ) -> Result<(), CampaignError> {
        for (db, reason) in &report.flush_maps_refused {
            let name = &self.deployment.instances[instance].databases[usize::from(*db) - 1].name;
            let text = format!("{name}: its flush map contradicts it: {reason}; the map is begun anew");
            self.event(Severity::Error, Some(test), &text)?;
        }
        Ok(())
    }

    /// Ends the campaign if the user asked for it.
    pub fn check_interrupt(&self) -> Result<(), CampaignError> {
        if self.watcher.interrupted() { Err(CampaignError::Interrupted) } else { Ok(()) }
    }

    /// Waits for a job on the shards, with ticks meanwhile. An interrupt asks the job to end and waits for that.
    pub async fn watch<T>(
        &mut self,
        test: &mut Running,
        job: impl Future<Output = Result<T, CampaignError>>,
    ) -> Result<T, CampaignError> {
        self.watch_within(test, None, job).await
    }

    /// As [`Campaign::watch`]. After `limit_s` the job is asked to end with what it has by then.
    pub async fn watch_within<T>(
        &mut self,
        test: &mut Running,
        limit_s: Option<f64>,
        job: impl Future<Output = Result<T, CampaignError>>,
    ) -> Result<T, CampaignError> {
        let limit = limit_s.map(Duration::from_secs_f64);
        let mut job = pin!(job);
        let started = self.world.now();
        loop {
            let world = self.world.clone();
            let second = pin!(async move { world.sleep(TICK).await });
            match select(job.as_mut(), second).await {
                Either::Left((result, _)) => {
                    self.collect::<()>(test, None).await?;
                    return result;
                }
                Either::Right(_) => {
                    let rates = self.collect::<()>(test, None).await?;
                    let (bytes_done, bytes_total) = self.host.progress_bytes().await?;
                    let done = if bytes_total > 0 { bytes_done as f64 / bytes_total as f64 } else { 0.0 };
                    let elapsed = self.world.now().since(started);
                    let mut left = (done > 0.0).then(|| elapsed.mul_f64((1.0 - done) / done));
                    let mut shown = done;
                    if let Some(limit) = limit
                        && left.is_none_or(|left| limit < elapsed + left)
                    {
                        left = Some(limit.saturating_sub(elapsed));
                        shown = elapsed.as_secs_f64() / limit.as_secs_f64();
                    }
                    self.show(test, shown, left, rates);
                    if limit.is_some_and(|limit| elapsed >= limit) {
                        self.host.stop_jobs().await;
                        let result = job.as_mut().await;
                        self.host.clear_stop().await;
                        self.collect::<()>(test, None).await?;
                        let seconds = elapsed.as_secs_f64();
                        let text =
                            format!("ended by its time limit of {seconds:.0} s, {:.1} % done", done * 100.0);
                        self.event(Severity::Warning, Some(test.row.ordinal), &text)?;
                        return result;
                    }
                    if self.watcher.interrupted() {
                        self.host.stop_jobs().await;
                        // That it did not do all is no news; what it has found is.
                        return Err(match job.as_mut().await {
                            Err(error) if error.is_finding() && !error.is_refusal() => error,
                            _ => CampaignError::Interrupted,
                        });
                    }
                }
            }
        }
    }
}
