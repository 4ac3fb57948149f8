//! A plan in a terminal of 100 columns.

use std::fmt::Write;

use results::figures::{counted, number};

use crate::check::Outcome;
use crate::formula::round_half_up;
use crate::view::html::bound_of;
use crate::{Block, Plan, Ratios, Server, Use};

/// Largest number of rows of the layout in the text; JSON and HTML have all.
const LAYOUT_ROWS: usize = 16;

const WIDTH: usize = 100;

/// Renders the plan as text of at most 100 columns.
pub fn terminal(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut out, plan)
        .and_then(|()| sizing(&mut out, plan))
        .and_then(|()| storage(&mut out, plan))
        .and_then(|()| layout(&mut out, plan))
        .and_then(|()| failures(&mut out, plan))
        .and_then(|()| targets(&mut out, plan))
        .and_then(|()| checks(&mut out, plan));
    out
}

type Written = std::fmt::Result;

fn head(out: &mut String, plan: &Plan) -> Written {
    writeln!(out, "{}", fit(&plan.solution, WIDTH))?;
    let groups =
        if plan.dags == 1 { String::new() } else { format!("{}, each ", counted(plan.dags.into(), "group")) };
    writeln!(
        out,
        "{} on Exchange {}; {groups}{}, {} in {}",
        counted(plan.mailboxes, "mailbox"),
        plan.exchange_name,
        counted(plan.servers.len() as u64, "server"),
        counted(plan.sizing.databases.into(), "database"),
        counted(plan.copies.into(), "copy"),
    )?;
    writeln!(
        out,
        "{:.4} I/O per second and mailbox ({:.4} with headroom), {} MB on disk, {:.4} logs a day",
        plan.sizing.iops_per_mailbox,
        plan.sizing.iops_per_mailbox_with_headroom,
        whole(plan.sizing.mailbox_mb),
        plan.sizing.logs_per_mailbox_day,
    )?;
    wrapped(out, &plan.verdict)?;
    plan.losses.iter().try_for_each(|loss| wrapped(out, &format!("Loses service - {loss}")))
}

fn title(out: &mut String, text: &str) -> Written {
    writeln!(out, "\n{text}\n{}", "-".repeat(text.chars().count().min(WIDTH)))
}

fn sizing(out: &mut String, plan: &Plan) -> Written {
    title(out, "Sizing")?;
    writeln!(out, "{:<34}{:>8}{:>14}{:>14}{:>14}{:>14}", "", "", "database", "server", "DAG", "environment")?;
    for row in &plan.sizing.rows {
        write!(out, "{:<34}{:>8}", row.label, row.unit)?;
        for value in [row.per_database, row.per_server, row.per_dag, row.per_environment] {
            match value {
                Some(value) => write!(out, "{:>14}", whole(round_half_up(value)))?,
                None => write!(out, "{:>14}", "-")?,
            }
        }
        writeln!(out)?;
    }
    for (view, need) in [("calculator", &plan.sizing.server), ("layout", &plan.server_by_layout)] {
        let mailboxes = whole(round_half_up(need.worst_active_mailboxes));
        let mut line =
            format!("Fullest server, {view}: {} active, {mailboxes} mailboxes", short(need.worst_actives));
        if need.cache_gb > 0.0 {
            line += &format!(", {} GB cache", whole(need.cache_gb));
        }
        if let Some(memory) = need.memory_gb {
            line += &format!(", {} GB memory", whole(memory));
        }
        match (need.cpu_share, need.mcycles) {
            (Some(share), _) => line += &format!(", CPU {:.0} %", share * 100.0),
            (None, Some(mcycles)) => line += &format!(", {} Mcycles", whole(mcycles)),
            (None, None) => {}
        }
        wrapped(out, &line)?;
    }
    figures(out, plan)
}

/// Renders the figures under their headings.
fn figures(out: &mut String, plan: &Plan) -> Written {
    let mut group = "";
    for one in &plan.figures {
        if one.group != group {
            group = one.group;
            title(out, group)?;
        }
        let value = number(one.value, if one.value == one.value.round() { 0 } else { 2 });
        writeln!(out, "{:<54}{value:>14} {:<5}{}", one.label, one.unit, one.source)?;
    }
    Ok(())
}

