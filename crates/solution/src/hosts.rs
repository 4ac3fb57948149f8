//! Sites, enclosures and hosts, each by its own name.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Checked, Wrong};
use crate::file::{Enclosure, Host, Role, Site, SolutionFile};
use crate::source::Mistakes;
use crate::template::{Names, matches, name, numbers};

/// Most members of a group, and most copies of a database.
pub const MAX_MEMBERS: usize = 16;

/// One volume of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeInfo {
    /// Name, unique on the host.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Folder on the file system under test.
    pub path: Option<String>,
    /// Capacity in GiB, if the file says enough to know it.
    pub capacity_gib: Option<f64>,
    /// Index in [`crate::Solution::volumes`].
    pub kind: usize,
    /// The tests use it.
    pub is_under_test: bool,
}

/// One log stream and its databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Name.
    pub name: String,
    /// Volume of the logs and the checkpoint.
    pub log_volume: String,
    /// Folder of the logs and the checkpoint.
    pub log_dir: String,
    /// Size of one log generation.
    pub log_file_bytes: u64,
    /// Page size.
    pub page_bytes: u32,
    /// Smallest page cache of the instance (all its databases together).
    pub cache_min_bytes: u64,
    /// Largest page cache of the instance.
    pub cache_max_bytes: u64,
    /// Its databases.
    pub databases: Vec<DatabaseSpec>,
}

/// One database file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseSpec {
    /// Name, unique on the host.
    pub name: String,
    /// Volume of the file.
    pub volume: String,
    /// Folder of the file.
    pub dir: String,
    /// Size when created, a whole number of pages.
    pub bytes: u64,
}

/// One host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpec {
    /// Name.
    pub name: String,
    /// Index of its site in [`crate::Solution::sites`].
    pub site: usize,
    /// Index in [`crate::Solution::enclosures`] of the enclosure whose loss takes it along.
    pub enclosure: Option<usize>,
    /// Where the other hosts reach its copies, `host:port`.
    pub copy_address: Option<String>,
    /// Processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate of the whole server.
    pub specint_rate: Option<f64>,
    /// SPECint2017 rate (base) of the whole server.
    pub specint2017_rate: Option<f64>,
    /// Memory in GiB.
    pub memory_gib: Option<f64>,
    /// Most databases that may be active at once; no limit when `None`.
    pub max_active: Option<u32>,
    /// The tests run on it.
    pub is_under_test: bool,
    /// Its volumes in the order of the file.
    pub volumes: Vec<VolumeInfo>,
    /// The database instances of its tests, or what the file does not say about them.
    pub(crate) instances: Checked<Vec<InstanceSpec>>,
}

impl HostSpec {
    /// The database instances of its tests, as far as they are described.
    pub fn instances(&self) -> impl Iterator<Item = &InstanceSpec> {
        self.instances.iter().flatten()
    }

    /// Bytes of the test databases on the host, or on one volume of it, as far as they are described.
    pub fn database_bytes(&self, volume: Option<&str>) -> u64 {
        let databases = self.instances().flat_map(|instance| &instance.databases);
        let here = databases.filter(|database| volume.is_none_or(|volume| database.volume == volume));
        here.map(|database| database.bytes).sum()
    }
}

/// Sites of the file, or the only one.
pub(crate) fn sites(file: &SolutionFile) -> Vec<Site> {
    match file.site.as_slice() {
        [] => vec![Site { name: "site".into(), active: true }],
        named => named.to_vec(),
    }
}

/// Enclosures of the file; where it describes none, those that hosts name.
pub(crate) fn enclosures(file: &SolutionFile) -> Vec<Enclosure> {
    let mut enclosures = file.enclosure.clone();
    if enclosures.is_empty() {
        for name in file.host.iter().filter_map(|host| host.enclosure.as_ref()) {
            if !enclosures.iter().any(|known| known.name == *name) {
                let name = name.clone();
                enclosures.push(Enclosure { name, bays: None, hot_spares: 0, restore_disks: 0 });
            }
        }
    }
    enclosures
}

/// Every host in the order of the file, templates written out; volumes and instances come later.
pub(crate) fn hosts(
    file: &SolutionFile,
    sites: &[Site],
    enclosures: &[Enclosure],
    mistakes: &mut Mistakes<'_>,
) -> Vec<HostSpec> {
    let mut hosts: Vec<HostSpec> = Vec::new();
    for (entry, host) in file.host.iter().enumerate() {
        let path = format!("host[{entry}]");
        let site = mistakes.keep(site_of(host, &path, file, sites)).unwrap_or(0);
        let enclosure = mistakes.keep(enclosure_of(host, &path, enclosures)).flatten();
        let numbers = numbers(host.count, host.first, &format!("{path}.count"), hosts.len());
        for n in mistakes.keep(numbers).unwrap_or(0..0) {
            match named(host, n, &path, &hosts) {
                Ok((name, copy_address)) => hosts.push(HostSpec {
                    name,
                    site,
                    enclosure,
                    copy_address,
                    cores: host.cores,
                    specint_rate: host.specint_rate,
                    specint2017_rate: host.specint2017_rate,
                    memory_gib: host.memory_gib,
                    max_active: host.max_active,
                    is_under_test: false,
                    volumes: Vec::new(),
                    instances: Ok(Vec::new()),
                }),
                Err(wrong) => mistakes.add(wrong),
            }
        }
        if describes_a_group(file) && hosts.len() > MAX_MEMBERS {
            let message = format!("a group has at most {MAX_MEMBERS} members, this one has {}", hosts.len());
            let wrong = Wrong::new(format!("{path}.count"), message);
            mistakes.add(wrong.help("use more groups: count in [dag]"));
        }
    }
    if hosts.is_empty() && file.host.is_empty() {
        mistakes.add(Wrong::new("host", "no host is described").help("add [[host]] with a name"));
    }
    mistakes.keep(check_sites(sites, &hosts));
    hosts
}

