//! What an export promises: the same plan again, the calculator's columns, and names that stay data everywhere.

use std::io::Write;
use std::process::{Command, Stdio};

use plan::{Plan, active_limits, csv, export, plan};
use solution::Solution;

use crate::views::SOLUTIONS;

fn planned(text: &str) -> (Solution, Plan) {
    let solution = Solution::parse(text, "t.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (solution, plan)
}

fn files(text: &str) -> Vec<(&'static str, String)> {
    let (solution, plan) = planned(text);
    export(&solution, &plan).unwrap_or_else(|error| panic!("{error}"))
}

fn file(text: &str, name: &str) -> String {
    files(text).into_iter().find(|(file, _)| *file == name).expect("the file is exported").1
}

/// Solution with two sites that each have these hosts, and with this database name.
fn group(hosts: &[&str], database: &str, rest: &str) -> String {
    let mut text = format!(
        "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = 4000\n\
         messages_per_day = 150\nquota_mb = 51200\n[dag]\ndatabases_per_volume = 4\ndatabase_name = {}\n{rest}\n\
         [copies]\nper_site = [2, 2]\nlagged = 1\nlag_days = 14\n",
        toml::Value::String(database.into())
    );
    for site in ["A", "B"] {
        text += &format!("[[site]]\nname = \"{site}\"\n");
        for host in hosts {
            let name = toml::Value::String(format!("{host}{site}"));
            text += &format!("[[host]]\nname = {name}\nsite = \"{site}\"\n");
        }
    }
    text
}

fn six_by_two() -> String {
    group(&["1", "2", "3", "4", "5", "6"], "DAG1-DB{n:03}", "databases = 216")
}

#[test]
fn exported_solution_file_has_the_same_plan() {
    let uneven = group(&["1", "2", "3"], "DB{n}", "databases = 17");
    for text in SOLUTIONS.iter().map(|&(_, text)| text).chain([uneven.as_str()]) {
        let (_, first) = planned(text);
        let (_, mut second) = planned(&file(text, "solution.toml"));
        assert!(second.layout.imported, "the layout is listed");
        second.layout.imported = first.layout.imported;
        // A number of databases that is listed needs no reason.
        second.checks.retain(|check| check.name != "number of databases");
        let mut first = first;
        first.checks.retain(|check| check.name != "number of databases");
        assert_eq!(first, second);
    }
}

#[test]
fn calculator_files_have_the_columns_that_its_scripts_read() {
    let first_lines = |name| {
        let text = file(&six_by_two(), name);
        text.lines().take(3).map(|line| line.replace('"', "")).collect::<Vec<_>>()
    };
    let servers = first_lines("Servers.csv");
    assert_eq!(
        servers[0],
        "ServerName,StartDrive,DbPerVolume,AutoReseedVolumes,DbLogIsolation,VolumesRootFolder,\
         DatabasesRootFolder,DbMap"
    );
    assert_eq!(servers[1], "VersionNumber,2.1,7.6,,,,,");
    assert!(
        servers[2].starts_with(r"1A,2,4,0,0,C:\ExchangeVolumes,C:\ExchangeDatabases,DAG1-DB001,"),
        "{}",
        servers[2]
    );
    let copies = first_lines("MailboxDatabaseCopies.csv");
    assert_eq!(copies[0], "GC,GC2,Name,Server,ActivationPreference,ReplayLagTime,TruncationLagTime");
    assert_eq!(copies[1], "VersionNumber,2.1,7.6,,,,");
    assert_eq!(copies[2], ",,DAG1-DB001,2A,2,0.00:00:00,0.00:00:00");
    let databases = first_lines("MailboxDatabases.csv");
    assert!(databases[0].starts_with("Name,Server,DBFilePath,EDBFilePath,LogFolderPath,"));
    let folder = r"C:\ExchangeDatabases\DAG1-DB001\DAG1-DB001";
    let row = format!("DAG1-DB001,1A,{folder}.db\\DAG1-DB001.edb,");
    assert!(databases[2].starts_with(&row), "{}", databases[2]);
    assert!(databases[2].contains("53760 MB,51200 MB,48640 MB"), "{}", databases[2]);
    let lagged = file(&six_by_two(), "MailboxDatabaseCopies.csv");
    assert_eq!(lagged.matches("14.00:00:00").count(), 216, "the last copy of each database lags");
}

/// The published calculator export for this group (216 databases, 6 + 6 servers, 2 + 2 copies) prints 44 and 25.
#[test]
fn active_limits_are_those_of_a_published_calculator_export() {
    let (solution, plan) = planned(&six_by_two());
    for limits in active_limits(&solution, &plan) {
        assert_eq!((limits.maximum, limits.preferred), (44, 25));
    }
}

#[test]
fn active_limits_lose_no_database_that_the_plan_keeps() {
    for (name, text) in SOLUTIONS {
        let (solution, plan) = planned(text);
        let limits = active_limits(&solution, &plan);
        for one in plan.failures.scenarios.iter().filter(|one| one.lost_databases == 0) {
            for (active, limits) in one.active.iter().zip(&limits) {
                assert!(*active <= limits.maximum, "{name}: {}", one.label);
            }
        }
    }
}

const HOSTILE: [&str; 8] = [
    "=EVIL()",
    "a,EVIL",
    "b\"EVIL\"",
    "c\nEVIL",
    "d$(EVIL)`EVIL",
    "e'; EVIL; '",
    "f\u{2019}; EVIL",
    "..\\EVIL/x:y",
];

#[test]
fn hostile_names_run_in_no_script() {
    for name in HOSTILE {
        for (file, text) in files(&group(&[name, "x", "y"], &format!("{name}{{n}}"), "databases = 12")) {
            if !file.ends_with(".ps1") {
                continue;
            }
            assert!(text.contains("EVIL"), "{file} names it");
            let outside = outside_of_strings(&text);
            assert!(!outside.contains("EVIL"), "{file}: {name:?} left its string\n{text}");
        }
    }
}

/// No PowerShell runs the scripts here; a grammar written by others parses them.
#[test]
fn scripts_with_hostile_names_parse_and_the_names_are_strings() {
    let install = "python3 -m pip install tree-sitter tree-sitter-powershell";
    if !testkit::has_tool("python3", &["-c", "import tree_sitter, tree_sitter_powershell"], install) {
        return;
    }
    let exported = HOSTILE
        .iter()
        .flat_map(|name| files(&group(&[name, "x", "y"], &format!("{name}{{n}}"), "databases = 12")));
    let scripts: Vec<String> =
        exported.filter(|(file, _)| file.ends_with(".ps1")).map(|(_, text)| text).collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parse_powershell.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut input = python.stdin.take().expect("it was asked for");
    input.write_all(serde_json::to_string(&scripts).unwrap().as_bytes()).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // 4 scripts for each name; each names servers or databases in 168 strings altogether.
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "32 1344");
}

