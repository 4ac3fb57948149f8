//! The checksums of records.
//!
//! A segment's own checksum is a parity code that a torn write of regular data can pass. So each record ends with a
//! CRC-32C, and it goes on from that of the record before it in the same log: a record that is not what was written is
//! found, and so is one that is missing, at the record behind it.
//!
//! Limits: the first record that begins in a log goes on from the log's number only, so that reading can begin with any
//! log. The loss of a log's last records shows only where the next log says that this one was full.

/// Number of bytes that the checksum adds to each record.
pub const RECORD_SUM_BYTES: usize = 4;

/// Chained checksum: the value from which the next record's checksum continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordChain {
    generation: u32,
    sum: u32,
}

impl RecordChain {
    /// Checksum of the next record, which begins in log `generation` (from 1).
    pub(super) fn next(&self, generation: u32, record: &[u8]) -> RecordChain {
        let before =
            if self.generation == generation { self.sum } else { crc32c::crc32c(&generation.to_le_bytes()) };
        RecordChain { generation, sum: crc32c::crc32c_append(before, record) }
    }

    pub(super) fn bytes(&self) -> [u8; RECORD_SUM_BYTES] {
        self.sum.to_le_bytes()
    }
}
