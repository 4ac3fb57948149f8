//! How often `compare` calls simulated runs different that differ only by their seed.
//!
//! Six pairs; `PROOFLOAD_PAIRS=200` for as many as docs/compare.md gives its rates for.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests run the binary")]

use std::path::Path;
use std::process::Command;

use review::compare::{Subject, compare};

const SOLUTION: &str = r#"
[solution]
name = "Pairs"
schema = 1

[[enclosure]]
name = "E"
bays = 60

[[host]]
name = "h"
enclosure = "E"

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000

[[volume]]
name = "LUN"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
path = "/lun"

[array]
scope = "shared"
controller = "sas-array-2013"
controllers = 2
cache_mib = 64
stripe_element_kib = 512
link = "sas-6g-x4"
links_per_host = 2

[[instance]]
name = "DB{n}"
count = 2
volume = "LUN"

[sizing]
database_mib = 200000

[load]
sessions = 4

[engine]
cache_min_mib = 4
cache_max_mib = 8
flush_start_percent = 4
flush_stop_percent = 8

[[test]]
kind = "performance"
duration_s = 60
warmup_limit_s = 20
"#;

fn simulated(place: &Path, seed: u64) -> Subject {
    let runs = place.join(format!("runs{seed}"));
    let output = Command::new(env!("CARGO_BIN_EXE_proofload"))
        .args(["simulate", &place.join("pairs.toml").display().to_string()])
        .args(["--seed", &seed.to_string(), "--runs", &runs.display().to_string()])
        .output()
        .expect("the binary runs");
    let folder = std::fs::read_dir(&runs).ok().and_then(|mut runs| runs.next());
    let folder = folder.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let source = review::open(&folder.expect("readable").path()).expect("evidence");
    Subject::new(&format!("seed {seed}"), source).expect("a subject")
}

#[test]
fn compare_calls_simulated_runs_of_other_seeds_equal() {
    let pairs: u64 =
        std::env::var("PROOFLOAD_PAIRS").map_or(6, |text| text.parse().expect("a number of pairs"));
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("pairs.toml"), SOLUTION).expect("writable");
    let (mut wrong, mut all, mut alarms, mut alarms_at_all) = (0, 0, 0, 0);
    for n in 0..pairs {
        let comparison = compare(&[simulated(place.path(), 2 * n + 1), simulated(place.path(), 2 * n + 2)]);
        assert!(comparison.runs[1].incomparable.is_empty(), "{:?}", comparison.runs[1]);
        let rows = comparison.tests.iter().flat_map(|test| &test.rows).filter(|row| row.better.is_some());
        let intervals: Vec<_> = rows.filter_map(|row| row.cells[1].interval_pct).collect();
        assert_eq!(intervals.len(), 5, "every judged figure of the load has an interval");
        all += intervals.len();
        wrong += intervals.iter().filter(|(low, high)| *low > 0.0 || *high < 0.0).count();
        alarms += usize::from(!comparison.regressions(5.0).is_empty());
        alarms_at_all += usize::from(!comparison.regressions(0.0).is_empty());
    }
    println!(
        "simulated, {pairs} pairs: {wrong} of {all} intervals exclude zero; --fail-above 5: {alarms} false alarms, \
         --fail-above 0: {alarms_at_all}"
    );
    // Of few pairs one may be unlucky.
    let most = |of: usize| (of / 20).max(1);
    assert!(wrong <= most(all) && alarms <= most(pairs as usize), "{wrong} of {all}, {alarms} false alarms");
}
