//! How many databases a group needs when the file does not say.
//!
//! The calculator's formula comes first. It counts neither logs nor a largest database, so its number is raised to the
//! first one that the planner's own checks of the storage accept.
//!
//! Invariant: if any number from there on holds by these checks, the one that is returned does.

use solution::{Result, Role};

use crate::bound::bound;
use crate::inputs::{Inputs, MAX_DATABASES, MAX_MOUNTED, ServerInput};
use crate::{check, formula, inputs, layout, sizing, storage};

/// A number of databases, and why it is that number.
pub struct Derived {
    /// Databases of a group.
    pub databases: u32,
    /// One sentence.
    pub reason: String,
}

/// The number of databases that the storage asks for.
pub fn databases(inputs: &Inputs<'_>) -> Result<Derived> {
    let calculator = even(inputs, by_calculator(inputs)?);
    let formula = format!("the calculator's formula gives {calculator}");
    let misfits = |databases: u32| storage_misfits(inputs, databases);
    let mut first = None;
    let fitting = (even(inputs, least(inputs)?).max(calculator)..=most(inputs))
        .filter(|&databases| even(inputs, databases) == databases)
        .find(|&databases| {
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
            let databases = even(inputs, least(inputs)?).max(calculator);
            let most = most(inputs);
            Derived { databases, reason: format!("{formula}, and the servers have room for {most} at most") }
        }
    })
}

/// Sentences about what the storage and the size of a database miss with so many databases.
fn storage_misfits(inputs: &Inputs<'_>, databases: u32) -> Vec<String> {
    let separate_logs = inputs::has_role(inputs.solution, Role::Log);
    let sizing = sizing::size(inputs, databases, &bound(inputs, databases), separate_logs);
    let fit = layout::generate(inputs, databases).and_then(|layout| {
        let storage = storage::fit(inputs, &sizing, &layout, 0)?;
        let copies = layout.most_copies(inputs.servers.len());
        let mounted = (copies > MAX_MOUNTED)
            .then(|| format!("{copies} copies lie on a server, {MAX_MOUNTED} can be mounted"));
        Ok(mounted.into_iter().chain(storage.misfits()).collect::<Vec<_>>())
    });
    let misfits = match fit {
        Ok(misfits) => misfits,
        Err(error) => vec![error.message.clone()],
    };
    check::database_too_large(inputs, &sizing).into_iter().chain(misfits).collect()
}

/// The number by the calculator's formula, which does not count logs.
fn by_calculator(inputs: &Inputs<'_>) -> Result<u32> {
    let solution = inputs.solution;
    let missing = |what: &str| {
        let message =
            format!("the number of databases is not given and does not follow from the storage: {what}");
        solution.error("dag", message, Some("add databases to [dag]".into()))
    };
    let Some(entry) = solution.file.volume.iter().position(|volume| volume.role == Role::Database) else {
        return Err(missing("no volume for databases is described"));
    };
    let disks = storage::volume_disks(solution, entry)?
        .ok_or_else(|| missing("the volume has no disks of its own"))?;
    let profile = &inputs.profile;
    let iops = disks
        .front_end_iops(profile.read_share)
        .ok_or_else(|| missing("the I/O of its disks is not known"))?;
    let v = f64::from(inputs.databases_per_volume);
    let factor = formula::index_factor(profile.index_percent, profile.merge_percent, v);
    let most_gb = formula::max_database_gb(disks.formatted_gib, profile.free_percent, v, factor);
    let by_io = formula::mailboxes_by_io(iops, profile.iops_with_headroom, v);
    let by_capacity = formula::mailboxes_by_capacity(most_gb, profile.mailbox_mb);
    Ok(formula::databases_needed(inputs.mailboxes_per_dag(), by_io, by_capacity).min(1e6) as u32)
}

/// The least number with which no database is too large and every database volume has the space, logs included, and the
/// I/O.
fn least(inputs: &Inputs<'_>) -> Result<u32> {
    let solution = inputs.solution;
    let profile = &inputs.profile;
    let v = f64::from(inputs.databases_per_volume);
    let factor = formula::index_factor(profile.index_percent, profile.merge_percent, v);
    // Space of one mailbox: databases and logs grow with their mailboxes.
    let database_gb = formula::database_gb(1.0, profile.mailbox_mb, profile.overhead_percent);
    let moves = formula::move_logs_per_day(1.0, profile.mailbox_mb, profile.moves_percent);
    let log_gb = match inputs::has_role(solution, Role::Log) {
        true => 0.0,
        false => formula::log_gb(profile.log_days, profile.logs_per_day, moves),
    };
    let on_volume = formula::with_free_space(database_gb * factor + log_gb, profile.free_percent);
    let mut mailboxes = inputs.largest_database_gb() / database_gb;
    for (entry, volume) in solution.file.volume.iter().enumerate() {
        if volume.role != Role::Database {
            continue;
        }
        let disks = storage::volume_disks(solution, entry)?;
        if let Some(gib) = disks.map(|disks| disks.formatted_gib).or(volume.capacity_gib) {
            mailboxes = mailboxes.min(gib / v / on_volume);
        }
        if let Some(iops) = disks.and_then(|disks| disks.front_end_iops(profile.read_share)) {
            mailboxes = mailboxes.min(iops / v / profile.iops_with_headroom);
        }
    }
    // Bits that arithmetic leaves are no database of their own; the checks have the last word.
    Ok((inputs.mailboxes_per_dag() / mailboxes * (1.0 - 1e-12)).ceil().clamp(1.0, 1e6) as u32)
}

/// The largest number for which the servers and their database volumes have room, at least 1.
fn most(inputs: &Inputs<'_>) -> u32 {
    let volumes = &inputs.solution.file.volume;
    let room = |server: &ServerInput| {
        let here = volumes.iter().filter(|volume| volume.role == Role::Database);
        let here = here.filter(|volume| storage::lies_on(volume, &server.name));
        let count = here.map(|volume| volume.count.unwrap_or(1)).fold(0, u32::saturating_add);
        count.saturating_mul(inputs.databases_per_volume).min(MAX_MOUNTED)
    };
    let copies: u32 = inputs.servers.iter().map(room).sum();
    (copies / inputs.copies()).clamp(1, MAX_DATABASES)
}

/// The number rounded up to one that spreads evenly, where the file asks for it.
fn even(inputs: &Inputs<'_>, databases: u32) -> u32 {
    if !inputs.symmetric {
        return databases;
    }
    let sites = inputs.active_sites().count() as u32;
    let largest =
        inputs.active_sites().map(|site| inputs.sites[site].servers.len() as u32).max().unwrap_or(1);
    formula::even_databases(databases, largest, sites)
}
