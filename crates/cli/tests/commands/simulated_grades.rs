//! The grade of simulated campaigns: an honest one is qualified, and no worthless one is.
//!
//! The honest campaign has shortened windows here, by rules of its own; `PROOFLOAD_FULL_LENGTH=1` simulates it at the
//! published lengths, 2 h and 24 h.
#![allow(clippy::disallowed_methods, reason = "a test that runs the program on real files")]

use crate::program::{folder_with, lint_newest_run, proofload};
use tempfile::TempDir;
use testkit::claims::HONEST;

const TESTS: &str = r#"
[[test]]
kind = "performance"

[[test]]
kind = "database_checksum"

[[test]]
kind = "stress"

[[test]]
kind = "database_checksum"

[[test]]
kind = "backup"

[[test]]
kind = "log_generation"
logs = 10

[[test]]
kind = "log_checksum"

[[test]]
kind = "soft_recovery"
"#;

/// Rules for small databases and few logs.
pub const OWN_RULES: &str =
    "[qualification]\ndatabase_size_percent = 1\nverified_logs = 1\nrecovered_logs = 10\n";

/// Campaign with windows of these lengths.
pub fn campaign(performance_s: u32, stress_s: u32) -> String {
    let tests = TESTS
        .replace("kind = \"performance\"", &format!("kind = \"performance\"\nduration_s = {performance_s}"))
        .replace("kind = \"stress\"", &format!("kind = \"stress\"\nduration_s = {stress_s}"));
    format!("{}{tests}", HONEST.replace("database_mib = 163840", "database_mib = 16384"))
}

