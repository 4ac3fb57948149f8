//! A group of hosts, and the copies of its databases: how many there are of each, and which host holds which.

use crate::error::{Checked, Wrong};
use crate::file::{Copies, Dag, Layout, LayoutRow, RemoteRule, SolutionFile};
use crate::hosts::{HostSpec, MAX_MEMBERS};
use crate::names::DefinedNames;
use crate::source::Mistakes;
use crate::template::{Names, expand, matches, name};

/// Largest number of databases (active and passive) on a server of the largest edition.
pub const MAX_MOUNTED: u32 = 100;

/// Largest number of databases of a group: every member full.
pub const MAX_DATABASES: u32 = MAX_MOUNTED * MAX_MEMBERS as u32;

/// Placement of copies on hosts.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// Placement by the published rule, with this rule for the sites after the home site.
    ByRule(RemoteRule),
    /// Placement as the file lists it, for every database.
    Listed(Vec<ListedDatabase>),
}

/// Database whose copies the file places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDatabase {
    /// Name of the database.
    pub name: String,
    /// Number of the volume on every host that holds a copy, from 1; `None`: by the layout rule.
    pub volume: Option<u16>,
    /// Indexes of the hosts that hold a copy, by activation preference.
    pub hosts: Vec<usize>,
}

impl Dag {
    /// Number of databases on one volume in the sizing table.
    pub fn sized_databases_per_volume(&self) -> u32 {
        self.sized_databases_per_volume.unwrap_or(self.databases_per_volume)
    }

    /// Name of the `n`th database, from 1.
    pub fn database_name(&self, n: u32) -> String {
        // The template was tried when the file was read.
        expand(&self.database_name, Names { n, host: None }).unwrap_or_default()
    }
}

impl Copies {
    /// Number of copies of each database in all sites.
    pub fn total(&self) -> u32 {
        self.per_site.iter().fold(0, |sum, &of_site| sum.saturating_add(of_site))
    }
}

/// Checks the copies of each database and their names, and returns their placement.
pub(crate) fn placement(
    file: &SolutionFile,
    (dag, copies): (&Dag, &Copies),
    named: &DefinedNames,
    mistakes: &mut Mistakes<'_>,
) -> Placement {
    mistakes.keep(check_copies(copies, named));
    mistakes.keep(name(&dag.database_name, Names { n: 1, host: None }, "dag.database_name"));
    let layout = file.layout.clone().unwrap_or_default();
    match layout.database.as_slice() {
        [] => Placement::ByRule(layout.remote),
        _ => Placement::Listed(listed(&layout, &named.hosts, mistakes)),
    }
}

/// Number of databases of the group, if the file states it.
pub(crate) fn databases(
    file: &SolutionFile,
    (dag, copies): (&Dag, &Copies),
    placement: &Placement,
    hosts: &[HostSpec],
) -> Checked<Option<u32>> {
    match placement {
        _ if dag.databases.is_some() => Ok(dag.databases),
        Placement::Listed(databases) => Ok(Some(databases.len() as u32)),
        // A file made only for a run names its databases one by one; with one copy each, these are all there are.
        Placement::ByRule(_) if copies.total() > 1 || file.instance.is_empty() => Ok(None),
        Placement::ByRule(_) => databases_of_instances(file, hosts),
    }
}

