//! What was built: the solution, its failures, its customers, its parts.

use evidence::report::{bytes, number, significant};

use super::document::{Block, Section};
use super::{Subject, picture};

fn pair(name: &str, value: impl Into<String>) -> Vec<String> {
    vec![name.to_owned(), value.into()]
}

fn optional(value: Option<f64>, unit: &str) -> String {
    value.map_or("–".to_owned(), |value| format!("{} {unit}", significant(value)).trim_end().to_owned())
}

/// The solution: servers, copies, failures, sizing.
pub fn description(subject: &Subject<'_>) -> Section {
    let plan = subject.plan;
    let mut section = Section::new("Solution description");
    let servers = plan
        .servers
        .iter()
        .enumerate()
        .map(|(n, server)| {
            let enclosure = server.enclosure.clone().unwrap_or_else(|| "–".to_owned());
            vec![(n + 1).to_string(), server.name.clone(), server.site.clone(), enclosure]
        })
        .collect();
    section.heading("Servers").table(&["Number", "Server", "Site", "Enclosure"], servers);
    section.heading("Copies of the databases");
    let words = format!(
        "{} databases on {} servers; each column is a server, the darkest copy is the first to be active.",
        plan.layout.databases.len(),
        plan.servers.len()
    );
    section.blocks.push(Block::Picture(picture::layout(plan), words));
    section.heading("Failures");
    section.text(
        "Every failure of each kind was worked through by the copy layout: which copies become active where, and what \
         the fullest server then carries.",
    );
    let failures = plan
        .failures
        .classes
        .iter()
        .map(|class| {
            vec![
                class.kind.label().to_owned(),
                class.scenarios.to_string(),
                class.survived.to_string(),
                class.worst_active.to_string(),
                class.lost_databases.to_string(),
                class.worst.clone(),
            ]
        })
        .collect();
    section.table(
        &[
            "Failure",
            "Cases",
            "Survived",
            "Active databases on the fullest server",
            "Databases lost",
            "Worst case",
        ],
        failures,
    );
    section.text(format!(
        "The tests are for {}: {} I/O per second and server for {} mailboxes.",
        plan.targets.worst_case,
        significant(plan.targets.target_iops),
        number(plan.targets.target_mailboxes, 0)
    ));
    section.heading("Sizing");
    let rows = plan.sizing.rows.iter().map(|row| {
        let cell = |value: Option<f64>| {
            value.map_or("–".to_owned(), |value| number(value, if value < 10.0 { 2 } else { 0 }))
        };
        let name =
            if row.unit.is_empty() { row.label.to_owned() } else { format!("{} ({})", row.label, row.unit) };
        vec![name, cell(row.per_database), cell(row.per_server), cell(row.per_dag), cell(row.per_environment)]
    });
    section.table(&["", "Database", "Server", "Group", "Environment"], rows.collect());
    section
}

/// For whom it is.
pub fn customer(subject: &Subject<'_>) -> Section {
    let plan = subject.plan;
    let mut section = Section::new("Targeted customer profile");
    let mut rows = vec![
        pair("Mailboxes", number(plan.mailboxes as f64, 0)),
        pair("Availability groups", plan.dags.to_string()),
        pair("Servers of a group", plan.servers.len().to_string()),
        pair("Databases of a group", plan.sizing.databases.to_string()),
        pair("Copies of a database", plan.copies.to_string()),
        pair("Mailboxes of a database", significant(plan.sizing.mailboxes_per_database)),
        pair("I/O per second and mailbox", significant(plan.sizing.iops_per_mailbox)),
        pair("The same with headroom", significant(plan.sizing.iops_per_mailbox_with_headroom)),
    ];
    if let Some(profile) = &subject.solution.file.profile {
        rows.push(pair("Messages per day and mailbox", optional(profile.messages_per_day, "")));
        rows.push(pair("Mailbox quota", optional(profile.quota_mb, "MB")));
        rows.push(pair("Headroom", optional(profile.headroom_percent, "%")));
    }
    section.table(&["Profile", "Value"], rows);
    section
}

