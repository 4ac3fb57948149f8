//! `capacity`: the answer stands up to the simulation that it names, and says what binds.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

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

fn asked(folder: &std::path::Path, arguments: &[&str]) -> (i32, Value, String) {
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
    assert!(found["next"]["used_percent"].as_f64().is_some_and(|used| used < 100.0), "{found:#}");
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
