//! Seals: running digests over the rows of a `run.db`. Form and meaning: `docs/run-db.md`.
//!
//! A seal covers the rows of one test, or those that belong to no test. It names each table with its number of
//! rows and their SHA-256, and the digest of the seal before it. Writer and checker read the rows back from the
//! file and digest them with the same function, so recording keeps nothing in memory for it.
//!
//! Invariants
//! 1. The digest depends on the rows as SQLite stores them, on their order and on the names of their columns;
//!    on nothing else.
//! 2. A test is sealed again if a row of it is recorded after its seal. The newest seal of a test counts.
//! 3. The last seal of a store that was closed covers what belongs to no test, so it ends the chain.
//!
//! 4. A file without seals is no quieter than one with wrong seals: every release seals.
//!
//! Limits: a user who can write the file can seal it again. Only a signature shows that.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use ring::digest::{Context, SHA256, digest};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Statement, ToSql, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::open::{damaged, explain, open};
use super::sign::{SigningKey, hex, is_signed};

/// Number and digest of the rows of one table, as a seal states them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct SealedTable {
    table: String,
    rows: u64,
    sha256: String,
}

/// A seal: a link of the hash chain over the rows of a `run.db`.
struct Seal {
    ordinal: i64,
    test: Option<u32>,
    tables: String,
    previous: String,
    digest: String,
    signer: Option<String>,
    signature: Option<String>,
}

impl Seal {
    fn expected_digest(&self) -> String {
        let test = self.test.map_or_else(|| "run".to_owned(), |test| test.to_string());
        let Seal { ordinal, tables, previous, .. } = self;
        sha256_hex(format!("proofload seal 1\n{ordinal}\n{test}\n{tables}\n{previous}\n").as_bytes())
    }
}

/// The seals of a `run.db`, checked against its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Chain {
    /// Digest of the last seal; `None` if the file has no seal.
    pub digest: Option<String>,
    /// Whether the recorder closed the file in order; one that was killed leaves it in WAL mode.
    pub closed: bool,
    /// Whether the last seal is the one at the end of a run, so that the run was closed and not killed.
    pub ended: bool,
    /// Tests whose rows are sealed.
    pub sealed_tests: Vec<u32>,
    /// Tests that have rows and no seal.
    pub unsealed_tests: Vec<u32>,
    /// The public key that every seal is signed by, as 64 hexadecimal digits. `None` without valid signatures
    /// of one key.
    pub signer: Option<String>,
    /// Contradictions between seals and rows.
    pub broken: Vec<Broken>,
}

/// A contradiction between a seal, or the run, and the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broken {
    /// What kind of contradiction it is.
    pub kind: BrokenKind,
    /// Seal, table and test that it concerns.
    pub place: String,
    /// What the seal or the run states.
    pub sealed: String,
    /// What the file holds.
    pub found: String,
}

/// A kind of contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokenKind {
    /// Rows differ from what was sealed.
    Rows,
    /// A seal is missing, was changed, or its signature does not fit.
    Seal,
    /// Rows are of another world than their run.
    World,
}

/// The sentence that every reader of a run shows first if its rows contradict its seals: the first contradiction, and
/// how many there are. `None` if all fit.
pub fn misfit(broken: &[Broken]) -> Option<String> {
    let first = broken.first()?;
    let Broken { place, sealed, found, .. } = first;
    let what = match first.kind {
        BrokenKind::Rows => "rows differ from their seals",
        BrokenKind::Seal => "seals are missing or changed",
        BrokenKind::World => "rows are of another world than their run",
    };
    let more = match broken.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("{what}: {place}: sealed: {sealed}; found: {found}{more}"))
}

