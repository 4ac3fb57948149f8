//! Reports of the load generator out of lines and rows, by the words of their labels.
//!
//! Labels are compared by letters and digits only, because scans and versions differ in the rest. What is not known is
//! passed over: reports say much that no table of ours has.
//!
//! Limits: tables by volume (2003, 2007) tell databases from logs by the word "log" in the volume's name.

use super::document::Block;
use super::fields::{instant, number};
use crate::printed_figures::*;

/// Most rows of a table that are read: far more than any server has, and few enough that sums cannot overflow.
const MOST_ROWS: usize = 4_096;

/// A table of a Jetstress report, recognised by its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Transactional,
    Maintenance,
    Replication,
    Total,
    Host,
    Checksum,
    Backup,
    Recovery,
    Volumes,
    Other,
}

/// A column of such a table, recognised by its heading.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Name,
    ReadLatency(f64),
    WriteLatency(f64),
    Reads,
    Writes,
    ReadBytes,
    WriteBytes,
    LogReadLatency(f64),
    LogWriteLatency(f64),
    LogReads,
    LogWrites,
    LogReadBytes,
    LogWriteBytes,
    Average,
    Minimum,
    Maximum,
    Pages,
    Bad,
    Correctable,
    WrongNumber,
    Size,
    Seconds,
    Rate,
    Logs,
    Unknown,
}

/// A heading reduced to letters and digits in lower case, so that layouts do not matter.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Reads every Jetstress report in a document.
pub fn read(blocks: &[Block]) -> Vec<TestFigures> {
    let mut reader = Reader::default();
    for block in blocks {
        match block {
            Block::Line(text) => reader.line(text),
            Block::Row(cells) => reader.row(cells),
        }
    }
    reader.end_test();
    reader.tests
}

#[derive(Default)]
struct Reader {
    tests: Vec<TestFigures>,
    current: TestFigures,
    section: Option<Section>,
    columns: Vec<Column>,
    /// Rows of the volume table of the report that is being read.
    volumes: Vec<InstanceRow>,
    in_log: bool,
}

impl Reader {
    fn end_test(&mut self) {
        let mut test = std::mem::take(&mut self.current);
        (self.section, self.in_log) = (None, false);
        self.columns.clear();
        let volumes = std::mem::take(&mut self.volumes);
        if test.transactional.is_empty() {
            test.transactional = by_volume(volumes);
        }
        let says_something = !test.result.is_empty()
            || test.achieved_iops.is_some()
            || !test.transactional.is_empty()
            || !test.checksum.is_empty()
            || !test.backup.is_empty()
            || !test.recovery.is_empty();
        if !says_something {
            return;
        }
        if test.kind.is_empty() {
            test.kind = kind_by_tables(&test).to_owned();
        }
        complete(&mut test);
        self.tests.push(test);
    }

    fn line(&mut self, text: &str) {
        let label = plain(text);
        if let Some(kind) = title(&label) {
            // The same title on the next page of a scan goes on with the same report.
            if !self.current.kind.is_empty() && (self.current.kind != kind || !self.current.result.is_empty())
            {
                self.end_test();
            }
            self.current.kind = kind.to_owned();
            return;
        }
        if label.starts_with("testlog") {
            self.in_log = true;
            return;
        }
        if let Some(section) = section(&label) {
            (self.section, self.in_log) = (Some(section), false);
            self.columns.clear();
            return;
        }
        if self.in_log && self.current.log.len() < 10_000 {
            log_line(&mut self.current, text);
        }
    }

    fn row(&mut self, cells: &[String]) {
        if self.in_log {
            let text = cells.join(" ");
            return self.line(&text);
        }
        let columns: Vec<Column> = cells.iter().map(|cell| column(&plain(cell), cell)).collect();
        let known = columns.iter().filter(|column| !matches!(column, Column::Unknown | Column::Name)).count();
        if known >= 2 || (known == 1 && cells.len() == 2 && columns[0] == Column::Name) {
            self.columns = columns;
            return;
        }
        if self.columns.len() == cells.len() && self.section.is_some_and(|section| section != Section::Other)
        {
            return self.figures(cells);
        }
        if let [label, value] = cells {
            property(&mut self.current, &plain(label), value);
        }
    }

