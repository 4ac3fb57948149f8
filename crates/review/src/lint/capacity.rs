//! Disks, capacities and the shares of them.

use super::{Findings, agrees, agrees_within, shown, with};
use crate::printed_figures::{DiskFigures, Evidence, known};

pub fn check(evidence: &Evidence, findings: &mut Findings) {
    shares(evidence, findings);
    for disks in &evidence.hardware.disks {
        group(disks, findings);
    }
    tested(evidence, findings);
    raid(evidence, findings);
    models(evidence, findings);
}

/// Rule: a hardware model in the text is one of those in the tables.
fn models(evidence: &Evidence, findings: &mut Findings) {
    let hardware = &evidence.hardware;
    let mut tables: Vec<&str> = hardware.host.values().filter_map(|value| value.as_str()).collect();
    tables.extend(hardware.enclosure.values().filter_map(|value| value.as_str()));
    tables.extend([&hardware.storage_model, &hardware.hba, &hardware.switch].map(String::as_str));
    tables.extend(hardware.disks.iter().map(|disks| disks.model.as_str()));
    for model in &hardware.models_in_prose {
        if !tables.iter().any(|part| part.contains(model.as_str())) {
            let host = hardware.host.get("model").and_then(|value| value.as_str()).unwrap_or_default();
            findings.add(
                "foreign_model",
                "the text names hardware that is in no table of this solution",
                (model.as_str(), "hardware.models_in_prose"),
                (host, "hardware.host.model, nor in any other row of [hardware]"),
            );
        }
    }
}

/// A printed unit of capacity, in TB.
fn unit_tb(unit: &str) -> Option<f64> {
    [("MB", 1e-6), ("GB", 1e-3), ("TB", 1.0), ("PB", 1e3)]
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, tb)| *tb)
}

/// Raw capacity of the disks for databases, in TB.
fn raw_tb(evidence: &Evidence) -> Option<f64> {
    let hardware = &evidence.hardware;
    let of_groups = || {
        let data: Vec<&DiskFigures> =
            hardware.disks.iter().filter(|disks| disks.role == "database").collect();
        let raw: Option<Vec<f64>> = data.iter().map(|disks| known(disks.raw_gb)).collect();
        raw.filter(|raw| !raw.is_empty()).map(|raw| raw.iter().sum::<f64>() / 1000.0)
    };
    let parts = &hardware.raw_capacity_tb;
    known(parts.get("total").copied())
        .or(known(hardware.raw_capacity_gb).map(|gb| gb / 1000.0))
        .or_else(of_groups)
        .or(known(parts.get("hdd").copied()))
}

fn shares(evidence: &Evidence, findings: &mut Findings) {
    let (solution, hardware) = (&evidence.solution, &evidence.hardware);
    let data = known(solution.total_test_database_tb);
    let formatted = known(hardware.formatted_capacity_tb).or_else(|| {
        known(hardware.formatted_capacity_gb_per_lun)
            .filter(|_| known(solution.servers_tested) == Some(1.0))
            .map(|gb| gb / 1000.0)
    });
    if let (Some(printed), Some(data), Some(formatted)) = (known(solution.storage_used_pct), data, formatted)
        && !agrees_within(printed, 100.0 * data / formatted, 5e-3)
    {
        findings.add(
            "used_capacity",
            "the used share is not the test databases by the formatted capacity",
            (with(printed, "%"), "solution.storage_used_pct"),
            (
                with(100.0 * data / formatted, "%"),
                "solution.total_test_database_tb by hardware formatted capacity",
            ),
        );
    }
    if let (Some(printed), Some(data), Some(formatted), Some(raw)) =
        (known(hardware.database_utilization_pct), data, formatted, raw_tb(evidence))
        && ![formatted, raw].iter().any(|by| agrees_within(printed, 100.0 * data / by, 5e-3))
    {
        findings.add(
            "database_utilization",
            format!(
                "the utilization is neither data by raw nor data by formatted capacity ({})",
                with(100.0 * data / formatted, "%")
            ),
            (with(printed, "%"), "hardware.database_utilization_pct"),
            (with(100.0 * data / raw, "%"), "solution.total_test_database_tb by raw capacity"),
        );
    }
    let unit = hardware.formatted_capacity_printed_unit.as_str();
    if let (Some(formatted), Some(data)) = (known(hardware.formatted_capacity_tb), data)
        && let Some(tb) = unit_tb(unit)
        && formatted * tb < data
    {
        findings.add(
            "unit",
            "the capacity is smaller than the databases that lie on it, unless it is in TB",
            (with(formatted, unit), "hardware.formatted_capacity_printed_unit"),
            (with(data, "TB"), "solution.total_test_database_tb"),
        );
    }
    let (per_server, total) =
        (hardware.raw_capacity_tb.get("per_server"), hardware.raw_capacity_tb.get("total"));
    if let (Some(&per_server), Some(&total), Some(formatted), Some(printed)) =
        (per_server, total, formatted, known(hardware.storage_utilization_pct))
        && per_server < total
        && agrees_within(formatted, per_server, 0.05)
        && agrees_within(printed, 100.0 * formatted / total, 5e-3)
    {
        findings.add(
            "one_server_capacity",
            "the utilization divides the formatted capacity of one server by the raw capacity of all",
            (with(formatted, "TB"), "hardware.formatted_capacity_tb, one server"),
            (with(total, "TB"), "hardware.raw_capacity_tb.total, all servers"),
        );
    }
}

