//! What a run of a solution sets out to show: one record, from the plan and the solution file alone.
//!
//! Invariant: everything that the sentence of a qualified run says stands in the record, and what nothing backs is a
//! [`Doubt`] of it. `lint` makes the record again from the solution inside the evidence.

use std::collections::BTreeSet;

use results::figures::counted;
use results::judge::LatencyRule;
use results::{Claim, Day, Doubt, Limit, WorldKind};
use solution::{Behind, HostSpec, PoolSpec, Role, Scope, Solution, TestSpec, Thresholds};

use crate::unmeasured::unmeasured;
use crate::{Outcome, Plan, plan};

/// Claim of a run in `world`: what it sets out to show. `tests` are the kinds of tests that the run's rules require,
/// `measured` says of what measurement the storage of a simulation is, if it is not the described one.
pub fn claim(solution: &Solution, world: WorldKind, measured: Option<&str>, tests: Vec<String>) -> Claim {
    let hosts = solution.hosts_under_test();
    let mut doubts = sharing(solution, &hosts);
    if world == WorldKind::Simulated {
        doubts.extend(assumed(solution, &hosts, measured));
        // A measurement is in place of the models of the parts.
        if measured.is_none() {
            let of_part = |part| doubt("storage", format!("no measurement has checked this model: {part}"));
            doubts.extend(unmeasured(solution, &hosts).into_iter().map(of_part));
        }
    }
    doubts.extend(other_roles(solution, &hosts));
    doubts.extend(replication(solution));
    let day_mean_percent = solution.load.hours_percent.map(|hours| 100.0 * Day::of_window(hours, 0.0).mean());
    if day_mean_percent.is_some_and(|mean| mean < 100.0) {
        let text =
            "mean latencies are those of a day, which quiet hours lower: test the peak hour alone, too";
        doubts.push(doubt("load", text));
    }
    let mut claim = Claim {
        hosts: hosts.iter().map(|host| host.name.clone()).collect(),
        tests,
        storage: storage(solution, &hosts, measured.is_some()),
        copies: Some(solution.copies.total()),
        engine: engine(solution, &hosts),
        day_mean_percent,
        ..Claim::default()
    };
    // Without a profile, or where the planner cannot size the solution, its stated target is all there is.
    if let Ok(planned) = plan(solution, &[]) {
        doubts.extend(failed_checks(&planned));
        doubts.extend(fewer_databases(solution, &planned));
        claim.mailboxes = Some(served(solution, &planned));
        claim.iops_per_mailbox = solution.load.iops_per_mailbox.or(Some(profile_iops(&planned)));
        claim.profile_iops_per_mailbox = Some(profile_iops(&planned));
        claim.iops_per_server = Some(planned.targets.target_iops);
        claim.failure = Some(planned.targets.target_case.clone());
        claim.database_bytes = Some(planned.sizing.database_gb * (1u64 << 30) as f64);
    }
    claim.doubts = doubts;
    claim
}

/// What the values of a storage model say of the measurement behind it: the files, and how far predictions are off.
/// `None` for a described storage. A value is its key, itself and its source.
pub fn measured_storage<'a>(values: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Option<String> {
    let of_error =
        values.filter(|(key, ..)| key.starts_with("measured.") && key.ends_with(".left_out_percent"));
    let told = of_error.map(|(_, percent, source)| {
        let files = source.strip_prefix("measured: ").unwrap_or(source);
        format!("{files}; points that were left out are off by {percent} %")
    });
    let told: BTreeSet<String> = told.collect();
    (!told.is_empty()).then(|| told.into_iter().collect::<Vec<_>>().join("; "))
}

/// Description of the volumes under test, by kind, with the disks behind each and the controllers before them, or a
/// measured storage in their place.
fn storage(solution: &Solution, hosts: &[&HostSpec], is_measured: bool) -> String {
    let tested = |kind: usize| {
        let volumes = hosts.iter().flat_map(|host| &host.volumes);
        volumes.filter(|volume| volume.is_under_test && volume.kind == kind).count() as u64
    };
    let kinds = solution.volumes.iter().enumerate().filter(|(kind, _)| tested(*kind) > 0);
    let texts = kinds.map(|(kind, volume)| {
        let behind = match volume.behind {
            _ if is_measured => "a measured storage".to_owned(),
            Behind::Disks { disk, disks, raid } => {
                format!("{disks} {} ({})", solution.disks[disk].name, raid.words())
            }
            Behind::Pool(pool) => pooled(solution, &solution.pools[pool]),
            Behind::Unknown => "disks that the solution does not name".to_owned(),
        };
        format!("{} {} of {behind}", counted(tested(kind), "volume"), volume.name)
    });
    let before = if is_measured { String::new() } else { controllers(solution) };
    texts.collect::<Vec<_>>().join(", ") + &before
}

