//! The calculator's failure arithmetic: active databases on the fullest server, from counts alone, without a layout.
//!
//! It assumes that what a lost server carried spreads evenly over its site, and rounds each half on its own, so
//! it is a bound on the safe side of what a real layout does. Fits MD3260 (7, 9, 14; 9 on the servers that
//! normally host actives) and R740xd (24, 28, 48, 56).

use schemars::JsonSchema;
use serde::Serialize;

use crate::inputs::Inputs;
use crate::layout::home_counts;

/// Failure arithmetic of the calculator: active databases on the fullest server. `None` where it has no answer,
/// because the copies do not allow the failure or too few servers are left. A layout may still survive it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Bound {
    /// Active databases on the fullest server if nothing is lost.
    pub normal: f64,
    /// The same after the loss of one server.
    pub server: Option<f64>,
    /// The same after the loss of two servers of a site.
    pub two_servers: Option<f64>,
    /// The same after the loss of a site.
    pub site: Option<f64>,
    /// The same after the loss of a site and one more server.
    pub site_and_server: Option<f64>,
    /// Worst of these on a server that normally hosts active databases; log reads are sized by it.
    pub worst_on_active_server: f64,
    /// Worst of these on any server; memory, processor and the test target are sized by it.
    pub worst: f64,
    /// Number of servers of a group that remain in the worst failure that loses no database.
    pub servers_left: u32,
}

/// Computes the failure arithmetic of the calculator.
pub fn bound(inputs: &Inputs<'_>, databases: u32) -> Bound {
    let homes = home_counts(&inputs.sites, databases);
    let activatable = activatable_per_site(inputs);
    let total: u32 = activatable.iter().sum();
    let servers = inputs.servers.len() as u32;
    let count = inputs.sites.len();
    let servers_of = |site: usize| inputs.sites[site].servers.len() as u32;
    let share = |site: usize| f64::from(homes[site]) / f64::from(servers_of(site));

    let mut worst = Worst { left: servers, ..Worst::default() };
    for home in inputs.active_sites() {
        let n = servers_of(home);
        let own = share(home);
        worst.see(Case::Normal, own, true, servers);
        let local = activatable[0];
        let target = (1..count)
            .map(|step| (step, (home + step) % count))
            .find(|&(step, _)| activatable.get(step).is_some_and(|&copies| copies > 0));
        if total >= 2 {
            match target {
                _ if local >= 2 => worst.see(Case::Server, spread_one(own, n), true, servers - 1),
                // The only local copy is gone: its twin in the other site takes all of it.
                Some((_, t)) => worst.see(Case::Server, share(t) + own, inputs.sites[t].active, servers - 1),
                None => {}
            }
        }
        if total >= 3 && n > 2 {
            let crossing = if local == 2 { 2.0 / f64::from(n * (n - 1)) } else { 0.0 };
            match target {
                _ if local >= 2 => {
                    let stays = f64::from(homes[home]) * (1.0 - crossing);
                    worst.see(Case::TwoServers, stays / f64::from(n - 2), true, servers - 2);
                }
                Some((_, t)) => {
                    worst.see(Case::TwoServers, share(t) + own, inputs.sites[t].active, servers - 2)
                }
                None => {}
            }
        }
        let Some((step, t)) = target else { continue };
        let there = servers_of(t);
        let arriving = f64::from(homes[home]) / f64::from(there);
        let active = inputs.sites[t].active;
        worst.see(Case::Site, share(t) + arriving, active, servers - n);
        if activatable[step] >= 2 && (local >= 2 || !active) && there >= 2 {
            let both = spread_one(share(t), there) + spread_one(arriving, there);
            worst.see(Case::SiteAndServer, both, active, servers - n - 1);
        }
    }
    Bound {
        normal: worst.of[0].unwrap_or(0.0),
        server: worst.of[1],
        two_servers: worst.of[2],
        site: worst.of[3],
        site_and_server: worst.of[4],
        worst_on_active_server: worst.on_active,
        worst: worst.any,
        servers_left: worst.left,
    }
}

/// Active databases of a server after one of `servers` was lost and its share spread over the rest.
fn spread_one(share: f64, servers: u32) -> f64 {
    if servers < 2 { share } else { share + (share / f64::from(servers - 1)).ceil() }
}

/// Number of copies per site that may be activated; lagged copies are the last.
pub fn activatable_per_site(inputs: &Inputs<'_>) -> Vec<u32> {
    let mut copies = inputs.copies_per_site.clone();
    let mut off = inputs.copies() - inputs.activatable();
    for site in copies.iter_mut().rev() {
        let taken = off.min(*site);
        *site -= taken;
        off -= taken;
    }
    copies
}

#[derive(Clone, Copy)]
enum Case {
    Normal,
    Server,
    TwoServers,
    Site,
    SiteAndServer,
}

#[derive(Default)]
struct Worst {
    of: [Option<f64>; 5],
    on_active: f64,
    any: f64,
    left: u32,
}

impl Worst {
    fn see(&mut self, case: Case, actives: f64, on_active_server: bool, left: u32) {
        let slot = &mut self.of[case as usize];
        *slot = Some(slot.map_or(actives, |other| other.max(actives)));
        self.any = self.any.max(actives);
        if on_active_server {
            self.on_active = self.on_active.max(actives);
        }
        self.left = self.left.min(left);
    }
}
