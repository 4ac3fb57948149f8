//! The tests in their order, from the first to the last or to the first that cannot go on.

use std::pin::Pin;
use std::rc::Rc;

use results::{Origin, Outcome, Recorder, Severity, Verdict};
use solution::{Deployment, TestKind, TestSpec};
use world::World;

use crate::barrier::{Alone, Barrier};
use crate::climb::{Climb, Climbed, Steps};
use crate::error::CampaignError;
use crate::host::Host;
use crate::progress::Watcher;
use crate::room::no_room;
use crate::running::{Campaign, Logs};
use crate::verdict::{all_pass, judge_none};

/// Result of a campaign.
#[derive(Debug, Default)]
pub struct CampaignOutcome {
    /// All verdicts.
    pub verdicts: Vec<Verdict>,
    /// Reason why the campaign ended early; `None` if it did not.
    pub error: Option<CampaignError>,
}

impl CampaignOutcome {
    /// Whether every test was carried out and nothing failed.
    pub fn passed(&self) -> bool {
        let judged = self.verdicts.iter().any(|verdict| verdict.outcome != Outcome::Info);
        self.error.is_none() && judged && all_pass(&self.verdicts)
    }
}

/// Runs `tests` on the host that `deployment` describes, and passes rows to `recorder` as they arise.
pub fn run<'a>(
    world: World,
    deployment: &'a Deployment,
    tests: &'a [TestSpec],
    seed: u64,
    recorder: &'a mut dyn Recorder,
    watcher: &'a mut dyn Watcher,
) -> CampaignFuture<'a> {
    run_in_step(world, deployment, tests, seed, recorder, watcher, &Alone)
}

/// Future of a running campaign. Boxed, so that campaign, workload and engine are compiled once and optimised here,
/// and not in each crate that awaits a campaign.
pub type CampaignFuture<'a> = Pin<Box<dyn Future<Output = CampaignOutcome> + 'a>>;

/// As [`run`], in step with the other hosts of `barrier`.
pub fn run_in_step<'a>(
    world: World,
    deployment: &'a Deployment,
    tests: &'a [TestSpec],
    seed: u64,
    recorder: &'a mut dyn Recorder,
    watcher: &'a mut dyn Watcher,
    barrier: &'a dyn Barrier,
) -> CampaignFuture<'a> {
    let campaign = Campaign::new(world, deployment, seed, (recorder, watcher, barrier), tests.len() as u32);
    Box::pin(campaign.carry_out(tests, None))
}

/// Carries out a climb on the host that `deployment` describes, and passes rows to `recorder` as they arise.
pub fn climb<'a>(
    world: World,
    deployment: &'a Deployment,
    tests: &'a Climbed,
    seed: u64,
    (recorder, watcher): (&'a mut dyn Recorder, &'a mut dyn Watcher),
    climb: &'a mut dyn Climb,
) -> CampaignFuture<'a> {
    let most = tests.before.len() as u32 + tests.steps_max;
    let campaign = Campaign::new(world, deployment, seed, (recorder, watcher, &Alone), most);
    Box::pin(campaign.carry_out(&tests.before, Some((&tests.step, climb))))
}

impl<'a> Campaign<'a> {
    /// Campaign of `tests` tests that has not begun.
    fn new(
        world: World,
        deployment: &'a Deployment,
        seed: u64,
        (recorder, watcher, barrier): (&'a mut dyn Recorder, &'a mut dyn Watcher, &'a dyn Barrier),
        tests: u32,
    ) -> Campaign<'a> {
        Campaign {
            host: Rc::new(Host::start(&world, deployment)),
            world,
            deployment,
            recorder,
            watcher,
            barrier,
            seed,
            next_batch: 0,
            load: deployment.load,
            tuned_sessions: None,
            logs: Logs::Free,
            tests,
            verdicts: Vec::new(),
        }
    }
}

