//! The rules that a run is graded by, fixed before it starts: the published ones, or those of `[qualification]`.

use std::collections::BTreeSet;

use results::grade::{CONDITIONS, TESTS};
use results::{Row, Rule, WorldKind};
use solution::{EngineGeneration, Generation, InstanceSpec, Mix, Solution, TestKind};

/// Conditions about figures per batch, which depend on the mix of the load.
const SHAPE: [&str; 4] =
    ["reads_per_batch", "writes_per_batch", "log_writes_per_batch", "log_file_kib_per_batch"];

/// Rows for the rules of the grade and for the claim of the run; `measured` as in [`plan::claim`].
pub fn rows(solution: &Solution, world: WorldKind, measured: Option<&str>) -> Vec<Row> {
    let own = &solution.qualification;
    let tests: Vec<String> = match &own.tests {
        Some(kinds) => kinds.iter().map(|kind: &TestKind| kind.name().to_owned()).collect(),
        None => TESTS.map(str::to_owned).to_vec(),
    };
    let has_reference = has_published_shape(solution);
    let claim = plan::claim(solution, world, measured, tests.clone());
    let mut rows = Vec::new();
    for condition in &CONDITIONS {
        let mut rule = Rule::published(condition);
        if SHAPE.contains(&condition.name) && !has_reference {
            rule = Rule { least: None, most: None, published_least: None, published_most: None, ..rule };
        }
        if condition.name == "tests" {
            let both: BTreeSet<&str> = tests.iter().map(String::as_str).chain(TESTS).collect();
            rule.least = Some(tests.iter().collect::<BTreeSet<_>>().len() as f64);
            rule.published_least = Some(both.len() as f64);
        }
        if condition.name == "iops_per_mailbox_percent"
            && let Some(stated) = stated_iops_percent(solution, &claim)
        {
            rule.least = rule.least.map(|published| published.min(stated));
        }
        if let Some((_, least, most)) = own.ranges().into_iter().find(|(name, ..)| *name == condition.name) {
            (rule.least, rule.most) = (least, most);
        }
        rows.push(rule.into());
    }
    rows.push(claim.into());
    rows
}

/// Whether the published figures per batch are about this engine and load: the mix, pages of 32 KiB and logs of 1 MiB
/// of the generations from 2010 to 2016. The published programme ends with 2016.
fn has_published_shape(solution: &Solution) -> bool {
    let page_bytes = Generation::E2016.page_kib() * 1024;
    let log_bytes = u64::from(Generation::E2016.log_file_kib()) * 1024;
    let hosts = solution.hosts_under_test();
    let mut instances = hosts.iter().flat_map(|host| host.instances());
    let is_published = |one: &InstanceSpec| one.page_bytes == page_bytes && one.log_file_bytes == log_bytes;
    solution.generation <= Generation::E2016
        && solution.load.mix == Mix::of(Generation::E2016)
        && solution.load.classes.is_none()
        && solution.load.engine == EngineGeneration::default()
        && instances.all(is_published)
}

