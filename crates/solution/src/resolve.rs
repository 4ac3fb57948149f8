//! Engine, load and tests with nothing left to default, and refused where they cannot be.

use crate::deployment::MIB;
use crate::{
    EngineSpec, Fault, Generation, Load, LoadMode, LoadSpec, Mix, Result, Solution, Test, TestKind, TestSpec,
    Thresholds, VolumeSpec,
};

impl Solution {
    pub(crate) fn engine(&self) -> Result<EngineSpec> {
        let engine = &self.file.engine;
        if engine.cache_min_mib > engine.cache_max_mib {
            let message = format!(
                "a page cache cannot be from {} to {} MiB per database",
                engine.cache_min_mib, engine.cache_max_mib
            );
            let help = Some("cache_min_mib is at most cache_max_mib; it is 32 when not given".into());
            return Err(self.error("engine.cache_max_mib", message, help));
        }
        let (start, stop) = (engine.flush_start_percent, engine.flush_stop_percent);
        if start >= stop {
            let message = format!("writing out cannot start at {start} and stop at {stop} percent");
            let help = Some("flush_start_percent is below flush_stop_percent".into());
            return Err(self.error("engine.flush_start_percent", message, help));
        }
        Ok(EngineSpec {
            checkpoint_depth_bytes: engine.checkpoint_depth_mib * MIB,
            flush_start: start / 100.0,
            flush_stop: stop / 100.0,
            maintenance: engine.maintenance,
            recovery_maintenance: engine.recovery_maintenance.unwrap_or(engine.maintenance),
            maintenance_pause_ms: engine.maintenance_pause_ms,
            maintenance_tick_ms: engine.maintenance_tick_ms,
        })
    }

    pub(crate) fn load(&self, generation: Generation) -> Result<LoadSpec> {
        let load = self.file.load.clone().unwrap_or_default();
        let mode = match load {
            Load { sessions: Some(sessions), iops: None, batches_per_s: None, .. } => {
                LoadMode::Closed { sessions }
            }
            Load { sessions: None, iops: Some(iops), batches_per_s: None, .. } => {
                LoadMode::PacedIops { iops }
            }
            Load { sessions: None, iops: None, batches_per_s: Some(batches_per_s), .. } => {
                LoadMode::PacedBatches { batches_per_s }
            }
            Load { sessions: None, iops: None, batches_per_s: None, target_iops: Some(iops), .. } => {
                LoadMode::PacedIops { iops }
            }
            Load { sessions: None, iops: None, batches_per_s: None, target_iops: None, .. } => {
                LoadMode::Tuned
            }
            _ => {
                return Err(self.error(
                    "load",
                    "how hard the databases are driven has to be given in exactly one way",
                    Some("one of sessions, iops, batches_per_s in [load]; or target_iops alone; or none, for what the test `tune` finds".into()),
                ));
            }
        };
        let mix = load.mix.unwrap_or(Mix::of(generation));
        let sum =
            [mix.insert, mix.delete, mix.replace, mix.read].iter().map(|&part| u64::from(part)).sum::<u64>();
        if sum != 100 {
            let message = format!("the operations of a batch add up to {sum} percent, not to 100");
            return Err(self.error("load.mix", message, Some("insert, delete, replace, read".into())));
        }
        let described =
            self.file.copies.as_ref().map(|copies| {
                copies.per_site.iter().fold(0, |sum: u32, of_site| sum.saturating_add(*of_site))
            });
        let copies = load.copies.or(described).unwrap_or(1);
        if load.copies.is_none() {
            self.in_range("copies.per_site", f64::from(copies), 1.0, 16.0)?;
        }
        let profile = self.file.profile.as_ref();
        Ok(LoadSpec {
            mode,
            target_iops: load.target_iops,
            iops_per_mailbox: profile.and_then(|p| p.test_iops_per_mailbox.or(p.iops_per_mailbox)),
            tolerance: load.tolerance_percent.unwrap_or(0.0) / 100.0,
            idle_factor: load.idle_factor.unwrap_or(idle_factor_of(generation)),
            mix,
            copies,
        })
    }

    pub(crate) fn in_range(&self, path: &str, value: f64, least: f64, most: f64) -> Result<()> {
        if value.is_finite() && (least..=most).contains(&value) {
            return Ok(());
        }
        let key = path.rsplit('.').next().unwrap_or(path);
        Err(self.error(path, format!("{key} = {value} cannot be"), Some(format!("from {least} to {most}"))))
    }

    pub(crate) fn tests(&self, generation: Generation, volumes: &[VolumeSpec]) -> Result<Vec<TestSpec>> {
        let programme;
        let tests = if self.file.test.is_empty() {
            programme = published_programme();
            &programme
        } else {
            &self.file.test
        };
        self.refuse_late_restores(tests)?;
        (0..tests.len()).map(|index| self.test(tests, index, generation, volumes)).collect()
    }

    /// `[[fault]]`, of hosts that there are, and none that cannot end. Which parts they hit is known to who models them.
    pub(crate) fn faults(&self) -> Result<Vec<Fault>> {
        if self.file.fault.is_empty() {
            return Ok(Vec::new());
        }
        let hosts = self.hosts()?;
        for (index, fault) in self.file.fault.iter().enumerate() {
            let known = hosts.iter().map(|host| host.name.as_str());
            if let Some(host) = &fault.host
                && !known.clone().any(|name| name == host)
            {
                return Err(self.unknown_name("host", host, known, &format!("fault[{index}].host")));
            }
            if fault.test == Some(TestKind::Drill) {
                let help = Some("a drill has failures of its own: [[test.drill.event]]".to_owned());
                return Err(self.error(&format!("fault[{index}].test"), "no fault happens in a drill", help));
            }
            if fault.duration_s.is_some() && !fault.kind.has_end() {
                let message = format!("{} has no end that a duration could set", fault.kind.name());
                let help = Some("leave duration_s out".into());
                return Err(self.error(&format!("fault[{index}].duration_s"), message, help));
            }
        }
        Ok(self.file.fault.clone())
    }