impl Campaign<'_> {
    /// Carries out the tests, then the steps of the climb if there is one.
    async fn carry_out(mut self, tests: &[TestSpec], climb: Option<Steps<'_>>) -> CampaignOutcome {
        let mut error = self.run_all(tests, climb).await.err();
        // Databases that can be closed cleanly are, also after an error.
        let closed = self.host.close().await;
        error = error.or(closed.err());
        if let Err(kept) = self.conclude(error.as_ref()) {
            error = error.or(Some(kept));
        }
        CampaignOutcome { verdicts: self.verdicts, error }
    }

    async fn run_all(&mut self, tests: &[TestSpec], climb: Option<Steps<'_>>) -> Result<(), CampaignError> {
        self.record_deployment()?;
        let names = titles(tests);
        for ((ordinal, spec), name) in (1..).zip(tests).zip(&names) {
            self.barrier.arrive().await;
            self.check_interrupt()?;
            self.logs = logs_before(tests, ordinal as usize - 1);
            self.run_one(ordinal, spec, name).await?;
            self.recorder.flush()?;
        }
        match climb {
            Some(steps) => self.climb(tests.len() as u32, steps).await,
            None => Ok(()),
        }
    }

    /// Carries out one test.
    pub async fn run_one(&mut self, ordinal: u32, spec: &TestSpec, name: &str) -> Result<(), CampaignError> {
        match spec.kind {
            TestKind::Init => self.init(ordinal, name, spec).await,
            TestKind::Tune => self.tune(ordinal, name, spec).await,
            TestKind::Performance | TestKind::Stress | TestKind::MetacacheLoss => {
                self.load_test(ordinal, name, spec).await
            }
            TestKind::LogGeneration => self.log_generation(ordinal, name, spec).await,
            TestKind::DatabaseChecksum => self.database_checksum(ordinal, name, spec).await,
            TestKind::LogChecksum => self.log_checksum(ordinal, name, spec).await,
            TestKind::Backup => self.backup(ordinal, name, spec).await,
            TestKind::BackupToDisk => self.backup_to_disk(ordinal, name, spec).await,
            TestKind::Restore => self.restore(ordinal, name, spec).await,
            TestKind::SoftRecovery => self.soft_recovery(ordinal, name, spec).await,
            TestKind::Drill => Err(CampaignError::NeedsAllHosts),
        }
    }

    /// Records why the run ended early. An error of storage or engine is also a failed verdict.
    fn conclude(&mut self, error: Option<&CampaignError>) -> Result<(), CampaignError> {
        let Some(error) = error else { return Ok(()) };
        let severity = match error {
            CampaignError::Interrupted => Severity::Warning,
            _ => Severity::Error,
        };
        self.event(severity, None, &error.to_string())?;
        if error.is_lack_of_room() {
            let verdict = no_room(self.host_name(), error);
            self.judge(verdict)?;
        }
        if error.is_finding() {
            let origin = Origin::host(self.host_name());
            let (rule, what) = error.rule();
            let verdict = Verdict { test: None, ..judge_none(0, origin, rule, what, 1) };
            self.judge(verdict)?;
        }
        Ok(self.recorder.flush()?)
    }
}

/// Origin of the logs that exist before the test `at`.
fn logs_before(tests: &[TestSpec], at: usize) -> Logs {
    let (before, from_here) = tests.split_at(at);
    let opens = |kind: &TestKind| {
        !matches!(kind, TestKind::Init | TestKind::DatabaseChecksum | TestKind::LogChecksum)
    };
    let last = before.iter().rev().map(|test| test.kind).find(opens);
    let next = from_here.iter().map(|test| test.kind).find(opens);
    match (last, next) {
        (Some(TestKind::LogGeneration), _) => Logs::Generated,
        (None, Some(TestKind::SoftRecovery)) => Logs::Left,
        _ => Logs::Free,
    }
}

/// Titles of the tests, unique in the run: a checksum is named after the test before it.
pub fn titles(tests: &[TestSpec]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut subject: Option<&str> = None;
    for spec in tests {
        let title = title(spec.kind);
        let name = match (spec.kind, subject) {
            (TestKind::DatabaseChecksum | TestKind::LogChecksum, Some(subject)) => {
                format!("{title} after {subject}")
            }
            _ => title.to_owned(),
        };
        if !matches!(spec.kind, TestKind::DatabaseChecksum | TestKind::LogChecksum) {
            subject = Some(subject_of(spec.kind));
        }
        let same =
            names.iter().filter(|other| **other == name || other.starts_with(&format!("{name} ("))).count();
        names.push(if same == 0 { name } else { format!("{name} ({})", same + 1) });
    }
    names
}

fn title(kind: TestKind) -> &'static str {
    match kind {
        TestKind::Init => "Initialisation",
        TestKind::Tune => "Tuning",
        TestKind::Performance => "Performance",
        TestKind::Stress => "Stress",
        TestKind::DatabaseChecksum => "Checksum",
        TestKind::LogChecksum => "Log checksum",
        TestKind::Backup => "Backup",
        TestKind::BackupToDisk => "Backup to disk",
        TestKind::Restore => "Restore",
        TestKind::LogGeneration => "Log generation",
        TestKind::SoftRecovery => "Soft recovery",
        TestKind::Drill => "Drill",
        TestKind::MetacacheLoss => "MetaCache loss",
    }
}

fn subject_of(kind: TestKind) -> &'static str {
    match kind {
        TestKind::Init => "initialisation",
        TestKind::Tune => "tuning",
        TestKind::Performance => "performance",
        TestKind::Stress => "stress",
        TestKind::DatabaseChecksum | TestKind::LogChecksum => "checksum",
        TestKind::Backup | TestKind::BackupToDisk => "backup",
        TestKind::Restore => "restore",
        TestKind::LogGeneration => "log generation",
        TestKind::SoftRecovery => "recovery",
        TestKind::Drill => "drill",
        TestKind::MetacacheLoss => "MetaCache loss",
    }
}
