//! A group that all four files agree on.

use std::collections::BTreeMap;

use super::rows::{Cells, Reasons, Sheet, megabytes};

/// A database availability group (DAG) as the calculator's tables describe it.
pub struct Group {
    pub name: String,
    pub sites: Vec<Site>,
    pub databases: Vec<Database>,
    pub per_volume: u32,
    /// Copies per database in the home site, then in the other sites.
    pub per_site: Vec<u32>,
    pub lagged: u32,
    pub lag_days: f64,
    /// Mailbox quota in MB and days that deleted items are kept, where all databases have the same.
    pub quota_mb: Option<f64>,
    pub deleted_item_days: Option<f64>,
}

/// A site of the group.
pub struct Site {
    pub hosts: Vec<String>,
    pub max_active: Option<u32>,
    /// Whether databases are active here when nothing has failed.
    pub is_active: bool,
}

/// A database and its copies in the order of activation preference.
pub struct Database {
    pub name: String,
    line: usize,
    pub copies: Vec<ImportedCopy>,
    quota_mb: Option<f64>,
    deleted_item_days: Option<f64>,
}

/// A copy of a database: server, volume, lag.
pub struct ImportedCopy {
    pub server: String,
    preference: u32,
    lag_days: f64,
    file: &'static str,
    line: usize,
    /// Number of its volume on the server.
    pub volume: u32,
}

/// A server and the volumes of its databases: a row of `Servers.csv`.
struct Server {
    line: usize,
    per_volume: u32,
    volumes: BTreeMap<String, u32>,
}

const SERVERS: &str = "Servers.csv";
const DATABASES: &str = "MailboxDatabases.csv";
const COPIES: &str = "MailboxDatabaseCopies.csv";
const GROUP: &str = "DAGInfo.csv";

impl Group {
    /// Reads the group from the tables; adds reasons where they are damaged or contradict each other.
    pub fn of([servers, databases, copies, group]: [&Sheet; 4], reasons: &mut Reasons) -> Option<Group> {
        let servers = read_servers(servers, reasons);
        let mut databases = read_databases(databases, reasons);
        read_copies(copies, &mut databases, reasons);
        let (name, mut sites) = read_group(group, reasons)?;
        for database in &mut databases {
            database.copies.sort_by_key(|copy| copy.preference);
            check_preferences(database, reasons);
            find_volumes(database, &servers, reasons);
        }
        check_maps(&servers, &databases, reasons);
        check_sites(&sites, &servers, &databases, reasons);
        let per_volume = servers.values().map(|server| server.per_volume).max().unwrap_or(1);
        for (name, server) in servers.iter().filter(|(_, server)| server.per_volume != per_volume) {
            let text = format!("`{name}` has another DbPerVolume than {per_volume}; a solution file has one");
            reasons.add(SERVERS, server.line, text);
        }
        let (lagged, lag_days) = lag(&databases, reasons);
        if !reasons.0.is_empty() {
            return None;
        }
        let site_of =
            |server: &str| sites.iter().position(|site| site.hosts.iter().any(|host| host == server));
        let homes: Vec<usize> =
            databases.iter().filter_map(|database| site_of(&database.copies[0].server)).collect();
        let per_site = per_site(&databases, &homes, sites.len(), &site_of);
        for (index, site) in sites.iter_mut().enumerate() {
            site.is_active = homes.contains(&index);
        }
        Some(Group {
            name,
            per_volume,
            per_site,
            lagged,
            lag_days,
            quota_mb: common(databases.iter().map(|database| database.quota_mb)),
            deleted_item_days: common(databases.iter().map(|database| database.deleted_item_days)),
            sites,
            databases,
        })
    }
}

