//! The planner: what a solution needs, where its copies lie, and what each failure leaves the survivors to carry.
//!
//! Pure functions over a solution file: [`plan`] computes everything, [`terminal`] and [`html`] show it,
//! [`write_targets`] turns the worst failure into the target of the tests, [`search`] looks for better designs.
//! `docs/planning.md` lists every formula with its source.
//!
//! Invariants
//! 1. All arithmetic is in f64 and unrounded; rounding happens in display only, except where a formula itself rounds.
//! 2. Same file, same plan, to the byte.
//! 3. What cannot be is refused with one sentence at the line that asks for it ([`solution::SolutionError`]);
//!    what does not suffice is a failed check of the plan.
//!
//! Limits: 16 members and 1,600 databases per group, as many groups as wished.

mod architecture;
mod bound;
mod catalogue;
mod check;
mod claim;
mod complete;
mod derive;
mod doubt;
mod export;
mod failure;
mod figures;
pub mod formula;
mod growth;
mod inputs;
mod layout;
mod meta_cache;
pub mod search;
mod sizing;
mod storage;
mod target;
mod toml_text;
mod unmeasured;
mod view;

pub use architecture::{ArchitectureRule, Compliance};
pub use bound::Bound;
pub use check::{Check, Outcome};
pub use claim::{claim, limits, measured_storage};
pub use complete::{to_run, write_instances};
pub use export::{ActiveLimits, active_limits, csv, export};
pub use failure::{Class, Failures, Kind, Scenario};
pub use figures::Figure;
pub use growth::Block;
pub use layout::{CopyPlace, DatabasePlace, Layout};
pub use meta_cache::MetaCache;
pub use sizing::{Row, ServerNeed, Sizing};
pub use storage::{Binding, EnclosureUse, RaidChoice, Ratios, Storage, Use};
pub use target::{Edit, Target, Targets, write_targets};
pub use view::{html, terminal};

use schemars::JsonSchema;
use serde::Serialize;
use solution::{Result, Solution};

use crate::inputs::Inputs;

/// Version of the plan's JSON document.
pub const PLAN_SCHEMA: u32 = 1;

/// Server of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Server {
    /// Name of the server.
    pub name: String,
    /// Site of the server.
    pub site: String,
    /// Enclosure that the server shares with others.
    pub enclosure: Option<String>,
    /// `MaximumActiveDatabases` of the server in Exchange.
    pub maximum_active_databases: u32,
    /// `MaximumPreferredActiveDatabases` of the server in Exchange.
    pub maximum_preferred_active_databases: u32,
}

/// Plan of a solution: everything that the planner computes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Version of this JSON document: 1.
    pub schema_version: u32,
    /// Name of the solution.
    pub solution: String,
    /// Whether no check failed.
    pub passed: bool,
    /// Verdict in one sentence, with checks that failed or could not be judged.
    pub verdict: String,
    /// Sentences about each kind of failure that takes databases out of service.
    pub losses: Vec<String>,
    /// Year of the Exchange generation; 2025 for SE.
    pub exchange: u32,
    /// Name of the generation without "Exchange".
    pub exchange_name: String,
    /// Number of mailboxes in the environment.
    pub mailboxes: u64,
    /// Number of groups.
    pub dags: u32,
    /// Number of copies of a database.
    pub copies: u32,
    /// Servers of a group; layout and failures refer to them by index.
    pub servers: Vec<Server>,
    /// Sizing table.
    pub sizing: Sizing,
    /// Failure arithmetic of the calculator.
    pub bound: Bound,
    /// Needs of the fullest server by the layout (the sizing table has them by the bound).
    pub server_by_layout: ServerNeed,
    /// Figures beside the sizing table: mailbox, databases, memory, settings, MetaCache.
    pub figures: Vec<Figure>,
    /// MetaCache of the server with the fewest SSDs; its figures are among `figures`.
    #[serde(skip)]
    pub meta_cache: Option<MetaCache>,
    /// Use of the storage.
    pub storage: Storage,
    /// Disks of a server under each RAID level; empty if the file names no disk for databases.
    pub raid: Vec<RaidChoice>,
    /// Growth in blocks of this solution; empty if the file does not ask for it.
    pub growth: Vec<Block>,
    /// Targets of the tests.
    pub targets: Targets,
    /// Checks of the plan.
    pub checks: Vec<Check>,
    /// Rules of the Preferred Architecture; empty before Exchange 2019.
    pub architecture: Vec<ArchitectureRule>,
    /// Failures of the layout with their outcomes.
    pub failures: Failures,
    /// Layout of the copies on servers and volumes.
    pub layout: Layout,
}

impl Plan {
    /// The plan as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The JSON schema of a plan.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Plan).to_value()
    }
}

