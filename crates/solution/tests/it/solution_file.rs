//! What a solution file may say, what it becomes, and how mistakes are pointed at.

use std::collections::BTreeSet;

use solution::{Generation, LoadMode, Solution, SolutionError, TestKind};

const EMC: &str = include_str!("../../../../solutions/emc-cx3-20c-500.toml");
const LENOVO: &str = include_str!("../../../../solutions/lenovo-hx7510-30000.toml");
const LAPTOP: &str = include_str!("../../../../solutions/laptop.toml");

const SMALL: &str = r#"
[solution]
name = "small"
schema = 1

[[host]]
name = "S{n}"
count = 2

[[volume]]
name = "V{n}"
count = 2
path = "/data/{host}/v{n}"
capacity_gib = 100

[[instance]]
name = "DB{n:03}"
count = 8
volume = "V{n/4}"

[sizing]
percent_of_capacity = 80

[load]
target_iops = 100
"#;

fn parse(text: &str) -> Solution {
    Solution::parse(text, "small.toml").expect("parses")
}

fn with(replace: &str, by: &str) -> String {
    assert!(SMALL.contains(replace), "{replace}");
    SMALL.replacen(replace, by, 1)
}

/// The error of a text, and the part of the text it points at.
fn refused(text: &str) -> (Box<SolutionError>, String) {
    let error = match Solution::parse(text, "small.toml") {
        Err(error) => error,
        Ok(solution) => solution.deployment(Some("S1")).expect_err("must be refused"),
    };
    let place = error.text[error.span.clone()].to_owned();
    (error, place)
}

#[test]
fn meta_caches_are_spread_over_the_volumes_of_that_role_and_must_fit() {
    let volume =
        "[[volume]]\nname = \"F{n}\"\ncount = 2\nrole = \"meta_cache\"\npath = \"/f{n}\"\ncapacity_gib = 1\n";
    let small = format!(
        "{SMALL}\n[profile]\nexchange = \"se\"\nmailboxes = 100\nmessages_per_day = 100\nquota_mb = 100\n"
    );
    let text = |mib: u32| format!("{small}\n[engine]\nmeta_cache_mib = {mib}\n\n{volume}");
    let deployment = parse(&text(256)).deployment(Some("S1")).unwrap();
    let databases = deployment.instances.iter().flat_map(|instance| &instance.databases);
    let caches: Vec<_> = databases.map(|database| database.meta_cache.clone().unwrap()).collect();
    let dirs: Vec<_> = caches.iter().map(|cache| cache.dir.as_str()).collect();
    assert_eq!((dirs.len(), &dirs[..3]), (8, &["/f1/DB001", "/f2/DB002", "/f1/DB003"][..]));
    assert!(caches.iter().all(|cache| cache.bytes == 256 << 20));
    assert!(refused(&text(257)).0.to_string().contains("4 MetaCaches do not fit on volume `F1`"));
    let none = format!("{small}\n[engine]\nmeta_cache_mib = 1\n");
    assert!(refused(&none).0.to_string().contains("has no volume for MetaCaches"));
    let loss = format!("{small}\n[[test]]\nkind = \"metacache_loss\"\n");
    assert!(refused(&loss).0.to_string().contains("no MetaCache that could be lost"));
}

#[test]
fn classes_of_a_load_are_100_percent_together() {
    let of = |keys: &str| LAPTOP.replacen("[load]", &format!("[load]\n{keys}"), 1);
    let classes = |view| {
        format!("classes = {{ view = {view}, body = 20, delivery = 15, search = 10, index_update = 5 }}\n")
    };
    let deployment = Solution::parse(&of(&classes(50)), "laptop.toml").unwrap().deployment(None).unwrap();
    assert_eq!(deployment.load.classes.map(|classes| classes.shares()), Some([50, 20, 15, 10, 5]));
    assert!(refused(&of(&classes(51))).0.to_string().contains("add up to 101 percent, not to 100"));
}

