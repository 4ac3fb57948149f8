//! The bytes of every record of the log, as docs/log-format.md has them. A change of any of them is a new format.

use btree::{Before, LogRecord, MiniTransaction, PageChange, PageOp, PlainCoding, Undo};
use edb::identity::LogPosition;

const CODING: PlainCoding = PlainCoding { page_bytes: 4096 };
const DBTIME: u64 = 300;

fn undo(was: Before) -> Undo {
    Undo { fdp: 4, objid: 10, key: b"k".as_slice().into(), tail: b"".as_slice().into(), was }
}

fn changes(undo: Option<Undo>, ops: Vec<PageOp>) -> LogRecord {
    let transaction = undo.as_ref().map(|_| 5);
    let change = PageChange { pgno: 4, dbtime_before: DBTIME - 1, ops: ops.into() };
    let mini = MiniTransaction { transaction, undo, compensates: false, changes: [change].into() };
    LogRecord::Changes { db: 1, dbtime: DBTIME, mini }
}

fn insert(slot: u16) -> PageOp {
    PageOp::Insert { slot, flags: 0, key: b"k".as_slice().into(), data: b"v1".as_slice().into() }
}

fn records() -> Vec<(&'static str, LogRecord)> {
    let (position, finished) = (LogPosition::new(2, 3, 40), LogPosition::new(2, 1, 0));
    let path = "/db/0.edb".to_owned();
    vec![
        ("Changes", changes(Some(undo(Before::Absent)), vec![insert(0)])),
        ("Commit", LogRecord::Commit { transaction: 300, durable: true }),
        ("Rollback", LogRecord::Rollback { transaction: 5 }),
        ("PageImage", LogRecord::PageImage { db: 1, pgno: 9, dbtime: 64, encoded: [0xAA, 0xBB].into() }),
        ("Extend", LogRecord::Extend { db: 1, before: 62, pages: 78 }),
        ("Attach", LogRecord::Attach { db: 1, path, signature: 7, page_bytes: 4096, dbtime: 64 }),
        ("Detach", LogRecord::Detach { db: 1 }),
        ("Checkpoint", LogRecord::Checkpoint { position, finished }),
    ]
}

fn undos() -> Vec<(&'static str, Undo)> {
    let data = || b"v".as_slice().into();
    vec![
        ("Inserted", undo(Before::Absent)),
        ("Revived", undo(Before::Deleted { data: data() })),
        ("Replaced", undo(Before::Data { data: data() })),
        ("Deleted", undo(Before::Present)),
    ]
}

fn edits() -> Vec<(&'static str, PageOp)> {
    vec![
        ("Insert", insert(2)),
        ("Delete", PageOp::Delete { slot: 2 }),
        ("Replace", PageOp::Replace { slot: 2, data: b"v2".as_slice().into() }),
        ("SetNodeFlags", PageOp::SetNodeFlags { slot: 2, flags: 2 }),
        ("SetPrevious", PageOp::SetPrevious { pgno: 300 }),
        ("SetNext", PageOp::SetNext { pgno: 300 }),
        ("SetExternalHeader", PageOp::SetExternalHeader { header: vec![0xAA, 0xBB] }),
        ("SetPageFlags", PageOp::SetPageFlags { flags: 0x2800 }),
        ("Truncate", PageOp::Truncate { slot: 2 }),
        ("Format", PageOp::FormatLogged { encoded: [0xAA, 0xBB].into() }),
    ]
}

/// First column and example of every row below a heading of the document.
fn documented(heading: &str) -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/log-format.md");
    let text = std::fs::read_to_string(path).expect("the document exists");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading is there");
    let rows =
        section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| "));
    rows.skip(1)
        .map(|row| {
            let columns: Vec<&str> = row.split('|').map(str::trim).collect();
            let example = columns[columns.len() - 2].trim_matches('`');
            let bytes =
                example.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal bytes"));
            (columns[1].to_owned(), bytes.collect())
        })
        .collect()
}

/// The document has exactly these rows, and each is written and read as it says.
fn compare(heading: &str, records: Vec<(&'static str, LogRecord)>, example_of: impl Fn(&[u8]) -> Vec<u8>) {
    let expected = documented(heading);
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, records.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{heading}");
    for ((name, record), (_, bytes)) in records.into_iter().zip(&expected) {
        let mut written = Vec::new();
        record.encode(&CODING, &mut written);
        assert!(
            example_of(&written) == *bytes,
            "{name} is written as {:02X?}, documented as {bytes:02X?}",
            example_of(&written)
        );
        assert_eq!(LogRecord::decode(&written).as_ref(), Some(&record), "{name}");
    }
}

#[test]
fn every_record_has_the_documented_bytes() {
    compare("## Records", records(), <[u8]>::to_vec);
}

#[test]
fn every_undo_has_the_documented_bytes() {
    let records = undos().into_iter().map(|(name, undo)| (name, changes(Some(undo), Vec::new()))).collect();
    // Before it: kind, database, flags, dbtime, transaction. Behind it: one page change without edits.
    compare("### Undo", records, |written| written[6..written.len() - 4].to_vec());
}

#[test]
fn every_edit_has_the_documented_bytes() {
    let records = edits().into_iter().map(|(name, edit)| (name, changes(None, vec![edit]))).collect();
    // Before it: kind, database, flags, dbtime, number of pages; page, dbtime before, number of edits.
    compare("### Page changes", records, |written| written[9..].to_vec());
}

#[test]
fn a_record_of_a_later_program_is_none() {
    for kind in [0, 9, 0xFF] {
        assert_eq!(LogRecord::decode(&[kind, 1]), None);
    }
}
