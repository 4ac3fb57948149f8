//! stdout, where data goes.

use std::io::Write;

use crate::failure::Failure;

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

/// Text in which names and notes from evidence cannot move the cursor, recolour the terminal or set its title.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Writes a document and says so.
pub fn write_file(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::could_not_run(format!("cannot write {}", path.display())).because(error))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