#[test]
fn the_laptop_solution_is_four_databases_of_512_mib() {
    let deployment = Solution::parse(LAPTOP, "laptop.toml").unwrap().deployment(None).unwrap();
    assert_eq!(deployment.instances.len(), 4);
    for (i, instance) in deployment.instances.iter().enumerate() {
        assert_eq!(instance.log_dir, format!("./proofload-demo/v{0}/DB{0}", i + 1));
        assert_eq!((instance.page_bytes, instance.log_file_bytes), (32768, 1 << 20));
        assert_eq!(instance.databases[0].bytes, 512 << 20);
    }
    assert_eq!(deployment.tests[0].kind, TestKind::Init);
    assert_eq!(deployment.tests.len(), 13);
    let cache: u64 = deployment.instances.iter().map(|instance| instance.cache_max_bytes).sum();
    assert!(cache <= 128 << 20);
}

#[test]
fn templates_spread_databases_over_volumes_of_each_host() {
    let deployment = parse(SMALL).deployment(Some("S2")).unwrap();
    let dirs: Vec<&str> =
        deployment.instances.iter().map(|instance| instance.databases[0].dir.as_str()).collect();
    assert_eq!(dirs[3], "/data/S2/v1/DB004");
    assert_eq!(dirs[4], "/data/S2/v2/DB005");
    // 100 GiB x 80 % with a fifth of it for growth, four databases on it.
    assert_eq!(deployment.instances[0].databases[0].bytes, (100u64 << 30) * 80 / 100 * 4 / 5 / 4);
    assert_eq!(deployment.load.mode, LoadMode::PacedIops { iops: 100.0 });
}

#[test]
fn several_hosts_need_a_name() {
    let error = parse(SMALL).deployment(None).unwrap_err();
    assert_eq!(error.help.as_deref(), Some("S1, S2"));
    assert!(parse(SMALL).deployment(Some("S3")).is_err());
}

#[test]
fn an_empty_programme_is_the_published_one() {
    let tests = parse(SMALL).deployment(Some("S1")).unwrap().tests;
    let length = |kind| tests.iter().find(|test| test.kind == kind).unwrap();
    assert_eq!(length(TestKind::Performance).duration_s, 7200.0);
    assert_eq!(length(TestKind::Stress).duration_s, 86400.0);
    assert_eq!(length(TestKind::Performance).thresholds.read_max_ms, Some(100.0));
    assert_eq!(length(TestKind::Stress).thresholds.read_max_ms, Some(200.0));
}

#[test]
fn the_generation_decides_pages_logs_mix_and_thresholds() {
    let old = SMALL.replace("[[host]]", "[profile]\nexchange = \"2003\"\nmailboxes = 1\n\n[[host]]");
    let deployment = parse(&old).deployment(Some("S1")).unwrap();
    assert_eq!(deployment.generation, Generation::E2003);
    assert_eq!(deployment.instances[0].page_bytes, 4096);
    assert_eq!(deployment.instances[0].log_file_bytes, 5 << 20);
    assert_eq!(deployment.load.mix.replace, 68);
    assert_eq!(deployment.tests[2].thresholds.log_write_avg_ms, Some(20.0));
    assert_eq!(deployment.tests[2].thresholds.read_max_ms, None);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let (error, place) = refused(&with("target_iops", "target_iop"));
    assert_eq!(place, "target_iop");
    assert_eq!(error.message, "unknown key `target_iop`");
    assert_eq!(error.help.as_deref(), Some("did you mean `target_iops`?"));
    assert_eq!(error.line(), SMALL.lines().count());

    let (error, place) = refused(&format!("{SMALL}\n[lod]\nx = 1\n"));
    assert_eq!((place.as_str(), error.help.as_deref()), ("lod", Some("did you mean `load`?")));
}

#[test]
fn a_wrong_word_is_named_with_the_nearest_known_one() {
    let (error, place) = refused(&format!("{SMALL}\n[[test]]\nkind = \"performence\"\n"));
    assert_eq!(place, "\"performence\"");
    assert_eq!(error.help.as_deref(), Some("did you mean `performance`?"));
}

