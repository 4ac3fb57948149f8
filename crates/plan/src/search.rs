//! Search: designs from a catalogue of disks and servers that carry the profile and survive the wanted failure,
//! as few as possible in disks, in servers and in utilisation.
//!
//! A design is judged with the same formulas as a plan, in the calculator's arithmetic, so that 100,000 of them
//! take a second or two; the designs on the Pareto front are then laid out, and failure and servers are judged
//! on the real layout. For each of them the neighbours that look cheaper are tried, and the reason is given why
//! they are not.
//!
//! Invariants
//! 1. No design on the front is at least as good as another one there in all three figures.
//! 2. Every design on the front passes every check that the search applies, by the bound and by its layout.
//! 3. Same catalogue, same answer.

use std::collections::BTreeMap;

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{MAX_DATABASES, MAX_MEMBERS, MAX_MOUNTED, Result, Solution};

pub use crate::catalogue::{Catalogue, MAX_CANDIDATES, ServerKind, Survive, Variation, VolumeKind};

use crate::bound::{Bound, activatable_per_site, bound};
use crate::failure::{self, Kind};
use crate::inputs::{Inputs, ServerInput};
use crate::sizing::ServerNeed;
use crate::storage::DiskSet;
use crate::{formula, layout, sizing};

/// Design on the Pareto front of a search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Design {
    /// Kind of server.
    pub server: String,
    /// Kind of disk.
    pub disk: String,
    /// Disks of a volume.
    pub volume: VolumeKind,
    /// Number of servers in each site.
    pub servers_per_site: u32,
    /// Number of copies in the home site and in the sites after it.
    pub copies_per_site: Vec<u32>,
    /// Number of databases on a volume.
    pub databases_per_volume: u32,
    /// Number of volumes on a server.
    pub volumes_per_server: u32,
    /// Number of databases in a group.
    pub databases: u32,
    /// Number of servers in a group.
    pub servers: u32,
    /// Number of database disks in a group.
    pub disks: u32,
    /// Utilisation: the largest of the three shares below.
    pub utilisation: f64,
    /// Needed space over the capacity of a volume.
    pub capacity_share: f64,
    /// Back-end I/O of all copies divided by the I/O of a volume's disks.
    pub iops_share: f64,
    /// Processor use in the worst failure divided by the allowed 80 %, by the calculator, if the SPECint rate is
    /// given.
    pub cpu_share: Option<f64>,
    /// Active databases on the fullest server, by the calculator.
    pub worst_active_bound: f64,
    /// Active databases on the fullest server in the failure to survive, by the layout.
    pub worst_active_layout: u32,
    /// Neighbouring designs that look cheaper, with the reason why they are not on the front.
    pub neighbours: Vec<Neighbour>,
}

/// Neighbour of a design: one choice is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Neighbour {
    /// Difference from the design.
    pub change: String,
    /// Reason why the neighbour is not better.
    pub reason: String,
}

/// Answer of a search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// Version of this JSON document: 1.
    pub schema_version: u32,
    /// Number of designs that were looked at.
    pub candidates: usize,
    /// Number of designs that suffice.
    pub sufficient: usize,
    /// Reasons why the others do not suffice, with counts.
    pub refused: BTreeMap<&'static str, usize>,
    /// Designs on the Pareto front, by disks.
    pub front: Vec<Design>,
}

/// One combination of choices, as indexes into the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    servers: usize,
    copies: usize,
    per_volume: usize,
    volume: usize,
    disk: usize,
    server: usize,
    volumes: u32,
}

/// Disks, servers and utilisation of a sufficient design.
#[derive(Debug, Clone, Copy)]
struct Score {
    disks: u32,
    servers: u32,
    databases: u32,
    capacity_share: f64,
    iops_share: f64,
    cpu_share: Option<f64>,
    worst_active: f64,
}

impl Score {
    fn utilisation(&self) -> f64 {
        self.capacity_share.max(self.iops_share).max(self.cpu_share.unwrap_or(0.0))
    }

    /// Whether this design is at least as good in all three figures.
    fn covers(&self, other: &Score) -> bool {
        self.disks <= other.disks
            && self.servers <= other.servers
            && self.utilisation() <= other.utilisation()
    }
}

