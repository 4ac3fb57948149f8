//! `capacity`: the answer stands up to the simulation that it names, and says what binds.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::claims::HONEST;

use crate::program::{folder_with, output};

/// Two disks under 2,000 mailboxes, which bind before the server does, and a performance test of one minute.
fn small() -> String {
    let changes = [
        ("mailboxes = 400", "mailboxes = 2000"),
        ("database_mib = 163840", "database_mib = 8192"),
        ("quota_mb = 512", "quota_mb = 100"),
        ("memory_gib = 32", "memory_gib = 512"),
        ("specint_rate = 300", "specint_rate = 3000"),
    ];
    let text = changes.iter().fold(HONEST.to_owned(), |text, (from, to)| text.replace(from, to));
    format!("{text}\n[[test]]\nkind = \"performance\"\nduration_s = 60\nwarmup_limit_s = 20\n")
}

fn asked(folder: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let (status, stdout, stderr) = output(folder, &[&["capacity", "s.toml", "--json"], arguments].concat());
    (
        status,
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}")),
        stderr,
    )
}

#[test]
fn the_solution_that_is_written_for_the_answer_holds_when_it_is_simulated_and_fails_a_little_above() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    let (status, answer, _) = asked(at, &["--write", "carried.toml"]);
    let found = &answer["variants"][0]["simulated"];
    let carried = found["mailboxes"].as_u64().expect("some are carried");
    assert_eq!((found["found"].as_str(), status), (Some("carried"), i32::from(carried < 2_000)), "{found:#}");
    let binds = &found["binds"];
    assert!(
        binds["limit"].is_string() && binds["place"].as_str().is_some_and(|at| at.contains("mbx1")),
        "{binds:#}"
    );
    assert!(binds["busiest"][0].is_string() && found["next"]["limit"].is_string(), "{found:#}");
    let probes = found["probes"].as_array().expect("a list");
    assert!(probes.len() <= 12, "{probes:#?}");
    let simulate = |file: &str| {
        output(at, &["simulate", file, "--tests", "performance", "--until", "2", "--servers", "mbx1"])
    };
    let (status, stdout, stderr) = simulate("carried.toml");
    assert_eq!(status, 0, "{stdout}{stderr}");
    let broken = probes.iter().filter(|probe| probe["holds"] == false);
    let above = broken.map(|probe| probe["mailboxes"].as_u64().expect("a number")).min().expect("one breaks");
    assert!(above as f64 <= carried as f64 * 1.021, "{carried} holds, {above} does not");
    // As the answer prints it.
    let (_, text, _) = output(at, &["capacity", "s.toml"]);
    for line in ["by arithmetic", "simulated", "carries", "binds first", "binds next"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn more_than_is_carried_is_exit_status_1_and_equal_seeds_give_equal_answers() {
    let folder = folder_with("s.toml", &small().replace("mailboxes = 2000", "mailboxes = 4000"));
    let (status, first, _) = asked(folder.path(), &[]);
    assert_eq!(status, 1, "{first:#}");
    let (_, second, _) = asked(folder.path(), &[]);
    assert_eq!(first, second);
}

/// Answers the shares of a list of cases, one after the other.
fn answer_shares(folder: &Path, options: &[&str], shares: &[&str]) {
    for share in shares {
        let arguments = [&["capacity", "s.toml"], options, &["--case", share, "--out", "answers"]].concat();
        let (status, stdout, stderr) = output(folder, &arguments);
        assert_eq!((status, &*stdout), (0, ""), "{share}: {stderr}");
    }
}

#[test]
fn simulated_cases_that_are_answered_in_shares_and_merged_print_what_one_run_prints() {
    let folder = folder_with("s.toml", &small());
    let options = ["--vary", "profile.messages_per_day=300", "--until", "10"];
    answer_shares(folder.path(), &options, &["2/2", "1/2"]);
    let asked = |more: &[&str]| {
        output(folder.path(), &[&["capacity", "s.toml", "--json"], &options[..], more].concat())
    };
    let (status, whole, _) = asked(&[]);
    let (merged_status, merged, stderr) = asked(&["--merge", "answers"]);
    assert_eq!((merged_status, merged), (status, whole), "{stderr}");
}

/// Five cases of the plan.
const CASES: [&str; 5] =
    ["--plan-only", "--vary", "copies=[1],[2]", "--vary", "profile.messages_per_day=100,300"];

#[test]
fn a_lost_case_is_named_with_the_command_that_answers_it_alone() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    let (_, whole, _) = output(at, &[&["capacity", "s.toml"], &CASES[..]].concat());
    let merge = || output(at, &[&["capacity", "s.toml"], &CASES[..], &["--merge", "answers"]].concat());
    answer_shares(at, &CASES, &["1/3", "0/3"]);
    let (status, stdout, stderr) = merge();
    assert_eq!((status, &*stdout), (3, ""), "{stderr}");
    assert!(stderr.contains("2 of 5 cases have no answer"), "{stderr}");
    let again: Vec<&str> =
        stderr.lines().map(str::trim).filter(|line| line.starts_with("proofload ")).collect();
    assert_eq!(again.len(), 2, "{stderr}");
    for (case, line) in [2, 5].into_iter().zip(again) {
        let program =
            Path::new(env!("CARGO_BIN_EXE_proofload")).parent().expect("it is in a folder").display();
        let done = Command::new("bash")
            .args(["-c", &format!("PATH={program}:$PATH; {line}")])
            .current_dir(at)
            .output()
            .expect("bash starts");
        assert!(
            done.status.success() && at.join(format!("answers/case-{case}.json")).exists(),
            "{line}: {done:?}"
        );
    }
    let before = std::fs::read(at.join("answers/case-1.json")).expect("it is there");
    answer_shares(at, &CASES, &["1/1"]);
    assert_eq!(
        std::fs::read(at.join("answers/case-1.json")).expect("it is there"),
        before,
        "not answered twice"
    );
    let (status, stdout, stderr) = merge();
    assert_eq!(stdout, whole, "{stderr}");
    assert!(matches!(status, 0 | 1), "{stderr}");
}