/// The parts that took part, as tables.
pub fn tested(subject: &Subject<'_>) -> Section {
    let (plan, file) = (subject.plan, &subject.solution.file);
    let mut section = Section::new(subject.title("Tested deployment"));
    let hosts: usize = subject.runs.iter().map(|report| report.hosts.len()).max().unwrap_or(0);
    let databases: usize = subject.runs.iter().map(|report| report.databases.len()).max().unwrap_or(0);
    let sizes: Vec<u64> =
        subject.runs[0].databases.iter().filter_map(|database| database.bytes_after).collect();
    let total: u64 = sizes.iter().sum();
    let capacity: Option<f64> = plan.storage.ratios.as_ref().map(|ratios| ratios.formatted_tib);
    section.heading(subject.title("Exchange configuration"));
    let mut rows = vec![
        pair("Mailboxes", number(plan.mailboxes as f64, 0)),
        pair(&format!("Servers {}", subject.done()), hosts.to_string()),
        pair(&format!("Databases {}", subject.done()), databases.to_string()),
        pair("Copies of a database", plan.copies.to_string()),
        pair("Mailboxes of a database", significant(plan.sizing.mailboxes_per_database)),
        pair(
            "I/O per second and mailbox, headroom included",
            significant(plan.sizing.iops_per_mailbox_with_headroom),
        ),
        pair(&format!("Size of all databases {}", subject.done()), bytes(total as f64)),
    ];
    if let Some(tib) = capacity {
        rows.push(pair("Formatted capacity of the solution", format!("{} TiB", significant(tib))));
    }
    section.table(&["Configuration", "Value"], rows);
    section.heading("Storage hardware");
    let mut rows: Vec<Vec<String>> = file
        .enclosure
        .iter()
        .map(|enclosure| {
            let bays = enclosure.bays.map_or("–".to_owned(), |bays| format!("{bays} bays"));
            vec![enclosure.name.clone(), "enclosure".to_owned(), bays]
        })
        .collect();
    rows.extend(
        file.disk
            .iter()
            .map(|disk| vec![disk.name.clone(), "disk".to_owned(), format!("{} GB", disk.capacity_gb)]),
    );
    section.table(&["Part", "Kind", "Size"], rows);
    section.author(
        "connectivity, model and firmware of the storage, controllers, cache, ports, switches, adapters",
    );
    section.heading("Storage software");
    environment(subject, &mut section);
    for (title, wanted) in [("Disks for databases", "database"), ("Disks for logs", "log")] {
        section.heading(title);
        let uses = plan.storage.volumes.iter().chain(&plan.storage.pools).filter(|one| one.role == wanted);
        let rows: Vec<Vec<String>> = uses
            .map(|one| {
                vec![
                    one.name.clone(),
                    one.count.to_string(),
                    one.disks.to_string(),
                    one.databases.to_string(),
                    optional(one.formatted_gib, "GiB"),
                    optional(one.capacity_share.map(|share| share * 100.0), "%"),
                ]
            })
            .collect();
        if rows.is_empty() {
            section.text("None apart from those above: logs and databases share volumes, or the solution file names none.");
        }
        section.table(
            &["Volume or pool", "How many", "Disks of one", "Databases on one", "Formatted", "Used"],
            rows,
        );
    }
    section.heading("Replication");
    section.text(match plan.copies {
        1 => "Databases are not replicated.".to_owned(),
        copies => format!(
            "Logs are shipped to {} further {}. The servers {} carry the active load of the failure; the reading of logs \
             for the other copies is part of the load.",
            copies - 1,
            if copies == 2 { "copy" } else { "copies" },
            subject.done()
        ),
    });
    section
}

/// Drivers, firmware, queue depths, multipath: as captured on the hosts.
fn environment(subject: &Subject<'_>, section: &mut Section) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for report in subject.runs {
        for row in &report.environment {
            let cells = vec![row.host.clone(), row.area.clone(), row.name.clone(), row.value.clone()];
            if !rows.contains(&cells) {
                rows.push(cells);
            }
        }
    }
    if rows.is_empty() {
        section.text(match subject.simulated {
            true => "The runs are simulated: there is no driver, firmware or multipath to name.",
            false => "The runs captured nothing about their hosts.",
        });
    }
    section.table(&["Host", "Area", "Setting", "Value"], rows);
}
