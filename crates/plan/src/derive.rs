//! How many databases a group needs when the file does not say.
//!
//! The calculator's formula comes first. It counts neither logs nor a largest database, so its number is raised to the
//! first one that the planner's own checks of the storage accept.
//!
//! Invariant: if any number from there on holds by these checks, the one that is returned does.

use results::figures::counted;
use solution::{MAX_DATABASES, MAX_MOUNTED, Result, Role};

use crate::bound::bound;
use crate::inputs::Inputs;
use crate::storage::DiskSet;
use crate::{check, formula, layout, sizing, storage};

/// Derived number of databases, with the reason for it.
pub struct Derived {
    /// Number of databases of a group.
    pub databases: u32,
    /// Reason in one sentence.
    pub reason: String,
}

/// Number of databases that the storage requires, limited to what a group can mount.
///
/// # Errors
/// A file that does not describe enough of its storage.
pub fn databases(inputs: &Inputs<'_>) -> Result<Derived> {
    let calculator = even(inputs, by_calculator(inputs)?.databases);
    let least = even(inputs, least(inputs)).max(calculator);
    let formula = format!("the calculator's formula gives {calculator}");
    let misfits = |databases: u32| storage_misfits(inputs, databases);
    let mut first = None;
    let fitting =
        (least..=most(inputs)).filter(|&databases| even(inputs, databases) == databases).find(|&databases| {
            let found = misfits(databases);
            first.get_or_insert((databases, found.first().cloned()));
            found.is_empty()
        });
    Ok(match (fitting, first) {
        (Some(databases), _) if databases == calculator => Derived { databases, reason: formula },
        (Some(databases), _) => {
            let why = misfits(calculator).into_iter().next().map(|why| format!(", with which {why}"));
            Derived { databases, reason: formula + &why.unwrap_or_default() }
        }
        (None, Some((databases, Some(why)))) => {
            Derived { databases, reason: format!("{formula}, and no number holds: {why}") }
        }
        (None, _) => {
            let reason = format!("{formula}, and the servers have room for {} at most", most(inputs));
            Derived { databases: least.min(MAX_DATABASES), reason }
        }
    })
}

/// Sentences about storage or database sizes that do not suffice with this number of databases.
fn storage_misfits(inputs: &Inputs<'_>, databases: u32) -> Vec<String> {
    let sizing = sizing::size(inputs, databases, &bound(inputs, databases));
    let layout = layout::generate(inputs, databases);
    let storage = storage::fit(inputs, &sizing, &layout, 0);
    let copies = layout.most_copies(inputs.servers.len());
    let mounted = (copies > MAX_MOUNTED)
        .then(|| format!("{} lie on a server, {MAX_MOUNTED} can be mounted", counted(copies.into(), "copy")));
    let too_large = check::database_too_large(inputs, &sizing);
    too_large.into_iter().chain(mounted).chain(storage.misfits()).collect()
}

/// Number and size of databases by the calculator's formula, which does not count logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calculated {
    /// Largest database that fits on the first database volume, GB.
    pub database_gb: f64,
    /// Mailboxes per database that the volume's I/O allows.
    pub mailboxes_by_io: f64,
    /// Mailboxes per database that the volume's capacity allows.
    pub mailboxes_by_capacity: f64,
    /// Number of databases of a group.
    pub databases: u32,
}

