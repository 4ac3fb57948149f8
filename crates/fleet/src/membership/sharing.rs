//! What hosts share, said before their tests start: a run of a day should not end with that news.

use evidence::environment::sharing::{self, Shared};
use results::Environment;
use solution::Solution;

use super::{Membership, Note};
use crate::message::{Look, Work};
use crate::sharing::is_declared;

impl Membership {
    /// Notes what the hosts share although their solution file does not declare it.
    pub(super) fn say_what_is_shared(&mut self) {
        let looks = self.heartbeats().filter_map(|(_, heartbeat)| match &heartbeat.work {
            Work::Ready(Look { identity, .. }) => Some(identity.as_slice()),
            _ => None,
        });
        let rows: Vec<Environment> = looks.flatten().cloned().collect();
        let solution = Solution::parse(&self.memory.plan.solution, "the solution file of the run").ok();
        let is_said =
            |shared: &Shared| solution.as_ref().is_some_and(|solution| is_declared(solution, shared));
        for shared in sharing::shared(&rows).iter().filter(|shared| !is_said(shared)) {
            let text = format!(
                "{}, and the solution file does not say so: their sum is not that of separate hosts, and the run \
                 cannot qualify",
                shared.text()
            );
            self.keep(Note::new(None, text));
        }
    }
}
