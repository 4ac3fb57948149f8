//! Figures beside the sizing table, each with its source: mailbox, databases, memory, settings, MetaCache.

use schemars::JsonSchema;
use serde::Serialize;
use solution::Generation;

use crate::failure::{Class, Failures, Kind};
use crate::inputs::Inputs;
use crate::meta_cache::MetaCache;
use crate::sizing::{ServerNeed, Sizing, server_need};
use crate::{derive, formula};

/// Figure of the plan, with name, unit and source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Heading under which the figure stands.
    pub group: &'static str,
    /// Stable name of the figure.
    pub key: &'static str,
    /// Name of the figure for people.
    pub label: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
    /// Value of the figure.
    pub value: f64,
    /// Source of the formula: one of `docs/planning.md`, or an assumption.
    pub source: &'static str,
}

/// A figure without its heading.
type Line = (&'static str, &'static str, &'static str, f64, &'static str);

fn group<const N: usize>(group: &'static str, lines: [Line; N]) -> impl Iterator<Item = Figure> {
    lines.into_iter().map(move |(key, label, unit, value, source)| Figure {
        group,
        key,
        label,
        unit,
        value,
        source,
    })
}

/// All figures, by heading. `needs`: those of the fullest server; `copies`: the most on a server.
pub fn figures(
    inputs: &Inputs<'_>,
    sizing: &Sizing,
    (failures, copies): (&Failures, f64),
    needs: [&ServerNeed; 2],
    cache: Option<&MetaCache>,
) -> Vec<Figure> {
    let mut figures: Vec<Figure> = mailbox(inputs).collect();
    figures.extend(databases(inputs, sizing));
    figures.extend(memory(needs));
    figures.extend(failures.classes.iter().filter_map(|class| processor(inputs, sizing, class, copies)));
    figures.extend(auto_dag(inputs, sizing.databases));
    figures.extend(cache.into_iter().flat_map(meta_cache));
    figures
}

/// Figures of one mailbox; those that do not follow from the file are left out.
fn mailbox(inputs: &Inputs<'_>) -> impl Iterator<Item = Figure> {
    let figures = &inputs.figures;
    let (dumpster, white_space) = figures.dumpster_mb.unwrap_or_default();
    let lines = [
        ("dumpster_mb", "dumpster: deleted items, recovery, calendar versions", "MB", dumpster, "[MD3260]"),
        ("white_space_mb", "white space: the mail of a day", "MB", white_space, "[MD3260]"),
        ("cache_mb_per_mailbox", "database cache, active mailbox", "MB", figures.cache_mb, "[MD3260]"),
        ("active_mcycles", "megacycles, active mailbox", "", figures.active_mcycles, "[blog-2013]"),
        ("passive_mcycles", "megacycles, passive mailbox", "", figures.passive_mcycles, "[blog-2013]"),
    ];
    group("Mailbox", lines).filter(|figure| figure.value > 0.0)
}

/// Figures of the databases by the calculator, beside those of the plan; none for a volume without disks of its own.
fn databases(inputs: &Inputs<'_>, sizing: &Sizing) -> impl Iterator<Item = Figure> {
    let figures = derive::by_calculator(inputs).ok().map(|calculated| {
        let recommended = inputs.largest_database_gb();
        let lines = [
            (
                "volume_database_gb",
                "largest database that the volume holds",
                "GB",
                calculated.database_gb,
                "[MD3260]",
            ),
            ("largest_database_gb", "largest database that is allowed", "GB", recommended, "[workbooks]"),
            (
                "mailboxes_by_io",
                "mailboxes of a database, by I/O",
                "",
                calculated.mailboxes_by_io,
                "[workbooks]",
            ),
            (
                "mailboxes_by_capacity",
                "mailboxes of a database, by capacity",
                "",
                calculated.mailboxes_by_capacity,
                "[workbooks]",
            ),
            (
                "databases_by_calculator",
                "databases needed by the calculator, logs not counted",
                "",
                f64::from(calculated.databases),
                "[workbooks]",
            ),
            ("databases", "databases of the plan", "", f64::from(sizing.databases), "the plan"),
        ];
        group("Databases", lines)
    });
    figures.into_iter().flatten()
}