    fn figures(&mut self, cells: &[String]) {
        let Some(section) = self.section else { return };
        let line = Line { columns: &self.columns, cells };
        let name = cells.first().cloned().unwrap_or_default();
        let label = plain(&name);
        let (is_sum, is_average) =
            (label.contains("sum"), label.starts_with("avg") || label.starts_with("average"));
        let test = &mut self.current;
        let tables = [test.transactional.len(), test.total.len(), test.bdm.len(), test.log_replication.len()];
        let others = [
            test.host.len(),
            test.checksum.len(),
            test.backup.len(),
            test.recovery.len(),
            self.volumes.len(),
        ];
        if tables.into_iter().chain(others).any(|rows| rows >= MOST_ROWS) {
            return;
        }
        match section {
            Section::Transactional => test.transactional.push(line.instance(name, test.transactional.len())),
            Section::Total => test.total.push(line.instance(name, test.total.len())),
            Section::Volumes => self.volumes.push(line.instance(name, self.volumes.len())),
            Section::Maintenance => test.bdm.push(MaintenanceRow {
                n: test.bdm.len() as u32 + 1,
                reads_per_s: line.get(Column::Reads),
                read_avg_bytes: line.get(Column::ReadBytes),
            }),
            Section::Replication => test.log_replication.push(ReplicationRow {
                n: test.log_replication.len() as u32 + 1,
                log_reads_per_s: line.get(Column::LogReads),
                log_read_avg_bytes: line.get(Column::LogReadBytes),
            }),
            Section::Host => test.host.push(CounterRow {
                counter: name,
                avg: line.get(Column::Average),
                min: line.get(Column::Minimum),
                max: line.get(Column::Maximum),
            }),
            Section::Checksum if is_sum => {
                test.checksum_sum = Some(line.checksum(name, test.checksum.len()));
            }
            Section::Checksum => test.checksum.push(line.checksum(name, test.checksum.len())),
            Section::Backup if is_average => test.backup_avg_mb_per_s = line.get(Column::Rate),
            Section::Backup if is_sum => test.backup_sum_mb_per_s = line.get(Column::Rate),
            Section::Backup => test.backup.push(BackupClaims {
                n: test.backup.len() as u32 + 1,
                size_mb: line.get(Column::Size),
                elapsed_s: line.get(Column::Seconds),
                mb_per_s: line.get(Column::Rate),
            }),
            Section::Recovery if is_average => {}
            Section::Recovery if is_sum => test.recovery_sum_logs = line.get(Column::Logs),
            Section::Recovery => test.recovery.push(RecoveryClaims {
                n: test.recovery.len() as u32 + 1,
                logs: line.get(Column::Logs),
                seconds: line.get(Column::Seconds),
            }),
            Section::Other => {}
        }
    }
}

/// A table row whose columns have been recognised.
struct Line<'a> {
    columns: &'a [Column],
    cells: &'a [String],
}

