//! Scenarios: drills of the real program on hosts in network namespaces, with faults drawn from a seed that the
//! drill does not know of. Packets between hosts are lost, late and out of order, connections are torn, one
//! direction of a link is cut, every process is paused in every phase of the run, calendars are set and clocks
//! drift.
//!
//! `tools/check_drill` judges each scenario: an independent program that reads the journals and knows only what
//! users were promised. A scenario has to end with a verdict, and that verdict has to be true.
//!
//! PROOFLOAD_SCENARIOS sets how many (10), PROOFLOAD_SCENARIO picks one, PROOFLOAD_AT_ONCE sets how many go on at
//! once (6). Needs root, `ip netns`, TUN devices and a C compiler; skipped by name otherwise.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::net;
use crate::net::Net;
use crate::performer::{Performed, perform};
use crate::scenario::Scenario;
use crate::test_fleet::TestFleet;
use crate::test_fleet::clocks::{Clocks, can_move_clocks};

/// Mistakes are planted in this many scenarios, the first ones.
const PLANTED: u64 = 3;
/// Mistakes of the protocol and of the judge that the checker has to notice in these scenarios at least.
const NOTICED_MIN: usize = 12;
const NOTICED: &str = "noticed: ";

/// A scenario that goes wrong says why.
fn play(seed: u64) -> Result<Vec<String>, String> {
    let scenario = Scenario::draw(seed);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
    let clocks = Clocks::new(folder.path(), &scenario.fast_ppm);
    let mut fleet =
        TestFleet::of(&scenario.solution, Net::on_wire(scenario.hosts, seed), scenario.hosts, Some(clocks));
    let Performed { status, happened } = perform(&fleet, &scenario);
    let checked = status.and_then(|status| match (status, check(&fleet, seed < PLANTED)) {
        (0, checked) => checked,
        (_, checked) => Err(format!("the run ended with status {status}: {checked:?}")),
    });
    match checked {
        Ok(noticed) => Ok(scenario.about.into_iter().chain(happened).chain(noticed).collect()),
        Err(why) => {
            let happened = format!("{why}\nfaults: {:#?}\n{}", scenario.faults, fleet.all_logs());
            Err(format!("{happened}\nkept in {}", fleet.keep().display()))
        }
    }
}

/// Runs the independent checker: it must find every promise kept and the verdict right. With `planted` it also alters
/// journals and report, as mistakes of the protocol and of the judge would. It fails unless it notices all of these,
/// and returns their names.
fn check(fleet: &TestFleet, planted: bool) -> Result<Vec<String>, String> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_drill");
    let option = planted.then_some("--planted");
    let output = Command::new("python3").arg(tool).args(option).arg(fleet.run_folder()).output();
    let output = output.expect("Python starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !output.status.success() {
        return Err(format!("check_drill, {}: {stdout}{stderr}", output.status));
    }
    let noticed = stdout.lines().filter_map(|line| line.split_once(" (")).map(|(name, _)| name);
    Ok(noticed.map(|name| format!("{NOTICED}{name}")).collect())
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_promise_is_kept_and_every_verdict_is_true_whatever_network_processes_and_clocks_do() {
    if !(net::can_run() && can_move_clocks() && testkit::has_python()) {
        return;
    }
    let seeds: Vec<u64> = match variable("PROOFLOAD_SCENARIO") {
        Some(seed) => vec![seed],
        None => (0..variable("PROOFLOAD_SCENARIOS").unwrap_or(10)).collect(),
    };
    let (next, happened, wrong) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..variable("PROOFLOAD_AT_ONCE").unwrap_or(6) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst) as usize) {
                    match play(*seed) {
                        Ok(about) => {
                            let mut happened = happened.lock().expect("no thread panics with it");
                            about.into_iter().for_each(|what| *happened.entry(what).or_insert(0) += 1);
                        }
                        Err(why) => {
                            let repeat = format!("PROOFLOAD_SCENARIO={seed} cargo test -p proofload --all-features --test fleet scenarios::");
                            eprintln!("scenario {seed} went wrong; {repeat}\n{why}");
                            wrong.lock().expect("no thread panics with it").push(*seed);
                        }
                    }
                }
            });
        }
    });
    let happened = happened.into_inner().expect("all have ended");
    eprintln!("{} scenarios: {happened:#?}", seeds.len());
    let wrong = wrong.into_inner().expect("all have ended");
    assert!(wrong.is_empty(), "scenarios {wrong:?} went wrong");
    let noticed = happened.keys().filter(|what| what.starts_with(NOTICED)).count();
    assert!(
        noticed >= NOTICED_MIN || seeds.len() < PLANTED as usize,
        "{noticed} planted mistakes are noticed"
    );
}
