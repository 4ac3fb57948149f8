//! `[[fault]]`: what goes wrong on purpose, at a time after the beginning of a test, and what the report says about it.
//!
//! Invariants
//! 1. A fault of a test happens in every test of that kind, one without a test in every test; times count from its beginning.
//! 2. Each fault is an event of the run at the time when it happens, and another when it ends.
//!
//! Limits: a lost disk and a lost controller stay lost, so these have no duration. A fault whose time is after the end of
//! its test happens all the same. Only parts that the array model has can fail; contents never rot here.

use std::cell::RefCell;

use array::{Event, SharedArray};
use futures_util::future::{join_all, pending};
use results::{RecordError, Severity, Test};
use solution::{Deployment, Fault, Solution, SolutionError};
use world::sync::Notify;
use world::{Duration, World};

use crate::merge::Merger;
use crate::storage::VolumeParts;

/// A fault with the parts that it hits.
#[derive(Debug, Clone)]
pub struct PlannedFault {
    fault: Fault,
    host: String,
    what: String,
    begin: Vec<Event>,
    end: Vec<Event>,
}

const KINDS: [&str; 5] = ["disk_fails", "disk_slow", "path_lost", "cache_unprotected", "controller_fails"];

/// The faults of a solution file on the parts that take part.
///
/// # Errors
/// If a fault is of no known kind, names no part, or there is no model of the storage.
pub fn planned(
    solution: &Solution,
    deployments: &[Deployment],
    parts: &[VolumeParts],
) -> Result<Vec<PlannedFault>, Box<SolutionError>> {
    let mut planned = Vec::new();
    for (index, fault) in solution.file.fault.iter().enumerate() {
        let at = format!("fault[{index}]");
        if !KINDS.contains(&fault.kind.as_str()) {
            let known = format!("known in simulated time: {}", KINDS.join(", "));
            let message = format!("`{}` cannot be simulated", fault.kind);
            return Err(solution.error(&format!("{at}.kind"), message, Some(known)));
        }
        let lasts = !matches!(fault.kind.as_str(), "disk_fails" | "controller_fails");
        if fault.duration_s.is_some() && !lasts {
            let message = format!("{} has no end", fault.kind);
            return Err(solution.error(&format!("{at}.duration_s"), message, None));
        }
        let host = fault.host.clone().unwrap_or_else(|| deployments[0].host.clone());
        if !deployments.iter().any(|deployment| deployment.host == host) {
            continue;
        }
        let hit = parts.iter().find(|parts| {
            parts.host == host && fault.volume.as_ref().is_none_or(|volume| *volume == parts.volume)
        });
        let Some(hit) = hit else {
            let message = "no modelled volume is hit by this fault";
            return Err(solution.error(
                &at,
                message,
                Some("name host and volume, and describe [array]".into()),
            ));
        };
        let disk = fault.disk.unwrap_or(1);
        let drive = hit.drives.get(disk.saturating_sub(1) as usize).copied();
        if drive.is_none() && matches!(fault.kind.as_str(), "disk_fails" | "disk_slow") {
            let message = format!("volume `{}` has {} disks", hit.volume, hit.drives.len());
            return Err(solution.error(&format!("{at}.disk"), message, None));
        }
        planned.push(of_kind(fault, hit, drive.unwrap_or(0), disk));
    }
    Ok(planned)
}

fn of_kind(fault: &Fault, hit: &VolumeParts, drive: usize, disk: u32) -> PlannedFault {
    let factor = fault.factor.unwrap_or(10.0);
    let (controller, link) = (hit.controller, hit.link);
    let (what, begin, end) = match fault.kind.as_str() {
        "disk_fails" => {
            (format!("disk {disk} of {} fails", hit.volume), vec![Event::DriveFails { drive }], vec![])
        }
        "disk_slow" => (
            format!("disk {disk} of {} is {factor} times as slow", hit.volume),
            vec![Event::DriveSlow { drive, factor }],
            vec![Event::DriveSlow { drive, factor: 1.0 }],
        ),
        "path_lost" => (
            format!("a path to {} is lost", hit.volume),
            vec![Event::LinkLost { link }],
            vec![Event::LinkRestored { link }],
        ),
        "cache_unprotected" => (
            format!("the write cache in front of {} is not protected", hit.volume),
            vec![Event::CacheUnprotected { controller }],
            vec![Event::CacheProtected { controller }],
        ),
        _ => (
            format!("the controller of {} fails", hit.volume),
            vec![Event::ControllerFails { controller }],
            vec![],
        ),
    };
    PlannedFault { fault: fault.clone(), host: hit.host.clone(), what, begin, end }
}

/// Tests that have begun; the faults wait for them.
#[derive(Default)]
pub struct Begun {
    tests: RefCell<Vec<Test>>,
    more: Notify,
}

impl Begun {
    /// A test begins: called with its first row.
    pub fn add(&self, test: &Test) {
        let mut tests = self.tests.borrow_mut();
        if tests.iter().all(|known| known.ordinal != test.ordinal) {
            tests.push(test.clone());
            drop(tests);
            self.more.notify_all();
        }
    }

    async fn nth(&self, n: usize) -> Test {
        loop {
            let wait = self.more.wait();
            if let Some(test) = self.tests.borrow().get(n) {
                return test.clone();
            }
            wait.await;
        }
    }
}

/// Lets the faults happen; never ends.
pub async fn happen(
    world: &World,
    faults: &[PlannedFault],
    array: Option<&SharedArray>,
    begun: &Begun,
    merger: &RefCell<Merger<'_>>,
) {
    let Some(array) = array.filter(|_| !faults.is_empty()) else { return pending().await };
    let each = faults.iter().map(|planned| async move {
        let mut n = 0;
        loop {
            let test = begun.nth(n).await;
            n += 1;
            if planned.fault.test.is_none_or(|kind| kind.name() == test.kind) {
                one(world, planned, array, &test, merger).await;
            }
        }
    });
    join_all(each).await;
}

async fn one(
    world: &World,
    planned: &PlannedFault,
    array: &SharedArray,
    test: &Test,
    merger: &RefCell<Merger<'_>>,
) {
    let started = world::Time { ns: test.started_ms * 1_000_000 };
    let at = started + Duration::from_secs_f64(planned.fault.at_s.unwrap_or(0.0));
    world.sleep_until(at).await;
    planned.begin.iter().for_each(|event| array.schedule(world.now(), event.clone()));
    let note = planned.fault.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    let said = say(world, merger, test, planned, &format!("expected fault: {}{note}", planned.what));
    if let (Ok(()), Some(duration_s)) = (said, planned.fault.duration_s) {
        world.sleep_until(at + Duration::from_secs_f64(duration_s)).await;
        planned.end.iter().for_each(|event| array.schedule(world.now(), event.clone()));
        // A store that keeps nothing any more says so to the campaign's next row, too.
        let _ = say(world, merger, test, planned, &format!("expected fault over: {}", planned.what));
    }
}

fn say(
    world: &World,
    merger: &RefCell<Merger<'_>>,
    test: &Test,
    planned: &PlannedFault,
    text: &str,
) -> Result<(), RecordError> {
    let event = results::Event {
        t_ms: world.now().ns / 1_000_000,
        severity: Severity::Warning,
        test: Some(test.ordinal),
        host: planned.host.clone(),
        text: text.to_owned(),
    };
    merger.borrow_mut().recorder().record(event.into())
}
