//! The evidence of several hosts as one run.
//!
//! Each host counted time from its own start. The hosts opened their windows together, so the rows of a test
//! are moved to where its window (its start, if it has none) opened on all of them: samples of different hosts
//! then cover the same interval. A host that was out of step by more than [`IN_STEP_MS`] is not moved for it,
//! and an event says so.
//!
//! Invariant: a row keeps its host, its length and its values; only its place in time changes.
//!
//! Limits: the data of one host at a time is in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use results::{
    Comparison, Environment, Event, Origin, Outcome, Recorder, Row, Run, Severity, Test, Verdict, WorldKind,
};

use crate::environment::sharing::{self, SHARED, Shared};
use crate::store::{
    Chain, RunStore, SigningKey, StoreError, check, damaged, environment_after, explain, hosts, load, misfit,
    open, runs, tests, verdicts_after,
};

/// Most milliseconds between the starts of the hosts' windows that still count as started together.
pub const IN_STEP_MS: i64 = 1_000;

/// The `run.db` files of the hosts of a fleet, to be merged into the one of the fleet's run.
#[derive(Debug)]
pub struct HostRuns {
    parts: Vec<HostEvidence>,
}

#[derive(Debug)]
struct HostEvidence {
    db: PathBuf,
    run: Run,
    host: String,
    tests: BTreeMap<u32, Test>,
    /// For tests whose measured window never closed (the host died): the end of the last sample, by test.
    last_sample_ms: BTreeMap<u32, u64>,
    /// Milliseconds of the window in which this host's load generator stood still, by test.
    gaps_ms: BTreeMap<u32, u64>,
    /// Environment rows of this host from before and after its tests.
    environment: Vec<Environment>,
    /// Milliseconds that are added to this host's times outside of tests.
    shift_ms: i64,
    test_shifts_ms: BTreeMap<u32, i64>,
    /// Tests in which the host started its window earlier or later than the others, and by how many ms.
    out_of_step: Vec<(u32, i64)>,
}

impl HostEvidence {
    fn read(db: PathBuf) -> Result<HostEvidence, StoreError> {
        let connection = open(&db)?;
        let read = || {
            let run = runs(&connection)?.pop().ok_or_else(|| damaged("it holds no run"))?;
            let tests = tests(&connection)?.into_iter().map(|test| (test.ordinal, test)).collect();
            let host = hosts(&connection)?.pop().map_or(String::new(), |host| host.name);
            let environment = environment_after(&connection, 0)?.into_iter().map(|(_, row)| row).collect();
            Ok((run, host, tests, environment))
        };
        let (run, host, tests, environment) = read().map_err(|error| explain(&db, error))?;
        let read = || {
            let verdicts = verdicts_after(&connection, 0)?.into_iter().map(|(_, verdict)| verdict);
            let gaps = verdicts.filter(|verdict| verdict.rule == "window_without_gaps");
            let gap_ms = |verdict: Verdict| Some((verdict.test?, (verdict.measured? * 1e3).ceil() as u64));
            Ok(gaps.filter_map(gap_ms).collect())
        };
        let gaps_ms = read().map_err(|error| explain(&db, error))?;
        let last_sample_ms = last_samples(&db, &tests)?;
        let (test_shifts_ms, out_of_step) = Default::default();
        let shift_ms = 0;
        Ok(HostEvidence {
            db,
            run,
            host,
            tests,
            last_sample_ms,
            gaps_ms,
            environment,
            shift_ms,
            test_shifts_ms,
            out_of_step,
        })
    }

    /// The measured window of this host in the common time: start, end and planned length in ms.
    fn window(&self, ordinal: u32) -> Option<(u64, u64, u64)> {
        let test = self.tests.get(&ordinal)?;
        let (start_ms, planned_ms) = test.window_start_ms.zip(test.window_planned_ms)?;
        let end_ms = test.window_end_ms.or(self.last_sample_ms.get(&ordinal).copied()).unwrap_or(start_ms);
        let at = |t_ms: u64| self.moved(t_ms, Some(ordinal));
        Some((at(start_ms), at(end_ms), planned_ms))
    }

