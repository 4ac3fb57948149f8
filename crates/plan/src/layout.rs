//! Which server and volume holds which copy.
//!
//! The published rule, generalised. Databases are dealt in blocks, one block per site that hosts actives in turn, one
//! database per server of that site; a running number `k` counts the blocks of all sites.
//! - The first copy walks the servers of the home site.
//! - Every further copy of the site goes to another *domain* of it. A domain is an enclosure with all its
//!   servers, or a single server where the site has fewer than two enclosures. With `f` domains the second copy
//!   lies `1 + k mod (f-1)` domains on, at the same place in it shifted by `k div (f-1)`.
//! - Other sites repeat the picture with their own walk (`mirrored`), or shift it by the block (`rotated`).
//! - Where blocks alternate between sites so that a site would see only every other shift (an odd number of
//!   servers), the numbers move on by one after each round, so that all shifts come up.
//!
//! With one server per domain and two equal sites this is the R740xd layout; with two enclosures of four and a passive
//! site it is the MD3260 layout.
//!
//! Invariants
//! 1. A database has exactly its wished number of copies, all on different servers.
//! 2. A volume never holds more databases than wished.
//! 3. Same inputs, same layout.

use schemars::JsonSchema;
use serde::Serialize;

use solution::{Placement, RemoteRule};

use crate::inputs::{Inputs, SiteInput};

/// Place of one copy of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyPlace {
    /// Index of the server.
    pub server: u8,
    /// Number of the volume on that server, from 1.
    pub volume: u16,
}

/// Place of a database: its copies in the order of activation preference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DatabasePlace {
    /// Name of the database.
    pub name: String,
    /// Copies of the database; the first is normally active.
    pub copies: Vec<CopyPlace>,
}

/// Copy layout of one group.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Layout {
    /// Databases with their copies.
    pub databases: Vec<DatabasePlace>,
    /// Number of lagged copies, the last in preference.
    pub lagged: u32,
    /// Whether the layout comes from the file instead of the rule.
    pub imported: bool,
}

impl Layout {
    /// Number of copies on the fullest of these servers.
    pub(crate) fn most_copies(&self, servers: usize) -> u32 {
        let mut copies = vec![0; servers];
        for copy in self.databases.iter().flat_map(|database| &database.copies) {
            copies[usize::from(copy.server)] += 1;
        }
        copies.into_iter().max().unwrap_or(0)
    }
}

/// Number of databases of each home site, dealt in blocks.
pub fn home_counts(sites: &[SiteInput], databases: u32) -> Vec<u32> {
    let mut counts = vec![0; sites.len()];
    for (site, _) in Deal::new(sites).take(databases as usize) {
        counts[site] += 1;
    }
    counts
}

/// Iterator over the home site of each database, with the running number of its block.
struct Deal<'a> {
    sites: &'a [SiteInput],
    site: usize,
    left: usize,
    block: usize,
}

impl<'a> Deal<'a> {
    fn new(sites: &'a [SiteInput]) -> Deal<'a> {
        let site = sites.iter().position(|site| site.active).unwrap_or(0);
        Deal { sites, site, left: sites[site].servers.len(), block: 0 }
    }
}

impl Iterator for Deal<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.left == 0 {
            let count = self.sites.len();
            self.site =
                (1..=count).map(|step| (self.site + step) % count).find(|&site| self.sites[site].active)?;
            self.left = self.sites[self.site].servers.len();
            self.block += 1;
        }
        self.left -= 1;
        Some((self.site, self.block))
    }
}

/// Servers of a site in the order in which copies are dealt, divided into domains.
struct Walk {
    /// Domain, and place in it, of each server.
    places: Vec<(usize, usize)>,
    domains: Vec<Vec<usize>>,
}

impl Walk {
    fn of(inputs: &Inputs<'_>, site: &SiteInput) -> Walk {
        let shared = |server: usize| inputs.servers[server].enclosure;
        let mut keys: Vec<Option<usize>> = Vec::new();
        for &server in &site.servers {
            let key = shared(server);
            if key.is_none() || !keys.contains(&key) {
                keys.push(key);
            }
        }
        let one_domain = keys.len() < 2;
        let mut domains: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        let mut places = Vec::new();
        for &server in &site.servers {
            let key = if one_domain { None } else { shared(server) };
            let domain = match domains.iter().position(|(other, _)| key.is_some() && *other == key) {
                Some(domain) => domain,
                None => {
                    domains.push((key, Vec::new()));
                    domains.len() - 1
                }
            };
            places.push((domain, domains[domain].1.len()));
            domains[domain].1.push(server);
        }
        Walk { places, domains: domains.into_iter().map(|(_, servers)| servers).collect() }
    }

