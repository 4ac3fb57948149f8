//! Backup (read only), backup to disk (a real copy, verified), restore (copy back, replay the logs since, verify).
//!
//! Invariants
//! 1. A backup or a restored database never takes the place of a database under test.
//! 2. A copy of an earlier run is removed before a new one is made; nothing else is.

use engine::{BackupReport, ChecksumReport, Instance, RecoveryReport, StreamConfig};
use futures_util::future::join_all;
use results::figures::counted;
use results::{Backup, Comparison, IoClass, Origin, Parameter, Recovery, Severity};
use solution::TestSpec;
use world::{Bufs, ErrorKind, OpenMode, PageBuf, SECTOR_BYTES, Time};

use crate::checksums::check_database;
use crate::error::CampaignError;
use crate::folders::make_folders;
use crate::host::{OpenOptions, ShardState};
use crate::load::Mode;
use crate::recovery_report::work_of;
use crate::rule::Rule;
use crate::running::Campaign;
use crate::verdict::Coverage;

/// Stream of the backup test: 256 KiB at a time with up to two reads outstanding per database, as published.
const STREAM: StreamConfig = StreamConfig { read_bytes: 256 << 10, depth: 2 };
/// Number of batches per database between a backup and its restore, so that logs exist to replay.
const BATCHES_SINCE_BACKUP: u64 = 50;
const COPY_BYTES: u64 = 1 << 20;

