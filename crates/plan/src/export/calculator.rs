//! The calculator's own files: `Servers.csv`, `MailboxDatabases.csv`, `MailboxDatabaseCopies.csv`, `DAGInfo.csv`.
//!
//! Columns and version rows are those of files that version 7.6 wrote. Its scripts read columns by name, so that a
//! column more does no harm.

use solution::Solution;

use super::csv::{line, list};
use super::limits::{ActiveLimits, active_limits};
use super::place::{
    DATABASES, GROUP, VOLUMES, copies_on, edb_file, folders, is_lagged, log_folder, time_span,
};
use crate::Plan;

/// Version of the calculator whose columns the files have.
const CALCULATOR: &str = "7.6";
/// First disk number in the calculator's help; its scripts format disks from there on.
const START_DRIVE: &str = "2";

/// CSV table whose second line is the version of its columns.
fn table(columns: &[&str], marker: [&str; 2], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut version = vec![marker[0], marker[1], CALCULATOR];
    version.resize(columns.len(), "");
    let rows: String = rows.map(|row| line(&row)).collect();
    line(columns) + &line(&version) + &rows
}

/// `Servers.csv`: volumes of each server, for the script that formats them.
pub fn servers(solution: &Solution, plan: &Plan) -> String {
    let per_volume = solution.dag.databases_per_volume;
    let maps: Vec<Vec<(u16, usize)>> =
        (0..plan.servers.len()).map(|server| copies_on(plan, server)).collect();
    // The calculator's map fills one volume after the other.
    let in_order = |(i, &(volume, _)): (usize, &(u16, usize))| i as u32 / per_volume + 1 == u32::from(volume);
    let says_volumes = !maps.iter().all(|map| map.iter().enumerate().all(in_order));
    let mut columns = vec![
        "ServerName",
        "StartDrive",
        "DbPerVolume",
        "AutoReseedVolumes",
        "DbLogIsolation",
        "VolumesRootFolder",
        "DatabasesRootFolder",
        "DbMap",
    ];
    if says_volumes {
        columns.push("VolumeMap");
    }
    let rows = plan.servers.iter().zip(&maps).map(|(server, map)| {
        let names = map.iter().map(|&(_, database)| plan.layout.databases[database].name.as_str());
        let mut row: Vec<String> =
            [&server.name, START_DRIVE, &per_volume.to_string(), "0", "0", VOLUMES, DATABASES, &list(names)]
                .map(str::to_owned)
                .into();
        if says_volumes {
            let volumes = map.iter().map(|(volume, _)| volume.to_string());
            row.push(volumes.collect::<Vec<_>>().join(","));
        }
        row
    });
    table(&columns, ["VersionNumber", "2.1"], rows)
}

/// Columns of `MailboxDatabases.csv` with one value for all rows: the defaults of Exchange.
const DEFAULTS: [(&str, &str); 17] = [
    ("GC", ""),
    ("OAB", r"\Default Offline Address Book"),
    ("RetainDeletedItemsUntilBackup", "FALSE"),
    ("IndexEnabled", "True"),
    ("CircularLoggingEnabled", "FALSE"),
    ("AllowFileRestore", "True"),
    ("BackgroundDatabaseMaintenance", "True"),
    ("IsExcludedFromProvisioning", "False"),
    ("IsSuspendedFromProvisioning", "False"),
    ("MailboxRetention", "30.00:00:00"),
    ("MountAtStartup", "True"),
    ("EventHistoryRetentionPeriod", "7.00:00:00"),
    ("AutoDagExcludeFromMonitoring", "False"),
    ("CalendarLoggingQuota", "6 GB"),
    ("IsExcludedFromInitialProvisioning", "False"),
    ("RecoverableItemsQuota", "30 GB"),
    ("RecoverableItemsWarningQuota", "20 GB"),
];

/// Quotas of a mailbox as Exchange writes them: end of sending and receiving, end of sending, warning. Unlimited if
/// the file has no quota.
pub fn quotas(quota_mb: Option<f64>) -> [String; 3] {
    let share = |percent: f64| {
        quota_mb.map_or("Unlimited".to_owned(), |quota| format!("{} MB", (quota * percent / 100.0).round()))
    };
    [share(105.0), share(100.0), share(95.0)]
}