    /// Servers of `count` copies of a database: the first at `start`, in block `k` of a deal over `homes` sites.
    fn place(&self, start: usize, k: usize, homes: usize, count: usize) -> Vec<usize> {
        let others = self.domains.len() - 1;
        let (domain, place) = self.places[start % self.places.len()];
        let mut chosen = vec![self.domains[domain][place]];
        let largest = self.domains.iter().map(Vec::len).max().unwrap_or(1);
        let turns = if largest > 1 || count < 3 { largest } else { others.saturating_sub(1).max(1) };
        let k = every_residue(k, homes, others * turns);
        while chosen.len() < count {
            let copy = chosen.len();
            // Domains first, each once; more copies than domains start over.
            let (wanted, shift) = match others {
                0 => (domain, 1 + k),
                _ => ((domain + domain_shift(copy % (others + 1), k, others)) % (others + 1), k / others),
            };
            let server = self.free_server(wanted, place + shift, &chosen);
            chosen.push(server);
        }
        chosen
    }

    /// First server that has no copy yet, from a place in a domain on, then in the next domains.
    fn free_server(&self, domain: usize, place: usize, chosen: &[usize]) -> usize {
        let count = self.domains.len();
        let in_order = (0..count).flat_map(|step| {
            let servers = &self.domains[(domain + step) % count];
            (0..servers.len()).map(move |i| servers[(place + i) % servers.len()])
        });
        in_order.into_iter().find(|server| !chosen.contains(server)).unwrap_or(self.domains[domain][0])
    }
}

/// Block number from which a site's shifts are taken. Blocks of `homes` sites alternate, so a site sees only every
/// `homes`-th number; if that number and the cycle have a common divisor, it would miss most shifts. Then the numbers
/// move on by one after each round. (Sites of 8 have no common divisor, so this is the published rule.)
fn every_residue(k: usize, homes: usize, cycle: usize) -> usize {
    if cycle == 0 {
        return k;
    }
    let common = gcd(homes, cycle);
    k + k / (homes * cycle / common) % common
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Distance in domains of the copy with this number (from 1) in block `k`, among `others` other domains. Copies of one
/// database get different distances, and over the blocks every combination comes up equally often.
fn domain_shift(copy: usize, k: usize, others: usize) -> usize {
    if copy == 0 {
        return 0;
    }
    let second = k % others;
    if copy == 1 {
        return 1 + second;
    }
    let rest = others - 1;
    let step = (k / others + copy - 2) % rest.max(1);
    1 + (second + 1 + step) % others
}

/// Lays out `databases` databases by the published rule.
pub fn generate(inputs: &Inputs<'_>, databases: u32) -> Layout {
    let walks: Vec<Walk> = inputs.sites.iter().map(|site| Walk::of(inputs, site)).collect();
    let active: Vec<usize> = inputs.active_sites().collect();
    let is_rotated = inputs.solution.placement == Placement::ByRule(RemoteRule::Rotated);
    let mut dealt = vec![0usize; inputs.sites.len()];
    let mut rows: Vec<Vec<u8>> = Vec::with_capacity(databases as usize);
    for (home, k) in Deal::new(&inputs.sites).take(databases as usize) {
        let running = dealt[home];
        dealt[home] += 1;
        let mut row = Vec::with_capacity(inputs.copies() as usize);
        for (step, &count) in inputs.copies_per_site.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let site = (home + step) % inputs.sites.len();
            let servers = inputs.sites[site].servers.len();
            let (start, block) = if step == 0 {
                (running, k)
            } else {
                // The remote site's own block number; the same as the home's when the sites are equal.
                let order = active.iter().position(|&site| site == home).unwrap_or(0);
                let block = active.len() * (running / servers) + order;
                let turn = if is_rotated { running / servers } else { 0 };
                (running + turn, block)
            };
            row.extend(
                walks[site]
                    .place(start, block, active.len(), count as usize)
                    .iter()
                    .map(|&server| server as u8),
            );
        }
        rows.push(row);
    }
    let volumes = volumes_of(&rows, inputs.servers.len(), inputs.databases_per_volume);
    let databases = rows
        .iter()
        .zip(volumes)
        .zip(1..)
        .map(|((row, volumes), n)| {
            let copies =
                row.iter().zip(volumes).map(|(&server, volume)| CopyPlace { server, volume }).collect();
            DatabasePlace { name: inputs.solution.dag.database_name(n), copies }
        })
        .collect();
    Layout { databases, lagged: inputs.lagged(), imported: false }
}

