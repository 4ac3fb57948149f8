//! stdout and files, where data goes.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::output::printable;

/// Data goes to stdout; a reader that has gone away (`| head`) is no failure.
pub fn data(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::could_not_run("cannot write to stdout").because(error))
        }
        _ => Ok(()),
    }
}

/// Text for people on stdout.
pub fn tell(text: &str) -> Result<(), Failure> {
    data(&printable(text))
}

/// A document as JSON on stdout.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::could_not_run("cannot write as JSON").because(error))?;
    data(&format!("{text}\n"))
}

/// Writes a document and says so.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    say!("wrote {}", path.display());
    Ok(())
}