/// The value that all have in common; `None` where they differ.
fn common(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

fn read_servers(sheet: &Sheet, reasons: &mut Reasons) -> BTreeMap<String, Server> {
    let mut servers = BTreeMap::<String, Server>::new();
    for row in sheet.cells() {
        let (Some(name), Some(per_volume)) =
            (row.name("ServerName", reasons), row.number("DbPerVolume", 1..=100, reasons))
        else {
            continue;
        };
        let names = row.list("DbMap", reasons);
        let numbers = row.list("VolumeMap", reasons);
        let numbers: Option<Vec<u32>> = match numbers.is_empty() {
            true => Some((0..names.len() as u32).map(|i| i / per_volume + 1).collect()),
            false => numbers.iter().map(|number| number.parse().ok().filter(|n| *n > 0)).collect(),
        };
        let Some(numbers) = numbers.filter(|numbers| numbers.len() == names.len()) else {
            let text = "VolumeMap does not have one number from 1 for each database of DbMap";
            reasons.add(SERVERS, row.line(), text.into());
            continue;
        };
        let mut volumes = BTreeMap::new();
        for (database, volume) in names.into_iter().zip(numbers) {
            if volumes.contains_key(&database) {
                reasons.add(SERVERS, row.line(), format!("DbMap of `{name}` has `{database}` twice"));
            }
            volumes.insert(database, volume);
        }
        if let Some(first) = servers.get(&name) {
            let text = format!("`{name}` is in line {} already", first.line);
            reasons.add(SERVERS, row.line(), text);
            continue;
        }
        servers.insert(name, Server { line: row.line(), per_volume, volumes });
    }
    servers
}

fn read_databases(sheet: &Sheet, reasons: &mut Reasons) -> Vec<Database> {
    let mut databases: Vec<Database> = Vec::new();
    for row in sheet.cells() {
        let (Some(name), Some(server)) = (row.name("Name", reasons), row.name("Server", reasons)) else {
            continue;
        };
        if let Some(first) = databases.iter().find(|other| other.name == name) {
            let text = format!("`{name}` is in line {} already", first.line);
            reasons.add(DATABASES, row.line(), text);
            continue;
        }
        let retention = row.days("DeletedItemRetention", reasons).filter(|days| *days > 0.0);
        databases.push(Database {
            name,
            line: row.line(),
            copies: vec![copy(DATABASES, row, server, 1, 0.0)],
            quota_mb: megabytes(row.text("ProhibitSendQuota")),
            deleted_item_days: retention,
        });
    }
    if databases.is_empty() && reasons.0.is_empty() {
        reasons.add(DATABASES, None, "it has no database".into());
    }
    databases
}

fn copy(file: &'static str, row: Cells<'_>, server: String, preference: u32, lag_days: f64) -> ImportedCopy {
    ImportedCopy { server, preference, lag_days, file, line: row.line(), volume: 0 }
}

fn read_copies(sheet: &Sheet, databases: &mut [Database], reasons: &mut Reasons) {
    for row in sheet.cells() {
        let (name, server) = (row.name("Name", reasons), row.name("Server", reasons));
        let preference = row.number("ActivationPreference", 1..=16, reasons);
        let lag_days = row.days("ReplayLagTime", reasons);
        let (Some(name), Some(server), Some(preference), Some(lag_days)) =
            (name, server, preference, lag_days)
        else {
            continue;
        };
        let Some(database) = databases.iter_mut().find(|database| database.name == name) else {
            reasons.add(COPIES, row.line(), format!("`{name}` is no database of {DATABASES}"));
            continue;
        };
        if database.copies.iter().any(|other| other.server == server) {
            let text = format!("`{name}` has two copies on `{server}`; one copy per server");
            reasons.add(COPIES, row.line(), text);
            continue;
        }
        database.copies.push(copy(COPIES, row, server, preference, lag_days));
    }
}

/// Reads the group's name and its sites.
fn read_group(sheet: &Sheet, reasons: &mut Reasons) -> Option<(String, Vec<Site>)> {
    let mut rows = sheet.cells();
    let Some(row) = rows.next() else {
        reasons.add(GROUP, None, "it has no group".into());
        return None;
    };
    for other in rows {
        let text = "a second group; a solution file describes one: keep the rows of one in all files";
        reasons.add(GROUP, other.line(), text.into());
    }
    let mut sites = Vec::new();
    for number in 1.. {
        let column = format!("Site{number}Servers");
        if !sheet.columns().iter().any(|name| name.eq_ignore_ascii_case(&column)) {
            break;
        }
        let hosts = row.list(&column, reasons);
        let limit = format!("MaximumActiveDatabasesSite{number}");
        let max_active = match row.text(&limit).trim() {
            "" | "0" => None,
            _ => row.number(&limit, 1..=100, reasons),
        };
        if !hosts.is_empty() {
            sites.push(Site { hosts, max_active, is_active: false });
        }
    }
    Some((row.text("DAGName").to_owned(), sites))
}

fn check_preferences(database: &Database, reasons: &mut Reasons) {
    for (copy, expected) in database.copies.iter().zip(1..) {
        if copy.preference != expected {
            let text = format!(
                "the activation preferences of `{}` are not 1 to {}: {expected} is missing or given twice",
                database.name,
                database.copies.len()
            );
            reasons.add(copy.file, copy.line, text);
            return;
        }
    }
}

fn find_volumes(database: &mut Database, servers: &BTreeMap<String, Server>, reasons: &mut Reasons) {
    for copy in &mut database.copies {
        let name = &copy.server;
        match servers.get(name).map(|server| server.volumes.get(&database.name)) {
            Some(Some(&volume)) => copy.volume = volume,
            Some(None) => {
                let text = format!("DbMap of `{name}` in {SERVERS} does not have `{}`", database.name);
                reasons.add(copy.file, copy.line, text);
            }
            None => reasons.add(copy.file, copy.line, format!("`{name}` is no server of {SERVERS}")),
        }
    }
}

/// Checks that every database in a server's volume map has a copy on that server.
fn check_maps(servers: &BTreeMap<String, Server>, databases: &[Database], reasons: &mut Reasons) {
    let by_name: BTreeMap<&str, &Database> =
        databases.iter().map(|database| (database.name.as_str(), database)).collect();
    for (name, server) in servers {
        for mapped in server.volumes.keys() {
            let database = by_name.get(mapped.as_str());
            if !database.is_some_and(|database| database.copies.iter().any(|copy| copy.server == *name)) {
                let text = format!("DbMap of `{name}` has `{mapped}`, which has no copy there");
                reasons.add(SERVERS, server.line, text);
            }
        }
    }
}

/// Checks that every server is in exactly one site.
fn check_sites(
    sites: &[Site],
    servers: &BTreeMap<String, Server>,
    databases: &[Database],
    reasons: &mut Reasons,
) {
    let mut hosts: Vec<&String> = sites.iter().flat_map(|site| &site.hosts).collect();
    hosts.sort();
    for pair in hosts.windows(2).filter(|pair| pair[0] == pair[1]) {
        reasons.add(GROUP, None, format!("`{}` is a server of two sites", pair[0]));
    }
    for host in hosts.iter().filter(|host| !servers.contains_key(**host)) {
        reasons.add(GROUP, None, format!("`{host}` is no server of {SERVERS}"));
    }
    let used =
        |name: &String| databases.iter().flat_map(|database| &database.copies).any(|c| c.server == *name);
    for (name, server) in servers.iter().filter(|(name, _)| !hosts.contains(name) && used(name)) {
        reasons.add(SERVERS, server.line, format!("`{name}` is in no site of {GROUP}"));
    }
}

/// Number of lagged copies of each database and their lag in days; lagged copies are the last in preference.
fn lag(databases: &[Database], reasons: &mut Reasons) -> (u32, f64) {
    let lagged_of = |database: &Database| database.copies.iter().filter(|copy| copy.lag_days > 0.0).count();
    let lagged = databases.first().map_or(0, lagged_of);
    let copies = || databases.iter().flat_map(|database| &database.copies);
    let lag_days = copies().map(|copy| copy.lag_days).fold(0.0, f64::max);
    for database in databases {
        let first = database.copies.len() - lagged.min(database.copies.len());
        let wrong =
            database.copies.iter().enumerate().find(|(preference, copy)| {
                copy.lag_days != if *preference >= first { lag_days } else { 0.0 }
            });
        if let Some((_, copy)) = wrong {
            let text = format!(
                "`{}` lags otherwise than the databases before it; in a solution file the last {lagged} copies lag \
                 alike",
                database.name
            );
            reasons.add(copy.file, copy.line, text);
        }
    }
    (lagged as u32, lag_days)
}

/// Copies by site, beginning with the home site, as most databases have them.
fn per_site(
    databases: &[Database],
    homes: &[usize],
    sites: usize,
    site_of: &dyn Fn(&str) -> Option<usize>,
) -> Vec<u32> {
    let mut found = BTreeMap::<Vec<u32>, usize>::new();
    for (database, home) in databases.iter().zip(homes) {
        let mut counts = vec![0; sites];
        for site in database.copies.iter().filter_map(|copy| site_of(&copy.server)) {
            counts[(site + sites - home) % sites] += 1;
        }
        *found.entry(counts).or_default() += 1;
    }
    let most = found.into_iter().max_by_key(|&(_, databases)| databases);
    let mut counts = most.map_or(vec![1], |(counts, _)| counts);
    while counts.len() > 1 && counts.last() == Some(&0) {
        counts.pop();
    }
    counts
}
