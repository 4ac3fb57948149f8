//! Seals show every change of a `run.db` whose maker did not seal it again.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::path::{Path, PathBuf};

use evidence::{BrokenKind, Chain, RunStore, SigningKey, check, public_key};
use results::{Event, Recorder, Row, Severity};
use rusqlite::Connection;
use testkit::synthetic;
use testkit::synthetic::Shape;

fn small() -> Shape {
    Shape { window_s: 20, ..Shape::default() }
}

fn recorded(folder: &Path, key: Option<SigningKey>) -> PathBuf {
    let path = folder.join("run.db");
    let mut store = RunStore::create_signed(&path, key).unwrap();
    synthetic::record(&small(), &mut store).unwrap();
    store.close().unwrap();
    path
}

/// Seal chain of a copy of `path` after the statement `sql`.
fn after(path: &Path, sql: &str) -> Chain {
    let copy = path.with_file_name("copy.db");
    std::fs::copy(path, &copy).unwrap();
    let sql = format!("PRAGMA synchronous = OFF; {sql}");
    Connection::open(&copy).unwrap().execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    check(&copy).unwrap()
}

#[test]
fn closed_run_is_sealed_test_by_test_and_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), None);
    let chain = check(&path).unwrap();
    assert_eq!(chain.broken, []);
    assert!(chain.ended && chain.signer.is_none());
    assert_eq!((chain.sealed_tests.len(), chain.unsealed_tests.len()), (10, 0), "{chain:?}");
    assert_eq!(chain.digest, evidence::load(&path).unwrap().seals.digest);
    assert_eq!(after(&path, "VACUUM").broken, [], "the digest follows the rows, not where they lie");
}

#[test]
fn every_changed_cell_and_every_deleted_row_is_named_by_its_table() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), None);
    let db = Connection::open(&path).unwrap();
    // The schema itself fixes the number of the only claim.
    let columns: Vec<(String, String)> = db
        .prepare(
            "SELECT t.name, c.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
             WHERE t.type = 'table' AND t.schema = 'main' AND t.name NOT LIKE 'sqlite%' AND t.name <> 'seal'
             AND (t.name, c.name) <> ('claim', 'id')",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert!(columns.len() > 100, "the schema has many columns");
    let one = |table: &str| match table {
        "series" => "(source, minute) = (SELECT source, minute FROM series LIMIT 1)".to_owned(),
        _ => format!("rowid = (SELECT max(rowid) FROM {table})"),
    };
    let mut forgeries = Vec::new();
    for (table, column) in &columns {
        let value = match column.as_str() {
            "samples" | "hdr_v2" => format!("substr({column}, 2)"),
            _ => format!("ifnull({column}, 0) + 77"),
        };
        forgeries.push((table, format!("UPDATE {table} SET {column} = {value} WHERE {}", one(table))));
        forgeries.push((table, format!("DELETE FROM {table} WHERE {}", one(table))));
    }
    forgeries.dedup();
    for (table, sql) in forgeries {
        let broken = after(&path, &sql).broken;
        let named = broken
            .iter()
            .any(|broken| broken.kind == BrokenKind::Rows && broken.place.contains(table.as_str()));
        assert!(named, "{sql}: {broken:?}");
    }
}

#[test]
fn seals_that_are_missing_or_changed_break_the_chain() {
    let place = tempfile::tempdir().unwrap();
    let path = recorded(place.path(), None);
    for sql in [
        "DELETE FROM seal",
        "DROP TABLE seal",
        "DROP TABLE seal; UPDATE run SET ending = NULL, ended_ms = NULL",
        "DELETE FROM seal; UPDATE run SET ending = NULL, ended_ms = NULL",
        "DELETE FROM seal WHERE test IS NULL",
        "DELETE FROM seal WHERE test = 3",
        "DELETE FROM seal WHERE ordinal = 1",
        "UPDATE seal SET tables = '[]' WHERE test = 3; DELETE FROM verdict WHERE test = 3",
        "UPDATE seal SET previous = '' WHERE ordinal = 4",
        "UPDATE seal SET digest = previous WHERE ordinal = 4",
        "UPDATE seal SET test = 99 WHERE ordinal = 4",
    ] {
        let broken = after(&path, sql).broken;
        assert!(broken.iter().any(|broken| broken.kind == BrokenKind::Seal), "{sql}: {broken:?}");
    }
}

#[test]
fn killed_run_keeps_the_seals_of_the_tests_before() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.db");
    let mut store = RunStore::create(&path).unwrap();
    synthetic::record(&Shape { cut: true, ..small() }, &mut store).unwrap();
    store.flush().unwrap();
    let killed = check(&path).unwrap();
    assert_eq!((killed.broken.as_slice(), killed.ended), (&[][..], false));
    assert_eq!(
        (killed.sealed_tests.as_slice(), killed.unsealed_tests.as_slice()),
        (&[1, 2, 3, 4][..], &[5][..])
    );
}

#[test]
fn test_with_a_late_row_is_sealed_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.db");
    let mut rows: Vec<Row> = Vec::new();
    synthetic::record(&small(), &mut rows).unwrap();
    let (severity, host, text) = (Severity::Warning, "mbx1".to_owned(), "known only later".to_owned());
    rows.push(Event { t_ms: 1, severity, test: Some(2), host, text }.into());
    let mut store = RunStore::create(&path).unwrap();
    rows.into_iter().for_each(|row| store.record(row).unwrap());
    store.close().unwrap();
    assert_eq!(check(&path).unwrap().broken, []);
    let seals: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM seal WHERE test = 2", [], |row| row.get(0))
        .unwrap();
    assert_eq!(seals, 2);
    assert_ne!(after(&path, "DELETE FROM event WHERE text = 'known only later'").broken, []);
}

/// A forger who seals a run again does not have the key, so the signatures are missing or wrong.
#[test]
fn signed_run_that_was_sealed_again_has_lost_its_signer() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("key");
    let public = SigningKey::create(&file).unwrap().public();
    assert_eq!(public_key(&public.to_uppercase()).unwrap(), public);
    assert!(SigningKey::create(&file).is_err(), "a key is never overwritten");
    let path = recorded(place.path(), Some(SigningKey::read(&file).unwrap()));
    assert_eq!(check(&path).unwrap().signer, Some(public.clone()));

    let forged = place.path().join("forged");
    std::fs::create_dir(&forged).unwrap();
    let other = SigningKey::create(&forged.join("key")).unwrap();
    let other_public = other.public();
    for (key, signer) in [(None, None), (Some(other), Some(other_public))] {
        let again = recorded(&forged, key);
        let chain = check(&again).unwrap();
        assert_eq!((chain.broken.as_slice(), chain.signer), (&[][..], signer));
        std::fs::remove_file(again).unwrap();
    }
    // The signer is named, the signature is that of another digest.
    let moved = after(&path, "UPDATE seal SET signature = (SELECT signature FROM seal WHERE ordinal = 1)");
    assert!(moved.signer.is_none() && moved.broken.iter().any(|broken| broken.kind == BrokenKind::Seal));
    let partly = after(&path, "UPDATE seal SET signer = NULL, signature = NULL WHERE ordinal = 2");
    assert_eq!(partly.signer, None, "every seal has to be signed");
}

#[test]
fn file_that_is_no_key_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("key");
    for text in ["", "abc", &"g".repeat(64), &"0".repeat(65)] {
        std::fs::write(&file, text).unwrap();
        assert!(SigningKey::read(&file).is_err() && public_key(text).is_err(), "{text}");
    }
}