/// SHA-256 as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Adds a seal to the end of the chain over the rows of `test`, or of no test.
pub(super) fn add(db: &Connection, test: Option<u32>, key: Option<&SigningKey>) -> rusqlite::Result<()> {
    let last: Option<(i64, String)> = db
        .query_row("SELECT ordinal, digest FROM seal ORDER BY ordinal DESC LIMIT 1", [], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .optional()?;
    let (ordinal, previous) = last.map_or((1, String::new()), |(ordinal, digest)| (ordinal + 1, digest));
    let tables = serde_json::to_string(&content(db, test)?).expect("a list of plain fields");
    let mut seal =
        Seal { ordinal, test, tables, previous, digest: String::new(), signer: None, signature: None };
    seal.digest = seal.expected_digest();
    if let Some(key) = key {
        (seal.signer, seal.signature) = (Some(key.public()), Some(key.sign(&seal.digest)));
    }
    db.execute(
        "INSERT INTO seal VALUES (?, ?, ?, ?, ?, ?, ?)",
        params![ordinal, test, seal.tables, seal.previous, seal.digest, seal.signer, seal.signature],
    )?;
    Ok(())
}

/// Reads the seals of a `run.db`, digests its rows again and compares them.
pub fn check(path: &Path) -> Result<Chain, StoreError> {
    let db = open(path)?;
    let read = || {
        // One transaction: a run that goes on is seen at one moment.
        db.execute_batch("BEGIN")?;
        of(&db)
    };
    read().map_err(|error| explain(path, error))
}

/// The same for a file that is open.
pub(super) fn of(db: &Connection) -> rusqlite::Result<Chain> {
    let mut found = chain(db)?;
    found.closed = is_closed(db);
    worlds(db, &mut found.broken)?;
    Ok(found)
}

/// Whether the file is not in WAL mode: the recorder leaves that mode as its last step. The byte is the "file format
/// write version" of the header (<https://sqlite.org/fileformat.html>).
fn is_closed(db: &Connection) -> bool {
    const WRITE_VERSION: usize = 18;
    let mut header = [0; WRITE_VERSION + 1];
    let file = db.path().and_then(|path| std::fs::File::open(path).ok());
    file.is_some_and(|mut file| file.read_exact(&mut header).is_ok()) && header[WRITE_VERSION] == 1
}

fn chain(db: &Connection) -> rusqlite::Result<Chain> {
    let mut chain = Chain::default();
    if !db.table_exists(None, "seal")? {
        chain.unsealed_tests = tests_with_rows(db)?.into_iter().collect();
        chain.broken.push(Broken {
            kind: BrokenKind::Seal,
            place: "table seal".into(),
            sealed: "no table of seals".into(),
            found: "a run, and every release seals its runs".into(),
        });
        return Ok(chain);
    }
    let seals = seals(db)?;
    links(&seals, &mut chain.broken);
    let mut newest: BTreeMap<Option<u32>, &Seal> = BTreeMap::new();
    for seal in &seals {
        newest.insert(seal.test, seal);
    }
    let last = seals.last();
    chain.digest = last.map(|seal| seal.digest.clone());
    chain.ended = last.is_some_and(|seal| seal.test.is_none());
    for (test, seal) in &newest {
        // The rows of no test are sealed at the end: a run that is taken up again does not exist.
        compare(*test, seal, &content(db, *test)?, &mut chain.broken)?;
    }
    let sealed: BTreeSet<u32> = newest.keys().copied().flatten().collect();
    chain.unsealed_tests = tests_with_rows(db)?.difference(&sealed).copied().collect();
    chain.sealed_tests = sealed.into_iter().collect();
    let ending: Option<Option<String>> =
        db.query_row("SELECT ending FROM run", [], |r| r.get(0)).optional()?;
    if ending.flatten().is_some() && !chain.ended {
        chain.broken.push(Broken {
            kind: BrokenKind::Seal,
            place: "run".into(),
            sealed: format!("{} seals, none of the run's end", seals.len()),
            found: "the run has ended".into(),
        });
    }
    // A test is sealed when the next one begins; the last one, if the run was killed, is not.
    let newest: Option<u32> = db.query_row("SELECT max(ordinal) FROM test", [], |r| r.get(0))?;
    let is_over = |test: u32| chain.ended || newest.is_some_and(|newest| test < newest);
    let over = chain.unsealed_tests.iter().filter(|test| is_over(**test));
    chain.broken.extend(over.map(|test| Broken {
        kind: BrokenKind::Seal,
        place: format!("test {test}"),
        sealed: "no seal".into(),
        found: "rows of a test that was over".into(),
    }));
    chain.signer = seals.first().and_then(|seal| seal.signer.clone()).filter(|signer| {
        seals.iter().all(|seal| {
            seal.signer.as_ref() == Some(signer)
                && seal.signature.as_ref().is_some_and(|signature| is_signed(&seal.digest, signer, signature))
        })
    });
    Ok(chain)
}

/// Checks that each seal is whole, follows the one before it, and is signed.
fn links(seals: &[Seal], broken: &mut Vec<Broken>) {
    let mut previous = String::new();
    for (n, seal) in seals.iter().enumerate() {
        let place = format!("seal {}", seal.ordinal);
        let mut differs = |sealed: &str, found: &str| {
            let (kind, place) = (BrokenKind::Seal, place.clone());
            broken.push(Broken { kind, place, sealed: sealed.to_owned(), found: found.to_owned() });
        };
        if seal.ordinal != n as i64 + 1 {
            differs(&format!("number {}", seal.ordinal), &format!("place {} of the chain", n + 1));
        } else if seal.previous != previous {
            differs(&format!("follows {}", short(&seal.previous)), &format!("follows {}", short(&previous)));
        }
        if seal.digest != seal.expected_digest() {
            differs(&short(&seal.digest), &short(&seal.expected_digest()));
        }
        if let (Some(signer), Some(signature)) = (&seal.signer, &seal.signature)
            && !is_signed(&seal.digest, signer, signature)
        {
            differs(&format!("signed by {}", short(signer)), "the signature does not fit");
        }
        previous.clone_from(&seal.digest);
    }
}

/// Checks that every row is of the world of its run, real or simulated; works without seals, too.
fn worlds(db: &Connection, broken: &mut Vec<Broken>) -> rusqlite::Result<()> {
    let Some(world) = db.query_row("SELECT world FROM run", [], |r| r.get::<_, String>(0)).optional()? else {
        return Ok(());
    };
    for table in tables(db)?.iter().filter(|table| table.columns.iter().any(|column| column == "world")) {
        let other = format!("SELECT world FROM {} WHERE world <> ? LIMIT 1", quoted(&table.name));
        if let Some(found) = db.query_row(&other, [&world], |r| r.get(0)).optional()? {
            let (kind, place) = (BrokenKind::World, format!("table {}", table.name));
            broken.push(Broken { kind, place, sealed: world.clone(), found });
        }
    }
    Ok(())
}

fn short(digest: &str) -> String {
    match digest.get(..16) {
        Some(start) => format!("{start}…"),
        None => "nothing".to_owned(),
    }
}

/// Compares number and digest of each table in a seal with the table now.
fn compare(
    test: Option<u32>,
    seal: &Seal,
    now: &[SealedTable],
    broken: &mut Vec<Broken>,
) -> rusqlite::Result<()> {
    let then: Vec<SealedTable> = serde_json::from_str(&seal.tables)
        .map_err(|error| damaged(&format!("tables of seal {}: {error}", seal.ordinal)))?;
    let at = |list: &[SealedTable], name: &str| list.iter().find(|table| table.table == name).cloned();
    let names: BTreeSet<&str> = then.iter().chain(now).map(|table| table.table.as_str()).collect();
    for name in names {
        let (sealed, found) = (at(&then, name), at(now, name));
        if sealed == found {
            continue;
        }
        let said = |table: &Option<SealedTable>| match table {
            Some(table) => format!("{} rows, {}", table.rows, short(&table.sha256)),
            None => "no rows".to_owned(),
        };
        let place = match test {
            Some(test) => format!("table {name}, test {test}"),
            None => format!("table {name}"),
        };
        broken.push(Broken { kind: BrokenKind::Rows, place, sealed: said(&sealed), found: said(&found) });
    }
    Ok(())
}

fn seals(db: &Connection) -> rusqlite::Result<Vec<Seal>> {
    db.prepare("SELECT * FROM seal ORDER BY ordinal")?
        .query_map([], |r| {
            Ok(Seal {
                ordinal: r.get("ordinal")?,
                test: r.get("test")?,
                tables: r.get("tables")?,
                previous: r.get("previous")?,
                digest: r.get("digest")?,
                signer: r.get("signer")?,
                signature: r.get("signature")?,
            })
        })?
        .collect()
}

/// How the rows of a table are assigned to tests, since each test has its seal.
enum Belongs {
    /// By the column with this name.
    Test(&'static str),
    /// By the test of their source.
    Source,
    /// They belong to the run as a whole.
    Run,
}

struct Table {
    name: String,
    columns: Vec<String>,
    belongs: Belongs,
    /// Columns that the rows are ordered by before they are digested.
    order: String,
}

/// Every table of the file except that of the seals, by name.
fn tables(db: &Connection) -> rusqlite::Result<Vec<Table>> {
    let names: Vec<(String, bool)> = db
        .prepare(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
             AND name NOT LIKE 'sqlite_%' AND name <> 'seal' ORDER BY name",
        )?
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut columns = db.prepare("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid")?;
    let mut tables = Vec::new();
    for (name, without_rowid) in names {
        let info: Vec<(String, u32)> =
            columns.query_map([&name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        let has = |column: &str| info.iter().any(|(name, _)| name == column);
        let belongs = match name.as_str() {
            "test" => Belongs::Test("ordinal"),
            _ if has("test") => Belongs::Test("test"),
            _ if has("source") => Belongs::Source,
            _ => Belongs::Run,
        };
        let mut keys: Vec<_> = info.iter().filter(|(_, pk)| *pk > 0).collect();
        keys.sort_by_key(|(_, pk)| *pk);
        let order = match without_rowid {
            true => keys.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", "),
            false => "rowid".to_owned(),
        };
        let columns = info.into_iter().map(|(name, _)| name).collect();
        tables.push(Table { name, columns, belongs, order });
    }
    Ok(tables)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The tables that have rows of `test`, or of no test, with number and digest of these rows.
fn content(db: &Connection, test: Option<u32>) -> rusqlite::Result<Vec<SealedTable>> {
    let mut sources = db.prepare("SELECT id FROM source WHERE test IS ? ORDER BY id")?;
    let sources: Vec<i64> = sources.query_map([test], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut content = Vec::new();
    for table in tables(db)? {
        let mut rows = Rows::new(&table);
        let select = |condition: &str| {
            let (name, order) = (quoted(&table.name), &table.order);
            db.prepare(&format!("SELECT * FROM {name} {condition} ORDER BY {order}"))
        };
        match table.belongs {
            Belongs::Test(column) => rows.add(&mut select(&format!("WHERE {column} IS ?"))?, &[&test])?,
            Belongs::Source => {
                let mut of_source = select("WHERE source = ?")?;
                for source in &sources {
                    rows.add(&mut of_source, &[source])?;
                }
            }
            Belongs::Run if test.is_none() => rows.add(&mut select("")?, &[])?,
            Belongs::Run => {}
        }
        content.extend(rows.finish());
    }
    Ok(content)
}

/// Ordinals of the tests that rows of a table belong to.
fn tests_with_rows(db: &Connection) -> rusqlite::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for table in tables(db)? {
        if let Belongs::Test(column) = table.belongs {
            let name = quoted(&table.name);
            let sql = format!("SELECT DISTINCT {column} FROM {name} WHERE {column} IS NOT NULL");
            for test in db.prepare(&sql)?.query_map([], |r| r.get(0))? {
                found.insert(test?);
            }
        }
    }
    Ok(found)
}

/// A running SHA-256 over rows of one table.
struct Rows<'a> {
    table: &'a Table,
    context: Context,
    rows: u64,
}

impl Rows<'_> {
    fn new(table: &Table) -> Rows<'_> {
        let mut context = Context::new(&SHA256);
        context.update(format!("{}({})\n", table.name, table.columns.join(",")).as_bytes());
        Rows { table, context, rows: 0 }
    }

    fn add(&mut self, select: &mut Statement<'_>, of: &[&dyn ToSql]) -> rusqlite::Result<()> {
        let mut rows = select.query(of)?;
        while let Some(row) = rows.next()? {
            self.rows += 1;
            for column in 0..self.table.columns.len() {
                let (tag, bytes): (u8, &[u8]) = match row.get_ref(column)? {
                    ValueRef::Null => (b'n', &[]),
                    ValueRef::Integer(number) => (b'i', &number.to_le_bytes()),
                    ValueRef::Real(number) => (b'r', &number.to_bits().to_le_bytes()),
                    ValueRef::Text(text) => (b't', text),
                    ValueRef::Blob(bytes) => (b'b', bytes),
                };
                self.context.update(&[tag]);
                self.context.update(&(bytes.len() as u64).to_le_bytes());
                self.context.update(bytes);
            }
        }
        Ok(())
    }

    fn finish(self) -> Option<SealedTable> {
        let sha256 = hex(self.context.finish().as_ref());
        (self.rows > 0).then(|| SealedTable { table: self.table.name.clone(), rows: self.rows, sha256 })
    }
}
