//! The planner against the figures that papers print (`published/`).

use plan::{Kind, Plan, formula::round_half_up, plan};
use solution::Solution;

fn read(name: &str) -> (Plan, toml::Table) {
    let text = match name {
        "md3260" => include_str!("../../../../solutions/dell-md3260-15000.toml"),
        _ => include_str!("../../../../solutions/dell-r740xd-10000.toml"),
    };
    let published = match name {
        "md3260" => include_str!("../../../../published/dell-md3260-15000.toml"),
        _ => include_str!("../../../../published/dell-r740xd-10000.toml"),
    };
    let solution = Solution::parse(text, name).expect("the solution file is right");
    let plan = plan(&solution, &[]).expect("the solution can be planned");
    (plan, published.parse().expect("published data is TOML"))
}

/// Compares every printed cell of the calculator table with the plan, rounded as printed. Returns how many there were.
fn compare_cells(plan: &Plan, published: &toml::Table) -> usize {
    let table = published["calculator"].as_table().unwrap();
    let rows = [
        ("user_transaction_logs_per_day", "user_logs_per_day"),
        ("move_mailbox_transaction_logs_per_day", "move_logs_per_day"),
        ("average_transaction_logs_per_day", "logs_per_day"),
        ("transport_database_gb", "transport_gb"),
        ("database_gb", "database_gb"),
        ("log_gb", "log_gb"),
        ("database_plus_log_volume_gb", "database_volume_gb"),
        ("log_volume_gb", "log_volume_gb"),
        ("restore_volume_gb", "restore_volume_gb"),
        ("database_required_iops", "database_iops"),
        ("log_required_iops", "log_iops"),
        ("bdm_throughput_mb_per_s", "maintenance_mb_per_s"),
    ];
    let mut cells = 0;
    for (printed, key) in rows {
        let Some(printed) = table.get(printed) else { continue };
        let row = plan.sizing.row(key).unwrap_or_else(|| panic!("{key} is planned"));
        let planned = [row.per_database, row.per_server, row.per_dag, row.per_environment];
        for (printed, planned) in printed.as_array().unwrap().iter().zip(planned) {
            let printed = printed.as_float().or(printed.as_integer().map(|value| value as f64)).unwrap();
            if printed.is_nan() {
                continue;
            }
            let planned = planned.unwrap_or_else(|| panic!("{key} has a value"));
            assert_eq!(round_half_up(planned), printed, "{key}: {planned}");
            cells += 1;
        }
    }
    assert_eq!(table["database_read_pct"].as_array().unwrap()[0].as_integer(), Some(60));
    assert_eq!(plan.sizing.read_share, 0.6);
    cells
}

#[test]
fn every_calculator_cell_of_the_md3260_paper_is_equal_after_rounding() {
    let (plan, published) = read("md3260");
    // 42 cells, and 4 zeros for the log volume that the solution does not have.
    assert_eq!(compare_cells(&plan, &published), 46);
    let close = |key: &str, value: f64| {
        let row = plan.sizing.row(key).unwrap();
        assert!((row.per_server.unwrap() - value).abs() < 1e-4, "{key}: {:?}", row.per_server);
    };
    close("transport_gb", 429.1534);
    close("log_iops", 96.2646);
    close("restore_volume_gb", 1280.3285);
    close("database_volume_gb", 24844.8294);
}

#[test]
fn every_calculator_cell_of_the_r740xd_paper_is_equal_after_rounding() {
    let (plan, published) = read("r740xd");
    assert_eq!(compare_cells(&plan, &published), 12);
    assert!((plan.sizing.row("log_iops").unwrap().per_server.unwrap() - 63.8175).abs() < 1e-4);
}

