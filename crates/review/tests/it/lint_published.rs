//! Every known inconsistency of the five published papers is found, one by one.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::path::Path;

use review::lint::Finding;

const PAPERS: [&str; 5] = [
    "dell-md3260-15000",
    "lenovo-hx7510-30000",
    "nimble-cs700-100000",
    "dell-r740xd-10000",
    "emc-cx3-20c-500",
];

fn findings(paper: &str) -> Vec<Finding> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published");
    review::open(&folder.join(paper).with_extension("toml")).expect("published figures").lint()
}

/// Listed inconsistency: its text, the rule that finds it, and its two figures with their places.
type Listed = (&'static str, &'static str, &'static str, &'static str);

const MD3260: &[Listed] = &[
    (
        "the performance summary repeats the stress run: server 1",
        "stress_as_performance",
        "642 /s @ summary.server[1]",
        "633.738 /s @ performance-1",
    ),
    (
        "the same: server 3",
        "stress_as_performance",
        "630.7 /s @ summary.server[3]",
        "609.888 /s @ performance-3",
    ),
    (
        "the same: server 4",
        "stress_as_performance",
        "633.1 /s @ summary.server[4]",
        "633.922 /s @ performance-4",
    ),
    (
        "server 2 matches neither run: 632",
        "summary_differs",
        "632 /s @ summary.server[2]",
        "623.702 /s @ performance-2",
    ),
    (
        "server 2: write 12.8 ms against 9.1 and 8.8",
        "summary_differs",
        "12.8 ms @ summary.server[2].write",
        "ms @ performance-2",
    ),
    (
        "server 2: 44 log writes per second against 46",
        "summary_differs",
        "44 /s @ summary.server[2].log",
        "/s @ performance-2",
    ),
    (
        "server 3: log latency 1.4 ms against 2.6",
        "summary_differs",
        "1.4 ms @ summary.server[3].log",
        "ms @ stress-3",
    ),
    ("backup is that of server 3 alone", "one_server_as_all", "911.4 MB/s", "927.815 MB/s"),
    ("target 452 against 453.75", "target_differs", "452 /s", "453.75 /s"),
    ("56 x 268 = 15,008 mailboxes", "mailbox_arithmetic", "15,000 mailboxes", "15,008 mailboxes"),
    ("508 against 506 logs", "stated_twice", "506 logs", "508 logs"),
    (
        "engine version in the software table and in the reports",
        "stated_twice",
        "15.00.0712.008",
        "15.00.0775.028",
    ),
    ("log rows of the calculator divide by 8, others by 12", "calculator_divisor", "8 servers", "12 servers"),
    ("load after the window: 23 min (performance)", "load_after_window", "1,375 s @ performance-2", "0 s"),
    ("load after the window: 3 h 10 min (stress)", "load_after_window", "11,386 s @ stress-1", "0 s"),
];

const HX7510: &[Listed] = &[
    ("summary counts maintenance reads", "maintenance_counted", "1,200.51 /s", "1,110.14 /s @ performance-1"),
    ("formatted capacity in GB is TB", "unit", "70.82 GB", "30 TB"),
    ("63.46 % is volumes by formatted, data is 42 %", "used_capacity", "63.46 %", "42.3609 %"),
    ("recovery 2.82 against 2.856 s", "summary_differs", "2.82 s", "2.8558 s"),
    ("backup 58.4 against 55.8 MB/s per database", "summary_differs", "583.82 MB/s", "558.26 MB/s"),
];

const CS700: &[Listed] = &[
    (
        "the appendix of host 1 is host 6",
        "host_mixup",
        "4,948.52 /s @ performance-1",
        "4,569.58 /s @ summary.server[1]",
    ),
    (
        "write latency of host 2 repeats host 3",
        "repeated_cell",
        "2.9802 ms @ summary.server[2]",
        "2.9802 ms @ summary.server[3]",
    ),
    ("0.526 I/O per mailbox against 0.469", "iops_per_mailbox", "0.526", "0.468623"),
    ("quota 1000 against 1024 MB", "stated_twice", "1,000 MB", "1,024 MB"),
    ("RAID 6 against triple parity", "raid_level", "RAID 6", "triple parity"),
    ("load after the window: 23 min (performance)", "load_after_window", "1,387 s @ performance-1", "0 s"),
    ("load after the window: 12.5 min (stress)", "load_after_window", "752 s @ stress-1", "0 s"),
];

const R740XD: &[Listed] = &[
    ("the layout gives at most 55 active databases", "layout_activation", "56 active", "55 active"),
    ("7 x 56 = 392 databases", "failure_arithmetic", "384 databases", "392 databases"),
    ("7 x 1458 = 10,206 mailboxes", "failure_arithmetic", "10,000 mailboxes", "10,206 mailboxes"),
    ("aggregate write latency is the log latency", "aggregate_latency", "0.103 ms", "0.282857 ms"),
    ("102/712 divides one server by seven", "one_server_capacity", "102 TB", "712 TB"),
    ("10 disks in 14 RAID 0 volumes", "volume_count", "14 volumes", "10 disks"),
    ("R730xd left over", "foreign_model", "R730xd", "R740xd"),
    ("H830 left over", "foreign_model", "H830", "R740xd"),
    ("PERC 8740 left over", "foreign_model", "PERC 8740", "R740xd"),
    ("tested on 14 of 24 disks", "tested_disks", "14 disks", "24 disks"),
];