#[test]
fn every_mistake_points_at_its_line() {
    for (replace, by, place) in [
        ("schema = 1", "schema = 2", "2"),
        ("volume = \"V{n/4}\"", "volume = \"W{n/4}\"", "\"W{n/4}\""),
        ("count = 2\npath", "count = 0\npath", "0"),
        ("count = 8", "count = 5000", "5000"),
        ("\"DB{n:03}\"", "\"DB\"", "\"DB\""),
        ("\"DB{n:03}\"", "\"DB{x}\"", "\"DB{x}\""),
        ("percent_of_capacity = 80", "percent_of_capacity = 0", "0"),
        ("target_iops = 100", "target_iops = -1", "-1"),
        ("target_iops = 100", "sessions = 0", "0"),
        ("target_iops = 100", "iops = 5\nsessions = 2", "[load]"),
        ("target_iops = 100", "iops = nan", "nan"),
        ("name = \"S{n}\"", "name = \"S\"", "\"S\""),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\npage_kib = 5", "5"),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\ndatabases = 0", "0"),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\ndatabases = -1", "-1"),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\ndatabases = 256", "256"),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\ndatabases = []", "[]"),
        ("volume = \"V{n/4}\"", "volume = \"V{n/4}\"\nhost = \"T*\"", "\"T*\""),
        ("count = 2\npath", "count = 2\nhost = \"T\"\npath", "\"T\""),
        ("[load]", "[copies]\nper_site = [4294967295, 2]\n[load]", "4294967295"),
        ("[load]", "[copies]\nper_site = [16, 2]\n[load]", "[16, 2]"),
        ("[load]", "[under_test]\nvolumes_per_host = 3\n[load]", "3"),
        ("[load]", "[under_test]\nhosts = [\"S1\", \"T*\"]\n[load]", "\"T*\""),
        ("[load]", "[engine]\ncache_max_mib = 1\ncache_min_mib = 2\n[load]", "1"),
        ("[load]", "[thresholds]\nread_avg_ms = inf\n[load]", "inf"),
        ("[load]", "[thresholds]\nread_max_ms = nan\n[load]", "nan"),
        ("[load]", "[thresholds]\nlog_write_avg_ms = 0\n[load]", "0"),
        ("[load]", "[thresholds]\nlog_write_max_ms = -3\n[load]", "-3"),
        ("[load]", "[[test]]\nkind = \"tune\"\nthresholds = {read_max_ms = inf}\n[load]", "inf"),
        ("[load]", "[profile]\nexchange = \"2016\"\nmailboxes = 1\niops_per_mailbox = nan\n[load]", "nan"),
        (
            "[load]",
            "[profile]\nexchange = \"2016\"\nmailboxes = 1\ntest_iops_per_mailbox = inf\n[load]",
            "inf",
        ),
        (
            "[load]",
            "[load]\nmix = {insert = 1, delete = 1, replace = 1, read = 1, lazy = 1}",
            "{insert = 1, delete = 1, replace = 1, read = 1, lazy = 1}",
        ),
    ] {
        let (error, found) = refused(&with(replace, by));
        assert_eq!(found.lines().next(), Some(place), "{by}: {error}");
    }
}

#[test]
fn a_fault_at_no_time_or_for_no_time_is_refused_at_its_line() {
    for wrong in
        ["at_s = -1.0", "at_s = inf", "duration_s = -5.0", "duration_s = nan", "factor = 0.0", "factor = inf"]
    {
        let (error, place) = refused(&format!("{SMALL}\n[[fault]]\nkind = \"disk_slow\"\n{wrong}\n"));
        let (_, value) = wrong.split_once(" = ").expect("is a pair");
        assert!(error.to_string().contains("must be a number"), "{error}");
        assert_eq!(place, value);
    }
}

#[test]
fn a_fault_that_would_never_happen_is_refused_at_its_line() {
    for (wrong, message) in [("host = \"S9\"", "no host is called"), ("test = \"drill\"", "in a drill")] {
        let (error, place) = refused(&format!("{SMALL}\n[[fault]]\nkind = \"disk_slow\"\n{wrong}\n"));
        let (_, value) = wrong.split_once(" = ").expect("is a pair");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(place, value);
    }
}

#[test]
fn window_that_holds_a_batch_or_two_at_the_target_is_refused_at_its_line() {
    let paced = |iops: f64, seconds: u32, how: &str| {
        let load = SMALL.replace("target_iops = 100", &format!("target_iops = {iops}\n{how}"));
        format!("{load}\n[[test]]\nkind = \"performance\"\nduration_s = {seconds}\n")
    };
    let (error, place) = refused(&paced(2.0, 30, ""));
    assert!(error.message.contains("holds 1 of the 10 batches"), "{}", error.message);
    assert_eq!(
        (place.as_str(), error.help.as_deref()),
        ("2", Some("lengthen the window to 205 s, or raise target_iops"))
    );
    for enough in [paced(2.0, 205, ""), paced(2.0, 30, "sessions = 4\n")] {
        assert!(Solution::parse(&enough, "s.toml").is_ok());
    }
}