    fn moved(&self, t_ms: u64, test: Option<u32>) -> u64 {
        let shift = test.and_then(|test| self.test_shifts_ms.get(&test)).unwrap_or(&self.shift_ms);
        t_ms.saturating_add_signed(*shift)
    }

    fn moved_test(&self, test: &Test) -> Test {
        let at = |t_ms: u64| self.moved(t_ms, Some(test.ordinal));
        Test {
            started_ms: at(test.started_ms),
            ended_ms: test.ended_ms.map(at),
            window_start_ms: test.window_start_ms.map(at),
            window_end_ms: test.window_end_ms.map(at),
            ..test.clone()
        }
    }
}

/// End of the last sample of each test whose window did not close.
fn last_samples(db: &Path, tests: &BTreeMap<u32, Test>) -> Result<BTreeMap<u32, u64>, StoreError> {
    let is_open = |test: &&Test| test.window_start_ms.is_some() && test.window_end_ms.is_none();
    let mut last = BTreeMap::new();
    let open: Vec<u32> = tests.values().filter(is_open).map(|test| test.ordinal).collect();
    if open.is_empty() {
        return Ok(last);
    }
    for ((test, ..), points) in &load(db)?.series {
        let ends = points.iter().map(|point| point.t_ms + point.interval_ms);
        if let (true, Some(end_ms)) = (open.contains(test), ends.max()) {
            let last_ms: &mut u64 = last.entry(*test).or_default();
            *last_ms = end_ms.max(*last_ms);
        }
    }
    Ok(last)
}

/// The moment of a test that all hosts pass together, and by which their clocks are aligned: the start of the window,
/// else of the test.
fn anchor_ms(test: &Test) -> i64 {
    test.window_start_ms.unwrap_or(test.started_ms) as i64
}

/// What the `run.db` of a host must state to be merged into a fleet's run.
#[derive(Debug)]
pub struct Expected<'a> {
    /// Id of the run.
    pub run: &'a str,
    /// Name of the host.
    pub host: &'a str,
    /// Text of the solution file.
    pub solution_text: &'a str,
    /// Version of the program that recorded it.
    pub tool_version: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// The kinds of tests in their order, from the first.
    pub tests: &'a [&'static str],
}

/// Tables of `run.db` whose rows have a column with their host.
const OF_HOSTS: [&str; 11] = [
    "environment",
    "instance",
    "database",
    "volume",
    "database_size",
    "source",
    "checksum",
    "backup",
    "recovery",
    "event",
    "verdict",
];

impl Expected<'_> {
    /// Checks that the `run.db` that a host has sent belongs to the run.
    ///
    /// # Errors
    /// In words, what of it belongs to another run, host, solution file or program, or cannot be read.
    pub fn check(&self, db: &Path) -> Result<(), String> {
        let connection = open(db).map_err(|error| error.to_string())?;
        let unread = |error: &dyn std::fmt::Display| format!("it cannot be read: {error}");
        let run = match &runs(&connection).map_err(|error| unread(&error))?[..] {
            [run] => run.clone(),
            others => return Err(format!("it holds {} runs", others.len())),
        };
        let differs = [
            ("run", run.id != self.run),
            ("solution file", run.solution_text != self.solution_text),
            ("version of proofload", run.tool_version != self.tool_version),
            ("seed", run.seed != self.seed),
            ("kind of world", run.world != WorldKind::Real),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            return Err(format!("it is of another {what}"));
        }
        for table in OF_HOSTS {
            let sql = format!("SELECT host FROM {table} WHERE host <> ?1 LIMIT 1");
            let mut found = connection.prepare(&sql).map_err(|error| unread(&error))?;
            let mut rows = found.query([self.host]).map_err(|error| unread(&error))?;
            if let Some(row) = rows.next().map_err(|error| unread(&error))? {
                let other: String = row.get(0).map_err(|error| unread(&error))?;
                return Err(format!("its table {table} holds rows of {}", other.escape_debug()));
            }
        }
        for test in tests(&connection).map_err(|error| unread(&error))? {
            let planned = (test.ordinal as usize).checked_sub(1).and_then(|place| self.tests.get(place));
            if planned.is_none_or(|kind| *kind != test.kind) {
                return Err(format!("its test {} is none of this run", test.ordinal));
            }
            let times = [test.ended_ms, test.window_start_ms, test.window_end_ms];
            let is_late = |at_ms: u64| run.ended_ms.is_some_and(|ended_ms| at_ms > ended_ms);
            if times.into_iter().flatten().any(|at_ms| at_ms < test.started_ms || is_late(at_ms)) {
                return Err(format!("its test {} lies outside of its run", test.ordinal));
            }
        }
        match misfit(&check(db).map_err(|error| error.to_string())?.broken) {
            Some(misfit) => Err(format!("it was changed after it was recorded: {misfit}")),
            None => Ok(()),
        }
    }
}