/// Whether the hosts are the members of a group: the file says more than what is tested.
fn describes_a_group(file: &SolutionFile) -> bool {
    file.profile.is_some() || file.dag.is_some() || file.copies.is_some() || file.layout.is_some()
}

fn site_of(host: &Host, path: &str, file: &SolutionFile, sites: &[Site]) -> Checked<usize> {
    match &host.site {
        Some(name) => site_index(name, &format!("{path}.site"), file.site.is_empty(), sites),
        None if sites.len() == 1 => Ok(0),
        None => {
            let message =
                format!("host `{}` does not say which of the {} sites it is in", host.name, sites.len());
            Err(Wrong::new(path, message).help("add site = \"...\""))
        }
    }
}

/// The index of the site called `name`, asked for at `path`. A site that the file does not name has no name to ask for.
pub(crate) fn site_index(name: &str, path: &str, is_unnamed: bool, sites: &[Site]) -> Checked<usize> {
    let known = || sites.iter().filter(|_| !is_unnamed);
    let unknown = || Wrong::unknown_name("site", name, known().map(|site| site.name.as_str()), path);
    known().position(|site| site.name == name).ok_or_else(unknown)
}

fn enclosure_of(host: &Host, path: &str, enclosures: &[Enclosure]) -> Checked<Option<usize>> {
    let Some(name) = &host.enclosure else { return Ok(None) };
    let known = || enclosures.iter().map(|enclosure| enclosure.name.as_str());
    let unknown = || Wrong::unknown_name("enclosure", name, known(), format!("{path}.enclosure"));
    known().position(|known| known == name).map(Some).ok_or_else(unknown)
}

/// Name and copy address of the `n`th host of an entry.
fn named(host: &Host, n: u32, path: &str, others: &[HostSpec]) -> Checked<(String, Option<String>)> {
    let written = name(&host.name, Names { n, host: None }, &format!("{path}.name"))?;
    if others.iter().any(|other| other.name == written) {
        let message = format!("two hosts are called `{written}`");
        return Err(Wrong::new(format!("{path}.name"), message).help("a name with {n} counts"));
    }
    let names = Names { n, host: Some(&written) };
    let address = host.copy_address.as_ref();
    let address = address.map(|address| name(address, names, &format!("{path}.copy_address"))).transpose()?;
    Ok((written, address))
}

fn check_sites(sites: &[Site], hosts: &[HostSpec]) -> Checked<()> {
    let used: BTreeSet<usize> = hosts.iter().map(|host| host.site).collect();
    if let Some(empty) = (0..sites.len()).find(|site| !hosts.is_empty() && !used.contains(site)) {
        let message = format!("site `{}` has no host", sites[empty].name);
        return Err(Wrong::new(format!("site[{empty}]"), message).help("add [[host]] with this site"));
    }
    if sites.iter().all(|site| !site.active) {
        return Err(Wrong::new("site[0].active", "no site is active, so no database can be"));
    }
    Ok(())
}

/// Marks the hosts that the tests run on: those that `[under_test]` names, or all.
pub(crate) fn mark_under_test(file: &SolutionFile, hosts: &mut [HostSpec], mistakes: &mut Mistakes<'_>) {
    let wanted = file.under_test.as_ref().map(|part| part.hosts.as_slice()).unwrap_or_default();
    for (n, pattern) in wanted.iter().enumerate() {
        mistakes.keep(known_host(pattern, hosts, &format!("under_test.hosts[{n}]")));
    }
    for host in hosts {
        host.is_under_test = wanted.is_empty() || wanted.iter().any(|pattern| matches(pattern, &host.name));
    }
}

/// Refuses a pattern that no host fits: what it is of would belong to none, and be missed without a word.
pub(crate) fn known_host(pattern: &str, hosts: &[HostSpec], path: &str) -> Checked<()> {
    match hosts.iter().any(|host| matches(pattern, &host.name)) {
        true => Ok(()),
        false => Err(Wrong::unknown_name("host", pattern, hosts.iter().map(|host| host.name.as_str()), path)),
    }
}
