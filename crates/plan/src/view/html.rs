//! A plan as one HTML page: no scripts, nothing from elsewhere, light and dark.
//!
//! The layout is a picture with servers as columns and databases as rows. Radio buttons, which need no script, switch
//! between failures: the copies that are then active light up in the picture.

use std::fmt::Write;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, HtmlEscape, Value, context};
use results::figures::number;

use crate::formula::round_half_up;
use crate::{Kind, Plan, Scenario, Use};

/// Largest number of failures with a picture of their own.
const MAX_PICTURES: usize = 12;

/// Width of a server column and of the gap between sites, in picture units.
const COLUMN: usize = 22;
const GAP: usize = 14;
/// Width of the column with the names of the databases, in picture units.
const NAMES: usize = 96;
const HEAD: usize = 24;

/// Renders the plan as an HTML page with the style sheet `style` of the reports.
pub fn html(plan: &Plan, style: &str) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("whole", |value: Value| match f64::try_from(value) {
        Ok(value) => number(round_half_up(value), 0),
        Err(_) => "–".to_owned(),
    });
    environment.add_filter("two", |value: Value| match f64::try_from(value) {
        Ok(value) => number(value, if value == value.round() { 0 } else { 2 }),
        Err(_) => "–".to_owned(),
    });
    environment.add_filter("percent", |value: Value| match f64::try_from(value) {
        Ok(value) => format!("{:.0} %", value * 100.0),
        Err(_) => "–".to_owned(),
    });
    let pictures = pictured(plan);
    let scenarios: Vec<Value> = pictures
        .iter()
        .map(|&index| {
            let one = &plan.failures.scenarios[index];
            context! {
                label => one.label.as_str(),
                kind => one.kind.label(),
                lost => one.lost_databases,
                worst => one.worst_active,
                bars => Value::from_safe_string(bars(plan, one)),
            }
        })
        .collect();
    let volumes: Vec<&Use> = plan.storage.volumes.iter().chain(&plan.storage.pools).collect();
    let page = environment.render_str(
        include_str!("plan.html"),
        context! {
            style,
            own_style => include_str!("plan.css"),
            plan => Value::from(Serde(plan)),
            volumes => Value::from(Serde(&volumes)),
            classes => plan.failures.classes.iter().map(|class| {
                context! { class => Value::from(Serde(class)), label => class.kind.label(), bound => bound_of(plan, class.kind) }
            }).collect::<Vec<_>>(),
            worst => Value::from(Serde(plan.failures.worst())),
            scenarios => scenarios,
            picture => Value::from_safe_string(picture(plan, &pictures)),
        },
    );
    // The template is part of the program; a test renders it.
    page.unwrap_or_else(|error| format!("<pre>{error}</pre>"))
}

/// Calculator's figure for a kind of failure.
pub(super) fn bound_of(plan: &Plan, kind: Kind) -> Option<f64> {
    match kind {
        Kind::Normal => Some(plan.bound.normal),
        Kind::Server => plan.bound.server,
        Kind::TwoServers => plan.bound.two_servers,
        Kind::Site => plan.bound.site,
        Kind::SiteAndServer => plan.bound.site_and_server,
        Kind::Enclosure | Kind::Named => None,
    }
}

/// Failures that get a picture: none lost, named ones, the worst of each kind, then all enclosures and sites.
fn pictured(plan: &Plan) -> Vec<usize> {
    let all = &plan.failures.scenarios;
    let mut chosen = vec![0];
    chosen.extend((0..all.len()).filter(|&i| all[i].kind == Kind::Named));
    for class in &plan.failures.classes {
        chosen.extend(all.iter().position(|one| one.kind == class.kind && one.label == class.worst));
    }
    chosen.extend((0..all.len()).filter(|&i| matches!(all[i].kind, Kind::Enclosure | Kind::Site)));
    let mut unique: Vec<usize> = Vec::new();
    for index in chosen {
        if unique.iter().all(|&other| all[other].lost_servers != all[index].lost_servers) {
            unique.push(index);
        }
    }
    unique.truncate(MAX_PICTURES);
    unique.sort_unstable_by_key(|&index| (all[index].lost_servers.count_ones(), index));
    unique
}

/// Left edge of each server's column, in picture units.
fn columns(plan: &Plan) -> Vec<usize> {
    let mut x = NAMES;
    let mut edges = Vec::with_capacity(plan.servers.len());
    for (index, server) in plan.servers.iter().enumerate() {
        if index > 0 && server.site != plan.servers[index - 1].site {
            x += GAP;
        }
        edges.push(x);
        x += COLUMN;
    }
    edges
}

