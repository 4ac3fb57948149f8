//! What every failure does to the active databases.
//!
//! A database is active on the first of its copies, in order of preference, whose server is alive and has room
//! for another active. That is what the real selection does when all copies are healthy; ties in queues fall
//! back to preference.
//!
//! Invariants
//! 1. Every database is active at most once, and only where it has a copy on a living server.
//! 2. No server has more actives than its limit.
//! 3. Active and lost databases add up to all databases.

use std::collections::BTreeMap;

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::Solution;

use crate::inputs::Inputs;
use crate::layout::Layout;

/// Kind of a failure: what is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing is lost.
    Normal,
    /// One server.
    Server,
    /// Two servers.
    TwoServers,
    /// All servers of an enclosure.
    Enclosure,
    /// All servers of a site.
    Site,
    /// All servers of a site and one more.
    SiteAndServer,
    /// Set of parts that the user named.
    Named,
}

impl Kind {
    /// Name of the kind for people.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Normal => "nothing lost",
            Kind::Server => "one server",
            Kind::TwoServers => "two servers",
            Kind::Enclosure => "an enclosure",
            Kind::Site => "a site",
            Kind::SiteAndServer => "a site and a server",
            Kind::Named => "named",
        }
    }
}

/// Failure with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Scenario {
    /// Kind of the failure.
    pub kind: Kind,
    /// Lost parts, for people.
    pub label: String,
    /// Bit mask of the lost servers: bit n for server n.
    pub lost_servers: u32,
    /// Number of active databases of each server.
    pub active: Vec<u32>,
    /// Number of databases that are active nowhere.
    pub lost_databases: u32,
    /// Number of databases without any copy left. The others of `lost_databases` keep a copy that may not be
    /// activated.
    pub lost_data: u32,
    /// Active databases on the fullest server.
    pub worst_active: u32,
    /// Active databases on the fullest volume.
    pub worst_volume: u32,
    /// Active copy of each database, by preference from 0.
    #[serde(skip)]
    pub active_copy: Vec<Option<u8>>,
}

impl Scenario {
    /// Sentence about the loss, out of this many databases; `None` if every database is active.
    pub fn loss(&self, databases: usize) -> Option<String> {
        let without_service = self.lost_databases.saturating_sub(self.lost_data);
        let parts =
            [(self.lost_data, "have no copy left"), (without_service, "keep a copy that may not be active")];
        let parts = parts.into_iter().filter(|&(count, _)| count > 0);
        let said: Vec<String> =
            parts.map(|(count, what)| format!("{} {what}", of_databases(count, databases))).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

fn of_databases(count: u32, databases: usize) -> String {
    format!("{} of {}", number(count.into(), 0), counted(databases as u64, "database"))
}

/// Summary of all failures of a kind, or of one named set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Class {
    /// Kind of the failures.
    pub kind: Kind,
    /// Number of failures of the kind.
    pub scenarios: u32,
    /// Number of these failures that lose no database.
    pub survived: u32,
    /// Most active databases on a server, over the failures that lose no database (over all if there is none).
    pub worst_active: u32,
    /// Most active databases on a volume, over the same failures.
    pub worst_volume: u32,
    /// Largest number of lost databases.
    pub lost_databases: u32,
    /// Largest number of databases without any copy left.
    pub lost_data: u32,
    /// Failure in which `worst_active` occurs.
    pub worst: String,
}

/// All failures of a layout with their outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failures {
    /// Summaries by kind.
    pub classes: Vec<Class>,
    /// All failures.
    pub scenarios: Vec<Scenario>,
    /// Index of the worst failure that loses no database.
    pub worst_survived: usize,
    /// Smallest number of lost servers that can take a database out of service.
    pub fatal_servers: u32,
    /// Number of sets of this many servers that do.
    pub fatal_sets: u64,
    /// Number of all sets of this many servers.
    pub sets: u64,
}

impl Failures {
    /// Failures that the user named.
    pub fn named(&self) -> impl Iterator<Item = &Scenario> {
        self.scenarios.iter().filter(|one| one.kind == Kind::Named)
    }

    /// Sentences about each kind of failure that takes databases out of service; empty if none does.
    pub fn losses(&self, databases: usize) -> Vec<String> {
        let losing = self.classes.iter().filter(|class| class.lost_databases > 0);
        losing
            .map(|class| {
                let name = if class.kind == Kind::Named { &class.worst } else { class.kind.label() };
                let (lost, data) = (class.lost_databases, class.lost_data);
                let kept =
                    if data < lost { format!(" ({data} of them with no copy left)") } else { "".into() };
                match class.scenarios {
                    1 => format!("{name}: loses {}{kept}", of_databases(lost, databases)),
                    cases => format!(
                        "{name}: {} of {cases} cases lose databases, at most {lost} of {databases}{kept}",
                        cases - class.survived
                    ),
                }
            })
            .collect()
    }