/// Memory of the fullest server, rounded to usual modules.
fn memory(needs: [&ServerNeed; 2]) -> impl Iterator<Item = Figure> {
    let need = needs.into_iter().filter_map(|need| need.memory_gb).reduce(f64::max);
    let fitted = need.and_then(formula::fitted_memory_gb).unwrap_or_default();
    let line =
        ("fitted_memory_gb", "memory of a server, in modules of one size", "GB", fitted, "sizes on sale");
    group("Memory", [line]).filter(|figure| figure.value > 0.0)
}

/// Processor use of the fullest server in failures of a kind, if one of them loses no database.
fn processor(inputs: &Inputs<'_>, sizing: &Sizing, class: &Class, copies: f64) -> Option<Figure> {
    let key = match class.kind {
        Kind::Normal => "cpu_percent_normal",
        Kind::Server => "cpu_percent_server",
        Kind::TwoServers => "cpu_percent_two_servers",
        Kind::Enclosure => "cpu_percent_enclosure",
        Kind::Site => "cpu_percent_site",
        Kind::SiteAndServer => "cpu_percent_site_and_server",
        Kind::Named => "cpu_percent_named",
    };
    let actives = f64::from(class.worst_active);
    let need = server_need(inputs, sizing.mailboxes_per_database, copies, actives);
    let share = need.cpu_share.filter(|_| class.survived > 0)?;
    let (label, value) = (class.kind.label(), share * 100.0);
    Some(Figure { group: "Processor by failure", key, label, unit: "%", value, source: "[blog-2013]" })
}

/// AutoDag settings that follow from the layout; groups have them from Exchange 2013 on.
fn auto_dag(inputs: &Inputs<'_>, databases: u32) -> impl Iterator<Item = Figure> {
    const SOURCE: &str = "[autoreseed]";
    let has_them = inputs.users.exchange >= Generation::E2013 && inputs.copies() > 1;
    let servers = inputs.servers.len() as f64;
    let lines = [
        (
            "auto_dag_total_number_of_databases",
            "AutoDagTotalNumberOfDatabases",
            "",
            f64::from(databases),
            SOURCE,
        ),
        ("auto_dag_total_number_of_servers", "AutoDagTotalNumberOfServers", "", servers, SOURCE),
        (
            "auto_dag_database_copies_per_database",
            "AutoDagDatabaseCopiesPerDatabase",
            "",
            f64::from(inputs.copies()),
            SOURCE,
        ),
        (
            "auto_dag_database_copies_per_volume",
            "AutoDagDatabaseCopiesPerVolume",
            "",
            f64::from(inputs.databases_per_volume),
            SOURCE,
        ),
    ];
    group("Settings of a group", lines).filter(move |_| has_them)
}

fn meta_cache(cache: &MetaCache) -> impl Iterator<Item = Figure> {
    let percent = |share: f64| share * 100.0;
    let lines = [
        ("meta_cache_ssds", "SSDs of a server", "", f64::from(cache.ssds), "the file"),
        ("meta_cache_disks", "database disks of a server", "", f64::from(cache.disks), "the file"),
        ("meta_cache_gib", "capacity of the SSDs, per server", "GiB", cache.ssd_gib, "the file"),
        (
            "meta_cache_share_of_disks",
            "... of the capacity of the database disks",
            "%",
            percent(cache.share_of_disks),
            "[metacache]",
        ),
        (
            "meta_cache_gib_per_copy",
            "cache of a database copy: 95 % of the SSDs, divided",
            "GiB",
            cache.gib_per_copy,
            "inferred",
        ),
        (
            "meta_cache_share_of_database",
            "... of the size of the database",
            "%",
            percent(cache.share_of_database),
            "inferred",
        ),
        (
            "meta_cache_copies_per_ssd",
            "copies that lose their cache with an SSD",
            "",
            f64::from(cache.copies_per_ssd),
            "[metacache]",
        ),
        (
            "meta_cache_drive_writes_per_day",
            "drive writes a day, every page write made twice",
            "",
            cache.drive_writes_per_day,
            "upper limit, assumption",
        ),
    ];
    group("MetaCache database (no I/O counts as saved)", lines)
}
