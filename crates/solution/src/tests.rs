//! Engine, load and tests with nothing left to default, and refused where they cannot be.

use crate::deployment::{EngineSpec, LoadMode, LoadSpec, TestSpec, Thresholds, VolumeSpec};
use crate::drill::drill;
use crate::error::{Checked, Wrong};
use crate::file::{Copies, Engine, Generation, Load, Mix, Role, SolutionFile, Test, TestKind};
use crate::hosts::HostSpec;
use crate::instances::MIB;
use crate::names::DefinedNames;
use crate::source::Mistakes;

/// Resolves `[engine]`.
pub(crate) fn engine(engine: &Engine) -> Checked<EngineSpec> {
    if engine.cache_min_mib() > engine.cache_max_mib {
        let message = format!(
            "a page cache cannot be from {} to {} MiB per database",
            engine.cache_min_mib(),
            engine.cache_max_mib
        );
        let wrong = Wrong::new("engine.cache_max_mib", message);
        return Err(wrong.help("cache_min_mib is at most cache_max_mib"));
    }
    let (start, stop) = (engine.flush_start_percent, engine.flush_stop_percent);
    if start >= stop {
        let message = format!("writing out cannot start at {start} and stop at {stop} percent");
        let wrong = Wrong::new("engine.flush_start_percent", message);
        return Err(wrong.help("flush_start_percent is below flush_stop_percent"));
    }
    Ok(EngineSpec {
        checkpoint_depth_bytes: engine.checkpoint_depth_mib.saturating_mul(MIB),
        flush_start: start / 100.0,
        flush_stop: stop / 100.0,
        maintenance: engine.maintenance,
        recovery_maintenance: engine.recovery_maintenance.unwrap_or(engine.maintenance),
        maintenance_pause_ms: engine.maintenance_pause_ms,
        maintenance_tick_ms: engine.maintenance_tick_ms,
    })
}

/// Resolves `[load]`. `copies`: those of `[copies]`, if the file has that table.
pub(crate) fn load(
    file: &SolutionFile,
    generation: Generation,
    copies: &Copies,
    mistakes: &mut Mistakes<'_>,
) -> LoadSpec {
    let load = file.load.clone().unwrap_or_default();
    let known_mode = mistakes.keep(load_mode(&load));
    let hours = known_mode.map_or(Ok(None), |mode| hours(&load, mode));
    let mode = known_mode.unwrap_or(LoadMode::Tuned);
    let mix = load.mix.unwrap_or(Mix::of(generation));
    let sum =
        [mix.insert, mix.delete, mix.replace, mix.read].iter().map(|&part| u64::from(part)).sum::<u64>();
    if sum != 100 {
        let message = format!("the operations of a batch add up to {sum} percent, not to 100");
        mistakes.add(Wrong::new("load.mix", message).help("insert, delete, replace, read"));
    }
    let of_classes = load.classes.map(|classes| classes.shares().iter().map(|&share| u64::from(share)).sum());
    if let Some(sum) = of_classes.filter(|sum: &u64| *sum != 100) {
        let message = format!("the classes of operations add up to {sum} percent, not to 100");
        mistakes.add(Wrong::new("load.classes", message).help("view, body, delivery, search, index_update"));
    }
    let users = file.profile.as_ref();
    LoadSpec {
        mode,
        target_iops: load.target_iops,
        hours_percent: mistakes.keep(hours).flatten(),
        iops_per_mailbox: users.and_then(|users| users.test_iops_per_mailbox.or(users.iops_per_mailbox)),
        tolerance: load.tolerance_percent.unwrap_or(0.0) / 100.0,
        idle_factor: load.idle_factor.unwrap_or(idle_factor_of(generation)),
        mix,
        classes: load.classes,
        engine: file.engine.generation,
        copies: load.copies.unwrap_or(copies.total()),
    }
}

fn load_mode(load: &Load) -> Checked<LoadMode> {
    Ok(match *load {
        Load { sessions: Some(sessions), iops: None, batches_per_s: None, .. } => {
            LoadMode::Closed { sessions }
        }
        Load { sessions: None, iops: Some(iops), batches_per_s: None, .. } => LoadMode::PacedIops { iops },
        Load { sessions: None, iops: None, batches_per_s: Some(batches_per_s), .. } => {
            LoadMode::PacedBatches { batches_per_s }
        }
        Load { sessions: None, iops: None, batches_per_s: None, target_iops: Some(iops), .. } => {
            LoadMode::PacedIops { iops }
        }
        Load { sessions: None, iops: None, batches_per_s: None, target_iops: None, .. } => LoadMode::Tuned,
        _ => {
            let message = "how hard the databases are driven has to be given in exactly one way";
            return Err(Wrong::new("load", message).help(
                "one of sessions, iops, batches_per_s in [load]; or target_iops alone; or none, for what the test `tune` finds",
            ));
        }
    })
}

