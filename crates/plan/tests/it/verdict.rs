//! What a plan says of itself: it fails when something named is lost or too large, and never passes what it cannot
//! judge.

use plan::{Plan, plan};
use proptest::prelude::*;
use solution::Solution;

fn named(text: &str, scenarios: &[&[&str]]) -> Plan {
    let solution = Solution::parse(text, "t.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let scenarios: Vec<Vec<String>> =
        scenarios.iter().map(|names| names.iter().map(|&name| name.to_owned()).collect()).collect();
    plan(&solution, &scenarios).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn planned(text: &str) -> Plan {
    named(text, &[])
}

/// Outcome and sentence of the checks called `name`, as a reader of the JSON sees them.
fn checks(plan: &Plan, name: &str) -> Vec<(String, String)> {
    let json: serde_json::Value = serde_json::from_str(&plan.json()).expect("it is JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = json["checks"].as_array().expect("a list").iter();
    all.filter(|check| check["name"] == name)
        .map(|check| (text(&check["outcome"]), text(&check["detail"])))
        .collect()
}

fn outcomes(plan: &Plan, name: &str) -> Vec<String> {
    checks(plan, name).into_iter().map(|(outcome, _)| outcome).collect()
}

/// Servers in each of these sites with copies, and what `rest` adds.
fn solution(sites: &[u32], copies: &[u32], profile: &str, dag: &str, rest: &str) -> String {
    let mut text = format!(
        "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\n{profile}\n[dag]\n{dag}\n\
         [copies]\nper_site = {copies:?}\n"
    );
    for (site, count) in sites.iter().enumerate() {
        text += &format!("[[site]]\nname = \"site{site}\"\n");
        text += &format!("[[host]]\nname = \"s{site}-{{n}}\"\ncount = {count}\nsite = \"site{site}\"\n");
    }
    text + rest
}

const USERS: &str = "mailboxes = 4000\nmessages_per_day = 150\nquota_mb = 1024";

fn disks(capacity_gb: u32, count: u32) -> String {
    format!(
        "[[disk]]\nname = \"d\"\ncapacity_gb = {capacity_gb}\nrpm = 7200\n\
         [[volume]]\nname = \"v{{n}}\"\ncount = {count}\ndisk = \"d\"\n"
    )
}

#[test]
fn client_access_costs_a_mailbox_37_and_a_half_percent_more_processor() {
    let both = [true, false].map(|roles| plan::formula::active_mcycles(150.0, roles));
    assert!((both[0] - 0.0584375 * 150.0).abs() < 1e-12 && both[1] == 0.0425 * 150.0, "{both:?}");
}

#[test]
fn a_database_above_the_recommended_size_fails_the_plan() {
    let large = |copies: &[u32], dag: &str| {
        let users = "mailboxes = 1000\nmessages_per_day = 1\nquota_mb = 51200";
        planned(&solution(&[4], copies, users, dag, &disks(20_000, 20)))
    };
    for (copies, databases, outcome) in [(2, 20, "fail"), (2, 30, "pass"), (1, 30, "fail")] {
        let plan = large(&[copies], &format!("databases = {databases}"));
        assert_eq!(outcomes(&plan, "database size"), [outcome], "{copies} copies, {databases} databases");
        assert_eq!(plan.passed, outcome == "pass", "{:?}", plan.checks);
    }
    assert!(large(&[2], "databases = 20\nmax_database_gb = 3000").passed);
    assert!(!large(&[2], "databases = 30\nmax_database_gb = 1000").passed);
    // Derived, the size is kept instead of missed.
    let derived = large(&[2], "");
    assert!(derived.passed && derived.sizing.database_gb <= 2000.0, "{:?}", derived.checks);
    assert_eq!(derived.sizing.databases, 27);
}

#[test]
fn a_derived_number_of_databases_leaves_room_for_the_logs() {
    // The calculator's formula counts no logs: its number would need 1.02 times the disk.
    let text = solution(
        &[4],
        &[2],
        "mailboxes = 8000\nmessages_per_day = 200\nquota_mb = 2048",
        "",
        &disks(1000, 30),
    );
    let plan = planned(&text);
    assert!(plan.passed, "{:?}", plan.checks);
    let note = checks(&plan, "number of databases");
    assert!(note[0].1.contains("the calculator's formula gives"), "{note:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// If the storage is too small for the derived number of databases, it is too small for any number.
    #[test]
    fn a_derived_number_of_databases_holds_or_no_number_does(
        servers in 1u32..=6,
        copies in 1u32..=3,
        mailboxes in 100u32..20_000,
        messages in 0u32..400,
        quota_mb in 50u32..20_000,
        per_volume in 1u32..=5,
        volumes in 1u32..=12,
        capacity_gb in 300u32..16_000,
        lagged in any::<bool>(),
        separate_logs in any::<bool>(),
        symmetric in any::<bool>(),
    ) {
        let copies = copies.min(servers);
        let users = format!(
            "mailboxes = {mailboxes}\nmessages_per_day = {messages}\niops_per_mailbox = 0.05\nquota_mb = {quota_mb}"
        );
        let logs = "[[volume]]\nname = \"l{n}\"\ncount = 2\nrole = \"log\"\ncapacity_gib = 900\n";
        let rest = disks(capacity_gb, volumes) + if separate_logs { logs } else { "" };
        let with = |dag: &str| {
            let dag = format!("databases_per_volume = {per_volume}\n{dag}");
            let text = solution(&[servers], &[copies], &users, &dag, &rest);
            let lag = if lagged && copies > 1 { "lagged = 1\nper_site" } else { "per_site" };
            plan(&Solution::parse(&text.replacen("per_site", lag, 1), "t").unwrap(), &[])
        };
        let Ok(derived) = with(&format!("symmetric = {symmetric}")) else { return Ok(()) };
        let failed = |plan: &Plan| -> Vec<String> {
            let judged = ["database size", "databases per server", "databases per volume", "storage fits"];
            let fails = |name: &&str| outcomes(plan, name).contains(&"fail".to_owned());
            judged.into_iter().filter(fails).map(str::to_owned).collect()
        };
        let misses = failed(&derived);
        if misses.is_empty() || symmetric {
            return Ok(());
        }
        // Each server has room for this many.
        for databases in 1..=(volumes * per_volume * servers / copies) {
            if let Ok(other) = with(&format!("databases = {databases}")) {
                prop_assert!(
                    !failed(&other).is_empty(),
                    "{} databases derived miss {:?}; {databases} would hold", derived.sizing.databases, misses
                );
            }
        }
    }
}

#[test]
fn a_named_failure_that_loses_databases_fails_the_plan() {
    let text = solution(&[3], &[2], USERS, "databases = 12", "");
    assert!(planned(&text).passed);
    let survived = named(&text, &[&["s0-1"]]);
    assert!(survived.passed && outcomes(&survived, "named failure") == ["pass"], "{:?}", survived.checks);
    let lost = named(&text, &[&["s0-1"], &["s0-1", "s0-2"]]);
    assert!(!lost.passed);
    let found = checks(&lost, "named failure");
    assert_eq!((found[0].0.as_str(), found[1].0.as_str()), ("pass", "fail"));
    assert!(found[1].1.contains("4 of 12 databases have no copy left"), "{found:?}");
}

#[test]
fn a_named_failure_that_ends_service_without_losing_data_fails_the_plan() {
    let text =
        solution(&[2], &[2], USERS, "databases = 12", "").replace("count = 2", "count = 2\nmax_active = 8");
    assert!(planned(&text).passed);
    let plan = named(&text, &[&["s0-1"]]);
    let found = checks(&plan, "named failure");
    assert!(
        !plan.passed && found[0].1.contains("4 of 12 databases keep a copy that may not be active"),
        "{found:?}"
    );
}

#[test]
fn every_view_says_in_its_first_lines_what_the_failures_lose() {
    let one_copy = planned(&solution(&[3], &[1], USERS, "databases = 30", ""));
    let two_copies = planned(&solution(&[3], &[2], USERS, "databases = 30", ""));
    let one_case = named(&solution(&[3], &[2], USERS, "databases = 12", ""), &[&["s0-1", "s0-2"]]);
    for (plan, sentence) in [
        (&one_case, ": loses 4 of 12 databases"),
        (&one_copy, "one server: 3 of 3 cases lose databases, at most 10 of 30"),
        (&two_copies, "two servers: 3 of 3 cases lose databases, at most 10 of 30"),
    ] {
        let head: Vec<String> = plan::terminal(plan).lines().take(8).map(str::to_owned).collect();
        assert!(head.iter().any(|line| line.contains(sentence)), "{head:#?}");
        let page = plan::html(plan, "");
        let body = &page[page.find("<body>").expect("a body")..];
        let (at, table) = (body.find(sentence), body.find("<table>").expect("a table"));
        assert!(at.is_some_and(|at| at < table), "{}", &body[..table]);
        let json = plan.json();
        let (at, table) = (json.find(sentence), json.find("\"sizing\"").expect("sizing"));
        assert!(at.is_some_and(|at| at < table), "{}", &json[..table]);
    }
    let head = plan::terminal(&two_copies).lines().take(8).collect::<Vec<_>>().join("\n");
    assert!(!head.contains("one server:"), "{head}");
}

#[test]
fn a_volume_of_unknown_space_or_io_is_not_judged() {
    let of = |volume: &str| {
        planned(&solution(
            &[2],
            &[2],
            USERS,
            "databases = 4",
            &format!("[[volume]]\nname = \"v{{n}}\"\ncount = 4\n{volume}\n"),
        ))
    };
    let both = of("");
    let found = checks(&both, "storage fits");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "not_judged" && found[0].1.contains("v{n}: its space and its I/O"), "{found:?}");
    assert!(both.passed && plan::terminal(&both).contains("not judged"));
    let io = of("capacity_gib = 4000");
    assert!(checks(&io, "storage fits")[0].1.contains("v{n}: its I/O"), "{:?}", checks(&io, "storage fits"));
    let too_small = of("capacity_gib = 1300");
    assert_eq!(outcomes(&too_small, "storage fits"), ["fail", "not_judged"], "{:?}", too_small.checks);
    let nothing = planned(&solution(&[2], &[2], USERS, "databases = 4", ""));
    assert_eq!(outcomes(&nothing, "storage fits"), ["not_judged"]);
    let known = planned(&solution(&[2], &[2], USERS, "databases = 40", &disks(4000, 40)));
    assert_eq!(outcomes(&known, "storage fits"), ["pass"]);
}

#[test]
fn servers_of_unknown_processor_or_memory_are_not_judged() {
    let with = |keys: &str| {
        let text = solution(&[2], &[2], USERS, "databases = 4", "");
        planned(&text.replace("count = 2", &format!("count = 2\n{keys}")))
    };
    let unknown = with("");
    assert_eq!(
        (outcomes(&unknown, "processor"), outcomes(&unknown, "memory")),
        (vec!["not_judged".into()], vec!["not_judged".into()])
    );
    let known = with("cores = 20\nspecint_rate = 1000\nmemory_gib = 256");
    assert_eq!(
        (outcomes(&known, "processor"), outcomes(&known, "memory")),
        (vec!["pass".into()], vec!["pass".into()])
    );
}

#[test]
fn doubtful_figures_get_a_note() {
    for (figure, words) in [
        ("messages_per_day = 0\niops_per_mailbox = 0.1", "messages_per_day = 0"),
        ("messages_per_day = 150\nquota_mb = 10", "quota_mb = 10"),
        ("messages_per_day = 150\nread_percent = 0.6", "0.6 % and not 60 %"),
        ("messages_per_day = 150\nheadroom_percent = 0.2", "0.2 % and not 20 %"),
    ] {
        let quota = if figure.contains("quota_mb") { "" } else { "quota_mb = 1024\n" };
        let plan = planned(&solution(
            &[2],
            &[2],
            &format!("mailboxes = 400\n{quota}{figure}"),
            "databases = 40",
            "",
        ));
        let found = checks(&plan, "doubtful figure");
        assert!(
            found.len() == 1 && found[0].0 == "note" && found[0].1.contains(words),
            "{figure}: {found:?}"
        );
    }
    let usual = planned(&solution(&[2], &[2], USERS, "databases = 40", ""));
    assert!(checks(&usual, "doubtful figure").is_empty());
}