/// Volume number of every copy. All copies of a database share one number if that keeps the volumes full and balanced
/// by preference; otherwise each server deals its copies over its volumes, preference by preference.
fn volumes_of(rows: &[Vec<u8>], servers: usize, per_volume: u32) -> Vec<Vec<u16>> {
    let per_volume = per_volume as usize;
    let preferences = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut held = vec![vec![0usize; preferences]; servers];
    for row in rows {
        for (preference, &server) in row.iter().enumerate() {
            held[usize::from(server)][preference] += 1;
        }
    }
    let volumes: Vec<usize> =
        held.iter().map(|counts| counts.iter().sum::<usize>().div_ceil(per_volume).max(1)).collect();
    one_number(rows, &held, &volumes, per_volume).unwrap_or_else(|| {
        let before: Vec<Vec<usize>> = held
            .iter()
            .map(|counts| {
                counts.iter().scan(0, |sum, &count| Some(std::mem::replace(sum, *sum + count))).collect()
            })
            .collect();
        let mut seen = vec![vec![0usize; preferences]; servers];
        rows.iter()
            .map(|row| {
                let place = |(preference, &server): (usize, &u8)| {
                    let server = usize::from(server);
                    let turn = before[server][preference] + seen[server][preference];
                    seen[server][preference] += 1;
                    (turn % volumes[server]) as u16 + 1
                };
                row.iter().enumerate().map(place).collect()
            })
            .collect()
    })
}

fn one_number(
    rows: &[Vec<u8>],
    held: &[Vec<usize>],
    volumes: &[usize],
    per_volume: usize,
) -> Option<Vec<Vec<u16>>> {
    let most = volumes.iter().copied().max()?;
    let preferences = held.first()?.len();
    let mut total = vec![vec![0usize; most]; held.len()];
    let mut of_preference = vec![vec![vec![0usize; preferences]; most]; held.len()];
    let mut first_open = 0;
    let mut numbers = Vec::with_capacity(rows.len());
    for row in rows {
        let fits = |volume: usize| {
            row.iter().enumerate().all(|(preference, &server)| {
                let server = usize::from(server);
                volume < volumes[server]
                    && total[server][volume] < per_volume
                    && of_preference[server][volume][preference]
                        < held[server][preference].div_ceil(volumes[server])
            })
        };
        let volume = (first_open..most).find(|&volume| fits(volume))?;
        for (preference, &server) in row.iter().enumerate() {
            total[usize::from(server)][volume] += 1;
            of_preference[usize::from(server)][volume][preference] += 1;
        }
        while first_open < most
            && (0..held.len())
                .all(|server| first_open >= volumes[server] || total[server][first_open] == per_volume)
        {
            first_open += 1;
        }
        numbers.push(vec![volume as u16 + 1; row.len()]);
    }
    Some(numbers)
}

/// Layout that the file lists, if it does.
pub fn listed(inputs: &Inputs<'_>) -> Option<Layout> {
    let Placement::Listed(given) = &inputs.solution.placement else { return None };
    let of_hosts = |hosts: &[usize]| hosts.iter().map(|&host| host as u8).collect();
    let rows: Vec<Vec<u8>> = given.iter().map(|database| of_hosts(&database.hosts)).collect();
    let made = volumes_of(&rows, inputs.servers.len(), inputs.databases_per_volume);
    let databases = given.iter().zip(rows.iter().zip(made)).map(|(given, (row, made))| {
        let place = |(&server, made)| CopyPlace { server, volume: given.volume.unwrap_or(made) };
        DatabasePlace { name: given.name.clone(), copies: row.iter().zip(made).map(place).collect() }
    });
    Some(Layout { databases: databases.collect(), lagged: inputs.lagged(), imported: true })
}
