//! Rules of the protocol of the copies, switched off one at a time: `tools/check_drill`, which knows only what users were promised,
//! has to find a broken promise in the journals of a drill. Whether the judge of Proofload sees it does not matter here.
//!
//! PROOFLOAD_SEEDS sets how many drills are performed with each bug at most (12); PROOFLOAD_BUG picks one bug.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use campaign::drill::{ARBITER_NAME, Entry, JournalEnd, JournalHead, ReadJournal, Said};
use copies::Bug;
use serde_json::{Value, json};

use crate::drawn::draw;
use crate::performed::perform_changed;

const RUN: &str = "run";

/// Writes a journal as its author does on a real host.
fn write(folder: &Path, author: &str, solution: &str, journal: &ReadJournal) {
    fs::create_dir_all(folder).expect("writable");
    let (mut end, mut lines) = JournalEnd::begin(&JournalHead::new(RUN, author, solution));
    journal.entries.iter().for_each(|entry| lines.extend(end.entry(entry)));
    let entries = end.entries();
    lines.extend(end.entry(&Entry { unix_ns: 0, error_ns: 0, said: Said::Ended { entries } }));
    fs::write(folder.join("drill.jsonl"), lines).expect("writable");
}

/// What the checker says of the drill of a seed in which a rule of the protocol is switched off, and its exit status.
fn checked(seed: u64, bug: Option<Bug>) -> (i32, String) {
    let drawn = draw(seed);
    let (mut hosts, mut databases) = (Vec::new(), Vec::new());
    let (drilled, _) = perform_changed(&drawn.solution, seed, |planned| {
        let site = Rc::get_mut(&mut planned.site).expect("it is not shared yet");
        hosts.extend(site.hosts.iter().map(|host| host.name.clone()));
        for database in &mut site.databases {
            databases.extend(database.places.iter().map(|_| json!({ "database": database.name })));
            database.spec = Rc::new(copies::DatabaseSpec { planted: bug.into(), ..(*database.spec).clone() });
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), ARBITER_NAME, &drawn.text, &drilled.arbiter);
    for (name, journal) in hosts.iter().zip(&drilled.hosts) {
        write(&folder.path().join("hosts").join(name), name, &drawn.text, journal);
    }
    let verdicts: Vec<Value> = drilled
        .rehearsed
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
        "run": { "id": RUN, "solution_text": drawn.text, "ending": "completed" },
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

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
fn the_checker_of_journals_finds_bugs_of_the_protocol_in_performed_drills() {
    if !testkit::has_python() {
        return;
    }
    let seeds = variable("PROOFLOAD_SEEDS").and_then(|text| text.parse().ok()).unwrap_or(12);
    let mut found = Vec::new();
    for bug in Bug::ALL
        .into_iter()
        .filter(|bug| variable("PROOFLOAD_BUG").is_none_or(|name| format!("{bug:?}") == name))
    {
        let seen = (1..=seeds).find_map(|seed| {
            let (_, said) = checked(seed, Some(bug));
            let line = said.lines().find(|line| line.contains("a promise is broken")).map(str::to_owned);
            line.map(|line| (seed, line))
        });
        eprintln!("{bug:?}: {seen:?}");
        found.extend(seen.map(|_| bug));
    }
    eprintln!("{} of {}: {found:?}", found.len(), Bug::ALL.len());
}

#[test]
fn the_checker_of_journals_finds_nothing_in_a_drill_of_the_protocol_as_it_is() {
    if !testkit::has_python() {
        return;
    }
    for seed in 1..=3 {
        assert_eq!(checked(seed, None), (0, String::new()), "seed {seed}");
    }
}
