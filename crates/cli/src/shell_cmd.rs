//! `proofload completions` and `proofload man`: what shells and manuals know of the command line, made from its
//! definition.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::{Failure, Status};
use crate::stdout::{data, write_new};

/// Prints the completions for a shell on stdout.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Writes the manual pages into a folder: proofload.1 and a page for each command.
#[derive(clap::Args)]
pub struct ManArguments {
    /// The folder, which is made if it is missing. Files that exist stay as they are.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs `completions` for this command line.
pub fn completions(arguments: &CompletionsArguments, mut program: Command) -> Result<Status, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "proofload", &mut text);
    data(&String::from_utf8_lossy(&text)).map(|()| Status::Pass)
}

/// Runs `man` for this command line.
pub fn man(arguments: &ManArguments, mut program: Command) -> Result<Status, Failure> {
    let folder = &arguments.folder;
    // The pages are those of a version, independent of its sources.
    program = program.version(env!("CARGO_PKG_VERSION"));
    program.build();
    let mut pages = Vec::new();
    gather(program, "proofload", &mut pages);
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::could_not_run(format!("cannot make {}", folder.display())).because(error)
    })?;
    for (name, command) in pages {
        let mut page = Vec::new();
        Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::could_not_run("no manual").because(error))?;
        write_new(&folder.join(format!("{name}.1")), &page)?;
    }
    Ok(Status::Pass)
}

/// Writes a manual page for the command and each below it, named by the path to it: `proofload-fleet-run`.
fn gather(command: Command, name: &str, pages: &mut Vec<(String, Command)>) {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in below.cloned().collect::<Vec<_>>() {
        let name = format!("{name}-{}", sub.get_name());
        gather(sub, &name, pages);
    }
    pages.push((name.to_owned(), command.name(name.to_owned()).disable_help_subcommand(true)));
}
