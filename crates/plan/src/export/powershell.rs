//! Scripts that build the group: mount points, databases, copies, and the group's settings.
//!
//! Invariant: a name from the solution file stands in a script only inside single quotes, where PowerShell expands
//! nothing; never in a comment.

use std::fmt::Write;

use solution::Solution;

use super::calculator::quotas;
use super::limits::active_limits;
use super::place::{
    DATABASES, GROUP, VOLUMES, copies_on, edb_file, folders, is_lagged, log_folder, time_span,
};
use crate::Plan;

/// PowerShell string literal. Typographic apostrophes end such strings, too, and are doubled.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        if matches!(c, '\'' | '\u{2018}'..='\u{201b}') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('\'');
    out
}

const STOP: &str = "$ErrorActionPreference = 'Stop'\n";

/// Script `Databases.ps1`, which creates the databases.
pub fn databases(solution: &Solution, plan: &Plan) -> solution::Result<String> {
    let users = solution.users()?;
    let mut script = String::from(
        "# Creates and mounts each database on the server of its first copy. For the Exchange Management Shell.\n\
         # Circular logging stays off: it must be off until the second copies exist.\n",
    );
    script += STOP;
    let [both, send, warning] = quotas(users.quota_mb).map(|quota| quoted(&quota.replace(' ', "")));
    for (database, folder) in plan.layout.databases.iter().zip(folders(plan)) {
        let name = quoted(&database.name);
        let server = quoted(&plan.servers[usize::from(database.copies[0].server)].name);
        let (file, logs) = (quoted(&edb_file(&folder)), quoted(&log_folder(&folder)));
        let retention = time_span(users.deleted_item_days);
        write!(
            script,
            "New-MailboxDatabase -Name {name} -Server {server} -EdbFilePath {file} -LogFolderPath {logs}\n\
             Set-MailboxDatabase -Identity {name} -DeletedItemRetention '{retention}' -IssueWarningQuota {warning} \
             -ProhibitSendQuota {send} -ProhibitSendReceiveQuota {both}\n\
             Mount-Database -Identity {name}\n"
        )
        .expect("a string takes it");
    }
    Ok(script)
}

/// Script `Copies.ps1`, which adds the copies.
pub fn copies(solution: &Solution, plan: &Plan) -> String {
    let mut script = String::from(
        "# Adds every further copy, in the order of activation preference, and does not seed it.\n\
         # For the Exchange Management Shell, after Databases.ps1.\n",
    );
    script += STOP;
    for database in &plan.layout.databases {
        for (preference, copy) in database.copies.iter().enumerate().skip(1) {
            let (name, server) =
                (quoted(&database.name), quoted(&plan.servers[usize::from(copy.server)].name));
            let lag = match is_lagged(plan, database, preference) {
                true => format!(" -ReplayLagTime '{}'", time_span(solution.copies.lag_days)),
                false => String::new(),
            };
            let preference = preference + 1;
            writeln!(
                script,
                "Add-MailboxDatabaseCopy -Identity {name} -MailboxServer {server} \
                 -ActivationPreference {preference}{lag} -SeedingPostponed"
            )
            .expect("a string takes it");
        }
    }
    script
}

/// Script `Group.ps1`, which creates the group and sets the limits of active databases.
pub fn group(solution: &Solution, plan: &Plan) -> String {
    let mut script = format!(
        "# Makes the group, adds its members and sets how many databases may be active on each.\n\
         # For the Exchange Management Shell.\n\
         param(\n    [Parameter(Mandatory = $true)][string]$WitnessServer,\n    \
         [Parameter(Mandatory = $true)][string]$WitnessDirectory,\n    [string]$Name = {}\n)\n{STOP}\
         New-DatabaseAvailabilityGroup -Name $Name -WitnessServer $WitnessServer \
         -WitnessDirectory $WitnessDirectory \
         -DatabaseAvailabilityGroupIpAddresses ([System.Net.IPAddress]::None)\n",
        quoted(GROUP)
    );
    for (server, limits) in plan.servers.iter().zip(active_limits(solution, plan)) {
        let server = quoted(&server.name);
        write!(
            script,
            "Add-DatabaseAvailabilityGroupServer -Identity $Name -MailboxServer {server}\n\
             Set-MailboxServer -Identity {server} -MaximumActiveDatabases {} \
             -MaximumPreferredActiveDatabases {}\n",
            limits.maximum, limits.preferred
        )
        .expect("a string takes it");
    }
    writeln!(
        script,
        "Set-DatabaseAvailabilityGroup -Identity $Name -DatacenterActivationMode DagOnly \
         -AutoDagVolumesRootFolderPath {} -AutoDagDatabasesRootFolderPath {} -AutoDagDatabaseCopiesPerVolume {} \
         -ReplayLagManagerEnabled $true",
        quoted(VOLUMES),
        quoted(DATABASES),
        solution.dag.databases_per_volume
    )
    .expect("a string takes it");
    script
}

/// Script `MountPoints.ps1`, which formats and mounts the volumes of a server.
pub fn mount_points(plan: &Plan) -> String {
    let folders = folders(plan);
    let mut script = format!(
        "# Formats the volumes of one server and mounts them for its databases. Run it on that server.\n\
         # Volume n is the disk with the number FirstDisk + n - 1. A disk that is not empty is refused before any is\n\
         # changed. -WhatIf shows what would be done.\n\
         [CmdletBinding(SupportsShouldProcess = $true, ConfirmImpact = 'High')]\n\
         param(\n    [Parameter(Mandatory = $true)][int]$FirstDisk,\n    \
         [string]$Server = $env:COMPUTERNAME\n)\n{STOP}\
         $volumesRoot = {}\n$databasesRoot = {}\n$map = @(\n",
        quoted(VOLUMES),
        quoted(DATABASES)
    );
    for (index, server) in plan.servers.iter().enumerate() {
        let copies = copies_on(plan, index);
        for volume in copies.chunk_by(|a, b| a.0 == b.0) {
            let of_volume: Vec<String> =
                volume.iter().map(|&(_, database)| quoted(&folders[database])).collect();
            writeln!(
                script,
                "    @{{ Server = {}; Volume = {}; Folders = @({}) }}",
                quoted(&server.name),
                volume[0].0,
                of_volume.join(", ")
            )
            .expect("a string takes it");
        }
    }
    script + ")\n" + include_str!("MountPoints.ps1")
}
