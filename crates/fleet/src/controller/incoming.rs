//! Evidence that comes in: a file grows chunk by chunk under another name, and gets its own once it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crate::files::describe_file;
use crate::message::{CHUNK_BYTES, Chunk};

/// Effect of a chunk on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None: the chunk asks for the length of the file, or belongs to another place in it.
    None,
    /// The bytes of the chunk were added.
    Added,
    /// All bytes have arrived and differ from what the host announced: the file was emptied.
    Spoiled,
}

/// Adds the bytes of a chunk at the end of the file. Returns the new end.
pub(super) fn keep(folder: &Path, head: &Chunk, bytes: &[u8]) -> io::Result<(u64, Change)> {
    let whole = folder.join(&head.file.name);
    if whole.is_file() {
        return Ok((head.file.bytes, Change::None));
    }
    fs::create_dir_all(folder)?;
    let part = folder.join(format!("{}.part", head.file.name));
    let mut file = OpenOptions::new().create(true).append(true).open(&part)?;
    let (mut kept, mut change) = (file.seek(SeekFrom::End(0))?, Change::None);
    if head.offset == kept && bytes.len() <= CHUNK_BYTES && kept + bytes.len() as u64 <= head.file.bytes {
        file.write_all(bytes)?;
        kept += bytes.len() as u64;
        change = if bytes.is_empty() { Change::None } else { Change::Added };
    }
    if kept < head.file.bytes {
        return Ok((kept, change));
    }
    file.sync_all()?;
    if describe_file(&part, head.file.name.clone())? != head.file {
        // Something was lost or changed on the way, or before it: from the start again.
        file.set_len(0)?;
        return Ok((0, Change::Spoiled));
    }
    fs::rename(&part, &whole)?;
    File::open(folder)?.sync_all()?;
    Ok((kept, change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::PROTOCOL;

    #[test]
    fn a_file_is_whole_only_if_its_contents_are_as_announced() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::write(&source, "0123456789").unwrap();
        let file = describe_file(&source, "run.db".into()).unwrap();
        let target = folder.path().join("hosts");
        let chunk = |offset| Chunk {
            protocol: PROTOCOL,
            host: "a".into(),
            run: "r".into(),
            file: file.clone(),
            offset,
        };
        let keep = |offset, bytes: &[u8]| keep(&target, &chunk(offset), bytes).unwrap();
        assert_eq!(keep(u64::MAX, b""), (0, Change::None));
        assert_eq!(keep(0, b"01234"), (5, Change::Added));
        assert_eq!(keep(0, b"01234"), (5, Change::None), "a repeated chunk changes nothing");
        assert_eq!(keep(7, b"789"), (5, Change::None), "nor does one from the future");
        assert_eq!(keep(5, b"56780 and more"), (5, Change::None), "nor one beyond the end");
        assert_eq!(keep(5, b"5678X"), (0, Change::Spoiled), "a changed byte: from the start again");
        assert!(!target.join("run.db").exists());
        assert_eq!(keep(0, b"0123456789"), (10, Change::Added));
        assert_eq!(fs::read(target.join("run.db")).unwrap(), b"0123456789");
        assert_eq!(keep(u64::MAX, b""), (10, Change::None));
    }
}