impl HostRuns {
    /// Judges for each test how long all these hosts held the load together, like the window of one host is judged.
    /// What a host did outside of the common time, the others did not meet. A host holds no load before its window
    /// opens, after its last sample, and in a gap; a host without evidence holds none.
    pub fn common_windows(&self, hosts: &[String]) -> Vec<Verdict> {
        let with_window = |part: &HostEvidence| {
            let tests = part.tests.values().filter(|test| test.window_start_ms.is_some());
            tests.map(|test| test.ordinal).collect::<Vec<_>>()
        };
        let ordinals: BTreeSet<u32> = self.parts.iter().flat_map(with_window).collect();
        if hosts.len() < 2 {
            return Vec::new();
        }
        ordinals.into_iter().filter_map(|ordinal| self.common_window(ordinal, hosts)).collect()
    }

    fn common_window(&self, ordinal: u32, hosts: &[String]) -> Option<Verdict> {
        let part_of = |host: &String| self.parts.iter().find(|part| part.host == *host);
        let windows = hosts.iter().map(|host| (host, part_of(host).and_then(|part| part.window(ordinal))));
        let (with, without): (Vec<_>, Vec<_>) = windows.partition(|(_, window)| window.is_some());
        let held: Vec<_> = with.into_iter().filter_map(|(host, window)| Some((host, window?))).collect();
        let planned_ms = held.iter().map(|(_, window)| window.2).max()?;
        let start_ms = held.iter().map(|(_, window)| window.0).max()?;
        let (first_out, end_ms) =
            held.iter().map(|(host, window)| (*host, window.1)).min_by_key(|end| end.1)?;
        // Gaps of two hosts need not lie at the same time.
        let gap = |part: &HostEvidence| part.gaps_ms.get(&ordinal).copied().unwrap_or(0);
        let gaps_ms = self.parts.iter().map(gap).fold(0, u64::saturating_add);
        let longest = self.parts.iter().max_by_key(|part| gap(part)).filter(|part| gap(part) > 0);
        let common_ms = end_ms.saturating_sub(start_ms).saturating_sub(gaps_ms);
        Some(match (without.first(), longest) {
            (Some((host, _)), _) => held_together(ordinal, host, 0, planned_ms),
            (None, Some(part)) => held_together(ordinal, &part.host, common_ms, planned_ms),
            (None, None) => held_together(ordinal, first_out, common_ms, planned_ms),
        })
    }

    /// The machines, file systems, exports and disks that the hosts share.
    pub fn shared(&self) -> Vec<Shared> {
        let rows: Vec<Environment> = self.parts.iter().flat_map(|part| part.environment.clone()).collect();
        sharing::shared(&rows)
    }

    /// Reads runs and tests from the `run.db` of each host; also from a host that died in the middle.
    pub fn open(dbs: &[PathBuf]) -> Result<HostRuns, StoreError> {
        let mut parts =
            dbs.iter().cloned().map(HostEvidence::read).collect::<Result<Vec<HostEvidence>, StoreError>>()?;
        align(&mut parts);
        Ok(HostRuns { parts })
    }

