//! `proofload clean`: removes what runs of a solution have made on this host; evidence stays.

use std::path::{Path, PathBuf};

use evidence::folder;
use evidence::report::counted;

use crate::failure::{Failure, Status};
use crate::inputs;

/// Removes the databases, logs and backups that `run` made for a solution; evidence stays.
#[derive(clap::Args)]
pub struct CleanArguments {
    /// The solution file.
    #[arg(value_name = "SOLUTION.toml")]
    solution: PathBuf,
    /// The host of the solution file that this machine is; needed when it describes several.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Say what would be removed, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command: removes what the markers of this deployment's folders list, then the folders.
pub fn run(arguments: &CleanArguments) -> Result<Status, Failure> {
    let solution = inputs::solution(&arguments.solution)?;
    let deployment = solution.deployment(arguments.host.as_deref())?;
    let dirs: Vec<&Path> = deployment.volumes.iter().map(|volume| Path::new(&volume.dir)).collect();
    if !dirs.iter().any(|dir| dir.exists()) {
        let looked: Vec<String> = dirs.iter().map(|dir| absolute(dir)).collect();
        let message = format!("nothing of {} is here; looked for {}", deployment.solution, looked.join(", "));
        return Err(Failure::wrong_input(message).help(
            "relative paths of a solution file count from the current folder: change to the one of the run",
        ));
    }
    for dir in dirs {
        let cleaned = folder::clean(dir, arguments.dry_run)?;
        let verb = if arguments.dry_run { "would remove" } else { "removed" };
        say!("{}: {verb} {}", dir.display(), counted(cleaned.files.len() as u64, "file"));
        for kept in &cleaned.kept {
            say!("  left alone, not made by proofload: {}", kept.display());
        }
    }
    Ok(Status::Pass)
}

fn absolute(dir: &Path) -> String {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).display().to_string()
}
