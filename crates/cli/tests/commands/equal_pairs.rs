//! How often `compare` calls runs different that are equal: simulated ones with another seed each, and real
//! ones that share a disk and a time.
//!
//! Six simulated pairs; `PROOFLOAD_PAIRS=200` for as many as docs/compare.md gives its rates for.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests run the binary")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use review::compare::{Comparison, Subject, compare};

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

/// Two databases of 48 MiB under a steady load that leaves the disk to others.
const REAL: &str = r#"
[solution]
name = "Real pairs"
schema = 1

[[host]]
name = "h"

[[volume]]
name = "V"
path = "data"

[[instance]]
name = "DB{n}"
count = 2
volume = "V"

[sizing]
database_mib = 48

[load]
batches_per_s = 4

[engine]
cache_min_mib = 2
cache_max_mib = 4
flush_start_percent = 4
flush_stop_percent = 8

[[test]]
kind = "init"

[[test]]
kind = "performance"
duration_s = 20
warmup_limit_s = 2
"#;

/// Number of real runs at the same time. Neighbours form a pair, so other work of the machine affects both alike.
const AT_ONCE: u64 = 16;

fn pairs(few: u64) -> u64 {
    std::env::var("PROOFLOAD_PAIRS").map_or(few, |text| text.parse().expect("a number of pairs"))
}

fn started(arguments: &[&str], runs: &Path, seed: u64) -> Child {
    let place = runs.parent().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_proofload"))
        .current_dir(place)
        .args(arguments)
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs")
}

/// The run in a folder of runs.
fn subject(runs: &Path) -> Subject {
    let folder = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next());
    let folder = folder.unwrap_or_else(|| panic!("no run in {}", runs.display())).expect("readable");
    let source = review::open(&folder.path()).expect("evidence");
    assert_eq!(source.lint(), [], "{}", runs.display());
    Subject::new(&runs.display().to_string(), source).expect("a subject")
}

fn simulated(place: &Path, seed: u64) -> Subject {
    let runs = place.join(format!("runs{seed}"));
    let mut program = started(&["simulate", "pairs.toml", "--out", &runs.to_string_lossy()], &runs, seed);
    program.wait().expect("it ends");
    subject(&runs)
}

/// Counts of what comparisons of equal runs reported.
#[derive(Default)]
struct Called {
    pairs: usize,
    excluding_zero: usize,
    intervals: usize,
    alarms: usize,
    alarms_at_all: usize,
}

impl Called {
    fn add(&mut self, comparison: &Comparison) {
        assert!(comparison.runs[1].incomparable.is_empty(), "{:?}", comparison.runs[1]);
        let rows = comparison.tests.iter().flat_map(|test| &test.rows).filter(|row| row.better.is_some());
        let intervals: Vec<_> = rows.filter_map(|row| row.cells[1].interval_pct).collect();
        assert_eq!(intervals.len(), 5, "every judged figure of the load has an interval");
        self.pairs += 1;
        self.intervals += intervals.len();
        self.excluding_zero += intervals.iter().filter(|(low, high)| *low > 0.0 || *high < 0.0).count();
        self.alarms += usize::from(!comparison.regressions(5.0).is_empty());
        self.alarms_at_all += usize::from(!comparison.regressions(0.0).is_empty());
    }

    fn print(&self, what: &str) {
        let Called { pairs, excluding_zero, intervals, alarms, alarms_at_all } = self;
        println!(
            "{what}, {pairs} pairs: {excluding_zero} of {intervals} intervals exclude zero; --fail-above 5: {alarms} \
             false alarms, --fail-above 0: {alarms_at_all}"
        );
    }

    /// Asserts that at most 5 % were called different; with few pairs, one more may be.
    fn assert_equal(&self) {
        let most = |of: usize| (of / 20).max(1);
        let alarms = self.alarms.max(self.alarms_at_all);
        assert!(self.excluding_zero <= most(self.intervals) && alarms <= most(self.pairs));
    }
}

#[test]
fn compare_calls_simulated_runs_of_other_seeds_equal() {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("pairs.toml"), SOLUTION).expect("writable");
    let mut called = Called::default();
    for n in 0..pairs(6) {
        let pair = [simulated(place.path(), 2 * n + 1), simulated(place.path(), 2 * n + 2)];
        called.add(&compare(&pair));
    }
    called.print("simulated");
    called.assert_equal();
}

#[test]
#[ignore = "what it measures is this machine; `make soak` runs it"]
fn compare_calls_real_runs_equal_that_share_a_disk_and_a_time() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on a disk");
    let wanted = pairs(1);
    let mut called = Called::default();
    for first in (0..2 * wanted).step_by(AT_ONCE as usize) {
        let numbers = first..(first + AT_ONCE).min(2 * wanted);
        let folders: Vec<PathBuf> = numbers.map(|n| place.path().join(format!("host{n}"))).collect();
        let programs: Vec<Child> = folders.iter().map(|folder| real(folder)).collect();
        for mut program in programs {
            program.wait().expect("it ends");
        }
        let subjects: Vec<Subject> = folders.iter().map(|folder| subject(&folder.join("runs"))).collect();
        subjects.chunks(2).for_each(|pair| called.add(&compare(pair)));
        folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).expect("removable"));
    }
    called.print("real");
    if called.pairs >= 40 {
        called.assert_equal();
    }
}

/// A real run in a folder of its own.
fn real(folder: &Path) -> Child {
    std::fs::create_dir(folder).expect("a folder");
    std::fs::write(folder.join("pairs.toml"), REAL).expect("writable");
    started(&["run", "pairs.toml"], &folder.join("runs"), 1)
}
