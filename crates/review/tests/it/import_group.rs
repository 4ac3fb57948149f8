//! The calculator's files of a group: what an export wrote comes back, and damage is told with file and line.

use plan::{Plan, export, plan};
use review::import::group::group;
use solution::{EXAMPLES, Solution};

fn planned(text: &str) -> (Solution, Plan) {
    let solution = Solution::parse(text, "t.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (solution, plan)
}

type Files = Vec<(String, Vec<u8>)>;

fn exported(text: &str) -> Files {
    let (solution, plan) = planned(text);
    let files = export(&solution, &plan).unwrap_or_else(|error| panic!("{error}"));
    files.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes())).collect()
}

const USERS: &str =
    "[profile]\nexchange = \"2016\"\nmailboxes = 4000\nmessages_per_day = 150\nquota_mb = 1024\n";

/// A group of four servers in two sites whose databases fill their volumes unevenly.
fn small(host: &str) -> String {
    let mut text = format!(
        "[solution]\nname = \"t\"\nschema = 1\n{USERS}[dag]\ndatabases = 9\ndatabases_per_volume = 4\n\
         [copies]\nper_site = [2, 1]\nlagged = 1\nlag_days = 2.5\n"
    );
    for site in ["A", "B"] {
        text += &format!("[[site]]\nname = \"{site}\"\n");
        for number in 1..3 {
            let name = toml::Value::String(format!("{host}{site}{number}"));
            text += &format!("[[host]]\nname = {name}\nsite = \"{site}\"\n");
        }
    }
    text
}

/// Solution text from the files, completed with users.
fn completed(files: &Files) -> String {
    let text = group(files).unwrap_or_else(|error| panic!("{error}"));
    text + USERS
}

#[test]
fn exported_groups_come_back_with_the_same_layout_and_the_same_failures() {
    let small = small("s");
    let shipped = EXAMPLES.iter().filter(|example| example.name != "catalogue").map(|example| example.text);
    for text in shipped.chain([small.as_str()]) {
        let (first_solution, first) = planned(text);
        let (second_solution, second) = planned(&completed(&exported(text)));
        assert_eq!(first.layout.databases, second.layout.databases);
        assert_eq!(first.layout.lagged, second.layout.lagged);
        assert_eq!(first_solution.copies.per_site, second_solution.copies.per_site);
        let names = |plan: &Plan| plan.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&first), names(&second));
        // The files name no enclosure. The active limits, which they have, only matter where databases are lost.
        let survived = first.failures.scenarios.iter().filter(|one| one.lost_databases == 0);
        for one in survived.filter(|one| one.kind != plan::Kind::Enclosure && one.kind != plan::Kind::Named) {
            let same = |other: &&plan::Scenario| other.lost_servers == one.lost_servers;
            let other = second.failures.scenarios.iter().find(same).expect("the failure is known");
            assert_eq!((&one.active, one.lost_databases), (&other.active, other.lost_databases));
        }
    }
}

#[test]
fn exported_files_come_back_as_the_same_files() {
    for name in ["s", "=1+", "a,b", "q\"", "n\n", "'"] {
        let first = exported(&small(name));
        let second = exported(&completed(&first));
        for (name, text) in first.iter().filter(|(name, _)| name.ends_with(".csv")) {
            let again = &second.iter().find(|(other, _)| other == name).expect("exported").1;
            // Quotas follow from the users, who are not in the files.
            assert_eq!(String::from_utf8_lossy(text), String::from_utf8_lossy(again), "{name}");
        }
    }
}

/// Reasons with which the files are refused after `change` has altered one of them.
fn refused(file: &str, change: impl Fn(String) -> String) -> Vec<String> {
    let mut files = exported(&small("s"));
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == file).expect("exported");
    *bytes = change(String::from_utf8_lossy(bytes).into_owned()).into_bytes();
    let error = group(&files).expect_err("the files are damaged");
    error.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn damaged_files_are_refused_with_every_reason_at_its_line() {
    let reasons = refused("MailboxDatabaseCopies.csv", |text| {
        text.replacen("\"DB1\",\"sA2\",\"2\"", "\"DB1\",\"sA2\",\"two\"", 1)
            .replacen("\"DB2\",\"sA1\"", "\"DB77\",\"sA1\"", 1)
            .replacen("2.12:00:00", "long", 1)
    });
    let expected = [
        "MailboxDatabaseCopies.csv:3: ActivationPreference is `two`, not a number from 1 to 16",
        "MailboxDatabaseCopies.csv:4: ReplayLagTime is `long`, not a time such as 7.00:00:00",
        "MailboxDatabaseCopies.csv:5: `DB77` is no database of MailboxDatabases.csv",
    ];
    assert_eq!(reasons[..3], expected, "{reasons:#?}");
}