impl Campaign<'_> {
    /// Test `backup`: streams every database once.
    pub async fn backup(&mut self, ordinal: u32, name: &str, spec: &TestSpec) -> Result<(), CampaignError> {
        let mut test = self.begin(ordinal, name, spec, stream_parameters()).await?;
        self.open(&mut test, OpenOptions::normal(&self.deployment.engine)).await?;
        test.phase = "reading databases".into();
        let host = self.host.clone();
        let job = async move {
            host.each_instance(|state, instance| async move { back_up_all(&state, instance, None).await })
                .await
        };
        let reports = self.watch_within(&mut test, spec.limit_s, job).await;
        self.host.close().await?;
        self.record_backups(ordinal, reports?, None)?;
        self.end(test).await
    }

    /// Test `backup_to_disk`: copies every database in use, then verifies the copies.
    pub async fn backup_to_disk(
        &mut self,
        ordinal: u32,
        name: &str,
        spec: &TestSpec,
    ) -> Result<(), CampaignError> {
        let mut test = self.begin(ordinal, name, spec, stream_parameters()).await?;
        // Logs since a backup are kept until it has been restored.
        self.open(&mut test, OpenOptions::keep_logs(&self.deployment.engine)).await?;
        test.phase = "copying databases".into();
        let (host, folder) = (self.host.clone(), spec.backup_dir.clone());
        let job = async move {
            host.each_instance(move |state, instance| {
                let folder = folder.clone();
                async move { back_up_all(&state, instance, Some(folder)).await }
            })
            .await
        };
        let reports = self.watch(&mut test, job).await;
        self.host.close().await?;
        self.record_backups(ordinal, reports?, Some(spec))?;
        test.phase = "verifying copies".into();
        let (host, folder) = (self.host.clone(), spec.backup_dir.clone());
        let job = async move {
            host.each_instance(move |state, instance| {
                let folder = folder.clone();
                async move {
                    let paths = copy_paths(&state, instance, folder.as_deref(), COPY);
                    check_all(&state, instance, &paths).await
                }
            })
            .await
        };
        let reports = self.watch(&mut test, job).await?;
        self.judge_copies(ordinal, reports)?;
        self.end(test).await
    }

    /// Test `restore`: changes the databases once more, copies the backup and the logs since to a folder of their own,
    /// replays the logs there and verifies the result.
    pub async fn restore(&mut self, ordinal: u32, name: &str, spec: &TestSpec) -> Result<(), CampaignError> {
        let batches = Parameter {
            name: "Batches since the backup".into(),
            value: format!("{BATCHES_SINCE_BACKUP} per database"),
        };
        let mut test = self.begin(ordinal, name, spec, vec![batches]).await?;
        let folder = spec.backup_dir.clone();
        self.host
            .each_instance(move |state, instance| {
                let folder = folder.clone();
                async move { find_backup(&state, instance, folder.as_deref()).await }
            })
            .await?;
        self.open(&mut test, OpenOptions::keep_logs(&self.deployment.engine)).await?;
        test.phase = "changing databases".into();
        let job = self.some_batches();
        let changed = self.watch(&mut test, job).await;
        self.next_batch += BATCHES_SINCE_BACKUP * self.host.databases.len() as u64;
        self.host.close().await?;
        changed?;
        test.phase = "copying back and replaying".into();
        let (host, folder) = (self.host.clone(), spec.backup_dir.clone());
        let job = async move {
            host.each_instance(move |state, instance| {
                let folder = folder.clone();
                async move { restore_all(&state, instance, folder).await }
            })
            .await
        };
        let restored = self.watch(&mut test, job).await?;
        let rule = Rule {
            name: "restore_replayed",
            text: "the restored databases replayed the logs since the backup".into(),
            comparison: Comparison::AtLeast,
            unit: "logs",
        };
        let mut checks = Vec::new();
        for (instance, Restored { copies, recovery: report, replay_ms, check }) in
            self.deployment.instances.iter().zip(restored)
        {
            for (database, (bytes, elapsed_ms)) in instance.databases.iter().zip(copies) {
                let bytes_expected = Some(bytes);
                let origin = Origin::database(self.host_name(), &instance.name, &database.name);
                let path = copy_path(spec.backup_dir.as_deref(), &database.dir, &database.name, RESTORED);
                let (test, destination) = (ordinal, Some(path));
                self.record(Backup { test, origin, destination, bytes, bytes_expected, elapsed_ms })?;
            }
            let origin = Origin::instance(self.host_name(), &instance.name);
            let logs = u64::from(report.logs_replayed);
            let work = Some(work_of(&report));
            self.record(Recovery {
                test: ordinal,
                origin: origin.clone(),
                logs,
                elapsed_ms: replay_ms,
                work,
            })?;
            self.judge(rule.judge(ordinal, origin, Some(logs as f64), 1.0))?;
            let replayed = counted(logs, "log");
            let text = format!("{}: {replayed} replayed over the restored copy", instance.name);
            self.event(Severity::Info, Some(ordinal), &text)?;
            checks.push(check);
        }
        self.judge_copies(ordinal, checks)?;
        self.end(test).await
    }

    fn some_batches(&self) -> impl Future<Output = Result<(), CampaignError>> + use<> {
        let databases = self.host.databases.len() as u32;
        let load = crate::load::Load::new(
            &self.world,
            databases,
            self.next_batch,
            Some(BATCHES_SINCE_BACKUP * u64::from(databases)),
        );
        let (host, seed, mix) =
            (self.host.clone(), self.seed, crate::load_tests::mix_of(&self.deployment.load));
        let mode = Mode::Closed { sessions: databases, idle_factor: 0.0 };
        load.run(mode, move |database, number| host.batch(mix, seed, database, number))
    }

    fn record_backups(
        &mut self,
        test: u32,
        reports: Vec<Vec<BackupReport>>,
        to: Option<&TestSpec>,
    ) -> Result<(), CampaignError> {
        let mut coverage = Coverage::default();
        for (instance, reports) in self.deployment.instances.iter().zip(reports) {
            for (database, report) in instance.databases.iter().zip(reports) {
                let origin = Origin::database(self.host_name(), &instance.name, &database.name);
                let destination =
                    to.map(|spec| copy_path(spec.backup_dir.as_deref(), &database.dir, &database.name, COPY));
                let elapsed_ms = (report.seconds * 1e3).round() as u64;
                self.record(Backup {
                    test,
                    origin: origin.clone(),
                    destination,
                    bytes: report.bytes,
                    bytes_expected: Some(report.bytes_there),
                    elapsed_ms,
                })?;
                let found = ChecksumReport {
                    findings: report.findings,
                    bytes: report.bytes,
                    bytes_there: report.bytes_there,
                    seconds: report.seconds,
                };
                coverage.add(self.judge_pages(test, origin, &found)?);
            }
        }
        self.judge_coverage(test, coverage)
    }

    fn judge_copies(&mut self, test: u32, reports: Vec<Vec<ChecksumReport>>) -> Result<(), CampaignError> {
        let mut coverage = Coverage::default();
        for (instance, reports) in self.deployment.instances.iter().zip(reports) {
            for (database, report) in instance.databases.iter().zip(reports) {
                let origin = Origin::database(self.host_name(), &instance.name, &database.name);
                coverage.add(self.judge_pages(test, origin, &report)?);
            }
        }
        self.judge_coverage(test, coverage)
    }
}

