//! Which tests of a deployment a command carries out.

use solution::{Deployment, LoadMode, TestKind, TestSpec};

/// Reason why the tests that were asked for cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// The solution has no test of these kinds.
    #[error("the solution file has no such test")]
    NoSuchTest,
    /// Only drills were asked for, and there is none.
    #[error("the solution file has no drill")]
    NoDrill,
    /// No test finds the load that a test of this kind needs.
    #[error("[load] names no load, and no test `tune` finds one before {}", .0.name())]
    NotTuned(TestKind),
}

impl ChoiceError {
    /// Remedy for the reason.
    pub fn help(&self) -> &'static str {
        match self {
            ChoiceError::NoSuchTest => "add a [[test]] with this kind",
            ChoiceError::NoDrill => "add a [[test]] with kind = \"drill\"",
            ChoiceError::NotTuned(_) => {
                "add sessions, iops, batches_per_s or target_iops to [load], or the test tune before it"
            }
        }
    }
}

/// Tests of these kinds (all kinds if empty), without drills.
///
/// # Errors
/// There is none, or none finds the load that they need.
pub fn tests_but_drills(deployment: &Deployment, kinds: &[TestKind]) -> Result<Vec<TestSpec>, ChoiceError> {
    let chosen: Vec<TestSpec> = deployment
        .tests
        .iter()
        .filter(|test| test.kind != TestKind::Drill)
        .filter(|test| kinds.is_empty() || kinds.contains(&test.kind))
        .cloned()
        .collect();
    if chosen.is_empty() {
        return Err(ChoiceError::NoSuchTest);
    }
    refuse_untuned(deployment, &chosen)?;
    Ok(chosen)
}

/// Refuses a load that only `tune` can find, unless `tune` runs before; otherwise the run would end after the
/// databases are created.
fn refuse_untuned(deployment: &Deployment, tests: &[TestSpec]) -> Result<(), ChoiceError> {
    let drives = |kind: &TestKind| {
        TestKind::WINDOWED.contains(kind) || matches!(kind, TestKind::Tune | TestKind::LogGeneration)
    };
    match tests.iter().map(|test| test.kind).find(drives) {
        Some(kind) if kind != TestKind::Tune && deployment.load.mode == LoadMode::Tuned => {
            Err(ChoiceError::NotTuned(kind))
        }
        _ => Ok(()),
    }
}

/// Tests that were asked for, without drills; empty if only drills were asked for.
///
/// # Errors
/// As [`tests_but_drills`], or there is no drill.
pub fn tests_beside_drills(
    has_drills: bool,
    deployment: &Deployment,
    kinds: &[TestKind],
) -> Result<Vec<TestSpec>, ChoiceError> {
    let others: Vec<TestKind> = kinds.iter().copied().filter(|kind| *kind != TestKind::Drill).collect();
    let only_drills = match kinds {
        [] => deployment.tests.iter().all(|test| test.kind == TestKind::Drill),
        _ => others.is_empty(),
    };
    match (only_drills, has_drills) {
        (true, true) => Ok(Vec::new()),
        (true, false) => Err(ChoiceError::NoDrill),
        (false, _) => tests_but_drills(deployment, &others),
    }
}