#[test]
fn hours_of_a_day_need_a_paced_load_and_a_peak_hour() {
    let hours = |busiest: &str| format!("hours_percent = [{}{busiest}]", "10, ".repeat(23));
    let with = |load: &str, busiest: &str| {
        SMALL.replace("target_iops = 100", &format!("{load}\n{}", hours(busiest)))
    };
    let solution = Solution::parse(&with("target_iops = 100", "100"), "s.toml").expect("it is valid");
    assert_eq!(solution.load.hours_percent.map(|hours| (hours[0], hours[23])), Some((10.0, 100.0)));
    for (load, busiest, told) in [
        ("sessions = 4", "100", "only a paced load can follow the hours of a day"),
        ("target_iops = 100", "99.5", "the busiest hour has 99.5"),
        ("target_iops = 100", "100, 10", "a day has 24 hours, and 25 are given"),
        ("target_iops = 100", "101", "from 0 to 100"),
    ] {
        let (error, _) = refused(&with(load, busiest));
        assert!(error.to_string().contains(told), "{load}, {busiest}: {error}");
    }
    // A tenth of the I/O needs ten times as long for its batches.
    let short = |busiest: &str| {
        let text = with("target_iops = 10", busiest);
        format!("{text}\n[[test]]\nkind = \"performance\"\nduration_s = 60\n")
    };
    assert!(refused(&short("100")).0.message.contains("holds 2 of the 10 batches"));
}

#[test]
fn a_restore_after_a_test_that_removes_logs_is_refused_at_its_line() {
    let campaign = |kinds: &[&str]| {
        kinds.iter().fold(SMALL.to_owned(), |text, kind| format!("{text}\n[[test]]\nkind = \"{kind}\"\n"))
    };
    for between in ["tune", "performance", "stress", "soft_recovery"] {
        let (error, place) = refused(&campaign(&["backup_to_disk", between, "database_checksum", "restore"]));
        assert!(error.message.contains(&format!("directly: {between} between")), "{}", error.message);
        assert_eq!(place, "\"restore\"");
    }
    let (error, _) = refused(&campaign(&["backup_to_disk", "log_generation", "backup", "restore"]));
    assert!(error.message.contains("directly: backup between"), "{}", error.message);
    for allowed in [
        &["backup_to_disk", "database_checksum", "log_checksum", "restore", "restore"][..],
        &["backup_to_disk", "backup", "log_generation", "restore", "soft_recovery"],
        &["backup_to_disk", "performance", "backup_to_disk", "restore", "stress"],
        // Of a backup that an earlier run has made.
        &["restore", "performance"],
    ] {
        assert_eq!(parse(&campaign(allowed)).deployment(Some("S1")).unwrap().tests.len(), allowed.len());
    }
}

#[test]
fn a_restore_looks_where_the_backup_before_it_went() {
    let folders = |tests: &str| -> Vec<Option<String>> {
        let tests = parse(&format!("{SMALL}\n{tests}")).deployment(Some("S1")).unwrap().tests;
        tests.into_iter().map(|test| test.backup_dir).collect()
    };
    let (first, second) = (Some("/data/S1/v1".to_owned()), Some("/data/S1/v2".to_owned()));
    let [backup, restore] =
        ["backup_to_disk", "restore"].map(|kind| format!("[[test]]\nkind = \"{kind}\"\n"));
    let on = |test: &str, volume: &str| format!("{test}volume = \"{volume}\"\n");
    let both = on(&backup, "V1") + &restore + &on(&backup, "V2") + &restore;
    assert_eq!(folders(&both), [first.clone(), first.clone(), second.clone(), second]);
    assert_eq!(folders(&(on(&backup, "V1") + &backup + &restore)), [first.clone(), None, None]);
    assert_eq!(folders(&(on(&backup, "V1") + &on(&restore, "V1"))), [first.clone(), first.clone()]);
    // Of a backup that an earlier run has made.
    assert_eq!(folders(&on(&restore, "V1")), [first]);
    for before in [backup.clone(), on(&backup, "V2")] {
        let (error, place) = refused(&format!("{SMALL}\n{before}{}", on(&restore, "V1")));
        assert!(error.message.contains("no backup to restore is on volume `V1`"), "{}", error.message);
        assert_eq!(place, "\"V1\"");
    }
}

