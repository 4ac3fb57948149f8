//! What a file gives names to, and others name: sites, enclosures, hosts, disks, pools and volumes.

use crate::file::{Disk, Enclosure, Scope, Site, SolutionFile};
use crate::hosts::{self, HostSpec};
use crate::source::Mistakes;
use crate::storage::{self, PoolSpec, VolumeKind};

/// Everything that has a name.
pub(crate) struct Named {
    pub sites: Vec<Site>,
    pub enclosures: Vec<Enclosure>,
    pub hosts: Vec<HostSpec>,
    pub disks: Vec<Disk>,
    pub pools: Vec<PoolSpec>,
    pub volumes: Vec<VolumeKind>,
}

impl Named {
    /// The names of a file; nothing if one of their tables is wrong.
    pub fn of(file: &SolutionFile, mistakes: &mut Mistakes<'_>) -> Option<Named> {
        let (sites, enclosures) = (hosts::sites(file), hosts::enclosures(file));
        let mut hosts = hosts::hosts(file, &sites, &enclosures, mistakes);
        let pools = storage::pools(file, mistakes);
        let volumes = storage::volumes(file, &enclosures, &mut hosts, mistakes);
        if mistakes.names_are_known() {
            hosts::mark_under_test(file, &mut hosts, mistakes);
            storage::mark_under_test(file, &mut hosts, mistakes);
        }
        let disks = file.disk.clone();
        mistakes.names_are_known().then_some(Named { sites, enclosures, hosts, disks, pools, volumes })
    }

    /// What the controllers of a host are named by: the host, or what it shares them in.
    pub fn place_of(&self, host: &HostSpec, scope: Scope) -> String {
        place_of(host, scope, &self.sites, &self.enclosures)
    }
}

/// What the controllers of a host are named by: the host, or what it shares them in.
pub(crate) fn place_of(host: &HostSpec, scope: Scope, sites: &[Site], enclosures: &[Enclosure]) -> String {
    match (scope, host.enclosure) {
        (Scope::Host, _) => host.name.clone(),
        (Scope::Shared, Some(enclosure)) => enclosures[enclosure].name.clone(),
        (Scope::Shared, None) => sites[host.site].name.clone(),
    }
}
