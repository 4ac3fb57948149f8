//! The rules of the Preferred Architecture for Exchange 2019 and SE, each held against the plan.
//!
//! The architecture is the maker's recommendation and no condition of support: a broken rule fails no plan.

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Behind, Generation, Raid, Role, VolumeKind};

use crate::check::{Check, Outcome};
use crate::failure::Failures;
use crate::inputs::Inputs;
use crate::meta_cache::{DISKS_PER_SSD, MetaCache};
use crate::sizing::ServerNeed;

/// Compliance of a solution with a rule of the Preferred Architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compliance {
    /// The solution keeps the rule.
    Kept,
    /// The solution breaks the rule.
    Broken,
    /// The file does not say what the rule needs.
    NotJudged,
}

impl Compliance {
    /// Name of the outcome for people.
    pub fn word(self) -> &'static str {
        match self {
            Compliance::Kept => "kept",
            Compliance::Broken => "BROKEN",
            Compliance::NotJudged => "not judged",
        }
    }
}

/// One rule of the Preferred Architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchitectureRule {
    /// Requirement of the rule.
    pub rule: &'static str,
    /// Whether the solution keeps the rule.
    pub outcome: Compliance,
    /// What the solution has, in words.
    pub detail: String,
    /// Page of the maker's documentation that states the rule.
    pub source: &'static str,
}

/// Page of the Preferred Architecture in the maker's documentation.
const PAGE: &str = "preferred-architecture-2019.md";

/// Judges all rules of the Preferred Architecture; none before Exchange 2019.
pub fn rules(
    inputs: &Inputs<'_>,
    failures: &Failures,
    needs: [&ServerNeed; 2],
    cache: Option<&MetaCache>,
) -> Vec<ArchitectureRule> {
    if inputs.users.exchange < Generation::E2019 {
        return Vec::new();
    }
    let judged = [servers(inputs, needs), disks(inputs, failures), flash(cache), group(inputs)].concat();
    let rule = |(rule, (kept, detail))| {
        let outcome = match kept {
            Some(true) => Compliance::Kept,
            Some(false) => Compliance::Broken,
            None => Compliance::NotJudged,
        };
        ArchitectureRule { rule, outcome, detail, source: PAGE }
    };
    judged.into_iter().map(rule).collect()
}

/// Check of the plan that sums the rules up: a note if any is broken. `None` before Exchange 2019.
pub fn check(rules: &[ArchitectureRule]) -> Option<Check> {
    let broken = rules.iter().filter(|rule| rule.outcome == Compliance::Broken);
    let broken: Vec<&str> = broken.map(|rule| rule.rule).collect();
    let (outcome, detail) = match broken.len() {
        0 => (Outcome::Pass, "no rule is broken".to_owned()),
        count => {
            let all = counted(rules.len() as u64, "rule");
            (Outcome::Note, format!("{count} of {all} broken: {}", broken.join("; ")))
        }
    };
    (!rules.is_empty()).then_some(Check { name: "preferred architecture", outcome, detail })
}

