//! The solution file of a group.

use std::fmt::Write;

use super::super::config::{comment, quoted};
use super::model::{Database, Group};

/// The text of the solution file of the group.
pub fn text(group: &Group) -> String {
    let mut text = String::from(
        "# Imported from the calculator's files of a group, which do not say who uses it and what its disks are.\n\
         # `proofload plan` needs [profile]: fill in its lines and take away their `#`. Replace the paths of the\n\
         # volumes by folders that do not exist yet, below the mount points.\n\n",
    );
    let _ = write!(
        text,
        "[solution]\nname = {}\nschema = 1\n\n# [profile]\n# exchange = \"2016\"\n# mailboxes =\n\
         # messages_per_day =\n{}{}\n[dag]\ndatabases_per_volume = {}\n\n[copies]\nper_site = {:?}\n",
        quoted(&group.name),
        known("quota_mb", group.quota_mb),
        known("deleted_item_days", group.deleted_item_days),
        group.per_volume,
        group.per_site
    );
    if group.lagged > 0 {
        let _ = write!(text, "lagged = {}\nlag_days = {}\n", group.lagged, group.lag_days);
    }
    for (site, number) in group.sites.iter().zip(1..) {
        let _ = write!(text, "\n[[site]]\nname = \"Site {number}\"\n");
        if !site.is_active {
            text += "active = false\n";
        }
        for host in &site.hosts {
            let _ = write!(text, "\n[[host]]\nname = {}\nsite = \"Site {number}\"\n", quoted(host));
            if let Some(limit) = site.max_active {
                let _ = writeln!(text, "max_active = {limit}");
            }
        }
    }
    let copies = group.databases.iter().flat_map(|database| &database.copies);
    let volumes = copies.map(|copy| copy.volume).max().unwrap_or(1);
    let _ = write!(
        text,
        "\n[[volume]]\nname = \"ExVol{{n}}\"\ncount = {volumes}\npath = \"./volumes/ExVol{{n}}\"\n"
    );
    group.databases.iter().for_each(|database| row(&mut text, database));
    text
}

/// A line of `[profile]` with a value that the calculator's tables do not have and the user must complete.
fn known(key: &str, value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("# {key} = {value}\n"))
}

fn row(text: &mut String, database: &Database) {
    let _ = write!(text, "\n[[layout.database]]\nname = {}\n", quoted(&database.name));
    let first = database.copies[0].volume;
    if database.copies.iter().all(|copy| copy.volume == first) {
        let _ = writeln!(text, "volume = {first}");
    } else {
        let volumes = database.copies.iter().map(|copy| format!("{} {}", comment(&copy.server), copy.volume));
        let volumes: Vec<String> = volumes.collect();
        let _ = writeln!(
            text,
            "# Volumes: {}. The plan deals volumes that differ by its own rule.",
            volumes.join(", ")
        );
    }
    let copies = database.copies.iter().zip(1..);
    let copies: Vec<String> =
        copies.map(|(copy, preference)| format!("[{}, {preference}]", quoted(&copy.server))).collect();
    let _ = writeln!(text, "copies = [{}]", copies.join(", "));
}