/// Suffix of a backup file.
const COPY: &str = "backup.edb";
/// Suffix of a restored database file.
const RESTORED: &str = "restored.edb";

fn stream_parameters() -> Vec<Parameter> {
    let reads = format!("{} KiB, {} outstanding per database", STREAM.read_bytes >> 10, STREAM.depth);
    vec![Parameter { name: "Reads".into(), value: reads }]
}

fn copy_folder(folder: Option<&str>, database_dir: &str) -> String {
    folder.map_or_else(|| format!("{database_dir}/backup"), str::to_owned)
}

fn copy_path(folder: Option<&str>, database_dir: &str, name: &str, end: &str) -> String {
    format!("{}/{name}.{end}", copy_folder(folder, database_dir))
}

fn copy_paths(state: &ShardState, instance: usize, folder: Option<&str>, end: &str) -> Vec<String> {
    let databases = &state.deployment.instances[instance].databases;
    databases.iter().map(|spec| copy_path(folder, &spec.dir, &spec.name, end)).collect()
}

async fn remove_if_there(state: &ShardState, path: &str) -> Result<(), CampaignError> {
    if state.world.entry(path).await?.is_some() {
        state.world.remove(path).await?;
    }
    Ok(())
}

/// Backs up every database of an instance side by side. `to`: target of the copies, if they are copied.
async fn back_up_all(
    state: &ShardState,
    instance: usize,
    to: Option<Option<String>>,
) -> Result<Vec<BackupReport>, CampaignError> {
    let open = state.open_instance(instance)?;
    let side = state.side(instance);
    let mut copies = vec![None; side.databases.len()];
    if let Some(folder) = &to {
        for (copy, path) in copies.iter_mut().zip(copy_paths(state, instance, folder.as_deref(), COPY)) {
            make_folders(&state.world, path.rsplit_once('/').map_or(".", |(folder, _)| folder)).await?;
            remove_if_there(state, &path).await?;
            *copy = Some(path);
        }
    }
    let backups = (1..).zip(&copies).zip(&side.databases).map(|((number, copy), (_, progress))| {
        open.instance.back_up(number, STREAM, copy.as_deref(), progress, &state.stop)
    });
    let reports: Vec<_> = join_all(backups).await;
    drop(open);
    Ok(reports.into_iter().collect::<Result<_, engine::Error>>()?)
}

async fn check_all(
    state: &ShardState,
    instance: usize,
    paths: &[String],
) -> Result<Vec<ChecksumReport>, CampaignError> {
    let checks = paths.iter().enumerate().map(|(number, path)| check_database(state, instance, number, path));
    join_all(checks).await.into_iter().collect()
}

/// Checks that the backup of an instance exists. A copy that was cut off has no header.
async fn find_backup(state: &ShardState, instance: usize, folder: Option<&str>) -> Result<(), CampaignError> {
    let page_bytes = state.deployment.instances[instance].page_bytes as usize;
    let side = state.side(instance);
    for (path, (counters, _)) in copy_paths(state, instance, folder, COPY).into_iter().zip(&side.databases) {
        let is_there = state.world.entry(&path).await?.is_some()
            && match engine::is_closed(&state.world, &path, page_bytes, counters).await {
                Err(engine::Error::DamagedFile { .. }) => false,
                Err(engine::Error::World(error)) if error.kind == ErrorKind::ShortRead => false,
                Ok(_) => true,
                Err(error) => return Err(error.into()),
            };
        if !is_there {
            return Err(CampaignError::NoBackup { path });
        }
    }
    Ok(())
}

/// Result of the restore of an instance.
struct Restored {
    /// Bytes and time in ms of each database's copy.
    copies: Vec<(u64, u64)>,
    recovery: RecoveryReport,
    replay_ms: u64,
    check: Vec<ChecksumReport>,
}