    /// Worst failure that loses no database.
    pub fn worst(&self) -> &Scenario {
        &self.scenarios[self.worst_survived]
    }
}

/// Layout in a compact form for the computation of failures.
struct Compact {
    /// Server and volume slot of each copy that may be activated, database after database.
    copies: Vec<(u8, u32)>,
    /// Index in `copies` at which each database starts, and the end.
    starts: Vec<u32>,
    /// Bit masks of the servers with a copy of each database, also one that may not be activated.
    holders: Vec<u32>,
    slots: usize,
    limits: Option<Vec<u32>>,
    servers: usize,
}

impl Compact {
    fn of(inputs: &Inputs<'_>, layout: &Layout) -> Compact {
        let servers = inputs.servers.len();
        let mut volumes = vec![0u32; servers];
        for copy in layout.databases.iter().flat_map(|database| &database.copies) {
            let most = &mut volumes[usize::from(copy.server)];
            *most = (*most).max(u32::from(copy.volume));
        }
        let mut slots = 0;
        let mut first_slot = Vec::with_capacity(servers);
        for count in volumes {
            first_slot.push(slots);
            slots += count;
        }
        let off = if inputs.solution.copies.lagged_can_activate { 0 } else { layout.lagged as usize };
        let mut copies = Vec::new();
        let mut starts = vec![0];
        let mut holders = Vec::with_capacity(layout.databases.len());
        for database in &layout.databases {
            holders.push(mask(database.copies.iter().map(|copy| usize::from(copy.server))));
            let usable = database.copies.len().saturating_sub(off).max(1);
            copies.extend(database.copies[..usable.min(database.copies.len())].iter().map(|copy| {
                (copy.server, first_slot[usize::from(copy.server)] + u32::from(copy.volume) - 1)
            }));
            starts.push(copies.len() as u32);
        }
        let limited = inputs.servers.iter().any(|server| server.max_active.is_some());
        let limits = limited
            .then(|| inputs.servers.iter().map(|server| server.max_active.unwrap_or(u32::MAX)).collect());
        Compact { copies, starts, holders, slots: slots as usize, limits, servers }
    }

    fn databases(&self) -> impl Iterator<Item = &[(u8, u32)]> {
        self.starts.windows(2).map(|ends| &self.copies[ends[0] as usize..ends[1] as usize])
    }

    /// Activates every database while the servers in `lost` are gone.
    fn fail(&self, kind: Kind, label: String, lost: u32) -> Scenario {
        let mut active = vec![0u32; self.servers];
        let mut on_volume = vec![0u32; self.slots];
        let mut lost_databases = 0;
        let mut active_copy = vec![None; self.starts.len() - 1];
        let alive = |server: u8| lost & (1 << server) == 0;
        // Databases whose first copy lives stay where they are; only then the others look for room.
        for moves in [false, true] {
            for (copies, chosen) in self.databases().zip(&mut active_copy) {
                if alive(copies[0].0) == moves {
                    continue;
                }
                let room = |server: u8| match &self.limits {
                    None => true,
                    Some(limits) => active[usize::from(server)] < limits[usize::from(server)],
                };
                match copies.iter().position(|&(server, _)| alive(server) && room(server)) {
                    Some(copy) => {
                        let (server, slot) = copies[copy];
                        *chosen = Some(copy as u8);
                        active[usize::from(server)] += 1;
                        on_volume[slot as usize] += 1;
                    }
                    None => lost_databases += 1,
                }
            }
        }
        let worst = |counts: &[u32]| counts.iter().copied().max().unwrap_or(0);
        let (worst_active, worst_volume) = (worst(&active), worst(&on_volume));
        Scenario {
            kind,
            label,
            lost_servers: lost,
            active,
            lost_databases,
            lost_data: self.holders.iter().filter(|&&holders| holders & !lost == 0).count() as u32,
            worst_active,
            worst_volume,
            active_copy,
        }
    }
}

/// Computes every failure: each server, each two, each enclosure, each site, each site with one more server,
/// and the named sets (label and lost servers).
pub fn failures(inputs: &Inputs<'_>, layout: &Layout, named: &[(String, u32)]) -> Failures {
    let compact = Compact::of(inputs, layout);
    let scenarios: Vec<Scenario> = sets_to_fail(inputs)
        .into_iter()
        .chain(named.iter().map(|(label, lost)| (Kind::Named, label.clone(), *lost)))
        .map(|(kind, label, lost)| compact.fail(kind, label, lost))
        .collect();
    let worst_survived = (0..scenarios.len())
        .filter(|&i| scenarios[i].lost_databases == 0 && scenarios[i].kind != Kind::Named)
        // On equal load the failure that takes more servers is the one to name.
        .max_by_key(|&i| (scenarios[i].worst_active, scenarios[i].lost_servers.count_ones(), usize::MAX - i))
        .unwrap_or(0);
    let (fatal_servers, fatal_sets) = fatal_sets(&compact);
    Failures {
        classes: classes(&scenarios),
        worst_survived,
        fatal_servers,
        fatal_sets,
        sets: binomial(inputs.servers.len() as u64, u64::from(fatal_servers)),
        scenarios,
    }
}

