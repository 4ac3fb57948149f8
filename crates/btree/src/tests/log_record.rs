use edb::identity::LogPosition;
use edb::page::{PageMut, PageRef, page_flags};
use proptest::prelude::*;
use smallvec::SmallVec;

use crate::change::{Before, MiniTransaction, PageChange, PageOp, Redo, Undo};
use crate::log_record::LogRecord;
use crate::page_coding::{PageCoding, PlainCoding};

const CODING: PlainCoding = PlainCoding { page_bytes: 4096 };

/// Decodes the pages that the record formats; `None` if one of them is not a page.
fn with_pages(mut record: LogRecord) -> Option<LogRecord> {
    if let LogRecord::Changes { mini, .. } = &mut record {
        let are_pages = mini.changes.iter_mut().all(|change| change.decode_page(&CODING));
        return are_pages.then_some(record);
    }
    Some(record)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

/// Builds a page with nodes; its unused middle is zero.
fn page() -> impl Strategy<Value = Box<[u8]>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..30).prop_map(|nodes| {
        let mut page = vec![0; 4096].into_boxed_slice();
        let mut edit = edb::page::PageMut::format(&mut page, 9, 8, edb::page::page_flags::LEAF, 77);
        for (slot, data) in nodes.iter().enumerate() {
            edit.insert(slot, &(slot as u32).to_be_bytes(), data, 0).unwrap();
        }
        page
    })
}

fn page_op() -> impl Strategy<Value = PageOp> {
    prop_oneof![
        (any::<u16>(), any::<u8>(), bytes(), bytes()).prop_map(|(slot, flags, key, data)| PageOp::Insert {
            slot,
            flags,
            key: key.into(),
            data: data.into(),
        }),
        any::<u16>().prop_map(|slot| PageOp::Delete { slot }),
        (any::<u16>(), bytes()).prop_map(|(slot, data)| PageOp::Replace { slot, data: data.into() }),
        (any::<u16>(), any::<u8>()).prop_map(|(slot, flags)| PageOp::SetNodeFlags { slot, flags }),
        any::<u32>().prop_map(|pgno| PageOp::SetPrevious { pgno }),
        any::<u32>().prop_map(|pgno| PageOp::SetNext { pgno }),
        bytes().prop_map(|header| PageOp::SetExternalHeader { header }),
        any::<u32>().prop_map(|flags| PageOp::SetPageFlags { flags }),
        any::<u16>().prop_map(|slot| PageOp::Truncate { slot }),
        page().prop_map(|page| PageOp::Format { page }),
    ]
}

fn undo() -> impl Strategy<Value = Undo> {
    let was = prop_oneof![
        Just(Before::Absent),
        Just(Before::Present),
        bytes().prop_map(|data| Before::Data { data: data.into() }),
        bytes().prop_map(|data| Before::Deleted { data: data.into() }),
    ];
    (any::<u32>(), any::<u32>(), bytes(), bytes(), was).prop_map(|(fdp, objid, key, tail, was)| Undo {
        fdp,
        objid,
        key: key.into(),
        tail: tail.into(),
        was,
    })
}

fn record() -> impl Strategy<Value = LogRecord> {
    let change = (any::<u32>(), any::<u64>(), prop::collection::vec(page_op(), 0..4)).prop_map(
        |(pgno, dbtime_before, ops)| PageChange { pgno, dbtime_before, ops: SmallVec::from_vec(ops) },
    );
    let mini =
        (any::<Option<u32>>(), prop::option::of(undo()), any::<bool>(), prop::collection::vec(change, 0..4))
            .prop_map(|(transaction, undo, compensates, changes)| MiniTransaction {
                transaction,
                undo,
                compensates,
                changes: changes.into(),
            });
    prop_oneof![
        8 => (any::<u64>(), mini).prop_map(|(dbtime, mini)| LogRecord::Changes { db: 1, dbtime, mini }),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(transaction, durable)| LogRecord::Commit { transaction, durable }),
        1 => any::<u32>().prop_map(|transaction| LogRecord::Rollback { transaction }),
        1 => (any::<u32>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..99))
            .prop_map(|(pgno, dbtime, encoded)| LogRecord::PageImage { db: 1, pgno, dbtime, encoded: encoded.into() }),
        1 => (any::<u8>(), any::<u32>(), any::<u32>())
            .prop_map(|(db, before, pages)| LogRecord::Extend { db, before, pages }),
        1 => ("[a-z/]{0,20}", any::<[u32; 2]>(), any::<u64>()).prop_map(|(path, [signature, page_bytes], dbtime)| {
            LogRecord::Attach { db: 3, path, signature, page_bytes, dbtime }
        }),
        1 => any::<u8>().prop_map(|db| LogRecord::Detach { db }),
        1 => any::<[[u8; 8]; 2]>().prop_map(|[position, finished]| LogRecord::Checkpoint {
            position: LogPosition::from_bytes(position),
            finished: LogPosition::from_bytes(finished),
        }),
    ]
}

