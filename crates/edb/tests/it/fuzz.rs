//! Any bytes as a page, a header, a log: parsers never panic, and what they accept survives edits.

use edb::checkpoint::Checkpoint;
use edb::checksum::{correct, stamp, stamp_header};
use edb::header::DatabaseHeader;
use edb::log::{DATA_START, LogFile, LogHeader, LogPosition, LogTime, Records, SEGMENT_BYTES, Signature};
use edb::page::{PageMut, PageRef, best_prefix, page_flags};

const PAGE_SIZES: [usize; 4] = [4096, 8192, 16384, 32768];
const SEGMENTS: u16 = 4;

/// Pages of each size: leaves with and without a prefix, a branch page, the root of a space tree.
fn pages() -> Vec<Vec<u8>> {
    let kinds = [
        (page_flags::LEAF, &b"pre"[..]),
        (page_flags::LEAF, b""),
        (page_flags::PARENT_OF_LEAF, b""),
        (page_flags::ROOT | page_flags::LEAF | page_flags::SPACE, &[0; 16]),
    ];
    let page = |size: usize, (flags, header): (u32, &[u8])| {
        let mut bytes = vec![0; size];
        let mut page = PageMut::format(&mut bytes, 7, 9, flags, 64);
        page.set_external_header(header).expect("room");
        for n in 0..9u8 {
            page.insert(n.into(), &[b'p', b'r', b'e', n, n], &[n; 4], 0).expect("room");
        }
        page.finish(7);
        bytes
    };
    PAGE_SIZES.iter().flat_map(|size| kinds.map(|kind| page(*size, kind))).collect()
}

#[test]
fn no_page_makes_a_reader_or_an_edit_panic() {
    testkit::fuzz("page", &pages(), |input| {
        let size = PAGE_SIZES.into_iter().find(|size| *size >= input.len()).unwrap_or(32768);
        let mut bytes = vec![0; size];
        let used = input.len().min(size);
        bytes[..used].copy_from_slice(&input[..used]);
        let page = PageRef::new(&bytes);
        let key = &input[..input.len().min(20)];
        let valid = page.validate().is_ok();
        let _ = (
            page.check_order(),
            page.search(key),
            page.search_entry(key, key),
            page.child_slot_of_entry(key, &[]),
        );
        for slot in 0..page.node_count() {
            let _ = (page.node(slot).key(), page.node_bytes(slot));
        }
        let _ = correct(&mut bytes.clone(), 7);
        let _ = edb::verify::check_last_page(&bytes, 7);
        let count = PageRef::new(&bytes).node_count();
        if !valid || count == 0 || !PageRef::new(&bytes).is_leaf() {
            return;
        }
        let prefix = best_prefix(PageRef::new(&bytes), 0..count);
        let mut page = PageMut::new(&mut bytes);
        let _ = page.insert(count / 2, key, b"data", 0);
        let _ = page.replace_data(0, &input[..input.len().clamp(1, 600)]);
        let _ = page.recompress(&prefix);
        page.remove(0);
        page.finish(7);
        assert_eq!(page.view().validate(), Ok(()));
    });
}

#[test]
fn no_start_of_a_file_makes_the_reader_of_headers_panic() {
    let mut seed = vec![0; 4096];
    for (at, word) in [(4, 0x89AB_CDEF_u32), (8, 0x620), (52, 3), (104, 1), (232, 20), (236, 4096)] {
        seed[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    testkit::fuzz("header", &[seed], |input| {
        let mut bytes = vec![0; 2 * 32768];
        let used = input.len().min(bytes.len());
        bytes[..used].copy_from_slice(&input[..used]);
        let _ = DatabaseHeader::read(&bytes[..used]);
        let _ = Checkpoint::read(&bytes);
        // Random bytes never have the right checksum: give it to them.
        for size in PAGE_SIZES {
            stamp_header(&mut bytes[..size]);
            let _ = Checkpoint::read(&bytes);
            if let Ok((mut header, _)) = DatabaseHeader::read(&bytes) {
                let _ = (header.state(), header.generations(), header.signature().created().parts());
                assert!(DatabaseHeader::parse(header.stamped()).is_ok());
            }
        }
    });
}

#[test]
fn no_log_segment_makes_the_reader_of_logs_panic() {
    let header = LogHeader {
        generation: 1,
        segments: SEGMENTS,
        page_bytes: 8192,
        created: LogTime::default(),
        previous_created: LogTime::default(),
        signature: Signature::default(),
        circular: false,
    };
    let seeds: Vec<Vec<u8>> = (0..4u8).map(|n| (0..200u8).map(|i| i.wrapping_mul(n)).collect()).collect();
    testkit::fuzz("log_segment", &seeds, |input| {
        let mut bytes = vec![0; usize::from(SEGMENTS) * SEGMENT_BYTES];
        bytes[..SEGMENT_BYTES].copy_from_slice(&header.encode());
        for number in 1..SEGMENTS {
            let segment = &mut bytes[usize::from(number) * SEGMENT_BYTES..][..SEGMENT_BYTES];
            let part = &input[(usize::from(number) * 97).min(input.len())..];
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
        let used = input.len().min(bytes.len());
        bytes[..used].copy_from_slice(&input[..used]);
        let _ = LogFile::read(bytes.clone());
        stamp_header(&mut bytes[..SEGMENT_BYTES]);
        let _ = LogFile::read(bytes);
    });
}
