//! The parts of the tested deployment, row by row as the published papers list them. What neither the solution file nor
//! the hosts of the runs say is the author's to write.

use evidence::report::{bytes, number, significant};
use plan::Use;
use results::{Environment, Parameter, WorldKind};
use solution::{Behind, Disk, HostSpec, Raid, Role, VolumeInfo};

use super::Subject;
use super::document::AUTHOR;

pub fn pair(name: &str, value: impl Into<String>) -> Vec<String> {
    vec![name.to_owned(), value.into()]
}

pub fn optional(value: Option<f64>, unit: &str) -> String {
    value.map_or("–".to_owned(), |value| format!("{} {unit}", significant(value)).trim_end().to_owned())
}

fn or_author(value: Option<String>) -> String {
    value.unwrap_or_else(|| AUTHOR.to_owned())
}

/// The section about the configuration under test.
pub fn configuration(subject: &Subject<'_>) -> Vec<Vec<String>> {
    let plan = subject.plan;
    let done = subject.done();
    let most = |count: fn(&evidence::Report) -> usize| subject.runs.iter().map(count).max().unwrap_or(0);
    let (hosts, databases) = (most(|run| run.hosts.len()), most(|run| run.databases.len()));
    let total: u64 = subject.runs[0].databases.iter().filter_map(|database| database.bytes_after).sum();
    let volumes: Vec<f64> = uses(subject, "database").filter_map(|one| one.formatted_gib).collect();
    let volumes: Vec<String> = volumes.iter().map(|gib| bytes(gib * f64::from(1u32 << 30))).collect();
    let ratios = plan.storage.ratios.as_ref();
    let maintenance = subject
        .runs
        .iter()
        .flat_map(|run| &run.tests)
        .flat_map(|test| &test.parameters)
        .find(|parameter| parameter.name == Parameter::MAINTENANCE);
    let mut rows = vec![
        pair("Mailboxes", number(plan.mailboxes as f64, 0)),
        pair("Availability groups", plan.dags.to_string()),
        pair("Servers of a group", plan.servers.len().to_string()),
        pair(&format!("Servers {done}"), hosts.to_string()),
        pair(&format!("Active mailboxes of a server, as {done}"), number(plan.targets.target_mailboxes, 0)),
        pair(&format!("Databases of a server, as {done}"), (databases / hosts.max(1)).to_string()),
        pair("Copies of a database", plan.copies.to_string()),
        pair("Mailboxes of a database", significant(plan.sizing.mailboxes_per_database)),
        pair(
            "I/O per second and mailbox, headroom included",
            significant(plan.sizing.iops_per_mailbox_with_headroom),
        ),
        pair("Size of a database volume", or_author((!volumes.is_empty()).then(|| volumes.join(", ")))),
        pair(&format!("Size of all databases {done}"), bytes(total as f64)),
    ];
    if let Some(ratios) = ratios {
        rows.push(pair(
            "Formatted capacity of the part under test",
            format!("{} TiB", significant(ratios.formatted_tib)),
        ));
        let used = total as f64 / (ratios.formatted_tib * (1u64 << 40) as f64);
        rows.push(pair("Capacity used by the databases", format!("{} %", significant(100.0 * used))));
    }
    rows.extend(
        maintenance.map(|parameter| pair("Background database maintenance", parameter.value.clone())),
    );
    rows
}

