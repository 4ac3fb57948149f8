//! stdout and files, where data goes.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::output::printable;

/// Writes data to stdout; a reader that has gone away (`| head`) is no failure.
pub fn data(text: &str) -> Result<(), Failure> {
    crate::output::clear();
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::could_not_run("cannot write to stdout").because(error))
        }
        _ => Ok(()),
    }
}

/// Writes text for people to stdout.
pub fn tell(text: &str) -> Result<(), Failure> {
    data(&printable(text))
}

/// Writes a JSON document to stdout.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::could_not_run("cannot write as JSON").because(error))?;
    data(&format!("{text}\n"))
}

/// Creates a file that must not exist yet.
pub fn create_new(path: &Path) -> Result<File, Failure> {
    File::options().write(true).create_new(true).open(path).map_err(|error| {
        let message = format!("cannot create {}", path.display());
        match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::wrong_input(message).because(error).help("name a file that does not exist yet")
            }
            _ => Failure::could_not_run(message).because(error),
        }
    })
}

/// Writes a document into a file that must not exist yet, and says so.
pub fn write_new(path: &Path, text: &[u8]) -> Result<(), Failure> {
    create_new(path)?
        .write_all(text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    say!("wrote {}", path.display());
    Ok(())
}

/// Writes a document into a file, replacing it, and says so.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    say!("wrote {}", path.display());
    Ok(())
}