impl Line<'_> {
    fn get(&self, wanted: Column) -> Option<f64> {
        let at = self.columns.iter().position(|column| *column == wanted)?;
        number(&self.cells[at])
    }

    /// A latency in ms; `unit` is the number of ms in the column's unit.
    fn latency_ms(&self, unit: fn(&Column) -> Option<f64>) -> Option<f64> {
        let at = self.columns.iter().position(|column| unit(column).is_some())?;
        Some(number(&self.cells[at])? * unit(&self.columns[at])?)
    }

    /// Adds I/O of an instance or volume, by its place in the table.
    fn instance(&self, name: String, others: usize) -> InstanceRow {
        InstanceRow {
            n: others as u32 + 1,
            name,
            db_read_latency_ms: self
                .latency_ms(|c| if let Column::ReadLatency(by) = c { Some(*by) } else { None }),
            db_write_latency_ms: self
                .latency_ms(|c| if let Column::WriteLatency(by) = c { Some(*by) } else { None }),
            db_reads_per_s: self.get(Column::Reads),
            db_writes_per_s: self.get(Column::Writes),
            db_read_avg_bytes: self.get(Column::ReadBytes),
            db_write_avg_bytes: self.get(Column::WriteBytes),
            log_read_latency_ms: self
                .latency_ms(|c| if let Column::LogReadLatency(by) = c { Some(*by) } else { None }),
            log_write_latency_ms: self
                .latency_ms(|c| if let Column::LogWriteLatency(by) = c { Some(*by) } else { None }),
            log_reads_per_s: self.get(Column::LogReads),
            log_writes_per_s: self.get(Column::LogWrites),
            log_read_avg_bytes: self.get(Column::LogReadBytes),
            log_write_avg_bytes: self.get(Column::LogWriteBytes),
        }
    }

    /// Adds a row of the checksum table, by its place in the table.
    fn checksum(&self, database: String, others: usize) -> ChecksumFigures {
        ChecksumFigures {
            n: others as u32 + 1,
            database,
            pages: self.get(Column::Pages),
            bad: self.get(Column::Bad),
            correctable: self.get(Column::Correctable),
            wrong_page_number: self.get(Column::WrongNumber),
            size_mb: self.get(Column::Size),
            seconds: self.get(Column::Seconds),
            mb_per_s: self.get(Column::Rate),
        }
    }
}

/// Turns rows of volumes into rows of instances, for reports of 2003: volumes of logs are recognised by their names,
/// and belong to the databases in the same order.
fn by_volume(volumes: Vec<InstanceRow>) -> Vec<InstanceRow> {
    let (logs, mut databases): (Vec<_>, Vec<_>) =
        volumes.into_iter().partition(|volume| plain(&volume.name).contains("log"));
    for (database, log) in databases.iter_mut().zip(logs) {
        database.log_writes_per_s = log.db_writes_per_s;
        database.log_write_latency_ms = log.db_write_latency_ms;
        database.log_write_avg_bytes = log.db_write_avg_bytes;
    }
    for (n, database) in (1u32..).zip(&mut databases) {
        database.n = n;
    }
    databases
}

/// The kind of report that begins with this title line.
fn title(label: &str) -> Option<&'static str> {
    if !label.ends_with("resultreport") && !label.ends_with("testresult") {
        return None;
    }
    // The name of the product has a kind of test in it.
    let label = label.replace("jetstress", "");
    let kinds = [
        ("stress", "stress"),
        ("checksum", "checksum"),
        ("backuptodisk", "backup_to_disk"),
        ("backup", "backup"),
        ("softrecovery", "soft_recovery"),
        ("loggeneration", "log_generation"),
        ("performance", "performance"),
    ];
    kinds.iter().find(|(word, _)| label.contains(word)).map(|(_, kind)| *kind)
}

fn kind_by_tables(test: &TestFigures) -> &'static str {
    match test {
        _ if !test.recovery.is_empty() => "soft_recovery",
        _ if !test.backup.is_empty() => "backup",
        _ if !test.checksum.is_empty() => "checksum",
        _ => "performance",
    }
}

fn section(label: &str) -> Option<Section> {
    // A sentence that mentions a table is not its heading.
    if label.len() > 60 {
        return None;
    }
    let sections = [
        ("transactionalioperformance", Section::Transactional),
        ("backgrounddatabasemaintenanceioperformance", Section::Maintenance),
        ("logreplicationioperformance", Section::Replication),
        ("totalioperformance", Section::Total),
        ("hostsystemperformance", Section::Host),
        ("checksumstatistics", Section::Checksum),
        ("backupstatistics", Section::Backup),
        ("recoverystatistics", Section::Recovery),
        // 2003 and 2007 count by volume.
        ("disksubsystemperformance", Section::Volumes),
    ];
    let found = sections.iter().find(|(word, _)| label.contains(word)).map(|(_, section)| *section);
    let others = ["testsummary", "databasesizing", "systemparameters", "databaseconfiguration", "testissues"];
    found.or_else(|| others.iter().any(|word| label.starts_with(word)).then_some(Section::Other))
}