/// Tables of storage and servers.
pub fn hardware(subject: &Subject<'_>) -> Vec<Vec<String>> {
    let solution = subject.solution;
    let array = solution.array.as_ref();
    let captured = |name: &str| {
        let rows = subject.runs.iter().flat_map(|run| &run.environment);
        rows.filter(|row| row.area == "System").find(|row| row.name == name).map(|row| row.value.clone())
    };
    let stated = solution.hosts.first().and_then(|host| {
        let cores = host.cores.map(|cores| format!("{cores} cores"));
        let memory = host.memory_gib.map(|gib| format!("{} GiB of memory", significant(gib)));
        let parts: Vec<String> = cores.into_iter().chain(memory).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    });
    let server =
        captured("Processor").zip(captured("Memory")).map(|(cpu, memory)| format!("{cpu}, {memory}"));
    let bays: u32 = solution.enclosures.iter().filter_map(|enclosure| enclosure.bays).sum();
    let most_disks = solution.building_block.as_ref().and_then(|growth| growth.max_disks);
    let disks = disks_tested(subject);
    let per_controller = |mib: u64| format!("{mib} MiB for each controller");
    vec![
        pair("Connectivity", or_author(array.map(|array| array.link.clone()))),
        pair("Model and firmware of the storage", AUTHOR),
        pair("Storage cache", or_author(array.and_then(|array| array.cache_mib).map(per_controller))),
        pair("Storage controllers", or_author(array.map(|array| array.controllers.to_string()))),
        pair("Ports of the storage", AUTHOR),
        pair("Links of a server", or_author(array.map(|array| array.links_per_host.to_string()))),
        pair("Largest bandwidth to a server", AUTHOR),
        pair("Switch: type, model, firmware", AUTHOR),
        pair("Adapter: model and firmware", AUTHOR),
        pair("Adapters of a server", AUTHOR),
        pair("Server", or_author(server.or(stated))),
        pair(&format!("Disks {}", subject.done()), or_author((disks > 0).then(|| disks.to_string()))),
        pair(
            "Most disks of the storage",
            or_author(most_disks.or((bays > 0).then_some(bays)).map(|disks| disks.to_string())),
        ),
    ]
}

/// Number of disks of the servers under test that hold databases and logs; of equal pools, as many as the planner says
/// these servers need.
fn disks_tested(subject: &Subject<'_>) -> u64 {
    let solution = subject.solution;
    let holds = |volume: &&VolumeInfo| matches!(volume.role, Role::Database | Role::Log);
    let volumes = solution.hosts.iter().flat_map(|host| &host.volumes).filter(holds);
    let own = volumes.filter(|volume| volume.is_under_test).map(|volume| {
        match solution.volumes[volume.kind].behind {
            Behind::Disks { disks, .. } => u64::from(disks),
            _ => 0,
        }
    });
    let of_pools = subject.plan.storage.pools.iter().map(|used| {
        let pool = &solution.pools[used.entry];
        let is_in_it =
            |volume: &&VolumeInfo| solution.volumes[volume.kind].behind == Behind::Pool(used.entry);
        let sharing = |counts: fn(&&VolumeInfo) -> bool| {
            let shares =
                |host: &&HostSpec| host.volumes.iter().filter(holds).filter(counts).any(|one| is_in_it(&one));
            solution.hosts.iter().filter(shares).count() as u64
        };
        let (all, tested) = (sharing(|_| true), sharing(|volume| volume.is_under_test));
        let pools = (u64::from(used.count) * tested).div_ceil(all.max(1));
        pools * (u64::from(pool.disks) + u64::from(pool.fast.map_or(0, |fast| fast.disks)))
    });
    own.sum::<u64>() + of_pools.sum::<u64>()
}

/// Tables of drivers, queues, paths and versions.
pub fn software(subject: &Subject<'_>) -> Vec<Vec<String>> {
    let simulated = subject.runs[0].run.world == WorldKind::Simulated;
    let rows = || subject.runs.iter().flat_map(|run| &run.environment);
    // Devices are described in words, one fact after another: `driver x, queue depth 32`.
    let of_devices = |word: &str| {
        let mut found: Vec<String> = Vec::new();
        for row in rows().filter(|row| row.name.starts_with("Device ")) {
            for part in row.value.split(", ").filter(|part| part.starts_with(word)) {
                let value = part.trim_start_matches(word).trim().to_owned();
                if !found.contains(&value) {
                    found.push(value);
                }
            }
        }
        (!found.is_empty()).then(|| found.join("; "))
    };
    let system =
        |name: &str| rows().find(|row| row.area == "System" && row.name == name).map(|row| row.value.clone());
    let file_systems = || {
        let mut found: Vec<&str> =
            rows().filter(|row| row.name == Environment::FILE_SYSTEM).map(|row| row.value.as_str()).collect();
        found.dedup();
        (!found.is_empty()).then(|| found.join("; "))
    };
    let known = |value: Option<String>| match value {
        Some(value) => value,
        None if simulated => "none: simulated".to_owned(),
        None => AUTHOR.to_owned(),
    };
    let operating_system =
        system("Distribution").zip(system("Kernel")).map(|(name, kernel)| format!("{name}, {kernel}"));
    let queues = of_devices("requests").map(|requests| format!("{requests} requests"));
    vec![
        pair("Adapter driver", known(of_devices("driver"))),
        pair("Queue depth of the disks", known(of_devices("queue depth"))),
        pair("Queue of the block layer", known(queues)),
        pair(
            "Multipath",
            known(of_devices("multipath").or_else(|| of_devices("driver").map(|_| "none".to_owned()))),
        ),
        pair("Operating system", known(operating_system)),
        pair("File system", known(file_systems())),
        pair("Engine", format!("Proofload {}", subject.runs[0].run.tool_version)),
        pair(
            "Replication software",
            if subject.plan.copies > 1 { "log shipping of the databases" } else { "none" },
        ),
    ]
}

