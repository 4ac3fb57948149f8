//! What checkers and readers written by others say about databases that a load has changed: closed, crashed, recovered.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Change, DATABASES, Databases, Kind, Load, Rows, Witness, real, scratch_dir};
use edb::record::RecordRef;
use engine::Instance;
use workload::mix::Random;
use workload::schema::Entry;
use workload::template::TemplateDatabase;
use world::World;

const SESSIONS: u64 = 4;
const TRANSACTIONS: u64 = 150;
const FILE_BYTES: u64 = 3 << 20;

/// Witness that keeps the committed rows in the order of the log.
struct Model(Rc<RefCell<Rows>>);

impl Witness for Model {
    fn committing(&self, changes: &[Change]) -> u64 {
        let mut rows = self.0.borrow_mut();
        for (name, version) in changes {
            match version {
                Some(version) => rows.insert(*name, *version),
                None => rows.remove(name),
            };
        }
        0
    }

    fn acknowledged(&self, _number: u64) {}
}

/// State in which the load leaves the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Closed: clean.
    Closed,
    /// Crashed after every page had been written: dirty, and the pages are consistent with each other.
    CrashedAtRest,
    /// Crashed under load: dirty. Each page is intact, but their ages differ.
    CrashedBusy,
    /// Crashed under load, then recovered and closed.
    Recovered,
}

const ENDS: [End; 4] = [End::Closed, End::CrashedAtRest, End::CrashedBusy, End::Recovered];

/// Creates databases, loads them, and ends as `end` says. Returns their rows; `None` after a crash under load,
/// because they are not known.
async fn make(world: &World, databases: &Databases, end: End) -> Option<Rows> {
    databases.create(world).await;
    let rows = Rc::new(RefCell::new(databases.initial_rows()));
    let mut config = databases.config();
    // Every page is written as soon as the flusher comes round.
    config.checkpoint_depth_bytes = if end == End::CrashedAtRest { 0 } else { 512 << 10 };
    let (instance, _) = Instance::open(world, &config).await.unwrap();
    let load = Rc::new(Load {
        instance: Rc::new(instance),
        templates: databases.templates.clone(),
        witness: Model(rows.clone()),
        next_version: 1.into(),
    });
    let session = |number: u64| {
        let load = load.clone();
        world.spawn(async move {
            let mut random = Random::new(number);
            for transaction in 0..TRANSACTIONS {
                let insert_pct = if transaction < TRANSACTIONS / 2 { 90 } else { 30 };
                load.transact(&mut random, insert_pct).await.unwrap();
            }
        })
    };
    let sessions: Vec<_> = (0..SESSIONS).map(session).collect();
    for session in sessions {
        session.await;
    }
    let load = Rc::into_inner(load).expect("the sessions have ended");
    let instance = Rc::into_inner(load.instance).expect("the load has ended");
    match end {
        End::Closed => instance.close().await.unwrap(),
        End::CrashedAtRest => {
            // A page counts as clean from the moment its write begins, so quiet has to last.
            let mut quiet = 0;
            while quiet < 25 {
                let busy = instance.cleanups_waiting() > 0 || instance.cache_status().dirty_pages > 0;
                quiet = if busy { 0 } else { quiet + 1 };
                world.sleep(Duration::from_millis(20)).await;
            }
            instance.abandon().await;
        }
        End::CrashedBusy => {
            instance.abandon().await;
            return None;
        }
        End::Recovered => {
            // The last commits may have been lazy: a durable one makes the model known.
            let mut last = instance.begin();
            let template = databases.template(1);
            let entry = Entry::Folder { id: 1, version: 1 << 20 };
            let (key, data) = (template.schema().key(entry), template.schema().data(entry));
            last.replace(1, template.tree(entry.tree()), &key, &data).await.unwrap();
            last.commit(engine::Durability::Durable).await.unwrap();
            rows.borrow_mut().insert((1, Kind::Folder, 1), 1 << 20);
            instance.abandon().await;
            let (instance, report) = Instance::open(world, &databases.config()).await.unwrap();
            assert!(report.changes_applied > 0, "nothing was recovered");
            instance.close().await.unwrap();
        }
    }
    Some(rows.take())
}

