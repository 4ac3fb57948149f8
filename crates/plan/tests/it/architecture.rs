//! Exchange 2019 and SE: their own constants, and each rule of the Preferred Architecture kept and broken.

use plan::{Compliance, Outcome, Plan, plan};
use solution::Solution;

const GOLDEN: &str = include_str!("../../../../solutions/exchange-se-golden.toml");

/// Changes that remove the SSDs of the MetaCache from the golden example.
const WITHOUT_SSD: [(&str, &str); 2] =
    [("role = \"meta_cache\"", "role = \"backup\""), ("kind = \"metacache_loss\"", "kind = \"stress\"")];

/// Plan of the golden example with these texts replaced everywhere in the file.
fn changed(changes: &[(&str, &str)]) -> Plan {
    let text = changes.iter().fold(GOLDEN.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "nothing to change: {from}");
        text.replace(from, to)
    });
    let solution = Solution::parse(&text, "se.toml").unwrap_or_else(|error| panic!("{error}"));
    plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn rules_with(plan: &Plan, outcome: Compliance) -> Vec<&'static str> {
    plan.architecture.iter().filter(|rule| rule.outcome == outcome).map(|rule| rule.rule).collect()
}

#[test]
fn golden_example_keeps_every_rule_and_every_view_names_them() {
    let plan = changed(&[]);
    assert_eq!(rules_with(&plan, Compliance::Broken), [""; 0]);
    assert_eq!(rules_with(&plan, Compliance::NotJudged), [""; 0]);
    assert!(plan.passed, "{}", plan.verdict);
    let (terminal, page, json) = (plan::terminal(&plan), plan::html(&plan, ""), plan.json());
    let terminal = terminal.replace("\n      ", " ");
    for rule in &plan.architecture {
        for view in [&terminal, &page, &json] {
            assert!(view.contains(rule.rule) && view.contains(rule.source), "{}", rule.rule);
        }
    }
    assert!(terminal.contains("mailboxes on Exchange SE;"), "{terminal}");
}

#[test]
fn each_rule_is_broken_by_what_it_forbids_and_fails_no_plan() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("memory_gib = 192", "memory_gib = 512")], "memory of a server: 128 to 256 GB"),
        (&[("cores = 40", "cores = 64")], "at most 48 cores in a server"),
        (
            &[("specint2017_rate = 200", "specint2017_rate = 60")],
            "at most 80 % of the processor in the worst failure",
        ),
        (&[("disks = 2\nraid = \"raid1\"", "disks = 1")], "system and transport on a RAID 1 pair"),
        (&[("rpm = 7200", "rpm = 10000\nrandom_iops = 100")], "databases on single 7,200 rpm disks (JBOD)"),
        (&[("databases_per_volume = 4", "databases_per_volume = 8")], "at most 4 database copies on a disk"),
        (
            &[
                ("databases = 96", "databases = 192"),
                ("databases_per_volume = 4", "databases_per_volume = 8"),
            ],
            "at most 1 active copy on a disk",
        ),
        (&[("per_site = [2, 2]", "per_site = [1, 1]")], "at least 3 copies of a database and 1 lagged copy"),
        (&[("lag_days = 7", "lag_days = 3")], "a replay lag of 7 days"),
        (
            &[("lag_days = 7", "lag_days = 7\nlagged_can_activate = false")],
            "Replay Lag Manager plays a lagged copy forward when it is needed",
        ),
        (&[("role = \"auto_reseed\"", "role = \"restore\"")], "a spare disk for AutoReseed in each server"),
        (&[("count = 4", "count = 2"), ("\"A3\", \"A4\"", "")], "8 members or more in a group"),
        (
            &[("name = \"Site B\"", "name = \"Site B\"\nactive = false")],
            "as many servers in each site, at most two sites, both active",
        ),
        (
            &[(
                "link = \"pcie-raid\"",
                "link = \"pcie-raid\"\nread_cache = { disk = \"480 GB\", disks = 1 }",
            )],
            "no tiering or cache of an array under the databases",
        ),
        (
            &[("name = \"MetaCache{n}\"\ncount = 4", "name = \"MetaCache{n}\"\ncount = 3")],
            "1 SSD for the MetaCache to 3 database disks",
        ),
        (
            &[("capacity_gb = 1920", "capacity_gb = 960")],
            "SSDs with 5 to 10 % of the capacity of the database disks",
        ),
        (
            &[("name = \"MetaCache{n}\"\ncount = 4", "name = \"MetaCache{n}\"\nhost = \"A*\"\ncount = 4")],
            "SSDs alike, as many in each server",
        ),
        (&[("capacity_gb = 1920", "capacity_gb = 100")], "SSDs for 1 drive write a day suffice"),
    ];
    for (changes, rule) in cases {
        let plan = changed(changes);
        let broken = rules_with(&plan, Compliance::Broken);
        assert!(broken.contains(rule), "{rule}: {broken:?}");
        let check =
            plan.checks.iter().find(|check| check.name == "preferred architecture").expect("it is there");
        assert!(check.outcome == Outcome::Note && check.detail.contains(rule), "{rule}: {check:?}");
    }
}

