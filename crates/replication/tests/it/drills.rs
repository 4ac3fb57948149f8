//! Drills: one named failure each, and what users and operators see of it, per database.

use replication::{ActivationPolicy, CopySpec, DatabaseId, DatabaseSpec, Dial, HostId, SiteId};

use crate::cluster::Cluster;
use crate::faults::{Clock, Fault, MS, Party};
use crate::random::{Counters, timing};

/// Time of the failure: by then log shipping is steady.
const FAILURE_MS: u64 = 2_000;
/// Longest outage: detection, the rest of the lease, election and mount, with room for lost messages.
const OUTAGE_MAX_MS: u64 = 2_000;

/// Layout like a real deployment: each database prefers another host, and the hosts are spread over the sites.
struct Layout {
    sites: u16,
    hosts_per_site: u16,
    copies: usize,
    dial: Dial,
    partner_in_other_site: bool,
}

/// Effect of one drill on one database.
struct Outcome {
    database: DatabaseId,
    outage_ms: u64,
    longest_outage_ms: u64,
    stalled_ms: u64,
    lost_commits: u64,
    lost_generations: u32,
    copy_queue_max: u32,
    /// Time from the failure until every copy is complete and close behind again.
    to_full_redundancy_ms: u64,
}

impl Layout {
    fn hosts(&self) -> Vec<(HostId, SiteId)> {
        let count = self.sites * self.hosts_per_site;
        (0..count).map(|number| (HostId(number), SiteId(number / self.hosts_per_site))).collect()
    }

    /// Databases with copies on the next hosts of the same site first, then in the other site.
    fn databases(&self) -> Vec<DatabaseSpec> {
        let hosts = self.hosts();
        let per_site = self.hosts_per_site as usize;
        let spec = |number: usize| {
            let home = number % hosts.len();
            let place = |copy: usize| {
                let (in_site, far) = if self.sites == 1 { (copy, 0) } else { (copy / 2, copy % 2) };
                let site = (home / per_site + far) % self.sites as usize;
                site * per_site + (home + in_site) % per_site
            };
            let copy = |index: usize| CopySpec {
                host: hosts[place(index)].0,
                site: hosts[place(index)].1,
                preference: index as u32 + 1,
                activation: ActivationPolicy::Unrestricted,
                replay_lag_ms: 0,
                truncation_lag_ms: 0,
            };
            DatabaseSpec {
                id: DatabaseId(number as u16),
                dial: self.dial,
                copies: (0..self.copies).map(copy).collect(),
                run_ahead_generations: 2,
                partner_in_other_site: self.partner_in_other_site,
                signature: 1 + number as u64,
                circular_logging: true,
                timing: timing(),
                planted: replication::Planted::default(),
            }
        };
        (0..hosts.len()).map(spec).collect()
    }

    fn run(&self, name: &str, faults: &[(u64, Fault)], until_ms: u64) -> Vec<Outcome> {
        let true_clock = Clock { offset_us: 0, rate_ppm: 0 };
        let hosts = self.hosts().into_iter().map(|(host, site)| (host, site, true_clock)).collect();
        let mut cluster = Cluster::new(1, hosts, true_clock, self.databases(), Counters::default());
        for (at_ms, fault) in faults {
            cluster.schedule(*at_ms, fault.clone());
        }
        cluster.run_until(FAILURE_MS - 1).expect("no promise is broken");
        cluster.begin_watch();
        cluster.run_until(until_ms).expect("no promise is broken");
        eprintln!("{name}: {} sites, {} copies, {:?}", self.sites, self.copies, self.dial);
        eprintln!(
            "database  outage ms  stalled ms  lost commits  lost logs  copy queue max  to full redundancy ms"
        );
        let outcomes: Vec<Outcome> = cluster
            .seen
            .iter()
            .map(|(&database, seen)| Outcome {
                database,
                outage_ms: seen.outage_ms,
                longest_outage_ms: seen.longest_outage_ms,
                stalled_ms: seen.stalled_ms,
                lost_commits: cluster.history[&database].lost_commits,
                lost_generations: cluster.history[&database].lost_generations,
                copy_queue_max: seen.queue_max,
                to_full_redundancy_ms: (seen.full_redundancy_at_us / MS).saturating_sub(FAILURE_MS),
            })
            .collect();
        for o in &outcomes {
            eprintln!(
                "{:>8}  {:>9}  {:>10}  {:>12}  {:>9}  {:>14}  {:>21}",
                o.database.0,
                o.outage_ms,
                o.stalled_ms,
                o.lost_commits,
                o.lost_generations,
                o.copy_queue_max,
                o.to_full_redundancy_ms
            );
        }
        cluster.schedule(until_ms, Fault::StopClients);
        cluster.run_until(until_ms + 2_500).expect("no promise is broken");
        cluster.check_settled().expect("all copies are whole and equal");
        outcomes
    }
}

fn one_site(copies: usize, dial: Dial) -> Layout {
    Layout { sites: 1, hosts_per_site: 4, copies, dial, partner_in_other_site: false }
}