/// Applies the calculator's formula.
///
/// # Errors
/// A file that does not describe enough of its storage.
pub fn by_calculator(inputs: &Inputs<'_>) -> Result<Calculated> {
    let solution = inputs.solution;
    let missing = |what: &str| {
        let message =
            format!("the number of databases is not given and does not follow from the storage: {what}");
        solution.error("dag", message, Some("add databases to [dag]".into()))
    };
    let Some(volume) = solution.volumes.iter().find(|volume| volume.role == Role::Database) else {
        return Err(missing("no volume for databases is described"));
    };
    let disks = DiskSet::of(solution, volume).ok_or_else(|| missing("the volume has no disks of its own"))?;
    let (users, figures) = (inputs.users, &inputs.figures);
    let iops = disks
        .front_end_iops(figures.read_share)
        .ok_or_else(|| missing("the I/O of its disks is not known"))?;
    let v = f64::from(inputs.databases_per_volume);
    let factor = formula::index_factor(users.content_index_percent(), users.index_merge_percent(), v);
    let most_gb = formula::max_database_gb(disks.formatted_gib, users.free_percent, v, factor);
    let by_io = formula::mailboxes_by_io(iops, figures.iops_with_headroom, v);
    let by_capacity = formula::mailboxes_by_capacity(most_gb, figures.mailbox_mb);
    let databases = formula::databases_needed(inputs.mailboxes_per_dag(), by_io, by_capacity).min(1e6) as u32;
    Ok(Calculated {
        database_gb: most_gb,
        mailboxes_by_io: by_io,
        mailboxes_by_capacity: by_capacity,
        databases,
    })
}

/// Least number of databases with which none is too large, and every database volume has the space (with logs) and the
/// I/O.
fn least(inputs: &Inputs<'_>) -> u32 {
    let (users, figures) = (inputs.users, &inputs.figures);
    let v = f64::from(inputs.databases_per_volume);
    let factor = formula::index_factor(users.content_index_percent(), users.index_merge_percent(), v);
    // Space of one mailbox: databases and logs grow with their mailboxes.
    let database_gb = formula::database_gb(1.0, figures.mailbox_mb, users.data_overhead_percent());
    let moves = formula::move_logs_per_day(1.0, figures.mailbox_mb, users.moves_percent_per_week);
    let log_gb = match inputs.has_log_volumes() {
        true => 0.0,
        false => formula::log_gb(figures.log_days, figures.logs_per_day, moves),
    };
    let on_volume = formula::with_free_space(database_gb * factor + log_gb, users.free_percent);
    let mut mailboxes = inputs.largest_database_gb() / database_gb;
    for volume in inputs.solution.volumes.iter().filter(|volume| volume.role == Role::Database) {
        if let Some(gib) = volume.capacity_gib {
            mailboxes = mailboxes.min(gib / v / on_volume);
        }
        let disks = DiskSet::of(inputs.solution, volume);
        if let Some(iops) = disks.and_then(|disks| disks.front_end_iops(figures.read_share)) {
            mailboxes = mailboxes.min(iops / v / figures.iops_with_headroom);
        }
    }
    // Bits that arithmetic leaves are no database of their own; the checks have the last word.
    (inputs.mailboxes_per_dag() / mailboxes * (1.0 - 1e-12)).ceil().clamp(1.0, 1e6) as u32
}

/// Largest number of databases for which the servers and their database volumes have room, at least 1.
fn most(inputs: &Inputs<'_>) -> u32 {
    let room = |host: usize| {
        let volumes = inputs.solution.volumes.iter().filter(|volume| volume.role == Role::Database);
        let here = volumes.filter(|volume| volume.hosts.contains(&host));
        let count = here.map(|volume| volume.count).fold(0, u32::saturating_add);
        count.saturating_mul(inputs.databases_per_volume).min(MAX_MOUNTED)
    };
    let copies: u32 = (0..inputs.servers.len()).map(room).sum();
    (copies / inputs.copies()).clamp(1, MAX_DATABASES)
}

/// Rounds a number of databases up to one that spreads evenly, if the file asks for it.
fn even(inputs: &Inputs<'_>, databases: u32) -> u32 {
    if !inputs.solution.dag.symmetric {
        return databases;
    }
    let sites = inputs.active_sites().count() as u32;
    let largest =
        inputs.active_sites().map(|site| inputs.sites[site].servers.len() as u32).max().unwrap_or(1);
    formula::even_databases(databases, largest, sites)
}