/// PowerShell script without the contents of its single-quoted strings.
fn outside_of_strings(script: &str) -> String {
    let is_quote = |c: char| matches!(c, '\'' | '\u{2018}'..='\u{201b}');
    let (mut outside, mut inside) = (String::new(), false);
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match (inside, is_quote(c)) {
            (true, true) if chars.peek().is_some_and(|&next| is_quote(next)) => _ = chars.next(),
            (_, true) => inside = !inside,
            (true, false) => {}
            (false, false) => outside.push(c),
        }
    }
    assert!(!inside, "a string has no end");
    outside
}

#[test]
fn hostile_names_stay_fields_of_their_tables() {
    for name in HOSTILE {
        let text = file(&group(&[name, "x", "y"], &format!("{name}{{n}}"), "databases = 12"), "Servers.csv");
        let text = text.trim_start_matches('\u{feff}');
        let rows = records(text);
        assert_eq!(rows.len(), 2 + 6, "{name:?}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{name:?}: {rows:?}");
        assert_eq!(csv::plain(&rows[2][0]), format!("{name}A"));
        assert!(rows.iter().flatten().all(|field| !field.starts_with(['=', '+', '-', '@'])), "{rows:?}");
    }
}

/// Fields of a CSV table in which every field is quoted.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut inside) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.peek() == Some(&'"') => field.push(chars.next().unwrap_or(c)),
            '"' => inside = !inside,
            c if inside => field.push(c),
            ',' => row.push(std::mem::take(&mut field)),
            '\n' => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            _ => {}
        }
    }
    rows
}

#[test]
fn hostile_names_are_no_keys_and_no_templates_of_the_inventory() {
    let text = file(&group(&["srv[1:9]", "x", "y"], "DB{n}", "databases = 12"), "inventory.json");
    let inventory: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let hosts = inventory["all"]["children"]["site_1"]["hosts"].as_object().expect("hosts");
    assert_eq!(hosts.keys().map(String::as_str).collect::<Vec<_>>(), ["host-1", "xA", "yA"]);
    assert_eq!(hosts["host-1"]["proofload_host"]["__ansible_unsafe"], "srv[1:9]A");
}

#[test]
fn no_folder_leads_out_of_the_root() {
    let text = file(&group(&["x", "y"], "..\\..\\evil{n}", "databases = 12"), "MailboxDatabases.csv");
    let rows = records(&text);
    assert_eq!(rows[2][2], r"C:\ExchangeDatabases\.._.._evil1-1\.._.._evil1-1.db\.._.._evil1-1.edb");
}
