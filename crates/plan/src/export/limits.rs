//! How many databases may be active on a server: two settings of Exchange.

use crate::failure::{Kind, Scenario};
use crate::formula::round_half_up;
use crate::{Plan, Server};
use solution::Solution;

/// Limits of active databases for one server, as Exchange's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveLimits {
    /// `MaximumActiveDatabases`: no further copy becomes active. The fullest server of the site in the worst failure
    /// that loses no database, by bound or layout, whichever is more; at most the host's `max_active`.
    pub maximum: u32,
    /// `MaximumPreferredActiveDatabases`: above it other servers are preferred. The fullest server after a loss of
    /// servers within a site, by the calculator's bound; equal to `maximum` in a site without active databases.
    pub preferred: u32,
}

/// Limits of every server of a group, in the order of the plan.
pub fn active_limits(solution: &Solution, plan: &Plan) -> Vec<ActiveLimits> {
    let limits = plan.servers.iter().zip(&solution.hosts).map(|(server, host)| {
        let is_active = solution.sites.iter().any(|site| site.name == server.site && site.active);
        let bound = if is_active { plan.bound.worst_on_active_server } else { plan.bound.worst };
        let most = most_active(plan, server, &|_| true).max(bound.ceil() as u32);
        let maximum = host.max_active.map_or(most, |limit| limit.min(most));
        let within = plan.bound.two_servers.or(plan.bound.server);
        let preferred = match within {
            _ if !is_active => maximum,
            Some(actives) => round_half_up(actives) as u32,
            None => most_active(plan, server, &|kind| matches!(kind, Kind::Normal | Kind::Server)),
        };
        ActiveLimits { maximum, preferred: preferred.min(maximum) }
    });
    limits.collect()
}

/// Active databases on the fullest server of a server's site, in the failures of these kinds that lose no database.
fn most_active(plan: &Plan, server: &Server, is_meant: &dyn Fn(Kind) -> bool) -> u32 {
    let of_site = |one: &Scenario| {
        let here = plan.servers.iter().zip(&one.active).filter(|(other, _)| other.site == server.site);
        here.map(|(_, &active)| active).max().unwrap_or(0)
    };
    let survived = plan.failures.scenarios.iter().filter(|one| one.lost_databases == 0 && is_meant(one.kind));
    survived.map(of_site).max().unwrap_or(0)
}