/// Runs a check on databases of each of these states, at two page sizes.
fn with_databases(ends: &[End], check: impl Fn(&Databases, Option<&Rows>, &str)) {
    for page_bytes in [4096, 32768] {
        for end in ends {
            let directory = scratch_dir();
            let databases = Databases::new(directory.path(), page_bytes, FILE_BYTES);
            let rows = real(async |world| make(&world, &databases, *end).await);
            check(&databases, rows.as_ref(), &format!("{end:?}, pages of {page_bytes}"));
        }
    }
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// States in which trees and space must be consistent, not only single pages.
const WHOLE: [End; 3] = [End::Closed, End::CrashedAtRest, End::Recovered];

fn run_checker(script: &Path, ends: &[End]) {
    with_databases(ends, |databases, _, what| {
        for db in 1..=DATABASES {
            let output = Command::new("python3").arg(script).arg(databases.path(db)).output().unwrap();
            assert!(output.status.success(), "{what}: {}", said(&output));
        }
    });
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn our_own_files_are_what_was_committed() {
    with_databases(&WHOLE, |databases, rows, what| {
        let found = databases.check_files().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(Some(&found) == rows, "{what}: other rows than were committed");
    });
}

#[test]
fn the_project_checker_accepts_changed_databases() {
    if testkit::has_python() {
        run_checker(&root().join("tools/edb_check.py"), &WHOLE);
    }
}

#[test]
fn the_tree_checker_accepts_changed_databases() {
    let script = root().join("../shared/tools/ese_tree_check.py");
    if testkit::has_neighbour(&script) && testkit::has_python() {
        run_checker(&script, &WHOLE);
    }
}

#[test]
fn the_checksum_checker_accepts_changed_databases() {
    let script = root().join("../shared/tools/ese_checksum_check.py");
    if testkit::has_neighbour(&script) && testkit::has_python() {
        run_checker(&script, &ENDS);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Number of the conversation (0 if it has none) and properties of a message.
fn message_columns(template: &TemplateDatabase, id: u32, version: u32) -> (i64, String) {
    let record = template.schema().data(Entry::Row { id, version });
    let record = RecordRef::new(&record);
    let conversation = record.fixed(3, 12, 8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()));
    (conversation.unwrap_or(0), hex(record.variable(128).unwrap()))
}

/// What `read_rows.py` must print, sorted.
fn expected_lines(template: &TemplateDatabase, db: u8, rows: &Rows) -> Vec<String> {
    let rows = rows.iter().filter(|((in_db, ..), _)| *in_db == db);
    let line = |(&(_, kind, id), &version): (&(u8, Kind, u32), &u32)| match kind {
        Kind::Message => {
            let (conversation, properties) = message_columns(template, id, version);
            let body = hex(&template.schema().data(Entry::Body { id, version }));
            format!("Messages {id} {version} {conversation} {properties} {body}")
        }
        Kind::Folder => {
            let record = template.schema().data(Entry::Folder { id, version });
            // The only tagged column ends the record; one byte before its value says what it is.
            format!("Folders {id} {version} {}", hex(&record[18..]))
        }
    };
    let mut lines: Vec<String> = rows.map(line).collect();
    lines.sort_unstable();
    lines
}

fn reads_every_row(library: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_rows.py");
    with_databases(&WHOLE, |databases, rows, what| {
        for db in 1..=DATABASES {
            let arguments = [script, library, &databases.path(db)];
            let output = Command::new("python3").args(arguments).output().unwrap();
            assert!(output.status.success(), "{what}: {}", said(&output));
            let mut lines: Vec<_> = str::from_utf8(&output.stdout).unwrap().lines().collect();
            lines.sort_unstable();
            let expected = expected_lines(databases.template(db), db, rows.expect("the rows are known"));
            assert_eq!(lines.len(), expected.len(), "{what}: number of rows");
            for (line, expected) in lines.iter().zip(&expected) {
                assert!(line == expected, "{what}: {line:.80} instead of {expected:.80}");
            }
        }
    });
}

#[test]
fn pyesedb_returns_every_row_that_was_written() {
    let install = "python3 -m pip install libesedb-python";
    if testkit::has_tool("python3", &["-c", "import pyesedb"], install) {
        reads_every_row("pyesedb");
    }
}

#[test]
fn dissect_returns_every_row_that_was_written() {
    let install = "python3 -m pip install dissect.esedb";
    if testkit::has_tool("python3", &["-c", "import dissect.esedb"], install) {
        reads_every_row("dissect");
    }
}

#[test]
fn libesedb_opens_and_exports_every_row() {
    let install = "sudo apt-get install -y libesedb-utils";
    if !testkit::has_tool("esedbexport", &["-V"], install)
        || !testkit::has_tool("esedbinfo", &["-V"], install)
    {
        return;
    }
    with_databases(&WHOLE, |databases, rows, what| {
        let rows = rows.expect("the rows are known");
        for db in 1..=DATABASES {
            let info = Command::new("esedbinfo").arg(databases.path(db)).output().unwrap();
            assert!(info.status.success() && said(&info).contains("Messages"), "{what}: {}", said(&info));
            let target = scratch_dir();
            let export = target.path().join("out");
            let run = Command::new("esedbexport")
                .args(["-m", "tables", "-t"])
                .arg(&export)
                .arg(databases.path(db))
                .output()
                .unwrap();
            assert!(run.status.success(), "{what}: {}", said(&run));
            check_export(databases.template(db), db, rows, &target.path().join("out.export"));
        }
    });
}

/// The exported Messages have the columns Id, Version, Conversation, Properties; long values are left out.
fn check_export(template: &TemplateDatabase, db: u8, rows: &Rows, tables: &Path) {
    let files = std::fs::read_dir(tables).unwrap().map(|entry| entry.unwrap());
    let table = files.into_iter().find(|entry| entry.file_name().to_string_lossy().starts_with("Messages"));
    let text = std::fs::read_to_string(table.expect("a file of messages").path()).unwrap();
    let messages = rows.iter().filter(|((in_db, kind, _), _)| *in_db == db && *kind == Kind::Message);
    let mut expected = messages.map(|((_, _, id), version)| {
        let (conversation, properties) = message_columns(template, *id, *version);
        // This program shows a currency as a number without sign.
        [id.to_string(), version.to_string(), conversation.cast_unsigned().to_string(), properties]
    });
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').take(4).collect();
        let expected = expected.next().expect("no more rows than were written");
        assert!(
            columns[..3] == expected[..3] && columns[3] == expected[3],
            "{columns:?} instead of {expected:?}"
        );
    }
    assert_eq!(expected.next(), None, "rows are missing");
}