/// Plans a solution. `named`: additional failures, each a list of names ([`failure_names`]).
pub fn plan(solution: &Solution, named: &[Vec<String>]) -> Result<Plan> {
    let inputs = Inputs::of(solution)?;
    let listed = layout::listed(&inputs);
    let (databases, derived) = number_of_databases(&inputs, listed.as_ref())?;
    let layout = listed.unwrap_or_else(|| layout::generate(&inputs, databases));
    let bound = bound::bound(&inputs, databases);
    let sizing = sizing::size(&inputs, databases, &bound);
    let under_test = solution.failed.as_slice();
    let failures = failure::failures(&inputs, &layout, &named_failures(solution, under_test, named)?);
    let tested = failures.named().next().filter(|_| !under_test.is_empty());
    let worst = failures.worst();
    // A named failure may load a server more than any that is enumerated.
    let named_active = failures.named().filter(|one| one.lost_databases == 0).map(|one| one.worst_active);
    let worst_active = named_active.fold(worst.worst_active, u32::max);
    let (mailboxes, copies) =
        (sizing.mailboxes_per_database, layout.most_copies(inputs.servers.len()).into());
    let server_by_layout = sizing::server_need(&inputs, mailboxes, copies, f64::from(worst_active));
    let worst_volume =
        failures.classes.iter().filter(|class| class.survived > 0).map(|class| class.worst_volume).max();
    let storage = storage::fit(&inputs, &sizing, &layout, worst_volume.unwrap_or(0));
    let cache = meta_cache::meta_cache(&inputs, &sizing, &layout);
    let needs = [&sizing.server, &server_by_layout];
    let architecture = architecture::rules(&inputs, &failures, needs, cache.as_ref());
    let mut checks = check::checks(&check::Findings {
        inputs: &inputs,
        layout: &layout,
        failures: &failures,
        tested,
        sizing: &sizing,
        storage: &storage,
        needs,
        derived,
    });
    checks.extend(architecture::check(&architecture));
    let mut plan = Plan {
        schema_version: PLAN_SCHEMA,
        solution: solution.name.clone(),
        passed: checks.iter().all(|check| check.outcome != Outcome::Fail),
        verdict: check::verdict(&checks),
        losses: failures.losses(layout.databases.len()),
        exchange: inputs.users.exchange.year(),
        exchange_name: inputs.users.exchange.name(),
        mailboxes: inputs.users.mailboxes,
        dags: inputs.solution.dag.count,
        copies: inputs.copies(),
        servers: servers(&inputs),
        targets: target::targets(&inputs, &sizing, &bound, &failures, tested),
        figures: figures::figures(&inputs, &sizing, (&failures, copies), needs, cache.as_ref()),
        raid: storage::choices(&inputs, &sizing),
        growth: growth::growth(&inputs, &sizing, &storage),
        meta_cache: cache,
        sizing,
        bound,
        server_by_layout,
        storage,
        checks,
        architecture,
        failures,
        layout,
    };
    for (index, limits) in active_limits(solution, &plan).into_iter().enumerate() {
        plan.servers[index].maximum_active_databases = limits.maximum;
        plan.servers[index].maximum_preferred_active_databases = limits.preferred;
    }
    Ok(plan)
}

/// Number of databases of a group, with the reason if neither layout nor file gives it.
fn number_of_databases(inputs: &Inputs<'_>, listed: Option<&Layout>) -> Result<(u32, Option<String>)> {
    if let Some(layout) = listed {
        return Ok((layout.databases.len() as u32, None));
    }
    match inputs.solution.databases {
        Some(databases) => Ok((databases, None)),
        None => derive::databases(inputs).map(|derived| (derived.databases, Some(derived.reason))),
    }
}

/// Servers of a group with site and enclosure names; their limits follow from the whole plan.
fn servers(inputs: &Inputs<'_>) -> Vec<Server> {
    let named = inputs.servers.iter().map(|server| Server {
        name: server.name.clone(),
        site: inputs.sites[server.site].name.clone(),
        enclosure: server.enclosure.map(|enclosure| inputs.enclosures[enclosure].clone()),
        maximum_active_databases: 0,
        maximum_preferred_active_databases: 0,
    });
    named.collect()
}

/// Names that `plan` takes for a failure: sites, enclosures and hosts.
pub fn failure_names(solution: &Solution) -> Vec<String> {
    let sites = solution.sites.iter().map(|site| &site.name);
    let enclosures = solution.enclosures.iter().map(|enclosure| &enclosure.name);
    let hosts = solution.hosts.iter().map(|host| &host.name);
    sites.chain(enclosures).chain(hosts).cloned().collect()
}

/// Splits a failure into its names, which are joined with `+`.
///
/// # Errors
/// What is wrong with the first name that nothing has, and what to write instead.
pub fn named(
    solution: &Solution,
    failures: &[String],
) -> std::result::Result<Vec<Vec<String>>, (String, String)> {
    let names = |text: &String| {
        text.split('+').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let named: Vec<Vec<String>> = failures.iter().map(names).collect();
    let known = failure_names(solution);
    let Some(unknown) = named.iter().flatten().find(|name| !known.contains(name)) else { return Ok(named) };
    let help = match solution::did_you_mean(unknown, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    };
    Err((format!("no host, enclosure or site is called `{unknown}`"), help))
}

/// Labels and lost servers of the failure under test, if there is one, and of the failures that the caller names.
fn named_failures(
    solution: &Solution,
    under_test: &[String],
    named: &[Vec<String>],
) -> Result<Vec<(String, u32)>> {
    let mut sets = Vec::new();
    for names in
        std::iter::once(under_test).chain(named.iter().map(Vec::as_slice)).filter(|names| !names.is_empty())
    {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match failure::named_set(solution, &names) {
            Ok(lost) => sets.push((names.join(" + "), lost)),
            Err(unknown) => {
                let message = format!("no host, enclosure or site is called `{unknown}`");
                let help = format!("known: {}", failure_names(solution).join(", "));
                return Err(solution.error("under_test.failed", message, Some(help)));
            }
        }
    }
    Ok(sets)
}