fn uses<'a>(subject: &'a Subject<'_>, role: &'a str) -> impl Iterator<Item = &'a Use> {
    let storage = &subject.plan.storage;
    storage.volumes.iter().chain(&storage.pools).filter(move |one| one.role == role)
}

/// Table of the disks for one purpose: a column for each kind of volume or pool, a row for each property.
pub fn disks(subject: &Subject<'_>, role: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let solution = subject.solution;
    let mut head = vec![String::new()];
    let mut columns: Vec<[String; 10]> = Vec::new();
    let storage = &subject.plan.storage;
    for one in storage.volumes.iter().filter(|one| one.role == role) {
        let (disk, protection) = match solution.volumes[one.entry].behind {
            Behind::Disks { disk, raid, .. } => (Some(&solution.disks[disk]), raid.words().to_owned()),
            Behind::Pool(pool) => (None, format!("part of {}", solution.pools[pool].name)),
            Behind::Unknown => (None, Raid::default().words().to_owned()),
        };
        head.push(one.name.clone());
        columns.push(column(one, disk, protection));
    }
    for one in
        storage.pools.iter().filter(|one| one.role == role || (one.role == "pool" && role == "database"))
    {
        let pool = &solution.pools[one.entry];
        head.push(one.name.clone());
        columns.push(column(one, Some(&solution.disks[pool.disk]), pool.raid.words().to_owned()));
    }
    if columns.is_empty() {
        return (head, Vec::new());
    }
    let names = [
        "Disk",
        "Capacity of a disk",
        "Volumes or pools",
        "Disks of one",
        "Disks in all",
        "Raw capacity in all",
        "Protection",
        "Formatted capacity of one",
        "Databases on one",
        "Used, free space included",
    ];
    let rows = names.iter().enumerate().map(|(n, name)| {
        std::iter::once((*name).to_owned()).chain(columns.iter().map(|column| column[n].clone())).collect()
    });
    (head, rows.collect())
}

fn column(one: &Use, disk: Option<&Disk>, protection: String) -> [String; 10] {
    let kind = |disk: &Disk| match (disk.solid_state, disk.rpm) {
        (true, _) => format!("{}, solid state", disk.name),
        (false, Some(rpm)) => format!("{}, {} rpm", disk.name, number(f64::from(rpm), 0)),
        (false, None) => disk.name.clone(),
    };
    let in_all = one.disks_in_all;
    let raw_tb = disk.filter(|_| in_all > 0).map(|disk| f64::from(in_all) * disk.capacity_gb / 1e3);
    let count = |number: u32| if number == 0 { "–".to_owned() } else { number.to_string() };
    [
        disk.map_or("–".to_owned(), kind),
        optional(disk.map(|disk| disk.capacity_gb), "GB"),
        one.count.to_string(),
        count(one.disks),
        count(in_all),
        optional(raw_tb, "TB"),
        protection,
        optional(one.formatted_gib, "GiB"),
        count(one.databases),
        optional(one.capacity_share.map(|share| share * 100.0), "%"),
    ]
}