#[test]
fn what_the_file_does_not_say_is_not_judged() {
    let plan = changed(&[("cores = 40\n", ""), ("memory_gib = 192\n", "")]);
    let open = rules_with(&plan, Compliance::NotJudged);
    assert_eq!(open[..2], ["memory of a server: 128 to 256 GB", "at most 48 cores in a server"], "{open:?}");
    let open = rules_with(&changed(&WITHOUT_SSD), Compliance::NotJudged);
    assert_eq!(open.iter().filter(|rule| rule.contains("SSD")).count(), 4, "{open:?}");
}

/// By hand: 4 x 1.92 TB are 7,152.6 GiB; 95 % of that for 48 copies are 141.56 GiB each. A copy of 83.33 mailboxes has
/// 83.33 x 0.1206 x 40 % = 4.02 page writes a second; 48 of them write 508.8 GiB a day. 83.33 mailboxes of 16,169 MB
/// on disk are 1,315.8 GB.
#[test]
fn meta_cache_figures_of_the_golden_example_are_those_computed_by_hand() {
    let plan = changed(&[]);
    let figure = |key: &str| plan.figures.iter().find(|one| one.key == key).expect("a figure").value;
    let near =
        |key: &str, value: f64| assert!((figure(key) / value - 1.0).abs() < 1e-3, "{key}: {}", figure(key));
    near("meta_cache_gib", 7152.6);
    near("meta_cache_share_of_disks", 6.4);
    near("meta_cache_gib_per_copy", 141.56);
    near("meta_cache_share_of_database", 141.56 / 1315.8 * 100.0);
    near("meta_cache_copies_per_ssd", 12.0);
    near("meta_cache_drive_writes_per_day", 508.8 / 7152.6);
    for (key, value) in [
        ("auto_dag_total_number_of_databases", 96.0),
        ("auto_dag_total_number_of_servers", 8.0),
        ("auto_dag_database_copies_per_database", 4.0),
        ("auto_dag_database_copies_per_volume", 4.0),
    ] {
        assert_eq!(figure(key), value, "{key}");
    }
    // 12 of 48 copies active: 1,000 x 8.766 + 3,000 x 2.055 megacycles of 200 x 9 x 2000 / 33.75.
    near("cpu_percent_normal", 14_930.6 / 106_666.7 * 100.0);
    near("cpu_percent_site", (2000.0 * 8.765_625 + 2000.0 * 2.055) / 106_666.7 * 100.0);
    for view in [plan::terminal(&plan), plan::html(&plan, "").replace("&#x2f;", "/")] {
        for one in &plan.figures {
            assert!(view.contains(one.label) && view.contains(one.source), "{}", one.label);
        }
    }
}