/// Compares the layout with the published rows; returns how many rows were compared.
fn compare_layout(plan: &Plan, published: &toml::Table, also_repaired: bool) -> usize {
    let rows = published["layout"]["databases"].as_array().unwrap();
    assert_eq!(rows.len(), plan.layout.databases.len());
    let mut compared = 0;
    for (row, database) in rows.iter().zip(&plan.layout.databases) {
        if row.get("repaired").is_some() && !also_repaired {
            continue;
        }
        let name = row["db"].as_str().unwrap();
        assert_eq!(name, database.name);
        let printed: Vec<(&str, i64)> = row["copies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|copy| (copy[0].as_str().unwrap(), copy[1].as_integer().unwrap()))
            .collect();
        let made: Vec<(&str, i64)> = database
            .copies
            .iter()
            .zip(1..)
            .map(|(copy, preference)| (plan.servers[usize::from(copy.server)].name.as_str(), preference))
            .collect();
        assert_eq!(made, printed, "{name}");
        if let Some(volume) = row.get("volume") {
            assert!(
                database.copies.iter().all(|copy| i64::from(copy.volume) == volume.as_integer().unwrap()),
                "{name}: volumes {:?}",
                database.copies
            );
        }
        compared += 1;
    }
    compared
}

#[test]
fn the_md3260_layout_is_the_published_one() {
    let (plan, published) = read("md3260");
    assert_eq!(compare_layout(&plan, &published, false), 54);
    assert_eq!(compare_layout(&plan, &published, true), 56);
}

#[test]
fn the_r740xd_layout_is_the_published_one() {
    let (plan, published) = read("r740xd");
    assert_eq!(compare_layout(&plan, &published, false), 31);
    assert_eq!(compare_layout(&plan, &published, true), 384);
}

fn class(plan: &Plan, kind: Kind) -> &plan::Class {
    plan.failures.classes.iter().find(|class| class.kind == kind).expect("the kind is computed")
}

fn histogram(active: &[u32]) -> Vec<u32> {
    let mut counts: Vec<u32> = active.iter().copied().filter(|&count| count > 0).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

fn scenario<'a>(plan: &'a Plan, label: &str) -> &'a plan::Scenario {
    plan.failures
        .scenarios
        .iter()
        .find(|one| one.label == label)
        .unwrap_or_else(|| panic!("{label} is computed"))
}

#[test]
fn the_md3260_failures_are_7_9_14_and_lose_databases_beyond_a_site() {
    let (plan, _) = read("md3260");
    assert_eq!(scenario(&plan, "nothing").worst_active, 7);
    // One server: its databases go to the other enclosure, 9 9 9 8 there and 7 7 7 at home.
    assert_eq!(histogram(&scenario(&plan, "Server1").active), [9, 9, 9, 8, 7, 7, 7]);
    assert_eq!(scenario(&plan, "Server1 + Server2").worst_active, 11);
    for label in ["Local Enclosure1", "Local Enclosure2", "Local"] {
        assert_eq!(histogram(&scenario(&plan, label).active), [14, 14, 14, 14], "{label}");
        assert_eq!(scenario(&plan, label).worst_volume, 2);
    }
    assert_eq!(class(&plan, Kind::SiteAndServer).lost_databases, 14);
    assert_eq!(plan.failures.worst().label, "Local");
    let bound = plan.bound;
    assert_eq!(
        (bound.normal, bound.server, bound.two_servers, bound.site),
        (7.0, Some(8.0), Some(9.0), Some(14.0))
    );
    assert_eq!((bound.site_and_server, bound.worst_on_active_server, bound.servers_left), (None, 9.0, 4));
}

#[test]
fn the_r740xd_failures_are_24_28_48_55_with_the_bound_56() {
    let (plan, _) = read("r740xd");
    assert_eq!(scenario(&plan, "nothing").active, [24; 16]);
    assert_eq!(histogram(&scenario(&plan, "SiteA-MBX1").active)[..7], [28, 28, 28, 27, 27, 27, 27]);
    assert_eq!(class(&plan, Kind::TwoServers).worst_active, 32);
    assert_eq!(histogram(&scenario(&plan, "Site A").active), [48; 8]);
    for one in plan.failures.scenarios.iter().filter(|one| one.kind == Kind::SiteAndServer) {
        assert_eq!(histogram(&one.active), [55, 55, 55, 55, 55, 55, 54], "{}", one.label);
    }
    assert_eq!(class(&plan, Kind::Normal).worst_volume, 1);
    assert_eq!(class(&plan, Kind::Server).worst_volume, 2);
    assert_eq!(class(&plan, Kind::Site).worst_volume, 2);
    assert_eq!(class(&plan, Kind::SiteAndServer).worst_volume, 3);
    let bound = plan.bound;
    assert_eq!((bound.normal, bound.server, bound.site), (24.0, Some(28.0), Some(48.0)));
    assert_eq!(
        (bound.site_and_server, bound.worst_on_active_server, bound.servers_left),
        (Some(56.0), 56.0, 7)
    );
    assert_eq!((plan.failures.fatal_servers, plan.failures.fatal_sets, plan.failures.sets), (4, 28, 1820));
}

