//! What a file gives names to, and others name: sites, enclosures, hosts, disks, pools and volumes.

use crate::error::Wrong;
use crate::file::{Disk, Enclosure, Scope, Site, SolutionFile};
use crate::hosts::{self, HostSpec};
use crate::source::Mistakes;
use crate::storage::{self, PoolSpec, VolumeKind};

/// Names that a file defines: hosts, sites, enclosures, disks, pools.
pub(crate) struct DefinedNames {
    pub sites: Vec<Site>,
    pub enclosures: Vec<Enclosure>,
    pub hosts: Vec<HostSpec>,
    pub disks: Vec<Disk>,
    pub pools: Vec<PoolSpec>,
    pub volumes: Vec<VolumeKind>,
}

impl DefinedNames {
    /// Collects the names of a file; `None` if one of their tables is wrong.
    pub fn of(file: &SolutionFile, mistakes: &mut Mistakes<'_>) -> Option<DefinedNames> {
        let (sites, enclosures) = (hosts::sites(file), hosts::enclosures(file));
        let mut hosts = hosts::hosts(file, &sites, &enclosures, mistakes);
        let pools = storage::pools(file, mistakes);
        let volumes = storage::volumes(file, &enclosures, &mut hosts, mistakes);
        if mistakes.names_are_known() {
            hosts::mark_under_test(file, &mut hosts, mistakes);
            storage::mark_under_test(file, &mut hosts, mistakes);
        }
        let disks = file.disk.clone();
        mistakes.names_are_known().then_some(DefinedNames { sites, enclosures, hosts, disks, pools, volumes })
    }

    /// Key of a controller pair: the host's name, or the name of the enclosure or site whose hosts share it.
    pub fn place_of(&self, host: &HostSpec, scope: Scope) -> String {
        place_of(host, scope, &self.sites, &self.enclosures)
    }

    /// Refuses a failure under test that names an unknown part.
    pub fn check_failed(&self, failed: &[String], mistakes: &mut Mistakes<'_>) {
        let DefinedNames { sites, enclosures, hosts, .. } = self;
        for (n, name) in failed.iter().enumerate() {
            if hosts_lost_with(name, sites, enclosures, hosts).is_empty() {
                let known = sites.iter().map(|site| &site.name);
                let known = known.chain(enclosures.iter().map(|enclosure| &enclosure.name));
                let known = known.chain(hosts.iter().map(|host| &host.name)).map(String::as_str);
                let path = format!("under_test.failed[{n}]");
                mistakes.add(Wrong::unknown_name("host, enclosure or site", name, known, path));
            }
        }
    }
}

/// Indexes of the hosts that are lost with a host, enclosure or site of this name; empty for an unknown name.
pub(crate) fn hosts_lost_with(
    name: &str,
    sites: &[Site],
    enclosures: &[Enclosure],
    hosts: &[HostSpec],
) -> Vec<usize> {
    let is_hit = |host: &HostSpec| {
        let enclosure = host.enclosure.map(|enclosure| enclosures[enclosure].name.as_str());
        host.name == name || sites[host.site].name == name || enclosure == Some(name)
    };
    (0..hosts.len()).filter(|&host| is_hit(&hosts[host])).collect()
}

/// Key of a controller pair: the host's name, or the name of the enclosure or site whose hosts share it.
pub(crate) fn place_of(host: &HostSpec, scope: Scope, sites: &[Site], enclosures: &[Enclosure]) -> String {
    match (scope, host.enclosure) {
        (Scope::Host, _) => host.name.clone(),
        (Scope::Shared, Some(enclosure)) => enclosures[enclosure].name.clone(),
        (Scope::Shared, None) => sites[host.site].name.clone(),
    }
}