/// Description of the pool of which a volume is a part.
fn pooled(solution: &Solution, pool: &PoolSpec) -> String {
    let disks = |count: u32, kind: usize| format!("{count} {}", solution.disks[kind].name);
    let fast = pool.fast.as_ref().map_or(String::new(), |fast| disks(fast.disks, fast.disk) + " and ");
    format!("a part of pool {} of {fast}{} ({})", pool.name, disks(pool.disks, pool.disk), pool.raid.words())
}

/// Description of the parts between the hosts and the disks; nothing if the solution has no array.
fn controllers(solution: &Solution) -> String {
    let Some(array) = &solution.array else { return String::new() };
    let place = match array.scope {
        Scope::Host => "in each host",
        Scope::Shared => "shared by the hosts",
    };
    let count = counted(u64::from(array.controllers), "controller");
    let cache = array.cache_mib.map_or(String::new(), |mib| format!(" with {mib} MiB of cache each"));
    let links = counted(u64::from(array.links_per_host), "link");
    let mut text =
        format!(" behind {count} {}{cache}, {place}, over {links} {} per host", array.controller, array.link);
    if let Some(cache) = &array.read_cache {
        text += &format!(", with a read cache of {} {}", cache.disks, cache.disk);
    }
    if let Some(copy) = &array.remote_copy {
        text += &format!(", with a synchronous copy at {} km over {}", copy.distance_km, copy.link);
    }
    text
}

/// Description of the engine that generates the load.
fn engine(solution: &Solution, hosts: &[&HostSpec]) -> String {
    let instances = || hosts.iter().flat_map(|host| host.instances());
    let kib = |sizes: BTreeSet<u64>| {
        sizes.into_iter().map(|bytes| (bytes >> 10).to_string()).collect::<Vec<_>>().join(" and ")
    };
    let pages = kib(instances().map(|instance| u64::from(instance.page_bytes)).collect());
    let logs = kib(instances().map(|instance| instance.log_file_bytes).collect());
    let name = solution.generation.name();
    format!("database engine of Exchange {name} with pages of {pages} KiB and logs of {logs} KiB")
}

fn profile_iops(planned: &Plan) -> f64 {
    planned.sizing.iops_per_mailbox_with_headroom
}

/// Mailboxes whose databases are in service while the failure under test lasts.
fn served(solution: &Solution, planned: &Plan) -> f64 {
    let tested = planned.failures.named().next().filter(|_| !solution.failed.is_empty());
    let lost = tested.map_or(0, |failure| failure.lost_databases);
    let databases = planned.layout.databases.len().max(1) as f64;
    (planned.mailboxes as f64 * (1.0 - f64::from(lost) / databases)).round()
}

fn doubt(part: &str, text: impl Into<String>) -> Doubt {
    Doubt { part: part.to_owned(), text: text.into() }
}

/// Doubt about a plan that fails or could not judge whether the storage suffices: it backs no claim.
fn failed_checks(planned: &Plan) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for check in &planned.checks {
        match check.outcome {
            Outcome::Fail => doubts.push(doubt("plan", format!("the plan fails: {}", check.name))),
            Outcome::NotJudged if check.name == "storage fits" => {
                doubts.push(doubt("plan", "the plan cannot judge whether the storage fits"));
            }
            _ => {}
        }
    }
    doubts.dedup();
    doubts
}

/// Doubt about hosts that share the storage but are not under test, unless the failure under test removes them.
fn sharing(solution: &Solution, hosts: &[&HostSpec]) -> Vec<Doubt> {
    let lost: Vec<usize> = solution.failed.iter().flat_map(|name| solution.hosts_lost_with(name)).collect();
    let is_shared = solution.array.as_ref().is_some_and(|array| array.scope == Scope::Shared);
    let mut doubts = Vec::new();
    for (index, host) in solution.hosts.iter().enumerate() {
        let name = &host.name;
        let shares = || hosts.iter().any(|tested| solution.place_of(tested) == solution.place_of(host));
        if host.is_under_test && lost.contains(&index) {
            doubts.push(doubt("hosts", format!("{name} is under test and counts as lost")));
        } else if !host.is_under_test && !lost.contains(&index) && is_shared && shares() {
            doubts.push(doubt("hosts", format!("{name} shares the storage and is not under test")));
        }
    }
    doubts
}