fn column(label: &str, text: &str) -> Column {
    // "(sec)" and "sec/Read" are seconds, "(msec)" milliseconds.
    let to_ms = if label.contains("msec") { 1.0 } else { 1_000.0 };
    let log = label.contains("log") && !label.contains("logicaldisk");
    let has = |words: &[&str]| words.iter().all(|word| label.contains(word));
    let per_second = text.contains("/sec") || text.contains("/s");
    match label {
        _ if has(&["replayed"]) => Column::Logs,
        _ if log && has(&["read", "latency"]) => Column::LogReadLatency(to_ms),
        _ if log && has(&["write", "latency"]) => Column::LogWriteLatency(to_ms),
        _ if log && has(&["read", "bytes"]) => Column::LogReadBytes,
        _ if log && has(&["write", "bytes"]) => Column::LogWriteBytes,
        _ if log && has(&["read"]) && per_second => Column::LogReads,
        _ if log && has(&["write"]) && per_second => Column::LogWrites,
        _ if has(&["read", "latency"]) || has(&["avgdisksecread"]) => Column::ReadLatency(to_ms),
        _ if has(&["write", "latency"]) || has(&["avgdisksecwrite"]) => Column::WriteLatency(to_ms),
        _ if has(&["read", "bytes"]) => Column::ReadBytes,
        _ if has(&["write", "bytes"]) => Column::WriteBytes,
        _ if has(&["transferred"]) || has(&["mbsec"]) || has(&["mbytessec"]) => Column::Rate,
        _ if has(&["read"]) && per_second => Column::Reads,
        _ if has(&["write"]) && per_second => Column::Writes,
        "average" | "avg" => Column::Average,
        "minimum" | "min" => Column::Minimum,
        "maximum" | "max" => Column::Maximum,
        _ if has(&["seenpages"]) => Column::Pages,
        _ if has(&["badpages"]) => Column::Bad,
        _ if has(&["correctable"]) => Column::Correctable,
        _ if has(&["wrongpage"]) => Column::WrongNumber,
        _ if has(&["databasesizembytes"]) || has(&["filelength"]) || label == "sizemb" => Column::Size,
        _ if has(&["elapsed"]) || has(&["seconds"]) => Column::Seconds,
        _ if has(&["instance"]) || label == "database" || label == "counter" || has(&["logicaldisk"]) => {
            Column::Name
        }
        _ => Column::Unknown,
    }
}

/// Reads a line with a label and its value.
fn property(test: &mut TestFigures, label: &str, value: &str) {
    let figure = || number(value);
    match label {
        "overalltestresult" => test.result = value.to_owned(),
        "machinename" => test.machine = value.to_owned(),
        "teststarttime" => test.start = instant(value),
        "testendtime" => test.end = instant(value),
        "collectionstarttime" => test.collection_start = instant(value),
        "collectionendtime" => test.collection_end = instant(value),
        "jetstressversion" => test.jetstress_version = value.to_owned(),
        "eseversion" => test.ese_version = value.to_owned(),
        "operatingsystem" => test.operating_system = value.to_owned(),
        "achievedtransactionaliopersecond" | "achievedtransactionalios" => test.achieved_iops = figure(),
        "targettransactionaliopersecond" | "targettransactionalios" => test.target_iops = figure(),
        "initialdatabasesizebytes" => test.initial_database_bytes = figure(),
        "finaldatabasesizebytes" => test.final_database_bytes = figure(),
        "databasefilescount" => test.database_files = figure(),
        "threadcount" => test.threads = figure(),
        "minimumdatabasecache" => test.cache_min_mb = figure(),
        "maximumdatabasecache" => test.cache_max_mb = figure(),
        "numberofcopiesperdatabase" => test.copies_simulated = figure(),
        "insertoperations" | "deleteoperations" | "replaceoperations" | "readoperations" | "lazycommits" => {
            let name = label.trim_end_matches("operations").replace("lazycommits", "lazy_commit");
            if let Some(share) = figure() {
                test.op_mix.insert(format!("{name}_pct"), share);
            }
        }
        _ => {}
    }
}