/// Reason why a combination does not suffice: a word to count by, and a sentence.
struct Refusal(&'static str, String);

type Judged<T> = std::result::Result<T, Refusal>;

/// Figures from the real layout of a combination; equal for every kind of disk and server.
#[derive(Debug, Clone, Copy)]
struct LaidOut {
    /// Number of databases lost in the failure to survive.
    lost: u32,
    /// Active databases on the fullest server in that failure.
    worst_active: u32,
    /// Active databases on the fullest server in the worst failure of any kind that loses nothing; a plan sizes
    /// servers by it.
    worst_of_all: u32,
    /// Number of copies on the fullest server.
    copies: u32,
}

struct Searcher<'a> {
    catalogue: &'a Catalogue,
    /// Planner inputs for each number of servers and choice of copies; `None` if they do not fit together.
    shapes: Vec<Vec<Option<Inputs<'a>>>>,
    /// Failure bounds computed so far, by shape and databases.
    bounds: BTreeMap<(usize, usize, u32), Bound>,
    /// Layouts made so far, by shape, databases and databases per volume.
    layouts: BTreeMap<(usize, usize, u32, u32), LaidOut>,
}

/// Searches the catalogue for designs that carry the solution's profile.
pub fn search(solution: &Solution, catalogue: &Catalogue) -> Result<Found> {
    let base = Inputs::of(solution)?;
    let wish = &catalogue.search;
    let of_servers =
        |&servers| wish.copies_per_site.iter().map(|copies| shape(&base, servers, copies)).collect();
    let shapes = wish.servers_per_site.iter().map(of_servers).collect();
    let mut searcher = Searcher { catalogue, shapes, bounds: BTreeMap::new(), layouts: BTreeMap::new() };
    let mut refused = BTreeMap::new();
    let mut good: Vec<(Choice, Score)> = Vec::new();
    let choices = searcher.choices();
    let candidates = choices.len();
    for choice in choices {
        match searcher.judge(choice) {
            Ok(score) => good.push((choice, score)),
            Err(Refusal(word, _)) => *refused.entry(word).or_insert(0) += 1,
        }
    }
    // Sorted so, nothing later covers anything earlier.
    good.sort_by(|(a_choice, a), (b_choice, b)| {
        (a.disks, a.servers)
            .cmp(&(b.disks, b.servers))
            .then(a.utilisation().total_cmp(&b.utilisation()))
            .then(a_choice.cmp(b_choice))
    });
    let mut sufficient = good.len();
    let mut front: Vec<(Choice, Score, u32)> = Vec::new();
    for (choice, score) in good {
        if front.iter().any(|(_, better, _)| better.covers(&score)) {
            continue;
        }
        match searcher.lay_out(choice, &score) {
            Ok(worst) => front.push((choice, score, worst)),
            // What its own layout refuses is not on the front, and what stands behind it comes forward.
            Err(Refusal(word, _)) => {
                sufficient -= 1;
                *refused.entry(word).or_insert(0) += 1;
            }
        }
    }
    let mut designs = Vec::with_capacity(front.len());
    for (choice, score, worst) in front {
        let neighbours = searcher.neighbours(choice, &score);
        designs.push(Design { neighbours, ..searcher.design(choice, &score, worst) });
    }
    Ok(Found { schema_version: 1, candidates, sufficient, refused, front: designs })
}

/// Planner inputs with these servers per site and copies.
fn shape<'a>(base: &Inputs<'a>, servers: u32, copies: &[u32]) -> Option<Inputs<'a>> {
    let total = servers as usize * base.sites.len();
    let fits = copies.len() <= base.sites.len()
        && copies[0] > 0
        && copies.iter().all(|&count| count <= servers)
        && copies.iter().sum::<u32>() > base.lagged()
        && total <= MAX_MEMBERS;
    if !fits {
        return None;
    }
    let mut inputs = base.with_copies(copies);
    inputs.enclosures.clear();
    inputs.servers.clear();
    for index in 0..inputs.sites.len() {
        inputs.sites[index].servers.clear();
        for _ in 0..servers {
            inputs.sites[index].servers.push(inputs.servers.len());
            inputs.servers.push(ServerInput {
                name: format!("server {}", inputs.servers.len() + 1),
                site: index,
                enclosure: None,
                max_active: None,
                cores: None,
                mcycles: None,
                memory_gib: None,
            });
        }
    }
    Some(inputs)
}

