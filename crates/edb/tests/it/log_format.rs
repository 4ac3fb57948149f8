//! The bytes of the log's headers and segments, as docs/log-format.md has them. A change of any of them is a new
//! format.

use edb::log::{
    LogBuilder, LogHeader, LogHeaderDamage, LogTime, RecordChain, SEGMENT_BYTES, Signature, mark,
};

/// 2023-11-14 22:13:20.500 UTC.
const TIME_MS: u64 = 1_700_000_000_500;

fn header() -> LogHeader {
    let (created, before) = (LogTime::from_unix_ms(TIME_MS), LogTime::from_unix_ms(TIME_MS - 1000));
    LogHeader {
        generation: 42,
        segments: 256,
        page_bytes: 32768,
        created,
        previous_created: before,
        signature: Signature::new(7, created),
        circular: true,
    }
}

/// Offset and example of every row below a heading of the document.
fn documented(heading: &str) -> Vec<(usize, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/log-format.md");
    let text = std::fs::read_to_string(path).expect("the document exists");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading is there");
    let rows =
        section.lines().skip_while(|line| !line.starts_with("| ")).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|row| {
            let columns: Vec<&str> = row.split('|').map(str::trim).collect();
            let bytes: Vec<u8> = columns[4]
                .trim_matches('`')
                .split(' ')
                .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal bytes"))
                .collect();
            assert_eq!(columns[2].parse(), Ok(bytes.len()), "{row}");
            (columns[1].parse().expect("an offset"), bytes)
        })
        .collect()
}

/// The documented fields are there, and nothing else is.
fn compare(heading: &str, written: &[u8; SEGMENT_BYTES]) {
    let mut rest = *written;
    for (at, bytes) in documented(heading) {
        let found = &mut rest[at..at + bytes.len()];
        assert!(*found == *bytes, "{heading}, offset {at}: written {found:02X?}, documented {bytes:02X?}");
        found.fill(0);
    }
    let strange = rest.iter().position(|byte| *byte != 0);
    assert_eq!(strange, None, "{heading}: there is a byte that the document does not name");
}

#[test]
fn a_header_has_the_documented_bytes() {
    compare("## Header", &header().encode());
    assert_eq!(LogHeader::parse(&header().encode()), Ok(header()));
}

#[test]
fn a_segment_has_the_documented_bytes() {
    let mut builder = LogBuilder::new(42, 3, 256, RecordChain::default());
    builder.append(&[3, 5], LogTime::from_unix_ms(TIME_MS));
    builder.seal();
    let mut segment = builder.take_full().remove(0);
    segment.stamp(2);
    compare("## Segments", &segment.bytes);
}

#[test]
fn the_mark_of_a_passive_copy_has_the_documented_bytes() {
    compare("### Mark of a passive copy", &mark(42, 256, 9..12));
}

#[test]
fn a_log_of_another_version_is_refused_by_the_name_of_the_version() {
    let refused = |at: usize| {
        let mut bytes = header().encode();
        bytes[at] += 1;
        edb::checksum::stamp_header(&mut bytes);
        LogHeader::parse(&bytes).unwrap_err()
    };
    assert_eq!(refused(32), LogHeaderDamage::Format { found: [9, 4000, 5] });
    assert_eq!(refused(36), LogHeaderDamage::Format { found: [8, 4001, 5] });
    assert_eq!(refused(40), LogHeaderDamage::Format { found: [8, 4000, 6] });
    let records = refused(4092);
    assert_eq!(records, LogHeaderDamage::Records { found: 2 });
    assert!(records.to_string().contains("its records have format 2"), "{records}");
}
