//! How many mailboxes each limit of the plan allows, by arithmetic alone.

use std::cell::RefCell;
use std::collections::BTreeMap;

use plan::{Outcome, Plan, Use};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scale::Scaling;

/// Largest multiple of the file's mailboxes for which limits of the plan are searched.
const MOST_TIMES: u64 = 256;

/// Limit of the plan: the largest number of mailboxes that one check allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanLimit {
    /// Name of the limit: `space`, `I/O`, `log writes`, or a check of the plan.
    pub limit: String,
    /// Kind of volume, or pool, that reaches the limit first; empty for a check of the plan.
    pub part: String,
    /// Largest number of mailboxes that the limit allows; `None` if even one mailbox breaks it, because then it
    /// depends on something else.
    pub mailboxes: Option<u64>,
    /// Mailboxes of the file in percent of those.
    pub used_percent: Option<f64>,
    /// Whether a simulation judges the limit better, because it models the disks instead of taking one figure for
    /// each.
    pub simulated: bool,
}

/// Outcome of each check at one number of mailboxes, by limit and part.
type Holds = BTreeMap<(String, String), bool>;

const SPACE: &str = "space";
const IO: &str = "I/O";
const LOG_WRITES: &str = "log writes";
/// Name of the limit at which test databases no longer fit on their volumes, so that the file is refused.
const TEST_DATABASES: &str = "size of the test databases";

/// Finds the limits of the plan, lowest first. Limits that are never reached are left out.
pub fn plan_limits(scaling: &Scaling<'_>) -> Vec<PlanLimit> {
    let looked_at = RefCell::new(BTreeMap::<u64, Holds>::new());
    let of = |mailboxes: u64, key: &(String, String)| {
        let mut looked_at = looked_at.borrow_mut();
        looked_at
            .entry(mailboxes)
            .or_insert_with(|| holds(scaling, mailboxes))
            .get(key)
            .copied()
            .unwrap_or(true)
    };
    let most = scaling.mailboxes.saturating_mul(MOST_TIMES);
    let reached: Vec<(String, String)> =
        holds(scaling, most).into_iter().filter(|(_, holds)| !holds).map(|(key, _)| key).collect();
    let highest_for = |key: &(String, String)| {
        // What holds as described may be refused where there are fewer: a database has a least size.
        let least = if of(scaling.mailboxes, key) { scaling.mailboxes } else { 1 };
        highest(least, most, |mailboxes| of(mailboxes, key))
    };
    let mut found: Vec<_> = reached.into_iter().map(|key| (highest_for(&key), key)).collect();
    found.sort();
    let mut limits: Vec<PlanLimit> = Vec::new();
    for (mailboxes, (limit, part)) in found {
        if !limits.iter().any(|known| known.limit == limit) {
            let simulated = limit == IO || limit == LOG_WRITES;
            let used_percent = mailboxes.map(|most| 100.0 * scaling.mailboxes as f64 / most as f64);
            limits.push(PlanLimit { limit, part, mailboxes, used_percent, simulated });
        }
    }
    limits
}

/// Limits that end the range of the simulations, lowest first, each with its mailboxes. Those that a simulation judges
/// are left out.
pub fn firm(limits: &[PlanLimit]) -> impl Iterator<Item = (u64, &PlanLimit)> {
    limits.iter().filter(|limit| !limit.simulated).filter_map(|limit| Some((limit.mailboxes?, limit)))
}

fn holds(scaling: &Scaling<'_>, mailboxes: u64) -> Holds {
    let mut holds = scaling.planned(mailboxes).map_or_else(|_| Holds::new(), |planned| of_plan(&planned));
    holds.insert((TEST_DATABASES.to_owned(), String::new()), scaling.fits(mailboxes));
    holds
}

fn of_plan(planned: &Plan) -> Holds {
    let mut holds = Holds::new();
    let within = |share: Option<f64>| share.is_none_or(|share| share <= 1.0);
    let mut note = |limit: &str, used: &Use, share| {
        holds.insert((limit.to_owned(), used.name.clone()), within(share));
    };
    for used in planned.storage.volumes.iter().chain(&planned.storage.pools) {
        note(SPACE, used, used.capacity_share);
        note(IO, used, used.iops_share);
        note(LOG_WRITES, used, used.log_share.filter(|_| used.role == "log"));
    }
    // What fits on the storage is told by part.
    for check in planned.checks.iter().filter(|check| check.name != "storage fits") {
        let entry = holds.entry((check.name.to_owned(), String::new())).or_insert(true);
        *entry &= check.outcome != Outcome::Fail;
    }
    holds
}

/// Highest number from `least` to `most` for which `holds` is true, by bisection. `holds` must be true up to some
/// number and false above it.
pub fn highest(least: u64, most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(least) {
        return None;
    }
    if holds(most) {
        return Some(most);
    }
    let (mut low, mut high) = (least, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use solution::Solution;
    use testkit::claims::HONEST;

    use super::*;

    fn limits_of(changes: &[(&str, &str)]) -> Vec<PlanLimit> {
        let text = changes.iter().fold(HONEST.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "nothing to change: {from}");
            text.replacen(from, to, 1)
        });
        let solution = Solution::parse(&text, "s.toml").expect("it is valid");
        plan_limits(&Scaling::of(&solution).expect("it has users"))
    }

    #[test]
    fn highest_number_is_found_where_something_stops_holding() {
        for limit in [1, 2, 37, 1_000, 123_456] {
            assert_eq!(highest(1, 1_000_000, |number| number <= limit), Some(limit));
        }
        assert_eq!(highest(1, 100, |_| true), Some(100));
        assert_eq!(highest(1, 100, |_| false), None);
    }

    #[test]
    fn each_limit_of_the_plan_holds_at_its_mailboxes_and_fails_a_little_above() {
        let solution = Solution::parse(HONEST, "s.toml").expect("it is valid");
        let scaling = Scaling::of(&solution).expect("it has users");
        let limits = plan_limits(&scaling);
        assert!(limits.len() >= 3, "{limits:?}");
        for limit in &limits {
            let mailboxes = limit.mailboxes.expect("it holds with one mailbox");
            let key = (limit.limit.clone(), limit.part.clone());
            assert_ne!(holds(&scaling, mailboxes).get(&key), Some(&false), "{limit:?}");
            assert_eq!(holds(&scaling, mailboxes + 1).get(&key), Some(&false), "{limit:?}");
        }
        let order: Vec<_> = limits.iter().map(|limit| limit.mailboxes).collect();
        assert!(order.is_sorted(), "{limits:?}");
    }

    #[test]
    fn larger_mailboxes_lower_the_limit_of_space_and_leave_that_of_io() {
        let at = |limits: &[PlanLimit], name: &str| {
            limits.iter().find(|limit| limit.limit == name).and_then(|limit| limit.mailboxes)
        };
        let (small, large) =
            (limits_of(&[]), limits_of(&[("quota_mb = ", "deleted_item_days = 60\nquota_mb = ")]));
        assert!(at(&large, SPACE) < at(&small, SPACE), "{small:?} {large:?}");
        assert_eq!(at(&large, IO), at(&small, IO));
    }
}
