//! Where the exported files put things on a Windows server.

use crate::Plan;
use crate::layout::DatabasePlace;

/// Folder that all volumes are mounted below.
pub const VOLUMES: &str = r"C:\ExchangeVolumes";
/// Folder that the databases are mounted below.
pub const DATABASES: &str = r"C:\ExchangeDatabases";
/// Name of the exported group. A solution file does not name its group.
pub const GROUP: &str = "DAG1";

/// Folder of each database below [`DATABASES`]: its name, with `_` for characters that Windows forbids. A name with
/// such a character, or that Windows would change, also gets the database's number.
pub fn folders(plan: &Plan) -> Vec<String> {
    let of = |(database, n): (&DatabasePlace, u32)| {
        let refused = |c: char| c.is_control() || r#"<>:"/\|?*"#.contains(c);
        let name: String = database.name.chars().map(|c| if refused(c) { '_' } else { c }).collect();
        let is_changed = name != database.name || name.is_empty() || name.ends_with(['.', ' ']);
        if is_changed { format!("{name}-{n}") } else { name }
    };
    plan.layout.databases.iter().zip(1..).map(of).collect()
}

/// Path of a database file in a folder.
pub fn edb_file(folder: &str) -> String {
    format!(r"{DATABASES}\{folder}\{folder}.db\{folder}.edb")
}

/// Path of the folder of the logs.
pub fn log_folder(folder: &str) -> String {
    format!(r"{DATABASES}\{folder}\{folder}.log")
}

/// Databases with a copy on a server, by number of the volume and then in the order of the plan, as index of the
/// database.
pub fn copies_on(plan: &Plan, server: usize) -> Vec<(u16, usize)> {
    let databases = plan.layout.databases.iter().enumerate();
    let here = databases.flat_map(|(index, database)| {
        let copies = database.copies.iter().filter(move |copy| usize::from(copy.server) == server);
        copies.map(move |copy| (copy.volume, index))
    });
    let mut copies: Vec<(u16, usize)> = here.collect();
    copies.sort_unstable();
    copies
}

/// Replay lag of a copy as `days.hours:minutes:seconds`.
pub fn time_span(days: f64) -> String {
    let seconds = (days * 86_400.0).round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60);
    format!("{}.{:02}:{:02}:{:02}", hours / 24, hours % 24, minutes % 60, seconds % 60)
}

/// Whether the copy with this preference, from 0, is lagged.
pub fn is_lagged(plan: &Plan, database: &DatabasePlace, preference: usize) -> bool {
    preference + plan.layout.lagged as usize >= database.copies.len()
}