fn check_copies(copies: &Copies, named: &DefinedNames) -> Checked<()> {
    let DefinedNames { sites, hosts, .. } = named;
    let servers = hosts.len();
    let total: u64 = copies.per_site.iter().map(|&count| u64::from(count)).sum();
    if copies.per_site.first().is_none_or(|&home| home == 0) {
        let wrong = Wrong::new("copies.per_site", "a database needs a copy in its home site");
        return Err(wrong.help("the first number is the home site's, at least 1"));
    }
    if copies.per_site.len() > sites.len() {
        let message =
            format!("copies in {} sites are asked for, there are {}", copies.per_site.len(), sites.len());
        return Err(Wrong::new("copies.per_site", message).help("add [[site]], or drop a number"));
    }
    if total > MAX_MEMBERS as u64 {
        let message = format!("a database has at most {MAX_MEMBERS} copies, {total} are asked for");
        return Err(Wrong::new("copies.per_site", message));
    }
    if total > servers as u64 {
        let message = format!("{total} copies of a database need {total} servers, the group has {servers}");
        return Err(Wrong::new("copies.per_site", message).help("add hosts, or ask for fewer copies"));
    }
    for home in (0..sites.len()).filter(|&site| sites[site].active) {
        for (step, &count) in copies.per_site.iter().enumerate() {
            let site = (home + step) % sites.len();
            let there = hosts.iter().filter(|host| host.site == site).count();
            if count as usize > there {
                let message = format!(
                    "site `{}` has fewer servers than copies of a database: {there}, not {count}",
                    sites[site].name
                );
                return Err(Wrong::new(format!("copies.per_site[{step}]"), message));
            }
        }
    }
    let lagged = copies.lagged;
    if u64::from(lagged) >= total {
        let message = format!("{lagged} of {total} copies cannot be lagged, one has to be current");
        return Err(Wrong::new("copies.lagged", message));
    }
    Ok(())
}

/// Number of databases of all instances of all hosts; `None` if no host has any.
fn databases_of_instances(file: &SolutionFile, hosts: &[HostSpec]) -> Checked<Option<u32>> {
    let mut count = 0u32;
    for host in hosts {
        let is_here = |pattern: &Option<String>| pattern.as_ref().is_none_or(|p| matches(p, &host.name));
        for instance in file.instance.iter().filter(|instance| is_here(&instance.host)) {
            count = count.saturating_add(instance.count.saturating_mul(instance.databases.count()));
        }
    }
    if count > MAX_DATABASES {
        let message = format!("a group has at most {MAX_DATABASES} databases, this one has {count}");
        let wrong = Wrong::new("instance[0].count", message);
        return Err(wrong.help("use more groups: count in [dag]"));
    }
    Ok((count > 0).then_some(count))
}

/// Layout that the file lists.
fn listed(layout: &Layout, hosts: &[HostSpec], mistakes: &mut Mistakes<'_>) -> Vec<ListedDatabase> {
    if layout.database.len() > MAX_DATABASES as usize {
        let count = layout.database.len();
        let message = format!("a group has at most {MAX_DATABASES} databases, this one has {count}");
        let wrong = Wrong::new(format!("layout.database[{MAX_DATABASES}].name"), message);
        mistakes.add(wrong.help("use more groups: count in [dag]"));
        return Vec::new();
    }
    let rows = layout.database.iter().enumerate();
    rows.map(|(index, row)| {
        let path = format!("layout.database[{index}]");
        if layout.database[..index].iter().any(|other| other.name == row.name) {
            let message = format!("two databases are called `{}`", row.name);
            mistakes.add(Wrong::new(format!("{path}.name"), message));
        }
        ListedDatabase {
            name: row.name.clone(),
            volume: row.volume.map(|volume| volume as u16),
            hosts: mistakes.keep(hosts_of_copies(row, hosts, &path)).unwrap_or_default(),
        }
    })
    .collect()
}

fn hosts_of_copies(row: &LayoutRow, hosts: &[HostSpec], path: &str) -> Checked<Vec<usize>> {
    let mut copies: Vec<(u32, usize)> = Vec::with_capacity(row.copies.len());
    for (i, (host, preference)) in row.copies.iter().enumerate() {
        let at = format!("{path}.copies[{i}]");
        let known = || hosts.iter().map(|host| host.name.as_str());
        let found = known().position(|known| known == host);
        let found = found.ok_or_else(|| Wrong::unknown_name("host", host, known(), &at))?;
        if copies.iter().any(|&(_, other)| other == found) {
            let message = format!("`{}` has two copies on `{host}`; one copy per server", row.name);
            return Err(Wrong::new(at, message));
        }
        copies.push((*preference, found));
    }
    copies.sort_unstable();
    let in_order = copies.iter().zip(1..).all(|(&(preference, _), expected)| preference == expected);
    if copies.is_empty() || !in_order {
        let message =
            format!("the activation preferences of `{}` are not 1 to {}", row.name, copies.len().max(1));
        return Err(Wrong::new(format!("{path}.copies"), message));
    }
    Ok(copies.into_iter().map(|(_, host)| host).collect())
}
