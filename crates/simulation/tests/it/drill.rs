//! Drills on small layouts: hosts and sites fail while users work, and what was promised to them is held
//! against what they find.

use std::ops::Range;

use crate::performed::{failed, measured, perform, perform_changed, perform_with};
use results::{IoClass, Measure, Row};
use simulation::{Assumptions, SimulationOutcome};
use solution::Solution;

/// Three databases of 64 MiB on storage without a model, and a drill of a minute.
fn solution(per_site: &str, sites: &str, drill: &str) -> Solution {
    parsed(&text(per_site, sites, drill))
}

fn parsed(text: &str) -> Solution {
    Solution::parse(text, "drill.toml").expect("it is valid")
}

fn text(per_site: &str, sites: &str, drill: &str) -> String {
    format!(
        r#"
[solution]
name = "drill"
schema = 1

[profile]
exchange = "2016"
mailboxes = 30
messages_per_day = 150
quota_mb = 64

[dag]
databases = 3
databases_per_volume = 3

[copies]
per_site = {per_site}
{sites}
[[volume]]
name = "V"
path = "/v"
capacity_gib = 100

[[instance]]
name = "DB{{n}}"
count = 3
volume = "V"

[sizing]
database_mib = 64

[engine]
cache_min_mib = 8
cache_max_mib = 16

[load]
batches_per_s = 12
copies = 1

[[test]]
kind = "drill"
duration_s = 60
{drill}"#
    )
}

/// Performs a drill that must keep every promise. Returns its outcome and its rows.
fn passed(solution: &Solution, seed: u64) -> (SimulationOutcome, Vec<Row>) {
    let (simulated, rows) = perform(solution, seed);
    assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
    assert!(failed(&simulated).is_empty(), "{:?}", failed(&simulated));
    (simulated, rows)
}

fn assert_longest_outage(simulated: &SimulationOutcome, wanted_s: Range<f64>) {
    let outages_s = measured(simulated, "drill_outage");
    let longest_s = outages_s.iter().flatten().fold(0.0f64, |a, b| a.max(*b));
    assert!(wanted_s.contains(&longest_s), "{outages_s:?}");
}

const ONE_SITE: &str = r#"
[[host]]
name = "h{n}"
count = 2
"#;

const TWO_SITES: &str = r#"
[[site]]
name = "A"
[[site]]
name = "B"
[[host]]
name = "a{n}"
count = 2
site = "A"
[[host]]
name = "b{n}"
count = 2
site = "B"
"#;

const KILLED: &str = r#"
[test.drill]
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 10
back_after_s = 20
"#;

#[test]
fn two_copies_survive_the_loss_of_a_host_without_loss() {
    let (simulated, rows) = passed(&solution("[2]", ONE_SITE, KILLED), 1);
    // Two copies, lossless: until the host is back no copy can acknowledge with the survivor. Each database has
    // a copy on the host.
    assert_longest_outage(&simulated, 20.0..45.0);
    assert_eq!(measured(&simulated, "drill_outage").len(), 3);
    let whole = measured(&simulated, "drill_full_redundancy");
    assert!(whole.iter().all(|s| s.is_some_and(|s| s >= 20.0)), "{whole:?}");
    assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.text == "host h1 is killed")));
}

#[test]
fn rotten_pages_of_an_active_copy_come_from_the_others_and_users_see_no_error() {
    let three = ONE_SITE.replace("count = 2", "count = 3");
    let (drilled, rows) = perform_changed(&solution("[3]", &three, KILLED), 9, Some(3), |_| {});
    let simulated = drilled.simulated;
    assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
    assert!(failed(&simulated).is_empty(), "{:?}", failed(&simulated));
    let repaired: f64 = measured(&simulated, "drill_repaired_pages").into_iter().flatten().sum();
    assert!(repaired >= 1.0);
    let said = |what| {
        let is_it = |row: &&Row| matches!(row, Row::Event(event) if event.text.contains(what));
        rows.iter().filter(is_it).count()
    };
    // The figure is that of the window, the events begin before it.
    assert!(said("was replaced by that of another copy") >= repaired as usize);
    assert!(said("failed its check") >= repaired as usize);
}