#[test]
fn a_name_that_leads_out_of_its_volume_is_refused_at_its_line() {
    for name in ["../../evil{n}", "a/{n}", "/{n}", "", ".", "..", "n{n}\\u0000", "n#{n}"] {
        let (error, place) = refused(&with("\"DB{n:03}\"", &format!("\"{name}\"")));
        assert!(error.message.contains("can be called"), "{name}: {}", error.message);
        assert_eq!(place, format!("\"{name}\""));
        let list = format!("volume = \"V1\"\ndatabases = [{{name = \"{name}\"}}]");
        assert_eq!(refused(&with("volume = \"V{n/4}\"", &list)).1, format!("\"{name}\""));
        for by in [
            format!("[dag]\ndatabase_name = \"{name}\"\n[load]"),
            format!("[[layout.database]]\nname = \"{name}\"\ncopies = [[\"S1\", 1]]\n[load]"),
        ] {
            let text = with("[load]", &by);
            assert!(parse(&text).deployment(Some("S1")).is_ok(), "in a plan it is only a name");
            assert_eq!(refused(&format!("{text}{DRILL}")).1, format!("\"{name}\""), "a drill makes files");
        }
    }
    let harmless = parse(&with("\"DB{n:03}\"", "\"..DB {n} é..\"")).deployment(Some("S1")).unwrap();
    assert_eq!(harmless.instances[0].log_dir, "/data/S1/v1/..DB 1 é..");
}

#[test]
fn a_list_of_databases_keeps_the_place_of_a_mistake_in_it() {
    let list =
        "volume = \"V1\"\ndatabases = [{name = \"A{n}\", size_mib = 64}, {name = \"B{n}\", sise_mib = 3}]";
    let (error, place) = refused(&with("volume = \"V{n/4}\"", list));
    assert_eq!((place.as_str(), error.help.as_deref()), ("sise_mib", Some("did you mean `size_mib`?")));

    let deployment = parse(&with("volume = \"V{n/4}\"", &list.replace("sise_mib = 3", "size_mib = 32")))
        .deployment(Some("S1"))
        .unwrap();
    let second = &deployment.instances[1];
    assert_eq!(second.databases[1].name, "B2");
    assert_eq!(second.databases[1].bytes, 32 << 20);
    assert_eq!(second.cache_max_bytes, 512 << 20);
}

/// Messages of a text that is refused, in the order of the file.
fn mistakes(text: &str) -> Vec<String> {
    let error = Solution::parse(text, "small.toml").expect_err("it has mistakes");
    error.mistakes().map(|mistake| mistake.message).collect()
}

#[test]
fn mistakes_of_all_tables_are_told_together() {
    let told = |text: &str, words: &[&str]| {
        let said = mistakes(text);
        for words in words {
            assert!(said.iter().any(|one| one.contains(words)), "{words}: {said:#?}");
        }
    };
    let spelled = with("target_iops = 100", "target_iop = 100")
        + "[[test]]\nkind = \"performence\"\n[engine]\ncache_max_mib = 1\ncache_min_mib = 2\n[dag]\ncoun = 1\n";
    told(&spelled, &["`target_iop`", "`performence`", "unknown key `coun`"]);
    let meant = with("volume = \"V{n/4}\"", "volume = \"W{n/4}\"")
        + "[[fault]]\nkind = \"bit_rot\"\nfactor = 3\n[[test]]\nkind = \"restore\"\nvolume = \"X\"\n\
           [engine]\ncache_max_mib = 1\ncache_min_mib = 2\n";
    told(&meant, &["`W1`", "takes no factor", "`X`", "cannot be from"]);
}

#[test]
fn a_small_cache_needs_no_minimum() {
    let of = |engine: &str| {
        let text = with("[load]", &format!("[engine]\n{engine}\n[load]"));
        let deployment = parse(&text).deployment(Some("S2")).expect("a host");
        let instance = &deployment.instances[0];
        (instance.cache_min_bytes, instance.cache_max_bytes)
    };
    let (least, most) = of("cache_max_mib = 16");
    assert_eq!(least, most);
    let (least, most) = of("cache_max_mib = 64");
    assert_eq!(2 * least, most);
}