/// Gives all servers the properties of this kind.
fn equip(inputs: &mut Inputs<'_>, kind: &ServerKind) {
    for server in &mut inputs.servers {
        server.cores = kind.cores;
        server.mcycles = formula::server_mcycles(kind.specint_rate, kind.specint2017_rate);
    }
}

/// Largest number of activatable copies of a database that a failure can remove.
fn most_taken(survive: Survive, activatable: &[u32]) -> u32 {
    let in_a_site = activatable.iter().copied().max().unwrap_or(0);
    match survive {
        Survive::Server => 1,
        Survive::TwoServers => 2,
        Survive::Site => in_a_site,
        Survive::SiteAndServer => in_a_site + 1,
    }
}

/// Text that compares the number that a neighbour of the design needs with that of the design.
fn instead(thing: &str, other: u32, own: u32) -> String {
    format!("{} instead of {}", counted(other.into(), thing), number(own.into(), 0))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Processor use divided by the allowed 80 %.
fn of_allowed_cpu(need: &ServerNeed) -> Option<f64> {
    need.cpu_share.map(|share| share / 0.8)
}

fn server_suffices(kind: &ServerKind, need: &ServerNeed, most: f64) -> Judged<()> {
    if let Some(share) = of_allowed_cpu(need).filter(|&share| share > most) {
        return Err(Refusal("processor", format!("processor used to {} of what is allowed", percent(share))));
    }
    if let (Some(need), Some(there)) = (need.memory_gb, kind.memory_gib)
        && need > there
    {
        return Err(Refusal("memory", format!("{need:.0} GB of memory needed, {there:.0} there")));
    }
    Ok(())
}

/// Number of copies on the fullest server for each active database per server that hosts active databases.
fn copies_per_round(inputs: &Inputs<'_>) -> u32 {
    let sites = inputs.sites.len();
    let arriving = |site: usize| -> u32 {
        let step = |home: usize| (site + sites - home) % sites;
        inputs.active_sites().map(|home| inputs.copies_per_site.get(step(home)).copied().unwrap_or(0)).sum()
    };
    (0..sites).map(arriving).max().unwrap_or(1).max(1)
}

/// Layout of these databases, with the worst outcome of the kind of failure to survive.
fn laid_out(inputs: &Inputs<'_>, databases: u32, survive: Survive) -> LaidOut {
    let layout = layout::generate(inputs, databases);
    let failures = failure::failures(inputs, &layout, &[]);
    let kind = match survive {
        Survive::Server => Kind::Server,
        Survive::TwoServers => Kind::TwoServers,
        Survive::Site => Kind::Site,
        Survive::SiteAndServer => Kind::SiteAndServer,
    };
    let class = failures.classes.iter().find(|class| class.kind == kind);
    LaidOut {
        lost: class.map_or(databases, |class| class.lost_databases),
        worst_active: class.map_or(0, |class| class.worst_active),
        worst_of_all: failures.worst().worst_active,
        copies: layout.most_copies(inputs.servers.len()),
    }
}

impl<'a> Searcher<'a> {
    fn choices(&self) -> Vec<Choice> {
        let wish = &self.catalogue.search;
        let mut choices = Vec::new();
        for servers in 0..wish.servers_per_site.len() {
            for copies in 0..wish.copies_per_site.len() {
                for per_volume in 0..wish.databases_per_volume.len() {
                    for volume in 0..wish.volume.len() {
                        for disk in 0..self.catalogue.disk.len() {
                            for (server, kind) in self.catalogue.server.iter().enumerate() {
                                let most = kind.bays / wish.volume[volume].disks.max(1);
                                choices.extend((1..=most).map(|volumes| Choice {
                                    servers,
                                    copies,
                                    per_volume,
                                    volume,
                                    disk,
                                    server,
                                    volumes,
                                }));
                            }
                        }
                    }
                }
            }
        }
        choices
    }

    /// Largest share of capacity, I/O and processor that a design may use.
    fn most(&self) -> f64 {
        self.catalogue.search.max_use_percent.unwrap_or(100.0) / 100.0
    }

    fn judge(&mut self, choice: Choice) -> Judged<Score> {
        let most = self.most();
        let wish = &self.catalogue.search;
        let Some(inputs) = self.shapes[choice.servers][choice.copies].as_mut() else {
            return Err(Refusal("copies", "these numbers of copies and servers do not go together".into()));
        };
        let servers = inputs.servers.len() as u32;
        let per_volume = wish.databases_per_volume[choice.per_volume];
        let kind = &self.catalogue.server[choice.server];
        let volume = wish.volume[choice.volume];
        let copies_per_server = choice.volumes * per_volume;
        if copies_per_server > MAX_MOUNTED {
            let text = format!(
                "{} on a server, {MAX_MOUNTED} can be mounted",
                counted(copies_per_server.into(), "database")
            );
            return Err(Refusal("mounted", text));
        }
        // Whole rounds of blocks only, so that the layout fills every server alike.
        let databases = (copies_per_server / copies_per_round(inputs)) * inputs.active_servers() as u32;
        if databases == 0 || databases > MAX_DATABASES {
            return Err(Refusal(
                "copies",
                format!("room for {} on a server is not enough", counted(copies_per_server.into(), "copy")),
            ));
        }
        let key = (choice.servers, choice.copies, databases);
        let known = *self.bounds.entry(key).or_insert_with(|| bound(inputs, databases));
        // Where the arithmetic has no answer the layout has one.
        let activatable = activatable_per_site(inputs);
        if activatable.iter().sum::<u32>() <= most_taken(wish.survive, &activatable) {
            return Err(Refusal("failure", "the failure to survive takes all copies of a database".into()));
        }
        inputs.sized_databases_per_volume = per_volume;
        equip(inputs, kind);
        let sized = sizing::size(inputs, databases, &known);
        let most_gb = wish.max_database_gb.unwrap_or_else(|| inputs.largest_database_gb());
        if sized.database_gb > most_gb {
            let text =
                format!("databases of {:.0} GB, at most {most_gb:.0} GB are allowed", sized.database_gb);
            return Err(Refusal("database size", text));
        }
        let (users, figures) = (inputs.users, &inputs.figures);
        let disks = DiskSet::new(&self.catalogue.disk[choice.disk], volume.disks, volume.raid, volume.disks);
        let v = f64::from(per_volume);
        let factor = formula::index_factor(users.content_index_percent(), users.index_merge_percent(), v);
        let needed =
            v * formula::with_free_space(sized.database_gb * factor + sized.log_gb, users.free_percent);
        let back_end =
            formula::back_end_iops(v * sized.database_iops, figures.read_share, disks.write_penalty);
        let score = Score {
            disks: servers * choice.volumes * volume.disks,
            servers,
            databases,
            capacity_share: needed / disks.formatted_gib,
            iops_share: back_end / disks.random_iops.unwrap_or(f64::INFINITY),
            cpu_share: of_allowed_cpu(&sized.server),
            worst_active: known.worst,
        };
        if score.capacity_share.is_nan() || score.capacity_share > most {
            return Err(Refusal("capacity", format!("capacity used to {}", percent(score.capacity_share))));
        }
        if score.iops_share > most {
            return Err(Refusal("I/O", format!("I/O used to {}", percent(score.iops_share))));
        }
        server_suffices(kind, &sized.server, most).map(|()| score)
    }

    /// Lays a combination out. Returns the active databases on the fullest server in the failure to survive, if the
    /// layout suffices.
    fn lay_out(&mut self, choice: Choice, score: &Score) -> Judged<u32> {
        let no_layout = || Refusal("layout", "the layout loses a database in the failure to survive".into());
        let Some(shape) = &self.shapes[choice.servers][choice.copies] else { return Err(no_layout()) };
        let wish = &self.catalogue.search;
        let mut inputs = shape.clone();
        inputs.databases_per_volume = wish.databases_per_volume[choice.per_volume];
        let key = (choice.servers, choice.copies, score.databases, inputs.databases_per_volume);
        let laid = match self.layouts.get(&key) {
            Some(&laid) => laid,
            None => laid_out(&inputs, score.databases, wish.survive),
        };
        self.layouts.insert(key, laid);
        if laid.lost > 0 {
            return Err(no_layout());
        }
        // The arithmetic spreads actives in fractions; with few databases the fullest server has more.
        let kind = &self.catalogue.server[choice.server];
        equip(&mut inputs, kind);
        let mailboxes = inputs.mailboxes_per_dag() / f64::from(score.databases);
        let need =
            sizing::server_need(&inputs, mailboxes, f64::from(laid.copies), f64::from(laid.worst_of_all));
        let by_layout = |Refusal(word, sentence)| Refusal(word, format!("{sentence}, by the layout"));
        server_suffices(kind, &need, self.most()).map(|()| laid.worst_active).map_err(by_layout)
    }

    fn design(&self, choice: Choice, score: &Score, worst_active_layout: u32) -> Design {
        let wish = &self.catalogue.search;
        Design {
            server: self.catalogue.server[choice.server].name.clone(),
            disk: self.catalogue.disk[choice.disk].name.clone(),
            volume: wish.volume[choice.volume],
            servers_per_site: wish.servers_per_site[choice.servers],
            copies_per_site: wish.copies_per_site[choice.copies].clone(),
            databases_per_volume: wish.databases_per_volume[choice.per_volume],
            volumes_per_server: choice.volumes,
            databases: score.databases,
            servers: score.servers,
            disks: score.disks,
            utilisation: score.utilisation(),
            capacity_share: score.capacity_share,
            iops_share: score.iops_share,
            cpu_share: score.cpu_share,
            worst_active_bound: score.worst_active,
            worst_active_layout,
            neighbours: Vec::new(),
        }
    }

    /// Neighbours of a design, one step in each direction, with the reasons why they are no better.
    fn neighbours(&mut self, choice: Choice, score: &Score) -> Vec<Neighbour> {
        let wish = &self.catalogue.search;
        let mut steps: Vec<(String, Choice)> = Vec::new();
        if choice.volumes > 1 {
            steps.push((
                "one volume less per server".into(),
                Choice { volumes: choice.volumes - 1, ..choice },
            ));
        }
        for other in (0..wish.servers_per_site.len()).filter(|&other| other != choice.servers) {
            if wish.servers_per_site[other] + 1 == wish.servers_per_site[choice.servers] {
                steps.push(("one server less per site".into(), Choice { servers: other, ..choice }));
            }
        }
        for other in (0..wish.copies_per_site.len()).filter(|&other| other != choice.copies) {
            let change = format!("copies {:?}", wish.copies_per_site[other]);
            steps.push((change, Choice { copies: other, ..choice }));
        }
        for other in (0..wish.databases_per_volume.len()).filter(|&other| other != choice.per_volume) {
            let change =
                format!("{} per volume", counted(wish.databases_per_volume[other].into(), "database"));
            steps.push((change, Choice { per_volume: other, ..choice }));
        }
        for other in (0..self.catalogue.disk.len()).filter(|&other| other != choice.disk) {
            let change = format!("disk {}", self.catalogue.disk[other].name);
            steps.push((change, Choice { disk: other, ..choice }));
        }
        for other in (0..wish.volume.len()).filter(|&other| other != choice.volume) {
            let VolumeKind { raid, disks } = wish.volume[other];
            steps.push((format!("{raid:?} of {disks}"), Choice { volume: other, ..choice }));
        }
        let mut neighbours = Vec::new();
        for (change, step) in steps {
            let reason = match self.judge(step) {
                Err(Refusal(_, sentence)) => sentence,
                Ok(other) if score.covers(&other) => {
                    let mut worse = Vec::new();
                    if other.disks > score.disks {
                        worse.push(instead("disk", other.disks, score.disks));
                    }
                    if other.servers > score.servers {
                        worse.push(instead("server", other.servers, score.servers));
                    }
                    if other.utilisation() > score.utilisation() {
                        worse.push(format!(
                            "used to {} instead of {}",
                            percent(other.utilisation()),
                            percent(score.utilisation())
                        ));
                    }
                    if worse.is_empty() { "just as good".into() } else { worse.join(", ") }
                }
                Ok(other) => match self.lay_out(step, &other) {
                    Err(Refusal(_, sentence)) => sentence,
                    // Better in something and worse in something: on the front itself, or behind another design there.
                    Ok(_) => continue,
                },
            };
            neighbours.push(Neighbour { change, reason });
        }
        neighbours
    }
}

impl Found {
    /// Answer as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