    /// The volume that a test backs up to, or restores from: that of the backup before it.
    fn backup_volume<'a>(&self, tests: &'a [Test], index: usize) -> Result<Option<&'a String>> {
        let own = tests[index].volume.as_ref();
        let backup = tests[..index].iter().rfind(|test| test.kind == TestKind::BackupToDisk);
        let Some(backup) = backup.filter(|_| tests[index].kind == TestKind::Restore) else { return Ok(own) };
        if let Some(own) = own.filter(|own| backup.volume.as_ref() != Some(own)) {
            let there = backup.volume.as_ref();
            let there = there.map_or("beside each database".into(), |name| format!("on volume `{name}`"));
            let message =
                format!("no backup to restore is on volume `{own}`: backup_to_disk leaves it {there}");
            let help = Some("leave volume out of restore".into());
            return Err(self.error(&format!("test[{index}].volume"), message, help));
        }
        Ok(backup.volume.as_ref())
    }

    /// Tests that work on databases with circular logging remove logs that a restore of an older backup needs.
    fn refuse_late_restores(&self, tests: &[Test]) -> Result<()> {
        for (index, _) in tests.iter().enumerate().filter(|(_, test)| test.kind == TestKind::Restore) {
            let before = &tests[..index];
            let backup = before.iter().rposition(|test| test.kind == TestKind::BackupToDisk);
            let since = backup.map_or(&[][..], |backup| &before[backup..]);
            if let Some(between) = removes_logs(since) {
                let message = format!(
                    "restore must follow backup_to_disk directly: {} between them removes the logs since the backup",
                    between.name()
                );
                let help = Some("move it to right after backup_to_disk".into());
                return Err(self.error(&format!("test[{index}].kind"), message, help));
            }
        }
        Ok(())
    }

    fn test(
        &self,
        tests: &[Test],
        index: usize,
        generation: Generation,
        volumes: &[VolumeSpec],
    ) -> Result<TestSpec> {
        const HOUR: f64 = 3600.0;
        let test = &tests[index];
        let path = format!("test[{index}]");
        let duration_s = test.duration_s.unwrap_or(match test.kind {
            TestKind::Performance => 2.0 * HOUR,
            TestKind::Tune | TestKind::Drill => 600.0,
            _ => 24.0 * HOUR,
        });
        let warmup_limit_s = test.warmup_limit_s.unwrap_or(0.5 * HOUR);
        let logs = test.logs.unwrap_or(if generation == Generation::E2003 { 100 } else { 500 });
        let backup_dir = match self.backup_volume(tests, index)? {
            None => None,
            Some(name) => match volumes.iter().find(|volume| volume.name == *name) {
                Some(volume) => Some(volume.dir.clone()),
                None => {
                    let known = volumes.iter().map(|volume| volume.name.as_str());
                    return Err(self.unknown_name(
                        "volume with a path",
                        name,
                        known,
                        &format!("{path}.volume"),
                    ));
                }
            },
        };
        let stress =
            test.kind == TestKind::Stress || (test.kind == TestKind::Performance && duration_s > 6.0 * HOUR);
        let published = Thresholds::published(generation, stress);
        let thresholds = published.with(self.file.thresholds).with(test.thresholds);
        let reads_databases = matches!(test.kind, TestKind::DatabaseChecksum | TestKind::Backup);
        let limit_s = test.duration_s.filter(|_| reads_databases);
        let drill = self.drill(test, &path, duration_s)?;
        let is_last = self.file.test.iter().skip(index).all(|test| test.kind == TestKind::Drill);
        if test.kind == TestKind::Drill && !is_last {
            let message = "a drill has databases of its own, so nothing can follow it but drills";
            return Err(self.error(&format!("{path}.kind"), message, Some("move it to the end".into())));
        }
        Ok(TestSpec {
            kind: test.kind,
            duration_s,
            limit_s,
            warmup_limit_s,
            logs,
            backup_dir,
            thresholds,
            published,
            drill,
        })
    }
}

/// The first of these tests that removes logs.
fn removes_logs(tests: &[Test]) -> Option<TestKind> {
    let mut unclean = false;
    tests.iter().map(|test| test.kind).find(|kind| match kind {
        TestKind::Tune | TestKind::Performance | TestKind::Stress | TestKind::SoftRecovery => true,
        TestKind::LogGeneration => {
            unclean = true;
            false
        }
        // Only reads, but recovers databases that were not closed.
        TestKind::Backup => unclean,
        _ => false,
    })
}

/// Rest of a session as a multiple of its batch: published sessions of 2003 keep one read outstanding each, later ones rest half
/// of their time.
fn idle_factor_of(generation: Generation) -> f64 {
    if generation == Generation::E2003 { 0.0 } else { 1.0 }
}

/// The tests of a file that names none: the whole published programme at its published lengths.
fn published_programme() -> Vec<Test> {
    use TestKind::*;
    [
        Init,
        Tune,
        Performance,
        DatabaseChecksum,
        LogChecksum,
        Stress,
        DatabaseChecksum,
        Backup,
        BackupToDisk,
        Restore,
        LogGeneration,
        SoftRecovery,
        DatabaseChecksum,
    ]
    .map(|kind| Test {
        kind,
        duration_s: None,
        warmup_limit_s: None,
        logs: None,
        volume: None,
        thresholds: None,
        drill: None,
    })
    .into()
}