/// Judgement of a rule, if possible, with what the solution has.
type Found = (Option<bool>, String);
type Judged = Vec<(&'static str, Found)>;

/// Judges a quantity of all servers against its range.
fn in_range(values: impl Iterator<Item = Option<f64>>, range: (f64, f64), unit: &str, key: &str) -> Found {
    let values: Vec<Option<f64>> = values.collect();
    let known = || values.iter().flatten().copied();
    let (Some(least), Some(most)) = (known().reduce(f64::min), known().reduce(f64::max)) else {
        return (None, format!("{key} is not given"));
    };
    let is_outside = least < range.0 || most > range.1;
    let kept = if is_outside { Some(false) } else { values.iter().all(Option::is_some).then_some(true) };
    let have = match least == most {
        true => number(least, 0),
        false => format!("{} to {}", number(least, 0), number(most, 0)),
    };
    (kept, format!("{have} {unit}"))
}

fn servers(inputs: &Inputs<'_>, needs: [&ServerNeed; 2]) -> Judged {
    let all = || inputs.servers.iter();
    let cpu = needs.iter().filter_map(|need| need.cpu_share).reduce(f64::max);
    let load = match cpu {
        Some(share) => (Some(share <= 0.8), format!("{} %", number(share * 100.0, 0))),
        None => (None, "the processor is not described".into()),
    };
    vec![
        (
            "memory of a server: 128 to 256 GB",
            in_range(all().map(|server| server.memory_gib), (128.0, 256.0), "GB", "memory_gib"),
        ),
        (
            "at most 48 cores in a server",
            in_range(all().map(|server| server.cores.map(f64::from)), (0.0, 48.0), "cores", "cores"),
        ),
        ("at most 80 % of the processor in the worst failure", load),
    ]
}

/// Volumes of the solution with this role.
fn of_role<'a>(inputs: &'a Inputs<'_>, role: Role) -> impl Iterator<Item = &'a VolumeKind> {
    inputs.solution.volumes.iter().filter(move |volume| volume.role == role)
}

fn disks(inputs: &Inputs<'_>, failures: &Failures) -> Judged {
    let system: Vec<Found> = of_role(inputs, Role::System).map(mirrored).collect();
    let databases: Vec<Found> =
        of_role(inputs, Role::Database).map(|volume| single(inputs, volume)).collect();
    let fullest = failures.scenarios[0].worst_volume;
    let spare = of_role(inputs, Role::AutoReseed).flat_map(|volume| &volume.hosts);
    let spare: std::collections::BTreeSet<_> = spare.collect();
    let with_spare =
        format!("{} of {} have one", spare.len(), counted(inputs.servers.len() as u64, "server"));
    let copies = inputs.databases_per_volume;
    vec![
        ("system and transport on a RAID 1 pair", worst(system, "no volume with role = \"system\"")),
        ("databases on single 7,200 rpm disks (JBOD)", worst(databases, "no volume for databases")),
        ("at most 4 database copies on a disk", (Some(copies <= 4), counted(copies.into(), "copy"))),
        ("at most 1 active copy on a disk", (Some(fullest <= 1), format!("{fullest} when nothing is lost"))),
        (
            "a spare disk for AutoReseed in each server",
            (Some(spare.len() == inputs.servers.len()), with_spare),
        ),
        ("no tiering or cache of an array under the databases", untiered(inputs)),
    ]
}

/// Judges the rules about the SSDs of the MetaCache.
fn flash(cache: Option<&MetaCache>) -> Judged {
    let judged = |found: &dyn Fn(&MetaCache) -> Found| {
        cache.map_or_else(|| (None, "no volume with role = \"meta_cache\"".to_owned()), found)
    };
    let ratio = |cache: &MetaCache| {
        let (ssds, disks) = (counted(cache.ssds.into(), "SSD"), counted(cache.disks.into(), "disk"));
        (Some(cache.ssds * DISKS_PER_SSD == cache.disks), format!("{ssds} for {disks}"))
    };
    let share = |cache: &MetaCache| {
        let percent = cache.share_of_disks * 100.0;
        (Some((5.0..=10.0).contains(&percent)), format!("{} %", number(percent, 1)))
    };
    let alike = |cache: &MetaCache| {
        (Some(cache.alike), if cache.alike { "they are" } else { "they differ" }.to_owned())
    };
    let wear = |cache: &MetaCache| {
        let writes = cache.drive_writes_per_day;
        (Some(writes <= 1.0), format!("at most {} drive writes a day", number(writes, 2)))
    };
    vec![
        ("1 SSD for the MetaCache to 3 database disks", judged(&ratio)),
        ("SSDs with 5 to 10 % of the capacity of the database disks", judged(&share)),
        ("SSDs alike, as many in each server", judged(&alike)),
        ("SSDs for 1 drive write a day suffice", judged(&wear)),
    ]
}

/// Worst judgement: the first broken rule, else the first not judged, else any.
fn worst(mut found: Vec<Found>, none: &str) -> Found {
    found.sort_by_key(|(kept, _)| match kept {
        Some(false) => 0,
        None => 1,
        Some(true) => 2,
    });
    found.into_iter().next().unwrap_or((None, none.to_owned()))
}

fn mirrored(volume: &VolumeKind) -> Found {
    match volume.behind {
        Behind::Disks { disks, raid, .. } => {
            let kept = raid == Raid::Raid1 && disks == 2;
            (Some(kept), format!("{}: {}, {}", volume.name, counted(disks.into(), "disk"), raid.words()))
        }
        Behind::Pool(_) => (Some(false), format!("{} is a part of a pool", volume.name)),
        Behind::Unknown => (None, format!("{} names no disks", volume.name)),
    }
}

fn single(inputs: &Inputs<'_>, volume: &VolumeKind) -> Found {
    match volume.behind {
        Behind::Disks { disk, disks, raid } => {
            let kind = &inputs.solution.disks[disk];
            let is_single = disks == 1 && matches!(raid, Raid::Jbod | Raid::Raid0);
            let turns = if kind.solid_state { Some(false) } else { kind.rpm.map(|rpm| rpm == 7200) };
            let kept = if is_single { turns } else { Some(false) };
            let speed = match kind.rpm {
                _ if kind.solid_state => "solid state".to_owned(),
                Some(rpm) => format!("{} rpm", number(rpm.into(), 0)),
                None => "rpm not given".to_owned(),
            };
            let set = counted(disks.into(), "disk");
            (kept, format!("{}: {set} ({}), {speed}", volume.name, raid.words()))
        }
        Behind::Pool(_) => (Some(false), format!("{} is a part of a pool", volume.name)),
        Behind::Unknown => (None, format!("{} names no disks", volume.name)),
    }
}

fn untiered(inputs: &Inputs<'_>) -> Found {
    let solution = inputs.solution;
    let tiered = solution.pools.iter().find(|pool| pool.fast.is_some() || pool.tiering.is_some());
    let caches = solution.array.as_ref().is_some_and(|array| array.read_cache.is_some());
    match tiered {
        Some(pool) => (Some(false), format!("pool {} has a faster tier", pool.name)),
        None if caches => (Some(false), "the array has a read cache of its own".into()),
        None => (Some(true), "none is described".into()),
    }
}

fn group(inputs: &Inputs<'_>) -> Judged {
    let kept = &inputs.solution.copies;
    let members = inputs.servers.len();
    let sizes: Vec<usize> = inputs.sites.iter().map(|site| site.servers.len()).collect();
    let alike = sizes.iter().all(|&size| size == sizes[0]);
    let is_symmetric = alike && sizes.len() <= 2 && inputs.sites.iter().all(|site| site.active);
    let each: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let (copies, lagged) = (inputs.copies(), kept.lagged);
    let lag = match lagged {
        0 => "no copy is lagged".to_owned(),
        _ => format!("{} days", number(kept.lag_days, 1)),
    };
    vec![
        ("8 members or more in a group", (Some(members >= 8), counted(members as u64, "member"))),
        (
            "as many servers in each site, at most two sites, both active",
            (Some(is_symmetric), format!("{} servers", each.join(" + "))),
        ),
        (
            "at least 3 copies of a database and 1 lagged copy",
            (Some(lagged >= 1 && copies - lagged >= 3), format!("{} + {lagged}", copies - lagged)),
        ),
        ("a replay lag of 7 days", (Some(lagged > 0 && kept.lag_days == 7.0), lag)),
        (
            "Replay Lag Manager plays a lagged copy forward when it is needed",
            (
                Some(lagged > 0 && kept.lagged_can_activate),
                format!("lagged_can_activate = {}", kept.lagged_can_activate),
            ),
        ),
    ]
}