/// Resolves the hours of a day: 24 of them, with a peak hour, for a load that is paced.
fn hours(load: &Load, mode: LoadMode) -> Checked<Option<[f64; 24]>> {
    let Some(hours) = &load.hours_percent else { return Ok(None) };
    let wrong = |message: String, help: &str| Err(Wrong::new("load.hours_percent", message).help(help));
    let Ok(of_day) = <[f64; 24]>::try_from(hours.as_slice()) else {
        let message = format!("a day has 24 hours, and {} are given", hours.len());
        return wrong(message, "one number per hour, from midnight on");
    };
    if matches!(mode, LoadMode::Closed { .. } | LoadMode::Tuned) {
        let help = "add target_iops, iops or batches_per_s, and leave sessions out";
        return wrong("only a paced load can follow the hours of a day".into(), help);
    }
    match of_day.iter().copied().fold(0.0, f64::max) {
        100.0 => Ok(Some(of_day)),
        most => {
            let message = format!("the peak hour of a day has 100 percent, and the busiest hour has {most}");
            wrong(message, "divide each hour by the busiest one")
        }
    }
}

/// Test before the volume of its backup is known, which depends on the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnywhereTest {
    pub spec: TestSpec,
    backup_volume: Option<String>,
}

impl AnywhereTest {
    /// Test on a host with these volumes.
    pub fn on(&self, volumes: &[VolumeSpec]) -> TestSpec {
        let named = |name: &String| volumes.iter().find(|volume| volume.name == *name);
        let backup_dir = self.backup_volume.as_ref().and_then(named).map(|volume| volume.dir.clone());
        TestSpec { backup_dir, ..self.spec.clone() }
    }
}

/// Resolves `[[test]]`, or returns the published programme.
pub(crate) fn tests(
    file: &SolutionFile,
    generation: Generation,
    copies: &Copies,
    named: &DefinedNames,
    mistakes: &mut Mistakes<'_>,
) -> Vec<AnywhereTest> {
    let campaign = if file.test.is_empty() { published_programme() } else { file.test.clone() };
    refuse_late_restores(&campaign, mistakes);
    let load = file.load.clone().unwrap_or_default();
    let mut specs = Vec::with_capacity(campaign.len());
    for (index, test) in campaign.iter().enumerate() {
        let path = format!("test[{index}]");
        let backup_volume = mistakes.keep(backup_volume(&campaign, index)).flatten();
        if let Some(volume) = &backup_volume {
            mistakes.keep(known_on_hosts(volume, &named.hosts, &format!("{path}.volume")));
        }
        if test.kind == TestKind::Drill && campaign[index..].iter().any(|test| test.kind != TestKind::Drill) {
            let message = "a drill has databases of its own, so nothing can follow it but drills";
            mistakes.add(Wrong::new(format!("{path}.kind"), message).help("move it to the end"));
        }
        let may_have_caches = mistakes.is_misread("engine") || has_meta_caches(file);
        if test.kind == TestKind::MetacacheLoss && !may_have_caches {
            let message = "the databases have no MetaCache that could be lost";
            mistakes.add(Wrong::new(format!("{path}.kind"), message).help("add meta_cache_mib to [engine]"));
        }
        let spec = spec(file, generation, test);
        if !mistakes.is_misread("test") {
            mistakes.keep(enough_batches(&load, &spec));
        }
        let drill = drill(file, test, &path, spec.duration_s, named, copies, mistakes);
        specs.push(AnywhereTest { spec: TestSpec { drill, ..spec }, backup_volume });
    }
    specs
}

/// Resolves a test, except its backup and its drill.
fn spec(file: &SolutionFile, generation: Generation, test: &Test) -> TestSpec {
    const HOUR: f64 = 3600.0;
    let duration_s = test.duration_s.unwrap_or(match test.kind {
        TestKind::Performance => 2.0 * HOUR,
        TestKind::Tune | TestKind::Drill | TestKind::MetacacheLoss => 600.0,
        _ => 24.0 * HOUR,
    });
    let is_lenient =
        test.kind == TestKind::Stress || (test.kind == TestKind::Performance && duration_s > 6.0 * HOUR);
    let published = Thresholds::published(generation, is_lenient);
    let reads_databases = matches!(test.kind, TestKind::DatabaseChecksum | TestKind::Backup);
    TestSpec {
        kind: test.kind,
        duration_s,
        limit_s: test.duration_s.filter(|_| reads_databases),
        until_percent: None,
        warmup_limit_s: test.warmup_limit_s.unwrap_or(0.5 * HOUR),
        logs: test.logs.unwrap_or(if generation == Generation::E2003 { 100 } else { 500 }),
        backup_dir: None,
        thresholds: published.with(file.thresholds).with(test.thresholds),
        published,
        drill: None,
    }
}