/// Active databases on each surviving volume of a failure.
fn on_volumes(plan: &Plan, scenario: &plan::Scenario) -> Vec<u32> {
    let mut counts = std::collections::BTreeMap::<(u8, u16), u32>::new();
    for (database, active) in plan.layout.databases.iter().zip(&scenario.active_copy) {
        for (preference, copy) in database.copies.iter().enumerate() {
            let count = counts.entry((copy.server, copy.volume)).or_default();
            *count += u32::from(*active == Some(preference as u8));
        }
    }
    counts.retain(|&(server, _), _| scenario.lost_servers & (1 << server) == 0);
    counts.into_values().collect()
}

#[test]
fn after_a_site_and_a_server_two_sevenths_of_the_r740xd_disks_carry_three_actives() {
    let (plan, _) = read("r740xd");
    let one_site = plan
        .failures
        .scenarios
        .iter()
        .filter(|one| one.kind == Kind::SiteAndServer && one.label.starts_with("Site A"));
    let states: Vec<u32> = one_site.flat_map(|one| on_volumes(&plan, one)).collect();
    assert_eq!(states.len(), 1344);
    assert_eq!(states.iter().filter(|&&active| active == 3).count(), 384);
    assert!(states.iter().all(|&active| active == 2 || active == 3));
}

#[test]
fn the_r740xd_loses_up_to_14_databases_with_a_site_and_two_servers() {
    let text = include_str!("../../../../solutions/dell-r740xd-10000.toml");
    let solution = Solution::parse(text, "r740xd").unwrap();
    let sets: Vec<Vec<String>> = (1..=8)
        .flat_map(|a| (a + 1..=8).map(move |b| (a, b)))
        .map(|(a, b)| vec!["Site A".to_owned(), format!("SiteB-MBX{a}"), format!("SiteB-MBX{b}")])
        .collect();
    let plan = plan(&solution, &sets).unwrap();
    let named: Vec<_> =
        plan.failures.scenarios.iter().filter(|one| one.kind == Kind::Named).skip(1).collect();
    assert_eq!(named.len(), 28);
    assert!(named.iter().all(|one| (13..=14).contains(&one.lost_databases)));
    assert_eq!(named.iter().map(|one| one.worst_active).max(), Some(62));
}

#[test]
fn both_test_targets_of_both_papers_come_out() {
    let (plan, _) = read("md3260");
    let all = plan.targets.all_copies;
    assert_eq!(all.mailboxes, 3750.0);
    assert!((all.iops - 452.25).abs() < 1e-9 && (all.iops_as_tested - 453.75).abs() < 1e-9);
    assert_eq!(plan.targets.target_iops, 453.75);

    let (plan, _) = read("r740xd");
    assert_eq!(plan.targets.worst_active_bound.mailboxes, 1458.0);
    assert_eq!((plan.targets.worst_active_bound.iops_as_tested * 10.0).round() / 10.0, 176.4);
    assert_eq!(plan.targets.worst_active_layout.mailboxes, 1432.0);
    assert!((plan.targets.all_copies.iops - 301.5).abs() < 1e-9);
}

#[test]
fn the_published_solutions_pass_their_checks() {
    for name in ["md3260", "r740xd"] {
        let (plan, _) = read(name);
        let failed: Vec<_> =
            plan.checks.iter().filter(|check| check.outcome == plan::Outcome::Fail).collect();
        assert!(failed.is_empty(), "{name}: {failed:#?}");
    }
}

#[test]
fn the_ratios_that_papers_print_come_out_as_printed() {
    let planned =
        |text: &str| plan(&Solution::parse(text, "t").unwrap(), &[]).unwrap().storage.ratios.unwrap();
    let percent = |share: f64| share * 100.0;
    let md3260 = planned(include_str!("../../../../solutions/dell-md3260-15000.toml"));
    assert!((percent(md3260.formatted_of_raw_as_printed) - 45.5).abs() < 0.05);
    assert!((percent(md3260.database_of_formatted) - 57.75).abs() < 0.05);
    let cs700 = planned(include_str!("../../../../solutions/nimble-cs700-100000.toml"));
    assert!((percent(cs700.formatted_of_raw_as_printed) - 138.0).abs() < 0.5);
    // Formatted over effective: 80.5 % in the paper (112 of 139 TB).
    assert!((percent(cs700.formatted_tib / cs700.effective_tib.unwrap()) - 80.5).abs() < 0.1);
}
