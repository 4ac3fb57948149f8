//! `proofload clean`: removes what runs of a solution have made on this host; evidence stays.

use std::path::Path;

use evidence::folder;
use evidence::report::counted;
use review::answers::{Cleaned, CleanedFolder};

use crate::failure::{Failure, Status};
use crate::inputs::SolutionArguments;
use crate::stdout::json;

/// Removes the databases, logs and backups that `run` made; evidence stays.
#[derive(clap::Args)]
pub struct CleanArguments {
    #[command(flatten)]
    solution: SolutionArguments,
    /// Name of this machine in the solution file; needed when the file describes several hosts.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Say what would be removed, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print what was removed, and what was left alone, as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command: removes what the markers of this deployment's folders list, then the folders.
pub fn run(arguments: &CleanArguments) -> Result<Status, Failure> {
    let solution = arguments.solution.read_to_run()?;
    let deployment = solution.deployment(arguments.host.as_deref())?;
    let dirs: Vec<&Path> = deployment.volumes.iter().map(|volume| Path::new(&volume.dir)).collect();
    if !dirs.iter().any(|dir| dir.exists()) {
        let looked: Vec<String> = dirs.iter().map(|dir| absolute(dir)).collect();
        let message = format!("nothing of {} is here; looked for {}", deployment.solution, looked.join(", "));
        return Err(Failure::wrong_input(message).help(
            "relative paths of a solution file count from the current folder: change to the one of the run",
        ));
    }
    let mut folders = Vec::new();
    for dir in dirs {
        let cleaned = folder::clean(dir, arguments.dry_run)?;
        let verb = if arguments.dry_run { "would remove" } else { "removed" };
        say!("{}: {verb} {}", dir.display(), counted(cleaned.files.len() as u64, "file"));
        for kept in &cleaned.kept {
            say!("  left alone, not made by proofload: {}", kept.display());
        }
        folders.push(CleanedFolder { folder: dir.to_owned(), removed: cleaned.files, kept: cleaned.kept });
    }
    if arguments.json {
        json(&Cleaned { schema_version: 1, dry_run: arguments.dry_run, folders })?;
    }
    Ok(Status::Pass)
}

fn absolute(dir: &Path) -> String {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).display().to_string()
}