/// Whether the file, or the plan that gives it its instances, gives databases MetaCaches.
fn has_meta_caches(file: &SolutionFile) -> bool {
    let mut volumes = file.volume.iter();
    let follows = file.instance.is_empty()
        && volumes.any(|volume| volume.role == Role::MetaCache && volume.path.is_some());
    follows || file.engine.meta_cache_mib.is_some()
}

/// Transactional I/O per batch in the published runs, whose databases are large compared with their caches
/// (`docs/schema.md`).
pub const IO_PER_BATCH: f64 = 41.0;

/// Least number of batches in the window of a paced load with a target.
const LEAST_BATCHES: f64 = 10.0;

/// Refuses a paced load whose window holds so few batches that its rate is a matter of chance.
fn enough_batches(load: &Load, test: &TestSpec) -> Checked<()> {
    let is_load = TestKind::WINDOWED.contains(&test.kind);
    let is_paced = load.sessions.is_none() && load.batches_per_s.is_none();
    let Some(paced) = load.target_iops.filter(|iops| is_load && is_paced && *iops > 0.0) else {
        return Ok(());
    };
    let hours = load.hours_percent.as_deref().filter(|_| test.follows_hours()).unwrap_or(&[100.0]);
    let paced = paced * hours.iter().sum::<f64>() / (100.0 * hours.len() as f64);
    let batches = paced * test.duration_s / IO_PER_BATCH;
    if batches >= LEAST_BATCHES {
        return Ok(());
    }
    let message = format!(
        "a window of {} s is too short for a target of {paced} I/O per second: it holds {} of the {LEAST_BATCHES} batches needed, and a batch is about {IO_PER_BATCH} I/O",
        test.duration_s,
        batches.floor()
    );
    let needed = (LEAST_BATCHES * IO_PER_BATCH / paced).ceil();
    let wrong = Wrong::new("load.target_iops", message);
    Err(wrong.help(format!("lengthen the window to {needed} s, or raise target_iops")))
}

/// Checks that a volume for backups exists, with a folder, on every host under test.
fn known_on_hosts(volume: &str, hosts: &[HostSpec], path: &str) -> Checked<()> {
    for host in hosts.iter().filter(|host| host.is_under_test) {
        let usable = host.volumes.iter().filter(|volume| volume.is_under_test && volume.path.is_some());
        let known = || usable.clone().map(|volume| volume.name.as_str());
        if !known().any(|known| known == volume) {
            return Err(Wrong::unknown_name("volume with a path", volume, known(), path));
        }
    }
    Ok(())
}

/// Volume of a test's backup; for a restore, that of the backup before it.
fn backup_volume(tests: &[Test], index: usize) -> Checked<Option<String>> {
    let own = tests[index].volume.as_ref();
    let backup = tests[..index].iter().rfind(|test| test.kind == TestKind::BackupToDisk);
    let Some(backup) = backup.filter(|_| tests[index].kind == TestKind::Restore) else {
        return Ok(own.cloned());
    };
    if let Some(own) = own.filter(|own| backup.volume.as_ref() != Some(own)) {
        let there = backup.volume.as_ref();
        let there = there.map_or("beside each database".into(), |name| format!("on volume `{name}`"));
        let message = format!("no backup to restore is on volume `{own}`: backup_to_disk leaves it {there}");
        let wrong = Wrong::new(format!("test[{index}].volume"), message);
        return Err(wrong.help("leave volume out of restore"));
    }
    Ok(backup.volume.clone())
}

/// Refuses tests between a backup and its restore that remove logs which the restore needs.
fn refuse_late_restores(tests: &[Test], mistakes: &mut Mistakes<'_>) {
    for (index, _) in tests.iter().enumerate().filter(|(_, test)| test.kind == TestKind::Restore) {
        let before = &tests[..index];
        let backup = before.iter().rposition(|test| test.kind == TestKind::BackupToDisk);
        let since = backup.map_or(&[][..], |backup| &before[backup..]);
        if let Some(between) = removes_logs(since) {
            let message = format!(
                "restore must follow backup_to_disk directly: {} between them removes the logs since the backup",
                between.name()
            );
            let wrong = Wrong::new(format!("test[{index}].kind"), message);
            mistakes.add(wrong.help("move it to right after backup_to_disk"));
        }
    }
}

/// First of these tests that removes logs.
fn removes_logs(tests: &[Test]) -> Option<TestKind> {
    let mut unclean = false;
    tests.iter().map(|test| test.kind).find(|kind| match kind {
        TestKind::Tune | TestKind::SoftRecovery => true,
        kind if TestKind::WINDOWED.contains(kind) => true,
        TestKind::LogGeneration => {
            unclean = true;
            false
        }
        // Only reads, but recovers databases that were not closed.
        TestKind::Backup => unclean,
        _ => false,
    })
}

/// Default of `idle_factor`: rest of a session as a multiple of its batch. Published sessions of 2003 keep one read
/// outstanding each; later ones rest half of their time.
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
