//! Sites, enclosures and hosts, each by its own name.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Checked, Wrong};
use crate::file::{Enclosure, Host, Role, Site, SolutionFile};
use crate::source::Mistakes;
use crate::template::{Names, matches, name, numbers};

/// Largest number of members of a group, and of copies of a database.
pub const MAX_MEMBERS: usize = 16;

/// Volume of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeInfo {
    /// Name of the volume, unique on the host.
    pub name: String,
    /// Role of the volume.
    pub role: Role,
    /// Path of its folder on the file system under test.
    pub path: Option<String>,
    /// Capacity, GiB, if the file gives enough to know it.
    pub capacity_gib: Option<f64>,
    /// Index of its kind in [`crate::Solution::volumes`].
    pub kind: usize,
    /// Whether the tests use the volume.
    pub is_under_test: bool,
}

/// Instance with its databases: one log stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Name of the instance.
    pub name: String,
    /// Name of the volume with logs and checkpoint.
    pub log_volume: String,
    /// Path of the folder with logs and checkpoint.
    pub log_dir: String,
    /// Size of one log generation, bytes.
    pub log_file_bytes: u64,
    /// Size of a database page, bytes.
    pub page_bytes: u32,
    /// Least page cache of the instance, all databases together, bytes; recorded without effect.
    pub cache_min_bytes: u64,
    /// Largest page cache of the instance, bytes.
    pub cache_max_bytes: u64,
    /// Databases of the instance.
    pub databases: Vec<DatabaseSpec>,
}

/// Database file of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseSpec {
    /// Name of the database, unique on the host.
    pub name: String,
    /// Name of the volume with the file.
    pub volume: String,
    /// Path of the folder with the file.
    pub dir: String,
    /// Size when created, bytes; a whole number of pages.
    pub bytes: u64,
    /// MetaCache of the database, if it has one.
    pub meta_cache: Option<MetaCacheSpec>,
}

/// MetaCache of a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetaCacheSpec {
    /// Name of the volume with its file.
    pub volume: String,
    /// Path of the folder with its file.
    pub dir: String,
    /// Largest size of the file, bytes.
    pub bytes: u64,
}

/// Host of the solution.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpec {
    /// Name of the host.
    pub name: String,
    /// Index of its site in [`crate::Solution::sites`].
    pub site: usize,
    /// Index of its enclosure in [`crate::Solution::enclosures`]; if that is lost, so is the host.
    pub enclosure: Option<usize>,
    /// Address at which other hosts reach its copies, `host:port`.
    pub copy_address: Option<String>,
    /// Number of processor cores.
    pub cores: Option<u32>,
    /// SPECint2006 rate of the whole server.
    pub specint_rate: Option<f64>,
    /// SPECint2017 rate (base) of the whole server.
    pub specint2017_rate: Option<f64>,
    /// Memory, GiB.
    pub memory_gib: Option<f64>,
    /// Largest number of active databases; `None`: no limit.
    pub max_active: Option<u32>,
    /// Whether the tests run on the host.
    pub is_under_test: bool,
    /// Volumes of the host, in the order of the file.
    pub volumes: Vec<VolumeInfo>,
    /// Instances of the host's tests, or the reason why the file does not describe them.
    pub(crate) instances: Checked<Vec<InstanceSpec>>,
}

impl HostSpec {
    /// Instances of the host's tests, as far as they are described.
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

/// Sites of the file; without any, a single one.
pub(crate) fn sites(file: &SolutionFile) -> Vec<Site> {
    match file.site.as_slice() {
        [] => vec![Site { name: "site".into(), active: true }],
        named => named.to_vec(),
    }
}

/// Enclosures of the file; without any, those that hosts name.
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

/// All hosts in the order of the file, with templates filled in. Volumes and instances are added later.
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

/// Whether the hosts are the members of a group: the file describes more than what is tested.
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

/// Index of the site `name`, which the value at `path` refers to. The only site of a file without sites has no name.
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

/// Marks the hosts under test: those that `[under_test]` names, or all.
pub(crate) fn mark_under_test(file: &SolutionFile, hosts: &mut [HostSpec], mistakes: &mut Mistakes<'_>) {
    let wanted = file.under_test.as_ref().map(|part| part.hosts.as_slice()).unwrap_or_default();
    for (n, pattern) in wanted.iter().enumerate() {
        mistakes.keep(known_host(pattern, hosts, &format!("under_test.hosts[{n}]")));
    }
    for host in hosts {
        host.is_under_test = wanted.is_empty() || wanted.iter().any(|pattern| matches(pattern, &host.name));
    }
}

/// Refuses a host pattern that fits no host, because its entry would be ignored silently.
pub(crate) fn known_host(pattern: &str, hosts: &[HostSpec], path: &str) -> Checked<()> {
    match hosts.iter().any(|host| matches(pattern, &host.name)) {
        true => Ok(()),
        false => Err(Wrong::unknown_name("host", pattern, hosts.iter().map(|host| host.name.as_str()), path)),
    }
}
