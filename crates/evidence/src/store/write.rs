//! Rows into SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use results::{
    Backup, Checksum, Claim, Database, Environment, Event, Histogram, Instance, Origin, Recovery,
    RecoveryWork, Row, Rule, Run, StoragePart, Test, TuningStep, Verdict,
};
use rusqlite::{Connection, OpenFlags, ToSql, params};
use serde::Serialize;

use super::sign::SigningKey;
use super::{APPLICATION_ID, SCHEMA, StoreError, VERSION, pack, seal};

/// Longest time that the end of a run waits for other readers of its `run.db`, before it leaves WAL mode.
const READERS_LEAVE_WITHIN: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(50);

type SourceKey = (u32, Origin, &'static str);

pub struct Writer {
    path: PathBuf,
    db: Connection,
    world: String,
    sources: BTreeMap<SourceKey, i64>,
    /// Samples since the last commit as packed blocks, by source and minute.
    pending: BTreeMap<(i64, i64), Vec<u8>>,
    in_transaction: bool,
    seals: Seals,
}

/// Which tests have rows that must still be sealed.
#[derive(Default)]
struct Seals {
    key: Option<SigningKey>,
    /// The test whose row was written last.
    current: Option<u32>,
    /// Tests whose row was written before it.
    announced: BTreeSet<u32>,
    /// Tests with rows that no seal covers yet.
    open: BTreeSet<u32>,
}

impl Writer {
    pub fn create(path: &Path, key: Option<SigningKey>) -> Result<Writer, StoreError> {
        // create_new: two runs that start at once cannot both believe that the file is theirs.
        match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists(path.to_owned()));
            }
            // Any other error SQLite finds again, and says it with the path.
            _ => {}
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open_with_flags(path, flags)?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            // A killed process loses nothing; a power cut may lose the last second but not the file.
            db.pragma_update(None, "synchronous", "NORMAL")?;
            db.pragma_update(None, "application_id", APPLICATION_ID)?;
            db.pragma_update(None, "user_version", VERSION)?;
            db.execute_batch(SCHEMA)?;
            db.set_prepared_statement_cache_capacity(64);
            Ok(db)
        };
        let db = open().map_err(|source| StoreError::Sqlite { path: path.to_owned(), source })?;
        Ok(Writer {
            path: path.to_owned(),
            db,
            world: String::new(),
            sources: BTreeMap::new(),
            pending: BTreeMap::new(),
            in_transaction: false,
            seals: Seals { key, ..Seals::default() },
        })
    }

    pub fn write(&mut self, row: &Row) -> Result<(), StoreError> {
        if let Row::Run(run) = row {
            self.world = text(&run.world);
        } else if self.world.is_empty() {
            return Err(self.damaged("a row was recorded before its run"));
        }
        if has_nan(row) {
            return Err(self.damaged(&format!("not a number in {row:?}")));
        }
        if let Row::Test(test) = row {
            self.announce(test.ordinal)?;
        }
        self.seals.open.extend(row.test());
        self.insert(row).map_err(|source| self.sqlite(source))
    }

    /// Notes that a test begins, and seals the tests before it that have unsealed rows.
    fn announce(&mut self, test: u32) -> Result<(), StoreError> {
        if self.seals.current.replace(test) != Some(test) {
            let ready: Vec<u32> = self.seals.open.intersection(&self.seals.announced).copied().collect();
            self.seal(ready.into_iter().filter(|other| *other != test).map(Some))?;
            self.seals.announced.insert(test);
        }
        Ok(())
    }

    fn seal(&mut self, what: impl IntoIterator<Item = Option<u32>>) -> Result<(), StoreError> {
        let mut what = what.into_iter().peekable();
        if what.peek().is_none() {
            return Ok(());
        }
        // The seals of a moment are in the file together, behind all that they cover.
        self.commit()?;
        let add_all = || -> rusqlite::Result<()> {
            self.db.execute_batch("BEGIN")?;
            for test in what {
                seal::add(&self.db, test, self.seals.key.as_ref())?;
                self.seals.open.retain(|open| Some(*open) != test);
            }
            self.db.execute_batch("COMMIT")
        };
        add_all().map_err(|source| StoreError::Sqlite { path: self.path.clone(), source })
    }

    fn sqlite(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Sqlite { path: self.path.clone(), source }
    }

    pub fn commit(&mut self) -> Result<(), StoreError> {
        self.commit_rows().map_err(|source| self.sqlite(source))
    }

    /// Seals and commits the rest and makes the database one file. While another program reads it all the time, the
    /// write-ahead log stays beside it.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if !self.world.is_empty() {
            let open = std::mem::take(&mut self.seals.open);
            self.seal(open.into_iter().map(Some).chain([None]))?;
        }
        // SQLite's own patience does not cover this. Who follows a run lets go of it a second after its end.
        let deadline = Instant::now() + READERS_LEAVE_WITHIN;
        let one_file = loop {
            match self.db.pragma_update(None, "journal_mode", "DELETE") {
                Err(error) if is_locked(&error) && Instant::now() < deadline => std::thread::sleep(RETRY),
                // All is in the file even so, unless a reader is in the middle of something: then it is in the
                // one beside it.
                Err(error) if is_locked(&error) => {
                    let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                    break Ok(());
                }
                done => break done,
            }
        };
        let closed = one_file.and_then(|()| self.db.close().map_err(|(_, error)| error));
        closed.map_err(|source| StoreError::Sqlite { path: self.path, source })
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }

    fn commit_rows(&mut self) -> rusqlite::Result<()> {
        if !self.in_transaction {
            return Ok(());
        }
        {
            // `||` of two blobs is their bytes; without the cast SQLite would call the result text.
            let mut append = self.db.prepare_cached(
                "INSERT INTO series (source, minute, samples) VALUES (?1, ?2, ?3)
                 ON CONFLICT (source, minute) DO UPDATE SET samples = CAST(samples || excluded.samples AS BLOB)",
            )?;
            for ((source, minute), block) in &self.pending {
                append.execute(params![source, minute, block])?;
            }
        }
        self.pending.clear();
        self.db.execute_batch("COMMIT")?;
        self.in_transaction = false;
        Ok(())
    }

    fn execute(&self, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute(values).map(|_| ())
    }

    fn insert(&mut self, row: &Row) -> rusqlite::Result<()> {
        if !self.in_transaction {
            self.db.execute_batch("BEGIN")?;
            self.in_transaction = true;
        }
        match row {
            Row::Sample(s) => self.append(
                s.test,
                &s.origin,
                s.measure.name(),
                s.t_ms,
                s.interval_ms,
                &pack::values(s.totals),
            ),
            Row::CounterSample(s) => {
                self.append(s.test, &s.origin, s.counter.name(), s.t_ms, s.interval_ms, &[s.value])
            }
            Row::Histogram(h) => self.insert_histogram(h),
            Row::Run(r) => self.insert_run(r),
            Row::Rule(r) => self.insert_rule(r),
            Row::Claim(r) => self.insert_claim(r),
            Row::Host(r) => self.execute(
                "INSERT OR REPLACE INTO host VALUES (?, ?, ?)",
                &[&r.name, &self.world, &r.description],
            ),
            Row::Environment(r) => self.insert_environment(r),
            Row::Instance(r) => self.insert_instance(r),
            Row::Database(r) => self.insert_database(r),
            Row::Volume(r) => self.execute(
                "INSERT OR REPLACE INTO volume VALUES (?, ?, ?, ?)",
                &[&r.host, &self.world, &r.name, &r.path],
            ),
            Row::DatabaseSize(r) => self.insert_at(
                "INSERT OR REPLACE INTO database_size VALUES (?, ?, ?, ?, ?, ?, ?)",
                r.test,
                &r.origin,
                &[&int(r.bytes_before)?, &r.bytes_after.map(int).transpose()?],
            ),
            Row::Checksum(r) => self.insert_checksum(r),
            Row::Backup(r) => self.insert_backup(r),
            Row::Recovery(r) => self.insert_recovery(r),
            Row::StoragePart(r) => self.insert_part(r),
            Row::Event(r) => self.insert_event(r),
            Row::Test(r) => self.insert_test(r),
            Row::TuningStep(r) => self.insert_step(r),
            Row::Verdict(r) => self.insert_verdict(r),
        }
    }

    fn insert_recovery(&mut self, r: &Recovery) -> rusqlite::Result<()> {
        let number = |of: fn(&RecoveryWork) -> u64| r.work.as_ref().map(|work| int(of(work))).transpose();
        self.insert_at(
            "INSERT INTO recovery VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            r.test,
            &r.origin,
            &[
                &int(r.logs)?,
                &int(r.elapsed_ms)?,
                &number(|work| work.segments_corrected)?,
                &number(|work| work.segments_given_up)?,
                &number(|work| work.segments_unexplained)?,
                &number(|work| work.page_changes)?,
                &number(|work| work.pages_repaired)?,
                &number(|work| work.transactions_undone)?,
                &r.work.as_ref().map(|work| json(&work.branches)),
            ],
        )
    }

    fn append(
        &mut self,
        test: u32,
        origin: &Origin,
        name: &'static str,
        t_ms: u64,
        interval_ms: u64,
        values: &[u64],
    ) -> rusqlite::Result<()> {
        let source = self.source(test, origin, name)?;
        let block = self.pending.entry((source, int(t_ms / pack::BLOCK_MS)?)).or_default();
        pack::append(block, t_ms, interval_ms, values);
        Ok(())
    }

    fn source(&mut self, test: u32, origin: &Origin, name: &'static str) -> rusqlite::Result<i64> {
        let key = (test, origin.clone(), name);
        if let Some(&id) = self.sources.get(&key) {
            return Ok(id);
        }
        self.execute(
            "INSERT INTO source (test, host, world, instance, database, measure) VALUES (?, ?, ?, ?, ?, ?)",
            &[&test, &origin.host, &self.world, &origin.instance, &origin.database, &name],
        )?;
        let id = self.db.last_insert_rowid();
        self.sources.insert(key, id);
        Ok(id)
    }

    fn insert_histogram(&mut self, h: &Histogram) -> rusqlite::Result<()> {
        let source = self.source(h.test, &h.origin, h.measure.name())?;
        self.execute(
            "INSERT INTO histogram VALUES (?, ?, ?, ?, ?)",
            &[&source, &int(h.t_ms)?, &int(h.interval_ms)?, &int(h.latency_ns_max)?, &h.hdr_v2],
        )
    }

    fn insert_rule(&self, r: &Rule) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO rule VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[&r.name, &self.world, &r.unit, &r.least, &r.most, &r.published_least, &r.published_most],
        )
    }

    fn insert_claim(&self, r: &Claim) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO claim VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &self.world,
                &r.mailboxes,
                &r.iops_per_server,
                &r.failure,
                &json(&r.hosts),
                &json(&r.tests),
                &r.iops_per_mailbox,
                &r.profile_iops_per_mailbox,
                &r.database_bytes,
                &json(&r.doubts),
                &r.storage,
                &r.copies,
                &r.engine,
                &r.day_mean_percent,
            ],
        )
    }

    fn insert_environment(&self, r: &Environment) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO environment VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[&r.host, &self.world, &r.area, &r.name, &r.value, &text(&r.severity), &r.note],
        )
    }

    fn insert_database(&self, r: &Database) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO database VALUES (?, ?, ?, ?, ?, ?)",
            &[&r.origin.host, &self.world, &r.origin.instance, &r.origin.database, &r.path, &r.page_bytes],
        )
    }

    fn insert_event(&self, r: &Event) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
            &[&int(r.t_ms)?, &text(&r.severity), &r.test, &r.host, &self.world, &r.text],
        )
    }

    fn insert_instance(&self, r: &Instance) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO instance VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.host,
                &self.world,
                &r.name,
                &r.log_path,
                &int(r.log_file_bytes)?,
                &int(r.cache_min_bytes)?,
                &int(r.cache_max_bytes)?,
            ],
        )
    }

    fn insert_checksum(&self, r: &Checksum) -> rusqlite::Result<()> {
        self.insert_at(
            "INSERT INTO checksum VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            r.test,
            &r.origin,
            &[
                &int(r.read.files)?,
                &int(r.read.pages)?,
                &int(r.read.uninitialised_pages)?,
                &int(r.read.bad_pages)?,
                &int(r.read.correctable_pages)?,
                &int(r.read.wrong_number_pages)?,
                &int(r.read.bytes)?,
                &int(r.elapsed_ms)?,
                &r.read.bytes_expected.map(int).transpose()?,
            ],
        )
    }

    fn insert_backup(&self, r: &Backup) -> rusqlite::Result<()> {
        self.insert_at(
            "INSERT INTO backup VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            r.test,
            &r.origin,
            &[&r.destination, &int(r.bytes)?, &int(r.elapsed_ms)?, &r.bytes_expected.map(int).transpose()?],
        )
    }

    fn insert_part(&self, r: &StoragePart) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO storage_part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.test,
                &self.world,
                &r.kind,
                &r.name,
                &r.seconds,
                &r.busy_share,
                &r.queue_mean,
                &int(r.reads)?,
                &int(r.writes)?,
                &int(r.read_bytes)?,
                &int(r.write_bytes)?,
                &r.read_latency_ms,
                &r.write_latency_ms,
                &int(r.cache_hits)?,
                &int(r.cache_misses)?,
                &int(r.cache_waits)?,
                &int(r.cache_dirty_bytes_max)?,
                &r.state,
            ],
        )
    }

    fn insert_test(&self, r: &Test) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO test VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.ordinal,
                &self.world,
                &r.kind,
                &r.name,
                &int(r.started_ms)?,
                &r.ended_ms.map(int).transpose()?,
                &r.window_start_ms.map(int).transpose()?,
                &r.window_end_ms.map(int).transpose()?,
                &r.window_planned_ms.map(int).transpose()?,
                &int(r.sample_ms)?,
                &r.sessions,
                &r.target_iops,
                &r.target_batches_per_s,
                &r.copies,
                &json(&r.parameters),
                &r.iops_per_mailbox,
                &json(&r.limits),
                &r.day.as_ref().map(json),
            ],
        )
    }

    fn insert_step(&self, r: &TuningStep) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO tuning_step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.test,
                &self.world,
                &r.ordinal,
                &r.load,
                &r.iops,
                &r.read_latency_ms,
                &r.log_write_latency_ms,
                &text(&r.outcome),
                &r.note,
            ],
        )
    }

    fn insert_verdict(&self, r: &Verdict) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.test,
                &r.origin.host,
                &self.world,
                &r.origin.instance,
                &r.origin.database,
                &r.rule,
                &r.text,
                &r.measured,
                &r.limit,
                &text(&r.comparison),
                &r.unit,
                &text(&r.outcome),
            ],
        )
    }

    fn insert_at(&self, sql: &str, test: u32, at: &Origin, values: &[&dyn ToSql]) -> rusqlite::Result<()> {
        let place: [&dyn ToSql; 5] = [&test, &at.host, &self.world, &at.instance, &at.database];
        let all: Vec<&dyn ToSql> = place.into_iter().chain(values.iter().copied()).collect();
        self.execute(sql, &all)
    }

    fn insert_run(&self, r: &Run) -> rusqlite::Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &r.id,
                &r.solution,
                &r.solution_text,
                &int(r.started_unix_ms)?,
                &r.tool_version,
                &text(&r.world),
                &r.world_detail,
                &r.seed.to_string(),
                &r.ended_ms.map(int).transpose()?,
                &r.ending.map(|ending| text(&ending)),
            ],
        )
    }
}

fn int(number: u64) -> rusqlite::Result<i64> {
    i64::try_from(number).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The stable name of an enum value, as a column stores it.
fn text(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("enums of rows are names, not {other:?}"),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rows have no maps with keys that are not text")
}

fn has_nan(row: &Row) -> bool {
    match row {
        Row::Test(r) => [r.target_iops, r.target_batches_per_s, r.iops_per_mailbox]
            .into_iter()
            .flatten()
            .chain(r.limits.iter().map(|limit| limit.value))
            .any(|x| !x.is_finite()),
        Row::TuningStep(r) => {
            [r.iops, r.read_latency_ms, r.log_write_latency_ms].iter().any(|x| !x.is_finite())
        }
        Row::Rule(r) => [r.least, r.most, r.published_least, r.published_most]
            .into_iter()
            .flatten()
            .any(|x| !x.is_finite()),
        Row::Claim(r) => [r.mailboxes, r.iops_per_server].into_iter().flatten().any(|x| !x.is_finite()),
        Row::Verdict(r) => [r.measured, r.limit].into_iter().flatten().any(|x| !x.is_finite()),
        _ => false,
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    error.sqlite_error_code().is_some_and(|code| matches!(code, DatabaseBusy | DatabaseLocked))
}
