//! What is left of changes that were undone.

use btree::{Before, EntryName, NodeKey, Undo};

use super::{Change, NO_ID, RowKey, Transactions};
use crate::log::LogPosition;

const BEGIN: LogPosition = LogPosition::new(3, 5, 7);

fn change(was: Before) -> Option<Change> {
    let undo = Undo { fdp: 31, objid: 9, key: NodeKey::from_slice(b"row"), tail: EntryName::new(), was };
    Some(Change { row: RowKey::of(1, &undo), undo })
}

fn after(changes: &[Before]) -> Transactions {
    let mut transactions = Transactions::default();
    for was in changes {
        transactions.changed(7, change(was.clone()), BEGIN);
    }
    changes.iter().for_each(|_| transactions.compensated(7));
    transactions
}

fn is_locked(transactions: &Transactions) -> bool {
    transactions.is_locked(&RowKey { db: 1, objid: 9, entry: EntryName::from_slice(b"row") })
}

#[test]
fn a_row_is_free_when_its_last_change_has_been_taken_back() {
    let brought_back = [Before::Present, Before::Deleted { data: b"old".as_slice().into() }];
    let mut transactions = after(&brought_back);
    assert!(!is_locked(&transactions));
    transactions.changed(8, change(Before::Present), BEGIN);
    transactions.changed(8, change(brought_back[1].clone()), BEGIN);
    transactions.compensated(8);
    assert!(is_locked(&transactions));
}

/// Live and in redo alike, since redo may begin behind the transaction that deleted it.
#[test]
fn an_entry_that_was_brought_back_in_vain_is_cleaned_up() {
    let transactions = after(&[Before::Deleted { data: b"old".as_slice().into() }]);
    let waiting: Vec<_> = transactions.cleanups.iter().map(|cleanup| cleanup.begin).collect();
    assert_eq!(waiting, [BEGIN]);
    assert!(after(&[Before::Present]).cleanups.is_empty());
}

#[test]
fn no_transaction_takes_a_number_twice_when_all_are_used_up() {
    let mut transactions = Transactions::default();
    transactions.note_id(u32::MAX - 1);
    assert_eq!(transactions.begin(), u32::MAX);
    assert_eq!([transactions.begin(), transactions.begin()], [NO_ID; 2]);
}