    /// Wall-clock time at which the merged run begins, in ms since 1970; `None` without a host.
    pub fn started_unix_ms(&self) -> Option<u64> {
        let starts = |part: &HostEvidence| part.run.started_unix_ms.saturating_add_signed(-part.shift_ms);
        self.parts.iter().map(starts).min()
    }

    /// Number of tests that the host at this index carried out to their end.
    pub fn tests_ended(&self, part: usize) -> usize {
        self.parts[part].tests.values().filter(|test| test.ended_ms.is_some()).count()
    }

    /// Merges the rows of all hosts and `more` into one `run.db`. `run` is taken as it is, but for its end, which is
    /// that of the last host, and for how its world does I/O: where the hosts differ in that, each has an environment
    /// row for it, as it has for its own seals. Signs with the key, if there is one. Gives the verdicts of the hosts.
    pub fn write(
        &self,
        run: Run,
        more: Vec<Row>,
        into: &Path,
        key: Option<SigningKey>,
    ) -> Result<Vec<Verdict>, StoreError> {
        let mut store = RunStore::create_signed(into, key)?;
        let details: Vec<&str> = self.parts.iter().map(|part| part.run.world_detail.as_str()).collect();
        let mut distinct = details.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut run = Run { world_detail: distinct.join("; "), ..run };
        store.record(run.clone().into())?;
        let (mut last_ms, mut verdicts) = (0, Vec::new());
        for part in &self.parts {
            let data = load(&part.db)?;
            last_ms = last_ms.max(part.moved(data.last_ms(), None));
            verdicts.extend(data.verdicts.iter().cloned());
            let host = data.hosts.first().map_or(String::new(), |host| host.name.clone());
            if distinct.len() > 1 {
                let (area, name, value) =
                    ("System".to_owned(), "I/O".to_owned(), part.run.world_detail.clone());
                let (host, severity, note) = (host.clone(), Severity::Info, String::new());
                store.record(Environment { host, area, name, value, severity, note }.into())?;
            }
            store.record(sealed(&host, &data.seals).into())?;
            for row in data.into_rows() {
                if let Some(row) = moved(row, part) {
                    store.record(row)?;
                }
            }
            for (test, by_ms) in &part.out_of_step {
                let text = format!(
                    "was out of step with the other hosts by {:.1} s",
                    by_ms.unsigned_abs() as f64 / 1e3
                );
                let t_ms = part.moved(part.tests[test].started_ms, Some(*test));
                let (severity, test, host) = (Severity::Warning, Some(*test), host.clone());
                store.record(Event { t_ms, severity, test, host, text }.into())?;
            }
        }
        for test in self.tests() {
            store.record(test.into())?;
        }
        for row in more {
            store.record(row)?;
        }
        run.ended_ms = Some(last_ms);
        store.record(run.into())?;
        store.close()?;
        Ok(verdicts)
    }

    /// The tests of the merged run: start and window from all hosts, targets summed up. The end is that of the hosts
    /// that came to it; the target of a host that did not still counts.
    fn tests(&self) -> Vec<Test> {
        let mut by_ordinal: BTreeMap<u32, Vec<Test>> = BTreeMap::new();
        for part in &self.parts {
            for (ordinal, test) in &part.tests {
                by_ordinal.entry(*ordinal).or_default().push(part.moved_test(test));
            }
        }
        by_ordinal
            .into_values()
            .map(|rows| {
                let all = Test::of_all_hosts(&rows.iter().collect::<Vec<_>>());
                let ended: Vec<&Test> = rows.iter().filter(|test| test.ended_ms.is_some()).collect();
                if ended.is_empty() {
                    return all;
                }
                let Test { ended_ms, window_start_ms, window_end_ms, .. } = Test::of_all_hosts(&ended);
                Test { ended_ms, window_start_ms, window_end_ms, ..all }
            })
            .collect()
    }
}