#[test]
fn a_mistake_hides_what_only_follows_from_it() {
    // Without the hosts nothing is known about their volumes; what is asked of the engine is.
    let hosts =
        with("name = \"S{n}\"", "nam = \"S{n}\"") + "[engine]\ncache_max_mib = 1\ncache_min_mib = 2\n";
    let said = mistakes(&hosts);
    assert!(said.len() == 2 && said[0].contains("unknown key `nam`"), "{said:#?}");
    let site = with("name = \"S{n}\"", "name = \"S{n}\"\nsite = \"A\"")
        + "[engine]\ncache_max_mib = 1\ncache_min_mib = 2\n";
    let said = mistakes(&site);
    assert!(said.len() == 2 && said[0].contains("no site is called `A`"), "{said:#?}");
    let number = with("count = 8", "count = \"eight\"");
    let window = format!("{SMALL}[[test]]\nkind = \"performance\"\nduration_s = -1\n");
    let store = LENOVO.replacen("store = {", "store = { node = 1,", 1);
    let quota = EMC.replacen("exchange = \"2003\"", "exchange = \"2004\"", 1);
    let cache = format!("{SMALL}[[test]]\nkind = \"metacache_loss\"\n[engine]\nmeta_cache_mib = -1\n");
    for text in [number, window, store, quota, cache] {
        assert_eq!(mistakes(&text).len(), 1, "{:#?}", mistakes(&text));
    }
}

#[test]
fn a_fleet_says_what_it_does_without_a_part() {
    use solution::WhenLost;
    let of = |text: &str| parse(&with("[load]", &format!("{text}\n[load]"))).fleet;
    let usual = of("");
    assert_eq!((usual.when_host_lost, usual.when_controller_lost), (WhenLost::Finish, WhenLost::Finish));
    let chosen = of("[fleet]\nwhen_host_lost = \"stop\"\ncontroller_lost_after_s = 5");
    assert_eq!((chosen.when_host_lost, chosen.controller_lost_after_s), (WhenLost::Stop, 5));
    let (error, place) = refused(&with("[load]", "[fleet]\nassemble_limit_s = 1\n[load]"));
    assert!(place == "1" && error.message.contains("from 5 to"), "{}", error.message);
}

#[test]
fn the_schema_knows_every_table() {
    let schema = Solution::json_schema();
    for table in ["solution", "profile", "host", "volume", "instance", "load", "test", "array", "fleet"] {
        assert!(schema["properties"].get(table).is_some(), "{table}");
    }
}

/// Keys of all tables below a schema.
fn keys(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) {
        found.extend(properties.keys().cloned());
    }
    match schema {
        serde_json::Value::Object(members) => members.values().for_each(|member| keys(member, found)),
        serde_json::Value::Array(members) => members.iter().for_each(|member| keys(member, found)),
        _ => {}
    }
}

#[test]
fn every_key_is_in_the_documents() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let texts = ["solution", "arrays", "simulate", "drills", "planning", "fleet"]
        .map(|name| std::fs::read_to_string(format!("{docs}/{name}.md")).expect("a document"));
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let known: BTreeSet<&str> = texts.iter().flat_map(|text| text.split(|c| !word(c))).collect();
    let mut found = BTreeSet::new();
    keys(&Solution::json_schema(), &mut found);
    let missing: Vec<&String> = found.iter().filter(|key| !known.contains(key.as_str())).collect();
    assert!(found.len() > 150 && missing.is_empty(), "{} keys, undocumented: {missing:?}", found.len());
}

proptest::proptest! {
    /// For every text, the answer is a value or an error with a place inside the text.
    #[test]
    fn any_text_gives_an_answer(cut in 0..SMALL.len(), junk in "[\\[\\]{}=\"a-z0-9\\n .-]{0,12}") {
        let text = format!("{}{junk}{}", &SMALL[..cut], &SMALL[cut..]);
        let answer = Solution::parse(&text, "x").and_then(|solution| solution.deployment(Some("S1")));
        if let Err(error) = answer {
            proptest::prop_assert!(error.text.get(error.span.clone()).is_some());
            proptest::prop_assert!(!error.message.is_empty());
        }
    }
}

const DRILL: &str = r#"
[copies]
per_site = [2]

