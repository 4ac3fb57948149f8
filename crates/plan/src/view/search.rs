//! The answer of a search in a terminal of 100 columns.

use std::fmt::Write;

use results::figures::{counted, number};

use super::terminal::fit;
use crate::search::Found;

/// Largest number of designs in the text; the JSON has all.
const DESIGNS: usize = 12;

/// Number of losing neighbours shown under each design.
const NEIGHBOURS: usize = 3;

impl Found {
    /// Renders the answer as text of at most 100 columns.
    pub fn terminal(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write_found(&mut out, self);
        out
    }
}

fn write_found(out: &mut String, found: &Found) -> std::fmt::Result {
    writeln!(
        out,
        "{}, {} suffice, {} on the front",
        counted(found.candidates as u64, "design"),
        number(found.sufficient as f64, 0),
        number(found.front.len() as f64, 0)
    )?;
    let refused: Vec<String> = found
        .refused
        .iter()
        .map(|(reason, count)| format!("{} {reason}", number(*count as f64, 0)))
        .collect();
    if !refused.is_empty() {
        writeln!(out, "{}", fit(&format!("refused for: {}", refused.join(", ")), 100))?;
    }
    if found.front.is_empty() {
        return writeln!(out, "No design of the catalogue suffices.");
    }
    writeln!(
        out,
        "\n{:>6}{:>8}{:>6}{:>7}{:>6}{:>6}{:>8}{:>10}",
        "disks", "servers", "used", "space", "I/O", "CPU", "active", "by layout"
    )?;
    for design in found.front.iter().take(DESIGNS) {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let what = format!(
            "{}, {}, {:?} of {}, copies {:?}, {}, {} on each of {}",
            design.server,
            design.disk,
            design.volume.raid,
            design.volume.disks,
            design.copies_per_site,
            counted(design.databases.into(), "database"),
            design.databases_per_volume,
            counted(design.volumes_per_server.into(), "volume"),
        );
        writeln!(
            out,
            "{:>6}{:>8}{:>6}{:>7}{:>6}{:>6}{:>8}{:>10}\n         {}",
            design.disks,
            design.servers,
            percent(design.utilisation),
            percent(design.capacity_share),
            percent(design.iops_share),
            design.cpu_share.map_or("-".into(), percent),
            format!("{:.0}", design.worst_active_bound.ceil()),
            design.worst_active_layout,
            fit(&what, 91)
        )?;
        for neighbour in design.neighbours.iter().take(NEIGHBOURS) {
            writeln!(
                out,
                "{}",
                fit(&format!("           not {}: {}", neighbour.change, neighbour.reason), 100)
            )?;
        }
    }
    match found.front.len().saturating_sub(DESIGNS) {
        0 => Ok(()),
        more => writeln!(out, "... and {} more (--json)", number(more as f64, 0)),
    }
}
