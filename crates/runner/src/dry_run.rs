//! What `--dry-run` tells: the tests with their times, the space on each volume and the memory, and what stands in
//! the way.

use std::fmt::Write;

use evidence::report::bytes;
use schemars::JsonSchema;
use serde::Serialize;
use solution::TestSpec;

use crate::needs::HostNeeds;
use crate::schedule::{self, PlannedTest};

/// Answer of `run --dry-run`: what a run would do and need.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DryRun {
    /// Version of this JSON document.
    pub schema_version: u32,
    /// Name of the solution.
    pub solution: String,
    /// Planned tests, in their order.
    pub tests: Vec<PlannedTest>,
    /// Least time of all tests, s.
    pub least_s: f64,
    /// Most time of the tests with a known length, s.
    pub most_s: f64,
    /// Needs of each host.
    pub hosts: Vec<HostNeeds>,
    /// Reason why the run cannot be carried out here; `None` if none is known.
    pub obstacle: Option<String>,
}

impl DryRun {
    /// Computes the answer for these tests on these hosts.
    pub fn new(solution: &str, tests: &[TestSpec], hosts: Vec<HostNeeds>) -> DryRun {
        let (solution, tests) = (solution.to_owned(), schedule::planned(tests));
        let (least_s, most_s) = schedule::span(&tests);
        DryRun { schema_version: 1, solution, tests, least_s, most_s, hosts, obstacle: None }
    }

    /// Formats tests, space and memory for people.
    pub fn text(&self) -> String {
        let mut text = schedule::text(&self.tests);
        for needs in &self.hosts {
            let host = if self.hosts.len() > 1 { format!(", {}", needs.host) } else { String::new() };
            let _ = writeln!(text, "{}{host}: will write below", self.solution);
            text += &needs.space();
            let _ = writeln!(text, "{} of memory for page caches", bytes(needs.cache_bytes as f64));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(load: &str) -> HostNeeds {
        let text = format!(
            "[solution]\nname = \"Small\"\nschema = 1\n[[host]]\nname = \"a\"\n[[volume]]\nname = \"V\"\npath = \"/v\"\n\
             [[instance]]\nname = \"DB\"\n[sizing]\ndatabase_mib = 64\n[load]\n{load}\n\
             [[test]]\nkind = \"performance\"\nduration_s = 86400\nwarmup_limit_s = 0\n"
        );
        let solution = solution::Solution::parse(&text, "small.toml").expect("it is valid");
        let deployment = solution.deployment(None).expect("it can run");
        HostNeeds::of(&[(&deployment, &deployment.tests)], false)
    }

    /// A closed load of four sessions writes as fast as the storage allows, also beyond its target.
    #[test]
    fn only_the_growth_of_a_paced_load_is_predicted_and_only_its_space_is_a_bound() {
        let closed = needs("sessions = 4\ntarget_iops = 2");
        assert_eq!(closed.growth_bytes, None);
        assert!(closed.space().contains("growth of the databases is not predicted"), "{}", closed.space());
        assert!(
            closed.space().contains("at least") && !closed.space().contains("up to"),
            "{}",
            closed.space()
        );
        let paced = needs("batches_per_s = 10");
        assert_eq!(paced.growth_bytes, Some(10 * 86_400 * 14_000));
        assert!(paced.space().contains("in all up to"), "{}", paced.space());
        assert!(paced.bytes > 10 * 86_400 * 14_000, "the bound holds the growth");
    }
}
