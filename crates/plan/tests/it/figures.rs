//! Figures that the calculator shows beside its sizing table, computed by hand for the two Dell papers.

use plan::{Outcome, Plan, plan};
use solution::{Setting, Solution};

const MD3260: &str = include_str!("../../../../solutions/dell-md3260-15000.toml");
const R740XD: &str = include_str!("../../../../solutions/dell-r740xd-10000.toml");

fn planned(text: &str, settings: &[&str]) -> Plan {
    let settings: Vec<Setting> =
        settings.iter().map(|one| Setting::of_argument(one).expect("a setting")).collect();
    let solution = Solution::parse_with(text, "t.toml", &settings).unwrap_or_else(|error| panic!("{error}"));
    plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_figures(plan: &Plan, wanted: &[(&str, f64)]) {
    for (key, value) in wanted {
        let figure = plan.figures.iter().find(|one| one.key == *key).unwrap_or_else(|| panic!("{key}"));
        assert!((figure.value - value).abs() < 1e-3, "{key}: {} instead of {value}", figure.value);
    }
}

/// 150 messages of 100 KB are 14.648 MB a day; 14 days of them and 4.2 % of 4,096 MB are the dumpster.
#[test]
fn figures_of_a_mailbox_are_those_computed_by_hand() {
    let wanted = [
        ("white_space_mb", 14.6484),
        ("dumpster_mb", 377.1101),
        ("cache_mb_per_mailbox", 9.0),
        ("active_mcycles", 8.765_625),
        ("passive_mcycles", 2.055),
    ];
    assert_figures(&planned(MD3260, &[]), &wanted);
    let stated = planned(MD3260, &["profile.mailbox_mb=5000"]);
    let parts = stated.figures.iter().filter(|one| ["white_space_mb", "dumpster_mb"].contains(&one.key));
    assert_eq!(parts.count(), 0, "a stated size has no parts");
}

/// 57.5 I/O per second carry 119 mailboxes in each of four databases; 95 % of 7,450.58 GB over 4 and 1.25 hold 38.6 of
/// 37,510 MB; 10,000 mailboxes over 39 are 257 databases. The paper has 384.
#[test]
fn databases_of_the_calculator_stand_beside_those_of_the_plan() {
    let plan = planned(R740XD, &[]);
    let wanted = [
        ("volume_database_gb", 1415.6103),
        ("largest_database_gb", 2000.0),
        ("mailboxes_by_io", 119.0),
        ("mailboxes_by_capacity", 1415.6103 * 1024.0 / 37510.0),
        ("databases_by_calculator", 257.0),
        ("databases", 384.0),
    ];
    assert_figures(&plan, &wanted);
}

/// Of 452.25 I/O per second 60 % are reads. Half of the database writes again are log writes; the rest of 96.2646 log
/// I/O is reads.
#[test]
fn database_and_log_io_of_a_server_are_divided_into_reads_and_writes() {
    let plan = planned(MD3260, &[]);
    for (key, per_server) in
        [("database_reads", 271.35), ("database_writes", 180.9), ("log_writes", 90.45), ("log_reads", 5.8146)]
    {
        let row = plan.sizing.row(key).expect("a row");
        let found = row.per_server.expect("of a server");
        assert!((found - per_server).abs() < 1e-3, "{key}: {found}");
    }
}

#[test]
fn memory_is_rounded_to_modules_and_noted_above_the_most_that_is_recommended() {
    use plan::formula::fitted_memory_gb;
    for (need, fitted) in [(7.5, Some(8.0)), (96.0, Some(96.0)), (96.1, Some(128.0)), (2000.0, None)] {
        assert_eq!(fitted_memory_gb(need), fitted, "{need}");
    }
    let of = |exchange: &str, cache: &str| {
        let settings =
            [format!("profile.exchange=\"{exchange}\""), format!("profile.cache_mb_per_mailbox={cache}")];
        let plan = planned(R740XD, &settings.each_ref().map(String::as_str));
        let note = plan.checks.iter().find(|check| check.name == "much memory").cloned();
        assert!(note.iter().all(|note| note.outcome == Outcome::Note));
        (
            plan.figures.iter().find(|one| one.key == "fitted_memory_gb").expect("it is known").value,
            note.is_some(),
        )
    };
    // 1,458 active mailboxes: 13 GB of cache, 4 times that and 10 GB for client access of 20 cores.
    assert_eq!(of("2016", "9"), (64.0, false));
    assert_eq!(of("2013", "16"), (128.0, true));
    assert_eq!(of("2016", "16"), (128.0, false));
    assert_eq!(of("2016", "32"), (256.0, true));
    assert_eq!(of("se", "32"), (256.0, false));
}

/// 452.25 I/O per second with 60 % reads need 452.25 x (0.6 + 0.4 p) of the disks; 24,844.83 GB need 7 disks of
/// 3,725.29 GB. Mirrors keep 65 % of their I/O while a disk is rebuilt, parity half.
#[test]
fn disks_of_each_raid_level_are_those_computed_by_hand() {
    let plan = planned(MD3260, &[]);
    let found: Vec<_> = plan
        .raid
        .iter()
        .map(|one| {
            let back_end = (one.back_end_iops * 100.0).round() / 100.0;
            (one.raid, back_end, one.disks_by_iops, one.disks_by_iops_rebuilding, one.disks_by_capacity)
        })
        .collect();
    let wanted = [
        ("RAID 0", 452.25, Some(8), Some(8), 7),
        ("RAID 1", 633.15, Some(12), Some(18), 14),
        ("RAID 10", 633.15, Some(12), Some(18), 14),
        ("RAID 5", 994.95, Some(18), Some(35), 8),
        ("RAID 6", 1356.75, Some(24), Some(48), 9),
    ];
    assert_eq!(found, wanted);
    let (terminal, page) = (plan::terminal(&plan), plan::html(&plan, ""));
    for (level, ..) in wanted {
        assert!(
            terminal.contains(&format!("\n{level} ")) && page.contains(&format!("<td>{level}</td>")),
            "{level}"
        );
    }
}

#[test]
fn limits_of_active_databases_stand_in_every_view_as_they_are_exported() {
    let solution = Solution::parse(R740XD, "t.toml").expect("it is shipped");
    let plan = planned(R740XD, &[]);
    for (server, limits) in plan.servers.iter().zip(plan::active_limits(&solution, &plan)) {
        assert_eq!(server.maximum_active_databases, limits.maximum);
        assert_eq!(server.maximum_preferred_active_databases, limits.preferred);
    }
    let line = "MaximumActiveDatabases 56, MaximumPreferredActiveDatabases";
    assert!(plan::terminal(&plan).contains(line), "{}", plan::terminal(&plan));
    assert!(plan::html(&plan, "").contains("<th>MaximumPreferredActiveDatabases</th>"));
}