#[test]
fn databases_of_a_test_get_the_meta_cache_of_the_plan_unless_the_file_says_how_large() {
    let spec = |text: &str| {
        let solution = plan::to_run(Solution::parse(text, "se.toml").unwrap()).unwrap();
        let deployment = solution.deployment(Some("A1")).unwrap();
        let databases = deployment.instances.iter().flat_map(|instance| &instance.databases);
        databases
            .map(|database| database.meta_cache.clone().map(|cache| cache.bytes >> 20))
            .collect::<Vec<_>>()
    };
    // 95 % of 1.92 TB for the 12 copies of an SSD.
    assert_eq!(spec(GOLDEN), [Some(144_958); 24]);
    let with_table =
        |keys: &str| GOLDEN.replace("[under_test]", &format!("[engine]\n{keys}\n\n[under_test]"));
    assert_eq!(spec(&with_table("cache_max_mib = 512")), [Some(144_958); 24]);
    assert_eq!(spec(&with_table("meta_cache_mib = 7")), [Some(7); 24]);
    let no_folder = GOLDEN.replace("path = \"/exchange/metacache{n}\"\n", "");
    assert_eq!(spec(&no_folder.replace("metacache_loss", "stress")), [None; 24]);
}

#[test]
fn meta_cache_is_refused_at_its_line_before_2019() {
    let text = GOLDEN.replace("exchange = \"se\"", "exchange = \"2016\"");
    let error = Solution::parse(&text, "old.toml").expect_err("2016 has none");
    assert_eq!(error.message, "Exchange 2016 has no MetaCache database");
    let line = text.lines().position(|line| line == "role = \"meta_cache\"").expect("it is there") + 1;
    assert_eq!(error.line(), line);
}

#[test]
fn generations_before_2019_have_no_such_rules() {
    let plan = changed(&[&[("exchange = \"se\"", "exchange = \"2016\"")], &WITHOUT_SSD[..]].concat());
    assert!(plan.architecture.is_empty());
    assert!(!plan::terminal(&plan).contains("Preferred Architecture"));
    assert!(plan.checks.iter().all(|check| check.name != "preferred architecture"));
}

#[test]
fn index_of_2019_and_se_lies_inside_the_database_and_is_not_shipped() {
    let of = |generation: &str| {
        let exchange = format!("exchange = \"{generation}\"");
        let plan = changed(&[&[("exchange = \"se\"", &exchange[..])], &WITHOUT_SSD[..]].concat());
        let per_database = |key: &str| plan.sizing.row(key).and_then(|row| row.per_database).expect("a row");
        ["database_gb", "log_gb", "database_volume_gb", "replication_mbit_per_s"].map(per_database)
    };
    let (old, new, se) = (of("2016"), of("2019"), of("se"));
    assert_eq!(new, se);
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(close(se[2], (se[0] + se[1]) / 0.95), "{se:?}: nothing but database, logs and free space");
    assert!(close(old[2], (old[0] * 1.25 + old[1]) / 0.95), "{old:?}");
    assert!(close(se[3] / old[3], 0.7 / 1.7), "{se:?} {old:?}");
    let plan = changed(&[]);
    for name in ["figures of 2016", "content index", "SPECint2017"] {
        assert!(plan.checks.iter().any(|check| check.name == name), "{name}");
    }
}

/// Nine SPECint2006 for one SPECint2017; the older rate counts where both are given.
#[test]
fn specint2017_rate_stands_in_for_the_rate_of_2006() {
    let share = |plan: &Plan| plan.sizing.server.cpu_share.expect("a rate is given");
    let new = share(&changed(&[]));
    assert!((new - share(&changed(&[("specint2017_rate = 200", "specint_rate = 1800")]))).abs() < 1e-12);
    let both = changed(&[("specint2017_rate = 200", "specint2017_rate = 200\nspecint_rate = 900")]);
    assert!((share(&both) - 2.0 * new).abs() < 1e-12);
    assert!(both.checks.iter().all(|check| check.name != "SPECint2017"));
}
