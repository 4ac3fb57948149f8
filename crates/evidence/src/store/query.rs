//! SQL over a `run.db`, read-only, with the packed series as views.
//!
//! Invariants
//! 1. No query writes anything: the file is opened read-only and SQLite's authorizer refuses every
//!    action but reading, so `ATTACH`, `VACUUM INTO` and `PRAGMA` with a value are refused too.
//! 2. A view decodes only the blocks of the sources that a query asks for.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::Deserializer;
use results::Counter;
use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;

use super::open::{damaged, explain, open};
use super::{StoreError, pack};

const VIEWS: &str = include_str!("views.sql");

/// A value in the result of an SQL query.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Cell {
    /// The value as JSON; bytes as hexadecimal digits.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Cell::Null => serde_json::Value::Null,
            Cell::Integer(number) => (*number).into(),
            Cell::Real(number) => (*number).into(),
            Cell::Text(text) => text.as_str().into(),
            Cell::Blob(_) => self.text().into(),
        }
    }

    /// The value as plain text; bytes as hexadecimal digits.
    pub fn text(&self) -> String {
        match self {
            Cell::Null => String::new(),
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Column names as keys of one JSON object: a repeated name gets a number that is free.
pub fn keys(columns: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(columns.len());
    for name in columns {
        let is_free = |key: &String| !keys.contains(key) && (key == name || !columns.contains(key));
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let key = std::iter::once(name.clone()).chain(numbered).find(is_free);
        keys.extend(key);
    }
    keys
}

/// A `run.db` opened for SQL queries.
#[derive(Debug)]
pub struct Query {
    path: PathBuf,
    db: Connection,
}

impl Query {
    /// Opens the file read-only and adds the views and functions of this module.
    pub fn open(path: &Path) -> Result<Query, StoreError> {
        let mut db = open(path)?;
        prepare(&mut db).map_err(|error| explain(path, error))?;
        Ok(Query { path: path.to_owned(), db })
    }

    /// Runs one SQL statement; `head` gets the column names, then `row` each row as it comes.
    pub fn run<E: From<StoreError>>(
        &self,
        sql: &str,
        head: impl FnOnce(&[String]) -> Result<(), E>,
        mut row: impl FnMut(&[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(explain(&self.path, error));
        let mut statement = self.db.prepare(sql).map_err(failed)?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        head(&names)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(found) = rows.next().map_err(failed)? {
            let cells = (0..names.len()).map(|n| found.get_ref(n).map(cell)).collect::<Result<Vec<_>, _>>();
            row(&cells.map_err(failed)?)?;
        }
        Ok(())
    }

    /// Tables and views with their columns, in the order of the schema; views last.
    pub fn tables(&self) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let mut tables: Vec<(String, Vec<String>)> = Vec::new();
        self.run(
            "SELECT t.name, c.name FROM (
               SELECT name, 0 AS of_view, rowid AS place FROM main.sqlite_schema WHERE type = 'table'
               UNION ALL SELECT name, 1, rowid FROM temp.sqlite_schema WHERE type = 'view'
             ) AS t JOIN pragma_table_info(t.name) AS c ORDER BY t.of_view, t.place, c.cid",
            |_| Ok(()),
            |cells| -> Result<(), StoreError> {
                if let [Cell::Text(table), Cell::Text(column)] = cells {
                    match tables.last_mut().filter(|(name, _)| name == table) {
                        Some((_, columns)) => columns.push(column.clone()),
                        None => tables.push((table.clone(), vec![column.clone()])),
                    }
                }
                Ok(())
            },
        )?;
        Ok(tables)
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    }
}

fn prepare(db: &mut Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("unpack", 3, flags, unpack)?;
    db.create_aggregate_function("percentile_ms", 2, flags, Percentile)?;
    db.execute_batch(VIEWS)?;
    db.authorizer(Some(only_reading))
}

fn only_reading(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        AuthAction::Pragma { pragma_name, .. } if pragma_name.eq_ignore_ascii_case("table_info") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// SQL function `unpack(minute, measure, samples)`: a packed block as a JSON array of arrays of whole numbers.
fn unpack(context: &Context<'_>) -> rusqlite::Result<String> {
    let (minute, measure): (i64, String) = (context.get(0)?, context.get(1)?);
    let minute = u64::try_from(minute).map_err(|_| damaged(&format!("minute {minute}")))?;
    let block = context.get_raw(2).as_blob().map_err(|_| damaged("samples are no bytes"))?;
    let wrong = || damaged(&format!("samples of {measure} in minute {minute}"));
    let list =
        |numbers: &[u64]| format!("[{}]", numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    let rows: Vec<String> = if Counter::from_name(&measure).is_some() {
        let samples = pack::samples(minute, block).ok_or_else(wrong)?;
        samples.into_iter().map(|(t, interval, [value])| list(&[t, interval, value])).collect()
    } else {
        let samples = pack::samples(minute, block).ok_or_else(wrong)?;
        samples.into_iter().map(|(t, interval, [a, b, c, d])| list(&[t, interval, a, b, c, d])).collect()
    };
    Ok(format!("[{}]", rows.join(",")))
}

/// SQL aggregate `percentile_ms(hdr_v2, share)`: a percentile in ms of the sum of a group's latency distributions;
/// NULL if there is none.
struct Percentile;

/// State of the SQL aggregate: the summed distribution, and the requested quantile (0 to 1).
type Sum = (Hdr<u64>, f64);

impl Aggregate<Sum, Option<f64>> for Percentile {
    fn init(&self, _context: &mut Context<'_>) -> rusqlite::Result<Sum> {
        let mut sum = Hdr::new_with_bounds(1, 3_600_000_000, 2).expect("constant bounds are valid");
        sum.auto(true);
        Ok((sum, 0.0))
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Sum) -> rusqlite::Result<()> {
        let wrong = || damaged("a latency distribution cannot be decoded");
        let mut bytes = context.get_raw(0).as_blob().map_err(|_| wrong())?;
        let part: Hdr<u64> = Deserializer::new().deserialize(&mut bytes).map_err(|_| wrong())?;
        sum.0.add(&part).map_err(|_| wrong())?;
        sum.1 = context.get(1)?;
        Ok(())
    }

    fn finalize(&self, _context: &mut Context<'_>, sum: Option<Sum>) -> rusqlite::Result<Option<f64>> {
        Ok(sum.map(|(hdr, share)| hdr.value_at_quantile(share.clamp(0.0, 1.0)) as f64 / 1e3))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn repeated_column_gets_a_number_that_is_free() {
        let keys =
            |names: &[&str]| super::keys(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(keys(&["a", "b", "a", "a"]), ["a", "b", "a_2", "a_3"]);
        assert_eq!(keys(&["a", "a", "a_2"]), ["a", "a_3", "a_2"]);
    }
}