/// The verdict on the time in which all hosts held the load of a test together. `host` is the one that made it
/// shortest.
fn held_together(ordinal: u32, host: &str, common_ms: u64, planned_ms: u64) -> Verdict {
    let limit_s = planned_ms.saturating_sub(IN_STEP_MS.unsigned_abs()) as f64 / 1e3;
    let (measured_s, planned_s) = (common_ms as f64 / 1e3, planned_ms as f64 / 1e3);
    let holds = Comparison::AtLeast.holds(measured_s, limit_s);
    Verdict {
        test: Some(ordinal),
        origin: Origin::host(host),
        rule: "window_in_common".into(),
        text: format!("all hosts held the load together for the planned {planned_s} s, less 1 s"),
        measured: Some(measured_s),
        limit: Some(limit_s),
        comparison: Comparison::AtLeast,
        unit: "s".into(),
        outcome: if holds { Outcome::Pass } else { Outcome::Unproved },
    }
}

/// Aligns the times of the hosts: works out what is added to each one's. The first host that came to a test sets the
/// time.
fn align(parts: &mut [HostEvidence]) {
    let Some(first) = parts.iter().position(|part| !part.tests.is_empty()) else { return };
    let (leading, leading_tests) = (parts[first].run.clone(), parts[first].tests.clone());
    for part in parts.iter_mut() {
        let common = part.tests.iter().find_map(|(ordinal, test)| Some((leading_tests.get(ordinal)?, test)));
        part.shift_ms = match common {
            Some((leads, follows)) if leads.ordinal == 1 => anchor_ms(leads) - anchor_ms(follows),
            _ => part.run.started_unix_ms as i64 - leading.started_unix_ms as i64,
        };
    }
    let mut opened_ms: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for part in parts.iter() {
        for (ordinal, test) in &part.tests {
            opened_ms.entry(*ordinal).or_default().push(anchor_ms(test) + part.shift_ms);
        }
    }
    // The middle one: a host that was out of step does not move the others.
    let together: BTreeMap<u32, i64> = opened_ms
        .into_iter()
        .map(|(ordinal, mut opened)| {
            opened.sort_unstable();
            (ordinal, opened[(opened.len() - 1) / 2])
        })
        .collect();
    for part in parts.iter_mut() {
        for (ordinal, test) in &part.tests {
            let by_ms = together[ordinal] - (anchor_ms(test) + part.shift_ms);
            if by_ms.abs() > IN_STEP_MS {
                part.out_of_step.push((*ordinal, by_ms));
            } else {
                part.test_shifts_ms.insert(*ordinal, part.shift_ms + by_ms);
            }
        }
    }
}

/// The environment row with the last seal of a host's own `run.db`, or with what contradicts it.
fn sealed(host: &str, chain: &Chain) -> Environment {
    let (severity, value, note) = match (&chain.digest, chain.broken.first()) {
        (_, Some(broken)) => {
            let value = format!("does not fit {}", broken.place);
            (Severity::Warning, value, "the host's run.db was changed after it was recorded")
        }
        (Some(digest), None) if chain.ended => (Severity::Info, digest.clone(), ""),
        (Some(digest), None) => {
            (Severity::Warning, digest.clone(), "the host's run was not sealed to its end: it was cut off")
        }
        (None, None) => (Severity::Info, "none".to_owned(), ""),
    };
    let (area, name) = ("Evidence".to_owned(), "Seal of the host's own run.db".to_owned());
    Environment { host: host.to_owned(), area, name, value, severity, note: note.to_owned() }
}

/// A host's row with its times in the common time; `None` for rows of which the merged run has one for all hosts.
fn moved(row: Row, part: &HostEvidence) -> Option<Row> {
    Some(match row {
        Row::Run(_) | Row::Test(_) => return None,
        // What hosts share is not for one of them to say.
        Row::Environment(row) if row.area == SHARED => return None,
        Row::Sample(mut row) => {
            row.t_ms = part.moved(row.t_ms, Some(row.test));
            row.into()
        }
        Row::CounterSample(mut row) => {
            row.t_ms = part.moved(row.t_ms, Some(row.test));
            row.into()
        }
        Row::Histogram(mut row) => {
            row.t_ms = part.moved(row.t_ms, Some(row.test));
            row.into()
        }
        Row::Event(mut row) => {
            row.t_ms = part.moved(row.t_ms, row.test);
            row.into()
        }
        other => other,
    })
}