#[test]
fn answers_to_another_solution_or_other_options_or_of_another_version_are_refused_in_one_message() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    answer_shares(at, &CASES, &["1/1"]);
    let merge = |more: &[&str]| {
        let (status, stdout, stderr) =
            output(at, &[&["capacity", "s.toml"], &CASES[..], &["--merge", "answers"], more].concat());
        assert_eq!((status, &*stdout), (2, ""), "{more:?}: {stderr}");
        stderr
    };
    let changed =
        "the case list has changed: case 1 was answered for another solution, or with other options";
    assert!(merge(&["--seed", "2"]).contains(changed));
    std::fs::write(at.join("s.toml"), small().replace("mailboxes = 2000", "mailboxes = 2001"))
        .expect("writable");
    assert!(merge(&[]).contains(changed));
    let (status, _, stderr) =
        output(at, &[&["capacity", "s.toml"], &CASES[..], &["--case", "1/5", "--out", "answers"]].concat());
    assert!(status == 2 && stderr.contains(changed), "{stderr}");
    std::fs::write(at.join("s.toml"), small()).expect("writable");
    let path = at.join("answers/case-3.json");
    let answer = std::fs::read_to_string(&path).expect("it is there");
    let mut other: Value = serde_json::from_str(&answer).expect("JSON");
    other["program"] = "0.1.0".into();
    std::fs::write(&path, other.to_string()).expect("writable");
    assert!(merge(&[]).contains("case 3 was answered by 0.1.0, and this is another version"));
    std::fs::write(&path, &answer[..answer.len() / 2]).expect("writable");
    assert!(merge(&[]).contains("case-3.json is no answer of a case"));
}

#[test]
fn a_folder_that_nothing_would_write_is_refused() {
    let folder = folder_with("s.toml", &small());
    let (status, stdout, stderr) = output(folder.path(), &["capacity", "s.toml", "--out", "answers"]);
    assert_eq!((status, &*stdout), (2, ""), "{stderr}");
    assert!(stderr.contains("--run") && stderr.contains("--case"), "{stderr}");
}

#[test]
fn a_limit_of_the_plan_ends_the_range_and_is_named() {
    // So large mailboxes fill the disks before they load them.
    let folder = folder_with("s.toml", &small().replace("quota_mb = 100", "quota_mb = 5000"));
    let (_, answer, _) = asked(folder.path(), &[]);
    let variant = &answer["variants"][0];
    let (found, limits) = (&variant["simulated"], variant["plan_limits"].as_array().expect("a list"));
    let firm = limits.iter().find(|limit| limit["simulated"] == false).expect("space is limited");
    assert_eq!(found["found"], "carried_by_plan", "{answer:#}");
    assert_eq!((&found["mailboxes"], &found["binds"]["limit"]), (&firm["mailboxes"], &firm["limit"]));
    let mailboxes = |limit: &Value| limit["mailboxes"].as_u64().expect("the plan knows it");
    assert!(mailboxes(&found["next"]) > mailboxes(&found["binds"]), "{found:#}");
}

#[test]
fn a_prediction_by_a_model_that_no_measurement_has_checked_says_so_wherever_it_is_printed() {
    let links = "links_per_host = 2\n";
    let copy = "\n[array.remote_copy]\ndistance_km = 10.0\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"\n";
    let folder = folder_with("s.toml", &small().replace(links, &format!("{links}{copy}")));
    let at = folder.path();
    let doubt = "no measurement has checked this model: remote copy";
    let (_, console, stderr) = output(at, &["simulate", "s.toml"]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&console).contains(doubt), "{console}{stderr}");
    let run = std::fs::read_dir(at.join("runs")).expect("runs").flatten().next().expect("a run").path();
    for name in ["report.html", "report.json"] {
        let text = std::fs::read_to_string(run.join(name)).expect("it is written");
        assert!(text.contains(doubt), "{name}");
    }
    let (_, answer, _) = asked(at, &[]);
    let doubts = answer["variants"][0]["simulated"]["doubts"].as_array().expect("a list");
    assert!(doubts.iter().any(|one| one == doubt), "{answer:#}");
    let (_, text, _) = output(at, &["capacity", "s.toml"]);
    assert!(text.contains(&format!("not backed: {doubt}")), "{text}");
}
