//! Checks of a plan: what must hold for it to pass, in one sentence each.

use results::figures::{counted, number};
use schemars::JsonSchema;
use serde::Serialize;

use crate::doubt::{doubts, much_memory, newer_generation};
use crate::failure::{Failures, Scenario};
use crate::inputs::{Inputs, ServerInput};
use crate::layout::Layout;
use crate::sizing::{ServerNeed, Sizing};
use crate::storage::Storage;
use solution::MAX_MOUNTED;

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The check holds.
    Pass,
    /// The check does not hold, so the plan fails.
    Fail,
    /// The file lacks what the check needs.
    NotJudged,
    /// Information that fails nothing.
    Note,
}

/// Check of a plan with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Outcome of the check.
    pub outcome: Outcome,
    /// Explanation in one sentence with figures.
    pub detail: String,
}

/// Numbers of copies on one server of the layout.
struct Held {
    copies: usize,
    active: usize,
}

/// Everything that the checks of a plan look at.
pub struct Findings<'a> {
    /// Solution in the planner's form.
    pub inputs: &'a Inputs<'a>,
    /// Layout of the copies.
    pub layout: &'a Layout,
    /// Failures of the layout.
    pub failures: &'a Failures,
    /// Failure under test.
    pub tested: Option<&'a Scenario>,
    /// Sizing table.
    pub sizing: &'a Sizing,
    /// Use of the storage.
    pub storage: &'a Storage,
    /// Memory and processor of the fullest server.
    pub needs: [&'a ServerNeed; 2],
    /// Reason for a derived number of databases.
    pub derived: Option<String>,
}

/// All checks of a plan.
pub fn checks(findings: &Findings<'_>) -> Vec<Check> {
    let Findings { inputs, layout, failures, sizing, storage, .. } = *findings;
    let mut checks = Vec::new();
    let mut judge = |name, outcome, detail: String| checks.push(Check { name, outcome, detail });
    placement(inputs, layout, failures, &mut |name, holds, detail| judge(name, of(holds), detail));
    named_failures(findings, &mut |name, holds, detail| judge(name, of(holds), detail));
    let too_large = database_too_large(inputs, sizing);
    judge(
        "database size",
        of(too_large.is_none()),
        too_large.unwrap_or_else(|| {
            let (gb, most) = (number(sizing.database_gb, 0), number(inputs.largest_database_gb(), 0));
            format!("databases of {gb} GB, at most {most} GB are allowed")
        }),
    );
    servers_suffice(inputs, findings.needs, &mut judge);
    storage_fits(inputs, storage, &mut judge);
    for enclosure in &storage.enclosures {
        if let Some(bays) = enclosure.bays {
            let disks = enclosure.database_disks + enclosure.other_disks;
            let (used, there) = (counted(disks.into(), "disk"), counted(bays.into(), "bay"));
            let detail = format!("{}: {used} in {there}", enclosure.name);
            judge("enclosure bays", of(disks <= bays), detail);
        }
    }
    notes(findings, &mut checks);
    checks
}

/// Verdict of the plan in one sentence: failed checks, and those not judged.
pub fn verdict(checks: &[Check]) -> String {
    let names = |outcome: Outcome| {
        let mut names: Vec<&str> =
            checks.iter().filter(|check| check.outcome == outcome).map(|check| check.name).collect();
        names.dedup();
        names.join(", ")
    };
    let (failed, open) = (names(Outcome::Fail), names(Outcome::NotJudged));
    match (failed.as_str(), open.as_str()) {
        ("", "") => "The plan holds.".into(),
        ("", open) => format!("The plan holds as far as it can be judged; not judged: {open}."),
        (failed, "") => format!("The plan fails these checks: {failed}."),
        (failed, open) => format!("The plan fails these checks: {failed}; not judged: {open}."),
    }
}

fn of(holds: bool) -> Outcome {
    if holds { Outcome::Pass } else { Outcome::Fail }
}

