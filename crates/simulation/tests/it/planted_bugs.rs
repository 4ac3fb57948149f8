//! Rules of the protocol of the copies, switched off one at a time in simulated drills: `tools/check_drill`,
//! which knows only what users were promised, has to find the broken promise in the journals.
//!
//! A drill shows four of the thirteen bugs that `copies` can plant. The others need an arbiter that starts
//! again, a slow network or a host that only the arbiter cannot reach, last for less than a renewal, break no
//! promise, or ask for the same log again and again for a minute of real time. The tests of `copies` notice all
//! thirteen.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use campaign::drill::{ARBITER_NAME, Entry, JournalContent, JournalEnd, JournalHead, ReadJournal};
use replication::{Bug, DatabaseSpec};
use serde_json::{Value, json};
use solution::Solution;

use crate::drawn::Drilled;
use crate::performed::perform_changed;

const RUN: &str = "run";

/// Writes a journal as its author does on a real host.
fn write(folder: &Path, author: &str, solution: &str, journal: &ReadJournal) {
    fs::create_dir_all(folder).expect("writable");
    let (mut end, mut lines) = JournalEnd::begin(&JournalHead::new(RUN, author, solution));
    journal.entries.iter().for_each(|entry| lines.extend(end.entry(entry)));
    let entries = end.entries();
    lines.extend(end.entry(&Entry { unix_ns: 0, error_ns: 0, said: JournalContent::Ended { entries } }));
    fs::write(folder.join("drill.jsonl"), lines).expect("writable");
}

/// One database with its active copy on h1, and a drill of a minute.
fn text(case: &Case) -> String {
    let Case { copies, dial, .. } = case;
    let events: String = case.events.iter().map(|event| format!("[[test.drill.event]]\n{event}\n")).collect();
    let drilled = Drilled {
        name: "planted",
        databases: 1,
        per_site: &format!("[{copies}]"),
        places: &format!("[[host]]\nname = \"h{{n}}\"\ncount = {copies}"),
        log_file_kib: case.log_file_kib,
        batches_per_s: 8,
        duration_s: 60,
        drill: &format!("mount_dial = \"{dial}\"\n{events}"),
    };
    drilled.text()
}

const SECOND_CUT_OFF: &str = "kind = \"host_cut_off\"\nhost = \"h2\"\nat_s = 10\nback_after_s = 12";
const FIRST_KILLED: &str = "kind = \"host_killed\"\nhost = \"h1\"\nat_s = 11\nback_after_s = 30";
const FIRST_CUT_OFF: &str = "kind = \"host_cut_off\"\nhost = \"h1\"\nat_s = 10\nback_after_s = 18";
/// The first partner of h1 is h3. When it fails, h2 takes its place; then h3 comes back alone.
const PARTNER_THEN_OTHERS_KILLED: [&str; 3] = [
    "kind = \"host_killed\"\nhost = \"h3\"\nat_s = 6\nback_after_s = 14",
    "kind = \"host_killed\"\nhost = \"h1\"\nat_s = 18\nback_after_s = 30",
    "kind = \"host_killed\"\nhost = \"h2\"\nat_s = 18\nback_after_s = 30",
];

/// Drill that exposes a planted bug of the protocol, and the promise that the bug breaks.
struct Case {
    bug: Bug,
    copies: u32,
    dial: &'static str,
    events: &'static [&'static str],
    /// Length of a lease, ms. For a bug of leases it is longer than the arbiter needs to activate another copy.
    lease_ms: u64,
    /// Size of a log file, KiB. A copy that is cut off starts at most two more log files before it waits, so large
    /// files let it go on until its lease ends.
    log_file_kib: u64,
    promise: &'static str,
}

const fn case(
    bug: Bug,
    copies: u32,
    dial: &'static str,
    events: &'static [&'static str],
    promise: &'static str,
) -> Case {
    Case { bug, copies, dial, events, lease_ms: 5_000, log_file_kib: 128, promise }
}

const LOSSLESS: &str = "lossless";
const LOSSY: &str = "good_availability";

const CASES: [Case; 4] = [
    Case {
        lease_ms: 15_000,
        log_file_kib: 1024,
        ..case(Bug::LeaseNotWaitedFor, 2, LOSSY, &[FIRST_CUT_OFF], "late")
    },
    case(Bug::AcknowledgedBeforePartner, 2, LOSSLESS, &[SECOND_CUT_OFF, FIRST_KILLED], "lost_commits"),
    case(Bug::MountWithoutProof, 3, LOSSLESS, &PARTNER_THEN_OTHERS_KILLED, "lost_commits"),
    case(Bug::DivergentPagesKept, 2, LOSSY, &[FIRST_CUT_OFF], "copies_equal"),
];

/// Exit status and output of the checker for the drill of a case.
fn checked(case: &Case, bug: Option<Bug>) -> (i32, String) {
    let text = text(case);
    let solution = Solution::parse(&text, "planted.toml").unwrap_or_else(|error| panic!("{error}"));
    let (mut hosts, mut databases) = (Vec::new(), Vec::new());
    let (drilled, _) = perform_changed(&solution, 1, None, |planned| {
        let site = Rc::get_mut(&mut planned.topology).expect("it is not shared yet");
        hosts.extend(site.hosts.iter().map(|host| host.name.clone()));
        for database in &mut site.databases {
            databases.extend(database.places.iter().map(|_| json!({ "database": database.name })));
            let mut spec = DatabaseSpec { planted: bug.into(), ..(*database.spec).clone() };
            spec.timing.lease_ms = case.lease_ms;
            database.spec = Rc::new(spec);
        }
    });
    assert!(drilled.simulated.outcome.error.is_none(), "{:?}", drilled.simulated.outcome.error);
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), ARBITER_NAME, &text, &drilled.arbiter);
    for (name, journal) in hosts.iter().zip(&drilled.hosts) {
        write(&folder.path().join("hosts").join(name), name, &text, journal);
    }
    let verdicts: Vec<Value> = drilled
        .simulated
        .outcome
        .verdicts
        .iter()
        .map(|verdict| {
            json!({
                "rule": verdict.rule, "host": verdict.origin.host, "database": verdict.origin.database,
                "outcome": verdict.outcome, "text": verdict.text,
            })
        })
        .collect();
    let is_failed = verdicts.iter().any(|verdict| verdict["outcome"] == "fail");
    let report = json!({
        "run": { "id": RUN, "solution_text": text, "ending": "completed" },
        "hosts": hosts.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        "databases": databases,
        "tests": [{ "kind": "drill", "verdicts": verdicts }],
        "run_verdicts": [],
        "verdict": { "grade": if is_failed { "failed" } else { "held" } },
    });
    fs::write(folder.path().join("report.json"), report.to_string()).expect("writable");
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_drill");
    let output = Command::new("python3").arg(tool).arg(folder.path()).output().expect("Python starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_checker_of_journals_finds_the_promise_that_each_bug_of_the_protocol_breaks_and_none_without_it() {
    if !testkit::has_python() {
        return;
    }
    let mut missed = Vec::new();
    for case in &CASES {
        assert_eq!(checked(case, None), (0, String::new()), "without {:?}", case.bug);
        let (status, said) = checked(case, Some(case.bug));
        let expected = format!("a promise is broken: {} of ", case.promise);
        if status != 1 || !said.contains(&expected) {
            missed.push(format!("{:?}: {said}", case.bug));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
