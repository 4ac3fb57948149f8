//! The checkpoint file: where in the log redo begins. One sector, written twice.
//!
//! Like the log, this layout comes from the source of the genuine engine and was never compared with a genuine file.
//!
//! Invariants
//! 1. Both copies are the same bytes; `Checkpoint::read` takes the first that is intact, so a torn write leaves one.
//!
//! Limits: attachments, backup positions and engine parameters stay empty.

use crate::bytes::{get_u32, put_u32};
use crate::checksum;
use crate::identity::{LogPosition, Signature};

/// Size of one copy of the checkpoint, bytes; the second follows the first.
pub const CHECKPOINT_BYTES: usize = 4096;

const AT_POSITION: usize = 12;
const AT_SIGNATURE: usize = 20;
const AT_FILE_TYPE: usize = 667;
const FILE_TYPE_CHECKPOINT: u32 = 4;

/// Contents of a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Log position at which redo begins.
    pub position: LogPosition,
    /// Signature of the log stream.
    pub signature: Signature,
}

impl Checkpoint {
    /// Encodes one copy, with its checksum.
    pub fn encode(&self) -> [u8; CHECKPOINT_BYTES] {
        let mut bytes = [0; CHECKPOINT_BYTES];
        bytes[AT_POSITION..AT_POSITION + LogPosition::BYTES].copy_from_slice(&self.position.to_bytes());
        bytes[AT_SIGNATURE..AT_SIGNATURE + Signature::BYTES].copy_from_slice(&self.signature.to_bytes());
        put_u32(&mut bytes, AT_FILE_TYPE, FILE_TYPE_CHECKPOINT);
        checksum::stamp_header(&mut bytes);
        bytes
    }

    /// Reads a checkpoint file: its first intact copy, `None` if there is none.
    pub fn read(file: &[u8]) -> Option<Self> {
        let (copies, _) = file.as_chunks::<CHECKPOINT_BYTES>();
        copies.iter().take(2).find_map(Self::parse)
    }

    fn parse(bytes: &[u8; CHECKPOINT_BYTES]) -> Option<Self> {
        let intact =
            checksum::header_is_intact(bytes) && get_u32(bytes, AT_FILE_TYPE) == FILE_TYPE_CHECKPOINT;
        intact.then(|| Checkpoint {
            position: LogPosition::get(bytes, AT_POSITION),
            signature: Signature::get(bytes, AT_SIGNATURE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::LogTime;

    #[test]
    fn either_copy_alone_is_enough() {
        let checkpoint = |segment| Checkpoint {
            position: LogPosition::new(9, segment, 40),
            signature: Signature::new(3, LogTime::from_unix_ms(5)),
        };
        let mut file = [checkpoint(1).encode(), checkpoint(2).encode()].concat();
        assert_eq!(Checkpoint::read(&file), Some(checkpoint(1)));
        file[1000] ^= 1;
        assert_eq!(Checkpoint::read(&file), Some(checkpoint(2)));
        assert_eq!(Checkpoint::read(&file[..5000]), None);
        file[CHECKPOINT_BYTES + AT_FILE_TYPE] = 3;
        checksum::stamp_header(&mut file[CHECKPOINT_BYTES..]);
        assert_eq!(Checkpoint::read(&file), None);
    }
}