/// Doubts about parts that a simulation assumes because the solution does not describe them.
fn assumed(solution: &Solution, hosts: &[&HostSpec], measured: Option<&str>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    match measured {
        Some(measured) => {
            doubts.push(doubt("storage", format!("the storage is predicted from measurements: {measured}")));
        }
        None if solution.array.is_none() => {
            return vec![doubt("storage", "the storage is not described: there is no [array]")];
        }
        None => {}
    }
    for host in hosts {
        if host.cores.is_none() {
            doubts.push(doubt("storage", format!("{} has no `cores`: it is simulated with one", host.name)));
        }
        let tested = host.volumes.iter().filter(|volume| volume.is_under_test);
        let unknown = tested.filter(|volume| solution.volumes[volume.kind].behind == Behind::Unknown);
        let has_store = solution.array.as_ref().is_some_and(|array| array.store.is_some());
        if !has_store && measured.is_none() {
            doubts.extend(
                unknown.map(|volume| {
                    doubt("storage", format!("{} of {} names no disks", volume.name, host.name))
                }),
            );
        }
    }
    doubts
}

/// Doubt about databases on a volume with another role, which the plan does not count.
fn other_roles(solution: &Solution, hosts: &[&HostSpec]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for host in hosts {
        let databases = host.instances().flat_map(|instance| &instance.databases);
        let used: BTreeSet<&str> = databases.map(|database| database.volume.as_str()).collect();
        let others = host.volumes.iter().filter(|volume| volume.role != Role::Database);
        for volume in others.filter(|volume| used.contains(volume.name.as_str())) {
            let role = &solution.volumes[volume.kind].name;
            let text =
                format!("{} of {} holds databases, and `{role}` has another role", volume.name, host.name);
            doubts.push(doubt("storage", text));
        }
    }
    doubts
}

/// Doubt about a host under test with fewer databases than are active on it while the failure lasts.
fn fewer_databases(solution: &Solution, planned: &Plan) -> Vec<Doubt> {
    let tested = planned.failures.named().next().filter(|_| !solution.failed.is_empty());
    let failure = tested.unwrap_or_else(|| planned.failures.worst());
    let mut doubts = Vec::new();
    for (host, active) in solution.hosts.iter().zip(&failure.active).filter(|(host, _)| host.is_under_test) {
        let count: u64 = host.instances().map(|instance| instance.databases.len() as u64).sum();
        if count < u64::from(*active) {
            let there = counted(count, "database");
            doubts.push(doubt(
                "databases",
                format!("{} is tested with {there}, and {active} are active on it", host.name),
            ));
        }
    }
    doubts
}

/// Doubt about a load that reads the log for fewer passive copies than there are.
fn replication(solution: &Solution) -> Option<Doubt> {
    let (tested, planned) = (solution.load.copies, solution.copies.total());
    let text = || format!("the load reads the log for {tested} copies, and the solution has {planned}");
    (tested < planned).then(|| doubt("copies", text()))
}

