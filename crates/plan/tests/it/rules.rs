//! What holds for every plan: conservation, limits, and one sentence at the right line for what cannot be.

use plan::{Outcome, Plan, plan};
use proptest::prelude::*;
use solution::{Solution, SolutionError};

/// A solution with these servers per site, copies per site, databases and databases per volume.
fn text(servers: &[u32], copies: &[u32], databases: u32, per_volume: u32, extra: &str) -> String {
    let mut text = String::from(
        "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = 9000\n\
         messages_per_day = 150\nquota_mb = 1024\n",
    );
    text += &format!("[dag]\ndatabases = {databases}\ndatabases_per_volume = {per_volume}\n");
    text += &format!("[copies]\nper_site = {copies:?}\n");
    for (site, count) in servers.iter().enumerate() {
        text += &format!("[[site]]\nname = \"site{site}\"\n");
        text += &format!("[[host]]\nname = \"s{site}-{{n}}\"\ncount = {count}\nsite = \"site{site}\"\n");
    }
    text + extra
}

fn planned(text: &str) -> Plan {
    let solution = Solution::parse(text, "t.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> Box<SolutionError> {
    let solution = match Solution::parse(text, "t.toml") {
        Ok(solution) => solution,
        Err(error) => return error,
    };
    match plan(&solution, &[]) {
        Err(error) => error,
        Ok(plan) => panic!("planned: {:?}\n{text}", plan.checks),
    }
}

/// Draws servers per site, copies per site that fit on them, databases, and databases per volume.
fn wishes() -> impl Strategy<Value = (Vec<u32>, Vec<u32>, u32, u32)> {
    prop::collection::vec(1u32..=8, 1..=3)
        .prop_filter("at most 16 members", |servers| servers.iter().sum::<u32>() <= 16)
        .prop_flat_map(|servers| {
            let smallest = servers.iter().copied().min().unwrap_or(1);
            let sites = servers.len();
            let copies = (1..=smallest, prop::collection::vec(0..=smallest, sites - 1))
                .prop_map(|(home, others)| [vec![home], others].concat());
            (Just(servers), copies, 1u32..400, 1u32..=6)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_copy_is_placed_once_and_totals_are_conserved((servers, copies, databases, per_volume) in wishes()) {
        let plan = planned(&text(&servers, &copies, databases, per_volume, ""));
        let wished: u32 = copies.iter().sum();
        prop_assert_eq!(plan.layout.databases.len() as u32, databases);
        for database in &plan.layout.databases {
            prop_assert_eq!(database.copies.len() as u32, wished);
            let mut on: Vec<u8> = database.copies.iter().map(|copy| copy.server).collect();
            on.sort_unstable();
            on.dedup();
            prop_assert_eq!(on.len() as u32, wished, "two copies on one server");
        }
        for scenario in &plan.failures.scenarios {
            let active: u32 = scenario.active.iter().sum();
            prop_assert_eq!(active + scenario.lost_databases, databases, "{}", scenario.label);
            for (server, &active) in scenario.active.iter().enumerate() {
                prop_assert!(active == 0 || scenario.lost_servers & (1 << server) == 0, "{}", scenario.label);
                // Never more active than copies held: failure moves load, it does not make it.
                let held = plan.layout.databases.iter()
                    .filter(|database| database.copies.iter().any(|copy| usize::from(copy.server) == server))
                    .count();
                prop_assert!(active as usize <= held);
            }
        }
        for check in ["one copy per server", "copies per site", "databases per volume", "every database is active"] {
            let check = plan.checks.iter().find(|one| one.name == check).unwrap();
            prop_assert_eq!(check.outcome, Outcome::Pass, "{}", check.detail);
        }
    }

    #[test]
    fn losing_fewer_servers_than_activatable_copies_loses_no_database(
        (servers, copies, databases, per_volume) in wishes()
    ) {
        let plan = planned(&text(&servers, &copies, databases, per_volume, ""));
        let copies: u32 = copies.iter().sum();
        for scenario in plan.failures.scenarios.iter().filter(|one| one.lost_servers.count_ones() < copies) {
            prop_assert_eq!(scenario.lost_databases, 0, "{}", scenario.label);
        }
        prop_assert_eq!(plan.failures.fatal_servers, copies);
    }

    #[test]
    fn actives_and_copies_are_balanced_within_a_site((servers, copies, databases, per_volume) in wishes()) {
        let plan = planned(&text(&servers, &copies, databases, per_volume, ""));
        for check in plan.checks.iter().filter(|one| one.name == "balance") {
            prop_assert_eq!(check.outcome, Outcome::Pass, "{}", &check.detail);
        }
    }

    #[test]
    fn a_survivor_never_loses_what_it_had((servers, copies, databases, per_volume) in wishes()) {
        let plan = planned(&text(&servers, &copies, databases, per_volume, ""));
        let normal = &plan.failures.scenarios[0];
        for scenario in &plan.failures.scenarios {
            for (server, &active) in scenario.active.iter().enumerate() {
                let lost = scenario.lost_servers & (1 << server) != 0;
                prop_assert!(lost || active >= normal.active[server], "{}", scenario.label);
            }
        }
    }

    #[test]
    fn no_server_is_above_its_limit((servers, copies, databases, per_volume) in wishes(), limit in 1u32..40) {
        let mut text = text(&servers, &copies, databases, per_volume, "");
        text = text.replace("count = ", &format!("max_active = {limit}\ncount = "));
        let plan = planned(&text);
        for scenario in &plan.failures.scenarios {
            prop_assert!(scenario.active.iter().all(|&active| active <= limit), "{}", scenario.label);
        }
    }

    #[test]
    fn every_view_fits_and_answers((servers, copies, databases, per_volume) in wishes()) {
        let plan = planned(&text(&servers, &copies, databases, per_volume, ""));
        for line in plan::terminal(&plan).lines() {
            prop_assert!(line.chars().count() <= 100, "{}", line);
        }
        let page = plan::html(&plan, "");
        prop_assert!(page.ends_with("</html>") && page.contains(&plan.layout.databases[0].name));
    }
}

#[test]
fn symmetric_sites_spread_evenly_when_the_databases_are_a_multiple() {
    for n in 2..=8u32 {
        let databases = 2 * n * (n - 1);
        let plan = planned(&text(&[n, n], &[2, 2], databases, 4, ""));
        let per_server = databases / (2 * n);
        for one in &plan.failures.scenarios {
            let lost = one.lost_servers.count_ones();
            let survivors =
                one.active.iter().enumerate().filter(|(server, _)| one.lost_servers & (1 << server) == 0);
            match one.kind {
                plan::Kind::Normal => assert!(one.active.iter().all(|&active| active == per_server)),
                // The lost server's databases go to its own site, the same number to each.
                plan::Kind::Server => {
                    let site = one.lost_servers.trailing_zeros() / n;
                    for (server, &active) in survivors {
                        let same = server as u32 / n == site;
                        let extra = if same { per_server / (n - 1) } else { 0 };
                        assert_eq!(active, per_server + extra, "{n}: {}", one.label);
                    }
                }
                plan::Kind::Site => {
                    assert_eq!(lost, n);
                    for (_, &active) in survivors {
                        assert_eq!(active, 2 * per_server, "{n}: {}", one.label);
                    }
                }
                plan::Kind::SiteAndServer => {
                    for (_, &active) in survivors {
                        assert_eq!(active, 2 * per_server + 2 * per_server / (n - 1), "{n}: {}", one.label);
                    }
                }
                _ => {}
            }
        }
        // With even spreading the calculator's arithmetic is the truth.
        assert_eq!(plan.bound.site_and_server, Some(f64::from(2 * (per_server + per_server / (n - 1)))));
        assert_eq!(f64::from(plan.failures.worst().worst_active), plan.bound.worst);
    }
}

#[test]
fn three_copies_in_a_site_share_double_failures() {
    let n = 6;
    let plan = planned(&text(&[n], &[3], n * (n - 1) * (n - 2), 3, ""));
    for one in plan.failures.scenarios.iter().filter(|one| one.kind == plan::Kind::TwoServers) {
        let survivors: Vec<u32> = one.active.iter().copied().filter(|&active| active > 0).collect();
        let (least, most) = (survivors.iter().min().unwrap(), survivors.iter().max().unwrap());
        assert!(most - least <= 2, "{}: {survivors:?}", one.label);
    }
}

#[test]
fn rotated_remote_copies_spread_a_double_failure_over_more_servers() {
    let worst_rise = |extra: &str| {
        let plan = planned(&text(&[8, 8], &[2, 2], 336, 4, extra));
        let normal = plan.failures.scenarios[0].active.clone();
        plan.failures
            .scenarios
            .iter()
            .filter(|one| one.kind == plan::Kind::TwoServers)
            .map(|one| {
                (8..16)
                    .filter(|&server| one.lost_servers < 256 && one.active[server] > normal[server])
                    .count()
            })
            .max()
            .unwrap()
    };
    assert_eq!(worst_rise(""), 2);
    assert!(worst_rise("[layout]\nremote = \"rotated\"\n") > 2);
}

#[test]
fn a_lagged_copy_that_must_not_be_activated_does_not_count() {
    let extra = "lagged = 1\nlagged_can_activate = false\n";
    let with = |extra: &str| {
        planned(&text(&[8, 8], &[2, 2], 384, 4, "").replace("[copies]\n", &format!("[copies]\n{extra}")))
    };
    let plan = with(extra);
    assert_eq!(plan.bound.site_and_server, None);
    assert_eq!(plan.failures.fatal_servers, 3);
    let loses = |plan: &Plan, label: &str| {
        plan.failures.scenarios.iter().find(|one| one.label == label).unwrap().lost_databases
    };
    assert_eq!(loses(&plan, "site0"), 0);
    assert_eq!(loses(&plan, "site0 + s1-1"), 24);
    assert_eq!(loses(&with("lagged = 1\n"), "site0 + s1-1"), 0);
}

#[test]
fn logs_of_a_lagged_copy_are_kept_beyond_the_lag_unless_parity_is_asked_for() {
    let log_gb = |extra: &str| {
        let text = text(&[4], &[3], 12, 1, "").replace("[copies]\n", &format!("[copies]\n{extra}"));
        planned(&text).sizing.log_days
    };
    assert_eq!(log_gb(""), 3.0);
    assert_eq!(log_gb("lagged = 1\nlag_days = 7\n"), 10.0);
    assert_eq!(log_gb("lagged = 1\nlag_days = 7\nlag_log_rule = \"longer\"\n"), 7.0);
}

#[test]
fn several_groups_multiply_the_environment_only() {
    let one = planned(&text(&[4, 4], &[2, 1], 48, 2, ""));
    let three = planned(
        &text(&[4, 4], &[2, 1], 48, 2, "").replace("[dag]\n", "[dag]\ncount = 3\n").replace("9000", "27000"),
    );
    for (a, b) in one.sizing.rows.iter().zip(&three.sizing.rows) {
        let near = |x: Option<f64>, y: Option<f64>| match (x, y) {
            (Some(x), Some(y)) => (x - y).abs() <= 1e-9 * x.abs().max(1.0),
            (x, y) => x == y,
        };
        assert!(near(a.per_database, b.per_database) && near(a.per_server, b.per_server), "{}", a.key);
        assert!(near(a.per_environment.map(|value| 3.0 * value), b.per_environment), "{}", a.key);
    }
}

#[test]
fn what_cannot_be_is_refused_at_its_line() {
    let base = |servers: &[u32], copies: &[u32]| text(servers, copies, 48, 2, "");
    for (text, line, words) in [
        (base(&[3], &[4]), "per_site = [4]", "4 copies of a database need 4 servers, the group has 3"),
        (
            base(&[2, 8], &[3, 1]),
            "per_site = [3, 1]",
            "site `site0` has fewer servers than copies of a database",
        ),
        (base(&[17], &[2]), "count = 17", "a group has at most 16 members, this one has 17"),
        (base(&[9, 8], &[2]), "count = 8", "this one has 17"),
        (base(&[4], &[2, 1]), "per_site = [2, 1]", "copies in 2 sites are asked for, there are 1"),
        (base(&[4], &[0]), "per_site = [0]", "home site"),
        (
            base(&[4], &[2]).replace("databases = 48", "databases = 0"),
            "databases = 0",
            "`databases` must be a whole number from 1",
        ),
        (base(&[4], &[2]).replace("9000", "0"), "mailboxes = 0", "`mailboxes` must be"),
        (base(&[4], &[2]).replace("quota_mb = 1024\n", ""), "[profile]", "size of a mailbox"),
        (base(&[4], &[2]).replace("2016", "2003"), "[profile]", "sized with the I/O of a mailbox"),
        (base(&[4], &[2]) + "[under_test]\nfailed = [\"s0-9\"]\n", "failed = [\"s0-9\"]", "`s0-9`"),
        (
            base(&[4], &[2]).replace("per_site", "lagged = 2\nper_site"),
            "lagged = 2",
            "2 of 2 copies cannot be lagged",
        ),
        (
            base(&[4], &[2]) + "[[layout.database]]\nname = \"a\"\ncopies = [[\"s0-1\", 1], [\"s0-1\", 2]]\n",
            "copies = [[\"s0-1\", 1], [\"s0-1\", 2]]",
            "two copies on `s0-1`",
        ),
        (
            base(&[4], &[2]) + "[[layout.database]]\nname = \"a\"\ncopies = [[\"s0-1\", 1], [\"s0-2\", 3]]\n",
            "copies = [[\"s0-1\", 1], [\"s0-2\", 3]]",
            "activation preferences of `a` are not 1 to 2",
        ),
    ] {
        let error = refused(&text);
        assert!(error.message.contains(words), "{error}");
        assert_eq!(text.lines().nth(error.line() - 1), Some(line), "{error}");
        assert!(!error.message.contains('\n'));
    }
}

#[test]
fn a_database_that_is_larger_than_its_volume_fails_the_check() {
    let disk =
        "[[disk]]\nname = \"d\"\ncapacity_gb = 100\nrpm = 7200\n[[volume]]\nname = \"v\"\ndisk = \"d\"\n";
    let plan = planned(&(text(&[4], &[2], 48, 2, "") + disk));
    let fits = plan.checks.iter().find(|check| check.name == "storage fits").expect("it is checked");
    assert!(!plan.passed && fits.outcome == Outcome::Fail, "{}", plan.verdict);
    assert!(fits.detail.contains("93 GiB there"), "{}", fits.detail);
}

#[test]
fn an_imported_layout_is_checked_not_corrected() {
    let rows = |volume: u32| {
        format!(
            "[[layout.database]]\nname = \"a\"\nvolume = 1\ncopies = [[\"s0-1\", 1], [\"s0-2\", 2]]\n\
             [[layout.database]]\nname = \"b\"\nvolume = {volume}\ncopies = [[\"s0-2\", 2], [\"s0-1\", 1]]\n"
        )
    };
    let outcome = |plan: &Plan, name: &str| {
        plan.checks.iter().find(|check| check.name == name).map(|check| check.outcome).unwrap()
    };
    let base = text(&[2], &[2], 2, 1, "").replace("databases = 2\n", "");
    let good = planned(&(base.clone() + &rows(2)));
    assert!(good.layout.imported);
    assert_eq!(good.layout.databases[1].copies[0].server, 0);
    assert_eq!(outcome(&good, "databases per volume"), Outcome::Pass);
    assert_eq!(outcome(&good, "balance"), Outcome::Fail, "both are active on the first server");
    let crowded = planned(&(base + &rows(1)));
    assert_eq!(outcome(&crowded, "databases per volume"), Outcome::Fail);
    assert!(!crowded.passed);
}

#[test]
fn copies_in_one_enclosure_fail_the_check() {
    let text = "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = 10\nmessages_per_day = 50\n\
        quota_mb = 100\n[copies]\nper_site = [2]\n[[host]]\nname = \"a{n}\"\ncount = 2\nenclosure = \"A\"\n[[host]]\n\
        name = \"b{n}\"\ncount = 2\nenclosure = \"B\"\n[[layout.database]]\nname = \"d\"\ncopies = [[\"a1\", 1], [\"a2\", 2]]\n";
    let outcome = |text: &str| {
        let plan = planned(text);
        plan.checks.iter().find(|check| check.name == "copies in different enclosures").unwrap().outcome
    };
    assert_eq!(outcome(text), Outcome::Fail);
    assert_eq!(outcome(&text.replace("\"a2\", 2", "\"b1\", 2")), Outcome::Pass);
}

#[test]
fn writing_the_targets_keeps_everything_else() {
    let with = |load: &str| text(&[4], &[2], 12, 1, load);
    let write = |text: &str| {
        let solution = Solution::parse(text, "t.toml").unwrap();
        let plan = plan(&solution, &[]).unwrap();
        (plan::write_targets(&solution, &plan).unwrap(), plan.targets.target_iops)
    };
    let load = "\n# how hard\n[load] # here\nsessions = 3 # three\ntarget_iops = 1 # old\n# the end\n";
    let (edit, iops) = write(&with(load));
    assert_eq!(edit.text, with(&load.replace("target_iops = 1 #", &format!("target_iops = {iops} #"))));
    assert_eq!(edit.diff.lines().count(), 2);
    // Written again nothing changes.
    assert_eq!(write(&edit.text).0.diff, "");

    let (edit, _) = write(&with("[load] # here\nsessions = 3\n"));
    assert!(
        edit.text.ends_with(&format!("[load] # here\ntarget_iops = {iops}\nsessions = 3\n")),
        "{}",
        edit.text
    );
    assert_eq!(edit.diff.lines().count(), 1);
    let (edit, _) = write(&with(""));
    assert!(edit.text.ends_with(&format!("\n[load]\ntarget_iops = {iops}\n")));
    // The mix alone is no [load], and may stand before it.
    let mix = "[load.mix]\ninsert = 40\ndelete = 20\nreplace = 5\nread = 35\nlazy = 70\n";
    for load in [mix.to_owned(), format!("{mix}[load]\ncopies = 2\n")] {
        let (edit, _) = write(&with(&load));
        let written = Solution::parse(&edit.text, "t").unwrap().load;
        assert_eq!((written.target_iops, written.mix.lazy), (Some(iops), 70));
    }
    let inline = format!("load.copies = 2\n{}", with(""));
    let solution = Solution::parse(&inline, "t").unwrap();
    let refused = plan::write_targets(&solution, &plan(&solution, &[]).unwrap()).unwrap_err();
    assert!(refused.message.contains("no table of its own"), "{refused}");

    let (edit, _) = write(&with("[sizing]\nmailboxes = 1\n[load]\ntarget_iops = 1\n"));
    let solution = Solution::parse(&edit.text, "t").unwrap();
    assert_eq!(solution.load.target_iops, Some(iops));
    assert_eq!(&edit.text[solution.span("sizing.mailboxes").unwrap()], "3000");
}

#[test]
fn more_copies_than_enclosures_lie_on_different_servers_of_both() {
    for (first, second, copies) in [(4, 4, 2), (4, 4, 4), (5, 3, 3), (1, 7, 5), (2, 2, 4), (8, 8, 16)] {
        let text = format!(
            "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = 900\n\
             messages_per_day = 50\nquota_mb = 100\n[dag]\ndatabases = 60\ndatabases_per_volume = 2\n\
             [copies]\nper_site = [{copies}]\n[[host]]\nname = \"a{{n}}\"\ncount = {first}\nenclosure = \"A\"\n\
             [[host]]\nname = \"b{{n}}\"\ncount = {second}\nenclosure = \"B\"\n"
        );
        let plan = planned(&text);
        for database in &plan.layout.databases {
            let mut on: Vec<u8> = database.copies.iter().map(|copy| copy.server).collect();
            on.sort_unstable();
            on.dedup();
            assert_eq!(on.len(), copies, "{first} + {second}: {database:?}");
            let in_first = on.iter().filter(|&&server| u32::from(server) < first).count();
            assert!(in_first > 0 && in_first < copies, "{first} + {second}: {database:?}");
        }
    }
}