/// `MailboxDatabases.csv`: each database on the server of its first copy.
pub fn databases(solution: &Solution, plan: &Plan) -> solution::Result<String> {
    let users = solution.users()?;
    // Scripts of some versions read `DBFilePath`, of others `EDBFilePath`.
    let mut columns =
        vec!["Name", "Server", "DBFilePath", "EDBFilePath", "LogFolderPath", "DeletedItemRetention"];
    columns.extend(["ProhibitSendReceiveQuota", "ProhibitSendQuota", "IssueWarningQuota"]);
    columns.extend(DEFAULTS.map(|(column, _)| column));
    let folders = folders(plan);
    let rows = plan.layout.databases.iter().zip(&folders).map(|(database, folder)| {
        let server = &plan.servers[usize::from(database.copies[0].server)];
        let file = edb_file(folder);
        let mut row =
            vec![database.name.clone(), server.name.clone(), file.clone(), file, log_folder(folder)];
        row.push(time_span(users.deleted_item_days));
        row.extend(quotas(users.quota_mb));
        row.extend(DEFAULTS.map(|(_, value)| value.to_owned()));
        row
    });
    Ok(table(&columns, ["VersionNumber", "2.1"], rows))
}

/// `MailboxDatabaseCopies.csv`: every copy but the first.
pub fn copies(solution: &Solution, plan: &Plan) -> String {
    let columns =
        ["GC", "GC2", "Name", "Server", "ActivationPreference", "ReplayLagTime", "TruncationLagTime"];
    let rows = plan.layout.databases.iter().flat_map(|database| {
        database.copies.iter().enumerate().skip(1).map(|(preference, copy)| {
            let lag_days = if is_lagged(plan, database, preference) { solution.copies.lag_days } else { 0.0 };
            let server = plan.servers[usize::from(copy.server)].name.clone();
            let (lag, none) = (time_span(lag_days), time_span(0.0));
            vec!["".into(), "".into(), database.name.clone(), server, (preference + 1).to_string(), lag, none]
        })
    });
    table(&columns, ["VersionNumber", "2.1"], rows)
}

/// `DAGInfo.csv`: settings of the group. The calculator knows two sites; further ones get columns of their own.
pub fn group(solution: &Solution, plan: &Plan) -> String {
    let limits = active_limits(solution, plan);
    let mut cells: Vec<(String, String)> = Vec::new();
    let mut cell = |column: &str, value: String| cells.push((column.to_owned(), value));
    cell("DAGName", GROUP.into());
    // A group without an address of its own.
    cell("DAGIps", "255.255.255.255".into());
    for column in ["WitnessServer", "WitnessDir", "AltWitnessServer", "AltWitnessDir"] {
        cell(column, String::new());
    }
    let sites = solution.sites.len().max(2);
    let of_site = |site: usize| {
        let servers = plan.servers.iter().zip(&limits);
        servers.filter(move |(server, _)| solution.sites.get(site).is_some_and(|at| at.name == server.site))
    };
    for site in 0..sites {
        let names = list(of_site(site).map(|(server, _)| server.name.as_str()));
        cell(&format!("Site{}Servers", site + 1), names);
    }
    cell("GC", String::new());
    cell("GC2", if solution.sites.len() < 2 { "NOT USED".into() } else { String::new() });
    cell("DACMode", "DagOnly".into());
    for site in 0..sites {
        let most = |of: &dyn Fn(&ActiveLimits) -> u32| {
            of_site(site).map(|(_, limits)| of(limits)).max().map_or(String::new(), |most| most.to_string())
        };
        cell(&format!("MaximumActiveDatabasesSite{}", site + 1), most(&|limits| limits.maximum));
        cell(&format!("MaximumPreferredActiveDatabasesSite{}", site + 1), most(&|limits| limits.preferred));
    }
    for (column, value) in [
        ("AutoDagVolumesRootFolderPath", VOLUMES),
        ("AutoDagDatabasesRootFolderPath", DATABASES),
        ("AutoDagDatabaseCopiesPerVolume", &solution.dag.databases_per_volume.to_string()),
        ("ManualDagnetworkConfiguration", "False"),
        ("ReplayLagManagerEnabled", "True"),
        ("NetworkEncryption", "InterSubnetOnly"),
        ("NetworkCompression", "InterSubnetOnly"),
        ("ReplicationPort", "64327"),
        ("AutoDatabaseMountDial", "GoodAvailability"),
        ("LogIsolation", "False"),
    ] {
        cell(column, value.to_owned());
    }
    let columns: Vec<&str> = cells.iter().map(|(column, _)| column.as_str()).collect();
    let row = cells.iter().map(|(_, value)| value.clone()).collect();
    table(&columns, ["SchemaVersion", "2.4"], std::iter::once(row))
}