fn group(disks: &DiskFigures, findings: &mut Findings) {
    let place = |what: &str| format!("hardware.disks ({}): {what}", disks.role);
    if let (Some(raw), Some(count), Some(each)) =
        (known(disks.raw_gb), known(disks.count), known(disks.capacity_gb))
        && !agrees(raw, count * each)
    {
        findings.add(
            "raw_capacity",
            format!("{} disks of {} make another capacity", shown(count), with(each, "GB")),
            (with(raw, "GB"), place("raw_gb")),
            (with(count * each, "GB"), place("count x capacity_gb")),
        );
    }
    if let (Some(volumes), Some(count), Some(per_volume)) =
        (known(disks.volumes_printed), known(disks.count), known(disks.disks_per_lun))
        && volumes * per_volume != count
    {
        findings.add(
            "volume_count",
            "the volumes cannot be made of these disks",
            (with(volumes, "volumes"), place("volumes_printed")),
            (with(count, "disks"), place("count")),
        );
    }
}

/// Whether disks of this role hold what the test reads and writes.
fn holds_data(role: &str) -> bool {
    ["database", "log", "backup", "fast tier", "capacity tier", "read cache"]
        .iter()
        .any(|part| role.starts_with(part))
}

fn tested(evidence: &Evidence, findings: &mut Findings) {
    let hardware = &evidence.hardware;
    let data: f64 = hardware
        .disks
        .iter()
        .filter(|disks| holds_data(&disks.role))
        .filter_map(|disks| known(disks.count))
        .sum();
    if data == 0.0 {
        return;
    }
    let per_server = known(hardware.disks_tested_per_server).map(|n| (n, "hardware.disks_tested_per_server"));
    let all = known(hardware.disks_tested).map(|n| (n, "hardware.disks_tested"));
    let printed: Vec<(f64, &str)> = [all, per_server].into_iter().flatten().collect();
    // A table describes one server or all of them; either will do.
    if let Some((tested, at)) = printed.last()
        && !printed.iter().any(|(tested, _)| *tested == data)
    {
        findings.add(
            "tested_disks",
            "the disks tested are not the data disks of the disk table",
            (with(*tested, "disks"), *at),
            (with(data, "disks"), "hardware.disks: groups that hold databases, logs, backups"),
        );
    }
}

/// Number of disks that a group may lose, by the name of its RAID level.
fn parity(text: &str) -> Vec<u32> {
    let text = text.to_lowercase();
    [("triple parity", 3), ("double parity", 2), ("raid 6", 2), ("raid 5", 1)]
        .iter()
        .filter(|(name, _)| text.contains(name))
        .map(|(_, disks)| *disks)
        .collect()
}

fn raid(evidence: &Evidence, findings: &mut Findings) {
    let in_text = evidence
        .hardware
        .features
        .iter()
        .find_map(|feature| Some((parity(feature).first().copied()?, feature)));
    for disks in &evidence.hardware.disks {
        let printed = parity(&disks.raid);
        if let Some((named, feature)) = &in_text
            && printed.iter().any(|level| level != named)
        {
            findings.add(
                "raid_level",
                "the disk table and the text name different protections",
                (disks.raid.as_str(), format!("hardware.disks ({}): raid", disks.role)),
                (feature.as_str(), "hardware.features"),
            );
        }
    }
}