proptest! {
    #[test]
    fn a_page_is_decoded_over_whatever_was_there(page in page()) {
        let mut encoded = Vec::new();
        CODING.encode(7, &page, &mut encoded);
        let mut decoded = vec![0xA5; page.len()];
        prop_assert!(CODING.decode(7, &encoded, &mut decoded));
        prop_assert_eq!(&decoded[..], &page[..]);
    }

    #[test]
    fn a_record_survives_its_encoding(record in record()) {
        let mut encoded = Vec::new();
        record.encode(&CODING, &mut encoded);
        prop_assert_eq!(LogRecord::decode(&encoded).and_then(with_pages), Some(record));
        // Nothing may follow, and nothing may be missing.
        encoded.push(0);
        prop_assert_eq!(LogRecord::decode(&encoded), None);
        prop_assert_eq!(LogRecord::decode(&encoded[..encoded.len() - 2]), None);
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), first in 0u8..9) {
        let bytes = [&[first, 1][..], &bytes].concat();
        let _ = LogRecord::decode(&bytes).and_then(with_pages);
    }

    #[test]
    fn a_changed_record_decodes_to_something_or_nothing(record in record(), at: usize, bit in 0u8..8) {
        let mut encoded = Vec::new();
        record.encode(&CODING, &mut encoded);
        let at = at % encoded.len();
        encoded[at] ^= 1 << bit;
        let decoded = LogRecord::decode(&encoded);
        // Code that takes a record apart relies on its edits.
        prop_assert_eq!(LogRecord::decode_apart(&encoded, |_, _| ()).is_some(), decoded.is_some());
        let decoded = decoded.and_then(with_pages);
        // What redo does with it must not panic either.
        if let Some(LogRecord::Changes { dbtime, mini, .. }) = decoded {
            let mut page = vec![0; 4096];
            edb::page::PageMut::format(&mut page, 9, 8, edb::page::page_flags::LEAF, 0);
            for change in mini.changes {
                let _ = change.apply(&mut page.clone(), dbtime);
            }
        }
    }
}

#[test]
fn redo_tells_an_old_page_from_a_new_one_and_both_from_a_wrong_one() {
    let mut page = vec![0; 4096];
    edb::page::PageMut::format(&mut page, 9, 8, edb::page::page_flags::LEAF, 100);
    let insert = PageOp::Insert { slot: 0, flags: 0, key: [1][..].into(), data: [2].into() };
    let change = PageChange::one(9, 100, insert.clone());
    assert_eq!(change.redo(&mut page.clone(), 100), Redo::AlreadyThere);
    assert_eq!(change.redo(&mut page, 120), Redo::Applied);
    assert_eq!(change.redo(&mut page, 120), Redo::AlreadyThere);
    let later = PageChange::one(9, 110, insert);
    let wrong = Redo::WrongVersion { expected_dbtime: 110, found_dbtime: 120 };
    assert_eq!(later.redo(&mut page, 130), wrong);
    let misfit = PageChange::one(9, 120, PageOp::Delete { slot: 5 });
    assert!(matches!(misfit.redo(&mut page, 130), Redo::Misfit(_)));
}

/// The log's own checksums prove that bytes are those that were written, not that they are a page.
#[test]
fn a_page_from_the_log_is_used_only_if_it_is_one() {
    let logged = |encoded: &[u8]| PageChange::one(7, 0, PageOp::FormatLogged { encoded: encoded.into() });
    let mut page = vec![0; 4096];
    edb::page::PageMut::format(&mut page, 7, 8, edb::page::page_flags::LEAF, 5);
    let encode = |page: &[u8]| {
        let mut encoded = Vec::new();
        CODING.encode(7, page, &mut encoded);
        encoded
    };
    let mut change = logged(&encode(&page));
    assert!(change.apply(&mut [0; 4096], 6).is_err(), "it is not decoded");
    assert!(change.decode_page(&CODING));
    change.apply(&mut [0; 4096], 6).unwrap();
    let encoded = encode(&page);
    assert!(!logged(&encoded[..encoded.len() - 1]).decode_page(&CODING), "no encoding");
    // More free bytes than a page has.
    page[28..30].fill(0xFF);
    assert!(!logged(&encode(&page)).decode_page(&CODING), "no page");
}

/// A page that was allocated and not used yet is valid, but it has no nodes, so every edit is refused.
#[test]
fn nothing_is_edited_on_a_page_that_nobody_has_made() {
    let ops = [
        PageOp::Insert { slot: 0, flags: 0, key: b"k".as_slice().into(), data: b"d".as_slice().into() },
        PageOp::SetExternalHeader { header: [1; 16].as_slice().into() },
        PageOp::Truncate { slot: 0 },
    ];
    for op in ops {
        let mut page = vec![0; 4096];
        PageMut::new(&mut page).set_flags(page_flags::LEAF | page_flags::PREINITIALISED);
        assert!(PageRef::new(&page).validate().is_ok());
        assert!(PageChange::one(7, 0, op).apply(&mut page, 9).is_err());
    }
}
