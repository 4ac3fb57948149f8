//! The matrix of claims, simulated: a run judges every harmful change that the claim itself does not show.
//!
//! `PROOFLOAD_MATRIX=1` simulates the whole programme for every key of the matrix: a change that leaves the run
//! qualified is either in its sentence, or on the list of harmless keys. `PROOFLOAD_MATRIX=array.` takes the keys that
//! begin so.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::collections::BTreeSet;

use crate::program::{folder_with, output};
use crate::simulated_grades::{OWN_RULES, campaign};
use testkit::claims::Seen::{Claim, Harmless, Refused, Run};
use testkit::claims::{HONEST, ROWS};

/// Rows that only real storage can judge.
const REAL_ONLY: [&str; 1] = ["volume.0.path"];

/// Rows whose change makes another claim, but no run begins: of a host without databases, of a read cache that is no
/// flash.
const REFUSED_BY_A_RUN: [&str; 2] = ["instance.0.host", "array.read_cache"];

const TESTS: &str = "
[[test]]
kind = \"performance\"
duration_s = 300

[[test]]
kind = \"log_generation\"
logs = 10

[[test]]
kind = \"soft_recovery\"

[qualification]
performance_window_s = 300
database_size_percent = 1
recovered_logs = 10
";

/// Result of a simulation: its grade, its headline with the first reason, and the names of unmet conditions and
/// broken rules.
#[derive(Debug, Clone, PartialEq)]
struct Judged {
    grade: String,
    says: String,
    lacks: BTreeSet<String>,
}

/// Path of a row in a solution with several tests: the number of logs belongs to the test that generates them.
fn path_in(text: &str, path: &str) -> String {
    let generation = text.split("[[test]]").skip(1).position(|test| test.contains("\"log_generation\""));
    match path {
        "test.0.logs" => format!("test.{}.logs", generation.expect("a test generates logs")),
        path => path.to_owned(),
    }
}

/// Simulates the solution with one changed value; `None` if the program refuses the change.
fn judged(text: &str, change: Option<(&str, &str)>) -> Option<Judged> {
    let folder = folder_with("s.toml", text);
    let setting = change.map(|(path, value)| format!("{path}={value}"));
    let mut arguments = vec!["simulate", "s.toml", "--json", "--require", "qualified"];
    arguments.extend(setting.iter().flat_map(|setting| ["--set", setting.as_str()]));
    let (status, stdout, stderr) = output(folder.path(), &arguments);
    if status == 2 {
        return None;
    }
    let report: serde_json::Value =
        serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{change:?}: {stdout}{stderr}"));
    let rows = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let verdict = &report["verdict"];
    let missing = rows(&verdict["conditions"]).into_iter().filter(|row| row["met"] == false);
    let verdicts = rows(&report["tests"]).into_iter().flat_map(|test| rows(&test["verdicts"]));
    let broken = verdicts.filter(|row| row["outcome"] == "fail" || row["outcome"] == "unproved");
    let lacks = missing.map(|row| word(&row["name"])).chain(broken.map(|row| word(&row["rule"])));
    Some(Judged {
        grade: word(&verdict["grade"]),
        says: word(&verdict["headline"]) + &word(&verdict["reasons"][0]),
        lacks: lacks.collect(),
    })
}

#[test]
fn each_change_that_a_run_has_to_judge_is_judged_by_it() {
    let text = HONEST.replace("database_mib = 163840", "database_mib = 16384") + TESTS;
    let honest = judged(&text, None).expect("the honest solution is simulated");
    let mut wrong = Vec::new();
    for (path, value, seen) in ROWS {
        let Run(name) = seen else { continue };
        if REAL_ONLY.contains(path) {
            continue;
        }
        let now = judged(&text, Some((&path_in(&text, path), value)));
        let lacks = now.map(|now| now.lacks).unwrap_or_default();
        if honest.lacks.contains(*name) || !lacks.contains(*name) {
            let more: Vec<&String> = lacks.difference(&honest.lacks).collect();
            wrong.push(format!("{path} = {value}: {name} is not missing, but {more:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A rule of its own, which lint (`output` runs it) takes for one.
    let less = judged(&text, Some(("profile.test_iops_per_mailbox", "0.06"))).expect("it is simulated");
    assert!(!less.lacks.contains("iops_per_mailbox_percent"), "{less:?}");
}

#[test]
fn every_change_of_the_matrix_is_in_the_sentence_or_costs_the_qualification_or_is_harmless() {
    let Ok(asked) = std::env::var("PROOFLOAD_MATRIX") else { return };
    let is_asked = |path: &str| asked == "1" || path.starts_with(&asked);
    let windows = "performance_window_s = 900\nstress_window_s = 1800\n";
    let text = format!("{}{OWN_RULES}{windows}", campaign(900, 1_800));
    let honest = judged(&text, None).expect("the honest solution is simulated");
    assert_eq!(honest.grade, "qualified", "{honest:?}");
    let mut wrong = Vec::new();
    for (path, value, seen) in ROWS.iter().filter(|(path, ..)| is_asked(path) && !REAL_ONLY.contains(path)) {
        let Some(now) = judged(&text, Some((&path_in(&text, path), value))) else {
            if !matches!(seen, Refused | Harmless(_)) && !REFUSED_BY_A_RUN.contains(path) {
                wrong.push(format!("{path} = {value}: refused"));
            }
            continue;
        };
        let is_qualified = now.grade == "qualified";
        let holds = match seen {
            Claim => !is_qualified || now.says != honest.says,
            Run(_) => !is_qualified,
            Harmless(_) => true,
            Refused => false,
        };
        if !holds {
            wrong.push(format!("{path} = {value}: {seen:?}, and the run is {}: {}", now.grade, now.says));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
