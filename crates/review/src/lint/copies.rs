//! The copy layout against the failure that was tested: who becomes active where, by activation preference.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, with};
use crate::printed_figures::{Evidence, LayoutFigures, known};

pub fn check(evidence: &Evidence, findings: &mut Findings) {
    let layout = &evidence.layout;
    let (Some(stated), Some(tested)) =
        (known(layout.failed.active_databases_per_server), known(evidence.solution.servers_tested))
    else {
        return;
    };
    if layout.databases.is_empty() {
        return;
    }
    let lost_servers = layout.servers.len().saturating_sub(tested as usize);
    let most =
        failures(evidence, lost_servers).into_iter().filter_map(|lost| most_active(layout, &lost)).max();
    if let Some(most) = most
        && most as f64 != stated
    {
        findings.add(
            "layout_activation",
            "no failure of that size gives the stated load by the printed copies and their preferences",
            (with(stated, "active databases"), "layout.failed.active_databases_per_server"),
            (format!("{most} active databases"), "layout.databases: most on one of the surviving servers"),
        );
    }
}

/// Every set of lost servers of the size that was tested: whole sites or groups, and single servers beside them.
fn failures(evidence: &Evidence, lost_servers: usize) -> Vec<BTreeSet<String>> {
    let groups = groups(&evidence.layout);
    let mut sets = Vec::new();
    // Every union of groups: papers have at most a handful.
    for mask in 0u32..1 << groups.len().min(8) {
        let union: BTreeSet<String> = groups
            .iter()
            .enumerate()
            .filter(|(n, _)| mask & (1 << n) != 0)
            .flat_map(|(_, group)| group.iter().cloned())
            .collect();
        match lost_servers.checked_sub(union.len()) {
            Some(0) => sets.push(union),
            Some(1) => {
                for server in evidence.layout.servers.iter().filter(|server| !union.contains(*server)) {
                    let mut with_server = union.clone();
                    with_server.insert(server.clone());
                    sets.push(with_server);
                }
            }
            _ => {}
        }
    }
    sets
}

/// Groups of servers as printed; if none are, servers whose names share what stands before the first dash.
fn groups(layout: &LayoutFigures) -> Vec<Vec<String>> {
    if !layout.server_groups.is_empty() {
        return layout.server_groups.values().cloned().collect();
    }
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for server in &layout.servers {
        let site = server.split_once('-').map_or("", |(site, _)| site);
        groups.entry(site).or_default().push(server.clone());
    }
    groups.into_values().collect()
}

/// Most databases that are active on one server after the failure; `None` if a database has no copy left.
fn most_active(layout: &LayoutFigures, lost: &BTreeSet<String>) -> Option<usize> {
    let mut active: BTreeMap<&str, usize> = BTreeMap::new();
    for database in &layout.databases {
        let left = database.copies.iter().filter(|(server, _)| !lost.contains(server));
        let (server, _) = left.min_by_key(|(_, preference)| *preference)?;
        *active.entry(server).or_default() += 1;
    }
    active.into_values().max()
}