fn storage(out: &mut String, plan: &Plan) -> Written {
    title(out, "Storage")?;
    writeln!(
        out,
        "{:<20}{:>11}{:>6}{:>6}{:>10}{:>10}{:>7}{:>7}{:>9}{:>9}",
        "", "", "count", "disks", "GiB", "need GiB", "space", "I/O", "rebuild", "binds"
    )?;
    for used in plan.storage.volumes.iter().chain(&plan.storage.pools) {
        writeln!(
            out,
            "{:<20}{:>11}{:>6}{:>6}{:>10}{:>10}{:>7}{:>7}{:>9}{:>9}",
            fit(&used.name, 19),
            used.role,
            used.count,
            if used.disks == 0 { "-".into() } else { used.disks.to_string() },
            used.effective_gib.or(used.formatted_gib).map_or("?".into(), whole),
            whole(used.needed_gib),
            percent(used.capacity_share),
            percent(used.iops_share),
            percent(used.iops_share_rebuilding),
            binds(used),
        )?;
    }
    for enclosure in &plan.storage.enclosures {
        writeln!(
            out,
            "{:<20}{:>11}{:>6}{:>6}{:>20}{:>7}{:>7}",
            fit(&enclosure.name, 19),
            "enclosure",
            1,
            enclosure.database_disks + enclosure.other_disks,
            enclosure.bays.map_or(String::new(), |bays| format!("of {bays} bays")),
            percent(enclosure.capacity_share),
            percent(enclosure.iops_share),
        )?;
    }
    if let Some(ratios) = &plan.storage.ratios {
        self::ratios(out, ratios)?;
    }
    plan.growth.iter().try_for_each(|block| growth(out, block))?;
    raid(out, plan)
}

/// Renders the disks of a server under each RAID level.
fn raid(out: &mut String, plan: &Plan) -> Written {
    let Some(first) = plan.raid.first() else { return Ok(()) };
    title(out, &format!("Disks of a server for its databases, by RAID level ({})", fit(&first.disk, 40)))?;
    writeln!(
        out,
        "{:<20}{:>16}{:>10}{:>22}{:>14}",
        "", "back-end I/O", "by I/O", "... while rebuilding", "by capacity"
    )?;
    let disks = |disks: Option<u32>| disks.map_or("?".to_owned(), |disks| whole(disks.into()));
    for one in &plan.raid {
        writeln!(
            out,
            "{:<20}{:>16}{:>10}{:>22}{:>14}",
            one.raid,
            whole(round_half_up(one.back_end_iops)),
            disks(one.disks_by_iops),
            disks(one.disks_by_iops_rebuilding),
            disks(Some(one.disks_by_capacity)),
        )?;
    }
    Ok(())
}

fn ratios(out: &mut String, ratios: &Ratios) -> Written {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let under_test = format!(
        "Under test: {} TB raw, {} TiB formatted ({} of raw; {} as papers print it, TiB / TB).",
        number(ratios.raw_tb, 2),
        number(ratios.formatted_tib, 2),
        percent(ratios.formatted_of_raw),
        percent(ratios.formatted_of_raw_as_printed),
    );
    wrapped(out, &under_test)?;
    let effective = match (ratios.database_of_effective, ratios.effective_tib) {
        (Some(share), Some(tib)) => format!(", {} of {} TiB effective", percent(share), whole(tib)),
        _ => String::new(),
    };
    let databases = format!(
        "{} databases {} TiB: {} of formatted, {} of raw (TiB / TB){effective}.",
        if ratios.test_database_tib.is_some() { "Test" } else { "Planned" },
        number(ratios.test_database_tib.unwrap_or(ratios.database_tib), 2),
        percent(ratios.database_of_formatted),
        percent(ratios.database_of_raw_as_printed),
    );
    wrapped(out, &databases)
}

fn growth(out: &mut String, block: &Block) -> Written {
    let line = format!(
        "{}: {}, {}, {}, {} TB raw, {} I/O per second{}",
        counted(block.blocks.into(), "block"),
        counted(block.mailboxes as u64, "mailbox"),
        counted(block.hosts.into(), "host"),
        counted(block.disks.into(), "disk"),
        number(block.raw_tb, 1),
        whole(block.database_iops),
        block.limit.as_ref().map_or(String::new(), |limit| format!(" - {limit}")),
    );
    wrapped(out, &line)
}

fn binds(used: &Use) -> &'static str {
    match used.binds {
        Some(crate::Binding::Capacity) => "space",
        Some(crate::Binding::Iops) => "I/O",
        None => "-",
    }
}

fn layout(out: &mut String, plan: &Plan) -> Written {
    title(out, "Copy layout (activation preference of the copy on each server)")?;
    let width = if plan.servers.len() > 9 { 3 } else { 2 };
    write!(out, "{:<18}{:>4}  ", "", "vol")?;
    let mut site = "";
    for (index, server) in plan.servers.iter().enumerate() {
        let gap = if index > 0 && server.site != site { " |" } else { "" };
        site = &server.site;
        write!(out, "{gap}{:>width$}", index + 1)?;
    }
    writeln!(out)?;
    for database in plan.layout.databases.iter().take(LAYOUT_ROWS) {
        let volume = match database.copies.as_slice() {
            [first, rest @ ..] if rest.iter().all(|copy| copy.volume == first.volume) => {
                first.volume.to_string()
            }
            _ => "*".into(),
        };
        write!(out, "{:<18}{volume:>4}  ", fit(&database.name, 17))?;
        site = "";
        for (index, server) in plan.servers.iter().enumerate() {
            let gap = if index > 0 && server.site != site { " |" } else { "" };
            site = &server.site;
            let preference = database.copies.iter().position(|copy| usize::from(copy.server) == index);
            match preference {
                Some(preference) => write!(out, "{gap}{:>width$}", preference + 1)?,
                None => write!(out, "{gap}{:>width$}", ".")?,
            }
        }
        writeln!(out)?;
    }
    let rest = plan.layout.databases.len().saturating_sub(LAYOUT_ROWS);
    if rest > 0 {
        writeln!(out, "... and {} more (--json, --html)", whole(rest as f64))?;
    }
    let names: Vec<String> =
        plan.servers.iter().enumerate().map(|(i, server)| format!("{} {}", i + 1, server.name)).collect();
    wrapped(out, &format!("Servers: {}", names.join(", ")))?;
    let limits =
        |server: &Server| (server.maximum_active_databases, server.maximum_preferred_active_databases);
    for alike in plan.servers.chunk_by(|a, b| limits(a) == limits(b)) {
        let names: Vec<&str> = alike.iter().map(|server| server.name.as_str()).collect();
        let (most, preferred) = limits(&alike[0]);
        let settings = format!("MaximumActiveDatabases {most}, MaximumPreferredActiveDatabases {preferred}");
        wrapped(out, &format!("{settings}: {}", names.join(", ")))?;
    }
    Ok(())
}