/// Event of a test log: the load begins that goes on until there are enough logs for a soft recovery.
const GENERATION: &str = "generation_start";

/// Reads the lines of the test log that hold facts no table has.
fn log_line(test: &mut TestFigures, text: &str) {
    let label = plain(text);
    // A line begins with its time, the first two to four words.
    let time = (2..=3).rev().find_map(|words| {
        let head: Vec<&str> = text.split_whitespace().take(words).collect();
        instant(head.join(" ").trim_end_matches(['-', ' ']))
    });
    let events: [(&[&str], &str); 9] = [
        (&["preparingfortesting"], "prepare"),
        (&["attachingdatabases"], "attach"),
        (&["dispatchingtransactions", "begin"], "dispatch_start"),
        (&["performancelogging", "started"], "logging_start"),
        (&["attainedprerequisites"], "prerequisites_met"),
        (&["generatinglogfiles"], GENERATION),
        (&["performancelogging", "ended"], "logging_end"),
        (&["dispatchingtransactions", "end"], "dispatch_end"),
        (&["shuttingdown"], "shutdown"),
    ];
    if let Some(time) = time
        && let Some((_, event)) =
            events.iter().find(|(words, _)| words.iter().all(|word| label.contains(word)))
    {
        test.events.entry((*event).to_owned()).or_insert(time);
    }
    if label.contains("threshold") {
        thresholds(test, text, &label);
    }
    test.log.push(text.to_owned());
}

/// Reads latency limits such as `Database read latency thresholds: (average: 20 msec/read, maximum: 100 msec/read).`,
/// and the same for log writes.
fn thresholds(test: &mut TestFigures, text: &str, label: &str) {
    let text = text.to_lowercase();
    let after = |word: &str| {
        let rest = text.split_once(word)?.1;
        known(number(rest.trim_start_matches([':', '=', ' '])))
    };
    let (average, maximum) = (after("average"), after("maximum"));
    if average.is_none() && maximum.is_none() {
        return;
    }
    if label.contains("databaseread") {
        let limits = test.thresholds.get_or_insert_default();
        (limits.read_avg_ms, limits.read_max_ms) = (average, maximum);
    } else if label.contains("logwrite") {
        let limits = test.thresholds.get_or_insert_default();
        (limits.log_write_avg_ms, limits.log_write_max_ms) = (average, maximum);
    }
}

/// Fills in durations that follow from the times.
fn complete(test: &mut TestFigures) {
    let between = |from: &Option<Instant>, to: &Option<Instant>| {
        let (from, to) = (from.as_ref()?.unix_s()?, to.as_ref()?.unix_s()?);
        (to > from).then(|| (to - from) as f64)
    };
    test.duration_s = test.duration_s.or(between(&test.start, &test.end));
    test.collection_s = test.collection_s.or(between(&test.collection_start, &test.collection_end));
    // The load before a soft recovery writes a page of its own, with the title of a performance test.
    if test.kind == "performance" && test.events.contains_key(GENERATION) {
        test.kind = "log_generation".to_owned();
    }
    // A run of more than 6 h is a stress run, also under another title.
    if test.kind == "performance" && known(test.collection_s).is_some_and(|seconds| seconds > 6.0 * 3600.0) {
        test.kind = "stress".to_owned();
    }
    if let (Some(first), Some(last)) = (test.initial_database_bytes, test.final_database_bytes) {
        test.growth_bytes = Some(last - first);
    }
}
