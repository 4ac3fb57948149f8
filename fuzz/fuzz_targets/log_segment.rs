//! Any bytes as log segments with a right checksum: parsers never panic.
#![no_main]

use edb::checksum::{stamp, stamp_header};
use edb::log::{DATA_START, LogFile, LogHeader, LogPosition, LogTime, Records, SEGMENT_BYTES, Signature};
use libfuzzer_sys::fuzz_target;

const SEGMENTS: u16 = 4;

fuzz_target!(|data: &[u8]| {
    let header = LogHeader {
        generation: 1,
        segments: SEGMENTS,
        page_bytes: 8192,
        created: LogTime::default(),
        previous_created: LogTime::default(),
        signature: Signature::default(),
        circular: false,
    };
    let mut bytes = vec![0; usize::from(SEGMENTS) * SEGMENT_BYTES];
    bytes[..SEGMENT_BYTES].copy_from_slice(&header.encode());
    for number in 1..SEGMENTS {
        let segment = &mut bytes[usize::from(number) * SEGMENT_BYTES..][..SEGMENT_BYTES];
        let part = &data[(usize::from(number) * 97).min(data.len())..];
        let part = &part[..part.len().min(SEGMENT_BYTES - DATA_START)];
        segment[DATA_START..DATA_START + part.len()].copy_from_slice(part);
        segment[8..16].copy_from_slice(&LogPosition::new(1, number, 0).to_bytes());
        segment[37] = 0x20;
        stamp(segment, number.into());
    }
    let log = LogFile::read(bytes.clone()).expect("header and checksums are right");
    let mut records = Records::new();
    for segment in log.segments() {
        let _ = records.push(segment, |_, record| assert!(!record.is_empty()));
    }
    let used = data.len().min(bytes.len());
    bytes[..used].copy_from_slice(&data[..used]);
    let _ = LogFile::read(bytes.clone());
    stamp_header(&mut bytes[..SEGMENT_BYTES]);
    let _ = LogFile::read(bytes);
});