/// The last line of the console, the exit status, and all of the console.
fn simulated(folder: &TempDir, options: &[&str]) -> (String, i32, String) {
    let arguments = [&["simulate", "s.toml", "--require", "qualified"], options].concat();
    let output = proofload(folder.path(), &arguments).output().expect("the program starts");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    lint_newest_run(folder.path());
    let last = stdout.lines().rev().find(|line| !line.starts_with("evidence")).unwrap_or_default();
    assert!(!last.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (last.to_owned(), output.status.code().unwrap_or(-1), stdout)
}

/// Names of the conditions that `report.json` of the only run in a folder says are not met.
fn missing(folder: &TempDir) -> Vec<String> {
    let mut runs = std::fs::read_dir(folder.path().join("runs")).expect("runs").flatten();
    let report =
        std::fs::read_to_string(runs.next().expect("a run").path().join("report.json")).expect("text");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let conditions = report["verdict"]["conditions"].as_array().expect("conditions").clone();
    let not_met = conditions.into_iter().filter(|condition| condition["met"] == false);
    not_met.map(|condition| condition["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_honest_simulated_campaign_is_qualified() {
    let at_full_length = std::env::var_os("PROOFLOAD_FULL_LENGTH").is_some();
    // Smaller databases come to lie in the controllers' caches within the window, and latencies change.
    let large =
        |text: String, mib: u64| text.replace("database_mib = 16384", &format!("database_mib = {mib}"));
    let text = if at_full_length {
        let text = large(campaign(7_200, 86_400), 131_072);
        let text = text.replace("cache_min_mib = 8\ncache_max_mib = 16", "cache_max_mib = 128");
        format!("{text}{OWN_RULES}")
    } else {
        let windows = "performance_window_s = 900\nstress_window_s = 1800\n";
        format!("{}{OWN_RULES}{windows}", large(campaign(900, 1_800), 32_768))
    };
    let sentence = "QUALIFIED: Predicted, not tested: By its own rules, the storage carries 400 mailboxes \
                    (48.40 transactional I/O per second and server, 0.121 per mailbox) with mbx2 lost, \
                    with databases of ";
    let folder = folder_with("s.toml", &text);
    let (last, status, stdout) = simulated(&folder, &[]);
    assert_eq!((status, missing(&folder)), (0, Vec::<String>::new()), "{stdout}");
    assert!(last.starts_with(sentence), "{last}");
}

/// Every value of the model is in the run; a disk of 30,000 rpm that seeks in 1.8 ms qualifies nothing.
#[test]
fn values_of_the_storage_model_are_recorded_and_impossible_ones_are_doubts_of_the_claim() {
    let own = "[drive.ST4000NM0023]\nrpm = { value = 30000, source = \"assumption: none builds it\" }\n\
               seek_track_ms = { value = 0.3, source = \"assumption: none builds it\" }\n\
               seek_average_ms = { value = 1.8, source = \"assumption: none builds it\" }\n\
               seek_full_ms = { value = 4.0, source = \"assumption: none builds it\" }\n";
    let values = |options: &[&str]| {
        let folder = folder_with("s.toml", &campaign(60, 60));
        std::fs::write(folder.path().join("own.toml"), own).expect("writable");
        let (_, status, stdout) = simulated(&folder, &[&["--tests", "performance"], options].concat());
        assert_eq!(status, 1, "{stdout}");
        let run =
            std::fs::read_dir(folder.path().join("runs")).expect("runs").flatten().next().expect("a run");
        let report = std::fs::read_to_string(run.path().join("report.json")).expect("text");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let rows = report["environment"].as_array().expect("a list").clone();
        let value = |name: &str| {
            let row = rows.iter().find(|row| row["area"] == "Storage model" && row["name"] == name);
            row.map(|row| row["value"].as_str().unwrap_or_default().to_owned())
        };
        let digest = value("SHA-256 of all values").expect("a digest");
        (digest, value("drive.ST4000NM0023.rpm").expect("a value"), report["verdict"]["reasons"].to_string())
    };
    let (digest, rpm, reasons) = values(&[]);
    assert_eq!((digest.len(), rpm.as_str(), reasons.contains("rpm")), (64, "7200", false), "{reasons}");
    let (other, rpm, reasons) = values(&["--assumptions", "own.toml"]);
    assert!(other != digest && rpm == "30000", "{rpm}");
    for doubt in ["rpm is 30000", "seek_average_ms is 1.8"] {
        assert!(reasons.contains(doubt), "{reasons}");
    }
}

/// Limits that a scheduled fault broke are named first, with both figures, and are counted nowhere as kept.
#[test]
fn limits_that_a_scheduled_fault_broke_are_said_first_and_contradict_nothing() {
    let fault = "[[fault]]\nkind = \"disk_slow\"\nfactor = 6\nat_s = 100\nduration_s = 200\n\n[engine]";
    let folder = folder_with("s.toml", &campaign(300, 60).replacen("[engine]", fault, 1));
    // Lint of the run and of its report finds nothing: `simulated` looks.
    let (_, status, stdout) = simulated(&folder, &["--tests", "performance"]);
    assert_eq!(status, 1, "{stdout}");
    let words = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("outside the scheduled fault; during it ") && words.contains(" broke, worst "),
        "{stdout}"
    );
    let run = std::fs::read_dir(folder.path().join("runs")).expect("runs").flatten().next().expect("a run");
    let text = |name: &str| std::fs::read_to_string(run.path().join(name)).expect("text");
    let report: serde_json::Value = serde_json::from_str(&text("report.json")).expect("JSON");
    let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    let verdicts: Vec<serde_json::Value> =
        list(&report["tests"]).iter().flat_map(|test| list(&test["verdicts"])).collect();
    let of = |outcome: &str| -> Vec<&str> {
        let rows = verdicts.iter().filter(|row| row["outcome"] == outcome && row["limit"].is_number());
        rows.filter_map(|row| row["text"].as_str()).collect()
    };
    let (passed, excused) = (of("pass").len(), of("info"));
    assert!(
        !excused.is_empty() && excused.iter().all(|text| text.contains("without the fault")),
        "{excused:?}"
    );
    let reasons = list(&report["verdict"]["reasons"]);
    let is_excuse = |reason: &serde_json::Value| reason.to_string().contains("an expected fault broke it");
    assert!(reasons[..excused.len()].iter().all(is_excuse), "{reasons:?}");
    let kept = format!("{passed} of {} limits kept", passed + excused.len());
    assert!(reasons.iter().any(|reason| reason.to_string().contains(&kept)), "{reasons:?}");
    let junit = text("junit.xml");
    assert!(junit.contains("skipped message") && junit.contains("expected fault broke it"));
}

#[test]
fn no_window_opens_before_changed_pages_are_written_back() {
    // From 90 % full to full takes such a cache longer than the first sample of the window lasts.
    let text = campaign(300, 300).replace("database_mib = 16384", "database_mib = 262144");
    let text = text.replace("cache_min_mib = 8\ncache_max_mib = 16", "cache_max_mib = 256");
    let folder = folder_with("s.toml", &text);
    let (_, _, stdout) = simulated(&folder, &["--tests", "performance"]);
    let missing = missing(&folder);
    let about_writes = missing.iter().find(|name| name.starts_with("write"));
    assert!(about_writes.is_none(), "{about_writes:?} {stdout}");
}

/// A campaign that is worth less: what is changed in the honest one, the command's options, and what must be
/// said of it.
struct Worthless {
    what: &'static str,
    change: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
    says: Says,
}

/// Expected text.
enum Says {
    /// The limits hold, and these conditions are among those not met.
    Missing(&'static [&'static str]),
    /// The run is incomplete or failed; start of the last line.
    Last(&'static str),
}
use Says::{Last, Missing};

const ARRAY: &str = "[array]
scope = \"shared\"
controller = \"sas-array-2013\"
controllers = 2
stripe_element_kib = 512
link = \"sas-6g-x4\"
links_per_host = 2
";

const PERFORMANCE: &str = "kind = \"performance\"\nduration_s = 300\n";

const WORTHLESS: &[Worthless] = &[
    Worthless {
        what: "windows are short",
        change: &[],
        options: &["--tests", "performance,stress"],
        says: Missing(&["performance_window_s", "stress_window_s", "tests", "verified_percent"]),
    },
    Worthless {
        what: "there is no load",
        change: &[],
        options: &["--tests", "database_checksum,backup"],
        says: Missing(&["load_tests"]),
    },
    Worthless {
        what: "no target is set",
        change: &[("target_iops = 48.4", "sessions = 2")],
        options: &["--tests", "performance"],
        says: Missing(&["target_set_percent"]),
    },
    Worthless {
        what: "the target is half of what the plan derives for the worst failure",
        change: &[("target_iops = 48.4", "target_iops = 24.2")],
        options: &["--tests", "performance"],
        says: Missing(&["worst_failure_percent"]),
    },
    Worthless {
        what: "the caches are cold when the window opens",
        change: &[(PERFORMANCE, "kind = \"performance\"\nduration_s = 300\nwarmup_limit_s = 0\n")],
        options: &["--tests", "performance"],
        says: Missing(&["cache_filled_percent", "write_start_percent"]),
    },
    Worthless {
        what: "the databases fit into the cache",
        change: &[("database_mib = 16384", "database_mib = 64")],
        options: &["--tests", "performance"],
        says: Missing(&["cache_ratio", "reads_per_batch"]),
    },
    Worthless {
        what: "half of the operations of a batch are of another kind",
        change: &[(
            "target_iops = 48.4",
            "target_iops = 48.4\nmix = { insert = 5, delete = 5, replace = 5, read = 85, lazy = 70 }",
        )],
        options: &["--tests", "performance"],
        says: Missing(&["reads_per_batch", "log_file_kib_per_batch"]),
    },
    Worthless {
        what: "reads may take half a second",
        change: &[("[engine]", "[thresholds]\nread_avg_ms = 500\nread_max_ms = 500\n\n[engine]")],
        options: &["--tests", "performance"],
        says: Missing(&["latency_limits_percent"]),
    },
    Worthless {
        what: "background maintenance is off",
        change: &[("[engine]", "[engine]\nmaintenance = false")],
        options: &["--tests", "performance"],
        says: Missing(&["maintained_percent"]),
    },
    Worthless {
        what: "one of two hosts takes part",
        change: &[("hosts = [\"mbx1\"]\nfailed = [\"mbx2\"]", "hosts = [\"mbx1\", \"mbx2\"]")],
        options: &["--tests", "performance", "--servers", "1"],
        says: Missing(&["hosts_percent"]),
    },
    Worthless {
        what: "a disk is slow for half of the window, as scheduled",
        change: &[("[engine]", "[[fault]]\nkind = \"disk_slow\"\nfactor = 4\nat_s = 150\n\n[engine]")],
        options: &["--tests", "performance"],
        says: Missing(&["latency_change_percent"]),
    },
    Worthless {
        what: "no closed log is there when logs are verified",
        change: &[],
        options: &["--tests", "log_checksum,backup"],
        says: Missing(&["logs_verified_percent"]),
    },
    Worthless {
        what: "the plan fails: the loss of mbx2 takes a database away",
        change: &[("per_site = [2]", "per_site = [1]")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "the storage is not described",
        change: &[(ARRAY, "")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "the processors of the host are not described",
        change: &[("cores = 8\n", "")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "hosts that share the storage are not loaded",
        change: &[("count = 2\nsite", "count = 4\nsite")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "the host under test counts as lost",
        change: &[("failed = [\"mbx2\"]", "failed = [\"mbx1\"]")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "the databases are a fiftieth of the planned ones",
        change: &[],
        options: &["--tests", "performance"],
        says: Missing(&["database_size_percent"]),
    },
    Worthless {
        what: "maintenance pauses for an hour",
        change: &[("[engine]", "[engine]\nmaintenance_pause_ms = 3600000")],
        options: &["--tests", "performance"],
        says: Missing(&["maintained_percent"]),
    },
    Worthless {
        what: "the load reads no log for the second copy",
        change: &[("target_iops = 48.4", "target_iops = 48.4\ncopies = 1")],
        options: &["--tests", "performance"],
        says: Missing(&["claim_doubts"]),
    },
    Worthless {
        what: "pages are half as large as the published ones",
        change: &[("count = 2\nvolume = \"V1\"", "count = 2\nvolume = \"V1\"\npage_kib = 16")],
        options: &["--tests", "performance"],
        says: Missing(&["reads_per_batch", "log_file_kib_per_batch"]),
    },
    Worthless {
        what: "one log is generated, verified and replayed",
        change: &[("logs = 10", "logs = 1")],
        options: &["--tests", "log_generation,log_checksum,soft_recovery"],
        says: Missing(&["verified_logs", "recovered_logs"]),
    },
    Worthless {
        what: "a checksum and a backup end at their time limit",
        change: &[],
        options: &["--tests", "database_checksum,backup", "--duration", "2"],
        says: Last("INCOMPLETE"),
    },
    Worthless {
        what: "the target is missed",
        change: &[("target_iops = 48.4", "target_iops = 48.4\niops = 30")],
        options: &["--tests", "performance"],
        says: Last("FAILED: Predicted, not tested: Performance: “achieved"),
    },
    Worthless {
        what: "two bits of a page change",
        change: &[("[engine]", "[[fault]]\nkind = \"bit_rot\"\ntest = \"database_checksum\"\n\n[engine]")],
        options: &["--tests", "database_checksum"],
        says: Last("FAILED"),
    },
];

#[test]
fn no_worthless_simulated_campaign_is_qualified_and_each_says_why() {
    for Worthless { what, change, options, says } in WORTHLESS {
        let text = change.iter().fold(campaign(300, 300), |text, (from, to)| {
            assert!(text.contains(from), "{what}: nothing to change");
            text.replacen(from, to, 1)
        });
        let folder = folder_with("s.toml", &text);
        let (last, status, stdout) = simulated(&folder, options);
        assert_eq!(status, 1, "{what}: {stdout}");
        assert!(!stdout.contains("storage carries"), "{what}: {stdout}");
        match says {
            Missing(conditions) => {
                assert!(last.starts_with("LIMITS HELD"), "{what}: {last}");
                let missing = missing(&folder);
                let unsaid = conditions.iter().find(|name| !missing.iter().any(|other| other == *name));
                assert_eq!(unsaid, None, "{what}: not among {missing:?}");
            }
            Last(beginning) => assert!(last.starts_with(beginning), "{what}: {last}"),
        }
    }
}

#[test]
fn paced_load_reaches_its_own_target_in_a_window_of_a_minute() {
    let laptop = include_str!("../../../../solutions/laptop.toml");
    let paced = laptop.replace("sessions = 8", "iops = 600\ntarget_iops = 600");
    let folder = crate::program::folder_with("paced.toml", &paced);
    // In the window of seed 9, few pages are written back in the last seconds.
    for seed in ["8", "9"] {
        let simulate = [
            "simulate",
            "paced.toml",
            "--tests",
            "performance",
            "--duration",
            "60",
            "--seed",
            seed,
            "--json",
        ];
        let (_, stdout, stderr) = crate::program::output(folder.path(), &simulate);
        let report: serde_json::Value = serde_json::from_str(&stdout).expect(&stderr);
        let verdicts = report["tests"].as_array().expect("tests").iter().flat_map(|test| {
            test["verdicts"].as_array().expect("verdicts").iter().filter(|one| one["rule"] == "achieved_iops")
        });
        let outcomes: Vec<_> = verdicts.map(|verdict| (&verdict["outcome"], &verdict["measured"])).collect();
        assert!(
            !outcomes.is_empty() && outcomes.iter().all(|(outcome, _)| *outcome == "pass"),
            "{outcomes:?}"
        );
    }
}
