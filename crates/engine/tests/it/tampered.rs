//! The log files of an instance that had crashed were removed, or their headers changed, before the next opening.
#![allow(clippy::print_stdout, reason = "says how many cases were tried")]

use crate::common::stage::Grounds;
use crate::common::tampered::{change_each_header_byte, remove_each_subset};
use engine::Redo;

#[test]
fn an_opening_without_any_of_its_log_files_is_refused_by_name_or_loses_nothing() {
    let (subsets, refused, failed) = remove_each_subset(&Grounds::make(Redo::InLogOrder));
    println!("{subsets} subsets of the log files were removed, {refused} openings refused");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(subsets > 10 && refused > 5 && refused < subsets, "{refused} of {subsets}");
}

#[test]
fn a_log_header_of_which_a_byte_has_another_value_is_refused_by_name() {
    let (changed, failed) = change_each_header_byte(&Grounds::make(Redo::InLogOrder));
    println!("{changed} bytes of log headers were changed");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(changed > 200, "{changed}");
}