#[test]
fn a_lossy_dial_serves_users_while_the_host_is_away_and_loses_no_more_than_it_may() {
    let lossy = KILLED.replace("[test.drill]", "[test.drill]\nmount_dial = \"good_availability\"");
    let (simulated, _) = passed(&solution("[2]", ONE_SITE, &lossy), 2);
    assert_longest_outage(&simulated, 5.0..20.0);
}

#[test]
fn four_copies_survive_the_loss_of_a_site_and_then_of_a_host() {
    let lost = r#"
[test.drill]
partner = "other_site"
[[test.drill.event]]
kind = "site_lost"
site = "A"
at_s = 10
back_after_s = 25
[[test.drill.event]]
kind = "host_cut_off"
host = "b1"
at_s = 40
back_after_s = 10
"#;
    let (simulated, _) = passed(&solution("[2, 2]", TWO_SITES, lost), 3);
    assert_eq!(measured(&simulated, "drill_copies_equal").len(), 3);
}

#[test]
fn a_host_that_is_cut_off_for_less_than_a_lease_serves_its_users_again() {
    let cut_off = r#"
[test.drill]
mount_dial = "best_availability"
[[test.drill.event]]
kind = "host_cut_off"
host = "h1"
at_s = 10
back_after_s = 2
"#;
    let (simulated, _) = passed(&solution("[2]", ONE_SITE, cut_off), 6);
    assert_longest_outage(&simulated, 2.0..5.0);
}

#[test]
fn what_is_due_when_the_window_ends_is_carried_out() {
    let ends_last = KILLED.replace("back_after_s = 20", "back_after_s = 50");
    let lossy = ends_last.replace("[test.drill]", "[test.drill]\nmount_dial = \"good_availability\"");
    let (_, rows) = passed(&solution("[2]", ONE_SITE, &lossy), 8);
    let is_event = |row: &Row, text: &str| matches!(row, Row::Event(event) if event.text == text);
    assert!(rows.iter().any(|row| is_event(row, "over: host h1 is killed")));
    let late = lossy.replace("at_s = 10", "at_s = 59.5").replace("back_after_s = 50", "");
    let (simulated, rows) = perform(&solution("[2]", ONE_SITE, &late), 8);
    assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
    assert!(rows.iter().any(|row| is_event(row, "host h1 is killed")));
}

#[test]
fn a_failure_behind_the_planned_end_is_judged_when_the_window_has_ended() {
    let last = KILLED.replace("at_s = 10", "at_s = 59.4").replace("back_after_s = 20", "");
    let fraction = text("[2]", ONE_SITE, &last).replace("duration_s = 60", "duration_s = 59.5");
    // A host that is back took a moment of the second before; the other one fails in the last.
    let other = "[[test.drill.event]]\nkind = \"host_killed\"\nhost = \"h2\"\nat_s = 60\n";
    let after_another = text("[2]", ONE_SITE, &format!("{KILLED}{other}"));
    for text in [fraction, after_another] {
        let (simulated, _) = perform(&parsed(&text), 8);
        assert!(simulated.outcome.error.is_none(), "{:?}", simulated.outcome.error);
        assert!(failed(&simulated).iter().any(|verdict| verdict.rule == "drill_dismounted"));
        assert_longest_outage(&simulated, 0.0..60.0);
    }
}

#[test]
fn a_drill_of_databases_with_meta_caches_uses_none_and_says_so() {
    let cache = "role = \"meta_cache\"\npath = \"/f\"\n[engine]\nmeta_cache_mib = 8";
    let text = text("[2]", ONE_SITE, KILLED).replace("\"2016\"", "\"se\"");
    let solution = parsed(&text.replace("[engine]", &format!("[[volume]]\nname = \"F\"\n{cache}")));
    let (_, rows) = passed(&solution, 1);
    let parameters = rows.iter().filter_map(|row| match row {
        Row::Test(test) => test.parameters.iter().find(|parameter| parameter.name == "MetaCaches"),
        _ => None,
    });
    assert!(parameters.clone().count() > 0 && parameters.clone().all(|one| one.value.starts_with("none: ")));
    let is_used = |row: &Row| matches!(row, Row::Sample(sample) if sample.measure == Measure::Io(IoClass::MetaCacheRead));
    assert!(!rows.iter().any(is_used));
}

