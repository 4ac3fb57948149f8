//! `[[volume]]` and `[[pool]]`: names that nothing has are refused, and what lies on a host or in the
//! environment is counted once.

use plan::{Plan, plan};
use solution::Solution;

/// Four servers with two copies of 16 databases: eight copies on each.
fn text(dags: u32, extra: &str) -> String {
    let mailboxes = 4000 * dags;
    format!(
        "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = {mailboxes}\n\
         messages_per_day = 50\nquota_mb = 1024\n[dag]\ncount = {dags}\ndatabases = 16\n[copies]\nper_site = [2]\n\
         [[host]]\nname = \"s{{n}}\"\ncount = 4\n[[disk]]\nname = \"d\"\ncapacity_gb = 4000\nrpm = 7200\n\
         [[enclosure]]\nname = \"Shelf\"\nbays = 48\n[[pool]]\nname = \"Pool\"\ndisk = \"d\"\ndisks = 24\n\
         raid = \"raid10\"\n{extra}"
    )
}

fn planned(text: &str) -> Plan {
    let solution = Solution::parse(text, "t.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn volume(keys: &str) -> String {
    format!("[[volume]]\nname = \"v{{n}}\"\n{keys}\n")
}

#[test]
fn a_volume_that_cannot_be_is_refused_at_its_line() {
    for (keys, line, words) in [
        ("count = 8\npool = \"Poll\"", "pool = \"Poll\"", "no pool is called `Poll`"),
        ("count = 8\ndisk = \"e\"", "disk = \"e\"", "no disk is called `e`"),
        (
            "count = 8\ndisk = \"d\"\nraid = \"raid1\"",
            "[[volume]]",
            "cannot be made at this RAID level with disks = 1",
        ),
        (
            "count = 8\ndisk = \"d\"\nraid = \"raid10\"\ndisks = 3",
            "disks = 3",
            "cannot be made at this RAID level with disks = 3",
        ),
        (
            "count = 8\ndisk = \"d\"\nenclosure = \"Shell\"",
            "enclosure = \"Shell\"",
            "no enclosure is called `Shell`",
        ),
        ("count = 8\ndisk = \"d\"\nhost = \"t*\"", "host = \"t*\"", "no host is called `t*`"),
    ] {
        let text = text(1, &volume(keys));
        let error = Solution::parse(&text, "t.toml").expect_err(keys);
        assert!(error.message.contains(words), "{error}");
        assert_eq!(text.lines().nth(error.line() - 1), Some(line), "{error}");
    }
    planned(&text(1, &volume("count = 8\ndisk = \"d\"\nhost = \"s*\"\nenclosure = \"Shelf\"")));
}

#[test]
fn a_building_block_counts_the_disks_of_all_groups() {
    let extra = volume("count = 8\ndisk = \"d\"\ndisks = 2\nraid = \"raid1\"");
    let block = |dags: u32| {
        let own = text(dags, &extra).replace("[[pool]]", "[building_block]\nblocks = 1\n[[pool]]");
        let plan = planned(&own);
        assert_eq!(plan.storage.volumes[0].disks_in_all, 64 * dags);
        plan.growth[0].clone()
    };
    let (one, two) = (block(1), block(2));
    let pool = 24;
    assert_eq!((one.disks - pool, two.disks - pool), (64, 128));
    assert!((one.raw_tb - 4.0 * 88.0).abs() < 1e-9 && (two.raw_tb - 4.0 * 152.0).abs() < 1e-9);
    assert_eq!((two.hosts, two.mailboxes), (2 * one.hosts, 2.0 * one.mailboxes));
}

#[test]
fn volumes_of_two_kinds_on_a_host_hold_its_databases_together() {
    let misfits = |second: u32| -> Vec<String> {
        let extra = volume("count = 4\ndisk = \"d\"")
            + &format!("[[volume]]\nname = \"w{{n}}\"\ncount = {second}\ncapacity_gib = 4000\n");
        let plan = planned(&text(1, &extra));
        plan.storage.volumes.iter().flat_map(|used| used.misfits()).collect()
    };
    assert_eq!(misfits(4), Vec::<String>::new());
    assert_eq!(misfits(3), ["each host needs 8 volumes and has 7"]);
    let logs = volume("count = 8\ndisk = \"d\"")
        + "[[volume]]\nname = \"k{n}\"\ncount = 4\nrole = \"log\"\ncapacity_gib = 900\n\
           [[volume]]\nname = \"l{n}\"\ncount = 4\nrole = \"log\"\ncapacity_gib = 900\n";
    let plan = planned(&text(1, &logs));
    assert_eq!(plan.storage.volumes.iter().map(|used| used.databases).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn the_volumes_under_test_are_the_first_of_each_host_whatever_their_entry() {
    let raw_tb = |limit: u32| {
        let extra = volume("count = 4\ndisk = \"d\"")
            + "[[volume]]\nname = \"w{n}\"\ncount = 4\ndisk = \"d\"\n"
            + &format!("[under_test]\nvolumes_per_host = {limit}\n");
        let text = text(1, &extra);
        let pool = text.find("[[pool]]").unwrap()..text.find("[[volume]]").unwrap();
        planned(&text.replace(&text[pool], "")).storage.ratios.unwrap().raw_tb
    };
    // Disks of 4 TB in four hosts.
    assert_eq!([raw_tb(2), raw_tb(4), raw_tb(6), raw_tb(8)], [32.0, 64.0, 96.0, 128.0]);
    let in_second_entry = volume("count = 4\ndisk = \"d\"")
        + "[[volume]]\nname = \"w{n}\"\ncount = 4\npool = \"Pool\"\n[under_test]\nvolumes_per_host = 4\n";
    let ratios = planned(&text(1, &in_second_entry)).storage.ratios.unwrap();
    assert_eq!(ratios.raw_tb, 64.0, "a pool that no tested volume lies in is not under test");
}

#[test]
fn a_database_whose_logs_lie_in_its_pool_is_one_database() {
    let extra = volume("count = 8\npool = \"Pool\"")
        + "[[volume]]\nname = \"l{n}\"\ncount = 8\nrole = \"log\"\npool = \"Pool\"\n";
    let plan = planned(&text(1, &extra));
    assert_eq!(plan.storage.pools[0].databases, 32);
    let logs_alone = volume("count = 8\ndisk = \"d\"")
        + "[[volume]]\nname = \"l{n}\"\ncount = 8\nrole = \"log\"\npool = \"Pool\"\n";
    assert_eq!(planned(&text(1, &logs_alone)).storage.pools[0].databases, 32);
}

#[test]
fn the_ratios_are_over_the_pools_that_hold_what_is_tested() {
    let extra = volume("count = 8\npool = \"Pool\"");
    let ratios = |pools: u32, more: &str| {
        let text = text(1, &extra).replace("[[pool]]", &format!("[[pool]]\ncount = {pools}")) + more;
        planned(&text).storage.ratios.unwrap()
    };
    let (one, two) = (ratios(1, ""), ratios(2, ""));
    assert_eq!(one.database_tib, two.database_tib);
    assert!((two.formatted_tib - 2.0 * one.formatted_tib).abs() < 1e-9);
    assert!((two.raw_tb - 2.0 * one.raw_tb).abs() < 1e-9);
    // Half of the hosts, half of the pools.
    let half = ratios(2, "[under_test]\nhosts = [\"s1\", \"s2\"]\n");
    assert!((half.formatted_tib - one.formatted_tib).abs() < 1e-9);
    assert!((half.database_tib - one.database_tib / 2.0).abs() < 1e-9);
}