/// Picture of the layout: servers as columns, databases as rows, one layer of active copies per failure.
fn picture(plan: &Plan, pictures: &[usize]) -> String {
    let edges = columns(plan);
    let rows = plan.layout.databases.len();
    let row = if rows <= 60 { 16 } else { 8 };
    let width = edges.last().copied().unwrap_or(0) + COLUMN + 8;
    let height = HEAD + rows * row + 8;
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Copy layout\">");
    let _ = write_heads(&mut svg, plan, &edges, height);
    let cell = |server: u8, index: usize| {
        let (x, y) = (edges[usize::from(server)] + 1, HEAD + index * row + 1);
        format!("M{x} {y}h{w}v{h}h-{w}z", w = COLUMN - 2, h = row - 2)
    };
    let preferences = plan.layout.databases.iter().map(|database| database.copies.len()).max().unwrap_or(0);
    for preference in 0..preferences {
        let path: String = (0..rows)
            .filter_map(|index| {
                Some(cell(plan.layout.databases[index].copies.get(preference)?.server, index))
            })
            .collect();
        let _ = write!(svg, "<path class=\"p p{}\" d=\"{path}\"/>", preference.min(4) + 1);
    }
    for (layer, &scenario) in pictures.iter().enumerate() {
        let scenario = &plan.failures.scenarios[scenario];
        let lost = scenario.lost_servers;
        let path: String = (0..rows)
            .filter_map(|index| {
                let copy = scenario.active_copy[index]?;
                Some(cell(plan.layout.databases[index].copies[usize::from(copy)].server, index))
            })
            .collect();
        let _ = write!(svg, "<g class=\"layer l{layer}\"><path class=\"on\" d=\"{path}\"/>");
        for (server, &x) in edges.iter().enumerate().filter(|&(server, _)| lost & (1 << server) != 0) {
            let _ = write!(
                svg,
                "<rect class=\"gone\" x=\"{x}\" y=\"{HEAD}\" width=\"{COLUMN}\" height=\"{}\"><title>{} lost</title></rect>",
                rows * row,
                HtmlEscape(&plan.servers[server].name)
            );
        }
        svg += "</g>";
    }
    if row >= 16 {
        for (index, database) in plan.layout.databases.iter().enumerate() {
            for (preference, copy) in database.copies.iter().enumerate() {
                let (x, y) = (edges[usize::from(copy.server)] + COLUMN / 2, HEAD + index * row + row - 4);
                let _ = write!(svg, "<text class=\"n\" x=\"{x}\" y=\"{y}\">{}</text>", preference + 1);
            }
        }
    }
    let every = if row >= 16 { 1 } else { 8 };
    for (index, database) in plan.layout.databases.iter().enumerate().step_by(every) {
        let y = HEAD + index * row + row.min(12);
        let _ = write!(
            svg,
            "<text class=\"db\" x=\"{}\" y=\"{y}\">{}</text>",
            NAMES - 6,
            HtmlEscape(&database.name)
        );
    }
    svg + "</svg>"
}

fn write_heads(svg: &mut String, plan: &Plan, edges: &[usize], height: usize) -> std::fmt::Result {
    for (index, (server, &x)) in plan.servers.iter().zip(edges).enumerate() {
        write!(
            svg,
            "<text class=\"head\" x=\"{}\" y=\"{}\">{}<title>{}, {}</title></text>",
            x + COLUMN / 2,
            HEAD - 8,
            index + 1,
            HtmlEscape(&server.name),
            HtmlEscape(&server.site)
        )?;
        if index > 0 && server.site != plan.servers[index - 1].site {
            let middle = x - GAP / 2;
            write!(svg, "<line class=\"site\" x1=\"{middle}\" x2=\"{middle}\" y1=\"4\" y2=\"{height}\"/>")?;
        }
    }
    Ok(())
}

/// Bar chart of active databases per server in one failure, beside normal operation.
fn bars(plan: &Plan, scenario: &Scenario) -> String {
    const BAR: usize = 11;
    const TALL: u32 = 64;
    let normal = &plan.failures.scenarios[0];
    let most = plan.failures.scenarios.iter().map(|one| one.worst_active).max().unwrap_or(1).max(1);
    let tall = |count: u32| count * TALL / most;
    let mut x = 0;
    let mut marks = String::new();
    for (index, server) in plan.servers.iter().enumerate() {
        if index > 0 && server.site != plan.servers[index - 1].site {
            x += 6;
        }
        let (now, before) = (scenario.active[index], normal.active[index]);
        if scenario.lost_servers & (1 << index) != 0 {
            let (left, right) = (x + 2, x + BAR - 2);
            marks += &format!(
                "<path class=\"cross\" d=\"M{left} {}L{right} {TALL}M{right} {}L{left} {TALL}\"/>",
                TALL - 7,
                TALL - 7
            );
        } else {
            let (height, y) = (tall(now), TALL - tall(now));
            marks += &format!(
                "<rect class=\"bar\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{height}\"><title>{}: {now}</title></rect>",
                BAR - 2,
                HtmlEscape(&server.name)
            );
        }
        let y = TALL - tall(before);
        marks += &format!("<line class=\"before\" x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>", x + BAR - 2);
        x += BAR;
    }
    format!(
        "<svg viewBox=\"0 -2 {x} {}\" width=\"{x}\" role=\"img\" aria-label=\"active databases per server\">{marks}<line class=\"base\" x1=\"0\" x2=\"{x}\" y1=\"{TALL}\" y2=\"{TALL}\"/></svg>",
        TALL + 4
    )
}
