//! What was built: the solution, its failures, its customers, its parts.

use evidence::report::{counted, number, significant};

use super::document::{Block, Section};
use super::parts::{self, optional, pair};
use super::{Subject, picture};

/// The section about the solution: servers, copies, failures, sizing.
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
        "{} on {}; each column is a server, the darkest copy is the first to be active.",
        counted(plan.layout.databases.len() as u64, "database"),
        counted(plan.servers.len() as u64, "server")
    );
    section.blocks.push(Block::Picture(picture::layout(plan), words));
    failures(subject, &mut section);
    sizing(plan, &mut section);
    section
}

/// A table of the failures: what each leaves, and which one the tests are for.
fn failures(subject: &Subject<'_>, section: &mut Section) {
    let plan = subject.plan;
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
    let targets = &plan.targets;
    let failure = match !subject.solution.failed.is_empty() {
        true => format!("the failure of {}", targets.target_case),
        false => format!("the worst failure that no database is lost to ({} lost)", targets.target_case),
    };
    section.text(format!(
        "The tests are for {failure}: {} I/O per second and server for {}.",
        significant(targets.target_iops),
        counted(targets.target_mailboxes.round() as u64, "mailbox")
    ));
}

fn sizing(plan: &plan::Plan, section: &mut Section) {
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
}

/// The section about the customer profile that the solution is for.
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
    if let Ok(users) = subject.solution.users() {
        rows.push(pair("Messages per day and mailbox", optional(users.messages_per_day, "")));
        rows.push(pair("Mailbox quota", optional(users.quota_mb, "MB")));
        rows.push(pair("Headroom", optional(Some(users.headroom_percent), "%")));
    }
    section.table(&["Profile", "Value"], rows);
    section
}

/// Tables of the hardware that took part in the tests.
pub fn tested(subject: &Subject<'_>) -> Section {
    let plan = subject.plan;
    let mut section = Section::new(subject.title("Tested deployment"));
    section.heading(subject.title("Exchange configuration"));
    section.table(&["Configuration", "Value"], parts::configuration(subject));
    section.heading("Storage hardware");
    section.table(&["Storage hardware", "Value"], parts::hardware(subject));
    section.heading("Storage software");
    section.table(&["Storage software", "Value"], parts::software(subject));
    environment(subject, &mut section);
    for (title, role) in
        [("Disks for databases", "database"), ("Disks for logs", "log"), ("Disks for backup", "backup")]
    {
        section.heading(title);
        let (head, rows) = parts::disks(subject, role);
        if rows.is_empty() {
            section.text(match role {
                "log" => "The solution file names none: logs share the volumes of their databases.",
                "backup" => "The solution file names none.",
                _ => "The solution file describes none.",
            });
        }
        section.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows);
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

/// Tables of drivers, firmware, queue depths and multipath, as captured on the hosts.
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
    if subject.simulated {
        section.text("The runs are simulated: there is no driver, firmware or multipath to name.");
    } else if rows.is_empty() {
        section.text("The runs captured nothing about their hosts.");
    }
    section.table(&["Host", "Area", "Setting", "Value"], rows);
}