/// A sentence about databases that are larger than the plan accepts.
pub fn database_too_large(inputs: &Inputs<'_>, sizing: &Sizing) -> Option<String> {
    let (gb, most) = (sizing.database_gb, inputs.largest_database_gb());
    // Bits that arithmetic leaves are no gigabyte.
    (gb > most * (1.0 + 1e-9)).then(|| {
        let by = match inputs.solution.dag.max_database_gb {
            Some(_) => "max_database_gb allows".to_owned(),
            None if inputs.copies() > 1 => {
                format!("is recommended with {}", counted(inputs.copies().into(), "copy"))
            }
            None => "is recommended with one copy".to_owned(),
        };
        let (gb, most) = (number(gb, 0), number(most, 0));
        format!("databases of {gb} GB, at most {most} GB {by}: more databases are needed")
    })
}

/// Check that every named failure, the one under test first, leaves every database active.
fn named_failures(findings: &Findings<'_>, judge: Judge<'_>) {
    let databases = findings.layout.databases.len();
    for (index, one) in findings.failures.named().enumerate() {
        let is_tested = index == 0 && findings.tested.is_some();
        let name = if is_tested { "failure under test" } else { "named failure" };
        let loss = one.loss(databases);
        let said = loss.as_deref().unwrap_or("every database stays active");
        judge(name, loss.is_none(), format!("{}: {said}", one.label));
    }
}

