//! The rows of a `run.db` that another process is writing, as they come.
//!
//! Invariants
//! 1. Only reads: a run does not notice that it is followed.
//! 2. Of a long run only what is needed to show it now is read: the newest five minutes of hosts, the newest two of
//!    databases and logs, and of other tables what is new since the last look.
//!
//! Limits: a row that replaces another (a test that ends) is seen because the few rows of that kind are read each time.

use std::path::{Path, PathBuf};

use results::{Counter, CounterSample, Environment, Event, Measure, Row, Sample, Verdict};
use rusqlite::Connection;

use crate::StoreError;
use crate::store::{self, pack};

/// Minutes of host samples before now that the first look takes in.
const HOST_MINUTES: u64 = 5;
/// Minutes of database and log samples before now that the first look takes in.
const DATABASE_MINUTES: u64 = 2;

/// Reads the new rows of a `run.db` while its run goes on.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    db: Connection,
    events: i64,
    environment: i64,
    verdicts: i64,
    /// Start of the newest interval that was passed on, by source of samples.
    seen: std::collections::BTreeMap<i64, u64>,
}

impl Follower {
    /// Opens the `run.db`.
    pub fn open(path: &Path) -> Result<Follower, StoreError> {
        let db = store::open(path)?;
        Ok(Follower {
            path: path.to_owned(),
            db,
            events: 0,
            environment: 0,
            verdicts: 0,
            seen: Default::default(),
        })
    }

    /// Rows that are new since the last call, and in each call the rows that change in place: the run and its tests.
    pub fn rows(&mut self) -> Result<Vec<Row>, StoreError> {
        self.new_rows().map_err(|error| store::explain(&self.path, error))
    }

    fn new_rows(&mut self) -> rusqlite::Result<Vec<Row>> {
        // One transaction: everything is seen at one moment.
        self.db.execute_batch("BEGIN")?;
        let rows = self.read();
        self.db.execute_batch("COMMIT")?;
        rows
    }

    fn read(&mut self) -> rusqlite::Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        rows.extend(store::runs(&self.db)?.into_iter().map(Row::Run));
        rows.extend(store::rules(&self.db)?.into_iter().map(Row::Rule));
        rows.extend(store::hosts(&self.db)?.into_iter().map(Row::Host));
        let environment: Vec<(i64, Environment)> = store::environment_after(&self.db, self.environment)?;
        self.environment = environment.last().map_or(self.environment, |(rowid, _)| *rowid);
        rows.extend(environment.into_iter().map(|(_, row)| Row::Environment(row)));
        let tests = store::tests(&self.db)?;
        let newest = tests.iter().map(|test| test.ordinal).max();
        rows.extend(tests.into_iter().map(Row::Test));
        if let Some(test) = newest {
            self.samples(test, &mut rows)?;
        }
        let events: Vec<(i64, Event)> = store::events_after(&self.db, self.events)?;
        self.events = events.last().map_or(self.events, |(rowid, _)| *rowid);
        rows.extend(events.into_iter().map(|(_, event)| Row::Event(event)));
        let verdicts: Vec<(i64, Verdict)> = store::verdicts_after(&self.db, self.verdicts)?;
        self.verdicts = verdicts.last().map_or(self.verdicts, |(rowid, _)| *rowid);
        rows.extend(verdicts.into_iter().map(|(_, verdict)| Row::Verdict(verdict)));
        Ok(rows)
    }

    /// New samples of the test that runs.
    fn samples(&mut self, test: u32, rows: &mut Vec<Row>) -> rusqlite::Result<()> {
        let newest: Option<i64> = self.db.query_row(
            "SELECT max(minute) FROM series JOIN source ON source.id = source WHERE test = ?",
            [test],
            |row| row.get(0),
        )?;
        let Some(newest) = newest.and_then(|minute| u64::try_from(minute).ok()) else { return Ok(()) };
        let mut blocks =
            self.db.prepare_cached("SELECT minute, samples FROM series WHERE source = ? AND minute >= ?")?;
        let mut found_rows: Vec<(u64, Row)> = Vec::new();
        for (source, of_test, origin, measure) in store::sources(&self.db)? {
            if of_test != test {
                continue;
            }
            let minutes = if origin.instance.is_none() { HOST_MINUTES } else { DATABASE_MINUTES };
            let from = newest.saturating_sub(minutes);
            let seen = self.seen.get(&source).copied();
            // A block that was read to its end is not read again.
            let from = seen.map_or(from, |t_ms| from.max(t_ms / pack::BLOCK_MS));
            let found = blocks
                .query_map([source, from as i64], |row| {
                    Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Vec<u8>>(1)?))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let damaged = || store::damaged(&format!("samples of {measure}"));
            let is_new = |t_ms: u64| seen.is_none_or(|seen| t_ms > seen);
            let mut latest = seen;
            for (minute, block) in found {
                if let Some(counter) = Counter::from_name(&measure) {
                    for (t_ms, interval_ms, [value]) in pack::samples(minute, &block).ok_or_else(damaged)? {
                        if is_new(t_ms) {
                            let origin = origin.clone();
                            latest = latest.max(Some(t_ms));
                            let row = CounterSample { test, origin, counter, t_ms, interval_ms, value };
                            found_rows.push((t_ms, row.into()));
                        }
                    }
                } else {
                    let measure = Measure::from_name(&measure).ok_or_else(damaged)?;
                    for (t_ms, interval_ms, values) in pack::samples(minute, &block).ok_or_else(damaged)? {
                        let totals = pack::totals(values);
                        if is_new(t_ms) {
                            let origin = origin.clone();
                            latest = latest.max(Some(t_ms));
                            let row = Sample { test, origin, measure, t_ms, interval_ms, totals };
                            found_rows.push((t_ms, row.into()));
                        }
                    }
                }
            }
            if let Some(latest) = latest {
                self.seen.insert(source, latest);
            }
        }
        // Sources were read one after another; what they say belongs side by side.
        found_rows.sort_by_key(|(t_ms, _)| *t_ms);
        rows.extend(found_rows.into_iter().map(|(_, row)| row));
        Ok(())
    }
}