/// Latency limits of a test by rule, each with the published limit.
pub fn limits(spec: &TestSpec) -> Vec<Limit> {
    let of = |thresholds: &Thresholds, rule| match rule {
        LatencyRule::ReadAvg => thresholds.read_avg_ms,
        LatencyRule::ReadMax => thresholds.read_max_ms,
        LatencyRule::LogWriteAvg => thresholds.log_write_avg_ms,
        LatencyRule::LogWriteMax => thresholds.log_write_max_ms,
    };
    let limit = |rule: LatencyRule| {
        let (value, published) = (of(&spec.thresholds, rule)?, of(&spec.published, rule));
        Some(Limit { rule: rule.name().into(), value, unit: "ms".into(), published })
    };
    LatencyRule::ALL.into_iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use testkit::claims::HONEST;

    use super::*;

    fn claimed(changes: &[(&str, &str)], world: WorldKind) -> Claim {
        let text = changes.iter().fold(HONEST.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "nothing to change: {from}");
            text.replacen(from, to, 1)
        });
        claim(&Solution::parse(&text, "s.toml").expect("it is valid"), world, None, Vec::new())
    }

    fn doubts(changes: &[(&str, &str)]) -> Vec<String> {
        claimed(changes, WorldKind::Simulated).doubts.into_iter().map(|doubt| doubt.text).collect()
    }

    #[test]
    fn claim_of_an_honest_solution_has_every_part_and_no_doubt() {
        let honest = claimed(&[], WorldKind::Simulated);
        assert_eq!(honest.doubts, Vec::new());
        assert_eq!((honest.mailboxes, honest.iops_per_mailbox), (Some(400.0), Some(0.121)));
        assert_eq!((honest.failure.as_deref(), &honest.hosts[..]), (Some("mbx2"), &["mbx1".to_owned()][..]));
        assert!(honest.profile_iops_per_mailbox.is_some_and(|iops| iops < 0.121));
        assert!(honest.database_bytes.is_some_and(|bytes| bytes > 1e11));
        assert_eq!(
            honest.storage,
            "1 volume V1 of 2 ST4000NM0023 (RAID 1) behind 2 controllers sas-array-2013, shared by the hosts, over \
             2 links sas-6g-x4 per host"
        );
        assert_eq!(honest.copies, Some(2));
        assert_eq!(
            honest.engine,
            "database engine of Exchange 2013 with pages of 32 KiB and logs of 1024 KiB"
        );
    }

    /// With one copy less, the loss of mbx2 takes one of two databases out of service.
    #[test]
    fn mailboxes_that_the_failure_takes_away_are_not_claimed() {
        let one_copy = [("per_site = [2]", "per_site = [1]")];
        assert_eq!(claimed(&one_copy, WorldKind::Real).mailboxes, Some(200.0));
        assert!(
            doubts(&one_copy).iter().any(|text| text.starts_with("the plan fails")),
            "{:?}",
            doubts(&one_copy)
        );
    }

    #[test]
    fn storage_that_a_simulation_assumes_is_doubtful_and_real_storage_is_not() {
        let start = HONEST.find("[array]").expect("it has one");
        let end = HONEST.find("[[instance]]").expect("it has one");
        let without = [(&HONEST[start..end], "")];
        assert_eq!(doubts(&without), ["the storage is not described: there is no [array]"]);
        assert_eq!(claimed(&without, WorldKind::Real).doubts, Vec::new());
        assert!(
            doubts(&[("cores = 8\n", "")])
                .contains(&"mbx1 has no `cores`: it is simulated with one".to_owned())
        );
    }

    #[test]
    fn storage_that_a_measurement_replaces_is_named_and_doubtful_with_and_without_an_array() {
        let start = HONEST.find("[array]").expect("it has one");
        let end = HONEST.find("[[instance]]").expect("it has one");
        for text in [HONEST.to_owned(), HONEST.replace(&HONEST[start..end], "")] {
            let solution = Solution::parse(&text, "s.toml").expect("it is valid");
            let claim = claim(&solution, WorldKind::Simulated, Some("probe.csv, off by 7 %"), Vec::new());
            let told: Vec<&str> = claim.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
            assert_eq!(told, ["the storage is predicted from measurements: probe.csv, off by 7 %"]);
            assert_eq!(claim.storage, "1 volume V1 of a measured storage");
        }
    }

    #[test]
    fn hosts_that_share_the_storage_are_loaded_together_or_lost() {
        let four = [("count = 2\nsite", "count = 4\nsite")];
        let told = doubts(&four);
        for host in ["mbx3", "mbx4"] {
            assert!(told.contains(&format!("{host} shares the storage and is not under test")), "{told:?}");
        }
        let of_each = [four[0], ("scope = \"shared\"", "scope = \"host\"")];
        assert!(!doubts(&of_each).iter().any(|text| text.contains("shares the storage")));
        let told = doubts(&[("failed = [\"mbx2\"]", "failed = [\"mbx1\"]")]);
        assert!(told.contains(&"mbx1 is under test and counts as lost".to_owned()), "{told:?}");
    }

    #[test]
    fn log_that_is_read_for_fewer_copies_than_planned_is_doubtful() {
        let told = doubts(&[("target_iops = 48.4", "target_iops = 48.4\ncopies = 1")]);
        assert_eq!(told, ["the load reads the log for 1 copies, and the solution has 2"]);
    }
}