const EMC: &[Listed] = &[
    ("disks tested: 1", "tested_disks", "1 disks", "10 disks"),
    ("backup raw 400 GB against 4 x 146", "raw_capacity", "400 GB", "584 GB"),
    ("GB for MB", "unit", "124,700 GB", "53.37 MB/s"),
    ("252 MB below the sum of its databases", "total_of_parts", "124,700 MB", "124,952 MB"),
    ("database utilization 50.5 % against 21 %", "database_utilization", "50.5 %", "20.3767 %"),
    ("checksum sum 8.0 MB/s", "rate", "8 MB/s", "67.9946 MB/s"),
    (
        "free page table average below its minimum",
        "average_outside_range",
        "183,181 @ checksum-1",
        "183,184 @ checksum-1",
    ),
    ("stress appendix titled 2 hours, ran 24", "duration_title", "2 h", "24.0017 h"),
    ("initiator 2.02 and 2.03", "stated_twice", "2.02", "2.03"),
];

#[test]
fn every_listed_inconsistency_is_found() {
    let listed = [MD3260, HX7510, CS700, R740XD, EMC];
    for (paper, listed) in PAPERS.iter().zip(listed) {
        let found = findings(paper);
        for (what, rule, one, other) in listed {
            let says = |value: &str, place: &str, wanted: &str| format!("{value} @ {place}").contains(wanted);
            let matching = found.iter().filter(|finding| {
                finding.rule == *rule
                    && says(&finding.one.value, &finding.one.place, one)
                    && says(&finding.other.value, &finding.other.place, other)
            });
            assert_eq!(matching.count(), 1, "{paper}: {what}: {found:#?}");
        }
    }
}

/// Findings that the list does not name are few, and each is a contradiction of the same kind: none may slip in unseen.
#[test]
fn what_is_found_besides_the_list_is_known() {
    let besides: [(&str, &[&str]); 5] = [
        // Server 2's log latency beside its write latency; two more stress runs that drained for three hours.
        (PAPERS[0], &["load_after_window", "load_after_window", "summary_differs"]),
        (PAPERS[1], &[]),
        // 90 % used against 104 of 112 TB; 80 % headroom against 20 %.
        (PAPERS[2], &["stated_twice", "used_capacity"]),
        // 384 x 26 mailboxes; 507 and 505 logs.
        (PAPERS[3], &["mailbox_arithmetic", "stated_twice"]),
        // 50.5 % used against 45 %; the page table average of a second checksum.
        (PAPERS[4], &["average_outside_range", "used_capacity"]),
    ];
    let listed = [MD3260, HX7510, CS700, R740XD, EMC];
    for ((paper, besides), listed) in besides.iter().zip(listed) {
        let mut rules: Vec<&str> = findings(paper).iter().map(|finding| finding.rule).collect();
        for (what, rule, ..) in listed {
            let at =
                rules.iter().position(|other| other == rule).unwrap_or_else(|| panic!("{paper}: {what}"));
            rules.remove(at);
        }
        rules.sort_unstable();
        assert_eq!(rules, *besides, "{paper}");
    }
}

/// A unit that slipped by 1,000: nothing else in the paper contradicts it, because every table has the same figures.
#[test]
fn read_latencies_that_slipped_by_a_thousand_are_found_in_every_paper() {
    for paper in PAPERS {
        let path = format!("{}/../../published/{paper}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let slipped = |factor: f64| {
            let mut evidence: review::Evidence = toml::from_str(&text).unwrap();
            for test in &mut evidence.test {
                let rows = test.transactional.iter_mut().chain(&mut test.total);
                let cells = rows.map(|row| &mut row.db_read_latency_ms).chain([&mut test.read_latency_ms]);
                cells.for_each(|ms| *ms = ms.map(|ms| ms * factor));
            }
            let summary = &mut evidence.summary;
            for row in summary.server.iter_mut().chain(&mut summary.aggregate) {
                row.read_latency_ms = row.read_latency_ms.map(|ms| ms * factor);
            }
            let has_tests = evidence.test.iter().any(|test| test.threads.is_some());
            let found: Vec<_> = review::lint::lint(&evidence).iter().map(|finding| finding.rule).collect();
            (found.contains(&"littles_law"), found.contains(&"read_floor"), has_tests)
        };
        let (_, _, has_tests) = slipped(1.0);
        assert_eq!(slipped(1.0), (false, false, has_tests), "{paper}");
        assert_eq!(slipped(1e-3), (has_tests, true, has_tests), "{paper}");
        assert_eq!(slipped(1e3), (has_tests, false, has_tests), "{paper}");
    }
}
