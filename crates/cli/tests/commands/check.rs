//! `proofload check`, and that no command refuses what another accepts for what the file says.

use serde_json::Value;

use crate::program::{folder_with, output, proofload};

/// A solution that every command takes: two servers with copies, an array, a fault and a drill.
const WHOLE: &str = r#"
[solution]
name = "Whole"
schema = 1
[profile]
exchange = "2016"
mailboxes = 100
messages_per_day = 150
quota_mb = 100
[dag]
databases = 2
[copies]
per_site = [2]
[[enclosure]]
name = "E"
hot_spares = 1
[[host]]
name = "h{n}"
count = 2
enclosure = "E"
copy_address = "127.0.0.1:700{n}"
[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000
rpm = 7200
[[pool]]
name = "P"
disk = "ST4000NM0023"
disks = 4
raid = "raid6"
[[volume]]
name = "V"
path = "data/{host}/v"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
[[volume]]
name = "W"
path = "data/{host}/w"
pool = "P"
capacity_gib = 1000
[array]
scope = "shared"
controller = "sas-array-2013"
controllers = 2
link = "sas-6g-x4"
links_per_host = 2
[[instance]]
name = "DB"
volume = "V"
[sizing]
database_mib = 64
[load]
target_iops = 100
[engine]
cache_max_mib = 32
[[test]]
kind = "performance"
duration_s = 10
[[test]]
kind = "backup_to_disk"
volume = "W"
[[test]]
kind = "drill"
duration_s = 60
[[test.drill.event]]
kind = "host_killed"
host = "h1"
at_s = 10
[[fault]]
kind = "disk_slow"
factor = 3
disk = 2
[under_test]
failed = ["h1"]
"#;

/// Mistakes: text of the file, text in its place, and a part of the message of every command.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("mailboxes = 100", "mailboxes = -100", "`mailboxes` must be"),
    ("capacity_gb = 4000", "capacity_gb = nan", "`capacity_gb` must be"),
    ("target_iops = 100", "target_ipos = 100", "unknown key `target_ipos`"),
    ("[[pool]]", "[[disk]]\nname = \"ST4000NM0023\"\ncapacity_gb = 1\n[[pool]]", "two [[disk]] are called"),
    ("name = \"h{n}\"", "name = \"h\"", "two hosts are called `h`"),
    ("name = \"V\"\npath", "name = \"W\"\npath", "two volumes called `W`"),
    ("per_site = [2]", "per_site = [3]", "3 copies of a database need 3 servers"),
    ("per_site = [2]", "per_site = [1]", "a drill needs further copies"),
    ("enclosure = \"E\"", "enclosure = \"F\"", "no enclosure is called `F`"),
    ("disk = \"ST4000NM0023\"\ndisks = 4", "disk = \"X\"\ndisks = 4", "no disk is called `X`"),
    ("disks = 4", "disks = 3", "pool `P` cannot be made at this RAID level with disks = 3"),
    ("raid = \"raid6\"", "raid = \"raid6\"\ngroup_disks = 2", "pool `P` has no disk left for data"),
    ("raid = \"raid6\"", "raid = \"raid6\"\nfast_disks = 2", "of what kind its 2 faster disks are"),
    ("raid = \"raid1\"", "raid = \"replica2\"", "need a pool with a replicated store"),
    ("pool = \"P\"\ncapacity_gib = 1000", "pool = \"P\"", "neither disks nor a pool with a capacity"),
    (
        "links_per_host = 2",
        "[array.remote_copy]\ndistance_km = 1\nlink = \"fc-8g\"\nwhen_link_lost = \"stall\"\n[array.read_cache]\ndisk = \"Y\"\ndisks = 1",
        "no disk is called `Y`",
    ),
    ("name = \"DB\"\nvolume = \"V\"", "name = \"DB\"\nvolume = \"U\"", "no volume under test is called `U`"),
    ("name = \"DB\"\n", "name = \"a/b\"\n", "can be called `a/b`"),
    ("database_mib = 64", "database_mib = 9000000", "need 8789.1 GiB, and it holds"),
    ("database_mib = 64", "database_mib = 64\nmailboxes = 5", "in exactly one way"),
    ("target_iops = 100", "iops = 5\nsessions = 5", "in exactly one way"),
    ("cache_max_mib = 32", "cache_max_mib = 16\ncache_min_mib = 32", "a page cache cannot be from 32 to 16"),
    ("volume = \"W\"\n[[test]]", "volume = \"U\"\n[[test]]", "no volume with a path is called `U`"),
    ("host = \"h1\"\nat_s", "host = \"h3\"\nat_s", "no host is called `h3`"),
    ("at_s = 10", "at_s = 61", "at_s = 61 cannot be"),
    ("kind = \"disk_slow\"", "kind = \"disk_slows\"", "unknown value `disk_slows`"),
    ("kind = \"disk_slow\"", "kind = \"disk_fails\"", "disk_fails takes no factor"),
    ("disk = 2\n[under", "disk = 3\n[under", "volume `V` has no disk of this number, the last is 2"),
    ("factor = 3\ndisk = 2", "host = \"h7\"", "no host is called `h7`"),
    ("kind = \"disk_slow\"\nfactor = 3\ndisk = 2", "kind = \"clone_read\"", "lies in no thin pool"),
    (
        "kind = \"disk_slow\"\nfactor = 3\ndisk = 2",
        "kind = \"node_dies\"",
        "on no node of a replicated store",
    ),
    (
        "kind = \"disk_slow\"\nfactor = 3\ndisk = 2",
        "kind = \"bit_rot\"\npage = 4000000",
        "no database has this page",
    ),
    ("failed = [\"h1\"]", "failed = [\"h9\"]", "no host, enclosure or site is called `h9`"),
    ("failed = [\"h1\"]", "hosts = [\"k*\"]", "no host is called `k*`"),
];