fn two_sites(copies: usize, dial: Dial, partner_in_other_site: bool) -> Layout {
    Layout { sites: 2, hosts_per_site: 2, copies, dial, partner_in_other_site }
}

fn assert_no_loss(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert_eq!(outcome.lost_commits, 0, "{:?}", outcome.database);
    }
}

fn assert_short_outages(outcomes: &[Outcome]) {
    assert!(outcomes.iter().any(|outcome| outcome.outage_ms > 0), "the failure was not felt");
    for outcome in outcomes {
        assert!(outcome.longest_outage_ms <= OUTAGE_MAX_MS, "{:?}", outcome.database);
    }
}

fn site(layout: &Layout, site: u16) -> Vec<HostId> {
    layout.hosts().into_iter().filter(|&(_, s)| s == SiteId(site)).map(|(host, _)| host).collect()
}

#[test]
fn host_killed() {
    for (copies, dial) in [(2, Dial::Lossless), (4, Dial::Lossless), (2, Dial::GoodAvailability)] {
        let layout = one_site(copies, dial);
        let host = HostId(0);
        let faults = [(FAILURE_MS, Fault::KillHost(host)), (6_000, Fault::RestartHost(host))];
        let outcomes = layout.run("host killed", &faults, 10_000);
        assert_short_outages(&outcomes);
        let bound = layout.databases()[0].loss_bound_generations();
        for outcome in &outcomes {
            assert!(outcome.lost_generations <= bound);
            assert!(
                outcome.to_full_redundancy_ms >= 4_000 || outcome.copy_queue_max < 3,
                "its copies were away"
            );
        }
        if dial == Dial::Lossless {
            assert_no_loss(&outcomes);
        }
    }
}

#[test]
fn host_cut_off() {
    let layout = one_site(4, Dial::Lossless);
    let others = layout.hosts().into_iter().filter(|&(host, _)| host != HostId(1));
    let right = others.map(|(host, _)| Party::Host(host)).chain([Party::Arbiter]).collect();
    let cut = Fault::Cut { left: vec![Party::Host(HostId(1))], right, ms: 3_000 };
    let outcomes = layout.run("host cut off", &[(FAILURE_MS, cut)], 9_000);
    assert_no_loss(&outcomes);
    assert_short_outages(&outcomes);
}

#[test]
fn disk_failed() {
    let layout = one_site(2, Dial::Lossless);
    let fault = Fault::FailDisk { host: HostId(2), database: DatabaseId(2), replaced_after_ms: 1_000 };
    let outcomes = layout.run("disk failed", &[(FAILURE_MS, fault)], 8_000);
    assert_no_loss(&outcomes);
    assert_short_outages(&outcomes);
    // The arbiter is told: no host waits for the lease.
    assert!(outcomes[2].longest_outage_ms < timing().lease_ms);
    assert!(outcomes[2].to_full_redundancy_ms >= 1_000, "the copy had to be made anew");
}

#[test]
fn site_lost() {
    for copies in [2, 4] {
        let layout = two_sites(copies, Dial::Lossless, true);
        let mut faults = Vec::new();
        for host in site(&layout, 0) {
            faults.push((FAILURE_MS, Fault::KillHost(host)));
            faults.push((7_000, Fault::RestartHost(host)));
        }
        let outcomes = layout.run("site lost", &faults, 11_000);
        assert_no_loss(&outcomes);
        assert_short_outages(&outcomes);
    }
}

/// The partner is in the lost site too, so only that site holds the last acknowledged commit. No copy may be mounted.
#[test]
fn site_lost_with_the_partner_in_it() {
    let layout = two_sites(4, Dial::Lossless, false);
    let mut faults = Vec::new();
    for host in site(&layout, 0) {
        faults.push((FAILURE_MS, Fault::KillHost(host)));
        faults.push((6_000, Fault::RestartHost(host)));
    }
    let outcomes = layout.run("site lost with the partner in it", &faults, 10_000);
    assert_no_loss(&outcomes);
    let dismounted = outcomes.iter().filter(|outcome| outcome.longest_outage_ms >= 3_500).count();
    assert_eq!(dismounted, 2, "both databases of the lost site wait for it");
}

#[test]
fn site_lost_then_a_server() {
    let layout = two_sites(4, Dial::Lossless, true);
    let mut faults = Vec::new();
    for host in site(&layout, 0) {
        faults.push((FAILURE_MS, Fault::KillHost(host)));
        faults.push((9_000, Fault::RestartHost(host)));
    }
    faults.push((5_000, Fault::KillHost(HostId(2))));
    faults.push((9_000, Fault::RestartHost(HostId(2))));
    let outcomes = layout.run("site lost, then a server", &faults, 13_000);
    assert_no_loss(&outcomes);
    assert_short_outages(&outcomes);
    for outcome in &outcomes {
        // The last copy is mounted, but alone it acknowledges nothing.
        assert!(outcome.stalled_ms >= 2_000, "{:?} stalled {} ms", outcome.database, outcome.stalled_ms);
    }
}
