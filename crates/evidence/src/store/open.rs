//! A `run.db` opened for reading, and what its errors mean.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{APPLICATION_ID, StoreError, VERSION};

/// An error of SQLite in terms of the file at `path`: no run, another version, damaged.
pub fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(error, _) if error.code == rusqlite::ErrorCode::NotADatabase => {
            StoreError::NotARun(path.to_owned())
        }
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => {
            StoreError::Damaged { path: path.to_owned(), what: cause.to_string() }
        }
        source => StoreError::Sqlite { path: path.to_owned(), source },
    }
}

/// Opens the `run.db` of a run read-only, also while the run goes on.
pub fn open(path: &Path) -> Result<Connection, StoreError> {
    let sqlite = |error| explain(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    // A run that goes on has a log. Where nothing lies beside the file it does not change, and unless SQLite is
    // told so it makes a log and an index beside a file whose writer ended without its last step, and leaves
    // them there.
    let is_alone = |file: &PathBuf| ["-wal", "-journal"].iter().all(|ending| beside(file, ending).is_none());
    let db = match path.canonicalize().ok().filter(is_alone) {
        Some(file) => Connection::open_with_flags(unchanging(&file), flags | OpenFlags::SQLITE_OPEN_URI),
        None => Connection::open_with_flags(path, flags),
    };
    let db = db.map_err(sqlite)?;
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(sqlite);
    if pragma("application_id")? != APPLICATION_ID {
        return Err(StoreError::NotARun(path.to_owned()));
    }
    let version = pragma("user_version")?;
    if version != VERSION {
        return Err(StoreError::Version { path: path.to_owned(), version });
    }
    Ok(db)
}

/// The file that SQLite keeps beside `path` with this ending, such as `-wal`; `None` if it is missing or empty.
pub fn beside(path: &Path, ending: &str) -> Option<Metadata> {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    std::fs::metadata(name).ok().filter(|file| file.len() > 0)
}

/// An absolute path as an SQLite URI that tells SQLite to take no locks, for a file that does not change while it is
/// open.
fn unchanging(path: &Path) -> String {
    crate::file_url(path) + "?immutable=1"
}

/// The error for a value that this program never writes.
pub fn damaged(what: &str) -> rusqlite::Error {
    let cause: Box<dyn std::error::Error + Send + Sync> = what.to_owned().into();
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, cause)
}