fn with(before: &str, after: &str) -> String {
    assert_eq!(WHOLE.matches(before).count(), 1, "{before}");
    WHOLE.replace(before, after)
}

fn check(text: &str) -> (i32, Value) {
    let folder = folder_with("s.toml", text);
    let (status, stdout, stderr) = output(folder.path(), &["check", "s.toml", "--json"]);
    let answer = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}\n{stdout}{stderr}"));
    (status, answer)
}

fn outlook<'a>(answer: &'a Value, command: &str) -> &'a Value {
    let commands = answer["commands"].as_array().expect("a list");
    commands.iter().find(|one| one["command"] == command).unwrap_or_else(|| panic!("{command}: {answer}"))
}

#[test]
fn every_command_refuses_a_mistake_with_the_same_words() {
    let commands: [&[&str]; 6] = [
        &["check", "s.toml"],
        &["plan", "s.toml"],
        &["simulate", "s.toml"],
        &["run", "s.toml", "--host", "h1", "--dry-run"],
        &["paper", "s.toml", "runs"],
        &["clean", "s.toml", "--host", "h1"],
    ];
    for (before, after, words) in MISTAKES {
        let folder = folder_with("s.toml", &with(before, after));
        let said: Vec<(Option<i32>, String)> = commands
            .iter()
            .map(|arguments| {
                let output = proofload(folder.path(), arguments).output().expect("it starts");
                (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
            })
            .collect();
        for (arguments, (status, stderr)) in commands.iter().zip(&said) {
            assert_eq!(*status, Some(2), "{after}: {arguments:?}: {stderr}");
            assert!(stderr.contains(words), "{after}: {arguments:?}: {stderr}");
            assert_eq!(*stderr, said[0].1, "{after}: {arguments:?}");
        }
    }
}

#[test]
fn a_file_without_mistakes_is_ready_for_every_command_and_every_command_takes_it() {
    let folder = folder_with("s.toml", WHOLE);
    let (status, stdout, stderr) = output(folder.path(), &["check", "s.toml"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    let ready = stdout.lines().filter(|line| line.contains(" ready ")).count();
    let lacking = if cfg!(feature = "fleet") { 0 } else { 1 };
    assert_eq!((ready, stdout.matches(" lacks ").count()), (6 - lacking, lacking), "{stdout}");
    assert!(!folder.path().join("runs").exists() && !folder.path().join("data").exists());

    let planned = output(folder.path(), &["plan", "s.toml"]);
    assert!(planned.0 <= 1, "{planned:?}");
    let dry = output(folder.path(), &["run", "s.toml", "--host", "h2", "--dry-run"]);
    assert_eq!(dry.0, 0, "{dry:?}");
    let simulated = output(folder.path(), &["simulate", "s.toml", "--servers", "2"]);
    assert!(simulated.0 <= 1 && simulated.2.contains("virtual time"), "{simulated:?}");
}

#[test]
fn what_a_command_lacks_is_said_by_check_as_by_the_command() {
    for (before, after, lacking, arguments) in [
        ("quota_mb = 100\n", "", "plan", &["plan", "s.toml"][..]),
        ("messages_per_day = 150\n", "", "plan", &["plan", "s.toml"]),
        ("database_mib = 64\n", "", "run --host NAME", &["run", "s.toml", "--host", "h1", "--dry-run"]),
        ("path = \"data/{host}/v\"\n", "", "simulate", &["simulate", "s.toml"]),
        ("target_iops = 100\n", "", "simulate", &["simulate", "s.toml"]),
        ("controller = \"sas-array-2013\"", "controller = \"tin\"", "simulate", &["simulate", "s.toml"]),
    ] {
        let text = with(before, after);
        // A fault and a backup would be on the volume without a path.
        let text = text[..text.find("[[fault]]").expect("it has one")].to_owned();
        let (status, answer) = check(&text);
        let said = outlook(&answer, lacking);
        assert_eq!((status, &said["ready"]), (0, &Value::Bool(false)), "{after}: {answer}");
        let folder = folder_with("s.toml", &text);
        let (status, _, stderr) = output(folder.path(), arguments);
        assert_eq!(status, 2, "{stderr}");
        let message = said["message"].as_str().expect("a text");
        assert!(stderr.contains(message), "{message}: {stderr}");
    }
}

#[test]
fn check_tells_all_mistakes_of_a_file_with_their_lines() {
    let text = WHOLE
        .replace("mailboxes = 100", "mailboxes = 0\nmailboxs = 3")
        .replace("target_iops = 100", "target_iops = 0")
        .replace("exchange = \"2016\"", "exchange = \"2061\"");
    let (status, answer) = check(&text);
    let mistakes = answer["mistakes"].as_array().expect("a list");
    assert_eq!((status, mistakes.len(), &answer["solution"]), (2, 4, &Value::Null), "{answer}");
    for (mistake, line) in
        mistakes.iter().zip(["exchange = \"2061\"", "mailboxes = 0", "mailboxs = 3", "target_iops = 0"])
    {
        let number = mistake["line"].as_u64().expect("a number") as usize;
        assert_eq!(text.lines().nth(number - 1), Some(line), "{mistake}");
    }

    let text = WHOLE
        .replace("volume = \"V\"", "volume = \"X\"")
        .replace("kind = \"host_killed\"", "kind = \"host_killed\"\nsite = \"S\"")
        .replace("kind = \"disk_slow\"", "kind = \"disk_fails\"")
        .replace("cache_max_mib = 32", "cache_max_mib = 31\ncache_min_mib = 32")
        .replace("per_site = [2]", "per_site = [2]\nlagged = 2")
        .replace("failed = [\"h1\"]", "failed = [\"h1\", \"h8\"]");
    let (status, answer) = check(&text);
    let said: Vec<&str> = answer["mistakes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["message"].as_str())
        .collect();
    assert_eq!((status, said.len()), (2, 6), "{said:#?}");
}

#[test]
fn check_needs_a_file_that_there_is() {
    let folder = folder_with("s.toml", "");
    let (status, stdout, stderr) = output(folder.path(), &["check", "t.toml"]);
    assert!(status == 2 && stdout.is_empty() && stderr.contains("cannot read t.toml"), "{stdout}{stderr}");
    let (status, answer) = check("schema = 1\n[");
    assert_eq!((status, answer["mistakes"].as_array().map(Vec::len)), (2, Some(1)), "{answer}");
}

#[test]
fn check_tells_what_a_simulation_will_cost_before_it_begins() {
    let said = |text: &str| {
        let (status, answer) = check(text);
        assert_eq!(status, 0, "{answer}");
        outlook(&answer, "simulate")["message"].as_str().expect("a text").to_owned()
    };
    let short = said(WHOLE);
    assert!(short.ends_with(" of processor time") && !short.contains(" min"), "{short}");
    // A day at a hundred times the rate.
    let long = with("kind = \"performance\"\nduration_s = 10", "kind = \"performance\"\nduration_s = 86400");
    let long = said(&long.replace("target_iops = 100", "target_iops = 10000"));
    assert!(long.contains("about 7 h"), "{long}");
    // A drill needs a rate.
    let closed = with("target_iops = 100", "sessions = 4096");
    let closed = said(closed.split("[[test]]\nkind = \"drill\"").next().expect("what comes before it"));
    assert!(closed.contains("the load has no rate") && closed.contains("`--until 2`"), "{closed}");
}