fn failures(out: &mut String, plan: &Plan) -> Written {
    title(out, "Failures (active databases on the fullest server)")?;
    writeln!(
        out,
        "{:<22}{:>10}{:>8}{:>8}{:>7}{:>9}{:>6}  worst case",
        "lost", "calculator", "layout", "/volume", "cases", "survived", "gone"
    )?;
    for class in &plan.failures.classes {
        let bound = bound_of(plan, class.kind);
        // What many failures that all lose databases have in common says little.
        let hidden = class.survived == 0 && class.kind != crate::Kind::Named;
        writeln!(
            out,
            "{:<22}{:>10}{:>8}{:>8}{:>7}{:>9}{:>6}  {}",
            class.kind.label(),
            bound.map_or("-".into(), short),
            if hidden { "-".into() } else { class.worst_active.to_string() },
            if hidden { "-".into() } else { class.worst_volume.to_string() },
            whole(class.scenarios as f64),
            whole(class.survived as f64),
            whole(class.lost_databases as f64),
            fit(&class.worst, WIDTH - 72),
        )?;
    }
    let worst = plan.failures.worst();
    let normal = &plan.failures.scenarios[0];
    let busiest = worst.active.iter().position(|&active| active == worst.worst_active).unwrap_or(0);
    let load = |databases: u32| f64::from(databases) * plan.sizing.database_iops;
    wrapped(
        out,
        &format!(
            "Worst that loses nothing: {}. Active I/O of {} goes from {} to {} per second.",
            worst.label,
            plan.servers[busiest].name,
            number(load(normal.active[busiest]), 1),
            number(load(worst.active[busiest]), 1),
        ),
    )
}

fn targets(out: &mut String, plan: &Plan) -> Written {
    title(out, "Targets of the tests, per server")?;
    let targets = &plan.targets;
    writeln!(
        out,
        "{:<28}{:>12}{:>14}{:>18}{:>14}",
        "", "databases", "mailboxes", "I/O per second", "as tested"
    )?;
    for (label, target) in [
        ("all copies (calculator)", &targets.all_copies),
        ("worst active, calculator", &targets.worst_active_bound),
        ("worst active, layout", &targets.worst_active_layout),
    ] {
        writeln!(
            out,
            "{label:<28}{:>12}{:>14}{:>18}{:>14}",
            short(target.databases),
            whole(target.mailboxes),
            number(target.iops, 2),
            number(target.iops_as_tested, 2)
        )?;
    }
    writeln!(out, "--write-targets writes target_iops = {}", targets.target_iops)
}

fn checks(out: &mut String, plan: &Plan) -> Written {
    title(out, "Checks")?;
    for check in &plan.checks {
        let mark = match check.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail => "FAIL",
            Outcome::NotJudged => "not judged",
            Outcome::Note => "note",
        };
        wrapped(out, &format!("{mark}  {}: {}", check.name, check.detail))?;
    }
    if !plan.architecture.is_empty() {
        title(out, "Preferred Architecture (a broken rule fails no plan)")?;
    }
    for one in &plan.architecture {
        let (outcome, rule, detail) = (one.outcome.word(), one.rule, &one.detail);
        wrapped(out, &format!("{outcome}  {rule}: {detail} [{}]", one.source))?;
    }
    writeln!(out)?;
    wrapped(out, &plan.verdict)
}

/// Formats a number without decimals.
fn whole(value: f64) -> String {
    number(value, 0)
}

/// Formats a number without trailing zeros.
fn short(value: f64) -> String {
    number(value, if (value - value.round()).abs() < 1e-9 { 0 } else { 2 })
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// Shortens `text` to `width` characters, with a mark.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Wraps `text` at spaces, with an indent.
fn wrapped(out: &mut String, text: &str) -> Written {
    let mut column = 0;
    for word in text.split(' ') {
        let word = fit(word, WIDTH - 6);
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            write!(out, "\n      ")?;
            column = 6;
        } else if column > 0 {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{word}")?;
        column += length;
    }
    writeln!(out)
}