fn storage_fits(
    inputs: &Inputs<'_>,
    storage: &Storage,
    judge: &mut dyn FnMut(&'static str, Outcome, String),
) {
    let (misfits, mut unknowns) = (storage.misfits(), storage.unknowns(inputs.solution));
    if storage.volumes.is_empty() {
        unknowns.push("no volume is described ([[volume]])".into());
    }
    if !misfits.is_empty() {
        judge("storage fits", Outcome::Fail, misfits.join("; "));
    }
    if !unknowns.is_empty() {
        judge("storage fits", Outcome::NotJudged, unknowns.join("; "));
    }
    if misfits.is_empty() && unknowns.is_empty() {
        judge("storage fits", Outcome::Pass, "every volume and pool has the space and the I/O".into());
    }
}

fn placement(inputs: &Inputs<'_>, layout: &Layout, failures: &Failures, judge: Judge<'_>) {
    let held: Vec<Held> = (0..inputs.servers.len())
        .map(|server| {
            let here = |copy: &crate::layout::CopyPlace| usize::from(copy.server) == server;
            Held {
                copies: layout.databases.iter().filter(|database| database.copies.iter().any(here)).count(),
                active: layout.databases.iter().filter(|database| here(&database.copies[0])).count(),
            }
        })
        .collect();

    let all = counted(layout.databases.len() as u64, "database");
    let doubled = layout.databases.iter().find(|database| {
        database
            .copies
            .iter()
            .enumerate()
            .any(|(i, a)| database.copies[..i].iter().any(|b| b.server == a.server))
    });
    judge(
        "one copy per server",
        doubled.is_none(),
        match doubled {
            None => format!("{all}, no server holds two copies of one"),
            Some(database) => format!("`{}` has two copies on one server", database.name),
        },
    );
    copies_wished(inputs, layout, judge);
    let (fullest, mixed) = volume_balance(inputs, layout);
    judge(
        "databases per volume",
        fullest <= inputs.databases_per_volume,
        format!("at most {fullest} on a volume, {} wished", inputs.databases_per_volume),
    );
    judge(
        "preferences per volume",
        mixed.0 <= mixed.1,
        format!(
            "at most {} of one preference on a volume, evenly dealt it would be {}",
            counted(mixed.0.into(), "copy"),
            mixed.1
        ),
    );
    balance(inputs, &held, judge);
    let most = held.iter().map(|held| held.copies).max().unwrap_or(0);
    judge(
        "databases per server",
        most <= MAX_MOUNTED as usize,
        format!("at most {} on a server, {MAX_MOUNTED} can be mounted", counted(most as u64, "copy")),
    );
    enclosures_apart(inputs, layout, judge);
    let normal = &failures.scenarios[0];
    judge(
        "every database is active",
        normal.lost_databases == 0,
        format!(
            "{} of {all} active when nothing is lost",
            number(f64::from(normal.active.iter().sum::<u32>()), 0)
        ),
    );
}

type Judge<'a> = &'a mut dyn FnMut(&'static str, bool, String);

/// Check: each database has the wanted copies in its home site, in the next site, and so on.
fn copies_wished(inputs: &Inputs<'_>, layout: &Layout, judge: Judge<'_>) {
    let wrong = layout.databases.iter().find(|database| {
        let home = inputs.servers[usize::from(database.copies[0].server)].site;
        let mut counts = vec![0u32; inputs.sites.len()];
        for copy in &database.copies {
            counts[inputs.servers[usize::from(copy.server)].site] += 1;
        }
        (0..inputs.sites.len()).any(|step| {
            let wished = inputs.copies_per_site.get(step).copied().unwrap_or(0);
            counts[(home + step) % inputs.sites.len()] != wished
        })
    });
    judge(
        "copies per site",
        wrong.is_none(),
        match wrong {
            None => format!("{:?} copies from the home site on, for every database", inputs.copies_per_site),
            Some(database) => {
                format!("`{}` has other copies per site than {:?}", database.name, inputs.copies_per_site)
            }
        },
    );
}

/// Check of volume balance: databases on the fullest volume, and the largest number of copies of one preference on a
/// volume, compared with an even layout.
fn volume_balance(inputs: &Inputs<'_>, layout: &Layout) -> (u32, (u32, u32)) {
    let preferences = layout.databases.iter().map(|database| database.copies.len()).max().unwrap_or(0);
    let mut on_server = vec![vec![0u32; preferences]; inputs.servers.len()];
    let mut volumes = std::collections::BTreeMap::<(u8, u16), Vec<u32>>::new();
    for database in &layout.databases {
        for (preference, copy) in database.copies.iter().enumerate() {
            on_server[usize::from(copy.server)][preference] += 1;
            volumes.entry((copy.server, copy.volume)).or_insert_with(|| vec![0; preferences])[preference] +=
                1;
        }
    }
    let fullest = volumes.values().map(|counts| counts.iter().sum()).max().unwrap_or(0);
    let mut worst = (0u32, 0u32);
    for (&(server, _), counts) in &volumes {
        let on_this = volumes.keys().filter(|&&(other, _)| other == server).count() as u32;
        for (preference, &count) in counts.iter().enumerate() {
            let even = on_server[usize::from(server)][preference].div_ceil(on_this);
            if count.saturating_sub(even) > worst.0.saturating_sub(worst.1) || worst == (0, 0) {
                worst = (count, even);
            }
        }
    }
    (fullest, worst)
}

fn balance(inputs: &Inputs<'_>, held: &[Held], judge: Judge<'_>) {
    for site in &inputs.sites {
        let range = |value: &dyn Fn(&Held) -> usize| {
            let values = site.servers.iter().map(|&server| value(&held[server]));
            (values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let (active, copies) = (range(&|held| held.active), range(&|held| held.copies));
        // The last block may be a part of one: each of the walks over the site then misses some servers once.
        let slack = inputs.copies() as usize * inputs.active_sites().count();
        judge(
            "balance",
            active.1 - active.0 <= 1 && copies.1 - copies.0 <= slack,
            format!(
                "{}: {} to {} active, {} to {} copies per server",
                site.name, active.0, active.1, copies.0, copies.1
            ),
        );
    }
}

fn enclosures_apart(inputs: &Inputs<'_>, layout: &Layout, judge: Judge<'_>) {
    if inputs.enclosures.len() < 2 {
        return;
    }
    let together = layout.databases.iter().find(|database| {
        database.copies.iter().enumerate().any(|(i, a)| {
            let a = &inputs.servers[usize::from(a.server)];
            let others = database.copies[..i].iter().map(|b| &inputs.servers[usize::from(b.server)]);
            let in_site: Vec<_> = others.filter(|b| b.site == a.site).collect();
            let site = &inputs.sites[a.site].servers;
            let domains: std::collections::BTreeSet<_> =
                site.iter().map(|&server| inputs.servers[server].enclosure).collect();
            in_site.len() < domains.len()
                && in_site.iter().any(|b| a.enclosure.is_some() && b.enclosure == a.enclosure)
        })
    });
    judge(
        "copies in different enclosures",
        together.is_none(),
        match together {
            None => "copies of a database share no enclosure where the site has another".into(),
            Some(database) => {
                format!("`{}` has two copies in one enclosure of a site that has another", database.name)
            }
        },
    );
}

fn servers_suffice(
    inputs: &Inputs<'_>,
    needs: [&ServerNeed; 2],
    judge: &mut dyn FnMut(&'static str, Outcome, String),
) {
    /// Largest share of the processor that the worst failure may use.
    const MOST_CPU: f64 = 0.8;
    if let Some(cpu) = needs.iter().filter_map(|need| need.cpu_share).reduce(f64::max) {
        let detail = format!("{:.0} % used in the worst failure, 80 % allowed", cpu * 100.0);
        judge("processor", of(cpu <= MOST_CPU), detail);
    }
    let memory = needs.iter().filter_map(|need| need.memory_gb).reduce(f64::max);
    let least = inputs.servers.iter().filter_map(|server| server.memory_gib).reduce(f64::min);
    if let (Some(need), Some(there)) = (memory, least) {
        judge(
            "memory",
            of(need <= there),
            format!("{} GB are needed, {} GB are there", number(need, 0), number(there, 0)),
        );
    }
    // Before Exchange 2013 neither is sized.
    if needs.iter().all(|need| need.mcycles.is_none()) {
        return;
    }
    let mut unknown = |name, key: &str, says: &dyn Fn(&ServerInput) -> bool| {
        let silent = inputs.servers.iter().filter(|server| !says(server)).count();
        if silent > 0 {
            let servers = counted(inputs.servers.len() as u64, "server");
            let detail = format!("{silent} of {servers} without {key}");
            judge(name, Outcome::NotJudged, detail);
        }
    };
    unknown("processor", "specint_rate", &|server| server.mcycles.is_some());
    if inputs.users.multi_role() {
        unknown("memory", "cores and memory_gib", &|server| {
            server.cores.is_some() && server.memory_gib.is_some()
        });
    } else {
        unknown("memory", "memory_gib", &|server| server.memory_gib.is_some());
    }
}

fn notes(findings: &Findings<'_>, checks: &mut Vec<Check>) {
    let Findings { inputs, failures, storage, .. } = *findings;
    let mut note = |name, detail| checks.push(Check { name, outcome: Outcome::Note, detail });
    for doubt in doubts(inputs.users) {
        note("doubtful figure", doubt);
    }
    let memory = findings.needs.iter().filter_map(|need| need.memory_gb).reduce(f64::max);
    if let Some(doubt) = much_memory(inputs.users, memory) {
        note("much memory", doubt);
    }
    for (name, doubt) in newer_generation(inputs) {
        note(name, doubt);
    }
    if let Some(reason) = &findings.derived {
        let databases = counted(findings.sizing.databases.into(), "database");
        note("number of databases", format!("{databases}: {reason}"));
    }
    if inputs.users.messages_per_day.is_none() && inputs.figures.logs_per_day <= 0.0 {
        note("logs", "the messages per day are not given, so only moved mailboxes count as logs".into());
    }
    for used in storage.volumes.iter().chain(&storage.pools) {
        if let Some(share) = used.iops_share_rebuilding.filter(|&share| share > 1.0) {
            let percent = share * 100.0;
            note(
                "rebuild",
                format!("{}: the load is {percent:.0} % of its I/O while a disk is rebuilt", used.name),
            );
        }
    }
    if inputs.copies() > 1 {
        note(
            "fatal sets",
            format!(
                "{} of {} of {} take all copies of a database",
                number(failures.fatal_sets as f64, 0),
                counted(failures.sets, "set"),
                counted(failures.fatal_servers.into(), "server")
            ),
        );
    }
    for home in inputs.active_sites() {
        let servers = inputs.sites[home].servers.len() as u32;
        let databases: u32 = failures.scenarios[0].active.iter().sum();
        let even = crate::formula::even_databases(databases, servers, inputs.active_sites().count() as u32);
        let all = counted(databases.into(), "database");
        if even != databases && inputs.copies_per_site[0] > 1 {
            note(
                "evenness",
                format!("{all} do not spread evenly after a loss; {} would", number(f64::from(even), 0)),
            );
            break;
        }
    }
}