#[test]
fn equal_seeds_give_equal_drills() {
    let solution = solution("[2]", ONE_SITE, KILLED);
    let (first, rows) = perform(&solution, 5);
    let (second, again) = perform(&solution, 5);
    assert_eq!((first.trace_hash, rows), (second.trace_hash, again));
}

/// The trace hash covers every read, write, message and timer of a drill. If a change alters it on purpose, change
/// this number in the same commit and say why.
#[test]
fn a_refactoring_keeps_the_trace_of_a_drill() {
    let (simulated, _) = perform(&solution("[2]", ONE_SITE, KILLED), 1);
    assert_eq!(format!("{:016x}", simulated.trace_hash), "d7876c841eda7eea");
}

#[test]
fn operations_of_a_drill_wait_for_the_processor_of_their_host() {
    let host = "[[enclosure]]\nname = \"E\"\nbays = 24\n[[disk]]\nname = \"SSDSC2BX800G4\"\ncapacity_gb = 800\n\
                [array]\nscope = \"host\"\ncontroller = \"raid-adapter-2017\"\nlink = \"sas-6g-x4\"\nlinks_per_host = 1\n[[host]]\nname = \"h{n}\"\ncount = 2\nenclosure = \"E\"\n";
    let on_flash = "disk = \"SSDSC2BX800G4\"\ndisks = 4\nraid = \"raid10\"";
    let text = text("[2]", host, KILLED).replace("capacity_gib = 100", on_flash);
    let batches = |assumptions: &Assumptions| {
        let (_, rows) = perform_with(&parsed(&text), assumptions, 1);
        let counted = rows.iter().map(|row| match row {
            Row::Sample(one) if one.origin.instance.is_none() && one.measure == Measure::Batch => {
                one.totals.count
            }
            _ => 0,
        });
        counted.sum::<u64>()
    };
    let fast = Assumptions::shipped();
    let slow = "[host.default]\noperation_us = { value = 50000, source = \"assumption: a slow one\" }";
    let slow = Assumptions::shipped().with(slow).expect("they are valid");
    let (fast, slow) = (batches(&fast), batches(&slow));
    // 16 operations of 50 ms each.
    assert!(fast > 600 && slow < 2 * 65 * 1000 / 800, "{fast}, {slow}");
}

#[test]
fn a_volume_that_fails_is_made_anew_from_the_other_copy() {
    let failed_volume = r#"
[test.drill]
mount_dial = "best_availability"
[[test.drill.event]]
kind = "volume_failed"
host = "h1"
volume = "V"
at_s = 10
back_after_s = 15
"#;
    let (simulated, rows) = passed(&solution("[2]", ONE_SITE, failed_volume), 4);
    let whole = measured(&simulated, "drill_full_redundancy");
    assert!(whole.iter().all(|s| s.is_some_and(|s| s >= 15.0)), "{whole:?}");
    let seeded = |row: &Row| matches!(row, Row::Event(event) if event.text.contains("this copy is seeded"));
    assert_eq!(rows.iter().filter(|row| seeded(row)).count(), 3, "each copy on the volume");
}

#[test]
fn a_copy_is_made_anew_from_one_that_has_just_become_active_and_has_no_old_log() {
    let failed_volume = r#"
[test.drill]
mount_dial = "best_availability"
[[test.drill.event]]
kind = "volume_failed"
host = "h1"
volume = "V"
at_s = 50
back_after_s = 2
"#;
    // Enough changes for the first logs to go.
    let busy = text("[2]", ONE_SITE, failed_volume).replace("batches_per_s = 12", "batches_per_s = 60");
    passed(&parsed(&busy), 7);
}

/// The engine removes deleted rows after the last commit, so that no log waits for users. The comparison of copies
/// must include this work.
#[test]
fn copies_are_compared_behind_what_the_active_one_has_done_by_itself() {
    for seed in 1..=6 {
        let few = text("[2]", ONE_SITE, KILLED).replace("batches_per_s = 12", "batches_per_s = 0.6");
        let (simulated, _) = perform(&parsed(&few), seed);
        assert!(failed(&simulated).is_empty(), "seed {seed}: {:?}", failed(&simulated));
    }
}