/// Copies backup and logs of an instance to a folder of their own, opens and verifies them, and removes them again.
async fn restore_all(
    state: &ShardState,
    instance: usize,
    folder: Option<String>,
) -> Result<Restored, CampaignError> {
    let spec = &state.deployment.instances[instance];
    let folder = folder.as_deref();
    let (copies, restored) =
        (copy_paths(state, instance, folder, COPY), copy_paths(state, instance, folder, RESTORED));
    let elapsed_ms = |since: Time| state.world.now().since(since).as_millis() as u64;
    let mut copied = Vec::new();
    for (number, (copy, restored)) in copies.iter().zip(&restored).enumerate() {
        let started = state.world.now();
        let bytes = copy_file(state, instance, number, copy, restored).await?;
        copied.push((bytes, elapsed_ms(started)));
    }
    let log_dir = format!("{}/logs-of-{}", copy_folder(folder, &spec.databases[0].dir), spec.name);
    make_folders(&state.world, &log_dir).await?;
    remove_files(state, &log_dir).await?;
    for log in state.world.list(&spec.log_dir).await? {
        if log.name.ends_with(".log") {
            let (from, to) = (format!("{}/{}", spec.log_dir, log.name), format!("{log_dir}/{}", log.name));
            copy_file(state, instance, 0, &from, &to).await?;
        }
    }
    state.world.sync_dir(&log_dir).await?;
    let options = OpenOptions::for_recovery(&state.deployment.engine);
    let (config, _) = state.config_in(instance, options, &log_dir, &restored).await?;
    check_stop(state)?;
    let started = state.world.now();
    let (opened, recovery) = Instance::open(&state.world, &config).await?;
    let replay_ms = elapsed_ms(started);
    opened.close().await?;
    let check = check_all(state, instance, &restored).await?;
    for path in &restored {
        state.world.remove(path).await?;
        remove_if_there(state, &engine::flush_map_path(path)).await?;
    }
    remove_files(state, &log_dir).await?;
    state.world.remove(&log_dir).await?;
    Ok(Restored { copies: copied, recovery, replay_ms, check })
}

fn check_stop(state: &ShardState) -> Result<(), CampaignError> {
    if state.stop.is_stopped() { Err(CampaignError::Interrupted) } else { Ok(()) }
}

/// Removes the files in a folder that only restores create.
async fn remove_files(state: &ShardState, folder: &str) -> Result<(), CampaignError> {
    for entry in state.world.list(folder).await? {
        state.world.remove(&format!("{folder}/{}", entry.name)).await?;
    }
    Ok(())
}

/// Copies a file, syncs the copy, and returns its bytes; counted as database `number` of the instance.
async fn copy_file(
    state: &ShardState,
    instance: usize,
    number: usize,
    from: &str,
    to: &str,
) -> Result<u64, CampaignError> {
    remove_if_there(state, to).await?;
    let side = state.side(instance);
    let (counters, _) = &side.databases[number];
    let source = state.world.open(from, OpenMode::Read).await?;
    let target = state.world.open(to, OpenMode::CreateNew).await?;
    target.keep_like(from);
    let page_bytes = state.deployment.instances[instance].page_bytes as usize;
    let bytes = source.size().await?;
    let mut offset = 0;
    while offset < bytes {
        check_stop(state)?;
        let piece = COPY_BYTES.min(bytes - offset);
        let operation = counters.begin(IoClass::BackupRead, state.world.now());
        // A buffer for each page: a page that a simulated storage knows without its bytes stays so.
        let pages = (0..piece as usize).step_by(page_bytes).map(|at| page_bytes.min(piece as usize - at));
        let bufs: Bufs = pages.map(|bytes| PageBuf::empty(bytes.next_multiple_of(SECTOR_BYTES))).collect();
        let (read, bufs) = source.read_at(offset, bufs).await;
        let between = state.world.now();
        operation.completed(piece, read?, between);
        let operation = counters.begin(IoClass::BackupWrite, between);
        let (written, _) = target.write_at(offset, bufs).await;
        operation.completed(piece, written?, state.world.now());
        offset += piece;
    }
    target.sync().await?;
    Ok(bytes)
}