/// Bit mask of the servers that a list of names (hosts, enclosures, sites) removes.
pub fn named_set(solution: &Solution, names: &[&str]) -> std::result::Result<u32, String> {
    let mut lost = 0;
    for name in names {
        let hosts = solution.hosts_lost_with(name);
        if hosts.is_empty() {
            return Err((*name).to_owned());
        }
        lost |= mask(hosts.into_iter());
    }
    Ok(lost)
}

fn sets_to_fail(inputs: &Inputs<'_>) -> Vec<(Kind, String, u32)> {
    let servers = inputs.servers.len();
    let name = |server: usize| inputs.servers[server].name.as_str();
    let mut sets = vec![(Kind::Normal, "nothing".to_owned(), 0u32)];
    sets.extend((0..servers).map(|a| (Kind::Server, name(a).to_owned(), 1 << a)));
    for a in 0..servers {
        sets.extend(
            (a + 1..servers)
                .map(|b| (Kind::TwoServers, format!("{} + {}", name(a), name(b)), 1 << a | 1 << b)),
        );
    }
    for (index, enclosure) in inputs.enclosures.iter().enumerate() {
        let lost = mask((0..servers).filter(|&server| inputs.servers[server].enclosure == Some(index)));
        if lost.count_ones() > 1 && lost.count_ones() < servers as u32 {
            sets.push((Kind::Enclosure, enclosure.clone(), lost));
        }
    }
    if inputs.sites.len() > 1 {
        let lost_with = |site: usize| mask(inputs.sites[site].servers.iter().copied());
        for (index, site) in inputs.sites.iter().enumerate() {
            sets.push((Kind::Site, site.name.clone(), lost_with(index)));
        }
        for (index, site) in inputs.sites.iter().enumerate() {
            let others = (0..servers).filter(|&server| inputs.servers[server].site != index);
            sets.extend(others.map(|server| {
                let label = format!("{} + {}", site.name, name(server));
                (Kind::SiteAndServer, label, lost_with(index) | 1 << server)
            }));
        }
    }
    sets
}

fn mask(servers: impl Iterator<Item = usize>) -> u32 {
    servers.fold(0, |set, server| set | 1 << server)
}

/// Summaries of failures, one per kind; each named set has its own.
fn classes(scenarios: &[Scenario]) -> Vec<Class> {
    let mut groups: BTreeMap<(Kind, usize), Vec<&Scenario>> = BTreeMap::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let own = if scenario.kind == Kind::Named { index } else { 0 };
        groups.entry((scenario.kind, own)).or_default().push(scenario);
    }
    groups.into_iter().map(|((kind, _), all)| class(kind, &all)).collect()
}

fn class(kind: Kind, all: &[&Scenario]) -> Class {
    let survived: Vec<&Scenario> = all.iter().copied().filter(|one| one.lost_databases == 0).collect();
    let judged = if survived.is_empty() { all } else { &survived };
    let worst = judged.iter().copied().reduce(|a, b| if b.worst_active > a.worst_active { b } else { a });
    Class {
        kind,
        scenarios: all.len() as u32,
        survived: survived.len() as u32,
        worst_active: worst.map_or(0, |one| one.worst_active),
        worst_volume: judged.iter().map(|one| one.worst_volume).max().unwrap_or(0),
        lost_databases: all.iter().map(|one| one.lost_databases).max().unwrap_or(0),
        lost_data: all.iter().map(|one| one.lost_data).max().unwrap_or(0),
        worst: worst.map_or_else(String::new, |one| one.label.clone()),
    }
}

/// Smallest number of servers that hold all usable copies of a database, and the number of such sets.
fn fatal_sets(compact: &Compact) -> (u32, u64) {
    let mut sets: Vec<u32> = compact
        .databases()
        .map(|copies| mask(copies.iter().map(|&(server, _)| usize::from(server))))
        .collect();
    sets.sort_unstable();
    sets.dedup();
    let least = sets.iter().map(|set| set.count_ones()).min().unwrap_or(0);
    (least, sets.iter().filter(|set| set.count_ones() == least).count() as u64)
}

fn binomial(n: u64, k: u64) -> u64 {
    (0..k.min(n)).fold(1, |product, i| product * (n - i) / (i + 1))
}
