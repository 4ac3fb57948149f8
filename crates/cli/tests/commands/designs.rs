//! From a design to its first verdict with one file: what the plan lays out is what `simulate` and `run` work with.

use crate::program::{folder_with, output};

/// Five tables and a line each for copies: what a user writes to have 12 databases on three servers planned.
const DESIGN: &str = r#"
[solution]
name = "three servers"
schema = 1

[profile]
exchange = "2016"
mailboxes = 1200
messages_per_day = 100
quota_mb = 2048

[copies]
per_site = [2]

[dag]
databases = 12

[[host]]
name = "b{n}"
count = 3
cores = 8
memory_gib = 64

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000
rpm = 7200

[[volume]]
name = "v{n}"
count = 8
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
path = "here/v{n}"

[array]
scope = "host"
controller = "sas-array-2013"
link = "sas-6g-x4"
"#;

/// Tests of a few seconds.
const SHORT: &str = "
[[test]]
kind = \"performance\"
duration_s = 20
warmup_limit_s = 5
";

#[test]
fn a_design_without_instances_is_simulated_with_the_databases_that_its_worst_failure_leaves_active() {
    let folder = folder_with("design.toml", &format!("{DESIGN}{SHORT}"));
    let (status, stdout, stderr) =
        output(folder.path(), &["simulate", "design.toml", "--tests", "performance", "--until", "20"]);
    assert!(matches!(status, 0 | 1), "{status} {stdout}{stderr}");
    let (status, stdout, stderr) = output(folder.path(), &["check", "design.toml"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(!stdout.contains("no instance"), "{stdout}");
}

#[test]
fn planned_instances_are_written_down_once_and_change_neither_plan_nor_run() {
    let folder = folder_with("design.toml", &format!("{DESIGN}{SHORT}"));
    let file = folder.path().join("design.toml");
    let plan = || output(folder.path(), &["plan", "design.toml", "--json"]).1;
    let dry_run = || output(folder.path(), &["run", "design.toml", "--dry-run", "--host", "b2"]).1;
    let (planned, told) = (plan(), dry_run());
    let (status, diff, stderr) = output(folder.path(), &["plan", "design.toml", "--write-instances"]);
    assert_eq!((status, stderr.trim()), (0, "not written; add --yes to write design.toml"), "{diff}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{DESIGN}{SHORT}"), "only shown");
    let (status, ..) = output(folder.path(), &["plan", "design.toml", "--write-instances", "--yes"]);
    assert_eq!(status, 0);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with(&format!("{DESIGN}{SHORT}")), "what the user wrote stays: {written}");
    // 12 databases on the two servers that are left.
    assert_eq!(written.matches("[[instance]]").count(), 12, "{written}");
    let of_plan = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["layout"].clone();
    assert_eq!(of_plan(&plan()), of_plan(&planned));
    assert_eq!(dry_run(), told);
    let (status, _, stderr) = output(folder.path(), &["plan", "design.toml", "--write-instances", "--yes"]);
    assert_eq!((status, stderr.trim()), (0, "design.toml says so already"));
}

#[test]
fn search_without_a_file_chooses_from_the_shipped_catalogue() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../solutions/");
    let folder = folder_with("c.toml", &std::fs::read_to_string(format!("{shipped}catalogue.toml")).unwrap());
    let solution = format!("{shipped}dell-md3260-15000.toml");
    let found = |catalogue: &[&str]| {
        let arguments = [&["plan", &solution, "--json", "--search"], catalogue].concat();
        output(folder.path(), &arguments)
    };
    let (status, designs, stderr) = found(&[]);
    assert_eq!((status, &designs), (0, &found(&["c.toml"]).1), "{stderr}");
}

#[test]
fn plan_exports_only_into_a_folder_that_is_empty() {
    let folder = folder_with("d.toml", include_str!("../../../../solutions/laptop.toml"));
    let (status, _, stderr) = output(folder.path(), &["plan", "d.toml", "--export", "out/group"]);
    assert_eq!(status, 0, "{stderr}");
    let rows =
        std::fs::read_to_string(folder.path().join("out/group/MailboxDatabases.csv")).expect("it is there");
    let (status, _, stderr) = output(folder.path(), &["plan", "d.toml", "--export", "out/group"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("out/group is not empty"), "{stderr}");
    let again = std::fs::read_to_string(folder.path().join("out/group/MailboxDatabases.csv"));
    assert_eq!(again.expect("it is there"), rows, "nothing was changed");
}

#[test]
fn import_takes_the_folder_of_an_exported_group() {
    let folder = folder_with("d.toml", DESIGN);
    let (status, _, stderr) = output(folder.path(), &["plan", "d.toml", "--export", "group"]);
    assert_eq!(status, 0, "{stderr}");
    let (status, _, stderr) = output(folder.path(), &["import", "group", "--out", "back"]);
    assert_eq!(status, 0, "{stderr}");
    let plan = |file: &str| {
        let users = ["exchange=\"2016\"", "mailboxes=1200", "messages_per_day=100", "quota_mb=2048"]
            .map(|key| format!("profile.{key}"));
        let mut arguments = vec!["plan", file, "--json"];
        users.iter().for_each(|user| arguments.extend(["--set", user]));
        let (_, stdout, stderr) = output(folder.path(), &arguments);
        let plan: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
        plan["layout"]["databases"].clone()
    };
    assert_eq!(plan("d.toml"), plan("back/solution.toml"));
    std::fs::write(folder.path().join("group/DAGInfo.csv"), "DAGName\n\"DAG1").expect("writable");
    let (status, _, stderr) = output(folder.path(), &["import", "group", "--out", "again"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("DAGInfo.csv:2: a quote opens here"), "{stderr}");
}

#[test]
fn profile_of_performance_counters_is_planned_with() {
    let path = |counter| {
        format!(
            r#""\\S1\MSExchange Database ==> Instances(Information Store - DB1/_Total)\I/O Database {counter} (Attached)/sec""#
        )
    };
    let mut log = format!("\"(PDH-CSV 4.0)\",{},{}\r\n", path("Reads"), path("Writes"));
    for minute in 0..=120 {
        let (hour, minute) = (9 + minute / 60, minute % 60);
        log += &format!("\"11/02/2026 {hour:02}:{minute:02}:00.000\",\"180\",\"60\"\r\n");
    }
    let folder = folder_with("s1.csv", &log);
    let (status, _, stderr) =
        output(folder.path(), &["import", "s1.csv", "--mailboxes", "1200", "--out", "counters"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("note: no day has log counts for 23 hours"), "{stderr}");
    let profile = std::fs::read_to_string(folder.path().join("counters/profile.toml")).expect("it is there");
    let (of_users, _) = profile.split_once("[load]").expect("it has the hours of a day");
    let keys: Vec<&str> = of_users
        .lines()
        .filter(|line| line.contains(" = ") && !line.starts_with(['#']) && !line.starts_with("mailboxes"))
        .collect();
    let design =
        DESIGN.replace("messages_per_day = 100", &format!("messages_per_day = 100\n{}", keys.join("\n")));
    std::fs::write(folder.path().join("d.toml"), design).expect("writable");
    let (_, stdout, stderr) = output(folder.path(), &["plan", "d.toml"]);
    assert!(
        stdout.contains("0.2000 I/O per second and mailbox (0.2400 with headroom)"),
        "{keys:?} {stdout}{stderr}"
    );
}