[[test]]
kind = "performance"

[[test]]
kind = "drill"
duration_s = 300

[test.drill]
mount_dial = "good_availability"

[[test.drill.event]]
kind = "host_killed"
host = "S2"
at_s = 120

[[test.drill.event]]
kind = "volume_failed"
host = "S1"
volume = "V2"
at_s = 30
back_after_s = 60
"#;

#[test]
fn a_drill_is_its_failures_in_the_order_of_time() {
    let deployment = parse(&format!("{SMALL}{DRILL}")).deployment(Some("S1")).unwrap();
    let [performance, drill] = &deployment.tests[..] else { panic!("two tests") };
    assert_eq!(performance.drill, None);
    assert_eq!(drill.duration_s, 300.0);
    let drill = drill.drill.as_ref().expect("it says what fails");
    assert_eq!(drill.mount_dial, solution::MountDial::GoodAvailability);
    let seen: Vec<_> = drill.failures.iter().map(|f| (f.what.as_str(), f.at_s, f.back_at_s)).collect();
    let volume = "volume V2 of host S1 fails";
    assert_eq!(seen, [(volume, 30.0, Some(90.0)), ("host S2 is killed", 120.0, None)]);
    assert_eq!(drill.failures[1].hosts, ["S2"]);
}

#[test]
fn a_lost_site_takes_its_hosts_along() {
    let text = with("count = 2\n", "count = 2\nsite = \"A\"\n") + DRILL;
    let text = text.replace("schema = 1\n", "schema = 1\n[[site]]\nname = \"A\"\n");
    let text = text.replace("kind = \"host_killed\"\nhost = \"S2\"", "kind = \"site_lost\"\nsite = \"A\"");
    let drill = parse(&text).deployment(Some("S1")).unwrap().tests[1].drill.clone().unwrap();
    assert_eq!(drill.failures[1].what, "site A is lost");
    assert_eq!(drill.failures[1].hosts, ["S1", "S2"]);

    let text = text
        .replace("[[site]]", "[[site]]\nname = \"B\"\n[[site]]")
        .replace("\nsite = \"A\"\nat_s", "\nsite = \"B\"\nat_s");
    let (error, place) = refused(&text);
    assert_eq!((error.message.as_str(), place.as_str()), ("site `B` has no host", "[[site]]"));
}

#[test]
fn a_drill_that_cannot_be_is_refused_at_its_line() {
    let whole = format!("{SMALL}{DRILL}");
    for (wrong, by, points_at, says) in [
        ("host = \"S2\"\nat_s = 120", "host = \"S3\"\nat_s = 120", "\"S3\"", "no host is called"),
        ("volume = \"V2\"", "volume = \"V7\"", "\"V7\"", "no volume with databases is called"),
        ("volume = \"V2\"\n", "", "", "does not say which volume"),
        ("at_s = 120", "at_s = 301", "301", "cannot be"),
        ("back_after_s = 60", "back_after_s = 271", "271", "cannot be"),
        ("host = \"S2\"\nat_s = 120", "host = \"S1\"\nat_s = 60", "", "has failed already"),
        ("host = \"S2\"\nat_s = 120", "site = \"S2\"\nat_s = 120", "\"S2\"", "takes no site"),
        ("host = \"S2\"\nat_s = 120", "at_s = 120", "", "does not say which host"),
        ("kind = \"host_killed\"", "kind = \"host_kiled\"", "\"host_kiled\"", "unknown value"),
        ("kind = \"drill\"", "kind = \"stress\"", "", "has no drill"),
        ("per_site = [2]", "per_site = [1]", "[1]", "one copy of each database"),
        ("[copies]\nper_site = [2]\n", "", "[test.drill]", "one copy of each database"),
        ("kind = \"performance\"", "kind = \"drill\"", "\"drill\"", "does not say what fails"),
    ] {
        assert!(whole.contains(wrong), "{wrong}");
        let (error, place) = refused(&whole.replacen(wrong, by, 1));
        assert!(error.message.contains(says), "{by}: {}", error.message);
        assert!(place.contains(points_at), "{by}: {place}");
    }
    let (error, _) = refused(&format!("{whole}\n[[test]]\nkind = \"backup\"\n"));
    assert!(error.message.contains("nothing can follow it"), "{}", error.message);
}