/// I/O per mailbox that the file states for its tests, in percent of what the profile needs. Less than 100 is a rule
/// of the solution's own.
fn stated_iops_percent(solution: &Solution, claim: &results::Claim) -> Option<f64> {
    solution.users().ok()?.test_iops_per_mailbox?;
    Some(100.0 * claim.iops_per_mailbox? / claim.profile_iops_per_mailbox?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Claim;

    const SMALL: &str = r#"
[solution]
name = "Small"
schema = 1

[[host]]
name = "a{n}"
count = 2

[[volume]]
name = "V"
path = "/v"

[[instance]]
name = "DB"

[sizing]
database_mib = 64
"#;

    fn rules(more: &str) -> (Vec<Rule>, Claim) {
        let solution = Solution::parse(&format!("{SMALL}{more}"), "small.toml").expect("it is valid");
        let (mut rules, mut claim) = (Vec::new(), Claim::default());
        for row in rows(&solution, WorldKind::Real, None) {
            match row {
                Row::Rule(row) => rules.push(row),
                Row::Claim(row) => claim = row,
                other => panic!("{other:?} is no rule"),
            }
        }
        (rules, claim)
    }

    fn rule<'a>(rules: &'a [Rule], name: &str) -> &'a Rule {
        rules.iter().find(|rule| rule.name == name).expect("every condition has its rule")
    }

    #[test]
    fn a_solution_without_rules_of_its_own_is_held_to_the_published_ones() {
        let (rules, claim) = rules("");
        assert_eq!(rules, CONDITIONS.iter().map(Rule::published).collect::<Vec<_>>());
        assert_eq!((claim.hosts, claim.iops_per_server), (vec!["a1".to_owned(), "a2".to_owned()], None));
        assert_eq!(claim.tests, TESTS);
    }

    #[test]
    fn rules_of_the_solution_take_the_place_of_the_published_ones_and_are_known_as_weaker() {
        let own = "[qualification]\ntests = [\"performance\"]\nperformance_window_s = 5\n\
                   reads_per_batch = [1, 40]\ncache_ratio = 800\n";
        let (rules, claim) = rules(own);
        assert_eq!(claim.tests, ["performance"]);
        let weaker: Vec<&str> =
            rules.iter().filter(|rule| rule.is_weaker()).map(|rule| &*rule.name).collect();
        assert_eq!(weaker, ["performance_window_s", "reads_per_batch", "tests"], "cache_ratio is stricter");
        assert!(rule(&rules, "performance_window_s").holds(Some(5.0)));
        assert!(!rule(&rules, "cache_ratio").holds(Some(799.0)));
    }

    #[test]
    fn mix_or_generation_without_published_tests_has_no_reference_for_its_shape() {
        for load in [
            "[load.mix]\ninsert = 10\ndelete = 10\nreplace = 10\nread = 70\nlazy = 50\n",
            "[load.classes]\nview = 60\nbody = 20\ndelivery = 10\nsearch = 5\nindex_update = 5\n",
            "[profile]\nexchange = \"2003\"\nmailboxes = 10\niops_per_mailbox = 0.5\nmailbox_mb = 10\nquota_mb = 10\n",
            "[profile]\nexchange = \"2019\"\nmailboxes = 10\n",
            "[profile]\nexchange = \"se\"\nmailboxes = 10\n",
        ] {
            let (rules, _) = rules(load);
            for name in SHAPE {
                assert!(!rule(&rules, name).holds(Some(28.0)), "{name}: there is nothing to hold it against");
            }
        }
    }

    #[test]
    fn pages_and_logs_of_another_size_have_no_reference_for_their_shape() {
        let (rules, _) = rules("");
        assert!(rule(&rules, "reads_per_batch").holds(Some(28.0)));
        for size in ["page_kib = 16", "log_file_kib = 5120"] {
            let text = SMALL.replace("name = \"DB\"", &format!("name = \"DB\"\n{size}"));
            let solution = Solution::parse(&text, "small.toml").expect("it is valid");
            for row in rows(&solution, WorldKind::Real, None) {
                let Row::Rule(row) = row else { continue };
                assert!(!SHAPE.contains(&&*row.name) || !row.holds(Some(28.0)), "{size}: {}", row.name);
            }
        }
    }

    #[test]
    fn tests_with_less_io_than_the_profile_stand_by_a_rule_of_their_own() {
        let profile =
            "[profile]\nexchange = \"2016\"\nmailboxes = 10\nmessages_per_day = 150\nquota_mb = 10\n";
        let (own, claim) = rules(&format!("{profile}test_iops_per_mailbox = 0.06\n"));
        let row = rule(&own, "iops_per_mailbox_percent");
        assert!(row.is_weaker() && row.least.is_some_and(|least| least < 60.0), "{row:?}");
        assert_eq!(claim.iops_per_mailbox, Some(0.06));
        let (published, _) = rules(profile);
        assert!(!rule(&published, "iops_per_mailbox_percent").is_weaker());
    }

    #[test]
    fn every_range_of_a_solution_belongs_to_a_condition_that_may_be_adjusted() {
        let all = solution::Qualification {
            tests: None,
            target_met_percent: Some(1.0),
            latency_limits_percent: Some(1.0),
            performance_window_s: Some(1.0),
            stress_window_s: Some(1.0),
            cache_ratio: Some(1.0),
            database_size_percent: Some(1.0),
            verified_logs: Some(1.0),
            recovered_logs: Some(1.0),
            cache_filled_percent: Some(1.0),
            maintained_percent: Some(1.0),
            kernel_log_percent: Some(1.0),
            evidence_apart_percent: Some(1.0),
            equal_hosts_percent: Some(1.0),
            starved_percent: Some(1.0),
            reads_per_batch: Some([1.0, 2.0]),
            writes_per_batch: Some([1.0, 2.0]),
            log_writes_per_batch: Some([1.0, 2.0]),
            log_file_kib_per_batch: Some([1.0, 2.0]),
            throughput_change_percent: Some(1.0),
            write_change_percent: Some(1.0),
            write_start_percent: Some(1.0),
            latency_change_percent: Some(1.0),
        };
        let named: Vec<&str> = all.ranges().into_iter().map(|(name, ..)| name).chain(["tests"]).collect();
        for condition in CONDITIONS {
            assert_eq!(named.contains(&condition.name), condition.adjustable, "{}", condition.name);
        }
        for (name, least, most) in all.ranges() {
            let condition = results::grade::condition(name).expect("the condition exists");
            assert_eq!(
                (least.is_some(), most.is_some()),
                (condition.least.is_some(), condition.most.is_some())
            );
        }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused_at_their_line() {
        for (own, why) in
            [("reads_per_batch = [30, 20]", "above its most"), ("tests = [\"backup\"]", "without a load")]
        {
            let text = format!("{SMALL}[qualification]\n{own}\n");
            let error = Solution::parse(&text, "small.toml").expect_err(own);
            assert!(error.message.contains(why), "{own}: {}", error.message);
            assert_eq!(error.line(), text.lines().count(), "{own}");
        }
    }
}
