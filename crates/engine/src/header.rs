//! The header of a database file, read and written.
//!
//! Invariant: header and shadow are written one after the other with a sync between: a torn write leaves one of them.

use edb::header::{DatabaseHeader, DatabaseState, HeaderDamage};
use results::IoClass;
use smallvec::smallvec;
use world::{OpenMode, PageBuf, World};

use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};

/// Whether the database at `path` was closed. An open one needs recovery, and until then its file says nothing for
/// certain.
///
/// # Errors
/// If header and shadow cannot be read or are both damaged.
pub async fn is_closed(world: &World, path: &str, page_bytes: usize, counters: &Counters) -> Result<bool> {
    let file = IoFile::open(world, path, OpenMode::Read, counters).await?;
    let (header, _) = read(&file, page_bytes).await?;
    Ok(header.state() != DatabaseState::Dirty)
}

/// Reads the header, or the shadow if the header is damaged; returns which copy it was (0 or 1).
pub(crate) async fn read(file: &IoFile, page_bytes: usize) -> Result<(DatabaseHeader, u64)> {
    let mut reasons = Vec::new();
    for copy in 0..2 {
        let page = file.read_one(IoClass::HousekeepingRead, copy * page_bytes as u64, page_bytes).await?;
        match DatabaseHeader::parse(page.as_slice()) {
            Ok(header) if header.page_bytes() == page_bytes => return Ok((header, copy)),
            Ok(header) => {
                let (path, found) = (file.path(), header.page_bytes());
                return Err(Error::Refused(format!("{path} has pages of {found} bytes, not {page_bytes}")));
            }
            // Intact, and of another program: no damage, and the shadow says no more.
            Err(format @ HeaderDamage::Format { .. }) => {
                return Err(Error::Refused(format!("{}: {format}", file.path())));
            }
            Err(damage) => reasons.push(damage.to_string()),
        }
    }
    Err(Error::DamagedFile { path: file.path().to_owned(), reason: reasons.join("; shadow: ") })
}

/// Writes header and shadow, durably.
pub(crate) async fn write(header: &mut DatabaseHeader, file: &IoFile, class: IoClass) -> Result<()> {
    let page_bytes = header.page_bytes() as u64;
    let (first, shadow) = (PageBuf::copy_of(header.stamped()), PageBuf::copy_of(header.stamped()));
    if planted!(HeaderCopiesTogether) {
        file.write(class, 0, smallvec![first]).await?;
        return file.write_durable(class, page_bytes, smallvec![shadow]).await;
    }
    if planted!(HeaderNotSynced) {
        file.write(class, 0, smallvec![first]).await?;
        return file.write(class, page_bytes, smallvec![shadow]).await;
    }
    file.write_durable(class, 0, smallvec![first]).await?;
    // Without a sync behind the shadow it would be under way together with the next header.
    file.write_durable(class, page_bytes, smallvec![shadow]).await
}
