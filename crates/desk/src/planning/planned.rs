//! What a plan says, and what a failure that is clicked moves.

use plan::{Plan, Scenario};
use serde::Serialize;
use solution::Solution;

/// Plan of a solution as `plan --json` prints it, with what the page needs to let parts fail.
#[derive(Debug, Serialize)]
pub struct Planned {
    plan: Plan,
    /// Parts that can fail: sites, enclosures and servers, grouped by kind.
    can_fail: Vec<CanFail>,
    /// Effect of the requested failure; `None` if none was requested.
    failure: Option<FailureShown>,
}

/// A site, an enclosure or a server.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct CanFail {
    kind: &'static str,
    name: String,
}

/// A failure, with the databases that it moves or dismounts.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FailureShown {
    label: String,
    lost_servers: Vec<String>,
    /// Sentence about lost service; `None` if every database stays active.
    loss: Option<String>,
    moves: Vec<Move>,
    /// Active databases of each server before and after, in the order of the plan's servers.
    servers: Vec<ServerActives>,
}

/// A database whose active copy moves in the failure, or that has none afterwards.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Move {
    database: String,
    from: String,
    to: Option<String>,
    /// Activation preference of the copy that becomes active.
    preference: Option<u8>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct ServerActives {
    name: String,
    lost: bool,
    before: u32,
    after: u32,
}

/// Plans a solution. With names in `lost`, also computes the failure of all of them together.
///
/// # Errors
/// The planner refuses the solution.
pub fn planned(solution: &Solution, lost: &[String]) -> solution::Result<Planned> {
    let plan = plan::plan(solution, &[])?;
    let failure = match lost {
        [] => None,
        names => shown(&plan::plan(solution, &[names.to_vec()])?),
    };
    Ok(Planned { can_fail: can_fail(solution, &plan), failure, plan })
}

fn can_fail(solution: &Solution, plan: &Plan) -> Vec<CanFail> {
    let one = |kind| move |name: &String| CanFail { kind, name: name.clone() };
    let sites = solution.sites.iter().map(|site| &site.name).filter(|_| solution.sites.len() > 1);
    let enclosures = solution.enclosures.iter().map(|enclosure| &enclosure.name);
    let servers = plan.servers.iter().map(|server| &server.name);
    sites.map(one("site")).chain(enclosures.map(one("enclosure"))).chain(servers.map(one("server"))).collect()
}

/// The last failure of a plan that has a name, compared with normal operation.
fn shown(plan: &Plan) -> Option<FailureShown> {
    let (normal, failure) = (plan.failures.scenarios.first()?, plan.failures.named().last()?);
    let name = |server: u8| plan.servers[usize::from(server)].name.clone();
    let is_lost = |server: usize| failure.lost_servers & (1 << server) != 0;
    let active_on = |scenario: &Scenario, database: usize| {
        let copy = scenario.active_copy[database]?;
        Some((copy, plan.layout.databases[database].copies[usize::from(copy)].server))
    };
    let moves = plan.layout.databases.iter().enumerate().filter_map(|(index, database)| {
        let (_, from) = active_on(normal, index)?;
        let to = active_on(failure, index);
        (to.map(|(_, server)| server) != Some(from)).then(|| Move {
            database: database.name.clone(),
            from: name(from),
            to: to.map(|(_, server)| name(server)),
            preference: to.map(|(copy, _)| copy + 1),
        })
    });
    let servers = plan.servers.iter().enumerate().map(|(index, server)| ServerActives {
        name: server.name.clone(),
        lost: is_lost(index),
        before: normal.active[index],
        after: failure.active[index],
    });
    let lost = plan.servers.iter().enumerate().filter(|(index, _)| is_lost(*index));
    Some(FailureShown {
        label: failure.label.clone(),
        lost_servers: lost.map(|(_, server)| server.name.clone()).collect(),
        loss: failure.loss(plan.layout.databases.len()),
        moves: moves.collect(),
        servers: servers.collect(),
    })
}

#[cfg(test)]
mod tests {
    use testkit::claims::HONEST;

    use super::*;

    fn honest() -> Solution {
        Solution::parse(HONEST, "s.toml").expect("it is valid")
    }

    #[test]
    fn a_failure_moves_the_databases_of_the_lost_server_and_leaves_the_plan_as_it_is() {
        let solution = honest();
        let before = planned(&solution, &[]).expect("planned");
        let names: Vec<_> = before.can_fail.iter().map(|one| (one.kind, &*one.name)).collect();
        assert_eq!(names, [("server", "mbx1"), ("server", "mbx2")], "one site cannot fail alone");
        let after = planned(&solution, &["mbx1".to_owned()]).expect("planned");
        assert_eq!(before.plan, after.plan, "what is clicked changes no plan");
        let failure = after.failure.expect("it was asked for");
        assert_eq!(failure.lost_servers, ["mbx1"]);
        assert_eq!(failure.loss, None);
        let moved: Vec<_> =
            failure.moves.iter().map(|one| (&*one.from, one.to.as_deref(), one.preference)).collect();
        assert_eq!(moved, [("mbx1", Some("mbx2"), Some(2))]);
        let actives: Vec<_> = failure.servers.iter().map(|one| (one.before, one.after, one.lost)).collect();
        assert_eq!(actives, [(1, 0, true), (1, 2, false)]);
    }

    #[test]
    fn a_failure_that_no_copy_survives_says_what_is_lost() {
        let lost = ["mbx1".to_owned(), "mbx2".to_owned()];
        let failure = planned(&honest(), &lost).expect("planned").failure.expect("it was asked for");
        assert_eq!(failure.loss.as_deref(), Some("2 of 2 databases have no copy left"));
        assert!(failure.moves.iter().all(|one| one.to.is_none()) && failure.moves.len() == 2);
    }

    #[test]
    fn a_name_that_nothing_has_is_refused() {
        let error = planned(&honest(), &["mbx9".to_owned()]).expect_err("there is no such server");
        assert!(error.message.contains("mbx9"), "{error}");
    }
}