#[test]
fn files_that_contradict_each_other_are_refused_at_the_line() {
    let reasons = refused("Servers.csv", |text| text.replacen("DB1,", "", 1));
    assert!(reasons[0].contains("VolumeMap does not have one number"), "{reasons:#?}");
    let reasons = refused("Servers.csv", |text| text.replacen("DB1,", "DB5,", 1));
    assert!(
        reasons.contains(
            &"MailboxDatabases.csv:3: DbMap of `sA1` in Servers.csv does not have `DB1`".to_owned()
        ),
        "{reasons:#?}"
    );
    let reasons = refused("DAGInfo.csv", |text| text.replacen("sA1,sA2", "sA1,sA2,sB1", 1));
    assert_eq!(reasons, ["DAGInfo.csv: `sB1` is a server of two sites"]);
    let reasons = refused("MailboxDatabases.csv", |text| {
        let row = text.lines().nth(2).expect("a row").to_owned();
        text + &row + "\r\n"
    });
    assert_eq!(reasons, ["MailboxDatabases.csv:12: `DB1` is in line 3 already"]);
}

#[test]
fn files_that_were_cut_off_are_refused() {
    let reasons = refused("Servers.csv", |text| text[..text.len() - 4].to_owned());
    assert_eq!(
        reasons,
        ["Servers.csv:6: a quote opens here that nothing closes: the file was cut off or damaged"]
    );
    let missing = group(&exported(&small("s"))[1..]).expect_err("a file is missing");
    assert_eq!(missing.to_string(), "Servers.csv: the file is missing");
}

/// As the calculator wrote them: spaces after commas, a version row that is too short, no extra columns.
#[test]
fn files_as_the_calculator_writes_them_are_read() {
    let files: Files = [
        (
            "servers.csv",
            "ServerName, StartDrive, DbPerVolume, AutoReseedVolumes, DbLogIsolation, VolumesRootFolder, \
             DatabasesRootFolder, DbMap\nVersionNumber,2.1,6.6,,,,\"\"\n\
             m1,2,2,2,0,\"C:\\V\",\"C:\\D\",\"DB1,DB2\"\nm2,2,2,2,0,\"C:\\V\",\"C:\\D\",\"DB1,DB2\"\n",
        ),
        (
            "MailboxDatabases.csv",
            "Name,Server,EDBFilePath,DeletedItemRetention,ProhibitSendQuota\n\"VersionNumber\",\"2.1\",\"7.6\",,\n\
             DB1,m1,x,60.00:00:00,51200 MB\nDB2,m2,x,60.00:00:00,51200 MB\n",
        ),
        (
            "MailboxDatabaseCopies.csv",
            "GC,GC2,Name,Server,ActivationPreference,ReplayLagTime,TruncationLagTime\n\
             \"VersionNumber\",\"2.1\",\"7.6\",,,,\n\"d\",\"d\",DB1,m2,2,\"14.0:00:00\",\"0.0:00:00\"\n\
             \"d\",\"d\",DB2,m1,2,\"14.0:00:00\",\"0.0:00:00\"\n",
        ),
        (
            "DAGInfo.csv",
            "DAGName, Site1Servers, Site2Servers, MaximumActiveDatabasesSite1\n\"SchemaVersion\",\"2.4\",\"7.6\",\n\
             \"DAG1\",\"m1,m2\",\"\",\"2\"\n",
        ),
    ]
    .map(|(name, text)| (name.to_owned(), text.as_bytes().to_owned()))
    .into();
    let text = group(&files).unwrap_or_else(|error| panic!("{error}"));
    for said in ["# quota_mb = 51200\n", "# deleted_item_days = 60\n", "lag_days = 14\n", "max_active = 2\n"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let (solution, plan) = planned(&(text + USERS));
    assert_eq!(solution.copies.per_site, [2]);
    assert_eq!(plan.layout.databases[1].copies.iter().map(|copy| copy.server).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn damaged_files_of_a_group_never_panic() {
    let files = exported(&small("s"));
    let seeds: Vec<Vec<u8>> = files.iter().take(4).map(|(_, bytes)| bytes.clone()).collect();
    testkit::fuzz("group", &seeds, |bytes| {
        for damaged in 0..4 {
            let mut files = files[..4].to_vec();
            files[damaged].1 = bytes.to_owned();
            match group(&files) {
                Ok(text) => drop(Solution::parse(&text, "solution")),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    });
}
